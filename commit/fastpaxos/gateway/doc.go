// Package gateway is the part of package fastpaxos that transactions drive: proposals and their outcomes, masters and terms, turns at hot rows, reads at
// all levels, and the recovery of what other gateways have left. A Client is one node's.
package gateway
