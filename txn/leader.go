package txn

import (
	"context"
	"errors"
	"slices"

	"meridian/admission"
	"meridian/clock"
	"meridian/commit/leader/coordinator"
	"meridian/commit/protocol"
	"meridian/commit/transaction"
	"meridian/keys"
	"meridian/kv"
)

// leaderRanges is the leader protocol's Coordinator: a transaction's operations in the leader's ranges. It drives
// coordinator.Coordinator.
type leaderRanges Txn

var _ Coordinator = (*leaderRanges)(nil)

// Restarted implements Coordinator.
func (l *leaderRanges) Restarted(fresh bool) { l.leader.Restarted(fresh) }

// Reads implements Coordinator.
func (l *leaderRanges) Reads() bool { return l.leader.MustRefresh() }

// Hold implements Coordinator: what was read is refreshed, unless it holds by then already.
func (l *leaderRanges) Hold(ctx context.Context, _ *kv.Txn, at clock.Timestamp) error {
	a := l.leader.MoveTo(at)
	if a.Verdict == coordinator.Fail {
		return a.Err
	}
	if a.Refresh == nil {
		return nil
	}
	return (*Txn)(l).refresh(ctx, a.Refresh)
}

// Decide implements Coordinator. It is not called: a transaction with writes in leaders' ranges has a record.
func (l *leaderRanges) Decide(context.Context, *kv.Txn, []transaction.Write, clock.Timestamp) (clock.Timestamp, error) {
	return clock.Timestamp{}, &UnsupportedError{Protocol: protocol.Default, What: "commits without a record"}
}

// HasRead implements Coordinator: a write is not compared with what was read. Reads are refreshed instead.
func (l *leaderRanges) HasRead(keys.Key) bool { return false }

// Confirm implements Coordinator: a leaseholder has what has committed.
func (l *leaderRanges) Confirm(context.Context, *kv.Txn, func(keys.Key) bool) error { return nil }

// Committed implements Coordinator: a leaseholder has the writes.
func (l *leaderRanges) Committed(clock.Timestamp) {}

// Ended implements Coordinator. The work at the end of a transaction is the transaction's own (finish).
func (l *leaderRanges) Ended() {}

// send sends one batch to its ranges, and moves the timestamp and repeats it for as long as that helps. prepare
// puts the transaction into the batch.
func (t *Txn) send(ctx context.Context, b *kv.Batch, prepare func(*kv.Batch)) (*kv.BatchResponse, error) {
	for {
		prepare(b)
		b.Trace = t.trace
		b.LockTimeout = t.o.LockTimeout
		t.heartbeat()
		r, err := t.dispatch(ctx, b)
		if r != nil && t.trace {
			t.note(r.Served)
		}
		if r != nil && r.Waited > 0 {
			admission.Waited(ctx, r.Waited)
		}
		a := t.leader.Answered(b, r, err)
		switch a.Verdict {
		case coordinator.Done:
			return r, nil
		case coordinator.Fail:
			t.unlock(b, a.Err)
			return nil, a.Err
		}
		if a.Refresh != nil {
			if err := t.refresh(ctx, a.Refresh); err != nil {
				return nil, err
			}
		}
	}
}

func (t *Txn) dispatch(ctx context.Context, b *kv.Batch) (*kv.BatchResponse, error) {
	if t.holder != nil {
		defer t.linked(ctx)()
	}
	return t.db.o.Sender.Send(ctx, b)
}

func (t *Txn) refresh(ctx context.Context, b *kv.Batch) error {
	t.db.metrics.Refreshes.Add(1)
	_, err := t.db.o.Sender.Send(ctx, b)
	if err = t.leader.Refreshed(err); err != nil {
		t.db.o.Probes.Reached("txn: refresh failed")
		t.db.metrics.RefreshesFailed.Add(1)
	}
	return err
}

// noteHeld remembers the locks of an answer.
func (t *Txn) noteHeld(s keys.Span, lock kv.LockStrength, r *kv.BatchResponse) {
	if t.hold && lock != kv.NoLock && !r.LockedAt.IsZero() {
		t.leader.NoteHeld(s, r.LockedAt)
	}
}

