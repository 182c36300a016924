package txn

import (
	"context"
	"fmt"
	"time"

	"meridian/clock"
	"meridian/commit"
	"meridian/commit/transaction"
	"meridian/keys"
	"meridian/kv"
)

// Protocol is the gateway's part of a commit protocol. One value serves all transactions, concurrently.
type Protocol interface {
	// Finisher recovers transactions of other gateways, and resolves the writes that transactions of this gateway have left.
	commit.Finisher
	// Begin makes the Coordinator of a transaction that has met a range of the protocol.
	Begin() Coordinator
}

// Coordinator is a commit protocol's half of one transaction at its gateway: its operations in ranges of the protocol. transaction.Core has
// the part of a transaction that is common to all protocols; each call gives the Coordinator the present state of the transaction (t).
//
// Each method may answer *kv.ProtocolError: then nothing was done in the range that it names, and the transaction calls the Coordinator of
// the protocol that the range has now. Calls are sequential, but Write runs concurrently with the Write of other protocols.
type Coordinator interface {
	// Get reads keys; nil is no value. The transaction's own writes are not looked for: they are in its buffer.
	Get(ctx context.Context, t *kv.Txn, ks []keys.Key, o ReadOptions) ([][]byte, error)
	// Scan reads a part of a span from the end at which the scan begins, and returns the rest of it.
	Scan(ctx context.Context, t *kv.Txn, o ScanOptions) (rows []kv.KeyValue, resume *keys.Span, err error)
	// Write makes writes provisional at t.WriteTimestamp exactly. When it returns nil all of them are durable at that timestamp: the
	// protocol's Witness confirms it until the transaction has ended. *kv.WriteTooOldError and *kv.TxnRetryError say that they are not, and
	// never will be, and which later timestamp helps. After any other error the transaction asks the Witness.
	Write(ctx context.Context, t *kv.Txn, writes []transaction.Write) error
	// Decide commits the writes of a transaction all of whose writes are in ranges of this protocol, without a record and without heartbeats, and returns the commit timestamp, which is
	// not after deadline unless that is zero. It is called of protocols with protocol.Traits.Decides. *kv.WriteTooOldError, *kv.TxnRetryError, *kv.ConditionFailedError, *kv.ProtocolError
	// and *DeadlineError say that it has not committed, and never will; *kv.AmbiguousError, that it is not known.
	Decide(ctx context.Context, t *kv.Txn, writes []transaction.Write, deadline clock.Timestamp) (clock.Timestamp, error)

	// HasRead reports whether this attempt of the transaction has read a row, of which the protocol then compares what was read with what a write replaces (txn.MP6).
	HasRead(k keys.Key) bool
	// Confirm has the keys that were read with ReadOptions.Current since the last call, and are not written, have the values that were read, as of now. *kv.TxnRetryError: one of
	// them has not; a later read sees at least what has committed by now. Written keys need not be confirmed: a write is refused if it replaces another state than was read (HasRead).
	Confirm(ctx context.Context, t *kv.Txn, written func(keys.Key) bool) error
	// Reads reports whether there are reads that have to hold at the transaction's timestamp, which is so above READ COMMITTED. The Coordinator refreshes them by itself when that has
	// moved since, at the next read, and before it writes at the commit timestamp of a serializable transaction. At other times the transaction asks for it: Hold.
	Reads() bool
	// Hold has what the transaction has read hold up to a timestamp. *kv.TxnRetryError: it does not.
	Hold(ctx context.Context, t *kv.Txn, at clock.Timestamp) error

	// Restarted says that another attempt begins: earlier reads don't count any more. fresh says that it has another identity, and none of
	// the locks.
	Restarted(fresh bool)
	// Committed tells, before the client is told, that a transaction has committed whose writes were made durable at a timestamp: this gateway's
	// next transactions read them, though the protocol's replicas are told later (Finisher.Resolve).
	Committed(at clock.Timestamp)
	// Ended tells that the transaction has ended at this gateway, however it has.
	Ended()
}

