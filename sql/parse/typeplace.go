package parse

import (
	"slices"
	"strings"

	"meridian/sql/sqlstate"
)

// typeName is a type as it stands in a statement: its name is toks[from:name], its modifiers toks[name:mods], and its array bounds
// toks[mods:end].
type typeName struct{ from, name, mods, end int }

// tokenEdit replaces the tokens [from, to) by a text.
type tokenEdit struct {
	from, to int
	text     string
}

// typeFinder finds the types of a statement from its tokens: a word or a bracket is part of a type only where PostgreSQL's grammar has a type and
// nothing else. These places are
//
//	x::T    CAST(x AS T)    T 'text'
//	CREATE TABLE t (c T, ...)    ALTER TABLE t ADD c T, ALTER c TYPE T
//	FROM f() AS a (c T, ...)
//
// So ARRAY[7] and a[1] in a default, a check or a view's query are never read as array bounds, because the type ends before them.
type typeFinder struct {
	src   string
	toks  []Token
	edits []tokenEdit
}

func (f *typeFinder) is(i int, w string) bool {
	return i >= 0 && i < len(f.toks) && isWord(f.toks[i], f.src, w)
}

func (f *typeFinder) any(i int, words ...string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return f.is(i, w) })
}

func (f *typeFinder) punct(i int, p string) bool {
	return i >= 0 && i < len(f.toks) && isPunct(f.toks[i], f.src, p)
}

// name reports whether a token may be a name: a quoted identifier, or a word that PostgreSQL does not reserve.
func (f *typeFinder) name(i int) bool {
	if i < 0 || i >= len(f.toks) {
		return false
	}
	t := f.toks[i]
	return t.Kind == Quoted || t.Kind == Word && !reservedWord(Fold(t.Text(f.src)))
}

