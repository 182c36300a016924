package opt

// prune tells every group which of its columns anything above reads, and drops what is computed for nobody. Groups
// form a tree until exploration, so an expression may be replaced in place.
func (o *optimizer) prune(g *group, needed colSet) {
	needed = needed.intersect(g.cols)
	g.needed.addAll(&needed)
	needed = g.needed
	switch r := g.expr().(type) {
	case *Scan, *VirtualScan, *Values, *WithScan:

	case *Select:
		needed.addExprs(r.Filter)
		o.prune(child(r.Input), needed)
	case *Project:
		items := r.Items[:0:0]
		var below colSet
		for _, it := range r.Items {
			if !needed.has(it.Col) && !isVolatile(it.Expr) && !o.env.Naive {
				continue
			}
			items = append(items, it)
			below.addExpr(it.Expr)
		}
		var pass []ColumnID
		for _, c := range r.Pass {
			if needed.has(c) {
				pass = append(pass, c)
				below.add(c)
			}
		}
		g.exprs[0] = &Project{Input: r.Input, Items: items, Pass: pass}
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
		n := *r
		n.Aggs = nil
		below := setOf(r.Group)
		for _, a := range r.Aggs {
			if !needed.has(a.Col) && !isVolatile(a.Agg) && !o.env.Naive {
				continue
			}
			n.Aggs = append(n.Aggs, a)
			below.addExpr(a.Agg)
		}
		for _, c := range r.order {
			below.add(c.Col)
		}
		g.exprs[0] = &n
		o.prune(child(r.Input), below)
	case *orderedWindow:
		n := *r
		n.Items = nil
		for _, it := range r.Items {
			if !needed.has(it.Col) && !o.env.Naive {
				continue
			}
			n.Items = append(n.Items, it)
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
		g.exprs[0] = &n
		o.prune(child(r.Input), needed)
	case *Distinct:
		for _, c := range r.On {
			needed.add(c)
		}
		for _, c := range r.OrderBy {
			needed.add(c.Col)
		}
		o.prune(child(r.Input), needed)
	case *SetOp:
		n := *r
		if r.Kind == Union && r.All && !o.env.Naive {
			n.Out, n.LeftCols, n.RightCols = nil, nil, nil
			for i, c := range r.Out {
				if needed.has(c) {
					n.Out = append(n.Out, c)
					n.LeftCols = append(n.LeftCols, r.LeftCols[i])
					n.RightCols = append(n.RightCols, r.RightCols[i])
				}
			}
			g.exprs[0] = &n
		}
		o.prune(child(r.Left), setOf(n.LeftCols))
		o.prune(child(r.Right), setOf(n.RightCols))
	case *orderedLimit:
		for _, c := range r.order {
			needed.add(c.Col)
		}
		o.prune(child(r.Input), needed)
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
