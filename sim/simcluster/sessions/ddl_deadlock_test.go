package sessions_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"meridian/sim/simcluster"
	"meridian/sim/simcluster/simtest"
)

// Transactions wait for each other through versions of descriptors: each has used a table that another wants to lock. One of them
// gets the error of a deadlock as soon as for any other (lease.L6, txn.TX7), and the others go on. With transaction_replay, all
// do.
func TestDefinitionDeadlocks(t *testing.T) {
	t.Parallel()
	rings := [][][2]string{
		{{"SELECT * FROM t0", "ALTER TABLE t1 ADD COLUMN w0 int"}, {"SELECT * FROM t1", "ALTER TABLE t0 ADD COLUMN w1 int"}},
		{{"INSERT INTO t0 VALUES (10)", "LOCK TABLE t1"}, {"INSERT INTO t1 VALUES (10)", "LOCK TABLE t0"}},
		{{"INSERT INTO t0 VALUES (10)", "CREATE INDEX ON t1 (id)"}, {"INSERT INTO t1 VALUES (10)", "CREATE INDEX ON t0 (id)"}},
		{{"UPDATE r SET v = v + 1", "TRUNCATE t1"}, {"SELECT * FROM t1", "UPDATE r SET v = v + 1"}},
		{{"LOCK TABLE t0", "ALTER TABLE t1 ADD COLUMN w0 int"}, {"SELECT * FROM t1", "SELECT * FROM t0"}},
		{{"SELECT * FROM t0", "DROP TABLE t1"}, {"SELECT * FROM t1", "DROP TABLE t2"}, {"SELECT * FROM t2", "DROP TABLE t0"}},
	}
	synctest.Test(t, func(t *testing.T) {
		c := simcluster.Start(t, simcluster.Options{Seed: 1, Log: simtest.LogTo()})
		simtest.Replicated(t, c, 3)
		ctx := context.Background()
		admin := simtest.Connect(t, c, 0)
		simtest.Exec(t, admin, "CREATE TABLE r (v int)")
		simtest.Exec(t, admin, "INSERT INTO r VALUES (0)")
		for i, ring := range rings {
			for _, replay := range []string{"off", "on"} {
				what := fmt.Sprint("ring ", i, ", replay ", replay)
				func() {
					for k := range 3 {
						simtest.Exec(t, admin, fmt.Sprintf("DROP TABLE IF EXISTS t%d", k))
						simtest.Exec(t, admin, fmt.Sprintf("CREATE TABLE t%d (id int)", k))
						simtest.Exec(t, admin, fmt.Sprintf("INSERT INTO t%d VALUES (1)", k))
					}
					time.Sleep(2 * time.Second)
					var conns []*pgx.Conn
					for k := range ring {
						conn := simtest.Connect(t, c, k)
						conns = append(conns, conn)
						simtest.Exec(t, conn, "SET transaction_replay = "+replay)
						simtest.Exec(t, conn, "BEGIN")
						simtest.Exec(t, conn, ring[k][0])
					}
					type outcome struct {
						k   int
						err error
						at  time.Duration
					}
					done := make(chan outcome, len(ring))
					start := time.Now()
					for k, conn := range conns {
						go func() {
							_, err := conn.Exec(ctx, ring[k][1])
							at := time.Since(start)
							if err != nil {
								conn.Exec(ctx, "ROLLBACK")
							} else {
								_, err = conn.Exec(ctx, "COMMIT")
							}
							done <- outcome{k, err, at}
						}()
						time.Sleep(20 * time.Millisecond)
					}
					failed := 0
					for range conns {
						o := <-done
						t.Logf("%s: %s after %v: %v", what, ring[o.k][1], o.at, o.err)
						if o.at > 4*time.Second {
							t.Errorf("%s: %s took %v", what, ring[o.k][1], o.at)
						}
						var pg *pgconn.PgError
						switch {
						case o.err == nil:
						case !errors.As(o.err, &pg):
							t.Errorf("%s: %s: %v", what, ring[o.k][1], o.err)
						case pg.Code == "40P01" && replay == "off":
							failed++
						case pg.Code == "42P01" || pg.Code == "40001" || pg.Code == "40P01" && i == 4:
							// The rows that the transaction has read, or the table that it was to drop, are gone; or it would lose a lock that the client
							// has asked for.
							if replay == "off" {
								t.Errorf("%s: %s: %v", what, ring[o.k][1], o.err)
							}
						default:
							t.Errorf("%s: %s: %v, %s", what, ring[o.k][1], o.err, pg.Detail)
						}
					}
					if replay == "off" && failed != 1 {
						t.Errorf("%s: %d transactions were told of a deadlock", what, failed)
					}
				}()
			}
		}
	})
}
