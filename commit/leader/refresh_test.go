package leader

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"meridian/keys"
	"meridian/kv"
)

// TestRefreshMeetsIntents: a refresh of a key asks the leaseholder's knowledge which keys may have intents (leader.P11), also in a batch that writes, and finds each kind of them: another transaction's, one that
// is known to be committed, its own. Where there is none it finds the versions.
func TestRefreshMeetsIntents(t *testing.T) {
	for _, carried := range []bool{false, true} {
		for _, kind := range []string{"none", "version", "intent", "committed", "own"} {
			synctest.Test(t, func(t *testing.T) {
				c, stop := newCluster(t, 1, 0)
				defer stop()
				ctx := context.Background()
				k := keys.Key("k")
				if _, err := c.Send(ctx, &kv.Batch{Requests: []kv.Request{&kv.GetRequest{Key: keys.Key("q")}}}); err != nil {
					t.Fatal(err)
				}
				x := c.begin()
				from := x.txn.ReadTimestamp
				time.Sleep(time.Millisecond)
				put := func(y *testTxn) {
					t.Helper()
					y.txn.Anchor = k
					if _, err := c.Send(ctx, &kv.Batch{Header: y.header(), Requests: []kv.Request{&kv.PutRequest{Key: k, Value: []byte("v"), Seq: 1}}}); err != nil {
						t.Fatal(err)
					}
				}
				other := c.begin()
				switch kind {
				case "version":
					other.put("k", []byte("v"))
					if err := other.commit(ctx); err != nil {
						t.Fatal(err)
					}
				case "intent":
					put(other)
				case "committed":
					put(other)
					if _, err := c.Send(ctx, &kv.Batch{Header: other.header(), Requests: []kv.Request{&kv.ReleaseRequest{Start: k, Txn: other.txn.TxnMeta}}}); err != nil {
						t.Fatal(err)
					}
				case "own":
					x.txn.WriteTimestamp = c.clock.Now() // pushed
					put(x)
				}
				if !c.ps[0].held.complete.Load() {
					t.Fatal("the leaseholder does not know which keys have intents")
				}
				time.Sleep(time.Millisecond)
				to := c.clock.Now()
				x.txn.ReadTimestamp, x.txn.WriteTimestamp = to, to
				b := &kv.Batch{Header: x.header(), Requests: []kv.Request{&kv.RefreshRequest{Key: k, From: from}}}
				if carried {
					b.Requests = append(b.Requests, &kv.PutRequest{Key: keys.Key("l"), Value: []byte("v"), Seq: 2}, &kv.PutRequest{Key: keys.Key("m"), Value: []byte("v"), Seq: 3})
				}
				_, err := c.Send(ctx, b)
				fails := kind != "none" && kind != "own"
				if got := errors.As(err, new(*kv.RefreshFailedError)); got != fails || !fails && err != nil {
					t.Errorf("%s, with writes: %t: %v", kind, carried, err)
				}
			})
		}
	}
}
