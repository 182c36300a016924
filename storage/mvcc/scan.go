package mvcc

import (
	"bytes"

	"meridian/clock"
	"meridian/keys"
	"meridian/kv"
	"meridian/storage/engine"
)

// ScanOptions say what a scan sees and when it stops.
type ScanOptions struct {
	ReadOptions
	Reverse bool
	// MaxKeys and TargetBytes end the scan early; zero is no bound. TargetBytes lets at least one row pass.
	MaxKeys     int64
	TargetBytes int64
	// MaxBytes ends the scan like TargetBytes. It is for a reader that wants the whole span or nothing: all conflicts are of
	// interest to it.
	MaxBytes int64
	// StopAtConflict ends a bounded scan that has found many rows at the first lock in its way, instead of failing: what
	// it has found need not be read again when the lock is gone.
	StopAtConflict bool
}

// ScanResult is what a scan found. Rows are the caller's to keep.
type ScanResult struct {
	Rows   []kv.KeyValue
	Resume *keys.Span // what is left of the span, if a bound ended the scan
	Bytes  int64      // of keys and values
}

// stopRows is how many rows make a scan worth stopping.
const stopRows = 64

// arena holds a scan's keys and values, so that a row costs no allocation of its own.
type arena struct{ chunk []byte }

const (
	firstChunk = 1 << 10
	lastChunk  = 64 << 10
)

func (a *arena) copy(b []byte) []byte {
	if cap(a.chunk)-len(a.chunk) < len(b) {
		size := min(max(2*cap(a.chunk), firstChunk), lastChunk)
		a.chunk = make([]byte, 0, max(size, len(b)))
	}
	n := len(a.chunk)
	a.chunk = append(a.chunk, b...)
	return a.chunk[n:len(a.chunk):len(a.chunk)]
}

// scan is one scan under way.
type scan struct {
	r    *Reader
	o    *ScanOptions
	rd   read
	span keys.Span
	res  ScanResult
	mem  arena

	data   *engine.Iterator
	locks  *engine.Iterator // nil: none left
	cursor lockCursor       // of locks
	lock   *Lock            // the next lock, at or beyond the present key
	view   view
	// conflicts so far; once there is one, no more rows are collected.
	conflicts []Intent
	done      bool
	dead      deadRun
}

// Scan reads a span in key order, or against it.
func (r *Reader) Scan(start, end keys.Key, o *ScanOptions) (ScanResult, error) {
	s := scan{r: r, o: o, rd: o.normal(), span: keys.Span{Start: start, End: end}}
	if start.Compare(end) >= 0 {
		return ScanResult{}, nil
	}
	var err error
	if !o.NoLocks {
		if s.locks, s.cursor, err = r.cursorWithin(start, end); err != nil {
			return ScanResult{}, err
		}
		s.cursor.reverse = o.Reverse
		s.cursor.pass(r.Outcomes, o.Txn)
		if err := s.takeLock(s.cursor.first()); err != nil {
			return ScanResult{}, err
		}
	}
	if s.data, err = r.dataIter(start, end); err != nil {
		return ScanResult{}, err
	}
	if o.Reverse {
		err = s.reverse()
	} else {
		err = s.forward()
	}
	if err == nil && !s.done && o.Lock != kv.NoLock {
		// Locks on keys without a version, beyond the last one with.
		err = s.locksUpTo(nil)
	}
	if err != nil {
		return ScanResult{}, err
	}
	if len(s.conflicts) > 0 {
		return ScanResult{}, &LockConflictError{Intents: s.conflicts}
	}
	return s.res, nil
}

// takeLock decodes the lock that the lock iterator moved to.
func (s *scan) takeLock(ok bool) (err error) {
	s.lock = nil
	if !ok {
		err = s.locks.Error()
		s.locks = nil
		return err
	}
	s.lock, err = s.r.lockAt(s.locks)
	return err
}

func (s *scan) nextLock() error { return s.takeLock(s.cursor.next()) }

