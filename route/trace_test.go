package route

import "testing"

// TestTraceRounds: of batches that overlap in time one counts, the one with the most rounds; those that follow one another add up.
func TestTraceRounds(t *testing.T) {
	for _, x := range []struct {
		name  string
		calls []traced
		want  int
	}{
		{"none", nil, 0},
		{"one", []traced{{0, 87, 1}}, 1},
		{"two in parallel", []traced{{0, 87, 1}, {0, 132, 1}}, 1},
		{"one after the other, without a pause", []traced{{0, 87, 1}, {87, 174, 1}}, 2},
		{"a write with its consensus", []traced{{0, 150, 2}}, 2},
		{"a long batch, and two short ones at the same time", []traced{{0, 200, 1}, {0, 87, 1}, {90, 177, 1}}, 2},
		{"a heavy batch is worth two that follow one another", []traced{{0, 200, 2}, {0, 87, 1}, {90, 177, 1}, {200, 287, 1}}, 3},
		{"recorded in another order", []traced{{300, 387, 1}, {0, 87, 1}, {100, 187, 1}}, 3},
	} {
		tr := &Trace{calls: x.calls}
		if got := tr.Rounds(); got != x.want {
			t.Errorf("%s: %d rounds, want %d", x.name, got, x.want)
		}
	}
}
