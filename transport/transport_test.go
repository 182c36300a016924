package transport_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"meridian/clock"
	"meridian/host"
	"meridian/host/machine"
	"meridian/invariant"
	"meridian/kv"
	"meridian/sim"
	"meridian/transport"
	"meridian/version"
)

const ms = time.Millisecond

type node struct {
	said atomic.Pointer[version.Said]
	*transport.Transport
	id      kv.NodeID
	name    string
	machine *sim.Machine
	host    *host.Host
	clock   *clock.Clock
	cluster [16]byte
}

type net3 struct {
	t     *testing.T
	net   *sim.Network
	nodes map[kv.NodeID]*node
	mu    sync.Mutex
	addrs map[kv.NodeID]string
}

// bubble runs f in virtual time with nodes 1 (us-east1), 2 (us-west1) and 3 (europe-west1), which answer "echo".
func bubble(t *testing.T, f func(t *testing.T, c *net3), edit ...func(*transport.Options)) {
	synctest.Test(t, func(t *testing.T) {
		regions := sim.ThreeRegions()
		c := &net3{t: t, net: sim.NewNetwork(sim.NetworkOptions{Regions: regions}), nodes: map[kv.NodeID]*node{}, addrs: map[kv.NodeID]string{}}
		for i, r := range regions.Names {
			id := kv.NodeID(i + 1)
			name := fmt.Sprintf("n%d", id)
			n := &node{id: id, name: name, machine: sim.NewMachine(sim.MachineOptions{Name: name, Region: r, Network: c.net, Seed: 1}), cluster: [16]byte{1}}
			c.nodes[id] = n
			c.addrs[id] = name + ":26257"
			c.start(n, edit...)
		}
		f(t, c)
		for _, n := range c.nodes {
			n.host.Group.Stop()
		}
	})
}

func (c *net3) start(n *node, edit ...func(*transport.Options)) {
	n.host = n.machine.Boot(context.Background())
	n.clock = clock.New(n.host.Clock, 500*ms)
	o := transport.Options{
		Host: n.host, Clock: n.clock,
		NodeID:    func() kv.NodeID { return n.id },
		ClusterID: func() [16]byte { return n.cluster },
		Said: func() version.Said {
			if said := n.said.Load(); said != nil {
				return *said
			}
			return version.Said{}
		},
		Resolve: func(id kv.NodeID) (string, bool) {
			c.mu.Lock()
			defer c.mu.Unlock()
			a, ok := c.addrs[id]
			return a, ok
		},
	}
	for _, e := range edit {
		e(&o)
	}
	n.Transport = transport.New(o)
	n.Handle("echo", func(_ context.Context, from kv.NodeID, req []byte) ([]byte, error) {
		return append([]byte(fmt.Sprintf("n%d to n%d: ", from, n.id)), req...), nil
	})
	l, err := n.host.Network.Listen(n.name + ":26257")
	if err != nil {
		c.t.Fatal(err)
	}
	n.host.Group.Go(func(context.Context) { n.Serve(l) })
}

func took(t *testing.T, want time.Duration, what string, f func()) {
	t.Helper()
	start := time.Now()
	f()
	if d := time.Since(start); d != want {
		t.Errorf("%s took %s, want %s", what, d, want)
	}
}

