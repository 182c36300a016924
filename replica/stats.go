package replica

import (
	"meridian/keys"
	"meridian/storage/engine"
	"meridian/storage/mvcc"
)

// Stats is the size of a range's data.
type Stats = mvcc.Stats

// computeStats counts the data of [start, end).
func computeStats(rd engine.Reader, start, end keys.Key) (Stats, error) {
	r := mvcc.NewReader(rd)
	s, err := r.ComputeStats(keys.RangeLocalSpan(start, end), keys.UserSpan(start, end))
	if cerr := r.Close(); err == nil {
		err = cerr
	}
	return s, err
}
