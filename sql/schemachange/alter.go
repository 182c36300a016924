package schemachange

import (
	"errors"
	"slices"
	"strings"

	"meridian/kv"
	"meridian/sql/bind"
	"meridian/sql/catalog"
	"meridian/sql/exec"
	"meridian/sql/rowcode"
	"meridian/sql/scalar"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
	"meridian/txn"
)

func (c *change) alterTable(s *bind.AlterTable) error {
	c.notices(s.Notices)
	if s.Table == nil {
		return nil
	}
	if s.Index != "" {
		if err := c.mustOwnIndex(s.Table, s.Index, false); err != nil {
			return err
		}
	}
	if err := c.mustOwn(s.Table.ID); err != nil {
		return err
	}
	c.hook()
	if err := c.underProtocol(s); err != nil {
		return err
	}
	if slices.ContainsFunc(s.Actions, inSteps) && (!c.Alone || !reverts(s.Actions)) {
		// The actions are made at once, while no other transaction uses the table, so that all of them commit or none
		// (schemachange.SC5).
		ids := []catalog.ID{s.Table.ID}
		for _, a := range s.Actions {
			if k, ok := a.(*bind.AddConstraint); ok && k.Constraint.Kind == bind.ForeignKey && k.Constraint.RefTable != nil {
				ids = append(ids, k.Constraint.RefTable.ID)
			}
		}
		if err := c.lock(ids...); err != nil {
			return err
		}
	}
	if t := c.current(s.Table.ID); t != nil && relocates(t, s.Actions) && (!c.Alone || len(s.Actions) > 1) {
		if err := c.lock(s.Table.ID); err != nil {
			return err
		}
	}
	if c.rewritesHere(s) || c.dropsKey(c.current(s.Table.ID), s.Actions) {
		if err := c.lock(s.Table.ID); err != nil {
			return err
		}
	}
	t := c.Catalog.Table(s.Table.ID)
	if t == nil {
		return sqlstate.New(sqlstate.UndefinedTable, "relation \"%s\" does not exist", s.Table.Name)
	}
	if err := c.awaitRewrite(t); err != nil {
		return err
	}
	r := c.retype(t, s.Actions)
	for _, a := range s.Actions {
		if err := r.alter(a); err != nil {
			return err
		}
	}
	if err := c.mayReadAll(t); err != nil {
		return err
	}
	return mayInfer(t)
}

// inSteps reports whether an action takes several versions of the table, or has to check rows that others have written.
func inSteps(action bind.AlterAction) bool {
	switch action.(type) {
	case *bind.AddColumn, *bind.DropColumn, *bind.AddConstraint, *bind.DropConstraint, *bind.ValidateConstraint, *bind.AlterPrimaryKey, *bind.SetNotNull:
		return true
	}
	return false
}

// reverts reports whether a job that carries out the actions undoes all of them if it fails. It does so for a single action.
func reverts(actions []bind.AlterAction) bool {
	if len(actions) == 1 || !slices.ContainsFunc(actions, mayFail) {
		return true
	}
	for _, action := range actions {
		switch a := action.(type) {
		case *bind.AddColumn:
			if a.Column.Sequence != nil {
				return false
			}
		case *bind.AddConstraint:
			if a.Constraint.NotValid {
				return false
			}
		case *bind.ValidateConstraint, *bind.SetNotNull, *bind.AlterPrimaryKey:
		default:
			return false
		}
	}
	return true
}

// mayFail reports whether the rows of a table may be in the way of an action.
func mayFail(action bind.AlterAction) bool {
	switch action.(type) {
	case *bind.AddConstraint, *bind.ValidateConstraint, *bind.SetNotNull, *bind.AlterPrimaryKey:
		return true
	}
	return false
}

// lock locks tables for the transaction until it ends.
func (c *change) lock(ids ...catalog.ID) error {
	return c.Catalog.Lock(c.ctx, ids, catalog.ExcludeAll, kv.Block)
}

// claim is lock, unless the statement is the whole transaction: then the change may go on after the commit, step by step.
func (c *change) claim(ids ...catalog.ID) error {
	if c.Alone {
		return nil
	}
	return c.lock(ids...)
}

// own reports whether no other transaction can use a table until this one ends (schemachange.SC3, schemachange.SC5): then changes of it are made
// at once.
func (c *change) own(t *catalog.Table) bool { return c.Catalog.Owns(t.ID) }

