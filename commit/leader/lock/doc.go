// Package lock is the lock table of one range: the locks that transactions hold until they end, and the requests that wait for them.
//
// # The contents of the table
//
// Two kinds of holds meet here:
//
//   - unreplicated locks, Shared or Exclusive, taken by locking reads (SELECT FOR UPDATE, and the reads of UPDATE and
//     DELETE). They live only in this table. A lease transfer carries them along (Export, Import); they are lost with a lease, in a crash, and when a table is full. That costs fairness, never correctness: a transaction's reads are protected by the timestamp cache and by the checks of its writes (I3), and the loss of locks that the client asked for is found when it commits (lock.K6).
//   - intents that a request met. The storage has them; the table has an entry for as long as requests wait for one, so that they can queue.
//
// An entry:
//
//	k5: held by t1 Exclusive
//	    queue: t2 Exclusive, t3 Shared, t4 Shared       lockers and writers, in order
//	    readers: t5 @12                                 plain reads that met an intent at or below their timestamp
//
// Plain reads pass unreplicated locks and never wait in the queue.
//
// # The life of a waiting request
//
//	latches -> Scan finds a conflict, the guard joins the queue -> latches released -> signal -> latches -> Scan ...
//
// When a hold ends, the first in the queue is granted the key: it is signalled, keeps its place, and all behind it wait for it, until it
// acquires the lock or its request ends (Finish). Consecutive Shared waiters are granted together. So
//
//	lock.K1: a request that began to wait later never overtakes one that conflicts with it, unless its transaction
//	    already holds the key (an upgrade), which waiting would deadlock. The order is one for all keys, so requests
//	    that hold nothing yet never wait for each other in a circle;
//	lock.K2: every waiting request can name a transaction that it waits for (Wait.Holder), a holder or one that was granted before it.
//	    Pushing that transaction follows the edges of the wait-for graph, so a deadlock is found by pushes alone, also across ranges;
//	lock.K3: every waiter is signalled when its conflict is gone, or the table is cleared. Every method that changes an entry
//	    ends with grant, even if it adds a holder: requests of the holder's own transaction may then pass;
//	lock.K4: a request outside of transactions has a place in one queue at most. It can neither be pushed nor be the victim of a
//	    deadlock, so it must not keep others from one key while it waits for another. Requests behind it are told that they wait for the
//	    transaction that it waits for;
//	lock.K6: a lock that is kept (Keep: the client has asked for it) is never forgotten without notice. Lost is at or after the moment at
//	    which the last such lock may have been lost, and before the moment since which all others of this table are held: the beginning of a
//	    lease whose holder has nothing from the one before, a full table, a merge with a range whose table is elsewhere. A lease transfer, a
//	    split and a merge carry kept locks and Lost along. A transaction learns by comparing Lost with the time of its locks that it may
//	    have lost one (leader.P16);
//	lock.K5: of the requests that wait for one transaction at a key, the first is told so (Wait.Front). Its push stands for the others,
//	    and when it leaves, the next one is signalled. A change of holders costs two signals, however long the queue is.
//
// TestEveryoneIsTold checks lock.K3 to lock.K5 after every step of random operations.
//
// A guard keeps its place in queues that it was granted while it waits at another key, so a request that needs
// several keys gets them in the end.
//
// # Bounds
//
// A table has at most MaxLocks entries; above that it forgets those without waiting requests, and those with kept locks only above four
// times as many.
package lock
