// Package notify carries the notifications of NOTIFY to the sessions that LISTEN, on any node.
//
// The problem: a session listens on one node, and a session of another node commits a NOTIFY. The idea: each node keeps a list of its own
// listeners only. The node of the notifying session, its gateway, sends the notification to the other nodes, and each delivers it to those of
// its sessions that listen.
//
//	session           Hub of its node                              Hub of another node        session
//	COMMIT succeeds
//	   |--Publish------> own listeners
//	                     outbox of each node -------"sql.notify"-->  Receive ----------------> queue, ring
//	                     in order, again until answered              drops duplicates
//
// Rules:
//
//	notify.NT1: A notification is published after its transaction has committed, and never if it has not: a transaction whose outcome
//	    is unknown publishes nothing.
//	notify.NT2: The notifications of one gateway reach each listener in the order of the commits there. Notifications of different
//	    gateways are in the order of their arrival, which may differ from listener to listener.
//	notify.NT3: A listener gets a notification at most once: batches of a gateway are numbered, and a node drops duplicates. It gets it
//	    unless its node can't be reached from the gateway for longer than RetainFor, or one of the two stops: there is no durable queue.
//	notify.NT4: A queue for a node or for a listener is bounded. While one for a node is full, NOTIFY fails (54000). A listener that does
//	    not empty its queue learns that it has overflowed, and gets nothing more: its session ends.
//
// A session keeps the notifications of a transaction until its COMMIT, because ROLLBACK and ROLLBACK TO discard them
// (session/notify.go). sim/simcluster has the tests with three nodes.
package notify
