package regex

import (
	"strings"
	"sync"
	"unicode/utf8"
)

// Regexp is a compiled pattern.
type Regexp struct {
	root   *node
	progs  []*prog
	groups int
	fold   bool
	// refers: there is a back reference, so the ends that the automaton accepts are not all ends.
	refers bool
	// search is the automaton that accepts where a match ends that begins anywhere.
	search   int
	size     int
	shortest bool
	// prefix is the text with which each match begins, and literal: the match is no more than it.
	prefix  string
	literal bool
	// anchored: a match can only begin at the beginning.
	anchored bool
	idle     sync.Pool
}

// stepsMax bounds the steps of a search that looks for groups or back references: some seconds.
const stepsMax = 200_000_000

// Compile compiles a pattern. Its errors are of type Error.
func Compile(pattern string, o Options) (*Regexp, error) {
	root, groups, o, err := parse(pattern, o)
	if err != nil {
		return nil, err
	}
	re := &Regexp{root: root, groups: groups, fold: o.Fold, shortest: root.flags&shorter != 0, refers: root.flags&backref != 0}
	re.size = size(root.expr)
	var prefix strings.Builder
	re.literal = leading(root.expr, &prefix)
	re.prefix = prefix.String()
	c := &compiler{}
	if re.search, err = c.root(root); err != nil {
		return nil, err
	}
	re.progs = c.progs
	re.anchored = begins(root.expr)
	return re, nil
}

// begins reports whether each match begins at the beginning of the text.
func begins(x *expr) bool {
	switch x.op {
	case exEdge:
		return x.edge == textBegin
	case exCat:
		return len(x.subs) > 0 && begins(x.subs[0])
	case exOr:
		for _, s := range x.subs {
			if !begins(s) {
				return false
			}
		}
		return true
	case exRepeat:
		return x.min > 0 && begins(x.subs[0])
	}
	return false
}

// leading writes the characters with which each text of an expression begins, and reports whether these are the whole text.
func leading(x *expr, b *strings.Builder) bool {
	switch x.op {
	case exEmpty:
		return true
	case exSet:
		s := x.set
		if s.negate || len(s.classes)+len(s.subsets) > 0 || len(s.ranges) != 2 || s.ranges[0] != s.ranges[1] {
			return false
		}
		b.WriteRune(s.ranges[0])
		return true
	case exCat:
		for _, s := range x.subs {
			if !leading(s, b) {
				return false
			}
		}
		return true
	case exRepeat:
		for range x.min {
			if !leading(x.subs[0], b) {
				return false
			}
		}
		return x.max == x.min
	}
	return false
}

// Groups is the number of groups that capture.
func (re *Regexp) Groups() int { return re.groups }

func (re *Regexp) machine(text string, check Checker) *machine {
	m, _ := re.idle.Get().(*machine)
	if m == nil {
		m = &machine{re: re, sets: make([]states, len(re.progs)), caps: make([]int, 2*re.groups+2)}
	}
	m.text, m.check, m.err, m.steps, m.total, m.begun, m.dividing = text, check, nil, 0, 0, 0, false
	return m
}

func (re *Regexp) put(m *machine) {
	m.text, m.check = "", nil
	re.idle.Put(m)
}

// Match reports whether the pattern is somewhere in the text. check, if not nil, ends the search by an error.
func (re *Regexp) Match(text string, check Checker) (bool, error) {
	if re.refers {
		at, err := re.Find(text, 0, nil, check)
		return at != nil, err
	}
	from := 0
	if re.prefix != "" {
		if from = strings.Index(text, re.prefix); from < 0 || re.literal {
			return from >= 0, nil
		}
	}
	m := re.machine(text, check)
	defer re.put(m)
	n := re.search
	if re.anchored {
		n = re.root.prog
	}
	found := m.run(n, from, len(text), from, false) >= 0
	return found && m.err == nil, m.err
}

