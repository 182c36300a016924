// Package clock orders events across nodes: hybrid logical timestamps, the clock that issues them, and the interval in
// which the present must lie.
//
// A Timestamp is wall nanoseconds and a logical counter. A node's Clock issues timestamps that only grow, and moves forward with the
// readings of other nodes' clocks that arrive in their messages, so causally related events are ordered whatever the physical clocks show
// (CRDB'20 §4.1). Physical clocks only matter for real-time order.
//
// # The interval
//
//	Earliest            what this node's clock shows            Latest
//	   |-------------------------|-------------------------------|        other nodes' clocks show something in here
//	 After(t): t is left of it                      Before(t): t is right of it
//
// Code that compares clocks asks for an Interval: for the uncertainty of a read, the end of a lease, the moment of an answer. Its width is
// the configured maximum offset of the cluster, and it is as reliable as that number. docs/clock.md lists every place that asks for one, and
// the consequences if a clock lies.
//
// # True time
//
// A Source gives a node's clock its time, and an interval that has true time in it (Clock.TrueTime; Spanner §3). External consistency rests on this interval alone:
// a commit timestamp is not below its Latest, and nobody sees the commit before Earliest has passed it.
package clock
