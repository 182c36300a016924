package admission

import (
	"context"
	"sync/atomic"
	"time"
)

type contextKey struct{}

// NewContext returns a context for what a session does.
func NewContext(ctx context.Context, t *Ticket) context.Context {
	return context.WithValue(ctx, contextKey{}, t)
}

// Pause is a wait for a lock.
type Pause struct {
	t *Ticket
	q *lockQueue
}

// locksMax is how many locks are told apart; those that share a number count as one that moves when either does.
const locksMax = 1 << 8

// lockQueue is what a gate knows of those that wait for one lock.
type lockQueue struct {
	waiting atomic.Int32
	moved   atomic.Uint32 // the tick at which one of them went on, or the first came
}

// stands reports whether nobody in the queue has gone on for a while.
func (q *lockQueue) stands(now uint32) bool { return now-q.moved.Load() > patienceRunning }

// Block says that a statement waits for a lock, or for something else that another session has to do first: somebody else
// has its place until Resume, which always has one (admission.AD1). on is a hash of the lock. A context without a session, or of one
// that is blocked already, does nothing.
func Block(ctx context.Context, on uint64) Pause {
	t, _ := ctx.Value(contextKey{}).(*Ticket)
	if t == nil {
		return Pause{}
	}
	t.met.Store(1)
	g := t.g
	now := g.ticks.Load()
	q := g.lock(on)
	if q.waiting.Add(1) == 1 {
		q.moved.Store(now)
	}
	t.on.Store(q) // before the state says that there is one
	if !t.state.CompareAndSwap(stateRunning, stateBlocked) {
		q.waiting.Add(-1)
		return Pause{}
	}
	g.Metrics.Blocked.Add(1)
	t.moved.Store(now)
	g.running.Add(-1)
	if g.pending.Load() > 0 {
		g.makeRoom()
	}
	return Pause{t, q}
}

func (g *Gate) lock(on uint64) *lockQueue { return &g.locks[on*0x9e3779b97f4a7c15>>56] }

// Moved says that somebody, of whatever node, waits for a lock of this node no longer: it does not stand still.
func (g *Gate) Moved(on uint64) { g.lock(on).moved.Store(g.ticks.Load()) }

// Waited says that a statement has waited for a lock at another node, for so long. It has kept its place meanwhile: this node did not
// know. A context without a session does nothing.
func Waited(ctx context.Context, d time.Duration) {
	t, _ := ctx.Value(contextKey{}).(*Ticket)
	if t == nil {
		return
	}
	t.met.Store(1)
	t.g.away.Add(int64(d))
}

// Resume ends the wait.
func (p Pause) Resume() {
	t := p.t
	if t == nil {
		return
	}
	now := t.g.ticks.Load()
	p.q.waiting.Add(-1)
	p.q.moved.Store(now)
	if t.state.CompareAndSwap(stateBlocked, stateRunning) {
		t.moved.Store(now)
		t.g.running.Add(1)
	}
}