// locking prepares for locks in a span: cleanup and heartbeats must know.
func (t *Txn) locking(s keys.Span) {
	t.core.NoteLock(s)
	t.beat.want = true
}

// unlock forgets locks that a batch was to take if a range has refused it because it has another protocol, and only that range could have taken them: then nothing was done, and ranges of
// another protocol have no locks. Such a transaction may still be decided without a record (txn.MP5).
func (t *Txn) unlock(b *kv.Batch, err error) {
	var other *kv.ProtocolError
	if !errors.As(err, &other) || other.Desc == nil || protocol.Leased(other.Protocol) || !t.core.HoldsLocks() || t.core.Sent() || t.beat.record() || t.beat.busy.Load() {
		return
	}
	s := other.Desc.Span()
	for _, l := range t.core.Locks().All() {
		if !s.ContainsSpan(l) || !slices.ContainsFunc(b.Requests, func(r kv.Request) bool { return r.Span().ContainsSpan(l) }) {
			return
		}
	}
	t.db.beats.remove(&t.beat)
	if t.beat.record() {
		return // made meanwhile
	}
	t.beat.want = false
	t.core.ForgetLocks()
}

// getOne reads one key; the batch of a read without a lock costs no allocation.
func (l *leaderRanges) getOne(ctx context.Context, key keys.Key, o ReadOptions) ([]byte, error) {
	t := (*Txn)(l)
	if len(t.flights) > 0 {
		if err := t.stall(ctx, keys.Span{Start: key}); err != nil {
			return nil, err
		}
	}
	g := &t.get
	g.req = kv.GetRequest{Key: key, Lock: o.Lock}
	g.reqs[0] = &g.req
	g.batch = kv.Batch{Header: kv.Header{WaitPolicy: o.Wait, Hold: o.Hold}, Requests: g.reqs[:]}
	var (
		r   *kv.BatchResponse
		err error
	)
	if o.Lock == kv.NoLock {
		r, err = t.send(ctx, &g.batch, t.leader.PrepareRead)
	} else {
		// Requests that wait for the lock may keep the batch.
		g.batch.Requests = []kv.Request{&kv.GetRequest{Key: key, Lock: o.Lock}}
		t.locking(keys.Span{Start: key})
		r, err = t.send(ctx, &g.batch, func(b *kv.Batch) { t.leader.PrepareLocking(b, key, false) })
	}
	if err != nil {
		return nil, err
	}
	t.leader.NoteRead(keys.Span{Start: key})
	if o.Lock >= kv.Shared {
		t.leader.NoteLocked(key)
	}
	t.noteHeld(keys.Span{Start: key}, o.Lock, r)
	get, ok := first[*kv.GetResponse](r)
	if !ok {
		return nil, errMalformed
	}
	return get.Value, nil
}

