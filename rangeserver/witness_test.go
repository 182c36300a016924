package rangeserver_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"meridian/clock"
	"meridian/keys"
	"meridian/kv"
	"meridian/placement"
	"meridian/rangeserver"
)

// fourAndWitness is a configuration of all ranges: four replicas, and a witness anywhere.
type fourAndWitness struct{}

func (fourAndWitness) Zone(keys.Key) (placement.Zone, keys.Span) {
	z := placement.DefaultZone()
	z.NumReplicas, z.Witness = 4, &placement.Conjunction{}
	return z, keys.Span{Start: keys.Min, End: keys.Max}
}
func (fourAndWitness) Generation() uint64                             { return 0 }
func (f fourAndWitness) Use(keys.Span) (rangeserver.ZoneUse, error)   { return f, nil }
func (fourAndWitness) Deadline() (t clock.Timestamp)                  { return t }
func (fourAndWitness) AwaitDeadline(context.Context, clock.Timestamp) {}
func (fourAndWitness) Release()                                       {}

// witnessing is a cluster that runs, and whose ranges may have witnesses.
func witnessing(t *testing.T, n int) *cluster {
	t.Helper()
	c := newCluster(t, n)
	c.configs = fourAndWitness{}
	for i, n := range c.nodes {
		n.start(i == 0)
	}
	return c
}

// withWitness are voters on nodes, and a witness on another one.
func withWitness(witness int, full ...int) []kv.ReplicaTarget {
	return append(targets(full...), kv.ReplicaTarget{Node: kv.NodeID(witness), Store: kv.StoreID(witness), Type: kv.Voter, Witness: true})
}

// witnessOf is the node with a range's witness; zero: it has none.
func witnessOf(d *kv.RangeDescriptor) (n kv.NodeID) {
	for _, r := range d.Replicas {
		if r.Witness {
			n = r.Node
		}
	}
	return n
}

// apart cuts the links between some nodes and all others.
func (c *cluster) apart(nodes ...int) {
	in := map[int]bool{}
	for _, n := range nodes {
		in[n] = true
	}
	for a := range c.nodes {
		for b := range c.nodes {
			if in[a+1] != in[b+1] {
				c.net.Partition(fmt.Sprintf("n%d", a+1), fmt.Sprintf("n%d", b+1))
			}
		}
	}
}

// TestWitnessIsBacked: n3 and n4 are cut off, so that a write has the votes of n1, n2 and the witness alone. The witness is not replaced meanwhile, for the new one could give
// the write to nobody: after n1 and n2 are lost, n3 and n4 get it from the old one. Once they have it, the witness is replaced.
func TestWitnessIsBacked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := witnessing(t, 6)
		defer c.stop()
		ctx := context.Background()
		check(t, c.put("a", "1"))
		store := c.nodes[0].store
		check(t, store.ChangeReplicas(ctx, 2, withWitness(5, 1, 2, 3, 4)))
		check(t, c.put("a", "2"))
		time.Sleep(2 * time.Second)
		c.apart(3, 4)
		check(t, c.put("a", "3"))
		var behind *kv.UnavailableError
		err := store.ChangeReplicas(ctx, 2, withWitness(6, 1, 2, 3, 4))
		if d := store.Replica(2).Desc(); !errors.As(err, &behind) || witnessOf(d) != 5 || len(d.Replicas) != 5 {
			t.Errorf("the only replica without data that has the write is replaced: %v, %v", err, d)
		}
		c.nodes[0].crash(0)
		c.nodes[1].crash(0)
		c.net.HealAll()
		if v, err := c.get("a"); err != nil || v != "3" {
			t.Errorf("n1 and n2 are lost, and a is %q, %v", v, err)
		}
		check(t, c.put("a", "4"))
		c.nodes[0].start(false)
		c.nodes[1].start(false)
		time.Sleep(5 * time.Second)
		lh := c.leaseholder(2)
		check(t, lh.store.ChangeReplicas(ctx, 2, withWitness(6, 1, 2, 3, 4)))
		if d := lh.store.Replica(2).Desc(); witnessOf(d) != 6 || len(d.Replicas) != 5 {
			t.Errorf("the replicas are %v", d)
		}
		time.Sleep(time.Second) // all have heard that the joint configuration is over, of which the old witness is a voter
		c.nodes[2].crash(0)
		c.nodes[3].crash(0)
		if v, err := c.get("a"); err != nil || v != "4" {
			t.Errorf("n3 and n4 are lost, and a is %q, %v", v, err)
		}
		c.checkLeases()
	})
}

