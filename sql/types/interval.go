package types

import (
	"math"
	"strconv"

	"meridian/sql/sqlstate"
)

// intervalSum gathers the fields of an interval's text. Each is within its type: a sum beyond it is a fault.
type intervalSum struct {
	years, months, days int32
	micros              int64
	given               uint // units, each of which may come once
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
	unitAgo
	unitNothing // @
	unitOther   // a unit of extract that is none of an interval's text
	unitSeconds = unitMicros | unitMillis | unitSecond
	unitClock   = unitSeconds | unitMinute | unitHour
)

// named is the unit of a name, of which ten letters count; zero if there is none.
func named(unit string) uint {
	switch unit[:min(len(unit), 10)] {
	case "us", "usec", "usecs", "usecond", "useconds", "microsecon":
		return unitMicros
	case "ms", "msec", "msecs", "msecond", "mseconds", "millisecon":
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
	case "mon", "mons", "month", "months":
		return unitMonth
	case "y", "yr", "yrs", "year", "years":
		return unitYear
	case "dec", "decs", "decade", "decades":
		return unitDecade
	case "c", "cent", "century", "centuries":
		return unitCentury
	case "mil", "mils", "millennium", "millennia":
		return unitMillennium
	case "ago":
		return unitAgo
	case "@":
		return unitNothing
	case "qtr", "quarter", "timezone", "timezone_h", "timezone_m":
		return unitOther
	}
	return 0
}

func addTo32(to *int32, n int64) bool {
	s := int64(*to) + n
	if n != int64(int32(n)) || s != int64(int32(s)) {
		return false
	}
	*to = int32(s)
	return true
}

func addTo64(to *int64, n int64) bool {
	s := *to + n
	if (s > *to) != (n > 0) && n != 0 {
		return false
	}
	*to = s
	return true
}

func times64(a, b int64) (int64, bool) {
	if a == 0 || b == 0 {
		return 0, true
	}
	p := a * b
	return p, p/b == a && !(a == -1 && b == math.MinInt64) && !(b == -1 && a == math.MinInt64)
}

// addClock adds n and a fraction of a unit of time.
func (v *intervalSum) addClock(n int64, frac float64, unit int64) bool {
	p, ok := times64(n, unit)
	return ok && addTo64(&v.micros, p) && v.addPart(frac, unit)
}

// addPart adds a fraction of a unit, rounded to microseconds.
func (v *intervalSum) addPart(frac float64, unit int64) bool {
	if frac == 0 {
		return true
	}
	frac *= float64(unit)
	whole := int64(frac)
	switch frac -= float64(whole); {
	case frac > 0.5:
		whole++
	case frac < -0.5:
		whole--
	}
	return addTo64(&v.micros, whole)
}

func (v *intervalSum) addDays(n int64, frac float64, unit int64) bool {
	if n != int64(int32(n)) || !addTo32(&v.days, n*unit) {
		return false
	}
	return v.addDayParts(frac, unit)
}

// addDayParts adds a fraction of so many days: whole days, and the rest as time.
func (v *intervalSum) addDayParts(frac float64, unit int64) bool {
	frac *= float64(unit)
	whole := int64(frac)
	return addTo32(&v.days, whole) && v.addPart(frac-float64(whole), DayMicros)
}

// addMonths adds months, a fraction of which becomes days.
func (v *intervalSum) addMonths(n int64, frac float64) bool {
	return n == int64(int32(n)) && addTo32(&v.months, n) && v.addDayParts(frac, 30)
}

// addYears keeps a fraction of a year to whole months.
func (v *intervalSum) addYears(n int64, frac float64, unit int64) bool {
	return n == int64(int32(n)) && addTo32(&v.years, n*unit) && addTo32(&v.months, int64(math.RoundToEven(frac*float64(unit)*12)))
}

