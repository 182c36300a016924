package schemachange_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"meridian/keys"
	"meridian/sql/catalog"
	"meridian/sql/rowcode"
	"meridian/sql/session"
	"meridian/sql/session/sessiontest"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
	"meridian/txn"
)

// table is a relation as a node knows it.
func table(t testing.TB, n *sessiontest.Node, name string) *catalog.Table {
	var found *catalog.Table
	n.Leases.Snapshot().EachTable(func(x *catalog.Table) {
		if x.Name == name {
			found = x
		}
	})
	if found == nil {
		t.Fatalf("no table %s", name)
	}
	return found
}

func scan(t testing.TB, n *sessiontest.Node, span keys.Span) map[string]string {
	rows, err := n.DB.Scan(context.Background(), span)
	if err != nil {
		t.Fatal(err)
	}
	out := make(map[string]string, len(rows))
	for _, r := range rows {
		out[string(r.Key)] = string(r.Value)
	}
	return out
}

// verify checks that every index has one entry for every row, and no other; it reads the stored keys.
func verify(t testing.TB, n *sessiontest.Node, name string) {
	t.Helper()
	x := table(t, n, name)
	if len(x.Mutations) > 0 {
		t.Errorf("mutations are left: %+v", x.Mutations)
	}
	var all []int
	for i := range x.Columns {
		if x.Columns[i].State != catalog.Public {
			t.Errorf("column %q is %s", x.Columns[i].Name, x.Columns[i].State)
		}
		all = append(all, i)
	}
	dec, err := rowcode.NewDecoder(x, x.Primary(), all)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := n.DB.Scan(context.Background(), keys.IndexSpan(x.ID, x.Primary().ID))
	if err != nil {
		t.Fatal(err)
	}
	known := map[catalog.IndexID]bool{}
	for i := range x.Indexes {
		ix := &x.Indexes[i]
		known[ix.ID] = true
		if ix.State != catalog.Public {
			t.Errorf("index %q is %s", ix.Name, ix.State)
		}
		codec, err := rowcode.NewIndex(x, ix)
		if err != nil {
			t.Fatal(err)
		}
		have := scan(t, n, keys.IndexSpan(x.ID, ix.ID))
		row := make(types.Row, len(x.Columns))
		for _, r := range rows {
			if err := dec.Decode(r.Key, r.Value, row); err != nil {
				t.Fatal(err)
			}
			k, err := codec.AppendKey(nil, row)
			if err != nil {
				t.Fatal(err)
			}
			v, ok := have[string(k)]
			if !ok {
				t.Errorf("index %q lacks the entry of row %v", ix.Name, row)
			}
			// Entries from before a primary key took the place of the hidden column may still end with that column.
			if i > 0 && !strings.HasPrefix(v, string(codec.AppendValue(nil, row))) {
				t.Errorf("index %q has a wrong entry for row %v", ix.Name, row)
			}
			delete(have, string(k))
		}
		if len(have) > 0 {
			t.Errorf("index %q has %d entries too many", ix.Name, len(have))
		}
	}
}

// online calls f with n nodes over a store that is a millisecond away.
func online(t *testing.T, n int, f func(t *testing.T, c *sessiontest.Cluster)) { onlineBy(t, "", n, f) }

// onlineBy is online; versions are published in one of the ways below.
func onlineBy(t *testing.T, how string, n int, f func(t *testing.T, c *sessiontest.Cluster)) {
	synctest.Test(t, func(t *testing.T) {
		c := sessiontest.New(t, n)
		defer c.Stop()
		c.KV.Latency.Store(int64(time.Millisecond))
		if how != "" {
			conn := c.Nodes[0].Open(t, "root")
			conn.Must(how)
			conn.Close()
			time.Sleep(2 * time.Second) // a poll
		}
		f(t, c)
	})
}

// The ways to publish a version: as ever, registered for a time of the nodes' clocks, or of true time (schemachange.SC14).
var ways = []string{"", "set cluster setting sql.schema_change.registered = 'always'", "alter database defaultdb set external_consistency = on"}

