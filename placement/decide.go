package placement

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

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
	// SetProtocol: give the range the commit protocol Protocol.
	SetProtocol
)

// Action is one step.
type Action struct {
	Kind     Kind
	Targets  []kv.ReplicaTarget
	Lease    kv.NodeID
	Protocol kv.Protocol
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
	// Writes is how many writes the range had in a second, lately.
	Writes float64
	// Requests is how many requests of any kind the range had in a second, lately.
	Requests float64
	// Load tells where requests come from; nil: the lease does not follow them.
	Load *Load
}

// Decide gives the most urgent step for a range, see the package comment.
func Decide(z *Zone, r *Range, nodes []Node) Action { return newDecision(z, r, nodes).decide() }

func newDecision(z *Zone, r *Range, nodes []Node) *decision {
	d := &decision{z: z.of(r.Desc), r: r, byID: make(map[kv.NodeID]*Node, len(nodes))}
	for i := range nodes {
		n := &nodes[i]
		n.witness = false
		d.byID[n.Node] = n
		d.all = append(d.all, n)
	}
	slices.SortFunc(d.all, func(a, b *Node) int { return cmp.Compare(a.Node, b.Node) })
	return d
}

type decision struct {
	z    *Zone
	r    *Range
	all  []*Node
	byID map[kv.NodeID]*Node

	voters, nonVoters []*Node
	// witnesses are the voters without data: one at most, but for a moment.
	witnesses []*Node
	// distances of each two nodes (apart).
	distances []float64
	measures  []dimension
	// single: the range is to have one voter.
	single bool
}

func (d *decision) decide() Action {
	if d.r.Boundary != nil {
		return Action{Kind: Split, At: d.r.Boundary, Urgent: true, Reason: "another configuration begins there"}
	}
	if d.r.Bytes > d.z.RangeMaxBytes && d.z.RangeMaxBytes > 0 {
		return Action{Kind: Split, Urgent: true, Reason: fmt.Sprintf("%d bytes", d.r.Bytes)}
	}
	joint, learners := d.sortReplicas()
	if h := Assess(d.z, d.r.Desc, len(d.all), func(n kv.NodeID) bool { return d.byID[n].Live }); h.Unavailable {
		return Action{}
	}
	if joint || learners > 0 {
		return d.change("left behind by an earlier change")
	}
	for _, step := range []func() (Action, bool){d.repair, d.setProtocol, d.moveLease, d.rebalance, d.rebalanceNonVoters, d.followLoad, d.balanceRequests, d.balanceLeases} {
		if a, ok := step(); ok {
			return a
		}
	}
	return Action{}
}