func (c *change) alter(t *catalog.Table, action bind.AlterAction) error {
	switch a := action.(type) {
	case *bind.AddColumn:
		return c.addColumn(t, a)
	case *bind.DropColumn:
		return c.dropColumn(t, a)
	case *bind.RenameColumn:
		return c.renameColumn(t, a)
	case *bind.RenameRelation:
		if err := c.must(t.Schema, catalog.Create); err != nil {
			return err
		}
		return c.renameRelation(t, a.To)
	case *bind.RenameConstraint:
		return c.renameConstraint(t, a)
	case *bind.AddConstraint:
		return c.addConstraint(t, &a.Constraint)
	case *bind.DropConstraint:
		return c.dropConstraint(t, a)
	case *bind.AlterConstraint:
		for i := range t.Foreign {
			if k := &t.Foreign[i]; k.Name == a.Name {
				if t.InterleavedBy(k.ID) && a.Deferrable {
					return sqlstate.New(sqlstate.FeatureNotSupported, "the foreign key of an interleaved table can't be deferrable").
						WithHint("A row is written when its parent is there.")
				}
				k.Deferrable, k.Deferred = a.Deferrable, a.Deferred
			}
		}
		return nil
	case *bind.ValidateConstraint:
		return c.validateConstraint(t, a.Name)
	case *bind.AlterPrimaryKey:
		if slices.ContainsFunc(t.Indexes, func(x catalog.Index) bool { return x.Key }) {
			return sqlstate.New(sqlstate.FeatureNotSupported, "a deferrable primary key cannot be replaced").WithHint("Drop its constraint first.")
		}
		return c.addPrimaryKey(t, &bind.IndexDef{Name: t.Primary().Name, Unique: true, Primary: true, Columns: a.Columns})
	case *bind.SetNotNull:
		return c.setNotNull(t, t.ColumnByName(a.Column))
	case *bind.DropNotNull:
		col := t.ColumnByName(a.Column)
		col.NotNull = false
		return nil
	case *bind.SetDefault:
		col := t.ColumnByName(a.Column)
		if err := keepsRowID(t, col, "cannot change the default of column \"%s\""); err != nil {
			return err
		}
		col.Default = a.Expr
		return nil
	case *bind.SetOnUpdate:
		t.ColumnByName(a.Column).OnUpdate = a.Expr
		return nil
	case *bind.SetLocality:
		if err := notInHierarchy(t, "SET LOCALITY"); err != nil {
			return err
		}
		return c.setLocality(t, a)
	case *bind.SetSchema:
		return c.setSchema(t, a.Schema)
	case *bind.OwnerTo:
		return c.ownerTo(t, a.Owner)
	case *bind.SetPartitioning:
		if t.Interleave != nil && a.Index == t.Primary().ID {
			return notInHierarchy(t, "PARTITION BY")
		}
		return setPartitioning(t, a)
	case *bind.SetOptions:
		if t.Options == nil {
			t.Options = map[string]string{}
		}
		for k, v := range a.Options {
			if v == "" {
				delete(t.Options, k)
			} else {
				t.Options[k] = v
			}
		}
		return nil
	case *bind.SetProtocol:
		if a.Protocol != t.Protocol {
			if err := notInHierarchy(t, "a change of the commit protocol"); err != nil {
				return err
			}
		}
		if !a.Protocol.Traits().Interleaving.Can() && t.Shared {
			return sqlstate.New(sqlstate.FeatureNotSupported, "table \"%s\" can't have the commit protocol %s", t.Name, a.Protocol).
				WithDetail("Rows of tables that were interleaved in it may still be among its own.").WithHint("Make a new table and copy the rows by INSERT ... SELECT.")
		}
		return c.setProtocol(t, a.Protocol)
	case *bind.SetBallots:
		t.Ballots = a.Ballots
		return nil
	case *bind.SetGamma:
		t.Gamma = a.Gamma
		return nil
	case *bind.InferRegion:
		if a.Constraint == "" {
			t.InferRegion = 0
			return nil
		}
		return inferRegion(t, a.Constraint)
	case *bind.DropIdentity:
		col := t.ColumnByName(a.Column)
		if col.Identity == 0 && a.IfExists {
			c.noticef(sqlstate.SuccessfulCompletion, "column \"%s\" of relation \"%s\" is not an identity column, skipping", col.Name, t.Name)
			return nil
		}
		if col.Identity == 0 {
			return sqlstate.New(sqlstate.ObjectNotInPrerequisite, "column \"%s\" of relation \"%s\" is not an identity column", col.Name, t.Name)
		}
		col.Identity, col.Default = 0, ""
		if col.OwnsSequence != 0 {
			c.drop(col.OwnsSequence)
			col.OwnsSequence = 0
		}
		return nil
	case *bind.AddIdentity:
		return c.addIdentity(t, a)
	case *bind.AlterIdentity:
		return c.alterIdentity(t, a)
	}
	return sqlstate.New(sqlstate.FeatureNotSupported, "this form of ALTER TABLE is not supported")
}

// isNew reports whether no other transaction can have used the table.
func (c *change) isNew(t *catalog.Table) bool { return c.Catalog.IsNew(t.ID) }

// empty reports whether the transaction sees no row in the table, and there is none. Of a table without leaseholders that can't be known.
func (c *change) empty(t *catalog.Table) (bool, error) {
	if !t.Traits().StableView.Can() && !c.isNew(t) {
		return false, nil
	}
	span, filter, err := ownRows(t)
	if err != nil {
		return false, err
	}
	rows, _, err := c.kv.Scan(c.ctx, txn.ScanOptions{Span: span, MaxRows: 1, Filter: filter})
	return len(rows) == 0, err
}