// Find finds the first match that begins at a place or behind it: the places of the match and of its groups, in dst if it has room, -1 for a group that
// is not in it. The text before the place is there for ^ and \y. Nil: there is no match.
func (re *Regexp) Find(text string, from int, dst []int, check Checker) ([]int, error) {
	if re.anchored && from > 0 {
		return nil, nil
	}
	if re.literal && re.prefix != "" && re.groups == 0 {
		i := strings.Index(text[from:], re.prefix)
		if i < 0 {
			return nil, nil
		}
		return append(dst[:0], from+i, from+i+len(re.prefix)), nil
	}
	m := re.machine(text, check)
	defer re.put(m)
	limit := -1 // where the first match ends, if one begins at from or behind it: the leftmost one begins before it
	for begin := from; begin <= len(text); {
		if re.prefix != "" {
			i := strings.Index(text[begin:], re.prefix)
			if i < 0 {
				break
			}
			begin += i
		} else if begin > limit && !re.anchored {
			if re.refers && limit >= 0 && begin >= len(text) {
				break // PostgreSQL does not try the end after a place where only the automaton has accepted
			}
			if limit = m.run(re.search, begin, len(text), begin, false); limit < 0 {
				break
			}
		}
		end := m.matchAt(begin)
		if m.err != nil {
			break
		}
		if end >= 0 {
			dst = append(dst[:0], begin, end)
			return append(dst, m.caps[2:]...), nil
		}
		if re.anchored {
			break
		}
		_, w := utf8.DecodeRuneInString(text[begin:])
		begin += max(w, 1)
	}
	return nil, m.err
}

func (m *machine) clear() {
	for i := range m.caps {
		m.caps[i] = -1
	}
}

// matchAt is the end of the match that begins at a place, or -1.
func (m *machine) matchAt(begin int) int {
	root, least, limit := m.re.root, begin, len(m.text)
	for {
		end := m.run(root.prog, begin, limit, least, !m.re.shortest)
		if end < 0 || m.err != nil {
			return -1
		}
		if m.re.groups == 0 && !m.re.refers {
			return end
		}
		if m.clear(); m.dissect(root, begin, end) {
			return end
		}
		if m.err != nil {
			return -1
		}
		if m.re.shortest {
			if end == len(m.text) {
				return -1
			}
			_, w := utf8.DecodeRuneInString(m.text[end:])
			least = end + w
		} else if limit = m.before(end); end == begin {
			return -1
		}
	}
}

// before is the place one character before another one.
func (m *machine) before(at int) int {
	_, w := utf8.DecodeLastRuneInString(m.text[:at])
	return at - w
}

// tried counts a step of the division of a match.
func (m *machine) tried() bool {
	m.dividing = true
	return m.step(8)
}

// exact reports whether a node's automaton accepts the text between two places.
func (m *machine) exact(n *node, begin, end int) bool {
	return m.run(n.prog, begin, end, end, true) == end
}

// dissect finds the groups within a part of the text that the node's automaton accepts. It fails only where there are back references.
func (m *machine) dissect(n *node, begin, end int) bool {
	if !m.tried() {
		return false
	}
	ok := false
	switch n.op {
	case '=':
		ok = true
	case 'b':
		ok = m.reference(n, begin, end)
	case '(':
		ok = m.dissect(n.subs[0], begin, end)
	case '.':
		ok = m.pair(n, begin, end)
	case '|':
		for _, s := range n.subs {
			if m.exact(s, begin, end) && m.dissect(s, begin, end) {
				ok = true
				break
			}
		}
	case '*':
		if n.subs[0].flags&shorter != 0 {
			ok = m.repeatShortest(n, begin, end)
		} else {
			ok = m.repeatLongest(n, begin, end)
		}
	}
	if ok && n.group > 0 {
		m.caps[2*n.group], m.caps[2*n.group+1] = begin, end
	}
	return ok && m.err == nil
}

// confirm dissects the repetitions of child after verified, up to the k-th, which ends[k] ends. It returns the number of the first one that can't be, k+1 if all can.
func (m *machine) confirm(child *node, ends []int, verified *int, k int) int {
	i := *verified + 1
	for ; i <= k; i++ {
		m.forget(child)
		if !m.dissect(child, ends[i-1], ends[i]) {
			break
		}
		*verified = i
	}
	return i
}

// forget drops the groups within a node.
func (m *machine) forget(n *node) {
	if n.group > 0 {
		m.caps[2*n.group], m.caps[2*n.group+1] = -1, -1
	}
	for _, s := range n.subs {
		m.forget(s)
	}
}

// pair divides the text between the two parts of a concatenation.
func (m *machine) pair(n *node, begin, end int) bool {
	left, right := n.subs[0], n.subs[1]
	lazy := left.flags&shorter != 0
	least, limit := begin, end
	for {
		mid := m.run(left.prog, begin, limit, least, !lazy)
		if mid < 0 || m.err != nil {
			return false
		}
		if m.exact(right, mid, end) && m.dissect(left, begin, mid) && m.dissect(right, mid, end) {
			return true
		}
		if !m.tried() {
			return false
		}
		m.forget(left)
		m.forget(right)
		if lazy {
			if mid == end {
				return false
			}
			_, w := utf8.DecodeRuneInString(m.text[mid:])
			least = mid + w
		} else {
			if mid == begin {
				return false
			}
			limit = m.before(mid)
		}
	}
}

