package txn

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"time"

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
//	start        one phase, or a record
//	drive        batch after batch, until all has been acknowledged
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
	one := t.start()
	if err := t.drive(ctx, &one); err != nil {
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
	if t.leader.HasHeld() {
		b := t.leader.CheckHeld(db.o.Clock.Now())
		_, err := db.o.Sender.Send(ctx, b)
		if err = t.leader.HeldChecked(b, err); err != nil {
			return err
		}
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

// start begins the commit. It reports whether that may be in one phase.
func (t *Txn) start() (one bool) {
	db := t.db
	if db.o.Ranges != nil && t.core.MayCommitInOnePhase() && db.o.Ranges.OneRange(t.core.WriteBounds()) {
		// A record at the present anchor would be left behind. No heartbeat makes one from here on.
		db.beats.remove(&t.beat)
		one = !t.beat.record()
	}
	var now clock.Timestamp
	if t.leader.HasHeld() {
		now = db.o.Clock.Now()
		t.leader.HeldInRange(one && db.o.Ranges.OneRange(t.leader.HeldBounds(t.core.WriteBounds())))
	}
	if db.o.Ranges != nil && t.core.MayCommitInOnePhase() && len(t.flights) == 0 && !t.elsewhere() && (t.leader.Ahead() || t.aged() || t.External()) {
		if first, last, ok := t.leader.ReadBounds(t.core.WriteBounds()); ok {
			t.leader.Carry(db.o.Ranges.OneRange(first, last))
		}
	}
	t.leader.StartCommit(one, len(t.flights) > 0, t.elsewhere(), now)
	t.beat.want = !one
	return one
}

// drive sends the commit's batches until all writes have been acknowledged. A range that has got another protocol meanwhile takes the commit out of its one phase.
func (t *Txn) drive(ctx context.Context, one *bool) error {
	for {
		if err := t.align(ctx); err != nil {
			return t.concluded(ctx, err) // txn.TX17
		}
		if t.deadline != nil || t.holder != nil {
			// A long commit outlives the lease's term, which is renewed meanwhile.
			t.core.SetDeadline(t.boundElsewhere(t.latest(ctx)))
		}
		b, err := t.leader.CommitNext()
		if err != nil || b == nil {
			return err
		}
		ended, err := t.step(ctx, b, one)
		if ended || err != nil {
			return err
		}
	}
}

// step sends one of the commit's batches, along with the writes of other protocols.
func (t *Txn) step(ctx context.Context, b *kv.Batch, one *bool) (ended bool, err error) {
	switch b.Requests[0].(type) {
	case *kv.RefreshRequest, *kv.RefreshRangeRequest:
		t.db.metrics.Refreshes.Add(1)
	}
	b.Trace, b.LockTimeout = t.trace, t.o.LockTimeout
	t.beat.want = t.beat.want || t.core.Sent()
	t.heartbeat()
	wait, again, err := t.beginElsewhere(ctx, b)
	if err != nil {
		return false, t.undecided(err)
	}
	if again {
		return false, nil
	}
	r, err := t.dispatch(ctx, b)
	if r != nil && t.trace {
		t.note(r.Served)
	}
	var others error
	if wait != nil {
		others = wait()
	}
	if t.handOver(err) {
		*one = false
		return false, t.undecided(t.handedOver(b, err))
	}
	if err = t.leader.CommitAnswered(r, err, t.failedAt(err)); err != nil {
		return true, t.concluded(ctx, err) // txn.TX17
	}
	if others != nil {
		return false, t.undecided(t.refusedElsewhere(others))
	}
	return false, nil
}

// publish tells the outcome of a transaction that has committed, and waits until its timestamp is past everywhere.
func (t *Txn) publish(ctx context.Context, one bool) error {
	db := t.db
	if landed := t.recall(); landed != nil {
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

// carryAfter is the age at which a transaction's commit carries its refresh: others are likely to have read by then what it writes, or the range to have closed
// it. A transaction that waits for no other region and no lock is younger.
const carryAfter = 20 * time.Millisecond

// aged reports whether the commit is likely to have to move because the transaction has taken long.
func (t *Txn) aged() bool {
	return t.db.o.Clock.Now().Wall-t.core.Txn().MinTimestamp.Wall > int64(carryAfter)
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

// align prepares the in-flight writes for the commit's next batch: each either stays in flight along with it (txn.PW3), or has been
// acknowledged before.
func (t *Txn) align(ctx context.Context) error {
	// The buffer bounds the writes that are launched here.
	if err := t.launchAll(ctx, t.leader.TakeCommitWrites(), math.MaxInt); err != nil {
		return err
	}
	if t.leader.Overlaps() {
		return t.beside(ctx)
	}
	if err := t.settleAll(ctx); err != nil {
		return err
	}
	if again, err := t.landElsewhere(ctx); err != nil {
		return err
	} else if again {
		return t.align(ctx)
	}
	t.leader.Landed()
	return nil
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
	t.db.cleanupAfter(t.recall(), later)
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
	landed := t.recall()
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
