package types

import (
	"math"
	"strconv"
	"strings"

	"meridian/sql/sqlstate"
)

// intervalSum gathers the fields of an interval.
type intervalSum struct {
	months, days int64
	micros       int64
	over         bool
	seen         uint // units, each of which may come once
}

// The units of an interval's text.
const (
	unitMicros = 1 << iota
	unitMillis
	unitSecond
	unitMinute
	unitHour
	unitDay
	unitWeek
	unitMonth
	unitYear
	unitDecade
	unitCentury
	unitMillennium
	unitClock = unitMicros | unitMillis | unitSecond | unitMinute | unitHour
)

// once notes units, and reports whether none of them was given before.
func (v *intervalSum) once(units uint) bool {
	if v.seen&units != 0 {
		return false
	}
	v.seen |= units
	return true
}

// named is the unit of a name; zero if there is none.
func named(unit string) uint {
	switch unit {
	case "us", "usec", "usecs", "usecond", "useconds", "microsecond", "microseconds", "microsec", "microsecs":
		return unitMicros
	case "ms", "msec", "msecs", "msecond", "mseconds", "millisecond", "milliseconds", "millisec", "millisecs":
		return unitMillis
	case "s", "sec", "secs", "second", "seconds":
		return unitSecond
	case "m", "min", "mins", "minute", "minutes":
		return unitMinute
	case "h", "hr", "hrs", "hour", "hours":
		return unitHour
	case "d", "day", "days":
		return unitDay
	case "w", "week", "weeks":
		return unitWeek
	case "mon", "mons", "month", "months", "qtr", "quarter", "quarters":
		return unitMonth
	case "y", "yr", "yrs", "year", "years":
		return unitYear
	case "dec", "decs", "decade", "decades":
		return unitDecade
	case "c", "cent", "century", "centuries":
		return unitCentury
	case "mil", "mils", "millennium", "millennia":
		return unitMillennium
	}
	return 0
}

func (v *intervalSum) addMonths(f float64) {
	whole, frac := math.Modf(f)
	v.months += int64(whole)
	v.over = v.over || math.Abs(f) > math.MaxInt32
	if frac != 0 {
		v.addDays(frac * 30)
	}
}

func (v *intervalSum) addDays(f float64) {
	whole, frac := math.Modf(f)
	v.days += int64(whole)
	v.over = v.over || math.Abs(f) > math.MaxInt32
	if frac != 0 {
		v.addMicros(frac * float64(DayMicros))
	}
}

func (v *intervalSum) addMicros(f float64) {
	if math.Abs(f) > 9.2e18 {
		v.over = true
		return
	}
	v.micros += int64(math.RoundToEven(f))
}

// unit adds n of the named unit.
func (v *intervalSum) unit(n float64, whole int64, exact bool, unit string) bool {
	clock := func(micros int64) {
		if exact {
			if whole > math.MaxInt64/micros || whole < math.MinInt64/micros {
				v.over = true
				return
			}
			sum := v.micros + whole*micros
			if (sum > v.micros) != (whole > 0) && whole != 0 {
				v.over = true
				return
			}
			v.micros = sum
			return
		}
		v.addMicros(n * float64(micros))
	}
	switch u := named(unit); u {
	case unitMicros:
		clock(1)
	case unitMillis:
		clock(1000)
	case unitSecond:
		clock(SecondMicros)
	case unitMinute:
		clock(MinuteMicros)
	case unitHour:
		clock(HourMicros)
	case unitDay:
		v.addDays(n)
	case unitWeek:
		v.addDays(n * 7)
	case unitMonth:
		if unit[0] == 'q' {
			n *= 3
		}
		v.addMonths(n)
	case unitYear:
		v.addYears(n)
	case unitDecade:
		v.addYears(n * 10)
	case unitCentury:
		v.addYears(n * 100)
	case unitMillennium:
		v.addYears(n * 1000)
	default:
		return false
	}
	return true
}

// addYears keeps a fraction of a year to whole months, as PostgreSQL does.
func (v *intervalSum) addYears(n float64) {
	if math.Abs(n) > math.MaxInt32/12 {
		v.over = true
		return
	}
	v.months += int64(math.RoundToEven(n * 12))
}

func badInterval(s string) error {
	return sqlstate.New(sqlstate.InvalidDatetimeFormat, "invalid input syntax for type interval: %q", Raw(s))
}

