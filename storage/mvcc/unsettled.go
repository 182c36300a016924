package mvcc

import (
	"meridian/clock"
	"meridian/keys"
)

// Unsettled is the timestamp of the earliest intent, at or below upto, that a plain read of the span would meet; false if there is none. An
// empty end means the single key start. It stops at an intent at or below enough. It reads the lock table and no versions.
func (r *Reader) Unsettled(start, end keys.Key, enough, upto clock.Timestamp) (low clock.Timestamp, found bool, err error) {
	s := keys.LockSpan(start, end)
	it, err := r.lockIter(s.Start, s.End)
	if err != nil {
		return low, false, err
	}
	for ok := it.First(); ok; ok = it.Next() {
		l, err := r.lockAt(it)
		if err != nil {
			return low, false, err
		}
		at := l.Txn.WriteTimestamp
		if l.Strength != IntentStrength || upto.Less(at) || l.committed(r.Outcomes) {
			continue
		}
		if low, found = at, true; at.LessEq(enough) {
			return low, true, nil
		}
		upto = at.Prev()
	}
	return low, found, it.Error()
}
