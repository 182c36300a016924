package mvcc

import (
	"bytes"
	"encoding/binary"

	"meridian/clock"
	"meridian/invariant"
	"meridian/keys"
	"meridian/kv"
	"meridian/storage/engine"
)

// WriteOptions say who writes, when, and over what.
type WriteOptions struct {
	// Txn writes intents at its write timestamp; nil writes committed versions at Timestamp.
	Txn *kv.Txn
	// Seq numbers the write within its transaction.
	Seq kv.Seq
	// OnePhase makes a transaction write committed versions at its write timestamp, because it commits with this
	// very batch. ErrNotOnePhase is answered on a key that it has an intent on.
	OnePhase bool
	// Timestamp of a write without a transaction.
	Timestamp clock.Timestamp
	// Seen, if not zero, stands for the transaction's read timestamp: the version that the write replaces was the newest
	// then (mvcc.M3).
	Seen clock.Timestamp
	// LocalTimestamp is the leaseholder's clock. It is kept with the value if the value's timestamp is later.
	LocalTimestamp clock.Timestamp
	// NoLocks says that the caller knows of no lock in the span, so the lock table is not looked at.
	NoLocks bool
}

// Writer is a Reader that also writes into a batch, and sums up the change of the statistics.
//
// Its source may be the store itself, if no operation has to see the changes of an earlier one (operations on
// different keys), or the batch, if that is indexed.
type Writer struct {
	Reader
	// Stats is the change by all operations so far.
	Stats Stats
	// Replays counts the writes that had been done before, and changed nothing. Own is the latest timestamp of an intent that
	// the transaction had on a key that it writes.
	Replays int
	Own     clock.Timestamp

	// Log, if any, hears of what happens to the lock table.
	Log LockLog

	b       *engine.Batch
	indexed bool // the source is the batch
	out     []byte
	past    []byte
}

// NewWriter makes a writer into b that reads src. Close it before b is closed.
func NewWriter(src engine.Reader, b *engine.Batch) *Writer {
	w := &Writer{}
	w.Reset(src, b)
	return w
}

// Reset makes a closed or new writer read src and write into b.
func (w *Writer) Reset(src engine.Reader, b *engine.Batch) {
	w.Reader.Reset(src)
	sb, ok := src.(*engine.Batch)
	w.Log, w.b, w.indexed, w.Stats = nil, b, ok && sb == b, Stats{}
	w.Replays, w.Own = 0, clock.Timestamp{}
}

// Batch is where the writer writes.
func (w *Writer) Batch() *engine.Batch { return w.b }

// changed notes that the batch has changed under the iterators.
func (w *Writer) changed() {
	if w.indexed {
		w.dataStale, w.locksStale = true, true
	}
}

// target is what a write finds at its key.
type target struct {
	own *Lock // the transaction's intent
	// ownRaw is the provisional value, which the iterator no longer has.
	ownRaw []byte
	newest version // the newest version of all, provisional or not
	// below is the newest version that is not the own intent's, and at its time.
	below version
	at    clock.Timestamp
	// visible is what the transaction sees at the write's sequence number, if the write asked.
	visible value
	// replay says that the write has been done before.
	replay bool
}

// prepare looks at the locks and versions of a key before a write. With look it reads the visible value.
func (w *Writer) prepare(k keys.Key, o *WriteOptions, look bool) (t target, err error) {
	readTS := o.Timestamp
	if o.Txn != nil {
		readTS = o.Txn.ReadTimestamp
		if !o.Seen.IsZero() {
			// A version at that very time was seen, but can't be written over at its own timestamp.
			readTS = o.Seen.Next().Backward(o.Txn.WriteTimestamp)
		}
	}
	if !o.NoLocks {
		look, err := w.mayHold(k)
		if err == nil && look {
			err = w.checkLocks(k, o, &t)
		}
		if err != nil {
			return t, err
		}
	}
	if t.own != nil && o.OnePhase {
		return t, ErrNotOnePhase
	}
	it, err := w.dataIter(nil, nil)
	if err != nil {
		return t, err
	}
	ok := it.SeekPrefixGE(k, clock.Timestamp{})
	if ok {
		_, ver := it.Key()
		if len(ver) == 0 { // an unversioned neighbour in a local keyspace
			ok = it.Next()
		}
	}
	if t.own != nil {
		at := clock.Timestamp{}
		if ok {
			_, ver := it.Key()
			if at, err = engine.DecodeTimestamp(ver); err != nil {
				return t, err
			}
		}
		if t.own.Txn.WriteTimestamp.Less(at) {
			// Only the intent of a transaction that is known to be committed is written over (Outcomes): what comes here is
			// a request of a transaction that is over, a second time or late.
			return t, &kv.TxnRetryError{Reason: kv.RetryPossibleReplay, WriteTimestamp: at}
		}
		if at != t.own.Txn.WriteTimestamp {
			invariant.Fail("mvcc: intent on %s at %s, but the newest version is at %s", k, t.own.Txn.WriteTimestamp, at)
		}
		raw, err := it.Value()
		if err != nil {
			return t, err
		}
		w.past = append(w.past[:0], raw...)
		t.ownRaw = w.past
		t.newest = version{exists: true, tombstone: isTombstone(raw), size: len(raw)}
		ok = it.Next()
	}
	if !ok {
		if err := it.Error(); err != nil {
			return t, err
		}
	} else {
		_, ver := it.Key()
		ts, err := engine.DecodeTimestamp(ver)
		if err != nil {
			return t, err
		}
		if t.own == nil && readTS.LessEq(ts) {
			return t, &kv.WriteTooOldError{Key: clone(k), Actual: ts}
		}
		raw, err := it.Value()
		if err != nil {
			return t, err
		}
		t.below, t.at = version{exists: true, tombstone: isTombstone(raw), size: len(raw)}, ts
		if look {
			if t.visible, err = decodeValue(raw); err != nil {
				return t, err
			}
		}
	}
	if t.own == nil {
		t.newest = t.below
	}
	if !t.below.exists {
		t.visible = value{tombstone: true}
	}
	if t.own == nil {
		return t, nil
	}
	w.Own = w.Own.Forward(t.own.Txn.WriteTimestamp)
	if t.own.Txn.Attempt == o.Txn.Attempt && o.Seq <= t.own.Txn.Seq {
		if t.replay = t.own.wrote(o.Seq); !t.replay {
			return t, &kv.TxnRetryError{Reason: kv.RetryPossibleReplay, WriteTimestamp: t.own.Txn.WriteTimestamp}
		}
		w.Replays++
	}
	if look {
		switch s := t.own.at(o.Txn.Attempt, o.Seq, o.Txn.IgnoredSeqs); {
		case s.provisional:
			t.visible, err = decodeValue(t.ownRaw)
		case s.past:
			t.visible, err = decodeValue(s.raw)
		}
	}
	return t, err
}

