package regex

// next reads a token. It follows PostgreSQL's lexer, for advanced and extended regular expressions.
func (p *parser) next() {
	p.last = p.t.kind
	for again := true; again; {
		p.t = token{}
		again = p.lex()
	}
}

func (p *parser) end() bool { return p.at >= len(p.p) }

func (p *parser) sees(c rune) bool { return p.at < len(p.p) && p.p[p.at] == c }

func (p *parser) eat(c rune) bool {
	if p.sees(c) {
		p.at++
		return true
	}
	return false
}

// blanks skips blanks and comments of expanded syntax.
func (p *parser) blanks() {
	for p.o.Expanded && !p.end() {
		switch c := p.p[p.at]; {
		case c == ' ' || c >= '\t' && c <= '\r':
			p.at++
		case c == '#':
			for !p.end() && p.p[p.at] != '\n' {
				p.at++
			}
		default:
			return
		}
	}
}

// lex reads a token; again: it was a comment.
func (p *parser) lex() (again bool) {
	p.blanks()
	if p.end() {
		p.t.kind = tEnd
		return false
	}
	c := p.p[p.at]
	p.at++
	advanced := p.o.Syntax == Advanced
	quantifier := func(lo, hi int) {
		p.t = token{kind: tQuantifier, min: lo, max: hi, prefers: longer}
		if advanced && p.eat('?') {
			p.t.prefers = shorter
		}
	}
	switch c {
	case '|':
		p.t.kind = tOr
	case '*':
		quantifier(0, infinite)
	case '+':
		quantifier(1, infinite)
	case '?':
		quantifier(0, 1)
	case '{':
		p.blanks()
		if p.end() || p.p[p.at] < '0' || p.p[p.at] > '9' {
			p.plain(c)
			return false
		}
		p.bounds()
	case '(':
		p.t = token{kind: tOpen, value: 1}
		if !advanced || !p.eat('?') {
			return false
		}
		if p.end() {
			p.fail(badQuantifier)
		}
		c := p.p[p.at]
		p.at++
		switch c {
		case ':':
			p.t.value = 0
		case '#':
			for !p.end() && p.p[p.at] != ')' {
				p.at++
			}
			p.at++
			p.at = min(p.at, len(p.p))
			return true
		case '=':
			p.t = token{kind: tCondition, value: rune(ahead)}
		case '!':
			p.t = token{kind: tCondition, value: rune(notAhead)}
		case '<':
			switch {
			case p.eat('='):
				p.t = token{kind: tCondition, value: rune(behind)}
			case p.eat('!'):
				p.t = token{kind: tCondition, value: rune(notBehind)}
			default:
				p.fail(badQuantifier)
			}
		default:
			p.fail(badQuantifier)
		}
	case ')':
		p.t.kind = tClose
	case '[':
		for _, w := range []struct {
			text string
			e    edge
		}{{"[:<:]]", wordBegin}, {"[:>:]]", wordEnd}} {
			if p.at+len(w.text) <= len(p.p) && string(p.p[p.at:p.at+len(w.text)]) == w.text {
				p.at += len(w.text)
				p.t = token{kind: tEdge, value: rune(w.e)}
				return false
			}
		}
		p.t = token{kind: tBracket, set: p.bracket()}
	case '.':
		s := &set{negate: true}
		if p.o.Stop {
			s.add('\n', '\n')
		}
		p.t = token{kind: tAny, set: s.done()}
	case '^':
		p.t = token{kind: tEdge, value: rune(textBegin)}
		if p.o.Lines {
			p.t.value = rune(lineBegin)
		}
	case '$':
		p.t = token{kind: tEdge, value: rune(textEnd)}
		if p.o.Lines {
			p.t.value = rune(lineEnd)
		}
	case '\\':
		if p.end() {
			p.fail(badEscape)
		}
		if !advanced {
			c := p.p[p.at]
			p.at++
			p.plain(c)
			return false
		}
		p.escape()
		if p.t.kind == tPlain {
			p.plain(p.t.value)
		}
	default:
		p.plain(c)
	}
	return false
}

