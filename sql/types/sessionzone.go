package types

import (
	"encoding/binary"
	"strconv"
	"strings"
	"time"

	"meridian/sql/sqlstate"
)

// SessionZone reads a value of the setting TimeZone: a number of hours east, INTERVAL '+01:00', the name of a zone, or a POSIX
// description, whose offsets are west. It returns the zone and its name as SHOW prints it. Abbreviations such as MSK are no zones.
func SessionZone(value string) (*time.Location, string, error) {
	bad := sqlstate.New(sqlstate.InvalidParameterValue, `invalid value for parameter "TimeZone": "%s"`, value)
	if len(value) > 8 && strings.EqualFold(value[:8], "interval") {
		text := trimSpace(value[8:])
		if len(text) < 2 || text[0] != '\'' || text[len(text)-1] != '\'' {
			return nil, "", bad
		}
		iv, err := parseInterval(text[1 : len(text)-1])
		if err != nil {
			return nil, "", err
		}
		months, days, micros := iv.Interval()
		bad = sqlstate.New(sqlstate.InvalidParameterValue, `invalid value for parameter "TimeZone": "INTERVAL '%s'"`, FormatText(iv, IntervalType, nil))
		switch {
		case months != 0:
			return nil, "", bad.WithDetail("Cannot specify months in time zone interval.")
		case days != 0:
			return nil, "", bad.WithDetail("Cannot specify days in time zone interval.")
		}
		return offsetZone(micros/SecondMicros, bad)
	}
	if h, err := strconv.ParseFloat(value, 64); err == nil && !strings.ContainsAny(value, "_xXpPiInN") {
		return offsetZone(int64(h*3600), bad)
	}
	low := strings.ToLower(value)
	switch low {
	case "utc", "gmt", "uct", "zulu", "universal":
		name := strings.ToUpper(value)
		if len(value) > 3 {
			name = name[:1] + low[1:]
		}
		return time.UTC, name, nil
	}
	if loc := namedZone(value); loc != nil {
		return loc, loc.String(), nil
	}
	if up := strings.ToUpper(value); up != "" {
		if loc, ok := posixZone(up); ok {
			return loc, up, nil
		}
	}
	return nil, "", bad
}

// namedZone finds a zone of the database by its name in any case, nil if there is none.
func namedZone(name string) *time.Location {
	low := strings.ToLower(name)
	if low == "" || low == "local" {
		return nil
	}
	for _, spelling := range []string{name, zoneSpelling(low), strings.ToUpper(name)} {
		if loc, err := time.LoadLocation(spelling); err == nil {
			return loc
		}
	}
	return nil
}

// zoneSpelling is the spelling in the database of a zone's name in small letters, if that is no name in capitals alone.
func zoneSpelling(low string) string {
	title := []byte(low)
	up := true
	for i, c := range title {
		if up && c >= 'a' && c <= 'z' {
			title[i] = c - 'a' + 'A'
		}
		up = c == '/' || c == '_' || c == '-'
	}
	area, place, ok := strings.Cut(string(title), "/")
	switch {
	case !ok && low == "gb-eire":
		return "GB-Eire"
	case area == "Etc" && (strings.HasPrefix(place, "G") || strings.HasPrefix(place, "U")) && place != "Greenwich" && place != "Universal":
		return "Etc/" + strings.ToUpper(place)
	case area == "Us":
		return "US/" + place
	}
	for _, odd := range []string{"Africa/Dar_es_Salaam", "America/Argentina/ComodRivadavia", "America/Knox_IN", "America/Port-au-Prince",
		"America/Port_of_Spain", "Antarctica/DumontDUrville", "Antarctica/McMurdo", "Australia/ACT", "Australia/LHI", "Australia/NSW",
		"Brazil/DeNoronha", "Chile/EasterIsland", "Europe/Isle_of_Man", "Mexico/BajaNorte", "Mexico/BajaSur"} {
		if strings.EqualFold(odd, low) {
			return odd
		}
	}
	return string(title)
}

// maxZoneHours bounds the offsets of TimeZone, as PostgreSQL's MAX_TZDISP_HOUR times ten and a bit does: a week.
const maxZoneHours = 167

