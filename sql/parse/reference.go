package parse

import (
	"strconv"
	"strings"
)

// TypeReference is the name of a type in a stored text by its identity: ::@16400, or CAST(x AS @16400).
type TypeReference struct {
	OID   uint32
	Array bool // ::@16400[]
	// Literal is the string constant that is cast to the type, if it is one.
	Literal    string
	HasLiteral bool
}

// TypeReferences calls f for each type that a stored text names by its identity. It returns the text with the literal and the type, without its
// brackets, replaced by the results of f; a type for which f returns an empty name stays as it is.
func TypeReferences(text string, f func(TypeReference) (literal, name string)) string {
	if !strings.Contains(text, "@") {
		return text
	}
	toks, err := lex(text, 0, nil)
	if err != nil {
		return text
	}
	var b strings.Builder
	at := int32(0)
	put := func(t Token, s string) {
		b.WriteString(text[at:t.Pos])
		b.WriteString(s)
		at = t.End
	}
	for i := 1; i+1 < len(toks); i++ {
		sign, number := toks[i], toks[i+1]
		if sign.Kind != Op || sign.Text(text) != "@" || number.Kind != Number || sign.End != number.Pos {
			continue
		}
		if before := toks[i-1].Text(text); before != "::" && !strings.EqualFold(before, "as") {
			continue
		}
		oid, err := strconv.ParseUint(number.Text(text), 10, 32)
		if err != nil {
			continue
		}
		r := TypeReference{OID: uint32(oid), Array: i+2 < len(toks) && toks[i+2].Text(text) == "["}
		var constant Token
		if i > 1 && toks[i-2].Kind == String {
			constant = toks[i-2]
			r.Literal, r.HasLiteral = unquoted(constant.Text(text))
		}
		literal, name := f(r)
		if name == "" {
			name = "@" + strconv.FormatUint(oid, 10)
		}
		if r.HasLiteral && literal != r.Literal {
			put(constant, QuoteLiteral(literal))
		}
		put(Token{Pos: sign.Pos, End: number.End}, name)
	}
	b.WriteString(text[at:])
	return b.String()
}

// unquoted is the value of a string constant in a stored text: plain, or with backslash escapes for backslashes and quotes.
func unquoted(s string) (string, bool) {
	escapes := len(s) > 0 && (s[0] == 'e' || s[0] == 'E')
	if escapes {
		s = s[1:]
	}
	if len(s) < 2 || s[0] != '\'' {
		return "", false
	}
	s = s[1 : len(s)-1]
	if !escapes {
		return strings.ReplaceAll(s, "''", "'"), true
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '\\' && i+1 < len(s):
			i++
			if strings.IndexByte(`\'"`, s[i]) < 0 {
				return "", false
			}
		case s[i] == '\'':
			i++
		}
		b.WriteByte(s[i])
	}
	return b.String(), true
}