// locksUpTo takes the locks before k, in the order of the scan, and on it into account; nil means all that are
// left.
func (s *scan) locksUpTo(k keys.Key) error {
	for s.lock != nil {
		c := -1
		if k != nil {
			if c = bytes.Compare(s.lock.Key, k); s.o.Reverse {
				c = -c
			}
		}
		if c > 0 {
			return nil
		}
		if c == 0 {
			if err := s.view.consider(s.lock, &s.rd, s.r.Outcomes); err != nil {
				return err
			}
		} else if s.rd.Lock != kv.NoLock && !s.o.SkipLocked {
			// A lock on a key that has no version: nothing to read, but in the way of locking the span.
			var alone view
			if err := alone.consider(s.lock, &s.rd, s.r.Outcomes); err != nil {
				return err
			}
			s.addConflicts(alone.conflicts)
			if s.done {
				return nil
			}
		}
		if err := s.nextLock(); err != nil {
			return err
		}
	}
	return nil
}

func (s *scan) addConflicts(c []Intent) {
	s.conflicts = append(s.conflicts, c...)
	// A bounded scan reports only the first: the next ones may lie beyond its end.
	if len(s.conflicts) >= maxConflicts || (len(s.conflicts) > 0 && (s.o.MaxKeys > 0 || s.o.TargetBytes > 0)) {
		s.done = true
	}
}

// enter prepares the view of key k, which the scan has come to; it reports whether the key's versions matter.
func (s *scan) enter(k keys.Key) (bool, error) {
	s.view = view{}
	if s.lock != nil {
		if err := s.locksUpTo(k); err != nil || s.done {
			return false, err
		}
	}
	if s.o.SkipLocked && (len(s.view.conflicts) > 0 || s.o.Locked != nil && s.o.Locked(k)) {
		return false, nil
	}
	if len(s.view.conflicts) > 0 {
		if s.o.StopAtConflict && len(s.res.Rows) >= stopRows {
			s.stop(k)
			return false, nil
		}
		s.addConflicts(s.view.conflicts)
		return false, nil
	}
	return len(s.conflicts) == 0, nil
}

// full reports whether a bound stops the scan before another row; then k, which is not returned, is where the
// rest begins.
func (s *scan) full(k keys.Key) bool {
	n := int64(len(s.res.Rows))
	if (s.o.MaxKeys <= 0 || n < s.o.MaxKeys) && (s.o.TargetBytes <= 0 || s.res.Bytes < s.o.TargetBytes) &&
		(s.o.MaxBytes <= 0 || s.res.Bytes < s.o.MaxBytes) {
		return false
	}
	s.stop(k)
	return true
}

// stop ends the scan before k.
func (s *scan) stop(k keys.Key) {
	if s.o.Reverse {
		s.res.Resume = &keys.Span{Start: s.span.Start, End: keys.Key(clone(k)).Next()}
	} else {
		s.res.Resume = &keys.Span{Start: clone(k), End: s.span.End}
	}
	s.done = true
}

func (s *scan) emit(k keys.Key, val value, ts clock.Timestamp) {
	if val.tombstone {
		return
	}
	s.res.Bytes += int64(len(k) + len(val.bytes))
	s.res.Rows = append(s.res.Rows, kv.KeyValue{Key: s.mem.copy(k), Value: s.mem.copy(val.bytes), Timestamp: ts})
}

// past emits the value that the transaction itself wrote under an earlier sequence number.
func (s *scan) past(k keys.Key) error {
	val, err := decodeValue(s.view.seen.raw)
	if err == nil {
		s.emit(k, val, s.view.own.Txn.WriteTimestamp)
	}
	return err
}

// visit takes the key that the scan has come to, unless it is done. It reports whether the key's versions are still to be looked at.
func (s *scan) visit() (k keys.Key, wanted bool, err error) {
	raw, _ := s.data.Key()
	if s.full(raw) {
		s.endDead(raw)
		return nil, false, nil
	}
	s.r.key = append(s.r.key[:0], raw...)
	k = s.r.key
	if wanted, err = s.enter(k); err != nil || s.done {
		return k, false, err
	}
	if wanted && s.view.seen.past {
		return k, false, s.past(k)
	}
	return k, wanted, nil
}

