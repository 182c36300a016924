package cluster

import (
	"sync/atomic"
	"time"
)

// lateBuckets is the number of Lateness' buckets; the last one begins at 16 s.
const lateBuckets = 16

// Lateness counts how late something regular is, by powers of two of a millisecond. Liveness stands on heartbeats and ticks
// that are in time, so this is where it shows first that other work leaves them no processor.
type Lateness struct {
	count [lateBuckets]atomic.Int64
	nanos atomic.Int64
}

// Note counts one.
func (l *Lateness) Note(late time.Duration) {
	late = max(late, 0)
	b := 0
	for d := time.Millisecond; late >= d && b < lateBuckets-1; d *= 2 {
		b++
	}
	l.count[b].Add(1)
	l.nanos.Add(int64(late))
}

// Histogram gives the number of notes, their sum in seconds, and how many were not above each bound in seconds.
func (l *Lateness) Histogram() (n uint64, sum float64, below map[float64]uint64) {
	below = make(map[float64]uint64, lateBuckets)
	bound := time.Millisecond
	for i := range l.count {
		n += uint64(l.count[i].Load())
		if i < lateBuckets-1 {
			below[bound.Seconds()] = n
		}
		bound *= 2
	}
	return n, time.Duration(l.nanos.Load()).Seconds(), below
}
