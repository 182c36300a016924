package parse

import (
	"slices"
	"strings"
)

// Display writes an expression of a descriptor as pg_get_expr does: with parentheses around every operation and every operand of a cast, or, in
// the pretty form, only with those that a reader needs. Its input is a text that scalar.FormatStored or Display has written; a text of another form
// is returned unchanged.
func Display(text string, pretty bool) string { return displayed(text, pretty, 0, nil) }

// displayed is Display at an indentation of lines; change, unless it is nil, changes the tree first.
func displayed(text string, pretty bool, indent int, change func(*shown) *shown) string {
	toks, err := lex(text, 0, nil)
	if err != nil {
		return text
	}
	r := reader{src: text, toks: toks}
	x := r.expr()
	if r.failed || r.toks[r.at].Kind != EOF {
		return text
	}
	if change != nil {
		x = change(x)
	}
	d := display{pretty: pretty, indent: indent}
	d.put(x)
	return d.buf.String()
}

// shape is the form of an expression, on which its parentheses depend.
type shape uint8

const (
	atomic     shape = iota // name, constant: text
	column                  // name
	called                  // text(args)
	bracketed               // text[args]
	extracted               // EXTRACT(text FROM args[0])
	cast                    // args[0]::text
	operation               // args[0] text args[1], or text args[0]
	distinct                // args[0] IS [NOT] DISTINCT FROM args[1]
	test                    // args[0] text
	junction                // args, with text between them
	negation                // NOT args[0]
	quantified              // args[0] text (args[1])
	cased                   // CASE: pairs, and the rest
	subscript               // args[0][args[1]]
	field                   // (args[0]).text
)

type shown struct {
	shape shape
	text  string
	args  []*shown
}

// reader makes the tree of an expression whose structure is given by parentheses, but for the ends of casts, subscripts and fields.
type reader struct {
	src    string
	toks   []Token
	at     int
	failed bool
}

func (r *reader) text() string {
	if r.at >= len(r.toks) || r.toks[r.at].Kind == EOF {
		return ""
	}
	return r.toks[r.at].Text(r.src)
}

// next consumes tokens if they are s, which is in lower case.
func (r *reader) next(s ...string) bool {
	for i, w := range s {
		if r.at+i >= len(r.toks) || r.toks[r.at+i].Kind == Quoted || r.toks[r.at+i].Kind == String || Fold(r.toks[r.at+i].Text(r.src)) != w {
			return false
		}
	}
	r.at += len(s)
	return true
}

func (r *reader) need(s string) {
	if !r.next(s) {
		r.failed = true
	}
}

func (r *reader) take() string {
	s := r.text()
	if s == "" {
		r.failed = true
		return ""
	}
	r.at++
	return s
}

func (r *reader) list(end string) (out []*shown) {
	for !r.failed && !r.next(end) {
		if len(out) > 0 {
			r.need(",")
		}
		out = append(out, r.expr())
	}
	return out
}

// likeOperators has keyword forms of operators, and the operators.
var likeOperators = [...]struct{ words, operator string }{
	{"like", "~~"}, {"ilike", "~~*"}, {"not like", "!~~"}, {"not ilike", "!~~*"},
}

// tests are the words of tests of one value.
var tests = [...]string{"is null", "is not null", "is true", "is not true", "is false", "is not false", "is unknown", "is not unknown"}

