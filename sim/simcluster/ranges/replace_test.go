package ranges_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"meridian/keys"
	"meridian/server"
	"meridian/sim/simcluster"
	"meridian/sim/simcluster/simtest"
)

// told is what a client hears of an error: its code, with the detail, which says why an outcome is unknown.
func told(err error) (code, detail string) {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code, pg.Code + ": " + pg.Message + ": " + pg.Detail
	}
	return "", err.Error()
}

// replace stops a node in an orderly way and starts it again.
func replace(t *testing.T, c *simcluster.Cluster, i int) {
	t.Helper()
	if d := c.Node(i).Drain(context.Background(), server.DrainOptions{}); d.Cut != 0 || d.Leases != 0 {
		t.Errorf("n%d is drained with %+v", i+1, d)
	}
	c.StopNode(i)
	c.Boot(i)
	c.WaitReady(i)
}

// TestReplaceInTurn replaces the node that has the leases and then, at once, the one to which they went, under writers that connect again when they
// are told to go. No transaction that was begun fails, and none waits for long: the leases of the second node go to the one that stays, not to
// the one that has just started.
func TestReplaceInTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := simcluster.Start(t, simcluster.Options{Log: simtest.LogTo()})
		simtest.Replicated(t, c, 3)
		setup := simtest.Connect(t, c, 0)
		simtest.Exec(t, setup, "CREATE TABLE a (id int PRIMARY KEY, v int NOT NULL)")
		simtest.Exec(t, setup, "INSERT INTO a SELECT i, 0 FROM generate_series(0, 99) i")
		simtest.Exec(t, setup, "ALTER TABLE a SPLIT AT VALUES (50)")
		setup.Close(t.Context())
		simtest.Replicated(t, c, 3)
		if err := c.TransferLeases(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		var all sync.WaitGroup
		begun := time.Now()
		for w := range 6 {
			all.Go(func() {
				var conn *pgx.Conn
				for at := w; ctx.Err() == nil; time.Sleep(time.Duration(w+3) * time.Millisecond) {
					if conn == nil {
						var err error
						if conn, err = c.Connect(ctx, at%3, "defaultdb"); err != nil {
							conn = nil
							at++
							time.Sleep(50 * time.Millisecond)
							continue
						}
					}
					start := time.Now()
					tx, err := conn.Begin(context.Background())
					code := ""
					if err != nil {
						code, _ = told(err)
					} else {
						// One range, and two.
						if _, err = tx.Exec(context.Background(), "UPDATE a SET v = v + 1 WHERE id IN ($1, $2)", w, w+50*(w%2)); err == nil {
							err = tx.Commit(context.Background())
						}
						if d := time.Since(start); d > 500*time.Millisecond {
							t.Errorf("after %s: writer %d, at n%d, took %s", time.Since(begun), w, at%3+1, d)
						}
					}
					if err != nil {
						if _, why := told(err); code != "57P01" {
							t.Errorf("after %s: writer %d, at n%d: %s", time.Since(begun), w, at%3+1, why)
						}
						conn.Close(context.Background())
						conn = nil
						at++
					}
				}
				if conn != nil {
					conn.Close(context.Background())
				}
			})
		}
		time.Sleep(time.Second)
		replace(t, c, 0)
		next := simtest.Holder(t, c, 0, keys.TablePrefix)
		if next == 0 {
			t.Error("a node has been drained and has the lease")
		}
		replace(t, c, next)
		// The first one may be well again by now, and have the lease: rangeserver's TestTakers says who is asked first.
		if at := simtest.Holder(t, c, 0, keys.TablePrefix); at == next {
			t.Errorf("n%d has been drained and has the lease", at+1)
		}
		time.Sleep(time.Second)
		stop()
		all.Wait()
		c.Stop()
		time.Sleep(20 * time.Second)
	})
}

// TestLeaseToRestarted gives all leases to a node that has just started again after it was drained. It serves at once, though its earlier
// process may have had leases too (lease.RL6), and keeps them: it is the earlier process that drained.
func TestLeaseToRestarted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := simcluster.Start(t, simcluster.Options{Log: simtest.LogTo()})
		simtest.Replicated(t, c, 3)
		setup := simtest.Connect(t, c, 1)
		simtest.Exec(t, setup, "CREATE TABLE a (id int PRIMARY KEY)")
		for i := range 2 {
			if err := c.TransferLeases(t.Context(), i); err != nil { // the first node has had them
				t.Fatal(err)
			}
			simtest.Exec(t, setup, "INSERT INTO a VALUES ($1)", -1-i)
		}
		replace(t, c, 0)
		if err := c.TransferLeases(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		for i := range 150 {
			start := time.Now()
			simtest.Exec(t, setup, "INSERT INTO a VALUES ($1)", i)
			if d := time.Since(start); d > 100*time.Millisecond {
				t.Errorf("write %d took %s", i, d)
			}
			time.Sleep(10 * time.Millisecond)
		}
		for _, k := range []keys.Key{keys.Min, keys.TablePrefix} {
			if at := simtest.Holder(t, c, 1, k); at != 0 {
				t.Errorf("n%d has the lease of %v", at+1, k)
			}
		}
		c.Stop()
		time.Sleep(20 * time.Second)
	})
}

// TestLeaveAnswers stops a node that was drained, and has got leases since, while others write to its ranges all the time. It answers what it has
// begun, and refuses the rest before it has done anything, so that no gateway is left without the outcome of a commit (server.SV6).
func TestLeaveAnswers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := simcluster.Start(t, simcluster.Options{Log: simtest.LogTo(), LocalRTT: 40 * time.Millisecond})
		simtest.Replicated(t, c, 3)
		setup := simtest.Connect(t, c, 1)
		simtest.Exec(t, setup, "CREATE TABLE a (id int PRIMARY KEY, v int NOT NULL)")
		simtest.Exec(t, setup, "INSERT INTO a SELECT i, 0 FROM generate_series(0, 99) i")
		for i := range c.Len() {
			c.Node(i).Store().PauseQueues(true)
		}
		c.Node(0).Drain(t.Context(), server.DrainOptions{})
		if err := c.TransferLeases(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		ctx, stop := context.WithCancel(t.Context())
		for w := range 8 {
			conn := simtest.Connect(t, c, 1+w%2)
			all.Go(func() {
				for ctx.Err() == nil {
					if _, err := conn.Exec(context.Background(), "UPDATE a SET v = v + 1 WHERE id = $1", w); err != nil {
						_, why := told(err)
						t.Errorf("writer %d: %s", w, why)
						return
					}
				}
			})
		}
		time.Sleep(3 * time.Second)
		c.StopNode(0)
		time.Sleep(8 * time.Second)
		stop()
		all.Wait()
		setup.Close(context.Background())
		c.Stop()
		time.Sleep(20 * time.Second)
	})
}
