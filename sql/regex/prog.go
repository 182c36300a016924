package regex

import (
	"unicode/utf8"
)

// prog is an automaton: a program whose states are its instructions.
type prog struct {
	in            []inst
	start, accept int32
	// plain: no instruction is a condition on a place but for the text's beginning and end, so the state after a character depends on the states
	// before it alone.
	plain bool
	// backward: it reads towards the beginning, for a condition on what is before.
	backward bool
}

type instOp uint8

const (
	inSet instOp = iota
	inSplit
	inEdge
	inCondition
	inMatch
)

type inst struct {
	op   instOp
	edge edge
	cond condition
	set  *set
	prog int // of a condition
	x, y int32
}

// programMax bounds an automaton's instructions, and all of a pattern's together.
const programMax = 50_000

// compiler makes the automata of a pattern.
type compiler struct {
	progs []*prog
	total int
}

// size estimates an expression's instructions.
func size(x *expr) int {
	n := 1
	for _, s := range x.subs {
		n = min(n+size(s), programMax+1)
	}
	if x.op == exRepeat {
		times := x.max
		if times == infinite {
			times = x.min + 1
		}
		n = min(n*max(times, 1), programMax+1)
	}
	return n
}

// add makes the automaton of an expression, and returns its number.
func (c *compiler) add(x *expr, backward bool) (int, error) {
	if c.total += size(x); c.total > programMax {
		return 0, TooComplex
	}
	p := &prog{plain: true, backward: backward}
	n := len(c.progs)
	c.progs = append(c.progs, p)
	if err := c.emit(p, x); err != nil {
		return 0, err
	}
	p.accept = int32(p.put(inst{op: inMatch}))
	return n, nil
}

// root makes the automata of a pattern, and one that accepts where a match ends that begins anywhere.
func (c *compiler) root(n *node) (search int, err error) {
	if err := c.node(n); err != nil {
		return 0, err
	}
	p := c.progs[n.prog]
	every := (&set{negate: true}).done()
	k, first := int32(len(p.in)), &p.in[0]
	p.in = append(p.in, inst{op: inSplit, x: p.start, y: k + 1}, inst{op: inSet, set: every, x: k})
	for _, o := range c.progs {
		if len(o.in) > 0 && &o.in[0] == first {
			o.in = p.in
		}
	}
	c.progs = append(c.progs, &prog{in: p.in, start: k, plain: p.plain, accept: p.accept})
	return len(c.progs) - 1, nil
}

// node makes the automata of a node and of its parts. The second part of a concatenation ends where the whole ends, and is a part of its automaton.
func (c *compiler) node(n *node) error {
	if n.op == '(' {
		err := c.node(n.subs[0])
		n.prog = n.subs[0].prog
		return err
	}
	if c.total += size(n.expr); c.total > programMax {
		return TooComplex
	}
	p := &prog{plain: true}
	n.prog = len(c.progs)
	c.progs = append(c.progs, p)
	var tails []*prog
	last := n
	for last.op == '.' {
		if err := c.emit(p, last.subs[0].expr); err != nil {
			return err
		}
		last = last.subs[1]
		last.prog = len(c.progs)
		tail := &prog{start: int32(len(p.in))}
		c.progs, tails = append(c.progs, tail), append(tails, tail)
	}
	if err := c.emit(p, last.expr); err != nil {
		return err
	}
	p.accept = int32(p.put(inst{op: inMatch}))
	for _, t := range tails {
		t.in, t.plain, t.accept = p.in, p.plain, p.accept
	}
	for m := n; ; m = m.subs[1] {
		if m.op == '.' {
			if err := c.node(m.subs[0]); err != nil {
				return err
			}
			continue
		}
		for _, s := range m.subs {
			if err := c.node(s); err != nil {
				return err
			}
		}
		return nil
	}
}

func (p *prog) put(i inst) int {
	p.in = append(p.in, i)
	return len(p.in) - 1
}

