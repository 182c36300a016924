package virtual

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"meridian/keys"
	"meridian/placement"
	"meridian/sql/catalog"
	"meridian/sql/catalog/region"
)

// cluster is the configuration of ranges that settings and options give.
func (p *Provider) cluster() placement.Zone {
	if p.o.Zone == nil {
		return placement.DefaultZone()
	}
	return p.o.Zone()
}

// zones are the configurations that have names.
func (f *Functions) zones() (z catalog.NamedZones) {
	if v, ok := f.view.(interface{ Zones() catalog.NamedZones }); ok {
		z = v.Zones()
	}
	return z
}

// zoneName names an object as ALTER ... CONFIGURE ZONE does.
func (f *Functions) zoneName(o region.Object) string {
	if o.Range != "" {
		return "RANGE " + o.Range
	}
	if o.Table == nil {
		return "DATABASE " + Quote(o.Database.Name)
	}
	name := Quote(o.Database.Name) + "." + f.qualified(o.Table)
	switch {
	case o.Directory != nil:
		return "DIRECTORY (" + o.Directory.Prefix.Text + ") OF TABLE " + name
	case o.Partition != "":
		return "PARTITION " + Quote(o.Partition) + " OF INDEX " + name + "@" + Quote(o.Index.Name)
	case o.Index != nil:
		return "INDEX " + name + "@" + Quote(o.Index.Name)
	}
	return "TABLE " + name
}

// partitionNames are the partitions of an index: those that users made, or the regions of a table that is REGIONAL BY ROW.
func partitionNames(db *catalog.Database, t *catalog.Table, x *catalog.Index) (out []string) {
	if x.Partitioning != nil {
		x.Partitioning.Each(func(q, _ *catalog.Partition, _ int) { out = append(out, q.Name) })
		return out
	}
	c := t.Column(t.RegionColumn)
	if db.MultiRegion() && t.Locality.Kind == catalog.RegionalByRow && c != nil && c.Type.Enum != nil && len(x.Columns) > 0 && x.Columns[0].Column == t.RegionColumn {
		for _, v := range c.Type.Enum.Values {
			out = append(out, v.Label)
		}
	}
	return out
}

// internalZones has each object of the database that may have a configuration, and the object from which it has it.
func internalZones(r *reading) error {
	f := r.functions()
	ranges, cluster := f.zones(), r.p.cluster()
	dbs, err := r.view.Databases(r.ctx)
	if err != nil {
		return err
	}
	goal := region.Strongest(dbs)
	add := func(kind int, o region.Object) {
		layers := o.Layers(ranges, cluster, goal)
		full, from := region.Effective(layers)
		var raw, id, db, index, partition, rng any
		if layers[0].Own != nil {
			raw = region.SQL(f.zoneName(o), layers[0].Own)
		}
		if o.Table != nil {
			id = o.Table.ID
		}
		if o.Database != nil {
			db = o.Database.ID
		}
		if o.Index != nil {
			index = int64(o.Index.ID)
		}
		if rng = orNull(o.Range); o.Partition != "" {
			partition = o.Partition
		}
		r.add("kind", kind, "range_name", rng, "database_id", db, "table_id", id, "index_id", index, "partition_name", partition, "target", f.zoneName(o),
			"source", f.zoneName(from), "raw_config_sql", raw, "full_config_sql", region.SQL(f.zoneName(from), full))
	}
	all, err := r.relations()
	if err != nil {
		return err
	}
	if r.identities == nil {
		for _, n := range []string{catalog.DefaultRange, catalog.LivenessRange, catalog.MetaRange, catalog.SystemRange} {
			add(0, region.Object{Range: n})
		}
		for _, d := range dbs {
			add(1, region.Object{Database: d})
		}
	}
	for _, t := range all {
		at := slices.IndexFunc(dbs, func(d *catalog.Database) bool { return d.ID == t.Database })
		if at < 0 || t.Kind == catalog.KindView || t.Temporary() {
			continue
		}
		add(2, region.Object{Database: dbs[at], Table: t})
		for i := range t.Indexes {
			x := &t.Indexes[i]
			add(3, region.Object{Database: dbs[at], Table: t, Index: x})
			for _, n := range partitionNames(dbs[at], t, x) {
				add(4, region.Object{Database: dbs[at], Table: t, Index: x, Partition: n})
			}
		}
	}
	return nil
}

