package scalar

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// atOnceSteps bounds the work between two checks for cancellation: some milliseconds.
const atOnceSteps = 1 << 20

// likePattern is a compiled LIKE pattern: the pieces between the % signs.
type likePattern struct {
	parts [][]likeItem // at least one; % between each two
	fold  bool
	// literal is set if the pattern has no wildcard but leading and trailing %.
	literal       string
	isLiteral     bool
	before, after bool // with isLiteral: a % before, after
	// broken is a pattern that ends with its escape character: it matches nothing, and is an error where a text reaches its end.
	broken []rune
	escape rune
}

// likeItem is a literal character or, if any, one arbitrary character.
type likeItem struct {
	r   rune
	any bool
}

func compileLike(pattern string, escape rune, fold bool) (*likePattern, error) {
	p := &likePattern{fold: fold, parts: [][]likeItem{nil}}
	plain := true
	var lit strings.Builder
	percents, midPercent := 0, false
	rs := []rune(pattern)
	for i := 0; i < len(rs); i++ {
		c := rs[i]
		last := len(p.parts) - 1
		switch {
		case escape != 0 && c == escape:
			if i++; i >= len(rs) {
				return &likePattern{broken: rs, escape: escape, fold: fold}, nil
			}
			c = rs[i]
			fallthrough
		default:
			if fold {
				c = unicode.ToLower(c)
			}
			p.parts[last] = append(p.parts[last], likeItem{r: c})
			lit.WriteRune(c)
			if percents > 0 && lit.Len() > utf8.RuneLen(c) && p.after {
				midPercent = true
			}
			p.after = false
		case c == '%':
			percents++
			if lit.Len() == 0 {
				p.before = true
			}
			p.after = true
			if len(p.parts[last]) > 0 || last == 0 {
				p.parts = append(p.parts, nil)
			}
		case c == '_':
			plain = false
			p.parts[last] = append(p.parts[last], likeItem{any: true})
			p.after = false
		}
	}
	if plain && !midPercent && !fold {
		p.isLiteral, p.literal = true, lit.String()
		if lit.Len() == 0 && percents > 0 {
			p.before, p.after = true, true
		}
	}
	return p, nil
}

// match also fails when the statement is cancelled: a long literal may be tried at every place of a long text.
func (p *likePattern) match(ctx *Context, s string) (bool, error) {
	m := likeMatch{likePattern: p, ctx: ctx}
	if p.broken != nil {
		_, err := m.walk([]rune(s), p.broken)
		return false, err
	}
	ok := m.match(s)
	return ok && m.err == nil, m.err
}

type likeMatch struct {
	*likePattern
	ctx  *Context
	work int
	err  error
}

// walk goes over a text and a pattern that ends with its escape character as PostgreSQL does, to find out whether that end is reached.
// done says that no later place of the text needs to be tried.
func (p *likeMatch) walk(s, pattern []rune) (done bool, err error) {
	bad := sqlstate.New(sqlstate.InvalidEscape, "LIKE pattern must not end with escape character")
	same := func(a, b rune) bool { return a == b || p.fold && unicode.ToLower(a) == unicode.ToLower(b) }
	for len(s) > 0 && len(pattern) > 0 {
		if p.work++; p.work > atOnceSteps {
			p.work = 0
			if err := p.ctx.Check(); err != nil {
				return true, err
			}
		}
		switch c := pattern[0]; {
		case c == p.escape:
			if len(pattern) < 2 {
				return true, bad
			}
			if !same(pattern[1], s[0]) {
				return false, nil
			}
			pattern = pattern[1:]
		case c == '%':
			for len(pattern) > 0 && (pattern[0] == '%' || pattern[0] == '_') {
				if pattern[0] == '_' {
					if len(s) == 0 {
						return true, nil
					}
					s = s[1:]
				}
				pattern = pattern[1:]
			}
			first := pattern[0] // the escape character is there
			if first == p.escape {
				if len(pattern) < 2 {
					return true, bad
				}
				first = pattern[1]
			}
			for ; len(s) > 0; s = s[1:] {
				if !same(s[0], first) {
					continue
				}
				if done, err := p.walk(s, pattern); done || err != nil {
					return true, err
				}
			}
			return true, nil
		case c == '_':
		case !same(c, s[0]):
			return false, nil
		}
		s, pattern = s[1:], pattern[1:]
	}
	return len(s) == 0, nil
}

