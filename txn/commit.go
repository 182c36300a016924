package txn

import (
	"context"
	"encoding/binary"
	"errors"

	"meridian/admission"
	"meridian/clock"
	"meridian/commit"
	"meridian/commit/transaction"
	"meridian/kv"
)

// fail makes the attempt unusable: a heartbeat found the transaction aborted, or part of its buffer is lost.
func (t *Txn) fail(cause error) error { return t.core.Fail(transaction.AbortedByOther, cause, true) }

// Commit commits. After *RetryError the transaction can be restarted; after *kv.AmbiguousError it can't be used any more; after any other
// error it has to be rolled back.
func (t *Txn) Commit(ctx context.Context) error {
	return t.commit(ctx, nil)
}

// CommitWithTrigger commits, and the range of the first write carries out a trigger atomically with the commit.
func (t *Txn) CommitWithTrigger(ctx context.Context, trigger *kv.CommitTrigger) error {
	return t.commit(ctx, trigger)
}

// commit goes through its phases, in each of which every protocol that the transaction has met takes part:
//
//	ready        what the statements have left open is settled
//	commitReads  a transaction without writes: what it has read holds, and nothing else happens
//	divide       writes are divided by the protocols of their ranges, and reads of other protocols hold
//	decide       a protocol that has all writes commits them by itself
//	Commit       the Keeper's: one phase, or a record; batch after batch, until all has been acknowledged
//	publish      the outcome is told, and waited for
func (t *Txn) commit(ctx context.Context, trigger *kv.CommitTrigger) error {
	if err := t.ready(ctx); err != nil {
		return err
	}
	if trigger == nil && t.core.ReadOnly() {
		return t.commitReads(ctx)
	}
	t.startExternal()
	t.core.SetTrigger(trigger)
	if err := t.divide(ctx); err != nil {
		return err
	}
	if decided, err := t.decide(ctx); decided || err != nil {
		return err
	}
	if err := t.noteElsewhere(); err != nil {
		return err
	}
	one, err := t.keeper.Commit(ctx)
	if err != nil {
		return err
	}
	return t.publish(ctx, one)
}

// ready settles what the statements have left open.
func (t *Txn) ready(ctx context.Context) error {
	if err := t.usable(); err != nil {
		return err
	}
	if err := t.Confirm(ctx); err != nil {
		return err
	}
	if t.relied {
		if err := t.doubted(); err != nil {
			return err
		}
	}
	return t.Settle(ctx) // txn.LD4
}

// commitReads commits a transaction without writes.
func (t *Txn) commitReads(ctx context.Context) error {
	db := t.db
	if err := t.holdElsewhere(ctx); err != nil {
		return err
	}
	if err := t.keeper.CheckHeld(ctx); err != nil {
		return err
	}
	if err := t.holdPast(ctx); err != nil {
		return err
	}
	if t.validity != nil && !t.validity.Valid(t.core.Txn().ReadTimestamp) {
		return t.core.Fail(transaction.DeadlinePassed, nil, false)
	}
	later := t.core.CommitReadOnly(t.beat.record())
	t.finish(committed)
	t.dropLoads(true)
	db.cleanup(later)
	db.metrics.ReadOnlyCommits.Add(1)
	if t.external.whole {
		return t.answerable() // leader.P28 has waited for what it has seen
	}
	return t.commitWait(ctx, t.core.Txn().ReadTimestamp)
}

// divide gives the writes to the protocols of their ranges, and has reads of other protocols than the default one hold.
func (t *Txn) divide(ctx context.Context) error {
	if err := t.locateWrites(ctx); err != nil {
		return err
	}
	if err := t.takeElsewhere(); err != nil {
		return err
	}
	if err := t.holdElsewhere(ctx); err != nil {
		return err
	}
	t.core.SetDeadline(t.boundElsewhere(t.core.Deadline()))
	return nil
}

// publish tells the outcome of a transaction that has committed, and waits until its timestamp is past everywhere.
func (t *Txn) publish(ctx context.Context, one bool) error {
	db := t.db
	if landed := t.keeper.Recall(); landed != nil {
		landed(ctx) // others have found all of them, and made the commit explicit (txn.PW5)
	}
	at, later, _ := t.core.Committed()
	if later != nil && later.End && t.o.Name == "" { // those that have one are the node's own
		db.o.Probes.Reached(ProbeStaged)
	}
	if t.elsewhere() {
		t.others.committed(at)
	}
	t.finish(committed)
	t.dropLoads(true)
	db.committed(ctx, later)
	if one {
		db.metrics.OnePhaseCommits.Add(1)
	} else {
		db.metrics.TwoPhaseCommits.Add(1)
	}
	if t.onCommit != nil {
		t.onCommit(at)
	}
	return t.commitWait(ctx, at.Forward(t.core.Txn().ReadTimestamp))
}

// commitWait (txn.TX8, txn.TX12) returns when the gateway's clock has passed the timestamps at which the transaction has written or read: from then
// on every transaction that begins anywhere finds them at or below its own timestamp, or uncertain (CRDB'22 §6.2). Only timestamps of the
// future need a wait. The locks are being released meanwhile. The transaction has committed, so it can't be cancelled any more: the wait,
// which is as long as a timestamp can lie in the future, ends early only if the node stops.
func (t *Txn) commitWait(ctx context.Context, at clock.Timestamp) error {
	if t.core.Historical() || t.committedPast(at) {
		return t.answerable()
	}
	id := t.core.Txn().ID
	defer admission.Block(ctx, binary.LittleEndian.Uint64(id[:])).Resume()
	start := t.db.o.Host.Clock.Monotonic()
	err := t.awaitCommitted(t.db.o.Host.Group.Context(), at)
	t.db.metrics.CommitWaits.Add(1)
	t.db.metrics.CommitWaitNanos.Add(int64(t.db.o.Host.Clock.Monotonic() - start))
	if err != nil {
		return &kv.AmbiguousError{Reason: "the node stops, and the commit's timestamp has not come"}
	}
	return t.answerable()
}

