package txn_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"meridian/clock"
	"meridian/commit/leader/gateway"
	"meridian/commit/transaction"
	"meridian/keys"
	"meridian/kv"
	"meridian/txn"
)

// pipeWorld is a fake cluster whose answers all take 100 ms, and transactions that send every batch of writes at once.
func pipeWorld(t *testing.T) *world {
	w := newWorld(t, 1, txn.Options{BufferBytes: 1}, "m")
	w.fake.Latency.Store(int64(100 * ms))
	return w
}

func put(t *testing.T, tx *txn.Txn, k, v string) {
	t.Helper()
	if err := tryPut(tx, k, v); err != nil {
		t.Fatalf("%s: %v", k, err)
	}
}

func tryPut(tx *txn.Txn, k, v string) error {
	var b txn.WriteBatch
	b.Put(keys.Key(k), []byte(v))
	return tx.Write(context.Background(), &b)
}

func took(t *testing.T, what string, want time.Duration, f func()) {
	t.Helper()
	start := time.Now()
	f()
	if d := time.Since(start); d != want {
		t.Errorf("%s took %s, want %s", what, d, want)
	}
}

const ms = time.Millisecond

// TestPipeline: writes that are sent early cost no round trip each. Up to eight are under way; a request for one of their
// keys waits for it, and the record is staged while they are (txn.PW3).
func TestPipeline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := pipeWorld(t)
		ctx := context.Background()
		tx := w.db.Begin(txn.TxnOptions{})
		took(t, "eight writes", 0, func() {
			for i := range 8 {
				put(t, tx, fmt.Sprintf("k%d", i), "1")
			}
		})
		tx.StepStatement()
		took(t, "a read of another key", 100*ms, func() {
			if v, err := tx.Get(ctx, keys.Key("z"), kv.NoLock, kv.Block); v != nil || err != nil {
				t.Errorf("read %q, %v", v, err)
			}
		})
		took(t, "writes of other keys", 40*ms, func() {
			put(t, tx, "o", "1")
			time.Sleep(40 * ms)
			put(t, tx, "p", "1")
		})
		took(t, "the same key again", 60*ms, func() { put(t, tx, "o", "2") })
		tx.StepStatement()
		took(t, "a read of a key under way", 200*ms, func() {
			if v, err := tx.Get(ctx, keys.Key("o"), kv.NoLock, kv.Block); string(v) != "2" || err != nil {
				t.Errorf("read %q, %v", v, err)
			}
		})
		put(t, tx, "q", "1")
		put(t, tx, "r", "1")
		took(t, "a scan over a key under way", 200*ms, func() {
			if rows, _, err := tx.Scan(ctx, txn.ScanOptions{Span: span("k", "rz")}); len(rows) != 10 || err != nil {
				t.Errorf("read %d rows, %v", len(rows), err)
			}
		})
		start := time.Now()
		for i := range 80 {
			put(t, tx, fmt.Sprintf("x%d", i), "1")
		}
		if d := time.Since(start); d != 900*ms { // the first eight leave at once
			t.Errorf("80 writes took %s", d)
		}
		took(t, "the commit", 100*ms, func() {
			if err := tx.Commit(ctx); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		time.Sleep(time.Second)
		if err := synctestDrained(w); err != nil {
			t.Error(err)
		}
		rows, err := w.db.Scan(ctx, span("a", "zz"))
		if len(rows) != 8+2+2+80 || err != nil {
			t.Errorf("%d rows are there, %v", len(rows), err)
		}
	})
}

