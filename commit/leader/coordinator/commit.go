package coordinator

import (
	"slices"

	"meridian/clock"
	"meridian/keys"
	"meridian/kv"
)

// stage is how far a commit has come.
type stage uint8

const (
	stageNone stage = iota
	stageOnePhase
	stageParallel
	stageRecord // CO9
	stageWrites
	stageEnd
	stageDone
)

type commitState struct {
	stage   stage
	trigger *kv.CommitTrigger
	writes  []kv.Request    // what the buffer had, so that a batch can be sent again
	chunks  []*kv.Batch     // of stageWrites, still to be sent
	out     *kv.Batch       // sent, not yet answered
	refresh bool            // out is a refresh
	verify  bool            // out asks whether the checks hold
	check   bool            // out asks whether the locks are held
	now     clock.Timestamp // the clock when the commit began
	again   bool            // a parallel round has failed, and may have laid some of its writes
	flushed bool            // there were intents before the commit began
	pushed  int             // how often the range of the record refused because its writes had to move
	staged  clock.Timestamp // of a STAGING record, if the writes are sent after it
	readAt  clock.Timestamp // below SERIALIZABLE: where the commit has to read at least

	at clock.Timestamp // commit timestamp, at stageDone
	// later is what remains to be done once the client has been told.
	later *Cleanup
}

// Cleanup is what remains to be done for a transaction that has ended.
type Cleanup struct {
	Txn    kv.Txn
	Status kv.Status
	// End asks for an EndTxn first: to abort, or to make an implicit commit explicit. Its answer's Unresolved
	// replaces Spans.
	End bool
	// Spans hold locks or intents that nobody has released yet.
	Spans []keys.Span
	// Record says that the record has to be removed after Spans were resolved.
	Record bool
}

// ReadOnly reports whether the transaction can commit without asking anyone: it wrote nothing.
func (c *Coordinator) ReadOnly() bool { return !c.sent && c.buf.empty() && c.commit.stage == stageNone }

// CommitReadOnly ends a transaction that wrote nothing. record says that heartbeats have made a record.
func (c *Coordinator) CommitReadOnly(record bool) *Cleanup {
	c.commit.stage = stageDone
	c.commit.at = c.txn.ReadTimestamp
	if !record && c.locks.empty() {
		return nil
	}
	// Nothing that others could see depends on the outcome; the record, if any, is better aborted than committed,
	// because an abort asks nothing of the timestamps.
	return &Cleanup{Txn: *c.Snapshot(), Status: kv.Aborted, End: record, Spans: c.locks.list(), Record: record}
}

// MayCommitInOnePhase reports whether a one-phase commit is right if all writes are in one range.
func (c *Coordinator) MayCommitInOnePhase() bool {
	return !c.sent && !c.buf.empty() && c.buf.bytes <= chunkBytes && c.commit.trigger == nil
}

// WriteBounds are the first and the last address that the buffer writes to.
func (c *Coordinator) WriteBounds() (first, last keys.Key) { return c.buf.bounds() }

// SetTrigger adds a trigger to the commit, which then always takes two phases.
func (c *Coordinator) SetTrigger(t *kv.CommitTrigger) { c.commit.trigger = t }

// StartCommit begins the commit of a transaction that is not ReadOnly. onePhase says that all writes are in one
// range, as far as the router knows, and that heartbeats have not made a record. now is the clock.
func (c *Coordinator) StartCommit(onePhase bool, now clock.Timestamp) {
	s := &c.commit
	s.now = now
	onePhase = onePhase && c.MayCommitInOnePhase()
	s.flushed = c.sent
	s.writes = c.buf.requests(1)
	hasRanges := len(c.buf.tombstones) > 0
	size := c.buf.bytes
	c.buf.reset()
	switch {
	case len(s.writes) == 0:
		s.stage = stageEnd
	case onePhase:
		s.stage = stageOnePhase
		c.anchor(c.first)
	case c.o.ParallelCommit && s.trigger == nil && !hasRanges && len(s.writes) <= maxInFlight && size <= chunkBytes:
		s.stage = stageParallel
		c.noteWrites(s.writes)
	default:
		s.stage = stageWrites
		c.noteWrites(s.writes)
		s.chunks = chunk(s.writes)
	}
}