// add adds n and a fraction of a unit, and tells the units that are given with it.
func (v *intervalSum) add(unit uint, n int64, frac float64) (given uint, f stampFault) {
	ok := false
	given = unit
	switch unit {
	case unitMicros:
		ok = v.addClock(n, frac, 1)
	case unitMillis:
		ok = v.addClock(n, frac, 1000)
	case unitSecond:
		ok = v.addClock(n, frac, SecondMicros)
		if frac != 0 {
			given = unitSeconds
		}
	case unitMinute:
		ok = v.addClock(n, frac, MinuteMicros)
	case unitHour:
		ok = v.addClock(n, frac, HourMicros)
	case unitDay:
		ok = v.addDays(n, frac, 1)
	case unitWeek:
		ok = v.addDays(n, frac, 7)
	case unitMonth:
		ok = v.addMonths(n, frac)
	case unitYear:
		ok = v.addYears(n, frac, 1)
	case unitDecade:
		ok = v.addYears(n, frac, 10)
	case unitCentury:
		ok = v.addYears(n, frac, 100)
	case unitMillennium:
		ok = v.addYears(n, frac, 1000)
	default:
		return 0, faultSyntax
	}
	if !ok {
		return 0, faultRange
	}
	return given, faultNone
}

// parseInterval reads an interval of all fields, in PostgreSQL's style.
func parseInterval(text string) (Datum, error) { return parseIntervalOf(IntervalType, text, Env{}) }

// parseIntervalOf reads an interval; the type's fields say what a bare number counts.
func parseIntervalOf(t *T, text string, env Env) (Datum, error) {
	tokens, ok := lexStamp(text, maxIntervalBytes)
	var v intervalSum
	f := faultSyntax
	if ok {
		mask, _ := t.intervalRange()
		f = v.words(tokens, mask, env)
	}
	if f == faultSyntax {
		v = intervalSum{}
		f = v.iso(text)
	}
	switch f {
	case faultNone:
	case faultSyntax:
		return Null, sqlstate.New(sqlstate.InvalidDatetimeFormat, "invalid input syntax for type interval: %q", Raw(text))
	default:
		return Null, sqlstate.New("22015", "interval field value out of range: %q", Raw(text))
	}
	months := int64(v.years)*12 + int64(v.months)
	if months != int64(int32(months)) {
		return Null, sqlstate.New(sqlstate.DatetimeOverflow, "interval out of range")
	}
	return NewInterval(int32(months), v.days, v.micros), nil
}

// words reads the verbose and the SQL standard's forms, from the last token to the first: a unit comes before its number then.
func (v *intervalSum) words(tokens []token, mask int, env Env) stampFault {
	// In the SQL standard's style a sign at the front is that of all fields, if there is no other.
	allNegative := false
	if len(tokens) > 0 && tokens[0].text[0] == '-' {
		signs, numbers := 0, 0
		for _, t := range tokens[1:] {
			signs += choose(t.text[0] == '-' || t.text[0] == '+', 1, 0)
			numbers += choose(t.kind == tokenNumber || t.kind == tokenDate || t.kind == tokenClock, 1, 0)
		}
		if numbers > 0 && signs == 0 && env.used != nil {
			*env.used = true
		}
		allNegative = signs == 0 && env.Style != nil && env.Style.Interval == IntervalSQL
	}
	unit, ago := uint(0), false
	for i := len(tokens) - 1; i >= 0; i-- {
		t := tokens[i]
		var given uint
		f := faultNone
		switch t.kind {
		case tokenClock:
			given, f = unitClock, v.clock(t.text, mask)
			if allNegative && v.micros > 0 {
				v.micros = -v.micros
			}
			unit = unitDay
		case tokenZone:
			if span(t.text, func(c byte) bool { return c != ':' }) < len(t.text) {
				if f = v.clock(t.text[1:], mask); f == faultNone {
					if t.text[0] == '-' {
						v.micros = -v.micros
					}
					given, unit = unitClock, unitDay
					break
				}
			}
			given, unit, f = v.number(t.text, unit, mask, allNegative)
		case tokenDate, tokenNumber:
			given, unit, f = v.number(t.text, unit, mask, allNegative)
		default:
			switch u := named(t.text); u {
			case unitNothing:
				continue
			case 0:
				return faultSyntax
			case unitAgo:
				ago, unit = true, unitAgo
			default:
				unit = u
			}
		}
		if f != faultNone {
			return f
		}
		if v.given&given != 0 {
			return faultSyntax
		}
		v.given |= given
	}
	if v.given == 0 {
		return faultSyntax
	}
	if ago {
		if v.micros == math.MinInt64 || v.days == math.MinInt32 || v.months == math.MinInt32 || v.years == math.MinInt32 {
			return faultRange
		}
		v.years, v.months, v.days, v.micros = -v.years, -v.months, -v.days, -v.micros
	}
	return faultNone
}

