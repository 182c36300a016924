package leader

import (
	"bytes"
	"context"
	"errors"
	"math"
	"slices"

	"meridian/commit"
	"meridian/keys"
	"meridian/kv"
	"meridian/storage/mvcc"
)

// The end of a transaction, and its record.

// mayCommitInOnePhase says whether the transaction may commit at its write timestamp. Nothing of it is anywhere but
// in this batch, except that somebody may have pushed it, or taken it for dead.
//
// P5: whatever is done about a transaction's record, and a one-phase commit, leaves a mark in the store's timestamp
// cache. So without a mark, and under a lease that is older than the transaction, there is no record; most
// transactions need not look for one.
func (q *request) mayCommitInOnePhase() error {
	q.hasOwn = false
	low := *q.p.low.Load()
	marked, own := q.p.o.Cache.Marked(q.txn.ID)
	if marked.Forward(low).Less(q.txn.MinTimestamp) {
		return q.mayCommitAt()
	}
	rec, err := q.p.record(q.p.o.Engine, q.end.Anchor, q.txn.ID)
	if err != nil {
		return err
	}
	if rec == nil {
		if own {
			return &kv.TxnRetryError{Reason: kv.RetryPossibleReplay, WriteTimestamp: q.txn.WriteTimestamp}
		}
		return q.mayCommitAt()
	}
	q.hasOwn = true
	switch rec.Status {
	case kv.Aborted:
		return &kv.TxnAbortedError{ID: rec.ID, Reason: "the record says so"}
	case kv.Committed, kv.Staging:
		return &kv.TxnRetryError{Reason: kv.RetryPossibleReplay, WriteTimestamp: rec.WriteTimestamp}
	}
	q.pushWrite(rec.WriteTimestamp) // CR3
	return q.mayCommitAt()
}

// mayCommitAt says whether the transaction's snapshot is that of its commit, unless that does not matter to it, and the
// commit in time.
func (q *request) mayCommitAt() error {
	at := q.txn.WriteTimestamp
	if q.txn.ReadTimestamp.Forward(q.end.Upto).Less(at) || !q.end.Deadline.IsZero() && q.end.Deadline.Less(at) {
		return &kv.TxnRetryError{Reason: kv.RetrySerializable, WriteTimestamp: at}
	}
	return nil
}

// endOnePhase commits a transaction whose writes were all in this batch.
func (q *request) endOnePhase(r *kv.EndTxnRequest) (kv.Response, error) {
	p := q.p
	if q.hasOwn {
		q.batch.Delete(keys.TxnKey(r.Anchor, q.txn.ID))
	}
	if err := q.trigger(r); err != nil {
		return nil, err
	}
	done := q.txn.TxnMeta
	done.Anchor = r.Anchor
	q.records = append(q.records, &commit.Record{TxnMeta: done, Status: kv.Committed})
	q.release(r.LockSpans, kv.Committed)
	return &kv.EndTxnResponse{OnePhase: true, CommitTimestamp: q.txn.WriteTimestamp,
		Unresolved: outside(r.LockSpans, p.r.Desc())}, nil
}

// release lists what the transaction may have locked here, to be released in memory.
func (q *request) release(spans []keys.Span, s kv.Status) {
	for _, span := range spans {
		q.released = append(q.released, released{span, q.txn.TxnMeta, s})
	}
}

func (q *request) trigger(r *kv.EndTxnRequest) error {
	if r.Trigger == nil {
		return nil
	}
	delta, err := q.p.r.EvaluateTrigger(q.batch, q.batch, r.Trigger)
	if err != nil {
		return err
	}
	q.cmd.Trigger = r.Trigger
	q.cmd.Delta.Add(delta)
	return nil
}

