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

// anyError is an error of one of the kinds.
type anyError struct{ err error }

// fields declares the message. A wrapped error loses its wrapping; what is not of this package becomes an InternalError, save for the two ends of a context.
func (e *anyError) fields(c *wire.Coder) {
	c.Message("kv.Error", wire.Skips)
	if c.Writing() {
		for err := e.err; err != nil; err = errors.Unwrap(err) {
			if errorFields(c, &err) {
				return
			}
		}
	} else {
		errorFields(c, &e.err)
	}
	contextField(c, errCanceled, &e.err, context.Canceled)
	contextField(c, errDeadline, &e.err, context.DeadlineExceeded)
	switch ended := errors.Is(e.err, context.Canceled) || errors.Is(e.err, context.DeadlineExceeded); {
	case c.Writing() && e.err != nil && !ended:
		wire.One(c, errInternal, &InternalError{Message: e.err.Error()}, (*InternalError).fields)
	case c.Complete() && e.err == nil:
		c.Malformed()
	}
}

// contextField is a flag for an end of a context.
func contextField(c *wire.Coder, n uint32, err *error, end error) {
	is := c.Writing() && errors.Is(*err, end)
	if c.Bool(n, &is); is && !c.Writing() {
		*err = fmt.Errorf("at the range: %w", end)
	}
}

// errorFields says whether the error is of a kind with a field, or one was read.
func errorFields(c *wire.Coder, err *error) bool {
	return wire.Case(c, errInternal, err, (*InternalError).fields) ||
		wire.Case(c, errNotLeaseholder, err, (*NotLeaseholderError).fields) ||
		wire.Case(c, errRangeNotFound, err, (*RangeNotFoundError).fields) ||
		wire.Case(c, errRangeMismatch, err, (*RangeMismatchError).fields) ||
		wire.Case(c, errWriteTooOld, err, (*WriteTooOldError).fields) ||
		wire.Case(c, errUncertainty, err, (*UncertaintyError).fields) ||
		wire.Case(c, errTxnRetry, err, (*TxnRetryError).fields) ||
		wire.Case(c, errTxnAborted, err, (*TxnAbortedError).fields) ||
		wire.Case(c, errDeadlock, err, (*DeadlockError).fields) ||
		wire.Case(c, errRefreshFailed, err, (*RefreshFailedError).fields) ||
		wire.Case(c, errOnePhase, err, (*OnePhaseError).fields) ||
		wire.Case(c, errAnswerTooLarge, err, (*AnswerTooLargeError).fields) ||
		wire.Case(c, errLocksLost, err, (*LocksLostError).fields) ||
		wire.Case(c, errConditionFailed, err, (*ConditionFailedError).fields) ||
		wire.Case(c, errLockNotAvailable, err, (*LockNotAvailableError).fields) ||
		wire.Case(c, errAddOverflow, err, (*AddOverflowError).fields) ||
		wire.Case(c, errAmbiguous, err, (*AmbiguousError).fields) ||
		wire.Case(c, errBelowGC, err, (*BelowGCError).fields) ||
		wire.Case(c, errFuture, err, (*FutureError).fields) ||
		wire.Case(c, errNotClosed, err, (*NotClosedError).fields) ||
		wire.Case(c, errProtocol, err, (*ProtocolError).fields) ||
		wire.Case(c, errGeneration, err, (*GenerationError).fields) ||
		wire.Case(c, errProtocolRefused, err, (*ProtocolRefusedError).fields) ||
		wire.Case(c, errUnreadable, err, (*UnreadableError).fields) ||
		wire.Case(c, errUnavailable, err, (*UnavailableError).fields)
}

func (q *InternalError) fields(c *wire.Coder) {
	c.Message("kv.InternalError", wire.Skips)
	c.String(1, &q.Message)
}

func (q *NotLeaseholderError) fields(c *wire.Coder) {
	c.Message("kv.NotLeaseholderError", wire.Skips)
	wire.Uint64(c, 1, &q.Range)
	wire.One(c, 2, &q.Leaseholder, (*ReplicaDescriptor).Fields)
	wire.Opt(c, 4, &q.Desc, (*RangeDescriptor).Fields)
}

func (q *RangeNotFoundError) fields(c *wire.Coder) {
	c.Message("kv.RangeNotFoundError", wire.Skips)
	wire.Uint64(c, 1, &q.Range)
}

func (q *RangeMismatchError) fields(c *wire.Coder) {
	c.Message("kv.RangeMismatchError", wire.Skips)
	wire.One(c, 1, &q.Span, SpanFields)
	wire.List(c, 2, &q.Infos, (*RangeInfo).fields)
}

func (q *WriteTooOldError) fields(c *wire.Coder) {
	c.Message("kv.WriteTooOldError", wire.Skips)
	wire.Key(c, 1, &q.Key)
	c.Timestamp(3, &q.Actual)
	wire.UUID(c, 2, &q.By)
	wire.Uint32(c, 4, &q.Gateway)
}

func (q *UncertaintyError) fields(c *wire.Coder) {
	c.Message("kv.UncertaintyError", wire.Skips)
	wire.Key(c, 1, &q.Key)
	c.Timestamp(3, &q.Value)
	c.Timestamp(5, &q.RetryAt)
}

