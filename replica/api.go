package replica

import (
	"context"

	"meridian/clock"
	"meridian/kv"
)

// Replica is one range's replica on this store.
type Replica struct{ rangeID kv.RangeID }

// RangeID is the range.
func (r *Replica) RangeID() kv.RangeID { return r.rangeID }

// NodeID is this node.
func (r *Replica) NodeID() kv.NodeID { return 0 }

// Desc is the range's descriptor as of the last applied command. It is never written in place.
func (r *Replica) Desc() *kv.RangeDescriptor { return nil }

// CheckLease reports whether this replica may serve requests at a timestamp, and under which lease sequence.
// It costs a few loads. Check again after latches were acquired.
func (r *Replica) CheckLease(at clock.Timestamp) (sequence uint64, ok bool) { return 0, false }

// EnsureLease acquires or extends the lease so that it covers a timestamp, or returns *kv.NotLeaseholderError
// (somebody else has it or is better placed), *kv.UnavailableError or the context's error.
func (r *Replica) EnsureLease(ctx context.Context, at clock.Timestamp) (sequence uint64, err error) {
	return 0, nil
}

// Propose replicates a command and returns nil once it is applied on this replica and durable on a quorum (I1).
//
// *kv.NotLeaseholderError, *kv.RangeNotFoundError, *kv.UnavailableError: it was not and will never be applied.
// *kv.AmbiguousError: the context ended first; Command.Settled is called when the outcome is known.
func (r *Replica) Propose(ctx context.Context, c *Command) error { return nil }

// Stats are the range's statistics as of the last applied command.
func (r *Replica) Stats() Stats { return Stats{} }

// GCThreshold is the timestamp below which versions may be gone; reads at or below it are refused.
func (r *Replica) GCThreshold() clock.Timestamp { return clock.Timestamp{} }

// ClosedTimestamp is what this replica may serve reads at without a lease.
func (r *Replica) ClosedTimestamp() clock.Timestamp { return clock.Timestamp{} }
