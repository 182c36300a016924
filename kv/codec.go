package kv

import (
	"encoding/binary"
	"errors"
	"time"

	"meridian/clock"
	"meridian/keys"
)

// The bytes of this package's words. Every type is a fixed sequence of fields: integers are varints, byte strings
// are their length plus one (zero is nil), lists are their length and their elements. There is no reflection and
// no field tag; a message begins with codecVersion, and a change of a field list needs a new one.
//
// What is decoded shares memory with the message: the caller leaves the message alone afterwards. Decoding never
// panics, and never allocates more than a constant times the length of the message.

const codecVersion = 2

// ErrMalformed is what decoding returns for bytes that encoding did not write.
var ErrMalformed = errors.New("kv: malformed message")

type decoder struct {
	b   []byte
	bad bool
}

func (d *decoder) fail() {
	d.bad = true
	d.b = nil
}

func (d *decoder) byte() byte {
	if len(d.b) == 0 {
		d.fail()
		return 0
	}
	v := d.b[0]
	d.b = d.b[1:]
	return v
}

// enum reads a byte that must not exceed last.
func (d *decoder) enum(last byte) byte {
	v := d.byte()
	if v > last {
		d.fail()
		return 0
	}
	return v
}

func (d *decoder) bool() bool { return d.enum(1) == 1 }

func (d *decoder) uvarint() uint64 {
	if len(d.b) > 0 && d.b[0] < 0x80 {
		v := d.b[0]
		d.b = d.b[1:]
		return uint64(v)
	}
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.fail()
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) uint32() uint32 {
	v := d.uvarint()
	if v > 1<<32-1 {
		d.fail()
		return 0
	}
	return uint32(v)
}

