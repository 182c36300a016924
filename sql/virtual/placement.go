package virtual

import (
	"fmt"
	"maps"
	"slices"

	"meridian/keys"
	"meridian/sql/catalog"
	"meridian/sql/catalog/region"
)

// internalPlacements is the placement menu.
func internalPlacements(r *reading) error {
	menu := r.functions().zones().Placements
	for _, name := range slices.Sorted(maps.Keys(menu)) {
		z := menu[name]
		r.add("placement_name", name, "num_replicas", *z.NumReplicas, "num_voters", *z.NumVoters, "constraints", region.FormatConstraints(*z.Constraints),
			"voter_constraints", region.FormatConstraints(*z.VoterConstraints), "lease_preferences", region.FormatPreferences(*z.LeasePreferences))
	}
	return nil
}

// option says in a line what an option asks for.
func option(z *catalog.ZoneConfig) string {
	if z == nil {
		return ""
	}
	s := fmt.Sprintf("%d replicas", *z.NumReplicas)
	if *z.NumReplicas == 1 {
		s = "1 replica"
	}
	if *z.NumVoters != *z.NumReplicas {
		s += fmt.Sprintf(", %d of them voters", *z.NumVoters)
	}
	if len(*z.Constraints) > 0 {
		s += ", " + region.FormatConstraints(*z.Constraints)
	}
	if len(*z.VoterConstraints) > 0 {
		s += ", voters " + region.FormatConstraints(*z.VoterConstraints)
	}
	if len(*z.LeasePreferences) > 0 {
		s += ", leases " + region.FormatPreferences(*z.LeasePreferences)
	}
	return s
}

// internalDirectories has the tables and directories of the session's database that have a placement, and how far their replicas are there. The values in a prefix are those
// of rows, so that only a role that may read the table sees them.
func internalDirectories(r *reading) error {
	if r.p.o.Cluster == nil {
		return nil
	}
	menu := r.functions().zones().Placements
	db, err := r.view.Database(r.ctx, r.view.CurrentDatabase())
	if err != nil || db == nil {
		return err
	}
	schemas, err := r.schemaNames()
	if err != nil {
		return err
	}
	all, err := r.relations()
	if err != nil {
		return err
	}
	for _, t := range all {
		if t.Kind != catalog.KindTable || t.Temporary() {
			continue
		}
		schema, place := "", 0
		if s := schemas[t.Schema]; s != nil {
			schema = s.Name
		}
		add := func(span keys.Span, prefix any, placement, source string) error {
			place++
			fit, err := r.p.o.Cluster.Fit(r.ctx, span.Start, span.End)
			if err != nil {
				return err
			}
			state := "settled"
			if fit.Stuck {
				state = "stuck"
			} else if fit.Reason != "" {
				state = "moving"
			}
			r.add("table_id", t.ID, "schema_name", schema, "table_name", t.Name, "place", place, "prefix", prefix, "placement", placement, "source", source, "ranges", fit.Ranges,
				"replicas", fit.Replicas, "wanted", option(menu[placement]), "size", fit.Bytes, "state", state, "reason", orNull(fit.Reason))
			return nil
		}
		switch {
		case t.Placement != "":
			err = add(keys.TableSpan(t.ID), nil, t.Placement, "table")
		case db.Placement != "" && db.ID == t.Database:
			err = add(keys.TableSpan(t.ID), nil, db.Placement, "database")
		}
		if err != nil {
			return err
		}
		x := t.Primary()
		for i := range x.Directories {
			d, prefix := &x.Directories[i], any(hiddenText)
			if r.s == nil || r.view.Access().May(r.s.User(), t.ID, catalog.Select) {
				prefix = "(" + d.Prefix.Text + ")"
			}
			if err := add(region.DirectorySpan(t, x, d), prefix, d.Placement, "directory"); err != nil {
				return err
			}
		}
	}
	return nil
}

// internalUniverse has the zones of the cluster (Spanner §2).
func internalUniverse(r *reading) error {
	if r.p.o.Cluster == nil {
		return nil
	}
	list, err := r.p.o.Cluster.Universe(r.ctx)
	for _, z := range list {
		nodes := make([]int64, len(z.Nodes))
		for i, n := range z.Nodes {
			nodes[i] = int64(n)
		}
		r.add("region", z.Region, "zone", z.Zone, "nodes", nodes, "live", z.Live, "suspect", z.Suspect, "dead", z.Dead, "draining", z.Draining, "state", z.State,
			"leaders", z.Leaders, "replicas", z.Replicas, "size", z.Bytes, "arriving", z.Arriving, "leaving", z.Leaving, "epsilon", z.Epsilon)
	}
	return err
}
