package opt

import (
	"meridian/sql/catalog"
	"meridian/sql/scalar"
	"meridian/sql/types"
)

// maxSpans bounds the spans made of IN lists.
const maxSpans = 4096

// constraint is what a conjunction says about an index: the spans to read, and the conditions that are still to be
// tested on what is read.
type constraint struct {
	spans  []IndexSpan
	filter []scalar.Expr
	// equal is how many leading columns have one value each; prefix how many are limited to values.
	equal, prefix int
	// single: every span is a whole unique key.
	single bool
	// used are the conditions that the spans express.
	used []scalar.Expr
}

// indexColumns are the columns by which an index's entries are ordered: its own, and the primary key's.
func indexColumns(t *catalog.Table, ix *catalog.Index) []catalog.IndexColumn {
	if ix.Primary {
		return ix.Columns
	}
	out := ix.Columns[:len(ix.Columns):len(ix.Columns)]
next:
	for _, p := range t.Primary().Columns {
		for _, c := range ix.Columns {
			if c.Column == p.Column {
				continue next
			}
		}
		out = append(out, catalog.IndexColumn{Column: p.Column})
	}
	return out
}

// columnValues is what a condition says about one column.
type columnValues struct {
	values    []scalar.Expr // nil entries are NULL
	low, high Bound
	inexact   bool // the condition is still to be tested
}

// constrain finds the spans of an index for a conjunction over a scan's columns.
func (o *optimizer) constrain(s *Scan, cols *colSet, ix *catalog.Index, filter []scalar.Expr) constraint {
	keys := ix.Columns
	if !ix.Unique && !ix.Primary {
		keys = indexColumns(s.Table, ix)
	}
	c := constraint{}
	var used [4]int // positions in filter of the conditions that are expressed exactly
	exact := used[:0]
	prefixes := 1
	for i, k := range keys {
		ord := s.Table.Ordinal(k.Column)
		if ord < 0 || s.Cols[ord] == 0 {
			break
		}
		id, t := s.Cols[ord], s.Table.Columns[ord].Type
		v, at := bestValues(filter, id, t, cols)
		if at < 0 {
			c.ranges(filter, id, t, cols, &exact)
			break
		}
		if prefixes*len(v.values) > maxSpans {
			break
		}
		prefixes *= len(v.values)
		c.extend(v.values)
		c.used = append(c.used, filter[at])
		if !v.inexact {
			exact = append(exact, at)
		}
		c.prefix = i + 1
		if len(v.values) == 1 && c.equal == i {
			c.equal = i + 1
		}
	}
	if c.spans == nil {
		c.filter = filter
		return c
	}
	if (ix.Unique || ix.Primary) && c.prefix == len(ix.Columns) {
		c.single = true
		for _, k := range ix.Columns {
			if col := s.Table.Column(k.Column); col.Type.Kind == types.KindInterval {
				c.single = false
			}
		}
		for i := range c.spans {
			for _, null := range c.spans[i].EqualNull {
				c.single = c.single && !null
			}
		}
	}
	if len(exact) < len(filter) {
		for i, e := range filter {
			if !containsInt(exact, i) {
				c.filter = append(c.filter, e)
			}
		}
	}
	return c
}

func containsInt(s []int, x int) bool {
	for _, v := range s {
		if v == x {
			return true
		}
	}
	return false
}

// extend appends a column with so many values to all spans.
func (c *constraint) extend(values []scalar.Expr) {
	if c.spans == nil {
		c.spans = make([]IndexSpan, 1, len(values))
	}
	out := c.spans
	if len(values) > 1 {
		out = make([]IndexSpan, 0, len(c.spans)*len(values))
	}
	for i := range c.spans {
		s := c.spans[i]
		for _, v := range values {
			n := IndexSpan{Equal: append(s.Equal[:len(s.Equal):len(s.Equal)], v), EqualNull: s.EqualNull}
			if v == nil || s.EqualNull != nil {
				n.EqualNull = make([]bool, len(n.Equal))
				copy(n.EqualNull, s.EqualNull)
				n.EqualNull[len(n.Equal)-1] = v == nil
			}
			if len(values) == 1 {
				out[i] = n
			} else {
				out = append(out, n)
			}
		}
	}
	c.spans = out
}

