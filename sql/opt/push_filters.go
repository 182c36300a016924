package opt

import "meridian/sql/scalar"

// newSelect filters a group. Conditions go as deep as they may: below projections (rewritten to what is projected),
// into the side of a join that they are about, below grouping and window functions where they choose whole groups, and
// into both sides of a set operation. A condition that reaches a scan becomes an index constraint (constrain.go).
func (o *optimizer) newSelect(in *group, filter []scalar.Expr) *group {
	o.charge(0)
	if o.env.Naive {
		return o.newGroup(&Select{Input: in, Filter: filter})
	}
	if o.may(FoldConstants) {
		var never bool
		if filter, never = foldConditions(filter); never {
			return o.noRows(in)
		}
	}
	if len(filter) == 0 {
		return in
	}
	switch r := in.expr().(type) {
	case *Select:
		return o.newSelect(child(r.Input), appendConditions(r.Filter, filter))
	case *lockRows: // conditions are tested before rows are locked
		return o.selectLocked(in, r, filter)
	}
	if !o.may(PushFilters) {
		return o.filtered(in, filter)
	}
	switch r := in.expr().(type) {
	case *Project:
		return o.selectProject(in, r, filter)
	case *Join:
		return o.selectJoin(in, r, filter)
	case *orderedGroup:
		if r.Scalar {
			break
		}
		key := setOf(r.Group)
		down, up := splitConditions(filter, &in.cols, &key)
		if len(down) == 0 {
			break
		}
		n := *r
		n.Input = o.newSelect(child(r.Input), down)
		return o.filtered(o.newGroup(&n), up)
	case *Distinct:
		key := setOf(r.On)
		down, up := splitConditions(filter, &in.cols, &key)
		if len(down) == 0 {
			break
		}
		n := *r
		n.Input = o.newSelect(child(r.Input), down)
		return o.filtered(o.newGroup(&n), up)
	case *orderedWindow:
		key := setOf(r.Items[0].PartitionBy)
		for _, it := range r.Items[1:] {
			key = key.intersect(setOf(it.PartitionBy))
		}
		down, up := splitConditions(filter, &in.cols, &key)
		if len(down) == 0 {
			break
		}
		n := *r
		n.Input = o.newSelect(child(r.Input), down)
		return o.filtered(o.newGroup(&n), up)
	case *ProjectSet:
		down, up := splitConditions(filter, &in.cols, &child(r.Input).cols)
		if len(down) == 0 {
			break
		}
		n := *r
		n.Input = o.newSelect(child(r.Input), down)
		return o.filtered(o.newGroup(&n), up)
	case *SetOp:
		return o.selectSetOp(in, r, filter)
	case *orderedWith:
		n := *r
		n.Main = o.newSelect(child(r.Main), filter)
		return o.newGroup(&n)
	}
	return o.filtered(in, filter)
}

// filtered makes a Select over a group without pushing conditions down.
func (o *optimizer) filtered(in *group, filter []scalar.Expr) *group {
	if len(filter) == 0 {
		return in
	}
	if !o.env.Naive {
		if o.may(AnyArray) {
			if g := o.anyOfArray(in, filter); g != nil {
				return g
			}
		}
		if anySubquery(filter) {
			return o.subqueryConditions(in, filter)
		}
	}
	return o.newGroup(&Select{Input: in, Filter: filter})
}

// noRows replaces a group by one without rows.
func (o *optimizer) noRows(in *group) *group {
	if in.volatile {
		return o.filtered(in, []scalar.Expr{falseExpr()})
	}
	return o.newGroup(&Values{Cols: in.cols.list()})
}

// splitConditions divides conditions over a group's columns into those that need only some of them, and may move, and
// the rest.
func splitConditions(filter []scalar.Expr, all, some *colSet) (down, up []scalar.Expr) {
	for _, e := range filter {
		used := exprCols(e)
		used = used.intersect(*all)
		if used.within(some) && !isVolatile(e) {
			down = append(down, e)
		} else {
			up = append(up, e)
		}
	}
	return down, up
}

func (o *optimizer) selectProject(in *group, p *Project, filter []scalar.Expr) *group {
	below := child(p.Input)
	var down, up []scalar.Expr
	for _, e := range filter {
		if n, ok := o.throughProject(e, p, &below.cols); ok {
			down = append(down, n)
		} else {
			up = append(up, e)
		}
	}
	if len(down) == 0 {
		return o.filtered(in, filter)
	}
	n := o.newProject(o.newSelect(below, down), p.Items, p.Pass)
	return o.filtered(n, up)
}

