package clock

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"meridian/host"
)

// Clock is a node's hybrid logical clock (CRDB'20 §4.1).
//
//	clock.C1 (I3): Now never returns the same timestamp twice and never goes back, even if the physical clock does.
//	clock.C2 (I4): after Update(t), every later Now is greater than t.
//	clock.C4 (I4): t is a reading of another node's clock, never a timestamp of data, so no clock is ahead of all physical ones.
//	clock.C3: a remote reading further ahead than the maximum offset is refused, so that one broken clock cannot drag
//	    the cluster into the future.
//	clock.C7 (I4): a commit is answered when its timestamp is not beyond the Earliest of true time and Ceiling.Allow, and a transaction's uncertainty interval ends no earlier
//	    than the Latest of true time and Ceiling.Assume. So it has the commit's timestamp in it if it begins after the answer, whatever the two nodes' epsilons are: with s the timestamp,
//	    e <= b the true times of answer and begin, s <= e + Allow <= b + Assume. A node that does not know the ceiling takes zero for Allow, and the maximum offset for the interval.
//	clock.C6 (I4): while the bounds on the nodes' clocks contradict each other (cluster.L5), transactions of clients do not read, and do not tell that they
//	    have committed, except at a time in the past that they have named.
type Clock struct {
	physical  host.Clock
	source    Source
	maxOffset time.Duration

	doubt  atomic.Pointer[DoubtError]
	agreed atomic.Pointer[agreed] // nil: the cluster has no ceiling, and never will have

	mu   sync.Mutex // guards last; nothing is taken after it
	last Timestamp
}

// DoubtError says that this node must not rely on its clock, since the bounds on the errors of the nodes' clocks contradict each other.
type DoubtError struct{ Cause error }

func (e *DoubtError) Error() string { return "clock: not to be relied on: " + e.Cause.Error() }

// Unwrap is the contradiction.
func (e *DoubtError) Unwrap() error { return e.Cause }

// Doubt says that the clock must not be relied on, or with nil that it may be again.
func (c *Clock) Doubt(cause error) {
	if cause == nil {
		c.doubt.Store(nil)
		return
	}
	c.doubt.Store(&DoubtError{cause})
}

// Doubted is the error with which requests of clients end while the clock must not be relied on; nil: it may be (clock.C6).
func (c *Clock) Doubted() error {
	if e := c.doubt.Load(); e != nil {
		return e
	}
	return nil
}

// DefaultMaxOffset is the bound on the difference of any two nodes' clocks that a cluster assumes unless it is
// told otherwise; it is the paper's default (CRDB'20 §4.1).
const DefaultMaxOffset = 500 * time.Millisecond

// New makes a clock over the host's.
func New(physical host.Clock, maxOffset time.Duration) *Clock {
	return NewFrom(System{physical, maxOffset}, physical, maxOffset)
}

// NewFrom makes a clock over a source. physical is for what needs durations and timers only.
func NewFrom(source Source, physical host.Clock, maxOffset time.Duration) *Clock {
	return &Clock{physical: physical, source: source, maxOffset: maxOffset}
}

// MaxOffset is the assumed bound on the difference between any two nodes' physical clocks, for those who watch whether it
// holds and for those who show it. Code that computes with time asks for an Interval.
func (c *Clock) MaxOffset() time.Duration { return c.maxOffset }

// Interval is the present by the cluster's clocks: no other one shows less than its Earliest or more than its Latest. It issues nothing.
func (c *Clock) Interval() Interval { return around(c.wall(), c.maxOffset) }

// TrueTime is an interval that has true time in it (Spanner §3, TT.now). It issues nothing.
func (c *Clock) TrueTime() Interval {
	_, truth := c.source.Read()
	return truth
}

// Bounded is one reading of this node's own clock, and the bound on its distance from true time at that moment: what a node tells another one of its
// clock (cluster.L5).
func (c *Clock) Bounded() (wall time.Time, epsilon time.Duration) {
	w, truth := c.source.Read()
	return time.Unix(0, w), max(truth.Latest.Time().Sub(time.Unix(0, w)), time.Unix(0, w).Sub(truth.Earliest.Time()))
}

// Read issues the next timestamp (clock.C1), and says in which interval the cluster's clocks are.
func (c *Clock) Read() Reading {
	wall, truth := c.source.Read()
	now := c.issue(wall)
	i := around(wall, c.maxOffset)
	i.Latest = i.Latest.Forward(now)
	r := Reading{Now: now, Interval: i}
	if a := c.answered(truth); !a.IsZero() {
		r.Answered = a.Forward(now).Backward(i.Latest)
	}
	return r
}

