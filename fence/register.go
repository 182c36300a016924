package fence

import (
	"fmt"
	"sync"
	"sync/atomic"

	"meridian/kv"
)

// Start is one run of a node's process on its store. Zero is none.
type Start struct {
	Number, Token uint64
}

// Claim is what a node says to be heard as a new start.
type Claim struct {
	Node kv.NodeID
	// Last is the start before, as the store remembers it, and Position where the store was found.
	Last     Start
	Position uint64
	Next     Start
	Addr     string
}

// Known is what a node remembers of another one.
type Known struct {
	Start    Start
	Position uint64
	Addr     string
}

// Reason is why a claim was refused.
type Reason string

const (
	// Superseded: a later start is known.
	Superseded Reason = "superseded"
	// Twin: another start has the same number, so two copies of one store have been started.
	Twin Reason = "twin"
	// Behind: the store was found at a position before one that the node had reached.
	Behind Reason = "behind"
	// Running: an earlier start answers at its address.
	Running Reason = "running"
)

// RefusedError says why a node may not act on its store.
type RefusedError struct {
	Claim  Claim
	By     kv.NodeID
	Reason Reason
	Known  Known
}

func (e *RefusedError) Error() string {
	c := &e.Claim
	why := ""
	switch e.Reason {
	case Running:
		return fmt.Sprintf("node %d is running at %s already (start %d), as node %d has found; this store is a copy of its store, or the process there is one that should have ended. "+
			"To add a node, start it on an empty store", c.Node, e.Known.Addr, e.Known.Start.Number, e.By)
	case Twin:
		why = fmt.Sprintf("node %d has recorded another start %d of this node: a copy of the store has been in use", e.By, e.Known.Start.Number)
	case Superseded:
		why = fmt.Sprintf("node %d has recorded start %d of this node, and this is start %d", e.By, e.Known.Start.Number, c.Next.Number)
	default:
		why = fmt.Sprintf("node %d has seen this node at position %d, and the store was found at %d", e.By, e.Known.Position, c.Position)
	}
	return fmt.Sprintf("this is not the latest store of node %d, but an old copy or a clone: %s. It lacks what the node has acknowledged since, so it can't be used. "+
		"If the latest store is still there, use that. Otherwise start the node on an empty store, as which it joins as a new node, "+
		"and give up the old one: meridian node decommission %d", c.Node, why, c.Node)
}

// Register is what a node knows of the starts of others.
type Register struct {
	mu    sync.Mutex // guards peers; nothing is taken after it
	peers map[kv.NodeID]*Peer
}

// Peer is a register's entry.
type Peer struct {
	start    atomic.Pointer[Start]
	position atomic.Uint64

	// guarded by Register.mu
	addr  string
	asked uint64 // token of a claim that was found good
	saved Known  // what is on disk
	// synced is the start of which a record is durable; hearsay may be ahead of it, and saved is written without a sync.
	synced Start
	// former is the position that was known when the present start was heard of, so that its claim, which may come after the hearsay, is
	// compared with what the starts before had reached.
	former uint64
}

// NewRegister makes an empty one.
func NewRegister() *Register { return &Register{peers: make(map[kv.NodeID]*Peer)} }

// maxPeers bounds the nodes that are remembered; numbers of nodes are never used again.
const maxPeers = 4096

// peer returns a node's entry, made if need be; the caller holds r.mu.
func (r *Register) peer(node kv.NodeID) *Peer {
	p := r.peers[node]
	if p == nil {
		p = &Peer{}
		p.start.Store(&Start{})
		if len(r.peers) < maxPeers {
			r.peers[node] = p
		}
	}
	return p
}

func (p *Peer) known() Known {
	return Known{Start: *p.start.Load(), Position: p.position.Load(), Addr: p.addr}
}

// Load puts in what was on disk.
func (r *Register) Load(node kv.NodeID, k Known) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.peer(node)
	p.start.Store(&k.Start)
	p.position.Store(k.Position)
	p.addr, p.saved, p.synced = k.Addr, k, k.Start
}

// Get is what is known of a node.
func (r *Register) Get(node kv.NodeID) Known {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p := r.peers[node]; p != nil {
		return p.known()
	}
	return Known{}
}

