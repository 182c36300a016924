package sim

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"meridian/host"
)

// Clock is a host.Clock that can be wrong: it may be offset from true time, run fast or slow, and be moved while a node
// runs. True time is time.Now, virtual inside a bubble. Readings take no lock.
type Clock struct {
	mu    sync.Mutex // serialises changes of state
	state atomic.Pointer[clockState]
}

// clockState maps true time to the clock's: mono grows by rate per unit of true time since ref.
type clockState struct {
	ref    time.Time
	mono   time.Duration
	wall   time.Time // the wall reading at ref, offset included
	rate   float64
	offset time.Duration
	frozen bool // readings stand still
}

// NewClock makes a clock that shows true time.
func NewClock() *Clock {
	c := &Clock{}
	now := time.Now()
	c.state.Store(&clockState{ref: now, wall: now.Round(0), rate: 1})
	return c
}

func (s *clockState) elapsed(now time.Time) time.Duration {
	if s.frozen {
		return 0
	}
	d := now.Sub(s.ref)
	if s.rate != 1 {
		d = time.Duration(float64(d) * s.rate)
	}
	return d
}

// Now implements host.Clock.
func (c *Clock) Now() time.Time {
	s := c.state.Load()
	return s.wall.Add(s.elapsed(time.Now()))
}

// Monotonic implements host.Clock.
func (c *Clock) Monotonic() time.Duration {
	s := c.state.Load()
	return s.mono + s.elapsed(time.Now())
}

// change moves the reference point to now, so that the present readings do not change, and lets f edit the rest.
func (c *Clock) change(f func(*clockState)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.state.Load()
	now := time.Now()
	d := s.elapsed(now)
	next := &clockState{ref: now, mono: s.mono + d, wall: s.wall.Add(d), rate: s.rate, offset: s.offset, frozen: s.frozen}
	if s.frozen {
		next.ref = s.ref // time is counted from the new reference
	}
	f(next)
	c.state.Store(next)
}

// Jump moves the wall reading by d at once, forwards or back, as an operator or a broken time server does.
func (c *Clock) Jump(d time.Duration) {
	c.change(func(s *clockState) { s.wall, s.offset = s.wall.Add(d), s.offset+d })
}

// SetOffset makes the total of all jumps be d. Drift already gained stays.
func (c *Clock) SetOffset(d time.Duration) {
	c.change(func(s *clockState) { s.wall, s.offset = s.wall.Add(d-s.offset), d })
}

// SetDrift makes the clock gain ppm microseconds in every second of true time, timers included; negative loses.
func (c *Clock) SetDrift(ppm float64) {
	c.change(func(s *clockState) { s.rate = 1 + ppm/1e6 })
}

// Freeze makes the readings stand still, as they do for a process that is stopped; timers go on.
func (c *Clock) Freeze() { c.change(func(s *clockState) { s.frozen = true }) }

// Thaw makes the clock go on, with the reading that it would have if it had not been frozen.
func (c *Clock) Thaw() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := *c.state.Load(); s.frozen {
		s.frozen = false
		c.state.Store(&s)
	}
}

// Frozen reports whether the readings stand still.
func (c *Clock) Frozen() bool { return c.state.Load().frozen }

// Error is how far the wall reading is from true time.
func (c *Clock) Error() time.Duration {
	now := time.Now()
	s := c.state.Load()
	return s.wall.Add(s.elapsed(now)).Sub(now.Round(0))
}

// trueDuration is the true time that d of this clock takes, rounded up: a loop that waits for a reading and is woken before it would wait for one nanosecond
// more, which a fast clock would round down to nothing, and virtual time would stand still.
func (c *Clock) trueDuration(d time.Duration) time.Duration {
	if r := c.state.Load().rate; r != 1 {
		return time.Duration(math.Ceil(float64(d) / r))
	}
	return d
}

// NewTimer implements host.Clock. A drift that changes later does not move timers that are already set.
func (c *Clock) NewTimer(d time.Duration) host.Timer {
	return simTimer{c, time.NewTimer(c.trueDuration(d))}
}

// Sleep implements host.Clock.
func (c *Clock) Sleep(ctx context.Context, d time.Duration) error {
	if err := ctx.Err(); err != nil || d <= 0 {
		return err
	}
	t := time.NewTimer(c.trueDuration(d))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// WithTimeout implements host.Clock. A drift that changes later does not move timeouts that are already set.
func (c *Clock) WithTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, c.trueDuration(d))
}

type simTimer struct {
	c *Clock
	t *time.Timer
}

func (t simTimer) C() <-chan time.Time        { return t.t.C }
func (t simTimer) Stop() bool                 { return t.t.Stop() }
func (t simTimer) Reset(d time.Duration) bool { return t.t.Reset(t.c.trueDuration(d)) }
