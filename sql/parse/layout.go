package parse

import (
	"slices"
	"strings"
)

// Layout writes the query of a view as pg_get_viewdef does: an element of the list on each line, a line for each clause, columns with the names of their tables, and
// expressions as Display writes them. columns are those of the view. relation tells how a relation of FROM is shown and what columns it has; ok is false if it is not known.
//
// textual tells which of the view's columns are of type text; the columns of a relation that are are the second list of relation.
//
// The text is that of a descriptor, or one with the same tokens. A query with other parts than a list, joins of relations, conditions, groups, an order and a limit is returned
// unchanged: one with subqueries, functions in FROM, WITH, set operations or windows.
func Layout(text string, pretty bool, columns []string, textual func(i int) bool, relation func(path []string) (shown string, columns, texts []string, ok bool)) string {
	toks, err := lex(text, 0, nil)
	if err != nil {
		return text
	}
	l := &layout{src: text, toks: toks[:len(toks)-1], pretty: pretty, columns: columns, textual: textual, relation: relation}
	out, ok := l.query()
	if !ok {
		return text
	}
	if _, err := ParseOne(out); err != nil { // it must be a text from which the view can be made again
		return text
	}
	return out
}

// layout is a query that is written anew.
type layout struct {
	src      string
	toks     []Token
	pretty   bool
	columns  []string
	textual  func(int) bool
	relation func([]string) (string, []string, []string, bool)
	// from are the relations of FROM.
	from []source
}

// source is a relation of FROM, by the name with which its columns are written.
type source struct {
	name           string
	columns, texts []string
}

func (l *layout) is(i int, words ...string) bool {
	for k, w := range words {
		if i+k < 0 || i+k >= len(l.toks) || l.toks[i+k].Kind != Word || Fold(l.toks[i+k].Text(l.src)) != w {
			return false
		}
	}
	return true
}

func (l *layout) punct(i int, p string) bool {
	return i >= 0 && i < len(l.toks) && l.toks[i].Kind == Punct && l.toks[i].Text(l.src) == p
}

func (l *layout) name(i int) bool {
	return i < len(l.toks) && (l.toks[i].Kind == Quoted || l.toks[i].Kind == Word && !reservedWord(Fold(l.toks[i].Text(l.src))))
}

func (l *layout) ident(i int) string { return identText(l.toks[i], l.src) }

// text is the text of the tokens [from, to).
func (l *layout) text(from, to int) string {
	if from >= to {
		return ""
	}
	return l.src[l.toks[from].Pos:l.toks[to-1].End]
}

// clauseWords are the words with which the clauses of a query begin, in their order.
func clauseWords() []string {
	return []string{"select", "from", "where", "group by", "having", "order by", "limit", "offset"}
}

// other are words of queries that Layout returns unchanged.
func other() []string {
	return []string{"with", "union", "intersect", "except", "values", "window", "over", "lateral", "for", "fetch", "tablesample", "rows", "rollup", "cube", "grouping", "natural", "table", "within", "filter"}
}

// ambiguous are words of expressions that may be names of columns, too.
func ambiguous() []string {
	return []string{"time", "zone", "precision", "varying", "year", "month", "day", "hour", "minute", "second", "epoch", "first", "last", "nulls", "escape", "document", "without", "local",
		"millisecond", "milliseconds", "microsecond", "microseconds", "week", "quarter", "decade", "century", "millennium", "dow", "doy", "isodow", "isoyear", "julian", "timezone", "unknown", "normalized", "by", "text"}
}

