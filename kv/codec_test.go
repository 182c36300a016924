package kv

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"meridian/clock"
	"meridian/keys"
	"meridian/wire"
	"meridian/wire/wiretest"
)

func requestOf[T any](b []byte, v *T) []byte { return appendRequest(b, any(v).(Request)) }

func responseOf[T any](b []byte, v *T) []byte { return appendResponse(b, v) }

// errorOf is what is in the one field of kv.Error.
func errorOf[T any](b []byte, v *T) []byte {
	r := wire.Read(appendError(nil, any(v).(error)))
	m := r.Open("kv.Error")
	r.Next(&m)
	return append(b, r.Bytes()...)
}

func metaFields(b []byte, m *TxnMeta) []byte { return m.AppendFields(b) }

func descFields(b []byte, d *RangeDescriptor) []byte { return d.Append(b) }

func replicaFields(b []byte, d *ReplicaDescriptor) []byte { return d.Append(b) }

// reply is what AppendReply writes.
type reply struct {
	head *BatchResponse
	err  error
}

func appendReply(b []byte, r *reply) []byte { return AppendReply(b, r.head, r.err) }

func readReplyOf(r *wire.Reader, v *reply) { v.head, v.err = readReply(r) }

type anyError struct{ err error }

func appendErrorOf(b []byte, e *anyError) []byte { return appendError(b, e.err) }

func readErrorOf(r *wire.Reader, e *anyError) { e.err = readError(r) }

// proper makes a value one that there may be.
func proper[T any](v *T) { properly(reflect.ValueOf(v).Elem()) }

func properly(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			properly(v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			properly(v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			properly(v.Field(i))
		}
		if !v.CanAddr() || !v.Addr().CanInterface() {
			return
		}
		switch x := v.Addr().Interface().(type) {
		case *RangeDescriptor:
			// The ends of the keyspace are empty and never nil.
			x.Start, x.End = append(keys.Key{}, x.Start...), append(keys.Key{}, x.End...)
		case *CommitTrigger:
			switch {
			case x.Split != nil:
				*x = CommitTrigger{Split: x.Split}
			case x.Merge != nil:
				*x = CommitTrigger{Merge: x.Merge}
			case x.Replicas != nil:
				*x = CommitTrigger{Replicas: x.Replicas}
			case x.Seal == nil:
				x.Replicas = &ReplicasTrigger{}
				proper(x)
			}
		}
	}
}

