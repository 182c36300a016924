package types

import (
	"strings"

	"meridian/sql/sqlstate"
)

func malformedArray(s, detail string) error {
	return sqlstate.New(sqlstate.InvalidTextRepresentation, "malformed array literal: %q", Raw(s)).WithDetail("%s", detail)
}

// parseArray reads {a,"b c",NULL}.
func parseArray(t *T, s string, env Env) (Datum, error) {
	p := trimSpace(s)
	if i := strings.IndexByte(p, '='); i > 0 && p[0] == '[' {
		// Explicit bounds are accepted only if they start at one.
		if !strings.HasPrefix(p, "[1:") {
			return Null, sqlstate.New(sqlstate.FeatureNotSupported, "array bounds other than 1 are not supported")
		}
		p = trimSpace(p[i+1:])
	}
	if p == "" || p[0] != '{' {
		return Null, malformedArray(s, `Array value must start with "{" or dimension information.`)
	}
	a := &Array{Elem: t.Elem}
	p = strings.TrimLeft(p[1:], " \t\n\r\v\f")
	if strings.HasPrefix(p, "}") {
		if trimSpace(p[1:]) != "" {
			return Null, malformedArray(s, "Junk after closing right brace.")
		}
		return NewArray(a), nil
	}
	for {
		var word []byte
		quoted, done := false, false
		i := 0
		for i < len(p) && strings.IndexByte(" \t\n\r\v\f", p[i]) >= 0 {
			i++
		}
		keep := 0 // bytes of word up to the last that is not an unquoted blank
		for ; i < len(p) && !done; i++ {
			switch c := p[i]; c {
			case '"':
				if quoted && keep != len(word) || !quoted && keep > 0 {
					return Null, malformedArray(s, "Incorrectly quoted array element.")
				}
				quoted = true
				for i++; i < len(p) && p[i] != '"'; i++ {
					if p[i] == '\\' && i+1 < len(p) {
						i++
					}
					word = append(word, p[i])
				}
				if i >= len(p) {
					return Null, malformedArray(s, "Unexpected end of input.")
				}
				keep = len(word)
			case '\\':
				if i++; i >= len(p) {
					return Null, malformedArray(s, "Unexpected end of input.")
				}
				word = append(word, p[i])
				keep = len(word)
				quoted = true
			case '{':
				return Null, sqlstate.New(sqlstate.FeatureNotSupported, "multidimensional arrays are not supported")
			case ',', '}':
				done = true
				i--
			default:
				word = append(word, c)
				if strings.IndexByte(" \t\n\r\v\f", c) < 0 {
					if quoted && p[i-1] == '"' {
						return Null, malformedArray(s, "Incorrectly quoted array element.")
					}
					keep = len(word)
				}
			}
		}
		if !done {
			return Null, malformedArray(s, "Unexpected end of input.")
		}
		text := string(word[:keep])
		switch {
		case !quoted && text == "":
			return Null, malformedArray(s, `Unexpected "`+p[i:i+1]+`" character.`)
		case !quoted && strings.EqualFold(text, "null"):
			a.Elems = append(a.Elems, Null)
		default:
			d, err := ParseTextEnv(t.Elem, text, env)
			if err != nil {
				return Null, err
			}
			a.Elems = append(a.Elems, d)
		}
		end := p[i] == '}'
		p = p[i+1:]
		if end {
			break
		}
	}
	if trimSpace(p) != "" {
		return Null, malformedArray(s, "Junk after closing right brace.")
	}
	return NewArray(a), nil
}

func appendArray(buf []byte, a *Array, t *T, style *Style) []byte {
	elem := a.Elem
	if t != nil && t.Kind == KindArray && t.Elem != nil && t.Elem.Kind != KindAnyElement {
		elem = t.Elem
	}
	buf = append(buf, '{')
	for i, e := range a.Elems {
		if i > 0 {
			buf = append(buf, ',')
		}
		if e.IsNull() {
			buf = append(buf, "NULL"...)
			continue
		}
		start := len(buf)
		buf = AppendText(buf, e, elem, style)
		if needsArrayQuotes(buf[start:]) {
			text := string(buf[start:])
			buf = append(buf[:start], '"')
			for j := 0; j < len(text); j++ {
				if text[j] == '"' || text[j] == '\\' {
					buf = append(buf, '\\')
				}
				buf = append(buf, text[j])
			}
			buf = append(buf, '"')
		}
	}
	return append(buf, '}')
}

func needsArrayQuotes(b []byte) bool {
	if len(b) == 0 || len(b) == 4 && strings.EqualFold(string(b), "null") {
		return true
	}
	for _, c := range b {
		switch c {
		case '"', '\\', '{', '}', ',', ' ', '\t', '\n', '\r', '\v', '\f':
			return true
		}
	}
	return false
}

func appendTuple(buf []byte, tu *Tuple, style *Style) []byte {
	buf = append(buf, '(')
	for i, e := range tu.Elems {
		if i > 0 {
			buf = append(buf, ',')
		}
		if e.IsNull() {
			continue
		}
		var t *T
		if i < len(tu.Types) {
			t = tu.Types[i]
		}
		start := len(buf)
		buf = AppendText(buf, e, t, style)
		quote := len(buf) == start
		for _, c := range buf[start:] {
			switch c {
			case '"', '\\', '(', ')', ',', ' ', '\t', '\n', '\r', '\v', '\f':
				quote = true
			}
		}
		if quote {
			text := string(buf[start:])
			buf = append(buf[:start], '"')
			for j := 0; j < len(text); j++ {
				if text[j] == '"' || text[j] == '\\' {
					buf = append(buf, text[j])
				}
				buf = append(buf, text[j])
			}
			buf = append(buf, '"')
		}
	}
	return append(buf, ')')
}

// parseVector reads the blank-separated form of int2vector and oidvector.
func parseVector(t *T, s string, env Env) (Datum, error) {
	elem := Int2
	if t.Kind == KindOIDVector {
		elem = OID
	}
	a := &Array{Elem: elem}
	for _, f := range strings.Fields(s) {
		d, err := ParseTextEnv(elem, f, env)
		if err != nil {
			return Null, err
		}
		a.Elems = append(a.Elems, d)
	}
	return NewArray(a), nil
}
