package scalar

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

var (
	monthNames = [...]string{"January", "February", "March", "April", "May", "June", "July", "August", "September",
		"October", "November", "December"}
	dayNames = [...]string{"Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"}
	roman    = [...]string{"I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII"}
)

// dateTokens are the template patterns, longer ones before their prefixes.
var dateTokens = [...]string{"HH24", "HH12", "SSSSS", "SSSS", "Y,YYY", "YYYY", "IYYY", "MONTH", "Month", "month", "A.D.", "a.d.", "B.C.", "b.c.",
	"A.M.", "a.m.", "P.M.", "p.m.", "IDDD", "FF1", "FF2", "FF3", "FF4", "FF5", "FF6", "DAY", "Day", "day", "DDD", "IYY", "MON",
	"Mon", "mon", "YYY", "TZH", "TZM", "AD", "ad", "AM", "am", "BC", "bc", "CC", "DD", "DY", "Dy", "dy", "FM", "FX", "HH", "ID", "IW",
	"IY", "MI", "MM", "MS", "OF", "PM", "pm", "RM", "rm", "SS", "TM", "TZ", "tz", "US", "WW", "YY", "D", "I", "J", "Q", "W", "Y"}

type dateToken struct {
	name    string // empty: literal
	literal string
	fill    bool // FM
	suffix  string
}

func parseDateFormat(f string) []dateToken {
	var out []dateToken
	fm := false
	lit := func(s string) {
		if n := len(out); n > 0 && out[n-1].name == "" {
			out[n-1].literal += s
			return
		}
		out = append(out, dateToken{literal: s})
	}
next:
	for i := 0; i < len(f); {
		if f[i] == '"' {
			j := i + 1
			for j < len(f) && f[j] != '"' {
				if f[j] == '\\' && j+1 < len(f) {
					j++
				}
				lit(f[j : j+1])
				j++
			}
			i = j + 1
			continue
		}
		if f[i] == '\\' && i+1 < len(f) && f[i+1] == '"' {
			lit(`"`)
			i += 2
			continue
		}
		for _, t := range dateTokens {
			if !strings.HasPrefix(f[i:], t) && !(strings.EqualFold(f[i:min(i+len(t), len(f))], t) && caseless(t)) {
				continue
			}
			i += len(t)
			switch t {
			case "FM":
				fm = true
				continue next
			case "FX", "TM":
				continue next
			}
			tok := dateToken{name: t, fill: fm}
			fm = false
			if strings.HasPrefix(f[i:], "TH") || strings.HasPrefix(f[i:], "th") {
				tok.suffix = f[i : i+2]
				i += 2
			}
			out = append(out, tok)
			continue next
		}
		_, n := utf8.DecodeRuneInString(f[i:])
		lit(f[i : i+n])
		i += n
	}
	return out
}

// caseless tokens print numbers: their case does not change the output.
func caseless(t string) bool {
	switch t {
	case "MONTH", "MON", "DAY", "DY", "AM", "PM", "A.M.", "P.M.", "AD", "BC", "A.D.", "B.C.", "RM", "TZ":
		return false
	}
	return t == strings.ToUpper(t)
}

func ordinal(n int64, upper bool) string {
	s := "th"
	if n < 0 {
		n = -n
	}
	if n%100 < 11 || n%100 > 13 {
		switch n % 10 {
		case 1:
			s = "st"
		case 2:
			s = "nd"
		case 3:
			s = "rd"
		}
	}
	if upper {
		return strings.ToUpper(s)
	}
	return s
}

// charStamp is the value that to_char prints.
type charStamp struct {
	year, month, day int
	days             int64
	us               int64 // of the day; of an interval, all of its time
	off              int
	zone             string
	interval         bool
}

