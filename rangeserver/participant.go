package rangeserver

import (
	"context"

	"meridian/clock"
	"meridian/kv"
	"meridian/replica"
	"meridian/replica/lease"
)

// Participant is a commit protocol's part at one range of one store: it serves the range's requests. commit/leader
// has one implementation; the registry in Options.Participants picks by the range's protocol.
//
// All methods but Send and Drain are called while the replica applies its log, in log order; they must not wait,
// and must not call Propose or EnsureLease. When a call happens, the replica's Desc, Stats and CheckLease already
// show the state after the change.
type Participant interface {
	// Send evaluates a batch whose keys are all in the range, on the caller's goroutine. Both results may be set:
	// an error may come with a response that carries the transaction.
	Send(ctx context.Context, b *kv.Batch) (*kv.BatchResponse, error)

	// LeaseChanged says that a lease with a new sequence number took effect. If held, CheckLease shows it only after the
	// call, so that nothing is served before; this replica has it, and the
	// timestamp cache's low water must be at least l.Start; else in-memory locks and caches are void, and waiters
	// have to be sent away with NotLeaseholderError.
	LeaseChanged(l lease.Lease, held bool)

	// Unled says that the range has no raft leader, and has had none for seconds: requests that wait for others, or for
	// locks, have to be sent away with UnavailableError.
	Unled()

	// HandOver gives what the next leaseholder should have, nil for nothing: locks that are in memory only. It comes after
	// Drain. TakeOver hands it to the next one, after LeaseChanged and before CheckLease shows the lease.
	HandOver() []byte
	TakeOver(handed []byte)

	// DescriptorChanged says that replicas or generation of the range changed, not its span.
	DescriptorChanged(desc *kv.RangeDescriptor)

	// SplitOff says that the range now ends at left.End. What is returned is handed to the constructor of the right
	// side's participant (locks and waiters of its keys); it may be nil. The request that carried the trigger holds
	// latches on all of the range, so nothing else is being evaluated.
	SplitOff(left, right *kv.RangeDescriptor) (handoff any)

	// Absorb says that the range is about to end at desc.End: it has swallowed its right neighbour, which served nothing
	// after freeze, and whose participant returned handoff from Subsume. The replica's descriptor does not show it yet,
	// so no request for the neighbour's keys comes before the call is over.
	Absorb(desc *kv.RangeDescriptor, handoff any, freeze clock.Timestamp)

	// Subsume says that the left neighbour swallows this range.
	Subsume() (handoff any)

	// SnapshotApplied says that a raft snapshot replaced the range's data: caches of it are void.
	SnapshotApplied()

	// Drain returns when no request is being evaluated that passed its lease check before the call. It precedes a
	// lease transfer: CheckLease fails from before the call on.
	Drain(ctx context.Context) error

	// Close says that the replica is gone; err is what waiting requests are answered with.
	Close(err error)
}

// NewParticipant makes the participant of a replica. handoff is what SplitOff returned, nil at start.
type NewParticipant func(r *replica.Replica, handoff any) Participant