// endTxn decides a transaction by its record.
func (q *request) endTxn(r *kv.EndTxnRequest) (kv.Response, error) {
	p := q.p
	if q.txn == nil {
		return nil, &kv.InternalError{Message: "leader: EndTxn without a transaction"}
	}
	key := keys.TxnKey(r.Anchor, q.txn.ID)
	var stored *commit.Record
	var err error
	if marked, own := p.o.Cache.Marked(q.txn.ID); !marked.Forward(*p.low.Load()).Less(q.txn.MinTimestamp) { // P5
		if stored, err = q.stored(key); err != nil {
			return nil, err
		}
		if stored == nil && own && q.writes > 0 {
			// Its record has come and gone: it is over, and its writes were resolved (P13).
			return nil, &kv.TxnRetryError{Reason: kv.RetryPossibleReplay, WriteTimestamp: q.txn.WriteTimestamp}
		}
	}
	var inFlight []kv.InFlightWrite
	if r.Commit {
		if stored != nil && !commit.Final(stored.Status) {
			q.pushWrite(stored.WriteTimestamp) // CR3
		}
		if stored == nil || stored.Status != kv.Committed {
			if err := q.mayCommitAt(); err != nil && (stored == nil || stored.Status != kv.Aborted) {
				return nil, err
			}
		}
		inFlight = q.elsewhere(r)
	}
	t := *q.txn
	t.Anchor, t.LockSpans = r.Anchor, r.LockSpans
	rec, err := commit.End(stored, &t, r.Commit, inFlight, q.now)
	if r.Commit && stored != nil && stored.Status == kv.Aborted {
		q.p.o.Probes.Reached(probeAbortedFirst)
	}
	if r.Commit && stored != nil && stored.Status == kv.Committed {
		q.p.o.Probes.Reached(probeRecoveredFirst)
	}
	if err != nil {
		var committed *commit.CommittedError
		if errors.As(err, &committed) {
			return nil, &kv.InternalError{Message: err.Error()}
		}
		return nil, err
	}
	d := p.r.Desc()
	resp := &kv.EndTxnResponse{CommitTimestamp: rec.WriteTimestamp}
	if rec == stored { // committed before
		if q.w.Replays < q.writes {
			// A late copy, of which some writes were resolved since: they must not be laid again.
			return nil, &kv.TxnRetryError{Reason: kv.RetryPossibleReplay, WriteTimestamp: rec.WriteTimestamp}
		}
		resp.Unresolved = rec.LockSpans
		q.release(r.LockSpans, rec.Status)
		return resp, nil
	}
	if rec.Status == kv.Staging {
		q.putRecord(key, rec)
		q.records = append(q.records, rec)
		resp.Staged = true
		p.o.Metrics.Stages.Add(1)
		return resp, nil
	}
	left, err := q.resolveOwn(r.LockSpans, rec, d)
	if err != nil {
		return nil, err
	}
	if resp.Unresolved = outside(r.LockSpans, d); len(left) > 0 {
		resp.Unresolved = append(resp.Unresolved, left...)
		q.finalized = rec
	}
	q.release(r.LockSpans, rec.Status)
	q.records = append(q.records, rec)
	switch {
	case len(resp.Unresolved) > 0:
		out := *rec
		out.LockSpans = resp.Unresolved
		q.putRecord(key, &out)
	case stored != nil:
		q.batch.Delete(key) // CR1: nothing will ask for it
	}
	if rec.Status == kv.Committed {
		p.o.Metrics.Commits.Add(1)
		return resp, q.trigger(r)
	}
	p.o.Metrics.Aborts.Add(1)
	return resp, nil
}

// putRecord stores a record, and leaves the mark that says so (P5).
func (q *request) putRecord(key keys.Key, r *commit.Record) {
	q.batch.Put(key, r.Append(nil))
	q.marks = append(q.marks, r.ID)
}

// stored reads a record as the batch has left it.
func (q *request) stored(key keys.Key) (*commit.Record, error) {
	var b []byte
	var err error
	if q.batch.Indexed() {
		b, err = q.batch.Get(key)
	} else {
		b, err = q.p.o.Engine.Get(key)
	}
	if err != nil || b == nil {
		return nil, err
	}
	return commit.DecodeRecord(b)
}

// elsewhere are the in-flight writes that are not in this batch: those that are become durable with the record
// itself, so nobody needs to be asked about them (CR4). Both lists are in the order in which they were made.
func (q *request) elsewhere(r *kv.EndTxnRequest) (out []kv.InFlightWrite) {
	if len(r.InFlight) == 0 {
		return nil
	}
	i := 0
	for _, w := range r.InFlight {
		found := false
		for j := i; j < len(q.b.Requests); j++ {
			k, seq, ok := written(q.b.Requests[j])
			if ok && seq == w.Seq && bytes.Equal(k, w.Key) {
				i, found = j+1, true
				break
			}
		}
		if !found {
			out = append(out, w)
		}
	}
	return out
}