func (n *node) echo(t *testing.T, to kv.NodeID) {
	t.Helper()
	got, err := n.Call(t.Context(), to, "echo", []byte("hi"))
	if want := fmt.Sprintf("n%d to n%d: hi", n.id, to); err != nil || string(got) != want {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
}

func TestCallTakesOneRoundTrip(t *testing.T) {
	bubble(t, func(t *testing.T, c *net3) {
		n1 := c.nodes[1]
		n1.echo(t, 3) // connects
		for range 100 {
			took(t, 87*ms, "call to europe", func() { n1.echo(t, 3) })
		}
		took(t, 0, "call to itself", func() { n1.echo(t, 1) })
		took(t, 87*ms, "a hundred calls at once", func() {
			var wg sync.WaitGroup
			for range 100 {
				wg.Go(func() { n1.echo(t, 3) })
			}
			wg.Wait()
		})
		if s := n1.Stats(); s.Calls != 201 || s.LocalCalls != 1 {
			t.Errorf("%+v", s)
		}
		// A large message takes one round trip as well: the windows are wider than the link is long.
		big := make([]byte, 4<<20)
		n1.Call(t.Context(), 3, "echo", big)
		took(t, 87*ms, "4 MiB there and back", func() {
			if got, err := n1.Call(t.Context(), 3, "echo", big); err != nil || len(got) < len(big) {
				t.Error(len(got), err)
			}
		})
	})
}

// TestFirstCallOfAClass: the first call of a class takes one round trip, if the system has a link to the node (transport.T11). A large one waits for a link of its own, and so does one to a node that the
// system has no link to.
func TestFirstCallOfAClass(t *testing.T) {
	bubble(t, func(t *testing.T, c *net3) {
		n1 := c.nodes[1]
		system := func(to kv.NodeID) {
			if _, err := n1.CallClass(t.Context(), transport.ClassSystem, to, "echo", nil); err != nil {
				t.Fatal(err)
			}
		}
		system(3)
		took(t, 87*ms, "the first call", func() { n1.echo(t, 3) })
		took(t, 87*ms, "one while the link is being made", func() { n1.echo(t, 3) })
		time.Sleep(time.Second)
		took(t, 87*ms, "one on the link", func() { n1.echo(t, 3) })
		up := 0
		for _, p := range n1.Peers() {
			if p.Up {
				up++
			}
		}
		if up != 2 {
			t.Errorf("%d links, want those of two classes: %+v", up, n1.Peers())
		}
		took(t, 3*87*ms, "a large call", func() {
			if _, err := n1.CallClass(t.Context(), transport.ClassBulk, 3, "echo", make([]byte, 1<<20)); err != nil {
				t.Error(err)
			}
		})
		took(t, 3*63*ms, "a call without another link", func() { n1.echo(t, 2) })
		// A link that was lost is not replaced by another class's (transport.T1).
		var u *transport.UnreachableError
		c.net.Isolate("n3")
		time.Sleep(5 * time.Second)
		if _, err := n1.Call(t.Context(), 3, "echo", nil); !errors.As(err, &u) || u.Sent {
			t.Error(err)
		}
	})
}

func TestDeadPeerIsNoticedAndComesBack(t *testing.T) {
	bubble(t, func(t *testing.T, c *net3) {
		n1 := c.nodes[1]
		n1.echo(t, 3)
		block := make(chan struct{})
		c.nodes[3].Handle("block", func(ctx context.Context, _ kv.NodeID, _ []byte) ([]byte, error) {
			select {
			case <-block:
			case <-ctx.Done():
			}
			return nil, ctx.Err()
		})
		c.net.Isolate("n3")
		start := time.Now()
		_, err := n1.Call(t.Context(), 3, "block", nil)
		var u *transport.UnreachableError
		if !errors.As(err, &u) || !u.Sent || u.Node != 3 {
			t.Fatalf("%v", err)
		}
		if d := time.Since(start); d > 3*time.Second || d < time.Second {
			t.Errorf("silence was noticed after %s", d)
		}
		// Known to be down: fails at once, and nothing was sent (transport.T1, transport.T2).
		took(t, 0, "call to a peer that is down", func() {
			_, err := n1.Call(t.Context(), 3, "echo", nil)
			if !errors.As(err, &u) || u.Sent {
				t.Error(err)
			}
		})
		time.Sleep(time.Hour)
		c.net.Rejoin("n3")
		time.Sleep(5 * time.Second)
		took(t, 87*ms, "call after the partition", func() { n1.echo(t, 3) })
	})
}

// TestNumberComesLater: a node that has called others before it had a number is known by it afterwards (transport.T10), and two of them are not taken for one.
func TestNumberComesLater(t *testing.T) {
	var joined atomic.Bool
	bubble(t, func(t *testing.T, c *net3) {
		for id := kv.NodeID(2); id <= 3; id++ {
			got, err := c.nodes[id].Call(t.Context(), 1, "echo", nil)
			if err != nil || string(got) != "n0 to n1: " {
				t.Fatalf("%q, %v", got, err)
			}
		}
		joined.Store(true)
		time.Sleep(time.Second)
		c.nodes[2].echo(t, 1)
		c.nodes[3].echo(t, 1)
	}, func(o *transport.Options) {
		id := o.NodeID
		o.NodeID = func() kv.NodeID {
			if n := id(); n == 1 || joined.Load() {
				return n
			}
			return 0
		}
	})
}

func TestOneWayPartitionIsNoticed(t *testing.T) {
	for _, dir := range [][2]string{{"n1", "n3"}, {"n3", "n1"}} {
		bubble(t, func(t *testing.T, c *net3) {
			n1 := c.nodes[1]
			n1.echo(t, 3)
			c.net.PartitionOneWay(dir[0], dir[1])
			start := time.Now()
			if _, err := n1.Call(t.Context(), 3, "echo", nil); err == nil {
				t.Error("answered through a partition")
			}
			if d := time.Since(start); d > 3*time.Second {
				t.Errorf("%v: noticed after %s", dir, d)
			}
		})
	}
}

func TestKilledPeerIsNoticedAtOnceAndRestarts(t *testing.T) {
	bubble(t, func(t *testing.T, c *net3) {
		n1, n3 := c.nodes[1], c.nodes[3]
		n1.echo(t, 3)
		n3.machine.Crash(0, false)
		n3.host.Group.Stop()
		time.Sleep(100 * ms)
		if _, err := n1.Call(t.Context(), 3, "echo", nil); !errors.As(err, new(*transport.UnreachableError)) {
			t.Error(err)
		}
		time.Sleep(10 * time.Second)
		_, err := n1.Call(t.Context(), 3, "echo", nil)
		if !errors.Is(err, syscall.ECONNREFUSED) {
			t.Error(err)
		}
		c.start(n3)
		time.Sleep(3 * time.Second)
		n1.echo(t, 3)
		n3.echo(t, 1)
	})
}

func TestSlowLinkIsNotDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &net3{t: t, net: sim.NewNetwork(sim.NetworkOptions{Regions: sim.ThreeRegions(), BytesPerSecond: 2 << 20}), nodes: map[kv.NodeID]*node{}, addrs: map[kv.NodeID]string{}}
		for id, r := range map[kv.NodeID]string{1: "us-east1", 2: "us-west1"} {
			name := fmt.Sprintf("n%d", id)
			n := &node{id: id, name: name, machine: sim.NewMachine(sim.MachineOptions{Name: name, Region: r, Network: c.net})}
			c.nodes[id], c.addrs[id] = n, name+":26257"
			c.start(n)
		}
		// Four seconds there and four back: a ping may stand behind both, within pongLimit.
		if got, err := c.nodes[1].Call(t.Context(), 2, "echo", make([]byte, 8<<20)); err != nil {
			t.Error(len(got), err)
		}
		for _, n := range c.nodes {
			n.host.Group.Stop()
		}
	})
}

