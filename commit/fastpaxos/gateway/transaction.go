package gateway

import (
	"bytes"
	"time"

	"meridian/clock"
	"meridian/commit/fastpaxos/core"
	"meridian/keys"
	"meridian/kv"
	"meridian/txn"
)

// The state of a transaction at its gateway.

// coordinator is a gateway's half of a transaction in ranges of this protocol. It reads what is committed, as far as the nearest replica knows, and
// remembers in which state of each row: its options replace exactly those (fastpaxos.FP24).
type coordinator struct {
	c *Client
	// seen has the rows as they were first read.
	seen map[string]core.Row
	// checked are rows as they were last read for the sake of a constraint, fresh are those that were read freshly (guard.go).
	checked, fresh map[string]core.Row
	// unconfirmed are rows that the running statement has read at the nearest replica, and decides by (current.go).
	unconfirmed map[string]unconfirmed
	// floor is a timestamp at or below which a range has not accepted the transaction's options, whatever they were.
	floor clock.Timestamp
	// since is when the attempt began, zero for the first one.
	since clock.Timestamp
	// sent are the options of the last Write, which the next one's take the place of.
	sent map[string]core.Option
	// turns are the transaction's at hot rows, if it has any. rival is the gateway whose transaction was faster.
	turns []*turn
	rival kv.NodeID
	// at is the timestamp that the transaction's reads are of, zero if they are of the present; spans are what was read.
	at    clock.Timestamp
	spans []keys.Span
	front frontier
	// drawn is a timestamp that this gateway has drawn for the transaction's reads, such that its options may have it too (fastpaxos.FP89); zero: it has not.
	drawn clock.Timestamp
}

// see remembers a row. The first time counts: what the transaction writes may depend on any of the times.
func (x *coordinator) see(w *core.Row) {
	if _, ok := x.seen[string(w.Key)]; !ok {
		x.seen[string(w.Key)] = *w
	}
}

// within is how old what is read may be.
func (x *coordinator) within(most time.Duration) time.Duration {
	if most == 0 {
		return core.StalenessMost
	}
	return min(most, core.StalenessMost)
}

// beaten remembers whose version or option was in the way.
func (x *coordinator) beaten(at clock.Timestamp) {
	if g := gatewayOf(at); g != 0 {
		x.rival = g
	}
}

// ofSnapshot reports whether a transaction reads at its timestamp.
func ofSnapshot(t *kv.Txn) bool {
	return t.Isolation != kv.ReadCommitted || t.ReadTimestamp.Less(t.MinTimestamp)
}

// changed says that what was read has been written since. Another attempt reads at a later timestamp than to.
func changed(to clock.Timestamp) *txn.ReadError {
	return &txn.ReadError{Protocol: kv.FastPaxos, Cause: &kv.TxnRetryError{Reason: kv.RetrySerializable, WriteTimestamp: to}}
}

// unconfirmed is a row as a statement has read it. first: the transaction had not read it before.
type unconfirmed struct {
	value []byte
	first bool
}

func sameValue(a, b []byte) bool { return bytes.Equal(a, b) && (a == nil) == (b == nil) }
