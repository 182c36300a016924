package opt

// prune tells every group which of its columns the operators above read. Unused expressions are left out when a plan is made
// (search.go). Groups may be shared by several expressions, so needs add up; a group is visited again only if they grew.
func (o *optimizer) prune(g *group, needed colSet) {
	needed = needed.intersect(g.cols)
	if g.pruned && needed.within(&g.needed) {
		return
	}
	o.charge(0)
	g.pruned = true
	g.needed.addAll(&needed)
	for _, e := range g.exprs {
		o.pruneExpr(g, e)
	}
}

// pruneExpr drops the columns that nothing above an operator reads, below it.
func (o *optimizer) pruneExpr(g *group, e Rel) {
	needed := g.needed
	switch r := e.(type) {
	case *Select:
		needed.addExprs(r.Filter)
		o.prune(child(r.Input), needed)
	case *Project:
		var below colSet
		for _, it := range r.Items {
			if o.wanted(g, it.Col) || isVolatile(it.Expr) {
				below.addExpr(it.Expr)
			}
		}
		for _, c := range r.Pass {
			if needed.has(c) {
				below.add(c)
			}
		}
		o.prune(child(r.Input), below)
	case *ProjectSet:
		for _, f := range r.Funcs {
			needed.addExprs(f.Args)
		}
		o.prune(child(r.Input), needed)
	case *Join:
		needed.addExprs(r.On)
		needed.addAll(&child(r.Right).outer)
		o.prune(child(r.Left), needed)
		o.prune(child(r.Right), needed)
	case *orderedGroup:
		below := setOf(r.Group)
		for _, a := range r.Aggs {
			if o.wanted(g, a.Col) || isVolatile(a.Agg) {
				below.addExpr(a.Agg)
			}
		}
		for _, c := range r.order {
			below.add(c.Col)
		}
		o.prune(child(r.Input), below)
	case *orderedWindow:
		o.pruneWindow(g, r, needed)
	case *Distinct:
		for _, c := range r.On {
			needed.add(c)
		}
		for _, c := range r.OrderBy {
			needed.add(c.Col)
		}
		o.prune(child(r.Input), needed)
	case *SetOp:
		left, right := setOf(r.LeftCols), setOf(r.RightCols)
		if o.narrows(r) {
			left, right = colSet{}, colSet{}
			for i, c := range r.Out {
				if needed.has(c) {
					left.add(r.LeftCols[i])
					right.add(r.RightCols[i])
				}
			}
		}
		o.prune(child(r.Left), left)
		o.prune(child(r.Right), right)
	case *orderedLimit:
		for _, c := range r.order {
			needed.add(c.Col)
		}
		o.prune(child(r.Input), needed)
	case *lockRows:
		o.pruneLock(g, r)
	case *orderedWith:
		below := setOf(r.Cols)
		for _, c := range r.order {
			below.add(c.Col)
		}
		o.prune(child(r.Binding), below)
		if r.Recursive != nil {
			o.prune(child(r.Recursive), setOf(r.RecursiveCols))
		}
		o.prune(child(r.Main), needed)
	case *mutation:
		o.pruneMutation(r)
	}
}

// pruneWindow keeps what the window functions that are wanted read.
func (o *optimizer) pruneWindow(g *group, r *orderedWindow, needed colSet) {
	for _, it := range r.Items {
		if !o.wanted(g, it.Col) {
			continue
		}
		needed.addExprs(it.Args)
		if it.Agg != nil {
			needed.addExpr(it.Agg)
		}
		for _, c := range it.PartitionBy {
			needed.add(c)
		}
		for _, c := range it.OrderBy {
			needed.add(c.Col)
		}
		if f := it.Frame; f != nil {
			if f.StartOffset != nil {
				needed.addExpr(f.StartOffset)
			}
			if f.EndOffset != nil {
				needed.addExpr(f.EndOffset)
			}
		}
	}
	for _, c := range r.order {
		needed.add(c.Col)
	}
	o.prune(child(r.Input), needed)
}

// wanted reports whether an operator above reads a column of a group.
func (o *optimizer) wanted(g *group, c ColumnID) bool { return o.env.Naive || g.needed.has(c) }

// narrows reports whether a set operation may leave out unused columns.
func (o *optimizer) narrows(s *SetOp) bool { return s.Kind == Union && s.All && !o.env.Naive }

func (o *optimizer) pruneMutation(m *mutation) {
	var below colSet
	for _, it := range returning(m.stmt) {
		below.addExpr(it.Expr)
	}
	switch s := m.stmt.(type) {
	case *Insert:
		for _, c := range s.Source {
			below.add(c)
		}
		for _, c := range s.Checks {
			below.addExpr(c.Expr)
		}
		if s.Conflict != nil {
			for _, x := range s.Conflict.Set {
				below.addExpr(x.Expr)
			}
			for _, x := range s.Conflict.Generated {
				below.addExpr(x.Expr)
			}
			below.addExprs(s.Conflict.Where)
			for _, c := range s.Conflict.Checks {
				below.addExpr(c.Expr)
			}
		}
	case *Update:
		for _, c := range s.Old {
			below.add(c)
		}
		for _, c := range s.Set {
			below.add(c.Col)
		}
		for _, c := range s.Checks {
			below.addExpr(c.Expr)
		}
	case *Delete:
		for _, c := range s.Old {
			below.add(c)
		}
	}
	for _, c := range m.order {
		below.add(c.Col)
	}
	o.prune(m.input, below)
}
