package bind

import (
	"github.com/cockroachdb/cockroachdb-parser/pkg/sql/sem/tree"
	"slices"

	"meridian/sql/opt"
	"meridian/sql/scalar"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// rowStatement binds a statement that yields rows, in its own scope; tag, if not nil, receives the command tag's verb.
func (b *builder) rowStatement(n tree.Statement, sc *scope, tag *string) output {
	set := func(t string) {
		if tag != nil {
			*tag = t
		}
	}
	switch n := n.(type) {
	case *tree.Select:
		set("SELECT")
		return b.selectQuery(n, sc, false)
	case *tree.ParenSelect:
		set("SELECT")
		return b.selectQuery(n.Select, sc, false)
	case *tree.Insert:
		set("INSERT")
		return b.insert(n, sc)
	case *tree.Update:
		set("UPDATE")
		return b.update(n, sc)
	case *tree.Delete:
		set("DELETE")
		return b.delete(n, sc)
	}
	b.fail(sqlstate.FeatureNotSupported, nil, "this statement is not supported here: %s", n.StatementTag())
	return output{}
}

// clausesOnce refuses clauses that stand both within and behind a query's parentheses, as PostgreSQL's grammar does.
func (b *builder) clausesOnce(n, in *tree.Select) {
	twice := func(what string) { b.fail(sqlstate.SyntaxError, nil, "multiple %s clauses not allowed", what) }
	for {
		limit := func(s *tree.Select) tree.Limit {
			if s.Limit == nil {
				return tree.Limit{}
			}
			return *s.Limit
		}
		outer, inner := limit(n), limit(in)
		switch {
		case len(n.OrderBy) > 0 && len(in.OrderBy) > 0:
			twice("ORDER BY")
		case outer.Offset != nil && inner.Offset != nil:
			twice("OFFSET")
		case (outer.Count != nil || outer.LimitAll) && (inner.Count != nil || inner.LimitAll):
			twice("LIMIT")
		case n.With != nil && in.With != nil:
			twice("WITH")
		}
		p, ok := in.Select.(*tree.ParenSelect)
		if !ok {
			return
		}
		in = p.Select
	}
}

// selectQuery binds a query expression with its WITH, ORDER BY and LIMIT. With keep, columns of untyped literals stay
// unknown, and the caller gives them a type (set operations, INSERT); otherwise they become text.
func (b *builder) selectQuery(n *tree.Select, sc *scope, keep bool) output {
	b.enter()
	defer b.leave()
	withs := b.with(n.With, sc)
	var out output
	switch s := n.Select.(type) {
	case *tree.SelectClause:
		out = b.selectClause(s, n, sc, keep)
	case *tree.ParenSelect:
		b.clausesOnce(n, s.Select)
		locked := b.locked
		b.locked = locked || len(n.Locking) > 0
		out = b.selectQuery(s.Select, b.nested(sc), keep)
		b.locked = locked
		for _, l := range n.Locking {
			b.lock(l, out.locks)
		}
		b.orderOutput(&out, n.OrderBy, false)
		if len(n.Locking) > 0 {
			out.rel = lockAbove(out.rel)
		}
		b.limit(&out, n.Limit, sc)
	case *tree.UnionClause:
		b.noLocking(n, notAllowed, "UNION/INTERSECT/EXCEPT")
		out = b.union(s, sc)
		out.locks = &lockList{refusal: "UNION/INTERSECT/EXCEPT"}
		b.orderOutput(&out, n.OrderBy, true)
		b.limit(&out, n.Limit, sc)
	case *tree.ValuesClause:
		b.noLocking(n, notApplied, "VALUES")
		out = b.values(s.Rows, sc, keep)
		out.locks = &lockList{}
		b.orderOutput(&out, n.OrderBy, false)
		b.limit(&out, n.Limit, sc)
	default:
		b.fail(sqlstate.FeatureNotSupported, nil, "this form of query is not supported")
	}
	out.rel = wrapWith(withs, out.rel)
	return out
}

// nested makes the scope of a query in the place of sc's query, one level deeper.
func (b *builder) nested(sc *scope) *scope {
	return &scope{parent: sc.parent, level: &level{parent: sc.level}, ctes: sc.ctes}
}

// item is one entry of a select list, or an ORDER BY expression that is not in it.
type item struct {
	name string
	expr scalar.Expr
	node tree.Expr
	id   opt.ColumnID // set when it has become a column
}

func (b *builder) selectClause(n *tree.SelectClause, stmt *tree.Select, sc *scope, keep bool) output {
	lv := sc.level
	if n.From.AsOf.Expr != nil {
		b.setAsOf(n.From.AsOf.Expr)
	}
	rel, list, locked := b.selectFrom(n, stmt, sc)
	if rel == nil {
		rel = oneRow()
	}
	b.defineWindows(n.Window, lv)
	// Bind everything over the FROM clause first; aggregates, windows and set-returning calls gather in the level.
	c := &exprContext{scope: sc, clause: "SELECT", aggs: true, window: true, sets: true}
	items := make([]item, 0, len(n.Exprs))
	for i := range n.Exprs {
		items = b.selectExpr(c, &n.Exprs[i], items, n)
		b.targets(len(items))
	}
	if b.text != nil {
		b.storeStars(n, items, sc)
	}
	visible := len(items)
	if n.Where != nil {
		rel = filter(rel, b.boolean(&exprContext{scope: sc, clause: "WHERE"}, n.Where.Expr))
	}
	groups := b.groupExprs(n.GroupBy, sc, items[:visible], n)
	var having scalar.Expr
	var condition tree.Expr
	if n.Having != nil {
		condition = n.Having.Expr
		hc := &exprContext{scope: sc, clause: "HAVING", aggs: true}
		having = b.boolean(hc, n.Having.Expr)
	}
	// The grammar sets Distinct for DISTINCT ON, too.
	distinct := n.Distinct && len(n.DistinctOn) == 0
	var distinctOn []int
	for _, e := range n.DistinctOn {
		var i int
		items, i = b.orderItem(c, e, items, visible, "DISTINCT ON", false)
		distinctOn = append(distinctOn, i)
	}
	items, orders := b.orderKeys(c, stmt.OrderBy, items, visible, distinct)
	if !keep {
		for i := range items {
			items[i].expr = b.known(items[i].expr, items[i].node)
		}
	}
	if len(groups) > 0 || having != nil || len(lv.aggs) > 0 {
		list.refusal = "aggregate functions"
		switch {
		case len(groups) > 0:
			list.refusal = "GROUP BY clause"
		case having != nil:
			list.refusal = "HAVING clause"
		}
		if !distinct && len(distinctOn) == 0 {
			for _, l := range stmt.Locking {
				b.mayLock(l, list) // this error has precedence over those of the columns
			}
		}
		rel = setsOfGroups(rel, lv, groups, items)
		rel = b.group(rel, sc, groups, items, &having, condition, len(n.GroupBy) == 0)
	}
	if having != nil {
		rel = filter(rel, having)
	}
	if len(lv.pending) > 0 {
		if list.refusal == "" {
			list.refusal = "window functions"
		}
		rel = b.windows(rel, lv, items)
	}
	early := false // DISTINCT ON is computed before the set-returning functions
	if len(lv.srfs) > 0 {
		if list.refusal == "" {
			list.refusal = "set-returning functions in the target list"
		}
		if early = len(distinctOn) > 0 && len(orders) > 0 && b.keysWithoutSets(lv.srfs, items, distinctOn, orders); early {
			rel = b.distinctBeforeSets(rel, n, items, distinctOn, orders)
		}
		rel = projectSets(rel, lv.srfs)
	}
	out := b.project(rel, items, visible, distinct, lv.outer)
	if distinct || len(distinctOn) > 0 {
		list.refusal = "DISTINCT clause"
	}
	for _, l := range stmt.Locking {
		b.lock(l, list)
	}
	out.locks = list
	var by []opt.OrderColumn
	for _, o := range orders {
		by = append(by, opt.OrderColumn{Col: items[o.item].id, Desc: o.o.Direction == tree.Descending, NullsFirst: nullsFirst(o.o)})
	}
	b.distinctRows(&out, n, items, by, distinct, distinctOn, early)
	b.sort(&out, by)
	if len(stmt.Locking) > 0 || locked && (len(by) > 0 || stmt.Limit != nil) {
		out.rel = &opt.Lock{Input: out.rel, Inner: locked}
	}
	b.limit(&out, stmt.Limit, sc)
	return out
}

// defineWindows gives a level the windows of a WINDOW clause.
func (b *builder) defineWindows(windows tree.Window, lv *level) {
	for _, w := range windows {
		if lv.defs == nil {
			lv.defs = map[string]*tree.WindowDef{}
		}
		if lv.defs[string(w.Name)] != nil {
			b.fail(sqlstate.WindowingError, w.Name, "window \"%s\" is already defined", w.Name)
		}
		lv.defs[string(w.Name)] = w
	}
}

// orderKeys binds ORDER BY. Keys that are not in the select list become further items.
func (b *builder) orderKeys(c *exprContext, by tree.OrderBy, items []item, visible int, distinct bool) ([]item, []order) {
	var orders []order
	for _, o := range by {
		b.byColumn(o)
		var i int
		items, i = b.orderItem(c, o.Expr, items, visible, "ORDER BY", distinct)
		if distinct && i >= visible {
			b.fail(sqlstate.InvalidColumnReference, o.Expr, "for SELECT DISTINCT, ORDER BY expressions must appear in select list")
		}
		orders = append(orders, order{i, o})
	}
	return items, orders
}

// distinctRows removes the rows that DISTINCT leaves out, and those of DISTINCT ON unless that is done (early).
func (b *builder) distinctRows(out *output, n *tree.SelectClause, items []item, by []opt.OrderColumn, distinct bool, distinctOn []int, early bool) {
	switch {
	case distinct:
		d := &opt.Distinct{Input: out.rel}
		for _, oc := range out.cols {
			b.comparable(oc.t, false, nil)
			d.On = appendID(d.On, oc.id)
		}
		out.rel = d
	case len(distinctOn) > 0 && !early:
		d := &opt.Distinct{Input: out.rel, OrderBy: by}
		for _, i := range distinctOn {
			d.On = appendID(d.On, items[i].id)
		}
		b.matchOrder(d, n)
		out.rel = d
	}
}

// selectFrom binds FROM, with the tables that may be locked. locked: a query around this one locks.
func (b *builder) selectFrom(n *tree.SelectClause, stmt *tree.Select, sc *scope) (rel opt.Rel, list *lockList, locked bool) {
	list = &lockList{}
	outer := b.lockables
	locked = b.locked
	b.lockables, b.locked = list, locked || len(stmt.Locking) > 0
	rel = b.from(n.From.Tables, sc)
	b.lockables, b.locked = outer, locked
	return rel, list, locked
}

// matchOrder checks that ORDER BY begins with the expressions of DISTINCT ON. The error is at the expression that comes behind another key, or not at all.
func (b *builder) matchOrder(d *opt.Distinct, n *tree.SelectClause) {
	seen := map[opt.ColumnID]bool{}
	other := false
	fail := func(id opt.ColumnID) {
		at := slices.Index(d.On, id)
		b.fail(sqlstate.InvalidColumnReference, n.DistinctOn[min(at, len(n.DistinctOn)-1)], "SELECT DISTINCT ON expressions must match initial ORDER BY expressions")
	}
	for _, o := range d.OrderBy {
		switch {
		case !containsID(d.On, o.Col):
			other = true
		case other && !seen[o.Col]:
			fail(o.Col)
		}
		seen[o.Col] = true
	}
	for _, id := range d.On {
		if other && !seen[id] {
			fail(id)
		}
	}
}

// keysWithoutSets reports whether no key of DISTINCT ON and ORDER BY comes from a set-returning function. Then PostgreSQL calls the
// functions only for the remaining rows, after it has sorted them.
func (b *builder) keysWithoutSets(sets []opt.SetFunc, items []item, on []int, orders []order) bool {
	made := func(i int) (yes bool) {
		scalar.Columns(items[i].expr, func(id opt.ColumnID) {
			for j := range sets {
				yes = yes || containsID(sets[j].Cols, id)
			}
		})
		return yes
	}
	for _, i := range on {
		if made(i) {
			return false
		}
	}
	for _, o := range orders {
		if made(o.item) {
			return false
		}
	}
	return true
}

// distinctBeforeSets computes the keys and keeps the first row of each group.
func (b *builder) distinctBeforeSets(rel opt.Rel, n *tree.SelectClause, items []item, on []int, orders []order) opt.Rel {
	p := &opt.Project{Input: rel}
	for id := range produced(rel) {
		p.Pass = append(p.Pass, id)
	}
	slices.Sort(p.Pass)
	key := func(i int) opt.ColumnID {
		it := &items[i]
		if c, ok := it.expr.(*scalar.Column); ok {
			return c.ID
		}
		id := b.meta.Add(opt.ColumnMeta{Name: it.name, Type: it.expr.Type()})
		p.Items = append(p.Items, opt.ProjectItem{Col: id, Expr: it.expr})
		it.expr = &scalar.Column{ID: id, T: it.expr.Type(), Name: it.name}
		return id
	}
	d := &opt.Distinct{Input: rel}
	for _, i := range on {
		d.On = appendID(d.On, key(i))
	}
	for _, o := range orders {
		d.OrderBy = append(d.OrderBy, opt.OrderColumn{Col: key(o.item), Desc: o.o.Direction == tree.Descending, NullsFirst: nullsFirst(o.o)})
	}
	if len(p.Items) > 0 {
		d.Input = p
	}
	b.matchOrder(d, n)
	return d
}

func oneRow() opt.Rel { return &opt.Values{Rows: [][]scalar.Expr{{}}} }

func filter(rel opt.Rel, cond scalar.Expr) opt.Rel {
	parts := scalar.Conjuncts(cond)
	if len(parts) == 0 {
		return rel
	}
	return &opt.Select{Input: rel, Filter: parts}
}

func appendID(ids []opt.ColumnID, id opt.ColumnID) []opt.ColumnID {
	if containsID(ids, id) {
		return ids
	}
	return append(ids, id)
}

func containsID(ids []opt.ColumnID, id opt.ColumnID) bool {
	for _, x := range ids {
		if x == id {
			return true
		}
	}
	return false
}

// selectExpr binds one entry of the select list, which may be a star.
func (b *builder) selectExpr(c *exprContext, e *tree.SelectExpr, items []item, clause *tree.SelectClause) []item {
	switch n := e.Expr.(type) {
	case tree.UnqualifiedStar:
		return b.star(c.scope, nil, items, e)
	case *tree.UnresolvedName:
		if n.Star {
			return b.star(c.scope, n, items, e)
		}
	case *tree.AllColumnsSelector:
		if n.TableName != nil {
			u := &tree.UnresolvedName{NumParts: n.TableName.NumParts + 1, Star: true}
			copy(u.Parts[1:], n.TableName.Parts[:n.TableName.NumParts])
			return b.star(c.scope, u, items, e)
		}
	case *tree.TupleStar:
		if f, ok := unparen(n.Expr).(*tree.FuncExpr); ok {
			if cols := b.setColumns(c, f); cols != nil {
				for i := range cols {
					items = append(items, item{name: cols[i].name, expr: cols[i].ref(), node: e.Expr})
				}
				return items
			}
		}
		if u, ok := unparen(n.Expr).(*tree.UnresolvedName); ok && u.NumParts < 4 && !u.Star {
			q := &tree.UnresolvedName{NumParts: u.NumParts + 1, Star: true}
			copy(q.Parts[1:], u.Parts[:u.NumParts])
			for s := c.scope; s != nil; s = s.parent {
				if b.findRelation(s, q) != nil {
					return b.star(c.scope, q, items, e)
				}
			}
		}
		row := b.expr(c, n.Expr)
		t := row.Type()
		if t.Kind != types.KindTuple {
			b.fail(sqlstate.WrongObjectType, n.Expr, "type %s is not composite", t.Name())
		}
		if r, ok := row.(*scalar.RowCtor); ok && t.Names == nil && scalar.VolatilityOf(r) != scalar.Volatile {
			for i, x := range r.Elems {
				items = append(items, item{name: "f" + itoa(i+1), expr: x, node: e.Expr})
			}
			return items
		}
		if len(t.Names) == 0 {
			b.fail(sqlstate.UndefinedObject, n.Expr, "record type has not been registered")
		}
		for i, name := range t.Names {
			items = append(items, item{name: name, expr: scalar.FieldAt(row, i), node: e.Expr})
		}
		return items
	}
	x := b.expr(c, e.Expr)
	name := string(e.As)
	if name == "" {
		name, _ = b.figureName(e.Expr)
	}
	return append(items, item{name: name, expr: x, node: e.Expr})
}

// targets refuses a list of more columns than a row may have, before its entries are compared with each other.
func (b *builder) targets(n int) {
	if n > maxTargets {
		raise(sqlstate.New(sqlstate.TooManyColumns, "target lists can have at most %d entries", maxTargets))
	}
}

// project computes the items that are not columns already.
func (b *builder) project(rel opt.Rel, items []item, visible int, exact bool, outer []opt.ColumnID) output {
	p := &opt.Project{Input: rel}
	computed := 0
	for i := range items {
		if _, ok := items[i].expr.(*scalar.Column); !ok {
			computed++
		}
	}
	if computed > 0 {
		p.Items = make([]opt.ProjectItem, 0, computed)
	}
	out := output{cols: make([]outColumn, visible)}
	for i := range items {
		it := &items[i]
		t := it.expr.Type()
		var slot *opt.ProjectItem
		if c, ok := it.expr.(*scalar.Column); ok {
			it.id = c.ID
			p.Pass = appendID(p.Pass, c.ID)
		} else {
			it.id = b.meta.Add(opt.ColumnMeta{Name: it.name, Type: t})
			p.Items = append(p.Items, opt.ProjectItem{Col: it.id, Expr: it.expr})
			slot = &p.Items[len(p.Items)-1]
		}
		if i < visible {
			out.cols[i] = outColumn{name: it.name, id: it.id, t: t, item: slot}
			if row, ok := it.expr.(*scalar.RowCtor); ok && !exact {
				for _, f := range b.rowFields[row] {
					p.Pass = appendID(p.Pass, f.id)
					out.cols[i].fields = append(out.cols[i].fields, f)
				}
			}
		}
	}
	out.rel = rel
	if computed > 0 || exact {
		// A column of an enclosing query can't be passed through; it is computed like an expression.
		if len(outer) > 0 {
			var foreign []opt.ColumnID
			pass := p.Pass[:0]
			for _, id := range p.Pass {
				if containsID(outer, id) {
					foreign = append(foreign, id)
				} else {
					pass = append(pass, id)
				}
			}
			p.Pass = pass
			for _, id := range foreign {
				b.outerAsItem(p, &out, items, id)
			}
		}
		out.rel = p
		return out
	}
	for _, id := range p.Pass {
		if containsID(outer, id) {
			return b.project(rel, items, visible, true, outer)
		}
	}
	return out
}

func (b *builder) outerAsItem(p *opt.Project, out *output, items []item, id opt.ColumnID) {
	m := b.meta.Column(id)
	n := b.meta.Add(opt.ColumnMeta{Name: m.Name, Type: m.Type})
	grown := append(p.Items, opt.ProjectItem{Col: n, Expr: &scalar.Column{ID: id, T: m.Type, Name: m.Name}})
	p.Items = grown
	for i := range out.cols {
		if out.cols[i].id == id {
			out.cols[i].id = n
		}
		if out.cols[i].item != nil {
			for j := range grown {
				if grown[j].Col == out.cols[i].id {
					out.cols[i].item = &grown[j]
				}
			}
		}
	}
	for i := range items {
		if items[i].id == id {
			items[i].id = n
		}
	}
}

// setAsOf binds AS OF SYSTEM TIME, once for the statement.
func (b *builder) setAsOf(e tree.Expr) {
	c := &exprContext{scope: &scope{level: &level{}}, clause: "AS OF SYSTEM TIME"}
	x := b.known(b.expr(c, e), e)
	if b.asOf != nil && !scalar.Equal(b.asOf, x) {
		b.fail(sqlstate.FeatureNotSupported, e, "cannot specify AS OF SYSTEM TIME with different timestamps")
	}
	b.asOf = x
}
