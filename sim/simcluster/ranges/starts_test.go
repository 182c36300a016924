package ranges_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"meridian/fence"
	"meridian/sim/simcluster"
	"meridian/sim/simcluster/simtest"
)

// refusedFor waits for a node to end because its store is not the latest.
func refusedFor(t *testing.T, c *simcluster.Cluster, i int, within time.Duration) *fence.RefusedError {
	t.Helper()
	err := simtest.Fails(t, c, i, within)
	var refused *fence.RefusedError
	if !errors.As(err, &refused) {
		t.Fatalf("node %d ends with %v", i, err)
	}
	t.Log(err)
	return refused
}

func getOne(ctx context.Context, c *simcluster.Cluster, i, key int) (string, error) {
	v, err := c.Node(i).DB().Get(ctx, simtest.UserKey(key))
	return string(v), err
}

// TestOldCopy puts an old copy of a node's store back, as a backup restored over it would. With the copy, it and the node that
// was down for the last writes would be a quorum that has never heard of them (I1).
func TestOldCopy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := simcluster.Start(t, simcluster.Options{Log: simtest.LogTo()})
		ctx := context.Background()
		simtest.Replicated(t, c, 3)
		witness := c.Node(1).NodeID()
		image := c.Machines[2].Disk.Image()
		time.Sleep(10 * time.Second)
		c.Crash(1, 0, false)
		for k := range 5 {
			if err := simtest.Put(ctx, c.Node(0).DB(), simtest.UserKey(k), "kept"); err != nil {
				t.Fatal(err)
			}
		}
		c.Crash(0, 0, false)
		c.Crash(2, 0, false)
		c.Machines[2].Disk.Restore(image)
		c.Boot(1)
		c.Boot(2)
		for range 3 { // at every start
			refused := refusedFor(t, c, 2, 20*time.Second)
			if refused.Reason != fence.Behind || refused.By != witness {
				t.Fatalf("refused for %q by node %d", refused.Reason, refused.By)
			}
			c.StopNode(2)
			c.Boot(2)
		}
		c.StopNode(2)
		c.Boot(0)
		for k := range 5 {
			if v, err := getOne(ctx, c, 0, k); err != nil || v != "kept" {
				t.Fatalf("row %d: %q, %v", k, v, err)
			}
		}
	})
}

// TestOldCopyOfAnotherStart: the same, with a copy from before the node was last started, and nothing written since.
func TestOldCopyOfAnotherStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := simcluster.Start(t, simcluster.Options{Log: simtest.LogTo()})
		simtest.Replicated(t, c, 3)
		c.StopNode(2)
		image := c.Machines[2].Disk.Image()
		c.Boot(2)
		c.WaitReady(2)
		c.StopNode(2)
		c.Machines[2].Disk.Restore(image)
		c.Boot(2)
		refused := refusedFor(t, c, 2, 20*time.Second)
		if refused.Reason != fence.Twin && refused.Reason != fence.Behind {
			t.Fatalf("refused for %q", refused.Reason)
		}
		// The way out: an empty store, as which it is another node.
		c.StopNode(2)
		c.Machines[2].Disk.Wipe()
		c.Boot(2)
		c.WaitReady(2)
		if id := c.Node(2).NodeID(); id != 4 {
			t.Fatalf("joined as node %d", id)
		}
		simtest.Healthy(t, c, 0)
		simtest.Healthy(t, c, 2)
	})
}

// TestClone starts a copy of a running node's store on another machine: it is refused, whether or not there was a write since
// it was made, and the running node does not notice.
func TestClone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := cloneable(t)
		ctx := context.Background()
		image := c.Machines[2].Disk.Image()
		incarnation, _ := c.Node(2).Cluster().Own()
		for round := range 3 {
			if round == 1 {
				if err := simtest.Put(ctx, c.Node(0).DB(), simtest.UserKey(1), "v"); err != nil {
					t.Fatal(err)
				}
			}
			if round == 2 {
				image = c.Machines[2].Disk.Image()
			}
			c.Machines[3].Disk.Restore(image)
			c.Boot(3)
			refusedFor(t, c, 3, 20*time.Second)
			c.StopNode(3)
			time.Sleep(10 * time.Second)
			for i := range 3 {
				simtest.Healthy(t, c, i)
				if e, ok := c.Node(i).Cluster().Get(3); !ok || e.Addr != "n3:1" {
					t.Fatalf("node %d takes node 3 for being at %s", i+1, e.Addr)
				}
			}
		}
		if now, _ := c.Node(2).Cluster().Own(); now.Incarnation != incarnation.Incarnation {
			t.Fatalf("the running node's leases were voided: incarnation %d, then %d", incarnation.Incarnation, now.Incarnation)
		}
	})
}

