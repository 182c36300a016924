package commit

import (
	"context"
	"time"

	"meridian/clock"
	"meridian/keys"
	"meridian/kv"
	"meridian/storage/engine"
)

// SweepAge is how long a record has to be out of use before Sweep cares: by then no coordinator is still at work on
// it. Twenty times Expiry.
const SweepAge = time.Minute

// Sweep removes what dead coordinators left in the records of the range [start, end): it has transactions that
// have expired decided, intents of decided ones resolved, and their records removed, as commit.CR1 allows. It looks at up
// to max records, and tells how many it removed and how many are left. The leaseholder calls it from time to time;
// rd is its store.
func Sweep(ctx context.Context, s Sender, fs Finishers, rd engine.Reader, start, end keys.Key, now clock.Timestamp, max int) (removed, left int, err error) {
	old, seen, err := oldRecords(rd, keys.RangeLocalSpan(start, end), now, max)
	if err != nil {
		return 0, 0, err
	}
	for _, r := range old {
		ok, err := sweep(ctx, s, fs, r, now)
		if err != nil {
			return removed, seen - removed, err
		}
		if ok {
			removed++
		}
	}
	return removed, seen - removed, nil
}

// oldRecords lists the records that have been out of use for SweepAge, and counts all.
func oldRecords(rd engine.Reader, span keys.Span, now clock.Timestamp, max int) (out []*Record, seen int, err error) {
	it, err := rd.NewIter(engine.IterOptions{Lower: span.Start, Upper: span.End})
	if err != nil {
		return nil, 0, err
	}
	defer it.Close()
	for ok := it.First(); ok && seen < max; ok = it.Next() {
		k, version := it.Key()
		if len(version) > 0 {
			continue
		}
		if _, _, err := keys.DecodeTxnKey(k); err != nil {
			continue // another kind of range-local key
		}
		seen++
		v, err := it.Value()
		if err != nil {
			return nil, 0, err
		}
		r, err := DecodeRecord(v)
		if err != nil {
			continue // whoever needs it is told (kv.UnreadableError); the others are swept
		}
		if r.MinTimestamp.Forward(r.Heartbeat).Add(SweepAge).Less(now) {
			out = append(out, r)
		}
	}
	return out, seen, it.Error()
}

// resolveMax is how many intents of a span one command resolves: few enough that nobody waits for long because of it.
const resolveMax = 1000

// ResolveSpan gives all locks and intents of a transaction in a span its outcome, in small steps.
func ResolveSpan(ctx context.Context, s Sender, span keys.Span, meta kv.TxnMeta, status kv.Status, ignored []kv.SeqRange) error {
	if span.Point() {
		_, err := s.Send(ctx, &kv.Batch{Requests: []kv.Request{
			&kv.ResolveIntentRequest{Key: span.Start, Txn: meta, Status: status, IgnoredSeqs: ignored}}})
		return err
	}
	for next := &span; next != nil; {
		r, err := s.Send(ctx, &kv.Batch{Requests: []kv.Request{&kv.ResolveRangeRequest{
			Start: next.Start, End: span.End, Txn: meta, Status: status, IgnoredSeqs: ignored, Max: resolveMax,
		}}})
		if err != nil {
			return err
		}
		next = nil
		if len(r.Responses) == 1 {
			if left, ok := r.Responses[0].(*kv.DeleteRangeResponse); ok {
				next = left.Resume
			}
		}
	}
	return nil
}

// sweep deals with one record and reports whether it is gone.
func sweep(ctx context.Context, s Sender, fs Finishers, r *Record, now clock.Timestamp) (bool, error) {
	if !Final(r.Status) {
		// A push of a dead transaction aborts it, or recovers it if it was staging.
		resp, err := s.Send(ctx, &kv.Batch{Requests: []kv.Request{
			&kv.PushTxnRequest{Pushee: r.TxnMeta, Kind: kv.PushTouch}}})
		if err != nil {
			return false, err
		}
		p, ok := resp.Responses[0].(*kv.PushTxnResponse)
		if !ok || !Final(p.Pushee.Status) {
			return false, nil
		}
		r.Status, r.WriteTimestamp = p.Pushee.Status, p.Pushee.WriteTimestamp
		r.LockSpans = p.Pushee.LockSpans
	}
	if err := fs.Resolve(ctx, kv.Leader, r.LockSpans, r.TxnMeta, r.Status, r.IgnoredSeqs); err != nil {
		return false, err
	}
	// An aborted transaction's intents are not all known if its coordinator did not live to list them.
	if r.Status == kv.Aborted && !r.MinTimestamp.Forward(r.Heartbeat).Add(AbortedRetention).Less(now) {
		return false, nil
	}
	_, err := s.Send(ctx, &kv.Batch{Requests: []kv.Request{
		&kv.GCRequest{Start: r.Anchor, Records: []keys.Key{r.Key()}}}})
	return err == nil, err
}
