package opt

import (
	"slices"

	"meridian/sql/scalar"
	"meridian/sql/types"
)

// Queries inside conditions become joins (unnesting): EXISTS and IN semi joins, their negations anti joins, scalar subqueries
// left joins. A right side that reads columns of the left is an apply: run again for each row. The conditions that read left
// columns are pulled up from it into the join's condition (pullUp), as far as the operators in between allow, which makes it
// an ordinary join. A query that can't be pulled up stays an apply, or a query in a scalar; all three give the same rows.

// subqueryConditions turns conditions with queries over a group into joins with it, and filters by the others.
func (o *optimizer) subqueryConditions(in *group, filter []scalar.Expr) *group {
	var rest []scalar.Expr
	for _, e := range filter {
		if !hasSubquery(e) || isVolatile(e) {
			rest = append(rest, e)
			continue
		}
		if o.may(SubqueriesToJoins) {
			if g, ok := o.existential(in, e); ok {
				in = g
				continue
			}
		}
		if g, n, ok := o.hoistScalars(in, e); ok {
			in = g
			rest = append(rest, n)
			continue
		}
		if g, n, ok := o.hoistMarks(in, e, markContext{condition: true}); ok {
			in = g
			rest = append(rest, n)
			continue
		}
		rest = append(rest, e)
	}
	if len(rest) == 0 {
		return in
	}
	if len(rest) < len(filter) || len(rest) > 0 && !sameExprs(rest, filter) {
		return o.newSelect(in, rest)
	}
	return o.newGroup(&Select{Input: in, Filter: rest})
}

func sameExprs(a, b []scalar.Expr) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// existential makes a semi or anti join of a condition that is EXISTS or IN, or the negation of one.
func (o *optimizer) existential(in *group, e scalar.Expr) (*group, bool) {
	kind := SemiJoin
	if n, ok := e.(*scalar.Not); ok {
		kind, e = AntiJoin, n.Arg
	}
	q, ok := e.(*scalar.Subquery)
	if !ok {
		return nil, false
	}
	sub, ok := q.Plan.(*subquery)
	if !ok || sub.volatile {
		return nil, false
	}
	switch q.Kind {
	case scalar.SubqueryExists:
		if !sub.outer.intersects(&in.cols) {
			return nil, false // it is computed once
		}
		right := o.existsInput(sub.group)
		return o.newJoin(kind, in, right, nil), true
	case scalar.SubqueryAny, scalar.SubqueryAll:
		if hasSubquery(q.Arg) || isVolatile(q.Arg) {
			return nil, false
		}
		cond := scalar.ReplaceColumns(q.Op, func(c *scalar.Column) scalar.Expr {
			if c.ID == q.LeftID {
				return q.Arg
			}
			return nil
		})
		if on, right, ok := fieldwise(cond, sub.group, q.Kind); ok {
			if q.Kind == scalar.SubqueryAll { // <> ALL is NOT IN
				kind = map[JoinKind]JoinKind{SemiJoin: AntiJoin, AntiJoin: SemiJoin}[kind]
			}
			for _, e := range on {
				c := e.(*scalar.Compare)
				if kind == AntiJoin && (!o.neverNull(c.Left, &both(in, right).notNull) || !o.neverNull(c.Right, &both(in, right).notNull)) {
					return nil, false
				}
			}
			return o.newJoin(kind, in, right, on), true
		}
		if q.Kind == scalar.SubqueryAny && kind == SemiJoin {
			return o.newJoin(SemiJoin, in, sub.group, []scalar.Expr{cond}), true
		}
		// The negated forms: a NULL on either side must not be taken for "no".
		c, ok := cond.(*scalar.Compare)
		if !ok || !o.neverNull(c.Left, &both(in, sub.group).notNull) || !o.neverNull(c.Right, &both(in, sub.group).notNull) {
			return nil, false
		}
		switch {
		case q.Kind == scalar.SubqueryAny: // NOT (x op ANY ...): no row with x op y
			return o.newJoin(AntiJoin, in, sub.group, []scalar.Expr{cond}), true
		case kind == SemiJoin && c.Op < scalar.IsDistinct: // x op ALL (...): no row without
			not := &scalar.Compare{Op: c.Op.Negate(), Left: c.Left, Right: c.Right}
			return o.newJoin(AntiJoin, in, sub.group, []scalar.Expr{not}), true
		}
	}
	return nil, false
}