// TestVersions: two nodes of which one can't act by the other's version, or does not work in so old a cluster, do not talk, whoever of them
// calls; both are told which binary has to be changed. Others do, whatever their binaries.
func TestVersions(t *testing.T) {
	said := func(own, oldest, acting uint16) *version.Said {
		v := func(minor uint16) version.Version { return version.Version{Minor: minor} }
		return &version.Said{Binary: version.Binary{Own: v(own), Oldest: v(oldest)}, Acting: v(acting)}
	}
	for _, c := range []struct {
		n1, n2     *version.Said
		at1, at2   string // what each of them hears when it calls; empty: an answer
		old, newer bool
	}{
		{n1: said(1, 1, 1), n2: said(2, 1, 1)},
		{n1: said(2, 1, 2), n2: said(2, 1, 1)},
		{n1: said(1, 1, 1), n2: said(2, 1, 0)},
		{n1: said(1, 1, 1), n2: said(2, 1, 2), at1: "the binary of this node is too old", at2: "the binary of n1 is too old", old: true},
		{n1: said(1, 1, 1), n2: said(3, 2, 0), at1: "the binary of n2 is too new", at2: "the binary of this node is too new", newer: true},
	} {
		bubble(t, func(t *testing.T, n *net3) {
			n1, n2 := n.nodes[1], n.nodes[2]
			n1.said.Store(c.n1)
			n2.said.Store(c.n2)
			for _, x := range []struct {
				from *node
				to   kv.NodeID
				want string
			}{{n1, 2, c.at1}, {n2, 1, c.at2}} {
				_, err := x.from.Call(t.Context(), x.to, "echo", nil)
				if x.want == "" {
					if err != nil {
						t.Errorf("%v and %v: %v", c.n1, c.n2, err)
					}
					continue
				}
				var v *transport.VersionError
				if !errors.As(err, &v) || !strings.HasPrefix(v.Error(), x.want) || v.Node != x.to ||
					errors.As(err, new(*version.TooOldError)) != c.old || errors.As(err, new(*version.TooNewError)) != c.newer {
					t.Errorf("n%d of %v calls n%d of %v: %v; want %q", x.from.id, c.n1, x.to, c.n2, err, x.want)
				}
			}
		}, func(o *transport.Options) { o.MaxRelays = -1 })
	}
}

