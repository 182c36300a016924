package closedts

import (
	"errors"
	"time"

	"meridian/clock"
	"meridian/kv"
	"meridian/wire"
)

// Policy is how a range's timestamps are closed.
type Policy uint8

const (
	// Lag closes the past.
	Lag Policy = 0
	// leads is the number of leads: policy p closes p steps of leadStep ahead, and those beyond leadFine steps of twice that.
	leads, leadFine = 96, 40
	// Policies is the number of policies.
	Policies = 1 + leads
	// leadStep is the difference between two leads of up to 200 ms. Ranges with about the same lead share a timestamp in each message, and a lead that is
	// measured anew rarely changes. It costs a writer half of it on average. A receiver goes by the timestamps alone, and does not know the steps.
	leadStep = 5 * time.Millisecond
)

// Ahead is the policy with the least lead that is at least d, or else with the greatest.
func Ahead(d time.Duration) Policy {
	steps := (d + leadStep - 1) / leadStep
	if steps > leadFine {
		steps = leadFine + (steps-leadFine+1)/2
	}
	return Policy(min(max(steps, 1), leads))
}

// Lead is how far ahead a policy closes; zero for Lag.
func (p Policy) Lead() time.Duration {
	return leadStep * (time.Duration(p) + max(time.Duration(p)-leadFine, 0))
}

// Position is a range's place in its log.
type Position struct {
	Range  kv.RangeID
	Policy Policy
	// Index is what a replica must have applied to serve what is closed.
	Index uint64
}

// Update is one message of the side transport.
type Update struct {
	// Stream and Seq say what the message follows: Seq counts the messages of a stream, and 1 forgets all that was said
	// on earlier ones. A later stream of the same node has a higher number.
	Stream, Seq uint64
	// Closed is what all ranges of the sender's group have closed, by policy.
	Closed [Policies]clock.Timestamp
	// Removed left the group; Changed joined it, or have another index.
	Removed []kv.RangeID
	Changed []Position
}

// ErrBadUpdate refuses an update that does not follow what was heard before.
var ErrBadUpdate = errors.New("closedts: malformed update")

// Append adds u's bytes to b.
func (u *Update) Append(b []byte) []byte { return wire.Append(b, u, (*Update).fields) }

// closedFields is the field of the first policy's timestamp; the others follow. A policy that a reader does not know is refused.
const closedFields = 101

// fields declares the message. Everything in it must be understood, because stale reads rest on it.
func (u *Update) fields(c *wire.Coder) {
	c.Message("closedts.Update", wire.Skips)
	wire.Uint64(c, 1, &u.Stream)
	wire.Uint64(c, 3, &u.Seq)
	for p := range u.Closed {
		c.Timestamp(closedFields+2*uint32(p), &u.Closed[p])
	}
	if c.Writing() {
		wire.Numbers(c, 5, &u.Removed)
	} else if c.At() == 5 { // several are one list
		var more []kv.RangeID
		wire.Numbers(c, 5, &more)
		u.Removed = append(u.Removed, more...)
	}
	wire.List(c, 7, &u.Changed, (*Position).fields)
}

func (p *Position) fields(c *wire.Coder) {
	c.Message("closedts.Position", wire.Refuses)
	wire.Uint64(c, 1, &p.Range)
	wire.Enum(c, 3, &p.Policy, Policies-1)
	wire.Uint64(c, 5, &p.Index)
}

// DecodeUpdate reads what Append wrote.
func DecodeUpdate(b []byte) (u Update, err error) {
	if u, err = wire.Decoded(b, (*Update).fields); err != nil {
		return Update{}, err
	}
	if u.Seq == 0 {
		return Update{}, ErrBadUpdate
	}
	return u, nil
}
