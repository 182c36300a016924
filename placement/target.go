package placement

import (
	"cmp"
	"slices"
)

// The replicas that a range is to have are found in two steps. Nodes that no constraint tells apart are one class; the search picks how many voters and
// non-voters each class has, which is exact: if any assignment satisfies all constraints, it finds one, and among those one that ships the
// fewest replicas. Then nodes are exchanged, as long as that costs no more, for more diverse and emptier ones.

// set is an assignment of a range's replicas.
type set struct{ voters, nonVoters []*Node }

func (s *set) all() []*Node { return append(slices.Clone(s.voters), s.nonVoters...) }

func contains(ns []*Node, n *Node) bool { return slices.Contains(ns, n) }

// conjunctions are a zone's, bit by bit: those over all replicas in the low half of a mask, those over voters in the upper half.
const votersBit = 32

// class is nodes that no constraint tells apart. The first of each list are kept first.
type class struct {
	mask uint64 // of the counted conjunctions that the nodes satisfy
	// noVoter and noNonVoter: a constraint forbids them here.
	noVoter, noNonVoter bool
	heldV, heldN, down  []*Node // down are held non-voters that do not answer, so that they can't become voters
	free                []*Node
	leased              bool // one of heldV has the lease
}

// Weights of an assignment's cost: replicas that constraints ask for and that are missing, missing non-voters, replicas to be shipped, replicas that
// become voters or stop to be.
const (
	costFlip     = 1
	costShip     = 1 << 7
	costMissing  = 1 << 14
	costDeficit  = 1 << 21
	searchSteps  = 20_000
	maxConjuncts = 31
)

// search is the branch and bound over classes.
type search struct {
	classes []class
	// need is how many more replicas each counted conjunction asks for, by bit.
	need []int
	bits []uint64
	// heldAfter, votersAfter and widest are of the classes from i on: replicas that are held, nodes that may have voters, and the largest number of conjunctions that one
	// node satisfies.
	heldAfter, votersAfter, widest []int

	v, n, best, steps int
	choice, chosen    [][2]int
	found             bool
}

// run looks for the cheapest choice of v voters and up to n non-voters; ok is false if there are no v nodes for voters.
func (s *search) run(v, n int) (cost int, ok bool) {
	s.v, s.n, s.best, s.steps, s.found = v, n, 1<<62, 0, false
	s.choice = make([][2]int, len(s.classes))
	s.heldAfter, s.votersAfter, s.widest = make([]int, len(s.classes)+1), make([]int, len(s.classes)+1), make([]int, len(s.classes)+1)
	for i := len(s.classes) - 1; i >= 0; i-- {
		c := &s.classes[i]
		s.heldAfter[i] = s.heldAfter[i+1] + len(c.heldV) + len(c.heldN) + len(c.down)
		if s.votersAfter[i] = s.votersAfter[i+1]; !c.noVoter {
			s.votersAfter[i] += len(c.heldV) + len(c.heldN) + len(c.free)
		}
		wide := 0
		for _, b := range s.bits {
			if c.mask&b != 0 {
				wide++
			}
		}
		s.widest[i] = max(s.widest[i+1], wide)
	}
	s.step(0, v, n, 0)
	return s.best, s.found
}

func (s *search) step(i, v, n, cost int) {
	s.steps++
	// A choice that leaves too few nodes for voters is given up at once: a search that has found nothing has no other bound.
	if v > s.votersAfter[i] {
		return
	}
	if i == len(s.classes) {
		for _, need := range s.need {
			cost += max(0, need) * costDeficit
		}
		if cost += n * costMissing; cost < s.best || !s.found {
			s.best, s.found, s.chosen = cost, true, slices.Clone(s.choice)
		}
		return
	}
	open := 0
	for _, need := range s.need {
		open += max(0, need)
	}
	// A voter counts for a conjunction over all replicas and for one over voters. Each replica that is not held yet is shipped, or is missing, which costs more.
	bound := cost + max(0, open-s.widest[i]*(v+n))*costDeficit + max(0, v+n-s.heldAfter[i])*costShip
	if s.found && (bound >= s.best || s.steps > searchSteps) {
		return
	}
	for _, o := range s.options(i, v, n) {
		s.choice[i] = o
		s.take(i, o, 1)
		s.step(i+1, v-o[0], n-o[1], cost+s.classes[i].cost(o[0], o[1]))
		s.take(i, o, -1)
	}
}

