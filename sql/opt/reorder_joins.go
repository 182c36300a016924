package opt

import (
	"cmp"
	"math/bits"
	"slices"

	"meridian/sql/scalar"
)

// Joins are reordered by dynamic programming over connected sets of the joined relations, as far as the operators allow:
// every join predicate becomes an edge with a total eligibility set (TES), the relations that have to be present before
// it may be applied. TES are found by the rules of Moerkotte, Fender and Eich, "On the Correct and Complete
// Enumeration of the Core Search Space" (SIGMOD 2013), in their simplest form (CD-A): from which pairs of operators
// are associative and which are asscommutative, given what their predicates do with NULLs.
//
// Pairs of connected sets are enumerated as in Moerkotte and Neumann, "Analysis of Two Existing and One New Dynamic
// Programming Algorithm" (VLDB 2006), DPccp: a chain of 24 relations has as many as a star of 10. Where there are too many of them,
// as Neumann and Radke, "Adaptive Optimization of Very Large Join Queries" (SIGMOD 2018), we look for the best tree over
// one order of the relations. They take that order from IKKBZ, we from a greedy tree, which is then one of those
// considered, and needs no case for joins that are not inner.

// maxPairs is how many pairs of sets are joined when all are tried, and maxLinear how many when relations stay in one order. A
// pair costs about 16 us, so that ten relations take less than 100 ms and 45 less than a second.
const (
	maxPairs  = 2500
	maxLinear = 8000
)

// maxRelations and maxEdges bound the trees of joins that are reordered.
const (
	maxRelations = 60
	maxEdges     = 400
)

// edge is a predicate, or the whole condition of a join that is not inner.
type edge struct {
	kind     JoinKind
	conds    []scalar.Expr
	tes      uint64
	ltes     uint64 // of a join that is not inner: the relations that must be in its left side
	rtes     uint64
	ses      uint64
	required bool // false: a cross product, which only connects, or an equality that follows from others
	// class numbers equalities that follow from one another, from 1.
	class   int
	derived bool
}

// operator is a join of the tree as written.
type operator struct {
	kind           JoinKind
	left, right    uint64 // relations below
	conds          []scalar.Expr
	rejects        colSet // columns whose NULLs the condition rejects
	rightCols      colSet
	below          []*operator
	lbelow, rbelow []*operator
}

// joinGraph is one tree of joins.
type joinGraph struct {
	o      *optimizer
	leaves []*group
	edges  []edge
	groups map[uint64]*group
	root   *group
}

// reorderable reports whether a join takes part in reordering.
func reorderable(g *group) (*Join, bool) {
	j, ok := g.expr().(*Join)
	if !ok || g.volatile {
		return nil, false
	}
	if child(j.Right).outer.intersects(&child(j.Left).cols) {
		return nil, false
	}
	switch j.Kind {
	case InnerJoin, LeftJoin, SemiJoin, AntiJoin:
	default:
		return nil, false
	}
	return j, true
}

// reorder adds other orders of a tree of joins to its groups.
func (o *optimizer) reorder(root *group) {
	jg := &joinGraph{o: o, groups: make(map[uint64]*group)}
	jg.collect(root)
	n := len(jg.leaves)
	if n < 3 || n > maxRelations || len(jg.edges) > maxEdges {
		return
	}
	for i, l := range jg.leaves {
		jg.groups[1<<i] = l
	}
	jg.root = root
	jg.deriveEdges()
	pairs, linear := maxPairs, maxLinear
	if o.env.JoinPairs > 0 {
		pairs, linear = o.env.JoinPairs, 4*o.env.JoinPairs
	}
	for _, crosses := range [...]bool{true, false} {
		var all []pair
		if !jg.neighbours(crosses).pairs(func(a, b uint64) bool { all = append(all, pair{a, b}); return len(all) <= pairs }) {
			continue
		}
		// A set's number of rows is estimated from its first join, so that it does not depend on how sets are found.
		for i := range all {
			if p := &all[i]; p.b&-p.b < p.a&-p.a {
				p.a, p.b = p.b, p.a
			}
		}
		slices.SortFunc(all, func(x, y pair) int { return cmp.Or(cmp.Compare(x.a|x.b, y.a|y.b), cmp.Compare(y.a, x.a)) })
		for _, p := range all {
			jg.both(p.a, p.b)
		}
		return
	}
	jg.linear(jg.greedy(), linear)
}

