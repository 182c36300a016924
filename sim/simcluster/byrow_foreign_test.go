package simcluster_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"meridian/sim"
)

// TestForeignKeysByRow counts the wide-area rounds of foreign keys between tables whose rows have a home. A reference to a row of this region is checked here; the
// rows that refer to a deleted one are looked for in all regions at once, and deleted at once.
func TestForeignKeysByRow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := fiveContinents(t)
		names := sim.FiveRegions().Names
		root := connect(t, c, 0)
		exec(t, root, fmt.Sprintf(`CREATE DATABASE movr PRIMARY REGION "%s" REGIONS "%s", "%s", "%s", "%s"`, names[0], names[1], names[2], names[3], names[4]))
		conn := connectTo(t, c, 0, "movr")
		exec(t, conn, `CREATE TABLE parents (id int PRIMARY KEY, name text) LOCALITY REGIONAL BY ROW`)
		exec(t, conn, `CREATE TABLE children (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), parent int REFERENCES parents ON DELETE CASCADE ON UPDATE CASCADE, INDEX (parent)) LOCALITY REGIONAL BY ROW`)
		for i, r := range names {
			for j := range 5 {
				exec(t, conn, fmt.Sprintf(`INSERT INTO parents (id, name, crdb_region) VALUES (%d, 'n', '%s')`, 10*i+j, r))
			}
		}
		homed(t, c, conn, "parents", 5, 1)
		homed(t, c, conn, "children", 5, 2)
		local := connectTo(t, c, 0, "movr")
		farthest := time.Duration(0)
		for j := range names {
			farthest = max(farthest, sim.FiveRegions().RTT(names[0], names[j]))
		}
		roundTrips(t, "a child of a parent that is at home", 0, func() { exec(t, local, "INSERT INTO children (parent) VALUES (1)") })
		for _, r := range names {
			for i := range 6 {
				exec(t, local, fmt.Sprintf("INSERT INTO children (parent, crdb_region) VALUES (%d, '%s')", 3+i%2, r))
			}
		}
		id := 5
		remove := func() { // roundTrips calls it twice
			id--
			exec(t, local, fmt.Sprintf("DELETE FROM parents WHERE id = %d", id))
		}
		// The children are found by the index, locked and read, deleted, and the transaction commits: each in all regions at once.
		roundTrips(t, "a parent with children everywhere", 4*farthest, remove)
		var left int
		if err := local.QueryRow(t.Context(), "SELECT count(*) FROM children").Scan(&left); err != nil || left != 2 {
			t.Errorf("%d children are left: %v", left, err)
		}
		exec(t, local, "DELETE FROM children")
		roundTrips(t, "a parent without children", farthest, remove)
	})
}