// TestPipelineFails: what goes wrong with a write under way comes out at the next operation after it, or the commit.
func TestPipelineFails(t *testing.T) {
	for _, next := range []string{"write", "read", "commit"} {
		t.Run(next, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := pipeWorld(t)
				ctx := context.Background()
				tx := w.db.Begin(txn.TxnOptions{})
				w.fake.Intercept(func(b *kv.Batch) error {
					if p, ok := b.Requests[0].(*kv.PutRequest); ok && string(p.Key) == "b" {
						return &kv.TxnAbortedError{ID: tx.ID(), Reason: "the test said so"}
					}
					return nil
				}, nil)
				put(t, tx, "a", "1")
				put(t, tx, "b", "1")
				put(t, tx, "c", "1")
				var err error
				switch next {
				case "write":
					time.Sleep(150 * ms)
					err = tryPut(tx, "d", "1")
				case "read":
					time.Sleep(150 * ms)
					_, err = tx.Get(ctx, keys.Key("z"), kv.NoLock, kv.Block)
				case "commit":
					err = tx.Commit(ctx)
				}
				var retry *txn.RetryError
				if !errors.As(err, &retry) {
					t.Fatalf("the answer was %v", err)
				}
				w.fake.Intercept(nil, nil)
				if err := tx.Restart(ctx); err != nil {
					t.Fatal(err)
				}
				put(t, tx, "b", "2")
				if err := tx.Commit(ctx); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Second)
				if err := synctestDrained(w); err != nil {
					t.Error(err)
				}
				if rows, _ := w.db.Scan(ctx, span("a", "zz")); fmt.Sprint(show(rows)) != "[b=2]" {
					t.Errorf("committed %v", show(rows))
				}
			})
		})
	}
}

// TestPipelineMoves: a write under way that comes too late moves the timestamp once it is settled, if nothing that the
// transaction has read since has changed (txn.PW2), and writes that were rolled back meanwhile are not sent again.
func TestPipelineMoves(t *testing.T) {
	for _, stale := range []bool{false, true} {
		t.Run(fmt.Sprintf("stale=%t", stale), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := pipeWorld(t)
				ctx := context.Background()
				db := func(k, v string) {
					if err := w.db.Put(ctx, keys.Key(k), []byte(v)); err != nil {
						t.Fatal(err)
					}
				}
				tx := w.db.Begin(txn.TxnOptions{})
				put(t, tx, "a", "1")
				put(t, tx, "b", "1")
				s := tx.Savepoint()
				put(t, tx, "c", "1")
				synctest.Wait()
				w.fake.Latency.Store(0) // from here on everything overtakes those three
				if v, err := tx.Get(ctx, keys.Key("y"), kv.NoLock, kv.Block); v != nil || err != nil {
					t.Fatalf("read %q, %v", v, err)
				}
				if stale {
					db("y", "new")
				}
				db("b", "later")
				db("c", "later")
				if err := tx.RollbackTo(s); err != nil {
					t.Fatal(err)
				}
				err := tx.Commit(ctx)
				var retry *txn.RetryError
				if stale != errors.As(err, &retry) || !stale && err != nil {
					t.Fatalf("the commit said %v", err)
				}
				tx.Rollback(ctx)
				time.Sleep(time.Second)
				if err := synctestDrained(w); err != nil {
					t.Error(err)
				}
				want := "[a=1 b=1 c=later]"
				if stale {
					want = "[b=later c=later y=new]"
				}
				if rows, _ := w.db.Scan(ctx, span("a", "zz")); fmt.Sprint(show(rows)) != want {
					t.Errorf("committed %v, want %s", show(rows), want)
				}
			})
		})
	}
}

// TestPipelineRollback: a rollback does not wait for what is under way, and nothing of it is left behind.
func TestPipelineRollback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := pipeWorld(t)
		tx := w.db.Begin(txn.TxnOptions{})
		for i := range 5 {
			put(t, tx, fmt.Sprintf("k%d", i), "1")
			time.Sleep(30 * ms)
		}
		took(t, "the rollback", 0, func() { tx.Rollback(context.Background()) })
		time.Sleep(time.Second)
		if err := synctestDrained(w); err != nil {
			t.Error(err)
		}
		if rows, _ := w.db.Scan(context.Background(), span("a", "zz")); len(rows) > 0 {
			t.Errorf("%d rows are there", len(rows))
		}
	})
}

// deaf is a network that does not call back what was sent, whoever has stopped waiting for it.
type deaf struct{ txn.Sender }

func (d deaf) Send(ctx context.Context, b *kv.Batch) (*kv.BatchResponse, error) {
	return d.Sender.Send(context.WithoutCancel(ctx), b)
}

