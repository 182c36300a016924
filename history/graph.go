package history

import (
	"cmp"
	"slices"
)

// The dependency graph, and the search for cycles in it.
//
// Nodes are transactions, and, for the order of time, one barrier for each return: a transaction comes before the
// barrier of its return, a barrier before the next one, and the last barrier before a call comes before the
// transaction. So the order of time costs as many edges as there are transactions and not their square.
//
// Strongly connected components show in linear time whether there is any cycle. They are computed twice: of the graph, and of its product
// with "the last edge was an anti-dependency", in which an anti-dependency can't follow another one. A graph without a strongly connected
// component in the product has no cycle that RepeatableRead forbids. Only knots are searched for short cycles.

type mask uint8

const (
	maskWW mask = 1 << iota
	maskWR
	maskRW
	maskOrder // sessions, time, barriers
)

type edge struct {
	from, to      int32
	kind          EdgeKind
	key           int32
	before, after int64
}

func (e *edge) mask() mask {
	switch e.kind {
	case WW:
		return maskWW
	case WR:
		return maskWR
	case RW:
		return maskRW
	}
	return maskOrder
}

type graph struct {
	txns  []*Txn // node i, for i < len(txns); barriers follow
	nodes int
	keys  []string
	edges []edge
	out   []int32 // edges of node i: order[out[i]:out[i+1]]
	order []int32
}

func (g *graph) add(from, to int32, kind EdgeKind, key int32, before, after int64) {
	if from != to {
		g.edges = append(g.edges, edge{from, to, kind, key, before, after})
	}
}

// addOrder adds the edges of an ordering.
func (g *graph) addOrder(o Ordering) {
	g.nodes = len(g.txns)
	switch o {
	case BySession:
		last := map[int]int32{}
		for _, i := range g.byCall() {
			t := g.txns[i]
			if t.Past {
				continue
			}
			if j, ok := last[t.Client]; ok {
				g.add(j, i, Session, -1, 0, 0)
			}
			last[t.Client] = i
		}
	case ByTime:
		var ended []int32
		for i, t := range g.txns {
			if t.Outcome == OK && !t.Past {
				ended = append(ended, int32(i))
			}
		}
		slices.SortFunc(ended, func(a, b int32) int { return cmp.Compare(g.txns[a].Return, g.txns[b].Return) })
		g.nodes += len(ended)
		barrier := func(n int) int32 { return int32(len(g.txns) + n) }
		for n, i := range ended {
			g.add(i, barrier(n), Realtime, -1, 0, 0)
			if n > 0 {
				g.add(barrier(n-1), barrier(n), Realtime, -1, 0, 0)
			}
		}
		n := 0
		for _, i := range g.byCall() {
			if g.txns[i].Past {
				continue
			}
			for n < len(ended) && g.txns[ended[n]].Return < g.txns[i].Call {
				n++
			}
			if n > 0 {
				g.add(barrier(n-1), i, Realtime, -1, 0, 0)
			}
		}
	}
}

func (g *graph) byCall() []int32 {
	out := make([]int32, len(g.txns))
	for i := range out {
		out[i] = int32(i)
	}
	slices.SortFunc(out, func(a, b int32) int { return cmp.Compare(g.txns[a].Call, g.txns[b].Call) })
	return out
}

// index prepares the lists of edges by node.
func (g *graph) index() {
	g.out = make([]int32, g.nodes+1)
	for i := range g.edges {
		g.out[g.edges[i].from+1]++
	}
	for i := range g.nodes {
		g.out[i+1] += g.out[i]
	}
	g.order = make([]int32, len(g.edges))
	next := slices.Clone(g.out)
	for i := range g.edges {
		f := g.edges[i].from
		g.order[next[f]] = int32(i)
		next[f]++
	}
}

// components returns each node's strongly connected component over the edges of m, and the number of nodes in each.
// Components are numbered against the edges: an edge never leads to a higher one. With product, there are two states
// of each node v: 2v, and 2v+1 when the last edge was an anti-dependency, after which none may follow.
func (g *graph) components(m mask, product bool) (comp []int32, size []int32) {
	states := g.nodes
	if product {
		states *= 2
	}
	comp = make([]int32, states)
	low := make([]int32, states)
	num := make([]int32, states)
	at := make([]int32, states) // next edge to follow
	for i := range comp {
		comp[i] = -1
	}
	var stack, path []int32
	var counter int32
	succ := func(s int32, e *edge) (int32, bool) {
		if e.mask()&m == 0 {
			return 0, false
		}
		if !product {
			return e.to, true
		}
		if e.kind == RW {
			return 2*e.to + 1, s&1 == 0
		}
		return 2 * e.to, true
	}
	for root := range int32(states) {
		if num[root] != 0 {
			continue
		}
		push := func(s int32) {
			counter++
			num[s], low[s] = counter, counter
			v := s
			if product {
				v /= 2
			}
			at[s] = g.out[v]
			stack, path = append(stack, s), append(path, s)
		}
		push(root)
		for len(path) > 0 {
			s := path[len(path)-1]
			v := s
			if product {
				v /= 2
			}
			if at[s] < g.out[v+1] {
				e := &g.edges[g.order[at[s]]]
				at[s]++
				if t, ok := succ(s, e); ok {
					if num[t] == 0 {
						push(t)
					} else if comp[t] < 0 {
						low[s] = min(low[s], num[t])
					}
				}
				continue
			}
			path = path[:len(path)-1]
			if len(path) > 0 {
				p := path[len(path)-1]
				low[p] = min(low[p], low[s])
			}
			if low[s] == num[s] {
				n := int32(0)
				for {
					t := stack[len(stack)-1]
					stack = stack[:len(stack)-1]
					comp[t] = int32(len(size))
					n++
					if t == s {
						break
					}
				}
				size = append(size, n)
			}
		}
	}
	return comp, size
}

