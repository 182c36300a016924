package leader

import (
	"context"
	"time"

	"meridian/clock"
	"meridian/keys"
	"meridian/kv"
	"meridian/replica/closedts"
	"meridian/replica/lease"
)

// A promise on demand (Spanner §4.2.4): a replica that is asked for a time which is not closed yet gets it closed by the leaseholder, waits until it has applied what was written before, and serves it
// from then on. It costs one message to the leaseholder, and further reads at that time none.
//
//	leader.P29 (I6): a promise on demand is one of the side transport's: the leaseholder closes what its lease covers, when no write at or below is in flight, and the index that it
//	    names is read afterwards (closedts.CT1 to closedts.CT3). It is one of the range that it names: a key may have another range than the replica that asks knows.

const (
	// promisePause is how often a promise is tried again that writes in flight prevent, and how often a replica looks whether it has applied them.
	promisePause = time.Millisecond
	// promisePatience is for how long the leaseholder tries: writes take a round of consensus.
	promisePatience = 500 * time.Millisecond
)

// promise answers a kv.CloseRequest.
func (p *Participant) promise(ctx context.Context, b *kv.Batch, r *kv.CloseRequest) (*kv.BatchResponse, error) {
	clk := p.o.Clock.Physical()
	begin := clk.Monotonic()
	for {
		now := p.o.Clock.Now()
		if now.Add(lease.Farthest).Less(r.At) {
			return nil, &kv.FutureError{At: r.At, Serves: now.Add(lease.Farthest)}
		}
		gen, _, err := p.enter(ctx, r.At)
		if err != nil {
			return nil, err
		}
		err = p.checkSpans(b)
		index, ok := uint64(0), false
		if err == nil {
			p.serves(r.At, now)
			index, _, ok = p.r.CloseIdle(r.At)
		}
		p.gate.leave(gen)
		switch {
		case err != nil:
			return nil, err
		case ok:
			return &kv.BatchResponse{Now: p.o.Clock.Now(), Responses: []kv.Response{&kv.CloseResponse{Index: index, Range: p.r.RangeID()}}}, nil
		case clk.Monotonic()-begin > promisePatience:
			return nil, &kv.NotClosedError{Range: p.r.RangeID(), Closed: p.r.Closer().Closed()}
		}
		if err := clk.Sleep(ctx, promisePause); err != nil {
			return nil, err
		}
	}
}

// obtain asks the leaseholder for a promise, and waits until this replica serves reads at the time, for as long as the gateway allows. It reports whether the replica does.
func (p *Participant) obtain(ctx context.Context, b *kv.Batch, at clock.Timestamp) bool {
	if b.MayWait <= 0 {
		return false
	}
	clk := p.o.Clock.Physical()
	ctx, cancel := clk.WithTimeout(ctx, b.MayWait)
	defer cancel()
	to := at
	if to.Logical > 0 {
		to = clock.Timestamp{Wall: at.Wall + 1} // replicas keep closed timestamps without the counter
	}
	ask := &kv.Batch{Header: kv.Header{Gateway: p.r.NodeID(), Now: p.o.Clock.Now()},
		Requests: []kv.Request{&kv.CloseRequest{Key: keys.Addr(b.Requests[0].Span().Start), At: to}}}
	resp, err := p.o.Sender.Send(ctx, ask)
	if err != nil || len(resp.Responses) != 1 {
		return false
	}
	one, ok := resp.Responses[0].(*kv.CloseResponse)
	if !ok || one.Range != p.r.RangeID() {
		return false // the key is another range's now, and this replica has not applied the split or merge yet
	}
	p.o.Metrics.Promises.Add(1)
	told := closedts.Promise{Range: p.r.RangeID(), Closed: to, Index: one.Index}
	for {
		p.r.HeardClosed(told)
		if _, _, ok := p.r.Follow(at); ok {
			return true
		}
		if p.closedErr() != nil || clk.Sleep(ctx, promisePause) != nil {
			return false
		}
	}
}
