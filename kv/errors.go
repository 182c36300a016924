package kv

import (
	"bytes"
	"errors"
	"fmt"

	"meridian/clock"
	"meridian/keys"
	"meridian/wire"
)

// Errors that ranges answer with. All cross the wire (codec.go), so they carry data and no wrapped errors. Where
// an error must also bring back the transaction, the batch response that accompanies it has it.

// NotLeaseholderError says who serves the range instead, as far as the node knows.
type NotLeaseholderError struct {
	Range       RangeID
	Leaseholder ReplicaDescriptor // Node zero: unknown
	Desc        *RangeDescriptor  // nil: unknown
}

func (e *NotLeaseholderError) Error() string {
	return fmt.Sprintf("r%d: not leaseholder; node %d is", e.Range, e.Leaseholder.Node)
}

// RangeNotFoundError says that the node has no replica of the range.
type RangeNotFoundError struct{ Range RangeID }

func (e *RangeNotFoundError) Error() string { return fmt.Sprintf("r%d: no replica here", e.Range) }

// RangeMismatchError says that the batch's keys are not all in the range, and what the node knows instead.
type RangeMismatchError struct {
	Span  keys.Span
	Infos []RangeInfo
}

func (e *RangeMismatchError) Error() string {
	return fmt.Sprintf("span [%s,%s) is outside of the range", keys.Masked(e.Span.Start), keys.Masked(e.Span.End))
}

// WriteTooOldError says that a key has a committed version at or above the write or locking read.
type WriteTooOldError struct {
	Key    keys.Key
	Actual clock.Timestamp // the transaction can go on after it
	// By wrote it, at the gateway given, if the range remembers; else they are zero.
	By      TxnID
	Gateway NodeID
}

func (e *WriteTooOldError) Error() string {
	return fmt.Sprintf("key %s: written at %s", keys.Masked(e.Key), e.Actual)
}

// UncertaintyError says that a value may have been written before the reading transaction began.
type UncertaintyError struct {
	Key   keys.Key
	Value clock.Timestamp
	// RetryAt is the read timestamp with which the read would not be uncertain on this node again.
	RetryAt clock.Timestamp
}

func (e *UncertaintyError) Error() string {
	return fmt.Sprintf("key %s: value at %s is within the uncertainty interval", keys.Masked(e.Key), e.Value)
}

// RetryReason says why a transaction has to move its timestamp.
type RetryReason uint8

const (
	// RetrySerializable: the write timestamp was pushed past the read timestamp.
	RetrySerializable RetryReason = iota
	// RetryPossibleReplay: the range can't tell whether it has seen the transaction before.
	RetryPossibleReplay
)

// TxnRetryError says that the transaction has to refresh its reads up to WriteTimestamp, or restart.
type TxnRetryError struct {
	Reason         RetryReason
	WriteTimestamp clock.Timestamp
}

func (e *TxnRetryError) Error() string {
	return fmt.Sprintf("transaction has to move to %s", e.WriteTimestamp)
}

// TxnAbortedError says that somebody aborted the transaction, or its record is gone. Conflict names who, if known.
type TxnAbortedError struct {
	ID     TxnID
	Reason string
}

func (e *TxnAbortedError) Error() string {
	return fmt.Sprintf("transaction %s aborted: %s", e.ID, e.Reason)
}

// DeadlockError says that the transaction was chosen to break a cycle of waits: Cycle are the transactions, the victim
// first, and Waits what each of them waits for.
type DeadlockError struct {
	Cycle []TxnID
	Waits []TxnWait
}

func (e *DeadlockError) Error() string { return fmt.Sprintf("deadlock: %v", e.Cycle) }

// LocksLostError says that a leaseholder may have forgotten locks that a transaction took: since Lost it is another one, or its
// table was full. Others may have held them meanwhile.
type LocksLostError struct {
	Key  keys.Key // where the locks were
	Lost clock.Timestamp
}

func (e *LocksLostError) Error() string {
	return fmt.Sprintf("locks at key %s may have been lost at %s", keys.Masked(e.Key), e.Lost)
}

// RefreshFailedError says that a key that was read has been written since.
type RefreshFailedError struct {
	Key     keys.Key
	Written clock.Timestamp
	// By wrote it, at the gateway given. They are zero if it is a committed value whose writer the range does not remember.
	By      TxnID
	Gateway NodeID
}

func (e *RefreshFailedError) Error() string {
	return fmt.Sprintf("key %s: read before, written at %s", keys.Masked(e.Key), e.Written)
}

// ConditionFailedError says what a CPut found instead.
type ConditionFailedError struct {
	Key    keys.Key
	Actual []byte // nil: no value
}

func (e *ConditionFailedError) Error() string {
	return fmt.Sprintf("key %s: unexpected value", keys.Masked(e.Key))
}

// RepeatedError is an error of a request that was sent more than once, because an answer was lost: the value that it has met may be its
// transaction's own, if others have committed that meanwhile. Senders make it; it is never encoded.
type RepeatedError struct{ Err error }

func (e *RepeatedError) Error() string { return e.Err.Error() }

func (e *RepeatedError) Unwrap() error { return e.Err }

// LockNotAvailableError says that another transaction's lock is in the way and the request does not wait (longer).
type LockNotAvailableError struct {
	Key     keys.Key
	Holder  TxnID
	Timeout bool
}

func (e *LockNotAvailableError) Error() string {
	return fmt.Sprintf("key %s: locked by %s", keys.Masked(e.Key), e.Holder)
}

