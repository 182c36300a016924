// Package kill has no code, only tests: three real processes of the real binary are killed under load, one at a time and
// all at once, and started again.
//
// Several writers each repeat one transaction: a row into one ledger, its pair into another, and one more on their own
// counter. They note which transactions were acknowledged and which certainly failed. At the end:
//
//	acknowledged          -> both rows exist               (durability, I1)
//	unknown, failed       -> both or neither               (atomicity)
//	failed for certain    -> neither
//	counter               =  number of pairs               (no lost update)
//	bank                  -> the total, checked all the time
//
// While one node is dead no ledger may be without an acknowledged write for longer than five seconds.
//
// Two more ways to end: TestStagedGatewayDies kills a gateway whose transaction is committed while its record still says
// STAGING; TestPausedLeaseholder stops each node until its leases have expired, and lets it go on, while clients check
// that every key is linearizable.
//
// TestCopiesOfTwoStores puts copies of the stores of two nodes back, which lack the last acknowledged writes.
//
// Run with MERIDIAN_PROCESSES=1, or `make kill`.
package kill
