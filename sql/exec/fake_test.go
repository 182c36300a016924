package exec

import (
	"context"
	"fmt"
	"math/rand"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"meridian/keys"
	"meridian/kv"
	"meridian/sql/catalog"
	"meridian/sql/memory"
	"meridian/sql/opt"
	"meridian/sql/scalar"
	"meridian/sql/types"
	"meridian/txn"
)

// fakeKV is a transaction over a sorted map. Reads see what was written before the last StepStatement.
type fakeKV struct {
	visible map[string][]byte
	sorted  []string
	stale   bool              // sorted is out of date
	pending map[string][]byte // nil: deleted

	gets, scans, writes, commits int
	page                         int64 // rows of a page at most; zero: no bound

	// reach is Program.Spans of the running program, and beyond a key that it read elsewhere.
	reach  []keys.Span
	beyond string
}

func newFakeKV() *fakeKV {
	return &fakeKV{visible: map[string][]byte{}, pending: map[string][]byte{}}
}

func (f *fakeKV) keys() []string {
	if f.stale {
		f.sorted = f.sorted[:0]
		for k := range f.visible {
			f.sorted = append(f.sorted, k)
		}
		sort.Strings(f.sorted)
		f.stale = false
	}
	return f.sorted
}

// starts notes what a program says that it will read, and reads checks it, for programs that do not write.
func (f *fakeKV) starts(p *Program, sctx *scalar.Context) {
	f.reach, f.beyond = nil, ""
	if !p.Mutates() {
		f.reach = append(p.Spans(context.Background(), sctx), keys.Span{Start: keys.Key("none")})
	}
}

func (f *fakeKV) reads(s keys.Span) {
	if f.reach != nil && !slices.ContainsFunc(f.reach, func(r keys.Span) bool { return r.ContainsSpan(s) }) {
		f.beyond = fmt.Sprintf("[%s, %s), but Spans are %s", s.Start, s.End, f.reach)
	}
}

func (f *fakeKV) StepStatement() {
	for k, v := range f.pending {
		if v == nil {
			delete(f.visible, k)
		} else {
			f.visible[k] = v
		}
	}
	if len(f.pending) > 0 {
		f.stale = true
	}
	clear(f.pending)
}

func (f *fakeKV) Get(ctx context.Context, key keys.Key, lock kv.LockStrength, wait kv.WaitPolicy) ([]byte, error) {
	f.gets++
	f.reads(keys.Span{Start: key})
	return f.visible[string(key)], nil
}

func (f *fakeKV) GetMany(ctx context.Context, ks []keys.Key, lock kv.LockStrength, wait kv.WaitPolicy) ([][]byte, error) {
	f.gets++
	out := make([][]byte, len(ks))
	for i, k := range ks {
		f.reads(keys.Span{Start: k})
		out[i] = f.visible[string(k)]
	}
	return out, nil
}

func (f *fakeKV) Scan(ctx context.Context, o txn.ScanOptions) ([]kv.KeyValue, *keys.Span, error) {
	f.scans++
	f.reads(o.Span)
	all := f.keys()
	from := sort.SearchStrings(all, string(o.Span.Start))
	to := sort.SearchStrings(all, string(o.Span.Stop()))
	limit := o.MaxRows
	if f.page > 0 && (limit == 0 || f.page < limit) {
		limit = f.page
	}
	var rows []kv.KeyValue
	list := all[from:to]
	for i := range list {
		k := list[i]
		if o.Reverse {
			k = list[len(list)-1-i]
		}
		if limit > 0 && int64(len(rows)) == limit {
			last := rows[len(rows)-1].Key
			if o.Reverse {
				return rows, &keys.Span{Start: o.Span.Start, End: last}, nil
			}
			return rows, &keys.Span{Start: last.Next(), End: o.Span.Stop()}, nil
		}
		rows = append(rows, kv.KeyValue{Key: keys.Key(k), Value: f.visible[k]})
	}
	return rows, nil, nil
}

func (f *fakeKV) ScanMany(ctx context.Context, spans []keys.Span, o txn.ScanOptions) ([][]kv.KeyValue, error) {
	out := make([][]kv.KeyValue, len(spans))
	page := f.page
	f.page = 0
	for i, s := range spans {
		o.Span, o.MaxRows = s, 0
		out[i], _, _ = f.Scan(ctx, o)
	}
	f.page = page
	return out, nil
}

