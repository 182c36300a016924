package regions_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"meridian/sim"
	"meridian/sim/simcluster"
	"meridian/sim/simcluster/simtest"
)

// TestTwoRegionsFail: rows of a database that survives the failure of two regions are written within five seconds of losing two of five, and nothing that was
// acknowledged before or meanwhile is lost; nor is it when the two come back.
func TestTwoRegionsFail(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		regions := sim.FiveRegions()
		names := regions.Names
		c := simcluster.Start(t, simcluster.Options{Regions: regions, NodesPerRegion: 1, Log: simtest.LogTo()})
		simtest.Exec(t, simtest.Connect(t, c, 0), fmt.Sprintf(`CREATE DATABASE d PRIMARY REGION "%s" REGIONS "%s", "%s", "%s", "%s" SURVIVE 2 REGIONS FAILURE`, names[0], names[1], names[2], names[3], names[4]))
		conn := simtest.ConnectTo(t, c, 0, "d")
		simtest.Exec(t, conn, "CREATE TABLE rows (id int PRIMARY KEY, home text, n int NOT NULL) LOCALITY REGIONAL BY ROW")
		simtest.Exec(t, conn, "CREATE TABLE codes (id int PRIMARY KEY, n int NOT NULL) LOCALITY GLOBAL")
		for i, r := range names {
			simtest.Exec(t, conn, fmt.Sprintf("INSERT INTO rows (id, home, n, crdb_region) VALUES (%d, '%s', 0, '%[2]s')", i, r))
		}
		simtest.Exec(t, conn, "INSERT INTO codes VALUES (1, 0)")
		for _, table := range []string{"rows", "codes"} {
			simtest.Placed(t, table, func() (string, bool) {
				got, ok := simtest.PlacesOf(t, c, conn, table), true
				for line := range strings.SplitSeq(got, "\n") {
					for _, r := range names {
						ok = ok && strings.Contains(line, "1 "+r)
					}
				}
				return got, ok
			})
		}
		time.Sleep(10 * time.Second)

		// Clients of the other regions count, each the row of a region and that of all.
		var mu sync.Mutex // guards the fields below
		var gone, back time.Time
		acknowledged, unknown := map[string]int{}, map[string]int{}
		longest := time.Duration(0)
		stop := make(chan struct{})
		var clients sync.WaitGroup
		for id := range 6 {
			// One client for each row: those of several regions would wait for one another.
			node := 2 + id%3
			q := fmt.Sprintf("UPDATE rows SET n = n + 1 WHERE id = %d", id)
			if id == 5 {
				q = "UPDATE codes SET n = n + 1 WHERE id = 1"
			}
			client := simtest.ConnectTo(t, c, node, "d")
			clients.Go(func() {
				for {
					select {
					case <-stop:
						return
					case <-time.After(100 * time.Millisecond):
					}
					begun := time.Now()
					_, err := client.Exec(ctx, q)
					var pg *pgconn.PgError
					if err != nil && !(errors.As(err, &pg) && pg.Code == "40003") {
						t.Errorf("%s from n%d: %v", q, node+1, err)
						return
					}
					mu.Lock()
					if err != nil {
						unknown[q]++ // it was under way when the regions were lost
					} else {
						acknowledged[q]++
					}
					if !gone.IsZero() && (back.IsZero() || begun.Before(back)) {
						longest = max(longest, time.Since(begun))
					}
					mu.Unlock()
				}
			})
		}
		time.Sleep(5 * time.Second)
		mu.Lock()
		gone = time.Now()
		mu.Unlock()
		c.Crash(0, 0, true)
		c.Crash(1, 0, true)
		time.Sleep(15 * time.Second)
		mu.Lock()
		back = time.Now()
		mu.Unlock()
		c.Boot(0)
		c.Boot(1)
		c.WaitReady(0)
		c.WaitReady(1)
		time.Sleep(5 * time.Second)
		close(stop)
		clients.Wait()
		t.Logf("a write took at most %v; %v; unknown: %v", longest, acknowledged, unknown)
		if longest > 5*time.Second {
			t.Errorf("a write took %v", longest)
		}
		for _, node := range []int{0, 1, 4} {
			conn := simtest.ConnectTo(t, c, node, "d")
			for q, want := range acknowledged {
				var id, n int
				table := "rows"
				if _, err := fmt.Sscanf(q, "UPDATE rows SET n = n + 1 WHERE id = %d", &id); err != nil {
					table, id = "codes", 1
				}
				if err := conn.QueryRow(ctx, fmt.Sprintf("SELECT n FROM %s WHERE id = %d", table, id)).Scan(&n); err != nil || n < want || n > want+unknown[q] {
					t.Errorf("%s: %d additions were acknowledged, of %d the outcome is unknown, and n%d reads %d, %v", q, want, unknown[q], node+1, n, err)
				}
			}
		}
	})
}