func (c *change) addColumn(t *catalog.Table, a *bind.AddColumn) error {
	if t.ColumnNameTaken(a.Column.Name) {
		if a.IfNotExists {
			c.noticef(sqlstate.DuplicateColumn, "column \"%s\" of relation \"%s\" already exists, skipping", a.Column.Name, t.Name)
			return nil
		}
		return sqlstate.New(sqlstate.DuplicateColumn, "column \"%s\" of relation \"%s\" already exists", a.Column.Name, t.Name)
	}
	if err := c.mayUse(a.Column.Type); err != nil {
		return err
	}
	col := bind.AppendColumn(t, &a.Column)
	if a.Column.Sequence != nil {
		if err := c.ownSequence(t, col, a.Column.Sequence); err != nil {
			return err
		}
	}
	empty, err := c.empty(t)
	if err != nil {
		return err
	}
	notNull := col.NotNull
	fill := c.fills(&a.Column)
	switch {
	case empty:
	case fill != "":
		// Each row has a value of its own. The transaction has locked the table (rewritesHere).
		t.Rewrite = &catalog.Rewrite{Columns: []catalog.RewriteColumn{{Column: col.ID, Type: col.Type, Expr: fill, Default: col.Default}}}
		if err := c.rewrite(t, false); err != nil {
			var se *sqlstate.Error
			if errors.As(err, &se) && se.Table != "" && se.Schema == "" {
				se.Schema = c.schemaName(t.Schema)
			}
			return err
		}
		return nil
	default:
		if err := c.missing(t, col); err != nil {
			return err
		}
		if notNull && !col.HasMissing {
			e := sqlstate.New(sqlstate.NotNullViolation, "column \"%s\" of relation \"%s\" contains null values", col.Name, t.Name)
			e.Schema, e.Table, e.Column = c.schemaName(t.Schema), t.Name, col.Name
			return e
		}
	}
	if !c.own(t) {
		t.Mutations = append(t.Mutations, catalog.Mutation{Kind: catalog.MutateColumn, ID: uint32(col.ID)})
	}
	return nil
}

// fills is the text of the expression that gives each row its own value of a column which is added; empty: all have the same.
func (c *change) fills(d *bind.ColumnDef) string {
	switch {
	case d.Generated != "":
		return d.Generated
	case d.Default == "":
		return ""
	case d.Sequence == nil:
		if e, err := c.Binder.Expr(c.ctx, d.Default, d.Type); err != nil || scalar.VolatilityOf(e) != scalar.Volatile {
			return "" // an error comes up again when the rows are filled
		}
	}
	return d.Default
}

// missing finds the value of rows that are older than the column: its default, computed once.
func (c *change) missing(t *catalog.Table, col *catalog.Column) error {
	if col.Default == "" {
		return nil
	}
	e, err := c.Binder.Expr(c.ctx, col.Default, col.Type)
	if err != nil {
		return err
	}
	d, err := evaluate(c.o.scalarContext(c.ctx, c.Info, c.Binder.Location), e)
	if err != nil {
		return err
	}
	if !d.IsNull() {
		col.Missing, col.HasMissing = types.FormatText(d, col.Type.Bare(), nil), true
	}
	return nil
}

// usesColumn reports whether an expression's text mentions an identifier.
func usesColumn(text, name string) bool { return renameIn(text, name, name+"\x00") != text }

// renameIn replaces an identifier in a text of SQL, outside of string literals.
func renameIn(text, from, to string) string {
	var b strings.Builder
	for i := 0; i < len(text); {
		switch ch := text[i]; {
		case ch == '\'':
			j := quotedEnd(text, i)
			b.WriteString(text[i:j])
			i = j
		case ch == '"':
			name, j := identifier(text, i)
			if name == from {
				b.WriteString(quoteIdent(to))
			} else {
				b.WriteString(text[i:j])
			}
			i = j
		case wordByte(ch):
			name, j := identifier(text, i)
			rest := strings.TrimLeft(text[j:], " ")
			call := strings.HasPrefix(rest, "(")
			cast := strings.HasSuffix(text[:i], "::")
			if strings.ToLower(name) == from && !call && !cast {
				b.WriteString(quoteIdent(to))
			} else {
				b.WriteString(text[i:j])
			}
			i = j
		default:
			b.WriteByte(ch)
			i++
		}
	}
	return b.String()
}

// quotedEnd is the end of the string literal or the quoted identifier that begins at i.
func quotedEnd(text string, i int) int {
	quote := text[i]
	escapes := quote == '\'' && i > 0 && strings.IndexByte("eEbB", text[i-1]) >= 0 && (i == 1 || !identByte(text[i-2]))
	for j := i + 1; j < len(text); j++ {
		switch {
		case escapes && text[j] == '\\':
			j++
		case text[j] != quote:
		case j+1 < len(text) && text[j+1] == quote:
			j++
		default:
			return j + 1
		}
	}
	return len(text)
}

// identifier reads the identifier, keyword or number that begins at i.
func identifier(text string, i int) (name string, end int) {
	if text[i] == '"' {
		end = quotedEnd(text, i)
		return strings.ReplaceAll(text[i+1:max(end-1, i+1)], `""`, `"`), end
	}
	for end = i; end < len(text) && (wordByte(text[end]) || text[end] == '$'); {
		end++
	}
	return text[i:end], end
}

// wordByte reports whether an identifier that is not quoted, a keyword or a number may begin with a byte.
func wordByte(ch byte) bool { return ch != '"' && ch != '$' && identByte(ch) }

func quoteIdent(name string) string { return scalar.QuoteIdent(name) }

