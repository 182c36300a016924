package cluster_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"meridian/clock"
	"meridian/cluster"
	"meridian/host"
	"meridian/kv"
	"meridian/sim"
	"meridian/transport"
)

const ms = time.Millisecond

// store is a linearizable map that can be slow, cut off from some nodes, or lose answers.
type store struct {
	mu     sync.Mutex
	values map[kv.NodeID][]byte
}

// view is the store as one node reaches it.
type view struct {
	s     *store
	delay time.Duration
	mu    sync.Mutex
	cut   bool // requests don't arrive
	deaf  bool // answers don't
}

func (v *view) set(cut, deaf bool) {
	v.mu.Lock()
	v.cut, v.deaf = cut, deaf
	v.mu.Unlock()
}

func (v *view) arrives(ctx context.Context, lost func(*view) bool) error {
	time.Sleep(v.delay / 2)
	v.mu.Lock()
	l := lost(v)
	v.mu.Unlock()
	if l {
		<-ctx.Done()
		return ctx.Err()
	}
	return ctx.Err()
}

func (v *view) Get(ctx context.Context, n kv.NodeID) ([]byte, error) {
	if err := v.arrives(ctx, func(v *view) bool { return v.cut }); err != nil {
		return nil, err
	}
	v.s.mu.Lock()
	b := v.s.values[n]
	v.s.mu.Unlock()
	return b, v.arrives(ctx, func(v *view) bool { return v.deaf })
}

func (v *view) CPut(ctx context.Context, n kv.NodeID, expected, value []byte) ([]byte, bool, error) {
	if err := v.arrives(ctx, func(v *view) bool { return v.cut }); err != nil {
		return nil, false, err
	}
	v.s.mu.Lock()
	actual := v.s.values[n]
	ok := bytes.Equal(actual, expected) && (actual == nil) == (expected == nil)
	if ok {
		v.s.values[n] = value
	}
	v.s.mu.Unlock()
	if err := v.arrives(ctx, func(v *view) bool { return v.deaf }); err != nil {
		return nil, false, err
	}
	return actual, ok, nil
}

type node struct {
	*cluster.Cluster
	id      kv.NodeID
	name    string
	machine *sim.Machine
	host    *host.Host
	clock   *clock.Clock
	view    *view
	log     bytes.Buffer
	broken  []error
	doubts  []error
	build   string
	started time.Time
}

type world struct {
	t         *testing.T
	net       *sim.Network
	store     *store
	nodes     []*node // by id, from 1
	maxRelays int     // of transport
	// bound is what nodes claim of their clocks' errors; zero: nothing.
	bound time.Duration
}

// bubble runs f in virtual time with five machines in the five regions; nodes start when f says so.
func bubble(t *testing.T, f func(t *testing.T, w *world)) {
	synctest.Test(t, func(t *testing.T) {
		regions := sim.FiveRegions()
		w := &world{t: t, net: sim.NewNetwork(sim.NetworkOptions{Regions: regions}), store: &store{values: map[kv.NodeID][]byte{}}, nodes: []*node{nil}}
		for i, r := range regions.Names {
			n := &node{id: kv.NodeID(i + 1), name: fmt.Sprintf("n%d", i+1), view: &view{s: w.store, delay: 60 * ms}}
			n.machine = sim.NewMachine(sim.MachineOptions{Name: n.name, Region: r, Network: w.net, Seed: 7,
				Log: slog.New(slog.NewTextHandler(&n.log, nil))})
			w.nodes = append(w.nodes, n)
		}
		f(t, w)
		for _, n := range w.nodes[1:] {
			if n.host != nil {
				n.host.Group.Stop()
			}
		}
	})
}

