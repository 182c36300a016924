package transaction

import (
	"maps"

	"meridian/clock"
	"meridian/keys"
	"meridian/kv"
)

// Options begin a transaction.
type Options struct {
	ID       kv.TxnID
	Gateway  kv.NodeID
	Priority int32
	// Incarnation is kv.TxnMeta's.
	Incarnation uint64
	Isolation   kv.Isolation
	// Near says which replicas serve reads at AsOf.
	Near Nearness
	// ParallelCommit lets a commit on several ranges take one round (CRDB'20 §3.1).
	ParallelCommit bool
	// AsOf, if not zero, fixes the read timestamp: no uncertainty, no locks, no writes.
	AsOf clock.Timestamp
	// BufferBytes is the size of the buffer above which it is sent early, as provisional writes; zero is the default.
	BufferBytes int
}

// Nearness says which replicas serve the reads of a historical transaction.
type Nearness uint8

const (
	// NearestLikely are the nearest replicas where the gateway expects that they have closed the timestamp, and else the leaseholders.
	NearestLikely Nearness = iota
	// NearestFirst are the nearest replicas, since they said that they can serve the timestamp (kv.NegotiateRequest); the leaseholders serve the
	// transaction from the first read on for which that turned out to be wrong.
	NearestFirst
	// NearestOnly are the nearest replicas; the read fails with kv.NotClosedError where they can't serve the timestamp.
	NearestOnly
)

// maxAge bounds by how much lost attempts raise a transaction's priority.
const maxAge = 1000

// Core is one transaction at its gateway. It must not be copied after Init.
type Core struct {
	txn  kv.Txn
	snap *kv.Txn // txn as the next batch carries it; nil when txn has changed since

	o        Options
	observed [2]kv.ObservedTimestamp // first elements of txn.Observed

	// seq is the last sequence number given out; readSeq the last one that plain reads see.
	seq, readSeq kv.Seq
	level        kv.Isolation
	// statements counts those that have begun; with the first one the level is fixed. before is the last sequence number
	// of the statement before the running one.
	statements uint32
	before     kv.Seq

	buf   buffer
	locks SpanSet
	// guards are the keys of Guard.
	guards map[string]kv.Seq
	// elsewhere are writes in ranges of other protocols than the leader's that may be provisional there, by the protocol to which they
	// were sent; a key may be there twice, if its range has changed its protocol.
	elsewhere []kv.InFlightWrite
	// first is the first key written: the anchor if nothing was locked before.
	first keys.Key
	// sent says that provisional writes of this identity may exist; they may carry sequence numbers up to sentSeq.
	sent    bool
	sentSeq kv.Seq

	deadline clock.Timestamp
	trigger  *kv.CommitTrigger
	// broken is why the attempt cannot go on; reset by Restart. fresh: the next attempt needs a new identity.
	broken error
	fresh  bool

	end end
}

// Init begins, with a reading of the gateway's clock.
func (c *Core) Init(o Options, now clock.Reading) {
	c.o = o
	c.level = o.Isolation
	c.begin(o.ID, now)
}

