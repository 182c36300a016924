package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"meridian/clock"
	"meridian/host"
	"meridian/kv"
	"meridian/transport"
	"meridian/wire"
)

// Transport is what membership needs of package transport.
type Transport interface {
	CallClass(ctx context.Context, c transport.Class, to kv.NodeID, method string, req []byte) ([]byte, error)
	CallAddr(ctx context.Context, addr, method string, req []byte) ([]byte, error)
	HandleAdmin(method string, h transport.Handler)
}

// Options are what a Cluster needs; intervals have defaults.
type Options struct {
	Host      *host.Host
	Clock     *clock.Clock
	Transport Transport
	// TimeSource says where the node has its time from, for others to see; nil: nowhere that it tells.
	TimeSource func() string
	// Join are addresses of which one at least should belong to the cluster.
	Join []string
	// OnClockBroken is called once if this node's clock disagrees with a majority; the node should stop.
	OnClockBroken func(error)
	// OnClockDoubt is called if the bounds that nodes claim on the errors of their clocks contradict each other, and no majority says which of them is wrong, and
	// with nil when they agree again. Meanwhile the node should not answer its clients.
	OnClockDoubt func(error)
	// OnRefused is called if the node has no place in the cluster: all join addresses belong to another one
	// (*WrongClusterError), or refuse its binary (*transport.VersionError), or it was decommissioned (*DecommissionedError). It should stop.
	OnRefused func(error)
	// OnSelf is called with news of this node that it has not said itself: of a former run of its process, or of another
	// one. It must not wait.
	OnSelf func(Entry)
	// Hidden: the node has an id, and tells nobody before Show.
	Hidden bool

	// PingInterval is the time between two pings to a peer; default 1 s. A heartbeat makes the next ping come at once.
	PingInterval time.Duration
	// PingTimeout bounds one ping; default 2 s.
	PingTimeout time.Duration
	// HeartbeatInterval, Expiration and HeartbeatTimeout time liveness records; defaults 0.75, 2.25 and 2 s.
	HeartbeatInterval, Expiration, HeartbeatTimeout time.Duration
	// MaxNodes bounds the entries that are kept; default 1000.
	MaxNodes int
}

// Cluster is one node's knowledge of all nodes.
type Cluster struct {
	o        Options
	draining atomic.Bool
	own      atomic.Pointer[ownRecord]
	store    atomic.Pointer[LivenessStore]
	// HeartbeatLate is how late heartbeats begin, HeartbeatTook how long they take.
	HeartbeatLate, HeartbeatTook Lateness

	mu      sync.RWMutex // guards the fields below; nothing is taken after it
	self    Entry
	hidden  bool
	entries map[kv.NodeID]*Entry // immutable values; self's too, once its id is known
	records map[kv.NodeID]Liveness
	peers   map[kv.NodeID]*peer
	lookups map[kv.NodeID]*lookup
	subs    map[int]func(Entry)
	nextSub int
	started bool
	broken  bool          // OnClockBroken was called
	judged  time.Duration // monotonic time of the last comparison of claims
	verdict verdict       // of that
	hinted  time.Duration // monotonic time at which another node last told of a contradiction
	kicked  chan struct{} // closed and replaced when all peers should be pinged at once
}

// peer is what pings to one node measured.
type peer struct {
	rtt     time.Duration // smoothed; zero: not known
	offset  Offset
	claim   claim
	met     time.Duration // monotonic time of the first ping
	reached bool          // the last ping was answered
	since   time.Duration // monotonic time at which reached became what it is, or of the first ping
	inexact bool          // the last ping was refused, took too long for its measurement to tell anything, and was repeated at once

	// brief is how many brief pings follow before the next digest.
	brief int
	// life and revision are those of this node's entry that the peer has, as far as answers tell.
	life, revision uint64
	// wordy: the peer's build answers brief pings with all that it knows, so it gets none.
	wordy bool
}

// digestPeers is how many peers, about, a node sends its digest to in a round of pings, so that the work of a round grows with the number of nodes and not with
// its square. With up to one more node than this every ping has the digest.
const digestPeers = 8

// digestRounds is in how many rounds of pings each peer gets the digest once. The caller holds c.mu.
func (c *Cluster) digestRounds() int { return max((len(c.peers)+digestPeers-1)/digestPeers, 1) }

