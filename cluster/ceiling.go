package cluster

import (
	"bytes"
	"context"
	"math"
	"time"

	"meridian/clock"
	"meridian/kv"
	"meridian/wire"
)

// CeilingStore keeps the cluster's ceiling (clock.Ceiling) in the system range. Both methods are linearizable.
type CeilingStore interface {
	// Get returns what is stored, nil if there is nothing.
	Get(ctx context.Context) ([]byte, error)
	// CPut replaces what is stored if it is as expected (nil: absent). After an error it may have happened.
	CPut(ctx context.Context, expected, value []byte) error
}

const (
	// ceilingEvery is the time between two reads of the ceiling, ceilingValid how long a node goes by one, from the beginning of the read.
	ceilingEvery = time.Second
	// ceilingFirst is the pause between two tries of a node that has not read the ceiling yet.
	ceilingFirst = 10 * time.Millisecond
	ceilingValid = 5 * time.Second
	// ceilingStep is of what a ceiling is a multiple.
	ceilingStep = time.Millisecond
	// epsilonWindow is for how long at least an epsilon is remembered: those of time masters rise and fall with each poll (Spanner §3).
	epsilonWindow = 30 * time.Second
)

// storedCeiling is a ceiling as stored under keys.CeilingKey.
type storedCeiling struct {
	clock.Ceiling
	// Revision grows with each change, so that no two have the same bytes: a node that was away does not take a later one for that which it has seen.
	Revision uint64
}

func (x *storedCeiling) fields(c *wire.Coder) {
	c.Message("cluster.Ceiling", wire.Skips)
	wire.Int64(c, 1, &x.Allow)
	wire.Int64(c, 3, &x.Assume)
	wire.Uint64(c, 5, &x.Revision)
	if c.Complete() && (x.Allow < 0 || x.Assume < 0) {
		c.Malformed()
	}
}

// endless is a part of a ceiling for comparisons: none is more than any.
func endless(d time.Duration) time.Duration {
	if d == 0 {
		return math.MaxInt64
	}
	return d
}

func ended(d time.Duration) time.Duration {
	if d == math.MaxInt64 {
		return 0
	}
	return d
}

// nextCeiling is the next step from a stored ceiling to one where both parts are want (zero: none); ok: there is one. settled says that the stored one has been
// there for so long that every node goes by it, and that what was answered by an earlier one is in the past (cluster.L6).
func nextCeiling(have clock.Ceiling, want time.Duration, settled bool) (next clock.Ceiling, ok bool) {
	allow, assume, w := endless(have.Allow), endless(have.Assume), endless(want)
	switch {
	case w > assume:
		assume = w
	case w < allow:
		allow = w
	case allow == assume || !settled:
		return have, false
	case w > allow:
		allow = w
	default:
		assume = w
	}
	return clock.Ceiling{Allow: ended(allow), Assume: ended(assume)}, true
}

// settleAfter is how long a ceiling has to be unchanged before the opposite direction may be taken: until all nodes have read it, or do not go by another one any
// more, and timestamps that were ahead of true time when they were answered are in the past.
func settleAfter(maxOffset time.Duration) time.Duration {
	return ceilingValid + maxOffset + 2*clock.Drifted(ceilingValid) + ceilingStep
}

// wanted is the ceiling for nodes whose largest epsilon of late is epsilon, where have is there. None is wanted if it would not be smaller than the maximum offset,
// and none but have if that will do.
func wanted(epsilon, have, maxOffset time.Duration) time.Duration {
	w := (epsilon*5/4 + ceilingStep).Truncate(ceilingStep)
	switch {
	case 2*w >= maxOffset:
		return 0
	case have != 0 && epsilon <= have && w > have*3/5:
		return have
	}
	return w
}

// ceiling is what a node knows of the cluster's ceiling.
type ceiling struct {
	raw   []byte        // as last read
	since time.Duration // monotonic time at which that was there first, as far as this node knows
	read  bool
	// now and before are the largest epsilons of two windows, of which the later one began at from.
	now, before, from time.Duration
}