func (c *Core) begin(id kv.TxnID, r clock.Reading) {
	o, now := &c.o, r.Now
	again := !c.txn.ID.IsZero()
	c.txn = kv.Txn{
		TxnMeta: kv.TxnMeta{
			ID: id, WriteTimestamp: now, MinTimestamp: now, Priority: o.Priority, Isolation: c.level, Gateway: o.Gateway, Incarnation: o.Incarnation, Born: c.txn.Born,
		},
		ReadTimestamp:    now,
		UncertaintyLimit: r.Limit(),
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

// Options are what Init was told, but for the level of isolation, which may have changed.
func (c *Core) Options() *Options { return &c.o }

// Txn is the transaction as it stands. It must not be changed.
func (c *Core) Txn() *kv.Txn { return &c.txn }

// Snapshot is the transaction as batches carry it: it never changes.
func (c *Core) Snapshot() *kv.Txn {
	if c.snap == nil {
		t := c.txn
		t.Seq = c.seq
		c.snap = &t
	}
	return c.snap
}

// Historical reports whether the read timestamp is fixed.
func (c *Core) Historical() bool { return !c.o.AsOf.IsZero() }

// Broken is why the attempt cannot go on, nil if it can.
func (c *Core) Broken() error { return c.broken }

// Fail says that the attempt cannot go on, and whether the next one needs a new identity. The first reason counts; Fail returns it.
func (c *Core) Fail(r RetryReason, cause error, fresh bool) error {
	if c.broken == nil {
		c.broken = &RetryError{Reason: r, Cause: cause}
		c.fresh = fresh
	}
	return c.broken
}

// Spoil says that a broken attempt can't be mended: part of its buffer is lost.
func (c *Core) Spoil() { c.fresh = true }

// NeedsIdentity reports whether the next attempt has another identity, and so none of the locks.
func (c *Core) NeedsIdentity() bool { return c.fresh || c.sent }

// Repair makes a broken attempt one that goes on; the caller undoes what broke it.
func (c *Core) Repair() { c.broken = nil }

// MayRepair reports whether nothing but the running statement is lost.
func (c *Core) MayRepair() bool { return !c.fresh && !c.end.begun }

// Timestamps.

// ForwardWrite moves the write timestamp, if to is later.
func (c *Core) ForwardWrite(to clock.Timestamp) {
	if c.txn.WriteTimestamp.Less(to) {
		c.txn.WriteTimestamp, c.snap = to, nil
	}
}

// ForwardRead moves the read timestamp, if to is later; the write timestamp stays.
func (c *Core) ForwardRead(to clock.Timestamp) {
	if c.txn.ReadTimestamp.Less(to) {
		c.txn.ReadTimestamp, c.snap = to, nil
	}
}

// Move moves the read timestamp and, if it would be below, the write timestamp.
func (c *Core) Move(to clock.Timestamp) {
	c.txn.ReadTimestamp = c.txn.ReadTimestamp.Forward(to)
	c.txn.WriteTimestamp = c.txn.WriteTimestamp.Forward(c.txn.ReadTimestamp)
	c.snap = nil
}

// BeExternal makes the transaction externally consistent, and all of its later attempts. It is as old as its present attempt.
func (c *Core) BeExternal() {
	if c.txn.Born.IsZero() {
		c.txn.Born, c.snap = c.txn.MinTimestamp, nil
	}
}

// ReadPast gives a transaction that has read nothing a snapshot at a time, or later, that is not before any commit which has been answered: nothing is uncertain there.
func (c *Core) ReadPast(at clock.Timestamp) {
	at = at.Forward(c.txn.ReadTimestamp)
	c.txn.ReadTimestamp, c.txn.UncertaintyLimit = at, at
	c.txn.WriteTimestamp = c.txn.WriteTimestamp.Forward(at)
	c.snap = nil
}

// Observe takes over readings of nodes' clocks.
func (c *Core) Observe(l []kv.ObservedTimestamp) {
	for _, o := range l {
		c.txn.Observe(o.Node, o.At)
	}
	c.snap = nil
}

// SnapshotAt reads at another timestamp, with an uncertainty interval that begins at now: what others had committed by then is seen.
func (c *Core) SnapshotAt(now clock.Reading, at clock.Timestamp) {
	c.txn.ReadTimestamp = at
	c.txn.WriteTimestamp = c.txn.WriteTimestamp.Forward(at)
	c.txn.UncertaintyLimit = now.Limit().Forward(at)
	switch {
	case c.o.Gateway == 0:
		c.txn.Observed = nil
	case c.statements == 1 && c.snap == nil && len(c.txn.Observed) == 1:
		c.txn.Observed[0].At = now.Now // nothing has been sent yet
	default:
		// Ranges may still be reading the last list.
		c.txn.Observed = []kv.ObservedTimestamp{{Node: c.o.Gateway, At: now.Now}}
	}
	c.snap = nil
}

// SetDeadline bounds the commit timestamp; zero is no bound.
func (c *Core) SetDeadline(t clock.Timestamp) { c.deadline = t }

// Deadline is what SetDeadline said.
func (c *Core) Deadline() clock.Timestamp { return c.deadline }

// Locks.

// Anchor makes k the transaction's anchor if it has none.
func (c *Core) Anchor(k keys.Key) {
	if c.txn.Anchor == nil {
		c.txn.Anchor = k
		c.snap = nil
	}
}

// NoteLock remembers that keys of a span may be locked (transaction.TC1).
func (c *Core) NoteLock(s keys.Span) { c.locks.Add(s) }

// ForgetLocks says that no range has got as far as to lock a key or to make a provisional write: the transaction has no anchor either.
func (c *Core) ForgetLocks() {
	c.locks.Reset()
	c.txn.Anchor, c.snap = nil, nil
}

// Locks are the spans in which ranges may hold locks or provisional writes.
func (c *Core) Locks() *SpanSet { return &c.locks }

// Holds reports whether ranges may hold locks or provisional writes of the transaction, or the buffer has writes.
func (c *Core) Holds() bool { return !c.locks.Empty() || c.sent || !c.buf.empty() }

// HoldsLocks reports whether ranges may hold locks or provisional writes of the transaction.
func (c *Core) HoldsLocks() bool { return !c.locks.Empty() || c.sent }

// Sent reports whether provisional writes of the transaction may exist.
func (c *Core) Sent() bool { return c.sent }

// Statements.

// Level is the transaction's level of isolation now.
func (c *Core) Level() kv.Isolation { return c.level }

// Started reports whether a statement has run.
func (c *Core) Started() bool { return c.statements > 0 }

// Statements counts the statements that have begun, those that ran again included.
func (c *Core) Statements() uint32 { return c.statements }

// SetIsolation changes the level, before the first statement.
func (c *Core) SetIsolation(l kv.Isolation) {
	c.o.Isolation, c.level, c.txn.Isolation, c.snap = l, l, l, nil
}

// Harden makes the level SERIALIZABLE for this attempt and the next ones.
func (c *Core) Harden() {
	c.level, c.txn.Isolation, c.snap = kv.Serializable, kv.Serializable, nil
}

// StepStatement lets later reads see all writes so far.
func (c *Core) StepStatement() { c.readSeq = c.seq }

// BeginStatement is StepStatement for the beginning of a statement, to which UndoStatement returns.
func (c *Core) BeginStatement() {
	c.StepStatement()
	c.statements++
	if c.broken == nil {
		c.before = c.seq
	}
}

// UndoStatement undoes what the running statement wrote; locks stay.
func (c *Core) UndoStatement() {
	c.RollbackTo(c.before)
	c.StepStatement()
	c.before = c.seq
}

// MayRestartStatement reports whether the attempt is broken in a way that a later snapshot for the running statement
// repairs.
func (c *Core) MayRestartStatement() bool {
	r, ok := c.broken.(*RetryError)
	return ok && c.level == kv.ReadCommitted && c.MayRepair() && (r.Reason == ReadChanged || r.Reason == MovedTooOften)
}

// ReadSeq is the last sequence number that plain reads see.
func (c *Core) ReadSeq() kv.Seq { return c.readSeq }

// Seq is the last sequence number given out: a savepoint.
func (c *Core) Seq() kv.Seq { return c.seq }

// RollbackTo undoes all writes after seq. Locks stay.
func (c *Core) RollbackTo(seq kv.Seq) {
	if seq >= c.seq {
		return
	}
	c.buf.rollback(seq)
	maps.DeleteFunc(c.guards, func(_ string, at kv.Seq) bool { return at > seq })
	if c.sent && seq < c.sentSeq {
		c.txn.IgnoredSeqs = ignore(c.txn.IgnoredSeqs, kv.SeqRange{First: seq + 1, Last: c.seq})
	}
	// Numbers are not used twice: ranges tell a repeated request by its number.
	c.nextSeq()
	if c.readSeq > seq {
		c.readSeq = c.seq
	}
}

func (c *Core) nextSeq() kv.Seq {
	c.seq++
	c.snap = nil
	return c.seq
}

// Lives says which incarnation the gateway has, for identities that begin from now on: those of an earlier one may be taken for dead (commit.CR2).
func (c *Core) Lives(incarnation uint64) { c.o.Incarnation = incarnation }

// Restart begins another attempt. If the old identity is lost, which is reported, abandoned says what to clean up, and id is
// the new identity; otherwise id is not used and locks are kept. record says that heartbeats have made a record.
func (c *Core) Restart(id kv.TxnID, now clock.Reading, record bool) (abandoned *Cleanup, fresh bool) {
	c.buf.reset()
	c.guards = nil
	c.first, c.trigger = nil, nil
	c.statements, c.before = 0, 1
	// Provisional writes of an attempt that is over would keep others waiting for a transaction that goes on; an aborted
	// identity lets them pass at once.
	fresh = c.fresh || c.sent
	c.end = end{}
	c.broken, c.fresh = nil, false
	at := now.Now.Forward(c.txn.WriteTimestamp)
	attempt := c.txn.Attempt + 1
	if fresh {
		abandoned = c.Rollback(record)
		c.locks.Reset()
		c.elsewhere = nil
		c.sent, c.sentSeq = false, 0
		limit := c.txn.UncertaintyLimit
		now.Now = at
		c.begin(id, now)
		// The writes that must not be missed precede the first attempt.
		c.txn.UncertaintyLimit = limit.Forward(at)
		c.txn.Attempt = attempt
		// The new identity is young. So that it is not a deadlock's victim again and again, losing counts as age.
		c.txn.Priority = c.o.Priority + int32(min(attempt, maxAge))
		return abandoned, true
	}
	c.txn.Attempt = attempt
	c.txn.ReadTimestamp, c.txn.WriteTimestamp = at, at
	c.txn.UncertaintyLimit = c.txn.UncertaintyLimit.Forward(at)
	c.seq, c.readSeq, c.sentSeq = 1, 1, 0
	c.snap = nil
	return nil, false
}
