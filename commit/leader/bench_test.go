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

// BenchmarkStaged is what a transaction on two ranges costs its anchor's range: the staging commit with two writes,
// and a batch of what was gathered to clean up, here for one transaction.
func BenchmarkStaged(b *testing.B) {
	c := benchCluster(b)
	ctx := context.Background()
	val := make([]byte, 100)
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		k := keys.Key(fmt.Sprintf("\x10table/index/%08d", i*2%10_000))
		k2 := keys.Key(fmt.Sprintf("\x10table/index/%08d", i*2%10_000+1))
		x := c.begin()
		x.txn.Anchor = k
		spans := []keys.Span{{Start: k}, {Start: k2}}
		r, err := c.ps[0].Send(ctx, &kv.Batch{Header: kv.Header{Txn: x.txn}, Requests: []kv.Request{
			&kv.PutRequest{Key: k, Value: val, Seq: 1}, &kv.PutRequest{Key: k2, Value: val, Seq: 2},
			&kv.EndTxnRequest{Anchor: k, Commit: true, LockSpans: spans, InFlight: []kv.InFlightWrite{
				{Key: k, Seq: 1}, {Key: k2, Seq: 2}, {Key: keys.Key("elsewhere"), Seq: 3}}}}})
		if err != nil {
			b.Fatal(err)
		}
		meta := r.Txn.TxnMeta
		if _, err := c.ps[0].Send(ctx, &kv.Batch{Requests: []kv.Request{
			&kv.RecoverTxnRequest{Txn: meta, ImplicitlyCommits: true},
		}}); err != nil {
			b.Fatal(err)
		}
		if _, err := c.ps[0].Send(ctx, &kv.Batch{Requests: []kv.Request{
			&kv.ResolveIntentRequest{Key: k, Txn: meta, Status: kv.Committed},
			&kv.ResolveIntentRequest{Key: k2, Txn: meta, Status: kv.Committed},
			&kv.GCRequest{Start: k, Records: []keys.Key{keys.TxnKey(k, meta.ID)}},
		}}); err != nil {
			b.Fatal(err)
		}
	}
}
