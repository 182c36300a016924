package schemachange

import (
	"fmt"
	"slices"

	"meridian/sql/catalog"
	"meridian/sql/catalog/lease"
	"meridian/sql/rowcode"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// The statement that changes a part of a table knows the objects that need the part: it is refused, or with CASCADE drops them. A case that is forgotten there must
// not make rows unreadable, so each descriptor is checked once more before it is written:
//
//	schemachange.SC15 (I2, I7): No version of a table is published that has an index whose entries can't be encoded, rows without a region although it is REGIONAL BY ROW, a constraint on a column that is not there, a
//	    foreign key without a unique key on the other side, or a reference to an object that is gone, unless the version before has the same fault: then a change
//	    that repairs it, or drops the table, has to be possible.

// holds refuses a version of a table that could not be used.
func holds(cat *lease.Txn, before *lease.Snapshot, base, now *catalog.Table) error {
	faults := faultsOf(now, func(id catalog.ID) *catalog.Table { return relation(cat.Descriptor(id)) })
	if len(faults) == 0 {
		return nil
	}
	var had []string
	if base != nil {
		had = faultsOf(base, func(id catalog.ID) *catalog.Table { return relation(before.Descriptor(id)) })
	}
	for _, f := range faults {
		if !slices.Contains(had, f) {
			return sqlstate.New(sqlstate.DependentObjectsExist, "the change can't be made, because it would leave %s \"%s\" unusable", described(now), now.Name).
				WithDetail("%s.", f).WithHint("Change or drop what depends on the changed part first.")
		}
	}
	return nil
}

func relation(d *lease.Descriptor) *catalog.Table {
	if d == nil || d.Table == nil || d.Table.Dropped {
		return nil
	}
	return d.Table
}

// faultsOf says why a relation can't be used as its descriptor has it; find finds other relations.
func faultsOf(t *catalog.Table, find func(catalog.ID) *catalog.Table) (out []string) {
	fault := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	for _, id := range t.DependsOn {
		if !catalog.IsLocal(id) && id >= catalog.FirstUserID && find(id) == nil {
			fault("It reads relation %d, which is gone", id)
		}
	}
	if t.Kind == catalog.KindSequence && t.Sequence != nil && t.Sequence.OwnerTable != 0 {
		if of := find(t.Sequence.OwnerTable); of == nil || of.Column(t.Sequence.OwnerColumn) == nil {
			fault("It belongs to a column that is gone")
		}
	}
	if t.Kind != catalog.KindTable || len(t.Indexes) == 0 {
		return out
	}
	for i := range t.Columns {
		if c := &t.Columns[i]; c.OwnsSequence != 0 && !catalog.IsLocal(c.OwnsSequence) && find(c.OwnsSequence) == nil {
			fault("Column \"%s\" takes its values from a sequence that is gone", c.Name)
		}
	}
	for i := range t.Indexes {
		x := &t.Indexes[i]
		if _, err := rowcode.NewIndex(t, x); err != nil {
			fault("Index %d has columns that are gone", x.ID)
			continue
		}
		if n := max(depthOf(x), x.DirectoryColumns()); n > len(x.Columns) {
			fault("Index \"%s\" is divided by more columns than it has", x.Name)
		}
	}
	if t.Locality.Kind == catalog.RegionalByRow || t.RegionColumn != 0 {
		switch c := t.Column(t.RegionColumn); {
		case c == nil:
			fault("Its rows have no region any more")
		case c.Type.Kind != types.KindEnum || !c.NotNull:
			fault("Column \"%s\" has the rows' regions, and may have other values", c.Name)
		case t.Primary().Columns[0].Column != c.ID:
			fault("Its key does not begin with the rows' regions")
		}
	}
	if t.InferRegion != 0 && !slices.ContainsFunc(t.Foreign, func(k catalog.ForeignKey) bool { return k.ID == t.InferRegion }) {
		fault("The foreign key that says the rows' regions is gone")
	}
	lacks := func(ids []catalog.ColumnID) bool {
		return slices.ContainsFunc(ids, func(id catalog.ColumnID) bool { return t.Column(id) == nil })
	}
	for i := range t.Checks {
		if k := &t.Checks[i]; lacks(k.Columns) {
			fault("Constraint \"%s\" is about columns that are gone", k.Name)
		}
	}
	for i := range t.Foreign {
		k := &t.Foreign[i]
		ref := t
		if k.RefTable != t.ID {
			ref = find(k.RefTable)
		}
		switch {
		case lacks(k.Columns):
			fault("Constraint \"%s\" is about columns that are gone", k.Name)
		case ref == nil:
			fault("Constraint \"%s\" refers to a table that is gone", k.Name)
		case !hasKey(ref, k.RefColumns):
			fault("Constraint \"%s\" refers to columns that are not unique", k.Name)
		}
	}
	for _, r := range t.ReferencedBy {
		child := t
		if r.Table != t.ID {
			child = find(r.Table)
		}
		if child == nil {
			fault("A table refers to it that is gone")
			continue
		}
		for i := range child.Foreign {
			if k := &child.Foreign[i]; k.ID == r.Constraint && !hasKey(t, k.RefColumns) {
				fault("Constraint \"%s\" of table \"%s\" refers to columns that are not unique", k.Name, child.Name)
			}
		}
	}
	return out
}

func depthOf(x *catalog.Index) int {
	if x.Partitioning == nil {
		return 0
	}
	return depth(x.Partitioning)
}

// hasKey reports whether columns are unique in a table, by a key to which a foreign key can refer.
func hasKey(t *catalog.Table, cols []catalog.ColumnID) bool {
	return slices.ContainsFunc(t.Indexes, func(x catalog.Index) bool { return isKey(&x, cols) })
}

func isKey(x *catalog.Index, cols []catalog.ColumnID) bool {
	return (x.Unique || x.Primary) && x.Predicate == "" && x.State == catalog.Public && sameColumns(x, cols)
}
