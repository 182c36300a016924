package simcluster_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"

	"meridian/sim"
	"meridian/sim/simcluster"
)

// fiveContinents is a cluster of three nodes, in three zones, in each of the paper's five regions.
func fiveContinents(t *testing.T) *simcluster.Cluster {
	t.Helper()
	return simcluster.Start(t, simcluster.Options{Regions: sim.FiveRegions(), NodesPerRegion: 3, Log: logTo()})
}

// homed waits until the leaseholders of a row-homed table's partitions are where the rows are homed.
func homed(t *testing.T, c *simcluster.Cluster, conn *pgx.Conn, table string, regions, indexes int) {
	t.Helper()
	var got string
	for range 240 {
		got = placesOf(t, c, conn, table)
		homes := map[string]int{}
		for _, r := range sim.FiveRegions().Names {
			for line := range strings.SplitSeq(got, "\n") {
				if strings.HasSuffix(line, "; lease "+r) && strings.Contains(line, "3 "+r) {
					homes[r]++
				}
			}
		}
		done := len(homes) == regions
		for _, n := range homes {
			done = done && n >= indexes
		}
		if done {
			return
		}
		time.Sleep(500 * time.Millisecond)
	}
	t.Errorf("%s is at\n%s", table, got)
}

// TestRegionalByRow counts the wide-area rounds of statements on rows with a home.
func TestRegionalByRow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		c := fiveContinents(t)
		names := sim.FiveRegions().Names
		root := connect(t, c, 0)
		exec(t, root, fmt.Sprintf(`CREATE DATABASE movr PRIMARY REGION "%s" REGIONS "%s", "%s", "%s", "%s"`, names[0], names[1], names[2], names[3], names[4]))
		conn := connectTo(t, c, 0, "movr")
		exec(t, conn, `CREATE TABLE users (id int PRIMARY KEY, email text UNIQUE, phone text UNIQUE, name text) LOCALITY REGIONAL BY ROW`)
		for i, r := range names {
			exec(t, conn, fmt.Sprintf(`INSERT INTO users (id, email, phone, name, crdb_region) VALUES (%d, 'e%d', 'p%d', 'n', '%s')`, i, i, i, r))
		}
		homed(t, c, conn, "users", 5, 3)
		for i, r := range names {
			_ = r
			local := connectTo(t, c, 3*i, "movr")
			farthest := time.Duration(0)
			for j := range names {
				farthest = max(farthest, sim.FiveRegions().RTT(names[i], names[j]))
			}
			roundTrips(t, r+": a read at home by primary key", 0, func() { exec(t, local, fmt.Sprintf("SELECT * FROM users WHERE id = %d", i)) })
			roundTrips(t, r+": a read at home by a unique column", 0, func() { exec(t, local, fmt.Sprintf("SELECT * FROM users WHERE email = 'e%d'", i)) })
			roundTrips(t, r+": a write at home", 0, func() { exec(t, local, fmt.Sprintf("UPDATE users SET name = 'x' WHERE id = %d", i)) })
			roundTrips(t, r+": a write at home by a unique column", 0, func() { exec(t, local, fmt.Sprintf("UPDATE users SET name = 'x' WHERE email = 'e%d'", i)) })
			roundTrips(t, r+": a read elsewhere by primary key", farthest, func() { exec(t, local, fmt.Sprintf("SELECT * FROM users WHERE id = %d", (i+1)%5)) })
			n := 100 + 10*i
			roundTrips(t, r+": an insert with three keys", farthest, func() {
				n++
				exec(t, local, fmt.Sprintf("INSERT INTO users (id, email, phone, name) VALUES (%d, 'e%d', 'p%d', 'n')", n, n, n))
			})
			var home string
			if err := local.QueryRow(ctx, "SELECT crdb_region::text FROM users WHERE id = $1", n).Scan(&home); err != nil || home != r {
				t.Errorf("the new row is homed in %s, not in %s: %v", home, r, err)
			}
		}
	})
}
