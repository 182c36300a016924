// Package memory keeps what statements hold within what their node may spend (I9).
//
// # The problem
//
// A statement's text says nothing about the memory that it needs: array_agg(repeat('x', 5000000)) over a thousand rows is
// one short line. Go has no per-request heaps, and a process that runs out of memory dies with all its sessions. So each
// place whose memory grows with data asks first, and is refused with 53200 while the process is well.
//
// # The tree
//
//	Node       what all sessions of the process hold together; atomic
//	 └ Account of a session: prepared statements, bound arguments, messages under way
//	    └ Account of a statement: rows that operators keep, states of aggregates, large values, buffered output
//
// An account is used by the goroutine of its session. It reserves from the account above in pieces of at least 64 KiB, and
// the first Free bytes of each are not reserved at all, so that a short statement touches no shared memory: taking
// and giving back is an addition and a comparison.
//
// # Rules
//
//	ME1  A node's accounts never hold more than its limit, apart from what each statement has free. Grow reserves before
//	     the caller allocates.
//	ME2  A session is refused when it would hold more than what is left for all others: used by it <= limit - used by all
//	     (dynamic thresholds, Choudhury and Hahne, 1998). One greedy session gets half of the limit, n of them an equal
//	     share limit/(n+1) each, and as much stays free. So those that hold much are refused, and those that hold little
//	     go on: an innocent statement would have to need as much as the greedy ones have.
//	ME3  What was taken is given back when its owner ends, however it ends: Close returns all of an account.
//
// # What is accounted
//
// Values below types.LargeBytes that live for one row only are not: there are at most some thousands of them in a
// statement. What a function needs besides its arguments and its result is counted where it is a multiple of them. The heap
// is larger than the accounts by garbage that is not collected yet; the soft limit of the Go runtime (cmd/meridian) bounds
// that, and is computed from the same figure of the machine.
package memory