// steps is how often the iterator is moved one version before it seeks.
const steps = 8

func (s *scan) forward() error {
	it, r := s.data, s.r
	ok := it.First()
	for ok {
		k, wanted, err := s.visit()
		if err != nil || s.done {
			return err
		}
		n, dead := 0, false
		var ts clock.Timestamp
		for same := true; wanted && same; {
			cur, ver := it.Key()
			if n > 0 && !sameKey(cur, k) {
				break
			}
			var found bool
			var val value
			found, val, ts, err = r.judge(it, k, ver, &s.rd, &s.view)
			if err != nil {
				return err
			}
			if found {
				s.emit(k, val, ts)
				dead = r.dead != nil && val.tombstone && n == 0 && s.view.own == nil && s.view.skip.IsZero()
				break
			}
			if n++; n == steps && s.rd.visible.Less(ts) && s.view.own == nil {
				ok = it.SeekVersionGE(k, s.rd.visible)
			} else {
				ok = it.Next()
			}
			same = ok
		}
		if !dead {
			s.endDead(k)
		} else if end := s.passDead(k, ts); end != nil {
			ok = end.Compare(s.span.End) < 0 && it.SeekGE(end)
			continue
		}
		if !ok {
			break
		}
		if n > 0 {
			if cur, _ := it.Key(); !sameKey(cur, k) {
				continue
			}
		}
		if ok = it.Next(); ok {
			if cur, _ := it.Key(); sameKey(cur, k) {
				ok = it.NextKey()
			}
		}
	}
	err := it.Error()
	if err == nil {
		s.endScan()
	}
	return err
}

func (s *scan) reverse() error {
	it, r := s.data, s.r
	ok := it.Last()
	for ok {
		k, wanted, err := s.visit()
		if err != nil || s.done {
			return err
		}
		if !wanted {
			s.endDead(k)
			ok = it.SeekLT(k)
			continue
		}
		// The iterator is at the oldest version. Most keys have one, so look at it before seeking.
		if _, ver := it.Key(); s.view.own == nil && s.view.skip.IsZero() {
			found, val, ts, err := r.judge(it, k, ver, &s.rd, &s.view)
			if err != nil {
				return err
			}
			if found {
				r.raw = append(r.raw[:0], val.bytes...)
				val.bytes = r.raw
				ok = it.Prev()
				if ok {
					if cur, _ := it.Key(); sameKey(cur, k) {
						found = false
					}
				}
				if found {
					s.emit(k, val, ts)
					if r.dead == nil || !val.tombstone {
						s.endDead(k)
					} else if start := s.passDead(k, ts); start != nil {
						ok = it.SeekLT(start)
					}
					continue
				}
			}
		}
		from := s.rd.visible
		if s.view.own != nil || from == clock.MaxTimestamp {
			from = clock.Timestamp{}
		}
		dead := false
		var ts clock.Timestamp
		for ok, dead = it.SeekVersionGE(k, from), r.dead != nil && s.view.own == nil && s.view.skip.IsZero(); ok; ok, dead = it.Next(), false {
			cur, ver := it.Key()
			if !sameKey(cur, k) {
				dead = false
				break
			}
			var found bool
			var val value
			found, val, ts, err = r.judge(it, k, ver, &s.rd, &s.view)
			if err != nil {
				return err
			}
			if found {
				s.emit(k, val, ts)
				dead = dead && val.tombstone
				break
			}
		}
		if err := it.Error(); err != nil {
			return err
		}
		if dead = dead && ok; dead {
			// The scan does not see versions above its timestamp, but others will: the key is dead if there are none.
			if ok = it.Prev(); ok {
				cur, _ := it.Key()
				dead = !sameKey(cur, k)
			}
		}
		if !dead {
			s.endDead(k)
			ok = it.SeekLT(k)
		} else if start := s.passDead(k, ts); start != nil {
			ok = it.SeekLT(start)
		}
	}
	err := it.Error()
	if err == nil {
		s.endScan()
	}
	return err
}
