package coordinator

import (
	"meridian/clock"
	"meridian/commit/transaction"
	"meridian/keys"
	"meridian/kv"
)

// The weaker levels of isolation. All of them run on the same ranges, and the ranges do not know them apart: they only
// learn which version each write replaces (kv.PutRequest.Seen) and up to where the commit may lie above the snapshot
// (kv.EndTxnRequest.Upto).
//
//	              snapshot         at commit                            writes refuse to replace
//	SERIALIZABLE  transaction      all reads still hold                 what is later than the snapshot
//	REPEATABLE    transaction      checks still hold                    what is later than the snapshot
//	READ COMMITTED  statement      checks still hold                    what is later than the statement that saw or
//	                                                                    locked it
//
//	coordinator.CO6: No level loses an update: a write that depends on what its transaction read carries the time of that read, and
//	    is refused if a later version is there, whether or not a lock was held, and still is.
//	coordinator.CO7: No level breaks a constraint: what was read for the sake of one (a foreign key) is a check, and holds at the
//	    commit timestamp, like every read of a serializable transaction (coordinator.CO3).
//	coordinator.CO8 (I3): Serializable transactions lose nothing by the company of others: a weaker transaction's writes appear at
//	    one timestamp, above all reads of their keys, like everybody's.
type isolation struct {
	// dependent says that writes with a time were buffered or sent.
	dependent bool
	// locking are the keys that the running statement has locked.
	locking []keys.Key
	inline  [1]keys.Key
	// kept is nil in most transactions.
	kept *kept
}

// kept is what a transaction below SERIALIZABLE remembers of its earlier statements.
type kept struct {
	// locked are the keys that were locked and not written, with the time at which they were; lockedFrom, if not zero,
	// is a time at or before which all others were.
	locked     map[string]clock.Timestamp
	lockedFrom clock.Timestamp

	checks   []check
	verified clock.Timestamp // the checks hold here
}

func (i *isolation) keep() *kept {
	if i.kept == nil {
		i.kept = &kept{}
	}
	return i.kept
}

// hasChecks reports whether something has to hold at the commit.
func (i *isolation) hasChecks() bool { return i.kept != nil && len(i.kept.checks) > 0 }

// check is something that was read for the sake of a constraint, and has to hold at the commit.
type check struct {
	span   keys.Span
	from   clock.Timestamp // it held here
	exists bool            // that the key has a value is all that matters
}

// Bounds of what is remembered for the weaker levels.
const (
	maxLocked = 16 << 10
	maxChecks = 4096
)

// BeginStatement gives a statement at READ COMMITTED its own snapshot, after the Core has begun it. now is the clock.
func (c *Coordinator) BeginStatement(now clock.Reading) {
	if c.core.Level() != kv.ReadCommitted || c.core.Broken() != nil || c.core.Historical() {
		return
	}
	c.foldLocks()
	c.snapshotAt(now, now.Now.Forward(c.core.Txn().ReadTimestamp))
}

// LookAnew moves a transaction that has read nothing to the present.
func (c *Coordinator) LookAnew(now clock.Reading) {
	if c.reads.Empty() && c.core.Broken() == nil && !c.core.Historical() && !c.iso.hasChecks() && c.core.Txn().ReadTimestamp.Less(now.Now) && !c.core.Committing() {
		c.snapshotAt(now, now.Now)
	}
}

// MayReadPast reports whether the transaction may still read at another timestamp: it has read nothing in this protocol's ranges.
func (c *Coordinator) MayReadPast() bool {
	return c.reads.Empty() && c.core.Broken() == nil && !c.core.Historical() && !c.core.Committing() && !c.iso.hasChecks()
}

// snapshotAt forgets what was read and reads at another timestamp, with an uncertainty interval that begins at now:
// what others had committed by then is seen.
func (c *Coordinator) snapshotAt(now clock.Reading, at clock.Timestamp) {
	c.reads.Reset()
	c.moves = 0
	c.core.SnapshotAt(now, at)
}

// RestartStatement undoes what the running statement wrote; locks stay. Its next attempt sees what was in its way.
func (c *Coordinator) RestartStatement(now clock.Reading) {
	c.moving = clock.Timestamp{}
	c.core.Repair()
	c.core.UndoStatement()
	c.foldLocks()
	c.snapshotAt(now, now.Now.Forward(c.core.Txn().WriteTimestamp))
}

// tooLate reports whether a write was refused for what an earlier statement saw or locked (coordinator.CO6): another snapshot is no
// help then.
func (c *Coordinator) tooLate(b *kv.Batch, err error) bool {
	e, ok := unwrap(err).(*kv.WriteTooOldError)
	if !ok || !c.iso.dependent || !e.Actual.Less(b.Txn.ReadTimestamp) {
		return false
	}
	c.core.Fail(transaction.ReadChanged, err, false)
	return true
}

// NoteLocked remembers that a key is locked against writers since the running statement's snapshot (coordinator.CO6).
func (c *Coordinator) NoteLocked(k keys.Key) {
	if i := &c.iso; c.core.Level() == kv.ReadCommitted {
		if i.locking == nil {
			i.locking = i.inline[:0]
		}
		i.locking = append(i.locking, k)
	}
}

