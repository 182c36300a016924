package transaction

import "fmt"

// RetryReason says why a transaction has to start over.
type RetryReason uint8

const (
	// ReadChanged: something that was read has been written since, and the timestamp had to move past it.
	ReadChanged RetryReason = iota
	// AbortedByOther: another transaction, or the expiry of the heartbeat, ended it.
	AbortedByOther
	// ReplayUnknown: a range could not tell whether it had seen the transaction before.
	ReplayUnknown
	// DeadlinePassed: the commit timestamp moved past the deadline (I7).
	DeadlinePassed
	// MovedTooOften: the timestamp had to move again and again.
	MovedTooOften
	// DeadlockVictim: chosen to break a cycle of waits.
	DeadlockVictim
	// LocksLost: locks that were asked for may have been given to others (coordinator.CO10).
	LocksLost
	// ProtocolChanged: a range has another commit protocol than the one by which the transaction has written to it.
	ProtocolChanged
)

func (r RetryReason) String() string {
	return [...]string{
		"a value that it read has been changed",
		"it was aborted by another transaction",
		"a range could not tell whether it had seen it before",
		"it could not commit before the time of a change of the schema, or before its node's lease of the schema ended",
		"its timestamp had to move too often",
		"it was chosen to break a deadlock",
		"row locks that it was given were lost with the node that kept them",
		"a range that it writes to has another commit protocol now",
	}[r]
}

// RetryError says that the transaction must start over: Restart it, or roll it back.
type RetryError struct {
	Reason RetryReason
	// Cause is the answer that made it necessary, nil if there was none.
	Cause error
}

func (e *RetryError) Error() string {
	if e.Cause != nil {
		return fmt.Sprintf("transaction has to restart: %s: %v", e.Reason, e.Cause)
	}
	return fmt.Sprintf("transaction has to restart: %s", e.Reason)
}

func (e *RetryError) Unwrap() error { return e.Cause }
