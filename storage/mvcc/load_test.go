package mvcc

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"meridian/clock"
	"meridian/keys"
	"meridian/kv"
)

// TestLoadModel loads rows among versions and intents that are there already, and compares every outcome, what is read
// afterwards, and the statistics with what one key at a time would give.
func TestLoadModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e, closeEngine := openEngine(t)
		defer closeEngine()
		var sum Stats
		apply := func(f func(w *Writer) error) error {
			b := e.NewBatch()
			defer b.Close()
			w := NewWriter(e, b)
			err := f(w)
			w.Close()
			if err != nil {
				return err
			}
			sum.Add(w.Stats)
			return b.Commit(false)
		}
		key := func(i int) keys.Key { return tableKey(fmt.Sprintf("k%02d", i)) }
		type have struct {
			at    int64
			value []byte // nil: deleted
			local bool   // an intent
		}
		model := map[int]have{}
		txn := &kv.Txn{TxnMeta: kv.TxnMeta{ID: kv.TxnID{1}, WriteTimestamp: at(40), MinTimestamp: at(40)}, ReadTimestamp: at(40)}
		for range rapid.IntRange(0, 12).Draw(t, "before") {
			k, ts := rapid.IntRange(0, 29).Draw(t, "key"), int64(rapid.IntRange(1, 30).Draw(t, "ts"))
			if h, ok := model[k]; ok && (h.local || h.at >= ts) {
				continue
			}
			h := have{at: ts, value: []byte("old")}
			o := WriteOptions{Timestamp: at(ts), LocalTimestamp: at(ts)}
			switch rapid.IntRange(0, 4).Draw(t, "kind") {
			case 0:
				h.value = nil
			case 1:
				h.local, h.at = true, 40
				o = WriteOptions{Txn: txn, Seq: 1, LocalTimestamp: at(40)}
			}
			if err := apply(func(w *Writer) error {
				if h.value == nil {
					_, err := w.Delete(key(k), &o)
					return err
				}
				return w.Put(key(k), h.value, &o)
			}); err != nil {
				t.Fatal(err)
			}
			model[k] = h
		}
		for round := range 3 {
			set := map[int]bool{}
			for range rapid.IntRange(1, 12).Draw(t, "rows") {
				set[rapid.IntRange(0, 29).Draw(t, "row")] = true
			}
			ts := int64(rapid.IntRange(10, 35).Draw(t, "load"))
			var rows []kv.KeyValue
			for _, k := range slices.Sorted(maps.Keys(set)) {
				rows = append(rows, kv.KeyValue{Key: key(k), Value: fmt.Appendf(nil, "new%d", k)})
			}
			mode := kv.LoadMode(rapid.IntRange(0, int(kv.LoadUnread)).Draw(t, "mode"))
			var late func(keys.Key) bool
			if mode == kv.LoadShared {
				late = func(k keys.Key) bool { return k.Equal(key(7)) } // somebody has looked for it
			}
			want, stay := "", map[int]bool{}
			var refused, wantRefused []keys.Key
			for _, k := range slices.Sorted(maps.Keys(set)) {
				h, ok := model[k]
				same := ok && bytes.Equal(h.value, fmt.Appendf(nil, "new%d", k))
				switch {
				case ok && h.local:
					want = "lock"
				case want == "lock":
				case !ok || h.value == nil && h.at < ts:
					if mode == kv.LoadShared && k == 7 {
						stay[k], wantRefused = true, append(wantRefused, key(k))
					}
				case same && h.at == ts:
				case same && h.at < ts && mode != kv.LoadAlone, h.at > ts && mode == kv.LoadUnread:
					stay[k] = true
				case mode == kv.LoadAlone:
					want = "refused"
				default:
					stay[k], wantRefused = true, append(wantRefused, key(k))
				}
			}
			err := apply(func(w *Writer) error {
				var werr error
				refused, werr = w.Load(rows, mode, late, &WriteOptions{Timestamp: at(ts), LocalTimestamp: at(100)})
				return werr
			})
			var (
				conflict *LockConflictError
				old      *kv.WriteTooOldError
				cond     *kv.ConditionFailedError
			)
			got := ""
			switch {
			case errors.As(err, &conflict):
				got = "lock"
			case errors.As(err, &old), errors.As(err, &cond):
				got = "refused"
			case err != nil:
				t.Fatal(err)
			}
			if got != want {
				t.Fatalf("round %d at %d of %v over %v: %v, want %q", round, ts, set, model, err, want)
			}
			if err == nil {
				if !slices.EqualFunc(refused, wantRefused, keys.Key.Equal) {
					t.Fatalf("round %d at %d of %v over %v: refused %v, want %v", round, ts, set, model, refused, wantRefused)
				}
				for k := range set {
					if stay[k] {
						continue
					}
					model[k] = have{at: ts, value: fmt.Appendf(nil, "new%d", k)}
				}
			}
		}
		r := NewReader(e)
		defer r.Close()
		st, err := r.ComputeStats(tableSpan)
		if err != nil || st != sum {
			t.Fatalf("statistics are %+v (%v), but the writes added up to %+v", st, err, sum)
		}
		for k, h := range model {
			v, err := r.Get(key(k), &ReadOptions{Timestamp: at(39)})
			if err != nil {
				t.Fatal(err)
			}
			if !h.local && !bytes.Equal(v.Bytes, h.value) {
				t.Fatalf("k%02d is %q, want %q", k, v.Bytes, h.value)
			}
		}
		// Nothing is cleared next to an intent: its transaction may have committed because the intent is there.
		for k, h := range model {
			if !h.local {
				continue
			}
			var conflict *LockConflictError
			if err := apply(func(w *Writer) error {
				_, _, err := w.Clear(tableSpan.Start, tableSpan.End, 4)
				return err
			}); !errors.As(err, &conflict) || !slices.ContainsFunc(conflict.Intents, func(l Intent) bool { return l.Key.Equal(key(k)) }) {
				t.Fatalf("cleared beside an intent on k%02d: %v", k, err)
			}
			if err := apply(func(w *Writer) error {
				_, err := w.ResolveIntent(key(k), &Resolution{Txn: txn.TxnMeta, Status: kv.Aborted})
				return err
			}); err != nil {
				t.Fatal(err)
			}
		}
		// All of it goes, in steps, and nothing is left to count.
		span, keysLeft := tableSpan, int(sum.KeyCount)
		for next := &span; next != nil; {
			from := *next
			if err := apply(func(w *Writer) (err error) {
				n, rest, err := w.Clear(from.Start, from.End, 4)
				keysLeft -= int(n)
				next = rest
				return err
			}); err != nil {
				t.Fatal(err)
			}
		}
		if sum != (Stats{}) || keysLeft != 0 {
			t.Fatalf("%d keys and %+v are left", keysLeft, sum)
		}
	})
}

