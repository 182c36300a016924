package leader

import (
	"context"
	"slices"

	"meridian/clock"
	"meridian/commit/leader/latch"
	"meridian/commit/leader/lock"
	"meridian/keys"
	"meridian/kv"
	"meridian/storage/mvcc"
)

// sendWrite takes a batch that changes or locks something through its life (doc.go): lease, latches, locks,
// evaluation, replication, effects in memory.
func (q *request) sendWrite(ctx context.Context) error {
	p := q.p
	var refused []keys.Key // of a load
	for {
		q.clockIn()
		gen, _, err := p.enter(ctx, q.readAt())
		if err != nil {
			return err
		}
		again, err := q.attempt(ctx)
		p.gate.leave(gen)
		if err != nil {
			return err
		}
		if !again {
			if len(refused) > 0 {
				l := q.resp.Responses[0].(*kv.LoadResponse)
				l.Refused = append(l.Refused, refused...)
			}
			return nil
		}
		if q.unsettled != nil {
			if err := q.settleIntents(ctx); err != nil {
				return err
			}
			continue
		}
		if q.shares() {
			if refused, err = q.loadApart(ctx, refused); err != nil {
				return err
			}
			continue
		}
		if err := q.blocked(ctx); err != nil {
			return err
		}
	}
}

// settleIntents waits until the transactions have ended of which there are intents in a span that is to be cleared, and gives
// the intents the outcome.
//
// P18 (I1): an intent goes with its transaction's outcome, never with the span in which it lies: a record that says staging makes
// a commit of the writes that are there, and recovery takes one that is missing for one that never came.
func (q *request) settleIntents(ctx context.Context) error {
	p, c := q.p, q.b.Requests[0].(*kv.ClearRequest)
	all := q.unsettled
	q.unsettled = nil
	done := map[kv.TxnID]bool{}
	for i := range all {
		in := &all[i]
		if done[in.Txn.ID] {
			continue
		}
		done[in.Txn.ID] = true
		p.o.Metrics.Pushes.Add(1)
		resp, err := p.o.Sender.Send(ctx, &kv.Batch{
			Header:   kv.Header{Gateway: p.r.NodeID(), Now: p.o.Clock.Now()},
			Requests: []kv.Request{&kv.PushTxnRequest{Pushee: in.Txn, Kind: kv.PushAbort, Key: in.Key}},
		})
		if err != nil {
			return err
		}
		push, ok := resp.Responses[0].(*kv.PushTxnResponse)
		if !ok {
			return &kv.InternalError{Message: "a push got an answer to another question"}
		}
		if err := p.resolveTo(ctx, in.Key, c.End, &push.Pushee); err != nil {
			return err
		}
	}
	return nil
}

// shares reports whether the batch is a load of several rows among others' writes (K4).
func (q *request) shares() bool {
	if !q.bulk {
		return false
	}
	l, ok := q.b.Requests[0].(*kv.LoadRequest)
	return ok && l.Mode != kv.LoadAlone && len(l.Rows) > 1
}

// loadApart loads the row that is in the way of a load on its own, and leaves it out of the load from then on. So no row has to
// wait while others are kept from theirs (K4), and each gets its turn. It returns the rows that were refused by then.
func (q *request) loadApart(ctx context.Context, refused []keys.Key) ([]keys.Key, error) {
	q.guardSpans()
	w, waits := q.p.locks.Probe(&q.guard, q.guard.Spans)
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
	q.b, q.guarded = &rest, false
	return refused, nil
}

