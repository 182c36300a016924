package leader

import (
	"context"
	"errors"

	"meridian/clock"
	"meridian/kv"
)

// Send evaluates a batch on the caller's goroutine. It waits while the range is frozen.
func (p *Participant) Send(ctx context.Context, b *kv.Batch) (*kv.BatchResponse, error) {
	for {
		resp, err := p.serve(ctx, b)
		if m, much := err.(*tooMuchError); much {
			return p.sendApart(ctx, b, m.at)
		}
		if l, leaves := err.(*leavingError); leaves {
			if err := p.awaitLeft(ctx, l.l); err != nil {
				return nil, err
			}
			continue
		}
		f, frozen := err.(*frozenError)
		if !frozen {
			return resp, err
		}
		if r, ok := b.Requests[0].(*kv.SubsumeRequest); ok && r.Txn.ID == f.c.txn && f.c.told != nil {
			return &kv.BatchResponse{Now: p.o.Clock.Now(), Responses: []kv.Response{f.c.told}}, nil
		}
		if err := p.awaitThaw(ctx, f.c); err != nil {
			return nil, err
		}
	}
}

// stays reports whether an error never leaves the participant: Send deals with it.
func stays(err error) bool {
	switch err.(type) {
	case *frozenError, *leavingError, *tooMuchError:
		return true
	}
	return false
}

// awaitThaw returns when a freeze has ended.
func (p *Participant) awaitThaw(ctx context.Context, c *closing) error {
	p.o.Metrics.FreezeWaits.Add(1)
	return p.await(ctx, c.thawed)
}

// await returns when a channel is closed, or the range can't be served here any more.
func (p *Participant) await(ctx context.Context, c <-chan struct{}) error {
	select {
	case <-c:
		return nil
	case <-*p.unled.Load():
		return errUnled()
	case <-p.ended:
		return p.closedErr()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// serve is Send for a range that is not frozen.
func (p *Participant) serve(ctx context.Context, b *kv.Batch) (*kv.BatchResponse, error) {
	if err := p.closedTo(b); err != nil {
		return nil, err
	}
	if !b.Now.IsZero() && b.Gateway != p.r.NodeID() {
		if err := p.o.Clock.Update(b.Now); err != nil {
			return nil, &kv.UnavailableError{Reason: err.Error()}
		}
	}
	if negotiates(b) {
		return p.negotiate(b)
	}
	if r, ok := b.Requests[0].(*kv.CloseRequest); ok {
		return p.promise(ctx, b, r)
	}
	switch b.Consistency {
	case kv.Stale:
		if _, ok := p.r.CheckLease(staleAt(b)); !ok {
			return p.follow(ctx, b)
		}
	case kv.Present:
		if _, ok := p.r.CheckLease(staleAt(b)); !ok {
			return p.present(ctx, b)
		}
	}
	if len(b.Requests) == 1 && b.Consistency != kv.Inconsistent {
		if get, ok := b.Requests[0].(*kv.GetRequest); ok && get.Lock == kv.NoLock {
			if resp, newest, err := p.get(ctx, b, get); err != errAgain {
				return p.awaitSeen(ctx, b, newest, resp, err)
			}
		}
	}
	if r, ok := b.Requests[0].(*kv.QueryTxnRequest); ok && r.Known != 0 {
		if err := p.awaitNews(ctx, r); err != nil {
			return nil, err
		}
	}
	if _, ok := b.Requests[0].(*kv.ReleaseRequest); ok {
		return p.hear(ctx, b)
	}
	q := p.o.request(p, b)
	q.traits = traitsOf(b)
	resp, err := q.send(ctx)
	if err == nil && q.txn == nil && b.Timestamp.IsZero() && q.now.Less(q.at) {
		err = p.o.Clock.AwaitPast(ctx, q.at) // leader.P23
	}
	if _, tells := err.(*kv.ConditionFailedError); tells {
		if _, waited := p.awaitSeen(ctx, b, q.evaluation.newest, nil, nil); waited != nil {
			err = waited
		}
	} else if q.end == nil && err == nil {
		resp, err = p.awaitSeen(ctx, b, q.evaluation.newest, resp, nil)
	}
	p.locks.Finish(&q.locking.guard)
	p.o.putRequest(q)
	return resp, err
}

// awaitSeen returns the answer to an externally consistent transaction's reads, or to a write whose condition has failed, when the newest version that they have seen is certainly in
// the past (leader.P28).
func (p *Participant) awaitSeen(ctx context.Context, b *kv.Batch, newest clock.Timestamp, resp *kv.BatchResponse, err error) (*kv.BatchResponse, error) {
	if err != nil || b.Txn == nil || !b.Txn.External() || newest.IsZero() || p.o.Clock.TrueTime().After(newest) {
		return resp, err
	}
	p.o.Metrics.SeenWaits.Add(1)
	if err := p.o.Clock.AwaitAfter(ctx, newest); err != nil {
		return nil, err
	}
	return resp, nil
}

// errAgain is the result of an evaluation that has to be repeated.
var errAgain = errors.New("leader: again")

func (q *request) send(ctx context.Context) (*kv.BatchResponse, error) {
	p := q.p
	var err error
	switch {
	case q.admin:
		return nil, &kv.InternalError{Message: "leader: the range's participant does not carry out admin requests"}
	case q.bulk && (len(q.b.Requests) != 1 || q.txn != nil):
		return nil, &kv.InternalError{Message: "leader: a load has to be a batch of its own"}
	case q.push != nil:
		return q.sendPush(ctx)
	case q.subsume != nil:
		return q.sendSubsume(ctx)
	case q.writes == 0 && !q.locks && !q.record && q.end == nil:
		p.o.Metrics.Reads.Add(1)
		if q.asksLocks && !q.vouches() {
			if err := p.o.Clock.AwaitPast(ctx, q.readAt()); err != nil {
				return nil, err // leader.P16
			}
		}
		err = q.sendRead(ctx)
	default:
		p.o.Metrics.Writes.Add(1)
		err = q.sendWrite(ctx)
	}
	return q.answer(err), err
}
