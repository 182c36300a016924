package leader

import (
	"context"
	"math"

	"meridian/commit"
	"meridian/commit/leader/lock"
	"meridian/keys"
	"meridian/kv"
	"meridian/storage/mvcc"
)

// resolveAtEnd is how many intents the end of a transaction resolves by itself. A command with many more of them would block the range, and
// the client; and its size has a bound.
const resolveAtEnd = 500

// resolveBytes is the length of a command beyond which it resolves no more intents. An intent whose timestamp has moved is written
// again with its value, so that a few may be more than a command can hold. Chosen by us: the size of a gateway's batch of writes.
//
// leader.P19 (I9): a batch of resolutions is carried out whatever the size of the values: by parts, each a command of its own.
const resolveBytes = 1 << 20

// resolveMax bounds the intents that one resolution batch takes.
const resolveMax = 256

// resolveSpanMax is how many intents are resolved at once for a scan.
const resolveSpanMax = 1000

// tooMuchError says that the requests from at on have to be a batch of their own. It never leaves the participant.
type tooMuchError struct{ at int }

// divided returns the request before which a batch of resolutions has to be divided, whose i-th made the command too long; zero: not at
// all. before is the command's length without that one: if it is the large one, it is the first of the next part.
func (c *call) divided(i, before int) int {
	for _, r := range c.b.Requests {
		if _, is := r.(*kv.ResolveIntentRequest); !is {
			return 0
		}
	}
	if i > 0 && before > resolveBytes/16 {
		return i
	}
	if i+1 < len(c.b.Requests) {
		return i + 1
	}
	return 0
}

// sendApart carries out a batch of resolutions in two parts (leader.P19).
func (p *Participant) sendApart(ctx context.Context, b *kv.Batch, at int) (*kv.BatchResponse, error) {
	first, second := *b, *b
	first.Requests, second.Requests = b.Requests[:at:at], b.Requests[at:]
	one, err := p.Send(ctx, &first)
	if err != nil {
		return one, err
	}
	two, err := p.Send(ctx, &second)
	if err != nil {
		return two, err
	}
	two.Responses = append(one.Responses[:at:at], two.Responses...)
	return two, nil
}

// resolveOwn resolves the transaction's intents in the range, in the batch that decides it, and returns the parts of
// the spans that have too many of them.
func (ev *evaluation) resolveOwn(spans []keys.Span, rec *commit.Record, d *kv.RangeDescriptor) (left []keys.Span, err error) {
	if ev.noLocks && ev.writes == 0 {
		return nil, nil
	}
	local := make([]keys.Span, 0, len(spans))
	for _, s := range spans {
		if s, ok := clip(s, d); ok {
			local = append(local, s)
		}
	}
	if ev.end.OnePhase {
		// It should have left no intents; intents of this batch (evaluate) are not in its lock spans.
		for _, r := range ev.b.Requests {
			if r.Method().IsWrite() && r != kv.Request(ev.end) {
				local = append(local, r.Span())
			}
		}
	}
	res := &mvcc.Resolution{Txn: rec.TxnMeta, Status: rec.Status, IgnoredSeqs: ev.txn.IgnoredSeqs, IntentsOnly: true}
	room, limit := int64(resolveAtEnd), resolveBytes+ev.batch.Len()
	if ev.end.Trigger != nil {
		room, limit = math.MaxInt64, math.MaxInt // the range is about to be another one
	}
	res.MaxBytes = limit
	for _, s := range disjoint(local) {
		if room <= 0 || ev.batch.Len() > limit {
			left = append(left, s)
			continue
		}
		n, rest := int64(1), (*keys.Span)(nil)
		if s.Point() {
			_, err = ev.w.ResolveIntent(s.Start, res)
		} else {
			n, rest, err = ev.w.ResolveRange(s.Start, s.End, res, room)
		}
		if err != nil {
			return nil, err
		}
		if room -= n; rest != nil {
			left = append(left, *rest)
		}
	}
	return left, nil
}

