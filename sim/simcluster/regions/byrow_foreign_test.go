package regions_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"meridian/sim"
	"meridian/sim/simcluster/simtest"
)

// TestForeignKeysByRow counts the wide-area rounds of foreign keys between tables whose rows have a home. A reference to a row of this region is checked here; the
// rows that refer to a deleted one are looked for in all regions at once, and deleted at once.
func TestForeignKeysByRow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := fiveContinents(t)
		names := sim.FiveRegions().Names
		root := simtest.Connect(t, c, 0)
		simtest.Exec(t, root, fmt.Sprintf(`CREATE DATABASE movr PRIMARY REGION "%s" REGIONS "%s", "%s", "%s", "%s"`, names[0], names[1], names[2], names[3], names[4]))
		conn := simtest.ConnectTo(t, c, 0, "movr")
		simtest.Exec(t, conn, `CREATE TABLE parents (id int PRIMARY KEY, name text) LOCALITY REGIONAL BY ROW`)
		simtest.Exec(t, conn, `CREATE TABLE children (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), parent int REFERENCES parents ON DELETE CASCADE ON UPDATE CASCADE, INDEX (parent)) LOCALITY REGIONAL BY ROW`)
		for i, r := range names {
			for j := range 5 {
				simtest.Exec(t, conn, fmt.Sprintf(`INSERT INTO parents (id, name, crdb_region) VALUES (%d, 'n', '%s')`, 10*i+j, r))
			}
		}
		simtest.Homed(t, c, conn, "parents", 5, 1)
		simtest.Homed(t, c, conn, "children", 5, 2)
		local := simtest.ConnectTo(t, c, 0, "movr")
		farthest := time.Duration(0)
		for j := range names {
			farthest = max(farthest, sim.FiveRegions().RTT(names[0], names[j]))
		}
		simtest.RoundTrips(t, "a child of a parent that is at home", 0, func() { simtest.Exec(t, local, "INSERT INTO children (parent) VALUES (1)") })
		for _, r := range names {
			for i := range 6 {
				simtest.Exec(t, local, fmt.Sprintf("INSERT INTO children (parent, crdb_region) VALUES (%d, '%s')", 3+i%2, r))
			}
		}
		id := 5
		remove := func() { // roundTrips calls it twice
			id--
			simtest.Exec(t, local, fmt.Sprintf("DELETE FROM parents WHERE id = %d", id))
		}
		// The children are found by the index, locked and read, deleted, and the transaction commits: each in all regions at once.
		simtest.RoundTrips(t, "a parent with children everywhere", 4*farthest, remove)
		var left int
		if err := local.QueryRow(t.Context(), "SELECT count(*) FROM children").Scan(&left); err != nil || left != 2 {
			t.Errorf("%d children are left: %v", left, err)
		}
		simtest.Exec(t, local, "DELETE FROM children")
		simtest.RoundTrips(t, "a parent without children", farthest, remove)
	})
}
