package leaderkv_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"meridian/keys"
	"meridian/kv"
	"meridian/txn"
	"meridian/txn/leaderkv"
)

// TestChecksHold: a key that a constraint wants is locked below SERIALIZABLE, whichever request has looked for it, and keys that it does not want have no value when the
// transaction commits later than it has looked (coordinator.CO7).
func TestChecksHold(t *testing.T) {
	for _, level := range []kv.Isolation{kv.Serializable, kv.RepeatableRead, kv.ReadCommitted} {
		for name, look := range map[string]func(ctx context.Context, x *txn.Txn, present, absent []keys.Key) (found, taken [][]byte, err error){
			"together": func(ctx context.Context, x *txn.Txn, present, absent []keys.Key) (found, taken [][]byte, err error) {
				return x.CheckTogether(ctx, present, absent)
			},
			"apart": func(ctx context.Context, x *txn.Txn, present, absent []keys.Key) (found, taken [][]byte, err error) {
				if found, err = x.CheckFound(ctx, present, 1); err == nil {
					taken, err = x.CheckAbsent(ctx, absent)
				}
				return found, taken, err
			},
		} {
			t.Run(fmt.Sprintf("level %d, %s", level, name), func(t *testing.T) {
				mixed(t, nil, func(ctx context.Context, c *leaderkv.Cluster, db *txn.DB) {
					write := func(k string) {
						if err := db.Run(ctx, txn.TxnOptions{}, func(ctx context.Context, y *txn.Txn) error {
							var b txn.WriteBatch
							b.Put(keys.Key(k), []byte("1"))
							return y.CommitBatch(ctx, &b)
						}); err != nil {
							t.Fatal(err)
						}
					}
					write("a")
					x := db.Begin(txn.TxnOptions{Isolation: level})
					x.BeginStatement()
					found, taken, err := look(ctx, x, []keys.Key{keys.Key("a"), keys.Key("u")}, []keys.Key{keys.Key("b"), keys.Key("v")})
					if err != nil || string(found[0]) != "1" || found[1] != nil || taken[0] != nil || taken[1] != nil {
						t.Fatalf("%q %q %v", found, taken, err)
					}
					y := db.Begin(txn.TxnOptions{})
					_, err = y.Get(ctx, keys.Key("a"), kv.Exclusive, kv.NoWait)
					var locked *kv.LockNotAvailableError
					if errors.As(err, &locked) != (level != kv.Serializable) {
						t.Errorf("another one locks the key that was found: %v", err)
					}
					y.Rollback(ctx)
					write("v")
					read(t, db, "c") // x's write has to be later
					var b txn.WriteBatch
					b.Put(keys.Key("c"), []byte("1"))
					if err := x.Write(ctx, &b); err != nil {
						t.Fatal(err)
					}
					var retry *txn.RetryError
					if err := x.Commit(ctx); !errors.As(err, &retry) {
						t.Errorf("the commit beyond a write of a key that must have no value: %v", err)
					}
					x.Rollback(ctx)
				})
			})
		}
	}
}
