package coordinator

import (
	"errors"
	"time"

	"meridian/clock"
	"meridian/commit/transaction"
	"meridian/keys"
	"meridian/kv"
)

// Verdict is the next step after an answer.
type Verdict uint8

const (
	// Done: the answer can be used.
	Done Verdict = iota
	// Again: send Answer.Refresh and hand its answer to Refreshed, if it is not nil; then send the batch again.
	Again
	// Fail: the operation failed with Answer.Err.
	Fail
)

// Answer is the interpretation of an answer.
type Answer struct {
	Verdict Verdict
	Refresh *kv.Batch
	Err     error
}

// maxMoves bounds how often the read timestamp moves within one attempt; more moves indicate a defect.
const maxMoves = 200

// Coordinator is the leader protocol's half of one transaction at its gateway. It must not be copied after Init.
type Coordinator struct {
	core *transaction.Core

	iso    isolation
	reads  transaction.SpanSet
	held   held
	moves  int
	moving clock.Timestamp // target of the refresh in progress
	near   bool            // replicas near the gateway serve reads of a snapshot without uncertainty
	far    bool            // a nearest replica could not serve a historical transaction, so the leaseholders do

	commit commitState
	// ahead: a range that was read or written closes timestamps ahead of the clock, so that writes there have to move.
	ahead bool
}

// Init begins; core is the transaction.
func (c *Coordinator) Init(core *transaction.Core) { c.core = core }

// Prepare puts the transaction into a batch of reads.
func (c *Coordinator) Prepare(b *kv.Batch) {
	b.Txn = c.core.Snapshot()
	b.ReadSeq = c.core.ReadSeq()
	b.CanForwardRead = c.reads.Empty() && !c.core.Historical()
	if b.Consistency = kv.Consistent; c.core.Historical() {
		b.Consistency = kv.Stale
		if b.Target = (kv.Target{}); c.core.Options().Near > transaction.NearestLikely && !c.far {
			b.Target = kv.ToNearest
		}
	}
}

// PrepareRead is Prepare for plain reads, which any replica may serve that has closed the transaction's uncertainty interval. Only the
// leaseholder has the transaction's own intents.
func (c *Coordinator) PrepareRead(b *kv.Batch) {
	c.Prepare(b)
	switch {
	case b.Consistency != kv.Consistent || c.core.Sent():
	case c.near && !b.Txn.ReadTimestamp.Less(b.Txn.UncertaintyLimit):
		b.Consistency, b.MayWait = kv.Stale, promiseWait
	default:
		b.Consistency = kv.Present
	}
}

// promiseWait is for how long a replica may wait for a promise of its leaseholder, and for what was written before: it takes a round trip and a round of consensus.
const promiseWait = time.Second

// ReadNear has replicas near the gateway serve plain reads of a transaction whose snapshot has no uncertainty, although it is of the present: they ask the leaseholder first, and only once for each range.
func (c *Coordinator) ReadNear() { c.near = true }

// PrepareNewest is PrepareRead for reads that see the running statement's own writes, of which some may have left the buffer.
func (c *Coordinator) PrepareNewest(b *kv.Batch) {
	c.PrepareRead(b)
	b.ReadSeq = c.core.Seq()
}

// PrepareLocking is Prepare for a batch that locks; anchor is the first key that it locks. With all set, the reads
// see the running statement's own writes.
func (c *Coordinator) PrepareLocking(b *kv.Batch, anchor keys.Key, all bool) {
	c.core.Anchor(anchor)
	c.Prepare(b)
	if all {
		b.ReadSeq = c.core.Seq()
	}
}

// Answered takes the answer to a batch that Prepare or FlushBatch made.
func (c *Coordinator) Answered(b *kv.Batch, r *kv.BatchResponse, err error) Answer {
	c.absorb(b, r)
	if err == nil {
		return Answer{Verdict: Done}
	}
	if c.tooLate(b, err) {
		return Answer{Verdict: Fail, Err: c.core.Broken()}
	}
	return c.failed(err)
}

// absorb takes timestamps from an answer.
func (c *Coordinator) absorb(b *kv.Batch, r *kv.BatchResponse) {
	if r != nil && r.Leads {
		c.ahead = true
	}
	if r == nil || r.Txn == nil || r.Txn == b.Txn || r.Txn.ID != c.core.Txn().ID || c.core.Historical() {
		return
	}
	t := r.Txn
	c.core.ForwardWrite(t.WriteTimestamp)
	if b.CanForwardRead {
		c.core.ForwardRead(t.ReadTimestamp)
	}
	if len(t.Observed) > len(b.Txn.Observed) {
		c.core.Observe(t.Observed)
	}
}

