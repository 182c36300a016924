package session

import "sync/atomic"

// rowIDs returns growing numbers: the wanted one, or the next higher one that is free.
type rowIDs struct{ last atomic.Int64 }

// next returns a number of the same residue modulo step as want, not less than want, that was not returned before.
func (r *rowIDs) next(want, step int64) int64 {
	for {
		last := r.last.Load()
		v := want
		if v <= last {
			v = last + step
		}
		if r.last.CompareAndSwap(last, v) {
			return v
		}
	}
}