// query writes the query; ok is false if it has other parts.
func (l *layout) query() (string, bool) {
	parts, ok := l.parts()
	if !ok {
		return "", false
	}
	sources := ""
	from, to, ok := parts.clause("from")
	if ok {
		if sources, ok = l.sources(from, to); !ok {
			return "", false
		}
	}
	for _, s := range l.from {
		for _, c := range s.columns {
			if slices.Contains(ambiguous(), c) {
				return "", false
			}
		}
	}
	var b strings.Builder
	b.WriteString("SELECT ")
	from, to, _ = parts.clause("select")
	if l.is(from, "distinct") {
		b.WriteString("DISTINCT ")
		if from++; l.is(from, "on") && l.punct(from+1, "(") {
			end := l.closing(from + 1)
			var on []string
			for _, e := range l.split(from+2, end) {
				on = append(on, l.sorted(e[0], e[1]))
			}
			b.WriteString("ON (" + strings.Join(on, ", ") + ") ")
			from = end + 1
		}
	}
	items := l.split(from, to)
	if len(items) != len(l.columns) {
		return "", false
	}
	outputs := map[string][2]int{}
	for i, e := range items {
		if end := e[1]; end-e[0] > 2 && l.is(end-2, "as") && (l.toks[end-1].Kind == Word || l.toks[end-1].Kind == Quoted) {
			outputs[l.ident(end-1)] = [2]int{e[0], end - 2}
			items[i][1] = end - 2
		}
		if i > 0 {
			b.WriteString(",\n    ")
		}
		text := l.expr(items[i][0], items[i][1], l.textual(i))
		if strings.HasPrefix(text, "\n") { // CASE begins a line
			before := strings.TrimRight(b.String(), " \n")
			b.Reset()
			b.WriteString(before)
		}
		b.WriteString(text)
		if !l.path(items[i][0], items[i][1]) || l.ident(items[i][1]-1) != l.columns[i] {
			b.WriteString(" AS " + QuoteIdent(l.columns[i]))
		}
	}
	if sources != "" {
		b.WriteString("\n   FROM " + sources)
	}
	condition := func(word, clauseName string) {
		if from, to, ok := parts.clause(clauseName); ok {
			b.WriteString(word + l.expr(from, to, false))
		}
	}
	condition("\n  WHERE ", "where")
	if from, to, ok := parts.clause("group by"); ok {
		all, ok := l.groupKeys(from, to, items, outputs)
		if !ok {
			return "", false
		}
		b.WriteString("\n  GROUP BY " + strings.Join(all, ", "))
	}
	condition("\n HAVING ", "having")
	if from, to, ok := parts.clause("order by"); ok {
		b.WriteString("\n  ORDER BY " + strings.Join(l.orderKeys(from, to, items, outputs), ", "))
	}
	condition("\n OFFSET ", "offset")
	condition("\n LIMIT ", "limit")
	return b.String(), true
}

// parts finds the clauses of the query; ok is false if it has other ones.
func (l *layout) parts() (*parts, bool) {
	at := map[string]int{} // where clauses begin, and the word after them
	var order []int
	depth := 0
	for i, t := range l.toks {
		switch {
		case l.punct(i, "("), l.punct(i, "["):
			depth++
		case l.punct(i, ")"), l.punct(i, "]"):
			depth--
		case t.Kind == Word:
			w := Fold(t.Text(l.src))
			if !l.punct(i-1, ".") && slices.Contains(other(), w) || w == "select" && i > 0 {
				return nil, false
			}
			if depth > 0 || l.punct(i-1, ".") || w == "from" && l.is(i-1, "distinct") {
				continue
			}
			for _, c := range clauseWords() {
				if words := strings.Fields(c); l.is(i, words...) {
					if _, twice := at[c]; twice {
						return nil, false
					}
					at[c] = i
					order = append(order, i)
				}
			}
		}
	}
	if first, ok := at["select"]; !ok || first != 0 || !slices.IsSorted(order) {
		return nil, false
	}
	return &parts{at: at, order: order, end: len(l.toks)}, true
}

// parts are the clauses of a query: where each begins, by its words.
type parts struct {
	at    map[string]int
	order []int // in which they are written
	end   int
}

