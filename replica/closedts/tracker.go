package closedts

import (
	"sync"
	"sync/atomic"
	"time"

	"meridian/clock"
)

const (
	// DefaultLag is how far behind the present a range's history is closed.
	DefaultLag = 3 * time.Second
	// DefaultInterval is how often the side transport closes what sleeps.
	DefaultInterval = 500 * time.Millisecond
	// LeadInterval is how often ranges that close the future do it while nothing is written. It is a part of each lead, and so of the time
	// that a writer waits (CRDB'22 §6.2.1): ten times the messages cost a tenth of the wait.
	LeadInterval = 15 * time.Millisecond
	// ReadLag is how far in the past follower_read_timestamp() reads: the lag, an interval, what a message needs around
	// half of the world, and how far clocks may be apart before a node stops itself.
	ReadLag = DefaultLag + DefaultInterval + 1000*time.Millisecond
)

// Token is the place of a tracked write. The zero Token is none.
type Token uint8

// bucket counts tracked writes, all at or above low.
type bucket struct {
	low clock.Timestamp
	n   int
}

// Tracker decides what a range may close: it knows what is closed and what is in flight. The zero value is ready. All
// methods may be called concurrently and wait for nothing.
type Tracker struct {
	// lead is how far ahead the range closes, in nanoseconds; zero: it closes the past. Read without the mutex.
	lead atomic.Int64

	mu     sync.Mutex // guards all below; the clock's may be taken after it
	closed clock.Timestamp
	now    func() clock.Timestamp // of the node's clock, for the lead
	// older and 1-older are the buckets. The newer one is empty if the older one is, and all of it is above the older
	// one's bound.
	buckets [2]bucket
	older   uint8
	frozen  bool
}

// Lead has the range close timestamps ahead of what now shows, or the past again if lead is zero. Closed timestamps stay closed.
func (t *Tracker) Lead(lead time.Duration, now func() clock.Timestamp) {
	t.mu.Lock()
	t.now = now
	t.lead.Store(int64(lead))
	t.mu.Unlock()
}

// Leads is how far ahead the range closes; zero: it closes the past.
func (t *Tracker) Leads() time.Duration { return time.Duration(t.lead.Load()) }

// Track announces a write at the timestamp or later; it has to be above floor. The write is tracked
// until Untrack. The caller checks its lease before, so that a later leaseholder's promise can't come in between.
//
// The floor is what is closed. If the range leads, a write that has to move goes past all that the range is to close at the moment: just above
// what is closed it would keep the range from closing more until it is applied (closedts.CT5). A write above what is closed keeps its timestamp, so a
// transaction that has moved there, and has refreshed its reads, does not have to move again.
func (t *Tracker) Track(at clock.Timestamp) (tok Token, floor clock.Timestamp) {
	t.mu.Lock()
	floor = t.closed
	if at.LessEq(floor) {
		if lead := t.lead.Load(); lead != 0 {
			floor = floor.Forward(clock.Timestamp{Wall: t.now().Wall + lead})
		}
		at = floor.Next()
	}
	i := t.older
	if b := &t.buckets[i]; b.n == 0 {
		b.low = at
	} else if at.LessEq(b.low) {
		b.low = at
	} else {
		i = 1 - i
		if b := &t.buckets[i]; b.n == 0 || at.Less(b.low) {
			b.low = at
		}
	}
	t.buckets[i].n++
	t.mu.Unlock()
	return Token(i + 1), floor
}

// Untrack says that a tracked write was applied, or never will be.
func (t *Tracker) Untrack(tok Token) {
	if tok == 0 {
		return
	}
	i := uint8(tok) - 1
	t.mu.Lock()
	if t.buckets[i].n--; t.buckets[i].n < 0 {
		t.mu.Unlock()
		panic("closedts: untracked twice")
	}
	if i == t.older && t.buckets[i].n == 0 {
		t.older = 1 - i
	}
	t.mu.Unlock()
}

// Close promises that no write comes at or below the result, which is the target or as much of it as can be promised
// (closedts.CT1), and never less than an earlier result (closedts.CT4).
func (t *Tracker) Close(target clock.Timestamp) clock.Timestamp {
	t.mu.Lock()
	defer t.mu.Unlock()
	if b := &t.buckets[t.older]; b.n > 0 && b.low.LessEq(target) {
		target = b.low.Prev()
	}
	if t.closed.Less(target) && !t.frozen {
		t.closed = target
	}
	return t.closed
}

// Closed is the last promise.
func (t *Tracker) Closed() clock.Timestamp {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.closed
}

// Raise takes over a promise that was made elsewhere: by the log, or by the start of a lease. Writes tracked below it must have no effect
// any more.
func (t *Tracker) Raise(to clock.Timestamp) {
	t.mu.Lock()
	t.closed = t.closed.Forward(to)
	t.mu.Unlock()
}

// Freeze ends promises for the time being, or for ever: a range that is about to be merged into its neighbour must not
// close what the neighbour may still write. It returns the last one.
func (t *Tracker) Freeze(on bool) clock.Timestamp {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.frozen = on
	return t.closed
}

// Frozen reports whether Freeze is in force. The timestamp of Raise must not be promised then.
func (t *Tracker) Frozen() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.frozen
}

// Lowest is at or below all that is tracked; zero if nothing is.
func (t *Tracker) Lowest() clock.Timestamp {
	t.mu.Lock()
	defer t.mu.Unlock()
	if b := &t.buckets[t.older]; b.n > 0 {
		return b.low
	}
	return clock.Timestamp{}
}

// InFlight counts what is tracked.
func (t *Tracker) InFlight() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.buckets[0].n + t.buckets[1].n
}
