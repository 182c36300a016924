package exec

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"slices"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/apd/v3"

	"meridian/sql/opt"
	"meridian/sql/scalar"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// naiveJoin joins by trying every pair; key 0 = key 0 and, if residual, l[1] < r[1].
func naiveJoin(kind opt.JoinKind, l, r []types.Row, wl, wr int, residual bool) []types.Row {
	match := func(a, b types.Row) bool {
		if a[0].IsNull() || b[0].IsNull() || a[0].Int() != b[0].Int() {
			return false
		}
		return !residual || !a[1].IsNull() && !b[1].IsNull() && a[1].Int() < b[1].Int()
	}
	var out []types.Row
	seen := make([]bool, len(r))
	for _, a := range l {
		hit := false
		for j, b := range r {
			if match(a, b) {
				hit, seen[j] = true, true
				if kind != opt.SemiJoin && kind != opt.AntiJoin {
					out = append(out, append(slices.Clone(a), b...))
				}
			}
		}
		switch {
		case kind == opt.SemiJoin && hit, kind == opt.AntiJoin && !hit:
			out = append(out, a)
		case !hit && (kind == opt.LeftJoin || kind == opt.FullJoin):
			out = append(out, append(slices.Clone(a), make(types.Row, wr)...))
		}
	}
	if kind == opt.RightJoin || kind == opt.FullJoin {
		for j, b := range r {
			if !seen[j] {
				out = append(out, append(make(types.Row, wl), b...))
			}
		}
	}
	return out
}

func joinCols(kind opt.JoinKind, l, r opt.Node) []opt.ColumnID {
	out := slices.Clone(l.Columns())
	if kind != opt.SemiJoin && kind != opt.AntiJoin {
		out = append(out, r.Columns()...)
	}
	return out
}

var allKinds = []opt.JoinKind{opt.InnerJoin, opt.LeftJoin, opt.RightJoin, opt.FullJoin, opt.SemiJoin, opt.AntiJoin}

// Every join operator gives the same rows as trying all pairs, for every kind, with and without a residual condition.
func TestJoins(t *testing.T) {
	rng := rand.New(rand.NewSource(1))
	for round := range 60 {
		nl, nr, domain := rng.Intn(12), rng.Intn(12), 1+rng.Intn(5)
		lrows, rrows := randomRows(rng, nl, 2, domain), randomRows(rng, nr, 3, domain)
		for _, kind := range allKinds {
			for _, residual := range []bool{false, true} {
				want := showSorted(naiveJoin(kind, lrows, rrows, 2, 3, residual))
				for _, how := range []string{"hash", "hash-text", "merge", "merge-desc", "loop", "apply"} {
					f := newFixture(t)
					l, r := opt.Node(f.values(2, lrows)), opt.Node(f.values(3, rrows))
					lk, rk := l.Columns()[0], r.Columns()[0]
					var on []scalar.Expr
					if residual {
						on = []scalar.Expr{cmp(scalar.LT, f.ref(l.Columns()[1]), f.ref(r.Columns()[1]))}
					}
					eq := cmp(scalar.EQ, f.ref(lk), f.ref(rk))
					base := opt.Base{Cols: joinCols(kind, l, r)}
					var n opt.Node
					switch how {
					case "hash", "hash-text":
						lkeys, rkeys := []opt.ColumnID{lk}, []opt.ColumnID{rk}
						if how == "hash-text" { // two keys: the general hash key
							lkeys, rkeys = append(lkeys, lk), append(rkeys, rk)
						}
						n = &opt.HashJoin{Base: base, Kind: kind, Left: l, Right: r, LeftKeys: lkeys, RightKeys: rkeys, On: on}
					case "merge", "merge-desc":
						desc := how == "merge-desc"
						by := func(in opt.Node, c opt.ColumnID) opt.Node {
							return &opt.SortNode{Base: opt.Base{Cols: in.Columns()}, Input: in, By: []opt.OrderColumn{{Col: c, Desc: desc, NullsFirst: desc}}}
						}
						n = &opt.MergeJoin{Base: base, Kind: kind, Left: by(l, lk), Right: by(r, rk), LeftKeys: []opt.ColumnID{lk},
							RightKeys: []opt.ColumnID{rk}, Desc: []bool{desc}, On: on}
					case "loop":
						n = &opt.NestedLoop{Base: base, Kind: kind, Left: l, Right: r, On: append(on, eq)}
					case "apply":
						if kind == opt.RightJoin || kind == opt.FullJoin {
							continue
						}
						inner := &opt.FilterNode{Base: opt.Base{Cols: r.Columns()}, Input: r, Filter: []scalar.Expr{eq}}
						n = &opt.NestedLoop{Base: base, Kind: kind, Left: l, Right: inner, On: on, Apply: true, Outer: []opt.ColumnID{lk}}
					}
					if got := showSorted(f.run(n)); got != want {
						t.Fatalf("round %d: %s %s join, residual %v:\nleft\n%sright\n%sgot\n%s\nwant\n%s", round, kind, how, residual,
							show(lrows), show(rrows), got, want)
					}
				}
			}
		}
	}
}

