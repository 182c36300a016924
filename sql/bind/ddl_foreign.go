package bind

import (
	"slices"

	"github.com/cockroachdb/cockroachdb-parser/pkg/sql/sem/tree"

	"meridian/sql/catalog"
	"meridian/sql/parse"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

func fkAction(a tree.ReferenceAction) catalog.Action {
	switch a {
	case tree.Restrict:
		return catalog.Restrict
	case tree.Cascade:
		return catalog.Cascade
	case tree.SetNull:
		return catalog.SetNull
	case tree.SetDefault:
		return catalog.SetDefault
	}
	return catalog.NoAction
}

// errTwoUpdates refuses a column whose value on update would come from two places.
func errTwoUpdates(column string) error {
	return sqlstate.New(sqlstate.InvalidTableDefinition, "column \"%s\" cannot have an ON UPDATE expression and a foreign key with an ON UPDATE action", column).
		WithHint("Use a foreign key with ON UPDATE NO ACTION, or drop the expression by ALTER TABLE ... ALTER COLUMN ... DROP ON UPDATE.")
}

// foreign binds a foreign key.
func (d *tableDef) foreign(n *tree.ForeignKeyConstraintTableDef, notValid bool, def parse.Deferral) {
	b := d.b
	c := ConstraintDef{Kind: ForeignKey, Deferrable: def.Deferrable, Deferred: def.Deferred, Name: string(n.Name), NotValid: notValid,
		OnDelete: fkAction(n.Actions.Delete), OnUpdate: fkAction(n.Actions.Update), MatchFull: n.Match == tree.MatchFull}
	for _, f := range n.FromCols {
		if !d.has(string(f)) {
			b.fail(sqlstate.UndefinedColumn, nil, "column \"%s\" referenced in foreign key constraint does not exist", f)
		}
		if rehomes(d.draft.ColumnByName(string(f))) {
			raise(errRehomed(string(f)))
		}
		if c.OnUpdate >= catalog.Cascade && d.draft.ColumnByName(string(f)).OnUpdate != "" {
			raise(errTwoUpdates(string(f)))
		}
		c.Columns = append(c.Columns, IndexColumnDef{Name: string(f)})
	}
	ref := d.reference(n, &c)
	for _, t := range n.ToCols {
		if ref != nil && rehomes(ref.ColumnByName(string(t))) || c.RefSelf && rehomes(d.draft.ColumnByName(string(t))) {
			raise(errRehomed(string(t)))
		}
		c.RefColumns = append(c.RefColumns, string(t))
	}
	refName := d.name.Name
	if ref != nil {
		refName = ref.Name
	}
	to := &referenced{}
	if ref != nil {
		to.table(ref)
	}
	if c.RefSelf {
		to.draft(d)
	}
	if len(c.RefColumns) == 0 {
		if to.deferrablePrimary {
			b.fail(sqlstate.ObjectNotInPrerequisite, nil, "cannot use a deferrable primary key for referenced table \"%s\"", refName)
		}
		if to.primary == nil {
			b.fail(sqlstate.UndefinedObject, nil, "there is no primary key for referenced table \"%s\"", refName)
		}
		c.RefColumns = append([]string(nil), to.primary...)
	}
	if len(c.RefColumns) != len(c.Columns) {
		b.fail(sqlstate.InvalidForeignKey, nil, "number of referencing and referenced columns for foreign key disagree")
	}
	for _, r := range c.RefColumns {
		if d.refType(&c, r) == nil {
			b.fail(sqlstate.UndefinedColumn, nil, "column \"%s\" referenced in foreign key constraint does not exist", r)
		}
	}
	d.matchKeys(&c, to, refName)
	d.sameTypes(&c)
	for _, n := range def.SetColumns {
		if !d.has(n) {
			b.fail(sqlstate.UndefinedColumn, nil, "column \"%s\" referenced in foreign key constraint does not exist", n)
		}
		if !slices.ContainsFunc(c.Columns, func(k IndexColumnDef) bool { return k.Name == n }) {
			b.fail(sqlstate.InvalidColumnReference, nil, "column \"%s\" referenced in ON DELETE SET action must be part of foreign key", n)
		}
	}
	c.SetColumns = def.SetColumns
	d.constraint(c)
}

// reference finds the table to which a foreign key refers; it is nil for the table that is being created.
func (d *tableDef) reference(n *tree.ForeignKeyConstraintTableDef, c *ConstraintDef) *catalog.Table {
	b := d.b
	ref := b.lookupTable(string(n.Table.CatalogName), string(n.Table.SchemaName), string(n.Table.ObjectName))
	if ref == nil && d.existing == nil && string(n.Table.ObjectName) == d.name.Name && (n.Table.SchemaName == "" || string(n.Table.SchemaName) == d.name.Schema) {
		c.RefSelf = true
	} else if ref == nil {
		b.fail(sqlstate.UndefinedTable, nil, "relation \"%s\" does not exist", n.Table.ObjectName)
	}
	if d.existing != nil && ref == d.existing {
		c.RefSelf = true
	}
	if ref != nil && (ref.Kind != catalog.KindTable || ref.Materialized) {
		b.fail(sqlstate.WrongObjectType, nil, "referenced relation \"%s\" is not a table", ref.Name)
	}
	temporary := d.temporary || d.existing != nil && d.existing.Temporary()
	if ref != nil && ref.Temporary() != temporary {
		kind := "permanent"
		if temporary {
			kind = "temporary"
		}
		b.fail(sqlstate.InvalidTableDefinition, nil, "constraints on %s tables may reference only %s tables", kind, kind)
	}
	if onCommit := d.onCommit; ref != nil && ref.OnCommit == catalog.DeleteRows {
		if d.existing != nil {
			onCommit = d.existing.OnCommit
		}
		if onCommit == 0 { // PostgreSQL finds it when the rows are to be deleted
			raise(sqlstate.New(sqlstate.FeatureNotSupported, "unsupported ON COMMIT and foreign key combination").
				WithDetail("Table \"%s\" references \"%s\", but they do not have the same ON COMMIT setting.", d.name.Name, ref.Name))
		}
	}
	c.RefTable = ref
	return ref
}

// refType is the type of a column that a foreign key refers to, or nil.
func (d *tableDef) refType(c *ConstraintDef, name string) *types.T {
	ref := c.RefTable
	if ref == nil || c.RefSelf && d.has(name) {
		if col := d.draft.ColumnByName(name); col != nil {
			return col.Type
		}
		return nil
	}
	if col := ref.ColumnByName(name); col != nil {
		return col.Type
	}
	return nil
}

// referenced are the keys of a table to which a foreign key may refer.
type referenced struct {
	keys              [][]string
	primary           []string
	deferrable        [][]string // keys that can't be referred to
	deferrablePrimary bool
}

// table adds the keys of a table that exists.
func (to *referenced) table(ref *catalog.Table) {
	for i := range ref.Indexes {
		ix := &ref.Indexes[i]
		if ix.Deferrable {
			var cols []string
			for _, ic := range ix.Columns {
				cols = append(cols, ref.Column(ic.Column).Name)
			}
			to.deferrable = append(to.deferrable, cols)
			to.deferrablePrimary = to.deferrablePrimary || ix.Key
		}
		if !ix.Unique && !ix.Primary || ix.Predicate != "" || ix.Primary && ref.ImplicitPrimary {
			continue
		}
		var cols []string
		for _, ic := range ix.Columns {
			cols = append(cols, ref.Column(ic.Column).Name)
		}
		to.keys = append(to.keys, cols)
		if cols = cols[ix.Implicit:]; ref.Worldwide(ix) {
			to.keys = append(to.keys, cols)
		}
		if ix.Primary {
			to.primary = cols
		}
	}
}

// draft adds the keys that the statement itself defines.
func (to *referenced) draft(d *tableDef) {
	for _, k := range d.constraints {
		if k.Kind != PrimaryKey && k.Kind != Unique {
			continue
		}
		var cols []string
		for _, ic := range k.Columns {
			cols = append(cols, ic.Name)
		}
		if k.Deferrable {
			to.deferrable = append(to.deferrable, cols)
			to.deferrablePrimary = to.deferrablePrimary || k.Kind == PrimaryKey
			continue
		}
		to.keys = append(to.keys, cols)
		if d.region != "" && !slices.Contains(cols, d.region) {
			to.keys = append(to.keys, append([]string{d.region}, cols...)) // as the index has it
		}
		if k.Kind == PrimaryKey {
			to.primary = cols
		}
	}
}

// sameTypes checks that the columns of a foreign key may be compared with those of the key.
func (d *tableDef) sameTypes(c *ConstraintDef) {
	b := d.b
	for i, f := range c.Columns {
		lt, rt := d.draft.ColumnByName(f.Name).Type, d.refType(c, c.RefColumns[i])
		if !b.Registry.MayReference(rt, lt) {
			name := c.Name
			if name == "" {
				name = pickName(d.constraintTaken, "fkey", d.name.Name, f.Name)
			}
			raise(sqlstate.New(sqlstate.DatatypeMismatch, "foreign key constraint \"%s\" cannot be implemented", name).
				WithDetail("Key columns \"%s\" and \"%s\" are of incompatible types: %s and %s.", f.Name, c.RefColumns[i], lt.Name(), rt.Name()))
		}
	}
}

// matchKeys checks that a foreign key refers to all columns of a key.
func (d *tableDef) matchKeys(c *ConstraintDef, to *referenced, refName string) {
	match := false
	for _, k := range to.keys {
		match = match || sameSet(k, c.RefColumns)
	}
	if !match {
		for _, k := range to.deferrable {
			if sameSet(k, c.RefColumns) {
				d.b.fail(sqlstate.ObjectNotInPrerequisite, nil, "cannot use a deferrable unique constraint for referenced table \"%s\"", refName)
			}
		}
		d.b.fail(sqlstate.InvalidForeignKey, nil, "there is no unique constraint matching given keys for referenced table \"%s\"", refName)
	}
}

func sameSet(a, b []string) bool {
	if len(a) != len(b) {
		return false
	}
	for _, x := range a {
		found := false
		for _, y := range b {
			found = found || x == y
		}
		if !found {
			return false
		}
	}
	return true
}