// work changes rows at random until it is told to stop, one statement for each turn that it gets. Errors that a client may
// meet are only counted.
func work(t testing.TB, n *sessiontest.Node, seed uint64, name string, stop <-chan struct{}, turns chan struct{}, cols string) {
	c := n.Open(t, "root")
	defer c.Close()
	dice := rand.New(rand.NewPCG(seed, 0))
	for i := 0; ; i++ {
		select {
		case <-stop:
			return
		default:
		}
		id, v := dice.IntN(60), dice.IntN(1000)
		var q string
		switch dice.IntN(4) {
		case 0:
			q = fmt.Sprintf("delete from %s where id = %d", name, id)
		case 1:
			q = fmt.Sprintf("insert into %s (%s) values (%d, %d)", name, cols, id+int(seed)*100, v)
		case 2:
			q = fmt.Sprintf("insert into %s (%s) values (%d, %d); update %s set v = v + 1 where id = %d", name, cols, id+1000*int(seed), v, name, id)
		default:
			q = fmt.Sprintf("update %s set v = %d where id = %d", name, v, id)
		}
		turns <- struct{}{}
		_, err := c.Exec(q)
		<-turns
		if err != nil {
			switch session.Outcome(err).Code {
			case sqlstate.UniqueViolation, sqlstate.SerializationFailure, sqlstate.CheckViolation, sqlstate.NotNullViolation:
			default:
				t.Errorf("%s: %s", q, sessiontest.Describe(err))
				return
			}
		}
		time.Sleep(time.Duration(1+dice.IntN(4)) * time.Millisecond)
	}
}

// Changes of the schema while three nodes write: afterwards every index is complete and exact (schemachange.SC1, schemachange.SC2).
func TestOnlineChanges(t *testing.T) {
	changes := []string{
		"create index ti on t (v)",
		"create index tw on t (w, id desc)",
		"alter table t add column x int default 7",
		"create index tx on t (x) ",
		"drop index ti",
		"create unique index tu on t (id, v)",
		"alter table t add primary key (id)",
		"alter table t add check (v >= 0)",
		"alter table t drop column w",
		"alter table t alter column v set not null",
		"create index ti on t (v)",
		"alter table t alter primary key using columns (v, id)",
		"alter table t drop column x",
	}
	for seed := range uint64(6) {
		onlineBy(t, ways[seed%3], 3, func(t *testing.T, c *sessiontest.Cluster) {
			ddl := c.Nodes[0].Open(t, "root")
			defer ddl.Close()
			ddl.Must("create table t (id int, v int, w text default 'w'); insert into t select g, g, 'r' || g from generate_series(1, 50) g")
			stop, turns := make(chan struct{}), make(chan struct{}, len(c.Nodes))
			var wg sync.WaitGroup
			for i, n := range c.Nodes {
				wg.Go(func() { work(t, n, 10*seed+uint64(i), "t", stop, turns, "id, v") })
			}
			for _, q := range changes {
				time.Sleep(20 * time.Millisecond)
				out, err := ddl.Exec(q)
				// Rows of the workers may not be unique, and there may be NULLs: then the change is refused.
				if err != nil && !sessiontest.ErrIs(err, sqlstate.UniqueViolation) && !sessiontest.ErrIs(err, sqlstate.UndefinedObject) &&
					!sessiontest.ErrIs(err, sqlstate.FeatureNotSupported) {
					t.Errorf("%s: %s %s", q, out, sessiontest.Describe(err))
				}
				if q == "create index tx on t (x) " {
					// Make the rows unique, so that the primary key has a chance. The workers pause meanwhile: a statement that reads
					// all rows can lose against writers as long as there are any, and the table grows.
					for range cap(turns) {
						turns <- struct{}{}
					}
					ddl.Must("delete from t where exists (select 1 from t o where o.id = t.id and o.v > t.v)")
					if out, err := ddl.Exec("create unique index tid on t (id)"); err != nil && !sessiontest.ErrIs(err, sqlstate.UniqueViolation) {
						t.Errorf("%s %s", out, sessiontest.Describe(err))
					}
					for range cap(turns) {
						<-turns
					}
				}
			}
			close(stop)
			wg.Wait()
			for _, n := range c.Nodes {
				verify(t, n, "t")
			}
		})
	}
}

