package schemachange

import (
	"slices"
	"strconv"

	"meridian/sql/bind"
	"meridian/sql/catalog"
	"meridian/sql/types"
)

// dropsKey reports whether actions drop the primary key of a table.
func (c *change) dropsKey(t *catalog.Table, actions []bind.AlterAction) bool {
	if t == nil || t.Kind != catalog.KindTable || t.ImplicitPrimary {
		return false
	}
	return slices.ContainsFunc(actions, func(action bind.AlterAction) bool {
		switch a := action.(type) {
		case *bind.DropColumn:
			col := t.ColumnByName(a.Name)
			return col != nil && inKey(t, col.ID)
		case *bind.DropConstraint:
			return a.Name == t.Primary().Name
		}
		return false
	})
}

func inKey(t *catalog.Table, id catalog.ColumnID) bool {
	return slices.ContainsFunc(t.Primary().Columns, func(k catalog.IndexColumn) bool { return k.Column == id })
}

// dropPrimaryKey gives a table, which the transaction has locked, the hidden column rowid as its key.
func (c *change) dropPrimaryKey(t *catalog.Table) error {
	name := "rowid"
	for i := 1; t.ColumnNameTaken(name); i++ {
		name = "rowid_" + strconv.Itoa(i)
	}
	const unique = "unique_rowid()"
	col := bind.AppendColumn(t, &bind.ColumnDef{Name: name, Type: types.Int8, NotNull: true, Hidden: true, Default: unique})
	id := col.ID
	// Rows get their numbers first, once, so that all indexes made after that end with the same ones.
	if empty, err := c.empty(t); err != nil {
		return err
	} else if !empty {
		t.Rewrite = &catalog.Rewrite{Columns: []catalog.RewriteColumn{{Column: id, Type: types.Int8, Expr: unique, Default: unique}}}
		if err := c.rewrite(t, false); err != nil {
			return err
		}
	}
	if err := c.addPrimaryKey(t, &bind.IndexDef{Name: t.Name + "_" + name + "_pkey", Unique: true, Primary: true, Columns: []bind.IndexColumnDef{{Name: name}}}); err != nil {
		return err
	}
	t.ImplicitPrimary = true
	return nil
}
