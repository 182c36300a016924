package leader

import (
	"context"
	"slices"

	"meridian/keys"
	"meridian/kv"
)

// load adds rows at the batch's timestamp, which may be in the past. A shared load must not change the result of an earlier read
// (leader.P1); for other loads there are no reads (docs/decisions, bulk writes).
func (ev *evaluation) load(r *kv.LoadRequest) (kv.Response, error) {
	if ev.b.Timestamp.IsZero() {
		return nil, &kv.InternalError{Message: "leader: a load without a timestamp"}
	}
	if t := ev.p.r.GCThreshold(); !t.IsZero() && ev.at.LessEq(t) {
		return nil, &kv.BelowGCError{Threshold: t}
	}
	var late func(keys.Key) bool
	if r.Mode == kv.LoadShared {
		low := ev.p.low.Load().Forward(ev.latching.floor)
		late = func(k keys.Key) bool {
			at, _ := ev.p.o.Cache.Max(k)
			return ev.at.LessEq(at.Forward(low))
		}
	}
	o := ev.writeOptions(0, false)
	refused, err := ev.w.Load(r.Rows, r.Mode, late, &o)
	return &kv.LoadResponse{Refused: refused}, err
}

// shares reports whether the batch is a load of several rows among others' writes (lock.K4).
func (c *call) shares() bool {
	if !c.bulk {
		return false
	}
	l, ok := c.b.Requests[0].(*kv.LoadRequest)
	return ok && l.Mode != kv.LoadAlone && len(l.Rows) > 1
}

// loadApart loads a row that blocks a load separately, and leaves it out of the load from then on. So the load claims no row while it waits
// for another (lock.K4), and each gets its turn. It returns the rows that were refused by then.
func (q *request) loadApart(ctx context.Context, refused []keys.Key) ([]keys.Key, error) {
	q.locking.guardSpans()
	w, waits := q.p.locks.Probe(&q.locking.guard, q.locking.guard.Spans)
	if !waits {
		return refused, nil
	}
	l := q.b.Requests[0].(*kv.LoadRequest)
	i, found := slices.BinarySearchFunc(l.Rows, w.Key, func(r kv.KeyValue, k keys.Key) int { return r.Key.Compare(k) })
	if !found {
		return nil, &kv.InternalError{Message: "leader: a load's rows are not in order"}
	}
	q.p.o.Probes.Reached(probeLoadApart)
	alone, rest := *q.b, *q.b
	alone.Timestamp, rest.Timestamp = q.at, q.at
	alone.Requests = []kv.Request{&kv.LoadRequest{Rows: l.Rows[i : i+1], Mode: l.Mode}}
	rest.Requests = []kv.Request{&kv.LoadRequest{Rows: slices.Delete(slices.Clone(l.Rows), i, i+1), Mode: l.Mode}}
	resp, err := q.p.serve(ctx, &alone)
	if err != nil {
		return nil, err
	}
	if one, ok := resp.Responses[0].(*kv.LoadResponse); ok {
		refused = append(refused, one.Refused...)
	}
	q.b, q.locking.guarded = &rest, false
	return refused, nil
}
