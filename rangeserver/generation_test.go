package rangeserver_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"meridian/clock"
	"meridian/keys"
	"meridian/kv"
	"meridian/rangeserver"
	"meridian/replica"
	"meridian/storage/engine"
)

// deltas counts what a node has promised in a range in generations below one.
func (n *node) deltas(t *testing.T, id kv.RangeID, below uint64) (count int) {
	t.Helper()
	return deltas(t, n.engine, id, below)
}

func deltas(t *testing.T, e *engine.Engine, id kv.RangeID, below uint64) (count int) {
	t.Helper()
	s := keys.DeltaSpan(id, below)
	it, err := e.NewIter(engine.IterOptions{Lower: s.Start, Upper: s.End})
	check(t, err)
	defer it.Close()
	for ok := it.First(); ok; ok = it.Next() {
		count++
	}
	check(t, it.Error())
	return count
}

// cut lets no message pass between a node and the others, or lets them pass again.
func (c *cluster) cut(n int, cut bool) {
	name := fmt.Sprintf("n%d", c.nodes[n].id)
	if cut {
		c.net.Isolate(name)
	} else {
		c.net.Rejoin(name)
	}
}

// TestChangesSeal: what was acknowledged is there after a split, after a change of replicas, and after both again with other nodes.
// Each begins another generation, in which nothing of the earlier ones is left but in the base.
func TestChangesSeal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 5)
		c.useToy()
		for i, n := range c.nodes {
			n.start(i == 0)
		}
		defer c.stop()
		ctx := context.Background()
		s := c.nodes[0].store
		check(t, s.ChangeReplicas(ctx, 2, targets(1, 2, 3)))
		if n := s.Metrics.Seals.Load(); n != 0 {
			t.Fatalf("%d generations of a range of the leader protocol were sealed", n)
		}
		d := s.Replica(2).Desc().Clone()
		d.Protocol = toyProtocol
		d.Generation++
		check(t, c.become(d))
		time.Sleep(time.Second)
		put := func(v string) {
			for i := range 10 {
				check(t, c.toyPut(fmt.Sprintf("k%d", i), v))
			}
		}
		want := func(v string) {
			t.Helper()
			for i := range 10 {
				c.wantToy(t, fmt.Sprintf("k%d", i), v)
			}
		}
		before := d.Generation
		put("one")
		check(t, s.Split(ctx, 2, tkey("k5")))
		want("one")
		right, ok := s.Lookup(tkey("k5"))
		if left := s.Replica(2).Desc(); !ok || left.Generation <= before || right.Desc.Generation <= before || right.Desc.Protocol != toyProtocol {
			t.Fatalf("%v and %v after generation %d", left, right.Desc, before)
		}
		put("two")
		for _, id := range []kv.RangeID{2, right.Desc.ID} {
			check(t, s.ChangeReplicas(ctx, id, targets(1, 4, 5)))
		}
		c.nodes[1].stop()
		c.nodes[2].stop()
		want("two")
		put("three")
		check(t, s.Split(ctx, 2, tkey("k2")))
		want("three")
		for _, n := range c.nodes {
			if !n.isUp() {
				continue
			}
			n.store.Replicas(func(r *replica.Replica) bool {
				if d := r.Desc(); d != nil && d.Protocol == toyProtocol {
					if left := n.deltas(t, d.ID, d.Generation); left != 0 {
						t.Errorf("n%d has %d promises of earlier generations of r%d", n.id, left, d.ID)
					}
				}
				return true
			})
		}
	})
}

// TestSealInterrupted kills the leaseholder after each step on the way to the next generation. The next leaseholder ends what was
// begun: the range serves again, and has all that was acknowledged.
func TestSealInterrupted(t *testing.T) {
	for _, step := range []string{"reported", "folding", "all folded", "folded"} {
		t.Run(step, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, 3)
				c.useToy()
				c.interval = time.Second
				c.start3(t)
				defer c.stop()
				for i := range 5 {
					check(t, c.toyPut(fmt.Sprintf("k%d", i), "v"))
				}
				first := c.leaseholder(2)
				before := first.store.Replica(2).Desc().Generation
				var dead atomic.Bool
				f := func(at string) error {
					if at == step && dead.CompareAndSwap(false, true) {
						first.crash(0)
						return errNobody
					}
					return nil
				}
				c.folding.Store(&f)
				ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
				err := first.store.Split(ctx, 2, tkey("k3"))
				cancel()
				if !dead.Load() {
					t.Fatalf("the step was not reached: %v", err)
				}
				for i := range 5 {
					c.wantToy(t, fmt.Sprintf("k%d", i), "v")
				}
				check(t, c.toyPut("k0", "w"))
				next := c.leaseholder(2)
				if d := next.store.Replica(2).Desc(); next == first || d.Generation <= before {
					t.Errorf("n%d has the lease of %v, which was in generation %d", next.id, d, before)
				}
				first.start(false)
				time.Sleep(5 * time.Second)
				c.wantToy(t, "k0", "w")
				check(t, c.nodes[1].store.Failed())
			})
		})
	}
}

