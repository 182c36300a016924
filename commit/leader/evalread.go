package leader

import (
	"errors"

	"meridian/clock"
	"meridian/keys"
	"meridian/kv"
	"meridian/storage/mvcc"
)

// evalRead evaluates a request that reads. note has scans added to the timestamp cache as far as they came.
func (ev *evaluation) evalRead(rd *mvcc.Reader, r kv.Request, note bool) (kv.Response, error) {
	p := ev.p
	switch r := r.(type) {
	case *kv.GetRequest:
		o := ev.readOptions(r.Lock)
		if r.Lock != kv.NoLock && ev.b.WaitPolicy == kv.SkipLocked {
			o.SkipLocked, o.Locked = true, ev.locking.lockedByOthers(r.Lock)
			if o.Locked(r.Key) {
				return &kv.GetResponse{}, nil
			}
		}
		v, err := rd.Get(r.Key, &o)
		if err != nil {
			return nil, err
		}
		if ev.room.answered += int64(len(v.Bytes)); ev.room.answered > kv.AnswerBytes && len(ev.b.Requests) > 1 && ev.txn != nil {
			return nil, &kv.AnswerTooLargeError{}
		}
		if r.Lock != kv.NoLock {
			ev.effects.acquired = append(ev.effects.acquired, acquired{r.Key, r.Lock})
		}
		return &kv.GetResponse{Value: v.Bytes, Timestamp: v.Timestamp}, nil

	case *kv.ScanRequest:
		if ev.exhausted() {
			return &kv.ScanResponse{Resume: &keys.Span{Start: r.Start, End: r.End}}, nil
		}
		o := mvcc.ScanOptions{ReadOptions: ev.readOptions(r.Lock), Reverse: r.Reverse, MaxKeys: ev.room.keys,
			TargetBytes: ev.room.bytes, StopAtConflict: len(ev.b.Requests) == 1 && (ev.b.MaxKeys > 0 || ev.b.TargetBytes > 0)}
		if r.Lock != kv.NoLock && ev.b.WaitPolicy == kv.SkipLocked {
			o.SkipLocked, o.Locked = true, ev.locking.lockedByOthers(r.Lock)
		}
		unbounded := ev.b.MaxKeys == 0 && ev.b.TargetBytes == 0 && ev.txn != nil
		if unbounded {
			o.MaxBytes = max(kv.AnswerBytes-ev.room.answered, 1)
		}
		res, err := rd.Scan(r.Start, r.End, &o)
		if late := (*kv.WriteTooOldError)(nil); errors.As(err, &late) && ev.passesOver(r) {
			return &kv.ScanResponse{Resume: &keys.Span{Start: r.Start, End: r.End}}, nil
		}
		if err != nil {
			return nil, err
		}
		if ev.room.answered += res.Bytes; unbounded && res.Resume != nil {
			return nil, &kv.AnswerTooLargeError{}
		}
		ev.spend(int64(len(res.Rows)), res.Bytes)
		if note {
			if s := readPart(keys.Span{Start: r.Start, End: r.End}, res.Resume, r.Reverse); s.Start.Less(s.End) {
				p.o.Cache.AddSpan(s, o.Timestamp, ev.txnID())
			}
		}
		if r.Lock != kv.NoLock {
			for i := range res.Rows {
				ev.effects.acquired = append(ev.effects.acquired, acquired{res.Rows[i].Key, r.Lock})
			}
		}
		return &kv.ScanResponse{Rows: res.Rows, Resume: res.Resume}, nil

	case *kv.RefreshRequest:
		if err := ev.mayRefresh(r.Key, r.From); err != nil {
			return nil, err
		}
		return &kv.EmptyResponse{}, rd.CheckRefresh(r.Key, nil, r.From, ev.readAt(), ev.txn, ev.noLocks)

	case *kv.RefreshRangeRequest:
		if err := ev.mayRefresh(r.Start, r.From); err != nil {
			return nil, err
		}
		return &kv.EmptyResponse{}, rd.CheckRefresh(r.Start, r.End, r.From, ev.readAt(), ev.txn, ev.noLocks)

	case *kv.CheckLocksRequest:
		return empty, ev.checkLocks(r)

	case *kv.QueryTxnRequest:
		rec, err := p.record(p.o.Engine, r.Txn.Anchor, r.Txn.ID)
		if err != nil {
			return nil, err
		}
		resp := &kv.QueryTxnResponse{}
		resp.Waits, resp.Version = p.waits.waits(r.Txn.ID)
		if rec != nil {
			resp.Txn, resp.Exists = rec.Txn(), true
			if r.List {
				resp.InFlight = rec.InFlight
			}
		} else {
			resp.Txn.TxnMeta = r.Txn
		}
		if r.List { // after the record was read
			resp.Committed, resp.Remembers = p.r.CommitOf(r.Txn.ID, r.Txn.MinTimestamp)
		}
		return resp, nil

	case *kv.RangeInfoRequest:
		seq, _ := p.r.CheckLease(ev.now)
		s := p.r.Stats()
		return &kv.RangeInfoResponse{Desc: *p.r.Desc(), Leaseholder: p.r.NodeID(), LeaseSequence: seq,
			LiveBytes: s.LiveBytes, KeyCount: s.LiveCount, TotalBytes: s.TotalBytes}, nil
	}
	return nil, &kv.InternalError{Message: "leader: a read that is none"}
}

