package clock

import (
	"time"

	"meridian/host"
)

// Interval is what can be said of the present at the moment of a reading. Clock.Interval has all clocks of the cluster in between,
// Clock.TrueTime true time.
type Interval struct{ Earliest, Latest Timestamp }

// After reports that t has passed, by every clock of the cluster or in true time (Spanner §3, TT.after).
func (i Interval) After(t Timestamp) bool { return t.Less(i.Earliest) }

// Before reports that t has not come, by any clock of the cluster or in true time (Spanner §3, TT.before).
func (i Interval) Before(t Timestamp) bool { return i.Latest.Less(t) }

// Epsilon is half of the interval's width (Spanner §3).
func (i Interval) Epsilon() time.Duration { return time.Duration(i.Latest.Wall-i.Earliest.Wall) / 2 }

// Reading is a timestamp that a clock has issued, and the interval in which the clocks of the cluster were then.
type Reading struct {
	Now Timestamp
	Interval
	// Answered, if it is not zero, is before the interval's end: no commit that was answered to a client before the reading has a later timestamp (clock.C7).
	Answered Timestamp
}

// Limit is the end of the uncertainty interval of a transaction that begins with the reading.
func (r Reading) Limit() Timestamp {
	if r.Answered.IsZero() {
		return r.Latest
	}
	return r.Answered
}

// Source is where a Clock has its physical time from, and what it knows of true time (Spanner §3).
type Source interface {
	// Read is what this node's wall clock shows, in nanoseconds since the Unix epoch, and an interval that has true time in it.
	Read() (wall int64, truth Interval)
}

// System is the source that a machine has without further ado: its own clock, and a bound on its error that somebody has configured and
// keeps by other means, such as NTP. A bound on the difference of any two nodes' clocks (CRDB'20 §4.1) is one, if true time is what any of
// them shows.
type System struct {
	Clock host.Clock
	Bound time.Duration
}

// Read implements Source.
func (s System) Read() (int64, Interval) {
	wall := s.Clock.Now().UnixNano()
	return wall, around(wall, s.Bound)
}

func around(wall int64, bound time.Duration) Interval {
	return Interval{Timestamp{Wall: wall - int64(bound)}, Timestamp{Wall: wall + int64(bound)}}
}
