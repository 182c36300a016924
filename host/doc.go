// Package host is the interface between a node and its machine: time, network, disk, random numbers and goroutines.
//
// Nothing above this package asks the operating system for any of them. A node gets one Host when it is made, and uses the machine only
// through it. The simulator depends on that: package sim makes hosts whose clocks drift, whose links lose bytes and whose disks crash, and
// the node cannot tell.
//
//	        node (everything above)
//	                |
//	  +------- host.Host -------+
//	  |      |      |     |     |
//	Clock  Network  FS   Dice  Group
//	  |      |      |     |     |
//	host/machine: the real ones | sim: the simulated ones
//
// Rules that the rest of the tree keeps:
//
//	host.H1: time comes from Clock: a node's skew and drift reach everything that it does;
//	host.H2: every goroutine of a node is started by its Group, and ends when the node stops;
//	host.H3: no mutex is held across a wait on time, network or disk, because virtual time stands still while a
//	    goroutine is stuck on a mutex.
package host
