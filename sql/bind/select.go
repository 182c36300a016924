package bind

import (
	"strings"

	"github.com/cockroachdb/cockroachdb-parser/pkg/sql/sem/tree"

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

// selectQuery binds a query expression with its WITH, ORDER BY and LIMIT. With keep, columns of untyped literals stay
// unknown for the caller to type (set operations, INSERT); else they become text.
func (b *builder) selectQuery(n *tree.Select, sc *scope, keep bool) output {
	b.enter()
	defer b.leave()
	withs := b.with(n.With, sc)
	var out output
	switch s := n.Select.(type) {
	case *tree.SelectClause:
		out = b.selectClause(s, n, sc, keep)
	case *tree.ParenSelect:
		out = b.selectQuery(s.Select, b.nested(sc), keep)
		b.orderOutput(&out, n.OrderBy, false)
		b.limit(&out, n.Limit, sc)
	case *tree.UnionClause:
		b.noLocking(n, "UNION/INTERSECT/EXCEPT")
		out = b.union(s, sc, keep)
		b.orderOutput(&out, n.OrderBy, true)
		b.limit(&out, n.Limit, sc)
	case *tree.ValuesClause:
		b.noLocking(n, "VALUES")
		out = b.values(s.Rows, sc, keep)
		b.orderOutput(&out, n.OrderBy, false)
		b.limit(&out, n.Limit, sc)
	default:
		b.fail(sqlstate.FeatureNotSupported, nil, "this form of query is not supported")
	}
	out.rel = wrapWith(withs, out.rel)
	return out
}

// nested makes the scope of a query that stands where sc's query stands, one level further in.
func (b *builder) nested(sc *scope) *scope {
	return &scope{parent: sc.parent, level: &level{parent: sc.level}, ctes: sc.ctes}
}

func (b *builder) noLocking(n *tree.Select, what string) {
	for _, l := range n.Locking {
		b.fail(sqlstate.FeatureNotSupported, nil, "%s is not allowed with %s", l.Strength, what)
	}
}

// item is one entry of a select list, or an ORDER BY expression that is not in it.
type item struct {
	name string
	expr scalar.Expr
	node tree.Expr
	id   opt.ColumnID // once it is a column
}

// order is an ORDER BY entry: an index into the items.
type order struct {
	item int
	o    *tree.Order
}

func (b *builder) selectClause(n *tree.SelectClause, stmt *tree.Select, sc *scope, keep bool) output {
	lv := sc.level
	if n.From.AsOf.Expr != nil {
		b.setAsOf(n.From.AsOf.Expr)
	}
	firstScan := len(b.scans)
	rel := b.from(n.From.Tables, sc)
	if rel == nil {
		rel = oneRow()
	}
	for _, l := range stmt.Locking {
		b.lock(l, b.scans[firstScan:], sc)
	}
	if n.Where != nil {
		c := &exprContext{scope: sc, clause: "WHERE"}
		rel = filter(rel, b.boolean(c, n.Where.Expr))
	}
	for _, w := range n.Window {
		if lv.defs == nil {
			lv.defs = map[string]*tree.WindowDef{}
		}
		if lv.defs[string(w.Name)] != nil {
			b.fail(sqlstate.WindowingError, w.Name, "window \"%s\" is already defined", w.Name)
		}
		lv.defs[string(w.Name)] = w
	}
	// Bind everything over the FROM clause first; aggregates, windows and set-returning calls gather in the level.
	c := &exprContext{scope: sc, clause: "SELECT", aggs: true, window: true, sets: true}
	items := make([]item, 0, len(n.Exprs))
	for i := range n.Exprs {
		items = b.selectExpr(c, &n.Exprs[i], items, n)
	}
	if b.expandStar {
		b.storeStars(n, items, sc)
	}
	visible := len(items)
	groups := b.groupExprs(n.GroupBy, sc, items[:visible], n)
	var having scalar.Expr
	if n.Having != nil {
		hc := &exprContext{scope: sc, clause: "HAVING", aggs: true}
		having = b.boolean(hc, n.Having.Expr)
	}
	// The grammar says Distinct for DISTINCT ON, too.
	distinct := n.Distinct && len(n.DistinctOn) == 0
	var distinctOn []int
	for _, e := range n.DistinctOn {
		var i int
		items, i = b.orderItem(c, e, items, visible, "DISTINCT ON", false)
		distinctOn = append(distinctOn, i)
	}
	var orders []order
	for _, o := range stmt.OrderBy {
		if o.OrderType == tree.OrderByIndex {
			b.fail(sqlstate.FeatureNotSupported, nil, "ORDER BY INDEX is not supported")
		}
		var i int
		before := len(items)
		items, i = b.orderItem(c, o.Expr, items, visible, "ORDER BY", distinct)
		if distinct && i >= visible {
			b.fail(sqlstate.InvalidColumnReference, o.Expr, "for SELECT DISTINCT, ORDER BY expressions must appear in select list")
		}
		_ = before
		orders = append(orders, order{i, o})
	}
	if !keep {
		for i := range items {
			items[i].expr = b.known(items[i].expr, items[i].node)
		}
	}
	if len(groups) > 0 || having != nil || len(lv.aggs) > 0 {
		for _, l := range stmt.Locking {
			what := "GROUP BY clause"
			if len(groups) == 0 {
				what = "aggregate functions"
			}
			b.fail(sqlstate.FeatureNotSupported, nil, "%s is not allowed with %s", l.Strength, what)
		}
		rel = b.group(rel, sc, groups, items, &having, len(n.GroupBy) == 0)
	}
	if having != nil {
		rel = filter(rel, having)
	}
	if len(lv.pending) > 0 {
		rel = b.windows(rel, lv, items)
	}
	if len(lv.srfs) > 0 {
		rel = &opt.ProjectSet{Input: rel, Funcs: lv.srfs}
	}
	out := b.project(rel, items, visible, distinct, lv.outer)
	if distinct || len(distinctOn) > 0 {
		for _, l := range stmt.Locking {
			b.fail(sqlstate.FeatureNotSupported, nil, "%s is not allowed with DISTINCT clause", l.Strength)
		}
	}
	var by []opt.OrderColumn
	for _, o := range orders {
		by = append(by, opt.OrderColumn{Col: items[o.item].id, Desc: o.o.Direction == tree.Descending, NullsFirst: nullsFirst(o.o)})
	}
	switch {
	case distinct:
		d := &opt.Distinct{Input: out.rel}
		for _, oc := range out.cols {
			d.On = appendID(d.On, oc.id)
		}
		out.rel = d
	case len(distinctOn) > 0:
		d := &opt.Distinct{Input: out.rel, OrderBy: by}
		for _, i := range distinctOn {
			d.On = appendID(d.On, items[i].id)
		}
		seen := map[opt.ColumnID]bool{}
		for i, o := range by {
			if i >= len(d.On) && len(seen) == len(d.On) {
				break
			}
			if !containsID(d.On, o.Col) {
				b.fail(sqlstate.InvalidColumnReference, stmt.OrderBy[i].Expr, "SELECT DISTINCT ON expressions must match initial ORDER BY expressions")
			}
			seen[o.Col] = true
		}
		out.rel = d
	}
	b.sort(&out, by)
	b.limit(&out, stmt.Limit, sc)
	return out
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
			return b.star(c.scope, q, items, e)
		}
		b.fail(sqlstate.FeatureNotSupported, nil, "expanding this row value is not supported")
	}
	x := b.expr(c, e.Expr)
	name := string(e.As)
	if name == "" {
		name, _ = figureName(e.Expr)
	}
	return append(items, item{name: name, expr: x, node: e.Expr})
}

