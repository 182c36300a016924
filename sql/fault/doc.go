// Package fault keeps a defect that one statement meets from ending the node (I9).
//
// The problem: a nil pointer in the planner or in an operator is a panic, and a panic that nobody recovers ends the process, with
// all of its sessions and ranges. A client that repeats the statement, on one node after the other, ends the cluster. But a panic
// in code that others share may leave a latch held or a structure half-changed; then it is the process that has to end.
//
// The idea: Run calls a function, and looks at the stack of its panic.
//
//	session, job                  Run's caller
//	   Run ---------------------------------------------------
//	parse, bind, opt, exec, ...   the statement's own: the panic becomes an error, XX000, and a line in the log
//	   ----------------------------------------------------
//	lease, job, memory, txn, kv   shared with others: the panic goes on, and ends the process
//
// Rules:
//
//	FA1 (I9) a panic ends its statement alone if all functions of this project between Run and the panic are of packages whose values
//	    belong to one statement or one session: those below sql, but for sql/catalog/lease, sql/job and sql/memory. Where a session does
//	    take a mutex that others take too, nothing under it can panic but a lookup in a map. txn.DB.Run is no obstacle: it rolls its
//	    transaction back;
//	FA2 a panic in any other function goes on: a leaseholder's latches and locks, the lock table, the log and the engine are
//	    possibly half-changed, and a restart is what mends them. rangeserver.Store turns the panic of a request into a broken invariant, so
//	    that it ends the process also where the transport would answer it;
//	FA3 goroutines that run a statement's code are under a Run of their own: those of jobs, and of the statistics. Goroutines that only
//	    send batches for a statement run nothing of its own, and are not.
//
// Go itself ends the process when the stack overflows, when memory is not to be had, and when two goroutines write one map: no
// recovery sees these. The binder's bound on depth and sql/memory stand before the first two.
package fault