// cloneable is a cluster of three nodes, and a fourth machine.
func cloneable(t *testing.T) *simcluster.Cluster {
	c := simcluster.New(t, simcluster.Options{NodesPerRegion: 4, Log: simtest.LogTo()})
	c.Boot(0)
	if _, err := c.Node(0).Init(context.Background()); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if i > 0 {
			c.Boot(i)
		}
		c.WaitReady(i)
	}
	simtest.Replicated(t, c, 3)
	return c
}

// TestTwinsApart cuts a node off and starts a clone of it, which the others can't distinguish from the node itself. They
// accept it, and the node that was cut off stops at its first contact; nothing is lost.
func TestTwinsApart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := cloneable(t)
		ctx := context.Background()
		c.Network.Isolate("n3")
		time.Sleep(5 * time.Second)
		// Entries that are durable on this node alone would be lost, so the test counts only those that the others have.
		c.Machines[3].Disk.Restore(c.Machines[2].Disk.Image())
		c.Boot(3)
		c.WaitReady(3)
		if err := simtest.Put(ctx, c.Node(3).DB(), simtest.UserKey(77), "kept"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		c.Network.Rejoin("n3")
		if refused := refusedFor(t, c, 2, 30*time.Second); refused.Reason != fence.Superseded {
			t.Fatalf("refused for %q", refused.Reason)
		}
		c.StopNode(2)
		time.Sleep(5 * time.Second)
		for _, i := range []int{0, 1, 3} {
			simtest.Healthy(t, c, i)
			if v, err := getOne(ctx, c, i, 77); err != nil || v != "kept" {
				t.Fatal(v, err)
			}
		}
	})
}

// TestRestartAll: all nodes of a cluster go down at once and come up in any order, some of them not at all; no node
// needs another one's vote to be allowed to vote.
func TestRestartAll(t *testing.T) {
	t.Parallel()
	for _, nodes := range []int{1, 3, 5, 9} {
		t.Run(fmt.Sprint(nodes), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := simcluster.Start(t, simcluster.Options{NodesPerRegion: nodes, Log: simtest.LogTo()})
				ctx := context.Background()
				if nodes >= 3 {
					simtest.Replicated(t, c, 3)
				}
				for round := range 4 {
					if err := simtest.Put(ctx, c.Node(0).DB(), simtest.UserKey(0), fmt.Sprint(round)); err != nil {
						t.Fatal(err)
					}
					for i := range nodes {
						if round%2 == 0 {
							c.Crash(i, 50, false)
						} else {
							c.StopNode(i)
						}
					}
					time.Sleep(5 * time.Second) // so that old leases are over
					missing := 0
					if nodes >= 3 && round >= 2 {
						missing = 1 // of the three voters of some range at most one
					}
					begun := time.Now()
					for j := range nodes - missing {
						i := (j + round) % nodes
						if round%2 == 1 {
							i = nodes - 1 - i
						}
						c.Boot(i)
						time.Sleep(20 * time.Millisecond)
					}
					var v string
					for i := range nodes {
						if c.Node(i) == nil {
							continue
						}
						c.WaitReady(i)
						got, err := getOne(ctx, c, i, 0)
						if err != nil {
							t.Fatal(err)
						}
						v = got
					}
					took := time.Since(begun)
					t.Logf("round %d: all %d nodes serve after %s", round, nodes-missing, took)
					if v != fmt.Sprint(round) || took > 8*time.Second {
						t.Fatalf("read %q after %s", v, took)
					}
					for i := range nodes {
						if c.Node(i) == nil {
							c.Boot(i)
							c.WaitReady(i)
						}
					}
				}
			})
		})
	}
}

// TestRestartOne: a node comes back while another one is dead, and the rest of a quorum is there. Power cuts are the slow case: no
// reset tells that the dead node is down.
func TestRestartOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := simcluster.Start(t, simcluster.Options{Log: simtest.LogTo()})
		ctx := context.Background()
		simtest.Replicated(t, c, 3)
		c.Crash(2, 0, true)
		c.StopNode(1)
		begun := time.Now()
		c.Boot(1)
		c.WaitReady(1)
		if err := simtest.Put(ctx, c.Node(1).DB(), simtest.UserKey(1), "v"); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begun); took > 6*time.Second {
			t.Fatalf("writes go on after %s", took)
		} else {
			t.Log(took)
		}
	})
}
