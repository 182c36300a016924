package commit

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"meridian/clock"
	"meridian/keys"
	"meridian/kv"
	"meridian/wire"
	"meridian/wire/wiretest"
)

func drawTimestamp(t *rapid.T) clock.Timestamp {
	return clock.Timestamp{Wall: rapid.Int64Range(0, 1<<62).Draw(t, "wall"), Logical: rapid.Uint32().Draw(t, "logical")}
}

func drawKey(t *rapid.T) keys.Key {
	return rapid.SliceOfN(rapid.Byte(), 1, 8).Draw(t, "key")
}

func drawRecord(t *rapid.T) *Record {
	r := &Record{Status: kv.Status(rapid.IntRange(0, 3).Draw(t, "status")), Heartbeat: drawTimestamp(t)}
	copy(r.ID[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "id"))
	r.Anchor = drawKey(t)
	r.Attempt = rapid.Uint32().Draw(t, "attempt")
	r.WriteTimestamp, r.MinTimestamp = drawTimestamp(t), drawTimestamp(t)
	r.Seq = kv.Seq(rapid.Uint32().Draw(t, "seq"))
	r.Priority = rapid.Int32().Draw(t, "priority")
	r.Isolation = kv.Isolation(rapid.IntRange(0, 2).Draw(t, "isolation"))
	r.Gateway = kv.NodeID(rapid.Uint32().Draw(t, "gateway"))
	for range rapid.IntRange(0, 3).Draw(t, "spans") {
		r.LockSpans = append(r.LockSpans, keys.Span{Start: drawKey(t), End: drawKey(t)})
	}
	for range rapid.IntRange(0, 3).Draw(t, "writes") {
		r.InFlight = append(r.InFlight, kv.InFlightWrite{Key: drawKey(t), Seq: 7, Protocol: kv.FastPaxos})
	}
	for range rapid.IntRange(0, 3).Draw(t, "ignored") {
		r.IgnoredSeqs = append(r.IgnoredSeqs, kv.SeqRange{First: 3, Last: 9})
	}
	return r
}

func TestRecordRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawRecord(t)
		b := r.Append(nil)
		got, err := DecodeRecord(b)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(r, got) {
			t.Fatalf("wrote %+v\nread %+v", r, got)
		}
		if _, err := DecodeRecord(append(b, 0)); !errors.Is(err, wire.ErrMalformed) {
			t.Fatalf("a lengthened record was read: %v", err)
		}
	})
}

// TestMessages: a record is written as package wire wants it, and keeps what a later version has written.
func TestMessages(t *testing.T) {
	wiretest.Run(t, []wiretest.Message{
		wiretest.Declared("commit.Record", wiretest.Keeps, (*Record).fields, nil),
	})
}

func FuzzDecodeRecord(f *testing.F) {
	r := Record{TxnMeta: kv.TxnMeta{Anchor: keys.Key("a")}, LockSpans: []keys.Span{{Start: keys.Key("b")}}}
	f.Add(r.Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := DecodeRecord(b)
		if err != nil {
			return
		}
		again, err := DecodeRecord(r.Append(nil))
		if err != nil || !reflect.DeepEqual(r, again) {
			t.Fatalf("%+v became %+v, %v", r, again, err)
		}
	})
}

func at(n int64) clock.Timestamp { return clock.Timestamp{Wall: n} }

const second = int64(1e9)

