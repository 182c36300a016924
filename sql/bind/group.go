package bind

import (
	"slices"

	"github.com/cockroachdb/cockroachdb-parser/pkg/sql/sem/tree"

	"meridian/sql/opt"
	"meridian/sql/scalar"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// groupExpr is one GROUP BY entry.
type groupExpr struct {
	expr scalar.Expr
	id   opt.ColumnID
	t    *types.T
}

// groupExprs binds GROUP BY: positions, names (input columns first, then output names), expressions.
func (b *builder) groupExprs(gs tree.GroupBy, sc *scope, items []item, n *tree.SelectClause) []groupExpr {
	var out []groupExpr
	c := &exprContext{scope: sc, clause: "GROUP BY", sets: true}
	for _, g := range gs {
		e := unparen(g)
		var x scalar.Expr
		switch v := e.(type) {
		case *tree.NumVal:
			i, err := v.AsInt64()
			if err != nil {
				b.fail(sqlstate.SyntaxError, v, "non-integer constant in GROUP BY")
			}
			if i < 1 || i > int64(len(items)) {
				b.fail(sqlstate.InvalidColumnReference, v, "GROUP BY position %d is not in select list", i)
			}
			x = items[i-1].expr
			b.noAggregates(sc.level, x, items[i-1].node)
		case *tree.StrVal:
			b.fail(sqlstate.SyntaxError, v, "non-integer constant in GROUP BY")
		case *tree.UnresolvedName:
			if v.NumParts == 1 && !v.Star && b.findColumn(sc, v.Parts[0], v) == nil {
				for i := range items {
					if items[i].name == v.Parts[0] {
						x = items[i].expr
						b.noAggregates(sc.level, x, items[i].node)
						break
					}
				}
			}
		case *tree.Tuple:
			if len(v.Exprs) > 0 && !v.Row {
				out = append(out, b.groupExprs(tree.GroupBy(v.Exprs), sc, items, n)...)
				continue
			}
		}
		if x == nil {
			x = b.expr(c, g)
		}
		x = b.known(x, g)
		b.comparable(x.Type(), false, g)
		out = append(out, groupExpr{expr: x, t: x.Type()})
		b.targets(len(out))
	}
	return out
}

// group builds the grouping and rewrites the expressions above it.
func (b *builder) group(rel opt.Rel, sc *scope, groups []groupExpr, items []item, having *scalar.Expr, condition tree.Expr, isScalar bool) opt.Rel {
	lv := sc.level
	g := &opt.GroupBy{Aggs: lv.aggs, Scalar: isScalar}
	var pre []opt.ProjectItem
	for i := range groups {
		ge := &groups[i]
		// A column of an enclosing query is no column of the input: it is a constant that is computed for each row.
		if col, ok := ge.expr.(*scalar.Column); ok && !slices.Contains(lv.outer, col.ID) {
			ge.id = col.ID
		} else {
			for j := range i {
				if scalar.Same(groups[j].expr, ge.expr) {
					ge.id = groups[j].id
				}
			}
			if ge.id == 0 {
				ge.id = b.meta.Add(opt.ColumnMeta{Name: "group", Type: ge.t})
				pre = append(pre, opt.ProjectItem{Col: ge.id, Expr: ge.expr})
			}
		}
		g.Group = appendID(g.Group, ge.id)
	}
	r := &regrouper{b: b, sc: sc, groups: groups, g: g}
	r.dependent()
	for i := range items {
		items[i].expr = r.rewrite(items[i].expr, items[i].node)
	}
	if *having != nil {
		*having = r.rewrite(*having, condition)
	}
	lv.rewrite(func(x scalar.Expr) scalar.Expr { return r.rewrite(x, nil) })
	g.Input = rel
	if len(pre) > 0 {
		p := &opt.Project{Input: rel, Items: pre}
		pass := func(id opt.ColumnID) {
			if r.fromHere(id) {
				p.Pass = appendID(p.Pass, id)
			}
		}
		for _, id := range g.Group {
			pass(id)
		}
		for i := range g.Aggs {
			scalar.Columns(g.Aggs[i].Agg, pass)
		}
		g.Input = p
	}
	return g
}

// regrouper replaces grouped expressions by the grouping's columns, and refuses columns that are not grouped.
type regrouper struct {
	b      *builder
	sc     *scope
	groups []groupExpr
	g      *opt.GroupBy
	// whole are the relations whose primary key is grouped, so that all their columns depend on the group.
	whole []*relation
}

// dependent finds relations whose whole primary key is in GROUP BY.
func (r *regrouper) dependent() {
	for _, rel := range r.sc.rels {
		if rel.table == nil || len(rel.table.Indexes) == 0 || rel.table.ImplicitPrimary {
			continue
		}
		all := true
		for _, ic := range rel.table.Primary().Columns {
			found := false
			for i := range r.sc.cols {
				c := &r.sc.cols[i]
				if c.rel == rel && c.id != 0 && r.b.meta.Column(c.id).Column == ic.Column && containsID(r.g.Group, c.id) {
					found = true
				}
			}
			all = all && found
		}
		if all {
			r.whole = append(r.whole, rel)
		}
	}
}

func (r *regrouper) column(id opt.ColumnID) *column {
	for i := range r.sc.cols {
		if r.sc.cols[i].id == id {
			return &r.sc.cols[i]
		}
	}
	return nil
}

func (r *regrouper) fromHere(id opt.ColumnID) bool {
	if r.column(id) != nil || slices.Contains(r.sc.rels, r.b.markers[id]) {
		return true
	}
	// Parts of merged columns have identities of their own only through their expressions.
	for i := range r.sc.cols {
		if c := &r.sc.cols[i]; c.id == 0 && c.expr != nil {
			found := false
			scalar.Columns(c.expr, func(x opt.ColumnID) { found = found || x == id })
			if found {
				return true
			}
		}
	}
	return false
}

func (r *regrouper) rewrite(e scalar.Expr, at tree.Expr) scalar.Expr {
	return scalar.RewriteTop(e, func(x scalar.Expr) scalar.Expr {
		for i := range r.groups {
			if g := &r.groups[i]; scalar.Same(x, g.expr) {
				return &scalar.Column{ID: g.id, T: g.t}
			}
		}
		switch n := x.(type) {
		case *scalar.Column:
			r.allowed(n.ID, at)
		case *scalar.Subquery:
			for _, id := range n.Outer {
				r.allowed(id, n)
			}
		}
		return x
	})
}

// allowed raises 42803 unless the column may stand above the grouping.
func (r *regrouper) allowed(id opt.ColumnID, at any) {
	if containsID(r.g.Group, id) {
		return
	}
	c := r.column(id)
	if rel := r.b.markers[id]; rel != nil && (c == nil || c.hidden) {
		r.b.fail(sqlstate.GroupingError, at, "column \"%s.*\" must appear in the GROUP BY clause or be used in an aggregate function", rel.alias)
	}
	if c == nil {
		return // an aggregate, a window, or an outer column
	}
	for _, w := range r.whole {
		if c.rel == w {
			r.b.text.groups(w.table)
			r.g.Group = append(r.g.Group, id)
			return
		}
	}
	shown := c.name
	if c.rel != nil {
		shown = c.rel.alias + "." + c.name
	}
	e := sqlstate.New(sqlstate.GroupingError, "column \"%s\" must appear in the GROUP BY clause or be used in an aggregate function", shown)
	if _, ok := at.(*scalar.Subquery); ok {
		e.Message = "subquery uses ungrouped column \"" + shown + "\" from outer query"
	}
	e.Position = r.b.columnPos(c, at)
	raise(e)
}

// noAggregates refuses GROUP BY of an output column that contains an aggregate or a window function.
func (b *builder) noAggregates(lv *level, x scalar.Expr, at any) {
	switch aggregate, window := lv.contains(x); {
	case aggregate:
		b.fail(sqlstate.GroupingError, at, "aggregate functions are not allowed in GROUP BY")
	case window:
		b.fail(sqlstate.WindowingError, at, "window functions are not allowed in GROUP BY")
	}
}
