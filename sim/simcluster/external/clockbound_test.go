package external_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"meridian/cluster"
	"meridian/server"
	"meridian/sim/simcluster"
	"meridian/sim/simcluster/simtest"
)

// TestClockOutsideOfItsBound: with a configured bound of 5 ms, a clock that is 99 ms off is found within a second, its node is named and stops, and no read that it
// answers from then on is stale (cluster.L5, clock.C6). Forwards or back, and the maximum offset is far away.
func TestClockOutsideOfItsBound(t *testing.T) {
	t.Parallel()
	for _, offset := range []time.Duration{99 * time.Millisecond, -99 * time.Millisecond} {
		t.Run(offset.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := simcluster.Start(t, simcluster.Options{Log: simtest.LogTo(), Configure: func(_ int, o *server.Options) { o.Time.Bound = 5 * time.Millisecond }})
				simtest.Replicated(t, c, 3)
				ctx := context.Background()
				wrong := c.Node(1)
				id := wrong.NodeID()
				conn := simtest.Connect(t, c, 1)
				simtest.Exec(t, conn, "CREATE TABLE t (id int PRIMARY KEY, n int)")
				simtest.Exec(t, conn, "INSERT INTO t VALUES (1, 1)")
				time.Sleep(5 * time.Second)
				watcher := simtest.Connect(t, c, 0)
				c.Machines[1].Clock.Jump(offset)
				begun := time.Now()
				var failed error
				for failed == nil && time.Since(begun) < 5*time.Second {
					time.Sleep(time.Millisecond)
					failed = c.StoppedItself(1, wrong)
				}
				var e *cluster.BoundError
				if took := time.Since(begun); !errors.As(failed, &e) || !e.Own || took > 1010*time.Millisecond {
					t.Fatalf("after %s: %v", took, failed)
				} else {
					t.Logf("found after %s: %v", took, failed)
				}
				// The process is about to end, and answers nobody any more.
				var n int
				err := conn.QueryRow(ctx, "SELECT n FROM t WHERE id = 1").Scan(&n)
				var pg *pgconn.PgError
				if !errors.As(err, &pg) || pg.Code != "57P03" || !strings.Contains(pg.Detail, "outside of the bound 5ms") {
					t.Errorf("a read is answered: %d, %v", n, err)
				}
				time.Sleep(time.Second)
				var state string
				if err := watcher.QueryRow(ctx, "SELECT state FROM meridian_internal.clocks WHERE node_id = $1", int64(id)).Scan(&state); err != nil || state != cluster.OffsetWrong {
					t.Errorf("n%d is %q, %v", id, state, err)
				}
				simtest.Exec(t, watcher, "UPDATE t SET n = 2 WHERE id = 1") // the others go on
			})
		})
	}
}

// TestTwoClocksContradict: of two nodes none knows which of the clocks is wrong. Both refuse to read and to commit, and say so, until the clock is right again.
func TestTwoClocksContradict(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := simcluster.Start(t, simcluster.Options{NodesPerRegion: 2, Log: simtest.LogTo(), Configure: func(_ int, o *server.Options) { o.Time.Bound = 5 * time.Millisecond }})
		time.Sleep(10 * time.Second)
		ctx := context.Background()
		conn := simtest.Connect(t, c, 0)
		simtest.Exec(t, conn, "CREATE TABLE t (id int PRIMARY KEY, n int)")
		simtest.Exec(t, conn, "INSERT INTO t VALUES (1, 1)")
		time.Sleep(5 * time.Second)
		simtest.Exec(t, conn, "BEGIN")
		simtest.Exec(t, conn, "UPDATE t SET n = 2 WHERE id = 1")
		c.Machines[1].Clock.Jump(99 * time.Millisecond)
		time.Sleep(1010 * time.Millisecond)
		code := func(err error) string {
			var pg *pgconn.PgError
			if errors.As(err, &pg) {
				return pg.Code + " " + pg.Detail
			}
			return ""
		}
		if _, err := conn.Exec(ctx, "COMMIT"); !strings.HasPrefix(code(err), "57P03 clocks of 2 nodes contradict each other") {
			t.Errorf("COMMIT: %v", err)
		}
		for i := range 2 {
			conn := simtest.Connect(t, c, i)
			if _, err := conn.Exec(ctx, "SELECT n FROM t"); !strings.Contains(code(err), "no majority says which") {
				t.Errorf("n%d: %v", i+1, err)
			}
			simtest.Exec(t, conn, "SHOW CLUSTER CLOCKS")
			simtest.Exec(t, conn, "SELECT n FROM t AS OF SYSTEM TIME '-2s'")
			if err := c.StoppedItself(i, c.Node(i)); err != nil {
				t.Error(err)
			}
		}
		c.Machines[1].Clock.Jump(-99 * time.Millisecond)
		time.Sleep(3 * time.Second)
		simtest.Exec(t, simtest.Connect(t, c, 1), "UPDATE t SET n = n + 1 WHERE id = 1")
	})
}
