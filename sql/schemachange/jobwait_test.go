package schemachange_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"meridian/sql/session/sessiontest"
	"meridian/sql/sqlstate"
)

// A change of the schema that can't go on while a job runs waits for the job, as it waits in PostgreSQL for the lock of the other
// change: until the job ends, the statement is cancelled, or lock_timeout is over. The job is held up here by a transaction that uses
// the earlier version of the table.
func TestChangesWaitForJobs(t *testing.T) {
	const retype = "alter table t alter column v type text"
	for _, c := range []struct{ job, change, want string }{
		{"create index i on t (v)", "drop table t", ""},
		{"create index i on t (v)", "truncate t", "0 | 0"},
		{"create index i on t (v)", "begin; lock table t; commit", "3 | 1"},
		{"create index i on t (v)", "begin; alter table t add column w int default 7; insert into t values (9, 9, 9); commit", "4 | 1"},
		{"create index i on t (v)", "begin; select count(*) from u; create index j on t (v); commit", "3 | 2"},
		{"create index i on t (v)", "begin; drop table t; commit", ""},
		{"create index i on t (v)", "alter table t alter primary key using columns (v)", "3 | 1"},
		{"create index i on t (v)", retype, "3 | 1"},
		{"create index i on t (v)", "alter table t add check (v > 0), add column w int", "3 | 1"},
		{"alter table t add check (v > 0)", "truncate t", "0 | 0"},
		{"alter table t alter primary key using columns (v)", "create index j on t (v)", "3 | 1"},
		{"alter table t alter primary key using columns (v)", "drop index k", "3 | 0"},
		{"alter table t alter primary key using columns (v)", "truncate t", "0 | 0"},
		{retype, "create index j on t (v)", "3 | 1"},
		{retype, "drop index k", "3 | 0"},
		{retype, "alter table t add column w int", "3 | 0"},
		{retype, "truncate t", "0 | 0"},
		{retype, retype, "3 | 0"},
		{"drop index k", "begin; alter table t drop column v; commit", "3 | 0"},
	} {
		for _, how := range []string{"waits", "lock_timeout", "cancelled"} {
			t.Run(c.job+"/"+c.change+"/"+how, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					cl := sessiontest.New(t, 3)
					defer cl.Stop()
					a, b, x := cl.Nodes[0].Open(t, "root"), cl.Nodes[1].Open(t, "root"), cl.Nodes[2].Open(t, "root")
					defer a.Close()
					defer x.Close()
					a.Must("create table t (id int primary key, v int not null); create table u (id int primary key)")
					a.Must("insert into t values (1, 1), (2, 2), (3, 3)")
					if strings.Contains(c.job+c.change, "index k") {
						a.Must("create index k on t (v)")
					}
					b.Must("select * from t")
					x.Must("begin; select * from t")
					job := start(a, c.job)
					time.Sleep(2 * time.Second)
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					if how == "lock_timeout" {
						b.Must("set lock_timeout = '5s'")
					}
					done := make(chan error, 1)
					begun := time.Now()
					go func() {
						_, err := b.ExecContext(ctx, c.change)
						done <- err
					}()
					if how == "cancelled" {
						time.Sleep(20 * time.Second)
						cancel()
						err := within(t, time.Second, "the cancelled statement", done)
						if err == nil {
							t.Fatal("it did not wait")
						}
						b.Exec("rollback")
					} else {
						time.Sleep(20 * time.Second)
						select {
						case err := <-done:
							if how != "lock_timeout" || !sessiontest.ErrIs(err, sqlstate.LockNotAvailable) {
								t.Fatalf("after %v: %v", time.Since(begun), sessiontest.Describe(err))
							}
							b.Exec("rollback")
						default:
							if how == "lock_timeout" {
								t.Fatal("it waits on after lock_timeout")
							}
						}
					}
					released := time.Now()
					x.Must("commit")
					if err := within(t, time.Minute, "the job", job); err != nil {
						t.Fatal(sessiontest.Describe(err))
					}
					if how != "waits" {
						b.Close()
						if got := a.Must("select count(*) from t"); !strings.Contains(got, "\n3\n") {
							t.Error(got)
						}
						return
					}
					if err := within(t, time.Minute, "the change", done); err != nil {
						t.Fatal(sessiontest.Describe(err))
					}
					b.Close()
					if took := time.Since(released); took > 10*time.Second {
						t.Errorf("the two took %v after the transaction in their way had ended", took)
					}
					if c.want == "" {
						if _, err := a.Exec("select * from t"); !sessiontest.ErrIs(err, sqlstate.UndefinedTable) {
							t.Error(err)
						}
						return
					}
					got := a.Must("select count(*), (select count(*) from pg_index where indrelid = 't'::regclass and not indisprimary) from t")
					if !strings.Contains(c.want, "0 | 0") && !strings.Contains(got, "\n"+c.want+"\n") {
						t.Errorf("%s, expected %s", got, c.want)
					}
					verify(t, cl.Nodes[0], "t")
				})
			})
		}
	}
}

// A transaction that uses the table itself is in the job's way, and begins anew, unless the client would then see different
// results.
func TestChangesLetJobsPass(t *testing.T) {
	for _, first := range []string{"select count(*) from t", "insert into t values (4, 4)", "lock table t in row exclusive mode"} {
		for _, moved := range []bool{false, true} {
			t.Run(fmt.Sprint(first, moved), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					cl := sessiontest.New(t, 2)
					defer cl.Stop()
					a, b := cl.Nodes[0].Open(t, "root"), cl.Nodes[1].Open(t, "root")
					defer a.Close()
					defer b.Close()
					a.Must("create table t (id int primary key, v int)")
					a.Must("insert into t values (1, 1), (2, 2), (3, 3)")
					b.Must("select * from t")
					b.Must("begin; " + first)
					job := start(a, "create index i on t (v)")
					time.Sleep(time.Second)
					if moved {
						c := cl.Nodes[0].Open(t, "root")
						c.Must("insert into t values (10, 10)")
						c.Close()
					}
					_, err := b.Exec("alter table t add column w int default 5")
					if err != nil {
						t.Log(sessiontest.Describe(err))
						b.Exec("rollback")
					}
					if jerr := within(t, time.Minute, "the job", job); jerr != nil {
						t.Fatal(sessiontest.Describe(jerr))
					}
					differs := moved && strings.HasPrefix(first, "select")
					if err != nil && (!differs || !sessiontest.ErrIs(err, sqlstate.SerializationFailure)) {
						t.Fatal(sessiontest.Describe(err))
					}
					if err == nil {
						if differs {
							t.Error("the client has seen another number of rows")
						}
						b.Must("commit")
						if got := a.Must("select min(w) from t"); !strings.Contains(got, "\n5\n") {
							t.Error(got)
						}
					}
					verify(t, cl.Nodes[0], "t")
				})
			})
		}
	}
}