func (p *parser) plain(c rune) { p.t = token{kind: tPlain, value: c, set: p.one(c)} }

// one is the set of a character, with its other case.
func (p *parser) one(c rune) *set {
	if s := p.ones[c]; s != nil {
		return s
	}
	s := &set{}
	s.add(c, c)
	if p.ones == nil {
		p.ones = map[rune]*set{}
	}
	p.ones[c] = p.folded(s).done()
	return s
}

func (p *parser) folded(s *set) *set {
	if p.o.Fold {
		s.fold()
	}
	return s
}

// bounds reads m,n} of a quantifier.
func (p *parser) bounds() {
	number := func() int {
		p.blanks()
		n, digits := 0, 0
		for !p.end() && p.p[p.at] >= '0' && p.p[p.at] <= '9' {
			if n = n*10 + int(p.p[p.at]-'0'); n > repeatMax {
				p.fail(badCounts)
			}
			digits++
			p.at++
			p.blanks()
		}
		if digits == 0 {
			return -1
		}
		return n
	}
	lo := number()
	hi, prefers := lo, flags(0) // {m} passes on what the operand prefers
	ranges := false
	if p.eat(',') {
		ranges = true
		if hi = number(); hi < 0 {
			hi = infinite
		} else if lo > hi {
			p.fail(badCounts)
		}
	}
	p.blanks()
	if p.end() {
		p.fail(badBraces)
	}
	if !p.eat('}') {
		p.fail(badCounts)
	}
	lazy := p.o.Syntax == Advanced && p.eat('?')
	if ranges {
		if prefers = longer; lazy {
			prefers = shorter
		}
	}
	p.t = token{kind: tQuantifier, min: lo, max: hi, prefers: prefers}
}

// escape reads the characters after a backslash.
func (p *parser) escape() {
	c := p.p[p.at]
	p.at++
	plain := func(c rune) { p.t = token{kind: tPlain, value: c} }
	if c >= 128 || !(c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z') {
		plain(c)
		return
	}
	digits := func(base rune, least, most int) rune {
		n, count := uint32(0), 0 // which overflows as PostgreSQL's does
		for ; count < most && !p.end(); count++ {
			d := rune(-1)
			switch c := p.p[p.at]; {
			case c >= '0' && c <= '9':
				d = c - '0'
			case c >= 'a' && c <= 'f':
				d = c - 'a' + 10
			case c >= 'A' && c <= 'F':
				d = c - 'A' + 10
			}
			if d < 0 || d >= base {
				break
			}
			n = n*uint32(base) + uint32(d)
			p.at++
		}
		if count < least || n >= 0x7fffffff {
			p.fail(badEscape)
		}
		return rune(n)
	}
	class := func(name string, negate bool) {
		s := &set{}
		s.class(name)
		if name == "word" {
			s.add('_', '_')
		}
		s.negate = negate
		p.t = token{kind: tClass, set: s.done()}
	}
	at := func(e edge) { p.t = token{kind: tEdge, value: rune(e)} }
	switch c {
	case 'a':
		plain('\a')
	case 'A':
		at(textBegin)
	case 'b':
		plain('\b')
	case 'B':
		plain('\\')
	case 'c':
		if p.end() {
			p.fail(badEscape)
		}
		plain(p.p[p.at] & 0o37)
		p.at++
	case 'd', 'D':
		class("digit", c == 'D')
	case 's', 'S':
		class("space", c == 'S')
	case 'w', 'W':
		class("word", c == 'W')
	case 'e':
		plain(0x1b)
	case 'f':
		plain('\f')
	case 'm':
		at(wordBegin)
	case 'M':
		at(wordEnd)
	case 'n':
		plain('\n')
	case 'r':
		plain('\r')
	case 't':
		plain('\t')
	case 'u':
		plain(digits(16, 4, 4))
	case 'U':
		plain(digits(16, 8, 8))
	case 'v':
		plain('\v')
	case 'x':
		plain(digits(16, 1, 255))
	case 'y':
		at(wordEdge)
	case 'Y':
		at(noWordEdge)
	case 'Z':
		at(textEnd)
	case '0':
		p.at--
		p.octal(plain, digits)
	case '1', '2', '3', '4', '5', '6', '7', '8', '9':
		save := p.at
		p.at--
		n := digits(10, 1, 255)
		if p.at == save || n > 0 && int(n) < len(p.groups) {
			p.t = token{kind: tReference, value: n}
			return
		}
		p.at = save - 1 // no reference, but an octal number
		p.octal(plain, digits)
	default:
		p.fail(badEscape)
	}
}

