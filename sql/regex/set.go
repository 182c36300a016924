package regex

import (
	"slices"
	"unicode"
)

// set is a set of characters.
type set struct {
	negate  bool
	ranges  []rune // pairs
	classes []class
	subsets []*set
	ascii   [2]uint64 // what is in the set of the first 128 characters
}

// class reports whether a character is in a class of characters.
type class func(c rune) bool

func (s *set) add(from, to rune) { s.ranges = append(s.ranges, from, to) }

func (s *set) union(o *set) { s.subsets = append(s.subsets, o) }

// class adds a class by its name, and reports whether there is one.
func (s *set) class(name string) bool {
	unicodes := func(tables ...*unicode.RangeTable) {
		s.classes = append(s.classes, func(c rune) bool { return unicode.In(c, tables...) })
	}
	switch name {
	case "alpha":
		unicodes(unicode.L)
	case "alnum", "word":
		unicodes(unicode.L, unicode.Nd)
		if name == "word" {
			s.add('_', '_')
		}
	case "lower":
		unicodes(unicode.Ll)
	case "upper":
		unicodes(unicode.Lu)
	case "digit":
		s.add('0', '9')
	case "xdigit":
		s.add('0', '9')
		s.add('a', 'f')
		s.add('A', 'F')
	case "space":
		s.add('\t', '\r')
		s.add(' ', ' ')
	case "blank":
		s.add('\t', '\t')
		s.add(' ', ' ')
	case "ascii":
		s.add(0, 127)
	case "cntrl":
		s.add(0, 31)
		s.add(127, 127)
	case "punct":
		s.add('!', '/')
		s.add(':', '@')
		s.add('[', '`')
		s.add('{', '~')
	case "graph":
		s.add('!', '~')
	case "print":
		s.add(' ', '~')
	default:
		return false
	}
	return true
}

// fold adds the other case of each character.
func (s *set) fold() {
	n := len(s.ranges)
	for i := 0; i < n; i += 2 {
		from, to := s.ranges[i], s.ranges[i+1]
		if to-from < 512 {
			for c := from; c <= to; c++ {
				for _, o := range [...]rune{unicode.ToLower(c), unicode.ToUpper(c)} {
					if o < from || o > to {
						s.add(o, o)
					}
				}
			}
			continue
		}
		for _, r := range unicode.CaseRanges {
			for c := max(rune(r.Lo), from); c <= min(rune(r.Hi), to); c++ {
				for _, o := range [...]rune{unicode.ToLower(c), unicode.ToUpper(c)} {
					if o < from || o > to {
						s.add(o, o)
					}
				}
			}
		}
	}
}

// done completes the set.
func (s *set) done() *set {
	if len(s.classes)+len(s.subsets) == 0 && !s.negate {
		for i := 0; i < len(s.ranges); i += 2 {
			for c := s.ranges[i]; c <= min(s.ranges[i+1], 127); c++ {
				s.ascii[c>>6] |= 1 << (c & 63)
			}
		}
		return s
	}
	for c := range rune(128) {
		if s.look(c) {
			s.ascii[c>>6] |= 1 << (c & 63)
		}
	}
	return s
}

func (s *set) look(c rune) bool {
	in := false
	for i := 0; i < len(s.ranges) && !in; i += 2 {
		in = c >= s.ranges[i] && c <= s.ranges[i+1]
	}
	in = in || slices.ContainsFunc(s.classes, func(k class) bool { return k(c) }) ||
		slices.ContainsFunc(s.subsets, func(o *set) bool { return o.has(c) })
	return in != s.negate
}

func (s *set) has(c rune) bool {
	if c < 128 {
		return s.ascii[c>>6]&(1<<(c&63)) != 0
	}
	return s.look(c)
}

// isWord reports whether a character is a part of words, for \m, \M, \y and \Y.
func isWord(c rune) bool {
	if c < 128 {
		return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
	}
	return unicode.In(c, unicode.L, unicode.Nd)
}

// lower is the small letter of a letter.
func lower(c rune) rune { return unicode.ToLower(c) }
