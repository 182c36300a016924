package bind

import (
	"strings"

	"github.com/cockroachdb/cockroachdb-parser/pkg/sql/sem/tree"
	"github.com/cockroachdb/cockroachdb-parser/pkg/sql/sem/tree/treecmp"

	"meridian/sql/opt"
	"meridian/sql/scalar"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// bindSubquery binds the query of a subquery expression, and returns the columns of enclosing queries that it reads.
func (b *builder) bindSubquery(c *exprContext, s *tree.Subquery) (output, []opt.ColumnID) {
	if c.noSubquery {
		b.fail(sqlstate.FeatureNotSupported, s, "cannot use subquery in %s", strings.TrimSuffix(c.clause, "s"))
	}
	inner := c.scope.child()
	inner.level.within = c
	sel, ok := s.Select.(*tree.ParenSelect)
	var out output
	if ok {
		out = b.selectQuery(sel.Select, inner, false)
	} else {
		out = b.selectQuery(&tree.Select{Select: s.Select}, inner, false)
	}
	return out, inner.level.outer
}

// single projects the relation to its one visible column.
func single(out *output) opt.Rel {
	if p, ok := out.rel.(*opt.Project); ok && len(p.Items)+len(p.Pass) == 1 {
		return p
	}
	if v, ok := out.rel.(*opt.Values); ok && len(v.Cols) == 1 {
		return v
	}
	return &opt.Project{Input: out.rel, Pass: []opt.ColumnID{out.cols[0].id}}
}

// subquery binds EXISTS, ARRAY and scalar subqueries.
func (b *builder) subquery(c *exprContext, s *tree.Subquery, kind scalar.SubqueryKind) scalar.Expr {
	text := tree.AsString(s)
	if kind == scalar.SubqueryArray {
		text = "ARRAY" + text
	}
	out, outer := b.bindSubquery(c, s)
	q := &scalar.Subquery{Kind: kind, Outer: outer, Text: text, Level: b.numbered(c.scope.level)}
	if kind == scalar.SubqueryExists {
		q.Plan, q.T = out.rel, types.Bool
		return q
	}
	if len(out.cols) != 1 {
		b.fail(sqlstate.SyntaxError, s, "subquery must return only one column")
	}
	q.Col = out.cols[0].id
	q.T = out.cols[0].t
	if name := out.cols[0].name; name != "" {
		if b.subqueryNames == nil {
			b.subqueryNames = make(map[*tree.Subquery]string)
		}
		b.subqueryNames[s] = name
	}
	if kind == scalar.SubqueryArray {
		q.T = types.ArrayOf(q.T)
	}
	q.Plan = single(&out)
	return q
}

// anySubquery binds "left op ANY (query)" and "left op ALL (query)", IN and NOT IN among them.
func (b *builder) anySubquery(c *exprContext, n *tree.ComparisonExpr, s *tree.Subquery, kind scalar.SubqueryKind, op treecmp.ComparisonOperatorSymbol) scalar.Expr {
	text := tree.AsString(n)
	arg := b.expr(c, n.Left)
	out, outer := b.bindSubquery(c, s)
	if row, ok := arg.(*scalar.RowCtor); ok && row.T.Names == nil {
		return b.anyRow(row, out, outer, kind, op, n)
	}
	if len(out.cols) != 1 {
		msg := "subquery has too many columns"
		if len(out.cols) == 0 {
			msg = "subquery has too few columns"
		}
		raise(b.locateOp(sqlstate.New(sqlstate.SyntaxError, "%s", msg), n))
	}
	col := out.cols[0]
	if arg.Type().Kind == types.KindUnknown {
		arg = b.coerce(arg, col.t, types.CastImplicit, n.Left)
	}
	q := &scalar.Subquery{Kind: kind, Outer: outer, T: types.Bool, Arg: arg, Col: col.id, Plan: single(&out), Text: text, Level: b.numbered(c.scope.level)}
	q.LeftID = b.meta.Add(opt.ColumnMeta{Name: "left", Type: arg.Type()})
	q.Op = b.operate(op, &scalar.Column{ID: q.LeftID, T: arg.Type()}, &scalar.Column{ID: col.id, T: col.t, Name: col.name}, n)
	return q
}

// anyRow compares a row value with a query of the same number of columns: the query's row becomes one tuple column.
func (b *builder) anyRow(row *scalar.RowCtor, out output, outer []opt.ColumnID, kind scalar.SubqueryKind, op treecmp.ComparisonOperatorSymbol, n *tree.ComparisonExpr) scalar.Expr {
	cmp, ok := compareOp(op)
	if !ok {
		b.fail(sqlstate.FeatureNotSupported, n, "this operator is not supported for row values")
	}
	switch {
	case len(out.cols) < len(row.Elems):
		raise(b.locateOp(sqlstate.New(sqlstate.SyntaxError, "subquery has too few columns"), n))
	case len(out.cols) > len(row.Elems):
		raise(b.locateOp(sqlstate.New(sqlstate.SyntaxError, "subquery has too many columns"), n))
	}
	left := &scalar.RowCtor{T: &types.T{Kind: types.KindTuple}}
	right := &scalar.RowCtor{T: &types.T{Kind: types.KindTuple}}
	for i, e := range row.Elems {
		oc := out.cols[i]
		lt, rt, err := b.Registry.ResolveCompare(cmp, e.Type(), oc.t)
		if err != nil {
			raise(b.locate(err, n))
		}
		l := b.coerce(e, lt, types.CastImplicit, n)
		r := b.coerce(&scalar.Column{ID: oc.id, T: oc.t, Name: oc.name}, rt, types.CastImplicit, n)
		left.Elems, left.T.Fields = append(left.Elems, l), append(left.T.Fields, l.Type())
		right.Elems, right.T.Fields = append(right.Elems, r), append(right.T.Fields, r.Type())
	}
	id := b.meta.Add(opt.ColumnMeta{Name: "row", Type: right.T})
	q := &scalar.Subquery{Kind: kind, Outer: outer, T: types.Bool, Arg: left, Col: id}
	q.Plan = &opt.Project{Input: out.rel, Items: []opt.ProjectItem{{Col: id, Expr: right}}}
	q.LeftID = b.meta.Add(opt.ColumnMeta{Name: "left", Type: left.T})
	q.Op = &scalar.Compare{Op: cmp, Left: &scalar.Column{ID: q.LeftID, T: left.T}, Right: &scalar.Column{ID: id, T: right.T}}
	return q
}

// rowSubquery binds a subquery of n columns as a row value: (a, b) = (SELECT ...), SET (a, b) = (SELECT ...). Each
// field is a scalar subquery of its own over the same query. compared is the comparison, if the row is compared.
func (b *builder) rowSubquery(c *exprContext, s *tree.Subquery, n int, compared *tree.ComparisonExpr) scalar.Expr {
	row := &scalar.RowCtor{T: &types.T{Kind: types.KindTuple}}
	for i := range n {
		out, outer := b.bindSubquery(c, s)
		switch {
		case len(out.cols) < n && compared != nil:
			raise(b.locateOp(sqlstate.New(sqlstate.SyntaxError, "subquery has too few columns"), compared))
		case len(out.cols) > n && compared != nil:
			raise(b.locateOp(sqlstate.New(sqlstate.SyntaxError, "subquery has too many columns"), compared))
		case len(out.cols) != n:
			b.fail(sqlstate.SyntaxError, s, "number of columns does not match number of values")
		}
		col := out.cols[i]
		q := &scalar.Subquery{Kind: scalar.SubqueryScalar, Outer: outer, T: col.t, Col: col.id,
			Plan: &opt.Project{Input: out.rel, Pass: []opt.ColumnID{col.id}}}
		row.Elems = append(row.Elems, q)
		row.T.Fields = append(row.T.Fields, col.t)
	}
	return row
}

// rowOnce binds a subquery of n columns as one column, whose value is its row, and expressions for the row's fields.
func (b *builder) rowOnce(c *exprContext, s *tree.Subquery, n int) (*scalar.RowCtor, opt.ProjectItem) {
	out, outer := b.bindSubquery(c, s)
	if len(out.cols) != n {
		b.fail(sqlstate.SyntaxError, s, "number of columns does not match number of values")
	}
	whole := &scalar.RowCtor{T: &types.T{Kind: types.KindTuple}}
	for _, col := range out.cols {
		whole.Elems = append(whole.Elems, &scalar.Column{ID: col.id, T: col.t, Name: col.name})
		whole.T.Fields = append(whole.T.Fields, col.t)
	}
	inner := b.meta.Add(opt.ColumnMeta{Name: "row", Type: whole.T})
	q := &scalar.Subquery{Kind: scalar.SubqueryScalar, Outer: outer, T: whole.T, Col: inner,
		Plan: &opt.Project{Input: out.rel, Items: []opt.ProjectItem{{Col: inner, Expr: whole}}}}
	one := opt.ProjectItem{Col: b.meta.Add(opt.ColumnMeta{Name: "row", Type: whole.T}), Expr: q}
	fields := &scalar.RowCtor{T: whole.T}
	for i, t := range whole.T.Fields {
		fields.Elems = append(fields.Elems, &scalar.Call{Func: field(i, whole.T, t), Args: []scalar.Expr{&scalar.Column{ID: one.Col, T: whole.T, Name: "row"}}, T: t})
	}
	return fields, one
}

// field is a function that takes a field out of a row.
func field(i int, row, t *types.T) *scalar.Overload {
	one := func(_ *scalar.Context, a types.Datum) (types.Datum, error) { return a.Tuple().Elems[i], nil }
	return &scalar.Overload{Name: "field" + itoa(i+1), Args: []*types.T{row}, Return: t, Eval1: one,
		Eval: func(ctx *scalar.Context, args []types.Datum) (types.Datum, error) { return one(ctx, args[0]) }}
}
