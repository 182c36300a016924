package schemachange_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"meridian/sql/session/sessiontest"
	"meridian/sql/sqlstate"
)

var lockModes = []string{"access share", "row share", "row exclusive", "share update exclusive", "share", "share row exclusive", "exclusive", "access exclusive"}

// conflicts is PostgreSQL's table: the modes that each mode conflicts with, by their numbers.
var conflicts = [][]int{{7}, {6, 7}, {4, 5, 6, 7}, {3, 4, 5, 6, 7}, {2, 3, 5, 6, 7}, {2, 3, 4, 5, 6, 7}, {1, 2, 3, 4, 5, 6, 7}, {0, 1, 2, 3, 4, 5, 6, 7}}

// Each mode of LOCK TABLE against each other one, and against statements, on two nodes. Meridian excludes more than
// PostgreSQL: only one transaction at a time has SHARE, and stricter modes wait for all transactions that have used the
// table, readers too.
func TestLockModes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := sessiontest.New(t, 2)
		defer c.Stop()
		a, b := c.Nodes[0].Open(t, "root"), c.Nodes[1].Open(t, "root")
		defer a.Close()
		defer b.Close()
		a.Must("create table p (id int primary key); create table t (id int primary key, v int references p); insert into p values (1), (2); insert into t values (1, 1)")
		b.Must("set lock_timeout = '700ms'; set transaction_replay = off")
		try := func(held, text string, want bool) {
			t.Helper()
			a.Must("begin; " + held)
			_, err := b.Exec("begin; " + text)
			b.Exec("rollback")
			a.Must("rollback")
			switch {
			case err == nil && want:
				t.Errorf("%s lets %s pass", held, text)
			case err != nil && !want:
				t.Errorf("%s is in the way of %s: %s", held, text, sessiontest.Describe(err))
			case err != nil && !sessiontest.ErrIs(err, sqlstate.LockNotAvailable):
				t.Errorf("%s, %s: %s", held, text, sessiontest.Describe(err))
			}
			time.Sleep(time.Second)
		}
		for i, x := range lockModes {
			for j, y := range lockModes {
				want := slices.Contains(conflicts[i], j) || i == 4 && j == 4 || i < 3 && j > 3
				try("lock table t in "+x+" mode", "lock table t in "+y+" mode nowait", want)
			}
			held := "lock table t in " + x + " mode"
			try(held, "select * from t", i == 7)
			try(held, "select * from t for update", i >= 6)
			for _, write := range []string{"insert into t values (2, 1)", "update t set v = 1", "delete from t", "insert into t select 3", "delete from p where id = 2"} {
				try(held, write, i >= 4)
			}
			for _, ddl := range []string{"create index on t (v)", "alter table t add column x int", "truncate t", "drop table t", "alter table t add check (v > 0)"} {
				try(held, ddl, true)
			}
			for _, used := range []string{"select * from t", "insert into t values (2, 1)"} {
				try(used, "lock table t in "+x+" mode nowait", i > 3)
			}
		}
		// Both see everything that was committed before they got the lock, and nothing stays locked.
		if got := b.Must("select * from t"); got != "id | v\n1 | 1\nSELECT 1" {
			t.Error(got)
		}
		verify(t, c.Nodes[0], "t")
	})
}

// Counters without row locks: each transaction locks the table, reads the largest number, and adds the next.
func TestLockTableExcludes(t *testing.T) {
	for _, mode := range []string{"share row exclusive", "exclusive", "access exclusive"} {
		for _, level := range []string{"read committed", "repeatable read", "serializable"} {
			t.Run(mode+"/"+level, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := sessiontest.New(t, 3)
					defer c.Stop()
					setup := c.Nodes[0].Open(t, "root")
					defer setup.Close()
					setup.Must("create table t (n int)")
					const each = 5
					done := make(chan error, len(c.Nodes))
					for _, n := range c.Nodes {
						x := n.Open(t, "root")
						go func() {
							defer x.Close()
							for i := 0; i < each; {
								_, err := x.Exec(fmt.Sprintf("begin isolation level %s; lock table t in %s mode; insert into t select count(*) + 1 from t; commit", level, mode))
								if err != nil {
									x.Exec("rollback")
									if !sessiontest.ErrIs(err, sqlstate.SerializationFailure) {
										done <- err
										return
									}
									continue
								}
								i++
							}
							done <- nil
						}()
					}
					for range c.Nodes {
						if err := within(t, 5*time.Minute, "a counter", done); err != nil {
							t.Fatal(sessiontest.Describe(err))
						}
					}
					got := setup.Must("select count(distinct n), max(n) from t")
					if want := fmt.Sprintf("\n%d | %d\n", each*len(c.Nodes), each*len(c.Nodes)); !strings.Contains(got, want) {
						t.Error(got)
					}
				})
			})
		}
	}
}