// ranges limits the column after the prefix between bounds.
func (c *constraint) ranges(filter []scalar.Expr, id ColumnID, t *types.T, cols *colSet, exact *[]int) {
	var low, high Bound
	lowAt, highAt := -1, -1
	lowExact, highExact := false, false
	for i, e := range filter {
		v, ok := matchColumn(e, id, t, cols)
		if !ok || v.values != nil {
			continue
		}
		if v.low.Expr != nil && (lowAt < 0 || tighter(v.low, low, true)) {
			low, lowAt, lowExact = v.low, i, !v.inexact
			if v.high.Expr != nil {
				lowExact = false
			}
		}
		if v.high.Expr != nil && (highAt < 0 || tighter(v.high, high, false)) {
			high, highAt, highExact = v.high, i, !v.inexact
			if v.low.Expr != nil {
				highExact = false
			}
		}
	}
	if lowAt < 0 && highAt < 0 {
		return
	}
	if c.spans == nil {
		c.spans = make([]IndexSpan, 1)
	} else {
		c.spans = append([]IndexSpan(nil), c.spans...)
	}
	for i := range c.spans {
		c.spans[i].Low, c.spans[i].High = low, high
	}
	if lowAt >= 0 {
		c.used = append(c.used, filter[lowAt])
		if lowExact {
			*exact = append(*exact, lowAt)
		}
	}
	if highAt >= 0 && highAt != lowAt {
		c.used = append(c.used, filter[highAt])
		if highExact {
			*exact = append(*exact, highAt)
		}
	}
}

// tighter reports whether a constant bound is narrower than another constant one.
func tighter(a, b Bound, low bool) bool {
	x, xok := a.Expr.(*scalar.Const)
	y, yok := b.Expr.(*scalar.Const)
	if !xok || !yok || !x.T.Same(y.T) || x.Value.IsNull() || y.Value.IsNull() {
		return false
	}
	c := x.T.Compare(x.Value, y.Value)
	if c == 0 {
		return !a.Inclusive && b.Inclusive
	}
	return c > 0 == low
}

// bestValues finds the condition that limits a column to the fewest values; at is -1 if none does.
func bestValues(filter []scalar.Expr, id ColumnID, t *types.T, cols *colSet) (best columnValues, at int) {
	at = -1
	for i, e := range filter {
		v, ok := matchColumn(e, id, t, cols)
		if !ok || v.values == nil || at >= 0 && len(v.values) >= len(best.values) {
			continue
		}
		best, at = v, i
		if len(v.values) == 1 {
			break
		}
	}
	return best, at
}

// matchColumn reads a condition as one about a column. Values and bounds are free of the scan's columns.
func matchColumn(e scalar.Expr, id ColumnID, t *types.T, cols *colSet) (columnValues, bool) {
	is := func(e scalar.Expr) bool {
		c, ok := e.(*scalar.Column)
		return ok && c.ID == id
	}
	free := func(e scalar.Expr) bool {
		switch e.(type) {
		case *scalar.Const, *scalar.Placeholder:
			return sameValues(t, e.Type())
		}
		if !sameValues(t, e.Type()) || isVolatile(e) {
			return false
		}
		x := exprCols(e)
		return !x.intersects(cols)
	}
	var v columnValues
	switch e := e.(type) {
	case *scalar.Column:
		if e.ID == id {
			v.values = []scalar.Expr{trueExpr()}
			return v, true
		}
	case *scalar.Not:
		if is(e.Arg) {
			v.values = []scalar.Expr{falseExpr()}
			return v, true
		}
	case *scalar.IsNull:
		if is(e.Arg) && !e.Negate {
			v.values = []scalar.Expr{nil}
			return v, true
		}
	case *scalar.IsBool:
		if is(e.Arg) && !e.Negate {
			v.values = []scalar.Expr{falseExpr()}
			if e.Want {
				v.values[0] = trueExpr()
			}
			return v, true
		}
	case *scalar.Compare:
		op, value := e.Op, e.Right
		if !is(e.Left) {
			if !is(e.Right) {
				return v, false
			}
			op, value = e.Op.Commute(), e.Left
		}
		if !free(value) {
			return v, false
		}
		v.inexact = t.Kind == types.KindBPChar || t.Kind == types.KindArray || t.Kind == types.KindTuple
		switch op {
		case scalar.EQ:
			v.values = []scalar.Expr{value}
		case scalar.IsNotDistinct:
			k, ok := value.(*scalar.Const)
			if !ok {
				return v, false
			}
			v.values = []scalar.Expr{value}
			if k.Value.IsNull() {
				v.values[0] = nil
			}
		case scalar.LT, scalar.LE:
			v.high = Bound{value, op == scalar.LE}
		case scalar.GT, scalar.GE:
			v.low = Bound{value, op == scalar.GE}
		default:
			return v, false
		}
		if v.values == nil && (t.Kind == types.KindArray || t.Kind == types.KindTuple || t.Kind == types.KindInterval) {
			return v, false
		}
		return v, true
	case *scalar.In:
		if e.Negate || !is(e.Arg) || len(e.List) == 0 {
			return v, false
		}
		v.inexact = t.Kind == types.KindBPChar || t.Kind == types.KindArray || t.Kind == types.KindTuple
		for _, x := range e.List {
			if !free(x) {
				return v, false
			}
		}
		v.values = e.List
		return v, true
	case *scalar.Or:
		for _, a := range e.Args {
			w, ok := matchColumn(a, id, t, cols)
			if !ok || w.values == nil {
				return orBounds(e, id, t, cols)
			}
			v.values = append(v.values, w.values...)
			v.inexact = v.inexact || w.inexact
		}
		return v, true
	case *scalar.Call:
		return matchLike(e, id, t)
	}
	return v, false
}

