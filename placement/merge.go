package placement

import "meridian/clock"

// A range below 1/emptyFraction of the maximum size counts as empty: the rest of a table that was dropped, or of an old
// index.
const emptyFraction = 256

// MayMerge reports whether two neighbours of one configuration should become one range, given their sizes in bytes and
// until when the right one is kept apart because it was split off by hand (kv.RangeDescriptor.Keep).
//
// Small neighbours are merged while they stay small together, and one that holds next to nothing with any neighbour that
// leaves room. Either way the result is far from being split again.
func MayMerge(z *Zone, left, right int64, keep, now clock.Timestamp) bool {
	if now.Less(keep) || z.RangeMaxBytes <= 0 {
		return false
	}
	sum := left + right
	if sum < min(z.RangeMinBytes, z.RangeMaxBytes/4) {
		return true
	}
	return min(left, right) <= z.RangeMaxBytes/emptyFraction && sum < z.RangeMaxBytes/4*3
}