func (c *change) dropColumn(t *catalog.Table, a *bind.DropColumn) error {
	col := t.ColumnByName(a.Name)
	if col == nil {
		if a.IfExists {
			c.noticef(sqlstate.SuccessfulCompletion, "column \"%s\" of relation \"%s\" does not exist, skipping", a.Name, t.Name)
			return nil
		}
		return sqlstate.New(sqlstate.UndefinedColumn, "column \"%s\" of relation \"%s\" does not exist", a.Name, t.Name)
	}
	if err := keepsRegion(t, col, "cannot drop column \"%s\""); err != nil {
		return err
	}
	if err := keepsRowID(t, col, "cannot drop column \"%s\""); err != nil {
		return err
	}
	if busy(t, col.ID) {
		return c.Catalog.JobFirst(t.ID) // an index without one of its columns can't be read, nor removed
	}
	on := "column " + a.Name + " of table " + c.name(t)
	var deps []dependent
	var us []user
	for _, id := range c.usedBy(t) {
		v := c.current(id)
		if v != nil && usesColumn(v.View, a.Name) {
			us = append(us, user{id: id, visit: func() {
				deps = append(deps, dependent{described(v) + " " + c.name(v), on, func() error { c.drop(id); return nil }})
				c.dependents(v, map[catalog.ID]bool{id: true}, &deps)
			}})
		}
	}
	for _, r := range t.ReferencedBy {
		child := t
		if r.Table != t.ID {
			child = c.current(r.Table)
		}
		if child == nil {
			continue
		}
		for i := range child.Foreign {
			k := &child.Foreign[i]
			if k.ID == r.Constraint && slices.Contains(k.RefColumns, col.ID) && !(child == t && slices.Contains(k.Columns, col.ID)) {
				d := dependent{"constraint " + k.Name + " on table " + c.name(child), on, func() error {
					return c.removeForeign(r.Table, r.Constraint)
				}}
				us = append(us, user{id: k.OID, visit: func() { deps = append(deps, d) }})
			}
		}
	}
	oldestFirst(us)
	for i := range t.Columns {
		if g := &t.Columns[i]; g.Generated != "" && g.ID != col.ID && g.State == catalog.Public && usesColumn(g.Generated, a.Name) {
			name := g.Name
			deps = append(deps, dependent{"column " + name + " of table " + c.name(t), on, func() error {
				return c.dropColumn(t, &bind.DropColumn{Name: name, Cascade: true})
			}})
		}
	}
	if len(deps) > 0 && !a.Cascade {
		return inTheWay(on, deps)
	}
	c.noticeCascade(deps)
	for _, d := range deps {
		if err := d.drop(); err != nil {
			return err
		}
	}
	col = t.ColumnByName(a.Name)
	id := col.ID
	for i := len(t.Foreign) - 1; i >= 0; i-- {
		if slices.Contains(t.Foreign[i].Columns, id) {
			if err := releaseInferred(t, &t.Foreign[i], on, a.Cascade); err != nil {
				return err
			}
			if err := c.removeForeign(t.ID, t.Foreign[i].ID); err != nil {
				return err
			}
		}
	}
	if inKey(t, id) {
		if err := c.dropPrimaryKey(t); err != nil {
			return err
		}
		col = t.Column(id)
	}
	t.Checks = slices.DeleteFunc(t.Checks, func(k catalog.Check) bool { return slices.Contains(k.Columns, id) })
	for i := len(t.Indexes) - 1; i > 0; i-- {
		x := &t.Indexes[i]
		if slices.ContainsFunc(x.Columns, func(k catalog.IndexColumn) bool { return k.Column == id }) || slices.Contains(x.Stored, id) ||
			x.Predicate != "" && usesColumn(x.Predicate, a.Name) {
			if err := c.removeIndex(t, x.ID); err != nil {
				return err
			}
		}
	}
	for _, s := range c.ownedSequences(t) {
		if seq := c.current(s); seq != nil && seq.Sequence.OwnerColumn == id {
			c.drop(s)
		}
	}
	if c.own(t) {
		return c.eraseColumn(t, id)
	}
	if i := slices.IndexFunc(t.Mutations, func(m catalog.Mutation) bool {
		return m.Kind == catalog.MutateColumn && m.ID == uint32(id) && m.Job == 0 && !m.Drop
	}); i >= 0 {
		t.Mutations = slices.Delete(t.Mutations, i, i+1)
		return c.eraseColumn(t, id)
	}
	// Invisible from here on; still written, with NULL, until no node uses the version that reads it.
	col.State, col.NotNull, col.Default, col.OnUpdate, col.OwnsSequence = catalog.WriteOnly, false, "", "", 0
	t.Mutations = append(t.Mutations, catalog.Mutation{Kind: catalog.MutateColumn, ID: uint32(id), Drop: true})
	return nil
}

// keepsRegion refuses a change of the column that has the regions of a table's rows, or will have them: keys of all indexes begin with it (schemachange.SC15).
func keepsRegion(t *catalog.Table, col *catalog.Column, what string) error {
	by := t.RegionColumn == col.ID || t.Relocation != nil && t.Relocation.Column == col.ID
	if !by && !slices.ContainsFunc(t.Indexes, func(x catalog.Index) bool { return x.Placed != nil && x.Placed.Column == col.ID }) {
		return nil
	}
	return sqlstate.New(sqlstate.InvalidTableDefinition, what, col.Name).
		WithDetail("It has the region of each row of table \"%s\", which is REGIONAL BY ROW.", t.Name).
		WithHint("Change the locality first: ALTER TABLE %s SET LOCALITY REGIONAL BY TABLE IN PRIMARY REGION, or GLOBAL.", quoteIdent(t.Name))
}

