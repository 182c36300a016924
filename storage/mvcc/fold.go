package mvcc

import (
	"errors"

	"meridian/clock"
	"meridian/keys"
	"meridian/kv"
	"meridian/storage/engine"
)

// ErrUnderIntent refuses a version that would hide an intent: an intent is the newest version of its key.
var ErrUnderIntent = errors.New("mvcc: a version is not folded above an intent of its key")

// Fold adds a committed version, a tombstone if val is nil, at its own place among the versions of its key, which need not be the
// last one. A version of that timestamp stays as it is. The source has to show what the writer did before.
func (w *Writer) Fold(k keys.Key, val []byte, at clock.Timestamp) error {
	locks, err := w.lockIter(nil, nil)
	if err != nil {
		return err
	}
	for ok := locks.SeekLockPrefix(k); ok; ok = locks.Next() {
		l, err := w.lockAt(locks)
		if err != nil {
			return err
		}
		if l.Strength == IntentStrength && l.Txn.WriteTimestamp.LessEq(at) {
			if l.Txn.WriteTimestamp == at {
				return nil
			}
			return ErrUnderIntent
		}
	}
	if err := locks.Error(); err != nil {
		return err
	}
	it, err := w.dataIter(nil, nil)
	if err != nil {
		return err
	}
	ok := it.SeekPrefixGE(k, clock.Timestamp{})
	if ok {
		if _, ver := it.Key(); len(ver) == 0 { // an unversioned neighbour in a local keyspace
			ok = it.Next()
		}
	}
	var newest version
	var newestAt clock.Timestamp
	if ok {
		_, ver := it.Key()
		if newestAt, err = engine.DecodeTimestamp(ver); err != nil {
			return err
		}
		raw, err := it.Value()
		if err != nil {
			return err
		}
		newest = version{exists: true, tombstone: isTombstone(raw), size: len(raw)}
	}
	if err := it.Error(); err != nil {
		return err
	}
	if newest.exists && at.LessEq(newestAt) {
		if there, err := w.versionAt(k, at); err != nil || there {
			return err
		}
	}
	w.out = header(w.out[:0], clock.Timestamp{}, val == nil)
	after := version{exists: true, tombstone: val == nil, size: len(w.out) + len(val)}
	if !newest.exists || newestAt.Less(at) {
		w.Stats.newest(k, newest, after)
	}
	w.Stats.addVersion(after, 1)
	w.b.PutVersion(k, at, w.out, val)
	w.changed()
	return nil
}

// FoldIntent writes a provisional write of a transaction that was promised under another protocol, at the transaction's write timestamp and
// under its sequence number; with a final status it gives such a write that outcome. Done again, it changes nothing.
func (w *Writer) FoldIntent(k keys.Key, val []byte, txn *kv.TxnMeta, status kv.Status) error {
	if status == kv.Committed || status == kv.Aborted {
		_, err := w.ResolveIntent(k, &Resolution{Txn: *txn, Status: status})
		return err
	}
	o := &WriteOptions{Txn: &kv.Txn{TxnMeta: *txn, ReadTimestamp: txn.WriteTimestamp}, Seq: txn.Seq}
	if val == nil {
		_, err := w.Delete(k, o)
		return err
	}
	return w.Put(k, val, o)
}
