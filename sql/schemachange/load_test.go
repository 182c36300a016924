package schemachange_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"meridian/keys"
	"meridian/kv"
	"meridian/sql/session/sessiontest"
	"meridian/sql/sqlstate"
)

func count(c *sessiontest.Conn, table string) string {
	return strings.Split(c.Must("select count(*) from "+table), "\n")[1]
}

// Rows of tables that a transaction makes or empties are loaded; whether or not the transaction commits, a table has
// the right rows.
func TestLoadedTables(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := sessiontest.New(t, 2)
		defer c.Stop()
		n := c.Nodes[0]
		a, b := n.Open(t, "root"), c.Nodes[1].Open(t, "root")
		defer a.Close()
		defer b.Close()
		const many = " select g, 'row ' || g from generate_series(1, 400) g"
		want := func(table, rows string) {
			t.Helper()
			for _, x := range []*sessiontest.Conn{a, b} {
				if got := count(x, table); got != rows {
					t.Fatalf("%s has %s rows, want %s", table, got, rows)
				}
			}
		}

		a.Must("begin; create table t (id int primary key, v text, unique (v)); insert into t" + many +
			"; update t set v = 'changed' where id = 5; delete from t where id = 6; insert into t select id + 10000, v || '!' from t; commit")
		want("t", "798")
		verify(t, n, "t")
		if c.KV.Seen("LoadRequest") == 0 {
			t.Fatal("nothing was loaded")
		}
		// As a statement of its own, and with an index that is made in between.
		a.Must("create table u as select g as id from generate_series(1, 300) g")
		want("u", "300")
		a.Must("begin; create table w (id int, v text);  insert into w" + many + "; create index wv on w (v); insert into w" + many + "; commit")
		want("w", "800")
		verify(t, n, "w")

		// If the transaction does not commit, the table keeps its rows and gets no others.
		span := func() keys.Span { return keys.TableSpan(table(t, n, "t").ID) }
		before, _ := n.Entries(span())
		a.Must("begin; truncate t; insert into t" + many + "; rollback")
		want("t", "798")
		time.Sleep(time.Minute)
		if after, _ := n.Entries(span()); after != before {
			t.Fatalf("%d entries after a rollback, %d before", after, before)
		}
		a.Must("begin; truncate t; insert into t" + many + "; truncate t; insert into t values (1, 'one'); commit")
		want("t", "1")
		verify(t, n, "t")

		// A duplicate is found wherever it is, and its statement fails.
		for _, q := range []string{
			"begin; truncate t; insert into t" + many + "; insert into t" + many,
			"begin; truncate t; insert into t" + many + "; insert into t values (400, 'x')",
			"begin; truncate t; insert into t select g % 399, g::text from generate_series(1, 400) g",
			"begin; truncate t; insert into t select g, (g % 399)::text from generate_series(1, 400) g",
		} {
			if _, err := a.Exec(q); !sessiontest.ErrIs(err, sqlstate.UniqueViolation) {
				t.Errorf("%s: %v", q, err)
			}
			a.Must("rollback")
			want("t", "1")
		}

		// Of two transactions that empty the table at once, one wins, with its own rows only.
		var wg sync.WaitGroup
		for i, x := range []*sessiontest.Conn{a, b} {
			wg.Go(func() {
				for range 5 {
					q := "begin; truncate t; insert into t" + many + "; commit"
					if i == 1 {
						q = "begin; truncate t; insert into t select g, 'other ' || g from generate_series(301, 600) g; commit"
					}
					if _, err := x.Exec(q); err != nil {
						if !sessiontest.ErrIs(err, sqlstate.SerializationFailure) {
							t.Errorf("%s: %s", q, sessiontest.Describe(err))
						}
						x.Exec("rollback")
					}
				}
			})
		}
		wg.Wait()
		if got := count(a, "t"); got != "400" && got != "300" {
			t.Errorf("%s rows", got)
		}
		verify(t, n, "t")
		verify(t, c.Nodes[1], "t")

		// ROLLBACK TO undoes exactly the statements after the savepoint.
		a.Must("begin; create table s (id int primary key, v text); savepoint x; insert into s" + many + "; rollback to x; insert into s values (1, 'one'); commit")
		want("s", "1")
	})
}

// A transaction that reads at a time before rows were loaded does not see any of them, though they carry timestamps from
// before the commit.
func TestLoadedHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := sessiontest.New(t, 2)
		defer c.Stop()
		a, b := c.Nodes[0].Open(t, "root"), c.Nodes[1].Open(t, "root")
		defer a.Close()
		defer b.Close()
		a.Must("create table t (id int primary key); create table flag (id int primary key); insert into flag values (1)")
		time.Sleep(time.Minute)
		a.Must("begin; truncate t; insert into t select generate_series(1, 2000); update flag set id = 2")
		time.Sleep(20 * time.Second)
		a.Must("commit")
		time.Sleep(2 * time.Second)
		if out := b.Must("select count(*) from t as of system time '-10s'"); strings.Contains(out, "2000") {
			t.Error(out) // a moment before the commit the table has its rows of before the truncation
		}
		time.Sleep(time.Minute)
		if out := b.Must("select count(*) from t as of system time '-10s'"); !strings.Contains(out, "2000") {
			t.Error(out)
		}
	})
}