// fieldwise makes comparisons of columns of the equality of a row with one that a group's projection makes, so that indexes and hash tables can be
// used: the rows of (a, b) = ANY (SELECT x, y ...), which is IN, and of <> ALL, which is NOT IN. It returns the group below the projection.
func fieldwise(cond scalar.Expr, g *group, kind scalar.SubqueryKind) (on []scalar.Expr, below *group, ok bool) {
	c, ok := cond.(*scalar.Compare)
	if !ok || !(kind == scalar.SubqueryAny && c.Op == scalar.EQ || kind == scalar.SubqueryAll && c.Op == scalar.NE) {
		return nil, nil, false
	}
	left, ok := c.Left.(*scalar.RowCtor)
	col, is := c.Right.(*scalar.Column)
	p, projected := g.expr().(*Project)
	if !ok || !is || !projected || len(p.Items) != 1 || p.Items[0].Col != col.ID {
		return nil, nil, false
	}
	right, ok := p.Items[0].Expr.(*scalar.RowCtor)
	if !ok || len(right.Elems) != len(left.Elems) || hasSubquery(right) || scalar.ComparesRecords(c) {
		return nil, nil, false
	}
	for i := range left.Elems {
		on = append(on, &scalar.Compare{Op: scalar.EQ, Left: left.Elems[i], Right: right.Elems[i]})
	}
	return on, child(p.Input), true
}

// both has the columns of two groups that are not NULL.
func both(a, b *group) *group { return &group{notNull: a.notNull.union(b.notNull)} }

// existsInput simplifies a group of which only the existence of rows matters.
func (o *optimizer) existsInput(g *group) *group {
	for {
		switch r := g.expr().(type) {
		case *Project:
			g = child(r.Input)
		case *Distinct:
			g = child(r.Input)
		case *orderedGroup:
			if r.Scalar {
				return g
			}
			g = child(r.Input)
		case *orderedWindow:
			g = child(r.Input)
		case *orderedLimit:
			if n, ok := constInt(r.Count); r.Offset != nil || r.Count != nil && (!ok || n < 1) {
				return g
			}
			g = child(r.Input)
		default:
			return g
		}
	}
}

// hoistScalars joins the correlated scalar subqueries of an expression to a group and puts their columns in their
// place. Only those that are evaluated in any case are hoisted, and only if they have one row at most.
func (o *optimizer) hoistScalars(in *group, e scalar.Expr) (*group, scalar.Expr, bool) {
	if !o.may(HoistScalars) {
		return in, e, false
	}
	hoisted := false
	out := scalar.RewriteTop(e, func(x scalar.Expr) scalar.Expr {
		switch q := x.(type) {
		case *scalar.Case, *scalar.Coalesce, *scalar.And, *scalar.Or, *scalar.Quantified:
			return stop(x)
		case *scalar.Subquery:
			sub, ok := q.Plan.(*subquery)
			if !ok || q.Kind != scalar.SubqueryScalar || q.Col == 0 || sub.volatile || in.volatile ||
				!sub.outer.intersects(&in.cols) || !o.oneRow(sub.group) || in.cols.has(q.Col) {
				return stop(x)
			}
			hoisted = true
			if right, value := o.computedAbove(sub.group, q); right != nil && !in.cols.intersects(&right.cols) {
				in = o.newJoin(LeftJoin, in, right, nil)
				return stop(value)
			}
			in = o.newJoin(LeftJoin, in, sub.group, nil)
			return &scalar.Column{ID: q.Col, T: q.T, Name: o.meta.Column(q.Col).Name}
		}
		return x
	})
	if !hoisted {
		return in, e, false
	}
	return in, unstop(out), true
}

