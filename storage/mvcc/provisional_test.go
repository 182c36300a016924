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

// committedAll knows of some transactions that they have committed, as they are.
type committedAll map[kv.TxnID]clock.Timestamp

func (c committedAll) Above(kv.TxnID) clock.Timestamp { return clock.Timestamp{} }

func (c committedAll) Committed(id kv.TxnID) (at clock.Timestamp, attempt uint32, ok bool) {
	at, ok = c[id]
	return at, 0, ok
}

// TestNewest: of several intents on a key, all but the last of transactions that have committed, only the newest says
// whether the key is being removed; the newest version that is none is told for itself.
func TestNewest(t *testing.T) {
	e, closeEngine := openEngine(t)
	defer closeEngine()
	k := tableKey("a")
	known := committedAll{}
	write := func(id byte, ts int64, remove bool) {
		t.Helper()
		b := e.NewBatch()
		defer b.Close()
		w := NewWriter(e, b)
		w.Outcomes = known
		x := &kv.Txn{TxnMeta: kv.TxnMeta{ID: kv.TxnID{id}, WriteTimestamp: at(ts), MinTimestamp: at(ts)}, ReadTimestamp: at(ts)}
		o := &WriteOptions{Txn: x, Seq: 1, LocalTimestamp: at(ts)}
		var err error
		if remove {
			_, err = w.Delete(k, o)
		} else {
			err = w.Put(k, []byte{id}, o)
		}
		if err != nil {
			t.Fatal(err)
		}
		w.Close()
		if err := b.Commit(false); err != nil {
			t.Fatal(err)
		}
		known[x.ID] = at(ts) // before the next one comes
	}
	look := func(removing byte, newest int64, above int) {
		t.Helper()
		r := NewReader(e)
		defer r.Close()
		l, err := r.Removal(k)
		if err != nil || l == nil != (removing == 0) || l != nil && l.Txn.ID != (kv.TxnID{removing}) {
			t.Errorf("removed by %+v (%v), not %d", l, err, removing)
		}
		found, provisional, err := r.Newest(k)
		if err != nil || found == nil != (newest == 0) || found != nil && found.Timestamp != at(newest) || len(provisional) != above {
			t.Errorf("newest %+v and %d above (%v), not %d and %d", found, len(provisional), err, newest, above)
		}
	}
	look(0, 0, 0)
	write(9, 10, false)
	look(0, 0, 1)
	write(1, 20, true)
	look(1, 0, 2)
	write(5, 30, false)
	look(0, 0, 3)
	write(3, 40, true)
	look(3, 0, 4)
	b := e.NewBatch()
	defer b.Close()
	w := NewWriter(e, b)
	if _, err := w.ResolveIntent(k, &Resolution{Txn: kv.TxnMeta{ID: kv.TxnID{1}, WriteTimestamp: at(20), MinTimestamp: at(20)}, Status: kv.Committed}); err != nil {
		t.Fatal(err)
	}
	w.Close()
	if err := b.Commit(false); err != nil {
		t.Fatal(err)
	}
	look(3, 20, 2)
}

// TestPassesAllIntents: a reader that passes by intents passes by each of those on a key, whichever it meets first.
func TestPassesAllIntents(t *testing.T) {
	for _, ids := range [][]byte{{1, 2, 3}, {3, 2, 1}, {2, 3, 1}} {
		e, closeEngine := openEngine(t)
		k, known := tableKey("a"), committedAll{}
		write := func(id byte, ts int64) {
			t.Helper()
			b := e.NewBatch()
			defer b.Close()
			w := NewWriter(e, b)
			w.Outcomes = known
			o := &WriteOptions{Timestamp: at(ts), Seq: 1, LocalTimestamp: at(ts)}
			if id != 0 {
				o.Txn = &kv.Txn{TxnMeta: kv.TxnMeta{ID: kv.TxnID{id}, WriteTimestamp: at(ts), MinTimestamp: at(ts)}, ReadTimestamp: at(ts)}
				known[o.Txn.ID] = at(ts)
			}
			if err := w.Put(k, []byte{id}, o); err != nil {
				t.Fatal(err)
			}
			w.Close()
			if err := b.Commit(false); err != nil {
				t.Fatal(err)
			}
		}
		write(0, 5)
		for i, id := range ids {
			write(id, int64(10+i))
		}
		for name, o := range map[string]ReadOptions{
			"inconsistent": {Timestamp: clock.MaxTimestamp.Prev(), Inconsistent: true},
			"uncertain":    {Timestamp: at(7), Uncertainty: Uncertainty{Global: at(30), Local: at(8)}},
		} {
			r := NewReader(e)
			v, err := r.Get(k, &o)
			if err != nil || len(v.Bytes) != 1 || v.Bytes[0] != 0 {
				t.Errorf("%v, %s: got %v at %v, %v", ids, name, v.Bytes, v.Timestamp, err)
			}
			for _, reverse := range []bool{false, true} {
				res, err := r.Scan(k, k.Next(), &ScanOptions{ReadOptions: o, Reverse: reverse})
				if err != nil || len(res.Rows) != 1 || res.Rows[0].Value[0] != 0 {
					t.Errorf("%v, %s: scanned %+v, %v", ids, name, res.Rows, err)
				}
			}
			r.Close()
		}
		closeEngine()
	}
}
