package txn_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"meridian/clock"
	"meridian/commit/leader/gateway"
	"meridian/host"
	"meridian/keys"
	"meridian/kv"
	"meridian/sim"
	"meridian/txn"
	"meridian/txn/fakekv"
)

// private is one span that belongs to the transaction for as long as it says so.
type private struct {
	span keys.Span
	gone bool
}

func (p *private) PrivateSpan(k keys.Key) (keys.Span, bool) {
	return p.span, !p.gone && p.span.Contains(k)
}

type loadWorld struct {
	t    *testing.T
	h    *host.Host
	fake *fakekv.KV
	db   *txn.DB
	ctx  context.Context
}

func withLoads(t *testing.T, f func(t *testing.T, w *loadWorld)) {
	synctest.Test(t, func(t *testing.T) {
		h := sim.NewHost(context.Background(), sim.MachineOptions{Name: "a", Network: sim.NewNetwork(sim.NetworkOptions{Seed: 1}), Seed: 1})
		defer h.Group.Stop()
		c := clock.New(h.Clock, clock.DefaultMaxOffset)
		w := &loadWorld{t: t, h: h, fake: fakekv.New(h, c), ctx: context.Background()}
		w.db = txn.NewDB(txn.Options{Records: gateway.Protocol{}, Sender: w.fake, Clock: c, Host: h, NodeID: func() kv.NodeID { return 1 }})
		f(t, w)
	})
}

func (w *loadWorld) begin() (*txn.Txn, *private) {
	tx := w.db.Begin(txn.TxnOptions{})
	p := &private{span: span("p", "q")}
	tx.SetPrivateSpans(p)
	return tx, p
}

func rowKey(i int) keys.Key { return keys.Key(fmt.Sprintf("p%06d", i)) }

// rows is a batch of new rows.
func rows(from, to int) *txn.WriteBatch {
	b := &txn.WriteBatch{}
	for i := from; i < to; i++ {
		b.PutNew(rowKey(i), []byte(fmt.Sprint("row", i)))
	}
	return b
}

func (w *loadWorld) write(tx *txn.Txn, b *txn.WriteBatch) {
	w.t.Helper()
	if err := tx.Write(w.ctx, b); err != nil {
		w.t.Fatal(err)
	}
}

// stored counts the keys that ranges have in the private span, whoever may see them.
func (w *loadWorld) stored() int {
	rs, err := w.db.Scan(w.ctx, span("p", "q"))
	if err != nil {
		w.t.Fatal(err)
	}
	return len(rs)
}

func (w *loadWorld) seen(tx *txn.Txn) int {
	w.t.Helper()
	n := 0
	s := span("p", "q")
	for next := &s; next != nil; {
		rs, rest, err := tx.Scan(w.ctx, txn.ScanOptions{Span: *next, MaxRows: 1000})
		if err != nil {
			w.t.Fatal(err)
		}
		n, next = n+len(rs), rest
	}
	return n
}

// A statement does not see what it loads, in whichever way it reads; the next one does (txn.TX4, txn.LD2).
func TestLoadedLater(t *testing.T) {
	withLoads(t, func(t *testing.T, w *loadWorld) {
		tx, _ := w.begin()
		for round := range 3 {
			have := round * 2000
			for part := range 4 {
				w.write(tx, rows(have+part*500, have+part*500+500))
				if got := w.seen(tx); got != have {
					t.Fatalf("statement %d sees %d rows after part %d, want %d", round, got, part, have)
				}
				last := rowKey(have + part*500)
				if v, err := tx.Get(w.ctx, last, kv.NoLock, kv.Block); v != nil || err != nil {
					t.Fatalf("%q %v", v, err)
				}
				vs, err := tx.GetMany(w.ctx, []keys.Key{last, rowKey(0)}, kv.Exclusive, kv.Block)
				if err != nil || vs[0] != nil || (vs[1] != nil) != (round > 0) {
					t.Fatalf("%q %v", vs, err)
				}
				many, err := tx.ScanMany(w.ctx, []keys.Span{span("a", "b"), span("p", "q")}, txn.ScanOptions{})
				if err != nil || len(many[0]) != 0 || len(many[1]) != have {
					t.Fatalf("%d %v", len(many[1]), err)
				}
			}
			tx.StepStatement()
		}
		if got := w.seen(tx); got != 6000 {
			t.Fatalf("%d rows", got)
		}
		if err := tx.Commit(w.ctx); err != nil {
			t.Fatal(err)
		}
		if got := w.stored(); got != 6000 {
			t.Fatalf("%d rows after the commit", got)
		}
		if n := w.fake.Seen("LoadRequest"); n == 0 {
			t.Fatal("nothing was loaded")
		}
		if n := w.fake.Seen("PutRequest"); n != 0 {
			t.Fatalf("%d intents", n)
		}
	})
}

