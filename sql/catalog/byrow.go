package catalog

import (
	"slices"
	"strings"

	"meridian/sql/types"
)

// SkipUniqueChecks is the table option that leaves worldwide uniqueness of a REGIONAL BY ROW table to its users.
const SkipUniqueChecks = "skip_unique_checks"

// InferRegion is the table option by which the region of a row is that of the row to which a foreign key refers.
const InferRegion = "infer_rbr_region_col_using_constraint"

// ByRow reports whether the table is REGIONAL BY ROW: each row has a home.
func (t *Table) ByRow() bool { return t.RegionColumn != 0 }

// SkipsUniqueChecks reports whether the table's users promise that its keys are unique over all regions.
func (t *Table) SkipsUniqueChecks() bool { return t.Options[SkipUniqueChecks] == "true" }

// Inferred is the foreign key by which the regions of new rows are found; nil: there is none.
func (t *Table) Inferred() *ForeignKey {
	if !t.ByRow() || t.InferRegion == 0 {
		return nil
	}
	for i := range t.Foreign {
		if t.Foreign[i].ID == t.InferRegion {
			return &t.Foreign[i]
		}
	}
	return nil
}

// RemoveForeign removes a foreign key from the descriptor.
func (t *Table) RemoveForeign(id uint32) {
	t.Foreign = slices.DeleteFunc(t.Foreign, func(k ForeignKey) bool { return k.ID == id })
	if t.InferRegion == id {
		t.InferRegion = 0
	}
}

// Regions are the values of the region column of a table that is REGIONAL BY ROW, those that are being added or dropped among them: rows may have
// each of them.
func (t *Table) Regions() []types.EnumValue {
	c := t.Column(t.RegionColumn)
	if c == nil || c.Type.Enum == nil {
		return nil
	}
	return c.Type.Enum.Values
}

// UserColumns are the key columns that the user wrote: for a unique index, those that its constraint is about.
func (x *Index) UserColumns() []IndexColumn { return x.Columns[x.Implicit:] }

// Worldwide reports whether no two rows, of whichever regions, are equal in an index's UserColumns, although the entries of a region are all that a
// range can compare. Someone has to look into the other regions then.
func (t *Table) Worldwide(x *Index) bool {
	return x.Implicit > 0 && (x.Unique || x.Primary) && t.ByRow() && !t.SkipsUniqueChecks()
}

// LeadWithRegion puts the region column in front of a new index's key columns. If the user wrote it, uniqueness is that of the columns together, in
// any order, and none is implicit.
func (x *Index) LeadWithRegion(region ColumnID) {
	lead := []IndexColumn{{Column: region}}
	for i, c := range x.Columns {
		if c.Column == region {
			x.Columns = append(append(lead, x.Columns[:i]...), x.Columns[i+1:]...)
			return
		}
	}
	x.Columns, x.Implicit = append(lead, x.Columns...), 1
	x.Stored = slices.DeleteFunc(x.Stored, func(id ColumnID) bool { return id == region })
}

// LocalityText is the table's clause LOCALITY, without that word.
func (t *Table) LocalityText() string {
	text := t.Locality.String()
	if c := t.Column(t.RegionColumn); t.Locality.Kind == RegionalByRow && c != nil && c.Name != RegionColumn {
		text += ` AS "` + strings.ReplaceAll(c.Name, `"`, `""`) + `"`
	}
	return text
}
