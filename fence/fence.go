package fence

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"meridian/host"
	"meridian/kv"
	"meridian/storage/engine"
	"meridian/transport"
	"meridian/wire"
)

// Methods that nodes call.
const (
	methodAsk    = "fence.ask"
	methodRecord = "fence.record"
	methodAlive  = "fence.alive"
)

// Timing.
const (
	// PublishEvery is how often a node tells all others its position, not only those that it sends raft frames.
	PublishEvery = 5 * time.Second
	// callTimeout bounds one claim, aliveTimeout the call to an earlier start that is part of it.
	callTimeout  = 3 * time.Second
	aliveTimeout = time.Second
	// againMin and againMax are between attempts at a peer that does not answer, againAfter between claims at one that has.
	againMin, againMax = 50 * time.Millisecond, 4 * time.Second
	againAfter         = 10 * time.Second
	// hearAll is how long a node waits for peers beyond a quorum that may speak against its start, and a node without peers
	// that it needs for any.
	hearAll = 500 * time.Millisecond
	// hearAny is after which a node that no range's quorum has answered shows itself, if some peer has and none refused.
	hearAny = 5 * time.Second
)

// Network is what a fence needs of transport.
type Network interface {
	CallClass(ctx context.Context, c transport.Class, to kv.NodeID, method string, req []byte) ([]byte, error)
	CallAddr(ctx context.Context, addr, method string, req []byte) ([]byte, error)
	Handle(method string, h transport.Handler)
}

// Options of a fence.
type Options struct {
	Host    *host.Host
	Engine  *engine.Engine
	Network Network
	// Addr is where this node is reached.
	Addr string
	// Join are addresses of nodes of the cluster, which are asked for a node whose address neither membership nor the store has.
	Join []string
	// Resolve tells whether membership knows a node's address.
	Resolve func(kv.NodeID) (string, bool)
	// OnRefused is called once with a *RefusedError; the node has to stop.
	OnRefused func(error)
}

// Fence is a node's part in recording starts: its own, and those of others.
type Fence struct {
	o        Options
	register *Register
	claim    atomic.Pointer[Claim] // nil until Begin
	cleared  atomic.Bool
	refusal  sync.Once

	mu      sync.Mutex // guards the fields below; nothing is taken after it
	own     own
	peers   map[kv.NodeID]*claimed
	clear   chan struct{} // closed once recording may begin
	changed chan struct{} // closed and replaced when something of peers has changed
	// tellers are the peers that were told positions in the course of requests; toldMore is closed and replaced when one has heard.
	tellers  map[kv.NodeID]*teller
	toldAll  time.Duration // when all of them were
	toldMore chan struct{}
}

// claimed is how far the claim is at one peer.
type claimed struct {
	tried, asked, recorded bool
	wake                   chan struct{}
}

// again ends the pause before the next attempt.
func (p *claimed) again() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// New reads the register and serves others from now on.
func New(o Options) (*Fence, error) {
	f := &Fence{o: o, register: NewRegister(), peers: make(map[kv.NodeID]*claimed), clear: make(chan struct{}), changed: make(chan struct{}),
		tellers: make(map[kv.NodeID]*teller), toldMore: make(chan struct{})}
	if err := readRegister(o.Engine, f.register); err != nil {
		return nil, err
	}
	o.Network.Handle(methodAsk, func(ctx context.Context, _ kv.NodeID, req []byte) ([]byte, error) { return f.serve(ctx, req, false) })
	o.Network.Handle(methodRecord, func(ctx context.Context, _ kv.NodeID, req []byte) ([]byte, error) { return f.serve(ctx, req, true) })
	o.Network.Handle(methodTell, func(_ context.Context, _ kv.NodeID, req []byte) ([]byte, error) { return f.listen(req) })
	o.Network.Handle(methodAlive, func(context.Context, kv.NodeID, []byte) ([]byte, error) {
		c := f.claim.Load()
		if c == nil {
			return nil, nil
		}
		return wire.Append(nil, &alive{c.Node, c.Next}, (*alive).fields), nil
	})
	return f, nil
}

