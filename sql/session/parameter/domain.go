package parameter

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"meridian/sql/opt"
	"meridian/sql/sqlstate"
)

// Domain is the set of a setting's values.
type Domain struct {
	Type string // as in pg_settings: bool, integer, real, enum, string
	// Unit is the unit of bare numbers, Low and High are their bounds; for integers and reals.
	Unit      string
	Low, High string
	Enum      []string
	// read brings a value into the form in which it is kept and shown, or refuses it.
	read func(s *Definition, value string) (string, error)
	// Bare turns a shown value into a number of units, as pg_settings has it; nil: the value as it is shown.
	Bare func(shown string) string
}

func (d *Domain) accept(s *Definition, value string) (string, error) { return d.read(s, value) }

// invalid is the error for a value that a setting does not have.
func (s *Definition) invalid(value string) *sqlstate.Error {
	return sqlstate.New(sqlstate.InvalidParameterValue, "invalid value for parameter \"%s\": \"%s\"", s.Name, value)
}

// outside is the error for a number that is too small or too large.
func (s *Definition) outside(value, lo, hi string) error {
	return sqlstate.New(sqlstate.InvalidParameterValue, "%s is outside the valid range for parameter %q (%s .. %s)", value, s.Name, lo, hi)
}

// oneOf is an enumeration.
func oneOf(values ...string) *Domain {
	return &Domain{Type: "enum", Enum: values, read: func(s *Definition, v string) (string, error) {
		if i := slices.IndexFunc(values, func(x string) bool { return strings.EqualFold(x, v) }); i >= 0 {
			return values[i], nil
		}
		return "", s.invalid(v).WithHint("Available values: %s.", strings.Join(values, ", "))
	}}
}

// only has PostgreSQL's values, of which only the first is possible here.
func only(truth string, others ...string) *Domain {
	all := oneOf(append([]string{truth}, others...)...)
	if truth == "on" || truth == "off" {
		all = boolean
	}
	d := *all
	d.read = func(s *Definition, v string) (string, error) {
		got, err := all.read(s, v)
		if err == nil && got != truth {
			err = sqlstate.New(sqlstate.FeatureNotSupported, "parameter %q has no other value than %q", s.Name, truth)
		}
		return got, err
	}
	return &d
}

// known is the name of the only object of its kind; an empty name: there is none.
func known(name, what string) *Domain {
	return &Domain{Type: "string", read: func(s *Definition, v string) (string, error) {
		if v != name {
			return "", s.invalid(v).WithDetail("%s \"%s\" does not exist.", what, v)
		}
		return v, nil
	}}
}

// locale has the values under which nothing depends on a language.
var locale = &Domain{Type: "string", read: func(s *Definition, v string) (string, error) {
	switch strings.ToLower(v) {
	case "", "c", "posix", "c.utf-8", "c.utf8":
		return v, nil
	}
	return "", s.invalid(v).WithHint("Messages and formats are those of the locale C.")
}}

// shortText is a text that is cut to the length of an identifier, with a question mark for each byte that is not printable ASCII.
var shortText = &Domain{Type: "string", read: func(_ *Definition, v string) (string, error) {
	b := []byte(v)
	for i, c := range b {
		if c < ' ' || c > '~' {
			b[i] = '?'
		}
	}
	if len(b) > 63 {
		b = b[:63]
	}
	return string(b), nil
}}

