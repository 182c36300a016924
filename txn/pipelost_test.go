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

// TestPipelineLost: a write under way was not made, for whatever reason. The transaction does not commit without it (txn.PW4).
func TestPipelineLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := pipeWorld(t)
		ctx := context.Background()
		w.fake.Intercept(func(b *kv.Batch) error {
			if p, ok := b.Requests[0].(*kv.PutRequest); ok && string(p.Key) == "b" {
				return &kv.UnavailableError{Reason: "the test said so"}
			}
			return nil
		}, nil)
		tx := w.db.Begin(txn.TxnOptions{})
		put(t, tx, "a", "1")
		put(t, tx, "b", "1")
		time.Sleep(150 * ms)
		if _, err := tx.Get(ctx, keys.Key("z"), kv.NoLock, kv.Block); err == nil {
			t.Error("the next read knows nothing of it")
		}
		if err := tx.Commit(ctx); err == nil {
			t.Error("committed")
		}
		tx.Rollback(ctx)
		time.Sleep(time.Second)
		if rows, err := w.db.Scan(ctx, span("a", "zz")); len(rows) > 0 || err != nil {
			t.Errorf("%v are there, %v", show(rows), err)
		}
	})
}

// TestPipelineOfAnEarlierStatement: at READ COMMITTED, a write of the first statement turns out to have been too late while
// the second one runs. Running that again would be in vain: what is lost is the first one's (txn.PW4).
func TestPipelineOfAnEarlierStatement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := pipeWorld(t)
		ctx := context.Background()
		tx := w.db.Begin(txn.TxnOptions{Isolation: kv.ReadCommitted})
		tx.BeginStatement()
		put(t, tx, "b", "1")
		synctest.Wait()
		w.fake.Latency.Store(0) // from here on everything overtakes it
		if err := w.db.Put(ctx, keys.Key("b"), []byte("later")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(150 * ms)
		tx.BeginStatement()
		_, err := tx.Get(ctx, keys.Key("y"), kv.NoLock, kv.Block)
		if !txn.Retriable(err) {
			t.Fatalf("the second statement: %v", err)
		}
		if tx.MayRestartStatement(err) {
			t.Error("it may begin anew")
		}
		tx.Rollback(ctx)
	})
}
