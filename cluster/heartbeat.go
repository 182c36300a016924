package cluster

import (
	"bytes"
	"context"
	"errors"
	"time"

	"meridian/invariant"
	"meridian/kv"
)

// lookup is an IncrementIncarnation under way; later callers wait for it.
type lookup struct {
	done   chan struct{}
	record Liveness
	err    error
}

// learnRecord keeps the newest record of a node (cluster.L1).
func (c *Cluster) learnRecord(l Liveness) {
	c.mu.Lock()
	defer c.mu.Unlock()
	old, ok := c.records[l.Node]
	if ok && l.newer(old.Incarnation, old.Expiration) || !ok && len(c.records) < c.o.MaxNodes {
		c.records[l.Node] = l
	}
}

// LearnRecord takes in a record as it is stored. Its node counts among the nodes from now on, though nothing is known of it but
// that until it says more: it may be dead since before this node started, and still has to be missed.
func (c *Cluster) LearnRecord(l Liveness) {
	c.learnRecord(l)
	if _, ok := c.Get(l.Node); !ok && l.Node != 0 {
		c.learn(&Entry{Node: l.Node})
	}
}

// Record is the newest liveness record that this node has heard of.
func (c *Cluster) Record(node kv.NodeID) (Liveness, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	l, ok := c.records[node]
	return l, ok
}

// Records lists all known liveness records.
func (c *Cluster) Records() []Liveness {
	c.mu.RLock()
	defer c.mu.RUnlock()
	out := make([]Liveness, 0, len(c.records))
	for _, l := range c.records {
		out = append(out, l)
	}
	return out
}

// Live reports whether a node's record, as far as known here, is unexpired now. False may be old news.
func (c *Cluster) Live(node kv.NodeID) bool {
	c.mu.RLock()
	l, ok := c.records[node]
	c.mu.RUnlock()
	return ok && l.Live(c.o.Clock.Now())
}

// Own is this node's record as it was last written by itself; ok is false until its first heartbeat. A lease under
// another incarnation than this one is void.
func (c *Cluster) Own() (Liveness, bool) {
	l := c.own.Load()
	if l == nil {
		return Liveness{}, false
	}
	return l.record, true
}

// Incarnation is the incarnation under which this node may act now; ok is false if its record is about to expire
// or has (cluster.L3).
func (c *Cluster) Incarnation() (incarnation uint64, ok bool) {
	l := c.own.Load()
	if l == nil {
		return 0, false
	}
	return l.record.Incarnation, l.record.Usable(c.o.Clock.Interval())
}

// ownRecord is the record and its exact bytes (cluster.L4).
type ownRecord struct {
	record Liveness
	raw    []byte
}

func (c *Cluster) setOwn(l Liveness, raw []byte) {
	if old := c.own.Load(); old != nil {
		invariant.Check(!old.record.newer(l.Incarnation, l.Expiration), "L1 (I5): own record went back from %v to %v", old.record, l)
	}
	c.own.Store(&ownRecord{record: l, raw: raw})
	c.learnRecord(l)
}

// StartHeartbeat begins to keep this node's record alive; its id must be known. Call it once.
func (c *Cluster) StartHeartbeat(store LivenessStore) {
	c.store.Store(&store)
	c.o.Host.Group.Go(func(ctx context.Context) {
		node := c.Self().Node
		failing := false
		due := c.o.Host.Clock.Monotonic()
		for {
			start := c.o.Host.Clock.Monotonic()
			c.HeartbeatLate.Note(start - due)
			// An attempt that takes longer than the record lives is of no use.
			err := c.heartbeat(ctx, store, node)
			if ctx.Err() != nil {
				return
			}
			var gone *DecommissionedError
			if errors.As(err, &gone) {
				c.o.Host.Log.Error("this node was decommissioned; it keeps no leases any more", "node", node)
				if c.o.OnRefused != nil {
					c.o.OnRefused(gone)
				}
				return
			}
			c.HeartbeatTook.Note(c.o.Host.Clock.Monotonic() - start)
			if (err != nil) != failing {
				failing = err != nil
				if failing {
					c.o.Host.Log.Warn("liveness heartbeats fail", "error", err)
				} else {
					c.o.Host.Log.Info("liveness heartbeats succeed again")
				}
			}
			pause := c.o.HeartbeatInterval - (c.o.Host.Clock.Monotonic() - start)
			if err != nil {
				pause = min(pause, c.o.HeartbeatInterval/5)
			}
			pause = max(pause, c.o.HeartbeatInterval/15)
			due = c.o.Host.Clock.Monotonic() + pause
			if c.o.Host.Clock.Sleep(ctx, pause) != nil {
				return
			}
		}
	})
}

