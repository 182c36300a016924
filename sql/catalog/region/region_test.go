package region

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"meridian/encoding"
	"meridian/keys"
	"meridian/kv"
	"meridian/placement"
	"meridian/sql/catalog"
	"meridian/sql/types"
)

// schema is a Catalogue of a test.
type schema struct {
	databases map[catalog.ID]*catalog.Database
	tables    []*catalog.Table
}

func (s *schema) DatabaseByID(id catalog.ID) *catalog.Database { return s.databases[id] }

func (s *schema) Databases() iter.Seq[*catalog.Database] { return maps.Values(s.databases) }

func (s *schema) Zones() catalog.NamedZones { return catalog.NamedZones{} }

func (s *schema) StoredTables() iter.Seq[*catalog.Table] { return slices.Values(s.tables) }

func describe(cs []placement.Conjunction) string {
	var out []string
	for _, c := range cs {
		var words []string
		for _, k := range c.Constraints {
			words = append(words, strings.TrimPrefix(k.String(), "+region="))
		}
		text := strings.Join(words, " and ")
		if c.Replicas > 0 {
			text = fmt.Sprint(c.Replicas, " ", text)
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}

// describeZone says what ranges of a configuration have, without sizes and times that are the cluster's.
func describeZone(z placement.Zone) string {
	out := fmt.Sprintf("%d voters of %d replicas", z.Voters(), z.NumReplicas)
	for _, part := range []struct {
		name string
		cs   []placement.Conjunction
	}{{"replicas", z.Constraints}, {"voters", z.VoterConstraints}, {"leases", z.LeasePreferences}} {
		if len(part.cs) > 0 {
			out += "; " + part.name + ": " + describe(part.cs)
		}
	}
	if z.Witness != nil {
		out += "; witness: " + describe([]placement.Conjunction{*z.Witness})
	}
	if z.GlobalReads {
		out += "; global reads"
	}
	if z.Protocol != kv.Leader {
		out += "; " + z.Protocol.String()
	}
	if ttl := placement.DefaultZone().GCTTL; z.GCTTL != ttl {
		out += fmt.Sprint("; gc ", z.GCTTL)
	}
	return out
}

// enum is that of a database's regions.
func enum(db *catalog.Database) *types.Enum {
	e := &types.Enum{ID: 1, Array: 2, Schema: "public", Name: catalog.RegionEnumName}
	for i, r := range db.Regions {
		e.Values = append(e.Values, types.EnumValue{Label: r, Place: int64(i+1) * types.EnumGap})
	}
	return e
}

// byRow makes a table REGIONAL BY ROW: its column 1 leads every index.
func byRow(t *catalog.Table, db *catalog.Database) {
	t.Locality, t.RegionColumn = catalog.Locality{Kind: catalog.RegionalByRow}, 1
	t.Columns = []catalog.Column{{ID: 1, Name: catalog.RegionColumn, Type: types.EnumOf(enum(db))}, {ID: 2, Name: "k", Type: types.Int8}}
	for i := range t.Indexes {
		t.Indexes[i].Columns, t.Indexes[i].Implicit = []catalog.IndexColumn{{Column: 1}, {Column: 2}}, 1
	}
}

// TestConfigurations runs testdata/configurations: "database" describes one; a line of "spans" describes a table, and is answered with the configuration of each
// span of it.
func TestConfigurations(t *testing.T) {
	var db *catalog.Database
	datadriven.RunTest(t, "testdata/configurations", func(t *testing.T, d *datadriven.TestData) string {
		switch d.Cmd {
		case "database":
			db = &catalog.Database{ID: 100, Name: "d"}
			for _, a := range d.CmdArgs {
				switch a.Key {
				case "primary":
					db.PrimaryRegion = a.Vals[0]
				case "regions":
					db.Regions = a.Vals
				case "secondary":
					db.SecondaryRegion = a.Vals[0]
				case "survive":
					s, err := catalog.ParseSurvival(strings.Join(a.Vals, " "))
					if err != nil {
						t.Fatal(err)
					}
					db.Survival = s
				case "witness":
					db.WitnessRegion = a.Vals[0]
				case "restricted":
					db.Restricted = true
				case "super":
					db.SuperRegions = append(db.SuperRegions, catalog.SuperRegion{Name: fmt.Sprint("s", len(db.SuperRegions)+1), Regions: a.Vals})
				case "own": // the goal of the last super region
					s, err := catalog.ParseSurvival(a.Vals[0])
					if err != nil {
						t.Fatal(err)
					}
					last := &db.SuperRegions[len(db.SuperRegions)-1]
					last.Own, last.Survival = true, s
				case "gc":
					n, err := strconv.Atoi(a.Vals[0])
					if err != nil {
						t.Fatal(err)
					}
					db.Zone = &catalog.ZoneConfig{GCSeconds: value(int32(n))}
				}
			}
			return ""
		case "spans":
			var out strings.Builder
			for line := range strings.SplitSeq(strings.TrimSpace(d.Input), "\n") {
				x := &catalog.Table{ID: 200, Database: 100, Indexes: []catalog.Index{{ID: 1, Primary: true}}}
				kind, in, _ := strings.Cut(line, " in ")
				switch kind {
				case "regional":
					x.Locality.Region = in
				case "global":
					x.Locality.Kind = catalog.Global
				case "by row":
					byRow(x, db)
				default:
					t.Fatalf("unknown table %q", line)
				}
				for _, s := range Spans(&schema{map[catalog.ID]*catalog.Database{100: db}, []*catalog.Table{x}}, placement.DefaultZone()) {
					switch {
					case s.Start.Less(keys.TableKey(x.ID)) || !s.Start.Less(keys.TableSpan(x.ID).End):
						continue
					case kind == "by row" && !s.Start.Equal(keys.TableKey(x.ID)):
						_, _, rest, err := keys.DecodeIndexKey(s.Start)
						if err != nil {
							t.Fatal(err)
						}
						label := db.Regions[0] // whose partition begins with the index
						if len(rest) > 0 {
							place, _, err := encoding.DecodeInt(rest, encoding.Ascending)
							if err != nil {
								t.Fatal(err)
							}
							label, _ = x.Columns[0].Type.Enum.Label(place)
						}
						fmt.Fprintf(&out, "%s from %s: %s\n", line, label, describeZone(s.Zone))
					default:
						fmt.Fprintf(&out, "%s: %s\n", line, describeZone(s.Zone))
					}
				}
				if out.Len() == 0 {
					out.WriteString("all is the cluster's\n")
				}
			}
			return out.String()
		}
		t.Fatalf("unknown command %s", d.Cmd)
		return ""
	})
}

// randomSchema has databases of all kinds, with tables of all localities between which identities are missing.
func randomSchema(dice *rand.Rand) *schema {
	s := &schema{databases: map[catalog.ID]*catalog.Database{}}
	names := []string{"ap", "eu", "me", "us-e", "us-w"}
	zone := func() *catalog.ZoneConfig {
		switch dice.IntN(6) {
		case 0:
			return &catalog.ZoneConfig{GCSeconds: value(int32(dice.IntN(3) * 600))}
		case 1:
			return &catalog.ZoneConfig{NumReplicas: value(3 + 2*dice.IntN(2))}
		}
		return nil
	}
	for id := catalog.ID(100); id < 104; id++ {
		db := &catalog.Database{ID: id, Zone: zone()}
		if n := dice.IntN(6); n > 0 {
			perm := dice.Perm(len(names))[:n]
			for _, i := range perm {
				db.Regions = append(db.Regions, names[i])
			}
			db.PrimaryRegion = db.Regions[0]
			slices.Sort(db.Regions)
			switch {
			case n >= 3 && dice.IntN(2) == 0:
				db.Survival = catalog.Survival(1 + dice.IntN(n/2))
			case dice.IntN(3) == 0:
				db.Restricted = true
			}
			if n > 1 && dice.IntN(3) == 0 {
				for db.SecondaryRegion == "" || db.SecondaryRegion == db.PrimaryRegion {
					db.SecondaryRegion = db.Regions[dice.IntN(n)]
				}
			}
			if n > 2 && dice.IntN(3) == 0 {
				db.SuperRegions = []catalog.SuperRegion{{Name: "s", Regions: db.Regions[:n-1], Own: true}}
			}
		}
		s.databases[id] = db
	}
	for id := catalog.ID(200); id < 230; id++ {
		if dice.IntN(3) == 0 {
			continue
		}
		db := s.databases[100+catalog.ID(dice.IntN(5))] // sometimes one that is gone
		x := &catalog.Table{ID: id, Database: 99, Zone: zone(), Dropped: dice.IntN(5) == 0}
		for i := range 1 + dice.IntN(3) {
			x.Indexes = append(x.Indexes, catalog.Index{ID: catalog.IndexID(1 + i + dice.IntN(2)*4), Zone: zone()})
		}
		x.Indexes = slices.CompactFunc(x.Indexes, func(a, b catalog.Index) bool { return a.ID == b.ID })
		dice.Shuffle(len(x.Indexes), func(i, j int) { x.Indexes[i], x.Indexes[j] = x.Indexes[j], x.Indexes[i] })
		if db != nil {
			x.Database = db.ID
			if db.MultiRegion() {
				switch dice.IntN(4) {
				case 0:
					x.Locality.Kind = catalog.Global
				case 1:
					x.Locality.Region = db.Regions[dice.IntN(len(db.Regions))]
				case 2:
					byRow(x, db)
				}
			}
		}
		s.tables = append(s.tables, x)
	}
	dice.Shuffle(len(s.tables), func(i, j int) { s.tables[i], s.tables[j] = s.tables[j], s.tables[i] })
	return s
}

// stops are all keys at which a configuration may begin, each with the one that the objects around it give directly.
func stops(s *schema, cluster placement.Zone) map[string]placement.Zone {
	out := map[string]placement.Zone{string(keys.Min): cluster}
	last := catalog.ID(0)
	for _, t := range s.tables {
		last = max(last, t.ID)
		db := s.databases[t.Database]
		if db == nil {
			continue
		}
		table := t.Zone.Over(Table(db, t).Over(db.Zone.Over(Database(db))))
		out[string(keys.TableKey(t.ID))] = Zone(table, cluster)
		for i := range t.Indexes {
			x := &t.Indexes[i]
			start := keys.IndexPrefix(t.ID, x.ID)
			out[string(start)] = Zone(x.Zone.Over(table), cluster)
			if !db.MultiRegion() || x.Implicit == 0 {
				continue
			}
			for k, r := range db.Regions {
				zone := Zone(Partition(db, r).Over(x.Zone.Over(table)), cluster)
				if out[string(encoding.AppendInt(start, int64(k+1)*types.EnumGap, encoding.Ascending))] = zone; k == 0 {
					out[string(start)] = zone
				}
			}
		}
	}
	out[string(keys.TableSpan(last).End)] = cluster
	return out
}

// Spans are in order, do not overlap, and each differs from its neighbours; each key has the configuration of the object that it belongs to, dropped ones included
// (region.RG1). A key of no object has that of the object before it, or the cluster's after the last one.
func TestSpans(t *testing.T) {
	cluster := placement.DefaultZone()
	cluster.NumReplicas = systemVoters // then the system's ranges are like all others
	for seed := range uint64(300) {
		dice := rand.New(rand.NewPCG(seed, 1))
		s := randomSchema(dice)
		spans := Spans(s, cluster)
		if !spans[0].Start.Equal(keys.Min) {
			t.Fatalf("seed %d: the first span begins at %s", seed, spans[0].Start)
		}
		for i := 1; i < len(spans); i++ {
			if !spans[i-1].Start.Less(spans[i].Start) {
				t.Errorf("seed %d: the span at %s is after the one at %s", seed, spans[i].Start, spans[i-1].Start)
			}
			if reflect.DeepEqual(spans[i-1].Zone, spans[i].Zone) {
				t.Errorf("seed %d: the spans at %s and %s are one", seed, spans[i-1].Start, spans[i].Start)
			}
		}
		want := stops(s, cluster)
		at := slices.SortedFunc(maps.Keys(want), cmp.Compare[string])
		check := func(k keys.Key) {
			i, exact := slices.BinarySearch(at, string(k))
			if !exact {
				i--
			}
			zone, span := Find(spans, k)
			if !reflect.DeepEqual(zone, want[at[i]]) {
				t.Errorf("seed %d: %s: %s, want %s", seed, k, describeZone(zone), describeZone(want[at[i]]))
			}
			if k.Less(span.Start) || !k.Less(span.End) {
				t.Errorf("seed %d: %s is not in %s to %s", seed, k, span.Start, span.End)
			}
		}
		for _, k := range at {
			check(keys.Key(k))
			check(keys.Key(k).Next())
		}
		for range 200 {
			k := keys.IndexPrefix(catalog.ID(198+dice.IntN(34)), catalog.IndexID(1+dice.IntN(8)))
			check(keys.Key(encoding.AppendInt(k, dice.Int64N(7*types.EnumGap), encoding.Ascending)))
		}
		if t.Failed() {
			return
		}
	}
}