func (r *reader) expr() *shown {
	if r.failed {
		return &shown{}
	}
	if r.next("not") {
		return &shown{shape: negation, args: []*shown{r.operand()}}
	}
	if r.toks[r.at].Kind == Op {
		return &shown{shape: operation, text: r.take(), args: []*shown{r.operand()}}
	}
	x := r.operand()
	for _, w := range [...]string{"and", "or"} {
		if r.next(w) {
			j := &shown{shape: junction, text: strings.ToUpper(w), args: []*shown{x, r.operand()}}
			if x.shape == junction && x.text == j.text {
				j.args = append(slices.Clone(x.args), j.args[1]) // a AND b AND c, as the grammar library has it
			}
			for r.next(w) {
				j.args = append(j.args, r.operand())
			}
			return j
		}
	}
	for _, w := range tests {
		if r.next(strings.Fields(w)...) {
			return &shown{shape: test, text: strings.ToUpper(w), args: []*shown{x}}
		}
	}
	for _, w := range [...]string{"is distinct from", "is not distinct from"} {
		if r.next(strings.Fields(w)...) {
			return &shown{shape: distinct, text: strings.ToUpper(w), args: []*shown{x, r.operand()}}
		}
	}
	for _, b := range [...]struct{ words, low, high, joined string }{{"between", ">=", "<=", "AND"}, {"not between", "<", ">", "OR"}} {
		if r.next(strings.Fields(b.words)...) {
			low := r.operand()
			r.need("and")
			return &shown{shape: junction, text: b.joined, args: []*shown{
				{shape: operation, text: b.low, args: []*shown{x, low}}, {shape: operation, text: b.high, args: []*shown{x, r.operand()}}}}
		}
	}
	if r.next("in", "(") {
		return r.in(x, "= ANY", r.list(")"))
	}
	if r.next("not", "in", "(") {
		return r.in(x, "<> ALL", r.list(")"))
	}
	op := ""
	for _, w := range likeOperators {
		if r.next(strings.Fields(w.words)...) {
			op = w.operator
		}
	}
	if op == "" && r.toks[r.at].Kind == Op {
		if op = r.take(); op == "!=" {
			op = "<>"
		}
	}
	if op == "" {
		return x
	}
	for _, w := range [...]string{"any", "all"} {
		if r.next(w, "(") {
			q := &shown{shape: quantified, text: op + " " + strings.ToUpper(w), args: []*shown{x, r.expr()}}
			r.need(")")
			return q
		}
	}
	return &shown{shape: operation, text: op, args: []*shown{x, r.operand()}}
}

// in is an IN with constants, which PostgreSQL turns into a comparison with an array.
func (r *reader) in(x *shown, op string, list []*shown) *shown {
	for _, e := range list {
		for e.shape == cast {
			e = e.args[0]
		}
		if e.shape != atomic || len(list) < 2 {
			r.failed = true
		}
	}
	return &shown{shape: quantified, text: op, args: []*shown{x, {shape: bracketed, text: "ARRAY", args: list}}}
}

func (r *reader) operand() *shown {
	if r.failed {
		return &shown{}
	}
	x := r.primary()
	for !r.failed {
		switch {
		case r.next("::"):
			x = &shown{shape: cast, text: r.typeName(), args: []*shown{x}}
		case r.next("["):
			x = &shown{shape: subscript, args: []*shown{x, r.expr()}}
			r.need("]")
		case r.next("."):
			x = &shown{shape: field, text: r.take(), args: []*shown{x}}
		default:
			return x
		}
	}
	return x
}

func (r *reader) primary() *shown {
	t := r.toks[r.at]
	switch {
	case r.next("("):
		x := r.expr()
		r.need(")")
		return x
	case t.Kind == String || t.Kind == Number:
		return &shown{text: r.take()}
	case t.Kind != Word && t.Kind != Quoted:
		r.failed = true
		return &shown{}
	case r.next("case"):
		return r.cased()
	case r.next("cast", "("):
		x := &shown{shape: cast, args: []*shown{r.expr()}}
		r.need("as")
		x.text = r.typeName()
		r.need(")")
		return x
	case t.Kind == Word && r.toks[r.at+1].Kind == String && (isWord(t, r.src, "date") || isWord(t, r.src, "timestamp") || isWord(t, r.src, "timestamptz") || isWord(t, r.src, "time")):
		return &shown{shape: cast, text: r.typeName(), args: []*shown{{text: r.take()}}}
	case r.next("array", "["):
		return &shown{shape: bracketed, text: "ARRAY", args: r.list("]")}
	case r.next("extract", "("):
		if r.toks[r.at].Kind == String {
			unit, ok := unquoted(r.take())
			r.failed = r.failed || !ok || QuoteIdent(unit) != unit
			if r.next("::") {
				r.typeName()
			}
			r.need(",")
			x := &shown{shape: extracted, text: unit, args: []*shown{r.expr()}}
			r.need(")")
			return x
		}
		unit := r.take()
		r.need("from")
		x := &shown{shape: extracted, text: unit, args: []*shown{r.expr()}}
		r.need(")")
		return x
	}
	name := r.take()
	for r.toks[r.at].Kind == Punct && r.text() == "." && t.Kind != String && r.at+1 < len(r.toks) && r.toks[r.at+1].Kind != Punct {
		r.at++
		name += "." + r.take()
	}
	if r.next("(") {
		switch name {
		case "current_timestamp", "current_date", "current_time", "localtime", "localtimestamp", "current_user", "session_user", "current_role", "current_catalog":
			if r.next(")") {
				return &shown{text: strings.ToUpper(name)}
			}
		case "greatest", "least":
			name = strings.ToUpper(name)
		case "exists", "EXISTS", "position", "POSITION":
			r.failed = true // its arguments are a query, or have keywords between them
		}
		if t := r.toks[r.at]; t.Kind == Op && r.text() == "*" && r.at+1 < len(r.toks) && r.toks[r.at+1].Kind == Punct && r.toks[r.at+1].Text(r.src) == ")" {
			r.at += 2 // count(*)
			return &shown{shape: called, text: name, args: []*shown{{text: "*"}}}
		}
		return &shown{shape: called, text: name, args: r.list(")")}
	}
	if t.Kind == Word {
		switch name {
		case "true", "false", "NULL", "CURRENT_DATE", "CURRENT_TIMESTAMP", "CURRENT_TIME", "LOCALTIME", "LOCALTIMESTAMP", "CURRENT_USER",
			"SESSION_USER", "USER", "CURRENT_ROLE", "CURRENT_CATALOG":
			return &shown{text: name}
		}
		if name != Fold(name) {
			r.failed = true // a keyword without a rule above
		}
	}
	return &shown{shape: column, text: name}
}

