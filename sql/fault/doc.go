// Package fault keeps a defect that one statement meets from stopping the node (I9).
//
// The problem: a nil pointer in the planner or in an operator is a panic, and an unrecovered panic ends the process, with all of its
// sessions and ranges. A client that repeats the statement, on one node after the other, stops the cluster. But a panic in shared code may
// leave a latch held or a structure half-changed; then the process has to end.
//
// The idea: Run calls a function, and examines the stack of its panic.
//
//	session, job                  Run's caller
//	   Run ---------------------------------------------------
//	parse, bind, opt, exec, ...   the statement's own: the panic becomes an error, XX000, and a line in the log
//	   ----------------------------------------------------
//	lease, job, memory, txn, kv   shared with others: the panic continues, and ends the process
//
// Rules:
//
//	fault.FA1 (I9): a panic ends its statement alone if all functions of this project between Run and the panic are of packages whose values
//	    belong to one statement or one session: those below sql, but for sql/catalog/lease, sql/job and sql/memory. Where a session takes a
//	    mutex that others take too, the only code under it is a lookup in a map. txn.DB.Run does not prevent it: it rolls its transaction
//	    back;
//	fault.FA2: a panic in any other function continues: a leaseholder's latches and locks, the lock table, the log and the engine are
//	    possibly half-changed, and only a restart repairs them. rangeserver.Store turns the panic of a request into a broken invariant, so
//	    that it ends the process also where the transport would answer it;
//	fault.FA3: goroutines that run a statement's code are under a Run of their own: those of jobs, and of the statistics. Goroutines that only
//	    send batches for a statement run nothing of its own, and are not;
//	fault.FA4: a client is told the number by which the log of its node has the panic, and never the stack.
//
// Go itself ends the process when the stack overflows, when memory can't be allocated, and when two goroutines write one map: these can't
// be recovered. The binder's bound on depth and sql/memory prevent the first two.
package fault
