package kv

import (
	"context"
	"errors"
	"fmt"
)

// Error tags.
const (
	errNone = iota
	errInternal
	errCanceled
	errDeadline
	errNotLeaseholder
	errRangeNotFound
	errRangeMismatch
	errWriteTooOld
	errUncertainty
	errTxnRetry
	errTxnAborted
	errDeadlock
	errRefreshFailed
	errConditionFailed
	errLockNotAvailable
	errAddOverflow
	errAmbiguous
	errBelowGC
	errUnavailable
	errNotClosed
	errLocksLost
	errOnePhase
	errAnswerTooLarge
	errLast = errAnswerTooLarge
)

// appendError adds an error. What is wrapped loses its wrapping; what is not of this package becomes an
// InternalError, save for the two ends of a context.
func appendError(b []byte, err error) []byte {
	for e := err; e != nil; e = errors.Unwrap(e) {
		if r, ok := appendTypedError(b, e); ok {
			return r
		}
	}
	if err == nil {
		return append(b, errNone)
	}
	switch {
	case errors.Is(err, context.Canceled):
		return append(b, errCanceled)
	case errors.Is(err, context.DeadlineExceeded):
		return append(b, errDeadline)
	}
	return appendString(append(b, errInternal), err.Error())
}

func appendTypedError(b []byte, err error) ([]byte, bool) {
	switch e := err.(type) {
	case *InternalError:
		return appendString(append(b, errInternal), e.Message), true
	case *NotLeaseholderError:
		b = appendUint(append(b, errNotLeaseholder), uint64(e.Range))
		return appendOptDescriptor(appendReplica(b, e.Leaseholder), e.Desc), true
	case *RangeNotFoundError:
		return appendUint(append(b, errRangeNotFound), uint64(e.Range)), true
	case *RangeMismatchError:
		return appendList(appendSpan(append(b, errRangeMismatch), e.Span), e.Infos, appendRangeInfo), true
	case *WriteTooOldError:
		b = append(appendTS(appendBytes(append(b, errWriteTooOld), e.Key), e.Actual), e.By[:]...)
		return appendUint(b, uint64(e.Gateway)), true
	case *UncertaintyError:
		return appendTS(appendTS(appendBytes(append(b, errUncertainty), e.Key), e.Value), e.RetryAt), true
	case *TxnRetryError:
		return appendTS(append(b, errTxnRetry, byte(e.Reason)), e.WriteTimestamp), true
	case *TxnAbortedError:
		return appendString(append(append(b, errTxnAborted), e.ID[:]...), e.Reason), true
	case *DeadlockError:
		b = appendUint(append(b, errDeadlock), uint64(len(e.Cycle)))
		for _, id := range e.Cycle {
			b = append(b, id[:]...)
		}
		return appendList(b, e.Waits, appendWait), true
	case *RefreshFailedError:
		b = append(appendTS(appendBytes(append(b, errRefreshFailed), e.Key), e.Written), e.By[:]...)
		return appendUint(b, uint64(e.Gateway)), true
	case *LocksLostError:
		return appendTS(appendBytes(append(b, errLocksLost), e.Key), e.Lost), true
	case *OnePhaseError:
		return append(b, errOnePhase), true
	case *AnswerTooLargeError:
		return append(b, errAnswerTooLarge), true
	case *ConditionFailedError:
		return appendBytes(appendBytes(append(b, errConditionFailed), e.Key), e.Actual), true
	case *LockNotAvailableError:
		b = append(appendBytes(append(b, errLockNotAvailable), e.Key), e.Holder[:]...)
		return appendBool(b, e.Timeout), true
	case *AddOverflowError:
		return appendInt(appendInt(appendBytes(append(b, errAddOverflow), e.Key), e.Value), e.Delta), true
	case *AmbiguousError:
		return appendString(append(b, errAmbiguous), e.Reason), true
	case *BelowGCError:
		return appendTS(append(b, errBelowGC), e.Threshold), true
	case *NotClosedError:
		return appendBool(appendTS(appendUint(append(b, errNotClosed), uint64(e.Range)), e.Closed), e.Intent), true
	case *UnavailableError:
		return appendBool(appendString(append(b, errUnavailable), e.Reason), e.DiskFull), true
	}
	return b, false
}

func (d *decoder) error() error {
	switch d.enum(errLast) {
	case errInternal:
		return &InternalError{Message: d.string()}
	case errCanceled:
		return fmt.Errorf("at the range: %w", context.Canceled)
	case errDeadline:
		return fmt.Errorf("at the range: %w", context.DeadlineExceeded)
	case errNotLeaseholder:
		return &NotLeaseholderError{
			Range: RangeID(d.uvarint()), Leaseholder: d.replica(), Desc: d.optDescriptor(),
		}
	case errRangeNotFound:
		return &RangeNotFoundError{Range: RangeID(d.uvarint())}
	case errRangeMismatch:
		return &RangeMismatchError{Span: d.span(), Infos: list(d, 11, (*decoder).rangeInfo)}
	case errWriteTooOld:
		return &WriteTooOldError{Key: d.key(), Actual: d.ts(), By: d.txnID(), Gateway: NodeID(d.uint32())}
	case errUncertainty:
		return &UncertaintyError{Key: d.key(), Value: d.ts(), RetryAt: d.ts()}
	case errTxnRetry:
		return &TxnRetryError{Reason: RetryReason(d.enum(byte(RetryPossibleReplay))), WriteTimestamp: d.ts()}
	case errTxnAborted:
		return &TxnAbortedError{ID: d.txnID(), Reason: d.string()}
	case errDeadlock:
		return &DeadlockError{Cycle: list(d, 16, (*decoder).txnID), Waits: list(d, minWait, (*decoder).wait)}
	case errRefreshFailed:
		return &RefreshFailedError{Key: d.key(), Written: d.ts(), By: d.txnID(), Gateway: NodeID(d.uint32())}
	case errOnePhase:
		return &OnePhaseError{}
	case errAnswerTooLarge:
		return &AnswerTooLargeError{}
	case errLocksLost:
		return &LocksLostError{Key: d.key(), Lost: d.ts()}
	case errConditionFailed:
		return &ConditionFailedError{Key: d.key(), Actual: d.bytes()}
	case errLockNotAvailable:
		return &LockNotAvailableError{Key: d.key(), Holder: d.txnID(), Timeout: d.bool()}
	case errAddOverflow:
		return &AddOverflowError{Key: d.key(), Value: d.varint(), Delta: d.varint()}
	case errAmbiguous:
		return &AmbiguousError{Reason: d.string()}
	case errBelowGC:
		return &BelowGCError{Threshold: d.ts()}
	case errNotClosed:
		return &NotClosedError{Range: RangeID(d.uvarint()), Closed: d.ts(), Intent: d.bool()}
	case errUnavailable:
		return &UnavailableError{Reason: d.string(), DiskFull: d.bool()}
	}
	return nil
}

// minWait is the least size of a wait.
const minWait = 37

func appendWait(b []byte, w TxnWait) []byte {
	b = appendUint(append(b, w.ID[:]...), uint64(w.Gateway))
	b = appendTS(appendInt(b, int64(w.Priority)), w.MinTimestamp)
	return appendBytes(append(b, w.For[:]...), w.Key)
}

func (d *decoder) wait() TxnWait {
	return TxnWait{ID: d.txnID(), Gateway: NodeID(d.uint32()), Priority: int32(d.varint()), MinTimestamp: d.ts(), For: d.txnID(), Key: d.key()}
}
