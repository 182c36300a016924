package schemachange

import (
	"slices"

	"meridian/placement"
	"meridian/sql/bind"
	"meridian/sql/catalog"
	"meridian/sql/catalog/region"
	"meridian/sql/sqlstate"
)

// configureZone carries out ALTER ... CONFIGURE ZONE. It is one change of one descriptor; the stores follow it when it is published.
func (c *change) configureZone(s *bind.ConfigureZone) error {
	switch {
	case s.Range != "":
		if !c.super() {
			return denied("permission denied to configure range %s", s.Range)
		}
	case s.Table != nil:
		if err := c.mustOwn(s.Table.ID); err != nil {
			return err
		}
	default:
		if err := c.mustOwn(s.Database.ID); err != nil {
			return err
		}
	}
	c.hook()
	switch {
	case s.Range != "":
		if err := c.configureRange(s); err != nil || s.Range != catalog.DefaultRange {
			return err
		}
		return c.databasesFit()
	case s.Extension != nil:
		if err := c.configureLocality(s); err != nil {
			return err
		}
		if err := c.databaseFits(s.Database.ID); err != nil {
			return err
		}
		c.awaitZone(s.Database, nil)
		return nil
	case s.Table == nil:
		db := c.Catalog.Database(s.Database.ID)
		if err := c.configure(s, region.Object{Database: db}, &db.Zone); err != nil {
			return err
		}
		if err := c.databaseFits(db.ID); err != nil {
			return err
		}
		c.awaitZone(s.Database, nil)
		return nil
	}
	if err := c.configureTable(s); err != nil {
		return err
	}
	if err := c.databaseFits(s.Database.ID); err != nil {
		return err
	}
	c.awaitZone(s.Database, c.Catalog.Table(s.Table.ID))
	return nil
}

// awaitZone makes the statement wait for the rows of a table, or of a database, if their new configuration says where they must not be. New tables wait by themselves.
func (c *change) awaitZone(db *catalog.Database, t *catalog.Table) {
	if t != nil {
		if c.bounded(t) {
			c.awaitPlacement(db.ID, t.ID)
		}
		return
	}
	bounded := false
	_ = c.Catalog.EachRelation(db.ID, func(t *catalog.Table) error {
		bounded = bounded || t.Kind == catalog.KindTable && !t.Temporary() && !t.Dropped && c.bounded(t)
		return nil
	})
	if bounded {
		c.awaitPlacement(db.ID, 0)
	}
}

// configureTable is CONFIGURE ZONE of a table, of its indexes or of their partitions.
func (c *change) configureTable(s *bind.ConfigureZone) error {
	t := c.Catalog.Table(s.Table.ID)
	if t == nil {
		return sqlstate.New(sqlstate.UndefinedTable, "relation \"%s\" does not exist", s.Table.Name)
	}
	if t.Interleave != nil && (s.Indexes == nil || slices.ContainsFunc(s.Indexes, func(x *catalog.Index) bool { return x.Primary })) {
		return sqlstate.New(sqlstate.FeatureNotSupported, "CONFIGURE ZONE is not supported for table \"%s\", which is interleaved in another", t.Name).
			WithHint("The rows are where those of the root are: configure that. Secondary indexes can be configured by ALTER INDEX.")
	}
	if s.Indexes == nil {
		return c.configure(s, region.Object{Database: s.Database, Table: t}, &t.Zone)
	}
	for _, old := range s.Indexes {
		x := t.Index(old.ID)
		if x == nil {
			return sqlstate.New(sqlstate.UndefinedObject, "index \"%s\" does not exist", old.Name)
		}
		o := region.Object{Database: s.Database, Table: t, Index: x, Partition: s.Partition}
		field := x.Zone
		if s.Partition != "" {
			field = x.PartitionZones[s.Partition]
		}
		if err := c.configure(s, o, &field); err != nil {
			return err
		}
		switch {
		case s.Partition == "":
			x.Zone = field
		case field == nil:
			delete(x.PartitionZones, s.Partition)
		default:
			if x.PartitionZones == nil {
				x.PartitionZones = map[string]*catalog.ZoneConfig{}
			}
			x.PartitionZones[s.Partition] = field
		}
	}
	return nil
}

func (c *change) configureRange(s *bind.ConfigureZone) error {
	all := c.Catalog.Zones()
	if s.Discard {
		if s.Range == catalog.DefaultRange {
			return sqlstate.New(sqlstate.InvalidParameterValue, "the configuration of range default can't be discarded").
				WithHint("All others inherit it. Set its variables one by one.")
		}
		delete(all, s.Range)
		return nil
	}
	field := all[s.Range]
	if err := c.configure(s, region.Object{Range: s.Range}, &field); err != nil {
		return err
	}
	all[s.Range] = field
	return nil
}

