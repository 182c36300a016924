package session

import (
	"context"
	"errors"
	"fmt"

	"meridian/clock"
	"meridian/kv"
	"meridian/sql/rowcode"
	"meridian/sql/sqlstate"
	"meridian/storage/engine"
	"meridian/transport"
	"meridian/txn"
)

// Outcome translates any error of the layers below into the error that the client gets: it is the one table of SQLSTATEs for typed
// errors from outside of sql.
func Outcome(err error) *sqlstate.Error {
	var (
		known     *sqlstate.Error
		retry     *txn.RetryError
		aborted   *kv.TxnAbortedError
		tooOld    *kv.WriteTooOldError
		uncertain *kv.UncertaintyError
		mustMove  *kv.TxnRetryError
		refresh   *kv.RefreshFailedError
		deadlock  *kv.DeadlockError
		locked    *kv.LockNotAvailableError
		ambiguous *kv.AmbiguousError
		unavail   *kv.UnavailableError
		overflow  *kv.AddOverflowError
		belowGC   *kv.BelowGCError
		notClosed *kv.NotClosedError
		future    *kv.FutureError
		unreach   *transport.UnreachableError
		fatal     *engine.FatalError
		newer     *rowcode.NewerError
		none      *txn.UnsupportedError
		past      *txn.PastError
		read      *txn.ReadError
		tooMany   *txn.TooManyWritesError
		changed   *kv.ProtocolError
		refused   *kv.ProtocolRefusedError
		unread    *kv.UnreadableError
		doubt     *clock.DoubtError
	)
	switch {
	case errors.As(err, &known) && !(interrupts(known.Code) && errors.As(err, &ambiguous)):
		return known
	case errors.As(err, &retry), errors.As(err, &aborted), errors.As(err, &tooOld), errors.As(err, &uncertain),
		errors.As(err, &mustMove), errors.As(err, &refresh):
		e := &sqlstate.Error{Code: sqlstate.SerializationFailure,
			Message: "could not serialize access due to concurrent update",
			Hint:    "The transaction might succeed if retried.", Cause: err}
		if e.Detail = conflictDetail(err); errors.As(err, &read) && read.Forgotten {
			e.Message = "could not read at the transaction's timestamp any more"
		}
		return e
	case errors.As(err, &newer):
		return &sqlstate.Error{Code: sqlstate.SerializationFailure, Message: "the schema was changed by another transaction",
			Hint: "The transaction might succeed if retried.", Cause: err}
	case errors.As(err, &deadlock):
		return (&sqlstate.Error{Code: sqlstate.DeadlockDetected, Message: "deadlock detected",
			Hint: "The transaction might succeed if retried.", Cause: err}).WithDetail("Transactions that wait for each other: %v.", deadlock.Cycle)
	case errors.As(err, &locked):
		if locked.Timeout {
			return &sqlstate.Error{Code: sqlstate.LockNotAvailable, Message: "canceling statement due to lock timeout", Cause: err}
		}
		return &sqlstate.Error{Code: sqlstate.LockNotAvailable, Message: "could not obtain lock on row", Cause: err}
	case errors.As(err, &ambiguous):
		// Also if the statement was cancelled: the cancellation may have come after the commit.
		return &sqlstate.Error{Code: sqlstate.StatementCompletionUnknown,
			Message: "result of the commit is unknown", Detail: ambiguous.Reason,
			Hint: "Read back what the transaction wrote before trying again.", Cause: err}
	case errors.As(err, &doubt):
		return &sqlstate.Error{Code: sqlstate.CannotConnectNow, Message: "the clocks of the cluster contradict each other", Detail: doubt.Cause.Error() + ".",
			Hint: "SHOW CLUSTER CLOCKS shows them. Set the clocks right, or the bounds of nodes (--clock-source, --clock-bound). Queries AS OF SYSTEM TIME are answered.", Cause: err}
	case errors.As(err, &unread):
		// The text leaves out the key: it may be of a table that the client's role may not read.
		if unread.Later {
			return &sqlstate.Error{Code: sqlstate.FeatureNotSupported, Message: unread.What + " that is needed was written by a later version of Meridian than that of the node that has to read it",
				Detail: unread.Reason + ".", Hint: "Upgrade all nodes to the later version. Rows that do not depend on it can be used.", Cause: err}
		}
		return &sqlstate.Error{Code: sqlstate.DataCorrupted, Message: unread.What + " that is needed can't be read",
			Detail: unread.Reason + ".", Hint: "Rows that do not depend on it can be used. The log of the node says where it is.", Cause: err}
	case errors.As(err, &unavail):
		if unavail.DiskFull {
			return sqlstate.NearlyFull(unavail.Reason, err)
		}
		return &sqlstate.Error{Code: sqlstate.CannotConnectNow, Message: "part of the data is unavailable",
			Detail: unavail.Reason, Hint: "More than a minority of its replicas may be down.", Cause: err}
	case errors.As(err, &unreach):
		return &sqlstate.Error{Code: sqlstate.CannotConnectNow, Message: "a node that is needed can't be reached",
			Detail: unreach.Error(), Cause: err}
	case errors.As(err, &overflow):
		return &sqlstate.Error{Code: sqlstate.NumericOutOfRange, Message: "bigint out of range", Cause: err}
	case errors.As(err, &notClosed): // of a read that only the nearest replicas may serve
		return (&sqlstate.Error{Code: sqlstate.UnsatisfiableStaleness, Message: "no nearby replica can serve the read at its time any more",
			Hint: "Try again, or leave out nearest_only, so that leaseholders serve the read.", Cause: err}).WithDetail("It serves what it has up to %s.", readable(notClosed.Closed))
	case errors.As(err, &belowGC):
		return (&sqlstate.Error{Code: sqlstate.SnapshotTooOld, Message: "snapshot too old: the data of that time is gone",
			Cause: err}).WithDetail("The batch's timestamp must be after the replica's GC threshold, %s.", readable(belowGC.Threshold))
	case errors.As(err, &past):
		return &sqlstate.Error{Code: sqlstate.SnapshotTooOld, Message: "snapshot too old: the data of that time is gone", Cause: err,
			Hint: fmt.Sprintf("Tables with the commit protocol %s can be read as they were up to about a minute ago, and not as they were before one of their ranges has changed.", past.Protocol)}
	case errors.As(err, &future):
		return (&sqlstate.Error{Code: sqlstate.InvalidParameterValue, Message: "the timestamp is too far in the future", Cause: err}).WithDetail(
			"It is %s, and the replica serves up to %s.", readable(future.At), readable(future.Serves))
	case errors.As(err, &none):
		return &sqlstate.Error{Code: sqlstate.FeatureNotSupported, Message: fmt.Sprintf("commit protocol %s does not support %s", none.Protocol, none.What),
			Hint: "Use a table whose commit protocol is leader.", Cause: err}
	case errors.As(err, &tooMany):
		return (&sqlstate.Error{Code: sqlstate.ProgramLimitExceeded,
			Message: fmt.Sprintf("too many writes of one transaction to tables with the commit protocol %s", tooMany.Protocol),
			Hint:    "Use smaller transactions. Or load the rows under the protocol leader: ALTER TABLE ... SET (commit_protocol = 'leader'), and set it back afterwards.", Cause: err}).
			WithDetail("It has %d, entries of indexes among them, and may have %d.", tooMany.Writes, tooMany.Most)
	case errors.As(err, &changed):
		// The transaction has tried for as long as the replicas contradicted each other.
		return &sqlstate.Error{Code: sqlstate.SerializationFailure, Message: "the commit protocol of a table is being changed",
			Hint: "The transaction might succeed if retried.", Cause: err}
	case errors.As(err, &refused):
		e := &sqlstate.Error{Code: sqlstate.FeatureNotSupported, Message: fmt.Sprintf("commit protocol %s is not available", refused.Protocol),
			Detail: "The tables of the system keep the commit protocol leader.", Cause: err}
		if refused.Node != 0 {
			e.Detail = fmt.Sprintf("Node %d does not have it.", refused.Node)
			e.Hint = "Upgrade all nodes first."
		}
		return e
	case errors.Is(err, txn.ErrReadOnly):
		return &sqlstate.Error{Code: sqlstate.ReadOnlyTransaction, Message: "cannot execute a write in a read-only transaction", Cause: err}
	case errors.As(err, &fatal):
		code := sqlstate.IOError
		if fatal.DiskFull {
			code = sqlstate.DiskFull
		}
		return &sqlstate.Error{Code: code, Message: "the node's store failed", Detail: fatal.Error(), Cause: err}
	case errors.Is(err, context.DeadlineExceeded):
		return &sqlstate.Error{Code: sqlstate.QueryCanceled, Message: "canceling statement due to statement timeout", Cause: err}
	case errors.Is(err, context.Canceled):
		return &sqlstate.Error{Code: sqlstate.QueryCanceled, Message: "canceling statement due to user request", Cause: err}
	}
	return &sqlstate.Error{Code: sqlstate.InternalError, Message: "internal error: " + err.Error(), Cause: err}
}