// pair is two sets of relations.
type pair struct{ a, b uint64 }

// collect finds the relations and operators below a group.
func (jg *joinGraph) collect(g *group) *operator {
	j, ok := reorderable(g)
	if !ok || len(jg.leaves) > maxRelations {
		jg.leaves = append(jg.leaves, g)
		return nil
	}
	from := len(jg.leaves)
	l := jg.collect(child(j.Left))
	mid := len(jg.leaves)
	r := jg.collect(child(j.Right))
	to := len(jg.leaves)
	if to > maxRelations {
		return nil
	}
	op := &operator{kind: j.Kind, conds: j.On, left: span(from, mid), right: span(mid, to)}
	op.rightCols = child(j.Right).cols
	for _, e := range j.On {
		rej := rejectedNulls(e)
		op.rejects.addAll(&rej)
	}
	if l != nil {
		op.lbelow = append(append(op.lbelow, l), l.below...)
	}
	if r != nil {
		op.rbelow = append(append(op.rbelow, r), r.below...)
	}
	op.below = append(append(op.below, op.lbelow...), op.rbelow...)
	jg.addEdges(op)
	set := op.left | op.right
	jg.groups[set] = g
	return op
}

// span is the set of relations from up to, without, to.
func span(from, to int) uint64 { return (1<<to - 1) &^ (1<<from - 1) }

// relations is the set of relations whose columns an expression reads.
func (jg *joinGraph) relations(e scalar.Expr) uint64 {
	used := exprCols(e)
	var s uint64
	for i, l := range jg.leaves {
		if used.intersects(&l.cols) {
			s |= 1 << i
		}
	}
	return s
}

func (jg *joinGraph) addEdges(op *operator) {
	if op.kind != InnerJoin {
		e := edge{kind: op.kind, conds: op.conds, required: true}
		for _, c := range op.conds {
			e.ses |= jg.relations(c)
		}
		jg.finishEdge(e, op)
		return
	}
	if len(op.conds) == 0 {
		jg.finishEdge(edge{kind: InnerJoin, ses: op.left | op.right}, op)
		return
	}
	for _, c := range op.conds {
		jg.finishEdge(edge{kind: InnerJoin, conds: []scalar.Expr{c}, ses: jg.relations(c), required: true}, op)
	}
}

func (jg *joinGraph) finishEdge(e edge, op *operator) {
	if e.ses&op.left == 0 {
		e.ses |= op.left
	}
	if e.ses&op.right == 0 {
		e.ses |= op.right
	}
	e.tes = e.ses
	for _, a := range op.lbelow {
		if !associative(a, op) {
			e.tes |= a.left
		}
		if !leftAsscom(a, op) {
			e.tes |= a.right
		}
	}
	for _, a := range op.rbelow {
		if !associative(op, a) {
			e.tes |= a.right
		}
		if !rightAsscom(op, a) {
			e.tes |= a.left
		}
	}
	e.ltes, e.rtes = e.tes&op.left, e.tes&op.right
	jg.edges = append(jg.edges, e)
}

// associative: (e1 a e2) b e3 is e1 a (e2 b e3), b's condition being about e2 and e3.
func associative(a, b *operator) bool {
	switch a.kind {
	case InnerJoin:
		return true
	case LeftJoin:
		return b.kind == LeftJoin && b.rejects.intersects(&a.rightCols)
	}
	return false
}

// leftAsscom: (e1 a e2) b e3 is (e1 b e3) a e2, both conditions being about e1.
func leftAsscom(a, b *operator) bool { return true }