// configure changes the fields that an object has of its own, and refuses the result if it is not valid.
func (c *change) configure(s *bind.ConfigureZone, o region.Object, own **catalog.ZoneConfig) error {
	if s.Discard {
		*own = nil
		return nil
	}
	set := *s.Set
	dbs, err := c.view.Databases(c.ctx)
	if err != nil {
		return err
	}
	layers := o.Layers(c.view.Zones(), c.cluster(), region.Strongest(dbs))
	if len(s.FromParent) > 0 {
		if len(layers) < 2 {
			return sqlstate.New(sqlstate.InvalidParameterValue, "range default has no parent to copy from")
		}
		from, _ := region.Effective(layers[1:])
		for _, name := range s.FromParent {
			region.Copy(&set, from, name)
		}
	}
	if s.Database != nil && s.Database.MultiRegion() && !c.OverrideZones {
		if names := region.Protected(&set); len(names) > 0 {
			return sqlstate.New(sqlstate.InvalidObjectDefinition, "variable \"%s\" is decided by the regions of database \"%s\"", names[0], s.Database.Name).
				WithDetail("A value of one's own would contradict survival goal, placement and localities.").
				WithHint("ALTER DATABASE ... ALTER LOCALITY ... CONFIGURE ZONE extends what regions say; SET override_multi_region_zone_config = on allows this statement.")
		}
	}
	if err := c.knownConstraints(&set); err != nil {
		return err
	}
	*own = set.Over(*own)
	if (*own).Empty() {
		*own = nil
	}
	around, _ := region.Effective(layers)
	return validZone((*own).Over(around))
}

// setPartitioning divides an index anew. No row moves to another key; configurations of partitions that are gone go with them.
func setPartitioning(t *catalog.Table, a *bind.SetPartitioning) error {
	x := t.Index(a.Index)
	if x == nil {
		return sqlstate.New(sqlstate.UndefinedObject, "the index does not exist")
	}
	x.Partitioning = a.Partitioning
	for name := range x.PartitionZones {
		if x.Partitioning.Find(name) == nil {
			delete(x.PartitionZones, name)
		}
	}
	return nil
}

// cluster is the configuration of the cluster by settings and options.
func (c *change) cluster() placement.Zone {
	if c.o.Zone == nil {
		return placement.DefaultZone()
	}
	return c.o.Zone()
}

// knownConstraints refuses constraints that no node satisfies: most are misspelled. Forbidden places need not exist.
func (c *change) knownConstraints(set *catalog.ZoneConfig) error {
	if c.o.Satisfied == nil {
		return nil
	}
	for _, list := range []*[]placement.Conjunction{set.Constraints, set.VoterConstraints, set.LeasePreferences} {
		if list == nil {
			continue
		}
		for _, conjunction := range *list {
			for _, k := range conjunction.Constraints {
				if !k.Forbidden && !c.o.Satisfied(k) {
					return sqlstate.New(sqlstate.CheckViolation, "no node of the cluster satisfies constraint \"%s\"", k).
						WithHint("SHOW NODES lists the localities of the nodes. Start a node there first, if the constraint is meant for one that is to come.")
				}
			}
		}
	}
	return nil
}

// validZone refuses configurations that no set of replicas can satisfy.
func validZone(c *catalog.ZoneConfig) error {
	bad := func(format string, args ...any) error { return sqlstate.New(sqlstate.CheckViolation, format, args...) }
	replicas, voters := 0, 0
	if c.NumReplicas != nil {
		replicas = *c.NumReplicas
	}
	if voters = replicas; c.NumVoters != nil {
		voters = *c.NumVoters
	}
	if voters > replicas {
		return bad("num_voters can't be greater than num_replicas: %d voters of %d replicas", voters, replicas)
	}
	if c.RangeMinBytes != nil && c.RangeMaxBytes != nil && *c.RangeMinBytes >= *c.RangeMaxBytes {
		return bad("range_min_bytes must be less than range_max_bytes: %d, %d", *c.RangeMinBytes, *c.RangeMaxBytes)
	}
	if c.RangeMaxBytes != nil && *c.RangeMaxBytes < leastRangeBytes {
		return bad("range_max_bytes is at least %d", leastRangeBytes)
	}
	for _, l := range []struct {
		name string
		list *[]placement.Conjunction
		most int
	}{{"constraints", c.Constraints, replicas}, {"voter_constraints", c.VoterConstraints, voters}} {
		if l.list == nil {
			continue
		}
		sum := 0
		for _, k := range *l.list {
			sum += k.Replicas
		}
		if sum > l.most {
			return bad("%s ask for %d replicas, and there are %d", l.name, sum, l.most)
		}
		for _, k := range *l.list {
			for i, a := range k.Constraints {
				for _, b := range k.Constraints[:i] {
					if a.Key == b.Key && a.Key != "" && !a.Forbidden && !b.Forbidden && a.Value != b.Value ||
						a.Key == b.Key && a.Value == b.Value && a.Forbidden != b.Forbidden {
						return bad("no node can satisfy both %s and %s", b, a)
					}
				}
			}
		}
	}
	return nil
}

