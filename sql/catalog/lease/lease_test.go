package lease_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"meridian/clock"
	"meridian/commit/leader/gateway"
	"meridian/host"
	"meridian/kv"
	"meridian/sim"
	"meridian/sql/catalog"
	"meridian/sql/catalog/lease"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
	"meridian/txn"
	"meridian/txn/fakekv"
	"meridian/version"
)

// cluster is some nodes over one store.
type cluster struct {
	t     testing.TB
	fake  *fakekv.KV
	nodes []*node
}

type node struct {
	id   kv.NodeID
	h    *host.Host
	db   *txn.DB
	m    *lease.Manager
	deaf atomic.Bool
	way  *slow
	far  atomic.Int64 // how long a notification is under way to it, in nanoseconds
}

// notifier calls the other nodes directly.
type notifier struct {
	c    *cluster
	self kv.NodeID
}

func (n notifier) Broadcast(ctx context.Context, payload []byte, done func(kv.NodeID, []byte)) {
	var wg sync.WaitGroup
	for _, o := range n.c.nodes {
		if o.id != n.self && !o.deaf.Load() {
			wg.Go(func() {
				if far := time.Duration(o.far.Load()); far > 0 {
					if o.h.Clock.Sleep(ctx, far) != nil {
						return
					}
				}
				if answer, err := o.m.HandleChange(ctx, payload); err == nil {
					done(o.id, answer)
				}
			})
		}
	}
	wg.Wait()
}

func newCluster(t testing.TB, n int, notify bool) *cluster {
	return newClusterOf(t, notify, make([]version.Binary, n)...)
}

// newClusterOf has nodes of the given binaries; zero: this build.
func newClusterOf(t testing.TB, notify bool, binaries ...version.Binary) *cluster {
	return newClusterAt(t, notify, clock.DefaultMaxOffset, binaries...)
}

