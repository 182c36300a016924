package leader

import (
	"context"
	"fmt"
	"time"

	"meridian/admission"
	"meridian/commit"
	"meridian/commit/leader/latch"
	"meridian/commit/leader/lock"
	"meridian/host"
	"meridian/keys"
	"meridian/kv"
	"meridian/storage/mvcc"
)

// maxDiscards is how often a read that met an intent, which was resolved before it could be waited for, reads again
// at once; then it waits whatever the table says.
const maxDiscards = 4

// resolveMax bounds the intents that one resolution batch takes.
const resolveMax = 256

// resolveSpanMax is how many intents are resolved at once for a scan.
const resolveSpanMax = 1000

// guardSpans tells the lock table what the batch wants.
func (q *request) guardSpans() {
	if q.guarded {
		return
	}
	q.guarded = true
	spans := q.inlineSp[:0]
	limited := q.b.MaxKeys > 0 || q.b.TargetBytes > 0
	for _, r := range q.b.Requests {
		s := lock.Span{Span: r.Span(), Strength: lock.Write}
		switch r := r.(type) {
		case *kv.GetRequest:
			if s.Strength = r.Lock; r.Lock != kv.NoLock && q.b.WaitPolicy == kv.SkipLocked {
				continue
			}
		case *kv.ScanRequest:
			// A limited scan asks for the keys that it turns out to return, one that skips locked keys for none.
			if s.Strength = r.Lock; r.Lock != kv.NoLock && (limited || q.b.WaitPolicy == kv.SkipLocked) {
				continue
			}
		case *kv.PutRequest, *kv.CPutRequest, *kv.AddRequest:
		case *kv.DeleteRequest, *kv.DeleteRangeRequest:
			s.Strength = kv.Exclusive
		case *kv.LoadRequest:
			if r.Mode != kv.LoadAlone {
				for i := range r.Rows {
					spans = append(spans, lock.Span{Span: point(r.Rows[i].Key), Strength: kv.Exclusive})
				}
			}
			continue
		default:
			continue
		}
		spans = append(spans, s)
	}
	q.guard.Spans = spans
	if q.txn != nil {
		q.guard.Txn = &q.b.Txn.TxnMeta
	}
}

// meet waits for the holders of intents that an evaluation ran into. Latches are no longer held.
func (q *request) meet(ctx context.Context, e *mvcc.LockConflictError, since uint64) error {
	q.guardSpans()
	if !q.discover(e, since) {
		return nil
	}
	return q.blocked(ctx)
}

// discover puts intents into the lock table. It reports false if reading again at once is better.
func (q *request) discover(e *mvcc.LockConflictError, since uint64) bool {
	t := q.p.locks
	for i := range e.Intents {
		in := &e.Intents[i]
		if !t.Discover(in.Key, &in.Txn, in.Txn.WriteTimestamp, since) {
			if q.discards++; q.discards < maxDiscards {
				return false
			}
			since = t.Releases()
			t.Discover(in.Key, &in.Txn, in.Txn.WriteTimestamp, since)
		}
		if at, attempt, ok := q.p.o.finished.Committed(in.Txn.ID); ok && at == in.Txn.WriteTimestamp && attempt == in.Txn.Attempt {
			// The news came between the evaluation and now, and takes no latches (P10).
			t.Release(in.Key, in.Txn.ID)
		}
	}
	return true
}

// blocked joins the queue at the batch's first conflict, if there is one, and waits.
func (q *request) blocked(ctx context.Context) error {
	q.p.locks.ReadsAt(&q.guard, q.visible.Forward(q.readAt()))
	if w, waits := q.p.locks.Scan(&q.guard); waits {
		return q.wait(ctx, w)
	}
	return nil
}

const (
	// lookAgain is how long a request waits at most until it looks by itself whether it still has to (P14).
	lookAgain = time.Second
	// waitsLong is from when on a wait is told of: no statement of a healthy application takes so long.
	waitsLong = 10 * time.Second
	// notFront is by how much longer those wait that rely on another's push, before they look whether they are waited for.
	notFront = 3
)

// waiter is a request's wait for a lock.
type waiter struct {
	q     *request
	on    uint64        // a hash of the key
	start time.Duration // by the monotonic clock
	timer host.Timer

	// A push of holder that is out.
	pushed  chan pushResult
	pushing kv.TxnID
	stop    func()
	backoff time.Duration
	// asked is a question that is out whether others wait for the request's transaction; wanted says that they do (P6).
	asked  <-chan *kv.QueryTxnResponse
	wanted bool
	asking context.Context
	cancel context.CancelFunc

	long bool // it has been counted and told of
}

