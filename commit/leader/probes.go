package leader

// Branches of recovery and of pushes that are reached only if two failures coincide. A simulation checks which of them its seeds have
// reached (package probe).
const (
	probeStaging        = "recovery: a staging transaction without coordinator"
	probeFound          = "recovery: a write is there"
	probeFoundLater     = "recovery: a write is there, but later than staged"
	probePrevented      = "recovery: a write is missing, and prevented"
	probeCommitted      = "recovery: committed"
	probeAborted        = "recovery: aborted"
	probeStagedAnew     = "recovery: it was staged anew meanwhile"
	probeDecidedBefore  = "recovery: it was decided meanwhile"
	probeRecordGone     = "recovery: the record is gone"
	probeRecoveryFailed = "recovery: not everybody could be asked"

	probePushMoves    = "push: a timestamp moved"
	probePushAborts   = "push: an expired transaction aborted"
	probePushNoRecord = "push: an expired transaction had no record"
	probePushWaits    = "push: waits"
	probePushEnded    = "push: the transaction has ended"

	probeRecoveredFirst = "commit: recovery was faster, and committed it"
	probeAbortedFirst   = "commit: others were faster, and aborted it"
	probeReplayed       = "writes came a second time"

	probeLoadApart = "load: a row is loaded on its own"
)

// ProbeSplit is reached when a replica splits: the left side releases its right one, which no replica has yet.
const ProbeSplit = "split: the right side is given away"

// ProbePresent is reached when a replica without the lease serves a read of the present, ProbePresentWaits when the read has to wait there.
const (
	ProbePresent      = "present: served without the lease"
	ProbePresentWaits = "present: a replica without the lease waits"
)

// RecoveryProbes are the branches of transaction recovery.
func RecoveryProbes() []string {
	return []string{probeStaging, probeFound, probeFoundLater, probePrevented, probeCommitted, probeAborted, probeStagedAnew,
		probeDecidedBefore, probeRecordGone, probeRecoveryFailed, probePushMoves, probePushAborts, probePushNoRecord,
		probePushWaits, probePushEnded, probeRecoveredFirst, probeAbortedFirst, probeReplayed}
}
