// Package route is the gateway's path to the ranges: it knows which range has a key and which node serves the range, and sends batches
// there.
//
// # The problem
//
// Ranges split, merge and move while requests are in flight, and leases move faster still. Asking the range index before every request
// would double its latency, so the gateway keeps a cache (cache.go), which the ranges correct: every batch names the range it is meant for,
// and a node that cannot serve it answers with the descriptor or leaseholder that it knows.
//
//	Send(batch)
//	   |  one range?  yes: straight to sendRange, on the caller's goroutine
//	divide            no: a part for each range (divide.go), side by side;
//	   |                  scans with a limit one range after the other
//	sendRange         one range's replicas, until one serves the part (send.go)
//	   |
//	local store, or transport and codec
//
// # Invariants
//
//	route.RO1: A range descriptor never replaces one of a later generation that overlaps it: splits and merges give the
//	    ranges that come out of them a later generation than those that went in.
//	route.RO2 (I2): A batch that may have reached a range is only sent again if doing its work twice is harmless:
//	    transactional writes carry sequence numbers, a commit is protected by its record and the timestamp cache.
//	    Where a later answer could not tell, the caller gets *kv.AmbiguousError. A condition that fails the second time may have met the
//	    transaction's own value, which others have committed between the two: the error says so, and the coordinator asks (coordinator.CO13).
//	route.RO3 (I2): A one-phase commit is never divided: *kv.OnePhaseError.
//	route.RO4: The range may move a read timestamp by itself only if it sees all of the batch.
//	route.RO5 (I9): A batch of a client ends within a bound when no replica serves it (Patience), with *kv.UnavailableError, or
//	    with *kv.AmbiguousError where route.RO2 asks for it.
//
// route.RO6 is about what a gateway knows of ranges that close the future, see present.go, and route.RO7 about rows that come with their entries, see follow.go;
// route.RO9 is about leaseholders from which nothing is heard, see seek.go.
//
// # Answers of nodes
//
//	NotLeaseholderError   send to the leaseholder that it names; if it names none, to the next replica
//	RangeNotFoundError    to the next replica; if none has the range, look it up again
//	RangeMismatchError    cache its RangeInfos and divide again
//	UnavailableError      to the next replica, with pauses, until the context ends
//	unreachable           the same, unless route.RO2 forbids
//	NotClosedError        to the leaseholder (nearest.go, present.go), unless the batch is for the nearest replica
//	ProtocolError         cache the descriptor, and return the error to the caller: the rows are another protocol's
//	GenerationError       the same; whether the batch was done is not known
//
// # Targets
//
// A batch goes to the leaseholder, unless its Target names the nearest replica, or one by its number; Each sends one to every
// voter of a range (target.go). These are for protocols whose ranges are not served by a leaseholder. Such a batch may be carried out
// twice, so route.RO2 does not prevent it from being sent again. If no quorum of a range was reached, its descriptor is looked up the next
// time: the replicas in the cache may be dead, or removed, and know of no others.
//
// # Lookups
//
// A range that is not in the cache is looked up in the range index with an inconsistent read, which any replica serves without locks: the
// descriptor may be old, and the ranges correct that as well. The read returns the following descriptors, too. Requests that wait for the
// same key share one lookup. While the index can't be read, ranges are where they were last known to be: a region that is cut off from all others
// evicts the ranges whose leaseholders it does not reach, and still has replicas that answer reads of the past. The descriptor of the first range, in which every chain of lookups ends, comes from the members of the cluster.
//
// # What it does not do
//
// It does not know transactions, beyond route.RO2 to route.RO4.
package route
