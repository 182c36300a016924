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
	batches := t.core.TakeFlush(t.foreign())
	if err := t.stays(); err != nil {
		return kv.TxnMeta{}, err
	}
	if err := t.keeper.Lay(ctx, batches); err != nil {
		return kv.TxnMeta{}, err
	}
	return t.core.Txn().TxnMeta, nil
}
