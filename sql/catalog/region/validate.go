package region

import (
	"cmp"
	"maps"
	"reflect"
	"slices"

	"meridian/placement"
	"meridian/sql/catalog"
)

// Difference is a variable of an object's configuration that CONFIGURE ZONE has set to another value than the database's regions decide.
type Difference struct {
	Object
	// Variable is empty if the object is a partition that its index does not have.
	Variable string
}

// Differences compares the configurations of a database and of its tables with those that its regions give (docs/decisions/0012-regions.md, rule 1): other fields can't
// differ, since they are computed. Those of ALTER LOCALITY are a part of what the regions give. A database without regions has none.
func Differences(db *catalog.Database, tables []*catalog.Table) (out []Difference) {
	if !db.MultiRegion() {
		return nil
	}
	compare := func(o Object, own, gives *catalog.ZoneConfig) {
		if own.Empty() {
			return
		}
		around, _ := Effective(o.Layers(catalog.NamedZones{}, placement.DefaultZone(), catalog.SurviveZone)[1:])
		want := gives.Over(around)
		for _, name := range Protected(own) {
			var a, b catalog.ZoneConfig
			Copy(&a, own, name)
			Copy(&b, want, name)
			if !reflect.DeepEqual(a, b) {
				out = append(out, Difference{o, name})
			}
		}
	}
	compare(Object{Database: db}, db.Zone, Database(db))
	for _, t := range slices.SortedFunc(slices.Values(tables), func(a, b *catalog.Table) int { return cmp.Compare(a.ID, b.ID) }) {
		compare(Object{Database: db, Table: t}, t.Zone, Table(db, t))
		for _, x := range byID(t) {
			o := Object{Database: db, Table: t, Index: x}
			compare(o, x.Zone, nil)
			for _, name := range slices.Sorted(maps.Keys(x.PartitionZones)) {
				o.Partition = name
				if x.Partitioning == nil && (!t.ByRow() || !db.HasRegion(name)) {
					out = append(out, Difference{Object: o})
					continue
				}
				compare(o, x.PartitionZones[name], generated(o))
			}
		}
	}
	return out
}
