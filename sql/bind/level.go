package bind

import (
	"slices"

	"github.com/cockroachdb/cockroachdb-parser/pkg/sql/sem/tree"

	"meridian/sql/opt"
	"meridian/sql/scalar"
	"meridian/sql/sqlstate"
)

// level is one SELECT: what its expressions collect while they are bound. Levels nest as queries do.
type level struct {
	parent *level
	// within is the expression of the parent level in which a subquery stands; nil in FROM.
	within *exprContext
	// outer are the columns of enclosing levels that this one reads.
	outer   []opt.ColumnID
	aggs    []opt.AggItem
	pending []*pendingWindow
	srfs    []opt.SetFunc
	// defs are the WINDOW clause's definitions.
	defs map[string]*tree.WindowDef
}

// cross notes that levels from inner up to, but without, owner read the column.
func cross(inner, owner *level, id opt.ColumnID) {
	for l := inner; l != nil && l != owner; l = l.parent {
		known := false
		for _, o := range l.outer {
			if o == id {
				known = true
				break
			}
		}
		if !known {
			l.outer = append(l.outer, id)
		}
	}
}

func (b *builder) crossColumn(inner, owner *level, c *column) {
	if c.id != 0 {
		cross(inner, owner, c.id)
		return
	}
	scalar.Columns(c.ref(), func(id opt.ColumnID) { cross(inner, owner, id) })
}

// noAggregates refuses GROUP BY of an output column that contains an aggregate or a window function.
func (b *builder) noAggregates(lv *level, x scalar.Expr, at any) {
	scalar.Columns(x, func(id opt.ColumnID) {
		for i := range lv.aggs {
			if lv.aggs[i].Col == id {
				b.fail(sqlstate.GroupingError, at, "aggregate functions are not allowed in GROUP BY")
			}
		}
		for _, w := range lv.pending {
			if w.item.Col == id {
				b.fail(sqlstate.WindowingError, at, "window functions are not allowed in GROUP BY")
			}
		}
	})
}

// pendingWindow is a window call whose partition and order expressions have not become columns yet.
type pendingWindow struct {
	item      opt.WindowItem
	partition []scalar.Expr
	order     []scalar.AggOrder
}

func (b *builder) pending(lv *level, w *pendingWindow) { lv.pending = append(lv.pending, w) }

// setsOfGroups runs the set-returning functions by whose rows is grouped, with those in their arguments, before the groups are made. They are left
// out of what runs over the groups.
func setsOfGroups(rel opt.Rel, lv *level, groups []groupExpr, items []item) opt.Rel {
	wanted := map[scalar.ColumnID]bool{}
	want := func(id scalar.ColumnID) { wanted[id] = true }
	for i := range groups {
		scalar.Columns(groups[i].expr, want)
	}
	var before, after []opt.SetFunc
	for i := len(lv.srfs) - 1; i >= 0; i-- { // a function comes after those in its arguments
		f := lv.srfs[i]
		if !slices.ContainsFunc(f.Cols, func(id opt.ColumnID) bool { return wanted[id] }) {
			after = append(after, f)
			continue
		}
		before = append(before, f)
		for _, a := range f.Args {
			scalar.Columns(a, want)
		}
	}
	if len(before) == 0 {
		return rel
	}
	for i := range groups {
		x := groups[i].expr
		if _, ok := x.(*scalar.Column); ok || slices.ContainsFunc(items, func(it item) bool { return it.expr == x }) {
			continue
		}
		scalar.Columns(x, func(id scalar.ColumnID) {
			if slices.ContainsFunc(before, func(f opt.SetFunc) bool { return slices.Contains(f.Cols, id) }) {
				raise(sqlstate.New(sqlstate.FeatureNotSupported, "GROUP BY of an expression over a set-returning function is not supported").
					WithHint("Name it by its place in the select list, or move the function into a LATERAL FROM item."))
			}
		})
	}
	slices.Reverse(before)
	slices.Reverse(after)
	lv.srfs = after
	return projectSets(rel, before)
}

// aggOwner is the level that an aggregate belongs to: the innermost one whose columns it reads, or its own if it reads
// none.
func (b *builder) aggOwner(s *scope, f *scalar.AggFunc) *level {
	own := s.level
	var best *scope
	found := false
	scalar.Columns(f, func(id opt.ColumnID) {
		found = true
		for sc := s; sc != nil && sc != best; sc = sc.parent {
			for i := range sc.cols {
				c := &sc.cols[i]
				here := c.id == id
				if c.id == 0 {
					scalar.Columns(c.ref(), func(x opt.ColumnID) { here = here || x == id })
				}
				if here {
					best = sc
					return
				}
			}
		}
	})
	if !found || best == nil {
		return own
	}
	return best.level
}