func (p *likeMatch) match(s string) bool {
	if p.isLiteral {
		switch {
		case p.before && p.after:
			return strings.Contains(s, p.literal)
		case p.before:
			return strings.HasSuffix(s, p.literal)
		case p.after:
			return strings.HasPrefix(s, p.literal)
		}
		return s == p.literal
	}
	first := p.parts[0]
	n, ok := p.prefix(s, first)
	if !ok {
		return false
	}
	s = s[n:]
	if len(p.parts) == 1 {
		return s == ""
	}
	for _, part := range p.parts[1 : len(p.parts)-1] {
		if len(part) == 0 {
			continue
		}
		found := false
		for {
			if n, ok := p.prefix(s, part); ok {
				s, found = s[n:], true
				break
			}
			if s == "" || p.err != nil {
				break
			}
			_, w := utf8.DecodeRuneInString(s)
			s = s[w:]
		}
		if !found {
			return false
		}
	}
	// The last part has to match at the end.
	last := p.parts[len(p.parts)-1]
	if len(last) == 0 {
		return true
	}
	cut := len(s)
	for range last {
		if cut == 0 {
			return false
		}
		_, w := utf8.DecodeLastRuneInString(s[:cut])
		cut -= w
	}
	n, ok = p.prefix(s[cut:], last)
	return ok && cut+n == len(s)
}

// prefix matches items at the start of s and says how many bytes they took.
func (p *likeMatch) prefix(s string, items []likeItem) (int, bool) {
	n, ok := p.likePattern.prefix(s, items)
	if p.work += n + 1; p.work > atOnceSteps {
		p.work = 0
		p.err = p.ctx.Check()
	}
	return n, ok
}

func (p *likePattern) prefix(s string, items []likeItem) (int, bool) {
	at := 0
	for _, it := range items {
		if at >= len(s) {
			return at, false
		}
		r, w := rune(s[at]), 1
		if r >= utf8.RuneSelf {
			r, w = utf8.DecodeRuneInString(s[at:])
		}
		if !it.any {
			if p.fold {
				r = unicode.ToLower(r)
			}
			if r != it.r {
				return at, false
			}
		}
		at += w
	}
	return at, true
}

// LikePrefix is the literal text that every match of a LIKE pattern begins with, and whether the pattern is only that
// text; the optimizer makes index ranges of it.
func LikePrefix(pattern string) (prefix string, whole bool) {
	var b strings.Builder
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; c {
		case '%', '_':
			return b.String(), false
		case '\\':
			if i++; i >= len(pattern) {
				return b.String(), false
			}
			b.WriteByte(pattern[i])
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), true
}