// computedAbove divides a scalar subquery whose value is computed from a table's row into the row, and the value over it: a join with rows of a table, and not
// with what is computed from them, may be a lookup. The value is NULL without a row.
func (o *optimizer) computedAbove(g *group, q *scalar.Subquery) (*group, scalar.Expr) {
	p, ok := g.expr().(*Project)
	if !ok {
		return nil, nil
	}
	at := slices.IndexFunc(p.Items, func(it ProjectItem) bool { return it.Col == q.Col })
	right := child(p.Input)
	if at < 0 || hasSubquery(p.Items[at].Expr) || !o.oneRow(right) {
		return nil, nil
	}
	base := right
	if sel, ok := base.expr().(*Select); ok {
		base = child(sel.Input)
	}
	scan, ok := base.expr().(*Scan)
	if !ok {
		return nil, nil
	}
	for _, id := range scan.Cols {
		if id == 0 || !right.notNull.has(id) || !right.cols.has(id) {
			continue
		}
		there := &scalar.IsNull{Arg: o.columnExpr(id), Negate: true}
		return right, &scalar.Case{Whens: []scalar.When{{Cond: there, Result: p.Items[at].Expr}}, T: q.T}
	}
	return nil, nil
}

// stopped wraps an expression that a rewriting must not enter.
type stopped struct{ scalar.Expr }

func stop(e scalar.Expr) scalar.Expr { return &stopped{e} }

func unstop(e scalar.Expr) scalar.Expr {
	return scalar.RewriteTop(e, func(x scalar.Expr) scalar.Expr {
		if s, ok := x.(*stopped); ok {
			return s.Expr
		}
		return x
	})
}

// hoistItems is hoistScalars and hoistMarks for a projection.
func (o *optimizer) hoistItems(in *group, items []ProjectItem) (*group, []ProjectItem) {
	out := items
	for i := range items {
		if !hasSubquery(items[i].Expr) || isVolatile(items[i].Expr) {
			continue
		}
		g, e, ok := o.hoistScalars(in, items[i].Expr)
		if m, x, more := o.hoistMarks(g, e, markContext{}); more {
			g, e, ok = m, x, true
		}
		if !ok {
			continue
		}
		if &out[0] == &items[0] {
			out = append([]ProjectItem(nil), items...)
		}
		in, out[i].Expr = g, e
	}
	return in, out
}

// unnest joins a left side with a right side that reads its columns, without reading them row by row. It returns nil
// where it can't.
func (o *optimizer) unnest(kind JoinKind, l, r *group, on []scalar.Expr) *group {
	if r.volatile || l.volatile {
		return nil
	}
	if (kind == LeftJoin || kind == InnerJoin) && o.may(UnnestAggregates) {
		if g := o.unnestAggregate(l, r, on); g != nil {
			return g
		}
	}
	if kind == SemiJoin || kind == AntiJoin {
		if p, ok := r.expr().(*Project); ok {
			// Only the condition reads columns of the right side.
			moved := make([]scalar.Expr, 0, len(on))
			for _, e := range on {
				n, ok := o.throughProject(e, p, &child(p.Input).cols)
				if !ok {
					moved = nil
					break
				}
				moved = append(moved, n)
			}
			if moved != nil {
				if g := o.unnest(kind, l, child(p.Input), moved); g != nil {
					return g
				}
				return nil
			}
		}
	}
	flat, conds, ok := o.pullUp(r, &l.cols)
	if !ok || len(conds) == 0 {
		return nil
	}
	all := append(append([]scalar.Expr(nil), on...), conds...)
	return o.newJoin(kind, l, flat, all)
}

