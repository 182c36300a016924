package opt

import (
	"meridian/sql/catalog"
	"meridian/sql/scalar"
)

// splitDisjunction reads a table by two indexes for "a = 1 OR b = 2": the rows of each branch, once for each primary
// key. It is an alternative to a scan that tests the whole condition.
func (o *optimizer) splitDisjunction(g *group, sel *Select) {
	in := child(sel.Input)
	s, ok := in.expr().(*Scan)
	if !ok || s.Locking.Strength != 0 || s.ForceIndex != 0 || len(s.Table.Indexes) < 2 {
		return
	}
	for i, e := range sel.Filter {
		or, ok := e.(*scalar.Or)
		if !ok || len(or.Args) > 4 || hasSubquery(e) || isVolatile(e) {
			continue
		}
		if !o.branchesIndexed(s, in, or) {
			continue
		}
		rest := append(append([]scalar.Expr(nil), sel.Filter[:i]...), sel.Filter[i+1:]...)
		if anySubquery(rest) || anyVolatile(rest) {
			return
		}
		pk := make([]ColumnID, 0, 2)
		for _, k := range s.Table.Primary().Columns {
			ord := s.Table.Ordinal(k.Column)
			if ord < 0 || s.Cols[ord] == 0 {
				return
			}
			pk = append(pk, s.Cols[ord])
		}
		need := g.needed.union(setOf(pk))
		need = need.intersect(g.cols)
		var from []ColumnID
		for _, c := range s.Cols {
			if c != 0 && need.has(c) {
				from = append(from, c)
			}
		}
		var all *group
		var allCols []ColumnID
		for n, branch := range or.Args {
			scan := *s
			scan.Cols = make([]ColumnID, len(s.Cols))
			var old, renamed []ColumnID
			for j, c := range s.Cols {
				if c != 0 {
					scan.Cols[j] = o.meta.Add(*o.meta.Column(c))
					old, renamed = append(old, c), append(renamed, scan.Cols[j])
				}
			}
			conds := append(scalar.Conjuncts(branch), rest...)
			for j := range conds {
				conds[j] = renameColumns(conds[j], old, renamed)
			}
			part := o.newSelect(o.newGroup(&scan), conds)
			cols := make([]ColumnID, len(from))
			for j, c := range from {
				for k := range old {
					if old[k] == c {
						cols[j] = renamed[k]
					}
				}
			}
			if all == nil {
				all, allCols = part, cols
				continue
			}
			out := from
			if n < len(or.Args)-1 {
				out = make([]ColumnID, len(from))
				for j, c := range from {
					out[j] = o.meta.Add(*o.meta.Column(c))
				}
			}
			all = o.newGroup(&SetOp{Kind: Union, All: true, Left: all, Right: part, LeftCols: allCols, RightCols: cols, Out: out})
			allCols = out
		}
		d := &Distinct{Input: all, On: pk}
		g.add(d)
		o.pruneExpr(g, d)
		return
	}
}

// branchesIndexed reports whether every branch of a disjunction limits the first column of some index, and not all the
// same column, for which one index would do.
func (o *optimizer) branchesIndexed(s *Scan, in *group, or *scalar.Or) bool {
	columns := map[ColumnID]bool{}
	for _, branch := range or.Args {
		found := false
		conds := scalar.Conjuncts(branch)
		for i := range s.Table.Indexes {
			ix := &s.Table.Indexes[i]
			if ix.State != catalog.Public || ix.Predicate != "" || len(ix.Columns) == 0 {
				continue
			}
			ord := s.Table.Ordinal(ix.Columns[0].Column)
			if ord < 0 || s.Cols[ord] == 0 {
				continue
			}
			for _, e := range conds {
				if _, ok := matchColumn(e, s.Cols[ord], s.Table.Columns[ord].Type, &in.cols); ok {
					found = true
					columns[s.Cols[ord]] = true
				}
			}
		}
		if !found {
			return false
		}
	}
	return len(columns) > 1
}