func (c *Clock) wall() int64 {
	wall, _ := c.source.Read()
	return wall
}

// Wall is what this node's own clock shows, whatever it has heard of others. It is the time to compare with timestamps and with other nodes'
// clocks: on a node with time masters the machine's wall clock may show anything.
func (c *Clock) Wall() time.Time { return time.Unix(0, c.wall()) }

// Physical is the machine's clock: for durations and timers, not for the time (Wall).
func (c *Clock) Physical() host.Clock { return c.physical }

// Now issues the next timestamp (clock.C1).
func (c *Clock) Now() Timestamp {
	return c.issue(c.wall())
}

func (c *Clock) issue(wall int64) Timestamp {
	c.mu.Lock()
	if c.last.Wall >= wall {
		c.last = c.last.Next()
	} else {
		c.last = Timestamp{Wall: wall}
	}
	t := c.last
	c.mu.Unlock()
	return t
}

// OffsetError says that a remote timestamp was too far ahead (clock.C3).
type OffsetError struct {
	Remote   Timestamp
	Physical time.Time
	Max      time.Duration
}

func (e *OffsetError) Error() string {
	return fmt.Sprintf("clock: remote timestamp %s is %s ahead of this node's clock; the maximum offset is %s",
		e.Remote, e.Remote.Time().Sub(e.Physical), e.Max)
}

// Update moves the clock past a timestamp that arrived from another node (clock.C2), or refuses it (clock.C3).
func (c *Clock) Update(remote Timestamp) error {
	if remote.IsZero() {
		return nil
	}
	if wall := c.wall(); remote.Wall > wall+int64(c.maxOffset) {
		return &OffsetError{Remote: remote, Physical: time.Unix(0, wall), Max: c.maxOffset}
	}
	c.Forward(remote)
	return nil
}

// Forward moves the clock past a reading that this node trusts.
func (c *Clock) Forward(t Timestamp) {
	c.mu.Lock()
	c.last = c.last.Forward(t)
	c.mu.Unlock()
}

// awaitMost is how long AwaitPast sleeps at once: readings of faster clocks arrive meanwhile.
const awaitMost = 10 * time.Millisecond

// Passed reports whether a commit at t may be answered: whatever the clock issues from now on is later than t, and t is not beyond the cluster's ceiling (clock.C7).
func (c *Clock) Passed(t Timestamp) bool { return c.issued(t) && c.late(t) <= 0 }

// issued reports whether whatever the clock issues from now on is later than t.
func (c *Clock) issued(t Timestamp) bool {
	c.mu.Lock()
	last := c.last
	c.mu.Unlock()
	return t.LessEq(last) || t.Wall < c.wall()
}

// AwaitPast returns when a commit at t may be answered (Passed): commit wait (CRDB'22 §6.2). By then no transaction that begins anywhere has an uncertainty interval that ends
// before t. A timestamp that came from a clock costs no wait, unless this node's epsilon is larger than the ceiling allows.
func (c *Clock) AwaitPast(ctx context.Context, t Timestamp) error {
	for !c.Passed(t) {
		d := c.late(t)
		if !c.issued(t) {
			d = max(d, time.Duration(t.Wall-c.wall()))
		}
		d = max(d, 0) + 1
		if err := c.physical.Sleep(ctx, min(d, awaitMost)); err != nil {
			return err
		}
	}
	return nil
}

// AwaitAfter returns when t is certainly in the past (Spanner §4.1.2, commit wait).
func (c *Clock) AwaitAfter(ctx context.Context, t Timestamp) error {
	for {
		i := c.TrueTime()
		if i.After(t) {
			return nil
		}
		d := time.Duration(t.Wall-i.Earliest.Wall) + 1
		if err := c.physical.Sleep(ctx, min(d, awaitMost)); err != nil {
			return err
		}
	}
}

// SleepUntil returns when the physical clock has passed t's wall part.
func (c *Clock) SleepUntil(ctx context.Context, t Timestamp) error {
	for {
		d := time.Duration(t.Wall - c.wall())
		if d < 0 {
			return nil
		}
		if err := c.physical.Sleep(ctx, d+1); err != nil {
			return err
		}
	}
}
