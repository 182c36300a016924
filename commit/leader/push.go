package leader

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"meridian/commit"
	"meridian/commit/leader/latch"
	"meridian/host"
	"meridian/keys"
	"meridian/kv"
	"meridian/replica"
)

// Pushes, and the queue in which they wait at the pushee's record.

// pushQueue has the pushes that wait for transactions whose records belong to this range.
type pushQueue struct {
	mu      sync.Mutex // guards waiting and the fields of its elements; nothing is taken after it
	waiting map[kv.TxnID][]*pushWait
	// watching are the queries to be answered when the waits that end at a transaction change.
	watching map[kv.TxnID][]chan struct{}
	n        atomic.Int64
}

// pushWait is one waiting push.
type pushWait struct {
	pushee kv.TxnID
	pusher kv.TxnWait // without ID: no transaction
	// dependents are the waits that end at the pusher, as far as it has found out; so the pushee has them too (leader.P6).
	dependents []kv.TxnWait
	signal     chan struct{}
	final      *kv.Txn // the pushee, once it has ended
}

func (w *pushQueue) init() {
	w.waiting, w.watching = make(map[kv.TxnID][]*pushWait), make(map[kv.TxnID][]chan struct{})
}

func (w *pushQueue) len() int { return int(w.n.Load()) }

func (w *pushQueue) join(pushee kv.TxnID, pusher kv.TxnWait) *pushWait {
	x := &pushWait{pushee: pushee, pusher: pusher, signal: make(chan struct{}, 1)}
	w.mu.Lock()
	w.waiting[pushee] = append(w.waiting[pushee], x)
	w.tell(pushee)
	w.mu.Unlock()
	w.n.Add(1)
	return x
}

func (w *pushQueue) leave(x *pushWait) {
	if x == nil {
		return
	}
	w.n.Add(-1)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tell(x.pushee)
	all := w.waiting[x.pushee]
	for i, o := range all {
		if o == x {
			all[i] = all[len(all)-1]
			all[len(all)-1] = nil
			all = all[:len(all)-1]
			break
		}
	}
	if len(all) == 0 {
		delete(w.waiting, x.pushee)
	} else {
		w.waiting[x.pushee] = all
	}
}

func (x *pushWait) wake() {
	select {
	case x.signal <- struct{}{}:
	default:
	}
}

// changed tells the pushes of a transaction that its record changed, or that it ended without one.
func (w *pushQueue) changed(r *commit.Record) {
	if w.n.Load() == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tell(r.ID)
	for _, x := range w.waiting[r.ID] {
		if commit.Final(r.Status) {
			t := r.Txn()
			x.final = &t
		}
		x.wake()
	}
}

// wakeAll makes all pushes check their records again: the lease is gone, or records moved to another range.
func (w *pushQueue) wakeAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, all := range w.waiting {
		for _, x := range all {
			x.wake()
		}
	}
}

func (w *pushQueue) final(x *pushWait) *kv.Txn {
	w.mu.Lock()
	defer w.mu.Unlock()
	return x.final
}

// sendPush serves a batch of one push. It waits until the push succeeds.
func (q *request) sendPush(ctx context.Context) (*kv.BatchResponse, error) {
	p, r := q.p, q.push
	if len(q.b.Requests) != 1 {
		return nil, &kv.InternalError{Message: "leader: a push is a batch of its own"}
	}
	var wait *pushWait
	defer func() { p.waits.leave(wait) }()
	answer := func(t kv.Txn) (*kv.BatchResponse, error) {
		// Not q.now: all changes of the record precede the answer, by the caller's clock too.
		return &kv.BatchResponse{Now: p.o.Clock.Now(), Responses: []kv.Response{&kv.PushTxnResponse{Pushee: t}}}, nil
	}
	for {
		q.clockIn()
		gen, _, err := p.enter(ctx, q.now)
		if err != nil {
			return nil, err
		}
		rec, outcome, err := q.pushOnce(ctx, &wait)
		p.gate.leave(gen)
		switch {
		case err == errAgain:
			continue
		case err != nil:
			return nil, err
		case outcome == commit.PushRecover:
			if err := p.recover(ctx, rec); err != nil {
				return nil, err
			}
			continue
		case outcome != commit.PushWait || r.Kind == kv.PushTouch:
			return answer(rec.Txn())
		}
		p.o.Metrics.PushWaits.Add(1)
		p.o.Probes.Reached(probePushWaits)
		if err := q.awaitPushee(ctx, wait, rec); err != nil {
			return nil, err
		}
		if t := p.waits.final(wait); t != nil {
			p.o.Probes.Reached(probePushEnded)
			return answer(*t)
		}
	}
}

