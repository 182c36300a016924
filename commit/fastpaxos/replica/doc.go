// Package replica is the part of package fastpaxos that replicas drive: the acceptor of a replica over the range's base (Voter), the states with which
// generations begin and end (protocol.go), and the news by which stores hear of what their replicas have missed (news.go).
//
// Replicas and gateways know each other by messages only. A replica that finds something overdue asks its node's gateway, as one of the node's
// Finishers (Ender, Mender).
package replica
