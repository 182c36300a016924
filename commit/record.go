package commit

import (
	"errors"
	"time"

	"meridian/clock"
	"meridian/encoding"
	"meridian/keys"
	"meridian/kv"
)

const (
	// HeartbeatInterval is how often a coordinator shows that it lives, from a transaction's second on.
	HeartbeatInterval = time.Second
	// Expiry is how long a transaction is taken for alive after its last sign of life: three heartbeats, of which two
	// may be late. It bounds how long the locks of a dead gateway are in the way.
	Expiry = 3 * time.Second
	// AbortedRetention is how long the record of a transaction that somebody else aborted is kept (CR1). A
	// coordinator that has not heard for so long has expired hundreds of times.
	AbortedRetention = time.Hour
)

// Record is a transaction record.
type Record struct {
	kv.TxnMeta
	Status kv.Status
	// Heartbeat is the coordinator's last sign of life.
	Heartbeat clock.Timestamp
	// LockSpans are the keys whose intents have yet to be resolved, once the status is final or staging.
	LockSpans []keys.Span
	// InFlight are the writes that a STAGING transaction waits for (CR4).
	InFlight []kv.InFlightWrite
	// IgnoredSeqs are rolled back: intents of these sequence numbers do not exist.
	IgnoredSeqs []kv.SeqRange
}

// NewRecord is the record that a transaction would have now.
func NewRecord(t *kv.Txn, status kv.Status) *Record {
	return &Record{TxnMeta: t.TxnMeta, Status: status, Heartbeat: t.Heartbeat, LockSpans: t.LockSpans,
		InFlight: t.InFlight, IgnoredSeqs: t.IgnoredSeqs}
}

// Key is where the record is stored.
func (r *Record) Key() keys.Key { return keys.TxnKey(r.Anchor, r.ID) }

// Txn is the record as requests carry it.
func (r *Record) Txn() kv.Txn {
	return kv.Txn{TxnMeta: r.TxnMeta, Status: r.Status, ReadTimestamp: r.WriteTimestamp, Heartbeat: r.Heartbeat,
		LockSpans: r.LockSpans, InFlight: r.InFlight, IgnoredSeqs: r.IgnoredSeqs}
}

// Expires is when the transaction is taken for dead (CR2).
func (r *Record) Expires() clock.Timestamp { return r.MinTimestamp.Forward(r.Heartbeat).Add(Expiry) }

// Expired reports whether the coordinator has given no sign of life for too long.
func (r *Record) Expired(now clock.Timestamp) bool { return r.Expires().Less(now) }

// Final reports whether the status can't change any more (CR1).
func Final(s kv.Status) bool { return s == kv.Committed || s == kv.Aborted }

// recordVersion is the first byte of an encoded record.
const recordVersion = 1

// Append adds the record's bytes to b.
func (r *Record) Append(b []byte) []byte {
	b = append(b, recordVersion, byte(r.Status), byte(r.Isolation))
	b = append(b, r.ID[:]...)
	b = encoding.AppendSized(b, r.Anchor)
	b = encoding.AppendUvarint(b, uint64(r.Attempt))
	b = r.WriteTimestamp.Append(b)
	b = r.MinTimestamp.Append(b)
	b = r.Heartbeat.Append(b)
	b = encoding.AppendUvarint(b, uint64(r.Seq))
	b = encoding.AppendVarint(b, int64(r.Priority))
	b = encoding.AppendUvarint(b, uint64(r.Gateway))
	b = encoding.AppendUvarint(b, uint64(len(r.LockSpans)))
	for _, s := range r.LockSpans {
		b = encoding.AppendSized(b, s.Start)
		b = encoding.AppendSized(b, s.End)
	}
	b = encoding.AppendUvarint(b, uint64(len(r.InFlight)))
	for _, w := range r.InFlight {
		b = encoding.AppendSized(b, w.Key)
		b = encoding.AppendUvarint(b, uint64(w.Seq))
		b = append(b, byte(w.Protocol))
	}
	b = encoding.AppendUvarint(b, uint64(len(r.IgnoredSeqs)))
	for _, s := range r.IgnoredSeqs {
		b = encoding.AppendUvarint(b, uint64(s.First))
		b = encoding.AppendUvarint(b, uint64(s.Last))
	}
	return b
}

