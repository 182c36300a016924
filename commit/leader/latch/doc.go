// Package latch serialises requests of one range that touch the same keys.
//
// A latch is held by a request, not by a transaction, and only while the request is evaluated and replicated:
// microseconds for a locking read, one consensus round for a write. What a transaction holds until it ends is a
// lock (package lock).
//
// # Who takes latches
//
// Requests that change something, or take locks, acquire a guard over all of their spans at once:
//
//	Put k3, Put k7, EndTxn at k3            Get k3 with an Exclusive lock
//	  write latch k3 at ts 40                 write latch k3 at all timestamps
//	  write latch k7 at ts 40
//
// Plain reads take nothing. They announce themselves in the timestamp cache first and then only wait for the
// writers that are under way at or below their timestamp (Manager.WaitRead):
//
//	reader at ts r                          writer at ts w
//	1. timestamp cache: k read at r         1. latch k
//	2. wait for writers of k with w <= r    2. timestamp cache: if k was read at r >= w, move w past r
//	3. read                                 3. evaluate, replicate, apply; unlatch
//
// L1 (I3): for every reader and writer of a key, either the writer moves past the reader, or the reader sees what
// the writer wrote. If the reader's 2 does not see the latch, the writer's 1 comes after it, so the writer's 2
// finds the reader's 1. If it does see it with w <= r, it waits until the write is applied. With w > r the value
// is above what the reader reads.
//
// This departs from the read latches of CockroachDB: reads of one key by many clients share no written memory
// here but the timestamp cache's, and a read needs no release.
//
// # Order
//
// Acquisitions are numbered in the order in which they arrive, and one waits for all earlier ones that it
// conflicts with, whether these are held or still waiting:
//
//	L2: latches are granted first come, first served per key, so that no writer starves;
//	L3: waits follow the numbers downwards, so that no cycle of waits exists among latches. A request that has to
//	    wait for a lock gives its latches up first, so there is no cycle through locks either.
//
// # Reads with a limit
//
// The span of a read with a limit reaches further than what it reads, in most cases: the rows from a key on, ten of them. Waiting for the
// writers of all of the span would be waiting for nothing.
//
//	L5: a guard may be queued without a wait (Manager.Queue). Later acquisitions wait for it as for any other, so whatever its
//	    owner reads meanwhile is as if it had waited, if none of the latches ahead of it covers a key of what was read. Which
//	    these were is noted when the guard is queued: one that was released since may have been applied after the read.
//
// # Resolutions
//
// A committed transaction's intent that lies at the commit timestamp is a version already to everybody who knows of the
// commit; what is left to do is to remove its entry in the lock table. The entry has the transaction's id in its key,
// so nobody else writes it, and who reads it takes it for nothing.
//
//	L4: a resolve latch meets resolve latches of the same transaction, its own writes, and write latches without
//	    an owner: those of whoever may change any transaction's entries. It passes readers and the writes of others, so
//	    that a hot row is not closed while its intents are taken away.
//
// # Structure
//
// Latches on single keys sit in a small hash table with chains through the guards themselves, spans in a list.
// A key meets the chain of its hash and the list of spans; a span meets the list of spans, and each guard that holds
// single keys, of which there are tens, by a search among these: a request with ten thousand keys in order costs no
// more to pass by than one with ten. One mutex guards it all; nobody waits while holding it.
//
// See testdata for scripts, and manager_test.go for the check against a naive model.
package latch