func TestPush(t *testing.T) {
	meta := kv.TxnMeta{ID: kv.TxnID{1}, WriteTimestamp: at(10), MinTimestamp: at(10)}
	pending := &Record{TxnMeta: meta}
	beating := &Record{TxnMeta: meta, Heartbeat: at(20 * second)}
	staging := &Record{TxnMeta: meta, Status: kv.Staging}
	committed := &Record{TxnMeta: meta, Status: kv.Committed}
	for _, tc := range []struct {
		name   string
		stored *Record
		kind   kv.PushKind
		to     int64
		force  bool
		now    int64
		want   PushOutcome
		status kv.Status
		ts     int64
	}{
		{"no record, alive", nil, kv.PushAbort, 0, false, second, PushWait, kv.Pending, 10},
		{"no record, dead (commit.CR2)", nil, kv.PushAbort, 0, false, 4 * second, PushStore, kv.Aborted, 10},
		{"no record, touched when dead", nil, kv.PushTouch, 0, false, 4 * second, PushStore, kv.Aborted, 10},
		{"no record, forced", nil, kv.PushAbort, 0, true, second, PushStore, kv.Aborted, 10},
		{"no record, timestamp", nil, kv.PushTimestamp, 50, false, second, PushStore, kv.Pending, 50},
		{"pending, timestamp", pending, kv.PushTimestamp, 50, false, second, PushStore, kv.Pending, 50},
		{"pending, already past", pending, kv.PushTimestamp, 5, false, second, PushNothing, kv.Pending, 10},
		{"heartbeat keeps alive", beating, kv.PushAbort, 0, false, 22 * second, PushWait, kv.Pending, 10},
		{"heartbeat ends", beating, kv.PushAbort, 0, false, 24 * second, PushStore, kv.Aborted, 10},
		{"staging, alive", staging, kv.PushTimestamp, 50, false, second, PushWait, kv.Staging, 10},
		{"staging is not forced, but recovered (commit.CR4)", staging, kv.PushAbort, 0, true, second, PushRecover, kv.Staging, 10},
		{"staging, dead", staging, kv.PushAbort, 0, false, 4 * second, PushRecover, kv.Staging, 10},
		{"staging, dead, but the pusher recovers it (commit.CR6)", staging, kv.PushTouch, 0, true, 4 * second, PushNothing, kv.Staging, 10},
		{"no record, by one who would recover it (commit.CR6)", nil, kv.PushTouch, 0, true, second, PushStore, kv.Aborted, 10},
		{"committed stays (commit.CR1)", committed, kv.PushAbort, 0, true, 60 * second, PushNothing, kv.Committed, 10},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r, got := Push(tc.stored, &kv.PushTxnRequest{Pushee: meta, Kind: tc.kind, PushTo: at(tc.to),
				Force: tc.force}, at(tc.now), false)
			if got != tc.want || r.Status != tc.status || r.WriteTimestamp != at(tc.ts) {
				t.Fatalf("outcome %d, %s at %s", got, r.Status, r.WriteTimestamp)
			}
		})
	}
}

// TestPushLaterAttempt: who saw an intent of a later attempt than the record's speaks for that attempt, or its
// resolution would pass the intent by. A staging record is recovered as what it is.
func TestPushLaterAttempt(t *testing.T) {
	meta := kv.TxnMeta{ID: kv.TxnID{1}, WriteTimestamp: at(10), MinTimestamp: at(10)}
	seen := meta
	seen.Attempt, seen.WriteTimestamp = 2, at(30)
	old := &Record{TxnMeta: meta, IgnoredSeqs: []kv.SeqRange{{First: 1, Last: 2}}}
	r, got := Push(old, &kv.PushTxnRequest{Pushee: seen, Kind: kv.PushTimestamp, PushTo: at(20)}, at(second), false)
	if got != PushNothing || r.Attempt != 2 || r.WriteTimestamp != at(30) || r.IgnoredSeqs != nil {
		t.Errorf("pushed below: outcome %d, %+v", got, r)
	}
	r, got = Push(old, &kv.PushTxnRequest{Pushee: seen, Kind: kv.PushTimestamp, PushTo: at(40)}, at(second), false)
	if got != PushStore || r.Attempt != 2 || r.WriteTimestamp != at(40) {
		t.Errorf("pushed past: outcome %d, %+v", got, r)
	}
	if old.Attempt != 0 || old.IgnoredSeqs == nil {
		t.Error("the stored record was changed")
	}
	r, got = Push(&Record{TxnMeta: meta, Status: kv.Staging}, &kv.PushTxnRequest{Pushee: seen, Kind: kv.PushTimestamp, PushTo: at(40)}, at(second), false)
	if got != PushWait || r.Attempt != 0 {
		t.Errorf("staging: outcome %d, %+v", got, r)
	}
	if r, _ = Heartbeat(old, &kv.Txn{TxnMeta: seen}, at(second)); r.Attempt != 2 {
		t.Errorf("a heartbeat of the later attempt leaves the record at %d", r.Attempt)
	}
}

