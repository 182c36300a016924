package txn_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"meridian/keys"
	"meridian/kv"
	"meridian/txn"
)

// TestExternalFromNowOn: a transaction that becomes externally consistent after it has read commits at no earlier time than one that was from the beginning: not before the Latest of true time when the commit
// begins (txn.TX11), and is answered when that is past (txn.TX12).
func TestExternalFromNowOn(t *testing.T) {
	for _, before := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, 1, txn.Options{})
			ctx := context.Background()
			x := w.db.Begin(txn.TxnOptions{})
			if before {
				if _, err := x.Get(ctx, keys.Key("a"), kv.NoLock, kv.Block); err != nil {
					t.Fatal(err)
				}
			}
			x.BeExternal()
			time.Sleep(time.Second)
			var wb txn.WriteBatch
			wb.Put(keys.Key("b"), []byte("1"))
			if err := x.Write(ctx, &wb); err != nil {
				t.Fatal(err)
			}
			latest := w.db.Clock().TrueTime().Latest
			if err := x.Commit(ctx); err != nil {
				t.Fatal(err)
			}
			if at := x.CommitTimestamp(); at.Less(latest) {
				t.Errorf("it has committed at %s, before %s", at, latest)
			} else if !w.db.Clock().TrueTime().After(at) {
				t.Errorf("it was answered before %s was past", at)
			}
		})
	}
}
