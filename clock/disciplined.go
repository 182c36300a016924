package clock

import (
	"sync/atomic"
	"time"

	"meridian/host"
)

// Drift bounds how wrong the rate of a machine's monotonic clock is taken to be: 200 µs in a second, the paper's bound (Spanner §3).
const Drift = 200 * time.Microsecond

// perDrift is how long a clock runs until it may have gained or lost a nanosecond.
const perDrift = int64(time.Second / Drift)

// Drifted bounds how much a monotonic clock gains or loses while it shows that d has passed.
func Drifted(d time.Duration) time.Duration {
	return time.Duration((int64(d) + perDrift - 1) / perDrift)
}

// Later is an interval that has true time in it when d has passed since i had, by a monotonic clock within Drift.
func (i Interval) Later(d time.Duration) Interval {
	return Interval{Timestamp{Wall: i.Earliest.Wall + int64(d-Drifted(d))}, Timestamp{Wall: i.Latest.Wall + int64(d+Drifted(d))}}
}

// Disciplined is a source that is told the time now and then, and goes on by the machine's monotonic clock (Spanner §3). Its wall reading is the
// middle of the interval, so it does not depend on the machine's wall clock.
//
//	epsilon
//	  7 ms |        /|        /|
//	       |      /  |      /  |      /      grows by 200 µs in each second
//	       |    /    |    /    |    /
//	  1 ms |  /      |  /      |  /          after a poll: the masters' own uncertainty, and the way to them
//	       +--|---------|---------|------>
//	          0 s       30 s      60 s
//
//	clock.C5 (I4): as long as what it was told was right, and its monotonic clock is within Drift, the interval has true time in it.
type Disciplined struct {
	clock host.Clock
	known atomic.Pointer[known]
}

// known is where true time was at a reading of the monotonic clock.
type known struct {
	at   time.Duration
	from int64 // nanoseconds since the Unix epoch
	to   int64
}

// NewDisciplined makes a source that knows nothing yet; it may be read after the first Set.
func NewDisciplined(c host.Clock) *Disciplined { return &Disciplined{clock: c} }

// Set says where true time was when the monotonic clock showed at.
func (d *Disciplined) Set(at time.Duration, truth Interval) {
	d.known.Store(&known{at, truth.Earliest.Wall, truth.Latest.Wall})
}

// Read implements Source. It takes no lock and makes no system call.
func (d *Disciplined) Read() (int64, Interval) {
	k := d.known.Load()
	return k.read(d.clock.Monotonic())
}

// At is Read at a reading of the monotonic clock.
func (d *Disciplined) At(at time.Duration) Interval {
	_, i := d.known.Load().read(at)
	return i
}

func (k *known) read(at time.Duration) (int64, Interval) {
	passed := int64(max(at-k.at, 0))
	grown := (passed + perDrift - 1) / perDrift
	from, to := k.from+passed-grown, k.to+passed+grown
	return from + (to-from)/2, Interval{Timestamp{Wall: from}, Timestamp{Wall: to}}
}