// TestCutOff: when a node's version is raised, a node that can't act by it is cut off: links and streams that were made before end, whoever has made
// them, and that node hears that its binary is too old. Nodes that can act by it notice nothing (transport.T7).
func TestCutOff(t *testing.T) {
	v := func(minor uint16) version.Version { return version.Version{Minor: minor} }
	said := func(own, acting uint16) *version.Said {
		return &version.Said{Binary: version.Binary{Own: v(own), Oldest: v(1)}, Acting: v(acting)}
	}
	bubble(t, func(t *testing.T, c *net3) {
		n1, n2, n3 := c.nodes[1], c.nodes[2], c.nodes[3]
		n1.said.Store(said(2, 1))
		n2.said.Store(said(1, 1))
		n3.said.Store(said(2, 1))
		var raised atomic.Bool
		streams := map[[2]kv.NodeID]transport.Stream{}
		say := func(s transport.Stream) error {
			if err := s.Send([]byte("x")); err != nil {
				return err
			}
			_, err := s.Recv()
			return err
		}
		for _, n := range c.nodes {
			n.HandleStream("talk", func(_ context.Context, from kv.NodeID, s transport.Stream) error {
				for {
					b, err := s.Recv()
					if err == nil && from == 2 && raised.Load() {
						t.Error("n1 takes a message of n2 still")
					}
					if err == nil {
						err = s.Send(b)
					}
					if err != nil {
						return err
					}
				}
			})
		}
		for _, pair := range [][2]kv.NodeID{{1, 2}, {2, 1}, {1, 3}, {3, 1}} {
			from := c.nodes[pair[0]]
			if _, err := from.Call(t.Context(), pair[1], "echo", nil); err != nil {
				t.Fatal(err)
			}
			s, err := from.OpenStream(t.Context(), pair[1], "talk")
			if err == nil {
				err = say(s)
			}
			if err != nil {
				t.Fatal(err)
			}
			streams[pair] = s
		}
		before := n3.Stats().LinkFailures

		n1.said.Store(said(2, 2))
		n1.Raised()
		raised.Store(true)
		for pair, s := range streams {
			if err := say(s); (err == nil) != (pair[0]+pair[1] == 4) {
				t.Errorf("the stream from n%d to n%d: %v", pair[0], pair[1], err)
			}
		}
		for range 2 { // the first call of n2 goes by the old link, the second meets a refused hello
			for _, x := range []struct {
				from *node
				to   kv.NodeID
				want string
			}{{n2, 1, "the binary of this node is too old: it has version 0.1, and the cluster is upgraded to 0.2"}, {n1, 2, "the binary of n2 is too old"}} {
				_, err := x.from.Call(t.Context(), x.to, "echo", nil)
				if err == nil || !strings.Contains(err.Error(), x.want) || !errors.As(err, new(*version.TooOldError)) {
					t.Errorf("n%d calls n%d: %v; want %q", x.from.id, x.to, err, x.want)
				}
			}
			time.Sleep(time.Second)
		}
		if _, err := n3.Call(t.Context(), 1, "echo", nil); err != nil || n3.Stats().LinkFailures != before {
			t.Errorf("n3 has lost %d links: %v", n3.Stats().LinkFailures-before, err)
		}
		if _, err := n2.Call(t.Context(), 3, "echo", nil); err != nil {
			t.Errorf("n3 acts by the earlier version still: %v", err)
		}
	}, func(o *transport.Options) { o.MaxRelays = -1 })
}

