package mvcc

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"meridian/clock"
	"meridian/keys"
	"meridian/kv"
	"meridian/storage/engine"
)

// trueTable is a LockTable that knows exactly what is in the store's lock table.
type trueTable struct {
	t       *testing.T
	e       *engine.Engine
	dropped uint64
	// before, if not nil, happens before a key is asked for.
	before func(keys.Key)
	// unknown: it knows nothing.
	unknown bool
}

func (x *trueTable) all(s keys.Span) (out []LockID) {
	r := NewReader(x.e)
	defer r.Close()
	ls, err := r.Locks(s.Start, s.End, 1000)
	if err != nil {
		x.t.Fatal(err)
	}
	for i := range ls {
		l := &ls[i]
		out = append(out, LockID{l.Key, l.Strength, l.Txn.ID, l.Txn.WriteTimestamp, l.Txn.Attempt})
	}
	return out
}

func (x *trueTable) Has(k keys.Key) bool {
	if x.before != nil {
		x.before(k)
	}
	return x.unknown || len(x.all(keys.Span{Start: k})) > 0
}

func (x *trueTable) MayHold(k keys.Key) bool { return x.Has(k) }

func (x *trueTable) Entries(k keys.Key, to []LockID) ([]LockID, bool) {
	if x.before != nil {
		x.before(k)
	}
	if x.unknown {
		return to, false
	}
	return append(to, x.all(keys.Span{Start: k})...), true
}

func (x *trueTable) EntriesWithin(start, end keys.Key, to []LockID) ([]LockID, bool) {
	if x.before != nil {
		x.before(start)
	}
	if x.unknown {
		return to, false
	}
	return append(to, x.all(keys.Span{Start: start, End: end})...), true
}

func (x *trueTable) Dropped() uint64 { return x.dropped }

// TestTableSparesNothingNeeded: every operation has the same result with a table of the locks and without one.
func TestTableSparesNothingNeeded(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 9))
		e, closeEngine := openEngine(t)
		txns := make([]*kv.Txn, 5)
		for i := range txns {
			ts := at(int64(20 + 10*i))
			txns[i] = &kv.Txn{TxnMeta: kv.TxnMeta{ID: kv.TxnID{byte(i + 1)}, WriteTimestamp: ts, MinTimestamp: ts}, ReadTimestamp: ts}
		}
		known := outcomes{}
		if rng.IntN(2) == 0 {
			known[txns[0].ID] = txns[0].WriteTimestamp
		}
		table := &trueTable{t: t, e: e}
		key := func() keys.Key { return tableKey(string(rune('a' + rng.IntN(4)))) }
		write := func(with bool, f func(w *Writer) any) string {
			b := e.NewBatch()
			defer b.Close()
			w := NewWriter(e, b)
			w.Outcomes = known
			if with {
				w.Table = table
			}
			got := fmt.Sprintf("%+v %+v %x", f(w), w.Stats, b.Repr())
			w.Close()
			if with {
				if err := b.Commit(false); err != nil {
					t.Fatal(err)
				}
			}
			return got
		}
		for i := range 150 {
			k, txn, ts := key(), txns[rng.IntN(len(txns))], at(int64(5+rng.IntN(70)))
			end := append(slices.Clone(k), 0xff)
			if rng.IntN(2) == 0 {
				end = tableKey("z")
			}
			o := ReadOptions{Timestamp: ts, Lock: []kv.LockStrength{kv.NoLock, kv.NoLock, kv.Shared, kv.Exclusive}[rng.IntN(4)]}
			if rng.IntN(2) == 0 {
				o.Txn = txn
			}
			reverse, maxKeys, value := rng.IntN(2) == 0, int64(rng.IntN(3)), []byte(fmt.Sprint(i))
			var does func(w *Writer) any
			switch rng.IntN(10) {
			case 0, 1:
				does = func(w *Writer) any {
					v, err := w.Get(k, &o)
					return []any{v, err}
				}
			case 2, 3:
				does = func(w *Writer) any {
					v, err := w.Scan(k, end, &ScanOptions{ReadOptions: o, Reverse: reverse, MaxKeys: maxKeys})
					return []any{v.Rows, v.Resume, err}
				}
			case 4:
				does = func(w *Writer) any { return w.CheckRefresh(k, nil, at(10), ts, txn, false) }
			case 5:
				does = func(w *Writer) any {
					l, err := w.Intent(k, txn.ID)
					part, rest, lerr := w.LocksOf(txn.ID, k, end, maxKeys)
					return []any{l != nil, err, part, rest, lerr}
				}
			case 6, 7:
				does = func(w *Writer) any {
					return w.Put(k, value, &WriteOptions{Txn: txn, Seq: kv.Seq(i + 1), LocalTimestamp: ts})
				}
			case 8:
				status := []kv.Status{kv.Committed, kv.Aborted, kv.Aborted}[rng.IntN(3)]
				does = func(w *Writer) any {
					ok, err := w.ResolveIntent(k, &Resolution{Txn: txn.TxnMeta, Status: status, IntentsOnly: reverse})
					return []any{ok, err}
				}
			case 9:
				does = func(w *Writer) any {
					n, rest, err := w.ResolveRange(k, end, &Resolution{Txn: txn.TxnMeta, Status: kv.Aborted}, maxKeys)
					return []any{n, rest, err}
				}
			}
			if without, with := write(false, does), write(true, does); without != with {
				t.Fatalf("seed %d, operation %d:\n%s without a table,\n%s with one", seed, i, without, with)
			}
		}
		closeEngine()
	}
}

