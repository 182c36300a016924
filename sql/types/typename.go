package types

import (
	"slices"
	"strconv"
	"strings"

	"meridian/sql/sqlstate"
)

// TypeName is the name of a type as in regtype's input. Parts are the names between dots, folded to lower case where they are not
// in quotes.
type TypeName struct {
	Parts []string
	// Exact says that the name is not a word of the grammar: it is in quotes, or has a schema.
	Exact    bool
	Modified bool
	Array    bool
	// plain is the text without the brackets of an array, for FromName.
	plain string
}

// ParseTypeName reads the syntax of PostgreSQL's parseTypeString.
func ParseTypeName(s string) (TypeName, error) {
	p := nameParser{text: s, toks: nil}
	if err := p.lex(); err != nil {
		return TypeName{}, err
	}
	if len(p.toks) == 0 {
		return TypeName{}, sqlstate.New(sqlstate.SyntaxError, "invalid type name \"%s\"", s)
	}
	if p.word("setof") {
		return TypeName{}, sqlstate.New(sqlstate.SyntaxError, "invalid type name \"%s\"", s)
	}
	return p.typeName()
}

// Find is the built-in type of the name; false if there is none.
func (n TypeName) Find() (*T, bool) {
	last := n.Parts[len(n.Parts)-1]
	var t *T
	switch {
	case len(n.Parts) > 1 && n.Parts[len(n.Parts)-2] != "pg_catalog":
		return nil, false
	case !n.Exact:
		switch n.Parts[0] {
		case "serial", "serial2", "serial4", "serial8", "smallserial", "bigserial", "string", "bytes", "blob", "int64":
			return nil, false // words of the grammar that are not types
		}
		found, ok := FromName(n.plain)
		if !ok {
			return nil, false
		}
		t = found.Bare()
	default:
		for _, x := range scalars {
			if kinds[x.Kind].typname == last {
				t = x
			} else if kinds[x.Kind].array != 0 && "_"+kinds[x.Kind].typname == last {
				t = ArrayOf(x)
			}
		}
		if t == nil {
			return nil, false
		}
	}
	if n.Array {
		t = ArrayOf(t)
	}
	return t, true
}

// String is the name with dots, as in error messages.
func (n TypeName) String() string { return strings.Join(n.Parts, ".") }

// parseACLItem checks an item of a list of rights: grantee=letters/grantor.
func parseACLItem(s string) (Datum, error) {
	at := 0
	for quoted := false; at < len(s) && (quoted || s[at] != '='); at++ {
		if s[at] == '"' {
			quoted = !quoted
		}
	}
	if at == len(s) {
		return Null, sqlstate.New(sqlstate.InvalidTextRepresentation, "missing \"=\" sign")
	}
	rights, _, granted := strings.Cut(s[at+1:], "/")
	for i := range len(rights) {
		if !strings.ContainsRune("arwdDxtXUCTcsA", rune(rights[i])) && (rights[i] != '*' || i == 0) {
			return Null, sqlstate.New(sqlstate.InvalidTextRepresentation, "invalid mode character: must be one of \"arwdDxtXUCTcsA\"")
		}
	}
	if !granted {
		s += "/root"
	}
	return NewString(s), nil
}

// nameToken is a word, a name in quotes, a number, or a sign.
type nameToken struct {
	text   string // as it was written
	name   string // folded, or without its quotes
	quoted bool
	word   bool
	number bool
}

// maxNameTokens bounds the parts of a name; the rest is not read. A name of more than maxNameShown bytes is not repeated in errors.
const maxNameTokens, maxNameShown = 64, 4096

type nameParser struct {
	text string
	toks []nameToken
	at   int
}

func (p *nameParser) fail(message string) error {
	e := sqlstate.New(sqlstate.SyntaxError, "%s", message)
	if len(p.text) < maxNameShown {
		e.Context = "invalid type name \"" + p.text + "\""
	}
	return e
}

// unexpected is the syntax error at the next token.
func (p *nameParser) unexpected() error {
	if p.at >= len(p.toks) {
		return p.fail("syntax error at end of input")
	}
	return p.fail("syntax error at or near \"" + p.toks[p.at].text + "\"")
}

func letter(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c >= 0x80
}
func digit(c byte) bool { return c >= '0' && c <= '9' }