// narrow reduces a request to resolve the beginning of a span to the keys that it is going to resolve, so that it latches only these. A
// transaction that has ended writes no more intents, so those found before the latches are taken are all of them; a late one, of a
// transaction that others aborted, is found by a request that meets it.
func (ev *evaluation) narrow() error {
	if ev.narrowed.whole.Start != nil {
		return nil // at an earlier attempt
	}
	r, ok := ev.b.Requests[0].(*kv.ResolveRangeRequest)
	if !ok || len(ev.b.Requests) != 1 || r.Max <= 0 || ev.p.r.Stats().IntentCount == 0 {
		return nil
	}
	rd := ev.p.o.reader(ev.p.o.Engine)
	span, rest, err := rd.LocksOf(r.Txn.ID, r.Start, r.End, r.Max)
	if cerr := ev.p.o.putReader(rd); err == nil {
		err = cerr
	}
	if err != nil || span.Start == nil {
		return err
	}
	c := *r
	c.Start, c.End, c.Max = span.Start, span.End, 0
	ev.narrowed = narrowed{keys.Span{Start: r.Start, End: r.End}, rest}
	if rest != nil {
		ev.narrowed.whole.End = rest.Start
	}
	b := *ev.b
	b.Requests = []kv.Request{&c}
	ev.b = &b
	return nil
}

// resolve gives the intents of an ended transaction that the table knows, and those up to until, their outcome.
func (p *Participant) resolve(ctx context.Context, w *lock.Wait, until keys.Key) error {
	meta := w.Holder
	t := kv.Txn{TxnMeta: meta, Status: w.Status}
	if w.Status == kv.Committed {
		// The table does not know the commit timestamp: ask the record.
		resp, err := p.o.Sender.Send(ctx, &kv.Batch{
			Header:   kv.Header{Gateway: p.r.NodeID(), Now: p.o.Clock.Now()},
			Requests: []kv.Request{&kv.PushTxnRequest{Pushee: meta, Kind: kv.PushTouch}},
		})
		if err != nil {
			return err
		}
		if push, ok := resp.Responses[0].(*kv.PushTxnResponse); ok {
			t = push.Pushee
		}
		if t.Status == kv.Staging {
			// Committed, but its record does not say so yet, and until then recovery queries the intents: they stay.
			// This push waits for the gateway, or for its end.
			if resp, err = p.o.Sender.Send(ctx, &kv.Batch{
				Header:   kv.Header{Gateway: p.r.NodeID(), Now: p.o.Clock.Now()},
				Requests: []kv.Request{&kv.PushTxnRequest{Pushee: meta, Kind: kv.PushTimestamp, PushTo: t.WriteTimestamp.Next()}},
			}); err != nil {
				return err
			}
			if push, ok := resp.Responses[0].(*kv.PushTxnResponse); ok {
				t = push.Pushee
			}
		}
		if !commit.Final(t.Status) {
			// The record is gone, so all of the transaction's intents are resolved: this one is a remnant.
			p.locks.Release(w.Key, meta.ID)
			return nil
		}
	}
	return p.resolveTo(ctx, w.Key, until, &t)
}

// resolveTo resolves the intents of a transaction that the table knows, that on k above all. A scan up to until is about to meet the
// following ones, too.
func (p *Participant) resolveTo(ctx context.Context, k, until keys.Key, t *kv.Txn) error {
	ks := []keys.Key{k}
	if commit.Final(t.Status) && until == nil {
		if all := p.locks.IntentsOf(t.ID, resolveMax); len(all) > 0 {
			ks = all
		}
	}
	b := &kv.Batch{Requests: make([]kv.Request, len(ks))}
	b.RangeID, b.Gateway, b.Now = p.r.RangeID(), p.r.NodeID(), p.o.Clock.Now()
	status := t.Status
	if status == kv.Staging {
		status = kv.Pending
	}
	if until != nil {
		b.Requests = []kv.Request{&kv.ResolveRangeRequest{
			Start: k, End: until, Txn: t.TxnMeta, Status: status, IgnoredSeqs: t.IgnoredSeqs, Max: resolveSpanMax,
		}}
		ks = nil
	}
	for i, k := range ks {
		b.Requests[i] = &kv.ResolveIntentRequest{Key: k, Txn: t.TxnMeta, Status: status, IgnoredSeqs: t.IgnoredSeqs}
	}
	_, err := p.Send(ctx, b)
	if err == nil {
		p.o.Metrics.Resolved.Add(int64(max(len(ks), 1)))
	}
	return err
}

// scanEnd is the end of the scan that met k; nil if there was no scan.
func (c *call) scanEnd(k keys.Key) keys.Key {
	for _, r := range c.b.Requests {
		switch x := r.(type) {
		case *kv.ScanRequest:
			if x.Reverse {
				continue
			}
		case *kv.DeleteRangeRequest, *kv.RefreshRangeRequest:
		default:
			continue
		}
		if s := r.Span(); s.Contains(k) && !keys.IsLocal(k) {
			return s.End
		}
	}
	return nil
}