// searcher looks for shortest paths; its memory is used again and again.
type searcher struct {
	g     *graph
	stamp []int32
	via   []int32 // edge by which a state was reached first
	prev  []int32 // state from which
	round int32
	queue []int32
	cost  int
}

func newSearcher(g *graph) *searcher {
	return &searcher{g: g, stamp: make([]int32, 2*g.nodes), via: make([]int32, 2*g.nodes), prev: make([]int32, 2*g.nodes)}
}

// path returns the edges of a shortest way from a to b over the edges of m within one component; in the product, it
// begins after an anti-dependency and ends where one may follow.
func (s *searcher) path(a, b int32, m mask, product bool, inside func(state int32) bool) []int32 {
	s.round++
	start := 2 * a
	if product {
		start++
	}
	s.queue = append(s.queue[:0], start)
	s.stamp[start] = s.round
	for i := 0; i < len(s.queue); i++ {
		st := s.queue[i]
		v := st / 2
		for _, n := range s.g.order[s.g.out[v]:s.g.out[v+1]] {
			s.cost++
			e := &s.g.edges[n]
			if e.mask()&m == 0 || product && e.kind == RW && st&1 == 1 {
				continue
			}
			t := 2 * e.to
			if product && e.kind == RW {
				t++
			}
			if s.stamp[t] == s.round || !inside(t) {
				continue
			}
			s.stamp[t], s.via[t], s.prev[t] = s.round, n, st
			if t == 2*b {
				var out []int32
				for ; t != start; t = s.prev[t] {
					out = append(out, s.via[t])
				}
				slices.Reverse(out)
				return out
			}
			s.queue = append(s.queue, t)
		}
	}
	return nil
}

// searchCost bounds the search for a shorter cycle once there is one, and searchGiveUp the search for one of a class at
// all, in edges followed. Giving up only misses a second class of a knot: the first is found at once.
const (
	searchCost   = 2_000_000
	searchGiveUp = 40_000_000
)

// shortest finds a short cycle through any of the edges in pick, closed over m. Cycles for which want returns false do
// not count.
func (s *searcher) shortest(pick []int32, m mask, product bool, inside func(n int32) func(int32) bool, want func([]int32) bool) []int32 {
	var best []int32
	s.cost = 0
	for _, n := range pick {
		if best != nil && s.cost > searchCost || s.cost > searchGiveUp {
			break
		}
		e := &s.g.edges[n]
		p := s.path(e.to, e.from, m, product, inside(n))
		if p == nil {
			continue
		}
		c := append([]int32{n}, p...)
		if product {
			c = s.simple(c)
		}
		if want(c) && (best == nil || s.hops(c) < s.hops(best)) {
			best = c
			if s.hops(best) <= 2 {
				break
			}
		}
	}
	return best
}

// hops is the length of a cycle without barriers.
func (s *searcher) hops(c []int32) (n int) {
	for _, e := range c {
		if int(s.g.edges[e].to) < len(s.g.txns) {
			n++
		}
	}
	return n
}

// simple cuts a closed walk without adjacent anti-dependencies down to one that visits no node twice: of two parts
// that meet at a node, at most one has adjacent ones there.
func (s *searcher) simple(c []int32) []int32 {
	for again := true; again; {
		again = false
		at := map[int32]int{}
		for i, n := range c {
			v := s.g.edges[n].from
			j, seen := at[v]
			if !seen {
				at[v] = i
				continue
			}
			inner := slices.Clone(c[j:i])
			outer := append(slices.Clone(c[:j]), c[i:]...)
			if s.adjacent(inner) {
				c = outer
			} else {
				c = inner
			}
			again = true
			break
		}
	}
	return c
}

func (s *searcher) adjacent(c []int32) bool {
	for i, n := range c {
		if s.g.edges[n].kind == RW && s.g.edges[c[(i+1)%len(c)]].kind == RW && len(c) > 1 {
			return true
		}
	}
	return false
}

