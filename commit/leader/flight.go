package leader

import (
	"context"

	"meridian/commit"
	"meridian/kv"
	"meridian/replica"
)

// A transaction that writes to several ranges of one store has its batches started one after the other, and then waits for all: without a
// goroutine for each, and with one sync of the disk.

// starter is an optional interface of a replica; *replica.Replica implements it.
type starter interface {
	Start(c *replica.Command, lazy bool) (*replica.Pending, error)
}

// flight is a batch whose command has been proposed. It holds its latches.
type flight struct {
	q    *request
	gen  uint32
	pend *replica.Pending
	resp *kv.BatchResponse // if there is nothing to wait for
	err  error
}

// Start evaluates and proposes a batch of writes, if it has to wait for neither a latch nor a lock nor the lease; otherwise it had no
// effect, and has to be sent. A batch that was started while another one's latches are held must not wait, since the request that it would
// wait for may want those. With lazy, the caller has the command synced later.
func (p *Participant) Start(ctx context.Context, b *kv.Batch, lazy bool) (commit.Flight, bool) {
	st, ok := p.r.(starter)
	if !ok || b.Gateway != p.r.NodeID() || p.closedErr() != nil {
		return nil, false
	}
	t := traitsOf(b)
	if t.admin || t.bulk || t.record || t.push != nil || t.subsume != nil || t.writes == 0 && t.end == nil ||
		t.end != nil && t.end.Trigger != nil {
		return nil, false
	}
	q := p.o.request(p, b)
	q.traits, q.proposal.starts, q.proposal.lazy = t, st, lazy
	q.clockIn()
	f := &flight{q: q, gen: p.gate.enter()}
	if _, ok := p.r.CheckLease(q.servesAt()); ok {
		p.serves(q.servesAt(), q.now)
		var again bool
		if again, f.err = q.attempt(ctx); !again {
			if !stays(f.err) {
				p.o.Metrics.Writes.Add(1)
				if f.pend = q.proposal.pend; f.pend == nil {
					f.finish()
				}
				return f, true
			}
		}
	}
	p.gate.leave(f.gen)
	p.locks.Finish(&q.locking.guard)
	p.o.putRequest(q)
	return nil, false
}

// finish ends a batch whose wait is over.
func (f *flight) finish() {
	q := f.q
	f.resp, f.q = q.answer(f.err), nil
	q.p.gate.leave(f.gen)
	q.p.locks.Finish(&q.locking.guard)
	q.p.o.putRequest(q)
}

// Wait satisfies commit.Flight.
func (f *flight) Wait(ctx context.Context) (*kv.BatchResponse, error) {
	if f.pend != nil {
		q := f.q
		var keep bool
		keep, f.err = q.proposal.proposed(ctx, f.pend.Wait(ctx))
		if !keep {
			q.latching.letGo()
		}
		f.finish()
	}
	return f.resp, f.err
}

// Synced satisfies commit.Flight.
func (f *flight) Synced() bool { return f.pend != nil && f.pend.Synced() }

// Cover satisfies commit.Flight.
func (f *flight) Cover() {
	if f.pend != nil {
		f.pend.Cover()
	}
}
