package mvcc

import (
	"fmt"

	"meridian/clock"
	"meridian/keys"
	"meridian/kv"
	"meridian/storage/engine"
)

// Resolution is what became of a transaction, for its locks.
type Resolution struct {
	// Txn's write timestamp is the commit timestamp, or, while it is pending, what it was pushed to.
	Txn         kv.TxnMeta
	Status      kv.Status
	IgnoredSeqs []kv.SeqRange
	// IntentsOnly says that the transaction has no locks without values, so that ResolveIntent need not look for them.
	IntentsOnly bool
	// InPlace says that entries of the lock table may be removed and nothing else done; else ErrNotInPlace.
	InPlace bool
	// MaxBytes has ResolveRange stop when the writer's batch is longer than that; zero: never.
	MaxBytes int
}

// ResolveIntent carries out a resolution on one key and reports whether a lock was there.
func (w *Writer) ResolveIntent(k keys.Key, res *Resolution) (bool, error) {
	if w.Table != nil && !w.Table.Has(k) {
		return false, nil
	}
	if res.IntentsOnly {
		it, err := w.lockIter(nil, nil)
		if err != nil {
			return false, err
		}
		if !it.SeekLock(k, uint8(IntentStrength), res.Txn.ID) {
			return false, it.Error()
		}
		l, err := w.lockAt(it)
		if err != nil {
			return false, err
		}
		return true, w.resolve(l, res)
	}
	it, c, err := w.cursor(k)
	if err != nil {
		return false, err
	}
	c.only(res.Txn.ID)
	var found []*Lock
	for ok := c.first(); ok; ok = c.next() {
		_, ver := it.Key()
		_, id, err := engine.DecodeLock(ver)
		if err != nil {
			return false, err
		}
		if id != res.Txn.ID {
			continue
		}
		l, err := w.lockAt(it)
		if err != nil {
			return false, err
		}
		found = append(found, l)
	}
	if err := it.Error(); err != nil {
		return false, err
	}
	for _, l := range found {
		if err := w.resolve(l, res); err != nil {
			return false, err
		}
	}
	return len(found) > 0, nil
}

// ResolveRange carries out a resolution on all of a span, at most max locks of it (zero: all), and tells what is
// left of the span. It may stop earlier, after Resolution.MaxBytes.
func (w *Writer) ResolveRange(start, end keys.Key, res *Resolution, max int64) (resolved int64, resume *keys.Span, err error) {
	it, c, err := w.cursorWithin(start, end)
	if err != nil {
		return 0, nil, err
	}
	c.only(res.Txn.ID)
	for ok := c.first(); ok; ok = c.next() {
		lk, ver := it.Key()
		_, id, err := engine.DecodeLock(ver)
		if err != nil {
			return resolved, nil, err
		}
		if id != res.Txn.ID {
			continue
		}
		if max > 0 && resolved >= max || res.MaxBytes > 0 && resolved > 0 && w.b.Len() > res.MaxBytes {
			k, err := keys.DecodeLockKey(lk)
			return resolved, &keys.Span{Start: clone(k), End: end}, err
		}
		l, err := w.lockAt(it)
		if err != nil {
			return resolved, nil, err
		}
		if err := w.resolve(l, res); err != nil {
			return resolved, nil, err
		}
		resolved++
	}
	return resolved, nil, it.Error()
}

// LocksOf finds the part of a span that has a transaction's locks, at most max of them, and what is left of the span; a
// zero part means that there are none.
func (r *Reader) LocksOf(id kv.TxnID, start, end keys.Key, max int64) (part keys.Span, rest *keys.Span, err error) {
	it, c, err := r.cursorWithin(start, end)
	if err != nil {
		return part, nil, err
	}
	c.only(id)
	r.key = r.key[:0]
	for ok := c.first(); ok; ok = c.next() {
		raw, ver := it.Key()
		_, owner, err := engine.DecodeLock(ver)
		if err != nil {
			return part, nil, err
		}
		if owner != id {
			continue
		}
		k, err := keys.DecodeLockKey(raw)
		if err != nil {
			return part, nil, err
		}
		if max--; max < 0 && !k.Equal(r.key) {
			rest = &keys.Span{Start: clone(k), End: end}
			break
		}
		if part.Start == nil {
			part.Start = clone(k)
		}
		r.key = append(r.key[:0], k...)
	}
	if part.Start != nil {
		part.End = keys.Key(r.key).Next()
	}
	return part, rest, it.Error()
}

func (w *Writer) dropLock(l *Lock) {
	w.b.DeleteLock(l.Key, uint8(l.Strength), l.Txn.ID)
	w.Stats.IntentCount--
	if w.Log != nil {
		w.Log.Dropped(l.Key, l.Strength, l.Txn.ID)
	}
}

