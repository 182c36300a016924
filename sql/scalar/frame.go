package scalar

import (
	"math"

	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// FrameLimit is the value by which a RANGE frame with an offset begins or ends, for one row: the row's value and the offset, together. It may be more or less than
// all values of the type.
type FrameLimit struct {
	value   types.Datum
	compare func(a, b types.Datum) int
	beyond  int  // the limit is above or below all values
	all     bool // all values but NaN are within the limit, which is between two infinities
	nan     func(types.Datum) bool
	stamps  bool // values are dates, and the limit a timestamp
}

// NewFrameLimit is PostgreSQL's in_range for columns of a type: base plus the offset, or minus it if back is set. Neither is NULL.
func NewFrameLimit(ctx *Context, t *types.T, base, off types.Datum, back bool) (l FrameLimit, err error) {
	refuse := func() (FrameLimit, error) {
		return l, sqlstate.New("22013", "invalid preceding or following size in window function")
	}
	l.compare = t.Compare
	switch t.Kind {
	case types.KindInt2, types.KindInt4, types.KindInt8:
		if off.Int() < 0 {
			return refuse()
		}
		l.add(base.Int(), off.Int(), back, types.NewInt)
		return l, nil
	case types.KindFloat4, types.KindFloat8:
		f := off.Float()
		if f < 0 || math.IsNaN(f) {
			return refuse()
		}
		if back {
			f = -f
		}
		l.value = types.NewFloat(base.Float() + f)
		l.nan = func(d types.Datum) bool { return math.IsNaN(d.Float()) }
		l.all = !l.nan(base) && l.nan(l.value)
		l.compare = types.Compare
		return l, nil
	case types.KindDecimal:
		l.nan = func(d types.Datum) bool { return isNaN(d.Decimal()) }
		if l.nan(off) || off.Decimal().Negative {
			return refuse()
		}
		if back {
			l.value, err = subDecimal(ctx, base, off)
		} else {
			l.value, err = addDecimal(ctx, base, off)
		}
		if err != nil {
			return l, err
		}
		l.all = !l.nan(base) && l.nan(l.value)
		return l, nil
	case types.KindTime, types.KindTimeTZ: // the months and days of the offset do not count
		_, _, us := off.Interval()
		if us < 0 {
			return refuse()
		}
		l.add(base.Micros(), us, back, func(n int64) types.Datum {
			if t.Kind == types.KindTimeTZ {
				return types.NewTimeTZ(n, base.Zone())
			}
			return types.NewTime(n)
		})
		return l, nil
	}
	if types.Compare(off, types.NewInterval(0, 0, 0)) < 0 {
		return refuse()
	}
	if back {
		if off, err = negInterval(ctx, off); err != nil {
			return l, err
		}
	}
	months, days, micros := off.Interval()
	switch t.Kind {
	case types.KindDate:
		var at int64
		if at, err = stampOfDate(base); err == nil {
			l.value = types.NewTimestamp(at)
		}
		l.stamps = true
	case types.KindTimestamp, types.KindTimestampTZ:
		l.value = base
	case types.KindInterval:
		l.value, err = addIntervals(ctx, base, off)
		return l, err
	default:
		return l, sqlstate.New(sqlstate.FeatureNotSupported, "RANGE with offset PRECEDING/FOLLOWING is not supported for column type %s", t.Name())
	}
	if err != nil || types.IsInfinite(l.value.Micros()) {
		return l, err
	}
	if t.Kind == types.KindTimestampTZ {
		l.value, err = addToZoned(ctx, base.Micros(), months, days, micros)
	} else {
		l.value, err = addToStamp(l.value.Micros(), months, days, micros)
	}
	return l, err
}

// add sets the limit to an integer and an offset that is not negative.
func (l *FrameLimit) add(n, off int64, back bool, of func(int64) types.Datum) {
	sum := n + off
	if back {
		sum = n - off
	}
	switch {
	case !back && sum < n:
		l.beyond = 1
	case back && sum > n:
		l.beyond = -1
	default:
		l.value = of(sum)
	}
}

// Compare is negative for a value below the limit.
func (l *FrameLimit) Compare(d types.Datum) (int, error) {
	switch {
	case l.beyond != 0:
		return -l.beyond, nil
	case l.all && l.nan(d):
		return 1, nil // NaN is above all
	case l.all:
		return 0, nil
	case l.stamps:
		at, err := stampOfDate(d)
		if err != nil {
			return 0, err
		}
		return types.Compare(types.NewTimestamp(at), l.value), nil
	}
	return l.compare(d, l.value), nil
}
