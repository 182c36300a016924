package exec

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"meridian/keys"
	"meridian/kv"
	"meridian/sql/opt"
	"meridian/sql/scalar"
	"meridian/sql/types"
)

// lockKV is a fakeKV in which rows change between their read and their lock.
type lockKV struct {
	*fakeKV
	newer map[string][]byte // what a locking read finds; nil: deleted, or skipped
	locks []string
}

func (f *lockKV) Get(ctx context.Context, key keys.Key, lock kv.LockStrength, wait kv.WaitPolicy) ([]byte, error) {
	vs, err := f.GetMany(ctx, []keys.Key{key}, lock, wait)
	return vs[0], err
}

func (f *lockKV) GetMany(ctx context.Context, ks []keys.Key, lock kv.LockStrength, wait kv.WaitPolicy) ([][]byte, error) {
	vs, err := f.fakeKV.GetMany(ctx, ks, lock, wait)
	if lock == kv.NoLock {
		return vs, err
	}
	for i, k := range ks {
		if v, ok := f.newer[string(k)]; ok {
			vs[i] = v
		}
		if vs[i] != nil {
			f.locks = append(f.locks, string(k))
		}
	}
	return vs, err
}

// lockFixture has rows k = 0 to 199 with a = 1000-k and b = k%2, and a statement that locks the ones of b = 1 in the order of a.
type lockFixture struct {
	*fixture
	key         func(k int) string
	match, drop []byte // versions of a row that the statement wants, and not
	build       func(count, offset int64, wait kv.WaitPolicy) *opt.LimitNode
	ids         func(ks []string) string
}

// A row that has changed when it is locked is tested again, and its columns are computed again; rows are locked in the order of the sort, and no more of
// them than the limit lets through.
func TestLockRows(t *testing.T) {
	f := newLockFixture(t)
	key, match, drop := f.key, f.match, f.drop
	for _, c := range []struct {
		count, offset int64
		newer         map[string][]byte
		rows, locks   string
	}{
		{2, 0, nil, "[199 801 1 801] [197 803 1 803]", "[199 197]"},
		{1, 2, nil, "[195 805 1 805]", "[199 197 195]"},
		{0, 0, nil, "", "[]"},
		{2, 0, map[string][]byte{key(199): nil}, "[197 803 1 803] [195 805 1 805]", "[197 195]"},
		{2, 0, map[string][]byte{key(197): drop, key(195): match}, "[199 801 1 801] [195 7 1 7]", "[199 197 195]"},
	} {
		store := &lockKV{fakeKV: f.kv, newer: c.newer}
		f.over = store
		rows, _, err := f.runProgram(f.program(f.build(c.count, c.offset, kv.Block)))
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for i, r := range rows {
			if i > 0 {
				got += " "
			}
			got += fmt.Sprint([]int64{r[0].Int(), r[1].Int(), r[2].Int(), r[3].Int()})
		}
		if l := f.ids(store.locks); got != c.rows || l != c.locks {
			t.Errorf("LIMIT %d OFFSET %d: rows %s, locks %s; want %s, %s", c.count, c.offset, got, l, c.rows, c.locks)
		}
	}
}