// star expands * and table.*.
func (b *builder) star(sc *scope, n *tree.UnresolvedName, items []item, e *tree.SelectExpr) []item {
	if n == nil {
		if len(sc.rels) == 0 && len(sc.cols) == 0 {
			b.fail(sqlstate.SyntaxError, e.Expr, "SELECT * with no tables specified is not valid")
		}
		for i := range sc.cols {
			if c := &sc.cols[i]; !c.hidden && !c.qualified {
				items = append(items, item{name: c.name, expr: c.ref(), node: e.Expr})
			}
		}
		return items
	}
	for s := sc; s != nil; s = s.parent {
		r := b.findRelation(s, n.Parts[1], n.Parts[2], n)
		if r == nil {
			continue
		}
		for i := range s.cols {
			c := &s.cols[i]
			if c.rel != r || c.hidden {
				continue
			}
			if s.level != sc.level {
				b.crossColumn(sc.level, s.level, c)
			}
			items = append(items, item{name: c.name, expr: c.ref(), node: e.Expr})
		}
		return items
	}
	b.missingFrom(sc, n.Parts[1], n)
	return nil
}

// storeStars writes the columns that stars stand for into the syntax tree, for the text of a view.
func (b *builder) storeStars(n *tree.SelectClause, items []item, sc *scope) {
	var out tree.SelectExprs
	i, changed := 0, false
	for k := range n.Exprs {
		e := n.Exprs[k]
		if i < len(items) && items[i].node == e.Expr && isStar(e.Expr) {
			for ; i < len(items) && items[i].node == e.Expr; i++ {
				u := &tree.UnresolvedName{NumParts: 1}
				u.Parts[0] = items[i].name
				for j := range sc.cols {
					if c := &sc.cols[j]; c.ref() == items[i].expr && c.rel != nil {
						u.NumParts = 2
						u.Parts[1] = c.rel.alias
					}
				}
				out = append(out, tree.SelectExpr{Expr: u})
			}
			changed = true
			continue
		}
		out = append(out, e)
		i++
	}
	if changed {
		n.Exprs = out
		n.TableSelect = false
	}
}

