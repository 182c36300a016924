// Package session is the server's side of one client's session: its settings, prepared statements, portals, the state of its transaction,
// and transparent retries.
//
// The problem: PostgreSQL's clients expect transactions that wait, not transactions that fail and must be tried again; the layers below are
// optimistic and do request retries. The idea: the answer of a statement stays in the gateway's output buffer until the client needs it;
// until then the statements of the transaction can be run again without the client's notice (CRDB'20 §3.4).
//
//	 pgwire
//	   | Query, Parse, Bind, Execute, Sync
//	Session -----> plan cache -----> parse, bind, opt, exec.Build     (once for each text and catalogue state)
//	   |
//	   +---------> exec.Program over txn.Txn                          (every time)
//
// A session connects parts that are independent, each in a package of its own:
//
//	txnstate   the state of the transaction, its changes at the end of a statement, its modes and savepoints
//	portal     prepared statements, portals and cursors, by name: their lifetimes, and their memory
//	replay     the record of a transaction's statements, and the comparison of their answers when they run again
//	plan       prepared plans of statements, and the node's cache of them
//	parameter  settings: their values, through transactions and savepoints
//	advisory   advisory locks: how often each was taken, through savepoints and runs again
//	copydata   the formats of COPY
//	result     the types that sessions share with their connections
//
// Parts that know the session's own state are types of this package, with tests in parts_test.go where they need no cluster:
//
//	settings       the values of settings, and what follows from them: styles, limits, modes of transactions
//	held           memory: the session's, the running statement's and the open transaction's
//	temporaries    temporary relations, their rows and plans
//	deferrals      checks of deferrable constraints that wait
//	rights         the rights of a role, for statements that are not data definition
//	witness        the description of conflicts in errors: sessions, keys, values that the client may see
//	explanation    EXPLAIN's answer in JSON and YAML
//	notifying      LISTEN and NOTIFY, through transactions and savepoints
//	statementTimer statement_timeout
//	shown, ending  the state that other goroutines see, and the means by which they end a statement or the session
//
// transaction.go has the effects of a commit, a rollback and ROLLBACK TO on all of these parts, and retry.go runs a transaction again; the
// statements that are not queries begin in command.go.
//
// Rules:
//
//	session.S1: a statement's success is sent only after its implicit transaction has committed (I1); in a pipeline, where Sync commits,
//	    ReadyForQuery reports it, and Flush may have a result sent before;
//	session.S2: statements run again only if each one's answer, as far as it has been sent, is byte for byte the same; otherwise the client
//	    gets 40001 (I3: the answers that it has are not those of the new run). See package replay and retry.go;
//	session.S3: a cached plan is used only while every descriptor that it was made from has the version that it was made
//	    from (I7);
//	session.S4: an error inside an explicit transaction leaves only ROLLBACK, COMMIT and ROLLBACK TO, as in PostgreSQL.
//	session.S5: a statement runs by the roles and grants that the node knows when it begins: a plan that was made under earlier ones is made
//	    again, also in the middle of a transaction.
//	session.S6: a panic in a statement's own code is that statement's error, XX000, and ends nothing else (fault.FA1): planning and
//	    execution are under fault.Run, as are all other messages, whose session ends with the panic since its state can't be restored.
package session