// rightAsscom: e1 a (e2 b e3) is e2 b (e1 a e3), both conditions being about e3.
func rightAsscom(a, b *operator) bool { return a.kind == InnerJoin && b.kind == InnerJoin }

// join proposes to join two disjoint sets, in this order for joins that are not inner. It reports whether that gives a
// plan for the union.
func (jg *joinGraph) join(a, b uint64) bool {
	jg.o.charge(0)
	l, r := jg.groups[a], jg.groups[b]
	if l == nil || r == nil {
		return false
	}
	all := a | b
	kind := InnerJoin
	var on []scalar.Expr
	connected := false
	var derived []int
	for i := range jg.edges {
		e := &jg.edges[i]
		if e.tes&^all != 0 || e.required && (e.tes&^a == 0 || e.tes&^b == 0) {
			continue
		}
		if e.kind == InnerJoin {
			if e.tes&a == 0 || e.tes&b == 0 {
				if e.required {
					return false // should have been applied below
				}
				continue
			}
			if e.derived {
				derived = append(derived, i)
				continue
			}
			if !e.required {
				connected = true
				continue
			}
			if kind != InnerJoin {
				return false
			}
			on = append(on, e.conds...)
			connected = true
			continue
		}
		if e.ltes&^a != 0 || e.rtes&^b != 0 {
			return false
		}
		if connected || kind != InnerJoin {
			return false
		}
		kind, on, connected = e.kind, e.conds, true
	}
	if kind == InnerJoin {
		on = jg.addDerived(derived, on, a, b)
		connected = connected || len(on) > 0
	}
	if !connected {
		return false
	}
	g := jg.groups[all]
	n := &Join{Kind: kind, Left: l, Right: r, On: on}
	if g == nil {
		g = jg.o.newGroup(n)
		g.explored, g.pruned = true, true
		g.needed = jg.needs(all, g)
		jg.groups[all] = g
		jg.applies(g, n)
		return true
	}
	for _, e := range g.exprs {
		if j, ok := e.(*Join); ok && (j.Left == l && j.Right == r || kind == InnerJoin && j.Left == r && j.Right == l) {
			return true
		}
	}
	g.add(n)
	jg.applies(g, n)
	return true
}

// applies proposes to run a relation of the tree that groups once for each row of the other side.
func (jg *joinGraph) applies(g *group, j *Join) {
	o := jg.o
	if r := child(j.Right); jg.leaf(r) {
		o.joinToApply(g, j)
	}
	if l := child(j.Left); j.Kind == InnerJoin && jg.leaf(l) {
		o.joinToApply(g, &Join{Kind: InnerJoin, Left: j.Right, Right: j.Left, On: j.On})
	}
}

func (jg *joinGraph) leaf(g *group) bool {
	for _, l := range jg.leaves {
		if l == g {
			return true
		}
	}
	return false
}

// needs are the columns of a set that the rest of the tree or anything above reads.
func (jg *joinGraph) needs(set uint64, g *group) colSet {
	need := jg.root.needed
	for i := range jg.edges {
		if e := &jg.edges[i]; e.tes&^set != 0 {
			need.addExprs(e.conds)
		}
	}
	return need.intersect(g.cols)
}

