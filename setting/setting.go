package setting

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Kind is the type of a setting's value.
type Kind uint8

const (
	// Int is a whole number.
	Int Kind = iota
	// Bool is true or false.
	Bool
	// Duration is a length of time, as in 90s, 5m, 1h30m, 2 days.
	Duration
	// Bytes is a size, as in 512, 64MiB, 1GB.
	Bytes
	// Fraction is a number with a decimal point.
	Fraction
	// Enum is one of Setting.Values.
	Enum
)

var kindNames = [...]string{"integer", "boolean", "duration", "bytes", "float", "enumeration"}

func (k Kind) String() string { return kindNames[k] }

// Setting describes one cluster setting. A value of any kind is an int64: nanoseconds, bytes, 0 or 1, the bits of a
// float64, the place in Values.
type Setting struct {
	Name string
	Kind Kind
	// Default, Min and Max are inclusive; Bool and Enum need no bounds. Those of a Fraction are made by Float.
	Default, Min, Max int64
	// Values are those of an Enum.
	Values []string
	// About is a phrase for SHOW ALL CLUSTER SETTINGS.
	About string
	// check refuses further values; its error is a hint for the user.
	check func(int64) error
}

// Float is the value of a Fraction as a Setting has it.
func Float(f float64) int64 { return int64(math.Float64bits(f)) }

// UnknownError says that there is no setting of a name.
type UnknownError struct{ Name string }

func (e *UnknownError) Error() string { return fmt.Sprintf("unrecognized cluster setting %q", e.Name) }

// ValueError says that a setting can't have a value, and in Hint why.
type ValueError struct{ Name, Value, Hint string }

func (e *ValueError) Error() string {
	return fmt.Sprintf("invalid value for cluster setting %q: %q", e.Name, e.Value)
}

// All calls f for every setting, in the order of the list.
func All(f func(*Setting)) {
	for i := range table {
		f(&table[i])
	}
}

// Find is the setting of a name.
func Find(name string) (*Setting, bool) {
	if id, ok := find(name); ok {
		return &table[id], true
	}
	return nil, false
}

func find(name string) (ID, bool) {
	for i := range table {
		if strings.EqualFold(table[i].Name, name) {
			return ID(i), true
		}
	}
	return 0, false
}

// Check reads a value for the setting of a name, and returns the text to be stored: the same for all spellings of one
// value.
func Check(name, value string) (string, error) {
	s, ok := Find(name)
	if !ok {
		return "", &UnknownError{name}
	}
	v, err := s.Parse(value)
	if err != nil {
		return "", err
	}
	return s.Format(v), nil
}

// Shown is the text of a setting's present value, given what was set.
func (s *Setting) Shown(set map[string]string) string {
	if text, ok := set[s.Name]; ok {
		if v, err := s.Parse(text); err == nil {
			return s.Format(v)
		}
	}
	return s.Format(s.Default)
}

// In is the value of a setting, as text, where some have been set.
func (id ID) In(set map[string]string) string { return table[id].Shown(set) }

// Parse reads a value; errors are *ValueError.
func (s *Setting) Parse(text string) (int64, error) {
	v, err := s.parse(strings.TrimSpace(text))
	if err == nil && s.check != nil {
		err = s.check(v)
	}
	if err != nil {
		return 0, &ValueError{s.Name, text, err.Error()}
	}
	return v, nil
}

var errMalformed = errors.New("malformed")

// hint says why a text is not a value of a setting: a sentence for the client.
type hint string

func (h hint) Error() string { return string(h) }

