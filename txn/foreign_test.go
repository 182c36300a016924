package txn_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"meridian/clock"
	"meridian/commit"
	"meridian/commit/transaction"
	"meridian/keys"
	"meridian/kv"
	"meridian/txn"
)

// alone is a commit protocol that decides by itself, of ranges that are one map. It has what txn asks of such a protocol, and counts the calls.
type alone struct {
	commit.Finisher
	mu                              sync.Mutex
	rows                            map[string][]byte
	begun, decided, written, closed int
	write                           func(at clock.Timestamp) error // if not nil, answers Write
}

func (a *alone) Resolve(context.Context, []keys.Span, kv.TxnMeta, kv.Status, []kv.SeqRange) error {
	return nil
}

func (a *alone) Begin() txn.Coordinator {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.begun++
	return &aloneCoordinator{a}
}

type aloneCoordinator struct{ *alone }

func (a *aloneCoordinator) Get(_ context.Context, _ *kv.Txn, ks []keys.Key, _ txn.ReadOptions) ([][]byte, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := make([][]byte, len(ks))
	for i, k := range ks {
		out[i] = a.rows[string(k)]
	}
	return out, nil
}

func (a *aloneCoordinator) Scan(context.Context, *kv.Txn, txn.ScanOptions) ([]kv.KeyValue, *keys.Span, error) {
	return nil, nil, nil
}

func (a *aloneCoordinator) Write(_ context.Context, t *kv.Txn, _ []transaction.Write) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.written++
	if a.write != nil {
		return a.write(t.WriteTimestamp)
	}
	return nil
}

func (a *aloneCoordinator) Restarted(bool) {}

func (a *aloneCoordinator) HasRead(keys.Key) bool { return false }

func (a *aloneCoordinator) Confirm(context.Context, *kv.Txn, func(keys.Key) bool) error { return nil }

func (a *aloneCoordinator) Reads() bool { return false }

func (a *aloneCoordinator) Hold(context.Context, *kv.Txn, clock.Timestamp) error { return nil }

func (a *aloneCoordinator) Committed(clock.Timestamp) {}

func (a *aloneCoordinator) Decide(_ context.Context, t *kv.Txn, writes []transaction.Write, _ clock.Timestamp) (clock.Timestamp, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.decided++
	for _, w := range writes {
		a.rows[string(w.Key)] = w.Value
	}
	return t.WriteTimestamp, nil
}

func (a *aloneCoordinator) Ended() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed++
}

// newForeignWorld has ranges of the leader's protocol, and from m on one of another.
func newForeignWorld(t testing.TB) (*world, *alone, *int) {
	a := &alone{rows: map[string][]byte{}}
	w := newWorld(t, 1, txn.Options{Protocols: map[kv.Protocol]txn.Protocol{kv.FastPaxos: a}}, "m")
	desc := kv.RangeDescriptor{ID: 2, Start: keys.Key("m"), End: keys.Max}
	records := 0 // requests about transactions' records
	w.fake.Intercept(func(b *kv.Batch) error {
		for _, r := range b.Requests {
			switch r.Method() {
			case kv.MethodEndTxn, kv.MethodHeartbeatTxn:
				records++
				return nil
			}
			if k := r.Span().Start; !k.Less(desc.Start) && k.Less(desc.End) {
				return &kv.ProtocolError{Range: desc.ID, Protocol: kv.FastPaxos, Desc: &desc}
			}
		}
		return nil
	}, nil)
	return w, a, &records
}

// TestCloser: a protocol's part of a transaction is told once that it has ended, whether it was committed or rolled back, had written or had read only, and not before.
func TestCloser(t *testing.T) {
	for name, do := range map[string]func(ctx context.Context, tx *txn.Txn) error{
		"committed": func(ctx context.Context, tx *txn.Txn) error { return errors.Join(write(ctx, tx, "x"), tx.Commit(ctx)) },
		"committed by both": func(ctx context.Context, tx *txn.Txn) error {
			return errors.Join(write(ctx, tx, "x"), write(ctx, tx, "a"), tx.Commit(ctx))
		},
		"read":        func(ctx context.Context, tx *txn.Txn) error { return tx.Commit(ctx) },
		"rolled back": func(ctx context.Context, tx *txn.Txn) error { defer tx.Rollback(ctx); return write(ctx, tx, "x") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, a, _ := newForeignWorld(t)
				ctx := context.Background()
				tx := w.db.Begin(txn.TxnOptions{Isolation: kv.ReadCommitted})
				if _, err := tx.Get(ctx, keys.Key("x"), kv.NoLock, kv.Block); err != nil {
					t.Fatal(err)
				}
				if a.begun != 1 || a.closed != 0 {
					t.Errorf("begun %d times, and ended %d times before the end", a.begun, a.closed)
				}
				if err := do(ctx, tx); err != nil {
					t.Error(err)
				}
				tx.Rollback(ctx)
				time.Sleep(time.Second)
				if a.closed != 1 {
					t.Errorf("told %d times", a.closed)
				}
			})
		})
	}
}

func write(ctx context.Context, tx *txn.Txn, k string) error {
	var b txn.WriteBatch
	b.Put(keys.Key(k), []byte("1"))
	return tx.Write(ctx, &b)
}

