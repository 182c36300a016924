package catalog

import (
	"slices"
	"strconv"
	"strings"

	"meridian/placement"
)

// The region column of tables that are REGIONAL BY ROW, and the enum of a database's regions.
const (
	RegionColumn   = "crdb_region"
	RegionEnumName = "crdb_internal_region"
)

// Survival is what the data of a database survives: the number of regions that may fail at once, or one zone. In a descriptor it is its text, and nothing for
// the zero value.
type Survival uint8

const (
	// SurviveZone: the failure of one zone.
	SurviveZone Survival = iota
	// SurviveRegion: the failure of one region; three regions at least. Survival(n) is the failure of n regions.
	SurviveRegion
	// MaxSurvival bounds the regions that may fail at once.
	MaxSurvival = 4
)

func (s Survival) String() string {
	switch s {
	case SurviveZone:
		return "zone"
	case SurviveRegion:
		return "region"
	}
	return strconv.Itoa(int(s)) + " regions"
}

// Regions is how many regions a database needs for the goal: a majority of the voters remains when as many fail as may.
func (s Survival) Regions() int { return 2*int(s) + 1 }

// ParseSurvival reads what String prints.
func ParseSurvival(text string) (Survival, error) {
	switch text {
	case "zone":
		return SurviveZone, nil
	case "region":
		return SurviveRegion, nil
	}
	if number, ok := strings.CutSuffix(text, " regions"); ok {
		if n, err := strconv.Atoi(number); err == nil && n > 1 && n <= MaxSurvival {
			return Survival(n), nil
		}
	}
	return 0, &UnknownValueError{"survival goal", text}
}

// MarshalText implements encoding.TextMarshaler.
func (s Survival) MarshalText() ([]byte, error) {
	if s == SurviveZone {
		return nil, nil
	}
	return []byte(s.String()), nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Survival) UnmarshalText(b []byte) (err error) {
	*s = SurviveZone
	if len(b) > 0 {
		*s, err = ParseSurvival(string(b))
	}
	return err
}

// SuperRegion is a set of a database's regions within which all replicas of the rows homed in one of them stay (CRDB'22 §3.3).
type SuperRegion struct {
	Name    string
	Regions []string // sorted
	// Survival is the goal of the rows homed here, if Own; else the database's is inherited.
	Survival Survival `json:",omitzero"`
	Own      bool     `json:",omitempty"`
}

// MultiRegion reports whether the database has regions.
func (d *Database) MultiRegion() bool { return d.PrimaryRegion != "" }

// Witnessed reports whether ranges have a witness: the database has two regions and survives the failure of either. With three it needs none.
func (d *Database) Witnessed() bool {
	return d.WitnessRegion != "" && d.Survival == SurviveRegion && len(d.Regions) == 2
}

// HasRegion reports whether a region is one of the database's.
func (d *Database) HasRegion(region string) bool { return slices.Contains(d.Regions, region) }

// Settled reports whether a region is one of the database's, and is neither being added nor being dropped: rows and tables may have their home there.
func (d *Database) Settled(region string) bool {
	return d.HasRegion(region) && !slices.Contains(d.Changing, region)
}

// SettledRegions are the regions in which rows and tables may get their home.
func (d *Database) SettledRegions() []string {
	if len(d.Changing) == 0 {
		return d.Regions
	}
	return slices.DeleteFunc(slices.Clone(d.Regions), func(r string) bool { return slices.Contains(d.Changing, r) })
}

// SuperRegionOf is the super region of a region; nil if it is in none.
func (d *Database) SuperRegionOf(region string) *SuperRegion {
	for i := range d.SuperRegions {
		if slices.Contains(d.SuperRegions[i].Regions, region) {
			return &d.SuperRegions[i]
		}
	}
	return nil
}

// Home is the region of the rows of a table that is REGIONAL BY TABLE, and of the leaseholders of a GLOBAL one.
func (d *Database) Home(t *Table) string {
	if t.Locality.Kind == RegionalByTable && t.Locality.Region != "" {
		return t.Locality.Region
	}
	return d.PrimaryRegion
}

// ZoneConfig is the part of a configuration of ranges that an object has of its own; nil fields are inherited from the object that contains it: a partition's
// index, an index's table, a table's database, a database's cluster default.
type ZoneConfig struct {
	NumReplicas      *int                     `json:",omitempty"`
	NumVoters        *int                     `json:",omitempty"`
	Constraints      *[]placement.Conjunction `json:",omitempty"`
	VoterConstraints *[]placement.Conjunction `json:",omitempty"`
	LeasePreferences *[]placement.Conjunction `json:",omitempty"`
	// RangeMinBytes and RangeMaxBytes are the sizes below which ranges are merged and above which they are split.
	RangeMinBytes *int64 `json:",omitempty"`
	RangeMaxBytes *int64 `json:",omitempty"`
	// GCSeconds is how long versions are kept after they are overwritten.
	GCSeconds   *int32 `json:",omitempty"`
	GlobalReads *bool  `json:",omitempty"`
	// Confined says that no replica is where none of Constraints holds (placement.Zone): of rows of super regions. No statement names it.
	Confined *bool `json:",omitempty"`
	// Witness is where a voter without data is (placement.Zone): of databases with a witness region. No statement names it, and no descriptor has it.
	Witness *placement.Conjunction `json:",omitempty"`
}

// Over is the configuration with the fields that it does not have taken from another. Either may be nil.
func (c *ZoneConfig) Over(under *ZoneConfig) *ZoneConfig {
	switch {
	case c == nil:
		return under
	case under == nil:
		return c
	}
	out := *c
	inherit(&out.NumReplicas, under.NumReplicas)
	inherit(&out.NumVoters, under.NumVoters)
	inherit(&out.Constraints, under.Constraints)
	inherit(&out.VoterConstraints, under.VoterConstraints)
	inherit(&out.LeasePreferences, under.LeasePreferences)
	inherit(&out.RangeMinBytes, under.RangeMinBytes)
	inherit(&out.RangeMaxBytes, under.RangeMaxBytes)
	inherit(&out.GCSeconds, under.GCSeconds)
	inherit(&out.GlobalReads, under.GlobalReads)
	inherit(&out.Witness, under.Witness)
	if c.Constraints == nil { // it is about those
		inherit(&out.Confined, under.Confined)
	}
	return &out
}

func inherit[T any](field **T, from *T) {
	if *field == nil {
		*field = from
	}
}

// Empty reports whether all is inherited.
func (c *ZoneConfig) Empty() bool { return c == nil || *c == ZoneConfig{} }