// ReadOptions say how keys are read.
type ReadOptions struct {
	Lock kv.LockStrength
	Wait kv.WaitPolicy
	// Hold says that the client asked for the lock: the transaction commits only if it has had it all the time (HoldLocks).
	Hold bool
	// Plain are the keys that are read without the lock.
	Plain map[string]bool
	// Newest reads what the running statement has written, too.
	Newest bool
	// Check says that keys which have a value have to have one when the transaction commits: the transaction then gives them to the Coordinator as guards
	// (transaction.Write.Guard). The leader protocol has other means.
	Check bool
	// Fresh reads what had committed when the read began, wherever; a plain read may be of a replica that has not heard of it. The leader protocol always reads so.
	Fresh bool
	// Current says that a statement which changes rows decides by what is read (Txn.ReadCurrent): the Coordinator may read an earlier state, if it confirms it later (Confirm).
	Current bool
	// Repeats says that other statements of the transaction may follow: a transaction that reads at one timestamp had better choose it such that none of their reads has to move it.
	Repeats bool
	// Alone says that the transaction has read nothing in ranges of the leader protocol, so that its timestamp can be another one without a message.
	Alone bool
	// MaxAge, if not zero, is how old what is read may be, where plain reads may be of an earlier state; negative: not at all. It is at most what the protocol allows.
	MaxAge time.Duration
	// Enough, if not zero, is how many of the keys have a value at most: the others need not be waited for when so many were found
	// (txn.TX9).
	Enough int
	// Follow, if not empty, is the recipe by which the keys' values lead to rows, and Followed is called with those that came with them (GetRows).
	// FollowLock is the lock with which the rows are read. Without an anchor, there is one row at most.
	Follow     []byte
	FollowLock kv.LockStrength
	Followed   func(kv.KeyValue)
}

// UnsupportedError says that a commit protocol does not support a transaction's operation in one of its ranges.
type UnsupportedError struct {
	Protocol kv.Protocol
	What     string
}

func (e *UnsupportedError) Error() string {
	return fmt.Sprintf("txn: commit protocol %s does not support %s", e.Protocol, e.What)
}

// PastError says that a commit protocol can't read one of its ranges at the timestamp that a client has asked for (TxnOptions.AsOf) any more.
type PastError struct {
	Protocol kv.Protocol
	At       clock.Timestamp
	Cause    error
}

func (e *PastError) Error() string {
	return fmt.Sprintf("txn: ranges of the commit protocol %s can't be read at %s any more: %v", e.Protocol, e.At, e.Cause)
}

func (e *PastError) Unwrap() error { return e.Cause }

// DeadlineError says that a transaction could not commit at or before its deadline (SetDeadlineSource).
type DeadlineError struct{ Deadline, At clock.Timestamp }

func (e *DeadlineError) Error() string {
	return fmt.Sprintf("txn: the commit timestamp %s is after the deadline %s", e.At, e.Deadline)
}

// ReadError says that what a transaction has read in ranges of a commit protocol was written since, so that it does not hold at a later timestamp; or, if Forgotten, that no replicas know any more what
// was there at the transaction's timestamp. Another attempt reads later. Cause is *kv.TxnRetryError.
type ReadError struct {
	Protocol  kv.Protocol
	Forgotten bool
	Cause     error
}

func (e *ReadError) Error() string {
	if e.Forgotten {
		return fmt.Sprintf("txn: ranges of the commit protocol %s can't be read at the transaction's timestamp any more: %v", e.Protocol, e.Cause)
	}
	return fmt.Sprintf("txn: what was read in a range of the commit protocol %s has been written since: %v", e.Protocol, e.Cause)
}

func (e *ReadError) Unwrap() error { return e.Cause }

// TooManyWritesError says that a transaction has more writes in ranges of other protocols than the leader's than one may have. None of them was sent.
type TooManyWritesError struct {
	Protocol     kv.Protocol
	Writes, Most int
}

func (e *TooManyWritesError) Error() string {
	return fmt.Sprintf("txn: %d writes of one transaction in ranges of the commit protocol %s, of at most %d", e.Writes, e.Protocol, e.Most)
}