func isStar(e tree.Expr) bool {
	switch n := e.(type) {
	case tree.UnqualifiedStar, *tree.AllColumnsSelector, *tree.TupleStar:
		return true
	case *tree.UnresolvedName:
		return n.Star
	}
	return false
}

// figureName is the name of an output column without AS, as PostgreSQL derives it, and how good a name it is.
func figureName(e tree.Expr) (string, int) {
	switch n := e.(type) {
	case *tree.UnresolvedName:
		return n.Parts[0], 2
	case *tree.FuncExpr:
		name := functionName(n)
		if _, special := n.Func.FunctionReference.(*tree.FunctionDefinition); special {
			// The grammar's own names for special syntax.
			switch {
			case name == "strpos":
				name = "position"
			case strings.HasSuffix(name, "_escape"):
				return "?column?", 0
			}
		}
		return name, 2
	case *tree.ParenExpr:
		return figureName(n.Expr)
	case *tree.CastExpr:
		name, strength := figureName(n.Expr)
		if strength > 1 {
			return name, strength
		}
		return castName(n.Type), 1
	case *tree.AnnotateTypeExpr:
		return figureName(n.Expr)
	case *tree.CollateExpr:
		return figureName(n.Expr)
	case *tree.IndirectionExpr:
		return figureName(n.Expr)
	case *tree.ColumnAccessExpr:
		return string(n.ColName), 2
	case *tree.CaseExpr:
		if n.Else != nil {
			if name, strength := figureName(n.Else); strength > 1 {
				return name, strength
			}
		}
		return "case", 1
	case *tree.CoalesceExpr:
		return "coalesce", 2
	case *tree.NullIfExpr:
		return "nullif", 2
	case *tree.Array, *tree.ArrayFlatten:
		return "array", 2
	case *tree.Tuple:
		if n.Row {
			return "row", 2
		}
	case *tree.Subquery:
		if n.Exists {
			return "exists", 2
		}
		if name := subqueryName(n.Select); name != "" {
			return name, 2
		}
	}
	return "?column?", 0
}

func castName(ref tree.ResolvableTypeReference) string {
	switch r := ref.(type) {
	case *tree.UnresolvedObjectName:
		return r.Parts[0]
	}
	b := &builder{}
	name := "?column?"
	func() {
		defer func() { _ = recover() }()
		name = b.typeRef(ref).TypName()
	}()
	return name
}

// subqueryName is the name of a scalar subquery's column.
func subqueryName(s tree.SelectStatement) string {
	for {
		switch n := s.(type) {
		case *tree.ParenSelect:
			s = n.Select.Select
		case *tree.SelectClause:
			if len(n.Exprs) != 1 {
				return ""
			}
			if n.Exprs[0].As != "" {
				return string(n.Exprs[0].As)
			}
			name, _ := figureName(n.Exprs[0].Expr)
			return name
		case *tree.UnionClause:
			s = n.Left.Select
		default:
			return ""
		}
	}
}

