package ranges_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"meridian/cluster"
	"meridian/kv"
	"meridian/server"
	"meridian/sim"
	"meridian/sim/simcluster"
	"meridian/sim/simcluster/simtest"
	"meridian/version"
)

// TestStartWithAWrongClock: a node that starts with a clock that a majority finds wrong stops by itself, and starts
// again once it is right. No other node is affected.
func TestStartWithAWrongClock(t *testing.T) {
	t.Parallel()
	for _, jump := range []time.Duration{2 * time.Second, -2 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			c := simcluster.Start(t, simcluster.Options{Log: simtest.LogTo()})
			simtest.Replicated(t, c, 3)
			c.StopNode(2)
			if jump < 0 {
				time.Sleep(10 * time.Second) // past what the store remembers of its clock
			}
			c.Machines[2].Clock.Jump(jump)
			c.Boot(2)
			err := simtest.Fails(t, c, 2, 20*time.Second)
			var wrong *cluster.ClockError
			if !errors.As(err, &wrong) {
				t.Fatalf("ends with %v", err)
			}
			t.Log(err)
			simtest.Healthy(t, c, 0)
			simtest.Healthy(t, c, 1)
			c.StopNode(2)
			c.Machines[2].Clock.Jump(-jump)
			c.Boot(2)
			c.WaitReady(2)
			time.Sleep(5 * time.Second)
			simtest.Healthy(t, c, 2)
		})
	}
}

// TestStoreOfAnotherCluster: a store that belongs elsewhere is refused, by name; the cluster does not notice.
func TestStoreOfAnotherCluster(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		alone := true
		c := simcluster.New(t, simcluster.Options{Log: simtest.LogTo(), Configure: func(i int, o *server.Options) {
			if i == 2 && alone {
				o.Join = nil
			} else if i < 2 {
				o.Join = []string{"n1:1", "n2:1"}
			}
		}})
		ctx := context.Background()
		for i := range 3 {
			c.Boot(i)
			if i == 1 {
				continue
			}
			if _, err := c.Node(i).Init(ctx); err != nil {
				t.Fatal(err)
			}
			c.WaitReady(i)
		}
		c.WaitReady(1)
		other := c.Node(2).ClusterName()
		c.StopNode(2)
		alone = false
		c.Boot(2)
		err := simtest.Fails(t, c, 2, 20*time.Second)
		var wrong *cluster.WrongClusterError
		if !errors.As(err, &wrong) || !strings.Contains(err.Error(), other) || !strings.Contains(err.Error(), c.Node(0).ClusterName()) {
			t.Fatalf("ends with %v", err)
		}
		t.Log(err)
		simtest.Healthy(t, c, 0)
		simtest.Healthy(t, c, 1)
		if n := len(c.Node(0).Cluster().Nodes()); n != 2 {
			t.Errorf("the cluster has %d nodes now", n)
		}
	})
}

