package region_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"meridian/encoding"
	"meridian/keys"
	"meridian/placement"
	"meridian/sql/catalog"
	"meridian/sql/catalog/region"
)

// tagged is a catalogue of one database with one table, and a placement menu.
type tagged struct {
	one
	menu map[string]*catalog.ZoneConfig
}

func (c tagged) Zones() catalog.NamedZones { return catalog.NamedZones{Placements: c.menu} }

// menuOf makes an option of the menu: it has all fields that are about replicas and their places.
func menuOf(replicas int, region string) *catalog.ZoneConfig {
	at := []placement.Conjunction{{Constraints: []placement.Constraint{{Key: "region", Value: region}}}}
	none := []placement.Conjunction{}
	return &catalog.ZoneConfig{NumReplicas: &replicas, NumVoters: &replicas, Constraints: &at, VoterConstraints: &none, LeasePreferences: &none}
}

// TestDirectories compares the configurations of rows with a model, which looks for each field by a row's values: in the longest directory that has a placement, in partitions, in
// CONFIGURE ZONE of the table, in the table's placement, and so on outwards (region.RG2).
func TestDirectories(t *testing.T) {
	for seed := range uint64(2000) {
		dice := rand.New(rand.NewPCG(seed, 7))
		menu := map[string]*catalog.ZoneConfig{}
		var names []string
		for i := range 4 {
			names = append(names, fmt.Sprint("p", i))
			menu[names[i]] = menuOf(3+2*i, fmt.Sprint("r", i))
		}
		some := func() string { // of the menu, or none
			if dice.IntN(2) == 0 {
				return ""
			}
			return names[dice.IntN(len(names))]
		}
		own := func(seconds int32, replicas int) *catalog.ZoneConfig {
			switch dice.IntN(4) {
			case 0:
				return &catalog.ZoneConfig{GCSeconds: &seconds}
			case 1:
				return &catalog.ZoneConfig{NumReplicas: &replicas, NumVoters: &replicas}
			}
			return nil
		}
		db := &catalog.Database{ID: 1, Placement: some(), Zone: own(11, 11)}
		table := &catalog.Table{ID: 20000, Database: 1, Placement: some(), Zone: own(13, 13), Indexes: []catalog.Index{{ID: 1, Primary: true}, {ID: 2}}}
		x := &table.Indexes[0]
		if dice.IntN(2) == 0 {
			x.Partitioning, x.PartitionZones = partitioning(dice, 0, ""), map[string]*catalog.ZoneConfig{}
			n := 100
			x.Partitioning.Each(func(q, _ *catalog.Partition, _ int) {
				if n += 2; dice.IntN(2) == 0 {
					x.PartitionZones[q.Name] = own(int32(n), n+1)
				}
			})
		}
		descending := dice.IntN(3) == 0
		encode := func(row []int64) (k []byte) {
			for i, v := range row {
				dir := encoding.Ascending
				if descending && i > 0 && x.Partitioning == nil {
					dir = encoding.Descending
				}
				k = encoding.AppendInt(k, v, dir)
			}
			return k
		}
		for range dice.IntN(6) {
			row := []int64{int64(dice.IntN(domain)), int64(dice.IntN(domain)), int64(dice.IntN(domain))}[:1+dice.IntN(3)]
			x.SetDirectory(catalog.Directory{Prefix: catalog.Bound{Key: encode(row), Values: len(row)}, Placement: some()})
		}
		if !slices.IsSortedFunc(x.Directories, func(a, b catalog.Directory) int { return slices.Compare(a.Prefix.Key, b.Prefix.Key) }) {
			t.Fatalf("seed %d: the directories are not in order", seed)
		}
		outer := table.Zone.Over(menu[table.Placement].Over(db.Zone.Over(menu[db.Placement])))
		options := map[string]*catalog.ZoneConfig{} // of directories, by the encoded prefix
		for _, d := range x.Directories {
			options[string(d.Prefix.Key)] = menu[d.Placement]
		}
		if dice.IntN(4) == 0 { // what is dropped keeps its places, whatever becomes of the menu (region.RG1)
			table.Dropped, db.Dropped = true, true
			table.Unname(menu)
			db.Unname(menu)
			menu = nil
		}
		c := tagged{one{db, table}, menu}
		spans := region.Spans(c, placement.DefaultZone())
		if !slices.IsSortedFunc(spans, func(a, b region.Span) int { return a.Start.Compare(b.Start) }) {
			t.Fatalf("seed %d: the spans are not in order", seed)
		}
		for n := range domain * domain * domain {
			row := []int64{int64(n / domain / domain), int64(n / domain % domain), int64(n % domain)}
			around := outer
			for _, p := range within(x.Partitioning, row) {
				around = x.PartitionZones[p].Over(around)
			}
			var dir *catalog.Directory
			for k := 1; k <= 3; k++ {
				if d := x.Directory(encode(row[:k])); d != nil {
					dir = d
				}
			}
			if dir != nil {
				around = options[string(dir.Prefix.Key)].Over(around)
			}
			want := region.Zone(around, placement.DefaultZone())
			k := append(keys.IndexPrefix(table.ID, x.ID), encode(row)...)
			got, span := region.Find(spans, k)
			if !reflect.DeepEqual(got, want) || !span.Contains(k) {
				t.Fatalf("seed %d: row %v gets %+v, want %+v", seed, row, got, want)
			}
			if found := region.DirectoryAt(table, x, k); found != dir {
				t.Fatalf("seed %d: row %v is in directory %v, want %v", seed, row, found, dir)
			}
		}
		for _, k := range []keys.Key{keys.IndexPrefix(table.ID, catalog.IndexID(2)), keys.TableKey(table.ID)} {
			if z, _ := region.Find(spans, k); !reflect.DeepEqual(z, region.Zone(outer, placement.DefaultZone())) {
				t.Fatalf("seed %d: a directory reaches beyond its index", seed)
			}
		}
		if z, _ := region.Find(spans, keys.TableSpan(table.ID).End); !reflect.DeepEqual(z, placement.DefaultZone()) {
			t.Fatalf("seed %d: a table's placement reaches beyond it", seed)
		}
	}
}
