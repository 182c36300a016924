package scalar

import (
	"math"
	"sort"
	"strconv"

	"github.com/cockroachdb/apd/v3"

	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

func addMath(r *Registry) {
	for _, t := range []*types.T{types.Int2, types.Int4, types.Int8} {
		n := t.TypName()
		r.Func1("abs("+n+") "+n, absInt(t))
		r.Func2("mod("+n+", "+n+") "+n, modInts)
	}
	gcd := func(t *types.T) eval2 {
		return func(_ *Context, a, b types.Datum) (types.Datum, error) {
			x, y := a.Int(), b.Int()
			for y != 0 {
				if y == -1 {
					x, y = 1, 0
					break
				}
				x, y = y, x%y
			}
			if x < 0 {
				x = -x
			}
			if x < 0 || !intInRange(x, t.Kind) {
				return types.Null, rangeErr(t)
			}
			return num(x)
		}
	}
	for _, t := range []*types.T{types.Int4, types.Int8} {
		n := t.TypName()
		g := gcd(t)
		r.Func2("gcd("+n+", "+n+") "+n, g)
		r.Func2("lcm("+n+", "+n+") "+n, func(c *Context, a, b types.Datum) (types.Datum, error) {
			if a.Int() == 0 || b.Int() == 0 {
				return num(0)
			}
			d, err := g(c, a, b)
			if err != nil {
				return types.Null, err
			}
			p, ok := mulInt64(a.Int()/d.Int(), b.Int())
			if p < 0 {
				p = -p
			}
			if !ok || p < 0 || !intInRange(p, t.Kind) {
				return types.Null, rangeErr(t)
			}
			return num(p)
		})
	}
	for _, single := range []bool{true, false} {
		n := "float8"
		if single {
			n = "float4"
		}
		r.Func1("abs("+n+") "+n, func(_ *Context, a types.Datum) (types.Datum, error) { return types.NewFloat(math.Abs(a.Float())), nil })
	}
	f8 := func(name string, f func(float64) float64) {
		r.Func1(name+"(float8) float8", func(_ *Context, a types.Datum) (types.Datum, error) { return types.NewFloat(f(a.Float())), nil })
	}
	f8("ceil", math.Ceil)
	f8("ceiling", math.Ceil)
	f8("floor", math.Floor)
	f8("round", math.RoundToEven)
	f8("trunc", math.Trunc)
	f8("cbrt", math.Cbrt)
	f8("sign", func(f float64) float64 {
		switch {
		case f > 0:
			return 1
		case f < 0:
			return -1
		}
		return 0 // also of NaN
	})
	r.Func1("sqrt(float8) float8", sqrtFloat)
	r.Func1("exp(float8) float8", func(_ *Context, a types.Datum) (types.Datum, error) {
		return floatResult(math.Exp(a.Float()), false, isInf(a.Float()), isInf(a.Float()))
	})
	log := func(f func(float64) float64) eval1 {
		return func(_ *Context, a types.Datum) (types.Datum, error) {
			switch x := a.Float(); {
			case x == 0:
				return types.Null, sqlstate.New("2201E", "cannot take logarithm of zero")
			case x < 0:
				return types.Null, sqlstate.New("2201E", "cannot take logarithm of a negative number")
			default:
				return types.NewFloat(f(x)), nil
			}
		}
	}
	r.Func1("ln(float8) float8", log(logOf))
	r.Func1("log(float8) float8", log(math.Log10))
	r.Func1("log10(float8) float8", log(math.Log10))
	addTrig(r)
	r.Func("pi() float8", func(*Context, []types.Datum) (types.Datum, error) { return types.NewFloat(math.Pi), nil })
	r.Func("random() float8", func(ctx *Context, _ []types.Datum) (types.Datum, error) {
		return types.NewFloat(ctx.Env.Random()), nil
	}).Volatile()
	r.Func1("setseed(float8) void", func(ctx *Context, a types.Datum) (types.Datum, error) {
		f := a.Float()
		if !(f >= -1 && f <= 1) {
			return types.Null, sqlstate.New(sqlstate.InvalidParameterValue, "setseed parameter %s is out of allowed range [-1,1]", strconv.FormatFloat(f, 'g', 6, 64))
		}
		ctx.Env.SetSeed(f)
		return str("")
	}).Volatile()
	r.Func1("factorial(int8) numeric", func(_ *Context, a types.Datum) (types.Datum, error) {
		n := a.Int()
		if n < 0 {
			return types.Null, sqlstate.New(sqlstate.NumericOutOfRange, "factorial of a negative number is undefined")
		}
		if n > 2000 {
			return types.Null, sqlstate.New(sqlstate.NumericOutOfRange, "value overflows numeric format")
		}
		d := apd.New(1, 0)
		for i := int64(2); i <= n; i++ {
			var b apd.BigInt
			d.Coeff.Mul(&d.Coeff, b.SetInt64(i))
		}
		return types.NewDecimal(d), nil
	})
	r.Func("width_bucket(float8, float8, float8, int4) int4", func(_ *Context, a []types.Datum) (types.Datum, error) {
		x, lo, hi, n := a[0].Float(), a[1].Float(), a[2].Float(), a[3].Int()
		switch {
		case n <= 0:
			return types.Null, sqlstate.New("2201G", "count must be greater than zero")
		case math.IsNaN(x) || math.IsNaN(lo) || math.IsNaN(hi):
			return types.Null, sqlstate.New("2201G", "operand, lower bound, and upper bound cannot be NaN")
		case isInf(lo, hi):
			return types.Null, sqlstate.New("2201G", "lower and upper bounds must be finite")
		case lo == hi:
			return types.Null, sqlstate.New("2201G", "lower bound cannot equal upper bound")
		}
		if lo > hi {
			x, lo, hi = -x, -lo, -hi
		}
		switch {
		case x < lo:
			return num(0)
		case x >= hi:
			if n == math.MaxInt32 {
				return types.Null, rangeErr(types.Int4)
			}
			return num(n + 1)
		}
		// The distance of two bounds may overflow.
		at := (x - lo) / (hi - lo)
		if isInf(hi - lo) {
			at = (x/2 - lo/2) / (hi/2 - lo/2)
		}
		return num(min(int64(at*float64(n)), n-1) + 1)
	})
	r.Func("width_bucket(numeric, numeric, numeric, int4) int4", func(_ *Context, a []types.Datum) (types.Datum, error) {
		x, lo, hi, n := a[0].Decimal(), a[1].Decimal(), a[2].Decimal(), a[3].Int()
		if n <= 0 {
			return types.Null, sqlstate.New("2201G", "count must be greater than zero")
		}
		if isNaN(x) || isNaN(lo) || isNaN(hi) {
			return types.Null, sqlstate.New("2201G", "operand, lower bound, and upper bound cannot be NaN")
		}
		if lo.Form != apd.Finite || hi.Form != apd.Finite {
			return types.Null, sqlstate.New("2201G", "lower and upper bounds must be finite")
		}
		c := types.CompareDecimals(lo, hi)
		if c == 0 {
			return types.Null, sqlstate.New("2201G", "lower bound cannot equal upper bound")
		}
		if c > 0 && types.CompareDecimals(x, lo) > 0 || c < 0 && types.CompareDecimals(x, lo) < 0 {
			return num(0)
		}
		if c > 0 && types.CompareDecimals(x, hi) <= 0 || c < 0 && types.CompareDecimals(x, hi) >= 0 {
			if n == math.MaxInt32 {
				return types.Null, rangeErr(types.Int4)
			}
			return num(n + 1)
		}
		p, q := sumDecimals(x, lo, true), sumDecimals(hi, lo, true)
		scaled, err := mulDecimal(nil, types.NewDecimal(p), types.NewDecimal(apd.New(n, 0)))
		if err != nil {
			return types.Null, err
		}
		v, _ := types.DecimalToInt(quo(scaled.Decimal(), q, 0, false))
		return num(v + 1)
	})
	r.Func2("width_bucket(anyelement, anyarray) int4", func(_ *Context, a, b types.Datum) (types.Datum, error) {
		arr := b.Array()
		if len(arr.Shape) > 1 {
			return types.Null, sqlstate.New("2202E", "thresholds must be one-dimensional array")
		}
		for _, e := range arr.Elems {
			if e.IsNull() {
				return types.Null, sqlstate.New(sqlstate.NullNotAllowed, "thresholds array must not contain NULLs")
			}
		}
		return num(int64(sort.Search(len(arr.Elems), func(i int) bool { return types.Compare(a, arr.Elems[i]) < 0 })))
	})
	// greatest and least take any comparable type; the binder gives all arguments one type.
	for _, v := range []struct {
		name string
		sign int
	}{{"greatest", 1}, {"least", -1}} {
		pick := func(compare func(a, b types.Datum) int) evalN {
			return func(_ *Context, args []types.Datum) (types.Datum, error) {
				best := types.Null
				for _, d := range args {
					if !d.IsNull() && (best.IsNull() || compare(d, best)*v.sign > 0) {
						best = d
					}
				}
				return best, nil
			}
		}
		o := r.Func(v.name+"(variadic anyelement) anyelement", pick(types.Compare)).WithNulls()
		o.TypedEval = func(ts []*types.T) evalN { return pick(ts[0].Compare) }
	}
	for _, v := range []struct {
		name string
		null bool
	}{{"num_nulls", true}, {"num_nonnulls", false}} {
		r.Func(v.name+"(variadic any) int4", func(_ *Context, args []types.Datum) (types.Datum, error) {
			n := int64(0)
			for _, d := range args {
				if d.IsNull() == v.null {
					n++
				}
			}
			return num(n)
		}).WithNulls()
	}
	r.Func2("booleq(bool, bool) bool", func(_ *Context, a, b types.Datum) (types.Datum, error) { return boolean(a.Bool() == b.Bool()) })
}
