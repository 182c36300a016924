package leader

import (
	"meridian/clock"
	"meridian/commit"
	"meridian/keys"
	"meridian/kv"
)

// Locks that the client asked for (SELECT FOR UPDATE and its like) are in memory like all others, and are lost with the leaseholder. A
// transaction does not commit unless it has held them all the time:
//
//	leader.P16: a leaseholder that says, for a timestamp at which its lease is good, that it has not lost locks since they were taken
//	    (lock.K6), has not granted them to others by then, and neither it nor any later leaseholder grants them to others before that time
//	    by its clock. So of two transactions that got the same lock, the first commits below the moment at which the second got it, with all
//	    of its writes, or not at all; and later reads of the second see these writes, or push the first one further, which then has to check
//	    again. A lock may be lost only to a transaction that was aborted, whose record says so. Asked about a time that has yet to come, the
//	    leaseholder answers when it has come: a lock that is granted to another after the commit is granted later than the commit's
//	    timestamp.
//
// Locks in the range of a one-phase commit are checked in its command (EndTxnRequest.Held), which applies under no later lease
// (leader.P7): they cost nothing. For others, and for a commit in the future, the gateway asks before it decides (coordinator.CO10). An externally consistent
// transaction's commit is always in the future; leader.P30 says why it is not kept waiting for that.

// vouches reports whether the leaseholder answers for a time ahead of its clock (leader.P30).
func (c *call) vouches() bool { return c.txn != nil && c.txn.External() }

// checkLocks answers whether the transaction has held its locks in a span.
func (c *call) checkLocks(r *kv.CheckLocksRequest) error {
	if c.txn == nil {
		return &kv.InternalError{Message: "leader: a check of locks without a transaction"}
	}
	p := c.p
	switch {
	case c.vouches():
		if !r.From.IsZero() {
			c.vouch(r.Span(), c.readAt())
		}
	case !c.readAt().Less(p.o.Clock.Now()):
		return &kv.InternalError{Message: "leader: a check of locks for a time that has not come"} // leader.P16
	}
	if d := p.r.Desc(); d != nil && len(c.txn.Anchor) > 0 && d.Contains(keys.Addr(c.txn.Anchor)) {
		rec, err := p.record(p.o.Engine, c.txn.Anchor, c.txn.ID)
		if err != nil {
			return err
		}
		if rec != nil && rec.Status == kv.Aborted {
			return &kv.TxnAbortedError{ID: rec.ID, Reason: commit.WhyAborted(&rec.TxnMeta, "the record says so")}
		}
	}
	return p.locksLost(r.Start, r.From)
}

// checkHeld does so for the locks that a commit lists in its own range.
func (ev *evaluation) checkHeld() error {
	d := ev.p.r.Desc()
	for i := range ev.end.Held {
		h := &ev.end.Held[i]
		if d == nil || !d.Span().ContainsSpan(h.Span) && !(h.Span.Point() && d.Contains(h.Span.Start)) {
			return &kv.OnePhaseError{} // the range has split; the gateway asks each part
		}
		if ev.vouches() {
			ev.vouch(h.Span, ev.writeAt())
		}
		if err := ev.p.locksLost(h.Span.Start, h.From); err != nil {
			return err
		}
	}
	if !ev.vouches() && !ev.writeAt().Less(ev.p.o.Clock.Now()) {
		return &kv.OnePhaseError{} // of the future: the locks have to be kept until it has come (leader.P16)
	}
	if _, ok := ev.p.r.CheckLease(ev.writeAt()); !ok {
		return &kv.UnavailableError{Reason: "the lease does not cover the commit's timestamp"}
	}
	return nil
}

func (p *Participant) locksLost(k keys.Key, from clock.Timestamp) error {
	if from.IsZero() {
		return nil
	}
	if lost := p.locks.Lost(); from.Less(lost) {
		p.o.Metrics.LocksLost.Add(1)
		return &kv.LocksLostError{Key: k, Lost: lost}
	}
	return nil
}
