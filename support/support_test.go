package support_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"meridian/clock"
	"meridian/host"
	"meridian/kv"
	"meridian/sim"
	"meridian/storage/engine"
	"meridian/support"
	"meridian/transport"
)

// world is a few nodes with nothing but support.
type world struct {
	t     *testing.T
	net   *sim.Network
	nodes []*node
	known atomic.Int64 // how many nodes there are, for the nodes
	seed  uint64
	log   *slog.Logger
}

type node struct {
	w       *world
	id      kv.NodeID
	machine *sim.Machine
	start   uint64
	up      bool
	starves *starves // nil: the node always has a processor

	host    *host.Host
	clock   *clock.Clock
	engine  *engine.Engine
	net     *transport.Transport
	support *support.Support
}

func newWorld(t *testing.T, n int, seed uint64) *world {
	w := &world{t: t, seed: seed, net: sim.NewNetwork(sim.NetworkOptions{Seed: seed})}
	log := slog.New(slog.DiscardHandler)
	if os.Getenv("MERIDIAN_TEST_LOG") != "" {
		log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	w.log = log
	w.add(n)
	for _, n := range w.nodes {
		n.boot()
	}
	return w
}

// add adds nodes that have not started.
func (w *world) add(n int) {
	for range n {
		i := len(w.nodes)
		w.nodes = append(w.nodes, &node{w: w, id: kv.NodeID(i + 1), machine: sim.NewMachine(sim.MachineOptions{Name: fmt.Sprintf("n%d", i+1), Network: w.net, Seed: w.seed, Log: w.log})})
	}
	w.known.Store(int64(len(w.nodes)))
}

func (n *node) boot() {
	t := n.w.t
	n.host = n.machine.Boot(context.Background())
	n.clock = clock.New(n.host.Clock, clock.DefaultMaxOffset)
	n.clock.Forward(clock.Timestamp{Wall: n.clock.Wall().UnixNano()})
	var err error
	if n.engine, err = engine.Open(n.host, "store", engine.Options{CacheBytes: 1 << 20, MemTableBytes: 1 << 20, ReserveBytes: -1}); err != nil {
		t.Fatal(err)
	}
	n.net = transport.New(transport.Options{Host: n.host, Clock: n.clock, MaxRelays: -1, NodeID: func() kv.NodeID { return n.id },
		Resolve: func(id kv.NodeID) (string, bool) { return fmt.Sprintf("n%d:1", id), true }})
	h, network := n.host, support.Network(n.net)
	if s := n.starves; s != nil {
		starved := *n.host
		starved.Clock = &starvedClock{n.host.Clock, s}
		h, network = &starved, &starvedNetwork{n.net, s}
	}
	if n.support, err = support.New(support.Options{Host: h, Clock: n.clock, Engine: n.engine, Network: network, Active: func() bool { return true },
		OnFatal: func(err error) { t.Errorf("n%d: %v", n.id, err) }}); err != nil {
		t.Fatal(err)
	}
	l, err := n.host.Network.Listen(fmt.Sprintf("n%d:1", n.id))
	if err != nil {
		t.Fatal(err)
	}
	serving := n.net
	n.host.Group.Go(func(context.Context) { _ = serving.Serve(l) })
	n.start++
	n.support.Begin(n.id, n.start, func() (out []kv.NodeID) {
		for i := range n.w.known.Load() {
			out = append(out, kv.NodeID(i+1))
		}
		return out
	})
	n.up = true
}

func (n *node) stop(crash bool) {
	if !n.up {
		return
	}
	n.up = false
	if crash {
		n.machine.Crash(0, true)
	}
	n.net.Close()
	n.host.Group.Stop()
	_ = n.engine.Close()
}

func (w *world) stop() {
	for _, n := range w.nodes {
		n.stop(false)
	}
}

func voters(nodes ...kv.NodeID) *kv.RangeDescriptor {
	d := &kv.RangeDescriptor{ID: 1}
	for _, n := range nodes {
		d.Replicas = append(d.Replicas, kv.ReplicaDescriptor{Node: n, Replica: kv.ReplicaID(n), Type: kv.Voter})
	}
	return d
}

func (n *node) holds(d *kv.RangeDescriptor, incarnation uint64) bool {
	until, _ := n.support.Held(d, incarnation)
	return n.host.Clock.Monotonic() < until
}

// TestSupport: who has support, who loses it, and when.
func TestSupport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3, 1)
		defer w.stop()
		d := voters(1, 2, 3)
		time.Sleep(2 * time.Second)
		n1, n2, n3 := w.nodes[0], w.nodes[1], w.nodes[2]
		first := n1.support.Incarnation()
		if first == 0 || !n1.holds(d, first) || n2.support.Down(d, 1) {
			t.Fatalf("incarnation %d is not supported", first)
		}
		over := func(want bool, what string) {
			t.Helper()
			if _, over := n2.support.Over(d, 1, first); over != want || n2.support.Down(d, 1) {
				t.Errorf("%s: over is %v, down %v", what, over, n2.support.Down(d, 1))
			}
		}
		// One link fails: the other voter goes on.
		w.net.Partition("n1", "n2")
		time.Sleep(2 * time.Second)
		over(false, "one link is cut")
		if !n1.holds(d, first) {
			t.Error("a single link has ended a lease")
		}
		// It is back, for later incarnations.
		w.net.HealAll()
		time.Sleep(2 * time.Second)
		if now := n1.support.Incarnation(); now <= first || !n1.holds(d, first) || !n1.holds(d, now) {
			t.Errorf("incarnation %d, %d before: %v %v", now, first, n1.holds(d, first), n1.holds(d, now))
		}
		w.net.Partition("n1", "n3")
		time.Sleep(2 * time.Second)
		over(true, "each of two voters has withdrawn once")
		if now := n1.support.Incarnation(); n1.holds(d, first) || !n1.holds(d, now) {
			t.Error("the first incarnation is supported, or the present one is not")
		}
		w.net.HealAll()
		time.Sleep(2 * time.Second)
		// The node dies, and is missed after 0.6 to 0.8 s.
		now := n1.support.Incarnation()
		n1.stop(true)
		begin := time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		end, err := n3.support.Await(ctx, d, 1, now)
		if took := time.Since(begin); err != nil || took < 550*time.Millisecond || took > 850*time.Millisecond {
			t.Errorf("%v after %v", err, took)
		}
		if end.Wall < begin.Add(support.Duration-support.Every-50*time.Millisecond).UnixNano() {
			t.Errorf("the end is %v, and it was %v", end.Time(), begin)
		}
		// A process that is new asks late, and under another incarnation.
		n1.boot()
		time.Sleep(support.Duration - 50*time.Millisecond)
		if i := n1.support.Incarnation(); i != 0 {
			t.Errorf("incarnation %d at once", i)
		}
		time.Sleep(time.Second)
		if i := n1.support.Incarnation(); i <= now || !n1.holds(d, i) || n1.holds(d, now) || !n1.support.Earlier(now) {
			t.Errorf("incarnation %d after %d", i, now)
		}
		// Withdrawals are remembered.
		n2.stop(true)
		n3.stop(true)
		n2.boot()
		n3.boot()
		time.Sleep(2 * time.Second)
		if _, over := n2.support.Over(d, 1, now); !over {
			t.Error("forgotten")
		}
		n1 = w.nodes[0]
		if i := n1.support.Incarnation(); !n1.holds(d, i) || n2.support.Down(d, 1) {
			t.Error("the restart of all others has ended a lease for good")
		}
	})
}

