package replica

import (
	"encoding/binary"
	"errors"

	"meridian/clock"
	"meridian/kv"
	"meridian/replica/lease"
	"meridian/storage/mvcc"
)

// Command is the effect of a request: what goes through the log and is applied by every replica alike.
//
// R1 (I5): a command is applied only if LeaseSequence is that of the range's lease at that point of the log, and
// only if its lease index is above that of every command applied before, so that it applies at most once however
// often it was proposed.
type Command struct {
	// LeaseSequence is what CheckLease returned before the request was evaluated.
	LeaseSequence uint64
	// ClosedTimestamp, if set, closes the range up to it. Propose sets it.
	ClosedTimestamp clock.Timestamp
	// WriteAt, if set, is below or at all versions and intents of the batch that count for I6, and tracked
	// (closedts.Tracker) until Propose has returned something else than *kv.AmbiguousError, or Settled was called.
	WriteAt clock.Timestamp
	// Batch is the engine batch's representation (engine.Batch.Repr). Propose has copied it when it returns. In a lease's
	// transfer it is what the holder hands over to the next one instead.
	Batch []byte
	// Delta is what the batch does to the range's statistics.
	Delta Stats
	// Trigger is carried out with the batch; EvaluateTrigger must have added its replicated effects.
	Trigger *kv.CommitTrigger
	// GCThreshold, if set, is the range's new one.
	GCThreshold clock.Timestamp
	// Hash, if not zero, has every replica hash the range's state as it is right after this command (Store.HashDue).
	Hash uint64

	// Use is for what it takes space; it does not travel.
	Use Use

	// Settled, if not nil, is called exactly once if Propose returned because its context ended: later, when the
	// command was applied, or never will be. Until then latches have to be held. It must not wait.
	Settled func()

	// lease requests and log truncation are this package's own commands.
	lease         *lease.Lease
	prevLease     uint64 // the sequence that lease follows
	given         bool   // by the previous holder, who stopped using its own
	truncate      position
	maxLeaseIndex uint64 // given at proposal (R1)
	id            uint64
}

// Use says what a command takes space for, since not all may do so when the disk is nearly full (Start).
type Use uint8

const (
	// Adds data.
	Adds Use = iota
	// Removes rows: tombstones take space before garbage collection frees more.
	Removes
	// Settles transactions, collects garbage, drops what nobody reads any more, changes the catalogue.
	Settles
)

// ErrBadCommand is what decoding gives for bytes that encode did not write. It stops the replica: the log is corrupt.
var ErrBadCommand = errors.New("replica: malformed command")

const (
	commandClosed = 1 << iota
	commandTrigger
	commandGC
	commandLease
	commandTruncate
	commandGiven
	commandWrite
	commandHash
)

// commandIndexOffset is where the lease index is, so that a proposal can be renumbered in place.
const commandIndexOffset = 9

// encode gives the command's log entry: flags, id, lease index, lease sequence, statistics, what the flags announce,
// and the batch to the end.
func (c *Command) encode() []byte {
	b := make([]byte, 0, 128+len(c.Batch))
	var flags byte
	if !c.ClosedTimestamp.IsZero() {
		flags |= commandClosed
	}
	if !c.WriteAt.IsZero() {
		flags |= commandWrite
	}
	if c.Trigger != nil {
		flags |= commandTrigger
	}
	if !c.GCThreshold.IsZero() {
		flags |= commandGC
	}
	if c.lease != nil {
		flags |= commandLease
	}
	if c.given {
		flags |= commandGiven
	}
	if c.truncate.index != 0 {
		flags |= commandTruncate
	}
	if c.Hash != 0 {
		flags |= commandHash
	}
	b = append(b, flags)
	b = binary.LittleEndian.AppendUint64(b, c.id)
	b = binary.LittleEndian.AppendUint64(b, c.maxLeaseIndex)
	b = binary.AppendUvarint(b, c.LeaseSequence)
	b = c.Delta.Append(b)
	if flags&commandClosed != 0 {
		b = c.ClosedTimestamp.Append(b)
	}
	if flags&commandWrite != 0 {
		b = c.WriteAt.Append(b)
	}
	if flags&commandTrigger != 0 {
		b = appendTrigger(b, c.Trigger)
	}
	if flags&commandGC != 0 {
		b = c.GCThreshold.Append(b)
	}
	if flags&commandLease != 0 {
		b = binary.AppendUvarint(b, c.prevLease)
		b = c.lease.Append(b)
	}
	if flags&commandTruncate != 0 {
		b = c.truncate.append(b)
	}
	if flags&commandHash != 0 {
		b = binary.AppendUvarint(b, c.Hash)
	}
	return append(b, c.Batch...)
}

