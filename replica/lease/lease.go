package lease

import (
	"context"
	"fmt"

	"meridian/clock"
	"meridian/kv"
	"meridian/wire"
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

// Append adds l's fields to b.
func (l *Lease) Append(b []byte) []byte {
	b = wire.Uint(b, 1, uint64(l.Kind))
	b, at := wire.Begin(b, 3)
	b = wire.End(l.Holder.Append(b), at)
	b = wire.Timestamp(b, 5, l.Start)
	b = wire.Timestamp(b, 7, l.Expiration)
	b = wire.Timestamp(b, 9, l.ProposedAt)
	b = wire.Uint(b, 11, l.Incarnation)
	return wire.Uint(b, 13, l.Sequence)
}

// Read reads what Append wrote. A replica that does not understand all of a lease can't tell who may serve.
func Read(r *wire.Reader, l *Lease) {
	for m := r.Open("lease.Lease"); r.Next(&m); {
		switch r.Field() {
		case 1:
			l.Kind = Kind(r.Enum(uint8(Liveness)))
		case 3:
			kv.ReadReplica(r, &l.Holder)
		case 5:
			l.Start = r.Timestamp()
		case 7:
			l.Expiration = r.Timestamp()
		case 9:
			l.ProposedAt = r.Timestamp()
		case 11:
			l.Incarnation = r.Uint()
		case 13:
			l.Sequence = r.Uint()
		default:
			r.Refuse()
		}
	}
}

// Decode reads what Append wrote.
func Decode(b []byte) (l Lease, err error) {
	r := wire.Read(b)
	Read(&r, &l)
	return l, r.Err()
}