// keepsRowID refuses a change of the hidden column that is the key of a table without one.
func keepsRowID(t *catalog.Table, col *catalog.Column, what string) error {
	if !t.ImplicitPrimary || !col.Hidden || !inKey(t, col.ID) || t.RegionColumn == col.ID {
		return nil
	}
	return sqlstate.New(sqlstate.InvalidTableDefinition, what, col.Name).
		WithDetail("It is the hidden key of the rows of table \"%s\", which has no other.", t.Name).
		WithHint("ALTER TABLE %s ADD PRIMARY KEY (...) takes its place.", quoteIdent(t.Name))
}

// busy reports whether a job is removing an index that has a column.
func busy(t *catalog.Table, col catalog.ColumnID) bool {
	return slices.ContainsFunc(t.Mutations, func(m catalog.Mutation) bool {
		if m.Kind != catalog.MutateIndex || !m.Drop || m.Job == 0 {
			return false
		}
		x := t.Index(catalog.IndexID(m.ID))
		return x != nil && (slices.ContainsFunc(x.Columns, func(k catalog.IndexColumn) bool { return k.Column == col }) || slices.Contains(x.Stored, col) || slices.Contains(x.Suffix, col))
	})
}

// eraseColumn removes a column that is no longer used from the descriptor. Readers skip its values in rows.
func (c *change) eraseColumn(t *catalog.Table, id catalog.ColumnID) error {
	t.Columns = slices.DeleteFunc(t.Columns, func(k catalog.Column) bool { return k.ID == id })
	return nil
}

// refuseViews refuses to rename an object that the text of a view names.
func (c *change) refuseViews(t *catalog.Table, what, name string, uses func(text string) bool) error {
	for _, id := range c.usedBy(t) {
		if v := c.current(id); v != nil && uses(v.View) {
			return sqlstate.New(sqlstate.DependentObjectsExist, "cannot rename %s \"%s\" because view \"%s\" depends on it", what, name, v.Name).
				WithHint("Drop the view first, and create it again with the new name.")
		}
	}
	return nil
}

func (c *change) renameColumn(t *catalog.Table, a *bind.RenameColumn) error {
	col := t.ColumnByName(a.From)
	if col == nil {
		return sqlstate.New(sqlstate.UndefinedColumn, "column \"%s\" does not exist", a.From)
	}
	if t.ColumnNameTaken(a.To) {
		return sqlstate.New(sqlstate.DuplicateColumn, "column \"%s\" of relation \"%s\" already exists", a.To, t.Name)
	}
	if err := c.refuseViews(t, "column", a.From, func(text string) bool { return usesColumn(text, a.From) }); err != nil {
		return err
	}
	col.Name = a.To
	for i := range t.Checks {
		if slices.Contains(t.Checks[i].Columns, col.ID) {
			t.Checks[i].Expr = renameIn(t.Checks[i].Expr, a.From, a.To)
		}
	}
	for i := range t.Columns {
		t.Columns[i].Generated = renameIn(t.Columns[i].Generated, a.From, a.To)
	}
	for i := range t.Indexes {
		t.Indexes[i].Predicate = renameIn(t.Indexes[i].Predicate, a.From, a.To)
	}
	return nil
}

func (c *change) renameRelation(t *catalog.Table, to string) error {
	if taken, err := c.view.NameTaken(t.Database, t.Schema, to); err != nil {
		return err
	} else if taken != nil {
		return sqlstate.New(sqlstate.DuplicateTable, "relation \"%s\" already exists", to)
	}
	c.renameInViews(t, c.schemaName(t.Schema), to)
	t.Name = to
	return nil
}

func (c *change) schemaName(id catalog.ID) string {
	if d := c.Catalog.Descriptor(id); d != nil && d.Schema != nil {
		return d.Schema.Name
	}
	return "public"
}

// renameInViews rewrites the texts of views that read a relation, where its name is qualified. Its old name stays as
// the alias by which the rest of the text may refer to it.
func (c *change) renameInViews(t *catalog.Table, schema, name string) {
	for _, id := range c.usedBy(t) {
		if v := c.Catalog.Table(id); v != nil {
			v.View = renameRelation(v.View, [2]string{c.schemaName(t.Schema), t.Name}, [2]string{schema, name})
		}
	}
}

// renameRelation replaces a qualified name in the text of a view, as a name only: the contents of literals and quoted identifiers
// are chosen by the view's owner, with whose rights the view reads.
func renameRelation(text string, from, to [2]string) string {
	var b strings.Builder
	for i := 0; i < len(text); {
		ch := text[i]
		if ch == '\'' {
			j := quotedEnd(text, i)
			b.WriteString(text[i:j])
			i = j
			continue
		}
		if ch != '"' && !wordByte(ch) {
			b.WriteByte(ch)
			i++
			continue
		}
		first, end := identifier(text, i)
		second, after := "", end
		if begins := i == 0 || text[i-1] != '.'; begins && end+1 < len(text) && text[end] == '.' && (text[end+1] == '"' || wordByte(text[end+1])) {
			second, after = identifier(text, end+1)
		}
		if first != from[0] || second != from[1] || after == end {
			b.WriteString(text[i:end])
			i = end
			continue
		}
		i = after
		if strings.HasPrefix(text[i:], ".") {
			b.WriteString(quoteIdent(from[1])) // a column, now qualified by the alias
			continue
		}
		b.WriteString(quoteIdent(to[0]) + "." + quoteIdent(to[1]))
		if !strings.HasPrefix(text[i:], " AS ") {
			b.WriteString(" AS " + quoteIdent(from[1]))
		}
	}
	return b.String()
}

