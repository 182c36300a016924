package opt

import (
	"slices"

	"meridian/sql/catalog"
	"meridian/sql/scalar"
	"meridian/sql/types"
)

// maxSpans bounds the spans made of IN lists and disjunctions. A statement has 65535 parameters at most.
const maxSpans = 1 << 16

// arrayValues is the estimated number of elements of an array that is not known before the statement runs.
const arrayValues = 10

// constraint is the use of an index for a conjunction: the spans to read, and the conditions that are still to be
// tested on the rows.
type constraint struct {
	spans  []IndexSpan
	filter []scalar.Expr
	// single: every span is a whole unique key.
	single bool
	// used are the conditions that the spans express.
	used []scalar.Expr
	// regions is how many regions there are spans of for each key, if withRegions has added them, or the conditions list them; else zero.
	regions int
}

// count is how many spans there will be at execution.
func (c *constraint) count() float64 {
	n := 0.0
	for i := range c.spans {
		m := 1.0
		for _, mode := range c.spans[i].Modes {
			if mode == SpanAny {
				m *= arrayValues
			}
		}
		n += m
	}
	return n
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

// columnValues are the values to which a condition limits one column.
type columnValues struct {
	values    []scalar.Expr
	mode      SpanMode // of the only value, if it is not an ordinary one
	low, high Bound
	inexact   bool // the condition is still to be tested
}

// number is the estimated number of values.
func (v *columnValues) number() int {
	if v.mode == SpanAny {
		return arrayValues
	}
	return len(v.values)
}

// constrainer finds the spans of one index.
type constrainer struct {
	o    *optimizer
	scan *Scan
	cols *colSet
	keys []catalog.IndexColumn
	// depth counts disjunctions within branches of others, and work the conditions that were examined there.
	depth, work int
}

// maxSplitDepth and maxSplitWork bound the combinations of several disjunctions; those of one are bounded by its length. Both
// are chosen by us.
const (
	maxSplitDepth = 4
	maxSplitWork  = 1 << 14
)

// limits are spans over key columns from some position on, and the conditions (by position) that they use, and those
// of them that they express exactly.
type limits struct {
	spans       []IndexSpan
	used, exact []int
}

// constrain finds the spans of an index for a conjunction over a scan's columns. A span holds expressions, so whether
// a value is a literal, a parameter or a column of an outer row makes no difference to it.
func (o *optimizer) constrain(s *Scan, cols *colSet, ix *catalog.Index, filter []scalar.Expr) constraint {
	k := constrainer{o: o, scan: s, cols: cols, keys: ix.Columns}
	if !ix.Unique && !ix.Primary {
		k.keys = indexColumns(s.Table, ix)
	}
	var used, exact [4]int
	l := k.from(0, filter, maxSpans, limits{used: used[:0], exact: exact[:0]})
	c := constraint{spans: l.spans}
	if c.spans == nil {
		c.filter = filter
		return c
	}
	c.used = make([]scalar.Expr, len(l.used))
	for i, at := range l.used {
		c.used[i] = filter[at]
	}
	c.single = ix.Unique || ix.Primary
	for _, k := range ix.Columns {
		c.single = c.single && s.Table.Column(k.Column).Type.Kind != types.KindInterval
	}
	whole := true // the conditions that are expressed need no test
	for i := range c.spans {
		x := &c.spans[i]
		c.single = c.single && len(x.Equal) == len(ix.Columns) && x.Low.Expr == nil && x.High.Expr == nil
		arrays := 0
		for _, m := range x.Modes {
			c.single = c.single && m != SpanNull && m != SpanSame
			if m == SpanAny {
				arrays++
			}
		}
		if arrays > 1 { // there may be too many combinations at execution, and then fewer columns are used
			c.single, whole = false, false
		}
	}
	if !whole {
		c.filter = filter
		return c
	}
	if len(l.exact) < len(filter) {
		for i, e := range filter {
			if !slices.Contains(l.exact, i) {
				c.filter = append(c.filter, e)
			}
		}
	}
	return c
}

// from extends l by spans over the key columns from position at on. It makes most spans at most.
func (k *constrainer) from(at int, filter []scalar.Expr, most int, l limits) limits {
	for ; at < len(k.keys); at++ {
		ord := k.scan.Table.Ordinal(k.keys[at].Column)
		if ord < 0 || k.scan.Cols[ord] == 0 {
			break
		}
		id, t := k.scan.Cols[ord], k.scan.Table.Columns[ord].Type
		v, n := bestValues(filter, id, t, k.cols)
		if n < 0 {
			if !k.split(at, filter, most/max(1, len(l.spans)), &l) {
				l.ranges(filter, id, t, k.cols)
			}
			break
		}
		if max(1, len(l.spans))*len(v.values) > most {
			break
		}
		if v.mode == SpanSame && k.scan.Table.Columns[ord].NotNull {
			v.mode = SpanValue
		}
		l.extend(v.values, v.mode)
		l.used = append(l.used, n)
		if !v.inexact {
			l.exact = append(l.exact, n)
		}
	}
	return l
}

// extend appends a column with one of the values to all spans.
func (l *limits) extend(values []scalar.Expr, mode SpanMode) {
	if l.spans == nil {
		l.spans = make([]IndexSpan, 1, len(values))
	}
	out := l.spans
	if len(values) > 1 {
		out = make([]IndexSpan, 0, len(l.spans)*len(values))
	}
	for i := range l.spans {
		s := l.spans[i]
		for _, v := range values {
			m := mode
			if v == nil {
				m = SpanNull
			}
			n := IndexSpan{Equal: append(s.Equal[:len(s.Equal):len(s.Equal)], v), Modes: s.Modes}
			if m != SpanValue || s.Modes != nil {
				n.Modes = make([]SpanMode, len(n.Equal))
				copy(n.Modes, s.Modes)
				n.Modes[len(n.Equal)-1] = m
			}
			if len(values) == 1 {
				out[i] = n
			} else {
				out = append(out, n)
			}
		}
	}
	l.spans = out
}

// split reads a disjunction as spans for each of its branches, which each limit the column: "(a, b) IN ((1, 2), (3, 4))",
// "(a, b) > (1, 2)", "a < 1 OR a > 9". It reports whether there is one.
func (k *constrainer) split(at int, filter []scalar.Expr, most int, l *limits) bool {
	if k.depth > 0 && (k.depth == maxSplitDepth || k.work > maxSplitWork) {
		return false
	}
	k.depth++
	defer func() { k.depth-- }()
	for n, e := range filter {
		or, ok := e.(*scalar.Or)
		if !ok || len(or.Args) > most || isVolatile(e) {
			continue
		}
		rest := make([]scalar.Expr, 0, len(filter)+4)
		rest = append(append(rest, filter[:n]...), filter[n+1:]...)
		var all limits
		whole := true // the spans express the disjunction
		for i, branch := range or.Args {
			k.o.charge(0)
			conds := rest[:len(rest):len(rest)]
			if and, ok := branch.(*scalar.And); ok {
				conds = append(conds, scalar.Conjuncts(and)...)
			} else {
				conds = append(conds, branch)
			}
			if k.depth > 1 {
				k.work += len(conds)
			}
			b := k.from(at, conds, most-len(all.spans), limits{})
			own := func(j int) bool { return j >= len(rest) }
			if !slices.ContainsFunc(b.used, own) {
				// The other conditions limit the column more than the branch does, and would do so in each branch.
				b = k.from(at, conds[len(rest):], most-len(all.spans), limits{})
				for j := range b.used {
					b.used[j] += len(rest)
				}
				for j := range b.exact {
					b.exact[j] += len(rest)
				}
			}
			if b.spans == nil || len(all.spans)+len(b.spans) > most {
				whole, all.spans = false, nil
				break
			}
			all.spans = append(all.spans, b.spans...)
			for j := len(rest); j < len(conds); j++ {
				whole = whole && slices.Contains(b.exact, j)
			}
			if i == 0 {
				all.used, all.exact = b.used, b.exact
			}
			other := func(j int) bool { return j >= len(rest) || !slices.Contains(b.used, j) }
			all.used = slices.DeleteFunc(all.used, other)
			all.exact = slices.DeleteFunc(all.exact, func(j int) bool { return j >= len(rest) || !slices.Contains(b.exact, j) })
		}
		if all.spans == nil {
			continue
		}
		place := func(j int) int { // in filter
			if j >= n {
				j++
			}
			return j
		}
		for _, j := range all.used {
			l.used = append(l.used, place(j))
		}
		for _, j := range all.exact {
			l.exact = append(l.exact, place(j))
		}
		l.used = append(l.used, n)
		if whole {
			l.exact = append(l.exact, n)
		}
		l.product(all.spans)
		return true
	}
	return false
}

// product continues each span by each of others.
func (l *limits) product(others []IndexSpan) {
	if l.spans == nil {
		l.spans = others
		return
	}
	out := make([]IndexSpan, 0, len(l.spans)*len(others))
	for i := range l.spans {
		s := &l.spans[i]
		for j := range others {
			n := others[j]
			n.Equal = append(s.Equal[:len(s.Equal):len(s.Equal)], n.Equal...)
			if s.Modes != nil || n.Modes != nil {
				m := make([]SpanMode, len(n.Equal))
				copy(m, s.Modes)
				copy(m[len(s.Equal):], n.Modes)
				n.Modes = m
			}
			out = append(out, n)
		}
	}
	l.spans = out
}

// ranges limits the column after the prefix between bounds. Of several literals the tightest is used; of bounds that are
// known only at execution, all.
func (l *limits) ranges(filter []scalar.Expr, id ColumnID, t *types.T, cols *colSet) {
	var low, high bounds
	for i, e := range filter {
		v, ok := matchColumn(e, id, t, cols)
		if !ok || v.values != nil {
			continue
		}
		one := (v.low.Expr == nil) != (v.high.Expr == nil)
		low.add(v.low, i, one && !v.inexact, true)
		high.add(v.high, i, one && !v.inexact, false)
	}
	if len(low.list)+len(high.list) == 0 {
		return
	}
	if l.spans == nil {
		l.spans = make([]IndexSpan, 1)
	} else {
		l.spans = append([]IndexSpan(nil), l.spans...)
	}
	for i := range l.spans {
		s := &l.spans[i]
		s.Low, s.Lows = low.split()
		s.High, s.Highs = high.split()
	}
	low.note(l)
	high.note(l)
}

// bounds are the bounds at one end of a range.
type bounds struct {
	list  []Bound
	from  []int // the conditions that imply the bounds; one implied by another is kept by that one
	exact []bool
}

func (b *bounds) add(x Bound, from int, exact, low bool) {
	if x.Expr == nil {
		return
	}
	b.from, b.exact = append(b.from, from), append(b.exact, exact)
	for i := range b.list {
		if tighter(b.list[i], x, low) || sameBound(b.list[i], x) {
			return
		}
		if tighter(x, b.list[i], low) {
			b.list[i] = x
			return
		}
	}
	b.list = append(b.list, x)
}

func sameBound(a, b Bound) bool { return a.Inclusive == b.Inclusive && scalar.Equal(a.Expr, b.Expr) }

func (b *bounds) split() (first Bound, more []Bound) {
	if len(b.list) == 0 {
		return Bound{}, nil
	}
	if len(b.list) > 1 {
		more = b.list[1:]
	}
	return b.list[0], more
}

// note records which conditions are used, and which expressed exactly.
func (b *bounds) note(l *limits) {
	for i, at := range b.from {
		if !slices.Contains(l.used, at) {
			l.used = append(l.used, at)
		}
		if b.exact[i] {
			l.exact = append(l.exact, at)
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
		if !ok || v.values == nil || at >= 0 && v.number() >= best.number() {
			continue
		}
		best, at = v, i
		if v.number() == 1 {
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
	if n, ok := e.(*scalar.IsNull); !keyOrdered(t) && (!ok || n.Negate || !is(n.Arg)) {
		return v, false
	}
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
				return matchCast(e, id, t, cols)
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
			v.values = []scalar.Expr{value}
			if k, ok := value.(*scalar.Const); !ok {
				v.mode = SpanSame
			} else if k.Value.IsNull() {
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
		if e.Negate || len(e.List) == 0 {
			return v, false
		}
		if !is(e.Arg) {
			for _, x := range e.List {
				w, ok := matchCast(&scalar.Compare{Op: scalar.EQ, Left: e.Arg, Right: x}, id, t, cols)
				if !ok {
					return v, false
				}
				v.values = append(v.values, w.values...)
			}
			v.inexact = true
			return v, true
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
			if !ok || w.values == nil || w.mode != SpanValue {
				return orBounds(e, id, t, cols)
			}
			v.values = append(v.values, w.values...)
			v.inexact = v.inexact || w.inexact
		}
		return v, true
	case *scalar.Quantified:
		c, ok := anyEqual(e)
		if !ok || c.ID != id || !sameValues(t, scalar.ElemType(e.Array.Type())) || isVolatile(e.Array) {
			return v, false
		}
		if x := exprCols(e.Array); x.intersects(cols) {
			return v, false
		}
		v.values, v.mode = []scalar.Expr{e.Array}, SpanAny
		v.inexact = t.Kind == types.KindBPChar || t.Kind == types.KindArray || t.Kind == types.KindTuple
		return v, true
	case *scalar.Call:
		return matchLike(e, id, t)
	}
	return v, false
}

// anyEqual is the column of "column = ANY (array)".
func anyEqual(q *scalar.Quantified) (*scalar.Column, bool) {
	c, ok := q.Arg.(*scalar.Column)
	cmp, eq := q.Op.(*scalar.Compare)
	if !ok || !eq || q.All || cmp.Op != scalar.EQ || q.Array.Type().Kind != types.KindArray {
		return nil, false
	}
	l, lok := cmp.Left.(*scalar.Column)
	r, rok := cmp.Right.(*scalar.Column)
	if !lok || !rok || l.ID != q.LeftID || r.ID != q.ElemID {
		return nil, false
	}
	return c, true
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
			if len(w.values) == 1 && w.values[0] != nil && w.mode == SpanValue {
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

// widen makes a bound include all values that another one does; it can't if they differ and are not constants.
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
