package coordinator

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"time"

	"meridian/clock"
	"meridian/keys"
	"meridian/kv"
)

// Options begin a transaction.
type Options struct {
	ID        kv.TxnID
	Gateway   kv.NodeID
	Now       clock.Timestamp
	MaxOffset time.Duration
	Isolation kv.Isolation
	Priority  int32
	// AsOf, if not zero, fixes the read timestamp: no uncertainty, no locks, no writes.
	AsOf clock.Timestamp
	// ParallelCommit lets a commit on several ranges take one round (CRDB'20 §3.1).
	ParallelCommit bool
	// BufferBytes is the size of the buffer above which it is sent early, as intents; zero is the default.
	BufferBytes int
}

// RetryReason says why a transaction has to start over.
type RetryReason uint8

const (
	// ReadChanged: something that was read has been written since, and the timestamp had to move past it.
	ReadChanged RetryReason = iota
	// AbortedByOther: another transaction, or the expiry of the heartbeat, ended it.
	AbortedByOther
	// ReplayUnknown: a range could not tell whether it had seen the transaction before.
	ReplayUnknown
	// DeadlinePassed: the commit timestamp moved past the deadline (I7).
	DeadlinePassed
	// MovedTooOften: the timestamp had to move again and again.
	MovedTooOften
	// DeadlockVictim: chosen to break a cycle of waits.
	DeadlockVictim
	// LocksLost: locks that were asked for may have been given to others (CO10).
	LocksLost
)

func (r RetryReason) String() string {
	return [...]string{
		"a value that it read has been changed",
		"it was aborted by another transaction",
		"a range could not tell whether it had seen it before",
		"its commit timestamp passed the deadline of a schema lease",
		"its timestamp had to move too often",
		"it was chosen to break a deadlock",
		"row locks that it was given were lost with the node that kept them",
	}[r]
}

// RetryError says that the transaction must start over: Restart it, or roll it back.
type RetryError struct {
	Reason RetryReason
	// Cause is the answer that made it necessary, nil if there was none.
	Cause error
}

func (e *RetryError) Error() string {
	if e.Cause != nil {
		return fmt.Sprintf("transaction has to restart: %s: %v", e.Reason, e.Cause)
	}
	return fmt.Sprintf("transaction has to restart: %s", e.Reason)
}

func (e *RetryError) Unwrap() error { return e.Cause }

// Verdict is what to do after an answer.
type Verdict uint8

const (
	// Done: the answer can be used.
	Done Verdict = iota
	// Again: send Answer.Refresh and hand its answer to Refreshed, if it is not nil; then send the batch again.
	Again
	// Fail: the operation failed with Answer.Err.
	Fail
)

// Answer is what an answer means.
type Answer struct {
	Verdict Verdict
	Refresh *kv.Batch
	Err     error
}

// Bounds of one transaction, chosen here.
const (
	// maxMoves bounds how often the read timestamp moves within one attempt; beyond it something is wrong.
	maxMoves = 200
	// flushBytes is the size of the buffer above which it is sent early, as intents.
	flushBytes = 4 << 20
	// flushKeys is the same in keys.
	flushKeys = 50_000
	// chunkBytes is the size of one batch of intents; it becomes one raft command on each range.
	chunkBytes = 1 << 20
	// maxAge bounds by how much lost attempts raise a transaction's priority.
	maxAge = 1000
	// maxInFlight is the number of writes that a staging record may list.
	maxInFlight = 1024
)

// Coordinator is one transaction at its gateway. It must not be copied after Init.
type Coordinator struct {
	txn  kv.Txn
	snap *kv.Txn // txn as the next batch carries it; nil when txn has changed since

	o        Options
	observed [2]kv.ObservedTimestamp // first elements of txn.Observed

	// seq is the last sequence number given out; readSeq the last one that plain reads see.
	seq, readSeq kv.Seq

	buf   buffer
	iso   isolation
	reads spanSet
	locks spanSet
	held  held
	// first is the first key written: the anchor if nothing was locked before.
	first keys.Key
	// sent says that intents of this identity may exist; intents may carry sequence numbers up to sentSeq.
	sent    bool
	sentSeq kv.Seq
	moves   int
	moving  clock.Timestamp // target of the refresh that is out

	deadline clock.Timestamp
	// broken is why the attempt cannot go on; reset by Restart. fresh: the next attempt needs a new identity.
	broken error
	fresh  bool

	commit commitState
}