// deriveEdges adds the equalities of columns that follow from others: with a = b and b = c also a = c, by which a and c
// can be joined before b.
func (jg *joinGraph) deriveEdges() {
	type member struct {
		col ColumnID
		rel uint64
	}
	var classes [][]member
	find := func(c ColumnID) int {
		for i, cl := range classes {
			for _, m := range cl {
				if m.col == c {
					return i
				}
			}
		}
		return -1
	}
	pairOf := func(e *edge) (x, y *scalar.Column, ok bool) {
		if e.kind != InnerJoin || !e.required || len(e.conds) != 1 || e.tes != e.ses || bits.OnesCount64(e.ses) != 2 {
			return nil, nil, false
		}
		c, ok := e.conds[0].(*scalar.Compare)
		if !ok || c.Op != scalar.EQ {
			return nil, nil, false
		}
		x, xok := c.Left.(*scalar.Column)
		y, yok := c.Right.(*scalar.Column)
		if !xok || !yok || !x.T.Equal(y.T) || !keySafe(x.T) {
			return nil, nil, false
		}
		return x, y, true
	}
	for i := range jg.edges {
		x, y, ok := pairOf(&jg.edges[i])
		if !ok {
			continue
		}
		a, b := find(x.ID), find(y.ID)
		switch {
		case a < 0 && b < 0:
			classes = append(classes, []member{{x.ID, jg.relations(x)}, {y.ID, jg.relations(y)}})
		case a < 0:
			classes[b] = append(classes[b], member{x.ID, jg.relations(x)})
		case b < 0:
			classes[a] = append(classes[a], member{y.ID, jg.relations(y)})
		case a != b:
			classes[a] = append(classes[a], classes[b]...)
			classes[b] = nil
		}
	}
	direct := map[[2]ColumnID]bool{}
	for i := range jg.edges {
		if x, y, ok := pairOf(&jg.edges[i]); ok {
			jg.edges[i].class = find(x.ID) + 1
			direct[[2]ColumnID{x.ID, y.ID}], direct[[2]ColumnID{y.ID, x.ID}] = true, true
		}
	}
	for n, cl := range classes {
		if len(cl) < 3 {
			continue
		}
		for i, x := range cl {
			for _, y := range cl[i+1:] {
				if x.rel == y.rel || direct[[2]ColumnID{x.col, y.col}] || len(jg.edges) >= maxEdges {
					continue
				}
				set := x.rel | y.rel
				jg.edges = append(jg.edges, edge{kind: InnerJoin, tes: set, ses: set, ltes: x.rel, rtes: y.rel, class: n + 1, derived: true,
					conds: []scalar.Expr{&scalar.Compare{Op: scalar.EQ, Left: jg.o.columnExpr(x.col), Right: jg.o.columnExpr(y.col)}}})
			}
		}
	}
}

// addDerived adds to a join condition one equality of each class that connects the sides and of which no other does.
func (jg *joinGraph) addDerived(derived []int, on []scalar.Expr, a, b uint64) []scalar.Expr {
	for _, i := range derived {
		d := &jg.edges[i]
		known := false
		for j := range jg.edges {
			e := &jg.edges[j]
			if j == i || e.class != d.class || e.tes&^(a|b) != 0 || e.tes&a == 0 || e.tes&b == 0 {
				continue
			}
			if e.required || e.derived && j < i {
				known = true
				break
			}
		}
		if !known {
			on = append(on, d.conds...)
		}
	}
	return on
}

// both joins two sets in either order.
func (jg *joinGraph) both(a, b uint64) {
	jg.join(a, b)
	jg.joinOuter(b, a)
}

// graph has for each relation those that it may be joined with.
type graph []uint64

// neighbours is the graph of the edges. Cross products of the tree as written, which may pay between small relations, are
// left out without crosses, unless nothing else connects the parts.
func (jg *joinGraph) neighbours(crosses bool) graph {
	g := make(graph, len(jg.leaves))
	connect := func(l, r uint64) {
		for i := range g {
			if l&(1<<i) != 0 {
				g[i] |= r
			}
			if r&(1<<i) != 0 {
				g[i] |= l
			}
		}
	}
	for i := range jg.edges {
		if e := &jg.edges[i]; e.required || e.derived || crosses {
			connect(e.ltes, e.rtes)
		}
	}
	reached := uint64(1)
	for next := g.of(reached); next&^reached != 0; next = g.of(reached) {
		reached |= next
	}
	if reached != 1<<len(g)-1 {
		for i := range jg.edges {
			connect(jg.edges[i].ltes, jg.edges[i].rtes)
		}
	}
	return g
}

