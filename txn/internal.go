package txn

import (
	"context"

	"meridian/keys"
	"meridian/kv"
)

// Internal is a transaction of the system itself, such as a split: it may end with a trigger that a range carries
// out atomically with the commit.
type Internal struct{ t *Txn }

// RunInternal runs f in a transaction, again if it has to be retried. f ends it with CommitWithTrigger; otherwise it
// is committed when f returns.
func (db *DB) RunInternal(ctx context.Context, name string, f func(ctx context.Context, tx *Internal) error) error {
	return db.Run(ctx, TxnOptions{Name: name}, func(ctx context.Context, t *Txn) error { return f(ctx, &Internal{t}) })
}

// Get reads a key.
func (x *Internal) Get(ctx context.Context, k keys.Key) ([]byte, error) {
	return x.t.Get(ctx, k, kv.NoLock, kv.Block)
}

// Put writes a key. Later reads of the transaction see it. The first key written is the transaction's anchor.
func (x *Internal) Put(ctx context.Context, k keys.Key, v []byte) error {
	var b WriteBatch
	b.Put(k, v)
	err := x.t.Write(ctx, &b)
	x.t.StepStatement()
	return err
}

// CPut writes a key whose value must be expected (nil: none); else *kv.ConditionFailedError.
func (x *Internal) CPut(ctx context.Context, k keys.Key, v, expected []byte) error {
	var b WriteBatch
	b.CPut(k, v, expected)
	err := x.t.Write(ctx, &b)
	x.t.StepStatement()
	return err
}

// Delete removes a key.
func (x *Internal) Delete(ctx context.Context, k keys.Key) error {
	var b WriteBatch
	b.Delete(k)
	err := x.t.Write(ctx, &b)
	x.t.StepStatement()
	return err
}

// CommitWithTrigger commits; t, if not nil, is carried out by the anchor's range with the commit.
func (x *Internal) CommitWithTrigger(ctx context.Context, t *kv.CommitTrigger) error {
	return x.t.CommitWithTrigger(ctx, t)
}

// Increment adds to an integer outside of transactions and returns the sum; it is Add by another name.
func (db *DB) Increment(ctx context.Context, k keys.Key, delta int64) (int64, error) {
	return db.Add(ctx, k, delta)
}