func (q *TxnRetryError) fields(c *wire.Coder) {
	c.Message("kv.TxnRetryError", wire.Skips)
	wire.Enum(c, 1, &q.Reason, RetryPossibleReplay)
	c.Timestamp(3, &q.WriteTimestamp)
}

func (q *TxnAbortedError) fields(c *wire.Coder) {
	c.Message("kv.TxnAbortedError", wire.Skips)
	wire.UUID(c, 1, &q.ID)
	c.String(2, &q.Reason)
}

func (q *DeadlockError) fields(c *wire.Coder) {
	c.Message("kv.DeadlockError", wire.Skips)
	wire.UUIDs(c, 1, &q.Cycle)
	wire.List(c, 2, &q.Waits, (*TxnWait).fields)
}

func (q *RefreshFailedError) fields(c *wire.Coder) {
	c.Message("kv.RefreshFailedError", wire.Skips)
	wire.Key(c, 1, &q.Key)
	c.Timestamp(3, &q.Written)
	wire.UUID(c, 2, &q.By)
	wire.Uint32(c, 4, &q.Gateway)
}

func (*OnePhaseError) fields(c *wire.Coder) {
	c.Message("kv.OnePhaseError", wire.Skips)
}

func (*AnswerTooLargeError) fields(c *wire.Coder) {
	c.Message("kv.AnswerTooLargeError", wire.Skips)
}

func (q *LocksLostError) fields(c *wire.Coder) {
	c.Message("kv.LocksLostError", wire.Skips)
	wire.Key(c, 1, &q.Key)
	c.Timestamp(3, &q.Lost)
}

func (q *ConditionFailedError) fields(c *wire.Coder) {
	c.Message("kv.ConditionFailedError", wire.Skips)
	wire.Key(c, 1, &q.Key)
	c.Bytes(3, &q.Actual)
}

func (q *LockNotAvailableError) fields(c *wire.Coder) {
	c.Message("kv.LockNotAvailableError", wire.Skips)
	wire.Key(c, 1, &q.Key)
	wire.UUID(c, 3, &q.Holder)
	c.Bool(5, &q.Timeout)
}

func (q *AddOverflowError) fields(c *wire.Coder) {
	c.Message("kv.AddOverflowError", wire.Skips)
	wire.Key(c, 1, &q.Key)
	wire.Int64(c, 3, &q.Value)
	wire.Int64(c, 5, &q.Delta)
}

func (q *AmbiguousError) fields(c *wire.Coder) {
	c.Message("kv.AmbiguousError", wire.Skips)
	c.String(2, &q.Reason)
}

func (q *BelowGCError) fields(c *wire.Coder) {
	c.Message("kv.BelowGCError", wire.Skips)
	c.Timestamp(1, &q.Threshold)
}

func (q *FutureError) fields(c *wire.Coder) {
	c.Message("kv.FutureError", wire.Skips)
	c.Timestamp(1, &q.At)
	c.Timestamp(3, &q.Serves)
}

func (q *NotClosedError) fields(c *wire.Coder) {
	c.Message("kv.NotClosedError", wire.Skips)
	wire.Uint64(c, 1, &q.Range)
	c.Timestamp(3, &q.Closed)
	c.Bool(5, &q.Intent)
}

func (q *ProtocolError) fields(c *wire.Coder) {
	c.Message("kv.ProtocolError", wire.Skips)
	wire.Uint64(c, 1, &q.Range)
	wire.Enum(c, 3, &q.Protocol, MaxProtocol)
	wire.Opt(c, 2, &q.Desc, (*RangeDescriptor).Fields)
}

func (q *ProtocolRefusedError) fields(c *wire.Coder) {
	c.Message("kv.ProtocolRefusedError", wire.Skips)
	wire.Uint64(c, 1, &q.Range)
	wire.Enum(c, 3, &q.Protocol, MaxProtocol)
	wire.Uint32(c, 5, &q.Node)
}

func (q *GenerationError) fields(c *wire.Coder) {
	c.Message("kv.GenerationError", wire.Skips)
	wire.Uint64(c, 1, &q.Range)
	c.Bool(3, &q.Sealed)
	wire.Opt(c, 2, &q.Desc, (*RangeDescriptor).Fields)
}

func (q *UnavailableError) fields(c *wire.Coder) {
	c.Message("kv.UnavailableError", wire.Skips)
	c.Bool(1, &q.DiskFull)
	c.String(2, &q.Reason)
}

func (w *TxnWait) fields(c *wire.Coder) {
	c.Message("kv.TxnWait", wire.Skips)
	wire.UUID(c, 1, &w.ID)
	wire.Uint32(c, 2, &w.Gateway)
	c.Int32(3, &w.Priority)
	c.Timestamp(5, &w.MinTimestamp)
	wire.UUID(c, 7, &w.For)
	wire.Key(c, 4, &w.Key)
}

func (q *UnreadableError) fields(c *wire.Coder) {
	c.Message("kv.UnreadableError", wire.Skips)
	c.Bool(1, &q.Later)
	c.String(2, &q.What)
	wire.Key(c, 4, &q.Key)
	c.String(6, &q.Reason)
}
