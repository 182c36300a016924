// Package job runs work that outlives its statement and its node: filling an index, removing the data of a dropped table.
//
// # The idea
//
// A job is a row. A transaction that needs the work writes the row itself, so that the job exists if and only if the transaction committed.
// A node claims the row for a while and keeps renewing the claim while it works; when it dies, the claim expires and another node continues
// from the last checkpoint.
//
//	        Create (in a transaction)
//	            |
//	         pending ---claim---> running ---> succeeded
//	                                 |  ^ claim expired: another node, from the checkpoint
//	                 failed, or      v  |
//	                 cancelled   reverting ---> failed, cancelled
//
//	job.J1: At most one node works on a job: the claim has an end, the claimant stops by its own clock well before it, and
//	    every checkpoint verifies the claim in its transaction.
//	job.J2: Resume may be called any number of times, each time from the last checkpoint; so may Revert. Both have to be idempotent from
//	    there.
//	job.J3: An error of the user's (one with an SQLSTATE that a retry does not change) makes the job revert. One that says of itself that it passes
//	    is retried for as long as it takes, with pauses. Any other is retried a few times without a checkpoint in between; then the job reverts with it as the
//	    cause, because statements wait for the job. Revert is retried in the same way. If it fails for good, Abandon frees what waits for the job, and the job
//	    fails. So no job keeps a statement waiting for ever with an error that nobody sees: that of the last attempt is in the job's row.
//	job.J5: CANCEL JOB ends the attempt that is under way within a fourth of a claim's duration, whether or not it makes checkpoints.
//	job.J4: A row that a later version has written is listed, and neither run nor changed by this one. If a job meets a table that only a later
//	    version understands, its claim is given up, and a node of that version goes on.
//
// # The life of CREATE INDEX
//
// sql/schemachange puts the index into the descriptor as delete-only and creates the job in the same transaction.
// After the commit the session's goroutine itself runs the job (Run): it is quick because it waits for no poll. If the client goes away,
// the node continues the job; if the node dies, another one finds the row when it polls (AdoptInterval).
//
// Rows of finished jobs are kept for Retention, for meridian_internal.jobs.
package job
