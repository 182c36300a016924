package txn_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"meridian/keys"
	"meridian/kv"
	"meridian/txn"
)

// TestBank moves money between accounts on several ranges from many transactions at once, with locks and without,
// while answers get lost. Every transaction that reads all accounts and commits must have seen the same total (I2,
// I3).
func TestBank(t *testing.T) {
	for _, tc := range []struct {
		name string
		o    txn.Options
	}{{"two phases", txn.Options{TwoPhases: true}}, {"parallel commit", txn.Options{}}, {"early flush", txn.Options{BufferBytes: 1}}} {
		for seed := range uint64(4) {
			t.Run(fmt.Sprintf("%s/%d", tc.name, seed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { bank(t, tc.o, seed) })
			})
		}
	}
}

const (
	accounts = 6
	initial  = 100
)

func account(i int) keys.Key { return keys.Key(fmt.Sprintf("acc%d", i)) }

func bank(t *testing.T, o txn.Options, seed uint64) {
	w := newWorld(t, seed, o, "acc2", "acc4")
	ctx := context.Background()
	for i := range accounts {
		if err := w.db.Put(ctx, account(i), []byte(strconv.Itoa(initial))); err != nil {
			t.Fatal(err)
		}
	}
	dice := rand.New(rand.NewPCG(seed, 2))
	w.fake.Slow.Store(int64(2 * time.Millisecond))
	w.fake.Intercept(nil, func(b *kv.Batch) error {
		if b.Txn == nil || dice.IntN(50) != 0 {
			return nil
		}
		return &kv.AmbiguousError{Reason: "the dice said so"}
	})
	var (
		wg                         sync.WaitGroup
		mu                         sync.Mutex
		done, ambiguous, contended int
	)
	for worker := range 5 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			d := rand.New(rand.NewPCG(seed, uint64(worker)+10))
			for range 40 {
				err := w.db.Run(ctx, txn.TxnOptions{}, func(ctx context.Context, tx *txn.Txn) error {
					if d.IntN(4) == 0 {
						return audit(ctx, tx)
					}
					return transfer(ctx, tx, d)
				})
				var lost *kv.AmbiguousError
				mu.Lock()
				switch {
				case err == nil:
					done++
				case errors.As(err, &lost):
					ambiguous++
				default:
					contended++
					t.Errorf("worker %d: %v", worker, err)
				}
				mu.Unlock()
				w.h.Clock.Sleep(ctx, time.Duration(d.IntN(3000))*time.Microsecond)
			}
		}()
	}
	wg.Wait()
	w.fake.Intercept(nil, nil)
	if err := w.db.Run(ctx, txn.TxnOptions{ReadOnly: true}, audit); err != nil {
		t.Error(err)
	}
	if done < 100 || ambiguous == 0 {
		t.Errorf("%d done, %d ambiguous: the test tests little", done, ambiguous)
	}
	if w.db.Metrics().Restarts.Load() == 0 || w.db.Metrics().Refreshes.Load() == 0 {
		t.Error("no contention: the test tests little")
	}
	w.h.Group.Stop()
}

func audit(ctx context.Context, tx *txn.Txn) error {
	rows, _, err := tx.Scan(ctx, txn.ScanOptions{Span: span("acc", "acd")})
	if err != nil {
		return err
	}
	sum := 0
	for _, r := range rows {
		n, _ := strconv.Atoi(string(r.Value))
		sum += n
	}
	if err := tx.Commit(ctx); err != nil {
		return err
	}
	if sum != accounts*initial || len(rows) != accounts {
		return fmt.Errorf("%d accounts with %d at %s", len(rows), sum, tx.CommitTimestamp())
	}
	return nil
}

func transfer(ctx context.Context, tx *txn.Txn, d *rand.Rand) error {
	from, to := d.IntN(accounts), d.IntN(accounts)
	if from == to {
		return nil
	}
	lock := kv.LockStrength(d.IntN(2) * 2)
	a, err := tx.Get(ctx, account(from), lock, kv.Block)
	if err != nil {
		return err
	}
	b, err := tx.Get(ctx, account(to), lock, kv.Block)
	if err != nil {
		return err
	}
	x, _ := strconv.Atoi(string(a))
	y, _ := strconv.Atoi(string(b))
	n := d.IntN(10)
	var wb txn.WriteBatch
	wb.Put(account(from), []byte(strconv.Itoa(x-n)))
	if err := tx.Write(ctx, &wb); err != nil {
		return err
	}
	tx.StepStatement()
	wb.Reset()
	wb.Put(account(to), []byte(strconv.Itoa(y+n)))
	if d.IntN(2) == 0 {
		return tx.CommitBatch(ctx, &wb)
	}
	return tx.Write(ctx, &wb)
}

