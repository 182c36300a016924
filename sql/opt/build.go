package opt

import (
	"fmt"
	"slices"

	"meridian/sql/scalar"
	"meridian/sql/sqlstate"
)

// build copies a bound tree into the memo through the constructors, which apply the rules that look at one operator and
// its inputs. It returns the order in which the tree's Sorts left the rows: SQL promises this order to the outermost
// query and to LIMIT only, but DISTINCT ON, ordered aggregates and INSERT ... SELECT of serial numbers depend on it, so
// it is kept where that costs nothing.
func (o *optimizer) build(r Rel) (*group, []OrderColumn) {
	switch r := r.(type) {
	case *group:
		return r, nil
	case *Scan, *VirtualScan:
		return o.newGroup(r), nil
	case *Values:
		return o.newGroup(&Values{Cols: r.Cols, Rows: o.scalarRows(r.Rows)}), nil
	case *Select:
		in, ord := o.build(r.Input)
		return o.newSelect(in, o.conditions(r.Filter)), ord
	case *Project:
		in, ord := o.build(r.Input)
		g := o.newProject(in, o.items(r.Items), r.Pass)
		return g, o.visibleOrder(g, ord)
	case *ProjectSet:
		in, ord := o.build(r.Input)
		return o.buildSets(r, in), ord
	case *Join:
		left, ord := o.build(r.Left)
		right, _ := o.build(r.Right)
		return o.buildJoin(r, left, right, ord)
	case *GroupBy:
		in, ord := o.build(r.Input)
		g := &GroupBy{Input: in, Group: r.Group, Scalar: r.Scalar, Aggs: make([]AggItem, len(r.Aggs))}
		ordered := false
		for i, a := range r.Aggs {
			if f, ok := o.scalar(a.Agg).(*scalar.AggFunc); ok {
				a.Agg = f
			}
			g.Aggs[i] = a
			ordered = ordered || len(a.Agg.OrderBy) == 0 && orderMatters(a.Agg.Agg)
		}
		g.Input = o.aggregateQueries(in, g.Aggs)
		if ordered && len(ord) > 0 {
			return o.newGroup(&orderedGroup{GroupBy: *g, order: ord}), nil
		}
		return o.newGroupBy(g), nil
	case *Window:
		in, ord := o.build(r.Input)
		w := &Window{Input: in, Items: make([]WindowItem, len(r.Items))}
		for i, it := range r.Items {
			it.Args = o.scalars(it.Args)
			if it.Agg != nil {
				if f, ok := o.scalar(it.Agg).(*scalar.AggFunc); ok {
					it.Agg = f
				}
			}
			w.Items[i] = it
		}
		return o.newGroup(&orderedWindow{Window: *w, order: ord}), nil
	case *Distinct:
		in, ord := o.build(r.Input)
		d := &Distinct{Input: in, On: r.On, OrderBy: r.OrderBy}
		if on := setOf(r.On); len(d.OrderBy) == 0 && !on.equal(&in.cols) {
			d.OrderBy = ord
		}
		g := o.newDistinct(d)
		return g, o.visibleOrder(g, d.OrderBy)
	case *SetOp:
		left, _ := o.build(r.Left)
		right, _ := o.build(r.Right)
		n := *r
		n.Left, n.Right = left, right
		return o.newSetOp(&n), nil
	case *Sort:
		in, _ := o.build(r.Input)
		return in, r.By
	case *Limit:
		in, ord := o.build(r.Input)
		g := o.newLimit(&orderedLimit{Limit: Limit{Input: in, Count: o.scalarOrNil(r.Count), Offset: o.scalarOrNil(r.Offset)}, order: ord})
		return g, ord
	case *Lock:
		return o.buildLock(r)
	case *With:
		return o.buildWithMain(r, o.build)
	case *WithScan:
		o.reads = append(o.reads, r.ID)
		return o.newGroup(r), nil
	case *Insert, *Update, *Delete:
		return o.buildMutation(r), nil
	}
	panic(sqlstate.New(sqlstate.InternalError, "opt: unknown operator %T", r))
}