// TestRefusedLock: a read with a lock that a range has refused because it has another protocol leaves no lock noted. So the transaction is decided by that protocol, without a record; and
// one that holds a lock elsewhere has a record.
func TestRefusedLock(t *testing.T) {
	for _, held := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w, a, records := newForeignWorld(t)
			ctx := context.Background()
			tx := w.db.Begin(txn.TxnOptions{Isolation: kv.ReadCommitted})
			if held {
				if _, err := tx.Get(ctx, keys.Key("a"), kv.Exclusive, kv.Block); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := tx.Get(ctx, keys.Key("x"), kv.Exclusive, kv.Block); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * commit.HeartbeatInterval)
			if err := errors.Join(write(ctx, tx, "x"), tx.Commit(ctx)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			if alone := a.decided == 1 && a.written == 0 && *records == 0; alone == held {
				t.Errorf("with another lock: %v; decided %d times, written %d times, %d requests about its record", held, a.decided, a.written, *records)
			}
		})
	}
}

// TestTooManyWrites: 1,024 writes in ranges of a protocol that decides by itself are committed, one more is refused before any was sent.
func TestTooManyWrites(t *testing.T) {
	for _, also := range []string{"", "a"} { // alone, and with a write of the leader's protocol
		for _, n := range []int{1024, 1025} {
			synctest.Test(t, func(t *testing.T) {
				w, a, records := newForeignWorld(t)
				ctx := context.Background()
				tx := w.db.Begin(txn.TxnOptions{Isolation: kv.ReadCommitted})
				if _, err := tx.Get(ctx, keys.Key("x"), kv.NoLock, kv.Block); err != nil {
					t.Fatal(err)
				}
				var b txn.WriteBatch
				for i := range n {
					b.Put(keys.Key(fmt.Sprintf("x%04d", i)), []byte("1"))
				}
				if also != "" {
					b.Put(keys.Key(also), []byte("1"))
				}
				err := tx.Write(ctx, &b)
				if err == nil {
					err = tx.Commit(ctx)
				}
				tx.Rollback(ctx)
				var many *txn.TooManyWritesError
				switch {
				case n == 1024 && (err != nil || a.decided+a.written != 1):
					t.Errorf("%d writes and %q: %v, decided %d times, written %d times", n, also, err, a.decided, a.written)
				case n > 1024 && (!errors.As(err, &many) || many.Writes != n || a.decided+a.written+*records > 0):
					t.Errorf("%d writes and %q: %v, decided %d times, written %d times, %d requests about its record", n, also, err, a.decided, a.written, *records)
				}
			})
		}
	}
}

// TestWritesFollowRecord: other protocols are given the writes of a commit that is staged again when the record has the later timestamp, and not at all if somebody has recovered the transaction
// as it was: they would take its earlier writes, which have committed, for given up (txn.MP1).
func TestWritesFollowRecord(t *testing.T) {
	for _, tc := range []struct {
		name string
		// recovered: the other protocol's writes are durable; somebody finds that the transaction has committed, and a range has the other protocol before the gateway hears from it.
		recovered bool
		want      string
	}{
		{"refused at first", false, "written at 1, staged at 1, staged at 2, written at 2"},
		{"recovered meanwhile", true, "written at 1, staged at 1, staged at 2"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, a, _ := newForeignWorld(t)
				w.fake.Latency.Store(int64(5 * time.Millisecond)) // the other protocol's writes take less
				var mu sync.Mutex
				var events []string
				var stamps []clock.Timestamp
				note := func(what string, at clock.Timestamp) int {
					mu.Lock()
					defer mu.Unlock()
					n := slices.Index(stamps, at)
					if n < 0 {
						n, stamps = len(stamps), append(stamps, at)
					}
					events = append(events, fmt.Sprint(what, " at ", n+1))
					return n + 1
				}
				a.write = func(at clock.Timestamp) error {
					if note("written", at) == 1 && !tc.recovered {
						return &kv.WriteTooOldError{Key: keys.Key("x"), Actual: at}
					}
					return nil
				}
				w.fake.Intercept(nil, func(b *kv.Batch) error {
					e, ok := b.Requests[len(b.Requests)-1].(*kv.EndTxnRequest)
					if !ok || len(e.InFlight) == 0 {
						return nil
					}
					if first := note("staged", b.Txn.WriteTimestamp) == 1; first && tc.recovered {
						w.fake.Recovered(b.Txn.ID)
						return &kv.ProtocolError{Range: 3, Protocol: kv.FastPaxos, Desc: &kv.RangeDescriptor{ID: 3, Start: keys.Key("c"), End: keys.Key("d"), Protocol: kv.FastPaxos}}
					}
					return nil
				})
				ctx := context.Background()
				tx := w.db.Begin(txn.TxnOptions{Isolation: kv.ReadCommitted})
				tx.Expect(keys.Span{Start: keys.Key("m"), End: keys.Max}, kv.FastPaxos)
				if err := errors.Join(write(ctx, tx, "a"), write(ctx, tx, "c"), write(ctx, tx, "x"), tx.Commit(ctx)); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Second)
				if got := strings.Join(events, ", "); got != tc.want {
					t.Errorf("%s; want %s", got, tc.want)
				}
			})
		})
	}
}
