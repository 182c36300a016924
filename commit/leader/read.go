package leader

import (
	"context"

	"meridian/clock"
	"meridian/commit"
	"meridian/commit/leader/latch"
	"meridian/commit/leader/lock"
	"meridian/keys"
	"meridian/kv"
	"meridian/storage/engine"
	"meridian/storage/mvcc"
)

// pointAnswer is the answer to a single Get, in one piece.
type pointAnswer struct {
	resp kv.BatchResponse
	slot [1]kv.Response
	get  kv.GetResponse
}

// get is the fast path of one plain Get: P1's three steps, and a single allocation besides the value's. Whatever
// is out of the ordinary answers errAgain, and goes the long way.
func (p *Participant) get(ctx context.Context, b *kv.Batch, r *kv.GetRequest) (*kv.BatchResponse, error) {
	now := p.o.Clock.Now()
	o := mvcc.ReadOptions{Txn: b.Txn, ReadSeq: b.ReadSeq}
	id := kv.TxnID{}
	if b.Txn != nil {
		o.Timestamp, id = b.Txn.ReadTimestamp, b.Txn.ID
	} else if o.Timestamp = b.Timestamp; o.Timestamp.IsZero() {
		o.Timestamp = now
	}
	gen := p.gate.enter()
	defer p.gate.leave(gen)
	if _, ok := p.r.CheckLease(o.Timestamp); !ok {
		return nil, errAgain
	}
	p.o.Cache.Add(r.Key, o.Timestamp, id)
	if waited, err := p.latches.WaitRead(ctx, keys.Span{Start: r.Key}, o.Timestamp); err != nil {
		return nil, err
	} else if waited {
		p.o.Metrics.LatchWaits.Add(1)
	}
	o.NoLocks = p.noEntries()
	if !o.NoLocks && b.Txn != nil && len(b.Txn.Anchor) > 0 {
		return nil, errAgain // own intents have to be latched (P2)
	}
	o.Uncertainty = p.uncertainty(b, b.Txn, now)
	rd := p.o.reader(p.o.Engine)
	rd.Table = &p.held
	v, err := rd.Get(r.Key, &o)
	if cerr := p.o.putReader(rd); err == nil {
		err = cerr
	}
	if err != nil {
		return nil, errAgain
	}
	if err := p.checkServed(b, o.Timestamp); err != nil {
		return nil, err
	}
	p.o.Metrics.Reads.Add(1)
	a := &pointAnswer{get: kv.GetResponse{Value: v.Bytes, Timestamp: v.Timestamp}}
	a.slot[0] = &a.get
	a.resp = kv.BatchResponse{Txn: b.Txn, Now: now, Responses: a.slot[:]}
	if b.Txn == nil {
		a.resp.Timestamp = o.Timestamp
	}
	if b.Trace {
		a.resp.Served = []kv.Served{{Range: p.r.RangeID(), Node: p.r.NodeID()}}
	}
	return &a.resp, nil
}

// maxRounds bounds how often the range moves a batch's timestamp by itself. Each round follows somebody else's
// commit, so it is reached only by a request that others keep overtaking.
const maxRounds = 100

// sendRead serves a batch of plain reads.
func (q *request) sendRead(ctx context.Context) error {
	p := q.p
	for round := 0; ; round++ {
		q.clockIn()
		if q.b.Consistency == kv.Inconsistent {
			return q.readInconsistent()
		}
		if q.b.WaitPolicy == kv.Peek {
			return q.peek(ctx)
		}
		gen, _, err := p.enter(ctx, q.readAt())
		if err != nil {
			return err
		}
		since := p.locks.Releases()
		err = q.readOnce(ctx)
		p.gate.leave(gen)
		switch e := err.(type) {
		case nil:
			return nil
		case *mvcc.LockConflictError:
			if err := q.meet(ctx, e, since); err != nil {
				return err
			}
		case *kv.UncertaintyError:
			if !q.mayForward() || round >= maxRounds {
				return err
			}
			q.forward(e.RetryAt)
		default:
			return err
		}
	}
}

