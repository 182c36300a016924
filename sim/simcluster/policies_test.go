package simcluster_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"

	"meridian/sim/simcluster"
)

// byRegion are the columns of a table with a partition for each of two regions.
const byRegion = ` (region text, id int, v int, PRIMARY KEY (region, id)) PARTITION BY LIST (region) (PARTITION us VALUES IN ('us'), PARTITION eu VALUES IN ('eu'))`

// TestPlacementPolicies shows the policies of CRDB'20 §2.3 on one cluster: for each, where the replicas are, and how many wide-area rounds a read and a write take. The
// clients are in us-east1 and in europe-west1, 87 ms apart; us-west1 is 63 ms from us-east1 and 132 ms from Europe.
func TestPlacementPolicies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := threeContinents(t)
		us, eu := connect(t, c, 0), connect(t, c, 6)
		geoPartitionedReplicas(t, c, us, eu)
		geoPartitionedLeaseholders(t, c, us, eu)
	})
}

// geoPartitionedReplicas: all replicas of a partition are in its region. Neither reads nor writes leave it, and it does not survive the loss of the region.
func geoPartitionedReplicas(t *testing.T, c *simcluster.Cluster, us, eu *pgx.Conn) {
	exec(t, us, `CREATE TABLE a`+byRegion)
	exec(t, us, `ALTER PARTITION us OF TABLE a CONFIGURE ZONE USING constraints = '[+region=us-east1]'`)
	exec(t, us, `ALTER PARTITION eu OF TABLE a CONFIGURE ZONE USING constraints = '[+region=europe-west1]'`)
	exec(t, us, `INSERT INTO a VALUES ('us', 1, 1), ('eu', 1, 1)`)
	settle(t, c, us, "a", "3 europe-west1; lease europe-west1\n3 us-east1; lease us-east1")
	roundTrips(t, "geo-partitioned replicas: a read in the US", 0, func() { exec(t, us, "SELECT v FROM a WHERE region = 'us' AND id = 1") })
	roundTrips(t, "geo-partitioned replicas: a read in Europe", 0, func() { exec(t, eu, "SELECT v FROM a WHERE region = 'eu' AND id = 1") })
	roundTrips(t, "geo-partitioned replicas: a write in the US", 0, func() { exec(t, us, "UPDATE a SET v = v + 1 WHERE region = 'us' AND id = 1") })
	roundTrips(t, "geo-partitioned replicas: a write in Europe", 0, func() { exec(t, eu, "UPDATE a SET v = v + 1 WHERE region = 'eu' AND id = 1") })
	roundTrips(t, "geo-partitioned replicas: a read of the other region", 87*time.Millisecond, func() { exec(t, us, "SELECT v FROM a WHERE region = 'eu' AND id = 1") })
}

// geoPartitionedLeaseholders: a partition's leaseholder is in its region, its other replicas in the other regions. Reads stay at home, a write waits for the nearest
// other region, and the loss of a region is survived.
func geoPartitionedLeaseholders(t *testing.T, c *simcluster.Cluster, us, eu *pgx.Conn) {
	exec(t, us, `CREATE TABLE b`+byRegion)
	exec(t, us, `ALTER TABLE b CONFIGURE ZONE USING constraints = '{"+region=us-east1": 1, "+region=us-west1": 1, "+region=europe-west1": 1}'`)
	exec(t, us, `ALTER PARTITION us OF TABLE b CONFIGURE ZONE USING lease_preferences = '[[+region=us-east1]]'`)
	exec(t, us, `ALTER PARTITION eu OF TABLE b CONFIGURE ZONE USING lease_preferences = '[[+region=europe-west1]]'`)
	exec(t, us, `INSERT INTO b VALUES ('us', 1, 1), ('eu', 1, 1)`)
	const each = "1 europe-west1, 1 us-east1, 1 us-west1; lease "
	settle(t, c, us, "b", each+"europe-west1\n"+each+"us-east1")
	roundTrips(t, "geo-partitioned leaseholders: a read in the US", 0, func() { exec(t, us, "SELECT v FROM b WHERE region = 'us' AND id = 1") })
	roundTrips(t, "geo-partitioned leaseholders: a read in Europe", 0, func() { exec(t, eu, "SELECT v FROM b WHERE region = 'eu' AND id = 1") })
	roundTrips(t, "geo-partitioned leaseholders: a write in the US", 63*time.Millisecond, func() { exec(t, us, "UPDATE b SET v = v + 1 WHERE region = 'us' AND id = 1") })
	roundTrips(t, "geo-partitioned leaseholders: a write in Europe", 87*time.Millisecond, func() { exec(t, eu, "UPDATE b SET v = v + 1 WHERE region = 'eu' AND id = 1") })
}
