package rangeserver_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"meridian/kv"
	"meridian/replica"
)

// overlap says which two ranges of a store have keys in common (RS1).
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
// (RS1): its keys are the second range's here, which has the second split yet to apply.
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
			if problem := late.overlap(); problem != "" {
				t.Fatal(problem)
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
