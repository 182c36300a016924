package placement

import (
	"cmp"
	"fmt"
	"slices"

	"meridian/keys"
	"meridian/kv"
)

// Kind is a kind of Action.
type Kind uint8

const (
	// None: all is well, or nothing can be done.
	None Kind = iota
	// ChangeReplicas: give the range Targets.
	ChangeReplicas
	// TransferLease: move the lease to Lease.
	TransferLease
	// Split the range, which is too large or has two configurations.
	Split
)

// Action is one step.
type Action struct {
	Kind    Kind
	Targets []kv.ReplicaTarget
	Lease   kv.NodeID
	// At is where to split; nil: in the middle of the data.
	At keys.Key
	// Urgent steps repair; the others improve. Follow: the lease follows the workload, independently of other ranges.
	Urgent, Follow bool
	Reason         string
}

// Range is a range as its leaseholder sees it.
type Range struct {
	Desc        *kv.RangeDescriptor
	Leaseholder kv.NodeID
	Bytes       int64
	// Boundary is the first key within the range that has another configuration; nil: there is none.
	Boundary keys.Key
	// Behind are followers that have not caught up; they are not given the lease.
	Behind map[kv.NodeID]bool
	// Load tells where requests come from; nil: the lease does not follow them.
	Load *Load
}

// slack is how far from the mean a node's number of replicas or leases may be before they are balanced.
const (
	slackFraction = 0.05
	slackMin      = 2
)

// Decide gives the most urgent step for a range, see the package comment.
func Decide(z *Zone, r *Range, nodes []Node) Action {
	d := &decision{z: z, r: r, byID: make(map[kv.NodeID]*Node, len(nodes))}
	for i := range nodes {
		n := &nodes[i]
		d.byID[n.Node] = n
		d.all = append(d.all, n)
	}
	slices.SortFunc(d.all, func(a, b *Node) int { return cmp.Compare(a.Node, b.Node) })
	return d.decide()
}

type decision struct {
	z    *Zone
	r    *Range
	all  []*Node
	byID map[kv.NodeID]*Node

	voters, nonVoters []*Node
}

func (d *decision) decide() Action {
	if d.r.Boundary != nil {
		return Action{Kind: Split, At: d.r.Boundary, Urgent: true, Reason: "another configuration begins there"}
	}
	if d.r.Bytes > d.z.RangeMaxBytes && d.z.RangeMaxBytes > 0 {
		return Action{Kind: Split, Urgent: true, Reason: fmt.Sprintf("%d bytes", d.r.Bytes)}
	}
	joint, learners := false, 0
	for _, p := range d.r.Desc.Replicas {
		n := d.byID[p.Node]
		if n == nil { // not heard of (yet): neither known to be good nor to be bad
			n = &Node{Node: p.Node, Store: p.Store}
			d.byID[p.Node] = n
		}
		switch p.Type {
		case kv.NonVoter:
			d.nonVoters = append(d.nonVoters, n)
		case kv.Learner:
			learners++
		case kv.VoterOutgoing:
			joint = true
		case kv.VoterDemoting:
			joint = true
			d.nonVoters = append(d.nonVoters, n)
		case kv.VoterIncoming:
			joint = true
			d.voters = append(d.voters, n)
		default:
			d.voters = append(d.voters, n)
		}
	}
	if h := Assess(d.z, d.r.Desc, len(d.all), func(n kv.NodeID) bool { return d.byID[n].Live }); h.Unavailable {
		return Action{}
	}
	if joint || learners > 0 {
		return d.change("left behind by an earlier change")
	}
	for _, step := range []func() (Action, bool){d.repairVoters, d.repairNonVoters, d.moveLease, d.rebalance, d.rebalanceNonVoters, d.followLoad, d.balanceLeases} {
		if a, ok := step(); ok {
			return a
		}
	}
	return Action{}
}

// change is the action that gives the range the replicas of d.voters and d.nonVoters.
func (d *decision) change(format string, args ...any) Action {
	a := Action{Kind: ChangeReplicas, Urgent: true, Reason: fmt.Sprintf(format, args...)}
	for _, n := range d.voters {
		a.Targets = append(a.Targets, kv.ReplicaTarget{Node: n.Node, Store: n.Store, Type: kv.Voter})
	}
	for _, n := range d.nonVoters {
		a.Targets = append(a.Targets, kv.ReplicaTarget{Node: n.Node, Store: n.Store, Type: kv.NonVoter})
	}
	return a
}

// wanted is the intended number of voters: that of the zone, or while there are fewer nodes, the largest odd number of
// them. Nodes that are dead or being decommissioned count, because their replicas are to be replaced.
//
// placement.P2 (I1): it is never less than the range's number of voters, up to the zone's, whatever is known of the nodes.
func (d *decision) wanted() int {
	present := 0
	for _, n := range d.all {
		if !n.Gone {
			present++
		}
	}
	return max(Wanted(d.z, present), min(len(d.voters), d.z.Voters()))
}

