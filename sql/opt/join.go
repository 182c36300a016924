package opt

import (
	"math"

	"meridian/sql/catalog"
	"meridian/sql/scalar"
)

// joinParts is the decomposition of a join's condition.
type joinParts struct {
	left, right []ColumnID // pairs of equal columns
	pairs       []scalar.Expr
	rest        []scalar.Expr
}

// splitJoin finds the equalities of columns by which a join can be hashed or merged.
func splitJoin(l, r *group, on []scalar.Expr, o *optimizer) joinParts {
	var p joinParts
	for _, e := range on {
		a, b, ok := equalColumns(e, l, r)
		if ok && hashable(o.meta.Column(a).Type.Kind, o.meta.Column(b).Type.Kind, sameValues(o.meta.Column(a).Type, o.meta.Column(b).Type)) {
			p.left, p.right = append(p.left, a), append(p.right, b)
			p.pairs = append(p.pairs, e)
			continue
		}
		p.rest = append(p.rest, e)
	}
	return p
}

// join proposes ways to join.
func (s *search) join(r *Join) {
	o := s.o
	l, rt := child(r.Left), child(r.Right)
	if rt.outer.intersects(&l.cols) {
		s.apply(r)
		return
	}
	if o.env.Naive {
		s.nestedLoop(r)
		return
	}
	if r.Kind == LeftJoin && !s.g.needed.intersects(&rt.cols) && o.matchesOnce(l, rt, r.On) {
		s.offer(o.best(l, s.req)) // the join adds nothing
	}
	p := splitJoin(l, rt, r.On, o)
	if len(p.left) > 0 {
		s.hash(r.Kind, l, rt, p)
		if k, ok := mirrored(r.Kind); ok {
			s.hash(k, rt, l, joinParts{left: p.right, right: p.left, rest: p.rest})
		}
		s.merge(r.Kind, l, rt, p)
	}
	if len(p.left) == 0 || r.Kind == InnerJoin && l.rows*rt.rows < 1000 {
		s.nestedLoop(r)
		if r.Kind == InnerJoin {
			s.nestedLoop(&Join{Kind: r.Kind, Left: rt, Right: l, On: r.On})
		}
	}
	s.lookups(r)
	s.interleaved(r)
}

// matchesOnce reports whether a row of the left side has one match at most.
func (o *optimizer) matchesOnce(l, r *group, on []scalar.Expr) bool {
	d := o.depsOf(r)
	have := d.consts
	for _, e := range on {
		if _, b, ok := equalColumns(e, l, r); ok {
			have.add(b)
		}
	}
	have = d.closure(have)
	for _, k := range d.keys {
		if k.within(&have) {
			return true
		}
	}
	for _, k := range d.lax { // an equality is not met by NULL
		if k.within(&have) {
			return true
		}
	}
	return false
}

// mirrored is the kind of a join with its sides exchanged, where exec can do that.
func mirrored(k JoinKind) (JoinKind, bool) {
	switch k {
	case InnerJoin, FullJoin:
		return k, true
	case LeftJoin:
		return RightJoin, true
	case RightJoin:
		return LeftJoin, true
	}
	return k, false
}

// joinCols are the columns of a join node.
func joinCols(kind JoinKind, l, r Node) []ColumnID {
	if kind == SemiJoin || kind == AntiJoin {
		return l.Columns()
	}
	lc, rc := l.Columns(), r.Columns()
	return append(append(make([]ColumnID, 0, len(lc)+len(rc)), lc...), rc...)
}

// endless is the cost of keeping the right side of a join, if that is a recursive query and a consumer takes a limited number of rows: then the
// query may have no end, and the join streams with it on the other side.
func (s *search) endless(l, r *group) float64 {
	if s.req.limit > 0 && r.endless && !l.endless {
		return costEndless
	}
	return 0
}

