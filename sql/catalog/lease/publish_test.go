package lease_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"meridian/sql/catalog"
	"meridian/sql/catalog/lease"
	"meridian/txn"
)

// TestYoungerVersionMeanwhile: a transaction that waits until a version is in use everywhere does not wait for the
// users of that version (lease.L1), even if a younger one was published just before it asked: the publisher of that one
// may wait for the transaction.
func TestYoungerVersionMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3, true)
		defer c.stop()
		a, b, old := c.nodes[0], c.nodes[1], c.nodes[2]
		id := a.create(t, "t")
		ctx := context.Background()
		use := func(n *node, version uint64) (end func()) {
			t.Helper()
			tx := n.db.Begin(txn.TxnOptions{})
			u := n.m.Begin(tx)
			if ok, err := u.Use([]catalog.Dependency{{ID: id, Version: version}}); !ok || err != nil {
				t.Fatal(ok, err)
			}
			return func() {
				tx.Rollback(ctx)
				u.Finish(ctx, false)
			}
		}
		first := use(old, 1)
		var changes sync.WaitGroup
		changes.Go(func() { // version 2, and at once 3
			for _, name := range []string{"u", "v"} {
				if err := a.rename(id, name); err != nil {
					t.Error(err)
				}
			}
		})
		time.Sleep(10 * time.Millisecond)
		second := use(a, 2)
		b.way.d.Store(int64(20 * time.Millisecond))
		tries := make(chan time.Duration, 10)
		begun := time.Now()
		changes.Go(func() {
			err := b.m.Change(ctx, func(_ context.Context, _ *txn.Txn, x *lease.Txn) error {
				tries <- time.Since(begun)
				x.Table(id).Name = "w"
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
		time.Sleep(50 * time.Millisecond) // it has seen that 2 is not in use everywhere, and looks for what there is
		if len(tries) != 1 {
			t.Fatalf("%d tries", len(tries))
		}
		first()
		time.Sleep(5 * time.Millisecond)
		if got, err := a.find("v"); err != nil || got == nil || got.Version != 3 {
			t.Fatalf("version 3 was not published before the node looked: %v %v", got, err)
		}
		time.Sleep(5 * time.Second)
		if len(tries) < 2 {
			t.Error("what was to wait until 2 is in use waits for a transaction that uses it")
		}
		second()
		changes.Wait()
	})
}
