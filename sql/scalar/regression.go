package scalar

import (
	"math"

	"meridian/sql/types"
)

// regression is the state of the aggregates over pairs of numbers: the recurrence of Youngs and Cramer, as in PostgreSQL.
type regression struct {
	n, sx, sxx, sy, syy, sxy float64
	result                   func(a *regression) types.Datum
}

// Add takes a pair (y, x), unless one of the two is NULL.
func (a *regression) Add(_ *Context, args []types.Datum) error {
	if args[0].IsNull() || args[1].IsNull() {
		return nil
	}
	y, x := args[0].Float(), args[1].Float()
	was := *a
	a.n++
	a.sx += x
	a.sy += y
	if was.n == 0 {
		if isInf(x) || math.IsNaN(x) {
			a.sxx, a.sxy = math.NaN(), math.NaN()
		}
		if isInf(y) || math.IsNaN(y) {
			a.syy, a.sxy = math.NaN(), math.NaN()
		}
		return nil
	}
	dx, dy := x*a.n-a.sx, y*a.n-a.sy
	scale := 1 / (a.n * was.n)
	a.sxx += dx * dx * scale
	a.syy += dy * dy * scale
	a.sxy += dx * dy * scale
	if !isInf(a.sx, a.sxx, a.sy, a.syy, a.sxy) {
		return nil
	}
	if (isInf(a.sx) || isInf(a.sxx)) && !isInf(was.sx, x) || (isInf(a.sy) || isInf(a.syy)) && !isInf(was.sy, y) ||
		isInf(a.sxy) && !isInf(was.sx, x, was.sy, y) {
		return overflowErr()
	}
	for _, s := range []*float64{&a.sxx, &a.syy, &a.sxy} {
		if isInf(*s) {
			*s = math.NaN()
		}
	}
	return nil
}

func (a *regression) Result(*Context) (types.Datum, error) { return a.result(a), nil }

func addRegression(r *Registry) {
	type result = func(a *regression) types.Datum
	// atLeast is f, or NULL for fewer than n pairs.
	atLeast := func(n float64, f func(a *regression) float64) result {
		return func(a *regression) types.Datum {
			if a.n < n {
				return types.Null
			}
			return types.NewFloat(f(a))
		}
	}
	// sloped is f, or NULL if all x are equal.
	sloped := func(f func(a *regression) float64) result {
		return func(a *regression) types.Datum {
			if a.n < 1 || a.sxx == 0 {
				return types.Null
			}
			return types.NewFloat(f(a))
		}
	}
	r.agg("regr_count(float8, float8) int8", func() Accumulator {
		return &regression{result: func(a *regression) types.Datum { return types.NewInt(int64(a.n)) }}
	})
	for _, v := range []struct {
		name string
		f    result
	}{
		{"regr_sxx", atLeast(1, func(a *regression) float64 { return a.sxx })},
		{"regr_syy", atLeast(1, func(a *regression) float64 { return a.syy })},
		{"regr_sxy", atLeast(1, func(a *regression) float64 { return a.sxy })},
		{"regr_avgx", atLeast(1, func(a *regression) float64 { return a.sx / a.n })},
		{"regr_avgy", atLeast(1, func(a *regression) float64 { return a.sy / a.n })},
		{"covar_pop", atLeast(1, func(a *regression) float64 { return a.sxy / a.n })},
		{"covar_samp", atLeast(2, func(a *regression) float64 { return a.sxy / (a.n - 1) })},
		{"corr", func(a *regression) types.Datum {
			if a.n < 1 || a.sxx == 0 || a.syy == 0 {
				return types.Null
			}
			return types.NewFloat(a.sxy / math.Sqrt(a.sxx*a.syy))
		}},
		{"regr_r2", sloped(func(a *regression) float64 {
			if a.syy == 0 {
				return 1
			}
			return a.sxy * a.sxy / (a.sxx * a.syy)
		})},
		{"regr_slope", sloped(func(a *regression) float64 { return a.sxy / a.sxx })},
		{"regr_intercept", sloped(func(a *regression) float64 { return (a.sy - a.sx*a.sxy/a.sxx) / a.n })},
	} {
		r.agg(v.name+"(float8, float8) float8", func() Accumulator { return &regression{result: v.f} })
	}
}