// readOnce evaluates the batch's reads (P1). Reads with a limit are latched, because only afterwards is it known
// what they read; so are reads that may meet intents of their own transaction, which somebody might be moving (P2).
func (q *request) readOnce(ctx context.Context) error {
	p, b, at := q.p, q.b, q.readAt()
	q.noLocks = p.noEntries()
	latched := b.MaxKeys > 0 || b.TargetBytes > 0 || q.txn != nil && len(q.txn.Anchor) > 0 && !q.noLocks
	if latched {
		q.latches = q.inline[:0]
		for _, r := range b.Requests {
			if s := r.Span(); !notMVCC(r) {
				q.latches = append(q.latches, latch.Latch{Span: s, Mode: latch.Read, At: at})
			}
		}
		if scan := q.limitedScan(); scan != nil {
			return q.readAhead(ctx, scan)
		}
		g, err := p.latches.Acquire(ctx, q.latches)
		if err != nil {
			return err
		}
		if g.Waited() {
			p.o.Metrics.LatchWaits.Add(1)
		}
		defer p.latches.Release(g)
	} else {
		for _, r := range b.Requests {
			if notMVCC(r) {
				continue
			}
			s := r.Span()
			p.o.Cache.AddSpan(s, at, q.txnID())
			waited, err := p.latches.WaitRead(ctx, s, at)
			if err != nil {
				return err
			}
			if waited {
				p.o.Metrics.LatchWaits.Add(1)
			}
		}
	}
	return q.readLatched(latched)
}

// limitedScan is the batch's only request, if that is a scan which may end before its span does.
func (q *request) limitedScan() *kv.ScanRequest {
	if q.b.MaxKeys == 0 || len(q.b.Requests) != 1 {
		return nil
	}
	scan, _ := q.b.Requests[0].(*kv.ScanRequest)
	return scan
}

// readAhead evaluates a scan that is latched, without waiting for the writers under way that it does not get to (L5). If it gets to
// one, or can't be answered, it waits for all of them and is evaluated anew.
func (q *request) readAhead(ctx context.Context, scan *kv.ScanRequest) error {
	p := q.p
	g, ahead := p.latches.Queue(q.latches)
	if ahead != nil && ahead.Few() {
		if err := q.readLatched(true); err == nil {
			resume := q.resp.Responses[0].(*kv.ScanResponse).Resume
			if resume != nil && !ahead.Touches(readPart(keys.Span{Start: scan.Start, End: scan.End}, resume, scan.Reverse)) {
				p.o.Metrics.ReadsAhead.Add(1)
				p.latches.Release(g)
				return nil
			}
		}
	}
	if ahead != nil {
		p.o.Metrics.LatchWaits.Add(1)
		if err := p.latches.Await(ctx, g, ahead); err != nil {
			return err
		}
	}
	defer p.latches.Release(g)
	return q.readLatched(true)
}

// readLatched evaluates the reads.
func (q *request) readLatched(latched bool) error {
	p := q.p
	q.noLocks = p.noEntries()
	rd := p.o.reader(p.o.Engine)
	rd.Table = &p.held
	err := q.readAll(rd, latched)
	if cerr := p.o.putReader(rd); err == nil {
		err = cerr
	}
	if err != nil {
		if _, ok := err.(*mvcc.LockConflictError); ok {
			return err
		}
		// The keys may not be here any more; that says more than what was found in their place.
		if served := p.checkSpans(q.b); served != nil {
			return served
		}
		return err
	}
	return p.checkServed(q.b, q.readAt())
}

// notMVCC tells requests that read something else than versions at the read timestamp.
func notMVCC(r kv.Request) bool {
	switch r.(type) {
	case *kv.QueryTxnRequest, *kv.RangeInfoRequest, *kv.CheckLocksRequest:
		return true
	}
	return false
}

func (q *request) readAll(rd *mvcc.Reader, latched bool) error {
	q.begin()
	for _, r := range q.b.Requests {
		if latched {
			// Announced below, or as a whole where there is no limit.
			switch r.(type) {
			case *kv.ScanRequest:
			default:
				if !notMVCC(r) {
					q.p.o.Cache.AddSpan(r.Span(), q.readAt(), q.txnID())
				}
			}
		}
		one, err := q.evalRead(rd, r, latched)
		if err != nil {
			return err
		}
		q.resp.Responses = append(q.resp.Responses, one)
	}
	return nil
}

// begin starts an evaluation.
func (q *request) begin() {
	if n := len(q.b.Requests); n <= len(smallAnswer{}.slots) {
		a := &smallAnswer{}
		a.resp.Responses = a.slots[:0]
		q.resp = &a.resp
	} else {
		q.resp = &kv.BatchResponse{Responses: make([]kv.Response, 0, n)}
	}
	q.keysLeft, q.bytesLeft, q.answered = q.b.MaxKeys, q.b.TargetBytes, 0
	q.finalized, q.drawing = nil, nil
	if q.dropped = q.dropped[:0]; q.laid == nil {
		q.laid = q.inlineLd[:0]
	}
	q.laid = q.laid[:0]
	q.acquired, q.records, q.released, q.marks = q.acquired[:0], q.records[:0], q.released[:0], q.marks[:0]
}