// attempt goes once from latches to effects. With again, the batch has to wait for a lock first.
func (q *request) attempt(ctx context.Context) (again bool, err error) {
	p := q.p
	if q.end != nil && q.b.Requests[len(q.b.Requests)-1] != kv.Request(q.end) {
		return false, &kv.InternalError{Message: "leader: EndTxn has to be the last of its batch"}
	}
	if q.record {
		if err := q.narrow(); err != nil {
			return false, err
		}
	}
	q.declare()
	if q.starts != nil {
		if q.held = p.latches.Try(q.latches); q.held == nil {
			return true, nil
		}
	} else if q.held, err = p.latches.Acquire(ctx, q.latches); err != nil {
		return false, err
	} else if q.held.Waited() {
		p.o.Metrics.LatchWaits.Add(1)
	}
	keep := false // somebody else releases the latches
	q.tracks = false
	defer func() {
		if !keep {
			q.letGo()
		}
	}()
	// Latches may have taken long. From here on the range's span stays what it is: a split latches all of it.
	var ok bool
	if q.lease, ok = p.r.CheckLease(q.readAt()); !ok {
		return true, nil
	}
	if err := p.closedErr(); err != nil {
		return false, err
	}
	if err := p.checkSpans(q.b); err != nil {
		return false, err
	}
	var tracked clock.Timestamp
	if q.writes > 0 {
		// After the lease was checked: what a later one closes is then no concern of this batch, which will not apply.
		q.tracked, q.floor = p.r.Closer().Track(q.writeAt())
		tracked, q.tracks = q.writeAt().Forward(q.floor.Next()), true
		if q.txn == nil && !q.bulk && !q.b.Timestamp.IsZero() && q.at.LessEq(q.floor) {
			return false, &kv.WriteTooOldError{Key: q.b.Requests[0].Span().Start, Actual: q.floor}
		}
	}
	if (q.writes > 0 || q.locking) && p.locks.Len() > 0 {
		q.guardSpans()
		if len(q.guard.Spans) > 0 {
			p.locks.ReadsAt(&q.guard, q.readAt())
			if q.b.WaitPolicy == kv.NoWait {
				if w, waits := p.locks.Probe(&q.guard, q.guard.Spans); waits && !w.Read {
					return false, q.notAvailable(w)
				}
			}
			if q.starts != nil {
				if _, waits := p.locks.Probe(&q.guard, q.guard.Spans); waits {
					return true, nil
				}
			} else if q.shares() {
				if _, waits := p.locks.Probe(&q.guard, q.guard.Spans); waits {
					return true, nil
				}
			} else if _, waits := p.locks.Scan(&q.guard); waits {
				return true, nil
			}
		}
	}
	err = q.evaluate()
	if e, conflict := err.(*mvcc.LockConflictError); conflict {
		q.discard()
		if _, clears := q.b.Requests[0].(*kv.ClearRequest); clears {
			q.unsettled = e.Intents
			return true, nil
		}
		if q.starts != nil {
			return true, nil
		}
		if q.b.WaitPolicy == kv.NoWait {
			in := &e.Intents[0]
			p.o.Metrics.NotAvailable.Add(1)
			return false, &kv.LockNotAvailableError{Key: in.Key, Holder: in.Txn.ID}
		}
		q.guardSpans()
		q.discover(e, p.locks.Releases())
		q.conflictAt(e)
		return true, nil
	}
	if err == mvcc.ErrNotInPlace {
		q.discard()
		q.exclusive = true
		return true, nil
	}
	if err != nil {
		q.keepTurn(err)
		q.discard()
		return false, err
	}
	if w, waits := q.checkAcquired(); waits {
		// A limited scan came upon a locked key.
		q.discard()
		if q.b.WaitPolicy == kv.NoWait {
			return false, q.notAvailable(w)
		}
		return true, nil
	}
	if q.batch != nil && (!q.batch.Empty() || q.cmd.Trigger != nil || !q.cmd.GCThreshold.IsZero()) {
		q.cmd.Use = useOf(q.b)
		q.cmd.LeaseSequence, q.cmd.Batch, q.cmd.Delta = q.lease, q.batch.Repr(), add(q.cmd.Delta, q.w.Stats)
		if q.writes > 0 && !q.bulk { // what is loaded is not to be read for some time (LoadRequest)
			q.cmd.WriteAt = tracked
		}
		if ctx.Done() != nil {
			q.cmd.Settled = q.settle
		}
		if q.flies = len(q.laid)+len(q.dropped) > 0; q.flies {
			q.heldAt = p.held.takeOff(q.laid) // P11
		}
		if q.starts != nil {
			if q.pend, err = q.starts.Start(&q.cmd, q.lazy); err == nil {
				keep = true // until the flight has landed
				return false, nil
			}
		} else {
			err = p.r.Propose(ctx, &q.cmd)
		}
	}
	keep, err = q.proposed(ctx, err)
	return false, err
}

