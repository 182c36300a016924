package cluster

import (
	"context"
	"fmt"
	"time"

	"meridian/clock"
	"meridian/kv"
)

// Liveness is what the cluster has agreed about a node; see the package comment for L1 to L4.
type Liveness struct {
	Node kv.NodeID
	// Incarnation grows each time the node's leases are declared void, also when it restarts.
	Incarnation uint64
	Expiration  clock.Timestamp
	// Draining: takes no new leases. Decommissioning: loses its replicas. Decommissioned: is gone for good.
	Draining, Decommissioning, Decommissioned bool
}

// Live reports whether the record is unexpired. Others may not raise its incarnation while it is (L2).
func (l Liveness) Live(now clock.Timestamp) bool { return now.Less(l.Expiration) }

// Usable reports whether the node itself may still act under its incarnation (L3).
func (l Liveness) Usable(now clock.Timestamp, maxOffset time.Duration) bool {
	return now.Add(maxOffset).Less(l.Expiration)
}

// newer reports whether l was written after o (L1): every change of a record moves its expiration, if only by the
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

func (w *writer) liveness(l *Liveness) {
	w.sized(func(w *writer) {
		w.uint(uint64(l.Node))
		w.uint(l.Incarnation)
		w.ts(l.Expiration)
		w.bools(l.Draining, l.Decommissioning, l.Decommissioned)
	})
}

func (r *reader) liveness() Liveness {
	in := reader{b: r.bytes()}
	l := Liveness{Node: kv.NodeID(in.uint32()), Incarnation: in.uint(), Expiration: in.ts()}
	flags := in.uint()
	l.Draining, l.Decommissioning, l.Decommissioned = flags&1 != 0, flags&2 != 0, flags&4 != 0
	if in.bad || l.Node == 0 {
		r.fail()
	}
	return l
}

// AppendLiveness adds a record's bytes, as stored under keys.LivenessKey.
func AppendLiveness(b []byte, l *Liveness) []byte {
	w := writer{b}
	w.liveness(l)
	return w.b
}

// DecodeLiveness reads what AppendLiveness wrote.
func DecodeLiveness(b []byte) (Liveness, error) {
	r := reader{b: b}
	l := r.liveness()
	return l, r.err()
}

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