// wrote reports whether the intent's attempt has written under seq.
func (l *Lock) wrote(seq kv.Seq) bool {
	if l.Txn.Seq == seq {
		return true
	}
	for _, p := range l.history {
		if p.seq == seq {
			return true
		}
	}
	return false
}

// checkLocks finds the transaction's own intent and other transactions' locks.
func (w *Writer) checkLocks(k keys.Key, o *WriteOptions, t *target) error {
	it, c, err := w.cursor(k)
	if err != nil {
		return err
	}
	c.pass(w.Outcomes, o.Txn)
	var conflicts []Intent
	for ok := c.first(); ok; ok = c.next() {
		l, err := w.lockAt(it)
		if err != nil {
			return err
		}
		switch {
		case o.Txn == nil || l.Txn.ID != o.Txn.ID:
			if !l.committed(w.Outcomes) {
				conflicts = append(conflicts, *l)
			}
		case l.Strength != IntentStrength:
		case l.Txn.Attempt > o.Txn.Attempt:
			return &kv.TxnRetryError{Reason: kv.RetryPossibleReplay, WriteTimestamp: l.Txn.WriteTimestamp}
		default:
			t.own = l
		}
	}
	if len(conflicts) > 0 {
		return &LockConflictError{Intents: conflicts}
	}
	return it.Error()
}

// finish writes what prepare allowed. A nil val with tombstone set deletes.
func (w *Writer) finish(k keys.Key, t *target, val []byte, tombstone bool, o *WriteOptions) {
	if t.replay {
		return
	}
	defer w.changed()
	ts := o.Timestamp
	if o.Txn != nil {
		ts = o.Txn.WriteTimestamp.Forward(o.Txn.ReadTimestamp)
		if t.own != nil {
			ts = ts.Forward(t.own.Txn.WriteTimestamp)
		}
	}
	var scratch [1 + clock.EncodedLen]byte
	local := o.LocalTimestamp
	if !local.Less(ts) {
		local = clock.Timestamp{}
	}
	head := header(scratch[:0], local, tombstone)
	after := version{exists: true, tombstone: tombstone, size: len(head) + len(val)}
	w.Stats.newest(k, t.newest, after)
	w.Stats.addVersion(after, 1)
	w.b.PutVersion(k, ts, head, val)
	if o.Txn == nil || o.OnePhase {
		return
	}
	l := Lock{Strength: IntentStrength, Txn: o.Txn.TxnMeta, Local: local}
	l.Txn.WriteTimestamp, l.Txn.Seq = ts, o.Seq
	if t.own == nil {
		w.laid(k, &l)
	} else {
		w.Stats.addVersion(t.newest, -1)
		if t.own.Txn.WriteTimestamp != ts {
			w.b.DeleteVersion(k, t.own.Txn.WriteTimestamp)
		}
		if t.own.Txn.Attempt == o.Txn.Attempt {
			for _, p := range t.own.history {
				if !ignored(p.seq, o.Txn.IgnoredSeqs) {
					l.history = append(l.history, p)
				}
			}
			if !ignored(t.own.Txn.Seq, o.Txn.IgnoredSeqs) {
				l.history = append(l.history, pastValue{seq: t.own.Txn.Seq, raw: t.ownRaw})
			}
		}
	}
	w.out = appendLock(w.out[:0], &l)
	w.b.PutLock(k, uint8(IntentStrength), l.Txn.ID, w.out)
}

