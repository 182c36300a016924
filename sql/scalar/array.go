package scalar

import (
	"strings"

	"github.com/cockroachdb/apd/v3"

	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// seriesMax bounds the rows that one call of a set-returning function may make.
const seriesMax = 10_000_000

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

func addArrays(r *Registry) {
	// Functions over arrays see NULL where PostgreSQL's do.
	elemOfArgs := func(ts []*types.T, arr int, other int) *types.T {
		if e := ElemType(ts[arr]); e != nil {
			return e
		}
		if other >= 0 {
			return ts[other]
		}
		return types.Text
	}
	build := func(elem *types.T, parts ...[]types.Datum) (types.Datum, error) {
		a := &types.Array{Elem: elem}
		for _, p := range parts {
			a.Elems = append(a.Elems, p...)
		}
		return types.NewArray(a), nil
	}
	fallback := func(o *Overload) *Overload {
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
	app := func(ts []*types.T) evalN {
		elem := elemOfArgs(ts, 0, 1)
		return func(_ *Context, a []types.Datum) (types.Datum, error) { return build(elem, elems(a[0]), a[1:2]) }
	}
	pre := func(ts []*types.T) evalN {
		elem := elemOfArgs(ts, 1, 0)
		return func(_ *Context, a []types.Datum) (types.Datum, error) { return build(elem, a[0:1], elems(a[1])) }
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
			return build(elem, elems(a[0]), elems(a[1]))
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
		o := r.add(into, v.sig, Immutable).calledOnNull()
		o.TypedEval = v.f
		fallback(o)
	}
	dim := func(f func(n int64) int64) eval2 {
		return func(_ *Context, a, b types.Datum) (types.Datum, error) {
			n := int64(len(elems(a)))
			if b.Int() != 1 || n == 0 {
				return types.Null, nil
			}
			return num(f(n))
		}
	}
	r.f2("array_length(anyarray, int4) int4", dim(func(n int64) int64 { return n }))
	r.f2("array_upper(anyarray, int4) int4", dim(func(n int64) int64 { return n }))
	r.f2("array_lower(anyarray, int4) int4", dim(func(int64) int64 { return 1 }))
	r.f1("cardinality(anyarray) int4", func(_ *Context, a types.Datum) (types.Datum, error) { return num(int64(len(elems(a)))) })
	r.f1("array_ndims(anyarray) int4", func(_ *Context, a types.Datum) (types.Datum, error) {
		if len(elems(a)) == 0 {
			return types.Null, nil
		}
		return num(1)
	})
	pos := func(_ *Context, a []types.Datum) (types.Datum, error) {
		if a[0].IsNull() {
			return types.Null, nil
		}
		from := int64(1)
		if len(a) > 2 {
			if a[2].IsNull() {
				return types.Null, sqlstate.New(sqlstate.NullNotAllowed, "initial position must not be null")
			}
			from = max(a[2].Int(), 1)
		}
		for i, e := range elems(a[0]) {
			if int64(i+1) >= from && eqOrBothNull(e, a[1]) {
				return num(int64(i + 1))
			}
		}
		return types.Null, nil
	}
	r.fn("array_position(anyarray, anyelement) int4", pos).calledOnNull()
	r.fn("array_position(anyarray, anyelement, int4) int4", pos).calledOnNull()
	r.fn("array_positions(anyarray, anyelement) int4[]", func(_ *Context, a []types.Datum) (types.Datum, error) {
		if a[0].IsNull() {
			return types.Null, nil
		}
		out := &types.Array{Elem: types.Int4}
		for i, e := range elems(a[0]) {
			if eqOrBothNull(e, a[1]) {
				out.Elems = append(out.Elems, types.NewInt(int64(i+1)))
			}
		}
		return types.NewArray(out), nil
	}).calledOnNull()
	r.fn("array_remove(anyarray, anyelement) anyarray", func(_ *Context, a []types.Datum) (types.Datum, error) {
		if a[0].IsNull() {
			return types.Null, nil
		}
		out := &types.Array{Elem: a[0].Array().Elem}
		for _, e := range elems(a[0]) {
			if !eqOrBothNull(e, a[1]) {
				out.Elems = append(out.Elems, e)
			}
		}
		return types.NewArray(out), nil
	}).calledOnNull()
	r.fn("array_replace(anyarray, anyelement, anyelement) anyarray", func(_ *Context, a []types.Datum) (types.Datum, error) {
		if a[0].IsNull() {
			return types.Null, nil
		}
		out := &types.Array{Elem: a[0].Array().Elem}
		for _, e := range elems(a[0]) {
			if eqOrBothNull(e, a[1]) {
				e = a[2]
			}
			out.Elems = append(out.Elems, e)
		}
		return types.NewArray(out), nil
	}).calledOnNull()
	r.f2("trim_array(anyarray, int4) anyarray", func(_ *Context, a, b types.Datum) (types.Datum, error) {
		n := int64(len(elems(a)))
		if b.Int() < 0 || b.Int() > n {
			return types.Null, sqlstate.New("2202E", "number of elements to trim must be between 0 and %d", n)
		}
		return types.NewArray(&types.Array{Elem: a.Array().Elem, Elems: elems(a)[:n-b.Int()]}), nil
	})
	fill := func(ts []*types.T) evalN {
		elem := ts[0]
		return func(_ *Context, a []types.Datum) (types.Datum, error) {
			if a[1].IsNull() {
				return types.Null, sqlstate.New(sqlstate.NullNotAllowed, "dimension array or low bound array cannot be null")
			}
			dims := elems(a[1])
			if len(dims) != 1 {
				return types.Null, sqlstate.New(sqlstate.FeatureNotSupported, "multidimensional arrays are not supported")
			}
			n := dims[0].Int()
			if n < 0 || n > resultMax/64 {
				return types.Null, sqlstate.New(sqlstate.ProgramLimitExceeded, "array size exceeds the maximum allowed (%d)", resultMax/64)
			}
			out := &types.Array{Elem: elem, Elems: make([]types.Datum, n)}
			for i := range out.Elems {
				out.Elems[i] = a[0]
			}
			return types.NewArray(out), nil
		}
	}
	o := r.add(r.funcs, "array_fill(anyelement, int4[]) anyarray", Immutable).calledOnNull()
	o.TypedEval = fill
	fallback(o)
	contains := func(a, b types.Datum) bool {
		for _, x := range elems(b) {
			found := false
			for _, y := range elems(a) {
				if types.Equals(x, y) {
					found = true
					break
				}
			}
			if !found {
				return false
			}
		}
		return true
	}
	r.op2("@>(anyarray, anyarray) bool", func(_ *Context, a, b types.Datum) (types.Datum, error) { return boolean(contains(a, b)) })
	r.op2("<@(anyarray, anyarray) bool", func(_ *Context, a, b types.Datum) (types.Datum, error) { return boolean(contains(b, a)) })
	r.op2("&&(anyarray, anyarray) bool", func(_ *Context, a, b types.Datum) (types.Datum, error) {
		for _, x := range elems(a) {
			for _, y := range elems(b) {
				if types.Equals(x, y) {
					return boolean(true)
				}
			}
		}
		return boolean(false)
	})
	split := func(_ *Context, a []types.Datum) (types.Datum, error) {
		if a[0].IsNull() {
			return types.Null, nil
		}
		out := &types.Array{Elem: types.Text}
		for _, s := range splitString(a[0].Str(), a[1]) {
			d := types.NewString(s)
			if len(a) > 2 && !a[2].IsNull() && a[2].Str() == s {
				d = types.Null
			}
			out.Elems = append(out.Elems, d)
		}
		return types.NewArray(out), nil
	}
	r.fn("string_to_array(text, text) text[]", split).calledOnNull()
	r.fn("string_to_array(text, text, text) text[]", split).calledOnNull()
	toTable := func(ctx *Context, a []types.Datum) ([]types.Row, error) {
		d, err := split(ctx, a)
		if err != nil || d.IsNull() {
			return nil, err
		}
		var rows []types.Row
		for _, e := range elems(d) {
			rows = append(rows, types.Row{e})
		}
		return rows, nil
	}
	r.fset("string_to_table(text, text) text", "string_to_table text", toTable)
	r.fset("string_to_table(text, text, text) text", "string_to_table text", toTable)
	toString := func(ts []*types.T) evalN {
		elem := elemOfArgs(ts, 0, -1)
		return func(ctx *Context, a []types.Datum) (types.Datum, error) {
			if a[0].IsNull() || a[1].IsNull() {
				return types.Null, nil
			}
			var b strings.Builder
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
					b.WriteString(a[1].Str())
				}
				first = false
				b.WriteString(s)
			}
			return str(b.String())
		}
	}
	for _, sig := range []string{"array_to_string(anyarray, text) text", "array_to_string(anyarray, text, text) text"} {
		o := r.add(r.funcs, sig, Stable).calledOnNull()
		o.TypedEval = toString
		fallback(o)
	}

	// Sets.
	o = r.fset("unnest(anyarray) anyelement", "unnest text", func(_ *Context, a []types.Datum) ([]types.Row, error) {
		es := elems(a[0])
		rows := make([]types.Row, len(es))
		for i, e := range es {
			rows[i] = types.Row{e}
		}
		return rows, nil
	})
	o.ReturnTypes = []*types.T{types.AnyElement}
	subscripts := func(_ *Context, a []types.Datum) ([]types.Row, error) {
		n := len(elems(a[0]))
		if a[1].IsNull() || a[1].Int() != 1 {
			return nil, nil
		}
		rows := make([]types.Row, n)
		for i := range rows {
			v := i + 1
			if len(a) > 2 && a[2].Bool() {
				v = n - i
			}
			rows[i] = types.Row{types.NewInt(int64(v))}
		}
		return rows, nil
	}
	r.fset("generate_subscripts(anyarray, int4) int4", "generate_subscripts int4", subscripts)
	r.fset("generate_subscripts(anyarray, int4, bool) int4", "generate_subscripts int4", subscripts)
	r.fset("_pg_expandarray(anyarray) int4", "x text, n int4", func(_ *Context, a []types.Datum) ([]types.Row, error) {
		var rows []types.Row
		for i, e := range elems(a[0]) {
			rows = append(rows, types.Row{e, types.NewInt(int64(i + 1))})
		}
		return rows, nil
	}).ReturnTypes = []*types.T{types.AnyElement, types.Int4}
	addSeries(r)
}

