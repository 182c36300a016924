// Package leader is the range's half of the commit protocol of CockroachDB: the leaseholder of each range orders
// its reads and writes (CRDB'20 §3, §4). The gateway's half is package commit/leader/coordinator.
//
// # The life of a request
//
// A Participant serves a batch on the caller's goroutine, beginning in Send (send.go). There are five paths: a single Get (get.go), plain
// reads (read.go), reads without the lease (follow.go, present.go), pushes (push.go), and batches that write or lock (write.go), which go through all
// stages:
//
//	Send          waits while the range is frozen                                    send.go, freeze.go
//	  |  call        the batch, what is in it, its timestamps                        request.go, traits.go, timestamps.go
//	  v
//	enter         the replica has the lease, or takes it, or names the holder        checks.go, gate.go
//	  |
//	  v
//	latching      no other request in progress uses the same keys in a conflicting   latching.go, leader/latch
//	  |  ^        way; lease and span are checked once more
//	  |  '------------------------------------------------.
//	  v                                                   |
//	locking  -- another transaction holds a key --------> wait, without latches      locking.go, wait.go, leader/lock
//	  |                                                   ^
//	  v                                                   |
//	evaluation  -- an intent of another transaction ------'                          evaluate.go, evalread.go, endtxn.go,
//	  |              writes move past what others have read (leader/tscache); then   record.go, resolve.go
//	  |              the requests, over storage/mvcc
//	  |  answer, engine batch, list of effects
//	  v
//	proposal      a command; back when it is applied here and durable on a quorum    propose.go
//	  |
//	  v
//	effects       in memory: locks acquired and released, pushes notified            effects.go
//	  |              latches are released
//	  v
//	answer                                                                           answer.go
//
// Each stage is a type with its own state (request.go). It knows the call, and the earlier stages that it is given: evaluation asks
// latching for the lowest timestamp of writes, proposal takes the result of evaluation. A batch without an effect on replicated data skips
// the proposal.
//
// Plain reads take no latches: they enter the timestamp cache, wait for the writers in progress at or below their timestamp, and read. A
// single Get does that with one allocation and one engine seek.
//
//	leader.P1 (I3): every read is in the timestamp cache before it looks for writers, and every writer is latched before
//	    it looks into the timestamp cache. So a write either happens after every read of its key, or the read sees
//	    it (latch.L1). Reads with a limit are latched instead, and enter it as far as they came; they wait for no writer beyond that
//	    (latch.L5).
//	leader.P2: a read that may meet intents of its own transaction is latched: these may be moving.
//	leader.P3 (I3): a participant that gets the lease treats every key as read up to the lease's start: reads of earlier leaseholders are
//	    below it.
//	leader.P4 (I3, I4): no timestamp of data moves a clock, since it may lie in the future (CRDB'22 §6.2); only readings of clocks do. A
//	    value that is written ahead of the node's clock carries the clock's reading (mvcc.M6), so a reading that a transaction has observed
//	    (kv.Txn.Observed) bounds its uncertainty: a value with a later local timestamp was written after it. Reads and preventions ahead of
//	    the clock lie before the lease's end, and their highest timestamp is transferred to the next leaseholder (HandOver), whose lease may
//	    begin before it.
//	leader.P5: every operation on a transaction's record, and every one-phase commit, leaves a mark in the store's timestamp cache. So most
//	    one-phase commits need not look for a record, and a second delivery of a recent one is recognised; beyond that the gateway never
//	    sends one again (transaction.TC2).
//	leader.P6: waits form a graph of which each edge is a push, or is covered by another request's push, and a cycle is found at one of its
//	    members (deadlock.go). The member that gives up ranks below the one it waits for. In a queue only the first request
//	    pushes (lock.K5). The others ask whether any transaction waits for them, and push if one does: in a cycle each member is waited for
//	    by another one, whose own queue has a first that pushes.
//	leader.P7 (I1, I5): no write is answered before Propose returned, and a command that was evaluated under one lease is applied under no
//	    other. If the outcome is unknown to the caller, latches are held until it is known to the range.
//
//	leader.P10 (I2): when a gateway knows that a transaction has committed, all of its writes being durable, it tells the stores
//	    (finished.go): from then on reads, locks and writes treat its intents as versions (mvcc.M7). The intents stay until the record says
//	    COMMITTED, because recovery queries them (commit.CR4), so they may be resolved later and for many transactions together. A store
//	    believes it for some seconds only: those that a dead gateway left are resolved by the first who meets them.
//	leader.P11 (I2): the leaseholder knows which keys may have intents, and of which transactions, and reads no other entries of the lock
//	    table (held.go); how it comes to know them is leader.P31.
//
//	leader.P12 (I2): the intents of such a transaction are resolved concurrently with readers and writers of their keys, as long as no
//	    version changes by it (inplace.go).
//
//	leader.P13 (I2, I3): a batch of writes that comes a second time, or late, changes nothing. Its writes meet its own intents, or versions
//	    that are newer than its snapshot; the leaseholder moves it past no version that may be its own (mayForward).
//
//	leader.P14: every wait for a lock ends by a signal (lock.K3), by the answer to a push, or by its context, and the request checks by
//	    itself every second. A request that finds in this way that it may proceed has met a defect, which is counted
//	    (Metrics.SignalsMissed). A wait of more than ten seconds is counted and logged (wait.go).
//	leader.P17 (I2): a pending transaction that was pushed, by its record, commits at the record's timestamp or later (commit.CR3). The
//	    store remembers that for a while (finished.go), and plain reads below pass its intents, however many there are, without
//	    moving them (mvcc.M8).
//	leader.P18 (I1): an intent is removed by its transaction's outcome, never with a span that is cleared: recovery would take it for a
//	    write that never arrived (clear.go).
//	leader.P19 (I9): a batch of resolutions is carried out whatever the size of the values: by parts, each a command of its own (resolve.go).
//	leader.P20 (I9): a staging transaction is recovered by one push at a time, which queries its writes in parts; another one takes over
//	    after a second, since queries may be lost (recover.go).
//	leader.P15: a load that meets locks claims its rows one by one from then on, so that it claims no row while it waits for
//	    another (lock.K4).
//
//	leader.P26: a transaction that has read nothing before, and whose turn for a lock has come after a wait, reads at the present, so that a long
//	    queue does not fall behind the timestamps that the range closes (catchUp).
//
//	leader.P27: an externally consistent transaction that waits for a lock of a younger one aborts it, unless that one is staging (wound-wait,
//	    Spanner §4.2.1). So among such transactions each waits for older ones only, or for one that is staging. A cycle of waits that one of the latter takes part in, with a
//	    write that is in flight, or a transaction of another kind, is found as ever (leader.P6).
//	leader.P28 (Spanner §4.1.2): an externally consistent transaction's read is answered when the newest version that it has seen is certainly in
//	    the past, wherever it is served, and by whatever way the version came to be seen: the writer's commit wait, from a reader's side. An error that tells of a version, because
//	    a write's condition has failed, waits as its value would.
//
//	leader.P23 (I4): a batch without a transaction that was served at a time in the future is answered when the clock has reached it.
//
// leader.P24 is about the timestamps up to which replicas can serve stale reads, see negotiate.go.
// leader.P25 is about reads of the present without the lease, see present.go, leader.P29 about promises on demand, see promise.go, leader.P30 about
// locks that externally consistent transactions rely on until a time ahead of the clock, see vouched.go.
//
// leader.P8 and leader.P9 are about a range that its left neighbour is about to absorb, see freeze.go; leader.P16 about locks of SELECT FOR
// UPDATE that were lost, see keptlocks.go; leader.D1 to leader.D3 about numbers of sequences, see drawn.go.
//
// Ranges of another protocol have this participant for their range-local keys. leader.P21 and leader.P22, in leave.go, are about a range
// whose rows change to another protocol, and back.
//
// # Timestamps
//
// A transaction reads at its read timestamp and writes at its write timestamp. Writes are pushed by reads of others
// and by pushes; reads are pushed by versions in their uncertainty interval. A commit needs both to be equal, so the gateway refreshes its
// reads and moves the read timestamp up. Where the transaction has read nothing yet (Header.CanForwardRead), and outside of transactions,
// the range moves it by itself under the same latches, and the client never hears of it.
//
// # Meeting a lock
//
//	unreplicated, in the lock table   found by Scan before evaluation; lockers and writers queue, plain reads pass
//	intent, in the storage            found by evaluation; put into the lock table (Discover), then as above;
//	                                  plain reads at or above its timestamp wait too
//
// The first in the queue pushes the holder after a few milliseconds, by which time most holders have ended. The push goes to the
// holder's record, at the range of its anchor:
//
//	reader  -> PushTimestamp   the holder, if pending, will commit above the reader. Its intent is moved up.
//	writer  -> PushAbort       waits at the record until the holder ended, or its coordinator has sent no heartbeat
//	                           for commit.Expiry; then the holder is aborted
//
// When the push returns, the intents of the holder that this range knows are resolved and the request starts over.
// If the lock is released first, the push is called off. NOWAIT answers kv.LockNotAvailableError immediately, SKIP
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
// A counter is stored ahead of the last number drawn from it, and the draws in between cost no command (kv.AddRequest.Draw, leader.D1
// and leader.D2 in drawn.go).
//
// # What it does not do
//
// It knows no raft, no disk layout but records, and no other range; it moves no data and splits nothing (triggers
// are the replica's).
//
// # To see it
//
// testdata has a script for each kind of conflict, and the catalogue in anomalies; history_test.go has random
// transactions, with crashing coordinators, checked for cycles.
package leader
