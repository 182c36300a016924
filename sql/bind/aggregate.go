package bind

import (
	"github.com/cockroachdb/cockroachdb-parser/pkg/sql/sem/tree"

	"meridian/sql/opt"
	"meridian/sql/scalar"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// inFilter is the clause of an aggregate's condition.
const inFilter = "FILTER"

// aggregate binds an aggregate call, and returns its output column, which replaces the call above the grouping.
func (b *builder) aggregate(c *exprContext, n *tree.FuncExpr, name string) scalar.Expr {
	if c.inAgg && c.clause == inFilter {
		b.fail(sqlstate.GroupingError, n, "aggregate functions are not allowed in %s", c.clause)
	}
	if c.inAgg {
		b.misplaced(c, n)
		b.fail(sqlstate.GroupingError, n, "aggregate function calls cannot be nested")
	}
	lv := c.scope.level
	marks := lv.mark()
	f := b.aggFunc(c, n, name)
	if owner := aggOwner(c.scope, f); owner != lv {
		c = lv.rewind(marks, owner)
	}
	switch {
	case c == nil:
		b.fail(sqlstate.GroupingError, n, "aggregate functions are not allowed in FROM clause of their own query level")
	case c.inAgg:
		b.fail(sqlstate.GroupingError, n, "aggregate function calls cannot be nested")
	case !c.aggs:
		b.fail(sqlstate.GroupingError, n, "aggregate functions are not allowed in %s", c.clause)
	}
	owner := c.scope.level
	if owner.recursive {
		b.fail(sqlstate.InvalidRecursion, n, "aggregate functions are not allowed in a recursive query's recursive term")
	}
	id := owner.aggregate(f, func() opt.ColumnID { return b.meta.Add(opt.ColumnMeta{Name: name, Type: f.T}) })
	lv.reads(owner, id)
	return &scalar.Column{ID: id, T: f.T, Name: name}
}

// misplaced binds the arguments of a call that stands where it may not: an error within them has precedence.
func (b *builder) misplaced(c *exprContext, n *tree.FuncExpr) {
	if len(n.Exprs) == 1 {
		if _, star := n.Exprs[0].(tree.UnqualifiedStar); star {
			return
		}
	}
	b.callArgs(c, n.Exprs)
}

func (b *builder) aggFunc(c *exprContext, n *tree.FuncExpr, name string) *scalar.AggFunc {
	// With DISTINCT, package parse wrote ORDER BY in this form for the grammar's sake.
	if n.AggType == tree.OrderedSetAgg && n.Type != tree.DistinctFuncType {
		b.fail(sqlstate.FeatureNotSupported, n, "ordered-set aggregates are not supported")
	}
	inner := &exprContext{scope: c.scope, clause: "aggregate arguments", inAgg: true}
	f := &scalar.AggFunc{Distinct: n.Type == tree.DistinctFuncType}
	if len(n.Exprs) == 1 {
		if _, star := n.Exprs[0].(tree.UnqualifiedStar); star {
			if name != "count" {
				b.fail(sqlstate.UndefinedFunction, n, "function %s() does not exist", name)
			}
		} else {
			f.Args = b.callArgs(inner, n.Exprs)
		}
	} else {
		if len(n.Exprs) == 0 && name == "count" {
			b.fail(sqlstate.WrongObjectType, n, "count(*) must be used to call a parameterless aggregate function")
		}
		f.Args = b.callArgs(inner, n.Exprs)
	}
	res, err := b.Registry.ResolveAggregate(name, typesOf(f.Args))
	if err != nil {
		raise(b.locate(err, n))
	}
	f.Agg, f.T = res.Agg, res.Return
	if f.Distinct { // values are compared, as those of ORDER BY are
		for i := range f.Args {
			if i < len(res.Args) && res.Args[i].Kind == types.KindAny {
				f.Args[i] = b.known(f.Args[i], n)
			}
		}
	}
	f.Args = b.coerceArgs(f.Args, res.Args, n)
	if f.Distinct {
		for i, a := range f.Args {
			b.comparable(a.Type(), false, n.Exprs[min(i, len(n.Exprs)-1)])
		}
	}
	if n.Filter != nil {
		fc := *inner
		fc.clause = inFilter
		f.Filter = b.boolean(&fc, n.Filter)
	}
	for _, o := range n.OrderBy {
		b.byColumn(o)
		x := b.known(b.expr(inner, o.Expr), o.Expr)
		b.comparable(x.Type(), true, o.Expr)
		ord := scalar.AggOrder{Expr: x, Desc: o.Direction == tree.Descending}
		ord.NullsFirst = nullsFirst(o)
		if f.Distinct {
			found := false
			for _, a := range f.Args {
				if found = found || scalar.Equal(a, x); found {
					break
				}
				// The argument may be the expression, cast to the parameter's type: a varchar that is aggregated as a text.
				if k, ok := a.(*scalar.Cast); ok && !k.Explicit && scalar.Equal(k.Arg, x) {
					ord.Expr, found = a, true
				}
			}
			if !found {
				b.fail(sqlstate.InvalidColumnReference, o.Expr, "in an aggregate with DISTINCT, ORDER BY expressions must appear in argument list")
			}
		}
		f.OrderBy = append(f.OrderBy, ord)
	}
	return f
}

// nullsFirst reports whether NULLs sort first: by default they are last in ascending order, and first in descending order.
func nullsFirst(o *tree.Order) bool {
	switch o.NullsOrder {
	case tree.NullsFirst:
		return true
	case tree.NullsLast:
		return false
	}
	return o.Direction == tree.Descending
}

// aggOwner is the level to which an aggregate belongs: the innermost one whose columns it reads, or its own if it reads
// none.
func aggOwner(s *scope, f *scalar.AggFunc) *level {
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