// throughProject rewrites an expression over a projection's columns to one over its input.
func (o *optimizer) throughProject(e scalar.Expr, p *Project, below *colSet) (scalar.Expr, bool) {
	if isVolatile(e) {
		return nil, false
	}
	used := exprCols(e)
	touched := false
	for i := range p.Items {
		it := &p.Items[i]
		if !used.has(it.Col) {
			continue
		}
		touched = true
		if isVolatile(it.Expr) || hasSubquery(it.Expr) {
			return nil, false
		}
	}
	if !touched {
		return e, true
	}
	if hasSubquery(e) {
		return nil, false
	}
	return scalar.ReplaceColumns(e, func(c *scalar.Column) scalar.Expr {
		for i := range p.Items {
			if p.Items[i].Col == c.ID {
				return p.Items[i].Expr
			}
		}
		return nil
	}), true
}

// selectJoin pushes conditions into a join: to the side that they are about, or into the condition.
func (o *optimizer) selectJoin(in *group, j *Join, filter []scalar.Expr) *group {
	l, r := child(j.Left), child(j.Right)
	kind := j.Kind
	// Conditions that no row with NULLs for the missing side can meet make an outer join an inner one.
	for _, e := range filter {
		rej := rejectedNulls(e)
		kind = withoutNulls(kind, rej.intersects(&l.cols), rej.intersects(&r.cols))
	}
	if kind == InnerJoin {
		if !anyVolatile(filter) {
			return o.newJoin(InnerJoin, l, r, appendConditions(j.On, filter))
		}
	}
	var left, right, up []scalar.Expr
	for _, e := range filter {
		used := exprCols(e)
		toLeft := !used.intersects(&r.cols) || kind == SemiJoin || kind == AntiJoin
		toRight := !used.intersects(&l.cols)
		switch {
		case isVolatile(e):
			up = append(up, e)
		case toLeft && (kind == LeftJoin || kind == SemiJoin || kind == AntiJoin || kind == InnerJoin):
			left = append(left, e)
		case toRight && (kind == RightJoin || kind == InnerJoin):
			right = append(right, e)
		default:
			up = append(up, e)
		}
	}
	if len(left) == 0 && len(right) == 0 && kind == j.Kind {
		return o.filtered(in, filter)
	}
	if len(left) > 0 {
		l = o.newSelect(l, left)
	}
	if len(right) > 0 {
		r = o.newSelect(r, right)
	}
	return o.filtered(o.newJoin(kind, l, r, j.On), up)
}

// withoutNulls is the kind of a join after which a condition rejects NULLs of one of its sides.
func withoutNulls(k JoinKind, left, right bool) JoinKind {
	switch k {
	case LeftJoin:
		if right {
			return InnerJoin
		}
	case RightJoin:
		if left {
			return InnerJoin
		}
	case FullJoin:
		switch {
		case left && right:
			return InnerJoin
		case left:
			return LeftJoin
		case right:
			return RightJoin
		}
	}
	return k
}

func (o *optimizer) selectSetOp(in *group, s *SetOp, filter []scalar.Expr) *group {
	l, r := child(s.Left), child(s.Right)
	var left, right, up []scalar.Expr
	for _, e := range filter {
		if isVolatile(e) || hasSubquery(e) {
			up = append(up, e)
			continue
		}
		left = append(left, renameColumns(e, s.Out, s.LeftCols))
		right = append(right, renameColumns(e, s.Out, s.RightCols))
	}
	if len(left) == 0 {
		return o.filtered(in, filter)
	}
	n := *s
	n.Left, n.Right = o.newSelect(l, left), o.newSelect(r, right)
	return o.filtered(o.newSetOp(&n), up)
}

// renameColumns maps columns by position.
func renameColumns(e scalar.Expr, from, to []ColumnID) scalar.Expr {
	return scalar.ReplaceColumns(e, func(c *scalar.Column) scalar.Expr {
		for i, id := range from {
			if id == c.ID {
				return &scalar.Column{ID: to[i], T: c.T, Name: c.Name}
			}
		}
		return nil
	})
}