func (s *search) hash(kind JoinKind, l, r *group, p joinParts) {
	o, g := s.o, s.g
	a, b := o.best(l, required{}), o.best(r, required{})
	build := r.rows*costHash + s.endless(l, r)
	probe := l.rows * (costProbe + costExpr*float64(len(p.rest)))
	out := g.rows * costPass
	n := &HashJoin{Base: Base{Cols: joinCols(kind, a.node, b.node)}, Kind: kind, Left: a.node, Right: b.node,
		LeftKeys: p.left, RightKeys: p.right, On: o.planExprs(p.rest)}
	cost := a.cost + b.cost + build + probe + out + costStart + o.subqueryCost(p.rest, l.rows)
	startup := b.cost + build + a.startup
	var order []OrderColumn
	if kind != RightJoin && kind != FullJoin {
		order = a.order
	}
	if len(s.req.order) > 0 && order != nil {
		// Rows leave in the order of the left side.
		if want := cutOrder(s.req.order, &l.cols); len(want) == len(s.req.order) {
			if x := o.best(l, required{order: want}); x.node != a.node {
				m := *n
				m.Left = x.node
				m.Cols = joinCols(kind, x.node, b.node)
				s.offer(phys{node: &m, startup: b.cost + build + x.startup, cost: cost - a.cost + x.cost, order: x.order})
			}
		}
	}
	s.offer(phys{node: n, startup: startup, cost: cost, order: order})
}

// merge proposes merge joins of inputs that can be had in the order of their keys.
func (s *search) merge(kind JoinKind, l, r *group, p joinParts) {
	o := s.o
	tried := 0
	for _, natural := range o.naturalOrders(l) {
		lk, rk, lo, ro, desc := mergeKeys(natural, p, o)
		if len(lk) == 0 {
			continue
		}
		if tried++; tried > 3 {
			return
		}
		a := o.best(l, required{order: lo})
		b := o.best(r, required{order: ro})
		rest := append([]scalar.Expr(nil), p.rest...)
		for i, e := range p.pairs {
			if !containsCol(lk, p.left[i], rk, p.right[i]) {
				rest = append(rest, e)
			}
		}
		n := &MergeJoin{Base: Base{Cols: joinCols(kind, a.node, b.node)}, Kind: kind, Left: a.node, Right: b.node,
			LeftKeys: lk, RightKeys: rk, Desc: desc, On: o.planExprs(rest)}
		cost := a.cost + b.cost + (l.rows+r.rows)*(costPass+costCompare) + s.g.rows*(costPass+costExpr*float64(len(rest))) + costStart
		var order []OrderColumn
		if kind != RightJoin && kind != FullJoin {
			order = a.order
		}
		startup := a.startup + b.startup
		if s.req.limit > 0 && (l.endless || r.endless) {
			startup, cost = startup+costEndless, cost+costEndless // its sides are sorted
		}
		s.offer(phys{node: n, startup: startup, cost: cost, order: order})
	}
}

func containsCol(ls []ColumnID, l ColumnID, rs []ColumnID, r ColumnID) bool {
	for i := range ls {
		if ls[i] == l && rs[i] == r {
			return true
		}
	}
	return false
}

// mergeKeys finds the equal columns that an order of the left side begins with, and the orders that merging needs.
func mergeKeys(natural []OrderColumn, p joinParts, o *optimizer) (lk, rk []ColumnID, lo, ro []OrderColumn, desc []bool) {
	for _, c := range natural {
		at := -1
		for i := range p.left {
			// Merging compares keys of both sides with one another.
			if p.left[i] == c.Col && o.meta.Column(p.left[i]).Type.Phys() == o.meta.Column(p.right[i]).Type.Phys() {
				at = i
				break
			}
		}
		if at < 0 {
			break
		}
		lk, rk = append(lk, p.left[at]), append(rk, p.right[at])
		lo = append(lo, c)
		ro = append(ro, OrderColumn{Col: p.right[at], Desc: c.Desc, NullsFirst: c.NullsFirst})
		desc = append(desc, c.Desc)
	}
	return lk, rk, lo, ro, desc
}

