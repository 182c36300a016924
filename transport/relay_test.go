package transport_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"meridian/kv"
	"meridian/sim"
	"meridian/transport"
)

// near makes n nodes in one region, which answer "echo".
func near(t *testing.T, n int, f func(t *testing.T, c *net3), edit ...func(*transport.Options)) {
	synctest.Test(t, func(t *testing.T) {
		c := &net3{t: t, net: sim.NewNetwork(sim.NetworkOptions{LocalRTT: 2 * ms}), nodes: map[kv.NodeID]*node{}, addrs: map[kv.NodeID]string{}}
		for i := range n {
			id := kv.NodeID(i + 1)
			name := fmt.Sprintf("n%d", id)
			nd := &node{id: id, name: name, machine: sim.NewMachine(sim.MachineOptions{Name: name, Region: "here", Network: c.net, Seed: 1}), cluster: [16]byte{1}}
			c.nodes[id] = nd
			c.addrs[id] = name + ":26257"
			c.start(nd, edit...)
		}
		// As the pings of membership do.
		for _, a := range c.nodes {
			for _, b := range c.nodes {
				if a != b {
					if _, err := a.CallClass(t.Context(), transport.ClassSystem, b.id, "echo", nil); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		defer func() {
			for _, n := range c.nodes {
				n.host.Group.Stop()
			}
		}()
		f(t, c)
	})
}

func (c *net3) cut(a, b kv.NodeID) { c.net.Partition(c.nodes[a].name, c.nodes[b].name) }

// served waits until a call is answered, and returns how long that took.
func (n *node) served(t *testing.T, to kv.NodeID) time.Duration {
	t.Helper()
	start := time.Now()
	for {
		got, err := n.Call(t.Context(), to, "echo", []byte("hi"))
		if want := fmt.Sprintf("n%d to n%d: hi", n.id, to); err == nil && string(got) == want {
			return time.Since(start)
		} else if err == nil {
			t.Fatalf("%q, want %q", got, want)
		}
		if time.Since(start) > time.Minute {
			t.Fatalf("n%d to n%d: %v", n.id, to, err)
		}
		time.Sleep(20 * ms)
	}
}

// TestRelay: a link is cut, both ways or one way; within three seconds calls go by way of the third node, under the name of the
// node that made them, and by the link again when it is back (transport.T6).
func TestRelay(t *testing.T) {
	for _, cut := range []func(c *net3){
		func(c *net3) { c.cut(1, 2) },
		func(c *net3) { c.net.PartitionOneWay("n1", "n2") },
		func(c *net3) { c.net.PartitionOneWay("n2", "n1") },
	} {
		near(t, 3, func(t *testing.T, c *net3) {
			n1, n2, n3 := c.nodes[1], c.nodes[2], c.nodes[3]
			n1.echo(t, 2)
			for range 3 {
				cut(c)
				if d := n1.served(t, 2); d > 3*time.Second {
					t.Errorf("n1 reached n2 after %s", d)
				}
				if d := n2.served(t, 1); d > 3*time.Second {
					t.Errorf("n2 reached n1 after %s", d)
				}
				took(t, 4*ms, "by way of n3", func() { n1.echo(t, 2) })
				// A class that was not used before need not wait for its first attempt to connect to fail.
				if _, err := n1.CallClass(t.Context(), transport.ClassBulk, 2, "echo", nil); err != nil {
					t.Error(err)
				}
				relayed := n1.Stats().Relayed
				if relayed == 0 || n3.Stats().Forwarded == 0 {
					t.Errorf("%+v", n3.Stats())
				}
				c.net.HealAll()
				time.Sleep(5 * time.Second)
				took(t, 2*ms, "by the link", func() { n1.echo(t, 2) })
				if got := n1.Stats().Relayed; got != relayed {
					t.Errorf("%d calls took a path while there was a link", got-relayed)
				}
			}
			// Nobody reaches a node that is gone: calls fail at once (transport.T1).
			n2.machine.Crash(0, false)
			time.Sleep(5 * time.Second)
			took(t, 0, "a call to nobody", func() {
				var u *transport.UnreachableError
				if _, err := n1.Call(t.Context(), 2, "echo", nil); !errors.As(err, &u) || u.Sent {
					t.Error(err)
				}
			})
		})
	}
}

// TestRelayChain: of five nodes each reaches its neighbours only, and yet all others.
func TestRelayChain(t *testing.T) {
	near(t, 5, func(t *testing.T, c *net3) {
		for a := kv.NodeID(1); a <= 5; a++ {
			for b := a + 2; b <= 5; b++ {
				c.cut(a, b)
			}
		}
		start := time.Now()
		for a := kv.NodeID(1); a <= 5; a++ {
			for b := kv.NodeID(1); b <= 5; b++ {
				c.nodes[a].served(t, b)
			}
		}
		if d := time.Since(start); d > 4500*ms {
			t.Errorf("all reach all after %s", d)
		}
		took(t, 8*ms, "from end to end", func() { c.nodes[1].echo(t, 5) })
		// The chain breaks. The path must not be believed for ever by nodes that tell each other of it.
		c.cut(3, 4)
		time.Sleep(10 * time.Second)
		took(t, 0, "to the other half", func() {
			var u *transport.UnreachableError
			if _, err := c.nodes[1].Call(t.Context(), 5, "echo", nil); !errors.As(err, &u) || u.Sent {
				t.Error(err)
			}
		})
	})
}

// TestRelayBound: a path has no more nodes than it may have.
func TestRelayBound(t *testing.T) {
	near(t, 4, func(t *testing.T, c *net3) {
		c.cut(1, 3)
		c.cut(1, 4)
		c.cut(2, 4)
		time.Sleep(6 * time.Second)
		if _, err := c.nodes[1].Call(t.Context(), 3, "echo", nil); err != nil {
			t.Error(err)
		}
		if _, err := c.nodes[1].Call(t.Context(), 4, "echo", nil); err == nil {
			t.Error("two nodes on the way")
		}
	}, func(o *transport.Options) { o.MaxRelays = 1 })
}

// TestRelaySent: what is known of a request that a broken path has lost (transport.T2), and of one that its handler refused.
func TestRelaySent(t *testing.T) {
	near(t, 3, func(t *testing.T, c *net3) {
		n1, n2, n3 := c.nodes[1], c.nodes[2], c.nodes[3]
		work, canceled := make(chan struct{}, 1), make(chan struct{}, 1)
		n2.Handle("work", func(ctx context.Context, _ kv.NodeID, _ []byte) ([]byte, error) {
			work <- struct{}{}
			<-ctx.Done()
			canceled <- struct{}{}
			return nil, ctx.Err()
		})
		n2.Handle("refuse", func(context.Context, kv.NodeID, []byte) ([]byte, error) {
			return nil, &transport.StatusError{Code: transport.CodeApplication + 7, Message: "no", Detail: []byte("d")}
		})
		c.cut(1, 2)
		n1.served(t, 2)

		var s *transport.StatusError
		if _, err := n1.Call(t.Context(), 2, "refuse", nil); !errors.As(err, &s) || s.Code != transport.CodeApplication+7 || string(s.Detail) != "d" {
			t.Error(err)
		}
		if _, err := n1.Call(t.Context(), 2, "nothing", nil); !errors.As(err, &s) || s.Code != transport.CodeNoMethod {
			t.Error(err)
		}
		if _, err := n1.Call(t.Context(), 2, "transport.relay", nil); !errors.As(err, &s) || s.Code != transport.CodeNoMethod {
			t.Error(err)
		}
		big := make([]byte, 64<<20)
		if got, err := n1.Call(t.Context(), 2, "echo", big[:63<<20]); err != nil || len(got) < 63<<20 {
			t.Error(len(got), err)
		}

		// The caller gives up: so does the handler (transport.T4).
		ctx, cancel := context.WithCancel(t.Context())
		go func() { <-work; cancel() }()
		if _, err := n1.Call(ctx, 2, "work", nil); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		<-canceled

		// The second half of the path breaks while the handler works: it may have done it.
		go func() { <-work; c.net.Reset("n2", "n3") }()
		var u *transport.UnreachableError
		if _, err := n1.Call(t.Context(), 2, "work", nil); !errors.As(err, &u) || !u.Sent || u.Node != 2 {
			t.Error(err)
		}
		<-canceled
		n1.served(t, 2)
		// The same of the first half.
		go func() { <-work; c.net.Reset("n1", "n3") }()
		if _, err := n1.Call(t.Context(), 2, "work", nil); !errors.As(err, &u) || !u.Sent || u.Node != 2 {
			t.Error(err)
		}
		<-canceled
		n1.served(t, 2)
		// The second half is broken before: the request can't have arrived.
		n2.machine.Crash(0, false)
		time.Sleep(5 * ms)
		if _, err := n1.Call(t.Context(), 2, "work", nil); !errors.As(err, &u) || u.Sent {
			t.Error(err)
		}
		_ = n3
	})
}

// TestRelayStream: streams take a path too, say how they ended, and those that last end when the link is back.
func TestRelayStream(t *testing.T) {
	near(t, 3, func(t *testing.T, c *net3) {
		n1, n2 := c.nodes[1], c.nodes[2]
		n2.HandleStream("double", func(_ context.Context, from kv.NodeID, s transport.Stream) error {
			for {
				b, err := s.Recv()
				if err == io.EOF {
					return &transport.StatusError{Code: transport.CodeApplication, Message: fmt.Sprintf("n%d had enough", from)}
				}
				if err != nil {
					return err
				}
				if err := s.Send(append(b, b...)); err != nil {
					return err
				}
			}
		})
		c.cut(1, 2)
		time.Sleep(3 * time.Second)
		open := func(class transport.Class) transport.Stream {
			s, err := n1.OpenStreamClass(t.Context(), class, 2, "double")
			if err != nil {
				t.Fatal(err)
			}
			for range 100 {
				if err := s.Send([]byte("ab")); err != nil {
					t.Fatal(err)
				}
				if b, err := s.Recv(); err != nil || !bytes.Equal(b, []byte("abab")) {
					t.Fatalf("%q %v", b, err)
				}
			}
			return s
		}
		s := open(transport.ClassSystem)
		s.CloseSend()
		var status *transport.StatusError
		if _, err := s.Recv(); !errors.As(err, &status) || status.Message != "n1 had enough" {
			t.Error(err)
		}
		lasting, bulk := open(transport.ClassSystem), open(transport.ClassBulk)
		c.net.HealAll()
		time.Sleep(5 * time.Second)
		var u *transport.UnreachableError
		if err := lasting.Send([]byte("ab")); !errors.As(err, &u) || u.Node != 2 {
			t.Errorf("after the link was back: %v", err)
		}
		if err := bulk.Send([]byte("cd")); err != nil {
			t.Errorf("a transfer: %v", err)
		}
		if b, err := bulk.Recv(); err != nil || string(b) != "cdcd" {
			t.Errorf("%q %v", b, err)
		}
		// A path that breaks ends its streams.
		c.cut(1, 2)
		time.Sleep(3 * time.Second)
		s = open(transport.ClassSystem)
		c.net.Reset("n2", "n3")
		if _, err := s.Recv(); !errors.As(err, &u) || u.Node != 2 || !u.Sent {
			t.Error(err)
		}
	})
}

// TestRelayAndAWrongClock: the clock of the node on the way is wrong. It refuses what it is to relay, or is refused, and that says nothing of the node at the
// end of the path, whose clock is right (transport.T8).
func TestRelayAndAWrongClock(t *testing.T) {
	for _, offset := range []time.Duration{-10 * time.Second, 10 * time.Second} {
		near(t, 3, func(t *testing.T, c *net3) {
			n1, n2 := c.nodes[1], c.nodes[2]
			n2.HandleStream("wait", func(_ context.Context, _ kv.NodeID, s transport.Stream) error {
				_, err := s.Recv()
				return err
			})
			c.cut(1, 2)
			n1.served(t, 2)
			var streams []transport.Stream
			for range 2 {
				s, err := n1.OpenStreamClass(t.Context(), transport.ClassBulk, 2, "wait")
				if err != nil {
					t.Fatal(err)
				}
				streams = append(streams, s)
			}
			time.Sleep(10 * ms)
			c.nodes[3].machine.Clock.Jump(offset)
			blames := func(what string, err error) {
				t.Helper()
				var u *transport.UnreachableError
				if !errors.As(err, &u) || u.Node != 2 || errors.As(err, new(*transport.OffsetError)) {
					t.Errorf("%s, with a clock on the way that is off by %s: %v", what, offset, err)
				}
			}
			_, err := n1.Call(t.Context(), 2, "echo", nil)
			blames("a call", err)
			streams[0].Send(nil)
			_, err = streams[0].Recv()
			blames("a stream to which something is sent", err)
			streams[1].CloseSend()
			_, err = streams[1].Recv()
			blames("a stream that ends", err)
			// The node on the way is to blame, and is blamed.
			var o *transport.OffsetError
			if _, err := n1.Call(t.Context(), 3, "echo", nil); !errors.As(err, &o) || o.Node != 3 {
				t.Error(err)
			}
		})
	}
}

// TestWrongClockBeyondThePath: the clock at the end of the path is wrong, so the node on the way refuses it, or is refused.
func TestWrongClockBeyondThePath(t *testing.T) {
	for _, offset := range []time.Duration{-10 * time.Second, 10 * time.Second} {
		near(t, 3, func(t *testing.T, c *net3) {
			n1, n2 := c.nodes[1], c.nodes[2]
			n2.HandleStream("wait", func(_ context.Context, _ kv.NodeID, s transport.Stream) error {
				b, err := s.Recv()
				if err == nil {
					err = s.Send(b)
				}
				return err
			})
			c.cut(1, 2)
			n1.served(t, 2)
			s, err := n1.OpenStreamClass(t.Context(), transport.ClassBulk, 2, "wait")
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * ms)
			n2.machine.Clock.Jump(offset)
			var u *transport.UnreachableError
			if _, err := n1.Call(t.Context(), 2, "echo", nil); !errors.As(err, &u) || u.Node != 2 {
				t.Errorf("a call: %v", err)
			}
			s.Send(nil)
			if _, err = s.Recv(); !errors.As(err, &u) || u.Node != 2 {
				t.Errorf("a stream: %v", err)
			}
			n1.echo(t, 3)
		})
	}
}

// TestNoFalseAlarm: a link of 300 ms with as much jitter is slow, and neither dead nor avoided.
func TestNoFalseAlarm(t *testing.T) {
	near(t, 3, func(t *testing.T, c *net3) {
		for _, a := range []string{"n1", "n2"} {
			c.net.Slow(a, map[string]string{"n1": "n2", "n2": "n1"}[a], 150*ms)
		}
		n1 := c.nodes[1]
		for i := range 600 {
			if i%20 == 0 {
				c.net.Slow("n1", "n2", time.Duration(150+i%100)*ms*3/2)
			}
			n1.echo(t, 2)
			time.Sleep(time.Duration(i%7) * 400 * ms)
		}
		if s := n1.Stats(); s.LinkFailures != 0 || s.Relayed != 0 {
			t.Errorf("%+v", s)
		}
	})
}
