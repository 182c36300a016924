// Package schemachange carries out data definition statements: those that only change descriptors within the
// statement's transaction, and those that continue afterwards, step by step, while other sessions read and write.
//
// # The problem
//
// An index that is being built must not be read before it has an entry for every row, and no node may fail to add
// entries while another relies on them. Nodes learn of a change one after the other; I7 (at most two successive versions of a descriptor in
// use) makes a sequence of small changes safe where one large change is not.
//
// # States
//
//	add an index    absent -> delete-only -> write-only -> (fill) -> public
//	drop an index   public -> write-only -> delete-only -> absent -> (data removed)
//	add a column    absent -> write-only -> public          older rows read the default as of the change (Missing)
//	drop a column   public -> write-only -> absent          its values are skipped in the rows
//	add a check     absent -> write-only -> (validate) -> public
//	SET NOT NULL    a write-only check, validated, then the column's flag
//	change types    new indexes for those with the columns, with the converted rows; filled; frozen; all exchanged together
//	primary key     new copies of all indexes, then they change places, then the old ones are dropped
//	add a region    its value readable -> (replicas in place) -> public
//	drop a region   its value leaving -> (no row, no table has it) -> gone
//
// Two neighbours in each line may be in use at the same time:
//
//	schemachange.SC1 (I7): a node that is at delete-only leaves no entry behind that a write-only node would not have removed;
//	schemachange.SC2 (I7): an index is filled only when every node writes it, so that a row is either seen by the fill, or its
//	    writer adds the entry;
//	schemachange.SC4 (I7): a node that still uses the version before a column was added does not write a row that has the column: reading
//	    the whole row gives rowcode.NewerError, and the transaction starts over with the new version;
//	schemachange.SC6 (I7): while types of columns change, every writer adds the converted row to the rewritten indexes (catalog.Rewrite),
//	    and fails if the row can't be converted; the new indexes take the places of the old ones in a version before which the table is
//	    frozen (lease.L6), because the two versions have no index in common;
//	schemachange.SC7 (I7): a column carries the version of its enum: a value that the reader's version does not know is rowcode.NewerError,
//	    too (schemachange.SC8, in enum.go, is about new values);
//	schemachange.SC3: a table that the transaction itself created is visible to no other: it changes immediately, and its indexes are filled
//	    within the transaction;
//	schemachange.SC5 (I2): only a statement that is all of its transaction leaves work for after the commit. Any other one that needs several
//	    versions, or has to read the rows of others, first locks the table (lease.Txn.Lock, lease.L6) and then does everything within the
//	    transaction, as in schemachange.SC3: the commit publishes the whole change, or none of it. The same holds for an ALTER TABLE of
//	    several actions that a job could not undo as a whole (reverts).
//
// Where the time at which a version becomes valid is registered at all nodes beforehand, some of these states are left out (registered.go).
//
// # The state of a change
//
// A change that takes several versions leaves a Mutation in the table's descriptor. When the transaction commits
// (lease.Txn.BeforeFlush), plan makes one job per table for its new mutations, in the same transaction. The job has no plan of its own: it
// reads the descriptor, does the next step for all of its mutations, publishes, and reads it again (resumeChange). Any node can therefore
// resume it at any point. A failure (a duplicate key, a row that violates the check) makes the job revert: additions turn into drops.
//
// A transaction that fills an index of a locked table gives it an identity that is never used again, so that its entries
// can be loaded (txn.LD1). Because its node may die, a job is recorded first, in a transaction of its own, that clears the
// entries unless the index is there (insure, wanted).
//
// plan also compares each table with its earlier version: for dropped indexes and tables it creates a job that removes their data, after
// RemoveAfter, and then the descriptors.
//
// # The life of ALTER TABLE ... ADD PRIMARY KEY on a loaded table
//
//	session     bind.AlterTable
//	Execute     addPrimaryKey: a second index with Primary set, delete-only; a temporary check for NOT NULL
//	commit      descriptor version 2, the job
//	Finish      version 2 is in use everywhere -> the session's goroutine runs the job
//	job         version 3: write-only; fill in chunks of chunkRows, loaded at the time of their reading
//	            version 4: public, at the front; the old one write-only behind
//	            versions 5, 6: delete-only, gone, and the hidden column rowid with it
//	client      ALTER TABLE
//
// # The life of ALTER TABLE ... ALTER COLUMN ... TYPE
//
//	bind        the expression that makes the new value: the column itself, or USING's; assigned to the new type
//	alterTypes  every stored value is one of the new type, with the same bytes (compatible): the descriptor alone changes
//	            else Table.Rewrite, and an index with Rewritten for the primary index and for each that has the column
//	            (all of them if it is in the primary key), delete-only
//	job         write-only; filled through the expression, NOT NULL and the checks over the row as it will be
//	            frozen; types, defaults and indexes are exchanged (finishRewrite); public
//	failure     of one row: the new indexes are dropped, then Rewrite is removed
//
// In a transaction block, and together with other actions of the statement, it all happens within the transaction, which locks the table
// first (rewritesHere).
//
// # What it does not do
//
// Types of columns that foreign keys use, or by an expression that is not immutable, change within the statement's transaction,
// which locks the table, and so do new columns with a separate value for each row: serial, identity, generated, with a
// volatile default.
//
// See CRDB'20 §5.4, and F1's online schema change which it follows.
package schemachange
