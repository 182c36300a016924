package kv

import (
	"context"
	"errors"
	"fmt"

	"meridian/wire"
)

// An error is a message with one field, which says of which kind it is. All are odd: an error that the reader does not know
// must not be taken for none.
const (
	errInternal         = 1
	errCanceled         = 3
	errDeadline         = 5
	errNotLeaseholder   = 7
	errRangeNotFound    = 9
	errRangeMismatch    = 11
	errWriteTooOld      = 13
	errUncertainty      = 15
	errTxnRetry         = 17
	errTxnAborted       = 19
	errDeadlock         = 21
	errRefreshFailed    = 23
	errConditionFailed  = 25
	errLockNotAvailable = 27
	errAddOverflow      = 29
	errAmbiguous        = 31
	errBelowGC          = 33
	errUnavailable      = 35
	errNotClosed        = 37
	errLocksLost        = 39
	errOnePhase         = 41
	errAnswerTooLarge   = 43
	errProtocol         = 45
	errGeneration       = 47
	errProtocolRefused  = 49
	errUnreadable       = 51
	errFuture           = 53
)

// appendError adds an error. A wrapped error loses its wrapping; what is not of this package becomes an
// InternalError, save for the two ends of a context.
func appendError(b []byte, err error) []byte {
	for e := err; e != nil; e = errors.Unwrap(e) {
		if r, ok := appendTypedError(b, e); ok {
			return r
		}
	}
	if err == nil {
		return b
	}
	switch {
	case errors.Is(err, context.Canceled):
		return wire.Bool(b, errCanceled, true)
	case errors.Is(err, context.DeadlineExceeded):
		return wire.Bool(b, errDeadline, true)
	}
	b, _ = appendTypedError(b, &InternalError{Message: err.Error()})
	return b
}

