// Package core is the protocol of package fastpaxos as values: records and their options, ballots and quorums, the decisions of acceptors, commits
// and masters, terms, the bytes of all of them, and what a policy says. It reads no clock, disk or network, and starts no goroutine: messages and
// times are arguments, and effects are results. An acceptor reads its range's base through a view (View, Source).
//
// Terms and marks have a mutex, because readers and masters of a gateway, or the replicas of a node, share them. Nothing is waited for under it.
package core