// Lookup joins, into a primary key and into a secondary index, agree with trying all pairs.
func TestLookupJoin(t *testing.T) {
	rng := rand.New(rand.NewSource(2))
	for range 40 {
		f := newFixture(t)
		tab := f.table(100, "t", "kab", 1)
		ix := index(tab, "t_a", false, 2)
		var stored []types.Row
		for k := range 10 {
			r := randomRows(rng, 1, 3, 4)[0]
			r[0] = types.NewInt(int64(k))
			stored = append(stored, r)
		}
		f.insert(tab, stored...)
		f.kv.page = int64(rng.Intn(3))
		lrows := randomRows(rng, rng.Intn(200), 2, 14)
		for _, kind := range []opt.JoinKind{opt.InnerJoin, opt.LeftJoin, opt.SemiJoin, opt.AntiJoin} {
			for _, residual := range []bool{false, true} {
				for _, secondary := range []bool{false, true} {
					l := f.values(2, lrows)
					cols := f.cols(tab)
					n := &opt.LookupJoin{Kind: kind, Input: l, Table: tab, Index: tab.Primary(), Spans: []opt.IndexSpan{{Equal: []scalar.Expr{f.ref(l.Cols[0])}}}, Single: true}
					// The right side as the naive join sees it: the looked-up column first.
					right := make([]types.Row, len(stored))
					if secondary {
						n.Index, n.Single = tab.Index(ix.ID), false
						n.Right, n.Ordinals = []opt.ColumnID{cols[1], cols[0]}, []int{1, 0}
						for i, r := range stored {
							right[i] = types.Row{r[1], r[0]}
						}
					} else {
						n.Right, n.Ordinals = []opt.ColumnID{cols[0], cols[2]}, []int{0, 2}
						for i, r := range stored {
							right[i] = types.Row{r[0], r[2]}
						}
					}
					n.Cols = slices.Clone(l.Cols)
					if kind == opt.InnerJoin || kind == opt.LeftJoin {
						n.Cols = append(n.Cols, n.Right...)
					}
					if residual {
						n.On = []scalar.Expr{cmp(scalar.LT, f.ref(l.Cols[1]), f.ref(n.Right[1]))}
					}
					want := showSorted(naiveJoin(kind, lrows, right, 2, 2, residual))
					if got := showSorted(f.run(n)); got != want {
						t.Fatalf("%s lookup join, secondary %v, residual %v:\n%s\nwant\n%s", kind, secondary, residual, got, want)
					}
				}
			}
		}
	}
}

// Index scans read exactly the rows within their spans, in order, forwards and backwards, for any size of pages.
func TestIndexScanSpans(t *testing.T) {
	rng := rand.New(rand.NewSource(3))
	for range 150 {
		f := newFixture(t)
		tab := f.table(100, "t", "kab", 1)
		ix := index(tab, "t_ab", false, 2, 3)
		desc := rng.Intn(2) == 0
		ix.Columns[1].Desc = desc
		var rows []types.Row
		for k := range rng.Intn(30) {
			r := randomRows(rng, 1, 3, 5)[0]
			r[0] = types.NewInt(int64(k))
			rows = append(rows, r)
		}
		f.insert(tab, rows...)
		f.kv.page = int64(rng.Intn(4))
		n := &opt.IndexScan{Table: tab, Index: ix, Ordinals: []int{1, 2, 0}, Reverse: rng.Intn(2) == 0}
		c := f.cols(tab)
		n.Cols = []opt.ColumnID{c[1], c[2], c[0]}
		var conds []func(types.Row) bool
		for range 1 + rng.Intn(3) {
			a, lo, hi := int64(rng.Intn(5)), int64(rng.Intn(5)), int64(rng.Intn(5))
			s := opt.IndexSpan{Equal: []scalar.Expr{num(a)}}
			null := rng.Intn(4) == 0
			if null {
				s.Equal, s.Modes = []scalar.Expr{nil}, []opt.SpanMode{opt.SpanNull}
			}
			hasLo, hasHi, loIncl, hiIncl := rng.Intn(2) == 0, rng.Intn(2) == 0, rng.Intn(2) == 0, rng.Intn(2) == 0
			if hasLo {
				s.Low = opt.Bound{Expr: num(lo), Inclusive: loIncl}
			}
			if hasHi {
				s.High = opt.Bound{Expr: num(hi), Inclusive: hiIncl}
			}
			n.Spans = append(n.Spans, s)
			conds = append(conds, func(r types.Row) bool {
				if null != r[1].IsNull() || !null && r[1].Int() != a {
					return false
				}
				b := r[2]
				if b.IsNull() {
					return !hasLo && !hasHi
				}
				return !(hasLo && (b.Int() < lo || b.Int() == lo && !loIncl)) && !(hasHi && (b.Int() > hi || b.Int() == hi && !hiIncl))
			})
		}
		if rng.Intn(2) == 0 {
			n.Limit = int64(1 + rng.Intn(4))
		}
		n.Est.Rows = float64(rng.Intn(2)) * 1e9 // eager or not
		var want []types.Row
		for _, r := range rows {
			if slices.ContainsFunc(conds, func(c func(types.Row) bool) bool { return c(r) }) {
				want = append(want, types.Row{r[1], r[2], r[0]})
			}
		}
		order := []sortKey{{slot: 0, t: types.Int8}, {slot: 1, t: types.Int8, desc: desc, nullsFirst: desc}, {slot: 2, t: types.Int8}}
		slices.SortFunc(want, func(a, b types.Row) int { return compareRows(order, a, b) })
		if n.Reverse {
			slices.Reverse(want)
		}
		if n.Limit > 0 && int64(len(want)) > n.Limit {
			want = want[:n.Limit]
		}
		if got := show(f.run(n)); got != show(want) {
			t.Fatalf("scan of %d spans (reverse %v, limit %d, page %d):\n%swant\n%s", len(n.Spans), n.Reverse, n.Limit, f.kv.page, got, show(want))
		}
	}
}

