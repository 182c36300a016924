package rangeserver_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"meridian/kv"
)

// TestOneNode: what was acknowledged is there after a restart.
func TestOneNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1)
		n := c.nodes[0]
		n.start(true)
		defer c.stop()
		for i := range 50 {
			check(t, c.put(fmt.Sprint("k", i), fmt.Sprint("v", i)))
		}
		n.stop()
		n.start(false)
		for i := range 50 {
			if v, err := c.get(fmt.Sprint("k", i)); err != nil || v != fmt.Sprint("v", i) {
				t.Fatalf("k%d: %q, %v", i, v, err)
			}
		}
		if s := n.store.Gauges(); s.Ranges != 2 {
			t.Fatalf("%+v", s)
		}
	})
}

// three makes a cluster of three with three replicas of both ranges.
func three(t *testing.T) *cluster {
	c := newCluster(t, 3)
	c.nodes[0].start(true)
	c.nodes[1].start(false)
	c.nodes[2].start(false)
	check(t, c.put("a", "1"))
	for id := range kv.RangeID(2) {
		check(t, c.nodes[0].store.ChangeReplicas(context.Background(), id+1, targets(1, 2, 3)))
	}
	return c
}

func targets(ids ...int) (ts []kv.ReplicaTarget) {
	for _, id := range ids {
		ts = append(ts, kv.ReplicaTarget{Node: kv.NodeID(id), Store: kv.StoreID(id), Type: kv.Voter})
	}
	return ts
}

// TestThreeNodes: up-replication from one to three by raft snapshot, then the loss of the leaseholder.
func TestThreeNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := three(t)
		defer c.stop()
		for i := range 20 {
			check(t, c.put(fmt.Sprint("k", i), "x"))
		}
		for _, n := range c.nodes {
			if g := n.store.Gauges(); g.Ranges != 2 || g.Uninitialised != 0 {
				t.Fatalf("n%d: %+v", n.id, g)
			}
		}
		c.nodes[0].crash(0)
		start := time.Now()
		check(t, c.put("b", "2"))
		if d := time.Since(start); d > 4*time.Second {
			t.Fatalf("writes resumed after %s", d)
		} else {
			t.Logf("writes resumed after %s", d)
		}
		for i := range 300 {
			check(t, c.put(fmt.Sprint("m", i), "x"))
		}
		c.nodes[0].start(false)
		time.Sleep(5 * time.Second)
		a, b := c.nodes[0].store.Replica(2), c.nodes[1].store.Replica(2)
		if a.AppliedIndex() != b.AppliedIndex() {
			t.Fatalf("n1 applied %d, n2 %d", a.AppliedIndex(), b.AppliedIndex())
		}
		c.nodes[1].crash(50)
		if v, err := c.get("b"); err != nil || v != "2" {
			t.Fatalf("%q, %v", v, err)
		}
	})
}
