package mvcc

import (
	"meridian/clock"
	"meridian/keys"
	"meridian/kv"
	"meridian/storage/engine"
)

// FindGarbage lists keys with versions that no read at or after the threshold can see, each with the newest such
// version. It looks at no more than maxVersions versions and returns at most maxKeys keys; resume is what is left
// of the span.
func (r *Reader) FindGarbage(start, end keys.Key, threshold clock.Timestamp, maxKeys, maxVersions int) (out []kv.GCKey, resume *keys.Span, err error) {
	locked := make(map[string]bool)
	ls := keys.LockSpan(start, end)
	lit, err := r.lockIter(ls.Start, ls.End)
	if err != nil {
		return nil, nil, err
	}
	for ok := lit.First(); ok && len(locked) < maxVersions; ok = lit.Next() {
		lk, _ := lit.Key()
		k, err := keys.DecodeLockKey(lk)
		if err != nil {
			return nil, nil, err
		}
		locked[string(k)] = true
	}
	if err := lit.Error(); err != nil {
		return nil, nil, err
	}
	if len(locked) >= maxVersions {
		// Too many intents to know which keys to leave alone; they will be fewer.
		return nil, nil, nil
	}
	it, err := r.dataIter(start, end)
	if err != nil {
		return nil, nil, err
	}
	seen, versions := 0, 0
	for ok := it.First(); ok; {
		k, ver := it.Key()
		first := versions == 0 || !sameKey(k, r.key)
		if first {
			if seen >= maxVersions || len(out) >= maxKeys {
				return out, &keys.Span{Start: clone(k), End: end}, nil
			}
			r.key = append(r.key[:0], k...)
			versions = 0
		}
		versions++
		seen++
		ts, err := engine.DecodeTimestamp(ver)
		if err != nil {
			return nil, nil, err
		}
		if ts.IsZero() || threshold.Less(ts) {
			ok = it.Next()
			continue
		}
		if locked[string(k)] {
			ok = it.NextKey()
			versions = 0
			continue
		}
		// The first version at or below the threshold is what a read there sees; what is older is garbage, and so
		// is the version itself if it is a tombstone.
		raw, err := it.Value()
		if err != nil {
			return nil, nil, err
		}
		if isTombstone(raw) {
			out = append(out, kv.GCKey{Key: clone(k), Timestamp: ts})
		} else if ok = it.Next(); ok {
			next, nver := it.Key()
			if !sameKey(next, r.key) {
				versions = 0
				continue
			}
			if ts, err = engine.DecodeTimestamp(nver); err != nil {
				return nil, nil, err
			}
			out = append(out, kv.GCKey{Key: clone(next), Timestamp: ts})
		} else {
			break
		}
		ok = it.NextKey()
		versions = 0
	}
	return out, nil, it.Error()
}

// GC removes the named versions and everything older of their keys. Versions above the threshold, values that a
// read at the threshold would see, and keys with locks are left alone, whatever the caller says.
func (w *Writer) GC(gcKeys []kv.GCKey, threshold clock.Timestamp) error {
	for i := range gcKeys {
		if err := w.gcKey(gcKeys[i].Key, gcKeys[i].Timestamp, threshold); err != nil {
			return err
		}
	}
	return nil
}

func (w *Writer) gcKey(k keys.Key, upTo, threshold clock.Timestamp) error {
	if locked, err := w.HasLocks(k, nil); err != nil || locked {
		return err
	}
	it, err := w.dataIter(nil, nil)
	if err != nil {
		return err
	}
	defer w.changed()
	upTo = upTo.Backward(threshold)
	shadowed := false // a newer version at or below the threshold hides the present one
	var newest version
	for ok := it.SeekPrefixGE(k, clock.Timestamp{}); ok; ok = it.Next() {
		_, ver := it.Key()
		ts, err := engine.DecodeTimestamp(ver)
		if err != nil {
			return err
		}
		if ts.IsZero() {
			continue
		}
		raw, err := it.Value()
		if err != nil {
			return err
		}
		v := version{exists: true, tombstone: isTombstone(raw), size: len(raw)}
		if !newest.exists {
			newest = v
			if ts.LessEq(upTo) && v.tombstone {
				// All of the key goes.
				w.Stats.newest(k, v, version{})
			}
		}
		if ts.LessEq(upTo) && (shadowed || v.tombstone) {
			w.b.DeleteVersion(k, ts)
			w.Stats.addVersion(v, -1)
			shadowed = true
			continue
		}
		if ts.LessEq(threshold) {
			shadowed = true
		}
	}
	return it.Error()
}

// ComputeStats counts what is in the spans, which are keys' spans: lock table entries are found through them.
func (r *Reader) ComputeStats(spans ...keys.Span) (Stats, error) {
	var s Stats
	for _, span := range spans {
		it, err := r.dataIter(span.Start, span.Stop())
		if err != nil {
			return Stats{}, err
		}
		r.key = r.key[:0]
		started := false
		for ok := it.First(); ok; ok = it.Next() {
			k, ver := it.Key()
			if len(ver) == 0 {
				continue
			}
			raw, err := it.Value()
			if err != nil {
				return Stats{}, err
			}
			v := version{exists: true, tombstone: isTombstone(raw), size: len(raw)}
			if !started || !sameKey(k, r.key) {
				started = true
				r.key = append(r.key[:0], k...)
				s.newest(k, version{}, v)
			}
			s.addVersion(v, 1)
		}
		if err := it.Error(); err != nil {
			return Stats{}, err
		}
		ls := keys.LockSpan(span.Start, span.Stop())
		if it, err = r.lockIter(ls.Start, ls.End); err != nil {
			return Stats{}, err
		}
		for ok := it.First(); ok; ok = it.Next() {
			s.IntentCount++
		}
		if err := it.Error(); err != nil {
			return Stats{}, err
		}
	}
	return s, nil
}

// FindSplitKey looks for the key that divides a span into halves of nearly equal size, counting all versions. It
// is never the first key of the span; nil means that there is no such key. before is the key in front of it. size is the span's size if the caller
// knows it (Stats.TotalBytes); zero has it counted.
func (r *Reader) FindSplitKey(start, end keys.Key, size int64) (at, before keys.Key, err error) {
	it, err := r.dataIter(start, end)
	if err != nil {
		return nil, nil, err
	}
	if size <= 0 {
		for ok := it.First(); ok; ok = it.Next() {
			size += int64(len(it.RawKey()) + it.ValueLen())
		}
		if err := it.Error(); err != nil {
			return nil, nil, err
		}
	}
	var sum int64
	r.key = r.key[:0]
	first := true
	// at is the last boundary at or before the middle, in case the key that straddles it is the last one.
	for ok := it.First(); ok; ok = it.Next() {
		k, _ := it.Key()
		if first || !sameKey(k, r.key) {
			if !first && k.Compare(start) > 0 {
				at, before = append(at[:0], k...), append(before[:0], r.key...)
				if 2*sum >= size {
					return at, before, nil
				}
			}
			r.key = append(r.key[:0], k...)
			first = false
		}
		sum += int64(len(it.RawKey()) + it.ValueLen())
	}
	return at, before, it.Error()
}

// Ends are the first and the last key of a span that have versions; nil: there is none.
func (r *Reader) Ends(start, end keys.Key) (first, last keys.Key, err error) {
	it, err := r.dataIter(start, end)
	if err != nil {
		return nil, nil, err
	}
	if it.First() {
		k, _ := it.Key()
		first = append(first, k...)
	}
	if first != nil && it.Last() {
		k, _ := it.Key()
		last = append(last, k...)
	}
	return first, last, it.Error()
}
