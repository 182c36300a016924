package leader

import (
	"context"
	"errors"
	"time"

	"meridian/admission"
	"meridian/clock"
	"meridian/commit"
	"meridian/commit/leader/latch"
	"meridian/commit/leader/lock"
	"meridian/host"
	"meridian/keys"
	"meridian/kv"
)

const (
	// lookAgain is how long a request waits at most until it checks by itself whether it still has to (leader.P14).
	lookAgain = time.Second
	// waitsLong is the duration after which a wait is logged: no statement of a healthy application takes so long.
	waitsLong = 10 * time.Second
	// notFront is the factor by which requests that rely on another's push wait longer before they ask whether others wait for them.
	notFront = 3
)

// waiter is a request's wait for a lock.
type waiter struct {
	l     *locking
	on    uint64        // a hash of the key
	start time.Duration // by the monotonic clock
	timer host.Timer

	// A push of holder in progress.
	pushed  chan pushResult
	pushing kv.TxnID
	stop    func()
	backoff time.Duration
	// asked is a pending query whether others wait for the request's transaction; wanted says that they do (leader.P6).
	asked  <-chan *kv.QueryTxnResponse
	wanted bool
	asking context.Context
	cancel context.CancelFunc

	long bool // it has been counted and logged
}

// wait returns when the conflict is gone, and the batch should be tried again. It pushes the holder after a while, or relies
// on another's push.
func (l *locking) wait(ctx context.Context, w lock.Wait) error {
	p := l.p
	m := p.o.Metrics
	if !w.Read && l.b.WaitPolicy == kv.NoWait {
		// Intents of dead transactions do not last long, but the statement must not wait.
		m.NotAvailable.Add(1)
		return &kv.LockNotAvailableError{Key: w.Key, Holder: w.Holder.ID}
	}
	on := latch.Hash(w.Key)
	defer admission.Block(ctx, on).Resume()
	m.LockWaits.Add(1)
	clk := p.o.Host.Clock
	x := waiter{l: l, on: on, start: clk.Monotonic(), backoff: p.o.ReadPushDelay}
	defer x.end()

	var deadline <-chan time.Time
	if l.b.LockTimeout > 0 {
		t := clk.NewTimer(l.b.LockTimeout)
		defer t.Stop()
		deadline = t.C()
	}
	waits := true
	unled := *p.unled.Load()
	for {
		if !waits {
			if p.locks.Doomed(&l.guard) {
				return &kv.TxnAbortedError{ID: l.txnID(), Reason: commit.WhyAborted(l.txnMeta(), "taken for dead while it waited for a lock")}
			}
			return nil
		}
		if w.Ended && !w.Intent {
			p.locks.Release(w.Key, w.Holder.ID)
			w, waits = p.locks.State(&l.guard)
			continue
		}
		if w.Ended {
			if err := p.resolve(ctx, &w, l.scanEnd(w.Key)); err != nil {
				return err
			}
			w, waits = p.locks.State(&l.guard)
			if waits && w.Ended && w.Intent {
				// Resolved, but not for this table: the intent was a remnant.
				p.locks.Release(w.Key, w.Holder.ID)
				w, waits = p.locks.State(&l.guard)
			}
			continue
		}
		if x.pushed != nil && x.pushing != w.Holder.ID {
			x.callOff()
		}
		x.arm(&w)
		select {
		case <-l.guard.Signal():
			w, waits = p.locks.State(&l.guard)
		case <-x.timer.C():
			if w, waits = p.locks.State(&l.guard); !waits {
				if len(l.guard.Signal()) == 0 {
					m.SignalsMissed.Add(1) // a defect of the lock table (lock.K3)
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
				p.locks.Pushing(&l.guard, x.pushing)
				x.pushed, x.stop = l.startPush(ctx, &w)
			}
		case resp := <-x.asked:
			x.asked = nil
			if resp != nil {
				if resp.Exists && resp.Txn.Status == kv.Aborted {
					return &kv.TxnAbortedError{ID: l.txnID(), Reason: commit.WhyAborted(l.txnMeta(), "aborted while it waited for a lock")}
				}
				x.wanted = len(resp.Waits) > 0
			}
			w, waits = p.locks.State(&l.guard)
		case res := <-x.pushed:
			x.callOff()
			if res.err != nil {
				switch res.err.(type) {
				case *kv.DeadlockError, *kv.TxnAbortedError:
					return res.err
				}
				if errors.As(res.err, new(*kv.UnreadableError)) {
					return res.err // the holder's outcome can't be known here, however long the request waits
				}
				if ctx.Err() != nil {
					return ctx.Err()
				}
				x.backoff = min(2*x.backoff, time.Second) // the record's range can't be reached now
				w, waits = p.locks.State(&l.guard)
				continue
			}
			x.backoff = p.o.ReadPushDelay
			if commit.Final(res.pushee.Status) {
				p.locks.Finalized(res.pushee.ID, res.pushee.Status)
			}
			if d := p.r.Desc(); w.Read && res.pushee.Status == kv.Pending && l.guard.ReadAt.Less(res.pushee.WriteTimestamp) && d != nil &&
				res.pushee.WriteTimestamp.LessEq(res.asked) {
				// leader.P17: however many intents it has, this read passes them without moving them. Where the push went ahead of the
				// clock they are moved: a reader that has observed the clock since may have begun after the commit (mvcc.M8).
				p.o.finished.push(res.pushee.ID, res.pushee.WriteTimestamp)
				p.locks.MovedSpan(d.Span(), res.pushee.ID, res.pushee.WriteTimestamp)
				w, waits = p.locks.State(&l.guard)
				continue
			}
			if w.Intent && (commit.Final(res.pushee.Status) || w.IntentAt.Less(res.pushee.WriteTimestamp)) {
				if err := p.resolveTo(ctx, w.Key, l.scanEnd(w.Key), &res.pushee); err != nil {
					return err
				}
			}
			w, waits = p.locks.State(&l.guard)
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

// relies reports whether the push of an earlier request in the queue is enough (leader.P6).
func (x *waiter) relies(w *lock.Wait) bool {
	return !w.Front && !x.wanted && x.l.txn != nil && len(x.l.txn.Anchor) > 0 && !x.wounds(w)
}

// wounds reports whether the request's push ends the holder (leader.P27).
func (x *waiter) wounds(w *lock.Wait) bool {
	t := x.l.txn
	return t != nil && t.External() && w.Holder.External() && !w.Read && t.Older(&w.Holder)
}

// arm sets the timer to the next action, at the latest to the request's own check.
func (x *waiter) arm(w *lock.Wait) {
	o := x.l.p.o
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

// look logs a wait that has become long, once.
func (x *waiter) look(w *lock.Wait) {
	o := x.l.p.o
	waited := o.Host.Clock.Monotonic() - x.start
	if x.long || waited < waitsLong {
		return
	}
	x.long = true
	o.Metrics.LongWaits.Add(1)
	o.Metrics.LongWaiting.Add(1)
	if !w.Front {
		return // the first in the queue has logged it
	}
	o.Host.Log.Warn("a request waits long for a lock", "range", x.l.p.r.RangeID(), "key", keys.Masked(w.Key),
		"waiter", x.l.txnID().String(), "holder", w.Holder.ID.String(), "holder_gateway", w.Holder.Gateway,
		"intent", w.Intent, "queued", w.Claim, "read", w.Read, "waited", waited)
}

// ask asks in the background whether others wait for the request's transaction. The answer comes when they do, or after a
// while.
func (x *waiter) ask(ctx context.Context) {
	if x.cancel == nil {
		x.asking, x.cancel = context.WithCancel(ctx)
	}
	x.asked = x.l.p.askWaits(x.asking, x.l.txn.TxnMeta, noWaits)
}

// callOff ends a push.
func (x *waiter) callOff() {
	if x.pushed != nil {
		x.stop()
		x.pushed, x.stop = nil, nil
		x.l.p.locks.Pushing(&x.l.guard, kv.TxnID{})
	}
}

func (x *waiter) end() {
	o := x.l.p.o
	waited := o.Host.Clock.Monotonic() - x.start
	o.Metrics.LockWaitNanos.Add(int64(waited))
	x.l.waited += waited
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
	asked  clock.Timestamp // this node's clock, before the push
	err    error
}

// startPush pushes a conflict's holder in the background: the wait may end before the push does.
func (l *locking) startPush(ctx context.Context, w *lock.Wait) (chan pushResult, func()) {
	p := l.p
	p.o.Metrics.Pushes.Add(1)
	pusher := l.txn
	if pusher != nil {
		// The push may still be in progress when the request has moved its transaction.
		own := *pusher
		pusher = &own
	}
	req := &kv.PushTxnRequest{Pusher: pusher, Pushee: w.Holder, Kind: kv.PushAbort, Key: w.Key}
	if w.Read {
		req.Kind, req.PushTo = kv.PushTimestamp, l.guard.ReadAt.Next()
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
		out <- pushResult{pushee: push.Pushee, asked: b.Now}
	})
	if !started {
		out <- pushResult{err: &kv.UnavailableError{Reason: "node stopped"}}
	}
	return out, cancel
}
