package scalar

import (
	"unicode/utf8"

	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// addRegexPlaces adds the functions that count matches and say where the n-th is: regexp_count, regexp_instr, regexp_substr.
func addRegexPlaces(r *Registry) {
	invalid := func(name string, v int64) error {
		return sqlstate.New(sqlstate.InvalidParameterValue, "invalid value for parameter \"%s\": %d", name, v)
	}
	// number is the argument i, or what it is by default.
	number := func(args []types.Datum, i int, otherwise int64) int64 {
		if i < len(args) {
			return args[i].Int()
		}
		return otherwise
	}
	// from is the text from its start-th character on, and how many characters come before.
	from := func(s string, start int64) (string, int64, error) {
		if start < 1 {
			return "", 0, invalid("start", start)
		}
		before := int64(0)
		for before < start-1 && s != "" {
			_, n := utf8.DecodeRuneInString(s)
			s = s[n:]
			before++
		}
		if before < start-1 {
			return "", -1, nil
		}
		return s, before, nil
	}
	// nth is the place of a group in the n-th match, in bytes; nil if there is none.
	nth := func(ctx *Context, re *regex, s string, n, group int64) (place []int, err error) {
		err = re.all(ctx, s, 0, func(m []int) error {
			if n--; n == 0 && 2*group+1 < int64(len(m)) && m[2*group] >= 0 {
				place = []int{m[2*group], m[2*group+1]}
			}
			return nil
		})
		return place, err
	}
	for _, v := range []struct {
		sig   string
		flags int
	}{{"text, text, int4", -1}, {"text, text, int4, text", 3}} {
		withRegex(r.add(r.funcs, "regexp_count("+v.sig+") int4", Immutable), 1, v.flags, "",
			func(ctx *Context, re *regex, _ bool, args []types.Datum) (types.Datum, error) {
				s, before, err := from(args[0].Str(), args[2].Int())
				if err != nil || before < 0 {
					return types.NewInt(0), err
				}
				n := int64(0)
				err = re.all(ctx, s, 0, func([]int) error { n++; return nil })
				return types.NewInt(n), err
			})
	}
	for _, v := range []struct {
		sig   string
		flags int
	}{{"text, text", -1}, {"text, text, int4", -1}, {"text, text, int4, int4", -1}, {"text, text, int4, int4, int4", -1},
		{"text, text, int4, int4, int4, text", 5}, {"text, text, int4, int4, int4, text, int4", 5}} {
		withRegex(r.add(r.funcs, "regexp_instr("+v.sig+") int4", Immutable), 1, v.flags, "",
			func(ctx *Context, re *regex, _ bool, args []types.Datum) (types.Datum, error) {
				n, end, group := number(args, 3, 1), number(args, 4, 0), number(args, 6, 0)
				s, before, err := from(args[0].Str(), number(args, 2, 1))
				switch {
				case err != nil:
					return types.Null, err
				case n < 1:
					return types.Null, invalid("n", n)
				case end != 0 && end != 1:
					return types.Null, invalid("endoption", end)
				case group < 0:
					return types.Null, invalid("subexpr", group)
				case before < 0:
					return types.NewInt(0), nil
				}
				place, err := nth(ctx, re, s, n, group)
				if place == nil || err != nil {
					return types.NewInt(0), err
				}
				return types.NewInt(before + int64(utf8.RuneCountInString(s[:place[end]])) + 1), nil
			})
	}
	for _, v := range []struct {
		sig   string
		flags int
	}{{"text, text", -1}, {"text, text, int4", -1}, {"text, text, int4, int4", -1},
		{"text, text, int4, int4, text", 4}, {"text, text, int4, int4, text, int4", 4}} {
		withRegex(r.add(r.funcs, "regexp_substr("+v.sig+") text", Immutable), 1, v.flags, "",
			func(ctx *Context, re *regex, _ bool, args []types.Datum) (types.Datum, error) {
				n, group := number(args, 3, 1), number(args, 5, 0)
				s, before, err := from(args[0].Str(), number(args, 2, 1))
				switch {
				case err != nil:
					return types.Null, err
				case n < 1:
					return types.Null, invalid("n", n)
				case group < 0:
					return types.Null, invalid("subexpr", group)
				case before < 0:
					return types.Null, nil
				}
				place, err := nth(ctx, re, s, n, group)
				if place == nil || err != nil {
					return types.Null, err
				}
				return pieceOf(args[0].Str(), s[place[0]:place[1]]), nil
			})
	}
}
