// Package job runs work that outlives a statement, and the node that began it: filling an index, removing the data
// of a dropped table.
//
// # The idea
//
// A job is a row. Whoever wants work done writes the row in a transaction of their own, so that the work exists if
// and only if the transaction committed. A node claims the row for a while and keeps renewing the claim while it
// works; when it dies, the claim runs out and another node goes on from the last checkpoint.
//
//	        Create (in a transaction)
//	            |
//	         pending ---claim---> running ---> succeeded
//	                                 |  ^ claim ran out: another node, from the checkpoint
//	                 failed, or      v  |
//	                 cancelled   reverting ---> failed, cancelled
//
//	J1 At most one node works on a job: the claim has an end, the claimant stops by its own clock well before it, and
//	   every checkpoint verifies the claim in its transaction.
//	J2 Resume may be called any number of times, each time from the last checkpoint; so may Revert. What they do has to
//	   be idempotent from there.
//	J3 An error of the user's (one with an SQLSTATE that another try does not mend) makes the job revert; any other is
//	   tried again, with pauses.
//
// # The life of CREATE INDEX
//
// sql/schemachange puts the index into the descriptor as delete-only and creates the job in the same transaction.
// After the commit the session's goroutine itself runs the job (Run): it is quick because no poll is waited for. If
// the client goes away, the node goes on with it; if the node does, the poll of another finds the row (AdoptInterval).
//
// Rows of finished jobs are kept for Retention, for meridian_internal.jobs.
package job
