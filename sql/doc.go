// Package sql is documentation only: the life of a statement, and the packages that have each part of it.
//
//	client
//	  | bytes                                                    pgwire       messages, TLS, passwords, cancel
//	  v
//	session ---- is its plan in the cache? --------------------- session      settings, transaction state, retry, plans
//	  |                 yes: continue at exec
//	  | text                                                     parse        statements, or 42601 with a position
//	  v
//	syntax tree
//	  | + descriptors (catalog/lease; virtual computes pg_catalog and information_schema)
//	  v                                                          bind         names, types; commands become structs
//	logical plan
//	  | + statistics                                             opt          memo, rules, costs
//	  v
//	physical plan
//	  | Build                                                    exec         a Program: slots, compiled scalars, key codecs
//	  v
//	Program --- kept in the cache, shared by all sessions
//	  | Start, with parameters, over a txn.Txn                   exec         operators that pull rows
//	  v
//	keys and values                                              rowcode      rows to entries of indexes, and back
//	  v
//	package txn, and from there to the ranges
//
// # A SELECT by primary key
//
// When its plan is cached, from the second time on:
//
//  1. pgwire reads Bind and Execute, and sees that Sync follows.
//  2. session takes the prepared statement's plan. It checks with the catalogue's snapshot that every descriptor from which the
//     plan was made still has the same version (I7), without a message.
//  3. exec takes a run from the program's pool, encodes the key from the parameters, and calls txn.Get.
//  4. The value's columns are decoded into the row; pgwire writes them in the formats of the Bind message.
//  5. Nothing was written, so the commit sends no message. The output buffer is flushed at Sync.
//
// # An UPDATE by primary key
//
// Step 3 reads with an exclusive lock, so that writers of one row queue instead of failing. The operator then computes
// the new row, gathers the entries of the indexes that change, and, since the statement is the whole transaction and its Sync
// has arrived, passes them to txn.CommitBatch: if they are in one range, that is one round of consensus. Only then is
// the tag written. If the commit fails with a conflict, the output buffer is rewound and steps 3 to 5 are repeated, without the
// client's notice (session.S2).
//
// # CREATE INDEX
//
// bind turns it into a command. session passes that to schemachange, which edits the descriptor and creates a job (package job)
// in the transaction. After the commit, when no node uses an older version, the job fills the index.
//
// # Rules
//
//   - A SQLSTATE exists only here. sqlstate has the codes; session/outcome.go translates the typed errors of lower layers. An error has its
//     position in the query, as in PostgreSQL.
//   - catalog, rowcode, types, scalar and opt are pure: they read no clock and send no requests.
//   - only parse and bind import the grammar library.
//   - PostgreSQL 15 is the reference. types, scalar, bind and virtual have its answers in their testdata.
//
// docs/sql.md has the same with more detail.
package sql
