package cluster

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"meridian/clock"
	"meridian/kv"
)

// claim is where true time is by the clock of a node and the bound that it claims, relative to this node's monotonic clock: the difference of the two, in nanoseconds.
// It is exact: the peer's reading lies between two of this node's monotonic clock, one before the ping was sent and one after it was answered (cluster.L5).
//
//	this node, monotonic   --start------------------------end--
//	                            \\                      /
//	peer, wall                   `---- wall, epsilon ---'        true - monotonic is in [wall - epsilon - end, wall + epsilon - start]
type claim struct {
	node kv.NodeID
	clock.Interval
	at time.Duration // monotonic time of the end; zero: the node has not said
}

// claimFresh is how long a claim is compared with others: its node's clock may have been set since, and then the next ping says so.
const claimFresh = 2500 * time.Millisecond

// claimed is the claim of an answer to a ping.
func claimed(node kv.NodeID, p *pong, start, end time.Duration) claim {
	if p.source == "" {
		return claim{} // of a build that does not say its epsilon, or of a node that has none
	}
	wall := p.wall.UnixNano()
	return claim{node, clock.Interval{Earliest: clock.Timestamp{Wall: wall - int64(p.epsilon+end)}, Latest: clock.Timestamp{Wall: wall + int64(p.epsilon-start)}}, max(end, 1)}
}

// later is the claim as of a later reading of the monotonic clock, whose rate may be wrong by clock.Drift.
func (k claim) later(now time.Duration) claim {
	d := int64(clock.Drifted(max(now-k.at, 0)))
	k.Earliest.Wall -= d
	k.Latest.Wall += d
	return k
}

// own is this node's claim.
func (c *Cluster) ownClaim() claim {
	start := c.o.Host.Clock.Monotonic()
	wall, epsilon := c.o.Clock.Bounded()
	end := c.o.Host.Clock.Monotonic()
	return claimed(c.Self().Node, &pong{wall: wall, epsilon: epsilon, source: "own"}, start, end)
}

// verdict is what follows from the claims of nodes.
type verdict struct {
	// wrong are nodes whose claims do not meet what a majority of the nodes allows.
	wrong []kv.NodeID
	// undecided: some of the other claims do not meet each other, and no majority says which of them are wrong.
	undecided bool
	// apart is by how much the claims miss each other, at most.
	apart time.Duration
}

func (v verdict) fine() bool { return len(v.wrong) == 0 && !v.undecided }

func (v verdict) equal(w verdict) bool {
	return slices.Equal(v.wrong, w.wrong) && v.undecided == w.undecided
}

// judge compares claims. If all are right, true time is in all of them, so they have a point in common; if they have none, one of them is wrong at least (cluster.L5).
// nodes is how many nodes there are, some of which may have claimed nothing lately.
func judge(claims []claim, nodes int) (v verdict) {
	if v.apart = missing(claims); v.apart == 0 {
		return v
	}
	of := make([]clock.Interval, len(claims))
	for i, k := range claims {
		of[i] = k.Interval
	}
	_, agree, ok := clock.Agreement(of, nodes/2+1)
	var rest []claim
	for i, k := range claims {
		if !ok || agree[i] {
			rest = append(rest, k)
		} else {
			v.wrong = append(v.wrong, k.node)
		}
	}
	slices.Sort(v.wrong)
	v.undecided = missing(rest) > 0
	return v
}

// missing is by how much claims miss having a point in common; zero: they have one.
func missing(claims []claim) time.Duration {
	if len(claims) == 0 {
		return 0
	}
	from, to := claims[0].Earliest.Wall, claims[0].Latest.Wall
	for _, k := range claims[1:] {
		from, to = max(from, k.Earliest.Wall), min(to, k.Latest.Wall)
	}
	return time.Duration(max(from-to, 0))
}

