package leaderkv_test

import (
	"context"
	"testing"
	"testing/synctest"

	"meridian/keys"
	"meridian/kv"
	"meridian/txn"
	"meridian/txn/leaderkv"
)

// TestFixture: a transaction over two ranges commits, another gateway reads it.
func TestFixture(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := leaderkv.New(leaderkv.Options{Bounds: []string{"m"}})
		if err != nil {
			t.Fatal(err)
		}
		ctx := context.Background()
		a, stopA := c.Gateway("a", txn.Options{})
		b, stopB := c.Gateway("b", txn.Options{})
		x := a.Begin(txn.TxnOptions{})
		var wb txn.WriteBatch
		wb.Put(keys.Key("b"), []byte("1"))
		wb.Put(keys.Key("n"), []byte("2"))
		if err := x.Write(ctx, &wb); err != nil {
			t.Fatal(err)
		}
		if err := x.Commit(ctx); err != nil {
			t.Fatal(err)
		}
		y := b.Begin(txn.TxnOptions{})
		for k, want := range map[string]string{"b": "1", "n": "2"} {
			if v, err := y.Get(ctx, keys.Key(k), kv.NoLock, kv.Block); err != nil || string(v) != want {
				t.Fatalf("%s: %q, %v", k, v, err)
			}
		}
		stopA()
		stopB()
		if err := c.Stop(); err != nil {
			t.Fatal(err)
		}
		if n := c.Metrics(0).Stages.Load(); n != 1 {
			t.Fatalf("%d staging records", n)
		}
	})
}