// Offset is how far a peer's clock is ahead of this node's, give or take Error.
type Offset struct {
	Node          kv.NodeID
	Offset, Error time.Duration
	// Excessive: the peer and this node refuse each other's readings, and what the peer's own clock shows does not make sure that the two clocks agree. Offset
	// is only a lower bound then.
	Excessive bool
	// Source is where the peer has its time from, and Epsilon how uncertain that was then; empty and zero: it has not said.
	Source  string
	Epsilon time.Duration
	// Age is how long ago that was, and State whether it counts; Offsets sets them.
	Age   time.Duration
	State string
	at    time.Duration // monotonic time of the measurement; zero: none
	lost  bool          // no answer since: the peer's clock may have been set right meanwhile
}

// counts reports whether the measurement still says something.
func (o *Offset) counts(now time.Duration) bool {
	return o.at != 0 && !o.lost && now-o.at <= offsetFresh
}

// States of an Offset.
const (
	OffsetUnknown = "not measured"
	OffsetStale   = "not measured lately"
	OffsetBeyond  = "beyond 80 % of the maximum"
	OffsetGood    = "good"
	// OffsetWrong is that of a node whose bound a majority contradicts, OffsetContradicts that of one whose bound does not meet this node's.
	OffsetWrong       = "outside of its bound"
	OffsetContradicts = "contradicts this node's bound"
)

// clockLimit is by how much two clocks may disagree before one of them is taken for broken.
func clockLimit(most time.Duration) time.Duration { return most * 8 / 10 }

// beyond reports whether the clocks surely disagree by more than a limit.
func (o *Offset) beyond(limit time.Duration) bool {
	return o.Excessive || o.Offset.Abs()-o.Error > limit
}

// New makes a cluster that knows only self; self.Node may be zero until Update sets it.
func New(o Options, self Entry) *Cluster {
	def := func(v *time.Duration, d time.Duration) {
		if *v == 0 {
			*v = d
		}
	}
	def(&o.PingInterval, time.Second)
	def(&o.PingTimeout, 2*time.Second)
	def(&o.HeartbeatInterval, 750*time.Millisecond)
	def(&o.Expiration, 2250*time.Millisecond)
	def(&o.HeartbeatTimeout, 2*time.Second)
	if o.MaxNodes == 0 {
		o.MaxNodes = 1000
	}
	if self.StartedAt.IsZero() {
		self.StartedAt = o.Clock.Wall().UTC()
	}
	self.Life, self.Revision = uint64(self.StartedAt.UnixNano()), 1
	c := &Cluster{
		o: o, self: self, hidden: o.Hidden,
		entries: make(map[kv.NodeID]*Entry),
		records: make(map[kv.NodeID]Liveness),
		peers:   make(map[kv.NodeID]*peer),
		lookups: make(map[kv.NodeID]*lookup),
		subs:    make(map[int]func(Entry)),
		kicked:  make(chan struct{}),
	}
	c.publishSelf()
	o.Transport.HandleAdmin(PingMethod, c.answer)
	return c
}

// publishSelf makes the own entry visible once the id is known. The caller holds c.mu, or is alone.
func (c *Cluster) publishSelf() {
	if c.self.Node != 0 && !c.hidden {
		e := c.self
		c.entries[e.Node] = &e
	}
}

// Show makes the node known to others.
func (c *Cluster) Show() {
	c.mu.Lock()
	c.hidden = false
	c.mu.Unlock()
	c.Update(func(*Entry) {})
	c.kick()
}

// Start begins to ping and, until a peer answers, to ask the join addresses. It does not wait.
func (c *Cluster) Start() {
	c.mu.Lock()
	c.started = true
	var nodes []kv.NodeID
	for id := range c.entries {
		nodes = append(nodes, id)
	}
	c.mu.Unlock()
	for _, id := range nodes {
		c.meet(id)
	}
	if len(c.o.Join) > 0 {
		c.o.Host.Group.Go(c.join)
	}
}

// Self is this node's own entry.
func (c *Cluster) Self() Entry {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.self
}

