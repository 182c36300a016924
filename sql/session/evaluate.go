package session

import (
	"strings"
	"time"

	"meridian/clock"
	"meridian/sql/scalar"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// evaluate computes an expression without columns.
func evaluate(ctx *scalar.Context, e scalar.Expr) (types.Datum, error) {
	ev, err := scalar.Compile(e, func(scalar.ColumnID) (int, bool) { return 0, false })
	if err != nil {
		return types.Null, err
	}
	return ev.Eval(ctx, nil)
}

// asOfTimestamp evaluates AS OF SYSTEM TIME: a timestamp, an interval before now, or a hybrid logical timestamp as a
// decimal number of nanoseconds.
func asOfTimestamp(ctx *scalar.Context, e scalar.Expr, now clock.Timestamp) (clock.Timestamp, error) {
	bad := func(text string) (clock.Timestamp, error) {
		return clock.Timestamp{}, sqlstate.New(sqlstate.InvalidParameterValue, "invalid AS OF SYSTEM TIME: %q", text).
			WithHint("Give a timestamp, an interval such as '-10s', or nanoseconds since 1970.")
	}
	d, err := evaluate(ctx, e)
	if err != nil {
		return clock.Timestamp{}, err
	}
	var at clock.Timestamp
	switch d.Phys() {
	case types.PhysTimestamp:
		at = clock.FromTime(epoch2000.Add(time.Duration(d.Micros()) * time.Microsecond))
	case types.PhysInterval:
		months, days, micros := d.Interval()
		at = clock.FromTime(now.Time().AddDate(0, int(months), int(days)).Add(time.Duration(micros) * time.Microsecond))
	case types.PhysInt:
		at = clock.Timestamp{Wall: d.Int()}
	case types.PhysDecimal:
		if at, err = clock.Parse(d.Decimal().Text('f')); err != nil {
			return bad(d.Decimal().String())
		}
	case types.PhysString, types.PhysChar:
		if at, err = clock.Parse(d.Str()); err != nil || at.Wall < 1e12 {
			if iv, err := types.ParseText(types.IntervalType, d.Str(), ctx.Location); err == nil {
				months, days, micros := iv.Interval()
				at = clock.FromTime(now.Time().AddDate(0, int(months), int(days)).Add(time.Duration(micros) * time.Microsecond))
			} else if ts, err := types.ParseText(types.TimestampTZ, withoutName(d.Str()), ctx.Location); err == nil {
				at = clock.FromTime(epoch2000.Add(time.Duration(ts.Micros()) * time.Microsecond))
			} else {
				return bad(d.Str())
			}
		}
	default:
		if d.IsNull() {
			return bad("NULL")
		}
		return bad(types.FormatText(d, e.Type(), ctx.Style))
	}
	if at.Wall <= 0 {
		return bad(at.String())
	}
	if now.Less(at) {
		return clock.Timestamp{}, sqlstate.New(sqlstate.InvalidParameterValue, "AS OF SYSTEM TIME is in the future: %s", readable(at))
	}
	return at, nil
}

// withoutName is a timestamp without the zone's name behind its offset, "2024-05-01 10:00:00 +0200 CEST": Go's drivers write so for a parameter without a type.
func withoutName(s string) string {
	if f := strings.Fields(s); len(f) == 4 && (f[2][0] == '+' || f[2][0] == '-') {
		return strings.Join(f[:3], " ")
	}
	return s
}

// readable prints a time as PostgreSQL prints it in UTC.
func readable(at clock.Timestamp) string {
	return at.Time().UTC().Format("2006-01-02 15:04:05.999999-07")
}

// epoch2000 is the zero of PostgreSQL's timestamps.
var epoch2000 = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
