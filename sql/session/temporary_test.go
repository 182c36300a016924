package session_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"meridian/kv"
	"meridian/sql/memory"
	"meridian/sql/session/sessiontest"
)

// TestTemporaryTables is the walk of temporary tables through all layers: their session sees what they hold, joined with ordinary tables,
// transactions and savepoints hold for both, and neither another session nor a range ever hears of them.
func TestTemporaryTables(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := sessiontest.New(t, 1)
		defer c.Stop()
		room := memory.NewNode(64 << 20)
		c.Nodes[0].Server.Memory = room
		a, b := c.Nodes[0].Open(t, "root"), c.Nodes[0].Open(t, "root")
		a.Must("create table p (id int primary key, v text); insert into p values (1, 'one'), (2, 'two'); create table q (id int primary key)")
		before := b.Must("select count(*) from pg_class")
		time.Sleep(time.Second) // what the statements have left to do is done
		writes := 0
		c.Meet(func(b *kv.Batch) {
			for _, r := range b.Requests {
				switch r.(type) {
				case *kv.GetRequest, *kv.ScanRequest:
				default:
					writes++
				}
			}
		})
		for _, x := range []struct{ text, want string }{
			{"create temp table t (id int primary key, v text unique, check (id < 100))", "CREATE TABLE"},
			{"insert into t values (1, 'a'), (2, 'b')", "INSERT 0 2"},
			{"insert into t values (1, 'c')", "ERROR 23505: duplicate key value violates unique constraint \"t_pkey\"\nDETAIL: Key (id)=(1) already exists."},
			{"insert into t values (3, 'b')", "ERROR 23505: duplicate key value violates unique constraint \"t_v_key\"\nDETAIL: Key (v)=(b) already exists."},
			{"insert into t values (300, 'x')", "ERROR 23514: new row for relation \"t\" violates check constraint \"t_id_check\"\nDETAIL: Failing row contains (300, x)."},
			{"select t.id, t.v, p.v from t join p using (id) order by 1", "id | v | v\n1 | a | one\n2 | b | two\nSELECT 2"},
			{"begin; update t set v = v || '!'; savepoint s; delete from t; create temp table u (x int); rollback to s; select * from t order by 1; rollback",
				"BEGIN\nUPDATE 2\nSAVEPOINT\nDELETE 2\nCREATE TABLE\nROLLBACK\nid | v\n1 | a!\n2 | b!\nSELECT 2\nROLLBACK"},
			{"select * from t order by 1", "id | v\n1 | a\n2 | b\nSELECT 2"},
			{"select * from u", "ERROR 42P01: relation \"u\" does not exist"},
			{"create index i on t (v)", "CREATE INDEX"},
			{"select id from pg_temp.t where v = 'a'", "id\n1\nSELECT 1"},
			{"create temp table p (id int); select count(*) from p; select count(*) from public.p", "CREATE TABLE\ncount\n0\nSELECT 1\ncount\n2\nSELECT 1"},
			{"drop table p; select count(*) from p", "DROP TABLE\ncount\n2\nSELECT 1"},
		} {
			got, err := a.Exec(x.text)
			if err != nil {
				got += sessiontest.Describe(err)
			}
			if got != x.want {
				t.Errorf("%s\n%s\nwant\n%s", x.text, got, x.want)
			}
		}
		if writes > 0 {
			t.Errorf("%d requests went to ranges that were no reads", writes)
		}
		if _, err := b.Exec("select * from t"); err == nil {
			t.Error("another session sees the table")
		}
		if after := b.Must("select count(*) from pg_class"); after != before {
			t.Errorf("another session's pg_class had %s, has %s", before, after)
		}
		a.Must("begin; insert into q values (1); insert into t values (4, 'd'); commit; begin; insert into q values (2); insert into t values (5, 'e'); rollback")
		if got := a.Must("select q.id, t.id from q, t where t.id > 3"); got != "id | id\n1 | 4\nSELECT 1" {
			t.Error(got)
		}
		a.Must("create temp table big as select g, repeat('x', 100) as x from generate_series(1, 10000) g")
		full := room.Used()
		if full < 10000*200 {
			t.Errorf("%d bytes are held with the rows", full)
		}
		a.Must("drop table big")
		if n := room.Used(); n > full/4 {
			t.Errorf("%d bytes are held after DROP TABLE", n)
		}
		a.Must("create temp table big as select g, repeat('x', 100) as x from generate_series(1, 10000) g")
		a.Close()
		b.Close()
		if n := room.Used(); n != 0 {
			t.Errorf("%d bytes are held after the session", n)
		}
	})
}