var (
	requests = []func() Request{
		func() Request { return &GetRequest{} },
		func() Request { return &ScanRequest{} },
		func() Request { return &PutRequest{} },
		func() Request { return &CPutRequest{} },
		func() Request { return &DeleteRequest{} },
		func() Request { return &DeleteRangeRequest{} },
		func() Request { return &AddRequest{} },
		func() Request { return &EndTxnRequest{} },
		func() Request { return &HeartbeatTxnRequest{} },
		func() Request { return &PushTxnRequest{} },
		func() Request { return &QueryTxnRequest{} },
		func() Request { return &QueryIntentRequest{} },
		func() Request { return &ResolveIntentRequest{} },
		func() Request { return &ResolveRangeRequest{} },
		func() Request { return &RefreshRequest{} },
		func() Request { return &RefreshRangeRequest{} },
		func() Request { return &CheckLocksRequest{} },
		func() Request { return &GCRequest{} },
		func() Request { return &AdminSplitRequest{} },
		func() Request { return &SubsumeRequest{} },
		func() Request { return &ReleaseRequest{} },
		func() Request { return &AdminMergeRequest{} },
		func() Request { return &AdminChangeReplicasRequest{} },
		func() Request { return &AdminTransferLeaseRequest{} },
		func() Request { return &RangeInfoRequest{} },
		func() Request { return &RecoverTxnRequest{} },
		func() Request { return &LoadRequest{} },
		func() Request { return &ClearRequest{} },
		func() Request { return &ProtocolRequest{} },
		func() Request { return &AdminSetProtocolRequest{} },
		func() Request { return &AdminRecallRequest{} },
		func() Request { return &NegotiateRequest{} },
		func() Request { return &CloseRequest{} },
	}
	responses = []func() Response{
		func() Response { return nil },
		func() Response { return &GetResponse{} },
		func() Response { return &ScanResponse{} },
		func() Response { return &DeleteRangeResponse{} },
		func() Response { return &AddResponse{} },
		func() Response { return &EndTxnResponse{} },
		func() Response { return &HeartbeatTxnResponse{} },
		func() Response { return &PushTxnResponse{} },
		func() Response { return &QueryTxnResponse{} },
		func() Response { return &QueryIntentResponse{} },
		func() Response { return &RangeInfoResponse{} },
		func() Response { return &RecoverTxnResponse{} },
		func() Response { return &LoadResponse{} },
		func() Response { return &SubsumeResponse{} },
		func() Response { return &ProtocolResponse{} },
		func() Response { return &AdminSetProtocolResponse{} },
		func() Response { return &NegotiateResponse{} },
		func() Response { return &CloseResponse{} },
	}
	errorKinds = []func() error{
		func() error { return &InternalError{} },
		func() error { return &NotLeaseholderError{} },
		func() error { return &RangeNotFoundError{} },
		func() error { return &RangeMismatchError{} },
		func() error { return &WriteTooOldError{} },
		func() error { return &UncertaintyError{} },
		func() error { return &TxnRetryError{} },
		func() error { return &TxnAbortedError{} },
		func() error { return &DeadlockError{} },
		func() error { return &RefreshFailedError{} },
		func() error { return &OnePhaseError{} },
		func() error { return &AnswerTooLargeError{} },
		func() error { return &LocksLostError{} },
		func() error { return &ConditionFailedError{} },
		func() error { return &LockNotAvailableError{} },
		func() error { return &AddOverflowError{} },
		func() error { return &AmbiguousError{} },
		func() error { return &BelowGCError{} },
		func() error { return &FutureError{} },
		func() error { return &NotClosedError{} },
		func() error { return &UnavailableError{} },
		func() error { return &ProtocolError{} },
		func() error { return &GenerationError{} },
		func() error { return &ProtocolRefusedError{} },
		func() error { return &UnreadableError{} },
	}
)

func some[T any](rng *rand.Rand, kinds []func() T) T {
	v := kinds[rng.IntN(len(kinds))]()
	if p := reflect.ValueOf(v); p.IsValid() {
		wiretest.Fill(rng, v)
		properly(p)
	}
	return v
}

func properBatch(b *Batch) {
	b.Enough, b.Apart = 0, false // they are not sent
	proper(b)
	rng := rand.New(rand.NewPCG(2, uint64(b.RangeID)))
	b.Requests = nil
	for range rng.IntN(4) {
		b.Requests = append(b.Requests, some(rng, requests))
	}
}

// properHead leaves out the responses, which are fields of the reply.
func properHead(h *BatchResponse) {
	proper(h)
	h.Responses = nil
	if h.Followed != nil && len(h.Followed.Rows) == 0 {
		h.Followed = nil // without rows it is not sent
	}
}

func properReply(r *reply) {
	rng := rand.New(rand.NewPCG(3, 0))
	if r.head != nil {
		properHead(r.head)
		rng = rand.New(rand.NewPCG(3, uint64(r.head.Waited)))
		r.head.Responses = nil
		for range rng.IntN(4) {
			r.head.Responses = append(r.head.Responses, some(rng, responses))
		}
	}
	if rng.IntN(2) == 0 {
		r.err = some(rng, errorKinds)
	}
}

func properError(e *anyError) {
	e.err = some(rand.New(rand.NewPCG(4, 0)), errorKinds)
}

// The content of a batch, a reply and an error is one of many kinds: the golden bytes have each of them, empty.
func goldenBatches() map[string]*Batch {
	m := map[string]*Batch{"Header": {Header: Header{RangeID: 300}}}
	for _, f := range requests {
		m[kindName(f())] = &Batch{Requests: []Request{f()}}
	}
	return m
}

func goldenReplies() map[string]*reply {
	m := map[string]*reply{"head": {head: &BatchResponse{Waited: 100}}, "err": {err: &UnavailableError{Reason: "text"}}}
	for _, f := range responses {
		m[kindName(f())] = &reply{head: &BatchResponse{Responses: []Response{f()}}}
	}
	return m
}

func goldenErrors() map[string]*anyError {
	m := map[string]*anyError{}
	for _, f := range errorKinds {
		m[kindName(f())] = &anyError{f()}
	}
	return m
}