// pushOnce evaluates the push under a latch of the record. If it has to wait, it enters the queue before the latch is released, so it
// misses no change of the record.
func (q *request) pushOnce(ctx context.Context, wait **pushWait) (rec *commit.Record, outcome commit.PushOutcome, err error) {
	p, r := q.p, q.push
	key := keys.TxnKey(r.Pushee.Anchor, r.Pushee.ID)
	q.latching.latches = append(q.latching.inline[:0], latch.Latch{Span: point(key), Mode: latch.Write})
	if _, err = q.latching.acquire(ctx, true); err != nil {
		return nil, 0, err
	}
	keep := false
	defer func() {
		if !keep {
			q.latching.letGo()
		}
	}()
	if ok, err := q.latching.check(q.now); err != nil {
		return nil, 0, err
	} else if !ok {
		return nil, 0, errAgain
	}
	stored, err := p.record(p.o.Engine, r.Pushee.Anchor, r.Pushee.ID)
	if err != nil {
		return nil, 0, err
	}
	gone := p.gatewayGone(&r.Pushee)
	rec, outcome = commit.Push(stored, r, q.now, gone)
	switch outcome {
	case commit.PushWait:
		if *wait == nil && r.Kind != kv.PushTouch {
			pusher := kv.TxnWait{}
			if t := r.Pusher; t != nil {
				pusher = kv.TxnWait{ID: t.ID, Gateway: t.Gateway, Priority: t.Priority, MinTimestamp: t.MinTimestamp, For: r.Pushee.ID, Key: r.Key}
			}
			*wait = p.waits.join(r.Pushee.ID, pusher)
		}
		return rec, outcome, nil
	case commit.PushStore:
	default:
		return rec, outcome, nil
	}
	if rec.Status == kv.Aborted {
		pushee := stored
		if pushee == nil {
			pushee = &commit.Record{TxnMeta: r.Pushee}
		}
		if gone || pushee.Expired(q.now) || r.Force {
			p.o.Metrics.Expired.Add(1)
		} else {
			p.o.Metrics.Wounded.Add(1)
		}
		p.o.Probes.Reached(probePushAborts)
		if stored == nil {
			p.o.Probes.Reached(probePushNoRecord)
		}
	} else {
		p.o.Probes.Reached(probePushMoves)
	}
	batch := p.o.Engine.NewBatch()
	defer batch.Close()
	batch.Put(key, rec.Append(nil))
	q.effects.marks = append(q.effects.marks[:0], rec.ID)
	q.proposal.cmd = replica.Command{LeaseSequence: q.latching.lease, Batch: batch.Repr(), Use: replica.Settles}
	if q.proposal.settled.Store(false); ctx.Done() != nil {
		q.proposal.cmd.Settled = q.proposal.settle
	}
	if err := p.r.Propose(ctx, &q.proposal.cmd); err != nil {
		_, ambiguous := err.(*kv.AmbiguousError)
		keep = ambiguous && ctx.Done() != nil
		q.proposal.unknown = keep
		return nil, 0, err
	}
	q.effects.mark()
	p.waits.changed(rec)
	return rec, outcome, nil
}

// gatewayGone reports whether a majority of the range's voters has withdrawn its support for the gateway of a transaction (commit.CR2).
func (p *Participant) gatewayGone(t *kv.TxnMeta) bool {
	if p.o.Support == nil || t.Incarnation == 0 {
		return false
	}
	_, gone := p.o.Support.Over(p.r.Desc(), t.Gateway, t.Incarnation)
	return gone
}

// awaitPushee returns when the push should be tried again. Meanwhile it looks for a cycle of waits (leader.P6).
func (q *request) awaitPushee(ctx context.Context, wait *pushWait, rec *commit.Record) error {
	p, r := q.p, q.push
	clk := p.o.Host.Clock
	expiry := clk.NewTimer(max(time.Duration(rec.Expires().Wall-q.now.Wall), 0) + time.Millisecond)
	defer expiry.Stop()
	var look <-chan time.Time
	var answers <-chan *kv.QueryTxnResponse
	var timer host.Timer
	known := uint64(0)
	if r.Pusher != nil && len(r.Pusher.Anchor) > 0 {
		timer = clk.NewTimer(p.o.DeadlockDelay)
		defer timer.Stop()
		look = timer.C()
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	unled := *p.unled.Load()
	for {
		var changed <-chan struct{}
		if p.o.Support != nil && r.Pushee.Incarnation != 0 {
			if changed = p.o.Support.Changed(); p.gatewayGone(&r.Pushee) {
				return nil
			}
		}
		select {
		case <-changed:
		case <-look:
			answers = p.askWaits(ctx, r.Pusher.TxnMeta, known)
		case resp := <-answers:
			answers = nil
			pause := lostPause
			if resp != nil {
				if err := q.cycle(wait, resp); err != nil {
					return err
				}
				pause = lookPause
				known = resp.Version
			}
			timer.Reset(pause)
		case <-wait.signal:
			return nil
		case <-expiry.C():
			return nil
		case <-unled:
			return errUnled()
		case <-p.ended:
			return p.closedErr()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