func (f *fakeKV) newest(k string) []byte {
	if v, ok := f.pending[k]; ok {
		return v
	}
	return f.visible[k]
}

func (f *fakeKV) Write(ctx context.Context, b *txn.WriteBatch) error {
	f.writes++
	undo := make(map[string][]byte, len(f.pending))
	for k, v := range f.pending {
		undo[k] = v
	}
	for w := range b.Writes() {
		k := string(w.Key)
		switch w.Kind {
		case txn.WritePutNew:
			if v := f.newest(k); v != nil {
				f.pending = undo
				return &kv.ConditionFailedError{Key: w.Key, Actual: v}
			}
			f.pending[k] = w.Value
		case txn.WritePut:
			f.pending[k] = w.Value
		case txn.WriteDelete:
			f.pending[k] = nil
		default:
			return fmt.Errorf("fake: write of kind %d", w.Kind)
		}
	}
	return nil
}

func (f *fakeKV) CommitBatch(ctx context.Context, b *txn.WriteBatch) error {
	f.commits++
	if err := f.Write(ctx, b); err != nil {
		return err
	}
	f.StepStatement()
	return nil
}

// fixture is a small catalogue, a store and helpers to build plans by hand.
type fixture struct {
	t      testing.TB
	kv     *fakeKV
	meta   *opt.Metadata
	tables map[catalog.ID]*catalog.Table
	params types.Row
	auto   bool
	budget int64
	env    Env
	over   KV // in the place of kv; nil: kv
}

func newFixture(t testing.TB) *fixture {
	return &fixture{t: t, kv: newFakeKV(), meta: &opt.Metadata{}, tables: map[catalog.ID]*catalog.Table{}}
}

type viewOf struct {
	catalog.View
	f *fixture
}

func (v viewOf) TableByID(ctx context.Context, id catalog.ID) (*catalog.Table, error) {
	return v.f.tables[id], nil
}

// table makes a table of int8 columns named a, b, c, ... (text if upper case), with the first keys columns as its
// primary key.
func (f *fixture) table(id catalog.ID, name, columns string, pk int) *catalog.Table {
	t := &catalog.Table{ID: id, Version: 1, Name: name, NextIndex: 2, NextColumn: catalog.ColumnID(len(columns) + 1)}
	ix := catalog.Index{ID: 1, Name: name + "_pkey", Unique: true, Primary: true, Constraint: true}
	for i, c := range columns {
		col := catalog.Column{ID: catalog.ColumnID(i + 1), Name: strings.ToLower(string(c)), Type: types.Int8}
		if c >= 'A' && c <= 'Z' {
			col.Type = types.Text
		}
		if i < pk {
			col.NotNull = true
			ix.Columns = append(ix.Columns, catalog.IndexColumn{Column: col.ID})
		}
		t.Columns = append(t.Columns, col)
	}
	t.Indexes = []catalog.Index{ix}
	f.tables[id] = t
	return t
}

func index(t *catalog.Table, name string, unique bool, cols ...catalog.ColumnID) *catalog.Index {
	ix := catalog.Index{ID: t.NextIndex, Name: name, Unique: unique}
	t.NextIndex++
	for _, c := range cols {
		ix.Columns = append(ix.Columns, catalog.IndexColumn{Column: c})
	}
	t.Indexes = append(t.Indexes, ix)
	return &t.Indexes[len(t.Indexes)-1]
}

// cols makes statement columns for all columns of a table.
func (f *fixture) cols(t *catalog.Table) []opt.ColumnID {
	var out []opt.ColumnID
	for i := range t.Columns {
		c := &t.Columns[i]
		out = append(out, f.meta.Add(opt.ColumnMeta{Name: c.Name, Type: c.Type, Table: t, Column: c.ID}))
	}
	return out
}

func (f *fixture) col(t *types.T) opt.ColumnID {
	return f.meta.Add(opt.ColumnMeta{Name: "?", Type: t})
}

func (f *fixture) ref(c opt.ColumnID) scalar.Expr {
	return &scalar.Column{ID: c, T: f.meta.Column(c).Type}
}

func num(i int64) scalar.Expr { return &scalar.Const{Value: types.NewInt(i), T: types.Int8} }

func param(i int) scalar.Expr { return &scalar.Placeholder{Index: i, T: types.Int8} }

