package schemachange_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"meridian/keys"
	"meridian/sql/catalog"
	"meridian/sql/session/sessiontest"
	"meridian/sql/sqlstate"
)

// forest is a model of the tables u, a (in u, cascading), p (in a, cascading) and l (in u): their rows by key.
type forest struct {
	u map[[1]int]int
	a map[[2]int]int
	p map[[3]int]int
	l map[[2]int]int
}

func (f *forest) clear() {
	f.u, f.a, f.p, f.l = map[[1]int]int{}, map[[2]int]int{}, map[[3]int]int{}, map[[2]int]int{}
}

func (f *forest) copy() forest {
	g := forest{}
	g.clear()
	for k, v := range f.u {
		g.u[k] = v
	}
	for k, v := range f.a {
		g.a[k] = v
	}
	for k, v := range f.p {
		g.p[k] = v
	}
	for k, v := range f.l {
		g.l[k] = v
	}
	return g
}

func (f *forest) dropAlbum(k [2]int) {
	delete(f.a, k)
	for p := range f.p {
		if p[0] == k[0] && p[1] == k[1] {
			delete(f.p, p)
		}
	}
}

// table gives the rows of a table in order, each as its columns.
func (f *forest) table(name string) (out [][]int) {
	switch name {
	case "u":
		for k, v := range f.u {
			out = append(out, []int{k[0], v})
		}
	case "a":
		for k, v := range f.a {
			out = append(out, []int{k[0], k[1], v})
		}
	case "p":
		for k, v := range f.p {
			out = append(out, []int{k[0], k[1], k[2], v})
		}
	case "l":
		for k, v := range f.l {
			out = append(out, []int{k[0], k[1], v})
		}
	}
	slices.SortFunc(out, slices.Compare)
	return out
}

const forestTables = `create table u (u int8 primary key, v int8);
create table a (u int8, a int8, v int8, primary key (u, a)) interleave in parent u on delete cascade;
create table p (u int8, a int8, p int8, v int8, primary key (u, a, p)) interleave in parent a on delete cascade;
create table l (u int8, l int8, v int8, primary key (u, l desc)) interleave in parent u`

