package region

import (
	"slices"

	"meridian/placement"
	"meridian/sql/catalog"
)

// numbers of voters that CRDB'22 §3.2 has for the two goals, and of those of the home region if a region may be lost.
const (
	zoneVoters   = 3
	regionVoters = 5
	homeVoters   = 2
)

// in requires a region, of n replicas (zero: of all).
func in(region string, n int) placement.Conjunction {
	return placement.Conjunction{Replicas: n, Constraints: []placement.Constraint{{Key: "region", Value: region}}}
}

func value[T any](v T) *T { return &v }

// Database is the configuration that a database's regions give; nil if it has none.
func Database(db *catalog.Database) *catalog.ZoneConfig {
	if !db.MultiRegion() {
		return nil
	}
	return extended(db, db.PrimaryRegion)
}

// extended is home with what ALTER LOCALITY REGIONAL says.
func extended(db *catalog.Database, region string) *catalog.ZoneConfig {
	return db.Extensions.Home(region).Over(home(db, region, false))
}

// home is the configuration of rows whose home is a region. Those of GLOBAL tables have replicas in all regions, whatever the placement.
func home(db *catalog.Database, region string, global bool) *catalog.ZoneConfig {
	members, survival, super := db.Regions, db.Survival, false
	if s := db.SuperRegionOf(region); s != nil && !global {
		members, super = s.Regions, true
		if s.Own {
			survival = s.Survival
		}
	}
	c := &catalog.ZoneConfig{}
	leases := []placement.Conjunction{in(region, 0)}
	second := db.SecondaryRegion
	if second == region || db.SuperRegionOf(region) != db.SuperRegionOf(second) && !global {
		second = ""
	}
	if second != "" {
		leases = append(leases, in(second, 0))
	}
	c.LeasePreferences = &leases
	if db.Restricted && !global && survival == catalog.SurviveZone {
		c.NumVoters, c.NumReplicas = value(zoneVoters), value(zoneVoters)
		c.Constraints = &[]placement.Conjunction{in(region, 0)}
		c.VoterConstraints = &[]placement.Conjunction{in(region, 0)}
		return c
	}
	// One replica in each region at least; the others are where the voters are.
	each := make([]placement.Conjunction, 0, len(members))
	for _, m := range members {
		each = append(each, in(m, 1))
	}
	if db.Witnessed() {
		// Two voters in each of the two regions, and none elsewhere: the fifth is the witness.
		for i := range each {
			each[i] = in(members[i], homeVoters)
		}
		c.NumVoters, c.NumReplicas = value(regionVoters-1), value(regionVoters-1)
		c.Constraints, c.VoterConstraints = &each, value(slices.Clone(each))
		c.Witness = value(in(db.WitnessRegion, 0))
		return c
	}
	if survival != catalog.SurviveZone {
		// Of two regions and more that may fail, each one has a voter at most: diversity sees to that.
		total, there := survival.Regions(), 1
		if survival == catalog.SurviveRegion {
			total, there = regionVoters, homeVoters
		}
		voters := []placement.Conjunction{in(region, there)}
		if second != "" {
			voters = append(voters, in(second, there))
			for i := range each {
				if members[i] == second {
					each[i] = in(second, there)
				}
			}
		}
		if super {
			// No replica may be left over for another region: diversity would like that.
			fill(each, members, region, there, max(total, there+len(members)-1))
		}
		c.NumVoters = value(total)
		c.NumReplicas = value(max(total, there+len(members)-1))
		c.VoterConstraints = &voters
	} else {
		c.NumVoters = value(zoneVoters)
		c.NumReplicas = value(zoneVoters + len(members) - 1)
		c.VoterConstraints = &[]placement.Conjunction{in(region, 0)}
	}
	c.Constraints = &each
	if db.SuperRegionOf(region) != nil && !global {
		c.Confined = value(true)
	}
	return c
}

// fill makes the constraints of a super region's members ask for all n replicas: as many as there are at home, and the others by turns.
func fill(each []placement.Conjunction, members []string, home string, there, n int) {
	for i, m := range members {
		if m == home {
			each[i].Replicas = max(each[i].Replicas, there)
		}
		n -= each[i].Replicas
	}
	for i := 0; n > 0; i = (i + 1) % len(each) {
		if members[i] != home || len(members) == 1 {
			each[i].Replicas++
			n--
		}
	}
}

// Table is the configuration that a table's locality gives; nil if it has none of its own.
func Table(db *catalog.Database, t *catalog.Table) *catalog.ZoneConfig {
	if !db.MultiRegion() {
		return nil
	}
	switch t.Locality.Kind {
	case catalog.Global:
		c := &catalog.ZoneConfig{}
		if db.Restricted || db.SuperRegionOf(db.PrimaryRegion) != nil || !db.Extensions.Empty() {
			c = home(db, db.PrimaryRegion, true)
		}
		c.GlobalReads = value(true)
		if db.Extensions != nil {
			c = db.Extensions.Global.Over(c)
		}
		return c
	case catalog.RegionalByTable:
		if r := db.Home(t); r != db.PrimaryRegion {
			return Partition(db, r)
		}
	}
	return nil
}

// Partition is the configuration of the rows, of a table that is not homed in the primary region as a whole, whose home is a region.
func Partition(db *catalog.Database, region string) *catalog.ZoneConfig {
	c := extended(db, region)
	if c.Constraints != nil && db.SuperRegionOf(region) == nil && db.SuperRegionOf(db.PrimaryRegion) == nil && !db.Restricted && db.Extensions.Empty() {
		// These are those of the database.
		c.NumReplicas, c.Constraints = nil, nil
	}
	return c
}

// Zone is a configuration with what it lacks taken from the cluster's.
func Zone(c *catalog.ZoneConfig, cluster placement.Zone) placement.Zone {
	if c == nil {
		return cluster
	}
	z := cluster
	if c.NumReplicas != nil {
		// The cluster's non-voters are not those of an object that says how many replicas it has.
		z.NumReplicas, z.NumVoters = *c.NumReplicas, 0
	}
	if c.NumVoters != nil {
		z.NumVoters = *c.NumVoters
	}
	if c.Constraints != nil {
		z.Constraints = *c.Constraints
	}
	if c.VoterConstraints != nil {
		z.VoterConstraints = *c.VoterConstraints
	}
	if c.LeasePreferences != nil {
		z.LeasePreferences = *c.LeasePreferences
	}
	if c.Witness != nil {
		z.Witness = c.Witness
	}
	set(&z.RangeMinBytes, c.RangeMinBytes)
	set(&z.RangeMaxBytes, c.RangeMaxBytes)
	if c.GCSeconds != nil {
		z.GCTTL = gcTTL(*c.GCSeconds)
	}
	set(&z.GlobalReads, c.GlobalReads)
	set(&z.Confined, c.Confined)
	return z
}

func set[T any](field *T, from *T) {
	if from != nil {
		*field = *from
	}
}

// Confined reports whether rows of a table may not leave their regions: values of them are not to be kept where the catalogue is.
func Confined(db *catalog.Database, t *catalog.Table) bool {
	switch {
	case db == nil || !db.MultiRegion():
		return false
	case db.Witnessed(): // the catalogue is also in the witness region
		return true
	}
	return t.Locality.Kind != catalog.Global && (db.Restricted || len(db.SuperRegions) > 0)
}
