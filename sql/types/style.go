package types

import (
	"strconv"
	"strings"
	"time"

	"meridian/sql/sqlstate"
)

// Style tells how a session writes values as text, and which order it expects of a date's numbers: the settings
// TimeZone, DateStyle, IntervalStyle, extra_float_digits and bytea_output. A nil Style is PostgreSQL's default, in UTC.
type Style struct {
	Location *time.Location // nil: UTC
	Date     DateStyle
	Order    DateOrder
	Interval IntervalStyle
	// FewerDigits is set when extra_float_digits is zero or less: floats have 15+Digits or 6+Digits digits then, and else as many
	// as identify them.
	FewerDigits bool
	Digits      int
	// Escape writes bytea by bytea_output = escape.
	Escape bool
	// Names finds objects by name and back, for regclass and its kin; nil knows none.
	Names Names
}

// Names is the catalogue as the text forms of regclass and its kin need it.
type Names interface {
	// ParseReg reads a value of such a type.
	ParseReg(t *T, s string) (Datum, error)
	// RegName is the text of a value of such a type; empty if no object has the OID.
	RegName(kind Kind, oid uint32) string
}

// DateStyle is the layout of dates and timestamps.
type DateStyle uint8

// The layouts of DateStyle.
const (
	DateISO DateStyle = iota
	DateSQL
	DateGerman
	DatePostgres
)

// DateOrder is the order of day, month and year in a date of three short numbers.
type DateOrder uint8

// The orders of DateStyle.
const (
	OrderMDY DateOrder = iota
	OrderDMY
	OrderYMD
)

// IntervalStyle is the layout of intervals.
type IntervalStyle uint8

// The layouts of IntervalStyle.
const (
	IntervalPostgres IntervalStyle = iota
	IntervalVerbose
	IntervalSQL
	IntervalISO
)

func (s *Style) location() *time.Location {
	if s == nil {
		return nil
	}
	return s.Location
}

// plainDates reports whether dates are written in the ISO layout.
func (s *Style) plainDates() bool { return s == nil || s.Date == DateISO }

// appendDay writes the day and the year of a date in a layout other than ISO and that of timestamps in the Postgres layout.
func (s *Style) appendDay(buf []byte, y, m, d int) []byte {
	sep := byte('-')
	switch s.Date {
	case DateSQL:
		sep = '/'
	case DateGerman:
		sep = '.'
	}
	if s.Order == OrderDMY || s.Date == DateGerman {
		m, d = d, m
	}
	buf = append(append2(buf, m), sep)
	buf = append(append2(buf, d), sep)
	return appendYear(buf, y)
}

func (s *Style) appendDate(buf []byte, days int64) []byte {
	if s.plainDates() || IsInfinite(days) {
		return AppendDate(buf, days)
	}
	y, m, d := CivilFromDays(days)
	if y <= 0 {
		return append(s.appendDay(buf, 1-y, m, d), " BC"...)
	}
	return s.appendDay(buf, y, m, d)
}

// appendTimestamp writes a timestamp, with the session's zone if zoned.
func (s *Style) appendTimestamp(buf []byte, micros int64, zoned bool) []byte {
	switch {
	case s.plainDates() || IsInfinite(micros):
		if zoned {
			return AppendTimestampTZ(buf, micros, s.location())
		}
		return AppendTimestamp(buf, micros)
	}
	zone, off := "", 0
	if zoned {
		zone, off = ZoneShown(micros, s.Location)
	}
	days, ofDay := SplitMicros(micros + int64(off)*SecondMicros)
	y, m, d := CivilFromDays(days)
	bc := y <= 0
	if bc {
		y = 1 - y
	}
	if s.Date == DatePostgres {
		weekday := (days%7 + 7 + 6) % 7 // 2000-01-01 was a Saturday
		buf = append(buf, "SunMonTueWedThuFriSat"[3*weekday:][:3]...)
		buf = append(buf, ' ')
		month := "JanFebMarAprMayJunJulAugSepOctNovDec"[3*(m-1):][:3]
		if s.Order == OrderDMY {
			buf = append(append2(buf, d), ' ')
			buf = append(buf, month...)
		} else {
			buf = append(append(buf, month...), ' ')
			buf = append2(buf, d)
		}
		buf = append(buf, ' ')
		buf = appendTimeOfDay(buf, ofDay)
		buf = append(buf, ' ')
		buf = appendYear(buf, y)
	} else {
		buf = append(s.appendDay(buf, y, m, d), ' ')
		buf = appendTimeOfDay(buf, ofDay)
	}
	if zoned {
		buf = append(append(buf, ' '), zone...)
	}
	if bc {
		buf = append(buf, " BC"...)
	}
	return buf
}

