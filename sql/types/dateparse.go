package types

import (
	"math"
	"strconv"
	"strings"

	"meridian/sql/sqlstate"
)

// wordKind is what a word in the text of a date or time says.
type wordKind byte

const (
	wordUnknown wordKind = iota
	wordSpecial          // now, today, epoch and so on
	wordMonth
	wordWeekday
	wordSummer // dst, which puts the clock of a zone forward
	wordIgnored
	wordHalf // am, pm
	wordEra  // ad, bc
	wordUnit // y, m, d and so on, before a number
	wordTime // t, before a time
)

// dateWord is a word; value is the number of a month, the unit as a letter, 1 for pm and bc.
type dateWord struct {
	kind  wordKind
	value int
}

// lookupDateWord knows the words in small letters, other than abbreviations of zones.
func lookupDateWord(w string) dateWord {
	switch w {
	case "now", "today", "tomorrow", "yesterday", "epoch", "infinity", "-infinity", "allballs":
		return dateWord{kind: wordSpecial}
	case "am", "ad":
		return dateWord{kind: choose(w == "am", wordHalf, wordEra)}
	case "pm", "bc":
		return dateWord{kind: choose(w == "pm", wordHalf, wordEra), value: 1}
	case "at", "on":
		return dateWord{kind: wordIgnored}
	case "dst":
		return dateWord{kind: wordSummer}
	case "t":
		return dateWord{kind: wordTime, value: 't'}
	case "y", "m", "d", "h", "s", "j":
		return dateWord{kind: wordUnit, value: int(w[0])}
	case "mm":
		return dateWord{kind: wordUnit, value: 'i'}
	case "jd", "julian":
		return dateWord{kind: wordUnit, value: 'j'}
	case "isoyear", "dow", "doy", "isodow":
		return dateWord{kind: wordUnit, value: 'x'} // of no use in a date
	case "sun", "sunday", "mon", "monday", "tue", "tues", "tuesday", "wed", "weds", "wednesday", "thu", "thur", "thurs",
		"thursday", "fri", "friday", "sat", "saturday":
		return dateWord{kind: wordWeekday}
	}
	if m := monthByName(w); m > 0 {
		return dateWord{kind: wordMonth, value: m}
	}
	return dateWord{}
}

func choose[T any](first bool, a, b T) T {
	if first {
		return a
	}
	return b
}

func monthByName(w string) int {
	names := [...]string{"january", "february", "march", "april", "may", "june", "july", "august", "september",
		"october", "november", "december"}
	if w == "sept" {
		return 9
	}
	if len(w) < 3 {
		return 0
	}
	for i, n := range names {
		if w == n || w == n[:3] {
			return i + 1
		}
	}
	return 0
}

// The fields that a text has given, each of which may come once.
const (
	gaveYear = 1 << iota
	gaveMonth
	gaveDay
	gaveHour
	gaveMinute
	gaveSecond
	gaveZone
	gaveSummer
	gaveYearDay
	gaveSpecial
	gaveHalf
	gaveEra
	gaveWeekday
	gaveMoving // a zone by an abbreviation whose offset depends on the time
	gaveDate   = gaveYear | gaveMonth | gaveDay
	gaveClock  = gaveHour | gaveMinute | gaveSecond
)

// stamp has the fields of the text of a date or time.
type stamp struct {
	special          string // now, today, tomorrow, yesterday, epoch, infinity, -infinity
	given            uint
	year, month, day int64
	hour, minute     int64
	second, frac     int64 // frac in microseconds
	zone             Zone
	yearDay          int64
}

func (o *stamp) has(fields uint) bool { return o.given&fields == fields }

// days is the date as days since 2000.
func (o *stamp) days() int64 { return DaysFromCivil(int(o.year), int(o.month), int(o.day)) }

// micros is the time as microseconds from midnight.
func (o *stamp) micros() int64 {
	return o.hour*HourMicros + o.minute*MinuteMicros + o.second*SecondMicros + o.frac
}

// stampFault is a reason why a text is no date or time.
type stampFault byte

const (
	faultNone   stampFault = iota
	faultSyntax            // invalid input syntax
	faultRange             // a field out of range
	faultOrder             // a month or day out of range: the order of DateStyle may be another
	faultOffset            // an offset of a zone out of range
)

