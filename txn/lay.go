package txn

import (
	"context"

	"meridian/kv"
)

// Lay sends the buffered writes, and returns when they are durable as intents. The result identifies the transaction for callers that have
// to learn its outcome by themselves: the record is at the key that was written first.
func (t *Txn) Lay(ctx context.Context) (kv.TxnMeta, error) {
	if err := t.mayWrite(); err != nil {
		return kv.TxnMeta{}, err
	}
	if err := t.locateWrites(ctx); err != nil {
		return kv.TxnMeta{}, err
	}
	t.beat.want = true
	batches := t.core.TakeFlush(t.foreign())
	if err := t.stays(); err != nil {
		return kv.TxnMeta{}, err
	}
	for _, b := range batches {
		if _, err := t.send(ctx, b, t.leader.PrepareFlush); err != nil {
			// The buffer is empty, and only a part of it was sent.
			if t.core.Broken() == nil {
				t.fail(err)
			}
			return kv.TxnMeta{}, err
		}
	}
	return t.core.Txn().TxnMeta, nil
}