func (w *world) start(n *node, join ...string) {
	n.host = n.machine.Boot(context.Background())
	n.clock = clock.New(n.host.Clock, 500*ms)
	if w.bound > 0 {
		n.clock = clock.NewFrom(clock.System{Clock: n.host.Clock, Bound: w.bound}, n.host.Clock, 500*ms)
	}
	tr := transport.New(transport.Options{
		Host: n.host, Clock: n.clock,
		NodeID:    func() kv.NodeID { return n.id },
		ClusterID: func() [16]byte { return [16]byte{1} },
		Resolve:   func(id kv.NodeID) (string, bool) { return n.Resolve(id) },
		MaxRelays: w.maxRelays,
	})
	o := cluster.Options{
		Host: n.host, Clock: n.clock, Transport: tr, Join: join,
		OnClockBroken: func(err error) { n.broken = append(n.broken, err) },
		OnClockDoubt:  func(err error) { n.doubts = append(n.doubts, err) },
	}
	if w.bound > 0 {
		o.TimeSource = func() string { return "system" }
	}
	n.Cluster = cluster.New(o, cluster.Entry{Node: n.id, Addr: n.name + ":1", Build: n.build, StartedAt: n.started, Locality: cluster.Locality{{Key: "region", Value: n.machine.Region}}})
	l, err := n.host.Network.Listen(n.name + ":1")
	if err != nil {
		w.t.Fatal(err)
	}
	n.host.Group.Go(func(context.Context) { tr.Serve(l) })
	n.Start()
}

func (w *world) startAll(count int) {
	for _, n := range w.nodes[1 : count+1] {
		w.start(n, "n1:1", "n2:1")
	}
}

func TestEverybodyMeetsEverybody(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.startAll(5)
		time.Sleep(6 * time.Second)
		for _, n := range w.nodes[1:] {
			if got := len(n.Nodes()); got != 5 {
				t.Fatalf("n%d knows %d nodes", n.id, got)
			}
		}
		// Round trips are the published ones, to the nanosecond.
		for to, want := range map[kv.NodeID]time.Duration{1: 0, 2: 63 * ms, 3: 87 * ms, 4: 155 * ms, 5: 198 * ms} {
			if got, ok := w.nodes[1].Latency(to); !ok || got != want {
				t.Errorf("latency to n%d: %s", to, got)
			}
		}
		// A change is everywhere within two rounds.
		var heard []string
		cancel := w.nodes[5].Subscribe(func(e cluster.Entry) { heard = append(heard, e.SQLAddr) })
		w.nodes[1].Update(func(e *cluster.Entry) { e.SQLAddr = "sql" })
		time.Sleep(1500 * ms)
		for _, n := range w.nodes[1:] {
			if e, _ := n.Get(1); e.SQLAddr != "sql" {
				t.Errorf("n%d has not heard", n.id)
			}
		}
		cancel()
		synctest.Wait()
		if len(heard) != 1 || heard[0] != "sql" {
			t.Error(heard)
		}
	})
}

// TestNewsTravelsAroundAPartition: what a node says of itself reaches those that it has no link to; so do its pings, by way of
// others, unless that is off.
func TestNewsTravelsAroundAPartition(t *testing.T) {
	for _, relays := range []int{0, -1} {
		newsTravels(t, relays)
	}
}

func newsTravels(t *testing.T, relays int) {
	bubble(t, func(t *testing.T, w *world) {
		w.maxRelays = relays
		w.startAll(3)
		time.Sleep(5 * time.Second)
		w.net.Partition("n1", "n3")
		time.Sleep(5 * time.Second)
		if w.nodes[1].Reachable(3) != (relays >= 0) || !w.nodes[1].Reachable(2) {
			t.Error("reachable")
		}
		w.nodes[1].Update(func(e *cluster.Entry) { e.Draining = true })
		time.Sleep(3 * time.Second)
		if e, _ := w.nodes[3].Get(1); !e.Draining {
			t.Error("n3 did not hear of n1 through n2")
		}
	})
}

// TestTell: when it returns, the others know what this node says of itself; it does not wait for those that are not there.
func TestTell(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.startAll(3)
		time.Sleep(5 * time.Second)
		for range 5 {
			time.Sleep(130 * time.Millisecond)
			draining := false
			w.nodes[1].Update(func(e *cluster.Entry) { draining, e.Draining = !e.Draining, !e.Draining })
			begin := time.Now()
			w.nodes[1].Tell(t.Context())
			if d := time.Since(begin); d > 500*time.Millisecond {
				t.Errorf("it took %v", d)
			}
			for i := 2; i <= 3; i++ {
				if e, _ := w.nodes[i].Get(1); e.Draining != draining {
					t.Errorf("n%d has not heard", i)
				}
			}
		}
		w.net.Isolate("n3")
		time.Sleep(10 * time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		w.nodes[1].Update(func(e *cluster.Entry) { e.Draining = true })
		if w.nodes[1].Tell(ctx); ctx.Err() != nil {
			t.Error("it waits for a node that does not answer")
		}
	})
}

