package leader

import "sync/atomic"

// Metrics are counters of a store's requests.
type Metrics struct {
	// Freezes count merges that froze a range here, FreezeWaits requests that waited for the outcome.
	Freezes, FreezeWaits atomic.Int64
	Reads, Writes        atomic.Int64 // batches
	LatchWaits           atomic.Int64
	ReadsAhead           atomic.Int64 // scans with a limit that did not wait for writers beyond their rows
	DeadRuns             atomic.Int64 // runs of deleted keys that scans passed in one step (leader.P32)
	LockWaits            atomic.Int64 // requests that waited for a lock or intent
	LockWaitNanos        atomic.Int64
	LongWaits            atomic.Int64 // of LockWaits, those that took more than ten seconds
	LongWaiting          atomic.Int64 // those that do now
	SignalsMissed        atomic.Int64 // waits that ended by the request's own check: a defect
	LocksLost            atomic.Int64 // commits that were refused because locks may have been lost
	LockTimeouts         atomic.Int64
	NotAvailable         atomic.Int64 // NOWAIT
	Pushes               atomic.Int64 // sent
	PushWaits            atomic.Int64 // pushes that waited at a record here
	Expired              atomic.Int64 // transactions aborted because their coordinator was gone
	Deadlocks            atomic.Int64
	Wounded              atomic.Int64 // transactions that older ones have aborted (leader.P27)
	Vouched, GrantWaits  atomic.Int64 // answers about locks ahead of the clock, and grants of locks that have waited for one (leader.P30)
	SeenWaits            atomic.Int64 // answers that waited until what they tell was in the past (leader.P28)
	Recoveries           atomic.Int64
	OnePhaseCommits      atomic.Int64
	Commits              atomic.Int64 // with a record or intents
	Stages               atomic.Int64
	Aborts               atomic.Int64
	Resolved             atomic.Int64 // intents resolved by requests that met them
	RetriesSerialize     atomic.Int64 // answered: the write timestamp was pushed
	RetriesWriteTooOld   atomic.Int64
	RetriesUncertain     atomic.Int64
	Forwarded            atomic.Int64 // retries that the range did itself, by moving the read timestamp
	FollowerReads        atomic.Int64 // batches served without the lease
	PresentReads         atomic.Int64 // of FollowerReads, those of the present
	PresentWaits         atomic.Int64 // of PresentReads, those that waited until the replica knew enough
	FollowerConflicts    atomic.Int64 // batches sent to the leaseholder, because of an intent
	Negotiations         atomic.Int64 // batches that asked up to when stale reads can be served here
	Promises             atomic.Int64 // that leaseholders have made for reads here, when they were asked
	NotClosed            atomic.Int64 // batches sent to the leaseholder, because the timestamp is not closed here
}
