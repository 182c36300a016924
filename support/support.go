package support

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"meridian/clock"
	"meridian/host"
	"meridian/keys"
	"meridian/kv"
	"meridian/storage/engine"
	"meridian/transport"
	"meridian/wire"
)

// Method is the transport method of heartbeats.
const Method = "support.ask"

// Timing. The sum of Every and the longest round trip, 300 ms between continents, leaves as much of Duration again for what comes late.
const (
	// Duration is how long a node supports another one without hearing from it.
	Duration = 800 * time.Millisecond
	// Every is how often a node asks.
	Every = 200 * time.Millisecond
	// Reach is how far ahead of the clock support lasts, if it is renewed in time.
	Reach = Duration - Every - 300*time.Millisecond
	// margin is by how much less a node counts than it was given: more than two monotonic clocks may differ by in Duration (clock.Drift).
	margin = Duration / 100

	// watchEvery is how often deadlines are looked at, at least; a look that comes later than lateness moves them.
	watchEvery = 50 * time.Millisecond
	lateness   = 10 * time.Millisecond
	// wantFor is how long a withdrawal is wanted that was wanted once.
	wantFor = 3 * time.Second
	// refusedPause is after which a peer is asked again that has refused.
	refusedPause = 20 * time.Millisecond
	// meetEvery is how often the nodes of the cluster are listed; one that is not named forgetAfter times is not asked for support any more.
	meetEvery   = time.Second
	forgetAfter = 10
	// silentAfter is for how long a node may be known and not ask.
	silentAfter = 3 * time.Second
	// inFlight bounds the heartbeats to a peer that have not been answered.
	inFlight = 4
	// maxNodes bounds the nodes that are remembered.
	maxNodes = 4096
)

// Network is what support needs of transport.
type Network interface {
	CallClass(ctx context.Context, c transport.Class, to kv.NodeID, method string, req []byte) ([]byte, error)
	Handle(method string, h transport.Handler)
}

// Options of a Support.
type Options struct {
	Host    *host.Host
	Clock   *clock.Clock
	Engine  *engine.Engine
	Network Network
	// Active reports whether the cluster's version has this; before, a node answers and does not ask.
	Active func() bool
	// Position is the position of this node's store, as its peers remember it, and Heard takes in that of another node; false: what came with it does not count (fence.FE5). Nil:
	// nobody remembers any.
	Position func() kv.StorePosition
	Heard    func(node kv.NodeID, at kv.StorePosition) bool
	// OnFatal is told that the disk has failed.
	OnFatal func(error)
}

// Support is a node's part: the support that it has of others, and that it gives them.
type Support struct {
	o Options

	// Of this process; set by Begin.
	self    atomic.Uint32
	base    uint64        // its first incarnation
	current atomic.Uint64 // its incarnation for new leases; zero: not begun
	begun   time.Duration // by the monotonic clock
	ready   clock.Timestamp
	first   bool // no earlier process has given anything

	// Lapsed counts how often another node lost this node's support, since it was not heard of in time; Withdrawals the incarnations that were withdrawn from, durably. Asks counts
	// heartbeats that were sent, and Refused those that got no support.
	Lapsed, Withdrawals, Asks, Refused atomic.Int64
	// Missed is for how long, in nanoseconds, this node did not listen, because it got no processor.
	Missed atomic.Int64

	abstains atomic.Int64 // until when, by the monotonic clock, this node wants no support

	held atomic.Pointer[map[kv.NodeID]*peer] // who has been asked; replaced under mu

	mu      sync.RWMutex // guards the fields below; nothing is taken after it
	given   map[kv.NodeID]*given
	missed  time.Duration // by how much the watch has come late, in sum
	version uint64        // of this node's withdrawals
	wants   map[want]time.Duration
	changed chan struct{} // closed and replaced when a withdrawal became known, or support for a node lapsed
	peers   func() []kv.NodeID
	started bool
}

// peer is another node as one that supports this one.
type peer struct {
	node  kv.NodeID
	has   atomic.Pointer[support] // nil: never
	kick  chan struct{}
	flies atomic.Int32

	// Under Support.mu: what the peer has said of its support for others.
	told    map[kv.NodeID]withdrawal
	version uint64      // of told
	heard   uint64      // the version of this node's withdrawals that it has
	absent  int         // how often the cluster's list has not had it
	asked   atomic.Bool // a goroutine asks it again and again
}

// support is what a peer has promised.
type support struct {
	least uint64        // for this incarnation and later ones
	until time.Duration // by this node's monotonic clock
	end   clock.Timestamp
}

// given is another node as one that this one supports.
type given struct {
	incarnation uint64          // the largest that it has named
	least       uint64          // smaller ones are not supported any more, durably
	said        clock.Timestamp // what this node says of them: the end
	end         clock.Timestamp // of all that was given
	deadline    time.Duration   // of the monotonic clock, less missed
	had         bool            // it has had support, of this process or an earlier one
	gives       bool
	raising     bool          // least is being written
	expected    time.Duration // from when it should ask, likewise; zero: it need not
	silent      bool
}

