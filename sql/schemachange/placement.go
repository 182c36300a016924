package schemachange

import (
	"fmt"
	"slices"
	"strings"

	"meridian/placement"
	"meridian/sql/bind"
	"meridian/sql/catalog"
	"meridian/sql/catalog/region"
	"meridian/sql/sqlstate"
	"meridian/version"
)

// The placement menu has named options, which say how many replicas there are and where (Spanner §2.2). Administrators make them; owners give them to databases, tables and
// directories. A tag is a field of the object's descriptor, and the menu one of the cluster settings' descriptor, so that package region computes configurations of ranges from
// them as from everything else. The statements do not wait for replicas: directories move in the background (docs/decisions/0016-placement-menus.md).

// placementOption carries out CREATE, ALTER and DROP PLACEMENT.
func (c *change) placementOption(s *bind.PlacementOption) error {
	if !c.super() {
		return denied("permission denied to %s placement \"%s\"", strings.ToLower(s.Verb), s.Name)
	}
	if s.Verb == "CREATE" && !c.o.Leases.Active(version.Placements) {
		return sqlstate.New(sqlstate.FeatureNotSupported, "there are no placements before the upgrade of the cluster is finalized").
			WithHint("Finalize it by meridian upgrade finalize, when all nodes have the later binary.")
	}
	c.hook()
	old := c.view.Zones().Placements[s.Name]
	switch {
	case s.Verb == "CREATE" && old != nil && s.Unless:
		c.noticef(sqlstate.DuplicateObject, "placement \"%s\" already exists, skipping", s.Name)
		return nil
	case s.Verb == "CREATE" && old != nil:
		return sqlstate.New(sqlstate.DuplicateObject, "placement \"%s\" already exists", s.Name)
	case s.Verb != "CREATE" && old == nil && s.Unless:
		c.noticef(sqlstate.SuccessfulCompletion, "placement \"%s\" does not exist, skipping", s.Name)
		return nil
	case s.Verb != "CREATE" && old == nil:
		return noPlacement(s.Name)
	case s.Verb == "DROP":
		if users, err := c.placementUsers(s.Name); err != nil {
			return err
		} else if len(users) > 0 {
			return sqlstate.New(sqlstate.DependentObjectsExist, "cannot drop placement \"%s\" because it is used", s.Name).
				WithDetail("It is the placement of %s.", listed(users)).
				WithHint("Give these another one, or none: ALTER DATABASE ... RESET PLACEMENT, ALTER TABLE ... RESET PLACEMENT [FOR VALUES (...)].")
		}
		delete(c.Catalog.Placements(), s.Name)
		return nil
	}
	if len(s.Clear) > 0 && s.Verb == "CREATE" {
		s.Clear = nil // that is what is not said, too
	}
	option, err := c.option(old, s)
	if err != nil {
		return err
	}
	c.Catalog.Placements()[s.Name] = option
	if s.Verb == "CREATE" {
		return nil
	}
	return c.databasesFit()
}

func noPlacement(name string) error {
	return sqlstate.New(sqlstate.UndefinedObject, "placement \"%s\" does not exist", name).
		WithHint("SHOW PLACEMENTS lists the placements; an administrator makes one by CREATE PLACEMENT name WITH (num_replicas = ..., constraints = ...).")
}

// option is the complete configuration of an option: nothing of what it is about is inherited from the object around, so that it means the same everywhere.
func (c *change) option(old *catalog.ZoneConfig, s *bind.PlacementOption) (*catalog.ZoneConfig, error) {
	set := s.Set
	if err := c.knownConstraints(&set); err != nil {
		return nil, err
	}
	around := catalog.ZoneConfig{}
	if old != nil {
		around = *old
		if old.NumVoters != nil && old.NumReplicas != nil && *old.NumVoters == *old.NumReplicas && set.NumReplicas != nil {
			around.NumVoters = nil // all replicas vote, also after a change of their number
		}
	}
	for _, name := range s.Clear {
		region.Copy(&around, &catalog.ZoneConfig{}, name)
	}
	out := set.Over(&around)
	said := out.NumReplicas != nil || out.NumVoters != nil
	if out.NumReplicas == nil {
		cluster := region.Zone(c.view.Zones().Ranges[catalog.DefaultRange], c.cluster())
		n := max(cluster.Voters(), 1)
		if out.NumVoters != nil {
			n = max(n, *out.NumVoters)
		}
		out.NumReplicas = &n
	}
	if out.NumVoters == nil {
		n := *out.NumReplicas
		out.NumVoters = &n
	}
	for _, l := range []**[]placement.Conjunction{&out.Constraints, &out.VoterConstraints, &out.LeasePreferences} {
		if *l == nil {
			*l = &[]placement.Conjunction{}
		}
	}
	if err := validZone(out); err != nil {
		return nil, err
	}
	return out, c.satisfiable(s.Name, out, said)
}

