package virtual

import (
	"slices"

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

// zones are the configurations of spans that have names.
func (f *Functions) zones() map[string]*catalog.ZoneConfig {
	if v, ok := f.view.(interface {
		Zones() map[string]*catalog.ZoneConfig
	}); ok {
		return v.Zones()
	}
	return nil
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
	add := func(kind int, o region.Object) {
		layers := o.Layers(ranges, cluster)
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
	dbs, err := r.view.Databases(r.ctx)
	if err != nil {
		return err
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
			if x.State == catalog.Absent {
				continue
			}
			add(3, region.Object{Database: dbs[at], Table: t, Index: x})
			for _, n := range partitionNames(dbs[at], t, x) {
				add(4, region.Object{Database: dbs[at], Table: t, Index: x, Partition: n})
			}
		}
	}
	return nil
}