func kindName(v any) string { return strings.TrimPrefix(fmt.Sprintf("%T", v), "*kv.") }

// TestMessages: each field of each message survives, unknown fields are treated as the message says (wire.W1, wire.W3), no bytes do harm
// (wire.W5), and no message of the package is left out.
func TestMessages(t *testing.T) {
	wiretest.Run(t, messages)
}

var messages = []wiretest.Message{
	wiretest.Of("keys.Span", wiretest.Refuses, appendSpan, readSpan, proper),
	wiretest.Of("kv.TxnMeta", wiretest.Refuses, metaFields, ReadTxnMeta, proper),
	wiretest.Of("kv.Txn", wiretest.Skips, appendTxn, readTxn, proper),
	wiretest.Of("kv.ObservedTimestamp", wiretest.Skips, appendObserved, readObserved, proper),
	wiretest.Of("kv.InFlightWrite", wiretest.Refuses, AppendInFlight, ReadInFlight, proper),
	wiretest.Of("kv.SeqRange", wiretest.Refuses, AppendSeqRange, ReadSeqRange, proper),
	wiretest.Of("kv.Header", wiretest.Skips, appendHeader, readHeader, proper),
	wiretest.Values(wiretest.Of("kv.Batch", wiretest.Skips, AppendBatch, readBatch, properBatch), AppendBatch, goldenBatches()),
	wiretest.Of("kv.GetRequest", wiretest.Skips, requestOf[GetRequest], readGet, proper),
	wiretest.Of("kv.ScanRequest", wiretest.Skips, requestOf[ScanRequest], readScan, proper),
	wiretest.Of("kv.PutRequest", wiretest.Skips, requestOf[PutRequest], readPut, proper),
	wiretest.Of("kv.CPutRequest", wiretest.Skips, requestOf[CPutRequest], readCPut, proper),
	wiretest.Of("kv.DeleteRequest", wiretest.Skips, requestOf[DeleteRequest], readDelete, proper),
	wiretest.Of("kv.DeleteRangeRequest", wiretest.Skips, requestOf[DeleteRangeRequest], readDeleteRange, proper),
	wiretest.Of("kv.AddRequest", wiretest.Skips, requestOf[AddRequest], readAdd, proper),
	wiretest.Of("kv.EndTxnRequest", wiretest.Skips, requestOf[EndTxnRequest], readEndTxn, proper),
	wiretest.Of("kv.HeartbeatTxnRequest", wiretest.Skips, requestOf[HeartbeatTxnRequest], readHeartbeatTxn, proper),
	wiretest.Of("kv.PushTxnRequest", wiretest.Skips, requestOf[PushTxnRequest], readPushTxn, proper),
	wiretest.Of("kv.QueryTxnRequest", wiretest.Skips, requestOf[QueryTxnRequest], readQueryTxn, proper),
	wiretest.Of("kv.QueryIntentRequest", wiretest.Skips, requestOf[QueryIntentRequest], readQueryIntent, proper),
	wiretest.Of("kv.ResolveIntentRequest", wiretest.Skips, requestOf[ResolveIntentRequest], readResolveIntent, proper),
	wiretest.Of("kv.ResolveRangeRequest", wiretest.Skips, requestOf[ResolveRangeRequest], readResolveRange, proper),
	wiretest.Of("kv.RefreshRequest", wiretest.Skips, requestOf[RefreshRequest], readRefresh, proper),
	wiretest.Of("kv.RefreshRangeRequest", wiretest.Skips, requestOf[RefreshRangeRequest], readRefreshRange, proper),
	wiretest.Of("kv.CheckLocksRequest", wiretest.Skips, requestOf[CheckLocksRequest], readCheckLocks, proper),
	wiretest.Of("kv.CloseRequest", wiretest.Skips, requestOf[CloseRequest], readClose, proper),
	wiretest.Of("kv.NegotiateRequest", wiretest.Skips, requestOf[NegotiateRequest], readNegotiate, proper),
	wiretest.Of("kv.GCRequest", wiretest.Skips, requestOf[GCRequest], readGC, proper),
	wiretest.Of("kv.AdminSplitRequest", wiretest.Skips, requestOf[AdminSplitRequest], readAdminSplit, proper),
	wiretest.Of("kv.SubsumeRequest", wiretest.Skips, requestOf[SubsumeRequest], readSubsume, proper),
	wiretest.Of("kv.ReleaseRequest", wiretest.Skips, requestOf[ReleaseRequest], readRelease, proper),
	wiretest.Of("kv.AdminMergeRequest", wiretest.Skips, requestOf[AdminMergeRequest], readAdminMerge, proper),
	wiretest.Of("kv.AdminChangeReplicasRequest", wiretest.Skips, requestOf[AdminChangeReplicasRequest], readAdminChangeReplicas, proper),
	wiretest.Of("kv.AdminTransferLeaseRequest", wiretest.Skips, requestOf[AdminTransferLeaseRequest], readAdminTransferLease, proper),
	wiretest.Of("kv.RangeInfoRequest", wiretest.Skips, requestOf[RangeInfoRequest], readRangeInfoRequest, proper),
	wiretest.Of("kv.RecoverTxnRequest", wiretest.Skips, requestOf[RecoverTxnRequest], readRecoverTxn, proper),
	wiretest.Of("kv.LoadRequest", wiretest.Skips, requestOf[LoadRequest], readLoad, proper),
	wiretest.Of("kv.ClearRequest", wiretest.Skips, requestOf[ClearRequest], readClear, proper),
	wiretest.Of("kv.GCKey", wiretest.Skips, appendGCKey, readGCKey, proper),
	wiretest.Of("kv.HeldLocks", wiretest.Skips, appendHeld, readHeld, proper),
	wiretest.Of("kv.ReplicaTarget", wiretest.Skips, appendReplicaTarget, readReplicaTarget, proper),
	wiretest.Of("kv.KeyValue", wiretest.Skips, appendPair, readPair, proper),
	wiretest.Of("kv.BatchResponse", wiretest.Skips, appendReplyHead, readReplyHead, properHead),
	wiretest.Of("kv.Served", wiretest.Skips, appendServed, readServed, proper),
	wiretest.Values(wiretest.Of("kv.Reply", wiretest.Skips, appendReply, readReplyOf, properReply), appendReply, goldenReplies()),
	wiretest.Of("kv.EmptyResponse", wiretest.Skips, responseOf, func(r *wire.Reader, _ *EmptyResponse) { readEmptyResponse(r) }, nil),
	wiretest.Of("kv.GetResponse", wiretest.Skips, responseOf[GetResponse], readGetResponse, proper),
	wiretest.Of("kv.ScanResponse", wiretest.Skips, responseOf[ScanResponse], readScanResponse, proper),
	wiretest.Of("kv.DeleteRangeResponse", wiretest.Skips, responseOf[DeleteRangeResponse], readDeleteRangeResponse, proper),
	wiretest.Of("kv.AddResponse", wiretest.Skips, responseOf[AddResponse], readAddResponse, proper),
	wiretest.Of("kv.EndTxnResponse", wiretest.Skips, responseOf[EndTxnResponse], readEndTxnResponse, proper),
	wiretest.Of("kv.HeartbeatTxnResponse", wiretest.Skips, responseOf[HeartbeatTxnResponse], readHeartbeatTxnResponse, proper),
	wiretest.Of("kv.PushTxnResponse", wiretest.Skips, responseOf[PushTxnResponse], readPushTxnResponse, proper),
	wiretest.Of("kv.QueryTxnResponse", wiretest.Skips, responseOf[QueryTxnResponse], readQueryTxnResponse, proper),
	wiretest.Of("kv.QueryIntentResponse", wiretest.Skips, responseOf[QueryIntentResponse], readQueryIntentResponse, proper),
	wiretest.Of("kv.RangeInfoResponse", wiretest.Skips, responseOf[RangeInfoResponse], readRangeInfoResponse, proper),
	wiretest.Of("kv.RecoverTxnResponse", wiretest.Skips, responseOf[RecoverTxnResponse], readRecoverTxnResponse, proper),
	wiretest.Of("kv.LoadResponse", wiretest.Skips, responseOf[LoadResponse], readLoadResponse, proper),
	wiretest.Of("kv.CloseResponse", wiretest.Skips, responseOf[CloseResponse], readCloseResponse, proper),
	wiretest.Of("kv.NegotiateResponse", wiretest.Skips, responseOf[NegotiateResponse], readNegotiateResponse, proper),
	wiretest.Of("kv.SubsumeResponse", wiretest.Skips, responseOf[SubsumeResponse], readSubsumeResponse, proper),
	wiretest.Values(wiretest.Of("kv.Error", wiretest.Skips, appendErrorOf, readErrorOf, properError), appendErrorOf, goldenErrors()),
	wiretest.Of("kv.InternalError", wiretest.Skips, errorOf[InternalError], readInternalError, proper),
	wiretest.Of("kv.NotLeaseholderError", wiretest.Skips, errorOf[NotLeaseholderError], readNotLeaseholderError, proper),
	wiretest.Of("kv.RangeNotFoundError", wiretest.Skips, errorOf[RangeNotFoundError], readRangeNotFoundError, proper),
	wiretest.Of("kv.RangeMismatchError", wiretest.Skips, errorOf[RangeMismatchError], readRangeMismatchError, proper),
	wiretest.Of("kv.WriteTooOldError", wiretest.Skips, errorOf[WriteTooOldError], readWriteTooOldError, proper),
	wiretest.Of("kv.UncertaintyError", wiretest.Skips, errorOf[UncertaintyError], readUncertaintyError, proper),
	wiretest.Of("kv.TxnRetryError", wiretest.Skips, errorOf[TxnRetryError], readTxnRetryError, proper),
	wiretest.Of("kv.TxnAbortedError", wiretest.Skips, errorOf[TxnAbortedError], readTxnAbortedError, proper),
	wiretest.Of("kv.DeadlockError", wiretest.Skips, errorOf[DeadlockError], readDeadlockError, proper),
	wiretest.Of("kv.RefreshFailedError", wiretest.Skips, errorOf[RefreshFailedError], readRefreshFailedError, proper),
	wiretest.Of("kv.OnePhaseError", wiretest.Skips, errorOf[OnePhaseError], readOnePhaseError, proper),
	wiretest.Of("kv.AnswerTooLargeError", wiretest.Skips, errorOf[AnswerTooLargeError], readAnswerTooLargeError, proper),
	wiretest.Of("kv.LocksLostError", wiretest.Skips, errorOf[LocksLostError], readLocksLostError, proper),
	wiretest.Of("kv.ConditionFailedError", wiretest.Skips, errorOf[ConditionFailedError], readConditionFailedError, proper),
	wiretest.Of("kv.LockNotAvailableError", wiretest.Skips, errorOf[LockNotAvailableError], readLockNotAvailableError, proper),
	wiretest.Of("kv.AddOverflowError", wiretest.Skips, errorOf[AddOverflowError], readAddOverflowError, proper),
	wiretest.Of("kv.AmbiguousError", wiretest.Skips, errorOf[AmbiguousError], readAmbiguousError, proper),
	wiretest.Of("kv.BelowGCError", wiretest.Skips, errorOf[BelowGCError], readBelowGCError, proper),
	wiretest.Of("kv.FutureError", wiretest.Skips, errorOf[FutureError], readFutureError, proper),
	wiretest.Of("kv.NotClosedError", wiretest.Skips, errorOf[NotClosedError], readNotClosedError, proper),
	wiretest.Of("kv.Target", wiretest.Refuses, appendTarget, readTarget, proper),
	wiretest.Of("kv.ProtocolRequest", wiretest.Skips, requestOf[ProtocolRequest], readProtocolRequest, proper),
	wiretest.Of("kv.ProtocolResponse", wiretest.Skips, responseOf[ProtocolResponse], readProtocolResponse, proper),
	wiretest.Of("kv.StorePosition", wiretest.Refuses, AppendPosition, ReadPosition, nil),
	wiretest.Of("kv.ProtocolError", wiretest.Skips, errorOf[ProtocolError], readProtocolError, proper),
	wiretest.Of("kv.GenerationError", wiretest.Skips, errorOf[GenerationError], readGenerationError, proper),
	wiretest.Of("kv.AdminSetProtocolRequest", wiretest.Skips, requestOf[AdminSetProtocolRequest], readAdminSetProtocol, proper),
	wiretest.Of("kv.AdminRecallRequest", wiretest.Skips, requestOf[AdminRecallRequest], readAdminRecall, proper),
	wiretest.Of("kv.AdminSetProtocolResponse", wiretest.Skips, responseOf[AdminSetProtocolResponse], readAdminSetProtocolResponse, proper),
	wiretest.Of("kv.UnreadableError", wiretest.Skips, errorOf[UnreadableError], readUnreadableError, proper),
	wiretest.Of("kv.ProtocolRefusedError", wiretest.Skips, errorOf[ProtocolRefusedError], readProtocolRefusedError, proper),
	wiretest.Of("kv.UnavailableError", wiretest.Skips, errorOf[UnavailableError], readUnavailableError, proper),
	wiretest.Of("kv.TxnWait", wiretest.Skips, appendWait, readWait, proper),
	wiretest.Of("kv.RangeDescriptor", wiretest.Keeps, descFields, ReadDescriptor, proper),
	wiretest.Of("kv.ReplicaDescriptor", wiretest.Refuses, replicaFields, ReadReplica, proper),
	wiretest.Of("kv.RangeInfo", wiretest.Skips, appendRangeInfo, readRangeInfo, proper),
	wiretest.Of("kv.CommitTrigger", wiretest.Refuses, AppendTrigger, ReadTrigger, proper),
	wiretest.Of("kv.SplitTrigger", wiretest.Refuses, appendSplitTrigger, readSplitTrigger, proper),
	wiretest.Of("kv.MergeTrigger", wiretest.Refuses, appendMergeTrigger, readMergeTrigger, proper),
	wiretest.Of("kv.SealTrigger", wiretest.Refuses, appendSealTrigger, readSealTrigger, proper),
	wiretest.Of("kv.ReplicasTrigger", wiretest.Refuses, appendReplicasTrigger, readReplicasTrigger, proper),
}