type alive struct {
	Node  kv.NodeID
	Start Start
}

// answer to a claim.
type answer struct {
	By     kv.NodeID
	Reason Reason
	Known  Known
}

// serve judges another node's claim, and records it (fence.FE2).
func (f *Fence) serve(ctx context.Context, req []byte, record bool) ([]byte, error) {
	var c Claim
	if err := wire.Decode(req, &c, (*Claim).fields); err != nil {
		return nil, err
	}
	own := f.claim.Load()
	if own == nil || c.Node == 0 || c.Node == own.Node {
		return nil, nil // the empty answer
	}
	f.Meet(c.Node) // it is there, and has to record this node's start too
	reason, known, callAt := f.register.Judge(&c)
	if reason == "" && callAt != "" {
		if f.runs(ctx, callAt, alive{c.Node, known.Start}) {
			reason = Running
		} else if ctx.Err() == nil {
			f.register.Clear(&c)
		}
	}
	if reason == "" && record {
		durable := false
		if reason, known, durable = f.register.Record(&c); reason == "" && !durable {
			b := f.o.Engine.NewBatch()
			putKnown(b, c.Node, known)
			err := b.Commit(true)
			_ = b.Close()
			if err != nil {
				return nil, err
			}
			f.register.Synced(c.Node, c.Next)
			f.notify()
		}
	}
	return wire.Append(nil, &answer{By: own.Node, Reason: reason, Known: known}, (*answer).fields), nil
}

// runs reports whether a start answers at an address.
func (f *Fence) runs(ctx context.Context, addr string, who alive) bool {
	a, ok := f.at(ctx, addr)
	return ok && a == who
}

// at asks which start answers at an address.
func (f *Fence) at(ctx context.Context, addr string) (a alive, ok bool) {
	ctx, cancel := f.o.Host.Clock.WithTimeout(ctx, aliveTimeout)
	defer cancel()
	reply, err := f.o.Network.CallAddr(ctx, addr, methodAlive, nil)
	if err != nil {
		return a, false
	}
	err = wire.Decode(reply, &a, (*alive).fields)
	return a, err == nil
}

// Begin makes a new start of a node, durably; joined says that the store has just become the node's, so that there is nobody
// who could know better.
func (f *Fence) Begin(node kv.NodeID, joined bool) error {
	last, err := readOwn(f.o.Engine)
	if err != nil {
		return err
	}
	n := last.next(f.o.Host.Dice.Uint64(), f.o.Engine.Opening())
	n.Cleared = joined
	if err := n.write(f.o.Engine); err != nil {
		return err
	}
	f.mu.Lock()
	f.own = n
	f.mu.Unlock()
	if joined {
		f.cleared.Store(true)
		close(f.clear)
	}
	f.claim.Store(&Claim{Node: node, Last: last.Start, Position: n.Position, Next: n.Start, Addr: f.o.Addr})
	for id := range f.register.Nodes() {
		f.Meet(id)
	}
	return nil
}

