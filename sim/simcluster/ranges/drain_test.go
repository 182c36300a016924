package ranges_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"meridian/server"
	"meridian/sim/simcluster"
	"meridian/sim/simcluster/simtest"
)

// TestDrain stops a node in an orderly way while others are used: its leases are transferred first, so no client
// elsewhere waits, and its idle client gets an error.
func TestDrain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := simcluster.Start(t, simcluster.Options{Log: simtest.LogTo()})
		simtest.Replicated(t, c, 3)
		ctx := context.Background()
		if err := c.TransferLeases(ctx, 0); err != nil {
			t.Fatal(err)
		}
		idle, busy := simtest.Connect(t, c, 0), simtest.Connect(t, c, 1)
		simtest.Exec(t, busy, "CREATE TABLE a (id int PRIMARY KEY)")
		simtest.Exec(t, idle, "SELECT * FROM a")
		told := make(chan error, 1)
		go func() { told <- idle.PgConn().WaitForNotification(ctx) }()
		drained := make(chan time.Duration, 1)
		go func() {
			limit, cancel := context.WithTimeout(ctx, 10*time.Second)
			defer cancel()
			start := time.Now()
			c.Node(0).Drain(limit, server.DrainOptions{})
			drained <- time.Since(start)
			c.StopNode(0)
		}()
		worst := time.Duration(0)
		for i := range 300 {
			start := time.Now()
			simtest.Exec(t, busy, "INSERT INTO a VALUES ($1)", i)
			worst = max(worst, time.Since(start))
			time.Sleep(10 * time.Millisecond)
			select {
			case d := <-drained:
				t.Logf("drained after %s", d)
				if d > 5*time.Second {
					t.Errorf("draining took %s", d)
				}
			default:
			}
		}
		t.Logf("worst write %s", worst)
		if worst > 50*time.Millisecond {
			t.Errorf("a write elsewhere took %s", worst)
		}
		err := <-told
		var pg *pgconn.PgError
		if !errors.As(err, &pg) || pg.Code != "57P01" {
			t.Errorf("the idle client hears %v", err)
		}
		time.Sleep(time.Minute) // the driver's background work ends
	})
}
