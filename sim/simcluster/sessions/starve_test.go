package sessions_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"

	"meridian/sim/simcluster/simtest"
)

// TestWritersAreNotStarved: a row is read all the time next to its leaseholder, and a client far away reads it and writes
// it. Each read moves its write up, and its own reads have to be refreshed, which takes a round trip during which there
// are further reads. It still commits, after a few rounds. So do many such clients at once.
func TestWritersAreNotStarved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := simtest.WideArea(t)
		near, far := simtest.Connect(t, c, 0), simtest.Connect(t, c, 2)
		simtest.Exec(t, near, "CREATE TABLE hot (id int PRIMARY KEY, v int)")
		simtest.Exec(t, near, "CREATE TABLE other (id int PRIMARY KEY, v int)")
		simtest.Exec(t, near, "INSERT INTO hot VALUES (1, 0)")
		simtest.Exec(t, near, "INSERT INTO other VALUES (1, 0)")
		simtest.Exec(t, near, "ALTER TABLE other SPLIT AT VALUES (0)")
		simtest.Exec(t, far, "SELECT v FROM hot")
		ctx := context.Background()
		stop := make(chan struct{})
		var wg sync.WaitGroup
		wg.Add(1)
		go func() {
			defer wg.Done()
			for {
				select {
				case <-stop:
					return
				case <-time.After(3 * time.Millisecond):
					if _, err := near.Exec(ctx, "SELECT v FROM hot WHERE id = $1", 1); err != nil {
						t.Error(err)
						return
					}
				}
			}
		}()
		write := func(conn *pgx.Conn, what string, read string, limit time.Duration) {
			start := time.Now()
			ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
			defer cancel()
			for try := 1; ; try++ {
				tx, err := conn.Begin(ctx)
				if err != nil {
					t.Error(err)
					return
				}
				var v int
				err = tx.QueryRow(ctx, read).Scan(&v)
				if err == nil {
					_, err = tx.Exec(ctx, "UPDATE hot SET v = v + 1 WHERE id = 1")
				}
				if err == nil {
					err = tx.Commit(ctx)
				}
				if err == nil {
					t.Logf("%s: %v, %d tries", what, time.Since(start), try)
					break
				}
				tx.Rollback(ctx)
				if try > 20 {
					t.Errorf("%s: %v after %d tries", what, err, try)
					return
				}
			}
			if d := time.Since(start); d > limit {
				t.Errorf("%s took %v", what, d)
			}
		}
		write(far, "a far writer, reads in the range", "SELECT v FROM hot WHERE id = 1", 2*time.Second)
		write(far, "a far writer, reads elsewhere too", "SELECT hot.v + other.v FROM hot, other", 2*time.Second)
		for i := range 8 {
			conn := simtest.Connect(t, c, 2)
			wg.Add(1)
			go func() {
				defer wg.Done()
				write(conn, fmt.Sprintf("far writer %d", i), "SELECT v FROM hot WHERE id = 1", 16*time.Second)
			}()
		}
		time.Sleep(10 * time.Second)
		close(stop)
		wg.Wait()
	})
}

// TestTurnsAreKept: a statement locks two rows in two ranges, one of which many others write. When its turn has come there,
// it is refused for what was committed since its snapshot; its turn stays its own until its gateway has moved it.
func TestTurnsAreKept(t *testing.T) {
	t.Parallel()
	for _, x := range []struct{ quiet, hot, gateway int }{{0, 0, 2}, {0, 2, 1}, {2, 0, 2}} {
		synctest.Test(t, func(t *testing.T) {
			c := simtest.WideArea(t)
			conn := simtest.Connect(t, c, 0)
			simtest.Exec(t, conn, "CREATE TABLE two (id int PRIMARY KEY, n int NOT NULL)")
			simtest.Exec(t, conn, "INSERT INTO two VALUES (0, 0), (1, 0)")
			simtest.Exec(t, conn, "ALTER TABLE two SPLIT AT VALUES (0), (1)")
			simtest.Replicated(t, c, 3)
			for i := range c.Len() {
				c.Node(i).Store().PauseQueues(true)
			}
			ctx := context.Background()
			ranges, err := c.Ranges(ctx, 0)
			if err != nil {
				t.Fatal(err)
			}
			for i, to := range []int{x.hot, x.quiet} {
				if err := c.TransferLease(ctx, ranges[len(ranges)-1-i].Start, to); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(3 * time.Second)
			end := time.Now().Add(20 * time.Second)
			var wg sync.WaitGroup
			worker := func(at int, q string, most time.Duration) {
				conn := simtest.Connect(t, c, at)
				wg.Go(func() {
					for time.Now().Before(end) {
						begun := time.Now()
						if _, err := conn.Exec(ctx, q); err != nil {
							t.Error(err)
							return
						}
						if d := time.Since(begun); d > most {
							t.Errorf("leases at %d and %d: from %d %q took %s", x.quiet, x.hot, at, q, d)
						}
						time.Sleep(70 * time.Millisecond)
					}
				})
			}
			for i := range 6 {
				worker(i%3, "UPDATE two SET n = n + 1 WHERE id = 1", 3*time.Second)
			}
			worker(x.gateway, "UPDATE two SET n = n + 1 WHERE id IN (0, 1)", 3*time.Second)
			wg.Wait()
		})
	}
}
