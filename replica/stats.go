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

// CountStats returns the statistics that the replica keeps, and a count of its data: they decide whether
// readers look for intents at all (IntentCount), so they have to be exact.
func (r *Replica) CountStats() (kept, counted Stats, err error) {
	r.hold()
	defer r.release()
	d := r.desc.Load()
	if d == nil || r.gone.Load() {
		return kept, counted, nil
	}
	kept = r.Stats()
	counted, err = computeStats(r.o.Engine, d.Start, d.End)
	return kept, counted, err
}