// A node dies while it fills an index: another one finishes the job.
func TestJobOutlivesItsNode(t *testing.T) {
	online(t, 3, func(t *testing.T, c *sessiontest.Cluster) {
		a := c.Nodes[0].Open(t, "root")
		a.Must("create table t (id int primary key, v int); insert into t select g, g from generate_series(1, 3000) g")
		go a.ExecContext(c.Nodes[0].Host.Group.Context(), "create index ti on t (v)")
		for len(table(t, c.Nodes[1], "t").Mutations) == 0 {
			time.Sleep(time.Millisecond)
		}
		c.Nodes[0].Kill()
		b := c.Nodes[1].Open(t, "root")
		defer b.Close()
		b.Must("insert into t values (100000, 1)")
		time.Sleep(2 * time.Minute)
		verify(t, c.Nodes[1], "t")
		if len(table(t, c.Nodes[2], "t").Indexes) != 2 {
			t.Error("the index is not there")
		}
	})
}

// A node dies while it waits for all others to write an index. The node that goes on with its job has to wait for them as well
// before the index is filled (schemachange.SC2): here for a statement that began before, and takes a minute.
func TestTakenUpTooEarly(t *testing.T) {
	online(t, 3, func(t *testing.T, c *sessiontest.Cluster) {
		a := c.Nodes[0].Open(t, "root")
		first, late := c.Nodes[2].Open(t, "root"), c.Nodes[2].Open(t, "root")
		defer first.Close()
		defer late.Close()
		a.Must("create table t (id int primary key, v int); insert into t select g, g from generate_series(1, 30) g")
		version := func() uint64 { return table(t, c.Nodes[1], "t").Version }
		was := version()
		first.Must("begin; select * from t where id = 2")
		go a.ExecContext(c.Nodes[0].Host.Group.Context(), "create index ti on t (v)")
		for version() == was { // now delete-only; the next version waits for the first transaction
			time.Sleep(time.Millisecond)
		}
		done := make(chan error, 1)
		go func() {
			_, err := late.Exec("insert into t select 100, 100 from (select pg_sleep(60)) s")
			done <- err
		}()
		time.Sleep(100 * time.Millisecond)
		first.Must("commit")
		for version() == was+1 { // now write-only, but not on all nodes
			time.Sleep(time.Millisecond)
		}
		c.Nodes[0].Kill()
		// Another node takes the job over before that statement ends.
		if err := <-done; err != nil {
			t.Fatal(sessiontest.Describe(err))
		}
		time.Sleep(time.Minute)
		for _, n := range c.Nodes[1:] {
			verify(t, n, "t")
			if len(table(t, n, "t").Indexes) != 2 {
				t.Error("the index is not there")
			}
		}
	})
}