func (c *charStamp) format(f string) string {
	var b strings.Builder
	hour := c.us / types.HourMicros
	for _, t := range parseDateFormat(f) {
		if t.name == "" {
			b.WriteString(t.literal)
			continue
		}
		n, width, isNum := int64(0), 0, true
		text := ""
		year := int64(c.year)
		if !c.interval && year <= 0 {
			year = 1 - year
		}
		switch t.name {
		case "HH24":
			n, width = hour, 2
		case "HH", "HH12":
			if n, width = hour%12, 2; n == 0 && !c.interval {
				n = 12
			} else if n == 0 && hour == 0 && c.interval {
				n = 12
			}
		case "MI":
			n, width = c.us/types.MinuteMicros%60, 2
		case "SS":
			n, width = c.us/types.SecondMicros%60, 2
		case "SSSS", "SSSSS":
			n = c.us / types.SecondMicros
		case "MS", "FF3":
			n, width = c.us%types.SecondMicros/1000, 3
			isNum = true
		case "US", "FF6":
			n, width = c.us%types.SecondMicros, 6
		case "FF1", "FF2", "FF4", "FF5":
			width = int(t.name[2] - '0')
			n = c.us % types.SecondMicros
			for range 6 - width {
				n /= 10
			}
		case "YYYY":
			n, width = year, 4
		case "YYY":
			n, width = year%1000, 3
		case "YY":
			n, width = year%100, 2
		case "Y":
			n, width = year%10, 1
		case "Y,YYY":
			text, isNum = fmt.Sprintf("%d,%03d", year/1000, year%1000), false
		case "IYYY", "IYY", "IY", "I":
			iy, _ := isoWeek(c.days)
			if iy <= 0 {
				iy = 1 - iy
			}
			n, width = int64(iy), len(t.name)
			for m, k := int64(10000), len(t.name); k < 4; k++ {
				m = []int64{10, 100, 1000}[len(t.name)-1]
				n = int64(iy) % m
			}
		case "MM":
			n, width = int64(c.month), 2
		case "DD":
			n, width = int64(c.day), 2
		case "DDD":
			n, width = c.days-types.DaysFromCivil(c.year, 1, 1)+1, 3
		case "IDDD":
			iy, _ := isoWeek(c.days)
			jan4 := types.DaysFromCivil(iy, 1, 4)
			n, width = c.days-(jan4-int64(isoDOW(jan4)-1))+1, 3
		case "D":
			n, width = int64(isoDOW(c.days)%7)+1, 1
		case "ID":
			n, width = int64(isoDOW(c.days)), 1
		case "WW":
			n, width = (c.days-types.DaysFromCivil(c.year, 1, 1))/7+1, 2
		case "W":
			n, width = int64((c.day-1)/7+1), 1
		case "IW":
			_, w := isoWeek(c.days)
			n, width = int64(w), 2
		case "Q":
			n, width = int64((c.month-1)/3+1), 1
		case "CC":
			n, width = (year+99)/100, 2
		case "J":
			n = c.days + 2451545
		default:
			isNum = false
			text = c.word(t)
		}
		if isNum {
			if t.fill && t.name != "MS" && t.name != "US" && !strings.HasPrefix(t.name, "FF") {
				text = strconv.FormatInt(n, 10)
			} else {
				text = fmt.Sprintf("%0*d", width, n)
			}
			if t.suffix != "" {
				text += ordinal(n, t.suffix == "TH")
			}
		}
		b.WriteString(text)
	}
	return b.String()
}