// interrupts reports whether a code is of an error that ends a statement from outside, at any point.
func interrupts(c sqlstate.Code) bool {
	return c == sqlstate.QueryCanceled || c == sqlstate.AdminShutdown
}

// conflictDetail describes a conflict without the key, which may be of a table that the client's role may not read. A session
// checks that and describes more (witness.conflict).
func conflictDetail(err error) string {
	var (
		tooOld  *kv.WriteTooOldError
		refresh *kv.RefreshFailedError
		aborted *kv.TxnAbortedError
		retry   *txn.RetryError
		read    *txn.ReadError
	)
	switch {
	case errors.As(err, &refresh):
		return "A key was read, and then written by another transaction."
	case errors.As(err, &tooOld):
		return "A key was written by another transaction."
	case errors.As(err, &aborted):
		return "Another transaction aborted this one: " + aborted.Reason + "."
	case errors.As(err, &read):
		return readDetail(read)
	case errors.As(err, &retry):
		return retry.Error()
	}
	return ""
}

// readDetail says why what a transaction has read, or would read, at its timestamp is of no use.
func readDetail(e *txn.ReadError) string {
	if e.Forgotten {
		return fmt.Sprintf("Tables with the commit protocol %s can be read at a transaction's timestamp until their ranges are merged, get another protocol, or have most of their replicas moved.", e.Protocol)
	}
	return "A row that the transaction has read was written by another transaction since."
}

// Retryable reports whether a transaction that failed with err may succeed if it is run again.
func Retryable(err error) bool {
	c := Outcome(err).Code
	return c == sqlstate.SerializationFailure || c == sqlstate.DeadlockDetected
}