func newLockFixture(t *testing.T) *lockFixture {
	f := newFixture(t)
	tab := f.table(100, "t", "kab", 1)
	for k := range 200 {
		f.insert(tab, row(k, 1000-k, k%2))
	}
	ix, err := newIndexCodec(tab, tab.Primary())
	if err != nil {
		t.Fatal(err)
	}
	dec, err := newRowDecoder(tab, tab.Primary(), []int{0, 1, 2})
	if err != nil {
		t.Fatal(err)
	}
	key := func(k int) string {
		b, err := ix.appendPrefix(nil, types.Row{types.NewInt(int64(k))})
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	// Another table of the same form makes the newer versions.
	f.insert(tab, row(1000, 7, 1), row(1001, 7, 0))
	f.kv.StepStatement()
	match, drop := f.kv.visible[key(1000)], f.kv.visible[key(1001)]
	delete(f.kv.visible, key(1000))
	delete(f.kv.visible, key(1001))
	f.kv.stale = true

	build := func(count, offset int64, wait kv.WaitPolicy) *opt.LimitNode {
		scan := f.scan(tab)
		cond := cmp(scalar.EQ, f.ref(scan.Cols[2]), num(1))
		scan.Filter = []scalar.Expr{cond}
		again := f.col(types.Int8)
		item := opt.ProjectItem{Col: again, Expr: f.ref(scan.Cols[1])}
		p := &opt.ProjectNode{Input: scan, Exprs: []scalar.Expr{f.ref(scan.Cols[0]), f.ref(scan.Cols[1]), f.ref(scan.Cols[2]), item.Expr}}
		p.Cols = append(slices.Clone(scan.Cols), again)
		sort := &opt.SortNode{Input: p, By: []opt.OrderColumn{{Col: scan.Cols[1]}}}
		sort.Cols = p.Cols
		n := &opt.LockNode{Input: sort, Tables: []opt.LockedTable{{Table: tab, KeyCols: scan.Cols[:1], Cols: scan.Cols, Ordinals: []int{0, 1, 2},
			Locking: opt.Locking{Strength: kv.Exclusive, Wait: wait, Held: true}}}, Steps: []opt.LockStep{{Filter: []scalar.Expr{cond}}, {Items: []opt.ProjectItem{item}}}}
		n.Cols = p.Cols
		l := &opt.LimitNode{Input: n, Count: num(count), Offset: num(offset)}
		l.Cols = p.Cols
		return l
	}
	ids := func(ks []string) string {
		var out []int64
		row := make(types.Row, 3)
		for _, k := range ks {
			if err := dec.decode(keys.Key(k), f.kv.visible[k], row); err != nil {
				t.Fatal(err)
			}
			out = append(out, row[0].Int())
		}
		return fmt.Sprint(out)
	}
	return &lockFixture{f, key, match, drop, build, ids}
}

// choosingKV locks the first of several rows that are free. Rows have another transaction's lock, or have changed since the statement began.
type choosingKV struct {
	*lockKV
	changed  map[string]bool
	requests int
}

func (f *choosingKV) GetMany(ctx context.Context, ks []keys.Key, lock kv.LockStrength, wait kv.WaitPolicy) ([][]byte, error) {
	if lock != kv.NoLock {
		f.requests++
	}
	return f.lockKV.GetMany(ctx, ks, lock, wait)
}

func (f *choosingKV) Get(ctx context.Context, key keys.Key, lock kv.LockStrength, wait kv.WaitPolicy) ([]byte, error) {
	vs, err := f.GetMany(ctx, []keys.Key{key}, lock, wait)
	return vs[0], err
}

func (f *choosingKV) LockFirst(ctx context.Context, ks []keys.Key, n int, lock kv.LockStrength) (values [][]byte, changed []bool, err error) {
	f.requests++
	for _, k := range ks {
		late := f.changed[string(k)]
		var v []byte
		if !late {
			vs, err := f.lockKV.GetMany(ctx, []keys.Key{k}, lock, kv.SkipLocked)
			if err != nil {
				return nil, nil, err
			}
			v = vs[0]
		}
		values, changed = append(values, v), append(changed, late)
		if v != nil {
			if n--; n == 0 {
				break
			}
		}
	}
	return values, changed, nil
}

// With SKIP LOCKED and LIMIT, the ranges choose the rows that are free: a request has many, and locks no more than are wanted. The rows come from a sort, or from an index
// in their order.
func TestLockFirstFree(t *testing.T) {
	f := newLockFixture(t)
	joined := f.lockJoin()
	const n = 100 // rows, the first of which has the number 0
	first := func(from, to int) (ks []int) {
		for i := from; i < to; i++ {
			ks = append(ks, i)
		}
		return ks
	}
	for _, c := range []struct {
		count, offset   int64
		locked, changed []int
		want            []int
		requests        int
	}{
		{1, 0, nil, nil, first(0, 1), 1},
		{2, 1, nil, nil, first(0, 3), 1},
		{1, 0, first(0, 60), nil, []int{60}, 1},
		{2, 0, first(0, 60), nil, []int{60, 61}, 1},
		{2, 0, first(0, 80), nil, []int{80, 81}, 2},
		{3, 0, first(0, 98), nil, []int{98, 99}, 2},
		{1, 0, first(0, n), nil, nil, 2},
		// Rows that have changed are passed over, and locked nevertheless where there are too few others.
		{1, 0, nil, []int{0}, []int{1}, 1},
		{1, 0, nil, first(0, 80), []int{80}, 2},
		{1, 0, first(0, n-1), []int{n - 1}, []int{n - 1}, 3},
		{2, 0, first(0, n-2), []int{n - 1}, []int{n - 2, n - 1}, 3},
		{1, 0, first(1, n), []int{0}, []int{0}, 3},
		{2, 0, first(2, n), []int{0, 1}, []int{0, 1}, 4},
		{2, 0, first(2, 80), append(first(0, 2), first(80, n)...), []int{0, 1}, 4},
		{2, 0, first(2, n-1), []int{0}, []int{1, n - 1}, 2},
		// A row that comes before one that is already handed out is passed over for good.
		{2, 0, first(2, n), []int{0}, []int{1}, 2},
	} {
		for _, shape := range []*lockShape{{f.key, f.build, "sort"}, joined} {
			store := &choosingKV{lockKV: &lockKV{fakeKV: f.kv, newer: make(map[string][]byte)}, changed: make(map[string]bool)}
			number := make(map[string]int)
			for i := range n {
				number[shape.key(199-2*i)] = i
			}
			for _, i := range c.locked {
				store.newer[shape.key(199-2*i)] = nil
			}
			for _, i := range c.changed {
				store.changed[shape.key(199-2*i)] = true
			}
			f.over = store
			rows, _, err := f.runProgram(f.program(shape.build(c.count, c.offset, kv.SkipLocked)))
			if err != nil {
				t.Fatal(err)
			}
			var got, sent []int
			for _, k := range store.locks {
				got = append(got, number[k])
			}
			for _, r := range rows {
				sent = append(sent, (199-int(r[0].Int()))/2)
			}
			if !slices.Equal(got, c.want) || store.requests != c.requests || !slices.Equal(sent, c.want[min(int(c.offset), len(c.want)):]) {
				t.Errorf("%s, LIMIT %d OFFSET %d, %d locked and %d changed: rows %d, locks %d in %d requests; want %d in %d", shape.name, c.count, c.offset, len(c.locked), len(c.changed), sent, got, store.requests, c.want, c.requests)
			}
		}
	}
}

// lockShape is a way in which rows come to be locked.
type lockShape struct {
	key   func(k int) string
	build func(count, offset int64, wait kv.WaitPolicy) *opt.LimitNode
	name  string
}

// lockJoin has the rows of b = 1 in another table, where an index gives their order.
func (f *lockFixture) lockJoin() *lockShape {
	tab := f.table(101, "u", "kab", 1)
	ix := index(tab, "u_a", false, 2)
	for k := 1; k < 200; k += 2 {
		f.insert(tab, row(k, 1000-k, 1))
	}
	f.kv.StepStatement()
	primary, err := newIndexCodec(tab, tab.Primary())
	if err != nil {
		f.t.Fatal(err)
	}
	key := func(k int) string {
		b, err := primary.appendPrefix(nil, types.Row{types.NewInt(int64(k))})
		if err != nil {
			f.t.Fatal(err)
		}
		return string(b)
	}
	return &lockShape{key, func(count, offset int64, wait kv.WaitPolicy) *opt.LimitNode {
		c := f.cols(tab)
		scan := &opt.IndexScan{Table: tab, Index: ix, Ordinals: []int{0}}
		scan.Cols = c[:1]
		n := &opt.IndexJoin{Input: scan, Table: tab, Ordinals: []int{0, 1, 2}, KeyCols: c[:1], KeepOrder: true,
			Locking: opt.Locking{Strength: kv.Exclusive, Wait: wait, Held: true}}
		n.Cols = c
		l := &opt.LimitNode{Input: n, Count: num(count), Offset: num(offset)}
		l.Cols = n.Cols
		return l
	}, "index"}
}
