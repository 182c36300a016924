package leader

import (
	"context"
	"sync/atomic"
	"time"

	"meridian/clock"
	"meridian/commit"
	"meridian/commit/leader/latch"
	"meridian/commit/leader/lock"
	"meridian/keys"
	"meridian/kv"
	"meridian/replica"
	"meridian/replica/closedts"
	"meridian/storage/engine"
	"meridian/storage/mvcc"
)

// traits are what a batch's requests are, as far as its way depends on it.
type traits struct {
	writes  int  // requests that may change replicated data, but for record operations
	plain   bool // there are reads without locks
	locking bool // there are reads with locks
	record  bool // there are operations on records or intents
	admin   bool
	bulk    bool // it is a load or a clearing, which has to be alone
	push    *kv.PushTxnRequest
	subsume *kv.SubsumeRequest
	end     *kv.EndTxnRequest
}

func traitsOf(b *kv.Batch) (t traits) {
	for _, r := range b.Requests {
		switch r := r.(type) {
		case *kv.GetRequest:
			if r.Lock == kv.NoLock {
				t.plain = true
			} else {
				t.locking = true
			}
		case *kv.ScanRequest:
			if r.Lock == kv.NoLock {
				t.plain = true
			} else {
				t.locking = true
			}
		case *kv.RefreshRequest, *kv.RefreshRangeRequest, *kv.RangeInfoRequest, *kv.QueryTxnRequest, *kv.CheckLocksRequest:
			t.plain = true
		case *kv.EndTxnRequest:
			t.end = r
		case *kv.PushTxnRequest:
			t.push = r
		case *kv.SubsumeRequest:
			t.subsume = r
		case *kv.HeartbeatTxnRequest, *kv.QueryIntentRequest, *kv.RecoverTxnRequest, *kv.ResolveIntentRequest,
			*kv.ResolveRangeRequest, *kv.GCRequest:
			t.record = true
		case *kv.PutRequest, *kv.CPutRequest, *kv.DeleteRequest, *kv.DeleteRangeRequest, *kv.AddRequest:
			t.writes++
		case *kv.LoadRequest, *kv.ClearRequest:
			t.writes++
			t.bulk = true
		default:
			t.admin = true
		}
	}
	return t
}

// request is one batch on its way.
type request struct {
	p *Participant
	b *kv.Batch
	traits
	unsettled []mvcc.Intent // in the span that is to be cleared (P18)
	// txn is the batch's transaction; a copy once its timestamps were moved here.
	txn   *kv.Txn
	moved bool
	now   clock.Timestamp // this node's clock, at the last evaluation
	first clock.Timestamp // and at the first: later ones would widen what is uncertain
	// at is where a batch without a transaction reads and writes.
	at      clock.Timestamp
	visible clock.Timestamp // up to where plain reads look for intents
	noLocks bool            // there are no intents in the range

	// starts is set if the batch is started only (flight.go): it must not wait. pend is its command then.
	starts starter
	lazy   bool
	pend   *replica.Pending
	tracks bool // the closed timestamp waits for tracked
	// waited is for how long the request has waited for locks.
	waited time.Duration
	// laid and dropped are what the evaluation does to the lock table; held at its generation knows, if flies.
	laid, dropped []change
	inlineLd      [2]change
	heldAt        uint64
	flies         bool

	lease   uint64
	tracked closedts.Token  // in the range's tracker, while the batch writes
	floor   clock.Timestamp // closed when it was tracked: writes move above it
	latches []latch.Latch
	held    *latch.Guard
	inline  [4]latch.Latch

	guard    lock.Guard
	guarded  bool // the guard's spans are set
	inlineSp [4]lock.Span
	discards int // intents that were gone before they could be waited for

	keysLeft, bytesLeft int64
	// answered is how many bytes of values the answer has.
	answered int64

	resp  *kv.BatchResponse
	w     *mvcc.Writer
	batch *engine.Batch
	cmd   replica.Command
	// effects in memory once the command is applied
	acquired  []acquired
	lockedAt  clock.Timestamp  // of a batch with Header.Hold
	records   []*commit.Record // changed
	finalized *commit.Record   // ended, and has left intents here
	hasOwn    bool             // the transaction, which commits in one phase, has a record
	released  []released
	marks     []kv.TxnID // whose record was written
	drawing   *drawing   // numbers were drawn
	settled   atomic.Bool
	unknown   bool       // a proposal's outcome: settle will be called
	inPlace   []bool     // of each resolution: others go on meanwhile (inplace.go)
	exclusive bool       // none is in place
	rest      *keys.Span // of a span of which only the beginning is resolved
	whole     keys.Span  // that beginning
}

