package scalar

import (
	"bytes"
	"math"
	"math/big"
	"strconv"

	"github.com/cockroachdb/apd/v3"

	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// PostgreSQL computes numerics in groups of four digits, and the scale of a quotient or a root depends on that: at
// least sixteen significant digits, counted in groups.
const (
	groupDigits     = 4
	minSigDigits    = 16
	maxDisplayScale = 1000
	// transcendentalDigits bounds the whole digits of exp() and of powers with a fraction: beyond it one call would use a
	// processor for seconds. PostgreSQL goes on to 131072.
	transcendentalDigits = 5000
)

func scaleOf(d *apd.Decimal) int32 { return max(-d.Exponent, 0) }

func isNaN(d *apd.Decimal) bool { return d.Form == apd.NaN || d.Form == apd.NaNSignaling }

// weight is the position of d's first group of four digits (0: just before the point), and its value.
func weight(d *apd.Decimal) (w int32, first int32) {
	if d.Coeff.Sign() == 0 {
		return 0, 0
	}
	digits := d.Coeff.Append(nil, 10)
	intDigits := int32(len(digits)) + d.Exponent // may be negative or zero
	w = (intDigits+groupDigits-1)/groupDigits - 1
	if intDigits <= 0 {
		w = -((-intDigits)/groupDigits + 1)
	}
	// The first group has this many digits that belong to d.
	n := intDigits - w*groupDigits
	for i := int32(0); i < n; i++ {
		c := byte('0')
		if int(i) < len(digits) {
			c = digits[i]
		}
		first = first*10 + int32(c-'0')
	}
	return w, first
}

// divScale is the display scale of a quotient (select_div_scale).
func divScale(a, b *apd.Decimal) int32 {
	w1, f1 := weight(a)
	w2, f2 := weight(b)
	q := w1 - w2
	if f1 <= f2 {
		q--
	}
	s := minSigDigits - q*groupDigits
	s = max(s, scaleOf(a), scaleOf(b), 0)
	return min(s, maxDisplayScale)
}

func pow10Big(n int32) *apd.BigInt {
	var ten, e apd.BigInt
	ten.SetInt64(10)
	e.SetInt64(int64(n))
	return new(apd.BigInt).Exp(&ten, &e, nil)
}

func decimalOf(d *apd.Decimal) (types.Datum, error) {
	n, err := types.NormalizeDecimal(d)
	if err != nil {
		return types.Null, err
	}
	return types.NewDecimal(n), nil
}

// signed is the coefficient with its sign at a scale not below d's own.
func signed(d *apd.Decimal, scale int32, out *apd.BigInt) *apd.BigInt {
	if shift := scale + d.Exponent; shift > 0 {
		out.Mul(&d.Coeff, pow10Big(shift))
	} else {
		out.Set(&d.Coeff)
	}
	if d.Negative {
		out.Neg(out)
	}
	return out
}

// special handles NaN and infinities of a binary operation; ok is false if both are finite.
func special(a, b *apd.Decimal, f func(x, y float64) float64) (types.Datum, bool) {
	if a.Form == apd.Finite && b.Form == apd.Finite {
		return types.Null, false
	}
	x, y := types.DecimalToFloat(a), types.DecimalToFloat(b)
	switch r := f(x, y); {
	case math.IsNaN(r):
		return types.NewDecimal(types.DecimalNaN()), true
	case math.IsInf(r, 1):
		return types.NewDecimal(types.DecimalInf()), true
	case math.IsInf(r, -1):
		return types.NewDecimal(types.DecimalNegInf()), true
	}
	return types.NewDecimal(&apd.Decimal{}), true
}

func sumDecimals(a, b *apd.Decimal, negate bool) *apd.Decimal {
	if a.Exponent == b.Exponent && a.Coeff.IsInt64() && b.Coeff.IsInt64() {
		x, y := a.Coeff.Int64(), b.Coeff.Int64()
		if x < 1<<62 && y < 1<<62 {
			if a.Negative {
				x = -x
			}
			if b.Negative != negate {
				y = -y
			}
			return apd.New(x+y, a.Exponent)
		}
	}
	scale := max(scaleOf(a), scaleOf(b))
	var x, y apd.BigInt
	signed(a, scale, &x)
	signed(b, scale, &y)
	r := &apd.Decimal{Exponent: -scale}
	if negate {
		x.Sub(&x, &y)
	} else {
		x.Add(&x, &y)
	}
	r.Negative = x.Sign() < 0
	r.Coeff.Abs(&x)
	return r
}

func addDecimal(_ *Context, a, b types.Datum) (types.Datum, error) {
	x, y := a.Decimal(), b.Decimal()
	if d, ok := special(x, y, func(x, y float64) float64 { return x + y }); ok {
		return d, nil
	}
	return decimalOf(sumDecimals(x, y, false))
}

func subDecimal(_ *Context, a, b types.Datum) (types.Datum, error) {
	x, y := a.Decimal(), b.Decimal()
	if d, ok := special(x, y, func(x, y float64) float64 { return x - y }); ok {
		return d, nil
	}
	return decimalOf(sumDecimals(x, y, true))
}

func mulDecimal(_ *Context, a, b types.Datum) (types.Datum, error) {
	x, y := a.Decimal(), b.Decimal()
	if d, ok := special(x, y, func(x, y float64) float64 { return x * y }); ok {
		return d, nil
	}
	r := &apd.Decimal{Exponent: x.Exponent + y.Exponent, Negative: x.Negative != y.Negative}
	r.Coeff.Mul(&x.Coeff, &y.Coeff)
	if -r.Exponent > 16383 {
		r = types.RoundDecimal(r, 16383)
	}
	return decimalOf(r)
}

// quo divides finite decimals to a scale, rounding half away from zero or cutting.
func quo(x, y *apd.Decimal, scale int32, round bool) *apd.Decimal {
	// x.c*10^x.e / (y.c*10^y.e) = (x.c/y.c) * 10^(x.e-y.e), wanted at 10^-scale.
	var num, den apd.BigInt
	num.Set(&x.Coeff)
	den.Set(&y.Coeff)
	if shift := x.Exponent - y.Exponent + scale; shift >= 0 {
		num.Mul(&num, pow10Big(shift))
	} else {
		den.Mul(&den, pow10Big(-shift))
	}
	r := &apd.Decimal{Exponent: -scale, Negative: x.Negative != y.Negative}
	var rem apd.BigInt
	r.Coeff.QuoRem(&num, &den, &rem)
	if round {
		rem.Add(&rem, &rem)
		if rem.CmpAbs(&den) >= 0 {
			var one apd.BigInt
			one.SetInt64(1)
			r.Coeff.Add(&r.Coeff, &one)
		}
	}
	return r
}

func divDecimal(_ *Context, a, b types.Datum) (types.Datum, error) {
	x, y := a.Decimal(), b.Decimal()
	if y.Form == apd.Finite && y.Coeff.Sign() == 0 && !isNaN(x) {
		return types.Null, errDivByZero()
	}
	if d, ok := special(x, y, func(x, y float64) float64 { return x / y }); ok {
		return d, nil
	}
	return decimalOf(quo(x, y, divScale(x, y), true))
}

func modDecimal(_ *Context, a, b types.Datum) (types.Datum, error) {
	x, y := a.Decimal(), b.Decimal()
	if y.Form == apd.Finite && y.Coeff.Sign() == 0 && !isNaN(x) {
		return types.Null, errDivByZero()
	}
	if x.Form != apd.Finite || y.Form != apd.Finite {
		if x.Form == apd.Finite && y.Form == apd.Infinite {
			return a, nil
		}
		return types.NewDecimal(types.DecimalNaN()), nil
	}
	scale := max(scaleOf(x), scaleOf(y))
	var p, q, rem, whole apd.BigInt
	signed(x, scale, &p)
	signed(y, scale, &q)
	whole.QuoRem(&p, &q, &rem)
	r := &apd.Decimal{Exponent: -scale, Negative: rem.Sign() < 0}
	r.Coeff.Abs(&rem)
	return decimalOf(r)
}

func negDecimal(_ *Context, a types.Datum) (types.Datum, error) {
	x := a.Decimal()
	switch {
	case isNaN(x) || x.Form == apd.Finite && x.Coeff.Sign() == 0:
		return a, nil
	case x.Form == apd.Infinite:
		if x.Negative {
			return types.NewDecimal(types.DecimalInf()), nil
		}
		return types.NewDecimal(types.DecimalNegInf()), nil
	}
	r := new(apd.Decimal).Set(x)
	r.Negative = !x.Negative
	return types.NewDecimal(r), nil
}

func absDecimal(c *Context, a types.Datum) (types.Datum, error) {
	if a.Decimal().Negative {
		return negDecimal(c, a)
	}
	return a, nil
}

// finite wraps a function of finite numerics; NaN and infinities are returned as they are.
func finite(f func(d *apd.Decimal) *apd.Decimal) eval1 {
	return func(_ *Context, a types.Datum) (types.Datum, error) {
		if a.Decimal().Form != apd.Finite {
			return a, nil
		}
		return decimalOf(f(a.Decimal()))
	}
}

func floorDecimal(d *apd.Decimal) *apd.Decimal {
	t := types.TruncDecimal(d, 0)
	if d.Negative && types.CompareDecimals(t, d) != 0 {
		t = sumDecimals(t, apd.New(1, 0), true)
	}
	return t
}

func ceilDecimal(d *apd.Decimal) *apd.Decimal {
	t := types.TruncDecimal(d, 0)
	if !d.Negative && types.CompareDecimals(t, d) != 0 {
		t = sumDecimals(t, apd.New(1, 0), false)
	}
	return t
}

// precise computes with plenty of digits, then rounds to the scale.
func precise(digits int64, f func(c *apd.Context, r *apd.Decimal) error) (*apd.Decimal, error) {
	c := apd.BaseContext.WithPrecision(uint32(max(digits, 32)))
	c.Rounding = apd.RoundHalfUp
	c.MaxExponent, c.MinExponent = 200000, -200000
	c.Traps = 0
	r := new(apd.Decimal)
	if err := f(c, r); err != nil {
		return nil, sqlstate.New(sqlstate.NumericOutOfRange, "value overflows numeric format")
	}
	if r.Form == apd.Infinite {
		return nil, sqlstate.New(sqlstate.NumericOutOfRange, "value overflows numeric format")
	}
	return r, nil
}

// significant is x rounded to the digits on which a result of digits digits can depend: the time of the library's series
// grows with the digits of the argument, which may be a hundred thousand.
func significant(x *apd.Decimal, digits int64) *apd.Decimal {
	if x.NumDigits() <= digits+100 {
		return x
	}
	c := apd.BaseContext.WithPrecision(uint32(digits))
	c.MaxExponent, c.MinExponent = 200000, -200000
	c.Traps = 0
	r := new(apd.Decimal)
	if _, err := c.Round(r, x); err != nil {
		return x
	}
	return r
}

func clampScale(s, dscale int32) int32 { return min(max(s, dscale, 0), maxDisplayScale) }

func sqrtDecimal(_ *Context, a types.Datum) (types.Datum, error) {
	x := a.Decimal()
	if x.Negative && !isNaN(x) {
		return types.Null, sqlstate.New("2201F", "cannot take square root of a negative number")
	}
	if x.Form != apd.Finite {
		return a, nil
	}
	w, _ := weight(x)
	sweight := (w+1)*groupDigits/2 - 1
	return decimalOf(sqrtAt(x, clampScale(minSigDigits-sweight, scaleOf(x))))
}

// sqrtAt is a finite number's root with a number of digits behind the point.
func sqrtAt(x *apd.Decimal, scale int32) *apd.Decimal {
	// The integer root of x * 10^(2*scale+2) has one digit more than needed, which decides the rounding.
	var n big.Int
	if shift := int32(2*scale+2) + x.Exponent; shift >= 0 {
		n.Mul(x.Coeff.MathBigInt(), pow10Big(shift).MathBigInt())
	} else {
		n.Quo(x.Coeff.MathBigInt(), pow10Big(-shift).MathBigInt())
	}
	n.Sqrt(&n)
	r := &apd.Decimal{Exponent: -scale - 1}
	r.Coeff.SetMathBigInt(&n)
	return types.RoundDecimal(r, scale)
}

func expDecimal(_ *Context, a types.Datum) (types.Datum, error) {
	x := a.Decimal()
	if x.Form != apd.Finite {
		if x.Form == apd.Infinite && x.Negative {
			return types.NewDecimal(&apd.Decimal{}), nil
		}
		return a, nil
	}
	v := types.DecimalToFloat(x) * 0.434294481903252
	if v > transcendentalDigits {
		return types.Null, sqlstate.New(sqlstate.NumericOutOfRange, "value overflows numeric format")
	}
	v = max(v, -2000)
	scale := clampScale(minSigDigits-int32(v), scaleOf(x))
	digits := int64(math.Abs(v)) + int64(scale) + 20
	x = significant(x, digits+20)
	r, err := precise(digits, func(c *apd.Context, r *apd.Decimal) error {
		_, err := c.Exp(r, x)
		return err
	})
	if err != nil {
		return types.Null, err
	}
	return decimalOf(types.RoundDecimal(r, scale))
}

// lnWeight estimates the decimal weight of ln(x) (estimate_ln_dweight).
func lnWeight(x *apd.Decimal) int32 {
	one := apd.New(1, 0)
	diff := sumDecimals(x, one, true)
	diff.Negative = false
	if types.CompareDecimals(x, apd.New(9, -1)) >= 0 && types.CompareDecimals(x, apd.New(11, -1)) <= 0 {
		if diff.Coeff.Sign() == 0 {
			return 0
		}
		// ln(x) is about x-1.
		return int32(diff.NumDigits()) + diff.Exponent - 1
	}
	digits := x.Coeff.Append(nil, 10)
	lead, _ := strconv.ParseFloat(string(digits[:min(8, len(digits))]), 64)
	exp := float64(int32(len(digits))+x.Exponent) - float64(min(8, len(digits)))
	ln := math.Log(lead) + exp*math.Ln10
	if ln == 0 {
		return 0
	}
	return int32(math.Log10(math.Abs(ln)))
}

func lnDecimal(x *apd.Decimal) (*apd.Decimal, error) {
	switch {
	case x.Form == apd.Finite && x.Coeff.Sign() == 0:
		return nil, sqlstate.New("2201E", "cannot take logarithm of zero")
	case x.Negative && !isNaN(x):
		return nil, sqlstate.New("2201E", "cannot take logarithm of a negative number")
	case x.Form != apd.Finite:
		return x, nil
	}
	scale := clampScale(minSigDigits-lnWeight(x), scaleOf(x))
	x = significant(x, int64(scale)+60)
	r, err := precise(int64(scale)+30, func(c *apd.Context, r *apd.Decimal) error {
		_, err := c.Ln(r, x)
		return err
	})
	if err != nil {
		return nil, err
	}
	return types.RoundDecimal(r, scale), nil
}

func logDecimal(base, x *apd.Decimal) (*apd.Decimal, error) {
	lb, err := lnDecimal(base)
	if err != nil {
		return nil, err
	}
	if lb.Form == apd.Finite && lb.Coeff.Sign() == 0 {
		return nil, errDivByZero()
	}
	if _, err := lnDecimal(x); err != nil {
		return nil, err
	}
	if base.Form != apd.Finite || x.Form != apd.Finite {
		return types.DecimalNaN(), nil
	}
	// The result's weight: that of the quotient of the logarithms.
	var q apd.Decimal
	sx, sbase := significant(x, 120), significant(base, 120)
	exact, err := precise(60, func(c *apd.Context, r *apd.Decimal) error {
		var a, b apd.Decimal
		if _, err := c.Ln(&a, sx); err != nil {
			return err
		}
		if _, err := c.Ln(&b, sbase); err != nil {
			return err
		}
		_, err := c.Quo(r, &a, &b)
		return err
	})
	if err != nil {
		return nil, err
	}
	q.Set(exact)
	w := lnWeight(x) - lnWeight(base)
	scale := clampScale(minSigDigits-w, max(scaleOf(base), scaleOf(x)))
	return types.RoundDecimal(exact, scale), nil
}

func powDecimal(_ *Context, a, b types.Datum) (types.Datum, error) {
	x, y := a.Decimal(), b.Decimal()
	if x.Form == apd.Infinite && x.Negative && y.Form == apd.Finite && types.CompareDecimals(types.TruncDecimal(y, 0), y) != 0 {
		return types.Null, sqlstate.New("2201F", "a negative number raised to a non-integer power yields a complex result")
	}
	if x.Form == apd.Finite && x.Sign() == 0 && y.Form == apd.Infinite && y.Negative {
		return types.Null, sqlstate.New("2201F", "zero raised to a negative power is undefined")
	}
	one := apd.New(1, 0)
	if isNaN(x) && y.Form == apd.Finite && y.Sign() == 0 || isNaN(y) && x.Form == apd.Finite && types.CompareDecimals(x, one) == 0 {
		return decimalOf(one)
	}
	if d, ok := special(x, y, math.Pow); ok {
		if math.Pow(types.DecimalToFloat(x), types.DecimalToFloat(y)) == 1 {
			return decimalOf(one)
		}
		return d, nil
	}
	yInt := types.CompareDecimals(types.TruncDecimal(y, 0), y) == 0
	if x.Coeff.Sign() == 0 {
		if y.Negative {
			return types.Null, sqlstate.New("2201F", "zero raised to a negative power is undefined")
		}
		if y.Coeff.Sign() == 0 {
			return decimalOf(types.RoundDecimal(apd.New(1, 0), max(minSigDigits, scaleOf(x), scaleOf(y))))
		}
		return decimalOf(types.RoundDecimal(apd.New(0, 0), max(minSigDigits, scaleOf(x), scaleOf(y))))
	}
	if x.Negative && !yInt {
		return types.Null, sqlstate.New("2201F", "a negative number raised to a non-integer power yields a complex result")
	}
	dscale := max(scaleOf(x), scaleOf(y))
	// Estimate the decimal weight of the result from logarithms.
	ax := new(apd.Decimal).Set(x)
	ax.Negative = false
	digits := ax.Coeff.Append(nil, 10)
	lead, _ := strconv.ParseFloat("0."+string(digits[:min(17, len(digits))]), 64)
	log10 := math.Log10(lead) + float64(int32(len(digits))+ax.Exponent)
	v := log10 * types.DecimalToFloat(y)
	if v > 131072 {
		return types.Null, sqlstate.New(sqlstate.NumericOutOfRange, "value overflows numeric format")
	}
	if v < -maxDisplayScale-100 && yInt {
		return decimalOf(&apd.Decimal{Exponent: -clampScale(minSigDigits, dscale)})
	}
	if v < -maxDisplayScale-100 {
		return decimalOf(&apd.Decimal{Exponent: -maxDisplayScale})
	}
	scale := clampScale(minSigDigits-int32(v), dscale)
	if yInt {
		// Whole powers are computed by multiplication, to a fixed scale.
		scale = clampScale(minSigDigits, dscale)
	}
	if n, ok := types.DecimalToInt(y); ok && yInt && n >= 0 && n < 1000 && int64(scaleOf(x))*n <= 2000 {
		// Small whole powers are exact.
		r := &apd.Decimal{Exponent: x.Exponent * int32(n), Negative: x.Negative && n%2 == 1}
		var e apd.BigInt
		e.SetInt64(n)
		r.Coeff.Exp(&x.Coeff, &e, nil)
		return decimalOf(types.RoundDecimal(r, scale))
	}
	if !yInt && v > transcendentalDigits {
		return types.Null, sqlstate.New(sqlstate.NumericOutOfRange, "value overflows numeric format")
	}
	need := int64(math.Abs(v)) + int64(scale) + 30
	if !yInt {
		ax, y = significant(ax, need+30), significant(y, need+30)
	}
	r, err := precise(need, func(c *apd.Context, r *apd.Decimal) error {
		_, err := c.Pow(r, ax, y)
		return err
	})
	if err != nil {
		return types.Null, err
	}
	if x.Negative {
		if n, ok := types.DecimalToInt(y); ok && n%2 != 0 {
			r.Negative = true
		}
	}
	return decimalOf(types.RoundDecimal(r, scale))
}

func addDecimalMath(r *Registry) {
	r.op2("+(numeric, numeric) numeric", addDecimal)
	r.op2("-(numeric, numeric) numeric", subDecimal)
	r.op2("*(numeric, numeric) numeric", mulDecimal)
	r.op2("/(numeric, numeric) numeric", divDecimal)
	r.op2("%(numeric, numeric) numeric", modDecimal)
	r.op2("^(numeric, numeric) numeric", powDecimal)
	r.op1("-(numeric) numeric", negDecimal)
	r.op1("+(numeric) numeric", identity)
	r.op1("@(numeric) numeric", absDecimal)
	r.Func2("power(numeric, numeric) numeric", powDecimal)
	r.Func2("pow(numeric, numeric) numeric", powDecimal)
	r.Func2("mod(numeric, numeric) numeric", modDecimal)
	r.Func2("div(numeric, numeric) numeric", func(c *Context, a, b types.Datum) (types.Datum, error) {
		x, y := a.Decimal(), b.Decimal()
		if y.Form == apd.Finite && y.Coeff.Sign() == 0 && !isNaN(x) {
			return types.Null, errDivByZero()
		}
		if d, ok := special(x, y, func(x, y float64) float64 { return math.Trunc(x / y) }); ok {
			return d, nil
		}
		return decimalOf(quo(x, y, 0, false))
	})
	r.Func1("abs(numeric) numeric", absDecimal)
	r.Func1("ceil(numeric) numeric", finite(ceilDecimal))
	r.Func1("ceiling(numeric) numeric", finite(ceilDecimal))
	r.Func1("floor(numeric) numeric", finite(floorDecimal))
	r.Func1("round(numeric) numeric", finite(func(d *apd.Decimal) *apd.Decimal { return types.RoundDecimal(d, 0) }))
	r.Func1("trunc(numeric) numeric", finite(func(d *apd.Decimal) *apd.Decimal { return types.TruncDecimal(d, 0) }))
	scaled := func(f func(*apd.Decimal, int32) *apd.Decimal) eval2 {
		return func(_ *Context, a, b types.Datum) (types.Datum, error) {
			if a.Decimal().Form != apd.Finite {
				return a, nil
			}
			n := int32(min(max(b.Int(), -131072), 16383))
			return decimalOf(f(a.Decimal(), n))
		}
	}
	r.Func2("round(numeric, int4) numeric", scaled(types.RoundDecimal))
	r.Func2("trunc(numeric, int4) numeric", scaled(types.TruncDecimal))
	r.Func1("sign(numeric) numeric", func(_ *Context, a types.Datum) (types.Datum, error) {
		x := a.Decimal()
		switch {
		case isNaN(x):
			return a, nil
		case x.Form == apd.Finite && x.Coeff.Sign() == 0:
			return types.NewDecimal(&apd.Decimal{}), nil
		case x.Negative:
			return types.NewDecimal(apd.New(-1, 0)), nil
		}
		return types.NewDecimal(apd.New(1, 0)), nil
	})
	r.Func1("sqrt(numeric) numeric", sqrtDecimal)
	r.Func1("exp(numeric) numeric", expDecimal)
	r.Func1("ln(numeric) numeric", func(_ *Context, a types.Datum) (types.Datum, error) {
		d, err := lnDecimal(a.Decimal())
		if err != nil {
			return types.Null, err
		}
		return decimalOf(d)
	})
	log10 := func(_ *Context, a types.Datum) (types.Datum, error) {
		d, err := logDecimal(apd.New(10, 0), a.Decimal())
		if err != nil {
			return types.Null, err
		}
		return decimalOf(d)
	}
	r.Func1("log(numeric) numeric", log10)
	r.Func1("log10(numeric) numeric", log10)
	r.Func2("log(numeric, numeric) numeric", func(_ *Context, a, b types.Datum) (types.Datum, error) {
		if x, y := a.Decimal(), b.Decimal(); x.Form == apd.Finite && x.Sign() > 0 && y.Form == apd.Infinite && !y.Negative {
			return b, nil // ln of infinity, by a number whatever its sign is
		} else if y.Form == apd.Finite && y.Sign() > 0 && x.Form == apd.Infinite && !x.Negative {
			return decimalOf(apd.New(0, 0))
		}
		d, err := logDecimal(a.Decimal(), b.Decimal())
		if err != nil {
			return types.Null, err
		}
		return decimalOf(d)
	})
	r.Func1("scale(numeric) int4", func(_ *Context, a types.Datum) (types.Datum, error) {
		if a.Decimal().Form != apd.Finite {
			return types.Null, nil
		}
		return types.NewInt(int64(scaleOf(a.Decimal()))), nil
	})
	trim := func(d *apd.Decimal) *apd.Decimal {
		digits := d.Coeff.Append(nil, 10)
		zeros := len(digits) - len(bytes.TrimRight(digits, "0"))
		if d.Coeff.Sign() == 0 {
			zeros = int(-d.Exponent)
		}
		if zeros == 0 || d.Exponent >= 0 {
			return d
		}
		return types.TruncDecimal(d, max(-d.Exponent-int32(min(zeros, int(-d.Exponent))), 0))
	}
	r.Func1("trim_scale(numeric) numeric", finite(trim))
	r.Func1("min_scale(numeric) int4", func(_ *Context, a types.Datum) (types.Datum, error) {
		if a.Decimal().Form != apd.Finite {
			return types.Null, nil
		}
		return types.NewInt(int64(scaleOf(trim(a.Decimal())))), nil
	})
	gcd := func(x, y *apd.Decimal) *apd.Decimal {
		scale := max(scaleOf(x), scaleOf(y))
		var a, b apd.BigInt
		signed(x, scale, &a)
		signed(y, scale, &b)
		d := &apd.Decimal{Exponent: -scale}
		d.Coeff.GCD(nil, nil, a.Abs(&a), b.Abs(&b))
		return d
	}
	r.Func2("gcd(numeric, numeric) numeric", func(_ *Context, a, b types.Datum) (types.Datum, error) {
		x, y := a.Decimal(), b.Decimal()
		if x.Form != apd.Finite || y.Form != apd.Finite {
			return types.NewDecimal(types.DecimalNaN()), nil
		}
		return decimalOf(gcd(x, y))
	})
	r.Func2("lcm(numeric, numeric) numeric", func(c *Context, a, b types.Datum) (types.Datum, error) {
		x, y := a.Decimal(), b.Decimal()
		scale := max(scaleOf(x), scaleOf(y))
		switch {
		case x.Form != apd.Finite || y.Form != apd.Finite:
			return types.NewDecimal(types.DecimalNaN()), nil
		case x.Sign() == 0 || y.Sign() == 0:
			return decimalOf(&apd.Decimal{Exponent: -scale})
		}
		p, err := mulDecimal(c, types.NewDecimal(quo(x, gcd(x, y), 0, false)), b)
		if err != nil {
			return types.Null, err
		}
		d := types.RoundDecimal(p.Decimal(), scale)
		if d.Negative {
			d = new(apd.Decimal).Set(d)
			d.Negative = false
		}
		return decimalOf(d)
	})
}
