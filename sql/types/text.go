package types

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"meridian/sql/sqlstate"
)

// Env is the part of a session on which text forms and casts depend. Its zero value means UTC and no current time.
type Env struct {
	Location *time.Location
	Style    *Style    // the rest of it
	Now      time.Time // the transaction's time, for 'now', 'today' and the like
	// used is set when a result depended on the environment.
	used *bool
}

func (e Env) location() *time.Location {
	if e.used != nil {
		*e.used = true
	}
	if e.Location == nil {
		return time.UTC
	}
	return e.Location
}

// order is the order of a date's numbers.
func (e Env) order() DateOrder {
	if e.used != nil {
		*e.used = true
	}
	if e.Style == nil {
		return OrderMDY
	}
	return e.Style.Order
}

// now is the current time as microseconds of local wall clock since 2000, and the location.
func (e Env) now() int64 {
	if e.used != nil {
		*e.used = true
	}
	return MicrosFromTime(e.Now)
}

// badInput is the error for a text that is not a value of the type.
func badInput(t *T, s string) error {
	return sqlstate.New(sqlstate.InvalidTextRepresentation, "invalid input syntax for type %s: %q", t.Name(), Raw(s))
}

// Raw prints a string between plain quotes under %q, as PostgreSQL's messages do, without escaping.
type Raw string

// Format writes the quotes and the text as it is.
func (r Raw) Format(f fmt.State, verb rune) {
	if verb == 'q' {
		f.Write([]byte(`"`))
		f.Write([]byte(r))
		f.Write([]byte(`"`))
		return
	}
	f.Write([]byte(r))
}

func trimSpace(s string) string { return strings.Trim(s, " \t\n\r\v\f") }

// ParseText reads the text form of a value of type t, as a column of that type accepts it. 'now' and its like need
// ParseTextEnv.
func ParseText(t *T, s string, loc *time.Location) (Datum, error) {
	return ParseTextEnv(t, s, Env{Location: loc})
}

// ParseLiteral reads a literal; constant is false if its meaning depends on the session's zone or the time.
func ParseLiteral(t *T, s string) (d Datum, constant bool, err error) {
	used := false
	d, err = ParseTextEnv(t, s, Env{used: &used})
	if !used {
		return d, true, err
	}
	// A text that no session can read is an error now, as in PostgreSQL: literals are read before the expressions around them are looked at.
	if sqlstate.Is(err, sqlstate.InvalidDatetimeFormat) {
		for _, order := range []DateOrder{OrderDMY, OrderYMD} {
			if _, other := ParseTextEnv(t, s, Env{Style: &Style{Order: order}}); !sqlstate.Is(other, sqlstate.InvalidDatetimeFormat) {
				return Null, false, nil
			}
		}
		return Null, true, err
	}
	return Null, false, nil
}

