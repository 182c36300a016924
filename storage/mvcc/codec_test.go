package mvcc

import (
	"bytes"
	"reflect"
	"testing"

	"meridian/clock"
	"meridian/keys"
	"meridian/kv"
	"meridian/wire"
	"meridian/wire/wiretest"
)

func sampleLock() *Lock {
	return &Lock{
		Key: keys.Key("\x10k"), Strength: IntentStrength,
		Txn: kv.TxnMeta{ID: kv.TxnID{1, 2, 3}, Anchor: keys.Key("\x10a"), Attempt: 2,
			WriteTimestamp: clock.Timestamp{Wall: 9, Logical: 1}, MinTimestamp: clock.Timestamp{Wall: 3},
			Seq: 300, Priority: -4, Isolation: kv.ReadCommitted, Gateway: 7},
		history: []pastValue{{seq: 1, raw: []byte{0, 'x'}}, {seq: 2, raw: []byte{}}},
	}
}

func lockVersion(l *Lock) []byte { return append([]byte{byte(l.Strength)}, l.Txn.ID[:]...) }

func TestLockCodec(t *testing.T) {
	l := sampleLock()
	val := appendLock(nil, l)
	if declared := wire.Append(nil, l, (*Lock).fields); !bytes.Equal(val, declared) {
		t.Fatalf("%x, but it is declared as %x", val, declared)
	}
	got, err := decodeLock(l.Key, lockVersion(l), val)
	if err != nil || !reflect.DeepEqual(got, l) {
		t.Fatalf("%+v, %v; want %+v", got, err, l)
	}
}

// TestMessages: the messages of the package are as package wire wants them.
func TestMessages(t *testing.T) {
	wiretest.Run(t, []wiretest.Message{
		wiretest.Declared("mvcc.Stats", wiretest.Refuses, (*Stats).Fields, nil),
		wiretest.Of("mvcc.Lock", wiretest.Refuses, appendLock, func(r *wire.Reader, l *Lock) { wire.In(r, l, (*Lock).fields) }, func(l *Lock) {
			l.Key, l.Strength, l.Txn.ID = nil, 0, kv.TxnID{} // are its key
		}),
		wiretest.Declared("mvcc.PastValue", wiretest.Refuses, (*pastValue).fields, nil),
	})
}

func FuzzDecodeLock(f *testing.F) {
	l := sampleLock()
	f.Add([]byte(l.Key), lockVersion(l), appendLock(nil, l))
	f.Fuzz(func(t *testing.T, k, version, val []byte) {
		l, err := decodeLock(k, version, val)
		if err != nil {
			return
		}
		again, err := decodeLock(l.Key, lockVersion(l), appendLock(nil, l))
		if err != nil || !reflect.DeepEqual(again, l) {
			t.Fatalf("%+v became %+v, %v", l, again, err)
		}
	})
}

func FuzzDecodeValue(f *testing.F) {
	f.Add([]byte{0, 'x'})
	f.Add(header(nil, clock.Timestamp{Wall: 5}, true))
	f.Fuzz(func(t *testing.T, raw []byte) {
		v, err := decodeValue(raw)
		if err != nil {
			return
		}
		if v.tombstone != isTombstone(raw) {
			t.Fatalf("%x: tombstone?", raw)
		}
		if again := append(header(nil, v.local, v.tombstone), v.bytes...); !bytes.Equal(again, raw) && !v.local.IsZero() {
			t.Fatalf("%x became %x", raw, again)
		}
	})
}

// TestRetain: what reads return does not change when the iterators move on or the store changes.
func TestRetain(t *testing.T) {
	e, closeEngine := openEngine(t)
	defer closeEngine()
	write := func(ts int64, val string) {
		b := e.NewBatch()
		defer b.Close()
		w := NewWriter(e, b)
		defer w.Close()
		for _, k := range []string{"a", "b", "c"} {
			if err := w.Put(tableKey(k), []byte(val), &WriteOptions{Timestamp: at(ts)}); err != nil {
				t.Fatal(err)
			}
		}
		if err := b.Commit(false); err != nil {
			t.Fatal(err)
		}
	}
	write(1, "first")
	r := NewReader(e)
	v, err := r.Get(tableKey("a"), &ReadOptions{Timestamp: at(5)})
	if err != nil {
		t.Fatal(err)
	}
	res, err := r.Scan(tableSpan.Start, tableSpan.End, &ScanOptions{ReadOptions: ReadOptions{Timestamp: at(5)}})
	if err != nil {
		t.Fatal(err)
	}
	res.Rows[0].Value = append(res.Rows[0].Value, "-overrun"...)
	r.Close()
	write(2, "other")
	if err := e.Flush(); err != nil {
		t.Fatal(err)
	}
	if string(v.Bytes) != "first" || string(res.Rows[1].Key) != string(tableKey("b")) || string(res.Rows[1].Value) != "first" {
		t.Fatalf("%q %v", v.Bytes, res.Rows)
	}
}

// TestConflictsAreBounded: a scan over very many intents reports some of them.
func TestConflictsAreBounded(t *testing.T) {
	e, closeEngine := openEngine(t)
	defer closeEngine()
	b := e.NewBatch()
	w := NewWriter(e, b)
	txn := &kv.Txn{TxnMeta: kv.TxnMeta{ID: kv.TxnID{1}, WriteTimestamp: at(1)}, ReadTimestamp: at(1)}
	for i := range 200 {
		if err := w.Put(append(tableKey("k"), byte(i)), nil, &WriteOptions{Txn: txn, Seq: 1}); err != nil {
			t.Fatal(err)
		}
	}
	w.Close()
	if err := b.Commit(false); err != nil {
		t.Fatal(err)
	}
	b.Close()
	r := NewReader(e)
	defer r.Close()
	for _, reverse := range []bool{false, true} {
		_, err := r.Scan(tableSpan.Start, tableSpan.End, &ScanOptions{Reverse: reverse, ReadOptions: ReadOptions{Timestamp: at(5)}})
		c, ok := err.(*LockConflictError)
		if !ok || len(c.Intents) != maxConflicts {
			t.Fatalf("%v", err)
		}
	}
	l, err := r.Intent(append(tableKey("k"), 7), txn.ID)
	if err != nil || l == nil || l.Txn.ID != txn.ID {
		t.Fatal(l, err)
	}
	if l, err := r.Intent(append(tableKey("k"), 7), kv.TxnID{9}); err != nil || l != nil {
		t.Fatal(l, err)
	}
}