func appendTypedError(b []byte, err error) ([]byte, bool) {
	switch e := err.(type) {
	case *InternalError:
		b, at := wire.Begin(b, errInternal)
		return wire.End(wire.String(b, 1, e.Message), at), true
	case *RangeNotFoundError:
		b, at := wire.Begin(b, errRangeNotFound)
		return wire.End(wire.Uint(b, 1, uint64(e.Range)), at), true
	case *RangeMismatchError:
		b, at := wire.Begin(b, errRangeMismatch)
		return wire.End(rangeInfoFields(spanField(b, 1, &e.Span), 2, e.Infos), at), true
	case *WriteTooOldError:
		b, at := wire.Begin(b, errWriteTooOld)
		return wire.End(wire.Uint(wire.ID(wire.Timestamp(wire.Bytes(b, 1, e.Key), 3, e.Actual), 2, e.By), 4, uint64(e.Gateway)), at), true
	case *UncertaintyError:
		b, at := wire.Begin(b, errUncertainty)
		return wire.End(wire.Timestamp(wire.Timestamp(wire.Bytes(b, 1, e.Key), 3, e.Value), 5, e.RetryAt), at), true
	case *TxnRetryError:
		b, at := wire.Begin(b, errTxnRetry)
		return wire.End(wire.Timestamp(wire.Uint(b, 1, uint64(e.Reason)), 3, e.WriteTimestamp), at), true
	case *TxnAbortedError:
		b, at := wire.Begin(b, errTxnAborted)
		return wire.End(wire.String(wire.ID(b, 1, e.ID), 2, e.Reason), at), true
	case *RefreshFailedError:
		b, at := wire.Begin(b, errRefreshFailed)
		return wire.End(wire.Uint(wire.ID(wire.Timestamp(wire.Bytes(b, 1, e.Key), 3, e.Written), 2, e.By), 4, uint64(e.Gateway)), at), true
	case *LocksLostError:
		b, at := wire.Begin(b, errLocksLost)
		return wire.End(wire.Timestamp(wire.Bytes(b, 1, e.Key), 3, e.Lost), at), true
	case *ConditionFailedError:
		b, at := wire.Begin(b, errConditionFailed)
		return wire.End(wire.Bytes(wire.Bytes(b, 1, e.Key), 3, e.Actual), at), true
	case *LockNotAvailableError:
		b, at := wire.Begin(b, errLockNotAvailable)
		return wire.End(wire.Bool(wire.ID(wire.Bytes(b, 1, e.Key), 3, e.Holder), 5, e.Timeout), at), true
	case *AddOverflowError:
		b, at := wire.Begin(b, errAddOverflow)
		return wire.End(wire.Int(wire.Int(wire.Bytes(b, 1, e.Key), 3, e.Value), 5, e.Delta), at), true
	case *AmbiguousError:
		b, at := wire.Begin(b, errAmbiguous)
		return wire.End(wire.String(b, 2, e.Reason), at), true
	case *BelowGCError:
		b, at := wire.Begin(b, errBelowGC)
		return wire.End(wire.Timestamp(b, 1, e.Threshold), at), true
	case *FutureError:
		b, at := wire.Begin(b, errFuture)
		return wire.End(wire.Timestamp(wire.Timestamp(b, 1, e.At), 3, e.Serves), at), true
	case *NotClosedError:
		b, at := wire.Begin(b, errNotClosed)
		return wire.End(wire.Bool(wire.Timestamp(wire.Uint(b, 1, uint64(e.Range)), 3, e.Closed), 5, e.Intent), at), true
	case *UnavailableError:
		b, at := wire.Begin(b, errUnavailable)
		return wire.End(wire.String(wire.Bool(b, 1, e.DiskFull), 2, e.Reason), at), true
	case *NotLeaseholderError:
		b, at := wire.Begin(b, errNotLeaseholder)
		b = replicaField(wire.Uint(b, 1, uint64(e.Range)), 2, &e.Leaseholder)
		return wire.End(optDescriptorField(b, 4, e.Desc), at), true
	case *ProtocolError:
		b, at := wire.Begin(b, errProtocol)
		b = wire.Uint(wire.Uint(b, 1, uint64(e.Range)), 3, uint64(e.Protocol))
		return wire.End(optDescriptorField(b, 2, e.Desc), at), true
	case *GenerationError:
		b, at := wire.Begin(b, errGeneration)
		b = wire.Bool(wire.Uint(b, 1, uint64(e.Range)), 3, e.Sealed)
		return wire.End(optDescriptorField(b, 2, e.Desc), at), true
	case *ProtocolRefusedError:
		b, at := wire.Begin(b, errProtocolRefused)
		return wire.End(wire.Uint(wire.Uint(wire.Uint(b, 1, uint64(e.Range)), 3, uint64(e.Protocol)), 5, uint64(e.Node)), at), true
	case *UnreadableError:
		b, at := wire.Begin(b, errUnreadable)
		b = wire.Bytes(wire.String(wire.Bool(b, 1, e.Later), 2, e.What), 4, e.Key)
		return wire.End(wire.String(b, 6, e.Reason), at), true
	case *DeadlockError:
		b, at := wire.Begin(b, errDeadlock)
		for _, id := range e.Cycle {
			b = wire.Element(b, 1, id[:])
		}
		return wire.End(waitFields(b, 2, e.Waits), at), true
	case *OnePhaseError:
		b, at := wire.Begin(b, errOnePhase)
		return wire.End(b, at), true
	case *AnswerTooLargeError:
		b, at := wire.Begin(b, errAnswerTooLarge)
		return wire.End(b, at), true
	}
	return b, false
}