// ParseTextEnv reads the text form of a value of type t.
func ParseTextEnv(t *T, s string, env Env) (Datum, error) {
	switch t.Kind {
	case KindBool:
		b, ok := parseBool(s)
		if !ok {
			return Null, badInput(t, s)
		}
		return NewBool(b), nil
	case KindInt2:
		return parseInt(t, s, math.MinInt16, math.MaxInt16)
	case KindInt4:
		return parseInt(t, s, math.MinInt32, math.MaxInt32)
	case KindInt8:
		return parseInt(t, s, math.MinInt64, math.MaxInt64)
	case KindFloat4, KindFloat8:
		return parseFloat(t, s)
	case KindDecimal:
		d, err := ParseDecimal(s)
		if err != nil {
			return Null, err
		}
		return applyDecimalTypmod(NewDecimal(d), t)
	case KindText, KindUnknown:
		return NewString(s), nil
	case KindVarChar, KindBPChar:
		return fitString(s, t, false)
	case KindName:
		return NewString(truncateName(s)), nil
	case KindChar:
		return NewString(firstChar(s)), nil
	case KindBytes:
		return parseBytes(s)
	case KindDate:
		return parseDate(s, env)
	case KindTime:
		return parseTime(t, s, env)
	case KindTimeTZ:
		return parseTimeTZ(t, s, env)
	case KindTimestamp:
		return parseTimestamp(t, s, env)
	case KindTimestampTZ:
		return parseTimestampTZ(t, s, env)
	case KindInterval:
		d, err := parseIntervalOf(t, s, env)
		if err != nil || t.Width == 0 {
			return d, err
		}
		return fitInterval(d, t), nil
	case KindUUID:
		return parseUUID(s)
	case KindJSON:
		if err := checkJSON(s); err != nil {
			return Null, err
		}
		return NewJSON(s), nil
	case KindJSONB:
		v, err := ParseJSON(s)
		if err != nil {
			return Null, err
		}
		return NewJSON(v.String()), nil
	case KindOID, KindRegClass, KindRegType, KindRegProc, KindRegProcedure, KindRegOper, KindRegOperator, KindRegCollation, KindRegConfig,
		KindRegDictionary, KindRegNamespace, KindRegRole:
		if t.Kind != KindOID {
			if env.used != nil {
				*env.used = true
				return Null, nil
			}
			if env.Style != nil && env.Style.Names != nil {
				return env.Style.Names.ParseReg(t, s)
			}
			if s == "-" {
				return NewReg(0, "-"), nil
			}
		}
		oid, ok := ParseOID(s)
		if !ok {
			if _, err := strconv.ParseInt(trimSpace(s), 10, 64); err == nil || errors.Is(err, strconv.ErrRange) {
				return Null, sqlstate.New(sqlstate.NumericOutOfRange, "value %q is out of range for type oid", Raw(s))
			}
			if t.Kind != KindOID {
				return Null, sqlstate.New(sqlstate.UndefinedTable, "%s %q does not exist", t.Name(), Raw(s))
			}
			return Null, badInput(t, s)
		}
		return NewInt(int64(oid)), nil
	case KindACLItem:
		return parseACLItem(s)
	case KindXID8:
		return parseXID8(s), nil
	case KindEnum:
		return t.Enum.parse(t, s)
	case KindInet, KindCIDR:
		return parseNet(t, s)
	case KindMACAddr, KindMACAddr8:
		return parseMAC(t, s)
	case KindArray:
		return parseArray(t, s, env)
	case KindInt2Vector, KindOIDVector:
		return parseVector(t, s, env)
	case KindVoid:
		return Null, nil
	case KindTuple:
		if t.Names == nil {
			return Null, sqlstate.New(sqlstate.FeatureNotSupported, "input of anonymous composite types is not implemented")
		}
		return parseTuple(t, s, env)
	}
	return Null, sqlstate.New(sqlstate.FeatureNotSupported, "cannot accept a value of type %s", t.Name())
}

// ParseOID reads an unsigned 32-bit number; a negative one wraps as in PostgreSQL.
func ParseOID(s string) (uint32, bool) {
	s = trimSpace(s)
	if u, err := strconv.ParseUint(s, 10, 32); err == nil {
		return uint32(u), true
	}
	if i, err := strconv.ParseInt(s, 10, 32); err == nil {
		return uint32(i), true
	}
	return 0, false
}

