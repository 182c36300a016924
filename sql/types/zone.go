package types

import (
	"strings"
	"time"
	_ "time/tzdata" // for machines without a database of time zones, where results would differ
)

// Zone tells the offset of a time zone: a fixed one, that of a zone of the database, or that which an abbreviation had at a time.
type Zone struct {
	loc          *time.Location // nil: offset
	abbreviation string         // of loc, in capitals; empty for the zone itself
	offset       int            // seconds east
}

// ZoneOf is a zone of the database.
func ZoneOf(loc *time.Location) Zone { return Zone{loc: LocationOrUTC(loc)} }

// OffsetAt is the offset, in seconds east, at a timestamptz.
func (z Zone) OffsetAt(utc int64) int {
	switch {
	case z.loc == nil:
		return z.offset
	case z.abbreviation == "":
		return zoneOffset(utc, z.loc)
	}
	return abbreviatedOffset(utc, z.loc, z.abbreviation)
}

// Local is the wall clock of a timestamptz in the zone.
func (z Zone) Local(utc int64) int64 {
	if IsInfinite(utc) {
		return utc
	}
	return utc + int64(z.OffsetAt(utc))*SecondMicros
}

// UTC is the timestamptz of a wall clock in the zone.
func (z Zone) UTC(local int64) int64 {
	switch {
	case IsInfinite(local):
		return local
	case z.loc == nil:
		return local - int64(z.offset)*SecondMicros
	case z.abbreviation == "":
		return UTCMicros(local, z.loc)
	}
	return local - int64(z.OffsetAt(UTCMicros(local, z.loc)))*SecondMicros
}

// steady reports whether the offset can be told without a date: an abbreviation is taken as of today.
func (z Zone) steady() bool {
	if z.loc == nil || z.abbreviation != "" {
		return true
	}
	from, to := time.Unix(0, 0).In(z.loc).ZoneBounds()
	return from.IsZero() && to.IsZero()
}

// abbreviatedOffset is the offset that an abbreviation last had in a zone at a time, or else has first after it.
func abbreviatedOffset(utc int64, loc *time.Location, name string) int {
	at := TimeFromMicros(utc).In(loc)
	for t := at; ; {
		if n, off := t.Zone(); n == name {
			return off
		}
		from, _ := t.ZoneBounds()
		if from.IsZero() {
			break
		}
		t = from.Add(-time.Second)
	}
	// After the last change that is known, rules repeat for ever.
	for t, n := at, 0; n < 400; n++ {
		_, to := t.ZoneBounds()
		if to.IsZero() {
			break
		}
		t = to
		if n, off := t.Zone(); n == name {
			return off
		}
	}
	_, off := at.Zone()
	return off
}

// abbreviatedZone is the zone of an abbreviation in small letters.
func abbreviatedZone(w string) (z Zone, summer, ok bool) {
	off, summer, of, ok := zoneAbbreviation(w)
	if !ok || of == "" {
		return Zone{offset: off}, summer, ok
	}
	loc, err := time.LoadLocation(of)
	return Zone{loc: loc, abbreviation: strings.ToUpper(w)}, false, err == nil
}

// databaseZone is a zone of the database by its name in any case, or a POSIX description of one.
func databaseZone(name string) (Zone, bool) {
	switch strings.ToLower(name) {
	case "utc", "gmt", "zulu", "etc/utc":
		return Zone{loc: time.UTC}, true
	}
	if loc := namedZone(name); loc != nil {
		return Zone{loc: loc}, true
	}
	loc, ok := posixZone(name)
	return Zone{loc: loc}, ok
}

// ZoneByName finds a time zone as AT TIME ZONE does: an abbreviation, a zone of the database, or a POSIX description, whose
// offsets are west of Greenwich.
func ZoneByName(name string) (Zone, bool) {
	if z, _, ok := abbreviatedZone(strings.ToLower(name)); ok {
		return z, true
	}
	return databaseZone(name)
}

// SaneZone is ZoneByName where a bare offset is east of Greenwich; valid is false for a bare offset out of range.
func SaneZone(name string) (z Zone, ok, valid bool) {
	if name != "" && (name[0] == '+' || name[0] == '-') {
		switch east, f := readOffset(name); f {
		case faultNone:
			return Zone{offset: east}, true, true
		case faultOffset:
			return Zone{}, false, false
		}
	}
	z, ok = ZoneByName(name)
	return z, ok, true
}

// FixedZone is a zone named by its offset, as PostgreSQL names those of SET TIME ZONE with a number.
func FixedZone(offset int) *time.Location {
	name := string(appendZone(nil, offset))
	return time.FixedZone("<"+name+">"+string(appendZone(nil, -offset)), offset)
}
