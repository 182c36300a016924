package scalar

import (
	"math"

	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// The trigonometric functions of degrees are exact where the angle is: each result is divided by that of the same
// computation at an angle whose result is known (float.c of PostgreSQL).
const perDegree = math.Pi / 180

// radians rounds a constant angle in the same way as any other.
func radians(x float64) float64 { return x * perDegree }

func sinTo30(x float64) float64 { return math.Sin(radians(x)) / math.Sin(radians(30)) / 2 }

func cosTo60(x float64) float64 {
	return 1 - (1-math.Cos(radians(x)))/(1-math.Cos(radians(60)))/2
}

func sinTo90(x float64) float64 {
	if x <= 30 {
		return sinTo30(x)
	}
	return cosTo60(90 - x)
}

func cosTo90(x float64) float64 {
	if x <= 60 {
		return cosTo60(x)
	}
	return sinTo30(90 - x)
}

// quadrant reduces an angle to the first quadrant; sin and cos are the signs of its sine and its cosine.
func quadrant(x float64) (angle, sin, cos float64) {
	x, sin, cos = math.Mod(x, 360), 1, 1
	if x < 0 {
		x, sin = -x, -sin
	}
	if x > 180 {
		x, sin = 360-x, -sin
	}
	if x > 90 {
		x, cos = 180-x, -cos
	}
	return x, sin, cos
}

func sinDegrees(x float64) float64 {
	a, s, _ := quadrant(x)
	return s * sinTo90(a)
}

func cosDegrees(x float64) float64 {
	a, _, c := quadrant(x)
	return c * cosTo90(a)
}

func tanDegrees(x float64) float64 {
	a, s, c := quadrant(x)
	return s*c*(sinTo90(a)/cosTo90(a)/(sinTo90(45)/cosTo90(45))) + 0
}

func cotDegrees(x float64) float64 {
	a, s, c := quadrant(x)
	return s*c*(cosTo90(a)/sinTo90(a)/(cosTo90(45)/sinTo90(45))) + 0
}

func asinTo90(x float64) float64 {
	if x <= 0.5 {
		return math.Asin(x) / math.Asin(0.5) * 30
	}
	return 90 - math.Acos(x)/math.Acos(0.5)*60
}

func asinDegrees(x float64) float64 {
	if x < 0 {
		return -asinTo90(-x)
	}
	return asinTo90(x)
}

func acosDegrees(x float64) float64 {
	switch {
	case x < 0:
		return 90 + asinTo90(-x)
	case x <= 0.5:
		return 90 - math.Asin(x)/math.Asin(0.5)*30
	}
	return math.Acos(x) / math.Acos(0.5) * 60
}

func atanDegrees(x float64) float64 { return math.Atan(x) / math.Atan(1) * 45 }

// logOf is the natural logarithm, also of a subnormal number, for which the result of math.Log differs on some processors.
func logOf(x float64) float64 {
	if x > 0 && x < 0x1p-1022 {
		return math.Log(x*0x1p54) - 54*math.Ln2
	}
	return math.Log(x)
}

// addTrig adds the trigonometric functions.
func addTrig(r *Registry) {
	outside := func() error { return sqlstate.New(sqlstate.NumericOutOfRange, "input is out of range") }
	inf := math.Inf(1)
	for _, v := range []struct {
		name   string
		lo, hi float64
		finite bool // infinity is no angle
		f      func(float64) float64
	}{
		{"sin", -inf, inf, true, math.Sin}, {"cos", -inf, inf, true, math.Cos}, {"tan", -inf, inf, true, math.Tan},
		{"cot", -inf, inf, true, func(x float64) float64 { return 1 / math.Tan(x) }},
		{"asin", -1, 1, false, math.Asin}, {"acos", -1, 1, false, math.Acos}, {"atan", -inf, inf, false, math.Atan},
		{"sinh", -inf, inf, false, math.Sinh}, {"cosh", -inf, inf, false, math.Cosh}, {"tanh", -inf, inf, false, math.Tanh},
		{"asinh", -inf, inf, false, math.Asinh}, {"acosh", 1, inf, false, math.Acosh}, {"atanh", -1, 1, false, math.Atanh},
		{"sind", -inf, inf, true, sinDegrees}, {"cosd", -inf, inf, true, cosDegrees},
		{"tand", -inf, inf, true, tanDegrees}, {"cotd", -inf, inf, true, cotDegrees},
		{"asind", -1, 1, false, asinDegrees}, {"acosd", -1, 1, false, acosDegrees}, {"atand", -inf, inf, false, atanDegrees},
	} {
		r.Func1(v.name+"(float8) float8", func(_ *Context, a types.Datum) (types.Datum, error) {
			x := a.Float()
			if x < v.lo || x > v.hi || v.finite && math.IsInf(x, 0) {
				return types.Null, outside()
			}
			return types.NewFloat(v.f(x)), nil
		})
	}
	r.Func2("atan2(float8, float8) float8", func(_ *Context, a, b types.Datum) (types.Datum, error) {
		return types.NewFloat(math.Atan2(a.Float(), b.Float())), nil
	})
	r.Func2("atan2d(float8, float8) float8", func(_ *Context, a, b types.Datum) (types.Datum, error) {
		return types.NewFloat(math.Atan2(a.Float(), b.Float()) / math.Atan(1) * 45), nil
	})
	r.Func1("degrees(float8) float8", func(_ *Context, a types.Datum) (types.Datum, error) {
		return floatResult(a.Float()/perDegree, false, isInf(a.Float()), true)
	})
	r.Func1("radians(float8) float8", func(_ *Context, a types.Datum) (types.Datum, error) {
		return floatResult(a.Float()*perDegree, false, isInf(a.Float()), a.Float() == 0)
	})
}