// A column may be added with a constraint: while it is being added, others write its default, and the constraint holds
// for that.
func TestColumnWithConstraint(t *testing.T) {
	online(t, 2, func(t *testing.T, c *sessiontest.Cluster) {
		a, b := c.Nodes[0].Open(t, "root"), c.Nodes[1].Open(t, "root")
		defer a.Close()
		defer b.Close()
		a.Must("create table p (id int primary key); insert into p values (5)")
		for _, change := range []struct {
			text string
			code sqlstate.Code
		}{
			{"alter table t add column x int default 5 check (x > 3)", ""},
			{"alter table t add column x int default 5 check (x > 7)", sqlstate.CheckViolation},
			{"alter table t add column x int default 5 references p (id)", ""},
			{"alter table t add column x int default 6 references p (id)", sqlstate.ForeignKeyViolation},
			{"alter table t add column x int default 5 unique", sqlstate.UniqueViolation},
			{"alter table t add column x int default 5 check (x > v)", ""},
		} {
			a.Must("drop table if exists t; create table t (id int primary key, v int); insert into t values (1, 1), (2, 2)")
			was := table(t, c.Nodes[1], "t").Version
			b.Must("begin; select * from t")
			done := make(chan error, 1)
			go func() {
				_, err := a.Exec(change.text)
				done <- err
			}()
			for table(t, c.Nodes[1], "t").Version == was {
				time.Sleep(time.Millisecond)
			}
			o := c.Nodes[1].Open(t, "root")
			for i, q := range []string{"insert into t values (3, 3)", "update t set v = 2 where id = 1", "upsert into t values (3, 4)",
				"insert into t values (1, 1) on conflict (id) do update set v = 3"} {
				_, err := o.Exec(q)
				if refused := err != nil; refused != (change.code != "") && !(change.code == sqlstate.UniqueViolation || change.code == sqlstate.ForeignKeyViolation && i > 0) ||
					err != nil && !sessiontest.ErrIs(err, change.code) {
					t.Errorf("%s: meanwhile %s: %s", change.text, q, sessiontest.Describe(err))
				}
			}
			o.Close()
			b.Must("commit")
			if err := <-done; (err == nil) != (change.code == "") || err != nil && !sessiontest.ErrIs(err, change.code) {
				t.Errorf("%s: %s", change.text, sessiontest.Describe(err))
			}
			want := 2
			if change.code == "" {
				want = 3
			}
			if x := table(t, c.Nodes[0], "t"); len(x.Columns) != want || len(x.Checks)+len(x.Foreign) != want-2 {
				t.Errorf("%s leaves %d columns, %d checks and %d foreign keys", change.text, len(x.Columns), len(x.Checks), len(x.Foreign))
			}
			verify(t, c.Nodes[1], "t")
		}
	})
}

// An index that is being added is dropped with its column: another job does not make it public.
func TestIndexDroppedWhileAdded(t *testing.T) {
	for i := range uint64(6) { // it is delete-only, or write-only, when the column goes
		versions := i / 3
		onlineBy(t, ways[i%3], 3, func(t *testing.T, c *sessiontest.Cluster) {
			a, b := c.Nodes[0].Open(t, "root"), c.Nodes[1].Open(t, "root")
			defer b.Close()
			a.Must("create table t (id int primary key, v int, x int); insert into t select g, g, g from generate_series(1, 20) g")
			was := table(t, c.Nodes[1], "t").Version
			go a.ExecContext(c.Nodes[0].Host.Group.Context(), "create index tx on t (x)")
			for table(t, c.Nodes[1], "t").Version <= was+versions {
				time.Sleep(100 * time.Microsecond)
			}
			c.Nodes[0].Kill() // its job is another node's, after a while
			done := make(chan error, 1)
			go func() {
				_, err := b.Exec("alter table t drop column x")
				done <- err
			}()
			for range 600_000 {
				time.Sleep(100 * time.Microsecond)
				x := table(t, c.Nodes[2], "t")
				for i, m := range x.Mutations {
					for _, o := range x.Mutations[:i] {
						if o.Kind == m.Kind && o.ID == m.ID {
							t.Fatalf("one job adds what another drops: %+v", x.Mutations)
						}
					}
				}
			}
			if err := <-done; err != nil {
				t.Error(sessiontest.Describe(err))
			}
			for _, n := range c.Nodes[1:] {
				if x := table(t, n, "t"); len(x.Columns) != 2 || len(x.Indexes) != 1 {
					t.Errorf("left are %d columns and the indexes %+v", len(x.Columns), x.Indexes)
				}
				verify(t, n, "t")
			}
		})
	}
}

