package simtest

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"meridian/sim"
	"meridian/sim/simcluster"
)

// UsersByRow is a cluster over three continents and a session in its database over all of them, in which statements have made the table users, with two
// indexes: its leaseholders are where the rows are homed.
func UsersByRow(t *testing.T, statements ...string) (*simcluster.Cluster, *pgx.Conn) {
	t.Helper()
	c := ThreeContinents(t)
	Exec(t, Connect(t, c, 0), `CREATE DATABASE movr PRIMARY REGION "us-east1" REGIONS "us-west1", "europe-west1"`)
	conn := ConnectTo(t, c, 0, "movr")
	for _, q := range statements {
		Exec(t, conn, q)
	}
	Homed(t, c, conn, "users", 3, 2)
	return c, conn
}

// FiveAcceptors is a cluster with one node in each of the paper's regions, and a range of the protocol fast_paxos that has a voter on each.
func FiveAcceptors(t *testing.T) (c *simcluster.Cluster, regions *sim.Regions) {
	t.Helper()
	regions = sim.FiveRegions()
	c = simcluster.Start(t, simcluster.Options{Regions: regions, NodesPerRegion: 1, Log: LogTo()})
	return c, regions
}

// Stocked makes a table of the protocol with one row, of which there are n.
func Stocked(t *testing.T, c *simcluster.Cluster, n int) {
	t.Helper()
	Exec(t, Connect(t, c, 0), "CREATE DATABASE d")
	Exec(t, Connect(t, c, 0), "ALTER DATABASE d CONFIGURE ZONE USING num_replicas = 5")
	conn := ConnectTo(t, c, 0, "d")
	Exec(t, conn, "CREATE TABLE stock (id int PRIMARY KEY, n int CHECK (n >= 0), name text) WITH (commit_protocol = 'fast_paxos')")
	Exec(t, conn, "INSERT INTO stock VALUES (7, $1, 'x')", n)
	time.Sleep(2 * time.Second)
}

// WideArea is a cluster of one node in each of three regions, replicated, with the leases of all ranges on node 0.
func WideArea(t *testing.T) *simcluster.Cluster {
	t.Helper()
	c := simcluster.Start(t, simcluster.Options{Regions: sim.ThreeRegions(), NodesPerRegion: 1, Log: LogTo()})
	Replicated(t, c, 3)
	for i := range c.Len() {
		c.Node(i).Store().PauseQueues(true) // no leases are moved to even out the load
	}
	if err := c.TransferLeases(context.Background(), 0); err != nil {
		t.Fatal(err)
	}
	return c
}

// ThreeContinents is a cluster of three nodes, in three zones, in each of three regions.
func ThreeContinents(t *testing.T) *simcluster.Cluster {
	t.Helper()
	return simcluster.Start(t, simcluster.Options{Regions: sim.ThreeRegions(), NodesPerRegion: 3, Log: LogTo()})
}
