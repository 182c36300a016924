package leader

import (
	"context"
	"fmt"
	"testing"

	"meridian/keys"
	"meridian/kv"
)

func benchCluster(b *testing.B) *cluster {
	c, stop := newCluster(b, 1, 0)
	b.Cleanup(stop)
	for i := range 10_000 {
		k := keys.Key(fmt.Sprintf("\x10table/index/%08d", i))
		if _, err := c.Send(context.Background(), &kv.Batch{Requests: []kv.Request{&kv.PutRequest{Key: k, Value: make([]byte, 100)}}}); err != nil {
			b.Fatal(err)
		}
	}
	return c
}

// BenchmarkGet is a point read of a transaction.
func BenchmarkGet(b *testing.B) {
	c := benchCluster(b)
	ctx := context.Background()
	x := c.begin()
	var ks []keys.Key
	for i := range 1000 {
		ks = append(ks, keys.Key(fmt.Sprintf("\x10table/index/%08d", i*7)))
	}
	batch := &kv.Batch{Header: kv.Header{Txn: x.txn}, Requests: []kv.Request{&kv.GetRequest{}}}
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		batch.Requests[0].(*kv.GetRequest).Key = ks[i%1000]
		if _, err := c.ps[0].Send(ctx, batch); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkUpdate is what UPDATE of one row does here: a locking read, then a one-phase commit.
func BenchmarkUpdate(b *testing.B) {
	c := benchCluster(b)
	ctx := context.Background()
	val := make([]byte, 100)
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		k := keys.Key(fmt.Sprintf("\x10table/index/%08d", i%10_000))
		x := c.begin()
		x.txn.Anchor = k
		if _, err := c.ps[0].Send(ctx, &kv.Batch{Header: kv.Header{Txn: x.txn, CanForwardRead: true},
			Requests: []kv.Request{&kv.GetRequest{Key: k, Lock: kv.Exclusive}}}); err != nil {
			b.Fatal(err)
		}
		if _, err := c.ps[0].Send(ctx, &kv.Batch{Header: kv.Header{Txn: x.txn, CanForwardRead: true},
			Requests: []kv.Request{&kv.PutRequest{Key: k, Value: val, Seq: 1},
				&kv.EndTxnRequest{Anchor: k, Commit: true, OnePhase: true, LockSpans: []keys.Span{{Start: k}}}}}); err != nil {
			b.Fatal(err)
		}
	}
}
