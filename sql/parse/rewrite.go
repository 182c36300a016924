package parse

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/cockroachdb/cockroachdb-parser/pkg/sql/sem/tree"

	"meridian/sql/sqlstate"
)

// rewriter collects the edits of one statement's text.
type rewriter struct {
	s     *Statement
	src   string
	toks  []Token
	edits []edit
	// definitions is the number of tokens of CREATE or ALTER before the query that a view or a new table has.
	definitions int
	// stored: the text was read from a descriptor.
	stored    bool
	deferring deferring
	keywords  map[int]string // the replacements of tokens
	later     map[int]bool   // tokens at which ORDER BY of an aggregate with DISTINCT begins
}

func (r *rewriter) is(i int, w string) bool {
	return i >= 0 && i < len(r.toks) && isWord(r.toks[i], r.src, w)
}

func (r *rewriter) punct(i int, p string) bool {
	return i >= 0 && i < len(r.toks) && isPunct(r.toks[i], r.src, p)
}

// replace replaces the tokens [from, to) by a text.
func (r *rewriter) replace(from, to int, text string) {
	r.edits = append(r.edits, edit{pos: int(r.toks[from].Pos), end: int(r.toks[to-1].End), text: text})
}

// insert adds a text before a token.
func (r *rewriter) insert(i int, text string) {
	r.edits = append(r.edits, edit{pos: int(r.toks[i].Pos), end: int(r.toks[i].Pos), text: text})
}

// rewrite finds the clauses of a statement that the grammar library does not accept in PostgreSQL's form, and replaces them by forms that it
// accepts. Edits are in order and do not overlap.
func rewrite(s *Statement, toks []Token, stored bool) ([]edit, error) {
	r := &rewriter{s: s, src: s.Source, toks: toks, stored: stored}
	if r.is(0, "create") || r.is(0, "alter") {
		r.definitions = queryOf(r.src, toks)
	}
	cuts, err := r.cuts()
	if err != nil {
		return nil, err
	}
	types, err := findTypes(r.src, toks)
	if err != nil {
		return nil, err
	}
	sets, err := r.assignments()
	if err != nil {
		return nil, err
	}
	named := findNamed(r.src, toks)
	for i := 0; i < len(toks); i++ {
		t := toks[i]
		if len(cuts) > 0 && i == cuts[0].from {
			c := cuts[0]
			cuts = cuts[1:]
			if c.to > i {
				r.replace(i, c.to, c.text)
				i = c.to - 1
				continue
			}
			r.insert(i, c.text)
		}
		if n := sets.brackets[i]; n > 0 { // the brackets of the target are moved behind the value
			r.replace(i, i+n, "")
			i += n - 1
			continue
		}
		if text := sets.before[i]; text != "" {
			r.insert(i, text)
		}
		if k := named.close[i]; k > 0 {
			r.insert(i, strings.Repeat(")", k))
		}
		if text := named.open[i]; text != "" {
			r.replace(i, i+2, text)
			i++
			continue
		}
		if last, ok := r.isUnknown(i); ok {
			i = last
			continue
		}
		if text := r.keywords[i]; text != "" {
			r.replace(i, i+1, text)
			continue
		}
		if r.later[i] {
			r.insert(i, ") WITHIN GROUP (")
		}
		if int(t.End-t.Pos) > MaxIdentifier && (t.Kind == Word || t.Kind == Quoted) {
			if name, whole := identText(t, r.src), wholeIdent(t, r.src); name != whole {
				r.s.Truncated = append(r.s.Truncated, whole)
				r.replace(i, i+1, `"`+strings.ReplaceAll(name, `"`, `""`)+`"`)
				continue
			}
		}
		if t.Kind == Number {
			if n, ok := reduction(r.src, toks, i); ok {
				r.s.Reduced = append(r.s.Reduced, n)
				r.replace(i, i+1, "6")
				continue
			}
		}
		if len(types) > 0 && i == types[0].from {
			r.replace(i, types[0].to, types[0].text)
			i, types = types[0].to-1, types[1:]
			continue
		}
		switch t.Kind {
		case Op:
			r.operator(i)
		case String:
			if err := r.bits(i); err != nil {
				return nil, err
			}
			if text, err := r.escapes(i); err != nil {
				return nil, err
			} else if text != "" {
				r.replace(i, i+1, text)
			}
		case Punct:
			if !stored && i >= r.definitions && r.punct(i, "[") && r.noSubscript(i) {
				return nil, syntaxError(s.Source, t)
			}
		case Word:
			if i, err = r.word(i); err != nil {
				return nil, err
			}
		}
	}
	if text := sets.before[len(toks)]; text != "" {
		r.edits = append(r.edits, edit{pos: s.End, end: s.End, text: text})
	}
	return r.edits, nil
}

// assignments finds the targets of assignments that are written with brackets, whose brackets are moved behind the values.
func (r *rewriter) assignments() (subscripted, error) {
	s, toks, stored := r.s, r.toks, r.stored
	sets := assignments(r.src, toks)
	if sets.missing > 0 {
		if sets.missing < len(toks) {
			return sets, syntaxError(s.Source, toks[sets.missing])
		}
		return sets, syntaxError(s.Source, Token{EOF, int32(s.End), int32(s.End)})
	}
	for _, m := range sets.moved {
		brackets, err := rewrittenText(s, toks[m.from:m.to], stored)
		if err != nil {
			return sets, err
		}
		sets.before[m.before] += "))" + brackets + " "
	}
	return sets, nil
}

