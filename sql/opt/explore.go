package opt

import "meridian/sql/scalar"

// explore adds alternatives to the groups below, from the bottom up.
func (o *optimizer) explore(g *group) {
	if g.explored {
		return
	}
	g.explored = true
	if j, ok := reorderable(g); ok {
		// The whole tree of joins at once; its relations first.
		o.exploreLeaves(child(j.Left))
		o.exploreLeaves(child(j.Right))
		o.reorder(g)
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
		o.minMaxByOrder(g, r)
	}
}

// exploreLeaves explores what is below a tree of joins, and the joins themselves without reordering them.
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
	for i := 0; i < len(g.exprs); i++ {
		if j, ok := g.exprs[i].(*Join); ok && j.Kind == SemiJoin {
			o.semiToInner(g, j)
		}
	}
}

// semiToInner turns a semi join on equal columns into an inner join with the distinct values of its right side: then
// the right side can lead, and find rows of the left by an index.
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