// proposed goes on when the batch's command has been applied, or err says what became of it. With keep, the latches stay
// until that is known.
func (q *request) proposed(ctx context.Context, err error) (keep bool, _ error) {
	if _, ambiguous := err.(*kv.AmbiguousError); ambiguous {
		keep = ctx.Done() != nil
		q.unknown = keep
		q.discard()
		return keep, err
	}
	q.discard()
	if q.flies {
		if q.flies = false; err != nil {
			q.p.held.land(q.heldAt, q.laid)
		} else {
			q.p.held.land(q.heldAt, q.dropped)
		}
	}
	if err != nil {
		return false, err
	}
	q.effects()
	return false, nil
}

// letGo gives back what keeps others out.
func (q *request) letGo() {
	if q.tracks {
		q.p.r.Closer().Untrack(q.tracked)
	}
	q.p.latches.Release(q.held)
}

func add(a, b mvcc.Stats) mvcc.Stats {
	a.Add(b)
	return a
}

// settle is called once the outcome of an ambiguous proposal is known, to this node at least.
func (q *request) settle() {
	if q.settled.CompareAndSwap(false, true) {
		q.mark()
		if q.end != nil {
			q.releaseLocks() // decided or not, the transaction has ended
		}
		if q.flies {
			q.p.held.land(q.heldAt, nil)
		}
		q.p.r.Closer().Untrack(q.tracked)
		q.p.latches.Release(q.held)
	}
}

func (q *request) notAvailable(w lock.Wait) error {
	q.p.o.Metrics.NotAvailable.Add(1)
	return &kv.LockNotAvailableError{Key: w.Key, Holder: w.Holder.ID}
}

// conflictAt joins the queue of the first intent that was met, for requests whose spans the guard does not have:
// limited scans.
func (q *request) conflictAt(e *mvcc.LockConflictError) {
	if q.locking && (q.b.MaxKeys > 0 || q.b.TargetBytes > 0) {
		q.addGuardSpan(e.Intents[0].Key)
	}
}

// addGuardSpan makes the guard wait for one more key.
func (q *request) addGuardSpan(k keys.Key) {
	q.guard.Spans = append(q.guard.Spans, lock.Span{Span: keys.Span{Start: k}, Strength: q.lockStrength()})
}

// lockStrength is the strongest lock that the batch's reads want.
func (q *request) lockStrength() (s kv.LockStrength) {
	for _, r := range q.b.Requests {
		switch r := r.(type) {
		case *kv.GetRequest:
			s = max(s, r.Lock)
		case *kv.ScanRequest:
			s = max(s, r.Lock)
		}
	}
	return s
}

// checkAcquired looks for locks of others on the keys that limited scans are about to lock.
func (q *request) checkAcquired() (lock.Wait, bool) {
	if len(q.acquired) == 0 || q.b.MaxKeys == 0 && q.b.TargetBytes == 0 || q.p.locks.Len() == 0 ||
		q.b.WaitPolicy == kv.SkipLocked {
		return lock.Wait{}, false
	}
	q.guardSpans()
	for _, a := range q.acquired {
		s := [1]lock.Span{{Span: keys.Span{Start: a.key}, Strength: a.strength}}
		if w, waits := q.p.locks.Probe(&q.guard, s[:]); waits {
			q.addGuardSpan(a.key)
			return w, true
		}
	}
	return lock.Wait{}, false
}