// ErrBadRecord is what DecodeRecord returns for bytes that Append did not write.
var ErrBadRecord = errors.New("commit: malformed transaction record")

type decoder struct {
	b   []byte
	bad bool
}

func (d *decoder) fail() { d.b, d.bad = nil, true }

func (d *decoder) byte() byte {
	if len(d.b) == 0 {
		d.fail()
		return 0
	}
	v := d.b[0]
	d.b = d.b[1:]
	return v
}

func (d *decoder) uvarint(max uint64) uint64 {
	v, rest, err := encoding.Uvarint(d.b)
	if err != nil || v > max {
		d.fail()
		return 0
	}
	d.b = rest
	return v
}

func (d *decoder) varint() int64 {
	v, rest, err := encoding.Varint(d.b)
	if err != nil {
		d.fail()
		return 0
	}
	d.b = rest
	return v
}

func (d *decoder) sized() []byte {
	v, rest, err := encoding.Sized(d.b)
	if err != nil {
		d.fail()
		return nil
	}
	d.b = rest
	if len(v) == 0 {
		return nil
	}
	return append([]byte(nil), v...)
}

func (d *decoder) timestamp() clock.Timestamp {
	t, rest, err := clock.Decode(d.b)
	if err != nil {
		d.fail()
		return clock.Timestamp{}
	}
	d.b = rest
	return t
}

// count reads a length; every element has at least min bytes, so that a lie can't make us allocate.
func (d *decoder) count(min int) int { return int(d.uvarint(uint64(len(d.b) / min))) }

// DecodeRecord reads what Append wrote. The result shares nothing with b.
func DecodeRecord(b []byte) (*Record, error) {
	d := decoder{b: b}
	r := &Record{}
	if d.byte() != recordVersion {
		return nil, ErrBadRecord
	}
	status, isolation := d.byte(), d.byte()
	if status > byte(kv.Aborted) || isolation > byte(kv.ReadCommitted) || len(d.b) < len(r.ID) {
		return nil, ErrBadRecord
	}
	r.Status, r.Isolation = kv.Status(status), kv.Isolation(isolation)
	d.b = d.b[copy(r.ID[:], d.b):]
	r.Anchor = d.sized()
	r.Attempt = uint32(d.uvarint(1<<32 - 1))
	r.WriteTimestamp = d.timestamp()
	r.MinTimestamp = d.timestamp()
	r.Heartbeat = d.timestamp()
	r.Seq = kv.Seq(d.uvarint(1<<32 - 1))
	r.Priority = int32(d.varint())
	r.Gateway = kv.NodeID(d.uvarint(1<<32 - 1))
	if n := d.count(2); n > 0 {
		r.LockSpans = make([]keys.Span, n)
		for i := range r.LockSpans {
			r.LockSpans[i] = keys.Span{Start: d.sized(), End: d.sized()}
		}
	}
	if n := d.count(3); n > 0 {
		r.InFlight = make([]kv.InFlightWrite, n)
		for i := range r.InFlight {
			r.InFlight[i] = kv.InFlightWrite{Key: d.sized(), Seq: kv.Seq(d.uvarint(1<<32 - 1)),
				Protocol: kv.Protocol(d.byte())}
		}
	}
	if n := d.count(2); n > 0 {
		r.IgnoredSeqs = make([]kv.SeqRange, n)
		for i := range r.IgnoredSeqs {
			r.IgnoredSeqs[i] = kv.SeqRange{First: kv.Seq(d.uvarint(1<<32 - 1)), Last: kv.Seq(d.uvarint(1<<32 - 1))}
		}
	}
	if d.bad || len(d.b) > 0 {
		return nil, ErrBadRecord
	}
	return r, nil
}
