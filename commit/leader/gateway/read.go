package gateway

import (
	"context"
	"slices"

	"meridian/commit/transaction"
	"meridian/keys"
	"meridian/kv"
	"meridian/txn"
)

// Point implements txn.Keeper; the batch of a read without a lock costs no allocation.
func (c *Coordinator) Point(ctx context.Context, key keys.Key, o txn.ReadOptions) ([]byte, error) {
	if len(c.flights) > 0 {
		if err := c.stall(ctx, keys.Span{Start: key}); err != nil {
			return nil, err
		}
	}
	g := &c.get
	g.req = kv.GetRequest{Key: key, Lock: o.Lock}
	g.reqs[0] = &g.req
	g.batch = kv.Batch{Header: kv.Header{WaitPolicy: o.Wait, Hold: o.Hold}, Requests: g.reqs[:]}
	var (
		r   *kv.BatchResponse
		err error
	)
	if o.Lock == kv.NoLock {
		r, err = c.send(ctx, &g.batch, c.state.PrepareRead)
	} else {
		// Requests that wait for the lock may keep the batch.
		g.batch.Requests = []kv.Request{&kv.GetRequest{Key: key, Lock: o.Lock}}
		c.locking(keys.Span{Start: key})
		r, err = c.send(ctx, &g.batch, func(b *kv.Batch) { c.state.PrepareLocking(b, key, false) })
	}
	if err != nil {
		return nil, err
	}
	c.state.NoteRead(keys.Span{Start: key})
	if o.Lock >= kv.Shared {
		c.state.NoteLocked(key)
	}
	c.noteHeld(keys.Span{Start: key}, o.Hold, o.Lock, r)
	get, ok := kv.Sole[*kv.GetResponse](r)
	if !ok {
		return nil, txn.ErrMalformed
	}
	return get.Value, nil
}

// Get implements txn.Coordinator. The batch asks for all keys, in parallel over their ranges.
func (c *Coordinator) Get(ctx context.Context, _ *kv.Txn, ks []keys.Key, o txn.ReadOptions) ([][]byte, error) {
	if len(c.flights) > 0 {
		if err := c.stallKeys(ctx, ks); err != nil {
			return nil, err
		}
	}
	if o.Enough > 0 && o.Lock != kv.NoLock {
		return c.lockFound(ctx, ks, o)
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
			c.locking(keys.Span{Start: k})
		}
	}
	b := &kv.Batch{Header: kv.Header{WaitPolicy: o.Wait, Hold: o.Hold}, Requests: reqs}
	prepare := c.state.PrepareRead
	if o.Lock != kv.NoLock {
		prepare = func(b *kv.Batch) { c.state.PrepareLocking(b, anchor, o.Newest) }
	} else {
		b.Enough, b.Follow, b.FollowLock = o.Enough, o.Follow, o.FollowLock
		if o.Newest {
			prepare = c.state.PrepareNewest
		}
	}
	r, err := c.send(ctx, b, prepare)
	if err != nil {
		return nil, err
	}
	if len(r.Responses) != len(reqs) {
		return nil, txn.ErrMalformed
	}
	values := make([][]byte, len(ks))
	for i, k := range ks {
		if r.Responses[i] == nil && b.Enough > 0 {
			continue // not read (txn.TX9)
		}
		get, ok := r.Responses[i].(*kv.GetResponse)
		if !ok {
			return nil, txn.ErrMalformed
		}
		c.state.NoteRead(keys.Span{Start: k})
		if o.Lock >= kv.Shared {
			c.state.NoteLocked(k)
		}
		c.noteHeld(keys.Span{Start: k}, o.Hold, o.Lock, r)
		values[i] = get.Value
	}
	if f := r.Followed; f != nil && o.Followed != nil && f.Lock == o.FollowLock {
		for _, row := range f.Rows {
			s := keys.Span{Start: row.Key}
			if f.Lock != kv.NoLock {
				c.core.Anchor(row.Key)
				c.locking(s)
				c.noteLocked(f.Lock, []kv.KeyValue{row})
				if o.Hold && !f.LockedAt.IsZero() {
					c.state.NoteHeld(s, f.LockedAt)
				}
			}
			c.state.NoteRead(s)
			o.Followed(row)
		}
	}
	return values, nil
}

