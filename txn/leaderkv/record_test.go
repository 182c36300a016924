package leaderkv_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"meridian/keys"
	"meridian/kv"
	"meridian/txn"
	"meridian/txn/leaderkv"
)

// oneRange takes all writes to be in one range.
type oneRange struct{}

func (oneRange) OneRange(keys.Key, keys.Key) bool { return true }

// TestRecordDecides: a transaction is so old that its heartbeats have made a record, where its first lock is, and writes to
// another range only. Its record decides: a commit in one phase would leave it behind as that of somebody who has died (transaction.TC3).
func TestRecordDecides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := leaderkv.New(leaderkv.Options{Bounds: []string{"m"}})
		if err != nil {
			t.Fatal(err)
		}
		db, stop := c.Gateway("a", txn.Options{Ranges: oneRange{}})
		ctx := context.Background()
		for _, old := range []bool{false, true} {
			tx := db.Begin(txn.TxnOptions{})
			if _, err := tx.Get(ctx, keys.Key("b"), kv.Exclusive, kv.Block); err != nil {
				t.Fatal(err)
			}
			if old {
				time.Sleep(3 * time.Second)
			}
			var wb txn.WriteBatch
			wb.Put(keys.Key("n"), []byte("1"))
			if err := tx.Write(ctx, &wb); err != nil {
				t.Fatal(err)
			}
			if err := tx.Commit(ctx); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			staged, one := c.Metrics(0).Stages.Load(), c.Metrics(1).OnePhaseCommits.Load()
			if want := map[bool]int64{true: 1}[old]; staged != want || one != 1 {
				t.Errorf("old %v: %d staged at their records, %d in one phase", old, staged, one)
			}
		}
		stop()
		if err := c.Stop(); err != nil {
			t.Fatal(err)
		}
	})
}
