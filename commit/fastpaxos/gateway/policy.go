package gateway

import (
	"context"
	"slices"
	"time"

	"meridian/commit/fastpaxos/core"
	"meridian/keys"
	"meridian/kv"
)

// Policies: for how long a record has a master, and at which gateway (§3.3.2). Acceptors know nothing of them, and nothing that is promised depends on them: a policy says when a master
// opens a record, and whom a gateway asks first.
//
//	             collision                    gamma options, or cold
//	fast ballot ----------> a gateway decides ----------------------> fast ballot
//	                             |      ^
//	                             +------+ another region writes it more (learned)
//
// A classic master begins in its gateway's term (term.go), and goes on there when it is forgotten and needed again, so that it decides about any record in one round.
//
//	fastpaxos.FP55 (liveness): A gateway that thinks that a record has a master asks that one directly, without a proposal to the replicas. It may be wrong: a gateway that has no master of the
//	    record says so, and one that does not answer is not waited for; then the replicas are asked, and say in which ballot they are.
//	fastpaxos.FP56 (I2, I4): A master that rests keeps its ballot and the state that a classic quorum has accepted last. Before it decides again it takes in the outcomes that the nearest replica knows of options in that state, also
//	    if it was never at rest: an option that has ended is in nobody's way. Nobody else proposes in the ballot, and a gateway that takes the record over has a later one: then what this master proposes is refused.

// Chosen by us, and measured with figure 6 (docs/mdcc/figure6.md).
const (
	// coldAfter is after how long without an option such a master opens the record, staleAfter one of the policy gamma, whose options are counted; forgottenAfter is when a classic one is forgotten.
	coldAfter, staleAfter, forgottenAfter = 3 * time.Second, 30 * time.Second, time.Minute
	// offersEvery is how often, at most, a gateway is offered a record that it writes most.
	offersEvery = 2 * time.Second
	// followsFor is for how long a gateway asks the master of a record first, after the last it heard of that; coldAfter with the policy learned.
	followsFor = 10 * time.Second
	// ledFor is for how long a gateway relies on what it has heard about a range's leaseholder.
	ledFor = 10 * time.Second
	// keptMost bounds the records that a gateway keeps, and sweepEvery is how often it looks for those that are cold.
	keptMost   = 4096
	sweepEvery = 500 * time.Millisecond
)

// near reports whether two nodes are in one region, as far as this one knows.
func (c *masters) near(a, b kv.NodeID) bool {
	if a == b {
		return true
	}
	if r, ok := c.o.Sender.(Regions); ok {
		region := r.Region(a)
		return region != "" && region == r.Region(b)
	}
	return false
}

// resume gives the master that a reign has kept, if the range is still in its generation.
func (c *masters) resume(g *reign, in core.Place) (m *core.Master) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if g.kept != nil && g.kept.in == in {
		m = g.kept.Master
	}
	g.kept = nil
	return m
}

// rest keeps a master that has nothing to do. It reports whether somebody waits all the same.
func (c *masters) rest(g *reign, m *core.Master, in core.Place) (wanted bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !m.Idle() {
		return false
	}
	g.kept = &keptMaster{Master: m, in: in, last: c.o.Host.Clock.Monotonic()}
	return g.taken < len(g.asked)
}

// takes has a new master take the record though nobody asks, if the gateway is to be its master: in a ballot after the one that it was offered in.
func (c *masters) takes(g *reign, m *core.Master) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if g.take {
		g.take, m.Highest = false, m.Highest.Later(g.known)
		m.Take()
	}
}

// mends reports whether somebody wants the record's replicas to be made the same, and with versions. A master that keeps the record does this by proposing what it takes in (fastpaxos.FP56).
func (c *masters) mends(g *reign) (mends, versions bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	asked := g.asked[min(g.taken, len(g.asked)):]
	return slices.ContainsFunc(asked, (*petition).mends), slices.ContainsFunc(asked, (*petition).versions)
}

