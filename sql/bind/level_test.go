package bind

import (
	"slices"
	"testing"

	"meridian/sql/opt"
	"meridian/sql/scalar"
	"meridian/sql/types"
)

func col(id opt.ColumnID) *scalar.Column { return &scalar.Column{ID: id, T: types.Int8} }

// TestLevelOuterColumns: a column is noted in every level up to its owner, once; rewind forgets the notes since the mark up to the new owner.
func TestLevelOuterColumns(t *testing.T) {
	whole := &level{}
	outer := &level{parent: whole, within: &exprContext{clause: "WHERE"}}
	inner := &level{parent: outer, within: &exprContext{clause: "HAVING"}}
	check := func(when string, inInner, inOuter []opt.ColumnID) {
		t.Helper()
		if !slices.Equal(inner.outer, inInner) || !slices.Equal(outer.outer, inOuter) || len(whole.outer) != 0 {
			t.Errorf("%s: %v, %v and %v", when, inner.outer, outer.outer, whole.outer)
		}
	}
	inner.reads(whole, 1)
	inner.reads(outer, 2)
	inner.reads(whole, 1)
	inner.reads(inner, 3)
	check("read", []opt.ColumnID{1, 2}, []opt.ColumnID{1})
	marks := inner.mark()
	inner.reads(whole, 4)
	if at := inner.rewind(marks, outer); at != inner.within {
		t.Errorf("rewind to the enclosing level: %v", at)
	}
	check("one level back", []opt.ColumnID{1, 2}, []opt.ColumnID{1, 4})
	inner.reads(whole, 5)
	if at := inner.rewind(marks, whole); at != outer.within {
		t.Errorf("rewind to the outermost level: %v", at)
	}
	check("two levels back", []opt.ColumnID{1, 2}, []opt.ColumnID{1})
}

// TestLevelComputesEqualCallsOnce: equal aggregates and equal set-returning calls have one column.
func TestLevelComputesEqualCallsOnce(t *testing.T) {
	l := &level{}
	next := opt.ColumnID(10)
	newColumn := func() opt.ColumnID { next++; return next }
	count, sum := &scalar.Aggregate{}, &scalar.Aggregate{}
	a := l.aggregate(&scalar.AggFunc{Agg: count, Args: []scalar.Expr{col(1)}, T: types.Int8}, newColumn)
	again := l.aggregate(&scalar.AggFunc{Agg: count, Args: []scalar.Expr{col(1)}, T: types.Int8}, newColumn)
	other := l.aggregate(&scalar.AggFunc{Agg: sum, Args: []scalar.Expr{col(1)}, T: types.Int8}, newColumn)
	if a != again || a == other || len(l.aggs) != 2 {
		t.Errorf("columns %d, %d and %d of %d aggregates", a, again, other, len(l.aggs))
	}
	series := &scalar.Overload{}
	set := func(arg, column opt.ColumnID) []opt.ColumnID {
		return l.set(opt.SetFunc{Func: series, Args: []scalar.Expr{col(arg)}, Cols: []opt.ColumnID{column}})
	}
	if f, again, other := set(1, 20), set(1, 21), set(2, 22); f[0] != 20 || again[0] != 20 || other[0] != 22 || len(l.srfs) != 2 {
		t.Errorf("columns %d, %d and %d of %d calls", f, again, other, len(l.srfs))
	}
}

// TestLevelSetsBelow: the calls that a group needs leave the level with those in their arguments, in order; the others stay.
func TestLevelSetsBelow(t *testing.T) {
	l := &level{}
	for _, f := range []struct{ arg, column opt.ColumnID }{{1, 20}, {20, 21}, {1, 22}, {21, 23}} {
		l.set(opt.SetFunc{Func: &scalar.Overload{}, Args: []scalar.Expr{col(f.arg)}, Cols: []opt.ColumnID{f.column}})
	}
	columns := func(fs []opt.SetFunc) (ids []opt.ColumnID) {
		for _, f := range fs {
			ids = append(ids, f.Cols...)
		}
		return ids
	}
	below := columns(l.setsBelow([]scalar.Expr{col(7), col(21)}))
	if above := columns(l.srfs); !slices.Equal(below, []opt.ColumnID{20, 21}) || !slices.Equal(above, []opt.ColumnID{22, 23}) {
		t.Errorf("below %d, above %d", below, above)
	}
}

// TestLevelContains tells aggregates, window functions and columns of FROM.
func TestLevelContains(t *testing.T) {
	l := &level{aggs: []opt.AggItem{{Col: 5}}, pending: []*pendingWindow{{item: opt.WindowItem{Col: 6}}}}
	for _, c := range []struct {
		ids               []opt.ColumnID
		aggregate, window bool
	}{{nil, false, false}, {[]opt.ColumnID{1}, false, false}, {[]opt.ColumnID{1, 5, 2}, true, false},
		{[]opt.ColumnID{6, 1}, false, true}, {[]opt.ColumnID{5, 6, 1}, true, true}} {
		x := &scalar.And{}
		for _, id := range c.ids {
			x.Args = append(x.Args, col(id))
		}
		if a, w := l.contains(x); a != c.aggregate || w != c.window {
			t.Errorf("columns %d: aggregate %t, window %t", c.ids, a, w)
		}
	}
}
