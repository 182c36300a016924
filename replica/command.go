package replica

import (
	"encoding/binary"
	"errors"

	"meridian/clock"
	"meridian/kv"
	"meridian/replica/lease"
)

// Stats is the size of a range's data (an alias of mvcc.Stats).
type Stats struct{}

// Command is the effect of a request: what goes through the log and is applied by every replica alike.
//
// R1 (I5): a command is applied only if LeaseSequence is that of the range's lease at that point of the log, and
// only if its lease index is above that of every command applied before, so that it applies at most once however
// often it was proposed.
type Command struct {
	// LeaseSequence is what CheckLease returned before the request was evaluated.
	LeaseSequence uint64
	// ClosedTimestamp, if set, closes the range up to it.
	ClosedTimestamp clock.Timestamp
	// Batch is the engine batch's representation (engine.Batch.Repr). Propose has copied it when it returns.
	Batch []byte
	// Delta is what the batch does to the range's statistics.
	Delta Stats
	// Trigger is carried out with the batch; EvaluateTrigger must have added its replicated effects.
	Trigger *kv.CommitTrigger
	// GCThreshold, if set, is the range's new one.
	GCThreshold clock.Timestamp

	// Settled, if not nil, is called exactly once if Propose returned because its context ended: later, when the
	// command was applied, or never will be. Until then latches have to be held. It must not wait.
	Settled func()

	// lease requests and log truncation are this package's own commands.
	lease         *lease.Lease
	prevLease     lease.Lease
	truncateIndex uint64
	// maxLeaseIndex is given at proposal (R1).
	maxLeaseIndex uint64
	id            uint64
}

// ErrBadCommand is what decoding gives for bytes that encode did not write. It stops the replica: the log is corrupt.
var ErrBadCommand = errors.New("replica: malformed command")

var _ = binary.AppendUvarint
