package host

import (
	"context"
	"sync"
)

// Group owns a node's goroutines (host.H2). Its context ends when Stop is called; Stop returns when the last
// goroutine has ended.
type Group struct {
	ctx    context.Context
	cancel context.CancelFunc

	mu      sync.Mutex // guards the fields below; nothing is taken after it
	stopped bool
	wg      sync.WaitGroup
}

// NewGroup makes a group whose context derives from parent.
func NewGroup(parent context.Context) *Group {
	ctx, cancel := context.WithCancel(parent)
	return &Group{ctx: ctx, cancel: cancel}
}

// Context ends when the group is stopped.
func (g *Group) Context() context.Context { return g.ctx }

// Go starts f with the group's context. It reports false, and does not start f, once the group is stopped.
func (g *Group) Go(f func(ctx context.Context)) bool {
	g.mu.Lock()
	if g.stopped {
		g.mu.Unlock()
		return false
	}
	g.wg.Add(1)
	g.mu.Unlock()
	go func() {
		defer g.wg.Done()
		f(g.ctx)
	}()
	return true
}

// Stop ends the context, refuses new goroutines and waits for the running ones.
func (g *Group) Stop() {
	g.mu.Lock()
	g.stopped = true
	g.mu.Unlock()
	g.cancel()
	g.wg.Wait()
}

// Child makes a group that stops with its parent and can be stopped before it.
func (g *Group) Child() *Group { return NewGroup(g.ctx) }