func (s *search) take(i int, o [2]int, sign int) {
	for j, b := range s.bits {
		if s.classes[i].mask&b == 0 {
			continue
		}
		if s.need[j] -= sign * o[0]; b < 1<<votersBit {
			s.need[j] -= sign * o[1]
		}
	}
}

// options are the numbers of voters and non-voters that a class may have, the most promising first.
func (s *search) options(i, v, n int) (out [][2]int) {
	c := &s.classes[i]
	size := len(c.heldV) + len(c.heldN) + len(c.down) + len(c.free)
	maxV, maxN := min(v, size-len(c.down)), min(n, size)
	if c.noVoter {
		maxV = 0
	}
	if c.noNonVoter {
		maxN = 0
	}
	needV, needN := 0, 0
	for j, b := range s.bits {
		if c.mask&b == 0 {
			continue
		}
		if b < 1<<votersBit {
			needN = max(needN, s.need[j])
		} else {
			needV = max(needV, s.need[j])
		}
	}
	wantV := min(maxV, max(len(c.heldV), needV))
	wantN := min(maxN, max(len(c.heldN)+len(c.down), needN-wantV))
	for x := 0; x <= maxV; x++ {
		for y := 0; y <= min(maxN, size-x); y++ {
			out = append(out, [2]int{x, y})
		}
	}
	away := func(o [2]int) int { return abs(o[0]-wantV) + abs(o[1]-wantN) }
	slices.SortStableFunc(out, func(a, b [2]int) int { return cmp.Compare(away(a), away(b)) })
	return out
}

func abs(x int) int { return max(x, -x) }

// cost of giving a class so many voters and non-voters.
func (c *class) cost(v, n int) int {
	same := min(v, len(c.heldV))
	promoted := min(v-same, len(c.heldN))
	ships := v - same - promoted
	stay := min(n, len(c.down)+len(c.heldN)-promoted)
	demoted := min(n-stay, len(c.heldV)-same)
	ships += n - stay - demoted
	cost := (promoted+demoted)*costFlip + ships*costShip
	if c.leased && v == 0 {
		cost += costFlip
	}
	return cost
}

// pick chooses the nodes for so many voters and non-voters.
func (c *class) pick(v, n int, s *set) {
	same := min(v, len(c.heldV))
	promoted := min(v-same, len(c.heldN))
	ships := v - same - promoted
	s.voters = append(append(append(s.voters, c.heldV[:same]...), c.heldN[:promoted]...), c.free[:ships]...)
	rest := slices.Concat(c.heldN[promoted:], c.down, c.heldV[same:], c.free[ships:])
	s.nonVoters = append(s.nonVoters, rest[:n]...)
}

// badness of a voter's place, which is given up as soon as there is another: forbidden, being decommissioned, dead.
func (d *decision) badness(n *Node) int {
	switch {
	case n.Dead:
		return 3
	case n.Decommissioning:
		return 2
	case d.forbidden(n, true), d.single && !n.usable() && n.Node != d.r.Leaseholder:
		return 1 // a range's only voter has to be able to take the lease
	}
	return 0
}

// forbidden reports whether a constraint forbids a voter or a non-voter on a node. Of a node that was not heard of nothing is known, so nothing is moved on its
// account.
func (d *decision) forbidden(n *Node, voter bool) bool { return !n.unknown && d.z.Forbids(n, voter) }

// target are the replicas that the range is to have: as many voters as there can be, at most want, and up to nonVoters others.
func (d *decision) target(want, nonVoters int) (t set) {
	bad := slices.DeleteFunc(slices.Clone(d.voters), func(n *Node) bool { return d.badness(n) == 0 })
	slices.SortStableFunc(bad, func(a, b *Node) int {
		return cmp.Or(cmp.Compare(d.badness(a), d.badness(b)), cmp.Compare(b.Node, a.Node))
	})
	// placement.P2 and placement.P3: no fewer than there are, and more only to an odd number.
	had := min(len(d.voters), d.z.Voters())
	for v := want; v >= had; v-- {
		if v%2 == 0 && v != had && v != d.z.Voters() {
			continue
		}
		for kept := 0; kept <= min(len(bad), v); kept++ {
			s := d.classify(bad[:kept])
			if _, ok := s.run(v-kept, nonVoters); !ok {
				continue
			}
			t.voters = slices.Clone(bad[:kept])
			for i := range s.classes {
				s.classes[i].pick(s.chosen[i][0], s.chosen[i][1], &t)
			}
			d.improve(&t, bad[:kept])
			return t
		}
	}
	return set{d.voters, d.nonVoters}
}