// Get implements Coordinator. The batch asks for all keys, in parallel over their ranges.
func (l *leaderRanges) Get(ctx context.Context, _ *kv.Txn, ks []keys.Key, o ReadOptions) ([][]byte, error) {
	t := (*Txn)(l)
	if len(t.flights) > 0 {
		if err := t.stallKeys(ctx, ks); err != nil {
			return nil, err
		}
	}
	if o.Enough > 0 && o.Lock != kv.NoLock {
		return l.lockFound(ctx, ks, o)
	}
	reqs, gets := make([]kv.Request, len(ks)), make([]kv.GetRequest, len(ks))
	anchor := ks[0]
	if len(o.Plain) > 0 { // a key without a lock has no cleanup, which would tell its range about the record
		if i := slices.IndexFunc(ks, func(k keys.Key) bool { return !o.Plain[string(k)] }); i >= 0 {
			anchor = ks[i]
		} else {
			o.Lock = kv.NoLock
		}
	}
	for i, k := range ks {
		lock := o.Lock
		if o.Plain[string(k)] {
			lock = kv.NoLock
		}
		gets[i] = kv.GetRequest{Key: k, Lock: lock}
		reqs[i] = &gets[i]
		if lock != kv.NoLock {
			t.locking(keys.Span{Start: k})
		}
	}
	b := &kv.Batch{Header: kv.Header{WaitPolicy: o.Wait, Hold: o.Hold}, Requests: reqs}
	prepare := t.leader.PrepareRead
	if o.Lock != kv.NoLock {
		prepare = func(b *kv.Batch) { t.leader.PrepareLocking(b, anchor, o.Newest) }
	} else {
		b.Enough, b.Follow, b.FollowLock = o.Enough, o.Follow, o.FollowLock
		if o.Newest {
			prepare = t.leader.PrepareNewest
		}
	}
	r, err := t.send(ctx, b, prepare)
	if err != nil {
		return nil, err
	}
	if len(r.Responses) != len(reqs) {
		return nil, errMalformed
	}
	values := make([][]byte, len(ks))
	for i, k := range ks {
		if r.Responses[i] == nil && b.Enough > 0 {
			continue // not read (txn.TX9)
		}
		get, ok := r.Responses[i].(*kv.GetResponse)
		if !ok {
			return nil, errMalformed
		}
		t.leader.NoteRead(keys.Span{Start: k})
		if o.Lock >= kv.Shared {
			t.leader.NoteLocked(k)
		}
		t.noteHeld(keys.Span{Start: k}, o.Lock, r)
		values[i] = get.Value
	}
	if f := r.Followed; f != nil && o.Followed != nil && f.Lock == o.FollowLock {
		for _, row := range f.Rows {
			s := keys.Span{Start: row.Key}
			if f.Lock != kv.NoLock {
				t.core.Anchor(row.Key)
				t.locking(s)
				t.noteLocked(f.Lock, []kv.KeyValue{row})
				if o.Hold && !f.LockedAt.IsZero() {
					t.leader.NoteHeld(s, f.LockedAt)
				}
			}
			t.leader.NoteRead(s)
			o.Followed(row)
		}
	}
	return values, nil
}

// lockFound is Get for keys of which o.Enough have values at most, and locks these alone: a scan locks what it finds.
func (l *leaderRanges) lockFound(ctx context.Context, ks []keys.Key, o ReadOptions) ([][]byte, error) {
	values, left, err := l.lockByScans(ctx, ks, &kv.Batch{Header: kv.Header{WaitPolicy: o.Wait, Hold: o.Hold}, Enough: o.Enough}, o)
	if slices.Contains(left, true) {
		return nil, errMalformed
	}
	return values, err
}

// knownLocks is up to how many spans of locks lockFirst keeps apart from the keys that it tries.
const knownLocks = 32

// lockFirst is Get for the first n of the keys that have a value and are free. It returns the values of the keys that were tried, and which of them have changed since.
func (l *leaderRanges) lockFirst(ctx context.Context, ks []keys.Key, n int, o ReadOptions) (values [][]byte, changed []bool, err error) {
	t := (*Txn)(l)
	before, few := t.core.Locks().Few(knownLocks)
	values, left, err := l.lockByScans(ctx, ks, &kv.Batch{Header: kv.Header{WaitPolicy: o.Wait, Hold: o.Hold, MaxKeys: int64(n)}}, o)
	if err != nil {
		return nil, nil, err
	}
	if few { // most keys were not locked, and need no cleanup
		t.core.Locks().Reset()
		for _, s := range before {
			t.core.NoteLock(s)
		}
		for i, k := range ks {
			if values[i] != nil || k.Equal(t.core.Txn().Anchor) {
				t.core.NoteLock(keys.Span{Start: k})
			}
		}
	}
	tried := len(ks)
	if last := lastValue(values, n); last >= 0 {
		tried = last + 1
	}
	return values[:tried], left[:tried], nil
}

