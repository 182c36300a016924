package kv

import (
	"time"

	"meridian/keys"
	"meridian/wire"
)

// The bytes of this package's words, with package wire. Each type has a function that appends its fields and one that reads
// them. Decoded values share memory with the message: the caller leaves the message alone afterwards.

// ErrMalformed is wrapped by what decoding returns for bytes that encoding did not write.
var ErrMalformed = wire.ErrMalformed

func appendSpan(b []byte, s *keys.Span) []byte {
	return wire.Bytes(wire.Bytes(b, 1, s.Start), 3, s.End)
}

func readSpan(r *wire.Reader, s *keys.Span) {
	for m := r.Open("keys.Span"); r.Next(&m); {
		switch r.Field() {
		case 1:
			s.Start = r.Bytes()
		case 3:
			s.End = r.Bytes()
		default:
			r.Refuse()
		}
	}
}

func spanField(b []byte, field uint32, s *keys.Span) []byte {
	b, at := wire.Begin(b, field)
	return wire.End(appendSpan(b, s), at)
}

// someSpan adds a span that is not empty.
func someSpan(b []byte, field uint32, s *keys.Span) []byte {
	if s.Start == nil && s.End == nil {
		return b
	}
	return spanField(b, field, s)
}

func spanFields(b []byte, field uint32, l []keys.Span) []byte {
	for i := range l {
		b = spanField(b, field, &l[i])
	}
	return b
}

func optSpanField(b []byte, field uint32, s *keys.Span) []byte {
	if s == nil {
		return b
	}
	return spanField(b, field, s)
}

// AppendSpan adds the fields of a span, for messages of other packages.
func AppendSpan(b []byte, s *keys.Span) []byte { return appendSpan(b, s) }

// ReadSpan reads what AppendSpan wrote.
func ReadSpan(r *wire.Reader, s *keys.Span) { readSpan(r, s) }

// AppendFields adds the fields of m, for messages that have it inside.
func (m *TxnMeta) AppendFields(b []byte) []byte {
	b = wire.ID(b, 1, m.ID)
	b = wire.Bytes(b, 3, m.Anchor)
	b = wire.Timestamp(b, 5, m.WriteTimestamp)
	b = wire.Timestamp(b, 7, m.MinTimestamp)
	b = wire.Uint(b, 9, uint64(m.Seq))
	b = wire.Uint(b, 11, uint64(m.Attempt))
	b = wire.Uint(b, 13, uint64(m.Isolation))
	b = wire.Int(b, 15, int64(m.Priority))
	b = wire.Timestamp(b, 17, m.Born)
	b = wire.Uint(b, 19, m.Incarnation)
	return wire.Uint(b, 2, uint64(m.Gateway))
}

// ReadTxnMeta reads what AppendFields wrote. All of it must be understood: it is in intents and records, which other nodes rewrite.
func ReadTxnMeta(r *wire.Reader, t *TxnMeta) {
	for m := r.Open("kv.TxnMeta"); r.Next(&m); {
		switch r.Field() {
		case 1:
			t.ID = r.ID()
		case 2:
			t.Gateway = NodeID(r.Uint32())
		case 3:
			t.Anchor = r.Bytes()
		case 5:
			t.WriteTimestamp = r.Timestamp()
		case 7:
			t.MinTimestamp = r.Timestamp()
		case 9:
			t.Seq = Seq(r.Uint32())
		case 11:
			t.Attempt = r.Uint32()
		case 13:
			t.Isolation = Isolation(r.Enum(uint8(ReadCommitted)))
		case 15:
			t.Priority = r.Int32()
		case 17:
			t.Born = r.Timestamp()
		case 19:
			t.Incarnation = r.Uint()
		default:
			r.Refuse()
		}
	}
}

func metaField(b []byte, field uint32, m *TxnMeta) []byte {
	b, at := wire.Begin(b, field)
	return wire.End(m.AppendFields(b), at)
}

// Append adds the encoding of m to b.
func (m *TxnMeta) Append(b []byte) []byte { return m.AppendFields(b) }