// reference compares the text with what a group has matched, as often as the quantifier of the reference allows.
func (m *machine) reference(n *node, begin, end int) bool {
	from, to := m.caps[2*n.ref], m.caps[2*n.ref+1]
	if from < 0 {
		return false
	}
	once := to - from
	switch {
	case once == 0:
		return begin == end && n.min <= n.max
	case begin == end:
		return n.min == 0
	}
	part, rest, times := m.text[from:to], m.text[begin:end], 0
	for ; rest != ""; times++ {
		w := commonPrefix(part, rest, m.re.fold)
		if w < 0 {
			return false
		}
		rest = rest[w:]
	}
	return times >= n.min && (times <= n.max || n.max == infinite)
}

// commonPrefix is the length of the text at the beginning of s that equals part; -1: there is none.
func commonPrefix(part, s string, fold bool) int {
	if !fold {
		if len(s) >= len(part) && s[:len(part)] == part {
			return len(part)
		}
		return -1
	}
	at := 0
	for _, c := range part {
		d, w := utf8.DecodeRuneInString(s[at:])
		if w == 0 || c != d && lower(c) != lower(d) {
			return -1
		}
		at += w
	}
	return at
}

// repeatLongest divides the text among the repetitions of a node, each as long as it can be.
func (m *machine) repeatLongest(n *node, begin, end int) bool {
	child := n.subs[0]
	least := max(n.min, 1)
	most := utf8.RuneCountInString(m.text[begin:end])
	if n.max != infinite {
		most = min(most, n.max)
	}
	most = max(most, least)
	ends := []int{begin}
	limit, verified := end, 0
	for k := 1; k > 0; {
		if !m.tried() {
			return false
		}
		ends = ends[:k]
		e := m.run(child.prog, ends[k-1], limit, ends[k-1], true)
		if m.err != nil {
			return false
		}
		verified = min(verified, k-1)
		if e < 0 {
			k--
		} else {
			ends = append(ends, e)
			if e != end {
				switch {
				case k >= most:
					k--
				case e == ends[k-1] && (k >= least || least-k < end-e):
				default:
					k++
					limit = end
					continue
				}
			} else if k >= least {
				i := m.confirm(child, ends, &verified, k)
				if m.err != nil {
					return false
				}
				if i > k {
					return true
				}
				k = i
			}
		}
		// A shorter k-th part, or else a shorter one before it.
		for k > 0 {
			before := ends[k-1]
			if ends[k] > before {
				limit = m.before(ends[k])
				if limit > before || k < least && least-k >= end-before {
					break
				}
			}
			k--
		}
	}
	return n.min == 0 && begin == end
}

// repeatShortest divides the text among the repetitions of a node, each as short as it can be.
func (m *machine) repeatShortest(n *node, begin, end int) bool {
	if n.min == 0 && begin == end {
		return true
	}
	child := n.subs[0]
	least := max(n.min, 1)
	most := utf8.RuneCountInString(m.text[begin:end])
	if n.max != infinite {
		most = min(most, n.max)
	}
	most = max(most, least)
	ends := []int{begin}
	from, verified := begin, 0
	for k := 1; k > 0; {
		if !m.tried() {
			return false
		}
		ends = ends[:k]
		// Not empty, unless the count asks for it.
		if from == ends[k-1] && from != end && (k >= least || least-k < end-from) {
			_, w := utf8.DecodeRuneInString(m.text[from:])
			from += w
		}
		start := from
		if k >= most { // the last one reaches the end
			start = end
		}
		e := m.run(child.prog, ends[k-1], end, start, false)
		if m.err != nil {
			return false
		}
		verified = min(verified, k-1)
		if e < 0 {
			k--
		} else {
			ends = append(ends, e)
			if e != end {
				if k < most {
					k++
					from = e
					continue
				}
				k--
			} else if k >= least {
				i := m.confirm(child, ends, &verified, k)
				if m.err != nil {
					return false
				}
				if i > k {
					return true
				}
				k = i
			}
		}
		// A longer k-th part, or else a longer one before it.
		for k > 0 {
			if ends[k] < end {
				_, w := utf8.DecodeRuneInString(m.text[ends[k]:])
				from = ends[k] + w
				break
			}
			k--
		}
	}
	return false
}