// pullUp takes the conditions that read left columns out of a group. The rest of the group does not read them, and
// keeps the group's columns.
func (o *optimizer) pullUp(g *group, left *colSet) (*group, []scalar.Expr, bool) {
	if !g.outer.intersects(left) {
		return g, nil, true
	}
	switch r := g.expr().(type) {
	case *Select:
		in, conds, ok := o.pullUp(child(r.Input), left)
		if !ok {
			return nil, nil, false
		}
		keep, up := o.splitCorrelated(r.Filter, left)
		if anyVolatile(up) || anySubquery(up) {
			return nil, nil, false
		}
		return o.newSelect(in, keep), append(conds, up...), true
	case *Project:
		for i := range r.Items {
			if x := exprCols(r.Items[i].Expr); x.intersects(left) {
				return nil, nil, false
			}
		}
		below := child(r.Input)
		in, conds, ok := o.pullUp(below, left)
		if !ok {
			return nil, nil, false
		}
		pass := r.Pass
		for _, c := range o.columnsOf(conds, in) {
			if !containsID(pass, c) {
				pass = append(pass[:len(pass):len(pass)], c)
			}
		}
		return o.newProject(in, r.Items, pass), conds, true
	case *Join:
		if r.Kind == FullJoin || r.Kind == RightJoin {
			return nil, nil, false
		}
		lg, conds, ok := o.pullUp(child(r.Left), left)
		if !ok {
			return nil, nil, false
		}
		rg, on := child(r.Right), r.On
		if r.Kind == InnerJoin {
			var more []scalar.Expr
			if rg, more, ok = o.pullUp(rg, left); !ok {
				return nil, nil, false
			}
			keep, up := o.splitCorrelated(on, left)
			if anyVolatile(up) || anySubquery(up) {
				return nil, nil, false
			}
			conds = append(append(conds, more...), up...)
			on = keep
		} else if x := exprsCols(on); x.intersects(left) || rg.outer.intersects(left) {
			return nil, nil, false
		}
		return o.newJoin(r.Kind, lg, rg, on), conds, true
	case *Distinct:
		if len(r.OrderBy) > 0 {
			return nil, nil, false
		}
		in, conds, ok := o.pullUp(child(r.Input), left)
		if !ok {
			return nil, nil, false
		}
		cols, ok := o.equatedColumns(conds, in, left)
		if !ok {
			return nil, nil, false
		}
		on := r.On
		for _, c := range cols {
			if !containsID(on, c) {
				on = append(on[:len(on):len(on)], c)
			}
		}
		return o.newDistinct(&Distinct{Input: in, On: on}), conds, true
	case *orderedGroup:
		if r.Scalar || len(r.order) > 0 {
			return nil, nil, false
		}
		return o.pullUpGroup(r, left)
	}
	return nil, nil, false
}

// pullUpGroup pulls equalities with left columns through a grouping: the inner columns become part of the group.
func (o *optimizer) pullUpGroup(r *orderedGroup, left *colSet) (*group, []scalar.Expr, bool) {
	for _, a := range r.Aggs {
		if x := exprCols(a.Agg); x.intersects(left) {
			return nil, nil, false
		}
	}
	in, conds, ok := o.pullUp(child(r.Input), left)
	if !ok {
		return nil, nil, false
	}
	cols, ok := o.equatedColumns(conds, in, left)
	if !ok {
		return nil, nil, false
	}
	n := &orderedGroup{GroupBy: GroupBy{Input: in, Group: r.Group, Aggs: r.Aggs}, order: r.order}
	for _, c := range cols {
		if !containsID(n.Group, c) {
			n.Group = append(n.Group[:len(n.Group):len(n.Group)], c)
		}
	}
	return o.newGroup(n), conds, true
}

// equatedColumns are the inner columns of conditions, if each condition is "inner column = something of outside":
// then all rows that meet them for one row of the left have the same values in those columns.
func (o *optimizer) equatedColumns(conds []scalar.Expr, in *group, left *colSet) ([]ColumnID, bool) {
	var out []ColumnID
	for _, e := range conds {
		c, ok := e.(*scalar.Compare)
		if !ok || c.Op != scalar.EQ {
			return nil, false
		}
		col := func(a, b scalar.Expr) bool {
			x, ok := a.(*scalar.Column)
			if !ok || !in.cols.has(x.ID) || !keySafe(x.T) {
				return false
			}
			if y := exprCols(b); y.intersects(&in.cols) {
				return false
			}
			if !containsID(out, x.ID) {
				out = append(out, x.ID)
			}
			return true
		}
		if !col(c.Left, c.Right) && !col(c.Right, c.Left) {
			return nil, false
		}
	}
	return out, true
}

// keySafe says that equal values of a type can't be told apart, so that grouping by them is grouping by their equality
// with another value.
func keySafe(t *types.T) bool {
	switch t.Kind {
	case types.KindArray, types.KindTuple, types.KindJSON, types.KindJSONB:
		return false
	}
	return true
}