// clause is the tokens of a clause, without its words.
func (p *parts) clause(c string) (from, to int, ok bool) {
	from, ok = p.at[c]
	if !ok {
		return 0, 0, false
	}
	to = p.end
	for _, o := range p.order {
		if o > from {
			to = min(to, o)
		}
	}
	return from + len(strings.Fields(c)), to, true
}

// orderKeys are the texts of the keys of ORDER BY.
func (l *layout) orderKeys(from, to int, items [][2]int, outputs map[string][2]int) []string {
	var all []string
	for _, e := range l.split(from, to) {
		end, nulls, desc := e[1], "", false
		if l.is(end-2, "nulls") {
			nulls, end = " NULLS "+strings.ToUpper(l.text(end-1, end)), end-2
		}
		if l.is(end-1, "asc") || l.is(end-1, "desc") {
			desc = l.is(end-1, "desc")
			end--
		}
		tail := ""
		if desc {
			tail = " DESC"
		}
		if desc && nulls == " NULLS LAST" || !desc && nulls == " NULLS FIRST" {
			tail += nulls
		}
		e = l.numbered([2]int{e[0], end}, items)
		if e[1]-e[0] == 1 && l.name(e[0]) {
			e = named(outputs, l.ident(e[0]), e)
		}
		all = append(all, l.sorted(e[0], e[1])+tail)
	}
	return all
}

// groupKeys are the texts of the keys of GROUP BY; ok is false for the set of no keys.
func (l *layout) groupKeys(from, to int, items [][2]int, outputs map[string][2]int) (all []string, ok bool) {
	for _, e := range l.split(from, to) {
		if l.punct(e[0], "(") && l.closing(e[0]) == e[1]-1 && e[1]-e[0] == 2 { // ()
			return nil, false
		}
		e = l.numbered(e, items)
		if e[1]-e[0] == 1 && l.name(e[0]) && len(l.having(l.ident(e[0]))) == 0 {
			e = named(outputs, l.ident(e[0]), e)
		}
		all = append(all, l.sorted(e[0], e[1]))
	}
	return all, true
}

// named is the expression of an output column.
func named(outputs map[string][2]int, name string, def [2]int) [2]int {
	if e, ok := outputs[name]; ok {
		return e
	}
	return def
}

// numbered is the element of the list that a number in GROUP BY or ORDER BY stands for.
func (l *layout) numbered(e [2]int, items [][2]int) [2]int {
	if e[1]-e[0] != 1 || l.toks[e[0]].Kind != Number {
		return e
	}
	n := 0
	for _, c := range l.text(e[0], e[1]) {
		if c < '0' || c > '9' || n > len(items) {
			return e
		}
		n = n*10 + int(c-'0')
	}
	if n < 1 || n > len(items) {
		return e
	}
	return items[n-1]
}

// sorted writes an expression of GROUP BY, ORDER BY or DISTINCT ON: all but columns are in parentheses.
func (l *layout) sorted(from, to int) string {
	text := l.expr(from, to, false)
	if l.path(from, to) || !l.pretty && strings.HasPrefix(text, "(") && !strings.Contains(text, ")::") {
		return text
	}
	return "(" + text + ")"
}

// path reports whether tokens are a column, with or without the name of its table.
func (l *layout) path(from, to int) bool {
	switch to - from {
	case 1:
		return l.name(from)
	case 3:
		return l.name(from) && l.punct(from+1, ".") && (l.toks[from+2].Kind == Word || l.toks[from+2].Kind == Quoted)
	}
	return false
}

// having are the relations of FROM that have a column of a name.
func (l *layout) having(column string) (out []source) {
	for _, s := range l.from {
		if slices.Contains(s.columns, column) {
			out = append(out, s)
		}
	}
	return out
}

