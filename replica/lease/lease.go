package lease

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"meridian/clock"
	"meridian/kv"
)

// Kind says what ends a lease.
type Kind uint8

const (
	// Expiration leases end at a timestamp unless they are extended through the log. System ranges have them,
	// because liveness itself lives there.
	Expiration Kind = iota
	// Liveness leases last as long as the holder's incarnation does (CRDB'20 §4.3 calls these epoch-based). One
	// heartbeat of the node's liveness record extends all of them.
	Liveness
)

func (k Kind) String() string { return [...]string{"expiration", "liveness"}[k&1] }

// Lease is the right of one replica to serve reads and to propose writes of a range.
type Lease struct {
	Kind   Kind
	Holder kv.ReplicaDescriptor
	// Start is the first timestamp that the lease covers. No earlier lease of the range served a read above it.
	Start clock.Timestamp
	// Expiration is the first timestamp that an Expiration lease does not cover.
	Expiration clock.Timestamp
	// Incarnation of the holder's node, for Liveness leases.
	Incarnation uint64
	// Sequence grows by one with every lease that is not an extension of the one before.
	Sequence uint64
	// ProposedAt is the holder's clock when it asked. A node does not use leases from before it started.
	ProposedAt clock.Timestamp
}

// IsZero reports whether there has been no lease.
func (l Lease) IsZero() bool { return l.Sequence == 0 }

func (l Lease) String() string {
	switch l.Kind {
	case Liveness:
		return fmt.Sprintf("lease %d: n%d incarnation %d from %s", l.Sequence, l.Holder.Node, l.Incarnation, l.Start)
	default:
		return fmt.Sprintf("lease %d: n%d from %s to %s", l.Sequence, l.Holder.Node, l.Start, l.Expiration)
	}
}

// Extends reports whether l only prolongs prev: same holder, same kind, no gap, so that the sequence is kept.
func (l Lease) Extends(prev Lease) bool {
	return !prev.IsZero() && l.Sequence == prev.Sequence && l.Kind == prev.Kind &&
		l.Holder.Replica == prev.Holder.Replica && l.Holder.Node == prev.Holder.Node && l.Start == prev.Start &&
		l.Incarnation == prev.Incarnation
}

// NodeLiveness is what leases need to know of the cluster's liveness records.
type NodeLiveness interface {
	// IsLive reports whether a node's incarnation is current and unexpired, as far as this node knows.
	IsLive(node kv.NodeID, incarnation uint64, now clock.Timestamp) bool
	// Self is this node's incarnation, and until when it is good; zero incarnation: not yet known.
	Self() (incarnation uint64, expiration clock.Timestamp)
	// Incarnation is the latest known incarnation of a node, and until when it is good.
	Incarnation(node kv.NodeID) (incarnation uint64, expiration clock.Timestamp)
	// IncrementIncarnation ends an expired incarnation for good. It returns nil if somebody else did.
	IncrementIncarnation(ctx context.Context, node kv.NodeID, incarnation uint64) error
}

// ErrBadLease is what Decode returns for bytes that Append did not write.
var ErrBadLease = errors.New("lease: malformed")

// Append adds l's bytes to b.
func (l Lease) Append(b []byte) []byte {
	b = append(b, byte(l.Kind), byte(l.Holder.Type))
	b = binary.AppendUvarint(b, uint64(l.Holder.Node))
	b = binary.AppendUvarint(b, uint64(l.Holder.Store))
	b = binary.AppendUvarint(b, uint64(l.Holder.Replica))
	b = l.Start.Append(b)
	b = l.Expiration.Append(b)
	b = l.ProposedAt.Append(b)
	b = binary.AppendUvarint(b, l.Incarnation)
	return binary.AppendUvarint(b, l.Sequence)
}

// Decode reads what Append wrote and returns the rest.
func Decode(b []byte) (l Lease, rest []byte, err error) {
	if len(b) < 2 || b[0] > byte(Liveness) {
		return l, nil, ErrBadLease
	}
	l.Kind, l.Holder.Type = Kind(b[0]), kv.ReplicaType(b[1])
	b = b[2:]
	uvarint := func() uint64 {
		v, n := binary.Uvarint(b)
		if n <= 0 {
			err, b = ErrBadLease, nil
			return 0
		}
		b = b[n:]
		return v
	}
	timestamp := func() (t clock.Timestamp) {
		if err != nil {
			return t
		}
		var rest []byte
		if t, rest, err = clock.Decode(b); err != nil {
			err, b = ErrBadLease, nil
			return t
		}
		b = rest
		return t
	}
	l.Holder.Node = kv.NodeID(uvarint())
	l.Holder.Store = kv.StoreID(uvarint())
	l.Holder.Replica = kv.ReplicaID(uvarint())
	l.Start = timestamp()
	l.Expiration = timestamp()
	l.ProposedAt = timestamp()
	l.Incarnation = uvarint()
	l.Sequence = uvarint()
	if err != nil {
		return Lease{}, nil, err
	}
	return l, b, nil
}