func TestClusterMismatchWrongNodeAndUnknownMethod(t *testing.T) {
	bubble(t, func(t *testing.T, c *net3) {
		n1, n2, n3 := c.nodes[1], c.nodes[2], c.nodes[3]
		n2.cluster = [16]byte{2}
		_, err := n1.Call(t.Context(), 2, "echo", nil)
		var m *transport.ClusterMismatchError
		if !errors.As(err, &m) || m.Theirs != n2.cluster || m.Ours != n1.cluster || m.Addr != "n2:26257" {
			t.Error(err)
		}
		if _, err := n2.CallAddr(t.Context(), "n1:26257", "echo", nil); !errors.As(err, &m) || m.Theirs != n1.cluster {
			t.Error(err)
		}
		c.mu.Lock()
		c.addrs[9] = "n3:26257"
		c.mu.Unlock()
		var w *transport.WrongNodeError
		if _, err := n1.Call(t.Context(), 9, "echo", nil); !errors.As(err, &w) || w.Have != 3 {
			t.Error(err)
		}
		if _, err := n1.Call(t.Context(), 8, "echo", nil); !errors.As(err, new(*transport.UnreachableError)) {
			t.Error(err)
		}
		var s *transport.StatusError
		for to := range []int{1, 3} {
			if _, err := n1.Call(t.Context(), kv.NodeID(1+2*to), "nothing", nil); !errors.As(err, &s) || s.Code != transport.CodeNoMethod {
				t.Error(err)
			}
		}
		// Before it has an id and a cluster, a node can ask by address.
		n3.id, n3.cluster = 0, [16]byte{}
		if got, err := n3.CallAddr(t.Context(), "n1:26257", "echo", nil); err != nil || string(got) != "n0 to n1: " {
			t.Error(string(got), err)
		}
		if _, err := n3.CallAddr(t.Context(), "n1:1", "echo", nil); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Error(err)
		}
		// An address that refused is tried again by the next call.
		l, _ := n1.host.Network.Listen("n1:1")
		n1.host.Group.Go(func(context.Context) { n1.Serve(l) })
		if _, err := n3.CallAddr(t.Context(), "n1:1", "echo", nil); err != nil {
			t.Error(err)
		}
		time.Sleep(2 * time.Minute) // links to addresses end when idle
		for _, p := range n3.Peers() {
			if p.Up {
				t.Errorf("%+v", p)
			}
		}
	})
}

func TestErrorsPanicsAndLimits(t *testing.T) {
	var broken atomic.Int64
	bubble(t, func(t *testing.T, c *net3) {
		n1, n3 := c.nodes[1], c.nodes[3]
		n3.Handle("fail", func(_ context.Context, _ kv.NodeID, req []byte) ([]byte, error) {
			switch string(req) {
			case "status":
				return nil, fmt.Errorf("wrapped: %w", &transport.StatusError{Code: 1234, Message: "m", Detail: []byte("d")})
			case "panic":
				panic("oh")
			case "invariant":
				invariant.Fail("I1")
			case "large":
				return make([]byte, 2<<20), nil
			}
			return nil, errors.New(string(req))
		})
		for _, tc := range []struct {
			req     string
			code    transport.Code
			message string
		}{
			{"status", 1234, "m"},
			{"panic", transport.CodePanic, "fail: panic: oh"},
			{"invariant", transport.CodePanic, "fail: panic: broken invariant: I1"},
			{"large", transport.CodeTooLarge, "transport: the reply of fail is too large"},
			{"whatever", transport.CodeUnknown, "whatever"},
		} {
			_, err := n1.Call(t.Context(), 3, "fail", []byte(tc.req))
			var s *transport.StatusError
			if !errors.As(err, &s) || s.Code != tc.code || s.Message != tc.message {
				t.Errorf("%s: %v", tc.req, err)
			}
			if tc.req == "status" && string(s.Detail) != "d" {
				t.Errorf("detail %q", s.Detail)
			}
		}
		if broken.Load() != 1 {
			t.Error("a broken invariant was not reported")
		}
		if _, err := n1.Call(t.Context(), 3, "echo", make([]byte, 2<<20)); err == nil {
			t.Error("too large a request was sent")
		}
		// Three handlers may run (transport.T5).
		n3.Handle("hold", func(ctx context.Context, _ kv.NodeID, _ []byte) ([]byte, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				if _, err := n1.Call(ctx, 3, "hold", nil); err != context.Canceled {
					t.Error(err)
				}
			})
		}
		time.Sleep(time.Second)
		if _, err := n1.Call(t.Context(), 3, "echo", nil); !errors.As(err, new(*transport.OverloadedError)) {
			t.Error(err)
		}
		cancel() // reaches the handlers (transport.T4)
		wg.Wait()
		time.Sleep(time.Second)
		if s := n3.Stats(); s.Inflight != 0 || s.Overloaded != 1 {
			t.Errorf("%+v", s)
		}
		n1.echo(t, 3)
	}, func(o *transport.Options) {
		o.MaxInflight, o.MaxFrameBytes = 3, 1<<20
		o.OnInvariant = func(*invariant.Error) { broken.Add(1) }
		o.Host.Log = slog.New(slog.DiscardHandler)
	})
}