// resolve gives one lock its outcome.
//
//	committed                      the provisional version becomes a version, at the commit timestamp
//	aborted                        lock and provisional version go
//	pending, pushed                the provisional version moves up with the transaction
//	any, written by an old attempt as aborted: the new attempt knows nothing of it
//	any, rolled back to savepoint  the value of the last sequence number that stands takes its place
func (w *Writer) resolve(l *Lock, res *Resolution) error {
	final := res.Status == kv.Committed || res.Status == kv.Aborted
	defer w.changed()
	if l.Strength != IntentStrength {
		if final || l.Txn.Attempt < res.Txn.Attempt {
			w.dropLock(l)
		}
		return nil
	}
	if l.Txn.Attempt > res.Txn.Attempt && res.Status != kv.Aborted {
		return nil // news of an attempt that is over
	}
	abort := res.Status == kv.Aborted || l.Txn.Attempt < res.Txn.Attempt
	var stands seen
	if !abort {
		stands = l.at(l.Txn.Attempt, ^kv.Seq(0), res.IgnoredSeqs)
		abort = !stands.provisional && !stands.past
	}
	from, to := l.Txn.WriteTimestamp, l.Txn.WriteTimestamp
	if !abort {
		if res.Status == kv.Committed && res.Txn.WriteTimestamp.Less(from) {
			// Committed writes are at or below the commit timestamp. This is a late copy of a write whose intent was resolved
			// since; the version says so.
			was, err := w.versionAt(l.Key, res.Txn.WriteTimestamp)
			if err != nil {
				return err
			}
			if abort = was; !was {
				return fmt.Errorf("mvcc: transaction %s committed at %s with an intent on %s at %s",
					l.Txn.ID, res.Txn.WriteTimestamp, l.Key, from)
			}
		}
	}
	if !abort {
		to = from.Forward(res.Txn.WriteTimestamp)
		if stands.provisional && from == to {
			// The common case: the version is right as it is.
			if res.Status == kv.Committed {
				w.dropLock(l)
			}
			return nil
		}
	}
	if res.InPlace {
		return ErrNotInPlace
	}
	before, raw, below, err := w.provisional(l)
	if err != nil {
		return err
	}
	w.Stats.addVersion(before, -1)
	w.b.DeleteVersion(l.Key, from)
	if abort {
		w.Stats.newest(l.Key, before, below)
		w.dropLock(l)
		return nil
	}
	val, err := decodeValue(raw)
	if err != nil {
		return err
	}
	local := val.local
	if local.IsZero() && from != to {
		// The time at which the intent was written is what a reader's observed clock is compared with.
		local = from
	}
	if stands.past {
		if val, err = decodeValue(stands.raw); err != nil {
			return err
		}
	}
	// A value of the history may have been written at an earlier timestamp than the intent has, so without a local one it says nothing
	// about when. The write that was rolled back does: the transaction commits after it (mvcc.M6).
	val.local = local
	var scratch [1 + clock.EncodedLen]byte
	head := header(scratch[:0], val.local, val.tombstone)
	after := version{exists: true, tombstone: val.tombstone, size: len(head) + len(val.bytes)}
	w.Stats.addVersion(after, 1)
	w.Stats.newest(l.Key, before, after)
	w.b.PutVersion(l.Key, to, head, val.bytes)
	if res.Status == kv.Committed {
		w.dropLock(l)
		return nil
	}
	kept := Lock{Key: l.Key, Strength: l.Strength, Txn: l.Txn, Local: val.local}
	kept.Txn.WriteTimestamp = to
	for _, p := range l.history {
		if !ignored(p.seq, res.IgnoredSeqs) {
			kept.history = append(kept.history, p)
		}
	}
	if stands.past {
		last := len(kept.history) - 1
		kept.Txn.Seq = kept.history[last].seq
		kept.history = kept.history[:last]
	}
	w.out = appendLock(w.out[:0], &kept)
	w.b.PutLock(l.Key, uint8(l.Strength), l.Txn.ID, w.out)
	return nil
}

// versionAt reports whether a key has a version at just this timestamp.
func (w *Writer) versionAt(k keys.Key, at clock.Timestamp) (bool, error) {
	it, err := w.dataIter(nil, nil)
	if err != nil {
		return false, err
	}
	if !it.SeekPrefixGE(k, at) {
		return false, it.Error()
	}
	_, ver := it.Key()
	ts, err := engine.DecodeTimestamp(ver)
	return err == nil && ts == at, err
}

// provisional reads an intent's version, and describes the one below it.
func (w *Writer) provisional(l *Lock) (v version, raw []byte, below version, err error) {
	it, err := w.dataIter(nil, nil)
	if err != nil {
		return v, nil, below, err
	}
	if !it.SeekPrefixGE(l.Key, l.Txn.WriteTimestamp) {
		if err = it.Error(); err == nil {
			err = fmt.Errorf("mvcc: intent of %s on %s at %s has no version", l.Txn.ID, keys.Masked(l.Key), l.Txn.WriteTimestamp)
		}
		return v, nil, below, err
	}
	_, ver := it.Key()
	if ts, err := engine.DecodeTimestamp(ver); err != nil || ts != l.Txn.WriteTimestamp {
		return v, nil, below, fmt.Errorf("mvcc: intent of %s on %s at %s has no version", l.Txn.ID, keys.Masked(l.Key), l.Txn.WriteTimestamp)
	}
	val, err := it.Value()
	if err != nil {
		return v, nil, below, err
	}
	w.past = append(w.past[:0], val...)
	v = version{exists: true, tombstone: isTombstone(val), size: len(val)}
	if it.Next() {
		if val, err = it.Value(); err != nil {
			return v, nil, below, err
		}
		below = version{exists: true, tombstone: isTombstone(val), size: len(val)}
	}
	return v, w.past, below, it.Error()
}
