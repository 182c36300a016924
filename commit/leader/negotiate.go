package leader

import (
	"meridian/clock"
	"meridian/kv"
)

// Negotiation: up to when can this replica serve stale reads of some spans, without the lease and without waiting (CRDB'22 §5.3.2)?
//
//	leader.P24 (I6): a negotiated timestamp is closed at this replica, and no intent that is not known to be committed is at or below it in
//	    the span. The intents are looked up in a view of the engine that was taken after the closed timestamp was read, so whatever is not in it
//	    will be written above. A read at the timestamp, or below it, therefore meets no intent here later either.

// negotiates reports whether a batch consists of negotiations; they come alone.
func negotiates(b *kv.Batch) bool {
	_, ok := b.Requests[0].(*kv.NegotiateRequest)
	return ok
}

// negotiate answers a batch of negotiations (leader.P24). Any replica does so, the leaseholder too: what it could serve beyond its closed timestamp
// may have to wait for writes in flight.
func (p *Participant) negotiate(b *kv.Batch) (*kv.BatchResponse, error) {
	p.o.Metrics.Negotiations.Add(1)
	_, closed, _ := p.r.Follow(clock.MaxTimestamp)
	f, _, ok := p.r.Follow(closed)
	if !ok {
		closed = clock.Timestamp{}
	}
	resp := &kv.BatchResponse{Now: p.o.Clock.Now(), Responses: make([]kv.Response, len(b.Requests))}
	snap := p.o.Engine.NewSnapshot()
	defer snap.Close()
	rd := p.o.reader(snap)
	var err error
	for i, r := range b.Requests {
		q, ok := r.(*kv.NegotiateRequest)
		if !ok {
			err = &kv.InternalError{Message: "leader: negotiations come in batches of their own"}
			break
		}
		one := &kv.NegotiateResponse{Timestamp: closed, Closed: closed}
		if q.Least.LessEq(closed) {
			low, found, lerr := rd.Unsettled(q.Start, q.End, q.Least, closed)
			if err = lerr; err != nil {
				break
			}
			if found {
				one.Timestamp, one.Intent = low.Prev(), true
			}
		}
		resp.Responses[i] = one
	}
	if cerr := p.o.putReader(rd); err == nil {
		err = cerr
	}
	if err == nil && !p.r.Still(f) {
		err = &kv.NotClosedError{Range: p.r.RangeID()}
	}
	if err == nil {
		err = p.closedTo(b)
	}
	if served := p.checkSpans(b); served != nil {
		return nil, served
	}
	if err != nil {
		return nil, err
	}
	return resp, nil
}
