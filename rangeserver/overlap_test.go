package rangeserver_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"meridian/keys"
	"meridian/kv"
	"meridian/rangeserver"
	"meridian/replica"
	"meridian/replica/lease"
)

// overlap says which two ranges of a store have keys in common (rangeserver.RS1).
func (n *node) overlap() string {
	var ds []*kv.RangeDescriptor
	n.store.Replicas(func(r *replica.Replica) bool {
		if d := r.Desc(); d != nil && !r.Gone() {
			for _, o := range ds {
				if d.Start.Less(o.End) && o.Start.Less(d.End) {
					ds = []*kv.RangeDescriptor{o, d}
					return false
				}
			}
			ds = append(ds, d)
		}
		return true
	})
	if len(ds) == 2 && ds[0].Start.Less(ds[1].End) && ds[1].Start.Less(ds[0].End) {
		return fmt.Sprintf("n%d: %v and %v overlap", n.id, ds[0], ds[1])
	}
	return ""
}

// TestSnapshotDuringSplit: a node was away while a range was split, and its right side once more. It gets the first split
// from the log, and is in the middle of applying it when the raft snapshot of the third range comes. That one has to wait
// (rangeserver.RS1): its keys are the second range's here, which has the second split yet to apply.
func TestSnapshotDuringSplit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := three(t)
		defer c.stop()
		for i := range 40 {
			check(t, c.put(fmt.Sprintf("k%02d", i), "old"))
		}
		time.Sleep(time.Second)
		late := c.nodes[2]
		late.stop()
		ctx := context.Background()
		second, third := kv.RangeID(3), kv.RangeID(4)
		check(t, c.leaseholder(2).store.Split(ctx, 2, tkey("k10")))
		check(t, c.leaseholder(second).store.Split(ctx, second, tkey("k20")))
		for i := range 40 {
			check(t, c.put(fmt.Sprintf("k%02d", i), "new"))
		}
		c.splitOff.Store(int64(2 * time.Second))
		late.start(false)
		for range 10_000 {
			if problem := late.overlap(); problem != "" || late.store.Failed() != nil {
				t.Fatal(problem, late.store.Failed())
			}
			time.Sleep(time.Millisecond)
		}
		c.splitOff.Store(0)
		time.Sleep(5 * time.Second)
		for id := kv.RangeID(2); id <= third; id++ {
			for _, n := range c.nodes {
				r := n.store.Replica(id)
				if r == nil || r.Desc() == nil {
					t.Fatalf("n%d has no replica of r%d", n.id, id)
				}
				kept, counted, err := r.CountStats()
				if err != nil || kept != counted || kept != c.nodes[0].store.Replica(id).Stats() {
					t.Errorf("n%d, %v: statistics say %+v, a count %+v (%v), those of n1 %+v", n.id, r.Desc(), kept, counted, err,
						c.nodes[0].store.Replica(id).Stats())
				}
			}
		}
	})
}

// TestRightSideSplits: a node was away while a range was split, and its right side once more. While it applies the first
// split, it hears of the second one, from another node.
func TestRightSideSplits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := running(t, 4)
		defer c.stop()
		ctx := context.Background()
		second := kv.RangeID(3)
		check(t, c.nodes[0].store.ChangeReplicas(ctx, 2, targets(1, 2, 3)))
		for i := range 40 {
			check(t, c.put(fmt.Sprintf("k%02d", i), "old"))
		}
		time.Sleep(time.Second)
		late := c.nodes[2]
		late.stop()
		check(t, c.leaseholder(2).store.Split(ctx, 2, tkey("k10")))
		check(t, c.leaseholder(second).store.TransferLease(ctx, second, 2))
		time.Sleep(5 * time.Second)
		check(t, c.leaseholder(second).store.Split(ctx, second, tkey("k20")))
		check(t, c.leaseholder(2).store.ChangeReplicas(ctx, 2, targets(1, 3, 4))) // n2 says nothing of range 2
		c.splitOff.Store(int64(2 * time.Second))
		late.start(false)
		for range 10_000 {
			if problem := late.overlap(); problem != "" || late.store.Failed() != nil {
				t.Fatal(problem, late.store.Failed())
			}
			time.Sleep(time.Millisecond)
		}
	})
}

