package session_test

import (
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"meridian/sql/session/sessiontest"
)

// TestExplainRetries: EXPLAIN ANALYZE shows how often the statement's transaction was run again.
func TestExplainRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := sessiontest.New(t, 1)
		defer c.Stop()
		a, b := c.Nodes[0].Open(t, "root"), c.Nodes[0].Open(t, "root")
		defer a.Close()
		defer b.Close()
		a.Must("create table t (id int primary key, v int); insert into t values (1, 0), (2, 0)")
		line := regexp.MustCompile(`\nRetries: (\d+)\n`)
		for _, x := range []struct{ text, want string }{
			{"explain analyze update t set v = v + 1 where v >= 0", ""},
			{"begin; select v from t where id = 1; select pg_sleep(1); explain analyze update t set v = v + 1 where v >= 0; commit", "1"},
		} {
			done := make(chan string, 1)
			go func() { done <- a.Must(x.text) }()
			time.Sleep(500 * time.Millisecond)
			b.Must("update t set v = v + 1")
			got := ""
			out := <-done
			if m := line.FindStringSubmatch(out); m != nil {
				got = m[1]
			}
			if got != x.want {
				t.Errorf("%s: %q retries, want %q:\n%s", x.text, got, x.want, out)
			}
		}
		if got := a.Must("select v from t order by id"); got != "v\n4\n4\nSELECT 2" {
			t.Error(got)
		}
	})
}

// TestExplainExecute: EXPLAIN EXECUTE shows the prepared statement's plan, and with ANALYZE runs it with its arguments.
func TestExplainExecute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := sessiontest.New(t, 1)
		defer c.Stop()
		a := c.Nodes[0].Open(t, "root")
		defer a.Close()
		a.Must("create table t (w int, i int, q int, primary key (w, i)); insert into t select w, i, i from generate_series(1, 2) w, generate_series(1, 50) i")
		a.Must("prepare p as select q from t where (w, i) in (($1, $2), ($1, $3))")
		if got, want := a.Must("explain (costs off) execute p (1, 2, 3)"), "QUERY PLAN\npoint lookup t@t_pkey\n      spans: [/$1/$2] [/$1/$3]\nEXPLAIN"; got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
		if got := a.Must("explain (analyze, costs off) execute p (1, 2, 3)"); !strings.Contains(got, "actual time=") || !strings.Contains(got, "rows=2 ") {
			t.Error(got)
		}
		for _, text := range []string{"explain execute p (1)", "explain execute none"} {
			if out, err := a.Exec(text); err == nil {
				t.Errorf("%s: %s", text, out)
			}
		}
	})
}

// TestDisabledRules: a session that switches optimizer rules off gets plans without them, also of statements that it has run before; other sessions don't.
func TestDisabledRules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := sessiontest.New(t, 1)
		defer c.Stop()
		a, b := c.Nodes[0].Open(t, "root"), c.Nodes[0].Open(t, "root")
		defer a.Close()
		defer b.Close()
		a.Must("create table t (id int primary key, v int); insert into t select i, i from generate_series(1, 9) i")
		a.Must("prepare p as select max(id) from t")
		const q, first, all = "explain (costs off) execute p", "limit", "FULL SCAN"
		plan := func(s *sessiontest.Conn, want string) {
			t.Helper()
			if got := s.Must("explain (costs off) select max(id) from t"); strings.Contains(got, first) != (want == first) {
				t.Errorf("got %s, want one with %s", got, want)
			}
			if got := s.Must("select max(id) from t"); got != "max\n9\nSELECT 1" {
				t.Error(got)
			}
		}
		plan(a, first)
		a.Must("set disabled_optimizer_rules = 'Min_Max_by_order, marks'")
		plan(a, all)
		plan(b, first)
		if got := a.Must(q); strings.Contains(got, first) {
			t.Errorf("the prepared statement keeps its plan: %s", got)
		}
		if got := a.Must("show disabled_optimizer_rules"); got != "disabled_optimizer_rules\nmarks, min_max_by_order\nSHOW" {
			t.Error(got)
		}
		for _, text := range []string{"set disabled_optimizer_rules = 'nothing'", "set disabled_optimizer_rules = 'marks; unnest'"} {
			if out, err := a.Exec(text); !sessiontest.ErrIs(err, "22023") {
				t.Errorf("%s: %s, %v", text, out, err)
			}
		}
		a.Must("set disabled_optimizer_rules = 'all'")
		plan(a, all)
		a.Must("reset disabled_optimizer_rules")
		plan(a, first)
	})
}