// groupExpr is one GROUP BY entry.
type groupExpr struct {
	expr scalar.Expr
	id   opt.ColumnID
	t    *types.T
}

// groupExprs binds GROUP BY: positions, names (input columns first, then output names), expressions.
func (b *builder) groupExprs(gs tree.GroupBy, sc *scope, items []item, n *tree.SelectClause) []groupExpr {
	var out []groupExpr
	c := &exprContext{scope: sc, clause: "GROUP BY"}
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
		out = append(out, groupExpr{expr: x, t: x.Type()})
	}
	return out
}

// noAggregates refuses GROUP BY of an output column that contains an aggregate or a window function.
func (b *builder) noAggregates(lv *level, x scalar.Expr, at any) {
	scalar.Columns(x, func(id opt.ColumnID) {
		for i := range lv.aggs {
			if lv.aggs[i].Col == id {
				b.fail(sqlstate.GroupingError, at, "aggregate functions are not allowed in GROUP BY")
			}
		}
		for _, w := range lv.pending {
			if w.item.Col == id {
				b.fail(sqlstate.WindowingError, at, "window functions are not allowed in GROUP BY")
			}
		}
	})
}

// orderItem finds or adds the item that an ORDER BY or DISTINCT ON entry means.
func (b *builder) orderItem(c *exprContext, e tree.Expr, items []item, visible int, clause string, distinct bool) ([]item, int) {
	switch v := unparen(e).(type) {
	case *tree.NumVal:
		i, err := v.AsInt64()
		if err != nil {
			b.fail(sqlstate.SyntaxError, v, "non-integer constant in %s", clause)
		}
		if i < 1 || i > int64(visible) {
			b.fail(sqlstate.InvalidColumnReference, v, "%s position %d is not in select list", clause, i)
		}
		return items, int(i - 1)
	case *tree.StrVal:
		b.fail(sqlstate.SyntaxError, v, "non-integer constant in %s", clause)
	case *tree.UnresolvedName:
		if v.NumParts == 1 && !v.Star {
			found := -1
			for i := range visible {
				if items[i].name != v.Parts[0] {
					continue
				}
				if found >= 0 && !scalar.Equal(items[found].expr, items[i].expr) {
					b.fail(sqlstate.AmbiguousColumn, v, "%s \"%s\" is ambiguous", clause, v.Parts[0])
				}
				if found < 0 {
					found = i
				}
			}
			if found >= 0 {
				return items, found
			}
		}
	}
	oc := *c
	oc.clause = clause
	x := b.known(b.expr(&oc, e), e)
	for i := range items {
		if scalar.Equal(items[i].expr, x) {
			return items, i
		}
	}
	return append(items, item{expr: x, node: e}), len(items)
}

