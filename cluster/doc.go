// Package cluster knows the cluster's nodes: addresses, localities, load, round-trip times, clock offsets, and which of them are alive.
//
// It has two parts that are easily confused.
//
// # Membership: the entries of nodes
//
// An Entry is a node's description of itself: addresses, locality, capacity, build. Only its node changes it; each change raises
// its revision. Entries spread by anti-entropy: about once a second every node pings every other, the request carries
// its own entry and a digest (node, life, revision) of all that it knows, the reply carries what is newer. So a change reaches every node
// within one round of its own pings, and through third nodes within two. Membership is a hint: it may be late, it is never voted on, and
// safety may not depend on it.
//
// A digest to every peer would cost each node the square of the number of nodes in each round. So in a cluster of more than nine nodes most pings are
// brief: they have the node's record, and its entry if the peer has not got it yet, but no digest, and the answer has no news. About eight peers
// get the digest in each round, other ones in the next, so that each has it once in n/8 rounds. A change reaches every node within one round of its own node's pings
// as before. Through third nodes it takes as many rounds as it takes to ask one that has heard of it: usually two, and n/8 and one more at most.
//
//	n1 -- ping: my entry, my record, digest, clock ---> n2          n1 -- brief ping: my record, clock ---> n3
//	   <- pong: entries and records newer than that ---                <- pong: clock ---------------------
//	          clock
//
// The ping also measures. Its round trip feeds Latency, which route uses to choose the nearest replica. The clock in
// the answer lies between sending and receiving, so half of the round trip bounds the error of the offset. A node whose
// clock is off by more than 80 % of the maximum offset from a majority of the cluster hears OnClockBroken and stops
// itself (docs/clock.md): with three nodes the two good ones outvote the bad one, with two there is no majority and neither stops.
//
// The answer also has the bound that the peer claims on the error of its clock, whatever its source of time. So each node knows for each peer, and for itself, where
// true time is by that clock, relative to its own monotonic clock (verdict.go):
//
//	cluster.L5 (I4): if the claims of the nodes have no point in common, one of them is wrong. A node whose claim does not meet what a majority of the nodes allows
//	    hears OnClockBroken and answers nobody any more; others name it. Where no majority agrees, as with two nodes, all that know of it hear OnClockDoubt, and answer no
//	    client until the claims agree again. A claim is compared for 2.5 s, and its measurement is exact: it errs by the round trip, never by the load of a machine.
//
// # The ceiling
//
// How far may the timestamp of a commit be ahead of true time when its client is answered? A reader's uncertainty interval has to reach as far (clock.C7). The maximum offset
// is one answer; another one is a little more than the largest epsilon that nodes report in answers to pings. Nodes that have not heard of each other have to agree, so it
// is a key of the system range (ceiling.go), which each node reads once a second:
//
//	lower   allow 500 ms, assume 500 ms -> allow 8, assume 500 -> (all go by it) -> allow 8, assume 8
//	raise   allow 8, assume 8 -> allow 8, assume 40 -> (all go by it) -> allow 40, assume 40
//
//	cluster.L6 (I4): in each stored ceiling allow <= assume. A node goes by one for 5 s from the beginning of the read, by its monotonic clock, and without one is strict
//	    (clock.C7). Assume grows, and allow shrinks, at any time; the opposite only when the stored ceiling has been unchanged for those 5 s, the maximum offset and
//	    the drift, as seen by the node that changes it. So nobody goes by an allow that is larger than somebody's assume, and a timestamp that was answered by an earlier
//	    allow has passed.
//
// An epsilon that grows beyond the ceiling costs its own node the difference at each commit, until the ceiling has been raised, and nobody else anything.
//
// # Liveness: the records that the cluster has agreed on
//
// A Liveness record is a key in the system range, changed by conditional puts only, so its history is linear. It names
// the node's incarnation and an expiration, which the node extends every HeartbeatInterval. A lease of a range that is
// liveness-based names a node and an incarnation instead of an expiration, so that one write keeps all leases of a
// node alive (so idle ranges cost nothing).
//
//	cluster.L1: a record's incarnation never goes back, and within one incarnation its expiration never goes back;
//	cluster.L2: an incarnation is raised only at a time after the record's expiration, by the clock of the node that raises it; this holds
//	    for a node that restarts, too;
//	cluster.L3: a node uses its incarnation at time t only if no clock can have come to the expiration, for an expiration that it knows
//	    to be written (Liveness.Usable);
//	cluster.L4: a heartbeat expects the exact bytes that it replaces, so it fails once another node has raised the incarnation.
//
// Why I5 follows. Let H hold a lease under incarnation e, and let B take the range over. B first raises e, at a moment
// when its clock shows more than the expiration E of the record it replaces (cluster.L2), and its lease starts no earlier than
// that reading. No later heartbeat extends e (cluster.L4), so E is the last expiration that H ever knew. H serves only while its own
// clock shows less than E - maximum offset (cluster.L3). At the moment of B's reading, H's clock shows at least B's reading
// minus the maximum offset, which is more than E minus the maximum offset: H has stopped before, and everything H served was at a
// timestamp below E, so below B's lease. If clocks are further apart than the maximum offset, a read may be stale, but
// two writers still can't both succeed: a command carries its lease, and application refuses one that is not current.
//
// Records are cached and spread with the pings, so that Live usually needs no read of the system range. A cached
// record can only be too old (cluster.L1), that is, too pessimistic about an expiration; code that acts on a node's death calls
// IncrementIncarnation, which asks the range.
//
// With the defaults, a record expires 2.25 s after the heartbeat that wrote it and is renewed every 0.75 s; so a dead
// node's leases can move after at most 2.25 s, and the goal of three seconds for failover leaves 0.75 s for two rounds of consensus.
//
// # Joining
//
// A node starts with the addresses of --join and asks each of them repeatedly until one answers; as long as none does it logs a warning.
// Addresses are only for finding the first peer: afterwards entries have them.
//
// This package does not decide where replicas go (placement), and does not know how records are stored (LivenessStore
// is the server's).
package cluster
