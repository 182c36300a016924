package placement

import (
	"testing"

	"meridian/clock"
)

func TestMayMerge(t *testing.T) {
	const mb = 1 << 20
	z := DefaultZone()
	z.RangeMaxBytes, z.RangeMinBytes = 64*mb, 16*mb
	at := func(wall int64) clock.Timestamp { return clock.Timestamp{Wall: wall} }
	for _, c := range []struct {
		left, right int64
		keep        clock.Timestamp
		want        bool
	}{
		{0, 0, at(0), true},
		{8 * mb, 7 * mb, at(0), true},
		{8 * mb, 8 * mb, at(0), false},
		{32 * mb, 32 * mb, at(0), false},
		{40 * mb, 0, at(0), true},         // what is left of an index
		{0, 40 * mb, at(0), true},         //
		{40 * mb, mb / 8, at(0), true},    //
		{40 * mb, mb, at(0), false},       // small, not empty
		{60 * mb, 0, at(0), false},        // about to be split
		{0, 0, at(100), true},             // no longer kept
		{0, 0, at(101), false},            // still kept
		{0, 0, clock.MaxTimestamp, false}, // split by hand
	} {
		if got := MayMerge(&z, c.left, c.right, c.keep, at(100)); got != c.want {
			t.Errorf("%d and %d bytes, kept until %s: %v", c.left, c.right, c.keep, got)
		}
	}
	z.RangeMaxBytes = 0
	if MayMerge(&z, 0, 0, at(0), at(100)) {
		t.Error("a configuration without sizes merges")
	}
	z.RangeMaxBytes = 1 << 10 // small limits do not split and merge in turns
	if MayMerge(&z, 400, 400, at(0), at(100)) {
		t.Error("merges what is about to be split")
	}
}