// refreshed has a master take in the outcomes that the nearest replica knows (fastpaxos.FP56).
func (c *masters) refreshed(ctx context.Context, k keys.Key, m *core.Master, version bool) {
	ctx, cancel := c.o.Host.Clock.WithTimeout(ctx, nearby)
	defer cancel()
	if r, err := c.send(ctx, &core.Request{Kind: core.Query, Key: k}); err == nil && r.Record != nil {
		m.Refresh(r.Record, version)
	}
}

// keepsSome has somebody look after masters that rest. masters.mu is held.
func (c *masters) keepsSome() {
	if !c.sweeping {
		c.sweeping = c.o.Host.Group.Go(c.sweep)
	}
}

// sweep opens records that are kept and cold.
func (c *masters) sweep(ctx context.Context) {
	for {
		stopped := c.o.Host.Clock.Sleep(ctx, sweepEvery) != nil
		now := c.o.Host.Clock.Monotonic()
		var back []*core.Master
		c.mu.Lock()
		resting, most := 0, 0
		for _, g := range c.reigns {
			if g.kept != nil && !g.driven {
				most++
			}
		}
		for k, g := range c.reigns {
			if g.kept == nil || g.driven {
				continue
			}
			idle, p := now-g.kept.last, c.policy(keys.Key(k))
			after := time.Duration(0)
			switch p.Ballots {
			case core.LearnedBallots:
				after = coldAfter
			case core.GammaBallots:
				after = staleAfter
			case core.ClassicBallots:
				after = forgottenAfter
			}
			switch {
			case idle <= after && most <= keptMost && !stopped:
				resting++
			case stopped || p.Ballots == core.ClassicBallots:
				most--
				delete(c.reigns, k) // the next master goes on in the term, or prepares another ballot
				back = append(back, g.kept.Master)
			default:
				most--
				g.kept.Release()
				c.drive(keys.Key(k), g)
			}
		}
		c.sweeping = resting > 0
		over := !c.sweeping
		c.mu.Unlock()
		for _, m := range back {
			m.Term.GiveBack(m)
		}
		if over {
			return
		}
	}
}

// master is where a gateway thinks that a record's master is. The ballot's round is zero if only the node is known.
func (c *masters) master(ctx context.Context, k keys.Key) (to core.Ballot, known bool) {
	p := c.policy(k)
	if p.Ballots == core.FastBallots {
		return to, false
	}
	self, leader := c.o.NodeID(), kv.NodeID(0)
	if p.Ballots == core.ClassicBallots {
		if n := c.leaseholder(ctx, k); n == self || n != 0 && c.answers(n) > 0 {
			leader = n
		}
	}
	now := c.o.Host.Clock.Monotonic()
	c.mu.Lock()
	defer c.mu.Unlock()
	f, follows := c.followed[string(k)]
	follows = follows && now < f.until
	switch {
	case leader != 0 && !(follows && f.to.Node() == leader):
		return core.Ballot{Master: uint64(leader)}, true
	case follows:
		return f.to, true
	case c.reigns[string(k)] != nil:
		return core.Ballot{Master: uint64(self)}, true
	}
	return to, false
}

// newMaster makes the master of a record of a range: in the term that the gateway has, if that covers the record. The gateway at the leaseholder takes one for classic records (term.go).
func (c *masters) newMaster(ctx context.Context, k keys.Key, d *kv.RangeDescriptor) *core.Master {
	policy := c.policy(k)
	var t *core.Term
	if c.leads(ctx, k) {
		t, _ = c.term(ctx, k)
	} else {
		c.mu.Lock()
		if v := c.terms[d.ID]; v != nil {
			t = v.t
		}
		c.mu.Unlock()
	}
	if t != nil && t.In != core.PlaceOf(d) {
		t = nil
	}
	m, _ := c.masterInTerm(ctx, t, k, policy.Kept())
	if m == nil {
		m = core.NewMaster(k, c.number(), core.QuorumsIn(d), c.o.Columns, policy.Kept())
		m.Generation = d.Generation
	}
	m.Judges = policy.Ballots == core.LearnedBallots
	return m
}