// TestTemporaryTablesAreRunAgain: what a transaction or a statement did to temporary tables is undone when it is run again because of a
// conflict, like what it did to others.
func TestTemporaryTablesAreRunAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := sessiontest.New(t, 1)
		defer c.Stop()
		a, b := c.Nodes[0].Open(t, "root"), c.Nodes[0].Open(t, "root")
		defer a.Close()
		defer b.Close()
		a.Must("create table p (id int primary key, n int); insert into p values (1, 0), (2, 0); create temp table t (id serial, n int)")
		restarts := func() int64 {
			m := c.Nodes[0].DB.Metrics()
			return m.Restarts.Load() + m.StatementRestarts.Load()
		}

		// The client has seen answers: the statements run again.
		before := restarts()
		a.Must("begin; select count(*) from p")
		if got := a.Must("create temp table u (x int); insert into t (n) values (7) returning id"); got != "CREATE TABLE\nid\n1\nINSERT 0 1" {
			t.Error(got)
		}
		b.Must("update p set n = 5")
		if got := a.Must("insert into u select n from t; update p set n = n + 1 where id = 1; select * from t, u"); got != "INSERT 0 1\nUPDATE 1\nid | n | x\n1 | 7 | 7\nSELECT 1" {
			t.Error(got)
		}
		a.Must("commit")
		if restarts() == before {
			t.Error("the transaction met no conflict")
		}

		// One statement of READ COMMITTED, or its implicit transaction, is run again.
		for _, level := range []string{"read committed", "serializable"} {
			before = restarts()
			done := make(chan string, 1)
			go func() {
				out, err := a.Exec("begin isolation level " + level + `; with x as (insert into t (n) select 8 from (select count(*), pg_sleep(1) from p) s returning id)
					update p set n = n + 1 where id = 1 returning n, (select count(*) from x), (select count(*) from t); commit`)
				if err != nil {
					out += sessiontest.Describe(err)
				}
				done <- out
			}()
			time.Sleep(500 * time.Millisecond)
			b.Must("update p set n = 100")
			if got := <-done; !strings.Contains(got, "n | count | count\n101 | 1 | ") {
				t.Error(got)
			}
			if restarts() == before {
				t.Errorf("%s: the statement met no conflict", level)
			}
		}
		if got := a.Must("select count(*), count(distinct id) from t"); got != "count | count\n3 | 3\nSELECT 1" {
			t.Error(got)
		}
	})
}

// TestTemporaryPlansAreTheirSessions: two sessions whose temporary tables have one name and one history share no plan.
func TestTemporaryPlansAreTheirSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := sessiontest.New(t, 1)
		defer c.Stop()
		a, b, other := c.Nodes[0].Open(t, "root"), c.Nodes[0].Open(t, "root"), c.Nodes[0].Open(t, "root")
		defer a.Close()
		defer b.Close()
		defer other.Close()
		other.Must("create table t (v bool); insert into t values (true); select v from t")
		a.Must("create temp table t (v text); insert into t values ('a')")
		b.Must("create temp table t (u int, v int); insert into t values (1, 2)")
		for range 3 {
			for _, x := range []struct {
				conn *sessiontest.Conn
				want string
			}{{a, "v\na\nSELECT 1"}, {b, "v\n2\nSELECT 1"}, {other, "v\nt\nSELECT 1"}} {
				if got := x.conn.Must("select v from t"); got != x.want {
					t.Errorf("%q, want %q", got, x.want)
				}
			}
		}
		b.Must("drop table t")
		if got := b.Must("select v from t"); got != "v\nt\nSELECT 1" {
			t.Error(got)
		}
	})
}

// TestTemporaryStatistics: without ANALYZE the planner knows how many rows a temporary table has.
func TestTemporaryStatistics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := sessiontest.New(t, 1)
		defer c.Stop()
		a := c.Nodes[0].Open(t, "root")
		defer a.Close()
		a.Must("create table big (id int primary key, v int); insert into big select g, g from generate_series(1, 5000) g; analyze big")
		a.Must("create temp table few (id int); insert into few values (1), (7)")
		a.Must("create temp table many (id int); insert into many select g from generate_series(1, 30000) g")
		for sql, want := range map[string]string{
			"explain select * from big join few using (id)":  "lookup join",
			"explain select * from big join many using (id)": "hash join",
		} {
			if got := a.Must(sql); !strings.Contains(got, want) {
				t.Errorf("%s: no %s in\n%s", sql, want, got)
			}
		}
		got := a.Must("explain select * from many")
		var rows float64
		if i := strings.Index(got, "rows="); i < 0 {
			t.Error(got)
		} else if fmt.Sscanf(got[i:], "rows=%f", &rows); rows < 20_000 || rows > 40_000 {
			t.Errorf("30000 rows, some of which were counted, are estimated at %f", rows)
		}
	})
}

// TestTemporaryNamesStayLocal: nothing that other sessions can see names a type or a sequence of one session.
func TestTemporaryNamesStayLocal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := sessiontest.New(t, 1)
		defer c.Stop()
		a := c.Nodes[0].Open(t, "root")
		defer a.Close()
		a.Must("create type pg_temp.e as enum ('a'); create temp sequence s; create table t (a int, x text)")
		for _, sql := range []string{
			"create table n (a e)", "create table n (a e[])", "create table n (a int default nextval('s'))",
			"create table n (a text default 'a'::e::text)", "create table n (a text, check (a <> 'a'::e::text))",
			"create view n as select 'a'::e::text as x", "alter table t alter a set default nextval('s')", "alter table t add b e",
			"alter table t add check (x::e > 'a')", "alter table t alter x type e using x::e",
		} {
			if out, err := a.Exec(sql); err == nil {
				t.Errorf("%s: %s", sql, out)
			} else if got := sessiontest.Describe(err); !strings.Contains(got, "0A000") || !strings.Contains(got, "cannot use a temporary") {
				t.Errorf("%s: %s", sql, got)
			}
		}
		a.Must("create temp table n (a e default 'a', b int default nextval('s'), check (a = 'a')); create temp view v as select 'a'::e as x from t; insert into n default values")
	})
}
