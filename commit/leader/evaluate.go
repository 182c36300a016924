package leader

import (
	"bytes"

	"meridian/clock"
	"meridian/keys"
	"meridian/kv"
	"meridian/replica"
	"meridian/storage/mvcc"
)

// Evaluation of a batch that writes or locks, under its latches.

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
			// A later snapshot does not help a write whose statement saw something else (kv.PutRequest.Seen).
			if q.mayForward() && round < maxRounds && q.readAt().LessEq(e.Actual) {
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
	q.noLocks = q.p.noEntries()
	e := q.p.o.Engine
	if q.locking && q.writes == 0 && !q.record && q.end == nil {
		// Nothing will be written: locks are in memory.
		q.batch = e.NewBatch()
		q.w = q.p.o.writer(e, q.batch)
		q.w.Log, q.w.Table = q, &q.p.held
		return
	}
	if q.independent(onePhase) {
		q.batch = e.NewBatch()
		q.w = q.p.o.writer(e, q.batch)
		q.w.Log, q.w.Table = q, &q.p.held
		return
	}
	q.noLocks = false // the batch's own
	q.batch = e.NewIndexedBatch()
	q.w = q.p.o.writer(q.batch, q.batch)
	q.w.Log, q.w.Table = q, batchTable{q}
}

// independent reports whether no request of the batch touches what an earlier one wrote.
func (q *request) independent(onePhase bool) bool {
	if q.end != nil && (q.end.Trigger != nil || q.writes > 0 && !onePhase && len(q.elsewhere(q.end)) == 0) {
		return false // else it stages: no intent of the batch is resolved in it
	}
	if q.writes+len(q.b.Requests) <= 2 && !q.record {
		return true // one write at most
	}
	if q.writes > 0 && (q.plain || q.locking || q.record) {
		return false
	}
	if q.record {
		return len(q.b.Requests) == 1 || q.apart()
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

// maxApart bounds the requests that are compared with each other; fewApart of them are compared one by one.
const maxApart, fewApart = 1024, 32

// apart reports whether a batch has only resolutions and record operations, of which no two touch the same lock or
// record. Many transactions' cleanups come together.
func (q *request) apart() bool {
	reqs := q.b.Requests
	if len(reqs) > maxApart || q.end != nil || q.writes > 0 || q.plain || q.locking {
		return false
	}
	type touched struct {
		key keys.Key // of a lock; nil: the record
		id  kv.TxnID
	}
	var inline [fewApart]touched
	seen := inline[:0]
	var last map[kv.TxnID]int // of a transaction's touches the last, and of each the one before
	var before []int
	if len(reqs) > fewApart {
		last, before = make(map[kv.TxnID]int, len(reqs)), make([]int, 0, len(reqs))
	}
	for _, r := range reqs {
		var t touched
		switch r := r.(type) {
		case *kv.ResolveIntentRequest:
			t = touched{r.Key, r.Txn.ID}
		case *kv.RecoverTxnRequest:
			t = touched{nil, r.Txn.ID}
		case *kv.GCRequest:
			if len(r.Keys) > 0 || len(r.Records) != 1 {
				return false
			}
			_, id, err := keys.DecodeTxnKey(r.Records[0])
			if err != nil {
				return false
			}
			t = touched{nil, id}
		default:
			return false
		}
		same := func(o *touched) bool {
			return o.id == t.id && (o.key == nil) == (t.key == nil) && bytes.Equal(o.key, t.key)
		}
		if last == nil {
			for i := range seen {
				if same(&seen[i]) {
					return false
				}
			}
		} else {
			i, ok := last[t.id]
			if !ok {
				i = -1
			}
			before = append(before, i)
			for last[t.id] = len(seen); i >= 0; i = before[i] {
				if same(&seen[i]) {
					return false
				}
			}
		}
		seen = append(seen, t)
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
	for i, r := range q.b.Requests {
		if r == kv.Request(q.end) {
			q.replayed()
		}
		before := 0
		if q.batch != nil {
			before = q.batch.Len()
		}
		one, err := q.evalOne(i, r, onePhase, note)
		if err != nil {
			return err
		}
		if q.batch != nil && q.batch.Len() > resolveBytes {
			if at := q.divided(i, before); at > 0 {
				return &tooMuchError{at}
			}
		}
		q.resp.Responses = append(q.resp.Responses, one)
	}
	if q.end == nil {
		q.replayed()
	}
	return nil
}

// replayed says where the intents are that the transaction had on the keys of its writes: no write is below the one that was
// there, and one that came a second time stays where it is. An answer, or a record, with an earlier timestamp would have
// a commit cover what is not there in time (CR4).
//
// It gives a batch of writes that came a second time the timestamp of what the first time wrote. Reads of these
// keys have passed it since, and found the intents where they are: saying that they are later would have the coordinator
// take a transaction for not committed whose writes are all in time (P8, CR4).
func (q *request) replayed() {
	if q.txn == nil {
		return
	}
	if q.txn.WriteTimestamp.Less(q.w.Own) {
		q.copyTxn().WriteTimestamp = q.w.Own
	}
	if q.w.Replays == 0 || q.w.Replays < q.writes || q.txn.ReadTimestamp != q.b.Txn.ReadTimestamp {
		return
	}
	q.p.o.Probes.Reached(probeReplayed)
	if at := q.b.Txn.WriteTimestamp.Forward(q.w.Own); at.Less(q.txn.WriteTimestamp) {
		q.copyTxn().WriteTimestamp = at
	}
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
	if q.end != nil && len(q.end.Held) > 0 {
		if err := q.checkHeld(); err != nil {
			return err
		}
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
	if low := q.p.low.Load().Forward(q.floor); at.Less(low) { // I6, P3
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

// evalOne evaluates one request, the i-th.
func (q *request) evalOne(i int, r kv.Request, onePhase, note bool) (kv.Response, error) {
	p, w := q.p, q.w
	switch r := r.(type) {
	case *kv.PutRequest:
		o := q.writeOptions(r.Seq, onePhase)
		o.Seen = r.Seen
		return empty, w.Put(r.Key, r.Value, &o)

	case *kv.CPutRequest:
		o := q.writeOptions(r.Seq, onePhase)
		return empty, w.CPut(r.Key, r.Value, r.Expected, &o)

	case *kv.DeleteRequest:
		o := q.writeOptions(r.Seq, onePhase)
		o.Seen = r.Seen
		_, err := w.Delete(r.Key, &o)
		return empty, err

	case *kv.AddRequest:
		if r.Draw && q.txn == nil && len(q.b.Requests) == 1 {
			return q.draw(r)
		}
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
		if r.Status == kv.Committed {
			p.writers.note(&r.Txn)
		}
		_, err := w.ResolveIntent(r.Key, &mvcc.Resolution{Txn: r.Txn, Status: r.Status, IgnoredSeqs: r.IgnoredSeqs,
			IntentsOnly: true, InPlace: i < len(q.inPlace) && q.inPlace[i]})
		q.released = append(q.released, released{point(r.Key), r.Txn, r.Status})
		return empty, err

	case *kv.ResolveRangeRequest:
		p.o.Clock.Forward(r.Txn.WriteTimestamp)
		span := keys.Span{Start: r.Start, End: r.End}
		if q.whole.Start != nil {
			span = q.whole
		}
		q.released = append(q.released, released{span, r.Txn, r.Status})
		resp := &kv.DeleteRangeResponse{Resume: q.rest}
		if q.noLocks {
			return resp, nil
		}
		if r.Status == kv.Committed {
			p.writers.note(&r.Txn)
		}
		_, left, err := w.ResolveRange(r.Start, r.End, &mvcc.Resolution{Txn: r.Txn, Status: r.Status,
			IgnoredSeqs: r.IgnoredSeqs, MaxBytes: resolveBytes}, 0)
		if left != nil { // P19
			end := span.End
			if q.rest != nil {
				end = q.rest.End
			}
			resp.Resume = &keys.Span{Start: left.Start, End: end}
			q.released[len(q.released)-1].span.End = left.Start
		}
		return resp, err

	case *kv.GCRequest:
		return q.gc(r)

	case *kv.LoadRequest:
		return q.load(r)

	case *kv.ClearRequest:
		n, resume, err := w.Clear(r.Start, r.End, r.Max)
		if q.p.r.GCThreshold().Less(r.Threshold) {
			q.cmd.GCThreshold = r.Threshold
		}
		return &kv.DeleteRangeResponse{Deleted: n, Resume: resume}, err
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

// load adds rows at the batch's timestamp, which may be in the past. A shared load must not change what somebody has
// read there (P1); otherwise nobody has (docs/decisions, bulk writes).
func (q *request) load(r *kv.LoadRequest) (kv.Response, error) {
	if q.b.Timestamp.IsZero() {
		return nil, &kv.InternalError{Message: "leader: a load without a timestamp"}
	}
	if t := q.p.r.GCThreshold(); !t.IsZero() && q.at.LessEq(t) {
		return nil, &kv.BelowGCError{Threshold: t}
	}
	var late func(keys.Key) bool
	if r.Mode == kv.LoadShared {
		low := q.p.low.Load().Forward(q.floor)
		late = func(k keys.Key) bool {
			at, _ := q.p.o.Cache.Max(k)
			return q.at.LessEq(at.Forward(low))
		}
	}
	q.p.o.Clock.Forward(q.at) // P4
	o := q.writeOptions(0, false)
	refused, err := q.w.Load(r.Rows, r.Mode, late, &o)
	return &kv.LoadResponse{Refused: refused}, err
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