// step makes one random change, or reads, and compares what the session says with the model.
func (f *forest) step(t *testing.T, c *sessiontest.Conn, dice *rand.Rand) {
	t.Helper()
	u, a, p, v := dice.IntN(6), dice.IntN(4), dice.IntN(4), dice.IntN(100)
	change := func(want sqlstate.Code, format string, args ...any) {
		t.Helper()
		text := fmt.Sprintf(format, args...)
		_, err := c.Exec(text)
		switch {
		case want == "" && err != nil:
			t.Fatalf("%s: %s", text, sessiontest.Describe(err))
		case want != "" && !sessiontest.ErrIs(err, want):
			t.Fatalf("%s: %v, want %s", text, err, want)
		}
	}
	insert := func(there, parent bool) sqlstate.Code {
		switch {
		case there:
			return sqlstate.UniqueViolation
		case !parent:
			return sqlstate.ForeignKeyViolation
		}
		return ""
	}
	_, user := f.u[[1]int{u}]
	_, album := f.a[[2]int{u, a}]
	_, photo := f.p[[3]int{u, a, p}]
	_, login := f.l[[2]int{u, a}]
	switch dice.IntN(24) {
	case 0, 1:
		if change(insert(user, true), "insert into u values (%d, %d)", u, v); !user {
			f.u[[1]int{u}] = v
		}
	case 2, 3, 4:
		if change(insert(album, user), "insert into a values (%d, %d, %d)", u, a, v); !album && user {
			f.a[[2]int{u, a}] = v
		}
	case 5, 6, 7, 8:
		if change(insert(photo, album), "insert into p values (%d, %d, %d, %d)", u, a, p, v); !photo && album {
			f.p[[3]int{u, a, p}] = v
		}
	case 9, 10:
		if change(insert(login, user), "insert into l values (%d, %d, %d)", u, a, v); !login && user {
			f.l[[2]int{u, a}] = v
		}
	case 11:
		for k := range f.l {
			if k[0] == u {
				change(sqlstate.ForeignKeyViolation, "delete from u where u = %d", u)
				return
			}
		}
		change("", "delete from u where u = %d", u)
		delete(f.u, [1]int{u})
		for k := range f.a {
			if k[0] == u {
				f.dropAlbum(k)
			}
		}
	case 12:
		change("", "delete from a where u >= %d and a = %d", u, a)
		for k := range f.a {
			if k[0] >= u && k[1] == a {
				f.dropAlbum(k)
			}
		}
	case 13:
		change("", "delete from p where u = %d and v < %d", u, v)
		for k, x := range f.p {
			if k[0] == u && x < v {
				delete(f.p, k)
			}
		}
	case 14:
		change("", "delete from l where u <= %d", u)
		for k := range f.l {
			if k[0] <= u {
				delete(f.l, k)
			}
		}
	case 15:
		change("", "update u set v = v + 1; update a set v = v + 2 where u < %d; update p set v = v + 3 where a = %d", u, a)
		for k := range f.u {
			f.u[k]++
		}
		for k := range f.a {
			if k[0] < u {
				f.a[k] += 2
			}
		}
		for k := range f.p {
			if k[1] == a {
				f.p[k] += 3
			}
		}
	case 16:
		change("", "upsert into u values (%d, %d); insert into a values (%d, %d, %d) on conflict (u, a) do update set v = excluded.v", u, v, u, a, v)
		f.u[[1]int{u}], f.a[[2]int{u, a}] = v, v
	case 17:
		to := [3]int{u, a, p + 10}
		if _, taken := f.p[to]; photo && !taken {
			change("", "update p set p = p + 10 where u = %d and a = %d and p = %d", u, a, p)
			f.p[to] = f.p[[3]int{u, a, p}]
			delete(f.p, [3]int{u, a, p})
		}
	case 18:
		switch dice.IntN(6) {
		case 0:
			change("", "truncate p")
			f.p = map[[3]int]int{}
		case 1:
			change("", "truncate a cascade")
			f.a, f.p = map[[2]int]int{}, map[[3]int]int{}
		case 2:
			change("", "truncate u, a, p, l")
			f.clear()
		case 3:
			change("", "drop table l; create table l (u int8, l int8, v int8, primary key (u, l desc)) interleave in parent u")
			f.l = map[[2]int]int{}
		}
	default:
		f.read(t, c, dice)
	}
}

func (f *forest) read(t *testing.T, c *sessiontest.Conn, dice *rand.Rand) {
	t.Helper()
	name := []string{"u", "a", "p", "l"}[dice.IntN(4)]
	rows := f.table(name)
	text := "select * from " + name
	var where []string
	for i, col := range map[string][]string{"u": {"u"}, "a": {"u", "a"}, "p": {"u", "a", "p"}, "l": {"u", "l"}}[name] {
		op, x := []string{"=", "=", "<=", ">=", "<", ">", ""}[dice.IntN(7)], dice.IntN(6)
		if op == "" {
			break
		}
		where = append(where, fmt.Sprintf("%s %s %d", col, op, x))
		rows = slices.DeleteFunc(rows, func(r []int) bool {
			switch op {
			case "=":
				return r[i] != x
			case "<=":
				return r[i] > x
			case ">=":
				return r[i] < x
			case "<":
				return r[i] >= x
			}
			return r[i] <= x
		})
	}
	if len(where) > 0 {
		text += " where " + strings.Join(where, " and ")
	}
	order := map[string][]string{"u": {"u"}, "a": {"u", "a"}, "p": {"u", "a", "p"}, "l": {"u", "l"}}[name]
	text += " order by "
	desc := dice.IntN(2) == 0
	for i, col := range order {
		if i > 0 {
			text += ", "
		}
		if text += col; desc {
			text += " desc"
		}
	}
	if desc {
		slices.Reverse(rows)
	}
	if n := dice.IntN(8); n < 4 {
		text += fmt.Sprintf(" limit %d", n)
		rows = rows[:min(n, len(rows))]
	}
	if dice.IntN(4) == 0 {
		text += " for update"
	}
	got, err := c.Exec(text)
	if err != nil {
		t.Fatalf("%s: %s", text, sessiontest.Describe(err))
	}
	want := ""
	for _, r := range rows {
		want += strings.ReplaceAll(strings.Trim(fmt.Sprint(r), "[]"), " ", " | ") + "\n"
	}
	if _, got, _ = strings.Cut(got, "\n"); got != want+fmt.Sprintf("SELECT %d", len(rows)) {
		t.Fatalf("%s:\n%s\nwant\n%s", text, got, want)
	}
}

