package schemachange_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"meridian/kv"
	"meridian/sql/catalog"
	"meridian/sql/catalog/lease"
	"meridian/sql/session/sessiontest"
	"meridian/sql/sqlstate"
	"meridian/txn"
)

// damage changes a table's descriptor without any of the checks that statements make, as an earlier version may have done.
func damage(t *testing.T, n *sessiontest.Node, name string, f func(*catalog.Table)) {
	t.Helper()
	id := table(t, n, name).ID
	if err := n.Leases.Change(context.Background(), func(_ context.Context, _ *txn.Txn, cat *lease.Txn) error {
		f(cat.Table(id))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// A table that can't be read any more, because an earlier version has let its region column go, does not hold up others: a change of it gives up with its cause, which SHOW JOBS shows, and
// the table and its database can be dropped, also after a change that was cancelled (job.J3).
func TestDamagedTable(t *testing.T) {
	for _, how := range []string{"fails", "cancelled", "at once", "database"} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := sessiontest.NewIn(t, 2, threeRegions())
				defer c.Stop()
				root := c.Nodes[0].Open(t, "root")
				defer root.Close()
				root.Must("create database d" + threeOf)
				s, other := c.Nodes[0].OpenIn(t, "root", "d"), c.Nodes[1].OpenIn(t, "root", "d")
				s.Must("create table t (id int primary key, v int) locality regional by row; insert into t values (1, 1); create table u (id int primary key)")
				damage(t, c.Nodes[0], "t", func(x *catalog.Table) {
					x.Columns = slices.DeleteFunc(x.Columns, func(col catalog.Column) bool { return col.ID == x.RegionColumn })
				})
				do := func(conn *sessiontest.Conn, text string, within time.Duration) error {
					ctx, stop := context.WithTimeout(context.Background(), within)
					defer stop()
					begun := time.Now()
					_, err := conn.ExecContext(ctx, text)
					if ctx.Err() != nil {
						t.Fatalf("%s hangs, %v", text, time.Since(begun))
					}
					return err
				}
				switch how {
				case "fails":
					if err := do(s, "alter table t set locality global", time.Minute); !sessiontest.ErrIs(err, sqlstate.InternalError) || !strings.Contains(sessiontest.Describe(err), "no column") {
						t.Errorf("SET LOCALITY: %v", err)
					}
					if out := s.Must("select status, error from meridian_internal.jobs where job_type = 'schema change' order by created desc limit 1"); !strings.Contains(out, "failed | ") || !strings.Contains(out, "no column") {
						t.Errorf("the job is shown as %s", out)
					}
				case "cancelled":
					ctx, stop := context.WithTimeout(context.Background(), 3*time.Second)
					_, err := s.ExecContext(ctx, "alter table t set locality global")
					stop()
					if !sessiontest.ErrIs(err, sqlstate.QueryCanceled) {
						t.Errorf("SET LOCALITY: %v", err)
					}
					if out := s.Must("select status, error from meridian_internal.jobs where job_type = 'schema change' order by created desc limit 1"); !strings.Contains(out, "running | ") || !strings.Contains(out, "no column") {
						t.Errorf("while the job goes on it is shown as %s", out)
					}
				}
				if err := do(other, "alter table u add column v int default 3; create index on u (v)", time.Minute); err != nil {
					t.Errorf("a change of another table: %s", sessiontest.Describe(err))
				}
				if how != "database" {
					if err := do(other, "drop table t", time.Minute); err != nil {
						t.Errorf("DROP TABLE: %s", sessiontest.Describe(err))
					}
				}
				s.Close()
				other.Close()
				if err := do(root, "drop database d cascade", time.Minute); err != nil {
					t.Errorf("DROP DATABASE: %s", sessiontest.Describe(err))
				}
				out := root.Must("select job_type, status, error from meridian_internal.jobs where status in ('running', 'reverting') and job_type <> 'removal of data'")
				if !strings.HasSuffix(out, "SELECT 0") {
					t.Errorf("jobs are left: %s", out)
				}
			})
		})
	}
}

// A job whose data is away is repeated for as long as that takes, and says so; DROP TABLE does not wait for it, and CANCEL JOB ends it (job.J5).
func TestDropCallsOffFailingJobs(t *testing.T) {
	for _, how := range []string{"drop table t", "begin; drop table t; commit", "drop database d cascade", "cancel"} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := sessiontest.New(t, 2)
				defer c.Stop()
				root := c.Nodes[1].Open(t, "root")
				defer root.Close()
				root.Must("create database d")
				s, other := c.Nodes[0].OpenIn(t, "root", "d"), c.Nodes[1].OpenIn(t, "root", "d")
				defer s.Close()
				s.Must("create table t (id int primary key, v int); insert into t select g, g from generate_series(1, 500) g")
				c.Lose(func(b *kv.Batch) bool {
					return slices.ContainsFunc(b.Requests, func(r kv.Request) bool { _, loads := r.(*kv.LoadRequest); return loads })
				})
				done := start(s, "create index i on t (v)")
				time.Sleep(2 * time.Minute)
				select {
				case err := <-done:
					t.Fatalf("the job has given up: %v", err)
				default:
				}
				job, status, _ := strings.Cut(strings.Split(root.Must("select job_id, status, error from meridian_internal.jobs where job_type = 'schema change'"), "\n")[1], " | ")
				if !strings.Contains(status, "running | ") || !strings.Contains(status, "unavailable") {
					t.Errorf("the job is shown as %s", status)
				}
				begun := time.Now()
				conn := other
				if strings.Contains(how, "database") {
					other.Close()
					conn = root
				} else {
					defer other.Close()
				}
				if how == "cancel" {
					how = "cancel job " + job
				}
				ctx, stop := context.WithTimeout(context.Background(), time.Minute)
				defer stop()
				if _, err := conn.ExecContext(ctx, how); err != nil {
					t.Fatalf("%s, after %v: %s", how, time.Since(begun), sessiontest.Describe(err))
				}
				if err := within(t, 10*time.Second, "the index's statement", done); !sessiontest.ErrIs(err, sqlstate.QueryCanceled) {
					t.Errorf("the index's statement: %v", err)
				}
				if strings.HasPrefix(how, "cancel") {
					c.Lose(nil)
					conn.Must("create index i on t (v)")
					verify(t, c.Nodes[0], "t")
				}
			})
		})
	}
}