// TestLoadOrder says that rows have to be sorted.
func TestLoadOrder(t *testing.T) {
	e, closeEngine := openEngine(t)
	defer closeEngine()
	b := e.NewBatch()
	defer b.Close()
	w := NewWriter(e, b)
	defer w.Close()
	for _, rows := range [][]kv.KeyValue{{{Key: tableKey("b")}, {Key: tableKey("a")}}, {{Key: tableKey("a")}, {Key: tableKey("a")}}} {
		if _, err := w.Load(rows, kv.LoadAlone, nil, &WriteOptions{Timestamp: at(1)}); err != errUnsorted {
			t.Error(err)
		}
	}
}

// BenchmarkLoad is one row of a load into an empty span.
func BenchmarkLoad(b *testing.B) {
	e, closeEngine := openEngine(b)
	defer closeEngine()
	rows := make([]kv.KeyValue, 4096)
	for i := range rows {
		rows[i] = kv.KeyValue{Key: tableKey(fmt.Sprintf("%08d", i)), Value: make([]byte, 100)}
	}
	b.ReportAllocs()
	for n := 0; n < b.N; n += len(rows) {
		batch := e.NewBatch()
		w := NewWriter(e, batch)
		if _, err := w.Load(rows, kv.LoadAlone, nil, &WriteOptions{Timestamp: clock.Timestamp{Wall: 5}}); err != nil {
			b.Fatal(err)
		}
		w.Close()
		batch.Close()
	}
}

// TestLoadAmongCommitted: an intent of a transaction that is known to have committed is a version (mvcc.M7), which is refused or
// passed as one; nobody would resolve it for the load's sake.
func TestLoadAmongCommitted(t *testing.T) {
	e, closeEngine := openEngine(t)
	defer closeEngine()
	known := committedAll{}
	apply := func(f func(w *Writer) error) error {
		b := e.NewBatch()
		defer b.Close()
		w := NewWriter(e, b)
		w.Outcomes = known
		err := f(w)
		w.Close()
		if err != nil {
			return err
		}
		return b.Commit(false)
	}
	for i, c := range []struct {
		at     int64
		remove bool
		want   any
	}{
		{10, false, new(*kv.ConditionFailedError)},
		{30, false, new(*kv.WriteTooOldError)},
		{30, true, new(*kv.WriteTooOldError)},
		{10, true, nil},
	} {
		k := tableKey(fmt.Sprint("k", i))
		x := &kv.Txn{TxnMeta: kv.TxnMeta{ID: kv.TxnID{byte(i + 1)}, WriteTimestamp: at(c.at), MinTimestamp: at(c.at)}, ReadTimestamp: at(c.at)}
		if err := apply(func(w *Writer) error {
			o := &WriteOptions{Txn: x, Seq: 1, LocalTimestamp: at(c.at)}
			if c.remove {
				_, err := w.Delete(k, o)
				return err
			}
			return w.Put(k, []byte("v"), o)
		}); err != nil {
			t.Fatal(err)
		}
		load := func() error {
			return apply(func(w *Writer) error {
				_, err := w.Load([]kv.KeyValue{{Key: k, Value: []byte("loaded")}}, kv.LoadAlone, nil, &WriteOptions{Timestamp: at(20), LocalTimestamp: at(20)})
				return err
			})
		}
		if err := load(); !errors.As(err, new(*LockConflictError)) {
			t.Errorf("case %d: met an intent of a transaction that nobody knows of: %v", i, err)
		}
		known[x.ID] = at(c.at)
		if err := load(); c.want == nil && err != nil || c.want != nil && !errors.As(err, c.want) {
			t.Errorf("case %d: %v", i, err)
		}
	}
}