// TakeCommitWrites is all that has to be laid as intents before the decision, if the commit takes several rounds and
// the order does not matter; it is sent as TakeFlush's batches are. Nil leaves everything to CommitNext.
func (c *Coordinator) TakeCommitWrites() []*kv.Batch {
	s := &c.commit
	if s.stage != stageWrites || len(s.chunks) < 2 || hasRange(s.writes) {
		return nil
	}
	chunks := s.chunks
	s.stage, s.chunks = stageEnd, nil
	return chunks
}

// CommitNext is the batch to send next, or nil if the commit is done. Its answer goes to CommitAnswered.
func (c *Coordinator) CommitNext() (*kv.Batch, error) {
	s := &c.commit
	if c.broken != nil {
		return nil, c.broken
	}
	if s.stage == stageDone {
		return nil, nil
	}
	// CO3. The intents themselves may go out with a pushed timestamp, but the read timestamp costs least to move
	// before anything is sent.
	to := c.txn.WriteTimestamp
	if c.iso.level != kv.Serializable {
		to = s.readAt
	}
	if c.txn.ReadTimestamp.Less(to) {
		a := c.move(to, &kv.TxnRetryError{WriteTimestamp: to})
		if a.Verdict == Fail {
			return nil, a.Err
		}
		if a.Refresh != nil {
			s.out, s.refresh = a.Refresh, true
			return s.out, nil
		}
	}
	if !c.deadline.IsZero() && c.deadline.Less(c.txn.WriteTimestamp) {
		return nil, c.fail(DeadlinePassed, nil, false)
	}
	if b := c.verification(); b != nil {
		s.out, s.verify = b, true
		return b, nil
	}
	if b := c.checkHeld(); b != nil {
		s.out, s.check = b, true
		return b, nil
	}
	b := &kv.Batch{}
	switch s.stage {
	case stageOnePhase:
		e := c.endTxn()
		e.OnePhase = true
		if c.held.here {
			e.Held = slices.Clone(c.held.spans)
		}
		e.Anchor = s.writes[0].Span().Start // CO5
		b.Requests = append(s.writes, e)
	case stageParallel:
		e := c.endTxn()
		e.InFlight = inFlight(s.writes)
		b.Requests = append(s.writes, e)
	case stageRecord:
		e := c.endTxn()
		e.InFlight = inFlight(s.writes)
		b.Requests = []kv.Request{e}
	case stageWrites:
		b.Requests = s.chunks[0].Requests
	case stageEnd:
		b.Requests = []kv.Request{c.endTxn()}
	}
	c.Prepare(b)
	b.ReadSeq = c.seq
	if c.iso.level != kv.Serializable {
		// Under READ COMMITTED what depends on a snapshot says so itself. A range must not move past the checks.
		b.CanForwardRead = !c.iso.hasChecks() && (b.CanForwardRead || c.iso.level == kv.ReadCommitted)
	}
	s.out, s.refresh = b, false
	return b, nil
}

func (c *Coordinator) endTxn() *kv.EndTxnRequest {
	return &kv.EndTxnRequest{
		Anchor: c.txn.Anchor, Commit: true, LockSpans: c.locks.list(), Trigger: c.commit.trigger, Deadline: c.held.deadline(c.deadline),
		Upto: c.upto(),
	}
}

func inFlight(writes []kv.Request) []kv.InFlightWrite {
	l := make([]kv.InFlightWrite, len(writes))
	for i, r := range writes {
		l[i] = kv.InFlightWrite{Key: r.Span().Start, Seq: seqOf(r), Protocol: kv.Leader}
	}
	return l
}

func seqOf(r kv.Request) kv.Seq {
	switch r := r.(type) {
	case *kv.PutRequest:
		return r.Seq
	case *kv.CPutRequest:
		return r.Seq
	case *kv.DeleteRequest:
		return r.Seq
	case *kv.DeleteRangeRequest:
		return r.Seq
	}
	return 0
}