// heartbeat extends this node's record once, or makes it.
func (c *Cluster) heartbeat(ctx context.Context, store LivenessStore, node kv.NodeID) error {
	ctx, cancel := c.o.Host.Clock.WithTimeout(ctx, c.o.HeartbeatTimeout)
	defer cancel()
	own := c.own.Load()
	var have *ownRecord
	if own == nil {
		raw, err := store.Get(ctx, node)
		if err != nil {
			return err
		}
		if raw != nil {
			l, err := DecodeLiveness(raw)
			if err != nil {
				return err
			}
			if l.Decommissioned {
				return &DecommissionedError{Node: node}
			}
			c.learnRecord(l)
			// cluster.L2: a former life of this node may have served reads up to its expiration.
			if now := c.o.Clock.Now(); l.Live(now) {
				cancel()
				return c.o.Clock.SleepUntil(c.o.Host.Group.Context(), l.Expiration)
			}
			have = &ownRecord{record: l, raw: raw}
		}
	} else {
		have = own
	}
	for {
		next := Liveness{Node: node, Incarnation: 1}
		var expected []byte
		if have != nil {
			next, expected = have.record, have.raw
			if own == nil {
				next.Incarnation++ // a restart
			}
		}
		next.Draining = c.draining.Load()
		// cluster.L1: after a clock jumped back the expiration must not.
		next.Expiration = next.Expiration.Next().Forward(c.o.Clock.Now().Add(c.o.Expiration))
		raw := AppendLiveness(nil, &next)
		actual, swapped, err := store.CPut(ctx, node, expected, raw)
		switch {
		case err != nil:
			return err
		case swapped || bytes.Equal(actual, raw):
			c.setOwn(next, raw)
			c.kick()
			return nil
		case actual == nil:
			return &NoRecordError{Node: node}
		}
		// Somebody raised the incarnation or set a flag, or an earlier attempt that seemed to fail did not.
		l, err := DecodeLiveness(actual)
		if err != nil {
			return err
		}
		if l.Decommissioned {
			return &DecommissionedError{Node: node}
		}
		if own == nil && l.Live(c.o.Clock.Now()) {
			// Another life of this node, or a first attempt of ours whose answer was lost.
			c.learnRecord(l)
			return &StillLiveError{Record: l}
		}
		have = &ownRecord{record: l, raw: actual}
		if own != nil {
			c.setOwn(l, actual)
		}
	}
}

// IncrementIncarnation declares the leases that a node holds under an incarnation void, and returns the record
// that says so, also if somebody else did it before. It fails with *StillLiveError if the record has not expired (cluster.L2).
// Concurrent calls about one node share one attempt.
func (c *Cluster) IncrementIncarnation(ctx context.Context, node kv.NodeID, incarnation uint64) (Liveness, error) {
	for {
		if l, ok := c.Record(node); ok {
			if l.Incarnation > incarnation {
				return l, nil
			}
			if l.Live(c.o.Clock.Now()) {
				return l, &StillLiveError{Record: l}
			}
		}
		store := c.store.Load()
		if store == nil {
			return Liveness{}, &NoRecordError{Node: node}
		}
		c.mu.Lock()
		u := c.lookups[node]
		if u == nil {
			u = &lookup{done: make(chan struct{})}
			c.lookups[node] = u
			if !c.o.Host.Group.Go(func(ctx context.Context) {
				u.record, u.err = c.increment(ctx, *store, node, incarnation)
				c.mu.Lock()
				delete(c.lookups, node)
				c.mu.Unlock()
				close(u.done)
			}) {
				delete(c.lookups, node)
				c.mu.Unlock()
				return Liveness{}, context.Canceled
			}
		}
		c.mu.Unlock()
		select {
		case <-u.done:
		case <-ctx.Done():
			return Liveness{}, ctx.Err()
		}
		// The attempt may have been about an older incarnation.
		if u.err == nil && u.record.Incarnation <= incarnation {
			continue
		}
		return u.record, u.err
	}
}

