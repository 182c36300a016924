package opt

import "meridian/sql/scalar"

// columnKeys makes the sides of equalities between expressions of both inputs of a join into columns, so that it can be
// hashed or merged on them. It does so only where there is no equality of columns for that.
func (o *optimizer) columnKeys(kind JoinKind, l, r *group, on []scalar.Expr) (*group, *group, []scalar.Expr) {
	for _, e := range on {
		if _, _, ok := equalColumns(e, l, r); ok {
			return l, r, on
		}
	}
	var lItems, rItems []ProjectItem
	out := on
	for i, e := range on {
		c, ok := e.(*scalar.Compare)
		if !ok || c.Op != scalar.EQ || hasSubquery(e) || isVolatile(e) {
			continue
		}
		lt, rt := c.Left.Type(), c.Right.Type()
		if !hashable(lt.Kind, rt.Kind, sameValues(lt, rt)) {
			continue
		}
		x, y := exprCols(c.Left), exprCols(c.Right)
		a, b := c.Left, c.Right
		switch {
		case x.empty() || y.empty():
			continue
		case x.within(&l.cols) && y.within(&r.cols):
		case x.within(&r.cols) && y.within(&l.cols):
			a, b = b, a
		default:
			continue
		}
		if len(out) > 0 && &out[0] == &on[0] {
			out = append([]scalar.Expr(nil), on...)
		}
		out[i] = &scalar.Compare{Op: scalar.EQ, Left: o.asColumn(a, &lItems), Right: o.asColumn(b, &rItems)}
	}
	if len(lItems) > 0 {
		l = o.newProject(l, lItems, l.cols.list())
	}
	if len(rItems) > 0 {
		r = o.newProject(r, rItems, r.cols.list())
	}
	return l, r, out
}

// asColumn adds an expression to a projection, unless it is a column already.
func (o *optimizer) asColumn(e scalar.Expr, items *[]ProjectItem) scalar.Expr {
	if _, ok := e.(*scalar.Column); ok {
		return e
	}
	id := o.meta.Add(ColumnMeta{Name: "key", Type: e.Type()})
	*items = append(*items, ProjectItem{id, e})
	return &scalar.Column{ID: id, T: e.Type(), Name: "key"}
}
