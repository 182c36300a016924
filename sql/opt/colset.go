package opt

import (
	"math/bits"

	"meridian/sql/scalar"
)

// colSet is a set of a statement's columns. The first 128 need no memory of their own; the zero value is empty. Sets
// are values: big is never changed once it is shared.
type colSet struct {
	lo  [2]uint64
	big []uint64 // columns from 128
}

func (s *colSet) has(c ColumnID) bool {
	if c < 128 {
		return s.lo[c>>6]&(1<<(c&63)) != 0
	}
	w := int(c-128) >> 6
	return w < len(s.big) && s.big[w]&(1<<(c&63)) != 0
}

func (s *colSet) add(c ColumnID) {
	if c < 128 {
		s.lo[c>>6] |= 1 << (c & 63)
		return
	}
	if s.has(c) {
		return
	}
	w := int(c-128) >> 6
	big := make([]uint64, max(len(s.big), w+1))
	copy(big, s.big)
	big[w] |= 1 << (c & 63)
	s.big = big
}

func (s *colSet) remove(c ColumnID) {
	if !s.has(c) {
		return
	}
	if c < 128 {
		s.lo[c>>6] &^= 1 << (c & 63)
		return
	}
	s.big = append([]uint64(nil), s.big...)
	s.big[int(c-128)>>6] &^= 1 << (c & 63)
}

func (s *colSet) addAll(o *colSet) {
	s.lo[0] |= o.lo[0]
	s.lo[1] |= o.lo[1]
	if len(o.big) == 0 {
		return
	}
	big := make([]uint64, max(len(s.big), len(o.big)))
	copy(big, s.big)
	for i, w := range o.big {
		big[i] |= w
	}
	s.big = big
}

func (s colSet) union(o colSet) colSet {
	s.addAll(&o)
	return s
}

func (s colSet) minus(o colSet) colSet {
	s.lo[0] &^= o.lo[0]
	s.lo[1] &^= o.lo[1]
	if len(s.big) > 0 && len(o.big) > 0 {
		s.big = append([]uint64(nil), s.big...)
		for i := range min(len(s.big), len(o.big)) {
			s.big[i] &^= o.big[i]
		}
	}
	return s
}

func (s colSet) intersect(o colSet) colSet {
	s.lo[0] &= o.lo[0]
	s.lo[1] &= o.lo[1]
	n := min(len(s.big), len(o.big))
	if n == 0 {
		s.big = nil
		return s
	}
	big := make([]uint64, n)
	for i := range big {
		big[i] = s.big[i] & o.big[i]
	}
	s.big = big
	return s
}

func (s *colSet) intersects(o *colSet) bool {
	if s.lo[0]&o.lo[0]|s.lo[1]&o.lo[1] != 0 {
		return true
	}
	for i := range min(len(s.big), len(o.big)) {
		if s.big[i]&o.big[i] != 0 {
			return true
		}
	}
	return false
}

func (s *colSet) within(o *colSet) bool {
	if s.lo[0]&^o.lo[0]|s.lo[1]&^o.lo[1] != 0 {
		return false
	}
	for i, w := range s.big {
		if i < len(o.big) {
			w &^= o.big[i]
		}
		if w != 0 {
			return false
		}
	}
	return true
}

func (s *colSet) empty() bool {
	if s.lo[0]|s.lo[1] != 0 {
		return false
	}
	for _, w := range s.big {
		if w != 0 {
			return false
		}
	}
	return true
}

func (s *colSet) len() int {
	n := bits.OnesCount64(s.lo[0]) + bits.OnesCount64(s.lo[1])
	for _, w := range s.big {
		n += bits.OnesCount64(w)
	}
	return n
}

func (s *colSet) equal(o *colSet) bool { return s.within(o) && o.within(s) }

// each calls f for the columns in ascending order.
func (s *colSet) each(f func(ColumnID)) {
	word := func(w uint64, at ColumnID) {
		for w != 0 {
			f(at + ColumnID(bits.TrailingZeros64(w)))
			w &= w - 1
		}
	}
	word(s.lo[0], 0)
	word(s.lo[1], 64)
	for i, w := range s.big {
		word(w, ColumnID(128+64*i))
	}
}

func (s *colSet) list() []ColumnID {
	out := make([]ColumnID, 0, s.len())
	s.each(func(c ColumnID) { out = append(out, c) })
	return out
}

func setOf(cols []ColumnID) colSet {
	var s colSet
	for _, c := range cols {
		if c != 0 {
			s.add(c)
		}
	}
	return s
}

// addExpr adds the columns that an expression reads, its subqueries' outer columns included.
func (s *colSet) addExpr(e scalar.Expr) {
	switch e := e.(type) {
	case nil, *scalar.Const, *scalar.Placeholder:
	case *scalar.Column:
		s.add(e.ID)
	case *scalar.Compare:
		s.addExpr(e.Left)
		s.addExpr(e.Right)
	case *scalar.And:
		s.addExprs(e.Args)
	case *scalar.Or:
		s.addExprs(e.Args)
	case *scalar.Not:
		s.addExpr(e.Arg)
	case *scalar.IsNull:
		s.addExpr(e.Arg)
	case *scalar.Cast:
		s.addExpr(e.Arg)
	case *scalar.Call:
		s.addExprs(e.Args)
	case *scalar.In:
		s.addExpr(e.Arg)
		s.addExprs(e.List)
	default:
		scalar.Columns(e, s.add)
	}
}

func (s *colSet) addExprs(es []scalar.Expr) {
	for _, e := range es {
		s.addExpr(e)
	}
}

func exprCols(e scalar.Expr) colSet {
	var s colSet
	s.addExpr(e)
	return s
}

// hasSubquery is scalar.HasSubquery without memory for the usual expressions.
func hasSubquery(e scalar.Expr) bool {
	switch e := e.(type) {
	case nil, *scalar.Const, *scalar.Placeholder, *scalar.Column:
		return false
	case *scalar.Subquery:
		return true
	case *scalar.Compare:
		return hasSubquery(e.Left) || hasSubquery(e.Right)
	case *scalar.Not:
		return hasSubquery(e.Arg)
	case *scalar.IsNull:
		return hasSubquery(e.Arg)
	case *scalar.Cast:
		return hasSubquery(e.Arg)
	case *scalar.Call:
		for _, a := range e.Args {
			if hasSubquery(a) {
				return true
			}
		}
		return false
	}
	return scalar.HasSubquery(e)
}

// isVolatile reports whether an expression may not be moved, repeated or dropped.
func isVolatile(e scalar.Expr) bool {
	switch e := e.(type) {
	case nil, *scalar.Const, *scalar.Placeholder, *scalar.Column:
		return false
	case *scalar.Compare:
		return isVolatile(e.Left) || isVolatile(e.Right)
	}
	return scalar.VolatilityOf(e) == scalar.Volatile
}