// TestLongLogWithWitness: while n3 and n4 are away, the log of a range with a witness stays, since they need it, until it is longer than 64 MiB: then it goes, and they get
// raft snapshots (the exception in replica.R12).
func TestLongLogWithWitness(t *testing.T) {
	if testing.Short() {
		t.Skip("writes 70 MiB to three stores")
	}
	synctest.Test(t, func(t *testing.T) {
		c := witnessing(t, 5)
		defer c.stop()
		check(t, c.put("a", "1"))
		check(t, c.nodes[0].store.ChangeReplicas(context.Background(), 2, withWitness(5, 1, 2, 3, 4)))
		time.Sleep(2 * time.Second)
		c.nodes[2].crash(0)
		c.nodes[3].crash(0)
		time.Sleep(5 * time.Second) // their liveness records have expired: the log waits for nobody but by replica.R12
		value := strings.Repeat("x", 1<<20)
		status := func(n int) (first uint64, bytes int64) {
			st := c.nodes[n-1].store.Replica(2).Status()
			return st.First, st.LogBytes
		}
		write := func(n int) {
			for i := range n {
				check(t, c.put(fmt.Sprint("k", i), value))
			}
			time.Sleep(5 * time.Second)
		}
		write(2)
		from, _ := status(1)
		write(58)
		for _, n := range []int{1, 5} {
			if first, bytes := status(n); first != from || bytes < 50<<20 {
				t.Errorf("n%d: two voters lack entries, and the log begins at %d instead of %d, and has %d bytes", n, first, from, bytes)
			}
		}
		write(8)
		check(t, c.put("a", "2"))
		for _, n := range []int{1, 5} {
			if first, bytes := status(n); first == from || bytes > 8<<20 {
				t.Errorf("n%d: after 68 MiB the log begins at %d, and has %d bytes", n, first, bytes)
			}
		}
		c.nodes[2].start(false)
		c.nodes[3].start(false)
		time.Sleep(20 * time.Second)
		c.nodes[0].crash(0)
		c.nodes[1].crash(0)
		if v, err := c.get("k57"); err != nil || v != value {
			t.Errorf("n1 and n2 are lost, and k57 has %d bytes, %v", len(v), err)
		}
		if v, err := c.get("a"); err != nil || v != "2" {
			t.Errorf("n1 and n2 are lost, and a is %q, %v", v, err)
		}
	})
}

// TestMergeOfWitnesses: two ranges become one whose witnesses are on different nodes, or where one has a witness and the other has rows. The right one's replicas are brought to
// the kinds of the left one's before.
func TestMergeOfWitnesses(t *testing.T) {
	for name, right := range map[string][]kv.ReplicaTarget{
		"another node":            withWitness(6, 1, 2, 3, 4),
		"rows where a witness is": withWitness(6, 1, 2, 3, 5),
		"no witness":              targets(1, 2, 3, 4, 5),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ns := stackNetwork(t, 6)
				for i, n := range ns {
					n.zones = fourAndWitness{}
					n.start(i == 0)
				}
				defer stopAll(ns)
				ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
				defer cancel()
				time.Sleep(5 * time.Second)
				for _, n := range ns {
					n.store.Load().PauseQueues(true)
				}
				store := ns[0].store.Load()
				check(t, store.ChangeReplicas(ctx, 1, targets(1, 2, 3, 4, 5)))
				check(t, store.ChangeReplicas(ctx, 2, withWitness(6, 1, 2, 3, 4)))
				_, err := ns[0].router.Send(ctx, &kv.Batch{Requests: []kv.Request{&kv.AdminSplitRequest{Key: tkey("k3")}}})
				check(t, err)
				info, ok := store.Lookup(tkey("k3"))
				if !ok || info.Desc.ID == 2 {
					t.Fatalf("not split: %v", &info.Desc)
				}
				check(t, store.ChangeReplicas(ctx, 2, withWitness(5, 1, 2, 3, 4)))
				if _, same := info.Desc.Replica(5); name != "another node" || same {
					check(t, store.ChangeReplicas(ctx, info.Desc.ID, right))
				}
				for i := range 6 {
					check(t, ns[1].db.Put(ctx, tkey(fmt.Sprint("k", i)), fmt.Append(nil, i)))
				}
				check(t, ns[1].merge("k1"))
				d := store.Replica(2).Desc()
				if !d.End.Equal(info.Desc.End) || witnessOf(d) != 5 || len(d.Replicas) != 5 {
					t.Errorf("the merged range is %v", d)
				}
				ns[0].crash()
				ns[1].crash()
				for i := range 6 {
					if v, err := ns[2].db.Get(ctx, tkey(fmt.Sprint("k", i))); err != nil || string(v) != fmt.Sprint(i) {
						t.Errorf("k%d is %q, %v", i, v, err)
					}
				}
			})
		})
	}
}
