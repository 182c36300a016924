package coordinator

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"meridian/clock"
	"meridian/commit/transaction"
	"meridian/keys"
	"meridian/kv"
)

// stage is the progress of a commit.
type stage uint8

const (
	stageNone stage = iota
	stageOnePhase
	stageParallel
	stageLanding // the record is staged, and writes are still in flight (coordinator.CO11)
	stageRecord  // coordinator.CO9
	stageWrites
	stageEnd
)

type commitState struct {
	writes  []kv.Request       // the buffer's writes, so that a batch can be sent again
	chunks  []*kv.Batch        // of stageWrites, still to be sent; of stageParallel, not yet handed out
	beside  []kv.InFlightWrite // in flight when the record is staged, in batches of their own
	out     *kv.Batch          // sent, not yet answered
	doubt   error              // the reason to ask
	now     clock.Timestamp    // the clock when the commit began
	pushed  int                // how often the range of the record refused because its writes had to move
	staged  clock.Timestamp    // of a STAGING record, if writes are under way or sent after it
	readAt  clock.Timestamp    // below SERIALIZABLE: the least read timestamp of the commit
	stage   stage
	refresh bool // out is a refresh
	verify  bool // out asks whether the checks hold
	check   bool // out asks whether the locks are held
	ask     bool // out asks for the record (coordinator.CO13)
	moved   bool // doubt is that of a refresh, or of a verification (coordinator.CO13)
	tried   bool // a record that stages the transaction has been sent
	again   bool // a parallel round has failed, and may have written some of its intents
	flushed bool // there were intents before the commit began
	carries bool // coordinator.CO12
	carried bool // a batch that carries the refresh has been sent
	// elsewhere says that there are writes in ranges of other protocols, which become durable while the record is staged.
	elsewhere bool
}

// StartCommit begins the commit of a transaction that is not ReadOnly. onePhase says that all writes are in one
// range, as far as the router knows, and that heartbeats have not made a record; flying, that writes which were sent before are still in
// flight; elsewhere, that there are writes in ranges of other protocols. now is the clock.
func (c *Coordinator) StartCommit(onePhase, flying, elsewhere bool, now clock.Timestamp) {
	s := &c.commit
	s.now, s.elsewhere = now, elsewhere
	onePhase = onePhase && !elsewhere && c.core.MayCommitInOnePhase()
	s.flushed = c.core.Sent()
	size := c.core.BufferBytes()
	var hasRanges bool
	s.writes, hasRanges = c.core.TakeWrites(1)
	c.core.StartCommit()
	parallel := c.core.Options().ParallelCommit && c.core.Trigger() == nil && !hasRanges
	switch {
	case len(s.writes) == 0 && parallel && (flying || elsewhere):
		s.stage = stageParallel
	case len(s.writes) == 0:
		s.stage = stageEnd
	case onePhase:
		s.stage = stageOnePhase
		c.core.AnchorFirst()
	case parallel:
		c.parallel(size)
	default:
		s.stage = stageWrites
		c.core.NoteWrites(s.writes)
		s.chunks = transaction.Chunk(s.writes)
	}
}

// parallel begins a parallel commit of the writes, of a size.
func (c *Coordinator) parallel(size int) {
	s := &c.commit
	s.stage = stageParallel
	c.core.NoteWrites(s.writes)
	if len(s.writes) > transaction.MaxTogether || size > transaction.ChunkBytes {
		s.chunks, s.writes = transaction.Chunk(s.writes), nil // coordinator.CO11
	}
}

// TakeCommitWrites returns the writes that have to become intents in addition to CommitNext's batches, if the order does not matter; it is
// sent as TakeFlush's batches are. In a parallel commit they are in flight while the record is staged (Beside), else before.
func (c *Coordinator) TakeCommitWrites() []*kv.Batch {
	s := &c.commit
	if s.stage == stageParallel {
		chunks := s.chunks
		s.chunks = nil
		return chunks
	}
	if s.stage != stageWrites || len(s.chunks) < 2 || hasRange(s.writes) {
		return nil
	}
	chunks := s.chunks
	s.stage, s.chunks = stageEnd, nil
	return chunks
}

