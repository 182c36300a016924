package mvcc

import (
	"errors"
	"testing"
)

// TestUnknownHeader: a version whose header a later version has written is refused by readers, and is no tombstone to those who do not decode it: garbage
// collection would remove it with all that lies below.
func TestUnknownHeader(t *testing.T) {
	for h := range 256 {
		raw := append([]byte{byte(h)}, make([]byte, 12)...)
		_, err := decodeValue(raw)
		if known := h == 0 || h == flagLocal || h == flagLocal|flagTombstone; known != (err == nil) || !known && !errors.Is(err, errBadValue) {
			t.Errorf("header %#x: %v", h, err)
		}
		if got := isTombstone(raw); got != (h == flagLocal|flagTombstone) {
			t.Errorf("header %#x is a tombstone: %v", h, got)
		}
	}
}
