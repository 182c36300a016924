package clock

import (
	"time"

	"meridian/host"
)

// Interval is what can be said of the present: at the moment of the reading no clock of the cluster shows less than Earliest or more
// than Latest, and true time is in between.
type Interval struct{ Earliest, Latest Timestamp }

// After reports that t has passed: every clock of the cluster is past it (Spanner §3, TT.after).
func (i Interval) After(t Timestamp) bool { return t.Less(i.Earliest) }

// Before reports that t has not come: no clock of the cluster has got to it (Spanner §3, TT.before).
func (i Interval) Before(t Timestamp) bool { return i.Latest.Less(t) }

// Reading is a timestamp that a clock has issued, and the interval in which the present was then.
type Reading struct {
	Now Timestamp
	Interval
}

// Source is where a Clock has its physical time from.
type Source interface {
	// Read is what this node's wall clock shows, in nanoseconds since the Unix epoch, and the interval around it.
	Read() (wall int64, i Interval)
}

// System is the source that a machine has without further ado: its own clock, and a bound on the difference of any two nodes' clocks that
// somebody has configured and keeps by other means, such as NTP (CRDB'20 §4.1).
type System struct {
	Clock     host.Clock
	MaxOffset time.Duration
}

// Read implements Source.
func (s System) Read() (int64, Interval) {
	wall := s.Clock.Now().UnixNano()
	return wall, Interval{Timestamp{Wall: wall - int64(s.MaxOffset)}, Timestamp{Wall: wall + int64(s.MaxOffset)}}
}
