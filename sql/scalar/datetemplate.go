package scalar

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// nodeKind is what a part of a template stands for.
type nodeKind byte

const (
	nodePattern nodeKind = iota
	nodeSpace
	nodeSeparator // punctuation
	nodeChar      // another character, or a quoted one
)

// templateNode is a part of the template of to_char, to_date and to_timestamp.
type templateNode struct {
	kind    nodeKind
	name    string // of a pattern, as it is written
	upper   string // the same in capitals
	fill    bool   // FM
	named   bool   // TM: names are not padded
	ordinal string // TH or th, else empty
	char    string // of the other kinds
}

// datePattern is the template pattern at the front of s, as it is written: in capitals, in small letters, or some of them capitalized.
func datePattern(s string) string {
	patterns := [...]string{"HH24", "HH12", "SSSSS", "SSSS", "Y,YYY", "IYYY", "YYYY", "MONTH", "IDDD", "A.D.", "B.C.", "A.M.", "P.M.", "FF1", "FF2",
		"FF3", "FF4", "FF5", "FF6", "DAY", "DDD", "IYY", "MON", "TZH", "TZM", "YYY", "AD", "AM", "BC", "CC", "DD", "DY", "FX", "HH", "ID", "IW",
		"IY", "MI", "MM", "MS", "OF", "PM", "RM", "SS", "TZ", "US", "WW", "YY", "D", "I", "J", "Q", "W", "Y"}
	for _, p := range patterns {
		if len(s) < len(p) || !strings.EqualFold(s[:len(p)], p) {
			continue
		}
		switch got := s[:len(p)]; {
		case got == p, got == strings.ToLower(p):
			return got
		case (p == "MONTH" || p == "MON" || p == "DAY" || p == "DY") && got == p[:1]+strings.ToLower(p[1:]):
			return got
		}
	}
	return ""
}

func parseTemplate(f string) []templateNode {
	var out []templateNode
	char := func(kind nodeKind) {
		_, n := utf8.DecodeRuneInString(f)
		out = append(out, templateNode{kind: kind, char: f[:n]})
		f = f[n:]
	}
	hasPrefix := func(upper string) bool {
		return strings.HasPrefix(f, upper) || strings.HasPrefix(f, strings.ToLower(upper))
	}
	for f != "" {
		n := templateNode{}
		switch {
		case hasPrefix("FM"):
			n.fill = true
			f = f[2:]
		case hasPrefix("TM"):
			n.named = true
			f = f[2:]
		}
		if p := datePattern(f); p != "" {
			n.name, n.upper = p, strings.ToUpper(p)
			f = f[len(p):]
			switch {
			case hasPrefix("TH"):
				n.ordinal = f[:2]
				f = f[2:]
			case strings.HasPrefix(f, "SP"):
				f = f[2:]
			}
			out = append(out, n)
			continue
		}
		switch {
		case f == "":
		case f[0] == '"':
			f = f[1:]
			for f != "" && f[0] != '"' {
				if f[0] == '\\' && len(f) > 1 {
					f = f[1:]
				}
				char(nodeChar)
			}
			f = f[min(1, len(f)):]
		default:
			if strings.HasPrefix(f, `\"`) {
				f = f[1:]
			}
			kind := nodeChar
			switch {
			case isSeparator(f[0]):
				kind = nodeSeparator
			case isBlank(f[0]):
				kind = nodeSpace
			}
			char(kind)
		}
	}
	return out
}

func isSeparator(c byte) bool {
	return c > ' ' && c < 0x7f && !isDigitByte(c) && (c|0x20 < 'a' || c|0x20 > 'z')
}
func isBlank(c byte) bool     { return c == ' ' || c >= '\t' && c <= '\r' }
func isDigitByte(c byte) bool { return c >= '0' && c <= '9' }

func monthNames() [12]string {
	return [...]string{"January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"}
}

func dayNames() [7]string {
	return [...]string{"Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"}
}

// romanMonths counts down, as a month's longer numbers come before their prefixes.
func romanMonths() [12]string {
	return [...]string{"XII", "XI", "X", "IX", "VIII", "VII", "VI", "V", "IV", "III", "II", "I"}
}

// ordinal is the ending of a number in English.
func ordinal(digits string, upper bool) string {
	s := "th"
	if n := len(digits); n < 2 || digits[n-2] != '1' {
		switch digits[n-1] {
		case '1':
			s = "st"
		case '2':
			s = "nd"
		case '3':
			s = "rd"
		}
	}
	if upper {
		return strings.ToUpper(s)
	}
	return s
}

// charStamp is the value that to_char prints. Years are astronomical; all fields of an interval have its sign.
type charStamp struct {
	year, month, day int
	days             int64 // since 2000
	yearDay          int
	us               int64 // of the day; of an interval, all of its time
	off              int
	zone             string
	interval         bool
}

// shownYear is a year as it is printed, counted from 1 on both sides of the era.
func (c *charStamp) shownYear(y int) int64 {
	if !c.interval && y <= 0 {
		return int64(1 - y)
	}
	return int64(y)
}