// lastValue is the place of the n-th value, -1 if there are fewer.
func lastValue(values [][]byte, n int) int {
	for i, v := range values {
		if v != nil {
			if n--; n == 0 {
				return i
			}
		}
	}
	return -1
}

// lockByScans locks the keys that have a value. left are those of which the batch's bound, or another reason (kv.SkipLocked), left a rest.
func (l *leaderRanges) lockByScans(ctx context.Context, ks []keys.Key, b *kv.Batch, o ReadOptions) (values [][]byte, left []bool, err error) {
	t := (*Txn)(l)
	scans := make([]kv.ScanRequest, len(ks))
	b.Requests = make([]kv.Request, len(ks))
	for i, k := range ks {
		scans[i] = kv.ScanRequest{Start: k, End: k.Next(), Lock: o.Lock}
		b.Requests[i] = &scans[i]
		t.locking(keys.Span{Start: k})
	}
	r, err := t.send(ctx, b, func(b *kv.Batch) { t.leader.PrepareLocking(b, ks[0], o.Newest) })
	if err != nil {
		return nil, nil, err
	}
	if len(r.Responses) != len(ks) {
		return nil, nil, errMalformed
	}
	values, left = make([][]byte, len(ks)), make([]bool, len(ks))
	for i, k := range ks {
		if r.Responses[i] == nil {
			continue // not read (txn.TX9)
		}
		scan, ok := r.Responses[i].(*kv.ScanResponse)
		if !ok || len(scan.Rows) > 1 {
			return nil, nil, errMalformed
		}
		if left[i] = scan.Resume != nil; left[i] {
			continue
		}
		t.leader.NoteRead(keys.Span{Start: k})
		if len(scan.Rows) == 0 {
			continue
		}
		if values[i] = scan.Rows[0].Value; values[i] == nil {
			values[i] = []byte{}
		}
		t.noteLocked(o.Lock, scan.Rows)
		t.noteHeld(keys.Span{Start: k}, o.Lock, r)
	}
	return values, left, nil
}

// Scan implements Coordinator.
func (l *leaderRanges) Scan(ctx context.Context, _ *kv.Txn, o ScanOptions) (rows []kv.KeyValue, resume *keys.Span, err error) {
	t := (*Txn)(l)
	s := o.Span
	if err := t.stall(ctx, s); err != nil {
		return nil, nil, err
	}
	b := &kv.Batch{
		Header:   kv.Header{WaitPolicy: o.Wait, MaxKeys: o.MaxRows, TargetBytes: o.TargetBytes, Hold: t.hold && o.Lock != kv.NoLock},
		Requests: []kv.Request{&kv.ScanRequest{Start: s.Start, End: s.End, Reverse: o.Reverse, Lock: o.Lock}},
	}
	prepare := t.leader.PrepareRead
	if o.Lock != kv.NoLock {
		t.locking(s)
		prepare = func(b *kv.Batch) { t.leader.PrepareLocking(b, s.Start, false) }
	}
	r, err := t.send(ctx, b, prepare)
	if err != nil {
		return nil, nil, err
	}
	scan, ok := first[*kv.ScanResponse](r)
	if !ok {
		return nil, nil, errMalformed
	}
	t.noteLocked(o.Lock, scan.Rows)
	if read := without(s, scan.Resume, o.Reverse); read.Start.Less(read.End) {
		t.noteHeld(read, o.Lock, r)
		t.leader.NoteRead(read)
	}
	return scan.Rows, scan.Resume, nil
}

