// Package memory keeps the memory of statements within a limit of their node (I9).
//
// # The problem
//
// A statement's text says nothing about the memory that it needs: array_agg(repeat('x', 5000000)) over a thousand rows is
// one short line. Go has no per-request heaps, and a process that runs out of memory dies with all its sessions. So each structure that
// grows with data reserves memory first, and is refused with 53200 before the process is in danger.
//
// # The tree
//
//	Node       the memory of all sessions of the process; atomic
//	 └ Account of a session: prepared statements, bound arguments, messages in progress
//	    └ Account of a statement: rows that operators keep, states of aggregates, large values, buffered output
//
// An account is used by the goroutine of its session. It reserves from the account above in pieces of at least 64 KiB, and
// the first Free bytes of each are not reserved at all, so that a short statement touches no shared memory: reserving and releasing is an
// addition and a comparison.
//
// # Rules
//
//	memory.ME1: A node's accounts never hold more than its limit, apart from each statement's free part. Grow reserves before
//	    the caller allocates.
//	memory.ME2: A session is refused when it would hold more than is left for all others: used by it <= limit - used by all (dynamic
//	    thresholds, Choudhury and Hahne, 1998). One large session gets half of the limit, n of them an equal share limit/(n+1) each, and as
//	    much stays free. So sessions that hold much are refused, and those that hold little continue: a small statement would have to need
//	    as much as the large ones have.
//	memory.ME3: Memory is released when its owner ends, on every path: Close releases all of an account.
//
// # The accounted memory
//
// Values below types.LargeBytes that live for one row only are not: there are at most some thousands of them in a
// statement. A function's memory in addition to its arguments and its result is counted where it is a multiple of them. The heap is larger
// than the accounts because of garbage that is not collected yet; the soft limit of the Go runtime (cmd/meridian) bounds that, and is
// computed from the same figure of the machine.
package memory
