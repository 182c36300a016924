package session_test

import (
	"regexp"
	"testing"
	"testing/synctest"
	"time"

	"meridian/sql/session/sessiontest"
)

// TestExplainRetries: EXPLAIN ANALYZE says how often the statement's transaction was run again.
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