// Init begins.
func (c *Coordinator) Init(o Options) {
	c.o = o
	c.iso.level = o.Isolation
	c.begin(o.ID, o.Now)
}

func (c *Coordinator) begin(id kv.TxnID, now clock.Timestamp) {
	o := &c.o
	again := !c.txn.ID.IsZero()
	c.txn = kv.Txn{
		TxnMeta: kv.TxnMeta{
			ID: id, WriteTimestamp: now, MinTimestamp: now, Priority: o.Priority, Isolation: c.iso.level, Gateway: o.Gateway,
		},
		ReadTimestamp:    now,
		UncertaintyLimit: now.Add(o.MaxOffset),
	}
	if !o.AsOf.IsZero() {
		c.txn.ReadTimestamp, c.txn.WriteTimestamp, c.txn.UncertaintyLimit = o.AsOf, o.AsOf, o.AsOf
	} else if o.Gateway != 0 {
		// The gateway's own clock was just read.
		if again {
			// A range may still be reading what the last attempt sent it.
			c.txn.Observed = []kv.ObservedTimestamp{{Node: o.Gateway, At: now}}
		} else {
			c.observed[0] = kv.ObservedTimestamp{Node: o.Gateway, At: now}
			c.txn.Observed = c.observed[:1:1]
		}
	}
	c.seq, c.readSeq = 1, 1
	c.snap = nil
}

// Txn is the transaction as it stands. It must not be changed.
func (c *Coordinator) Txn() *kv.Txn { return &c.txn }

// Snapshot is the transaction as batches carry it: it never changes.
func (c *Coordinator) Snapshot() *kv.Txn {
	if c.snap == nil {
		t := c.txn
		t.Seq = c.seq
		c.snap = &t
	}
	return c.snap
}

// Broken is why the attempt cannot go on, nil if it can.
func (c *Coordinator) Broken() error { return c.broken }

// Fail makes the attempt unusable from outside: a heartbeat found the transaction aborted.
func (c *Coordinator) Fail(cause error) error { return c.fail(AbortedByOther, cause, true) }

func (c *Coordinator) fail(r RetryReason, cause error, fresh bool) error {
	if c.broken == nil {
		c.broken = &RetryError{Reason: r, Cause: cause}
		c.fresh = fresh
	}
	return c.broken
}

// SetDeadline bounds the commit timestamp; zero is no bound.
func (c *Coordinator) SetDeadline(t clock.Timestamp) { c.deadline = t }

// Holds reports whether ranges may hold locks or intents of the transaction, or the buffer has writes.
func (c *Coordinator) Holds() bool { return !c.locks.empty() || c.sent || !c.buf.empty() }

// HoldsLocks reports whether ranges may hold locks or intents of the transaction.
func (c *Coordinator) HoldsLocks() bool { return !c.locks.empty() || c.sent }

// Sent reports whether intents of the transaction may exist.
func (c *Coordinator) Sent() bool { return c.sent }

// Prepare puts the transaction into a batch of reads.
func (c *Coordinator) Prepare(b *kv.Batch) {
	b.Txn = c.Snapshot()
	b.ReadSeq = c.readSeq
	b.CanForwardRead = c.reads.empty() && c.o.AsOf.IsZero()
	if !c.o.AsOf.IsZero() {
		b.Consistency = kv.Stale
	}
}

// PrepareLocking is Prepare for a batch that locks; anchor is the first key that it locks. With all set, the reads
// see the running statement's own writes.
func (c *Coordinator) PrepareLocking(b *kv.Batch, anchor keys.Key, all bool) {
	c.anchor(anchor)
	c.Prepare(b)
	if all {
		b.ReadSeq = c.seq
	}
}

func (c *Coordinator) anchor(k keys.Key) {
	if c.txn.Anchor == nil {
		c.txn.Anchor = k
		c.snap = nil
	}
}

// Answered takes the answer to a batch that Prepare or FlushBatch made.
func (c *Coordinator) Answered(b *kv.Batch, r *kv.BatchResponse, err error) Answer {
	c.absorb(b, r)
	if err == nil {
		return Answer{Verdict: Done}
	}
	if c.tooLate(b, err) {
		return Answer{Verdict: Fail, Err: c.broken}
	}
	return c.failed(err)
}

