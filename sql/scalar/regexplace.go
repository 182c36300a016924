package scalar

import (
	"math"
	"unicode/utf8"

	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// addRegexPlaces adds the functions that count matches and find the n-th: regexp_count, regexp_instr, regexp_substr, and
// regexp_replace from a place on.
func addRegexPlaces(r *Registry) {
	invalid := func(name string, v int64) error {
		return sqlstate.New(sqlstate.InvalidParameterValue, "invalid value for parameter \"%s\": %d", name, v)
	}
	// number is the argument i, or its default.
	number := func(args []types.Datum, i int, otherwise int64) int64 {
		if i < len(args) {
			return args[i].Int()
		}
		return otherwise
	}
	// from is the place of the start-th character, in bytes; -1: the text is shorter.
	from := func(s string, start int64) (int, error) {
		if start < 1 {
			return 0, invalid("start", start)
		}
		at := 0
		for ; start > 1; start-- {
			_, n := utf8.DecodeRuneInString(s[at:])
			if n == 0 {
				return -1, nil
			}
			at += n
		}
		return at, nil
	}
	// nth is the place of a group in the n-th match, in bytes; nil if there is none.
	nth := func(ctx *Context, re *regex, s string, start int, n, group int64) (place []int, err error) {
		err = re.allFrom(ctx, s, start, int(n), func(m []int) error {
			if len(m) == 2 && group == 1 { // without groups, the first one is the whole
				group = 0
			}
			if n--; n == 0 && 2*group+1 < int64(len(m)) && m[2*group] >= 0 {
				place = []int{m[2*group], m[2*group+1]}
			}
			return nil
		})
		return place, err
	}
	// valid refuses invalid numbers before the pattern is compiled; its arguments are the positions of the numbers.
	valid := func(start, n, end, group int) func(args []types.Datum) error {
		return func(args []types.Datum) error {
			for _, v := range []struct {
				name       string
				at         int
				least, top int64
			}{{"start", start, 1, math.MaxInt32}, {"n", n, 1, math.MaxInt32}, {"endoption", end, 0, 1}, {"subexpr", group, 0, math.MaxInt32}} {
				if v.at < 0 || v.at >= len(args) {
					continue
				}
				if x := args[v.at].Int(); x < v.least || x > v.top {
					return invalid(v.name, x)
				}
			}
			return nil
		}
	}
	for _, v := range []struct {
		sig   string
		flags int
	}{{"int4", -1}, {"int4, int4", -1}, {"int4, int4, text", 5}} {
		check := func(args []types.Datum) error {
			if x := args[3].Int(); x < 1 {
				return invalid("start", x)
			}
			if len(args) > 4 && args[4].Int() < 0 {
				return invalid("n", args[4].Int())
			}
			return nil
		}
		checkedRegex(r.add(r.funcs, "regexp_replace(text, text, text, "+v.sig+") text", Immutable), 1, v.flags, "", check, true,
			func(ctx *Context, re *regex, _ bool, args []types.Datum) (types.Datum, error) {
				s := args[0].Str()
				start, err := from(s, args[3].Int())
				if err != nil || start < 0 {
					return args[0], err
				}
				wanted := number(args, 4, 1)
				out := text{ctx: ctx}
				var expanded []byte
				at, n := 0, int64(0)
				err = re.allFrom(ctx, s, start, int(wanted), func(m []int) error {
					if n++; wanted != 0 && n != wanted {
						return nil
					}
					out.write(s[at:m[0]])
					expanded = expandReplacement(&out, expanded[:0], args[2].Str(), s, m)
					at = m[1]
					return out.err
				})
				if err != nil {
					return types.Null, err
				}
				out.write(s[at:])
				return out.datum()
			})
	}
	for _, v := range []struct {
		sig   string
		flags int
	}{{"text, text, int4", -1}, {"text, text, int4, text", 3}} {
		checkedRegex(r.add(r.funcs, "regexp_count("+v.sig+") int4", Immutable), 1, v.flags, "", valid(2, -1, -1, -1), false,
			func(ctx *Context, re *regex, _ bool, args []types.Datum) (types.Datum, error) {
				start, err := from(args[0].Str(), args[2].Int())
				if err != nil || start < 0 {
					return types.NewInt(0), err
				}
				n := int64(0)
				err = re.allFrom(ctx, args[0].Str(), start, 0, func([]int) error { n++; return nil })
				return types.NewInt(n), err
			})
	}
	for _, v := range []struct {
		sig   string
		flags int
	}{{"text, text", -1}, {"text, text, int4", -1}, {"text, text, int4, int4", -1}, {"text, text, int4, int4, int4", -1},
		{"text, text, int4, int4, int4, text", 5}, {"text, text, int4, int4, int4, text, int4", 5}} {
		checkedRegex(r.add(r.funcs, "regexp_instr("+v.sig+") int4", Immutable), 1, v.flags, "", valid(2, 3, 4, 6), false,
			func(ctx *Context, re *regex, _ bool, args []types.Datum) (types.Datum, error) {
				n, end, group := number(args, 3, 1), number(args, 4, 0), number(args, 6, 0)
				s := args[0].Str()
				start, err := from(s, number(args, 2, 1))
				if err != nil || start < 0 {
					return types.NewInt(0), err
				}
				place, err := nth(ctx, re, s, start, n, group)
				if place == nil || err != nil {
					return types.NewInt(0), err
				}
				return types.NewInt(int64(utf8.RuneCountInString(s[:place[end]])) + 1), nil
			})
	}
	for _, v := range []struct {
		sig   string
		flags int
	}{{"text, text", -1}, {"text, text, int4", -1}, {"text, text, int4, int4", -1},
		{"text, text, int4, int4, text", 4}, {"text, text, int4, int4, text, int4", 4}} {
		checkedRegex(r.add(r.funcs, "regexp_substr("+v.sig+") text", Immutable), 1, v.flags, "", valid(2, 3, -1, 5), false,
			func(ctx *Context, re *regex, _ bool, args []types.Datum) (types.Datum, error) {
				n, group := number(args, 3, 1), number(args, 5, 0)
				s := args[0].Str()
				start, err := from(s, number(args, 2, 1))
				if err != nil || start < 0 {
					return types.Null, err
				}
				place, err := nth(ctx, re, s, start, n, group)
				if place == nil || err != nil {
					return types.Null, err
				}
				return pieceOf(s, s[place[0]:place[1]]), nil
			})
	}
}
