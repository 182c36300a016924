package fastpaxos

import (
	"context"
	"time"
)

// The visibility messages of a gateway's transactions (§3.2.1). Nobody waits for them, except the next reader of a row for a commuting update, so those of several transactions travel together: a few messages
// in each millisecond or two, whatever the load.

// ending is a transaction whose end the replicas are to be told, or, if closes, that all of them have been (fastpaxos.FP6).
type ending struct {
	qs                []*Request
	committed, closes bool
	near              chan struct{} // closed when the nearest replica of each range has answered
}

const (
	// announceGap is the least time between two messages with ends to the same replicas; those between wait for the next one.
	announceGap = 2 * time.Millisecond
	// closeWithin is how long nobody need know that a transaction need not be remembered.
	closeWithin = 50 * time.Millisecond
)

// announce has an end told soon.
func (c *Client) announce(e *ending, within time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ends = append(c.ends, e)
	now := c.o.Host.Clock.Monotonic()
	at := max(now+within, c.announced+announceGap)
	if c.announceAt != 0 && c.announceAt <= at {
		return
	}
	c.announceAt = at
	if !c.o.Host.Group.Go(func(ctx context.Context) { c.announceIn(ctx, at, at-now) }) {
		c.announceAt, c.ends = 0, nil // the node is stopping; others finish what was not told
	}
}

// announceIn tells what has gathered when it is time, unless that was done before.
func (c *Client) announceIn(ctx context.Context, at, wait time.Duration) {
	if wait > 0 && c.o.Host.Clock.Sleep(ctx, wait) != nil {
		return
	}
	c.mu.Lock()
	if c.announceAt != at {
		c.mu.Unlock()
		return
	}
	es := c.ends
	c.ends, c.announceAt, c.announced = nil, 0, c.o.Host.Clock.Monotonic()
	c.mu.Unlock()
	ctx, cancel := c.o.Host.Clock.WithTimeout(ctx, background)
	defer cancel()
	c.tellEnds(ctx, es)
}

func (c *Client) tellEnds(ctx context.Context, es []*ending) {
	var all, kept []*Request
	for _, e := range es {
		all = append(all, e.qs...)
	}
	everyone, err := c.tell(ctx, all, func() {
		for _, e := range es {
			if e.near != nil {
				close(e.near)
			}
		}
	})
	again := false
	for _, e := range es {
		if e.closes {
			continue
		}
		kept, again = append(kept, e.qs...), again || e.committed
		if last := closes(e.qs); err == nil && last != nil {
			c.announce(&ending{qs: last, closes: true}, closeWithin)
		}
	}
	if len(kept) > 0 {
		c.spread(ctx, kept, everyone || !again)
	}
}

// closes are the messages by which records forget a transaction all of whose options have ended at quorums, nil if there is nothing to forget.
func closes(qs []*Request) []*Request {
	if len(qs) < 2 || qs[0].Option.Anchor != nil {
		return nil
	}
	last := make([]*Request, len(qs))
	for i, q := range qs {
		o := *q
		o.Option.Keys = nil
		last[i] = &o
	}
	return last
}