func TestRestartReplacesTheFormerEntry(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		// The clock was far ahead when the first life began, so the second seems to be older.
		n := w.nodes[3]
		n.started = time.Now().Add(time.Hour)
		w.startAll(3)
		time.Sleep(5 * time.Second)
		n.machine.Crash(0, false)
		n.host.Group.Stop()
		n.started, n.build = time.Time{}, "second"
		time.Sleep(time.Second)
		w.start(n, "n1:1")
		time.Sleep(5 * time.Second)
		if e, _ := w.nodes[1].Get(3); e.Build != "second" {
			t.Errorf("%+v", e)
		}
	})
}

func TestJoinAddressesAreTriedAndWarnedAbout(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		n := w.nodes[1]
		w.start(n, "nowhere:1", "n2:99", "n2:1")
		time.Sleep(35 * time.Second)
		synctest.Wait()
		log := n.log.String()
		if c := strings.Count(log, "nowhere:1"); c < 3 || c > 12 {
			t.Errorf("%d warnings:\n%s", c, log)
		}
		if !strings.Contains(log, "no such host") || !strings.Contains(log, "connection refused") {
			t.Error(log)
		}
		w.start(w.nodes[2])
		time.Sleep(5 * time.Second)
		if len(n.Nodes()) != 2 || len(w.nodes[2].Nodes()) != 2 {
			t.Error("did not join")
		}
	})
}

func TestABrokenClockStopsItsOwnNodeOnly(t *testing.T) {
	for _, offset := range []time.Duration{-10 * time.Second, -480 * ms, 0, 200 * ms, 480 * ms, 900 * ms} {
		bubble(t, func(t *testing.T, w *world) {
			w.startAll(3)
			time.Sleep(5 * time.Second)
			if o := w.nodes[1].Offsets(); len(o) != 2 || o[0].Offset != 0 || o[0].Error != 63*ms/2 {
				t.Errorf("%+v", o)
			}
			w.nodes[2].machine.Clock.Jump(offset)
			time.Sleep(15 * time.Second)
			synctest.Wait()
			want := 0
			if offset.Abs() > 400*ms+66*ms {
				want = 1
			}
			for _, n := range w.nodes[1:4] {
				bad := 0
				if n.id == 2 {
					bad = want
				}
				if len(n.broken) != bad {
					t.Errorf("offset %s: n%d: %v", offset, n.id, n.broken)
				}
			}
		})
	}
}

// TestBrokenClocksOneAfterTheOther: what was measured of a peer that has not answered since is no evidence.
func TestBrokenClocksOneAfterTheOther(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.startAll(3)
		time.Sleep(5 * time.Second)
		n1, n2, n3 := w.nodes[1], w.nodes[2], w.nodes[3]
		n2.machine.Clock.Jump(-time.Second)
		time.Sleep(2 * time.Second)
		w.net.Partition("n2", "n3")
		w.net.Partition("n2", "n1")
		time.Sleep(4 * time.Second)
		n1.machine.Clock.Jump(2 * time.Second)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if len(n3.broken) > 0 {
			t.Error("a good clock was taken for broken: ", n3.broken)
		}
	})
}