func (ev *evaluation) readOptions(lock kv.LockStrength) mvcc.ReadOptions {
	o := mvcc.ReadOptions{Timestamp: ev.readAt(), Txn: ev.txn, ReadSeq: ev.b.ReadSeq, Lock: lock, NoLocks: ev.noLocks}
	if lock == kv.NoLock {
		if o.Uncertainty = ev.p.uncertainty(ev.b, ev.txn, ev.first); ev.unled {
			o.Uncertainty.Local = clock.Timestamp{} // leader.P25
		}
		ev.visible, ev.limit = o.Timestamp, o.Uncertainty.Global
		if !o.Uncertainty.Global.IsZero() {
			ev.visible = o.Timestamp.Forward(o.Uncertainty.Global.Backward(o.Uncertainty.Local))
		}
	}
	return o
}

// passesOver reports whether the batch has other keys to lock in place of one that has changed since its transaction's snapshot (kv.SkipLocked). At the levels
// whose snapshot is the transaction's, such a key is refused.
func (ev *evaluation) passesOver(r *kv.ScanRequest) bool {
	return ev.b.WaitPolicy == kv.SkipLocked && !ev.b.CanForwardRead && ev.b.MaxKeys > 0 && len(ev.b.Requests) > 1 && ev.txn != nil && ev.txn.Isolation == kv.ReadCommitted &&
		r.Span().Single()
}

func (ev *evaluation) exhausted() bool {
	return ev.b.MaxKeys > 0 && ev.room.keys <= 0 || ev.b.TargetBytes > 0 && ev.room.bytes <= 0
}

func (ev *evaluation) spend(keys, bytes int64) {
	if ev.b.MaxKeys > 0 {
		ev.room.keys -= keys
	}
	if ev.b.TargetBytes > 0 {
		ev.room.bytes -= bytes
	}
}

// mayRefresh refuses a refresh from below the garbage collection threshold: versions deleted since may be gone. A refresh of an empty interval never fails.
// So one that a commit carries fails only if the range has moved the whole batch, and then nothing of it has been done (coordinator.CO12).
func (ev *evaluation) mayRefresh(k keys.Key, from clock.Timestamp) error {
	if ev.readAt().LessEq(from) {
		return nil
	}
	if t := ev.p.r.GCThreshold(); from.Less(t) {
		return &kv.RefreshFailedError{Key: k, Written: t}
	}
	return nil
}

// readPart is the part of its span that a scan has read.
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

// notMVCC reports whether a request reads anything but versions at the read timestamp.
func notMVCC(r kv.Request) bool {
	switch r.(type) {
	case *kv.QueryTxnRequest, *kv.RangeInfoRequest, *kv.CheckLocksRequest:
		return true
	}
	return false
}