func written(r kv.Request) (keys.Key, kv.Seq, bool) {
	switch r := r.(type) {
	case *kv.PutRequest:
		return r.Key, r.Seq, true
	case *kv.CPutRequest:
		return r.Key, r.Seq, true
	case *kv.DeleteRequest:
		return r.Key, r.Seq, true
	case *kv.AddRequest:
		return r.Key, r.Seq, true
	}
	return nil, 0, false
}

// resolveAtEnd is how many intents the end of a transaction resolves by itself. A command with many more of them would
// keep the range, and the client, from going on; and its size has a bound.
const resolveAtEnd = 500

// resolveBytes is the length of a command beyond which it resolves no more intents. An intent whose timestamp has moved is written
// again with its value, so that a few may be more than a command can hold. Chosen by us: what the gateway puts into a batch of writes.
//
// P19 (I9): a batch of resolutions is carried out whatever the size of the values: by parts, each a command of its own.
const resolveBytes = 1 << 20

// tooMuchError says that the requests from at on have to be a batch of their own. It never leaves the participant.
type tooMuchError struct{ at int }

func (*tooMuchError) Error() string { return "leader: the batch is too large for a command" }

// divided tells before which request a batch of resolutions has to be divided, whose i-th made the command too long; zero: not at all.
// before is the command's length without that one: if it is the large one, it is the first of the next part.
func (q *request) divided(i, before int) int {
	for _, r := range q.b.Requests {
		if _, is := r.(*kv.ResolveIntentRequest); !is {
			return 0
		}
	}
	if i > 0 && before > resolveBytes/16 {
		return i
	}
	if i+1 < len(q.b.Requests) {
		return i + 1
	}
	return 0
}

