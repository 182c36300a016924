// Package engine is one store's ordered map on disk: Pebble, opened with this project's options. No other package imports Pebble.
//
// # Keys
//
// An engine key is a key of package keys, a zero byte, and a version. The comparer (Pebble's cockroachkvs, made
// for this layout) orders by key, then puts the empty version first and other versions from newest to oldest:
//
//	key 00                               unversioned: raft log, descriptors of the store, states
//	key 00 wall:8 09                     version at a timestamp whose counter is zero
//	key 00 wall:8 logical:4 0d           version at any other timestamp
//	key 00 strength:1 txn:16 12          lock table entry (keys.LockKey)
//
// The part up to the zero byte is the prefix: bloom filters are built on it, so a point read of a key, or of the
// locks on a key, asks one filter per table whatever the version. Blocks remember the range of wall times in
// them, so a scan for recent changes skips old blocks (IterOptions.MinTime).
//
// # Readers
//
// Engine, Snapshot and an indexed Batch are Readers: they make iterators. An iterator sees the store as it was
// when the iterator was made, and must be closed before its Reader is closed. The bytes that it returns are valid until its next move.
// Iterators are pooled; making one costs about a microsecond.
//
// # Writers
//
// All changes go through a Batch. It is applied atomically, and is its own wire form (Repr), so replicas apply byte for byte what the
// leaseholder evaluated. Commit(true) returns when the batch is durable. CommitNoSyncWait returns when the batch is visible, and SyncWait
// later tells when it is durable; meanwhile other batches of all ranges of the store join the same fsync. Commit(false) is durable no later
// than any later durable commit.
//
// An Ingestion replaces spans by sorted entries that come one after the other, in memory that does not depend on how many
// there are: they become files, which one manifest entry makes part of the store, together with a batch.
//
// # When the disk fails
//
//	engine.EN1 (I1): after an error that leaves the log's tail unknown, no commit is acknowledged ever again. The engine
//	    remembers the first such error (Failure), calls Options.OnFatal once with it, and every later or
//	    waiting commit returns it. The node has to stop: a retry of fsync proves nothing about lost pages.
//	engine.EN2 (I9): a disk that runs full is noticed before it is full. DiskFull reports whether less than
//	    Options.ReserveBytes are free, and the layers above then refuse new data while raft logs, deletions and
//	    compactions may use the reserve; DiskScarce whether three quarters of that are used up too (space.go). The store checks every five
//	    seconds, and whenever it has written a sixteenth of the reserve.
//	engine.EN3 (I9): a disk that hangs fails the store after 20 s in which commits waited for a sync and none ended (stall.go). A node whose
//	    disk is only slow transfers its leases (replica, letGo); one whose disk never returns could not, and would keep them for as long as
//	    it renews its liveness record.
//
//	engine.EN4 (I1): a store that lacks one of its files is refused with the file's name, and never taken for a new one. Its marker file
//	    records that it was made, its node, its last log, and the lengths of that log and of the manifest (marker.go, manifest.go). No crash
//	    takes back a position that was sent to other nodes (position.go).
//	engine.EN5 (I9): a flush or a compaction that finds the disk full is tried again every second, and loses nothing (refused.go). New data
//	    is refused until one succeeds. If memory is full of memtables that can't be flushed, so that no commit ends for 20 s, the store
//	    fails as in engine.EN3.
//
//	engine.EN7 (I9): the space of what batches cleared is free soon while there is little: less than twice the reserve, or less than the reserve in the last
//	    ten minutes. The spans are remembered when a batch is committed, and compacted if they have much and the disk has room for the tables that this writes; before a disk counts as
//	    nearly full, too (reclaim.go). Otherwise a compaction comes when tables overlap, which those of new rows and of cleared ones may never do.
//
//	engine.EN6 (version.CV1, version.CV3): a binary that is too old or too new for a store refuses it before it writes anything. The marker says by which version
//	    the store's node acts, and below which one it has promised not to go back (version.go); both only grow.
//
// OnFatal may be called from inside Pebble with locks held; it must not call the engine, only start the node's
// end.
//
// # Identity
//
// Open takes a lock on the directory: a *LockedError says that another process or engine has it. A store carries
// an Ident; SetIdent writes it once, and CheckIdent answers *IdentError if a node was pointed at the store of
// another cluster or node.
//
// # Time and goroutines
//
// Pebble has its own goroutines for the log, flushes and compactions, and reads its own clock; Close ends them
// all. They run in virtual time: nothing waits longer than a ticker, and no result depends on it.
package engine