func (d *decision) repairVoters() (Action, bool) {
	want := d.wanted()
	for _, bad := range []struct {
		is  func(n *Node) bool
		why string
	}{
		{func(n *Node) bool { return n.Dead }, "is dead"},
		{func(n *Node) bool { return n.Decommissioning }, "is decommissioned"},
	} {
		for i, n := range d.voters {
			if !bad.is(n) {
				continue
			}
			if n.Node == d.r.Leaseholder {
				if a, ok := d.giveLease("n%d %s", n.Node, bad.why); ok {
					return a, true
				}
				continue
			}
			rest := without(d.voters, i)
			if len(rest) >= want {
				d.voters = rest
				return d.change("n%d %s; enough others", n.Node, bad.why), true
			}
			// There is no node to replace it: it stays, and the range has fewer live voters than it should have.
			if add := d.best(rest, want); add != nil {
				d.voters = append(rest, add)
				d.demote(add)
				return d.change("n%d %s; n%d replaces it", n.Node, bad.why, add.Node), true
			}
		}
	}
	if had := len(d.voters); had < want {
		// placement.P3: voters are added all at once, and to an odd number. Two voters survive no more failures than one, and
		// both have to agree; likewise four and three.
		grown := slices.Clone(d.voters)
		var odd []*Node
		for add := d.best(grown, want); add != nil && len(grown) < want; add = d.best(grown, want) {
			if grown = append(grown, add); len(grown)%2 == 1 || len(grown) == d.z.Voters() {
				odd = slices.Clone(grown)
			}
		}
		if odd != nil {
			d.voters = odd
			for _, add := range odd[had:] {
				d.demote(add)
			}
			return d.change("%d voters of %d", had, want), true
		}
	}
	if len(d.voters) > want {
		if i := d.worst(d.voters); i >= 0 {
			n := d.voters[i]
			d.voters = without(d.voters, i)
			return d.change("%d voters of %d; n%d goes", len(d.voters)+1, want, n.Node), true
		}
	}
	if missing, forbidden := deficit(d.voterConstraints(), d.voters); missing > 0 || forbidden {
		return d.fixConstraints(want)
	}
	return Action{}, false
}

// fixConstraints replaces the voter whose removal helps most by a node that helps.
func (d *decision) fixConstraints(want int) (Action, bool) {
	cs := d.voterConstraints()
	score := func(ns []*Node) int {
		missing, _ := deficit(cs, ns)
		for i := range cs {
			if cs[i].Replicas == 0 {
				for _, n := range ns {
					if !cs[i].satisfied(n) {
						missing++
					}
				}
			}
		}
		return missing
	}
	now, best := score(d.voters), score(d.voters)
	var bestSet []*Node
	var out, in *Node
	for i, v := range d.voters {
		rest := without(d.voters, i)
		for _, c := range d.candidates(rest) {
			set := append(slices.Clone(rest), c)
			if c.Node == v.Node {
				continue
			}
			s := score(set)
			if s < best || bestSet != nil && s == best && s < now && Diversity(set) > Diversity(bestSet)+1e-9 {
				best, bestSet, out, in = s, set, v, c
			}
		}
	}
	if bestSet == nil {
		return Action{}, false
	}
	if out.Node == d.r.Leaseholder {
		if a, ok := d.giveLease("n%d is not where the constraints want voters", out.Node); ok {
			return a, true
		}
		return Action{}, false
	}
	d.voters = bestSet
	d.demote(in)
	return d.change("constraints: n%d replaces n%d", in.Node, out.Node), true
}

func (d *decision) voterConstraints() []Conjunction {
	return append(slices.Clone(d.z.VoterConstraints), onlyAll(d.z.Constraints, len(d.nonVoters) == 0)...)
}

// onlyAll leaves out conjunctions over some replicas, unless there are only voters.
func onlyAll(cs []Conjunction, votersOnly bool) (out []Conjunction) {
	for _, c := range cs {
		if c.Replicas == 0 || votersOnly {
			out = append(out, c)
		}
	}
	return out
}

// demote takes a node that became a voter out of the non-voters.
func (d *decision) demote(n *Node) {
	d.nonVoters = slices.DeleteFunc(slices.Clone(d.nonVoters), func(o *Node) bool { return o.Node == n.Node })
}

