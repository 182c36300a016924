package scalar

import (
	"errors"
	"unicode/utf8"

	patterns "meridian/sql/regex"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// regex is a compiled pattern. Searches end when the statement is cancelled.
type regex struct{ *patterns.Regexp }

// failed is the error of a search: that of a cancelled statement, or of a pattern that takes too many steps.
func failed(err error) error {
	var e patterns.Error
	if errors.As(err, &e) {
		return sqlstate.New(sqlstate.InvalidRegex, "regular expression failed: %s", e)
	}
	return err
}

// matches reports whether the pattern is somewhere in s.
func (re *regex) matches(ctx *Context, s string) (bool, error) {
	ok, err := re.Match(s, ctx)
	return ok, failed(err)
}

// first finds the first match with its groups, nil if there is none.
func (re *regex) first(ctx *Context, s string) ([]int, error) {
	m, err := re.Find(s, 0, nil, ctx)
	return m, failed(err)
}

// all calls f with each match, until f fails; f must not keep the match. limit bounds the matches; zero: all.
func (re *regex) all(ctx *Context, s string, limit int, f func(m []int) error) error {
	return re.allFrom(ctx, s, 0, limit, f)
}

// allFrom is all from a position on: what comes before is still there for ^ and \y.
func (re *regex) allFrom(ctx *Context, s string, start, limit int, f func(m []int) error) error {
	var m []int
	for at, n := start, 0; at <= len(s); n++ {
		var err error
		if m, err = re.Find(s, at, m, ctx); err != nil || m == nil {
			return failed(err)
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
