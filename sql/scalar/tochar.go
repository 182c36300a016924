package scalar

import (
	"strings"

	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// formatMax bounds a format's text, which is read anew in each call.
const formatMax = 4 << 10

// boundFormats makes the functions refuse longer formats.
func boundFormats(r *Registry) {
	for _, name := range []string{"to_char", "to_date", "to_timestamp", "to_number"} {
		for _, o := range r.funcs[name] {
			if f := o.Eval2; f != nil && len(o.Args) == 2 {
				o.set2(func(ctx *Context, a, b types.Datum) (types.Datum, error) {
					if len(b.Str()) > formatMax {
						return types.Null, sqlstate.New(sqlstate.ProgramLimitExceeded, "format is longer than %d bytes", formatMax)
					}
					return f(ctx, a, b)
				})
			}
		}
	}
}

func addToChar(r *Registry) {
	defer boundFormats(r)
	addDateTemplates(r)
	number := func(t *types.T) {
		r.Func2("to_char("+t.TypName()+", text) text", func(_ *Context, a, b types.Datum) (types.Datum, error) {
			d, err := types.Cast(types.Env{}, a, t, types.Decimal, false)
			if err != nil {
				return types.Null, err
			}
			return formatNumber(d, b.Str())
		})
	}
	for _, t := range []*types.T{types.Int4, types.Int8, types.Decimal, types.Float4, types.Float8} {
		number(t)
	}
	r.Func2("to_number(text, text) numeric", func(_ *Context, a, b types.Datum) (types.Datum, error) {
		f, err := parseNumFormat(b.Str())
		if err != nil {
			return types.Null, err
		}
		var digits strings.Builder
		neg, point := false, false
		for _, c := range a.Str() {
			switch {
			case c >= '0' && c <= '9':
				digits.WriteRune(c)
			case c == '-' || c == '<':
				neg = true
			case c == '.' && !point && f.point:
				point = true
				digits.WriteRune('.')
			}
		}
		if strings.Trim(digits.String(), ".") == "" {
			return types.Null, sqlstate.New(sqlstate.InvalidTextRepresentation, "invalid input syntax for type numeric: %q", types.Raw(a.Str()))
		}
		d, err := types.ParseDecimal(choose(neg, "-", "") + digits.String())
		if err != nil {
			return types.Null, err
		}
		return types.NewDecimal(types.RoundDecimal(d, min(int32(f.post), max(-d.Exponent, 0)))), nil
	})
}
