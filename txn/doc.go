// Package txn has transactions as SQL uses them: Get, Scan, Write, savepoint, Commit.
//
// # The problem
//
// SQL reads and writes keys as if it were alone, on a cluster where others do the same and any node may die. The protocol for this is in
// commit/leader; this package is the loop that drives it at the gateway.
//
//	sql/exec
//	   |  Get, Scan, Write, Commit
//	Txn  -- asks -->  transaction.Core          (pure: identity, buffer, record)
//	   |              coordinator.Coordinator   (pure: batches for the leader's ranges, and their answers)
//	   |  kv.Batch
//	route.Sender  ---->  ranges
//
// # Rules
//
//	txn.TX1 (I2): Writes stay in the buffer until Commit, so that a transaction that touches one range
//	    commits in one raft round, without intents and without a record.
//	txn.TX2 (I3): The transaction remembers its reads; when its timestamp has to move, the reads are checked (refreshed) or the transaction
//	    has to start over: *RetryError.
//	txn.TX3: Locks (Lock: Exclusive or Shared) only order the queue of writers. They may be lost with a lease, and no invariant depends on
//	    them, except for those that the client asked for: a transaction that lost one of these does not commit (coordinator.CO10).
//	txn.TX4: Reads see the writes of earlier statements, not those of the running one (Halloween problem):
//	    StepStatement draws the line.
//	txn.TX5: An error other than those listed below leaves the transaction usable up to the last savepoint.
//	txn.TX8 (I4, I7): Commit returns when the gateway's clock has passed the timestamps at which the transaction has written and
//	    read, which may lie in the future (CRDB'22 §6.2). So a transaction that begins later, through any gateway, sees it, and its
//	    descriptors are in use until then. Its locks are released meanwhile.
//
// txn.TX6 and txn.TX7 are about locks that outlive transactions, such as advisory locks: see Holder. txn.TX9 is about reads that end when their rows
// were found (GetFound).
//
// # Errors
//
//	*RetryError             start over with Restart, or give 40001 to the client
//	*kv.DeadlockError       chosen as victim; Restart takes a new identity
//	*kv.AmbiguousError      the commit may or may not have happened; the transaction can't be used any more
//	*kv.ConditionFailedError, *kv.LockNotAvailableError, *kv.AddOverflowError   the statement failed
//	*kv.UnavailableError    the range does not answer
//	ErrReadOnly, ErrFinished
//
// # The life of one UPDATE by key
//
// Get(key, Exclusive) locks the row in its leaseholder's memory and returns it. Write buffers the new row.
// Commit sends [Put, EndTxn{OnePhase}] to that range; the answer is the commit. If the writes were on several ranges, Commit would write
// intents to all of them in parallel and decide at the anchor, the first key that was locked or written; see commit/leader.
//
// # What it does not do
//
// It does not retry a statement whose result has left the gateway; package sql/session replays such statements.
//
// # Ranges of other protocols
//
// A Coordinator is a protocol's half of one transaction (coordinator.go); the leader protocol's is in leader.go. The transaction learns
// from the answers which ranges have another one (others.go), and its commit spans all of them (elsewhere.go).
package txn