func (c *charStamp) format(nodes []templateNode) (string, error) {
	var b strings.Builder
	hour := c.us / types.HourMicros
	isoYear, isoWeekNo := isoWeek(c.days)
	for _, t := range nodes {
		if t.kind != nodePattern {
			b.WriteString(t.char)
			continue
		}
		// A negative number has its sign before as many digits.
		number := func(n int64, width int) string {
			if t.fill {
				return strconv.FormatInt(n, 10)
			}
			if n < 0 {
				width++
			}
			return fmt.Sprintf("%0*d", width, n)
		}
		// The width of a year of weeks is that of the year: of an interval, the one may be negative and the other not.
		isoNumber := func(n int64, width int) string {
			if n < 0 && c.year >= 0 {
				width--
			}
			return number(n, width)
		}
		micros := c.us % types.SecondMicros
		text, isNumber := "", true
		switch t.upper {
		case "FX":
			continue
		case "HH", "HH12":
			n := hour % 12
			if n == 0 {
				n = 12
			}
			width := 2
			if hour < 0 {
				width = 3
			}
			if text = strconv.FormatInt(n, 10); !t.fill {
				text = fmt.Sprintf("%0*d", width, n)
			}
		case "HH24":
			text = number(hour, 2)
		case "MI":
			text = number(c.us/types.MinuteMicros%60, 2)
		case "SS":
			text = number(c.us/types.SecondMicros%60, 2)
		case "SSSS", "SSSSS":
			text = strconv.FormatInt(c.us/types.SecondMicros, 10)
		case "MS", "FF3":
			text = fmt.Sprintf("%03d", micros/1000)
		case "US", "FF6":
			text = fmt.Sprintf("%06d", micros)
		case "FF1", "FF2", "FF4", "FF5":
			width := int(t.upper[2] - '0')
			for range 6 - width {
				micros /= 10
			}
			text = fmt.Sprintf("%0*d", width, micros)
		case "YYYY":
			text = number(c.shownYear(c.year), 4)
		case "YYY":
			text = number(c.shownYear(c.year)%1000, 3)
		case "YY":
			text = number(c.shownYear(c.year)%100, 2)
		case "Y":
			text = number(c.shownYear(c.year)%10, 1)
		case "Y,YYY":
			y := c.shownYear(c.year)
			text = fmt.Sprintf("%d,%03d", y/1000, y%1000)
		case "IYYY":
			text = isoNumber(c.shownYear(isoYear), 4)
		case "IYY":
			text = isoNumber(c.shownYear(isoYear)%1000, 3)
		case "IY":
			text = isoNumber(c.shownYear(isoYear)%100, 2)
		case "I":
			text = isoNumber(c.shownYear(isoYear)%10, 1)
		case "MM":
			text = number(int64(c.month), 2)
		case "DD":
			if text = strconv.Itoa(c.day); !t.fill {
				text = fmt.Sprintf("%02d", c.day)
			}
		case "DDD":
			if text = strconv.Itoa(c.yearDay); !t.fill {
				text = fmt.Sprintf("%03d", c.yearDay)
			}
		case "IDDD":
			text = number(c.days-isoStart(isoYear)+1, 3)
		case "WW":
			if text = strconv.Itoa((c.yearDay-1)/7 + 1); !t.fill {
				text = fmt.Sprintf("%02d", (c.yearDay-1)/7+1)
			}
		case "IW":
			text = number(int64(isoWeekNo), 2)
		case "W":
			text = strconv.Itoa((c.day-1)/7 + 1)
		case "Q":
			if c.month == 0 {
				continue
			}
			text = strconv.Itoa((c.month-1)/3 + 1)
		case "CC":
			n := int64(c.year / 100)
			switch {
			case c.interval:
			case c.year > 0:
				n = int64((c.year-1)/100 + 1)
			default:
				n--
			}
			text = number(n, 2)
		case "J":
			text = strconv.FormatInt(c.days+2451545, 10)
		default:
			isNumber = false
			switch t.upper {
			case "RM", "AM", "PM", "A.M.", "P.M.":
			default:
				if !c.interval {
					break
				}
				return "", sqlstate.New(sqlstate.InvalidDatetimeFormat, "invalid format specification for an interval value").
					WithHint("Intervals are not tied to specific calendar dates.")
			}
			switch t.upper {
			case "D":
				text, isNumber = strconv.Itoa(isoDOW(c.days)%7+1), true
			case "ID":
				text, isNumber = strconv.Itoa(isoDOW(c.days)), true
			default:
				text = c.word(t)
			}
		}
		if t.ordinal != "" && isNumber {
			text += ordinal(text, t.ordinal == "TH")
		}
		b.WriteString(text)
	}
	return b.String(), nil
}

