package bind

import (
	"slices"
	"strings"

	"github.com/cockroachdb/cockroachdb-parser/pkg/sql/sem/tree"

	"meridian/kv"
	"meridian/sql/catalog"
	"meridian/sql/opt"
	"meridian/sql/scalar"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// from binds the FROM list into sc, which gains its columns; nil if there is none.
func (b *builder) from(tables tree.TableExprs, sc *scope) opt.Rel {
	var rel opt.Rel
	for _, t := range tables {
		r, part := b.tableExpr(t, sc, []*scope{sc})
		b.uniqueAliases(sc, part)
		if rel == nil {
			rel = r
		} else {
			rel = &opt.Join{Kind: opt.InnerJoin, Left: rel, Right: r, Lateral: part.lateralOf(sc)}
		}
		part.level = sc.level
		sc.add(part.scope)
	}
	return rel
}

// part is the result of one FROM item, with the columns of its neighbours that it reads.
type part struct {
	*scope
	reads []opt.ColumnID
	locks *lockList // of a subquery
}

// lateralOf reports whether the item reads columns of the neighbouring scope.
func (p part) lateralOf(s *scope) bool {
	for _, id := range p.reads {
		for i := range s.cols {
			if s.cols[i].id == id {
				return true
			}
			if s.cols[i].id == 0 && s.cols[i].expr != nil {
				found := false
				scalar.Columns(s.cols[i].expr, func(x opt.ColumnID) { found = found || x == id })
				if found {
					return true
				}
			}
		}
	}
	return false
}

func (b *builder) uniqueAliases(a *scope, p part) {
	for _, r := range p.rels {
		for _, o := range a.rels {
			if o.alias == r.alias && (o.bare == nil || r.bare == nil || o.bare.ID == r.bare.ID) {
				b.fail(sqlstate.DuplicateAlias, nil, "table name \"%s\" specified more than once", r.alias)
			}
		}
	}
}

// beside makes the scope in which a lateral item is bound: it sees the items before it, and then the names that the query sees.
func (b *builder) beside(sc *scope, lateral []*scope) *scope {
	if len(lateral) == 1 && lateral[0] == sc {
		return sc
	}
	s := &scope{parent: sc.parent, level: sc.level, ctes: sc.ctes}
	for _, l := range lateral {
		s.cols = append(s.cols, l.cols...)
		s.rels = append(s.rels, l.rels...)
	}
	return s
}

// tableExpr binds one FROM item. sc is the query's scope; lateral are the scopes of the items before it.
func (b *builder) tableExpr(t tree.TableExpr, sc *scope, lateral []*scope) (opt.Rel, part) {
	b.enter()
	defer b.leave()
	switch n := t.(type) {
	case *tree.AliasedTableExpr:
		return b.aliased(n, sc, lateral)
	case *tree.ParenTableExpr:
		return b.tableExpr(n.Expr, sc, lateral)
	case *tree.JoinTableExpr:
		return b.join(n, sc, lateral)
	case *tree.TableName:
		rel, p := b.namedTable(n, nil, sc)
		sc.level.seen = append(sc.level.seen, p.scope)
		return rel, p
	case *tree.Subquery:
		return b.derived(n.Select, sc, lateral, false)
	case *tree.RowsFromExpr:
		return b.rowsFrom(n, sc, lateral, false, &tree.AliasClause{})
	case *tree.StatementSource:
		b.writes = true
		inner := b.nested(sc)
		out := b.rowStatement(n.Statement, inner, nil)
		return out.rel, part{scope: outputScope(&out, ""), reads: inner.level.outer}
	}
	b.fail(sqlstate.FeatureNotSupported, nil, "this kind of FROM item is not supported")
	return nil, part{}
}

func outputScope(out *output, alias string) *scope {
	r := &relation{alias: alias}
	s := &scope{}
	if alias != "" {
		s.rels = []*relation{r}
	}
	s.cols = make([]column, len(out.cols))
	for i, c := range out.cols {
		s.cols[i] = column{name: c.name, rel: r, id: c.id, t: c.t, fields: c.fields}
	}
	return s
}

func (b *builder) aliased(n *tree.AliasedTableExpr, sc *scope, lateral []*scope) (opt.Rel, part) {
	var rel opt.Rel
	var p part
	switch e := n.Expr.(type) {
	case *tree.TableName:
		rel, p = b.namedTable(e, n, sc)
	case *tree.Subquery:
		rel, p = b.derived(e.Select, sc, lateral, n.Lateral)
		if n.As.Alias == "" {
			raise(sqlstate.New(sqlstate.SyntaxError, "subquery in FROM must have an alias").WithHint("For example, FROM (SELECT ...) [AS] foo."))
		}
		b.lockable(lockEntry{alias: string(n.As.Alias), query: p.locks})
	case *tree.RowsFromExpr:
		rel, p = b.rowsFrom(e, sc, lateral, n.Ordinality, &n.As)
		alias := string(n.As.Alias)
		if alias == "" && len(p.rels) > 0 {
			alias = p.rels[0].alias
		}
		b.lockable(lockEntry{alias: alias, kind: "a function"})
	case *tree.TableRef:
		b.fail(sqlstate.FeatureNotSupported, nil, "numeric table references are not supported")
	default:
		rel, p = b.tableExpr(n.Expr, sc, lateral)
		if n.As.Alias != "" {
			b.lockable(lockEntry{alias: string(n.As.Alias), kind: "a join"})
		}
	}
	if n.Ordinality {
		if _, ok := n.Expr.(*tree.RowsFromExpr); !ok {
			b.fail(sqlstate.FeatureNotSupported, nil, "WITH ORDINALITY is supported for functions only")
		}
	}
	if n.As.Alias != "" {
		b.alias(&p, n.As)
		if _, ok := n.Expr.(*tree.TableName); ok {
			for _, c := range p.cols {
				if c.id != 0 { // for EXPLAIN
					b.meta.Column(c.id).Alias = string(n.As.Alias)
				}
			}
		}
	}
	sc.level.seen = append(sc.level.seen, p.scope)
	return rel, p
}

// alias renames a FROM item and its columns.
func (b *builder) alias(p *part, as tree.AliasClause) {
	name := string(as.Alias)
	r := &relation{alias: name, joined: len(p.rels) > 1}
	if len(p.rels) == 1 {
		r.table, r.row, r.single = p.rels[0].table, p.rels[0].row, p.rels[0].single
	}
	visible := 0
	cols := make([]column, 0, len(p.cols))
	for _, c := range p.cols {
		if c.qualified {
			continue
		}
		c.rel = r
		if !c.hidden {
			if visible < len(as.Cols) {
				c.name = string(as.Cols[visible].Name)
				if k, ok := c.expr.(*scalar.Column); ok {
					c.expr = &scalar.Column{ID: k.ID, T: k.T, Name: c.name}
				}
			}
			visible++
		}
		cols = append(cols, c)
	}
	if len(as.Cols) > visible {
		b.fail(sqlstate.InvalidColumnReference, nil, "table \"%s\" has %d columns available but %d columns specified", name, visible, len(as.Cols))
	}
	p.scope = &scope{cols: cols, rels: []*relation{r}}
}

// namedTable binds a relation or common table expression by name.
func (b *builder) namedTable(n *tree.TableName, at *tree.AliasedTableExpr, sc *scope) (opt.Rel, part) {
	name := string(n.ObjectName)
	if !n.ExplicitSchema {
		for s := sc; s != nil; s = s.parent {
			if c := s.findCTE(name); c != nil {
				alias := name
				if at != nil && at.As.Alias != "" {
					alias = string(at.As.Alias)
				}
				b.lockable(lockEntry{alias: alias, kind: "a WITH query"})
				return b.scanCTE(c, sc)
			}
		}
	}
	t := b.table(n)
	b.text.resolved(n, t)
	b.need(t, catalog.Select)
	r := &relation{alias: t.Name, table: t, bare: t, row: t}
	alias := t.Name
	if at != nil && at.As.Alias != "" {
		alias = string(at.As.Alias)
	}
	if t.Kind == catalog.KindView {
		rel, p := b.view(t, r)
		b.lockable(lockEntry{alias: alias, query: p.locks, needs: []Access{{Table: t, As: b.as}}})
		return rel, p
	}
	rel, s := b.scan(t, r, false)
	if at != nil {
		if scan, ok := rel.(*opt.Scan); ok {
			if b.lockables != nil {
				b.lockables.entries[len(b.lockables.entries)-1].alias = alias
			}
			if f := at.IndexFlags; f != nil {
				b.indexHint(f)
				scan.ForceIndex = b.indexByName(t, string(f.Index)).ID
			}
		}
	}
	return rel, part{scope: s}
}

// indexHint refuses every hint of t@{...} but the name of an index.
func (b *builder) indexHint(f *tree.IndexFlags) {
	if f.Index != "" && f.IndexID == 0 && f.Direction == tree.DefaultDirection && !f.NoIndexJoin && !f.NoZigzagJoin && !f.NoFullScan && !f.AvoidFullScan &&
		!f.IgnoreForeignKeys && !f.IgnoreUniqueWithoutIndexKeys && !f.ForceInvertedIndex && !f.ForceZigzag && len(f.ZigzagIndexes)+len(f.ZigzagIndexIDs) == 0 && f.FamilyID == nil {
		return
	}
	raise(sqlstate.New(sqlstate.FeatureNotSupported, "this hint is not supported").WithHint("table@index names the index that is to be read."))
}

func (b *builder) indexByName(t *catalog.Table, name string) *catalog.Index {
	for i := range t.Indexes {
		if ix := &t.Indexes[i]; ix.State == catalog.Public && (ix.Name == name || name == "primary" && ix.Primary) {
			return ix
		}
	}
	b.fail(sqlstate.UndefinedObject, name, "index \"%s\" does not exist", name)
	return nil
}

// scan makes the columns of a stored or computed relation and reads it. With all, columns that are only written yet (WriteOnly)
// are read too, so that changes keep their values.
func (b *builder) scan(t *catalog.Table, r *relation, all bool) (opt.Rel, *scope) {
	b.charge(columnBytes * int64(len(t.Columns)))
	ids := make([]opt.ColumnID, len(t.Columns))
	s := &scope{rels: []*relation{r}, cols: make([]column, 0, len(t.Columns))}
	for i := range t.Columns {
		col := &t.Columns[i]
		seen := col.State == catalog.Public || b.Adding && t.Adding(col)
		if !seen && !(all && col.State == catalog.WriteOnly) {
			continue
		}
		ids[i] = b.meta.Add(opt.ColumnMeta{Name: col.Name, Type: col.Type, Table: t, Column: col.ID, Alias: r.alias, NotNull: col.NotNull})
		if seen {
			s.cols = append(s.cols, column{name: col.Name, rel: r, id: ids[i], t: col.Type, hidden: col.Hidden})
		}
	}
	if t.Kind == catalog.KindVirtual || t.Kind == catalog.KindSequence {
		b.lockable(lockEntry{alias: r.alias})
		return &opt.VirtualScan{Table: t, Cols: ids}, s
	}
	scan := &opt.Scan{Table: t, Cols: ids, Region: b.computedRegion(t, ids)}
	if all {
		// Rows that will be changed are locked before they are used, so that writers of one row queue instead of failing at commit.
		scan.Locking = opt.Locking{Strength: kv.Exclusive, Returned: true}
	}
	b.lockable(lockEntry{alias: r.alias, scan: scan, needs: []Access{{Table: t, As: b.as}}})
	return scan, s
}

// view expands a view: its stored query is bound in a source in which names mean what they meant when the view was made.
func (b *builder) view(t *catalog.Table, r *relation) (opt.Rel, part) {
	if b.views >= maxViews {
		b.fail(sqlstate.InvalidObjectDefinition, nil, "infinite recursion detected in rules for relation \"%s\"", t.Name)
	}
	defer func(was source, text *viewText) { b.source, b.text = was, text }(b.source, b.text)
	st := b.storedQuery(t.View)
	b.source, b.text = b.source.inView(t, st.stmt), nil
	out := b.selectQuery(st.sel, &scope{level: &level{}}, false)
	innerLock(out.rel)
	s := outputScope(&out, t.Name)
	s.rels[0] = r
	n := 0
	for i := range t.Columns {
		c := &t.Columns[i]
		if c.State != catalog.Public || c.Hidden {
			continue
		}
		if n < len(s.cols) {
			s.cols[n].name = c.Name
			n++
		}
	}
	s.cols = s.cols[:n]
	for i := range s.cols {
		s.cols[i].rel = r
	}
	return out.rel, part{scope: s, locks: out.locks}
}

func (b *builder) scanCTE(c *cte, sc *scope) (opt.Rel, part) {
	if c.inline != nil {
		inner := &scope{parent: c.scope.parent, level: &level{parent: sc.level}, ctes: c.scope.ctes}
		out := b.rowStatement(c.inline, inner, nil)
		b.nameColumns(c, &out)
		return out.rel, part{scope: outputScope(&out, c.name), reads: inner.level.outer}
	}
	if len(c.cols) == 0 {
		b.fail(sqlstate.FeatureNotSupported, c.name, "WITH query \"%s\" does not have a RETURNING clause", c.name)
	}
	sc.level.recursive = sc.level.recursive || c.recursing
	w := &opt.WithScan{ID: c.id, Name: c.name}
	r := &relation{alias: c.name}
	s := &scope{rels: []*relation{r}}
	for _, col := range c.cols {
		id := b.meta.Add(opt.ColumnMeta{Name: col.name, Type: col.t, Alias: c.name})
		w.Cols = append(w.Cols, id)
		s.cols = append(s.cols, column{name: col.name, rel: r, id: id, t: col.t})
	}
	return w, part{scope: s}
}

// derived binds a subquery in FROM.
func (b *builder) derived(q tree.SelectStatement, sc *scope, lateral []*scope, isLateral bool) (opt.Rel, part) {
	var inner *scope
	if isLateral {
		inner = b.beside(sc, lateral).child()
		inner.ctes = sc.ctes
	} else {
		inner = b.nested(sc)
	}
	var sel *tree.Select
	if p, ok := q.(*tree.ParenSelect); ok {
		sel = p.Select
	} else {
		sel = &tree.Select{Select: q}
	}
	out := b.selectQuery(sel, inner, false)
	innerLock(out.rel)
	return out.rel, part{scope: outputScope(&out, ""), reads: inner.level.outer, locks: out.locks}
}

// rowsFrom binds functions in FROM; several walk side by side.
func (b *builder) rowsFrom(n *tree.RowsFromExpr, sc *scope, lateral []*scope, ordinality bool, as *tree.AliasClause) (opt.Rel, part) {
	alias := string(as.Alias)
	beside := b.beside(sc, lateral)
	fsc := beside.child()
	fsc.ctes = sc.ctes
	c := &exprContext{scope: fsc, clause: "functions in FROM"}
	ps := &opt.ProjectSet{Input: oneRow()}
	s := &scope{}
	r := &relation{}
	var plain []opt.ProjectItem
	defined := len(as.Cols) > 0 && as.Cols[0].Type != nil
	if defined && ordinality {
		raise(b.at(sqlstate.New(sqlstate.SyntaxError, "WITH ORDINALITY cannot be used with a column definition list").
			WithHint("Put the column definition list inside ROWS FROM()."), as.Cols[0].Name))
	}
	for _, e := range n.Items {
		f, ok := unparen(e).(*tree.FuncExpr)
		if ok && f.WindowDef == nil {
			name := functionName(f)
			b.arrange(c, f)
			if r.alias == "" {
				r.alias = name
			}
			if x := b.recordCall(c, f, name, as); x != nil {
				if strings.HasSuffix(name, "recordset") {
					fn, cols := b.setFunc([]scalar.Expr{x}, "unnest", f)
					ps.Funcs = append(ps.Funcs, fn)
					s.cols = append(s.cols, cols...)
				} else {
					id := b.meta.Add(opt.ColumnMeta{Name: name, Type: x.Type()})
					plain = append(plain, opt.ProjectItem{Col: id, Expr: x})
					s.cols = append(s.cols, column{name: name, id: id, t: x.Type()})
				}
				continue
			}
			if b.Registry.IsSet(name) {
				args := b.callArgs(c, f.Exprs)
				if name == "unnest" && len(args) > 1 {
					for _, a := range args {
						fn, cols := b.setFunc([]scalar.Expr{a}, name, f)
						ps.Funcs = append(ps.Funcs, fn)
						s.cols = append(s.cols, cols...)
					}
					continue
				}
				fn, cols := b.setFunc(args, name, f)
				b.notRecord(as, cols)
				if len(cols) == 1 && cols[0].name == name && alias != "" && len(n.Items) == 1 {
					cols[0].name = alias
				}
				ps.Funcs = append(ps.Funcs, fn)
				s.cols = append(s.cols, cols...)
				continue
			}
		}
		// An ordinary function yields one row.
		x := b.known(b.expr(c, e), e)
		name, _ := b.figureName(e)
		if r.alias == "" {
			r.alias = name
		}
		if alias != "" && len(n.Items) == 1 {
			name = alias
		}
		b.notRecord(as, []column{{t: x.Type()}})
		id := b.meta.Add(opt.ColumnMeta{Name: name, Type: x.Type()})
		plain = append(plain, opt.ProjectItem{Col: id, Expr: x})
		s.cols = append(s.cols, column{name: name, id: id, t: x.Type()})
	}
	var rel opt.Rel = ps
	switch {
	case len(ps.Funcs) == 0:
		rel = &opt.Project{Input: oneRow(), Items: plain}
	case len(plain) > 0:
		// Next to a set, the value of an ordinary function would be in the first row only. Such calls are rare, and refused.
		b.fail(sqlstate.FeatureNotSupported, nil, "ROWS FROM with functions that return no set is not supported")
	}
	rel = b.spread(rel, s)
	if ordinality {
		id := b.meta.Add(opt.ColumnMeta{Name: "ordinality", Type: types.Int8, NotNull: true})
		if p, ok := rel.(*opt.Project); ok && len(ps.Funcs) == 0 {
			p.Items = append(p.Items, opt.ProjectItem{Col: id, Expr: &scalar.Const{Value: types.NewInt(1), T: types.Int8}})
		} else {
			ps.Funcs[0].Ordinality = id
		}
		s.cols = append(s.cols, column{name: "ordinality", id: id, t: types.Int8})
	}
	for i := range s.cols {
		s.cols[i].rel = r
	}
	r.single = len(s.cols) == 1
	s.rels = []*relation{r}
	return rel, part{scope: s, reads: fsc.level.outer}
}

// notRecord refuses a column definition list, if there is one, for a function whose columns are known.
func (b *builder) notRecord(as *tree.AliasClause, cols []column) {
	switch {
	case len(as.Cols) == 0 || as.Cols[0].Type == nil:
	case len(cols) == 1 && cols[0].t.Kind == types.KindTuple && cols[0].t.Names == nil && cols[0].t.Row == "":
		b.fail(sqlstate.FeatureNotSupported, as.Cols[0].Name, "a column definition list is not supported for rows of this function")
	case len(cols) == 1 && cols[0].t.Kind != types.KindTuple:
		b.fail(sqlstate.SyntaxError, as.Cols[0].Name, "a column definition list is only allowed for functions returning \"record\"")
	case len(cols) == 1 && cols[0].t.Row != "":
		b.fail(sqlstate.SyntaxError, as.Cols[0].Name, "a column definition list is redundant for a function returning a named composite type")
	default:
		b.fail(sqlstate.SyntaxError, as.Cols[0].Name, "a column definition list is redundant for a function with OUT parameters")
	}
}

// spread replaces columns that are rows with named fields by the fields, because a function's result in FROM stands for its columns.
func (b *builder) spread(rel opt.Rel, s *scope) opt.Rel {
	var p *opt.Project
	var cols []column
	for _, col := range s.cols {
		if col.t.Kind != types.KindTuple || len(col.t.Names) == 0 {
			cols = append(cols, col)
			continue
		}
		if p == nil {
			p = &opt.Project{Input: rel}
		}
		for i, name := range col.t.Names {
			id := b.meta.Add(opt.ColumnMeta{Name: name, Type: col.t.Fields[i]})
			p.Items = append(p.Items, opt.ProjectItem{Col: id, Expr: scalar.FieldAt(col.ref(), i)})
			cols = append(cols, column{name: name, id: id, t: col.t.Fields[i]})
		}
	}
	if p == nil {
		return rel
	}
	for i := range cols {
		if c := &cols[i]; c.t.Kind != types.KindTuple || len(c.t.Names) == 0 {
			known := false
			for _, it := range p.Items {
				known = known || it.Col == c.id
			}
			if !known {
				p.Pass = append(p.Pass, c.id)
			}
		}
	}
	s.cols = cols
	return p
}

// recordCall binds the functions of JSON whose rows have the type of their first argument, or the columns that AS lists; nil if
// the call is of another function.
func (b *builder) recordCall(c *exprContext, f *tree.FuncExpr, name string, as *tree.AliasClause) scalar.Expr {
	base, listed := strings.CutSuffix(name, "_to_record")
	suffix := "_populate_record"
	if !listed {
		if base, listed = strings.CutSuffix(name, "_to_recordset"); listed {
			suffix = "_populate_recordset"
		}
	}
	switch {
	case base != "json" && base != "jsonb" && listed:
		return nil
	case !listed && !slices.Contains([]string{"json_populate_record", "jsonb_populate_record", "json_populate_recordset", "jsonb_populate_recordset"}, name):
		return nil
	case !listed:
		return b.populateCall(c, f, name, as)
	case as == nil || len(as.Cols) == 0 || as.Cols[0].Type == nil:
		b.fail(sqlstate.SyntaxError, f, "a column definition list is required for functions returning \"record\"")
	}
	return b.call(base+suffix, append([]scalar.Expr{&scalar.Const{T: b.definedRow(as)}}, b.callArgs(c, f.Exprs)...), f)
}

// definedRow is the type of the rows whose columns AS lists with their types.
func (b *builder) definedRow(as *tree.AliasClause) *types.T {
	row := &types.T{Kind: types.KindTuple}
	for i, col := range as.Cols {
		if col.Type == nil { // the grammar of PostgreSQL has a type for each or for none
			next := ","
			if i == len(as.Cols)-1 {
				next = ")"
			}
			b.fail(sqlstate.SyntaxError, nil, "syntax error at or near \"%s\"", next)
		}
		t := b.typeRef(col.Type)
		if t.Kind != types.KindTuple {
			b.storable(string(col.Name), t, nil)
		}
		if slices.Contains(row.Names, string(col.Name)) {
			b.fail(sqlstate.DuplicateColumn, nil, "column name \"%s\" specified more than once", col.Name)
		}
		row.Fields = append(row.Fields, t)
		row.Names = append(row.Names, string(col.Name))
	}
	return row
}

// populateCall binds json_populate_record and its like, whose rows have the type of their first argument: a named one, or the columns that AS lists.
func (b *builder) populateCall(c *exprContext, f *tree.FuncExpr, name string, as *tree.AliasClause) scalar.Expr {
	args := b.callArgs(c, f.Exprs)
	defined := as != nil && len(as.Cols) > 0 && as.Cols[0].Type != nil
	if len(args) == 0 || args[0].Type().Kind != types.KindTuple || args[0].Type().Row != "" {
		x := b.call(name, args, f)
		if defined {
			b.fail(sqlstate.SyntaxError, as.Cols[0].Name, "a column definition list is redundant for a function returning a named composite type")
		}
		return x
	}
	if as == nil { // not in FROM
		return b.call(name, args, f)
	}
	if !defined {
		b.fail(sqlstate.SyntaxError, f, "a column definition list is required for functions returning \"record\"")
	}
	row, given := b.definedRow(as), args[0].Type()
	if k, ok := args[0].(*scalar.Const); ok && k.Value.IsNull() || len(given.Fields) == 0 {
		return b.call(name, append([]scalar.Expr{&scalar.Const{T: row}}, args[1:]...), f)
	}
	differs := sqlstate.New(sqlstate.DatatypeMismatch, "function return row and query-specified return row do not match")
	if len(given.Fields) != len(row.Fields) {
		what := "attributes"
		if len(given.Fields) == 1 {
			what = "attribute"
		}
		raise(differs.WithDetail("Returned row contains %d %s, but query expects %d.", len(given.Fields), what, len(row.Fields)))
	}
	ctor, ok := args[0].(*scalar.RowCtor)
	if !ok {
		b.fail(sqlstate.FeatureNotSupported, f, "a column definition list is not supported for this call of %s", name)
	}
	named := *given
	named.Names = nil
	for i, t := range given.Fields {
		named.Names = append(named.Names, "f"+itoa(i+1))
		if t.Kind == types.KindUnknown {
			t = types.Text
		}
		if !t.Bare().Equal(row.Fields[i].Bare()) {
			raise(differs.WithDetail("Returned type %s at ordinal position %d, but query expects %s.", t.Name(), i+1, row.Fields[i].Name()))
		}
	}
	with := *ctor
	with.T = &named
	return b.call(name, append([]scalar.Expr{&with}, args[1:]...), f)
}
