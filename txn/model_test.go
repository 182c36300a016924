package txn_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"meridian/clock"
	"meridian/commit/leader/gateway"
	"meridian/host"
	"meridian/keys"
	"meridian/kv"
	"meridian/sim"
	"meridian/txn"
	"meridian/txn/fakekv"
)

// world is a DB over a fake cluster.
type world struct {
	h    *host.Host
	fake *fakekv.KV
	db   *txn.DB
}

func newWorld(t testing.TB, seed uint64, o txn.Options, splits ...string) *world {
	net := sim.NewNetwork(sim.NetworkOptions{Seed: seed})
	h := sim.NewHost(context.Background(), sim.MachineOptions{Name: "a", Network: net, Seed: seed})
	t.Cleanup(h.Group.Stop)
	c := clock.New(h.Clock, clock.DefaultMaxOffset)
	f := fakekv.New(h, c, splits...)
	o.Sender, o.Clock, o.Host, o.NodeID = f, c, h, func() kv.NodeID { return 1 }
	o.Records = gateway.Protocol{}
	return &world{h: h, fake: f, db: txn.NewDB(o)}
}

// model is what a transaction should see: newest has all writes, visible those of earlier statements.
type model struct{ newest, visible map[string]string }

func (m *model) clone() model { return model{maps.Clone(m.newest), maps.Clone(m.visible)} }

func span(a, b string) keys.Span { return keys.Span{Start: keys.Key(a), End: keys.Key(b)} }

func scanModel(m map[string]string, s keys.Span, reverse bool) (out []string) {
	for _, k := range slices.Sorted(maps.Keys(m)) {
		if s.Contains(keys.Key(k)) {
			out = append(out, k+"="+m[k])
		}
	}
	if reverse {
		slices.Reverse(out)
	}
	return out
}

func show(rows []kv.KeyValue) (out []string) {
	for _, r := range rows {
		out = append(out, string(r.Key)+"="+string(r.Value))
	}
	return out
}

// TestModel: whatever one transaction after the other does, it reads what a map would say, with and without writes
// that were sent early, on one range and on several, with and without parallel commits.
func TestModel(t *testing.T) {
	for _, tc := range []struct {
		name   string
		o      txn.Options
		splits []string
	}{
		{"one range", txn.Options{}, nil},
		{"two phases", txn.Options{TwoPhases: true}, []string{"c", "e", "g"}},
		{"parallel commit", txn.Options{}, []string{"c", "e", "g"}},
		{"early flush", txn.Options{BufferBytes: 300}, []string{"e"}},
		{"slow flush", txn.Options{BufferBytes: 1}, []string{"e"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rapid.Check(struct{ rapid.TB }{t}, func(rt *rapid.T) {
					w := newWorld(t, 1, tc.o, tc.splits...)
					if tc.o.BufferBytes == 1 {
						w.fake.Slow.Store(int64(5 * time.Millisecond)) // several are under way, and they overtake each other
					}
					defer w.h.Group.Stop()
					committed := map[string]string{}
					for range rapid.IntRange(1, 5).Draw(rt, "transactions") {
						committed = modelTxn(rt, w, committed)
					}
					time.Sleep(time.Duration(w.fake.Slow.Load()) * 100)
					if err := synctestDrained(w); err != nil {
						rt.Fatal(err)
					}
				})
			})
		})
	}
}

// synctestDrained checks that nothing was left behind once all cleanups are done.
func synctestDrained(w *world) error {
	time.Sleep(100 * time.Millisecond) // commits are settled together, a little later
	synctest.Wait()
	if intents, locks, records := w.fake.Left(); intents+locks+records > 0 {
		return fmt.Errorf("left behind: %d intents, %d locks, %d records", intents, locks, records)
	}
	return nil
}