// smallAnswer is a response to a few requests, in one piece.
type smallAnswer struct {
	resp  kv.BatchResponse
	slots [4]kv.Response
}

type acquired struct {
	key      keys.Key
	strength kv.LockStrength
}

type released struct {
	span   keys.Span
	txn    kv.TxnMeta
	status kv.Status
}

// serve is Send for a range that is not frozen.
func (p *Participant) serve(ctx context.Context, b *kv.Batch) (*kv.BatchResponse, error) {
	if err := p.closedTo(b); err != nil {
		return nil, err
	}
	if !b.Now.IsZero() && b.Gateway != p.r.NodeID() {
		if err := p.o.Clock.Update(b.Now); err != nil {
			return nil, &kv.UnavailableError{Reason: err.Error()}
		}
	}
	if b.Consistency == kv.Stale {
		if _, ok := p.r.CheckLease(staleAt(b)); !ok {
			return p.follow(b)
		}
	}
	if len(b.Requests) == 1 && b.Consistency != kv.Inconsistent {
		if get, ok := b.Requests[0].(*kv.GetRequest); ok && get.Lock == kv.NoLock {
			if resp, err := p.get(ctx, b, get); err != errAgain {
				return resp, err
			}
		}
	}
	if r, ok := b.Requests[0].(*kv.QueryTxnRequest); ok && r.Known != 0 {
		if err := p.awaitNews(ctx, r); err != nil {
			return nil, err
		}
	}
	if _, ok := b.Requests[0].(*kv.ReleaseRequest); ok {
		return p.hear(ctx, b)
	}
	q := p.o.request(p, b)
	q.traits = traitsOf(b)
	resp, err := q.send(ctx)
	p.locks.Finish(&q.guard)
	p.o.putRequest(q)
	return resp, err
}

func (q *request) send(ctx context.Context) (*kv.BatchResponse, error) {
	p := q.p
	var err error
	switch {
	case q.admin:
		return nil, &kv.InternalError{Message: "leader: the range's participant does not carry out admin requests"}
	case q.bulk && (len(q.b.Requests) != 1 || q.txn != nil):
		return nil, &kv.InternalError{Message: "leader: a load has to be a batch of its own"}
	case q.push != nil:
		return q.sendPush(ctx)
	case q.subsume != nil:
		return q.sendSubsume(ctx)
	case q.writes == 0 && !q.locking && !q.record && q.end == nil:
		p.o.Metrics.Reads.Add(1)
		err = q.sendRead(ctx)
	default:
		p.o.Metrics.Writes.Add(1)
		err = q.sendWrite(ctx)
	}
	return q.answer(err), err
}

// answer completes the response, also of a failed batch, which still brings the transaction back.
func (q *request) answer(err error) *kv.BatchResponse {
	if err != nil {
		q.countRetry(err)
		if q.txn == nil {
			return nil
		}
		return &kv.BatchResponse{Txn: q.txn, Now: q.now, Waited: q.waitedFor()}
	}
	q.resp.Txn, q.resp.Now, q.resp.LockedAt, q.resp.Waited = q.txn, q.now, q.lockedAt, q.waitedFor()
	if q.txn == nil {
		q.resp.Timestamp = q.at
	}
	if q.b.Trace {
		q.resp.Served = append(q.resp.Served, kv.Served{Range: q.p.r.RangeID(), Node: q.p.r.NodeID()})
	}
	return q.resp
}

// waitedFor is what the gateway is told of waits for locks, if it is another node: its gate has not seen them.
func (q *request) waitedFor() time.Duration {
	if q.b.Gateway == q.p.r.NodeID() {
		return 0
	}
	return q.waited
}

func (q *request) countRetry(err error) {
	m := q.p.o.Metrics
	q.p.writers.name(err)
	switch err.(type) {
	case *kv.TxnRetryError:
		m.RetriesSerialize.Add(1)
	case *kv.WriteTooOldError:
		m.RetriesWriteTooOld.Add(1)
	case *kv.UncertaintyError:
		m.RetriesUncertain.Add(1)
	}
}

// copyTxn makes q.txn writable.
func (q *request) copyTxn() *kv.Txn {
	if !q.moved {
		c := *q.txn
		q.txn, q.moved = &c, true
	}
	return q.txn
}

// push moves the write timestamp forward.
func (q *request) pushWrite(to clock.Timestamp) {
	if q.txn == nil {
		q.at = q.at.Forward(to)
	} else if q.txn.WriteTimestamp.Less(to) {
		q.copyTxn().WriteTimestamp = to
	}
}