// parseSwitch reads a Boolean value: any unambiguous beginning of on, off, true, false, yes and no, in any case.
func parseSwitch(v string) (value, ok bool) {
	low := strings.ToLower(v)
	switch {
	case low == "":
	case low == "1", low == "on", strings.HasPrefix("true", low), strings.HasPrefix("yes", low):
		return true, true
	case low == "0", low == "of", low == "off", strings.HasPrefix("false", low), strings.HasPrefix("no", low):
		return false, true
	}
	return false, false
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

var boolean = &Domain{Type: "bool", read: func(s *Definition, v string) (string, error) {
	on, ok := parseSwitch(v)
	if !ok {
		return "", sqlstate.New(sqlstate.InvalidParameterValue, "parameter %q requires a Boolean value", s.Name)
	}
	return onOff(on), nil
}}

// orSwitch is an enumeration with "on" and "off", which can also be given by PostgreSQL's other words for them, not abbreviated.
func orSwitch(values ...string) *Domain {
	d := oneOf(values...)
	plain := d.read
	d.read = func(s *Definition, v string) (string, error) {
		switch strings.ToLower(v) {
		case "true", "yes", "1":
			return "on", nil
		case "false", "no", "0":
			return "off", nil
		}
		return plain(s, v)
	}
	return d
}

// except refuses a value whose effect is missing. The hint names an alternative.
func (d *Domain) except(value, hint string) *Domain {
	other := *d
	other.read = func(s *Definition, v string) (string, error) {
		got, err := d.read(s, v)
		if err == nil && got == value {
			return "", sqlstate.New(sqlstate.FeatureNotSupported, "parameter %q cannot be %q", s.Name, value).WithHint("%s", hint)
		}
		return got, err
	}
	return &other
}

var isolation = oneOf("serializable", "repeatable read", "read committed", "read uncommitted")

// number reads a number and rounds it to a whole one.
func number(v string) (int64, bool) {
	v = strings.TrimSpace(v)
	if n, err := strconv.ParseInt(v, 0, 64); err == nil {
		return n, true
	}
	f, err := strconv.ParseFloat(v, 64)
	if err != nil || f != f || math.Abs(f) > 1e18 || strings.ContainsAny(v, "_pPnN") {
		return 0, false
	}
	return int64(math.RoundToEven(f)), true
}

func integer(lo, hi int64) *Domain {
	d := &Domain{Type: "integer", Low: format(lo), High: format(hi)}
	d.read = func(s *Definition, v string) (string, error) {
		n, ok := number(v)
		if !ok {
			return "", s.invalid(v)
		}
		if n > math.MaxInt32 || n < math.MinInt32 {
			return "", s.invalid(v).WithHint(tooWide)
		}
		if n < lo || n > hi {
			return "", s.outside(format(n), d.Low, d.High)
		}
		return format(n), nil
	}
	return d
}

func real(lo, hi float64) *Domain {
	d := &Domain{Type: "real", Low: strconv.FormatFloat(lo, 'g', 6, 64), High: strconv.FormatFloat(hi, 'g', 6, 64)}
	d.read = func(s *Definition, v string) (string, error) {
		f, err := strconv.ParseFloat(strings.TrimSpace(v), 64)
		if err != nil || f != f {
			return "", s.invalid(v)
		}
		if f < lo || f > hi {
			return "", s.outside(strconv.FormatFloat(f, 'g', 6, 64), d.Low, d.High)
		}
		return strconv.FormatFloat(f, 'g', 6, 64), nil
	}
	return d
}

const tooWide = "Value exceeds integer range."

const timeUnits = `Valid units for this parameter are "us", "ms", "s", "min", "h", and "d".`

// duration is a time in milliseconds, or with another unit. It is kept in the largest unit that fits.
var duration = &Domain{Type: "integer", Unit: "ms", Low: "0", High: format(math.MaxInt32), read: func(s *Definition, v string) (string, error) {
	ms, hint, ok := milliseconds(v)
	if !ok {
		return "", s.invalid(v).WithHint("%s", hint)
	}
	if ms < 0 || ms > math.MaxInt32 {
		return "", s.outside(format(ms)+" ms", "0", format(math.MaxInt32))
	}
	for _, u := range []struct {
		ms   int64
		name string
	}{{24 * 3600_000, "d"}, {3600_000, "h"}, {60_000, "min"}, {1000, "s"}} {
		if ms != 0 && ms%u.ms == 0 {
			return format(ms/u.ms) + u.name, nil
		}
	}
	if ms == 0 {
		return "0", nil
	}
	return format(ms) + "ms", nil
}, Bare: func(shown string) string {
	ms, _, _ := milliseconds(shown)
	return format(ms)
}}

// realMilliseconds is a time in milliseconds that need not be whole, or with another unit. It is kept in the largest unit in which it is whole.
func realMilliseconds(lo, hi float64) *Domain {
	plain := real(lo, hi)
	d := &Domain{Type: plain.Type, Unit: "ms", Low: plain.Low, High: plain.High}
	units := func() []timeUnit {
		return []timeUnit{{24 * 3600_000, "d"}, {3600_000, "h"}, {60_000, "min"}, {1000, "s"}, {1, "ms"}, {0.001, "us"}}
	}
	in := func(v string) (ms float64, known, ok bool) {
		f, unit, ok := numberAndUnit(v)
		if unit == "" {
			unit = "ms"
		}
		for _, u := range units() {
			if u.name == unit {
				return f * u.ms, true, ok
			}
		}
		return 0, false, ok
	}
	d.read = func(s *Definition, v string) (string, error) {
		ms, known, ok := in(v)
		switch {
		case !ok:
			return "", s.invalid(v)
		case !known:
			return "", s.invalid(v).WithHint(timeUnits)
		case ms < lo || ms > hi:
			return "", s.outside(strconv.FormatFloat(ms, 'g', 6, 64)+" ms", d.Low, d.High)
		case ms == 0:
			return "0", nil
		}
		us := units()
		best := us[len(us)-1]
		for _, u := range us {
			if n := ms / u.ms; math.Abs(n-math.Round(n)) <= 1e-8*n && math.Round(n) >= 1 {
				best = u
				break
			}
		}
		return strconv.FormatFloat(ms/best.ms, 'g', 6, 64) + best.name, nil
	}
	d.Bare = func(shown string) string {
		ms, _, _ := in(shown)
		return strconv.FormatFloat(ms, 'g', 6, 64)
	}
	return d
}

type timeUnit struct {
	ms   float64
	name string
}

// durationTo is a duration of so many milliseconds at most.
func durationTo(most int64) *Domain {
	d := *duration
	d.High = format(most)
	d.read = func(s *Definition, v string) (string, error) {
		if ms, _, ok := milliseconds(v); ok && ms > most {
			return "", s.outside(format(ms)+" ms", "0", format(most))
		}
		return duration.read(s, v)
	}
	return &d
}

// ruleList is a list of the optimizer's rules.
var ruleList = &Domain{Type: "string", read: func(s *Definition, v string) (string, error) {
	rules, err := opt.ParseRules(v)
	if err != nil {
		return "", s.invalid(v).WithDetail("%s.", strings.ToUpper(err.Error()[:1])+err.Error()[1:]).WithHint("Available rules: %s.", opt.AllRules)
	}
	return rules.String(), nil
}}

// Rules are the rules of a list that was kept.
func Rules(list string) opt.Rules {
	rules, _ := opt.ParseRules(list)
	return rules
}

// readToken is a timestamp of cluster_logical_timestamp(), or nothing.
var readToken = &Domain{Type: "string", read: func(s *Definition, v string) (string, error) {
	if v = strings.TrimSpace(v); v == "" {
		return v, nil
	}
	if ParseToken(v) == 0 {
		return "", s.invalid(v).WithHint("Use what SELECT cluster_logical_timestamp() gives in the other session.")
	}
	return v, nil
}}

// ParseToken gives the time of a token, in nanoseconds since 1970; zero: it is none.
func ParseToken(v string) int64 {
	wall, logical, _ := strings.Cut(v, ".")
	n, err := strconv.ParseInt(wall, 10, 64)
	if _, bad := strconv.ParseUint("0"+logical, 10, 64); err != nil || bad != nil || n <= 0 {
		return 0
	}
	return n
}

// milliseconds reads a time.
func milliseconds(v string) (ms int64, hint string, ok bool) {
	f, unit, ok := numberAndUnit(v)
	if !ok {
		return 0, "", false
	}
	factor, ok := map[string]float64{"": 1, "us": 0.001, "ms": 1, "s": 1000, "min": 60_000, "h": 3600_000, "d": 24 * 3600_000}[unit]
	if !ok {
		return 0, timeUnits, false
	}
	if f *= factor; math.Abs(f) > math.MaxInt32 {
		return 0, tooWide, false
	}
	return int64(math.RoundToEven(f)), "", true
}

func numberAndUnit(v string) (f float64, unit string, ok bool) {
	v = strings.TrimSpace(v)
	i := 0
	for i < len(v) && (v[i] >= '0' && v[i] <= '9' || v[i] == '.' || (v[i] == '-' || v[i] == '+') && i == 0) {
		i++
	}
	f, err := strconv.ParseFloat(v[:i], 64)
	return f, strings.TrimSpace(v[i:]), err == nil
}

// ParseDuration reads a setting that is a duration.
func ParseDuration(v string) time.Duration {
	ms, _, _ := milliseconds(v)
	return time.Duration(ms) * time.Millisecond
}

const sizeUnits = `Valid units for this parameter are "B", "kB", "MB", "GB", and "TB".`

// size is a number of bytes; a bare number counts blocks of unit bytes, as do the bounds. With a unit of one byte the value is exact, but a bare
// number still counts kilobytes.
func size(unit, lo, hi int64) *Domain {
	name := map[int64]string{1: "kB", 1 << 10: "kB", 8 << 10: "8kB"}[unit]
	d := &Domain{Type: "integer", Unit: name, Low: format(lo), High: format(hi), Bare: func(shown string) string { return format(ParseSize(shown) / max(unit, 1<<10)) }}
	d.read = func(s *Definition, v string) (string, error) {
		f, u, ok := numberAndUnit(v)
		if !ok {
			return "", s.invalid(v)
		}
		factor := float64(max(unit, 1<<10))
		if unit == 1 && u == "" {
			u = "kB"
		}
		if u != "" {
			if factor, ok = sizeFactors[u]; !ok {
				return "", s.invalid(v).WithHint(sizeUnits)
			}
		}
		if f *= factor; math.Abs(f/float64(max(unit, 1<<10))) > math.MaxInt32 {
			return "", s.invalid(v).WithHint(tooWide)
		}
		n := int64(math.RoundToEven(f / float64(unit)))
		if n < lo || n > hi {
			return "", s.outside(fmt.Sprintf("%d %s", n, name), d.Low, d.High)
		}
		return shownSize(n * unit), nil
	}
	return d
}

var sizeFactors = map[string]float64{"B": 1, "kB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}

func shownSize(n int64) string {
	for _, u := range []struct {
		bytes int64
		name  string
	}{{1 << 40, "TB"}, {1 << 30, "GB"}, {1 << 20, "MB"}, {1 << 10, "kB"}} {
		if n != 0 && n%u.bytes == 0 {
			return format(n/u.bytes) + u.name
		}
	}
	return format(n) + "B"
}

// ParseSize reads a setting that is a size.
func ParseSize(v string) int64 {
	f, u, _ := numberAndUnit(v)
	if u == "" {
		u = "B"
	}
	return int64(f * sizeFactors[u])
}

func format(n int64) string { return strconv.FormatInt(n, 10) }
