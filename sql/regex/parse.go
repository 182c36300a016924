package regex

// Error is what is wrong with a pattern, in PostgreSQL's words.
type Error string

func (e Error) Error() string { return string(e) }

// The errors of patterns, and of searches that take too many steps.
const (
	badClass       Error = "invalid character class"
	badCollating   Error = "invalid collating element"
	badEscape      Error = "invalid escape \\ sequence"
	badReference   Error = "invalid backreference number"
	badBrackets    Error = "brackets [] not balanced"
	badParentheses Error = "parentheses () not balanced"
	badBraces      Error = "braces {} not balanced"
	badCounts      Error = "invalid repetition count(s)"
	badRange       Error = "invalid character range"
	badQuantifier  Error = "quantifier operand invalid"
	badVersion     Error = "invalid regexp (reg version 0.8)"
	badOption      Error = "invalid embedded option"
	TooComplex     Error = "regular expression is too complex"
)

// Syntax is the kind of a pattern.
type Syntax uint8

const (
	Advanced Syntax = iota
	Extended
	Basic
	Quoted // the pattern is a text
)

// Options are what flags, and options within a pattern, say.
type Options struct {
	// Fold: capitals and small letters are the same. Expanded: blanks and comments in the pattern mean nothing.
	Fold, Expanded bool
	// Stop: no . and no [^...] matches a newline. Lines: ^ and $ are at the ends of lines, too.
	Stop, Lines bool
	Syntax      Syntax
}

// Add sets the option of a letter, and reports whether there is one. Later letters win.
func (o *Options) Add(f rune) bool {
	switch f {
	case 'b':
		o.Syntax = Basic
	case 'c':
		o.Fold = false
	case 'e': // so say PostgreSQL's functions; their manual, and embedded options, say extended
		o.Syntax = Basic
	case 'i':
		o.Fold = true
	case 'm', 'n':
		o.Stop, o.Lines = true, true
	case 'p':
		o.Stop, o.Lines = true, false
	case 'q':
		o.Syntax = Quoted
	case 's':
		o.Stop, o.Lines = false, false
	case 't':
		o.Expanded = false
	case 'w':
		o.Stop, o.Lines = false, true
	case 'x':
		o.Expanded = true
	default:
		return false
	}
	return true
}

// prefixes reads what may come before a pattern: *** and embedded options.
func prefixes(p []rune, o *Options) ([]rune, error) {
	if o.Syntax == Quoted {
		return p, nil
	}
	if len(p) >= 3 && p[0] == '*' && p[1] == '*' && p[2] == '*' {
		if len(p) == 3 {
			return nil, badQuantifier
		}
		switch p[3] {
		case '?':
			return nil, badVersion
		case '=':
			o.Syntax, o.Expanded, o.Stop, o.Lines = Quoted, false, false, false
			return p[4:], nil
		case ':':
			o.Syntax = Advanced
			p = p[4:]
		default:
			return nil, badQuantifier
		}
	}
	letter := func(c rune) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }
	if o.Syntax != Advanced || len(p) < 3 || p[0] != '(' || p[1] != '?' || !letter(p[2]) {
		return p, nil
	}
	i := 2
	for ; i < len(p) && letter(p[i]); i++ {
		if p[i] == 'e' {
			o.Syntax = Extended
		} else if !o.Add(p[i]) {
			return nil, badOption
		}
	}
	if i >= len(p) || p[i] != ')' {
		return nil, badOption
	}
	if o.Syntax == Quoted {
		o.Expanded, o.Stop, o.Lines = false, false, false
	}
	return p[i+1:], nil
}

// tokenKind is the kind of a token of a pattern.
type tokenKind uint8

const (
	tEnd tokenKind = iota
	tPlain
	tClass   // \d and its like: set
	tAny     // .
	tBracket // [...]: set
	tOpen    // value: 1 is a group that captures
	tClose   // )
	tOr      // |
	tQuantifier
	tCondition // (?= and its like: value is the condition
	tEdge      // ^ $ \A \Z \m \M \y \Y: value is the edge
	tReference // \1
)

type token struct {
	kind  tokenKind
	value rune
	set   *set
	// of a quantifier
	min, max int
	prefers  flags
}

// edge is a condition on a place that takes no text.
type edge uint8