// Overlaps reports whether CommitNext's batch may leave while writes are in flight, which the driver has to report by Beside before.
func (c *Coordinator) Overlaps() bool { return c.commit.stage == stageParallel }

// Together are the writes that CommitNext's batch has in addition to the record, if it Overlaps. No other write of their keys may be in
// flight: its writes have to arrive in their order.
func (c *Coordinator) Together() []kv.Request { return c.commit.writes }

// Beside reports the writes that are in flight in batches of their own. The record lists them, and the commit waits for them: each goes to
// Answered, its error to Doubt first, and when there are no more Landed is called.
func (c *Coordinator) Beside(list []kv.InFlightWrite) { c.commit.beside = list }

// Landed says that no write is in flight any more. If all of them are at or below the record's timestamp, that was the commit.
func (c *Coordinator) Landed() {
	s := &c.commit
	s.beside = nil
	if s.stage != stageLanding {
		return
	}
	at := s.staged
	if at.Less(c.core.Txn().WriteTimestamp) || c.core.Txn().ReadTimestamp.Forward(c.upto()).Less(at) {
		// All writes are there, but some above the record's timestamp: not committed yet.
		s.stage, s.staged = stageEnd, clock.Timestamp{}
		return
	}
	c.core.Implicitly(at)
}

// Doubt interprets the error of a write that is in flight while the record is staged: the error itself, or that the outcome is unknown,
// because the write is not known to be missing. latest is what a node's clock may show.
func (c *Coordinator) Doubt(err error, latest clock.Timestamp) error {
	s := &c.commit
	if err == nil || s.staged.IsZero() && !s.again {
		return err
	}
	var retry *transaction.RetryError
	var ambiguous *kv.AmbiguousError
	switch {
	case errors.As(err, &ambiguous):
	case errors.As(err, &retry): // a read has changed; the write was refused before
	case !refusesWrite(err), c.mayBeOwn(err, latest):
		return &kv.AmbiguousError{Reason: err.Error()}
	}
	s.again = true // it is sent again
	return err
}

// Staged is the timestamp of the record while other writes are still in flight; those acknowledged so far are at or below it.
func (c *Coordinator) Staged() (at clock.Timestamp, ok bool) {
	s := &c.commit
	return s.staged, s.stage == stageLanding && !s.staged.Less(c.core.Txn().WriteTimestamp)
}

// Pending are the writes that CommitNext hands out, or has handed out, so that they can be divided anew; false if some of them have
// left in batches of their own.
func (c *Coordinator) Pending() (writes []kv.Request, ok bool) {
	s := &c.commit
	return s.writes, s.stage != stageWrites || len(s.chunks) < 2
}

// Restage begins the commit anew at a later timestamp than to, with other writes to hand out: not all of those that the record lists can
// become durable at its timestamp. elsewhere says that there are writes in ranges of other protocols.
func (c *Coordinator) Restage(writes []kv.Request, elsewhere bool, to clock.Timestamp) error {
	s := &c.commit
	if c.moves++; c.moves > maxMoves {
		return c.core.Fail(transaction.MovedTooOften, nil, false)
	}
	c.core.ForwardWrite(c.core.Txn().WriteTimestamp.Forward(to).Next())
	if c.core.Level() != kv.Serializable {
		s.readAt = s.readAt.Forward(c.core.Txn().ReadTimestamp)
	}
	s.again = s.again || s.stage != stageOnePhase
	s.out, s.refresh, s.verify, s.check, s.doubt, s.moved = nil, false, false, false, nil, false
	s.writes, s.chunks, s.beside, s.staged = writes, nil, nil, clock.Timestamp{}
	s.elsewhere = elsewhere
	c.held.here, s.carries = false, false
	switch {
	case c.core.Options().ParallelCommit && c.core.Trigger() == nil && !hasRange(writes) && (len(writes) > 0 || elsewhere):
		c.parallel(0)
	case len(writes) > 0:
		c.core.NoteWrites(writes)
		s.stage, s.chunks = stageWrites, transaction.Chunk(writes)
	default:
		s.stage = stageEnd
	}
	return nil
}