// lockFound is Get for keys of which o.Enough have values at most, and locks these alone: a scan locks what it finds.
func (c *Coordinator) lockFound(ctx context.Context, ks []keys.Key, o txn.ReadOptions) ([][]byte, error) {
	values, left, err := c.lockByScans(ctx, ks, &kv.Batch{Header: kv.Header{WaitPolicy: o.Wait, Hold: o.Hold}, Enough: o.Enough}, o)
	if slices.Contains(left, true) {
		return nil, txn.ErrMalformed
	}
	return values, err
}

// knownLocks is up to how many spans of locks lockFirst keeps apart from the keys that it tries.
const knownLocks = 32

// First implements txn.Keeper: it is Get for the first n of the keys that have a value and are free. It returns the values of the keys that were tried, and which of them have changed since.
func (c *Coordinator) First(ctx context.Context, ks []keys.Key, n int, o txn.ReadOptions) (values [][]byte, changed []bool, err error) {
	before, few := c.core.Locks().Few(knownLocks)
	values, left, err := c.lockByScans(ctx, ks, &kv.Batch{Header: kv.Header{WaitPolicy: o.Wait, Hold: o.Hold, MaxKeys: int64(n)}}, o)
	if err != nil {
		return nil, nil, err
	}
	if few { // most keys were not locked, and need no cleanup
		c.core.Locks().Reset()
		for _, s := range before {
			c.core.NoteLock(s)
		}
		for i, k := range ks {
			if values[i] != nil || k.Equal(c.core.Txn().Anchor) {
				c.core.NoteLock(keys.Span{Start: k})
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
func (c *Coordinator) lockByScans(ctx context.Context, ks []keys.Key, b *kv.Batch, o txn.ReadOptions) (values [][]byte, left []bool, err error) {
	scans := make([]kv.ScanRequest, len(ks))
	b.Requests = make([]kv.Request, len(ks))
	for i, k := range ks {
		scans[i] = kv.ScanRequest{Start: k, End: k.Next(), Lock: o.Lock}
		b.Requests[i] = &scans[i]
		c.locking(keys.Span{Start: k})
	}
	r, err := c.send(ctx, b, func(b *kv.Batch) { c.state.PrepareLocking(b, ks[0], o.Newest) })
	if err != nil {
		return nil, nil, err
	}
	if len(r.Responses) != len(ks) {
		return nil, nil, txn.ErrMalformed
	}
	values, left = make([][]byte, len(ks)), make([]bool, len(ks))
	for i, k := range ks {
		if r.Responses[i] == nil {
			continue // not read (txn.TX9)
		}
		scan, ok := r.Responses[i].(*kv.ScanResponse)
		if !ok || len(scan.Rows) > 1 {
			return nil, nil, txn.ErrMalformed
		}
		if left[i] = scan.Resume != nil; left[i] {
			continue
		}
		c.state.NoteRead(keys.Span{Start: k})
		if len(scan.Rows) == 0 {
			continue
		}
		if values[i] = scan.Rows[0].Value; values[i] == nil {
			values[i] = []byte{}
		}
		c.noteLocked(o.Lock, scan.Rows)
		c.noteHeld(keys.Span{Start: k}, o.Hold, o.Lock, r)
	}
	return values, left, nil
}

// Scan implements txn.Coordinator.
func (c *Coordinator) Scan(ctx context.Context, _ *kv.Txn, o txn.ScanOptions) (rows []kv.KeyValue, resume *keys.Span, err error) {
	s := o.Span
	if err := c.stall(ctx, s); err != nil {
		return nil, nil, err
	}
	b := &kv.Batch{
		Header:   kv.Header{WaitPolicy: o.Wait, MaxKeys: o.MaxRows, TargetBytes: o.TargetBytes, Hold: o.Hold && o.Lock != kv.NoLock},
		Requests: []kv.Request{&kv.ScanRequest{Start: s.Start, End: s.End, Reverse: o.Reverse, Lock: o.Lock}},
	}
	prepare := c.state.PrepareRead
	if o.Lock != kv.NoLock {
		c.locking(s)
		prepare = func(b *kv.Batch) { c.state.PrepareLocking(b, s.Start, false) }
	}
	r, err := c.send(ctx, b, prepare)
	if err != nil {
		return nil, nil, err
	}
	scan, ok := kv.Sole[*kv.ScanResponse](r)
	if !ok {
		return nil, nil, txn.ErrMalformed
	}
	c.noteLocked(o.Lock, scan.Rows)
	if read := txn.Without(s, scan.Resume, o.Reverse); read.Start.Less(read.End) {
		c.noteHeld(read, o.Hold, o.Lock, r)
		c.state.NoteRead(read)
	}
	return scan.Rows, scan.Resume, nil
}

// ScanAll implements txn.Keeper.
func (c *Coordinator) ScanAll(ctx context.Context, spans []keys.Span, o txn.ScanOptions) (rows [][]kv.KeyValue, rests []*keys.Span, err error) {
	scans := make([]kv.ScanRequest, len(spans))
	b := &kv.Batch{Header: kv.Header{WaitPolicy: o.Wait, MaxKeys: o.MaxRows, TargetBytes: o.TargetBytes, Hold: o.Hold && o.Lock != kv.NoLock},
		Requests: make([]kv.Request, len(spans)), Apart: o.MaxRows > 0 || o.TargetBytes > 0}
	for i, s := range spans {
		if err := c.stall(ctx, keys.Span{Start: s.Start, End: s.Stop()}); err != nil {
			return nil, nil, err
		}
		scans[i] = kv.ScanRequest{Start: s.Start, End: s.Stop(), Reverse: o.Reverse, Lock: o.Lock}
		b.Requests[i] = &scans[i]
		if o.Lock != kv.NoLock {
			c.locking(keys.Span{Start: s.Start, End: s.Stop()})
		}
	}
	prepare := c.state.PrepareRead
	if o.Lock != kv.NoLock {
		prepare = func(b *kv.Batch) { c.state.PrepareLocking(b, spans[0].Start, false) }
	}
	r, err := c.send(ctx, b, prepare)
	if err != nil {
		return nil, nil, err
	}
	if len(r.Responses) != len(spans) {
		return nil, nil, txn.ErrMalformed
	}
	rows, rests = make([][]kv.KeyValue, len(spans)), make([]*keys.Span, len(spans))
	for i := range spans {
		scan, ok := r.Responses[i].(*kv.ScanResponse)
		if !ok {
			return nil, nil, txn.ErrMalformed
		}
		rows[i], rests[i] = scan.Rows, scan.Resume
		c.noteLocked(o.Lock, scan.Rows)
		if read := txn.Without(keys.Span{Start: scans[i].Start, End: scans[i].End}, scan.Resume, o.Reverse); read.Start.Less(read.End) {
			c.noteHeld(read, o.Hold, o.Lock, r)
			c.state.NoteRead(read)
		}
	}
	return rows, rests, nil
}

// Write implements txn.Coordinator. It is for writes that leave before the commit; those of the commit leave with the record.
func (c *Coordinator) Write(ctx context.Context, _ *kv.Txn, writes []transaction.Write) error {
	reqs := make([]kv.Request, len(writes))
	for i := range writes {
		reqs[i] = writes[i].Request()
	}
	for _, b := range transaction.Chunk(reqs) {
		if _, err := c.send(ctx, b, c.state.PrepareFlush); err != nil {
			return err
		}
	}
	return nil
}