// TestWriteSkew: of two transactions that each read both rows and write one, only one commits as it is (I3).
func TestWriteSkew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, txn.Options{}, "m")
		ctx := context.Background()
		a, b := w.db.Begin(txn.TxnOptions{}), w.db.Begin(txn.TxnOptions{})
		for _, tx := range []*txn.Txn{a, b} {
			if _, err := tx.GetMany(ctx, []keys.Key{keys.Key("a"), keys.Key("z")}, kv.NoLock, kv.Block); err != nil {
				t.Fatal(err)
			}
		}
		put := func(tx *txn.Txn, k string) error {
			var wb txn.WriteBatch
			wb.Put(keys.Key(k), []byte("1"))
			if err := tx.Write(ctx, &wb); err != nil {
				return err
			}
			return tx.Commit(ctx)
		}
		if err := put(a, "a"); err != nil {
			t.Fatal(err)
		}
		var retry *txn.RetryError
		if err := put(b, "z"); !errors.As(err, &retry) {
			t.Fatalf("second commit: %v", err)
		}
		if err := b.Restart(ctx); err != nil {
			t.Fatal(err)
		}
		if b.Attempt() != 1 {
			t.Errorf("attempt %d", b.Attempt())
		}
		v, err := b.Get(ctx, keys.Key("a"), kv.NoLock, kv.Block)
		if err != nil || string(v) != "1" {
			t.Fatalf("after the restart: %q, %v", v, err)
		}
		if err := put(b, "z"); err != nil {
			t.Fatal(err)
		}
		w.h.Group.Stop()
	})
}

// TestHeartbeat: a transaction that holds a lock shows signs of life, learns that it was aborted, and starts over
// under another identity; one that holds nothing stays silent.
func TestHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, txn.Options{})
		ctx := context.Background()
		silent, tx := w.db.Begin(txn.TxnOptions{}), w.db.Begin(txn.TxnOptions{})
		if _, err := silent.Get(ctx, keys.Key("x"), kv.NoLock, kv.Block); err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Get(ctx, keys.Key("k"), kv.Exclusive, kv.Block); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		if beats, ok := w.fake.Record(tx.ID()); !ok || beats < 8 || beats > 12 {
			t.Errorf("after ten seconds: %d heartbeats, %t", beats, ok)
		}
		if _, ok := w.fake.Record(silent.ID()); ok {
			t.Error("a reader has a record")
		}
		w.fake.Abort(tx.ID())
		time.Sleep(2 * time.Second)
		var wb txn.WriteBatch
		wb.Put(keys.Key("k"), []byte("v"))
		var retry *txn.RetryError
		if err := tx.Write(ctx, &wb); !errors.As(err, &retry) {
			t.Fatalf("after the abort: %v", err)
		}
		old := tx.ID()
		if err := tx.Restart(ctx); err != nil {
			t.Fatal(err)
		}
		if tx.ID() == old {
			t.Error("the identity of an aborted transaction is used again")
		}
		if err := tx.CommitBatch(ctx, &wb); err != nil {
			t.Fatal(err)
		}
		if err := silent.Commit(ctx); err != nil {
			t.Fatal(err)
		}
		beats := w.db.Metrics().Heartbeats.Load()
		time.Sleep(5 * time.Second)
		if now := w.db.Metrics().Heartbeats.Load(); now != beats {
			t.Error("heartbeats after the end")
		}
		w.h.Group.Stop()
	})
}

// TestFirstLockOfAnOldTransaction: a transaction that comes to its first lock late has its record before, because
// others would measure its life from its beginning and take it for dead.
func TestFirstLockOfAnOldTransaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, txn.Options{})
		ctx := context.Background()
		for _, age := range []time.Duration{0, 10 * time.Second} {
			tx := w.db.Begin(txn.TxnOptions{})
			if _, err := tx.Get(ctx, keys.Key("x"), kv.NoLock, kv.Block); err != nil {
				t.Fatal(err)
			}
			time.Sleep(age)
			if _, err := tx.Get(ctx, keys.Key("k"), kv.Exclusive, kv.Block); err != nil {
				t.Fatal(err)
			}
			if _, ok := w.fake.Record(tx.ID()); ok != (age > 0) {
				t.Errorf("at the first lock after %s: record %t", age, ok)
			}
			tx.Rollback(ctx)
		}
		w.h.Group.Stop()
	})
}

