package schemachange_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"meridian/sql/session/sessiontest"
	"meridian/sql/sqlstate"
)

// Reads of the past see tables, columns and names as they were then (lease.L5), on the node that changed them and on another one;
// while other statements read the present.
func TestDefinitionsOfThePast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := sessiontest.New(t, 2)
		defer c.Stop()
		conns := []*sessiontest.Conn{c.Nodes[0].Open(t, "root"), c.Nodes[1].Open(t, "root")}
		for _, x := range conns {
			defer x.Close()
		}
		a := conns[0]
		type state struct{ query, want, at string }
		var states []state
		ask := func(x *sessiontest.Conn, query string) string {
			out, err := x.Exec(query)
			if err != nil {
				return fmt.Sprint(err)
			}
			return out
		}
		// keep notes the present answers of queries.
		keep := func(queries ...string) {
			time.Sleep(20 * time.Second)
			at := fmt.Sprint(c.Nodes[0].Clock.Now().Wall)
			for _, q := range queries {
				states = append(states, state{q, ask(a, q+" order by 1"), at})
			}
			time.Sleep(20 * time.Second)
		}
		change := func(statements string) {
			t.Helper()
			a.Must(statements)
		}
		change("create table t (id int primary key, a int, b text); insert into t select g, g * 10, 'b' || g from generate_series(1, 3) g")
		keep("select * from t", "select a from t where b = 'b2'", "select x from t")
		change("alter table t add column x int not null default 7; insert into t values (4, 40, 'b4', 8)")
		keep("select * from t", "select a, x from t")
		change("create index on t (b); create view v as select id, x from t where b >= 'b2'")
		keep("select b from t where b > 'b1'", "select * from v")
		change("drop view v; alter table t drop column b")
		keep("select * from t", "select b from t")
		change("alter table t rename column a to renamed; alter table t rename to u")
		keep("select * from u", "select renamed from u")
		change("truncate u; insert into u values (9, 90, 9)")
		keep("select * from u", "select count(*) from u")
		change("drop table u")
		keep("select * from u")
		change("create table t (id text primary key); insert into t values ('another')")
		keep("select * from t", "select * from u")
		change("alter table t alter column id set default 'x'; create schema s; create table s.t (id int primary key); insert into s.t values (1)")
		keep("select * from t", "select * from s.t")
		change("drop schema s cascade; alter table t rename to w")
		keep("select * from w")

		check := func(x *sessiontest.Conn, who string) {
			t.Helper()
			for _, s := range states {
				past := s.query + " as of system time " + s.at + " order by 1"
				if i := strings.Index(s.query, " where "); i > 0 {
					past = s.query[:i] + " as of system time " + s.at + s.query[i:] + " order by 1"
				}
				if got := ask(x, past); got != s.want {
					t.Errorf("%s: %s:\n%s\nwant\n%s", who, past, got, s.want)
				}
				x.Must("begin as of system time " + s.at)
				if got := ask(x, s.query+" order by 1"); got != s.want {
					t.Errorf("%s: in a transaction at %s: %s:\n%s\nwant\n%s", who, s.at, s.query, got, s.want)
				}
				x.Must("rollback")
			}
			// Plans of the past are not shared.
			last := states[len(states)-1]
			if got := ask(x, last.query+" order by 1"); got != last.want {
				t.Errorf("%s: now: %s", who, got)
			}
		}
		for i, x := range conns {
			for range 2 {
				check(x, fmt.Sprint("node ", i+1))
			}
		}
	})
}

// A dropped table stays for a while, and when it is gone, reads of the past are refused instead of finding nothing.
func TestRemovedPast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := sessiontest.New(t, 2)
		defer c.Stop()
		a, b := c.Nodes[0].Open(t, "root"), c.Nodes[1].Open(t, "root")
		defer a.Close()
		defer b.Close()
		a.Must("create table t (id int primary key, v int); create index tv on t (v); create table d (id int primary key); create table i (id int primary key, v int); create index iv on i (v)")
		a.Must("insert into t values (1, 1); insert into d values (1); insert into i values (1, 1)")
		time.Sleep(time.Minute)
		at := fmt.Sprint(c.Nodes[0].Clock.Now().Wall)
		long := c.Nodes[1].Open(t, "root")
		defer long.Close()
		long.Must("begin as of system time " + at)
		time.Sleep(time.Minute)
		a.Must("truncate t; drop table d; drop index iv")
		for minute := range 40 {
			time.Sleep(time.Minute)
			for _, table := range []string{"t", "d", "i"} {
				for who, x := range []*sessiontest.Conn{a, b, long} {
					query := "select count(*) from " + table + " as of system time " + at + " where id > 0"
					if table == "i" {
						query = strings.Replace(query, "id >", "v >", 1)
					}
					if x == long {
						query = strings.Replace(query, " as of system time "+at, "", 1)
						x.Must("savepoint s")
					}
					out, err := x.Exec(query)
					gone := sessiontest.ErrIs(err, sqlstate.SnapshotTooOld)
					if x == long {
						x.Must("rollback to s; release s")
					}
					switch {
					case gone && minute > 8 && table != "i":
					case err != nil || !strings.Contains(out, "\n1\n"):
						t.Fatalf("%s after %d minutes, %d: %s %v", table, minute, who, out, err)
					case minute > 12 && table != "i":
						t.Fatalf("%s after %d minutes, %d: %s", table, minute, who, out)
					}
				}
			}
		}
	})
}

// A role that may not read a table now may not read its past.
func TestRightsInThePast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := sessiontest.New(t, 1)
		defer c.Stop()
		a := c.Nodes[0].Open(t, "root")
		defer a.Close()
		a.Must("create user eve; create table t (id int primary key); grant select on t to eve")
		e := c.Nodes[0].Open(t, "eve")
		defer e.Close()
		time.Sleep(20 * time.Second)
		e.Must("select * from t as of system time '-5s'")
		a.Must("revoke select on t from eve")
		time.Sleep(5 * time.Second)
		if out, err := e.Exec("select * from t as of system time '-10s'"); !sessiontest.ErrIs(err, sqlstate.InsufficientPrivilege) {
			t.Errorf("%s %v", out, err)
		}
		// A statement that reads the past can't undo its transaction's writes.
		if out, err := a.Exec("insert into t values (1); select * from t as of system time '-1s'"); !sessiontest.ErrIs(err, sqlstate.FeatureNotSupported) {
			t.Errorf("%s %v", out, err)
		}
	})
}