// aggregateQueries computes the queries in arguments and filters of aggregates below the aggregation, where they can become
// joins.
func (o *optimizer) aggregateQueries(in *group, aggs []AggItem) *group {
	if o.env.Naive {
		return in
	}
	var items []ProjectItem
	for i := range aggs {
		cs := scalar.Children(aggs[i].Agg)
		var out []scalar.Expr
		for j, e := range cs {
			if !hasSubquery(e) || isVolatile(e) {
				continue
			}
			if out == nil {
				out = append([]scalar.Expr(nil), cs...)
			}
			out[j] = o.asColumn(e, &items)
		}
		if out != nil {
			aggs[i].Agg = scalar.WithChildren(aggs[i].Agg, out).(*scalar.AggFunc)
		}
	}
	if len(items) == 0 {
		return in
	}
	return o.newProject(in, items, in.cols.list())
}

func (o *optimizer) buildSets(r *ProjectSet, in *group) *group {
	funcs := make([]SetFunc, len(r.Funcs))
	for i, f := range r.Funcs {
		f.Args = o.scalars(f.Args)
		funcs[i] = f
	}
	return o.newGroup(&ProjectSet{Input: in, Funcs: funcs})
}

// buildJoin joins two inputs, of which the left one came in an order.
func (o *optimizer) buildJoin(r *Join, left, right *group, order []OrderColumn) (*group, []OrderColumn) {
	if r.Kind == RightJoin || r.Kind == FullJoin || o.env.Naive {
		order = nil
	}
	o.noteNullableLocks(r, left, right)
	return o.newJoin(r.Kind, left, right, o.conditions(r.On)), order
}

// buildWithMain builds a common table expression, and its main query by the given function.
func (o *optimizer) buildWithMain(r *With, build func(Rel) (*group, []OrderColumn)) (*group, []OrderColumn) {
	before, failed := len(o.reads), o.failed
	binding, bord := o.build(r.Binding)
	if o.ctes == nil {
		o.ctes = make(map[int]*cte)
	}
	c := &cte{rows: binding.rows, cols: r.Cols}
	if r.Recursive != nil {
		c.rows *= 10
	}
	o.ctes[r.ID] = c
	n := &orderedWith{With: *r, order: bord}
	n.Binding = binding
	if r.Recursive != nil {
		n.Recursive, _ = o.build(r.Recursive)
		c.recursive = true
	}
	after, inBinding := len(o.reads), o.failed
	o.failed = failed
	main, ord := build(r.Main)
	if !o.env.Naive && !slices.Contains(o.reads[after:], r.ID) && !changes(binding) {
		o.reads = slices.Delete(o.reads, before, after)
		return main, ord // as in PostgreSQL, a query that nothing reads is not run, whatever it locks or calls
	}
	if inBinding != nil {
		o.failed = inBinding
	}
	n.Main = main
	return o.newGroup(n), ord
}

func (o *optimizer) buildMutation(r Rel) *group {
	o.writes = true
	switch r := r.(type) {
	case *Insert:
		in, ord := o.build(r.Input)
		n := *r
		n.Input = in
		n.Returning = o.items(r.Returning)
		if r.Conflict != nil {
			c := *r.Conflict
			c.Set = slices.Clone(r.Conflict.Set)
			c.Generated = slices.Clone(r.Conflict.Generated)
			for _, items := range [][]SetItem{c.Set, c.Generated} {
				for i := range items {
					items[i].Expr = o.scalar(items[i].Expr)
				}
			}
			c.Where = o.conditions(c.Where)
			n.Conflict = &c
		}
		return o.newGroup(&mutation{stmt: &n, input: in, order: ord})
	case *Update:
		in, ord := o.build(r.Input)
		n := *r
		n.Input = in
		n.Returning = o.items(r.Returning)
		return o.newGroup(&mutation{stmt: &n, input: in, order: ord})
	case *Delete:
		in, ord := o.build(r.Input)
		n := *r
		n.Input = in
		n.Returning = o.items(r.Returning)
		return o.newGroup(&mutation{stmt: &n, input: in, order: ord})
	}
	panic(fmt.Sprintf("opt: %T is no mutation", r))
}

// changes reports whether a group writes.
func changes(g *group) bool {
	if _, ok := g.expr().(*mutation); ok {
		return true
	}
	for _, in := range inputs(g.expr()) {
		if in != nil && changes(in) {
			return true
		}
	}
	return false
}

