package bind

import (
	"slices"

	"github.com/cockroachdb/cockroachdb-parser/pkg/sql/sem/tree"

	"meridian/sql/opt"
	"meridian/sql/scalar"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// produced is the set of columns that a relation yields.
func produced(rel opt.Rel) map[opt.ColumnID]bool {
	set := make(map[opt.ColumnID]bool, 8)
	collect(rel, set)
	return set
}

func collect(rel opt.Rel, set map[opt.ColumnID]bool) {
	add := func(ids []opt.ColumnID) {
		for _, id := range ids {
			if id != 0 {
				set[id] = true
			}
		}
	}
	items := func(ps []opt.ProjectItem) {
		for i := range ps {
			set[ps[i].Col] = true
		}
	}
	switch r := rel.(type) {
	case *opt.Scan:
		add(r.Cols)
	case *opt.VirtualScan:
		add(r.Cols)
	case *opt.Values:
		add(r.Cols)
	case *opt.Select:
		collect(r.Input, set)
	case *opt.Project:
		items(r.Items)
		add(r.Pass)
	case *opt.ProjectSet:
		collect(r.Input, set)
		for i := range r.Funcs {
			add(r.Funcs[i].Cols)
			add([]opt.ColumnID{r.Funcs[i].Ordinality})
		}
	case *opt.Join:
		collect(r.Left, set)
		if r.Kind != opt.SemiJoin && r.Kind != opt.AntiJoin {
			collect(r.Right, set)
		}
	case *opt.GroupBy:
		add(r.Group)
		for i := range r.Aggs {
			set[r.Aggs[i].Col] = true
		}
	case *opt.Window:
		collect(r.Input, set)
		for i := range r.Items {
			set[r.Items[i].Col] = true
		}
	case *opt.Distinct:
		collect(r.Input, set)
	case *opt.SetOp:
		add(r.Out)
	case *opt.Sort:
		collect(r.Input, set)
	case *opt.Limit:
		collect(r.Input, set)
	case *opt.Lock:
		collect(r.Input, set)
	case *opt.With:
		collect(r.Main, set)
	case *opt.WithScan:
		add(r.Cols)
	case *opt.Insert:
		items(r.Returning)
	case *opt.Update:
		items(r.Returning)
	case *opt.Delete:
		items(r.Returning)
	}
}

// union binds a set operation.
func (b *builder) union(u *tree.UnionClause, sc *scope) output {
	name := u.Type.String()
	b.noLocking(u.Left, notAllowed, "UNION/INTERSECT/EXCEPT")
	b.noLocking(u.Right, notAllowed, "UNION/INTERSECT/EXCEPT")
	l := b.selectQuery(u.Left, b.nested(sc), true)
	r := b.selectQuery(u.Right, b.nested(sc), true)
	if len(l.cols) != len(r.cols) {
		b.fail(sqlstate.SyntaxError, firstExpr(u.Right), "each %s query must have the same number of columns", name)
	}
	op := &opt.SetOp{All: u.All}
	switch u.Type {
	case tree.UnionOp:
		op.Kind = opt.Union
	case tree.IntersectOp:
		op.Kind = opt.Intersect
	case tree.ExceptOp:
		op.Kind = opt.Except
	}
	ts := make([]*types.T, len(l.cols))
	for i := range l.cols {
		lt, rt := l.cols[i].t, r.cols[i].t
		t := types.Common(lt, rt)
		if t == nil {
			if lt.Category() == rt.Category() { // and there is no cast
				b.fail(sqlstate.CannotCoerce, targetExpr(u.Right, i), "%s could not convert type %s to %s", name, rt.Name(), lt.Name())
			}
			b.fail(sqlstate.DatatypeMismatch, targetExpr(u.Right, i), "%s types %s and %s cannot be matched", name, lt.Name(), rt.Name())
		}
		ts[i] = t
		if !u.All || u.Type != tree.UnionOp {
			b.comparable(t, false, firstExpr(u.Right))
		}
	}
	b.retype(&l, ts, types.CastImplicit)
	b.retype(&r, ts, types.CastImplicit)
	out := output{rel: op, cols: make([]outColumn, len(ts))}
	op.Left, op.Right = l.rel, r.rel
	for i := range ts {
		op.LeftCols = append(op.LeftCols, l.cols[i].id)
		op.RightCols = append(op.RightCols, r.cols[i].id)
		id := b.meta.Add(opt.ColumnMeta{Name: l.cols[i].name, Type: ts[i]})
		op.Out = append(op.Out, id)
		out.cols[i] = outColumn{name: l.cols[i].name, id: id, t: ts[i]}
	}
	return out
}

// firstExpr is the first expression of a query, for the position of an error.
func firstExpr(s *tree.Select) any { return targetExpr(s, 0) }

// targetExpr is one of the expressions that make a query's columns; nil if there is none for the column alone.
func targetExpr(s *tree.Select, i int) any {
	stmt := s.Select
	for {
		switch n := stmt.(type) {
		case *tree.ParenSelect:
			stmt = n.Select.Select
		case *tree.UnionClause:
			stmt = n.Left.Select
		case *tree.SelectClause:
			if len(n.Exprs) > i {
				return n.Exprs[i].Expr
			}
			return nil
		case *tree.ValuesClause:
			if len(n.Rows) > 0 && len(n.Rows[0]) > i {
				return n.Rows[0][i]
			}
			return nil
		default:
			return nil
		}
	}
}

// retype converts the output's columns to the given types; untyped literals and parameters get their type in place.
func (b *builder) retype(out *output, ts []*types.T, c types.CastContext) {
	var p *opt.Project
	for i, t := range ts {
		col := &out.cols[i]
		if col.t.Equal(t) || t.Kind == types.KindUnknown {
			continue
		}
		if col.item != nil && col.t.Kind == types.KindUnknown {
			col.item.Expr = b.coerce(col.item.Expr, t, c, nil)
			b.meta.Column(col.id).Type = t
			col.t = t
			continue
		}
		x := b.coerce(&scalar.Column{ID: col.id, T: col.t, Name: col.name}, t, c, nil)
		if ref, ok := x.(*scalar.Column); ok && ref.ID == col.id {
			col.t = t
			continue
		}
		if p == nil {
			p = &opt.Project{Input: out.rel}
		}
		id := b.meta.Add(opt.ColumnMeta{Name: col.name, Type: t})
		p.Items = append(p.Items, opt.ProjectItem{Col: id, Expr: x})
		col.id, col.t, col.item = id, t, nil
	}
	if p == nil {
		return
	}
	for i := range out.cols {
		computed := false
		for j := range p.Items {
			computed = computed || p.Items[j].Col == out.cols[i].id
		}
		if !computed {
			p.Pass = appendID(p.Pass, out.cols[i].id)
		}
	}
	for _, o := range out.order {
		p.Pass = appendID(p.Pass, o.Col)
	}
	out.rel = p
}

// values binds VALUES lists to rows of one type for each column.
func (b *builder) values(rows []tree.Exprs, sc *scope, keep bool) output {
	v := &opt.Values{Rows: make([][]scalar.Expr, len(rows))}
	c := &exprContext{scope: &scope{parent: sc.parent, level: sc.level, ctes: sc.ctes}, clause: "VALUES"}
	width := len(rows[0])
	b.targets(width)
	cells := make([]scalar.Expr, width*len(rows))
	for i, r := range rows {
		if len(r) != width {
			var at any
			if len(r) > 0 {
				at = r[0]
			}
			b.fail(sqlstate.SyntaxError, at, "VALUES lists must all be the same length")
		}
		v.Rows[i] = cells[i*width : (i+1)*width : (i+1)*width]
		for j, e := range r {
			v.Rows[i][j] = b.expr(c, e)
		}
	}
	out := output{rel: v, cols: make([]outColumn, width)}
	col, at := make([]scalar.Expr, len(rows)), make([]any, len(rows))
	for j := range width {
		t := types.Unknown
		for i := range rows {
			col[i] = v.Rows[i][j]
			if t.Kind == types.KindUnknown {
				t = col[i].Type()
			}
		}
		if t.Kind != types.KindUnknown || !keep {
			for i := range rows {
				at[i] = rows[i][j]
			}
			col, t = b.common("VALUES", col, at...)
			for i := range rows {
				v.Rows[i][j] = col[i]
			}
		}
		name := "column" + itoa(j+1)
		id := b.meta.Add(opt.ColumnMeta{Name: name, Type: t})
		v.Cols = append(v.Cols, id)
		out.cols[j] = outColumn{name: name, id: id, t: t}
	}
	return out
}

// withOf is a statement's own WITH clause; nil if it has none.
func withOf(n tree.Statement) *tree.With {
	switch n := n.(type) {
	case *tree.Select:
		if p, ok := n.Select.(*tree.ParenSelect); ok && n.With == nil {
			return withOf(p.Select)
		}
		return n.With
	case *tree.ParenSelect:
		return withOf(n.Select)
	case *tree.Insert:
		return n.With
	case *tree.Update:
		return n.With
	case *tree.Delete:
		return n.With
	}
	return nil
}

// with binds the WITH clause into the scope, and returns the operators that wrap the query.
func (b *builder) with(w *tree.With, sc *scope) []*opt.With {
	if w == nil {
		return nil
	}
	var wraps []*opt.With
	seen := map[string]bool{}
	for _, e := range w.CTEList {
		name := string(e.Name.Alias)
		if seen[name] {
			b.fail(sqlstate.DuplicateAlias, name, "WITH query name \"%s\" specified more than once", name)
		}
		seen[name] = true
	}
	list, self := w.CTEList, map[*tree.CTE]bool(nil)
	if w.Recursive {
		list, self = b.recursiveWith(w)
	}
	outer := len(b.future)
	for _, e := range slices.Backward(list) {
		b.future = append(b.future, string(e.Name.Alias))
	}
	for _, e := range list {
		name := string(e.Name.Alias)
		if w != b.top && b.views == 0 {
			switch e.Stmt.(type) {
			case *tree.Select, *tree.ParenSelect, *tree.ValuesClause:
			default:
				b.fail(sqlstate.FeatureNotSupported, name, "WITH clause containing a data-modifying statement must be at the top level")
			}
		}
		c := &cte{name: name}
		for _, d := range e.Name.Cols {
			c.names = append(c.names, string(d.Name))
		}
		wraps = append(wraps, b.bindCTE(c, e, self[e], sc)...)
		c.next = sc.ctes
		sc.ctes = c
		b.future = b.future[:len(b.future)-1]
	}
	b.future = b.future[:outer]
	return wraps
}

func wrapWith(ws []*opt.With, rel opt.Rel) opt.Rel {
	for i := len(ws) - 1; i >= 0; i-- {
		ws[i].Main = rel
		rel = ws[i]
	}
	return rel
}

// bindCTE binds one query of a WITH clause, and returns the operators that wrap what follows: those of a WITH in a recursive query, and its own;
// none if it is bound where it is used.
func (b *builder) bindCTE(c *cte, e *tree.CTE, recursive bool, sc *scope) []*opt.With {
	c.scope = &scope{parent: sc.parent, level: sc.level, ctes: sc.ctes}
	sel, isSelect := e.Stmt.(*tree.Select)
	if p, ok := e.Stmt.(*tree.ParenSelect); ok {
		sel, isSelect = p.Select, true
	}
	if recursive {
		sel := recursiveSelect(e.Stmt)
		inner := b.nested(sc)
		withs := b.with(sel.With, inner)
		return append(withs, b.recursive(c, sel.Select.(*tree.UnionClause), inner))
	}
	if isSelect && e.Mtr != tree.CTEMaterializeAlways && b.home == nil && !locksRows(sel) {
		if refs := b.stmt.CountRefs(c.name); e.Mtr == tree.CTEMaterializeNever || refs == 2 {
			c.inline = sel
			return nil
		}
	}
	b.withID++
	c.id = b.withID
	inner := b.nested(sc)
	var out output
	if isSelect {
		out = b.selectQuery(sel, inner, false)
	} else {
		out = b.rowStatement(e.Stmt, inner, nil)
	}
	b.nameColumns(c, &out)
	c.cols = out.cols
	w := &opt.With{ID: c.id, Name: c.name, Binding: out.rel}
	for _, col := range out.cols {
		w.Cols = append(w.Cols, col.id)
	}
	return []*opt.With{w}
}

// nameColumns applies the alias's column list.
func (b *builder) nameColumns(c *cte, out *output) {
	if len(c.names) > len(out.cols) {
		b.fail(sqlstate.InvalidColumnReference, c.name, "WITH query \"%s\" has %d columns available but %d columns specified", c.name, len(out.cols), len(c.names))
	}
	for i, n := range c.names {
		out.cols[i].name = n
	}
}

// recursive binds a query that reads itself.
func (b *builder) recursive(c *cte, u *tree.UnionClause, sc *scope) *opt.With {
	b.withID++
	c.id = b.withID
	l := b.selectQuery(u.Left, b.nested(sc), false)
	b.nameColumns(c, &l)
	c.cols = l.cols
	inner := b.nested(sc)
	c.next = sc.ctes
	inner.ctes = c
	c.recursing = true
	r := b.selectQuery(u.Right, inner, true)
	c.recursing = false
	if len(l.cols) != len(r.cols) {
		b.fail(sqlstate.SyntaxError, firstExpr(u.Right), "each UNION query must have the same number of columns")
	}
	ts := make([]*types.T, len(l.cols))
	for i := range l.cols {
		ts[i] = l.cols[i].t
		if t := types.Common(ts[i], r.cols[i].t); t == nil || !t.Same(ts[i]) {
			rt := r.cols[i].t
			if t != nil {
				rt = t
			}
			raise(b.at(sqlstate.New(sqlstate.DatatypeMismatch, "recursive query \"%s\" column %d has type %s in non-recursive term but type %s overall",
				c.name, i+1, ts[i].Name(), rt.Name()).WithHint("Cast the output of the non-recursive term to the correct type."), targetExpr(u.Left, i)))
		}
	}
	b.retype(&r, ts, types.CastImplicit)
	w := &opt.With{ID: c.id, Name: c.name, Binding: l.rel, Recursive: r.rel, RecursiveAll: u.All}
	for i := range l.cols {
		w.Cols = append(w.Cols, l.cols[i].id)
		w.RecursiveCols = append(w.RecursiveCols, r.cols[i].id)
	}
	return w
}