// isUnknown replaces IS UNKNOWN and IS NOT UNKNOWN: the grammar makes the same of them and of IS NULL, but for the type of the operand.
func (r *rewriter) isUnknown(i int) (last int, ok bool) {
	if !isWord(r.toks[i], r.src, "is") {
		return i, false
	}
	switch {
	case r.is(i+1, "unknown") && !r.is(i+2, "is"): // which does not follow DISTINCT FROM
		r.replace(i, i+2, "IS NOT DISTINCT FROM "+unknownTruth)
		return i + 1, true
	case r.is(i+1, "not") && r.is(i+2, "unknown") && !r.is(i+3, "is"):
		r.replace(i, i+3, "IS DISTINCT FROM "+unknownTruth)
		return i + 2, true
	}
	return i, false
}

// operator replaces an operator that the grammar does not have.
func (r *rewriter) operator(i int) {
	t := r.toks[i]
	if t.Text(r.src) == "^@" {
		r.replace(i, i+1, StartsWith)
	}
	if text, ok := likeOperator(t.Text(r.src)); ok {
		r.replace(i, i+1, text)
	} else if text, ok := r.unknown(i, i+1, t.Text(r.src)); ok {
		r.replace(i, i+1, text)
	}
}

// rewrittenText is the grammar's text of a part of a statement.
func rewrittenText(s *Statement, toks []Token, stored bool) (string, error) {
	edits, err := rewrite(s, toks, stored)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	at := int(toks[0].Pos)
	for _, e := range edits {
		b.WriteString(s.Source[at:e.pos])
		b.WriteString(e.text)
		at = e.end
	}
	b.WriteString(s.Source[at:toks[len(toks)-1].End])
	return b.String(), nil
}

// bits refuses a constant of type bit, because the grammar takes it for bytes.
func (r *rewriter) bits(i int) error {
	c := r.src[r.toks[i].Pos] | 0x20
	if r.stored || c != 'b' && c != 'x' {
		return nil
	}
	return sqlstate.New(sqlstate.FeatureNotSupported, "bit string constants are not supported").
		WithHint("Write bytes as '\\x1F'::bytea, and bits as an integer.").At(CharPos(r.src, int(r.toks[i].Pos)))
}

// escapes refuses a Unicode escape of E'...' that is no character, of which the grammar says no more than that the syntax is invalid, and writes pairs of escapes, which
// it does not know, as the characters. Empty: the text can stay.
func (r *rewriter) escapes(i int) (string, error) {
	t := r.toks[i]
	text := r.src[t.Pos:t.End]
	if text[0]|0x20 != 'e' || !strings.Contains(text, `\u`) && !strings.Contains(text, `\U`) {
		return "", nil
	}
	fail := func(code sqlstate.Code, k int, format string, args ...any) *sqlstate.Error {
		return sqlstate.New(code, format, args...).At(CharPos(r.src, int(t.Pos)+k))
	}
	pair := func(k int) error { // the text at k does not go on with the second half of a pair
		n := escapeLen(text[k:])
		if n == 0 {
			_, n = utf8.DecodeRuneInString(text[k:])
		}
		return fail(sqlstate.SyntaxError, k, "invalid Unicode surrogate pair at or near \"%s\"", text[k:k+n])
	}
	var b strings.Builder
	high, pairs := rune(0), false
	for k := 0; k < len(text); {
		n := escapeLen(text[k:])
		if n == 0 {
			if high != 0 {
				return "", pair(k)
			}
			n = 1
			if text[k] == '\\' && k+2 < len(text) {
				if text[k+1]|0x20 == 'u' {
					return "", fail(sqlstate.InvalidEscape, k, "invalid Unicode escape").WithHint("Unicode escapes must be \\uXXXX or \\UXXXXXXXX.")
				}
				n = 2
			}
			b.WriteString(text[k : k+n])
			k += n
			continue
		}
		v, _ := strconv.ParseUint(text[k+2:k+n], 16, 32)
		c := rune(min(v, utf8.MaxRune+1))
		switch low := c >= 0xdc00 && c < 0xe000; {
		case (high != 0) != low:
			return "", pair(k)
		case low:
			b.WriteRune(utf16.DecodeRune(high, c))
			high, pairs = 0, true
		case c >= 0xd800 && c < 0xdc00:
			high = c
		case c == 0 || c > utf8.MaxRune:
			return "", fail(sqlstate.SyntaxError, k, "invalid Unicode escape value at or near \"%s\"", text[k:k+n])
		default:
			b.WriteString(text[k : k+n])
		}
		k += n
	}
	if !pairs {
		return "", nil
	}
	return b.String(), nil
}

// escapeLen is the length of the escape \uXXXX or \UXXXXXXXX at the beginning of a text; zero: there is none.
func escapeLen(s string) int {
	n := 0
	switch {
	case strings.HasPrefix(s, `\u`):
		n = 6
	case strings.HasPrefix(s, `\U`):
		n = 10
	}
	if n == 0 || len(s) < n || strings.Trim(s[2:n], "0123456789abcdefABCDEF") != "" {
		return 0
	}
	return n
}

// queryOf is the first token of the query of CREATE VIEW and CREATE TABLE AS; without one it is len(toks).
func queryOf(src string, toks []Token) int {
	depth := 0
	for i, t := range toks {
		switch {
		case isPunct(t, src, "("), isPunct(t, src, "["):
			depth++
		case isPunct(t, src, ")"), isPunct(t, src, "]"):
			depth--
		case depth == 0 && isWord(t, src, "as") && i+1 < len(toks):
			if next := toks[i+1]; isPunct(next, src, "(") || isWord(next, src, "select") || isWord(next, src, "with") ||
				isWord(next, src, "values") || isWord(next, src, "table") {
				return i + 1
			}
		}
	}
	return len(toks)
}