// The operators below exist in the memo only: they remember an order that their input must have.
type (
	orderedGroup struct {
		GroupBy
		order []OrderColumn
	}
	orderedWindow struct {
		Window
		order []OrderColumn
	}
	orderedLimit struct {
		Limit
		order []OrderColumn
	}
	orderedWith struct {
		With
		order []OrderColumn // of the binding
	}
	// mutation is an Insert, Update or Delete.
	mutation struct {
		stmt  Rel
		input *group
		order []OrderColumn
	}
)

func (*mutation) rel() {}

// orderMatters reports whether an aggregate's result depends on the order of its input.
func orderMatters(a *scalar.Aggregate) bool {
	switch a.Name {
	case "array_agg", "string_agg", "json_agg", "jsonb_agg", "json_object_agg", "jsonb_object_agg", "concat_agg", "xmlagg":
		return true
	}
	return false
}

// scalar puts the queries inside an expression into the memo: Subquery.Plan becomes a *group. A constant part that fails makes the statement fail.
func (o *optimizer) scalar(e scalar.Expr) scalar.Expr {
	o.check(e)
	return o.embed(e)
}

// check remembers the first error of a constant part.
func (o *optimizer) check(e scalar.Expr) {
	if o.failed == nil {
		o.failed = scalar.FoldError(e)
	}
}

// embed puts the queries inside an expression into the memo.
func (o *optimizer) embed(e scalar.Expr) scalar.Expr {
	o.charge(0)
	if !hasSubquery(e) {
		return e
	}
	return scalar.Rewrite(e, func(e scalar.Expr) scalar.Expr {
		q, ok := e.(*scalar.Subquery)
		if !ok {
			return e
		}
		r, ok := q.Plan.(Rel)
		if !ok {
			return e
		}
		if _, done := r.(*subquery); done {
			return e
		}
		n := *q
		g, ord := o.build(r)
		n.Plan = &subquery{g, o.visibleOrder(g, ord)}
		return &n
	})
}

// subquery is the Plan of a scalar.Subquery while it is being optimized.
type subquery struct {
	*group
	order []OrderColumn
}

func (o *optimizer) scalarOrNil(e scalar.Expr) scalar.Expr {
	if e == nil {
		return nil
	}
	return o.scalar(e)
}

func (o *optimizer) scalars(es []scalar.Expr) []scalar.Expr { return replaced(es, o.scalar) }

// conditions is scalars for a conjunction: what follows a constant that is false is not evaluated.
func (o *optimizer) conditions(es []scalar.Expr) []scalar.Expr {
	never := false
	return replaced(es, func(e scalar.Expr) scalar.Expr {
		if !never && o.failed == nil {
			never, o.failed = scalar.FoldCondition(e)
		}
		return o.embed(e)
	})
}

// replaced is es with other expressions in the place of its own; es itself if they are the same.
func replaced(es []scalar.Expr, f func(scalar.Expr) scalar.Expr) []scalar.Expr {
	for i, e := range es {
		n := f(e)
		if n == e {
			continue
		}
		out := append([]scalar.Expr(nil), es...)
		out[i] = n
		for j := i + 1; j < len(es); j++ {
			out[j] = f(es[j])
		}
		return out
	}
	return es
}

func (o *optimizer) scalarRows(rows [][]scalar.Expr) [][]scalar.Expr {
	for i := range rows {
		n := o.scalars(rows[i])
		if len(n) == 0 || &n[0] == &rows[i][0] {
			continue
		}
		out := append([][]scalar.Expr(nil), rows...)
		out[i] = n
		for j := i + 1; j < len(rows); j++ {
			out[j] = o.scalars(rows[j])
		}
		return out
	}
	return rows
}

func (o *optimizer) items(items []ProjectItem) []ProjectItem {
	for i := range items {
		n := o.scalar(items[i].Expr)
		if n == items[i].Expr {
			continue
		}
		out := append([]ProjectItem(nil), items...)
		out[i].Expr = n
		for j := i + 1; j < len(items); j++ {
			out[j].Expr = o.scalar(items[j].Expr)
		}
		return out
	}
	return items
}
