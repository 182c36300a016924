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
//	2  give the range the replicas that its configuration asks for: voters on nodes that are neither dead for good nor decommissioned nor
//	   forbidden, as many as there should be, and non-voters, so that all conjunctions are satisfied (target.go)
//	3  move the lease off a draining node, or to where the lease preferences say
//	4  swap a voter for a node that leaves less of a majority in one place, or makes the replicas more diverse
//	5  even out the numbers of replicas, their bytes and their writes (balance.go)
//	6  the same diversity for non-voters
//	7  move the lease to where the range's requests come from (follow.go)
//	8  even out the number of leases and their requests, among ranges whose requests do not prefer a node
//
// A range that has no quorum of live voters gets no action: nothing could be committed.
//
// # Diversity
//
// A locality is a list of tiers from wide to narrow, such as region, zone. Two nodes that differ in the first of two
// tiers are 1 apart, in the second 1/2, in none 0. The diversity of a set is the mean over its pairs, so the first
// replicas go to different regions, and to different zones when regions run out.
//
// Before diversity comes majority: where it can be avoided, no region, then no zone, has a majority of the voters, so that its loss is survived. For a
// survival goal of a region (five voters, two of them at home) this is what keeps the goal (CRDB'22 §3.2).
//
// # Constraints
//
// A Conjunction is a list of constraints that a replica has to satisfy together, and how many replicas have to (zero:
// all). Those of Constraints hold over voters and non-voters together, VoterConstraints over voters: with three voters in region a, five replicas and
// {+region=a:1,+region=b:1,+region=c:1}, one voter is the replica of a, and the two non-voters go to b and c. Without a number, a conjunction forbids all
// other nodes; with numbers that say where each replica is, or in a confined zone, so do they together (Zone.Forbids).
//
//	placement.P1 (I8): a replica is only placed on a node, and a voter only made of it, where Zone.Forbids does not forbid it; so no step, nor
//	    a moment of one, violates a constraint over all replicas that was not violated before.
//	placement.P4: if any assignment of replicas to the nodes satisfies all conjunctions, steps lead to one that does. Among those it is one
//	    that ships few replicas: a non-voter in a table's new home region changes roles with a voter of the old one, in one joint change.
//
// A conjunction that can't be satisfied takes no replica away: those that it asks for are placed as far as there are nodes, the others where they
// may be, and the violation is reported (Check).
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
//	placement.P3: voters are added to an odd number only. Two voters survive no more than one, and need both to agree. There is one exception:
//	    the only voter of a range moves by way of two, for the moment in which the lease is transferred.
//
//	placement.P5 (I1): a witness (Zone.Witness), which votes and has no data, is added to an even number of other voters only, in the step that makes them so
//	    many if there is one. One that is there stays until another one is in its place, or until none is wanted. It is placed where Zone.ForbidsWitness
//	    lets it be, gets no lease, and counts for no constraint on replicas.
package placement