func appendTxn(b []byte, t *Txn) []byte {
	b = metaField(b, 1, &t.TxnMeta)
	b = wire.Timestamp(b, 3, t.ReadTimestamp)
	b = wire.Timestamp(b, 5, t.UncertaintyLimit)
	b = wire.Uint(b, 7, uint64(t.Status))
	for i := range t.Observed {
		var at int
		b, at = wire.Begin(b, 9)
		b = wire.End(appendObserved(b, &t.Observed[i]), at)
	}
	b = wire.Timestamp(b, 11, t.Heartbeat)
	b = spanFields(b, 13, t.LockSpans)
	return seqRangeFields(b, 17, t.IgnoredSeqs)
}

func readTxn(r *wire.Reader, t *Txn) {
	for m := r.Open("kv.Txn"); r.Next(&m); {
		switch r.Field() {
		case 1:
			ReadTxnMeta(r, &t.TxnMeta)
		case 3:
			t.ReadTimestamp = r.Timestamp()
		case 5:
			t.UncertaintyLimit = r.Timestamp()
		case 7:
			t.Status = Status(r.Enum(uint8(Aborted)))
		case 9:
			readObserved(r, wire.Grow(r, &t.Observed))
		case 11:
			t.Heartbeat = r.Timestamp()
		case 13:
			readSpan(r, wire.Grow(r, &t.LockSpans))
		case 17:
			ReadSeqRange(r, wire.Grow(r, &t.IgnoredSeqs))
		default:
			r.Skip()
		}
	}
}

func txnField(b []byte, field uint32, t *Txn) []byte {
	b, at := wire.Begin(b, field)
	return wire.End(appendTxn(b, t), at)
}

func optTxnField(b []byte, field uint32, t *Txn) []byte {
	if t == nil {
		return b
	}
	return txnField(b, field, t)
}

func appendObserved(b []byte, o *ObservedTimestamp) []byte {
	return wire.Timestamp(wire.Uint(b, 1, uint64(o.Node)), 3, o.At)
}

func readObserved(r *wire.Reader, o *ObservedTimestamp) {
	for m := r.Open("kv.ObservedTimestamp"); r.Next(&m); {
		switch r.Field() {
		case 1:
			o.Node = NodeID(r.Uint32())
		case 3:
			o.At = r.Timestamp()
		default:
			r.Skip()
		}
	}
}

// AppendInFlight adds the fields of a write in flight.
func AppendInFlight(b []byte, w *InFlightWrite) []byte {
	b = wire.Bytes(b, 1, w.Key)
	b = wire.Uint(b, 3, uint64(w.Seq))
	return wire.Uint(b, 5, uint64(w.Protocol))
}

// ReadInFlight reads what AppendInFlight wrote.
func ReadInFlight(r *wire.Reader, w *InFlightWrite) {
	for m := r.Open("kv.InFlightWrite"); r.Next(&m); {
		switch r.Field() {
		case 1:
			w.Key = r.Bytes()
		case 3:
			w.Seq = Seq(r.Uint32())
		case 5:
			w.Protocol = readProtocol(r)
		default:
			r.Refuse()
		}
	}
}

func readProtocol(r *wire.Reader) Protocol { return Protocol(r.Enum(uint8(MaxProtocol))) }

func inFlightFields(b []byte, field uint32, l []InFlightWrite) []byte {
	for i := range l {
		var at int
		b, at = wire.Begin(b, field)
		b = wire.End(AppendInFlight(b, &l[i]), at)
	}
	return b
}

// AppendSeqRange adds the fields of a range of sequence numbers.
func AppendSeqRange(b []byte, s *SeqRange) []byte {
	return wire.Uint(wire.Uint(b, 1, uint64(s.First)), 3, uint64(s.Last))
}

// ReadSeqRange reads what AppendSeqRange wrote.
func ReadSeqRange(r *wire.Reader, s *SeqRange) {
	for m := r.Open("kv.SeqRange"); r.Next(&m); {
		switch r.Field() {
		case 1:
			s.First = Seq(r.Uint32())
		case 3:
			s.Last = Seq(r.Uint32())
		default:
			r.Refuse()
		}
	}
}

