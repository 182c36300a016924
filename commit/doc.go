// Package commit has the parts that all commit protocols share: the transaction record, its transitions, and the recovery of a transaction
// whose coordinator has died.
//
// # The record
//
// A transaction that touches more than one range, or lives longer than a second, has a record: an unversioned,
// replicated value at keys.TxnKey(anchor, id), in the range of its anchor, the first key that it locked or wrote.
// Its status is the transaction's: every intent of the transaction points at the record, whose status decides about it.
//
//	            heartbeat, push of the timestamp
//	                     +---+
//	                     v   |
//	(no record) ----> PENDING ------------------> ABORTED
//	     |               |                           ^
//	     |               v                           | a write is missing (recovery),
//	     |            STAGING -----------------------+ or a new attempt gave up
//	     |               |
//	     |               v all writes are durable
//	     +----------> COMMITTED
//
//	commit.CR1 (I2): COMMITTED and ABORTED are final. A record of a final status is removed only after it is no longer needed: after all of
//	    a committed transaction's intents are resolved; after an aborted one's coordinator has resolved its own, or an hour after another
//	    transaction aborted it.
//	commit.CR2: a transaction without a record is pending until MinTimestamp plus Expiry, and dead afterwards, or as soon as a majority of the voters of its record's
//	    range has withdrawn its support for the incarnation of the gateway under which it began (package support): a transaction that finds it
//	    dead writes an ABORTED record before acting on it, so that the transaction can't commit later (CRDB'20 §3.3).
//	commit.CR3: a record's write timestamp only grows. A commit below it is refused: another transaction has pushed it and read at the
//	    earlier timestamp.
//	commit.CR4 (I2): a STAGING transaction is committed exactly if all of the writes that its record lists are durable at
//	    or below its write timestamp (CRDB'20 §3.1). An observer that queries a missing write prevents it first, so that all observers come
//	    to the same answer.
//
// One staging record serves all protocols: each in-flight write names the protocol of its range, and that protocol
// answers whether it is durable, an intent at the leaseholder or an option at a quorum (Finisher).
//
//	commit.CR5 (I2): a write whose range has changed its protocol is queried at the range's present protocol. A write that was durable
//	    before the change was carried over by it, and any other can't become durable under the earlier protocol, whose generation is sealed;
//	    a gateway that learns of the change repeats the write under the new protocol and stages its record at a later timestamp.
//	commit.CR6: a sealed range, which ends the transactions with writes in it before it has another protocol, recovers them by itself, with the
//	    writes that it has. The record's range would ask the sealed one, which answers only after its change.
//
// # Recovery
//
// Recover (recovery.go) finishes a STAGING transaction whose coordinator has expired: it asks the Finisher of each write's
// protocol (the leader's sends QueryIntent, which prevents a write that it does not find), and then records the result (RecoverTxn).
//
// # Coordinators and participants
//
// Every protocol has two sides: a Coordinator at the gateway, to which txn gives operations, and a Participant at each replica of a range,
// to which rangeserver gives batches and messages. Neither is an interface of this package: each is declared by its caller. commit/leader
// has both for the leader protocol. Its participant is in every range, because it serves transaction records and other range-local keys
// whatever the range's protocol. docs/ranges.md has the contract between a range and its protocol.
package commit