// class names a cycle.
func (s *searcher) class(c []int32) Class {
	var rw, wr int
	ordered := false
	for _, n := range c {
		switch s.g.edges[n].kind {
		case RW:
			rw++
		case WR:
			wr++
		case Session, Realtime:
			ordered = true
		}
	}
	class := G2
	switch {
	case rw == 0 && wr == 0:
		class = G0
	case rw == 0:
		class = G1c
	case rw == 1:
		class = GSingle
	case !s.adjacent(c):
		class = GNonadjacent
	}
	if ordered {
		class += realtime
	}
	return class
}

// anomaly explains a cycle; barriers become edges of time.
func (s *searcher) anomaly(c []int32) *Anomaly {
	a := &Anomaly{Class: s.class(c)}
	first := 0
	for i, n := range c { // begin at a transaction
		if int(s.g.edges[n].from) < len(s.g.txns) {
			first = i
			break
		}
	}
	c = append(slices.Clone(c[first:]), c[:first]...)
	for i := 0; i < len(c); i++ {
		e := &s.g.edges[c[i]]
		x := Edge{From: s.g.txns[e.from], Kind: e.kind, Before: e.before, After: e.after}
		for int(s.g.edges[c[i]].to) >= len(s.g.txns) {
			i++
		}
		x.To = s.g.txns[s.g.edges[c[i]].to]
		if e.key >= 0 {
			x.Key = s.g.keys[e.key]
		}
		a.Cycle = append(a.Cycle, x)
	}
	for i := range a.Cycle {
		a.Txns = append(a.Txns, a.Cycle[i].From)
	}
	return a
}

// search finds cycles of every class, one for each knot.
func (g *graph) search(r *Report, o Ordering) {
	g.addOrder(o)
	g.index()
	r.Txns, r.Edges = len(g.txns), len(g.edges)
	s := newSearcher(g)
	s.cycles(r, 0)
	if o != ByValues {
		s.cycles(r, maskOrder)
	}
}

// cycles looks for cycles with the edges of values, and with order's. With order, only those that need it count.
func (s *searcher) cycles(r *Report, order mask) {
	g := s.g
	dep := maskWW | maskWR | order
	all := dep | maskRW
	want := func(classes ...Class) func([]int32) bool {
		return func(c []int32) bool {
			class := s.class(c)
			for _, w := range classes {
				if order != 0 {
					w += realtime
				}
				if class == w {
					return true
				}
			}
			return false
		}
	}
	// knots calls f for each component of more than one node with its edges of the kinds in pick.
	knots := func(comp, size []int32, m, pick mask, product bool, f func(c int32, edges []int32)) {
		lists := map[int32][]int32{}
		for n := range g.edges {
			e := &g.edges[n]
			if e.mask()&pick == 0 {
				continue
			}
			from, to := e.from, e.to
			if product {
				from, to = 2*from, 2*to
				if e.kind == RW {
					to++
				}
			}
			if c := comp[from]; c == comp[to] && size[c] > 1 {
				lists[c] = append(lists[c], int32(n))
			}
		}
		for _, c := range sortedKeys(lists) {
			f(c, lists[c])
		}
	}
	report := func(c []int32) bool {
		if c != nil {
			r.add(s.anomaly(c))
		}
		return c != nil
	}

	pcomp, psize := g.components(all, true)
	if slices.ContainsFunc(psize, func(n int32) bool { return n > 1 }) {
		comp, size := g.components(maskWW|order, false)
		knots(comp, size, maskWW|order, maskWW, false, func(c int32, edges []int32) {
			report(s.shortest(edges, maskWW|order, false, func(int32) func(int32) bool {
				return func(st int32) bool { return comp[st/2] == c }
			}, want(G0)))
		})
		comp, size = g.components(dep, false)
		knots(comp, size, dep, maskWR, false, func(c int32, edges []int32) {
			report(s.shortest(edges, dep, false, func(int32) func(int32) bool {
				return func(st int32) bool { return comp[st/2] == c }
			}, want(G1c)))
		})
		knots(pcomp, psize, all, maskRW, true, func(c int32, edges []int32) {
			one := s.shortest(edges, dep, false, func(n int32) func(int32) bool {
				end := comp[g.edges[n].from] // components are numbered against the edges
				return func(st int32) bool { return comp[st/2] >= end && pcomp[st/2*2] == c }
			}, want(GSingle))
			report(one)
			if one == nil {
				report(s.shortest(edges, all, true, func(int32) func(int32) bool {
					return func(st int32) bool { return pcomp[st] == c }
				}, want(GNonadjacent, GSingle)))
			}
		})
	}
	comp, size := g.components(all, false)
	knots(comp, size, all, maskRW, false, func(c int32, edges []int32) {
		report(s.shortest(edges, all, false, func(int32) func(int32) bool {
			return func(st int32) bool { return comp[st/2] == c }
		}, want(G2)))
	})
}

func sortedKeys[V any](m map[int32]V) []int32 {
	out := make([]int32, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}