func cmp(op scalar.CmpOp, a, b scalar.Expr) scalar.Expr {
	return &scalar.Compare{Op: op, Left: a, Right: b}
}

// scan reads all of a table.
func (f *fixture) scan(t *catalog.Table) *opt.IndexScan {
	n := &opt.IndexScan{Table: t, Index: t.Primary()}
	n.Cols = f.cols(t)
	for i := range t.Columns {
		n.Ordinals = append(n.Ordinals, i)
	}
	return n
}

// values is a literal relation of int8 columns.
func (f *fixture) values(width int, rows []types.Row) *opt.ValuesNode {
	n := &opt.ValuesNode{}
	for range width {
		n.Cols = append(n.Cols, f.col(types.Int8))
	}
	for _, r := range rows {
		var es []scalar.Expr
		for _, d := range r {
			t := types.Int8
			if d.Phys() == types.PhysString {
				t = types.Text
			}
			es = append(es, &scalar.Const{Value: d, T: t})
		}
		n.Rows = append(n.Rows, es)
	}
	return n
}

func (f *fixture) program(root opt.Node) *Program {
	f.t.Helper()
	p, err := f.build(root)
	if err != nil {
		f.t.Fatalf("build: %v", err)
	}
	return p
}

func (f *fixture) build(root opt.Node) (*Program, error) {
	plan := &opt.Plan{Meta: f.meta, Root: root}
	for _, c := range root.Columns() {
		plan.Output = append(plan.Output, opt.OutputColumn{Col: c, Type: f.meta.Column(c).Type})
	}
	return Build(context.Background(), plan, Options{View: viewOf{f: f}})
}

func (f *fixture) runProgram(p *Program) ([]types.Row, int64, error) {
	ctx := context.Background()
	f.env.Txn = f.kv
	if f.over != nil {
		f.env.Txn = f.over
	}
	f.env.AutoCommit = f.auto
	f.env.Budget = memory.Limited(f.budget)
	f.env.Scalar = &scalar.Context{Context: ctx, Params: f.params, Location: time.UTC}
	f.kv.StepStatement()
	f.kv.starts(p, f.env.Scalar)
	c, err := p.Start(ctx, &f.env)
	if err != nil {
		return nil, 0, err
	}
	defer func() {
		c.Close()
		if f.kv.beyond != "" {
			f.t.Errorf("the program reads %s", f.kv.beyond)
		}
		if used := f.env.Budget.Used(); used != 0 {
			f.t.Errorf("budget: %d bytes are not given back", used)
		}
	}()
	var out []types.Row
	for {
		row, err := c.Next(ctx)
		if err != nil {
			return nil, 0, err
		}
		if row == nil {
			break
		}
		out = append(out, slices.Clone(row))
	}
	n := c.RowsAffected()
	return out, n, nil
}

// run runs a plan twice if it only reads, to see that a pooled run starts afresh.
func (f *fixture) run(root opt.Node) []types.Row {
	f.t.Helper()
	p := f.program(root)
	rows, _, err := f.runProgram(p)
	if err != nil {
		f.t.Fatalf("run: %v", err)
	}
	if !p.Mutates() {
		again, _, err := f.runProgram(p)
		if err != nil {
			f.t.Fatalf("second run: %v", err)
		}
		if show(again) != show(rows) {
			f.t.Fatalf("second run differs:\n%s\nfirst:\n%s", show(again), show(rows))
		}
	}
	return rows
}

// insert puts rows into a table.
func (f *fixture) insert(t *catalog.Table, rows ...types.Row) {
	f.t.Helper()
	if _, err := f.tryInsert(t, rows...); err != nil {
		f.t.Fatalf("insert into %s: %v", t.Name, err)
	}
}

func (f *fixture) insertNode(t *catalog.Table, rows []types.Row) *opt.InsertNode {
	in := f.values(len(t.Columns), rows)
	for i, c := range in.Cols {
		f.meta.Column(c).Type = t.Columns[i].Type
	}
	s := &opt.Insert{Table: t, Source: in.Cols, New: f.cols(t)}
	return &opt.InsertNode{Input: in, Stmt: s}
}

func (f *fixture) tryInsert(t *catalog.Table, rows ...types.Row) (int64, error) {
	return f.exec(f.insertNode(t, rows))
}