// ZoneShown is the abbreviation and the offset of a zone at a time.
func ZoneShown(micros int64, loc *time.Location) (string, int) {
	if loc == nil {
		loc = time.UTC
	}
	name, off := TimeFromMicros(micros).In(loc).Zone()
	if strings.HasPrefix(name, "<") {
		name = name[1:max(strings.IndexByte(name, '>'), 1)]
	}
	return name, off
}

// appendInterval writes an interval in the session's layout.
func (s *Style) appendInterval(buf []byte, months, days int32, micros int64) []byte {
	if s == nil || s.Interval == IntervalPostgres {
		return AppendInterval(buf, months, days, micros)
	}
	f := intervalFields{year: int64(months / 12), month: int64(months % 12), day: int64(days), hour: micros / HourMicros,
		minute: micros / MinuteMicros % 60, second: micros / SecondMicros % 60, micros: micros % SecondMicros}
	switch s.Interval {
	case IntervalSQL:
		return f.appendSQL(buf)
	case IntervalISO:
		return f.appendISO(buf)
	}
	return f.appendVerbose(buf)
}

// intervalFields are an interval's fields, each with its sign.
type intervalFields struct{ year, month, day, hour, minute, second, micros int64 }

func magnitude(n int64) int64 {
	if n < 0 {
		return -n
	}
	return n
}

// appendSeconds writes the seconds without a sign, with two digits at least if padded.
func (f *intervalFields) appendSeconds(buf []byte, padded bool) []byte {
	if s := magnitude(f.second); padded {
		buf = append2(buf, int(s))
	} else {
		buf = strconv.AppendInt(buf, s, 10)
	}
	return appendFraction(buf, magnitude(f.micros))
}

func (f *intervalFields) appendSQL(buf []byte) []byte {
	negative, positive := false, false
	for _, n := range []int64{f.year, f.month, f.day, f.hour, f.minute, f.second, f.micros} {
		negative, positive = negative || n < 0, positive || n > 0
	}
	hasMonths := f.year != 0 || f.month != 0
	hasTime := f.day != 0 || f.hour != 0 || f.minute != 0 || f.second != 0 || f.micros != 0
	sign := func(n ...int64) byte {
		for _, x := range n {
			if x < 0 {
				return '-'
			}
		}
		return '+'
	}
	number := func(n int64) { buf = strconv.AppendInt(buf, magnitude(n), 10) }
	clock := func() {
		number(f.hour)
		buf = append(buf, ':')
		buf = append(append2(buf, int(magnitude(f.minute))), ':')
		buf = f.appendSeconds(buf, true)
	}
	switch {
	case !negative && !positive:
		return append(buf, '0')
	case negative && positive || hasMonths && hasTime:
		// The standard has no such interval: each part gets its own sign.
		buf = append(buf, sign(f.year, f.month))
		number(f.year)
		buf = append(buf, '-')
		number(f.month)
		buf = append(buf, ' ', sign(f.day))
		number(f.day)
		buf = append(buf, ' ', sign(f.hour, f.minute, f.second, f.micros))
		clock()
		return buf
	}
	if negative {
		buf = append(buf, '-')
	}
	switch {
	case hasMonths:
		number(f.year)
		buf = append(buf, '-')
		number(f.month)
	case f.day != 0:
		number(f.day)
		buf = append(buf, ' ')
		clock()
	default:
		clock()
	}
	return buf
}

func (f *intervalFields) appendISO(buf []byte) []byte {
	if *f == (intervalFields{}) {
		return append(buf, "PT0S"...)
	}
	field := func(n int64, unit byte) {
		if n != 0 {
			buf = append(strconv.AppendInt(buf, n, 10), unit)
		}
	}
	buf = append(buf, 'P')
	field(f.year, 'Y')
	field(f.month, 'M')
	field(f.day, 'D')
	if f.hour != 0 || f.minute != 0 || f.second != 0 || f.micros != 0 {
		buf = append(buf, 'T')
	}
	field(f.hour, 'H')
	field(f.minute, 'M')
	if f.second != 0 || f.micros != 0 {
		if f.second < 0 || f.micros < 0 {
			buf = append(buf, '-')
		}
		buf = append(f.appendSeconds(buf, false), 'S')
	}
	return buf
}

