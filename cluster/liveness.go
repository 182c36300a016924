package cluster

import (
	"context"
	"fmt"

	"meridian/clock"
	"meridian/kv"
	"meridian/wire"
)

// Liveness is what the cluster has agreed about a node; see the package comment for cluster.L1 to cluster.L4.
type Liveness struct {
	Node kv.NodeID
	// Incarnation grows each time the node's leases are declared void, also when it restarts.
	Incarnation uint64
	Expiration  clock.Timestamp
	// Draining: takes no new leases. Decommissioning: loses its replicas. Decommissioned: is gone for good.
	Draining, Decommissioning, Decommissioned bool
	// Unknown are fields that a later version wrote; a change of the record keeps them.
	Unknown wire.Unknown
}

// Live reports whether the record is unexpired. Others may not raise its incarnation while it is (cluster.L2).
func (l Liveness) Live(now clock.Timestamp) bool { return now.Less(l.Expiration) }

// Usable reports whether the node itself may still act under its incarnation (cluster.L3).
func (l Liveness) Usable(now clock.Interval) bool { return now.Before(l.Expiration) }

// newer reports whether l was written after o (cluster.L1): every change of a record moves its expiration, if only by the
// logical part.
func (l Liveness) newer(incarnation uint64, expiration clock.Timestamp) bool {
	return l.Incarnation > incarnation || l.Incarnation == incarnation && expiration.Less(l.Expiration)
}

func (l Liveness) String() string {
	s := fmt.Sprintf("n%d incarnation=%d expires=%s", l.Node, l.Incarnation, l.Expiration)
	for _, f := range []struct {
		set  bool
		name string
	}{{l.Draining, " draining"}, {l.Decommissioning, " decommissioning"}, {l.Decommissioned, " decommissioned"}} {
		if f.set {
			s += f.name
		}
	}
	return s
}

func (l *Liveness) fields(c *wire.Coder) {
	c.Message("cluster.Liveness", wire.Skips)
	wire.Uint32(c, 1, &l.Node)
	wire.Uint64(c, 3, &l.Incarnation)
	c.Timestamp(5, &l.Expiration)
	c.Bool(7, &l.Draining)
	c.Bool(9, &l.Decommissioning)
	c.Bool(11, &l.Decommissioned)
	c.Unknown(&l.Unknown)
	if c.Complete() && l.Node == 0 {
		c.Malformed()
	}
}

// AppendLiveness adds a record's bytes, as stored under keys.LivenessKey.
func AppendLiveness(b []byte, l *Liveness) []byte { return wire.Append(b, l, (*Liveness).fields) }

// DecodeLiveness reads what AppendLiveness wrote.
func DecodeLiveness(b []byte) (Liveness, error) { return wire.Decoded(b, (*Liveness).fields) }

// LivenessStore keeps the records, in the system range. Values are opaque to it. Both methods are linearizable.
type LivenessStore interface {
	// Get returns a node's record, nil if there is none.
	Get(ctx context.Context, node kv.NodeID) ([]byte, error)
	// CPut replaces a record if it is expected (nil: absent). If it is not, swapped is false and actual is what is there.
	// After an error the put may have happened or may still happen.
	CPut(ctx context.Context, node kv.NodeID, expected, value []byte) (actual []byte, swapped bool, err error)
}

// StillLiveError says that a node's incarnation can't be raised because its record has not expired.
type StillLiveError struct{ Record Liveness }

func (e *StillLiveError) Error() string { return "cluster: still live: " + e.Record.String() }

// NoRecordError says that a node has no liveness record.
type NoRecordError struct{ Node kv.NodeID }

func (e *NoRecordError) Error() string {
	return fmt.Sprintf("cluster: n%d has no liveness record", e.Node)
}

// DecommissionedError says that the node was removed from the cluster for good.
type DecommissionedError struct{ Node kv.NodeID }

func (e *DecommissionedError) Error() string {
	return fmt.Sprintf("node %d was decommissioned: it has no place in the cluster any more, and its store is of no use", e.Node)
}
