package server

import (
	"context"
	"fmt"
	"time"

	"meridian/clock"
	"meridian/fence"
	"meridian/keys"
	"meridian/storage/engine"
	"meridian/wire"
)

// The store remembers a time that the node's clock has not passed. A node that starts on the store waits until its
// clock is past it, so it never issues a timestamp that its predecessor may have issued, even if the clock was set back in between
// (server.SV2).
const (
	guardEvery = time.Second
	guardAhead = 1500 * time.Millisecond
	// guardPatience is how far back the clock may have been set for the node to wait; beyond that an operator should check it.
	guardPatience = time.Minute
)

// ClockJumpError says that the clock was set back since the store was last used.
type ClockJumpError struct {
	Now  time.Time
	Last time.Time
}

func (e *ClockJumpError) Error() string {
	return fmt.Sprintf("the clock shows %s, but this store was in use at %s: the clock was set back by %s; correct it, or wait",
		e.Now.UTC().Format(time.RFC3339), e.Last.UTC().Format(time.RFC3339), e.Last.Sub(e.Now).Round(time.Second))
}

// passGuard waits until the clock is past the store's bound.
func passGuard(ctx context.Context, e *engine.Engine, c *clock.Clock) error {
	v, err := e.Get(keys.StoreClockKey())
	if err != nil || v == nil {
		return err
	}
	bound, err := wire.Decoded(v, (*clockBound).fields)
	if err != nil {
		return fmt.Errorf("server: the store's clock bound: %w", err)
	}
	now := c.Wall()
	if bound.at.Time().Sub(now) > guardPatience {
		return &ClockJumpError{Now: now, Last: bound.at.Time()}
	}
	return c.SleepUntil(ctx, bound.at)
}

// raiseGuard moves the bound ahead of the clock, and writes the fence's new records with it.
func raiseGuard(e *engine.Engine, c *clock.Clock, f *fence.Fence) error {
	b := e.NewBatch()
	defer b.Close()
	b.Put(keys.StoreClockKey(), wire.Append(nil, &clockBound{c.Now().Add(guardAhead)}, (*clockBound).fields))
	if f != nil {
		f.AppendChanges(b) // in the same sync
	}
	return b.Commit(true)
}

// keepGuard raises the bound as long as the node runs. A clock that runs past a bound that could not be raised would
// break server.SV2, so a failure counts as the store's, which stops the node.
func (n *Node) keepGuard(ctx context.Context) {
	for n.host.Clock.Sleep(ctx, guardEvery) == nil {
		if err := raiseGuard(n.engine, n.clock, n.fence); err != nil && ctx.Err() == nil {
			n.fail(fmt.Errorf("cannot write the clock bound: %w", err))
			return
		}
	}
}