// TestEachMethod: every method's request, and every kind of response and error, goes through a batch and an answer. Methods are numbered
// without gaps, so that one without a request in the list would be found.
func TestEachMethod(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 0))
	methods := map[Method]bool{}
	for _, f := range requests {
		r := f()
		wiretest.Fill(rng, r)
		properly(reflect.ValueOf(r))
		methods[r.Method()] = true
		b := &Batch{Requests: []Request{r}}
		if got, err := DecodeBatch(AppendBatch(nil, b)); err != nil || !reflect.DeepEqual(b, got) {
			t.Errorf("written %+v\nread    %+v, %v", r, got, err)
		}
	}
	for m := MethodGet; int(m) <= len(requests); m++ {
		if !methods[m] {
			t.Errorf("no request has method %d", m)
		}
	}
	for _, f := range responses {
		x := f()
		if x != nil {
			wiretest.Fill(rng, x)
			properly(reflect.ValueOf(x))
		}
		r := &BatchResponse{Responses: []Response{x, &EmptyResponse{}}}
		if got, _, err := DecodeReply(AppendReply(nil, r, nil)); err != nil || !reflect.DeepEqual(r, got) {
			t.Errorf("written %+v\nread    %+v, %v", x, got, err)
		}
	}
	for _, f := range errorKinds {
		e := f()
		wiretest.Fill(rng, e)
		properly(reflect.ValueOf(e))
		if _, got, err := DecodeReply(AppendReply(nil, nil, e)); err != nil || !reflect.DeepEqual(e, got) {
			t.Errorf("written %+v\nread    %+v, %v", e, got, err)
		}
	}
}

