package leader

import (
	"context"
	"sync"
	"sync/atomic"
)

// gate counts the requests in progress, so that Drain can wait for those that began before it was called. A
// request enters before it checks the lease; one that enters the old generation late therefore finds the lease
// revoked.
type gate struct {
	generation atomic.Uint32
	inside     [2]atomic.Int64
	draining   atomic.Int32
	left       chan struct{}
	once       sync.Once
}

func (g *gate) enter() uint32 {
	n := g.generation.Load() & 1
	g.inside[n].Add(1)
	return n
}

func (g *gate) leave(n uint32) {
	if g.inside[n].Add(-1) == 0 && g.draining.Load() > 0 {
		g.init()
		select {
		case g.left <- struct{}{}:
		default:
		}
	}
}

func (g *gate) init() { g.once.Do(func() { g.left = make(chan struct{}, 1) }) }

func (g *gate) drain(ctx context.Context) error {
	g.init()
	g.draining.Add(1)
	defer g.draining.Add(-1)
	old := (g.generation.Add(1) - 1) & 1
	for g.inside[old].Load() > 0 {
		select {
		case <-g.left:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