// foldLocks keeps the time at which the last statement locked what it has not written.
func (c *Coordinator) foldLocks() {
	i := &c.iso
	at := c.core.Txn().ReadTimestamp
	for _, k := range i.locking {
		if c.core.Buffers(k) {
			continue // the write knows
		}
		m := i.keep()
		switch _, ok := m.locked[string(k)]; {
		case ok:
		case len(m.locked) >= maxLocked:
			// All that is known of them is that they were not locked before this.
			if m.lockedFrom.IsZero() {
				m.lockedFrom = at
			}
			for _, t := range m.locked {
				m.lockedFrom = m.lockedFrom.Backward(t)
			}
			clear(m.locked)
		case m.locked == nil:
			m.locked = make(map[string]clock.Timestamp)
			fallthrough
		default:
			m.locked[string(k)] = at
		}
	}
	clear(i.locking)
	i.locking = i.locking[:0]
}

// SeenAt is when the transaction saw what a new write to k replaces; zero is at its read timestamp.
func (c *Coordinator) SeenAt(k keys.Key) clock.Timestamp {
	i := &c.iso
	if c.core.Level() != kv.ReadCommitted {
		return clock.Timestamp{}
	}
	i.dependent = true
	at := c.core.Txn().ReadTimestamp
	if m := i.kept; m != nil {
		if t, ok := m.locked[string(k)]; ok {
			at = at.Backward(t)
		}
		if !m.lockedFrom.IsZero() {
			at = at.Backward(m.lockedFrom)
		}
	}
	return at
}

// NoteCheck remembers something that was read for the sake of a constraint (coordinator.CO7). With exists it is a key of which
// only matters that it has a value.
func (c *Coordinator) NoteCheck(s keys.Span, exists bool) {
	if c.core.Level() == kv.Serializable {
		return
	}
	i := c.iso.keep()
	x := check{span: s, from: c.core.Txn().ReadTimestamp, exists: exists}
	if n := len(i.checks); n > 0 && i.checks[n-1].exists == exists && i.checks[n-1].span.Start.Equal(s.Start) && i.checks[n-1].span.End.Equal(s.End) {
		return
	}
	if len(i.checks) >= maxChecks {
		// From here on everything between the first and the last of them counts.
		all := check{span: keys.Span{Start: x.span.Start, End: x.span.Stop()}, from: x.from}
		for _, y := range i.checks {
			if y.span.Start.Less(all.span.Start) {
				all.span.Start = y.span.Start
			}
			if all.span.End.Less(y.span.Stop()) {
				all.span.End = y.span.Stop()
			}
			all.from = all.from.Backward(y.from)
		}
		clear(i.checks)
		i.checks = i.checks[:0]
		x = all
	}
	i.checks = append(i.checks, x)
}

// upto is how late the transaction may commit, whatever its read timestamp is.
func (c *Coordinator) upto() clock.Timestamp {
	switch i := &c.iso; {
	case c.core.Level() == kv.Serializable:
		return clock.Timestamp{}
	case i.hasChecks():
		return i.kept.verified
	}
	return clock.MaxTimestamp
}

// verification asks whether the checks hold at the write timestamp; nil if that is known.
func (c *Coordinator) verification() *kv.Batch {
	if !c.iso.hasChecks() {
		return nil
	}
	i := c.iso.kept
	to := c.core.Txn().WriteTimestamp
	if i.verified == to {
		return nil
	}
	var reqs []kv.Request
	for _, x := range i.checks {
		switch {
		case !x.from.Less(to):
		case x.exists && !c.commit.flushed: // else a deletion of its own may lie over it
			reqs = append(reqs, &kv.GetRequest{Key: x.span.Start})
		case x.span.Point():
			reqs = append(reqs, &kv.RefreshRequest{Key: x.span.Start, From: x.from})
		default:
			reqs = append(reqs, &kv.RefreshRangeRequest{Start: x.span.Start, End: x.span.End, From: x.from})
		}
	}
	if len(reqs) == 0 {
		i.verified = to
		return nil
	}
	t := *c.core.Snapshot()
	t.ReadTimestamp, t.UncertaintyLimit = to, to
	return &kv.Batch{Header: kv.Header{Txn: &t, ReadSeq: c.core.Seq()}, Requests: reqs}
}

// verifiedAt takes the answer to a verification.
func (c *Coordinator) verifiedAt(b *kv.Batch, err error) error {
	if err != nil {
		return c.readFailed(err)
	}
	c.iso.kept.verified = b.Txn.ReadTimestamp
	return nil
}

// gone is the error of a verification that does not find a row that it has to.
func gone(b *kv.Batch, r *kv.BatchResponse) error {
	if r == nil || len(r.Responses) != len(b.Requests) {
		return &kv.InternalError{Message: "coordinator: answer of the wrong length"}
	}
	for j, one := range r.Responses {
		if g, ok := one.(*kv.GetResponse); ok && g.Value == nil {
			return &kv.RefreshFailedError{Key: b.Requests[j].Span().Start, Written: b.Txn.ReadTimestamp}
		}
	}
	return nil
}