// TestLaterBatch: a request, a response, an error and a value of an enumeration of a later version are refused by name.
func TestLaterBatch(t *testing.T) {
	later := func(err error, message string) {
		t.Helper()
		var v *wire.VersionError
		if !errors.As(err, &v) || v.Message != message {
			t.Errorf("%v, want a version error of %s", err, message)
		}
	}
	_, err := DecodeBatch(AppendBatch(nil, &Batch{Header: Header{WaitPolicy: Peek + 1}}))
	later(err, "kv.Header")
	_, err = DecodeBatch(wire.Element(AppendBatch(nil, &Batch{}), requestField(200), nil))
	later(err, "kv.Batch")
	_, _, err = DecodeReply(wire.Element(AppendReply(nil, &BatchResponse{}, nil), 1001, nil))
	later(err, "kv.Reply")
	_, _, err = DecodeReply(wire.Element(nil, replyError, wire.Element(nil, 1001, nil)))
	later(err, "kv.Error")
}

// TestForeignErrors: wrapped errors lose the wrapping, others become internal, contexts stay recognisable.
func TestForeignErrors(t *testing.T) {
	trip := func(err error) error {
		_, got, bad := DecodeReply(AppendReply(nil, nil, err))
		if bad != nil {
			t.Fatal(bad)
		}
		return got
	}
	if got := trip(fmt.Errorf("while reading: %w", &RangeNotFoundError{Range: 7})); !reflect.DeepEqual(got, &RangeNotFoundError{Range: 7}) {
		t.Errorf("wrapped: %v", got)
	}
	if got := trip(errors.New("odd")); !reflect.DeepEqual(got, &InternalError{Message: "odd"}) {
		t.Errorf("foreign: %v", got)
	}
	if got := trip(fmt.Errorf("x: %w", context.DeadlineExceeded)); !errors.Is(got, context.DeadlineExceeded) {
		t.Errorf("deadline: %v", got)
	}
	if got := trip(context.Canceled); !errors.Is(got, context.Canceled) {
		t.Errorf("cancelled: %v", got)
	}
}