func (s *Setting) parse(text string) (v int64, err error) {
	switch s.Kind {
	case Bool:
		switch strings.ToLower(text) {
		case "true", "on", "yes", "1":
			return 1, nil
		case "false", "off", "no", "0":
			return 0, nil
		}
		return 0, hint("It is true or false.")
	case Enum:
		for i, name := range s.Values {
			if strings.EqualFold(name, text) {
				return int64(i), nil
			}
		}
		return 0, hint("Available values: " + strings.Join(s.Values, ", ") + ".")
	case Fraction:
		f, err := strconv.ParseFloat(text, 64)
		lo, hi := math.Float64frombits(uint64(s.Min)), math.Float64frombits(uint64(s.Max))
		if err != nil || !(f >= lo && f <= hi) {
			return 0, hint(fmt.Sprintf("It is a number from %s to %s.", s.Format(s.Min), s.Format(s.Max)))
		}
		return Float(f), nil
	case Duration:
		v, err = parseUnits(text, durationUnits)
	case Bytes:
		v, err = parseUnits(text, byteUnits)
	default:
		v, err = strconv.ParseInt(text, 10, 64)
	}
	if err != nil || v < s.Min || v > s.Max {
		what := map[Kind]string{Int: "an integer", Duration: "a duration such as 90s, 5m or 1h30m", Bytes: "a size such as 64MiB"}[s.Kind]
		return 0, hint(fmt.Sprintf("It is %s, from %s to %s.", what, s.Format(s.Min), s.Format(s.Max)))
	}
	return v, nil
}

var durationUnits = map[string]int64{
	"us": int64(time.Microsecond), "ms": int64(time.Millisecond),
	"s": int64(time.Second), "sec": int64(time.Second), "second": int64(time.Second), "seconds": int64(time.Second),
	"m": int64(time.Minute), "min": int64(time.Minute), "minute": int64(time.Minute), "minutes": int64(time.Minute),
	"h": int64(time.Hour), "hour": int64(time.Hour), "hours": int64(time.Hour),
	"d": 24 * int64(time.Hour), "day": 24 * int64(time.Hour), "days": 24 * int64(time.Hour),
}

var byteUnits = map[string]int64{
	"": 1, "b": 1, "kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40,
}

// parseUnits adds up numbers with units. Zero needs no unit.
func parseUnits(text string, units map[string]int64) (int64, error) {
	if text == "0" {
		return 0, nil
	}
	isDigit := func(r rune) bool { return r >= '0' && r <= '9' || r == '.' }
	sum := 0.0
	for rest := strings.ToLower(text); ; {
		n := strings.IndexFunc(rest, func(r rune) bool { return !isDigit(r) })
		if n < 0 {
			n = len(rest)
		}
		f, err := strconv.ParseFloat(rest[:n], 64)
		if err != nil {
			return 0, errMalformed
		}
		rest = strings.TrimLeft(rest[n:], " ")
		if n = strings.IndexFunc(rest, isDigit); n < 0 {
			n = len(rest)
		}
		unit, ok := units[strings.TrimRight(rest[:n], " ")]
		if sum += f * float64(unit); !ok || sum > 1<<62 {
			return 0, errMalformed
		}
		if rest = rest[n:]; rest == "" {
			return int64(math.Round(sum)), nil
		}
	}
}

// Format is the text of a value, which Parse reads.
func (s *Setting) Format(v int64) string {
	switch s.Kind {
	case Bool:
		return strconv.FormatBool(v != 0)
	case Enum:
		return s.Values[v]
	case Fraction:
		return strconv.FormatFloat(math.Float64frombits(uint64(v)), 'g', -1, 64)
	case Duration:
		return formatDuration(time.Duration(v))
	case Bytes:
		for _, u := range [...]string{"TiB", "GiB", "MiB", "KiB"} {
			if unit := byteUnits[strings.ToLower(u)]; v != 0 && v%unit == 0 {
				return strconv.FormatInt(v/unit, 10) + u
			}
		}
		return strconv.FormatInt(v, 10) + "B"
	default:
		return strconv.FormatInt(v, 10)
	}
}

// formatDuration leaves out what is zero: 5m, not 5m0s.
func formatDuration(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return strings.Replace(text, "µs", "us", 1)
}
