package cluster

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"meridian/clock"
	"meridian/host"
	"meridian/kv"
	"meridian/sim"
	"meridian/transport"
	"meridian/wire"
)

// crowd is many nodes whose calls arrive at once.
type crowd struct {
	mu    sync.Mutex // guards the fields below
	nodes map[kv.NodeID]*Cluster
	calls map[kv.NodeID]transport.Handler
	// old nodes know nothing of brief pings.
	old map[kv.NodeID]bool
	cut map[[2]kv.NodeID]bool
	// brief and full count pings by sender and receiver.
	brief, full map[[2]kv.NodeID]int
	entries     int // in brief pings
	answered    int // entries in answers to brief pings
}

// caller is a node's transport.
type caller struct {
	c    *crowd
	node kv.NodeID
}

func (t caller) HandleAdmin(_ string, h transport.Handler) {
	t.c.mu.Lock()
	t.c.calls[t.node] = h
	t.c.mu.Unlock()
}

func (t caller) CallAddr(ctx context.Context, addr, method string, req []byte) ([]byte, error) {
	var to kv.NodeID
	if _, err := fmt.Sscanf(addr, "n%d", &to); err != nil {
		return nil, err
	}
	t.c.mu.Lock()
	answer := t.c.calls[to]
	t.c.mu.Unlock()
	return answer(ctx, t.node, req)
}

func (t caller) CallClass(ctx context.Context, _ transport.Class, to kv.NodeID, _ string, req []byte) ([]byte, error) {
	p, err := wire.Decoded(req, (*ping).fields)
	if err != nil {
		return nil, err
	}
	said := p.brief
	t.c.mu.Lock()
	cut, answer := t.c.cut[[2]kv.NodeID{min(t.node, to), max(t.node, to)}], t.c.calls[to]
	if pair := [2]kv.NodeID{t.node, to}; said {
		t.c.brief[pair]++
	} else {
		t.c.full[pair]++
	}
	if said && p.entry != nil {
		t.c.entries++
	}
	if t.c.old[to] {
		p.brief = false
	}
	t.c.mu.Unlock()
	if cut || answer == nil {
		return nil, &transport.UnreachableError{}
	}
	reply, err := answer(ctx, t.node, wire.Append(nil, &p, (*ping).fields))
	if err != nil {
		return nil, err
	}
	a, err := wire.Decoded(reply, (*pong).fields)
	if err != nil {
		return nil, err
	}
	if said {
		t.c.mu.Lock()
		t.c.answered += len(a.entries)
		t.c.mu.Unlock()
	}
	return reply, nil
}

// inCrowd runs f with n nodes that have met.
func inCrowd(t *testing.T, n int, old map[kv.NodeID]bool, f func(c *crowd)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &crowd{nodes: map[kv.NodeID]*Cluster{}, calls: map[kv.NodeID]transport.Handler{}, old: old, cut: map[[2]kv.NodeID]bool{}}
		c.count()
		net := sim.NewNetwork(sim.NetworkOptions{Regions: sim.FiveRegions()})
		var hosts []*host.Host
		for i := range n {
			id := kv.NodeID(i + 1)
			h := sim.NewMachine(sim.MachineOptions{Name: fmt.Sprintf("n%d", id), Region: sim.FiveRegions().Names[0], Network: net, Seed: uint64(id)}).Boot(context.Background())
			hosts = append(hosts, h)
			c.nodes[id] = New(Options{Host: h, Clock: clock.New(h.Clock, time.Second), Transport: caller{c, id}, Join: []string{"n1"}},
				Entry{Node: id, Addr: fmt.Sprintf("n%d", id)})
		}
		for id := range n {
			c.nodes[kv.NodeID(id+1)].Start()
			time.Sleep(time.Millisecond)
		}
		time.Sleep(20 * time.Second)
		f(c)
		for _, h := range hosts {
			h.Group.Stop()
		}
	})
}

// count begins to count anew.
func (c *crowd) count() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.brief, c.full, c.entries, c.answered = map[[2]kv.NodeID]int{}, map[[2]kv.NodeID]int{}, 0, 0
}

// set cuts or mends the link between two nodes.
func (c *crowd) set(a, b kv.NodeID, cut bool) {
	c.mu.Lock()
	c.cut[[2]kv.NodeID{min(a, b), max(a, b)}] = cut
	c.mu.Unlock()
}

func total(m map[[2]kv.NodeID]int) (n int) {
	for _, v := range m {
		n += v
	}
	return n
}