// start3 starts three nodes with a range of the toy protocol on all of them.
func (c *cluster) start3(t *testing.T) {
	for i, n := range c.nodes {
		n.start(i == 0)
		n.store.PauseQueues(true)
	}
	check(t, c.put("a", "before"))
	for id := range kv.RangeID(2) {
		check(t, c.nodes[0].store.ChangeReplicas(context.Background(), id+1, targets(1, 2, 3)))
	}
	d := c.nodes[0].store.Replica(2).Desc().Clone()
	d.Protocol = toyProtocol
	d.Generation++
	check(t, c.become(d))
	for _, n := range c.nodes {
		n.store.PauseQueues(false)
	}
	time.Sleep(time.Second)
}

// TestSealBeatsStale: a replica that has not heard of the seal goes on acting in the old generation, but alone. Its promises are then no quorum's, and are not there when the range has gone on.
func TestSealBeatsStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := toyCluster(t)
		defer c.stop()
		check(t, c.toyPut("a", "acknowledged"))
		old := c.nodes[0].store.Replica(2).Desc()
		c.cut(2, true)
		check(t, c.nodes[0].store.Split(context.Background(), 2, tkey("m")))
		stale := &kv.Batch{Header: kv.Header{RangeID: 2, Protocol: toyProtocol, Generation: old.Generation}, Requests: []kv.Request{
			&kv.ProtocolRequest{Key: tkey("a"), Body: append([]byte("w"), toyValue(clock.MaxTimestamp.Prev(), []byte("stale"))...)}}}
		promised := 0
		for _, n := range c.nodes {
			_, err := n.store.Send(context.Background(), stale)
			var g *kv.GenerationError
			switch {
			case err == nil:
				promised++
			case !errors.As(err, &g):
				t.Errorf("n%d: %v", n.id, err)
			}
		}
		if promised != 1 {
			t.Fatalf("%d replicas promise in generation %d, want that of the node that is cut off", promised, old.Generation)
		}
		x := c.nodes[2].toyAt(2)
		x.g.Send(c.nodes[0].toyAt(2).g.Self(), old.Generation, []byte("stale"))
		c.cut(2, false)
		time.Sleep(5 * time.Second)
		c.wantToy(t, "a", "acknowledged")
		if got := c.nodes[0].toyAt(2).received; len(got) != 0 {
			t.Errorf("received %v", got)
		}
		if n := c.nodes[2].deltas(t, 2, old.Generation+1); n != 0 {
			t.Errorf("%d stale promises are left", n)
		}
	})
}

// TestReportIsDurable: a replica that has reported does not act in the generation again, also if it crashes and can't hear of the seal a
// second time.
func TestReportIsDurable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := toyCluster(t)
		defer c.stop()
		check(t, c.toyPut("a", "v"))
		c.cut(2, true) // so that the report of the second node is needed
		old, second := c.nodes[0].store.Replica(2).Desc(), c.nodes[1]
		var once atomic.Bool
		f := func(at string) error {
			if at == "reported" && once.CompareAndSwap(false, true) {
				second.crash(0)
				c.cut(1, true)
				second.start(false)
			}
			return nil
		}
		c.folding.Store(&f)
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		_ = c.nodes[0].store.Split(ctx, 2, tkey("m"))
		if !once.Load() {
			t.Fatal("nobody reported")
		}
		if g := second.store.Replica(2).Generation(); g.Number != old.Generation || g.Stage == replica.Open {
			t.Errorf("after the crash: %+v", g)
		}
	})
}