// failed decides the effect of an error on the transaction.
func (c *Coordinator) failed(err error) Answer {
	switch e := unwrap(err).(type) {
	case *kv.NotClosedError:
		if c.core.Options().Near == transaction.NearestFirst && !c.far {
			c.far = true
			return Answer{Verdict: Again}
		}
	case *kv.WriteTooOldError:
		return c.move(e.Actual.Next(), err)
	case *kv.UncertaintyError:
		return c.move(e.RetryAt, err)
	case *kv.TxnRetryError:
		if e.Reason == kv.RetryPossibleReplay {
			return Answer{Verdict: Fail, Err: c.core.Fail(transaction.ReplayUnknown, err, true)}
		}
		return c.move(e.WriteTimestamp, err)
	case *kv.TxnAbortedError:
		return Answer{Verdict: Fail, Err: c.core.Fail(transaction.AbortedByOther, err, true)}
	case *kv.LocksLostError:
		return Answer{Verdict: Fail, Err: c.core.Fail(transaction.LocksLost, err, true)}
	case *kv.DeadlockError:
		// The caller wants to know the cycle; what follows is a new attempt or the end.
		c.core.Fail(transaction.DeadlockVictim, err, true)
		return Answer{Verdict: Fail, Err: err}
	}
	return Answer{Verdict: Fail, Err: err}
}

// unwrap finds the kv error in a wrapped one.
func unwrap(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}

// move wants the read timestamp at to, or later if the write timestamp already is (coordinator.CO1, coordinator.CO3).
func (c *Coordinator) move(to clock.Timestamp, cause error) Answer {
	to = to.Forward(c.core.Txn().WriteTimestamp)
	if c.core.Historical() {
		return Answer{Verdict: Fail, Err: cause}
	}
	c.moves++
	if c.moves > maxMoves {
		return Answer{Verdict: Fail, Err: c.core.Fail(transaction.MovedTooOften, cause, false)}
	}
	if c.reads.Empty() {
		c.core.Move(to)
		return Answer{Verdict: Again}
	}
	c.moving = to
	return Answer{Verdict: Again, Refresh: c.refreshBatch(to)}
}

// MoveTo has what was read hold at a timestamp, or later: Answer.Refresh asks for it, unless nothing was read or it does already.
func (c *Coordinator) MoveTo(to clock.Timestamp) Answer {
	if c.core.Broken() != nil {
		return Answer{Verdict: Fail, Err: c.core.Broken()}
	}
	if to.LessEq(c.core.Txn().ReadTimestamp) {
		return Answer{Verdict: Done}
	}
	return c.move(to, &kv.TxnRetryError{WriteTimestamp: to})
}

// refreshBatch asks whether any span that was read was written in (read timestamp, to].
func (c *Coordinator) refreshBatch(to clock.Timestamp) *kv.Batch {
	t := *c.core.Snapshot()
	t.ReadTimestamp, t.WriteTimestamp = to, t.WriteTimestamp.Forward(to)
	from := c.core.Txn().ReadTimestamp
	reads := c.reads.All()
	b := &kv.Batch{Header: kv.Header{Txn: &t, ReadSeq: c.core.Seq()}, Requests: make([]kv.Request, 0, len(reads))}
	for _, s := range reads {
		if s.Point() {
			b.Requests = append(b.Requests, &kv.RefreshRequest{Key: s.Start, From: from})
		} else {
			b.Requests = append(b.Requests, &kv.RefreshRangeRequest{Start: s.Start, End: s.End, From: from})
		}
	}
	return b
}

// Refreshed takes the answer to a refresh. It returns nil if the transaction may go on at the new timestamp.
func (c *Coordinator) Refreshed(err error) error {
	to := c.moving
	c.moving = clock.Timestamp{}
	if err == nil {
		c.core.Move(to)
		return nil
	}
	if moved(err) {
		// The next attempt reads at the timestamp that this one could not reach.
		c.core.ForwardWrite(to)
	}
	return c.readFailed(err)
}

// moved reports whether an error says that what was read is not so any more at a later timestamp.
func moved(err error) bool {
	switch unwrap(err).(type) {
	case *kv.RefreshFailedError, *kv.UncertaintyError, *kv.WriteTooOldError, *kv.TxnRetryError:
		return true
	}
	return false
}

// readFailed ends an attempt that can't be sure of what it has read.
func (c *Coordinator) readFailed(err error) error {
	if _, ok := unwrap(err).(*kv.TxnAbortedError); ok {
		return c.core.Fail(transaction.AbortedByOther, err, true)
	}
	if moved(err) {
		return c.core.Fail(transaction.ReadChanged, err, false)
	}
	return err
}

// NoteRead remembers that a span was read (coordinator.CO1).
func (c *Coordinator) NoteRead(s keys.Span) {
	if !c.core.Historical() {
		c.reads.Add(s)
	}
}

// PrepareFlush puts the transaction into a batch of intents. Reads may continue while it is in flight, so its ranges must not move the read
// timestamp.
func (c *Coordinator) PrepareFlush(b *kv.Batch) {
	c.Prepare(b)
	b.ReadSeq = c.core.Seq()
	b.CanForwardRead = false
}

// Restarted begins another attempt, after the Core has; fresh says that it has another identity.
func (c *Coordinator) Restarted(fresh bool) {
	c.reads.Reset()
	c.moves = 0
	c.commit = commitState{}
	c.iso = isolation{}
	if fresh {
		c.held = held{}
	}
}