// lastUnit is the least unit of an interval's fields, which a bare number counts.
func lastUnit(mask int) uint {
	switch {
	case mask == intervalAll, mask&intervalSecond != 0:
		return unitSecond
	case mask&intervalMinute != 0:
		return unitMinute
	case mask&intervalHour != 0:
		return unitHour
	case mask&intervalDay != 0:
		return unitDay
	case mask&intervalMonth != 0:
		return unitMonth
	}
	return unitYear
}

// number reads a number, or years and months, of a unit, if it is known; it returns what is given, and the unit for the number before.
func (v *intervalSum) number(s string, unit uint, mask int, negative bool) (given, before uint, f stampFault) {
	if unit == 0 {
		unit = lastUnit(mask)
	}
	n, rest, over := wholeNumber64(s)
	if over {
		return 0, 0, faultRange
	}
	frac := 0.0
	switch {
	case rest == "":
	case rest[0] == '-':
		m, after, over := wholeNumber(rest[1:])
		if over || m < 0 || m >= 12 {
			return 0, 0, faultRange
		}
		if after != "" {
			return 0, 0, faultSyntax
		}
		unit = unitMonth
		if s[0] == '-' {
			m = -m
		}
		ok := true
		if n, ok = times64(n, 12); !ok || !addTo64(&n, m) {
			return 0, 0, faultRange
		}
	case rest[0] == '.':
		if rest != "." {
			var err error
			if span(rest[1:], isDigit) != len(rest)-1 {
				return 0, 0, faultSyntax
			}
			if frac, err = strconv.ParseFloat("0"+rest, 64); err != nil {
				return 0, 0, faultSyntax
			}
		}
		if s[0] == '-' {
			frac = -frac
		}
	default:
		return 0, 0, faultSyntax
	}
	if negative {
		n, frac = -max(n, -n), -math.Abs(frac)
	}
	given, f = v.add(unit, n, frac)
	if unit == unitHour {
		unit = unitDay // before hours
	}
	return given, unit, f
}

// clock adds hh:mm[:ss[.f]], or mm:ss.f.
func (v *intervalSum) clock(s string, mask int) stampFault {
	h, m, sec, frac, f := readClock(s, mask == intervalMinute|intervalSecond)
	if f != faultNone {
		return f
	}
	p, ok := times64(h, HourMicros)
	if !ok || !addTo64(&p, m*MinuteMicros+sec*SecondMicros) || !addTo64(&p, frac) {
		return faultRange
	}
	v.micros = p
	return faultNone
}

