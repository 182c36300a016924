package ranges_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"meridian/keys"
	"meridian/sim"
	"meridian/sim/simcluster"
	"meridian/sim/simcluster/simtest"
)

// TestLeaseholderDiesWithCommits kills the leaseholder of a table while clients at another node write single rows. Their commits are of one phase, and leave no record; the
// leaseholder that follows remembers them (replica.R13), so no client hears that nobody knows, and each row has the value that its client counts.
func TestLeaseholderDiesWithCommits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := simcluster.Start(t, simcluster.Options{Regions: sim.ThreeRegions(), NodesPerRegion: 1, Log: simtest.LogTo()})
		simtest.Replicated(t, c, 3)
		for i := range c.Len() {
			c.Node(i).Store().PauseQueues(true)
		}
		conn := simtest.Connect(t, c, 0)
		simtest.Exec(t, conn, "CREATE TABLE t (id int PRIMARY KEY, v int NOT NULL)")
		const writers = 8
		for w := range writers {
			simtest.Exec(t, conn, "INSERT INTO t VALUES ($1, 0)", w)
		}
		key := simtest.TableKey(t, conn, "t")
		ctx := context.Background()
		give := func(k keys.Key, to int) {
			t.Helper()
			limit, cancel := context.WithTimeout(ctx, 5*time.Second)
			defer cancel()
			if err := c.TransferLease(limit, k, to); err != nil {
				t.Fatal(err)
			}
		}
		stop := make(chan struct{})
		var wg sync.WaitGroup
		var unknown, failed atomic.Int64
		var acked [writers]int64
		for w := range writers {
			own := simtest.Connect(t, c, 0)
			wg.Go(func() {
				for {
					select {
					case <-stop:
						return
					case <-time.After(time.Duration(10+w) * time.Millisecond):
					}
					_, err := own.Exec(ctx, "UPDATE t SET v = v + 1 WHERE id = $1", w)
					var e *pgconn.PgError
					switch {
					case err == nil:
						acked[w]++
					case errors.As(err, &e) && e.Code == "40003":
						unknown.Add(1)
					default:
						failed.Add(1)
						t.Log(err)
					}
				}
			})
		}
		for round := range 6 {
			victim := 1 + round%2
			give(key, victim)
			give(keys.SystemPrefix, 0)
			time.Sleep(2*time.Second + time.Duration(round)*37*time.Millisecond)
			c.Crash(victim, 0, round%3 == 0)
			time.Sleep(5 * time.Second)
			c.Boot(victim)
			c.WaitReady(victim)
			time.Sleep(5 * time.Second)
		}
		close(stop)
		wg.Wait()
		for w := range writers {
			var v int64
			if err := simtest.Connect(t, c, 0).QueryRow(ctx, "SELECT v FROM t WHERE id = $1", w).Scan(&v); err != nil {
				t.Fatal(err)
			}
			if v < acked[w] || v > acked[w]+unknown.Load() {
				t.Errorf("row %d has %d, and %d increments were acknowledged, %d may have been made", w, v, acked[w], unknown.Load())
			}
		}
		t.Log(acked, unknown.Load(), failed.Load())
		if unknown.Load() > 0 || failed.Load() > 0 {
			t.Errorf("%d commits have an unknown outcome, %d statements failed", unknown.Load(), failed.Load())
		}
	})
}
