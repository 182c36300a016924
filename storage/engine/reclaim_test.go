package engine

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"meridian/keys"
)

// TestFreedSpans compares the list of freed spans with a set of keys: it has all that was added, apart and in order, and is bounded.
func TestFreedSpans(t *testing.T) {
	all := make([]keys.Key, 10_000)
	for i := range all {
		all[i] = keys.Key(fmt.Sprintf("%05d", i))
	}
	key := func(i int) keys.Key { return all[i] }
	seeds := uint64(50)
	if testing.Short() {
		seeds = 10
	}
	for seed := range seeds {
		dice := rand.New(rand.NewPCG(seed, 1))
		var f freed
		const n = 400
		var model [n + 1]bool
		for range 60 {
			from := dice.IntN(n)
			to := from + 1 + dice.IntN(min(12, n-from))
			f.add([]keys.Span{{Start: key(from), End: key(to)}})
			for i := from; i < to; i++ {
				model[i] = true
			}
			var have [n + 1]bool
			spans := f.list()
			for i, s := range spans {
				if s.Start.Compare(s.End) >= 0 || i > 0 && spans[i-1].End.Compare(s.Start) >= 0 {
					t.Fatalf("seed %d: %v", seed, spans)
				}
				for k := range n {
					have[k] = have[k] || s.Start.Compare(key(k)) <= 0 && key(k).Compare(s.End) < 0
				}
			}
			if have != model {
				t.Fatalf("seed %d: %v", seed, spans)
			}
			if len(spans) > 0 && dice.IntN(8) == 0 {
				s := spans[dice.IntN(len(spans))]
				f.forget(s)
				for k := range n {
					if s.Start.Compare(key(k)) <= 0 && key(k).Compare(s.End) < 0 {
						model[k] = false
					}
				}
			}
		}
	}
	var f freed
	for i := range len(all) / 2 {
		f.add([]keys.Span{{Start: key(2 * i), End: key(2*i + 1)}})
	}
	spans := f.list()
	if len(spans) > freedMost || !spans[0].Start.Equal(key(0)) || !spans[len(spans)-1].End.Equal(key(9999)) {
		t.Errorf("%d spans, from %s to %s", len(spans), spans[0].Start, spans[len(spans)-1].End)
	}
}