func (r *reader) cased() *shown {
	x := &shown{shape: cased}
	for r.next("when") {
		x.args = append(x.args, r.expr())
		r.need("then")
		x.args = append(x.args, r.expr())
	}
	if r.next("else") {
		x.args = append(x.args, r.expr())
	}
	r.need("end")
	return x
}

// typeName is the name of a type, which may have several words, as types.T.String writes it.
func (r *reader) typeName() string {
	from := r.at
	first := Fold(r.take())
	for r.next(".") {
		r.take()
	}
	switch first {
	case "double":
		r.need("precision")
	case "character", "bit":
		r.next("varying")
	case "interval":
		for r.next("year") || r.next("month") || r.next("day") || r.next("hour") || r.next("minute") || r.next("second") || r.next("to") {
		}
	}
	if r.next("(") {
		for !r.failed && !r.next(")") {
			r.take()
		}
	}
	if first == "time" || first == "timestamp" {
		if !r.next("with", "time", "zone") {
			r.next("without", "time", "zone")
		}
	}
	for r.next("[", "]") {
	}
	if r.failed {
		return ""
	}
	text := r.src[r.toks[from].Pos:r.toks[r.at-1].End]
	if r.toks[from].Kind != Word || r.punct(from+1, ".") {
		return text
	}
	// The grammar library writes some names in capitals, and short ones.
	rest := text[len(first):]
	switch {
	case first == "varchar":
		first = "character varying"
	case first == "timestamptz":
		first, rest = "timestamp", strings.TrimSuffix(rest, "[]")+" with time zone"+text[len(strings.TrimSuffix(text, "[]")):]
	case first == "timestamp" && !strings.Contains(rest, "zone"):
		rest = strings.TrimSuffix(rest, "[]") + " without time zone" + text[len(strings.TrimSuffix(text, "[]")):]
	}
	return first + rest
}

func (r *reader) punct(i int, p string) bool {
	return i < len(r.toks) && r.toks[i].Kind == Punct && r.toks[i].Text(r.src) == p
}

// display writes the tree.
type display struct {
	buf    strings.Builder
	pretty bool
	indent int
}

func (d *display) str(s string) { d.buf.WriteString(s) }

func (d *display) list(xs []*shown) {
	for i, x := range xs {
		if i > 0 {
			d.str(", ")
		}
		d.put(x)
	}
}

// arg writes a part of parent.
func (d *display) arg(x, parent *shown) {
	if parent.shape == operation && x.shape == cast && (x.text == "double precision" || x.text == "real") && fraction(x.args[0].text) {
		// An operator's constant is mostly written as a number.
		x = &shown{shape: cast, text: x.text, args: []*shown{{text: strings.Trim(x.args[0].text, "'")}}}
	}
	if d.pretty && !simple(x, parent) {
		d.str("(")
		d.put(x)
		d.str(")")
		return
	}
	d.put(x)
}