// partitionBy is the clause PARTITION BY of an index, with a space before it; empty: it has none.
func (f *Functions) partitionBy(t *catalog.Table, x *catalog.Index) string {
	if x.Partitioning == nil {
		return ""
	}
	return partitionClause(t, x, x.Partitioning, 0)
}

func partitionClause(t *catalog.Table, x *catalog.Index, p *catalog.Partitioning, before int) string {
	kind, parts := "LIST", make([]string, 0, len(p.Partitions))
	if p.Range {
		kind = "RANGE"
	}
	for i := range p.Partitions {
		q := &p.Partitions[i]
		s := "PARTITION " + Quote(q.Name) + " VALUES " + partitionValue(p, q)
		if q.Sub != nil {
			s += partitionClause(t, x, q.Sub, before+p.Columns)
		}
		parts = append(parts, s)
	}
	return " PARTITION BY " + kind + " (" + partitionColumns(t, x, before, p.Columns) + ") (" + strings.Join(parts, ", ") + ")"
}

// partitionValue is what a partition holds: IN (...), or FROM (...) TO (...).
func partitionValue(p *catalog.Partitioning, q *catalog.Partition) string {
	if p.Range {
		return "FROM (" + q.From.Text + ") TO (" + q.To.Text + ")"
	}
	texts := make([]string, len(q.Values))
	for i := range q.Values {
		if texts[i] = q.Values[i].Text; p.Columns > 1 {
			texts[i] = "(" + texts[i] + ")"
		}
	}
	return "IN (" + strings.Join(texts, ", ") + ")"
}

func partitionColumns(t *catalog.Table, x *catalog.Index, before, n int) string {
	var ids []catalog.ColumnID
	for _, k := range written(x)[before : before+n] {
		ids = append(ids, k.Column)
	}
	return columnNames(t, ids)
}

// partitionsAndZones are the statements after CREATE TABLE that give the indexes their partitions, and all parts their configurations.
func (f *Functions) partitionsAndZones(t *catalog.Table) (out []string) {
	name := f.qualified(t)
	zone := func(object string, z *catalog.ZoneConfig) {
		if !z.Empty() {
			out = append(out, region.SQL(object, z))
		}
	}
	for i := range t.Indexes {
		x := &t.Indexes[i]
		if by := f.partitionBy(t, x); by != "" && !x.Primary && shownIndex(t, x) {
			out = append(out, "ALTER INDEX "+name+"@"+Quote(x.Name)+by)
		}
	}
	t.EachPlacement(func(x *catalog.Index, prefix *catalog.Bound, p string) {
		of := ""
		if prefix != nil {
			if !f.view.Access().May(f.view.CurrentUser(), t.ID, catalog.Select) {
				return // the values are those of rows
			}
			of = " FOR VALUES (" + prefix.Text + ")"
		}
		if x == nil || x == t.Primary() {
			out = append(out, "ALTER TABLE "+name+" SET PLACEMENT '"+strings.ReplaceAll(p, "'", "''")+"'"+of)
		}
	})
	zone("TABLE "+name, t.Zone)
	for i := range t.Indexes {
		x := &t.Indexes[i]
		if !shownIndex(t, x) {
			continue
		}
		zone("INDEX "+name+"@"+Quote(x.Name), x.Zone)
		for _, p := range slices.Sorted(maps.Keys(x.PartitionZones)) {
			zone("PARTITION "+Quote(p)+" OF INDEX "+name+"@"+Quote(x.Name), x.PartitionZones[p])
		}
	}
	return out
}

