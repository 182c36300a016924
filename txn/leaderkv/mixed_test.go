package leaderkv_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"meridian/commit"
	"meridian/commit/register"
	"meridian/keys"
	"meridian/kv"
	"meridian/txn"
	"meridian/txn/leaderkv"
)

// mixed runs f with a cluster whose second range, from m on, has registers, and a third one, from t on, the leader protocol.
func mixed(t *testing.T, wire leaderkv.Wire, f func(ctx context.Context, c *leaderkv.Cluster, db *txn.DB)) {
	synctest.Test(t, func(t *testing.T) {
		c, err := leaderkv.New(leaderkv.Options{Bounds: []string{"m", "t"}, Registers: []int{1}, Wire: wire})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		db, stop := c.Gateway("a", txn.Options{})
		f(context.Background(), c, db)
		stop()
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
}

// read reads keys in a transaction of its own.
func read(t *testing.T, db *txn.DB, ks ...string) (out []string) {
	t.Helper()
	err := db.Run(context.Background(), txn.TxnOptions{ReadOnly: true}, func(ctx context.Context, x *txn.Txn) error {
		out = out[:0]
		for _, k := range ks {
			v, err := x.Get(ctx, keys.Key(k), kv.NoLock, kv.Block)
			if err != nil {
				return err
			}
			out = append(out, string(v))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestMixed: one transaction over ranges of two protocols, whichever it meets first: it reads its own writes and what others have left,
// goes back to savepoints, commits with one record that lists what is not in its own range, and leaves nothing behind.
func TestMixed(t *testing.T) {
	for _, tc := range []struct {
		name   string
		ks     []string // in the order in which they are written
		stages int64    // records staged at each of the ranges
	}{
		{"leader first", []string{"b", "n"}, 1},
		{"register first", []string{"n", "b"}, 1},
		{"registers only", []string{"n", "o"}, 1},
		{"three ranges", []string{"b", "n", "x"}, 1},
		{"one register", []string{"n"}, 1},
		{"no register", []string{"b", "x"}, 1},
	} {
		for _, o := range []txn.TxnOptions{{}, {Isolation: kv.ReadCommitted}} {
			t.Run(fmt.Sprint(tc.name, o.Isolation), func(t *testing.T) {
				mixed(t, listed(t), func(ctx context.Context, c *leaderkv.Cluster, db *txn.DB) {
					for round, value := range []string{"1", "2"} {
						x := db.Begin(o)
						x.BeginStatement()
						var wb txn.WriteBatch
						for _, k := range tc.ks {
							wb.Put(keys.Key(k), []byte(value))
						}
						if err := x.Write(ctx, &wb); err != nil {
							t.Fatal(err)
						}
						s := x.Savepoint()
						var more txn.WriteBatch
						for _, k := range tc.ks {
							more.Put(keys.Key(k), []byte("rolled back"))
						}
						if err := x.Write(ctx, &more); err != nil {
							t.Fatal(err)
						}
						if err := x.RollbackTo(s); err != nil {
							t.Fatal(err)
						}
						x.BeginStatement()
						for _, k := range tc.ks {
							if v, err := x.Get(ctx, keys.Key(k), kv.NoLock, kv.Block); err != nil || string(v) != value {
								t.Fatalf("%s: %q, %v, in the transaction that wrote %q", k, v, err, value)
							}
						}
						before := staged(c)
						if err := x.Commit(ctx); err != nil {
							t.Fatal(err)
						}
						if got := staged(c) - before; got != tc.stages {
							t.Errorf("round %d: %d staging records, want %d", round, got, tc.stages)
						}
						other, stop := c.Gateway("other", txn.Options{})
						for i, v := range read(t, other, tc.ks...) {
							if v != value {
								t.Errorf("%s: %q after the commit of %q", tc.ks[i], v, value)
							}
						}
						stop()
						time.Sleep(time.Second)
						if err := c.Clean(); err != nil {
							t.Errorf("a second after the commit: %v", err)
						}
					}
				})
			})
		}
	}
}

// listed is a wire that looks at the lists of staging records: each write is there once, with the protocol of its range (txn.MP1), though
// recovery would find out (commit.CR5).
func listed(t *testing.T) leaderkv.Wire {
	return func(ctx context.Context, m *leaderkv.Message, deliver func(context.Context) ([]byte, error)) ([]byte, error) {
		for _, r := range m.Batch.Requests {
			e, ok := r.(*kv.EndTxnRequest)
			if !ok {
				continue
			}
			seen := map[string]bool{}
			for _, w := range e.InFlight {
				want := kv.Leader
				if k := string(w.Key); k >= "m" && k < "t" {
					want = register.Protocol
				}
				if w.Protocol != want || seen[string(w.Key)] {
					t.Errorf("the record lists %v: %s is %s's, or is there twice", e.InFlight, w.Key, want)
				}
				seen[string(w.Key)] = true
			}
		}
		return deliver(ctx)
	}
}

func staged(c *leaderkv.Cluster) (n int64) {
	for i := range c.Ranges() {
		n += c.Metrics(i).Stages.Load()
	}
	return n
}

// TestPreventedUnderAnotherProtocol: a transaction's gateway stands still between its record and its write of a register. Meanwhile the range
// has the leader protocol, which prevents the write when the transaction is recovered, and registers again. The write comes too late, though
// none of the range's registers was told so (register.RG7).
func TestPreventedUnderAnotherProtocol(t *testing.T) {
	var staged, released chan struct{} // of the present bubble
	var once *sync.Once
	wire := func(ctx context.Context, m *leaderkv.Message, deliver func(context.Context) ([]byte, error)) ([]byte, error) {
		if m.From != "a" {
			return deliver(ctx)
		}
		if r, ok := m.Batch.Requests[0].(*kv.ProtocolRequest); ok {
			q, err := register.DecodeRequest(r.Body)
			if err != nil {
				t.Error(err)
			}
			if q.Kind == register.Accept {
				once.Do(func() { close(staged) })
			}
		}
		select {
		case <-staged:
			if _, ok := m.Batch.Requests[len(m.Batch.Requests)-1].(*kv.EndTxnRequest); !ok {
				<-released
			}
		default:
		}
		return deliver(ctx)
	}
	for _, again := range []bool{true, false} {
		mixed(t, wire, func(ctx context.Context, c *leaderkv.Cluster, db *txn.DB) {
			staged, released, once = make(chan struct{}), make(chan struct{}), &sync.Once{}
			done := make(chan error)
			go func() {
				x := db.Begin(txn.TxnOptions{})
				var wb txn.WriteBatch
				wb.Put(keys.Key("b"), []byte("1"))
				wb.Put(keys.Key("n"), []byte("1"))
				err := x.Write(ctx, &wb)
				if err == nil {
					err = x.Commit(ctx)
				}
				done <- err
			}()
			<-staged
			time.Sleep(100 * time.Millisecond)
			if err := c.Become(ctx, 1, kv.Leader); err != nil {
				t.Fatal(err)
			}
			other, stop := c.Gateway("other", txn.Options{})
			defer stop()
			if got := read(t, other, "b"); got[0] != "" {
				t.Errorf("the transaction is there: %q", got)
			}
			if again {
				if err := c.Become(ctx, 1, register.Protocol); err != nil {
					t.Fatal(err)
				}
			}
			close(released)
			if err := <-done; err == nil {
				t.Errorf("committed, and there is %q", read(t, other, "b", "n"))
			} else if got := read(t, other, "b", "n"); got[0] != "" || got[1] != "" {
				t.Errorf("%v, and there is %q", err, got)
			}
		})
	}
}

// TestFloorOfPreventions: a write that was prevented ahead of all clocks is below what the range's next protocol writes, since the prevention
// itself is gone (register.RG7).
func TestFloorOfPreventions(t *testing.T) {
	mixed(t, nil, func(ctx context.Context, c *leaderkv.Cluster, db *txn.DB) {
		x, stop := c.Client("c")
		defer stop()
		at := db.Clock().Now().Add(5 * time.Second)
		all, err := x.Witness(ctx, commit.NewRecord(&kv.Txn{TxnMeta: kv.TxnMeta{ID: kv.TxnID{9}, WriteTimestamp: at, Seq: 1}}, kv.Staging),
			[]kv.InFlightWrite{{Key: keys.Key("n"), Seq: 1}})
		if all || err != nil {
			t.Fatal(all, err)
		}
		if err := c.Become(ctx, 1, kv.Leader); err != nil {
			t.Fatal(err)
		}
		y := db.Begin(txn.TxnOptions{})
		var wb txn.WriteBatch
		wb.Put(keys.Key("n"), []byte("1"))
		if err := y.Write(ctx, &wb); err != nil {
			t.Fatal(err)
		}
		if meta, err := y.Lay(ctx); err != nil || meta.WriteTimestamp.LessEq(at) {
			t.Errorf("written at %s, %v, and a write at %s was prevented", meta.WriteTimestamp, err, at)
		}
		y.Rollback(ctx)
	})
}

// TestCommittedMeanwhile: a transaction's gateway stands still before it has heard that its write of a register is durable. Meanwhile a
// change of the range's protocol, and perhaps another one back, recovers the transaction, which has committed, and makes the write an
// ordinary version. The record is asked then (txn.MP4); if the sweep has removed it as well, nobody can tell, and the gateway does not guess.
func TestCommittedMeanwhile(t *testing.T) {
	for _, tc := range []struct {
		back  bool
		still time.Duration
	}{{false, time.Second}, {true, time.Second}, {false, 5 * time.Minute}, {true, 5 * time.Minute}} {
		t.Run(fmt.Sprintf("back %v, %s", tc.back, tc.still), func(t *testing.T) {
			var accepted, released chan struct{} // of the bubble
			var accepts atomic.Int64
			wire := func(ctx context.Context, m *leaderkv.Message, deliver func(context.Context) ([]byte, error)) ([]byte, error) {
				if m.From != "a" {
					return deliver(ctx)
				}
				b, err := deliver(ctx)
				if r, ok := m.Batch.Requests[0].(*kv.ProtocolRequest); ok {
					q, err := register.DecodeRequest(r.Body)
					if err != nil {
						t.Error(err)
					}
					if q.Kind == register.Accept && accepts.Add(1) == 3 {
						close(accepted)
					}
				}
				if accepts.Load() > 0 {
					<-released
				}
				return b, err
			}
			mixed(t, wire, func(ctx context.Context, c *leaderkv.Cluster, db *txn.DB) {
				accepted, released = make(chan struct{}), make(chan struct{})
				done := make(chan error)
				go func() {
					x := db.Begin(txn.TxnOptions{})
					var wb txn.WriteBatch
					wb.Put(keys.Key("b"), []byte("1"))
					wb.Put(keys.Key("n"), []byte("1"))
					err := x.Write(ctx, &wb)
					if err == nil {
						err = x.Commit(ctx)
					}
					done <- err
				}()
				<-accepted
				time.Sleep(100 * time.Millisecond)
				if err := c.Become(ctx, 1, kv.Leader); err != nil {
					t.Fatal(err)
				}
				if tc.back {
					if err := c.Become(ctx, 1, register.Protocol); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(tc.still)
				other, stop := c.Gateway("other", txn.Options{})
				defer stop()
				if got := read(t, other, "b", "n"); got[0] != "1" || got[1] != "1" {
					t.Fatalf("recovered to %q", got)
				}
				stages := staged(c)
				close(released)
				err := <-done
				var unknown *kv.AmbiguousError
				if swept := tc.still > time.Minute; swept && !errors.As(err, &unknown) || !swept && err != nil {
					t.Errorf("the commit's answer is %v", err)
				}
				if n := staged(c); n != stages {
					t.Errorf("staged %d times more", n-stages)
				}
			})
		})
	}
}

// TestMixedReads: what is read of several ranges is divided among the protocols; what a protocol does not have is refused.
func TestMixedReads(t *testing.T) {
	mixed(t, nil, func(ctx context.Context, c *leaderkv.Cluster, db *txn.DB) {
		for _, k := range []string{"b", "n", "o", "x"} {
			err := db.Run(ctx, txn.TxnOptions{}, func(ctx context.Context, x *txn.Txn) error {
				var wb txn.WriteBatch
				wb.Put(keys.Key(k), []byte("of "+k))
				return x.Write(ctx, &wb)
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		x := db.Begin(txn.TxnOptions{})
		ks := []keys.Key{keys.Key("x"), keys.Key("o"), keys.Key("b"), keys.Key("none"), keys.Key("n")}
		vs, err := x.GetMany(ctx, ks, kv.NoLock, kv.Block)
		if err != nil {
			t.Fatal(err)
		}
		for i, k := range ks {
			if want := "of " + string(k); string(vs[i]) != want && string(k) != "none" {
				t.Errorf("%s: %q", string(k), vs[i])
			}
		}
		var unsupported *txn.UnsupportedError
		rows, left, err := x.Scan(ctx, txn.ScanOptions{Span: keys.Span{Start: keys.Key("a"), End: keys.Key("z")}})
		if err != nil || len(rows) != 1 || left == nil || string(left.Start) != "m" {
			t.Errorf("the leader's part of a scan: %v, %v, %v", rows, left, err)
		}
		if _, _, err = x.Scan(ctx, txn.ScanOptions{Span: *left}); !errors.As(err, &unsupported) {
			t.Errorf("a scan of registers: %v", err)
		}
		if rows, left, err = x.Scan(ctx, txn.ScanOptions{Span: keys.Span{Start: keys.Key("a"), End: keys.Key("z")}, Reverse: true}); err != nil || len(rows) != 1 || string(left.End) != "t" {
			t.Errorf("the leader's part of a reverse scan: %v, %v, %v", rows, left, err)
		}
		x.Rollback(ctx)
		y := db.Begin(txn.TxnOptions{})
		var wb txn.WriteBatch
		wb.DeleteRange(keys.Span{Start: keys.Key("a"), End: keys.Key("z")})
		if err = y.Write(ctx, &wb); err == nil {
			err = y.Commit(ctx)
		}
		if !errors.As(err, &unsupported) {
			t.Errorf("a deletion of a span with registers: %v", err)
		}
		y.Rollback(ctx)
		if _, err = db.LoadAt(ctx, []kv.KeyValue{{Key: keys.Key("n"), Value: []byte("1")}}, kv.LoadShared, db.Clock().Now()); !errors.As(err, &unsupported) {
			t.Errorf("a load into registers: %v", err)
		}
		if got := read(t, db, "b", "n"); got[0] != "of b" || got[1] != "of n" {
			t.Errorf("after a refused deletion: %q", got)
		}
	})
}