// Point lookups read each key once, skip those that are NULL or absent, and come in key order.
func TestPointLookups(t *testing.T) {
	f := newFixture(t)
	tab := f.table(100, "t", "kV", 1)
	for k := range 10 {
		f.insert(tab, row(k, fmt.Sprint("v", k)))
	}
	n := f.scan(tab)
	n.Single = true
	for i := range 5 {
		n.Spans = append(n.Spans, opt.IndexSpan{Equal: []scalar.Expr{param(i)}})
	}
	f.params = row(7, 3, nil, 7, 99)
	if got, want := show(f.run(n)), "3 v3\n7 v7\n"; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	n.Spans = n.Spans[:1]
	before := f.kv.gets
	if got, want := show(f.run(n)), "7 v7\n"; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if f.kv.gets != before+2 || f.kv.scans != 0 {
		t.Errorf("a point lookup took %d gets in two runs", f.kv.gets-before)
	}
}

// An index join keeps the order of its input and fetches in batches.
func TestIndexJoin(t *testing.T) {
	f := newFixture(t)
	tab := f.table(100, "t", "kaV", 1)
	ix := index(tab, "t_a", false, 2)
	for k := range 300 {
		f.insert(tab, row(k, 299-k, fmt.Sprint("v", k)))
	}
	c := f.cols(tab)
	scan := &opt.IndexScan{Table: tab, Index: ix, Ordinals: []int{0}}
	scan.Cols = c[:1]
	n := &opt.IndexJoin{Input: scan, Table: tab, Ordinals: []int{2, 1}, KeyCols: c[:1], KeepOrder: true,
		Filter: []scalar.Expr{cmp(scalar.LT, f.ref(c[1]), num(3))}}
	n.Cols = []opt.ColumnID{c[2], c[1]}
	f.kv.gets = 0
	if got, want := show(f.run(n)), "v299 0\nv298 1\nv297 2\n"; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if f.kv.gets > 4 {
		t.Errorf("300 rows took %d batches in two runs", f.kv.gets)
	}
}

// countAcc and sumAcc are aggregates as package scalar has them, on integers.
type countAcc struct{ n int64 }

func (a *countAcc) Add(_ *scalar.Context, args []types.Datum) error {
	if !args[0].IsNull() {
		a.n++
	}
	return nil
}

func (a *countAcc) Result(*scalar.Context) (types.Datum, error) { return types.NewInt(a.n), nil }

type sumAcc struct {
	n   int64
	any bool
}

func (a *sumAcc) Add(_ *scalar.Context, args []types.Datum) error {
	if !args[0].IsNull() {
		a.n, a.any = a.n+args[0].Int(), true
	}
	return nil
}

func (a *sumAcc) Result(*scalar.Context) (types.Datum, error) {
	if !a.any {
		return types.Null, nil
	}
	return types.NewInt(a.n), nil
}

// listAcc is array_agg, which shows the order of its input.
type listAcc struct{ elems []types.Datum }

func (a *listAcc) Add(_ *scalar.Context, args []types.Datum) error {
	a.elems = append(a.elems, args[0])
	return nil
}

func (a *listAcc) Result(*scalar.Context) (types.Datum, error) {
	return types.NewArray(&types.Array{Elem: types.Int8, Elems: a.elems}), nil
}

func aggregates() (count, sum, list *scalar.Aggregate) {
	return &scalar.Aggregate{Name: "count", New: func() scalar.Accumulator { return &countAcc{} }},
		&scalar.Aggregate{Name: "sum", New: func() scalar.Accumulator { return &sumAcc{} }},
		&scalar.Aggregate{Name: "array_agg", New: func() scalar.Accumulator { return &listAcc{} }}
}

// Grouping by hashing, and of ordered input, gives sums and counts as computed by hand.
func TestGroup(t *testing.T) {
	rng := rand.New(rand.NewSource(4))
	count, sum, _ := aggregates()
	for range 60 {
		rows := randomRows(rng, rng.Intn(40), 3, 4)
		for _, streaming := range []bool{false, true} {
			for _, keys := range []int{0, 1, 2} {
				for _, distinct := range []bool{false, true} {
					f := newFixture(t)
					var in opt.Node = f.values(3, rows)
					c := in.Columns()
					if streaming {
						s := &opt.SortNode{Base: opt.Base{Cols: c}, Input: in}
						for _, k := range c[:keys] {
							s.By = append(s.By, opt.OrderColumn{Col: k})
						}
						in = s
					}
					n := &opt.GroupNode{Input: in, Group: c[:keys], Scalar: keys == 0, Streaming: streaming}
					n.Aggs = []opt.AggItem{
						{Col: f.col(types.Int8), Agg: &scalar.AggFunc{Agg: count, Args: []scalar.Expr{f.ref(c[2])}, Distinct: distinct, T: types.Int8}},
						{Col: f.col(types.Decimal), Agg: &scalar.AggFunc{Agg: sum, Args: []scalar.Expr{f.ref(c[2])}, Distinct: distinct, T: types.Decimal,
							Filter: cmp(scalar.GT, f.ref(c[2]), num(1))}},
					}
					n.Cols = append(slices.Clone(c[:keys]), n.Aggs[0].Col, n.Aggs[1].Col)
					type acc struct {
						seen       map[int64]bool
						count, sum int64
						any        bool
					}
					groups := map[string]*acc{}
					if keys == 0 {
						groups[""] = &acc{seen: map[int64]bool{}}
					}
					for _, r := range rows {
						k := showRow(r[:keys])
						g := groups[k]
						if g == nil {
							g = &acc{seen: map[int64]bool{}}
							groups[k] = g
						}
						if v := r[2]; !v.IsNull() && !(distinct && g.seen[v.Int()]) {
							g.seen[v.Int()] = true
							g.count++
							if v.Int() > 1 {
								g.any = true
								g.sum += v.Int()
							}
						}
					}
					var want []string
					for k, g := range groups {
						s := "-"
						if g.any {
							s = fmt.Sprint(g.sum)
						}
						want = append(want, strings.TrimSpace(k+" "+fmt.Sprint(g.count)+" "+s))
					}
					sort.Strings(want)
					if got := showSorted(f.run(n)); got != strings.Join(want, "\n") {
						t.Fatalf("keys %d streaming %v distinct %v: got\n%s\nwant\n%s", keys, streaming, distinct, got, strings.Join(want, "\n"))
					}
				}
			}
		}
	}
}