// fraction reports whether s is a string constant of digits and a point.
func fraction(s string) bool {
	s, quoted := strings.CutPrefix(s, "'")
	whole, rest, point := strings.Cut(strings.TrimSuffix(s, "'"), ".")
	return quoted && point && whole != "" && rest != "" && strings.Trim(whole+rest, "0123456789") == ""
}

// around writes a parenthesis that the pretty form leaves out.
func (d *display) around(s string) {
	if !d.pretty {
		d.str(s)
	}
}

func (d *display) put(x *shown) {
	switch x.shape {
	case called:
		d.str(x.text + "(")
		d.list(x.args)
		d.str(")")
	case bracketed:
		d.str(x.text + "[")
		d.list(x.args)
		d.str("]")
	case extracted:
		d.str("EXTRACT(" + x.text + " FROM ")
		d.put(x.args[0])
		d.str(")")
	case cast:
		if a := x.args[0]; a.shape == atomic && (strings.HasSuffix(a.text, "'") || a.text == "NULL") || a.shape == bracketed && len(a.args) == 0 {
			d.put(a)
		} else {
			d.around("(")
			d.arg(a, x)
			d.around(")")
		}
		d.str("::" + x.text)
	case operation, distinct, test, junction, negation, quantified:
		d.around("(")
		d.operation(x)
		d.around(")")
	case cased:
		d.cased(x)
	case subscript:
		if x.args[0].shape == column {
			d.put(x.args[0])
		} else {
			d.str("(")
			d.put(x.args[0])
			d.str(")")
		}
		d.str("[")
		d.put(x.args[1])
		d.str("]")
	case field:
		d.str("(")
		d.put(x.args[0])
		d.str(")." + x.text)
	default:
		d.str(x.text)
	}
}

func (d *display) operation(x *shown) {
	switch {
	case x.shape == junction:
		for i, a := range x.args {
			if i > 0 {
				d.str(" " + x.text + " ")
			}
			d.arg(a, x)
		}
	case x.shape == negation:
		d.str("NOT ")
		d.arg(x.args[0], x)
	case x.shape == test:
		d.arg(x.args[0], x)
		d.str(" " + x.text)
	case x.shape == quantified:
		d.arg(x.args[0], x)
		d.str(" " + x.text + " (")
		d.arg(x.args[1], x)
		d.str(")")
	case len(x.args) == 1:
		d.str(x.text + " ")
		d.arg(x.args[0], x)
	default:
		d.arg(x.args[0], x)
		d.str(" " + x.text + " ")
		d.arg(x.args[1], x)
	}
}

// cased writes CASE over several lines, as PostgreSQL does in both forms.
func (d *display) cased(x *shown) {
	d.line("CASE")
	d.indent += 4
	i := 0
	for ; i+1 < len(x.args); i += 2 {
		d.line("WHEN ")
		d.put(x.args[i])
		d.str(" THEN ")
		d.put(x.args[i+1])
	}
	if i < len(x.args) {
		d.line("ELSE ")
		d.put(x.args[i])
	}
	d.indent -= 4
	d.line("END")
}

func (d *display) line(s string) {
	before := strings.TrimRight(d.buf.String(), " ")
	d.buf.Reset()
	d.str(before + "\n" + strings.Repeat(" ", d.indent) + s)
}

// simple reports whether x, as a part of parent, needs no parentheses by PostgreSQL's rules, which omit them only in the clear cases.
func simple(x, parent *shown) bool {
	switch x.shape {
	case quantified:
		return false
	case cast:
		if strings.HasPrefix(x.text, "character") || x.text == "text" || x.text == "bpchar" {
			return simple(x.args[0], x)
		}
		return true
	case operation:
		if parent.shape == operation {
			return binds(x, parent)
		}
		fallthrough
	case distinct, test:
		return parent.shape == junction || parent.shape == negation
	case junction, negation:
		switch parent.shape {
		case junction:
			return parent.text == "OR" && (x.text == "OR" || x.text == "AND" || x.shape == negation) ||
				parent.text == "AND" && x.text != "OR"
		}
		return false
	}
	return true
}

// binds reports whether x binds at least as tightly as parent, of which it is a part.
func binds(x, parent *shown) bool {
	level := func(o *shown) int {
		if len(o.args) == 2 {
			switch o.text {
			case "+", "-":
				return 1
			case "*", "/", "%":
				return 2
			}
		}
		return 0
	}
	a, b := level(x), level(parent)
	return a > 0 && b > 0 && (a > b || a == b && x == parent.args[0])
}
