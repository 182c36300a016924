package commit

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"meridian/keys"
	"meridian/kv"
)

// Sender sends a batch to the ranges of its keys.
type Sender interface {
	Send(ctx context.Context, b *kv.Batch) (*kv.BatchResponse, error)
}

// Finisher is how the part that one protocol has in a transaction is finished by others than its coordinator, which may be gone.
// A range whose protocol has changed is answered with *kv.ProtocolError; the protocol that it names is asked then.
type Finisher interface {
	// Witness answers "are these writes durable?" (commit.CR4). all says that each of them is, at or below the record's write
	// timestamp. For all to be false, at least one of them must never become durable there, whoever still tries; if the
	// Witness can't tell, it returns an error, and nothing is decided.
	Witness(ctx context.Context, r *Record, writes []kv.InFlightWrite) (all bool, err error)
	// Resolve gives the locks and provisional writes of a transaction that has ended its outcome, in spans of ranges of the
	// protocol. There need not be any, and it may be repeated.
	Resolve(ctx context.Context, spans []keys.Span, meta kv.TxnMeta, status kv.Status, ignored []kv.SeqRange) error
}

// Finishers are the protocols that recovery and cleanup know.
type Finishers map[kv.Protocol]Finisher

// AskMax is the number of writes that recovery asks for at once: some hundred kilobytes of questions, which leaseholders answer
// within milliseconds. A record with as many writes as it may list takes eight rounds.
const AskMax = 8192

// intents is the leader protocol's Finisher.
type intents struct{ s Sender }

// Intents is the leader protocol's Finisher: a durable write is an intent at its leaseholder, and a query for a missing one prevents it at
// its timestamp. The first batch of questions with such a one is the last.
func Intents(s Sender) Finisher { return intents{s} }

func (f intents) Witness(ctx context.Context, r *Record, writes []kv.InFlightWrite) (bool, error) {
	for len(writes) > 0 {
		n := min(len(writes), AskMax)
		slab, reqs := make([]kv.QueryIntentRequest, n), make([]kv.Request, n)
		for i, w := range writes[:n] {
			slab[i] = kv.QueryIntentRequest{Key: w.Key, Txn: r.TxnMeta}
			slab[i].Txn.Seq = w.Seq
			reqs[i] = &slab[i]
		}
		resp, err := f.s.Send(ctx, &kv.Batch{Requests: reqs})
		if err != nil {
			return false, err
		}
		if len(resp.Responses) != n {
			return false, &kv.InternalError{Message: "recovery got an answer to another question"}
		}
		for _, one := range resp.Responses {
			if q, ok := one.(*kv.QueryIntentResponse); !ok || !q.Found {
				return false, nil
			}
		}
		writes = writes[n:]
	}
	return true, nil
}

func (f intents) Resolve(ctx context.Context, spans []keys.Span, meta kv.TxnMeta, status kv.Status, ignored []kv.SeqRange) error {
	for _, span := range spans {
		if err := ResolveSpan(ctx, f.s, span, meta, status, ignored); err != nil {
			return err
		}
	}
	return nil
}

// maxHandedOver bounds how often one query is passed on to another protocol: ranges that change theirs faster are asked later.
const maxHandedOver = 8

// unknown is what comes of a protocol that this node does not have.
func (fs Finishers) unknown(p kv.Protocol, id kv.TxnID) error {
	return &kv.InternalError{Message: fmt.Sprintf("transaction %s has writes of protocol %s, which this node does not know", id, p)}
}

// elsewhere reports whether an error says that a range has another protocol than p, and tells which keys are in it.
func elsewhere(err error, p kv.Protocol) (q kv.Protocol, in func(keys.Key) bool, ok bool) {
	var other *kv.ProtocolError
	if !errors.As(err, &other) || other.Protocol == p {
		return 0, nil, false
	}
	if other.Desc == nil {
		return other.Protocol, func(keys.Key) bool { return true }, true
	}
	span := keys.Span{Start: other.Desc.Start, End: other.Desc.End}
	return other.Protocol, func(k keys.Key) bool { return span.Contains(keys.Addr(k)) }, true
}

// Witness asks the protocol of each write whether it is durable (commit.CR4).
func (fs Finishers) Witness(ctx context.Context, r *Record, writes []kv.InFlightWrite) (all bool, err error) {
	for handed := 0; len(writes) > 0; {
		p := writes[0].Protocol
		var now, later []kv.InFlightWrite
		for _, w := range writes {
			if w.Protocol == p {
				now = append(now, w)
			} else {
				later = append(later, w)
			}
		}
		f := fs[p]
		if f == nil {
			return false, fs.unknown(p, r.ID)
		}
		durable, err := f.Witness(ctx, r, now)
		if q, in, ok := elsewhere(err, p); ok && handed < maxHandedOver {
			// commit.CR5
			handed++
			moved := slices.Clone(writes)
			for i := range moved {
				if moved[i].Protocol == p && in(moved[i].Key) {
					moved[i].Protocol = q
				}
			}
			writes = moved
			continue
		}
		if err != nil {
			return false, fmt.Errorf("asking for the writes of transaction %s: %w", r.ID, err)
		}
		if !durable {
			return false, nil // one that is missing and prevented decides
		}
		writes = later
	}
	return true, nil
}