func seqRangeFields(b []byte, field uint32, l []SeqRange) []byte {
	for i := range l {
		var at int
		b, at = wire.Begin(b, field)
		b = wire.End(AppendSeqRange(b, &l[i]), at)
	}
	return b
}

func appendHeader(b []byte, h *Header) []byte {
	b = wire.Uint(b, 1, uint64(h.RangeID))
	b = wire.Timestamp(b, 3, h.Timestamp)
	b = optTxnField(b, 5, h.Txn)
	b = wire.Timestamp(b, 7, h.Now)
	b = wire.Uint(b, 9, uint64(h.WaitPolicy))
	b = wire.Int(b, 11, h.MaxKeys)
	b = wire.Uint(b, 13, uint64(h.ReadSeq))
	b = wire.Uint(b, 15, h.Generation)
	b = wire.Int(b, 17, int64(h.LockTimeout))
	b = wire.Int(b, 19, h.TargetBytes)
	b = wire.Bool(b, 21, h.CanForwardRead)
	b = wire.Bool(b, 23, h.Hold)
	b = wire.Uint(b, 2, uint64(h.Gateway))
	b = wire.Uint(b, 25, uint64(h.Consistency))
	b = wire.Uint(b, 27, uint64(h.Protocol))
	if h.Target != (Target{}) {
		var at int
		b, at = wire.Begin(b, 29)
		b = wire.End(appendTarget(b, &h.Target), at)
	}
	// A reader that ignores Follow answers without the rows, and one that ignores FollowLock says that it has not locked them.
	b = wire.Bytes(wire.Int(wire.Bool(b, 4, h.Trace), 6, int64(h.MayWait)), 8, h.Follow)
	return h.laterHeader.append(wire.Uint(b, 10, uint64(h.FollowLock)))
}

func appendTarget(b []byte, t *Target) []byte {
	return wire.Uint(wire.Uint(b, 1, uint64(t.Kind)), 3, uint64(t.Replica))
}

func readTarget(r *wire.Reader, t *Target) {
	for m := r.Open("kv.Target"); r.Next(&m); {
		switch r.Field() {
		case 1:
			t.Kind = TargetKind(r.Enum(uint8(TargetReplica)))
		case 3:
			t.Replica = ReplicaID(r.Uint())
		default:
			r.Refuse()
		}
	}
}

func readHeader(r *wire.Reader, h *Header) {
	for m := r.Open("kv.Header"); r.Next(&m); {
		switch r.Field() {
		case 1:
			h.RangeID = RangeID(r.Uint())
		case 2:
			h.Gateway = NodeID(r.Uint32())
		case 3:
			h.Timestamp = r.Timestamp()
		case 4:
			h.Trace = r.Bool()
		case 5:
			h.Txn = &Txn{}
			readTxn(r, h.Txn)
		case 6:
			h.MayWait = time.Duration(r.Int())
		case 7:
			h.Now = r.Timestamp()
		case 8:
			h.Follow = r.Bytes()
		case 9:
			h.WaitPolicy = WaitPolicy(r.Enum(uint8(Peek)))
		case 10:
			h.FollowLock = LockStrength(r.Enum(uint8(Exclusive)))
		case 11:
			h.MaxKeys = r.Int()
		case 13:
			h.ReadSeq = Seq(r.Uint32())
		case 15:
			h.Generation = r.Uint()
		case 17:
			h.LockTimeout = time.Duration(r.Int())
		case 19:
			h.TargetBytes = r.Int()
		case 21:
			h.CanForwardRead = r.Bool()
		case 23:
			h.Hold = r.Bool()
		case 25:
			h.Consistency = Consistency(r.Enum(uint8(Present)))
		case 27:
			h.Protocol = readProtocol(r)
		case 29:
			readTarget(r, &h.Target)
		default:
			if !h.laterHeader.read(r) {
				r.Skip()
			}
		}
	}
}
