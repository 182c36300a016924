package sim

import "time"

// LinkStats counts the traffic of one direction between two machines.
type LinkStats struct{ Bytes, Writes int64 }

// pipesOn returns the ends that read from the link from->to. The caller holds n.mu.
func (n *Network) pipesOn(l *link) []*pipe {
	var ps []*pipe
	for c := range n.conns {
		if c.in.link == l {
			ps = append(ps, c.in)
		}
	}
	return ps
}

func (n *Network) block(from, to string, blocked bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	a, b := n.nodes[from], n.nodes[to]
	if a == nil || b == nil || a == b {
		return
	}
	l := n.link(a, b)
	if l.blocked.Swap(blocked) == blocked || blocked {
		return
	}
	for _, p := range n.pipesOn(l) {
		p.resume()
	}
	n.wakeDialers()
}

// PartitionOneWay stalls everything that travels from one machine to another; the other way stays open.
func (n *Network) PartitionOneWay(from, to string) { n.block(from, to, true) }

// Partition stalls both ways.
func (n *Network) Partition(a, b string) {
	n.block(a, b, true)
	n.block(b, a, true)
}

// Heal opens both ways between two machines.
func (n *Network) Heal(a, b string) {
	n.block(a, b, false)
	n.block(b, a, false)
}

// Isolate partitions a machine from all others, as a long pause of the machine does.
func (n *Network) Isolate(name string) {
	for _, other := range n.names() {
		n.Partition(name, other)
	}
}

// Rejoin undoes Isolate.
func (n *Network) Rejoin(name string) {
	for _, other := range n.names() {
		n.Heal(name, other)
	}
}

// PartitionRegions cuts every pair of machines of two regions.
func (n *Network) PartitionRegions(a, b string) { n.eachPair(a, b, n.Partition) }

// HealRegions undoes PartitionRegions.
func (n *Network) HealRegions(a, b string) { n.eachPair(a, b, n.Heal) }

// HealAll opens every link and removes all extra delay. Machines that lost power stay off.
func (n *Network) HealAll() {
	names := n.names()
	for _, a := range names {
		for _, b := range names {
			n.block(a, b, false)
			n.Slow(a, b, 0)
		}
	}
}

func (n *Network) names() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	names := make([]string, 0, len(n.nodes))
	for name := range n.nodes {
		names = append(names, name)
	}
	return names
}

func (n *Network) eachPair(ra, rb string, f func(a, b string)) {
	n.mu.Lock()
	var as, bs []string
	for name, nd := range n.nodes {
		if nd.region == ra {
			as = append(as, name)
		}
		if nd.region == rb {
			bs = append(bs, name)
		}
	}
	n.mu.Unlock()
	for _, a := range as {
		for _, b := range bs {
			f(a, b)
		}
	}
}

// Slow adds a delay to bytes sent from one machine to another from now on; zero removes it.
func (n *Network) Slow(from, to string, extra time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if a, b := n.nodes[from], n.nodes[to]; a != nil && b != nil && a != b {
		n.link(a, b).extra.Store(int64(extra))
	}
}

// Reset breaks the connections that are open between two machines; both ends learn of it one delay later.
func (n *Network) Reset(a, b string) {
	for _, c := range n.connsOf(func(c *conn) bool {
		return c.node.name == a && c.peer.node.name == b || c.node.name == b && c.peer.node.name == a
	}) {
		c.out.finish(errReset)
	}
}

func (n *Network) connsOf(match func(*conn) bool) []*conn {
	n.mu.Lock()
	defer n.mu.Unlock()
	var cs []*conn
	for c := range n.conns {
		if match(c) {
			cs = append(cs, c)
		}
	}
	return cs
}

// Kill ends a machine's listeners and connections as the death of its process does: peers are reset, and refused.
func (n *Network) Kill(name string) { n.kill(name, false) }

// PowerOff is a kill of which no peer gets a reset; dials to the machine wait until PowerOn.
func (n *Network) PowerOff(name string) {
	n.mu.Lock()
	if nd := n.nodes[name]; nd != nil {
		nd.off = true
	}
	n.mu.Unlock()
	n.kill(name, true)
}

// PowerOn lets a machine be reached again; peers that kept connections to its former life are reset (sim.N4).
func (n *Network) PowerOn(name string) {
	n.mu.Lock()
	if nd := n.nodes[name]; nd != nil {
		nd.off = false
	}
	n.wakeDialers()
	n.mu.Unlock()
	for _, c := range n.connsOf(func(c *conn) bool { return c.peer.node.name == name }) {
		c.in.mu.Lock()
		muted := c.in.muted
		c.in.mu.Unlock()
		if muted {
			c.in.unmute()
			c.out.hearOfReader()
		}
	}
}

func (n *Network) kill(name string, silent bool) {
	n.mu.Lock()
	if nd := n.nodes[name]; nd != nil {
		nd.life++
	}
	var ls []*listener
	for _, l := range n.listeners {
		if l.node.name == name {
			ls = append(ls, l)
		}
	}
	n.mu.Unlock()
	for _, l := range ls {
		l.Close()
	}
	for _, c := range n.connsOf(func(c *conn) bool { return c.node.name == name }) {
		c.reset(silent)
	}
}

// Stats counts the traffic from one machine to another.
func (n *Network) Stats(from, to string) LinkStats {
	n.mu.Lock()
	defer n.mu.Unlock()
	l := n.links[linkKey{from, to}]
	if l == nil {
		return LinkStats{}
	}
	return LinkStats{Bytes: l.bytes.Load(), Writes: l.writes.Load()}
}

// SetRTT makes the round trip between the machines of two regions another one from now on; Slow and HealAll change it again.
func (n *Network) SetRTT(ra, rb string, rtt time.Duration) {
	extra := (rtt - n.opts.Regions.RTT(ra, rb)) / 2
	n.eachPair(ra, rb, func(a, b string) {
		n.Slow(a, b, extra)
		n.Slow(b, a, extra)
	})
}

// Cut reports whether nothing arrives that one machine sends to another.
func (n *Network) Cut(from, to string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	a, b := n.nodes[from], n.nodes[to]
	return a != nil && b != nil && a != b && n.link(a, b).blocked.Load()
}