func (p *parser) octal(plain func(rune), digits func(base rune, least, most int) rune) {
	n := digits(8, 1, 3)
	if n > 0xff { // one digit too many
		p.at--
		n >>= 3
	}
	plain(n)
}

// bracket reads a set after [.
func (p *parser) bracket() *set {
	s := &set{}
	if p.eat('^') {
		s.negate = true
	}
	for first := true; ; first = false {
		if p.end() {
			p.fail(badBrackets)
		}
		if p.sees(']') && !first {
			p.at++
			break
		}
		p.element(s, first)
	}
	p.folded(s)
	if s.negate && p.o.Stop {
		s.add('\n', '\n')
	}
	return s.done()
}

// element reads a character, a range or a class of a set.
func (p *parser) element(s *set, first bool) {
	if p.sees('-') && !first && !(p.at+1 < len(p.p) && p.p[p.at+1] == ']') {
		p.fail(badRange)
	}
	if p.sees('-') && !first { // [a-] has a minus as its last character
		p.at++
		s.add('-', '-')
		return
	}
	from, class := p.single(s)
	if class {
		return
	}
	if !p.sees('-') || p.at+1 < len(p.p) && p.p[p.at+1] == ']' {
		s.add(from, from)
		return
	}
	p.at++
	if p.end() {
		p.fail(badBrackets)
	}
	to := rune('-')
	if !p.eat('-') {
		before := len(s.ranges) + len(s.classes)
		var class bool
		if to, class = p.single(s); class || len(s.ranges)+len(s.classes) != before {
			p.fail(badRange)
		}
	}
	if from > to {
		p.fail(badRange)
	}
	s.add(from, to)
}

// single reads one character of a set, or adds a class to it.
func (p *parser) single(s *set) (c rune, class bool) {
	c = p.p[p.at]
	p.at++
	switch {
	case c == '\\' && p.o.Syntax == Advanced:
		if p.end() {
			p.fail(badEscape)
		}
		save := p.t
		p.escape()
		t := p.t
		p.t = save
		switch t.kind {
		case tPlain:
			return t.value, false
		case tClass:
			s.union(t.set)
			return 0, true
		}
		p.fail(badEscape)
	case c == '[' && (p.sees('.') || p.sees('=') || p.sees(':')):
		kind := p.p[p.at]
		p.at++
		from := p.at
		for p.at+1 < len(p.p) && !(p.p[p.at] == kind && p.p[p.at+1] == ']') {
			p.at++
		}
		if p.at+1 >= len(p.p) {
			p.fail(badBrackets)
		}
		name := string(p.p[from:p.at])
		p.at += 2
		if kind == ':' {
			if p.o.Fold && (name == "lower" || name == "upper") {
				name = "alpha"
			}
			if !s.class(name) {
				p.fail(badClass)
			}
			return 0, true
		}
		rs := []rune(name)
		if len(rs) != 1 {
			p.fail(badCollating)
		}
		if kind == '=' {
			s.add(rs[0], rs[0])
			return 0, true
		}
		return rs[0], false
	}
	return c, false
}
