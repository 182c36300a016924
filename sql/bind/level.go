package bind

import (
	"slices"

	"github.com/cockroachdb/cockroachdb-parser/pkg/sql/sem/tree"

	"meridian/sql/opt"
	"meridian/sql/scalar"
)

// level is one SELECT, and collects the calls in its expressions that operators of their own compute: aggregates, window functions and
// set-returning calls. Each is replaced by a column of that operator. Levels nest as queries do, and note the columns of enclosing levels that
// they read.
type level struct {
	parent *level
	// number tells the levels of a statement apart that have subqueries in expressions; zero: not yet given.
	number int
	// within is the expression of the parent level in which a subquery stands; nil in FROM.
	within *exprContext
	// outer are the columns of enclosing levels that this one reads.
	outer   []opt.ColumnID
	aggs    []opt.AggItem
	pending []*pendingWindow
	srfs    []opt.SetFunc // a call comes after the calls in its arguments
	// recursive: FROM has the query of whose recursive term it is a part.
	recursive bool
	// seen are the relations of the level, also where they can't be referenced, for hints in errors.
	seen []*scope
	// defs are the WINDOW clause's definitions.
	defs map[string]*tree.WindowDef
}

// numbered gives the level of an expression its number.
func (b *builder) numbered(l *level) int {
	if l.number == 0 {
		b.levels++
		l.number = b.levels
	}
	return l.number
}

// pendingWindow is a window call whose partition and order expressions have not become columns yet.
type pendingWindow struct {
	item      opt.WindowItem
	partition []scalar.Expr
	order     []scalar.AggOrder
}

// reads notes that the level, and the enclosing levels up to the owner of the column, read the column.
func (l *level) reads(owner *level, id opt.ColumnID) {
	for ; l != nil && l != owner; l = l.parent {
		if !slices.Contains(l.outer, id) {
			l.outer = append(l.outer, id)
		}
	}
}

// readsColumn is reads for all columns for which a name stands.
func (l *level) readsColumn(owner *level, c *column) {
	if c.id != 0 {
		l.reads(owner, c.id)
		return
	}
	scalar.Columns(c.ref(), func(id opt.ColumnID) { l.reads(owner, id) })
}

// mark has the number of outer columns of the level and of each enclosing one. An aggregate that belongs to an enclosing level is computed there,
// with the columns that its arguments read: rewind removes the notes of these columns since the mark in the levels below, and returns the
// expression of the owning level in which the aggregate stands.
func (l *level) mark() (marks []int) {
	for ; l != nil; l = l.parent {
		marks = append(marks, len(l.outer))
	}
	return marks
}

func (l *level) rewind(marks []int, owner *level) (at *exprContext) {
	for i := 0; l != owner; i, l = i+1, l.parent {
		l.outer = l.outer[:marks[i]]
		at = l.within
	}
	return at
}

// aggregate is the column of an aggregate; equal ones are computed once.
func (l *level) aggregate(f *scalar.AggFunc, newColumn func() opt.ColumnID) opt.ColumnID {
	for i := range l.aggs {
		if scalar.Equal(l.aggs[i].Agg, f) {
			return l.aggs[i].Col
		}
	}
	id := newColumn()
	l.aggs = append(l.aggs, opt.AggItem{Col: id, Agg: f})
	return id
}

// window is the column of a window function; equal ones are computed once.
func (l *level) window(w *pendingWindow, newColumn func() opt.ColumnID) opt.ColumnID {
	order := func(a, b scalar.AggOrder) bool {
		return a.Desc == b.Desc && a.NullsFirst == b.NullsFirst && scalar.Equal(a.Expr, b.Expr)
	}
	agg := func(a, b *scalar.AggFunc) bool {
		return a == nil && b == nil || a != nil && b != nil && scalar.Equal(a, b)
	}
	frame := func(a, b *opt.WindowFrame) bool {
		return a == nil && b == nil || a != nil && b != nil && a.Rows == b.Rows && a.Start == b.Start && a.End == b.End &&
			scalar.Equal(a.StartOffset, b.StartOffset) && scalar.Equal(a.EndOffset, b.EndOffset)
	}
	for _, o := range l.pending {
		if o.item.Func == w.item.Func && agg(o.item.Agg, w.item.Agg) && slices.EqualFunc(o.item.Args, w.item.Args, scalar.Equal) &&
			slices.EqualFunc(o.partition, w.partition, scalar.Equal) && slices.EqualFunc(o.order, w.order, order) && frame(o.item.Frame, w.item.Frame) {
			return o.item.Col
		}
	}
	w.item.Col = newColumn()
	l.pending = append(l.pending, w)
	return w.item.Col
}

// set adds a set-returning call and returns its columns. Equal calls are made once, so (f(x)).a, (f(x)).b advance together.
func (l *level) set(f opt.SetFunc) []opt.ColumnID {
	for i := range l.srfs {
		if o := &l.srfs[i]; o.Func == f.Func && slices.EqualFunc(o.Args, f.Args, scalar.Equal) {
			return o.Cols
		}
	}
	l.srfs = append(l.srfs, f)
	return f.Cols
}

// setsBelow removes from the level the set-returning calls on whose columns one of the expressions depends, with the calls in their arguments.
// They run before the expressions are computed.
func (l *level) setsBelow(exprs []scalar.Expr) (below []opt.SetFunc) {
	wanted := map[opt.ColumnID]bool{}
	want := func(id opt.ColumnID) { wanted[id] = true }
	for _, x := range exprs {
		scalar.Columns(x, want)
	}
	var above []opt.SetFunc
	for _, f := range slices.Backward(l.srfs) {
		if !slices.ContainsFunc(f.Cols, func(id opt.ColumnID) bool { return wanted[id] }) {
			above = append(above, f)
			continue
		}
		below = append(below, f)
		for _, a := range f.Args {
			scalar.Columns(a, want)
		}
	}
	slices.Reverse(above)
	slices.Reverse(below)
	l.srfs = above
	return below
}

// contains reports whether an expression contains aggregates or window functions of the level.
func (l *level) contains(x scalar.Expr) (aggregate, window bool) {
	scalar.Columns(x, func(id opt.ColumnID) {
		aggregate = aggregate || slices.ContainsFunc(l.aggs, func(a opt.AggItem) bool { return a.Col == id })
		window = window || slices.ContainsFunc(l.pending, func(w *pendingWindow) bool { return w.item.Col == id })
	})
	return aggregate, window
}

// rewrite replaces the expressions that run above the grouping: those of window functions and the arguments of set-returning calls.
func (l *level) rewrite(f func(scalar.Expr) scalar.Expr) {
	all := func(xs []scalar.Expr) {
		for i := range xs {
			xs[i] = f(xs[i])
		}
	}
	for _, w := range l.pending {
		all(w.item.Args)
		if g := w.item.Agg; g != nil {
			all(g.Args)
			if g.Filter != nil {
				g.Filter = f(g.Filter)
			}
		}
		all(w.partition)
		for i := range w.order {
			w.order[i].Expr = f(w.order[i].Expr)
		}
	}
	for i := range l.srfs {
		all(l.srfs[i].Args)
	}
}