// iso reads a duration of ISO 8601: P1Y2M3DT4H5M6S, P0001-02-03T04:05:06 or P00010203T040506.
func (v *intervalSum) iso(s string) stampFault {
	if len(s) < 2 || s[0] != 'P' {
		return faultSyntax
	}
	s = s[1:]
	ofDate, any := true, false
	// number takes a number from the front, and the letter after it, zero at the end.
	digits := 0
	number := func() (n int64, frac float64, unit byte, f stampFault) {
		if s == "" || !isDigit(s[0]) && s[0] != '-' && s[0] != '.' {
			return 0, 0, 0, faultSyntax
		}
		size := floatPrefix(s)
		x, err := strconv.ParseFloat(s[:size], 64)
		if size == 0 || err != nil && x == 0 {
			return 0, 0, 0, faultSyntax
		}
		if math.IsNaN(x) || x < -1e15 || x > 1e15 {
			return 0, 0, 0, faultRange
		}
		digits = span(s[choose(s[0] == '-', 1, 0):], isDigit)
		s = s[size:]
		whole := math.Trunc(x)
		if s != "" {
			unit = s[0]
			s = s[1:]
		}
		return int64(whole), x - whole, unit, faultNone
	}
	ok := true
	for s != "" {
		if s[0] == 'T' {
			s = s[1:]
			ofDate, any = false, false
			continue
		}
		n, frac, unit, f := number()
		if f != faultNone {
			return f
		}
		switch {
		case ofDate && unit == 'Y':
			ok = v.addYears(n, frac, 1)
		case ofDate && unit == 'M':
			ok = v.addMonths(n, frac)
		case ofDate && unit == 'W':
			ok = v.addDays(n, frac, 7)
		case ofDate && unit == 'D':
			ok = v.addDays(n, frac, 1)
		case ofDate && (unit == 'T' || unit == 0) && digits == 8 && !any:
			if !v.addYears(n/10000, 0, 1) || !v.addMonths(n/100%100, 0) || !v.addDays(n%100, frac, 1) {
				return faultRange
			}
			ofDate = false
			continue
		case ofDate && (unit == '-' || unit == 'T' || unit == 0):
			if any {
				return faultSyntax
			}
			adds := []func(int64, float64) bool{
				func(n int64, frac float64) bool { return v.addYears(n, frac, 1) },
				v.addMonths,
				func(n int64, frac float64) bool { return v.addDays(n, frac, 1) },
			}
			for i, add := range adds {
				if i > 0 {
					if unit != '-' {
						return faultSyntax
					}
					if n, frac, unit, f = number(); f != faultNone {
						return f
					}
				}
				if !add(n, frac) {
					return faultRange
				}
				if unit == 0 || unit == 'T' {
					break
				}
			}
			if unit != 0 && unit != 'T' {
				return faultSyntax
			}
			ofDate = false
			continue
		case !ofDate && unit == 'H':
			ok = v.addClock(n, frac, HourMicros)
		case !ofDate && unit == 'M':
			ok = v.addClock(n, frac, MinuteMicros)
		case !ofDate && unit == 'S':
			ok = v.addClock(n, frac, SecondMicros)
		case !ofDate && unit == 0 && digits == 6 && !any:
			if !v.addClock(n/10000, 0, HourMicros) || !v.addClock(n/100%100, 0, MinuteMicros) || !v.addClock(n%100, frac, SecondMicros) {
				return faultRange
			}
			return faultNone
		case !ofDate && (unit == ':' || unit == 0):
			if any {
				return faultSyntax
			}
			for i, size := range []int64{HourMicros, MinuteMicros, SecondMicros} {
				if i > 0 {
					if unit != ':' {
						return faultSyntax
					}
					if n, frac, unit, f = number(); f != faultNone {
						return f
					}
				}
				if !v.addClock(n, frac, size) {
					return faultRange
				}
				if unit == 0 {
					return faultNone
				}
			}
			return faultSyntax
		default:
			return faultSyntax
		}
		if !ok {
			return faultRange
		}
		any = true
	}
	return faultNone
}

// floatPrefix is the length of the decimal number at the front of s, as strtod reads it.
func floatPrefix(s string) int {
	i := 0
	if s[0] == '-' {
		i++
	}
	n := span(s[i:], isDigit)
	i += n
	if i < len(s) && s[i] == '.' {
		d := span(s[i+1:], isDigit)
		if n += d; n == 0 {
			return 0
		}
		i += 1 + d
	}
	if n == 0 {
		return 0
	}
	if i < len(s) && (s[i] == 'e' || s[i] == 'E') {
		j := i + 1
		if j < len(s) && (s[j] == '-' || s[j] == '+') {
			j++
		}
		if d := span(s[min(j, len(s)):], isDigit); d > 0 {
			i = j + d
		}
	}
	return i
}