// TestABrokenClockOnTheWay: two nodes reach each other by way of the third one only, whose clock is wrong. Its refusal to relay a ping is no
// evidence against the clock of the node to which the ping is sent.
func TestABrokenClockOnTheWay(t *testing.T) {
	for _, offset := range []time.Duration{-1300 * ms, 1300 * ms} {
		bubble(t, func(t *testing.T, w *world) {
			w.startAll(3)
			time.Sleep(5 * time.Second)
			w.net.Partition("n1", "n3")
			time.Sleep(5 * time.Second)
			if !w.nodes[1].Reachable(3) || !w.nodes[3].Reachable(1) {
				t.Fatal("nobody relays")
			}
			w.nodes[2].machine.Clock.Jump(offset)
			time.Sleep(5 * time.Second)
			w.net.HealAll()
			time.Sleep(15 * time.Second)
			synctest.Wait()
			for _, n := range w.nodes[1:4] {
				if (len(n.broken) > 0) != (n.id == 2) {
					t.Errorf("offset %s: n%d: %v", offset, n.id, n.broken)
				}
			}
		})
	}
}

// TestABrokenClockAtTheJoinAddresses: a node that starts can't tell whose clock is wrong if it reaches one node only, by however many addresses. Two are a majority.
func TestABrokenClockAtTheJoinAddresses(t *testing.T) {
	for _, offset := range []time.Duration{-1300 * ms, 1300 * ms} {
		bubble(t, func(t *testing.T, w *world) {
			n1, n2, n3, n4 := w.nodes[1], w.nodes[2], w.nodes[3], w.nodes[4]
			w.start(n2)
			n2.machine.Clock.Jump(offset)
			w.start(n3, "n2:1", "n2:1", "nowhere:1")
			time.Sleep(20 * time.Second)
			synctest.Wait()
			if len(n3.broken) > 0 {
				t.Errorf("one clock is off by %s: %v", offset, n3.broken)
			}
			n2.machine.Clock.Jump(-offset)
			time.Sleep(20 * time.Second)
			if !n3.Reachable(2) {
				t.Error("n3 does not join when the clock of n2 is right again")
			}
			w.start(n1, "n2:1")
			n4.machine.Clock.Jump(offset)
			w.start(n4, "n1:1", "n2:1")
			time.Sleep(20 * time.Second)
			synctest.Wait()
			if len(n4.broken) != 1 || len(n1.broken)+len(n2.broken)+len(n3.broken) > 0 {
				t.Errorf("n4's clock is off by %s: %v %v %v %v", offset, n1.broken, n2.broken, n3.broken, n4.broken)
			}
		})
	}
}

// TestTwoOfFiveClocksAreWrong: they are no majority while the other two nodes restart. A node that hears of these two only, for longer, can't tell, and stops.
func TestTwoOfFiveClocksAreWrong(t *testing.T) {
	for _, wait := range []time.Duration{4 * time.Second, 20 * time.Second} {
		bubble(t, func(t *testing.T, w *world) {
			w.startAll(5)
			time.Sleep(5 * time.Second)
			for _, n := range w.nodes[2:4] {
				n.machine.Crash(0, false)
				n.host.Group.Stop()
			}
			time.Sleep(time.Second)
			for _, n := range []*node{w.nodes[1], w.nodes[4]} {
				n.machine.Clock.Jump(1500 * ms)
			}
			time.Sleep(wait)
			for _, n := range w.nodes[2:4] {
				w.start(n, "n5:1")
			}
			time.Sleep(10 * time.Second)
			synctest.Wait()
			for _, n := range w.nodes[1:6] {
				wrong := n.id == 1 || n.id == 4 || n.id == 5 && wait > 10*time.Second
				if (len(n.broken) > 0) != wrong {
					t.Errorf("two nodes restart after %s: n%d: %v", wait, n.id, n.broken)
				}
			}
		})
	}
}

// TestJoinAtAClockThatFollowsABrokenOne: n1, whose clock is right, starts while n3 hears n2's wrong clock all the time. Both join addresses refuse it, and only one of
// them for its own clock.
func TestJoinAtAClockThatFollowsABrokenOne(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		n1, n2, n3 := w.nodes[1], w.nodes[2], w.nodes[3]
		w.start(n2, "n3:1")
		w.start(n3, "n2:1")
		time.Sleep(5 * time.Second)
		n1.machine.Clock.Jump(-200 * ms)
		n2.machine.Clock.Jump(490 * ms)
		w.start(n1, "n2:1", "n3:1")
		for range 200 {
			n2.Show() // pings at once
			time.Sleep(50 * ms)
		}
		if n1.Reachable(3) {
			t.Error("n3 does not follow n2")
		}
		n2.host.Group.Stop()
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if len(n1.broken) > 0 || !n1.Reachable(3) {
			t.Error("n1 stops, or does not join when n2 is gone: ", n1.broken)
		}
	})
}