// No index is added while the primary key is being changed: its entries would end with the old one. The statement waits for the
// job, also when another node has to finish that.
func TestIndexAddedWhilePrimaryKeyChanges(t *testing.T) {
	online(t, 3, func(t *testing.T, c *sessiontest.Cluster) {
		a, b := c.Nodes[0].Open(t, "root"), c.Nodes[1].Open(t, "root")
		defer b.Close()
		a.Must("create table t (id int primary key, k int not null, v int); insert into t select g, g, g from generate_series(1, 20) g")
		was := table(t, c.Nodes[1], "t").Version
		go a.ExecContext(c.Nodes[0].Host.Group.Context(), "alter table t alter primary key using columns (k, id)")
		for table(t, c.Nodes[1], "t").Version == was {
			time.Sleep(100 * time.Microsecond)
		}
		c.Nodes[0].Kill()
		done := start(b, "create index tv on t (v)")
		if err := within(t, 2*time.Minute, "the index", done); err != nil {
			t.Error(sessiontest.Describe(err))
		}
		x := table(t, c.Nodes[1], "t")
		tv := slices.IndexFunc(x.Indexes, func(i catalog.Index) bool { return i.Name == "tv" })
		if tv < 0 || len(x.Primary().Columns) != 2 || x.Indexes[tv].Suffix != nil {
			t.Errorf("%+v", x.Indexes)
		}
		verify(t, c.Nodes[1], "t")
	})
}

// The name of a column that another session is adding is taken.
func TestColumnAddedTwice(t *testing.T) {
	online(t, 2, func(t *testing.T, c *sessiontest.Cluster) {
		a, b := c.Nodes[0].Open(t, "root"), c.Nodes[1].Open(t, "root")
		defer a.Close()
		defer b.Close()
		a.Must("create table t (id int primary key, v int); insert into t values (1, 1)")
		was := table(t, c.Nodes[1], "t").Version
		b.Must("begin; select * from t")
		done := make(chan error, 1)
		go func() {
			_, err := a.Exec("alter table t add column x int")
			done <- err
		}()
		for table(t, c.Nodes[1], "t").Version == was {
			time.Sleep(time.Millisecond)
		}
		o := c.Nodes[1].Open(t, "root")
		defer o.Close()
		for _, q := range []string{"alter table t add column x int", "alter table t rename column v to x"} {
			go func() {
				_, err := o.Exec(q)
				done <- err
			}()
			time.Sleep(time.Second)
			select {
			case err := <-done:
				if !sessiontest.ErrIs(err, sqlstate.DuplicateColumn) {
					t.Errorf("%s: %s", q, sessiontest.Describe(err))
				}
			default:
				t.Fatalf("%s waits", q)
			}
		}
		b.Must("commit")
		if err := <-done; err != nil {
			t.Error(sessiontest.Describe(err))
		}
		a.Must("select x from t")
		// Of two columns of the name, one is on its way out.
		b.Must("begin; select x from t")
		go func() {
			_, err := a.Exec("alter table t drop column x")
			done <- err
		}()
		for table(t, c.Nodes[1], "t").ColumnByName("x") != nil {
			time.Sleep(time.Millisecond)
		}
		go func() {
			_, err := o.Exec("alter table t add column x int default 5 check (x > 3)")
			done <- err
		}()
		time.Sleep(time.Second)
		b.Must("commit")
		for range 2 {
			if err := <-done; err != nil {
				t.Error(sessiontest.Describe(err))
			}
		}
		if got := a.Must("select x from t"); got != "x\n5\nSELECT 1" {
			t.Error(got)
		}
		verify(t, c.Nodes[0], "t")
	})
}

