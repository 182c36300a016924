package scalar

import (
	"math"
	"math/bits"

	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// intType gives the bounds of an integer type for overflow checks.
func intInRange(v int64, k types.Kind) bool {
	switch k {
	case types.KindInt2:
		return v == int64(int16(v))
	case types.KindInt4:
		return v == int64(int32(v))
	}
	return true
}

func addInts(t *types.T) eval2 {
	return func(_ *Context, a, b types.Datum) (types.Datum, error) {
		x, y := a.Int(), b.Int()
		s := x + y
		if (s > x) != (y > 0) && y != 0 || !intInRange(s, t.Kind) {
			return types.Null, rangeErr(t)
		}
		return types.NewInt(s), nil
	}
}

func subInts(t *types.T) eval2 {
	return func(_ *Context, a, b types.Datum) (types.Datum, error) {
		x, y := a.Int(), b.Int()
		s := x - y
		if (s < x) != (y > 0) && y != 0 || !intInRange(s, t.Kind) {
			return types.Null, rangeErr(t)
		}
		return types.NewInt(s), nil
	}
}

// mulInt64 multiplies; ok is false on overflow.
func mulInt64(x, y int64) (p int64, ok bool) {
	hi, lo := bits.Mul64(uint64(x), uint64(y))
	h := int64(hi)
	if x < 0 {
		h -= y
	}
	if y < 0 {
		h -= x
	}
	p = int64(lo)
	return p, h == p>>63
}

func mulInts(t *types.T) eval2 {
	return func(_ *Context, a, b types.Datum) (types.Datum, error) {
		p, ok := mulInt64(a.Int(), b.Int())
		if !ok || !intInRange(p, t.Kind) {
			return types.Null, rangeErr(t)
		}
		return types.NewInt(p), nil
	}
}

func divInts(t *types.T) eval2 {
	return func(_ *Context, a, b types.Datum) (types.Datum, error) {
		x, y := a.Int(), b.Int()
		switch y {
		case 0:
			return types.Null, errDivByZero()
		case -1:
			if x == math.MinInt64 || !intInRange(-x, t.Kind) {
				return types.Null, rangeErr(t)
			}
			return types.NewInt(-x), nil
		}
		return types.NewInt(x / y), nil
	}
}

func modInts(_ *Context, a, b types.Datum) (types.Datum, error) {
	switch y := b.Int(); y {
	case 0:
		return types.Null, errDivByZero()
	case -1:
		return types.NewInt(0), nil
	default:
		return types.NewInt(a.Int() % y), nil
	}
}

func overflowErr() error {
	return sqlstate.New(sqlstate.NumericOutOfRange, "value out of range: overflow")
}

func underflowErr() error {
	return sqlstate.New(sqlstate.NumericOutOfRange, "value out of range: underflow")
}

// floatResult checks a float result as PostgreSQL does: infinity from finite inputs is an overflow, zero from values
// not zero an underflow.
func floatResult(r float64, single, infIn, zeroOK bool) (types.Datum, error) {
	if single {
		r = float64(float32(r))
	}
	if math.IsInf(r, 0) && !infIn {
		return types.Null, overflowErr()
	}
	if r == 0 && !zeroOK {
		return types.Null, underflowErr()
	}
	return types.NewFloat(r), nil
}

func isInf(fs ...float64) bool {
	for _, f := range fs {
		if math.IsInf(f, 0) {
			return true
		}
	}
	return false
}

func addArithmetic(r *Registry) {
	ints := []struct {
		name string
		t    *types.T
	}{{"int2", types.Int2}, {"int4", types.Int4}, {"int8", types.Int8}}
	for i, a := range ints {
		for j, b := range ints {
			w := ints[max(i, j)]
			sig := "(" + a.name + ", " + b.name + ") " + w.name
			r.op2("+"+sig, addInts(w.t))
			r.op2("-"+sig, subInts(w.t))
			r.op2("*"+sig, mulInts(w.t))
			r.op2("/"+sig, divInts(w.t))
			if i == j {
				r.op2("%"+sig, modInts)
			}
		}
		t := a.t
		r.op1("-("+a.name+") "+a.name, func(_ *Context, d types.Datum) (types.Datum, error) {
			v := -d.Int()
			if d.Int() == math.MinInt64 || !intInRange(v, t.Kind) {
				return types.Null, rangeErr(t)
			}
			return types.NewInt(v), nil
		})
		r.op1("+("+a.name+") "+a.name, identity)
		r.op1("@("+a.name+") "+a.name, absInt(t))
		r.op1("~("+a.name+") "+a.name, func(_ *Context, d types.Datum) (types.Datum, error) { return types.NewInt(^d.Int()), nil })
		same := "(" + a.name + ", " + a.name + ") " + a.name
		r.op2("&"+same, func(_ *Context, a, b types.Datum) (types.Datum, error) { return types.NewInt(a.Int() & b.Int()), nil })
		r.op2("|"+same, func(_ *Context, a, b types.Datum) (types.Datum, error) { return types.NewInt(a.Int() | b.Int()), nil })
		r.op2("#"+same, func(_ *Context, a, b types.Datum) (types.Datum, error) { return types.NewInt(a.Int() ^ b.Int()), nil })
		width := map[types.Kind]int64{types.KindInt2: 32, types.KindInt4: 32, types.KindInt8: 64}[t.Kind]
		shift := "(" + a.name + ", int4) " + a.name
		r.op2("<<"+shift, func(_ *Context, a, b types.Datum) (types.Datum, error) {
			return types.NewInt(wrapInt(a.Int()<<uint64(b.Int()&(width-1)), t.Kind)), nil
		})
		r.op2(">>"+shift, func(_ *Context, a, b types.Datum) (types.Datum, error) {
			return types.NewInt(a.Int() >> uint64(b.Int()&(width-1))), nil
		})
	}
	floats := []string{"float4", "float8"}
	for i, a := range floats {
		for j, b := range floats {
			single := i == 0 && j == 0
			ret := floats[max(i, j)]
			sig := "(" + a + ", " + b + ") " + ret
			r.op2("+"+sig, func(_ *Context, a, b types.Datum) (types.Datum, error) {
				return floatResult(a.Float()+b.Float(), single, isInf(a.Float(), b.Float()), true)
			})
			r.op2("-"+sig, func(_ *Context, a, b types.Datum) (types.Datum, error) {
				return floatResult(a.Float()-b.Float(), single, isInf(a.Float(), b.Float()), true)
			})
			r.op2("*"+sig, func(_ *Context, a, b types.Datum) (types.Datum, error) {
				x, y := a.Float(), b.Float()
				return floatResult(x*y, single, isInf(x, y), x == 0 || y == 0)
			})
			r.op2("/"+sig, func(_ *Context, a, b types.Datum) (types.Datum, error) {
				x, y := a.Float(), b.Float()
				if y == 0 && !math.IsNaN(x) {
					return types.Null, errDivByZero()
				}
				return floatResult(x/y, single, isInf(x), x == 0 || isInf(y))
			})
		}
		r.op1("-("+a+") "+a, func(_ *Context, d types.Datum) (types.Datum, error) { return types.NewFloat(-d.Float()), nil })
		r.op1("+("+a+") "+a, identity)
		r.op1("@("+a+") "+a, func(_ *Context, d types.Datum) (types.Datum, error) { return types.NewFloat(math.Abs(d.Float())), nil })
	}
	r.op2("^(float8, float8) float8", powFloat)
	r.Func2("pow(float8, float8) float8", powFloat)
	r.Func2("power(float8, float8) float8", powFloat)
	r.op1("|/(float8) float8", sqrtFloat)
	r.op1("||/(float8) float8", func(_ *Context, a types.Datum) (types.Datum, error) { return types.NewFloat(math.Cbrt(a.Float())), nil })
}

func identity(_ *Context, d types.Datum) (types.Datum, error) { return d, nil }

func wrapInt(v int64, k types.Kind) int64 {
	switch k {
	case types.KindInt2:
		return int64(int16(v))
	case types.KindInt4:
		return int64(int32(v))
	}
	return v
}

func absInt(t *types.T) eval1 {
	return func(_ *Context, d types.Datum) (types.Datum, error) {
		v := d.Int()
		if v < 0 {
			v = -v
			if v < 0 || !intInRange(v, t.Kind) {
				return types.Null, rangeErr(t)
			}
		}
		return types.NewInt(v), nil
	}
}

func powFloat(_ *Context, a, b types.Datum) (types.Datum, error) {
	x, y := a.Float(), b.Float()
	if x == 0 && y < 0 {
		return types.Null, sqlstate.New("2201F", "zero raised to a negative power is undefined")
	}
	if x < 0 && y != math.Floor(y) && !isInf(y) && !math.IsNaN(y) {
		return types.Null, sqlstate.New("2201F", "a negative number raised to a non-integer power yields a complex result")
	}
	return floatResult(powFloats(x, y), false, isInf(x, y), x == 0 || isInf(x, y))
}

func sqrtFloat(_ *Context, a types.Datum) (types.Datum, error) {
	if a.Float() < 0 {
		return types.Null, sqlstate.New("2201F", "cannot take square root of a negative number")
	}
	return types.NewFloat(math.Sqrt(a.Float())), nil
}

// powFloats is a power, also of a subnormal number (logOf).
func powFloats(x, y float64) float64 {
	if x > 0 && x < 0x1p-1022 {
		return math.Pow(x*0x1p54, y) * math.Exp2(-54*y)
	}
	return math.Pow(x, y)
}
