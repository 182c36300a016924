package region

import (
	"slices"

	"meridian/encoding"
	"meridian/keys"
	"meridian/sql/catalog"
)

// Use is what a statement does with rows, as far as it matters which replicas can serve it.
type Use uint8

const (
	// Read is of the present.
	Read Use = iota
	// ReadPast is at a time that all replicas have closed.
	ReadPast
	// Lock is of the leaseholder alone.
	Lock
	// Write needs the leaseholder and a quorum of the voters.
	Write
)

// Stay answers whether statements that run in a region can use rows without leaving it, as far as the schema says where the rows are: leases that
// are elsewhere for a moment do not count.
type Stay struct {
	db      *catalog.Database
	table   *catalog.Table
	gateway string
	homes   []homed // in the order of their spans; none: all rows have one home
}

// homed is the part of an index whose rows have a home.
type homed struct {
	span   keys.Span
	region string
}

// NewStay makes the answers for a table of a database that has regions.
func NewStay(db *catalog.Database, t *catalog.Table, gateway string) *Stay {
	s := &Stay{db: db, table: t, gateway: gateway}
	column := t.Column(t.RegionColumn)
	if t.Locality.Kind != catalog.RegionalByRow || column == nil || column.Type.Enum == nil {
		return s
	}
	for _, x := range byID(t) {
		if len(x.Columns) == 0 || x.Columns[0] != (catalog.IndexColumn{Column: t.RegionColumn}) {
			continue
		}
		for _, v := range column.Type.Enum.Values {
			at := keys.Key(encoding.AppendInt(keys.IndexPrefix(t.ID, x.ID), v.Place, encoding.Ascending))
			s.homes = append(s.homes, homed{keys.Span{Start: at, End: at.PrefixEnd()}, v.Label})
		}
	}
	return s
}

// Global reports whether the table's rows are read everywhere.
func (s *Stay) Global() bool { return s.table.Locality.Kind == catalog.Global }

// Away are the homes of rows of a span that can't be used so within the gateway's region, without repetition. wide says that the home is the
// gateway's region, and that its quorums have replicas in other ones.
func (s *Stay) Away(span keys.Span, use Use) (away []string, wide bool) {
	note := func(home string) {
		near, quorum := s.serves(home, use)
		wide = wide || quorum
		if !near && !slices.Contains(away, home) {
			away = append(away, home)
		}
	}
	found := false
	for i := range s.homes {
		if s.homes[i].span.Overlaps(span) {
			found = true
			note(s.homes[i].region)
		}
	}
	if !found {
		note(s.db.Home(s.table))
	}
	return away, wide
}

// Elsewhere reports whether rows of any other home than the gateway's region can't be used so within it.
func (s *Stay) Elsewhere(use Use) bool {
	for i := range s.homes {
		if near, _ := s.serves(s.homes[i].region, use); !near {
			return true
		}
	}
	return false
}

// serves reports whether the gateway's region can serve the use of rows with a home; wide is as in Away.
func (s *Stay) serves(home string, use Use) (near, wide bool) {
	global := s.Global()
	members, survival := s.db.Regions, s.db.Survival
	if super := s.db.SuperRegionOf(home); super != nil && !global {
		members = super.Regions
		if super.Own {
			survival = super.Survival
		}
	}
	switch {
	case use == ReadPast && s.db.Restricted && !global && survival == catalog.SurviveZone:
		return home == s.gateway, false
	case use == ReadPast, use == Read && global:
		return slices.Contains(members, s.gateway), false
	case home != s.gateway:
		return false, false
	}
	return true, use == Write && survival != catalog.SurviveZone
}