func (f *intervalFields) appendVerbose(buf []byte) []byte {
	zero, before := true, false
	buf = append(buf, '@')
	field := func(n int64, unit string) {
		if n == 0 {
			return
		}
		if zero {
			zero, before, n = false, n < 0, magnitude(n)
		} else if before {
			n = -n
		}
		buf = strconv.AppendInt(append(buf, ' '), n, 10)
		buf = append(append(buf, ' '), unit...)
		if n != 1 {
			buf = append(buf, 's')
		}
	}
	field(f.year, "year")
	field(f.month, "mon")
	field(f.day, "day")
	field(f.hour, "hour")
	field(f.minute, "min")
	if f.second != 0 || f.micros != 0 {
		buf = append(buf, ' ')
		switch negative := f.second < 0 || f.micros < 0; {
		case negative && zero:
			before = true
		case negative != before:
			buf = append(buf, '-')
		}
		zero = false
		buf = append(f.appendSeconds(buf, false), " sec"...)
		if magnitude(f.second) != 1 || f.micros != 0 {
			buf = append(buf, 's')
		}
	}
	if zero {
		buf = append(buf, " 0"...)
	}
	if before {
		buf = append(buf, " ago"...)
	}
	return buf
}

// appendFloat writes a float with the session's number of digits.
func (s *Style) appendFloat(buf []byte, f float64, single bool) []byte {
	if s == nil || !s.FewerDigits || f == 0 || f-f != 0 { // zero, infinities and NaN have no digits
		return AppendFloat(buf, f, single)
	}
	digits, size := 15+s.Digits, 64
	if single {
		digits, size = 6+s.Digits, 32
	}
	return strconv.AppendFloat(buf, f, 'g', max(digits, 1), size)
}

// appendEscaped writes bytea in the escape format.
func appendEscaped(buf []byte, v string) []byte {
	for i := 0; i < len(v); i++ {
		switch c := v[i]; {
		case c == '\\':
			buf = append(buf, '\\', '\\')
		case c < ' ' || c > '~':
			buf = append(buf, '\\', '0'+c>>6, '0'+c>>3&7, '0'+c&7)
		default:
			buf = append(buf, c)
		}
	}
	return buf
}

// ParseDateStyle reads a value of the setting DateStyle; parts that the value does not give stay as in the present one. It
// returns the setting as PostgreSQL shows it.
func ParseDateStyle(value string, now Style) (Style, string, error) {
	bad := func(detail string, args ...any) (Style, string, error) {
		return now, "", sqlstate.New(sqlstate.InvalidParameterValue, `invalid value for parameter "DateStyle": "%s"`, value).WithDetail(detail, args...)
	}
	hasStyle, hasOrder, conflict := false, false, false
	style := func(s DateStyle) {
		conflict = conflict || hasStyle && now.Date != s
		now.Date, hasStyle = s, true
	}
	order := func(o DateOrder) {
		conflict = conflict || hasOrder && now.Order != o
		now.Order, hasOrder = o, true
	}
	for word := range strings.SplitSeq(value, ",") {
		word = strings.Trim(trimSpace(word), `"`)
		switch low := strings.ToLower(word); {
		case low == "iso":
			style(DateISO)
		case low == "sql":
			style(DateSQL)
		case strings.HasPrefix(low, "postgres"):
			style(DatePostgres)
		case low == "german":
			style(DateGerman)
			if !hasOrder {
				now.Order = OrderDMY
			}
		case low == "ymd":
			order(OrderYMD)
		case low == "dmy", strings.HasPrefix(low, "euro"):
			order(OrderDMY)
		case low == "mdy", low == "us", strings.HasPrefix(low, "noneuro"):
			order(OrderMDY)
		case low == "default":
			if !hasStyle {
				now.Date = DateISO
			}
			if !hasOrder {
				now.Order = OrderMDY
			}
		case low == "" && trimSpace(value) == "":
		default:
			return bad(`Unrecognized key word: "%s".`, word)
		}
	}
	if conflict {
		return bad(`Conflicting "datestyle" specifications.`)
	}
	return now, [...]string{"ISO", "SQL", "German", "Postgres"}[now.Date] + ", " + [...]string{"MDY", "DMY", "YMD"}[now.Order], nil
}
