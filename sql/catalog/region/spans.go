package region

import (
	"cmp"
	"iter"
	"reflect"
	"slices"
	"time"

	"meridian/commit/protocol"
	"meridian/encoding"
	"meridian/keys"
	"meridian/kv"
	"meridian/placement"
	"meridian/sql/catalog"
)

func gcTTL(seconds int32) time.Duration { return time.Duration(seconds) * time.Second }

// Catalogue is a state of the catalogue. Dropped objects whose data may still be there are part of it.
type Catalogue interface {
	// DatabaseByID is nil if there is none.
	DatabaseByID(id catalog.ID) *catalog.Database
	// StoredTables are the relations that have rows, in any order.
	StoredTables() iter.Seq[*catalog.Table]
	// Databases are all databases that are not dropped, in any order.
	Databases() iter.Seq[*catalog.Database]
	// Zones are the configurations with names.
	Zones() catalog.NamedZones
}

// Span is keys with one configuration.
type Span struct {
	// Start is where the span begins; it ends where the next one does.
	Start keys.Key
	Zone  placement.Zone
}

// systemVoters is how many voters the system's own ranges have where there are so many nodes: without them nothing works, and they are small.
const systemVoters = 5

// systemRanges is the configuration that the system's ranges have, given that of all others and the strongest goal of any rows; nil: the same as all others. An
// operator who lowers the number of all voters below the default means those of the system, too.
func systemRanges(others placement.Zone, goal catalog.Survival) *catalog.ZoneConfig {
	voters := max(systemVoters, goal.Regions())
	if n := others.Voters(); n >= voters || n < zoneVoters {
		return nil
	}
	return &catalog.ZoneConfig{NumReplicas: value(voters)}
}

// Strongest is the goal of the rows of databases that survive most.
func Strongest(dbs []*catalog.Database) (goal catalog.Survival) {
	for _, d := range dbs {
		if !d.MultiRegion() {
			continue
		}
		goal = max(goal, d.Survival)
		for _, s := range d.SuperRegions {
			if s.Own {
				goal = max(goal, s.Survival)
			}
		}
	}
	return goal
}

// system begins the spans of the system's ranges. The catalogue's tables are with other small tables, unless they are configured or a database is to survive the loss of a
// region: then they have to as well.
func (b *builder) system(c Catalogue) {
	goal := Strongest(slices.Collect(c.Databases()))
	zone := func(name string) placement.Zone {
		return Zone(c.Zones().Ranges[name].Over(systemRanges(b.cluster, goal)), b.cluster)
	}
	b.begin(keys.Min, zone(catalog.MetaRange))
	b.begin(keys.SystemPrefix, zone(catalog.SystemRange))
	liveness := keys.LivenessSpan()
	b.begin(liveness.Start, zone(catalog.LivenessRange))
	b.begin(liveness.End, zone(catalog.SystemRange))
	if c.Zones().Ranges[catalog.SystemRange] != nil || goal != catalog.SurviveZone {
		b.begin(keys.TablePrefix, zone(catalog.SystemRange))
		b.begin(keys.TableKey(catalog.FirstUserID), b.cluster)
	} else {
		b.begin(keys.TablePrefix, b.cluster)
	}
}

// Spans are the configurations of all keys, in order; the first begins at keys.Min. The cluster's configuration is that of keys that no object has.
func Spans(c Catalogue, cluster placement.Zone) []Span {
	cluster = Zone(c.Zones().Ranges[catalog.DefaultRange], cluster)
	var tables []*catalog.Table
	for t := range c.StoredTables() {
		tables = append(tables, t)
	}
	slices.SortFunc(tables, func(a, b *catalog.Table) int { return cmp.Compare(a.ID, b.ID) })
	b := &builder{spans: []Span{{keys.Min, cluster}}, cluster: cluster, menu: c.Zones().Placements}
	b.system(c)
	for _, t := range tables {
		db := c.DatabaseByID(t.Database)
		if db == nil {
			continue
		}
		b.table(db, t)
	}
	// The configuration of the last table does not hold for the tables after it.
	if n := len(tables); n > 0 {
		b.begin(keys.TableSpan(tables[n-1].ID).End, cluster)
	}
	return b.spans
}

type builder struct {
	spans   []Span
	cluster placement.Zone
	// menu is the placement menu.
	menu map[string]*catalog.ZoneConfig
	// protocol is that of the keys that come next.
	protocol kv.Protocol
}

// zone is a configuration of keys of a table.
func (b *builder) zone(c *catalog.ZoneConfig) placement.Zone {
	z := Zone(c, b.cluster)
	z.Protocol = b.protocol
	z.GlobalReads = z.GlobalReads && protocol.Of(z.Protocol).Ahead.Can()
	return z
}

// protocolOf is the commit protocol that the ranges of a table are to have. Those of a dropped one go back to the leader's, under which its data is removed.
func protocolOf(t *catalog.Table) kv.Protocol {
	if t.Dropped && !t.Reserved {
		return protocol.Default
	}
	return kv.Protocol(t.Protocol)
}

