package commit

import (
	"bytes"
	"time"

	"meridian/clock"
	"meridian/keys"
	"meridian/kv"
	"meridian/wire"
)

const (
	// HeartbeatInterval is how often a coordinator shows that it lives, from a transaction's second on.
	HeartbeatInterval = time.Second
	// Expiry is how long a transaction is taken for alive after its last sign of life: three heartbeats, of which two
	// may be late. It bounds how long the locks of a dead gateway are in the way.
	Expiry = 3 * time.Second
	// AbortedRetention is how long the record of a transaction that somebody else aborted is kept (commit.CR1). A
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
	// InFlight are the writes that a STAGING transaction waits for (commit.CR4).
	InFlight []kv.InFlightWrite
	// IgnoredSeqs are rolled back: intents of these sequence numbers do not exist.
	IgnoredSeqs []kv.SeqRange
	// Unknown are fields that a later version wrote; a change of the record keeps them.
	Unknown wire.Unknown
}

// NewRecord is the record that a transaction would have now.
func NewRecord(t *kv.Txn, status kv.Status) *Record {
	return &Record{TxnMeta: t.TxnMeta, Status: status, Heartbeat: t.Heartbeat, LockSpans: t.LockSpans, IgnoredSeqs: t.IgnoredSeqs}
}

// WhyAborted is what the client of a transaction is told that another one has aborted. Of an externally consistent one whose client is there to be told this is nearly always an older one (wound-wait, leader.P27); of
// others, otherwise.
func WhyAborted(t *kv.TxnMeta, otherwise string) string {
	if t != nil && t.External() {
		return "an older one needed a lock that this one held"
	}
	return otherwise
}

// Key is where the record is stored.
func (r *Record) Key() keys.Key { return keys.TxnKey(r.Anchor, r.ID) }

// Txn is the record as answers carry it: without the writes in flight, which may be many and concern nobody but recovery.
func (r *Record) Txn() kv.Txn {
	return kv.Txn{TxnMeta: r.TxnMeta, Status: r.Status, ReadTimestamp: r.WriteTimestamp, Heartbeat: r.Heartbeat,
		LockSpans: r.LockSpans, IgnoredSeqs: r.IgnoredSeqs}
}

// Expires is when the transaction is taken for dead (commit.CR2).
func (r *Record) Expires() clock.Timestamp { return r.MinTimestamp.Forward(r.Heartbeat).Add(Expiry) }

// Expired reports whether the coordinator has given no sign of life for too long.
func (r *Record) Expired(now clock.Timestamp) bool { return r.Expires().Less(now) }

// Final reports whether the status can't change any more (commit.CR1).
func Final(s kv.Status) bool { return s == kv.Committed || s == kv.Aborted }

// Append adds the record's fields to b.
func (r *Record) Append(b []byte) []byte {
	b, at := wire.Begin(b, 1)
	b = wire.End(r.TxnMeta.Append(b), at)
	b = wire.Uint(b, 3, uint64(r.Status))
	b = wire.Timestamp(b, 5, r.Heartbeat)
	for i := range r.LockSpans {
		b, at = wire.Begin(b, 7)
		b = wire.End(wire.Append(b, &r.LockSpans[i], kv.SpanFields), at)
	}
	for i := range r.InFlight {
		b, at = wire.Begin(b, 9)
		b = wire.End(wire.Append(b, &r.InFlight[i], (*kv.InFlightWrite).Fields), at)
	}
	for i := range r.IgnoredSeqs {
		b, at = wire.Begin(b, 11)
		b = wire.End(wire.Append(b, &r.IgnoredSeqs[i], (*kv.SeqRange).Fields), at)
	}
	return r.Unknown.Append(b)
}

func readRecord(d *wire.Reader, r *Record) {
	for m := d.Open("commit.Record"); d.Next(&m); {
		switch d.Field() {
		case 1:
			wire.In(d, &r.TxnMeta, (*kv.TxnMeta).Fields)
		case 3:
			r.Status = kv.Status(d.Enum(uint8(kv.Aborted)))
		case 5:
			r.Heartbeat = d.Timestamp()
		case 7:
			wire.In(d, wire.Grow(d, &r.LockSpans), kv.SpanFields)
		case 9:
			wire.In(d, wire.Grow(d, &r.InFlight), (*kv.InFlightWrite).Fields)
		case 11:
			wire.In(d, wire.Grow(d, &r.IgnoredSeqs), (*kv.SeqRange).Fields)
		default:
			d.Keep(&r.Unknown)
		}
	}
}

// DecodeRecord reads what Append wrote. The result shares nothing with b.
func DecodeRecord(b []byte) (*Record, error) {
	d := wire.Read(bytes.Clone(b))
	r := &Record{}
	if readRecord(&d, r); len(b) == 0 {
		d.Malformed()
	}
	if d.Err() != nil {
		return nil, d.Err()
	}
	return r, nil
}
