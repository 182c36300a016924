// Package notify carries the notifications of NOTIFY to the sessions that LISTEN, on any node.
//
// The problem: a session listens on one node, and another session commits a NOTIFY on another. The idea: nobody but the nodes
// knows who listens where. The node of the session that notifies, its gateway, tells every live node, and each hands the notifications
// to those of its sessions that listen.
//
//	session           Hub of its node                              Hub of another node        session
//	COMMIT succeeds
//	   |--Publish------> own listeners
//	                     outbox of each live node --"sql.notify"-->  Receive ----------------> queue, ring
//	                     in order, again until answered              drops what it has had
//
// Rules:
//
//	NT1  A notification is published after its transaction has committed, and never if it has not: a transaction whose outcome
//	     is unknown publishes nothing.
//	NT2  What one gateway publishes reaches each listener in the order of the commits there. Notifications of different
//	     gateways are in the order of their arrival, which may differ from listener to listener.
//	NT3  A listener is given a notification at most once: batches of a gateway are numbered, and a node drops those that it has
//	     had. It is given it unless its node is cut off from the gateway for longer than RetainFor, or one of the two stops: there is
//	     no durable queue.
//	NT4  A queue for a node or for a listener is bounded. While one for a node is full, NOTIFY fails (54000). A listener that does
//	     not take what is in its queue is told that it has overflowed, and is given nothing more: its session ends.
//
// A session keeps what a transaction wants to notify until its COMMIT, because ROLLBACK and ROLLBACK TO take it back
// (session/notify.go). sim/simcluster has the tests with three nodes.
package notify
