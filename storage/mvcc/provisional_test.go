package mvcc

import (
	"testing"

	"meridian/clock"
	"meridian/keys"
	"meridian/kv"
)

// TestProvisional: intents' values are told as long as they are intents; removals and what is committed are not.
func TestProvisional(t *testing.T) {
	e, closeEngine := openEngine(t)
	defer closeEngine()
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
	key := func(s string) keys.Key { return tableKey(s) }
	txn := &kv.Txn{TxnMeta: kv.TxnMeta{ID: kv.TxnID{1}, WriteTimestamp: at(20), MinTimestamp: at(20)}, ReadTimestamp: at(20)}
	for _, k := range []string{"a", "b", "c"} {
		write(func(w *Writer) error {
			return w.Put(key(k), []byte("old"), &WriteOptions{Timestamp: at(5), LocalTimestamp: at(5)})
		})
	}
	write(func(w *Writer) error {
		return w.Put(key("b"), []byte("new"), &WriteOptions{Txn: txn, Seq: 1, LocalTimestamp: at(20)})
	})
	write(func(w *Writer) error {
		_, err := w.Delete(key("c"), &WriteOptions{Txn: txn, Seq: 2, LocalTimestamp: at(20)})
		return err
	})
	look := func() []kv.KeyValue {
		r := NewReader(e)
		defer r.Close()
		rows, err := r.Provisional(key("a"), key("z"), 10)
		if err != nil {
			t.Fatal(err)
		}
		return rows
	}
	rows := look()
	if len(rows) != 1 || !rows[0].Key.Equal(key("b")) || string(rows[0].Value) != "new" || rows[0].Timestamp != (clock.Timestamp(at(20))) {
		t.Fatalf("%+v", rows)
	}
	write(func(w *Writer) error {
		_, err := w.ResolveIntent(key("b"), &Resolution{Txn: txn.TxnMeta, Status: kv.Committed})
		return err
	})
	if rows := look(); len(rows) != 0 {
		t.Fatalf("%+v", rows)
	}
}
