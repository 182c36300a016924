package session_test

import (
	"context"
	"testing"
	"testing/synctest"

	"meridian/sql/session"
	"meridian/sql/session/sessiontest"
)

// TestSelectEndsWithItsSync: a query that is followed by a Sync ends its transaction itself: its result is not recorded for another
// run, and the Sync has nothing to do. It does not if another statement may follow, or if its portal has rows left.
func TestSelectEndsWithItsSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := sessiontest.New(t, 1)
		defer c.Stop()
		n := c.Nodes[0]
		s := n.Open(t, "root")
		s.Must("create table t (a int primary key)")
		s.Must("insert into t values (1), (2), (3)")
		ctx := context.Background()
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(sessiontest.Describe(err))
			}
		}
		must(s.Parse(ctx, "q", "select a from t", nil))
		commits := &n.Server.Metrics().TxnCommits
		for _, x := range []struct {
			name  string
			limit int
			final bool
			ended bool
		}{
			{name: "a Sync follows", final: true, ended: true},
			{name: "something else follows"},
			{name: "the portal has rows left", limit: 1, final: true},
		} {
			before := commits.Load()
			must(s.Bind(ctx, "", "q", &session.Binding{}))
			must(s.Execute(ctx, "", x.limit, x.final))
			if ended := commits.Load() > before; ended != x.ended {
				t.Errorf("%s: the transaction has ended: %v", x.name, ended)
			}
			must(s.Sync(ctx))
			if n := commits.Load() - before; n != 1 {
				t.Errorf("%s: %d transactions", x.name, n)
			}
		}
	})
}