const (
	lineBegin  edge = iota // ^
	lineEnd                // $
	textBegin              // \A, and ^ without Lines
	textEnd                // \Z, and $ without Lines
	wordBegin              // \m
	wordEnd                // \M
	wordEdge               // \y
	noWordEdge             // \Y
)

// condition is the kind of (?=...) and its like.
type condition rune

const (
	ahead condition = iota
	notAhead
	behind
	notBehind
)

// repeatMax bounds the counts of a quantifier, as PostgreSQL does.
const (
	repeatMax = 255
	infinite  = repeatMax + 1
)

// flags of a node, which PostgreSQL names so: what its quantifiers prefer, and what it has inside.
type flags uint8

const (
	longer flags = 1 << iota
	shorter
	mixed   // has parts of both preferences
	capture // has a group that captures
	backref
)

func up(f flags) flags {
	u := f &^ (longer | shorter)
	if f&longer != 0 && f&shorter != 0 {
		u |= mixed
	}
	return u
}

func messy(f flags) bool { return f&(mixed|capture|backref) != 0 }

// combine joins the flags of two parts: the preference is the first one's that has one.
func combine(a, b flags) flags {
	p := a & (longer | shorter)
	if p == 0 {
		p = b & (longer | shorter)
	}
	return up(a|b) | p
}

// expr is a regular expression without groups, of which an automaton is made.
type expr struct {
	op   exprOp
	set  *set
	edge edge
	cond condition
	subs []*expr
	// of a repetition
	min, max int
}

type exprOp uint8

const (
	exEmpty exprOp = iota
	exSet
	exCat
	exOr
	exRepeat
	exEdge
	exCondition
)

func cat(xs ...*expr) *expr {
	switch len(xs) {
	case 0:
		return &expr{op: exEmpty}
	case 1:
		return xs[0]
	}
	return &expr{op: exCat, subs: xs}
}

// node is a part of a pattern whose boundaries matter.
type node struct {
	op    byte // = an automaton, . a concatenation of two, | alternatives, * a repetition, ( a group around a group, b a back reference
	flags flags
	group int // the group that the node is; zero: none
	subs  []*node
	min   int
	max   int
	ref   int
	expr  *expr
	prog  int // the automaton's number
}

// Bounds of patterns.
const (
	// PatternMax bounds a pattern's length in bytes. PostgreSQL bounds the automaton that it becomes.
	PatternMax = 64 << 10
	depthMax   = 1000
)

type parser struct {
	p      []rune
	at     int
	o      Options
	t      token
	last   tokenKind
	groups []*node // by number; nil: not closed yet
	ones   map[rune]*set
	depth  int
}

func (p *parser) fail(e Error) { panic(e) }

// parse makes the tree of a pattern.
func parse(pattern string, o Options) (root *node, groups int, opts Options, err error) {
	if len(pattern) > PatternMax {
		return nil, 0, o, TooComplex
	}
	defer func() {
		if r := recover(); r != nil {
			e, ok := r.(Error)
			if !ok {
				panic(r)
			}
			root, err = nil, e
		}
	}()
	rest, err := prefixes([]rune(pattern), &o)
	if err != nil {
		return nil, 0, o, err
	}
	p := &parser{p: rest, o: o, groups: []*node{nil}}
	if o.Syntax == Quoted {
		var xs []*expr
		for _, c := range rest {
			xs = append(xs, &expr{op: exSet, set: p.one(c)})
		}
		return &node{op: '=', expr: cat(xs...)}, 0, o, nil
	}
	if o.Syntax == Basic {
		p.p = basicToAdvanced(rest)
		p.o.Syntax = Advanced
	}
	p.next()
	root = p.alternatives(false, false)
	if p.t.kind != tEnd {
		p.fail(badParentheses)
	}
	return root, len(p.groups) - 1, o, nil
}

// alternatives parses branches up to a closing parenthesis or the end.
func (p *parser) alternatives(inside, look bool) *node {
	if p.depth++; p.depth > depthMax {
		p.fail(TooComplex)
	}
	defer func() { p.depth-- }()
	all := &node{op: '|', flags: longer}
	for {
		b := p.branch(inside, look)
		all.subs = append(all.subs, b)
		all.flags |= up(all.flags | b.flags)
		if p.t.kind != tOr {
			break
		}
		p.next()
	}
	if len(all.subs) == 1 {
		return all.subs[0]
	}
	x := &expr{op: exOr}
	for _, b := range all.subs {
		x.subs = append(x.subs, b.expr)
	}
	all.expr = x
	if !messy(all.flags) {
		all.op, all.subs = '=', nil
	}
	return all
}