// laid counts a new entry.
func (w *Writer) laid(k keys.Key, l *Lock) {
	w.Stats.IntentCount++
	if w.Log != nil {
		w.Log.Laid(k, l.Strength, &l.Txn)
	}
}

// Put writes a key whatever was there.
func (w *Writer) Put(k keys.Key, val []byte, o *WriteOptions) error {
	t, err := w.prepare(k, o, false)
	if err != nil {
		return err
	}
	w.finish(k, &t, val, false, o)
	return nil
}

// CPut writes a key if its present value is expected (nil: no value); else *kv.ConditionFailedError.
func (w *Writer) CPut(k keys.Key, val, expected []byte, o *WriteOptions) error {
	t, err := w.prepare(k, o, true)
	if err != nil || t.replay {
		return err
	}
	switch v := &t.visible; {
	case v.tombstone && expected != nil:
		w.Seen = w.Seen.Forward(t.at)
		return &kv.ConditionFailedError{Key: clone(k)}
	case !v.tombstone && (expected == nil || !bytes.Equal(v.bytes, expected)):
		w.Seen = w.Seen.Forward(t.at)
		return &kv.ConditionFailedError{Key: clone(k), Actual: clone(v.bytes)}
	}
	w.finish(k, &t, val, false, o)
	return nil
}

// Delete removes a key and reports whether it had a value. A key that never had a version gets a tombstone too:
// the write must leave an intent that others can see.
func (w *Writer) Delete(k keys.Key, o *WriteOptions) (existed bool, err error) {
	t, err := w.prepare(k, o, true)
	if err != nil {
		return false, err
	}
	w.finish(k, &t, nil, true, o)
	return !t.visible.tombstone, nil
}

// Add adds to a key that holds an eight-byte big-endian integer, and returns the sum.
func (w *Writer) Add(k keys.Key, delta int64, o *WriteOptions) (int64, error) {
	t, err := w.prepare(k, o, true)
	if err != nil {
		return 0, err
	}
	var n int64
	if !t.visible.tombstone {
		if len(t.visible.bytes) != 8 {
			return 0, ErrNotAnInteger
		}
		n = int64(binary.BigEndian.Uint64(t.visible.bytes))
	}
	if t.replay {
		return n, nil
	}
	sum := n + delta
	if (delta > 0 && sum < n) || (delta < 0 && sum > n) {
		return 0, &kv.AddOverflowError{Key: clone(k), Value: n, Delta: delta}
	}
	var buf [8]byte
	binary.BigEndian.PutUint64(buf[:], uint64(sum))
	w.finish(k, &t, buf[:], false, o)
	return sum, nil
}

// DeleteRange removes the keys of a span that have values, at most max of them (zero: all), and tells what is
// left of the span if that was too few. Keys that the transaction does not see are left alone, but versions above
// its read timestamp make it fail, as in all writes.
func (w *Writer) DeleteRange(start, end keys.Key, max int64, o *WriteOptions) (deleted []keys.Key, resume *keys.Span, err error) {
	ro := ScanOptions{MaxKeys: max, ReadOptions: ReadOptions{
		Timestamp: o.Timestamp, Txn: o.Txn, ReadSeq: o.Seq, Lock: kv.Exclusive, NoLocks: o.NoLocks,
	}}
	if o.Txn != nil {
		ro.Timestamp = o.Txn.ReadTimestamp
	}
	res, err := w.Scan(start, end, &ro)
	if err != nil {
		return nil, nil, err
	}
	for _, row := range res.Rows {
		if _, err := w.Delete(row.Key, o); err != nil {
			return nil, nil, err
		}
		deleted = append(deleted, row.Key)
	}
	return deleted, res.Resume, nil
}

// Lock writes a lock without a value, which survives the leaseholder.
func (w *Writer) Lock(k keys.Key, strength kv.LockStrength, o *WriteOptions) error {
	it, c, err := w.cursor(k)
	if err != nil {
		return err
	}
	var conflicts []Intent
	held := false
	for ok := c.first(); ok; ok = c.next() {
		l, err := w.lockAt(it)
		if err != nil {
			return err
		}
		switch {
		case l.Txn.ID == o.Txn.ID:
			held = held || l.Strength >= strength
		case !l.Strength.Compatible(strength):
			conflicts = append(conflicts, *l)
		}
	}
	if err := it.Error(); err != nil {
		return err
	}
	if len(conflicts) > 0 {
		return &LockConflictError{Intents: conflicts}
	}
	if held {
		return nil
	}
	l := Lock{Strength: strength, Txn: o.Txn.TxnMeta}
	l.Txn.Seq = o.Seq
	w.out = appendLock(w.out[:0], &l)
	w.b.PutLock(k, uint8(strength), l.Txn.ID, w.out)
	w.laid(k, &l)
	w.changed()
	return nil
}
