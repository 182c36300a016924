// Package mvcc keeps versions of keys, and the intents of transactions that have not been decided.
//
// # Versions
//
// A write never replaces anything: it adds a version of its key at its timestamp. A read at T sees the newest
// version at or below T, so it sees the same for ever, until garbage collection forbids reads at T. A deletion is a version without a
// value, a tombstone.
//
//	b @ 30  (tombstone)      a read at 35 finds nothing,
//	b @ 20  "two"            a read at 25 finds "two",
//	b @ 10  "one"            a read at 10 finds "one"
//
// # Intents
//
// A transaction's write is provisional until the transaction is decided (CRDB'20 §3). It is two entries, always
// written and removed in one batch:
//
//	lock table   z b / intent / txn   {txn meta, timestamp 40, sequence 2, earlier: {1: "three"}}
//	versions     b @ 40               "four"
//
// The value is where a committed one would be, so committing at that timestamp only removes the lock table entry.
// The entry shows that the version is provisional, so a reader of versions reads the lock table first, unless it knows that there are no
// locks (Stats.IntentCount is zero, for example).
//
//	mvcc.M1 (I2): an intent's version exists exactly as long as its lock table entry, at the timestamp that the entry
//	    says, and is the newest version of its key.
//	mvcc.M2 (I2): no read returns another transaction's provisional value; it conflicts (*LockConflictError) if the
//	    intent is at or below what the read can see, and passes below it otherwise.
//	mvcc.M3 (I3): a write succeeds only above every committed version of its key, and only if the transaction's
//	    snapshot, or that of the statement that saw what is replaced (Seen), is not older than the newest of them
//	    (*kv.WriteTooOldError).
//	mvcc.M4 (I3): versions are immutable: no write changes what a read at a timestamp below it returns.
//	mvcc.M5: the change of Stats that a Writer reports is exactly what ComputeStats would find.
//	mvcc.M6 (I4): a read either sees every version that may have been written before it began, or says that it cannot
//	    know (*kv.UncertaintyError).
//	mvcc.M7 (I2): an intent whose transaction is known to be committed at the intent's timestamp (Outcomes) is a version like any other for
//	    all but its own transaction, and newer ones may follow. Its entry stays until it is resolved: recovery queries it (commit.CR4). So
//	    mvcc.M1's "newest" holds for all but such intents, a key may have several entries, and a reader that does not know the outcome
//	    conflicts with the first of them.
//	mvcc.M8 (I2): an intent whose transaction is known to commit above a plain read, or not at all (Outcomes), is passed by it. The
//	    time that is known is one that the leaseholder's clock had reached while the transaction was pending: a reader's observation of that
//	    clock is compared with it (mvcc.M6).
//
//	mvcc.M9 (I2): versions are not read from an older state of the store than a LockTable's answer that there is no intent on them, or than
//	    the lock table was read from. Else an intent that was aborted and removed in between would leave a version that seems committed.
//	    So a Reader makes its iterators anew when the table has dropped entries since they were made.
//
// An entry also keeps the values that earlier statements of the same transaction wrote to the key, by sequence
// number. A read at a sequence number sees the right one, and a rollback to a savepoint, which is a list of ignored
// sequence ranges, brings the right one back when the intent is resolved. Intents of an earlier attempt of the
// transaction do not exist for it.
//
// Locks without a value (Shared, Exclusive) have the same entry and no version. Those that live only in the
// leaseholder's memory are package commit/leader/lock's.
//
// # Uncertainty
//
// A reader that began at 20, with clocks that differ by at most 5, cannot tell whether a version at 23 was
// written before it began (CRDB'20 §4.2). It meets the version and fails, moves its timestamp to 23 and checks
// that its earlier reads still hold. A version may carry a local timestamp, from the clock of the leaseholder
// that took the write; if the reader had been on that node before, versions with later local timestamps are
// certainly newer than the reader's beginning.
//
// # Reading and writing
//
// A Reader reads any engine.Reader and keeps its iterators for all operations of one request batch: a point read
// is one seek, with bloom filters, into the lock table and one into the versions. A row that has been written often has
// many removed entries, which iterators step over until they are compacted away; a LockTable says which keys have entries, and which, so that only
// these are sought. A Writer is a Reader with a
// batch to write to. It reads the store, or, if a request has to see an earlier one of its batch, the batch.
// The caller may keep the results.
//
// # What it does not do
//
// It never waits and decides no transaction: conflicts are returned as errors. Latches, waiting, pushing and the
// timestamp cache, without which a write could change the past of a read that has been served, are package
// commit/leader's.
package mvcc
