package route_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"meridian/keys"
	"meridian/kv"
	"meridian/route"
)

const foreign = kv.FirstForeign

// divided has three ranges on nodes 1 to 3, of which the second is of another protocol, and a gateway on node 2.
func divided(t *testing.T) (*fakeCluster, *route.Sender) {
	h := newHost(t, 1)
	c := newCluster(h, 5)
	c.split(key(0))
	c.split(key(10))
	c.split(key(20))
	c.turn(key(10), foreign)
	return c, c.gateway(2)
}

// turn gives a range another protocol.
func (c *fakeCluster) turn(k keys.Key, p kv.Protocol) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.ranges[c.at(k)]
	r.desc.Protocol = p
	r.desc.Generation++
	c.index(r)
}

func ask(p kv.Protocol, to kv.Target, k keys.Key) *kv.Batch {
	return &kv.Batch{Header: kv.Header{Protocol: p, Target: to}, Requests: []kv.Request{&kv.ProtocolRequest{Key: k, Body: []byte("?")}}}
}

func by(r *kv.BatchResponse) byte { return r.Responses[0].(*kv.ProtocolResponse).Body[0] }

// TestTarget: a batch goes to the replica that it names, or to the nearest that can be reached.
func TestTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := divided(t)
		ctx := context.Background()
		for id := kv.ReplicaID(1); id <= 3; id++ {
			r, err := s.Send(ctx, ask(foreign, kv.ToReplica(id), key(12)))
			if err != nil || by(r) != byte(id) {
				t.Fatalf("replica %d: %v, %v", id, r, err)
			}
		}
		var gone *kv.RangeNotFoundError
		if _, err := s.Send(ctx, ask(foreign, kv.ToReplica(9), key(12))); !errors.As(err, &gone) {
			t.Errorf("a replica that is not there: %v", err)
		}
		if r, err := s.Send(ctx, ask(foreign, kv.ToNearest, key(12))); err != nil || by(r) != 2 {
			t.Errorf("nearest, which is this node: %v, %v", r, err)
		}
		far := c.gateway(0)
		if r, err := far.Send(ctx, ask(foreign, kv.ToNearest, key(12))); err != nil || by(r) != 1 {
			t.Errorf("nearest by latency: %v, %v", r, err)
		}
		c.down[1] = true
		if r, err := far.Send(ctx, ask(foreign, kv.ToNearest, key(12))); err != nil || by(r) != 2 {
			t.Errorf("nearest that is there: %v, %v", r, err)
		}
		var un *kv.UnavailableError
		if _, err := far.Send(ctx, ask(foreign, kv.ToReplica(1), key(12))); !errors.As(err, &un) {
			t.Errorf("one replica, whose node is down: %v", err)
		}
	})
}

// TestEach: every voter of the range is asked, once, in the generation of the descriptor that counts them.
func TestEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := divided(t)
		ctx := context.Background()
		c.ranges[c.at(key(12))].desc.Replicas[2].Type = kv.Learner
		c.ranges[c.at(key(12))].desc.Replicas[1].Type = kv.VoterOutgoing
		c.turn(key(12), foreign)
		var from []kv.NodeID
		all := func(a route.Answer) bool {
			if a.Err != nil || a.Desc.Generation != c.ranges[c.at(key(12))].desc.Generation || by(a.Resp) != byte(a.From.Node) {
				t.Errorf("%+v", a)
			}
			from = append(from, a.From.Node)
			return true
		}
		if err := s.Each(ctx, ask(foreign, kv.Target{}, key(12)), all); err != nil {
			t.Fatal(err)
		}
		if slices.Sort(from); !slices.Equal(from, []kv.NodeID{1, 2}) {
			t.Errorf("asked %v", from)
		}

		// The sender acts in a generation that is over: each says so, and the next time it has the right one.
		c.turn(key(12), foreign)
		heard := 0
		check(t, s.Each(ctx, ask(foreign, kv.Target{}, key(12)), func(a route.Answer) bool {
			var g *kv.GenerationError
			if errors.As(a.Err, &g) {
				heard++
			}
			return true
		}))
		from = nil
		check(t, s.Each(ctx, ask(foreign, kv.Target{}, key(12)), all))
		if heard != 2 || len(from) != 2 {
			t.Errorf("%d were of the old generation, %d of the new one", heard, len(from))
		}

		// A reader that has enough answers does not wait.
		c.delay(time.Second)
		began, n := time.Now(), 0
		check(t, s.Each(ctx, ask(foreign, kv.Target{}, key(12)), func(route.Answer) bool { n++; return false }))
		if n != 1 || time.Since(began) > 0 {
			t.Errorf("%d answers after %s; this node has one at once", n, time.Since(began))
		}
		ctx, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		defer cancel()
		if err := s.Each(ctx, ask(foreign, kv.Target{}, key(12)), func(route.Answer) bool { return true }); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		time.Sleep(5 * time.Second) // nobody is left behind, or the bubble would not end

		two := &kv.Batch{Header: kv.Header{Protocol: foreign}, Requests: []kv.Request{&kv.ProtocolRequest{Key: key(12)}, &kv.ProtocolRequest{Key: key(22)}}}
		var mismatch *kv.RangeMismatchError
		if err := s.Each(context.Background(), two, func(route.Answer) bool { t.Error("asked"); return true }); !errors.As(err, &mismatch) {
			t.Errorf("two ranges: %v", err)
		}
	})
}

