package kv

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"meridian/clock"
	"meridian/keys"
)

// fill draws a random value for anything that the codec carries: it walks the type, so that a field that the
// codec forgets is found by the round trip.
func fill(t *rapid.T, v reflect.Value, depth int) {
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, "bool"))
	case reflect.Int32:
		v.SetInt(int64(rapid.Int32().Draw(t, "int32")))
	case reflect.Int, reflect.Int64:
		v.SetInt(rapid.Int64().Draw(t, "int64"))
	case reflect.Uint8:
		v.SetUint(uint64(rapid.IntRange(0, 1).Draw(t, "uint8")))
	case reflect.Uint32:
		v.SetUint(uint64(rapid.Uint32().Draw(t, "uint32")))
	case reflect.Uint64:
		v.SetUint(rapid.Uint64().Draw(t, "uint64"))
	case reflect.String:
		v.SetString(rapid.String().Draw(t, "string"))
	case reflect.Array:
		for i := range v.Len() {
			fill(t, v.Index(i), depth)
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			if rapid.Bool().Draw(t, "nil") {
				return
			}
			v.SetBytes(rapid.SliceOfN(rapid.Byte(), 0, 6).Draw(t, "bytes"))
			return
		}
		n := rapid.IntRange(0, 2).Draw(t, "len")
		if n == 0 || depth > 4 {
			return // the codec does not tell an empty list from a nil one
		}
		s := reflect.MakeSlice(v.Type(), n, n)
		for i := range n {
			fill(t, s.Index(i), depth+1)
		}
		v.Set(s)
	case reflect.Pointer:
		if depth > 4 || rapid.Bool().Draw(t, "nil") {
			return
		}
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem(), depth+1)
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[CommitTrigger]() {
			// Exactly one field is set.
			f := v.Field(rapid.IntRange(0, 2).Draw(t, "trigger"))
			f.Set(reflect.New(f.Type().Elem()))
			fill(t, f.Elem(), depth+1)
			return
		}
		for i := range v.NumField() {
			fill(t, v.Field(i), depth+1)
		}
	case reflect.Interface: // filled by the caller
	default:
		panic(fmt.Sprintf("codec test: %s", v.Type()))
	}
}

func draw[T any](t *rapid.T) *T {
	v := new(T)
	fill(t, reflect.ValueOf(v).Elem(), 0)
	return v
}

var requests = []func(*rapid.T) Request{
	func(t *rapid.T) Request { return draw[GetRequest](t) },
	func(t *rapid.T) Request { return draw[ScanRequest](t) },
	func(t *rapid.T) Request { return draw[PutRequest](t) },
	func(t *rapid.T) Request { return draw[CPutRequest](t) },
	func(t *rapid.T) Request { return draw[DeleteRequest](t) },
	func(t *rapid.T) Request { return draw[DeleteRangeRequest](t) },
	func(t *rapid.T) Request { return draw[AddRequest](t) },
	func(t *rapid.T) Request { return draw[EndTxnRequest](t) },
	func(t *rapid.T) Request { return draw[HeartbeatTxnRequest](t) },
	func(t *rapid.T) Request { return draw[PushTxnRequest](t) },
	func(t *rapid.T) Request { return draw[QueryTxnRequest](t) },
	func(t *rapid.T) Request { return draw[QueryIntentRequest](t) },
	func(t *rapid.T) Request { return draw[ResolveIntentRequest](t) },
	func(t *rapid.T) Request { return draw[ResolveRangeRequest](t) },
	func(t *rapid.T) Request { return draw[RefreshRequest](t) },
	func(t *rapid.T) Request { return draw[RefreshRangeRequest](t) },
	func(t *rapid.T) Request { return draw[GCRequest](t) },
	func(t *rapid.T) Request { return draw[AdminSplitRequest](t) },
	func(t *rapid.T) Request { return draw[AdminMergeRequest](t) },
	func(t *rapid.T) Request { return draw[AdminChangeReplicasRequest](t) },
	func(t *rapid.T) Request { return draw[AdminTransferLeaseRequest](t) },
	func(t *rapid.T) Request { return draw[RangeInfoRequest](t) },
	func(t *rapid.T) Request { return draw[RecoverTxnRequest](t) },
	func(t *rapid.T) Request {
		r := draw[LoadRequest](t)
		for i := range r.Rows {
			r.Rows[i].Timestamp = clock.Timestamp{}
		}
		return r
	},
	func(t *rapid.T) Request { return draw[ClearRequest](t) },
	func(t *rapid.T) Request { return draw[SubsumeRequest](t) },
	func(t *rapid.T) Request { return draw[ReleaseRequest](t) },
	func(t *rapid.T) Request { return draw[CheckLocksRequest](t) },
}

var responses = []func(*rapid.T) Response{
	func(*rapid.T) Response { return nil },
	func(t *rapid.T) Response { return draw[EmptyResponse](t) },
	func(t *rapid.T) Response { return draw[GetResponse](t) },
	func(t *rapid.T) Response { return draw[ScanResponse](t) },
	func(t *rapid.T) Response { return draw[DeleteRangeResponse](t) },
	func(t *rapid.T) Response { return draw[AddResponse](t) },
	func(t *rapid.T) Response { return draw[EndTxnResponse](t) },
	func(t *rapid.T) Response { return draw[HeartbeatTxnResponse](t) },
	func(t *rapid.T) Response { return draw[PushTxnResponse](t) },
	func(t *rapid.T) Response { return draw[QueryTxnResponse](t) },
	func(t *rapid.T) Response { return draw[QueryIntentResponse](t) },
	func(t *rapid.T) Response { return draw[RangeInfoResponse](t) },
	func(t *rapid.T) Response { return draw[SubsumeResponse](t) },
	func(t *rapid.T) Response { return draw[RecoverTxnResponse](t) },
	func(t *rapid.T) Response { return draw[LoadResponse](t) },
}

