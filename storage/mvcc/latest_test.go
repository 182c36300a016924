package mvcc

import (
	"testing"

	"meridian/clock"
	"meridian/keys"
)

// TestLatest: the latest version of a span is found from a time on, whichever key has it, and not that of a neighbour.
func TestLatest(t *testing.T) {
	e, end := openEngine(t)
	defer end()
	b := e.NewBatch()
	defer b.Close()
	for k, walls := range map[string][]int64{"\x10a": {10, 70}, "\x10b": {20, 90, 30}, "\x10c": {99}} {
		for _, w := range walls {
			b.PutVersion(keys.Key(k), clock.Timestamp{Wall: w}, nil, []byte("v"))
		}
	}
	if err := b.Commit(true); err != nil {
		t.Fatal(err)
	}
	for from, want := range map[int64]int64{1: 90, 80: 90, 90: 90, 91: 0} {
		got, err := Latest(e, keys.Key("\x10a"), keys.Key("\x10c"), clock.Timestamp{Wall: from})
		if err != nil || got.Wall != want {
			t.Errorf("from %d: %s, %v, want %d", from, got, err, want)
		}
	}
}