// absorb takes over timestamps from an answer.
func (c *Coordinator) absorb(b *kv.Batch, r *kv.BatchResponse) {
	if r == nil || r.Txn == nil || r.Txn == b.Txn || r.Txn.ID != c.txn.ID || !c.o.AsOf.IsZero() {
		return
	}
	t := r.Txn
	if c.txn.WriteTimestamp.Less(t.WriteTimestamp) {
		c.txn.WriteTimestamp = t.WriteTimestamp
		c.snap = nil
	}
	if b.CanForwardRead && c.txn.ReadTimestamp.Less(t.ReadTimestamp) {
		c.txn.ReadTimestamp = t.ReadTimestamp
		c.snap = nil
	}
	if len(t.Observed) > len(b.Txn.Observed) {
		for _, o := range t.Observed {
			c.txn.Observe(o.Node, o.At)
		}
		c.snap = nil
	}
}

// failed decides what an error means for the transaction.
func (c *Coordinator) failed(err error) Answer {
	switch e := unwrap(err).(type) {
	case *kv.WriteTooOldError:
		return c.move(e.Actual.Next(), err)
	case *kv.UncertaintyError:
		return c.move(e.RetryAt, err)
	case *kv.TxnRetryError:
		if e.Reason == kv.RetryPossibleReplay {
			return Answer{Verdict: Fail, Err: c.fail(ReplayUnknown, err, true)}
		}
		return c.move(e.WriteTimestamp, err)
	case *kv.TxnAbortedError:
		return Answer{Verdict: Fail, Err: c.fail(AbortedByOther, err, true)}
	case *kv.LocksLostError:
		return Answer{Verdict: Fail, Err: c.fail(LocksLost, err, true)}
	case *kv.DeadlockError:
		// The caller wants to know the cycle; what follows is a new attempt or the end.
		c.fail(DeadlockVictim, err, true)
		return Answer{Verdict: Fail, Err: err}
	}
	return Answer{Verdict: Fail, Err: err}
}

// unwrap finds the kv error in what was wrapped.
func unwrap(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}

// move wants the read timestamp at to, or later if the write timestamp already is (CO1, CO3).
func (c *Coordinator) move(to clock.Timestamp, cause error) Answer {
	to = to.Forward(c.txn.WriteTimestamp)
	if !c.o.AsOf.IsZero() {
		return Answer{Verdict: Fail, Err: cause}
	}
	c.moves++
	if c.moves > maxMoves {
		return Answer{Verdict: Fail, Err: c.fail(MovedTooOften, cause, false)}
	}
	if c.reads.empty() {
		c.moved(to)
		return Answer{Verdict: Again}
	}
	c.moving = to
	return Answer{Verdict: Again, Refresh: c.refreshBatch(to)}
}

func (c *Coordinator) moved(to clock.Timestamp) {
	c.txn.ReadTimestamp = c.txn.ReadTimestamp.Forward(to)
	c.txn.WriteTimestamp = c.txn.WriteTimestamp.Forward(c.txn.ReadTimestamp)
	c.snap = nil
}

// refreshBatch asks whether anything that was read was written in (read timestamp, to].
func (c *Coordinator) refreshBatch(to clock.Timestamp) *kv.Batch {
	t := *c.Snapshot()
	t.ReadTimestamp, t.WriteTimestamp = to, t.WriteTimestamp.Forward(to)
	from := c.txn.ReadTimestamp
	c.reads.tidy()
	b := &kv.Batch{Header: kv.Header{Txn: &t, ReadSeq: c.seq}, Requests: make([]kv.Request, 0, len(c.reads.spans))}
	for _, s := range c.reads.spans {
		if s.Point() {
			b.Requests = append(b.Requests, &kv.RefreshRequest{Key: s.Start, From: from})
		} else {
			b.Requests = append(b.Requests, &kv.RefreshRangeRequest{Start: s.Start, End: s.End, From: from})
		}
	}
	return b
}

// Refreshed takes the answer to a refresh. It returns nil if the transaction may go on at the new timestamp.
func (c *Coordinator) Refreshed(b *kv.Batch, r *kv.BatchResponse, err error) error {
	to := c.moving
	c.moving = clock.Timestamp{}
	if err == nil {
		c.moved(to)
		return nil
	}
	switch unwrap(err).(type) {
	case *kv.TxnAbortedError:
		return c.fail(AbortedByOther, err, true)
	case *kv.RefreshFailedError, *kv.UncertaintyError, *kv.WriteTooOldError, *kv.TxnRetryError:
		// The next attempt reads where this one could not.
		c.txn.WriteTimestamp = c.txn.WriteTimestamp.Forward(to)
		return c.fail(ReadChanged, err, false)
	}
	return err
}