func (p *nameParser) lex() error {
	s := p.text
	for i := 0; i < len(s) && len(p.toks) < maxNameTokens; {
		switch c := s[i]; {
		case c == ' ' || c >= '\t' && c <= '\r':
			i++
		case strings.HasPrefix(s[i:], "--"):
			if n := strings.IndexByte(s[i:], '\n'); n >= 0 {
				i += n
			} else {
				i = len(s)
			}
		case c == '"':
			j := i + 1
			for j < len(s) && (s[j] != '"' || j+1 < len(s) && s[j+1] == '"') {
				if s[j] == '"' {
					j++
				}
				j++
			}
			if j >= len(s) {
				return p.fail("unterminated quoted identifier at or near \"" + s[i:] + "\"")
			}
			name := strings.ReplaceAll(s[i+1:j], `""`, `"`)
			if name == "" {
				return p.fail("zero-length delimited identifier at or near \"\"\"\"")
			}
			p.toks = append(p.toks, nameToken{text: s[i : j+1], name: name, quoted: true})
			i = j + 1
		case letter(c):
			j := i
			for j < len(s) && (letter(s[j]) || digit(s[j]) || s[j] == '$') {
				j++
			}
			p.toks = append(p.toks, nameToken{text: s[i:j], name: strings.ToLower(s[i:j]), word: true})
			i = j
		case digit(c):
			j := i
			for j < len(s) && digit(s[j]) {
				j++
			}
			if j < len(s) && s[j] == '.' {
				for j++; j < len(s) && digit(s[j]); {
					j++
				}
			}
			if j+1 < len(s) && (s[j] == 'e' || s[j] == 'E') && digit(s[j+1]) {
				for j++; j < len(s) && digit(s[j]); {
					j++
				}
			}
			if j < len(s) && letter(s[j]) {
				return p.fail("trailing junk after numeric literal at or near \"" + s[i:j+1] + "\"")
			}
			p.toks = append(p.toks, nameToken{text: s[i:j], name: s[i:j], number: true})
			i = j
		default:
			p.toks = append(p.toks, nameToken{text: s[i : i+1], name: s[i : i+1]})
			i++
		}
	}
	return nil
}

// word passes a word over, sign a sign; they report whether it was there.
func (p *nameParser) word(w string) bool {
	if p.at < len(p.toks) && p.toks[p.at].word && p.toks[p.at].name == w {
		p.at++
		return true
	}
	return false
}

func (p *nameParser) sign(c string) bool {
	if t := p.at; t < len(p.toks) && !p.toks[t].word && !p.toks[t].quoted && p.toks[t].name == c {
		p.at++
		return true
	}
	return false
}

func (p *nameParser) typeName() (TypeName, error) {
	var n TypeName
	t := p.toks[0]
	if !t.word && !t.quoted || t.word && t.name == "none" {
		return n, p.unexpected()
	}
	p.at = 1
	n.Parts, n.Exact = []string{t.name}, t.quoted
	var plain []string
	if p.sign(".") {
		n.Exact = true
		for again := true; again; again = p.sign(".") {
			if p.at >= len(p.toks) || !p.toks[p.at].word && !p.toks[p.at].quoted {
				return n, p.unexpected()
			}
			n.Parts = append(n.Parts, p.toks[p.at].name)
			p.at++
		}
	} else if t.word {
		plain = append(plain, t.name)
		words := func(list ...string) {
			for _, w := range list {
				if p.word(w) {
					plain = append(plain, w)
				}
			}
		}
		switch t.name {
		case "double":
			if !p.word("precision") {
				return n, p.unexpected()
			}
			plain = append(plain, "precision")
		case "national":
			if !p.word("character") && !p.word("char") {
				return n, p.unexpected()
			}
			plain = []string{"character"}
			words("varying")
		case "nchar":
			plain = []string{"character"}
			words("varying")
		case "character", "char", "bit":
			words("varying")
		case "interval":
			for p.at < len(p.toks) && p.toks[p.at].word && slices.Contains([]string{"year", "month", "day", "hour", "minute", "second", "to"}, p.toks[p.at].name) {
				plain = append(plain, p.toks[p.at].name)
				p.at++
			}
		}
	}
	if p.sign("(") {
		n.Modified = true
		var mods []string
		for again := true; again; again = p.sign(",") {
			minus := ""
			if p.sign("-") {
				minus = "-"
			}
			if p.at >= len(p.toks) || !p.toks[p.at].number {
				return n, p.unexpected()
			}
			if _, err := strconv.ParseInt(p.toks[p.at].name, 10, 32); err != nil {
				return n, p.unexpected()
			}
			mods = append(mods, minus+p.toks[p.at].name)
			p.at++
		}
		if !p.sign(")") {
			return n, p.unexpected()
		}
		if len(plain) > 0 && t.name != "interval" {
			plain = append(plain, "("+strings.Join(mods, ",")+")")
		}
	}
	if t.word && !n.Exact && (t.name == "time" || t.name == "timestamp") {
		if with, without := p.word("with"), p.word("without"); with || without {
			if !p.word("time") || !p.word("zone") {
				return n, p.unexpected()
			}
			plain = append(plain, map[bool]string{true: "with", false: "without"}[with], "time", "zone")
		}
	}
	if t.word && !n.Exact && t.name == "interval" {
		plain = plain[:1] // fields do not change the type
	}
	for p.sign("[") {
		n.Array = true
		if p.at < len(p.toks) && p.toks[p.at].number {
			p.at++
		}
		if !p.sign("]") {
			return n, p.unexpected()
		}
	}
	if !n.Array && p.word("array") {
		n.Array = true
		if p.sign("[") {
			if p.at < len(p.toks) && p.toks[p.at].number {
				p.at++
			}
			if !p.sign("]") {
				return n, p.unexpected()
			}
		}
	}
	if p.at < len(p.toks) {
		return n, p.unexpected()
	}
	n.plain = strings.Join(plain, " ")
	return n, nil
}
