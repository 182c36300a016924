package opt

import "meridian/sql/scalar"

// inferConstants carries constants over the equalities of a join: with a.x = b.y and a.x = 1 also b.y = 1. They are
// added to a side whose rows may be dropped if they have no match.
func (o *optimizer) inferConstants(kind JoinKind, l, r *group, on []scalar.Expr) (*group, *group) {
	toLeft := kind == InnerJoin || kind == SemiJoin
	toRight := toLeft || kind == LeftJoin || kind == AntiJoin
	if !toRight {
		return l, r
	}
	var left, right []scalar.Expr
	for _, e := range on {
		a, b, ok := equalColumns(e, l, r)
		if !ok || !sameValues(o.meta.Column(a).Type, o.meta.Column(b).Type) {
			continue
		}
		ca, cb := o.valuesOf(l, a, 0), o.valuesOf(r, b, 0)
		if ca != nil && cb == nil {
			right = append(right, renameColumns(ca, []ColumnID{a}, []ColumnID{b}))
		}
		if cb != nil && ca == nil && toLeft {
			left = append(left, renameColumns(cb, []ColumnID{b}, []ColumnID{a}))
		}
	}
	if len(left) > 0 {
		l = o.newSelect(l, left)
	}
	if len(right) > 0 {
		r = o.newSelect(r, right)
	}
	return l, r
}

// valuesOf finds a condition that holds in a group and limits a column to constants or parameters.
func (o *optimizer) valuesOf(g *group, c ColumnID, depth int) scalar.Expr {
	if depth > 8 || !g.cols.has(c) {
		return nil
	}
	switch r := g.expr().(type) {
	case *Select:
		for _, e := range r.Filter {
			if limitsColumn(e, c) {
				return e
			}
		}
		return o.valuesOf(child(r.Input), c, depth+1)
	case *Join:
		if e := o.valuesOf(child(r.Left), c, depth+1); e != nil && r.Kind != FullJoin && r.Kind != RightJoin {
			return e
		}
		if r.Kind == InnerJoin {
			return o.valuesOf(child(r.Right), c, depth+1)
		}
	case *Project:
		if containsID(r.Pass, c) {
			return o.valuesOf(child(r.Input), c, depth+1)
		}
	case *orderedGroup:
		if containsID(r.Group, c) {
			return o.valuesOf(child(r.Input), c, depth+1)
		}
	case *Distinct:
		return o.valuesOf(child(r.Input), c, depth+1)
	}
	return nil
}

// limitsColumn reports whether a condition is "column = constant" or "column IN (constants)".
func limitsColumn(e scalar.Expr, c ColumnID) bool {
	leaf := func(e scalar.Expr) bool {
		switch e.(type) {
		case *scalar.Const, *scalar.Placeholder:
			return true
		}
		return false
	}
	switch e := e.(type) {
	case *scalar.Compare:
		if e.Op != scalar.EQ {
			return false
		}
		if x, ok := e.Left.(*scalar.Column); ok && x.ID == c {
			return leaf(e.Right)
		}
		if x, ok := e.Right.(*scalar.Column); ok && x.ID == c {
			return leaf(e.Left)
		}
	case *scalar.In:
		if x, ok := e.Arg.(*scalar.Column); !ok || x.ID != c || e.Negate || len(e.List) > 16 {
			return false
		}
		for _, x := range e.List {
			if !leaf(x) {
				return false
			}
		}
		return true
	}
	return false
}