// classify makes the classes of the nodes that may have a replica, except those voters that are kept anyway.
func (d *decision) classify(kept []*Node) *search {
	s := &search{}
	for side, cs := range [][]Conjunction{d.z.Constraints, d.z.VoterConstraints} {
		for i := range min(len(cs), maxConjuncts) {
			if cs[i].Replicas > 0 {
				s.bits = append(s.bits, 1<<(side*votersBit+i))
				s.need = append(s.need, cs[i].Replicas)
			}
		}
	}
	byKind := make(map[class0]int)
	at := func(n *Node) *class {
		k := class0{d.mask(n), d.forbidden(n, true), d.forbidden(n, false)}
		i, ok := byKind[k]
		if !ok {
			i = len(s.classes)
			byKind[k] = i
			s.classes = append(s.classes, class{mask: k.mask, noVoter: k.noVoter, noNonVoter: k.noNonVoter})
		}
		return &s.classes[i]
	}
	lose := func(n *Node) bool { return n.Dead || n.Decommissioning || contains(kept, n) }
	for _, n := range kept {
		for j, b := range s.bits {
			if d.mask(n)&b != 0 {
				s.need[j]--
			}
		}
	}
	for _, n := range d.voters {
		if lose(n) {
			continue
		}
		c := at(n)
		if d.badness(n) > 0 && !c.noVoter {
			c.down = append(c.down, n)
		} else if c.heldV = append(c.heldV, n); n.Node == d.r.Leaseholder {
			c.leased = true
		}
	}
	for _, n := range d.nonVoters {
		if !lose(n) {
			if c := at(n); n.usable() {
				c.heldN = append(c.heldN, n)
			} else {
				c.down = append(c.down, n)
			}
		}
	}
	for _, n := range d.all {
		if n.usable() && !contains(d.voters, n) && !contains(d.nonVoters, n) {
			c := at(n)
			c.free = append(c.free, n)
		}
	}
	for i := range s.classes {
		c := &s.classes[i]
		first := func(a, b *Node) int {
			return cmp.Or(-boolCompare(a.Node == d.r.Leaseholder, b.Node == d.r.Leaseholder), -boolCompare(a.Live, b.Live), d.compareFill(a, b))
		}
		for _, l := range [][]*Node{c.heldV, c.heldN, c.free} {
			slices.SortStableFunc(l, first)
		}
	}
	// Classes by which few conjunctions can be satisfied come first.
	slices.SortStableFunc(s.classes, func(a, b class) int {
		return cmp.Or(boolCompare(a.mask == 0, b.mask == 0), cmp.Compare(len(a.heldV)+len(a.heldN)+len(a.down)+len(a.free), len(b.heldV)+len(b.heldN)+len(b.down)+len(b.free)))
	})
	return s
}

// class0 is what the nodes of a class have in common.
type class0 struct {
	mask                uint64
	noVoter, noNonVoter bool
}