// CommitAnswered takes the answer to what CommitNext gave out. An error ends the commit; if the transaction is not
// Broken and the error is not kv.AmbiguousError, it was not committed and can be rolled back.
func (c *Coordinator) CommitAnswered(r *kv.BatchResponse, err error) error {
	s := &c.commit
	b, refresh, verify, check := s.out, s.refresh, s.verify, s.check
	s.out, s.refresh, s.verify, s.check = nil, false, false, false
	switch {
	case check:
		return c.HeldChecked(b, err)
	case refresh:
		return c.Refreshed(b, r, err)
	case verify:
		return c.verifiedAt(b, r, err)
	}
	c.absorb(b, r)
	if err != nil {
		return c.commitFailed(b, err)
	}
	switch s.stage {
	case stageWrites:
		if s.chunks = s.chunks[1:]; len(s.chunks) > 0 {
			return nil
		}
		s.stage = stageEnd
		if !s.staged.IsZero() && c.txn.WriteTimestamp.LessEq(s.staged) {
			c.implicitly(s.staged)
		}
		return nil
	case stageRecord:
		end, ok := last(r).(*kv.EndTxnResponse)
		if !ok || !end.Staged {
			return &kv.AmbiguousError{Reason: "malformed answer to a commit"}
		}
		s.stage, s.staged, s.chunks = stageWrites, end.CommitTimestamp, chunk(s.writes)
		return nil
	case stageParallel:
		end, ok := last(r).(*kv.EndTxnResponse)
		if !ok {
			return &kv.AmbiguousError{Reason: "malformed answer to a commit"}
		}
		if end.Staged {
			if end.CommitTimestamp.Less(c.txn.WriteTimestamp) || c.txn.ReadTimestamp.Forward(c.upto()).Less(end.CommitTimestamp) {
				// All writes are there, but some later than the record says: not committed yet.
				s.stage = stageEnd
				return nil
			}
			c.implicitly(end.CommitTimestamp)
			return nil
		}
		c.ended(end)
		return nil
	}
	end, ok := last(r).(*kv.EndTxnResponse)
	if !ok {
		return &kv.AmbiguousError{Reason: "malformed answer to a commit"}
	}
	c.ended(end)
	return nil
}

// implicitly takes note that all writes are there at or below the STAGING record's timestamp.
func (c *Coordinator) implicitly(at clock.Timestamp) {
	s := &c.commit
	s.stage, s.at = stageDone, at
	c.txn.WriteTimestamp, c.snap = at, nil
	s.later = &Cleanup{Txn: *c.Snapshot(), Status: kv.Committed, End: true, Spans: c.locks.list(), Record: true}
}

func last(r *kv.BatchResponse) kv.Response {
	if r == nil || len(r.Responses) == 0 {
		return nil
	}
	return r.Responses[len(r.Responses)-1]
}

// ended takes the answer to an EndTxn that decided.
func (c *Coordinator) ended(e *kv.EndTxnResponse) {
	s := &c.commit
	s.stage, s.at = stageDone, e.CommitTimestamp
	if s.at.IsZero() {
		s.at = c.txn.WriteTimestamp
	}
	if len(e.Unresolved) == 0 {
		return
	}
	c.txn.WriteTimestamp, c.snap = s.at, nil
	// A one-phase commit left no record; what is unresolved are locks in memory elsewhere.
	s.later = &Cleanup{Txn: *c.Snapshot(), Status: kv.Committed, Spans: e.Unresolved, Record: !e.OnePhase}
}

