package replica

import (
	"meridian/keys"
	"meridian/storage/engine"
)

// scanRaw calls f with the unversioned entries of a span until it says no. Key and value are only good in the call.
func scanRaw(r engine.Reader, s keys.Span, f func(k keys.Key, v []byte) bool) error {
	it, err := r.NewIter(engine.IterOptions{Lower: s.Start, Upper: s.Stop()})
	if err != nil {
		return err
	}
	for ok := it.First(); ok; ok = it.Next() {
		k, _ := it.Key()
		v, err := it.Value()
		if err != nil {
			_ = it.Close()
			return err
		}
		if !f(k, v) {
			break
		}
	}
	if err := it.Error(); err != nil {
		_ = it.Close()
		return err
	}
	return it.Close()
}
