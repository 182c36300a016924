// Package rangeserver hosts all replicas of one disk: it finds the replica that a batch is for, ticks those that are awake, carries raft
// messages between stores, ships raft snapshots, and carries out placement's decisions.
//
//	       route (this node's, or another's through transport)
//	                   |
//	             Store.Send                       raft messages, raft snapshots
//	                   |                                     |
//	      +------------+------------+              one stream per peer and direction
//	      |            |            |                        |
//	Participant  Participant  Participant  <- per protocol   |
//	      |            |            |                        |
//	   Replica      Replica      Replica  -------------------+
//	      |            |            |
//	      +------ one engine, one sync for all ------+
//
// # Dispatch
//
// A batch names its range. The store checks that all of its keys are in the range, by their addresses, and otherwise answers with the
// descriptors of their ranges that it knows (RangeMismatchError). It then calls the leader protocol's participant, or that of the range's
// protocol for rows of another one (serving.go), on the caller's goroutine. Requests about the range itself (split, replicas, lease) are
// done here, one at a time per range.
//
// # Goroutines
//
// Their number does not depend on the number of ranges: the syncer, the ticker, the queue loop, the two of the
// comparison of replicas, a sender and a receiver for each peer, and a bounded number of range changes and raft snapshots. Package replica
// describes their work.
//
// Messages to one peer gather in one queue; its sender puts all of them into one frame, so the heartbeats of all awake ranges travel
// together, and their appends share one sync. A full queue drops messages, which raft tolerates.
//
// # Queues
//
// Once in an interval (a second) the queue loop visits every range whose lease is on the store. If the range or the cluster changed, or
// some time has passed, it asks placement for the next step and carries it out in the background: split, add, remove or replace replicas,
// move the lease. After a failure the range is not tried again for a while. Further duties:
//
//	requests are counted by gateway, so that leases can follow them (load.go)
//	a raft leader takes the lease if no replica holds it, so that every range has a leaseholder that maintains it
//	a replica that hears of no leader reads the range's descriptor, and destroys itself if it was removed
//	a range that is small, or empty, absorbs its right neighbour if both fit into one (merge.go)
//	versions older than the time to live are removed, when there may be enough of them
//	a generation that was sealed for a change which was abandoned is followed by another one, and so is one with a large delta
//	    (generation.go)
//
// Another loop compares the replicas of each range with each other, slowly (check.go): a command in the log has each of
// them hash its state as of that place (replica.R4); the leaseholder collects the hashes, and stops the nodes of those that differ.
//
// Descriptors are changed by ordinary transactions (DB), anchored in the range itself, whose commit carries the change.
// The store never picks a node by itself: placement decides by the configurations that the node knows. A change that places a replica, placement's or an
// administrator's, is only carried out where the configuration in force lets it.
//
// # Invariants
//
//	rangeserver.RS1: The spans of initialised replicas never overlap; a raft snapshot that would make them overlap is refused until the
//	    other replica has applied its split or merge, unless its range has absorbed that one: then it replaces it. The right side of a split
//	    has its place before the left side releases the keys, and a replica that is being replaced is locked meanwhile, so that it does not
//	    split. Raft snapshots are received one at a time. A violation stops the node.
//	rangeserver.RS2: A replica's number is never used again on a store: its tombstone is written in the batch that removes it.
//	rangeserver.RS3 (I9): Before the engine stalls, requests with new data wait at the store's gate, each for a bounded time
//	    (backlog.go).
//	rangeserver.RS4 (I8): A transaction that places a replica (a new one, or a voter where there was none), changes the range's commit protocol, or merges, runs under a use of the
//	    span's configurations: it checks that they allow it and begins after that, a statement that replaces one of them does not return before
//	    it has ended, and it commits at or before the use's deadline or not at all. So when a statement of regions has returned, no replica is placed
//	    by the earlier configuration. Nothing is placed in user's ranges, repairs included, while the node may not use its catalogue; what removes
//	    replicas, ends a joint configuration, splits, or moves a lease between voters needs no configuration and goes on. The system's ranges keep the catalogue
//	    itself, so they do not wait for it.
//
// rangeserver.RS5 is about how far ahead of the clock ranges close, see lead.go.
//
// # Start
//
// Open looks for descriptors among the range-ID local keys and makes a replica for each. Uninitialised replicas are
// made again by the first message. Half-received raft snapshots leave nothing, since they are applied as one batch.
//
// Tests: fixture_test.go has stores over simulated machines with a minimal participant, chaos_test.go kills them, stack_test.go has the
// real layers up to transactions.
package rangeserver
