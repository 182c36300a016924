package leader

import (
	"context"

	"meridian/commit"
	"meridian/kv"
	"meridian/replica"
)

// A transaction that writes to several ranges of one store has its batches started one after the other, and then waited
// for: no goroutine for each, and one sync of the disk for all of them.

// starter is what else a replica can do; *replica.Replica can.
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

// Start evaluates and proposes a batch of writes, if neither a latch nor a lock nor the lease is in its way; otherwise
// nothing has happened, and it has to be sent. A batch that was started while another one's latches are held must not
// wait, since whoever it would wait for may want those. With lazy, the command is not on its way to the disk until
// somebody has that synced.
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
	q.traits, q.starts, q.lazy = t, st, lazy
	q.clockIn()
	f := &flight{q: q, gen: p.gate.enter()}
	if _, ok := p.r.CheckLease(q.readAt()); ok {
		var again bool
		if again, f.err = q.attempt(ctx); !again {
			if _, frozen := f.err.(*frozenError); !frozen {
				p.o.Metrics.Writes.Add(1)
				if f.pend = q.pend; f.pend == nil {
					f.finish()
				}
				return f, true
			}
		}
	}
	p.gate.leave(f.gen)
	p.locks.Finish(&q.guard)
	p.o.putRequest(q)
	return nil, false
}

// finish ends a batch that waits for nothing any more.
func (f *flight) finish() {
	q := f.q
	f.resp, f.q = q.answer(f.err), nil
	q.p.gate.leave(f.gen)
	q.p.locks.Finish(&q.guard)
	q.p.o.putRequest(q)
}

// Wait satisfies commit.Flight.
func (f *flight) Wait(ctx context.Context) (*kv.BatchResponse, error) {
	if f.pend != nil {
		q := f.q
		var keep bool
		keep, f.err = q.proposed(ctx, f.pend.Wait(ctx))
		if !keep {
			q.letGo()
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
