package rangeserver

import (
	"maps"
	"math"
	"testing"
	"time"

	"meridian/kv"
)

// TestOrigins: requests are counted by gateway, fade, begin anew with a new lease, and a gateway that has fallen silent
// makes room for another.
func TestOrigins(t *testing.T) {
	var o origins
	hits := func(from kv.NodeID, n int) {
		for range n {
			o.hit(from)
		}
	}
	now := time.Duration(0)
	expect := func(sequence uint64, known bool, want map[kv.NodeID]float64) {
		t.Helper()
		o.sample(now, sequence)
		l := o.load.Load()
		if l.Known != known || !maps.EqualFunc(l.From, want, func(a, b float64) bool { return math.Abs(a-b) < 0.5 }) {
			t.Errorf("after %s: %+v, not %v %v", now, l, known, want)
		}
	}
	hits(3, 50)
	expect(7, false, nil) // from before the lease came
	hits(1, 100)
	hits(2, 10)
	hits(9, 20) // node 1 has its place
	hits(0, 5)
	now += time.Second
	expect(7, false, map[kv.NodeID]float64{0: 20, 1: 100, 2: 10})
	now += 4 * time.Second
	hits(1, 1)
	expect(7, true, map[kv.NodeID]float64{0: 13.4, 1: 68, 2: 6.7})
	if o.away(1) || !o.away(2) {
		t.Error("most requests come from n1")
	}
	now += time.Minute
	expect(7, true, nil)
	if o.away(2) {
		t.Error("there are no requests")
	}
	hits(9, 20)
	now += time.Second
	expect(7, true, map[kv.NodeID]float64{9: 20})
	expect(8, false, nil)
}