func TestClockReadingsTravel(t *testing.T) {
	bubble(t, func(t *testing.T, c *net3) {
		n1, n3 := c.nodes[1], c.nodes[3]
		n3.machine.Clock.SetOffset(400 * ms)
		n1.echo(t, 3)
		if now := n1.clock.Now(); time.Until(now.Time()) < 300*ms {
			t.Error("node 1 did not hear node 3's clock:", now)
		}
		n3.machine.Clock.SetOffset(10 * time.Second)
		var o *transport.OffsetError
		if _, err := n1.Call(t.Context(), 3, "echo", nil); !errors.As(err, &o) || o.Node != 3 {
			t.Error(err)
		}
		if _, err := n3.Call(t.Context(), 1, "echo", nil); !errors.As(err, &o) {
			t.Error(err)
		}
		if time.Until(n1.clock.Now().Time()) > time.Second {
			t.Error("a broken clock moved a good one")
		}
		// The clock is repaired; the readings that node 3 issued meanwhile stay in the future for as long as it was.
		n3.machine.Clock.SetOffset(0)
		time.Sleep(11 * time.Second)
		n1.echo(t, 3)
	})
}

// TestWhoseClockIsWrong: an OffsetError names the two nodes whose clocks are apart, and no node that has only heard of it (transport.T8).
func TestWhoseClockIsWrong(t *testing.T) {
	near(t, 3, func(t *testing.T, c *net3) {
		n1, n2, n3 := c.nodes[1], c.nodes[2], c.nodes[3]
		n2.Handle("ask3", func(ctx context.Context, _ kv.NodeID, _ []byte) ([]byte, error) {
			return n2.CallClass(ctx, transport.ClassSystem, 3, "echo", nil) // by the link that is there
		})
		n3.machine.Clock.Jump(-10 * time.Second)
		_, err := n1.Call(t.Context(), 2, "ask3", nil)
		if err == nil || errors.As(err, new(*transport.OffsetError)) {
			t.Errorf("a handler was told that n3's clock is wrong, and its caller of n2's: %v", err)
		}
		// n2 dies, and n3 gets its address.
		n2.machine.Crash(0, false)
		c.mu.Lock()
		c.addrs[2] = c.addrs[3]
		c.mu.Unlock()
		time.Sleep(10 * time.Second)
		var wrong *transport.WrongNodeError
		if _, err := n1.Call(t.Context(), 2, "echo", nil); !errors.As(err, &wrong) || wrong.Want != 2 || wrong.Have != 3 {
			t.Errorf("at the address of n2, which n3 has now: %v", err)
		}
		var o *transport.OffsetError
		if _, err := n1.Call(t.Context(), 3, "echo", nil); !errors.As(err, &o) || o.Node != 3 {
			t.Error(err)
		}
	})
}

