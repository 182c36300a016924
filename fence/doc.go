// Package fence keeps a node from acting on a store that is not the latest of its node: an old copy that was restored, or a clone of one
// that is in use.
//
// # The problem
//
// A replica's vote and its acknowledgements are promises, and its store is their memory. A store that was restored from a
// backup or a disk image has forgotten some of them: its node votes for a leader that lacks what it acknowledged, and the
// rows are lost on all nodes without an error anywhere (I1). A clone of a running store makes promises in addition to the original's. The
// node can't notice either by itself. Its peers can, as they have seen a later state of it than its store has.
//
// # The idea
//
// Each run of a node's process on its store is a start: a number, which the store counts, and a random token. A
// store has a position, which never goes back while it is the same store (storage/engine, Durable). Before a node takes part
// in raft it claims its start at its peers, and a quorum has to record the claim.
//
//	node 3, start 8                                     a peer
//	  own record: start 8, not cleared; synced
//	  ask: last start 7, found at position 5120  ---->  knows start 7, position 5118: fine
//	                                             <----  yes      (else: refused, and node 3 stops)
//	  a quorum of some range has said yes
//	  record: the same                           ---->  writes start 8; synced
//	                                             <----  recorded
//	  own record: cleared; synced
//	  ranges of which a quorum has recorded it begin
//	  raft frames: start 8, position 5131 ----------->  remembers 5131
//
// A peer refuses a claim if it knows a later start, another start with the same number, or a position beyond the one at
// which the store was found; or if it reaches a process that still runs as an earlier start of the node (it calls back at
// the address that it knows).
//
// A node's process answers claims as soon as it listens, before it has claimed its own start. So all nodes of
// a cluster may start at the same time, in any order: the register of starts is in no range, but in the store of each node.
//
// # Rules
//
//	fence.FE1 (I1): a replica that a store was opened with takes part in raft only after a majority of the range's voters, itself
//	    counted, have recorded the start (in a joint configuration a majority of each half). A replica that is made later
//	    answers only nodes that have recorded it.
//	fence.FE2 (I1): a store's number is durable before it is claimed, and no number is claimed twice; a peer's record is durable before it
//	    answers.
//	fence.FE3: a peer accepts raft frames only of the start that it has recorded, so of two processes of one node it hears the one that was
//	    recorded last, and the other one stops when it learns of that.
//	fence.FE4: the writes of a refused attempt do not move the position that the next attempt claims. Otherwise a copy would only have to be
//	    started often enough.
//
// # Guarantees
//
// See docs/decisions/0007-starts-of-a-node.md. In short: an old copy is refused if any of the peers that answer has seen the node at a
// later position than the copy's. A peer sees it with each raft frame, and at least once every PublishEvery; it has it in memory
// immediately, and on disk within a second (server, keepGuard), without a sync of its own. A cluster of one node has no peers and notices
// nothing.
//
// # Files
//
// A node that must claim its start at one whose address neither membership nor its store knows asks the addresses to join: nodes that wait
// for each other do not appear in membership.
//
// register.go has a node's knowledge of others' starts and its decision about a claim: a core without time and network. own.go is
// the node's own start. fence.go is the driver: it claims at each peer until that one has recorded it, and serves others.
package fence
