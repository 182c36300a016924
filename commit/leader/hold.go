package leader

import (
	"meridian/clock"
	"meridian/keys"
	"meridian/kv"
)

// Locks that were asked for (SELECT FOR UPDATE and its like) are in memory like all others, and are lost with the leaseholder. A
// transaction does not commit unless it has held them all the time:
//
//	P16: a leaseholder that says, for a timestamp at which its lease is good, that it has not lost locks since they were taken
//	     (lock, K6), has not given them to others by then, and neither it nor any later one gives them to others but later by
//	     its clock. So of two transactions that were given one lock, the first commits below the moment at which the second was
//	     given it, with all that it wrote, or not at all; and what the second reads after that sees it, or pushes it further,
//	     where it has to ask again. A lock may be lost only to a transaction that was aborted, whose record says so.
//
// Locks in the range of a one-phase commit are checked in its command (EndTxnRequest.Held), which applies under no later lease
// (P7): they cost nothing. For others the gateway asks before it decides (coordinator, CO10).

// checkLocks answers whether the transaction has held what it has locked in a span.
func (q *request) checkLocks(r *kv.CheckLocksRequest) error {
	if q.txn == nil {
		return &kv.InternalError{Message: "leader: a check of locks without a transaction"}
	}
	p := q.p
	p.o.Clock.Forward(q.readAt()) // P16: what is locked from here on is locked later
	if d := p.r.Desc(); d != nil && len(q.txn.Anchor) > 0 && d.Contains(keys.Addr(q.txn.Anchor)) {
		rec, err := p.record(p.o.Engine, q.txn.Anchor, q.txn.ID)
		if err != nil {
			return err
		}
		if rec != nil && rec.Status == kv.Aborted {
			return &kv.TxnAbortedError{ID: rec.ID, Reason: "the record says so"}
		}
	}
	return p.locksLost(r.Start, r.From)
}

// checkHeld does so for what a commit says was locked in its own range.
func (q *request) checkHeld() error {
	d := q.p.r.Desc()
	for i := range q.end.Held {
		h := &q.end.Held[i]
		if d == nil || !d.Span().ContainsSpan(h.Span) && !(h.Span.Point() && d.Contains(h.Span.Start)) {
			return &kv.OnePhaseError{} // the range has split; the gateway asks each part
		}
		if err := q.p.locksLost(h.Span.Start, h.From); err != nil {
			return err
		}
	}
	if _, ok := q.p.r.CheckLease(q.writeAt()); !ok {
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