func TestEnd(t *testing.T) {
	txn := &kv.Txn{TxnMeta: kv.TxnMeta{ID: kv.TxnID{1}, WriteTimestamp: at(10), MinTimestamp: at(10), Attempt: 1}}
	with := func(s kv.Status, ts int64) *Record {
		r := NewRecord(txn, s)
		r.WriteTimestamp = at(ts)
		return r
	}
	later := with(kv.Pending, 10)
	later.Attempt++
	flight := []kv.InFlightWrite{{Key: keys.Key("a"), Seq: 1}}
	var aborted *kv.TxnAbortedError
	var retry *kv.TxnRetryError
	var done *CommittedError
	for _, tc := range []struct {
		name   string
		stored *Record
		commit bool
		flight []kv.InFlightWrite
		want   kv.Status
		err    any
	}{
		{"commit", nil, true, nil, kv.Committed, nil},
		{"abort", nil, false, nil, kv.Aborted, nil},
		{"stage", nil, true, flight, kv.Staging, nil},
		{"staged commits", with(kv.Staging, 10), true, nil, kv.Committed, nil},
		{"committed again", with(kv.Committed, 10), true, nil, kv.Committed, nil},
		{"committed, rolled back", with(kv.Committed, 10), false, nil, 0, &done},
		{"aborted, commits", with(kv.Aborted, 10), true, nil, 0, &aborted},
		{"aborted again", with(kv.Aborted, 10), false, nil, kv.Aborted, nil},
		{"pushed (commit.CR3)", with(kv.Pending, 20), true, nil, 0, &retry},
		{"pushed, rolled back", with(kv.Pending, 20), false, nil, kv.Aborted, nil},
		{"a later attempt was seen", later, true, nil, 0, &retry},
		{"a later attempt was seen, rolled back", later, false, nil, kv.Aborted, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r, err := End(tc.stored, txn, tc.commit, tc.flight, at(11))
			if tc.err != nil {
				if err == nil || !errors.As(err, tc.err) {
					t.Fatalf("got %v", err)
				}
				return
			}
			if err != nil || r.Status != tc.want {
				t.Fatalf("got %v, %v", r, err)
			}
		})
	}
}

// flight is a little cluster: which writes are there, and the record.
type flight struct {
	found  map[string]bool
	record *Record
}

func (f *flight) Send(ctx context.Context, b *kv.Batch) (*kv.BatchResponse, error) {
	resp := &kv.BatchResponse{}
	for _, r := range b.Requests {
		switch r := r.(type) {
		case *kv.QueryIntentRequest:
			resp.Responses = append(resp.Responses, &kv.QueryIntentResponse{Found: f.found[string(r.Key)]})
		case *kv.RecoverTxnRequest:
			f.record = Finish(f.record, r)
			resp.Responses = append(resp.Responses, &kv.RecoverTxnResponse{Txn: f.record.Txn()})
		}
	}
	return resp, nil
}

func TestRecover(t *testing.T) {
	staging := Record{TxnMeta: kv.TxnMeta{ID: kv.TxnID{1}, WriteTimestamp: at(10)}, Status: kv.Staging,
		InFlight: []kv.InFlightWrite{{Key: keys.Key("a"), Seq: 1}, {Key: keys.Key("b"), Seq: 2}}}
	moved := staging
	moved.WriteTimestamp = at(20)
	for _, tc := range []struct {
		name  string
		found map[string]bool
		now   Record // what the record is when the recovery comes to it
		want  kv.Status
	}{
		{"all writes there", map[string]bool{"a": true, "b": true}, staging, kv.Committed},
		{"one missing", map[string]bool{"a": true}, staging, kv.Aborted},
		{"staged anew at a later timestamp", map[string]bool{"a": true}, moved, kv.Staging},
	} {
		t.Run(tc.name, func(t *testing.T) {
			now := tc.now
			f := &flight{found: tc.found, record: &now}
			got, err := Recover(t.Context(), f, Finishers{kv.Leader: Intents(f)}, &staging)
			if err != nil || got.Status != tc.want {
				t.Fatalf("%s, %v", got.Status, err)
			}
		})
	}
}

// TestRecoverNeedsTheList: a record as answers carry it has no list, and of no writes at all each one is durable.
func TestRecoverNeedsTheList(t *testing.T) {
	r := Record{TxnMeta: kv.TxnMeta{ID: kv.TxnID{1}, WriteTimestamp: at(10)}, Status: kv.Staging,
		InFlight: []kv.InFlightWrite{{Key: keys.Key("a"), Seq: 1}}}
	answered := r.Txn()
	f := &flight{record: &r}
	if got, err := Recover(t.Context(), f, Finishers{kv.Leader: Intents(f)}, NewRecord(&answered, kv.Staging)); err == nil {
		t.Errorf("recovered without its list: %s", got.Status)
	}
}