func (f *fixture) exec(n opt.Node) (int64, error) {
	p, err := f.build(n)
	if err != nil {
		return 0, err
	}
	before := maps(f.kv.visible)
	_, count, err := f.runProgram(p)
	if err != nil { // the session's savepoint
		clear(f.kv.pending)
		f.kv.visible, f.kv.stale = before, true
		return 0, err
	}
	f.kv.StepStatement()
	return count, nil
}

func maps(m map[string][]byte) map[string][]byte {
	c := make(map[string][]byte, len(m))
	for k, v := range m {
		c[k] = v
	}
	return c
}

// contents of a table, after checking that every index agrees with it.
func (f *fixture) contents(t *catalog.Table) string {
	f.t.Helper()
	f.kv.StepStatement()
	rows := f.run(f.scan(t))
	want := map[string]string{}
	for i := range t.Indexes {
		ix := &t.Indexes[i]
		if ix.State != catalog.Public {
			continue
		}
		c, err := newIndexCodec(t, ix)
		if err != nil {
			f.t.Fatal(err)
		}
		for _, r := range rows {
			k, err := c.appendKey(nil, r)
			if err != nil {
				f.t.Fatal(err)
			}
			want[string(k)] = string(c.appendValue(nil, r))
		}
		span := c.all()
		for k, v := range f.kv.visible {
			if !span.Contains(keys.Key(k)) {
				continue
			}
			if w, ok := want[k]; !ok || w != string(v) {
				f.t.Errorf("index %s of %s: stray or stale entry %x = %x, want %x (%v)", ix.Name, t.Name, k, v, w, ok)
			}
			delete(want, k)
		}
		for k := range want {
			f.t.Errorf("index %s of %s: entry %x is missing", ix.Name, t.Name, k)
		}
		clear(want)
	}
	return show(rows)
}

func row(vals ...any) types.Row {
	out := make(types.Row, len(vals))
	for i, v := range vals {
		switch v := v.(type) {
		case nil:
		case int:
			out[i] = types.NewInt(int64(v))
		case string:
			out[i] = types.NewString(v)
		case bool:
			out[i] = types.NewBool(v)
		default:
			panic("row")
		}
	}
	return out
}

func showRow(r types.Row) string {
	var parts []string
	for _, d := range r {
		switch d.Phys() {
		case types.PhysNull:
			parts = append(parts, "-")
		case types.PhysString:
			parts = append(parts, d.Str())
		case types.PhysBool:
			parts = append(parts, fmt.Sprint(d.Bool()))
		case types.PhysFloat:
			parts = append(parts, fmt.Sprint(d.Float()))
		case types.PhysDecimal:
			parts = append(parts, d.Decimal().String())
		case types.PhysArray:
			parts = append(parts, "{"+showRow(d.Array().Elems)+"}")
		default:
			parts = append(parts, fmt.Sprint(d.Int()))
		}
	}
	return strings.Join(parts, " ")
}

// show prints rows in order; showSorted without regard to it.
func show(rows []types.Row) string {
	var b strings.Builder
	for _, r := range rows {
		b.WriteString(showRow(r))
		b.WriteByte('\n')
	}
	return b.String()
}

func showSorted(rows []types.Row) string {
	lines := make([]string, len(rows))
	for i, r := range rows {
		lines[i] = showRow(r)
	}
	sort.Strings(lines)
	return strings.Join(lines, "\n")
}

// randomRows draws small numbers and NULLs.
func randomRows(rng *rand.Rand, n, width, domain int) []types.Row {
	out := make([]types.Row, n)
	for i := range out {
		out[i] = make(types.Row, width)
		for j := range out[i] {
			if v := rng.Intn(domain + 1); v < domain {
				out[i][j] = types.NewInt(int64(v))
			}
		}
	}
	return out
}

// entries shows the keys that an index has.
func (f *fixture) entries(tab *catalog.Table, ix *catalog.Index) (out []string) {
	f.t.Helper()
	c, err := newIndexCodec(tab, ix)
	if err != nil {
		f.t.Fatal(err)
	}
	for k := range f.kv.visible {
		if !c.all().Contains(keys.Key(k)) {
			continue
		}
		r, err := c.x.KeyValues([]byte(k))
		if err != nil {
			f.t.Fatal(err)
		}
		out = append(out, showRow(r))
	}
	return out
}