// Update changes this node's own entry and tells the others.
func (c *Cluster) Update(f func(*Entry)) {
	c.mu.Lock()
	life, revision := c.self.Life, c.self.Revision
	f(&c.self)
	c.self.Life, c.self.Revision = life, revision+1
	c.publishSelf()
	e := c.self
	subs := c.subscribers()
	shown := e.Node != 0 && !c.hidden
	c.mu.Unlock()
	if shown {
		for _, f := range subs {
			f(e)
		}
	}
}

// Nodes lists all known entries in order of node id, this node's included.
func (c *Cluster) Nodes() []Entry {
	c.mu.RLock()
	out := make([]Entry, 0, len(c.entries))
	for _, e := range c.entries {
		out = append(out, *e)
	}
	c.mu.RUnlock()
	slices.SortFunc(out, func(a, b Entry) int { return cmp.Compare(a.Node, b.Node) })
	return out
}

// Get returns a node's entry.
func (c *Cluster) Get(id kv.NodeID) (Entry, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if e := c.entries[id]; e != nil {
		return *e, true
	}
	return Entry{}, false
}

// entry is Get, but returns this node's own entry also before others are shown it.
func (c *Cluster) entry(id kv.NodeID) (Entry, bool) {
	if self := c.Self(); self.Node == id {
		return self, true
	}
	return c.Get(id)
}

// Resolve is transport's Options.Resolve.
func (c *Cluster) Resolve(id kv.NodeID) (string, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if e := c.entries[id]; e != nil {
		return e.Addr, e.Addr != ""
	}
	return "", false
}

// Latency is the smoothed round trip to a node, zero to this one; ok is false until it was measured.
func (c *Cluster) Latency(id kv.NodeID) (rtt time.Duration, ok bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if id == c.self.Node {
		return 0, true
	}
	if p := c.peers[id]; p != nil && p.rtt != 0 {
		return p.rtt, true
	}
	return 0, false
}

// Reachable reports whether the last ping to a node was answered.
func (c *Cluster) Reachable(id kv.NodeID) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if id == c.self.Node {
		return true
	}
	p := c.peers[id]
	return p != nil && p.reached
}

// Offsets lists the clock offsets of all known peers in order of node id.
func (c *Cluster) Offsets() []Offset {
	now := c.o.Host.Clock.Monotonic()
	limit := clockLimit(c.o.Clock.MaxOffset())
	own := c.ownClaim()
	c.mu.RLock()
	var out []Offset
	for id, p := range c.peers {
		o := p.offset
		o.Node = id
		switch {
		case o.at == 0:
			o.State = OffsetUnknown
		case !o.counts(now):
			o.State = OffsetStale
		case o.beyond(limit):
			o.State = OffsetBeyond
		case slices.Contains(c.verdict.wrong, id):
			o.State = OffsetWrong
		case p.claim.at != 0 && !p.claim.later(now).Meets(own.Interval):
			o.State = OffsetContradicts
		default:
			o.State = OffsetGood
		}
		if o.at != 0 {
			o.Age = now - o.at
		}
		out = append(out, o)
	}
	c.mu.RUnlock()
	slices.SortFunc(out, func(a, b Offset) int { return cmp.Compare(a.Node, b.Node) })
	return out
}

// Subscribe calls f for every entry that is new or has changed, from now on, until the returned function is called.
// f must not wait.
func (c *Cluster) Subscribe(f func(Entry)) (cancel func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	id := c.nextSub
	c.nextSub++
	c.subs[id] = f
	return func() {
		c.mu.Lock()
		delete(c.subs, id)
		c.mu.Unlock()
	}
}

// subscribers copies the callbacks. The caller holds c.mu.
func (c *Cluster) subscribers() []func(Entry) {
	out := make([]func(Entry), 0, len(c.subs))
	for _, f := range c.subs {
		out = append(out, f)
	}
	return out
}

// Learn takes in entries from elsewhere, such as the node descriptors in the system range.
func (c *Cluster) Learn(entries ...*Entry) {
	for _, e := range entries {
		c.learn(e)
	}
}

