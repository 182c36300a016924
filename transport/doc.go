// Package transport carries calls and streams of opaque bytes between nodes, by node id, over gRPC.
//
// It does not know the contents. The layers above register handlers by method name and call methods of other nodes by their node id; they
// also resolve node ids to addresses (Options.Resolve).
//
//	caller                                                     handler
//	Call(ctx, to, "kv.batch", req)                             func(ctx, from, req) (reply, error)
//	  |                                                           ^
//	peer (to, class) -- link: one gRPC stream per peer and class --+-- served link -- worker
//	  |                  frames: hello, call, reply, cancel, ping
//	  '-- the same HTTP/2 connection carries the streams of OpenStream
//
// # Links
//
// A call is a frame on one long-lived gRPC stream, a link, not a gRPC call of its own: that saves setting up a stream,
// its headers and its goroutine for every request, and lets this package notice silence. Links are per class, and
// each class has its own connection, so that a large SQL batch can't delay a heartbeat:
//
//	ClassDefault  requests of SQL
//	ClassSystem   raft, liveness, membership
//	ClassBulk     raft snapshots and other large transfers
//
// A link begins with a hello in both directions: version of frames, node id, cluster id, and the versions of the node (package
// version). A peer of another cluster, a node that is not the one asked for (an address was reused), and one whose binary is too old or too new for the
// version by which the other one acts are refused there, and both sides name the binary that has to be changed. With TLS the hello also
// checks that the certificate names a node; an administrator's certificate may call methods registered by HandleAdmin only. The hello,
// errors, and relayed messages are messages of package wire. A frame has a fixed header instead, of the version that both hellos have; a
// kind of frame that the reader does not know is refused, and ends the connection.
//
// # Failure
//
//	transport.T1: A call to a peer that is known to be down, and that no path leads to, fails immediately with *UnreachableError; in the
//	    background the peer is dialled again, with backoff up to a cap, for as long as it can be resolved. Whether a path leads to it takes a search,
//	    for which a call waits, unless another node could answer it as well (Elsewhere).
//	transport.T2: *UnreachableError.Sent is false only if no byte of the request left this node. Otherwise the peer may have executed it,
//	    and the caller has to report "outcome unknown" if the call was not idempotent.
//	transport.T3: Silence is noticed within three seconds, because writes are to resume in three (docs/replication.md): a link that heard nothing for
//	    PingInterval sends a ping, and is dead if the answer takes longer than PingTimeout. gRPC's own keepalive can't
//	    be set below ten seconds.
//	transport.T4: A caller that gives up (its context ends) cancels the handler's context; so does the loss of the link. There
//	    are no deadlines on the wire: clocks differ.
//	transport.T5: Everything is bounded: a frame by MaxFrameBytes, a node's running handlers by MaxInflight (beyond it calls are
//	    answered with *OverloadedError), bytes in flight by HTTP/2 windows that suit 150 ms round trips.
//	transport.T7: When a node's version is raised (Raised), it ends its links to the nodes whose binaries don't fit to that any more, and answers the
//	    next frame of links and streams that such nodes have made with the refusal that their hellos would meet. After an upgrade these are
//	    nodes that were decommissioned before it, and still run.
//	transport.T8: An *OffsetError names the node whose clock and this node's were found to be too far apart, and no other one: not the node at the end of a path
//	    on which a node refuses to relay, nor a node whose handler met it, nor one whose address another node has now. A node that disagrees with a majority
//	    stops itself, so evidence against one clock must not count twice.
//	transport.T9: A node that is about to stop (Leave) says so on each link that others have to it. A peer sends an acknowledgement after its last
//	    call, and refuses further ones itself, with Sent false. The node answers those that came before, asks for another acknowledgement,
//	    which follows its answers, and closes: so no call is lost, unless its handler outlives the bound. A node that knows nothing of this
//	    ignores the question, which costs the bound.
//	transport.T10: A handler knows which node calls. A link says so when it is made; one that a node has made to another before it had a number of its own,
//	    while it joined, ends as soon as it has one. All new nodes would be one to the other side otherwise.
//	transport.T11: A small call of a class that has no link to a node yet goes by the system's, while its own is being made: that takes two round trips. It
//	    is so only before the first link of the class: later, a link that is missing was lost, and transport.T1 holds.
//	transport.T12: A link is quiet while a ping is unanswered for a quarter of a second longer than its round trip; links on which calls wait are pinged after 0.2 s
//	    of silence. A quiet link stays, and calls go on to wait, since a node that is slow for a moment must not fail them. But a call that another node could answer as
//	    well (Elsewhere) ends, and the caller of another one may find out that waiting has no purpose (WhenQuiet). By transport.T2 both may have been carried out.
//	transport.T13: The time for an answer to a ping leaves out the time in which this node itself was not running: by as much as the monitor's tick is late, the deadline moves.
//	transport.T6: A call or stream whose link is missing goes by way of other nodes: the path is fixed by its origin, names no node twice and has
//	    at most MaxRelays nodes, so there are no cycles; transport.T2 and transport.T4 hold along it. A node learns of a path only from
//	    nodes that have heard from the next one lately.
//
// # Paths
//
// While a link is missing that was wanted, its node asks the nodes to which it has links how they reach the peer (path.go): by a link of
// their own, which has not been silent for long, or by a path that they know. The shortest path is taken, and the question is repeated
// every second. A relayed message (relay.go) carries the rest of its path; each node forwards it by a link that it has, and waits for none.
// The handler sees the origin as the caller. The link is dialled all the time, and used again as soon as it is there: streams along the
// path end then, but for those of ClassBulk.
//
// A handler that panics answers an error and the node survives, unless the panic is a broken invariant, which stops the node.
//
// # Clocks
//
// Every frame carries the sender's hybrid logical clock, and the receiver moves its own past it (CRDB'20 §4.1), before
// the handler or the caller sees the bytes. A reading too far ahead is refused: *OffsetError, on both sides.
//
// # Errors of handlers
//
// A handler's error crosses as a code, a message and optional detail bytes: return a *StatusError to choose them. Any
// other error arrives as a *StatusError with CodeUnknown. Errors by which callers make decisions belong in the reply's own bytes, as
// package kv does it.
//
// A call of a node to itself is a function call. See host for the rules on goroutines and time, sim for the network that
// the tests run on; transport_test.go shows that a call takes one round trip exactly.
package transport