// Meet has the start claimed at a node, once it has begun.
func (f *Fence) Meet(node kv.NodeID) {
	c := f.claim.Load()
	if c == nil || node == 0 || node == c.Node {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if p := f.peers[node]; p != nil {
		if !p.recorded { // it may be there now
			p.again()
		}
		return
	}
	if len(f.peers) >= maxPeers {
		return
	}
	p := &claimed{wake: make(chan struct{}, 1)}
	f.peers[node] = p
	f.o.Host.Group.Go(func(ctx context.Context) { f.claimAt(ctx, node, p, c) })
}

// Hear is what membership tells of a node.
func (f *Fence) Hear(node kv.NodeID, addr string, s Start, position uint64) {
	if c := f.claim.Load(); c != nil && c.Node == node {
		if s.Number > c.Next.Number { // somebody was recorded as a later start of this node
			f.recheckAll()
		}
		return
	}
	f.register.Hearsay(node, addr, s, position)
	f.Meet(node)
}

// claimAt claims the start at one peer until it is recorded there, and now and then asks whether it still is.
func (f *Fence) claimAt(ctx context.Context, node kv.NodeID, p *claimed, c *Claim) {
	req := wire.Append(nil, c, (*Claim).fields)
	wait := againMin
	for ctx.Err() == nil {
		method := methodRecord
		select {
		case <-f.clear:
		default:
			f.mu.Lock()
			asked := p.asked
			f.mu.Unlock()
			if asked {
				select {
				case <-f.clear:
				case <-ctx.Done():
					return
				}
			} else {
				method = methodAsk
			}
		}
		a, err := f.call(ctx, node, method, req)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil && a.By == node && a.Reason != "":
			f.refuse(&RefusedError{Claim: *c, By: node, Reason: a.Reason, Known: a.Known})
			return
		case err == nil && a.By == node:
			f.set(p, func() {
				p.tried, p.asked = true, true
				p.recorded = p.recorded || method == methodRecord
			})
			wait = againMin
			if method == methodAsk {
				continue
			}
			if f.pause(ctx, p, againAfter) {
				wait = againMin
			}
		default:
			f.set(p, func() { p.tried = true })
			f.pause(ctx, p, wait/2+time.Duration(f.o.Host.Dice.Int64N(int64(wait/2)+1)))
			wait = min(2*wait, againMax)
		}
	}
}

// pause waits, and reports whether somebody ended that.
func (f *Fence) pause(ctx context.Context, p *claimed, d time.Duration) bool {
	timer := f.o.Host.Clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
	case <-p.wake:
		return true
	case <-ctx.Done():
	}
	return false
}

// call reaches a node where membership knows it to be, else where it was.
func (f *Fence) call(ctx context.Context, node kv.NodeID, method string, req []byte) (a answer, err error) {
	ctx, cancel := f.o.Host.Clock.WithTimeout(ctx, callTimeout)
	defer cancel()
	var reply []byte
	if _, ok := f.o.Resolve(node); ok {
		reply, err = f.o.Network.CallClass(ctx, transport.ClassSystem, node, method, req)
	} else if addr := f.register.Get(node).Addr; addr != "" {
		reply, err = f.o.Network.CallAddr(ctx, addr, method, req)
	} else if addr := f.find(ctx, node); addr != "" {
		reply, err = f.o.Network.CallAddr(ctx, addr, method, req)
	} else {
		return a, &transport.UnreachableError{Node: node, Err: errUnknown}
	}
	if err != nil {
		return a, err
	}
	err = wire.Decode(reply, &a, (*answer).fields)
	return a, err
}

// find looks for a node among the addresses to join. Nodes that wait for each other's record show themselves to nobody, so
// membership would never know them.
func (f *Fence) find(ctx context.Context, node kv.NodeID) string {
	for _, addr := range f.o.Join {
		if addr == f.o.Addr {
			continue
		}
		if a, ok := f.at(ctx, addr); ok && a.Node == node {
			return addr
		}
	}
	return ""
}

// set changes what is known of a peer.
func (f *Fence) set(p *claimed, change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	before := *p
	change()
	if before != *p {
		close(f.changed)
		f.changed = make(chan struct{})
	}
}

// notify wakes those who wait for a change.
func (f *Fence) notify() {
	f.mu.Lock()
	defer f.mu.Unlock()
	close(f.changed)
	f.changed = make(chan struct{})
}

// Changed is closed when Quorum may answer anew.
func (f *Fence) Changed() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.changed
}

func (f *Fence) refuse(err *RefusedError) {
	f.refusal.Do(func() { f.o.OnRefused(err) })
}

// Recheck asks a node again whether it has recorded this start, because it behaves as if it had not.
func (f *Fence) Recheck(node kv.NodeID) {
	f.Meet(node)
	f.mu.Lock()
	defer f.mu.Unlock()
	if p := f.peers[node]; p != nil {
		p.again()
	}
}

