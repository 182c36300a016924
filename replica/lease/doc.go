// Package lease has the words for leases: who may serve a range's reads and propose its writes, and for how long.
//
// Raft's leader alone can't serve reads without asking a quorum, since it may have been replaced without knowing. A
// lease is a promise in the log itself, tied to clocks: its holder serves on its own, and everybody else waits until it
// is over (CRDB'20 §2.2, §4.3).
//
//	lease 7 of n1         |<------- start ...... expiration ------->|
//	served by n1          |=========================|  offset       |      L3
//	lease 8 of n2                                                   |<-- start     L1, L2
//
// Expiration leases carry their end and are extended through the log about once a second; system ranges have them.
// Liveness leases name an incarnation of the holder's node and last as long as that does: one heartbeat of one record
// extends all leases of a node, so a store of ten thousand idle ranges writes nothing for them. The records are in a
// system range, which is why that one can't use them.
//
// Invariants, all serving I5 (lease disjointness):
//
//	L1  A request for a lease names the sequence number of the lease it follows, and is void if that is not the
//	    current one when it is applied: compare-and-swap in the log. A lease taken from another holder starts after
//	    that one's expiration, or was given away by it.
//	L2  A Liveness lease may be taken when the holder's incarnation was incremented, which is possible only after its
//	    record has expired.
//	L3  A holder stops using a lease one maximum clock offset before its end, so that it has stopped by the time a
//	    faster clock sees the end.
//
// A transfer is cooperative: the holder stops serving (for good, whatever becomes of the transfer), waits for the
// requests in progress, and proposes a lease for the target that starts now. All that it served is before that.
//
// A node does not use leases that it was given before it started: the process that served under them knew reads that
// this one does not. It takes a new one, whose start is after all of them.
//
// The rules are carried out in package replica (leasing.go); rangeserver's chaos test checks that nothing was ever
// served under two leases that overlap.
package lease
