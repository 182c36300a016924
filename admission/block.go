package admission

import "context"

type contextKey struct{}

// NewContext returns a context for what a session does.
func NewContext(ctx context.Context, t *Ticket) context.Context {
	return context.WithValue(ctx, contextKey{}, t)
}

// Pause is a wait for a lock.
type Pause struct{ t *Ticket }

// Block says that a statement waits for a lock, or for something else that another session has to do first: somebody else
// has its place until Resume, which always has one (AD1). A context without a session, or of one that is blocked already, does nothing.
func Block(ctx context.Context) Pause {
	t, _ := ctx.Value(contextKey{}).(*Ticket)
	if t == nil {
		return Pause{}
	}
	t.met.Store(1)
	if !t.state.CompareAndSwap(stateRunning, stateBlocked) {
		return Pause{}
	}
	g := t.g
	g.Metrics.Blocked.Add(1)
	t.moved.Store(g.ticks.Load())
	g.running.Add(-1)
	if g.pending.Load() > 0 {
		g.makeRoom()
	}
	return Pause{t}
}

// Resume ends the wait.
func (p Pause) Resume() {
	if p.t != nil && p.t.state.CompareAndSwap(stateBlocked, stateRunning) {
		p.t.moved.Store(p.t.g.ticks.Load())
		p.t.g.running.Add(1)
	}
}
