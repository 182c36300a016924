package mvcc

import (
	"errors"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"meridian/keys"
	"meridian/kv"
)

// TestFoldModel folds versions in any order, some of them several times, and compares what is read at each timestamp and the
// statistics with those of a model.
func TestFoldModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e, closeEngine := openEngine(t)
		defer closeEngine()
		key := func(i int) keys.Key { return tableKey(fmt.Sprintf("k%d", i)) }
		model := map[int]map[int64]string{0: {}, 1: {}, 2: {}}
		var sum Stats
		for range rapid.IntRange(1, 5).Draw(t, "batches") {
			b := e.NewIndexedBatch()
			w := NewWriter(b, b)
			for range rapid.IntRange(1, 6).Draw(t, "rows") {
				k, ts := rapid.IntRange(0, 2).Draw(t, "key"), int64(rapid.IntRange(1, 9).Draw(t, "ts"))
				v := []byte(fmt.Sprintf("%d/%d", k, ts))
				if ts%4 == 0 {
					v = nil
				}
				if err := w.Fold(key(k), v, at(ts)); err != nil {
					t.Fatal(err)
				}
				model[k][ts] = string(v)
			}
			w.Close()
			sum.Add(w.Stats)
			if err := b.Commit(false); err != nil {
				t.Fatal(err)
			}
			_ = b.Close()
		}
		r := NewReader(e)
		defer r.Close()
		for k, versions := range model {
			for ts := int64(0); ts <= 10; ts++ {
				want := ""
				for at := ts; at > 0; at-- {
					if v, ok := versions[at]; ok {
						want = v
						break
					}
				}
				v, err := r.Get(key(k), &ReadOptions{Timestamp: at(ts)})
				if err != nil || string(v.Bytes) != want {
					t.Fatalf("k%d at %d: %q, %v; want %q", k, ts, v.Bytes, err, want)
				}
			}
		}
		counted, err := r.ComputeStats(keys.Span{Start: tableKey("k"), End: tableKey("l")})
		if err != nil || counted != sum {
			t.Fatalf("statistics %+v, counted %+v, %v", sum, counted, err)
		}
	})
}

// TestFoldIntent: a provisional write that was promised elsewhere is an intent like any other, and is decided by a later fold. Nothing is
// folded above it.
func TestFoldIntent(t *testing.T) {
	e, closeEngine := openEngine(t)
	defer closeEngine()
	var sum Stats
	do := func(f func(w *Writer) error) {
		t.Helper()
		b := e.NewIndexedBatch()
		defer b.Close()
		w := NewWriter(b, b)
		defer w.Close()
		if err := f(w); err != nil {
			t.Fatal(err)
		}
		sum.Add(w.Stats)
		if err := b.Commit(false); err != nil {
			t.Fatal(err)
		}
	}
	k := tableKey("k")
	meta := &kv.TxnMeta{ID: kv.TxnID{1}, Anchor: k, WriteTimestamp: at(10), MinTimestamp: at(10), Seq: 1}
	do(func(w *Writer) error { return w.Fold(k, []byte("old"), at(5)) })
	for range 2 {
		do(func(w *Writer) error { return w.FoldIntent(k, []byte("new"), meta, kv.Pending) })
	}
	do(func(w *Writer) error { return w.Fold(k, []byte("older"), at(3)) })
	do(func(w *Writer) error { return w.Fold(k, []byte("new"), at(10)) }) // what the intent is about
	do(func(w *Writer) error {
		if err := w.Fold(k, []byte("newer"), at(11)); !errors.Is(err, ErrUnderIntent) {
			return fmt.Errorf("above an intent: %v", err)
		}
		return nil
	})
	read := func(ts int64) (string, error) {
		r := NewReader(e)
		defer r.Close()
		v, err := r.Get(k, &ReadOptions{Timestamp: at(ts)})
		return string(v.Bytes), err
	}
	var conflict *LockConflictError
	if _, err := read(12); !errors.As(err, &conflict) || conflict.Intents[0].Txn.ID != meta.ID {
		t.Fatalf("%v", err)
	}
	if v, err := read(9); v != "old" || err != nil {
		t.Fatalf("%q, %v", v, err)
	}
	if sum.IntentCount != 1 {
		t.Errorf("%d intents are counted", sum.IntentCount)
	}
	for range 2 {
		do(func(w *Writer) error { return w.FoldIntent(k, nil, meta, kv.Committed) })
	}
	if v, err := read(12); v != "new" || err != nil || sum.IntentCount != 0 {
		t.Errorf("%q, %v, %d intents", v, err, sum.IntentCount)
	}
}
