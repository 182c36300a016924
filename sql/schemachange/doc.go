// Package schemachange carries out data definition statements: those that only change descriptors within the
// statement's transaction, and those that go on afterwards, step by step, while everybody else reads and writes.
//
// # The problem
//
// An index that is being built must not be read before it has an entry for every row, and no node may fail to add
// entries while another relies on them. Nodes learn of a change one after the other; I7 (at most two successive
// versions of a descriptor in use) is what makes a sequence of small changes safe where one large change is not.
//
// # States
//
//	add an index    absent -> delete-only -> write-only -> (fill) -> public
//	drop an index   public -> write-only -> delete-only -> absent -> (data removed)
//	add a column    absent -> write-only -> public          rows of before read the default of then (Missing)
//	drop a column   public -> write-only -> absent          its values are passed over in the rows
//	add a check     absent -> write-only -> (validate) -> public
//	SET NOT NULL    a write-only check, validated, then the column's flag
//	change types    the indexes with the columns anew, with rows as they will be; filled; frozen; all exchanged at once
//	primary key     all indexes anew beside the old ones, then they change places, then the old ones are dropped
//
// Two neighbours in each line may be in use at once:
//
//	SC1 (I7) a node that is at delete-only leaves no entry behind that a write-only node would not have removed;
//	SC2 (I7) an index is filled only when every node writes it, so that a row is either seen by the fill, or its
//	         writer adds the entry;
//	SC4 (I7) a node that uses the version before a column was added does not write a row that has the column: reading it whole is
//	         rowcode.NewerError, and the transaction starts over with the new version;
//	SC6 (I7) while types of columns change, every writer adds to the rewritten indexes the row as it will be
//	         (catalog.Rewrite), and fails if the row can't become one; the new indexes take the places of the old ones in a
//	         version before which the table is frozen (lease.L6), because the two versions know no common index;
//	SC7 (I7) a column has the version of its enum with it: a value that the reader's version does not know is rowcode.NewerError, too;
//	SC3      a table that the transaction itself made is nobody else's: it changes at once, and its indexes are filled
//	         within the transaction;
//	SC5 (I2) only a statement that is all of its transaction leaves work for after the commit. Any other one that needs several
//	         versions, or has to look at the rows of others, first has the table for itself (lease.Txn.Lock, L6) and then
//	         does everything at once, as in SC3: what its transaction has done is there at the commit, or nothing of it. So
//	         does an ALTER TABLE of several actions that a job could not take back as a whole (reverts).
//
// # Where the state lives
//
// A change that takes several versions leaves a Mutation in the table's descriptor. When the transaction commits
// (lease.Txn.BeforeFlush), plan makes one job per table for its new mutations, in the same transaction. The job has no
// plan of its own: it looks at the descriptor, does the next step for all of its mutations, publishes, and looks again
// (resumeChange). It can therefore be taken up by any node at any point. A part that can't be had (a duplicate key, a
// row that violates the check) makes the job revert: additions turn into drops.
//
// A transaction that fills an index of a locked table gives it an identity that nobody else comes to use, so that its entries
// can be loaded (txn, LD1). Because its node may die, a job is recorded first, in a transaction of its own, that clears the
// entries unless the index is there (insure, wanted).
//
// plan also compares each table with what it was: indexes and tables that are gone get a job that removes their data,
// after RemoveAfter, and then forgets the descriptors.
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
//	failure     of one row: the new indexes go as dropped ones do, then Rewrite
//
// In a transaction block, and beside other actions of the statement, it all happens within the transaction, which locks the table
// first (rewritesHere).
//
// # What it does not do
//
// Types of columns that foreign keys use, or by an expression that is not immutable, change within the statement's transaction,
// which locks the table, and so come new columns of which each row has a value of its own: serial, identity, generated, with a
// volatile default. Regions and localities are refused (0A000).
//
// See CRDB'20 §5.4, and F1's online schema change which it follows.
package schemachange
