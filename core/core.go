package core

import (
	"fmt"
	"strings"

	"meridian/clock"
)

// Ticket names one Persist; tickets of a core grow by one. Zero is "nothing to wait for".
type Ticket uint64

// Effects is what a driver has to do now. M is the core's messages, W its durable writes, C its changes of state.
type Effects[M, W, C any] struct {
	// Persist must be made durable, then Durable(Ticket) called.
	Persist []W
	// Ticket names this Persist; it is zero if Persist is empty.
	Ticket Ticket
	// Send may leave at once.
	Send []M
	// After may leave only when Persist is durable (core.K2).
	After []M
	// Apply changes the state machine, in this order.
	Apply []C
	// Wake asks for a Tick no later than this; zero does not care.
	Wake clock.Timestamp
}

// Empty reports whether there is nothing to do but, perhaps, to wake up later.
func (e *Effects[M, W, C]) Empty() bool {
	return len(e.Persist) == 0 && len(e.Send) == 0 && len(e.After) == 0 && len(e.Apply) == 0
}

// Reset empties e and keeps its memory.
func (e *Effects[M, W, C]) Reset() {
	clear(e.Persist)
	clear(e.Send)
	clear(e.After)
	clear(e.Apply)
	*e = Effects[M, W, C]{Persist: e.Persist[:0], Send: e.Send[:0], After: e.After[:0], Apply: e.Apply[:0]}
}

// Core is a protocol as a value.
type Core[M, W, C any] interface {
	// Step takes in a message that arrived.
	Step(now clock.Timestamp, m M)
	// Tick says that time passed.
	Tick(now clock.Timestamp)
	// Durable says that every Persist up to a ticket is on disk (core.K3).
	Durable(upTo Ticket)
	// Effects drains what must happen now.
	Effects() Effects[M, W, C]
}

// Event is one input of a core.
type Event[M any] struct {
	Now clock.Timestamp
	// Message is stepped if it is not nil; otherwise Durable is told if it is not zero; otherwise the core ticks.
	Message *M
	Durable Ticket
}

// Replay feeds events to a core and returns what it did, one line for each effect.
func Replay[M, W, C any](c Core[M, W, C], events []Event[M]) string {
	var b strings.Builder
	for i, e := range events {
		switch {
		case e.Message != nil:
			c.Step(e.Now, *e.Message)
		case e.Durable != 0:
			c.Durable(e.Durable)
		default:
			c.Tick(e.Now)
		}
		f := c.Effects()
		for _, w := range f.Persist {
			fmt.Fprintf(&b, "%d persist %d %+v\n", i, f.Ticket, w)
		}
		for _, m := range f.Send {
			fmt.Fprintf(&b, "%d send %+v\n", i, m)
		}
		for _, m := range f.After {
			fmt.Fprintf(&b, "%d after %d send %+v\n", i, f.Ticket, m)
		}
		for _, a := range f.Apply {
			fmt.Fprintf(&b, "%d apply %+v\n", i, a)
		}
		if !f.Wake.IsZero() {
			fmt.Fprintf(&b, "%d wake %s\n", i, f.Wake)
		}
	}
	return b.String()
}

// NondeterminismError shows where two replays of one script parted (core.K1).
type NondeterminismError struct {
	Line          int
	First, Second string
}

func (e *NondeterminismError) Error() string {
	return fmt.Sprintf("core: two replays of one script differ at line %d:\n  %s\n  %s", e.Line, e.First, e.Second)
}

// CheckDeterminism replays a script on two cores that make gives, and compares the traces.
func CheckDeterminism[M, W, C any](make func() Core[M, W, C], events []Event[M]) error {
	a := strings.Split(Replay(make(), events), "\n")
	b := strings.Split(Replay(make(), events), "\n")
	for i := range max(len(a), len(b)) {
		var x, y string
		if i < len(a) {
			x = a[i]
		}
		if i < len(b) {
			y = b[i]
		}
		if x != y {
			return &NondeterminismError{Line: i + 1, First: x, Second: y}
		}
	}
	return nil
}