// TestAClockFollowsABrokenOne: n2's clock is wrong, by so little that n3 follows its readings; n1, whose clock is a bit behind n3's, refuses n2's readings, and n3's as
// well. Only n2 stops, whether the three go on talking, connect anew, or n1 starts.
func TestAClockFollowsABrokenOne(t *testing.T) {
	for _, behind := range []time.Duration{0, 100 * ms, 200 * ms, 280 * ms} {
		for i, then := range []func(w *world){
			func(*world) {},
			func(w *world) {
				w.net.Reset("n1", "n2")
				w.net.Reset("n1", "n3")
			},
			func(w *world) {
				n1 := w.nodes[1]
				n1.machine.Crash(0, false)
				n1.host.Group.Stop()
				n1.broken = nil
				w.start(n1, "n2:1", "n3:1")
			},
		} {
			bubble(t, func(t *testing.T, w *world) {
				w.startAll(3)
				time.Sleep(5 * time.Second)
				w.nodes[1].machine.Clock.Jump(-behind)
				time.Sleep(2 * time.Second)
				w.nodes[2].machine.Clock.Jump(490 * ms)
				for range 8 {
					time.Sleep(1900 * ms)
					then(w)
				}
				time.Sleep(5 * time.Second)
				synctest.Wait()
				for _, n := range w.nodes[1:4] {
					if (len(n.broken) > 0) != (n.id == 2) {
						t.Errorf("%d, n1 is behind by %s: n%d: %v", i, behind, n.id, n.broken)
					}
				}
			})
		}
	}
}

func TestHeartbeatsKeepARecordAlive(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.startAll(3)
		time.Sleep(3 * time.Second)
		for _, n := range w.nodes[1:4] {
			n.StartHeartbeat(n.view)
		}
		time.Sleep(time.Second)
		for range 100 {
			for _, n := range w.nodes[1:4] {
				if inc, ok := n.Incarnation(); !ok || inc != 1 {
					t.Fatalf("n%d: %d %v", n.id, inc, ok)
				}
				for _, o := range w.nodes[1:4] {
					if !n.Live(o.id) {
						t.Fatalf("n%d thinks that n%d is dead", n.id, o.id)
					}
				}
			}
			time.Sleep(97 * ms)
		}
		n1, n2, n3 := w.nodes[1], w.nodes[2], w.nodes[3]
		var still *cluster.StillLiveError
		if _, err := n1.IncrementIncarnation(t.Context(), 3, 1); !errors.As(err, &still) {
			t.Error(err)
		}
		// Death: noticed within the expiration, by everybody.
		n3.machine.Crash(0, false)
		n3.host.Group.Stop()
		start := time.Now()
		for n1.Live(3) || n2.Live(3) {
			time.Sleep(10 * ms)
		}
		if d := time.Since(start); d > 2250*ms {
			t.Errorf("dead after %s", d)
		}
		leases := n1.Leases()
		if leases.IsLive(3, 1, n1.clock.Now()) || !leases.IsLive(2, 1, n1.clock.Now()) || leases.IsLive(2, 2, n1.clock.Now()) {
			t.Error("leases")
		}
		if err := leases.IncrementIncarnation(t.Context(), 2, 1); !errors.As(err, &still) {
			t.Error(err)
		}
		if inc, exp := leases.Self(); inc != 1 || time.Until(exp.Time()) > 2250*ms {
			t.Error(inc, exp)
		}
		// A thousand ranges ask at once, one attempt is made.
		var wg sync.WaitGroup
		for range 1000 {
			wg.Go(func() {
				if l, err := n1.IncrementIncarnation(t.Context(), 3, 1); err != nil || l.Incarnation != 2 {
					t.Error(l, err)
				}
			})
		}
		start = time.Now()
		wg.Wait()
		if d := time.Since(start); d != 120*ms {
			t.Errorf("took %s", d)
		}
		if l, err := n2.IncrementIncarnation(t.Context(), 3, 1); err != nil || l.Incarnation != 2 {
			t.Error(l, err)
		}
		// It comes back with an incarnation of its own.
		w.start(n3, "n1:1")
		n3.StartHeartbeat(n3.view)
		time.Sleep(3 * time.Second)
		if inc, ok := n3.Incarnation(); !ok || inc != 3 {
			t.Error(inc, ok)
		}
		if inc, _ := leases.Incarnation(3); inc != 3 {
			t.Error(inc)
		}
		// Draining and decommissioning are seen by all.
		n2.SetDraining(true)
		if _, err := n1.SetDecommissioning(t.Context(), 2, true, false); err != nil {
			t.Error(err)
		}
		time.Sleep(2 * time.Second)
		if l, _ := n3.Record(2); !l.Draining || !l.Decommissioning {
			t.Error(l)
		}
		if inc, ok := n2.Incarnation(); !ok || inc != 1 {
			t.Error(inc, ok)
		}
		if _, err := n1.SetDecommissioning(t.Context(), 2, true, true); err != nil {
			t.Error(err)
		}
		time.Sleep(4 * time.Second)
		if _, ok := n2.Incarnation(); ok {
			t.Error("a decommissioned node is live")
		}
	})
}

