package rangeserver

import (
	"sync/atomic"

	"meridian/clock"
	"meridian/host"
	"meridian/keys"
	"meridian/kv"
	"meridian/replica"
	"meridian/storage/engine"
)

// Range is the view of its replica that a participant of another protocol than the leader's gets.
type Range struct {
	s *Store
	r *replica.Replica
	// promised is about how many bytes were written to the delta since the generation began, or the node was started.
	promised atomic.Int64
	// opened is when the generation began here, or the node was started, on the monotonic clock.
	opened atomic.Int64
	// vouched is a position of the store below which each promise of the delta is that is durable (fence.FE5). In an idle range it rests.
	vouched atomic.Uint64
	// lagging is how many rows this replica knows to be behind.
	lagging atomic.Int64
}

// vouch notes that what was promised is durable. It comes before the promise can be given.
func (g *Range) vouch() {
	for now := g.s.o.Engine.Durable(); ; {
		if have := g.vouched.Load(); have >= now || g.vouched.CompareAndSwap(have, now) {
			return
		}
	}
}

// Desc is the range as of the last applied command. It is never written in place.
func (g *Range) Desc() *kv.RangeDescriptor { return g.r.Desc() }

// Self is this replica.
func (g *Range) Self() kv.ReplicaDescriptor { return g.r.Self() }

// Generation is the range's generation as this replica knows it, and how far its end has come.
func (g *Range) Generation() replica.Generation { return g.r.Generation() }

// Leads reports whether this replica is the range's leaseholder, as far as it knows.
func (g *Range) Leads() bool {
	_, ok := g.r.CheckLease(clock.Timestamp{})
	return ok
}

// Acts reports whether this replica may act in a generation.
func (g *Range) Acts(generation uint64) bool { return g.r.Acts(generation) }

// Engine reads the replica's data: the base, and the delta under DeltaKey.
func (g *Range) Engine() engine.Reader { return g.s.o.Engine }

// Host is the node's.
func (g *Range) Host() *host.Host { return g.s.o.Host }

// StartedAt is a timestamp that all is before which earlier processes of the node have read off its clock.
func (g *Range) StartedAt() clock.Timestamp { return g.s.o.StartedAt }

// AppliedIn is up to which index the range's log is in what a reader of the engine shows.
func (g *Range) AppliedIn(src engine.Reader) (uint64, error) {
	return replica.AppliedIn(src, g.r.RangeID())
}

// Reads is at or below the timestamps at which the cluster's transactions read, as far as this node has heard of them, and never after now.
func (g *Range) Reads(now clock.Timestamp) clock.Timestamp { return g.s.protect(now, now) }

// Clock is the node's.
func (g *Range) Clock() *clock.Clock { return g.s.o.Clock }

// DeltaKey is where Write puts a name in a generation.
func (g *Range) DeltaKey(generation uint64, name []byte) keys.Key {
	return keys.DeltaKey(g.r.RangeID(), generation, name)
}

// DeltaSpan is all of a replica's delta of a generation.
func (g *Range) DeltaSpan(generation uint64) keys.Span {
	p := keys.DeltaPrefix(g.r.RangeID(), generation)
	return keys.Span{Start: p, End: p.PrefixEnd()}
}

// Delta is a change of a replica's promises in one generation.
type Delta struct {
	b          *engine.Batch
	id         kv.RangeID
	generation uint64
	key        keys.Key // of the last change; its beginning is that of all
	prefix     int
}

// Put sets a name's value.
func (d *Delta) Put(name, value []byte) { d.b.Put(d.at(name), value) }

// Delete removes a name.
func (d *Delta) Delete(name []byte) { d.b.Delete(d.at(name)) }

// at is a name's key, until the next change.
func (d *Delta) at(name []byte) keys.Key {
	if d.key == nil {
		d.key = keys.DeltaPrefix(d.id, d.generation)
		d.prefix = len(d.key)
	}
	d.key = append(d.key[:d.prefix], name...)
	return d.key
}