// scanFirst scans the beginnings of several spans, in parallel over their ranges.
func (l *leaderRanges) scanFirst(ctx context.Context, spans []keys.Span, o ScanOptions) (rows [][]kv.KeyValue, rests []*keys.Span, err error) {
	t := (*Txn)(l)
	scans := make([]kv.ScanRequest, len(spans))
	b := &kv.Batch{Header: kv.Header{WaitPolicy: o.Wait, MaxKeys: o.MaxRows, TargetBytes: o.TargetBytes, Hold: t.hold && o.Lock != kv.NoLock},
		Requests: make([]kv.Request, len(spans)), Apart: true}
	for i, s := range spans {
		if err := t.stall(ctx, keys.Span{Start: s.Start, End: s.Stop()}); err != nil {
			return nil, nil, err
		}
		scans[i] = kv.ScanRequest{Start: s.Start, End: s.Stop(), Reverse: o.Reverse, Lock: o.Lock}
		b.Requests[i] = &scans[i]
		if o.Lock != kv.NoLock {
			t.locking(keys.Span{Start: s.Start, End: s.Stop()})
		}
	}
	prepare := t.leader.PrepareRead
	if o.Lock != kv.NoLock {
		prepare = func(b *kv.Batch) { t.leader.PrepareLocking(b, spans[0].Start, false) }
	}
	r, err := t.send(ctx, b, prepare)
	if err != nil {
		return nil, nil, err
	}
	if len(r.Responses) != len(spans) {
		return nil, nil, errMalformed
	}
	rows, rests = make([][]kv.KeyValue, len(spans)), make([]*keys.Span, len(spans))
	for i := range spans {
		scan, ok := r.Responses[i].(*kv.ScanResponse)
		if !ok {
			return nil, nil, errMalformed
		}
		rows[i], rests[i] = scan.Rows, scan.Resume
		t.noteLocked(o.Lock, scan.Rows)
		if read := without(keys.Span{Start: scans[i].Start, End: scans[i].End}, scan.Resume, o.Reverse); read.Start.Less(read.End) {
			t.noteHeld(read, o.Lock, r)
			t.leader.NoteRead(read)
		}
	}
	return rows, rests, nil
}

// scanMany scans several spans completely, in parallel over their ranges.
func (l *leaderRanges) scanMany(ctx context.Context, spans []keys.Span, o ScanOptions) ([][]kv.KeyValue, error) {
	t := (*Txn)(l)
	scans := make([]kv.ScanRequest, len(spans))
	b := &kv.Batch{Header: kv.Header{WaitPolicy: o.Wait, Hold: t.hold && o.Lock != kv.NoLock}, Requests: make([]kv.Request, len(spans))}
	for i, s := range spans {
		if err := t.stall(ctx, keys.Span{Start: s.Start, End: s.Stop()}); err != nil {
			return nil, err
		}
		scans[i] = kv.ScanRequest{Start: s.Start, End: s.Stop(), Reverse: o.Reverse, Lock: o.Lock}
		b.Requests[i] = &scans[i]
		if o.Lock != kv.NoLock {
			t.locking(keys.Span{Start: s.Start, End: s.Stop()})
		}
	}
	prepare := t.leader.PrepareRead
	if o.Lock != kv.NoLock {
		prepare = func(b *kv.Batch) { t.leader.PrepareLocking(b, spans[0].Start, false) }
	}
	r, err := t.send(ctx, b, prepare)
	if err != nil {
		return nil, err
	}
	if len(r.Responses) != len(spans) {
		return nil, errMalformed
	}
	out := make([][]kv.KeyValue, len(spans))
	for i := range spans {
		scan, ok := r.Responses[i].(*kv.ScanResponse)
		if !ok || scan.Resume != nil {
			return nil, errMalformed
		}
		s := keys.Span{Start: scans[i].Start, End: scans[i].End}
		t.leader.NoteRead(s)
		t.noteLocked(o.Lock, scan.Rows)
		t.noteHeld(s, o.Lock, r)
		out[i] = scan.Rows
	}
	return out, nil
}

// Write implements Coordinator. It is for writes that leave before the commit; those of the commit leave with the record.
func (l *leaderRanges) Write(ctx context.Context, _ *kv.Txn, writes []transaction.Write) error {
	t := (*Txn)(l)
	reqs := make([]kv.Request, len(writes))
	for i := range writes {
		reqs[i] = writes[i].Request()
	}
	for _, b := range transaction.Chunk(reqs) {
		if _, err := t.send(ctx, b, t.leader.PrepareFlush); err != nil {
			return err
		}
	}
	return nil
}
