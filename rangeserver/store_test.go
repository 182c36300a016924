package rangeserver_test

import (
	"context"
	"errors"
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
	t.Helper()
	c := newCluster(t, 3)
	c.threefold()
	return c
}

// threefold starts three nodes, which all have a replica of each range.
func (c *cluster) threefold() {
	c.t.Helper()
	for i, n := range c.nodes {
		n.start(i == 0)
	}
	check(c.t, c.put("a", "1"))
	for id := range kv.RangeID(2) {
		check(c.t, c.nodes[0].store.ChangeReplicas(context.Background(), id+1, targets(1, 2, 3)))
	}
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

// TestSplit: both sides serve, on every replica, before and after a restart of everything.
func TestSplit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := three(t)
		defer c.stop()
		for i := range 40 {
			check(t, c.put(fmt.Sprintf("k%02d", i), "x"))
		}
		ctx := context.Background()
		lh := c.leaseholder(2)
		check(t, lh.store.Split(ctx, 2, tkey("k20")))
		check(t, lh.store.Split(ctx, 2, nil)) // in halves
		time.Sleep(time.Second)
		for i := range 40 {
			check(t, c.put(fmt.Sprintf("k%02d", i), "y"))
		}
		time.Sleep(time.Second)
		for _, n := range c.nodes {
			if g := n.store.Gauges(); g.Ranges != 4 || g.Uninitialised != 0 {
				t.Fatalf("n%d: %+v", n.id, g)
			}
		}
		for _, n := range c.nodes {
			n.crash(0)
		}
		for _, n := range c.nodes {
			n.start(false)
		}
		for i := range 40 {
			if v, err := c.get(fmt.Sprintf("k%02d", i)); err != nil || v != "y" {
				t.Fatalf("k%02d: %q, %v", i, v, err)
			}
		}
		for _, n := range c.nodes {
			if g := n.store.Gauges(); g.Ranges != 4 {
				t.Fatalf("n%d: %+v", n.id, g)
			}
			for id := range kv.RangeID(4) {
				if a, b := n.store.Replica(id+1), c.nodes[0].store.Replica(id+1); a.Stats() != b.Stats() {
					t.Errorf("r%d: n%d has %+v, n1 %+v", id+1, n.id, a.Stats(), b.Stats())
				}
			}
		}
	})
}

// leaseholder finds who has a range's lease.
func (c *cluster) leaseholder(id kv.RangeID) *node {
	c.t.Helper()
	for range 200 {
		for _, n := range c.nodes {
			if !n.isUp() {
				continue
			}
			if r := n.store.Replica(id); r != nil && r.Desc() != nil {
				if l, good := r.Lease(); good && l.Holder.Node == n.id {
					return n
				}
			}
		}
		time.Sleep(50 * time.Millisecond)
	}
	c.t.Fatalf("r%d: no leaseholder", id)
	return nil
}

// TestSleepWithoutAnother: a range sleeps without a replica on a dead node, which lacks something. The replica sleeps too, and
// when its node is live again nothing tells it but the leader, which wakes up for it.
func TestSleepWithoutAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := three(t)
		defer c.stop()
		check(t, c.put("a", "1"))
		time.Sleep(10 * time.Second)
		leader, other := c.leaseholder(2), c.nodes[2]
		if leader == other {
			t.Fatal("n3 has the lease")
		}
		c.net.Isolate("n3")
		c.liveness.missed.Store(3)
		check(t, c.put("a", "2"))
		time.Sleep(10 * time.Second)
		l, o := leader.store.Replica(2), other.store.Replica(2)
		if !l.Quiesced() || !o.Quiesced() || l.AppliedIndex() == o.AppliedIndex() {
			t.Fatalf("asleep: leader %t, n3 %t; applied %d and %d", l.Quiesced(), o.Quiesced(), l.AppliedIndex(), o.AppliedIndex())
		}
		c.net.Rejoin("n3")
		c.liveness.missed.Store(0)
		time.Sleep(10 * time.Second)
		if !l.Quiesced() || !o.Quiesced() || l.AppliedIndex() != o.AppliedIndex() {
			t.Errorf("asleep: leader %t, n3 %t; applied %d and %d", l.Quiesced(), o.Quiesced(), l.AppliedIndex(), o.AppliedIndex())
		}
	})
}

// TestQuiesce: an idle range sleeps on all replicas, and wakes for a write and for the death of its leader.
func TestQuiesce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := three(t)
		defer c.stop()
		check(t, c.put("a", "1"))
		time.Sleep(10 * time.Second)
		for _, n := range c.nodes {
			if !n.store.Replica(2).Quiesced() {
				t.Fatalf("n%d: awake: %+v", n.id, n.store.Replica(2).Status())
			}
		}
		sent := c.nodes[0].store.Metrics.RaftMessagesSent.Load()
		time.Sleep(10 * time.Second)
		t.Logf("%d messages in 10 s for range 1", c.nodes[0].store.Metrics.RaftMessagesSent.Load()-sent)
		check(t, c.put("a", "2"))
		time.Sleep(10 * time.Second)
		if !c.nodes[1].store.Replica(2).Quiesced() {
			t.Fatal("awake")
		}
		c.leaseholder(2).crash(0)
		start := time.Now()
		check(t, c.put("a", "3"))
		if d := time.Since(start); d > 3*time.Second {
			t.Fatalf("writes resumed after %s", d)
		} else {
			t.Logf("writes resumed after %s", d)
		}
	})
}

