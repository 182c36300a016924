package txn

import (
	"context"

	"meridian/clock"
	"meridian/keys"
	"meridian/kv"
)

// External consistency (Spanner §4): if a transaction begins after another one has been answered, wherever and through whichever nodes, its timestamp is later. The
// leader protocol orders such transactions by true time; it has no other ranges, records or intents for them.
//
//	read-write   r = latest ---- reads at r, with locks ---- s = latest ----- writes at s, one round -----.
//	                                                         refresh to s    '---- until after(s) ---------'-- answered
//	read-only    r = latest ---- reads at r, without locks, at the leaseholders or any replica that has closed r -- answered
//
//	txn.TX11 (Spanner §4.1.2, start): the timestamp of a commit that writes is not before the Latest of the gateway's true time when the commit begins, and not before
//	    any read of the keys by others, as ever (leader.P1). The rows that were read are still so at that timestamp (txn.TX2), though it is in the future: the refresh says so, not the locks.
//	txn.TX12 (Spanner §4.1.2, commit wait): Commit returns when its timestamp is certainly in the past. The wait begins when the timestamp is chosen, so the
//	    consensus round is a part of it. Nobody who keeps to these rules sees the writes before (leader.P28).
//	txn.TX13 (Spanner §4.1.4): reads are at the Latest of the gateway's true time when the transaction first reads, or later. That is not before any commit that has been
//	    answered, so no version is uncertain there, and a transaction that does not write never starts over. Nor can a commit that chose an earlier timestamp, and is late,
//	    still write what was read: the leaseholder has promised not to write below (leader.P1). An earlier read timestamp would not do, though a read that finds an uncertain
//	    version moves up: two readers might see two commits in different orders.
//	txn.TX14 (Spanner §4.2.1): plain reads of a read-write transaction lock what they read for as long as the transaction lasts (LockReads). The locks keep others from making it start
//	    over; they may be lost with a lease, and then txn.TX11's refresh fails if somebody has written in between.
//
// A read need not wait for its timestamp, only for the versions that it has seen (leader.P28): it might as well have read at the moment when the last of them had passed.
//
// docs/decisions/0017-external-consistency.md compares with the paper.

// external is a transaction's part in external consistency.
type external struct {
	whole bool // from its first read on
	reads bool // plain reads lock (txn.TX14)
}

// BeExternal makes the transaction externally consistent from here on.
func (t *Txn) BeExternal() {
	if t.External() {
		return
	}
	t.external.whole = t.keeper.Unread()
	t.core.BeExternal()
	t.readPast()
	if t.o.ReadOnly && !t.core.Historical() {
		t.keeper.ReadNear()
	}
}

// readPast chooses the timestamp of a snapshot of which nothing has been read (txn.TX13).
func (t *Txn) readPast() {
	if t.External() && t.keeper.Unread() {
		t.core.ReadPast(t.db.o.Clock.TrueTime().Latest)
	}
}

// holdPast has what an externally consistent transaction has read, and begun to read before it was one, hold at a timestamp of txn.TX13.
func (t *Txn) holdPast(ctx context.Context) error {
	if !t.External() || t.external.whole || t.core.Historical() {
		return nil
	}
	return t.keeper.Hold(ctx, t.core.Snapshot(), t.db.o.Clock.TrueTime().Latest)
}

// External reports whether BeExternal was called.
func (t *Txn) External() bool { return t.core.Txn().External() }

// LockReads has the plain reads of users' rows that follow lock what they read (txn.TX14), or no longer.
func (t *Txn) LockReads(on bool) { t.external.reads = on && !t.core.Historical() && !t.o.ReadOnly }

// plain is the lock of a read of a key's row for which nobody has asked for one.
func (t *Txn) plain(k keys.Key, lock kv.LockStrength) kv.LockStrength {
	if lock == kv.NoLock && t.external.reads && keys.OfUser(k) {
		return kv.Shared
	}
	return lock
}

// startExternal chooses the least timestamp of the commit (txn.TX11).
func (t *Txn) startExternal() {
	if t.External() {
		t.core.ForwardWrite(t.db.o.Clock.TrueTime().Latest)
	}
}

// awaitCommitted is the wait of txn.TX12, or of txn.TX8.
func (t *Txn) awaitCommitted(ctx context.Context, at clock.Timestamp) error {
	c := t.db.o.Clock
	if t.External() {
		return c.AwaitAfter(ctx, at)
	}
	return c.AwaitPast(ctx, at)
}

// committedPast reports whether awaitCommitted returns at once.
func (t *Txn) committedPast(at clock.Timestamp) bool {
	c := t.db.o.Clock
	if t.External() {
		return c.TrueTime().After(at)
	}
	return c.Passed(at)
}