// lapsed reports whether a node that has had support has none. One that asks for the first time, and has to wait until that is on the disk, is not gone.
func (g *given) lapsed() bool { return !g.gives && g.had }

// New reads what this node has withdrawn, and answers others from now on.
func New(o Options) (*Support, error) {
	s := &Support{o: o, given: make(map[kv.NodeID]*given), wants: make(map[want]time.Duration), changed: make(chan struct{})}
	s.held.Store(&map[kv.NodeID]*peer{})
	span := keys.SupportSpan()
	it, err := o.Engine.NewIter(engine.IterOptions{Lower: span.Start, Upper: span.End})
	if err != nil {
		return nil, err
	}
	defer it.Close()
	for ok := it.First(); ok; ok = it.Next() {
		k, _ := it.Key()
		node, err := keys.DecodeSupportKey(k)
		if err != nil {
			return nil, err
		}
		v, err := it.Value()
		if err != nil {
			return nil, err
		}
		var w withdrawal
		if err := wire.Decode(v, &w, (*withdrawal).fields); err != nil {
			return nil, fmt.Errorf("support: what was withdrawn from node %d: %w", node, err)
		}
		s.given[kv.NodeID(node)] = &given{had: true, incarnation: w.least, least: w.least, said: w.end, end: w.end}
	}
	if err := it.Error(); err != nil {
		return nil, err
	}
	o.Network.Handle(Method, s.serve)
	return s, nil
}

// Begin gives the process its node and the number of its start, which is larger than that of every earlier start of the node. peers lists the nodes of the cluster, now and then.
func (s *Support) Begin(node kv.NodeID, start uint64, peers func() []kv.NodeID) {
	s.mu.Lock()
	if s.started {
		s.mu.Unlock()
		return
	}
	s.started = true
	s.base = start << 32
	s.version = s.base
	s.begun = s.o.Host.Clock.Monotonic()
	s.ready = s.o.Clock.Now().Add(Duration)
	s.first = start <= 1
	s.peers = peers
	for _, g := range s.given {
		s.inherit(g)
	}
	s.mu.Unlock()
	s.self.Store(uint32(node))
	s.o.Host.Group.Go(s.watch)
	s.o.Host.Group.Go(s.meetPeers)
	s.o.Host.Group.Go(func(ctx context.Context) {
		if !s.first { // support.SU4
			for s.o.Clock.Now().LessEq(s.ready) || s.o.Host.Clock.Monotonic() < s.begun+Duration+margin {
				if s.o.Host.Clock.Sleep(ctx, watchEvery) != nil {
					return
				}
			}
		}
		s.current.Store(s.base)
		s.kickAll()
	})
}

// inherit takes it that an earlier process of this node gave support at its last moment (support.SU1).
func (s *Support) inherit(g *given) {
	if s.first {
		return
	}
	g.deadline = s.begun + Duration
	g.end = g.end.Forward(s.ready)
	g.gives = s.attended() < g.deadline
}

// attended is the monotonic clock as far as this node has been listening.
func (s *Support) attended() time.Duration { return s.o.Host.Clock.Monotonic() - s.missed }

// of is what is given to a node; nil if there is no room for one more.
func (s *Support) of(node kv.NodeID) *given {
	g := s.given[node]
	if g == nil && len(s.given) < maxNodes {
		g = &given{}
		s.inherit(g)
		s.given[node] = g
	}
	return g
}

// Incarnation is this node's incarnation for new leases; zero: it has none yet, or the cluster's version has no such leases.
func (s *Support) Incarnation() uint64 {
	if !s.o.Active() {
		return 0
	}
	return s.current.Load()
}

// Abstain has this node ask nobody for support for some time: it can't use its leases, and others should have them.
func (s *Support) Abstain(d time.Duration) {
	s.abstains.Store(int64(s.o.Host.Clock.Monotonic() + d))
}

// Unbroken reports whether no node can have withdrawn its support for an incarnation of this one: each that is there has promised it, for now.
func (s *Support) Unbroken(incarnation uint64) bool {
	if s.current.Load() != incarnation {
		return false // some node has
	}
	now := s.o.Host.Clock.Monotonic()
	for _, p := range *s.held.Load() {
		if h := p.has.Load(); p.asked.Load() && (h == nil || h.least > incarnation || now >= h.until) {
			return false
		}
	}
	return true
}

// Earlier reports whether an incarnation of this node is of an earlier process (support.SU4).
func (s *Support) Earlier(incarnation uint64) bool { return incarnation < s.base }

// Ended is a timestamp after all that earlier processes of this node have been promised (support.SU4).
func (s *Support) Ended() clock.Timestamp { return s.ready }

