// Package lease has the types for leases: which replica may serve a range's reads and propose its writes, and for how long.
//
// Raft's leader alone can't serve reads without asking a quorum, since it may have been replaced without knowing. A
// lease is a promise in the log itself, tied to clocks: its holder serves alone, and every other replica waits until it is over (CRDB'20
// §2.2, §4.3).
//
//	lease 7 of n1         |<------- start ...... expiration ------->|
//	served by n1          |=========================|  offset       |      lease.RL3
//	lease 8 of n2                                                   |<-- start     lease.RL1, lease.RL2
//
// Supported leases name an incarnation of the holder's node and last as long as a majority of the range's voters support that (package support): heartbeats
// between nodes, without consensus and without a disk, extend all leases of a node, so a store of ten thousand idle ranges writes nothing for them. All ranges have them.
//
// Two older kinds are used until the cluster's version allows that. Expiration leases carry their end and are extended through the log about once a second; system ranges
// had them. Liveness leases name an incarnation that the cluster has agreed on (package cluster), in a record that one heartbeat extends. The records are in a system
// range, which is why that one could not use them.
//
// Invariants, all serving I5 (lease disjointness):
//
//	lease.RL1: A request for a lease names the sequence number of the lease it follows, and is void if that is not the
//	    current one when it is applied: compare-and-swap in the log. A lease taken from another holder starts after
//	    that one's expiration, or was given away by it.
//	lease.RL2: A Liveness lease may be taken when the holder's incarnation was incremented, which is possible only after its
//	    record has expired.
//	lease.RL3: A holder uses a lease only while no clock of the cluster can have come to its end, so that it has stopped by the
//	    time a faster clock sees the end, and only for timestamps before the end, because the next lease begins after it.
//	lease.RL5: A lease, or its extension, says in the log how far beyond its end the holder may serve (Lease.Ahead). A lease that follows
//	    without having been given starts after that: this is added when it is applied, since whoever asked for it may not have known of the
//	    extension. So is the timestamp below which the next leaseholder writes nothing.
//
//	lease.RL7: A Supported lease may be used while a majority of the voters of the range, as its holder has applied them, support it, and taken when a majority of them, as the
//	    taker has applied them, has withdrawn. The next lease starts after the end that those who withdrew tell. A change of the incarnation is a new lease also if the holder is the same, so that one
//	    who takes the lease because the former is over fails (lease.RL1).
//
// A transfer is cooperative: the holder stops serving (for good, even if the transfer fails), waits for the
// requests in progress, and proposes a lease for the target that starts now. Everything that it served lies before that.
//
// A node does not use leases that it was given before it started: the process that served under them knew reads that
// this one does not. It takes a new one, whose start is after all of them:
//
//	lease.RL4 (I3): a node that has restarted follows a lease of its earlier process as that of another node. Past what that process may have
//	    published, its clock is not past the timestamps in the future that it may have served. So the next lease starts after the Expiration
//	    lease's end, and after a Liveness lease it is asked for when the node has written its record, for which it waits for the end of the
//	    earlier one (cluster.L2).
//
// Which process of a node a lease was given to is told by the node's own clock, which goes on over a restart (server.SV2):
//
//	lease.RL6 (I3): a lease's ProposedAt is at most what the holder's clock showed when the lease was proposed. If another node gives the lease
//	    away, that is its own reading less the maximum offset, or, if it has heard of the holder's present process, that process's start. A
//	    process uses no lease proposed before its own start. So one that has just started uses the leases that it is given, and none that
//	    an earlier process may have served under.
//
// The rules are carried out in package replica (leasing.go); rangeserver's chaos test checks that nothing was ever
// served under two leases that overlap.
package lease