func identByte(ch byte) bool {
	return ch == '_' || ch == '$' || ch == '"' || ch >= 'a' && ch <= 'z' || ch >= 'A' && ch <= 'Z' || ch >= '0' && ch <= '9' || ch >= 0x80
}

func (c *change) renameIndex(s *bind.RenameIndex) error {
	if err := c.mustOwnIndex(s.Ref.Table, s.Ref.Index.Name, false); err != nil {
		return err
	}
	if err := c.must(s.Ref.Table.Schema, catalog.Create); err != nil {
		return err
	}
	c.hook()
	t := c.Catalog.Table(s.Ref.Table.ID)
	x := t.Index(s.Ref.Index.ID)
	if x == nil {
		return sqlstate.New(sqlstate.UndefinedTable, "relation \"%s\" does not exist", s.Ref.Index.Name)
	}
	return c.renameIndexTo(t, x, s.To)
}

func (c *change) renameIndexTo(t *catalog.Table, x *catalog.Index, to string) error {
	if taken, err := c.view.NameTaken(t.Database, t.Schema, to); err != nil {
		return err
	} else if taken != nil {
		return sqlstate.New(sqlstate.DuplicateTable, "relation \"%s\" already exists", to)
	}
	x.Name = to
	return nil
}

func (c *change) renameConstraint(t *catalog.Table, a *bind.RenameConstraint) error {
	if constraintNamed(t, a.To) {
		return sqlstate.New(sqlstate.DuplicateObject, "constraint \"%s\" for relation \"%s\" already exists", a.To, t.Name)
	}
	for i := range t.Indexes {
		if x := &t.Indexes[i]; (x.Constraint || x.Primary) && x.Name == a.From {
			return c.renameIndexTo(t, x, a.To)
		}
	}
	for i := range t.Checks {
		if t.Checks[i].Name == a.From {
			t.Checks[i].Name = a.To
			return nil
		}
	}
	for i := range t.Foreign {
		if t.Foreign[i].Name == a.From {
			t.Foreign[i].Name = a.To
			return nil
		}
	}
	return sqlstate.New(sqlstate.UndefinedObject, "constraint \"%s\" for table \"%s\" does not exist", a.From, t.Name)
}

func constraintNamed(t *catalog.Table, name string) bool {
	return slices.ContainsFunc(t.Checks, func(k catalog.Check) bool { return k.Name == name }) ||
		slices.ContainsFunc(t.Foreign, func(k catalog.ForeignKey) bool { return k.Name == name }) ||
		slices.ContainsFunc(t.Indexes, func(x catalog.Index) bool { return x.Constraint && x.Name == name })
}

func (c *change) addConstraint(t *catalog.Table, k *bind.ConstraintDef) error {
	if constraintNamed(t, k.Name) {
		return sqlstate.New(sqlstate.DuplicateObject, "constraint \"%s\" for relation \"%s\" already exists", k.Name, t.Name)
	}
	id, err := c.newID(t.Temporary())
	if err != nil {
		return err
	}
	switch k.Kind {
	case bind.PrimaryKey, bind.Unique:
		switch {
		case k.Deferrable:
			return c.addDeferrable(t, k)
		case k.Kind == bind.PrimaryKey:
			return c.addPrimaryKey(t, k.Index())
		}
		return c.addIndex(t, k.Index(), true)
	case bind.Check:
		ck := bind.AppendCheck(t, k, id)
		if k.NotValid {
			return nil
		}
		if c.own(t) {
			if empty, err := c.empty(t); err != nil || empty {
				return err
			}
			return c.checkRows(t, ck)
		}
		ck.State = catalog.WriteOnly
		t.Mutations = append(t.Mutations, catalog.Mutation{Kind: catalog.MutateCheck, ID: ck.ID})
		return nil
	case bind.ForeignKey:
		fk := bind.AppendForeignKey(t, k, id)
		if err := c.link(t, fk); err != nil {
			return err
		}
		if k.NotValid {
			return nil
		}
		if c.own(t) && (fk.RefTable == t.ID || c.Catalog.Owns(fk.RefTable)) {
			if empty, err := c.empty(t); err != nil || empty {
				return err
			}
			return c.o.validateForeign(c.ctx, c.kv, c.view, t, fk)
		}
		fk.State = catalog.WriteOnly
		t.Mutations = append(t.Mutations, catalog.Mutation{Kind: catalog.MutateForeignKey, ID: fk.ID})
		return nil
	}
	return sqlstate.New(sqlstate.FeatureNotSupported, "this constraint is not supported")
}

// addDeferrable adds a deferrable key to a table that the transaction has locked (rewritesHere). Its index accepts duplicates, so its rows are
// compared once it has been filled.
func (c *change) addDeferrable(t *catalog.Table, k *bind.ConstraintDef) error {
	if k.Kind == bind.PrimaryKey {
		for _, n := range k.Columns {
			if err := c.setNotNull(t, t.ColumnByName(n.Name)); err != nil {
				return err
			}
		}
	}
	if err := c.addIndex(t, k.Index(), true); err != nil {
		return err
	}
	return exec.FindDuplicate(c.ctx, c.kv, t, &t.Indexes[len(t.Indexes)-1])
}