// group is the token behind a parenthesis that opens at i; len(toks)+1: it is not closed.
func (f *typeFinder) group(i int) int {
	for depth := 0; i < len(f.toks); i++ {
		switch {
		case f.punct(i, "("):
			depth++
		case f.punct(i, ")"):
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return len(f.toks) + 1
}

// scan reads the type that begins at a token.
func (f *typeFinder) scan(i int) (t typeName, ok bool) {
	if f.is(i, "setof") {
		i++
	}
	if !f.name(i) {
		return t, false
	}
	t.from, t.name = i, i+1
	for f.punct(t.name, ".") && t.name+1 < len(f.toks) && (f.toks[t.name+1].Kind == Word || f.toks[t.name+1].Kind == Quoted) {
		t.name += 2
	}
	single := t.name == i+1
	if single && (f.is(i, "national") && f.any(i+1, "character", "char") || f.is(i, "double") && f.is(i+1, "precision")) {
		t.name++
	}
	if single && f.any(t.name-1, "character", "char", "nchar", "bit") && f.is(t.name, "varying") {
		t.name++
	}
	t.mods = t.name
	if single && f.is(i, "interval") {
		// The fields come before the precision.
		for f.any(t.mods, "year", "month", "day", "hour", "minute", "second", "to") {
			t.mods++
		}
	}
	if f.punct(t.mods, "(") {
		if t.mods = f.group(t.mods); t.mods > len(f.toks) {
			return t, false
		}
	}
	if single && f.any(i, "time", "timestamp") && f.any(t.mods, "with", "without") && f.is(t.mods+1, "time") && f.is(t.mods+2, "zone") {
		t.mods += 3
	}
	t.end = t.mods
	number := func(i int) bool { return i < len(f.toks) && f.toks[i].Kind == Number }
	if f.is(t.end, "array") {
		if t.end++; f.punct(t.end, "[") && number(t.end+1) && f.punct(t.end+2, "]") {
			t.end += 3
		}
		return t, true
	}
	for {
		switch {
		case f.punct(t.end, "[") && f.punct(t.end+1, "]"):
			t.end += 2
			continue
		case f.punct(t.end, "[") && number(t.end+1) && f.punct(t.end+2, "]"):
			t.end += 3
			continue
		}
		return t, true
	}
}

// parenthesis is the kind of a parenthesis that has not been closed.
type parenthesis uint8

const (
	anyParenthesis  parenthesis = iota
	castParenthesis             // of CAST(x AS T)
	columnsOfTable              // of CREATE TABLE
	columnsOfResult             // of a function's result: FROM f() AS a (c T)
)

// findTypes returns the replacements of the statement's types, in order: the grammar accepts other forms than PostgreSQL's.
func findTypes(src string, toks []Token) ([]tokenEdit, error) {
	f := &typeFinder{src: src, toks: toks}
	var buf [32]parenthesis
	open := buf[:0]
	columns := f.tableColumns()
	alters := f.is(0, "alter") && f.is(1, "table")
	action := 0 // the first token of an action of ALTER TABLE
	if alters {
		action = f.firstAction()
	}
	var err error
	for i := 0; i < len(toks) && err == nil; i++ {
		top := anyParenthesis
		if len(open) > 0 {
			top = open[len(open)-1]
		}
		next := i
		switch t := toks[i]; t.Kind {
		case Punct:
			switch src[t.Pos] {
			case '(':
				kind := anyParenthesis
				switch {
				case i == columns:
					kind = columnsOfTable
				case f.is(i-1, "cast"):
					kind = castParenthesis
				case f.ofResult(i):
					kind = columnsOfResult
				}
				if open = append(open, kind); kind == columnsOfTable || kind == columnsOfResult {
					next, err = f.column(i+1, kind)
				}
			case '[':
				open = append(open, anyParenthesis)
			case ')', ']':
				if len(open) > 0 {
					open = open[:len(open)-1]
				}
			case ',':
				switch {
				case top == columnsOfTable || top == columnsOfResult:
					next, err = f.column(i+1, top)
				case alters && len(open) == 0:
					next, err = f.alter(i + 1)
				}
			case ':':
				if t.End-t.Pos >= 2 && src[t.Pos+1] == ':' {
					next, err = f.typeAt(i+1, i)
				}
			}
		case Word, Quoted:
			switch {
			case top == castParenthesis && f.is(i, "as"):
				next, err = f.typeAt(i+1, i)
			case alters && i == action && i > 0:
				next, err = f.alter(i)
			case !f.punct(i-1, "."):
				next, err = f.literal(i)
			}
		}
		i = max(i, next)
	}
	return f.edits, err
}

// typeAt notes the replacements of a type that begins at a token; it returns its last token, or otherwise if there is none.
func (f *typeFinder) typeAt(i, otherwise int) (last int, err error) {
	t, ok := f.scan(i)
	if !ok {
		return otherwise, nil
	}
	if name := identText(f.toks[i], f.src); t.name == i+1 && isSerial(name) {
		f.edits = append(f.edits, tokenEdit{from: i, to: t.name, text: "pg_catalog." + name})
	}
	return t.end - 1, f.replace(t)
}

// column finds the type of a column's definition that begins at a token, and returns its last token, or the token before the definition.
func (f *typeFinder) column(i int, in parenthesis) (last int, err error) {
	if i >= len(f.toks) || f.toks[i].Kind != Word && f.toks[i].Kind != Quoted {
		return i - 1, nil
	}
	if in == columnsOfTable && f.any(i, "constraint", "check", "unique", "primary", "foreign", "exclude", "like", "index", "inverted", "family", "vector") {
		return i - 1, nil
	}
	t, ok := f.scan(i + 1)
	if !ok || in == columnsOfResult && !(f.punct(t.end, ",") || f.punct(t.end, ")") || f.is(t.end, "collate")) {
		return i - 1, nil
	}
	return t.end - 1, f.replace(t)
}

// tableColumns is the parenthesis of CREATE TABLE's columns; -1: the statement has none.
func (f *typeFinder) tableColumns() int {
	i := 1
	for f.any(i, "global", "local", "temp", "temporary", "unlogged") {
		i++
	}
	if !f.is(0, "create") || !f.is(i, "table") {
		return -1
	}
	if i++; f.is(i, "if") && f.is(i+1, "not") && f.is(i+2, "exists") {
		i += 3
	}
	for i++; f.punct(i, "."); i += 2 {
	}
	if f.punct(i, "(") {
		return i
	}
	return -1
}

// ofResult reports whether the parenthesis at i encloses the columns of a function's result: it follows AS, an alias after AS, or an alias
// after a call.
func (f *typeFinder) ofResult(i int) bool {
	if !f.name(i+1) || f.punct(i+2, ",") || f.punct(i+2, ")") {
		return false
	}
	return f.is(i-1, "as") || f.name(i-1) && (f.is(i-2, "as") || f.punct(i-2, ")"))
}

// firstAction is the token behind the name of ALTER TABLE.
func (f *typeFinder) firstAction() int {
	i := 2
	if f.is(i, "if") && f.is(i+1, "exists") {
		i += 2
	}
	if f.is(i, "only") {
		i++
	}
	for i++; f.punct(i, "."); i += 2 {
	}
	return i
}

// alter finds the type in an action of ALTER TABLE that begins at a token.
func (f *typeFinder) alter(i int) (last int, err error) {
	at := i + 1
	if f.is(at, "column") {
		at++
	}
	switch {
	case f.is(i, "add"):
		if f.is(at, "if") && f.is(at+1, "not") && f.is(at+2, "exists") {
			at += 3
		}
		return f.columnAfter(at, i)
	case f.is(i, "alter"):
		if f.is(at+1, "set") && f.is(at+2, "data") {
			at += 2
		}
		if f.is(at+1, "type") {
			return f.typeAt(at+2, i)
		}
	}
	return i - 1, nil
}

// columnAfter is column, for a definition that does not follow a comma.
func (f *typeFinder) columnAfter(at, otherwise int) (last int, err error) {
	if last, err = f.column(at, columnsOfTable); last < at {
		return otherwise, err
	}
	return last, err
}

// literal finds T 'text' at a token, for the types that the grammar does not accept there.
func (f *typeFinder) literal(i int) (last int, err error) {
	t := f.toks[i]
	if t.Kind == Word && f.punct(i+1, "(") && foldsTo(t.Text(f.src), "point", "polygon") {
		// The grammar has these words for types alone, and in PostgreSQL they are names of functions, too.
		f.edits = append(f.edits, tokenEdit{from: i, to: i + 1, text: `"` + Fold(t.Text(f.src)) + `"`})
		return i, nil
	}
	if t.Kind == Word && f.punct(i+1, "(") && foldsTo(t.Text(f.src), "timetz", "timestamptz") {
		if end := f.group(i + 1); end >= len(f.toks) || f.toks[end].Kind != String { // a call: a cast to the type
			f.edits = append(f.edits, tokenEdit{from: i, to: i + 1, text: `"` + Fold(t.Text(f.src)) + `"`})
			return i, nil
		}
	}
	if t.Kind == Word && f.punct(i+1, "(") && f.any(i+2, "document", "content") && foldsTo(t.Text(f.src), "xmlparse", "xmlserialize") {
		return i, sqlstate.New(sqlstate.FeatureNotSupported, "type xml is not supported").WithHint("%s", noXML).At(CharPos(f.src, int(t.Pos)))
	}
	if t.Kind == Word && !refusedType(t.Text(f.src)) && !strings.EqualFold(t.Text(f.src), "json") && !otherDialect(t.Text(f.src)) || !f.name(i) {
		return i, nil
	}
	end := i + 1
	if t.Kind == Quoted && f.punct(end, "(") && hasModifier(identText(t, f.src)) {
		end = f.group(end)
	}
	if end >= len(f.toks) || f.toks[end].Kind != String {
		return i, nil
	}
	return end - 1, f.replace(typeName{from: i, name: i + 1, mods: end, end: end})
}

// replace notes how a type is written for the grammar.
func (f *typeFinder) replace(t typeName) error {
	if err := f.replaceName(t); err != nil {
		return err
	}
	// The grammar accepts one pair of empty brackets. The sizes, and the number of dimensions, mean nothing, as in PostgreSQL.
	if t.end > t.mods && !(t.end == t.mods+2 && f.punct(t.mods, "[")) {
		f.edits = append(f.edits, tokenEdit{from: t.mods, to: t.end, text: "[]"})
	}
	return nil
}

// replaceName notes how a type's name is written for the grammar, which knows PostgreSQL's names as keywords: without a schema and quotes where they
// have modifiers, and with their schema where they are quoted or mean something else to the grammar.
func (f *typeFinder) replaceName(t typeName) error {
	last := f.toks[t.name-1]
	name, quoted := identText(last, f.src), last.Kind == Quoted
	system := t.name == t.from+3 && identText(f.toks[t.from], f.src) == "pg_catalog"
	if t.name > t.from+1 && !system {
		return nil
	}
	modified := f.punct(t.name, "(")
	switch {
	case name == "char" && quoted:
		if system { // the grammar accepts it only without a schema
			f.edits = append(f.edits, tokenEdit{from: t.from, to: t.name, text: `"char"`})
		}
	case modified && hasModifier(name) && (quoted || system || name == "bpchar"):
		text := name
		if name == "bpchar" {
			text = "char"
		}
		f.edits = append(f.edits, tokenEdit{from: t.from, to: t.name, text: text})
	case modified && catalogType(name):
		return sqlstate.New(sqlstate.SyntaxError, "type modifier is not allowed for type \"%s\"", name).At(CharPos(f.src, int(f.toks[t.from].Pos)))
	case system:
	case modified && quoted && name != "bit" && name != "varbit":
		return sqlstate.New(sqlstate.UndefinedObject, "type \"%s\" does not exist", name).At(CharPos(f.src, int(f.toks[t.from].Pos)))
	case quoted && (catalogType(name) || hasModifier(name) || refusedType(name)), !quoted && (name == "json" || refusedType(name)):
		f.edits = append(f.edits, tokenEdit{from: t.from, to: t.name, text: "pg_catalog." + name})
	case otherDialect(name):
		f.edits = append(f.edits, tokenEdit{from: t.from, to: t.name, text: "pg_catalog." + name})
	}
	return nil
}

// otherDialect reports whether a word is a type to the grammar, and a name as any other in PostgreSQL.
func otherDialect(w string) bool {
	for _, t := range [...]string{"string", "bytes", "blob", "int64"} {
		if strings.EqualFold(w, t) {
			return true
		}
	}
	return false
}

// OtherDialect reports whether pg_catalog.name may stand for a name without a schema, because the grammar would take that name for a type that
// PostgreSQL does not have.
func OtherDialect(name string) bool { return otherDialect(name) || isSerial(name) }

// isSerial reports whether a name is a type only in a column's definition.
func isSerial(w string) bool {
	for _, t := range [...]string{"serial", "serial2", "serial4", "serial8", "smallserial", "bigserial"} {
		if strings.EqualFold(w, t) {
			return true
		}
	}
	return false
}

// hasModifier reports whether PostgreSQL's catalogue has a type of this name with modifiers.
func hasModifier(name string) bool {
	switch name {
	case "varchar", "bpchar", "numeric", "time", "timetz", "timestamp", "timestamptz", "interval":
		return true
	}
	return false
}

// catalogType reports whether PostgreSQL's catalogue has a type of this name that has no modifiers.
func catalogType(name string) bool {
	switch name {
	case "bool", "int2", "int4", "int8", "float4", "float8", "text", "name", "bytea", "date", "json", "jsonb", "uuid", "oid",
		"inet", "cidr", "macaddr", "macaddr8", "regclass", "regtype", "regproc", "regnamespace", "regrole":
		return true
	}
	return false
}