// CommitAnchor is where the last commit that was sent has its record, or would have it: a commit of one phase looks for it in the range of its writes, also if the transaction is anchored in another
// range, where it has locked rows (transaction.TC3).
func (c *Coordinator) CommitAnchor() keys.Key {
	if s := &c.commit; s.stage == stageOnePhase && len(s.writes) > 0 {
		return s.writes[0].Span().Start
	}
	return c.core.Txn().Anchor
}

// CommitNext is the batch to send next, or nil if the commit is done. Its answer goes to CommitAnswered.
func (c *Coordinator) CommitNext() (*kv.Batch, error) {
	s := &c.commit
	if c.core.Broken() != nil {
		return nil, c.core.Broken()
	}
	if _, _, done := c.core.Committed(); done {
		return nil, nil
	}
	if s.doubt != nil {
		s.out, s.ask = &kv.Batch{Requests: []kv.Request{&kv.QueryTxnRequest{Txn: c.core.Txn().TxnMeta}}}, true
		return s.out, nil
	}
	// coordinator.CO3. The intents themselves may go out with a pushed timestamp, but the read timestamp costs least to move
	// before anything is sent.
	to := c.core.Txn().WriteTimestamp
	if c.core.Level() != kv.Serializable {
		to = s.readAt
	}
	carries := s.carries && (s.stage == stageOnePhase || s.stage == stageParallel)
	if !(carries && !s.carried) && c.core.Txn().ReadTimestamp.Less(to) {
		a := c.move(to, &kv.TxnRetryError{WriteTimestamp: to})
		if a.Verdict == Fail {
			return nil, a.Err
		}
		if a.Refresh != nil {
			s.out, s.refresh = a.Refresh, true
			return s.out, nil
		}
	}
	if !c.core.Deadline().IsZero() && c.core.Deadline().Less(c.core.Txn().WriteTimestamp) {
		return nil, c.core.Fail(transaction.DeadlinePassed, nil, false)
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
		e.Anchor = s.writes[0].Span().Start // transaction.TC3
		b.Requests = append(c.carried(s.writes), e)
	case stageParallel:
		e := c.endTxn()
		e.InFlight, s.tried = append(c.core.InFlight(nil, kv.Leader, s.writes), s.beside...), true
		b.Requests = append(c.carried(s.writes), e)
	case stageRecord:
		e := c.endTxn()
		e.InFlight, s.tried = c.core.InFlight(nil, kv.Leader, s.writes), true
		b.Requests = []kv.Request{e}
	case stageWrites:
		b.Requests = s.chunks[0].Requests
	case stageEnd:
		b.Requests = []kv.Request{c.endTxn()}
	}
	c.Prepare(b)
	b.ReadSeq = c.core.Seq()
	if c.core.Level() != kv.Serializable {
		// Under READ COMMITTED what depends on a snapshot says so itself. A range must not move past the checks.
		b.CanForwardRead = !c.iso.hasChecks() && (b.CanForwardRead || c.core.Level() == kv.ReadCommitted)
	}
	if carries {
		b.CanForwardRead, s.carried = true, true
	}
	s.out, s.refresh = b, false
	return b, nil
}

func (c *Coordinator) endTxn() *kv.EndTxnRequest {
	e := c.core.EndTxn()
	e.Deadline, e.Upto = c.held.deadline(e.Deadline), c.upto()
	return e
}