// emit appends the instructions of an expression: they begin at the first of them, and go on behind the last.
func (c *compiler) emit(p *prog, x *expr) error {
	if len(p.in) > 4*programMax {
		return TooComplex
	}
	next := func() int32 { return int32(len(p.in)) }
	switch x.op {
	case exSet:
		p.put(inst{op: inSet, set: x.set, x: next() + 1})
	case exCat:
		for i := range x.subs {
			s := x.subs[i]
			if p.backward {
				s = x.subs[len(x.subs)-1-i]
			}
			if err := c.emit(p, s); err != nil {
				return err
			}
		}
	case exOr:
		var jumps []int
		for i, s := range x.subs {
			split := -1
			if i < len(x.subs)-1 {
				split = p.put(inst{op: inSplit, x: next() + 1})
			}
			if err := c.emit(p, s); err != nil {
				return err
			}
			if split >= 0 {
				jumps = append(jumps, p.put(inst{op: inSplit}))
				p.in[split].y = next()
			}
		}
		for _, j := range jumps {
			p.in[j].x, p.in[j].y = next(), next()
		}
	case exRepeat:
		for range x.min {
			if err := c.emit(p, x.subs[0]); err != nil {
				return err
			}
		}
		if x.max == infinite {
			split := p.put(inst{op: inSplit, x: next() + 1})
			if err := c.emit(p, x.subs[0]); err != nil {
				return err
			}
			p.put(inst{op: inSplit, x: int32(split), y: int32(split)})
			p.in[split].y = next()
			return nil
		}
		var splits []int
		for range x.max - x.min {
			splits = append(splits, p.put(inst{op: inSplit, x: next() + 1}))
			if err := c.emit(p, x.subs[0]); err != nil {
				return err
			}
		}
		for _, s := range splits {
			p.in[s].y = next()
		}
	case exEdge:
		p.plain = p.plain && (x.edge == textBegin || x.edge == textEnd)
		p.put(inst{op: inEdge, edge: x.edge, x: next() + 1})
	case exCondition:
		p.plain = false
		n, err := c.add(x.subs[0], x.cond == behind || x.cond == notBehind)
		if err != nil {
			return err
		}
		p.put(inst{op: inCondition, cond: x.cond, prog: n, x: next() + 1})
	}
	return nil
}

// machine is the state of a search.
type machine struct {
	re    *Regexp
	text  string
	check Checker
	steps int // since the last check
	total int // before the last check
	known int // sets of states in the caches, by their size
	begun int // how often the caches were full in this search
	// dividing: the groups of a match are looked for, which may take more steps than the text times the pattern.
	dividing bool
	// inside: the end of the text is not looked at, because states are found that hold anywhere.
	inside bool
	err    error
	sets   []states // by automaton
	stack  []int32
	key    []byte
	caps   []int
}

// states are two sets of an automaton's states.
type states struct {
	now, next sparse
	cache     *cache
}

// sparse is a set of instructions.
type sparse struct {
	dense  []int32
	sparse []int32
}

func (s *sparse) has(i int32) bool {
	j := s.sparse[i]
	return int(j) < len(s.dense) && s.dense[j] == i
}

func (s *sparse) put(i int32) {
	s.sparse[i] = int32(len(s.dense))
	s.dense = append(s.dense, i)
}

// Checker ends a search by an error.
type Checker interface{ Check() error }

// checkEvery is the number of steps between two checks.
const checkEvery = 1 << 16

func (m *machine) step(n int) bool {
	if m.steps += n; m.steps >= checkEvery {
		m.total += m.steps
		m.steps = 0
		if m.dividing && m.total > stepsMax && m.err == nil {
			m.err = TooComplex
		}
		if m.check != nil && m.err == nil {
			m.err = m.check.Check()
		}
	}
	return m.err == nil
}

// closure adds a state, and those that it reaches without a character.
func (m *machine) closure(p *prog, s *sparse, i int32, at int) {
	m.stack = append(m.stack[:0], i)
	for len(m.stack) > 0 {
		i := m.stack[len(m.stack)-1]
		m.stack = m.stack[:len(m.stack)-1]
		if s.has(i) {
			continue
		}
		s.put(i)
		switch in := &p.in[i]; in.op {
		case inSplit:
			if in.y != in.x {
				m.stack = append(m.stack, in.y)
			}
			m.stack = append(m.stack, in.x)
		case inEdge:
			if in.edge == textEnd && m.inside { // remember finds what follows at the end
				continue
			}
			if m.edge(in.edge, at) {
				m.stack = append(m.stack, in.x)
			}
		case inCondition:
			rest := m.stack
			m.stack = nil
			holds := m.condition(in, at)
			m.stack = rest
			if holds {
				m.stack = append(m.stack, in.x)
			}
		}
	}
}

