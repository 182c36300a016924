package opt

import (
	"meridian/sql/catalog"
	"meridian/sql/scalar"
	"meridian/sql/types"
)

// anyOfArray turns "column = ANY (array)" on an indexed column of a table into a semi join with the array's elements:
// drivers pass lists so, and only at run time it is known how long they are. It answers nil where there is nothing to
// do.
func (o *optimizer) anyOfArray(in *group, filter []scalar.Expr) *group {
	s, ok := in.expr().(*Scan)
	if !ok || o.env.Registry == nil {
		return nil
	}
	for i, e := range filter {
		q, ok := e.(*scalar.Quantified)
		if !ok || q.All || isVolatile(q.Array) {
			continue
		}
		c, ok := q.Arg.(*scalar.Column)
		cmp, eq := q.Op.(*scalar.Compare)
		if !ok || !eq || cmp.Op != scalar.EQ || !in.cols.has(c.ID) || !o.leadsIndex(s, c.ID) {
			continue
		}
		l, lok := cmp.Left.(*scalar.Column)
		r, rok := cmp.Right.(*scalar.Column)
		if !lok || !rok || l.ID != q.LeftID || r.ID != q.ElemID || !sameValues(c.T, r.T) {
			continue
		}
		if x := exprCols(q.Array); x.intersects(&in.cols) || q.Array.Type().Kind != types.KindArray {
			continue
		}
		rest := append(append([]scalar.Expr(nil), filter[:i]...), filter[i+1:]...)
		if a, ok := q.Array.(*scalar.Subquery); ok && a.Kind == scalar.SubqueryArray && a.Col != 0 {
			if sub, ok := a.Plan.(*subquery); ok && !sub.volatile { // ANY (ARRAY (SELECT ...)) is IN (SELECT ...)
				on := &scalar.Compare{Op: scalar.EQ, Left: c, Right: o.columnExpr(a.Col)}
				return o.newJoin(SemiJoin, o.filtered(in, rest), sub.group, []scalar.Expr{on})
			}
		}
		if hasSubquery(q.Array) {
			continue
		}
		res, err := o.env.Registry.ResolveFunction("unnest", []*types.T{q.Array.Type()})
		if err != nil || res.Func == nil || res.Func.Set == nil {
			continue
		}
		elem := o.meta.Add(ColumnMeta{Name: "element", Type: r.T})
		elems := o.newGroup(&ProjectSet{Input: o.newGroup(&Values{Rows: [][]scalar.Expr{{}}}),
			Funcs: []SetFunc{{Func: res.Func, Args: []scalar.Expr{q.Array}, Cols: []ColumnID{elem}}}})
		on := &scalar.Compare{Op: scalar.EQ, Left: c, Right: &scalar.Column{ID: elem, T: r.T, Name: "element"}}
		return o.newJoin(SemiJoin, o.filtered(in, rest), elems, []scalar.Expr{on})
	}
	return nil
}

// leadsIndex reports whether a column is the first of an index.
func (o *optimizer) leadsIndex(s *Scan, c ColumnID) bool {
	for i := range s.Table.Indexes {
		ix := &s.Table.Indexes[i]
		if ix.State != catalog.Public || ix.Predicate != "" || len(ix.Columns) == 0 {
			continue
		}
		if ord := s.Table.Ordinal(ix.Columns[0].Column); ord >= 0 && s.Cols[ord] == c {
			return true
		}
	}
	return false
}