func (d *decision) repairNonVoters() (Action, bool) {
	want := 0
	if v := d.z.Voters(); d.wanted() == v {
		want = d.z.NumReplicas - v
	}
	for i, n := range d.nonVoters {
		if n.Decommissioning || n.Dead || forbiddenAt(d.z.Constraints, n) {
			d.nonVoters = without(d.nonVoters, i)
			return d.change("the non-voter on n%d goes", n.Node), true
		}
	}
	if len(d.nonVoters) > want {
		// The non-voter that contributes least goes.
		worst, score := 0, -1.0
		for i := range d.nonVoters {
			if s := Diversity(append(slices.Clone(d.voters), without(d.nonVoters, i)...)); s > score {
				worst, score = i, s
			}
		}
		n := d.nonVoters[worst]
		d.nonVoters = without(d.nonVoters, worst)
		return d.change("%d non-voters of %d; n%d goes", len(d.nonVoters)+1, want, n.Node), true
	}
	if len(d.nonVoters) >= want {
		return Action{}, false
	}
	both := append(slices.Clone(d.voters), d.nonVoters...)
	var best *Node
	var bestScore float64
	for _, c := range d.candidates(both) {
		set := append(slices.Clone(both), c)
		if !allowed(d.z.Constraints, both, c, d.z.NumReplicas) {
			continue
		}
		if s := Diversity(set) - float64(c.Ranges)*1e-9; best == nil || s > bestScore {
			best, bestScore = c, s
		}
	}
	if best == nil {
		return Action{}, false
	}
	d.nonVoters = append(slices.Clone(d.nonVoters), best)
	return d.change("a non-voter for n%d", best.Node), true
}

// candidates are the nodes that may get a replica in addition to those of a set.
func (d *decision) candidates(set []*Node) (out []*Node) {
	for _, n := range d.all {
		if n.usable() && !slices.ContainsFunc(set, func(o *Node) bool { return o.Node == n.Node }) {
			out = append(out, n)
		}
	}
	return out
}

// best is the node to be added to a set of voters that is to grow to size: the most diverse, then the emptiest.
func (d *decision) best(set []*Node, size int) (best *Node) {
	var score float64
	for _, c := range d.candidates(set) {
		with := append(slices.Clone(set), c)
		if !allowed(d.voterConstraints(), set, c, size) {
			continue
		}
		s := Diversity(with)
		if best == nil || s > score+1e-9 || s > score-1e-9 && c.Ranges < best.Ranges {
			best, score = c, s
		}
	}
	return best
}

// worst is the voter that contributes least: the one without which the set stays most diverse; among equals, the one on
// the fullest node.
func (d *decision) worst(set []*Node) (worst int) {
	worst = -1
	var score float64
	for i, n := range set {
		if n.Node == d.r.Leaseholder {
			continue
		}
		rest := without(set, i)
		missing, _ := deficit(d.voterConstraints(), rest)
		s := Diversity(rest) - 20*float64(missing)
		if !n.Live {
			s += 10
		}
		if worst < 0 || s > score+1e-9 || s > score-1e-9 && n.Ranges > set[worst].Ranges {
			worst, score = i, s
		}
	}
	return worst
}

func without(ns []*Node, i int) []*Node { return slices.Delete(slices.Clone(ns), i, i+1) }

// preference is the rank of the first lease preference that a node satisfies; the last rank is "none".
func (d *decision) preference(n *Node) int {
	for i := range d.z.LeasePreferences {
		if d.z.LeasePreferences[i].satisfied(n) {
			return i
		}
	}
	return len(d.z.LeasePreferences)
}

// leaseTargets are the voters that can take the lease, best first; those with slow disks last.
func (d *decision) leaseTargets() (out []*Node) {
	for _, n := range d.voters {
		if n.Node != d.r.Leaseholder && n.usable() && !d.r.Behind[n.Node] {
			out = append(out, n)
		}
	}
	slices.SortStableFunc(out, func(a, b *Node) int {
		if a.Slow != b.Slow {
			if a.Slow {
				return 1
			}
			return -1
		}
		return cmp.Or(cmp.Compare(d.preference(a), d.preference(b)), cmp.Compare(a.Leases, b.Leases))
	})
	return out
}

func (d *decision) giveLease(format string, args ...any) (Action, bool) {
	ts := d.leaseTargets()
	if len(ts) == 0 {
		return Action{}, false
	}
	return Action{Kind: TransferLease, Lease: ts[0].Node, Urgent: true, Reason: fmt.Sprintf(format, args...)}, true
}

// moveLease is for draining nodes and for preferences.
func (d *decision) moveLease() (Action, bool) {
	at := d.byID[d.r.Leaseholder]
	if at == nil {
		return Action{}, false
	}
	if at.Draining || at.Decommissioning {
		return d.giveLease("n%d drains", at.Node)
	}
	if ts := d.leaseTargets(); len(ts) > 0 && !ts[0].Slow && d.preference(ts[0]) < d.preference(at) {
		return d.giveLease("lease preference %d", d.preference(ts[0])+1)
	}
	return Action{}, false
}