// Nodes lists the nodes with their addresses.
func (r *Register) Nodes() map[kv.NodeID]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make(map[kv.NodeID]string, len(r.peers))
	for id, p := range r.peers {
		out[id] = p.addr
	}
	return out
}

// judge compares a claim with what is known; empty: nothing speaks against it.
func judge(k Known, c *Claim) Reason {
	switch {
	case k.Start == c.Next, k.Start == Start{}:
		return ""
	case k.Start.Number > c.Next.Number:
		return Superseded
	case k.Start.Number == c.Next.Number, k.Start.Number == c.Last.Number && k.Start != c.Last:
		return Twin
	case k.Position > c.Position:
		return Behind
	}
	return ""
}

// judge is judge of what this node knows. A start that was only heard of, and has not claimed here yet, is compared with what was known before:
// the hearsay would otherwise take the objection away.
func (p *Peer) judge(k *Known, c *Claim) Reason {
	if k.Start == c.Next && p.synced != c.Next && p.former > c.Position {
		k.Position = p.former
		return Behind
	}
	return judge(*k, c)
}

// Judge looks at a claim. If nothing known speaks against it, callAt is not empty if an earlier start may still run there.
func (r *Register) Judge(c *Claim) (refused Reason, k Known, callAt string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.peers[c.Node]
	if p == nil {
		return "", Known{}, ""
	}
	k = p.known()
	refused = p.judge(&k, c)
	if refused == "" && k.Start != c.Next && k.Start != (Start{}) && p.asked != c.Next.Token {
		callAt = k.Addr
	}
	return refused, k, callAt
}

// Clear notes that no earlier start answers, so that it need not be called again for this claim.
func (r *Register) Clear(c *Claim) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.peer(c.Node).asked = c.Next.Token
}

// Record takes a claim in, unless something has come between. If it is not durable yet, the caller makes it so, and calls Synced,
// before it answers (fence.FE2).
func (r *Register) Record(c *Claim) (refused Reason, k Known, durable bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.peer(c.Node)
	k = p.known()
	if refused = p.judge(&k, c); refused != "" {
		return refused, k, false
	}
	if k.Start != c.Next {
		next := c.Next
		p.start.Store(&next)
	}
	p.addr = c.Addr
	return "", p.known(), p.synced == c.Next
}

// Synced notes that the record of a start is durable.
func (r *Register) Synced(node kv.NodeID, s Start) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.peer(node).synced = s
}

// Hearsay is what a node said of itself, or what others tell of it. It is a hint, as membership is: it may only make this node
// stricter. A start that is newly heard of has a quorum elsewhere. It reports false if a later start is known, or another one with the
// same number.
func (r *Register) Hearsay(node kv.NodeID, addr string, s Start, position uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.peer(node)
	have := *p.start.Load()
	switch {
	case s.Number < have.Number || s.Number == have.Number && s != have:
		return false
	case s != have:
		p.former = p.position.Load()
		p.start.Store(&s)
	}
	if addr != "" {
		p.addr = addr
	}
	p.heard(position)
	return true
}

func (p *Peer) heard(position uint64) {
	for {
		have := p.position.Load()
		if have >= position || p.position.CompareAndSwap(have, position) {
			return
		}
	}
}

// Open begins to hear a node's raft frames under a start; nil if that is not the one that is recorded (fence.FE3).
func (r *Register) Open(node kv.NodeID, s Start) *Peer {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p := r.peers[node]; p != nil && s != (Start{}) && *p.start.Load() == s {
		return p
	}
	return nil
}

// Heard takes in the position of a frame. It reports whether the start is still the one that is recorded.
func (p *Peer) Heard(s Start, position uint64) bool {
	if *p.start.Load() != s {
		return false
	}
	p.heard(position)
	return true
}

// Unsaved calls f with what has changed since it was last called, to be written.
func (r *Register) Unsaved(f func(node kv.NodeID, k Known)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for node, p := range r.peers {
		if k := p.known(); k != p.saved {
			p.saved = k
			f(node, k)
		}
	}
}
