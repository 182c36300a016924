package bind

import (
	"context"
	"slices"

	"github.com/cockroachdb/cockroachdb-parser/pkg/sql/sem/tree"

	"meridian/sql/catalog"
	"meridian/sql/opt"
	"meridian/sql/parse"
	"meridian/sql/scalar"
	"meridian/sql/sqlstate"
)

// storedQuery parses a view's text, once.
func (b *builder) storedQuery(text string) storedTree {
	if st, ok := b.stash[text]; ok && st.sel != nil {
		return st
	}
	stmt, err := parse.ParseOne(text)
	check(err)
	sel, ok := stmt.Node.(*tree.Select)
	if !ok {
		raise(sqlstate.New(sqlstate.DataCorrupted, "stored view is not a query"))
	}
	st := storedTree{sel: sel, stmt: stmt}
	b.remember(text, st)
	return st
}

// storedExpr parses a stored expression, once.
func (b *builder) storedExpr(text string) storedTree {
	if st, ok := b.stash[text]; ok && st.expr != nil {
		return st
	}
	e, stmt, err := parse.ParseExpr(text)
	check(err)
	st := storedTree{expr: e, stmt: stmt}
	b.remember(text, st)
	return st
}

func (b *builder) remember(text string, st storedTree) {
	if b.stash == nil || len(b.stash) >= maxCachedExprs {
		b.Binder.stash = make(map[string]storedTree)
	}
	b.Binder.stash[text] = st
}

// stored binds a stored expression of table t; sc has the columns that it sees (nil: none).
func (b *builder) stored(t *catalog.Table, text string, sc *scope) scalar.Expr {
	st := b.storedExpr(text)
	defer func(was source) { b.source = was }(b.source)
	b.source = b.inExpression(t, st.stmt)
	if sc == nil {
		sc = &scope{level: &level{}}
	}
	return b.expr(&exprContext{scope: sc, clause: "a stored expression"}, st.expr)
}

// RewriteOf binds the expressions of a table's catalog.Rewrite, and the table's checks over the rewritten rows. The
// columns of the expressions are ordinals plus one.
func (b *Binder) RewriteOf(ctx context.Context, t *catalog.Table) (exprs []scalar.Expr, checks []opt.CheckExpr, err error) {
	defer guard(&err)
	bd := b.newBuilder(ctx, &parse.Statement{})
	ids, sc := bd.newRow(t, t.Name)
	to := t.Rewritten()
	for _, k := range t.Rewrite.Columns {
		x := bd.assign(bd.stored(t, k.Expr, sc), to.Column(k.Column), nil)
		exprs = append(exprs, byOrdinal(x, ids))
	}
	ids, _ = bd.newRow(to, to.Name)
	for _, c := range bd.checks(to, ids, to.Name) {
		checks = append(checks, opt.CheckExpr{Name: c.Name, Expr: byOrdinal(c.Expr, ids)})
	}
	return exprs, checks, nil
}

// FollowsOf binds the expressions that are computed after a change of a row: the values of columns with ON UPDATE, which an update does not assign,
// then the table's generated columns, and the checks. The columns of the expressions are ordinals plus one.
func (b *Binder) FollowsOf(ctx context.Context, t *catalog.Table) (generated []opt.SetItem, checks []opt.CheckExpr, err error) {
	defer guard(&err)
	bd := b.newBuilder(ctx, &parse.Statement{})
	ids, sc := bd.newRow(t, t.Name)
	generated = bd.onUpdate(t, nil, nil)
	for i := range t.Columns {
		if col := &t.Columns[i]; col.Generated != "" && (col.State == catalog.Public || col.State == catalog.WriteOnly) {
			generated = append(generated, opt.SetItem{Ordinal: i, Expr: byOrdinal(bd.assign(bd.stored(t, col.Generated, sc), col, nil), ids)})
		}
	}
	for _, c := range bd.checks(t, ids, t.Name) {
		checks = append(checks, opt.CheckExpr{Name: c.Name, Expr: byOrdinal(c.Expr, ids)})
	}
	return generated, checks, nil
}

// byOrdinal replaces the columns of a query in an expression by ordinals plus one.
func byOrdinal(e scalar.Expr, ids []opt.ColumnID) scalar.Expr {
	return scalar.ReplaceColumns(e, func(c *scalar.Column) scalar.Expr {
		n := *c
		n.ID = scalar.ColumnID(slices.Index(ids, c.ID) + 1)
		return &n
	})
}

// DefaultExpr binds a column's default, coerced to the column's type; a column without one defaults to NULL. Names in
// the default have the meaning that they had when it was stored.
func (b *Binder) DefaultExpr(ctx context.Context, t *catalog.Table, ordinal int) (e scalar.Expr, err error) {
	defer guard(&err)
	bd := b.newBuilder(ctx, &parse.Statement{})
	return bd.defaultOf(t, &t.Columns[ordinal]), nil
}
