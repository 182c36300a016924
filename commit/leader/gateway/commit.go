package gateway

import (
	"context"
	"errors"
	"math"

	"meridian/clock"
	"meridian/kv"
)

// Commit implements txn.Keeper: it sends the commit's batches until all writes have been acknowledged.
func (c *Coordinator) Commit(ctx context.Context) (one bool, err error) {
	one = c.start()
	for {
		if err := c.align(ctx); err != nil {
			return one, c.owner.Concluded(ctx, c.state.CommitAnchor(), err) // txn.TX17
		}
		c.owner.Bound(ctx)
		b, err := c.state.CommitNext()
		if err != nil || b == nil {
			return one, err
		}
		ended, err := c.step(ctx, b, &one)
		if ended || err != nil {
			return one, err
		}
	}
}

// start begins the commit. It reports whether that may be in one phase.
func (c *Coordinator) start() (one bool) {
	ranges, elsewhere := c.owner.Options().Ranges, c.owner.Elsewhere()
	if ranges != nil && c.core.MayCommitInOnePhase() && ranges.OneRange(c.core.WriteBounds()) {
		one = c.owner.Unrecorded()
	}
	var now clock.Timestamp
	if c.state.HasHeld() {
		now = c.owner.Options().Clock.Now()
		c.state.HeldInRange(one && ranges.OneRange(c.state.HeldBounds(c.core.WriteBounds())))
	}
	if ranges != nil && c.core.MayCommitInOnePhase() && len(c.flights) == 0 && !elsewhere && (c.state.Ahead() || c.aged() || c.core.Txn().External()) {
		if first, last, ok := c.state.ReadBounds(c.core.WriteBounds()); ok {
			c.state.Carry(ranges.OneRange(first, last))
		}
	}
	c.state.StartCommit(one, len(c.flights) > 0, elsewhere, now)
	if !one {
		c.owner.Protect()
	}
	return one
}

// aged reports whether the commit is likely to have to move because the transaction has taken long.
func (c *Coordinator) aged() bool {
	return c.owner.Options().Clock.Now().Wall-c.core.Txn().MinTimestamp.Wall > int64(carryAfter)
}

// step sends one of the commit's batches, along with the writes of other protocols. A range that has got another protocol meanwhile takes the commit out of its one phase.
func (c *Coordinator) step(ctx context.Context, b *kv.Batch, one *bool) (ended bool, err error) {
	switch b.Requests[0].(type) {
	case *kv.RefreshRequest, *kv.RefreshRangeRequest:
		c.owner.Metrics().Refreshes.Add(1)
	}
	if c.core.Sent() {
		c.owner.Protect()
	}
	c.owner.Prepare(b)
	wait, again, err := c.owner.Along(ctx, b)
	if again || err != nil {
		return false, err
	}
	r, err := c.owner.Dispatch(ctx, b)
	var others error
	if wait != nil {
		others = wait()
	}
	if handed, err := c.owner.HandedOver(b, err); handed {
		*one = false
		return false, err
	}
	if err = c.state.CommitAnswered(r, err, c.failedAt(err)); err != nil {
		return true, c.owner.Concluded(ctx, c.state.CommitAnchor(), err) // txn.TX17
	}
	if others != nil {
		return false, c.owner.RefusedElsewhere(others)
	}
	return false, nil
}

// align prepares the in-flight writes for the commit's next batch: each either stays in flight along with it (txn.PW3), or has been
// acknowledged before.
func (c *Coordinator) align(ctx context.Context) error {
	// The buffer bounds the writes that are launched here.
	if err := c.launchAll(ctx, c.state.TakeCommitWrites(), math.MaxInt); err != nil {
		return err
	}
	if c.state.Overlaps() {
		return c.beside(ctx)
	}
	if err := c.settleAll(ctx); err != nil {
		return err
	}
	if at, ok := c.state.Staged(); ok {
		if again, err := c.owner.Land(ctx, at); err != nil {
			return err
		} else if again {
			return c.align(ctx)
		}
	}
	c.state.Landed()
	return nil
}

// Pending implements txn.Keeper.
func (c *Coordinator) Pending() (writes []kv.Request, ok bool) { return c.state.Pending() }

// Restage implements txn.Keeper.
func (c *Coordinator) Restage(writes []kv.Request, elsewhere bool, to clock.Timestamp) error {
	return c.state.Restage(writes, elsewhere, to)
}

func isAmbiguous(err error) bool {
	var ambiguous *kv.AmbiguousError
	return errors.As(err, &ambiguous)
}
