// Package parameter has the run-time parameters of a session, which SET changes: their names, domains and forms of display (All), and the
// values of one session (Values).
//
// There are three levels of values: SET LOCAL has precedence over SET, and SET over the defaults, to which a database or a role may have
// added (Adopt). A rollback, to a savepoint or of the transaction, undoes both:
//
//	             SET a = 1            SET LOCAL a = 2      COMMIT    ROLLBACK
//	local                             a=2
//	session      a=1                  a=1                  a=1
//	defaults     a=0                  a=0                  a=0       a=0
//
// The session interprets changed values; End and RollbackTo return the names of those that have changed.
package parameter
