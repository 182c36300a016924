// Package replica is one range's replica on one store: its raft group, its log, its lease, and how the effects of
// requests are applied. It is the only user of the raft library.
//
// # The problem
//
// A range's data has to survive the loss of any minority of its voters (I1), and all replicas have to hold the same
// bytes at the same log index, though they run different binaries and are at different points of the log. So requests are evaluated once,
// by the leaseholder, and the log carries their effects: a Command is an engine batch and a few facts about it. Replicas apply commands in
// log order and check one thing only, that the command may still be applied (replica.R1).
//
// # Goroutines
//
// There is no goroutine per range and no pool. A goroutine that has work for a replica locks it for a moment, steps the raft state machine,
// carries out its effects, and unlocks it:
//
//	proposer    Propose     gives a command to raft; waits for the shared sync itself; applies; returns
//	receiver    Receive     the goroutine that read the message from the peer's stream
//	ticker      Tick        one goroutine of the store, for the replicas that are awake
//	syncer      Synced      one goroutine of the store, for appends that no proposer waits for
//
// A write of a single-replica range thus switches to no goroutine but the engine's own log flusher:
//
//	proposer:  evaluate | hold: propose, commit the append to the engine | wait for the sync | hold: apply | return
//	                                               '---- the engine syncs once for all ranges that are ready ----'
//
// With three replicas the append messages leave before the wait, so the followers' disks work at the same time as the
// leader's, and the proposer returns when its own sync and one follower's answer are there, in either order.
//
// Holding a replica is a channel token, not a mutex: the engine may slow a holder down, and virtual time has to pass meanwhile (host.H3).
// No goroutine waits for a sync or for the network while it holds one. A goroutine that takes two replicas takes them from left to right in
// the keyspace (splits).
//
// # Stored state
//
//	range-ID local, unreplicated   log entries, hard state (term, vote, commit), where the log begins, tombstone
//	range-ID local, replicated     applied state (index, lease index, closed timestamp, statistics), lease, GC
//	                               threshold, a copy of the descriptor as of the applied state
//
// An append and the hard state go into one engine batch, synced if raft waits for it. An applied command, the applied
// state and whatever the command changes about the replica go into another, never synced by itself (replica.R3): after a crash,
// the log is replayed from the applied index. Commit indexes alone are neither synced nor, for up to a tick, sent.
// Appends of several ranges that one peer sent together wait for one sync, the last one's (Frame).
//
// # Invariants
//
//	replica.R1 (I5): A command applies only under the lease it was evaluated under, and only if its lease index is above that of
//	    every applied command; so it applies at most once however often it was proposed. A command that is refused for its index gets a new
//	    one: no copy with the old index can apply any more.
//	replica.R2 (I1): A message that promises durability is sent after the batch that carries the promise is durable, in the order of the
//	    batches.
//	replica.R3: An applied command is in the durable log.
//	replica.R4: All that keys.RangeSpans covers, the applied state included, is a function of the log up to the applied
//	    index: after the same entry, all replicas have the same bytes there. HashJob has them compared.
//	replica.R5 (I9): No request waits for a range without a leader for longer than unledTicks: a proposer gets the error that its outcome is
//	    unknown, and the participant fails the requests that wait for latches and locks.
//	replica.R6 (I1): A leader's entries agree with those that this replica has committed. If not, stores have lost acknowledged entries in a
//	    way that package fence could not see; the node stops, so that its entries are neither overwritten nor ignored.
//	replica.R8 (I1): A promise of a protocol without a log is given only if the replica still acted in the promise's generation after the
//	    promise was in the engine. So every report of the generation, which is read after the seal was applied, contains it.
//	replica.R9 (I1): In a range of such a protocol a generation follows another only when the base contains the reports of a quorum of its
//	    voters, each made after the seal was durable there. Any quorum that has promised something has a replica in common with that one,
//	    and replicas that do not know of the seal are no quorum without them (generation.go).
//	replica.R10: A seal, a fold and the end of a fold can be repeated, by this leaseholder or the next one, without effect.
//	replica.R11 (I1): A replica's promises of a generation are removed with the change that begins a later one, whether it comes by a
//	    command or by a raft snapshot, and not before: a raft snapshot of the same generation leaves them.
//
// replica.R13 is about the commits that a range remembers, see commits.go, and replica.R14 about the first message of a new leader, see adjoin. Of two voters that campaign at the same time one yields, so that one is elected: replica.R7, see elect.go. lease.RL1 to lease.RL3 are
// about leases (I5), see package lease; closedts.CT1 to closedts.CT4 about closed timestamps (I6), see package closedts and closed.go.
//
// # The life of a split
//
// The leaseholder evaluates a transaction whose commit carries a SplitTrigger. EvaluateTrigger puts the right side's
// first replicated state into the same batch: applied at index 10, term 5, the left side's lease, its share of the
// statistics. Every replica that applies the command adds its own part, the right side's hard state and empty log, to its engine batch,
// shortens its span, and makes the right side's replica real; the store hands it a participant. A replica that hears from the right side
// before it has applied the split keeps an uninitialised replica, which can vote but refuses raft snapshots, since they would overlap the
// left side.
//
// # The life of a merge
//
// The other way round, a MergeTrigger in the left side's log has each of its replicas take over the data of the right side's replica on the
// same store, whose state it removes in the same engine batch (merge.go). That replica has to be at the end of its range's history, so the
// range was frozen and all its replicas had applied their logs, durably, before the transaction committed. Replicas of a range that was
// absorbed have a tombstone that no replica number passes. Where the trigger was not applied but overtaken by a raft snapshot, the
// snapshot's batch removes them.
//
// # Changes of replicas
//
// A descriptor with new replicas commits with a ReplicasTrigger, whose log entry is raft's configuration change too. A
// new replica starts as a learner, uninitialised; the leader finds its log too short and ships a raft snapshot: the
// range's data as one pinned engine snapshot sees it, in frames, applied as one engine batch together with an empty log.
// Voters are then exchanged in one joint configuration. A replica that applies its own removal destroys itself and
// leaves a tombstone, so that late messages do not bring it back. One that missed it learns from any member that it
// writes to (TooOld).
//
// # Quiescence
//
// When all replicas have the whole log, but for those on dead nodes, nothing is pending and the lease depends on the node's liveness, the
// leader puts the range to sleep with a last heartbeat: no ticks, no heartbeats. It wakes for any message, proposal or use of the lease. If
// the leader's node dies, the others' stores notice its liveness end, forget the leader, and the first live voter campaigns immediately. A
// node may be dead for days; when it is live again, the leader wakes up and brings its replica up to date, which may be asleep and would
// not ask.
//
// # Slow disks
//
// A follower with a slow disk delays no request. A leader applies only entries that its own disk has (replica.R3), so if an append takes it
// 0.8 s while a voter has acknowledged it, the lease goes to that voter (letGo), or, if it has run out meanwhile, raft's leadership.
//
// # What it does not do
//
// It does not evaluate requests, find ranges, or decide where replicas go (package placement).
//
// Papers: Ongaro, "Consensus: bridging theory and practice", §4.2.1 (learners), §4.3 (joint consensus), §9.6 (pre-vote);
// CRDB'20 §2.1, §2.2. The tests are in package rangeserver, which has the store around it.
package replica
