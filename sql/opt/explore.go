package opt

import "meridian/sql/scalar"

// explore adds alternatives to the groups below, from the bottom up.
func (o *optimizer) explore(g *group) {
	if g.explored {
		return
	}
	g.explored = true
	if j, ok := reorderable(g); ok {
		// The whole tree of joins is explored at once, after its relations.
		o.exploreLeaves(child(j.Left))
		o.exploreLeaves(child(j.Right))
		if o.may(ReorderJoins) {
			o.reorder(g)
		}
		o.joinAlternatives(g)
		return
	}
	for i := 0; i < len(g.exprs); i++ {
		for _, in := range inputs(g.exprs[i]) {
			if in != nil {
				o.explore(in)
			}
		}
	}
	switch r := g.expr().(type) {
	case *orderedGroup:
		if o.may(MinMaxByOrder) {
			o.minMaxByOrder(g, r)
		}
	case *Select:
		if o.may(SplitDisjunction) {
			o.splitDisjunction(g, r)
		}
	case *Join:
		o.joinAlternatives(g)
	}
}

// exploreLeaves explores the inputs of a tree of joins, and the joins themselves without reordering them.
func (o *optimizer) exploreLeaves(g *group) {
	if j, ok := reorderable(g); ok && !g.explored {
		g.explored = true
		o.exploreLeaves(child(j.Left))
		o.exploreLeaves(child(j.Right))
		o.joinAlternatives(g)
		return
	}
	o.explore(g)
}

// joinAlternatives are rules about one join.
func (o *optimizer) joinAlternatives(g *group) {
	for i := 0; i < len(g.exprs) && o.may(SemiToInner); i++ {
		if j, ok := g.exprs[i].(*Join); ok && j.Kind == SemiJoin {
			o.semiToInner(g, j)
		}
	}
	if j, ok := g.expr().(*Join); ok && o.may(JoinToApply) {
		o.joinToApply(g, j)
	}
}

// applyRows bounds the left side of joins for which running the right side for each row is considered.
const applyRows = 1000

// joinToApply gives a right side that groups, or otherwise does more than read, the join's condition as a filter, to be
// run for each row of the left: for few left rows that is cheaper than computing the whole right side.
func (o *optimizer) joinToApply(g *group, j *Join) {
	l, r := child(j.Left), child(j.Right)
	if g.volatile || len(j.On) == 0 || r.outer.intersects(&l.cols) || anySubquery(j.On) {
		return
	}
	switch j.Kind {
	case InnerJoin, LeftJoin, SemiJoin, AntiJoin:
	default:
		return
	}
	equal := false
	for _, e := range j.On {
		_, _, ok := equalColumns(e, l, r)
		equal = equal || ok
	}
	inner := r
	for {
		if p, ok := inner.expr().(*Project); ok {
			inner = child(p.Input)
			continue
		}
		if s, ok := inner.expr().(*Select); ok {
			inner = child(s.Input)
			continue
		}
		break
	}
	if _, ok := inner.expr().(*Scan); ok && !equal && (j.Kind == SemiJoin || j.Kind == AntiJoin) {
		o.firstOfRange(g, j)
		return
	}
	if l.rows > applyRows {
		return
	}
	switch inner.expr().(type) {
	case *orderedGroup, *Distinct, *orderedWindow, *SetOp:
	case *VirtualScan:
		if !looksUp(inner, j.On, l) {
			return
		}
	case *Scan: // only in this way can an index without all columns serve an outer, semi or anti join
		if j.Kind == InnerJoin {
			return
		}
	default:
		return
	}
	if !equal {
		return
	}
	right := o.newSelect(r, j.On)
	if !right.outer.intersects(&l.cols) {
		return
	}
	n := &Join{Kind: j.Kind, Left: l, Right: right}
	g.add(n)
	o.pruneExpr(g, n)
	o.explore(right)
}

// firstOfRange looks up one matching row of the right side for each row of the left: the first of a range of an index, where
// the alternative is to compare all pairs.
func (o *optimizer) firstOfRange(g *group, j *Join) {
	right := o.newSelect(child(j.Right), j.On)
	if !right.outer.intersects(&child(j.Left).cols) {
		return
	}
	n := &Join{Kind: j.Kind, Left: j.Left, Right: right}
	g.add(n)
	o.pruneExpr(g, n)
	o.explore(right)
}

// looksUp reports whether a condition gives a computed relation one of the columns by which it finds rows.
func looksUp(r *group, on []scalar.Expr, l *group) bool {
	scan := r.expr().(*VirtualScan)
	for _, e := range on {
		_, b, ok := equalColumns(e, l, r)
		for _, id := range scan.Table.Lookups {
			if ord := scan.Table.Ordinal(id); ok && ord >= 0 && scan.Cols[ord] == b {
				return true
			}
		}
	}
	return false
}

// semiToInner turns a semi join on equal columns into an inner join with the distinct values of its right side: then
// the right side can be read first, and rows of the left be found by an index.
func (o *optimizer) semiToInner(g *group, j *Join) {
	l, r := child(j.Left), child(j.Right)
	if r.outer.intersects(&l.cols) || r.volatile {
		return
	}
	var on []ColumnID
	for _, e := range j.On {
		_, b, ok := equalColumns(e, l, r)
		if !ok {
			return
		}
		on = append(on, b)
	}
	if len(on) == 0 {
		return
	}
	d := r
	if !o.depsOf(r).determines(setOf(on)) {
		d = o.newGroup(&Distinct{Input: r, On: on})
		d.explored = true
		need := setOf(on)
		o.prune(d, need)
	}
	g.add(&Join{Kind: InnerJoin, Left: l, Right: d, On: j.On})
}

// minMaxByOrder finds the only min or max of an aggregation as the first row of an order, which an index may provide.
func (o *optimizer) minMaxByOrder(g *group, r *orderedGroup) {
	if len(r.Group) > 0 || !r.Scalar {
		return
	}
	var only *AggItem
	for i := range r.Aggs {
		if o.wanted(g, r.Aggs[i].Col) {
			if only != nil {
				return
			}
			only = &r.Aggs[i]
		}
	}
	if only == nil || only.Agg.Filter != nil || len(only.Agg.Args) != 1 {
		return
	}
	c, ok := only.Agg.Args[0].(*scalar.Column)
	in := child(r.Input)
	if !ok || !in.cols.has(c.ID) || in.volatile {
		return
	}
	by := OrderColumn{Col: c.ID}
	switch only.Agg.Agg.Name {
	case "min":
	case "max":
		by.Desc = true
	default:
		return
	}
	rows := in
	if !in.notNull.has(c.ID) {
		rows = o.newSelect(in, []scalar.Expr{&scalar.IsNull{Arg: c, Negate: true}})
	}
	first := o.newGroup(&orderedLimit{Limit: Limit{Input: rows, Count: intConst(1)}, order: []OrderColumn{by}})
	n := &orderedGroup{GroupBy: GroupBy{Input: first, Group: r.Group, Aggs: r.Aggs, Scalar: true}}
	g.add(n)
	o.pruneExpr(g, n)
}
