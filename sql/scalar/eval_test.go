package scalar

import (
	"sync"
	"testing"

	"pgregory.net/rapid"

	"meridian/sql/types"
)

// builtins is the table without the functions of package system.
var builtins = sync.OnceValue(func() *Registry { return NewRegistry() })

func boolConst(t truth) Expr { return &Const{t.datum(), types.Bool} }

func evalBool(t interface{ Fatal(...any) }, e Expr) truth {
	d, err := Value(&Context{}, e)
	if err != nil {
		t.Fatal(err)
	}
	return truthOf(d)
}

// The truth tables, with NULL in the middle of the order false < null < true for AND and OR.
func TestThreeValuedLogic(t *testing.T) {
	rank := map[truth]int{isFalse: 0, isNullTruth: 1, isTrue: 2}
	byRank := []truth{isFalse, isNullTruth, isTrue}
	for _, a := range byRank {
		for _, b := range byRank {
			args := []Expr{boolConst(a), boolConst(b)}
			want := byRank[min(rank[a], rank[b])]
			if got := evalBool(t, &And{args}); got != want {
				t.Errorf("%v AND %v = %v", a, b, got)
			}
			if got := evalBool(t, Fold(&And{args})); got != want {
				t.Errorf("folded %v AND %v = %v", a, b, got)
			}
			want = byRank[max(rank[a], rank[b])]
			if got := evalBool(t, &Or{args}); got != want {
				t.Errorf("%v OR %v = %v", a, b, got)
			}
			if got := evalBool(t, Fold(&Or{args})); got != want {
				t.Errorf("folded %v OR %v = %v", a, b, got)
			}
		}
		if got := evalBool(t, &Not{boolConst(a)}); got != byRank[2-rank[a]] {
			t.Errorf("NOT %v = %v", a, got)
		}
		for _, want := range []bool{true, false} {
			is := a == isTrue && want || a == isFalse && !want
			if got := evalBool(t, &IsBool{boolConst(a), want, false}); (got == isTrue) != is {
				t.Errorf("%v IS %v = %v", a, want, got)
			}
			if got := evalBool(t, &IsBool{boolConst(a), want, true}); (got == isTrue) == is {
				t.Errorf("%v IS NOT %v = %v", a, want, got)
			}
		}
	}
}

// IN and = ANY agree with a chain of comparisons, in each of the ways in which they are evaluated.
func TestInAgainstOr(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		elem := func(name string) types.Datum {
			if rapid.IntRange(0, 5).Draw(t, "null") == 0 {
				return types.Null
			}
			return types.NewInt(int64(rapid.IntRange(0, 20).Draw(t, name)))
		}
		n := rapid.IntRange(1, 2*inSetMin).Draw(t, "n")
		x := elem("x")
		in := &In{Arg: &Const{x, types.Int4}}
		arr := &types.Array{Elem: types.Int4}
		want := isFalse
		for range n {
			e := elem("e")
			in.List = append(in.List, &Const{e, types.Int4})
			arr.Elems = append(arr.Elems, e)
			switch compareDatums(EQ, x, e, types.Compare) {
			case isTrue:
				want = isTrue
			case isNullTruth:
				if want == isFalse {
					want = isNullTruth
				}
			}
		}
		if got := evalBool(t, in); got != want {
			t.Fatalf("%v IN: %v, want %v", x, got, want)
		}
		not := *in
		not.Negate = true
		if got := evalBool(t, &not); got != invert(want) {
			t.Fatalf("%v NOT IN: %v, want %v", x, got, invert(want))
		}
		q := &Quantified{Arg: in.Arg, Array: &Const{types.NewArray(arr), types.Int4Array}, LeftID: 1, ElemID: 2,
			Op: &Compare{EQ, &Column{ID: 1, T: types.Int4}, &Column{ID: 2, T: types.Int4}}}
		if got := evalBool(t, q); got != want {
			t.Fatalf("%v = ANY: %v, want %v", x, got, want)
		}
		q.All = true
		q.Op = &Not{q.Op}
		if got := evalBool(t, q); got != invert(want) {
			t.Fatalf("%v <> ALL: %v, want %v", x, got, invert(want))
		}
	})
}

