package ranges_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"meridian/clock"
	"meridian/keys"
	"meridian/kv"
	"meridian/server"
	"meridian/sim/simcluster"
	"meridian/sim/simcluster/simtest"
	"meridian/txn"
)

// These tests are about the remains of an absorbed range, on a node that did not learn of the merge.

// nodeOf finds a node by its id.
func nodeOf(c *simcluster.Cluster, id kv.NodeID) *server.Node {
	for i := range c.Len() {
		if n := c.Node(i); n != nil && n.NodeID() == id {
			return n
		}
	}
	return nil
}

// mergeSlowly merges the range that holds a key with its right neighbour as rangeserver does, through node i. When all
// of the right side's replicas have applied everything, and before the merge commits, it calls f.
func mergeSlowly(t *testing.T, c *simcluster.Cluster, i int, k keys.Key, f func()) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	at := func(k keys.Key) kv.RangeDescriptor {
		t.Helper()
		r, err := c.Node(i).Router().Send(ctx, &kv.Batch{Requests: []kv.Request{&kv.RangeInfoRequest{Key: k}}})
		if err != nil {
			t.Fatal(err)
		}
		return r.Responses[0].(*kv.RangeInfoResponse).Desc
	}
	left := at(k)
	right := at(left.End)
	merged := left.Clone()
	merged.End, merged.Generation = right.End, max(left.Generation, right.Generation)+1
	err := c.Node(i).DB().Run(ctx, txn.TxnOptions{Name: "range merge"}, func(ctx context.Context, tx *txn.Txn) error {
		var b txn.WriteBatch
		b.Put(keys.RangeDescriptorKey(left.Start), merged.Append(nil))
		b.Delete(keys.RangeDescriptorKey(right.Start))
		for _, k := range keys.MetaKeys(left.Start, left.End) {
			b.Delete(k)
		}
		for _, k := range keys.MetaKeys(merged.Start, merged.End) {
			b.Put(k, merged.Append(nil))
		}
		if err := tx.Write(ctx, &b); err != nil {
			return err
		}
		meta, err := tx.Lay(ctx)
		if err != nil {
			return err
		}
		r, err := c.Node(i).Router().Send(ctx, &kv.Batch{Requests: []kv.Request{&kv.SubsumeRequest{Key: right.Start, Txn: meta}}})
		if err != nil {
			return err
		}
		told := r.Responses[0].(*kv.SubsumeResponse)
		for _, r := range right.Replicas {
			for {
				here := nodeOf(c, r.Node).Store().Replica(right.ID)
				if here == nil {
					return fmt.Errorf("node %d has no replica of r%d", r.Node, right.ID)
				}
				if here.AppliedIndex() >= told.Applied {
					break
				}
				time.Sleep(10 * time.Millisecond)
			}
		}
		f()
		return tx.CommitWithTrigger(ctx, &kv.CommitTrigger{Merge: &kv.MergeTrigger{
			Left: *merged, Right: right, Freeze: told.Freeze, Applied: told.Applied}})
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestSplitAgainMeanwhile: a node misses a merge and a split at the same key, and the left side's log is truncated. The
// raft snapshot of the left side then ends where the absorbed range begins, which no replica there will absorb any
// more; it must not be in the new right side's way.
func TestSplitAgainMeanwhile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := simcluster.Start(t, simcluster.Options{Log: simtest.LogTo()})
		simtest.Replicated(t, c, 3)
		ctx := context.Background()
		for i := range 20 {
			if err := simtest.Put(ctx, c.Node(0).DB(), simtest.UserKey(i), "old"); err != nil {
				t.Fatal(err)
			}
		}
		if err := simtest.Admin(c, 0, &kv.AdminSplitRequest{Key: simtest.UserKey(10), Keep: clock.Timestamp{Wall: 1}}); err != nil {
			t.Fatal(err)
		}
		for _, k := range []int{0, 10} {
			if err := c.TransferLease(ctx, simtest.UserKey(k), 0); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.TransferLease(ctx, keys.Min, 0); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		mergeSlowly(t, c, 0, simtest.UserKey(0), func() { c.Crash(2, 0, false) })
		if err := simtest.Admin(c, 0, &kv.AdminSplitRequest{Key: simtest.UserKey(10), Keep: clock.Timestamp{Wall: 1}}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(4 * time.Second) // n3 is not live any more
		for range 80 {
			for i := range 20 {
				if err := simtest.Put(ctx, c.Node(0).DB(), simtest.UserKey(i), "new"); err != nil {
					t.Fatal(err)
				}
			}
		}
		c.Boot(2)
		c.WaitReady(2)
		simtest.RestWithin(t, c, 15*time.Second)
	})
}

// TestMovedAwayMeanwhile: a node does not learn that the merge has committed, and when it is reachable again, the range has
// moved to another node. It may have had the right side's lease, which no other node requests, or its replica may have slept
// all the time.
func TestMovedAwayMeanwhile(t *testing.T) {
	t.Parallel()
	for _, one := range []struct {
		name   string
		away   time.Duration
		holder int
	}{
		{"for a moment, sleeping", 100 * time.Millisecond, 0}, {"for a moment, with the lease", 100 * time.Millisecond, 2},
		{"for long", 30 * time.Second, 0}, {"for long, with the lease", 30 * time.Second, 2},
	} {
		t.Run(one.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { movedAway(t, one.away, one.holder) })
		})
	}
}

func movedAway(t *testing.T, away time.Duration, holder int) {
	c := simcluster.Start(t, simcluster.Options{Log: simtest.LogTo(), NodesPerRegion: 4})
	simtest.Replicated(t, c, 3)
	ctx := context.Background()
	if err := simtest.Put(ctx, c.Node(0).DB(), simtest.UserKey(15), "old"); err != nil {
		t.Fatal(err)
	}
	if err := simtest.Admin(c, 0, &kv.AdminSplitRequest{Key: simtest.UserKey(10), Keep: clock.Timestamp{Wall: 1}}); err != nil {
		t.Fatal(err)
	}
	move := func(nodes ...int) {
		t.Helper()
		var targets []kv.ReplicaTarget
		for _, i := range nodes {
			n := c.Node(i).NodeID()
			targets = append(targets, kv.ReplicaTarget{Node: n, Store: kv.StoreID(n)})
		}
		for _, k := range []int{0, 10} {
			if err := simtest.Admin(c, 0, &kv.AdminChangeReplicasRequest{Key: simtest.UserKey(k), Targets: targets}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i := range c.Len() {
		c.Node(i).Store().PauseQueues(true)
	}
	move(0, 1, 2)
	for k, to := range map[int]int{0: 0, 10: holder} {
		if err := c.TransferLease(ctx, simtest.UserKey(k), to); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.TransferLease(ctx, keys.Min, 0); err != nil {
		t.Fatal(err)
	}
	time.Sleep(3 * time.Second)
	mergeSlowly(t, c, 0, simtest.UserKey(0), func() {
		time.Sleep(2 * time.Second) // the right side falls asleep
		c.Network.Isolate("n3")
	})
	move(0, 1, 3)
	time.Sleep(away)
	for _, other := range []string{"n1", "n2", "n4"} {
		c.Network.Reset("n3", other) // messages on their way are lost
	}
	c.Network.Rejoin("n3")
	for i := range c.Len() {
		c.Node(i).Store().PauseQueues(false)
	}
	simtest.RestWithin(t, c, 15*time.Second)
}