// leaseholder is the node near which a classic record's master is. Zero: it is not known, or does not answer. A lease may move, of which those who write without it do not hear: the range is asked
// again from time to time.
func (c *masters) leaseholder(ctx context.Context, k keys.Key) kv.NodeID {
	l, ok := c.o.Sender.(Leaders)
	if !ok {
		return 0
	}
	info, err := c.o.Sender.Range(ctx, k, false)
	if err != nil {
		return 0
	}
	now := c.o.Host.Clock.Monotonic()
	c.mu.Lock()
	last, known := c.led[info.Desc.ID]
	again := !known || now-last > ledFor
	if again {
		if len(c.led) >= hottest {
			clear(c.led)
		}
		c.led[info.Desc.ID] = now
	}
	c.mu.Unlock()
	if again && info.Leaseholder.Node != 0 {
		c.later(func(ctx context.Context) { _, _ = l.Leaseholder(ctx, k, true) })
	}
	if n := info.Leaseholder.Node; n != 0 {
		return n
	}
	ctx, cancel := c.o.Host.Clock.WithTimeout(ctx, roundTime)
	defer cancel()
	n, err := l.Leaseholder(ctx, k, false)
	if err != nil {
		return 0
	}
	return n
}

// leads reports whether this gateway is the one near which a classic record's master is.
func (c *masters) leads(ctx context.Context, k keys.Key) bool {
	return c.policy(k).Ballots == core.ClassicBallots && c.leaseholder(ctx, k) == c.o.NodeID()
}

// follow remembers the master of a record.
func (c *masters) follow(k keys.Key, to core.Ballot) {
	ballots := c.policy(k).Ballots
	if n := to.Node(); n == 0 || n == c.o.NodeID() || to.Fast || ballots == core.FastBallots {
		c.unfollow(k)
		return
	}
	now, last := c.o.Host.Clock.Monotonic(), followsFor
	if ballots == core.LearnedBallots {
		last = coldAfter // if it has heard of no other options by then, the master has opened the record
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.followed) >= hottest {
		for k, f := range c.followed {
			if f.until < now {
				delete(c.followed, k)
			}
		}
		if len(c.followed) >= hottest {
			clear(c.followed)
		}
	}
	c.followed[string(k)] = follows{to: to, until: now + last}
}

func (c *masters) unfollow(k keys.Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.followed, string(k))
}

// handedTo is the gateway that has been offered a record that is kept here, zero if none has.
func (c *masters) handedTo(k keys.Key) kv.NodeID {
	now := c.o.Host.Clock.Monotonic()
	c.mu.Lock()
	defer c.mu.Unlock()
	if f, ok := c.followed[string(k)]; ok && f.gave && now < f.until {
		return f.to.Node()
	}
	return 0
}

// handOver offers a record to a gateway, if most of its writes come from that one's region, and says in which ballot it is.
func (c *masters) handOver(k keys.Key, to kv.NodeID) (in core.Ballot, yours bool) {
	if c.policy(k).Ballots != core.LearnedBallots || c.near(to, c.o.NodeID()) {
		return in, false
	}
	now := c.o.Host.Clock.Monotonic()
	c.mu.Lock()
	g, r := c.reigns[string(k)], c.settled.get(string(k))
	if g == nil || r == nil || r.Promised.Fast || g.handed > 0 && now-g.handed < offersEvery {
		c.mu.Unlock()
		return in, false
	}
	last := g.writers
	c.mu.Unlock()
	if !last.most(func(n kv.NodeID) bool { return c.near(n, to) }) {
		return in, false
	}
	c.follow(k, core.Ballot{Master: uint64(to)})
	c.mu.Lock()
	g.handed = now
	if f, ok := c.followed[string(k)]; ok {
		f.gave = true
		c.followed[string(k)] = f
	}
	c.mu.Unlock()
	return r.Promised, true
}

// takeOver makes this gateway the master of a record that it writes most.
func (c *masters) takeOver(k keys.Key, from core.Ballot) {
	c.unfollow(k)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reigns[string(k)] != nil {
		return
	}
	g := &reign{known: from, take: true}
	c.reigns[string(k)] = g
	c.drive(k, g)
}
