package leader

import (
	"meridian/clock"
	"meridian/keys"
	"meridian/kv"
	"meridian/storage/engine"
	"meridian/storage/mvcc"
)

// evaluation is the stage that computes what the batch does: its answer, an engine batch for the command, and the effects in memory.
// It changes no shared state but the timestamp cache and the clock, so it may be repeated (discard).
type evaluation struct {
	*call
	latching *latching
	locking  *locking
	effects  *effects

	noLocks    bool // there are no intents in the range
	w          *mvcc.Writer
	batch      *engine.Batch
	entries    entryChanges
	replicated replicated
	room       room
	resp       *kv.BatchResponse
	newest     clock.Timestamp // that reads have seen
	hasOwn     bool            // the transaction, which commits in one phase, has a record
	narrowed   narrowed
}

// replicated has the command's effects other than its engine batch.
type replicated struct {
	trigger     *kv.CommitTrigger
	delta       mvcc.Stats // of the trigger
	gcThreshold clock.Timestamp
}

// room is the rest of the limits of the batch's scans.
type room struct {
	keys, bytes int64
	answered    int64 // bytes of values in the answer, which has a limit of its own
}

// narrowed is a resolution of a span of which only the beginning is resolved.
type narrowed struct {
	whole keys.Span  // that beginning
	rest  *keys.Span // what is left
}

