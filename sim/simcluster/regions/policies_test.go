package regions_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"

	"meridian/sim/simcluster"
	"meridian/sim/simcluster/simtest"
)

// byRegion are the columns of a table with a partition for each of two regions.
const byRegion = ` (region text, id int, v int, PRIMARY KEY (region, id)) PARTITION BY LIST (region) (PARTITION us VALUES IN ('us'), PARTITION eu VALUES IN ('eu'))`

// TestPlacementPolicies shows the policies of CRDB'20 §2.3 on one cluster: for each, where the replicas are, and how many wide-area rounds a read and a write take. The
// clients are in us-east1 and in europe-west1, 87 ms apart; us-west1 is 63 ms from us-east1 and 132 ms from Europe.
func TestPlacementPolicies(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := simtest.ThreeContinents(t)
		us, eu := simtest.Connect(t, c, 0), simtest.Connect(t, c, 6)
		geoPartitionedReplicas(t, c, us, eu)
		geoPartitionedLeaseholders(t, c, us, eu)
		duplicateIndexes(t, c, us, eu)
	})
}

// geoPartitionedReplicas: all replicas of a partition are in its region. Neither reads nor writes leave it, and it does not survive the loss of the region.
func geoPartitionedReplicas(t *testing.T, c *simcluster.Cluster, us, eu *pgx.Conn) {
	simtest.Exec(t, us, `CREATE TABLE a`+byRegion)
	simtest.Exec(t, us, `ALTER TABLE a CONFIGURE ZONE USING constraints = '[+region=us-west1]'`) // for what is in no partition
	simtest.Exec(t, us, `ALTER PARTITION us OF TABLE a CONFIGURE ZONE USING constraints = '[+region=us-east1]'`)
	simtest.Exec(t, us, `ALTER PARTITION eu OF TABLE a CONFIGURE ZONE USING constraints = '[+region=europe-west1]'`)
	simtest.Exec(t, us, `INSERT INTO a VALUES ('us', 1, 1), ('eu', 1, 1)`)
	const rest = "3 us-west1; lease us-west1\n"
	simtest.Settle(t, c, us, "a", rest+"3 europe-west1; lease europe-west1\n"+rest+"3 us-east1; lease us-east1\n"+strings.TrimSpace(rest))
	simtest.RoundTrips(t, "geo-partitioned replicas: a read in the US", 0, func() { simtest.Exec(t, us, "SELECT v FROM a WHERE region = 'us' AND id = 1") })
	simtest.RoundTrips(t, "geo-partitioned replicas: a read in Europe", 0, func() { simtest.Exec(t, eu, "SELECT v FROM a WHERE region = 'eu' AND id = 1") })
	simtest.RoundTrips(t, "geo-partitioned replicas: a write in the US", 0, func() { simtest.Exec(t, us, "UPDATE a SET v = v + 1 WHERE region = 'us' AND id = 1") })
	simtest.RoundTrips(t, "geo-partitioned replicas: a write in Europe", 0, func() { simtest.Exec(t, eu, "UPDATE a SET v = v + 1 WHERE region = 'eu' AND id = 1") })
	simtest.RoundTrips(t, "geo-partitioned replicas: a read of the other region", 87*time.Millisecond, func() { simtest.Exec(t, us, "SELECT v FROM a WHERE region = 'eu' AND id = 1") })
}

