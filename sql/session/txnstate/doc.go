// Package txnstate is the transaction of a session as its client sees it: its state, the transition at the end of a statement, the commands
// that are allowed in each state, and its savepoints. It is independent of the store and of the session, which calls it and applies the result to
// its other parts.
//
//	         BEGIN                    error
//	 none ----------> explicit ------------------> failed
//	  |  ^              |  COMMIT, ROLLBACK          |  ROLLBACK (COMMIT answers ROLLBACK)
//	  |  +--------------+----------------------------+
//	  | a statement without BEGIN
//	  v
//	implicit ---- end of the query string, or Sync: commit; error: roll back ----> none
//
// In addition to its state a transaction is ending while its COMMIT runs (if that fails, it is over nevertheless), and doomed when it can't
// continue from any savepoint, because it has lost a conflict and could not be run again.
//
//	 in         a statement fails            COMMIT             ROLLBACK TO
//	implicit   over: rolled back            commits, warning   refused
//	explicit   failed; without savepoints   commits            to the savepoint
//	           it gives up its locks
//	  ending   over: rolled back
//	failed     failed                       rolls back         explicit again
package txnstate
