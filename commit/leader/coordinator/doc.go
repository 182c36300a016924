// Package coordinator is the gateway's half of the leader protocol, as a value: what a transaction has read,
// locked and written, what has to be sent next, and what an answer means. It never waits, sends, reads a clock or
// rolls dice; package txn does that for it (see package core).
//
// # State
//
//	identity     id, attempt, anchor, read and write timestamp, uncertainty limit, observed clocks
//	buffer       writes by key and sequence number, not yet sent (buffer.go)
//	reads        spans that were read from ranges since the read timestamp was last anything else (spans.go)
//	locks        spans in which ranges may hold locks or intents of this transaction
//
// # Invariants
//
//	CO1 (I3) Every span that a range was asked to read is in reads when the answer is used, so moving the read
//	    timestamp from a to b is right exactly if no span of reads was written in (a, b]: a refresh (CRDB'20 §3.4).
//	CO2 (I2) Every key that may carry an intent is in locks before the intent is sent, so whoever ends the
//	    transaction knows where to clean up.
//	CO3 (I3) A commit is sent only with the write timestamp equal to the read timestamp.
//	CO4 (I2) After the answer to a commit was lost, the coordinator says so (kv.AmbiguousError) and sends nothing
//	    more for the transaction.
//	CO5 A transaction is anchored at its first locked or written key; until it has laid intents or sent a
//	    heartbeat, nothing anywhere depends on its record. So the EndTxn of a one-phase commit goes to the range
//	    that is written, whatever the anchor is. The transaction itself keeps its anchor, because those who wait
//	    for its locks look for it, and for deadlocks, there.
//	CO6 to CO8 are about the weaker levels of isolation: isolation.go.
//	CO10 A transaction that was given locks which the client asked for commits only up to when it is known to have had them
//	    all the time (held.go).
//	CO9 A commit that reads of others have moved twice stands firm the third time: a STAGING record, then its writes,
//	    wherever they have to be, then a last refresh. Readers wait for it from then on, and nobody starves.
//
// # A read
//
//	Buffered(key)            is it in the buffer? then there is nothing to send
//	Prepare(batch)           puts the transaction into the header
//	Answered(batch, r, err)  Done: use r. Again: refresh first if told to, then send the same batch. Fail: err.
//	NoteRead(span)           CO1
//	Overlay(rows, ...)       lay the buffer over what was read
//
// # A commit
//
//	           nothing written: done, locks are given back behind the client's back
//	StartCommit
//	   |-- all writes in one range ------> [writes, EndTxn OnePhase] ------------------------> done
//	   |-- few writes, parallel commit --> [writes, EndTxn InFlight] -> implicitly committed -> done
//	   |                                       (then EndTxn again, behind the client's back)
//	   |      either, moved twice (CO9) --> [EndTxn InFlight] -> [writes] -> [EndTxn] ----------> done
//	   `-- else -------------------------> [writes] -> [EndTxn] -----------------------------> done
//
// Between any two arrows a pushed write timestamp makes a refresh necessary (CO3); CommitNext hands out that batch
// like any other.
//
// # What it does not do
//
// It does not know ranges; the driver asks the router whether the writes lie in one. It does not heartbeat; the
// driver does, from Snapshot.
package coordinator