func TestStreams(t *testing.T) {
	bubble(t, func(t *testing.T, c *net3) {
		handler := func(ctx context.Context, from kv.NodeID, s transport.Stream) error {
			for {
				b, err := s.Recv()
				if err == io.EOF {
					return s.Send([]byte("bye"))
				}
				if err != nil {
					return err
				}
				if string(b) == "fail" {
					return &transport.StatusError{Code: 2000, Message: "as you wish"}
				}
				if err := s.Send(b); err != nil {
					return err
				}
			}
		}
		for _, n := range c.nodes {
			n.HandleStream("echo2", handler)
		}
		for to, rtt := range map[kv.NodeID]time.Duration{1: 0, 3: 87 * ms} {
			c.nodes[1].echo(t, to)
			s, err := c.nodes[1].OpenStream(t.Context(), to, "echo2")
			if err != nil {
				t.Fatal(err)
			}
			s.Send([]byte("0"))
			s.Recv()
			took(t, rtt, "a thousand messages", func() {
				for range 10 {
					s.Send(bytes.Repeat([]byte("x"), 1000))
				}
				for range 10 {
					if b, err := s.Recv(); len(b) != 1000 || err != nil {
						t.Fatal(len(b), err)
					}
				}
			})
			s.CloseSend()
			if b, err := s.Recv(); string(b) != "bye" || err != nil {
				t.Error(string(b), err)
			}
			if _, err := s.Recv(); err != io.EOF {
				t.Error(err)
			}

			s, _ = c.nodes[1].OpenStream(t.Context(), to, "echo2")
			s.Send([]byte("fail"))
			var st *transport.StatusError
			if _, err := s.Recv(); !errors.As(err, &st) || st.Code != 2000 {
				t.Error(err)
			}

			ctx, cancel := context.WithCancel(t.Context())
			s, _ = c.nodes[1].OpenStream(ctx, to, "echo2")
			cancel()
			if _, err := s.Recv(); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}
		s, err := c.nodes[1].OpenStreamClass(t.Context(), transport.ClassBulk, 3, "echo2")
		if err != nil {
			t.Fatal(err)
		}
		c.net.Isolate("n3")
		if _, err := s.Recv(); !errors.As(err, new(*transport.UnreachableError)) {
			t.Error(err)
		}
	})
}

// A Send to a handler that has ended says why, takes nothing from Recv, and does not get in the way of one that waits.
func TestSendAfterTheEnd(t *testing.T) {
	bubble(t, func(t *testing.T, c *net3) {
		for _, n := range c.nodes {
			n.HandleStream("three", func(ctx context.Context, from kv.NodeID, s transport.Stream) error {
				if b, err := s.Recv(); err != nil || string(b) == "nothing" {
					return err
				}
				for i := range 3 {
					if err := s.Send([]byte{byte('a' + i)}); err != nil {
						return err
					}
				}
				return &transport.StatusError{Code: 2000, Message: "as you wish"}
			})
		}
		sendUntilError := func(s transport.Stream) error {
			for range 100 {
				if err := s.Send([]byte("x")); err != nil {
					return err
				}
				time.Sleep(20 * ms)
			}
			return nil
		}
		var st *transport.StatusError
		s, err := c.nodes[1].OpenStream(t.Context(), 3, "three")
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := sendUntilError(s); !errors.As(err, &st) || st.Code != 2000 {
				t.Errorf("Send said %v", err)
			}
		}
		for _, want := range []string{"a", "b", "c"} {
			if b, err := s.Recv(); string(b) != want || err != nil {
				t.Errorf("received %q, %v, want %q", b, err, want)
			}
		}
		for range 2 {
			if _, err := s.Recv(); !errors.As(err, &st) || st.Code != 2000 {
				t.Errorf("Recv said %v", err)
			}
		}

		s, _ = c.nodes[1].OpenStream(t.Context(), 3, "three")
		got := make(chan string, 1)
		go func() {
			all := ""
			for {
				b, err := s.Recv()
				if err != nil {
					if !errors.As(err, &st) || st.Code != 2000 {
						t.Errorf("Recv said %v", err)
					}
					got <- all
					return
				}
				all += string(b)
			}
		}()
		if err := sendUntilError(s); err == nil {
			t.Error("Send goes on for ever")
		}
		if all := <-got; all != "abc" {
			t.Errorf("received %q", all)
		}

		s, _ = c.nodes[1].OpenStream(t.Context(), 3, "three")
		s.Send([]byte("nothing"))
		if err := sendUntilError(s); err != io.EOF {
			t.Errorf("after an end without an error, Send said %v", err)
		}
	})
}

// A peer that never reads what it accepted must not hang a call.
func TestPeerThatSaysNothing(t *testing.T) {
	bubble(t, func(t *testing.T, c *net3) {
		l, _ := c.nodes[2].host.Network.Listen("n2:9")
		conns := make(chan net.Conn, 100)
		c.nodes[2].host.Group.Go(func(context.Context) {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				conns <- conn
			}
		})
		start := time.Now()
		if _, err := c.nodes[1].CallAddr(t.Context(), "n2:9", "echo", nil); !errors.As(err, new(*transport.UnreachableError)) {
			t.Error(err)
		}
		if d := time.Since(start); d > 3*time.Second {
			t.Error(d)
		}
		l.Close()
		time.Sleep(time.Minute)
		for len(conns) > 0 {
			(<-conns).Close()
		}
	})
}