// TestDigestsGoToSomePeers: in a large cluster most pings are brief, each peer gets a digest in a few rounds, and nothing is told twice.
func TestDigestsGoToSomePeers(t *testing.T) {
	const nodes = 33
	rounds := (nodes - 1 + digestPeers - 1) / digestPeers
	inCrowd(t, nodes, nil, func(c *crowd) {
		for _, n := range c.nodes {
			if len(n.Nodes()) != nodes {
				t.Fatalf("n%d knows %d nodes", n.Self().Node, len(n.Nodes()))
			}
		}
		c.count()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		c.mu.Lock()
		brief, full := total(c.brief), total(c.full)
		if got := float64(full) / float64(brief+full); got > 1.3/float64(rounds) || brief == 0 {
			t.Errorf("%d of %d pings have the digest, want one of %d", full, brief+full, rounds)
		}
		for a := range c.nodes {
			for b := range c.nodes {
				pair := [2]kv.NodeID{a, b}
				if pings := c.brief[pair] + c.full[pair]; a != b && (c.full[pair] < 10/rounds-1 || pings < 8) {
					t.Errorf("n%d has sent n%d %d digests in %d pings", a, b, c.full[pair], pings)
				}
			}
		}
		if c.entries != 0 || c.answered != 0 {
			t.Errorf("brief pings had %d entries, their answers %d, of nodes that have not changed", c.entries, c.answered)
		}
		c.mu.Unlock()
		// The first brief ping after a change has the entry, once for each peer.
		c.nodes[7].Update(func(e *Entry) { e.Draining = true })
		time.Sleep(1200 * time.Millisecond)
		for id, n := range c.nodes {
			if e, _ := n.Get(7); !e.Draining {
				t.Errorf("n%d has not heard in a round", id)
			}
		}
		time.Sleep(10 * time.Second)
		c.mu.Lock()
		if c.entries == 0 || c.entries > nodes-1 {
			t.Errorf("%d brief pings had the entry that changed once", c.entries)
		}
		c.mu.Unlock()
	})
}

// TestSmallClustersSendDigestsAlways: brief pings are for clusters of more than nine nodes.
func TestSmallClustersSendDigestsAlways(t *testing.T) {
	inCrowd(t, digestPeers+1, nil, func(c *crowd) {
		if n := total(c.brief); n != 0 {
			t.Errorf("%d brief pings", n)
		}
	})
}

// TestNewsOfNodesThatAreCutOff: entries and records go around links that are cut also where most pings are brief.
func TestNewsOfNodesThatAreCutOff(t *testing.T) {
	const nodes = 33
	inCrowd(t, nodes, nil, func(c *crowd) {
		// n1 has a link to n2 only.
		for id := kv.NodeID(3); id <= nodes; id++ {
			c.set(1, id, true)
		}
		time.Sleep(3 * time.Second)
		c.nodes[1].Update(func(e *Entry) { e.Full = true })
		c.nodes[1].setOwn(Liveness{Node: 1, Incarnation: 5, Expiration: clock.Timestamp{Wall: 1}}, nil)
		time.Sleep(7 * time.Second)
		for id, n := range c.nodes {
			if e, _ := n.Get(1); !e.Full {
				t.Errorf("n%d has not heard of the entry", id)
			}
			if l, _ := n.Record(1); l.Incarnation != 5 {
				t.Errorf("n%d has not heard of the record", id)
			}
		}
	})
}

// TestOldBuildsGetDigests: a node whose build does not know brief pings answers one with all that it knows, and gets no second one.
func TestOldBuildsGetDigests(t *testing.T) {
	const nodes = 20
	inCrowd(t, nodes, map[kv.NodeID]bool{4: true}, func(c *crowd) {
		c.count()
		time.Sleep(20 * time.Second)
		c.mu.Lock()
		for pair, n := range c.brief {
			if pair[1] == 4 && n > 0 {
				t.Errorf("n%d has sent %d brief pings", pair[0], n)
			}
		}
		// It is upgraded.
		c.old = nil
		c.mu.Unlock()
		for id := range c.nodes {
			if id != 4 {
				c.set(4, id, true)
			}
		}
		time.Sleep(5 * time.Second)
		for id := range c.nodes {
			c.set(4, id, false)
		}
		time.Sleep(5 * time.Second)
		c.count()
		time.Sleep(5 * time.Second)
		c.mu.Lock()
		if c.brief[[2]kv.NodeID{1, 4}] == 0 {
			t.Error("no brief ping after a restart by a build that knows them")
		}
		c.mu.Unlock()
	})
}
