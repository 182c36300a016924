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

func appendReply(b []byte, r *reply) []byte { return wire.Append(b, r, (*reply).fields) }

func appendError(b []byte, e *anyError) []byte { return wire.Append(b, e, (*anyError).fields) }

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
		r.err.err = some(rng, errorKinds)
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
	m := map[string]*reply{"head": {head: &BatchResponse{Waited: 100}}, "err": {err: anyError{&UnavailableError{Reason: "text"}}}}
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
	wiretest.Declared("keys.Span", wiretest.Refuses, SpanFields, proper),
	wiretest.Declared("kv.TxnMeta", wiretest.Refuses, (*TxnMeta).Fields, proper),
	wiretest.Declared("kv.Txn", wiretest.Skips, (*Txn).fields, proper),
	wiretest.Declared("kv.ObservedTimestamp", wiretest.Skips, (*ObservedTimestamp).fields, proper),
	wiretest.Declared("kv.InFlightWrite", wiretest.Refuses, (*InFlightWrite).Fields, proper),
	wiretest.Declared("kv.SeqRange", wiretest.Refuses, (*SeqRange).Fields, proper),
	wiretest.Declared("kv.Header", wiretest.Skips, (*Header).fields, proper),
	wiretest.Values(wiretest.Declared("kv.Batch", wiretest.Skips, (*Batch).fields, properBatch), AppendBatch, goldenBatches()),
	wiretest.Declared("kv.GetRequest", wiretest.Skips, (*GetRequest).fields, proper),
	wiretest.Declared("kv.ScanRequest", wiretest.Skips, (*ScanRequest).fields, proper),
	wiretest.Declared("kv.PutRequest", wiretest.Skips, (*PutRequest).fields, proper),
	wiretest.Declared("kv.CPutRequest", wiretest.Skips, (*CPutRequest).fields, proper),
	wiretest.Declared("kv.DeleteRequest", wiretest.Skips, (*DeleteRequest).fields, proper),
	wiretest.Declared("kv.DeleteRangeRequest", wiretest.Skips, (*DeleteRangeRequest).fields, proper),
	wiretest.Declared("kv.AddRequest", wiretest.Skips, (*AddRequest).fields, proper),
	wiretest.Declared("kv.EndTxnRequest", wiretest.Skips, (*EndTxnRequest).fields, proper),
	wiretest.Declared("kv.HeartbeatTxnRequest", wiretest.Skips, (*HeartbeatTxnRequest).fields, proper),
	wiretest.Declared("kv.PushTxnRequest", wiretest.Skips, (*PushTxnRequest).fields, proper),
	wiretest.Declared("kv.QueryTxnRequest", wiretest.Skips, (*QueryTxnRequest).fields, proper),
	wiretest.Declared("kv.QueryIntentRequest", wiretest.Skips, (*QueryIntentRequest).fields, proper),
	wiretest.Declared("kv.ResolveIntentRequest", wiretest.Skips, (*ResolveIntentRequest).fields, proper),
	wiretest.Declared("kv.ResolveRangeRequest", wiretest.Skips, (*ResolveRangeRequest).fields, proper),
	wiretest.Declared("kv.RefreshRequest", wiretest.Skips, (*RefreshRequest).fields, proper),
	wiretest.Declared("kv.RefreshRangeRequest", wiretest.Skips, (*RefreshRangeRequest).fields, proper),
	wiretest.Declared("kv.CheckLocksRequest", wiretest.Skips, (*CheckLocksRequest).fields, proper),
	wiretest.Declared("kv.CloseRequest", wiretest.Skips, (*CloseRequest).fields, proper),
	wiretest.Declared("kv.NegotiateRequest", wiretest.Skips, (*NegotiateRequest).fields, proper),
	wiretest.Declared("kv.GCRequest", wiretest.Skips, (*GCRequest).fields, proper),
	wiretest.Declared("kv.AdminSplitRequest", wiretest.Skips, (*AdminSplitRequest).fields, proper),
	wiretest.Declared("kv.SubsumeRequest", wiretest.Skips, (*SubsumeRequest).fields, proper),
	wiretest.Declared("kv.ReleaseRequest", wiretest.Skips, (*ReleaseRequest).fields, proper),
	wiretest.Declared("kv.AdminMergeRequest", wiretest.Skips, (*AdminMergeRequest).fields, proper),
	wiretest.Declared("kv.AdminChangeReplicasRequest", wiretest.Skips, (*AdminChangeReplicasRequest).fields, proper),
	wiretest.Declared("kv.AdminTransferLeaseRequest", wiretest.Skips, (*AdminTransferLeaseRequest).fields, proper),
	wiretest.Declared("kv.RangeInfoRequest", wiretest.Skips, (*RangeInfoRequest).fields, proper),
	wiretest.Declared("kv.RecoverTxnRequest", wiretest.Skips, (*RecoverTxnRequest).fields, proper),
	wiretest.Declared("kv.LoadRequest", wiretest.Skips, (*LoadRequest).fields, proper),
	wiretest.Declared("kv.ClearRequest", wiretest.Skips, (*ClearRequest).fields, proper),
	wiretest.Declared("kv.GCKey", wiretest.Skips, (*GCKey).fields, proper),
	wiretest.Declared("kv.HeldLocks", wiretest.Skips, (*HeldLocks).fields, proper),
	wiretest.Declared("kv.ReplicaTarget", wiretest.Skips, (*ReplicaTarget).fields, proper),
	wiretest.Declared("kv.KeyValue", wiretest.Skips, (*KeyValue).fields, proper),
	wiretest.Declared("kv.BatchResponse", wiretest.Skips, (*BatchResponse).fields, properHead),
	wiretest.Declared("kv.Served", wiretest.Skips, (*Served).fields, proper),
	wiretest.Values(wiretest.Declared("kv.Reply", wiretest.Skips, (*reply).fields, properReply), appendReply, goldenReplies()),
	wiretest.Declared("kv.EmptyResponse", wiretest.Skips, (*EmptyResponse).fields, nil),
	wiretest.Declared("kv.GetResponse", wiretest.Skips, (*GetResponse).fields, proper),
	wiretest.Declared("kv.ScanResponse", wiretest.Skips, (*ScanResponse).fields, proper),
	wiretest.Declared("kv.DeleteRangeResponse", wiretest.Skips, (*DeleteRangeResponse).fields, proper),
	wiretest.Declared("kv.AddResponse", wiretest.Skips, (*AddResponse).fields, proper),
	wiretest.Declared("kv.EndTxnResponse", wiretest.Skips, (*EndTxnResponse).fields, proper),
	wiretest.Declared("kv.HeartbeatTxnResponse", wiretest.Skips, (*HeartbeatTxnResponse).fields, proper),
	wiretest.Declared("kv.PushTxnResponse", wiretest.Skips, (*PushTxnResponse).fields, proper),
	wiretest.Declared("kv.QueryTxnResponse", wiretest.Skips, (*QueryTxnResponse).fields, proper),
	wiretest.Declared("kv.QueryIntentResponse", wiretest.Skips, (*QueryIntentResponse).fields, proper),
	wiretest.Declared("kv.RangeInfoResponse", wiretest.Skips, (*RangeInfoResponse).fields, proper),
	wiretest.Declared("kv.RecoverTxnResponse", wiretest.Skips, (*RecoverTxnResponse).fields, proper),
	wiretest.Declared("kv.LoadResponse", wiretest.Skips, (*LoadResponse).fields, proper),
	wiretest.Declared("kv.CloseResponse", wiretest.Skips, (*CloseResponse).fields, proper),
	wiretest.Declared("kv.NegotiateResponse", wiretest.Skips, (*NegotiateResponse).fields, proper),
	wiretest.Declared("kv.SubsumeResponse", wiretest.Skips, (*SubsumeResponse).fields, proper),
	wiretest.Values(wiretest.Declared("kv.Error", wiretest.Skips, (*anyError).fields, properError), appendError, goldenErrors()),
	wiretest.Declared("kv.InternalError", wiretest.Skips, (*InternalError).fields, proper),
	wiretest.Declared("kv.NotLeaseholderError", wiretest.Skips, (*NotLeaseholderError).fields, proper),
	wiretest.Declared("kv.RangeNotFoundError", wiretest.Skips, (*RangeNotFoundError).fields, proper),
	wiretest.Declared("kv.RangeMismatchError", wiretest.Skips, (*RangeMismatchError).fields, proper),
	wiretest.Declared("kv.WriteTooOldError", wiretest.Skips, (*WriteTooOldError).fields, proper),
	wiretest.Declared("kv.UncertaintyError", wiretest.Skips, (*UncertaintyError).fields, proper),
	wiretest.Declared("kv.TxnRetryError", wiretest.Skips, (*TxnRetryError).fields, proper),
	wiretest.Declared("kv.TxnAbortedError", wiretest.Skips, (*TxnAbortedError).fields, proper),
	wiretest.Declared("kv.DeadlockError", wiretest.Skips, (*DeadlockError).fields, proper),
	wiretest.Declared("kv.RefreshFailedError", wiretest.Skips, (*RefreshFailedError).fields, proper),
	wiretest.Declared("kv.OnePhaseError", wiretest.Skips, (*OnePhaseError).fields, proper),
	wiretest.Declared("kv.AnswerTooLargeError", wiretest.Skips, (*AnswerTooLargeError).fields, proper),
	wiretest.Declared("kv.LocksLostError", wiretest.Skips, (*LocksLostError).fields, proper),
	wiretest.Declared("kv.ConditionFailedError", wiretest.Skips, (*ConditionFailedError).fields, proper),
	wiretest.Declared("kv.LockNotAvailableError", wiretest.Skips, (*LockNotAvailableError).fields, proper),
	wiretest.Declared("kv.AddOverflowError", wiretest.Skips, (*AddOverflowError).fields, proper),
	wiretest.Declared("kv.AmbiguousError", wiretest.Skips, (*AmbiguousError).fields, proper),
	wiretest.Declared("kv.BelowGCError", wiretest.Skips, (*BelowGCError).fields, proper),
	wiretest.Declared("kv.FutureError", wiretest.Skips, (*FutureError).fields, proper),
	wiretest.Declared("kv.NotClosedError", wiretest.Skips, (*NotClosedError).fields, proper),
	wiretest.Declared("kv.Target", wiretest.Refuses, (*Target).fields, proper),
	wiretest.Declared("kv.ProtocolRequest", wiretest.Skips, (*ProtocolRequest).fields, proper),
	wiretest.Declared("kv.ProtocolResponse", wiretest.Skips, (*ProtocolResponse).fields, proper),
	wiretest.Declared("kv.StorePosition", wiretest.Refuses, (*StorePosition).Fields, nil),
	wiretest.Declared("kv.ProtocolError", wiretest.Skips, (*ProtocolError).fields, proper),
	wiretest.Declared("kv.GenerationError", wiretest.Skips, (*GenerationError).fields, proper),
	wiretest.Declared("kv.AdminSetProtocolRequest", wiretest.Skips, (*AdminSetProtocolRequest).fields, proper),
	wiretest.Declared("kv.AdminRecallRequest", wiretest.Skips, (*AdminRecallRequest).fields, proper),
	wiretest.Declared("kv.AdminSetProtocolResponse", wiretest.Skips, (*AdminSetProtocolResponse).fields, proper),
	wiretest.Declared("kv.UnreadableError", wiretest.Skips, (*UnreadableError).fields, proper),
	wiretest.Declared("kv.ProtocolRefusedError", wiretest.Skips, (*ProtocolRefusedError).fields, proper),
	wiretest.Declared("kv.UnavailableError", wiretest.Skips, (*UnavailableError).fields, proper),
	wiretest.Declared("kv.TxnWait", wiretest.Skips, (*TxnWait).fields, proper),
	wiretest.Declared("kv.RangeDescriptor", wiretest.Keeps, (*RangeDescriptor).Fields, proper),
	wiretest.Declared("kv.ReplicaDescriptor", wiretest.Refuses, (*ReplicaDescriptor).Fields, proper),
	wiretest.Declared("kv.RangeInfo", wiretest.Skips, (*RangeInfo).fields, proper),
	wiretest.Declared("kv.CommitTrigger", wiretest.Refuses, (*CommitTrigger).Fields, proper),
	wiretest.Declared("kv.SplitTrigger", wiretest.Refuses, (*SplitTrigger).fields, proper),
	wiretest.Declared("kv.MergeTrigger", wiretest.Refuses, (*MergeTrigger).fields, proper),
	wiretest.Declared("kv.SealTrigger", wiretest.Refuses, (*SealTrigger).fields, proper),
	wiretest.Declared("kv.ReplicasTrigger", wiretest.Refuses, (*ReplicasTrigger).fields, proper),
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