// word is a pattern that is printed as a word, in the case in which the pattern is written.
func (c *charStamp) word(t templateNode) string {
	pad := func(s string, n int) string {
		if t.fill || len(s) >= n {
			return s
		}
		return s + strings.Repeat(" ", n-len(s))
	}
	cased := func(s string) string {
		switch t.name {
		case t.upper:
			return strings.ToUpper(s)
		case strings.ToLower(t.name):
			return strings.ToLower(s)
		}
		return s
	}
	day := dayNames()[isoDOW(c.days)%7]
	padding := 9
	if t.named {
		padding = 0
	}
	switch t.upper {
	case "MONTH":
		return cased(pad(monthNames()[c.month-1], padding))
	case "MON":
		return cased(monthNames()[c.month-1][:3])
	case "DAY":
		return cased(pad(day, padding))
	case "DY":
		return cased(day[:3])
	case "AM", "PM":
		return cased(choose(c.us/types.HourMicros%24 >= 12, "pm", "am"))
	case "A.M.", "P.M.":
		return cased(choose(c.us/types.HourMicros%24 >= 12, "p.m.", "a.m."))
	case "AD", "BC":
		return cased(choose(c.year <= 0, "bc", "ad"))
	case "A.D.", "B.C.":
		return cased(choose(c.year <= 0, "b.c.", "a.d."))
	case "RM":
		i := 12 - c.month
		switch {
		case c.month == 0 && c.year == 0:
			return ""
		case c.month == 0: // whole years
			if i = 0; c.year < 0 {
				i = 11
			}
		case c.month < 0: // counted back from December
			i = -(c.month + 1)
		}
		return cased(pad(romanMonths()[i], 4))
	case "TZ":
		if t.name == "tz" {
			return strings.ToLower(c.zone)
		}
		return c.zone
	}
	sign, off := "+", c.off
	if off < 0 {
		sign, off = "-", -off
	}
	switch t.upper {
	case "TZH":
		return fmt.Sprintf("%s%02d", sign, off/3600)
	case "TZM":
		return fmt.Sprintf("%02d", off/60%60)
	}
	hours := strconv.Itoa(off / 3600) // OF
	if !t.fill && len(hours) < 2 {
		hours = "0" + hours
	}
	if off%3600 != 0 {
		hours += fmt.Sprintf(":%02d", off/60%60)
	}
	return sign + hours
}

func stampChars(local int64) *charStamp {
	c := &charStamp{}
	c.days, c.us = types.SplitMicros(local)
	c.year, c.month, c.day = types.CivilFromDays(c.days)
	c.yearDay = int(c.days-types.DaysFromCivil(c.year, 1, 1)) + 1
	return c
}

// intervalChars takes an interval for a date, as PostgreSQL does for patterns that ask for one.
func intervalChars(d types.Datum) *charStamp {
	m, days, us := d.Interval()
	c := &charStamp{year: int(m / 12), month: int(m % 12), day: int(days), us: us, interval: true}
	c.days = addMonths(types.DaysFromCivil(c.year, 1, 1), int32(c.month-1)) + int64(days) - 1
	c.yearDay = int(m*30 + days)
	return c
}

// addDateTemplates adds to_char of dates and intervals, to_date and to_timestamp.
func addDateTemplates(r *Registry) {
	r.Func2("to_char(timestamp, text) text", func(_ *Context, a, b types.Datum) (types.Datum, error) {
		if types.IsInfinite(a.Micros()) || b.Str() == "" {
			return types.Null, nil
		}
		s, err := stampChars(a.Micros()).format(parseTemplate(b.Str()))
		return types.NewString(s), err
	})
	r.Func2("to_char(timestamptz, text) text", func(ctx *Context, a, b types.Datum) (types.Datum, error) {
		if types.IsInfinite(a.Micros()) || b.Str() == "" {
			return types.Null, nil
		}
		loc := types.LocationOrUTC(ctx.TextEnv().Location)
		c := stampChars(types.LocalMicros(a.Micros(), loc))
		c.zone, c.off = types.ZoneShown(a.Micros(), loc)
		s, err := c.format(parseTemplate(b.Str()))
		return types.NewString(s), err
	}).Stable()
	r.Func2("to_char(interval, text) text", func(_ *Context, a, b types.Datum) (types.Datum, error) {
		if b.Str() == "" {
			return types.Null, nil
		}
		s, err := intervalChars(a).format(parseTemplate(b.Str()))
		return types.NewString(s), err
	})
	r.Func2("to_date(text, text) date", func(_ *Context, a, b types.Datum) (types.Datum, error) {
		v, err := readByTemplate(a.Str(), b.Str())
		if err != nil {
			return types.Null, err
		}
		if types.CheckDate(v.days) != nil {
			return types.Null, sqlstate.New(sqlstate.DatetimeOverflow, "date out of range: %q", types.Raw(a.Str()))
		}
		return types.NewDate(v.days), nil
	})
	r.Func2("to_timestamp(text, text) timestamptz", func(ctx *Context, a, b types.Datum) (types.Datum, error) {
		v, err := readByTemplate(a.Str(), b.Str())
		if err != nil {
			return types.Null, err
		}
		if v.days > 110000000 || v.days < -3000000 {
			return types.Null, timestampRange()
		}
		local := v.days*types.DayMicros + v.us
		if v.zoned {
			local -= int64(v.east) * types.SecondMicros
		} else {
			local = types.UTCMicros(local, types.LocationOrUTC(ctx.TextEnv().Location))
		}
		if v.precision > 0 {
			local = types.RoundMicros(local, v.precision)
		}
		return stampOf(local)
	}).Stable()
}