// TestRecoverAcrossProtocols: each in-flight write is asked for by its own protocol; all of them decide together, and
// when one can't tell nothing is decided.
func TestRecoverAcrossProtocols(t *testing.T) {
	unknown := errors.New("no quorum")
	for _, tc := range []struct {
		name  string
		there bool  // the option at its quorum
		err   error // what its protocol says instead
		none  bool  // nobody here knows the protocol
		want  kv.Status
	}{
		{"all durable", true, nil, false, kv.Committed},
		{"the option is prevented", false, nil, false, kv.Aborted},
		{"no quorum answers", false, unknown, false, kv.Staging},
		{"a protocol that nobody knows", false, nil, true, kv.Staging},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := Record{TxnMeta: kv.TxnMeta{ID: kv.TxnID{1}, WriteTimestamp: at(10)}, Status: kv.Staging, InFlight: []kv.InFlightWrite{
				{Key: keys.Key("a"), Seq: 1}, {Key: keys.Key("x"), Seq: 2, Protocol: kv.FastPaxos}, {Key: keys.Key("b"), Seq: 3}}}
			now := r
			f := &flight{found: map[string]bool{"a": true, "b": true}, record: &now}
			var asked []kv.InFlightWrite
			w := Finishers{kv.Leader: Intents(f)}
			if !tc.none {
				w[kv.FastPaxos] = &finisher{witness: func(writes []kv.InFlightWrite) (bool, error) {
					asked = append(asked, writes...)
					return tc.there, tc.err
				}}
			}
			_, err := Recover(t.Context(), f, w, &r)
			if f.record.Status != tc.want || (err != nil) != (tc.want == kv.Staging) || tc.err != nil && !errors.Is(err, tc.err) {
				t.Fatalf("%s, %v", f.record.Status, err)
			}
			if !tc.none && (len(asked) != 1 || string(asked[0].Key) != "x") {
				t.Fatalf("asked for %v", asked)
			}
		})
	}
}

// settling is a record as a sealed range finds it: it is staged by the gateway after the range has asked for it.
type settling struct {
	flight
	staged *Record
	now    clock.Timestamp
	waits  bool // the record's range waits, for the gateway or for the sealed range
}

func (f *settling) Send(ctx context.Context, b *kv.Batch) (*kv.BatchResponse, error) {
	switch q := b.Requests[0].(type) {
	case *kv.QueryTxnRequest:
		out := &kv.QueryTxnResponse{Exists: f.record != nil}
		if out.Exists {
			out.Txn, out.InFlight = f.record.Txn(), f.record.InFlight
		}
		if f.staged != nil {
			f.record, f.staged = f.staged, nil
		}
		return &kv.BatchResponse{Responses: []kv.Response{out}}, nil
	case *kv.PushTxnRequest:
		r, what := Push(f.record, q, f.now, false)
		if f.waits = what == PushWait || what == PushRecover; f.waits {
			return nil, context.DeadlineExceeded
		}
		f.record = r
		return &kv.BatchResponse{Responses: []kv.Response{&kv.PushTxnResponse{Pushee: r.Txn()}}}, nil
	}
	return f.flight.Send(ctx, b)
}

// TestConclude: a range that is sealed decides a transaction by itself, also one whose record is staged just then, whether its gateway is
// alive or not (commit.CR6).
func TestConclude(t *testing.T) {
	meta := kv.TxnMeta{ID: kv.TxnID{1}, WriteTimestamp: at(10), MinTimestamp: at(10)}
	for _, tc := range []struct {
		name   string
		staged bool
		there  bool
		now    int64
		want   kv.Status
	}{
		{"nobody has a record", false, false, second, kv.Aborted},
		{"staged meanwhile, alive, all there", true, true, second, kv.Committed},
		{"staged meanwhile, alive, one missing", true, false, second, kv.Aborted},
		{"staged meanwhile, dead, all there", true, true, 4 * second, kv.Committed},
		{"staged meanwhile, dead, one missing", true, false, 4 * second, kv.Aborted},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := &settling{flight: flight{found: map[string]bool{"a": true, "b": tc.there}}, now: at(tc.now)}
			if tc.staged {
				f.staged = &Record{TxnMeta: meta, Status: kv.Staging, InFlight: []kv.InFlightWrite{{Key: keys.Key("a"), Seq: 1}, {Key: keys.Key("b"), Seq: 2}}}
			}
			got, err := Conclude(t.Context(), f, Finishers{kv.Leader: Intents(f)}, meta)
			if f.waits || err != nil || got.Status != tc.want {
				t.Fatalf("waits: %v; %s, %v", f.waits, got.Status, err)
			}
		})
	}
}