// begin says that a configuration holds from a key on.
func (b *builder) begin(at keys.Key, z placement.Zone) {
	last := &b.spans[len(b.spans)-1]
	switch {
	case reflect.DeepEqual(last.Zone, z):
	case last.Start.Equal(at):
		last.Zone = z
		if n := len(b.spans); n > 1 && reflect.DeepEqual(b.spans[n-2].Zone, z) {
			b.spans = b.spans[:n-1]
		}
	default:
		b.spans = append(b.spans, Span{at, z})
	}
}

func (b *builder) table(db *catalog.Database, t *catalog.Table) {
	around := func(t *catalog.Table) *catalog.ZoneConfig {
		return t.Zone.Over(b.menu[t.Placement].Over(Table(db, t).Over(db.Zone.Over(b.menu[db.Placement].Over(Database(db))))))
	}
	table := around(t)
	// Keys of the table that no index has, or has any more, are the leader's. Among them is the one by which the table is locked (lease.L6).
	own := protocolOf(t)
	b.protocol = protocol.Default
	b.begin(keys.TableKey(t.ID), b.zone(table))
	for _, x := range byID(t) {
		if b.protocol = own; t.Index(x.ID) == nil {
			b.protocol = protocol.Default
		}
		if x.Placed == nil {
			b.index(db, t, x, table)
		} else {
			other := *t
			other.Locality, other.RegionColumn = x.Placed.Locality, x.Placed.Column
			b.index(db, &other, x, around(&other))
		}
		if own != protocol.Default {
			b.protocol = protocol.Default
			b.begin(keys.IndexSpan(t.ID, x.ID).End, b.zone(table))
		}
	}
	if b.protocol = protocol.Default; own != protocol.Default {
		b.begin(keys.TableSpan(t.ID).End, b.cluster)
	}
}

// index adds the spans of an index, whose table has a configuration.
func (b *builder) index(db *catalog.Database, t *catalog.Table, x *catalog.Index, table *catalog.ZoneConfig) {
	column := t.Column(t.RegionColumn)
	rows := db.MultiRegion() && t.Locality.Kind == catalog.RegionalByRow && column != nil && column.Type.Enum != nil
	index, start := x.Zone.Over(table), keys.IndexPrefix(t.ID, x.ID)
	if !rows || len(x.Columns) == 0 || x.Columns[0] != (catalog.IndexColumn{Column: t.RegionColumn}) {
		b.begin(start, b.zone(index))
		b.partitions(x, start, index)
		return
	}
	// A partition reaches up to the next one: there is no row between them.
	for i, v := range column.Type.Enum.Values {
		at := start
		if i > 0 {
			at = encoding.AppendInt(start[:len(start):len(start)], v.Place, encoding.Ascending)
		}
		b.begin(at, b.zone(x.PartitionZones[v.Label].Over(Partition(db, v.Label).Over(index))))
	}
}

// TableSpans are the configurations of the keys of one table; the first begins where the table does, and the last holds up to its end.
func TableSpans(db *catalog.Database, t *catalog.Table, named catalog.NamedZones, cluster placement.Zone) []Span {
	cluster = Zone(named.Ranges[catalog.DefaultRange], cluster)
	b := &builder{spans: []Span{{keys.TableKey(t.ID), cluster}}, cluster: cluster, menu: named.Placements}
	b.table(db, t)
	return b.spans
}

// stretch is a span of keys of a partition, or of the rest of an index.
type stretch struct {
	start, end keys.Key
	// depth orders stretches that overlap: partitions within others count more than these, longer tuples more than shorter ones.
	depth int
	zone  *catalog.ZoneConfig
	name  string // of the partition; empty: the rest of the index
}

// partitions adds the spans of an index's partitions and directories, where their configurations differ from the index's.
func (b *builder) partitions(x *catalog.Index, start keys.Key, index *catalog.ZoneConfig) {
	partitioned := x.Partitioning != nil && len(x.PartitionZones) > 0
	if !partitioned && len(x.Directories) == 0 {
		return
	}
	all := []stretch{{start: start, end: start.PrefixEnd(), zone: index}}
	if partitioned {
		all = stretches(all, x, x.Partitioning, []keys.Key{start}, index, 1)
	}
	all = append(all, directories(all, x, start, b.menu)...)
	var ends []keys.Key
	for _, s := range all {
		ends = append(ends, s.start, s.end)
	}
	slices.SortFunc(ends, keys.Key.Compare)
	for i, at := range ends {
		if i > 0 && at.Equal(ends[i-1]) || !at.Less(start.PrefixEnd()) {
			continue
		}
		b.begin(at, b.zone(deepest(all, at).zone))
	}
}