// parseStyledInterval reads an interval. In the SQL standard's style a sign at the front is that of all fields if there is no other.
func parseStyledInterval(s string, env Env) (Datum, error) {
	d, err := parseInterval(s)
	if s = trimSpace(s); err != nil || s == "" || s[0] != '-' || strings.ContainsAny(s[1:], "+-") && !yearToMonth(s) {
		return d, err
	}
	if env.used != nil {
		*env.used = true
	}
	if env.Style == nil || env.Style.Interval != IntervalSQL {
		return d, nil
	}
	months, days, micros := d.Interval()
	return NewInterval(-max(months, -months), -max(days, -days), -max(micros, -micros)), nil
}

// yearToMonth reports whether the only other hyphen is that between years and months.
func yearToMonth(s string) bool {
	i := strings.IndexByte(s[1:], '-') + 1
	return i > 1 && isDigit(s[i-1]) && !strings.ContainsAny(s[i+1:], "+-")
}

func parseInterval(text string) (Datum, error) {
	s := strings.ToLower(trimSpace(text))
	if s == "" || len(s) > 250 {
		return Null, badInterval(text)
	}
	var v intervalSum
	var ok bool
	if s[0] == 'p' {
		ok = v.iso(s[1:])
	} else {
		ok = v.words(s)
	}
	if !ok {
		return Null, badInterval(text)
	}
	if v.over || v.months != int64(int32(v.months)) || v.days != int64(int32(v.days)) {
		return Null, sqlstate.New("22015", "interval field value out of range: %q", Raw(text))
	}
	return NewInterval(int32(v.months), int32(v.days), v.micros), nil
}

// iso reads what follows the P of an ISO 8601 duration.
func (v *intervalSum) iso(s string) bool {
	inTime, any := false, false
	for s != "" {
		if s[0] == 't' {
			if inTime {
				return false
			}
			inTime = true
			s = s[1:]
			if ok, was := v.isoClock(s); was {
				return ok
			}
			continue
		}
		if ok, was, rest := v.isoDate(s); was && !any {
			if any = true; !ok {
				return false
			}
			s = rest
			continue
		}
		i := 0
		for i < len(s) && (isDigit(s[i]) || s[i] == '-' || s[i] == '+' || s[i] == '.') {
			i++
		}
		if i == 0 || i >= len(s) {
			return false
		}
		n, err := strconv.ParseFloat(s[:i], 64)
		if err != nil {
			return false
		}
		whole, werr := strconv.ParseInt(s[:i], 10, 64)
		unit := s[i : i+1]
		s = s[i+1:]
		any = true
		switch {
		case !inTime && unit == "m":
			unit = "mon"
		case !inTime && strings.Contains("ywd", unit), inTime && strings.Contains("hms", unit):
		default:
			return false
		}
		if !v.unit(n, whole, werr == nil, unit) {
			return false
		}
	}
	return any
}

// isoDate reads the alternative form of ISO 8601, 0001-02-03; was reports that the text has this form.
func (v *intervalSum) isoDate(s string) (ok, was bool, rest string) {
	if s, rest, ok = strings.Cut(s, "t"); ok {
		rest = "t" + rest
	}
	parts := strings.Split(s, "-")
	if len(parts) != 3 || !isDigit(s[len(s)-1]) {
		return false, false, ""
	}
	for i, p := range parts {
		n, err := strconv.ParseInt(p, 10, 32)
		switch {
		case err != nil || p[0] == '+':
			return false, true, ""
		case i == 0:
			v.months += n * 12
		case i == 1:
			v.months += n
		default:
			v.days += n
		}
	}
	return true, true, rest
}

// isoClock reads the time of that form, 04:05:06.
func (v *intervalSum) isoClock(s string) (ok, was bool) {
	if !strings.Contains(s, ":") {
		return false, false
	}
	d, rest := takeDigits(s)
	if rest == "" || rest[0] != ':' {
		return false, true
	}
	micros, tail, ok := intervalClock(d, rest)
	v.micros += micros
	return ok && tail == "", true
}

