package kv

import (
	"meridian/keys"
	"meridian/wire"
)

// The bytes of this package's words, with package wire. Each type has a method that declares its fields, for both directions. Decoded values share memory with
// the message: the caller leaves the message alone afterwards.

// ErrMalformed is wrapped by what decoding returns for bytes that encoding did not write.
var ErrMalformed = wire.ErrMalformed

// Append adds the encoding of m to b.
func (m *TxnMeta) Append(b []byte) []byte { return wire.Append(b, m, (*TxnMeta).Fields) }

// someSpan is a span that is not written if it is empty.
func someSpan(c *wire.Coder, n uint32, s *keys.Span) {
	if !c.Writing() || s.Start != nil || s.End != nil {
		wire.One(c, n, s, SpanFields)
	}
}

// SpanFields declares a span.
func SpanFields(s *keys.Span, c *wire.Coder) {
	c.Message("keys.Span", wire.Refuses)
	wire.Key(c, 1, &s.Start)
	wire.Key(c, 3, &s.End)
}

// Fields declares the message. All of it must be understood: it is in intents and records, which other nodes rewrite.
func (t *TxnMeta) Fields(c *wire.Coder) {
	c.Message("kv.TxnMeta", wire.Refuses)
	wire.UUID(c, 1, &t.ID)
	wire.Key(c, 3, &t.Anchor)
	c.Timestamp(5, &t.WriteTimestamp)
	c.Timestamp(7, &t.MinTimestamp)
	wire.Uint32(c, 9, &t.Seq)
	wire.Uint32(c, 11, &t.Attempt)
	wire.Enum(c, 13, &t.Isolation, ReadCommitted)
	c.Int32(15, &t.Priority)
	c.Timestamp(17, &t.Born)
	wire.Uint64(c, 19, &t.Incarnation)
	wire.Uint32(c, 2, &t.Gateway)
}

func (t *Txn) fields(c *wire.Coder) {
	c.Message("kv.Txn", wire.Skips)
	wire.One(c, 1, &t.TxnMeta, (*TxnMeta).Fields)
	c.Timestamp(3, &t.ReadTimestamp)
	c.Timestamp(5, &t.UncertaintyLimit)
	wire.Enum(c, 7, &t.Status, Aborted)
	wire.List(c, 9, &t.Observed, (*ObservedTimestamp).fields)
	c.Timestamp(11, &t.Heartbeat)
	wire.List(c, 13, &t.LockSpans, SpanFields)
	wire.List(c, 17, &t.IgnoredSeqs, (*SeqRange).Fields)
}

func (o *ObservedTimestamp) fields(c *wire.Coder) {
	c.Message("kv.ObservedTimestamp", wire.Skips)
	wire.Uint32(c, 1, &o.Node)
	c.Timestamp(3, &o.At)
}

// Fields declares the message.
func (w *InFlightWrite) Fields(c *wire.Coder) {
	c.Message("kv.InFlightWrite", wire.Refuses)
	wire.Key(c, 1, &w.Key)
	wire.Uint32(c, 3, &w.Seq)
	wire.Enum(c, 5, &w.Protocol, MaxProtocol)
}

// Fields declares the message.
func (s *SeqRange) Fields(c *wire.Coder) {
	c.Message("kv.SeqRange", wire.Refuses)
	wire.Uint32(c, 1, &s.First)
	wire.Uint32(c, 3, &s.Last)
}

func (t *Target) fields(c *wire.Coder) {
	c.Message("kv.Target", wire.Refuses)
	wire.Enum(c, 1, &t.Kind, TargetReplica)
	wire.Uint64(c, 3, &t.Replica)
}

func (h *Header) fields(c *wire.Coder) {
	c.Message("kv.Header", wire.Skips)
	wire.Uint64(c, 1, &h.RangeID)
	c.Timestamp(3, &h.Timestamp)
	wire.Opt(c, 5, &h.Txn, (*Txn).fields)
	c.Timestamp(7, &h.Now)
	wire.Enum(c, 9, &h.WaitPolicy, Peek)
	wire.Int64(c, 11, &h.MaxKeys)
	wire.Uint32(c, 13, &h.ReadSeq)
	wire.Uint64(c, 15, &h.Generation)
	wire.Int64(c, 17, &h.LockTimeout)
	wire.Int64(c, 19, &h.TargetBytes)
	c.Bool(21, &h.CanForwardRead)
	c.Bool(23, &h.Hold)
	wire.Uint32(c, 2, &h.Gateway)
	wire.Enum(c, 25, &h.Consistency, Present)
	wire.Enum(c, 27, &h.Protocol, MaxProtocol)
	wire.Some(c, 29, &h.Target, (*Target).fields)
	// A reader that ignores Follow answers without the rows, and one that ignores FollowLock says that it has not locked them.
	c.Bool(4, &h.Trace)
	wire.Int64(c, 6, &h.MayWait)
	c.Bytes(8, &h.Follow)
	wire.Enum(c, 10, &h.FollowLock, Exclusive)
	h.laterHeader.fields(c)
}