// unnestAggregate joins with an aggregation without GROUP BY: it becomes one with GROUP BY the columns that its
// conditions equate with the left side's, and left rows without a group get the aggregates' values for no rows: NULL,
// or zero for counts.
func (o *optimizer) unnestAggregate(l, r *group, on []scalar.Expr) *group {
	var items []ProjectItem
	var pass []ColumnID
	g := r
	if p, ok := g.expr().(*Project); ok {
		items, pass, g = p.Items, p.Pass, child(p.Input)
		for i := range items {
			if hasSubquery(items[i].Expr) {
				return nil
			}
		}
	}
	agg, ok := g.expr().(*orderedGroup)
	if !ok || !agg.Scalar || len(on) > 0 {
		return nil
	}
	counts := false
	for _, a := range agg.Aggs {
		if x := exprCols(a.Agg); x.intersects(&l.cols) {
			return nil
		}
		switch a.Agg.Agg.Name {
		case "count":
			counts = true
		case "sum", "avg", "min", "max", "bool_and", "bool_or", "every", "string_agg", "array_agg", "json_agg", "jsonb_agg",
			"stddev", "stddev_samp", "stddev_pop", "variance", "var_samp", "var_pop":
		default:
			return nil
		}
	}
	in, conds, ok := o.pullUp(child(agg.Input), &l.cols)
	if !ok || len(conds) == 0 {
		return nil
	}
	cols, ok := o.equatedColumns(conds, in, &l.cols)
	if !ok {
		return nil
	}
	n := &orderedGroup{GroupBy: GroupBy{Input: in, Group: cols, Aggs: agg.Aggs}, order: agg.order}
	replaced := map[ColumnID]scalar.Expr{}
	if counts {
		n.Aggs = append([]AggItem(nil), agg.Aggs...)
		for i, a := range n.Aggs {
			if a.Agg.Agg.Name != "count" {
				continue
			}
			m := *o.meta.Column(a.Col)
			id := o.meta.Add(m)
			n.Aggs[i].Col = id
			replaced[a.Col] = &scalar.Coalesce{Args: []scalar.Expr{&scalar.Column{ID: id, T: a.Agg.T, Name: m.Name}, intConst(0)}, T: a.Agg.T}
		}
	}
	join := o.newJoin(LeftJoin, l, o.newGroup(n), conds)
	// These are the columns that were computed over the aggregation.
	var out []ProjectItem
	through := l.cols.list()
	byReplaced := func(c *scalar.Column) scalar.Expr { return replaced[c.ID] }
	for _, it := range items {
		e := it.Expr
		if counts {
			e = scalar.ReplaceColumns(e, byReplaced)
		}
		out = append(out, ProjectItem{it.Col, e})
	}
	for _, a := range agg.Aggs {
		if items != nil && !containsID(pass, a.Col) {
			continue
		}
		if e := replaced[a.Col]; e != nil {
			out = append(out, ProjectItem{a.Col, e})
		} else {
			through = append(through, a.Col)
		}
	}
	return o.newProject(join, out, through)
}

func (o *optimizer) splitCorrelated(es []scalar.Expr, left *colSet) (keep, up []scalar.Expr) {
	for _, e := range es {
		if x := exprCols(e); x.intersects(left) {
			up = append(up, e)
		} else {
			keep = append(keep, e)
		}
	}
	return keep, up
}

// columnsOf are the columns of a group that expressions read.
func (o *optimizer) columnsOf(es []scalar.Expr, g *group) []ColumnID {
	x := exprsCols(es)
	x = x.intersect(g.cols)
	return x.list()
}

func exprsCols(es []scalar.Expr) colSet {
	var s colSet
	s.addExprs(es)
	return s
}

func anySubquery(es []scalar.Expr) bool {
	for _, e := range es {
		if hasSubquery(e) {
			return true
		}
	}
	return false
}

func containsID(list []ColumnID, c ColumnID) bool {
	for _, x := range list {
		if x == c {
			return true
		}
	}
	return false
}