// cuts returns the clauses that are kept in the statement and cut out of the grammar's text, in order.
func (r *rewriter) cuts() ([]cut, error) {
	var cuts []cut
	switch {
	case r.is(0, "create"):
		from, to, err := viewOptions(r.s, r.toks)
		if err != nil {
			return nil, err
		}
		if cuts, err = tableOptions(r.s, r.toks); err != nil {
			return nil, err
		}
		if from > 0 {
			cuts = append(cuts, cut{from: from, to: to})
		}
		more, err := createOptions(r.s, r.toks)
		if err != nil {
			return nil, err
		}
		cuts = append(cuts, more...)
	case r.is(0, "select") || r.is(0, "with"):
		cuts = selectInto(r.s, r.toks)
	case r.is(0, "alter") && r.is(1, "view"):
		if found, err := alterViewOptions(r.s, r.toks); err != nil {
			return nil, err
		} else if found {
			r.replace(1, 2, "TABLE") // whose options the grammar knows
		}
	case r.is(0, "alter") && r.is(1, "table"):
		more, err := tableStorage(r.s, r.toks)
		if err != nil {
			return nil, err
		}
		cuts = append(more, toastOptions(r.s, r.toks)...)
	case r.is(0, "alter") && r.is(1, "database"):
		var err error
		if cuts, err = regionClauses(r.s, r.toks); err != nil {
			return nil, err
		}
	case r.is(0, "drop") && r.is(1, "database"):
		cuts = dropForce(r.s, r.toks)
	}
	slices.SortStableFunc(cuts, func(a, b cut) int { return a.from - b.from })
	return cuts, nil
}

// outside reports whether a token is in no parentheses.
func (r *rewriter) outside(i int) bool {
	depth := 0
	for i--; i >= 0; i-- {
		if r.punct(i, "(") {
			depth--
		} else if r.punct(i, ")") {
			depth++
		}
	}
	return depth == 0
}

// word rewrites the clause that begins with a word, and returns its last token.
func (r *rewriter) word(i int) (last int, err error) {
	if i < r.definitions {
		if last, done, err := r.definition(i); done || err != nil {
			return last, err
		}
	}
	return r.expression(i)
}

// definition rewrites clauses of CREATE and ALTER that the grammar does not accept; done: the token needs no other rewriting.
func (r *rewriter) definition(i int) (last int, done bool, err error) {
	w, t := r.toks[i].Text(r.src), r.toks[i]
	next, err := r.deferring.word(r.s, r.toks, i)
	if err != nil {
		return i, true, err
	}
	if next > i {
		r.replace(i, next, "")
		return next - 1, true, nil
	}
	if r.punct(i+1, "(") && r.is(i-1, "set") && r.is(i-3, "on") && (r.is(i, "null") || r.is(i, "default")) {
		if r.is(i-2, "update") {
			return i, true, sqlstate.New(sqlstate.FeatureNotSupported, "a column list with SET %s is only supported for ON DELETE actions", strings.ToUpper(w)).At(CharPos(r.src, int(r.toks[i-3].Pos)))
		}
		if r.is(i-2, "delete") && r.deferring.on && r.deferring.last.Kind == ForeignConstraint {
			next, err := r.deferring.setColumns(r.s, r.toks, i+1)
			if err != nil {
				return i, true, err
			}
			r.replace(i+1, next, "")
			return next - 1, true, nil
		}
	}
	if r.is(0, "alter") && (strings.EqualFold(w, "set") || strings.EqualFold(w, "restart")) {
		// SET GENERATED and SET of options are two actions to the grammar.
		if from, to := identityColumn(r.src, r.toks, i); to > from {
			r.insert(i, ", ALTER COLUMN "+r.src[r.toks[from].Pos:r.toks[to-1].End]+" ")
		}
	}
	switch len(w) {
	case 5:
		if strings.EqualFold(w, "match") && r.is(i+1, "partial") {
			return i, true, sqlstate.New(sqlstate.FeatureNotSupported, "MATCH PARTIAL not yet implemented").At(CharPos(r.src, int(t.Pos)))
		}
		if strings.EqualFold(w, "owned") && r.is(i+1, "by") && inIdentity(r.src, r.toks, i) {
			return i, true, sqlstate.New(sqlstate.SyntaxError, "conflicting or redundant options").At(CharPos(r.src, int(t.Pos)))
		}
	case 8:
		if strings.EqualFold(w, "identity") && r.punct(i+1, "(") && r.punct(i+2, ")") {
			return i, true, sqlstate.New(sqlstate.SyntaxError, "syntax error at or near \")\"").At(CharPos(r.src, int(r.toks[i+2].Pos)))
		}
		if strings.EqualFold(w, "sequence") && r.is(i+1, "name") && inIdentity(r.src, r.toks, i) {
			// The grammar does not accept SEQUENCE NAME. An identity column has no OWNED BY, so that option of the tree is free for the name.
			r.replace(i, i+2, "OWNED BY")
			return i + 1, true, nil
		}
	case 10:
		if strings.EqualFold(w, "tablespace") && i > 2 && i+1 < len(r.toks) && r.toks[i+1].Kind != Punct {
			from := i
			if r.is(i-1, "index") && r.is(i-2, "using") {
				from = i - 2
			} else if !r.outside(i) || r.is(0, "alter") && !r.is(i-1, "set") { // a column's name
				return i, false, nil
			}
			if name := identText(r.toks[i+1], r.src); (r.toks[i+1].Kind == Word || r.toks[i+1].Kind == Quoted) && name != "pg_default" {
				return i, true, sqlstate.New(sqlstate.UndefinedObject, "tablespace \"%s\" does not exist", name).
					WithHint("There are no tablespaces but pg_default.").At(CharPos(r.src, int(r.toks[i+1].Pos)))
			}
			r.replace(from, i+2, "")
			return i + 1, true, nil
		}
	}
	return i, false, nil
}