// TestTransferLease: the new holder serves at once, and raft's leadership follows.
func TestTransferLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := three(t)
		defer c.stop()
		for round := range 6 {
			for id := range kv.RangeID(2) {
				from := c.leaseholder(id + 1)
				to := from.id%3 + 1
				check(t, from.store.TransferLease(context.Background(), id+1, to))
				time.Sleep(50 * time.Millisecond)
				if at := c.leaseholder(id + 1); at.id != to {
					t.Fatalf("round %d: r%d: lease at n%d, not n%d", round, id+1, at.id, to)
				}
			}
			start := time.Now()
			check(t, c.put("a", fmt.Sprint(round)))
			if d := time.Since(start); d > 300*time.Millisecond {
				t.Errorf("round %d: write took %s", round, d)
			}
			time.Sleep(2 * time.Second)
			for id := range kv.RangeID(2) {
				if lh := c.leaseholder(id + 1); !lh.store.Replica(id + 1).IsLeader() {
					t.Errorf("r%d: leaseholder n%d does not lead", id+1, lh.id)
				}
			}
		}
		c.checkLeases()
	})
}

// checkLeases is I5: what was served under a lease lies after everything that was served under earlier ones.
func (c *cluster) checkLeases() {
	c.t.Helper()
	type span struct {
		node kv.NodeID
		min  service
		max  service
	}
	bySeq := make(map[kv.RangeID]map[uint64]*span)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.served {
		m := bySeq[s.r]
		if m == nil {
			m = make(map[uint64]*span)
			bySeq[s.r] = m
		}
		x := m[s.seq]
		if x == nil {
			x = &span{node: s.node, min: s, max: s}
			m[s.seq] = x
		}
		if x.node != s.node {
			c.t.Fatalf("r%d: lease %d served by n%d and n%d", s.r, s.seq, x.node, s.node)
		}
		if s.at.Less(x.min.at) {
			x.min = s
		}
		if x.max.at.Less(s.at) {
			x.max = s
		}
	}
	for r, m := range bySeq {
		for a, x := range m {
			for b, y := range m {
				if x.node == y.node && x.max.process == y.min.process {
					continue // it remembers what it has served
				}
				if a < b && y.min.at.LessEq(x.max.at) {
					c.t.Fatalf("r%d: lease %d of n%d served at %s, lease %d of n%d at %s", r, a, x.node, x.max.at, b, y.node, y.min.at)
				}
			}
		}
	}
}

// TestLagging: a follower that was away catches up by the log if the leader still has what it missed, else by a raft
// snapshot.
func TestLagging(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := three(t)
		defer c.stop()
		away := c.nodes[2]
		if c.leaseholder(2) == away {
			t.Fatal("the leaseholder should stay")
		}
		for round, writes := range []int{30, 1500} {
			away.crash(0)
			time.Sleep(3 * time.Second) // the log is kept for followers that are live
			for i := range writes {
				check(t, c.put(fmt.Sprint("k", i), fmt.Sprint(round)))
			}
			time.Sleep(time.Second) // the log is truncated on a tick
			away.start(false)
			time.Sleep(3 * time.Second)
			a, b := away.store.Replica(2), c.leaseholder(2).store.Replica(2)
			if a.AppliedIndex() != b.AppliedIndex() || a.Stats() != b.Stats() {
				t.Fatalf("round %d: %+v at %d, leaseholder has %+v at %d", round, a.Stats(), a.AppliedIndex(), b.Stats(), b.AppliedIndex())
			}
			if n := away.store.Metrics.SnapshotsApplied.Load(); n != int64(round) {
				t.Errorf("round %d: %d raft snapshots", round, n)
			}
		}
		// The state that the raft snapshot brought is durable and enough: the other follower may go.
		c.nodes[1].crash(0)
		check(t, c.put("z", "z"))
		if v, err := c.get("k1499"); err != nil || v != "1" {
			t.Fatalf("%q, %v", v, err)
		}
	})
}

// TestExchange: voters are exchanged under writes, to a set that shares only the leaseholder, and to one that does not
// even share that; what was removed is gone from the stores.
func TestExchange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := running(t, 5)
		defer c.stop()
		ctx := context.Background()
		check(t, c.put("a", "1"))
		check(t, c.nodes[0].store.ChangeReplicas(ctx, 2, targets(1, 2, 3)))
		stop, stopped := make(chan struct{}), make(chan int)
		go func() {
			n := 0
			for {
				select {
				case <-stop:
					stopped <- n
					return
				default:
				}
				if err := c.put("a", fmt.Sprint(n)); err != nil {
					t.Error(err)
				}
				n++
				time.Sleep(5 * time.Millisecond)
			}
		}()
		check(t, c.nodes[0].store.ChangeReplicas(ctx, 2, targets(1, 4, 5)))
		check(t, c.nodes[0].store.TransferLease(ctx, 2, 4))
		time.Sleep(time.Second)
		check(t, c.leaseholder(2).store.ChangeReplicas(ctx, 2, targets(4, 5, 2)))
		time.Sleep(5 * time.Second)
		close(stop)
		if n := <-stopped; n < 500 {
			t.Errorf("only %d writes", n)
		}
		for _, n := range c.nodes {
			want := n.id == 2 || n.id >= 4
			if r := n.store.Replica(2); (r != nil) != want {
				t.Errorf("n%d: has a replica: %v", n.id, r != nil)
			}
		}
		var down *kv.UnavailableError
		if err := c.leaseholder(2).store.ChangeReplicas(ctx, 2, targets(2, 5)); !errors.As(err, &down) {
			t.Errorf("the leaseholder was removed: %v", err)
		}
		c.checkLeases()
	})
}