// balanceLeases evens out the number of leases among the voters of equal preference, for ranges whose requests do not
// prefer one.
func (d *decision) balanceLeases() (Action, bool) {
	at := d.byID[d.r.Leaseholder]
	if at == nil || d.resting() {
		return Action{}, false
	}
	sum, n := 0, 0
	for _, c := range d.all {
		if c.usable() {
			sum += c.Leases
			n++
		}
	}
	mean := float64(sum) / float64(max(1, n))
	if float64(at.Leases) <= mean+slack(mean) {
		return Action{}, false
	}
	for _, to := range d.leaseTargets() {
		if !to.Slow && float64(to.Leases) < mean && d.preference(to) <= d.preference(at) && d.near(to) {
			return Action{Kind: TransferLease, Lease: to.Node,
				Reason: fmt.Sprintf("n%d has %d leases, n%d %d", at.Node, at.Leases, to.Node, to.Leases)}, true
		}
	}
	return Action{}, false
}

func slack(mean float64) float64 { return max(slackMin, mean*slackFraction) }

// rebalance swaps one voter for a better place: more diverse, or as diverse and emptier. The leaseholder is replaced
// only after it has transferred the lease.
func (d *decision) rebalance() (Action, bool) {
	if !d.allLive() {
		return Action{}, false // a range that lacks a voter is not rebalanced
	}
	sum, n := 0, 0
	for _, c := range d.all {
		if c.usable() {
			sum += c.Ranges
			n++
		}
	}
	mean := float64(sum) / float64(max(1, n))
	now := Diversity(d.voters)
	var out, in *Node
	var bestSet []*Node
	var gain float64
	for i, v := range d.voters {
		rest := without(d.voters, i)
		for _, c := range d.candidates(d.voters) {
			set := append(slices.Clone(rest), c)
			if !allowed(d.voterConstraints(), rest, c, len(set)) {
				continue
			}
			g := Diversity(set) - now
			if g < -1e-9 {
				continue
			}
			g *= 1e6
			if g < 1 {
				if float64(v.Ranges) <= mean+slack(mean) || float64(c.Ranges) >= mean {
					continue
				}
				g = float64(v.Ranges-c.Ranges) * 1e-3
			} else {
				g += float64(v.Ranges-c.Ranges) * 1e-3
			}
			if v.Node == d.r.Leaseholder {
				g -= 1e-6 // prefer another voter
			}
			if g > gain {
				gain, bestSet, out, in = g, set, v, c
			}
		}
	}
	if bestSet == nil {
		return Action{}, false
	}
	if out.Node == d.r.Leaseholder {
		ts := d.leaseTargets()
		if len(ts) == 0 || d.preference(ts[0]) > d.preference(out) {
			return Action{}, false
		}
		return Action{Kind: TransferLease, Lease: ts[0].Node, Reason: fmt.Sprintf("n%d is to be replaced by n%d", out.Node, in.Node)}, true
	}
	d.voters = bestSet
	d.demote(in)
	a := d.change("n%d is a better place than n%d", in.Node, out.Node)
	a.Urgent = false
	return a, true
}

func (d *decision) allLive() bool {
	return !slices.ContainsFunc(d.voters, func(n *Node) bool { return !n.Live })
}

// forbiddenAt reports whether a constraint over all replicas keeps them from a node.
func forbiddenAt(cs []Conjunction, n *Node) bool {
	for i := range cs {
		if cs[i].Replicas == 0 && !cs[i].satisfied(n) {
			return true
		}
	}
	return false
}

// rebalanceNonVoters moves a non-voter to where the replicas are more diverse: to a region that has none yet. It does
// not consider how full nodes are.
func (d *decision) rebalanceNonVoters() (Action, bool) {
	both := append(slices.Clone(d.voters), d.nonVoters...)
	best := Diversity(both) + 1e-9
	var out, in *Node
	for i, v := range d.nonVoters {
		rest := append(slices.Clone(d.voters), without(d.nonVoters, i)...)
		for _, c := range d.candidates(both) {
			if s := Diversity(append(slices.Clone(rest), c)); s > best && allowed(d.z.Constraints, rest, c, d.z.NumReplicas) {
				best, out, in = s, v, c
			}
		}
	}
	if in == nil {
		return Action{}, false
	}
	d.nonVoters = append(slices.DeleteFunc(slices.Clone(d.nonVoters), func(n *Node) bool { return n == out }), in)
	a := d.change("n%d is a better place for a non-voter than n%d", in.Node, out.Node)
	a.Urgent = false
	return a, true
}