func (c *charStamp) word(t dateToken) string {
	padTo := func(s string, n int) string {
		if t.fill || len(s) >= n {
			return s
		}
		return s + strings.Repeat(" ", n-len(s))
	}
	month, day := "", dayNames[isoDOW(c.days)%7]
	if c.month >= 1 {
		month = monthNames[c.month-1]
	}
	short := func(s string) string { return s[:min(3, len(s))] }
	pm := c.us/types.HourMicros%24 >= 12
	switch t.name {
	case "MONTH":
		return padTo(strings.ToUpper(month), 9)
	case "Month":
		return padTo(month, 9)
	case "month":
		return padTo(strings.ToLower(month), 9)
	case "MON":
		return strings.ToUpper(short(month))
	case "Mon":
		return short(month)
	case "mon":
		return strings.ToLower(short(month))
	case "DAY":
		return padTo(strings.ToUpper(day), 9)
	case "Day":
		return padTo(day, 9)
	case "day":
		return padTo(strings.ToLower(day), 9)
	case "DY":
		return strings.ToUpper(short(day))
	case "Dy":
		return short(day)
	case "dy":
		return strings.ToLower(short(day))
	case "AM", "PM":
		return choose(pm, "PM", "AM")
	case "am", "pm":
		return choose(pm, "pm", "am")
	case "A.M.", "P.M.":
		return choose(pm, "P.M.", "A.M.")
	case "a.m.", "p.m.":
		return choose(pm, "p.m.", "a.m.")
	case "AD", "BC":
		return choose(c.year <= 0, "BC", "AD")
	case "ad", "bc":
		return choose(c.year <= 0, "bc", "ad")
	case "A.D.", "B.C.":
		return choose(c.year <= 0, "B.C.", "A.D.")
	case "a.d.", "b.c.":
		return choose(c.year <= 0, "b.c.", "a.d.")
	case "RM", "rm":
		if c.month < 1 {
			return ""
		}
		s := padTo(roman[c.month-1], 4)
		if t.name == "rm" {
			return strings.ToLower(s)
		}
		return s
	case "TZ":
		return c.zone
	case "tz":
		return strings.ToLower(c.zone)
	case "TZH", "TZM", "OF":
		sign, off := "+", c.off
		if off < 0 {
			sign, off = "-", -off
		}
		switch {
		case t.name == "TZH":
			return fmt.Sprintf("%s%02d", sign, off/3600)
		case t.name == "TZM":
			return fmt.Sprintf("%02d", off/60%60)
		case off%3600 != 0:
			return fmt.Sprintf("%s%02d:%02d", sign, off/3600, off/60%60)
		}
		return fmt.Sprintf("%s%02d", sign, off/3600)
	}
	return ""
}

func stampChars(local int64) *charStamp {
	c := &charStamp{}
	c.days, c.us = types.SplitMicros(local)
	c.year, c.month, c.day = types.CivilFromDays(c.days)
	return c
}

// formatMax bounds a format's text, which is read anew in each call.
const formatMax = 4 << 10

// boundFormats makes the functions refuse longer formats.
func boundFormats(r *Registry) {
	for _, name := range []string{"to_char", "to_date", "to_timestamp", "to_number"} {
		for _, o := range r.funcs[name] {
			if f := o.Eval2; f != nil && len(o.Args) == 2 {
				o.set2(func(ctx *Context, a, b types.Datum) (types.Datum, error) {
					if len(b.Str()) > formatMax {
						return types.Null, sqlstate.New(sqlstate.ProgramLimitExceeded, "format is longer than %d bytes", formatMax)
					}
					return f(ctx, a, b)
				})
			}
		}
	}
}