// cluster.L1 to cluster.L4 give I5: whatever the clocks within the maximum offset, and whatever is lost between a node and the store,
// nobody raises an incarnation while its owner would still use it.
func TestNoIncarnationIsRaisedUnderItsOwner(t *testing.T) {
	raised := 0
	rapid.Check(t, func(r *rapid.T) {
		offsets := rapid.SliceOfN(rapid.Int64Range(-250, 250), 2, 2).Draw(r, "offsets")
		delays := rapid.SliceOfN(rapid.Int64Range(0, 300), 2, 2).Draw(r, "delays")
		faults := rapid.SliceOfN(rapid.IntRange(0, 5), 20, 20).Draw(r, "faults")
		bubble(t, func(t *testing.T, w *world) {
			a, b := w.nodes[1], w.nodes[2]
			for i, n := range []*node{a, b} {
				n.machine.Clock.SetOffset(time.Duration(offsets[i]) * ms)
				n.view.delay = time.Duration(delays[i]) * ms
			}
			w.startAll(2)
			a.StartHeartbeat(a.view)
			// The record is what b takes it for: pings would only bring it news.
			w.net.Partition("n1", "n2")
			spy := &spy{view: b.view, raise: func(l cluster.Liveness) {
				if inc, ok := a.Incarnation(); ok && inc < l.Incarnation {
					t.Errorf("raised to %v while n1 uses %d", l, inc)
				}
				raised++
			}}
			b.StartHeartbeat(spy)
			for _, f := range faults {
				a.view.set(f == 1 || f == 3, f == 2 || f == 3)
				end := time.Now().Add(time.Second)
				for time.Now().Before(end) {
					if l, err := b.Refresh(t.Context(), 1); err == nil {
						b.IncrementIncarnation(t.Context(), 1, l.Incarnation)
					}
					time.Sleep(50 * ms)
				}
			}
			a.view.set(false, false)
		})
	})
	if raised == 0 {
		t.Error("no incarnation was ever raised")
	}
}

// spy tells of raised incarnations at the moment at which the store takes them.
type spy struct {
	*view
	raise func(cluster.Liveness)
}

func (s *spy) CPut(ctx context.Context, n kv.NodeID, expected, value []byte) ([]byte, bool, error) {
	if n == 1 {
		if err := s.arrives(ctx, func(v *view) bool { return v.cut }); err != nil {
			return nil, false, err
		}
		s.s.mu.Lock()
		actual := s.s.values[n]
		ok := bytes.Equal(actual, expected)
		if ok {
			s.s.values[n] = value
		}
		s.s.mu.Unlock()
		if l, err := cluster.DecodeLiveness(value); ok && err == nil {
			s.raise(l)
		}
		return actual, ok, s.arrives(ctx, func(v *view) bool { return v.deaf })
	}
	return s.view.CPut(ctx, n, expected, value)
}
