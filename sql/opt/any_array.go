package opt

import (
	"meridian/sql/catalog"
	"meridian/sql/scalar"
	"meridian/sql/types"
)

// anyOfArray turns "column = ANY (ARRAY (SELECT ...))" into a semi join, as for "column IN (SELECT ...)". It returns nil
// where there is no such condition. Other arrays become spans of an index at execution (constrain.go).
func (o *optimizer) anyOfArray(in *group, filter []scalar.Expr) *group {
	s, ok := in.expr().(*Scan)
	if !ok {
		return nil
	}
	for i, e := range filter {
		q, ok := e.(*scalar.Quantified)
		if !ok {
			continue
		}
		c, ok := anyEqual(q)
		if !ok || !in.cols.has(c.ID) || !o.leadsIndex(s, c.ID) || !sameValues(c.T, scalar.ElemType(q.Array.Type())) {
			continue
		}
		a, ok := q.Array.(*scalar.Subquery)
		if !ok || a.Kind != scalar.SubqueryArray || a.Col == 0 || o.meta.Column(a.Col).Type.Kind == types.KindArray {
			continue
		}
		if x := exprCols(a); x.intersects(&in.cols) {
			continue
		}
		if sub, ok := a.Plan.(*subquery); ok && !sub.volatile {
			rest := append(append([]scalar.Expr(nil), filter[:i]...), filter[i+1:]...)
			on := &scalar.Compare{Op: scalar.EQ, Left: c, Right: o.columnExpr(a.Col)}
			return o.newJoin(SemiJoin, o.filtered(in, rest), sub.group, []scalar.Expr{on})
		}
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