// newClusterAt has nodes whose clocks differ by maxOffset at most.
func newClusterAt(t testing.TB, notify bool, maxOffset time.Duration, binaries ...version.Binary) *cluster {
	c := &cluster{t: t}
	net := sim.NewNetwork(sim.NetworkOptions{Seed: 1})
	for i, b := range binaries {
		h := sim.NewHost(context.Background(), sim.MachineOptions{Name: fmt.Sprint("n", i+1), Network: net, Seed: 1})
		t.Cleanup(h.Group.Stop)
		ck := clock.New(h.Clock, maxOffset)
		if c.fake == nil {
			c.fake = fakekv.New(h, ck)
		}
		id := kv.NodeID(i + 1)
		way := &slow{Sender: c.fake}
		db := txn.NewDB(txn.Options{Records: gateway.Protocol{}, Sender: way, Clock: ck, Host: h, NodeID: func() kv.NodeID { return id }})
		if i == 0 {
			if err := lease.Bootstrap(context.Background(), db, lease.BootstrapOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		b = b.Or(version.Built())
		o := lease.Options{DB: db, Clock: ck, Host: h, NodeID: func() kv.NodeID { return id }, Version: version.NewHandle(b, b.Own)}
		if notify {
			o.Notifier = notifier{c, id}
		}
		nd := &node{id: id, h: h, db: db, m: lease.New(o), way: way}
		c.nodes = append(c.nodes, nd)
	}
	for _, nd := range c.nodes {
		if err := nd.m.Start(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

func (c *cluster) stop() {
	for _, n := range c.nodes {
		n.h.Group.Stop()
	}
}

var info = lease.Info{User: "root", Database: "defaultdb", SearchPath: []string{"public"}}

func (n *node) create(t testing.TB, name string) catalog.ID {
	t.Helper()
	var id catalog.ID
	err := n.m.Change(context.Background(), func(ctx context.Context, tx *txn.Txn, c *lease.Txn) error {
		v := c.View(info)
		s, err := v.Schema(ctx, "defaultdb", "public")
		if err != nil {
			return err
		}
		if old, err := v.Table(ctx, "", "public", name); err != nil || old != nil {
			return errors.Join(err, sqlstate.New(sqlstate.DuplicateTable, "relation %q already exists", name))
		}
		if id, err = c.NewID(ctx); err != nil {
			return err
		}
		c.New(lease.Descriptor{Table: &catalog.Table{ID: id, Name: name, Owner: "root", Database: s.Database, Schema: s.ID,
			Columns: []catalog.Column{{ID: 1, Name: "a", Type: types.Int4}}, Indexes: []catalog.Index{{ID: 1, Name: name + "_pkey", Primary: true}}}})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func (n *node) find(name string) (t *catalog.Table, err error) {
	err = n.db.Run(context.Background(), txn.TxnOptions{}, func(ctx context.Context, tx *txn.Txn) error {
		c := n.m.Begin(tx)
		defer c.Finish(ctx, false)
		t, err = c.View(info).Table(ctx, "", "", name)
		return err
	})
	return t, err
}

func (n *node) rename(id catalog.ID, to string) error {
	return n.m.Change(context.Background(), func(ctx context.Context, tx *txn.Txn, c *lease.Txn) error {
		c.Table(id).Name = to
		return nil
	})
}

// A table made on one node is there on all of them when the statement that made it returns; so is its new name.
func TestVisibleEverywhere(t *testing.T) {
	for _, notify := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t, 3, notify)
			defer c.stop()
			id := c.nodes[0].create(t, "t")
			for _, n := range c.nodes {
				if got, err := n.find("t"); err != nil || got == nil || got.ID != id || got.Columns[0].Type.Kind != types.KindInt4 {
					t.Fatalf("node %d: %v %v", n.id, got, err)
				}
			}
			before := time.Now()
			if err := c.nodes[1].rename(id, "u"); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(before); notify && took > 50*time.Millisecond {
				t.Errorf("the change took %v", took)
			}
			for _, n := range c.nodes {
				if got, err := n.find("u"); err != nil || got == nil || got.Version != 2 {
					t.Errorf("node %d: %v %v", n.id, got, err)
				}
				if got, err := n.find("t"); err != nil || got != nil {
					t.Errorf("node %d: the old name is still there: %v %v", n.id, got, err)
				}
			}
		})
	}
}

// slow is a way to the store that takes a while.
type slow struct {
	txn.Sender
	d   atomic.Int64 // how long a batch is under way, in nanoseconds
	cut atomic.Bool  // no batch arrives
	// before, if not nil, is called with each batch before it leaves.
	before atomic.Pointer[func(*kv.Batch)]
}

func (s *slow) Send(ctx context.Context, b *kv.Batch) (*kv.BatchResponse, error) {
	time.Sleep(time.Duration(s.d.Load()))
	if f := s.before.Load(); f != nil {
		(*f)(b)
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if s.cut.Load() {
		return nil, &kv.UnavailableError{Reason: "cut off"}
	}
	return s.Sender.Send(ctx, b)
}

// TestVisibleMeanwhile: a transaction that does not find a name here and asks the store also finds it if another one, which
// asked a moment before, has brought the node up to date in between.
func TestVisibleMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2, false)
		defer c.stop()
		var done sync.WaitGroup
		done.Go(func() { c.nodes[0].create(t, "t") })
		time.Sleep(time.Millisecond) // the statement waits until the other node knows
		c.nodes[1].way.d.Store(int64(5 * time.Millisecond))
		for i := range 15 {
			done.Go(func() {
				time.Sleep(time.Duration(i) * time.Millisecond)
				got, err := c.nodes[1].find("t")
				if sqlstate.Is(err, sqlstate.SerializationFailure) { // it began before the node knew (lease.L4), and starts over
					got, err = c.nodes[1].find("t")
				}
				if err != nil || got == nil {
					t.Errorf("asked after %d ms: %v %v", i, got, err)
				}
			})
		}
		done.Wait()
	})
}

// I7: a change waits for a transaction that uses the version that it replaces, on any node.
func TestChangeWaitsForUsers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3, true)
		defer c.stop()
		id := c.nodes[0].create(t, "t")
		ctx := context.Background()
		other := c.nodes[2]
		tx := other.db.Begin(txn.TxnOptions{})
		use := other.m.Begin(tx)
		g := other.m.Generation()
		if ok, err := use.Use([]catalog.Dependency{{ID: id, Version: 1}}); !ok || err != nil {
			t.Fatal(ok, err)
		}
		done := make(chan error, 1)
		go func() { done <- c.nodes[0].rename(id, "u") }()
		time.Sleep(time.Minute)
		select {
		case err := <-done:
			t.Fatal("the change did not wait", err)
		default:
		}
		if g == other.m.Generation() {
			t.Error("the node did not hear of the change")
		}
		// The transaction may still commit: its node renews its tenure.
		var b txn.WriteBatch
		b.Put([]byte("\x10x"), []byte("1"))
		if err := tx.Write(ctx, &b); err != nil {
			t.Fatal(err)
		}
		if err := tx.Commit(ctx); err != nil {
			t.Fatal(err)
		}
		use.Finish(ctx, true)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	})
}

