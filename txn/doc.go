// Package txn is the transaction as SQL sees it: Get, Scan, Write, savepoint, Commit.
//
// # The problem
//
// SQL wants to read and write keys as if it were alone, on a cluster where others do the same and any node may
// die. The protocol that gives this is in commit/leader; this package is the loop that drives it at the gateway.
//
//	sql/exec
//	   |  Get, Scan, Write, Commit
//	Txn  -- asks -->  leader.Coordinator   (pure: what to send, what an answer means)
//	   |
//	   |  kv.Batch
//	route.Sender  ---->  ranges
//
// # Rules
//
//	TX1  (I2) Writes stay in the Coordinator's buffer until Commit, so that a transaction that touches one range
//	     commits in one raft round, without intents and without a record.
//	TX2  (I3) What was read is remembered; when the timestamp has to move, the reads are checked (refreshed) or
//	     the transaction has to start over: *RetryError.
//	TX3  Locks (Lock: Exclusive or Shared) only order the queue of writers. They may vanish with a lease, and no
//	     invariant stands on them, but for those that the client asked for: a transaction that lost one of these
//	     does not commit (CO10).
//	TX4  Reads see the writes of earlier statements, not those of the running one (Halloween problem):
//	     StepStatement draws the line.
//	TX5  An error other than those listed below leaves the transaction usable up to the last savepoint.
//	TX6, TX7  Locks that outlive transactions, such as advisory locks: see Holder.
//
// # Errors
//
//	*RetryError             start over with Restart, or give 40001 to the client
//	*kv.DeadlockError       chosen as victim; Restart takes a new identity
//	*kv.AmbiguousError      the commit may or may not have happened; nothing can be done with the transaction
//	*kv.ConditionFailedError, *kv.LockNotAvailableError, *kv.AddOverflowError   the statement failed
//	*kv.UnavailableError    the range does not answer
//	ErrReadOnly, ErrFinished
//
// # The life of one UPDATE by key
//
// Get(key, Exclusive) locks the row in its leaseholder's memory and returns it. Write buffers the new row.
// Commit sends [Put, EndTxn{OnePhase}] to that range; the answer is the commit. Were the writes on several
// ranges, Commit would lay intents on all of them at once and decide at the anchor, the first key that was
// locked or written; see commit/leader.
//
// # What it does not do
//
// It does not retry a statement whose result has left the gateway; package sql/session does what can be done
// about that. It does not spread over protocols yet: every range is driven by commit/leader's Coordinator.
package txn