// NoteRead remembers that a span was read (CO1).
func (c *Coordinator) NoteRead(s keys.Span) {
	if c.o.AsOf.IsZero() {
		c.reads.add(s)
	}
}

// NoteLock remembers that keys of a span may be locked (CO2).
func (c *Coordinator) NoteLock(s keys.Span) { c.locks.add(s) }

// Buffered is what the buffer says of a key to a plain read. found with a nil value is a deletion.
func (c *Coordinator) Buffered(k keys.Key) (value []byte, found bool) {
	if c.buf.empty() {
		return nil, false
	}
	return c.buf.get(k, c.readSeq)
}

// BufferedNewest does so for a check that sees the running statement's own writes.
func (c *Coordinator) BufferedNewest(k keys.Key) (value []byte, found bool) {
	if c.buf.empty() {
		return nil, false
	}
	return c.buf.get(k, c.seq)
}

// Overlay lays the buffer over rows, which are all that ranges have within s.
func (c *Coordinator) Overlay(rows []kv.KeyValue, s keys.Span, reverse bool) []kv.KeyValue {
	return c.buf.overlay(rows, s, reverse, c.readSeq)
}

func (c *Coordinator) nextSeq() kv.Seq {
	c.seq++
	c.snap = nil
	return c.seq
}

// Put buffers a write; a nil value deletes.
func (c *Coordinator) Put(k keys.Key, v []byte) {
	c.wrote(k)
	if e := c.buf.put(k, v, c.nextSeq()); len(e.versions) == 1 {
		e.seen = c.seenAt(k)
	}
}

// PutBlind is Put of a key whose value the transaction has not asked for.
func (c *Coordinator) PutBlind(k keys.Key, v []byte) {
	c.wrote(k)
	c.buf.put(k, v, c.nextSeq())
}

// CPut buffers a write that the commit shall check: the value below the buffer must be expected. The key must not
// be in the buffer, and the commit must follow without another statement.
func (c *Coordinator) CPut(k keys.Key, v, expected []byte) {
	c.wrote(k)
	e := c.buf.put(k, v, c.nextSeq())
	e.conditional, e.expected = true, expected
}

// DeleteRange buffers the deletion of a span.
func (c *Coordinator) DeleteRange(s keys.Span) {
	c.wrote(s.Start)
	c.buf.deleteRange(s, c.nextSeq())
}

func (c *Coordinator) wrote(k keys.Key) {
	if c.first == nil {
		c.first = k
	}
}

// StepStatement lets later reads see all writes so far.
func (c *Coordinator) StepStatement() { c.readSeq = c.seq }

// Seq is the last sequence number given out: a savepoint.
func (c *Coordinator) Seq() kv.Seq { return c.seq }

// RollbackTo undoes all writes after seq. Locks stay.
func (c *Coordinator) RollbackTo(seq kv.Seq) {
	if seq >= c.seq {
		return
	}
	c.buf.rollback(seq)
	if c.sent && seq < c.sentSeq {
		c.txn.IgnoredSeqs = ignore(c.txn.IgnoredSeqs, kv.SeqRange{First: seq + 1, Last: c.seq})
	}
	// Numbers are not used twice: ranges tell a repeated request by its number.
	c.nextSeq()
	if c.readSeq > seq {
		c.readSeq = c.seq
	}
}

func ignored(l []kv.SeqRange, seq kv.Seq) bool {
	return slices.ContainsFunc(l, func(r kv.SeqRange) bool { return r.First <= seq && seq <= r.Last })
}

// ignore adds a range that ends after all others.
func ignore(l []kv.SeqRange, r kv.SeqRange) []kv.SeqRange {
	out := make([]kv.SeqRange, 0, len(l)+1)
	for _, x := range l {
		if x.Last+1 < r.First {
			out = append(out, x)
		} else {
			r.First = min(r.First, x.First)
		}
	}
	return append(out, r)
}

// FlushNeeded reports whether the buffer is so large that it should be sent now.
func (c *Coordinator) FlushNeeded() bool {
	limit := c.o.BufferBytes
	if limit == 0 {
		limit = flushBytes
	}
	return c.buf.bytes > limit || c.buf.len() > flushKeys
}