// A key can't be loaded twice: within a batch, by two batches at once, by two statements.
func TestLoadedTwice(t *testing.T) {
	for name, f := range map[string]func(w *loadWorld, tx *txn.Txn) error{
		"batch": func(w *loadWorld, tx *txn.Txn) error {
			b := rows(0, 500)
			b.PutNew(rowKey(77), []byte("again"))
			return tx.Write(w.ctx, b)
		},
		"batches": func(w *loadWorld, tx *txn.Txn) error {
			w.write(tx, rows(0, 500))
			return errors.Join(tx.Write(w.ctx, rows(499, 999)), tx.Settle(w.ctx))
		},
		"statements": func(w *loadWorld, tx *txn.Txn) error {
			w.write(tx, rows(0, 500))
			tx.StepStatement()
			return errors.Join(tx.Write(w.ctx, rows(499, 999)), tx.Settle(w.ctx))
		},
		"commit": func(w *loadWorld, tx *txn.Txn) error {
			w.write(tx, rows(0, 500))
			w.write(tx, rows(499, 999))
			return tx.Commit(w.ctx)
		},
		"one row": func(w *loadWorld, tx *txn.Txn) error {
			w.write(tx, rows(0, 500))
			tx.StepStatement()
			return errors.Join(tx.Write(w.ctx, rows(7, 8)), tx.Settle(w.ctx))
		},
	} {
		t.Run(name, func(t *testing.T) {
			withLoads(t, func(t *testing.T, w *loadWorld) {
				tx, _ := w.begin()
				err := f(w, tx)
				var cond *kv.ConditionFailedError
				if !errors.As(err, &cond) || cond.Actual == nil {
					t.Errorf("%v", err)
				}
				tx.Rollback(w.ctx)
				time.Sleep(time.Second)
				if got := w.stored(); got != 0 {
					t.Errorf("%d rows are left", got)
				}
			})
		})
	}
}

// The loaded rows go with a rollback and with a restart, and with the commit if nothing points to it any more.
func TestLoadedForNothing(t *testing.T) {
	withLoads(t, func(t *testing.T, w *loadWorld) {
		tx, _ := w.begin()
		w.write(tx, rows(0, 3000))
		tx.Rollback(w.ctx)
		time.Sleep(time.Second)
		if got := w.stored(); got != 0 {
			t.Fatalf("%d rows after a rollback", got)
		}

		tx, _ = w.begin()
		w.write(tx, rows(0, 3000))
		if err := tx.Restart(w.ctx); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if got := w.seen(tx) + w.stored(); got != 0 {
			t.Fatalf("%d rows after a restart", got)
		}
		tx.Rollback(w.ctx)

		tx, p := w.begin()
		w.write(tx, rows(0, 3000))
		p.gone = true
		if err := tx.Commit(w.ctx); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if got := w.stored(); got != 0 {
			t.Fatalf("%d rows that nothing points to", got)
		}
	})
}