// leastRangeBytes bounds range_max_bytes from below: ranges that are smaller cost more than they hold.
const leastRangeBytes = 64 << 10

// configureLocality is ALTER LOCALITY: the extension is kept apart from what is generated, so that it survives changes of the regions.
func (c *change) configureLocality(s *bind.ConfigureZone) error {
	db := c.Catalog.Database(s.Database.ID)
	e := db.Extensions
	if e == nil {
		e = &catalog.ZoneExtensions{}
	}
	at, home := &e.Regional, db.PrimaryRegion
	switch {
	case s.Extension.Global:
		at = &e.Global
	case s.Extension.Region != "":
		home = s.Extension.Region
		in := e.In[home]
		at = &in
	}
	if s.Discard {
		*at = nil
	} else {
		set := *s.Set
		if len(s.FromParent) > 0 {
			from, _ := region.Effective(region.Object{Database: db}.Layers(c.view.Zones(), c.cluster(), catalog.SurviveZone))
			for _, name := range s.FromParent {
				region.Copy(&set, from, name)
			}
		}
		if err := mayExtend(&set, s.Extension); err != nil {
			return err
		}
		if err := c.knownConstraints(&set); err != nil {
			return err
		}
		*at = set.Over(*at)
	}
	if r := s.Extension.Region; r != "" {
		if *at == nil {
			delete(e.In, r)
		} else {
			if e.In == nil {
				e.In = map[string]*catalog.ZoneConfig{}
			}
			e.In[r] = *at
		}
	}
	if db.Extensions = e; e.Empty() {
		db.Extensions = nil
	}
	layers := region.Object{Database: db}.Layers(c.view.Zones(), c.cluster(), catalog.SurviveZone)
	around, _ := region.Effective(layers)
	own := region.Partition(db, home)
	if s.Extension.Global {
		own = region.Table(db, &catalog.Table{Locality: catalog.Locality{Kind: catalog.Global}})
	}
	return validZone(own.Over(around))
}

// mayExtend refuses extensions that contradict what the database's regions promise.
func mayExtend(set *catalog.ZoneConfig, l *bind.ZoneLocality) error {
	refuse := func(name, why string) error {
		return sqlstate.New(sqlstate.InvalidParameterValue, "ALTER LOCALITY can't set variable \"%s\"", name).WithHint("%s", why)
	}
	switch {
	case set.NumVoters != nil:
		return refuse("num_voters", "The survival goal decides it: ALTER DATABASE ... SURVIVE ... FAILURE.")
	case set.GlobalReads != nil:
		return refuse("global_reads", "The locality decides it: ALTER TABLE ... SET LOCALITY.")
	case set.LeasePreferences != nil && !l.Global && l.Region == "":
		return refuse("lease_preferences", "Leases are in the home region of the rows. ALTER LOCALITY REGIONAL IN a region can set what is tried after it.")
	case l.Region == "":
		return nil
	}
	home := func(c placement.Conjunction) bool {
		for _, k := range c.Constraints {
			if k.Key == "region" && k.Value == l.Region && !k.Forbidden {
				return true
			}
		}
		return false
	}
	if p := set.LeasePreferences; p != nil && (len(*p) == 0 || !home((*p)[0])) {
		return refuse("lease_preferences", "The first preference is for the home region: [[+region="+l.Region+"], ...].")
	}
	if v := set.VoterConstraints; v != nil {
		found := false
		for _, k := range *v {
			found = found || home(k)
		}
		if !found {
			return refuse("voter_constraints", "Voters are in the home region, +region="+l.Region+".")
		}
	}
	if v := set.Constraints; v != nil {
		for _, k := range *v {
			for _, one := range k.Constraints {
				if one.Key == "region" && (one.Forbidden && one.Value == l.Region || !one.Forbidden && k.Replicas == 0 && one.Value != l.Region) {
					return refuse("constraints", "They leave no replica in the home region, "+l.Region+".")
				}
			}
		}
	}
	return nil
}