// evaluate evaluates the batch under its latches. Where the range may choose the timestamp, it moves it until the batch succeeds.
func (ev *evaluation) evaluate() error {
	onePhase := ev.end != nil && ev.end.OnePhase && ev.end.Commit && len(ev.end.InFlight) == 0
	if onePhase && !ev.distinct() {
		onePhase = false // a version can't be written twice
	}
	ev.catchUp()
	for round := 0; ; round++ {
		ev.discard()
		ev.replicated = replicated{}
		ev.open(onePhase)
		err := ev.evaluateAt(onePhase)
		switch e := err.(type) {
		case nil:
			early := ev.tooEarly()
			if !early.IsZero() && ev.mayForward() && round < maxRounds {
				ev.forward(early.Next())
				continue
			}
			if ev.b.Hold {
				ev.locking.early = early
			}
			return nil
		case *kv.WriteTooOldError:
			// A later snapshot does not help a write whose statement saw another version (kv.PutRequest.Seen).
			if ev.mayForward() && round < maxRounds && ev.readAt().LessEq(e.Actual) {
				ev.forward(e.Actual.Next())
				continue
			}
			ev.pushWrite(e.Actual.Next())
		case *kv.UncertaintyError:
			if ev.mayForward() && round < maxRounds {
				ev.forward(e.RetryAt)
				continue
			}
		case *kv.TxnRetryError:
			if ev.mayForward() && e.Reason == kv.RetrySerializable && round < maxRounds &&
				ev.readAt().Less(e.WriteTimestamp) && !ev.beyondDeadline(e.WriteTimestamp) {
				ev.forward(e.WriteTimestamp)
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

// catchUp moves a transaction that locks, and that has waited for its turn, to the present (leader.P26). It would read just above the last holder's version otherwise,
// which did so too: each turn of a long queue would be further behind the clock, in the end at closed timestamps, where no write can be made. Then the gateway
// has to refresh and to commit again, a round trip each, and the range closes more in the meantime: eight round trips with the lock held, instead of one.
func (ev *evaluation) catchUp() {
	if ev.locking.waited == 0 || ev.txn == nil || ev.writes > 0 || ev.end != nil || !ev.locks || !ev.mayForward() || !ev.readAt().Less(ev.now) {
		return
	}
	ev.forward(ev.now)
}

func (c *call) beyondDeadline(at clock.Timestamp) bool {
	return c.end != nil && !c.end.Deadline.IsZero() && c.end.Deadline.Less(at)
}

// open makes the evaluation's batch. It needs an index only if one of its requests has to see writes of another.
func (ev *evaluation) open(onePhase bool) {
	ev.noLocks = ev.p.noEntries()
	e := ev.p.o.Engine
	if ev.locks && ev.writes == 0 && !ev.record && ev.end == nil {
		// There will be no writes: locks are in memory.
		ev.batch = e.NewBatch()
		ev.w = ev.p.o.writer(e, ev.batch)
		ev.w.Log, ev.w.Table = &ev.entries, &ev.p.held
		ev.w.ReadDead(&ev.p.dead)
		return
	}
	if ev.independent(onePhase) {
		ev.batch = e.NewBatch()
		ev.w = ev.p.o.writer(e, ev.batch)
		ev.w.Log, ev.w.Table = &ev.entries, &ev.p.held
		return
	}
	ev.noLocks = false // the batch's own
	ev.batch = e.NewIndexedBatch()
	ev.w = ev.p.o.writer(ev.batch, ev.batch)
	ev.w.Log, ev.w.Table = &ev.entries, batchTable{ev}
}

// discard closes the evaluation's batch.
func (ev *evaluation) discard() {
	if ev.batch != nil {
		ev.newest = ev.w.Seen
		ev.p.o.putWriter(ev.w)
		ev.batch.Close()
		ev.w, ev.batch = nil, nil
	}
}

// evaluateAt evaluates the batch at the timestamps that it has now.
func (ev *evaluation) evaluateAt(onePhase bool) error {
	ev.begin()
	if err := ev.settleTimestamps(onePhase); err != nil {
		return err
	}
	note := ev.b.MaxKeys > 0 || ev.b.TargetBytes > 0
	for i, r := range ev.b.Requests {
		if r == kv.Request(ev.end) {
			ev.replayed()
		}
		before := 0
		if ev.batch != nil {
			before = ev.batch.Len()
		}
		one, err := ev.evalOne(i, r, onePhase, note)
		if err != nil {
			return err
		}
		if ev.batch != nil && ev.batch.Len() > resolveBytes {
			if at := ev.divided(i, before); at > 0 {
				return &tooMuchError{at}
			}
		}
		ev.resp.Responses = append(ev.resp.Responses, one)
	}
	if ev.end == nil {
		ev.replayed()
	}
	return nil
}

// replayed moves the batch's timestamp to the intents that the transaction already had on the keys of its writes: no write is below an
// existing one, and a repeated one stays at its timestamp. With an earlier timestamp in the answer, or in a record, a commit would count
// writes that are above it (commit.CR4).
//
// It gives a repeated batch of writes the timestamp of the first one's writes. Later reads of these keys have found the intents at their
// timestamps: with a later timestamp in the answer the coordinator would take a transaction for not committed though none of its writes is
// too late (leader.P8, commit.CR4).
func (ev *evaluation) replayed() {
	if ev.txn == nil {
		return
	}
	if ev.txn.WriteTimestamp.Less(ev.w.Own) {
		ev.copyTxn().WriteTimestamp = ev.w.Own
	}
	if ev.w.Replays == 0 || ev.w.Replays < ev.writes || ev.txn.ReadTimestamp != ev.b.Txn.ReadTimestamp {
		return
	}
	ev.p.o.Probes.Reached(probeReplayed)
	if at := ev.b.Txn.WriteTimestamp.Forward(ev.w.Own); at.Less(ev.txn.WriteTimestamp) {
		ev.copyTxn().WriteTimestamp = at
	}
}

// settleTimestamps enters the batch's reads into the timestamp cache, and moves its writes past the reads of others (leader.P1).
func (ev *evaluation) settleTimestamps(onePhase bool) error {
	for _, r := range ev.b.Requests {
		switch r := r.(type) {
		case *kv.PutRequest, *kv.CPutRequest, *kv.DeleteRequest, *kv.AddRequest:
			ev.pushPast(r.Span().Start)
		}
	}
	if ev.txn == nil {
		return nil
	}
	if onePhase {
		if err := ev.mayCommitInOnePhase(); err != nil {
			return err
		}
	}
	if ev.end != nil && len(ev.end.Held) > 0 {
		if err := ev.checkHeld(); err != nil {
			return err
		}
	}
	return nil
}

// pushPast moves the write timestamp past the reads of a key by others (leader.P1).
func (ev *evaluation) pushPast(k keys.Key) {
	at, owner := ev.p.o.Cache.Max(k)
	if low := ev.p.low.Load().Forward(ev.latching.floor); at.Less(low) { // I6, leader.P3
		at, owner = low, kv.TxnID{}
	}
	if ev.txn != nil {
		switch {
		case at.Less(ev.txn.WriteTimestamp):
		case owner != ev.txn.ID:
			ev.copyTxn().WriteTimestamp = at.Next()
		case ev.txn.WriteTimestamp.Less(at):
			// Its own read, at a later timestamp than it knows: the answer was lost. It hides the reads of others below it, and none at it
			// (tscache.T2).
			ev.copyTxn().WriteTimestamp = at
		}
		return
	}
	if ev.at.LessEq(at) && ev.b.Timestamp.IsZero() {
		ev.at = at.Next()
	}
}

func (ev *evaluation) writeOptions(seq kv.Seq, onePhase bool) mvcc.WriteOptions {
	return mvcc.WriteOptions{Txn: ev.txn, Seq: seq, OnePhase: onePhase, Timestamp: ev.at, LocalTimestamp: ev.now,
		NoLocks: ev.noLocks}
}

// evalOne evaluates one request, the i-th.
func (ev *evaluation) evalOne(i int, r kv.Request, onePhase, note bool) (kv.Response, error) {
	p, w := ev.p, ev.w
	switch r := r.(type) {
	case *kv.PutRequest:
		o := ev.writeOptions(r.Seq, onePhase)
		o.Seen = r.Seen
		return empty, w.Put(r.Key, r.Value, &o)

	case *kv.CPutRequest:
		o := ev.writeOptions(r.Seq, onePhase)
		return empty, w.CPut(r.Key, r.Value, r.Expected, &o)

	case *kv.DeleteRequest:
		o := ev.writeOptions(r.Seq, onePhase)
		o.Seen = r.Seen
		_, err := w.Delete(r.Key, &o)
		return empty, err

	case *kv.AddRequest:
		if r.Draw && ev.txn == nil && len(ev.b.Requests) == 1 {
			return ev.draw(r)
		}
		o := ev.writeOptions(r.Seq, onePhase)
		sum, err := w.Add(r.Key, r.Delta, &o)
		return &kv.AddResponse{Value: sum}, err

	case *kv.DeleteRangeRequest:
		return ev.deleteRange(r, onePhase)

	case *kv.EndTxnRequest:
		if onePhase {
			return ev.endOnePhase(r)
		}
		return ev.endTxn(r)

	case *kv.HeartbeatTxnRequest:
		return ev.heartbeat(r)

	case *kv.RecoverTxnRequest:
		return ev.recoverTxn(r)

	case *kv.QueryIntentRequest:
		return ev.queryIntent(r)

	case *kv.ResolveIntentRequest:
		if ev.noLocks {
			ev.effects.released = append(ev.effects.released, released{point(r.Key), r.Txn, r.Status})
			return empty, nil
		}
		if r.Status == kv.Committed {
			p.writers.note(&r.Txn)
		}
		_, err := w.ResolveIntent(r.Key, &mvcc.Resolution{Txn: r.Txn, Status: r.Status, IgnoredSeqs: r.IgnoredSeqs,
			IntentsOnly: true, InPlace: i < len(ev.latching.inPlace) && ev.latching.inPlace[i]})
		ev.effects.released = append(ev.effects.released, released{point(r.Key), r.Txn, r.Status})
		return empty, err

	case *kv.ResolveRangeRequest:
		span := keys.Span{Start: r.Start, End: r.End}
		if ev.narrowed.whole.Start != nil {
			span = ev.narrowed.whole
		}
		ev.effects.released = append(ev.effects.released, released{span, r.Txn, r.Status})
		resp := &kv.DeleteRangeResponse{Resume: ev.narrowed.rest}
		if ev.noLocks {
			return resp, nil
		}
		if r.Status == kv.Committed {
			p.writers.note(&r.Txn)
		}
		_, left, err := w.ResolveRange(r.Start, r.End, &mvcc.Resolution{Txn: r.Txn, Status: r.Status,
			IgnoredSeqs: r.IgnoredSeqs, MaxBytes: resolveBytes}, 0)
		if left != nil { // leader.P19
			end := span.End
			if ev.narrowed.rest != nil {
				end = ev.narrowed.rest.End
			}
			resp.Resume = &keys.Span{Start: left.Start, End: end}
			ev.effects.released[len(ev.effects.released)-1].span.End = left.Start
		}
		return resp, err

	case *kv.GCRequest:
		return ev.gc(r)

	case *kv.LoadRequest:
		return ev.load(r)

	case *kv.ClearRequest:
		n, resume, err := w.Clear(r.Start, r.End, r.Max)
		if ev.p.r.GCThreshold().Less(r.Threshold) {
			ev.replicated.gcThreshold = r.Threshold
		}
		return &kv.DeleteRangeResponse{Deleted: n, Resume: resume}, err
	}
	if ev.choice.leavesOut(i) {
		return ev.choice.answer(i, r), nil
	}
	// Reads. A scan with a limit is entered into the timestamp cache as far as it came, other reads as a whole; all are latched, so they
	// are entered before any write that they could miss.
	if _, scan := r.(*kv.ScanRequest); !note || !scan {
		if !notMVCC(r) {
			p.o.Cache.AddSpan(r.Span(), ev.readAt(), ev.txnID())
		}
	}
	one, err := ev.evalRead(&w.Reader, r, note)
	if err == nil && !notMVCC(r) {
		if t := p.r.GCThreshold(); !t.IsZero() && ev.readAt().LessEq(t) {
			return nil, &kv.BelowGCError{Threshold: t}
		}
	}
	return one, err
}

var empty = &kv.EmptyResponse{}

// deleteRange removes the keys of a span that have values. The keys are found first, so that only reads of these
// push the write: a read that found nothing is not changed by removing nothing.
func (ev *evaluation) deleteRange(r *kv.DeleteRangeRequest, onePhase bool) (kv.Response, error) {
	if ev.exhausted() {
		return &kv.DeleteRangeResponse{Resume: &keys.Span{Start: r.Start, End: r.End}}, nil
	}
	o := mvcc.ScanOptions{ReadOptions: ev.readOptions(kv.Exclusive), MaxKeys: ev.room.keys}
	o.ReadSeq = r.Seq
	res, err := ev.w.Scan(r.Start, r.End, &o)
	if err != nil {
		return nil, err
	}
	before := ev.writeAt()
	for i := range res.Rows {
		ev.pushPast(res.Rows[i].Key)
	}
	if onePhase && before.Less(ev.writeAt()) {
		return nil, &kv.TxnRetryError{Reason: kv.RetrySerializable, WriteTimestamp: ev.writeAt()}
	}
	if s := readPart(keys.Span{Start: r.Start, End: r.End}, res.Resume, false); s.Start.Less(s.End) {
		ev.p.o.Cache.AddSpan(s, ev.readAt(), ev.txnID())
	}
	for i := range res.Rows {
		wo := ev.writeOptions(r.Seq, onePhase)
		if _, err := ev.w.Delete(res.Rows[i].Key, &wo); err != nil {
			return nil, err
		}
	}
	ev.spend(int64(len(res.Rows)), 0)
	return &kv.DeleteRangeResponse{Deleted: int64(len(res.Rows)), Resume: res.Resume}, nil
}

func (ev *evaluation) gc(r *kv.GCRequest) (kv.Response, error) {
	if err := ev.w.GC(r.Keys, r.Threshold); err != nil {
		return nil, err
	}
	for _, k := range r.Records {
		_, id, err := keys.DecodeTxnKey(k)
		if err != nil {
			return nil, err
		}
		if err := ev.removeRecord(k, id); err != nil {
			return nil, err
		}
	}
	if ev.p.r.GCThreshold().Less(r.Threshold) {
		ev.replicated.gcThreshold = r.Threshold
	}
	return empty, nil
}

// begin starts an evaluation.
func (ev *evaluation) begin() {
	if n := len(ev.b.Requests); n <= len(smallAnswer{}.slots) {
		a := &smallAnswer{}
		a.resp.Responses = a.slots[:0]
		ev.resp = &a.resp
	} else {
		ev.resp = &kv.BatchResponse{Responses: make([]kv.Response, 0, n)}
	}
	ev.room = room{keys: ev.b.MaxKeys, bytes: ev.b.TargetBytes}
	ev.effects.reset()
	ev.entries.reset()
}