// orBounds finds bounds that hold in all branches of a disjunction, such as a >= 1 in "a > 1 OR a = 1 AND b > 2", which
// is what (a, b) > (1, 2) means.
func orBounds(e *scalar.Or, id ColumnID, t *types.T, cols *colSet) (v columnValues, ok bool) {
	noLow, noHigh := false, false
	for _, branch := range e.Args {
		var low, high Bound
		for _, c := range scalar.Conjuncts(branch) {
			if _, nested := c.(*scalar.Or); nested {
				continue
			}
			w, ok := matchColumn(c, id, t, cols)
			if !ok {
				continue
			}
			if len(w.values) == 1 && w.values[0] != nil {
				w.low, w.high = Bound{w.values[0], true}, Bound{w.values[0], true}
			}
			if w.low.Expr != nil {
				low = w.low
			}
			if w.high.Expr != nil {
				high = w.high
			}
		}
		noLow = noLow || low.Expr == nil || !widen(&v.low, low, true)
		noHigh = noHigh || high.Expr == nil || !widen(&v.high, high, false)
	}
	if noLow {
		v.low = Bound{}
	}
	if noHigh {
		v.high = Bound{}
	}
	v.inexact = true
	return v, v.low.Expr != nil || v.high.Expr != nil
}

// widen makes a bound include what another one does; it can't if they are different and not constants.
func widen(b *Bound, with Bound, low bool) bool {
	switch {
	case b.Expr == nil:
		*b = with
	case scalar.Equal(b.Expr, with.Expr):
		b.Inclusive = b.Inclusive || with.Inclusive
	default:
		if tighter(*b, with, low) {
			*b = with
		} else if !tighter(with, *b, low) {
			return false
		}
	}
	return true
}

// matchLike turns "column LIKE 'prefix%'" into a range.
func matchLike(e *scalar.Call, id ColumnID, t *types.T) (v columnValues, ok bool) {
	if e.Func.Name != "~~" || len(e.Args) != 2 || !(t.Kind == types.KindText || t.Kind == types.KindVarChar) {
		return v, false
	}
	c, cok := e.Args[0].(*scalar.Column)
	k, kok := e.Args[1].(*scalar.Const)
	if !cok || c.ID != id || !kok || k.Value.IsNull() || k.Value.Phys() != types.PhysString {
		return v, false
	}
	prefix, whole := scalar.LikePrefix(k.Value.Str())
	if prefix == "" {
		return v, false
	}
	text := func(s string) scalar.Expr { return &scalar.Const{Value: types.NewString(s), T: types.Text} }
	if whole {
		v.values = []scalar.Expr{text(prefix)}
		return v, true
	}
	v.inexact = true
	v.low = Bound{text(prefix), true}
	// The least string above all with the prefix: the last byte that can grow, grown. Keys compare by bytes.
	for i := len(prefix) - 1; i >= 0; i-- {
		if prefix[i] < 0xff {
			v.high = Bound{text(prefix[:i] + string([]byte{prefix[i] + 1})), false}
			break
		}
	}
	return v, true
}