func addToChar(r *Registry) {
	defer boundFormats(r)
	r.Func2("to_char(timestamp, text) text", func(_ *Context, a, b types.Datum) (types.Datum, error) {
		if types.IsInfinite(a.Micros()) || b.Str() == "" {
			return types.Null, nil
		}
		return str(stampChars(a.Micros()).format(b.Str()))
	})
	r.Func2("to_char(timestamptz, text) text", func(ctx *Context, a, b types.Datum) (types.Datum, error) {
		if types.IsInfinite(a.Micros()) || b.Str() == "" {
			return types.Null, nil
		}
		loc := types.LocationOrUTC(ctx.TextEnv().Location)
		local := types.LocalMicros(a.Micros(), loc)
		c := stampChars(local)
		c.off = int((local - a.Micros()) / types.SecondMicros)
		c.zone, _ = types.TimeFromMicros(a.Micros()).In(loc).Zone()
		return str(c.format(b.Str()))
	}).Stable()
	r.Func2("to_char(interval, text) text", func(_ *Context, a, b types.Datum) (types.Datum, error) {
		if b.Str() == "" {
			return types.Null, nil
		}
		m, d, us := a.Interval()
		c := &charStamp{year: int(m / 12), month: int(m % 12), day: int(d), us: us, interval: true}
		return str(c.format(b.Str()))
	})
	addNumberTemplates(r)
	r.Func2("to_date(text, text) date", func(_ *Context, a, b types.Datum) (types.Datum, error) {
		days, _, _, err := parseByFormat(a.Str(), b.Str())
		return types.NewDate(days), err
	})
	r.Func2("to_timestamp(text, text) timestamptz", func(ctx *Context, a, b types.Datum) (types.Datum, error) {
		days, us, off, err := parseByFormat(a.Str(), b.Str())
		if err != nil {
			return types.Null, err
		}
		local := days*types.DayMicros + us
		if off != nil {
			return stampOf(local - int64(*off)*types.SecondMicros)
		}
		return stampOf(types.UTCMicros(local, types.LocationOrUTC(ctx.TextEnv().Location)))
	}).Stable()
}

