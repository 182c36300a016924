package clock

import (
	"context"
	"fmt"
	"sync"
	"time"

	"meridian/host"
)

// Clock is a node's hybrid logical clock (CRDB'20 §4.1).
//
// C1 (I3): Now never returns the same timestamp twice and never goes back, even if the physical clock does.
// C2 (I4): after Update(t), every later Now is greater than t.
// C3: a remote reading further ahead than the maximum offset is refused, so that one broken clock cannot drag
// the cluster into the future.
type Clock struct {
	physical  host.Clock
	maxOffset time.Duration

	mu   sync.Mutex // guards last; nothing is taken after it
	last Timestamp
}

// DefaultMaxOffset is the bound on the difference of any two nodes' clocks that a cluster assumes unless it is
// told otherwise; it is the paper's default (CRDB'20 §4.1).
const DefaultMaxOffset = 500 * time.Millisecond

// New makes a clock over the host's.
func New(physical host.Clock, maxOffset time.Duration) *Clock {
	return &Clock{physical: physical, maxOffset: maxOffset}
}

// MaxOffset is the assumed bound on the difference between any two nodes' physical clocks.
func (c *Clock) MaxOffset() time.Duration { return c.maxOffset }

// Physical is the clock below.
func (c *Clock) Physical() host.Clock { return c.physical }

// Now issues the next timestamp (C1).
func (c *Clock) Now() Timestamp {
	wall := c.physical.Now().UnixNano()
	c.mu.Lock()
	if c.last.Wall >= wall {
		c.last = c.last.Next()
	} else {
		c.last = Timestamp{Wall: wall}
	}
	t := c.last
	c.mu.Unlock()
	return t
}

// OffsetError says that a remote timestamp was too far ahead (C3).
type OffsetError struct {
	Remote   Timestamp
	Physical time.Time
	Max      time.Duration
}

func (e *OffsetError) Error() string {
	return fmt.Sprintf("clock: remote timestamp %s is %s ahead of this node's clock; the maximum offset is %s",
		e.Remote, e.Remote.Time().Sub(e.Physical), e.Max)
}

// Update moves the clock past a timestamp that arrived from another node (C2), or refuses it (C3).
func (c *Clock) Update(remote Timestamp) error {
	if remote.IsZero() {
		return nil
	}
	now := c.physical.Now()
	if remote.Wall-now.UnixNano() > int64(c.maxOffset) {
		return &OffsetError{Remote: remote, Physical: now, Max: c.maxOffset}
	}
	c.Forward(remote)
	return nil
}

// Forward moves the clock past a timestamp that this node trusts, such as one that it wrote itself.
func (c *Clock) Forward(t Timestamp) {
	c.mu.Lock()
	c.last = c.last.Forward(t)
	c.mu.Unlock()
}

// SleepUntil returns when the physical clock has passed t's wall part: commit wait.
func (c *Clock) SleepUntil(ctx context.Context, t Timestamp) error {
	for {
		d := time.Duration(t.Wall - c.physical.Now().UnixNano())
		if d < 0 {
			return nil
		}
		if err := c.physical.Sleep(ctx, d+1); err != nil {
			return err
		}
	}
}