// declare lists the latches of the batch.
func (q *request) declare() {
	p, b := q.p, q.b
	ls := q.latches[:0]
	if cap(ls) == 0 {
		ls = q.inline[:0]
		if len(b.Requests) > len(q.inline) {
			ls = make([]latch.Latch, 0, len(b.Requests)+1)
		}
	}
	write := func(s keys.Span, at clock.Timestamp) {
		ls = append(ls, latch.Latch{Span: s, Mode: latch.Write, At: at})
	}
	var owner uint64
	if q.txn != nil {
		owner = latchOwner(q.txn.ID)
	}
	clear(q.inPlace)
	for i, r := range b.Requests {
		s := r.Span()
		switch r := r.(type) {
		case *kv.GetRequest:
			ls = append(ls, lockingLatch(s, r.Lock, q.readAt(), owner))
		case *kv.ScanRequest:
			ls = append(ls, lockingLatch(s, r.Lock, q.readAt(), owner))
		case *kv.RefreshRequest, *kv.RefreshRangeRequest:
			ls = append(ls, latch.Latch{Span: s, Mode: latch.Read, At: q.readAt()})
		case *kv.PutRequest, *kv.CPutRequest, *kv.DeleteRequest, *kv.AddRequest:
			ls = append(ls, latch.Latch{Span: s, Mode: latch.Write, At: q.writeAt(), Owner: owner})
		case *kv.DeleteRangeRequest:
			write(s, q.writeAt())
		case *kv.ClearRequest:
			write(s, clock.Timestamp{})
		case *kv.LoadRequest:
			if r.Mode == kv.LoadAlone {
				write(s, q.writeAt())
				continue
			}
			// Others may be at work between the rows.
			for i := range r.Rows {
				write(point(r.Rows[i].Key), q.writeAt())
			}
		case *kv.EndTxnRequest:
			write(point(keys.TxnKey(r.Anchor, q.txnID())), clock.Timestamp{})
			if r.Trigger != nil {
				d := p.r.Desc()
				write(d.Span(), clock.Timestamp{})
				write(keys.RangeLocalSpan(d.Start, d.End), clock.Timestamp{})
			} else if !r.OnePhase && len(q.elsewhere(r)) == 0 {
				// Intents are about to be resolved. Readers below the transaction's first timestamp see none of it.
				d := p.r.Desc()
				for _, s := range r.LockSpans {
					if s, ok := clip(s, d); ok {
						ls = append(ls, latch.Latch{Span: s, Mode: latch.Write, At: q.minAt(), Owner: owner})
					}
				}
			}
		case *kv.HeartbeatTxnRequest:
			write(point(keys.TxnKey(r.Anchor, q.txnID())), clock.Timestamp{})
		case *kv.RecoverTxnRequest:
			write(point(keys.TxnKey(r.Txn.Anchor, r.Txn.ID)), clock.Timestamp{})
		case *kv.QueryIntentRequest:
			write(s, clock.MaxTimestamp)
		case *kv.ResolveIntentRequest:
			if q.resolvesInPlace(r, i) {
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
	q.latches = ls
}

// minAt is the transaction's first timestamp.
func (q *request) minAt() clock.Timestamp {
	if q.txn == nil {
		return clock.Timestamp{}
	}
	return q.txn.MinTimestamp
}

func point(k keys.Key) keys.Span { return keys.Span{Start: k} }

// lockingLatch is the latch of a read. One that locks keeps out writers and other lockers, at any timestamp, but no
// plain reads.
func lockingLatch(s keys.Span, strength kv.LockStrength, at clock.Timestamp, owner uint64) latch.Latch {
	if strength == kv.NoLock {
		return latch.Latch{Span: s, Mode: latch.Read, At: at}
	}
	return latch.Latch{Span: s, Mode: latch.Write, At: clock.MaxTimestamp, Owner: owner}
}

// clip is the part of a span that is in the range.
func clip(s keys.Span, d *kv.RangeDescriptor) (keys.Span, bool) {
	if s.Point() || keys.IsLocal(s.Start) {
		return s, d.Contains(keys.Addr(s.Start))
	}
	if s.Start.Less(d.Start) {
		s.Start = d.Start
	}
	if d.End.Less(s.End) {
		s.End = d.End
	}
	return s, s.Start.Less(s.End)
}

// outside are the parts of spans that are not in the range.
func outside(spans []keys.Span, d *kv.RangeDescriptor) (out []keys.Span) {
	for _, s := range spans {
		if s.Point() || keys.IsLocal(s.Start) {
			if !d.Contains(keys.Addr(s.Start)) {
				out = append(out, s)
			}
			continue
		}
		if s.Start.Less(d.Start) {
			l := s
			if d.Start.Less(l.End) {
				l.End = d.Start
			}
			out = append(out, l)
		}
		if d.End.Less(s.End) {
			r := s
			if r.Start.Less(d.End) {
				r.Start = d.End
			}
			out = append(out, r)
		}
	}
	return out
}

// discard closes the evaluation's batch.
func (q *request) discard() {
	if q.batch != nil {
		q.p.o.putWriter(q.w)
		q.batch.Close()
		q.w, q.batch = nil, nil
	}
}

// keepTurn locks what a batch of locking reads asked for, though it is refused for a later version: it comes again as soon
// as its transaction has moved, and would find those before it who waited behind it, and their versions, each time anew.
// The coordinator knows what may be locked (CO2). Latches are held, and nothing was in the way.
func (q *request) keepTurn(err error) {
	e, ok := err.(*kv.WriteTooOldError)
	if !ok || !q.locking || q.txn == nil || q.b.WaitPolicy == kv.SkipLocked || q.b.MaxKeys > 0 || q.b.TargetBytes > 0 {
		return
	}
	for _, r := range q.b.Requests {
		switch r := r.(type) {
		case *kv.GetRequest:
			if r.Lock != kv.NoLock {
				q.p.locks.Acquire(&q.guard, r.Key, &q.txn.TxnMeta, r.Lock)
			}
		case *kv.ScanRequest:
			if s := (keys.Span{Start: r.Start, End: r.End}); r.Lock != kv.NoLock && s.Contains(e.Key) {
				q.p.locks.Acquire(&q.guard, e.Key, &q.txn.TxnMeta, r.Lock)
			}
		}
	}
}

// effects are what the applied batch means to what is kept in memory. Latches are still held.
func (q *request) effects() {
	t := q.p.locks
	if q.txn != nil {
		for _, a := range q.acquired {
			if q.b.Hold {
				q.lockedAt = t.Keep(&q.guard, a.key, &q.txn.TxnMeta, a.strength, q.now)
			} else {
				t.Acquire(&q.guard, a.key, &q.txn.TxnMeta, a.strength)
			}
		}
	}
	if r := q.finalized; r != nil {
		t.Finalized(r.ID, r.Status)
	}
	q.releaseLocks()
	q.mark()
	if d := q.drawing; d != nil {
		q.p.counters.set(d.key, d.drawn)
	}
	for _, r := range q.records {
		q.p.waits.changed(r)
		if r.Status == kv.Committed {
			q.p.writers.note(&r.TxnMeta)
		}
	}
	if n := len(q.resp.Responses); q.end != nil && n > 0 {
		if e, ok := q.resp.Responses[n-1].(*kv.EndTxnResponse); ok {
			if e.OnePhase {
				q.p.o.Metrics.OnePhaseCommits.Add(1)
			}
			if q.end.Commit && q.writes > 0 && !e.Staged {
				q.p.o.Cache.Mark(q.txn.ID, q.txn.WriteTimestamp, true) // P5
			}
		}
	}
}

// mark notes whose records were written (P5).
func (q *request) mark() {
	for _, id := range q.marks {
		q.p.o.Cache.Mark(id, q.now, false)
	}
	if len(q.marks) > 0 {
		q.p.sweepLater()
	}
}

func (q *request) releaseLocks() {
	t := q.p.locks
	for i := range q.released {
		r := &q.released[i]
		if r.status == kv.Committed || r.status == kv.Aborted {
			t.ReleaseSpan(r.span, r.txn.ID)
		} else {
			t.MovedSpan(r.span, r.txn.ID, r.txn.WriteTimestamp)
		}
	}
}
