package leader

import (
	"context"

	"meridian/clock"
	"meridian/commit/leader/latch"
	"meridian/keys"
	"meridian/kv"
	"meridian/replica/closedts"
)

// latching is the stage that excludes conflicting requests during the batch: latches on its keys, and for writes an entry in the range's
// tracker, so that the closed timestamp waits for it. It notes the lease.
type latching struct {
	*call
	latches []latch.Latch
	inline  [4]latch.Latch
	held    *latch.Guard
	lease   uint64
	tracks  bool            // the closed timestamp waits for tracked
	tracked closedts.Token  // in the range's tracker, while the batch writes
	floor   clock.Timestamp // closed when it was tracked: writes move above it
	from    clock.Timestamp // the lowest timestamp of the writes
	// inPlace says of each resolution whether it runs concurrently with others (inplace.go); with exclusive, none does.
	inPlace   []bool
	exclusive bool
}

// declareReads lists the latches of a batch of plain reads.
func (l *latching) declareReads() {
	l.latches = l.inline[:0]
	for _, r := range l.b.Requests {
		if !notMVCC(r) {
			l.latches = append(l.latches, latch.Latch{Span: r.Span(), Mode: latch.Read, At: l.readAt()})
		}
	}
}

// passReads is for plain reads, which take no latches: it enters them into the timestamp cache, and waits for the writers that were there
// before (leader.P1).
func (l *latching) passReads(ctx context.Context) error {
	for _, r := range l.b.Requests {
		if notMVCC(r) {
			continue
		}
		s := r.Span()
		l.p.o.Cache.AddSpan(s, l.readAt(), l.txnID())
		waited, err := l.p.latches.WaitRead(ctx, s, l.readAt())
		if err != nil {
			return err
		}
		if waited {
			l.p.o.Metrics.LatchWaits.Add(1)
		}
	}
	return nil
}

// acquire takes the declared latches. It reports false if that would take a wait and the batch must not wait.
func (l *latching) acquire(ctx context.Context, waits bool) (ok bool, err error) {
	l.tracks = false
	if !waits {
		l.held = l.p.latches.Try(l.latches)
		return l.held != nil, nil
	}
	if l.held, err = l.p.latches.Acquire(ctx, l.latches); err != nil {
		return false, err
	}
	if l.held.Waited() {
		l.p.o.Metrics.LatchWaits.Add(1)
	}
	return true, nil
}

// check checks that the range may still serve the batch at a timestamp: acquiring latches may have taken long. From here on the range's
// span does not change, because a split latches all of it. It reports false if the lease is gone, and the batch should be repeated.
func (l *latching) check(at clock.Timestamp) (ok bool, err error) {
	if l.lease, ok = l.p.r.CheckLease(at); !ok {
		return false, nil
	}
	if err := l.p.closedErr(); err != nil {
		return false, err
	}
	return true, l.p.checkSpans(l.b)
}

// track makes the closed timestamp wait for the batch's writes. It comes after the check of the lease: timestamps that a later lease closes
// don't matter to this batch, which will not apply then.
func (l *latching) track() error {
	l.tracked, l.floor = l.p.r.Closer().Track(l.writeAt())
	l.tracks, l.from = true, l.writeAt().Forward(l.floor.Next())
	if l.txn == nil && !l.bulk && !l.b.Timestamp.IsZero() && l.at.LessEq(l.floor) {
		return &kv.WriteTooOldError{Key: l.b.Requests[0].Span().Start, Actual: l.floor}
	}
	return nil
}