func offsetZone(seconds int64, bad *sqlstate.Error) (*time.Location, string, error) {
	if seconds > maxZoneHours*3600 || seconds < -maxZoneHours*3600 {
		return nil, "", bad.WithDetail("UTC timezone offset is out of range.")
	}
	loc := FixedZone(int(seconds))
	if seconds == 0 {
		loc = time.FixedZone("<+00>-00", 0)
	}
	return loc, loc.String(), nil
}

// posixZone reads a POSIX description: a name, an offset west, and if there is one the daylight saving time and its rules.
func posixZone(s string) (*time.Location, bool) {
	name, rest := posixName(s)
	standard := rest
	off, rest, ok := posixOffset(rest)
	if !ok {
		return nil, false
	}
	standard = standard[:len(standard)-len(rest)]
	if rest == "" {
		if name == "" {
			name = string(appendZone(nil, -off))
		}
		return time.FixedZone(name, -off), true
	}
	daylight, rules := posixName(rest)
	if len(daylight) == 0 {
		return nil, false
	}
	shift := ""
	if rules == "" || rules[0] != ',' {
		_, after, ok := posixOffset(rules)
		if rules != "" && (!ok || after != "" && after[0] != ',') {
			return nil, false
		}
		shift = rules[:len(rules)-len(after)]
		rules = after
	}
	if rules == "" {
		rules = ",M3.2.0,M11.1.0" // the rules of the United States, as in PostgreSQL
	}
	// Between brackets a name may be as short as one letter.
	return compileZone("<"+name+">"+standard+"<"+daylight+">"+shift+rules, name, -off)
}

func posixName(s string) (name, rest string) {
	if strings.HasPrefix(s, "<") {
		if i := strings.IndexByte(s, '>'); i > 0 {
			return s[1:i], s[i+1:]
		}
		return "", s
	}
	i := span(s, func(c byte) bool { return !isDigit(c) && c != ',' && c != '-' && c != '+' })
	return s[:i], s[i:]
}

func posixOffset(s string) (seconds int, rest string, ok bool) {
	if s == "" {
		return 0, "", false
	}
	if s[0] != '+' && s[0] != '-' {
		s = "+" + s
	}
	if len(s) < 2 || !isDigit(s[1]) {
		return 0, "", false
	}
	sign, digits := 1, ""
	if s[0] == '-' {
		sign = -1
	}
	s = s[1:]
	for i, unit := 0, 3600; i < 3; i, unit = i+1, unit/60 {
		if i > 0 {
			if s == "" || s[0] != ':' {
				break
			}
			if len(s) < 2 || !isDigit(s[1]) {
				return 0, "", false
			}
			s = s[1:]
		}
		digits, s = takeDigits(s)
		n, err := strconv.Atoi(digits)
		if err != nil || i == 0 && n > maxZoneHours || i > 0 && n > 59 {
			return 0, "", false
		}
		seconds += n * unit
	}
	return sign * seconds, s, true
}

// compileZone makes a zone of a POSIX description with rules, as the end of a file of the time zone database has one.
func compileZone(rule, name string, offset int) (*time.Location, bool) {
	const header = "TZif2\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
	block := func(counts ...uint32) []byte {
		b := []byte(header)
		for _, n := range counts {
			b = binary.BigEndian.AppendUint32(b, n)
		}
		return b
	}
	// Counts are of: UT indicators, standard indicators, leap seconds, transitions, types, characters of names.
	data := block(0, 0, 0, 0, 0, 0)
	data = append(data, block(0, 0, 0, 1, 1, uint32(len(name)+1))...)
	long := int64(1) << 40 // before all times in use
	data = binary.BigEndian.AppendUint64(data, uint64(-long))
	data = append(data, 0)
	data = binary.BigEndian.AppendUint32(data, uint32(int32(offset)))
	data = append(data, 0, 0)
	data = append(append(data, name...), 0)
	data = append(data, '\n')
	data = append(append(data, rule...), '\n')
	loc, err := time.LoadLocationFromTZData(rule, data)
	return loc, err == nil
}
