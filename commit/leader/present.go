package leader

import (
	"context"
	"time"

	"meridian/clock"
	"meridian/kv"
	"meridian/storage/mvcc"
)

// Reads of the present without the lease (CRDB'22 §6.2), in ranges that close timestamps ahead of the clock.
//
//	leader.P25 (I3, I4): a replica without the lease serves a transaction's read only if it has closed the end of the transaction's uncertainty
//	    interval, and all that the read may move to. So it has every version that may have been committed before the transaction began. It
//	    compares versions with timestamps alone: the local timestamps of versions are readings of another node's clock. A version in the
//	    interval moves the read up to it, as at the leaseholder, and the transaction waits for its time before it is answered (txn.TX8).
//
// Nothing is entered into the timestamp cache: the leaseholder writes nothing at or below what is closed.

// presentPause is how often a read that waits for its replica asks it.
const presentPause = 2 * time.Millisecond

// presentLag is by how much more than the time that a read may wait its replica may be behind: timestamps come in steps.
const presentLag = 100 * time.Millisecond

// present serves a batch of a transaction's plain reads from the applied state of this replica. It takes no latches. If the replica is
// behind, the read waits as long as its gateway allows, which knows how far the leaseholder is.
func (p *Participant) present(ctx context.Context, b *kv.Batch) (*kv.BatchResponse, error) {
	q := p.o.request(p, b)
	defer p.o.putRequest(q)
	if q.traits = traitsOf(b); b.Txn == nil || q.writes > 0 || q.locks || q.record || q.admin || q.push != nil || q.end != nil {
		return nil, &kv.InternalError{Message: "leader: only a transaction's plain reads can be served without the lease"}
	}
	q.now = p.o.Clock.Now()
	q.first.Now, q.unled = q.now, true
	// A version at the end of the interval moves the read just above it.
	limit := clock.Timestamp{Wall: b.Txn.ReadTimestamp.Forward(b.Txn.UncertaintyLimit).Wall + 1}
	var began time.Duration // of the wait
	for {
		f, closed, ok := p.r.Follow(limit)
		if ok {
			err := q.evaluation.readView()
			if !p.r.Still(f) {
				p.o.Metrics.NotClosed.Add(1)
				return nil, &kv.NotClosedError{Range: p.r.RangeID(), Closed: closed}
			}
			if u, uncertain := err.(*kv.UncertaintyError); uncertain && q.mayForward() && u.RetryAt.Less(limit) {
				q.forward(u.RetryAt)
				continue
			}
			return q.presented(ctx, err, closed)
		}
		clk := p.o.Clock.Physical()
		if began == 0 {
			began = clk.Monotonic()
		}
		waited := clk.Monotonic() - began
		if behind := time.Duration(limit.Wall - closed.Wall); waited >= b.MayWait || behind > b.MayWait-waited+presentLag {
			p.o.Metrics.NotClosed.Add(1)
			return nil, &kv.NotClosedError{Range: p.r.RangeID(), Closed: closed}
		}
		if waited == 0 {
			p.o.Metrics.PresentWaits.Add(1)
			p.o.Probes.Reached(ProbePresentWaits)
		}
		if err := clk.Sleep(ctx, presentPause); err != nil {
			return nil, err
		}
	}
}

// presented makes the answer of a read that was evaluated.
func (q *request) presented(ctx context.Context, err error, closed clock.Timestamp) (*kv.BatchResponse, error) {
	p := q.p
	if err == nil {
		err = p.checkServed(q.b, q.readAt())
	}
	switch err.(type) {
	case nil:
		p.o.Metrics.FollowerReads.Add(1)
		p.o.Metrics.PresentReads.Add(1)
		p.o.Probes.Reached(ProbePresent)
		resp := q.answer(nil)
		resp.Leads = true
		return p.awaitSeen(ctx, q.b, q.evaluation.newest, resp, nil)
	case *mvcc.LockConflictError:
		p.o.Metrics.FollowerConflicts.Add(1)
		return nil, &kv.NotClosedError{Range: p.r.RangeID(), Closed: closed, Intent: true}
	}
	if served := p.checkSpans(q.b); served != nil {
		return nil, served
	}
	return q.answer(err), err
}