// ends reports whether a branch ends here.
func (p *parser) ends(inside bool) bool {
	return p.t.kind == tEnd || p.t.kind == tOr || p.t.kind == tClose && inside
}

// branch parses a concatenation. The rest behind a part whose boundaries matter is a branch of its own, within it.
func (p *parser) branch(inside, look bool) *node {
	if p.depth++; p.depth > depthMax {
		p.fail(TooComplex)
	}
	defer func() { p.depth-- }()
	top := &node{op: '='}
	var done []*expr
	for !p.ends(inside) {
		var rest *node
		if rest, done = p.atom(inside, look, top, done); rest != nil {
			return rest
		}
	}
	top.expr = cat(done...)
	return top
}

// atom parses an atom with its quantifier, and adds it to what the branch has so far. If its boundaries matter, the node of the whole branch is returned.
func (p *parser) atom(inside, look bool, top *node, done []*expr) (*node, []*expr) {
	var x *expr // of an atom that is no group
	var atom *node
	kind := p.t.kind
	switch kind {
	case tEdge:
		x := &expr{op: exEdge, edge: edge(p.t.value)}
		p.next()
		return nil, append(done, x)
	case tCondition:
		c := condition(p.t.value)
		p.next()
		inner := p.alternatives(true, true)
		p.close()
		return nil, append(done, &expr{op: exCondition, cond: c, subs: []*expr{inner.expr}})
	case tQuantifier:
		p.fail(badQuantifier)
	case tClose:
		if p.o.Syntax == Advanced {
			p.fail(badParentheses)
		}
		x = &expr{op: exSet, set: p.one(')')}
		p.next()
	case tOpen:
		captures, n := p.t.value == 1 && !look, 0
		if captures {
			p.groups = append(p.groups, nil)
			n = len(p.groups) - 1
		}
		p.next()
		atom = p.alternatives(true, look)
		p.close()
		if captures {
			if atom.group == 0 {
				atom.flags |= capture
				atom.group = n
			} else {
				atom = &node{op: '(', flags: atom.flags | capture, group: n, subs: []*node{atom}, expr: atom.expr}
			}
			p.groups[n] = atom
		}
	case tReference:
		n := int(p.t.value)
		if look || n >= len(p.groups) || p.groups[n] == nil {
			p.fail(badReference)
		}
		atom = &node{op: 'b', flags: backref, ref: n, expr: withoutConditions(p.groups[n].expr)}
		p.next()
	default: // a character or a set of them
		x = &expr{op: exSet, set: p.t.set}
		p.next()
	}
	lo, hi, prefers := 1, 1, flags(0)
	if p.t.kind == tQuantifier {
		lo, hi, prefers = p.t.min, p.t.max, p.t.prefers
		p.next()
	}
	if lo == 0 && hi == 0 { // the atom is nothing; its groups can be referred to
		return nil, done
	}
	f := top.flags | prefers
	if atom != nil {
		f |= atom.flags
		x = atom.expr
	}
	if kind != tOpen && kind != tReference && !messy(up(f)) {
		top.flags = f
		return nil, append(done, repeat(x, lo, hi))
	}
	if atom == nil {
		atom = &node{op: '=', expr: x}
	}
	// A concatenation of what the branch has so far, the atom, and the rest of the branch.
	pair := &node{op: '.', flags: combine(prefers, atom.flags)}
	switch {
	case kind == tReference:
		atom.min, atom.max = lo, hi
		atom.flags |= combine(prefers, atom.flags)
		atom.expr = repeat(x, lo, hi)
	case lo == 1 && hi == 1 && (prefers == 0 || atom.flags&(longer|shorter|mixed) == 0 || prefers == atom.flags&(longer|shorter|mixed)):
	case atom.flags&(capture|backref) == 0:
		atom = &node{op: '=', flags: combine(prefers, atom.flags), expr: repeat(x, lo, hi)}
	case lo > 0 && atom.flags&backref == 0:
		// Groups show the last repetition: the others need no node.
		f := combine(prefers, atom.flags)
		most := hi
		if hi != infinite {
			most--
		}
		before := &node{op: '=', flags: f & (longer | shorter), expr: repeat(x, lo-1, most)}
		atom = &node{op: '.', flags: f, subs: []*node{before, atom}, expr: cat(before.expr, atom.expr)}
	default:
		atom = &node{op: '*', flags: combine(prefers, atom.flags), min: lo, max: hi, subs: []*node{atom}, expr: repeat(x, lo, hi)}
	}
	prefix := &node{op: '=', flags: top.flags, expr: cat(done...)}
	whole := &node{op: '.', flags: top.flags}
	bare := len(done) == 0
	if p.ends(inside) {
		pair.flags |= combine(pair.flags, atom.flags)
		whole.flags |= combine(whole.flags, pair.flags)
		if bare {
			return atom, nil
		}
		whole.subs = []*node{prefix, atom}
		whole.expr = cat(prefix.expr, atom.expr)
		return whole, nil
	}
	rest := p.branch(inside, look)
	pair.subs = []*node{atom, rest}
	pair.flags |= combine(pair.flags, rest.flags)
	pair.expr = cat(atom.expr, rest.expr)
	whole.flags |= combine(whole.flags, pair.flags)
	if bare {
		pair.flags = whole.flags
		return pair, nil
	}
	if atom.op == '=' && atom.group == 0 && rest.op == '=' && rest.group == 0 && !messy(up(atom.flags|rest.flags)) {
		pair.op, pair.flags, pair.subs = '=', combine(atom.flags, rest.flags), nil
	}
	whole.subs = []*node{prefix, pair}
	whole.expr = cat(prefix.expr, pair.expr)
	return whole, nil
}

