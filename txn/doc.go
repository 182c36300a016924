// Package txn has transactions as SQL uses them: Get, Scan, Write, savepoint, Commit.
//
// # The problem
//
// SQL reads and writes keys as if it were alone, on a cluster where others do the same and any node may die. The protocols for this are in the rooms of
// commit; this package has what a transaction is whatever its protocols are, and divides its operations between them.
//
//	sql/exec
//	   |  Get, Scan, Write, Commit
//	Txn  -- asks -->  transaction.Core   (pure: identity, buffer, record)
//	   |
//	   |----> Keeper         the leader protocol's Coordinator, which keeps the record (keeper.go; commit/leader/gateway)
//	   '----> Coordinators   of the other protocols, from the first of their ranges on (coordinator.go)
//	             |
//	          ranges, by way of route.Sender
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
// # Writes in flight
//
// Writes that leave before the commit, because the buffer has grown too large, are pipelined (CRDB'20 §3.1): the statement returns while
// they are replicated. A flight is one batch of such in-flight writes.
//
//	txn.PW1 (txn.TX1): An operation on a key of an in-flight batch, a read or another write, waits for the batch first: a pipeline stall. So
//	    a range sees one key's writes in the order of their numbers, and a read finds its own.
//	txn.PW2 (coordinator.CO1): An in-flight batch does not let its range move the read timestamp, because the transaction keeps reading at
//	    the present one. If the answer requires a later timestamp, the reads up to then are refreshed when it is received.
//	txn.PW3 (I2): A commit lists each write that has not been acknowledged: the record is staged while batches are in flight, and the
//	    transaction has committed when the record and all of them have been acknowledged at or below its timestamp (coordinator.CO11).
//	txn.PW4: An error of an in-flight batch is returned by the next operation, at the latest by the commit; the transaction can't continue,
//	    because the buffered writes are gone.
//	txn.PW5: Cleanup of an attempt waits for its in-flight batches, which might otherwise write intents after it.
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
// A Coordinator is a protocol's half of one transaction (coordinator.go). The transaction learns
// from the answers which ranges have another one (others.go), and its commit spans all of them (elsewhere.go).
package txn