// expression rewrites types, operators and clauses of queries.
func (r *rewriter) expression(i int) (last int, err error) {
	w := r.toks[i].Text(r.src)
	if strings.EqualFold(w, "numeric") || strings.EqualFold(w, "decimal") || strings.EqualFold(w, "dec") {
		text, n, err := numericScale(r.src, r.toks, i)
		if err != nil {
			return i, err
		}
		if n > 0 {
			r.replace(i, i+n, text)
			return i + n - 1, nil
		}
	}
	switch len(w) {
	case 2:
		if strings.EqualFold(w, "as") {
			if err := r.definedColumns(i); err != nil {
				return i, err
			}
		}
	case 1:
		if (w == "u" || w == "U") && i+2 < len(r.toks) && r.toks[i+1].Kind == Op && r.toks[i+1].Text(r.src) == "&" &&
			r.toks[i+1].Pos == r.toks[i].End && r.toks[i+2].Pos == r.toks[i+1].End {
			return r.unicode(i)
		}
	case 3:
		if strings.EqualFold(w, "row") && r.assignsRow(i) {
			r.replace(i, i+1, "")
		}
	case 5:
		// ALTER COLUMN a TYPE int USING -a has an expression there.
		if strings.EqualFold(w, "using") && i+1 < len(r.toks) && !r.stored && !r.is(0, "alter") {
			return r.ordering(i)
		}
	case 4:
		if strings.EqualFold(w, "only") && (r.is(i-1, "from") || r.is(i-1, "update")) && r.punct(i+1, "(") {
			end := i + 3
			for r.punct(end, ".") {
				end += 2
			}
			if r.punct(end, ")") { // ONLY (t)
				r.replace(i, i+2, "")
				r.replace(end, end+1, "")
				return end, nil
			}
		}
		if strings.EqualFold(w, "only") && i > 0 && !r.punct(i-1, ".") &&
			(r.is(i-1, "from") || r.is(i-1, "update") || r.is(i-1, "table") || r.is(i-1, "join") || r.is(i-1, "exists")) && i+1 < len(r.toks) {
			r.replace(i, i+1, "")
		}
	case 7:
		if strings.EqualFold(w, "collate") && i+1 < len(r.toks) && !(r.is(0, "create") && r.is(1, "database")) {
			end := i + 2
			for r.punct(end, ".") {
				end += 2
			}
			if end > len(r.toks) || r.toks[i+1].Kind != Word && r.toks[i+1].Kind != Quoted {
				return i, nil
			}
			if err := checkCollation(r.src, r.toks[end-1]); err != nil {
				return i, err
			}
			r.replace(i, end, "")
			i = end - 1
		}
	case 8:
		if strings.EqualFold(w, "distinct") {
			r.distinctWithin(i)
		}
		if strings.EqualFold(w, "operator") && r.punct(i+1, "(") {
			i = r.operatorName(i)
		}
	case 9:
		if strings.EqualFold(w, "substring") && r.punct(i+1, "(") {
			if similar, escape := similarWithin(r.src, r.toks, i+2); escape > 0 {
				if r.keywords == nil {
					r.keywords = map[int]string{}
				}
				r.keywords[similar], r.keywords[escape] = "FROM", "FOR"
			}
		}
	case 10:
		if strings.EqualFold(w, "overriding") && r.is(i+2, "value") && (r.is(i+1, "system") || r.is(i+1, "user")) {
			r.s.Overriding = strings.ToLower(r.toks[i+1].Text(r.src))
			r.replace(i, i+3, "")
			i += 2
		}
	}
	return i, nil
}

// distinctWithin rewrites f(DISTINCT x ORDER BY y): the grammar accepts ORDER BY only after the arguments.
func (r *rewriter) distinctWithin(i int) {
	if r.punct(i-1, "(") && i > 1 && (r.toks[i-2].Kind == Word || r.toks[i-2].Kind == Quoted) {
		if at := orderWithin(r.src, r.toks, i); at > 0 && severalFrom(r.src, r.toks, at) && r.is(at+1, "by") {
			// After the arguments the grammar accepts one key, and without DISTINCT several: the first of them stands for DISTINCT.
			if r.keywords == nil {
				r.keywords = map[int]string{}
			}
			r.keywords[at+1] = `BY "` + DistinctKey + `"(), `
			r.replace(i, i+1, "")
		} else if at > 0 {
			if r.later == nil {
				r.later = map[int]bool{}
			}
			r.later[at] = true
		}
	}
}

// operatorName replaces OPERATOR(schema.name) by the operator, and returns the last token that it has read.
func (r *rewriter) operatorName(i int) int {
	j := i + 2
	for j+1 < len(r.toks) && r.punct(j+1, ".") {
		j += 2
	}
	if j+1 < len(r.toks) && r.toks[j].Kind == Op && r.punct(j+1, ")") {
		text := r.toks[j].Text(r.src)
		if l, ok := likeOperator(text); ok {
			text = l
		} else if u, ok := r.unknown(i, j+2, text); ok {
			text = u
		}
		r.replace(i, j+2, " "+text+" ")
		i = j + 1
	}
	return i
}

