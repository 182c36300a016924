package scalar

import (
	"strconv"
	"strings"

	"golang.org/x/text/unicode/norm"

	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// addUnicode adds normalize, is_normalized and unistr.
func addUnicode(r *Registry) {
	form := func(name string) (norm.Form, error) {
		switch strings.ToUpper(name) {
		case "NFC":
			return norm.NFC, nil
		case "NFD":
			return norm.NFD, nil
		case "NFKC":
			return norm.NFKC, nil
		case "NFKD":
			return norm.NFKD, nil
		}
		return 0, sqlstate.New(sqlstate.InvalidParameterValue, "invalid normalization form: %s", name)
	}
	normal := func(s, name string) (types.Datum, error) {
		f, err := form(name)
		if err != nil {
			return types.Null, err
		}
		return str(f.String(s))
	}
	isNormal := func(s, name string) (types.Datum, error) {
		f, err := form(name)
		if err != nil {
			return types.Null, err
		}
		return boolean(f.IsNormalString(s))
	}
	r.Func1("normalize(text) text", func(_ *Context, a types.Datum) (types.Datum, error) { return normal(a.Str(), "NFC") })
	r.Func2("normalize(text, text) text", func(_ *Context, a, b types.Datum) (types.Datum, error) { return normal(a.Str(), b.Str()) })
	r.Func1("is_normalized(text) bool", func(_ *Context, a types.Datum) (types.Datum, error) { return isNormal(a.Str(), "NFC") })
	r.Func2("is_normalized(text, text) bool", func(_ *Context, a, b types.Datum) (types.Datum, error) { return isNormal(a.Str(), b.Str()) })
	r.Func1("unistr(text) text", func(_ *Context, a types.Datum) (types.Datum, error) {
		s, err := unistr(a.Str())
		return types.NewString(s), err
	})
}

// unistr replaces \XXXX, \+XXXXXX, \uXXXX and \UXXXXXXXX by the characters that they name.
func unistr(s string) (string, error) {
	invalid := func(what string) error { return sqlstate.New(sqlstate.SyntaxError, "invalid Unicode %s", what) }
	var b strings.Builder
	high := rune(0) // the first half of a surrogate pair
	for s != "" {
		if s[0] != '\\' || strings.HasPrefix(s, `\\`) {
			if high != 0 {
				return "", invalid("surrogate pair")
			}
			b.WriteByte(s[0])
			s = strings.TrimPrefix(s[1:], choose(s[0] == '\\', `\`, ""))
			continue
		}
		rest, digits := s[1:], 4
		switch {
		case strings.HasPrefix(rest, "+"):
			rest, digits = rest[1:], 6
		case strings.HasPrefix(rest, "u"):
			rest = rest[1:]
		case strings.HasPrefix(rest, "U"):
			rest, digits = rest[1:], 8
		}
		if len(rest) < digits {
			return "", invalid("escape").(*sqlstate.Error).WithHint("Unicode escapes must be \\XXXX, \\+XXXXXX, \\uXXXX, or \\UXXXXXXXX.")
		}
		v, err := strconv.ParseUint(rest[:digits], 16, 32)
		if err != nil {
			return "", invalid("escape").(*sqlstate.Error).WithHint("Unicode escapes must be \\XXXX, \\+XXXXXX, \\uXXXX, or \\UXXXXXXXX.")
		}
		s = rest[digits:]
		c := rune(v)
		switch {
		case v == 0 || v > 0x10FFFF:
			return "", sqlstate.New(sqlstate.InvalidParameterValue, "invalid Unicode code point: %04X", v)
		case c >= 0xD800 && c < 0xDC00 && high == 0:
			high = c
			continue
		case c >= 0xDC00 && c < 0xE000 && high != 0:
			c, high = 0x10000+(high-0xD800)<<10+(c-0xDC00), 0
		case high != 0 || c >= 0xD800 && c < 0xE000:
			return "", invalid("surrogate pair")
		}
		b.WriteRune(c)
	}
	if high != 0 {
		return "", invalid("surrogate pair")
	}
	return b.String(), nil
}