// An ordered aggregate sees its input in that order; groups and distinct values are kept apart.
func TestOrderedAggregate(t *testing.T) {
	f := newFixture(t)
	_, _, list := aggregates()
	in := f.values(3, []types.Row{row(1, 3, 9), row(2, 1, 8), row(1, 1, 7), row(1, nil, 6), row(1, 2, 7)})
	c := in.Cols
	n := &opt.GroupNode{Input: in, Group: c[:1]}
	for _, distinct := range []bool{false, true} {
		n.Aggs = append(n.Aggs, opt.AggItem{Col: f.col(types.Int8Array), Agg: &scalar.AggFunc{Agg: list, Args: []scalar.Expr{f.ref(c[2])},
			Distinct: distinct, OrderBy: []scalar.AggOrder{{Expr: f.ref(c[1]), Desc: true}}}})
	}
	n.Cols = []opt.ColumnID{c[0], n.Aggs[0].Col, n.Aggs[1].Col}
	if got, want := show(f.run(n)), "1 {9 7 7 6} {9 7 6}\n2 {8} {8}\n"; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// One program is run by many goroutines at once.
func TestConcurrentRuns(t *testing.T) {
	f := newFixture(t)
	count, _, _ := aggregates()
	l := f.values(1, []types.Row{{types.Null}})
	l.Rows = [][]scalar.Expr{{param(0)}, {param(0)}, {param(1)}}
	r := f.values(1, []types.Row{row(1), row(2), row(3), row(4)})
	j := &opt.HashJoin{Left: l, Right: r, LeftKeys: l.Cols, RightKeys: r.Cols}
	j.Cols = []opt.ColumnID{l.Cols[0]}
	n := &opt.GroupNode{Input: j, Group: l.Cols}
	n.Aggs = []opt.AggItem{{Col: f.col(types.Int8), Agg: &scalar.AggFunc{Agg: count, Args: []scalar.Expr{f.ref(l.Cols[0])}}}}
	n.Cols = []opt.ColumnID{l.Cols[0], n.Aggs[0].Col}
	p := f.program(n)
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 200 {
				a, b := int64(1+(g+i)%4), int64(1+(g+i+1)%4)
				env := Env{Txn: f.kv, Scalar: &scalar.Context{Params: types.Row{types.NewInt(a), types.NewInt(b)}}}
				c, err := p.Start(t.Context(), &env)
				if err != nil {
					t.Error(err)
					return
				}
				got := ""
				for {
					row, err := c.Next(t.Context())
					if err != nil {
						t.Error(err)
					}
					if row == nil {
						break
					}
					got += showRow(row) + ";"
				}
				c.Close()
				if want := fmt.Sprintf("%d 2;%d 1;", a, b); got != want {
					t.Errorf("got %s, want %s", got, want)
					return
				}
			}
		})
	}
	wg.Wait()
}

