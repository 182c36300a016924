package leader

import (
	"context"

	"meridian/clock"
	"meridian/keys"
	"meridian/kv"
	"meridian/storage/mvcc"
)

// maxProvisional bounds the intents that a lookup in the range index returns. Lookups want the first ones.
const maxProvisional = 8

// readInconsistent serves the latest committed values, whichever replica has the lease. A snapshot keeps intents and values
// together: at the maximum timestamp nothing else distinguishes them.
func (ev *evaluation) readInconsistent() error {
	p := ev.p
	ev.begin()
	snap := p.o.Engine.NewSnapshot()
	defer snap.Close()
	rd := p.o.reader(snap)
	err := ev.scanInconsistent(rd)
	if cerr := p.o.putReader(rd); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	if c := p.closed.Load(); c != nil && c.thawed == nil {
		return c.err // frozen ranges answer: other nodes need their outcome
	}
	return p.checkSpans(ev.b)
}

func (ev *evaluation) scanInconsistent(rd *mvcc.Reader) error {
	o := mvcc.ReadOptions{Timestamp: clock.MaxTimestamp.Prev(), Inconsistent: true}
	for _, r := range ev.b.Requests {
		switch r := r.(type) {
		case *kv.GetRequest:
			v, err := rd.Get(r.Key, &o)
			if err != nil {
				return err
			}
			ev.resp.Responses = append(ev.resp.Responses, &kv.GetResponse{Value: v.Bytes, Timestamp: v.Timestamp})
		case *kv.ScanRequest:
			if ev.exhausted() {
				ev.resp.Responses = append(ev.resp.Responses, &kv.ScanResponse{Resume: &keys.Span{Start: r.Start, End: r.End}})
				continue
			}
			res, err := rd.Scan(r.Start, r.End, &mvcc.ScanOptions{ReadOptions: o, Reverse: r.Reverse,
				MaxKeys: ev.room.keys, TargetBytes: ev.room.bytes})
			if err != nil {
				return err
			}
			ev.spend(int64(len(res.Rows)), res.Bytes)
			resp := &kv.ScanResponse{Rows: res.Rows, Resume: res.Resume}
			if keys.IsMeta(r.Start) && !r.Reverse {
				if resp.Provisional, err = rd.Provisional(r.Start, r.End, maxProvisional); err != nil {
					return err
				}
			}
			ev.resp.Responses = append(ev.resp.Responses, resp)
		default:
			return &kv.InternalError{Message: "leader: only reads can be inconsistent"}
		}
	}
	return nil
}

// peek serves kv.Peek: the versions that have been resolved by now.
func (ev *evaluation) peek(ctx context.Context) error {
	p := ev.p
	r, ok := ev.b.Requests[0].(*kv.ScanRequest)
	if !ok || len(ev.b.Requests) != 1 {
		return &kv.InternalError{Message: "leader: only a scan can peek"}
	}
	gen, _, err := p.enter(ctx, ev.now)
	if err != nil {
		return err
	}
	defer p.gate.leave(gen)
	ev.begin()
	snap := p.o.Engine.NewSnapshot()
	defer snap.Close()
	rd := p.o.reader(snap)
	newest, provisional, err := rd.Newest(r.Start)
	if cerr := p.o.putReader(rd); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	resp := &kv.ScanResponse{Provisional: provisional}
	if newest != nil {
		resp.Rows = []kv.KeyValue{*newest}
	}
	ev.resp.Responses = append(ev.resp.Responses, resp)
	return p.checkServed(ev.b, ev.now)
}
