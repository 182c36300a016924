// Package placement decides where replicas and leases belong. It is pure: a description of the range and the nodes goes
// in, one step comes out; rangeserver carries it out and asks again.
//
// # What goes in
//
//	Zone    a range's configuration: how many replicas, how many of them voters, where they may and must be,
//	        where the lease should be, how large a range may grow, how long old versions are kept
//	Range   the range as its leaseholder sees it: descriptor, size, where its requests come from
//	Nodes   the nodes of the cluster: locality, liveness, numbers of replicas and leases
//
// # What comes out
//
// Decide returns the most urgent Action, in this order (CRDB'20 §2.2.3, CRDB'22 §3):
//
//	0  split a range that is too large, or in which another configuration begins
//	1  finish a joint configuration that was left behind; remove learners that were left behind
//	2  replace voters on nodes that are dead for good, then voters on decommissioning nodes
//	3  add voters until there are enough, remove them when there are too many
//	4  replace voters where a constraint forbids them
//	5  the same for non-voters
//	6  move the lease off a draining node, or to where the lease preferences say
//	7  swap a voter for a node that makes the replicas more diverse
//	8  even out the number of replicas
//	9  move the lease to where the range's requests come from (follow.go)
//	10 even out the number of leases, among ranges whose requests do not prefer a node
//
// A range that has no quorum of live voters gets no action: nothing could be committed.
//
// # Diversity
//
// A locality is a list of tiers from wide to narrow, such as region, zone. Two nodes that differ in the first of two
// tiers are 1 apart, in the second 1/2, in none 0. The diversity of a set is the mean over its pairs, so the first
// replicas go to different regions, and to different zones when regions run out.
//
// # Constraints
//
// A Conjunction is a list of constraints that a replica has to satisfy together, and how many replicas have to (zero:
// all).
//
//	placement.P1 (I8): a node is only proposed for a replica if, with it, all conjunctions can still be satisfied by the
//	    replicas that are yet to be added; so a conjunction over all replicas can't be violated even for a moment.
//
// # How many voters
//
// As many as the zone asks for; with fewer nodes than that, the largest odd number of nodes. Dead nodes count, and those
// that are being decommissioned; only those that were decommissioned for good do not.
//
//	placement.P2 (I1): no step leaves fewer voters than before if that is less than the zone asks for. A voter whose node is dead or
//	    leaves is replaced, or waited for: without it the range would survive no more, and what was acknowledged would be in
//	    fewer copies. Nor does not knowing take voters away: a node that was never heard of is not live, and that is all.
//
//	placement.P3: voters are added to an odd number only. Two voters survive no more than one, and need both to agree.
package placement