func (c *Coordinator) commitFailed(b *kv.Batch, err error) error {
	s := &c.commit
	if _, ok := unwrap(err).(*kv.OnePhaseError); ok && s.stage == stageOnePhase {
		c.held.here = false
		// The router's idea was wrong: the range has split.
		c.noteWrites(s.writes)
		if c.o.ParallelCommit && len(s.writes) <= maxInFlight && !hasRange(s.writes) {
			s.stage = stageParallel
		} else {
			s.stage, s.chunks = stageWrites, chunk(s.writes)
		}
		return nil
	}
	if _, ok := unwrap(err).(*kv.AmbiguousError); ok {
		return err // CO4
	}
	if (!s.staged.IsZero() || s.again) && !refusesWrite(err) {
		// Whether the writes are there is whether it is committed. That includes those of an earlier round, whose
		// timestamps the new record covers: that sending them again has failed does not mean that they are missing (CR4).
		return &kv.AmbiguousError{Reason: err.Error()}
	}
	s.again = s.stage == stageParallel
	if c.iso.level != kv.Serializable && c.commitHigher(err) {
		return nil
	}
	if c.tooLate(b, err) {
		return c.broken
	}
	a := c.failed(err)
	switch {
	case a.Verdict == Fail:
		return a.Err
	case a.Refresh != nil && c.iso.level != kv.Serializable:
		s.readAt = s.readAt.Forward(c.moving)
		c.moving = clock.Timestamp{}
	case a.Refresh != nil:
		// CommitNext asks for it again: the write timestamp has to say so.
		c.txn.WriteTimestamp, c.snap = c.txn.WriteTimestamp.Forward(c.moving), nil
		c.moving = clock.Timestamp{}
	}
	if e, ok := unwrap(err).(*kv.TxnRetryError); ok && e.Reason == kv.RetrySerializable {
		c.standFirm()
	}
	return nil
}

// standFirm is called when a range has refused to decide because the writes in its batch had to move past reads of others,
// and nothing of the batch stands. By the time that the reads are refreshed there may be further reads, or the refresh of
// another transaction that wants the same, and so on for ever. So the second time a record is staged, and the writes are
// laid wherever they have to be: readers wait for a staging transaction, writers queue, and one more refresh decides (CO9).
func (c *Coordinator) standFirm() {
	s := &c.commit
	if s.stage != stageOnePhase && s.stage != stageParallel || c.iso.level != kv.Serializable {
		return
	}
	if s.pushed++; s.pushed < 2 || !c.o.ParallelCommit || s.trigger != nil || len(s.writes) > maxInFlight || hasRange(s.writes) {
		return
	}
	c.noteWrites(s.writes)
	s.stage = stageRecord
}

// refusesWrite reports whether an error says that a write was not made.
func refusesWrite(err error) bool {
	switch unwrap(err).(type) {
	case *kv.TxnRetryError, *kv.WriteTooOldError, *kv.ConditionFailedError, *kv.TxnAbortedError, *kv.DeadlockError, *kv.LockNotAvailableError, *kv.LocksLostError:
		return true
	}
	return false
}

// commitHigher takes an error that asks a transaction below SERIALIZABLE for no more than a later commit.
func (c *Coordinator) commitHigher(err error) bool {
	to := clock.Timestamp{}
	switch e := unwrap(err).(type) {
	case *kv.TxnRetryError:
		if e.Reason == kv.RetrySerializable {
			to = e.WriteTimestamp
		}
	case *kv.WriteTooOldError:
		// Only what was written blindly minds the read timestamp, and it has no reads that could have changed.
		if c.iso.level == kv.ReadCommitted && !e.Actual.Less(c.txn.ReadTimestamp) {
			to = e.Actual.Next()
			c.txn.ReadTimestamp = c.txn.ReadTimestamp.Forward(to)
		}
	}
	if c.moves++; to.IsZero() || c.moves > maxMoves {
		return false
	}
	c.txn.WriteTimestamp, c.snap = c.txn.WriteTimestamp.Forward(to), nil
	return true
}

func hasRange(reqs []kv.Request) bool {
	for _, r := range reqs {
		if r.Method() == kv.MethodDeleteRange {
			return true
		}
	}
	return false
}

// Committed reports whether the commit is done, when, and what remains to be cleaned up.
func (c *Coordinator) Committed() (at clock.Timestamp, later *Cleanup, ok bool) {
	return c.commit.at, c.commit.later, c.commit.stage == stageDone
}

// Rollback is what has to be cleaned up if the transaction ends without a commit; nil is nothing. record says that
// heartbeats have made a record.
func (c *Coordinator) Rollback(record bool) *Cleanup {
	c.buf.reset()
	if c.locks.empty() && !c.sent && !record {
		return nil
	}
	end := c.sent || record
	return &Cleanup{Txn: *c.Snapshot(), Status: kv.Aborted, End: end, Spans: c.locks.list(), Record: end}
}