// of are the neighbours of a set.
func (g graph) of(s uint64) uint64 {
	var out uint64
	for t := s; t != 0; t &= t - 1 {
		out |= g[bits.TrailingZeros64(t)]
	}
	return out &^ s
}

// pairs calls f for each pair of disjoint connected sets between which there is an edge, subsets before supersets. It ends when f
// returns false, and reports whether f had all pairs.
func (g graph) pairs(f func(a, b uint64) bool) bool {
	for i := len(g) - 1; i >= 0; i-- {
		s := uint64(1) << i
		if !g.complements(s, f) || !g.grow(s, 2*s-1, func(s uint64) bool { return g.complements(s, f) }) {
			return false
		}
	}
	return true
}

// grow calls f for the connected sets that a set can be extended to without the relations of x.
func (g graph) grow(s, x uint64, f func(uint64) bool) bool {
	n := g.of(s) &^ x
	for t := n & -n; t != 0; t = (t - n) & n {
		if !f(s | t) {
			return false
		}
	}
	for t := n & -n; t != 0; t = (t - n) & n {
		if !g.grow(s|t, x|n, f) {
			return false
		}
	}
	return true
}

// complements calls f for a set and each adjacent connected set whose relations come later than its first.
func (g graph) complements(s uint64, f func(a, b uint64) bool) bool {
	x := s | (s&-s - 1)
	n := g.of(s) &^ x
	for t := n; t != 0; {
		i := uint64(1) << (63 - bits.LeadingZeros64(t))
		t &^= i
		if !f(s, i) || !g.grow(i, x|(2*i-1)&n, func(b uint64) bool { return f(s, b) }) {
			return false
		}
	}
	return true
}

// linear joins neighbouring sets of relations that stay in one order, the shorter ones first, and most pairs at most.
func (jg *joinGraph) linear(order []int, most int) {
	n := len(order)
	sets := make([][]uint64, n) // by the first relation and how many more there are
	for i := range sets {
		sets[i] = make([]uint64, n-i)
		s := uint64(0)
		for j := range sets[i] {
			s |= 1 << order[i+j]
			sets[i][j] = s
		}
	}
	for length := 1; length < n; length++ {
		for i := 0; i+length < n; i++ {
			for k := range length {
				if most--; most < 0 {
					return
				}
				jg.both(sets[i][k], sets[i+k+1][length-k-1])
			}
		}
	}
}

// joinOuter is join for the order of sides in which inner joins were tried before.
func (jg *joinGraph) joinOuter(a, b uint64) {
	all := a | b
	for i := range jg.edges {
		e := &jg.edges[i]
		if e.kind != InnerJoin && e.tes&^all == 0 && e.ltes&^a == 0 && e.rtes&^b == 0 {
			jg.join(a, b)
			return
		}
	}
}

// greedy joins, again and again, the two sets with the fewest rows in their join. It returns the order of the relations that could
// be joined.
func (jg *joinGraph) greedy() []int {
	type tree struct {
		set   uint64
		order []int
	}
	trees := make([]tree, 0, len(jg.leaves))
	for i := range jg.leaves {
		trees = append(trees, tree{1 << i, []int{i}})
	}
	for len(trees) > 1 {
		bi, bj, rows := -1, -1, 0.0
		for i := range trees {
			for j := range trees {
				if i == j || !jg.join(trees[i].set, trees[j].set) {
					continue
				}
				if r := jg.groups[trees[i].set|trees[j].set].rows; bi < 0 || r < rows {
					bi, bj, rows = i, j, r
				}
			}
		}
		if bi < 0 {
			break // the rest can't be joined from here; the tree as written remains
		}
		both := tree{trees[bi].set | trees[bj].set, append(append([]int(nil), trees[bi].order...), trees[bj].order...)}
		out := trees[:0:0]
		for k, x := range trees {
			if k != bi && k != bj {
				out = append(out, x)
			}
		}
		trees = append(out, both)
	}
	var order []int
	for _, t := range trees {
		order = append(order, t.order...)
	}
	return order
}
