package server

import (
	"slices"
	"testing"
	"time"

	"meridian/sql/session"
)

// TestRecentLatencies: what is told are the statements of the last ten seconds, however often and by however many it is asked for.
func TestRecentLatencies(t *testing.T) {
	var l latencies
	counts := make([]int64, session.LatencySteps)
	for tick := range 100 { // five in a second, each of which has a statement
		counts[20]++
		got := l.since(time.Duration(tick)*200*time.Millisecond, slices.Clone(counts))
		want := int64(min(tick, 54))
		if n := got[20]; n > want || n < min(int64(tick), 50) {
			t.Fatalf("tick %d: %d statements, at most %d", tick, n, want)
		}
	}
	if len(l.taken) > 12 {
		t.Errorf("%d readings are kept", len(l.taken))
	}
	clear(counts) // the sessions were started anew
	if got := l.since(21*time.Second, counts); len(got) != 0 {
		t.Errorf("%v", got)
	}
}

func TestQuantile(t *testing.T) {
	in := map[int]int64{7: 98, 200: 1, 210: 1}
	if p50, p98, p100 := quantile(in, 0.5), quantile(in, 0.99), quantile(in, 1); p50 != 0.007 || p98 >= p100 || p98 <= p50 {
		t.Errorf("%v %v %v", p50, p98, p100)
	}
	if quantile(nil, 0.5) != 0 {
		t.Error("a quantile of nothing")
	}
}
