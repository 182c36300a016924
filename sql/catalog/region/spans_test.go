package region

import (
	"iter"
	"slices"
	"testing"
	"time"

	"meridian/keys"
	"meridian/kv"
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
func (f fake) Zones() catalog.NamedZones              { return catalog.NamedZones{Ranges: f.zones} }

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

// TestProtocols: the ranges of a table's indexes and partitions have its protocol, and nothing else has: not its neighbours, not the data of indexes that are gone,
// and not that of a dropped table. A table that is about to be made has it before it has a row.
func TestProtocols(t *testing.T) {
	fast := catalog.CommitProtocol(kv.FastPaxos)
	seconds := int32(600)
	table := func(id catalog.ID, p catalog.CommitProtocol, indexes ...catalog.IndexID) *catalog.Table {
		x := &catalog.Table{ID: id, Database: 100, Protocol: p}
		for _, i := range indexes {
			x.Indexes = append(x.Indexes, catalog.Index{ID: i})
		}
		return x
	}
	parts := table(204, fast, 1)
	parts.Indexes[0].Partitioning = &catalog.Partitioning{Partitions: []catalog.Partition{{Name: "p", Values: []catalog.Bound{{Key: []byte{5}, Values: 1}}}}}
	parts.Indexes[0].PartitionZones = map[string]*catalog.ZoneConfig{"p": {GCSeconds: &seconds}}
	removed := table(205, fast, 2, 3)
	removed.Removed = []catalog.Index{{ID: 1}}
	dropped, reserved := table(206, fast, 1), table(208, fast, 1)
	dropped.Dropped, reserved.Dropped, reserved.Reserved = true, true, true
	global := true
	ahead := table(210, fast, 1)
	ahead.Zone = &catalog.ZoneConfig{GlobalReads: &global}
	f := fake{databases: []*catalog.Database{{ID: 100}}, tables: []*catalog.Table{table(201, 0, 1), table(202, fast, 1, 2, 4), table(203, 0, 1), parts, removed, dropped, reserved, ahead}}
	cluster := placement.DefaultZone()
	spans := Spans(f, cluster)
	row := func(t catalog.ID, x catalog.IndexID) keys.Key { return append(keys.IndexPrefix(t, x), 7) }
	for _, c := range []struct {
		what string
		at   keys.Key
		want catalog.CommitProtocol
	}{
		{"the table before", row(201, 1), 0}, {"the lock of the table", keys.IndexPrefix(f.tables[1].ID, catalog.IndexID(0)), 0}, {"the primary index", row(202, 1), fast}, {"a secondary index", row(202, 2), fast}, {"an index that is gone", row(202, 3), 0},
		{"the index after it", row(202, 4), fast}, {"what comes after the indexes", row(202, 5), 0}, {"the table after", row(203, 1), 0},
		{"the rest of an index with partitions", row(204, 1), fast}, {"a partition", append(keys.IndexPrefix(parts.ID, catalog.IndexID(1)), 5, 1), fast},
		{"an index that is being removed", row(205, 1), 0}, {"the index after that", row(205, 2), fast},
		{"a dropped table", row(206, 1), 0}, {"a table that is not there", row(207, 1), 0}, {"a table that is about to be", row(208, 1), fast}, {"the table after that", row(209, 1), 0},
		{"a table with global reads", row(210, 1), fast}, {"keys after all tables", row(211, 1), 0},
	} {
		z, of := Find(spans, c.at)
		if z.Protocol != kv.Protocol(c.want) {
			t.Errorf("%s has the protocol %s in %s", c.what, z.Protocol, of)
		}
		if z.Protocol != kv.Leader && z.GlobalReads {
			t.Errorf("%s closes the future", c.what)
		}
	}
	if _, of := Find(spans, row(202, 1)); !of.Contains(row(202, 2)) {
		t.Errorf("two indexes side by side are apart: %s", of)
	}
	if z, _ := Find(spans, append(keys.IndexPrefix(parts.ID, catalog.IndexID(1)), 5, 1)); z.GCTTL != 10*time.Minute {
		t.Errorf("the partition's configuration is lost: %s", z.GCTTL)
	}
	for _, s := range TableSpans(f.databases[0], f.tables[1], catalog.NamedZones{}, cluster) {
		if s.Start.Equal(keys.TableKey(uint32(202))) && s.Zone.Protocol != kv.Leader {
			t.Errorf("the lock of the table is in a range of %s", s.Zone.Protocol)
		}
	}
}
