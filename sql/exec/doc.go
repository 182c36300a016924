// Package exec runs physical plans: it pulls rows through operators that read and write a transaction.
//
// # From plan to rows
//
//	opt.Plan --Build--> Program --Start--> Cursor --Next--> rows
//	                    (shared,           (one execution)
//	                     cached)
//
// Build does the work that is the same for every execution: it resolves columns to slots, compiles scalar
// expressions, and prepares the encoders and decoders of indexes. A Program is immutable and used by every session
// that has the plan in its cache. Start takes the state of an execution (run) from the program's pool: operators
// with their row buffers, so that a prepared lookup by primary key allocates its key, its value and little else.
//
// # Operators
//
// Each node of package opt has an op, the compiled part, and an iter, the state of one run:
//
//	open   start, or start again (an Apply runs its right side once for each left row)
//	next   one row, valid until the following next; its values are valid for ever
//	close  release memory; the iter stays usable
//
// Columns of enclosing queries are read from scalar.Context.Outer, which Apply and embedded subqueries set before
// they open the inner plan. A subquery without outer columns runs once per statement.
//
// # Reading
//
// Index scans turn their constraints into key spans when they are opened, because only then parameters are known.
// A span that names one key is a Get; several such keys are read in batches; other spans are read in pages that are small at first if the
// consumer may stop early. Index joins and lookup joins collect a batch of keys and ask for all of them at once, so that a query's
// wide-area cost does not grow with its rows. Where the plan says so (opt.IndexScan.Follow), the scan below an index join asks for the rows together with
// the entries, and the join fetches those that did not come.
//
// An interleaved join reads rows of several tables, which are stored among each other, by one scan.
//
// # Writing
//
// Mutations gather index entries in batches of bounded size. Rules:
//
//	exec.X1: An entry that must be unique is written with a condition (PutNew); the range, not this package, decides
//	    whether it was there, so that a check and its write are one.
//	exec.X2: Every index that is public or write-only gets the row's new entry, and every index that is at least
//	    delete-only loses the old one. With I7 this keeps an index complete while it is being built (CRDB'20 §5.4).
//	exec.X3: Reads of a statement do not see the statement's own writes; those that have to (ON CONFLICT, UPSERT, self
//	    references) remember the keys that were written, or come after the statement (StepStatement).
//	exec.X4: When the statement is the whole transaction, its last batch carries the commit: with one range written
//	    that is a single round of consensus.
//	exec.X5: The events that a row leaves for the end of the statement (a removed key, a parent that has to exist, a key of a deferrable index)
//	    are processed in the order of the rows and, for one row, of its constraints; events of an action come after all of these. Only events that do not see each other's rows may be reordered. It is PostgreSQL's order of triggers, so a statement fails here if and only if it
//	    does there, and of several violations the same one is reported.
//	exec.X6: A row takes a key of a unique index when it is written: it fails if a row that the statement has not reached yet has the key,
//	    even if that row would release it. Rows are reached in the order of the index that the plan scans; PostgreSQL's order is that of its
//	    heap where it scans no index.
//	exec.X8: A common table expression is computed while it is read, row by row, and no further than it is read. One that changes rows is
//	    computed to its end when the main plan has ended, the last of the WITH clause first; so PostgreSQL orders the changes of a statement.
//	exec.X9: A row is changed once by a statement. UPDATE and DELETE leave a row alone that another part of the statement has changed; ON CONFLICT
//	    meets the rows as the statement has left them (noted), and DO UPDATE fails on one that the statement has written. So that each part finds
//	    what the parts before have done, mutations of a table that has several write one row at a time.
//
// Foreign keys: parents of new rows are looked up in batches before a batch is written. One that is missing is an event, because
// violations of other constraints, by any row, come first. When the statement has run, rows that refer to removed keys are changed
// (CASCADE, SET NULL, SET DEFAULT) or the statement fails (NO ACTION, RESTRICT); a check is of values, so a row that has changed again, or
// is gone, violates nothing. A serializable transaction needs no locks for these reads. Below that, they are locked and checked again at
// the commit (txn.CheckMany, CheckScan). Parents, and the keys that must not be in other regions (exec.X7), are looked for in one request (checkTogether).
//
// A mutation returns its RETURNING rows after all of its writes were accepted. A mutation below the root of a plan (in WITH) makes the
// cursor compute the whole result before it returns the first row.
//
// # Memory
//
// An operator that holds more than a row reserves memory from the statement's Budget first, and fails with 53200 when it is used up (I9).
//
// # What it does not do
//
// It does not spill to disk, does not run in parallel, and does not distribute. It does not retry and does not translate errors of the layers below, except for the failed conditions of exec.X1.
// Statement atomicity is the session's savepoint.
package exec