// declare lists the latches of the batch.
func (l *latching) declare() {
	p, b := l.p, l.b
	ls := l.latches[:0]
	if cap(ls) == 0 {
		ls = l.inline[:0]
		if len(b.Requests) > len(l.inline) {
			ls = make([]latch.Latch, 0, len(b.Requests)+1)
		}
	}
	write := func(s keys.Span, at clock.Timestamp) {
		ls = append(ls, latch.Latch{Span: s, Mode: latch.Write, At: at})
	}
	var owner uint64
	if l.txn != nil {
		owner = latchOwner(l.txn.ID)
	}
	clear(l.inPlace)
	for i, r := range b.Requests {
		if l.choice.leavesOut(i) {
			continue
		}
		s := r.Span()
		switch r := r.(type) {
		case *kv.GetRequest:
			ls = append(ls, lockingLatch(s, r.Lock, l.readAt(), owner))
		case *kv.ScanRequest:
			if s.Single() {
				s.End = nil // latches of single keys are found by their hash
			}
			ls = append(ls, lockingLatch(s, r.Lock, l.readAt(), owner))
		case *kv.RefreshRequest, *kv.RefreshRangeRequest:
			at := l.readAt()
			if b.CanForwardRead {
				at = clock.MaxTimestamp // the evaluation may move it (coordinator.CO12)
			}
			ls = append(ls, latch.Latch{Span: s, Mode: latch.Read, At: at})
		case *kv.PutRequest, *kv.CPutRequest, *kv.DeleteRequest, *kv.AddRequest:
			ls = append(ls, latch.Latch{Span: s, Mode: latch.Write, At: l.writeAt(), Owner: owner})
		case *kv.DeleteRangeRequest:
			write(s, l.writeAt())
		case *kv.ClearRequest:
			write(s, clock.Timestamp{})
		case *kv.LoadRequest:
			if r.Mode == kv.LoadAlone {
				write(s, l.writeAt())
				continue
			}
			// Other requests may use keys between the rows.
			for i := range r.Rows {
				write(point(r.Rows[i].Key), l.writeAt())
			}
		case *kv.EndTxnRequest:
			write(point(keys.TxnKey(r.Anchor, l.txnID())), clock.Timestamp{})
			if r.Trigger != nil {
				d := p.r.Desc()
				write(d.Span(), clock.Timestamp{})
				write(keys.RangeLocalSpan(d.Start, d.End), clock.Timestamp{})
			} else if !r.OnePhase && len(l.elsewhere(r)) == 0 {
				// Intents are about to be resolved. Readers below the transaction's first timestamp see none of it.
				d := p.r.Desc()
				for _, s := range r.LockSpans {
					if s, ok := clip(s, d); ok {
						ls = append(ls, latch.Latch{Span: s, Mode: latch.Write, At: l.minAt(), Owner: owner})
					}
				}
			}
		case *kv.HeartbeatTxnRequest:
			write(point(keys.TxnKey(r.Anchor, l.txnID())), clock.Timestamp{})
		case *kv.RecoverTxnRequest:
			write(point(keys.TxnKey(r.Txn.Anchor, r.Txn.ID)), clock.Timestamp{})
		case *kv.QueryIntentRequest:
			write(s, clock.MaxTimestamp)
		case *kv.ResolveIntentRequest:
			if l.resolvesInPlace(r, i) {
				ls = append(ls, latch.Latch{Span: s, Mode: latch.Resolve, Owner: latchOwner(r.Txn.ID)})
			} else {
				ls = append(ls, latch.Latch{Span: s, Mode: latch.Write, At: r.Txn.MinTimestamp, Owner: latchOwner(r.Txn.ID)})
			}
		case *kv.ResolveRangeRequest:
			ls = append(ls, latch.Latch{Span: s, Mode: latch.Write, At: r.Txn.MinTimestamp, Owner: latchOwner(r.Txn.ID)})
		case *kv.GCRequest:
			for i := range r.Keys {
				write(point(r.Keys[i].Key), clock.MaxTimestamp)
			}
			for _, k := range r.Records {
				write(point(k), clock.Timestamp{})
			}
		}
	}
	l.latches = ls
}

// lockingLatch is the latch of a read. One that locks excludes writers and other lockers, at any timestamp, but no plain reads.
func lockingLatch(s keys.Span, strength kv.LockStrength, at clock.Timestamp, owner uint64) latch.Latch {
	if strength == kv.NoLock {
		return latch.Latch{Span: s, Mode: latch.Read, At: at}
	}
	return latch.Latch{Span: s, Mode: latch.Write, At: clock.MaxTimestamp, Owner: owner}
}

// letGo releases the latches and the entry in the tracker.
func (l *latching) letGo() {
	if l.tracks {
		l.p.r.Closer().Untrack(l.tracked)
	}
	l.p.latches.Release(l.held)
}