func (c *Cluster) increment(ctx context.Context, store LivenessStore, node kv.NodeID, incarnation uint64) (Liveness, error) {
	ctx, cancel := c.o.Host.Clock.WithTimeout(ctx, c.o.HeartbeatTimeout)
	defer cancel()
	raw, err := store.Get(ctx, node)
	for {
		if err != nil {
			return Liveness{}, err
		}
		if raw == nil {
			return Liveness{}, &NoRecordError{Node: node}
		}
		l, err := DecodeLiveness(raw)
		if err != nil {
			return Liveness{}, err
		}
		c.learnRecord(l)
		if l.Incarnation > incarnation {
			return l, nil
		}
		if l.Live(c.o.Clock.Now()) {
			return l, &StillLiveError{Record: l}
		}
		next := l
		next.Incarnation++
		bytes := AppendLiveness(nil, &next)
		actual, swapped, err := store.CPut(ctx, node, raw, bytes)
		if err != nil {
			return Liveness{}, err
		}
		if swapped {
			c.learnRecord(next)
			c.o.Host.Log.Info("a node's leases are void", "record", next.String())
			return next, nil
		}
		raw = actual
	}
}

// Refresh reads a node's record from the store.
func (c *Cluster) Refresh(ctx context.Context, node kv.NodeID) (Liveness, error) {
	store := c.store.Load()
	if store == nil {
		return Liveness{}, &NoRecordError{Node: node}
	}
	raw, err := (*store).Get(ctx, node)
	if err != nil {
		return Liveness{}, err
	}
	if raw == nil {
		return Liveness{}, &NoRecordError{Node: node}
	}
	l, err := DecodeLiveness(raw)
	if err == nil {
		c.learnRecord(l)
	}
	return l, err
}

// SetDraining makes this node's next heartbeats, and its entry, say whether it drains.
func (c *Cluster) SetDraining(v bool) {
	c.draining.Store(v)
	c.Update(func(e *Entry) { e.Draining = v })
}

// Tell pings all nodes at once, and returns when those that answer know this node's entry as it is now, or the context ends. A node that was met only now, or did not
// answer now, is given some time and further pings: one that starts at the same time and was in the answer of a third, or one whose link was made before this node
// had its number. So of two nodes that tell the same third one, the later learns of the earlier, and tells it.
func (c *Cluster) Tell(ctx context.Context) {
	const pause, pauses, patience = 2 * time.Millisecond, 20, 500 * time.Millisecond
	c.mu.RLock()
	life, revision := c.self.Life, c.self.Revision
	c.mu.RUnlock()
	for i := 0; ; i++ {
		if i%pauses == 0 {
			c.kick()
		}
		known, now := true, c.o.Host.Clock.Monotonic()
		c.mu.RLock()
		for id, p := range c.peers {
			if (p.reached || now-p.since < patience) && !c.records[id].Decommissioned && (p.life != life || p.revision < revision) {
				known = false
				break
			}
		}
		c.mu.RUnlock()
		if known || c.o.Host.Clock.Sleep(ctx, pause) != nil {
			return
		}
	}
}

// SetDecommissioning changes another node's record, or this node's: decommissioning takes its replicas away,
// decommissioned removes it for good.
func (c *Cluster) SetDecommissioning(ctx context.Context, node kv.NodeID, decommissioning, decommissioned bool) (Liveness, error) {
	p := c.store.Load()
	if p == nil {
		return Liveness{}, &NoRecordError{Node: node}
	}
	store := *p
	raw, err := store.Get(ctx, node)
	for {
		if err != nil {
			return Liveness{}, err
		}
		if raw == nil {
			return Liveness{}, &NoRecordError{Node: node}
		}
		l, err := DecodeLiveness(raw)
		if err != nil {
			return Liveness{}, err
		}
		l.Decommissioning, l.Decommissioned = decommissioning, decommissioned
		// The logical part tells the record apart from the one it replaces and leaves the time as it was.
		l.Expiration = l.Expiration.Next()
		actual, swapped, err := store.CPut(ctx, node, raw, AppendLiveness(nil, &l))
		if err != nil {
			return Liveness{}, err
		}
		if swapped {
			c.learnRecord(l)
			return l, nil
		}
		raw = actual
	}
}