func (s *search) nestedLoop(r *Join) {
	o, g := s.o, s.g
	l, rt := child(r.Left), child(r.Right)
	a, b := o.best(l, required{}), o.best(rt, required{})
	n := &NestedLoop{Base: Base{Cols: joinCols(r.Kind, a.node, b.node)}, Kind: r.Kind, Left: a.node, Right: b.node, On: o.planExprs(r.On)}
	endless := s.endless(l, rt)
	cost := a.cost + b.cost + endless + rt.rows*costPass + l.rows*rt.rows*(costPass+costExpr*float64(len(r.On))) + g.rows*costPass + costStart
	cost += o.subqueryCost(r.On, l.rows*rt.rows)
	var order []OrderColumn
	if r.Kind != RightJoin && r.Kind != FullJoin {
		order = a.order
		if want := cutOrder(s.req.order, &l.cols); len(want) > 0 && len(want) == len(s.req.order) {
			x := o.best(l, required{order: want})
			m := *n
			m.Left = x.node
			m.Cols = joinCols(r.Kind, x.node, b.node)
			s.offer(phys{node: &m, startup: x.startup + b.cost + endless, cost: cost - a.cost + x.cost, order: x.order})
		}
	}
	s.offer(phys{node: n, startup: a.startup + b.cost + endless, cost: cost, order: order})
}

// apply runs the right side for each row of the left.
func (s *search) apply(r *Join) {
	o, g := s.o, s.g
	l, rt := child(r.Left), child(r.Right)
	b := o.best(rt, required{limit: existsLimit(r)})
	outer := rt.outer.intersect(l.cols)
	offer := func(a phys) {
		n := &NestedLoop{Base: Base{Cols: joinCols(r.Kind, a.node, b.node)}, Kind: r.Kind, Left: a.node, Right: b.node, On: o.planExprs(r.On),
			Apply: true, Outer: outer.list(), Repeats: !rt.volatile && !o.env.Naive}
		cost := a.cost + l.rows*(b.fraction(existsLimit(r), rt.rows)+costLoop) + g.rows*costPass + costStart
		cost += o.subqueryCost(r.On, l.rows*rt.rows)
		s.offer(phys{node: n, startup: a.startup + b.startup, cost: cost, order: a.order})
	}
	limit := 0.0
	if s.req.limit > 0 {
		limit = s.req.limit * l.rows / max(g.rows, 1)
	}
	if want := cutOrder(s.req.order, &l.cols); len(want) > 0 && len(want) == len(s.req.order) {
		offer(o.best(l, required{order: want, limit: limit}))
	}
	offer(o.best(l, required{limit: limit}))
}

// existsLimit is one for a semi or anti join, which needs one matching row of its right side.
func existsLimit(r *Join) float64 {
	if (r.Kind == SemiJoin || r.Kind == AntiJoin) && len(r.On) == 0 {
		return 1
	}
	return 0
}

// lookups proposes to find the rows of one side in an index, for each row of the other.
func (s *search) lookups(r *Join) {
	l, rt := child(r.Left), child(r.Right)
	switch r.Kind {
	case InnerJoin:
		s.lookup(r.Kind, l, rt, r.On)
		s.lookup(r.Kind, rt, l, r.On)
	case LeftJoin, SemiJoin, AntiJoin:
		s.lookup(r.Kind, l, rt, r.On)
	case RightJoin:
		s.lookup(LeftJoin, rt, l, r.On)
	}
}

