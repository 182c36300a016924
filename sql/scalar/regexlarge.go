package scalar

import (
	"io"
	"regexp"
	"regexp/syntax"
	"slices"
	"unicode/utf8"

	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// regex is a compiled pattern. Go's matcher is linear in the text times the size of the program, but it can't be
// interrupted, and lists all matches at once; so for long texts it reads from a source that ends when the statement is
// cancelled, one match after the other.
type regex struct {
	*regexp.Regexp
	// size is the number of instructions of the program.
	size int
	// rest finds the next match after the first character of a text, which is there for the sake of \b: its group 1 is
	// the match, and the pattern's own groups follow.
	rest *regexp.Regexp
	// here is the longest match right after the first character; nil if the pattern is lazy, and rest finds the match itself.
	here *regexp.Regexp
	// empty: the pattern can match nothing. The library leaves out an empty match right after another one, PostgreSQL does not.
	empty bool
}

const (
	// patternMax bounds a pattern. PostgreSQL bounds the automaton that it becomes.
	patternMax = 64 << 10
	// atOnceBytes and atOnceSteps bound the text that is given to the matcher at once: some milliseconds of work.
	atOnceBytes = 16 << 10
	atOnceSteps = 1 << 20
)

func tooComplex() error {
	return sqlstate.New(sqlstate.InvalidRegex, "invalid regular expression: regular expression is too complex")
}

// newRegex compiles Go's syntax. A pattern without a lazy quantifier matches as much as it can, whichever of its alternatives comes
// first, as POSIX has it; with one, the first way to match counts.
func newRegex(pattern string) (*regex, error) {
	re, err := regexp.Compile(pattern)
	if err != nil {
		return nil, err
	}
	tree, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return nil, err
	}
	lazy := hasLazy(tree)
	r := &regex{Regexp: re, empty: canBeEmpty(tree)}
	prog, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return nil, err
	}
	r.size = len(prog.Inst)
	if r.rest, err = regexp.Compile(`\A(?s:.)(?s:.*?)(` + pattern + `)`); err != nil || lazy {
		return r, err
	}
	re.Longest()
	if r.here, err = regexp.Compile(`\A(?s:.)(` + pattern + `)`); err != nil {
		return nil, err
	}
	r.here.Longest()
	return r, nil
}

func hasLazy(t *syntax.Regexp) bool {
	switch t.Op {
	case syntax.OpStar, syntax.OpPlus, syntax.OpQuest, syntax.OpRepeat:
		if t.Flags&syntax.NonGreedy != 0 {
			return true
		}
	}
	return slices.ContainsFunc(t.Sub, hasLazy)
}

// canBeEmpty reports whether a pattern may match nothing somewhere.
func canBeEmpty(t *syntax.Regexp) bool {
	switch t.Op {
	case syntax.OpLiteral:
		return len(t.Rune) == 0
	case syntax.OpCharClass, syntax.OpAnyChar, syntax.OpAnyCharNotNL, syntax.OpNoMatch:
		return false
	case syntax.OpStar, syntax.OpQuest:
		return true
	case syntax.OpRepeat:
		return t.Min == 0 || canBeEmpty(t.Sub[0])
	case syntax.OpPlus, syntax.OpCapture:
		return canBeEmpty(t.Sub[0])
	case syntax.OpAlternate:
		return slices.ContainsFunc(t.Sub, canBeEmpty)
	case syntax.OpConcat:
		return !slices.ContainsFunc(t.Sub, func(s *syntax.Regexp) bool { return !canBeEmpty(s) })
	}
	return true
}

// short reports that the whole text may be given to the matcher.
func (re *regex) short(s string) bool {
	return len(s) <= atOnceBytes && len(s)*re.size <= atOnceSteps
}

// source is a text that ends when the statement is cancelled.
type source struct {
	ctx *Context
	s   string
	at  int
	n   int
	err error
	per int // how many characters are read between two checks
}

func (re *regex) source(ctx *Context, s string) *source {
	return &source{ctx: ctx, s: s, per: max(atOnceSteps/re.size/8, 1)}
}