// A transaction writes between the moment at which a backfill reads rows and the one at which it loads their entries. An
// entry that only its own row can have stays as the writer has left it; the rows of other entries, and no more, are locked
// and read again.
func TestFillMeetsWriters(t *testing.T) {
	const rows = 1000
	for _, c := range []struct {
		name, create string
		write        []string
		locked       int    // rows
		fails        string // with this detail
	}{
		{name: "nobody", create: "create unique index x on t (v)"},
		{name: "entries with the row's identity", create: "create index x on t (v)",
			write: []string{"update t set v = v + 1 where id < 50", "update t set v = v - 1 where id between 20 and 29", "delete from t where id = 60",
				"insert into t values (5000, 1)", "update t set w = 7 where id > 900"}},
		{name: "stored columns", create: "create index x on t (v) include (w)", write: []string{"update t set w = 7 where id < 50", "delete from t where id = 60"}},
		{name: "a unique index", create: "create unique index x on t (v)",
			write: []string{"update t set v = v + 5000 where id < 50", "update t set v = v - 5000 where id between 20 and 29", "update t set w = 7 where id > 900"}, locked: 49},
		{name: "keys that change hands", create: "create unique index x on t (v)",
			write: []string{"update t set v = 9999 where id = 1", "update t set v = 1 where id = 2", "update t set v = 2 where id = 1"}, locked: 2},
		{name: "a duplicate", create: "create unique index x on t (v)",
			write: []string{"insert into t values (0, 3)"}, locked: 1, fails: "Key (v)=(3) is duplicated."},
		{name: "a duplicate that was there for a moment", create: "create unique index x on t (v)",
			write: []string{"insert into t values (0, 3)", "delete from t where id = 0"}, locked: 1},
		{name: "all of them", create: "create unique index x on t (v)", write: []string{"update t set v = v + 5000"}}, // they are read again
	} {
		t.Run(c.name, func(t *testing.T) {
			online(t, 2, func(t *testing.T, cl *sessiontest.Cluster) {
				a, b := cl.Nodes[0].Open(t, "root"), cl.Nodes[1].Open(t, "root")
				defer a.Close()
				defer b.Close()
				a.Must(fmt.Sprintf("create table t (id int primary key, v int, w int); insert into t select g, g from generate_series(1, %d) g", rows))
				var (
					mu      sync.Mutex // guards what follows
					written bool
					locked  = map[string]bool{}
				)
				cl.Meet(func(batch *kv.Batch) {
					for _, r := range batch.Requests {
						switch r := r.(type) {
						case *kv.LoadRequest:
							mu.Lock()
							first := !written
							written = true
							mu.Unlock()
							for i := 0; first && i < len(c.write); i++ {
								if _, err := b.Exec(c.write[i]); err != nil {
									t.Errorf("%s: %v", c.write[i], err)
								}
							}
						case *kv.GetRequest:
							if r.Lock == kv.Shared {
								mu.Lock()
								locked[string(r.Key)] = true
								mu.Unlock()
							}
						case *kv.ScanRequest:
							if r.Lock == kv.Shared {
								t.Errorf("rows from %s to %s are locked", r.Start, r.End)
							}
						}
					}
				})
				_, err := a.Exec(c.create)
				if c.fails == "" && err != nil || c.fails != "" && (!sessiontest.ErrIs(err, sqlstate.UniqueViolation) || !strings.Contains(sessiontest.Describe(err), c.fails)) {
					t.Fatalf("%s: %v", c.create, err)
				}
				if !written || len(locked) != c.locked {
					t.Errorf("%d rows were locked, want %d", len(locked), c.locked)
				}
				verify(t, cl.Nodes[1], "t")
			})
		})
	}
}

// Most entries of a backfill are refused each time, some rows are locked for long, others are gone: the rows are filled many at a time nevertheless.
func TestFillManyRows(t *testing.T) {
	online(t, 2, func(t *testing.T, cl *sessiontest.Cluster) {
		a, b, locker := cl.Nodes[0].Open(t, "root"), cl.Nodes[1].Open(t, "root"), cl.Nodes[1].Open(t, "root")
		defer a.Close()
		defer b.Close()
		defer locker.Close()
		a.Must("create table t (id int primary key, v int, w int); insert into t select g, g from generate_series(1, 2000) g")
		var (
			mu      sync.Mutex // guards what follows
			loads   int
			txns    = map[kv.TxnID]bool{}
			release sync.WaitGroup
		)
		cl.Meet(func(batch *kv.Batch) {
			for _, r := range batch.Requests {
				switch r := r.(type) {
				case *kv.LoadRequest:
					mu.Lock()
					loads++
					n := loads
					mu.Unlock()
					b.Must(fmt.Sprintf("update t set v = id + %d", 2000*n))
					if n == 2 {
						b.Must("delete from t where id between 200 and 1200")
						locker.Must("begin; select from t where id between 1300 and 1500 for update")
						release.Go(func() {
							time.Sleep(5 * time.Second)
							locker.Must("commit")
						})
					}
				case *kv.GetRequest:
					if r.Lock == kv.Shared {
						mu.Lock()
						txns[batch.Txn.ID] = true
						mu.Unlock()
					}
				}
			}
		})
		a.Must("create unique index x on t (v)")
		release.Wait()
		if loads != 2 || len(txns) == 0 || len(txns) > 60 {
			t.Errorf("%d loads, and %d transactions filled rows", loads, len(txns))
		}
		verify(t, cl.Nodes[1], "t")
	})
}
