package leader

import (
	"context"
	"sync"
	"sync/atomic"

	"meridian/clock"
	"meridian/commit/leader/latch"
	"meridian/keys"
)

// An externally consistent transaction commits at a timestamp s that lies ahead of the leaseholders' clocks, and may be durable before s has come (txn.TX11, txn.TX12).
// If the check of its held locks waited for s, as leader.P16 has it, the commit would take the wait and the round, one after the other. So the leaseholder vouches for
// the time until s instead, and others pay for it only if they want the same lock within that time:
//
//	leader.P30: an externally consistent transaction's question whether its locks are held up to a time ahead of the clock is answered at once, if the lease is good for
//	    that time. From then on nobody writes the keys at or before it, which the timestamp cache sees to, and a lock on them that another client asks for is granted above it: the leaseholder moves the
//	    reads of a transaction that has read nothing else to later than that time, and keeps others waiting until the clock has passed it. So leader.P16 holds of the two: the first commits below the
//	    moment at which the second got the lock, or the second reads above the commit.
//
// Whether the lock has been released by then, or lost, makes no difference. A question enters its time here before it looks at Lost, and a request that gets a lock has found no other
// holder before it looks here. So either the question finds that the lock was lost, or the request finds the time. A leaseholder on another store knows the time
// as one up to which its predecessor has served: low is at or above it (leader.P3, leader.P4).

// vouched has the times ahead of the clock until which locks on a store are said to be held.
type vouched struct {
	latest atomic.Int64 // all of them are before this wall time

	mu     sync.Mutex // guards the fields below; nothing is taken after it
	points map[uint64]clock.Timestamp
	spans  []vouchedSpan
	all    clock.Timestamp // of every key, if there were too many of them
	sweep  int             // the number of points at which those that have passed are looked for
}

type vouchedSpan struct {
	span keys.Span
	at   clock.Timestamp
}

// Bounds of what is remembered exactly: a store commits fewer such transactions within the width of its clocks' interval.
const (
	vouchedPoints = 1 << 14
	vouchedSpans  = 64
	vouchedSweep  = 64
)

// note enters a time for a span.
func (v *vouched) note(s keys.Span, at, now clock.Timestamp) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if s.Point() {
		v.point(latch.Hash(s.Start), at, now)
	} else {
		v.spanning(s, at, now)
	}
	if v.latest.Load() <= at.Wall {
		v.latest.Store(at.Wall + 1)
	}
}

func (v *vouched) point(k uint64, at, now clock.Timestamp) {
	if v.points == nil {
		v.points, v.sweep = make(map[uint64]clock.Timestamp), vouchedSweep
	}
	if len(v.points) >= v.sweep {
		for k, t := range v.points {
			if t.Less(now) {
				delete(v.points, k)
			}
		}
		v.sweep = min(max(vouchedSweep, 2*len(v.points)), vouchedPoints)
	}
	if len(v.points) >= vouchedPoints {
		for _, t := range v.points {
			v.all = v.all.Forward(t)
		}
		clear(v.points)
		v.sweep = vouchedSweep
	}
	v.points[k] = at.Forward(v.points[k])
}

func (v *vouched) spanning(s keys.Span, at, now clock.Timestamp) {
	if len(v.spans) >= vouchedSpans {
		left := v.spans[:0]
		for _, x := range v.spans {
			if !x.at.Less(now) {
				left = append(left, x)
			}
		}
		clear(v.spans[len(left):])
		v.spans = left
	}
	if len(v.spans) >= vouchedSpans {
		v.all = v.all.Forward(at)
		return
	}
	own := keys.Span{Start: append(keys.Key(nil), s.Start...), End: append(keys.Key(nil), s.End...)}
	v.spans = append(v.spans, vouchedSpan{own, at})
}

// Until is the latest of the times for a key, zero if the clock has passed them.
func (v *vouched) Until(k keys.Key, now clock.Timestamp) clock.Timestamp {
	if v.latest.Load() <= now.Wall {
		return clock.Timestamp{}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	at := v.all.Forward(v.points[latch.Hash(k)])
	for i := range v.spans {
		if x := &v.spans[i]; at.Less(x.at) && x.span.Contains(k) {
			at = x.at
		}
	}
	if at.Less(now) {
		return clock.Timestamp{}
	}
	return at
}

// vouch promises leader.P30 for a span and the time of the transaction's commit, if that lies ahead.
func (c *call) vouch(s keys.Span, at clock.Timestamp) {
	if now := c.p.o.Clock.Now(); now.LessEq(at) {
		c.p.o.Cache.AddSpan(s, at, c.txnID())
		c.p.o.vouched.note(s, at, now)
		c.p.serves(at, now)
		c.p.o.Metrics.Vouched.Add(1)
	}
}

// tooEarly is the time above which the locks that the batch has been given have to be granted (leader.P30), zero if they are.
func (ev *evaluation) tooEarly() (at clock.Timestamp) {
	if ev.txn == nil || len(ev.effects.acquired) == 0 {
		return at
	}
	for i := range ev.effects.acquired {
		at = at.Forward(ev.p.o.vouched.Until(ev.effects.acquired[i].key, ev.now))
	}
	if low := *ev.p.low.Load(); ev.b.Hold && ev.txn.External() && ev.now.LessEq(low) {
		at = at.Forward(low)
	}
	if at.Less(ev.readAt()) {
		return clock.Timestamp{}
	}
	return at
}

// awaitGrant waits, without latches, until the locks that the evaluation has found may be granted.
func (l *locking) awaitGrant(ctx context.Context) error {
	at := l.early
	l.early = clock.Timestamp{}
	l.p.o.Metrics.GrantWaits.Add(1)
	begin := l.p.o.Host.Clock.Monotonic()
	err := l.p.o.Clock.AwaitPast(ctx, at)
	l.waited += l.p.o.Host.Clock.Monotonic() - begin
	return err
}
