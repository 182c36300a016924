package ranges_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"meridian/sim"
	"meridian/sim/simcluster"
	"meridian/sim/simcluster/simtest"
	"meridian/version"
)

// TestSeveralStartOneNode: a plan of faults and an operator stop, crash and start the same node, and do not know of each other. Each start is of a node of which
// nothing is left, or of one that runs already; none meets a store that is in use.
func TestSeveralStartOneNode(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := simcluster.Start(t, simcluster.Options{Log: simtest.LogTo(), Binary: func(int, error) version.Binary { return version.Built() }})
		simtest.Replicated(t, c, 3)
		const i = 2
		target := c.Target(1)
		name := c.Machines[i].Name
		for _, end := range []func(){
			func() { c.StopNode(i) },
			func() { c.Crash(i, 50, false) },
		} {
			for _, begin := range []func() error{
				func() error { return target.Restart(name) },
				func() error { return target.Revive(name) },
				func() error { return c.TryBoot(i) },
			} {
				var both sync.WaitGroup
				both.Go(end)
				time.Sleep(time.Microsecond) // the node is being stopped
				for c.Node(i) != nil {
					time.Sleep(time.Microsecond)
				}
				if err := begin(); err != nil {
					t.Errorf("while its predecessor ends: %v", err)
				}
				both.Wait()
				if c.Node(i) == nil {
					c.Boot(i)
				}
			}
		}
		var all sync.WaitGroup
		for seed := range uint64(4) {
			all.Go(func() {
				dice := rand.New(rand.NewPCG(seed, 1))
				for range 10 {
					time.Sleep(time.Duration(dice.IntN(3000)) * time.Microsecond)
					if dice.IntN(2) == 0 {
						c.StopNode(i)
					} else {
						c.Crash(i, 50, dice.IntN(2) == 0)
					}
					time.Sleep(time.Duration(dice.IntN(1500)) * time.Microsecond)
					if err := c.TryBoot(i); err != nil {
						t.Errorf("among others: %v", err)
					}
				}
			})
		}
		all.Wait()
		c.Boot(i)
		c.WaitReady(i)
	})
}

// TestMachineCrashesDuringItsStart: no node is left that believes it runs, on a disk that is lost.
func TestMachineCrashesDuringItsStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := simcluster.Start(t, simcluster.Options{Log: simtest.LogTo(), Binary: func(int, error) version.Binary { return version.Built() }})
		simtest.Replicated(t, c, 3)
		const i = 2
		for syncs := 1; syncs <= 6; syncs++ {
			c.StopNode(i)
			before := c.Machines[i].Disk.Syncs()
			c.CrashAtSync(i, syncs)
			if err := c.TryBoot(i); err != nil {
				t.Errorf("a crash at sync %d: %v", syncs, err)
			}
			during := c.Machines[i].Disk.Syncs()-before >= int64(syncs)
			if during != (c.Node(i) == nil) {
				t.Errorf("a crash at sync %d, during the start: %t; a node is left: %t", syncs, during, c.Node(i) != nil)
			}
			if !during && syncs == 1 {
				t.Error("nothing is synced during a start")
			}
			c.Machines[i].Disk.OnSync(0, nil)
			if c.Node(i) == nil {
				c.Boot(i)
			}
			c.WaitReady(i)
		}
		simtest.Healthy(t, c, i)
	})
}

// TestReadyNodesAreKnown: a database can be made in all regions, at any node, once the nodes say that they are ready.
func TestReadyNodesAreKnown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for seed := range uint64(30) {
			regions, err := sim.NewRegions([]string{"east", "west", "north"}, 2, 3, 4)
			if err != nil {
				t.Fatal(err)
			}
			c := simcluster.Start(t, simcluster.Options{Regions: regions, NodesPerRegion: 1, Seed: seed, Jitter: time.Millisecond, Log: simtest.LogTo()})
			for i := range c.Len() {
				if _, err := simtest.ConnectTo(t, c, i, "defaultdb").Exec(t.Context(), fmt.Sprintf("CREATE DATABASE d%d PRIMARY REGION east REGIONS west, north", i)); err != nil {
					t.Errorf("seed %d, node %d: %v", seed, i, err)
				}
			}
			for i := range c.Len() {
				c.StopNode(i)
			}
		}
	})
}
