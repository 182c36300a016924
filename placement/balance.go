package placement

import (
	"cmp"
	"fmt"
	"slices"
)

// A node's number of ranges or leases may be slackFraction, and slackMin at least, above the mean before it is evened out; its bytes and its writes
// per second a larger part, and much at least: they change by themselves.
const (
	slackFraction = 0.05
	slackMin      = 2
	loadFraction  = 0.15
	bytesMin      = 1 << 30
	writesMin     = 100
	requestsMin   = 25
)

func slack(mean float64) float64 { return max(slackMin, mean*slackFraction) }

// dimension is one of the measures by which nodes are full.
type dimension struct {
	of          func(*Node) float64
	mean, slack float64
	// moved is what one range adds.
	moved float64
}

// dimensions are the measures of all nodes that can have replicas.
func (d *decision) dimensions() []dimension {
	if d.measures != nil {
		return d.measures
	}
	ds := []dimension{
		{of: func(n *Node) float64 { return float64(n.Ranges) }, moved: 1},
		{of: func(n *Node) float64 { return float64(n.Bytes) }, moved: float64(d.r.Bytes)},
		{of: func(n *Node) float64 { return n.Writes }, moved: d.r.Writes},
	}
	for i := range ds {
		m, nodes := &ds[i], 0
		for _, n := range d.all {
			if n.usable() {
				m.mean += m.of(n)
				nodes++
			}
		}
		m.mean /= float64(max(1, nodes))
	}
	ds[0].slack = slack(ds[0].mean)
	ds[1].slack = max(bytesMin, ds[1].mean*loadFraction)
	ds[2].slack = max(writesMin, ds[2].mean*loadFraction)
	d.measures = ds
	return ds
}

// evener is how much more even a replica of this range that moves from one node to another makes them, as a part of the mean: zero if they are even enough,
// or if it only moves the excess.
func (d *decision) evener(from, to *Node) (gain float64) {
	for _, m := range d.dimensions() {
		a, b := m.of(from), m.of(to)
		if b+m.moved > m.mean+m.slack && m.moved > 0 && b > 0 {
			return 0
		}
		if a > m.mean+m.slack && b < m.mean && m.moved > 0 && a-b > m.moved {
			gain += (a - b) / m.mean
		}
	}
	return gain
}

// fill is how full a node is, relative to others.
func (d *decision) fill(n *Node) (sum float64) {
	for _, m := range d.dimensions() {
		sum += m.of(n) / max(m.mean, m.slack)
	}
	return sum
}

func (d *decision) compareFill(a, b *Node) int { return cmp.Compare(d.fill(a), d.fill(b)) }

// balanceRequests moves the lease of a range with requests off a node that has more of them than others, to a voter that has fewer afterwards than the node
// before, and to which the requests have no longer way.
func (d *decision) balanceRequests() (Action, bool) {
	at := d.byID[d.r.Leaseholder]
	if at == nil || d.resting() || d.r.Requests <= 0 {
		return Action{}, false
	}
	mean := meanRequests(d.all)
	if !asked(at, mean) {
		return Action{}, false
	}
	var best *Node
	for _, to := range d.leaseTargets() {
		after := to.Requests + d.r.Requests
		if to.Slow || d.preference(to) > d.preference(at) || !d.near(to) || after > at.Requests-max(requestsMin, mean*loadFraction)/2 {
			continue
		}
		if best == nil || to.Requests < best.Requests {
			best = to
		}
	}
	if best == nil {
		return Action{}, false
	}
	return Action{Kind: TransferLease, Lease: best.Node,
		Reason: fmt.Sprintf("n%d has %.0f requests/s, n%d %.0f", at.Node, at.Requests, best.Node, best.Requests)}, true
}

// meanRequests is the mean of the requests per second of nodes that can have replicas.
func meanRequests(all []*Node) float64 {
	sum, nodes := 0.0, 0
	for _, n := range all {
		if n.usable() {
			sum += n.Requests
			nodes++
		}
	}
	return sum / float64(max(1, nodes))
}

// asked reports whether a node has more than its share of the requests.
func asked(n *Node, mean float64) bool { return n.Requests > mean+max(requestsMin, mean*loadFraction) }

// Divisible reports whether a range with many requests should be divided for them: its leaseholder has more than its share of the requests, and another voter
// less, which can take the lease of a part and is as near to the requests (near). Where that is not so a division moves nothing, and a transaction that writes in both parts can't
// commit in one phase any more: on a single node, for example, where all nodes have as much to do, or where one gateway sends all requests and serves them itself.
func Divisible(z *Zone, r *Range, nodes []Node) bool {
	d := newDecision(z, r, nodes)
	d.sortReplicas()
	mean := meanRequests(d.all)
	at := d.byID[r.Leaseholder]
	if at == nil || d.resting() || !asked(at, mean) {
		return false
	}
	return slices.ContainsFunc(d.leaseTargets(), func(n *Node) bool {
		return !n.Slow && n.Requests < mean && d.preference(n) <= d.preference(at) && d.near(n)
	})
}