// TestSnapshotAndDelta: a raft snapshot of the same generation leaves what the replica has promised in it; one of a later generation does not.
func TestSnapshotAndDelta(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := toyCluster(t)
		defer c.stop()
		n := c.nodes[2]
		check(t, c.toyPut("a", "v"))
		r := func() *replica.Replica { return n.store.Replica(2) }
		generation := r().Desc().Generation
		behind := func(f func()) {
			n.stop()
			f()
			for i := range 1000 { // more commands than the log keeps for a node that is away
				check(t, c.putLocal(fmt.Sprint("x", i)))
				time.Sleep(10 * time.Millisecond)
			}
			n.start(false)
			time.Sleep(10 * time.Second)
			if n.store.Metrics.SnapshotsApplied.Load() == 0 {
				t.Fatal("no raft snapshot came")
			}
		}
		behind(func() {})
		if got := n.deltas(t, 2, generation+1); got != 1 || r().Desc().Generation != generation {
			t.Errorf("%d promises of generation %d after a raft snapshot of %v", got, generation, r().Desc())
		}
		behind(func() { check(t, c.nodes[0].store.Split(context.Background(), 2, tkey("m"))) })
		if got := n.deltas(t, 2, generation+1); got != 0 || r().Desc().Generation == generation {
			t.Errorf("%d promises of generation %d after a raft snapshot of %v", got, generation, r().Desc())
		}
		c.wantToy(t, "a", "v")
	})
}

// putLocal writes a range-local key of the toy range, through its log.
func (c *cluster) putLocal(name string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	k := keys.TxnKey(tkey("a"), [16]byte{1})
	_, err := c.send(ctx, k, &kv.PutRequest{Key: k, Value: []byte(name)})
	return err
}

// TestFoldsWhenMuch: a range in which much has been promised is folded without being asked.
func TestFoldsWhenMuch(t *testing.T) {
	if testing.Short() {
		t.Skip("eleven minutes of a cluster: two under the race detector")
	}
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		c.useToy()
		c.interval = time.Second
		c.start3(t)
		defer c.stop()
		big := string(make([]byte, 1<<20))
		for i := range 20 {
			check(t, c.toyPut(fmt.Sprint(i), big))
		}
		n := c.leaseholder(2)
		time.Sleep(5 * time.Minute)
		if got := n.store.Metrics.Folded.Load(); got != 0 {
			t.Errorf("folded %d times, with little in a young generation", got)
		}
		time.Sleep(6 * time.Minute)
		if got := n.store.Metrics.Folded.Load(); got != 1 {
			t.Errorf("folded %d times", got)
		}
		if got := n.store.Replica(2).Stats().LiveBytes; got < 20<<20 {
			t.Errorf("the base has %d bytes", got)
		}
		c.wantToy(t, "7", big)
		for i := range 70 {
			check(t, c.toyPut(fmt.Sprint(i), big))
		}
		time.Sleep(5 * time.Second)
		if got := n.store.Metrics.Folded.Load(); got != 2 {
			t.Errorf("folded %d times, with much", got)
		}
	})
}

// TestNobodyReports: a range that can't have a quorum of reports is left as it is, and goes on when it can.
func TestNobodyReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		c.useToy()
		c.interval = time.Second
		c.start3(t)
		defer c.stop()
		check(t, c.toyPut("a", "v"))
		n := c.leaseholder(2)
		c.nodes[1].stop()
		c.nodes[2].stop()
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		if err := n.store.Split(ctx, 2, tkey("m")); err == nil {
			t.Error("split by one of three")
		}
		c.nodes[1].start(false)
		c.nodes[2].start(false)
		time.Sleep(10 * time.Second)
		c.wantToy(t, "a", "v")
		check(t, c.toyPut("a", "w"))
	})
}

var _ rangeserver.Participant = (*toy)(nil)

// TestSealedAfterFailures: a range whose generation could not be ended for minutes goes on at once when it can, however often that was
// tried in vain: it serves nothing meanwhile.
func TestSealedAfterFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		c.useToy()
		c.interval = time.Second
		c.start3(t)
		defer c.stop()
		check(t, c.toyPut("a", "v"))
		var fails atomic.Bool
		fails.Store(true)
		f := func(at string) error {
			if at == "reported" && fails.Load() {
				return errNobody
			}
			return nil
		}
		c.folding.Store(&f)
		n := c.leaseholder(2)
		if err := n.store.Split(context.Background(), 2, tkey("m")); err == nil {
			t.Fatal("split")
		}
		time.Sleep(160 * time.Second)
		if g := n.store.Replica(2).Generation(); g.Stage != replica.Sealed {
			t.Fatalf("%+v", g)
		}
		fails.Store(false)
		from := time.Now()
		c.wantToy(t, "a", "v")
		if took := time.Since(from); took > 3*time.Second {
			t.Errorf("it took %s", took)
		}
	})
}