var errorKinds = []func(*rapid.T) error{
	func(*rapid.T) error { return nil },
	func(t *rapid.T) error { return draw[InternalError](t) },
	func(t *rapid.T) error { return draw[NotLeaseholderError](t) },
	func(t *rapid.T) error { return draw[RangeNotFoundError](t) },
	func(t *rapid.T) error { return draw[RangeMismatchError](t) },
	func(t *rapid.T) error { return draw[WriteTooOldError](t) },
	func(t *rapid.T) error { return draw[UncertaintyError](t) },
	func(t *rapid.T) error { return draw[TxnRetryError](t) },
	func(t *rapid.T) error { return draw[TxnAbortedError](t) },
	func(t *rapid.T) error { return draw[DeadlockError](t) },
	func(t *rapid.T) error { return draw[RefreshFailedError](t) },
	func(t *rapid.T) error { return draw[ConditionFailedError](t) },
	func(t *rapid.T) error { return draw[LockNotAvailableError](t) },
	func(t *rapid.T) error { return draw[AddOverflowError](t) },
	func(t *rapid.T) error { return draw[AmbiguousError](t) },
	func(t *rapid.T) error { return draw[BelowGCError](t) },
	func(t *rapid.T) error { return draw[UnavailableError](t) },
}

func drawBatch(t *rapid.T) *Batch {
	b := &Batch{Header: *draw[Header](t)}
	for range rapid.IntRange(0, 4).Draw(t, "requests") {
		b.Requests = append(b.Requests, requests[rapid.IntRange(0, len(requests)-1).Draw(t, "method")](t))
	}
	return b
}

// TestBatchRoundTrip: what is decoded is what was encoded, for every field of every request.
func TestBatchRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := drawBatch(t)
		got, err := DecodeBatch(AppendBatch(nil, b))
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(b, got) {
			t.Fatalf("encoded %+v\ndecoded %+v", b, got)
		}
	})
}

// TestEachRequestRoundTrip reaches every method whatever the dice say.
func TestEachRequestRoundTrip(t *testing.T) {
	for i, f := range requests {
		rapid.Check(t, func(t *rapid.T) {
			b := &Batch{Requests: []Request{f(t)}}
			if m := b.Requests[0].Method(); int(m) != i+1 {
				t.Fatalf("method %d at place %d: a request type is missing in this test", m, i)
			}
			got, err := DecodeBatch(AppendBatch(nil, b))
			if err != nil || !reflect.DeepEqual(b, got) {
				t.Fatalf("encoded %+v\ndecoded %+v, %v", b.Requests[0], got, err)
			}
		})
	}
}

// TestReplyRoundTrip: the same for responses and errors.
func TestReplyRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := draw[BatchResponse](t)
		r.Responses = nil
		for range rapid.IntRange(0, 4).Draw(t, "responses") {
			r.Responses = append(r.Responses, responses[rapid.IntRange(0, len(responses)-1).Draw(t, "kind")](t))
		}
		e := errorKinds[rapid.IntRange(0, len(errorKinds)-1).Draw(t, "error")](t)
		if rapid.Bool().Draw(t, "only error") {
			r = nil
		}
		got, gotErr, err := DecodeReply(AppendReply(nil, r, e))
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(r, got) {
			t.Fatalf("encoded %+v\ndecoded %+v", r, got)
		}
		if !reflect.DeepEqual(e, gotErr) {
			t.Fatalf("encoded %#v\ndecoded %#v", e, gotErr)
		}
	})
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

// TestTruncated: every proper prefix of a message is refused, and so is every message with a byte too many.
func TestTruncated(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := AppendBatch(nil, drawBatch(t))
		for i := range m {
			if _, err := DecodeBatch(m[:i]); err == nil {
				t.Fatalf("%d of %d bytes decoded", i, len(m))
			}
		}
		if _, err := DecodeBatch(append(m, 0)); err == nil {
			t.Fatal("a byte too many was accepted")
		}
	})
}

func seedMessages() (batches, replies [][]byte) {
	at := clock.Timestamp{Wall: 1 << 60, Logical: 3}
	txn := &Txn{TxnMeta: TxnMeta{ID: TxnID{1, 2}, Anchor: keys.Key("a"), WriteTimestamp: at, Seq: 4}, ReadTimestamp: at}
	desc := RangeDescriptor{ID: 4, Start: keys.Key("a"), End: keys.Key("m"), Replicas: []ReplicaDescriptor{{1, 1, 1, Voter}}}
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

// TestHugeCounts: a short message that claims long lists is refused before memory is taken for them.
func TestHugeCounts(t *testing.T) {
	m := []byte{codecVersion, 0, 1, 0, 0, 0, 0}
	m = appendUint(m, 1<<40)
	if _, err := DecodeBatch(m); err == nil {
		t.Fatal("accepted")
	}
}

func BenchmarkBatchRoundTrip(b *testing.B) {
	at := clock.Timestamp{Wall: 1 << 60, Logical: 3}
	txn := &Txn{TxnMeta: TxnMeta{ID: TxnID{1, 2}, WriteTimestamp: at, MinTimestamp: at}, ReadTimestamp: at, UncertaintyLimit: at}
	batch := &Batch{Header: Header{RangeID: 5, Txn: txn, Now: at}, Requests: []Request{&GetRequest{Key: keys.Key("some key of a row")}}}
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		buf = AppendBatch(buf[:0], batch)
		if _, err := DecodeBatch(buf); err != nil {
			b.Fatal(err)
		}
	}
}
