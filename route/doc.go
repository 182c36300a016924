// Package route is the gateway's way to the ranges: it knows which range holds a key and which node serves the
// range, and takes batches there.
//
// # The problem
//
// Ranges split, merge and move while requests are on their way, and leases move faster still. Asking the range
// index before every request would double its latency, so the gateway remembers (cache.go), acts on what it
// remembers, and lets the ranges correct it: every batch names the range it is meant for, and a node that cannot
// serve it says what it knows instead.
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
//	RO1 A range descriptor never replaces one of a later generation that overlaps it: splits and merges give the
//	    ranges that come out of them a later generation than those that went in.
//	RO2 (I2) A batch that may have reached a range is only sent again if doing its work twice is harmless:
//	    transactional writes carry sequence numbers, a commit is protected by its record and the timestamp cache.
//	    Where a later answer could not tell, the caller gets *kv.AmbiguousError.
//	RO3 (I2) A one-phase commit is never divided: *kv.OnePhaseError.
//	RO4 The range may move a read timestamp by itself only if it sees all of the batch.
//	RO5 (I9) A batch of a client ends within a bound when no replica serves it (Patience), with *kv.UnavailableError, or
//	    with *kv.AmbiguousError where RO2 asks for it.
//
// # What a node may answer, and what follows
//
//	NotLeaseholderError   go where it says; if it does not know, to the next replica
//	RangeNotFoundError    to the next replica; if none has the range, look it up again
//	RangeMismatchError    believe its RangeInfos and divide again
//	UnavailableError      to the next replica, with pauses, until the context ends
//	unreachable           the same, unless RO2 forbids
//	NotClosedError        to the leaseholder (nearest.go)
//
// # Lookups
//
// A range that is not remembered is looked up in the range index with an inconsistent read, which any replica
// serves without locks: what it finds may be old, and the ranges correct that as well. The following descriptors
// come along. Lookups of one key are made once however many wait. The first range, in which all lookups end, is
// asked for among the members of the cluster.
//
// # What it does not do
//
// It does not know transactions, beyond RO2 to RO4.
package route
