package region

import (
	"time"

	"meridian/placement"
	"meridian/sql/catalog"
)

// Object is an object that has a configuration: a partition of an index of a table of a database, with those that contain it; or, with Range alone, a span of keys
// that has a name.
type Object struct {
	Range     string
	Database  *catalog.Database
	Table     *catalog.Table
	Index     *catalog.Index
	Partition string
	// Directory is one of the index; nil: the object is no directory.
	Directory *catalog.Directory
}

// Layer is an object and the fields that it has of its own, generated or by CONFIGURE ZONE; nil: none.
type Layer struct {
	Object
	Own *catalog.ZoneConfig
}

// Layers are an object and what it inherits from, the object itself first and the cluster last. The last one has all fields. Ranges are the configurations of spans with
// names and the placement menu, cluster is what the settings and options of the node say, and goal is the strongest one of all databases, which the system's ranges have to survive, too.
func (o Object) Layers(named catalog.NamedZones, cluster placement.Zone, goal catalog.Survival) []Layer {
	var out []Layer
	ranges, menu := named.Ranges, named.Placements
	add := func(o Object, own *catalog.ZoneConfig) {
		if own.Empty() {
			own = nil
		}
		out = append(out, Layer{o, own})
	}
	if o.Range != "" && o.Range != catalog.DefaultRange {
		add(o, ranges[o.Range].Over(systemRanges(Zone(ranges[catalog.DefaultRange], cluster), goal)))
	}
	if o.Directory != nil {
		add(o, o.Directory.Option(menu))
		o.Directory = nil
	}
	if o.Partition != "" {
		add(o, o.Index.PartitionZones[o.Partition].Over(generated(o)))
		o.Partition = ""
	}
	if o.Index != nil {
		add(o, o.Index.Zone)
		o.Index = nil
	}
	if o.Table != nil {
		add(o, o.Table.Zone.Over(menu[o.Table.Placement].Over(Table(o.Database, o.Table))))
		o.Table = nil
	}
	if o.Database != nil {
		add(o, o.Database.Zone.Over(menu[o.Database.Placement].Over(Database(o.Database))))
	}
	add(Object{Range: catalog.DefaultRange}, ranges[catalog.DefaultRange].Over(whole(cluster)))
	return out
}

// generated is the configuration that a partition gets from the region that it is for.
func generated(o Object) *catalog.ZoneConfig {
	if o.Index.Partitioning == nil && o.Database.MultiRegion() && o.Table.Locality.Kind == catalog.RegionalByRow && o.Database.HasRegion(o.Partition) {
		return Partition(o.Database, o.Partition)
	}
	return nil
}

// Effective is the configuration that holds for the first of some layers, with all fields, and the object from which it is inherited: the first one with fields of its
// own.
func Effective(layers []Layer) (*catalog.ZoneConfig, Object) {
	var c *catalog.ZoneConfig
	source := layers[len(layers)-1].Object
	for i := len(layers) - 1; i >= 0; i-- {
		if layers[i].Own != nil {
			c = layers[i].Own.Over(c)
			source = layers[i].Object
		}
	}
	return c, source
}

// whole is the cluster's configuration as one with all fields.
func whole(z placement.Zone) *catalog.ZoneConfig {
	seconds := int32(z.GCTTL / time.Second)
	c := &catalog.ZoneConfig{NumReplicas: &z.NumReplicas, Constraints: &z.Constraints, LeasePreferences: &z.LeasePreferences,
		RangeMinBytes: &z.RangeMinBytes, RangeMaxBytes: &z.RangeMaxBytes, GCSeconds: &seconds}
	if z.NumVoters != 0 && z.NumVoters != z.NumReplicas {
		c.NumVoters = &z.NumVoters
	}
	if len(z.VoterConstraints) > 0 {
		c.VoterConstraints = &z.VoterConstraints
	}
	if z.GlobalReads {
		c.GlobalReads = &z.GlobalReads
	}
	return c
}

// Variables are the names of a configuration's fields in CONFIGURE ZONE.
var Variables = []string{"num_replicas", "num_voters", "constraints", "voter_constraints", "lease_preferences", "gc.ttlseconds", "range_min_bytes", "range_max_bytes",
	"global_reads"}

// Copy gives a configuration the field of another one that a variable names.
func Copy(to, from *catalog.ZoneConfig, variable string) {
	switch variable {
	case "num_replicas":
		to.NumReplicas = from.NumReplicas
	case "num_voters":
		to.NumVoters = from.NumVoters
	case "constraints":
		to.Constraints = from.Constraints
	case "voter_constraints":
		to.VoterConstraints = from.VoterConstraints
	case "lease_preferences":
		to.LeasePreferences = from.LeasePreferences
	case "gc.ttlseconds":
		to.GCSeconds = from.GCSeconds
	case "range_min_bytes":
		to.RangeMinBytes = from.RangeMinBytes
	case "range_max_bytes":
		to.RangeMaxBytes = from.RangeMaxBytes
	case "global_reads":
		to.GlobalReads = from.GlobalReads
	}
}

// Protected are the variables that a configuration has and that a database's regions decide.
func Protected(c *catalog.ZoneConfig) (out []string) {
	for _, p := range []struct {
		name string
		has  bool
	}{
		{"num_replicas", c.NumReplicas != nil}, {"num_voters", c.NumVoters != nil}, {"constraints", c.Constraints != nil}, {"voter_constraints", c.VoterConstraints != nil},
		{"lease_preferences", c.LeasePreferences != nil}, {"global_reads", c.GlobalReads != nil},
	} {
		if p.has {
			out = append(out, p.name)
		}
	}
	return out
}