func readError(r *wire.Reader) (err error) {
	for m := r.Open("kv.Error"); r.Next(&m); {
		switch r.Field() {
		case errCanceled:
			if r.Bool() {
				err = fmt.Errorf("at the range: %w", context.Canceled)
			}
		case errDeadline:
			if r.Bool() {
				err = fmt.Errorf("at the range: %w", context.DeadlineExceeded)
			}
		case errInternal:
			q := &InternalError{}
			readInternalError(r, q)
			err = q
		case errNotLeaseholder:
			q := &NotLeaseholderError{}
			readNotLeaseholderError(r, q)
			err = q
		case errRangeNotFound:
			q := &RangeNotFoundError{}
			readRangeNotFoundError(r, q)
			err = q
		case errRangeMismatch:
			q := &RangeMismatchError{}
			readRangeMismatchError(r, q)
			err = q
		case errWriteTooOld:
			q := &WriteTooOldError{}
			readWriteTooOldError(r, q)
			err = q
		case errUncertainty:
			q := &UncertaintyError{}
			readUncertaintyError(r, q)
			err = q
		case errTxnRetry:
			q := &TxnRetryError{}
			readTxnRetryError(r, q)
			err = q
		case errTxnAborted:
			q := &TxnAbortedError{}
			readTxnAbortedError(r, q)
			err = q
		case errDeadlock:
			q := &DeadlockError{}
			readDeadlockError(r, q)
			err = q
		case errRefreshFailed:
			q := &RefreshFailedError{}
			readRefreshFailedError(r, q)
			err = q
		case errOnePhase:
			q := &OnePhaseError{}
			readOnePhaseError(r, q)
			err = q
		case errAnswerTooLarge:
			q := &AnswerTooLargeError{}
			readAnswerTooLargeError(r, q)
			err = q
		case errLocksLost:
			q := &LocksLostError{}
			readLocksLostError(r, q)
			err = q
		case errConditionFailed:
			q := &ConditionFailedError{}
			readConditionFailedError(r, q)
			err = q
		case errLockNotAvailable:
			q := &LockNotAvailableError{}
			readLockNotAvailableError(r, q)
			err = q
		case errAddOverflow:
			q := &AddOverflowError{}
			readAddOverflowError(r, q)
			err = q
		case errAmbiguous:
			q := &AmbiguousError{}
			readAmbiguousError(r, q)
			err = q
		case errBelowGC:
			q := &BelowGCError{}
			readBelowGCError(r, q)
			err = q
		case errFuture:
			q := &FutureError{}
			readFutureError(r, q)
			err = q
		case errNotClosed:
			q := &NotClosedError{}
			readNotClosedError(r, q)
			err = q
		case errProtocol:
			q := &ProtocolError{}
			readProtocolError(r, q)
			err = q
		case errGeneration:
			q := &GenerationError{}
			readGenerationError(r, q)
			err = q
		case errProtocolRefused:
			q := &ProtocolRefusedError{}
			readProtocolRefusedError(r, q)
			err = q
		case errUnreadable:
			q := &UnreadableError{}
			readUnreadableError(r, q)
			err = q
		case errUnavailable:
			q := &UnavailableError{}
			readUnavailableError(r, q)
			err = q
		default:
			r.Skip()
		}
	}
	if err == nil {
		r.Malformed()
	}
	return err
}

func readInternalError(r *wire.Reader, q *InternalError) {
	for m := r.Open("kv.InternalError"); r.Next(&m); {
		switch r.Field() {
		case 1:
			q.Message = r.String()
		default:
			r.Skip()
		}
	}
}

func readNotLeaseholderError(r *wire.Reader, q *NotLeaseholderError) {
	for m := r.Open("kv.NotLeaseholderError"); r.Next(&m); {
		switch r.Field() {
		case 1:
			q.Range = RangeID(r.Uint())
		case 2:
			ReadReplica(r, &q.Leaseholder)
		case 4:
			q.Desc = &RangeDescriptor{}
			ReadDescriptor(r, q.Desc)
		default:
			r.Skip()
		}
	}
}

func readRangeNotFoundError(r *wire.Reader, q *RangeNotFoundError) {
	for m := r.Open("kv.RangeNotFoundError"); r.Next(&m); {
		switch r.Field() {
		case 1:
			q.Range = RangeID(r.Uint())
		default:
			r.Skip()
		}
	}
}

func readRangeMismatchError(r *wire.Reader, q *RangeMismatchError) {
	for m := r.Open("kv.RangeMismatchError"); r.Next(&m); {
		switch r.Field() {
		case 1:
			readSpan(r, &q.Span)
		case 2:
			readRangeInfo(r, wire.Grow(r, &q.Infos))
		default:
			r.Skip()
		}
	}
}

func readWriteTooOldError(r *wire.Reader, q *WriteTooOldError) {
	for m := r.Open("kv.WriteTooOldError"); r.Next(&m); {
		switch r.Field() {
		case 1:
			q.Key = r.Bytes()
		case 2:
			q.By = r.ID()
		case 3:
			q.Actual = r.Timestamp()
		case 4:
			q.Gateway = NodeID(r.Uint32())
		default:
			r.Skip()
		}
	}
}