func (c *Cluster) learn(e *Entry) {
	c.mu.Lock()
	if e.Node == c.self.Node {
		// News of a former life of this node whose clock ran ahead: outbid it, or it would shadow the present one.
		if e.newer(c.self.Life, c.self.Revision) {
			c.self.Life, c.self.Revision = e.Life+1, 1
			c.publishSelf()
		}
		c.mu.Unlock()
		if c.o.OnSelf != nil {
			c.o.OnSelf(*e)
		}
		return
	}
	old := c.entries[e.Node]
	if old != nil && !e.newer(old.Life, old.Revision) || old == nil && len(c.entries) >= c.o.MaxNodes {
		c.mu.Unlock()
		return
	}
	c.entries[e.Node] = e
	if p := c.peers[e.Node]; p != nil && old != nil && old.Life != e.Life {
		p.brief, p.life = 0, 0 // the node has started again and may know nothing
	}
	subs := c.subscribers()
	started := c.started
	c.mu.Unlock()
	if old == nil {
		c.o.Host.Log.Info("met a node", "node", e.Node, "addr", e.Addr, "locality", e.Locality.String())
	}
	for _, f := range subs {
		f(*e)
	}
	if started {
		c.meet(e.Node)
	}
}

// meet starts to ping a node, once.
func (c *Cluster) meet(id kv.NodeID) {
	c.mu.Lock()
	if id == c.self.Node || c.peers[id] != nil {
		c.mu.Unlock()
		return
	}
	now := c.o.Host.Clock.Monotonic()
	p := &peer{met: now, since: now}
	c.peers[id] = p
	c.mu.Unlock()
	c.o.Host.Group.Go(func(ctx context.Context) { c.pinger(ctx, id, p) })
}

// kick makes every pinger ping now.
func (c *Cluster) kick() {
	c.mu.Lock()
	close(c.kicked)
	c.kicked = make(chan struct{})
	c.mu.Unlock()
}

// pinger pings one node for ever.
func (c *Cluster) pinger(ctx context.Context, id kv.NodeID, p *peer) {
	timer := c.o.Host.Clock.NewTimer(0)
	defer timer.Stop()
	for {
		c.mu.RLock()
		kicked := c.kicked
		gone := c.records[id].Decommissioned
		c.mu.RUnlock()
		interval := c.o.PingInterval
		if gone {
			interval *= 30
		}
		again := c.pingOnce(ctx, id, p)
		if ctx.Err() != nil {
			return
		}
		if again {
			continue // the first round trip included the connection's; measure again
		}
		// Jitter keeps the pings of many nodes apart. A clock that goes wrong is to be found within the interval (cluster.L5).
		timer.Reset(interval*8/10 + time.Duration(c.o.Host.Dice.Int64N(int64(interval/5))))
		if gone {
			kicked = nil
		}
		select {
		case <-timer.C():
		case <-kicked:
			timer.Stop()
		case <-ctx.Done():
			return
		}
	}
}

// pingOnce reports whether to ping again at once: the peer answered after it had not before, or its refusal took long.
func (c *Cluster) pingOnce(ctx context.Context, id kv.NodeID, p *peer) (again bool) {
	pctx, cancel := c.o.Host.Clock.WithTimeout(ctx, c.o.PingTimeout)
	defer cancel()
	out := c.pingTo(p)
	out.contradicts = c.contradicts(p)
	req := wire.Append(make([]byte, 0, 256+40*len(out.digest)), &out, (*ping).fields)
	start, wall := c.o.Host.Clock.Monotonic(), c.o.Clock.Wall()
	reply, err := c.o.Transport.CallClass(pctx, transport.ClassSystem, id, PingMethod, req)
	end := c.o.Host.Clock.Monotonic()
	var answer *pong
	if err == nil {
		var a pong
		if a, err = wire.Decoded(reply, (*pong).fields); err == nil {
			answer = &a
		}
	}
	if err == nil {
		c.absorb(answer) // before the peer counts as told: Tell returns then, and its caller goes by the news
	}
	var excessive *transport.OffsetError
	c.mu.Lock()
	first := err == nil && !p.reached
	if p.reached != (err == nil) {
		p.since = end
	}
	p.reached, again = err == nil, first
	c.said(p, &out, answer, first)
	switch {
	case errors.As(err, &excessive):
		o := c.refused(excessive, wall, start, end)
		o.Node = id
		if p.inexact = o.Excessive && o.Error != 0 && !p.inexact; p.inexact {
			again = true
		} else {
			p.offset = o
		}
	case err == nil:
		rtt := end - start
		if !first {
			if p.rtt == 0 {
				p.rtt = max(rtt, 1)
			} else {
				// A ping that a short cut held up says little about the next ones: gateways would avoid the node for half a minute.
				rtt := min(rtt, max(4*p.rtt, p.rtt+5*time.Millisecond))
				p.rtt = max(p.rtt+(rtt-p.rtt)/5, 1)
			}
			p.claim = claimed(id, answer, start, end)
			p.offset = Offset{Node: id, Offset: answer.wall.Sub(wall) - rtt/2, Error: rtt / 2, Source: answer.source, Epsilon: answer.epsilon, at: max(end, 1)}
		}
	default:
		p.offset.lost = true
	}
	// A measurement that speaks for this node's clock changes nothing.
	suspect := p.offset.beyond(clockLimit(c.o.Clock.MaxOffset()))
	theirs := p.claim
	c.mu.Unlock()
	c.judgeClaims(end, err == nil && theirs.at == max(end, 1) && !theirs.Meets(c.ownClaim().Interval))
	if suspect {
		c.checkClock(end)
	}
	return again
}

