package opt

import (
	"meridian/sql/scalar"
	"meridian/sql/types"
)

// A query that is only a part of an expression (under OR, in CASE, in the select list) can't become a semi join: rows without a
// match stay. It becomes a mark: a left join with the distinct values of the columns that the query equates with the row's, the
// first of which is not NULL in rows that have a match. Scalar queries become left joins where these need not run the query for
// each row. A query that can't be decomposed in this way is run for each row.

// markContext says how an expression's value is used.
type markContext struct {
	condition bool // NULL counts as false
	guarded   bool // it may not be evaluated at all, so a rewriting must not add errors
}

// hoistMarks joins a group with the correlated queries in an expression, and puts columns in their place.
func (o *optimizer) hoistMarks(in *group, e scalar.Expr, c markContext) (*group, scalar.Expr, bool) {
	if in.volatile || !hasSubquery(e) || !o.may(Marks) {
		return in, e, false
	}
	switch x := e.(type) {
	case *scalar.And, *scalar.Or, *scalar.Case, *scalar.Coalesce:
	case *scalar.Subquery:
		return o.hoistMark(in, x, c)
	default:
		_ = x
		c.condition = false
	}
	switch e.(type) {
	case *scalar.Case, *scalar.Coalesce, *scalar.NullIf, *scalar.Quantified:
		c.condition, c.guarded = false, true
	}
	children := scalar.Children(e)
	var out []scalar.Expr
	for i, a := range children {
		if a == nil {
			continue
		}
		g, n, ok := o.hoistMarks(in, a, c)
		if !ok {
			continue
		}
		if out == nil {
			out = append([]scalar.Expr(nil), children...)
		}
		in, out[i] = g, n
	}
	if out == nil {
		return in, e, false
	}
	return in, scalar.WithChildren(e, out), true
}

// hoistMark is hoistMarks for one query.
func (o *optimizer) hoistMark(in *group, q *scalar.Subquery, c markContext) (*group, scalar.Expr, bool) {
	sub, ok := q.Plan.(*subquery)
	if !ok || sub.volatile || !sub.outer.intersects(&in.cols) || c.guarded && !o.neverFails(sub.group, 0) {
		return in, q, false
	}
	var extra []scalar.Expr
	negate := false
	g := sub.group
	switch q.Kind {
	case scalar.SubqueryScalar:
		if q.Col == 0 || !o.oneRow(sub.group) || in.cols.has(q.Col) {
			return in, q, false
		}
		join := o.newJoin(LeftJoin, in, sub.group, nil)
		if !o.ordinary(join, in) {
			return in, q, false
		}
		return join, &scalar.Column{ID: q.Col, T: q.T, Name: o.meta.Column(q.Col).Name}, true
	case scalar.SubqueryExists:
		g = o.existsInput(g)
	case scalar.SubqueryAny, scalar.SubqueryAll:
		if hasSubquery(q.Arg) || isVolatile(q.Arg) || q.Col == 0 || c.guarded && !safeExpr(q.Arg) {
			return in, q, false
		}
		cond, ok := scalar.ReplaceColumns(q.Op, func(x *scalar.Column) scalar.Expr {
			if x.ID == q.LeftID {
				return q.Arg
			}
			return nil
		}).(*scalar.Compare)
		if !ok {
			return in, q, false
		}
		// A NULL on either side makes the answer unknown, unless that is as good as no.
		known := o.neverNull(cond.Left, &both(in, g).notNull) && o.neverNull(cond.Right, &both(in, g).notNull)
		switch {
		case q.Kind == scalar.SubqueryAny && cond.Op == scalar.EQ && (known || c.condition):
		case q.Kind == scalar.SubqueryAll && cond.Op == scalar.NE && known:
			cond, negate = &scalar.Compare{Op: scalar.EQ, Left: cond.Left, Right: cond.Right}, true
		default:
			return o.hoistList(in, q, g)
		}
		extra = []scalar.Expr{cond}
	default:
		return in, q, false
	}
	flat, conds, ok := o.pullUp(g, &in.cols)
	if !ok {
		return in, q, false
	}
	conds = append(append([]scalar.Expr(nil), conds...), extra...)
	cols, ok := o.equatedColumns(conds, flat, &in.cols)
	if !ok || len(cols) == 0 {
		return in, q, false
	}
	for _, id := range cols {
		if in.cols.has(id) {
			return in, q, false // the query was joined before
		}
	}
	d := o.newDistinct(&Distinct{Input: flat, On: cols})
	join := o.newJoin(LeftJoin, in, d, conds)
	var mark scalar.Expr = &scalar.IsNull{Arg: o.columnExpr(cols[0]), Negate: !negate}
	return join, mark, true
}