// A node that died is waited for until its tenure has run out, not longer.
func TestDeadNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3, true)
		defer c.stop()
		id := c.nodes[0].create(t, "t")
		time.Sleep(20 * time.Second)
		c.nodes[2].h.Group.Stop()
		c.nodes[2].deaf.Store(true)
		before := time.Now()
		if err := c.nodes[0].rename(id, "u"); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(before); took < time.Second || took > lease.DefaultDuration+2*time.Second {
			t.Errorf("the change took %v", took)
		}
	})
}

// A node that has resigned takes up no other tenure while it drains, so that no change of the schema waits for it, dead or alive.
func TestResigned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3, true)
		defer c.stop()
		id := c.nodes[0].create(t, "t")
		if err := c.nodes[2].m.Resign(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(lease.DefaultDuration / 2) // it still runs, while its leases move
		c.nodes[2].h.Group.Stop()
		c.nodes[2].deaf.Store(true)
		before := time.Now()
		if err := c.nodes[0].rename(id, "u"); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(before); took > time.Second {
			t.Errorf("the change took %v", took)
		}
	})
}

// A transaction can't commit after its tenure was lost (lease.L3).
func TestLostTenure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2, true)
		defer c.stop()
		id := c.nodes[0].create(t, "t")
		ctx := context.Background()
		n := c.nodes[1]
		n.h.Group.Stop()
		n.deaf.Store(true)
		time.Sleep(2 * lease.DefaultDuration)
		tx := n.db.Begin(txn.TxnOptions{})
		use := n.m.Begin(tx)
		if ok, err := use.Use([]catalog.Dependency{{ID: id, Version: 1}}); !ok || err != nil {
			t.Fatal(ok, err)
		}
		if err := c.nodes[0].rename(id, "u"); err != nil {
			t.Fatal(err)
		}
		var b txn.WriteBatch
		b.Put([]byte("\x10x"), []byte("1"))
		if err := tx.Write(ctx, &b); err != nil {
			t.Fatal(err)
		}
		if err := tx.Commit(ctx); !txn.Retriable(err) {
			t.Fatalf("committed after the tenure: %v", err)
		}
		tx.Rollback(ctx)
		use.Finish(ctx, false)
	})
}

