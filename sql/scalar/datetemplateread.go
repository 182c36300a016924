package scalar

import (
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// templateValue is what to_date and to_timestamp read.
type templateValue struct {
	days, us  int64
	east      int // seconds, if zoned
	zoned     bool
	precision int32 // of the seconds; zero: all digits
}

// templateReader reads a text by a template. A field is zero until it is given.
type templateReader struct {
	s     string
	nodes []templateNode
	// skipped counts blanks passed over beyond those of the template; before is the byte before s.
	skipped int
	before  byte
	fixed   bool // FX
	iso     byte // the convention of dates: g Gregorian, i weeks of ISO 8601, zero none yet

	hour, minute, second, ofDay, milli, micro int64
	clock12                                   bool
	pm, bc                                    int64
	year, yearDigits                          int64
	century, month, day, weekday, yearDay     int64
	week, monthWeek, julian                   int64
	zoneSign, zoneHour, zoneMinute            int64
	precision                                 int32 // of the fraction, if its pattern tells one
}

func (r *templateReader) advance(n int) {
	if n > 0 {
		r.before = r.s[n-1]
		r.s = r.s[n:]
	}
}

func (r *templateReader) advanceChar() {
	if r.s != "" {
		_, n := utf8.DecodeRuneInString(r.s)
		r.advance(n)
	}
}

func (r *templateReader) skipBlanks() {
	n := 0
	for n < len(r.s) && isBlank(r.s[n]) {
		n++
	}
	r.advance(n)
	r.skipped += n
}

func templateError(format string, args ...any) *sqlstate.Error {
	return sqlstate.New(sqlstate.InvalidDatetimeFormat, format, args...)
}

// set gives a field its value, once.
func (r *templateReader) set(to *int64, v int64, n *templateNode) error {
	if *to != 0 && *to != v {
		return templateError("conflicting values for %q field in formatting string", types.Raw(n.name)).
			WithDetail("This value contradicts a previous setting for the same field type.")
	}
	*to = v
	return nil
}

// convention refuses a date whose fields are partly of the Gregorian calendar and partly of weeks of ISO 8601.
func (r *templateReader) convention(n *templateNode) error {
	mode := byte(0)
	switch n.upper {
	case "IDDD", "ID", "IW", "IYYY", "IYY", "IY", "I":
		mode = 'i'
	case "DDD", "DD", "D", "MM", "MON", "MONTH", "RM", "W", "WW", "Y,YYY", "YYYY", "YYY", "YY", "Y":
		mode = 'g'
	}
	if mode != 0 && r.iso != 0 && mode != r.iso {
		return templateError("invalid combination of date conventions").
			WithHint("Do not mix Gregorian and ISO week date conventions in a formatting template.")
	}
	if mode != 0 {
		r.iso = mode
	}
	return nil
}

// isNumber reports whether a pattern begins with a digit in a text.
func (n *templateNode) isNumber() bool {
	switch n.upper {
	case "A.D.", "B.C.", "A.M.", "P.M.", "AD", "BC", "AM", "PM", "DAY", "DY", "MONTH", "MON", "RM", "FX", "OF", "TZ", "TZH",
		"FF1", "FF2", "FF3", "FF4", "FF5", "FF6":
		return false
	}
	return true
}

// endsBefore reports whether the number of node i ends where its digits end: no digit can follow it.
func (r *templateReader) endsBefore(i int) bool {
	if r.nodes[i].ordinal != "" || i+1 == len(r.nodes) {
		return true
	}
	next := &r.nodes[i+1]
	if next.kind == nodePattern {
		return !next.isNumber()
	}
	return !(len(next.char) == 1 && isDigitByte(next.char[0]))
}

// number reads a number of so many characters, or of all digits where no digit can follow; used is how many bytes it took.
func (r *templateReader) number(to *int64, width, i int) (used int, err error) {
	n := &r.nodes[i]
	blanks := 0
	for blanks < len(r.s) && isBlank(r.s[blanks]) {
		blanks++
	}
	rest := r.s[blanks:]
	field := rest[:min(width, len(rest))]
	var v int64
	over := false
	if n.fill || r.endsBefore(i) {
		size := 0
		v, size, over = integerPrefix(rest)
		if used = blanks + size; size == 0 {
			used = 0
		}
		r.advance(used)
	} else {
		const hint = `If your source string is not fixed-width, try using the "FM" modifier.`
		if len(field) < width {
			return 0, templateError("source string too short for %q formatting field", types.Raw(n.name)).
				WithDetail("Field requires %d characters, but only %d remain.", width, len(field)).WithHint(hint)
		}
		size := 0
		v, size, over = integerPrefix(field)
		if size > 0 && size < width {
			return 0, templateError("invalid value %q for %q", types.Raw(field), types.Raw(n.name)).
				WithDetail("Field requires %d characters, but only %d could be parsed.", width, size).WithHint(hint)
		}
		used = blanks + size
		r.advance(used)
	}
	if used == 0 {
		return 0, templateError("invalid value %q for %q", types.Raw(field), types.Raw(n.name)).WithDetail("Value must be an integer.")
	}
	if over || v < math.MinInt32 || v > math.MaxInt32 {
		return 0, sqlstate.New(sqlstate.DatetimeOverflow, "value for %q in source string is out of range", types.Raw(n.name)).
			WithDetail("Value must be in the range %d to %d.", math.MinInt32, math.MaxInt32)
	}
	if to != nil {
		if err := r.set(to, v, n); err != nil {
			return 0, err
		}
	}
	return used, nil
}

// integerPrefix reads the integer at the front of s, of blanks, a sign and digits, as strtol does; size is zero if there is none.
func integerPrefix(s string) (v int64, size int, over bool) {
	i := 0
	for i < len(s) && isBlank(s[i]) {
		i++
	}
	start := i
	if i < len(s) && (s[i] == '-' || s[i] == '+') {
		i++
	}
	from := i
	for i < len(s) && isDigitByte(s[i]) {
		i++
	}
	if i == from {
		return 0, 0, false
	}
	v, err := strconv.ParseInt(s[start:i], 10, 64)
	return v, i, err != nil
}

// word reads one of some words in any case, and returns which.
func (r *templateReader) word(words []string, n *templateNode) (int, error) {
	for i, w := range words {
		if len(r.s) >= len(w) && strings.EqualFold(r.s[:len(w)], w) {
			r.advance(len(w))
			return i, nil
		}
	}
	shown := r.s
	if i := strings.IndexAny(shown, " \t\n\r\f\v"); i >= 0 {
		shown = shown[:i]
	}
	return 0, templateError("invalid value %q for %q", types.Raw(shown), types.Raw(n.name)).
		WithDetail("The given value did not match any of the allowed values for this field.")
}

// read reads the text by the nodes.
func (r *templateReader) read() error {
	for i := 0; i < len(r.nodes) && r.s != ""; i++ {
		n := &r.nodes[i]
		if !r.fixed && (n.kind == nodePattern || i == 0) && n.upper != "FX" {
			r.skipBlanks()
		}
		switch {
		case n.kind == nodeSpace || n.kind == nodeSeparator:
			if r.fixed {
				r.advanceChar()
				continue
			}
			// One of the template goes with one of the text, or with none.
			r.skipped--
			if r.s != "" && (isBlank(r.s[0]) || isSeparator(r.s[0])) {
				r.advance(1)
				r.skipped++
			}
			continue
		case n.kind == nodeChar:
			if !r.fixed && r.skipped > 0 {
				r.skipped-- // the blank was passed over before
			} else {
				r.advanceChar()
			}
			continue
		}
		if err := r.convention(n); err != nil {
			return err
		}
		if err := r.pattern(i); err != nil {
			return err
		}
		if !r.fixed {
			r.skipped = 0
			r.skipBlanks()
		}
	}
	return nil
}

// pattern reads the field of a pattern.
func (r *templateReader) pattern(i int) error {
	n := &r.nodes[i]
	number := func(to *int64, width int) error {
		_, err := r.number(to, width, i)
		return err
	}
	var err error
	switch n.upper {
	case "FX":
		r.fixed = true
		return nil
	case "A.M.", "P.M.", "AM", "PM", "A.D.", "B.C.", "AD", "BC":
		words, to := []string{"am", "pm"}, &r.pm
		if c := n.upper[0]; n.upper[len(n.upper)-1] == 'D' || c == 'B' {
			words, to = []string{"ad", "bc"}, &r.bc
		} else {
			r.clock12 = true
		}
		if len(n.upper) == 4 {
			for i, w := range words {
				words[i] = w[:1] + "." + w[1:] + "."
			}
		}
		which, err := r.word(words, n)
		if err != nil {
			return err
		}
		return r.set(to, int64(which), n)
	case "HH", "HH12":
		r.clock12 = true
		err = number(&r.hour, 2)
	case "HH24":
		err = number(&r.hour, 2)
	case "MI":
		err = number(&r.minute, 2)
	case "SS":
		err = number(&r.second, 2)
	case "SSSS", "SSSSS":
		err = number(&r.ofDay, len(n.upper))
	case "MS":
		err = r.fraction(&r.milli, 3, 3, i)
	case "US":
		err = r.fraction(&r.micro, 6, 6, i)
	case "FF1", "FF2", "FF3", "FF4", "FF5", "FF6":
		r.precision = int32(n.upper[2] - '0')
		err = r.fraction(&r.micro, int(r.precision), 6, i)
	case "TZ", "OF":
		return sqlstate.New(sqlstate.FeatureNotSupported, "formatting field %q is only supported in to_char", types.Raw(n.name))
	case "TZH":
		r.zoneSign = 1
		if c := r.s; c != "" && (c[0] == '+' || c[0] == '-' || c[0] == ' ') {
			if c[0] == '-' {
				r.zoneSign = -1
			}
			r.advance(1)
		} else if r.skipped > 0 && r.before == '-' {
			r.zoneSign = -1 // it was taken for a separator
		}
		return number(&r.zoneHour, 2)
	case "TZM":
		if r.zoneSign == 0 {
			r.zoneSign = 1
		}
		return number(&r.zoneMinute, 2)
	case "MONTH", "MON":
		names := monthNames()
		return r.name(&r.month, names[:], n.upper == "MON", n)
	case "DAY", "DY":
		names := dayNames()
		return r.name(&r.weekday, names[:], n.upper == "DY", n)
	case "RM":
		names := romanMonths()
		which, err := r.word(names[:], n)
		if err != nil {
			return err
		}
		return r.set(&r.month, int64(12-which), n)
	case "MM":
		err = number(&r.month, 2)
	case "DDD":
		err = number(&r.yearDay, 3)
	case "IDDD":
		err = number(&r.yearDay, 3)
	case "DD":
		err = number(&r.day, 2)
	case "D":
		err = number(&r.weekday, 1)
	case "ID":
		if err = number(&r.weekday, 1); err == nil {
			if r.weekday++; r.weekday > 7 {
				r.weekday = 1
			}
		}
	case "WW", "IW":
		err = number(&r.week, 2)
	case "Q":
		err = number(nil, 1) // of no use to find a day
	case "CC":
		err = number(&r.century, 2)
	case "Y,YYY":
		err = r.millennium(n)
	case "YYYY", "IYYY":
		err = number(&r.year, 4)
		r.yearDigits = 4
	case "YYY", "IYY", "YY", "IY", "Y", "I":
		var used int
		if used, err = r.number(&r.year, len(n.upper), i); err == nil && used < 4 {
			r.year = nearYear(r.year)
		}
		r.yearDigits = int64(len(n.upper))
	case "W":
		err = number(&r.monthWeek, 1)
	case "J":
		err = number(&r.julian, 1)
	}
	if err == nil && n.ordinal != "" {
		r.advanceChar()
		r.advanceChar()
	}
	return err
}

// name reads the name of a month or a day, or its first three letters, and counts from one.
func (r *templateReader) name(to *int64, names []string, short bool, n *templateNode) error {
	if short {
		for i := range names {
			names[i] = names[i][:3]
		}
	}
	which, err := r.word(names, n)
	if err != nil {
		return err
	}
	return r.set(to, int64(which+1), n)
}

// fraction reads a fraction of a second of up to width digits, and scales it to so many.
func (r *templateReader) fraction(to *int64, width, digits, i int) error {
	used, err := r.number(to, width, i)
	if err != nil {
		return err
	}
	for ; used < digits; used++ {
		*to *= 10
	}
	return nil
}

// millennium reads Y,YYY.
func (r *templateReader) millennium(n *templateNode) error {
	thousands, size, over := integerPrefix(r.s)
	rest := r.s[size:]
	if size == 0 || over || rest == "" || rest[0] != ',' {
		return templateError("invalid input string for %q", types.Raw("Y,YYY"))
	}
	rest = rest[1:]
	years, more, _ := integerPrefix(rest[:min(3, len(rest))])
	if more == 0 {
		return templateError("invalid input string for %q", types.Raw("Y,YYY"))
	}
	y := thousands*1000 + years
	if y != int64(int32(y)) {
		return sqlstate.New(sqlstate.DatetimeOverflow, "value for %q in source string is out of range", types.Raw("Y,YYY"))
	}
	if err := r.set(&r.year, y, n); err != nil {
		return err
	}
	r.yearDigits = 4
	r.advance(size + 1 + more)
	return nil
}

// nearYear is the year nearest to 2020 with the last digits of y.
func nearYear(y int64) int64 {
	switch {
	case y < 70:
		return y + 2000
	case y < 100:
		return y + 1900
	case y < 520:
		return y + 2000
	case y < 1000:
		return y + 1000
	}
	return y
}

// isoStart is the Monday of the first week of an ISO year.
func isoStart(year int) int64 {
	jan4 := types.DaysFromCivil(year, 1, 4)
	return jan4 - int64(isoDOW(jan4)-1)
}

// calendar finds the day of the fields.
func (r *templateReader) calendar(bad error) (int64, error) {
	var year, month, day int64 = 0, 1, 1
	hasYear, hasMonth, hasDay := false, false, false
	century := r.century
	if r.bc != 0 {
		century = -century
	}
	switch {
	case r.year != 0 && r.century != 0 && r.yearDigits <= 2:
		hasYear = true
		year = r.year % 100
		switch {
		case year != 0 && century >= 0:
			year += (century - 1) * 100
		case year != 0:
			year = (century+1)*100 - year + 1
		case century >= 0:
			year = century * 100
		default:
			year = century*100 + 1
		}
	case r.year != 0:
		hasYear = true
		if year = r.year; r.bc != 0 {
			year = -year
		}
		if year < 0 {
			year++
		}
	case r.century != 0:
		hasYear = true
		if year = century*100 + 1; century >= 0 {
			year -= 100
		}
	}
	whole := func(days int64) {
		y, m, d := types.CivilFromDays(days)
		year, month, day = int64(y), int64(m), int64(d)
		hasYear, hasMonth, hasDay = true, true, true
	}
	if r.julian != 0 {
		whole(r.julian - 2451545)
	}
	yearDay, dayOf := r.yearDay, r.day
	if r.week != 0 {
		if r.iso == 'i' {
			start := isoStart(int(year)) + (r.week-1)*7
			switch {
			case r.weekday > 1:
				start += r.weekday - 2
			case r.weekday != 0:
				start += 6
			}
			whole(start)
		} else {
			yearDay = (r.week-1)*7 + 1
		}
	}
	if r.monthWeek != 0 {
		dayOf = (r.monthWeek-1)*7 + 1
	}
	if dayOf != 0 {
		day, hasDay = dayOf, true
	}
	if r.month != 0 {
		month, hasMonth = r.month, true
	}
	if yearDay != 0 && (month <= 1 || day <= 1) {
		switch {
		case year == 0 && r.bc == 0:
			return 0, templateError("cannot calculate day of year without year information")
		case r.iso == 'i':
			whole(isoStart(int(year)) + yearDay - 1)
		default:
			// The months before the day are counted; a day beyond the year stays in a thirteenth month.
			m, before := int64(1), int64(0)
			for ; m <= 12; m++ {
				n := int64(types.DaysInMonth(int(year), int(m)))
				if yearDay <= before+n {
					break
				}
				before += n
			}
			if month <= 1 {
				month = m
			}
			if day <= 1 {
				day = yearDay - before
			}
			hasMonth, hasDay = true, true
		}
	}
	if hasMonth && (month < 1 || month > 12) || hasDay && (day < 1 || day > 31) ||
		hasYear && hasMonth && hasDay && day > int64(types.DaysInMonth(int(year), int(month))) {
		return 0, bad
	}
	return types.DaysFromCivil(int(year), int(month), int(day)), nil
}

// readByTemplate reads a date and a time by a template.
func readByTemplate(s, format string) (templateValue, error) {
	r := &templateReader{s: s, nodes: parseTemplate(format)}
	var v templateValue
	if err := r.read(); err != nil {
		return v, err
	}
	bad := sqlstate.New(sqlstate.DatetimeOverflow, "date/time field value out of range: %q", types.Raw(s))
	hour, minute, second := r.ofDay/3600, r.ofDay%3600/60, r.ofDay%60
	if r.second != 0 {
		second = r.second
	}
	if r.minute != 0 {
		minute = r.minute
	}
	if r.hour != 0 {
		hour = r.hour
	}
	if r.clock12 {
		switch {
		case hour < 1 || hour > 12:
			return v, templateError("hour \"%d\" is invalid for the 12-hour clock", hour).WithHint("Use the 24-hour clock, or give an hour between 1 and 12.")
		case r.pm != 0 && hour < 12:
			hour += 12
		case r.pm == 0 && hour == 12:
			hour = 0
		}
	}
	var err error
	if v.days, err = r.calendar(bad); err != nil {
		return v, err
	}
	frac := r.milli*1000 + r.micro
	if hour < 0 || hour >= 24 || minute < 0 || minute >= 60 || second < 0 || second >= 60 || frac < 0 || frac >= types.SecondMicros {
		return v, bad
	}
	v.precision = r.precision
	v.us = hour*types.HourMicros + minute*types.MinuteMicros + second*types.SecondMicros + frac
	if r.zoneSign != 0 {
		if r.zoneHour < 0 || r.zoneHour > 15 || r.zoneMinute < 0 || r.zoneMinute >= 60 {
			return v, sqlstate.New("22009", "time zone displacement out of range: %q", types.Raw(s))
		}
		v.zoned, v.east = true, int(r.zoneSign*(r.zoneHour*3600+r.zoneMinute*60))
	}
	return v, nil
}
