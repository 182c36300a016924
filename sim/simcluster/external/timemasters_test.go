package external_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"

	"meridian/clock"
	"meridian/clock/truetime"
	"meridian/sim/simcluster"
	"meridian/sim/simcluster/simtest"
)

// epsilons checks that each node that runs knows true time within most, and returns the largest epsilon.
func epsilons(t *testing.T, c *simcluster.Cluster, most time.Duration) (worst time.Duration) {
	t.Helper()
	for i := range c.Len() {
		n := c.Node(i)
		if n == nil {
			continue
		}
		truth, now := n.Clock().TrueTime(), clock.FromTime(time.Now())
		if truth.After(now) || truth.Before(now) || truth.Epsilon() > most {
			t.Errorf("n%d: true time is %s, and the interval [%s, %s]", i+1, now, truth.Earliest, truth.Latest)
		}
		worst = max(worst, truth.Epsilon())
	}
	return worst
}

// table is the answer to a query, a line for each row.
func table(t *testing.T, conn *pgx.Conn, query string) (out string) {
	t.Helper()
	rows, err := conn.Query(context.Background(), query)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		values, err := rows.Values()
		if err != nil {
			t.Fatal(err)
		}
		out += strings.TrimSuffix(fmt.Sprintln(values...), "\n") + "\n"
	}
	if rows.Err() != nil {
		t.Fatal(rows.Err())
	}
	return out
}

// TestTimeMasters: nodes with time masters know the time within milliseconds; the clocks of their machines may show anything, and a write is read on another
// node. A node whose local clock drifts beyond the bound leaves, and the others go on.
func TestTimeMasters(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := simcluster.Start(t, simcluster.Options{TimeMasters: 3, Log: simtest.LogTo()})
		simtest.Replicated(t, c, 3)
		ctx := context.Background()
		a, b := simtest.Connect(t, c, 0), simtest.Connect(t, c, 1)
		if _, err := a.Exec(ctx, "CREATE TABLE t (k int8 PRIMARY KEY, at timestamptz)"); err != nil {
			t.Fatal(err)
		}
		least, most := time.Hour, time.Duration(0)
		for k := range 60 {
			switch k {
			case 10:
				c.Machines[0].Clock.Jump(time.Hour) // far beyond the maximum offset
			case 20:
				c.Machines[1].Clock.Jump(-3 * time.Hour)
			}
			if _, err := a.Exec(ctx, "INSERT INTO t VALUES ($1, now())", k); err != nil {
				t.Fatal(err)
			}
			var wrong time.Duration
			var at time.Time
			if err := b.QueryRow(ctx, "SELECT at FROM t WHERE k = $1", k).Scan(&at); err != nil {
				t.Fatal(k, err)
			}
			if wrong = time.Since(at); wrong.Abs() > 50*time.Millisecond {
				t.Errorf("now() was off by %s", wrong)
			}
			time.Sleep(time.Second)
			e := epsilons(t, c, 8*time.Millisecond)
			least, most = min(least, e), max(most, e)
		}
		if least > 2*time.Millisecond || most < 5*time.Millisecond {
			t.Errorf("the largest epsilon of the nodes was between %s and %s", least, most)
		}

		c.Masters[1].Clock.Jump(time.Second)
		c.Network.Isolate(c.Masters[2].Name)
		time.Sleep(17 * time.Second) // it evicts itself within 16 s
		if got := table(t, a, `SELECT address, distance, state, clock_offset BETWEEN '-10ms' AND '10ms', delay BETWEEN '0' AND '2ms', root_distance < '1ms',
			now() - asked_at < '31s', error IS NULL FROM meridian_internal.time_sources ORDER BY 1`); !strings.HasPrefix(got, "m1:123 near agrees true true true true true\nm2:123 ") ||
			!strings.Contains(got, "m3:123 ") {
			t.Error(got)
		}
		if got := table(t, a, "SELECT node_id, source, epsilon BETWEEN '100us' AND '10ms' FROM meridian_internal.clocks ORDER BY 1"); got != "1 masters true\n2 masters true\n3 masters true\n" {
			t.Error(got)
		}
		c.Masters[1].Clock.SetOffset(0)
		c.Network.Rejoin(c.Masters[2].Name)
		time.Sleep(35 * time.Second)
		if got := table(t, a, "SELECT address, state FROM meridian_internal.time_sources ORDER BY 1"); got != "m1:123 agrees\nm2:123 evicted\nm3:123 agrees\n" {
			t.Error(got)
		}

		n := c.Node(2)
		c.Machines[2].Clock.SetDrift(1000)
		time.Sleep(65 * time.Second)
		var contradiction *truetime.ContradictionError
		if err := c.StoppedItself(2, n); !errors.As(err, &contradiction) {
			t.Error("the node whose clock drifts:", err)
		}
		c.StopNode(2)
		if _, err := a.Exec(ctx, "INSERT INTO t VALUES (100, now())"); err != nil {
			t.Error(err)
		}
		for i := range 2 {
			if err := c.StoppedItself(i, c.Node(i)); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestTimeMastersFail: epsilon grows while no master answers, and each node leaves before it exceeds half of the maximum offset (truetime.TT4).
func TestTimeMastersFail(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := simcluster.Start(t, simcluster.Options{TimeMasters: 3, MaxOffset: 40 * time.Millisecond, Log: simtest.LogTo()})
		for _, m := range c.Masters {
			c.Network.Isolate(m.Name)
		}
		for range 120 {
			time.Sleep(time.Second)
			for i := range c.Len() {
				n := c.Node(i)
				if n == nil {
					continue
				}
				var unsure *truetime.UnsureError
				if err := c.StoppedItself(i, n); errors.As(err, &unsure) {
					c.StopNode(i)
				} else if err != nil {
					t.Fatal(err)
				}
			}
			epsilons(t, c, 20*time.Millisecond)
		}
		for i := range c.Len() {
			if c.Node(i) != nil {
				t.Errorf("n%d still runs", i+1)
			}
		}
	})
}
