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

// Append adds u's fields to b. Everything in it must be understood, because stale reads rest on it.
func (u *Update) Append(b []byte) []byte {
	b = wire.Uint(b, 1, u.Stream)
	b = wire.Uint(b, 3, u.Seq)
	for p, t := range u.Closed {
		b = wire.Timestamp(b, closedFields+2*uint32(p), t)
	}
	ids := make([]uint64, len(u.Removed))
	for i, id := range u.Removed {
		ids[i] = uint64(id)
	}
	b = wire.Packed(b, 5, ids)
	for i := range u.Changed {
		var at int
		b, at = wire.Begin(b, 7)
		b = wire.End(appendPosition(b, &u.Changed[i]), at)
	}
	return b
}

// closedFields is the field of the first policy's timestamp; the others follow. A policy that a reader does not know is refused.
const closedFields = 101

func readUpdate(r *wire.Reader, u *Update) {
	for m := r.Open("closedts.Update"); r.Next(&m); {
		switch f := r.Field(); f {
		case 1:
			u.Stream = r.Uint()
		case 3:
			u.Seq = r.Uint()
		case 5:
			for _, id := range r.Packed() {
				u.Removed = append(u.Removed, kv.RangeID(id))
			}
		case 7:
			readPosition(r, wire.Grow(r, &u.Changed))
		default:
			if p := (f - closedFields) / 2; f >= closedFields && f&1 != 0 && p < uint32(Policies) {
				u.Closed[p] = r.Timestamp()
				continue
			}
			r.Skip()
		}
	}
}

func appendPosition(b []byte, p *Position) []byte {
	return wire.Uint(wire.Uint(wire.Uint(b, 1, uint64(p.Range)), 3, uint64(p.Policy)), 5, p.Index)
}

func readPosition(r *wire.Reader, p *Position) {
	for m := r.Open("closedts.Position"); r.Next(&m); {
		switch r.Field() {
		case 1:
			p.Range = kv.RangeID(r.Uint())
		case 3:
			p.Policy = Policy(r.Enum(uint8(Policies - 1)))
		case 5:
			p.Index = r.Uint()
		default:
			r.Refuse()
		}
	}
}

// DecodeUpdate reads what Append wrote.
func DecodeUpdate(b []byte) (u Update, err error) {
	r := wire.Read(b)
	readUpdate(&r, &u)
	if r.Err() != nil {
		return Update{}, r.Err()
	}
	if u.Seq == 0 {
		return Update{}, ErrBadUpdate
	}
	return u, nil
}