// AppendText appends the text form of a value of type t. NULL appends nothing.
func AppendText(buf []byte, d Datum, t *T, style *Style) []byte {
	switch d.phys {
	case PhysNull:
		return buf
	case PhysBool:
		if d.num != 0 {
			return append(buf, 't')
		}
		return append(buf, 'f')
	case PhysInt:
		if d.str != "" {
			return append(buf, d.str...)
		}
		if t != nil && t.Kind == KindEnum {
			label, _ := t.Enum.Label(d.num)
			return append(buf, label...)
		}
		if t != nil && t.Kind == KindXID8 {
			return strconv.AppendUint(buf, d.XID8(), 10)
		}
		if t != nil && t.Kind == KindRegType {
			if x, ok := FromOID(uint32(d.num)); ok {
				return append(buf, x.Name()...)
			}
		}
		if t != nil && t.IsReg() && t.Kind != KindOID {
			if d.num == 0 {
				return append(buf, '-')
			}
			if style != nil && style.Names != nil {
				if name := style.Names.RegName(t.Kind, uint32(d.num)); name != "" {
					return append(buf, name...)
				}
			}
		}
		return strconv.AppendInt(buf, d.num, 10)
	case PhysFloat:
		return style.appendFloat(buf, d.Float(), t != nil && t.Kind == KindFloat4)
	case PhysDecimal:
		return AppendDecimal(buf, d.Decimal())
	case PhysString, PhysChar:
		if t != nil && t.Kind == KindChar && d.str != "" && d.str[0] >= utf8.RuneSelf {
			c := d.str[0] // a byte that is not ASCII is no text by itself
			return append(buf, '\\', '0'+c>>6, '0'+c>>3&7, '0'+c&7)
		}
		return append(buf, d.str...)
	case PhysBytes:
		if style != nil && style.Escape {
			return appendEscaped(buf, d.str)
		}
		buf = append(buf, '\\', 'x')
		n := len(buf)
		buf = append(buf, make([]byte, hex.EncodedLen(len(d.str)))...)
		const digits = "0123456789abcdef"
		for i := 0; i < len(d.str); i++ {
			buf[n+2*i] = digits[d.str[i]>>4]
			buf[n+2*i+1] = digits[d.str[i]&15]
		}
		return buf
	case PhysDate:
		return style.appendDate(buf, d.num)
	case PhysTime:
		buf = appendTimeOfDay(buf, d.num)
		if t != nil && t.Kind == KindTimeTZ {
			buf = appendZone(buf, int(d.zone()))
		}
		return buf
	case PhysTimestamp:
		return style.appendTimestamp(buf, d.num, t != nil && t.Kind == KindTimestampTZ)
	case PhysInterval:
		months, days, micros := d.Interval()
		return style.appendInterval(buf, months, days, micros)
	case PhysUUID:
		return appendUUID(buf, d.str)
	case PhysJSON:
		return append(buf, d.str...)
	case PhysArray:
		if t != nil && (t.Kind == KindInt2Vector || t.Kind == KindOIDVector) {
			for i, e := range d.Array().Elems {
				if i > 0 {
					buf = append(buf, ' ')
				}
				buf = strconv.AppendInt(buf, e.num, 10)
			}
			return buf
		}
		return appendArray(buf, d.Array(), t, style)
	case PhysTuple:
		return appendTuple(buf, d.Tuple(), style)
	case PhysNet:
		return appendNet(buf, d.Net(), t != nil && t.Kind == KindCIDR)
	case PhysMAC:
		return appendMAC(buf, d.str)
	}
	return buf
}

// FormatText is AppendText to a string.
func FormatText(d Datum, t *T, style *Style) string {
	if d.phys == PhysChar || d.phys == PhysString && (t == nil || t.Kind != KindChar) {
		return d.str
	}
	return string(AppendText(nil, d, t, style))
}

func parseBool(s string) (value, ok bool) {
	s = strings.ToLower(trimSpace(s))
	if s == "" {
		return false, false
	}
	switch {
	case strings.HasPrefix("true", s), strings.HasPrefix("yes", s), s == "on", s == "1":
		return true, true
	case strings.HasPrefix("false", s), strings.HasPrefix("no", s), s == "of", s == "off", s == "0":
		return false, true
	}
	return false, false
}

func parseInt(t *T, s string, lo, hi int64) (Datum, error) {
	p := trimSpace(s)
	v, err := strconv.ParseInt(p, 10, 64)
	if err != nil {
		if ne, ok := err.(*strconv.NumError); ok && ne.Err == strconv.ErrRange {
			return Null, intOutOfRange(t, s)
		}
		// Too many digits are reported before trailing characters.
		if digits := strings.TrimLeft(p, "+-"); len(p)-len(digits) <= 1 && digits != "" {
			digits, _ = takeDigits(digits)
			if n, err := strconv.ParseInt(p[:len(p)-len(strings.TrimLeft(p, "+-"))]+digits, 10, 64); digits != "" && (err != nil || n < lo || n > hi) {
				return Null, intOutOfRange(t, s)
			}
		}
		return Null, badInput(t, s)
	}
	if v < lo || v > hi {
		return Null, intOutOfRange(t, s)
	}
	return NewInt(v), nil
}