// hoistList joins with the lists of values that an ANY or ALL query has for each combination of the columns that it equates
// with the row's: "x op ANY (array)" is unknown where "x op ANY (query)" is.
func (o *optimizer) hoistList(in *group, q *scalar.Subquery, g *group) (*group, scalar.Expr, bool) {
	t := o.meta.Column(q.Col).Type
	if t.Kind == types.KindArray || t.Kind == types.KindTuple || t.Kind == types.KindUnknown || o.env.Registry == nil {
		return in, q, false
	}
	flat, conds, ok := o.pullUp(g, &in.cols)
	if !ok || !flat.cols.has(q.Col) {
		return in, q, false
	}
	cols, ok := o.equatedColumns(conds, flat, &in.cols)
	if !ok || len(cols) == 0 {
		return in, q, false
	}
	for _, id := range cols {
		if in.cols.has(id) {
			return in, q, false
		}
	}
	res, err := o.env.Registry.ResolveAggregate("array_agg", []*types.T{t})
	if err != nil || res.Return.Kind != types.KindArray || !res.Return.Elem.Same(t) {
		return in, q, false
	}
	list := o.meta.Add(ColumnMeta{Name: "list", Type: res.Return})
	agg := &scalar.AggFunc{Agg: res.Agg, Args: []scalar.Expr{o.columnExpr(q.Col)}, T: res.Return}
	lists := o.newGroupBy(&GroupBy{Input: flat, Group: cols, Aggs: []AggItem{{Col: list, Agg: agg}}})
	elem := o.meta.Add(ColumnMeta{Name: "elem", Type: t})
	op := scalar.ReplaceColumns(q.Op, func(c *scalar.Column) scalar.Expr {
		if c.ID == q.Col {
			return &scalar.Column{ID: elem, T: c.T, Name: "elem"}
		}
		return nil
	})
	all := q.Kind == scalar.SubqueryAll
	test := &scalar.Quantified{Arg: q.Arg, Array: o.columnExpr(list), All: all, Op: op, LeftID: q.LeftID, ElemID: elem}
	empty := falseExpr()
	if all {
		empty = trueExpr()
	}
	e := &scalar.Case{Whens: []scalar.When{{Cond: &scalar.IsNull{Arg: o.columnExpr(cols[0])}, Result: empty}}, Else: test, T: types.Bool}
	return o.newJoin(LeftJoin, in, lists, conds), e, true
}

// ordinary reports whether a join of a group with a query avoids running the query for each row.
func (o *optimizer) ordinary(join, in *group) bool {
	for depth := 0; depth < 4; depth++ {
		switch r := join.expr().(type) {
		case *Project:
			join = child(r.Input)
		case *Join:
			return !child(r.Right).outer.intersects(&in.cols)
		default:
			return false
		}
	}
	return false
}

// neverFails reports whether a query computes nothing that could raise an error for rows that the statement does not
// need.
func (o *optimizer) neverFails(g *group, depth int) bool {
	if depth > 16 {
		return false
	}
	var in []Rel
	var exprs []scalar.Expr
	switch r := g.expr().(type) {
	case *Scan:
		return r.Locking.Strength == 0
	case *Values:
		for _, row := range r.Rows {
			exprs = append(exprs, row...)
		}
	case *Select:
		in, exprs = []Rel{r.Input}, r.Filter
	case *Project:
		in = []Rel{r.Input}
		for i := range r.Items {
			exprs = append(exprs, r.Items[i].Expr)
		}
	case *Join:
		in, exprs = []Rel{r.Left, r.Right}, r.On
	case *Distinct:
		in = []Rel{r.Input}
	case *orderedGroup:
		in = []Rel{r.Input}
		for _, a := range r.Aggs {
			switch a.Agg.Agg.Name {
			case "count", "min", "max", "bool_and", "bool_or":
			default:
				return false
			}
			exprs = append(exprs, a.Agg.Args...)
			if a.Agg.Filter != nil {
				exprs = append(exprs, a.Agg.Filter)
			}
		}
	default:
		return false
	}
	for _, e := range exprs {
		if !safeExpr(e) {
			return false
		}
	}
	for _, r := range in {
		if !o.neverFails(child(r), depth+1) {
			return false
		}
	}
	return true
}

// safeExpr reports whether no part of an expression can fail.
func safeExpr(e scalar.Expr) bool {
	safe := true
	scalar.Walk(e, func(e scalar.Expr) bool {
		switch e.(type) {
		case *scalar.Column, *scalar.Const, *scalar.Placeholder, *scalar.Compare, *scalar.And, *scalar.Or, *scalar.Not, *scalar.IsNull,
			*scalar.IsBool, *scalar.In, *scalar.Case, *scalar.Coalesce, *scalar.NullIf:
		default:
			safe = false
		}
		return safe
	})
	return safe
}