// group builds the grouping and rewrites the expressions above it.
func (b *builder) group(rel opt.Rel, sc *scope, groups []groupExpr, items []item, having *scalar.Expr, isScalar bool) opt.Rel {
	lv := sc.level
	g := &opt.GroupBy{Aggs: lv.aggs, Scalar: isScalar}
	var pre []opt.ProjectItem
	for i := range groups {
		ge := &groups[i]
		if col, ok := ge.expr.(*scalar.Column); ok {
			ge.id = col.ID
		} else {
			for j := range i {
				if scalar.Equal(groups[j].expr, ge.expr) {
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
		*having = r.rewrite(*having, nil)
	}
	for _, w := range lv.pending {
		for i := range w.item.Args {
			w.item.Args[i] = r.rewrite(w.item.Args[i], nil)
		}
		if w.item.Agg != nil {
			for i := range w.item.Agg.Args {
				w.item.Agg.Args[i] = r.rewrite(w.item.Agg.Args[i], nil)
			}
			if w.item.Agg.Filter != nil {
				w.item.Agg.Filter = r.rewrite(w.item.Agg.Filter, nil)
			}
		}
		for i := range w.partition {
			w.partition[i] = r.rewrite(w.partition[i], nil)
		}
		for i := range w.order {
			w.order[i].Expr = r.rewrite(w.order[i].Expr, nil)
		}
	}
	for i := range lv.srfs {
		for j := range lv.srfs[i].Args {
			lv.srfs[i].Args[j] = r.rewrite(lv.srfs[i].Args[j], nil)
		}
	}
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

// regrouper replaces grouped expressions by the grouping's columns, and refuses what is not grouped.
type regrouper struct {
	b      *builder
	sc     *scope
	groups []groupExpr
	g      *opt.GroupBy
	// whole are relations whose primary key is grouped: all their columns depend on it.
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
	if r.column(id) != nil {
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
			if g := &r.groups[i]; scalar.Equal(x, g.expr) {
				return &scalar.Column{ID: g.id, T: g.t}
			}
		}
		switch n := x.(type) {
		case *scalar.Column:
			r.allowed(n.ID, at)
		case *scalar.Subquery:
			for _, id := range n.Outer {
				r.allowed(id, nil)
			}
		}
		return x
	})
}

// allowed raises 42803 unless the column may stand above the grouping.
func (r *regrouper) allowed(id opt.ColumnID, at tree.Expr) {
	if containsID(r.g.Group, id) {
		return
	}
	c := r.column(id)
	if c == nil {
		return // an aggregate, a window, or an outer column
	}
	for _, w := range r.whole {
		if c.rel == w {
			r.g.Group = append(r.g.Group, id)
			return
		}
	}
	shown := c.name
	if c.rel != nil {
		shown = c.rel.alias + "." + c.name
	}
	e := sqlstate.New(sqlstate.GroupingError, "column \"%s\" must appear in the GROUP BY clause or be used in an aggregate function", shown)
	if r.b.home == nil {
		if c.rel != nil {
			if p := r.b.stmt.FindWord(c.rel.alias, 0); p > 0 && r.b.stmt.FindText(c.rel.alias+"."+c.name, 0) > 0 {
				e.Position = p
			}
		}
		if e.Position == 0 {
			switch u := at.(type) {
			case tree.UnqualifiedStar:
				e.Position = r.b.pos(u)
			case *tree.UnresolvedName:
				e.Position = r.b.pos(u)
			}
			if e.Position == 0 {
				e.Position = r.b.stmt.FindWord(c.name, 0)
			}
		}
	}
	raise(e)
}

// windows turns partition and order expressions into columns and computes the window functions.
func (b *builder) windows(rel opt.Rel, lv *level, items []item) opt.Rel {
	w := &opt.Window{}
	var pre []opt.ProjectItem
	col := func(e scalar.Expr) opt.ColumnID {
		if c, ok := e.(*scalar.Column); ok {
			return c.ID
		}
		for _, p := range pre {
			if scalar.Equal(p.Expr, e) {
				return p.Col
			}
		}
		id := b.meta.Add(opt.ColumnMeta{Name: "window", Type: e.Type()})
		pre = append(pre, opt.ProjectItem{Col: id, Expr: e})
		return id
	}
	for _, p := range lv.pending {
		for _, e := range p.partition {
			p.item.PartitionBy = appendID(p.item.PartitionBy, col(e))
		}
		for _, o := range p.order {
			p.item.OrderBy = append(p.item.OrderBy, opt.OrderColumn{Col: col(o.Expr), Desc: o.Desc, NullsFirst: o.NullsFirst})
		}
		w.Items = append(w.Items, p.item)
	}
	w.Input = rel
	if len(pre) > 0 {
		p := &opt.Project{Input: rel, Items: pre}
		have := produced(rel)
		pass := func(id opt.ColumnID) {
			if have[id] {
				p.Pass = appendID(p.Pass, id)
			}
		}
		for i := range items {
			scalar.Columns(items[i].expr, pass)
		}
		for i := range w.Items {
			it := &w.Items[i]
			for _, id := range it.PartitionBy {
				pass(id)
			}
			for _, o := range it.OrderBy {
				pass(o.Col)
			}
			for _, a := range it.Args {
				scalar.Columns(a, pass)
			}
			if it.Agg != nil {
				scalar.Columns(it.Agg, pass)
			}
		}
		for i := range lv.srfs {
			for _, a := range lv.srfs[i].Args {
				scalar.Columns(a, pass)
			}
		}
		w.Input = p
	}
	return w
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
		// A column that an enclosing query provides can't be passed; it is computed like an expression.
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

// sort orders the output.
func (b *builder) sort(out *output, by []opt.OrderColumn) {
	if len(by) == 0 {
		return
	}
	uniq := by[:0:0]
	for _, o := range by {
		dup := false
		for _, u := range uniq {
			dup = dup || u.Col == o.Col
		}
		if !dup {
			uniq = append(uniq, o)
		}
	}
	out.rel = &opt.Sort{Input: out.rel, By: uniq}
	out.order = uniq
}

// orderOutput applies ORDER BY to a query that has output columns only: positions and names, and expressions over
// them where the query is not a set operation.
func (b *builder) orderOutput(out *output, by tree.OrderBy, setOp bool) {
	if len(by) == 0 {
		return
	}
	sc := &scope{level: &level{}}
	for _, c := range out.cols {
		sc.cols = append(sc.cols, column{name: c.name, id: c.id, t: c.t})
	}
	items := make([]item, len(out.cols))
	for i := range out.cols {
		items[i] = item{name: out.cols[i].name, expr: sc.cols[i].ref(), id: out.cols[i].id}
	}
	c := &exprContext{scope: sc, clause: "ORDER BY"}
	var cols []opt.OrderColumn
	p := &opt.Project{Input: out.rel}
	for _, o := range by {
		var i int
		before := len(items)
		if setOp {
			if _, ok := unparen(o.Expr).(*tree.NumVal); !ok {
				u, ok := unparen(o.Expr).(*tree.UnresolvedName)
				if !ok || u.NumParts != 1 {
					raise(b.at(sqlstate.New(sqlstate.FeatureNotSupported, "invalid UNION/INTERSECT/EXCEPT ORDER BY clause").
						WithDetail("Only result column names can be used, not expressions or functions.").
						WithHint("Add the expression/function to every SELECT, or move the UNION into a FROM clause."), o.Expr))
				}
			}
		}
		items, i = b.orderItem(c, o.Expr, items, len(out.cols), "ORDER BY", false)
		if i >= before {
			items[i].id = b.meta.Add(opt.ColumnMeta{Name: "order", Type: items[i].expr.Type()})
			p.Items = append(p.Items, opt.ProjectItem{Col: items[i].id, Expr: items[i].expr})
		}
		cols = append(cols, opt.OrderColumn{Col: items[i].id, Desc: o.Direction == tree.Descending, NullsFirst: nullsFirst(o)})
	}
	if len(p.Items) > 0 {
		for _, c := range out.cols {
			p.Pass = appendID(p.Pass, c.id)
		}
		out.rel = p
	}
	b.sort(out, cols)
}

// limit applies LIMIT and OFFSET.
func (b *builder) limit(out *output, l *tree.Limit, sc *scope) {
	if l == nil || l.Count == nil && l.Offset == nil {
		return
	}
	bindCount := func(e tree.Expr, what string) scalar.Expr {
		if e == nil || e == tree.DNull {
			return nil
		}
		c := &exprContext{scope: sc, clause: what}
		x := b.expr(c, e)
		local := false
		scalar.Columns(x, func(id opt.ColumnID) {
			for i := range sc.cols {
				local = local || sc.cols[i].id == id
			}
		})
		if local {
			b.fail(sqlstate.InvalidColumnReference, e, "argument of %s must not contain variables", what)
		}
		t := x.Type()
		if t.Kind != types.KindUnknown && !types.CanCast(t, types.Int8, types.CastAssignment) {
			b.fail(sqlstate.DatatypeMismatch, e, "argument of %s must be type bigint, not type %s", what, t.Name())
		}
		x = b.coerce(x, types.Int8, types.CastAssignment, e)
		if k, ok := scalar.Fold(x).(*scalar.Const); ok {
			if k.Value.IsNull() {
				return nil
			}
			if k.Value.Int() < 0 {
				code := sqlstate.InvalidLimit
				if what == "OFFSET" {
					code = sqlstate.InvalidOffset
				}
				raise(sqlstate.New(code, "%s must not be negative", what))
			}
			return k
		}
		return x
	}
	n := &opt.Limit{Input: out.rel, Count: bindCount(l.Count, "LIMIT"), Offset: bindCount(l.Offset, "OFFSET")}
	if n.Count == nil && n.Offset == nil {
		return
	}
	out.rel = n
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
