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

// encode gives the command's log entry.
func (c *Command) encode() []byte {
	return wire.Append(make([]byte, 0, 128+len(c.Batch)), c, (*Command).fields)
}

// fields declares the message. A replica that ignored a field of odd number would diverge from the others: it refuses the command, and stops.
func (c *Command) fields(w *wire.Coder) {
	w.Message("replica.Command", wire.Skips)
	w.Place(1, &c.maxLeaseIndex) // the first field, so that a proposal can be renumbered in place
	w.Fixed64(3, &c.id)
	wire.Uint64(w, 5, &c.LeaseSequence)
	wire.One(w, 7, &c.Delta, (*Stats).Fields)
	w.Timestamp(9, &c.ClosedTimestamp)
	w.Timestamp(11, &c.WriteAt)
	if w.Writing() && c.Trigger != nil {
		at := w.Begin(13, 0x80)
		c.Trigger.Fields(w)
		w.End(at)
	} else {
		wire.Opt(w, 13, &c.Trigger, (*kv.CommitTrigger).Fields)
	}
	w.Timestamp(15, &c.GCThreshold)
	wire.Opt(w, 17, &c.lease, (*lease.Lease).Fields)
	if !w.Writing() || c.lease != nil {
		wire.Uint64(w, 19, &c.prevLease)
		w.Bool(21, &c.given)
	}
	wire.Some(w, 23, &c.truncate, (*position).fields)
	wire.Uint64(w, 2, &c.Hash)                    // a replica that does not know it gives no hash for the comparison; this has no other effect
	wire.List(w, 4, &c.Commits, (*Commit).fields) // a replica that does not know them remembers none
	if !w.Writing() || len(c.Batch) > 0 {
		w.Bytes(31, &c.Batch)
	}
	c.laterCommand.fields(w)
}

// renumber gives a copy of an encoded command another lease index.
func renumber(data []byte, index uint64) []byte {
	d := append([]byte(nil), data...)
	wire.PutPlace(d[:wire.PlaceSize], index)
	return d
}

// decodeCommand reads what encode wrote. The batch shares the input's memory. An error stops the node: its log is corrupt, or of a later
// version.
func decodeCommand(b []byte, c *Command) error { return wire.Decode(b, c, (*Command).fields) }