// TestErrors: what may not be done, and what is said then.
func TestErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, txn.Options{})
		ctx := context.Background()
		var wb txn.WriteBatch
		wb.PutNew(keys.Key("k"), []byte("v"))
		ro := w.db.Begin(txn.TxnOptions{ReadOnly: true})
		if err := ro.Write(ctx, &wb); err != txn.ErrReadOnly {
			t.Errorf("write in a read-only transaction: %v", err)
		}
		past := w.db.Begin(txn.TxnOptions{AsOf: w.db.Clock().Now()})
		if err := past.CommitBatch(ctx, &wb); err != txn.ErrReadOnly {
			t.Errorf("write in the past: %v", err)
		}
		tx := w.db.Begin(txn.TxnOptions{})
		if err := tx.CommitBatch(ctx, &wb); err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Get(ctx, keys.Key("k"), kv.NoLock, kv.Block); err != txn.ErrFinished {
			t.Errorf("use after the commit: %v", err)
		}
		if v, err := past.Get(ctx, keys.Key("k"), kv.NoLock, kv.Block); v != nil || err != nil {
			t.Errorf("the past has changed: %q, %v", v, err)
		}
		var exists *kv.ConditionFailedError
		if err := w.db.Begin(txn.TxnOptions{}).CommitBatch(ctx, &wb); !errors.As(err, &exists) || string(exists.Actual) != "v" {
			t.Errorf("duplicate in an autocommit: %v", err)
		}
		tx = w.db.Begin(txn.TxnOptions{})
		if err := tx.Write(ctx, &wb); !errors.As(err, &exists) || string(exists.Actual) != "v" {
			t.Errorf("duplicate in a transaction: %v", err)
		}
		// The statement failed, the transaction did not.
		wb.Reset()
		wb.Put(keys.Key("l"), []byte("w"))
		tx.SetDeadline(tx.ReadTimestamp().Prev())
		if err := tx.Write(ctx, &wb); err != nil {
			t.Fatal(err)
		}
		var retry *txn.RetryError
		if err := tx.Commit(ctx); !errors.As(err, &retry) {
			t.Errorf("commit after the deadline: %v", err)
		}
		tx.SetDeadline(w.db.Clock().Now().Add(time.Minute))
		if err := tx.Restart(ctx); err != nil {
			t.Fatal(err)
		}
		if err := tx.CommitBatch(ctx, &wb); err != nil {
			t.Errorf("commit before the deadline: %v", err)
		}
		w.h.Group.Stop()
	})
}

// TestOnePhase: one range, one request.
func TestOnePhase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, txn.Options{}, "m")
		ctx := context.Background()
		var wb txn.WriteBatch
		wb.PutNew(keys.Key("a"), []byte("1"))
		wb.Put(keys.Key("b"), []byte("1"))
		if err := w.db.Begin(txn.TxnOptions{}).CommitBatch(ctx, &wb); err != nil {
			t.Fatal(err)
		}
		m := w.db.Metrics()
		if gets, ends := w.fake.Seen("GetRequest"), w.fake.Seen("EndTxnRequest"); m.OnePhaseCommits.Load() != 1 || gets != 0 || ends != 1 {
			t.Errorf("one range: %d reads, %d ends", gets, ends)
		}
		// A lock elsewhere does not prevent it: nothing depends on the record yet (transaction.TC3).
		tx := w.db.Begin(txn.TxnOptions{})
		if _, err := tx.Get(ctx, keys.Key("x"), kv.Shared, kv.Block); err != nil {
			t.Fatal(err)
		}
		wb.Reset()
		wb.Put(keys.Key("a"), []byte("2"))
		if err := tx.CommitBatch(ctx, &wb); err != nil {
			t.Fatal(err)
		}
		if m.OnePhaseCommits.Load() != 2 {
			t.Error("a lock on another range prevented a one-phase commit")
		}
		if err := synctestDrained(w); err != nil {
			t.Error(err)
		}
		w.h.Group.Stop()
	})
}
