package rangeserver_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"meridian/clock"
	"meridian/keys"
	"meridian/kv"
	"meridian/rangeserver"
)

// TestLeaderOnItsWayOut: the leaseholder dies between the two steps of an exchange of voters, and the raft leader is one
// that is about to go, which may not take the lease. It has to let somebody lead who may.
func TestLeaderOnItsWayOut(t *testing.T) {
	t.Run("a table's range", func(t *testing.T) { leaderOnItsWayOut(t, false) })
	// Without a leaseholder no heartbeat arrives, and after a while all nodes look dead.
	t.Run("the range of the liveness records", func(t *testing.T) { leaderOnItsWayOut(t, true) })
}

func leaderOnItsWayOut(t *testing.T, system bool) {
	synctest.Test(t, func(t *testing.T) {
		id := kv.RangeID(2)
		c := newCluster(t, 5)
		put := func(v string) error { return c.put("a", v) }
		if system {
			id = 1
			put = func(v string) error {
				ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
				defer cancel()
				k := keys.SystemKey("way-out")
				_, err := c.send(ctx, k, &kv.PutRequest{Key: k, Value: []byte(v)})
				return err
			}
		}
		for i, n := range c.nodes {
			n.start(i == 0)
		}
		defer c.stop()
		ctx := context.Background()
		check(t, put("1"))
		check(t, c.nodes[0].store.ChangeReplicas(ctx, id, targets(1, 2, 3)))
		time.Sleep(2 * time.Second)
		if lh := c.leaseholder(id); lh.id != 1 || !lh.store.Replica(id).IsLeader() {
			t.Fatal("node 1 does not lead")
		}
		// n1 is on its way out, the others stay.
		d := *c.nodes[0].store.Replica(id).Desc().Clone()
		d.Generation++
		for i := range d.Replicas {
			if d.Replicas[i].Node == 1 {
				d.Replicas[i].Type = kv.VoterOutgoing
			}
		}
		c.anyTrigger.Store(true)
		check(t, c.become(&d))
		// The lease ends with n1's incarnation, its leadership does not.
		c.liveness.mu.Lock()
		c.liveness.records[1].incarnation++
		c.liveness.stopped = system
		for _, r := range c.liveness.records {
			if system {
				r.expiration = clock.Timestamp{}
			}
		}
		c.liveness.mu.Unlock()
		if system {
			time.Sleep(3 * time.Second) // its lease has an end of its own
		}
		start := time.Now()
		check(t, put("2"))
		if took := time.Since(start); took > 4*time.Second {
			t.Errorf("writes stood still for %s", took)
		}
		if lh := c.leaseholder(id); lh == nil || lh.id == 1 {
			t.Error("nobody took the lease")
		}
		c.checkLeases()
	})
}

// TestLeaseholderStays: a change of replicas that was prepared on another node reaches a leaseholder that it would
// remove, because the lease has moved meanwhile. It is refused, and the range goes on being served.
func TestLeaseholderStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := running(t, 3)
		defer c.stop()
		ctx := context.Background()
		check(t, c.put("a", "1"))
		check(t, c.nodes[0].store.ChangeReplicas(ctx, 2, targets(1, 2, 3)))
		check(t, c.nodes[0].store.TransferLease(ctx, 2, 2))
		for _, outgoing := range []bool{false, true} {
			d := *c.leaseholder(2).store.Replica(2).Desc().Clone()
			d.Generation++
			var left []kv.ReplicaDescriptor
			for _, r := range d.Replicas {
				if r.Node == 2 {
					if !outgoing {
						continue
					}
					r.Type = kv.VoterOutgoing
				}
				left = append(left, r)
			}
			d.Replicas = left
			if c.become(&d) == nil {
				t.Error("the leaseholder removed itself")
			}
		}
		check(t, c.put("a", "2"))
		if lh := c.leaseholder(2); lh.id != 2 {
			t.Errorf("node %d has the lease", lh.id)
		}
	})
}

// TestSplitIsSeenFirst: nobody is told that a range has split before its participants know, since latches are released
// then. A request that waited for these must not write rows that belong to the right side.
func TestSplitIsSeenFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := running(t, 3)
		defer c.stop()
		check(t, c.put("m", "1"))
		check(t, c.nodes[0].store.ChangeReplicas(context.Background(), 2, targets(1, 2, 3)))
		c.splitOff.Store(int64(50 * time.Millisecond))
		start := time.Now()
		check(t, c.nodes[0].store.Split(context.Background(), 2, tkey("k")))
		if took := time.Since(start); took < 50*time.Millisecond {
			t.Errorf("answered after %s", took)
		}
		if d := c.nodes[0].store.Replica(2).Desc(); d.Contains(tkey("m")) {
			t.Errorf("r2 still is %v", d)
		}
	})
}

// TestSeveralLearnersGo: learners that interrupted changes have left behind are removed one by one, because raft takes
// several changes at once for a joint configuration.
func TestSeveralLearnersGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := running(t, 5)
		defer c.stop()
		ctx := context.Background()
		check(t, c.put("a", "1"))
		check(t, c.nodes[0].store.ChangeReplicas(ctx, 2, targets(1, 2, 3)))
		change := func(edit func(d *kv.RangeDescriptor)) error {
			d := *c.nodes[0].store.Replica(2).Desc().Clone()
			edit(&d)
			d.Generation++
			return c.become(&d)
		}
		for _, n := range []kv.NodeID{4, 5} {
			check(t, change(func(d *kv.RangeDescriptor) {
				d.Replicas = append(d.Replicas, kv.ReplicaDescriptor{Node: n, Store: kv.StoreID(n), Replica: d.NextReplica, Type: kv.Learner})
				d.NextReplica++
			}))
		}
		if err := change(func(d *kv.RangeDescriptor) { d.Replicas = d.Replicas[:3] }); err == nil {
			t.Fatal("two learners went at once")
		}
		check(t, c.nodes[0].store.ChangeReplicas(ctx, 2, targets(1, 2, 3)))
		if d := c.nodes[0].store.Replica(2).Desc(); len(d.Replicas) != 3 {
			t.Errorf("replicas are %v", d.Replicas)
		}
		check(t, c.put("a", "2"))
	})
}

// become changes a range's replicas to those of a descriptor as it is, whatever the store would say to it.
func (c *cluster) become(d *kv.RangeDescriptor) error {
	return database{c}.RunInternal(context.Background(), "", func(ctx context.Context, tx rangeserver.Tx) error {
		for _, k := range append([]keys.Key{keys.RangeDescriptorKey(d.Start)}, keys.MetaKeys(d.Start, d.End)...) {
			if err := tx.Put(ctx, k, d.Append(nil)); err != nil {
				return err
			}
		}
		return tx.CommitWithTrigger(ctx, &kv.CommitTrigger{Replicas: &kv.ReplicasTrigger{Desc: *d}})
	})
}
