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
//	read-write   reads, and locks what it reads ---- s = latest ----- writes at s, one round -----.
//	                                                 refresh to s    '---- until after(s) ---------'-- answered
//	read-only    r = latest ---- reads at r, at any replica that has closed it, without locks -------- answered
//	one range    ------------- reads what is there, at its leaseholder ------------------------------- answered
//
//	txn.TX11 (Spanner §4.1.2, start): the timestamp of a commit that writes is not before the Latest of the gateway's true time when the commit begins, and not before
//	    any read of the keys by others, as ever (leader.P1). What was read holds at that timestamp (txn.TX2), though it is in the future: the refresh says so, not the locks.
//	txn.TX12 (Spanner §4.1.2, commit wait): Commit returns when its timestamp is certainly in the past. The wait begins when the timestamp is chosen, so the
//	    consensus round is a part of it. Nobody who keeps to these rules sees the writes before (leader.P28).
//	txn.TX13 (Spanner §4.1.4): a transaction that only reads, and more than one range, reads at the Latest of the gateway's true time when it first reads, which is not
//	    before any commit that has been answered. No version is uncertain there, so it never starts over. One that reads a single range, of which all is known
//	    beforehand, reads at the leaseholder's present (LastTS), and need not wait for a timestamp ahead of the clock.
//	txn.TX14 (Spanner §4.2.1): plain reads of a read-write transaction lock what they read for as long as the transaction lasts (LockReads). The locks keep others from making it start
//	    over; they may be lost with a lease, and then txn.TX11's refresh fails if somebody has written in between.
//
// docs/decisions/0017-external-consistency.md compares with the paper.

// external is a transaction's part in external consistency.
type external struct {
	whole bool // from its first read on
	reads bool // plain reads lock (txn.TX14)
}

// BeExternal makes the transaction externally consistent from here on. scope are the spans that the running statement may read, if it is the whole transaction and
// writes nothing; readOnly says that the transaction will not write.
func (t *Txn) BeExternal(readOnly bool, scope []keys.Span) {
	first := !t.core.Txn().External()
	t.core.BeExternal()
	if !first {
		return
	}
	c := t.db.o.Clock
	t.external.whole = t.leader.MayReadPast()
	if readOnly && t.external.whole && !t.oneRange(scope) {
		t.leader.ReadPast(c.TrueTime().Latest)
	}
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

// oneRange reports whether spans are known to lie in one range.
func (t *Txn) oneRange(spans []keys.Span) bool {
	if len(spans) == 0 || t.db.o.Ranges == nil {
		return false
	}
	last := spans[len(spans)-1]
	end := last.Start
	if !last.Point() {
		end = last.End
	}
	return t.db.o.Ranges.OneRange(spans[0].Start, end)
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
