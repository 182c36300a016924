package mvcc

import (
	"testing"

	"meridian/clock"
	"meridian/kv"
)

// TestResolveIntentsOnly: of all that lies on a key, the transaction's intent goes and nothing else does.
func TestResolveIntentsOnly(t *testing.T) {
	e, closeEngine := openEngine(t)
	defer closeEngine()
	k := tableKey("k")
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
	txn := func(n byte) *kv.Txn {
		return &kv.Txn{TxnMeta: kv.TxnMeta{ID: kv.TxnID{n}, WriteTimestamp: at(10 * int64(n)), MinTimestamp: at(10 * int64(n))}, ReadTimestamp: at(10 * int64(n))}
	}
	write(func(w *Writer) error { return w.Lock(k, kv.Shared, &WriteOptions{Txn: txn(2), Seq: 1}) })
	for n := byte(1); n <= 3; n++ {
		b := e.NewBatch()
		b.PutLock(k, uint8(IntentStrength), kv.TxnID{n}, appendLock(nil, &Lock{Txn: txn(n).TxnMeta}))
		b.PutVersion(k, at(10*int64(n)), []byte{0}, []byte("v"))
		if err := b.Commit(false); err != nil {
			t.Fatal(err)
		}
		b.Close()
	}
	locks := func() (out [][2]byte) {
		r := NewReader(e)
		defer r.Close()
		it, err := r.lockIter(nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		for ok := it.SeekLockPrefix(k); ok; ok = it.Next() {
			l, err := r.lockAt(it)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, [2]byte{byte(l.Strength), l.Txn.ID[0]})
		}
		return out
	}
	if got := len(locks()); got != 4 {
		t.Fatalf("%d locks to begin with", got)
	}
	resolve := func(n byte, at clock.Timestamp, want bool) {
		t.Helper()
		write(func(w *Writer) error {
			m := txn(n).TxnMeta
			m.WriteTimestamp = at
			found, err := w.ResolveIntent(k, &Resolution{Txn: m, Status: kv.Committed, IntentsOnly: true, InPlace: true})
			if found != want {
				t.Errorf("transaction %d: found %v", n, found)
			}
			return err
		})
	}
	resolve(2, at(20), true)
	resolve(2, at(20), false)
	resolve(4, at(40), false)
	got := locks()
	if len(got) != 3 {
		t.Fatalf("left: %v", got)
	}
	for _, l := range got {
		if l == [2]byte{byte(IntentStrength), 2} {
			t.Fatalf("left: %v", got)
		}
	}
	b := e.NewBatch()
	defer b.Close()
	w := NewWriter(e, b)
	defer w.Close()
	m := txn(3).TxnMeta
	m.WriteTimestamp = at(35)
	if _, err := w.ResolveIntent(k, &Resolution{Txn: m, Status: kv.Committed, IntentsOnly: true, InPlace: true}); err != ErrNotInPlace {
		t.Fatalf("an intent that has to move: %v", err)
	}
	if w.Stats != (Stats{}) || !b.Empty() {
		t.Fatalf("changed: %+v", w.Stats)
	}
}
