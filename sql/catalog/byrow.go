package catalog

import "meridian/sql/types"

// SkipUniqueChecks is the table option that leaves worldwide uniqueness of a REGIONAL BY ROW table to its users.
const SkipUniqueChecks = "skip_unique_checks"

// ByRow reports whether the table is REGIONAL BY ROW: each row has a home.
func (t *Table) ByRow() bool { return t.RegionColumn != 0 }

// SkipsUniqueChecks reports whether the table's users promise that its keys are unique over all regions.
func (t *Table) SkipsUniqueChecks() bool { return t.Options[SkipUniqueChecks] == "true" }

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
