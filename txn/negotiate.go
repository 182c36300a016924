package txn

import (
	"context"

	"meridian/clock"
	"meridian/keys"
	"meridian/kv"
)

// Negotiated is the result of a negotiation.
type Negotiated struct {
	// At is the latest timestamp at which the nearest replicas serve stale reads of all spans, without the lease and without waiting;
	// clock.MaxTimestamp if there are no spans.
	At clock.Timestamp
	// Intent says that an intent stands in the way of a later one; otherwise closed timestamps do.
	Intent bool
	// Closed is the latest closed timestamp of the replicas that were asked: how far they have come.
	Closed clock.Timestamp
}

// Negotiate asks the nearest replica of every range of the spans up to when it can serve them, all at the same time, and returns the
// earliest answer (CRDB'22 §5.3.2). Below least, it may be too early: such a timestamp is of no use to the caller.
func (db *DB) Negotiate(ctx context.Context, spans []keys.Span, least clock.Timestamp) (Negotiated, error) {
	n := Negotiated{At: clock.MaxTimestamp}
	if len(spans) == 0 {
		return n, nil
	}
	reqs, list := make([]kv.Request, len(spans)), make([]kv.NegotiateRequest, len(spans))
	for i, s := range spans {
		list[i] = kv.NegotiateRequest{Start: s.Start, End: s.End, Least: least}
		reqs[i] = &list[i]
	}
	r, err := db.o.Sender.Send(ctx, &kv.Batch{Header: kv.Header{Target: kv.ToNearest}, Requests: reqs})
	if err != nil {
		return Negotiated{}, err
	}
	for _, x := range r.Responses {
		one, ok := x.(*kv.NegotiateResponse)
		if !ok {
			return Negotiated{}, ErrMalformed
		}
		if one.Timestamp.Less(n.At) {
			n.At, n.Intent = one.Timestamp, one.Intent
		}
		n.Closed = n.Closed.Forward(one.Closed)
	}
	return n, nil
}