// merge has a range absorb its neighbour, without waiting for anybody.
func (c *cluster) merge(left, right kv.RangeID) {
	c.t.Helper()
	lh := c.leaseholder(left)
	r := lh.store.Replica(right)
	merged := lh.store.Replica(left).Desc().Clone()
	merged.End, merged.Generation = r.Desc().End, max(merged.Generation, r.Desc().Generation)+1
	ctx := context.Background()
	check(c.t, database{c}.RunInternal(ctx, "", func(ctx context.Context, tx rangeserver.Tx) error {
		for _, k := range append([]keys.Key{keys.RangeDescriptorKey(merged.Start)}, keys.MetaKeys(merged.Start, merged.End)...) {
			if err := tx.Put(ctx, k, merged.Append(nil)); err != nil {
				return err
			}
		}
		return tx.CommitWithTrigger(ctx, &kv.CommitTrigger{Merge: &kv.MergeTrigger{
			Left: *merged, Right: *r.Desc(), Freeze: lh.clock.Now(), Applied: r.AppliedIndex()}})
	}))
	time.Sleep(time.Second)
}

// TestSplitDuringSnapshot: a raft snapshot of a range replaces its right neighbour's replica, which the range has absorbed;
// but while the snapshot waits for that replica, the replica is in the middle of applying its log, and splits. There is one
// more to be replaced then.
func TestSplitDuringSnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := three(t)
		defer c.stop()
		ctx := context.Background()
		left, second, third := kv.RangeID(2), kv.RangeID(3), kv.RangeID(4)
		check(t, c.leaseholder(left).store.Split(ctx, left, tkey("k10")))
		for i := range 40 {
			check(t, c.put(fmt.Sprintf("k%02d", i), "old"))
		}
		time.Sleep(time.Second)
		late := c.nodes[2]
		late.stop()
		// It will get a new lease and a split of the second range at once, and a raft snapshot of the first one.
		check(t, c.leaseholder(second).store.TransferLease(ctx, second, 2))
		check(t, c.leaseholder(second).store.Split(ctx, second, tkey("k20")))
		applied := late.store.Replica(left).AppliedIndex()
		for i := 0; c.leaseholder(left).store.Replica(left).Status().First <= applied+1; i++ {
			check(t, c.put("k00", fmt.Sprint(i)))
			time.Sleep(10 * time.Millisecond)
		}
		c.net.Partition("n1", "n3")
		var slow atomic.Bool
		hook := func(n kv.NodeID, r kv.RangeID, l lease.Lease) {
			if n == late.id && r == second && l.Holder.Node == 2 && slow.CompareAndSwap(false, true) {
				time.Sleep(10 * time.Second)
			}
		}
		c.leaseChanged.Store(&hook)
		late.start(false)
		time.Sleep(2 * time.Second)
		if !slow.Load() || late.store.Replica(third) != nil && late.store.Replica(third).Desc() != nil {
			t.Fatal("the lease and the split did not come together")
		}
		c.merge(second, third)
		c.merge(left, second)
		c.net.Heal("n1", "n3")
		for range 20_000 {
			if problem := late.overlap(); problem != "" {
				t.Fatal(problem)
			}
			time.Sleep(time.Millisecond)
		}
		if late.store.Metrics.Subsumed.Load() != 2 || late.store.Replica(third) != nil {
			t.Error("the raft snapshot has not replaced both")
		}
	})
}

// TestMergeUnprepared: a merge that did not wait until all replicas of the right side have all of its data, which package
// rangeserver never does, stops the node that has not. It does not go on without the data, nor does it after a restart.
func TestMergeUnprepared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := three(t)
		defer c.stop()
		left, right := kv.RangeID(2), kv.RangeID(3)
		check(t, c.leaseholder(left).store.Split(context.Background(), left, tkey("k10")))
		check(t, c.put("k20", "old"))
		time.Sleep(time.Second)
		late := c.nodes[2]
		late.stop()
		check(t, c.put("k20", "new"))
		time.Sleep(time.Second) // so that at least the others have it
		c.merge(left, right)
		end := c.leaseholder(left).store.Replica(left).AppliedIndex()
		for range 2 {
			late.start(false)
			time.Sleep(3 * time.Second)
			if late.store.Failed() == nil {
				t.Error("the node goes on")
			}
			if r := late.store.Replica(left); r.AppliedIndex() >= end {
				t.Errorf("the left side has applied %d, with the merge", r.AppliedIndex())
			}
			late.stop()
		}
	})
}