// TestDecommission decommissions a node: all its replicas are moved, it stops, and does not come back. Only --force
// lets too few nodes remain.
func TestDecommission(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := simcluster.Start(t, simcluster.Options{NodesPerRegion: 4, Log: simtest.LogTo()})
		simtest.Replicated(t, c, 3)
		ctx := context.Background()
		desk := sim.NewMachine(sim.MachineOptions{Name: "desk", Region: c.Machines[0].Region, Network: c.Network}).Boot(ctx)
		defer desk.Group.Stop()
		admin := server.NewAdmin(desk, "n1:1", nil)
		defer admin.Close()
		time.Sleep(5 * time.Second)
		victim := -1
		for i := range c.Len() {
			if i > 0 && c.Node(i).Store().Gauges().Ranges > 0 {
				victim = i
			}
		}
		id := c.Node(victim).NodeID()
		first, last := -1, -1
		limit, cancel := context.WithTimeout(ctx, 2*time.Minute)
		defer cancel()
		if err := admin.Decommission(limit, id, false, func(d server.Decommissioning) {
			if last = d.Left; first < 0 {
				first = d.Left
			}
		}); err != nil {
			t.Fatal(err)
		}
		if first < 1 || last != 0 {
			t.Errorf("replicas left: first %d, then %d", first, last)
		}
		var gone *cluster.DecommissionedError
		if err := simtest.Fails(t, c, victim, 10*time.Second); !errors.As(err, &gone) {
			t.Errorf("the node ends with %v", err)
		}
		ranges, err := c.Ranges(ctx, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range ranges {
			if _, ok := d.Replica(id); ok || len(d.Replicas) != 3 {
				t.Errorf("range %d has replicas %v", d.ID, d.Replicas)
			}
		}
		simtest.Healthy(t, c, 0)
		c.StopNode(victim)
		c.Boot(victim)
		if err := simtest.Fails(t, c, victim, 30*time.Second); !errors.As(err, &gone) {
			t.Errorf("started again, the node ends with %v", err)
		}
		c.StopNode(victim)

		var next kv.NodeID
		for i := range c.Len() {
			if i != victim && i > 0 {
				next = c.Node(i).NodeID()
			}
		}
		err = admin.Decommission(limit, next, false, func(server.Decommissioning) {})
		if err == nil || !strings.Contains(err.Error(), "--force") {
			t.Errorf("down to two nodes: %v", err)
		}
		if err := admin.Decommission(limit, id, false, func(server.Decommissioning) {}); err == nil {
			t.Error("decommissioned twice")
		}

		// With --force it begins, and then waits and says for what: no range gives a voter up (placement.P2).
		var said server.Decommissioning
		waits, cancel := context.WithTimeout(ctx, 10*time.Minute)
		defer cancel()
		if err := admin.Decommission(waits, next, true, func(d server.Decommissioning) { said = d }); err == nil {
			t.Error("three voters of each range are on two nodes")
		}
		if said.Left == 0 || !strings.Contains(said.Waiting, "2 live nodes") || !strings.Contains(said.Waiting, "3 voters") {
			t.Errorf("it waits without saying so: %+v", said)
		}
		t.Log(said.Waiting)
		simtest.Replicated(t, c, 3)
		if err := admin.Recommission(ctx, next); err != nil {
			t.Error(err)
		}
		// With fewer configured voters it completes.
		conn := simtest.Connect(t, c, 0)
		simtest.Exec(t, conn, "SET CLUSTER SETTING replicas.voters = 1")
		limit, cancel = context.WithTimeout(ctx, 5*time.Minute)
		defer cancel()
		if err := admin.Decommission(limit, next, false, func(d server.Decommissioning) { said = d }); err != nil {
			t.Errorf("%v: %+v", err, said)
		}
	})
}

// TestCutOff: a node whose binary can't act by the version that the others act by from now on, as one that was decommissioned and does not know it yet, is cut
// off from them, and ends by itself. The versions are raised by hand here, since an upgrade waits for every node that counts.
func TestCutOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		old := version.Binary{Own: version.Version{Minor: 1}, Oldest: version.Version{Minor: 1}}
		later := version.Binary{Own: version.Version{Minor: 2}, Oldest: old.Oldest}
		binaries := []version.Binary{old, old, old}
		c := simcluster.Start(t, simcluster.Options{Log: simtest.LogTo(), Configure: func(i int, o *server.Options) { o.Binary = binaries[i] }})
		simtest.Replicated(t, c, 3)
		for i := range 2 {
			binaries[i] = later
			c.StopNode(i)
			c.Boot(i)
			c.WaitReady(i)
		}
		time.Sleep(5 * time.Second)
		simtest.Healthy(t, c, 2)
		for i := range 2 {
			c.Node(i).Version().Raise(later.Own)
		}
		err := simtest.Fails(t, c, 2, 10*time.Second)
		if want := "the binary of this node is too old: it has version 0.1, and the cluster is upgraded to 0.2"; !errors.As(err, new(*version.TooOldError)) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("the node ends with %v; want %q", err, want)
		}
		simtest.Healthy(t, c, 0)
	})
}
