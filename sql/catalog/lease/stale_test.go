package lease_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"meridian/clock"
	"meridian/kv"
	"meridian/sql/catalog"
	"meridian/sql/catalog/lease"
	"meridian/txn"
)

// TestTenureEnded: what a node knows of the catalogue is good for timestamps within its tenure, however long that is over (lease.L11), and as long
// as the replicas that it reads have not come so far that dropped data is gone (lease.L12).
func TestTenureEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		c := newCluster(t, 2, true)
		defer c.stop()
		n := c.nodes[1]
		earlier := n.create(t, "earlier")
		time.Sleep(time.Minute)
		id := n.create(t, "t")
		time.Sleep(time.Minute)
		begin := func(at clock.Timestamp) (*lease.Txn, func()) {
			tx := n.db.Begin(txn.TxnOptions{AsOf: at})
			cat := n.m.Begin(tx)
			return cat, func() { tx.Rollback(ctx); _ = cat.Finish(ctx, false) }
		}
		now := n.db.Clock().Now()
		cat, done := begin(now)
		deps, other := []catalog.Dependency{{ID: id}}, []catalog.Dependency{{ID: earlier}}
		if upTo, spans := cat.UpTo(), cat.Negotiable(now.Add(-time.Second), deps); upTo.Less(now.Add(8*time.Second)) || len(spans) != 0 {
			t.Errorf("negotiable up to %s, with %s", upTo, spans)
		}
		if len(cat.Negotiable(now.Add(-90*time.Second), deps)) == 0 {
			t.Error("a read of the time before the last change of its table needs nothing of the catalogue")
		}
		if spans := cat.Negotiable(now.Add(-90*time.Second), other); len(spans) != 0 {
			t.Errorf("after a change of another table, a read needs %s", spans)
		}
		if err := cat.Covers(ctx); err != nil {
			t.Error(err)
		}
		done()

		n.deaf.Store(true)
		n.way.cut.Store(true)
		time.Sleep(30 * time.Second)
		end := n.m.Deadline()
		if !end.Less(n.db.Clock().Now().Add(-10 * time.Second)) {
			t.Fatalf("the tenure lasts until %s still", end)
		}
		cat, done = begin(end)
		if err := cat.Covers(ctx); err != nil {
			t.Errorf("at the end of the tenure: %v", err)
		}
		if x, err := cat.View(info).TableByID(ctx, id); err != nil || x == nil || x.Name != "t" {
			t.Errorf("the table: %v, %v", x, err)
		}
		if err := cat.Keeps(func() (clock.Timestamp, error) { panic("not needed yet") }); err != nil {
			t.Error(err)
		}
		done()
		cat, done = begin(end.Next())
		var unavailable *kv.UnavailableError
		if err := cat.Covers(ctx); !errors.As(err, &unavailable) {
			t.Errorf("after the end of the tenure: %v", err)
		}
		done()
		time.Sleep(lease.KeepDropped)
		cat, done = begin(end)
		defer done()
		for _, x := range []struct {
			closed clock.Timestamp
			good   bool
		}{{end, true}, {end.Add(lease.KeepDropped * 2 / 3), true}, {end.Add(lease.KeepDropped * 3 / 4), false}} {
			if err := cat.Keeps(func() (clock.Timestamp, error) { return x.closed, nil }); errors.As(err, &unavailable) == x.good || x.good && err != nil {
				t.Errorf("replicas at %s: %v", x.closed, err)
			}
		}
	})
}
