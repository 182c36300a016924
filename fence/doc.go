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
//	    started often enough. A start is cleared, and tells positions, from the moment at which the quorum of one of its ranges has recorded it;
//	    a store that was opened without ranges waits until it is given one.
//	fence.FE5 (I1): a promise that no log orders counts only when a process on another node has heard of a position of its store behind it. An
//	    answer to another node carries such a position, and the node takes it in before it counts the answer. An answer to a gateway on the
//	    store's own node waits until another voter of the range has been told. An answer of a start that is not the latest does not count.
//
// # Promises without a log
//
// The acknowledgements of raft travel in frames, which carry positions. A replica of a protocol without a log promises in answers to batches
// (docs/ranges.md). If these told nobody a position, a store that was put back to a moment before its last promise would be accepted: in an idle
// range no frame follows, and the next publication may be PublishEvery away. It would form a quorum with a replica that the operation has not
// reached, and an acknowledged write would be lost. So such an answer carries the start and the position (kv.ProtocolResponse), and route gives it
// to the register before the protocol sees the answer. Answers about the end of a generation, and about what is applied before a merge, do likewise
// (rangeserver, reportPart): that a replica acts no more is a promise too.
//
// The gateway's own replica needs a message of its own, because nobody else gets its answer. When the promise is durable, Tell sends it to the other voters, and
// one of them has to confirm it. A voter that is near gets it alone, and the others get it if that one does not answer in time. That adds no time to an operation that needs a quorum: the message takes a round trip after the
// local sync, and the answers of the others take a round trip and a sync. The position that is told is that of the range's last promise, which
// rests in an idle range; so a read there tells nothing, and calls of many operations are one.
//
// A node that has heard a position has it in memory, and on disk within a second, as with frames. A sync at the gateway for each operation would cost
// as much as the promise itself, and would help only against the loss of power at all nodes together with a copy that is less than a second old;
// of that a log is not safe either. A gateway that is not a voter, and dies within that second, takes with it what it alone has heard; the node itself
// publishes its position after PublishEvery at the latest.
//
// Ranges of the leader protocol pay nothing: their answers have no such field, and route looks for it only in answers that a protocol sent to a
// replica by its number or to the nearest one.
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
// the node's own start. fence.go is the driver: it claims at each peer until that one has recorded it, and serves others. tell.go has the
// positions of promises without a log.
package fence