// Resolve gives the locks and provisional writes of a transaction that has ended its outcome, in spans whose protocol is p, as far
// as the caller knows.
func (fs Finishers) Resolve(ctx context.Context, p kv.Protocol, spans []keys.Span, meta kv.TxnMeta, status kv.Status, ignored []kv.SeqRange) error {
	return fs.resolve(ctx, p, spans, meta, status, ignored, 0)
}

func (fs Finishers) resolve(ctx context.Context, p kv.Protocol, spans []keys.Span, meta kv.TxnMeta, status kv.Status, ignored []kv.SeqRange, handed int) error {
	for len(spans) > 0 {
		f := fs[p]
		if f == nil {
			return fs.unknown(p, meta.ID)
		}
		err := f.Resolve(ctx, spans, meta, status, ignored)
		var other *kv.ProtocolError
		if !errors.As(err, &other) || other.Protocol == p || handed == maxHandedOver {
			return err
		}
		// Each of the spans that lie in the range, or the part of it that does, is the other protocol's.
		in, out := spans, []keys.Span(nil)
		if d := other.Desc; d != nil {
			in = nil
			for _, s := range spans {
				inside, outside := divide(s, d)
				in, out = append(in, inside...), append(out, outside...)
			}
		}
		handed++
		if err := fs.resolve(ctx, other.Protocol, in, meta, status, ignored, handed); err != nil {
			return err
		}
		spans = out
	}
	return nil
}

// divide cuts a span into what lies in a range and what does not.
func divide(s keys.Span, d *kv.RangeDescriptor) (in, out []keys.Span) {
	if s.Point() {
		if a := keys.Addr(s.Start); !a.Less(d.Start) && a.Less(d.End) {
			return []keys.Span{s}, nil
		}
		return nil, []keys.Span{s}
	}
	if !d.Start.Less(s.End) || !s.Start.Less(d.End) {
		return nil, []keys.Span{s}
	}
	mid := s
	if s.Start.Less(d.Start) {
		out = append(out, keys.Span{Start: s.Start, End: d.Start})
		mid.Start = d.Start
	}
	if d.End.Less(s.End) {
		out = append(out, keys.Span{Start: d.End, End: s.End})
		mid.End = d.End
	}
	return []keys.Span{mid}, out
}

// Recover finishes a STAGING transaction whose coordinator is gone (commit.CR4), and returns it as it stands afterwards.
// Several nodes may do so at once, and the coordinator may still be alive: all come to the same answer, because a
// write that was not found can't become durable at its timestamp any more.
func Recover(ctx context.Context, s Sender, fs Finishers, r *Record) (kv.Txn, error) {
	if len(r.InFlight) == 0 {
		// Of no writes at all each is durable. A record that came in an answer may have lost its list (Record.Txn).
		return kv.Txn{}, &kv.InternalError{Message: fmt.Sprintf("the staging record of transaction %s lists no writes", r.ID)}
	}
	all, err := fs.Witness(ctx, r, r.InFlight)
	if err != nil {
		return kv.Txn{}, err
	}
	resp, err := s.Send(ctx, &kv.Batch{Requests: []kv.Request{
		&kv.RecoverTxnRequest{Txn: r.TxnMeta, ImplicitlyCommits: all},
	}})
	if err != nil {
		return kv.Txn{}, fmt.Errorf("recovering transaction %s: %w", r.ID, err)
	}
	if rr, ok := resp.Responses[0].(*kv.RecoverTxnResponse); ok {
		return rr.Txn, nil
	}
	return kv.Txn{}, &kv.InternalError{Message: "recovery got an answer to another question"}
}

// Conclude decides a transaction now (commit.CR6): a pending one is aborted, a staging one recovered, by the caller. One that its gateway stages
// anew meanwhile is looked at again: what has been found out is of the record before.
func Conclude(ctx context.Context, s Sender, fs Finishers, meta kv.TxnMeta) (t kv.Txn, err error) {
	for !Final(t.Status) {
		resp, err := s.Send(ctx, &kv.Batch{Requests: []kv.Request{&kv.QueryTxnRequest{Txn: meta, List: true}}})
		if err != nil {
			return kv.Txn{}, err
		}
		if q, ok := resp.Responses[0].(*kv.QueryTxnResponse); ok && q.Exists && q.Txn.Status == kv.Staging {
			r := NewRecord(&q.Txn, kv.Staging)
			r.InFlight = q.InFlight
			if t, err = Recover(ctx, s, fs, r); err != nil {
				return kv.Txn{}, err
			}
			continue
		}
		resp, err = s.Send(ctx, &kv.Batch{Requests: []kv.Request{&kv.PushTxnRequest{Pushee: meta, Kind: kv.PushTouch, Force: true}}})
		if err != nil {
			return kv.Txn{}, err
		}
		p, ok := resp.Responses[0].(*kv.PushTxnResponse)
		if !ok {
			return kv.Txn{}, &kv.InternalError{Message: "a record answered another question"}
		}
		t = p.Pushee
	}
	return t, nil
}
