package scalar

import (
	"time"

	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// The functions that bound the staleness of reads (CRDB'22 §5.3.2). Their value is the bound: the earliest timestamp that will do. After AS OF
// SYSTEM TIME it is not the timestamp of the read, which is negotiated; see BoundOf.

const (
	minTimestamp = "with_min_timestamp"
	maxStaleness = "with_max_staleness"
)

// addStaleness adds these functions. The second argument says that only nearby replicas may serve the read.
func addStaleness(r *Registry) {
	since := func(ctx *Context, args []types.Datum) (types.Datum, error) {
		if now := types.MicrosFromTime(ctx.StatementTime); args[0].Micros() > now {
			return types.Null, sqlstate.New(sqlstate.InvalidParameterValue, "the minimum timestamp of a read is in the future: %s",
				types.FormatText(args[0], types.TimestampTZ, ctx.Style)).WithHint("It may be at most statement_timestamp().")
		}
		return args[0], nil
	}
	within := func(ctx *Context, args []types.Datum) (types.Datum, error) {
		months, days, micros := args[0].Interval()
		at := ctx.StatementTime.AddDate(0, -int(months), -int(days)).Add(-time.Duration(micros) * time.Microsecond)
		if ctx.StatementTime.Before(at) {
			return types.Null, sqlstate.New(sqlstate.InvalidParameterValue, "the maximum staleness of a read is negative: %s",
				types.FormatText(args[0], types.IntervalType, ctx.Style))
		}
		return types.NewTimestamp(types.MicrosFromTime(at)), nil
	}
	for _, more := range []string{"", ", bool"} {
		r.Func(minTimestamp+"(timestamptz"+more+") timestamptz", since).Stable()
		r.Func(maxStaleness+"(interval"+more+") timestamptz", within).Stable()
	}
}

// BoundOf reports whether an expression after AS OF SYSTEM TIME bounds the staleness of the read, instead of giving its timestamp. Its value is
// the bound; only, nil if it was not given, says whether the nearest replicas alone may serve the read.
func BoundOf(e Expr) (only Expr, bounded bool) {
	c, ok := e.(*Call)
	if !ok || c.Func.Name != minTimestamp && c.Func.Name != maxStaleness {
		return nil, false
	}
	if len(c.Args) > 1 {
		only = c.Args[1]
	}
	return only, true
}
