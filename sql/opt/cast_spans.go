package opt

import (
	"math"
	"math/big"

	"github.com/cockroachdb/apd/v3"

	"meridian/sql/scalar"
	"meridian/sql/types"
)

// matchCast derives a span from a comparison of a column's values after a conversion to a wider type that keeps their order: a date
// with a timestamp, an integer with a numeric. The span has all rows that may pass, and the condition remains as a filter.
//
//	date::timestamp >= x    date >= x::date        (if midnight of a day is not before x, the day is not before x's)
//	date::timestamp <  x    date <= x::date
//	int::numeric    >= 5.5  int >= 6
//	int::numeric    <  5.5  int <= 5
//	char::text      =  x    char = x::char
func matchCast(e *scalar.Compare, id ColumnID, t *types.T, cols *colSet) (v columnValues, ok bool) {
	op, side, value := e.Op, e.Left, e.Right
	ofColumn := func(e scalar.Expr) (*scalar.Cast, bool) {
		c, ok := e.(*scalar.Cast)
		if !ok {
			return nil, false
		}
		k, ok := c.Arg.(*scalar.Column)
		return c, ok && k.ID == id
	}
	c, ok := ofColumn(side)
	if !ok {
		op, side, value = e.Op.Commute(), e.Right, e.Left
		if c, ok = ofColumn(side); !ok {
			return v, false
		}
	}
	if x := exprCols(value); x.intersects(cols) || isVolatile(value) || hasSubquery(value) {
		return v, false
	}
	var low, high scalar.Expr
	switch {
	case t.Kind == types.KindDate && (c.To.Kind == types.KindTimestamp || c.To.Kind == types.KindTimestampTZ) && value.Type().Kind == c.To.Kind:
		d, err := scalar.Coerce(value, types.Date, types.CastExplicit)
		if err != nil {
			return v, false
		}
		low, high = d, d
	case t.IsInteger() && (c.To.Kind == types.KindDecimal || c.To.Kind == types.KindFloat8):
		k, ok := value.(*scalar.Const)
		if !ok {
			return v, false // the conversion of a value that is not known yet might fail
		}
		floor, ceil, ok := aroundNumber(k)
		if !ok {
			return v, false
		}
		low, high = intConst(ceil), intConst(floor)
		if floor != ceil && op == scalar.EQ {
			low = high // and the filter drops the rows
		}
	case t.Kind == types.KindBPChar && c.To.Kind == types.KindText && op == scalar.EQ && value.Type().Kind == types.KindText:
		x, err := scalar.Coerce(value, t.Bare(), types.CastExplicit)
		if err != nil {
			return v, false
		}
		low = x
	default:
		return v, false
	}
	v.inexact = true
	switch op {
	case scalar.EQ:
		v.values = []scalar.Expr{low}
	case scalar.LT, scalar.LE:
		v.high = Bound{high, true}
	case scalar.GT, scalar.GE:
		v.low = Bound{low, true}
	default:
		return v, false
	}
	return v, true
}

// aroundNumber are the integers next to a constant; false if there are none that a column can hold.
func aroundNumber(k *scalar.Const) (floor, ceil int64, ok bool) {
	if k.Value.IsNull() {
		return 0, 0, false
	}
	const most = 1 << 53 // floating numbers are integers only beyond this, and not all of them
	switch k.T.Kind {
	case types.KindFloat8:
		f := k.Value.Float()
		if !(math.Abs(f) < most) {
			return 0, 0, false
		}
		return int64(math.Floor(f)), int64(math.Ceil(f)), true
	case types.KindDecimal:
		const digits = 100
		if d := k.Value.Decimal(); d.Form != apd.Finite || d.NumDigits() > digits || d.Exponent > digits || d.Exponent < -digits {
			return 0, 0, false
		}
		r, ok := new(big.Rat).SetString(types.FormatText(k.Value, k.T, nil))
		if !ok {
			return 0, 0, false
		}
		q, m := new(big.Int).DivMod(r.Num(), r.Denom(), new(big.Int))
		if !q.IsInt64() || q.Int64() == math.MaxInt64 {
			return 0, 0, false
		}
		floor = q.Int64()
		ceil = floor
		if m.Sign() != 0 {
			ceil++
		}
		return floor, ceil, true
	}
	return 0, 0, false
}