// sendApart carries out a batch of resolutions in two parts (P19).
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
func (q *request) resolveOwn(spans []keys.Span, rec *commit.Record, d *kv.RangeDescriptor) (left []keys.Span, err error) {
	if q.noLocks && q.writes == 0 {
		return nil, nil
	}
	local := make([]keys.Span, 0, len(spans))
	for _, s := range spans {
		if s, ok := clip(s, d); ok {
			local = append(local, s)
		}
	}
	if q.end.OnePhase {
		// It should have left no intents; what this very batch laid (evaluate) is not in its lock spans.
		for _, r := range q.b.Requests {
			if r.Method().IsWrite() && r != kv.Request(q.end) {
				local = append(local, r.Span())
			}
		}
	}
	res := &mvcc.Resolution{Txn: rec.TxnMeta, Status: rec.Status, IgnoredSeqs: q.txn.IgnoredSeqs, IntentsOnly: true}
	room, limit := int64(resolveAtEnd), resolveBytes+q.batch.Len()
	if q.end.Trigger != nil {
		room, limit = math.MaxInt64, math.MaxInt // the range is about to be another one
	}
	res.MaxBytes = limit
	for _, s := range disjoint(local) {
		if room <= 0 || q.batch.Len() > limit {
			left = append(left, s)
			continue
		}
		n, rest := int64(1), (*keys.Span)(nil)
		if s.Point() {
			_, err = q.w.ResolveIntent(s.Start, res)
		} else {
			n, rest, err = q.w.ResolveRange(s.Start, s.End, res, room)
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

// narrow makes the request to resolve the beginning of a span one that latches only what it is going to touch. A
// transaction that has ended lays no more intents, so what is found before the latches are taken is all there is; one
// that comes too late, because it was aborted by others, is found by those who meet it.
func (q *request) narrow() error {
	if q.whole.Start != nil {
		return nil // at an earlier attempt
	}
	r, ok := q.b.Requests[0].(*kv.ResolveRangeRequest)
	if !ok || len(q.b.Requests) != 1 || r.Max <= 0 || q.p.r.Stats().IntentCount == 0 {
		return nil
	}
	rd := q.p.o.reader(q.p.o.Engine)
	span, rest, err := rd.LocksOf(r.Txn.ID, r.Start, r.End, r.Max)
	if cerr := q.p.o.putReader(rd); err == nil {
		err = cerr
	}
	if err != nil || span.Start == nil {
		return err
	}
	c := *r
	c.Start, c.End, c.Max = span.Start, span.End, 0
	q.whole, q.rest = keys.Span{Start: r.Start, End: r.End}, rest
	if rest != nil {
		q.whole.End = rest.Start
	}
	b := *q.b
	b.Requests = []kv.Request{&c}
	q.b = &b
	return nil
}

// disjoint sorts spans and merges those that overlap: resolving an intent twice in one batch would count it twice.
func disjoint(spans []keys.Span) []keys.Span {
	sorted := true
	for i := 1; i < len(spans) && sorted; i++ {
		sorted = bytes.Compare(spans[i-1].Stop(), spans[i].Start) <= 0
	}
	if sorted {
		return spans
	}
	slices.SortFunc(spans, func(a, b keys.Span) int { return bytes.Compare(a.Start, b.Start) })
	out := spans[:1]
	for _, s := range spans[1:] {
		last := &out[len(out)-1]
		if bytes.Compare(last.Stop(), s.Start) <= 0 {
			out = append(out, s)
		} else if last.Stop().Less(s.Stop()) {
			last.End = s.Stop()
		}
	}
	return out
}

func (q *request) heartbeat(r *kv.HeartbeatTxnRequest) (kv.Response, error) {
	if q.txn == nil {
		return nil, &kv.InternalError{Message: "leader: HeartbeatTxn without a transaction"}
	}
	key := keys.TxnKey(r.Anchor, q.txn.ID)
	stored, err := q.stored(key)
	if err != nil {
		return nil, err
	}
	t := *q.txn
	t.Anchor = r.Anchor
	rec, err := commit.Heartbeat(stored, &t, q.now)
	if err != nil {
		return nil, err
	}
	if rec != stored {
		q.putRecord(key, rec)
	}
	return &kv.HeartbeatTxnResponse{Txn: rec.Txn()}, nil
}

func (q *request) recoverTxn(r *kv.RecoverTxnRequest) (kv.Response, error) {
	key := keys.TxnKey(r.Txn.Anchor, r.Txn.ID)
	stored, err := q.stored(key)
	if err != nil {
		return nil, err
	}
	if stored == nil {
		// It ended, and its intents are resolved (CR1).
		q.p.o.Probes.Reached(probeRecordGone)
		return &kv.RecoverTxnResponse{Txn: kv.Txn{TxnMeta: r.Txn}}, nil
	}
	rec := commit.Finish(stored, r)
	switch {
	case rec == stored && stored.Status == kv.Staging:
		q.p.o.Probes.Reached(probeStagedAnew)
	case rec == stored:
		q.p.o.Probes.Reached(probeDecidedBefore)
	case rec.Status == kv.Committed:
		q.p.o.Probes.Reached(probeCommitted)
	default:
		q.p.o.Probes.Reached(probeAborted)
	}
	if rec != stored {
		q.putRecord(key, rec)
		q.records = append(q.records, rec)
	}
	return &kv.RecoverTxnResponse{Txn: rec.Txn()}, nil
}

// queryIntent looks for a write of a staging transaction, and if it is not there, sees to it that it can't come to
// be at or below the transaction's write timestamp (CR4): a reader was there.
func (q *request) queryIntent(r *kv.QueryIntentRequest) (kv.Response, error) {
	l, err := q.w.Intent(r.Key, r.Txn.ID)
	if err != nil {
		return nil, err
	}
	found := l != nil && l.Txn.Attempt == r.Txn.Attempt && r.Txn.Seq <= l.Txn.Seq &&
		l.Txn.WriteTimestamp.LessEq(r.Txn.WriteTimestamp)
	q.p.o.Clock.Forward(r.Txn.WriteTimestamp) // P4: the next leaseholder's low water must cover what is prevented here
	switch {
	case found:
		q.p.o.Probes.Reached(probeFound)
	case l != nil:
		q.p.o.Probes.Reached(probeFoundLater)
	default:
		q.p.o.Probes.Reached(probePrevented)
	}
	if !found {
		q.p.o.Cache.Add(r.Key, r.Txn.WriteTimestamp, kv.TxnID{})
	}
	return &kv.QueryIntentResponse{Found: found}, nil
}

// removeRecord removes a record that has ended.
func (q *request) removeRecord(key keys.Key, id kv.TxnID) error {
	rec, err := q.stored(key)
	if err != nil || rec == nil || !commit.Final(rec.Status) || rec.ID != id {
		return err
	}
	q.batch.Delete(key)
	return nil
}
