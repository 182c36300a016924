package scalar

import (
	"math"
	"math/bits"
	"strings"

	"github.com/cockroachdb/apd/v3"

	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// kept accounts for the value that a state keeps. Small values are part of the memory that every state is charged.
type kept struct{ bytes int64 }

func (k *kept) set(ctx *Context, d *types.Datum) error {
	n := d.Bytes()
	if n-k.bytes < 64 && k.bytes-n < 64 {
		return nil
	}
	more := n - k.bytes
	k.bytes = n
	return ctx.grow(more)
}

// grow takes memory for a state.
func (ctx *Context) grow(n int64) error {
	if ctx == nil {
		return nil
	}
	return ctx.Memory.Grow(n)
}

type countAll struct{ n int64 }

func (a *countAll) Add(*Context, []types.Datum) error    { a.n++; return nil }
func (a *countAll) Result(*Context) (types.Datum, error) { return types.NewInt(a.n), nil }

type count struct{ n int64 }

func (a *count) Add(_ *Context, args []types.Datum) error {
	if !args[0].IsNull() {
		a.n++
	}
	return nil
}
func (a *count) Result(*Context) (types.Datum, error) { return types.NewInt(a.n), nil }

// sum128 is a sum of 64-bit integers that cannot overflow.
type sum128 struct {
	hi int64
	lo uint64
	n  int64
}

func (s *sum128) add(v int64) {
	var carry uint64
	s.lo, carry = bits.Add64(s.lo, uint64(v), 0)
	s.hi += v>>63 + int64(carry)
	s.n++
}

func (s *sum128) decimal() *apd.Decimal {
	var b, lo apd.BigInt
	b.SetInt64(s.hi)
	b.Lsh(&b, 64)
	lo.SetUint64(s.lo)
	b.Add(&b, &lo)
	d := &apd.Decimal{Negative: b.Sign() < 0}
	d.Coeff.Abs(&b)
	return d
}

type sumInt struct {
	sum128
	wide bool // numeric result
}

func (a *sumInt) Add(_ *Context, args []types.Datum) error {
	if !args[0].IsNull() {
		a.add(args[0].Int())
	}
	return nil
}

func (a *sumInt) Result(*Context) (types.Datum, error) {
	if a.n == 0 {
		return types.Null, nil
	}
	if a.wide {
		return types.NewDecimal(a.decimal()), nil
	}
	if a.hi != int64(a.lo)>>63 {
		return types.Null, rangeErr(types.Int8)
	}
	return types.NewInt(int64(a.lo)), nil
}

type avgInt struct{ sum128 }

func (a *avgInt) Add(_ *Context, args []types.Datum) error {
	if !args[0].IsNull() {
		a.add(args[0].Int())
	}
	return nil
}

func (a *avgInt) Result(*Context) (types.Datum, error) {
	if a.n == 0 {
		return types.Null, nil
	}
	return divDecimal(nil, types.NewDecimal(a.decimal()), types.NewDecimal(apd.New(a.n, 0)))
}

// sumOf adds datums by the operator of their type; it also serves avg.
type sumOf struct {
	sum  types.Datum
	kept kept
	n    int64
	add  func(ctx *Context, a, b types.Datum) (types.Datum, error)
	mean func(sum types.Datum, n int64) (types.Datum, error) // nil for sum
}

func (a *sumOf) Add(ctx *Context, args []types.Datum) (err error) {
	if args[0].IsNull() {
		return nil
	}
	a.n++
	if a.sum.IsNull() {
		a.sum = args[0]
	} else if a.sum, err = a.add(ctx, a.sum, args[0]); err != nil {
		return err
	}
	return a.kept.set(ctx, &a.sum)
}

func (a *sumOf) Result(*Context) (types.Datum, error) {
	if a.mean != nil && a.n > 0 {
		return a.mean(a.sum, a.n)
	}
	return a.sum, nil
}

func meanDecimal(sum types.Datum, n int64) (types.Datum, error) {
	return divDecimal(nil, sum, types.NewDecimal(apd.New(n, 0)))
}

func meanInterval(sum types.Datum, n int64) (types.Datum, error) {
	return scaleInterval(sum, 1, float64(n))
}

type sumFloat struct {
	sum    float64
	n      int64
	single bool
	avg    bool
}

func (a *sumFloat) Add(_ *Context, args []types.Datum) error {
	if args[0].IsNull() {
		return nil
	}
	a.n++
	f := args[0].Float()
	s := a.sum + f
	if a.n == 1 && !a.avg {
		s = f // and not 0 + -0
	}
	if math.IsInf(s, 0) && !math.IsInf(a.sum, 0) && !math.IsInf(f, 0) {
		return overflowErr()
	}
	a.sum = s
	return nil
}

func (a *sumFloat) Result(*Context) (types.Datum, error) {
	switch {
	case a.n == 0:
		return types.Null, nil
	case a.avg:
		return types.NewFloat(a.sum / float64(a.n)), nil
	case a.single:
		return floatResult(a.sum, true, math.IsInf(a.sum, 0), true)
	}
	return types.NewFloat(a.sum), nil
}

// extreme is min and max; sign is -1 for min.
type extreme struct {
	best    types.Datum
	kept    kept
	sign    int
	compare func(a, b types.Datum) int
}

func (a *extreme) Add(ctx *Context, args []types.Datum) error {
	if d := args[0]; !d.IsNull() && (a.best.IsNull() || a.compare(d, a.best)*a.sign > 0) {
		a.best = d
		if d.Phys() >= types.PhysDecimal {
			return a.kept.set(ctx, &d)
		}
	}
	return nil
}
func (a *extreme) Result(*Context) (types.Datum, error) { return a.best, nil }

type boolAgg struct {
	value, any bool
	and        bool
}

func (a *boolAgg) Add(_ *Context, args []types.Datum) error {
	if args[0].IsNull() {
		return nil
	}
	b := args[0].Bool()
	switch {
	case !a.any:
		a.value = b
	case a.and:
		a.value = a.value && b
	default:
		a.value = a.value || b
	}
	a.any = true
	return nil
}

func (a *boolAgg) Result(*Context) (types.Datum, error) {
	if !a.any {
		return types.Null, nil
	}
	return types.NewBool(a.value), nil
}

type bitAgg struct {
	v    int64
	any  bool
	kind byte
}

func (a *bitAgg) Add(_ *Context, args []types.Datum) error {
	if args[0].IsNull() {
		return nil
	}
	v := args[0].Int()
	switch {
	case !a.any:
		a.v = v
	case a.kind == '&':
		a.v &= v
	case a.kind == '|':
		a.v |= v
	default:
		a.v ^= v
	}
	a.any = true
	return nil
}

func (a *bitAgg) Result(*Context) (types.Datum, error) {
	if !a.any {
		return types.Null, nil
	}
	return types.NewInt(a.v), nil
}

type stringAgg struct {
	buf   strings.Builder
	taken int
	any   bool
	bytes bool
}

func (a *stringAgg) Add(ctx *Context, args []types.Datum) error {
	if args[0].IsNull() {
		return nil
	}
	glue := ""
	if a.any && !args[1].IsNull() {
		glue = args[1].Str()
	}
	a.any = true
	v := args[0].Str()
	if need := a.buf.Len() + len(glue) + len(v); need > a.taken {
		if need > resultMax {
			return tooLarge()
		}
		more := max(need, min(2*a.taken, resultMax), 64) - a.taken
		if err := ctx.grow(int64(more)); err != nil {
			return err
		}
		a.taken += more
	}
	a.buf.WriteString(glue)
	a.buf.WriteString(v)
	return nil
}

func (a *stringAgg) Result(*Context) (types.Datum, error) {
	switch {
	case !a.any:
		return types.Null, nil
	case a.bytes:
		return types.NewBytes(a.buf.String()), nil
	}
	return types.NewString(a.buf.String()), nil
}

type arrayAgg struct {
	elem  *types.T
	elems []types.Datum
	since int64
	// stack: the values are arrays, and the result is one of one dimension more.
	stack bool
}

// aggPiece bounds the bytes that an aggregate gathers between two charges to its account; its group has charged more
// than that for the state.
const aggPiece = 128

func (a *arrayAgg) Add(ctx *Context, args []types.Datum) error {
	if a.stack {
		if args[0].IsNull() {
			return sqlstate.New(sqlstate.NullNotAllowed, "cannot accumulate null arrays")
		}
		x := args[0].Array()
		if x.Dims() == 0 {
			return subscriptError("cannot accumulate empty arrays")
		}
		if len(a.elems) > 0 {
			first := a.elems[0].Array()
			same := first.Dims() == x.Dims()
			for i := 0; same && i < x.Dims(); i++ {
				same = first.Dim(i) == x.Dim(i)
			}
			if !same {
				return subscriptError("cannot accumulate arrays of different dimensionality")
			}
		}
	}
	a.elems = append(a.elems, args[0])
	// The list doubles while it grows.
	if a.since += args[0].Bytes() + 24; a.since > aggPiece {
		n := a.since
		a.since = 0
		return ctx.grow(n)
	}
	return nil
}

func (a *arrayAgg) Result(*Context) (types.Datum, error) {
	if a.elems == nil {
		return types.Null, nil
	}
	if a.stack {
		return types.StackArrays(a.elem, a.elems)
	}
	return types.NewArray(&types.Array{Elem: a.elem, Elems: a.elems}), nil
}

// varianceDecimal keeps the sums of PostgreSQL's exact algorithm for integers and numerics.
type varianceDecimal struct {
	n         int64
	sum, sum2 types.Datum
	kept      kept
	pop, root bool
}

func (a *varianceDecimal) Add(ctx *Context, args []types.Datum) error {
	d := args[0]
	if d.IsNull() {
		return nil
	}
	if d.Phys() == types.PhysInt {
		d = types.NewDecimal(apd.New(d.Int(), 0))
	}
	sq, err := mulDecimal(ctx, d, d)
	if err != nil {
		return err
	}
	if a.n++; a.n == 1 {
		a.sum, a.sum2 = d, sq
	} else {
		if a.sum, err = addDecimal(ctx, a.sum, d); err != nil {
			return err
		}
		if a.sum2, err = addDecimal(ctx, a.sum2, sq); err != nil {
			return err
		}
	}
	return a.kept.set(ctx, &a.sum2)
}

func (a *varianceDecimal) Result(*Context) (types.Datum, error) {
	if a.n == 0 || a.n == 1 && !a.pop {
		return types.Null, nil
	}
	if a.sum.Decimal().Form != apd.Finite {
		return types.NewDecimal(types.DecimalNaN()), nil
	}
	n := types.NewDecimal(apd.New(a.n, 0))
	left, err := mulDecimal(nil, n, a.sum2)
	if err != nil {
		return types.Null, err
	}
	right, err := mulDecimal(nil, a.sum, a.sum)
	if err != nil {
		return types.Null, err
	}
	num, err := subDecimal(nil, left, right)
	if err != nil {
		return types.Null, err
	}
	if x := num.Decimal(); x.Negative || x.Coeff.Sign() == 0 {
		return types.NewDecimal(&apd.Decimal{}), nil
	}
	den := apd.New(a.n, 0)
	if a.pop {
		den.Coeff.Mul(&den.Coeff, &den.Coeff)
	} else {
		m := apd.New(a.n-1, 0)
		den.Coeff.Mul(&den.Coeff, &m.Coeff)
	}
	v, err := divDecimal(nil, num, types.NewDecimal(den))
	if err != nil || !a.root {
		return v, err
	}
	// The root has as many digits behind the point as the variance.
	return decimalOf(sqrtAt(v.Decimal(), divScale(num.Decimal(), den)))
}

// varianceFloat is the Youngs-Cramer recurrence that PostgreSQL uses for floats.
type varianceFloat struct {
	n, sx, sxx float64
	pop, root  bool
}

func (a *varianceFloat) Add(_ *Context, args []types.Datum) error {
	if args[0].IsNull() {
		return nil
	}
	x := args[0].Float()
	a.n++
	a.sx += x
	if a.n > 1 {
		t := x*a.n - a.sx
		a.sxx += t * t / (a.n * (a.n - 1))
	} else if isInf(x) || math.IsNaN(x) {
		a.sxx = math.NaN()
	}
	return nil
}

func (a *varianceFloat) Result(*Context) (types.Datum, error) {
	if a.n == 0 || a.n == 1 && !a.pop {
		return types.Null, nil
	}
	den := a.n
	if !a.pop {
		den--
	}
	v := a.sxx / den
	if a.root {
		v = math.Sqrt(v)
	}
	return types.NewFloat(v), nil
}

func addAggregates(r *Registry) {
	r.agg("count() int8", func() Accumulator { return &countAll{} })
	r.agg("count(any) int8", func() Accumulator { return &count{} })
	r.agg("sum(int2) int8", func() Accumulator { return &sumInt{} })
	r.agg("sum(int4) int8", func() Accumulator { return &sumInt{} })
	r.agg("sum(int8) numeric", func() Accumulator { return &sumInt{wide: true} })
	r.agg("sum(numeric) numeric", func() Accumulator { return &sumOf{add: addDecimal} })
	r.agg("sum(float4) float4", func() Accumulator { return &sumFloat{single: true} })
	r.agg("sum(float8) float8", func() Accumulator { return &sumFloat{} })
	r.agg("sum(interval) interval", func() Accumulator { return &sumOf{add: addIntervals} })
	for _, t := range []string{"int2", "int4", "int8"} {
		r.agg("avg("+t+") numeric", func() Accumulator { return &avgInt{} })
	}
	r.agg("avg(numeric) numeric", func() Accumulator { return &sumOf{add: addDecimal, mean: meanDecimal} })
	r.agg("avg(float4) float8", func() Accumulator { return &sumFloat{avg: true} })
	r.agg("avg(float8) float8", func() Accumulator { return &sumFloat{avg: true} })
	r.agg("avg(interval) interval", func() Accumulator { return &sumOf{add: addIntervals, mean: meanInterval} })
	for _, t := range []string{"int2", "int4", "int8", "oid", "float4", "float8", "numeric", "text", "bpchar", "date",
		"time", "timetz", "timestamp", "timestamptz", "interval", "xid8"} {
		st := sigType(t)
		r.agg("min("+t+") "+t, func() Accumulator { return &extreme{sign: -1, compare: st.Compare} })
		r.agg("max("+t+") "+t, func() Accumulator { return &extreme{sign: 1, compare: st.Compare} })
	}
	r.agg("min(anyarray) anyarray", func() Accumulator { return &extreme{sign: -1, compare: types.Compare} })
	r.agg("max(anyarray) anyarray", func() Accumulator { return &extreme{sign: 1, compare: types.Compare} })
	// PostgreSQL has no min and max for these types, but they are totally ordered.
	for _, t := range []string{"uuid", "bytea", "bool"} {
		r.agg("min("+t+") "+t, func() Accumulator { return &extreme{sign: -1, compare: types.Compare} })
		r.agg("max("+t+") "+t, func() Accumulator { return &extreme{sign: 1, compare: types.Compare} })
	}
	r.agg("bool_and(bool) bool", func() Accumulator { return &boolAgg{and: true} })
	r.agg("every(bool) bool", func() Accumulator { return &boolAgg{and: true} })
	r.agg("bool_or(bool) bool", func() Accumulator { return &boolAgg{} })
	for _, t := range []string{"int2", "int4", "int8"} {
		r.agg("bit_and("+t+") "+t, func() Accumulator { return &bitAgg{kind: '&'} })
		r.agg("bit_or("+t+") "+t, func() Accumulator { return &bitAgg{kind: '|'} })
		r.agg("bit_xor("+t+") "+t, func() Accumulator { return &bitAgg{kind: '#'} })
	}
	r.agg("string_agg(text, text) text", func() Accumulator { return &stringAgg{} })
	r.agg("string_agg(bytea, bytea) bytea", func() Accumulator { return &stringAgg{bytes: true} })
	a := r.agg("array_agg(anyelement) anyarray", func() Accumulator { return &arrayAgg{elem: types.Text} })
	a.NewTyped = func(ts []*types.T) Accumulator {
		if ts[0].Kind == types.KindArray {
			return &arrayAgg{elem: ts[0].Elem, stack: true}
		}
		return &arrayAgg{elem: ts[0]}
	}
	for _, v := range []struct {
		names     []string
		pop, root bool
	}{
		{[]string{"variance", "var_samp"}, false, false},
		{[]string{"var_pop"}, true, false},
		{[]string{"stddev", "stddev_samp"}, false, true},
		{[]string{"stddev_pop"}, true, true},
	} {
		for _, name := range v.names {
			for _, t := range []string{"int2", "int4", "int8", "numeric"} {
				r.agg(name+"("+t+") numeric", func() Accumulator { return &varianceDecimal{pop: v.pop, root: v.root} })
			}
			for _, t := range []string{"float4", "float8"} {
				r.agg(name+"("+t+") float8", func() Accumulator { return &varianceFloat{pop: v.pop, root: v.root} })
			}
		}
	}
	addRegression(r)
	addJSONAggregates(r)
}
