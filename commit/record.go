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
func (r *Record) Append(b []byte) []byte { return wire.Append(b, r, (*Record).fields) }

func (r *Record) fields(c *wire.Coder) {
	c.Message("commit.Record", wire.Skips)
	wire.One(c, 1, &r.TxnMeta, (*kv.TxnMeta).Fields)
	wire.Enum(c, 3, &r.Status, kv.Aborted)
	c.Timestamp(5, &r.Heartbeat)
	wire.List(c, 7, &r.LockSpans, kv.SpanFields)
	wire.List(c, 9, &r.InFlight, (*kv.InFlightWrite).Fields)
	wire.List(c, 11, &r.IgnoredSeqs, (*kv.SeqRange).Fields)
	c.Unknown(&r.Unknown)
}

// DecodeRecord reads what Append wrote. The result shares nothing with b.
func DecodeRecord(b []byte) (*Record, error) {
	r := &Record{}
	if len(b) == 0 {
		return nil, &wire.MalformedError{Message: "commit.Record"}
	}
	if err := wire.Decode(bytes.Clone(b), r, (*Record).fields); err != nil {
		return nil, err
	}
	return r, nil
}
