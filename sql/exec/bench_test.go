package exec

import (
	"context"
	"fmt"
	"testing"

	"meridian/sql/opt"
	"meridian/sql/scalar"
	"meridian/sql/types"
	"meridian/txn"
)

// sinkKV discards writes.
type sinkKV struct{ *fakeKV }

func (sinkKV) Write(context.Context, *txn.WriteBatch) error       { return nil }
func (sinkKV) CommitBatch(context.Context, *txn.WriteBatch) error { return nil }

func benchmark(b *testing.B, f *fixture, p *Program, params types.Row) {
	kv := sinkKV{f.kv}
	sctx := &scalar.Context{Context: b.Context(), Params: params}
	b.ReportAllocs()
	for b.Loop() {
		env := Env{Txn: kv, Scalar: sctx, AutoCommit: true}
		c, err := p.Start(b.Context(), &env)
		if err != nil {
			b.Fatal(err)
		}
		for {
			r, err := c.Next(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			if r == nil {
				break
			}
		}
		if p.Mutates() && c.RowsAffected() != 1 {
			b.Fatal("rows", c.RowsAffected())
		}
		c.Close()
	}
}

// UPDATE t SET a = $2 WHERE k = $1, of a table with four columns and no secondary index.
func BenchmarkPointUpdate(b *testing.B) {
	f := newFixture(b)
	tab := f.table(100, "t", "kabV", 1)
	for k := range 100 {
		f.insert(tab, row(k, k, k, fmt.Sprint("value ", k)))
	}
	u := f.update(tab, map[int]func([]opt.ColumnID) scalar.Expr{1: func([]opt.ColumnID) scalar.Expr { return param(1) }}, nil)
	scan := u.Input.(*opt.ProjectNode).Input.(*opt.IndexScan)
	scan.Single = true
	scan.Spans = []opt.IndexSpan{{Equal: []scalar.Expr{param(0)}}}
	benchmark(b, f, f.program(u), row(42, 7))
}

// INSERT INTO t VALUES ($1, $2, $3), with one secondary index.
func BenchmarkInsert(b *testing.B) {
	f := newFixture(b)
	tab := f.table(100, "t", "kab", 1)
	index(tab, "t_a", false, 2)
	n := f.insertNode(tab, []types.Row{row(1, 2, 3)})
	v := n.Input.(*opt.ValuesNode)
	for i := range v.Rows[0] {
		v.Rows[0][i] = param(i)
	}
	benchmark(b, f, f.program(n), row(1, 2, 3))
}

// A scan of ten thousand rows with a filter.
func BenchmarkScanFilter(b *testing.B) {
	f := newFixture(b)
	tab := f.table(100, "t", "kaV", 1)
	var rows []types.Row
	for k := range 10_000 {
		rows = append(rows, row(k, k%10, fmt.Sprint("value ", k)))
	}
	f.insert(tab, rows...)
	n := f.scan(tab)
	n.Filter = []scalar.Expr{cmp(scalar.EQ, f.ref(n.Cols[1]), num(3))}
	benchmark(b, f, f.program(n), nil)
}

// A hash join of a thousand rows with a thousand.
func BenchmarkHashJoin(b *testing.B) {
	f := newFixture(b)
	var l, r []types.Row
	for k := range 1000 {
		l = append(l, row(k%100, k))
		r = append(r, row(k, k))
	}
	ln, rn := f.values(2, l), f.values(2, r)
	n := &opt.HashJoin{Left: ln, Right: rn, LeftKeys: ln.Cols[:1], RightKeys: rn.Cols[:1]}
	n.Cols = joinCols(opt.InnerJoin, ln, rn)
	benchmark(b, f, f.program(n), nil)
}

// COPY of rows into a table with a primary key and one index.
func BenchmarkCopy(b *testing.B) {
	f := newFixture(b)
	tab := f.table(100, "t", "kabV", 1)
	in := &opt.ValuesNode{}
	var es []scalar.Expr
	for i := range tab.Columns {
		in.Cols = append(in.Cols, f.col(tab.Columns[i].Type))
		es = append(es, &scalar.Placeholder{Index: i, T: tab.Columns[i].Type})
	}
	in.Rows = [][]scalar.Expr{es}
	p := f.program(&opt.InsertNode{Input: in, Stmt: &opt.Insert{Table: tab, Source: in.Cols, New: f.cols(tab)}})
	w, err := NewCopyWriter(p, &Env{Txn: sinkKV{f.kv}, Scalar: &scalar.Context{Context: b.Context()}})
	if err != nil {
		b.Fatal(err)
	}
	defer w.Close()
	b.ReportAllocs()
	values := row(0, 1, 2, "                                                                    ")
	k := int64(0)
	for b.Loop() {
		k++
		values[0] = types.NewInt(k)
		if err := w.Add(b.Context(), values); err != nil {
			b.Fatal(err)
		}
	}
}
