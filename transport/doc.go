// Package transport lets nodes talk: calls and streams of opaque bytes, by node id, over gRPC.
//
// It knows nothing about what is said. A room above registers handlers by method name and calls methods of other
// nodes by their node id; how a node id becomes an address is asked of the room above (Options.Resolve).
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
// each class has its own connection, so that a large SQL batch can't stand in front of a heartbeat:
//
//	ClassDefault  requests of SQL
//	ClassSystem   raft, liveness, membership
//	ClassBulk     raft snapshots and other large transfers
//
// A link begins with a hello in both directions: protocol version, node id, cluster id. A peer of another cluster, or a
// node that is not the one asked for (an address was reused), is refused there, by name. With TLS the hello also checks
// that the certificate names a node; an administrator's certificate may call methods registered by HandleAdmin only.
//
// # Failure
//
// T1  A call to a peer that is known to be down, and that no path leads to, fails at once with *UnreachableError; in the background the peer is
//
//	dialled again, with backoff up to a cap, for as long as it can be resolved.
//
// T2  *UnreachableError.Sent is false only if no byte of the request left this node. Otherwise the peer may have
//
//	executed it, and whoever promised something about it has to say "outcome unknown".
//
// T3  Silence is noticed within three seconds, because writes are to resume in three (docs/replication.md): a link that heard nothing for
//
//	PingInterval sends a ping, and is dead if the answer takes longer than PingTimeout. gRPC's own keepalive can't
//	be set below ten seconds.
//
// T4  A caller that gives up (its context ends) cancels the handler's context; so does the loss of the link. There
//
//	are no deadlines on the wire: clocks differ.
//
// T5  Everything is bounded: a frame by MaxFrameBytes, a node's running handlers by MaxInflight (beyond it calls are
//
//	answered with *OverloadedError), bytes under way by HTTP/2 windows that suit 150 ms round trips.
//
// T6  A call or stream whose link is missing goes by way of other nodes: the path is fixed by its origin, names no node twice and has
//
//	at most MaxRelays nodes, so nothing goes round in circles; T2 and T4 hold along it. A node is told of a path only by nodes
//	that have heard from the next one lately.
//
// # Paths
//
// While a link is missing that was wanted, its node asks the nodes to which it has links how they reach the peer (path.go): by a link of
// their own, which has not been silent for long, or by a path that they know. The shortest answer is taken, and asked for again
// every second. What travels along a path (relay.go) carries the rest of it; each node takes it one further by a link that it
// has, and waits for none. The handler sees the origin as the caller. The link is dialled all the while, and taken again as soon
// as it is there: streams along the path end then, but for those of ClassBulk.
//
// A handler that panics answers an error and the node lives, unless the panic is a broken invariant, which it passes on.
//
// # Clocks
//
// Every frame carries the sender's hybrid logical clock, and the receiver moves its own past it (CRDB'20 §4.1), before
// the handler or the caller sees the bytes. A reading too far ahead is refused: *OffsetError, on both sides.
//
// # Errors of handlers
//
// A handler's error crosses as a code, a message and optional detail bytes: return a *StatusError to choose them. Any
// other error arrives as a *StatusError with CodeUnknown. Errors that callers decide by belong in the reply's own
// bytes, as package kv does.
//
// A call of a node to itself is a function call. See host for the rules on goroutines and time, sim for the network that
// the tests run on; transport_test.go shows that a call takes one round trip exactly.
package transport