// lookup proposes lookup joins with every index of the right side that the condition gives a prefix of.
func (s *search) lookup(kind JoinKind, l, r *group, on []scalar.Expr) {
	var filter []scalar.Expr
	base := r
	if sel, ok := r.expr().(*Select); ok {
		filter, base = sel.Filter, child(sel.Input)
	}
	scan, ok := base.expr().(*Scan)
	if !ok || anyVolatile(filter) || anyVolatile(on) || scan.AsOf != (Scan{}).AsOf {
		return
	}
	if scan.Locking.Strength != 0 && kind != InnerJoin {
		return
	}
	all := append(append([]scalar.Expr(nil), on...), filter...)
	for i := range scan.Table.Indexes {
		ix := &scan.Table.Indexes[i]
		if ix.State != catalog.Public || ix.Predicate != "" || scan.ForceIndex != 0 && scan.ForceIndex != ix.ID {
			continue
		}
		s.lookupIndex(kind, l, r, base, scan, ix, all)
	}
}

func (s *search) lookupIndex(kind JoinKind, l, r, base *group, scan *Scan, ix *catalog.Index, conds []scalar.Expr) {
	o, g, t := s.o, s.g, scan.Table
	var plain, rest []scalar.Expr
	for _, e := range conds {
		if hasSubquery(e) {
			rest = append(rest, e)
		} else {
			plain = append(plain, e)
		}
	}
	c := o.withRegions(scan, &base.cols, ix, plain)
	joined := false
	for i := range c.spans {
		reads := false
		c.spans[i].Exprs(func(e scalar.Expr) {
			x := exprCols(e)
			reads = reads || x.intersects(&l.cols)
		})
		joined = reads
		if !reads { // a part that is the same for each row
			break
		}
	}
	if !joined {
		return
	}
	used, single := c.used, c.single
	rest = append(c.filter[:len(c.filter):len(c.filter)], rest...)
	a := access{s: s, in: base, scan: scan, info: o.info(t)}
	needed := base.needed
	for _, e := range rest {
		needed.addExpr(e)
	}
	needed = needed.intersect(base.cols)
	covering := ix.Primary
	have := a.covered(ix)
	locking := scan.Locking.Strength != 0
	if !covering {
		covering = needed.within(&have) && !locking
	}
	perKey := base.rows
	for _, e := range used {
		if _, b, ok := equalColumns(e, l, base); ok {
			perKey /= o.distinct(b, base.rows)
		} else {
			perKey *= o.selectivityOf(e, base)
		}
	}
	if single {
		perKey = min(perKey, c.most(t, ix))
	}
	unique := single && oneMatch(t, ix, &c)
	seeks := c.count()
	far := o.farCost(scan, ix, c.spans, lookupTrip(o.env.Region.distanceOf(t, ix, c.spans), l.rows*seeks))
	near := o.localLookup(kind, t, &c, unique, far)
	width := a.info.width
	if !ix.Primary {
		width = 10 + 6*float64(len(ix.Columns)+len(ix.Stored))
	}
	locks := 0.0
	if locking {
		locks = l.rows * perKey * costLock
	}
	foreign := 0.0
	if ix.Primary && !single && t.SharesKeys() {
		foreign = o.foreignCost(l.rows * o.foreignRows(t, c.spans, perKey, perKey/max(base.rows, 1)))
	}
	if covering {
		a.setColumns(needed)
		node := &LookupJoin{Kind: kind, Table: t, Index: ix, Spans: c.spans, Right: a.cols, Ordinals: a.ordinals, On: o.planExprs(rest),
			Single: unique, Locking: scan.Locking, KeepOrder: true}
		extra := far + o.lookupCost(l.rows*seeks, perKey/seeks, width) + l.rows*(perKey*costExpr*float64(len(rest))+costPass) + g.rows*costPass +
			o.subqueryCost(rest, l.rows*perKey) + locks + foreign
		if near.remote != nil {
			m := *node
			m.Spans, m.Remote = near.local, near.remote
			s.offerLookup(l, extra-near.saved, func(in phys) Node {
				n := m
				n.Input = in.node
				n.Cols = lookupCols(kind, in.node, n.Right)
				return &n
			})
		}
		s.offerLookup(l, extra, func(in phys) Node {
			n := *node
			n.Input = in.node
			n.Cols = lookupCols(kind, in.node, n.Right)
			return &n
		})
		return
	}
	// The index finds primary keys; a second lookup fetches the rows. The plan is right only if conditions on the fetched columns do not decide
	// whether a row of the left side has a match.
	var early, late []scalar.Expr
	for _, e := range rest {
		x := exprCols(e)
		x = x.intersect(base.cols)
		if x.within(&have) {
			early = append(early, e)
		} else {
			late = append(late, e)
		}
	}
	if kind != InnerJoin && (kind != LeftJoin || len(late) > 0) {
		return
	}
	if locking {
		late = rest
	}
	var pk []scalar.Expr
	var want colSet
	for _, k := range t.Primary().Columns {
		id := scan.Cols[t.Ordinal(k.Column)]
		if id == 0 {
			return
		}
		want.add(id)
		pk = append(pk, o.columnExpr(id))
	}
	for _, e := range early {
		want.addExpr(e)
	}
	want = want.intersect(base.cols)
	a.setColumns(want)
	first := &LookupJoin{Kind: kind, Table: t, Index: ix, Spans: c.spans, Right: a.cols, Ordinals: a.ordinals, On: o.planExprs(early),
		Single: unique, KeepOrder: true}
	a.setColumns(needed.minus(want))
	second := &LookupJoin{Kind: kind, Table: t, Index: t.Primary(), Spans: []IndexSpan{{Equal: pk}}, Right: a.cols, Ordinals: a.ordinals, On: o.planExprs(late),
		Single: true, Locking: scan.Locking, KeepOrder: true}
	found := max(l.rows*perKey, 0.01)
	if len(early) > 0 {
		found *= max(o.selectivity(early, base), 0.01)
	}
	fetch := lookupTrip(o.env.Region.distanceOf(t, t.Primary(), nil), found).cost()
	if o.env.Home && t.ByRow() {
		fetch = 0 // a row is in the region of its entry
	}
	extra := far + o.leaves(fetch) + o.lookupCost(l.rows*seeks, perKey/seeks, width) + o.lookupCost(found, 1, a.info.width) +
		l.rows*costPass + g.rows*2*costPass + o.subqueryCost(rest, found) + locks
	over := func(first *LookupJoin) func(phys) Node {
		return func(in phys) Node {
			n := *first
			n.Input = in.node
			n.Cols = append(append([]ColumnID(nil), in.node.Columns()...), n.Right...)
			n.Est = Estimate{Rows: found, Cost: in.cost + o.lookupCost(l.rows*seeks, perKey/seeks, width)}
			m := *second
			m.Input = &n
			m.Cols = append(append([]ColumnID(nil), n.Cols...), m.Right...)
			return &m
		}
	}
	if near.remote != nil {
		m := *first
		m.Spans, m.Remote = near.local, near.remote
		s.offerLookup(l, extra-near.saved, over(&m))
	}
	s.offerLookup(l, extra, over(first))
}

// offerLookup proposes a lookup join over the cheapest left side, and over one in the order that is asked for.
func (s *search) offerLookup(l *group, extra float64, make func(phys) Node) {
	o, g := s.o, s.g
	limit := 0.0
	if s.req.limit > 0 && g.rows > 0 {
		limit = math.Max(1, s.req.limit*l.rows/g.rows)
	}
	offer := func(in phys) {
		s.offer(phys{node: make(in), startup: in.startup + costRequest, cost: in.cost + extra + costStart, order: in.order})
	}
	if want := cutOrder(s.req.order, &l.cols); len(want) > 0 && len(want) == len(s.req.order) {
		offer(o.best(l, required{order: want, limit: limit}))
	}
	offer(o.best(l, required{limit: limit}))
}
