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

// TestNonVoters: replicas that follow and never vote are added, promoted and demoted; without them everything goes on,
// and they make no quorum.
func TestNonVoters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := running(t, 5)
		defer c.stop()
		ctx := context.Background()
		want := func(voters []int, others ...int) []kv.ReplicaTarget {
			ts := targets(voters...)
			for _, id := range others {
				ts = append(ts, kv.ReplicaTarget{Node: kv.NodeID(id), Store: kv.StoreID(id), Type: kv.NonVoter})
			}
			return ts
		}
		is := func(text string) {
			t.Helper()
			d := c.leaseholder(2).store.Replica(2).Desc()
			got := ""
			for id := kv.NodeID(1); id <= 5; id++ {
				if r, ok := d.Replica(id); ok {
					got += fmt.Sprintf(" n%d:%d", id, r.Type)
				}
			}
			if got != text {
				t.Errorf("the replicas are%s, want%s", got, text)
			}
		}
		check(t, c.put("a", "1"))
		check(t, c.nodes[0].store.ChangeReplicas(ctx, 2, want([]int{1, 2, 3}, 4, 5)))
		is(" n1:0 n2:0 n3:0 n4:1 n5:1")
		if err := c.nodes[0].store.TransferLease(ctx, 2, 4); err == nil {
			t.Error("a non-voter got the lease")
		}
		time.Sleep(5 * time.Second)
		for _, id := range []int{3, 4} {
			r := c.nodes[id].store.Replica(2)
			if !r.Quiesced() || r.Stats() != c.nodes[0].store.Replica(2).Stats() {
				t.Errorf("n%d: asleep %v, has %+v", id+1, r.Quiesced(), r.Stats())
			}
		}
		// In one step: n4 comes to vote, n3 stays without a vote, n5 goes.
		check(t, c.nodes[0].store.ChangeReplicas(ctx, 2, want([]int{1, 2, 4}, 3)))
		is(" n1:0 n2:0 n3:1 n4:0")
		check(t, c.put("a", "2"))
		// And one change alone, which needs no joint configuration: first n3 votes again, then n4 does not.
		check(t, c.nodes[0].store.ChangeReplicas(ctx, 2, want([]int{1, 2, 3, 4})))
		is(" n1:0 n2:0 n3:0 n4:0")
		check(t, c.nodes[0].store.ChangeReplicas(ctx, 2, want([]int{1, 2, 3}, 4)))
		is(" n1:0 n2:0 n3:0 n4:1")
		// Three voters are asked for (placement.P2): they do not become two, whoever asks.
		var fewer *kv.UnavailableError
		if err := c.nodes[0].store.ChangeReplicas(ctx, 2, want([]int{1, 2}, 3, 4)); !errors.As(err, &fewer) {
			t.Errorf("two voters of three: %v", err)
		}
		is(" n1:0 n2:0 n3:0 n4:1")
		check(t, c.nodes[0].store.ChangeReplicas(ctx, 2, want([]int{1, 2, 4}, 3, 5)))
		is(" n1:0 n2:0 n3:1 n4:0 n5:1")
		c.nodes[2].crash(0)
		c.nodes[4].crash(0)
		check(t, c.put("a", "3")) // both non-voters are away
		c.nodes[2].start(false)
		c.nodes[4].start(false)
		time.Sleep(5 * time.Second)
		check(t, c.put("a", "4"))
		c.nodes[1].crash(0)
		c.nodes[3].crash(0) // two of three voters are away
		short, cancel := context.WithTimeout(ctx, 8*time.Second)
		defer cancel()
		if _, err := c.send(short, tkey("a"), &kv.PutRequest{Key: tkey("a"), Value: []byte("5")}); err == nil {
			t.Error("non-voters made a quorum")
		}
		c.nodes[1].start(false)
		time.Sleep(10 * time.Second)
		check(t, c.put("a", "6"))
		c.checkLeases()
	})
}