// refused is what a refusal says about the peer's clock and this one; wall is what this one showed at the beginning of the call. A reading may have been too far
// ahead because of a third clock, which one of the two has followed (clock.C2) and the other one refuses. So the offset is measured, as that of any other ping,
// by what the peer's own clock showed, if the error is so small that two clocks further apart than the maximum are found to be beyond the limit, or the two surely agree.
func (c *Cluster) refused(e *transport.OffsetError, wall time.Time, start, end time.Duration) Offset {
	theirs := e.Wall
	if g := e.Greeting; g != nil {
		wall, start, end = g.Wall, g.Begun, g.Ended
	}
	if p, err := wire.Decoded(e.Reply, (*pong).fields); len(e.Reply) > 0 && err == nil {
		theirs = p.wall
	}
	took, at := end-start, max(end, 1)
	o := Offset{Node: e.Node, Offset: theirs.Sub(wall) - took/2, Error: took / 2, at: at}
	most := c.o.Clock.MaxOffset()
	if limit := clockLimit(most); !theirs.IsZero() && (o.Error <= most-limit || o.Offset.Abs()+o.Error <= limit) {
		return o
	}
	if theirs.IsZero() {
		took = 0
	}
	return Offset{Node: e.Node, Offset: most, Error: took / 2, Excessive: true, at: at}
}

// absorb takes in an answer's news.
func (c *Cluster) absorb(p *pong) {
	for _, e := range p.entries {
		c.learn(e)
	}
	for _, l := range p.records {
		c.learnRecord(l)
	}
}

// pingTo chooses between a brief ping to a peer and one with the digest. A peer that has not answered gets the digest.
func (c *Cluster) pingTo(p *peer) ping {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if !p.reached || p.wordy || p.brief == 0 {
		return c.ping()
	}
	out := ping{brief: true, record: c.ownRecord()}
	if c.self.Life != p.life || c.self.Revision != p.revision {
		out.entry = c.ownEntry()
	}
	return out
}

// said takes note of what a peer has after a ping; answer is nil if there was none. The caller holds c.mu.
func (c *Cluster) said(p *peer, out *ping, answer *pong, first bool) {
	rounds := c.digestRounds()
	switch {
	case answer == nil:
		p.brief = 0
		return
	case out.brief:
		p.brief = min(p.brief, rounds) - 1
		p.wordy = !answer.brief
	case first:
		// The digests of one round go to a part of the peers, and to another part in the next one.
		if p.wordy, p.brief = false, rounds-1; rounds > 1 {
			p.brief = int(c.o.Host.Dice.Int64N(int64(rounds)))
		}
	default:
		p.brief = rounds - 1
	}
	if out.entry != nil {
		p.life, p.revision = out.entry.Life, out.entry.Revision
	}
}

// ping is this node's half of an exchange that tells it all news. The caller holds c.mu.
func (c *Cluster) ping() ping {
	p := ping{entry: c.ownEntry(), record: c.ownRecord(), digest: make([]known, 0, len(c.entries))}
	for id, e := range c.entries {
		r := c.records[id]
		p.digest = append(p.digest, known{id, e.Life, e.Revision, r.Incarnation, r.Expiration})
	}
	return p
}

// ownEntry is this node's entry, nil before others may see it. The caller holds c.mu.
func (c *Cluster) ownEntry() *Entry {
	if c.hidden {
		return nil
	}
	return c.entries[c.self.Node]
}

