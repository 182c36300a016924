package leaderkv_test

import (
	"context"
	"errors"
	"testing"

	"meridian/keys"
	"meridian/kv"
	"meridian/txn"
	"meridian/txn/leaderkv"
)

// TestMixedRefusals: what registers do not have is refused by the transaction that asks for it, whose writes in the leader's ranges are
// then undone, and nothing is left behind.
func TestMixedRefusals(t *testing.T) {
	n := keys.Key("n")
	for _, tc := range []struct {
		name string
		f    func(ctx context.Context, x *txn.Txn) error
	}{
		{"FOR UPDATE", func(ctx context.Context, x *txn.Txn) error {
			x.HoldLocks(true)
			_, err := x.Get(ctx, n, kv.Exclusive, kv.Block)
			return err
		}},
		{"NOWAIT", func(ctx context.Context, x *txn.Txn) error {
			_, err := x.Get(ctx, n, kv.Exclusive, kv.NoWait)
			return err
		}},
		{"a condition", func(ctx context.Context, x *txn.Txn) error {
			var b txn.WriteBatch
			b.CPut(n, []byte("1"), []byte("0"))
			return x.CommitBatch(ctx, &b)
		}},
		{"a row that must be new", func(ctx context.Context, x *txn.Txn) error {
			var b txn.WriteBatch
			b.PutNew(n, []byte("1"))
			return x.CommitBatch(ctx, &b)
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			mixed(t, nil, func(ctx context.Context, c *leaderkv.Cluster, db *txn.DB) {
				x := db.Begin(txn.TxnOptions{})
				var b txn.WriteBatch
				b.Put(keys.Key("b"), []byte("1"))
				if err := x.Write(ctx, &b); err != nil {
					t.Fatal(err)
				}
				err := tc.f(ctx, x)
				var none *txn.UnsupportedError
				if !errors.As(err, &none) {
					t.Errorf("%v", err)
				}
				x.Rollback(ctx)
				if got := read(t, db, "b", "n"); got[0] != "" || got[1] != "" {
					t.Errorf("left behind: %q", got)
				}
			})
		})
	}
}