// edge reports whether a condition on a place holds.
func (m *machine) edge(e edge, at int) bool {
	switch e {
	case textBegin:
		return at == 0
	case textEnd:
		return at == len(m.text)
	case lineBegin:
		return at == 0 || m.text[at-1] == '\n'
	case lineEnd:
		return at == len(m.text) || m.text[at] == '\n'
	}
	before, after := false, false
	if at > 0 {
		c := rune(m.text[at-1])
		if c >= utf8.RuneSelf {
			c, _ = utf8.DecodeLastRuneInString(m.text[:at])
		}
		before = isWord(c)
	}
	if at < len(m.text) {
		c := rune(m.text[at])
		if c >= utf8.RuneSelf {
			c, _ = utf8.DecodeRuneInString(m.text[at:])
		}
		after = isWord(c)
	}
	switch e {
	case wordBegin:
		return !before && after
	case wordEnd:
		return before && !after
	case wordEdge:
		return before != after
	}
	return before == after
}

// condition reports whether (?=...) or one of its like holds.
func (m *machine) condition(in *inst, at int) bool {
	switch in.cond {
	case ahead, notAhead:
		return (m.run(in.prog, at, len(m.text), at, false) >= 0) == (in.cond == ahead)
	}
	return (m.run(in.prog, at, 0, at, false) >= 0) == (in.cond == behind)
}

// run lets an automaton read the text from a place on, as far as limit, and returns where it accepts: at the last place, or at the first one that is not
// before least. It returns -1 if there is none. A backward automaton reads towards the beginning, and stops at the first place.
func (m *machine) run(n, from, limit, least int, longest bool) int {
	p := m.re.progs[n]
	st := &m.sets[n]
	if st.now.sparse == nil {
		st.now.sparse, st.next.sparse = make([]int32, len(p.in)), make([]int32, len(p.in))
	}
	if p.plain && !p.backward {
		return m.runCached(p, st, from, limit, least, longest)
	}
	st.now.dense = st.now.dense[:0]
	m.closure(p, &st.now, p.start, from)
	return m.runStates(p, st, from, limit, least, longest)
}

// runStates goes on from the states in st.now.
func (m *machine) runStates(p *prog, st *states, from, limit, least int, longest bool) int {
	now, next := st.now, st.next
	last, at := -1, from
	for {
		if now.has(p.accept) && (p.backward || at >= least) {
			if last = at; !longest {
				break
			}
		}
		if at == limit || len(now.dense) == 0 || !m.step(len(now.dense)) {
			break
		}
		var c rune
		to := at
		if p.backward {
			r, w := utf8.DecodeLastRuneInString(m.text[:at])
			c, to = r, at-w
		} else if c = rune(m.text[at]); c < utf8.RuneSelf {
			to++
		} else {
			r, w := utf8.DecodeRuneInString(m.text[at:])
			c, to = r, at+w
		}
		next.dense = next.dense[:0]
		for _, i := range now.dense {
			if in := &p.in[i]; in.op == inSet && in.set.has(c) {
				m.closure(p, &next, in.x, to)
			}
		}
		now, next, at = next, now, to
	}
	st.now, st.next = now, next
	return last
}

// cache has the sets of states that an automaton without conditions has been in, and how they follow each other: a deterministic automaton, as far as
// the texts have needed it.
type cache struct {
	first [2]*known // at the beginning of the text, and elsewhere
	sets  map[string]*known
}

// known is a set of states.
type known struct {
	states []int32
	accept bool
	final  bool // accepts if the text ends here
	dead   bool
	ascii  [utf8.RuneSelf]*known
	others map[rune]*known // by a character that isn't in ASCII
}