// ReadRune implements io.RuneReader.
func (r *source) ReadRune() (rune, int, error) {
	if r.n++; r.n >= r.per {
		r.n = 0
		if r.err = r.ctx.Check(); r.err != nil {
			return 0, 0, io.EOF
		}
	}
	if r.at >= len(r.s) {
		return 0, 0, io.EOF
	}
	c, n := rune(r.s[r.at]), 1
	if c >= utf8.RuneSelf {
		c, n = utf8.DecodeRuneInString(r.s[r.at:])
	}
	r.at += n
	return c, n, nil
}

// matches reports whether the pattern is somewhere in s.
func (re *regex) matches(ctx *Context, s string) (bool, error) {
	if re.short(s) {
		return re.MatchString(s), nil
	}
	src := re.source(ctx, s)
	ok := re.MatchReader(src)
	return ok, src.err
}

// first finds the first match with its groups, nil if there is none.
func (re *regex) first(ctx *Context, s string) ([]int, error) {
	if re.short(s) {
		return re.FindStringSubmatchIndex(s), nil
	}
	src := re.source(ctx, s)
	m := re.FindReaderSubmatchIndex(src)
	return m, src.err
}

// all calls f with each match, until f fails; f must not keep the match. limit bounds the matches; zero: all.
func (re *regex) all(ctx *Context, s string, limit int, f func(m []int) error) error {
	return re.allFrom(ctx, s, 0, limit, f)
}

// allFrom is all from a position on: what comes before is still there for ^ and \b.
func (re *regex) allFrom(ctx *Context, s string, start, limit int, f func(m []int) error) error {
	if start == 0 && re.short(s) && !re.empty {
		if limit == 0 {
			limit = -1
		}
		for _, m := range re.FindAllStringSubmatchIndex(s, limit) {
			if err := f(m); err != nil {
				return err
			}
		}
		return nil
	}
	for at, n := start, 0; at <= len(s); n++ {
		m, err := re.after(ctx, s, at)
		if err != nil || m == nil {
			return err
		}
		if at = m[1]; m[0] == m[1] { // not there again
			_, w := utf8.DecodeRuneInString(s[at:])
			at += max(w, 1)
		}
		if err := f(m); err != nil {
			return err
		}
		if limit--; limit == 0 {
			return nil
		}
		if err := ctx.tick(n); err != nil {
			return err
		}
	}
	return nil
}

// after finds the first match that begins at a position or later.
func (re *regex) after(ctx *Context, s string, at int) ([]int, error) {
	if at == 0 {
		return re.first(ctx, s)
	}
	_, w := utf8.DecodeLastRuneInString(s[:at])
	from := at - w
	src := re.source(ctx, s[from:])
	m := re.rest.FindReaderSubmatchIndex(src)
	if src.err != nil || m == nil {
		return nil, src.err
	}
	if m = m[2:]; re.here != nil {
		_, w := utf8.DecodeLastRuneInString(s[:from+m[0]])
		from += m[0] - w
		src := re.source(ctx, s[from:])
		if m = re.here.FindReaderSubmatchIndex(src); src.err != nil || m == nil {
			return nil, src.err
		}
		m = m[2:]
	}
	for i := range m {
		if m[i] >= 0 {
			m[i] += from
		}
	}
	return m, nil
}

func regexReplace(ctx *Context, re *regex, global bool, s, repl string) (types.Datum, error) {
	limit := 1
	if global {
		limit = 0
	}
	out := text{ctx: ctx}
	at := 0
	var expanded []byte
	err := re.all(ctx, s, limit, func(m []int) error {
		out.write(s[at:m[0]])
		expanded = expandReplacement(&out, expanded[:0], repl, s, m)
		at = m[1]
		return out.err
	})
	if err != nil {
		return types.Null, err
	}
	if at == 0 && out.b.Len() == 0 {
		return types.NewString(s), nil
	}
	out.write(s[at:])
	return out.datum()
}

// splitRegex calls f with the pieces between the matches.
func splitRegex(ctx *Context, re *regex, s string, f func(piece string) error) error {
	at, last := 0, 0
	err := re.all(ctx, s, 0, func(m []int) error {
		// An empty match splits between characters: not at the ends, nor right after another match.
		splits := m[0] < len(s) && m[1] > last
		if last = m[1]; !splits {
			return nil
		}
		piece := s[at:m[0]]
		at = m[1]
		return f(piece)
	})
	if err != nil {
		return err
	}
	return f(s[at:])
}
