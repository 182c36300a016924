package leader

import (
	"bytes"
	"context"

	"meridian/clock"
	"meridian/commit/leader/latch"
	"meridian/commit/leader/lock"
	"meridian/keys"
	"meridian/kv"
	"meridian/replica"
	"meridian/storage/mvcc"
)

// sendWrite takes a batch that changes or locks something through its life (doc.go): lease, latches, locks,
// evaluation, replication, effects in memory.
func (q *request) sendWrite(ctx context.Context) error {
	p := q.p
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
			return nil
		}
		if err := q.blocked(ctx); err != nil {
			return err
		}
	}
}

// attempt goes once from latches to effects. With again, the batch has to wait for a lock first.
func (q *request) attempt(ctx context.Context) (again bool, err error) {
	p := q.p
	if q.end != nil && q.b.Requests[len(q.b.Requests)-1] != kv.Request(q.end) {
		return false, &kv.InternalError{Message: "leader: EndTxn has to be the last of its batch"}
	}
	q.declare()
	if q.held, err = p.latches.Acquire(ctx, q.latches); err != nil {
		return false, err
	}
	if q.held.Waited() {
		p.o.Metrics.LatchWaits.Add(1)
	}
	keep := false // somebody else releases the latches
	defer func() {
		if !keep {
			p.latches.Release(q.held)
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
	if (q.writes > 0 || q.locking) && p.locks.Len() > 0 {
		q.guardSpans()
		if len(q.guard.Spans) > 0 {
			q.guard.ReadAt = q.readAt()
			if q.b.WaitPolicy == kv.NoWait {
				if w, waits := p.locks.Probe(&q.guard, q.guard.Spans); waits && !w.Read {
					return false, q.notAvailable(w)
				}
			}
			if _, waits := p.locks.Scan(&q.guard); waits {
				return true, nil
			}
		}
	}
	err = q.evaluate()
	if e, conflict := err.(*mvcc.LockConflictError); conflict {
		q.discard()
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
	if err != nil {
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
		q.cmd.LeaseSequence, q.cmd.Batch, q.cmd.Delta = q.lease, q.batch.Repr(), add(q.cmd.Delta, q.w.Stats)
		if ctx.Done() != nil {
			q.cmd.Settled = q.settle
		}
		err = p.r.Propose(ctx, &q.cmd)
		if _, ambiguous := err.(*kv.AmbiguousError); ambiguous {
			keep = ctx.Done() != nil
			q.unknown = keep
			q.discard()
			return false, err
		}
	}
	q.discard()
	if err != nil {
		return false, err
	}
	q.effects()
	return false, nil
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
	for _, r := range b.Requests {
		s := r.Span()
		switch r := r.(type) {
		case *kv.GetRequest:
			ls = append(ls, lockingLatch(s, r.Lock, q.readAt()))
		case *kv.ScanRequest:
			ls = append(ls, lockingLatch(s, r.Lock, q.readAt()))
		case *kv.RefreshRequest, *kv.RefreshRangeRequest:
			ls = append(ls, latch.Latch{Span: s, Mode: latch.Read, At: q.readAt()})
		case *kv.PutRequest, *kv.CPutRequest, *kv.DeleteRequest, *kv.DeleteRangeRequest, *kv.AddRequest:
			write(s, q.writeAt())
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
						write(s, q.minAt())
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
			write(s, r.Txn.MinTimestamp)
		case *kv.ResolveRangeRequest:
			write(s, r.Txn.MinTimestamp)
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
func lockingLatch(s keys.Span, strength kv.LockStrength, at clock.Timestamp) latch.Latch {
	if strength == kv.NoLock {
		return latch.Latch{Span: s, Mode: latch.Read, At: at}
	}
	return latch.Latch{Span: s, Mode: latch.Write, At: clock.MaxTimestamp}
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

// evaluate evaluates the batch under its latches. Where the range may choose the timestamp, it goes on choosing
// until the batch fits.
func (q *request) evaluate() error {
	onePhase := q.end != nil && q.end.OnePhase && q.end.Commit && len(q.end.InFlight) == 0
	if onePhase && !q.distinct() {
		onePhase = false // a version can't be written twice
	}
	for round := 0; ; round++ {
		q.discard()
		q.cmd = replica.Command{}
		q.open(onePhase)
		err := q.evaluateAt(onePhase)
		switch e := err.(type) {
		case nil:
			return nil
		case *kv.WriteTooOldError:
			if q.mayForward() && round < maxRounds {
				q.forward(e.Actual.Next())
				continue
			}
			q.pushWrite(e.Actual.Next())
		case *kv.UncertaintyError:
			if q.mayForward() && round < maxRounds {
				q.forward(e.RetryAt)
				continue
			}
		case *kv.TxnRetryError:
			if q.mayForward() && e.Reason == kv.RetrySerializable && round < maxRounds &&
				q.readAt().Less(e.WriteTimestamp) && !q.beyondDeadline(e.WriteTimestamp) {
				q.forward(e.WriteTimestamp)
				continue
			}
		}
		if err == mvcc.ErrNotOnePhase && onePhase {
			// An earlier attempt left an intent here: write ordinary ones, and resolve them with the commit.
			onePhase = false
			continue
		}
		return err
	}
}

func (q *request) beyondDeadline(at clock.Timestamp) bool {
	return q.end != nil && !q.end.Deadline.IsZero() && q.end.Deadline.Less(at)
}

// open makes the evaluation's batch. It needs an index only if one of its requests has to see what another wrote.
func (q *request) open(onePhase bool) {
	q.noLocks = q.p.r.Stats().IntentCount == 0
	e := q.p.o.Engine
	if q.locking && q.writes == 0 && !q.record && q.end == nil {
		// Nothing will be written: locks are in memory.
		q.batch = e.NewBatch()
		q.w = q.p.o.writer(e, q.batch)
		return
	}
	if q.independent(onePhase) {
		q.batch = e.NewBatch()
		q.w = q.p.o.writer(e, q.batch)
		return
	}
	q.noLocks = false // the batch's own
	q.batch = e.NewIndexedBatch()
	q.w = q.p.o.writer(q.batch, q.batch)
}

// independent reports whether no request of the batch touches what an earlier one wrote.
func (q *request) independent(onePhase bool) bool {
	if q.end != nil && (q.end.Trigger != nil || q.writes > 0 && !onePhase) {
		return false
	}
	if q.writes+len(q.b.Requests) <= 2 && !q.record {
		return true // one write at most
	}
	if q.writes > 0 && (q.plain || q.locking || q.record) {
		return false
	}
	if q.record {
		return len(q.b.Requests) == 1
	}
	var last keys.Key
	for _, r := range q.b.Requests {
		if r == kv.Request(q.end) {
			continue
		}
		if r.Method() == kv.MethodDeleteRange && q.writes > 1 {
			return false
		}
		k := r.Span().Start
		if last != nil && bytes.Compare(last, k) >= 0 {
			return q.distinct()
		}
		last = k
	}
	return true
}

// smallBatch is up to where comparing all pairs of keys is cheaper than a map.
const smallBatch = 16

// distinct reports whether no two requests of the batch share a key.
func (q *request) distinct() bool {
	reqs := q.b.Requests
	if q.end != nil {
		reqs = reqs[:len(reqs)-1]
	}
	for i, a := range reqs {
		if s := a.Span(); !s.Point() {
			for j, b := range reqs {
				if i != j && s.Overlaps(b.Span()) {
					return false
				}
			}
		}
	}
	sorted := true
	for i := 1; i < len(reqs) && sorted; i++ {
		sorted = bytes.Compare(reqs[i-1].Span().Start, reqs[i].Span().Start) < 0
	}
	if sorted {
		return true
	}
	if len(reqs) <= smallBatch {
		for i, a := range reqs {
			for _, b := range reqs[:i] {
				if bytes.Equal(a.Span().Start, b.Span().Start) {
					return false
				}
			}
		}
		return true
	}
	seen := make(map[string]bool, len(reqs))
	for _, r := range reqs {
		if k := string(r.Span().Start); seen[k] {
			return false
		} else {
			seen[k] = true
		}
	}
	return true
}

// evaluateAt evaluates the batch at the timestamps that q has now.
func (q *request) evaluateAt(onePhase bool) error {
	q.begin()
	if err := q.settleTimestamps(onePhase); err != nil {
		return err
	}
	note := q.b.MaxKeys > 0 || q.b.TargetBytes > 0
	for _, r := range q.b.Requests {
		one, err := q.evalOne(r, onePhase, note)
		if err != nil {
			return err
		}
		q.resp.Responses = append(q.resp.Responses, one)
	}
	return nil
}

// settleTimestamps announces the batch's reads, and moves its writes past the reads of others (P1).
func (q *request) settleTimestamps(onePhase bool) error {
	for _, r := range q.b.Requests {
		switch r := r.(type) {
		case *kv.PutRequest, *kv.CPutRequest, *kv.DeleteRequest, *kv.AddRequest:
			q.pushPast(r.Span().Start)
		}
	}
	if q.writes > 0 && (q.txn != nil || q.b.Timestamp.IsZero()) {
		q.p.o.Clock.Forward(q.writeAt()) // P4
	}
	if q.txn == nil {
		return nil
	}
	if onePhase {
		if err := q.mayCommitInOnePhase(); err != nil {
			return err
		}
	}
	return nil
}

// pushPast moves the write timestamp past the reads of a key by others (P1).
func (q *request) pushPast(k keys.Key) {
	at, owner := q.p.o.Cache.Max(k)
	if low := *q.p.low.Load(); at.Less(low) {
		at, owner = low, kv.TxnID{}
	}
	if q.txn != nil {
		switch {
		case at.Less(q.txn.WriteTimestamp):
		case owner != q.txn.ID:
			q.copyTxn().WriteTimestamp = at.Next()
		case q.txn.WriteTimestamp.Less(at):
			// Its own read, at a timestamp that it does not know it has come to: the answer was lost. It hides the
			// reads of others below it, and none at it (T2).
			q.copyTxn().WriteTimestamp = at
		}
		return
	}
	if q.at.LessEq(at) && q.b.Timestamp.IsZero() {
		q.at = at.Next()
	}
}

func (q *request) writeOptions(seq kv.Seq, onePhase bool) mvcc.WriteOptions {
	return mvcc.WriteOptions{Txn: q.txn, Seq: seq, OnePhase: onePhase, Timestamp: q.at, LocalTimestamp: q.now,
		NoLocks: q.noLocks}
}

// evalOne evaluates one request.
func (q *request) evalOne(r kv.Request, onePhase, note bool) (kv.Response, error) {
	p, w := q.p, q.w
	switch r := r.(type) {
	case *kv.PutRequest:
		o := q.writeOptions(r.Seq, onePhase)
		return empty, w.Put(r.Key, r.Value, &o)

	case *kv.CPutRequest:
		o := q.writeOptions(r.Seq, onePhase)
		return empty, w.CPut(r.Key, r.Value, r.Expected, &o)

	case *kv.DeleteRequest:
		o := q.writeOptions(r.Seq, onePhase)
		_, err := w.Delete(r.Key, &o)
		return empty, err

	case *kv.AddRequest:
		o := q.writeOptions(r.Seq, onePhase)
		sum, err := w.Add(r.Key, r.Delta, &o)
		return &kv.AddResponse{Value: sum}, err

	case *kv.DeleteRangeRequest:
		return q.deleteRange(r, onePhase)

	case *kv.EndTxnRequest:
		if onePhase {
			return q.endOnePhase(r)
		}
		return q.endTxn(r)

	case *kv.HeartbeatTxnRequest:
		return q.heartbeat(r)

	case *kv.RecoverTxnRequest:
		return q.recoverTxn(r)

	case *kv.QueryIntentRequest:
		return q.queryIntent(r)

	case *kv.ResolveIntentRequest:
		p.o.Clock.Forward(r.Txn.WriteTimestamp)
		if q.noLocks {
			q.released = append(q.released, released{point(r.Key), r.Txn, r.Status})
			return empty, nil
		}
		_, err := w.ResolveIntent(r.Key, &mvcc.Resolution{Txn: r.Txn, Status: r.Status, IgnoredSeqs: r.IgnoredSeqs})
		q.released = append(q.released, released{point(r.Key), r.Txn, r.Status})
		return empty, err

	case *kv.ResolveRangeRequest:
		p.o.Clock.Forward(r.Txn.WriteTimestamp)
		q.released = append(q.released, released{keys.Span{Start: r.Start, End: r.End}, r.Txn, r.Status})
		if q.noLocks {
			return empty, nil
		}
		_, _, err := w.ResolveRange(r.Start, r.End, &mvcc.Resolution{Txn: r.Txn, Status: r.Status,
			IgnoredSeqs: r.IgnoredSeqs}, 0)
		return empty, err

	case *kv.GCRequest:
		return q.gc(r)
	}
	// Reads. A scan with a limit is announced as far as it came, everything else as a whole; all are latched, so
	// announcing them here comes before any write that they could miss.
	if _, scan := r.(*kv.ScanRequest); !note || !scan {
		if !notMVCC(r) {
			p.o.Cache.AddSpan(r.Span(), q.readAt(), q.txnID())
		}
	}
	one, err := q.evalRead(&w.Reader, r, note)
	if err == nil && !notMVCC(r) {
		if t := p.r.GCThreshold(); !t.IsZero() && q.readAt().LessEq(t) {
			return nil, &kv.BelowGCError{Threshold: t}
		}
	}
	return one, err
}

var empty = &kv.EmptyResponse{}

// deleteRange removes the keys of a span that have values. The keys are found first, so that only reads of these
// push the write: a read that found nothing is not changed by removing nothing.
func (q *request) deleteRange(r *kv.DeleteRangeRequest, onePhase bool) (kv.Response, error) {
	if q.exhausted() {
		return &kv.DeleteRangeResponse{Resume: &keys.Span{Start: r.Start, End: r.End}}, nil
	}
	o := mvcc.ScanOptions{ReadOptions: q.readOptions(kv.Exclusive), MaxKeys: q.keysLeft}
	o.ReadSeq = r.Seq
	res, err := q.w.Scan(r.Start, r.End, &o)
	if err != nil {
		return nil, err
	}
	before := q.writeAt()
	for i := range res.Rows {
		q.pushPast(res.Rows[i].Key)
	}
	if before.Less(q.writeAt()) {
		q.p.o.Clock.Forward(q.writeAt())
		if onePhase {
			return nil, &kv.TxnRetryError{Reason: kv.RetrySerializable, WriteTimestamp: q.writeAt()}
		}
	}
	if s := readPart(keys.Span{Start: r.Start, End: r.End}, res.Resume, false); s.Start.Less(s.End) {
		q.p.o.Cache.AddSpan(s, q.readAt(), q.txnID())
	}
	for i := range res.Rows {
		wo := q.writeOptions(r.Seq, onePhase)
		if _, err := q.w.Delete(res.Rows[i].Key, &wo); err != nil {
			return nil, err
		}
	}
	q.spend(int64(len(res.Rows)), 0)
	return &kv.DeleteRangeResponse{Deleted: int64(len(res.Rows)), Resume: res.Resume}, nil
}

func (q *request) gc(r *kv.GCRequest) (kv.Response, error) {
	if err := q.w.GC(r.Keys, r.Threshold); err != nil {
		return nil, err
	}
	for _, k := range r.Records {
		_, id, err := keys.DecodeTxnKey(k)
		if err != nil {
			return nil, err
		}
		if err := q.removeRecord(k, id); err != nil {
			return nil, err
		}
	}
	if q.p.r.GCThreshold().Less(r.Threshold) {
		q.cmd.GCThreshold = r.Threshold
	}
	return empty, nil
}

// effects are what the applied batch means to what is kept in memory. Latches are still held.
func (q *request) effects() {
	t := q.p.locks
	if q.txn != nil {
		for _, a := range q.acquired {
			t.Acquire(&q.guard, a.key, &q.txn.TxnMeta, a.strength)
		}
	}
	q.releaseLocks()
	q.mark()
	for _, r := range q.records {
		q.p.waits.changed(r)
	}
	if n := len(q.resp.Responses); q.end != nil && n > 0 {
		if e, ok := q.resp.Responses[n-1].(*kv.EndTxnResponse); ok && e.OnePhase {
			q.p.o.Metrics.OnePhaseCommits.Add(1)
			q.p.o.Cache.Mark(q.txn.ID, q.txn.WriteTimestamp, true) // P5
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
		switch {
		case r.status == kv.Committed || r.status == kv.Aborted:
			t.ReleaseSpan(r.span, r.txn.ID)
		case r.span.Point():
			t.Moved(r.span.Start, r.txn.ID, r.txn.WriteTimestamp)
		}
	}
}
