package ranges_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"meridian/sim/simcluster"
	"meridian/sim/simcluster/simtest"
)

// TestGatewayDies: the locks of a gateway that has died are in the way until a majority of the record's range supports it no more (commit.CR2), and not for commit.Expiry, 3 s, however old its transaction is.
func TestGatewayDies(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		c := simcluster.Start(t, simcluster.Options{Log: simtest.LogTo()})
		simtest.Replicated(t, c, 3)
		root := simtest.Connect(t, c, 0)
		simtest.Exec(t, root, "CREATE TABLE t (id int PRIMARY KEY, n int)")
		simtest.Exec(t, root, "INSERT INTO t SELECT i, 0 FROM generate_series(1, 20) AS g(i)")
		var waits []time.Duration
		for round := range 6 {
			victim := 1 + round%2
			if err := c.TransferLeases(ctx, 0); err != nil {
				t.Fatal(err)
			}
			conn := simtest.Connect(t, c, victim)
			simtest.Exec(t, conn, "BEGIN")
			simtest.Exec(t, conn, "UPDATE t SET n = n + 1 WHERE id IN (1, 2)")
			simtest.Exec(t, conn, "SELECT * FROM t WHERE id = 3 FOR UPDATE")
			time.Sleep([]time.Duration{0, 61 * time.Millisecond, 150 * time.Millisecond, 700 * time.Millisecond, 2500 * time.Millisecond, 20 * time.Second}[round])
			c.Crash(victim, 0, round%3 == 0)
			begin := time.Now()
			for _, id := range []int{1, 2, 3} {
				simtest.Exec(t, root, "UPDATE t SET n = n + 10 WHERE id = "+string(rune('0'+id)))
			}
			waits = append(waits, time.Since(begin))
			c.Boot(victim)
			c.WaitReady(victim)
			time.Sleep(5 * time.Second)
		}
		var sum int
		if err := root.QueryRow(ctx, "SELECT sum(n) FROM t").Scan(&sum); err != nil || sum != 180 {
			t.Errorf("%d, %v", sum, err)
		}
		t.Log(waits)
		if worst := slices.Max(waits); worst > time.Second {
			t.Errorf("a dead gateway's locks were in the way for %v", worst)
		}
	})
}