// Nothing is loaded while there is a savepoint to return to, nor into a span that was written before (txn.LD3).
func TestNotLoaded(t *testing.T) {
	withLoads(t, func(t *testing.T, w *loadWorld) {
		tx, _ := w.begin()
		s := tx.Savepoint()
		w.write(tx, rows(0, 1000))
		if err := tx.RollbackTo(s); err != nil {
			t.Fatal(err)
		}
		if got := w.seen(tx); got != 0 {
			t.Fatalf("%d rows after the return to a savepoint", got)
		}
		tx.Release(s)
		w.write(tx, rows(0, 1000))
		tx.StepStatement()
		if got := w.seen(tx); got != 1000 || w.fake.Seen("LoadRequest") != 0 {
			t.Fatalf("%d rows, %d loads", got, w.fake.Seen("LoadRequest"))
		}
		tx.Rollback(w.ctx)

		tx, _ = w.begin()
		s = tx.Savepoint()
		tx.Release(s)
		w.write(tx, rows(0, 1000))
		tx.StepStatement()
		if err := tx.Settle(w.ctx); err != nil {
			t.Fatal(err)
		}
		if w.fake.Seen("LoadRequest") == 0 {
			t.Fatal("a savepoint that was released keeps rows from being loaded")
		}
		// Deleted, written again, changed: all of it over what was loaded.
		b := &txn.WriteBatch{}
		for i := range 400 {
			b.Delete(rowKey(i))
		}
		w.write(tx, b)
		tx.StepStatement()
		loads := w.fake.Seen("LoadRequest")
		w.write(tx, rows(0, 300))
		w.write(tx, rows(1000, 2000))
		tx.StepStatement()
		if got := w.seen(tx); got != 1900 || w.fake.Seen("LoadRequest") != loads {
			t.Fatalf("%d rows", got)
		}
		if err := tx.Commit(w.ctx); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if got := w.stored(); got != 1900 {
			t.Fatalf("%d rows", got)
		}
	})
}

// LoadAt leaves out what somebody has written or looked for since the timestamp, each key by itself, unless nobody reads.
func TestLoadAt(t *testing.T) {
	withLoads(t, func(t *testing.T, w *loadWorld) {
		load := func(mode kv.LoadMode, at clock.Timestamp, rows ...string) string {
			t.Helper()
			var kvs []kv.KeyValue
			for _, r := range rows {
				k, v, _ := strings.Cut(r, "=")
				kvs = append(kvs, kv.KeyValue{Key: keys.Key(k), Value: []byte(v)})
			}
			refused, err := w.db.LoadAt(w.ctx, kvs, mode, at)
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, k := range refused {
				names = append(names, string(k))
			}
			return strings.Join(names, " ")
		}
		for _, c := range []struct {
			mode    kv.LoadMode
			refused string
		}{{kv.LoadShared, "later other read"}, {kv.LoadUnread, "other"}} {
			name := func(k string) string { return fmt.Sprint("m", c.mode, k) }
			put := func(k, v string) {
				if err := w.db.Put(w.ctx, keys.Key(name(k)), []byte(v)); err != nil {
					t.Fatal(err)
				}
			}
			put("other", "v")
			put("same", "s")
			at := w.db.Clock().Now()
			put("later", "newer")
			if err := w.db.Run(w.ctx, txn.TxnOptions{}, func(ctx context.Context, tx *txn.Txn) error {
				_, err := tx.Get(ctx, keys.Key(name("read")), kv.NoLock, kv.Block)
				return err
			}); err != nil {
				t.Fatal(err)
			}
			rows := []string{name("free=a"), name("later=b"), name("other=c"), name("read=d"), name("same=s")}
			for try := range 2 { // the second is a repetition
				got := strings.ReplaceAll(load(c.mode, at, rows...), name(""), "")
				if got != c.refused {
					t.Errorf("mode %d, try %d: refused %q, want %q", c.mode, try, got, c.refused)
				}
			}
			for k, want := range map[string]string{"free": "a", "later": "newer", "other": "v", "same": "s"} {
				if v, err := w.db.Get(w.ctx, keys.Key(name(k))); err != nil || string(v) != want {
					t.Errorf("mode %d: %s is %q, want %q (%v)", c.mode, k, v, want, err)
				}
			}
		}
	})
}