func call(t *testing.T, name string, args ...Expr) Expr {
	c, err := builtins().NewCall(name, args)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func op(t *testing.T, name string, args ...Expr) Expr {
	c, err := builtins().NewOperator(name, args...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func intConst(n int64) Expr { return &Const{types.NewInt(n), types.Int4} }

// scalar.S2: a guarded error is not raised, neither by folding nor by evaluation; an unguarded one is, but not by folding.
func TestErrorsStayWhereTheyAre(t *testing.T) {
	div := op(t, "/", intConst(1), intConst(0))
	if f := Fold(div); f != div {
		t.Errorf("1/0 folded to %v", Format(f))
	}
	if _, err := Value(&Context{}, div); err == nil {
		t.Error("1/0 is not an error")
	}
	x := &Column{ID: 1, T: types.Int4, Name: "x"}
	guarded := &Case{Whens: []When{{&Compare{NE, x, intConst(0)}, op(t, "/", intConst(1), x)}}, Else: intConst(-1), T: types.Int4}
	ev, err := Compile(Fold(guarded), func(ColumnID) (int, bool) { return 0, true })
	if err != nil {
		t.Fatal(err)
	}
	for in, want := range map[int64]int64{0: -1, 1: 1} {
		d, err := ev.Eval(&Context{}, types.Row{types.NewInt(in)})
		if err != nil || d.Int() != want {
			t.Errorf("x=%d: %v %v", in, d, err)
		}
	}
}

func TestFold(t *testing.T) {
	x := &Column{ID: 1, T: types.Int4, Name: "x"}
	lit := func(s string) Expr { return &Const{types.NewString(s), types.Unknown} }
	cmp := func(l Expr, r Expr) Expr {
		c, err := builtins().NewCompare(EQ, l, r)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	tz, err := Coerce(lit("2024-01-01"), types.TimestampTZ, types.CastExplicit)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []struct {
		e    Expr
		want string
	}{
		{op(t, "+", intConst(1), intConst(2)), "3"},
		{op(t, "+", x, op(t, "*", intConst(2), intConst(3))), "x + 6"},
		{call(t, "lower", lit("ABC")), "'abc'::text"},
		{cmp(x, lit("5")), "x = 5"},
		{&And{[]Expr{boolConst(isTrue), cmp(x, intConst(1)), &And{[]Expr{cmp(x, intConst(2)), boolConst(isTrue)}}}}, "(x = 1) AND (x = 2)"},
		{&And{[]Expr{cmp(x, intConst(1)), boolConst(isFalse)}}, "false"},
		{&Or{[]Expr{cmp(x, intConst(1)), boolConst(isTrue)}}, "true"},
		{&Coalesce{[]Expr{&Const{types.Null, types.Int4}, intConst(4), x}, types.Int4}, "4"},
		{cmp(x, &Const{types.Null, types.Unknown}), "NULL::boolean"},
		{call(t, "now"), "now()"},
		{call(t, "random"), "random()"},
		{tz, "'2024-01-01'::timestamp with time zone"},
		{op(t, "~~", &Cast{Arg: x, To: types.Text}, lit("a%")), "x::text LIKE 'a%'::text"},
	} {
		if got := Format(Fold(v.e)); got != v.want {
			t.Errorf("%s folds to %s, want %s", Format(v.e), got, v.want)
		}
	}
}

func TestOuterAndQuantifiedColumns(t *testing.T) {
	x, y := &Column{ID: 1, T: types.Int4, Name: "x"}, &Column{ID: 2, T: types.Int4, Name: "y"}
	e := op(t, "+", x, y)
	ev, err := Compile(e, func(id ColumnID) (int, bool) { return 0, id == 1 })
	if err != nil {
		t.Fatal(err)
	}
	ctx := &Context{Outer: map[ColumnID]types.Datum{2: types.NewInt(10)}}
	if d, err := ev.Eval(ctx, types.Row{types.NewInt(5)}); err != nil || d.Int() != 15 {
		t.Error(d, err)
	}
	if _, err := ev.Eval(&Context{}, types.Row{types.NewInt(5)}); err == nil {
		t.Error("a missing outer column is no error")
	}
	q := &Quantified{Arg: x, Array: &Const{types.Null, types.Int4Array}, LeftID: 7, ElemID: 8,
		Op: &Compare{LT, &Column{ID: 7, T: types.Int4}, op(t, "+", &Column{ID: 8, T: types.Int4}, y)}}
	k := *q
	k.Arg, k.Array = intConst(1), &Const{types.NewArray(&types.Array{Elem: types.Int4, Elems: []types.Datum{types.NewInt(1)}}), types.Int4Array}
	if Fold(&k) != Expr(&k) {
		t.Error("a quantified operator over an outer column was folded")
	}
	var seen []ColumnID
	Columns(q, func(id ColumnID) { seen = append(seen, id) })
	if len(seen) != 2 || seen[0] != 1 || seen[1] != 2 {
		t.Errorf("columns %v", seen)
	}
	if !Equal(e, op(t, "+", x, y)) || Equal(e, op(t, "+", y, x)) || Equal(call(t, "random"), call(t, "random")) {
		t.Error("Equal")
	}
}

func TestAggregates(t *testing.T) {
	r := builtins()
	for _, v := range []struct {
		name string
		t    *types.T
		in   []string
		ret  string
		want string
	}{
		{"sum", types.Int4, []string{"2147483647", "2147483647", ""}, "bigint", "4294967294"},
		{"sum", types.Int8, []string{"9223372036854775807", "9223372036854775807"}, "numeric", "18446744073709551614"},
		{"sum", types.Int8, []string{"-9223372036854775808", "-1"}, "numeric", "-9223372036854775809"},
		{"sum", types.Int4, nil, "bigint", "NULL"},
		{"avg", types.Int4, []string{"1", "2"}, "numeric", "1.5000000000000000"},
		{"avg", types.Int8, []string{"1", "1", "2"}, "numeric", "1.3333333333333333"},
		{"avg", types.Float8, []string{"1", "2"}, "double precision", "1.5"},
		{"avg", types.Decimal, []string{"1.5", "2.25"}, "numeric", "1.8750000000000000"},
		{"count", types.Int4, []string{"1", "", "2"}, "bigint", "2"},
		{"min", types.Text, []string{"b", "a", ""}, "text", "a"},
		{"max", types.VarChar, []string{"b", "a"}, "text", "b"},
		{"max", types.Int2, []string{"-1", "-2"}, "smallint", "-1"},
		{"bool_and", types.Bool, []string{"t", ""}, "boolean", "t"},
		{"bool_or", types.Bool, []string{"f", "f"}, "boolean", "f"},
		{"every", types.Bool, nil, "boolean", "NULL"},
		{"bit_and", types.Int4, []string{"7", "5"}, "integer", "5"},
		{"array_agg", types.Int4, []string{"1", "", "2"}, "integer[]", "{1,NULL,2}"},
		{"stddev", types.Int4, []string{"1", "2", "3", "4"}, "numeric", "1.2909944487358056"},
		{"var_pop", types.Int4, []string{"1", "2", "3", "4"}, "numeric", "1.2500000000000000"},
		{"variance", types.Float8, []string{"1", "2", "4"}, "double precision", "2.3333333333333335"},
		{"stddev", types.Int4, []string{"1"}, "numeric", "NULL"},
		{"json_agg", types.Int4, []string{"1", ""}, "json", "[1, null]"},
		{"jsonb_agg", types.Text, []string{"a"}, "jsonb", `["a"]`},
		{"sum", types.IntervalType, []string{"1 day", "2 hours"}, "interval", "1 day 02:00:00"},
		{"avg", types.IntervalType, []string{"1 day", "2 days"}, "interval", "1 day 12:00:00"},
	} {
		res, err := r.ResolveAggregate(v.name, []*types.T{v.t})
		if err != nil {
			t.Errorf("%s(%s): %v", v.name, v.t, err)
			continue
		}
		acc := newAccumulator(&AggFunc{Agg: res.Agg, Args: []Expr{&Column{ID: 1, T: v.t}}, T: res.Return})
		for _, s := range v.in {
			d := types.Null
			if s != "" {
				if d, err = types.ParseText(v.t, s, nil); err != nil {
					t.Fatal(err)
				}
			}
			if err := acc.Add(&Context{}, []types.Datum{d}); err != nil {
				t.Fatal(err)
			}
		}
		d, err := acc.Result(&Context{})
		got := "NULL"
		if !d.IsNull() {
			got = types.FormatText(d, res.Return, nil)
		}
		if err != nil || got != v.want || res.Return.Name() != v.ret {
			t.Errorf("%s(%s %v): %s %s %v, want %s %s", v.name, v.t, v.in, res.Return, got, err, v.ret, v.want)
		}
	}
}

func TestSetFunctions(t *testing.T) {
	r := builtins()
	lit := func(s string) Expr { return &Const{types.NewString(s), types.Unknown} }
	for _, v := range []struct {
		name string
		args []Expr
		want string
	}{
		{"generate_series", []Expr{intConst(1), intConst(3)}, "1;2;3"},
		{"generate_series", []Expr{intConst(5), intConst(1), intConst(-2)}, "5;3;1"},
		{"generate_series", []Expr{intConst(3), intConst(1)}, ""},
		{"generate_series", []Expr{&Cast{lit("2024-01-01"), types.Timestamp, true, 0}, &Cast{lit("2024-01-03"), types.Timestamp, true, 0}, lit("1 day")},
			"2024-01-01 00:00:00;2024-01-02 00:00:00;2024-01-03 00:00:00"},
		{"unnest", []Expr{&Const{types.NewArray(&types.Array{Elem: types.Int4, Elems: []types.Datum{types.NewInt(1), types.Null}}), types.Int4Array}}, "1;NULL"},
		{"jsonb_each_text", []Expr{lit(`{"a":1,"b":"x"}`)}, "a,1;b,x"},
		{"jsonb_array_elements", []Expr{lit(`[1,"x",null]`)}, `1;"x";null`},
		{"regexp_matches", []Expr{lit("abcabd"), lit("ab(.)"), lit("g")}, "{c};{d}"},
		{"string_to_table", []Expr{lit("a,b"), lit(",")}, "a;b"},
	} {
		args := v.args
		res, err := r.ResolveFunction(v.name, typesOf(args))
		if err != nil {
			t.Errorf("%s: %v", v.name, err)
			continue
		}
		c, err := newCall(res, args)
		if err != nil {
			t.Fatal(err)
		}
		var in []types.Datum
		for _, a := range c.Args {
			d, err := Value(&Context{}, a)
			if err != nil {
				t.Fatal(err)
			}
			in = append(in, d)
		}
		rows, err := c.Func.Set(&Context{}, in)
		if err != nil {
			t.Errorf("%s: %v", v.name, err)
			continue
		}
		got := ""
		for i, row := range rows {
			if i > 0 {
				got += ";"
			}
			for j, d := range row {
				if j > 0 {
					got += ","
				}
				ct := c.Func.ReturnTypes[j]
				if ct.Kind == types.KindAnyElement {
					ct = c.T
				}
				if d.IsNull() {
					got += "NULL"
				} else {
					got += types.FormatText(d, ct, nil)
				}
			}
		}
		if got != v.want {
			t.Errorf("%s: %s, want %s", v.name, got, v.want)
		}
	}
}

// LIKE against a plain recursive matcher.
func TestLikeModel(t *testing.T) {
	var match func(s, p []rune) bool
	match = func(s, p []rune) bool {
		switch {
		case len(p) == 0:
			return len(s) == 0
		case p[0] == '%':
			return match(s, p[1:]) || len(s) > 0 && match(s[1:], p)
		case len(s) == 0:
			return false
		case p[0] == '_':
			return match(s[1:], p[1:])
		}
		return s[0] == p[0] && match(s[1:], p[1:])
	}
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.StringOfN(rapid.SampledFrom([]rune("abé")), 0, 6, -1).Draw(t, "s")
		p := rapid.StringOfN(rapid.SampledFrom([]rune("abé%_%")), 0, 6, -1).Draw(t, "p")
		c, err := compileLike(p, '\\', false)
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := c.match(nil, s); got != match([]rune(s), []rune(p)) {
			t.Fatalf("%q LIKE %q: %v", s, p, got)
		}
	})
}

func BenchmarkFilter(b *testing.B) {
	x := &Column{ID: 1, T: types.Int4, Name: "x"}
	s := &Column{ID: 2, T: types.Text, Name: "s"}
	e := &And{[]Expr{&Compare{GT, x, intConst(10)}, &Compare{EQ, s, &Const{types.NewString("abc"), types.Text}}}}
	ev, err := Compile(e, func(id ColumnID) (int, bool) { return int(id) - 1, true })
	if err != nil {
		b.Fatal(err)
	}
	row := types.Row{types.NewInt(20), types.NewString("abc")}
	ctx := &Context{}
	b.ReportAllocs()
	for b.Loop() {
		if ok, _ := Test(ev, ctx, row); !ok {
			b.Fatal("false")
		}
	}
}

func BenchmarkAdd(b *testing.B) {
	x := &Column{ID: 1, T: types.Int4, Name: "x"}
	e, _ := builtins().NewOperator("+", x, &Const{types.NewInt(7), types.Int4})
	ev, err := Compile(e, func(id ColumnID) (int, bool) { return int(id) - 1, true })
	if err != nil {
		b.Fatal(err)
	}
	row := types.Row{types.NewInt(20)}
	ctx := &Context{}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ev.Eval(ctx, row); err != nil {
			b.Fatal(err)
		}
	}
}

// newAccumulator is the state of one aggregate over one group. DISTINCT, FILTER and ORDER BY are the caller's.
func newAccumulator(f *AggFunc) Accumulator {
	if f.Agg.NewTyped != nil {
		ts := make([]*types.T, len(f.Args))
		for i, a := range f.Args {
			ts[i] = a.Type()
		}
		return f.Agg.NewTyped(ts)
	}
	return f.Agg.New()
}