func (f *Fence) recheckAll() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.peers {
		p.again()
	}
}

// Own is this node's start; zero until it has begun.
func (f *Fence) Own() Start {
	if c := f.claim.Load(); c != nil {
		return c.Next
	}
	return Start{}
}

// Position is what the node tells others: nothing until its start is cleared (fence.FE4).
func (f *Fence) Position() uint64 {
	if !f.cleared.Load() {
		return 0
	}
	return f.o.Engine.Durable()
}

// Cleared reports whether a quorum has recorded the start, so that what is written counts (fence.FE4).
func (f *Fence) Cleared() bool { return f.cleared.Load() }

// Open is Register.Open.
func (f *Fence) Open(node kv.NodeID, s Start) *Peer { return f.register.Open(node, s) }

// Recorded reports whether a node has recorded this start.
func (f *Fence) Recorded(by kv.NodeID) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := f.peers[by]
	return p != nil && p.recorded
}

// majority reports whether more than half of a group has got as far as has says; this node has.
func (f *Fence) majority(d *kv.RangeDescriptor, has func(*claimed) bool) bool {
	self := f.claim.Load()
	if self == nil {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return d.Quorum(func(r *kv.ReplicaDescriptor) bool {
		p := f.peers[r.Node]
		return r.Node == self.Node || p != nil && has(p)
	})
}

// Admit reports whether this node's replica of a range may take part in raft (fence.FE1). It may write to the store.
func (f *Fence) Admit(d *kv.RangeDescriptor) (bool, error) {
	select {
	case <-f.clear:
	default:
		return false, nil
	}
	if !f.majority(d, func(p *claimed) bool { return p.recorded }) {
		return false, nil
	}
	if f.cleared.Load() {
		return true, nil
	}
	f.mu.Lock()
	n := f.own
	f.mu.Unlock()
	n.Cleared = true
	if err := n.write(f.o.Engine); err != nil {
		return false, err
	}
	f.cleared.Store(true)
	return true, nil
}

// WaitClear returns when nothing speaks against the start: all peers that are there were heard, among them a quorum of some
// range of the store. Until then the node shows itself to nobody, so that a clone does not disturb the node that it is a
// clone of. It says nothing about safety, which Admit guards.
func (f *Fence) WaitClear(ctx context.Context, ranges []kv.RangeDescriptor) error {
	shared := false
	for i := range ranges {
		for _, r := range ranges[i].Replicas {
			f.Meet(r.Node)
		}
		shared = shared || len(ranges[i].Replicas) > 1
	}
	clk := f.o.Host.Clock
	begun, warned, anyAt := clk.Monotonic(), false, time.Duration(-1)
	for {
		changed := f.Changed()
		now := clk.Monotonic()
		all, some := true, false
		var missing []kv.NodeID
		f.mu.Lock()
		for node, p := range f.peers {
			all = all && p.tried
			some = some || p.asked
			if !p.asked {
				missing = append(missing, node)
			}
		}
		f.mu.Unlock()
		if some && anyAt < 0 {
			anyAt = now
		}
		quorum := !shared
		for i := range ranges {
			d := &ranges[i]
			quorum = quorum || len(d.Replicas) > 1 && f.majority(d, func(p *claimed) bool { return p.asked })
		}
		if quorum && (all || now-begun >= hearAll) || some && now-anyAt >= hearAny {
			f.mu.Lock()
			close(f.clear)
			close(f.changed)
			f.changed = make(chan struct{})
			f.mu.Unlock()
			return nil
		}
		if !warned && now-begun >= 2*hearAny {
			warned = true
			f.o.Host.Log.Warn("this node waits for a majority of the nodes that it shares ranges with: they have to record its start", "unanswered", missing)
		}
		timer := clk.NewTimer(hearAll / 5)
		select {
		case <-changed:
		case <-timer.C():
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}