func boolCompare(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// mask has the counted conjunctions that a node satisfies; one that was not heard of satisfies all.
func (d *decision) mask(n *Node) (m uint64) {
	for side, cs := range [][]Conjunction{d.z.Constraints, d.z.VoterConstraints} {
		for i := range min(len(cs), maxConjuncts) {
			if cs[i].Replicas > 0 && (n.unknown || cs[i].satisfied(n)) {
				m |= 1 << (side*votersBit + i)
			}
		}
	}
	return m
}

// merit is how good an assignment is among those that cost the same. Smaller is better.
type merit struct {
	down, concentration    int
	apartVoters, apartBoth float64 // negative sums of distances
	fill                   float64
}

const apartSlack = 1e-9

func (a merit) compare(b merit) int {
	if c := cmp.Or(cmp.Compare(a.down, b.down), cmp.Compare(a.concentration, b.concentration)); c != 0 {
		return c
	}
	for _, p := range [][2]float64{{a.apartVoters, b.apartVoters}, {a.apartBoth, b.apartBoth}, {a.fill, b.fill}} {
		if p[0] < p[1]-apartSlack {
			return -1
		} else if p[0] > p[1]+apartSlack {
			return 1
		}
	}
	return 0
}

// improve exchanges nodes of an assignment for better ones, one by one, as long as the assignment does not cost more. The kept ones stay.
func (d *decision) improve(t *set, kept []*Node) {
	candidates := slices.DeleteFunc(slices.Concat(d.voters, d.nonVoters, d.all), func(n *Node) bool {
		held := contains(d.voters, n) || contains(d.nonVoters, n)
		return n.Dead || n.Decommissioning || contains(kept, n) || !held && !n.usable()
	})
	slices.SortFunc(candidates, func(a, b *Node) int { return cmp.Compare(a.Node, b.Node) })
	candidates = slices.Compact(candidates)
	mayVote := func(n *Node) bool { return (contains(d.voters, n) || n.usable()) && d.badness(n) == 0 }
	for range 4 * (len(t.voters) + len(t.nonVoters)) {
		cost, have := d.cost(t), d.merit(t)
		var best *set
		try := func(s set) {
			if d.cost(&s) > cost {
				return
			}
			if m := d.merit(&s); m.compare(have) < 0 {
				best, have = &s, m
			}
		}
		for i, v := range t.voters {
			if contains(kept, v) {
				continue
			}
			for _, c := range candidates {
				if contains(t.voters, c) || !mayVote(c) {
					continue
				}
				s := set{slices.Clone(t.voters), t.nonVoters}
				s.voters[i] = c
				if j := slices.Index(t.nonVoters, c); j >= 0 {
					if d.forbidden(v, false) {
						continue
					}
					s.nonVoters = slices.Clone(t.nonVoters)
					s.nonVoters[j] = v
				}
				try(s)
			}
		}
		for i := range t.nonVoters {
			for _, c := range candidates {
				if contains(t.voters, c) || contains(t.nonVoters, c) || d.forbidden(c, false) {
					continue
				}
				s := set{t.voters, slices.Clone(t.nonVoters)}
				s.nonVoters[i] = c
				try(s)
			}
		}
		if best == nil {
			return
		}
		*t = *best
	}
}

// cost of an assignment, as the search counts it.
func (d *decision) cost(t *set) (cost int) {
	for _, n := range t.voters {
		switch {
		case contains(d.voters, n):
		case contains(d.nonVoters, n):
			cost += costFlip
		default:
			cost += costShip
		}
	}
	for _, n := range t.nonVoters {
		switch {
		case contains(d.nonVoters, n):
		case contains(d.voters, n):
			cost += costFlip
		default:
			cost += costShip
		}
	}
	if holder := d.byID[d.r.Leaseholder]; holder != nil && contains(d.voters, holder) && !contains(t.voters, holder) {
		cost += costFlip
	}
	return cost + d.deficit(t)*costDeficit
}

// deficit is how many replicas the counted conjunctions lack.
func (d *decision) deficit(t *set) (missing int) {
	count := func(cs []Conjunction, ns ...[]*Node) {
		for i := range cs {
			need := cs[i].Replicas
			for _, l := range ns {
				for _, n := range l {
					if n.unknown || cs[i].satisfied(n) {
						need--
					}
				}
			}
			if cs[i].Replicas > 0 {
				missing += max(0, need)
			}
		}
	}
	count(d.z.Constraints, t.voters, t.nonVoters)
	count(d.z.VoterConstraints, t.voters)
	return missing
}

func (d *decision) merit(t *set) (m merit) {
	both := t.all()
	for i, a := range both {
		if !a.Live {
			m.down++
		}
		m.fill += d.fill(a)
		for j := range i {
			apart := d.apart(a, both[j])
			if m.apartBoth -= apart; i < len(t.voters) {
				m.apartVoters -= apart
			}
		}
	}
	m.concentration = concentration(t.voters)
	return m
}

// concentration tells, tier by tier, by how much the voters of one place exceed a minority: without such an excess the range survives the loss of
// the place (CRDB'22 §3.2: with a survival goal of a region, no region has a quorum).
func concentration(voters []*Node) (sum int) {
	const tiers = 3
	most := (len(voters) - 1) / 2
	for tier := range tiers {
		over := 0
		for _, a := range voters {
			if len(a.Locality) <= tier {
				continue
			}
			same := 0
			for _, b := range voters {
				if len(b.Locality) > tier && slices.Equal(a.Locality[:tier+1], b.Locality[:tier+1]) {
					same++
				}
			}
			over = max(over, same-most)
		}
		sum = sum*100 + over
	}
	return sum
}

// apart is the distance of two nodes, which is asked for again and again.
func (d *decision) apart(a, b *Node) float64 {
	n := len(d.byID)
	if len(d.distances) != n*n {
		d.distances = make([]float64, n*n)
		i := 0
		for _, x := range d.byID {
			x.index = i
			i++
		}
		for _, x := range d.byID {
			for _, y := range d.byID {
				d.distances[x.index*n+y.index] = distance(x.Locality, y.Locality)
			}
		}
	}
	return d.distances[a.index*n+b.index]
}
