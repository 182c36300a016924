package campaign_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"meridian/commit/register"
	"meridian/fence"
	"meridian/keys"
	"meridian/kv"
	"meridian/sim/simcluster"
	"meridian/sim/simcluster/simtest"
)

// TestOldCopyOfPromises: a power cut takes a node that has promised a write in an idle range without a log, and its disk has lost the sync
// of that promise. No raft frame has told a peer of it. The node's store would form a quorum with the replica that was down meanwhile, and
// the acknowledged write would be lost, if no peer knew how far the store had come (fence.FE5).
func TestOldCopyOfPromises(t *testing.T) {
	t.Parallel()
	for _, own := range []bool{false, true} {
		name := "answered to another node's gateway"
		if own {
			name = "answered to the node's own gateway"
		}
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { oldPromises(t, own) })
		})
	}
}

func oldPromises(t *testing.T, own bool) {
	c := simcluster.Start(t, simcluster.Options{Log: simtest.LogTo(), NodesPerRegion: 4, Registers: true})
	ctx := context.Background()
	simtest.Replicated(t, c, 3)
	k := registerKey(0)
	for _, at := range []keys.Key{k, registerKey(1)} {
		if _, err := c.Node(0).Router().Send(ctx, &kv.Batch{Requests: []kv.Request{&kv.AdminSplitRequest{Key: at}}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := become(ctx, c.Node(0), k, register.Protocol); err != nil {
		t.Fatal(err)
	}
	// The machines of the replicas: one that keeps the write, one that loses it, and one that is down when it is made.
	var has [4]bool
	var voters []int
	info, err := c.Node(0).Router().Range(ctx, k, true)
	if err != nil {
		t.Fatal(err)
	}
	for i := range has { // nodes get their numbers in the order in which they join
		if _, has[i] = info.Desc.Replica(c.Node(i).NodeID()); has[i] {
			voters = append(voters, i)
		}
	}
	keeps, loses, missed := voters[0], voters[1], voters[2]
	gateway := loses
	for i := range has {
		if !own && !has[i] {
			gateway = i
		}
	}
	if err := c.Register(gateway).Put(ctx, k, []byte("before")); err != nil {
		t.Fatal(err)
	}
	time.Sleep(30 * time.Second)

	c.StopNode(missed)
	image := c.Machines[loses].Disk.Image()
	if err := c.Register(gateway).Put(ctx, k, []byte("after")); err != nil {
		t.Fatal(err)
	}
	c.Crash(loses, 0, true)
	c.Machines[loses].Disk.Restore(image)
	time.Sleep(3 * time.Second) // the write is not sent to the third replica any more
	c.Boot(missed)
	c.WaitReady(missed)
	c.Boot(loses)
	select {
	case err := <-c.Node(loses).Failed():
		var refused *fence.RefusedError
		if !errors.As(err, &refused) || refused.Reason != fence.Behind {
			t.Fatal(err)
		}
		t.Log(err)
		c.StopNode(loses)
		if v, err := c.Register(missed).Get(ctx, k); err != nil || string(v) != "after" {
			t.Fatalf("read %q, %v", v, err)
		}
	case <-time.After(20 * time.Second):
		c.Network.Isolate(c.Machines[keeps].Name)
		v, err := c.Register(missed).Get(ctx, k)
		t.Fatalf("node %d goes on with an old store; of the value that was written last a quorum without node %d reads %q, %v", loses+1, keeps+1, v, err)
	}
}

// TestStartWithoutRanges: a node whose store was opened without ranges is given one without a log, promises writes in it, and starts again. Its store
// is the latest, and must not count as an old copy; and its peers know its promises (fence.FE4, fence.FE5).
func TestStartWithoutRanges(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := simcluster.Start(t, simcluster.Options{Log: simtest.LogTo(), NodesPerRegion: 6, Registers: true})
		ctx := context.Background()
		simtest.Replicated(t, c, 3)
		ranges, err := c.Ranges(ctx, 0)
		if err != nil {
			t.Fatal(err)
		}
		empty := -1
		for i := range c.Len() {
			if !slices.ContainsFunc(ranges, func(d kv.RangeDescriptor) bool { _, has := d.Replica(c.Node(i).NodeID()); return has }) {
				empty = i
			}
		}
		if empty < 0 {
			t.Fatalf("every node has a range: %v", ranges)
		}
		again := func() {
			c.StopNode(empty)
			c.Boot(empty)
			c.WaitReady(empty)
		}
		again()
		other := (empty + 1) % c.Len()
		k := registerKey(0)
		for _, at := range []keys.Key{k, registerKey(1)} {
			if _, err := c.Node(other).Router().Send(ctx, &kv.Batch{Requests: []kv.Request{&kv.AdminSplitRequest{Key: at}}}); err != nil {
				t.Fatal(err)
			}
		}
		if err := become(ctx, c.Node(other), k, register.Protocol); err != nil {
			t.Fatal(err)
		}
		// The node takes the place of one of the range's replicas: not of the leaseholder's, which can't be removed.
		ranges, err = c.Ranges(ctx, other)
		if err != nil {
			t.Fatal(err)
		}
		of := ranges[slices.IndexFunc(ranges, func(d kv.RangeDescriptor) bool { return d.Contains(k) })]
		for tries := 0; ; tries++ {
			targets := []kv.ReplicaTarget{{Node: c.Node(empty).NodeID(), Store: kv.StoreID(c.Node(empty).NodeID())}}
			for i, r := range of.Replicas {
				if i != tries%len(of.Replicas) {
					targets = append(targets, kv.ReplicaTarget{Node: r.Node, Store: r.Store})
				}
			}
			within, cancel := context.WithTimeout(ctx, 5*time.Second)
			_, err := c.Node(other).Router().Send(within, &kv.Batch{Requests: []kv.Request{&kv.AdminChangeReplicasRequest{Key: k, Targets: targets}}})
			cancel()
			if err == nil {
				break
			}
			if tries == 20 {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		for _, gateway := range []int{empty, other} {
			if err := c.Register(gateway).Put(ctx, k, []byte("value")); err != nil {
				t.Fatal(err)
			}
			again()
		}
	})
}
