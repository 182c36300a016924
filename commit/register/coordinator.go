package register

import (
	"context"
	"fmt"

	"meridian/clock"
	"meridian/commit/transaction"
	"meridian/keys"
	"meridian/kv"
	"meridian/txn"
)

// coordinator is a gateway's half of a transaction's work in ranges of registers: it reads what is committed now, and proposes writes.
// There is no snapshot: a transaction that reads twice may see another one's commit between.
type coordinator struct{ c *Client }

// Begin implements txn.Protocol.
func (c *Client) Begin() txn.Coordinator { return coordinator{c} }

// Get implements txn.Coordinator. Locks order writers only (txn.TX3), and here nothing does; but a lock that the client has asked for
// has to be one.
func (x coordinator) Get(ctx context.Context, t *kv.Txn, ks []keys.Key, o txn.ReadOptions) ([][]byte, error) {
	if o.Lock != kv.NoLock && (o.Hold || o.Wait != kv.Block) {
		return nil, &txn.UnsupportedError{Protocol: Protocol, What: "row locks"}
	}
	values := make([][]byte, len(ks))
	for i, k := range ks {
		var err error
		if values[i], err = x.c.Get(ctx, k); err != nil {
			return nil, err
		}
	}
	return values, nil
}

// Scan implements txn.Coordinator.
func (x coordinator) Scan(context.Context, *kv.Txn, txn.ScanOptions) ([]kv.KeyValue, *keys.Span, error) {
	return nil, nil, &txn.UnsupportedError{Protocol: Protocol, What: "scans"}
}

// Write implements txn.Coordinator.
func (x coordinator) Write(ctx context.Context, t *kv.Txn, writes []transaction.Write) error {
	for i := range writes {
		w := &writes[i]
		if w.Conditional {
			return &txn.UnsupportedError{Protocol: Protocol, What: "conditional writes"}
		}
		meta := t.TxnMeta
		meta.Seq = w.Seq
		r, err := x.c.Propose(ctx, w.Key, w.Value, &meta)
		switch {
		case err != nil:
			return fmt.Errorf("proposing %s: %w", keys.Masked(w.Key), err)
		case !r.TooOld.IsZero():
			return &kv.WriteTooOldError{Key: w.Key, Actual: r.TooOld}
		case r.Outcome != Written:
			// Somebody took the gateway for dead, and may have found the write before it was prevented: the gateway asks the record (txn.MP4).
			// At another timestamp it is another decree.
			return &kv.TxnRetryError{Reason: kv.RetryPossibleReplay, WriteTimestamp: t.WriteTimestamp.Next()}
		}
	}
	return nil
}

// Decide implements txn.Coordinator. It is not called: a transaction has a record.
func (x coordinator) Decide(context.Context, *kv.Txn, []transaction.Write, clock.Timestamp) (clock.Timestamp, error) {
	return clock.Timestamp{}, &txn.UnsupportedError{Protocol: Protocol, What: "commits without a record"}
}

// A read is of what has committed, and nothing is remembered of it: there is no level above READ COMMITTED.

// HasRead implements txn.Coordinator.
func (x coordinator) HasRead(keys.Key) bool { return false }

// Confirm implements txn.Coordinator.
func (x coordinator) Confirm(context.Context, *kv.Txn, func(keys.Key) bool) error { return nil }

// Reads implements txn.Coordinator.
func (x coordinator) Reads() bool { return false }

// Hold implements txn.Coordinator.
func (x coordinator) Hold(context.Context, *kv.Txn, clock.Timestamp) error { return nil }

// Restarted implements txn.Coordinator.
func (x coordinator) Restarted(bool) {}

// Committed implements txn.Coordinator: reads ask a majority, which has the writes.
func (x coordinator) Committed(clock.Timestamp) {}

// Ended implements txn.Coordinator.
func (x coordinator) Ended() {}