// CommitAnswered takes the answer to CommitNext's batch. An error ends the commit; if the transaction is not
// Broken and the error is not kv.AmbiguousError, it was not committed and can be rolled back. latest is what a
// node's clock may show; it need not be known if there is no error.
func (c *Coordinator) CommitAnswered(r *kv.BatchResponse, err error, latest clock.Timestamp) error {
	s := &c.commit
	b, refresh, verify, check, ask := s.out, s.refresh, s.verify, s.check, s.ask
	s.out, s.refresh, s.verify, s.check, s.ask = nil, false, false, false, false
	switch {
	case ask:
		return c.told(r, err)
	case check:
		return c.HeldChecked(b, err)
	case refresh || verify:
		if err == nil && verify {
			err = gone(b, r)
		}
		if c.mayHaveMoved(err, latest) {
			s.doubt, s.moved = err, true
			return nil
		}
	}
	switch {
	case refresh:
		return c.Refreshed(err)
	case verify:
		return c.verifiedAt(b, err)
	}
	c.absorb(b, r)
	if err != nil {
		return c.commitFailed(b, err, latest)
	}
	switch s.stage {
	case stageWrites:
		if s.chunks = s.chunks[1:]; len(s.chunks) > 0 {
			return nil
		}
		s.stage = stageEnd
		if !s.staged.IsZero() && c.core.Txn().WriteTimestamp.LessEq(s.staged) {
			c.core.Implicitly(s.staged)
		}
		return nil
	case stageRecord:
		end, ok := last(r).(*kv.EndTxnResponse)
		if !ok || !end.Staged {
			return &kv.AmbiguousError{Reason: "malformed answer to a commit"}
		}
		s.stage, s.staged, s.chunks = stageWrites, end.CommitTimestamp, transaction.Chunk(s.writes)
		return nil
	case stageParallel:
		end, ok := last(r).(*kv.EndTxnResponse)
		if !ok {
			return &kv.AmbiguousError{Reason: "malformed answer to a commit"}
		}
		if end.Staged {
			s.stage, s.staged = stageLanding, end.CommitTimestamp
			if len(s.beside) == 0 {
				c.Landed()
			}
			return nil
		}
		c.core.Ended(end)
		return nil
	}
	end, ok := last(r).(*kv.EndTxnResponse)
	if !ok {
		return &kv.AmbiguousError{Reason: "malformed answer to a commit"}
	}
	c.core.Ended(end)
	return nil
}

func last(r *kv.BatchResponse) kv.Response {
	if r == nil || len(r.Responses) == 0 {
		return nil
	}
	return r.Responses[len(r.Responses)-1]
}

func (c *Coordinator) commitFailed(b *kv.Batch, err error, latest clock.Timestamp) error {
	s := &c.commit
	if _, ok := unwrap(err).(*kv.OnePhaseError); ok && s.stage == stageOnePhase {
		c.held.here, s.carries = false, false
		// The router's cache was out of date: the range has split. The writes are no larger than a batch.
		if c.core.Options().ParallelCommit && !hasRange(s.writes) {
			c.parallel(0)
		} else {
			c.core.NoteWrites(s.writes)
			s.stage, s.chunks = stageWrites, transaction.Chunk(s.writes)
		}
		return nil
	}
	if _, ok := unwrap(err).(*kv.AmbiguousError); ok {
		return err // transaction.TC2
	}
	if c.mayBeOwn(err, latest) {
		s.doubt = err
		return nil
	}
	if (!s.staged.IsZero() || s.again) && !refusesWrite(err) {
		// It is committed if and only if the writes are there. That includes those of an earlier round, whose
		// timestamps the new record covers: that sending them again has failed does not mean that they are missing (commit.CR4).
		return &kv.AmbiguousError{Reason: err.Error()}
	}
	if err, over := c.carriedFails(err); over {
		return err
	}
	s.again = s.again || s.stage == stageParallel
	s.carries = s.carries && !s.again
	if c.core.Level() != kv.Serializable && c.commitHigher(err) {
		return nil
	}
	if c.tooLate(b, err) {
		return c.core.Broken()
	}
	a := c.failed(err)
	switch {
	case a.Verdict == Fail:
		return a.Err
	case a.Refresh != nil && c.core.Level() != kv.Serializable:
		s.readAt = s.readAt.Forward(c.moving)
		c.moving = clock.Timestamp{}
	case a.Refresh != nil:
		// CommitNext requests the refresh again: the write timestamp has to require it.
		c.core.ForwardWrite(c.moving)
		c.moving = clock.Timestamp{}
	}
	if e, ok := unwrap(err).(*kv.TxnRetryError); ok && e.Reason == kv.RetrySerializable {
		c.standFirm()
	}
	return nil
}

