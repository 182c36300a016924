package exec

import (
	"errors"
	"fmt"
	"math/rand"
	"slices"
	"sort"
	"strings"
	"testing"

	"meridian/sql/catalog"
	"meridian/sql/opt"
	"meridian/sql/scalar"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// update makes UPDATE t SET ordinal = expr ... WHERE filter; expr gets the table's columns.
func (f *fixture) update(t *catalog.Table, set map[int]func(c []opt.ColumnID) scalar.Expr, filter func(c []opt.ColumnID) scalar.Expr) *opt.UpdateNode {
	scan := f.scan(t)
	if filter != nil {
		scan.Filter = []scalar.Expr{filter(scan.Cols)}
	}
	p := &opt.ProjectNode{Input: scan}
	s := &opt.Update{Table: t, Old: scan.Cols, New: f.cols(t)}
	for _, c := range scan.Cols {
		p.Cols = append(p.Cols, c)
		p.Exprs = append(p.Exprs, f.ref(c))
	}
	var ords []int
	for o := range set {
		ords = append(ords, o)
	}
	sort.Ints(ords)
	for _, o := range ords {
		c := f.col(t.Columns[o].Type)
		p.Cols = append(p.Cols, c)
		p.Exprs = append(p.Exprs, set[o](scan.Cols))
		s.Set = append(s.Set, opt.SetColumn{Ordinal: o, Col: c})
	}
	return &opt.UpdateNode{Input: p, Stmt: s}
}

func (f *fixture) delete(t *catalog.Table, filter func(c []opt.ColumnID) scalar.Expr) *opt.DeleteNode {
	scan := f.scan(t)
	if filter != nil {
		scan.Filter = []scalar.Expr{filter(scan.Cols)}
	}
	return &opt.DeleteNode{Input: scan, Stmt: &opt.Delete{Table: t, Old: scan.Cols}}
}

func is(ord int, v int64, f *fixture) func(c []opt.ColumnID) scalar.Expr {
	return func(c []opt.ColumnID) scalar.Expr { return cmp(scalar.EQ, f.ref(c[ord]), num(v)) }
}

func to(d types.Datum) func(c []opt.ColumnID) scalar.Expr {
	return func([]opt.ColumnID) scalar.Expr { return &scalar.Const{Value: d, T: types.Int8} }
}

func wantError(t *testing.T, err error, code sqlstate.Code, message, detail string) {
	t.Helper()
	var e *sqlstate.Error
	if !errors.As(err, &e) || e.Code != code || e.Message != message || detailOf(e) != detail {
		t.Errorf("got %#v\nwant %s %q %q", err, code, message, detail)
	}
}

func TestConstraintErrors(t *testing.T) {
	f := newFixture(t)
	tab := f.table(100, "t", "kabV", 1)
	index(tab, "t_a_b", true, 2, 3)
	f.insert(tab, row(1, 10, 20, "x"), row(2, nil, 20, "y"), row(3, nil, 20, "z"))
	_, err := f.tryInsert(tab, row(1, 5, 5, "x"))
	wantError(t, err, sqlstate.UniqueViolation, `duplicate key value violates unique constraint "t_pkey"`, "Key (k)=(1) already exists.")
	_, err = f.tryInsert(tab, row(4, 10, 20, "x"))
	wantError(t, err, sqlstate.UniqueViolation, `duplicate key value violates unique constraint "t_a_b"`, "Key (a, b)=(10, 20) already exists.")
	_, err = f.tryInsert(tab, row(7, 1, 1, "p"), row(7, 2, 2, "q"))
	wantError(t, err, sqlstate.UniqueViolation, `duplicate key value violates unique constraint "t_pkey"`, "Key (k)=(7) already exists.")
	_, err = f.tryInsert(tab, row(nil, 1, 1, "x"))
	wantError(t, err, sqlstate.NotNullViolation, `null value in column "k" of relation "t" violates not-null constraint`,
		"Failing row contains (null, 1, 1, x).")
	n := f.insertNode(tab, []types.Row{row(9, -5, 1, "x")})
	n.Stmt.Checks = []opt.CheckExpr{{Name: "positive", Expr: cmp(scalar.GT, f.ref(n.Stmt.New[1]), num(0))}}
	_, err = f.exec(n)
	wantError(t, err, sqlstate.CheckViolation, `new row for relation "t" violates check constraint "positive"`, "Failing row contains (9, -5, 1, x).")
	// A check that is NULL passes.
	n = f.insertNode(tab, []types.Row{row(9, nil, 1, "x")})
	n.Stmt.Checks = []opt.CheckExpr{{Name: "positive", Expr: cmp(scalar.GT, f.ref(n.Stmt.New[1]), num(0))}}
	if _, err := f.exec(n); err != nil {
		t.Error(err)
	}
	if got, want := f.contents(tab), "1 10 20 x\n2 - 20 y\n3 - 20 z\n9 - 1 x\n"; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// Random inserts, updates and deletes leave the table as a map would be, with every index complete.
func TestMutationsAgainstModel(t *testing.T) {
	rng := rand.New(rand.NewSource(11))
	for range 60 {
		f := newFixture(t)
		f.auto = rng.Intn(2) == 0
		tab := f.table(100, "t", "kabc", 1)
		index(tab, "t_a", false, 2)
		ix := index(tab, "t_b", true, 3)
		ix.Stored = []catalog.ColumnID{4}
		del := index(tab, "t_c", false, 4)
		del.State = catalog.WriteOnly
		model := map[int64]types.Row{}
		valid := func(m map[int64]types.Row) bool {
			seen := map[int64]bool{}
			for _, r := range m {
				if b := r[2]; !b.IsNull() {
					if seen[b.Int()] {
						return false
					}
					seen[b.Int()] = true
				}
			}
			return true
		}
		for step := range 40 {
			next := map[int64]types.Row{}
			for k, r := range model {
				next[k] = r
			}
			var n opt.Node
			ok := true
			where := int64(rng.Intn(4))
			switch rng.Intn(4) {
			case 0, 1:
				rows := randomRows(rng, 1+rng.Intn(3), 4, 12)
				for _, r := range rows {
					r[0] = types.NewInt(int64(rng.Intn(20)))
					if _, dup := next[r[0].Int()]; dup {
						ok = false
					}
					next[r[0].Int()] = r
				}
				n = f.insertNode(tab, rows)
			case 2:
				set := map[int]func([]opt.ColumnID) scalar.Expr{}
				vals := randomRows(rng, 1, 4, 6)[0]
				for o := 1; o < 4; o++ {
					if rng.Intn(2) == 0 {
						set[o] = to(vals[o])
					}
				}
				if len(set) == 0 {
					continue
				}
				ord := 1 + rng.Intn(3)
				for k, r := range next {
					if !r[ord].IsNull() && r[ord].Int() == where {
						c := slices.Clone(r)
						for o := range set {
							c[o] = vals[o]
						}
						next[k] = c
					}
				}
				n = f.update(tab, set, is(ord, where, f))
			case 3:
				ord := 1 + rng.Intn(3)
				for k, r := range next {
					if !r[ord].IsNull() && r[ord].Int() == where {
						delete(next, k)
					}
				}
				n = f.delete(tab, is(ord, where, f))
			}
			ok = ok && valid(next)
			_, err := f.exec(n)
			if ok != (err == nil) {
				t.Fatalf("step %d %T: model says %v, got %v\n%s", step, n, ok, err, f.contents(tab))
			}
			if ok {
				model = next
			} else if !sqlstate.Is(err, sqlstate.UniqueViolation) {
				t.Fatalf("step %d: %v", step, err)
			}
			var ks []int64
			for k := range model {
				ks = append(ks, k)
			}
			slices.Sort(ks)
			var want []types.Row
			for _, k := range ks {
				want = append(want, model[k])
			}
			if got := f.contents(tab); got != show(want) {
				t.Fatalf("step %d %T: got\n%swant\n%s", step, n, got, show(want))
			}
			// The index under construction has the rows that were written since it was added.
			tab.Indexes[3].State = catalog.Public
			f.contents(tab)
			tab.Indexes[3].State = catalog.WriteOnly
		}
	}
}

// An update of columns that no index uses writes one key; an update of the key moves the row, also onto a key
// that the same statement frees.
func TestUpdateKeys(t *testing.T) {
	f := newFixture(t)
	tab := f.table(100, "t", "kab", 1)
	index(tab, "t_a", true, 2)
	f.insert(tab, row(1, 1, 1), row(2, 2, 2), row(3, 3, 3))
	// CASE k WHEN 1 THEN a WHEN 2 THEN b ELSE c: plus or minus one without arithmetic.
	becomes := func(ord int, x, y, z int64) func(c []opt.ColumnID) scalar.Expr {
		return func(c []opt.ColumnID) scalar.Expr {
			return &scalar.Case{T: types.Int8, Whens: []scalar.When{
				{Cond: cmp(scalar.EQ, f.ref(c[ord]), num(1)), Result: num(x)},
				{Cond: cmp(scalar.EQ, f.ref(c[ord]), num(2)), Result: num(y)}}, Else: num(z)}
		}
	}
	// exec.X6: row 1 takes the key of row 2, which is still there.
	_, err := f.exec(f.update(tab, map[int]func([]opt.ColumnID) scalar.Expr{0: becomes(0, 2, 3, 4)}, nil))
	wantError(t, err, sqlstate.UniqueViolation, `duplicate key value violates unique constraint "t_pkey"`, "Key (k)=(2) already exists.")
	// Of two keys that are taken too early the first row's is named.
	_, err = f.exec(f.update(tab, map[int]func([]opt.ColumnID) scalar.Expr{1: becomes(1, 3, 1, 2)}, nil))
	wantError(t, err, sqlstate.UniqueViolation, `duplicate key value violates unique constraint "t_a"`, "Key (a)=(3) already exists.")
	n, err := f.exec(f.update(tab, map[int]func([]opt.ColumnID) scalar.Expr{0: becomes(0, 0, 1, 2), 1: becomes(1, 0, 1, 2)}, nil))
	if err != nil || n != 3 {
		t.Fatal(n, err)
	}
	if got, want := f.contents(tab), "0 0 1\n1 1 2\n2 2 3\n"; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	p := f.program(f.update(tab, map[int]func([]opt.ColumnID) scalar.Expr{2: to(types.NewInt(9))}, is(0, 2, f)))
	if _, _, err := f.runProgram(p); err != nil {
		t.Fatal(err)
	}
	if len(f.kv.pending) != 1 {
		t.Errorf("%d keys were written", len(f.kv.pending))
	}
	_, err = f.exec(f.update(tab, map[int]func([]opt.ColumnID) scalar.Expr{0: to(types.Null)}, is(0, 2, f)))
	wantError(t, err, sqlstate.NotNullViolation, `null value in column "k" of relation "t" violates not-null constraint`, "Failing row contains (null, 2, 9).")
}

// Delete-only indexes lose entries and gain none.
func TestDeleteOnlyIndex(t *testing.T) {
	f := newFixture(t)
	tab := f.table(100, "t", "ka", 1)
	ix := index(tab, "t_a", false, 2)
	f.insert(tab, row(1, 1), row(2, 2))
	ix.State = catalog.DeleteOnly
	f.insert(tab, row(3, 3))
	if _, err := f.exec(f.update(tab, map[int]func([]opt.ColumnID) scalar.Expr{1: to(types.NewInt(7))}, is(0, 1, f))); err != nil {
		t.Fatal(err)
	}
	if left := f.entries(tab, ix); len(left) != 1 || left[0] != "2" {
		t.Errorf("entries %v", left)
	}
}

func (f *fixture) conflict(t *catalog.Table, rows []types.Row, c func(existing, source []opt.ColumnID) *opt.Conflict) *opt.InsertNode {
	n := f.insertNode(t, rows)
	existing := f.cols(t)
	n.Stmt.Conflict = c(existing, n.Stmt.Source)
	n.Stmt.Conflict.Existing = existing
	return n
}

func TestOnConflict(t *testing.T) {
	f := newFixture(t)
	tab := f.table(100, "t", "kab", 1)
	index(tab, "t_a", true, 2)
	f.insert(tab, row(1, 1, 1), row(2, 2, 2))
	nothing := func(arbiters ...catalog.IndexID) func(e, s []opt.ColumnID) *opt.Conflict {
		return func(e, s []opt.ColumnID) *opt.Conflict { return &opt.Conflict{Arbiters: arbiters} }
	}
	n, err := f.exec(f.conflict(tab, []types.Row{row(1, 5, 5), row(3, 2, 5), row(4, 4, 4), row(4, 6, 6), row(5, 4, 4), row(6, nil, 6), row(7, nil, 7)}, nothing()))
	if err != nil || n != 3 {
		t.Fatal(n, err)
	}
	if got, want := f.contents(tab), "1 1 1\n2 2 2\n4 4 4\n6 - 6\n7 - 7\n"; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	// Only the named arbiter is tolerated.
	_, err = f.exec(f.conflict(tab, []types.Row{row(9, 2, 5)}, nothing(1)))
	wantError(t, err, sqlstate.UniqueViolation, `duplicate key value violates unique constraint "t_a"`, "Key (a)=(2) already exists.")
	// DO UPDATE by the secondary index: b becomes excluded.b, k stays; a row with b = 2 is left alone.
	update := func(e, s []opt.ColumnID) *opt.Conflict {
		return &opt.Conflict{Arbiters: []catalog.IndexID{2}, DoUpdate: true, Set: []opt.SetItem{{Ordinal: 2, Expr: f.ref(s[2])}},
			Where: []scalar.Expr{cmp(scalar.NE, f.ref(e[2]), num(2))}}
	}
	n, err = f.exec(f.conflict(tab, []types.Row{row(100, 1, 50), row(101, 2, 60), row(102, 8, 70)}, update))
	if err != nil || n != 2 {
		t.Fatal(n, err)
	}
	if got, want := f.contents(tab), "1 1 50\n2 2 2\n4 4 4\n6 - 6\n7 - 7\n102 8 70\n"; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	for _, rows := range [][]types.Row{{row(200, 1, 1), row(201, 1, 2)}, {row(200, 30, 1), row(201, 30, 2)}} {
		_, err = f.exec(f.conflict(tab, rows, update))
		wantError(t, err, sqlstate.CardinalityViolation, "ON CONFLICT DO UPDATE command cannot affect row a second time", "")
	}
	// Checks see the row as it becomes.
	_, err = f.exec(f.conflict(tab, []types.Row{row(200, 1, -1)}, func(e, s []opt.ColumnID) *opt.Conflict {
		c := update(e, s)
		c.Checks = []opt.CheckExpr{{Name: "b_positive", Expr: cmp(scalar.GT, f.ref(e[2]), num(0))}}
		return c
	}))
	wantError(t, err, sqlstate.CheckViolation, `new row for relation "t" violates check constraint "b_positive"`, "Failing row contains (1, 1, -1).")
}

func TestUpsert(t *testing.T) {
	for _, secondary := range []bool{false, true} {
		f := newFixture(t)
		tab := f.table(100, "t", "ka", 1)
		if secondary {
			index(tab, "t_a", false, 2)
		}
		f.insert(tab, row(1, 1))
		n := f.insertNode(tab, []types.Row{row(1, 10), row(2, 20), row(2, 30)})
		n.Stmt.Upsert = true
		f.kv.gets = 0
		count, err := f.exec(n)
		if err != nil || count != 3 {
			t.Fatal(count, err)
		}
		if got, want := f.contents(tab), "1 10\n2 30\n"; got != want {
			t.Errorf("secondary %v: got\n%swant\n%s", secondary, got, want)
		}
		if !secondary && f.kv.gets != 0 {
			t.Error("a blind upsert has read")
		}
	}
}

func TestReturning(t *testing.T) {
	f := newFixture(t)
	tab := f.table(100, "t", "kab", 1)
	n := f.insertNode(tab, []types.Row{row(1, 2, 3), row(4, 5, 6)})
	out := f.col(types.Int8)
	n.Stmt.Returning = []opt.ProjectItem{{Col: out, Expr: f.ref(n.Stmt.New[1])}}
	n.Cols = []opt.ColumnID{out}
	if got := show(f.run(n)); got != "2\n5\n" {
		t.Errorf("insert returned %q", got)
	}
	f.kv.StepStatement()
	u := f.update(tab, map[int]func([]opt.ColumnID) scalar.Expr{1: to(types.NewInt(9))}, nil)
	o1, o2 := f.col(types.Int8), f.col(types.Int8)
	u.Stmt.Returning = []opt.ProjectItem{{Col: o1, Expr: f.ref(u.Stmt.New[1])}, {Col: o2, Expr: f.ref(u.Stmt.Old[1])}}
	u.Cols = []opt.ColumnID{o1, o2}
	if got := show(f.run(u)); got != "9 2\n9 5\n" {
		t.Errorf("update returned %q", got)
	}
	f.kv.StepStatement()
	d := f.delete(tab, is(0, 1, f))
	out = f.col(types.Int8)
	d.Stmt.Returning = []opt.ProjectItem{{Col: out, Expr: f.ref(d.Stmt.Old[2])}}
	d.Cols = []opt.ColumnID{out}
	if got := show(f.run(d)); got != "3\n" {
		t.Errorf("delete returned %q", got)
	}
}

// family is a parent and a child table whose column a refers to the parent's k.
func family(f *fixture, onDelete, onUpdate catalog.Action, indexed bool) (parent, child *catalog.Table) {
	parent = f.table(100, "parent", "kp", 1)
	child = f.table(101, "child", "kab", 1)
	if indexed {
		index(child, "child_a", false, 2)
	}
	child.Foreign = []catalog.ForeignKey{{ID: 1, Name: "child_a_fkey", Columns: []catalog.ColumnID{2}, RefTable: 100,
		RefColumns: []catalog.ColumnID{1}, OnDelete: onDelete, OnUpdate: onUpdate}}
	parent.ReferencedBy = []catalog.Reference{{Table: 101, Constraint: 1}}
	f.insert(parent, row(1, 1), row(2, 2), row(3, 3))
	f.insert(child, row(10, 1, 0), row(11, 1, 0), row(12, 2, 0), row(13, nil, 0))
	return parent, child
}

func TestForeignKeys(t *testing.T) {
	for _, indexed := range []bool{false, true} {
		f := newFixture(t)
		f.auto = indexed
		parent, child := family(f, catalog.NoAction, catalog.NoAction, indexed)
		_, err := f.tryInsert(child, row(20, 9, 0))
		wantError(t, err, sqlstate.ForeignKeyViolation, `insert or update on table "child" violates foreign key constraint "child_a_fkey"`,
			`Key (a)=(9) is not present in table "parent".`)
		_, err = f.exec(f.update(child, map[int]func([]opt.ColumnID) scalar.Expr{1: to(types.NewInt(9))}, is(0, 10, f)))
		wantError(t, err, sqlstate.ForeignKeyViolation, `insert or update on table "child" violates foreign key constraint "child_a_fkey"`,
			`Key (a)=(9) is not present in table "parent".`)
		_, err = f.exec(f.delete(parent, is(0, 1, f)))
		wantError(t, err, sqlstate.ForeignKeyViolation, `update or delete on table "parent" violates foreign key constraint "child_a_fkey" on table "child"`,
			`Key (k)=(1) is still referenced from table "child".`)
		_, err = f.exec(f.update(parent, map[int]func([]opt.ColumnID) scalar.Expr{0: to(types.NewInt(5))}, is(0, 2, f)))
		wantError(t, err, sqlstate.ForeignKeyViolation, `update or delete on table "parent" violates foreign key constraint "child_a_fkey" on table "child"`,
			`Key (k)=(2) is still referenced from table "child".`)
		for _, n := range []opt.Node{f.delete(parent, is(0, 3, f)),
			f.update(child, map[int]func([]opt.ColumnID) scalar.Expr{2: to(types.NewInt(1))}, nil),
			f.update(parent, map[int]func([]opt.ColumnID) scalar.Expr{1: to(types.NewInt(8))}, nil)} {
			if _, err := f.exec(n); err != nil {
				t.Errorf("%T: %v", n, err)
			}
		}
		if got, want := f.contents(parent)+f.contents(child), "1 8\n2 8\n10 1 1\n11 1 1\n12 2 1\n13 - 1\n"; got != want {
			t.Errorf("got\n%swant\n%s", got, want)
		}
	}
}

func TestForeignKeyActions(t *testing.T) {
	for _, c := range []struct {
		del, upd catalog.Action
		deleted  string // after deleting parent 1
		updated  string // after changing parent 2's key to 7
	}{
		{catalog.Cascade, catalog.Cascade, "12 2 0\n13 - 0\n", "12 7 0\n13 - 0\n"},
		{catalog.SetNull, catalog.SetNull, "10 - 0\n11 - 0\n12 2 0\n13 - 0\n", "10 - 0\n11 - 0\n12 - 0\n13 - 0\n"},
	} {
		for _, indexed := range []bool{false, true} {
			f := newFixture(t)
			f.auto = true
			parent, child := family(f, c.del, c.upd, indexed)
			if n, err := f.exec(f.delete(parent, is(0, 1, f))); err != nil || n != 1 {
				t.Fatal(n, err)
			}
			if got := f.contents(child); got != c.deleted {
				t.Errorf("after delete: got\n%swant\n%s", got, c.deleted)
			}
			if _, err := f.exec(f.update(parent, map[int]func([]opt.ColumnID) scalar.Expr{0: to(types.NewInt(7))}, is(0, 2, f))); err != nil {
				t.Fatal(err)
			}
			if got := f.contents(child); got != c.updated {
				t.Errorf("after update: got\n%swant\n%s", got, c.updated)
			}
		}
	}
}

// A table that refers to itself: parents may come with their children, and a cascade follows a chain.
func TestSelfReference(t *testing.T) {
	f := newFixture(t)
	tab := f.table(100, "t", "kp", 1)
	tab.Foreign = []catalog.ForeignKey{{ID: 1, Name: "t_p_fkey", Columns: []catalog.ColumnID{2}, RefTable: 100, RefColumns: []catalog.ColumnID{1},
		OnDelete: catalog.Cascade}}
	f.insert(tab, row(3, 2), row(2, 1), row(1, nil), row(4, 4), row(9, nil))
	_, err := f.tryInsert(tab, row(5, 6))
	wantError(t, err, sqlstate.ForeignKeyViolation, `insert or update on table "t" violates foreign key constraint "t_p_fkey"`, `Key (p)=(6) is not present in table "t".`)
	if n, err := f.exec(f.delete(tab, is(0, 1, f))); err != nil || n != 1 {
		t.Fatal(n, err)
	}
	if got, want := f.contents(tab), "4 4\n9 -\n"; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if n, err := f.exec(f.delete(tab, nil)); err != nil || n != 2 {
		t.Fatal(n, err)
	}
	if got := f.contents(tab); got != "" {
		t.Errorf("left %s", got)
	}
}

// The last batch of a statement that is a transaction carries the commit, unless it violates a foreign key.
func TestAutoCommit(t *testing.T) {
	f := newFixture(t)
	f.auto = true
	tab := f.table(50, "t", "ka", 1)
	var rows []types.Row
	for k := range writeBatchOps + 10 {
		rows = append(rows, row(k, k))
	}
	f.insert(tab, rows...)
	if f.kv.writes != 2 || f.kv.commits != 1 {
		t.Errorf("%d writes, %d commits", f.kv.writes, f.kv.commits)
	}
	f.kv.commits = 0
	parent, _ := family(f, catalog.NoAction, catalog.NoAction, true)
	f.kv.commits = 0
	if _, err := f.exec(f.delete(parent, is(0, 3, f))); err != nil {
		t.Fatal(err)
	}
	if f.kv.commits != 1 {
		t.Error("the check of a foreign key kept the commit from going with the write")
	}
	f.kv.commits = 0
	if _, err := f.exec(f.delete(parent, is(0, 1, f))); err == nil || f.kv.commits != 0 {
		t.Error("committed a violation", err)
	}
}

// An update whose input has a row twice changes it once.
func TestUpdateFromDuplicates(t *testing.T) {
	f := newFixture(t)
	tab := f.table(100, "t", "ka", 1)
	f.insert(tab, row(1, 0), row(2, 0))
	scan := f.scan(tab)
	from := f.values(2, []types.Row{row(1, 7), row(1, 8)})
	j := &opt.HashJoin{Left: scan, Right: from, LeftKeys: scan.Cols[:1], RightKeys: from.Cols[:1]}
	j.Cols = append(slices.Clone(scan.Cols), from.Cols...)
	n := &opt.UpdateNode{Input: j, Stmt: &opt.Update{Table: tab, Old: scan.Cols, New: f.cols(tab), Set: []opt.SetColumn{{Ordinal: 1, Col: from.Cols[1]}}}}
	if count, err := f.exec(n); err != nil || count != 1 {
		t.Fatal(count, err)
	}
	if got, want := f.contents(tab), "1 7\n2 0\n"; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// A mutation in WITH runs to its end before the first row comes out, and its rows feed the main query.
func TestMutationInWith(t *testing.T) {
	f := newFixture(t)
	tab := f.table(100, "t", "ka", 1)
	in := f.insertNode(tab, []types.Row{row(1, 2), row(3, 4)})
	out := f.col(types.Int8)
	in.Stmt.Returning = []opt.ProjectItem{{Col: out, Expr: f.ref(in.Stmt.New[0])}}
	in.Cols = []opt.ColumnID{out}
	main := &opt.WithScanNode{ID: 1}
	main.Cols = []opt.ColumnID{f.col(types.Int8)}
	w := &opt.WithNode{ID: 1, Binding: in, BindCols: in.Cols, Main: main}
	w.Cols = main.Cols
	if got := show(f.run(w)); got != "1\n3\n" {
		t.Errorf("got %q", got)
	}
	f.kv.StepStatement()
	if got := f.contents(tab); got != "1 2\n3 4\n" {
		t.Errorf("table %q", got)
	}
}

func TestCopy(t *testing.T) {
	f := newFixture(t)
	tab := f.table(100, "t", "kaV", 1)
	index(tab, "t_a", true, 2)
	in := &opt.ValuesNode{}
	var es []scalar.Expr
	for i := range tab.Columns {
		in.Cols = append(in.Cols, f.col(tab.Columns[i].Type))
		es = append(es, &scalar.Placeholder{Index: i, T: tab.Columns[i].Type})
	}
	in.Rows = [][]scalar.Expr{es}
	p := f.program(&opt.InsertNode{Input: in, Stmt: &opt.Insert{Table: tab, Source: in.Cols, New: f.cols(tab)}})
	env := Env{Txn: f.kv, Scalar: &scalar.Context{Context: t.Context()}}
	w, err := NewCopyWriter(p, &env)
	if err != nil {
		t.Fatal(err)
	}
	const rows = 10_000
	for k := range rows {
		if err := w.Add(t.Context(), row(k, k+1, fmt.Sprint("v", k))); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.Close()
	if got := strings.Count(f.contents(tab), "\n"); got != rows {
		t.Errorf("%d rows", got)
	}
	w, err = NewCopyWriter(p, &env)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if err := w.Add(t.Context(), row(3, -3, "x")); err != nil {
		t.Fatal(err)
	}
	err = w.Flush(t.Context())
	wantError(t, err, sqlstate.UniqueViolation, `duplicate key value violates unique constraint "t_pkey"`, "Key (k)=(3) already exists.")
}

func TestBackfill(t *testing.T) {
	for _, unique := range []bool{false, true} {
		f := newFixture(t)
		tab := f.table(100, "t", "kab", 1)
		for k := range 50 {
			f.insert(tab, row(k, k/2, 100-k))
		}
		f.insert(tab, row(60, 1000, nil), row(61, 1000, nil))
		ix := index(tab, "t_b", unique, 3)
		ix.State = catalog.WriteOnly
		f.insert(tab, row(70, 0, 0)) // written by a node that knows the index
		b, err := NewBackfill(t.Context(), tab, ix, Options{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		span := b.Span()
		for steps := 0; ; steps++ {
			resume, err := b.Step(t.Context(), f.kv, span, 7)
			if err != nil {
				t.Fatal(err)
			}
			f.kv.StepStatement()
			if resume == nil {
				if steps != 7 {
					t.Errorf("%d steps", steps)
				}
				break
			}
			span = *resume
		}
		ix.State = catalog.Public
		f.contents(tab)
	}
	// Duplicates, within a step and across steps.
	for _, limit := range []int64{1, 100} {
		f := newFixture(t)
		tab := f.table(100, "t", "ka", 1)
		f.insert(tab, row(1, 5), row(2, 5))
		ix := index(tab, "t_a", true, 2)
		ix.State = catalog.WriteOnly
		b, err := NewBackfill(t.Context(), tab, ix, Options{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		span := b.Span()
		for {
			resume, err := b.Step(t.Context(), f.kv, span, limit)
			f.kv.StepStatement()
			if err != nil {
				wantError(t, err, sqlstate.UniqueViolation, `could not create unique index "t_a"`, "Key (a)=(5) is duplicated.")
				break
			}
			if resume == nil {
				t.Fatal("no error")
			}
			span = *resume
		}
	}
}
