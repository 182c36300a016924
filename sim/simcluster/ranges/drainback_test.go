package ranges_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"meridian/server"
	"meridian/sim"
	"meridian/sim/simcluster"
	"meridian/sim/simcluster/simtest"
)

// TestDrainedKeepsNoLease: a node where the leases of many ranges are preferred gives them away when it drains, and also those that come back, because another node follows a preference and has not heard.
func TestDrainedKeepsNoLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := simcluster.Start(t, simcluster.Options{Regions: sim.ThreeRegions().WithoutLatency(), NodesPerRegion: 1, Log: simtest.LogTo(), Configure: func(_ int, o *server.Options) { o.NonVoters = 0 }})
		root := simtest.Connect(t, c, 0)
		simtest.Exec(t, root, `CREATE DATABASE d PRIMARY REGION "us-east1" REGIONS "us-west1", "europe-west1" SURVIVE REGION FAILURE`)
		d := simtest.ConnectTo(t, c, 0, "d")
		simtest.Exec(t, d, "CREATE TABLE t (id int PRIMARY KEY)")
		for i := range 40 {
			simtest.Exec(t, d, fmt.Sprintf("ALTER TABLE t SPLIT AT VALUES (%d)", i))
		}
		time.Sleep(20 * time.Second)
		leases := func() int { return c.Node(0).Draining().Leases }
		if n := leases(); n < 30 {
			t.Fatalf("the node has %d leases", n)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		begin := time.Now()
		if at := c.Node(0).Drain(ctx, server.DrainOptions{Wait: time.Second}); at.Leases > 0 {
			t.Errorf("it keeps %d leases", at.Leases)
		}
		t.Log(time.Since(begin))
		// One that follows a preference, and has not heard of it.
		if err := c.TransferLeases(ctx, 0); err != nil {
			t.Log(err)
		}
		if leases() == 0 {
			t.Fatal("no lease has come back")
		}
		time.Sleep(2 * time.Second)
		if n := leases(); n > 0 {
			t.Errorf("the node has kept %d leases that came back", n)
		}
	})
}