func seedMessages() (batches, replies [][]byte) {
	at := clock.Timestamp{Wall: 1 << 60, Logical: 3}
	txn := &Txn{TxnMeta: TxnMeta{ID: TxnID{1, 2}, Anchor: keys.Key("a"), WriteTimestamp: at, Seq: 4}, ReadTimestamp: at}
	desc := RangeDescriptor{ID: 4, Start: keys.Key("a"), End: keys.Key("m"), Replicas: []ReplicaDescriptor{{Node: 1, Store: 1, Replica: 1}}}
	for _, b := range []*Batch{
		{Header: Header{Txn: txn, Now: at, LockTimeout: time.Second}, Requests: []Request{
			&GetRequest{Key: keys.Key("k"), Lock: Exclusive}, &PutRequest{Key: keys.Key("k"), Value: []byte{}, Seq: 1},
			&EndTxnRequest{Anchor: keys.Key("k"), Commit: true, LockSpans: []keys.Span{{Start: keys.Key("k")}}},
		}},
		{Requests: []Request{&EndTxnRequest{Trigger: &CommitTrigger{Split: &SplitTrigger{Left: desc, Right: desc}}}}},
		{Header: Header{MaxKeys: 3, Consistency: Inconsistent}, Requests: []Request{&ScanRequest{Start: keys.Key("a")}}},
		{Header: Header{WaitPolicy: Peek}, Requests: []Request{&ScanRequest{Start: keys.Key("a")}}},
	} {
		batches = append(batches, AppendBatch(nil, b))
	}
	replies = append(replies,
		AppendReply(nil, &BatchResponse{Txn: txn, Responses: []Response{
			&GetResponse{Value: []byte("v"), Timestamp: at}, &EmptyResponse{},
			&ScanResponse{Rows: []KeyValue{{Key: keys.Key("k"), Value: []byte("v"), Timestamp: at}}},
		}}, nil),
		AppendReply(nil, nil, &RangeMismatchError{Infos: []RangeInfo{{Desc: desc}}}),
		AppendReply(nil, nil, &DeadlockError{Cycle: []TxnID{{1}, {2}}}))
	return batches, replies
}

// FuzzDecodeBatch: no bytes make the decoder panic, and what it accepts survives another round trip.
func FuzzDecodeBatch(f *testing.F) {
	batches, _ := seedMessages()
	for _, m := range batches {
		f.Add(m)
	}
	f.Fuzz(func(t *testing.T, m []byte) {
		b, err := DecodeBatch(m)
		if err != nil {
			return
		}
		again, err := DecodeBatch(AppendBatch(nil, b))
		if err != nil || !reflect.DeepEqual(b, again) {
			t.Fatalf("%+v became %+v, %v", b, again, err)
		}
	})
}

// FuzzDecodeReply does so for answers.
func FuzzDecodeReply(f *testing.F) {
	_, replies := seedMessages()
	for _, m := range replies {
		f.Add(m)
	}
	f.Fuzz(func(t *testing.T, m []byte) {
		r, e, err := DecodeReply(m)
		if err != nil {
			return
		}
		r2, _, err := DecodeReply(AppendReply(nil, r, e))
		if err != nil || !reflect.DeepEqual(r, r2) {
			t.Fatalf("%+v became %+v, %v", r, r2, err)
		}
	})
}