// TestPipelineOvertaken: an attempt ends while its writes are still on their way and can't be called back, and what cleans
// up behind it is faster than they are. It waits for them, else they would write intents of which no coordinator knows (txn.PW5).
func TestPipelineOvertaken(t *testing.T) {
	for _, end := range []string{"rollback", "restart"} {
		t.Run(end, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := pipeWorld(t)
				ctx := context.Background()
				w.db = txn.NewDB(txn.Options{Records: gateway.Protocol{}, BufferBytes: 1, Sender: deaf{w.fake}, Clock: clock.New(w.h.Clock, clock.DefaultMaxOffset), Host: w.h,
					NodeID: func() kv.NodeID { return 1 }})
				tx := w.db.Begin(txn.TxnOptions{})
				if end == "restart" {
					w.fake.Intercept(func(b *kv.Batch) error {
						if p, ok := b.Requests[0].(*kv.PutRequest); ok && string(p.Key) == "k0" {
							return &kv.TxnAbortedError{ID: tx.ID(), Reason: "the test said so"}
						}
						return nil
					}, nil)
				}
				for i := range 5 {
					put(t, tx, fmt.Sprintf("k%d", i), "1")
					time.Sleep(20 * ms)
				}
				time.Sleep(10 * ms) // k0 is there, the others are still under way
				w.fake.Latency.Store(0)
				if end == "rollback" {
					took(t, "the rollback", 0, func() { tx.Rollback(ctx) })
				} else {
					var retry *txn.RetryError
					if err := tryPut(tx, "z", "1"); !errors.As(err, &retry) {
						t.Fatalf("the answer was %v", err)
					}
					took(t, "the restart, until k4 is there", 70*ms, func() {
						if err := tx.Restart(ctx); err != nil {
							t.Error(err)
						}
					})
					tx.Rollback(ctx)
				}
				time.Sleep(time.Second)
				if err := synctestDrained(w); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestCommitInParts: a commit that is too large for one batch sends its parts together, and the record with them.
func TestCommitInParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, txn.Options{}, "m")
		w.fake.Latency.Store(int64(100 * ms))
		tx := w.db.Begin(txn.TxnOptions{})
		for i := range 30 {
			put(t, tx, fmt.Sprintf("k%02d", i), string(make([]byte, 100<<10)))
		}
		took(t, "the commit", 100*ms, func() {
			if err := tx.Commit(context.Background()); err != nil {
				t.Error(err)
			}
		})
		time.Sleep(time.Second)
		if err := synctestDrained(w); err != nil {
			t.Error(err)
		}
	})
}

// TestRecordsListIsBounded: more writes are under way than a record may list. The commit waits for those that were sent first, and no
// longer: they were sent at the same moment, so that is one more round.
func TestRecordsListIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, txn.Options{}, "m")
		w.fake.Latency.Store(int64(100 * ms))
		listed := 0
		w.fake.Intercept(func(b *kv.Batch) error {
			if e, ok := b.Requests[len(b.Requests)-1].(*kv.EndTxnRequest); ok {
				listed = max(listed, len(e.InFlight))
			}
			return nil
		}, nil)
		tx := w.db.Begin(txn.TxnOptions{})
		const rows = 99_000
		for i := 0; i < rows; i += 1000 {
			var b txn.WriteBatch
			for j := range 1000 {
				b.Put(keys.Key(fmt.Sprintf("k%05d", i+j)), nil)
			}
			if err := tx.Write(context.Background(), &b); err != nil {
				t.Fatal(err)
			}
		}
		took(t, "the commit", 200*ms, func() {
			if err := tx.Commit(context.Background()); err != nil {
				t.Error(err)
			}
		})
		if listed > transaction.MaxInFlight || listed < 40_000 {
			t.Errorf("the record lists %d writes", listed)
		}
		w.fake.Latency.Store(0)
		time.Sleep(time.Minute)
		if n, err := w.db.Scan(context.Background(), span("k", "l")); len(n) != rows || err != nil {
			t.Errorf("%d rows are there, %v", len(n), err)
		}
	})
}
