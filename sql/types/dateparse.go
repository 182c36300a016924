package types

import (
	"math"
	"strconv"
	"strings"
	"time"

	"meridian/sql/sqlstate"
)

// stamp has the fields of the text of a date or time.
type stamp struct {
	special          string // now, today, tomorrow, yesterday, epoch, infinity, -infinity
	hasDate, hasTime bool
	year, month, day int // astronomical year
	micros           int64
	hasZone          bool
	offset           int            // seconds east, if loc is nil
	loc              *time.Location // a named zone
}

// dateWord kinds.
type dateWord struct {
	kind  byte // m month, w weekday, z zone, s special, a am, p pm, b BC, A AD, t ISO separator, j julian
	value int
}

func lookupDateWord(w string) (dateWord, bool) {
	switch w {
	case "now", "today", "tomorrow", "yesterday", "epoch", "infinity", "allballs":
		return dateWord{'s', 0}, true
	case "am":
		return dateWord{'a', 0}, true
	case "pm":
		return dateWord{'p', 0}, true
	case "bc":
		return dateWord{'b', 0}, true
	case "ad":
		return dateWord{'A', 0}, true
	case "t":
		return dateWord{'t', 0}, true
	case "at", "on", "of":
		return dateWord{'i', 0}, true
	}
	if m := monthByName(w); m > 0 {
		return dateWord{'m', m}, true
	}
	switch w {
	case "sun", "sunday", "mon", "monday", "tue", "tues", "tuesday", "wed", "weds", "wednesday", "thu", "thur", "thurs",
		"thursday", "fri", "friday", "sat", "saturday":
		return dateWord{'w', 0}, true
	}
	if off, ok := zoneAbbreviation(w); ok {
		return dateWord{'z', off}, true
	}
	return dateWord{}, false
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

type stampParser struct {
	t    *T
	orig string
	env  Env
	out  stamp
	nums []numField // numbers not yet given a meaning
	mon  int        // month by name
	pm   byte
	bc   bool
	doy  int
}

type numField struct {
	v, digits int
}

func (p *stampParser) syntax() error {
	return sqlstate.New(sqlstate.InvalidDatetimeFormat, "invalid input syntax for type %s: %q", stampName(p.t), Raw(p.orig))
}

// stampName is the name of a type in messages about bad input.
func stampName(t *T) string {
	switch t.Kind {
	case KindTime:
		return "time"
	case KindTimestamp:
		return "timestamp"
	}
	return t.Name()
}

// displacement is the error for an offset larger than that of any zone.
func displacement(s string) error {
	return sqlstate.New("22009", "time zone displacement out of range: %q", Raw(s))
}

func (p *stampParser) fieldRange() error {
	return sqlstate.New(sqlstate.DatetimeOverflow, "date/time field value out of range: %q", Raw(p.orig))
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }
func isAlpha(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

func takeDigits(s string) (digits, rest string) {
	i := 0
	for i < len(s) && isDigit(s[i]) {
		i++
	}
	return s[:i], s[i:]
}

// parseStamp reads any text form of a date, time or both.
func parseStamp(t *T, text string, env Env) (stamp, error) {
	p := &stampParser{t: t, orig: text, env: env}
	s := trimSpace(text)
	if s == "" || len(s) > 200 {
		return p.out, p.syntax()
	}
	for s != "" {
		var err error
		switch c := s[0]; {
		case c == ' ' || c == ',' || c == '\t' || c == '\n':
			s = s[1:]
		case isDigit(c):
			s, err = p.number(s)
		case c == '+' || c == '-':
			low := strings.ToLower(s)
			if low == "-infinity" || low == "+infinity" {
				p.out.special = strings.TrimPrefix(low, "+")
				s = ""
				break
			}
			if !p.out.hasTime && !p.out.hasDate && len(p.nums) == 0 {
				if d, rest := takeDigits(s[1:]); d != "" && rest == "" {
					if _, _, ok := parseOffset(s); !ok {
						return p.out, displacement(text)
					}
				}
				return p.out, p.syntax()
			}
			off, rest, ok := 0, "", false
			if len(s) > 1 && isDigit(s[1]) {
				off, rest, ok = parseOffset(s)
				if !ok && p.out.hasTime {
					return p.out, displacement(text)
				}
			}
			if !ok || p.out.hasZone && p.out.offset != 0 {
				return p.out, p.syntax()
			}
			p.out.hasZone, p.out.offset, p.out.loc = true, off, nil
			s = rest
		case isAlpha(c):
			s, err = p.word(s)
		default:
			return p.out, p.syntax()
		}
		if err != nil {
			return p.out, err
		}
	}
	return p.finish()
}

func (p *stampParser) word(s string) (string, error) {
	i := 0
	for i < len(s) && (isAlpha(s[i]) || s[i] == '/' || s[i] == '_' || i > 0 && s[i] == '.') {
		i++
	}
	w := strings.ToLower(strings.TrimSuffix(s[:i], "."))
	if strings.Contains(w, "/") {
		// A zone's name; it may go on with -, + and digits, as in Etc/GMT+5.
		for i < len(s) && s[i] != ' ' && s[i] != ',' {
			i++
		}
		loc, ok := LoadZone(s[:i])
		if !ok {
			return "", sqlstate.New(sqlstate.InvalidParameterValue, "time zone %q not recognized", Raw(s[:i]))
		}
		p.out.hasZone, p.out.loc = true, loc
		return s[i:], nil
	}
	if strings.HasPrefix(w, "t") && len(w) == 1 && i < len(s) && isDigit(s[i]) {
		return s[i:], nil
	}
	if w == "j" && i < len(s) && isDigit(s[i]) && !p.out.hasDate {
		d, rest := takeDigits(s[i:])
		n, err := strconv.ParseInt(d, 10, 32)
		if err != nil {
			return "", p.fieldRange()
		}
		y, m, dd := CivilFromDays(n - 2451545)
		p.bc = y <= 0
		if p.bc {
			y = 1 - y
		}
		return rest, p.setDate(y, m, dd)
	}
	if i >= 3 && i < len(s) && isDigit(s[i]) {
		// A zone that changes its clocks, as in EST5EDT.
		j := i
		for j < len(s) && (isDigit(s[j]) || isAlpha(s[j])) {
			j++
		}
		if loc, found := LoadZone(s[:j]); found && isAlpha(s[j-1]) {
			p.out.hasZone, p.out.loc = true, loc
			return s[j:], nil
		}
	}
	dw, ok := lookupDateWord(w)
	if !ok {
		if loc, found := LoadZone(w); found && len(w) > 2 {
			p.out.hasZone, p.out.loc = true, loc
			return s[i:], nil
		}
		return "", p.syntax()
	}
	switch dw.kind {
	case 's':
		if w == "allballs" {
			p.out.hasTime, p.out.hasZone = true, true
			break
		}
		if p.out.special != "" {
			return "", p.syntax()
		}
		p.out.special = w
	case 'm':
		if p.mon != 0 {
			return "", p.syntax()
		}
		p.mon = dw.value
	case 'a', 'p':
		if !p.out.hasTime || p.pm != 0 {
			return "", p.syntax()
		}
		p.pm = dw.kind
	case 'b':
		p.bc = true
	case 'z':
		p.out.hasZone, p.out.offset, p.out.loc = true, dw.value, nil
		if i < len(s) && (s[i] == '+' || s[i] == '-') && i+1 < len(s) && isDigit(s[i+1]) {
			// POSIX: GMT+3 is west.
			off, rest, ok := parseOffset(s[i:])
			if !ok {
				return "", p.syntax()
			}
			p.out.offset = dw.value - off
			return rest, nil
		}
	}
	if i < len(s) && (s[i] == '-' || s[i] == '/') && dw.kind == 'm' {
		i++
	}
	return s[i:], nil
}

// number reads what starts with a digit: a time, a date with separators, or a bare number.
func (p *stampParser) number(s string) (string, error) {
	d, rest := takeDigits(s)
	if len(d) > 14 {
		if p.t.Kind == KindTime || p.t.Kind == KindTimeTZ {
			return "", p.syntax()
		}
		return "", p.fieldRange()
	}
	if rest != "" && rest[0] == ':' {
		return p.clock(d, rest)
	}
	if rest != "" && (rest[0] == '-' || rest[0] == '/' || rest[0] == '.') && len(rest) > 1 && !p.out.hasDate {
		sep := rest[0]
		if isDigit(rest[1]) {
			d2, rest2 := takeDigits(rest[1:])
			if rest2 != "" && rest2[0] == sep && len(rest2) > 1 && isDigit(rest2[1]) {
				d3, rest3 := takeDigits(rest2[1:])
				return rest3, p.threeNumbers(d, d2, d3)
			}
			if sep == '-' && len(d2) == 3 && len(d) >= 4 || sep == '.' && len(d2) == 3 && len(d) == 4 {
				y, _ := strconv.Atoi(d)
				p.doy, _ = strconv.Atoi(d2)
				p.out.hasDate, p.out.year, p.out.month, p.out.day = true, y, 1, 1
				return rest2, nil
			}
			if sep == '-' && !p.out.hasTime && len(d) <= 8 && (len(d) == 8 || len(d) == 6) {
				// A compact date with a zone.
				return rest, p.bare(d)
			}
			return "", p.syntax()
		}
		if isAlpha(rest[1]) && sep != '.' {
			// 08-Jan-1999, 1999-Jan-08
			i := 1
			for i < len(rest) && isAlpha(rest[i]) {
				i++
			}
			m := monthByName(strings.ToLower(rest[1:i]))
			if m > 0 {
				p.mon = m
				v, _ := strconv.Atoi(d)
				p.nums = append(p.nums, numField{v, len(d)})
				rest = rest[i:]
				if rest != "" && (rest[0] == '-' || rest[0] == '/') {
					rest = rest[1:]
				}
				return rest, nil
			}
		}
	}
	if rest != "" && rest[0] == '.' && p.out.hasDate {
		return "", p.syntax()
	}
	if (p.t.Kind == KindTime || p.t.Kind == KindTimeTZ) && !p.out.hasDate && !p.out.hasTime && len(d) == 6 && rest != "" && rest[0] == '.' {
		if err := p.bare(d); err != nil {
			return "", err
		}
		frac, rest := fraction(rest)
		p.out.micros += frac
		return rest, nil
	}
	// Compact times follow a date or a T.
	if p.out.hasDate && !p.out.hasTime && (len(d) == 6 || len(d) == 4) {
		h, _ := strconv.Atoi(d[:2])
		m, _ := strconv.Atoi(d[2:4])
		sec := 0
		if len(d) == 6 {
			sec, _ = strconv.Atoi(d[4:])
		}
		var frac int64
		if rest != "" && rest[0] == '.' {
			frac, rest = fraction(rest)
		}
		return rest, p.setClock(h, m, sec, frac)
	}
	return rest, p.bare(d)
}

func (p *stampParser) bare(d string) error {
	if (len(d) == 8 || len(d) == 6) && !p.out.hasDate && p.mon == 0 {
		if p.t.Kind == KindTime || p.t.Kind == KindTimeTZ {
			if len(d) == 6 {
				h, _ := strconv.Atoi(d[:2])
				m, _ := strconv.Atoi(d[2:4])
				s, _ := strconv.Atoi(d[4:])
				return p.setClock(h, m, s, 0)
			}
		}
		n := len(d) - 4
		y, _ := strconv.Atoi(d[:n])
		m, _ := strconv.Atoi(d[n : n+2])
		dd, _ := strconv.Atoi(d[n+2:])
		if n == 2 {
			y = twoDigitYear(y)
		}
		return p.setDate(y, m, dd)
	}
	v, err := strconv.Atoi(d)
	if err != nil {
		return p.fieldRange()
	}
	p.nums = append(p.nums, numField{v, len(d)})
	return nil
}

func twoDigitYear(y int) int {
	if y < 70 {
		return y + 2000
	}
	return y + 1900
}

// threeNumbers reads a-b-c: year first if it has three digits or more, else in the order of DateStyle.
func (p *stampParser) threeNumbers(a, b, c string) error {
	x, e1 := strconv.Atoi(a)
	y, e2 := strconv.Atoi(b)
	z, e3 := strconv.Atoi(c)
	if e1 != nil || e2 != nil || e3 != nil {
		return p.fieldRange()
	}
	if len(a) >= 3 {
		return p.setDate(x, y, z)
	}
	order := p.env.order()
	if order == OrderYMD {
		if len(a) <= 2 {
			x = twoDigitYear(x)
		}
		return p.setDate(x, y, z)
	}
	if len(c) <= 2 {
		z = twoDigitYear(z)
	}
	if order == OrderDMY {
		x, y = y, x
	}
	if x > 12 {
		return p.fieldRange().(*sqlstate.Error).WithHint(`Perhaps you need a different "datestyle" setting.`)
	}
	return p.setDate(z, x, y)
}

func (p *stampParser) setDate(y, m, d int) error {
	if p.out.hasDate {
		return p.syntax()
	}
	p.out.hasDate, p.out.year, p.out.month, p.out.day = true, y, m, d
	return nil
}

func fraction(s string) (micros int64, rest string) {
	d, rest := takeDigits(s[1:])
	if len(d) > 7 {
		d = d[:7]
	}
	f, _ := strconv.ParseFloat("0."+d+"0", 64)
	return int64(math.RoundToEven(f * 1e6)), rest
}

func (p *stampParser) clock(hh, rest string) (string, error) {
	if p.out.hasTime {
		return "", p.syntax()
	}
	h, err := strconv.Atoi(hh)
	if err != nil {
		return "", p.fieldRange()
	}
	mm, rest := takeDigits(rest[1:])
	if mm == "" {
		return "", p.syntax()
	}
	m, err := strconv.Atoi(mm)
	if err != nil {
		return "", p.fieldRange()
	}
	sec := 0
	var frac int64
	if rest != "" && rest[0] == ':' {
		var ss string
		ss, rest = takeDigits(rest[1:])
		if ss == "" {
			return "", p.syntax()
		}
		if sec, err = strconv.Atoi(ss); err != nil {
			return "", p.fieldRange()
		}
		if rest != "" && rest[0] == '.' {
			frac, rest = fraction(rest)
		}
	}
	return rest, p.setClock(h, m, sec, frac)
}

func (p *stampParser) setClock(h, m, s int, frac int64) error {
	if h > 24 || m > 59 || s > 60 || h == 24 && (m > 0 || s > 0 || frac > 0) {
		return p.fieldRange()
	}
	p.out.hasTime = true
	p.out.micros = int64(h)*HourMicros + int64(m)*MinuteMicros + int64(s)*SecondMicros + frac
	return nil
}

func (p *stampParser) finish() (stamp, error) {
	o := &p.out
	if p.pm != 0 {
		h := o.micros / HourMicros
		if h > 12 {
			return *o, p.fieldRange()
		}
		switch {
		case p.pm == 'p' && h < 12:
			o.micros += 12 * HourMicros
		case p.pm == 'a' && h == 12:
			o.micros -= 12 * HourMicros
		}
	}
	if p.mon != 0 {
		// A month by name with a day, and a year.
		if o.hasDate || len(p.nums) != 2 {
			return *o, p.syntax()
		}
		a, b := p.nums[0], p.nums[1]
		day, year := a, b
		if a.digits >= 3 || a.v > 31 || b.digits < 3 && p.env.order() == OrderYMD {
			day, year = b, a
		}
		y := year.v
		if year.digits <= 2 && !p.bc {
			y = twoDigitYear(y)
		}
		o.hasDate, o.year, o.month, o.day = true, y, p.mon, day.v
		p.nums = nil
	}
	if len(p.nums) > 0 {
		if n := p.nums[0]; len(p.nums) == 1 && !o.hasDate && !o.hasTime && p.t.Kind != KindTime && p.t.Kind != KindTimeTZ &&
			(n.digits <= 2 && (n.v < 1 || n.v > 12) || n.digits > 8) {
			return *o, p.fieldRange()
		}
		return *o, p.syntax()
	}
	if o.special != "" {
		if o.hasDate {
			return *o, p.syntax()
		}
		return *o, nil
	}
	if o.hasDate {
		if p.bc {
			if o.year <= 0 {
				return *o, p.fieldRange()
			}
			o.year = 1 - o.year
		} else if o.year == 0 {
			return *o, p.fieldRange()
		}
		if o.month < 1 || o.month > 12 || o.day < 1 || o.day > DaysInMonth(o.year, o.month) {
			err := p.fieldRange().(*sqlstate.Error)
			if o.month > 12 || o.month < 1 || o.day > 31 || o.day < 1 {
				err = err.WithHint(`Perhaps you need a different "datestyle" setting.`)
			}
			return *o, err
		}
		if p.doy > 0 {
			days := DaysFromCivil(o.year, 1, 1) + int64(p.doy) - 1
			o.year, o.month, o.day = CivilFromDays(days)
		}
	}
	if !o.hasDate && !o.hasTime {
		return *o, p.syntax()
	}
	return *o, nil
}

// resolve gives the days and the microseconds of day for the special words, in local time.
func (o *stamp) resolve(env Env) (days, micros int64) {
	now := LocalMicros(env.now(), env.location())
	d, m := SplitMicros(now)
	switch o.special {
	case "now":
		return d, m
	case "today":
		return d, o.micros
	case "tomorrow":
		return d + 1, o.micros
	case "yesterday":
		return d - 1, o.micros
	}
	return -epochUnixDays, 0 // epoch
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
	if o.special != "" {
		days, _ := o.resolve(env)
		return NewDate(days), nil
	}
	if !o.hasDate {
		return Null, (&stampParser{t: Date, orig: s}).syntax()
	}
	days := DaysFromCivil(o.year, o.month, o.day)
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

func parseTimestamp(t *T, s string, env Env) (Datum, error) {
	o, err := parseStamp(Timestamp, s, env)
	if err != nil {
		return Null, err
	}
	if n, ok := o.infinite(); ok {
		return NewTimestamp(n), nil
	}
	local, err := o.local(Timestamp, s, env)
	if err != nil {
		return Null, err
	}
	return NewTimestamp(RoundMicros(local, t.Precision)), nil
}

// local is the wall clock that the text gives.
func (o *stamp) local(t *T, s string, env Env) (int64, error) {
	var days, micros int64
	if o.special != "" {
		days, micros = o.resolve(env)
	} else {
		if !o.hasDate {
			return 0, (&stampParser{t: t, orig: s}).syntax()
		}
		days, micros = DaysFromCivil(o.year, o.month, o.day), o.micros
	}
	if days > endTimestampMicros/DayMicros+1 || days < minTimestampMicros/DayMicros-1 || CheckTimestamp(days*DayMicros+micros) != nil {
		return 0, sqlstate.New(sqlstate.DatetimeOverflow, "timestamp out of range: %q", Raw(s))
	}
	return days*DayMicros + micros, nil
}

func parseTimestampTZ(t *T, s string, env Env) (Datum, error) {
	o, err := parseStamp(TimestampTZ, s, env)
	if err != nil {
		return Null, err
	}
	if n, ok := o.infinite(); ok {
		return NewTimestamp(n), nil
	}
	if o.special == "now" {
		return NewTimestamp(RoundMicros(env.now(), t.Precision)), nil
	}
	if o.special == "epoch" {
		return NewTimestamp(-epochUnixSeconds * SecondMicros), nil
	}
	local, err := o.local(TimestampTZ, s, env)
	if err != nil {
		return Null, err
	}
	utc := local
	switch {
	case o.hasZone && o.loc != nil:
		utc = UTCMicros(local, o.loc)
	case o.hasZone:
		utc = local - int64(o.offset)*SecondMicros
	default:
		utc = UTCMicros(local, env.location())
	}
	if CheckTimestamp(utc) != nil {
		return Null, sqlstate.New(sqlstate.DatetimeOverflow, "timestamp out of range: %q", Raw(s))
	}
	return NewTimestamp(RoundMicros(utc, t.Precision)), nil
}

func parseTime(t *T, s string, env Env) (Datum, error) {
	o, err := parseStamp(t, s, env)
	if err != nil {
		return Null, err
	}
	if o.special == "now" {
		_, m := o.resolve(env)
		return NewTime(RoundMicros(m, t.Precision)), nil
	}
	if !o.hasTime || o.special != "" {
		return Null, (&stampParser{t: t, orig: s}).syntax()
	}
	return NewTime(RoundMicros(o.micros, t.Precision)), nil
}

func parseTimeTZ(t *T, s string, env Env) (Datum, error) {
	o, err := parseStamp(t, s, env)
	if err != nil {
		return Null, err
	}
	if o.special == "now" {
		_, o.micros = o.resolve(env)
		o.hasTime = true
	}
	if !o.hasTime {
		return Null, (&stampParser{t: t, orig: s}).syntax()
	}
	off := o.offset
	switch {
	case o.hasZone && o.loc != nil:
		at := env.now()
		if o.hasDate {
			at = UTCMicros(DaysFromCivil(o.year, o.month, o.day)*DayMicros+o.micros, o.loc)
		}
		off = zoneOffset(at, o.loc)
	case !o.hasZone:
		at := env.now()
		if o.hasDate {
			at = UTCMicros(DaysFromCivil(o.year, o.month, o.day)*DayMicros+o.micros, env.location())
		}
		off = zoneOffset(at, env.location())
	}
	return NewTimeTZ(RoundMicros(o.micros, t.Precision), int32(off)), nil
}