// promised is a change of a delta that is in the engine.
type promised struct {
	g    *Range
	b    *engine.Batch
	then func()
}

// SyncWait implements durable.
func (p *promised) SyncWait() error {
	err := p.b.SyncWait()
	_ = p.b.Close()
	if err == nil {
		p.g.vouch()
	}
	return err
}

// Synced implements durable.
func (p *promised) Synced() {
	if p.then != nil {
		p.then()
	}
}

// promise puts a change into the engine. When it returns without an error, each report of this replica's sealed generation has
// the change (replica.R8).
func (g *Range) promise(generation uint64, change func(*Delta)) (*promised, error) {
	if !g.r.Acts(generation) {
		return nil, g.s.generationError(g.r)
	}
	p := &promised{g: g, b: g.s.o.Engine.NewBatch()}
	change(&Delta{b: p.b, id: g.r.RangeID(), generation: generation})
	g.promised.Add(int64(p.b.Len()))
	if err := p.b.CommitNoSyncWait(); err != nil {
		_ = p.b.Close()
		return nil, err
	}
	if !g.r.Acts(generation) { // the change may be reported, or not: it was not acknowledged
		if err := p.SyncWait(); err != nil {
			return nil, err
		}
		return nil, g.s.generationError(g.r)
	}
	return p, nil
}

// Write changes the replica's delta and returns when the change is durable: the replica may answer with the promise then. All writers of
// the store share its sync. *kv.GenerationError: the replica does not act in this generation.
func (g *Range) Write(generation uint64, change func(*Delta)) error {
	p, err := g.promise(generation, change)
	if err != nil {
		return err
	}
	if err := p.SyncWait(); err != nil {
		g.s.Fatal(err)
		return err
	}
	return nil
}

// WriteThen is Write for callers that must not wait: then is called by the store's syncer when the change is durable, and must not
// wait either.
func (g *Range) WriteThen(generation uint64, change func(*Delta), then func()) error {
	p, err := g.promise(generation, change)
	if err != nil {
		return err
	}
	p.then = then
	g.s.await(p)
	return nil
}

// WriteLater is Write for what may be lost if the node crashes: it is durable with whatever is written after it.
func (g *Range) WriteLater(generation uint64, change func(*Delta)) error {
	if !g.r.Acts(generation) {
		return g.s.generationError(g.r)
	}
	b := g.s.o.Engine.NewBatch()
	defer b.Close()
	change(&Delta{b: b, id: g.r.RangeID(), generation: generation})
	g.promised.Add(int64(b.Len()))
	if err := b.Commit(false); err != nil {
		g.s.Fatal(err)
		return err
	}
	if !g.r.Acts(generation) { // the change may be reported, or not
		return g.s.generationError(g.r)
	}
	return nil
}

// Holds says how many bytes the delta has, about, for a participant that does not only add to it: the range is folded by it.
func (g *Range) Holds(bytes int64) { g.promised.Store(bytes) }

// Lags says of how many rows this replica knows that it lacks something which has committed, or may have. It is zero again in a new generation.
func (g *Range) Lags(rows int) { g.lagging.Store(int64(rows)) }

// Send sends a message to another replica's participant. It travels with the messages of raft, and may be lost. If it gives a
// promise, the promise has to be durable already. A replica that does not act in this generation does not receive it.
func (g *Range) Send(to kv.ReplicaDescriptor, generation uint64, body []byte) {
	if body == nil {
		body = []byte{}
	}
	if to.Replica == g.r.ReplicaID() {
		return
	}
	g.s.SendRaft(replica.Message{Range: g.r.RangeID(), From: g.r.Self(), To: to, Generation: generation, Body: body})
}

// generationError says in which generation a replica is.
func (s *Store) generationError(r *replica.Replica) error {
	g, d := r.Generation(), r.Desc()
	return &kv.GenerationError{Range: r.RangeID(), Desc: d, Sealed: g.Stage != replica.Open || r.Barred()}
}