// TakeFlush empties the buffer into batches of intents. Each is sent with PrepareFlush before and Answered after; those
// that write the same keys, in order.
func (c *Coordinator) TakeFlush() []*kv.Batch {
	reqs := c.buf.history()
	c.noteWrites(reqs)
	c.buf.reset()
	return chunk(reqs)
}

// noteWrites makes the writes known to cleanup before they are sent (CO2).
func (c *Coordinator) noteWrites(reqs []kv.Request) {
	for _, r := range reqs {
		c.locks.add(r.Span())
	}
	if len(reqs) > 0 {
		c.anchor(c.first)
		c.sent, c.sentSeq = true, c.seq
	}
}

// PrepareFlush puts the transaction into a batch of intents. Reads may go on while it is under way, so its ranges must
// not move the read timestamp.
func (c *Coordinator) PrepareFlush(b *kv.Batch) {
	c.Prepare(b)
	b.ReadSeq = c.seq
	b.CanForwardRead = false
}

// Wanted is what remains of requests that have to be sent again: a rollback to a savepoint may have undone some.
func (c *Coordinator) Wanted(reqs []kv.Request) []kv.Request {
	if len(c.txn.IgnoredSeqs) == 0 {
		return reqs
	}
	out := make([]kv.Request, 0, len(reqs))
	for _, r := range reqs {
		if !ignored(c.txn.IgnoredSeqs, seqOf(r)) {
			out = append(out, r)
		}
	}
	return out
}

// chunk divides requests into batches. Neighbours with the same key stay together. A request that is larger than a batch is one
// by itself, as the largest entry of a table just fits into a command.
func chunk(reqs []kv.Request) []*kv.Batch {
	var out []*kv.Batch
	start, size := 0, 0
	for i, r := range reqs {
		n := 64
		switch r := r.(type) {
		case *kv.PutRequest:
			n += len(r.Key) + len(r.Value)
		case *kv.CPutRequest:
			n += len(r.Key) + len(r.Value)
		}
		if n > chunkBytes && i > start && !bytes.Equal(reqs[i-1].Span().Start, r.Span().Start) {
			out = append(out, &kv.Batch{Requests: reqs[start:i:i]})
			start, size = i, 0
		}
		if size += n; size > chunkBytes && (i+1 == len(reqs) || !bytes.Equal(reqs[i+1].Span().Start, r.Span().Start)) {
			out = append(out, &kv.Batch{Requests: reqs[start : i+1 : i+1]})
			start, size = i+1, 0
		}
	}
	if start < len(reqs) {
		out = append(out, &kv.Batch{Requests: reqs[start:]})
	}
	return out
}

// Restart begins another attempt. If the old identity is lost, abandoned says what to clean up, and id is the new
// identity; otherwise id is not used and locks are kept. record says that heartbeats have made a record.
func (c *Coordinator) Restart(id kv.TxnID, now clock.Timestamp, record bool) (abandoned *Cleanup) {
	c.buf.reset()
	c.reads.reset()
	c.moves, c.first = 0, nil
	c.commit = commitState{}
	c.iso = isolation{level: c.iso.level, before: 1}
	// Intents of an attempt that is over would keep others waiting for a transaction that goes on; an aborted
	// identity lets them pass at once.
	fresh := c.fresh || c.sent
	c.broken, c.fresh = nil, false
	at := now.Forward(c.txn.WriteTimestamp)
	attempt := c.txn.Attempt + 1
	if fresh {
		abandoned = c.Rollback(record)
		c.locks.reset()
		c.held = held{}
		c.sent, c.sentSeq = false, 0
		limit := c.txn.UncertaintyLimit
		c.begin(id, at)
		// What must not be missed happened before the first attempt began.
		c.txn.UncertaintyLimit = limit.Forward(at)
		c.txn.Attempt = attempt
		// The new identity is young. So that it is not a deadlock's victim again and again, losing counts as age.
		c.txn.Priority = c.o.Priority + int32(min(attempt, maxAge))
		return abandoned
	}
	c.txn.Attempt = attempt
	c.txn.ReadTimestamp, c.txn.WriteTimestamp = at, at
	c.txn.UncertaintyLimit = c.txn.UncertaintyLimit.Forward(at)
	c.seq, c.readSeq, c.sentSeq = 1, 1, 0
	c.snap = nil
	return nil
}
