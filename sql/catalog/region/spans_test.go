package region

import (
	"iter"
	"slices"
	"testing"

	"meridian/keys"
	"meridian/placement"
	"meridian/sql/catalog"
)

type fake struct {
	databases []*catalog.Database
	tables    []*catalog.Table
	zones     map[string]*catalog.ZoneConfig
}

func (f fake) DatabaseByID(id catalog.ID) *catalog.Database {
	for _, d := range f.databases {
		if d.ID == id {
			return d
		}
	}
	return nil
}
func (f fake) StoredTables() iter.Seq[*catalog.Table] { return slices.Values(f.tables) }
func (f fake) Databases() iter.Seq[*catalog.Database] { return slices.Values(f.databases) }
func (f fake) Zones() map[string]*catalog.ZoneConfig  { return f.zones }

// TestSystemRanges: the system's ranges have five voters; the catalogue's tables too as soon as a database survives the loss of a region; what is configured for them
// counts, and all inherit from the default.
func TestSystemRanges(t *testing.T) {
	five, seven, hour := 5, 7, int32(3600)
	cluster := placement.DefaultZone()
	f := fake{databases: []*catalog.Database{{ID: 100, PrimaryRegion: "a", Regions: []string{"a", "b", "c"}}}, zones: map[string]*catalog.ZoneConfig{}}
	at := func(k keys.Key) placement.Zone { z, _ := Find(Spans(f, cluster), k); return z }
	voters := func(what string, k keys.Key, want int) {
		t.Helper()
		if z := at(k); z.Voters() != want {
			t.Errorf("%s: %d voters, want %d", what, z.Voters(), want)
		}
	}
	catalogue, user := keys.TableKey(catalog.DescriptorTableID), keys.TableKey(catalog.FirstUserID)
	voters("meta", keys.Min, 5)
	voters("liveness", keys.LivenessKey(uint32(1)), 5)
	voters("catalogue", catalogue, 3)
	voters("user", user, 3)
	f.databases[0].Survival = catalog.SurviveRegion
	voters("catalogue", catalogue, 5)
	voters("user", user, 3)
	f.databases[0].Survival = 2
	voters("meta", keys.Min, 5)
	voters("catalogue", catalogue, 5)
	f.databases[0].Survival = 3
	voters("meta", keys.Min, 7)
	voters("liveness", keys.LivenessKey(uint32(1)), 7)
	voters("catalogue", catalogue, 7)
	voters("user", user, 3)
	f.databases[0].Survival = catalog.SurviveZone
	f.databases[0].SuperRegions = []catalog.SuperRegion{{Name: "s", Regions: []string{"a", "b", "c"}, Survival: catalog.SurviveRegion, Own: true}}
	voters("catalogue", catalogue, 5)
	f.zones[catalog.DefaultRange] = &catalog.ZoneConfig{NumReplicas: &seven, GCSeconds: &hour}
	voters("meta", keys.Min, 7)
	voters("user", user, 7)
	if z := at(keys.SystemKey("x")); z.GCTTL.Seconds() != 3600 {
		t.Errorf("system keys: %v", z.GCTTL)
	}
	f.zones[catalog.LivenessRange] = &catalog.ZoneConfig{NumReplicas: &five}
	voters("meta", keys.Min, 7)
	voters("liveness", keys.LivenessKey(uint32(1)), 5)
	voters("system", keys.ClusterVersionKey(), 7)
	spans := Spans(f, cluster)
	if !slices.IsSortedFunc(spans, func(a, b Span) int { return a.Start.Compare(b.Start) }) {
		t.Errorf("not in order: %+v", spans)
	}
}
