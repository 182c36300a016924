package scalar

import (
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
	addNumberTemplates(r)
}
