// Package transaction has the part of a transaction at its gateway that does not depend on the protocols of its ranges, as a value: it
// never waits, sends, reads a clock or draws random numbers (see package core).
//
//	identity     id, attempt, anchor, timestamps, priority, level of isolation
//	statements   where the running one began; sequence numbers, savepoints
//	buffer       writes by key and sequence number, not yet sent (buffer.go)
//	locks        spans in which ranges may hold locks or provisional writes of the transaction (spans.go)
//	record       the end of the transaction, and the cleanup after it (record.go)
//
// A protocol's half of the transaction is a Coordinator, which package txn drives, and which reads the Core and moves its timestamps:
// commit/leader/coordinator is the leader protocol's. The Coordinator knows the reads, and the guarantees of locks.
//
//	transaction.TC1 (I2): Every key that may carry a provisional write is in locks before the write is sent, so whichever node ends the
//	    transaction knows which spans to clean up.
//	transaction.TC2 (I2): After the answer to a commit was lost, the gateway reports that (kv.AmbiguousError) and sends nothing more for the
//	    transaction.
//	transaction.TC3: A transaction is anchored at its first locked or written key; until it has sent provisional writes or a
//	    heartbeat, nothing anywhere depends on its record. So the EndTxn of a one-phase commit goes to the range
//	    that is written, whatever the anchor is. The transaction itself keeps its anchor, because transactions that wait for its locks look
//	    for its record, and for deadlocks, there.
package transaction
