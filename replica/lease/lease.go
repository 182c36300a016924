package lease

import (
	"context"
	"fmt"
	"time"

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
	// Supported leases last as long as a majority of the range's voters support the holder's incarnation (package support). All ranges have them, once the cluster's version
	// allows it.
	Supported
)

func (k Kind) String() string {
	switch k {
	case Liveness:
		return "liveness"
	case Supported:
		return "supported"
	default:
		return "expiration"
	}
}

// Lease is the right of one replica to serve reads and to propose writes of a range.
type Lease struct {
	Kind   Kind
	Holder kv.ReplicaDescriptor
	// Start is the first timestamp that the lease covers. No earlier lease of the range served a read above it.
	Start clock.Timestamp
	// Expiration is the first timestamp that an Expiration lease does not cover. For Supported leases it is that of the lease before, as those told who have withdrawn; FromItself: the holder
	// itself had that.
	Expiration clock.Timestamp
	// Incarnation of the holder's node, for Liveness and Supported leases. These are counted apart.
	Incarnation uint64
	// Sequence grows by one with every lease that is not an extension of the one before.
	Sequence uint64
	// ProposedAt is at most what the holder's clock showed when the lease was proposed. A node does not use leases from before it started.
	ProposedAt clock.Timestamp
	// Ahead is how far beyond the lease's end its holder may serve (lease.RL5).
	Ahead time.Duration
}

// Farthest is how far ahead of its clock a leaseholder serves: a GLOBAL table needs 2.1 s with links of 300 ms and clocks that differ by
// 500 ms, and a transaction that writes such a table takes its timestamp to other ranges. A lease that reaches so far has
// a price: after a crash of the leaseholder, writes to the range begin above all that it may have served, and wait for that time.
const Farthest = 5 * time.Second

// FromItself is the Expiration of a Supported lease that follows one of the same process, which knows what it has served.
func FromItself() clock.Timestamp { return clock.Timestamp{Wall: 1} }

// IsZero reports whether there has been no lease.
func (l Lease) IsZero() bool { return l.Sequence == 0 }

func (l Lease) String() string {
	ahead := ""
	if l.Ahead != 0 {
		ahead = fmt.Sprintf(" and %s beyond", l.Ahead)
	}
	switch l.Kind {
	case Liveness, Supported:
		return fmt.Sprintf("lease %d: n%d incarnation %d from %s%s", l.Sequence, l.Holder.Node, l.Incarnation, l.Start, ahead)
	default:
		return fmt.Sprintf("lease %d: n%d from %s to %s%s", l.Sequence, l.Holder.Node, l.Start, l.Expiration, ahead)
	}
}

// After is l as it is applied after prev, if prev's holder has not given it away: it starts after all that prev says that its holder may have
// served beyond its end (lease.RL5). The ends of other leases than Expiration ones are not in the log, but l begins after them.
func (l Lease) After(prev Lease) Lease {
	switch {
	case l.Sequence == prev.Sequence || prev.Ahead == 0:
	case l.Kind == Supported && prev.Kind == Supported && !l.Expiration.IsZero():
		if l.Expiration != FromItself() {
			l.Start = l.Start.Forward(l.Expiration.Add(prev.Ahead).Next())
		}
	case prev.Kind == Expiration:
		l.Start = l.Start.Forward(prev.Expiration.Add(prev.Ahead).Next())
	default:
		l.Start = l.Start.Add(prev.Ahead)
	}
	return l
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
	// Process is what this node has heard of a node's latest process: when it started, by that node's clock (zero: not known), and whether the
	// latest known record may be one that it has written. A record of an earlier process is of no use to the present one.
	Process(node kv.NodeID) (started clock.Timestamp, beats bool)
	// IncrementIncarnation ends an expired incarnation for good. It returns nil if somebody else did.
	IncrementIncarnation(ctx context.Context, node kv.NodeID, incarnation uint64) error
}

// Support is what leases need to know of the support that nodes give each other (package support).
type Support interface {
	// Incarnation is this node's, for new leases; zero: none yet, or there are no Supported leases in this cluster.
	Incarnation() uint64
	// Earlier reports whether an incarnation of this node is of an earlier process.
	Earlier(incarnation uint64) bool
	// Ended is a timestamp after all that earlier processes of this node have been promised.
	Ended() clock.Timestamp
	// Held is until when, by the monotonic clock, and for which timestamps this node may use a lease of an incarnation; zero: it may not.
	Held(d *kv.RangeDescriptor, incarnation uint64) (until time.Duration, end clock.Timestamp)
	// Over reports whether a lease of another node's incarnation is over for good. The next one begins after end.
	Over(d *kv.RangeDescriptor, node kv.NodeID, incarnation uint64) (end clock.Timestamp, over bool)
	// Await returns when it is over, or the context ends.
	Await(ctx context.Context, d *kv.RangeDescriptor, node kv.NodeID, incarnation uint64) (end clock.Timestamp, err error)
	// Down reports whether a majority of a range's voters say that they support a node no more.
	Down(d *kv.RangeDescriptor, node kv.NodeID) bool
	// Gone is Down, or true if a node that has an incarnation has died before it could ask for support.
	Gone(d *kv.RangeDescriptor, node kv.NodeID) bool
	// Of is the incarnation of another node, as far as this one knows, and whether this one supports it.
	Of(node kv.NodeID) (incarnation uint64, supported bool)
	// Abstain has this node lose its leases, which it can't use, and take none for some time.
	Abstain(d time.Duration)
	// Changed is closed when any of Over, Down and Gone may have.
	Changed() <-chan struct{}
}

// Fields declares the message. A replica that does not understand all of a lease can't tell who may serve.
func (l *Lease) Fields(c *wire.Coder) {
	c.Message("lease.Lease", wire.Refuses)
	wire.Enum(c, 1, &l.Kind, Supported)
	wire.One(c, 3, &l.Holder, (*kv.ReplicaDescriptor).Fields)
	c.Timestamp(5, &l.Start)
	c.Timestamp(7, &l.Expiration)
	c.Timestamp(9, &l.ProposedAt)
	wire.Uint64(c, 11, &l.Incarnation)
	wire.Uint64(c, 13, &l.Sequence)
	wire.Int64(c, 15, &l.Ahead)
}

// Append adds l's fields to b.
func (l *Lease) Append(b []byte) []byte { return wire.Append(b, l, (*Lease).Fields) }

// Decode reads what Append wrote.
func Decode(b []byte) (l Lease, err error) {
	err = wire.Decode(b, &l, (*Lease).Fields)
	return l, err
}