// TestInterleavedModel: a hierarchy of tables answers as one of maps does, in transactions of each level of isolation and out of them, whatever was truncated or dropped before. In the
// end the removal leaves no key of a row that is not there.
func TestInterleavedModel(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			cl := sessiontest.New(t, 1)
			defer cl.Stop()
			cl.Nodes[0].Schema.SetRemoveAfter(10 * time.Second)
			c := cl.Nodes[0].Open(t, "root")
			defer c.Close()
			c.Must(forestTables)
			dice := rand.New(rand.NewPCG(seed, 7))
			var f forest
			f.clear()
			for range 60 {
				if dice.IntN(4) > 0 {
					f.step(t, c, dice)
					continue
				}
				c.Must("begin isolation level " + []string{"read committed", "repeatable read", "serializable"}[dice.IntN(3)])
				before := f.copy()
				for range 1 + dice.IntN(6) {
					c.Must("savepoint s")
					g := f.copy()
					g.step(t, c, dice)
					if out, err := c.Exec("release s"); err != nil {
						_ = out // the statement failed, as it should
						c.Must("rollback to s")
						continue
					}
					f = g
				}
				if dice.IntN(4) == 0 {
					c.Must("rollback")
					f = before
				} else {
					c.Must("commit")
				}
			}
			for range 40 {
				f.read(t, c, dice)
			}
			time.Sleep(time.Minute)
			for range 40 {
				f.read(t, c, dice)
			}
			d := cl.Nodes[0].Leases.Snapshot()
			var root *catalog.Table
			d.EachTable(func(x *catalog.Table) {
				if x.Name == "u" && !x.Dropped {
					root = x
				}
			})
			n, err := cl.Nodes[0].Entries(keys.IndexSpan(root.Root()))
			if err != nil || n != len(f.u)+len(f.a)+len(f.p)+len(f.l) {
				t.Errorf("seed %d: %d keys of %d rows, %v", seed, n, len(f.u)+len(f.a)+len(f.p)+len(f.l), err)
			}
		})
	}
}

// TestInterleaveExcludesReaders: nobody reads a table by a version without the knowledge that other rows are among its own, when the first table that is interleaved in it commits
// (schemachange.SC13): neither a transaction that began before, nor one that begins while the table is being made.
func TestInterleaveExcludesReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cl := sessiontest.New(t, 2)
		defer cl.Stop()
		c, early, late := cl.Nodes[0].Open(t, "root"), cl.Nodes[1].Open(t, "root"), cl.Nodes[1].Open(t, "root")
		defer c.Close()
		defer early.Close()
		defer late.Close()
		c.Must("create table u (u int8 primary key, v int8); insert into u values (1, 1), (2, 2)")
		early.Must("begin isolation level read committed")
		rows := early.Must("select * from u")
		check := func(x *sessiontest.Conn) {
			t.Helper()
			if got := x.Must("select * from u"); got != rows {
				t.Errorf("%s\nwant\n%s", got, rows)
			}
		}
		made := start(c, "begin; create table a (u int8, a int8, v int8, primary key (u, a)) interleave in parent u; insert into a values (1, 7, 7), (2, 8, 8)")
		for range 3 {
			time.Sleep(time.Second)
			check(early)
		}
		early.Must("commit")
		if err := within(t, 30*time.Second, "CREATE TABLE", made); err != nil {
			t.Fatal(sessiontest.Describe(err))
		}
		began := start(late, "begin isolation level read committed; select * from u")
		time.Sleep(time.Second)
		cl.NewsDelay.Store(int64(time.Second)) // its node does not hear of the commit yet
		committed := start(c, "commit")
		time.Sleep(200 * time.Millisecond)
		if err := within(t, 30*time.Second, "a reader", began); err != nil {
			t.Fatal(sessiontest.Describe(err))
		}
		check(late)
		late.Must("commit")
		if err := within(t, 30*time.Second, "COMMIT", committed); err != nil {
			t.Fatal(sessiontest.Describe(err))
		}
		for _, x := range []*sessiontest.Conn{early, late, c} {
			check(x)
		}
	})
}
