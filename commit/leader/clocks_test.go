package leader

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"meridian/keys"
	"meridian/kv"
)

// TestClockIsPast: whatever a gateway whose clock is ahead has written, resolved, prevented or made known here, the node's
// clock is past it afterwards: a reading of it bounds what a transaction finds uncertain, and the next lease begins above
// it (P4).
func TestClockIsPast(t *testing.T) {
	k := keys.Key("k")
	for _, x := range []struct {
		name string
		ask  func(b *kv.Batch, t *kv.Txn) kv.Request
	}{
		{"a write", func(b *kv.Batch, t *kv.Txn) kv.Request {
			b.Txn = t
			return &kv.PutRequest{Key: k, Value: []byte("v"), Seq: 1}
		}},
		{"a load", func(b *kv.Batch, t *kv.Txn) kv.Request {
			b.Timestamp = t.WriteTimestamp
			return &kv.LoadRequest{Rows: []kv.KeyValue{{Key: k, Value: []byte("v")}}}
		}},
		{"a question for an intent", func(_ *kv.Batch, t *kv.Txn) kv.Request { return &kv.QueryIntentRequest{Key: k, Txn: t.TxnMeta} }},
		{"a resolution", func(_ *kv.Batch, t *kv.Txn) kv.Request {
			return &kv.ResolveIntentRequest{Key: k, Txn: t.TxnMeta, Status: kv.Committed}
		}},
		{"a resolution of a span", func(_ *kv.Batch, t *kv.Txn) kv.Request {
			return &kv.ResolveRangeRequest{Start: k, End: k.Next(), Txn: t.TxnMeta, Status: kv.Committed}
		}},
		{"a release", func(_ *kv.Batch, t *kv.Txn) kv.Request { return &kv.ReleaseRequest{Start: k, Txn: t.TxnMeta} }},
	} {
		t.Run(x.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, stop := newCluster(t, 1, 0)
				defer stop()
				ahead := c.clock.Now().Add(100 * time.Millisecond)
				txn := &kv.Txn{TxnMeta: kv.TxnMeta{ID: kv.TxnID{7}, Anchor: k, Seq: 1, WriteTimestamp: ahead, MinTimestamp: ahead},
					ReadTimestamp: ahead, UncertaintyLimit: ahead}
				b := &kv.Batch{Header: kv.Header{RangeID: 1}}
				b.Requests = []kv.Request{x.ask(b, txn)}
				if _, err := c.ps[0].Send(context.Background(), b); err != nil {
					t.Fatal(err)
				}
				if now := c.clock.Now(); now.Less(ahead) {
					t.Errorf("the clock shows %s, before %s", now, ahead)
				}
			})
		})
	}
}
