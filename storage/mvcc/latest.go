package mvcc

import (
	"meridian/clock"
	"meridian/keys"
	"meridian/storage/engine"
)

// Latest is the timestamp of the latest version in a span, if that is at or after a time, and otherwise zero. Blocks of the store without
// versions that late are not read, so the cost of asking for a recent time does not depend on how much data the span has.
func Latest(src engine.Reader, start, end keys.Key, from clock.Timestamp) (latest clock.Timestamp, err error) {
	it, err := src.NewIter(engine.IterOptions{Lower: start, Upper: end, MinTime: from})
	if err != nil {
		return latest, err
	}
	for ok := it.First(); ok; ok = it.Next() {
		_, version := it.Key()
		if len(version) == 0 {
			continue
		}
		at, err := engine.DecodeTimestamp(version)
		if err != nil {
			_ = it.Close()
			return latest, err
		}
		if from.LessEq(at) {
			latest = latest.Forward(at)
		}
	}
	err = it.Error()
	if cerr := it.Close(); err == nil {
		err = cerr
	}
	return latest, err
}
