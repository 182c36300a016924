package txn

import (
	"context"

	"meridian/kv"
)

// Lay sends what is buffered, and returns when it is there as intents. It names the transaction for those who have to
// find out by themselves how it ended: the record is at the key that was written first.
func (t *Txn) Lay(ctx context.Context) (kv.TxnMeta, error) {
	if err := t.mayWrite(); err != nil {
		return kv.TxnMeta{}, err
	}
	t.beat.want = true
	for _, b := range t.c.TakeFlush() {
		if _, err := t.send(ctx, b, t.c.PrepareFlush); err != nil {
			// The buffer is gone, and only part of it was sent.
			if t.c.Broken() == nil {
				t.c.Fail(err)
			}
			return kv.TxnMeta{}, err
		}
	}
	return t.c.Txn().TxnMeta, nil
}
