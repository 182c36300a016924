package ranges_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"meridian/clock/truetime"
	"meridian/server"
	"meridian/sim"
	"meridian/sim/simcluster"
	"meridian/sim/simcluster/simtest"
)

// TestCeiling: with bounds of 5 ms that nodes report, and the default maximum offset of 500 ms, uncertainty intervals and the leads of GLOBAL tables are those of the
// reported bounds (clock.C7, cluster.L6); a node with a larger bound costs itself the difference until the ceiling is raised, and a dead one costs nothing.
func TestCeiling(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		bounds := []time.Duration{5 * time.Millisecond, 2 * time.Millisecond, 3 * time.Millisecond}
		c := simcluster.Start(t, simcluster.Options{Regions: sim.ThreeRegions(), NodesPerRegion: 1, Log: simtest.LogTo(),
			Configure: func(i int, o *server.Options) { o.Time = truetime.Options{Bound: bounds[i]} }})
		simtest.Replicated(t, c, 3)
		reach := func(i int) time.Duration {
			r := c.Node(i).Clock().Read()
			return time.Duration(r.Limit().Wall - r.Now.Wall)
		}
		time.Sleep(20 * time.Second)
		for i, b := range bounds {
			if d := reach(i); d != b+7*time.Millisecond {
				t.Errorf("n%d looks ahead by %s", i+1, d)
			}
		}
		// It starts again with a worse bound.
		c.StopNode(1)
		time.Sleep(30 * time.Second)
		if d := reach(0); d != 12*time.Millisecond {
			t.Errorf("with a dead node, n1 looks ahead by %s", d)
		}
		bounds[1] = 60 * time.Millisecond
		c.Boot(1)
		c.WaitReady(1)
		conn := simtest.Connect(t, c, 1)
		simtest.Exec(t, conn, "SELECT 1")
		time.Sleep(20 * time.Second)
		if d := reach(0); d != 5*time.Millisecond+76*time.Millisecond {
			t.Errorf("after a node with a worse bound has come, n1 looks ahead by %s", d)
		}
		if d := reach(1); d != 60*time.Millisecond+76*time.Millisecond {
			t.Errorf("n2 looks ahead by %s", d)
		}
		if _, err := conn.Exec(context.Background(), "SELECT 1"); err != nil {
			t.Error(err)
		}
	})
}