// lease of the model: a register that changes by compare and swap.
type lease struct {
	holder      kv.NodeID
	start       uint64 // of the holder's process
	incarnation uint64
	sequence    int
	from        clock.Timestamp
	served      clock.Timestamp // the latest timestamp at which its holder served
	voters      *kv.RangeDescriptor
}

// TestLeasesAreDisjoint (I5): whatever fails, nobody serves under a lease after the next one has begun, and nobody at a timestamp that is not before its beginning.
func TestLeasesAreDisjoint(t *testing.T) {
	seeds := 6
	if testing.Short() {
		seeds = 2
	}
	if s := os.Getenv("MERIDIAN_SEEDS"); s != "" {
		seeds, _ = strconv.Atoi(s)
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { disjoint(t, uint64(seed)) })
		})
	}
}

func disjoint(t *testing.T, seed uint64) {
	const many = 5
	dice := rand.New(rand.NewPCG(seed, 7))
	w := newWorld(t, many, seed+1)
	defer w.stop()
	var leases [3]*lease
	sets := []*kv.RangeDescriptor{voters(1, 2, 3), voters(3, 4, 5), voters(1, 2, 3, 4, 5)}
	for i := range leases {
		leases[i] = &lease{voters: sets[i]}
	}
	// The lease that each process believes to hold. It hears of a new one late.
	type view struct {
		*lease
		process uint64
	}
	views := make(map[[2]int]view)
	taken, served, moved := 0, 0, 0
	for begin := time.Now(); time.Since(begin) < 3*time.Minute; time.Sleep(10 * time.Millisecond) {
		if dice.IntN(60) == 0 {
			a, b := dice.IntN(many), dice.IntN(many)
			na, nb := w.nodes[a], w.nodes[b]
			switch dice.IntN(9) {
			case 0, 1:
				w.net.Partition(na.machine.Name, nb.machine.Name)
			case 2:
				w.net.PartitionOneWay(na.machine.Name, nb.machine.Name)
			case 3:
				w.net.Isolate(na.machine.Name)
			case 4, 5:
				w.net.HealAll()
			case 6:
				if na.up {
					na.stop(true)
				}
			case 7:
				na.machine.Clock.SetOffset(time.Duration(dice.IntN(400)-200) * time.Millisecond)
				na.machine.Clock.SetDrift(float64(dice.IntN(400) - 200))
			case 8:
				na.machine.Disk.SetSyncDelay(time.Duration(dice.IntN(3)) * 40 * time.Millisecond)
			}
		}
		for _, n := range w.nodes {
			if !n.up && dice.IntN(80) == 0 {
				n.machine.Clock.SetOffset(0)
				time.Sleep(600 * time.Millisecond) // past what its earlier process has read off its clock (server.SV2)
				n.boot()
			}
		}
		for i, l := range leases {
			for _, r := range l.voters.Replicas {
				n := w.nodes[r.Node-1]
				if !n.up {
					continue
				}
				now := n.clock.Now()
				inc := n.support.Incarnation()
				// Serve.
				if v, ok := views[[2]int{i, int(r.Node)}]; ok && v.process == n.start {
					if until, end := n.support.Held(l.voters, v.incarnation); n.host.Clock.Monotonic() < until {
						at := now
						if dice.IntN(3) == 0 {
							at = end.Prev()
						}
						if at.Less(end) {
							served++
							if v.sequence != leases[i].sequence {
								t.Fatalf("range %d: n%d serves under lease %d, and lease %d has begun", i, n.id, v.sequence, leases[i].sequence)
							}
							v.served = v.served.Forward(at)
						}
					}
				}
				if inc == 0 || dice.IntN(4) != 0 {
					continue
				}
				// Take.
				from, same := now, false
				switch {
				case l.holder == 0:
				case l.holder == n.id && l.start == n.start:
					if l.incarnation == inc {
						continue
					}
					same = true // it remembers what it has served
				case l.holder == n.id:
					if !n.support.Earlier(l.incarnation) {
						t.Fatalf("n%d takes incarnation %d of its earlier process for its own", n.id, l.incarnation)
					}
				default:
					end, over := n.support.Over(l.voters, l.holder, l.incarnation)
					if !over {
						if n.support.Down(l.voters, l.holder) {
							go func() {
								ctx, cancel := context.WithTimeout(n.host.Group.Context(), time.Second)
								defer cancel()
								_, _ = n.support.Await(ctx, l.voters, l.holder, l.incarnation)
							}()
						}
						continue
					}
					moved++
					from = from.Forward(end.Next())
				}
				if from = from.Forward(l.from.Next()); !same && !l.served.Less(from) {
					t.Fatalf("range %d: lease %d of n%d would begin at %v, and n%d has served at %v", i, l.sequence+1, n.id, from, l.holder, l.served)
				}
				next := &lease{holder: n.id, start: n.start, incarnation: inc, sequence: l.sequence + 1, from: from, voters: l.voters}
				if same {
					next.served = l.served
				}
				leases[i] = next
				views[[2]int{i, int(r.Node)}] = view{next, n.start}
				taken++
				break
			}
		}
	}
	t.Logf("%d leases, %d of them from another node, %d reads", taken, moved, served)
	if moved < 10 || served < 1000 {
		t.Error("little has happened")
	}
}

