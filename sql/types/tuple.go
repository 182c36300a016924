package types

import (
	"strings"

	"meridian/sql/sqlstate"
)

// parseTuple reads (1,"a b",) as a row of the type's fields; nothing between two commas is NULL.
func parseTuple(t *T, s string, env Env) (Datum, error) {
	malformed := func(detail string) (Datum, error) {
		return Null, sqlstate.New(sqlstate.InvalidTextRepresentation, "malformed record literal: %q", Raw(s)).WithDetail("%s", detail)
	}
	p := strings.TrimLeft(s, " \t\n\r\v\f")
	if p == "" || p[0] != '(' {
		return malformed("Missing left parenthesis.")
	}
	p = p[1:]
	out := &Tuple{Types: t.Fields, Elems: make([]Datum, len(t.Fields))}
	for i, f := range t.Fields {
		if i > 0 {
			if p == "" || p[0] != ',' {
				return malformed("Too few columns.")
			}
			p = p[1:]
		}
		if p != "" && (p[0] == ',' || p[0] == ')') {
			continue // NULL
		}
		var word []byte
		quoted := false
		for {
			if p == "" {
				return malformed("Unexpected end of input.")
			}
			c := p[0]
			if !quoted && (c == ',' || c == ')') {
				break
			}
			p = p[1:]
			switch {
			case c == '\\':
				if p == "" {
					return malformed("Unexpected end of input.")
				}
				word, p = append(word, p[0]), p[1:]
			case c == '"' && quoted && p != "" && p[0] == '"':
				word, p = append(word, '"'), p[1:]
			case c == '"':
				quoted = !quoted
			default:
				word = append(word, c)
			}
		}
		d, err := ParseTextEnv(f.Bare(), string(word), env)
		if err == nil && f.Typmod() >= 0 {
			d, err = Cast(env, d, f.Bare(), f, false)
		}
		if err != nil {
			return Null, err
		}
		out.Elems[i] = d
	}
	if p == "" || p[0] != ')' {
		return malformed("Too many columns.")
	}
	if trimSpace(p[1:]) != "" {
		return malformed("Junk after right parenthesis.")
	}
	return NewTuple(out), nil
}