// finisher is a protocol of which a test says what it answers.
type finisher struct {
	witness func([]kv.InFlightWrite) (bool, error)
	resolve func([]keys.Span) error
}

func (f *finisher) Witness(_ context.Context, _ *Record, writes []kv.InFlightWrite) (bool, error) {
	return f.witness(writes)
}

func (f *finisher) Resolve(_ context.Context, spans []keys.Span, _ kv.TxnMeta, _ kv.Status, _ []kv.SeqRange) error {
	return f.resolve(spans)
}

func elsewhereIn(start, end string, p kv.Protocol) error {
	return fmt.Errorf("wrapped: %w", &kv.ProtocolError{Protocol: p, Desc: &kv.RangeDescriptor{Start: keys.Key(start), End: keys.Key(end), Protocol: p}})
}

// TestWitnessOfChangedRange: a range has changed its protocol since the record was staged; the one that it has now is asked for
// those writes that are in it (commit.CR5).
func TestWitnessOfChangedRange(t *testing.T) {
	for _, there := range []bool{true, false} {
		r := Record{TxnMeta: kv.TxnMeta{ID: kv.TxnID{1}, WriteTimestamp: at(10)}, Status: kv.Staging, InFlight: []kv.InFlightWrite{
			{Key: keys.Key("a"), Seq: 1, Protocol: kv.FastPaxos}, {Key: keys.Key("x"), Seq: 2, Protocol: kv.FastPaxos}, {Key: keys.Key("b"), Seq: 3}}}
		now := r
		f := &flight{found: map[string]bool{"b": true, "x": there}, record: &now}
		var asked []string
		fs := Finishers{kv.Leader: Intents(f), kv.FastPaxos: &finisher{witness: func(writes []kv.InFlightWrite) (bool, error) {
			for _, w := range writes {
				asked = append(asked, string(w.Key))
				if string(w.Key) >= "m" {
					return false, elsewhereIn("m", "z", kv.Leader)
				}
			}
			return true, nil
		}}}
		got, err := Recover(t.Context(), f, fs, &r)
		if want := map[bool]kv.Status{true: kv.Committed, false: kv.Aborted}[there]; err != nil || got.Status != want {
			t.Errorf("x there: %v: %s, %v; asked for %q", there, got.Status, err, asked)
		}
	}
	// A range that changes to and fro is not asked for ever.
	r := Record{InFlight: []kv.InFlightWrite{{Key: keys.Key("a")}}}
	n := 0
	back := func(p kv.Protocol) *finisher {
		return &finisher{witness: func([]kv.InFlightWrite) (bool, error) { n++; return false, elsewhereIn("a", "b", p) }}
	}
	if all, err := (Finishers{kv.Leader: back(kv.FastPaxos), kv.FastPaxos: back(kv.Leader)}).Witness(t.Context(), &r, r.InFlight); err == nil || all || n > 20 {
		t.Errorf("%v, %v after %d questions", all, err, n)
	}
}

// TestResolveAcrossProtocols: spans are resolved by the protocol of the range that each part lies in.
func TestResolveAcrossProtocols(t *testing.T) {
	done := map[kv.Protocol][]string{}
	resolves := func(p, q kv.Protocol, start, end string) *finisher {
		d := &kv.RangeDescriptor{Start: keys.Key(start), End: keys.Key(end)}
		return &finisher{resolve: func(spans []keys.Span) error {
			for _, s := range spans {
				if in, _ := divide(s, d); len(in) > 0 {
					return elsewhereIn(start, end, q)
				}
			}
			for _, s := range spans {
				done[p] = append(done[p], string(s.Start)+"-"+string(s.End))
			}
			return nil
		}}
	}
	fs := Finishers{kv.Leader: resolves(kv.Leader, kv.FastPaxos, "d", "f"), kv.FastPaxos: resolves(kv.FastPaxos, kv.Leader, "x", "y")}
	span := func(start, end string) keys.Span {
		s := keys.Span{Start: keys.Key(start)}
		if end != "" {
			s.End = keys.Key(end)
		}
		return s
	}
	spans := []keys.Span{span("a", ""), span("b", "g"), span("d", ""), span("e", ""), span("f", ""), span("e", "h")}
	if err := fs.Resolve(t.Context(), kv.Leader, spans, kv.TxnMeta{}, kv.Committed, nil); err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprint(done)
	if want := "map[leader:[a- b-d f-g f- f-h] fast_paxos:[d-f d- e- e-f]]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