func (q *request) readOptions(lock kv.LockStrength) mvcc.ReadOptions {
	o := mvcc.ReadOptions{Timestamp: q.readAt(), Txn: q.txn, ReadSeq: q.b.ReadSeq, Lock: lock, NoLocks: q.noLocks}
	if lock == kv.NoLock {
		o.Uncertainty = q.p.uncertainty(q.b, q.txn, q.first)
		q.visible = o.Timestamp
		if !o.Uncertainty.Global.IsZero() {
			q.visible = o.Timestamp.Forward(o.Uncertainty.Global.Backward(o.Uncertainty.Local))
		}
	}
	return o
}

// evalRead evaluates a request that reads. note has scans added to the timestamp cache as far as they came.
func (q *request) evalRead(rd *mvcc.Reader, r kv.Request, note bool) (kv.Response, error) {
	p := q.p
	switch r := r.(type) {
	case *kv.GetRequest:
		o := q.readOptions(r.Lock)
		if r.Lock != kv.NoLock && q.b.WaitPolicy == kv.SkipLocked {
			o.SkipLocked, o.Locked = true, q.lockedByOthers(r.Lock)
			if o.Locked(r.Key) {
				return &kv.GetResponse{}, nil
			}
		}
		v, err := rd.Get(r.Key, &o)
		if err != nil {
			return nil, err
		}
		if q.answered += int64(len(v.Bytes)); q.answered > kv.AnswerBytes && len(q.b.Requests) > 1 && q.txn != nil {
			return nil, &kv.AnswerTooLargeError{}
		}
		if r.Lock != kv.NoLock {
			q.acquired = append(q.acquired, acquired{r.Key, r.Lock})
		}
		return &kv.GetResponse{Value: v.Bytes, Timestamp: v.Timestamp}, nil

	case *kv.ScanRequest:
		if q.exhausted() {
			return &kv.ScanResponse{Resume: &keys.Span{Start: r.Start, End: r.End}}, nil
		}
		o := mvcc.ScanOptions{ReadOptions: q.readOptions(r.Lock), Reverse: r.Reverse, MaxKeys: q.keysLeft,
			TargetBytes: q.bytesLeft, StopAtConflict: len(q.b.Requests) == 1 && (q.b.MaxKeys > 0 || q.b.TargetBytes > 0)}
		if r.Lock != kv.NoLock && q.b.WaitPolicy == kv.SkipLocked {
			o.SkipLocked, o.Locked = true, q.lockedByOthers(r.Lock)
		}
		unbounded := q.b.MaxKeys == 0 && q.b.TargetBytes == 0 && q.txn != nil
		if unbounded {
			o.MaxBytes = max(kv.AnswerBytes-q.answered, 1)
		}
		res, err := rd.Scan(r.Start, r.End, &o)
		if err != nil {
			return nil, err
		}
		if q.answered += res.Bytes; unbounded && res.Resume != nil {
			return nil, &kv.AnswerTooLargeError{}
		}
		q.spend(int64(len(res.Rows)), res.Bytes)
		if note {
			if s := readPart(keys.Span{Start: r.Start, End: r.End}, res.Resume, r.Reverse); s.Start.Less(s.End) {
				p.o.Cache.AddSpan(s, o.Timestamp, q.txnID())
			}
		}
		if r.Lock != kv.NoLock {
			for i := range res.Rows {
				q.acquired = append(q.acquired, acquired{res.Rows[i].Key, r.Lock})
			}
		}
		return &kv.ScanResponse{Rows: res.Rows, Resume: res.Resume}, nil

	case *kv.RefreshRequest:
		if err := q.mayRefresh(r.Key, r.From); err != nil {
			return nil, err
		}
		return &kv.EmptyResponse{}, rd.CheckRefresh(r.Key, nil, r.From, q.readAt(), q.txn, q.noLocks)

	case *kv.RefreshRangeRequest:
		if err := q.mayRefresh(r.Start, r.From); err != nil {
			return nil, err
		}
		return &kv.EmptyResponse{}, rd.CheckRefresh(r.Start, r.End, r.From, q.readAt(), q.txn, q.noLocks)

	case *kv.CheckLocksRequest:
		return empty, q.checkLocks(r)

	case *kv.QueryTxnRequest:
		rec, err := p.record(p.o.Engine, r.Txn.Anchor, r.Txn.ID)
		if err != nil {
			return nil, err
		}
		resp := &kv.QueryTxnResponse{}
		resp.Waits, resp.Version = p.waits.waits(r.Txn.ID)
		if rec != nil {
			resp.Txn, resp.Exists = rec.Txn(), true
		} else {
			resp.Txn.TxnMeta = r.Txn
		}
		return resp, nil

	case *kv.RangeInfoRequest:
		seq, _ := p.r.CheckLease(q.now)
		s := p.r.Stats()
		return &kv.RangeInfoResponse{Desc: *p.r.Desc(), Leaseholder: p.r.NodeID(), LeaseSequence: seq,
			LiveBytes: s.LiveBytes, KeyCount: s.LiveCount, TotalBytes: s.TotalBytes}, nil
	}
	return nil, &kv.InternalError{Message: "leader: a read that is none"}
}

