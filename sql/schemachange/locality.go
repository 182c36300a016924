package schemachange

import (
	"slices"

	"meridian/sql/bind"
	"meridian/sql/catalog"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// ALTER TABLE ... SET LOCALITY changes the descriptor alone, unless the table becomes REGIONAL BY ROW or ceases to be. Then all of its indexes are built anew, with
// the region in front or without it, as for another primary key; they take their places in the version that gives the table its locality (catalog.Relocation).
// Until no node uses the indexes of before, every writer adds to both. A unique index without the region in front is unique worldwide by itself, so the
// constraint holds all the time: in each pair of successive versions one such index is written by all nodes, or all look into the other regions.
//
// The rows that are there get the region column's value as if it had been there since they were written: the home of the table.

// relocates reports whether actions build the indexes of a table anew for another locality.
func relocates(t *catalog.Table, actions []bind.AlterAction) bool {
	return slices.ContainsFunc(actions, func(action bind.AlterAction) bool {
		a, ok := action.(*bind.SetLocality)
		return ok && (a.Locality.Kind == catalog.RegionalByRow || t.Locality.Kind == catalog.RegionalByRow)
	})
}

// setLocality is ALTER TABLE ... SET LOCALITY.
func (c *change) setLocality(t *catalog.Table, a *bind.SetLocality) error {
	if t.Relocation != nil {
		return c.Catalog.JobFirst(t.ID)
	}
	if t.InferRegion != 0 && (a.Locality.Kind != catalog.RegionalByRow || t.ColumnByName(a.Column) == nil || t.ColumnByName(a.Column).ID != t.RegionColumn) {
		return sqlstate.New(sqlstate.InvalidTableDefinition, "the rows of table \"%s\" have the regions of their parents, by the parameter %s", t.Name, catalog.InferRegion).
			WithHint("ALTER TABLE %s RESET (%s) first.", quoteIdent(t.Name), catalog.InferRegion)
	}
	if d := c.Catalog.Descriptor(t.Database); d != nil && d.Database != nil && forbids(d.Database) {
		c.awaitPlacement(d.Database.ID, t.ID)
	}
	if a.Locality.Kind != catalog.RegionalByRow {
		if t.Locality.Kind != catalog.RegionalByRow {
			t.Locality = a.Locality
			return nil
		}
		return c.relocate(t, catalog.Relocation{Locality: a.Locality})
	}
	if err := c.regionsFirst(t); err != nil {
		return err
	}
	if a.Add != nil && !t.ColumnNameTaken(a.Add.Name) {
		if err := c.addHome(t, a.Add); err != nil {
			return err
		}
	}
	i := slices.IndexFunc(t.Columns, func(col catalog.Column) bool {
		return col.Name == a.Column && (col.State == catalog.Public || t.Adding(&col))
	})
	if i < 0 {
		return c.Catalog.JobFirst(t.ID)
	}
	col := &t.Columns[i]
	if t.RegionColumn == col.ID {
		return nil
	}
	if err := c.setNotNull(t, col); err != nil {
		return err
	}
	return c.relocate(t, catalog.Relocation{Locality: a.Locality, Column: t.Columns[i].ID})
}

// addHome adds the hidden region column. The rows that are there have the table's home.
func (c *change) addHome(t *catalog.Table, d *bind.ColumnDef) error {
	home := ""
	if db := c.Catalog.Descriptor(t.Database); db != nil && db.Database != nil {
		home = db.Database.Home(t)
	}
	col := bind.AppendColumn(t, d)
	v, err := types.ParseText(col.Type, home, nil)
	if err != nil {
		return err
	}
	col.Missing, col.HasMissing = types.FormatText(v, col.Type, nil), true
	if !c.own(t) {
		t.Mutations = append(t.Mutations, catalog.Mutation{Kind: catalog.MutateColumn, ID: uint32(col.ID)})
	}
	return nil
}

// relocate makes new copies of all indexes for another region column, or for none.
func (c *change) relocate(t *catalog.Table, to catalog.Relocation) error {
	if slices.ContainsFunc(t.Mutations, func(m catalog.Mutation) bool { return m.Kind == catalog.MutateIndex && m.Job != 0 }) {
		return c.Catalog.JobFirst(t.ID)
	}
	if c.own(t) && !t.Temporary() {
		after := *t
		after.Locality, after.RegionColumn = to.Locality, to.Column
		if c.bounded(&after) {
			return sqlstate.New(sqlstate.FeatureNotSupported, "SET LOCALITY to or from REGIONAL BY ROW waits for the places of rows, so it can be neither in a transaction block nor with other actions").
				WithHint("The database keeps rows within regions. Run ALTER TABLE %s SET LOCALITY as a statement of its own.", quoteIdent(t.Name))
		}
	}
	for i := range t.Indexes {
		if x := &t.Indexes[i]; x.Implicit > 0 && (x.Unique || x.Primary) && to.Column == 0 {
			without := *x
			without.Columns, without.Implicit = x.Columns[x.Implicit:], 0
			if err := c.keepsKey(t, x, &without); err != nil {
				return err
			}
		}
	}
	lead := func(x *catalog.Index) {
		x.Placed = &to
		x.Columns, x.Implicit = slices.Clone(x.Columns[x.Implicit:]), 0
		if to.Column != 0 {
			x.LeadWithRegion(to.Column)
		} else {
			x.PartitionZones = nil // those of the regions
		}
	}
	x := *t.Primary()
	x.ID, x.Name, x.Stored = t.NextIndex, "", slices.Clone(x.Stored)
	t.NextIndex++
	lead(&x)
	t.Indexes = append(t.Indexes, x)
	t.Relocation = &to
	return c.exchangeKey(t, t.Primary().ID, lead)
}
