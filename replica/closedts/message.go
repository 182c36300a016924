package closedts

import (
	"encoding/binary"
	"errors"
	"math"

	"meridian/clock"
	"meridian/kv"
)

// Policy is how a range's timestamps are closed.
type Policy uint8

const (
	// Lag closes the past.
	Lag Policy = iota
	// Policies is the number of policies.
	Policies
)

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

// ErrBadUpdate is what DecodeUpdate returns for bytes that Append did not write.
var ErrBadUpdate = errors.New("closedts: malformed update")

// Append adds u's bytes to b.
func (u *Update) Append(b []byte) []byte {
	b = binary.AppendUvarint(b, u.Stream)
	b = binary.AppendUvarint(b, u.Seq)
	b = append(b, byte(Policies))
	for _, t := range u.Closed {
		b = t.Append(b)
	}
	b = binary.AppendUvarint(b, uint64(len(u.Removed)))
	for _, id := range u.Removed {
		b = binary.AppendUvarint(b, uint64(id))
	}
	b = binary.AppendUvarint(b, uint64(len(u.Changed)))
	for _, p := range u.Changed {
		b = binary.AppendUvarint(b, uint64(p.Range))
		b = append(b, byte(p.Policy))
		b = binary.AppendUvarint(b, p.Index)
	}
	return b
}

// DecodeUpdate reads what Append wrote.
func DecodeUpdate(b []byte) (u Update, err error) {
	bad := false
	uvarint := func() uint64 {
		v, n := binary.Uvarint(b)
		if n <= 0 {
			bad, b = true, nil
			return 0
		}
		b = b[n:]
		return v
	}
	octet := func() byte {
		if len(b) == 0 {
			bad = true
			return 0
		}
		v := b[0]
		b = b[1:]
		return v
	}
	count := func(each int) int {
		n := uvarint()
		if n > uint64(len(b)/each) || n > math.MaxInt32 {
			bad, b = true, nil
			return 0
		}
		return int(n)
	}
	u.Stream, u.Seq = uvarint(), uvarint()
	if octet() != byte(Policies) {
		return Update{}, ErrBadUpdate
	}
	for i := range u.Closed {
		if u.Closed[i], b, err = clock.Decode(b); err != nil {
			return Update{}, ErrBadUpdate
		}
	}
	for range count(1) {
		u.Removed = append(u.Removed, kv.RangeID(uvarint()))
	}
	for range count(3) {
		p := Position{Range: kv.RangeID(uvarint()), Policy: Policy(octet()), Index: uvarint()}
		if p.Policy >= Policies {
			bad = true
		}
		u.Changed = append(u.Changed, p)
	}
	if bad || len(b) > 0 || u.Seq == 0 {
		return Update{}, ErrBadUpdate
	}
	return u, nil
}