// checkRows validates a check of a table that only this transaction can see.
func (c *change) checkRows(t *catalog.Table, k *catalog.Check) error {
	return c.o.validateCheck(c.ctx, c.kv, c.view, t, k)
}

func (c *change) validateConstraint(t *catalog.Table, name string) error {
	for i := range t.Checks {
		if k := &t.Checks[i]; k.Name == name {
			if k.State != catalog.Public && c.own(t) {
				if err := c.checkRows(t, k); err != nil {
					return err
				}
				k.State = catalog.Public
			} else if k.State != catalog.Public {
				t.Mutations = append(t.Mutations, catalog.Mutation{Kind: catalog.MutateCheck, ID: k.ID, Validate: true})
			}
			return nil
		}
	}
	for i := range t.Foreign {
		if k := &t.Foreign[i]; k.Name == name {
			if k.State != catalog.Public && c.own(t) {
				// Transactions that change the referenced table have enforced the constraint since it was made.
				if err := c.o.validateForeign(c.ctx, c.kv, c.view, t, k); err != nil {
					return err
				}
				k.State = catalog.Public
			} else if k.State != catalog.Public {
				t.Mutations = append(t.Mutations, catalog.Mutation{Kind: catalog.MutateForeignKey, ID: k.ID, Validate: true})
			}
			return nil
		}
	}
	if constraintNamed(t, name) {
		return sqlstate.New(sqlstate.WrongObjectType, "constraint \"%s\" of relation \"%s\" is not a foreign key or check constraint", name, t.Name)
	}
	return sqlstate.New(sqlstate.UndefinedObject, "constraint \"%s\" of relation \"%s\" does not exist", name, t.Name)
}

func (c *change) dropConstraint(t *catalog.Table, a *bind.DropConstraint) error {
	for i := range t.Checks {
		if k := t.Checks[i]; k.Name == a.Name {
			t.Checks = slices.Delete(t.Checks, i, i+1)
			dropMutations(t, func(m catalog.Mutation) bool { return m.Kind == catalog.MutateCheck && m.ID == k.ID })
			return nil
		}
	}
	for i := range t.Foreign {
		if t.Foreign[i].Name == a.Name {
			if err := releaseInferred(t, &t.Foreign[i], "constraint "+a.Name+" on table "+c.name(t), a.Cascade); err != nil {
				return err
			}
			return c.removeForeign(t.ID, t.Foreign[i].ID)
		}
	}
	for i := range t.Indexes {
		x := &t.Indexes[i]
		if x.Name != a.Name || !x.Constraint && !x.Primary {
			continue
		}
		if err := c.releaseKey(t, x, "constraint "+x.Name+" on table "+c.name(t), a.Cascade); err != nil {
			return err
		}
		if x.Primary {
			if err := notInHierarchy(t, "DROP CONSTRAINT of the primary key"); err != nil {
				return err
			}
			return c.dropPrimaryKey(t)
		}
		return c.removeIndex(t, x.ID)
	}
	if a.IfExists {
		c.noticef(sqlstate.SuccessfulCompletion, "constraint \"%s\" of relation \"%s\" does not exist, skipping", a.Name, t.Name)
		return nil
	}
	return sqlstate.New(sqlstate.UndefinedObject, "constraint \"%s\" of relation \"%s\" does not exist", a.Name, t.Name)
}

// releaseKey finds the foreign keys that need a unique index, and the views that group by a primary key, and drops them with CASCADE.
func (c *change) releaseKey(t *catalog.Table, x *catalog.Index, what string, cascade bool) error {
	if !x.Unique || x.Predicate != "" {
		return nil
	}
	var deps []dependent
	if x.Primary {
		for _, id := range c.usedBy(t) {
			if v := c.current(id); v != nil && slices.Contains(v.Keyed, t.ID) {
				deps = append(deps, dependent{described(v) + " " + c.name(v), what, func() error { c.drop(id); return nil }})
				c.dependents(v, map[catalog.ID]bool{id: true}, &deps)
			}
		}
	}
	for _, r := range t.ReferencedBy {
		child := t
		if r.Table != t.ID {
			child = c.current(r.Table)
		}
		if child == nil {
			continue
		}
		for i := range child.Foreign {
			k := &child.Foreign[i]
			if k.ID != r.Constraint || !sameColumns(x, k.RefColumns) || otherKey(t, x, k.RefColumns) {
				continue
			}
			deps = append(deps, dependent{"constraint " + k.Name + " on table " + c.name(child), "index " + c.indexName(t, x), func() error {
				return c.removeForeign(r.Table, r.Constraint)
			}})
		}
	}
	if len(deps) > 0 && !cascade {
		return inTheWay(what, deps)
	}
	c.noticeCascade(deps)
	for _, d := range deps {
		if err := d.drop(); err != nil {
			return err
		}
	}
	return nil
}