// TestSealedBetweenConfigurations: the generation of a range between two configurations of voters is over, for a change that did not come. The range serves again, and is in the second configuration
// then; and so it is if it gets another protocol first.
func TestSealedBetweenConfigurations(t *testing.T) {
	t.Run("goes on", func(t *testing.T) {
		sealedBetween(t, func(t *testing.T, c *cluster, n *node) {
			from := time.Now()
			c.wantToy(t, "a", "v")
			check(t, c.toyPut("a", "w"))
			if took := time.Since(from); took > 3*time.Second {
				t.Errorf("it took %s", took)
			}
		})
	})
	t.Run("gets another protocol", func(t *testing.T) {
		sealedBetween(t, func(t *testing.T, c *cluster, n *node) {
			n.store.PauseQueues(true)
			d, err := n.store.SetProtocol(context.Background(), 2, &kv.AdminSetProtocolRequest{Key: tkey("a"), Protocol: kv.Leader})
			check(t, err)
			if d.Protocol != kv.Leader {
				t.Errorf("the range is %v", d)
			}
			check(t, c.put("a", "w"))
		})
	})
}

func between(d *kv.RangeDescriptor) bool {
	return slices.ContainsFunc(d.Replicas, func(r kv.ReplicaDescriptor) bool { return r.Type.Joint() })
}

// sealedBetween has a range that is sealed between two configurations, and looks that it is in the second one after f. n has its lease.
func sealedBetween(t *testing.T, f func(t *testing.T, c *cluster, n *node)) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 4)
		c.useToy()
		c.interval = time.Second
		c.start3(t)
		defer c.stop()
		check(t, c.toyPut("a", "v"))
		n := c.leaseholder(2)
		var fails atomic.Bool
		fails.Store(true)
		fold := func(at string) error {
			if at == "reported" && fails.Load() && between(n.store.Replica(2).Desc()) {
				return errNobody
			}
			return nil
		}
		c.folding.Store(&fold)
		want := targets(1, 2, 4)
		if n.id == 3 {
			want = targets(1, 3, 4)
		}
		if err := n.store.ChangeReplicas(context.Background(), 2, want); err == nil {
			t.Fatal("the second step was made")
		}
		if d := n.store.Replica(2).Desc(); !between(d) {
			t.Fatalf("the range is %v", d)
		}
		fails.Store(false)
		f(t, c, n)
		if d := n.store.Replica(2).Desc(); between(d) || len(d.Replicas) != 3 {
			t.Errorf("the range is %v", d)
		}
	})
}

// TestChangeBeginsBeforeSeal: the intents of a change of protocol are in their ranges before the range is sealed. One that fails until then has not interrupted it.
func TestChangeBeginsBeforeSeal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		c.useToy()
		for i, n := range c.nodes {
			n.start(i == 0)
		}
		defer c.stop()
		ctx := context.Background()
		s := c.nodes[0].store
		check(t, s.ChangeReplicas(ctx, 2, targets(1, 2, 3)))
		d := s.Replica(2).Desc().Clone()
		d.Protocol = toyProtocol
		d.Generation++
		check(t, c.become(d))
		no := errors.New("a range of descriptors does not answer")
		fails := func(step string) error {
			if step == "intents" {
				return no
			}
			return nil
		}
		c.folding.Store(&fails)
		if _, err := s.SetProtocol(ctx, 2, &kv.AdminSetProtocolRequest{Key: tkey("a"), Protocol: kv.Leader}); !errors.Is(err, no) {
			t.Errorf("the change has ended with %v", err)
		}
		if n := s.Metrics.Seals.Load(); n != 0 {
			t.Errorf("the range was sealed %d times", n)
		}
		c.folding.Store(nil)
		_, err := s.SetProtocol(ctx, 2, &kv.AdminSetProtocolRequest{Key: tkey("a"), Protocol: kv.Leader})
		check(t, err)
		if n := s.Metrics.Seals.Load(); n != 1 || s.Replica(2).Desc().Protocol != kv.Leader {
			t.Errorf("%d seals, %v", n, s.Replica(2).Desc())
		}
	})
}