// TestForgotten: a gateway that remembers a range where it was long ago, and hears from no quorum of the replicas that it knows, looks the
// range up again: all of them may be dead or gone, and would never say where the range is.
func TestForgotten(t *testing.T) {
	for _, lost := range []string{"dead", "gone", "silent"} {
		t.Run(lost, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, s := divided(t)
				c.place(c.ranges[0], 4, 5) // the index
				each := func() (from []kv.NodeID) {
					ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
					defer cancel()
					_ = s.Each(ctx, ask(foreign, kv.Target{}, key(12)), func(a route.Answer) bool {
						if a.Err == nil {
							from = append(from, a.From.Node)
						}
						return true
					})
					slices.Sort(from)
					return from
				}
				if from := each(); !slices.Equal(from, []kv.NodeID{1, 2, 3}) {
					t.Fatalf("asked %v", from)
				}
				c.mu.Lock()
				c.place(c.ranges[c.at(key(12))], 4, 5)
				for n := range kv.NodeID(3) {
					c.down[n+1] = lost == "dead"
				}
				c.mu.Unlock()
				if lost == "silent" {
					c.delay(2 * time.Minute)
				}
				each()
				c.delay(0)
				if from := each(); !slices.Equal(from, []kv.NodeID{4, 5}) {
					t.Errorf("asked %v", from)
				}
				if lost == "silent" {
					time.Sleep(10 * time.Minute)
				}
			})
		})
	}
	t.Run("one replica", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c, s := divided(t)
			ctx := context.Background()
			if _, err := s.Send(ctx, ask(foreign, kv.ToReplica(1), key(12))); err != nil {
				t.Fatal(err)
			}
			c.mu.Lock()
			r := c.ranges[c.at(key(12))]
			c.place(r, 4, 5)
			c.mu.Unlock()
			for _, id := range []kv.ReplicaID{r.desc.Replicas[0].Replica, 1} {
				if _, err := s.Send(ctx, ask(foreign, kv.ToReplica(id), key(12))); err == nil {
					t.Errorf("replica %d answers, which is not known, or gone", id)
				}
				if b, err := s.Send(ctx, ask(foreign, kv.ToReplica(r.desc.Replicas[1].Replica), key(12))); err != nil || by(b) != 5 {
					t.Errorf("after replica %d: %v", id, err)
				}
				c.mu.Lock()
				c.place(r, 4, 5)
				c.mu.Unlock()
			}
		})
	})
}

// TestOtherProtocol: a batch with rows of another protocol's range is refused before any part of it is done, and what the range has
// become is known afterwards.
func TestOtherProtocol(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := divided(t)
		ctx := context.Background()
		var other *kv.ProtocolError
		put := func(n int) *kv.PutRequest { return &kv.PutRequest{Key: key(n), Value: []byte("v")} }
		served := 0
		for range 2 { // the index tells the first time
			_, err := s.Send(ctx, &kv.Batch{Requests: []kv.Request{put(2), put(12), put(22)}})
			if !errors.As(err, &other) || other.Protocol != foreign || other.Desc == nil {
				t.Fatalf("%v", err)
			}
			if served = c.seen["put"]; served != 0 {
				t.Fatalf("%d writes were done", served)
			}
		}
		if _, err := s.Send(ctx, &kv.Batch{Requests: []kv.Request{put(12)}}); !errors.As(err, &other) {
			t.Errorf("one range: %v", err)
		}
		// A request that is not about rows goes to the leaseholder, whatever the protocol.
		if _, err := s.Send(ctx, &kv.Batch{Requests: []kv.Request{&kv.RangeInfoRequest{Key: key(12)}}}); err != nil {
			t.Error(err)
		}
		c.turn(key(12), kv.Leader)
		if _, err := s.Send(ctx, ask(foreign, kv.ToNearest, key(12))); !errors.As(err, &other) || other.Protocol != kv.Leader {
			t.Errorf("%v", err)
		}
		if _, err := s.Send(ctx, &kv.Batch{Header: kv.Header{Txn: &kv.Txn{}}, Requests: []kv.Request{put(2), put(12), put(22)}}); err != nil {
			t.Error(err)
		}
	})
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