// err is the error for a fault, in PostgreSQL's words.
func (f stampFault) err(t *T, text string) error {
	switch f {
	case faultNone:
		return nil
	case faultRange:
		return sqlstate.New(sqlstate.DatetimeOverflow, "date/time field value out of range: %q", Raw(text))
	case faultOrder:
		return sqlstate.New(sqlstate.DatetimeOverflow, "date/time field value out of range: %q", Raw(text)).
			WithHint(`Perhaps you need a different "datestyle" setting.`)
	case faultOffset:
		return sqlstate.New("22009", "time zone displacement out of range: %q", Raw(text))
	}
	return sqlstate.New(sqlstate.InvalidDatetimeFormat, "invalid input syntax for type %s: %q", stampName(t), Raw(text))
}

// stampName is the name of a type in messages about bad input.
func stampName(t *T) string {
	switch t.Kind {
	case KindTime:
		return "time"
	case KindTimeTZ:
		return "time with time zone"
	case KindTimestamp:
		return "timestamp"
	}
	return t.Name()
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }
func isAlpha(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

func takeDigits(s string) (digits, rest string) {
	i := span(s, isDigit)
	return s[:i], s[i:]
}

// stampReader gives meaning to tokens, from the first to the last.
type stampReader struct {
	env       Env
	timeOnly  bool // of the types time and timetz, which have a date only in certain places
	tokens    []token
	out       stamp
	unit      int  // of the next number, if not zero: y2001m02d04
	textMonth bool // the month is a word
	short     bool // the year has two digits or fewer
	julian    bool
	pm, bc    bool
	err       error // in place of a fault
}

// parseStamp reads any text form of a date, a time or both.
func parseStamp(t *T, text string, env Env) (stamp, error) {
	tokens, ok := lexStamp(text, maxStampBytes)
	if !ok {
		return stamp{}, faultSyntax.err(t, text)
	}
	r := &stampReader{env: env, tokens: tokens, timeOnly: t.Kind == KindTime || t.Kind == KindTimeTZ}
	f := r.read()
	if r.err != nil {
		return stamp{}, r.err
	}
	return r.out, f.err(t, text)
}

// dateFields are the fields of a date that the reader takes as given: a time stands in for the date of the types of times.
func (r *stampReader) dateFields() uint {
	if r.timeOnly {
		return r.out.given | gaveDate
	}
	return r.out.given
}

func (r *stampReader) read() stampFault {
	for i, t := range r.tokens {
		var got uint
		var f stampFault
		switch t.kind {
		case tokenDate:
			got, f = r.date(i, t.text)
		case tokenClock:
			if r.unit != 0 && r.unit != 't' && !r.timeOnly {
				return faultSyntax
			}
			r.unit = 0
			if got, f = r.clock(t.text); f == faultNone && !r.timeOnly && r.overflows() {
				f = faultRange
			}
		case tokenZone:
			got, f = gaveZone, r.offset(t.text)
		case tokenNumber:
			if r.unit != 0 {
				got, f = r.labelled(t.text)
			} else {
				got, f = r.number(i, t.text)
			}
		default:
			got, f = r.word(i, t.text)
		}
		if f != faultNone {
			return f
		}
		if got&r.out.given != 0 {
			return faultSyntax
		}
		r.out.given |= got
	}
	return r.finish()
}

// date is a token with separators: a date, or after one the name of a zone or a time with an offset.
func (r *stampReader) date(i int, s string) (uint, stampFault) {
	o := &r.out
	if r.unit == 'j' && !r.timeOnly {
		// A day's number with an offset.
		n, rest, over := wholeNumber(s)
		if over || n < 0 {
			return 0, faultRange
		}
		r.setJulian(n)
		r.unit = 0
		return gaveDate | gaveClock | gaveZone, r.offset(rest)
	}
	if r.timeOnly {
		last := r.tokens[len(r.tokens)-1].kind
		if i == 0 && len(r.tokens) >= 2 && (last == tokenDate || r.tokens[1].kind == tokenClock) {
			return r.civil(s)
		}
	} else if !o.has(gaveMonth|gaveDay) && r.unit == 0 {
		return r.civil(s)
	}
	if !isDigit(s[0]) && (r.unit == 0 || r.timeOnly) {
		z, ok := databaseZone(s)
		if !ok {
			r.err = sqlstate.New(sqlstate.InvalidParameterValue, "time zone %q not recognized", Raw(s))
			return 0, faultSyntax
		}
		o.zone = z
		return gaveZone, faultNone
	}
	if !r.timeOnly && r.unit != 0 {
		if r.unit != 't' {
			return 0, faultSyntax
		}
		r.unit = 0
	}
	at := strings.IndexByte(s, '-')
	if o.has(gaveClock) || at < 0 {
		return 0, faultSyntax
	}
	if f := r.offset(s[at:]); f != faultNone {
		return 0, f
	}
	got, f := r.together(s[:at], r.dateFields())
	return got | gaveZone, f
}

// civil is a date: numbers and perhaps a month's name, with separators.
func (r *stampReader) civil(s string) (uint, stampFault) {
	var parts []string
	for s != "" {
		if s = s[span(s, func(c byte) bool { return !isAlnum(c) }):]; s == "" {
			return 0, faultSyntax
		}
		n := span(s, isDigit)
		if n == 0 {
			n = span(s, isAlpha)
		}
		parts = append(parts, s[:n])
		if s = s[n:]; s != "" {
			s = s[1:] // a separator; or what stands in place of one
		}
	}
	given := r.out.given
	var all uint
	add := func(got uint) bool {
		if given&got != 0 {
			return false
		}
		given, all = given|got, all|got
		return true
	}
	month := false
	for i, p := range parts {
		if !isAlpha(p[0]) {
			continue
		}
		w := lookupDateWord(p)
		if w.kind == wordIgnored {
			continue
		}
		if w.kind != wordMonth || !add(gaveMonth) {
			return 0, faultSyntax
		}
		r.out.month, month, parts[i] = int64(w.value), true, ""
	}
	for _, p := range parts {
		if p == "" {
			continue
		}
		got, f := r.part(p, month, given)
		if f != faultNone {
			return 0, f
		}
		if !add(got) {
			return 0, faultSyntax
		}
	}
	if given&^(gaveYearDay|gaveZone) != gaveDate {
		return 0, faultSyntax
	}
	return all, faultNone
}

// part is a number whose meaning depends on what was given before it.
func (r *stampReader) part(s string, month bool, given uint) (got uint, f stampFault) {
	o := &r.out
	n, rest, over := wholeNumber(s)
	switch {
	case over:
		return 0, faultRange
	case len(rest) == len(s):
		return 0, faultSyntax
	case rest != "" && rest[0] == '.':
		if len(s)-len(rest) > 2 {
			return r.together(s, given|gaveDate)
		}
		if o.frac, f = seconds(rest); f != faultNone {
			return 0, f
		}
	case rest != "":
		return 0, faultSyntax
	}
	digits := len(s)
	if digits == 3 && given&gaveDate == gaveYear && n >= 1 && n <= 366 {
		o.yearDay = n
		return gaveYearDay | gaveMonth | gaveDay, faultNone
	}
	switch given & gaveDate {
	case 0:
		got = gaveMonth
		if digits >= 3 {
			got = gaveYear
			break
		}
		switch r.env.order() {
		case OrderYMD:
			got = gaveYear
		case OrderDMY:
			got = gaveDay
		}
	case gaveYear, gaveDay:
		got = gaveMonth
	case gaveMonth:
		got = gaveDay
		if month && (digits >= 3 || r.env.order() == OrderYMD) {
			got = gaveYear
		}
	case gaveYear | gaveMonth:
		got = gaveDay
		if month && digits >= 3 && r.short {
			// The first number was the day, and this is the year.
			o.day, o.year, r.short = o.year, n, false
			return gaveDay, faultNone
		}
	case gaveMonth | gaveDay:
		got = gaveYear
	case gaveDate:
		return r.together(s, given)
	default:
		return 0, faultSyntax
	}
	switch got {
	case gaveYear:
		o.year, r.short = n, digits <= 2
	case gaveMonth:
		o.month = n
	case gaveDay:
		o.day = n
	}
	return got, faultNone
}

// together is a date or a time without separators: 20010203, 040506.789.
func (r *stampReader) together(s string, given uint) (uint, stampFault) {
	o := &r.out
	two := func(from int) int64 {
		n, _, _ := wholeNumber(s[from : from+2])
		return n
	}
	if i := strings.IndexByte(s, '.'); i >= 0 {
		f := faultNone
		if o.frac, f = seconds(s[i:]); f != faultNone {
			return 0, f
		}
		s = s[:i]
	} else if given&gaveDate != gaveDate && len(s) >= 6 {
		n := len(s) - 4
		year, _, over := wholeNumber(s[:n])
		if over {
			return 0, faultRange
		}
		o.year, o.month, o.day = year, two(n), two(n+2)
		r.short = r.short || n == 2
		return gaveDate, faultNone
	}
	if given&gaveClock != gaveClock {
		switch len(s) {
		case 6:
			o.hour, o.minute, o.second = two(0), two(2), two(4)
			return gaveClock, faultNone
		case 4:
			o.hour, o.minute, o.second = two(0), two(2), 0
			return gaveClock, faultNone
		}
	}
	return 0, faultSyntax
}

// number is a number without a unit before it.
func (r *stampReader) number(i int, s string) (uint, stampFault) {
	point := strings.IndexByte(s, '.')
	given := r.dateFields()
	if r.timeOnly {
		switch {
		case point >= 0 && i == 0 && len(r.tokens) >= 2 && r.tokens[len(r.tokens)-1].kind == tokenDate:
			return r.civil(s)
		case point > 2:
			return r.together(s, given)
		case point >= 0:
			return 0, faultSyntax
		case len(s) > 4:
			return r.together(s, given)
		}
		return r.part(s, false, given)
	}
	switch {
	case point >= 0 && given&gaveDate == 0:
		return r.civil(s)
	case point > 2, len(s) >= 6 && (given&gaveDate == 0 || given&gaveClock == 0):
		return r.together(s, given)
	}
	return r.part(s, r.textMonth, given)
}

// labelled is a number after a unit.
func (r *stampReader) labelled(s string) (got uint, f stampFault) {
	o := &r.out
	unit := r.unit
	r.unit = 0
	n, rest, over := wholeNumber(s)
	switch {
	case over:
		return 0, faultRange
	case rest != "" && (rest[0] != '.' || unit != 'j' && unit != 't' && unit != 's'):
		return 0, faultSyntax
	}
	switch unit {
	case 'y':
		o.year, got = n, gaveYear
	case 'm':
		if o.has(gaveMonth | gaveHour) {
			o.minute, got = n, gaveMinute
			break
		}
		o.month, got = n, gaveMonth
	case 'd':
		o.day, got = n, gaveDay
	case 'h':
		o.hour, got = n, gaveHour
	case 'i':
		o.minute, got = n, gaveMinute
	case 's':
		o.second, got = n, gaveSecond
		if rest != "" {
			o.frac, f = seconds(rest)
		}
	case 'j':
		if n < 0 {
			return 0, faultRange
		}
		r.setJulian(n)
		got = gaveDate
		if rest != "" {
			part, err := strconv.ParseFloat("0"+rest+"0", 64)
			if err != nil {
				return 0, faultSyntax
			}
			micros := int64(part * float64(DayMicros))
			o.hour, o.minute = micros/HourMicros, micros/MinuteMicros%60
			o.second, o.frac = micros/SecondMicros%60, micros%SecondMicros
			got |= gaveClock
		}
	case 't':
		if got, f = r.together(s, o.given|gaveDate); f == faultNone && got != gaveClock {
			f = faultSyntax
		}
	default:
		f = faultSyntax
	}
	return got, f
}

func (r *stampReader) setJulian(n int64) {
	y, m, d := CivilFromDays(n - 2451545)
	r.out.year, r.out.month, r.out.day, r.julian = int64(y), int64(m), int64(d), true
}

// seconds is a fraction, from its point on, in microseconds.
func seconds(s string) (int64, stampFault) {
	if s == "." {
		return 0, faultNone
	}
	if s[1:] == "" || span(s[1:], isDigit) != len(s)-1 {
		return 0, faultSyntax
	}
	f, _ := strconv.ParseFloat("0"+s, 64)
	return int64(math.RoundToEven(f * 1e6)), faultNone
}

// readClock reads hh:mm, hh:mm:ss and mm:ss.f; hh:mm is minutes and seconds if short is set.
func readClock(s string, short bool) (h, m, sec, frac int64, f stampFault) {
	over := false
	number := func() (n int64) {
		o := false
		n, s, o = wholeNumber64(s)
		over = over || o
		return n
	}
	h = number()
	if over {
		return 0, 0, 0, 0, faultRange
	}
	if s == "" || s[0] != ':' {
		return 0, 0, 0, 0, faultSyntax
	}
	s = s[1:]
	if m = number(); over || m != int64(int32(m)) {
		return 0, 0, 0, 0, faultRange
	}
	switch {
	case s == "":
		if short {
			h, m, sec = 0, h, m
		}
	case s[0] == '.':
		if frac, f = seconds(s); f != faultNone {
			return 0, 0, 0, 0, f
		}
		h, m, sec = 0, h, m
	case s[0] == ':':
		s = s[1:]
		if sec = number(); over || sec != int64(int32(sec)) {
			return 0, 0, 0, 0, faultRange
		}
		if s != "" && s[0] != '.' {
			return 0, 0, 0, 0, faultSyntax
		}
		if s != "" {
			if frac, f = seconds(s); f != faultNone {
				return 0, 0, 0, 0, f
			}
		}
	default:
		return 0, 0, 0, 0, faultSyntax
	}
	if h < 0 || m < 0 || m > 59 || sec < 0 || sec > 60 || frac < 0 || frac > SecondMicros {
		return 0, 0, 0, 0, faultRange
	}
	return h, m, sec, frac, faultNone
}

func (r *stampReader) clock(s string) (got uint, f stampFault) {
	o := &r.out
	o.hour, o.minute, o.second, o.frac, f = readClock(s, false)
	if f == faultNone && o.hour != int64(int32(o.hour)) {
		f = faultRange
	}
	return gaveClock, f
}

// overflows reports a time after 24:00.
func (r *stampReader) overflows() bool {
	o := &r.out
	return o.hour < 0 || o.hour > 24 || o.minute < 0 || o.minute > 59 || o.second < 0 || o.second > 60 || o.micros() > DayMicros
}

// readOffset reads an offset of a zone: +hh, +hhmm, +hh:mm or +hh:mm:ss.
func readOffset(s string) (east int, f stampFault) {
	if s == "" || s[0] != '+' && s[0] != '-' {
		return 0, faultSyntax
	}
	bad := false
	number := func(t string) (int64, string) {
		n, rest, over := wholeNumber(t)
		bad = bad || over
		return n, rest
	}
	h, rest := number(s[1:])
	var m, sec int64
	switch {
	case rest != "" && rest[0] == ':':
		if m, rest = number(rest[1:]); rest != "" && rest[0] == ':' {
			sec, rest = number(rest[1:])
		}
	case rest == "" && len(s) > 3:
		h, m = h/100, h%100
	}
	if bad || h < 0 || h > 15 || m < 0 || m > 59 || sec < 0 || sec > 59 {
		return 0, faultOffset
	}
	if rest != "" {
		return 0, faultSyntax
	}
	east = int(h*3600 + m*60 + sec)
	if s[0] == '-' {
		east = -east
	}
	return east, faultNone
}

func (r *stampReader) offset(s string) stampFault {
	east, f := readOffset(s)
	r.out.zone = Zone{offset: east}
	return f
}

// word is a token of letters.
func (r *stampReader) word(i int, s string) (uint, stampFault) {
	o := &r.out
	if z, summer, ok := abbreviatedZone(s); ok {
		o.zone = z
		return gaveZone | choose[uint](summer, gaveSummer, 0) | choose[uint](z.abbreviation != "", gaveMoving, 0), faultNone
	}
	w := lookupDateWord(s)
	switch w.kind {
	case wordIgnored:
		return 0, faultNone
	case wordSpecial:
		return r.specialWord(s)
	case wordMonth:
		if r.timeOnly {
			return 0, faultSyntax
		}
		got := uint(gaveMonth)
		if o.has(gaveMonth) && !r.textMonth && !o.has(gaveDay) && o.month >= 1 && o.month <= 31 {
			// The number that was taken for the month is the day.
			o.day, got = o.month, gaveDay
		}
		r.textMonth, o.month = true, int64(w.value)
		return got, faultNone
	case wordSummer:
		o.zone.offset += 3600
		return gaveSummer, faultNone
	case wordHalf:
		r.pm = w.value == 1
		return gaveHalf, faultNone
	case wordEra:
		r.bc = w.value == 1
		return gaveEra, faultNone
	case wordWeekday:
		if r.timeOnly {
			return 0, faultSyntax
		}
		return gaveWeekday, faultNone
	case wordUnit:
		r.unit = w.value
		return 0, faultNone
	case wordTime:
		if !r.timeOnly && !o.has(gaveDate) || i == len(r.tokens)-1 {
			return 0, faultSyntax
		}
		if k := r.tokens[i+1].kind; k != tokenNumber && k != tokenClock && k != tokenDate {
			return 0, faultSyntax
		}
		r.unit = w.value
		return 0, faultNone
	}
	z, ok := databaseZone(s)
	if !ok {
		return 0, faultSyntax
	}
	o.zone = z
	return gaveZone, faultNone
}

func (r *stampReader) specialWord(s string) (uint, stampFault) {
	o := &r.out
	switch s {
	case "allballs":
		o.hour, o.minute, o.second, o.frac, o.zone = 0, 0, 0, 0, Zone{}
		return gaveClock | gaveZone, faultNone
	case "now":
		days, micros := SplitMicros(LocalMicros(r.env.now(), r.env.location()))
		r.setDay(days)
		o.hour, o.minute, o.second, o.frac = micros/HourMicros, micros/MinuteMicros%60, micros/SecondMicros%60, micros%SecondMicros
		if r.timeOnly {
			return gaveClock, faultNone
		}
		o.special = s
		o.zone = Zone{offset: zoneOffset(r.env.now(), r.env.location())}
		return gaveDate | gaveClock | gaveZone, faultNone
	}
	if r.timeOnly {
		return 0, faultSyntax
	}
	switch s {
	case "today", "tomorrow", "yesterday":
		days, _ := SplitMicros(LocalMicros(r.env.now(), r.env.location()))
		switch s {
		case "tomorrow":
			days++
		case "yesterday":
			days--
		}
		r.setDay(days)
		return gaveDate, faultNone
	}
	o.special = s
	return gaveSpecial, faultNone
}

func (r *stampReader) setDay(days int64) {
	y, m, d := CivilFromDays(days)
	r.out.year, r.out.month, r.out.day = int64(y), int64(m), int64(d)
}

// finish checks the fields with each other.
func (r *stampReader) finish() stampFault {
	o := &r.out
	if f := r.checkDate(); f != faultNone {
		return f
	}
	if o.has(gaveHalf) {
		switch {
		case o.hour > 12:
			return faultRange
		case r.pm && o.hour != 12:
			o.hour += 12
		case !r.pm && o.hour == 12:
			o.hour = 0
		}
	}
	if o.has(gaveSpecial) {
		return faultNone
	}
	if r.timeOnly {
		if r.overflows() {
			return faultRange
		}
		if d := o.given & gaveDate; !o.has(gaveClock) || d != 0 && d != gaveDate && !o.has(gaveZone) {
			return faultSyntax
		}
	} else if !o.has(gaveDate) {
		return faultSyntax
	}
	if o.has(gaveSummer) && (!o.has(gaveZone) || o.zone.loc != nil) {
		return faultSyntax
	}
	return faultNone
}

func (r *stampReader) checkDate() stampFault {
	o := &r.out
	if o.has(gaveYear) && !r.julian {
		switch {
		case r.bc:
			if o.year <= 0 {
				return faultRange
			}
			o.year = 1 - o.year
		case r.short:
			if o.year < 0 {
				return faultRange
			}
			o.year += choose[int64](o.year < 70, 2000, 1900)
		case o.year <= 0:
			return faultRange
		}
	}
	if o.has(gaveYearDay) {
		y, m, d := CivilFromDays(DaysFromCivil(int(o.year), 1, 1) + o.yearDay - 1)
		o.year, o.month, o.day = int64(y), int64(m), int64(d)
	}
	switch {
	case o.has(gaveMonth) && (o.month < 1 || o.month > 12), o.has(gaveDay) && (o.day < 1 || o.day > 31):
		return faultOrder
	case o.has(gaveDate) && o.day > int64(DaysInMonth(int(o.year), int(o.month))):
		return faultRange
	}
	return faultNone
}

func (o *stamp) infinite() (int64, bool) {
	switch o.special {
	case "infinity":
		return InfinityNum, true
	case "-infinity":
		return NegInfinityNum, true
	}
	return 0, false
}

func parseDate(s string, env Env) (Datum, error) {
	if d, ok := fastDate(s); ok {
		return NewDate(d), nil
	}
	o, err := parseStamp(Date, s, env)
	if err != nil {
		return Null, err
	}
	if n, ok := o.infinite(); ok {
		return NewDate(n), nil
	}
	if o.special == "epoch" {
		return NewDate(-epochUnixDays), nil
	}
	days := o.days()
	if CheckDate(days) != nil {
		return Null, sqlstate.New(sqlstate.DatetimeOverflow, "date out of range: %q", Raw(s))
	}
	return NewDate(days), nil
}

// fastDate reads yyyy-mm-dd.
func fastDate(s string) (int64, bool) {
	if len(s) != 10 || s[4] != '-' || s[7] != '-' {
		return 0, false
	}
	y, ok1 := fixed(s[0:4])
	m, ok2 := fixed(s[5:7])
	d, ok3 := fixed(s[8:10])
	if !ok1 || !ok2 || !ok3 || y < 1 || m < 1 || m > 12 || d < 1 || d > DaysInMonth(y, m) {
		return 0, false
	}
	return DaysFromCivil(y, m, d), true
}

func fixed(s string) (int, bool) {
	v := 0
	for i := 0; i < len(s); i++ {
		if !isDigit(s[i]) {
			return 0, false
		}
		v = v*10 + int(s[i]-'0')
	}
	return v, true
}

// local is the wall clock that the text gives.
func (o *stamp) local(s string) (int64, error) {
	days, micros := o.days(), o.micros()
	if days > endTimestampMicros/DayMicros+1 || days < minTimestampMicros/DayMicros-1 {
		return 0, stampOutOfRange(s)
	}
	return days*DayMicros + micros, nil
}

func stampOutOfRange(s string) error {
	return sqlstate.New(sqlstate.DatetimeOverflow, "timestamp out of range: %q", Raw(s))
}

func parseTimestamp(t *T, s string, env Env) (Datum, error) {
	o, err := parseStamp(Timestamp, s, env)
	if err != nil {
		return Null, err
	}
	if n, ok := o.infinite(); ok {
		return NewTimestamp(n), nil
	}
	if o.special == "epoch" {
		return NewTimestamp(-epochUnixSeconds * SecondMicros), nil
	}
	local, err := o.local(s)
	if err != nil {
		return Null, err
	}
	if CheckTimestamp(local) != nil {
		return Null, stampOutOfRange(s)
	}
	return NewTimestamp(RoundMicros(local, t.Precision)), nil
}

func parseTimestampTZ(t *T, s string, env Env) (Datum, error) {
	o, err := parseStamp(TimestampTZ, s, env)
	if err != nil {
		return Null, err
	}
	if n, ok := o.infinite(); ok {
		return NewTimestamp(n), nil
	}
	switch o.special {
	case "now":
		return NewTimestamp(RoundMicros(env.now(), t.Precision)), nil
	case "epoch":
		return NewTimestamp(-epochUnixSeconds * SecondMicros), nil
	}
	local, err := o.local(s)
	if err != nil {
		return Null, err
	}
	utc := o.zoneOr(env).UTC(local)
	if CheckTimestamp(utc) != nil {
		return Null, stampOutOfRange(s)
	}
	return NewTimestamp(RoundMicros(utc, t.Precision)), nil
}

// zoneOr is the zone of the text, or the session's.
func (o *stamp) zoneOr(env Env) Zone {
	if o.has(gaveZone) {
		return o.zone
	}
	return Zone{loc: env.location()}
}

// dateless reports a time in a named zone whose offset depends on the date, which is not given.
func (o *stamp) dateless() bool {
	return o.has(gaveZone) && !o.has(gaveDate) && !o.zone.steady()
}

func parseTime(t *T, s string, env Env) (Datum, error) {
	o, err := parseStamp(t, s, env)
	if err != nil {
		return Null, err
	}
	if o.dateless() {
		return Null, faultSyntax.err(t, s)
	}
	return NewTime(RoundMicros(o.micros(), t.Precision)), nil
}

func parseTimeTZ(t *T, s string, env Env) (Datum, error) {
	o, err := parseStamp(t, s, env)
	if err != nil {
		return Null, err
	}
	micros := o.micros()
	if o.dateless() {
		return Null, faultSyntax.err(t, s)
	}
	z := o.zoneOr(env)
	offset := z.offset
	if z.loc != nil {
		days := int64(0)
		if o.has(gaveDate) {
			// The rules of zones repeat every 400 years; so far away no microseconds are counted.
			const cycle = 146097
			if days = o.days(); days > 100_000_000 {
				days -= days / cycle * cycle
			}
		} else {
			days, _ = SplitMicros(LocalMicros(env.now(), env.location()))
		}
		local := days*DayMicros + micros
		offset = int((local - z.UTC(local)) / SecondMicros)
	}
	return NewTimeTZ(RoundMicros(micros, t.Precision), int32(offset)), nil
}
