// Package latch serialises requests of one range that touch the same keys.
//
// A latch is held by a request, not by a transaction, and only while the request is evaluated and replicated:
// microseconds for a locking read, one consensus round for a write. A lock (package lock) is held by a transaction until it ends.
//
// # The users of latches
//
// Requests that write, or take locks, acquire a guard over all of their spans together:
//
//	Put k3, Put k7, EndTxn at k3            Get k3 with an Exclusive lock
//	  write latch k3 at ts 40                 write latch k3 at all timestamps
//	  write latch k7 at ts 40
//
// Plain reads take no latches. They enter the timestamp cache first and then only wait for the writers in progress at or below their
// timestamp (Manager.WaitRead):
//
//	reader at ts r                          writer at ts w
//	1. timestamp cache: k read at r         1. latch k
//	2. wait for writers of k with w <= r    2. timestamp cache: if k was read at r >= w, move w past r
//	3. read                                 3. evaluate, replicate, apply; unlatch
//
//	latch.L1 (I3): for every reader and writer of a key, either the writer moves past the reader, or the reader sees the writer's value. If
//	    the reader's 2 does not see the latch, the writer's 1 comes after it, so the writer's 2 finds the reader's 1. If it does see it with
//	    w <= r, it waits until the write is applied. With w > r the value is above what the reader reads.
//
// This departs from the read latches of CockroachDB: reads of one key by many clients share no written memory
// here but the timestamp cache's, and a read needs no release.
//
// # Order
//
// Acquisitions are numbered in the order in which they arrive, and one waits for all earlier ones that it
// conflicts with, whether these are held or still waiting:
//
//	latch.L2: latches are granted first come, first served per key, so that no writer starves;
//	latch.L3: waits follow the numbers downwards, so that no cycle of waits exists among latches. A request that has to wait for a lock
//	    releases its latches first, so there is no cycle through locks either.
//
// # Reads with a limit
//
// The span of a read with a limit usually reaches further than its rows: ten rows from a key on. Most writers in the span do not concern
// it.
//
//	latch.L5: a guard may be queued without a wait (Manager.Queue). Later acquisitions wait for it as for any other, so its owner's reads
//	    are as if it had waited, if none of the latches ahead of it covers a key that was read. The guard notes these latches when it is
//	    queued: one that was released since may have been applied after the read.
//
// # Resolutions
//
// A committed transaction's intent that lies at the commit timestamp is a version already for every request that knows of the commit; only
// its entry in the lock table remains to be removed. The entry has the transaction's id in its key, so no other transaction writes it, and
// a reader that knows of the commit ignores it.
//
//	latch.L4: a resolve latch meets resolve latches of the same transaction, its own writes, and write latches without an owner, which
//	    belong to requests that may change any transaction's entries. It passes readers and the writes of others, so that a hot row stays
//	    available while its intents are removed.
//
// # Structure
//
// Latches on single keys sit in a small hash table with chains through the guards themselves, spans in a list.
// A key meets the chain of its hash and the list of spans; a span meets the list of spans, and each guard that holds
// single keys, of which there are tens, by a search among these: a request with ten thousand keys in order costs no
// more to pass by than one with ten. One mutex guards it all; no goroutine waits while it holds the mutex.
//
// See testdata for scripts, and manager_test.go for the check against a naive model.
package latch