// mayForward reports whether the range may move the read timestamp (P13).
//
// Writes of a transaction that is older than the lease may be a late copy of what another leaseholder has served, when the
// gateway sent them again. Then the newer version that they meet may be their own, and past it they would be done a second
// time. Under this lease the mark of a commit tells (P5).
func (q *request) mayForward() bool {
	if q.txn == nil {
		return q.b.Timestamp.IsZero()
	}
	return q.b.CanForwardRead && (q.writes == 0 || q.p.low.Load().Less(q.txn.MinTimestamp))
}

// forward moves read and write timestamp, instead of answering with a retry error.
func (q *request) forward(to clock.Timestamp) {
	q.p.o.Metrics.Forwarded.Add(1)
	if q.txn == nil {
		q.at = q.at.Forward(to)
		return
	}
	t := q.copyTxn()
	t.ReadTimestamp = t.ReadTimestamp.Forward(to)
	t.WriteTimestamp = t.WriteTimestamp.Forward(to)
}

func (q *request) readAt() clock.Timestamp {
	if q.txn != nil {
		return q.txn.ReadTimestamp
	}
	return q.at
}

func (q *request) writeAt() clock.Timestamp {
	if q.txn != nil {
		return q.txn.WriteTimestamp
	}
	return q.at
}

func (q *request) txnID() kv.TxnID {
	if q.txn == nil {
		return kv.TxnID{}
	}
	return q.txn.ID
}

// clockIn reads the node's clock, and gives a batch without a transaction its timestamp.
func (q *request) clockIn() {
	q.now = q.p.o.Clock.Now()
	if q.first.IsZero() {
		q.first = q.now
	}
	if q.txn == nil && q.at.IsZero() {
		if q.at = q.b.Timestamp; q.at.IsZero() {
			q.at = q.now
		}
	}
}

// uncertainty is the interval in which the batch's plain reads can't tell what was before them.
func (p *Participant) uncertainty(b *kv.Batch, t *kv.Txn, now clock.Timestamp) mvcc.Uncertainty {
	if t == nil {
		if !b.Timestamp.IsZero() {
			return mvcc.Uncertainty{}
		}
		return mvcc.Uncertainty{Global: now.Add(p.o.Clock.MaxOffset()), Local: now.Forward(*p.low.Load())}
	}
	if t.UncertaintyLimit.LessEq(t.ReadTimestamp) {
		return mvcc.Uncertainty{}
	}
	at, ok := t.ObservedAt(p.r.NodeID())
	if !ok {
		at = now
	}
	// What an earlier leaseholder wrote carries readings of its own clock, all below the lease's start.
	return mvcc.Uncertainty{Global: t.UncertaintyLimit, Local: at.Forward(*p.low.Load())}
}

// enter checks the lease, and acquires it if need be. The gate is entered when it returns nil.
func (p *Participant) enter(ctx context.Context, at clock.Timestamp) (gen uint32, seq uint64, err error) {
	for {
		gen = p.gate.enter()
		if seq, ok := p.r.CheckLease(at); ok {
			return gen, seq, nil
		}
		p.gate.leave(gen)
		if err := p.closedErr(); err != nil {
			return 0, 0, err
		}
		if _, err := p.r.EnsureLease(ctx, at); err != nil {
			return 0, 0, err
		}
	}
}

// checkSpans says whether all of the batch's keys are in the range.
func (p *Participant) checkSpans(b *kv.Batch) error {
	d := p.r.Desc()
	if d == nil {
		return &kv.RangeNotFoundError{Range: p.r.RangeID()}
	}
	for _, r := range b.Requests {
		if err := p.checkSpan(d, r.Span()); err != nil {
			return err
		}
	}
	return nil
}

func (p *Participant) checkSpan(d *kv.RangeDescriptor, s keys.Span) error {
	if keys.IsLocal(s.Start) {
		// Range-local keys are addressed by the key that they belong to, one by one.
		if d.Contains(keys.Addr(s.Start)) {
			return nil
		}
	} else if s.Point() {
		if d.Contains(s.Start) {
			return nil
		}
	} else if d.Span().ContainsSpan(s) {
		return nil
	}
	return &kv.RangeMismatchError{Span: s, Infos: []kv.RangeInfo{{Desc: *d}}}
}

// checkServed says whether what was just read could be served: versions were not garbage collected beneath it, and
// the data was not removed. The threshold and the descriptor are published before their effects can be seen, so
// checking afterwards covers all of the read.
func (p *Participant) checkServed(b *kv.Batch, at clock.Timestamp) error {
	if threshold := p.r.GCThreshold(); at.LessEq(threshold) && !threshold.IsZero() {
		return &kv.BelowGCError{Threshold: threshold}
	}
	if err := p.closedTo(b); err != nil {
		return err
	}
	return p.checkSpans(b)
}
