package leaderkv_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

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