// noSubscript reports whether the bracket at toks[i] would be a subscript of an expression that PostgreSQL's grammar lets have none without parentheses around it: a call, a
// constructor, a constant or CASE. The grammar library lets each have them.
func (r *rewriter) noSubscript(i int) bool {
	if i == 0 {
		return false
	}
	switch t := r.toks[i-1]; {
	case t.Kind == String || t.Kind == Number:
		return true
	case t.Kind == Word:
		return isWord(t, r.src, "end")
	case !r.punct(i-1, "]") && !r.punct(i-1, ")"):
		return false
	}
	at := r.opening(i - 1)
	if at < 1 {
		return false
	}
	w := r.toks[at-1]
	if r.punct(i-1, "]") {
		return isWord(w, r.src, "array") && !r.punct(at-2, "::")
	}
	if w.Kind != Word && w.Kind != Quoted || r.punct(at-2, "::") {
		return false
	}
	name := strings.ToLower(w.Text(r.src))
	switch name {
	case "array", "cast":
		return true
	case "by", "between", "like", "ilike", "similar", "escape", "zone", "overlaps", "is", "rows", "range", "groups", "set", "values", "isnull", "notnull": // words before an expression in parentheses
		return false
	case "numeric", "decimal", "dec", "varchar", "char", "character", "varying", "nchar", "bpchar", "bit", "varbit", "time", "timetz", "timestamp", "timestamptz", "interval", "float",
		"second", "precision": // types
		return false
	}
	return w.Kind == Quoted || !reservedWord(name)
}

// definedColumns names the rows of a function in FROM whose columns are listed after AS without a name, f() AS (a int): by the function, as PostgreSQL does. The grammar library
// has only AS name (a int).
func (r *rewriter) definedColumns(i int) error {
	if r.stored || !r.punct(i-1, ")") && !r.is(i-1, "ordinality") || !r.punct(i+1, "(") || i+3 >= len(r.toks) {
		return nil
	}
	column, kind := r.toks[i+2], r.toks[i+3]
	if column.Kind != Word && column.Kind != Quoted || kind.Kind != Word && kind.Kind != Quoted ||
		column.Kind == Word && reservedWord(strings.ToLower(column.Text(r.src))) {
		return nil
	}
	switch strings.ToLower(column.Text(r.src)) {
	case "values", "insert", "update", "delete", "merge":
		return nil
	}
	at := i - 1
	if r.is(at, "ordinality") {
		at -= 2
	}
	at = r.opening(at)
	for k := at; k > 1; k-- {
		if r.punct(k, ")") {
			k = r.opening(k)
		} else if k < at && r.punct(k, "(") {
			if r.is(k-1, "from") && r.is(k-2, "rows") {
				return sqlstate.New(sqlstate.FeatureNotSupported, "a column definition list within ROWS FROM is not supported").At(CharPos(r.src, int(column.Pos)))
			}
			break
		}
	}
	if at > 0 && (r.toks[at-1].Kind == Word && !reservedWord(strings.ToLower(r.toks[at-1].Text(r.src))) || r.toks[at-1].Kind == Quoted) {
		r.insert(i+1, " "+r.toks[at-1].Text(r.src)+" ")
	}
	return nil
}

// opening is the parenthesis or bracket that the one at toks[i] closes; -1 if there is none.
func (r *rewriter) opening(i int) int {
	depth := 0
	for ; i >= 0; i-- {
		switch {
		case r.punct(i, "]"), r.punct(i, ")"):
			depth++
		case r.punct(i, "["), r.punct(i, "("):
			depth--
		}
		if depth == 0 {
			break
		}
	}
	return i
}

// assignsRow reports whether ROW at a token begins a list of values for a list of columns, for which the grammar has no ROW.
func (r *rewriter) assignsRow(i int) bool {
	if !r.punct(i-2, ")") || r.toks[i-1].Text(r.src) != "=" || !r.punct(i+1, "(") || !(r.is(0, "update") || r.is(0, "insert") || r.is(0, "with")) {
		return false
	}
	depth := 0
	for j := i + 1; j < len(r.toks); j++ {
		switch {
		case r.punct(j, "("), r.punct(j, "["):
			depth++
		case r.punct(j, ")"), r.punct(j, "]"):
			if depth--; depth == 0 {
				return false // one value, without ROW, would be no row
			}
		case depth == 1 && r.punct(j, ","):
			return true
		}
	}
	return false
}

// ordering writes ORDER BY x USING < and > as ASC and DESC.
func (r *rewriter) ordering(i int) (last int, err error) {
	at, end := i+1, i+2
	if r.is(i+1, "operator") && r.punct(i+2, "(") {
		at = i + 3
		for r.punct(at+1, ".") {
			at += 2
		}
		end = at + 2
	}
	if at >= len(r.toks) || r.toks[at].Kind != Op {
		return i, nil
	}
	switch op := r.toks[at].Text(r.src); op {
	case "<", "~<~":
		r.replace(i, end, "ASC")
	case ">", "~>~":
		r.replace(i, end, "DESC")
	default:
		return i, sqlstate.New(sqlstate.WrongObjectType, "operator %s is not a valid ordering operator", op).
			WithHint("Ordering operators must be \"<\" or \">\" members of btree operator families.").At(CharPos(r.src, int(r.toks[i+1].Pos)))
	}
	return end - 1, nil
}