// parseByFormat reads a date by a template, for to_date and to_timestamp.
func parseByFormat(s, format string) (days, us int64, off *int, err error) {
	year, month, day, doy := 1, 1, 1, 0
	if !strings.ContainsAny(strings.ToUpper(format), "YJI") {
		year = 0
	}
	var h, mi, sec, frac, julian int64
	pm, am, bc, haveJ := false, false, false, false
	orig := s
	bad := func(v, field string) error {
		e := sqlstate.New(sqlstate.InvalidDatetimeFormat, "invalid value %q for %q", types.Raw(v), types.Raw(field))
		return e.WithDetail("Value must be an integer.")
	}
	number := func(field string, width int) (int64, error) {
		s = strings.TrimLeft(s, " ")
		i := 0
		if i < len(s) && (s[i] == '-' || s[i] == '+') {
			i++
		}
		for i < len(s) && s[i] >= '0' && s[i] <= '9' && (width == 0 || i < width) {
			i++
		}
		n, err := strconv.ParseInt(s[:i], 10, 64)
		if err != nil {
			return 0, bad(s[:min(len(s), max(width, 1))], field)
		}
		s = s[i:]
		return n, nil
	}
	pickName := func(field string, names []string, minLen int) (int, error) {
		s = strings.TrimLeft(s, " ")
		low := strings.ToLower(s)
		for _, short := range []bool{false, true} {
			for i, n := range names {
				n = strings.ToLower(n)
				if short {
					n = n[:minLen]
				}
				if strings.HasPrefix(low, n) {
					s = s[len(n):]
					return i, nil
				}
			}
		}
		return 0, sqlstate.New(sqlstate.InvalidDatetimeFormat, "invalid value %q for %q", types.Raw(s), types.Raw(field)).
			WithDetail("The given value did not match any of the allowed values for this field.")
	}
	toks := parseDateFormat(format)
	for ti, t := range toks {
		if t.name == "" {
			for _, c := range t.literal {
				switch {
				case c == ' ':
					s = strings.TrimLeft(s, " ")
				case s != "":
					r, w := utf8.DecodeRuneInString(s)
					letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
					if r == c || !letter {
						s = s[w:]
					}
				}
			}
			continue
		}
		if strings.TrimSpace(s) == "" {
			break
		}
		// A number is taken whole if what follows it in the template is no digit.
		wide := ti+1 == len(toks) || toks[ti+1].name == ""
		width := func(n int) int {
			if wide {
				return 0
			}
			return n
		}
		var n int64
		switch t.name {
		case "YYYY", "IYYY":
			if n, err = number(t.name, width(4)); err == nil {
				year = int(n)
			}
		case "YYY", "YY", "Y", "IYY", "IY", "I":
			if n, err = number(t.name, len(t.name)); err == nil {
				if year = int(n); n < 70 {
					year += 2000
				} else if n < 100 {
					year += 1900
				}
			}
		case "MM":
			n, err = number(t.name, 2)
			month = int(n)
		case "DD":
			n, err = number(t.name, 2)
			day = int(n)
		case "DDD":
			n, err = number(t.name, 3)
			doy = int(n)
		case "HH24", "HH", "HH12":
			h, err = number(t.name, 2)
		case "MI":
			mi, err = number(t.name, 2)
		case "SS":
			sec, err = number(t.name, 2)
		case "SSSS", "SSSSS":
			n, err = number(t.name, 5)
			h, mi, sec = n/3600, n/60%60, n%60
		case "MS", "US", "FF1", "FF2", "FF3", "FF4", "FF5", "FF6":
			w := 6
			if t.name == "MS" {
				w = 3
			}
			before := s
			if n, err = number(t.name, w); err == nil {
				used := len(strings.TrimLeft(before, " ")) - len(s)
				for range 6 - used {
					n *= 10
				}
				frac = n
			}
		case "J":
			julian, err = number(t.name, 0)
			haveJ = true
		case "MONTH", "Month", "month", "MON", "Mon", "mon":
			var i int
			i, err = pickName(t.name, monthNames[:], 3)
			month = i + 1
		case "DAY", "Day", "day", "DY", "Dy", "dy":
			_, err = pickName(t.name, dayNames[:], 3)
		case "AM", "PM", "am", "pm", "A.M.", "P.M.", "a.m.", "p.m.":
			s = strings.TrimLeft(s, " ")
			low := strings.ReplaceAll(strings.ToLower(s), ".", "")
			switch {
			case strings.HasPrefix(low, "am"):
				am = true
			case strings.HasPrefix(low, "pm"):
				pm = true
			default:
				err = sqlstate.New(sqlstate.InvalidDatetimeFormat, "invalid value %q for %q", types.Raw(s), types.Raw(t.name))
			}
			s = s[min(len(t.name), len(s)):]
		case "BC", "AD", "bc", "ad", "B.C.", "A.D.", "b.c.", "a.d.":
			bc = strings.HasPrefix(strings.ToLower(strings.TrimLeft(s, " ")), "b")
			s = s[min(len(t.name), len(s)):]
		case "TZH":
			n, err = number(t.name, 3)
			o := int(n) * 3600
			off = &o
		case "TZM":
			n, err = number(t.name, 2)
			if off != nil {
				*off += int(n) * 60
			}
		case "D", "ID", "W", "Q", "CC", "WW", "IW":
			_, err = number(t.name, len(t.name))
		}
		if err != nil {
			return 0, 0, nil, err
		}
	}
	outOfRange := sqlstate.New(sqlstate.DatetimeOverflow, "date/time field value out of range: %q", types.Raw(orig))
	if pm || am {
		if h < 1 || h > 12 {
			return 0, 0, nil, sqlstate.New(sqlstate.InvalidDatetimeFormat, "hour \"%d\" is invalid for the 12-hour clock", h).
				WithHint("Use the 24-hour clock, or give an hour between 1 and 12.")
		}
		h %= 12
		if pm {
			h += 12
		}
	}
	if bc {
		year = 1 - year
	}
	if haveJ {
		days = julian - 2451545
	} else {
		if month < 1 || month > 12 || day < 1 || day > types.DaysInMonth(year, month) || year > 294276 {
			return 0, 0, nil, outOfRange
		}
		days = types.DaysFromCivil(year, month, day)
		if doy > 0 {
			days = types.DaysFromCivil(year, 1, 1) + int64(doy) - 1
		}
	}
	if h > 23 && !(h == 24 && mi == 0 && sec == 0) || mi > 59 || sec > 59 || h < 0 || mi < 0 || sec < 0 {
		return 0, 0, nil, outOfRange
	}
	return days, h*types.HourMicros + mi*types.MinuteMicros + sec*types.SecondMicros + frac, off, nil
}