// modelTxn runs one random transaction and returns what is committed afterwards.
func modelTxn(t *rapid.T, w *world, committed map[string]string) map[string]string {
	ctx := context.Background()
	key := func() string { return string(rune('a' + rapid.IntRange(0, 8).Draw(t, "key"))) }
	value := func() string { return rapid.StringN(0, 3, 3).Draw(t, "value") }
	lock := func() kv.LockStrength { return kv.LockStrength(rapid.IntRange(0, 2).Draw(t, "lock")) }
	fatal := func(what string, err error) {
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	tx := w.db.Begin(txn.TxnOptions{})
	m := model{maps.Clone(committed), maps.Clone(committed)}
	type save struct {
		s txn.Savepoint
		m model
	}
	var saves []save
	checkRow := func(k string, v []byte) {
		want, ok := m.visible[k]
		if ok != (v != nil) || want != string(v) {
			t.Fatalf("%s: read %q (%v), want %q (%v)", k, v, v != nil, want, ok)
		}
	}
	// write draws a batch and applies it to the model; it returns the condition that should fail.
	write := func(to map[string]string) (*txn.WriteBatch, string) {
		b := &txn.WriteBatch{}
		for range rapid.IntRange(1, 4).Draw(t, "writes") {
			k, v := key(), value()
			have, ok := to[k]
			switch rapid.IntRange(0, 6).Draw(t, "op") {
			case 0, 1:
				b.Put(keys.Key(k), []byte(v))
				to[k] = v
			case 2:
				b.Delete(keys.Key(k))
				delete(to, k)
			case 3:
				b.PutNew(keys.Key(k), []byte(v))
				if ok {
					return b, k
				}
				to[k] = v
			case 4:
				expected := []byte(have)
				if !ok {
					expected = nil
				}
				if rapid.IntRange(0, 9).Draw(t, "wrong") == 0 {
					expected = []byte("never")
				}
				b.CPut(keys.Key(k), []byte(v), expected)
				if expected != nil && string(expected) == "never" {
					return b, k
				}
				to[k] = v
			case 5:
				a, z := key(), key()
				if a > z {
					a, z = z, a
				}
				b.DeleteRange(span(a, z+"z"))
				for x := range to {
					if span(a, z+"z").Contains(keys.Key(x)) {
						delete(to, x)
					}
				}
			case 6:
				k = "n" + k
				b.Add(keys.Key(k), 5)
				n := int64(5)
				if old, ok := to[k]; ok {
					n += int64(binary.BigEndian.Uint64([]byte(old)))
				}
				to[k] = string(binary.BigEndian.AppendUint64(nil, uint64(n)))
			}
		}
		return b, ""
	}
	var failed *kv.ConditionFailedError
	for range rapid.IntRange(0, 12).Draw(t, "steps") {
		switch rapid.IntRange(0, 9).Draw(t, "step") {
		case 0:
			k := key()
			v, err := tx.Get(ctx, keys.Key(k), lock(), kv.Block)
			fatal("get", err)
			checkRow(k, v)
		case 1:
			var ks []keys.Key
			for range rapid.IntRange(1, 4).Draw(t, "keys") {
				ks = append(ks, keys.Key(key()))
			}
			vs, err := tx.GetMany(ctx, ks, lock(), kv.Block)
			fatal("get many", err)
			for i := range ks {
				checkRow(string(ks[i]), vs[i])
			}
		case 2, 3:
			s := span(key(), key()+"z")
			reverse := rapid.Bool().Draw(t, "reverse")
			want := scanModel(m.visible, s, reverse)
			limit := int64(rapid.IntRange(0, 3).Draw(t, "limit"))
			var got []string
			for rest := &s; rest != nil; {
				rows, resume, err := tx.Scan(ctx, txn.ScanOptions{Span: *rest, Reverse: reverse, MaxRows: limit, Lock: lock()})
				fatal("scan", err)
				if limit > 0 && int64(len(rows)) > limit {
					t.Fatalf("%d rows, limit %d", len(rows), limit)
				}
				got = append(got, show(rows)...)
				rest = resume
			}
			if !slices.Equal(got, want) {
				t.Fatalf("scan %v: %q, want %q", s, got, want)
			}
		case 4:
			spans := []keys.Span{span(key(), key()+"z"), {Start: keys.Key(key())}}
			if spans[0].Start.Compare(spans[0].End) >= 0 {
				continue
			}
			got, err := tx.ScanMany(ctx, spans, txn.ScanOptions{})
			fatal("scan many", err)
			for i, s := range spans {
				if want := scanModel(m.visible, s, false); !slices.Equal(show(got[i]), want) {
					t.Fatalf("scan %v: %q, want %q", s, show(got[i]), want)
				}
			}
		case 5, 6:
			next := maps.Clone(m.newest)
			b, bad := write(next)
			err := tx.Write(ctx, b)
			if bad != "" {
				if !errors.As(err, &failed) || string(failed.Key) != bad {
					t.Fatalf("condition on %s: %v", bad, err)
				}
				continue
			}
			fatal("write", err)
			m.newest = next
		case 7:
			tx.StepStatement()
			m.visible = maps.Clone(m.newest)
		case 8:
			saves = append(saves, save{tx.Savepoint(), m.clone()})
		case 9:
			if n := len(saves); n > 0 {
				n = rapid.IntRange(0, n-1).Draw(t, "savepoint")
				fatal("rollback to", tx.RollbackTo(saves[n].s))
				m = saves[n].m.clone()
				m.visible = maps.Clone(m.newest) // a new statement begins
				saves = saves[:n+1]
			}
		}
	}
	switch rapid.IntRange(0, 3).Draw(t, "end") {
	case 0:
		fatal("rollback", tx.Rollback(ctx))
		return committed
	case 1:
		next := maps.Clone(m.newest)
		b, bad := write(next)
		err := tx.CommitBatch(ctx, b)
		if bad != "" {
			if !errors.As(err, &failed) || string(failed.Key) != bad {
				t.Fatalf("condition on %s: %v", bad, err)
			}
			fatal("rollback", tx.Rollback(ctx))
			return committed
		}
		fatal("commit batch", err)
		m.newest = next
	default:
		fatal("commit", tx.Commit(ctx))
	}
	// The next transaction sees the committed values.
	rows, err := w.db.Scan(ctx, span("a", "zz"))
	fatal("read back", err)
	if got, want := show(rows), scanModel(m.newest, span("a", "zz"), false); !slices.Equal(got, want) {
		t.Fatalf("committed %q, want %q", got, want)
	}
	return m.newest
}