func intOutOfRange(t *T, s string) error {
	return sqlstate.New(sqlstate.NumericOutOfRange, "value %q is out of range for type %s", Raw(s), t.Name())
}

func parseFloat(t *T, s string) (Datum, error) {
	p := trimSpace(s)
	size := 64
	if t.Kind == KindFloat4 {
		size = 32
	}
	if strings.ContainsRune(p, '_') || p == "" {
		return Null, badInput(t, s)
	}
	f, err := strconv.ParseFloat(p, size)
	if err != nil {
		if ne, ok := err.(*strconv.NumError); ok && ne.Err == strconv.ErrRange {
			return Null, sqlstate.New(sqlstate.NumericOutOfRange, "%q is out of range for type %s", Raw(p), t.Name())
		}
		return Null, badInput(t, s)
	}
	if f == 0 && strings.ContainsAny(strings.TrimLeft(strings.ToLower(p), "+-0."), "123456789") && !zeroMantissa(p) {
		return Null, sqlstate.New(sqlstate.NumericOutOfRange, "%q is out of range for type %s", Raw(p), t.Name())
	}
	return NewFloat(f), nil
}

// zeroMantissa reports whether a number that reads as zero was written as zero.
func zeroMantissa(p string) bool {
	for i := 0; i < len(p); i++ {
		switch c := p[i]; {
		case c == 'e' || c == 'E' || c == 'p' || c == 'P':
			return true
		case c >= '1' && c <= '9':
			return false
		}
	}
	return true
}

// AppendFloat writes the shortest decimal that reads back as f, in the layout of PostgreSQL's output.
func AppendFloat(buf []byte, f float64, single bool) []byte {
	switch {
	case math.IsNaN(f):
		return append(buf, "NaN"...)
	case math.IsInf(f, 1):
		return append(buf, "Infinity"...)
	case math.IsInf(f, -1):
		return append(buf, "-Infinity"...)
	case f == 0:
		if math.Signbit(f) {
			return append(buf, "-0"...)
		}
		return append(buf, '0')
	}
	size, limit := 64, 1e15
	if single {
		size, limit = 32, 1e6
	}
	if a := math.Abs(f); a >= 1e-4 && a < limit {
		return strconv.AppendFloat(buf, f, 'f', -1, size)
	}
	return strconv.AppendFloat(buf, f, 'e', -1, size)
}

