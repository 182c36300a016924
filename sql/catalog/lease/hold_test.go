package lease_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"meridian/sql/catalog"
	"meridian/sql/catalog/lease"
	"meridian/txn"
)

// TestHold: publication of the next version waits for a hold of the earlier one, and for no other; a hold has the newest version; it can't be had without a
// tenure, and its deadline is the tenure's.
func TestHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2, true)
		defer c.stop()
		n1, n2 := c.nodes[0], c.nodes[1]
		held, other := n1.create(t, "held"), n1.create(t, "other")
		of := func(*lease.Snapshot) []catalog.ID { return []catalog.ID{held} }
		h, err := n2.m.Hold(of)
		if err != nil || h.Snapshot().Version(held) != 1 {
			t.Fatal(err)
		}
		if err := n1.rename(other, "another"); err != nil {
			t.Fatal(err)
		}
		renamed := make(chan error, 1)
		go func() { renamed <- n1.rename(held, "renamed") }()
		time.Sleep(20 * time.Second)
		select {
		case err := <-renamed:
			t.Fatalf("the change did not wait for the hold: %v", err)
		default:
		}
		// Another hold has the new version already: at most two are in use.
		again, err := n2.m.Hold(of)
		if err != nil || again.Snapshot().Version(held) != 2 {
			t.Fatal(err)
		}
		// The tenure has been renewed since, and the publication still waits: the earlier version may be used.
		if err := n2.db.Run(context.Background(), txn.TxnOptions{}, func(ctx context.Context, tx *txn.Txn) error {
			tx.SetDeadlineSource(h)
			var b txn.WriteBatch
			b.Put([]byte("k"), []byte("v"))
			if err := tx.Write(ctx, &b); err != nil {
				return err
			}
			return tx.Commit(ctx)
		}); err != nil {
			t.Error(err)
		}
		h.Release()
		if err := <-renamed; err != nil {
			t.Fatal(err)
		}
		again.Release()
		if err := n2.m.Resign(context.Background()); err != nil {
			t.Fatal(err)
		}
		if _, err := n2.m.Hold(of); !errors.Is(err, lease.ErrNoTenure) {
			t.Errorf("without a tenure: %v", err)
		}
	})
}
