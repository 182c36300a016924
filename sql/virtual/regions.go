package virtual

import (
	"maps"
	"slices"
	"strings"

	"meridian/sql/catalog"
)

// places are the regions in which the cluster has nodes, each with its zones, sorted. Nodes that were decommissioned are left out.
func (r *reading) places() (map[string][]string, error) {
	out := map[string][]string{}
	if r.p.o.Cluster == nil {
		return out, nil
	}
	list, err := r.p.o.Cluster.Nodes(r.ctx)
	for _, n := range list {
		if n.Region == "" || n.Gone {
			continue
		}
		zones := out[n.Region]
		if n.Zone != "" && !slices.Contains(zones, n.Zone) {
			zones = append(zones, n.Zone)
		}
		out[n.Region] = zones
	}
	for _, zones := range out {
		slices.Sort(zones)
	}
	return out, err
}

// list is a list for a column of arrays: an empty one is {}, not NULL.
func list(v []string) []string {
	if v == nil {
		return []string{}
	}
	return v
}

// orNull is a text, or NULL if it is empty.
func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func internalRegions(r *reading) error {
	places, err := r.places()
	if err != nil {
		return err
	}
	dbs, err := r.view.Databases(r.ctx)
	if err != nil {
		return err
	}
	in, primary, secondary := map[string][]string{}, map[string][]string{}, map[string][]string{}
	for _, d := range dbs {
		for _, g := range d.Regions {
			in[g] = append(in[g], d.Name)
		}
		if d.MultiRegion() {
			primary[d.PrimaryRegion] = append(primary[d.PrimaryRegion], d.Name)
		}
		if d.SecondaryRegion != "" {
			secondary[d.SecondaryRegion] = append(secondary[d.SecondaryRegion], d.Name)
		}
	}
	for _, g := range slices.Sorted(maps.Keys(places)) {
		for _, names := range [][]string{in[g], primary[g], secondary[g]} {
			slices.Sort(names)
		}
		r.add("region", g, "zones", list(places[g]), "database_names", list(in[g]), "primary_region_of", list(primary[g]), "secondary_region_of", list(secondary[g]))
	}
	return nil
}

func internalDatabaseRegions(r *reading) error {
	places, err := r.places()
	if err != nil {
		return err
	}
	dbs, err := r.view.Databases(r.ctx)
	for _, d := range dbs {
		for _, g := range d.Regions {
			r.add("database_name", d.Name, "region", g, "is_primary", g == d.PrimaryRegion, "is_secondary", g == d.SecondaryRegion, "zones", list(places[g]), "is_witness", false)
		}
		if g := d.WitnessRegion; g != "" {
			r.add("database_name", d.Name, "region", g, "is_primary", false, "is_secondary", false, "zones", list(places[g]), "is_witness", true)
		}
	}
	return err
}

func internalSuperRegions(r *reading) error {
	dbs, err := r.view.Databases(r.ctx)
	for _, d := range dbs {
		for i := range d.SuperRegions {
			s := &d.SuperRegions[i]
			var goal any
			if s.Own {
				goal = s.Survival.String()
			}
			r.add("database_name", d.Name, "super_region_name", s.Name, "regions", list(s.Regions), "survival_goal", goal)
		}
	}
	return err
}

func internalDatabases(r *reading) error {
	dbs, err := r.view.Databases(r.ctx)
	for _, d := range dbs {
		var goal, placement any
		if d.MultiRegion() {
			if goal, placement = d.Survival.String(), "default"; d.Restricted {
				placement = "restricted"
			}
		}
		r.add("id", d.ID, "name", d.Name, "owner", d.Owner, "primary_region", orNull(d.PrimaryRegion), "secondary_region", orNull(d.SecondaryRegion),
			"regions", list(d.Regions), "survival_goal", goal, "placement_policy", placement, "create_statement", createDatabase(d))
	}
	return err
}

// createDatabase is SHOW CREATE DATABASE. The clauses of a database with regions are always printed in full.
func createDatabase(d *catalog.Database) string {
	var b strings.Builder
	b.WriteString("CREATE DATABASE " + Quote(d.Name))
	if !d.MultiRegion() {
		return b.String()
	}
	b.WriteString(" PRIMARY REGION " + quoted(d.PrimaryRegion) + " REGIONS = " + quotedList(d.Regions) +
		" SURVIVE " + strings.ToUpper(d.Survival.String()) + " FAILURE")
	if d.WitnessRegion != "" {
		b.WriteString(" WITNESS REGION " + quoted(d.WitnessRegion))
	}
	if d.Restricted {
		b.WriteString(" PLACEMENT RESTRICTED")
	}
	// The grammar has one super region in CREATE DATABASE.
	for i := range d.SuperRegions {
		if s := &d.SuperRegions[i]; i == 0 && len(d.SuperRegions) == 1 && !s.Own {
			b.WriteString(" SUPER REGION " + Quote(s.Name) + " VALUES " + quotedList(s.Regions))
		}
	}
	if d.SecondaryRegion != "" {
		b.WriteString(" SECONDARY REGION " + quoted(d.SecondaryRegion))
	}
	if n := len(d.SuperRegions); n > 1 || n == 1 && d.SuperRegions[0].Own {
		for i := range d.SuperRegions {
			s := &d.SuperRegions[i]
			b.WriteString(";\nALTER DATABASE " + Quote(d.Name) + " ADD SUPER REGION " + Quote(s.Name) + " VALUES " + quotedList(s.Regions))
			if s.Own {
				b.WriteString(";\nALTER DATABASE " + Quote(d.Name) + " ALTER SUPER REGION " + Quote(s.Name) + " SURVIVE " + strings.ToUpper(s.Survival.String()) + " FAILURE")
			}
		}
	}
	return b.String()
}

