// Package support has the promises between nodes by which leases last: without consensus, without a disk, and for less than a second.
//
// # The idea
//
// A range must not have two leaseholders (I5). So a leaseholder that may be dead has to be known to serve nothing any more before the next one begins, and
// the time for which everybody has to wait is most of what a client sees of a failure. A record that the cluster agrees on (package cluster) takes a round of consensus, in
// one range, for each heartbeat, so it has to last for seconds. Here each node asks each other one, five times a second:
//
//	n1                                         n2
//	 | -- support incarnation 7 to 12.8 s ----> |   remembers it; promises to take no part in ending n1's leases for Duration from now
//	 | <- you have it, from incarnation 7 on -- |
//	 |                                          |
//	 X  n1 dies                                 |   Duration after the last request came: n2 withdraws. It writes "n1: from incarnation 8 on, to 12.8 s",
//	                                            |   synced, and tells everybody.
//
// A lease names its holder's node and an incarnation of it. It lasts as long as a majority of the range's voters support that incarnation, and it is over when a
// majority has withdrawn. Any two majorities have a node in common, also those of two configurations of which the second follows the first. CockroachDB does alike since its
// version 25, and calls it store liveness.
//
// The holder counts Duration from the moment at which it sent the request, and the other node from the moment at which it came, each by its own monotonic clock. So the
// clocks of the nodes may differ by any amount, and no part of the time is lost to their bound.
//
// # Incarnations
//
// The upper half of an incarnation is the number of the node's start, which its store counts (package fence); the lower half grows when a peer has
// withdrawn. A node has one incarnation for its new leases, the largest that any peer asks for. A lease under an earlier one remains good as long as a majority supports that; the
// range's leader replaces it when it has time.
//
//	support.SU1 (I5): a node that has given support for a time does not withdraw it within that time, by its monotonic clock, which starts when the request comes; a node that has
//	    started anew takes it that its earlier process gave support to every node at its last moment.
//	support.SU2 (I5): what a node has withdrawn is durable before anybody hears of it, and it never supports a smaller incarnation again.
//	support.SU3 (I5): a node counts support from the moment at which it sent the request, less what a monotonic clock may be wrong by, and no further than the timestamp that the
//	    request named. A withdrawal names the latest such timestamp, and the lease that follows begins after it.
//	support.SU4 (I5): a process of a node begins to ask for support when that of the node's earlier process has ended, and takes no lease for its own whose incarnation is of an earlier
//	    process.
//
// Why I5 follows. Let H hold a lease under incarnation i. It serves at a moment when a majority has promised it support for i, up to a timestamp E at least, and only below E.
// Let B take the lease over: a majority has withdrawn i. One node is in both; its promise has ended (support.SU1) before it withdrew, so H, whose time is shorter (support.SU3), serves no
// more. Its withdrawal names E or more (support.SU3), so the next lease begins after all that H has served.
//
// # A machine at full load
//
// A node that gets no processor must not take others for dead: what it has not read is in its sockets. The loop that watches notices when it wakes late itself, and
// moves all its deadlines by as much. To withdraw late is always safe.
//
// # Elections
//
// The promises also tell when a raft leader is gone, which needs no safety: as soon as a majority of the voters say that they support its node no more (Down).
// A link that fails alone ends no lease and no leadership: the other voters go on supporting.
package support
