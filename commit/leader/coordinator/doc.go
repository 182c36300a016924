// Package coordinator is the gateway's half of the leader protocol, as a value: it knows the spans that a transaction has read from ranges,
// the next batch to send, and the meaning of an answer. It never waits, sends, reads a clock or draws random numbers; package txn does that
// for it (see package core).
//
// # State
//
//	reads        spans that were read from ranges at the present read timestamp
//	held         locks that the client asked for (held.go)
//	isolation    state of the weaker levels (isolation.go)
//	commit       the progress of a commit (commit.go)
//
// Identity, timestamps, buffer, locks and the record are those of every transaction: commit/transaction, whose Core the Coordinator reads
// and changes.
//
// # Invariants
//
//	coordinator.CO1 (I3): Every span that a range was asked to read is in reads when the answer is used, so moving the read
//	    timestamp from a to b is right exactly if no span of reads was written in (a, b]: a refresh (CRDB'20 §3.4).
//	coordinator.CO3 (I3): A commit is sent only with the write timestamp equal to the read timestamp, or with the refresh that makes them so (coordinator.CO12).
//	coordinator.CO9: A commit that reads of others have moved twice is made in another order the third time: a STAGING record, then its
//	    writes, at whatever timestamps the ranges require, then a last refresh. Readers wait for it from then on, so it does not starve.
//	coordinator.CO11 (I2): A parallel commit whose writes do not fit into the record's batch, or were sent before it, has them in flight in
//	    batches of their own while the record is staged, which lists all that are not acknowledged yet (CRDB'20 §3.1, §3.2). It has
//	    committed when the record and all of them are acknowledged, none above the record's timestamp. A write of unknown outcome then
//	    leaves the commit's outcome unknown (Doubt), because recovery may find it.
//	coordinator.CO13 (I2): A value that fails a condition, or a refresh, may be the transaction's own, if a write was sent a second time, or a refresh, after the record was
//	    staged: others take the gateway for dead, find all writes, and commit. So before a client is told that it failed, the record is asked.
//	    A record that is not committed says that the value is another's; one that is gone says nothing. Nobody is asked before anybody could have taken the gateway for dead.
//
// transaction.TC1 to transaction.TC3 are about every transaction, coordinator.CO6 to coordinator.CO8 about the weaker levels of
// isolation (isolation.go), coordinator.CO10 about locks that the client holds (held.go), coordinator.CO12 about ranges that close the future
// (carry.go).
//
// # A read
//
//	Prepare(batch)           puts the transaction into the header
//	Answered(batch, r, err)  Done: use r. Again: refresh first if told to, then send the same batch. Fail: err.
//	NoteRead(span)           coordinator.CO1
//
// # A commit
//
//	           nothing written: done, locks are released after the answer
//	StartCommit
//	   |-- all writes in one range ------> [writes, EndTxn OnePhase] ------------------------> done
//	   |-- few writes, parallel commit --> [writes, EndTxn InFlight] -> implicitly committed -> done
//	   |                                       (then EndTxn again, after the answer)
//	   |-- more, or some in flight ------> [EndTxn InFlight]  \
//	   |                                   [writes] [writes] ..} together -> all acknowledged -> done (coordinator.CO11)
//	   |      either, moved twice (coordinator.CO9) --> [EndTxn InFlight] -> [writes] -> [EndTxn] ----------> done
//	   `-- else -------------------------> [writes] -> [EndTxn] -----------------------------> done
//
// Between any two arrows a pushed write timestamp makes a refresh necessary (coordinator.CO3); CommitNext hands out that batch
// like any other.
//
// # What it does not do
//
// It does not know ranges; the driver asks the router whether the writes lie in one. The driver sends heartbeats, from Snapshot.
package coordinator
