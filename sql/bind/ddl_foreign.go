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
	// The keys to which the reference may be.
	var keys [][]string
	refType := func(name string) *types.T {
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
	var primary []string
	var deferrable [][]string // keys that can't be referred to
	deferrablePrimary := false
	if ref != nil {
		for i := range ref.Indexes {
			ix := &ref.Indexes[i]
			if ix.Deferrable {
				var cols []string
				for _, ic := range ix.Columns {
					cols = append(cols, ref.Column(ic.Column).Name)
				}
				deferrable = append(deferrable, cols)
				deferrablePrimary = deferrablePrimary || ix.Key
			}
			if !ix.Unique && !ix.Primary || ix.Predicate != "" || ix.Primary && ref.ImplicitPrimary {
				continue
			}
			var cols []string
			for _, ic := range ix.Columns {
				cols = append(cols, ref.Column(ic.Column).Name)
			}
			keys = append(keys, cols)
			if cols = cols[ix.Implicit:]; ref.Worldwide(ix) {
				keys = append(keys, cols)
			}
			if ix.Primary {
				primary = cols
			}
		}
	}
	if c.RefSelf {
		for _, k := range d.constraints {
			if k.Kind != PrimaryKey && k.Kind != Unique {
				continue
			}
			var cols []string
			for _, ic := range k.Columns {
				cols = append(cols, ic.Name)
			}
			if k.Deferrable {
				deferrable = append(deferrable, cols)
				deferrablePrimary = deferrablePrimary || k.Kind == PrimaryKey
				continue
			}
			keys = append(keys, cols)
			if d.region != "" && !slices.Contains(cols, d.region) {
				keys = append(keys, append([]string{d.region}, cols...)) // as the index has it
			}
			if k.Kind == PrimaryKey {
				primary = cols
			}
		}
	}
	if len(c.RefColumns) == 0 {
		if deferrablePrimary {
			b.fail(sqlstate.ObjectNotInPrerequisite, nil, "cannot use a deferrable primary key for referenced table \"%s\"", refName)
		}
		if primary == nil {
			b.fail(sqlstate.UndefinedObject, nil, "there is no primary key for referenced table \"%s\"", refName)
		}
		c.RefColumns = append([]string(nil), primary...)
	}
	if len(c.RefColumns) != len(c.Columns) {
		b.fail(sqlstate.InvalidForeignKey, nil, "number of referencing and referenced columns for foreign key disagree")
	}
	for _, r := range c.RefColumns {
		if refType(r) == nil {
			b.fail(sqlstate.UndefinedColumn, nil, "column \"%s\" referenced in foreign key constraint does not exist", r)
		}
	}
	match := false
	for _, k := range keys {
		match = match || sameSet(k, c.RefColumns)
	}
	if !match {
		for _, k := range deferrable {
			if sameSet(k, c.RefColumns) {
				b.fail(sqlstate.ObjectNotInPrerequisite, nil, "cannot use a deferrable unique constraint for referenced table \"%s\"", refName)
			}
		}
		b.fail(sqlstate.InvalidForeignKey, nil, "there is no unique constraint matching given keys for referenced table \"%s\"", refName)
	}
	for i, f := range c.Columns {
		lt, rt := d.draft.ColumnByName(f.Name).Type, refType(c.RefColumns[i])
		if !b.Registry.MayReference(rt, lt) {
			name := c.Name
			if name == "" {
				name = pickName(d.constraintTaken, "fkey", d.name.Name, f.Name)
			}
			raise(sqlstate.New(sqlstate.DatatypeMismatch, "foreign key constraint \"%s\" cannot be implemented", name).
				WithDetail("Key columns \"%s\" and \"%s\" are of incompatible types: %s and %s.", f.Name, c.RefColumns[i], lt.Name(), rt.Name()))
		}
	}
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
