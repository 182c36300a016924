package bind

import (
	"slices"
	"strings"

	"github.com/cockroachdb/cockroachdb-parser/pkg/sql/sem/tree"

	"meridian/kv"
	"meridian/sql/catalog"
	"meridian/sql/opt"
	"meridian/sql/parse"
	"meridian/sql/scalar"
	"meridian/sql/scalar/system"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// target resolves the table that a statement changes, and its alias.
func (b *builder) target(t tree.TableExpr, verb string) (*catalog.Table, string, *tree.TableName) {
	alias := ""
	if a, ok := t.(*tree.AliasedTableExpr); ok {
		alias = string(a.As.Alias)
		t = a.Expr
	}
	n, ok := t.(*tree.TableName)
	if !ok {
		b.fail(sqlstate.SyntaxError, nil, "syntax error")
	}
	tab := b.table(n)
	switch tab.Kind {
	case catalog.KindView:
		what := map[string]string{"INSERT": "insert into", "UPDATE": "update", "DELETE": "delete from"}[verb]
		raise(b.at(sqlstate.New(sqlstate.ObjectNotInPrerequisite, "cannot %s view \"%s\"", what, tab.Name).
			WithDetail("Views are not updatable."), n))
	case catalog.KindSequence:
		b.fail(sqlstate.WrongObjectType, n, "cannot change sequence \"%s\"", tab.Name)
	case catalog.KindVirtual:
		b.fail(sqlstate.InsufficientPrivilege, n, "permission denied: \"%s\" is a system catalog", tab.Name)
	}
	if tab.Materialized && !b.Refreshing {
		b.fail(sqlstate.WrongObjectType, n, "cannot change materialized view \"%s\"", tab.Name)
	}
	b.writes = true
	b.need(tab, catalog.PrivilegeNamed(verb))
	if alias == "" {
		alias = tab.Name
	}
	return tab, alias, n
}

// targetRelation is the table that a statement changes.
func targetRelation(t *catalog.Table, alias string) *relation {
	r := &relation{alias: alias, table: t, row: t, target: t}
	if alias == t.Name {
		r.bare = t
	}
	return r
}

// newRow makes the columns under which checks and RETURNING see a row as written, and a scope of the public ones.
func (b *builder) newRow(t *catalog.Table, alias string) ([]opt.ColumnID, *scope) {
	r := targetRelation(t, alias)
	s := &scope{level: &level{}, rels: []*relation{r}, cols: make([]column, 0, len(t.Columns))}
	ids := make([]opt.ColumnID, len(t.Columns))
	for i := range t.Columns {
		c := &t.Columns[i]
		ids[i] = b.meta.Add(opt.ColumnMeta{Name: c.Name, Type: c.Type, Table: t, Column: c.ID, Alias: alias, NotNull: c.NotNull && c.State == catalog.Public})
		if c.State == catalog.Public {
			s.cols = append(s.cols, column{name: c.Name, rel: r, id: ids[i], t: c.Type, hidden: c.Hidden})
		}
	}
	return ids, s
}

// checks binds the table's CHECK constraints over a row as written, in the order of their names, in which PostgreSQL looks at them: the first one that fails is the error's. A constraint
// may come with its column.
func (b *builder) checks(t *catalog.Table, ids []opt.ColumnID, alias string) []opt.CheckExpr {
	if len(t.Checks) == 0 {
		return nil
	}
	row := newScope(t, ids, alias)
	for i := range t.Columns {
		if c := &t.Columns[i]; t.Adding(c) {
			row.cols = append(row.cols, column{name: c.Name, rel: row.rels[0], id: ids[i], t: c.Type, hidden: c.Hidden})
		}
	}
	var out []opt.CheckExpr
	for i := range t.Checks {
		c := &t.Checks[i]
		if c.State != catalog.Public && c.State != catalog.WriteOnly {
			continue
		}
		out = append(out, opt.CheckExpr{Name: c.Name, Expr: b.asBool(b.stored(t, c.Expr, row), "CHECK", nil)})
	}
	slices.SortStableFunc(out, func(x, y opt.CheckExpr) int { return strings.Compare(x.Name, y.Name) })
	return out
}

// assign coerces a value to a column's type as an assignment does.
func (b *builder) assign(e scalar.Expr, col *catalog.Column, at any) scalar.Expr {
	from := e.Type()
	if from.Kind != types.KindUnknown && !types.CanCast(from, col.Type, types.CastAssignment) {
		raise(b.at(sqlstate.New(sqlstate.DatatypeMismatch, "column \"%s\" is of type %s but expression is of type %s", col.Name, col.Type.Name(), from.Name()).
			WithHint("You will need to rewrite or cast the expression."), at))
	}
	return b.coerce(e, col.Type, types.CastAssignment, at)
}

// defaultOf is a column's default, or NULL of its type.
func (b *builder) defaultOf(t *catalog.Table, col *catalog.Column) scalar.Expr {
	if col.Default == "" {
		return &scalar.Const{Value: types.Null, T: col.Type}
	}
	x := b.stored(t, col.Default, nil)
	if call, ok := x.(*scalar.Call); ok && col.Identity != 0 && call.Func.Name == "nextval" {
		x = &scalar.Call{Func: system.IdentityNext(call.Func), Args: call.Args, T: call.T}
	}
	return b.assign(x, col, nil)
}

// columnTarget finds a column named by INSERT or UPDATE; its ordinal.
func (b *builder) columnTarget(t *catalog.Table, n tree.Name, sc *scope) int {
	name := string(n)
	for i := range t.Columns {
		if c := &t.Columns[i]; c.Name == name && c.State == catalog.Public {
			return i
		}
	}
	e := sqlstate.New(sqlstate.UndefinedColumn, "column \"%s\" of relation \"%s\" does not exist", name, t.Name)
	raise(b.at(e, n))
	return 0
}

// assignments binds SET lists to one expression for each column. rows, if it is not nil, gets the queries of several columns, each as a column with the
// row that it gives, which the expressions read: so a query runs once for each row. Without it, as in ON CONFLICT, it runs for each column.
func (b *builder) assignments(es tree.UpdateExprs, t *catalog.Table, c *exprContext, rows *[]opt.ProjectItem) []opt.SetItem {
	var out []opt.SetItem
	seen := map[int]bool{}
	parts := map[int]bool{} // columns with assignments to their parts
	set := func(n tree.Name, x scalar.Expr, at tree.Expr) {
		o := b.columnTarget(t, n, c.scope)
		if seen[o] {
			b.fail(sqlstate.SyntaxError, nil, "multiple assignments to same column \"%s\"", n)
		}
		seen[o] = true
		col := &t.Columns[o]
		if _, ok := x.(*scalar.Default); ok {
			if col.Generated != "" {
				return
			}
			out = append(out, opt.SetItem{Ordinal: o, Expr: b.defaultOf(t, col)})
			return
		}
		b.mayWrite(col, false)
		out = append(out, opt.SetItem{Ordinal: o, Expr: b.assign(x, col, at)})
	}
	// All expressions are bound before any is assigned: an error of one has precedence over those of types.
	var assigns []func()
	for _, e := range es {
		ec := *c
		ec.allowDefault = true
		if !e.Tuple {
			if x, f := subscriptedValue(e.Expr); f != nil {
				value := b.expr(c, f.Exprs[0])
				assigns = append(assigns, func() {
					o := b.columnTarget(t, e.Names[0], c.scope)
					// Several assignments to parts of one column are applied in order.
					for i := range out {
						if out[i].Ordinal == o && parts[o] {
							out[i].Expr = b.assignPart(c, out[i].Expr, &t.Columns[o], x, value, e.Expr)
							return
						}
					}
					set(e.Names[0], b.assignPart(c, b.targetColumn(c, t, &t.Columns[o]), &t.Columns[o], x, value, e.Expr), e.Expr)
					parts[o] = true
				})
				continue
			}
			value := b.expr(&ec, e.Expr)
			assigns = append(assigns, func() { set(e.Names[0], value, e.Expr) })
			continue
		}
		var row *scalar.RowCtor
		switch src := unparen(e.Expr).(type) {
		case *tree.Subquery:
			if rows != nil {
				var one opt.ProjectItem
				row, one = b.rowOnce(c, src, len(e.Names))
				*rows = append(*rows, one)
			} else {
				row, _ = b.rowSubquery(c, src, len(e.Names), nil).(*scalar.RowCtor)
			}
		default:
			x := b.expr(&ec, src)
			r, ok := x.(*scalar.RowCtor)
			if !ok && len(e.Names) == 1 {
				r, ok = &scalar.RowCtor{Elems: []scalar.Expr{x}}, true
			}
			if !ok {
				b.fail(sqlstate.FeatureNotSupported, e.Expr, "source for a multiple-column UPDATE item must be a sub-SELECT or ROW() expression")
			}
			row = r
		}
		if len(row.Elems) != len(e.Names) {
			b.fail(sqlstate.SyntaxError, e.Expr, "number of columns does not match number of values")
		}
		assigns = append(assigns, func() {
			tuple, _ := unparen(e.Expr).(*tree.Tuple)
			for i, n := range e.Names {
				at := e.Expr
				if tuple != nil && len(tuple.Exprs) == len(e.Names) {
					at = tuple.Exprs[i]
				}
				set(n, row.Elems[i], at)
			}
		})
	}
	for _, assign := range assigns {
		assign()
	}
	return out
}

// subscriptedValue recognizes the form in which package parse writes SET a[1] = value.
func subscriptedValue(e tree.Expr) (*tree.IndirectionExpr, *tree.FuncExpr) {
	x, ok := e.(*tree.IndirectionExpr)
	if !ok {
		return nil, nil
	}
	f, ok := unparen(x.Expr).(*tree.FuncExpr)
	if !ok || functionName(f) != parse.AssignFunction || len(f.Exprs) != 1 {
		return nil, nil
	}
	return x, f
}

// targetColumn is the present value of a column of the changed table.
func (b *builder) targetColumn(c *exprContext, t *catalog.Table, col *catalog.Column) scalar.Expr {
	for i := range c.scope.cols {
		if s := &c.scope.cols[i]; s.rel != nil && s.name == col.Name && (s.rel.target == t || s.rel.table == t && s.rel.target == nil && s.rel.alias != "excluded") {
			return s.ref()
		}
	}
	b.fail(sqlstate.FeatureNotSupported, nil, "this assignment to a part of column \"%s\" is not supported", col.Name)
	return nil
}

// assignPart is the new value of a column to one part of which a value is assigned.
func (b *builder) assignPart(c *exprContext, old scalar.Expr, col *catalog.Column, x *tree.IndirectionExpr, value scalar.Expr, at tree.Expr) scalar.Expr {
	wrong := func(want *types.T) {
		raise(b.at(sqlstate.New(sqlstate.DatatypeMismatch, "subscripted assignment to \"%s\" requires type %s but expression is of type %s",
			col.Name, want.Name(), value.Type().Name()).WithHint("You will need to rewrite or cast the expression."), at))
	}
	coerced := func(want *types.T) scalar.Expr {
		if from := value.Type(); from.Kind != types.KindUnknown && !types.CanCast(from, want, types.CastAssignment) {
			wrong(want)
		}
		return b.coerce(value, want, types.CastAssignment, at)
	}
	if col.Type.Kind == types.KindJSONB {
		var path []scalar.Expr
		for _, s := range x.Indirection {
			if s.Slice {
				b.fail(sqlstate.DatatypeMismatch, s.Begin, "jsonb subscript does not support slices")
			}
			path = append(path, b.coerce(b.known(b.expr(c, s.Begin), s.Begin), types.Text, types.CastExplicit, s.Begin))
		}
		return b.call("jsonb_assign", []scalar.Expr{old, &scalar.ArrayCtor{Elems: path, T: types.TextArray}, coerced(types.JSONB)}, at)
	}
	elem := scalar.ElemType(col.Type)
	if elem == nil {
		b.fail(sqlstate.DatatypeMismatch, at, "cannot subscript type %s because it does not support subscripting", col.Type.Name())
	}
	subs := b.subscripts(c, x.Indirection)
	want := elem
	if scalar.SubscriptsSlice(subs) {
		want = col.Type
	}
	return scalar.NewAssignment(old, coerced(want), subs)
}

// changesKey reports whether an assignment is to a column of a key to which foreign keys may refer.
func changesKey(t *catalog.Table, set []opt.SetItem) bool {
	for i := range t.Indexes {
		idx := &t.Indexes[i]
		if !idx.Unique && !idx.Primary || idx.Predicate != "" {
			continue
		}
		for _, c := range idx.Columns {
			for _, s := range set {
				if t.Columns[s.Ordinal].ID == c.Column {
					return true
				}
			}
		}
	}
	return false
}

// update binds UPDATE.
func (b *builder) update(n *tree.Update, sc *scope) output {
	withs := b.with(n.With, sc)
	t, alias, _ := b.target(n.Table, "UPDATE")
	r := targetRelation(t, alias)
	rel, part := b.scan(t, r, true)
	sc.level.seen = append(sc.level.seen, part)
	target := rel.(*opt.Scan)
	old := append([]opt.ColumnID(nil), target.Cols...)
	sc.add(part)
	rel = b.joinFrom(rel, n.From, sc)
	c := &exprContext{scope: sc, clause: "UPDATE"}
	var rows []opt.ProjectItem
	set := b.assignments(n.Exprs, t, c, &rows)
	var where scalar.Expr
	if n.Where != nil {
		where = b.boolean(&exprContext{scope: sc, clause: "WHERE"}, n.Where.Expr)
		rel = filter(rel, where)
	}
	rel = b.mutationOrder(rel, n.OrderBy, n.Limit, sc)
	if len(rows) > 0 {
		p := &opt.Project{Input: rel, Items: rows}
		for id := range produced(rel) {
			p.Pass = append(p.Pass, id)
		}
		sortIDs(p.Pass)
		rel = p
	}
	f := b.inference(t)
	set, same := changing(set, old, f)
	asked := set
	set = b.onUpdate(t, set, same)
	u := &opt.Update{Table: t, Old: old}
	p := &opt.Project{Input: rel}
	fresh := slices.Clone(old) // the columns that hold the new row
	compute := func(to *opt.Project, s opt.SetItem) {
		col := &t.Columns[s.Ordinal]
		id := b.meta.Add(opt.ColumnMeta{Name: col.Name, Type: col.Type})
		to.Items = append(to.Items, opt.ProjectItem{Col: id, Expr: s.Expr})
		u.Set = append(u.Set, opt.SetColumn{Ordinal: s.Ordinal, Col: id})
		fresh[s.Ordinal] = id
	}
	for _, s := range set {
		compute(p, s)
	}
	for _, id := range old {
		if id != 0 {
			p.Pass = append(p.Pass, id)
		}
	}
	// Generated columns are computed from the new row, by a projection over that of the assignments: an assigned value is computed once.
	follow := b.generatedItems(t, fresh, alias, set)
	tops := []*opt.Project{p} // from the lowest one
	if len(follow) > 0 {
		top := &opt.Project{Input: p, Pass: slices.Clone(p.Pass)}
		tops = append(tops, top)
		for _, s := range u.Set {
			top.Pass = append(top.Pass, s.Col)
		}
		for _, s := range follow {
			compute(top, s)
		}
	}
	all := slices.Concat(set, follow)
	if f != nil && f.assigns(all) {
		all = append(all, opt.SetItem{Ordinal: f.region})
		tops = append(tops, b.inferUpdate(f, u, tops[len(tops)-1], fresh)...)
	}
	if !changesKey(t, all) {
		// Rows that refer to this one stay valid, so transactions that add such rows need not wait.
		target.Locking.Strength = kv.NoKeyExclusive
	}
	var row *scope
	u.New, row = b.newRow(t, alias)
	u.Checks = b.checks(t, u.New, alias)
	reads := ""
	switch {
	case returns(n.Returning):
		reads = "RETURNING reads the new row"
	case len(n.From) > 0:
		reads = "FROM joins other rows"
	case len(n.OrderBy) > 0 || n.Limit != nil || len(rows) > 0:
		reads = "the rows, or what they are set to, come from a query"
	}
	x := change{t: t, old: u.Old, next: u.New, checks: u.Checks, set: asked, all: all, where: where, others: reads}
	u.Commutes, u.Physical = x.commuting()
	// RETURNING sees the new row and the columns of FROM.
	rs := returningScope(sc, r, row)
	out := b.returning(n.Returning, rs, sc)
	u.Returning = out.items
	passReturned(u.Returning, sc, tops)
	u.Input = tops[len(tops)-1]
	return output{rel: wrapWith(withs, u), cols: out.cols}
}

// returningScope has the new row in the place of the changed relation r, and the columns of FROM.
func returningScope(sc *scope, r *relation, row *scope) *scope {
	rs := &scope{parent: sc.parent, level: sc.level, ctes: sc.ctes}
	rs.add(row)
	for i := range sc.cols {
		if sc.cols[i].rel != r {
			rs.cols = append(rs.cols, sc.cols[i])
		}
	}
	for _, x := range sc.rels {
		if x != r {
			rs.rels = append(rs.rels, x)
		}
	}
	return rs
}

// passReturned lets the projections below an UPDATE pass the columns of FROM that RETURNING reads.
func passReturned(returning []opt.ProjectItem, sc *scope, tops []*opt.Project) {
	for _, it := range returning {
		scalar.Columns(it.Expr, func(id opt.ColumnID) {
			for i := range sc.cols {
				if sc.cols[i].id == id {
					for _, p := range tops {
						p.Pass = appendID(p.Pass, id)
					}
				}
			}
		})
	}
}

// joinFrom adds the FROM or USING items to the changed table.
func (b *builder) joinFrom(rel opt.Rel, from tree.TableExprs, sc *scope) opt.Rel {
	for _, te := range from {
		r, p := b.tableExpr(te, sc, []*scope{sc})
		b.uniqueAliases(sc, p)
		rel = &opt.Join{Kind: opt.InnerJoin, Left: rel, Right: r, Lateral: p.lateralOf(sc)}
		sc.add(p.scope)
	}
	return rel
}

// mutationOrder applies ORDER BY and LIMIT of UPDATE and DELETE.
func (b *builder) mutationOrder(rel opt.Rel, by tree.OrderBy, l *tree.Limit, sc *scope) opt.Rel {
	if len(by) > 0 {
		c := &exprContext{scope: sc, clause: "ORDER BY"}
		var cols []opt.OrderColumn
		p := &opt.Project{Input: rel}
		for _, o := range by {
			b.byColumn(o)
			x := b.known(b.expr(c, o.Expr), o.Expr)
			k, ok := x.(*scalar.Column)
			if !ok {
				id := b.meta.Add(opt.ColumnMeta{Name: "order", Type: x.Type()})
				p.Items = append(p.Items, opt.ProjectItem{Col: id, Expr: x})
				k = &scalar.Column{ID: id}
			}
			cols = append(cols, opt.OrderColumn{Col: k.ID, Desc: o.Direction == tree.Descending, NullsFirst: nullsFirst(o)})
		}
		if len(p.Items) > 0 {
			for id := range produced(rel) {
				p.Pass = append(p.Pass, id)
			}
			sortIDs(p.Pass)
			rel = p
		}
		rel = &opt.Sort{Input: rel, By: cols}
	}
	out := output{rel: rel}
	b.limit(&out, l, sc)
	return out.rel
}

func sortIDs(ids []opt.ColumnID) {
	for i := 1; i < len(ids); i++ {
		for j := i; j > 0 && ids[j] < ids[j-1]; j-- {
			ids[j], ids[j-1] = ids[j-1], ids[j]
		}
	}
}

// delete binds DELETE.
func (b *builder) delete(n *tree.Delete, sc *scope) output {
	if n.Batch != nil {
		raise(sqlstate.New(sqlstate.FeatureNotSupported, "DELETE BATCH is not supported").WithHint("DELETE ... WHERE key IN (SELECT key ... LIMIT n) deletes some rows."))
	}
	withs := b.with(n.With, sc)
	t, alias, _ := b.target(n.Table, "DELETE")
	r := targetRelation(t, alias)
	rel, part := b.scan(t, r, true)
	sc.level.seen = append(sc.level.seen, part)
	d := &opt.Delete{Table: t, Old: append([]opt.ColumnID(nil), rel.(*opt.Scan).Cols...)}
	sc.add(part)
	rel = b.joinFrom(rel, n.Using, sc)
	if n.Where != nil {
		rel = filter(rel, b.boolean(&exprContext{scope: sc, clause: "WHERE"}, n.Where.Expr))
	}
	d.Input = b.mutationOrder(rel, n.OrderBy, n.Limit, sc)
	rs := &scope{parent: sc.parent, level: sc.level, ctes: sc.ctes, cols: sc.cols, rels: sc.rels}
	out := b.returning(n.Returning, rs, sc)
	d.Returning = out.items
	return output{rel: wrapWith(withs, d), cols: out.cols}
}

// returned is a bound RETURNING list.
type returned struct {
	items []opt.ProjectItem
	cols  []outColumn
}

// returning binds RETURNING over the rows of a change.
func (b *builder) returning(r tree.ReturningClause, row, sc *scope) returned {
	if _, ok := r.(*tree.ReturningNothing); ok {
		b.fail(sqlstate.SyntaxError, "nothing", "syntax error at or near \"nothing\"")
	}
	es, ok := r.(*tree.ReturningExprs)
	if !ok {
		return returned{}
	}
	rs := &scope{parent: sc.parent, level: sc.level, ctes: sc.ctes, cols: row.cols, rels: row.rels}
	c := &exprContext{scope: rs, clause: "RETURNING"}
	var items []item
	for i := range *es {
		items = b.selectExpr(c, &(*es)[i], items, nil)
	}
	out := returned{items: make([]opt.ProjectItem, len(items)), cols: make([]outColumn, len(items))}
	for i, it := range items {
		x := b.known(it.expr, it.node)
		id := b.meta.Add(opt.ColumnMeta{Name: it.name, Type: x.Type()})
		out.items[i] = opt.ProjectItem{Col: id, Expr: x}
		out.cols[i] = outColumn{name: it.name, id: id, t: x.Type()}
	}
	return out
}

// changing drops assignments of a column to itself, whose ordinals it returns: the row keeps the value, so its keys, and what is computed from them, stay as they are. Columns by which
// a region is inferred are kept, because the parent is looked up for them.
func changing(set []opt.SetItem, row []opt.ColumnID, f *inference) (out []opt.SetItem, same map[int]bool) {
	same = make(map[int]bool)
	for _, s := range set {
		c, ok := s.Expr.(*scalar.Column)
		if ok && c.ID == row[s.Ordinal] && (f == nil || !slices.Contains(f.cols, s.Ordinal)) {
			same[s.Ordinal] = true
			continue
		}
		out = append(out, s)
	}
	return out, same
}

// onUpdate adds the values of the columns with ON UPDATE that an update does not assign. given are further ones that it does not touch, by ordinal.
func (b *builder) onUpdate(t *catalog.Table, set []opt.SetItem, given map[int]bool) []opt.SetItem {
	for i := range t.Columns {
		col := &t.Columns[i]
		if col.OnUpdate == "" || col.State != catalog.Public || given[i] || slices.ContainsFunc(set, func(s opt.SetItem) bool { return s.Ordinal == i }) {
			continue
		}
		set = append(set, opt.SetItem{Ordinal: i, Expr: b.assign(b.stored(t, col.OnUpdate, nil), col, nil)})
	}
	return set
}
