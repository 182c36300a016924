package cluster

import (
	"testing"
	"time"
)

func TestLateness(t *testing.T) {
	var l Lateness
	for _, d := range []time.Duration{-time.Second, 0, 999 * time.Microsecond, time.Millisecond, 3 * time.Millisecond, time.Second, time.Hour} {
		l.Note(d)
	}
	n, sum, below := l.Histogram()
	if n != 7 || sum < 3601 || below[0.001] != 3 || below[0.002] != 4 || below[0.004] != 5 || below[1.024] != 6 || len(below) != lateBuckets-1 {
		t.Errorf("%d, %v, %v", n, sum, below)
	}
}