// The data and descriptors of dropped tables and indexes are removed after a while, and nothing else.
func TestRemoval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := sessiontest.New(t, 1)
		defer c.Stop()
		n := c.Nodes[0]
		a := n.Open(t, "root")
		defer a.Close()
		a.Must("create table t (id serial primary key, v int unique); insert into t (v) select generate_series(1, 2500); create table u (a int); insert into u values (1)")
		x := table(t, n, "t")
		old := keys.IndexSpan(x.ID, x.Primary().ID)
		a.Must("truncate t")
		a.Must("insert into t (v) values (1)")
		if got, _ := n.Entries(old); got != 2500 {
			t.Errorf("truncated data went at once: %d", got)
		}
		time.Sleep(30 * time.Minute)
		if got, _ := n.Entries(old); got != 0 {
			t.Errorf("truncated data is still there: %d", got)
		}
		if got, _ := n.Entries(keys.TableSpan(x.ID)); got != 2 {
			t.Errorf("%d entries of one row", got)
		}
		verify(t, n, "t")
		a.Must("drop table t")
		a.Must("create table t (id int)")
		time.Sleep(30 * time.Minute)
		if got, _ := n.Entries(keys.TableSpan(x.ID)); got != 0 {
			t.Errorf("dropped data is still there: %d", got)
		}
		if n.Leases.Snapshot().Version(x.ID) != 0 {
			t.Error("the dropped descriptor is still there")
		}
		if out := a.Must("select count(*) from u"); out != "count\n1\nSELECT 1" {
			t.Error(out)
		}
	})
}

// A transaction does not use a version that is younger than what it reads: it starts over (lease.L4).
func TestYoungVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := sessiontest.New(t, 2)
		defer c.Stop()
		n := c.Nodes[1]
		a := c.Nodes[0].Open(t, "root")
		defer a.Close()
		a.Must("create table t (id int primary key, v int); insert into t values (1, 1)")
		tx := n.DB.Begin(txn.TxnOptions{})
		defer tx.Rollback(context.Background())
		cat := n.Leases.Begin(tx)
		defer cat.Finish(context.Background(), false)
		a.Must("create index ti on t (v)")
		x := table(t, n, "t")
		if _, err := cat.Use([]catalog.Dependency{{ID: x.ID, Version: x.Version}}); !sessiontest.ErrIs(err, sqlstate.SerializationFailure) {
			t.Errorf("an index that was filled after the transaction's timestamp may be read: %v", err)
		}
	})
}

// A transaction adds a column and fills it. An UPSERT that uses the earlier version, and gives values for all columns of
// that version, must not remove the values of the new column (schemachange.SC4).
func TestUpsertKeepsNewColumn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := sessiontest.New(t, 2)
		defer c.Stop()
		a, b := c.Nodes[0].Open(t, "root"), c.Nodes[1].Open(t, "root")
		defer a.Close()
		defer b.Close()
		for _, texts := range [][]string{
			{"begin", "alter table t add column c int", "update t set c = 7", "commit"},
			{"alter table t add column c int; update t set c = 7"},
			{"begin", "savepoint s", "alter table t add column c int", "rollback to s", "alter table t add column c int", "update t set c = 7", "commit"},
		} {
			c.NewsDelay.Store(0)
			a.Must("drop table if exists t; create table t (id int primary key, v int); insert into t select g, 0 from generate_series(1, 3) g")
			b.Must("upsert into t values (1, 1)")
			c.NewsDelay.Store(int64(50 * time.Millisecond))
			n := 0
			stop := make(chan struct{})
			done := make(chan error, 1)
			go func() {
				for {
					select {
					case <-stop:
						done <- nil
						return
					default:
					}
					// Nobody but this one changes v.
					n++
					if _, err := b.Exec(fmt.Sprintf("upsert into t (id, v) values (1, %d)", n)); err != nil {
						done <- err
						return
					}
					time.Sleep(time.Millisecond)
				}
			}()
			time.Sleep(20 * time.Millisecond)
			for _, q := range texts {
				a.Must(q)
			}
			time.Sleep(20 * time.Millisecond)
			close(stop)
			if err := <-done; err != nil {
				t.Fatal(sessiontest.Describe(err))
			}
			if got := a.Must("select v, c from t where id = 1"); got != fmt.Sprintf("v | c\n%d | 7\nSELECT 1", n) {
				t.Errorf("%v: after %d upserts: %s", texts, n, got)
			}
		}
		a.Must("begin; alter table t add column x int; rollback")
		a.Must("upsert into t (id, v) values (2, 2); alter table t add column x int")
		verify(t, c.Nodes[1], "t")
	})
}