// directories are the stretches of an index's directories. A directory counts more than the partitions around it and within it, and a directory within another one more than
// that one (region.RG2). Where a partition begins within a directory, the fields that the directory does not have are the partition's.
func directories(around []stretch, x *catalog.Index, start keys.Key, menu map[string]*catalog.ZoneConfig) (out []stretch) {
	const above = 1 << 20 // the depths of partitions
	for i := range x.Directories {
		d := &x.Directories[i]
		at := bound(start, &d.Prefix)
		// The options of the menu have the same fields, so that nothing of a directory around this one is inherited.
		inner := []keys.Key{at}
		for k := range around {
			for _, e := range []keys.Key{around[k].start, around[k].end} {
				if at.Less(e) && e.Less(at.PrefixEnd()) {
					inner = append(inner, e)
				}
			}
		}
		slices.SortFunc(inner, keys.Key.Compare)
		for k, from := range inner {
			to := at.PrefixEnd()
			if k+1 < len(inner) {
				to = inner[k+1]
			}
			if from.Less(to) {
				out = append(out, stretch{from, to, above + d.Prefix.Values, d.Option(menu).Over(deepest(around, from).zone), ""})
			}
		}
	}
	return out
}

// DirectorySpan is the keys of a directory of an index.
func DirectorySpan(t *catalog.Table, x *catalog.Index, d *catalog.Directory) keys.Span {
	at := bound(keys.IndexPrefix(t.ID, x.ID), &d.Prefix)
	return keys.Span{Start: at, End: at.PrefixEnd()}
}

// DirectoryAt is the directory of an index whose placement a key has; nil: it is in none that has one.
func DirectoryAt(t *catalog.Table, x *catalog.Index, at keys.Key) (found *catalog.Directory) {
	for i := range x.Directories {
		d := &x.Directories[i]
		if DirectorySpan(t, x, d).Contains(at) && (found == nil || found.Prefix.Values < d.Prefix.Values) {
			found = d
		}
	}
	return found
}

// deepest is the stretch that counts for a key; the first one covers all keys.
func deepest(all []stretch, at keys.Key) *stretch {
	over := &all[0]
	for k := range all {
		if s := &all[k]; !at.Less(s.start) && at.Less(s.end) && s.depth >= over.depth {
			over = s
		}
	}
	return over
}

// PartitionAt is the name of the partition of an index that a key is in; empty: it is in none.
func PartitionAt(t *catalog.Table, x *catalog.Index, at keys.Key) (name string) {
	start := keys.IndexPrefix(t.ID, x.ID)
	if x.Partitioning != nil {
		all := stretches([]stretch{{start: start, end: start.PrefixEnd()}}, x, x.Partitioning, []keys.Key{start}, nil, 1)
		return deepest(all, at).name
	}
	column := t.Column(t.RegionColumn)
	if t.Locality.Kind != catalog.RegionalByRow || column == nil || column.Type.Enum == nil || len(x.Columns) == 0 || x.Columns[0] != (catalog.IndexColumn{Column: t.RegionColumn}) {
		return ""
	}
	for i, v := range column.Type.Enum.Values {
		if i == 0 || !at.Less(encoding.AppendInt(start[:len(start):len(start)], v.Place, encoding.Ascending)) {
			name = v.Label
		}
	}
	return name
}

// stretches adds those of a partitioning within the keys with some prefixes.
func stretches(all []stretch, x *catalog.Index, p *catalog.Partitioning, within []keys.Key, around *catalog.ZoneConfig, depth int) []stretch {
	for i := range p.Partitions {
		q := &p.Partitions[i]
		zone := x.PartitionZones[q.Name].Over(around)
		for _, prefix := range within {
			if p.Range {
				all = append(all, stretch{bound(prefix, q.From), bound(prefix, q.To), depth, zone, q.Name})
				continue
			}
			for v := range q.Values {
				value := &q.Values[v]
				at := bound(prefix, value)
				// A subpartition counts more than any tuple around it.
				level := depth + value.Values
				all = append(all, stretch{at, at.PrefixEnd(), level, zone, q.Name})
				if q.Sub != nil {
					all = stretches(all, x, q.Sub, []keys.Key{at}, zone, level+1)
				}
			}
		}
	}
	return all
}

func bound(prefix keys.Key, b *catalog.Bound) keys.Key {
	at := append(prefix[:len(prefix):len(prefix)], b.Key...)
	if b.End {
		return at.PrefixEnd()
	}
	return at
}

// byID are the indexes of a table in the order of their keys, with those whose data is about to be removed.
func byID(t *catalog.Table) []*catalog.Index {
	out := make([]*catalog.Index, 0, len(t.Indexes)+len(t.Removed))
	for i := range t.Indexes {
		out = append(out, &t.Indexes[i])
	}
	for i := range t.Removed {
		out = append(out, &t.Removed[i])
	}
	slices.SortFunc(out, func(a, b *catalog.Index) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

// Find is the configuration of a key, and the span around it all of which has that configuration.
func Find(spans []Span, k keys.Key) (placement.Zone, keys.Span) {
	i, exact := slices.BinarySearchFunc(spans, k, func(s Span, k keys.Key) int { return s.Start.Compare(k) })
	if !exact {
		i--
	}
	end := keys.Max
	if i+1 < len(spans) {
		end = spans[i+1].Start
	}
	return spans[i].Zone, keys.Span{Start: spans[i].Start, End: end}
}