// StartCeiling begins to read the cluster's ceiling, and to change it if active says that all nodes go by it. Call it once; until the first read the
// clock is strict (clock.Clock.Await). known is closed then.
func (c *Cluster) StartCeiling(store CeilingStore, active func() bool) (known <-chan struct{}) {
	first := make(chan struct{})
	c.o.Host.Group.Go(func(ctx context.Context) {
		k := &ceiling{from: c.o.Host.Clock.Monotonic()}
		for told := false; ; {
			changed, pause := c.keepCeiling(ctx, store, k, active), ceilingEvery
			switch {
			case !k.read:
				pause = ceilingFirst // commits wait for this node's epsilon until then
			case !told:
				told = true
				close(first)
			}
			if ctx.Err() != nil || !changed && c.o.Host.Clock.Sleep(ctx, pause) != nil {
				return
			}
		}
	})
	return first
}

// keepCeiling reads the ceiling once, and reports whether it has changed it.
func (c *Cluster) keepCeiling(ctx context.Context, store CeilingStore, k *ceiling, active func() bool) (changed bool) {
	h := c.o.Host.Clock
	limit, cancel := h.WithTimeout(ctx, ceilingValid/2)
	defer cancel()
	start := h.Monotonic()
	raw, err := store.Get(limit)
	if err != nil {
		return false
	}
	have, err := wire.Decoded(raw, (*storedCeiling).fields)
	if err != nil {
		c.o.Host.Log.Warn("the agreement about clocks can't be read; commits wait for this node's epsilon", "error", err)
		return false
	}
	c.o.Clock.Agree(have.Ceiling, start+ceilingValid)
	now := h.Monotonic()
	if !k.read || !bytes.Equal(raw, k.raw) {
		k.read, k.raw, k.since = true, raw, now
	}
	epsilon, known := c.epsilons(now)
	if !known || !active() || !c.firstLive() {
		return false
	}
	if now-k.from >= epsilonWindow {
		k.before, k.now, k.from = k.now, 0, now
	}
	k.now = max(k.now, epsilon)
	most := c.o.Clock.MaxOffset()
	settled := now-k.since > settleAfter(most)
	next, ok := nextCeiling(have.Ceiling, wanted(max(k.now, k.before), have.Allow, most), settled)
	if !ok {
		return false
	}
	if err := store.CPut(limit, raw, wire.Append(nil, &storedCeiling{next, have.Revision + 1}, (*storedCeiling).fields)); err != nil {
		return false // by another node, or unknown: the next read tells
	}
	c.o.Host.Log.Info("the bound on how far commits may be ahead of true time changes", "allowed", next.Allow, "assumed", next.Assume, "largest epsilon", max(k.now, k.before))
	return true
}

// epsilons is the largest epsilon that the nodes report; known: all that live have said theirs, or that they have none.
func (c *Cluster) epsilons(now time.Duration) (largest time.Duration, known bool) {
	_, largest = c.o.Clock.Bounded()
	at := c.o.Clock.Now()
	c.mu.RLock()
	defer c.mu.RUnlock()
	for id := range c.entries {
		p, l := c.peers[id], c.records[id]
		switch {
		case id == c.self.Node || l.Decommissioned:
		case p == nil || !p.offset.counts(now) || p.offset.Excessive:
			if l.Live(at) {
				return 0, false
			}
		case p.offset.Source == "":
			largest = c.o.Clock.MaxOffset()
		default:
			largest = max(largest, p.offset.Epsilon)
		}
	}
	return largest, true
}

// firstLive reports whether this node has the least id of those that live, as far as it knows: one node changes the ceiling. If two think so, the stored bytes
// decide.
func (c *Cluster) firstLive() bool {
	at := c.o.Clock.Now()
	c.mu.RLock()
	defer c.mu.RUnlock()
	for id, l := range c.records {
		if id < c.self.Node && !l.Decommissioned && l.Live(at) {
			return false
		}
	}
	return c.self.Node != kv.NodeID(0)
}
