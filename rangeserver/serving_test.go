package rangeserver_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"meridian/keys"
	"meridian/kv"
	"meridian/rangeserver"
)

// toyCluster has a range of the toy protocol on three nodes.
func toyCluster(t *testing.T) *cluster {
	c := newCluster(t, 3)
	c.useToy()
	for i, n := range c.nodes {
		n.start(i == 0)
	}
	check(t, c.put("a", "before"))
	check(t, c.nodes[0].store.ChangeReplicas(context.Background(), 2, targets(1, 2, 3)))
	d := c.nodes[0].store.Replica(2).Desc().Clone()
	d.Protocol = toyProtocol
	d.Generation++
	check(t, c.become(d))
	time.Sleep(time.Second)
	return c
}

// TestDispatch: rows are the participant's of the range's protocol, what is range-local is the leader's in every range.
func TestDispatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := toyCluster(t)
		defer c.stop()
		ctx := context.Background()
		c.wantToy(t, "a", "before") // what the leader protocol has left
		check(t, c.toyPut("a", "after"))
		c.wantToy(t, "a", "after")

		var other *kv.ProtocolError
		if err := c.put("a", "x"); !errors.As(err, &other) || other.Protocol != toyProtocol || other.Desc == nil {
			t.Errorf("a write of the leader protocol: %v", err)
		}
		d := c.nodes[0].store.Replica(2).Desc()
		if _, err := c.send(ctx, keys.RangeDescriptorKey(d.Start), &kv.GetRequest{Key: keys.RangeDescriptorKey(d.Start)}); err != nil {
			t.Errorf("a range-local key: %v", err)
		}
		one := func(id kv.RangeID, k keys.Key, p kv.Protocol, generation uint64) error {
			_, err := c.nodes[1].store.Send(ctx, &kv.Batch{Header: kv.Header{RangeID: id, Protocol: p, Generation: generation},
				Requests: []kv.Request{&kv.ProtocolRequest{Key: k, Body: []byte("r")}}})
			return err
		}
		if err := one(2, tkey("a"), toyProtocol+1, d.Generation); !errors.As(err, &other) || other.Protocol != toyProtocol {
			t.Errorf("another protocol: %v", err)
		}
		var g *kv.GenerationError
		for _, wrong := range []uint64{0, d.Generation - 1, d.Generation + 1} {
			if err := one(2, tkey("a"), toyProtocol, wrong); !errors.As(err, &g) || g.Desc.Generation != d.Generation || g.Sealed {
				t.Errorf("generation %d: %v", wrong, err)
			}
		}
		check(t, one(2, tkey("a"), toyProtocol, d.Generation))
	})
}

// TestUnknownProtocol: a node whose binary does not have a range's protocol says so, keeps its replica, and serves what is the
// leader's.
func TestUnknownProtocol(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := toyCluster(t)
		defer c.stop()
		check(t, c.toyPut("a", "1"))
		n := c.nodes[1]
		n.stop()
		n.ignorant = true
		n.start(false)
		time.Sleep(3 * time.Second)
		d := n.store.Replica(2).Desc()
		_, err := n.store.Send(context.Background(), &kv.Batch{Header: kv.Header{RangeID: 2, Protocol: toyProtocol, Generation: d.Generation},
			Requests: []kv.Request{&kv.ProtocolRequest{Key: tkey("a"), Body: []byte("r")}}})
		var un *kv.UnavailableError
		if !errors.As(err, &un) || !strings.Contains(err.Error(), "protocol 64") || !strings.Contains(err.Error(), "node 2") {
			t.Errorf("%v", err)
		}
		check(t, c.toyPut("a", "2")) // the others are a quorum
		check(t, c.nodes[0].store.TransferLease(context.Background(), 2, 2))
		c.wantToy(t, "a", "2")
	})
}

// TestDelta: what was promised is there after a crash, shares the store's sync, and is not in raft's log.
func TestDelta(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := toyCluster(t)
		defer c.stop()
		n := c.nodes[2]
		before := n.store.Replica(2).AppliedIndex()
		for _, k := range []string{"a", "b", "c"} {
			check(t, c.toyPut(k, "promised"))
		}
		if after := n.store.Replica(2).AppliedIndex(); after != before {
			t.Errorf("%d commands", after-before)
		}
		for _, n := range c.nodes {
			n.crash(0)
		}
		for _, n := range c.nodes {
			n.start(false)
		}
		for _, k := range []string{"a", "b", "c"} {
			c.wantToy(t, k, "promised")
		}
		x, done := n.toyAt(2), make(chan bool, 1)
		generation := x.g.Generation().Number
		check(t, x.g.WriteThen(generation, func(d *rangeserver.Delta) { d.Put([]byte("z"), nil) }, func() { done <- true }))
		<-done
		var g *kv.GenerationError
		if err := x.g.WriteThen(generation+1, func(*rangeserver.Delta) { t.Error("asked") }, func() { t.Error("promised") }); !errors.As(err, &g) {
			t.Errorf("%v", err)
		}
	})
}

// TestOneWay: messages between replicas arrive at participants that act in the same generation, and at no others.
func TestOneWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := toyCluster(t)
		defer c.stop()
		from := c.nodes[0].toyAt(2)
		d := from.g.Desc()
		for _, r := range d.Replicas {
			from.g.Send(r, d.Generation, []byte("hello"))
			from.g.Send(r, d.Generation-1, []byte("late"))
			from.g.Send(r, d.Generation, nil)
		}
		time.Sleep(time.Second)
		for i, n := range c.nodes {
			x := n.toyAt(2)
			x.mu.Lock()
			if got, want := strings.Join(x.received, " "), map[bool]string{false: "1:hello 1:"}[i == 0]; got != want {
				t.Errorf("n%d received %q, want %q", n.id, got, want)
			}
			x.mu.Unlock()
		}
	})
}