// BoundError says that nodes claim bounds on the errors of their clocks that can't all be right (cluster.L5).
type BoundError struct {
	// Node is this node.
	Node kv.NodeID
	// Wrong are the nodes that a majority contradicts; none: no majority agrees. Own: this node is one of them.
	Wrong []kv.NodeID
	Own   bool
	// Apart is by how much the intervals miss each other, Epsilon this node's bound, Nodes the number of nodes.
	Apart, Epsilon time.Duration
	Nodes          int
}

func (e *BoundError) Error() string {
	apart, epsilon := e.Apart.Round(time.Microsecond), e.Epsilon.Round(time.Microsecond)
	if e.Own {
		return fmt.Sprintf("this node's clock is outside of the bound %s that it claims: a majority of %d nodes contradicts it, by %s at least; set the clock right, or the bound (--clock-source, --clock-bound), and start the node again",
			epsilon, e.Nodes, apart)
	}
	if len(e.Wrong) > 0 {
		var names []string
		for _, n := range e.Wrong {
			names = append(names, fmt.Sprintf("n%d", n))
		}
		return fmt.Sprintf("the clock of %s is outside of the bound that it claims: a majority of %d nodes contradicts it, by %s at least", strings.Join(names, ", "), e.Nodes, apart)
	}
	return fmt.Sprintf("clocks of %d nodes contradict each other: the bounds that they claim miss each other by %s, so one at least is wrong, and no majority says which; this node claims %s", e.Nodes, apart, epsilon)
}

// judgeEvery is how often the claims are compared, if no peer's claim contradicts this node's.
const judgeEvery = 500 * time.Millisecond

// judgeClaims acts on what the claims say. It is called after each ping; contradicted: the last one's claim does not meet this node's.
func (c *Cluster) judgeClaims(now time.Duration, contradicted bool) {
	own := c.ownClaim()
	c.mu.Lock()
	if !contradicted && now-c.judged < judgeEvery || c.broken {
		c.mu.Unlock()
		return
	}
	c.judged = now
	claims, nodes := []claim{own}, 1
	for _, p := range c.peers {
		if now-max(p.met, p.offset.at) <= offsetFresh {
			nodes++
		}
		if p.claim.at != 0 && !p.offset.lost && now-p.claim.at <= claimFresh {
			claims = append(claims, p.claim.later(now))
		}
	}
	v := judge(claims, nodes)
	was := c.verdict
	c.verdict = v
	wrong := slices.Contains(v.wrong, own.node)
	c.broken = wrong
	c.mu.Unlock()
	if v.equal(was) {
		return
	}
	err := &BoundError{Node: own.node, Wrong: v.wrong, Own: wrong, Apart: v.apart, Epsilon: c.o.Clock.TrueTime().Epsilon(), Nodes: nodes}
	switch {
	case wrong:
		if c.o.OnClockBroken != nil {
			c.o.OnClockBroken(err)
		}
		return
	case v.fine():
		c.o.Host.Log.Info("the bounds on the nodes' clocks agree again")
	default:
		c.o.Host.Log.Error("the bounds on the nodes' clocks contradict each other", "error", err)
		c.kick() // so that every node hears of it, and measures, within a round trip
	}
	if c.o.OnClockDoubt != nil && v.undecided != was.undecided {
		if v.undecided {
			c.o.OnClockDoubt(err)
		} else {
			c.o.OnClockDoubt(nil)
		}
	}
}

// contradicts reports whether a peer's last claim does not meet this node's.
func (c *Cluster) contradicts(p *peer) bool {
	now, own := c.o.Host.Clock.Monotonic(), c.ownClaim()
	c.mu.RLock()
	defer c.mu.RUnlock()
	return p.claim.at != 0 && now-p.claim.at <= claimFresh && !p.claim.later(now).Meets(own.Interval)
}

// contradicted has this node measure all others at once, if it does not know yet of a contradiction of which another node has told it.
func (c *Cluster) contradicted() {
	now := c.o.Host.Clock.Monotonic()
	c.mu.Lock()
	news := c.verdict.fine() && now-c.hinted >= judgeEvery
	if news {
		c.hinted = now
	}
	c.mu.Unlock()
	if news {
		c.kick()
	}
}
