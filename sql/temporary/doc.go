// Package temporary keeps the rows of one session's temporary tables.
//
// # The problem
//
// A temporary table belongs to one session. No other session reads it, it ends with the session, and it need not survive a crash: a range,
// replication, intents and a leased descriptor would be wasted on it. But all of SQL works over it: transactions, savepoints, indexes,
// unique keys, foreign keys, joins with ordinary tables.
//
// # The idea
//
// A temporary table's descriptor has an identity of its own range (catalog.IsLocal), so its rows have keys that no range of the cluster
// has. They are in an ordered map in the memory of the session's node. KV stands where sql/exec expects the transaction: requests
// for those keys are answered from the map, all others go to the transaction. Everything above, operators, backfills,
// constraints, is the same code for both.
//
//	sql/exec, sql/schemachange
//	     |  Get, Scan, Write
//	    KV ------ a key of a temporary table ----> Store    ordered map, copy on write
//	     |
//	     +------- any other key -----------------> txn.Txn  ranges
//
// A session without temporary tables has no Store and no KV: its statements use the transaction itself.
//
// # State
//
// The map is a tree that is copied when it is written (google/btree, Clone). A state is the root of a tree: keeping one costs
// nothing, and returning to it is an assignment.
//
//	begin ----> mark ----> mark ----> seen ----> now
//	  |          |          |          |          '- with the writes of the running statement
//	  |          |          |          '- what the running statement reads
//	  |          '----------'- savepoints, and the beginning of the running statement
//	  '- the beginning of the transaction
//
// Rules:
//
//	temporary.TT1 (txn.TX4): Reads see the writes of earlier statements, not those of the running one; Step draws the line. Conditions of
//	    writes (PutNew, CPut) are checked against the newest state.
//	temporary.TT2 (I2): The store has the transaction's outcome: Commit is called when the ordinary part has committed and can't fail,
//	    Rollback when it has not, and when the session runs the transaction again (session.S2).
//	temporary.TT3 (I9): The session's account of memory includes the map's rows, also deleted and replaced ones for as long as a rollback
//	    may bring them back. Beyond the account a write fails with 53200 and changes nothing.
//	temporary.TT4: No key of a temporary table leaves the node.
//
// # What it does not do
//
// It has no descriptors: those are in Local of sql/catalog/lease, and the session keeps both consistent. There are no locks, since
// no other session reads the rows, and nothing is written to disk.
package temporary