func readUncertaintyError(r *wire.Reader, q *UncertaintyError) {
	for m := r.Open("kv.UncertaintyError"); r.Next(&m); {
		switch r.Field() {
		case 1:
			q.Key = r.Bytes()
		case 3:
			q.Value = r.Timestamp()
		case 5:
			q.RetryAt = r.Timestamp()
		default:
			r.Skip()
		}
	}
}

func readTxnRetryError(r *wire.Reader, q *TxnRetryError) {
	for m := r.Open("kv.TxnRetryError"); r.Next(&m); {
		switch r.Field() {
		case 1:
			q.Reason = RetryReason(r.Enum(uint8(RetryPossibleReplay)))
		case 3:
			q.WriteTimestamp = r.Timestamp()
		default:
			r.Skip()
		}
	}
}

func readTxnAbortedError(r *wire.Reader, q *TxnAbortedError) {
	for m := r.Open("kv.TxnAbortedError"); r.Next(&m); {
		switch r.Field() {
		case 1:
			q.ID = r.ID()
		case 2:
			q.Reason = r.String()
		default:
			r.Skip()
		}
	}
}

func readDeadlockError(r *wire.Reader, q *DeadlockError) {
	for m := r.Open("kv.DeadlockError"); r.Next(&m); {
		switch r.Field() {
		case 1:
			*wire.Grow(r, &q.Cycle) = r.ID()
		case 2:
			readWait(r, wire.Grow(r, &q.Waits))
		default:
			r.Skip()
		}
	}
}

func readRefreshFailedError(r *wire.Reader, q *RefreshFailedError) {
	for m := r.Open("kv.RefreshFailedError"); r.Next(&m); {
		switch r.Field() {
		case 1:
			q.Key = r.Bytes()
		case 2:
			q.By = r.ID()
		case 3:
			q.Written = r.Timestamp()
		case 4:
			q.Gateway = NodeID(r.Uint32())
		default:
			r.Skip()
		}
	}
}

func readOnePhaseError(r *wire.Reader, _ *OnePhaseError) {
	for m := r.Open("kv.OnePhaseError"); r.Next(&m); {
		r.Skip()
	}
}

func readAnswerTooLargeError(r *wire.Reader, _ *AnswerTooLargeError) {
	for m := r.Open("kv.AnswerTooLargeError"); r.Next(&m); {
		r.Skip()
	}
}

func readLocksLostError(r *wire.Reader, q *LocksLostError) {
	for m := r.Open("kv.LocksLostError"); r.Next(&m); {
		switch r.Field() {
		case 1:
			q.Key = r.Bytes()
		case 3:
			q.Lost = r.Timestamp()
		default:
			r.Skip()
		}
	}
}

func readConditionFailedError(r *wire.Reader, q *ConditionFailedError) {
	for m := r.Open("kv.ConditionFailedError"); r.Next(&m); {
		switch r.Field() {
		case 1:
			q.Key = r.Bytes()
		case 3:
			q.Actual = r.Bytes()
		default:
			r.Skip()
		}
	}
}

func readLockNotAvailableError(r *wire.Reader, q *LockNotAvailableError) {
	for m := r.Open("kv.LockNotAvailableError"); r.Next(&m); {
		switch r.Field() {
		case 1:
			q.Key = r.Bytes()
		case 3:
			q.Holder = r.ID()
		case 5:
			q.Timeout = r.Bool()
		default:
			r.Skip()
		}
	}
}

func readAddOverflowError(r *wire.Reader, q *AddOverflowError) {
	for m := r.Open("kv.AddOverflowError"); r.Next(&m); {
		switch r.Field() {
		case 1:
			q.Key = r.Bytes()
		case 3:
			q.Value = r.Int()
		case 5:
			q.Delta = r.Int()
		default:
			r.Skip()
		}
	}
}

func readAmbiguousError(r *wire.Reader, q *AmbiguousError) {
	for m := r.Open("kv.AmbiguousError"); r.Next(&m); {
		switch r.Field() {
		case 2:
			q.Reason = r.String()
		default:
			r.Skip()
		}
	}
}

