// Package upgrade raises the version of a cluster while it runs: it records the promise of each node, finalises an upgrade, and runs the
// migrations that follow. Package version explains versions.
//
// # The state
//
// It is in rows of the system range and in the nodes' stores; membership and calls between nodes only make it faster.
//
//	system/version            active 0.1, raising to 0.2, by job 7      what the cluster acts by
//	system/nodeversion/3      binary 0.2 (oldest 0.1), acting 0.1,      one row for each node, written by it alone
//	                          promised 0.2
//	system/migration/0.1-3/x  job 9, done                               one row for each migration that was begun
//	the store's marker        acting 0.1, promised 0.2                  what a node knows before it hears anybody (engine.EN6)
//
// # The life of an upgrade
//
// The nodes are restarted with the new binary, one after the other. Each acts by the cluster's version, and can be restarted with the
// earlier binary. Then the upgrade is finalised, by `meridian upgrade finalize` or, if the cluster setting says so, by itself:
//
//	begin      a transaction sees that every node has a binary for 0.2, writes "raising to 0.2" and creates the job
//	promise    each node writes "promised 0.2" to its store, then to its row; from here on its store refuses the earlier binary
//	           the job waits for the rows of all nodes
//	for each step of 0.2, the last one being 0.2 itself:
//	  activate   a transaction sees all promises once more, and writes "active 0.1-1"
//	  act        each node writes "acting 0.1-1" to its store, acts by it, and then writes its row
//	             the job waits for the rows of all nodes
//	  migrate    the migrations of the step run, one after the other, each as a job
//	end        "raising" is removed from the row
//
// Any node whose binary knows the target resumes the job when the node that runs it dies. An interrupted upgrade is safe at
// each point: nodes that act by different steps understand each other.
//
// # Rules
//
//	upgrade.UP1 (version.CV2): a version becomes active in a transaction that has read a promise of at least that version from every node which
//	    is not decommissioned. A node that is down counts: it has to come back, or to be decommissioned.
//	upgrade.UP2 (version.CV2): a node serves no client, and renews no liveness record, before its row is written in a transaction that has
//	    read the cluster's version: so either the upgrade sees the node's row, or the node sees the upgrade and promises, or is refused,
//	    before it serves.
//	upgrade.UP3 (version.CV1): a node's row contains only what its store has durably.
//	upgrade.UP4: a migration begins when every node that is not decommissioned acts by its version, and migrations run in the order of their versions, and
//	    of the list. None begins before the one before it has succeeded, and none runs again once that is recorded.
//
// # Dead nodes
//
// A node that is down might come back with the earlier binary, and might have the new version's commands in its log by then. So it is never
// ignored, however long it is dead: finalisation waits for it, and reports that. A decommissioned node is ignored: it has no replicas left,
// its heartbeats are refused for ever, and its process ends when it learns that. If it has not learnt that by then, each node that acts
// by the new version cuts it off (transport.T7). Its messages until then are of the earlier version, which every node reads; messages to it are refused by
// its decoders, or ignored, and never misread (package wire).
//
// A node that joins is told the cluster's version with its id, and is refused if its binary does not fit; upgrade.UP2 covers those that
// were told before the upgrade began.
package upgrade