// AddOverflowError says that a sum left the range of int64.
type AddOverflowError struct {
	Key   keys.Key
	Value int64
	Delta int64
}

func (e *AddOverflowError) Error() string { return fmt.Sprintf("key %s: overflow", keys.Masked(e.Key)) }

// AmbiguousError says that a write may or may not have happened.
type AmbiguousError struct{ Reason string }

func (e *AmbiguousError) Error() string { return "outcome unknown: " + e.Reason }

// BelowGCError says that a read is older than what the range keeps.
type BelowGCError struct{ Threshold clock.Timestamp }

func (e *BelowGCError) Error() string {
	return fmt.Sprintf("read below the GC threshold %s", e.Threshold)
}

// FutureError says that a timestamp is further ahead of the leaseholder's clock than a range serves.
type FutureError struct {
	At clock.Timestamp
	// Serves is the furthest timestamp at which it would have served.
	Serves clock.Timestamp
}

func (e *FutureError) Error() string {
	return fmt.Sprintf("timestamp %s is too far in the future: the leaseholder serves up to %s", e.At, e.Serves)
}

// NotClosedError says that a replica without the lease cannot serve a stale read; the leaseholder can.
type NotClosedError struct {
	Range RangeID
	// Closed is up to when the replica can.
	Closed clock.Timestamp
	// Intent says that an intent is in the way, which the leaseholder can have moved.
	Intent bool
}

func (e *NotClosedError) Error() string {
	if e.Intent {
		return fmt.Sprintf("r%d: an intent at a replica without the lease", e.Range)
	}
	return fmt.Sprintf("r%d: closed up to %s only", e.Range, e.Closed)
}

// ProtocolError says that a batch has requests for rows of a range that has another protocol than the batch. Nothing was done.
type ProtocolError struct {
	Range    RangeID
	Protocol Protocol         // the range's
	Desc     *RangeDescriptor // nil: unknown
}

func (e *ProtocolError) Error() string {
	return fmt.Sprintf("r%d: its commit protocol is %s", e.Range, e.Protocol)
}

// GenerationError says that a batch was sent in another generation of its range than the one in which the replica acts, or
// that the replica has sealed that one and waits for the next. The batch may have been carried out nevertheless.
type GenerationError struct {
	Range RangeID
	// Desc is the range as the replica knows it: Desc.Generation is the replica's, which may be earlier or later than the sender's.
	Desc *RangeDescriptor
	// Sealed says that the generation is over, and that the next one begins soon.
	Sealed bool
}

func (e *GenerationError) Error() string {
	switch {
	case e.Desc == nil:
		return fmt.Sprintf("r%d: another generation", e.Range)
	case e.Sealed:
		return fmt.Sprintf("r%d: generation %d is sealed", e.Range, e.Desc.Generation)
	}
	return fmt.Sprintf("r%d: its generation is %d", e.Range, e.Desc.Generation)
}

// ProtocolRefusedError says that a range can't have a commit protocol. To ask again does not help; nothing was changed.
type ProtocolRefusedError struct {
	Range    RangeID
	Protocol Protocol
	// Node is one whose binary does not have the protocol. Zero: the range is the system's, which is of the leader protocol.
	Node NodeID
}

func (e *ProtocolRefusedError) Error() string {
	if e.Node != 0 {
		return fmt.Sprintf("r%d: node %d does not have the commit protocol %s", e.Range, e.Node, e.Protocol)
	}
	return fmt.Sprintf("r%d: the ranges of the system keep the commit protocol leader", e.Range)
}

// UnavailableError says that the range can't serve now: no quorum, no lease, disk full, draining.
type UnavailableError struct {
	Reason   string
	DiskFull bool
}

func (e *UnavailableError) Error() string { return "range unavailable: " + e.Reason }

// UnreadableError says that something stored, on which a request depends, can't be read: it was written by a later version, or is damaged. Nothing
// was done, and to ask the same node again does not help; other rows are not concerned.
type UnreadableError struct {
	// The kind of thing ("a lock") that is stored at Key.
	What string
	Key  keys.Key
	// Reason is the reader's.
	Reason string
	// Later says that a later version has written it.
	Later bool
}

// Unreadable makes the error of a stored thing that could not be decoded.
func Unreadable(what string, key keys.Key, err error) *UnreadableError {
	return &UnreadableError{What: what, Key: bytes.Clone(key), Reason: err.Error(), Later: errors.As(err, new(*wire.VersionError))}
}

func (e *UnreadableError) Error() string {
	return fmt.Sprintf("%s at %s can't be read: %s", e.What, e.Key, e.Reason)
}

// InternalError is anything else; it is a broken invariant or a bug.
type InternalError struct{ Message string }

func (e *InternalError) Error() string { return e.Message }

// OnePhaseError says that a batch asked for one-phase commit and does not lie in one range; nothing was done. It is
// raised by the gateway and never crosses the wire.
type OnePhaseError struct{}

func (e *OnePhaseError) Error() string { return "batch for one-phase commit spans several ranges" }

// AnswerBytes bounds what one range answers to the reads of a transaction's batch, but for one value. Chosen by us: a thousand
// rows of 8 KiB, and an eighth of what a message may have.
const AnswerBytes = 8 << 20

// AnswerTooLargeError says that a batch of several reads, or a scan without a bound, would be answered with more than AnswerBytes.
// Nothing was read or locked. The reader asks for less at a time.
type AnswerTooLargeError struct{}

func (*AnswerTooLargeError) Error() string { return "the answer would be too large" }