// cacheMax bounds the sets of states that a search keeps, in all automata.
const cacheMax = 512

// begunMax is how often a search fills the caches before it does without them.
const begunMax = 4

// othersMax bounds what a set of states knows of characters that are not in ASCII.
const othersMax = 64

// remember is the set of states in the cache.
func (m *machine) remember(p *prog, st *states, s *sparse) *known {
	m.key = m.key[:0]
	for _, i := range s.dense {
		switch in := &p.in[i]; {
		case in.op == inSet, in.op == inEdge && in.edge == textEnd, in.op == inMatch:
			m.key = append(m.key, byte(i), byte(i>>8), byte(i>>16))
		}
	}
	if o := st.cache.sets[string(m.key)]; o != nil {
		return o
	}
	k := &known{}
	for _, i := range s.dense {
		switch in := &p.in[i]; {
		case in.op == inSet, in.op == inEdge && in.edge == textEnd:
			k.states = append(k.states, i)
		case in.op == inMatch:
			k.accept = true
		}
	}
	k.dead = len(k.states) == 0
	k.final = k.accept
	var end sparse // what follows if the text ends
	for _, i := range k.states {
		if in := &p.in[i]; in.op == inEdge && !k.accept {
			if end.sparse == nil {
				end.sparse = make([]int32, len(p.in))
			}
			m.inside = false
			m.closure(p, &end, in.x, len(m.text))
			m.inside = true
		}
	}
	if end.sparse != nil {
		k.final = end.has(p.accept)
	}
	cost := 1 + len(k.states)/256
	if m.known += cost; m.known > cacheMax { // begin anew
		for i := range m.sets {
			m.sets[i].cache = nil
		}
		m.known = cost
		m.begun++
		st.cache = &cache{sets: map[string]*known{}}
	}
	st.cache.sets[string(m.key)] = k
	return k
}

func (m *machine) runCached(p *prog, st *states, from, limit, least int, longest bool) int {
	if st.cache == nil {
		st.cache = &cache{sets: map[string]*known{}}
	}
	m.inside = true
	defer func() { m.inside = false }()
	begin := min(from, 1)
	k := st.cache.first[begin]
	if k == nil {
		st.now.dense = st.now.dense[:0]
		m.closure(p, &st.now, p.start, from)
		k = m.remember(p, st, &st.now)
		st.cache.first[begin] = k
	}
	last, at := -1, from
	for {
		if (k.accept || k.final && at == len(m.text)) && at >= least {
			if last = at; !longest {
				return last
			}
		}
		if at == limit || k.dead {
			return last
		}
		c, w := rune(m.text[at]), 1
		if c < utf8.RuneSelf {
			if n := k.ascii[c]; n != nil {
				if m.steps++; m.steps >= checkEvery && !m.step(0) {
					return last
				}
				k = n
				at++
				continue
			}
		} else {
			c, w = utf8.DecodeRuneInString(m.text[at:])
			if n := k.others[c]; n != nil {
				if m.steps++; m.steps >= checkEvery && !m.step(0) {
					return last
				}
				k = n
				at += w
				continue
			}
		}
		if !m.step(len(k.states)) {
			return last
		}
		st.next.dense = st.next.dense[:0]
		for _, i := range k.states {
			if in := &p.in[i]; in.op == inSet && in.set.has(c) {
				m.closure(p, &st.next, in.x, at+w)
			}
		}
		if m.begun >= begunMax { // sets of states are too many for this pattern and text
			m.inside = false
			st.now.dense = st.now.dense[:0]
			for _, i := range k.states {
				if in := &p.in[i]; in.op == inSet && in.set.has(c) {
					m.closure(p, &st.now, in.x, at+w)
				}
			}
			return max(last, m.runStates(p, st, at+w, limit, least, longest))
		}
		n := m.remember(p, st, &st.next)
		if c < utf8.RuneSelf {
			k.ascii[c] = n
		} else if len(k.others) < othersMax {
			if k.others == nil {
				k.others = map[rune]*known{}
			}
			k.others[c] = n
		}
		k = n
		at += w
	}
}