// geoPartitionedLeaseholders: a partition's leaseholder is in its region, its other replicas in the other regions. Reads stay at home, a write waits for the nearest
// other region, and the loss of a region is survived.
func geoPartitionedLeaseholders(t *testing.T, c *simcluster.Cluster, us, eu *pgx.Conn) {
	simtest.Exec(t, us, `CREATE TABLE b`+byRegion)
	simtest.Exec(t, us, `ALTER TABLE b CONFIGURE ZONE USING constraints = '{"+region=us-east1": 1, "+region=us-west1": 1, "+region=europe-west1": 1}', lease_preferences = '[[+region=us-west1]]'`)
	simtest.Exec(t, us, `ALTER PARTITION us OF TABLE b CONFIGURE ZONE USING lease_preferences = '[[+region=us-east1]]'`)
	simtest.Exec(t, us, `ALTER PARTITION eu OF TABLE b CONFIGURE ZONE USING lease_preferences = '[[+region=europe-west1]]'`)
	simtest.Exec(t, us, `INSERT INTO b VALUES ('us', 1, 1), ('eu', 1, 1)`)
	const each = "1 europe-west1, 1 us-east1, 1 us-west1; lease "
	simtest.Settle(t, c, us, "b", each+"us-west1\n"+each+"europe-west1\n"+each+"us-west1\n"+each+"us-east1\n"+each+"us-west1")
	simtest.RoundTrips(t, "geo-partitioned leaseholders: a read in the US", 0, func() { simtest.Exec(t, us, "SELECT v FROM b WHERE region = 'us' AND id = 1") })
	simtest.RoundTrips(t, "geo-partitioned leaseholders: a read in Europe", 0, func() { simtest.Exec(t, eu, "SELECT v FROM b WHERE region = 'eu' AND id = 1") })
	simtest.RoundTrips(t, "geo-partitioned leaseholders: a write in the US", 63*time.Millisecond, func() { simtest.Exec(t, us, "UPDATE b SET v = v + 1 WHERE region = 'us' AND id = 1") })
	simtest.RoundTrips(t, "geo-partitioned leaseholders: a write in Europe", 87*time.Millisecond, func() { simtest.Exec(t, eu, "UPDATE b SET v = v + 1 WHERE region = 'eu' AND id = 1") })
}

// duplicateIndexes: each region has an index with all columns, whose leaseholder is there. Reads of rows that everyone reads stay at home; a write reaches all indexes.
func duplicateIndexes(t *testing.T, c *simcluster.Cluster, us, eu *pgx.Conn) {
	simtest.Exec(t, us, `CREATE TABLE codes (code text PRIMARY KEY, name text)`)
	simtest.Exec(t, us, `CREATE UNIQUE INDEX codes_eu ON codes (code) STORING (name)`)
	const each = "1 europe-west1, 1 us-east1, 1 us-west1; lease "
	simtest.Exec(t, us, `ALTER TABLE codes CONFIGURE ZONE USING constraints = '{"+region=us-east1": 1, "+region=us-west1": 1, "+region=europe-west1": 1}', lease_preferences = '[[+region=us-east1]]'`)
	simtest.Exec(t, us, `ALTER INDEX codes@codes_eu CONFIGURE ZONE USING lease_preferences = '[[+region=europe-west1]]'`)
	simtest.Exec(t, us, `INSERT INTO codes VALUES ('x', 'a name')`)
	simtest.Settle(t, c, us, "codes", each+"us-east1\n"+each+"europe-west1")
	time.Sleep(10 * time.Second) // the timestamps of leases that have just moved are in the past
	simtest.RoundTrips(t, "duplicate indexes: a read in the US", 0, func() { simtest.Exec(t, us, "SELECT name FROM codes@codes_pkey WHERE code = 'x'") })
	simtest.RoundTrips(t, "duplicate indexes: a read in Europe", 0, func() { simtest.Exec(t, eu, "SELECT name FROM codes@codes_eu WHERE code = 'x'") })
	simtest.RoundTrips(t, "duplicate indexes: a write in the US", 2*87*time.Millisecond, func() { simtest.Exec(t, us, "UPDATE codes SET name = name || 'x' WHERE code = 'x'") })
}

// TestConstraintThatCannotBeMet: a constraint that asks for more nodes than there are is reported, by object and constraint, until it is taken away.
func TestConstraintThatCannotBeMet(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := simtest.ThreeContinents(t)
		conn := simtest.Connect(t, c, 0)
		simtest.Exec(t, conn, `CREATE TABLE a`+byRegion)
		simtest.Exec(t, conn, `ALTER PARTITION us OF TABLE a CONFIGURE ZONE USING num_replicas = 5, constraints = '{"+region=us-east1": 4}'`)
		const query = `SELECT coalesce(string_agg(object || ': ' || violation || ': ' || ranges, '; '), 'none') FROM meridian_internal.constraint_violations`
		await := func(want string) {
			t.Helper()
			var got string
			for range 240 {
				if err := conn.QueryRow(context.Background(), query).Scan(&got); err != nil {
					t.Fatal(err)
				}
				if got == want {
					return
				}
				time.Sleep(500 * time.Millisecond)
			}
			t.Errorf("the violations are %q, want %q", got, want)
		}
		await("PARTITION us OF INDEX defaultdb.public.a@a_pkey: too few replicas for +region=us-east1 of all (3 of 4): 1")
		simtest.Exec(t, conn, `ALTER PARTITION us OF TABLE a CONFIGURE ZONE DISCARD`)
		await("none")
	})
}