func truncateName(s string) string {
	if len(s) < 64 {
		return s
	}
	n := 63
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// firstChar is the byte of a "char": the first one, or that of \ooo.
func firstChar(s string) string {
	if s == "" {
		return ""
	}
	if len(s) == 4 && s[0] == '\\' && s[1] >= '0' && s[1] <= '3' && s[2] >= '0' && s[2] <= '7' && s[3] >= '0' && s[3] <= '7' {
		return string([]byte{(s[1]-'0')<<6 | (s[2]-'0')<<3 | (s[3] - '0')})
	}
	return s[:1]
}

// fitString applies the length of varchar(n) and char(n). Explicit casts cut; otherwise only blanks may be lost.
func fitString(s string, t *T, explicit bool) (Datum, error) {
	if t.Kind == KindBPChar {
		if t.Width > 0 && len(s) > int(t.Width) && utf8.RuneCountInString(s) > int(t.Width) {
			cut := runePrefix(s, int(t.Width))
			if !explicit && trimBlanks(s[len(cut):]) != "" {
				return Null, tooLong(t)
			}
			s = cut
		}
		return NewChar(padBlanks(s, int(t.Width))), nil
	}
	if t.Width > 0 && len(s) > int(t.Width) && utf8.RuneCountInString(s) > int(t.Width) {
		cut := runePrefix(s, int(t.Width))
		if !explicit && trimBlanks(s[len(cut):]) != "" {
			return Null, tooLong(t)
		}
		s = cut
	}
	return NewString(s), nil
}

// blanks is a value of many char(n) columns.
const blanks = "                                                                                                                                "

// padBlanks is s with as many blanks as make it n characters.
func padBlanks(s string, n int) string {
	if len(s) >= 4*n {
		return s
	}
	if s == "" && n <= len(blanks) {
		return blanks[:n]
	}
	if k := n - utf8.RuneCountInString(s); k > 0 {
		return s + strings.Repeat(" ", k)
	}
	return s
}

// PadChar is the char(n) of type t with the given text, which may be without its trailing blanks.
func PadChar(s string, t *T) Datum { return NewChar(padBlanks(s, int(t.Width))) }

func tooLong(t *T) error {
	return sqlstate.New(sqlstate.StringTruncation, "value too long for type %s", t.String())
}

// runePrefix is the first n characters of s.
func runePrefix(s string, n int) string {
	for i := range s {
		if n == 0 {
			return s[:i]
		}
		n--
	}
	return s
}

func parseBytes(s string) (Datum, error) {
	if strings.HasPrefix(s, `\x`) {
		out := make([]byte, 0, len(s)/2)
		half, have := byte(0), false
		for i := 2; i < len(s); i++ {
			c := s[i]
			if strings.IndexByte(" \t\n\r", c) >= 0 {
				if have {
					return Null, sqlstate.New(sqlstate.InvalidParameterValue, "invalid hexadecimal data: odd number of digits")
				}
				continue
			}
			v, ok := hexDigit(c)
			if !ok {
				r, _ := utf8.DecodeRuneInString(s[i:])
				return Null, sqlstate.New(sqlstate.InvalidParameterValue, "invalid hexadecimal digit: \"%c\"", r)
			}
			if have {
				out = append(out, half<<4|v)
			} else {
				half = v
			}
			have = !have
		}
		if have {
			return Null, sqlstate.New(sqlstate.InvalidParameterValue, "invalid hexadecimal data: odd number of digits")
		}
		return NewBytes(string(out)), nil
	}
	if strings.IndexByte(s, '\\') < 0 {
		return NewBytes(s), nil
	}
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			out = append(out, s[i])
			continue
		}
		if i+1 < len(s) && s[i+1] == '\\' {
			out = append(out, '\\')
			i++
			continue
		}
		if i+3 < len(s) && s[i+1] >= '0' && s[i+1] <= '3' && s[i+2] >= '0' && s[i+2] <= '7' && s[i+3] >= '0' && s[i+3] <= '7' {
			out = append(out, (s[i+1]-'0')<<6|(s[i+2]-'0')<<3|(s[i+3]-'0'))
			i += 3
			continue
		}
		return Null, sqlstate.New(sqlstate.InvalidTextRepresentation, "invalid input syntax for type bytea")
	}
	return NewBytes(string(out)), nil
}

func hexDigit(c byte) (byte, bool) {
	switch {
	case c >= '0' && c <= '9':
		return c - '0', true
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10, true
	case c >= 'A' && c <= 'F':
		return c - 'A' + 10, true
	}
	return 0, false
}

func parseUUID(s string) (Datum, error) {
	fail := func() (Datum, error) { return Null, badInput(UUID, s) }
	p := s
	if strings.HasPrefix(p, "{") {
		if !strings.HasSuffix(p, "}") {
			return fail()
		}
		p = p[1 : len(p)-1]
	}
	var raw [16]byte
	for i := range raw {
		if len(p) < 2 {
			return fail()
		}
		h, ok1 := hexDigit(p[0])
		l, ok2 := hexDigit(p[1])
		if !ok1 || !ok2 {
			return fail()
		}
		raw[i] = h<<4 | l
		p = p[2:]
		if i%2 == 1 && i < 15 && strings.HasPrefix(p, "-") {
			p = p[1:]
		}
	}
	if p != "" {
		return fail()
	}
	return NewUUID(raw), nil
}

func appendUUID(buf []byte, raw string) []byte {
	const digits = "0123456789abcdef"
	for i := 0; i < len(raw); i++ {
		if i == 4 || i == 6 || i == 8 || i == 10 {
			buf = append(buf, '-')
		}
		buf = append(buf, digits[raw[i]>>4], digits[raw[i]&15])
	}
	return buf
}