// wait returns when the conflict is gone, and the batch should be tried again. It pushes the holder after a while, or relies
// on another's push.
func (q *request) wait(ctx context.Context, w lock.Wait) error {
	p := q.p
	m := p.o.Metrics
	if !w.Read && q.b.WaitPolicy == kv.NoWait {
		// Intents of the dead are in nobody's way for long, but the statement is not to wait.
		m.NotAvailable.Add(1)
		return &kv.LockNotAvailableError{Key: w.Key, Holder: w.Holder.ID}
	}
	on := latch.Hash(w.Key)
	defer admission.Block(ctx, on).Resume()
	m.LockWaits.Add(1)
	clk := p.o.Host.Clock
	x := waiter{q: q, on: on, start: clk.Monotonic(), backoff: p.o.ReadPushDelay}
	defer x.end()

	var deadline <-chan time.Time
	if q.b.LockTimeout > 0 {
		t := clk.NewTimer(q.b.LockTimeout)
		defer t.Stop()
		deadline = t.C()
	}
	waits := true
	unled := *p.unled.Load()
	for {
		if !waits {
			if p.locks.Doomed(&q.guard) {
				return &kv.TxnAbortedError{ID: q.txnID(), Reason: "taken for dead while it waited for a lock"}
			}
			return nil
		}
		if w.Ended && !w.Intent {
			p.locks.Release(w.Key, w.Holder.ID)
			w, waits = p.locks.State(&q.guard)
			continue
		}
		if w.Ended {
			if err := p.resolve(ctx, &w, q.scanEnd(w.Key)); err != nil {
				return err
			}
			w, waits = p.locks.State(&q.guard)
			if waits && w.Ended && w.Intent {
				// Resolved, but not for this table: the intent was a remnant.
				p.locks.Release(w.Key, w.Holder.ID)
				w, waits = p.locks.State(&q.guard)
			}
			continue
		}
		if x.pushed != nil && x.pushing != w.Holder.ID {
			x.callOff()
		}
		x.arm(&w)
		select {
		case <-q.guard.Signal():
			w, waits = p.locks.State(&q.guard)
		case <-x.timer.C():
			if w, waits = p.locks.State(&q.guard); !waits {
				if len(q.guard.Signal()) == 0 {
					m.SignalsMissed.Add(1) // a defect of the lock table (K3)
				}
				continue
			}
			x.look(&w)
			switch {
			case x.pushed != nil || w.Holder.ID.IsZero() || w.Ended:
			case x.relies(&w):
				if x.asked == nil {
					x.ask(ctx)
				}
			default:
				x.pushing = w.Holder.ID
				p.locks.Pushing(&q.guard, x.pushing)
				x.pushed, x.stop = q.startPush(ctx, &w)
			}
		case resp := <-x.asked:
			x.asked = nil
			if resp != nil {
				if resp.Exists && resp.Txn.Status == kv.Aborted {
					return &kv.TxnAbortedError{ID: q.txnID(), Reason: "aborted while it waited for a lock"}
				}
				x.wanted = len(resp.Waits) > 0
			}
			w, waits = p.locks.State(&q.guard)
		case res := <-x.pushed:
			x.callOff()
			if res.err != nil {
				switch res.err.(type) {
				case *kv.DeadlockError, *kv.TxnAbortedError:
					return res.err
				}
				if ctx.Err() != nil {
					return ctx.Err()
				}
				x.backoff = min(2*x.backoff, time.Second) // the record's range can't be reached now
				w, waits = p.locks.State(&q.guard)
				continue
			}
			x.backoff = p.o.ReadPushDelay
			if commit.Final(res.pushee.Status) {
				p.locks.Finalized(res.pushee.ID, res.pushee.Status)
			}
			if d := p.r.Desc(); w.Read && res.pushee.Status == kv.Pending && q.guard.ReadAt.Less(res.pushee.WriteTimestamp) && d != nil {
				// P17: however many intents it has, they are in this read's way no more, where they are.
				p.o.finished.push(res.pushee.ID, res.pushee.WriteTimestamp)
				p.locks.MovedSpan(d.Span(), res.pushee.ID, res.pushee.WriteTimestamp)
				w, waits = p.locks.State(&q.guard)
				continue
			}
			if w.Intent && (commit.Final(res.pushee.Status) || w.IntentAt.Less(res.pushee.WriteTimestamp)) {
				if err := p.resolveTo(ctx, w.Key, q.scanEnd(w.Key), &res.pushee); err != nil {
					return err
				}
			}
			w, waits = p.locks.State(&q.guard)
		case <-deadline:
			m.LockTimeouts.Add(1)
			return &kv.LockNotAvailableError{Key: w.Key, Holder: w.Holder.ID, Timeout: true}
		case <-unled:
			return errUnled()
		case <-p.ended:
			return p.closedErr()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// relies reports whether the push of another, who is before the request in the queue, is enough (P6).
func (x *waiter) relies(w *lock.Wait) bool {
	return !w.Front && !x.wanted && x.q.txn != nil && len(x.q.txn.Anchor) > 0
}

// arm has the timer fire when there is something to do, and at last when the request should look by itself.
func (x *waiter) arm(w *lock.Wait) {
	o := x.q.p.o
	d := lookAgain
	if x.pushed == nil && x.asked == nil && !w.Holder.ID.IsZero() {
		switch {
		case w.Read:
			d = o.ReadPushDelay
		case x.relies(w):
			d = notFront * o.LockPushDelay
		default:
			d = o.LockPushDelay
		}
		d = max(d, x.backoff-o.ReadPushDelay)
	}
	if x.timer == nil {
		x.timer = o.Host.Clock.NewTimer(d)
		return
	}
	x.timer.Stop()
	select {
	case <-x.timer.C():
	default:
	}
	x.timer.Reset(d)
}

// look tells of a wait that has become long, once.
func (x *waiter) look(w *lock.Wait) {
	o := x.q.p.o
	waited := o.Host.Clock.Monotonic() - x.start
	if x.long || waited < waitsLong {
		return
	}
	x.long = true
	o.Metrics.LongWaits.Add(1)
	o.Metrics.LongWaiting.Add(1)
	if !w.Front {
		return // the first in the queue has told
	}
	o.Host.Log.Warn("a request waits long for a lock", "range", x.q.p.r.RangeID(), "key", fmt.Sprintf("%x", []byte(w.Key)),
		"waiter", x.q.txnID().String(), "holder", w.Holder.ID.String(), "holder_gateway", w.Holder.Gateway,
		"intent", w.Intent, "queued", w.Claim, "read", w.Read, "waited", waited)
}

// ask asks in the background whether others wait for the request's transaction. The answer comes when they do, or after a
// while.
func (x *waiter) ask(ctx context.Context) {
	if x.cancel == nil {
		x.asking, x.cancel = context.WithCancel(ctx)
	}
	x.asked = x.q.p.askWaits(x.asking, x.q.txn.TxnMeta, noWaits)
}

// callOff ends a push.
func (x *waiter) callOff() {
	if x.pushed != nil {
		x.stop()
		x.pushed, x.stop = nil, nil
		x.q.p.locks.Pushing(&x.q.guard, kv.TxnID{})
	}
}

func (x *waiter) end() {
	o := x.q.p.o
	waited := o.Host.Clock.Monotonic() - x.start
	o.Metrics.LockWaitNanos.Add(int64(waited))
	x.q.waited += waited
	if o.Moved != nil {
		o.Moved(x.on)
	}
	if x.timer != nil {
		x.timer.Stop()
	}
	if x.long {
		o.Metrics.LongWaiting.Add(-1)
	}
	if x.cancel != nil {
		x.cancel()
	}
	if x.pushed != nil {
		x.stop()
	}
}

type pushResult struct {
	pushee kv.Txn
	err    error
}

// startPush pushes a conflict's holder in the background: the wait may end before the push does.
func (q *request) startPush(ctx context.Context, w *lock.Wait) (chan pushResult, func()) {
	p := q.p
	p.o.Metrics.Pushes.Add(1)
	pusher := q.txn
	if pusher != nil {
		// The push may still be about when the request has moved its transaction.
		own := *pusher
		pusher = &own
	}
	req := &kv.PushTxnRequest{Pusher: pusher, Pushee: w.Holder, Kind: kv.PushAbort, Key: w.Key}
	if w.Read {
		req.Kind, req.PushTo = kv.PushTimestamp, q.guard.ReadAt.Next()
	}
	b := &kv.Batch{Requests: []kv.Request{req}}
	b.Gateway, b.Now = p.r.NodeID(), p.o.Clock.Now()
	out := make(chan pushResult, 1)
	ctx, cancel := context.WithCancel(ctx)
	started := p.o.Host.Group.Go(func(group context.Context) {
		defer context.AfterFunc(group, cancel)()
		resp, err := p.o.Sender.Send(ctx, b)
		if err != nil {
			out <- pushResult{err: err}
			return
		}
		push, ok := resp.Responses[0].(*kv.PushTxnResponse)
		if !ok {
			out <- pushResult{err: &kv.InternalError{Message: "a push got an answer to another question"}}
			return
		}
		out <- pushResult{pushee: push.Pushee}
	})
	if !started {
		out <- pushResult{err: &kv.UnavailableError{Reason: "node stopped"}}
	}
	return out, cancel
}

// resolve gives the intents of an ended transaction that the table knows, and those up to until, their outcome.
func (p *Participant) resolve(ctx context.Context, w *lock.Wait, until keys.Key) error {
	meta := w.Holder
	t := kv.Txn{TxnMeta: meta, Status: w.Status}
	if w.Status == kv.Committed {
		// The table does not know when: ask the record.
		resp, err := p.o.Sender.Send(ctx, &kv.Batch{
			Header:   kv.Header{Gateway: p.r.NodeID(), Now: p.o.Clock.Now()},
			Requests: []kv.Request{&kv.PushTxnRequest{Pushee: meta, Kind: kv.PushTouch}},
		})
		if err != nil {
			return err
		}
		if push, ok := resp.Responses[0].(*kv.PushTxnResponse); ok {
			t = push.Pushee
		}
		if t.Status == kv.Staging {
			// Committed, but its record does not say so yet, and until then recovery asks for the intents: they stay.
			// This push waits for the gateway, or for its end.
			if resp, err = p.o.Sender.Send(ctx, &kv.Batch{
				Header:   kv.Header{Gateway: p.r.NodeID(), Now: p.o.Clock.Now()},
				Requests: []kv.Request{&kv.PushTxnRequest{Pushee: meta, Kind: kv.PushTimestamp, PushTo: t.WriteTimestamp.Next()}},
			}); err != nil {
				return err
			}
			if push, ok := resp.Responses[0].(*kv.PushTxnResponse); ok {
				t = push.Pushee
			}
		}
		if !commit.Final(t.Status) {
			// The record is gone, so all of the transaction's intents are resolved: this one is a remnant.
			p.locks.Release(w.Key, meta.ID)
			return nil
		}
	}
	return p.resolveTo(ctx, w.Key, until, &t)
}

// scanEnd is where the scan ends that came upon k; nil if it was none.
func (q *request) scanEnd(k keys.Key) keys.Key {
	for _, r := range q.b.Requests {
		switch x := r.(type) {
		case *kv.ScanRequest:
			if x.Reverse {
				continue
			}
		case *kv.DeleteRangeRequest, *kv.RefreshRangeRequest:
		default:
			continue
		}
		if s := r.Span(); s.Contains(k) && !keys.IsLocal(k) {
			return s.End
		}
	}
	return nil
}

// resolveTo resolves the intents of a transaction that the table knows, that on k above all. Whoever scans up to until
// is about to meet what follows, too.
func (p *Participant) resolveTo(ctx context.Context, k, until keys.Key, t *kv.Txn) error {
	ks := []keys.Key{k}
	if commit.Final(t.Status) && until == nil {
		if all := p.locks.IntentsOf(t.ID, resolveMax); len(all) > 0 {
			ks = all
		}
	}
	b := &kv.Batch{Requests: make([]kv.Request, len(ks))}
	b.RangeID, b.Gateway, b.Now = p.r.RangeID(), p.r.NodeID(), p.o.Clock.Now()
	status := t.Status
	if status == kv.Staging {
		status = kv.Pending
	}
	if until != nil {
		b.Requests = []kv.Request{&kv.ResolveRangeRequest{
			Start: k, End: until, Txn: t.TxnMeta, Status: status, IgnoredSeqs: t.IgnoredSeqs, Max: resolveSpanMax,
		}}
		ks = nil
	}
	for i, k := range ks {
		b.Requests[i] = &kv.ResolveIntentRequest{Key: k, Txn: t.TxnMeta, Status: status, IgnoredSeqs: t.IgnoredSeqs}
	}
	_, err := p.Send(ctx, b)
	if err == nil {
		p.o.Metrics.Resolved.Add(int64(max(len(ks), 1)))
	}
	return err
}