// starves is a time in which a process gets no processor: its sleeps end late, and what has come is looked at last.
type starves struct{ until atomic.Int64 } // by time.Now

func (s *starves) rest() time.Duration { return time.Duration(s.until.Load() - time.Now().UnixNano()) }

type starvedClock struct {
	host.Clock
	s *starves
}

func (c *starvedClock) Sleep(ctx context.Context, d time.Duration) error {
	err := c.Clock.Sleep(ctx, d)
	time.Sleep(c.s.rest())
	return err
}

type starvedNetwork struct {
	support.Network
	s *starves
}

func (n *starvedNetwork) Handle(method string, h transport.Handler) {
	n.Network.Handle(method, func(ctx context.Context, from kv.NodeID, req []byte) ([]byte, error) {
		if d := n.s.rest(); d > 0 {
			time.Sleep(d + 20*time.Millisecond)
		}
		return h(ctx, from, req)
	})
}

// TestStarved: a node that gets no processor for longer than it supports others takes none of them for dead when it goes on, and one that is dead as soon as it would without.
func TestStarved(t *testing.T) {
	for _, pause := range []time.Duration{700 * time.Millisecond, 2 * time.Second, 20 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, 0, 1)
			defer w.stop()
			for i := range 3 {
				w.add(1)
				if i == 1 {
					w.nodes[i].starves = &starves{}
				}
			}
			for _, n := range w.nodes {
				n.boot()
			}
			time.Sleep(2 * time.Second)
			n1, n2 := w.nodes[0], w.nodes[1]
			first := n1.support.Incarnation()
			for range 3 {
				n2.starves.until.Store(time.Now().Add(pause).UnixNano())
				time.Sleep(pause + 2*time.Second)
			}
			if n, missed := n2.support.Lapsed.Load(), time.Duration(n2.support.Missed.Load()); n != 0 || missed < 3*pause-time.Second {
				t.Errorf("after pauses of %v, which it counts as %v together, a node has withdrawn from %d", pause, missed, n)
			}
			if now := n1.support.Incarnation(); now != first {
				t.Errorf("incarnation %d has become %d", first, now)
			}
			n1.stop(true)
			from := time.Now()
			for n2.support.Lapsed.Load() == 0 && time.Since(from) < 10*time.Second {
				time.Sleep(10 * time.Millisecond)
			}
			if took := time.Since(from); took > support.Duration+100*time.Millisecond {
				t.Errorf("a node that is dead is noticed after %v", took)
			}
		})
	}
}

// TestGone: a node that is known and never asks for support is gone, though nobody has promised it any; it is not while it may have just started, nor after it has asked.
func TestGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2, 1)
		defer w.stop()
		w.add(1) // which does not start
		d := voters(1, 2, 3)
		n1, n3 := w.nodes[0], w.nodes[2]
		gone := func(what string, gone, down bool) {
			t.Helper()
			if g, down2 := n1.support.Gone(d, 3), n1.support.Down(d, 3); g != gone || down2 != down {
				t.Errorf("%s: gone %v, down %v", what, g, down2)
			}
		}
		time.Sleep(2 * time.Second)
		gone("it may be about to ask", false, false)
		time.Sleep(4 * time.Second)
		gone("it has not asked for long", true, false)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if _, err := n1.support.Await(ctx, d, 3, 1<<32); err != nil {
			t.Errorf("a lease that it was given does not end: %v", err)
		}
		n3.boot()
		time.Sleep(2 * time.Second)
		gone("it asks", false, false)
		n3.stop(true)
		time.Sleep(time.Second)
		gone("it is dead", true, true)
	})
}