func addTextOperators(r *Registry) {
	for _, v := range []struct {
		name         string
		fold, negate bool
	}{{"~~", false, false}, {"!~~", false, true}, {"~~*", true, false}, {"!~~*", true, true}} {
		for _, t := range []string{"text, text", "bpchar, text", "bytea, bytea"} {
			if t == "bytea, bytea" && v.fold {
				continue
			}
			// Bytes are compared as the characters of LATIN1.
			same := func(s string) string { return s }
			if t == "bytea, bytea" {
				same = func(s string) string {
					rs := make([]rune, len(s))
					for i := range rs {
						rs[i] = rune(s[i])
					}
					return string(rs)
				}
			}
			o := r.op2(v.name+"("+t+") bool", func(ctx *Context, a, b types.Datum) (types.Datum, error) {
				if err := ctx.scratch(32 * int64(len(b.Str()))); err != nil {
					return types.Null, err
				}
				p, err := compileLike(same(b.Str()), '\\', v.fold)
				if err != nil {
					return types.Null, err
				}
				ok, err := p.match(ctx, same(a.Str()))
				return types.NewBool(ok != v.negate), err
			})
			o.Prepare = func(args []types.Datum, known []bool) evalN {
				if !known[1] {
					return nil
				}
				p, err := compileLike(same(args[1].Str()), '\\', v.fold)
				if err != nil {
					return nil
				}
				return func(ctx *Context, args []types.Datum) (types.Datum, error) {
					ok, err := p.match(ctx, same(args[0].Str()))
					return types.NewBool(ok != v.negate), err
				}
			}
		}
	}
	// like_escape rewrites a pattern with another escape character to one with a backslash.
	likeEscape := func(_ *Context, a, b types.Datum) (types.Datum, error) {
		esc := []rune(b.Str())
		if len(esc) > 1 {
			return types.Null, sqlstate.New(sqlstate.InvalidEscape, "invalid escape string").WithHint("Escape string must be empty or one character.")
		}
		var out strings.Builder
		rs := []rune(a.Str())
		for i := 0; i < len(rs); i++ {
			switch {
			case len(esc) == 1 && rs[i] == esc[0]:
				if i+1 < len(rs) {
					i++
					out.WriteByte('\\')
					out.WriteRune(rs[i])
				} else {
					out.WriteByte('\\')
				}
			case rs[i] == '\\':
				out.WriteString(`\\`)
			default:
				out.WriteRune(rs[i])
			}
		}
		return types.NewString(out.String()), nil
	}
	r.Func2("like_escape(text, text) text", likeEscape)
	r.Func2("like_escape(bytea, bytea) bytea", func(_ *Context, a, b types.Datum) (types.Datum, error) {
		pattern, esc := a.Str(), b.Str()
		if len(esc) > 1 {
			return types.Null, sqlstate.New(sqlstate.InvalidEscape, "invalid escape string").WithHint("Escape string must be empty or one character.")
		}
		var out strings.Builder
		for i := 0; i < len(pattern); i++ {
			switch {
			case esc != "" && pattern[i] == esc[0]:
				if out.WriteByte('\\'); i+1 < len(pattern) {
					i++
					out.WriteByte(pattern[i])
				}
			case pattern[i] == '\\':
				out.WriteString(`\\`)
			default:
				out.WriteByte(pattern[i])
			}
		}
		return types.NewBytes(out.String()), nil
	})
	r.Func2("like(text, text) bool", func(ctx *Context, a, b types.Datum) (types.Datum, error) {
		p, err := compileLike(b.Str(), '\\', false)
		if err != nil {
			return types.Null, err
		}
		ok, err := p.match(ctx, a.Str())
		return types.NewBool(ok), err
	})
	concat := func(ctx *Context, a, b types.Datum) (types.Datum, error) {
		if n := len(a.Str()) + len(b.Str()); n > resultMax {
			return types.Null, tooLarge()
		}
		return types.NewString(a.Str() + b.Str()), nil
	}
	r.op2("||(text, text) text", concat)
	r.op2("||(bytea, bytea) bytea", func(_ *Context, a, b types.Datum) (types.Datum, error) {
		if n := len(a.Str()) + len(b.Str()); n > resultMax {
			return types.Null, tooLarge()
		}
		return types.NewBytes(a.Str() + b.Str()), nil
	})
	// text || anything and anything || text go through the other's text form.
	for _, sig := range []string{"||(text, any) text", "||(any, text) text"} {
		o := r.add(r.ops, sig, Stable)
		o.TypedEval = func(ts []*types.T) evalN {
			return func(ctx *Context, args []types.Datum) (types.Datum, error) {
				return concat(ctx, types.NewString(castText(ctx, args[0], ts[0])), types.NewString(castText(ctx, args[1], ts[1])))
			}
		}
		o.setN(func(ctx *Context, args []types.Datum) (types.Datum, error) {
			return concat(ctx, types.NewString(textOf(ctx, args[0], types.Text)), types.NewString(textOf(ctx, args[1], types.Text)))
		})
	}
	r.op2("^@(text, text) bool", func(_ *Context, a, b types.Datum) (types.Datum, error) {
		return types.NewBool(strings.HasPrefix(a.Str(), b.Str())), nil
	})
}

// castText is a value's text as a cast gives it, which spells booleans out.
func castText(ctx *Context, d types.Datum, t *types.T) string {
	if d.Phys() == types.PhysBool {
		return choose(d.Bool(), "true", "false")
	}
	if d.Phys() == types.PhysChar {
		return types.UnpadBlanks(d.Str())
	}
	return textOf(ctx, d, t)
}

// textOf is a value's output text in the session.
func textOf(ctx *Context, d types.Datum, t *types.T) string {
	if d.Phys() == types.PhysString || d.Phys() == types.PhysChar {
		return d.Str()
	}
	if t.IsReg() && d.Str() == "" && t.Kind != types.KindOID && d.Phys() == types.PhysInt {
		if n := RegName(ctx, t.Kind, uint32(d.Int())); n != "" {
			return n
		}
	}
	return types.FormatText(d, t, ctx.style())
}