// ownRecord is this node's record, nil before its first heartbeat.
func (c *Cluster) ownRecord() *Liveness {
	if own := c.own.Load(); own != nil {
		return &own.record
	}
	return nil
}

// answer is the handler of PingMethod.
func (c *Cluster) answer(_ context.Context, _ kv.NodeID, req []byte) ([]byte, error) {
	p, err := wire.Decoded(req, (*ping).fields)
	if err != nil {
		return nil, err
	}
	if p.entry != nil {
		c.learn(p.entry)
	}
	if p.record != nil {
		c.learnRecord(*p.record)
	}
	if p.contradicts {
		c.contradicted()
	}
	var a pong
	if a.brief = p.brief; !p.brief {
		c.news(p.digest, &a)
	}
	a.wall, a.epsilon = c.o.Clock.Bounded()
	if c.o.TimeSource != nil {
		a.source = c.o.TimeSource()
	}
	return wire.Append(make([]byte, 0, 64+256*len(a.entries)), &a, (*pong).fields), nil
}

// news adds to an answer all that is newer than a digest.
func (c *Cluster) news(digest []known, a *pong) {
	seen := make(map[kv.NodeID]known, len(digest))
	for _, k := range digest {
		seen[k.node] = k
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	for id, e := range c.entries {
		if k := seen[id]; e.newer(k.life, k.revision) {
			a.entries = append(a.entries, e)
		}
	}
	for id, l := range c.records {
		if k := seen[id]; l.newer(k.incarnation, k.expiration) {
			a.records = append(a.records, l)
		}
	}
}

// offsetFresh is how long a measured offset counts, if the peer goes on answering.
const offsetFresh = 10 * time.Second

// ClockError says that this node's clock disagrees with a majority of the cluster.
type ClockError struct {
	Offsets []Offset // from each node that it disagrees with
	Nodes   int      // in the cluster
	Max     time.Duration
}

func (e *ClockError) Error() string {
	worst := e.Offsets[0]
	for _, o := range e.Offsets {
		if o.Offset.Abs() > worst.Offset.Abs() {
			worst = o
		}
	}
	by := worst.Offset.String()
	if worst.Excessive {
		by += " or more"
	}
	return fmt.Sprintf("this node's clock is off from %d of %d nodes by more than 80%% of the maximum offset %s (by %s); set it right and start the node again",
		len(e.Offsets), e.Nodes, e.Max, by)
}

// WrongClusterError says that the store belongs to another cluster than the join addresses.
type WrongClusterError struct {
	Ours, Theirs [16]byte
}

func (e *WrongClusterError) Error() string {
	return fmt.Sprintf("the store belongs to cluster %x, but all --join addresses to cluster %x; use a new store, or the right addresses",
		e.Ours, e.Theirs)
}

// checkClock counts the peers that this node's clock surely disagrees with. They have to be a majority of the nodes that were met or measured lately: what was measured
// of a peer that has not answered since is no evidence, but the peer is one of the nodes. Otherwise two wrong clocks of five outvote a good one while two nodes restart,
// or of a node that starts and has pinged these two first.
func (c *Cluster) checkClock(now time.Duration) {
	limit := clockLimit(c.o.Clock.MaxOffset())
	c.mu.Lock()
	var bad []Offset
	nodes := 1
	for _, p := range c.peers {
		o := p.offset
		if now-max(p.met, o.at) > offsetFresh {
			continue
		}
		nodes++
		if o.counts(now) && o.beyond(limit) {
			bad = append(bad, o)
		}
	}
	fire := len(bad) > nodes/2 && !c.broken
	if fire {
		c.broken = true
	}
	c.mu.Unlock()
	if fire && c.o.OnClockBroken != nil {
		c.o.OnClockBroken(&ClockError{Offsets: bad, Nodes: nodes, Max: c.o.Clock.MaxOffset()})
	}
}

// join asks the join addresses for as long as no peer answers pings.
func (c *Cluster) join(ctx context.Context) {
	const every, warnEvery = time.Second, 10 * time.Second
	warned := -warnEvery
	refused := 0 // rounds in succession
	for {
		if !c.anyReached() {
			var errs []error
			for _, addr := range c.o.Join {
				if addr == c.Self().Addr {
					continue
				}
				if err := c.ask(ctx, addr); err != nil {
					errs = append(errs, err)
					continue
				}
				errs = nil
				break
			}
			refused++
			if why := c.refusal(errs); why == nil {
				refused = 0
			} else if refused == refusedRounds {
				why()
			}
			now := c.o.Host.Clock.Monotonic()
			if len(errs) > 0 && now-warned >= warnEvery && ctx.Err() == nil {
				warned = now
				for _, err := range errs {
					c.o.Host.Log.Warn("can't reach a --join address; trying again", "error", err)
				}
			}
		}
		if c.o.Host.Clock.Sleep(ctx, every) != nil {
			return
		}
	}
}

// refusedRounds is how often in succession a node without peers has to be refused at the join addresses to give up.
const refusedRounds = 3

// refusal says what to do about the answers of join addresses of which none let this node in: nothing, unless all of
// them belong to another cluster or refuse its binary, or more than half, and two nodes at least, find its clock wrong. (Peers that were met are asked by pings, see
// checkClock; a node that starts with a wrong clock never meets any.)
func (c *Cluster) refusal(errs []error) func() {
	var bad []Offset
	var wrong *WrongClusterError
	others, versions := 0, 0
	var version *transport.VersionError
	for _, err := range errs {
		var offset *transport.OffsetError
		var mismatch *transport.ClusterMismatchError
		switch {
		case errors.As(err, &offset):
			bad = append(bad, Offset{Node: offset.Node, Offset: c.o.Clock.MaxOffset(), Excessive: true})
		case errors.As(err, &mismatch):
			others++
			wrong = &WrongClusterError{Ours: mismatch.Ours, Theirs: mismatch.Theirs}
		case errors.As(err, &version):
			versions++
		}
	}
	switch {
	case others > 0 && others == len(errs) && c.o.OnRefused != nil:
		return func() { c.o.OnRefused(wrong) }
	case versions > 0 && versions == len(errs) && c.o.OnRefused != nil:
		return func() { c.o.OnRefused(version) }
	case len(bad) > len(errs)/2 && refusers(bad) > 1 && c.o.OnClockBroken != nil:
		return func() { c.clockBroken(&ClockError{Offsets: bad, Nodes: len(errs) + 1, Max: c.o.Clock.MaxOffset()}) }
	}
	return nil
}

// refusers counts nodes, of which one may have several addresses. A single one that finds this node's clock wrong may be the one whose clock is wrong, and
// is then no majority, as in checkClock.
func refusers(bad []Offset) int {
	seen := make(map[kv.NodeID]bool)
	others := 0 // whose ids are not known
	for _, o := range bad {
		if o.Node == 0 {
			others++
		} else {
			seen[o.Node] = true
		}
	}
	return others + len(seen)
}

// clockBroken reports once.
func (c *Cluster) clockBroken(err error) {
	c.mu.Lock()
	fire := !c.broken
	c.broken = true
	c.mu.Unlock()
	if fire {
		c.o.OnClockBroken(err)
	}
}

func (c *Cluster) anyReached() bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, p := range c.peers {
		if p.reached {
			return true
		}
	}
	return false
}

// ask pings an address and takes in what it says.
func (c *Cluster) ask(ctx context.Context, addr string) error {
	ctx, cancel := c.o.Host.Clock.WithTimeout(ctx, c.o.PingTimeout)
	defer cancel()
	start, wall := c.o.Host.Clock.Monotonic(), c.o.Clock.Wall()
	c.mu.RLock()
	req := c.ping()
	c.mu.RUnlock()
	reply, err := c.o.Transport.CallAddr(ctx, addr, PingMethod, wire.Append(nil, &req, (*ping).fields))
	var excessive *transport.OffsetError
	if errors.As(err, &excessive) {
		if o := c.refused(excessive, wall, start, c.o.Host.Clock.Monotonic()); !o.beyond(clockLimit(c.o.Clock.MaxOffset())) {
			return fmt.Errorf("%s: %v", addr, err) // of a third clock: no evidence, see refusal
		}
	}
	if err != nil {
		return fmt.Errorf("%s: %w", addr, err)
	}
	p, err := wire.Decoded(reply, (*pong).fields)
	if err != nil {
		return fmt.Errorf("%s: %w", addr, err)
	}
	c.absorb(&p)
	return nil
}
