package nodetest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"meridian/commit/leader/gateway"
	"meridian/keys"
	"meridian/kv"
	"meridian/replica"
	"meridian/txn"
)

// A transaction that is far larger than its buffer commits, or is rolled back, as one, and nothing of it is left: its
// intents are resolved in small steps, by its gateway and by whoever reads them.
func TestLargeTransaction(t *testing.T) {
	for _, n := range []int{1, 3} {
		t.Run(fmt.Sprintf("nodes=%d", n), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ns := nodes(t, n, 1)
				defer func() {
					for _, s := range ns {
						s.Stop()
					}
				}()
				ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
				defer cancel()
				db := txn.NewDB(txn.Options{Records: gateway.Protocol{}, Sender: ns[0].Router(), Clock: ns[0].DB().Clock(), Host: ns[0].h, NodeID: ns[0].NodeID, BufferBytes: 64 << 10})
				key := func(i int) keys.Key { return userKey(fmt.Sprintf("big%06d", i)) }
				all := keys.Span{Start: userKey("big"), End: userKey("bih")}
				const rows = 6000
				last := ns[len(ns)-1].DB()
				count := func() (sum int) {
					err := last.Run(ctx, txn.TxnOptions{}, func(ctx context.Context, tx *txn.Txn) error {
						sum = 0
						for next := &all; next != nil; {
							page, rest, err := tx.Scan(ctx, txn.ScanOptions{Span: *next, MaxRows: 1000})
							if err != nil {
								return err
							}
							for _, r := range page {
								sum += int(r.Value[0])
							}
							next = rest
						}
						return nil
					})
					if err != nil {
						t.Error(err)
					}
					return sum
				}
				intents := func() (sum int64) {
					for _, s := range ns {
						s.Store().Replicas(func(r *replica.Replica) bool {
							sum += r.Stats().IntentCount
							return true
						})
					}
					return sum
				}
				write := func(v byte) *txn.Txn {
					tx := db.Begin(txn.TxnOptions{})
					for i := 0; i < rows; i += 500 {
						var b txn.WriteBatch
						for j := i; j < i+500; j++ {
							b.Put(key(j), []byte{v})
						}
						if err := tx.Write(ctx, &b); err != nil {
							t.Fatal(err)
						}
					}
					return tx
				}
				for v := byte(1); v < 4; v++ {
					tx := write(v)
					time.Sleep(time.Second) // they are replicated behind its back
					if intents() < rows/2 {
						t.Fatalf("%d intents: the buffer should be too small", intents())
					}
					// Those who read before and while it commits see all of it or nothing.
					stop := make(chan struct{})
					var wg sync.WaitGroup
					for range 3 {
						wg.Go(func() {
							for {
								if got := count(); got != rows*int(v) && got != rows*int(v-1) {
									t.Errorf("a reader saw %d of %d and %d", got, rows*int(v-1), rows*int(v))
								}
								select {
								case <-stop:
									return
								case <-time.After(time.Millisecond):
								}
							}
						})
					}
					if err := tx.Commit(ctx); err != nil {
						t.Fatal(err)
					}
					if got := count(); got != rows*int(v) {
						t.Errorf("%d right after the commit of %d", got, rows*int(v))
					}
					close(stop)
					wg.Wait()
					time.Sleep(5 * time.Second)
					if left := intents(); left != 0 {
						t.Errorf("%d intents are left after commit %d", left, v)
					}
				}
				tx := write(9)
				tx.Rollback(ctx)
				if got := count(); got != rows*3 {
					t.Errorf("%d after a rollback", got)
				}
				time.Sleep(5 * time.Second)
				if left := intents(); left != 0 {
					t.Errorf("%d intents are left after a rollback", left)
				}
				// Somebody's write is not held up by the end of a large transaction.
				tx = write(4)
				if err := tx.Commit(ctx); err != nil {
					t.Fatal(err)
				}
				begun := time.Now()
				if err := last.Run(ctx, txn.TxnOptions{}, func(ctx context.Context, tx *txn.Txn) error {
					_, err := tx.Get(ctx, userKey("bigger"), kv.NoLock, kv.Block)
					if err != nil {
						return err
					}
					var b txn.WriteBatch
					b.Put(userKey("bigger"), []byte{1})
					return tx.CommitBatch(ctx, &b)
				}); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(begun); took > 100*time.Millisecond {
					t.Errorf("a write beside the resolution took %v", took)
				}
			})
		})
	}
}