// A cancelled statement stops in the middle of a computation that reads nothing.
func TestCancel(t *testing.T) {
	f := newFixture(t)
	rng := rand.New(rand.NewSource(9))
	l, r := f.values(1, randomRows(rng, 1000, 1, 1000)), f.values(1, randomRows(rng, 1000, 1, 1000))
	n := &opt.NestedLoop{Left: l, Right: r, On: []scalar.Expr{&scalar.Const{T: types.Bool}}}
	n.Cols = append(slices.Clone(l.Cols), r.Cols...)
	ctx, cancel := context.WithCancel(t.Context())
	c, err := f.program(n).Start(ctx, &Env{Txn: f.kv, Scalar: &scalar.Context{}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	cancel()
	if _, err := c.Next(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// Set-returning functions run side by side for each input row; the shorter one is padded with NULL.
func TestProjectSet(t *testing.T) {
	f := newFixture(t)
	series := &scalar.Overload{Name: "series", Set: func(_ *scalar.Context, args []types.Datum) ([]types.Row, error) {
		var out []types.Row
		for i := int64(1); i <= args[0].Int(); i++ {
			out = append(out, types.Row{types.NewInt(i)})
		}
		return out, nil
	}}
	in := f.values(2, []types.Row{row(1, 3), row(0, 0), row(nil, 1), row(2, 0)})
	n := &opt.ProjectSetNode{Input: in, Funcs: []opt.SetFunc{
		{Func: series, Args: []scalar.Expr{f.ref(in.Cols[0])}, Cols: []opt.ColumnID{f.col(types.Int8)}},
		{Func: series, Args: []scalar.Expr{f.ref(in.Cols[1])}, Cols: []opt.ColumnID{f.col(types.Int8)}, Ordinality: f.col(types.Int8)}}}
	n.Cols = append(slices.Clone(in.Cols), n.Funcs[0].Cols[0], n.Funcs[1].Cols[0], n.Funcs[1].Ordinality)
	want := "1 3 1 1 1\n1 3 - 2 2\n1 3 - 3 3\n- 1 - 1 1\n2 0 1 - 1\n2 0 2 - 2\n"
	if got := show(f.run(n)); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

type listing struct{ rows []types.Row }

func (l listing) Rows(_ context.Context, read VirtualRead) ([]types.Row, error) {
	var out []types.Row
	for _, row := range l.rows {
		picked := make(types.Row, len(read.Ordinals))
		for i, ord := range read.Ordinals {
			picked[i] = row[ord]
		}
		out = append(out, picked)
	}
	return out, nil
}

// A computed relation is filtered again, whether or not its source applied the filter.
func TestVirtual(t *testing.T) {
	f := newFixture(t)
	tab := f.table(100, "t", "kab", 1)
	c := f.cols(tab)
	f.env.Virtual = listing{[]types.Row{row(1, 2, 3), row(4, 5, 6)}}
	n := &opt.VirtualNode{Table: tab, Ordinals: []int{2, 0}, Filter: []scalar.Expr{cmp(scalar.EQ, f.ref(c[0]), num(4))}}
	n.Cols = []opt.ColumnID{c[2], c[0]}
	if got := show(f.run(n)); got != "6 4\n" {
		t.Errorf("got %q", got)
	}
}

// Set operations count as multisets do.
func TestSetOps(t *testing.T) {
	rng := rand.New(rand.NewSource(5))
	for range 60 {
		l, r := randomRows(rng, rng.Intn(15), 2, 2), randomRows(rng, rng.Intn(15), 2, 2)
		counts := func(rows []types.Row) map[string]int {
			m := map[string]int{}
			for _, x := range rows {
				m[showRow(x)]++
			}
			return m
		}
		cl, cr := counts(l), counts(r)
		for _, kind := range []opt.SetOpKind{opt.Union, opt.Intersect, opt.Except} {
			for _, all := range []bool{true, false} {
				want := []string{}
				keys := map[string]bool{}
				for k := range cl {
					keys[k] = true
				}
				for k := range cr {
					keys[k] = true
				}
				for k := range keys {
					a, b := cl[k], cr[k]
					n := 0
					switch kind {
					case opt.Union:
						n = a + b
					case opt.Intersect:
						n = min(a, b)
					case opt.Except:
						n = max(a-b, 0)
						if !all && b > 0 {
							n = 0
						}
					}
					if !all {
						n = min(n, 1)
					}
					for range n {
						want = append(want, k)
					}
				}
				sort.Strings(want)
				f := newFixture(t)
				ln, rn := f.values(2, l), f.values(2, r)
				n := &opt.SetOpNode{Kind: kind, All: all, Left: ln, Right: rn, LeftCols: ln.Cols, RightCols: rn.Cols}
				n.Cols = []opt.ColumnID{f.col(types.Int8), f.col(types.Int8)}
				if got := showSorted(f.run(n)); got != strings.Join(want, "\n") {
					t.Fatalf("kind %d all %v: got\n%s\nwant\n%s", kind, all, got, strings.Join(want, "\n"))
				}
			}
		}
	}
}

// Sort, sort with a sorted prefix, top-k and limit agree with sorting a slice.
func TestSortAndLimit(t *testing.T) {
	rng := rand.New(rand.NewSource(6))
	for range 150 {
		rows := randomRows(rng, rng.Intn(30), 3, 4)
		f := newFixture(t)
		var in opt.Node = f.values(3, rows)
		c := in.Columns()
		by := []opt.OrderColumn{{Col: c[0], Desc: rng.Intn(2) == 0, NullsFirst: rng.Intn(2) == 0}, {Col: c[1], Desc: rng.Intn(2) == 0, NullsFirst: rng.Intn(2) == 0}}
		keys := []sortKey{{0, types.Int8, by[0].Desc, by[0].NullsFirst}, {1, types.Int8, by[1].Desc, by[1].NullsFirst}}
		want := slices.Clone(rows)
		slices.SortStableFunc(want, func(a, b types.Row) int { return compareRows(keys, a, b) })
		prefix := 0
		if rng.Intn(2) == 0 {
			prefix = 1
			in = &opt.SortNode{Base: opt.Base{Cols: c}, Input: in, By: by[:1]}
		}
		s := &opt.SortNode{Base: opt.Base{Cols: c}, Input: in, By: by, Prefix: prefix}
		var n opt.Node = s
		if rng.Intn(2) == 0 {
			count, offset := int64(rng.Intn(8)), int64(rng.Intn(8))
			s.TopK = num(count + offset)
			n = &opt.LimitNode{Base: opt.Base{Cols: c}, Input: s, Count: num(count), Offset: num(offset)}
			lo := min(offset, int64(len(want)))
			want = want[lo:min(lo+count, int64(len(want)))]
		}
		if got := show(f.run(n)); got != show(want) {
			t.Fatalf("prefix %d: got\n%swant\n%s", prefix, got, show(want))
		}
	}
}

func TestLimitErrors(t *testing.T) {
	f := newFixture(t)
	in := f.values(1, []types.Row{row(1), row(2)})
	limit := func(count, offset scalar.Expr) *opt.LimitNode {
		return &opt.LimitNode{Base: opt.Base{Cols: in.Cols}, Input: in, Count: count, Offset: offset}
	}
	null := &scalar.Const{T: types.Int8}
	if got := show(f.run(limit(null, null))); got != "1\n2\n" {
		t.Errorf("LIMIT NULL: %q", got)
	}
	if _, _, err := f.runProgram(f.program(limit(num(-1), nil))); !sqlstate.Is(err, sqlstate.InvalidLimit) {
		t.Errorf("LIMIT -1: %v", err)
	}
	if _, _, err := f.runProgram(f.program(limit(nil, num(-1)))); !sqlstate.Is(err, sqlstate.InvalidOffset) {
		t.Errorf("OFFSET -1: %v", err)
	}
}

func TestDistinct(t *testing.T) {
	f := newFixture(t)
	in := f.values(2, []types.Row{row(1, 1), row(1, 2), row(nil, 3), row(2, 4), row(nil, 5), row(1, 6)})
	n := &opt.DistinctNode{Base: opt.Base{Cols: in.Cols}, Input: in, On: in.Cols[:1]}
	if got, want := show(f.run(n)), "1 1\n- 3\n2 4\n"; got != want {
		t.Errorf("hashed: got\n%swant\n%s", got, want)
	}
	s := &opt.SortNode{Base: opt.Base{Cols: in.Cols}, Input: in, By: []opt.OrderColumn{{Col: in.Cols[0]}}}
	n = &opt.DistinctNode{Base: opt.Base{Cols: in.Cols}, Input: s, On: in.Cols[:1], Streaming: true}
	if got, want := show(f.run(n)), "1 1\n2 4\n- 3\n"; got != want {
		t.Errorf("streaming: got\n%swant\n%s", got, want)
	}
}

// WITH RECURSIVE walks a graph; UNION stops at cycles, and UNION ALL counts.
func TestRecursion(t *testing.T) {
	f := newFixture(t)
	edges := [][2]int{{1, 2}, {2, 3}, {3, 1}, {3, 4}}
	var rows []types.Row
	for _, e := range edges {
		rows = append(rows, row(e[0], e[1]))
	}
	bind := f.values(1, []types.Row{row(1)})
	e := f.values(2, rows)
	work := &opt.WithScanNode{ID: 7}
	work.Cols = []opt.ColumnID{f.col(types.Int8)}
	join := &opt.HashJoin{Kind: opt.InnerJoin, Left: work, Right: e, LeftKeys: work.Cols, RightKeys: e.Cols[:1]}
	join.Cols = []opt.ColumnID{e.Cols[1]}
	main := &opt.WithScanNode{ID: 7}
	main.Cols = []opt.ColumnID{f.col(types.Int8)}
	w := &opt.WithNode{ID: 7, Binding: bind, BindCols: bind.Cols, Recursive: join, RecursiveCols: join.Cols, Main: main}
	w.Cols = main.Cols
	if got, want := show(f.run(w)), "1\n2\n3\n4\n"; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	// Without the removal of duplicates the cycle has no end. A single reader takes as many rows as it likes; several share them, and they
	// are kept.
	w.RecursiveAll = true
	f.budget = 1 << 20
	some := &opt.LimitNode{Base: opt.Base{Cols: main.Cols}, Input: main, Count: num(100_000)}
	w.Main = some
	if got := f.run(w); len(got) != 100_000 {
		t.Errorf("%d rows", len(got))
	}
	other := &opt.WithScanNode{ID: 7}
	other.Cols = []opt.ColumnID{f.col(types.Int8)}
	few := &opt.LimitNode{Base: opt.Base{Cols: other.Cols}, Input: other, Count: num(1)}
	twice := &opt.NestedLoop{Kind: opt.InnerJoin, Left: few, Right: some}
	twice.Cols = append(slices.Clone(few.Cols), some.Cols...)
	w.Main, w.Cols = twice, twice.Cols
	if _, _, err := f.runProgram(f.program(w)); !sqlstate.Is(err, sqlstate.OutOfMemory) {
		t.Errorf("endless recursion: %v", err)
	}
}

// Quantified subqueries follow three-valued logic, by hashing and by trying all.
func TestQuantifiedSubqueries(t *testing.T) {
	rng := rand.New(rand.NewSource(7))
	ops := []scalar.CmpOp{scalar.EQ, scalar.NE, scalar.LT}
	for range 100 {
		list := randomRows(rng, rng.Intn(4), 1, 3)
		left := randomRows(rng, 6, 1, 3)
		for _, all := range []bool{false, true} {
			for _, op := range ops {
				f := newFixture(t)
				outer, inner := f.values(1, left), f.values(1, list)
				id := f.col(types.Int8)
				q := &scalar.Subquery{Kind: scalar.SubqueryAny, Plan: opt.Node(inner), T: types.Bool, Arg: f.ref(outer.Cols[0]), LeftID: id,
					Col: inner.Cols[0], Op: cmp(op, f.ref(id), f.ref(inner.Cols[0]))}
				if all {
					q.Kind = scalar.SubqueryAll
				}
				n := &opt.ProjectNode{Input: outer, Exprs: []scalar.Expr{q}}
				n.Cols = []opt.ColumnID{f.col(types.Bool)}
				var want []types.Row
				for _, l := range left {
					res, null := all, false
					for _, r := range list {
						if l[0].IsNull() || r[0].IsNull() {
							null = true
							continue
						}
						a, b := l[0].Int(), r[0].Int()
						v := op == scalar.EQ && a == b || op == scalar.NE && a != b || op == scalar.LT && a < b
						if v != all {
							res = !all
						}
					}
					d := types.NewBool(res)
					if res == all && null {
						d = types.Null
					}
					want = append(want, types.Row{d})
				}
				if got := show(f.run(n)); got != show(want) {
					t.Fatalf("all %v op %d list %q left %q: got\n%swant\n%s", all, op, show(list), show(left), got, show(want))
				}
			}
		}
	}
}

// A correlated scalar subquery sees each outer row; two rows are an error.
func TestCorrelatedSubquery(t *testing.T) {
	f := newFixture(t)
	outer := f.values(1, []types.Row{row(1), row(2), row(3)})
	inner := f.values(2, []types.Row{row(1, 10), row(2, 20)})
	filter := &opt.FilterNode{Base: opt.Base{Cols: inner.Cols}, Input: inner, Filter: []scalar.Expr{cmp(scalar.EQ, f.ref(inner.Cols[0]), f.ref(outer.Cols[0]))}}
	q := &scalar.Subquery{Kind: scalar.SubqueryScalar, Plan: opt.Node(filter), T: types.Int8, Col: inner.Cols[1], Outer: outer.Cols}
	ex := &scalar.Subquery{Kind: scalar.SubqueryExists, Plan: opt.Node(filter), T: types.Bool, Outer: outer.Cols}
	n := &opt.ProjectNode{Input: outer, Exprs: []scalar.Expr{f.ref(outer.Cols[0]), q, ex}}
	n.Cols = []opt.ColumnID{outer.Cols[0], f.col(types.Int8), f.col(types.Bool)}
	if got, want := show(f.run(n)), "1 10 true\n2 20 true\n3 - false\n"; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	q2 := &scalar.Subquery{Kind: scalar.SubqueryScalar, Plan: opt.Node(inner), T: types.Int8, Col: inner.Cols[1]}
	n = &opt.ProjectNode{Input: outer, Exprs: []scalar.Expr{q2}}
	n.Cols = []opt.ColumnID{f.col(types.Int8)}
	if _, _, err := f.runProgram(f.program(n)); !sqlstate.Is(err, sqlstate.CardinalityViolation) {
		t.Errorf("two rows: %v", err)
	}
}

func TestWindow(t *testing.T) {
	f := newFixture(t)
	_, sum, _ := aggregates()
	in := f.values(2, []types.Row{row(1, 10), row(1, 20), row(1, 20), row(2, 5), row(1, 30), row(2, 7)})
	c := in.Cols
	n := &opt.WindowNode{Input: in}
	n.Cols = slices.Clone(c)
	add := func(w opt.WindowItem) {
		w.Col = f.col(types.Int8)
		if w.PartitionBy == nil {
			w.PartitionBy = c[:1]
		}
		w.OrderBy = []opt.OrderColumn{{Col: c[1]}}
		n.Items = append(n.Items, w)
		n.Cols = append(n.Cols, w.Col)
	}
	v := f.ref(c[1])
	total := &scalar.AggFunc{Agg: sum, Args: []scalar.Expr{v}, T: types.Decimal}
	add(opt.WindowItem{Func: "row_number"})
	add(opt.WindowItem{Func: "rank"})
	add(opt.WindowItem{Func: "dense_rank"})
	add(opt.WindowItem{Func: "lag", Args: []scalar.Expr{v}})
	add(opt.WindowItem{Func: "lead", Args: []scalar.Expr{v, num(2), num(-1)}})
	add(opt.WindowItem{Func: "last_value", Args: []scalar.Expr{v}})
	add(opt.WindowItem{Func: "ntile", Args: []scalar.Expr{num(3)}})
	add(opt.WindowItem{Agg: total})
	add(opt.WindowItem{Agg: total, Frame: &opt.WindowFrame{Rows: true, Start: opt.OffsetPreceding, StartOffset: num(1), End: opt.CurrentRow}})
	add(opt.WindowItem{Agg: total, Frame: &opt.WindowFrame{Start: opt.OffsetPreceding, StartOffset: num(10), End: opt.OffsetFollowing, EndOffset: num(0)}})
	want := "1 10 1 1 1 - 20 10 1 10 10 10\n" +
		"1 20 2 2 2 10 30 20 1 50 30 50\n" +
		"1 20 3 2 2 20 -1 20 2 50 40 50\n" +
		"1 30 4 4 3 20 -1 30 3 80 50 70\n" +
		"2 5 1 1 1 - -1 5 1 5 5 5\n" +
		"2 7 2 2 2 5 -1 7 2 12 12 12\n"
	if got := show(f.run(n)); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// Operators that hold rows stop at the budget, and give everything back.
func TestBudget(t *testing.T) {
	f := newFixture(t)
	rng := rand.New(rand.NewSource(8))
	in := f.values(2, randomRows(rng, 500, 2, 1000))
	other := f.values(2, randomRows(rng, 500, 2, 1000))
	by := []opt.OrderColumn{{Col: in.Cols[0]}}
	base := opt.Base{Cols: in.Cols}
	both := opt.Base{Cols: append(slices.Clone(in.Cols), other.Cols...)}
	for _, n := range []opt.Node{
		&opt.SortNode{Base: base, Input: in, By: by},
		&opt.DistinctNode{Base: base, Input: in, On: in.Cols},
		&opt.GroupNode{Base: base, Input: in, Group: in.Cols},
		&opt.HashJoin{Base: both, Left: other, Right: in, LeftKeys: other.Cols[:1], RightKeys: in.Cols[:1]},
		&opt.NestedLoop{Base: both, Left: other, Right: in},
		&opt.WindowNode{Base: base, Input: in},
	} {
		f.budget = 10_000
		if _, _, err := f.runProgram(f.program(n)); !sqlstate.Is(err, sqlstate.OutOfMemory) {
			t.Errorf("%T within 10 kB: %v", n, err)
		}
	}
}

// Keys of different number types join by value.
func TestHashJoinMixedTypes(t *testing.T) {
	f := newFixture(t)
	l := f.values(1, []types.Row{row(1), row(2), row(nil)})
	r := f.values(1, []types.Row{{types.NewDecimal(apd.New(20, -1))}, {types.NewDecimal(apd.New(15, -1))}, {types.Null}})
	f.meta.Column(r.Cols[0]).Type = types.Decimal
	for _, flip := range []bool{false, true} {
		n := &opt.HashJoin{Left: l, Right: r, LeftKeys: l.Cols, RightKeys: r.Cols}
		if flip {
			n = &opt.HashJoin{Left: r, Right: l, LeftKeys: r.Cols, RightKeys: l.Cols}
		}
		n.Cols = []opt.ColumnID{l.Cols[0], r.Cols[0]}
		if got, want := show(f.run(n)), "2 2.0\n"; got != want {
			t.Errorf("flip %v: got %q, want %q", flip, got, want)
		}
	}
}

// A limit above a scan reads little more than it needs, also through a projection and a parameter; a filter that
// reads numbers only does not stop the texts of passing rows from being read.
func TestLimitReadsLittle(t *testing.T) {
	f := newFixture(t)
	tab := f.table(100, "t", "kaV", 1)
	var rows []types.Row
	for k := range 1000 {
		rows = append(rows, row(k, k%2, fmt.Sprint("v", k)))
	}
	f.insert(tab, rows...)
	scan := f.scan(tab)
	scan.Filter = []scalar.Expr{cmp(scalar.EQ, f.ref(scan.Cols[1]), num(1))}
	p := &opt.ProjectNode{Input: scan, Exprs: []scalar.Expr{f.ref(scan.Cols[2])}}
	p.Cols = scan.Cols[2:]
	n := &opt.LimitNode{Base: opt.Base{Cols: p.Cols}, Input: p, Count: param(0), Offset: num(1)}
	f.params = row(3)
	now := time.Duration(0)
	f.env.Trace = &Trace{Now: func() time.Duration { now += time.Millisecond; return now }}
	rows, _, err := f.runProgram(f.program(n))
	if got, want := show(rows), "v3\nv5\nv7\n"; got != want || err != nil {
		t.Errorf("got %q, want %q, %v", got, want, err)
	}
	s := f.env.Trace.Nodes[scan]
	if s.KVRows != filteredPage || s.KVBatches != 1 || s.Rows != 4 || s.Loops != 1 {
		t.Errorf("%+v", s)
	}
	want := "(actual time=7.000 rows=4 loops=1) (read time=1.000 rows=16 bytes="
	if got := f.env.Trace.Describe(scan, nil); !strings.HasPrefix(got, want) {
		t.Errorf("got %q, want %q...", got, want)
	}
	if got := f.env.Trace.Describe(&opt.ValuesNode{}, nil); got != "(never executed)" {
		t.Error(got)
	}
}

// point is SELECT v FROM t WHERE k = $1.
func point(f *fixture) *Program {
	tab := f.table(100, "t", "kaV", 1)
	for k := range 100 {
		f.insert(tab, row(k, k, fmt.Sprint("value ", k)))
	}
	n := f.scan(tab)
	n.Single = true
	n.Spans = []opt.IndexSpan{{Equal: []scalar.Expr{param(0)}}}
	return f.program(n)
}

func BenchmarkPointSelect(b *testing.B) {
	f := newFixture(b)
	p := point(f)
	sctx := &scalar.Context{Context: b.Context(), Params: row(42)}
	b.ReportAllocs()
	for b.Loop() {
		env := Env{Txn: f.kv, Scalar: sctx}
		c, err := p.Start(b.Context(), &env)
		if err != nil {
			b.Fatal(err)
		}
		if r, err := c.Next(b.Context()); err != nil || r == nil {
			b.Fatal(r, err)
		}
		c.Close()
	}
}

// The hottest path of the system stays lean.
func TestPointSelectAllocations(t *testing.T) {
	f := newFixture(t)
	p := point(f)
	sctx := &scalar.Context{Context: t.Context(), Params: row(42)}
	n := testing.AllocsPerRun(100, func() {
		env := Env{Txn: f.kv, Scalar: sctx}
		c, err := p.Start(t.Context(), &env)
		if err != nil {
			t.Fatal(err)
		}
		if r, err := c.Next(t.Context()); err != nil || r == nil {
			t.Fatal(r, err)
		}
		c.Close()
	})
	if n > 10 {
		t.Errorf("a point select allocates %v times", n)
	}
}
