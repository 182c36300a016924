package scalar

import (
	"fmt"
	"iter"
	"strings"
	"unicode/utf8"

	"github.com/cockroachdb/apd/v3"

	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// seriesMax bounds the rows that one call of a set-returning function may make.
const seriesMax = 10_000_000

// arrayMax bounds the elements of an array.
const arrayMax = resultMax / 64

func arrayTooLarge() error {
	return sqlstate.New(sqlstate.ProgramLimitExceeded, "array size exceeds the maximum allowed (%d)", arrayMax)
}

func setTooLarge() error {
	return sqlstate.New(sqlstate.ProgramLimitExceeded, "set-returning function would return more than %d rows", seriesMax)
}

func elems(d types.Datum) []types.Datum {
	if d.IsNull() {
		return nil
	}
	return d.Array().Elems
}

// eq is equality with NULL equal to NULL, as the array functions search.
func eqOrBothNull(a, b types.Datum) bool {
	if a.IsNull() || b.IsNull() {
		return a.IsNull() && b.IsNull()
	}
	return types.Compare(a, b) == 0
}

// addArrays adds the functions and operators of arrays. They accept NULL arguments where PostgreSQL's do.
func addArrays(r *Registry) {
	addArrayConcatenation(r)
	addArrayBounds(r)
	addArrayElements(r)
	addArrayFill(r)
	addArrayContainment(r)
	addArrayText(r)
	addArraySets(r)
	addSeries(r)
}

// addArrayConcatenation adds array_append, array_prepend, array_cat and ||.
func addArrayConcatenation(r *Registry) {
	build := func(elem *types.T, parts ...[]types.Datum) (types.Datum, error) {
		n := 0
		for _, p := range parts {
			n += len(p)
		}
		if n > arrayMax {
			return types.Null, arrayTooLarge()
		}
		a := &types.Array{Elem: elem, Elems: make([]types.Datum, 0, n)}
		for _, p := range parts {
			a.Elems = append(a.Elems, p...)
		}
		return types.NewArray(a), nil
	}
	buildFrom := func(lower int32, elem *types.T, parts ...[]types.Datum) (types.Datum, error) {
		d, err := build(elem, parts...)
		if err != nil || lower == 1 {
			return d, err
		}
		es := d.Array().Elems
		return types.NewShaped(elem, es, []types.Dim{{Lower: lower, Len: int32(len(es))}}), nil
	}
	app := func(ts []*types.T) evalN {
		elem := elemOfArgs(ts, 0, 1)
		return func(_ *Context, a []types.Datum) (types.Datum, error) {
			lower := int32(1)
			if !a[0].IsNull() && a[0].Array().Dims() > 0 {
				if a[0].Array().Dims() > 1 {
					return types.Null, sqlstate.New("22000", "argument must be empty or one-dimensional array")
				}
				lower = a[0].Array().Dim(0).Lower
			}
			return buildFrom(lower, elem, elems(a[0]), a[1:2])
		}
	}
	pre := func(ts []*types.T) evalN {
		elem := elemOfArgs(ts, 1, 0)
		return func(_ *Context, a []types.Datum) (types.Datum, error) {
			lower := int32(1)
			if !a[1].IsNull() && a[1].Array().Dims() > 0 {
				if a[1].Array().Dims() > 1 {
					return types.Null, sqlstate.New("22000", "argument must be empty or one-dimensional array")
				}
				lower = a[1].Array().Dim(0).Lower
			}
			return buildFrom(lower, elem, a[0:1], elems(a[1]))
		}
	}
	cat := func(ts []*types.T) evalN {
		elem := elemOfArgs(ts, 0, -1)
		return func(_ *Context, a []types.Datum) (types.Datum, error) {
			switch {
			case a[0].IsNull():
				return a[1], nil
			case a[1].IsNull():
				return a[0], nil
			}
			x, y := a[0].Array(), a[1].Array()
			switch {
			case len(x.Elems) == 0:
				return a[1], nil
			case len(y.Elems) == 0:
				return a[0], nil
			case x.Shape == nil && y.Shape == nil:
				return build(elem, x.Elems, y.Elems)
			}
			d, err := build(elem, x.Elems, y.Elems)
			if err != nil {
				return types.Null, err
			}
			shape, err := catShape(x, y)
			if err != nil {
				return types.Null, err
			}
			return types.NewShaped(elem, d.Array().Elems, shape), nil
		}
	}
	for _, v := range []struct {
		sig string
		ops bool
		f   func([]*types.T) evalN
	}{
		{"array_append(anyarray, anyelement) anyarray", false, app}, {"||(anyarray, anyelement) anyarray", true, app},
		{"array_prepend(anyelement, anyarray) anyarray", false, pre}, {"||(anyelement, anyarray) anyarray", true, pre},
		{"array_cat(anyarray, anyarray) anyarray", false, cat}, {"||(anyarray, anyarray) anyarray", true, cat},
	} {
		into := r.funcs
		if v.ops {
			into = r.ops
		}
		o := r.add(into, v.sig, Immutable).WithNulls()
		o.TypedEval = v.f
		byTypesOfValues(o)
	}
}

// addArrayBounds adds dimensions, bounds and lengths.
func addArrayBounds(r *Registry) {
	dim := func(f func(d types.Dim) int64) eval2 {
		return func(_ *Context, a, b types.Datum) (types.Datum, error) {
			if b.Int() < 1 || b.Int() > int64(a.Array().Dims()) {
				return types.Null, nil
			}
			return num(f(a.Array().Dim(int(b.Int()) - 1)))
		}
	}
	r.Func2("array_length(anyarray, int4) int4", dim(func(d types.Dim) int64 { return int64(d.Len) }))
	r.Func2("array_upper(anyarray, int4) int4", dim(func(d types.Dim) int64 { return int64(d.Lower) + int64(d.Len) - 1 }))
	r.Func2("array_lower(anyarray, int4) int4", dim(func(d types.Dim) int64 { return int64(d.Lower) }))
	// The vectors of the catalogue start at zero.
	for _, v := range []string{"int2vector", "oidvector"} {
		r.Func2("array_upper("+v+", int4) int4", dim(func(d types.Dim) int64 { return int64(d.Len) - 1 }))
		r.Func2("array_lower("+v+", int4) int4", dim(func(d types.Dim) int64 { return 0 }))
	}
	r.Func1("array_dims(anyarray) text", func(_ *Context, a types.Datum) (types.Datum, error) {
		n := a.Array().Dims()
		if n == 0 {
			return types.Null, nil
		}
		var b strings.Builder
		for i := range n {
			d := a.Array().Dim(i)
			fmt.Fprintf(&b, "[%d:%d]", d.Lower, int64(d.Lower)+int64(d.Len)-1)
		}
		return str(b.String())
	})
	r.Func1("cardinality(anyarray) int4", func(_ *Context, a types.Datum) (types.Datum, error) { return num(int64(len(elems(a)))) })
	r.Func1("array_ndims(anyarray) int4", func(_ *Context, a types.Datum) (types.Datum, error) {
		if n := a.Array().Dims(); n > 0 {
			return num(int64(n))
		}
		return types.Null, nil
	})
}

// addArrayElements adds functions that find, remove or replace elements.
func addArrayElements(r *Registry) {
	flat := func(a types.Datum, what string) error {
		if a.Array().Dims() > 1 {
			return sqlstate.New(sqlstate.FeatureNotSupported, "%s", what)
		}
		return nil
	}
	const noSearch = "searching for elements in multidimensional arrays is not supported"
	pos := func(ctx *Context, a []types.Datum) (types.Datum, error) {
		if a[0].IsNull() {
			return types.Null, nil
		}
		if err := flat(a[0], noSearch); err != nil {
			return types.Null, err
		}
		lower := int64(a[0].Array().Dim(0).Lower)
		from := lower
		if len(a) > 2 {
			if a[2].IsNull() {
				return types.Null, sqlstate.New(sqlstate.NullNotAllowed, "initial position must not be null")
			}
			from = a[2].Int()
		}
		for i, e := range elems(a[0]) {
			if lower+int64(i) >= from && eqOrBothNull(e, a[1]) {
				return num(lower + int64(i))
			}
			if err := ctx.tick(i); err != nil {
				return types.Null, err
			}
		}
		return types.Null, nil
	}
	r.Func("array_position(anyarray, anyelement) int4", pos).WithNulls()
	r.Func("array_position(anyarray, anyelement, int4) int4", pos).WithNulls()
	r.Func("array_positions(anyarray, anyelement) int4[]", func(_ *Context, a []types.Datum) (types.Datum, error) {
		if a[0].IsNull() {
			return types.Null, nil
		}
		if err := flat(a[0], noSearch); err != nil {
			return types.Null, err
		}
		out := &types.Array{Elem: types.Int4}
		for i, e := range elems(a[0]) {
			if eqOrBothNull(e, a[1]) {
				out.Elems = append(out.Elems, types.NewInt(int64(a[0].Array().Dim(0).Lower)+int64(i)))
			}
		}
		return types.NewArray(out), nil
	}).WithNulls()
	r.Func("array_remove(anyarray, anyelement) anyarray", func(_ *Context, a []types.Datum) (types.Datum, error) {
		if a[0].IsNull() {
			return types.Null, nil
		}
		if err := flat(a[0], "removing elements from multidimensional arrays is not supported"); err != nil {
			return types.Null, err
		}
		var out []types.Datum
		for _, e := range elems(a[0]) {
			if !eqOrBothNull(e, a[1]) {
				out = append(out, e)
			}
		}
		return types.NewShaped(a[0].Array().Elem, out, []types.Dim{{Lower: a[0].Array().Dim(0).Lower, Len: int32(len(out))}}), nil
	}).WithNulls()
	r.Func("array_replace(anyarray, anyelement, anyelement) anyarray", func(_ *Context, a []types.Datum) (types.Datum, error) {
		if a[0].IsNull() {
			return types.Null, nil
		}
		out := make([]types.Datum, 0, len(elems(a[0])))
		for _, e := range elems(a[0]) {
			if eqOrBothNull(e, a[1]) {
				e = a[2]
			}
			out = append(out, e)
		}
		return a[0].Array().WithElems(a[0].Array().Elem, out), nil
	}).WithNulls()
	r.Func2("trim_array(anyarray, int4) anyarray", func(_ *Context, a, b types.Datum) (types.Datum, error) {
		x := a.Array()
		n := int64(0)
		if x.Dims() > 0 {
			n = int64(x.Dim(0).Len)
		}
		if b.Int() < 0 || b.Int() > n {
			return types.Null, sqlstate.New("2202E", "number of elements to trim must be between 0 and %d", n)
		}
		if n == 0 {
			return a, nil
		}
		shape := make([]types.Dim, x.Dims())
		for i := range shape {
			shape[i] = types.Dim{Lower: 1, Len: x.Dim(i).Len}
		}
		each := int64(len(x.Elems)) / n
		shape[0].Len -= int32(b.Int())
		return types.NewShaped(x.Elem, x.Elems[:(n-b.Int())*each], shape), nil
	})
}

// addArrayFill adds array_fill.
func addArrayFill(r *Registry) {
	fill := func(ts []*types.T) evalN {
		elem := ts[0]
		return func(ctx *Context, a []types.Datum) (types.Datum, error) {
			nulls := func() (types.Datum, error) {
				return types.Null, sqlstate.New(sqlstate.NullNotAllowed, "dimension array or low bound array cannot be null")
			}
			if a[1].IsNull() || len(a) > 2 && a[2].IsNull() {
				return nulls()
			}
			dims := elems(a[1])
			for _, arg := range a[1:] {
				if arg.Array().Dims() > 1 {
					return types.Null, sqlstate.New("2202E", "wrong number of array subscripts").WithDetail("Dimension array must be one dimensional.")
				}
				for _, d := range elems(arg) {
					if d.IsNull() {
						return types.Null, sqlstate.New(sqlstate.NullNotAllowed, "dimension values cannot be null")
					}
				}
			}
			if len(dims) > 6 {
				return types.Null, sqlstate.New(sqlstate.ProgramLimitExceeded, "number of array dimensions (%d) exceeds the maximum allowed (6)", len(dims))
			}
			if len(a) > 2 && len(elems(a[2])) != len(dims) {
				return types.Null, sqlstate.New("2202E", "wrong number of array subscripts").
					WithDetail("Low bound array has different size than dimensions array.")
			}
			n := int64(1)
			shape := make([]types.Dim, len(dims))
			for i, d := range dims {
				shape[i].Lower = 1
				if len(a) > 2 {
					shape[i].Lower = int32(elems(a[2])[i].Int())
				}
				shape[i].Len = int32(d.Int())
				if n *= d.Int(); d.Int() < 0 || n > arrayMax {
					return types.Null, arrayTooLarge()
				}
			}
			if len(dims) == 0 {
				n = 0
			}
			if err := ctx.scratch(n * a[0].Bytes()); err != nil {
				return types.Null, err
			}
			out := make([]types.Datum, n)
			for i := range out {
				out[i] = a[0]
			}
			return types.NewShaped(elem, out, shape), nil
		}
	}
	for _, sig := range []string{"array_fill(anyelement, int4[]) anyarray", "array_fill(anyelement, int4[], int4[]) anyarray"} {
		o := r.add(r.funcs, sig, Immutable).WithNulls()
		o.TypedEval = fill
		byTypesOfValues(o)
	}
}

// addArrayContainment adds the operators @>, <@ and &&.
func addArrayContainment(r *Registry) {
	// Pairs are tried one by one, which takes long for two long arrays.
	among := func(ctx *Context, x types.Datum, list []types.Datum) (bool, error) {
		for i, y := range list {
			if types.Equals(x, y) {
				return true, nil
			}
			if err := ctx.tick(i); err != nil {
				return false, err
			}
		}
		return false, nil
	}
	contains := func(ctx *Context, a, b types.Datum) (types.Datum, error) {
		for i, x := range elems(b) {
			found, err := among(ctx, x, elems(a))
			if err == nil {
				err = ctx.tick(i)
			}
			if err != nil || !found {
				return types.NewBool(false), err
			}
		}
		return types.NewBool(true), nil
	}
	r.op2("@>(anyarray, anyarray) bool", func(ctx *Context, a, b types.Datum) (types.Datum, error) { return contains(ctx, a, b) })
	r.op2("<@(anyarray, anyarray) bool", func(ctx *Context, a, b types.Datum) (types.Datum, error) { return contains(ctx, b, a) })
	r.op2("&&(anyarray, anyarray) bool", func(ctx *Context, a, b types.Datum) (types.Datum, error) {
		for i, x := range elems(a) {
			found, err := among(ctx, x, elems(b))
			if err == nil {
				err = ctx.tick(i)
			}
			if err != nil || found {
				return types.NewBool(found), err
			}
		}
		return boolean(false)
	})
}

// addArrayText adds the conversions between arrays and text with delimiters.
func addArrayText(r *Registry) {
	pieces := func(ctx *Context, a []types.Datum, f func(types.Datum) error) error {
		for s := range splitString(a[0].Str(), a[1]) {
			d := pieceOf(a[0].Str(), s)
			if len(a) > 2 && !a[2].IsNull() && a[2].Str() == s {
				d = types.Null
			}
			if err := f(d); err != nil {
				return err
			}
		}
		return nil
	}
	split := func(ctx *Context, a []types.Datum) (types.Datum, error) {
		if a[0].IsNull() {
			return types.Null, nil
		}
		out := elemList{ctx: ctx}
		err := pieces(ctx, a, out.add)
		return out.array(types.Text), err
	}
	r.Func("string_to_array(text, text) text[]", split).WithNulls()
	r.Func("string_to_array(text, text, text) text[]", split).WithNulls()
	toTable := func(ctx *Context, a []types.Datum) ([]types.Row, error) {
		if a[0].IsNull() {
			return nil, nil
		}
		out := rows{ctx: ctx}
		err := pieces(ctx, a, func(d types.Datum) error { return out.add(d) })
		return out.rows, err
	}
	r.SetFunc("string_to_table(text, text) text", "string_to_table text", toTable).WithNulls()
	r.SetFunc("string_to_table(text, text, text) text", "string_to_table text", toTable).WithNulls()
	toString := func(ts []*types.T) evalN {
		elem := elemOfArgs(ts, 0, -1)
		return func(ctx *Context, a []types.Datum) (types.Datum, error) {
			if a[0].IsNull() || a[1].IsNull() {
				return types.Null, nil
			}
			b := text{ctx: ctx}
			first := true
			for _, e := range elems(a[0]) {
				s := ""
				switch {
				case !e.IsNull():
					s = textOf(ctx, e, elem)
				case len(a) > 2 && !a[2].IsNull():
					s = a[2].Str()
				default:
					continue
				}
				if !first {
					b.write(a[1].Str())
				}
				first = false
				if b.write(s); b.err != nil {
					break
				}
			}
			return b.datum()
		}
	}
	for _, sig := range []string{"array_to_string(anyarray, text) text", "array_to_string(anyarray, text, text) text"} {
		o := r.add(r.funcs, sig, Stable).WithNulls()
		o.TypedEval = toString
		byTypesOfValues(o)
	}

}

// addArraySets adds set-returning functions over arrays.
func addArraySets(r *Registry) {
	o := r.SetFunc("unnest(anyarray) anyelement", "unnest text", func(ctx *Context, a []types.Datum) ([]types.Row, error) {
		out := rows{ctx: ctx}
		for _, e := range elems(a[0]) {
			if err := out.add(e); err != nil {
				return nil, err
			}
		}
		return out.rows, nil
	})
	o.ReturnTypes = []*types.T{types.AnyElement}
	subscripts := func(base int64) func(ctx *Context, a []types.Datum) ([]types.Row, error) {
		return func(ctx *Context, a []types.Datum) ([]types.Row, error) {
			for _, d := range a {
				if d.IsNull() {
					return nil, nil
				}
			}
			if a[1].Int() < 1 || a[1].Int() > int64(a[0].Array().Dims()) {
				return nil, nil
			}
			dim := a[0].Array().Dim(int(a[1].Int()) - 1)
			out := rows{ctx: ctx}
			for i := range int64(dim.Len) {
				v := int64(dim.Lower) + base + i
				if len(a) > 2 && a[2].Bool() {
					v = int64(dim.Lower) + base + int64(dim.Len) - 1 - i
				}
				if err := out.add(types.NewInt(v)); err != nil {
					return nil, err
				}
			}
			return out.rows, nil
		}
	}
	for _, v := range []string{"int2vector", "oidvector"} { // they start at zero
		r.SetFunc("generate_subscripts("+v+", int4) int4", "generate_subscripts int4", subscripts(-1))
		r.SetFunc("generate_subscripts("+v+", int4, bool) int4", "generate_subscripts int4", subscripts(-1))
	}
	r.SetFunc("generate_subscripts(anyarray, int4) int4", "generate_subscripts int4", subscripts(0))
	r.SetFunc("generate_subscripts(anyarray, int4, bool) int4", "generate_subscripts int4", subscripts(0))
	r.SetFunc("_pg_expandarray(anyarray) int4", "x text, n int4", func(ctx *Context, a []types.Datum) ([]types.Row, error) {
		out := rows{ctx: ctx}
		for i, e := range elems(a[0]) {
			if err := out.add(e, types.NewInt(int64(i+1))); err != nil {
				return nil, err
			}
		}
		return out.rows, nil
	}).ReturnTypes = []*types.T{types.AnyElement, types.Int4}
}

// catShape is the shape of two arrays one after the other: of as many dimensions, or one of which is an element of the other.
func catShape(x, y *types.Array) ([]types.Dim, error) {
	incompatible := func(detail string, args ...any) error {
		return sqlstate.New("2202E", "cannot concatenate incompatible arrays").WithDetail(detail, args...)
	}
	n, m := x.Dims(), y.Dims()
	shape := make([]types.Dim, 0, 6)
	long := x
	if m > n {
		long = y
	}
	for i := range max(n, m) {
		shape = append(shape, long.Dim(i))
	}
	// inner reports whether the dimensions of a from i on are those of b from j on.
	inner := func(a *types.Array, i int, b *types.Array, j int) bool {
		for ; i < a.Dims(); i, j = i+1, j+1 {
			if a.Dim(i) != b.Dim(j) {
				return false
			}
		}
		return true
	}
	switch n - m {
	case 0:
		if !inner(x, 1, y, 1) {
			return nil, incompatible("Arrays with differing element dimensions are not compatible for concatenation.")
		}
		shape[0].Len += y.Dim(0).Len
	case 1:
		if !inner(x, 1, y, 0) {
			return nil, incompatible("Arrays with differing dimensions are not compatible for concatenation.")
		}
		shape[0].Len++
	case -1:
		if !inner(y, 1, x, 0) {
			return nil, incompatible("Arrays with differing dimensions are not compatible for concatenation.")
		}
		shape[0].Len++
	default:
		return nil, incompatible("Arrays of %d and %d dimensions are not compatible for concatenation.", n, m)
	}
	return shape, nil
}

func splitString(s string, sep types.Datum) iter.Seq[string] {
	switch {
	case s == "":
		return func(func(string) bool) {}
	case sep.IsNull():
		return func(yield func(string) bool) {
			for i := 0; i < len(s); {
				_, n := utf8.DecodeRuneInString(s[i:])
				if !yield(s[i : i+n]) {
					return
				}
				i += n
			}
		}
	case sep.Str() == "":
		return func(yield func(string) bool) { yield(s) }
	}
	return strings.SplitSeq(s, sep.Str())
}

func addSeries(r *Registry) {
	zeroStep := func() error {
		return sqlstate.New(sqlstate.InvalidParameterValue, "step size cannot equal zero")
	}
	series := func(_ *Context, a []types.Datum) (func() (types.Row, error), error) {
		none := func() (types.Row, error) { return nil, nil }
		step := int64(1)
		for _, d := range a {
			if d.IsNull() {
				return none, nil
			}
		}
		if len(a) > 2 {
			step = a[2].Int()
		}
		if step == 0 {
			return nil, zeroStep()
		}
		from, to := a[0].Int(), a[1].Int()
		if step > 0 && from > to || step < 0 && from < to {
			return none, nil
		}
		n := uint64(0)
		if step > 0 {
			n = (uint64(to)-uint64(from))/uint64(step) + 1
		} else {
			n = (uint64(from)-uint64(to))/(-uint64(step)) + 1
		}
		if n == 0 { // 2^64 of them
			n--
		}
		row := make(types.Row, 1)
		return func() (types.Row, error) {
			if n == 0 {
				return nil, nil
			}
			row[0] = types.NewInt(from)
			n--
			from += step
			return row, nil
		}, nil
	}
	// stepped makes the values from the first argument to the second, one by one.
	type values = func(ctx *Context, a []types.Datum) (func() (types.Row, error), error)
	stepped := func(a []types.Datum, sign int, next func(v types.Datum) (types.Datum, error)) func() (types.Row, error) {
		v, begun := a[0], false
		row := make(types.Row, 1)
		return func() (types.Row, error) {
			if begun {
				var err error
				if v, err = next(v); err != nil {
					return nil, err
				}
			}
			if begun = true; types.Compare(v, a[1])*sign > 0 {
				return nil, nil
			}
			row[0] = v
			return row, nil
		}
	}
	whole := func(next values) func(ctx *Context, a []types.Datum) ([]types.Row, error) {
		return func(ctx *Context, a []types.Datum) ([]types.Row, error) {
			get, err := next(ctx, a)
			out := rows{ctx: ctx}
			for err == nil {
				var row types.Row
				if row, err = get(); row == nil {
					break
				}
				err = out.add(row[0])
			}
			return out.rows, err
		}
	}
	add := func(sig, column string, next values) *Overload {
		o := r.SetFunc(sig, column, whole(next))
		o.Stream = next
		return o
	}
	for _, t := range []string{"int4", "int8"} {
		add("generate_series("+t+", "+t+") "+t, "generate_series "+t, series)
		add("generate_series("+t+", "+t+", "+t+") "+t, "generate_series "+t, series)
	}
	decimals := func(ctx *Context, a []types.Datum) (func() (types.Row, error), error) {
		for i, d := range a {
			if d.IsNull() {
				return func() (types.Row, error) { return nil, nil }, nil
			}
			if x := d.Decimal(); x.Form != apd.Finite {
				return nil, sqlstate.New(sqlstate.InvalidParameterValue, "%s cannot be %s", [...]string{"start value", "stop value", "step size"}[i],
					choose(isNaN(x), "NaN", "infinity"))
			}
		}
		step := types.NewDecimal(apd.New(1, 0))
		if len(a) > 2 {
			step = a[2]
		}
		sign := step.Decimal().Sign()
		if sign == 0 {
			return nil, zeroStep()
		}
		return stepped(a, sign, func(v types.Datum) (types.Datum, error) {
			if v.Weight() > types.LargeBytes/16 {
				if err := ctx.Check(); err != nil { // one sum takes a while
					return types.Null, err
				}
			}
			return addDecimal(ctx, v, step)
		}), nil
	}
	add("generate_series(numeric, numeric) numeric", "generate_series numeric", decimals)
	add("generate_series(numeric, numeric, numeric) numeric", "generate_series numeric", decimals)
	stamps := func(zoned bool) values {
		return func(ctx *Context, a []types.Datum) (func() (types.Row, error), error) {
			for _, d := range a {
				if d.IsNull() {
					return func() (types.Row, error) { return nil, nil }, nil
				}
			}
			m, d, u := a[2].Interval()
			sign := types.Compare(a[2], types.NewInterval(0, 0, 0))
			if sign == 0 {
				return nil, zeroStep()
			}
			return stepped(a, sign, func(v types.Datum) (types.Datum, error) {
				if zoned {
					return addToZoned(ctx, v.Micros(), m, d, u)
				}
				return addToStamp(v.Micros(), m, d, u)
			}), nil
		}
	}
	add("generate_series(timestamp, timestamp, interval) timestamp", "generate_series timestamp", stamps(false))
	add("generate_series(timestamptz, timestamptz, interval) timestamptz", "generate_series timestamptz", stamps(true)).Stable()
}

// elemOfArgs is the type of the elements of the argument that is an array, or else the type of the other argument.
func elemOfArgs(ts []*types.T, arr int, other int) *types.T {
	if e := ElemType(ts[arr]); e != nil {
		return e
	}
	if other >= 0 {
		return ts[other]
	}
	return types.Text
}

// byTypesOfValues gives a function whose evaluation depends on the types of its arguments an Eval for callers that do not know the
// types.
func byTypesOfValues(o *Overload) *Overload {
	o.setN(func(ctx *Context, args []types.Datum) (types.Datum, error) {
		ts := make([]*types.T, len(args))
		for i, d := range args {
			ts[i] = types.Text
			if d.Phys() == types.PhysArray {
				ts[i] = types.ArrayOf(d.Array().Elem)
			}
		}
		return o.TypedEval(ts)(ctx, args)
	})
	return o
}