// answerable is the error of a transaction that has committed, or was read to its end, at a node whose clock turned out to be doubtful meanwhile (clock.C6).
func (t *Txn) answerable() error {
	err := t.doubted()
	switch {
	case err == nil || !t.relied:
		return nil
	case t.core.ReadOnly():
		return err
	}
	return &kv.AmbiguousError{Reason: "it has committed, and others may not see it yet: " + err.Error()}
}

// undecided notes a commit that ends with an error, after which its outcome may be unknown.
func (t *Txn) undecided(err error) error {
	if isAmbiguous(err) {
		t.finish(unknown)
		t.db.metrics.Ambiguous.Add(1)
		t.db.o.Probes.Reached("commit: the outcome is unknown")
	}
	return err
}

func isAmbiguous(err error) bool {
	var ambiguous *kv.AmbiguousError
	return errors.As(err, &ambiguous)
}

// latest is the timestamp that the commit must not exceed; zero is none.
func (t *Txn) latest(ctx context.Context) (d clock.Timestamp) {
	at := t.core.Txn().WriteTimestamp
	if t.deadline != nil {
		if d = t.deadline.Deadline(); !d.IsZero() && d.Less(at) {
			t.deadline.AwaitDeadline(ctx, at)
			d = t.deadline.Deadline()
		}
	}
	if h := t.holder; h != nil && h.Held() > 0 {
		alive := h.Deadline()
		if alive.LessEq(at) {
			h.Beat(ctx, commit.HeartbeatInterval)
			alive = h.Deadline()
		}
		if alive = alive.Prev(); d.IsZero() || alive.Less(d) {
			d = alive // txn.TX6
		}
	}
	return d
}

// finish ends the transaction's use of shared things.
func (t *Txn) finish(s state) {
	t.state = s
	t.db.beats.remove(&t.beat)
	t.db.readers.end(t.reading)
	t.others.ended()
}

// Rollback undoes everything; its error never matters to the caller, and may be called after any
// error and after Commit.
func (t *Txn) Rollback(ctx context.Context) error {
	if t.state != open {
		return nil
	}
	t.guessedWrong()
	later := t.core.Rollback(t.beat.record())
	t.finish(rolledBack)
	t.dropLoads(false)
	t.db.cleanupAfter(t.keeper.Recall(), later)
	t.db.metrics.Rollbacks.Add(1)
	return nil
}

// Restart begins a new attempt after *RetryError or *kv.DeadlockError: no writes, no savepoints, a later timestamp.
// Locks are kept if the transaction keeps its identity.
func (t *Txn) Restart(ctx context.Context) error {
	if t.state != open {
		return ErrFinished
	}
	t.db.metrics.Restarts.Add(1)
	t.anew = true
	t.guessedWrong()
	if cause := t.beat.aborted.Load(); cause != nil {
		t.fail(*cause)
	}
	t.dropLoads(false)
	landed := t.keeper.Recall()
	t.core.Lives(t.db.incarnation())
	abandoned, fresh := t.core.Restart(t.db.newID(), t.db.o.Clock.Read(), t.beat.record())
	t.restarted(fresh)
	t.readPast()
	if fresh {
		t.db.beats.remove(&t.beat)
		t.beat.reset()
		if abandoned != nil && abandoned.End {
			// The new attempt is likely to meet the old one's intents.
			if landed != nil {
				landed(ctx)
			}
			t.db.clean(ctx, abandoned)
		} else {
			t.db.cleanup(abandoned)
		}
	}
	return nil
}

// GiveUp has the next Restart take a new identity, so that others get the locks of this one.
func (t *Txn) GiveUp() { t.core.Spoil() }

// SetDeadline is a timestamp that the commit must not exceed (I7: descriptor leases); zero is none.
func (t *Txn) SetDeadline(ts clock.Timestamp) { t.core.SetDeadline(ts) }

// DeadlineSource knows, when a transaction is about to commit, which timestamp it must not exceed.
type DeadlineSource interface {
	Deadline() clock.Timestamp
	// AwaitDeadline returns when the deadline is beyond a timestamp, or will not be soon.
	AwaitDeadline(ctx context.Context, at clock.Timestamp)
}

// Validity knows up to when what a transaction relies on was right.
type Validity interface {
	// Valid reports whether it was at a timestamp.
	Valid(at clock.Timestamp) bool
}

// SetValidity has a transaction that has only read start over if its snapshot has moved to a timestamp that is not valid; nil: all are.
func (t *Txn) SetValidity(v Validity) { t.validity = v }

// SetDeadlineSource asks for the deadline as late as possible, for leases that are renewed while the transaction
// runs; nil removes it.
func (t *Txn) SetDeadlineSource(s DeadlineSource) { t.deadline = s }

// CommitNotBefore has the transaction commit at a timestamp, or a later one. With a deadline, that may be the only one at which it can. Writes that are made afterwards
// have it from the beginning.
func (t *Txn) CommitNotBefore(ts clock.Timestamp) { t.core.ForwardWrite(ts) }

// OnCommit has f called with the commit's timestamp as soon as the transaction has certainly committed, before the wait until that is past; nil: nothing is called.
// f must not wait.
func (t *Txn) OnCommit(f func(clock.Timestamp)) { t.onCommit = f }