func readBelowGCError(r *wire.Reader, q *BelowGCError) {
	for m := r.Open("kv.BelowGCError"); r.Next(&m); {
		switch r.Field() {
		case 1:
			q.Threshold = r.Timestamp()
		default:
			r.Skip()
		}
	}
}

func readFutureError(r *wire.Reader, q *FutureError) {
	for m := r.Open("kv.FutureError"); r.Next(&m); {
		switch r.Field() {
		case 1:
			q.At = r.Timestamp()
		case 3:
			q.Serves = r.Timestamp()
		default:
			r.Skip()
		}
	}
}

func readNotClosedError(r *wire.Reader, q *NotClosedError) {
	for m := r.Open("kv.NotClosedError"); r.Next(&m); {
		switch r.Field() {
		case 1:
			q.Range = RangeID(r.Uint())
		case 3:
			q.Closed = r.Timestamp()
		case 5:
			q.Intent = r.Bool()
		default:
			r.Skip()
		}
	}
}

func readProtocolError(r *wire.Reader, q *ProtocolError) {
	for m := r.Open("kv.ProtocolError"); r.Next(&m); {
		switch r.Field() {
		case 1:
			q.Range = RangeID(r.Uint())
		case 2:
			q.Desc = &RangeDescriptor{}
			ReadDescriptor(r, q.Desc)
		case 3:
			q.Protocol = readProtocol(r)
		default:
			r.Skip()
		}
	}
}

func readProtocolRefusedError(r *wire.Reader, q *ProtocolRefusedError) {
	for m := r.Open("kv.ProtocolRefusedError"); r.Next(&m); {
		switch r.Field() {
		case 1:
			q.Range = RangeID(r.Uint())
		case 3:
			q.Protocol = readProtocol(r)
		case 5:
			q.Node = NodeID(r.Uint32())
		default:
			r.Skip()
		}
	}
}

func readGenerationError(r *wire.Reader, q *GenerationError) {
	for m := r.Open("kv.GenerationError"); r.Next(&m); {
		switch r.Field() {
		case 1:
			q.Range = RangeID(r.Uint())
		case 2:
			q.Desc = &RangeDescriptor{}
			ReadDescriptor(r, q.Desc)
		case 3:
			q.Sealed = r.Bool()
		default:
			r.Skip()
		}
	}
}

func readUnavailableError(r *wire.Reader, q *UnavailableError) {
	for m := r.Open("kv.UnavailableError"); r.Next(&m); {
		switch r.Field() {
		case 1:
			q.DiskFull = r.Bool()
		case 2:
			q.Reason = r.String()
		default:
			r.Skip()
		}
	}
}

func waitFields(b []byte, field uint32, l []TxnWait) []byte {
	for i := range l {
		var at int
		b, at = wire.Begin(b, field)
		b = wire.End(appendWait(b, &l[i]), at)
	}
	return b
}

func appendWait(b []byte, w *TxnWait) []byte {
	b = wire.Uint(wire.ID(b, 1, w.ID), 2, uint64(w.Gateway))
	b = wire.Timestamp(wire.Int(b, 3, int64(w.Priority)), 5, w.MinTimestamp)
	return wire.Bytes(wire.ID(b, 7, w.For), 4, w.Key)
}

func readWait(r *wire.Reader, w *TxnWait) {
	for m := r.Open("kv.TxnWait"); r.Next(&m); {
		switch r.Field() {
		case 1:
			w.ID = r.ID()
		case 2:
			w.Gateway = NodeID(r.Uint32())
		case 3:
			w.Priority = r.Int32()
		case 4:
			w.Key = r.Bytes()
		case 5:
			w.MinTimestamp = r.Timestamp()
		case 7:
			w.For = r.ID()
		default:
			r.Skip()
		}
	}
}

func readUnreadableError(r *wire.Reader, q *UnreadableError) {
	for m := r.Open("kv.UnreadableError"); r.Next(&m); {
		switch r.Field() {
		case 1:
			q.Later = r.Bool()
		case 2:
			q.What = r.String()
		case 4:
			q.Key = r.Bytes()
		case 6:
			q.Reason = r.String()
		default:
			r.Skip()
		}
	}
}