func (p *parser) close() {
	if p.t.kind != tClose {
		p.fail(badParentheses)
	}
	p.next()
}

func repeat(x *expr, lo, hi int) *expr {
	if lo == 1 && hi == 1 {
		return x
	}
	return &expr{op: exRepeat, subs: []*expr{x}, min: lo, max: hi}
}

// withoutConditions is an expression without edges and conditions: a back reference repeats the text of a group, and not the place.
func withoutConditions(x *expr) *expr {
	switch x.op {
	case exEdge, exCondition:
		return &expr{op: exEmpty}
	case exSet, exEmpty:
		return x
	}
	n := *x
	n.subs = make([]*expr, len(x.subs))
	for i, s := range x.subs {
		n.subs[i] = withoutConditions(s)
	}
	return &n
}

// basicToAdvanced writes a basic regular expression as an advanced one: characters that have a backslash there have none here, and conversely.
func basicToAdvanced(p []rune) (out []rune) {
	class := false
	is := func(i int, c rune) bool { return i >= 0 && i < len(p) && p[i] == c }
	for i := 0; i < len(p); i++ {
		c := p[i]
		switch {
		case class:
			class = c != ']'
			if c == '\\' {
				out = append(out, '\\')
			}
			out = append(out, c)
		case c == '[':
			class = true
			out = append(out, c)
			if is(i+1, '^') {
				i++
				out = append(out, '^')
			}
			if is(i+1, ']') {
				i++
				out = append(out, ']')
			}
		case c == '\\' && i+1 < len(p):
			i++
			switch e := p[i]; {
			case e == '<':
				out = append(out, '\\', 'm')
			case e == '>':
				out = append(out, '\\', 'M')
			case e == '(' || e == ')' || e == '{' || e == '}':
				out = append(out, e)
			case e >= '1' && e <= '9':
				out = append(out, '\\', e)
				if i+1 < len(p) && p[i+1] >= '0' && p[i+1] <= '9' { // which is no part of the number
					out = append(out, []rune("(?:)")...)
				}
			case e >= 'a' && e <= 'z' || e >= 'A' && e <= 'Z' || e == '0':
				out = append(out, e)
			default:
				out = append(out, '\\', e)
			}
		case c == '(' || c == ')' || c == '{' || c == '}' || c == '+' || c == '?' || c == '|',
			c == '*' && (i == 0 || i == 1 && is(0, '^') || is(i-1, '(') && is(i-2, '\\')),
			c == '^' && i > 0 && !(is(i-1, '(') && is(i-2, '\\')),
			c == '$' && i+1 < len(p) && !(is(i+1, '\\') && is(i+2, ')')):
			out = append(out, '\\', c)
		default:
			out = append(out, c)
		}
	}
	return out
}