// quoted is the name of a region, always in quotes, since most have a dash.
func quoted(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

func quotedList(names []string) string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = quoted(n)
	}
	return strings.Join(out, ", ")
}

// locality is the clause LOCALITY of a relation; empty in a database without regions.
func locality(db *catalog.Database, t *catalog.Table) string {
	if db == nil || !db.MultiRegion() || t.Temporary() {
		return ""
	}
	s := t.Locality.String()
	if c := t.Column(t.RegionColumn); t.Locality.Kind == catalog.RegionalByRow && c != nil && c.Name != catalog.RegionColumn {
		s += " AS " + Quote(c.Name)
	}
	return s
}

func internalTables(r *reading) error {
	all, err := r.relations()
	if err != nil {
		return err
	}
	db, err := r.view.Database(r.ctx, r.view.CurrentDatabase())
	if err != nil {
		return err
	}
	for _, t := range all {
		var rows any
		if st, _ := r.view.Statistics(r.ctx, t.ID); st != nil && t.Kind == catalog.KindTable {
			rows = st.Rows
		}
		r.add("table_id", t.ID, "table_name", t.Name, "estimated_row_count", rows, "locality", orNull(locality(db, t)))
	}
	return nil
}

func internalEnums(r *reading) error {
	all, err := r.enums()
	if err != nil {
		return err
	}
	names, err := r.schemaNames()
	if err != nil {
		return err
	}
	for _, t := range all {
		if t.Dropped || catalog.IsLocal(t.ID) {
			continue
		}
		var values []string
		for _, v := range t.Enum.Values {
			values = append(values, v.Label)
		}
		schema := t.Enum.Schema
		if s := names[t.SchemaID]; s != nil {
			schema = s.Name
		}
		r.add("schema_name", schema, "enum_name", t.Enum.Name, "enum_values", list(values), "owner", t.Owner)
	}
	return nil
}

// internalIndexColumns has a row for each column of each index, also those that the user did not write: the region column of a table that is REGIONAL
// BY ROW, and the columns of the primary key by which entries of a secondary index are told apart.
func internalIndexColumns(r *reading) error {
	f := r.functions()
	return r.eachIndex(func(t *catalog.Table, x *catalog.Index) error {
		seq := 0
		definition := f.indexDef(t, x)
		add := func(id catalog.ColumnID, direction string, storing, implicit bool) {
			c := t.Column(id)
			if c == nil {
				return
			}
			seq++
			r.add("table_id", t.ID, "table_name", t.Name, "index_name", x.Name, "non_unique", !(x.Unique || x.Primary || x.Deferrable), "seq_in_index", seq,
				"column_name", c.Name, "definition", Quote(c.Name), "direction", direction, "storing", storing, "implicit", implicit, "visible", true,
				"index_definition", definition)
		}
		in := map[catalog.ColumnID]bool{}
		for i, k := range x.Columns {
			direction := "ASC"
			if k.Desc {
				direction = "DESC"
			}
			in[k.Column] = true
			add(k.Column, direction, false, i < x.Implicit)
		}
		if x.Primary {
			for i := range t.Columns {
				if c := &t.Columns[i]; !in[c.ID] && c.State == catalog.Public && (!c.Hidden || c.ID == t.RegionColumn) {
					add(c.ID, "N/A", true, false)
				}
			}
			return nil
		}
		for _, id := range x.Stored {
			in[id] = true
			add(id, "N/A", true, false)
		}
		for _, k := range t.Primary().Columns {
			if !in[k.Column] {
				direction := "ASC"
				if x.Unique {
					direction = "N/A" // it is in the value
				}
				add(k.Column, direction, x.Unique, true)
			}
		}
		return nil
	})
}

// internalThisNode is the node that answers.
func internalThisNode(r *reading) error {
	if r.p.o.Cluster == nil || r.p.o.NodeID == nil {
		return nil
	}
	list, err := r.p.o.Cluster.Nodes(r.ctx)
	for _, n := range list {
		if n.ID == r.p.o.NodeID() {
			r.add("node_id", n.ID, "locality", n.Locality)
		}
	}
	return err
}