// renumber gives a copy of an encoded command another lease index.
func renumber(data []byte, index uint64) []byte {
	d := append([]byte(nil), data...)
	binary.LittleEndian.PutUint64(d[commandIndexOffset:], index)
	return d
}

// decodeCommand reads what encode wrote. The batch shares the input's memory.
func decodeCommand(b []byte, c *Command) (err error) {
	if len(b) < commandIndexOffset+8 {
		return ErrBadCommand
	}
	flags := b[0]
	c.id = binary.LittleEndian.Uint64(b[1:])
	c.maxLeaseIndex = binary.LittleEndian.Uint64(b[commandIndexOffset:])
	d := decoder{b: b[commandIndexOffset+8:]}
	c.LeaseSequence = d.uvarint()
	if d.err != nil {
		return ErrBadCommand
	}
	if c.Delta, d.b, err = mvcc.DecodeStats(d.b); err != nil {
		return ErrBadCommand
	}
	if flags&commandClosed != 0 {
		if c.ClosedTimestamp, d.b, err = clock.Decode(d.b); err != nil {
			return ErrBadCommand
		}
	}
	if flags&commandWrite != 0 {
		if c.WriteAt, d.b, err = clock.Decode(d.b); err != nil {
			return ErrBadCommand
		}
	}
	if flags&commandTrigger != 0 {
		if c.Trigger, d.b, err = decodeTrigger(d.b); err != nil {
			return ErrBadCommand
		}
	}
	if flags&commandGC != 0 {
		if c.GCThreshold, d.b, err = clock.Decode(d.b); err != nil {
			return ErrBadCommand
		}
	}
	if flags&commandLease != 0 {
		c.prevLease, c.given = d.uvarint(), flags&commandGiven != 0
		l, rest, err := lease.Decode(d.b)
		if err != nil {
			return ErrBadCommand
		}
		c.lease, d.b = &l, rest
	}
	if flags&commandTruncate != 0 {
		c.truncate = position{d.uvarint(), d.uvarint()}
	}
	if flags&commandHash != 0 {
		c.Hash = d.uvarint()
	}
	if d.err != nil {
		return ErrBadCommand
	}
	c.Batch = d.b
	return nil
}

const (
	triggerSplit = iota + 1
	triggerMerge
	triggerReplicas
)

func appendTrigger(b []byte, t *kv.CommitTrigger) []byte {
	switch {
	case t.Split != nil:
		b = append(b, triggerSplit)
		b = appendDesc(b, &t.Split.Left)
		return appendDesc(b, &t.Split.Right)
	case t.Merge != nil:
		b = append(b, triggerMerge)
		b = appendDesc(b, &t.Merge.Left)
		b = appendDesc(b, &t.Merge.Right)
		b = t.Merge.Freeze.Append(b)
		return binary.AppendUvarint(b, t.Merge.Applied)
	default:
		b = append(b, triggerReplicas)
		return appendDesc(b, &t.Replicas.Desc)
	}
}

func appendDesc(b []byte, desc *kv.RangeDescriptor) []byte { return desc.Append(b) }

func (d *decoder) desc() kv.RangeDescriptor {
	if d.err != nil {
		return kv.RangeDescriptor{}
	}
	desc, rest, err := kv.DecodeRangeDescriptor(d.b)
	if err != nil {
		d.fail()
		return kv.RangeDescriptor{}
	}
	d.b = rest
	return desc
}

func decodeTrigger(b []byte) (*kv.CommitTrigger, []byte, error) {
	d := decoder{b: b}
	kind := d.octet()
	first := d.desc()
	var t kv.CommitTrigger
	switch kind {
	case triggerReplicas:
		t.Replicas = &kv.ReplicasTrigger{Desc: first}
	case triggerSplit:
		t.Split = &kv.SplitTrigger{Left: first, Right: d.desc()}
	case triggerMerge:
		t.Merge = &kv.MergeTrigger{Left: first, Right: d.desc()}
		if d.err == nil {
			freeze, rest, err := clock.Decode(d.b)
			if err != nil {
				d.fail()
				break
			}
			t.Merge.Freeze, d.b = freeze, rest
		}
		t.Merge.Applied = d.uvarint()
	default:
		d.fail()
	}
	return &t, d.b, d.err
}
