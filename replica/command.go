package replica

import (
	"meridian/clock"
	"meridian/kv"
	"meridian/replica/lease"
	"meridian/wire"
)

// Command is the effect of a request: the content of a log entry, which every replica applies in the same way.
//
// replica.R1 (I5): a command is applied only if LeaseSequence is that of the range's lease at that point of the log, and
// only if its lease index is above that of every command applied before, so that it applies at most once however
// often it was proposed.
type Command struct {
	laterCommand
	// LeaseSequence is what CheckLease returned before the request was evaluated.
	LeaseSequence uint64
	// ClosedTimestamp, if set, closes the range up to it. Propose sets it.
	ClosedTimestamp clock.Timestamp
	// WriteAt, if set, is below or at all versions and intents of the batch that count for I6, and tracked
	// (closedts.Tracker) until Propose has returned another error than *kv.AmbiguousError, or Settled was called.
	WriteAt clock.Timestamp
	// Batch is the engine batch's representation (engine.Batch.Repr). Propose has copied it when it returns. In a lease transfer it is the
	// handover for the next leaseholder instead.
	Batch []byte
	// Delta is the batch's change of the range's statistics.
	Delta Stats
	// Trigger is carried out with the batch; EvaluateTrigger must have added its replicated effects.
	Trigger *kv.CommitTrigger
	// GCThreshold, if set, is the range's new one.
	GCThreshold clock.Timestamp
	// Commits are the transactions that are committed by the command (replica.R8).
	Commits []Commit
	// Hash, if not zero, makes every replica hash the range's state right after this command (Store.HashDue).
	Hash uint64

	// Use is the purpose of its disk space; it is not sent.
	Use Use

	// Settled, if not nil, is called exactly once if Propose returned because its context ended: later, when the command has been applied,
	// or certainly never will be. Until then latches have to be held. It must not wait.
	Settled func()

	// lease requests and log truncation are this package's own commands.
	lease         *lease.Lease
	prevLease     uint64 // the sequence that lease follows
	given         bool   // by the previous holder, which stopped using its own
	truncate      position
	maxLeaseIndex uint64 // given at proposal (replica.R1)
	id            uint64
}

// Use is the purpose of a command's disk space, since not all commands are accepted when the disk is nearly full (Start).
type Use uint8

const (
	// Adds data.
	Adds Use = iota
	// Removes rows: tombstones take space before garbage collection frees more.
	Removes
	// Settles transactions, collects garbage, drops unused data, changes the catalogue.
	Settles
)

// The lease index is a command's first field, so that a proposal can be renumbered in place.
const (
	commandLeaseIndex = 1
	commandID         = 3
	commandBatch      = 31
)

// encode gives the command's log entry.
func (c *Command) encode() []byte {
	b := make([]byte, 0, 128+len(c.Batch))
	b = wire.Place(b, commandLeaseIndex, c.maxLeaseIndex)
	return appendCommand(b, c)
}

// appendCommand adds all fields but the lease index. A replica that ignored one of odd number would diverge from the others: it refuses the
// command, and stops.
func appendCommand(b []byte, c *Command) []byte {
	b = wire.Fixed64(b, commandID, c.id)
	b = wire.Uint(b, 5, c.LeaseSequence)
	b, at := wire.Begin(b, 7)
	b = wire.End(wire.Append(b, &c.Delta, (*Stats).Fields), at)
	b = wire.Timestamp(b, 9, c.ClosedTimestamp)
	b = wire.Timestamp(b, 11, c.WriteAt)
	if c.Trigger != nil {
		b, at = wire.BeginLong(b, 13, 0x80)
		b = wire.End(wire.Append(b, c.Trigger, (*kv.CommitTrigger).Fields), at)
	}
	b = wire.Timestamp(b, 15, c.GCThreshold)
	if c.lease != nil {
		b, at = wire.Begin(b, 17)
		b = wire.End(c.lease.Append(b), at)
		b = wire.Uint(b, 19, c.prevLease)
		b = wire.Bool(b, 21, c.given)
	}
	if c.truncate.index != 0 {
		b, at = wire.Begin(b, 23)
		b = wire.End(c.truncate.append(b), at)
	}
	// A replica that does not know it gives no hash for the comparison; this has no other effect.
	b = wire.Uint(b, 2, c.Hash)
	// A replica that does not know them remembers none.
	for i := range c.Commits {
		b, at = wire.Begin(b, 4)
		b = wire.End(c.Commits[i].append(b), at)
	}
	if len(c.Batch) > 0 {
		b = wire.Bytes(b, commandBatch, c.Batch)
	}
	return c.laterCommand.append(b)
}

// renumber gives a copy of an encoded command another lease index.
func renumber(data []byte, index uint64) []byte {
	d := append([]byte(nil), data...)
	wire.PutPlace(d[:wire.PlaceSize], index)
	return d
}

// decodeCommand reads what encode wrote. The batch shares the input's memory. An error stops the node: its log is corrupt, or of a later
// version.
func decodeCommand(b []byte, c *Command) error {
	r := wire.Read(b)
	readCommand(&r, c)
	return r.Err()
}

func readCommand(r *wire.Reader, c *Command) {
	for m := r.Open("replica.Command"); r.Next(&m); {
		switch r.Field() {
		case commandLeaseIndex:
			c.maxLeaseIndex = r.Fixed64()
		case 2:
			c.Hash = r.Uint()
		case 4:
			readCommit(r, wire.Grow(r, &c.Commits))
		case commandID:
			c.id = r.Fixed64()
		case 5:
			c.LeaseSequence = r.Uint()
		case 7:
			wire.In(r, &c.Delta, (*Stats).Fields)
		case 9:
			c.ClosedTimestamp = r.Timestamp()
		case 11:
			c.WriteAt = r.Timestamp()
		case 13:
			c.Trigger = &kv.CommitTrigger{}
			wire.In(r, c.Trigger, (*kv.CommitTrigger).Fields)
		case 15:
			c.GCThreshold = r.Timestamp()
		case 17:
			c.lease = &lease.Lease{}
			wire.In(r, c.lease, (*lease.Lease).Fields)
		case 19:
			c.prevLease = r.Uint()
		case 21:
			c.given = r.Bool()
		case 23:
			readPosition(r, &c.truncate)
		case commandBatch:
			c.Batch = r.Bytes()
		default:
			if !c.laterCommand.read(r) {
				r.Skip()
			}
		}
	}
}
