package closedts

import (
	"cmp"
	"slices"
	"sync"

	"meridian/clock"
	"meridian/kv"
)

// Group is the sender's part of the side transport: the ranges whose leases are here and that close together, and what
// each peer has been told of them. All methods may be called concurrently.
type Group struct {
	mu     sync.Mutex // guards all below; nothing is taken after it
	closed [Policies]clock.Timestamp
	ranges map[kv.RangeID]member
	peers  map[kv.NodeID]*told
	stream uint64 // the last one that began
}

// member is one range of the group.
type member struct {
	at    Position
	peers []kv.NodeID // that have replicas; never written in place
}

// told is the state of one peer's stream.
type told struct {
	stream, seq uint64

	dirty map[kv.RangeID]struct{} // changed since the last message
	in    map[kv.RangeID]struct{}
}

// Member is a range that closes with the group, as Advance takes it.
type Member struct {
	Position
	// Peers have the range's other replicas.
	Peers []kv.NodeID
}

// NewGroup makes an empty group. Its streams are numbered from first, which is above all numbers of earlier lives of
// the node: its clock will do.
func NewGroup(first uint64) *Group {
	return &Group{ranges: make(map[kv.RangeID]member), peers: make(map[kv.NodeID]*told), stream: first}
}

// Advance says that all ranges of the group, with those that changed and without those that left, have closed the
// timestamps (closedts.CT3). It returns peers that are new.
func (g *Group) Advance(closed [Policies]clock.Timestamp, changed []Member, left []kv.RangeID) (fresh []kv.NodeID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range closed {
		g.closed[i] = g.closed[i].Forward(closed[i])
	}
	mark := func(id kv.RangeID, nodes []kv.NodeID) {
		for _, n := range nodes {
			p := g.peers[n]
			if p == nil {
				p = &told{dirty: make(map[kv.RangeID]struct{}), in: make(map[kv.RangeID]struct{})}
				g.peers[n] = p
				fresh = append(fresh, n)
			}
			p.dirty[id] = struct{}{}
		}
	}
	for _, id := range left {
		if m, ok := g.ranges[id]; ok {
			delete(g.ranges, id)
			mark(id, m.peers)
		}
	}
	for _, c := range changed {
		if m, ok := g.ranges[c.Range]; ok {
			mark(c.Range, m.peers)
		}
		g.ranges[c.Range] = member{c.Position, c.Peers}
		mark(c.Range, c.Peers)
	}
	return fresh
}

// Next is the next message to a peer; false if there is nothing that it could use.
func (g *Group) Next(to kv.NodeID) (Update, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	p := g.peers[to]
	if p == nil || len(p.in) == 0 && len(p.dirty) == 0 {
		return Update{}, false
	}
	if p.seq == 0 {
		g.stream++
		p.stream = g.stream
	}
	p.seq++
	u := Update{Stream: p.stream, Seq: p.seq, Closed: g.closed}
	for id := range p.dirty {
		if m, ok := g.ranges[id]; ok && slices.Contains(m.peers, to) {
			u.Changed = append(u.Changed, m.at)
			p.in[id] = struct{}{}
		} else if _, had := p.in[id]; had {
			u.Removed = append(u.Removed, id)
			delete(p.in, id)
		}
	}
	clear(p.dirty)
	slices.Sort(u.Removed)
	slices.SortFunc(u.Changed, func(a, b Position) int { return cmp.Compare(a.Range, b.Range) })
	return u, true
}

// Lost says that a message of a stream to a peer may have been lost: the next one begins another stream, unless it has begun.
func (g *Group) Lost(to kv.NodeID, stream uint64) {
	g.mu.Lock()
	p := g.peers[to]
	over := p == nil || p.stream != stream
	g.mu.Unlock()
	if !over {
		g.Restart(to)
	}
}

// Restart says that a message to a peer may have been lost: the next one begins anew.
func (g *Group) Restart(to kv.NodeID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	p := g.peers[to]
	if p == nil {
		return
	}
	p.seq = 0
	clear(p.in)
	clear(p.dirty)
	for id, m := range g.ranges {
		if slices.Contains(m.peers, to) {
			p.dirty[id] = struct{}{}
		}
	}
}

// Has reports whether a range is in the group.
func (g *Group) Has(id kv.RangeID) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	_, ok := g.ranges[id]
	return ok
}

// Len counts the ranges of the group.
func (g *Group) Len() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.ranges)
}

// Ranges lists the group.
func (g *Group) Ranges() []kv.RangeID {
	g.mu.Lock()
	defer g.mu.Unlock()
	out := make([]kv.RangeID, 0, len(g.ranges))
	for id := range g.ranges {
		out = append(out, id)
	}
	slices.Sort(out)
	return out
}

// Heard is the receiver's part: what other nodes have closed. All methods may be called concurrently.
type Heard struct {
	mu      sync.RWMutex // guards sources; nothing is taken after it
	sources map[kv.NodeID]*source
	turn    chan struct{} // closed when the next message has been taken; nil: no message waits for its turn
}

type source struct {
	stream uint64
	seq    uint64
	closed [Policies]clock.Timestamp
	ranges map[kv.RangeID]Position
}

// NewHeard makes one that has heard nothing.
func NewHeard() *Heard { return &Heard{sources: make(map[kv.NodeID]*source)} }

// Promise is a range's closed timestamp as of an applied index.
type Promise struct {
	Range  kv.RangeID
	Closed clock.Timestamp
	Index  uint64
}

// Turn is closed when another message has been taken, if this one has come before the one that it follows: a sender has several under way, so that a
// timestamp does not wait for the answer to the one before. Nil: Receive can tell now.
func (h *Heard) Turn(from kv.NodeID, u *Update) <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.sources[from]
	if u.Seq == 1 || s != nil && (u.Stream < s.stream || u.Stream == s.stream && u.Seq <= s.seq+1) {
		return nil
	}
	if h.turn == nil {
		h.turn = make(chan struct{})
	}
	return h.turn
}

// Receive takes a message and returns the promises that it replaces, which stay good. ErrBadUpdate means that one was
// lost, and the stream has to begin anew.
func (h *Heard) Receive(from kv.NodeID, u *Update) (old []Promise, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.sources[from]
	switch {
	case s != nil && u.Stream < s.stream: // late
		return nil, ErrBadUpdate
	case u.Seq == 1 && (s == nil || s.stream < u.Stream):
		s = &source{stream: u.Stream, ranges: make(map[kv.RangeID]Position, len(u.Changed))}
		h.sources[from] = s
	case s == nil || u.Stream != s.stream || u.Seq != s.seq+1:
		return nil, ErrBadUpdate
	}
	s.seq = u.Seq
	was := func(id kv.RangeID) {
		if p, ok := s.ranges[id]; ok {
			old = append(old, Promise{id, s.closed[p.Policy], p.Index})
		}
	}
	for _, id := range u.Removed {
		was(id)
		delete(s.ranges, id)
	}
	for _, p := range u.Changed {
		was(p.Range)
		s.ranges[p.Range] = p
	}
	s.closed = u.Closed
	if h.turn != nil {
		close(h.turn)
		h.turn = nil
	}
	return old, nil
}

// Closed is what a node has closed of a range, and the index that has to be applied; zero if it said nothing.
func (h *Heard) Closed(by kv.NodeID, id kv.RangeID) (closed clock.Timestamp, index uint64) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	if s := h.sources[by]; s != nil {
		if p, ok := s.ranges[id]; ok {
			return s.closed[p.Policy], p.Index
		}
	}
	return closed, 0
}