func BenchmarkCall(b *testing.B) {
	n := sim.NewNetwork(sim.NetworkOptions{})
	var ts []*transport.Transport
	for i := range 2 {
		id := kv.NodeID(i + 1)
		h := sim.NewHost(b.Context(), sim.MachineOptions{Name: fmt.Sprintf("n%d", id), Network: n})
		tr := transport.New(transport.Options{Host: h, Clock: clock.New(h.Clock, time.Second), NodeID: func() kv.NodeID { return id },
			Resolve: func(id kv.NodeID) (string, bool) { return fmt.Sprintf("n%d:1", id), true }})
		tr.Handle("echo", func(_ context.Context, _ kv.NodeID, req []byte) ([]byte, error) { return req, nil })
		l, _ := h.Network.Listen(":1")
		go tr.Serve(l)
		ts = append(ts, tr)
	}
	req := make([]byte, 200)
	b.Run("serial", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := ts[0].Call(b.Context(), 2, "echo", req); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("parallel", func(b *testing.B) {
		b.ReportAllocs()
		b.SetParallelism(8)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if _, err := ts[0].Call(context.Background(), 2, "echo", req); err != nil {
					b.Fatal(err)
				}
			}
		})
	})
	for _, t := range ts {
		t.Close()
	}
}

// The same calls over the machine's loopback.
func BenchmarkTCP(b *testing.B) {
	var ts []*transport.Transport
	addrs := map[kv.NodeID]string{}
	for i := range 2 {
		id := kv.NodeID(i + 1)
		h := machine.New(b.Context(), machine.Options{})
		tr := transport.New(transport.Options{Host: h, Clock: clock.New(h.Clock, time.Second), NodeID: func() kv.NodeID { return id },
			Resolve: func(id kv.NodeID) (string, bool) { return addrs[id], true }})
		tr.Handle("echo", func(_ context.Context, _ kv.NodeID, req []byte) ([]byte, error) { return req, nil })
		l, err := h.Network.Listen("127.0.0.1:0")
		if err != nil {
			b.Fatal(err)
		}
		addrs[id] = l.Addr().String()
		go tr.Serve(l)
		ts = append(ts, tr)
	}
	for _, size := range []int{200, 1 << 20} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			req := make([]byte, size)
			b.SetBytes(int64(2 * size))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := ts[0].Call(b.Context(), 2, "echo", req); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	for _, t := range ts {
		t.Close()
	}
}

// TestLeave stops a node under calls of others that never pause (transport.T9): each call is answered, or is known not to have been sent. Streams go on until
// the node closes.
func TestLeave(t *testing.T) {
	bubble(t, func(t *testing.T, c *net3) {
		n3 := c.nodes[3]
		n3.Handle("slow", func(ctx context.Context, _ kv.NodeID, req []byte) ([]byte, error) {
			n3.host.Clock.Sleep(ctx, 30*ms)
			return req, nil
		})
		ended := 0
		n3.HandleStream("stream", func(_ context.Context, _ kv.NodeID, s transport.Stream) error {
			_, err := s.Recv()
			ended++
			return err
		})
		if _, err := c.nodes[1].OpenStream(t.Context(), 3, "stream"); err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		answered, refused := 0, 0
		var mu sync.Mutex
		for i := range 40 {
			from := c.nodes[kv.NodeID(1+i%2)]
			all.Go(func() {
				for {
					_, err := from.Call(t.Context(), 3, "slow", nil)
					mu.Lock()
					var lost *transport.UnreachableError
					switch {
					case err == nil:
						answered++
					case errors.As(err, &lost) && !lost.Sent:
						refused++
					default:
						t.Errorf("from n%d: %v", from.id, err)
					}
					mu.Unlock()
					if err != nil {
						return
					}
				}
			})
		}
		time.Sleep(time.Second)
		begun := time.Now()
		limit, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		n3.Leave(limit)
		// Two round trips to the furthest node, and the handlers' time at most.
		if d := time.Since(begun); d > 2*155*ms+40*ms {
			t.Errorf("leaving took %s", d)
		}
		if ended != 0 {
			t.Error("a stream ended before the node closed")
		}
		n3.Close()
		all.Wait()
		if answered < 40 || refused != 40 {
			t.Errorf("%d calls were answered, %d refused", answered, refused)
		}
	})
}