func (d *decoder) varint() int64 {
	v, n := binary.Varint(d.b)
	if n <= 0 {
		d.fail()
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) bytes() []byte {
	n := d.uvarint()
	if n == 0 {
		return nil
	}
	n--
	if n > uint64(len(d.b)) {
		d.fail()
		return nil
	}
	v := d.b[:n:n]
	d.b = d.b[n:]
	return v
}

func (d *decoder) string() string { return string(d.bytes()) }

func (d *decoder) key() keys.Key { return keys.Key(d.bytes()) }

func (d *decoder) span() keys.Span { return keys.Span{Start: d.key(), End: d.key()} }

func (d *decoder) optSpan() *keys.Span {
	if !d.bool() {
		return nil
	}
	s := d.span()
	return &s
}

func (d *decoder) ts() clock.Timestamp {
	return clock.Timestamp{Wall: int64(d.uvarint()), Logical: d.uint32()}
}

func (d *decoder) txnID() (id TxnID) {
	if len(d.b) < len(id) {
		d.fail()
		return id
	}
	copy(id[:], d.b)
	d.b = d.b[len(id):]
	return id
}

// count reads the length of a list whose elements take at least min bytes each, so that a lie about the length
// cannot make the reader allocate much more than the message has.
func (d *decoder) count(min int) int {
	n := d.uvarint()
	if n > uint64(len(d.b)/min) {
		d.fail()
		return 0
	}
	return int(n)
}

func (d *decoder) err() error {
	if d.bad {
		return ErrMalformed
	}
	return nil
}

// end is err, and complains about bytes that are left over.
func (d *decoder) end() error {
	if d.bad || len(d.b) != 0 {
		return ErrMalformed
	}
	return nil
}

func appendUint(b []byte, v uint64) []byte {
	if v < 0x80 {
		return append(b, byte(v))
	}
	return binary.AppendUvarint(b, v)
}

func appendInt(b []byte, v int64) []byte { return binary.AppendVarint(b, v) }

func appendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

func appendBytes(b, v []byte) []byte {
	if v == nil {
		return append(b, 0)
	}
	return append(appendUint(b, uint64(len(v))+1), v...)
}

func appendString(b []byte, v string) []byte {
	return append(appendUint(b, uint64(len(v))+1), v...)
}

func appendSpan(b []byte, s keys.Span) []byte { return appendBytes(appendBytes(b, s.Start), s.End) }

func appendOptSpan(b []byte, s *keys.Span) []byte {
	if s == nil {
		return append(b, 0)
	}
	return appendSpan(append(b, 1), *s)
}

func appendTS(b []byte, t clock.Timestamp) []byte {
	return appendUint(appendUint(b, uint64(t.Wall)), uint64(t.Logical))
}

func appendList[T any](b []byte, l []T, f func([]byte, T) []byte) []byte {
	b = appendUint(b, uint64(len(l)))
	for _, v := range l {
		b = f(b, v)
	}
	return b
}

// list reads what appendList wrote; an empty list is nil.
func list[T any](d *decoder, min int, f func(*decoder) T) []T {
	n := d.count(min)
	if n == 0 {
		return nil
	}
	l := make([]T, 0, n)
	for i := 0; i < n && !d.bad; i++ {
		l = append(l, f(d))
	}
	return l
}

func appendDescriptor(b []byte, d *RangeDescriptor) []byte {
	b = appendUint(b, uint64(d.ID))
	b = appendBytes(b, d.Start)
	b = appendBytes(b, d.End)
	b = appendList(b, d.Replicas, appendReplica)
	b = appendUint(b, uint64(d.NextReplica))
	b = appendUint(b, d.Generation)
	return appendTS(append(b, byte(d.Protocol)), d.Keep)
}

func (d *decoder) descriptor() RangeDescriptor {
	return RangeDescriptor{
		ID:          RangeID(d.uvarint()),
		Start:       d.key(),
		End:         d.key(),
		Replicas:    list(d, 4, (*decoder).replica),
		NextReplica: ReplicaID(d.uvarint()),
		Generation:  d.uvarint(),
		Protocol:    Protocol(d.enum(byte(Epoch))),
		Keep:        d.ts(),
	}
}

func appendOptDescriptor(b []byte, d *RangeDescriptor) []byte {
	if d == nil {
		return append(b, 0)
	}
	return appendDescriptor(append(b, 1), d)
}

func (d *decoder) optDescriptor() *RangeDescriptor {
	if !d.bool() {
		return nil
	}
	desc := d.descriptor()
	return &desc
}

func appendReplica(b []byte, r ReplicaDescriptor) []byte {
	b = appendUint(b, uint64(r.Node))
	b = appendUint(b, uint64(r.Store))
	b = appendUint(b, uint64(r.Replica))
	return append(b, byte(r.Type))
}

func (d *decoder) replica() ReplicaDescriptor {
	return ReplicaDescriptor{
		Node:    NodeID(d.uint32()),
		Store:   StoreID(d.uint32()),
		Replica: ReplicaID(d.uvarint()),
		Type:    ReplicaType(d.enum(byte(VoterDemoting))),
	}
}

func appendRangeInfo(b []byte, i RangeInfo) []byte {
	return appendReplica(appendDescriptor(b, &i.Desc), i.Leaseholder)
}

func (d *decoder) rangeInfo() RangeInfo {
	return RangeInfo{Desc: d.descriptor(), Leaseholder: d.replica()}
}

// Append adds the encoding of m.
func (m *TxnMeta) Append(b []byte) []byte { return appendMeta(b, m) }

// DecodeTxnMeta reads what TxnMeta.Append wrote, and returns the rest. The result shares b.
func DecodeTxnMeta(b []byte) (TxnMeta, []byte, error) {
	d := decoder{b: b}
	m := d.meta()
	return m, d.b, d.err()
}

func appendMeta(b []byte, m *TxnMeta) []byte {
	b = append(b, m.ID[:]...)
	b = appendBytes(b, m.Anchor)
	b = appendUint(b, uint64(m.Attempt))
	b = appendTS(b, m.WriteTimestamp)
	b = appendTS(b, m.MinTimestamp)
	b = appendUint(b, uint64(m.Seq))
	b = appendInt(b, int64(m.Priority))
	b = append(b, byte(m.Isolation))
	return appendUint(b, uint64(m.Gateway))
}

func (d *decoder) meta() TxnMeta {
	m := TxnMeta{
		ID:             d.txnID(),
		Anchor:         d.key(),
		Attempt:        d.uint32(),
		WriteTimestamp: d.ts(),
		MinTimestamp:   d.ts(),
		Seq:            Seq(d.uint32()),
	}
	p := d.varint()
	if p != int64(int32(p)) {
		d.fail()
	}
	m.Priority = int32(p)
	m.Isolation = Isolation(d.enum(byte(ReadCommitted)))
	m.Gateway = NodeID(d.uint32())
	return m
}

// Append adds the encoding of t.
func (t *Txn) Append(b []byte) []byte { return appendTxn(b, t) }

// DecodeTxn reads what Txn.Append wrote, and returns the rest. The result shares b.
func DecodeTxn(b []byte) (*Txn, []byte, error) {
	d := decoder{b: b}
	t := d.txn()
	return &t, d.b, d.err()
}

func appendTxn(b []byte, t *Txn) []byte {
	b = appendMeta(b, &t.TxnMeta)
	b = append(b, byte(t.Status))
	b = appendTS(b, t.ReadTimestamp)
	b = appendTS(b, t.UncertaintyLimit)
	b = appendUint(b, uint64(len(t.Observed)))
	for _, o := range t.Observed {
		b = appendTS(appendUint(b, uint64(o.Node)), o.At)
	}
	b = appendTS(b, t.Heartbeat)
	b = appendList(b, t.LockSpans, appendSpan)
	b = appendInFlight(b, t.InFlight)
	return appendSeqRanges(b, t.IgnoredSeqs)
}

func (d *decoder) txn() Txn {
	return Txn{
		TxnMeta:          d.meta(),
		Status:           Status(d.enum(byte(Aborted))),
		ReadTimestamp:    d.ts(),
		UncertaintyLimit: d.ts(),
		Observed: list(d, 3, func(d *decoder) ObservedTimestamp {
			return ObservedTimestamp{Node: NodeID(d.uint32()), At: d.ts()}
		}),
		Heartbeat:   d.ts(),
		LockSpans:   list(d, 2, (*decoder).span),
		InFlight:    d.inFlight(),
		IgnoredSeqs: d.seqRanges(),
	}
}

func appendOptTxn(b []byte, t *Txn) []byte {
	if t == nil {
		return append(b, 0)
	}
	return appendTxn(append(b, 1), t)
}

func (d *decoder) optTxn() *Txn {
	if !d.bool() {
		return nil
	}
	t := d.txn()
	return &t
}

func appendInFlight(b []byte, l []InFlightWrite) []byte {
	b = appendUint(b, uint64(len(l)))
	for _, w := range l {
		b = append(appendUint(appendBytes(b, w.Key), uint64(w.Seq)), byte(w.Protocol))
	}
	return b
}

func (d *decoder) inFlight() []InFlightWrite {
	return list(d, 3, func(d *decoder) InFlightWrite {
		return InFlightWrite{Key: d.key(), Seq: Seq(d.uint32()), Protocol: Protocol(d.enum(byte(Epoch)))}
	})
}

func appendSeqRanges(b []byte, l []SeqRange) []byte {
	b = appendUint(b, uint64(len(l)))
	for _, r := range l {
		b = appendUint(appendUint(b, uint64(r.First)), uint64(r.Last))
	}
	return b
}

func (d *decoder) seqRanges() []SeqRange {
	return list(d, 2, func(d *decoder) SeqRange {
		return SeqRange{First: Seq(d.uint32()), Last: Seq(d.uint32())}
	})
}

// Header flags; a field whose flag is absent is zero.
const (
	flagTimestamp = 1 << iota
	flagTxn
	flagReadSeq
	flagMaxKeys
	flagTargetBytes
	flagLockTimeout
	flagForward
	flagTrace
	flagInconsistent
	flagStale
	flagGeneration
	flagHold
)

func appendHeader(b []byte, h *Header) []byte {
	var f uint64
	set := func(cond bool, bit uint64) {
		if cond {
			f |= bit
		}
	}
	set(!h.Timestamp.IsZero(), flagTimestamp)
	set(h.Txn != nil, flagTxn)
	set(h.ReadSeq != 0, flagReadSeq)
	set(h.MaxKeys != 0, flagMaxKeys)
	set(h.TargetBytes != 0, flagTargetBytes)
	set(h.LockTimeout != 0, flagLockTimeout)
	set(h.CanForwardRead, flagForward)
	set(h.Trace, flagTrace)
	set(h.Consistency == Inconsistent, flagInconsistent)
	set(h.Consistency == Stale, flagStale)
	set(h.Generation != 0, flagGeneration)
	set(h.Hold, flagHold)
	b = appendUint(b, f)
	b = appendUint(b, uint64(h.RangeID))
	b = append(b, byte(h.WaitPolicy))
	b = appendUint(b, uint64(h.Gateway))
	b = appendTS(b, h.Now)
	if f&flagTimestamp != 0 {
		b = appendTS(b, h.Timestamp)
	}
	if f&flagTxn != 0 {
		b = appendTxn(b, h.Txn)
	}
	if f&flagReadSeq != 0 {
		b = appendUint(b, uint64(h.ReadSeq))
	}
	if f&flagMaxKeys != 0 {
		b = appendInt(b, h.MaxKeys)
	}
	if f&flagTargetBytes != 0 {
		b = appendInt(b, h.TargetBytes)
	}
	if f&flagLockTimeout != 0 {
		b = appendInt(b, int64(h.LockTimeout))
	}
	if f&flagGeneration != 0 {
		b = appendUint(b, h.Generation)
	}
	return b
}

func (d *decoder) header(h *Header) {
	f := d.uvarint()
	if f >= flagHold<<1 || f&flagStale != 0 && f&flagInconsistent != 0 {
		d.fail()
		return
	}
	h.RangeID = RangeID(d.uvarint())
	h.WaitPolicy = WaitPolicy(d.enum(byte(Peek)))
	h.Gateway = NodeID(d.uint32())
	h.Now = d.ts()
	if f&flagTimestamp != 0 {
		h.Timestamp = d.ts()
	}
	if f&flagTxn != 0 {
		t := d.txn()
		h.Txn = &t
	}
	if f&flagReadSeq != 0 {
		h.ReadSeq = Seq(d.uint32())
	}
	if f&flagMaxKeys != 0 {
		h.MaxKeys = d.varint()
	}
	if f&flagTargetBytes != 0 {
		h.TargetBytes = d.varint()
	}
	if f&flagLockTimeout != 0 {
		h.LockTimeout = time.Duration(d.varint())
	}
	if f&flagGeneration != 0 {
		h.Generation = d.uvarint()
	}
	h.CanForwardRead = f&flagForward != 0
	h.Trace = f&flagTrace != 0
	h.Hold = f&flagHold != 0
	switch {
	case f&flagInconsistent != 0:
		h.Consistency = Inconsistent
	case f&flagStale != 0:
		h.Consistency = Stale
	}
}
