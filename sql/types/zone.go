package types

import (
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // for machines without a database of time zones, where results would differ
)

// zoneAbbreviation knows the abbreviations in common use, in seconds east of UTC.
func zoneAbbreviation(w string) (int, bool) {
	h := func(hours float64) (int, bool) { return int(hours * 3600), true }
	switch w {
	case "utc", "gmt", "z", "zulu", "ut", "uct", "wet":
		return 0, true
	case "est":
		return h(-5)
	case "edt":
		return h(-4)
	case "cst":
		return h(-6)
	case "cdt":
		return h(-5)
	case "mst":
		return h(-7)
	case "mdt":
		return h(-6)
	case "pst":
		return h(-8)
	case "pdt":
		return h(-7)
	case "akst":
		return h(-9)
	case "akdt":
		return h(-8)
	case "hst":
		return h(-10)
	case "ast":
		return h(-4)
	case "adt":
		return h(-3)
	case "bst", "cet", "west", "met", "mez":
		return h(1)
	case "cest", "eet", "mest", "mesz":
		return h(2)
	case "eest", "msk":
		return h(3)
	case "msd":
		return h(4)
	case "ist":
		return h(2)
	case "jst", "kst":
		return h(9)
	case "aest":
		return h(10)
	case "aedt":
		return h(11)
	case "acst":
		return h(9.5)
	case "awst":
		return h(8)
	case "nzst":
		return h(12)
	case "nzdt":
		return h(13)
	}
	return 0, false
}

// LoadZone finds a time zone by name: an IANA name in any case, an abbreviation, or an offset such as +02 or
// UTC-5 (POSIX: the sign of a named offset is reversed).
func LoadZone(name string) (*time.Location, bool) {
	n := trimSpace(name)
	low := strings.ToLower(n)
	switch low {
	case "":
		return nil, false
	case "utc", "gmt", "z", "zulu", "etc/utc", "default":
		return time.UTC, true
	case "local", "localtime":
		return nil, false
	}
	if n[0] == '+' || n[0] == '-' || n[0] >= '0' && n[0] <= '9' {
		s := n
		if s[0] != '+' && s[0] != '-' {
			s = "+" + s
		}
		off, rest, ok := parseOffset(s)
		if !ok || rest != "" {
			return nil, false
		}
		return FixedZone(off), true
	}
	if strings.ContainsRune(n, '.') || strings.HasPrefix(n, "/") {
		return nil, false
	}
	if off, ok := zoneAbbreviation(low); ok && !strings.Contains(low, "/") {
		switch low {
		case "est", "mst", "hst", "wet", "cet", "eet", "met":
		default:
			return time.FixedZone(strings.ToUpper(n), off), true
		}
	}
	if loc, err := time.LoadLocation(n); err == nil {
		return loc, true
	}
	// The database's names are capitalised by word; try that, then all capitals.
	title := []byte(low)
	up := true
	for i, c := range title {
		if up && c >= 'a' && c <= 'z' {
			title[i] = c - 32
		}
		up = c == '/' || c == '_' || c == '-'
	}
	if loc, err := time.LoadLocation(string(title)); err == nil {
		return loc, true
	}
	if loc, err := time.LoadLocation(strings.ToUpper(n)); err == nil {
		return loc, true
	}
	if n[0] != '<' && (len(n) < 3 || !isAlpha(n[0]) || !isAlpha(n[1]) || !isAlpha(n[2])) {
		return nil, false
	}
	return posixZone(n)
}

// FixedZone is a zone named by its offset, as PostgreSQL names those of SET TIME ZONE with a number.
func FixedZone(offset int) *time.Location {
	name := string(appendZone(nil, offset))
	return time.FixedZone("<"+name+">"+string(appendZone(nil, -offset)), offset)
}

// parseOffset reads +hh, +hhmm, +hh:mm or +hh:mm:ss.
func parseOffset(s string) (seconds int, rest string, ok bool) {
	sign := 1
	if s[0] == '-' {
		sign = -1
	}
	s = s[1:]
	n := 0
	for n < len(s) && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	if n == 0 || n > 6 {
		return 0, "", false
	}
	v, _ := strconv.Atoi(s[:n])
	h, m, sec := 0, 0, 0
	switch {
	case n <= 2:
		h = v
	case n <= 4:
		h, m = v/100, v%100
	default:
		h, m, sec = v/10000, v/100%100, v%100
	}
	s = s[n:]
	two := func() int {
		if len(s) >= 3 && s[0] == ':' && s[1] >= '0' && s[1] <= '9' && s[2] >= '0' && s[2] <= '9' {
			v := int(s[1]-'0')*10 + int(s[2]-'0')
			s = s[3:]
			return v
		}
		return -1
	}
	if n <= 2 {
		if v := two(); v >= 0 {
			m = v
			if v := two(); v >= 0 {
				sec = v
			}
		}
	}
	if h > 15 || m > 59 || sec > 59 {
		return 0, "", false
	}
	return sign * (h*3600 + m*60 + sec), s, true
}