// expr writes an expression, which text says is of type text, with the name of a table before each column that only one has.
func (l *layout) expr(from, to int, text bool) string {
	var b strings.Builder
	pos := l.toks[from].Pos
	for i := from; i < to; i++ {
		t := l.toks[i]
		if !l.name(i) || l.punct(i-1, ".") || l.punct(i-1, "::") || l.punct(i+1, ".") || l.punct(i+1, "(") || i+1 < to && l.toks[i+1].Kind == String || l.is(i-1, "as") || l.is(i-1, "is") {
			continue
		}
		if in := l.having(l.ident(i)); len(in) == 1 {
			b.WriteString(l.src[pos:t.Pos] + in[0].name + ".")
			pos = t.Pos
		}
	}
	b.WriteString(l.src[pos:l.toks[to-1].End])
	return displayed(b.String(), l.pretty, 8, func(x *shown) *shown { return l.texts(x, text) })
}

// closing is the parenthesis that closes the one at i.
func (l *layout) closing(i int) int {
	depth := 0
	for ; i < len(l.toks); i++ {
		if l.punct(i, "(") {
			depth++
		} else if l.punct(i, ")") {
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return len(l.toks) - 1
}

// split is the elements of a list.
func (l *layout) split(from, to int) (out [][2]int) {
	depth, begin := 0, from
	for i := from; i < to; i++ {
		switch {
		case l.punct(i, "("), l.punct(i, "["):
			depth++
		case l.punct(i, ")"), l.punct(i, "]"):
			depth--
		case depth == 0 && l.punct(i, ","):
			out = append(out, [2]int{begin, i})
			begin = i + 1
		}
	}
	return append(out, [2]int{begin, to})
}

// sources writes FROM and finds its relations.
func (l *layout) sources(from, to int) (string, bool) {
	// The relations are found first: conditions of joins need all of them.
	var all []string
	for pass := range 2 {
		if all = all[:0]; pass == 0 {
			l.from = nil
		}
		for _, e := range l.split(from, to) {
			i := e[0]
			text, _, ok := l.joined(&i, e[1], pass == 0)
			if !ok || i != e[1] {
				return "", false
			}
			all = append(all, text)
		}
	}
	return strings.Join(all, ",\n    "), true
}

// joined reads a relation with those that are joined to it; find says that the relations are noted.
func (l *layout) joined(i *int, to int, find bool) (text string, join, ok bool) {
	if text, join, ok = l.joinable(i, to, find); !ok {
		return "", false, false
	}
	for *i < to {
		word := ""
		switch {
		case l.is(*i, "join"):
			*i++
		case l.is(*i, "inner", "join"):
			*i += 2
		case l.is(*i, "cross", "join"):
			word = "CROSS "
			*i += 2
		case l.is(*i, "left"), l.is(*i, "right"), l.is(*i, "full"):
			word = strings.ToUpper(l.text(*i, *i+1)) + " "
			if *i++; l.is(*i, "outer") {
				*i++
			}
			if !l.is(*i, "join") {
				return "", false, false
			}
			*i++
		default:
			return text, join, true
		}
		right, nested, ok := l.joinable(i, to, find)
		if !ok {
			return "", false, false
		}
		if nested && l.pretty {
			right = "(" + right + ")"
		}
		text += "\n     " + word + "JOIN " + right
		switch {
		case word == "CROSS ":
		case l.is(*i, "using") && l.punct(*i+1, "("):
			end := l.closing(*i + 1)
			text += " USING " + l.text(*i+1, end+1)
			*i = end + 1
		case l.is(*i, "on"):
			*i++
			begin, depth := *i, 0
			for ; *i < to; *i++ {
				if l.punct(*i, "(") || l.punct(*i, "[") {
					depth++
				} else if l.punct(*i, ")") || l.punct(*i, "]") {
					if depth--; depth < 0 {
						break
					}
				} else if depth == 0 && (l.is(*i, "join") || l.is(*i, "inner") || l.is(*i, "cross") || l.is(*i, "full") || (l.is(*i, "left") || l.is(*i, "right")) && !l.punct(*i+1, "(")) {
					break
				}
			}
			if *i == begin {
				return "", false, false
			}
			if on := l.expr(begin, *i, false); l.pretty {
				text += " ON " + on
			} else {
				text += " ON (" + on + ")"
			}
		default:
			return "", false, false
		}
		if join = true; !l.pretty {
			text = "(" + text + ")"
		}
	}
	return text, join, true
}

// joinable reads a relation, or a join in parentheses.
func (l *layout) joinable(i *int, to int, find bool) (text string, join, ok bool) {
	if l.punct(*i, "(") {
		end := l.closing(*i)
		*i++
		if text, join, ok = l.joined(i, end, find); !ok || *i != end || !join {
			return "", false, false
		}
		*i = end + 1
		return text, true, !l.is(*i, "as") && !l.name(*i)
	}
	var path []string
	for l.name(*i) && *i < to {
		path = append(path, l.ident(*i))
		if *i++; !l.punct(*i, ".") {
			break
		}
		*i++
	}
	if len(path) == 0 || l.punct(*i, "(") || l.punct(*i, "@") {
		return "", false, false
	}
	shown, columns, texts, ok := l.relation(path)
	if !ok {
		return "", false, false
	}
	name := path[len(path)-1]
	if l.is(*i, "as") {
		if *i++; !(*i < to && (l.toks[*i].Kind == Word || l.toks[*i].Kind == Quoted)) || l.punct(*i+1, "(") {
			return "", false, false
		}
		if alias := l.ident(*i); alias != name {
			name = alias
			shown += " " + QuoteIdent(name)
		}
		*i++
	}
	if find {
		l.from = append(l.from, source{name: QuoteIdent(name), columns: columns, texts: texts})
	}
	return shown, false, true
}

// texts gives string constants the type text where the binder would: next to an expression of type text, and as a result where text is wanted.
func (l *layout) texts(x *shown, wanted bool) *shown {
	literal := func(x *shown) bool { return x.shape == atomic && strings.HasSuffix(x.text, "'") }
	if literal(x) {
		if wanted {
			return &shown{shape: cast, text: "text", args: []*shown{x}}
		}
		return x
	}
	y := *x
	y.args = slices.Clone(x.args)
	for i, a := range y.args {
		want := false
		switch {
		case x.shape == operation && len(x.args) == 2:
			other := x.args[1-i]
			switch x.text {
			case "=", "<>", "<", ">", "<=", ">=", "~~", "!~~", "~~*", "!~~*", "~", "~*", "!~", "!~*":
				want = l.isText(other)
			case "||":
				want = l.isText(other) || literal(other)
			case "->", "->>":
				want = i == 1
			}
		case x.shape == quantified && i == 1 && a.shape == bracketed && l.isText(x.args[0]):
			all := *a
			all.args = nil
			for _, e := range a.args {
				all.args = append(all.args, l.texts(e, true))
			}
			y.args[i] = &all
			continue
		case x.shape == cased:
			want = wanted && (i%2 == 1 || i == len(x.args)-1)
		case x.shape == called && (x.text == "coalesce" || x.text == "COALESCE" || x.text == "GREATEST" || x.text == "LEAST"):
			want = wanted
		}
		if x.shape == cast && literal(a) {
			continue
		}
		y.args[i] = l.texts(a, want)
	}
	return &y
}

// isText reports whether an expression is certainly of type text.
func (l *layout) isText(x *shown) bool {
	switch x.shape {
	case column:
		table, name, ok := strings.Cut(x.text, ".")
		for _, s := range l.from {
			if ok && s.name == table && slices.ContainsFunc(s.texts, func(c string) bool { return QuoteIdent(c) == name }) {
				return true
			}
		}
	case cast:
		return x.text == "text"
	case called:
		return slices.Contains([]string{"lower", "upper", "initcap", "replace", "btrim", "ltrim", "rtrim", "to_char", "md5", "concat", "concat_ws", "repeat"}, x.text)
	case operation:
		return x.text == "->>" || x.text == "||" && len(x.args) == 2 && (l.isText(x.args[0]) || l.isText(x.args[1]))
	}
	return false
}
