package schemachange_test

import (
	"fmt"
	"testing"
	"time"

	"meridian/sql/session/sessiontest"
	"meridian/sql/sqlstate"
)

// persist executes a statement until it meets no conflict.
func persist(t *testing.T, s *sessiontest.Conn, text string) string {
	for {
		out, err := s.Exec(text)
		if err == nil {
			return out
		}
		if !sessiontest.ErrIs(err, sqlstate.SerializationFailure) {
			t.Errorf("%s: %s", text, sessiontest.Describe(err))
			return out
		}
	}
}

// Two nodes take turns at one row, and one of them learns of every version 50 ms late. For any two states of an index that meet,
// a row is found through the index, its key is free again once the row is deleted, and no entry is left behind
// (schemachange.SC1).
func TestStatesMeet(t *testing.T) {
	online(t, 2, func(t *testing.T, c *sessiontest.Cluster) {
		ddl, early, late := c.Nodes[0].Open(t, "root"), c.Nodes[0].Open(t, "root"), c.Nodes[1].Open(t, "root")
		defer ddl.Close()
		defer early.Close()
		defer late.Close()
		ddl.Must("create table t (id int primary key, v int)")
		c.NewsDelay.Store(int64(50 * time.Millisecond))
		exec := func(s *sessiontest.Conn, format string, args ...any) string {
			return persist(t, s, fmt.Sprintf(format, args...))
		}
		k := 0
		turn := func() {
			k++
			exec(early, "insert into t values (%d, %d)", k, k)
			if got, want := exec(late, "select id from t where v = %d", k), fmt.Sprintf("id\n%d\nSELECT 1", k); got != want {
				t.Errorf("the row is not found: %s", got)
			}
			exec(late, "delete from t where id = %d", k)
			exec(late, "insert into t values (%d, %d)", k, k)
			exec(early, "delete from t where id = %d", k)
			exec(late, "insert into t values (%d, %d)", -k, k)
			exec(early, "update t set v = %d where id = %d", -k, -k)
			exec(late, "insert into t values (%d, %d)", k, k)
			time.Sleep(time.Millisecond)
		}
		for _, change := range []string{"create unique index tu on t (v)", "drop index tu"} {
			done := make(chan error, 1)
			go func() {
				_, err := ddl.Exec(change)
				done <- err
			}()
			for finished := false; !finished && !t.Failed(); {
				select {
				case err := <-done:
					if finished = true; err != nil {
						t.Error(change, sessiontest.Describe(err))
					}
				default:
					turn()
				}
			}
			if t.Failed() {
				time.Sleep(time.Minute)
				return
			}
			verify(t, c.Nodes[1], "t")
		}
	})
}

// A transaction changes a table that others know, and writes many rows into it: they are not loaded, because others
// would see them before the commit, and undoing the load would remove all of the table's rows (txn.LD1).
func TestNoLoadIntoWhatOthersKnow(t *testing.T) {
	online(t, 2, func(t *testing.T, c *sessiontest.Cluster) {
		a, b := c.Nodes[0].Open(t, "root"), c.Nodes[1].Open(t, "root")
		defer a.Close()
		defer b.Close()
		a.Must("create table t (id int primary key, v int); insert into t values (1, 1)")
		a.Must("begin; alter table t alter column v set default 5; insert into t select g, g from generate_series(2, 500) g")
		if got := count(b, "t"); got != "1" {
			t.Errorf("others see %s rows before the commit", got)
		}
		a.Must("rollback")
		time.Sleep(time.Minute)
		if got := count(b, "t"); got != "1" {
			t.Errorf("%s rows after a rollback", got)
		}
	})
}