// sameColumns reports whether an index is one of some columns, with the region in front of them or without it.
func sameColumns(x *catalog.Index, cols []catalog.ColumnID) bool {
	of := func(ks []catalog.IndexColumn) bool {
		return len(ks) == len(cols) && !slices.ContainsFunc(ks, func(k catalog.IndexColumn) bool { return !slices.Contains(cols, k.Column) })
	}
	return of(x.Columns) || x.Implicit > 0 && of(x.UserColumns())
}

// otherKey reports whether columns are unique in a table by another index than x.
func otherKey(t *catalog.Table, x *catalog.Index, cols []catalog.ColumnID) bool {
	return slices.ContainsFunc(t.Indexes, func(o catalog.Index) bool { return o.ID != x.ID && isKey(&o, cols) })
}

// keepsKey refuses to replace a key by another one as long as foreign keys need the key.
func (c *change) keepsKey(t *catalog.Table, old, by *catalog.Index) error {
	for _, in := range c.incoming(t) {
		cols := in.key.RefColumns
		if !sameColumns(old, cols) || sameColumns(by, cols) || otherKey(t, old, cols) {
			continue
		}
		var names []string
		for _, id := range cols {
			if col := t.Column(id); col != nil {
				names = append(names, quoteIdent(col.Name))
			}
		}
		return sqlstate.New(sqlstate.DependentObjectsExist, "cannot replace the key of columns (%s) of table \"%s\" because other objects depend on it", strings.Join(names, ", "), t.Name).
			WithDetail("constraint %s on table %s depends on it", in.key.Name, c.name(in.table)).
			WithHint("Add a unique constraint on these columns first, or drop the foreign key.")
	}
	return nil
}

func (c *change) setNotNull(t *catalog.Table, col *catalog.Column) error {
	if col.NotNull {
		return nil
	}
	if c.own(t) {
		return c.nowNotNull(t, col)
	}
	// A check of new rows stands for it until it is validated; then the column is NOT NULL.
	t.Checks = append(t.Checks, catalog.Check{ID: t.NextConstr, Name: t.Name + "_" + col.Name + "_not_null",
		Expr: quoteIdent(col.Name) + " IS NOT NULL", State: catalog.WriteOnly, Columns: []catalog.ColumnID{col.ID}})
	t.Mutations = append(t.Mutations, catalog.Mutation{Kind: catalog.MutateNotNull, ID: t.NextConstr, Column: col.ID})
	t.NextConstr++
	return nil
}

// nowNotNull makes a column NOT NULL in a table that no other transaction uses.
func (c *change) nowNotNull(t *catalog.Table, col *catalog.Column) error {
	empty, err := c.empty(t)
	if err == nil && !empty {
		err = c.o.validateCheck(c.ctx, c.kv, c.view, t, &catalog.Check{Expr: quoteIdent(col.Name) + " IS NOT NULL"})
	}
	if sqlstate.Is(err, sqlstate.CheckViolation) {
		v := sqlstate.New(sqlstate.NotNullViolation, "column \"%s\" of relation \"%s\" contains null values", col.Name, t.Name)
		v.Schema, v.Table, v.Column = c.schemaName(t.Schema), t.Name, col.Name
		return v
	}
	if err != nil {
		return err
	}
	col.NotNull = true
	return nil
}

// setSchema moves a relation, with its indexes and the sequences that its columns own, all of whose names have to be free there.
func (c *change) setSchema(t *catalog.Table, name string) error {
	if t.Kind == catalog.KindSequence && t.Sequence.OwnerTable != 0 {
		owner := ""
		if of := c.current(t.Sequence.OwnerTable); of != nil {
			owner = of.Name
		}
		return sqlstate.New(sqlstate.FeatureNotSupported, "cannot move an owned sequence into another schema").
			WithDetail("Sequence \"%s\" is linked to table \"%s\".", t.Name, owner)
	}
	if t.Temporary() || name == catalog.TemporarySchema {
		return sqlstate.New(sqlstate.FeatureNotSupported, "cannot move objects into or out of temporary schemas")
	}
	db, s, err := c.place(bind.Name{Database: c.databaseName(t.Database), Schema: name})
	if err != nil {
		return err
	}
	if s.ID == t.Schema {
		return nil
	}
	if err := c.must(s.ID, catalog.Create); err != nil {
		return err
	}
	names := []string{t.Name}
	for i := range t.Indexes {
		if x := &t.Indexes[i]; x.Name != "" && !(x.Primary && t.ImplicitPrimary) {
			names = append(names, x.Name)
		}
	}
	var owned []*catalog.Table
	for _, id := range c.ownedSequences(t) {
		seq := c.Catalog.Table(id)
		owned, names = append(owned, seq), append(names, seq.Name)
	}
	for _, n := range names {
		if taken, err := c.view.NameTaken(db.ID, s.ID, n); err != nil {
			return err
		} else if taken != nil {
			return sqlstate.New(sqlstate.DuplicateTable, "relation \"%s\" already exists in schema \"%s\"", n, s.Name)
		}
	}
	c.renameInViews(t, s.Name, t.Name)
	t.Schema = s.ID
	for _, seq := range owned {
		seq.Schema = s.ID
	}
	return nil
}

// verifyEncodable makes sure that an index can be written before others see it.
func verifyEncodable(t *catalog.Table, x *catalog.Index) error {
	if _, err := rowcode.NewIndex(t, x); err != nil {
		return sqlstate.New(sqlstate.InternalError, "index \"%s\": %v", x.Name, err)
	}
	return nil
}
