package simcluster_test

import (
	"testing"
	"testing/synctest"
	"time"

	"meridian/sim"
	"meridian/sim/simcluster"
)

// fiveGlobal is a cluster of one node in each of five regions but the first, which has three, with a database over all of them.
func fiveGlobal(t *testing.T, offset time.Duration) *simcluster.Cluster {
	t.Helper()
	c := simcluster.Start(t, simcluster.Options{Regions: sim.FiveRegions(), Nodes: []int{3, 1, 1, 1, 1}, MaxOffset: offset, Log: logTo()})
	exec(t, connect(t, c, 0), `CREATE DATABASE movr PRIMARY REGION "us-east1" REGIONS "us-west1", "europe-west1", "asia-northeast1", "australia-southeast1"`)
	return c
}

const globalPlace = "1 (asia-northeast1), 1 (australia-southeast1), 1 (europe-west1), 1 (us-west1), 3 us-east1; lease us-east1"

// TestGlobalLatency: rows of a GLOBAL table are read in every region without a message to another one, and a write takes as long as its lead.
func TestGlobalLatency(t *testing.T) {
	for _, x := range []struct{ offset, most time.Duration }{{250 * time.Millisecond, 500 * time.Millisecond}, {10 * time.Millisecond, 250 * time.Millisecond}} {
		t.Run(x.offset.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := fiveGlobal(t, x.offset)
				home := connectTo(t, c, 0, "movr")
				exec(t, home, `CREATE TABLE g (id int PRIMARY KEY, v int) LOCALITY GLOBAL`)
				exec(t, home, `INSERT INTO g VALUES (1, 1), (2, 2), (3, 3)`)
				settle(t, c, home, "g", globalPlace)
				time.Sleep(20 * time.Second)
				for i := range c.Len() {
					conn := connectTo(t, c, i, "movr")
					exec(t, conn, "SELECT v FROM g WHERE id = 1") // learns of the range
					for range 5 {
						roundTrips(t, "a read", 0, func() { exec(t, conn, "SELECT v FROM g WHERE id = 2") })
						roundTrips(t, "a read of all", 0, func() { exec(t, conn, "SELECT v FROM g") })
						time.Sleep(37 * time.Millisecond)
					}
					rtt := sim.FiveRegions().RTT(c.Machines[0].Region, c.Machines[i].Region)
					for _, stmt := range []string{"UPDATE g SET v = v + 1 WHERE id = 3", "INSERT INTO g VALUES ((random() * 1e9)::int + 100, 1)", "DELETE FROM g WHERE id >= 100"} {
						exec(t, conn, stmt) // the plan is warm
						time.Sleep(time.Second)
						start := time.Now()
						exec(t, conn, stmt)
						took := time.Since(start)
						t.Logf("n%d: %s took %s", i+1, stmt, took)
						if took > x.most+rtt {
							t.Errorf("n%d: %s took %s, and the round trip is %s", i+1, stmt, took, rtt)
						}
						time.Sleep(time.Second)
					}
				}
			})
		})
	}
}