// words reads the verbose and the SQL standard forms.
func (v *intervalSum) words(s string) bool {
	ago := false
	any := false
	s = strings.TrimPrefix(s, "@")
	sqlNegative := s != "" && s[0] == '-' && !strings.ContainsAny(s, "abcdefghijklmnopqrstuvwxyz")
	for {
		s = strings.TrimLeft(s, " \t\n,")
		if s == "" {
			break
		}
		if ago {
			return false
		}
		if strings.HasPrefix(s, "ago") {
			ago = true
			s = s[3:]
			continue
		}
		neg := false
		signed := false
		if s[0] == '-' || s[0] == '+' {
			neg, signed = s[0] == '-', true
			s = strings.TrimLeft(s[1:], " ")
		}
		if s == "" || !isDigit(s[0]) && s[0] != '.' {
			return false
		}
		if sqlNegative && any && !signed {
			neg = true // SQL standard: a leading sign holds for all fields
		}
		sign := 1.0
		if neg {
			sign = -1
		}
		d, rest := takeDigits(s)
		switch {
		case rest != "" && rest[0] == ':':
			micros, r, ok := intervalClock(d, rest)
			if !ok || !v.once(unitClock) {
				return false
			}
			if neg {
				micros = -micros
			}
			v.micros += micros
			s = r
			any = true
			continue
		case rest != "" && rest[0] == '-' && d != "" && len(rest) > 1 && isDigit(rest[1]):
			// years-months
			m, r := takeDigits(rest[1:])
			y, err1 := strconv.ParseInt(d, 10, 32)
			mm, err2 := strconv.ParseInt(m, 10, 32)
			if mm > 11 && strings.Trim(r, "0123456789-:. ") == "" {
				v.over = true
				return true
			}
			if err1 != nil || err2 != nil || !v.once(unitYear|unitMonth) {
				return false
			}
			total := y*12 + mm
			if neg {
				total = -total
			}
			if r != "" && r[0] != ' ' {
				return false
			}
			v.months += total
			s = r
			any = true
			continue
		}
		num := d
		isFrac := false
		if rest != "" && rest[0] == '.' {
			f, r := takeDigits(rest[1:])
			num, rest, isFrac = d+"."+f, r, true
			if num == "." {
				return false
			}
		}
		n, err := strconv.ParseFloat(num, 64)
		if err != nil {
			return false
		}
		whole, werr := strconv.ParseInt(d, 10, 64)
		if neg {
			whole = -whole
		}
		rest = strings.TrimLeft(rest, " ")
		i := 0
		for i < len(rest) && isAlpha(rest[i]) {
			i++
		}
		unit := rest[:i]
		switch {
		case unit == "" && rest == "":
			unit = "second" // a bare number at the end
		case unit == "":
			// A bare number before a time is days.
			if isDigit(rest[0]) || rest[0] == '-' || rest[0] == '+' {
				unit = "day"
			} else {
				return false
			}
		case unit == "ago":
			unit, i = "second", 0
		}
		units := named(unit)
		if units == unitSecond && isFrac {
			units |= unitMillis | unitMicros
		}
		if !v.once(units) || !v.unit(sign*n, whole, !isFrac && werr == nil, unit) {
			return false
		}
		any = true
		s = rest[i:]
	}
	if ago {
		v.months, v.days, v.micros = -v.months, -v.days, -v.micros
	}
	return any
}

// intervalClock reads hh:mm[:ss[.f]] (or mm:ss.f).
func intervalClock(hh, rest string) (micros int64, tail string, ok bool) {
	h, err := strconv.ParseInt(hh, 10, 64)
	if err != nil || h > math.MaxInt64/HourMicros {
		return 0, "", false
	}
	mm, rest := takeDigits(rest[1:])
	m, err := strconv.ParseInt(mm, 10, 64)
	if err != nil || m > 59 {
		return 0, "", false
	}
	micros = h*HourMicros + m*MinuteMicros
	if rest != "" && rest[0] == '.' {
		// mm:ss.f
		f, r := fraction(rest)
		return h*MinuteMicros + m*SecondMicros + f, r, true
	}
	if rest != "" && rest[0] == ':' {
		var ss string
		ss, rest = takeDigits(rest[1:])
		sec, err := strconv.ParseInt(ss, 10, 64)
		if err != nil || sec > 60 {
			return 0, "", false
		}
		micros += sec * SecondMicros
		if rest != "" && rest[0] == '.' {
			f, r := fraction(rest)
			micros += f
			rest = r
		}
	}
	return micros, rest, true
}
