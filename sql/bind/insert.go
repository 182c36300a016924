package bind

import (
	"slices"

	"github.com/cockroachdb/cockroachdb-parser/pkg/sql/sem/tree"

	"meridian/sql/catalog"
	"meridian/sql/opt"
	"meridian/sql/scalar"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// mayWrite refuses explicit values for generated and identity columns. As in PostgreSQL, the error names the column and no position.
func (b *builder) mayWrite(c *catalog.Column, insert bool) {
	switch {
	case c.Generated != "":
		msg := "cannot insert a non-DEFAULT value into column \"%s\""
		if !insert {
			msg = "column \"%s\" can only be updated to DEFAULT"
		}
		raise(sqlstate.New("428C9", msg, c.Name).WithDetail("Column \"%s\" is a generated column.", c.Name))
	case c.Identity == 'a' && (!insert || b.stmt.Overriding == ""):
		e := sqlstate.New("428C9", "cannot insert a non-DEFAULT value into column \"%s\"", c.Name)
		if !insert {
			e.Message = "column \"" + c.Name + "\" can only be updated to DEFAULT"
		} else {
			e.WithHint("Use OVERRIDING SYSTEM VALUE to override.")
		}
		raise(e.WithDetail("Column \"%s\" is an identity column defined as GENERATED ALWAYS.", c.Name))
	}
}

func isUpsert(oc *tree.OnConflict) bool { return oc.IsUpsertAlias() }

// insert binds INSERT and UPSERT.
func (b *builder) insert(n *tree.Insert, sc *scope) output {
	withs := b.with(n.With, sc)
	t, alias, _ := b.target(n.Table, "INSERT")
	sc.level.seen = append(sc.level.seen, &scope{rels: []*relation{targetRelation(t, alias)}})
	var targets []int
	explicit := len(n.Columns) > 0
	for _, c := range n.Columns {
		o := b.columnTarget(t, c, sc)
		for _, x := range targets {
			if x == o {
				b.fail(sqlstate.DuplicateColumn, c, "column \"%s\" specified more than once", c)
			}
		}
		targets = append(targets, o)
	}
	if !explicit {
		for i := range t.Columns {
			if c := &t.Columns[i]; c.State == catalog.Public && !c.Hidden {
				targets = append(targets, i)
			}
		}
	}
	ins := &opt.Insert{Table: t}
	f := b.inference(t)
	written := b.insertSource(n, t, targets, explicit, sc, ins, f)
	if f != nil {
		b.inferInsert(f, ins)
	}
	var row *scope
	ins.New, row = b.newRow(t, alias)
	ins.Checks = b.checks(t, ins.New, alias)
	if n.OnConflict != nil {
		asked := b.onConflict(n.OnConflict, ins, t, alias, written, sc)
		if ins.Conflict != nil && ins.Conflict.DoUpdate {
			b.inferConflict(f, ins, ins.Conflict)
			b.commutingConflict(ins, ins.Conflict.Set[:asked], returns(n.Returning))
		}
	}
	out := b.returning(n.Returning, row, sc)
	ins.Returning = out.items
	return output{rel: wrapWith(withs, ins), cols: out.cols}
}

// insertSource builds Insert's input with one column for every table column that is written, defaults included. It
// returns the ordinals that the statement itself gives values for, and tells f, if it is not nil, whether the region is one of them.
func (b *builder) insertSource(n *tree.Insert, t *catalog.Table, targets []int, explicit bool, sc *scope, ins *opt.Insert, f *inference) []int {
	ins.Source = make([]opt.ColumnID, len(t.Columns))
	overrideUser := b.stmt.Overriding == "user"
	var rows []tree.Exprs
	switch {
	case n.DefaultValues():
		rows, targets = []tree.Exprs{{}}, nil
	case n.Rows.With == nil && len(n.Rows.OrderBy) == 0 && n.Rows.Limit == nil:
		if v, ok := n.Rows.Select.(*tree.ValuesClause); ok {
			rows = v.Rows
		}
	}
	if rows == nil {
		return b.insertSelect(n, t, targets, explicit, sc, ins, f)
	}
	width := len(rows[0])
	if width > len(targets) || width < len(targets) && explicit && !n.DefaultValues() {
		// An error within the expressions has precedence.
		b.exprs(&exprContext{scope: &scope{parent: sc.parent, level: sc.level, ctes: sc.ctes}, clause: "VALUES", allowDefault: true}, rows[0])
	}
	if !n.DefaultValues() {
		targets = b.insertWidth(targets, width, explicit, rows[0], n)
	}
	slots := insertSlots(t, targets)
	wants := b.regionDefaults(f, targets, rows)
	// A target that is generated may only be given DEFAULT.
	vals := &opt.Values{Rows: make([][]scalar.Expr, len(rows))}
	cells := make([]scalar.Expr, len(rows)*len(slots))
	c := &exprContext{scope: &scope{parent: sc.parent, level: sc.level, ctes: sc.ctes}, clause: "VALUES", allowDefault: true}
	defaults := make([]scalar.Expr, len(slots))
	def := func(k int) scalar.Expr {
		if defaults[k] == nil {
			defaults[k] = b.defaultOf(t, &t.Columns[slots[k].ordinal])
		}
		return defaults[k]
	}
	// The expressions are bound in the order in which they are written, and then they get their columns' types.
	written := make([]int, len(slots))
	for k := range slots {
		written[k] = k
	}
	slices.SortStableFunc(written, func(x, y int) int { return slots[x].value - slots[y].value })
	for i, r := range rows {
		if len(r) != width {
			var at any
			if len(r) > 0 {
				at = r[0]
			}
			b.fail(sqlstate.SyntaxError, at, "VALUES lists must all be the same length")
		}
		for j, o := range targets {
			if t.Columns[o].Generated != "" {
				if _, ok := r[j].(tree.DefaultVal); !ok {
					b.mayWrite(&t.Columns[o], true)
				}
			}
		}
		out := cells[i*len(slots) : (i+1)*len(slots) : (i+1)*len(slots)]
		for _, k := range written {
			s := slots[k]
			col := &t.Columns[s.ordinal]
			if s.value < 0 || overrideUser && col.Identity != 0 {
				out[k] = def(k)
				continue
			}
			out[k] = b.expr(c, r[s.value])
		}
		for _, k := range written {
			s := slots[k]
			col := &t.Columns[s.ordinal]
			if s.value < 0 || overrideUser && col.Identity != 0 {
				continue
			}
			if _, ok := out[k].(*scalar.Default); ok {
				out[k] = def(k)
				continue
			}
			b.mayWrite(col, true)
			out[k] = b.assign(out[k], col, r[s.value])
		}
		if wants >= 0 {
			out = append(out, &scalar.Const{Value: types.NewBool(askDefault(rows[i:i+1], wants) > 0), T: types.Bool})
		}
		vals.Rows[i] = out
	}
	for _, s := range slots {
		col := &t.Columns[s.ordinal]
		id := b.meta.Add(opt.ColumnMeta{Name: col.Name, Type: col.Type})
		vals.Cols = append(vals.Cols, id)
		ins.Source[s.ordinal] = id
	}
	if wants >= 0 {
		vals.Cols = append(vals.Cols, f.flag)
	}
	ins.Input = vals
	b.generated(t, ins, f)
	return targets
}

// slot is the place of a column's value within a row of Values.
type slot struct {
	ordinal int
	value   int // index in the statement's row, or -1: the default
}

// insertSlots are the places of all columns that an INSERT writes.
func insertSlots(t *catalog.Table, targets []int) []slot {
	var slots []slot
	for i := range t.Columns {
		c := &t.Columns[i]
		if c.State != catalog.Public && c.State != catalog.WriteOnly || c.Generated != "" {
			continue
		}
		at := -1
		for j, o := range targets {
			if o == i {
				at = j
			}
		}
		if at < 0 && c.Default == "" {
			continue
		}
		slots = append(slots, slot{i, at})
	}
	return slots
}

// regionDefaults is the place of the region's values in the rows, if some of them are DEFAULT, or -1. f learns whether the region is given.
func (b *builder) regionDefaults(f *inference, targets []int, rows []tree.Exprs) int {
	wants := -1 // the place of the region's values in the rows, if some of them are DEFAULT
	if f != nil {
		if at := slices.Index(targets, f.region); at >= 0 {
			switch k := askDefault(rows, at); k {
			case 0:
				f.given = true
			case len(rows):
			default:
				f.given, wants = true, at
				f.flag = b.meta.Add(opt.ColumnMeta{Name: "infer", Type: types.Bool})
			}
		}
	}
	return wants
}

// insertWidth matches the number of values with the number of target columns.
func (b *builder) insertWidth(targets []int, width int, explicit bool, first tree.Exprs, n *tree.Insert) []int {
	if width > len(targets) {
		var at any
		if len(first) > len(targets) {
			at = first[len(targets)]
		}
		b.fail(sqlstate.SyntaxError, at, "INSERT has more expressions than target columns")
	}
	if width < len(targets) && explicit {
		b.fail(sqlstate.SyntaxError, n.Columns[width], "INSERT has more target columns than expressions")
	}
	return targets[:width]
}

// insertSelect is insertSource for a query.
func (b *builder) insertSelect(n *tree.Insert, t *catalog.Table, targets []int, explicit bool, sc *scope, ins *opt.Insert, f *inference) []int {
	q := b.selectQuery(n.Rows, b.nested(sc), true)
	var first tree.Exprs
	if c, ok := n.Rows.Select.(*tree.SelectClause); ok && len(q.cols) > len(targets) && len(c.Exprs) > len(targets) {
		for _, e := range c.Exprs {
			first = append(first, e.Expr)
		}
	}
	targets = b.insertWidth(targets, len(q.cols), explicit, first, n)
	ts := make([]*types.T, len(targets))
	p := &opt.Project{}
	for i, o := range targets {
		col := &t.Columns[o]
		b.mayWrite(col, true)
		ts[i] = col.Type
		from := q.cols[i].t
		if from.Kind != types.KindUnknown && !types.CanCast(from, col.Type, types.CastAssignment) {
			raise(b.at(sqlstate.New(sqlstate.DatatypeMismatch, "column \"%s\" is of type %s but expression is of type %s", col.Name, col.Type.Name(), from.Name()).
				WithHint("You will need to rewrite or cast the expression."), targetExpr(n.Rows, i)))
		}
	}
	b.retype(&q, ts, types.CastAssignment)
	p.Input = q.rel
	overrideUser := b.stmt.Overriding == "user"
	for i := range t.Columns {
		c := &t.Columns[i]
		if c.State != catalog.Public && c.State != catalog.WriteOnly || c.Generated != "" {
			continue
		}
		given := -1
		for j, o := range targets {
			if o == i {
				given = j
			}
		}
		if given >= 0 && !(overrideUser && c.Identity != 0) {
			id := q.cols[given].id
			if containsID(ins.Source, id) {
				// One input column gives the values of two table columns.
				n := b.meta.Add(opt.ColumnMeta{Name: c.Name, Type: c.Type})
				p.Items = append(p.Items, opt.ProjectItem{Col: n, Expr: &scalar.Column{ID: id, T: c.Type, Name: c.Name}})
				id = n
			} else {
				p.Pass = append(p.Pass, id)
			}
			ins.Source[i] = id
			continue
		}
		if c.Default == "" {
			continue
		}
		id := b.meta.Add(opt.ColumnMeta{Name: c.Name, Type: c.Type})
		p.Items = append(p.Items, opt.ProjectItem{Col: id, Expr: b.defaultOf(t, c)})
		ins.Source[i] = id
	}
	ins.Input = p
	if len(p.Items) == 0 {
		ins.Input = q.rel
	}
	if f != nil {
		f.given = slices.Contains(targets, f.region)
	}
	b.generated(t, ins, f)
	return targets
}

// generated computes stored generated columns over the other values of the row.
func (b *builder) generated(t *catalog.Table, ins *opt.Insert, f *inference) {
	var p *opt.Project
	for i := range t.Columns {
		c := &t.Columns[i]
		if c.Generated == "" || c.State != catalog.Public && c.State != catalog.WriteOnly {
			continue
		}
		if p == nil {
			p = &opt.Project{Input: ins.Input}
			if f != nil && f.flag != 0 {
				p.Pass = append(p.Pass, f.flag)
			}
			for _, id := range ins.Source {
				if id != 0 {
					p.Pass = append(p.Pass, id)
				}
			}
		}
		row := b.sourceScope(t, ins.Source, t.Name)
		x := b.assign(b.stored(t, c.Generated, row), c, nil)
		id := b.meta.Add(opt.ColumnMeta{Name: c.Name, Type: c.Type})
		p.Items = append(p.Items, opt.ProjectItem{Col: id, Expr: x})
		ins.Source[i] = id
	}
	if p != nil {
		ins.Input = p
	}
}

// sourceScope is a scope in which the values to be inserted are a row of the table; columns that are not written are NULL.
func (b *builder) sourceScope(t *catalog.Table, source []opt.ColumnID, alias string) *scope {
	r := &relation{alias: alias, row: t}
	s := &scope{level: &level{}, rels: []*relation{r}}
	for i := range t.Columns {
		c := &t.Columns[i]
		if c.State != catalog.Public {
			continue
		}
		col := column{name: c.Name, rel: r, id: source[i], t: c.Type, hidden: c.Hidden}
		if source[i] == 0 {
			col.expr = &scalar.Const{Value: types.Null, T: c.Type}
		}
		s.cols = append(s.cols, col)
	}
	return s
}

// onConflict binds ON CONFLICT and UPSERT. So many assignments of DO UPDATE are the client's.
func (b *builder) onConflict(oc *tree.OnConflict, ins *opt.Insert, t *catalog.Table, alias string, written []int, sc *scope) (asked int) {
	if isUpsert(oc) {
		b.upsert(ins, t, written)
		return 0
	}
	c := &opt.Conflict{DoUpdate: !oc.DoNothing}
	c.Arbiters = b.arbiters(oc, t)
	if oc.ArbiterPredicate != nil {
		// An index of all rows serves any part of them; the condition only has to be valid for the table.
		_, row := b.newRow(t, alias)
		b.boolean(&exprContext{scope: row, clause: "ON CONFLICT", noSubquery: true}, oc.ArbiterPredicate)
	}
	if len(oc.Columns) > 0 || oc.Constraint != "" {
		b.need(t, catalog.Select) // a conflict reveals that a row exists
	}
	ins.Conflict = c
	if oc.DoNothing {
		return 0
	}
	if len(c.Arbiters) == 0 {
		raise(sqlstate.New(sqlstate.SyntaxError, "ON CONFLICT DO UPDATE requires inference specification or constraint name").
			WithHint("For example, ON CONFLICT (column_name)."))
	}
	b.need(t, catalog.Update)
	existing, row := b.newRow(t, alias)
	c.Existing = existing
	excluded := b.sourceScope(t, ins.Source, "excluded")
	both := &scope{parent: sc.parent, level: sc.level, ctes: sc.ctes}
	both.add(row)
	both.add(excluded)
	ec := &exprContext{scope: both, clause: "ON CONFLICT"}
	set, same := changing(b.assignments(oc.Exprs, t, ec, nil), existing, b.inference(t))
	c.Set = b.onUpdate(t, set, same)
	c.Generated = b.generatedItems(t, ins.New, alias, c.Set)
	if oc.Where != nil {
		wc := &exprContext{scope: both, clause: "WHERE"}
		c.Where = scalar.Conjuncts(b.boolean(wc, oc.Where.Expr))
	}
	c.Checks = b.checks(t, ins.New, alias)
	return len(set)
}

// newScope is a scope in which the given identities are a row of the table.
func newScope(t *catalog.Table, ids []opt.ColumnID, alias string) *scope {
	r := &relation{alias: alias, table: t, row: t}
	s := &scope{level: &level{}, rels: []*relation{r}}
	for i := range t.Columns {
		if c := &t.Columns[i]; c.State == catalog.Public {
			s.cols = append(s.cols, column{name: c.Name, rel: r, id: ids[i], t: c.Type, hidden: c.Hidden})
		}
	}
	return s
}

// generatedItems computes the generated columns of a row that is changed. row are the columns that hold the row as assigned, one for each
// table column, and set the assignments. A column whose expression reads nothing that is assigned has its value already, as in PostgreSQL (ExecComputeStoredGenerated), unless it is
// being added: rows of before have none yet. An inferred region may be assigned yet.
func (b *builder) generatedItems(t *catalog.Table, row []opt.ColumnID, alias string, set []opt.SetItem) []opt.SetItem {
	inferred := t.Inferred() != nil
	var out []opt.SetItem
	for i := range t.Columns {
		col := &t.Columns[i]
		if col.Generated == "" || col.State != catalog.Public && col.State != catalog.WriteOnly {
			continue
		}
		e := b.assign(b.stored(t, col.Generated, newScope(t, row, alias)), col, nil)
		needed := col.State != catalog.Public
		scalar.Columns(e, func(id scalar.ColumnID) {
			o := slices.Index(row, id)
			needed = needed || o < 0 || assigned(set, o) != nil || inferred && t.Columns[o].ID == t.RegionColumn
		})
		if needed {
			out = append(out, opt.SetItem{Ordinal: i, Expr: e})
		}
	}
	return out
}

// upsert makes UPSERT a blind write if the statement gives every column, and otherwise INSERT ... ON CONFLICT on
// the primary key, which changes the given columns.
func (b *builder) upsert(ins *opt.Insert, t *catalog.Table, written []int) {
	b.need(t, catalog.Update|catalog.Select)
	if t.ImplicitPrimary {
		return // a new row never conflicts
	}
	given := map[int]bool{}
	for _, o := range written {
		given[o] = true
	}
	all := !t.ByRow() // the row that is replaced may be in another region
	for i := range t.Columns {
		c := &t.Columns[i]
		if c.State == catalog.Public && c.Generated == "" && !c.Hidden && !given[i] {
			all = false
		}
		if c.State == catalog.WriteOnly || c.OnUpdate != "" && !given[i] {
			all = false
		}
	}
	if all {
		ins.Upsert = true
		return
	}
	existing, _ := b.newRow(t, t.Name)
	c := &opt.Conflict{DoUpdate: true, Arbiters: []catalog.IndexID{t.Primary().ID}, Existing: existing}
	for _, o := range written {
		key := false
		for _, ic := range t.Primary().UserColumns() {
			key = key || ic.Column == t.Columns[o].ID
		}
		if !key && ins.Source[o] != 0 {
			c.Set = append(c.Set, opt.SetItem{Ordinal: o, Expr: &scalar.Column{ID: ins.Source[o], T: t.Columns[o].Type, Name: t.Columns[o].Name}})
		}
	}
	c.Set = b.onUpdate(t, c.Set, given)
	c.Generated = b.generatedItems(t, ins.New, t.Name, c.Set)
	c.Checks = b.checks(t, ins.New, t.Name)
	ins.Conflict = c
}

// noDeferrable refuses an arbiter whose check can be deferred.
func noDeferrable(t *catalog.Table, ix *catalog.Index) {
	if !ix.Deferrable || ix.State != catalog.Public {
		return
	}
	e := sqlstate.New(sqlstate.ObjectNotInPrerequisite, "ON CONFLICT does not support deferrable unique constraints/exclusion constraints as arbiters")
	e.Table, e.TableID, e.Constraint = t.Name, uint32(t.ID), ix.Name
	raise(e)
}

// arbiters finds the unique indexes that ON CONFLICT names.
func (b *builder) arbiters(oc *tree.OnConflict, t *catalog.Table) []catalog.IndexID {
	if oc.Constraint != "" {
		for i := range t.Indexes {
			ix := &t.Indexes[i]
			if ix.Name == string(oc.Constraint) {
				noDeferrable(t, ix)
			}
			if ix.Name == string(oc.Constraint) && ix.Unique && ix.State == catalog.Public {
				return []catalog.IndexID{ix.ID}
			}
		}
		b.fail(sqlstate.UndefinedObject, oc.Constraint, "constraint \"%s\" for table \"%s\" does not exist", oc.Constraint, t.Name)
	}
	if len(oc.Columns) == 0 {
		for i := range t.Indexes {
			noDeferrable(t, &t.Indexes[i])
		}
		return nil
	}
	want := map[catalog.ColumnID]bool{}
	for _, c := range oc.Columns {
		col := t.ColumnByName(string(c))
		if col == nil {
			e := sqlstate.New(sqlstate.UndefinedColumn, "column \"%s\" does not exist", c)
			if b.home == nil {
				p := b.places()
				e.Position = p.Pos(p.Opening(p.Of(string(c)))) // that of the list
			}
			raise(e)
		}
		want[col.ID] = true
	}
	var out []catalog.IndexID
	for i := range t.Indexes {
		ix := &t.Indexes[i]
		if !ix.Unique && !ix.Deferrable || ix.State != catalog.Public || ix.Predicate != "" {
			continue
		}
		if coversKey(ix.Columns, want) || coversKey(ix.UserColumns(), want) {
			noDeferrable(t, ix)
			out = append(out, ix.ID)
		}
	}
	if len(out) == 0 {
		raise(sqlstate.New(sqlstate.InvalidColumnReference, "there is no unique or exclusion constraint matching the ON CONFLICT specification"))
	}
	return out
}

// coversKey reports whether key columns are those named.
func coversKey(key []catalog.IndexColumn, want map[catalog.ColumnID]bool) bool {
	for _, c := range key {
		if !want[c.Column] {
			return false
		}
	}
	return len(key) == len(want)
}