func splitString(s string, sep types.Datum) []string {
	switch {
	case s == "":
		return nil
	case sep.IsNull():
		var out []string
		for _, r := range s {
			out = append(out, string(r))
		}
		return out
	case sep.Str() == "":
		return []string{s}
	}
	return strings.Split(s, sep.Str())
}

func addSeries(r *Registry) {
	zeroStep := func() error {
		return sqlstate.New(sqlstate.InvalidParameterValue, "step size cannot equal zero")
	}
	ints := func(_ *Context, a []types.Datum) ([]types.Row, error) {
		step := int64(1)
		for _, d := range a {
			if d.IsNull() {
				return nil, nil
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
			return nil, nil
		}
		n := uint64(0)
		if step > 0 {
			n = (uint64(to)-uint64(from))/uint64(step) + 1
		} else {
			n = (uint64(from)-uint64(to))/(-uint64(step)) + 1
		}
		if n > seriesMax || n == 0 {
			return nil, setTooLarge()
		}
		rows := make([]types.Row, n)
		cells := make([]types.Datum, n)
		for i := range rows {
			cells[i] = types.NewInt(from)
			rows[i] = cells[i : i+1 : i+1]
			from += step
		}
		return rows, nil
	}
	for _, t := range []string{"int4", "int8"} {
		r.fset("generate_series("+t+", "+t+") "+t, "generate_series "+t, ints)
		r.fset("generate_series("+t+", "+t+", "+t+") "+t, "generate_series "+t, ints)
	}
	decimals := func(ctx *Context, a []types.Datum) ([]types.Row, error) {
		for _, d := range a {
			if d.IsNull() {
				return nil, nil
			}
			if d.Decimal().Form != apd.Finite {
				return nil, sqlstate.New(sqlstate.InvalidParameterValue, "start, stop and step values must be finite")
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
		var rows []types.Row
		for v := a[0]; types.Compare(v, a[1])*sign <= 0; {
			if len(rows) >= seriesMax {
				return nil, setTooLarge()
			}
			rows = append(rows, types.Row{v})
			var err error
			if v, err = addDecimal(ctx, v, step); err != nil {
				return nil, err
			}
		}
		return rows, nil
	}
	r.fset("generate_series(numeric, numeric) numeric", "generate_series numeric", decimals)
	r.fset("generate_series(numeric, numeric, numeric) numeric", "generate_series numeric", decimals)
	stamps := func(zoned bool) func(ctx *Context, a []types.Datum) ([]types.Row, error) {
		return func(ctx *Context, a []types.Datum) ([]types.Row, error) {
			for _, d := range a {
				if d.IsNull() {
					return nil, nil
				}
			}
			m, d, u := a[2].Interval()
			sign := types.Compare(a[2], types.NewInterval(0, 0, 0))
			if sign == 0 {
				return nil, zeroStep()
			}
			var rows []types.Row
			for v := a[0]; types.Compare(v, a[1])*sign <= 0; {
				if len(rows) >= seriesMax || types.IsInfinite(v.Micros()) {
					return nil, setTooLarge()
				}
				rows = append(rows, types.Row{v})
				var err error
				if zoned {
					v, err = addToZoned(ctx, v.Micros(), m, d, u)
				} else {
					v, err = addToStamp(v.Micros(), m, d, u)
				}
				if err != nil {
					return nil, err
				}
			}
			return rows, nil
		}
	}
	r.fset("generate_series(timestamp, timestamp, interval) timestamp", "generate_series timestamp", stamps(false))
	r.fset("generate_series(timestamptz, timestamptz, interval) timestamptz", "generate_series timestamptz", stamps(true)).stable()
}