// outcomes are transactions that are known to have committed.
type outcomes map[kv.TxnID]clock.Timestamp

func (o outcomes) Committed(id kv.TxnID) (at clock.Timestamp, attempt uint32, ok bool) {
	at, ok = o[id]
	return at, 0, ok
}

func (outcomes) Above(kv.TxnID) clock.Timestamp { return clock.Timestamp{} }

// TestTableIsNewerThanIterators: a Reader that has read one key, and hears of another that it has no lock, does not take the version of an intent for a committed one which was aborted and
// removed in between (mvcc.M9); nor if it is told of another lock there, or if the table does not know.
func TestTableIsNewerThanIterators(t *testing.T) {
	for _, then := range []string{"none", "another", "unknown"} {
		for _, scan := range []bool{false, true} {
			e, closeEngine := openEngine(t)
			write := func(f func(w *Writer) error) {
				t.Helper()
				b := e.NewBatch()
				defer b.Close()
				w := NewWriter(e, b)
				if err := f(w); err != nil {
					t.Fatal(err)
				}
				w.Close()
				if err := b.Commit(false); err != nil {
					t.Fatal(err)
				}
			}
			txn := &kv.Txn{TxnMeta: kv.TxnMeta{ID: kv.TxnID{1}, WriteTimestamp: at(20), MinTimestamp: at(20)}, ReadTimestamp: at(20)}
			a, b := tableKey("a"), tableKey("b")
			for _, k := range []keys.Key{a, b} {
				write(func(w *Writer) error { return w.Put(k, []byte("old"), &WriteOptions{Timestamp: at(5)}) })
			}
			write(func(w *Writer) error { return w.Put(b, []byte("aborted"), &WriteOptions{Txn: txn, Seq: 1}) })
			table := &trueTable{t: t, e: e}
			table.before = func(k keys.Key) {
				if !k.Equal(b) {
					return
				}
				table.before = nil
				write(func(w *Writer) error {
					_, err := w.ResolveIntent(b, &Resolution{Txn: txn.TxnMeta, Status: kv.Aborted})
					return err
				})
				table.dropped++
				if then == "another" {
					above := &kv.Txn{TxnMeta: kv.TxnMeta{ID: kv.TxnID{2}, WriteTimestamp: at(90), MinTimestamp: at(90)}, ReadTimestamp: at(90)}
					write(func(w *Writer) error { return w.Put(b, []byte("later"), &WriteOptions{Txn: above, Seq: 1}) })
				}
			}
			r := NewReader(e)
			r.Table = table
			o := ReadOptions{Timestamp: at(50)}
			if _, err := r.Get(a, &o); err != nil {
				t.Fatal(err)
			}
			table.unknown = then == "unknown"
			var got []byte
			if scan {
				res, err := r.Scan(b, append(slices.Clone(b), 0xff), &ScanOptions{ReadOptions: o})
				if err != nil {
					t.Fatal(err)
				}
				got = res.Rows[0].Value
			} else {
				v, err := r.Get(b, &o)
				if err != nil {
					t.Fatal(err)
				}
				got = v.Bytes
			}
			if string(got) != "old" {
				t.Errorf("scan %v, %s: read %q", scan, then, got)
			}
			r.Close()
			closeEngine()
		}
	}
}
