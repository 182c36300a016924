// Package rangeserver is every replica of one disk: it finds the replica that a batch is for, makes time pass for
// those that are awake, carries raft messages between stores, ships raft snapshots, and does what placement decides.
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
// A batch names its range. The store checks that all of its keys are in the range, by their addresses, and otherwise
// answers with what it knows of the ranges that they are in (RangeMismatchError). It then calls the participant of
// the range's protocol on the caller's goroutine. Requests about the range itself (split, replicas, lease) are done
// here, one at a time per range.
//
// # Goroutines
//
// Their number does not depend on the number of ranges: the syncer, the ticker, the queue loop, the two of the
// comparison of replicas, a sender and a receiver for each peer, and a bounded number of range changes and raft snapshots. See package replica for who does
// what.
//
// Messages to one peer gather in one queue; its sender puts all that is there into one frame, so the heartbeats of all
// ranges that are awake travel together, and what they append waits for one sync. A queue that is full drops, which raft
// survives.
//
// # Queues
//
// Once in an interval (a second) the queue loop looks at every range whose lease is here. If the range or the cluster
// changed, or some time has passed, placement is asked, and its one next step is carried out in the background: split,
// add, remove or replace replicas, move the lease. A range that failed is left alone for a while. Further duties:
//
//	requests are counted by gateway, so that leases can follow them (load.go)
//	a raft leader without anybody holding the lease takes it, so that every range has a leaseholder who cares for it
//	a replica that hears of no leader reads the range's descriptor, and destroys itself if it was removed
//	a range that is small, or empty, and has room beside it absorbs its right neighbour (merge.go)
//	versions older than the time to live are removed, when there may be enough of them
//
// Another loop compares the replicas of each range with each other, slowly (check.go): a command in the log has each of
// them hash its state as of that place (R4 in package replica); the leaseholder collects the hashes, and stops the nodes of
// those that deviate.
//
// Descriptors are changed by ordinary transactions (DB), anchored in the range itself, whose commit carries the change.
// I8 is placement's; the store never picks a node by itself.
//
// # Invariants
//
//	RS1  The spans of initialised replicas never overlap; a raft snapshot that would is refused until the replica in its
//	     way has applied its split or merge, unless its range has absorbed that one: then it replaces it. The right side
//	     of a split is in the way before the left side lets go of its keys, and who is replaced is held meanwhile, so
//	     that it does not split. Raft snapshots are received one at a time. A breach stops the node.
//	RS2  A replica's number is never used again on a store: its tombstone is written in the batch that removes it.
//
// # Start
//
// Open looks for descriptors among the range-ID local keys and makes a replica for each. Uninitialised replicas are
// made again by the first message. Half-received raft snapshots leave nothing, since they are applied as one batch.
//
// Tests: fixture_test.go has stores over simulated machines with a participant that knows little, chaos_test.go kills
// them, stack_test.go has the real layers up to transactions.
package rangeserver