// standFirm is called when a range has refused to decide because the writes in its batch had to move past reads of others,
// and nothing of the batch stands. By the time that the reads are refreshed there may be further reads, or the refresh of
// another transaction that wants the same, and so on for ever. So the second time a record is staged, and the writes are made at whatever
// timestamps the ranges require: readers wait for a staging transaction, writers queue, and one more refresh decides (coordinator.CO9).
func (c *Coordinator) standFirm() {
	s := &c.commit
	if s.stage != stageOnePhase && s.stage != stageParallel || c.core.Level() != kv.Serializable {
		return
	}
	if s.pushed++; s.pushed < 2 || s.elsewhere || !c.core.Options().ParallelCommit || c.core.Trigger() != nil || len(s.writes) == 0 || len(s.writes) > transaction.MaxTogether || hasRange(s.writes) {
		return
	}
	c.core.NoteWrites(s.writes)
	s.stage = stageRecord
}

// refusesWrite reports whether an error says that a write was not made.
func refusesWrite(err error) bool {
	switch unwrap(err).(type) {
	case *kv.TxnRetryError, *kv.WriteTooOldError, *kv.ConditionFailedError, *kv.TxnAbortedError, *kv.DeadlockError, *kv.LockNotAvailableError, *kv.LocksLostError,
		*kv.ProtocolError:
		return true
	}
	return false
}

// mayBeOwn reports whether the value that has failed a condition may be the transaction's own (coordinator.CO13).
func (c *Coordinator) mayBeOwn(err error, latest clock.Timestamp) bool {
	s := &c.commit
	if _, ok := unwrap(err).(*kv.ConditionFailedError); !ok {
		return false
	}
	var repeated *kv.RepeatedError
	return !c.alive(latest) && (s.again || errors.As(err, &repeated) && (s.stage == stageParallel || !s.staged.IsZero()))
}

// mayHaveMoved reports whether what has made a refresh fail, or a verification, may be the transaction's own value (coordinator.CO13).
func (c *Coordinator) mayHaveMoved(err error, latest clock.Timestamp) bool {
	return c.commit.tried && moved(err) && !c.alive(latest)
}

// Alive is for how long after its first timestamp nobody takes a transaction for dead that gives no sign of life, by his own clock: less than commit.Expiry (commit.CR2).
const Alive = 2 * time.Second

// alive reports whether nobody can have taken the gateway for dead yet; latest is what a clock may show now, zero if that is not known.
func (c *Coordinator) alive(latest clock.Timestamp) bool {
	return !latest.IsZero() && latest.Less(c.core.Txn().MinTimestamp.Add(Alive))
}

// told takes the record of a transaction that may have met its own value.
func (c *Coordinator) told(r *kv.BatchResponse, err error) error {
	failed, refused := c.commit.doubt, c.commit.moved
	c.commit.doubt, c.commit.moved = nil, false
	if err != nil {
		return &kv.AmbiguousError{Reason: fmt.Sprintf("%v; the record: %v", failed, err)}
	}
	q, ok := last(r).(*kv.QueryTxnResponse)
	switch {
	case !ok || !q.Exists:
		return &kv.AmbiguousError{Reason: fmt.Sprintf("%v; the record is gone", failed)}
	case q.Txn.Status == kv.Committed:
		c.core.Implicitly(q.Txn.WriteTimestamp)
		return nil
	}
	// Without a commit no value of the transaction is there for all to see: the value is another's.
	if refused {
		return c.Refreshed(failed)
	}
	return c.failed(unwrap(failed)).Err
}

// commitHigher takes an error that requires only a later commit of a transaction below SERIALIZABLE.
func (c *Coordinator) commitHigher(err error) bool {
	to := clock.Timestamp{}
	switch e := unwrap(err).(type) {
	case *kv.TxnRetryError:
		if e.Reason == kv.RetrySerializable {
			to = e.WriteTimestamp
		}
	case *kv.WriteTooOldError:
		// Only blind writes depend on the read timestamp, and they have no reads that could have changed.
		if c.core.Level() == kv.ReadCommitted && !e.Actual.Less(c.core.Txn().ReadTimestamp) {
			to = e.Actual.Next()
			c.core.ForwardRead(to)
		}
	}
	if c.moves++; to.IsZero() || c.moves > maxMoves {
		return false
	}
	c.core.ForwardWrite(to)
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