// Held is until when, by the monotonic clock, and for which timestamps a lease of this node under an incarnation may be used: a majority of the range's voters support
// it. Zero: it may not.
func (s *Support) Held(d *kv.RangeDescriptor, incarnation uint64) (until time.Duration, end clock.Timestamp) {
	if s.current.Load() == 0 || incarnation < s.base {
		return 0, clock.Timestamp{}
	}
	now := s.o.Host.Clock.Monotonic()
	self := kv.NodeID(s.self.Load())
	var buf [8]support
	have := buf[:0]
	peers := *s.held.Load()
	of := func(r *kv.ReplicaDescriptor) support {
		if r.Node == self {
			return support{until: now + Duration - margin, end: clock.Timestamp{Wall: s.o.Clock.Wall().UnixNano() + int64(Duration)}}
		}
		p := peers[r.Node]
		if p == nil || !p.asked.Load() {
			s.meet(r.Node)
			return support{}
		}
		if h := p.has.Load(); h != nil && h.least <= incarnation && now < h.until {
			return *h
		}
		return support{}
	}
	for i := range d.Replicas {
		r := &d.Replicas[i]
		h := support{}
		if r.Type.Votes() {
			h = of(r)
		}
		have = append(have, h)
	}
	// The latest moment at which a quorum's support lasts still, and the earliest end among those whose does.
	for _, h := range have {
		if h.until <= until {
			continue
		}
		least := clock.MaxTimestamp
		if d.Quorum(func(r *kv.ReplicaDescriptor) bool {
			i := slices.IndexFunc(d.Replicas, func(o kv.ReplicaDescriptor) bool { return o.Replica == r.Replica })
			if have[i].until < h.until {
				return false
			}
			least = least.Backward(have[i].end)
			return true
		}) {
			until, end = h.until, least
		}
	}
	return until, end
}

// Over reports whether a lease of another node's incarnation is over: a majority of the range's voters have withdrawn from it. The next lease begins after end.
func (s *Support) Over(d *kv.RangeDescriptor, node kv.NodeID, incarnation uint64) (end clock.Timestamp, over bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	self := kv.NodeID(s.self.Load())
	over = d.Quorum(func(r *kv.ReplicaDescriptor) bool {
		w, ok := s.said(r.Node, self, node)
		if !ok || w.least <= incarnation {
			return false
		}
		end = end.Forward(w.end)
		return true
	})
	return end, over
}

// Down reports whether a majority of a range's voters say that they support a node no more.
func (s *Support) Down(d *kv.RangeDescriptor, node kv.NodeID) bool {
	return s.say(d, node, func(w *withdrawal) bool { return w.lapsed })
}

// Gone is Down, or true if the node, which has been seen to have an incarnation, has never asked: it died before it could.
func (s *Support) Gone(d *kv.RangeDescriptor, node kv.NodeID) bool {
	return s.say(d, node, func(w *withdrawal) bool { return w.lapsed || w.silent })
}

// say reports whether a majority of a range's voters say something of a node.
func (s *Support) say(d *kv.RangeDescriptor, node kv.NodeID, what func(*withdrawal) bool) bool {
	self := kv.NodeID(s.self.Load())
	if node == self || s.current.Load() == 0 {
		return false
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	return d.Quorum(func(r *kv.ReplicaDescriptor) bool {
		w, ok := s.said(r.Node, self, node)
		return ok && what(&w)
	})
}

// said is what a node, which may be this one, says of another.
func (s *Support) said(by, self, of kv.NodeID) (w withdrawal, ok bool) {
	if by == self {
		g := s.given[of]
		if g == nil {
			return w, false
		}
		return withdrawal{node: of, least: g.least, end: g.said, lapsed: g.lapsed(), silent: g.silent}, true
	}
	if p := (*s.held.Load())[by]; p != nil {
		w, ok = p.told[of]
	}
	return w, ok
}

// Of is the incarnation of another node, as far as it has named one, and whether this node supports it.
func (s *Support) Of(node kv.NodeID) (incarnation uint64, supported bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if g := s.given[node]; g != nil {
		return g.incarnation, g.gives && !g.raising
	}
	return 0, false
}

// Await returns when a lease of another node's incarnation is over, or the context ends. It asks the voters to withdraw, which those do that support the node no more.
func (s *Support) Await(ctx context.Context, d *kv.RangeDescriptor, node kv.NodeID, incarnation uint64) (end clock.Timestamp, err error) {
	w := want{node, incarnation}
	for {
		changed := s.Changed()
		if end, over := s.Over(d, node, incarnation); over {
			return end, nil
		}
		s.mu.Lock()
		s.wants[w] = s.o.Host.Clock.Monotonic() + wantFor
		s.withdrawFor(w)
		s.mu.Unlock()
		for _, r := range d.Replicas {
			s.kick(r.Node)
		}
		timer := s.o.Host.Clock.NewTimer(Every)
		select {
		case <-changed:
		case <-timer.C():
		case <-ctx.Done():
		}
		timer.Stop()
		if err := ctx.Err(); err != nil {
			return end, err
		}
	}
}

// Changed is closed when a withdrawal has become known, or some node's support for another has lapsed.
func (s *Support) Changed() <-chan struct{} {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.changed
}

// tell says that something has changed. The caller has the lock.
func (s *Support) tell() {
	close(s.changed)
	s.changed = make(chan struct{})
}
