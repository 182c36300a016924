// Package session is one client's conversation with the database: its settings, prepared statements, portals, the
// state of its transaction, and the retry that it does not see.
//
// The problem: PostgreSQL's clients know transactions as something that waits, not something that fails and must
// be tried again; the layers below are optimistic and do ask for another try. The idea: what a statement answers
// stays in the gateway's output buffer until the client has to hear it; until then the statements of the
// transaction can be run again, and nobody can tell (CRDB'20 §3.4).
//
//	 pgwire
//	   | Query, Parse, Bind, Execute, Sync
//	Session -----> plan cache -----> parse, bind, opt, exec.Build     (once for each text and catalogue state)
//	   |
//	   +---------> exec.Program over txn.Txn                          (every time)
//
// State of a session's transaction:
//
//	         BEGIN                    error
//	 none ----------> explicit ------------------> failed
//	  |  ^              |  COMMIT, ROLLBACK          |  ROLLBACK (COMMIT answers ROLLBACK)
//	  |  +--------------+----------------------------+
//	  | a statement without BEGIN
//	  v
//	implicit ---- end of the query string, or Sync: commit; error: roll back ----> none
//
// Rules:
//
//	S1  a statement's success is sent only after its implicit transaction has committed (I1); in a pipeline, where Sync commits,
//	    it is ReadyForQuery that says so, and Flush may have a result sent before;
//	S2  statements run again only if each one's answer, as far as it has been sent, comes out byte for byte the same;
//	    else the client hears 40001 (I3: what it was told is not what would come out now). replay.go has the how;
//	S3  a cached plan is used only while every descriptor that it was made from has the version that it was made
//	    from (I7);
//	S4  an error inside an explicit transaction leaves only ROLLBACK, COMMIT and ROLLBACK TO, as in PostgreSQL.
//	S5  a statement runs by the roles and grants that the node knows when it begins: a plan that was made under others is made
//	    again, whatever transaction it runs in.
//	S6  a panic of what a statement runs is that statement's error, XX000, and ends nothing else (FA1): planning and execution are
//	    under fault.Run, as are all other messages, whose session ends with the panic since nothing else would put it in order.
package session