// unicode writes U&'text' and U&"name" with the characters that their escapes name.
func (r *rewriter) unicode(i int) (last int, err error) {
	t, last, escape := r.toks[i+2], i+2, byte('\\')
	at := int(t.Pos)
	fail := func(hint, format string, args ...any) error {
		e := sqlstate.New(sqlstate.SyntaxError, format, args...).At(CharPos(r.src, at))
		if hint != "" {
			e.WithHint("%s", hint)
		}
		return e
	}
	quote := r.src[t.Pos]
	if quote != '\'' && quote != '"' {
		return i, nil
	}
	body := r.src[t.Pos+1 : t.End-1]
	if r.is(i+3, "uescape") && i+4 < len(r.toks) && r.toks[i+4].Kind == String {
		last = i + 4
		c := r.toks[last].Text(r.src)
		if len(c) != 3 || strings.Contains("0123456789abcdefABCDEF+'\" \t\n\r\f", c[1:2]) {
			at = int(r.toks[last].Pos)
			return i, fail("", "invalid Unicode escape character at or near \"%s\"", c)
		}
		escape = c[1]
	}
	const forms = "Unicode escapes must be \\XXXX or \\+XXXXXX."
	var b strings.Builder
	high := rune(0)
	for k := 0; k < len(body); k++ {
		at = int(t.Pos) + 1 + k
		if body[k] != escape || strings.HasPrefix(body[k+1:], string(escape)) {
			if high != 0 {
				return i, fail("", "invalid Unicode surrogate pair")
			}
			if b.WriteByte(body[k]); body[k] == escape {
				k++
			}
			continue
		}
		from, n := k+1, 4
		if strings.HasPrefix(body[from:], "+") {
			from, n = k+2, 6
		}
		if from+n > len(body) {
			return i, fail(forms, "invalid Unicode escape")
		}
		v, err := strconv.ParseUint(body[from:from+n], 16, 32)
		if err != nil {
			return i, fail(forms, "invalid Unicode escape")
		}
		k = from + n - 1
		c := rune(v)
		switch {
		case c == 0 || c > utf8.MaxRune:
			return i, fail("", "invalid Unicode escape value")
		case c >= 0xd800 && c < 0xdc00 && high == 0:
			high = c
		case c >= 0xdc00 && c < 0xe000 && high != 0:
			b.WriteRune(utf16.DecodeRune(high, c))
			high = 0
		case c >= 0xd800 && c < 0xe000 || high != 0:
			return i, fail("", "invalid Unicode surrogate pair")
		case c == rune(quote):
			b.WriteByte(quote)
			b.WriteByte(quote)
		default:
			b.WriteRune(c)
		}
	}
	if high != 0 {
		at = int(t.End) - 1
		return i, fail("", "invalid Unicode surrogate pair")
	}
	text := string(quote) + b.String() + string(quote)
	if quote == '\'' && strings.Contains(text, `\`) {
		text = " E" + strings.ReplaceAll(text, `\`, `\\`)
	}
	r.replace(i, last+1, text)
	return last, nil
}

// identityColumn finds the column of ALTER COLUMN, if SET or RESTART at toks[i] follows another action on its identity, and one of the
// two is SET GENERATED.
func identityColumn(src string, toks []Token, i int) (from, to int) {
	is := func(i int, w string) bool { return i >= 0 && i < len(toks) && isWord(toks[i], src, w) }
	generated := is(i, "set") && is(i+1, "generated")
	after := is(i-1, "always") && is(i-2, "generated") || is(i-1, "default") && is(i-2, "by") && is(i-3, "generated")
	if !generated && !after {
		return 0, 0
	}
	for j := i - 1; j > 1 && toks[j].Kind != Punct; j-- {
		if !is(j, "alter") {
			continue
		}
		if from = j + 1; is(from, "column") && i > from+1 {
			from++
		}
		if i == from+1 {
			return 0, 0 // the first action
		}
		return from, from + 1
	}
	return 0, 0
}

// scaleBase is added to a scale that is encoded in the precision of a numeric.
const scaleBase = 1001

// numericScale writes numeric(p, s) with a scale that is negative or larger than the precision as numeric(p + 100000 (s + 1001)), because the grammar
// refuses such a scale; NumericModifier decodes it. n is the number of replaced tokens.
func numericScale(src string, toks []Token, i int) (text string, n int, err error) {
	number := func(i int) (int, bool) {
		if i >= len(toks) || toks[i].Kind != Number {
			return 0, false
		}
		v, err := strconv.Atoi(toks[i].Text(src))
		return v, err == nil
	}
	if i+5 >= len(toks) || !isPunct(toks[i+1], src, "(") || !isPunct(toks[i+3], src, ",") {
		return "", 0, nil
	}
	precision, ok := number(i + 2)
	end, sign := i+4, 1
	if toks[end].Text(src) == "-" {
		end, sign = end+1, -1
	}
	scale, ok2 := number(end)
	scale *= sign
	if !ok || !ok2 || end+1 >= len(toks) || !isPunct(toks[end+1], src, ")") || scale >= 0 && scale <= precision {
		return "", 0, nil
	}
	if precision < 1 || precision > 1000 {
		return "", 0, sqlstate.New(sqlstate.InvalidParameterValue, "NUMERIC precision %d must be between 1 and 1000", precision)
	}
	if scale < -1000 || scale > 1000 {
		return "", 0, sqlstate.New(sqlstate.InvalidParameterValue, "NUMERIC scale %d must be between -1000 and 1000", scale)
	}
	return "NUMERIC(" + strconv.Itoa(precision+100000*(scale+scaleBase)) + ")", end + 2 - i, nil
}

// NumericModifier returns the precision and the scale of a numeric as they were in the statement.
func NumericModifier(precision, scale int32) (p, s int32) {
	if precision > 100000 {
		return precision % 100000, precision/100000 - scaleBase
	}
	return precision, scale
}

// similarWithin finds SIMILAR and ESCAPE of SUBSTRING(x SIMILAR p ESCAPE e), whose arguments begin at a token.
func similarWithin(src string, toks []Token, from int) (similar, escape int) {
	depth := 0
	for i := from; i < len(toks); i++ {
		switch {
		case isPunct(toks[i], src, "("), isPunct(toks[i], src, "["):
			depth++
		case isPunct(toks[i], src, ")"), isPunct(toks[i], src, "]"):
			if depth--; depth < 0 {
				return similar, escape
			}
		case depth > 0:
		case isWord(toks[i], src, "similar") && i+1 < len(toks) && !isWord(toks[i+1], src, "to"):
			similar = i
		case similar > 0 && isWord(toks[i], src, "escape"):
			escape = i
		}
	}
	return 0, 0
}

// inIdentity reports whether a token is among the options of GENERATED ... AS IDENTITY (...).
func inIdentity(src string, toks []Token, i int) bool {
	for i--; i > 0; i-- {
		if t := toks[i]; t.Kind == Punct {
			return src[t.Pos] == '(' && isWord(toks[i-1], src, "identity")
		}
	}
	return false
}

// unknown writes an operator that the grammar does not have, the tokens [i, end), as one that it has, so that the binder refuses it with the types of
// its operands.
func (r *rewriter) unknown(i, end int, op string) (text string, ok bool) {
	// A stored text has no such operator, and the grammar writes |/-1, whose characters a client's text would have as one.
	if r.stored || i == 0 || end >= len(r.toks) || len(op) < 2 && op != "@" && op != "!" && op != "#" || grammarOperator(op) {
		return "", false
	}
	prefix := false
	switch before := r.toks[i-1]; before.Kind {
	case Op:
		prefix = true
	case Punct:
		p := before.Text(r.src)
		prefix = p != ")" && p != "]"
	case Word:
		w := Fold(before.Text(r.src))
		prefix = reservedWord(w) && w != "null" && w != "true" && w != "false" && w != "end" && !strings.HasPrefix(w, "current_")
	}
	if prefix {
		r.s.UnknownPrefix = cmp.Or(r.s.UnknownPrefix, op)
		return " |/ ", true
	}
	if len(op) < 2 {
		return "", false
	}
	r.s.Unknown = cmp.Or(r.s.Unknown, op)
	return " " + UnknownOperator + " ", true
}

// UnknownOperator is an operator of the grammar that is written for those that it does not have; Statement.Unknown is the first of them.
const UnknownOperator = "<=>"

// grammarOperator reports whether the grammar has an operator of several characters, or a rewrite or a refusal knows it.
func grammarOperator(op string) bool {
	switch op {
	case "||", "|/", "||/", "<=", ">=", "<>", "!=", "<<", ">>", "<<=", ">>=", "&&", "->", "->>", "#>", "#>>", "#-", "?|", "?&", "@>", "<@", "@@",
		"!~", "!~*", "~*", "<->", StartsWith, "//", "=>", "^@", "@*": // the last is of table@*
		return true
	}
	return false
}

// StartsWith is an operator of the grammar that is written for ^@, which the grammar does not have.
const StartsWith = "<#>"

// AssignFunction is the name of a function as whose call the value of SET a[1] = value is written: SET a = (name(value))[1].
const AssignFunction = "meridian_assign"

// subscripted are the assignments to elements of arrays in a statement.
type subscripted struct {
	brackets map[int]int    // number of tokens in a target's brackets, by the token at which they begin
	before   map[int]string // text before a token
	moved    []moved
	missing  int // the token that stands in place of a value; zero: there is none
}

// moved are a target's brackets, the tokens [from, to), which are written behind the value, before another token.
type moved struct{ from, to, before int }

// assignments finds SET a[1] = value in UPDATE and in ON CONFLICT DO UPDATE, which the grammar does not accept.
func assignments(src string, toks []Token) (out subscripted) {
	is := func(i int, w string) bool { return i >= 0 && i < len(toks) && isWord(toks[i], src, w) }
	punct := func(i int, p string) bool { return i >= 0 && i < len(toks) && isPunct(toks[i], src, p) }
	open := func(i int) bool { return punct(i, "(") || punct(i, "[") }
	closed := func(i int) bool { return punct(i, ")") || punct(i, "]") }
	for i := range toks {
		// A target follows SET or a comma, and is followed by brackets and =.
		if !punct(i, "[") || i < 2 || toks[i-1].Kind != Word && toks[i-1].Kind != Quoted || !is(i-2, "set") && !punct(i-2, ",") {
			continue
		}
		end := i
		for punct(end, "[") {
			depth := 0
			for ; end < len(toks); end++ {
				if open(end) {
					depth++
				} else if closed(end) {
					if depth--; depth == 0 {
						break
					}
				}
			}
			end++
		}
		if end >= len(toks) || toks[end].Text(src) != "=" || !inSet(src, toks, i-2) {
			continue
		}
		stop, depth := end+1, 0
		for ; stop < len(toks); stop++ {
			if open(stop) {
				depth++
			} else if closed(stop) {
				if depth--; depth < 0 {
					break
				}
			}
			if depth == 0 && (punct(stop, ",") || punct(stop, ";") || is(stop, "where") || is(stop, "from") && !is(stop-1, "distinct") || is(stop, "returning")) {
				break
			}
		}
		if stop == end+1 { // no value
			out.missing = stop
			return out
		}
		if out.brackets == nil {
			out.brackets, out.before = map[int]int{}, map[int]string{}
		}
		out.brackets[i] = end - i
		out.before[end+1] += "(" + AssignFunction + "("
		out.moved = append(out.moved, moved{from: i, to: end, before: stop})
	}
	return out
}

// inSet reports whether the token at i, SET or a comma, is that of an assignment list and not of a select list.
func inSet(src string, toks []Token, i int) bool {
	depth := 0
	for from := i; i >= 0 && from-i < 1<<13; i-- {
		switch {
		case isPunct(toks[i], src, ")"), isPunct(toks[i], src, "]"):
			depth++
		case isPunct(toks[i], src, "("), isPunct(toks[i], src, "["):
			if depth--; depth < 0 {
				return false
			}
		case depth > 0:
		case isWord(toks[i], src, "set"):
			return true
		case isWord(toks[i], src, "select"), isWord(toks[i], src, "values"), isWord(toks[i], src, "returning"), isWord(toks[i], src, "from"):
			return false
		}
	}
	return false
}

// refusedType reports whether the grammar refuses a name of a type as not supported.
func refusedType(w string) bool {
	switch len(w) {
	case 3:
		return foldsTo(w, "box", "xml")
	case 4:
		return foldsTo(w, "cidr", "line", "lseg", "path")
	case 5:
		return foldsTo(w, "point", "money")
	case 6:
		return foldsTo(w, "circle", "pg_lsn")
	case 7:
		return foldsTo(w, "macaddr", "polygon", "trigger", "tsquery")
	case 8:
		return foldsTo(w, "macaddr8", "tsvector", "jsonpath")
	case 9:
		return foldsTo(w, "refcursor")
	case 13:
		return foldsTo(w, "txid_snapshot")
	}
	return false
}

// foldsTo reports whether a word is one of some names, in any case.
func foldsTo(w string, names ...string) bool {
	for _, n := range names {
		if strings.EqualFold(n, w) {
			return true
		}
	}
	return false
}

// orderWithin finds the ORDER of an aggregate's ORDER BY, between token from and the parenthesis that closes its call.
func orderWithin(src string, toks []Token, from int) int {
	depth := 0
	for i := from; i < len(toks); i++ {
		t := toks[i]
		if t.Kind == Punct {
			switch src[t.Pos] {
			case '(', '[':
				depth++
			case ')', ']':
				if depth--; depth < 0 {
					return 0
				}
			}
		} else if depth == 0 && isWord(t, src, "order") {
			return i
		}
	}
	return 0
}

// severalFrom reports whether a list of keys goes on with a comma, between token from and the parenthesis that closes its call.
func severalFrom(src string, toks []Token, from int) bool {
	depth := 0
	for i := from; i < len(toks) && depth >= 0; i++ {
		switch {
		case isPunct(toks[i], src, "("), isPunct(toks[i], src, "["):
			depth++
		case isPunct(toks[i], src, ")"), isPunct(toks[i], src, "]"):
			depth--
		case depth == 0 && isPunct(toks[i], src, ","):
			return true
		}
	}
	return false
}

// DistinctKey is the name of a function whose call, as the first key of an aggregate's ORDER BY, stands for the aggregate's DISTINCT.
const DistinctKey = "distinct aggregate"

// likeOperator returns the keyword form of an operator for which LIKE or ILIKE stands.
func likeOperator(op string) (string, bool) {
	switch op {
	case "~~":
		return " LIKE ", true
	case "~~*":
		return " ILIKE ", true
	case "!~~":
		return " NOT LIKE ", true
	case "!~~*":
		return " NOT ILIKE ", true
	}
	return "", false
}

// checkCollation accepts the collations that order text by its bytes, as all text is ordered here, and refuses those of languages.
func checkCollation(src string, t Token) error {
	name := identText(t, src)
	l := strings.ToLower(name)
	switch {
	case l == "default" || l == "c" || l == "posix" || l == "ucs_basic" || l == "c.utf8" || l == "c.utf-8":
	case l == "unicode" || strings.HasSuffix(l, ".utf8") || strings.HasSuffix(l, ".utf-8") || strings.HasSuffix(l, "-x-icu") || len(l) == 5 && l[2] == '_':
		return sqlstate.New(sqlstate.FeatureNotSupported, "collation \"%s\" is not supported", name).
			WithHint("All text is ordered by its bytes: COLLATE \"C\".").At(CharPos(src, int(t.Pos)))
	default:
		return sqlstate.New(sqlstate.UndefinedObject, "collation \"%s\" for encoding \"UTF8\" does not exist", name).At(CharPos(src, int(t.Pos)))
	}
	return nil
}

// unknownTruth is written for UNKNOWN in IS UNKNOWN.
const unknownTruth = "NULL::pg_catalog.bool"

// IsUnknownTruth reports whether an operand is what is written for UNKNOWN in IS UNKNOWN.
func IsUnknownTruth(e tree.Expr) bool {
	c, ok := e.(*tree.CastExpr)
	if !ok || c.Expr != tree.DNull {
		return false
	}
	n, ok := c.Type.(*tree.UnresolvedObjectName)
	return ok && n.NumParts == 2 && n.Parts[0] == "bool" && n.Parts[1] == "pg_catalog"
}