// A tenure that was lost does not end the transactions of its time if nothing that they use was changed, and only then.
func TestTenureLostInVain(t *testing.T) {
	for _, renamed := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t, 2, true)
			defer c.stop()
			id := c.nodes[0].create(t, "t")
			other := c.nodes[0].create(t, "o")
			ctx := context.Background()
			n := c.nodes[1]
			tx := n.db.Begin(txn.TxnOptions{})
			use := n.m.Begin(tx)
			if ok, err := use.Use([]catalog.Dependency{{ID: id, Version: 1}}); !ok || err != nil {
				t.Fatal(ok, err)
			}
			n.h.Group.Stop()
			n.deaf.Store(true)
			time.Sleep(2 * lease.DefaultDuration)
			changed := other
			if renamed {
				changed = id
			}
			if err := c.nodes[0].rename(changed, "u"); err != nil {
				t.Fatal(err)
			}
			// Another reader reads the key that the transaction is going to write, so that it commits after the old tenure.
			if _, err := c.nodes[0].db.Get(ctx, []byte("\x10x")); err != nil {
				t.Fatal(err)
			}
			var b txn.WriteBatch
			b.Put([]byte("\x10x"), []byte("1"))
			if err := tx.Write(ctx, &b); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Millisecond) // the store knows no uncertainty: a reader that is to see the new name reads later
			if err := n.m.Start(ctx); !errors.Is(err, context.Canceled) {
				t.Fatal(err) // its loops can't run, but it has a tenure
			}
			if err := tx.Commit(ctx); renamed != txn.Retriable(err) || !renamed && err != nil {
				t.Errorf("renamed %v: %v; committed at %v, now %v", renamed, err, tx.CommitTimestamp(), n.db.Clock().Now())
			}
			tx.Rollback(ctx)
			use.Finish(ctx, false)
		})
	}
}

// Many changes at once: none is lost, and no node ever uses versions more than one apart (I7).
func TestConcurrentChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3, true)
		defer c.stop()
		id := c.nodes[0].create(t, "t")
		const each = 6
		var wg sync.WaitGroup
		for _, n := range c.nodes {
			wg.Go(func() {
				for range each {
					err := n.m.Change(context.Background(), func(ctx context.Context, tx *txn.Txn, c *lease.Txn) error {
						c.Table(id).Generation++
						return nil
					})
					if err != nil {
						t.Error(err)
					}
					lo, hi := ^uint64(0), uint64(0)
					for _, o := range c.nodes {
						v := o.m.Snapshot().Version(id)
						lo, hi = min(lo, v), max(hi, v)
					}
					if hi-lo > 1 {
						t.Errorf("versions %d and %d are in use at once", lo, hi)
					}
				}
			})
		}
		wg.Wait()
		got, err := c.nodes[0].find("t")
		if err != nil || got.Generation != 3*each || got.Version != 1+3*each {
			t.Errorf("%+v %v", got, err)
		}
	})
}

// Sequences begin at their start, stop at their end, and begin again if they cycle.
func TestSequences(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1, false)
		defer c.stop()
		ctx := context.Background()
		s := lease.NewSequences(c.nodes[0].db)
		for _, cache := range []int64{1, 3} {
			up := &catalog.Table{ID: catalog.ID(20000 + cache), Name: "up", Version: 1, Sequence: &catalog.Sequence{Start: 5, Increment: 2, Min: 1, Max: 10, Cache: cache, Base: 3, Cycle: true}}
			for i, want := range []int64{5, 7, 9, 1, 3, 5, 7, 9, 1} {
				if got, err := s.Next(ctx, up); err != nil || got != want {
					t.Fatalf("cache %d, number %d: %d %v, want %d", cache, i, got, err, want)
				}
			}
		}
		down := &catalog.Table{ID: 20010, Name: "down", Version: 1, Sequence: &catalog.Sequence{Start: -1, Increment: -1, Min: -3, Max: -1, Cache: 1}}
		for _, want := range []int64{-1, -2, -3} {
			if got, err := s.Next(ctx, down); err != nil || got != want {
				t.Fatalf("%d %v, want %d", got, err, want)
			}
		}
		for range 3 {
			if _, err := s.Next(ctx, down); !sqlstate.Is(err, "2200H") {
				t.Fatal(err)
			}
		}
		if err := s.Set(ctx, down, -2, true); err != nil {
			t.Fatal(err)
		}
		if got, err := s.Next(ctx, down); err != nil || got != -3 {
			t.Fatal(got, err)
		}
		if err := s.Set(ctx, down, -2, false); err != nil {
			t.Fatal(err)
		}
		if got, err := s.Next(ctx, down); err != nil || got != -2 {
			t.Fatal(got, err)
		}
	})
}