// sortReplicas finds the nodes of the range's replicas, by their kinds. It reports whether a change of replicas is half done, and how many learners there are.
func (d *decision) sortReplicas() (joint bool, learners int) {
	for _, p := range d.r.Desc.Replicas {
		n := d.byID[p.Node]
		if n == nil { // not heard of (yet): neither known to be good nor to be bad
			n = &Node{Node: p.Node, Store: p.Store, unknown: true}
			d.byID[p.Node] = n
		}
		if p.Witness {
			n.witness, joint = true, joint || p.Type.Joint()
			switch p.Type {
			case kv.Voter, kv.VoterIncoming:
				d.witnesses = append(d.witnesses, n)
			case kv.Learner:
				learners++
			}
			continue
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
	return joint, learners
}

// setProtocol gives the range its protocol when it has its replicas: under another protocol than the leader's each change of them costs the range a seal.
func (d *decision) setProtocol() (Action, bool) {
	if !d.z.Reprotocol(d.r.Desc) {
		return Action{}, false
	}
	return Action{Kind: SetProtocol, Protocol: d.z.Protocol, Urgent: true, Reason: "the configuration asks for the protocol " + d.z.Protocol.String()}, true
}

// change is the action that gives the range the replicas of d.voters, d.witnesses and d.nonVoters.
func (d *decision) change(format string, args ...any) Action {
	a := Action{Kind: ChangeReplicas, Urgent: true, Reason: fmt.Sprintf(format, args...)}
	for _, n := range d.voters {
		a.Targets = append(a.Targets, kv.ReplicaTarget{Node: n.Node, Store: n.Store, Type: kv.Voter})
	}
	for _, n := range d.witnesses {
		a.Targets = append(a.Targets, kv.ReplicaTarget{Node: n.Node, Store: n.Store, Type: kv.Voter, Witness: true})
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
	want := min(Wanted(d.z, present), d.z.Voters())
	if d.z.Witnesses() > 0 && want == d.z.Voters() && len(d.witness()) == 0 {
		want-- // placement.P3
	}
	return max(want, min(len(d.voters), d.z.Voters()))
}

// repair gives the range the replicas that it should have, as far as the nodes and the constraints let it. Each step is complete in itself: the range has as
// many voters as before or more, and each new replica is where it is to stay.
//
//	lease    a leaseholder that is to lose its replica gives the lease to a voter that stays
//	flip     non-voters that are to vote do so at once, for voters that are to go: no data is shipped (a table's new home takes seconds)
//	voters   the other new voters are shipped, all at once
//	rest     new non-voters
func (d *decision) repair() (Action, bool) {
	want, nonVoters := d.wanted(), 0
	d.single = want == 1
	if v := d.z.Voters(); want == v {
		nonVoters = d.z.NumReplicas - v
	}
	now := set{d.voters, d.nonVoters}
	if d.good(&now, want, nonVoters) {
		return d.repairWitness()
	}
	t := d.target(want, nonVoters)
	holder := d.byID[d.r.Leaseholder]
	var later *Node // becomes a voter when the lease has been transferred
	if holder != nil && contains(d.voters, holder) && !contains(t.voters, holder) {
		if a, ok := d.giveLeaseTo(t.voters, "%s", d.why(holder)); ok {
			return a, true
		}
		// None of those that stay can have it: it stays for now, and in its place the voter that costs most.
		t = set{slices.Clone(t.voters), slices.Clone(t.nonVoters)}
		t.nonVoters = slices.DeleteFunc(t.nonVoters, func(n *Node) bool { return n == holder })
		slices.SortStableFunc(t.voters, func(a, b *Node) int { return cmp.Compare(d.effort(a), d.effort(b)) })
		if len(t.voters) > 1 {
			last := len(t.voters) - 1
			if !slices.ContainsFunc(t.voters[:last], (*Node).usable) {
				last = 0 // one of them has to be able to take the lease
			}
			later, t.voters[last] = t.voters[last], holder
		} else { // the only voter: for the moment of the transfer there are two
			t.voters = append(t.voters, holder)
		}
	}
	var promoted, shipped, leaving []*Node
	for _, n := range t.voters {
		switch {
		case contains(d.voters, n):
		case contains(d.nonVoters, n):
			promoted = append(promoted, n)
		default:
			shipped = append(shipped, n)
		}
	}
	for _, n := range d.voters {
		if !contains(t.voters, n) {
			leaving = append(leaving, n)
		}
	}
	next := set{t.voters, nil}
	if len(shipped) > 0 && len(promoted) > 0 && len(leaving) > 0 {
		slices.SortStableFunc(leaving, func(a, b *Node) int { return cmp.Compare(d.badness(b), d.badness(a)) })
		k := min(len(promoted), len(leaving))
		promoted, leaving, shipped = promoted[:k], leaving[:k], nil
		next.voters = slices.DeleteFunc(slices.Clone(d.voters), func(n *Node) bool { return contains(leaving, n) })
		next.voters = append(next.voters, promoted...)
	}
	next.voters = d.ordered(next.voters)
	for _, n := range d.nonVoters {
		if !contains(next.voters, n) && (contains(t.nonVoters, n) || contains(t.voters, n) || n == later && !d.forbidden(n, false)) {
			next.nonVoters = append(next.nonVoters, n)
		}
	}
	for _, n := range leaving {
		if contains(t.nonVoters, n) {
			next.nonVoters = append(next.nonVoters, n)
		}
	}
	if !sameNodes(next.voters, d.voters) {
		d.witnesses = d.witnessOf(next.voters)
		return d.changeTo(next, promoted, shipped, leaving, want), true
	}
	if !sameNodes(next.nonVoters, d.nonVoters) {
		gone := slices.DeleteFunc(slices.Clone(d.nonVoters), func(n *Node) bool { return contains(next.nonVoters, n) })
		had := len(d.nonVoters)
		d.nonVoters = next.nonVoters
		if !d.bad(gone) {
			return d.change("%d non-voters of %d; without %s", had, nonVoters, names(gone)), true
		}
		return d.change("no non-voter may be on %s", names(gone)), true
	}
	fresh := slices.DeleteFunc(slices.Clone(t.nonVoters), func(n *Node) bool { return contains(d.nonVoters, n) || contains(t.voters, n) })
	if len(fresh) == 0 {
		return d.repairWitness()
	}
	slices.SortFunc(fresh, func(a, b *Node) int { return cmp.Compare(a.Node, b.Node) })
	d.nonVoters = append(slices.Clone(d.nonVoters), fresh...)
	return d.change("non-voters for %s", names(fresh)), true
}

// good reports whether nothing is to be repaired.
func (d *decision) good(s *set, want, nonVoters int) bool {
	if len(s.voters) != want || len(s.nonVoters) != nonVoters || d.deficit(s) > 0 {
		return false
	}
	for _, n := range s.voters {
		if d.badness(n) > 0 {
			return false
		}
	}
	return !d.bad(s.nonVoters)
}

// bad reports whether one of some non-voters is where none may stay.
func (d *decision) bad(nonVoters []*Node) bool {
	return slices.ContainsFunc(nonVoters, func(n *Node) bool { return n.Dead || n.Decommissioning || d.forbidden(n, false) })
}

// effort is how much it takes to make a node a voter.
func (d *decision) effort(n *Node) int {
	switch {
	case contains(d.voters, n):
		return 0
	case contains(d.nonVoters, n):
		return 1
	}
	return 2
}

// ordered are voters in the order in which the range has them; new ones come last.
func (d *decision) ordered(voters []*Node) (out []*Node) {
	for _, n := range d.voters {
		if contains(voters, n) {
			out = append(out, n)
		}
	}
	for _, n := range voters {
		if !contains(out, n) {
			out = append(out, n)
		}
	}
	return out
}

func sameNodes(a, b []*Node) bool {
	return len(a) == len(b) && !slices.ContainsFunc(a, func(n *Node) bool { return !contains(b, n) })
}

// why says why a node is to lose its voter.
func (d *decision) why(n *Node) string {
	switch d.badness(n) {
	case 3:
		return fmt.Sprintf("n%d is dead", n.Node)
	case 2:
		return fmt.Sprintf("n%d is decommissioned", n.Node)
	}
	return fmt.Sprintf("n%d is not where the constraints want voters", n.Node)
}

// changeTo is a change of voters, with its reason.
func (d *decision) changeTo(next set, promoted, shipped, leaving []*Node, want int) Action {
	had, now, was := len(d.voters), len(next.voters), d.voters
	added := append(promoted, shipped...)
	worst := 0
	for _, n := range leaving {
		worst = max(worst, d.badness(n))
	}
	d.voters, d.nonVoters = next.voters, next.nonVoters
	switch {
	case worst > 1 && len(added) > 0:
		return d.change("%s; %s in its place", d.why(worstOf(d, leaving, worst)), names(added))
	case worst > 1:
		return d.change("%s; enough others", d.why(worstOf(d, leaving, worst)))
	case now > had && had == 1 && now == 2 && want == 1:
		return d.change("the lease is to move from %s to %s", names(was), names(added))
	case now > had:
		return d.change("%d voters of %d", had, want)
	case now < had:
		return d.change("%d voters of %d; without %s", had, want, names(leaving))
	}
	return d.change("constraints: %s instead of %s", names(added), names(leaving))
}

func worstOf(d *decision, ns []*Node, badness int) *Node {
	return ns[slices.IndexFunc(ns, func(n *Node) bool { return d.badness(n) == badness })]
}

func names(ns []*Node) string {
	out := make([]string, len(ns))
	for i, n := range ns {
		out[i] = fmt.Sprintf("n%d", n.Node)
	}
	return strings.Join(out, ", ")
}

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
	return d.giveLeaseTo(d.voters, format, args...)
}

// giveLeaseTo moves the lease to the best of some of the voters.
func (d *decision) giveLeaseTo(among []*Node, format string, args ...any) (Action, bool) {
	for _, n := range d.leaseTargets() {
		if contains(among, n) {
			return Action{Kind: TransferLease, Lease: n.Node, Urgent: true, Reason: fmt.Sprintf(format, args...)}, true
		}
	}
	return Action{}, false
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

// rebalance exchanges one voter for a better place: one that leaves a place with less of a majority, is more diverse, or as diverse and emptier. A non-voter
// that is a better place changes roles with the voter. The leaseholder is replaced only after it has transferred the lease.
func (d *decision) rebalance() (Action, bool) {
	if !d.allLive() {
		return Action{}, false // a range that lacks a voter is not rebalanced
	}
	now := set{d.voters, d.nonVoters}
	missing, have := d.deficit(&now), d.merit(&now)
	var out, in *Node
	var best set
	var top swap
	try := func(v, c *Node, s set, evenly bool) {
		m := d.merit(&s)
		g := swap{safer: have.concentration - m.concentration, apart: have.apartVoters - m.apartVoters, other: v.Node != d.r.Leaseholder}
		switch {
		case g.safer < 0 || g.safer == 0 && g.apart < -apartSlack:
			return
		case g.safer == 0 && g.apart <= apartSlack: // no better place, but maybe an emptier one
			if g.even = d.evener(v, c); !evenly || g.even <= 0 || m.apartBoth > have.apartBoth+apartSlack {
				return
			}
		default:
			g.even = d.fill(v) - d.fill(c)
		}
		if (in == nil || top.less(g)) && d.deficit(&s) <= missing {
			top, best, out, in = g, s, v, c
		}
	}
	takers := d.leaseTargets()
	for i, v := range d.voters {
		if v.Node == d.r.Leaseholder && (len(takers) == 0 || d.preference(takers[0]) > d.preference(v)) {
			continue
		}
		for _, c := range d.all {
			if !c.usable() || contains(d.voters, c) || d.forbidden(c, true) {
				continue
			}
			s := set{slices.Clone(d.voters), slices.Clone(d.nonVoters)}
			s.voters[i] = c
			if j := slices.Index(d.nonVoters, c); j >= 0 {
				if !d.forbidden(v, false) {
					s.nonVoters[j] = v
					try(v, c, s, false)
				}
				continue
			}
			try(v, c, s, true)
			if have.concentration == 0 || d.forbidden(v, false) {
				continue
			}
			for j := range d.nonVoters { // the voter may be needed where it is, but not as a voter
				s := set{s.voters, slices.Clone(d.nonVoters)}
				s.nonVoters[j] = v
				try(v, c, s, false)
			}
		}
	}
	if in == nil {
		return Action{}, false
	}
	if out.Node == d.r.Leaseholder {
		return Action{Kind: TransferLease, Lease: takers[0].Node, Reason: fmt.Sprintf("n%d is to be replaced by n%d", out.Node, in.Node)}, true
	}
	d.voters = append(slices.DeleteFunc(best.voters, func(n *Node) bool { return n == in }), in)
	d.nonVoters = best.nonVoters
	a := d.change("n%d is a better place than n%d", in.Node, out.Node)
	a.Urgent = false
	return a, true
}

// swap is what the exchange of a voter gains.
type swap struct {
	safer       int // in concentration
	apart, even float64
	other       bool // it is not the leaseholder's voter
}

func (a swap) less(b swap) bool {
	switch {
	case a.safer != b.safer:
		return a.safer < b.safer
	case abs(int((a.apart-b.apart)*1e6)) > 0:
		return a.apart < b.apart
	case a.even != b.even:
		return a.even < b.even
	}
	return !a.other && b.other
}

func (d *decision) allLive() bool {
	return !slices.ContainsFunc(d.voters, func(n *Node) bool { return !n.Live })
}

// rebalanceNonVoters moves a non-voter to where the replicas are more diverse: to a region that has none yet. It does
// not consider how full nodes are.
func (d *decision) rebalanceNonVoters() (Action, bool) {
	now := set{d.voters, d.nonVoters}
	missing, least := d.deficit(&now), d.merit(&now).apartBoth-apartSlack
	var out, in *Node
	var best set
	for i, v := range d.nonVoters {
		for _, c := range d.all {
			if !c.usable() || contains(d.voters, c) || contains(d.nonVoters, c) || d.forbidden(c, false) {
				continue
			}
			s := set{d.voters, slices.Clone(d.nonVoters)}
			s.nonVoters[i] = c
			if m := d.merit(&s); m.apartBoth < least && d.deficit(&s) <= missing {
				least, best, out, in = m.apartBoth, s, v, c
			}
		}
	}
	if in == nil {
		return Action{}, false
	}
	d.nonVoters = append(slices.DeleteFunc(best.nonVoters, func(n *Node) bool { return n == in }), in)
	a := d.change("n%d is a better place for a non-voter than n%d", in.Node, out.Node)
	a.Urgent = false
	return a, true
}
