package register

import (
	"context"
	"errors"
	"testing"

	"meridian/commit/transaction"
	"meridian/keys"
	"meridian/kv"
	"meridian/txn"
)

// TestRefusals: what registers do not have is refused, and by name, before anything is sent; the client here has nobody to send it to.
func TestRefusals(t *testing.T) {
	ctx, c := context.Background(), NewClient(ClientOptions{})
	x, k := c.Begin(), []keys.Key{keys.Key("k")}
	get := func(o txn.ReadOptions) error {
		_, err := x.Get(ctx, &kv.Txn{}, k, o)
		return err
	}
	_, _, scanned := x.Scan(ctx, &kv.Txn{}, txn.ScanOptions{Span: keys.Span{Start: keys.Key("a"), End: keys.Key("z")}})
	for _, tc := range []struct {
		name, what string
		err        error
	}{
		{"a scan", "scans", scanned},
		{"a lock that the client holds", "row locks", get(txn.ReadOptions{Lock: kv.Exclusive, Hold: true})},
		{"a shared lock that the client holds", "row locks", get(txn.ReadOptions{Lock: kv.Shared, Hold: true})},
		{"NOWAIT", "row locks", get(txn.ReadOptions{Lock: kv.Exclusive, Wait: kv.NoWait})},
		{"SKIP LOCKED", "row locks", get(txn.ReadOptions{Lock: kv.Exclusive, Wait: kv.SkipLocked})},
		{"a conditional write", "conditional writes", x.Write(ctx, &kv.Txn{}, []transaction.Write{{Key: k[0], Conditional: true}})},
	} {
		var none *txn.UnsupportedError
		if !errors.As(tc.err, &none) || none.Protocol != Protocol || none.What != tc.what {
			t.Errorf("%s: %v", tc.name, tc.err)
		}
	}
	// Where the transaction may have had locks over a span there are none here, and its writes are listed one by one.
	if err := c.Resolve(ctx, []keys.Span{{Start: keys.Key("a"), End: keys.Key("z")}}, kv.TxnMeta{}, kv.Committed, nil); err != nil {
		t.Errorf("to resolve a span: %v", err)
	}
}
