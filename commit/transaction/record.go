package transaction

import (
	"slices"

	"meridian/clock"
	"meridian/keys"
	"meridian/kv"
)

// end is how the transaction ends.
type end struct {
	begun bool // the commit
	done  bool
	at    clock.Timestamp // of the commit
	later *Cleanup
}

// Cleanup is what remains to be done for a transaction that has ended.
type Cleanup struct {
	Txn    kv.Txn
	Status kv.Status
	// End asks for an EndTxn first: to abort, or to make an implicit commit explicit. Its answer's Unresolved
	// replaces Spans.
	End bool
	// Spans hold locks or provisional writes that nobody has released yet.
	Spans []keys.Span
	// Elsewhere are the writes in ranges of other protocols than the leader's; they are not among Spans.
	Elsewhere []kv.InFlightWrite
	// Record says that the record has to be removed after Spans and Elsewhere were resolved.
	Record bool
}

// All are Spans and the keys that are Elsewhere: the record keeps them until they are resolved (commit.CR1).
func (k *Cleanup) All() []keys.Span { return all(slices.Clip(k.Spans), k.Elsewhere) }

// Own is what remains of spans of the record without the writes that are Elsewhere.
func (k *Cleanup) Own(spans []keys.Span) []keys.Span {
	if len(k.Elsewhere) == 0 {
		return spans
	}
	return slices.DeleteFunc(slices.Clone(spans), func(s keys.Span) bool {
		return s.Point() && slices.ContainsFunc(k.Elsewhere, func(w kv.InFlightWrite) bool { return w.Key.Equal(s.Start) })
	})
}

// ReadOnly reports whether the transaction can commit without asking anyone: it wrote nothing.
func (c *Core) ReadOnly() bool { return !c.sent && c.buf.empty() && !c.end.begun }

// CommitReadOnly ends a transaction that wrote nothing. record says that heartbeats have made a record.
func (c *Core) CommitReadOnly(record bool) *Cleanup {
	c.end = end{begun: true, done: true, at: c.txn.ReadTimestamp}
	if !record && c.locks.Empty() {
		return nil
	}
	// Nothing that others could see depends on the outcome; the record, if any, is better aborted than committed,
	// because an abort asks nothing of the timestamps.
	return &Cleanup{Txn: *c.Snapshot(), Status: kv.Aborted, End: record, Spans: c.locks.List(), Record: record}
}

// SetTrigger adds a trigger to the commit, which then always takes two phases.
func (c *Core) SetTrigger(t *kv.CommitTrigger) { c.trigger = t }

// Trigger is the commit's trigger, nil if it has none.
func (c *Core) Trigger() *kv.CommitTrigger { return c.trigger }

// MayCommitInOnePhase reports whether a one-phase commit is right if all writes are in one range.
func (c *Core) MayCommitInOnePhase() bool {
	return !c.sent && !c.buf.empty() && c.buf.bytes <= ChunkBytes && c.trigger == nil
}

// StartCommit says that the commit has begun.
func (c *Core) StartCommit() { c.end.begun = true }

// Committing reports whether the commit has begun.
func (c *Core) Committing() bool { return c.end.begun }

// EndTxn is the request that commits, without what the protocols have to say about it.
func (c *Core) EndTxn() *kv.EndTxnRequest {
	return &kv.EndTxnRequest{Anchor: c.txn.Anchor, Commit: true, LockSpans: all(c.locks.List(), c.elsewhere), Trigger: c.trigger, Deadline: c.deadline}
}

func all(spans []keys.Span, elsewhere []kv.InFlightWrite) []keys.Span {
	for _, w := range elsewhere {
		spans = append(spans, keys.Span{Start: w.Key})
	}
	return spans
}

// Implicitly takes note that all writes are durable at or below the STAGING record's timestamp (commit.CR4).
func (c *Core) Implicitly(at clock.Timestamp) {
	c.txn.WriteTimestamp, c.snap = at, nil
	c.end = end{begun: true, done: true, at: at,
		later: &Cleanup{Txn: *c.Snapshot(), Status: kv.Committed, End: true, Spans: c.locks.List(), Elsewhere: c.elsewhere, Record: true}}
}

// Decided takes note that a protocol has committed the transaction by itself: there is no record, and nothing is to be cleaned up.
func (c *Core) Decided(at clock.Timestamp) {
	c.txn.WriteTimestamp, c.snap = at, nil
	c.end = end{begun: true, done: true, at: at}
}

// Ended takes the answer to an EndTxn that has committed.
func (c *Core) Ended(e *kv.EndTxnResponse) {
	at := e.CommitTimestamp
	if at.IsZero() {
		at = c.txn.WriteTimestamp
	}
	c.end = end{begun: true, done: true, at: at}
	if len(e.Unresolved) == 0 {
		return
	}
	c.txn.WriteTimestamp, c.snap = at, nil
	// A one-phase commit left no record; what is unresolved are locks in memory elsewhere.
	k := &Cleanup{Txn: *c.Snapshot(), Status: kv.Committed, Elsewhere: c.elsewhere, Record: !e.OnePhase}
	k.Spans = k.Own(e.Unresolved)
	c.end.later = k
}

// Committed reports whether the commit is done, when, and what remains to be cleaned up.
func (c *Core) Committed() (at clock.Timestamp, later *Cleanup, ok bool) {
	return c.end.at, c.end.later, c.end.done
}

// Rollback is what has to be cleaned up if the transaction ends without a commit; nil is nothing. record says that
// heartbeats have made a record.
func (c *Core) Rollback(record bool) *Cleanup {
	c.buf.reset()
	if c.locks.Empty() && !c.sent && !record {
		return nil
	}
	end := c.sent || record
	return &Cleanup{Txn: *c.Snapshot(), Status: kv.Aborted, End: end, Spans: c.locks.List(), Elsewhere: c.elsewhere, Record: end}
}
