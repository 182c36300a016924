// Package commit has what the commit protocols share: the transaction record, what may become of it, and the
// recovery of a transaction whose coordinator has died.
//
// # The record
//
// A transaction that touches more than one range, or lives longer than a second, has a record: an unversioned,
// replicated value at keys.TxnKey(anchor, id), in the range of its anchor, the first key that it locked or wrote.
// Its status is the transaction's: every intent of the transaction points at the record, and means what the record
// says.
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
//	CR1 (I2): COMMITTED and ABORTED are final. A record of a final status is removed only after nothing can ask for
//	it any more: after all of a committed transaction's intents are resolved; after an aborted one's coordinator
//	has resolved its own, or an hour after somebody else aborted it.
//	CR2: no record means pending until MinTimestamp plus Expiry, and dead afterwards: whoever finds it so writes an
//	ABORTED record before acting on it, so that the transaction can't commit later (CRDB'20 §3.3).
//	CR3: a record's write timestamp only grows. A commit below it is refused: somebody has pushed the transaction
//	and read at the earlier timestamp.
//	CR4 (I2): a STAGING transaction is committed exactly if all of the writes that its record lists are durable at
//	or below its write timestamp (CRDB'20 §3.1). Whoever asks about one that is missing prevents it first, so
//	that every observer comes to the same answer.
//
// One staging record serves all protocols: each in-flight write names the protocol of its range, and that protocol
// answers whether it is durable, an intent at the leaseholder or an option at a quorum (Witness).
//
// # Recovery
//
// Recover (recovery.go) finishes a STAGING transaction whose coordinator has expired: it asks for all writes at
// once (QueryIntent, which prevents what it does not find), and then tells the record what it found (RecoverTxn).
//
// # Shapes
//
// Every protocol has two sides. A Coordinator is a core at the gateway: it is told operations and answers, and tells
// what to send; txn drives it. A Participant is at each range: rangeserver hands it batches. commit/leader has both
// for the leader protocol. Neither is an interface here: each lives with its caller.
package commit