func internalPartitions(r *reading) error {
	f := r.functions()
	ranges, cluster := f.zones(), r.p.cluster()
	db, err := r.view.Database(r.ctx, r.view.CurrentDatabase())
	if err != nil || db == nil {
		return err
	}
	return r.eachIndex(func(t *catalog.Table, x *catalog.Index) error {
		place := 0
		add := func(name, columns, value string, parent any) {
			o := region.Object{Database: db, Table: t, Index: x, Partition: name}
			layers := o.Layers(ranges, cluster, catalog.SurviveZone)
			full, from := region.Effective(layers)
			var own any
			if layers[0].Own != nil {
				own = region.SQL(f.zoneName(o), layers[0].Own)
			}
			place++
			r.add("table_id", t.ID, "index_id", int64(x.ID), "place", place, "database_name", db.Name, "table_name", t.Name, "partition_name", name, "parent_partition", parent,
				"column_names", columns, "index_name", t.Name+"@"+x.Name, "partition_value", value, "zone_config", own, "full_zone_config", region.SQL(f.zoneName(from), full))
		}
		if x.Partitioning == nil {
			for _, n := range partitionNames(db, t, x) {
				add(n, columnNames(t, []catalog.ColumnID{t.RegionColumn}), "('"+strings.ReplaceAll(n, "'", "''")+"')", nil)
			}
			return nil
		}
		var walk func(p *catalog.Partitioning, before int, parent any)
		walk = func(p *catalog.Partitioning, before int, parent any) {
			for i := range p.Partitions {
				q := &p.Partitions[i]
				var texts []string
				for _, v := range q.Values {
					texts = append(texts, "("+v.Text+")")
				}
				value := strings.Join(texts, ", ")
				if p.Range {
					value = "(" + q.From.Text + ") TO (" + q.To.Text + ")"
				}
				add(q.Name, partitionColumns(t, x, before, p.Columns), value, parent)
				if q.Sub != nil {
					walk(q.Sub, before+p.Columns, q.Name)
				}
			}
		}
		walk(x.Partitioning, 0, nil)
		return nil
	})
}

// objectAt is the object whose configuration a key has: a partition, an index or a table of the session's database; ok is false if it is of none.
func (r *reading) objectAt(at keys.Key, dbs []*catalog.Database) (o region.Object, ok bool) {
	id, rest, err := keys.DecodeTableKey(at)
	if err != nil {
		return o, false
	}
	t := r.functions().table(id)
	if t == nil {
		return o, false
	}
	i := slices.IndexFunc(dbs, func(d *catalog.Database) bool { return d.ID == t.Database })
	if i < 0 {
		return o, false
	}
	o = region.Object{Database: dbs[i], Table: t}
	if len(rest) == 0 {
		return o, true
	}
	if _, index, _, err := keys.DecodeIndexKey(at); err == nil {
		if x := t.Index(catalog.IndexID(index)); x != nil {
			o.Index, o.Partition, o.Directory = x, region.PartitionAt(t, x, at), region.DirectoryAt(t, x, at)
		}
	}
	return o, true
}

// internalViolations has a row for each object and constraint that ranges violate, with their number. Constraints that can't be met, since there are no such nodes, are among
// them.
func internalViolations(r *reading) error {
	if r.p.o.Cluster == nil {
		return nil
	}
	if err := r.mustBeSuperuser(); err != nil {
		return err
	}
	list, err := r.p.o.Cluster.Violations(r.ctx)
	if err != nil {
		return err
	}
	dbs, err := r.view.Databases(r.ctx)
	if err != nil {
		return err
	}
	f := r.functions()
	ranges, cluster := f.zones(), r.p.cluster()
	type group struct{ object, source, violation string }
	counts, example, order := map[group]int{}, map[group]int64{}, []group(nil)
	for _, v := range list {
		g := group{object: "RANGE " + catalog.SystemRange, source: "RANGE " + catalog.SystemRange}
		if o, ok := r.objectAt(v.Start, dbs); ok {
			_, from := region.Effective(o.Layers(ranges, cluster, region.Strongest(dbs)))
			g.object, g.source = f.zoneName(o), f.zoneName(from)
		}
		var what []string
		for _, n := range v.Forbidden {
			what = append(what, "no replica may be on node "+strconv.Itoa(int(n)))
		}
		for _, m := range v.Missing {
			what = append(what, "too few replicas for "+m)
		}
		if v.Protocol != "" {
			what = append(what, "the commit protocol is not "+v.Protocol)
		}
		for _, w := range what {
			if g.violation = w; counts[g] == 0 {
				order = append(order, g)
				example[g] = int64(v.Range)
			}
			counts[g]++
		}
	}
	for _, g := range order {
		r.add("object", g.object, "source", g.source, "violation", g.violation, "ranges", counts[g], "example_range", example[g])
	}
	return nil
}
