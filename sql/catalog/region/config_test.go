package region

import (
	"testing"

	"meridian/cluster"
	"meridian/placement"
	"meridian/sql/catalog"
)

// TestSuperRegion: the rows of a super region have no replica outside it, whatever they survive, and those of GLOBAL tables do (CRDB'22 §3.3).
func TestSuperRegion(t *testing.T) {
	db := &catalog.Database{PrimaryRegion: "a", Regions: []string{"a", "b", "c", "d"}, Survival: catalog.SurviveRegion,
		SuperRegions: []catalog.SuperRegion{{Name: "near", Regions: []string{"a", "b", "c"}}}}
	outside := &placement.Node{Node: 1, Locality: cluster.Locality{{Key: "region", Value: "d"}}}
	z := Zone(Database(db), placement.DefaultZone())
	if !z.Forbids(outside, false) {
		t.Errorf("a replica may leave the super region: %+v", z)
	}
	global := Zone(Table(db, &catalog.Table{Locality: catalog.Locality{Kind: catalog.Global}}).Over(Database(db)), placement.DefaultZone())
	if global.Forbids(outside, false) {
		t.Errorf("a GLOBAL table has no replica outside: %+v", global)
	}
	if other := Zone(Partition(db, "d"), placement.DefaultZone()); other.Forbids(outside, true) {
		t.Errorf("rows of the region that is in no super region may not be there: %+v", other)
	}
}