// satisfiable refuses an option for which there are no nodes. Where the number of replicas is the cluster's default, a cluster of fewer nodes makes do with fewer, as for all ranges.
func (c *change) satisfiable(name string, option *catalog.ZoneConfig, said bool) error {
	if c.o.Nodes == nil {
		return nil
	}
	nodes := c.o.Nodes()
	z := region.Zone(option, c.cluster())
	if !said {
		present := 0
		for i := range nodes {
			if !nodes[i].Gone && !nodes[i].Decommissioning {
				present++
			}
		}
		z.NumReplicas, z.NumVoters = placement.Wanted(&z, present), 0
	}
	lack := placement.Lacks(&z, nodes, false)
	if lack == nil {
		return nil
	}
	err := sqlstate.New(sqlstate.CheckViolation, "no zone of the cluster can satisfy placement \"%s\"", name)
	return err.WithDetail("%s.", capital(lack.String())).
		WithHint("SHOW NODES lists the nodes with their localities. Start nodes there first, ask for fewer replicas, or for other places.")
}

func capital(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// listed is the first of some names.
func listed(names []string) string {
	const most = 5
	if n := len(names) - most; n > 0 {
		return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d others", n)
	}
	return strings.Join(names, ", ")
}

// placementUsers are the objects that have an option, as the transaction sees them.
func (c *change) placementUsers(name string) (users []string, err error) {
	dbs, err := c.view.Databases(c.ctx)
	if err != nil {
		return nil, err
	}
	for _, d := range dbs {
		if now := c.Catalog.Descriptor(d.ID); now != nil && now.Database != nil && !now.Database.Dropped && now.Database.Placement == name {
			users = append(users, "database "+quoteIdent(d.Name))
		}
		if err := c.Catalog.EachRelation(d.ID, func(t *catalog.Table) error {
			now := c.current(t.ID)
			if now == nil || now.Dropped {
				return nil
			}
			now.EachPlacement(func(_ *catalog.Index, prefix *catalog.Bound, p string) {
				if p != name {
					return
				}
				of := "table " + quoteIdent(d.Name) + "." + quoteIdent(now.Name)
				if prefix != nil {
					of = "a directory of " + of
				}
				if !slices.Contains(users, of) {
					users = append(users, of)
				}
			})
			return nil
		}); err != nil {
			return nil, err
		}
	}
	return users, nil
}

// tagPlacement carries out SET PLACEMENT and RESET PLACEMENT.
func (c *change) tagPlacement(s *bind.TagPlacement) error {
	owned := s.Database.ID
	if s.Table != nil {
		owned = s.Table.ID
	}
	if err := c.mustOwn(owned); err != nil {
		return err
	}
	c.hook()
	if s.Placement != "" {
		option := c.view.Zones().Placements[s.Placement]
		if option == nil {
			return noPlacement(s.Placement)
		}
		if s.Database.MultiRegion() {
			return sqlstate.New(sqlstate.FeatureNotSupported, "placements are not supported in database \"%s\", whose regions decide where its rows are", s.Database.Name).
				WithHint("Use localities of tables (ALTER TABLE ... SET LOCALITY), or a database without regions.")
		}
		// The cluster may have lost nodes since the option was made.
		if err := c.satisfiable(s.Placement, option, len(c.nodes()) >= *option.NumReplicas); err != nil {
			return err
		}
	}
	switch {
	case s.Table == nil:
		c.Catalog.Database(s.Database.ID).Placement = s.Placement
	default:
		t := c.Catalog.Table(s.Table.ID)
		if t == nil {
			return sqlstate.New(sqlstate.UndefinedTable, "relation \"%s\" does not exist", s.Table.Name)
		}
		if s.Prefix == nil {
			t.Placement = s.Placement
			break
		}
		x := t.Primary()
		if len(x.Directories) >= maxDirectories && x.Directory(s.Prefix.Key) == nil && s.Placement != "" {
			return sqlstate.New(sqlstate.ProgramLimitExceeded, "table \"%s\" has %d directories with placements, which is the limit", t.Name, maxDirectories).
				WithHint("Give the table itself the placement that most of them have.")
		}
		if s.Placement == "" && x.Directory(s.Prefix.Key) == nil {
			c.noticef(sqlstate.SuccessfulCompletion, "the directory (%s) of table \"%s\" has no placement of its own, skipping", s.Prefix.Text, t.Name)
		}
		x.SetDirectory(catalog.Directory{Prefix: *s.Prefix, Placement: s.Placement})
	}
	return c.databaseFits(s.Database.ID)
}

// maxDirectories bounds the directories of a table: they are part of its descriptor, which is written anew with each change.
const maxDirectories = 10_000

func (c *change) nodes() []placement.Node {
	if c.o.Nodes == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(c.o.Nodes()), func(n placement.Node) bool { return n.Gone || n.Decommissioning })
}

// untagged refuses regions for a database with placements.
func (c *change) untagged(db *catalog.Database) error {
	var tagged []string
	if db.Placement != "" {
		tagged = append(tagged, "the database itself")
	}
	if err := c.Catalog.EachRelation(db.ID, func(t *catalog.Table) error {
		if now := c.current(t.ID); now != nil && !now.Dropped {
			now.EachPlacement(func(*catalog.Index, *catalog.Bound, string) {
				if of := "table " + quoteIdent(now.Name); !slices.Contains(tagged, of) {
					tagged = append(tagged, of)
				}
			})
		}
		return nil
	}); err != nil || len(tagged) == 0 {
		return err
	}
	return sqlstate.New(sqlstate.FeatureNotSupported, "database \"%s\" can't have regions, because some of its objects have placements", db.Name).
		WithDetail("These are: %s.", listed(tagged)).
		WithHint("ALTER DATABASE ... RESET PLACEMENT and ALTER TABLE ... RESET PLACEMENT [FOR VALUES (...)] take the placements away.")
}
