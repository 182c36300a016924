package rangeserver_test

import (
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/raft/v3/raftpb"

	"meridian/keys"
	"meridian/kv"
	"meridian/replica"
)

// TestAbandoned: a replica that is spoken to, and never comes to be, stays for as long as somebody speaks to it. Its votes outlive it.
func TestAbandoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2)
		c.interval = time.Second
		c.nodes[0].start(true)
		c.nodes[1].start(false)
		defer c.stop()
		const gone = kv.RangeID(99)
		from, to := kv.ReplicaDescriptor{Node: 1, Store: 1, Replica: 3}, kv.ReplicaDescriptor{Node: 2, Store: 2, Replica: 7}
		say := func(typ raftpb.MessageType, term uint64) {
			c.nodes[0].store.SendRaft(replica.Message{Range: gone, From: from, To: to, Raft: &raftpb.Message{Type: typ.Enum(),
				From: new(uint64(from.Replica)), To: new(uint64(to.Replica)), Term: new(term), Index: new(uint64(100)), LogTerm: new(term)}})
			time.Sleep(time.Second)
		}
		here := func() int { return c.nodes[1].store.Gauges().Uninitialised }
		say(raftpb.MsgVote, 6)
		for range 100 {
			if say(raftpb.MsgHeartbeat, 6); here() != 1 {
				t.Fatalf("%d uninitialised replicas, want one", here())
			}
		}
		time.Sleep(50 * time.Second)
		if here() != 1 {
			t.Fatal("it went too early")
		}
		time.Sleep(15 * time.Second)
		if here() != 0 {
			t.Fatal("it is still there")
		}
		if v, err := c.nodes[1].engine.Get(keys.HardStateKey(gone)); err != nil || v == nil {
			t.Fatalf("its vote is gone: %v", err)
		}
		if say(raftpb.MsgHeartbeat, 6); here() != 1 {
			t.Fatal("it does not come back")
		}
		if term := c.nodes[1].store.Replica(gone).Status().Term; term != 6 {
			t.Fatalf("it has come back at term %d", term)
		}
	})
}
