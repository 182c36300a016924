// Package leader is the range's half of the commit protocol of CockroachDB: the leaseholder of each range orders
// its reads and writes (CRDB'20 §3, §4). The gateway's half is package commit/leader/coordinator.
//
// # The life of a request
//
// A Participant evaluates a batch on the caller's goroutine:
//
//	lease       the replica has the range's lease, or takes it, or says who has it
//	latches     no other request under way touches the same keys in a conflicting way        (leader/latch)
//	locks       no other transaction holds the keys; else give latches up and queue           (leader/lock)
//	timestamps  the write moves past what others have read                                    (leader/tscache)
//	evaluation  over storage/mvcc, into an engine batch; conflicts go back to locks
//	replication replica.Propose, back when applied here and durable on a quorum
//	effects     locks acquired and released, pushes told, latches released
//
// Plain reads take no latches and no trip: they announce themselves in the timestamp cache, wait for the writers
// that are under way at or below their timestamp, and read. A single Get does that with one allocation and one
// engine seek.
//
//	P1 (I3): every read is in the timestamp cache before it looks for writers, and every writer is latched before
//	    it looks into the timestamp cache. So a write either happens after every read of its key, or the read sees
//	    it (latch, L1). Reads with a limit are latched instead, and announced as far as they came; they wait for no
//	    writer that they do not get to (latch, L5).
//	P2: a read that may meet intents of its own transaction is latched: somebody may be moving these.
//	P3 (I3): a participant that gets the lease takes every key for read until the lease's start: earlier
//	    leaseholders' reads are above no lease's start but their own.
//	P4 (I4): the node's clock is past every timestamp that is written or resolved here. So a reading of it that a
//	    transaction has brought back (kv.Txn.Observed) bounds its uncertainty: what carries a later local timestamp
//	    was written after that reading.
//	P5: whatever is done about a transaction's record, and every one-phase commit, leaves a mark in the store's
//	    timestamp cache. So most one-phase commits need not look for a record, and a second delivery of a recent
//	    one is recognised; beyond that the gateway never sends one again (coordinator, CO4).
//	P6: waits form a graph of which each edge is a push, or lies behind another's push, and a cycle is found at one of its
//	    members (deadlock.go). The member that gives up is one that is less than the one it waits for. In a queue only the
//	    first pushes (lock, K5). The others ask whether anybody waits for them, and push from then on: a member of a cycle
//	    is waited for by another member, whose own queue has a first that pushes.
//	P7 (I1, I5): nothing is answered before Propose returned, and what was evaluated under one lease is applied
//	    under no other. If the outcome is unknown to the caller, latches are held until it is known to the range.
//
//	P10 (I2): a transaction that its gateway knows to be committed, all of its writes being durable, is known to the
//	    store from then on (finished.go): reads, locks and writes pass its intents as if they were versions (mvcc, M7).
//	    The intents stay until the record says COMMITTED, because recovery asks for them (commit, CR4), so the rest
//	    may come late and for many transactions at once.
//	P11 (I2): the leaseholder knows which keys may have intents, and does not look at the others' (held.go).
//
//	P12 (I2): the intents of such a transaction are resolved beside readers and writers of their keys, as long as no
//	    version changes by it (inplace.go).
//
//	P13 (I2, I3): a batch of writes that comes a second time, or late, changes nothing. What it wrote is its own intent, or
//	    a version that is newer than its snapshot; the leaseholder moves it past none that may be its own (mayForward).
//
//	P14: every wait for a lock ends by a signal (lock, K3), by the answer to a push, or by its context, and the request looks
//	    by itself every second. One that finds so that it may go on has met a defect, which is counted
//	    (Metrics.SignalsMissed). A wait of more than ten seconds is counted and told of in the log (wait.go).
//	P17 (I2): a pending transaction that was pushed, by its record, commits at the record's timestamp or later (CR3). The
//	    store remembers that for a while (finished.go), and plain reads below pass its intents, however many there are, without
//	    moving them (mvcc, M8).
//	P16: of two transactions that were given one lock by SELECT FOR UPDATE, because it was lost, the first does not commit, or
//	    has done so before the second was given it (hold.go).
//	P18 (I1): an intent goes with its transaction's outcome, never with a span that is cleared: recovery would take it for one
//	    that never came (write.go).
//	P19 (I9): a batch of resolutions is carried out whatever the size of the values: by parts, each a command of its own (endtxn.go).
//	P15: a load that meets locks takes its rows one by one from there on, so that it claims no row while it waits for
//	    another (lock, K4).
//
//	P8, P9: a range that its left neighbour is about to absorb is frozen, see freeze.go.
//
// # Timestamps
//
// A transaction reads at its read timestamp and writes at its write timestamp. Writes are pushed by reads of others
// and by pushes; reads are pushed by versions in their uncertainty interval. A commit needs both to be equal, so the
// gateway refreshes what was read and moves the read timestamp up. Where the transaction has read nothing yet
// (Header.CanForwardRead), and outside of transactions, the range moves it by itself under the same latches, and
// the client never hears of it.
//
// # Meeting a lock
//
//	unreplicated, in the lock table   found by Scan before evaluation; lockers and writers queue, plain reads pass
//	intent, in the storage            found by evaluation; put into the lock table (Discover), then as above;
//	                                  plain reads at or above its timestamp wait too
//
// The first that waits pushes the holder after a few milliseconds, which most holders do not outlive. The push goes to the
// holder's record, at the range of its anchor:
//
//	reader  -> PushTimestamp   the holder, if pending, will commit above the reader. Its intent is moved up.
//	writer  -> PushAbort       waits at the record until the holder ended, or its coordinator has shown no sign of
//	                           life for commit.Expiry; then the holder is aborted
//
// When the push returns, the intents of the holder that this range knows are resolved and the request starts over.
// If the lock is released first, the push is called off. NOWAIT answers kv.LockNotAvailableError at once, SKIP
// LOCKED leaves locked keys out, a lock timeout bounds the wait.
//
// A staging holder is neither pushed nor waited for after its coordinator has expired: it is recovered
// (commit.Recover), because it may be committed already.
//
// # Ending a transaction
//
//	all writes in the batch, in this range    one phase: versions instead of intents, no record; one command
//	record here, writes here and elsewhere    record COMMITTED or ABORTED, own intents resolved in the same command,
//	                                          the spans elsewhere go back to the coordinator (Unresolved)
//	writes still in flight                    record STAGING; writes in the same batch are not listed
//
// # Numbers of sequences
//
// A counter is stored ahead of what was drawn from it, and the draws in between cost no command (kv.AddRequest.Draw, D1
// and D2 in drawn.go).
//
// # What it does not do
//
// It knows no raft, no disk layout but records, and no other range; it moves no data and splits nothing (triggers
// are the replica's).
//
// # To see it at work
//
// testdata has a script for each kind of conflict, and the catalogue in anomalies; history_test.go has random
// transactions, with crashing coordinators, checked for cycles.
package leader
