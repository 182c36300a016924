package mvcc

import (
	"bytes"
	"errors"

	"meridian/clock"
	"meridian/keys"
	"meridian/kv"
	"meridian/storage/engine"
)

// errUnsorted refuses rows that are not in key order.
var errUnsorted = errors.New("mvcc: rows to load are not in key order")

// Load writes a committed version at o.Timestamp for each row, in one pass over the span that they cover: where
// nothing is yet, which is the usual case, a thousand rows cost one seek. The rows are in key order. It fails with
// *LockConflictError on a key with a lock. With kv.LoadAlone it fails with *kv.ConditionFailedError on a key with a
// value and *kv.WriteTooOldError on one with a later version; else it returns those that it refuses (kv.LoadMode), among them
// those of which late, if there is one, says that a version comes too late. A version of the same timestamp and value is the
// row itself, loaded before. The writer's batch need not be indexed.
func (w *Writer) Load(rows []kv.KeyValue, mode kv.LoadMode, late func(keys.Key) bool, o *WriteOptions) (refused []keys.Key, err error) {
	if len(rows) == 0 {
		return nil, nil
	}
	for i := 1; i < len(rows); i++ {
		if bytes.Compare(rows[i-1].Key, rows[i].Key) >= 0 {
			return nil, errUnsorted
		}
	}
	first, stop := rows[0].Key, rows[len(rows)-1].Key.Next()
	if !o.NoLocks {
		if err := w.loadLocks(rows, first, stop); err != nil {
			return nil, err
		}
	}
	it, err := w.dataIter(first, stop)
	if err != nil {
		return nil, err
	}
	defer w.changed()
	load := func(row *kv.KeyValue, before version) {
		if late != nil && late(row.Key) {
			refused = append(refused, row.Key)
			return
		}
		w.load(row, before, o)
	}
	i := 0
	for ok := it.First(); ok && i < len(rows); {
		k, ver := it.Key()
		if len(ver) == 0 { // an unversioned neighbour in a local keyspace
			ok = it.Next()
			continue
		}
		for i < len(rows) && bytes.Compare(rows[i].Key, k) < 0 {
			load(&rows[i], version{})
			i++
		}
		if i == len(rows) {
			break
		}
		if !bytes.Equal(rows[i].Key, k) {
			ok = it.SeekGE(rows[i].Key)
			continue
		}
		ts, err := engine.DecodeTimestamp(ver)
		if err != nil {
			return nil, err
		}
		raw, err := it.Value()
		if err != nil {
			return nil, err
		}
		v, err := decodeValue(raw)
		if err != nil {
			return nil, err
		}
		later := o.Timestamp.Less(ts)
		same := !later && !v.tombstone && bytes.Equal(v.bytes, rows[i].Value)
		switch {
		case same && (mode != kv.LoadAlone || ts == o.Timestamp), later && mode == kv.LoadUnread:
		case v.tombstone && ts.Less(o.Timestamp):
			load(&rows[i], version{exists: true, tombstone: true, size: len(raw)})
		case mode != kv.LoadAlone:
			refused = append(refused, rows[i].Key)
		case later || v.tombstone:
			return nil, &kv.WriteTooOldError{Key: clone(k), Actual: ts}
		default:
			return nil, &kv.ConditionFailedError{Key: clone(k), Actual: clone(v.bytes)}
		}
		i++
		ok = it.NextKey()
	}
	if err := it.Error(); err != nil {
		return nil, err
	}
	for ; i < len(rows); i++ {
		load(&rows[i], version{})
	}
	return refused, nil
}

// loadLocks looks for locks on the keys of rows.
func (w *Writer) loadLocks(rows []kv.KeyValue, first, stop keys.Key) error {
	s := keys.LockSpan(first, stop)
	it, err := w.lockIter(s.Start, s.End)
	if err != nil {
		return err
	}
	var conflicts []Intent
	i := 0
	for ok := it.First(); ok && len(conflicts) < maxConflicts; ok = it.Next() {
		lk, _ := it.Key()
		k, err := keys.DecodeLockKey(lk)
		if err != nil {
			return err
		}
		for i < len(rows) && bytes.Compare(rows[i].Key, k) < 0 {
			i++
		}
		if i == len(rows) {
			break
		}
		if !bytes.Equal(rows[i].Key, k) {
			continue
		}
		l, err := w.lockAt(it)
		if err != nil {
			return err
		}
		if !l.committed(w.Outcomes) { // else it is a version (mvcc.M7)
			conflicts = append(conflicts, *l)
		}
	}
	if len(conflicts) > 0 {
		return &LockConflictError{Intents: conflicts}
	}
	return it.Error()
}

func (w *Writer) load(row *kv.KeyValue, before version, o *WriteOptions) {
	local := o.LocalTimestamp
	if !local.Less(o.Timestamp) {
		local = clock.Timestamp{}
	}
	w.out = header(w.out[:0], local, false)
	after := version{exists: true, size: len(w.out) + len(row.Value)}
	w.Stats.newest(row.Key, before, after)
	w.Stats.addVersion(after, 1)
	w.b.PutVersion(row.Key, o.Timestamp, w.out, row.Value)
}

// Clear removes every version of a span, of at most max keys (zero: all), and tells what is left of the span. It leaves one
// marker for each part of the span, not a tombstone for each key, and no history. It fails with *LockConflictError if there is a
// lock in the span: its transaction may have committed because this intent is there, and nothing else may say so yet.
func (w *Writer) Clear(start, end keys.Key, max int64) (removed int64, resume *keys.Span, err error) {
	if err := w.noLocks(start, end); err != nil {
		return 0, nil, err
	}
	it, err := w.dataIter(start, end)
	if err != nil {
		return 0, nil, err
	}
	stop := end
	w.key = w.key[:0]
	for ok := it.First(); ok; ok = it.Next() {
		k, ver := it.Key()
		if len(ver) == 0 {
			continue
		}
		fresh := removed == 0 || !bytes.Equal(k, w.key)
		if fresh && max > 0 && removed >= max {
			stop = clone(k)
			resume = &keys.Span{Start: stop, End: end}
			break
		}
		raw, err := it.Value()
		if err != nil {
			return 0, nil, err
		}
		v := version{exists: true, tombstone: isTombstone(raw), size: len(raw)}
		if fresh {
			w.key = append(w.key[:0], k...)
			w.Stats.newest(k, v, version{})
			removed++
		}
		w.Stats.addVersion(v, -1)
	}
	if err := it.Error(); err != nil {
		return 0, nil, err
	}
	defer w.changed()
	if removed > 0 {
		w.b.ClearSpan(keys.Span{Start: start, End: stop})
	}
	return removed, resume, nil
}

// noLocks fails with *LockConflictError if there are locks in a span.
func (w *Writer) noLocks(start, end keys.Key) error {
	s := keys.LockSpan(start, end)
	it, err := w.lockIter(s.Start, s.End)
	if err != nil {
		return err
	}
	var found []Intent
	for ok := it.First(); ok && len(found) < maxConflicts; ok = it.Next() {
		l, err := w.lockAt(it)
		if err != nil {
			return err
		}
		found = append(found, *l)
	}
	if err := it.Error(); err != nil {
		return err
	}
	if len(found) > 0 {
		return &LockConflictError{Intents: found}
	}
	return nil
}
