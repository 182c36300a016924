package opt

import (
	"meridian/sql/catalog"
	"meridian/sql/scalar"
	"meridian/sql/types"
)

// derivedValues bounds the values of a column from which regions are computed.
const derivedValues = 1000

// derivedRegion is a condition on the region column that follows from others: the region is computed from columns to which the filter gives values. So
// rows are looked for in their home alone. Nil if nothing follows (CRDB'22 §4.2).
//
// Equal values have to be the same, or the expression could tell them apart: 1.0 and 1.00 are equal numerics. The expression is evaluated for values of which
// there may be no row. For constants that happens now, and an error means that nothing follows; other values must not be able to make it fail.
func derivedRegion(s *Scan, cols *colSet, ix *catalog.Index, filter []scalar.Expr) scalar.Expr {
	id := regionColumn(s, ix)
	if id == 0 || s.Region == nil || scalar.VolatilityOf(s.Region) != scalar.Immutable {
		return nil
	}
	t := s.Table.Column(s.Table.RegionColumn).Type
	if _, at := bestValues(filter, id, t, cols); at >= 0 {
		return nil // it is given
	}
	var from []ColumnID
	scalar.Columns(s.Region, func(c ColumnID) { from = append(from, c) })
	from = unique(from)
	values := make(map[ColumnID][]scalar.Expr, len(from))
	rows := 1
	for _, c := range from {
		ct := typeOf(s, c)
		if ct == nil || !identical(ct) {
			return nil
		}
		v, at := bestValues(filter, c, ct, cols)
		if at < 0 || v.mode != 0 || len(v.values) == 0 || v.inexact {
			return nil
		}
		values[c] = v.values
		if rows *= len(v.values); rows > derivedValues {
			return nil
		}
	}
	var list []scalar.Expr
	seen := map[int64]bool{}
	for i := range rows {
		e := scalar.ReplaceColumns(s.Region, func(c *scalar.Column) scalar.Expr {
			n := i
			for _, f := range from {
				vs := values[f]
				if f == c.ID {
					return vs[n%len(vs)]
				}
				n /= len(vs)
			}
			return c
		})
		if e = foldScalar(e); e == nil {
			return nil
		}
		if k, ok := e.(*scalar.Const); ok {
			if k.Value.IsNull() || seen[k.Value.Int()] {
				continue // no row has a region that is NULL
			}
			seen[k.Value.Int()] = true
		} else if rows > 1 || !total(e) {
			return nil
		}
		list = append(list, e)
	}
	arg := &scalar.Column{ID: id, T: t, Name: catalog.RegionColumn}
	switch len(list) {
	case 0:
		return nil // there is no such row, which the filter finds out
	case 1:
		return &scalar.Compare{Op: scalar.EQ, Left: arg, Right: list[0]}
	}
	return &scalar.In{Arg: arg, List: list}
}

// typeOf is the type of a scan's column; nil if it is not the scan's.
func typeOf(s *Scan, id ColumnID) *types.T {
	for i, c := range s.Cols {
		if c == id {
			return s.Table.Columns[i].Type
		}
	}
	return nil
}

func unique(ids []ColumnID) (out []ColumnID) {
	seen := map[ColumnID]bool{}
	for _, id := range ids {
		if !seen[id] {
			seen[id] = true
			out = append(out, id)
		}
	}
	return out
}

// identical reports whether equal values of a type are the same in every respect.
func identical(t *types.T) bool {
	switch t.Kind {
	case types.KindBool, types.KindInt2, types.KindInt4, types.KindInt8, types.KindText, types.KindVarChar, types.KindUUID, types.KindDate, types.KindEnum:
		return true
	}
	return false
}

// total reports whether no value can make an expression fail.
func total(e scalar.Expr) bool {
	ok := true
	scalar.Walk(e, func(x scalar.Expr) bool {
		switch x.(type) {
		case *scalar.Column, *scalar.Const, *scalar.Placeholder, *scalar.Case, *scalar.In, *scalar.Compare, *scalar.And, *scalar.Or, *scalar.Not, *scalar.IsNull:
		case *scalar.Quantified:
		default:
			ok = false
		}
		return ok
	})
	return ok
}