// mayRefresh refuses a refresh from below the garbage collection threshold: what was deleted since may be gone.
func (q *request) mayRefresh(k keys.Key, from clock.Timestamp) error {
	if t := q.p.r.GCThreshold(); from.Less(t) {
		return &kv.RefreshFailedError{Key: k, Written: t}
	}
	return nil
}

// readPart is what a scan has read of its span.
func readPart(s keys.Span, resume *keys.Span, reverse bool) keys.Span {
	switch {
	case resume == nil:
	case reverse:
		s.Start = resume.End
	default:
		s.End = resume.Start
	}
	return s
}

// lockedByOthers tells which keys SKIP LOCKED leaves out.
func (q *request) lockedByOthers(strength kv.LockStrength) func(keys.Key) bool {
	q.guardSpans()
	return func(k keys.Key) bool {
		_, locked := q.p.locks.Probe(&q.guard, []lock.Span{{Span: keys.Span{Start: k}, Strength: strength}})
		return locked
	}
}

func (q *request) exhausted() bool {
	return q.b.MaxKeys > 0 && q.keysLeft <= 0 || q.b.TargetBytes > 0 && q.bytesLeft <= 0
}

func (q *request) spend(keys, bytes int64) {
	if q.b.MaxKeys > 0 {
		q.keysLeft -= keys
	}
	if q.b.TargetBytes > 0 {
		q.bytesLeft -= bytes
	}
}

// maxProvisional bounds the intents that a look at the range index tells of. Lookups want the first ones.
const maxProvisional = 8

// readInconsistent serves the latest committed values, whoever has the lease. A snapshot keeps intents and values
// together: at the end of time there is no timestamp to tell them apart.
func (q *request) readInconsistent() error {
	p := q.p
	q.begin()
	snap := p.o.Engine.NewSnapshot()
	defer snap.Close()
	rd := p.o.reader(snap)
	err := q.scanInconsistent(rd)
	if cerr := p.o.putReader(rd); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	if c := p.closed.Load(); c != nil && c.thawed == nil {
		return c.err // frozen ranges answer: others look for what is to become of them
	}
	return p.checkSpans(q.b)
}

func (q *request) scanInconsistent(rd *mvcc.Reader) error {
	o := mvcc.ReadOptions{Timestamp: clock.MaxTimestamp.Prev(), Inconsistent: true}
	for _, r := range q.b.Requests {
		switch r := r.(type) {
		case *kv.GetRequest:
			v, err := rd.Get(r.Key, &o)
			if err != nil {
				return err
			}
			q.resp.Responses = append(q.resp.Responses, &kv.GetResponse{Value: v.Bytes, Timestamp: v.Timestamp})
		case *kv.ScanRequest:
			if q.exhausted() {
				q.resp.Responses = append(q.resp.Responses, &kv.ScanResponse{Resume: &keys.Span{Start: r.Start, End: r.End}})
				continue
			}
			res, err := rd.Scan(r.Start, r.End, &mvcc.ScanOptions{ReadOptions: o, Reverse: r.Reverse,
				MaxKeys: q.keysLeft, TargetBytes: q.bytesLeft})
			if err != nil {
				return err
			}
			q.spend(int64(len(res.Rows)), res.Bytes)
			resp := &kv.ScanResponse{Rows: res.Rows, Resume: res.Resume}
			if keys.IsMeta(r.Start) && !r.Reverse {
				if resp.Provisional, err = rd.Provisional(r.Start, r.End, maxProvisional); err != nil {
					return err
				}
			}
			q.resp.Responses = append(q.resp.Responses, resp)
		default:
			return &kv.InternalError{Message: "leader: only reads can be inconsistent"}
		}
	}
	return nil
}

// peek serves kv.Peek: what has been resolved by now.
func (q *request) peek(ctx context.Context) error {
	p := q.p
	r, ok := q.b.Requests[0].(*kv.ScanRequest)
	if !ok || len(q.b.Requests) != 1 {
		return &kv.InternalError{Message: "leader: only a scan can peek"}
	}
	gen, _, err := p.enter(ctx, q.now)
	if err != nil {
		return err
	}
	defer p.gate.leave(gen)
	q.begin()
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
	q.resp.Responses = append(q.resp.Responses, resp)
	return p.checkServed(q.b, q.now)
}

// record reads a transaction record; nil if there is none.
func (p *Participant) record(src engine.Reader, anchor keys.Key, id kv.TxnID) (*commit.Record, error) {
	b, err := src.Get(keys.TxnKey(anchor, id))
	if err != nil || b == nil {
		return nil, err
	}
	return commit.DecodeRecord(b)
}
