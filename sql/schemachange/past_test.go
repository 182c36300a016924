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

// Reads of the past see tables, columns and names as they were then (L5), on the node that changed them and on another one;
// and the present is asked for the present all the while.
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
		// keep notes what queries say now.
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
			// The plans of the past are nobody else's.
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

// Whoever may not read a table now may not read what it was.
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
		// A statement of the past can't take back what its transaction wrote.
		if out, err := a.Exec("insert into t values (1); select * from t as of system time '-1s'"); !sessiontest.ErrIs(err, sqlstate.FeatureNotSupported) {
			t.Errorf("%s %v", out, err)
		}
	})
}
