package leader

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"meridian/clock"
	"meridian/keys"
	"meridian/kv"
)

// TestPresent: a replica without the lease serves a transaction's read if it has closed the whole uncertainty interval (leader.P25), waits for that as long as
// it may, and sends what it can't decide to the leaseholder.
func TestPresent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, stop := newCluster(t, 1, 0)
		defer stop()
		ctx := context.Background()
		p, rep := c.ps[0], c.reps[0]
		k, intent := keys.Key("k"), keys.Key("l")
		put := func(k keys.Key, v string, at clock.Timestamp, txn *kv.Txn) {
			b := &kv.Batch{Header: kv.Header{RangeID: 1, Txn: txn}, Requests: []kv.Request{&kv.PutRequest{Key: k, Value: []byte(v), Seq: 1}}}
			if txn == nil {
				b.Timestamp = at
			}
			if _, err := p.Send(ctx, b); err != nil {
				t.Fatal(err)
			}
		}
		base := c.clock.Now()
		at := func(ms int) clock.Timestamp {
			return clock.Timestamp{Wall: base.Wall + int64(ms)*int64(time.Millisecond)}
		}
		put(k, "before", base, nil)
		put(k, "within", at(100), nil)
		put(intent, "provisional", clock.Timestamp{}, &kv.Txn{TxnMeta: kv.TxnMeta{ID: kv.TxnID{9}, Anchor: intent, Seq: 1, WriteTimestamp: at(120),
			MinTimestamp: at(120)}, ReadTimestamp: at(120), UncertaintyLimit: at(120)})
		rep.refuse.Store(true)
		rep.Closer().Close(at(150))

		read := func(k keys.Key, from int, limit int, change func(*kv.Batch)) (*kv.BatchResponse, error) {
			// The transaction has seen this node's clock: at the leaseholder, what was written later would not be uncertain.
			x := &kv.Txn{TxnMeta: kv.TxnMeta{ID: kv.TxnID{1}, WriteTimestamp: at(from), MinTimestamp: at(from)}, ReadTimestamp: at(from), UncertaintyLimit: at(limit)}
			x.Observe(1, base)
			b := &kv.Batch{Header: kv.Header{RangeID: 1, Txn: x, Consistency: kv.Present}, Requests: []kv.Request{&kv.GetRequest{Key: k}}}
			if change != nil {
				change(b)
			}
			return p.Send(ctx, b)
		}
		value := func(r *kv.BatchResponse) string { return string(r.Responses[0].(*kv.GetResponse).Value) }

		if r, err := read(k, 10, 90, nil); err != nil || value(r) != "before" || !r.Leads {
			t.Errorf("below a version, and sure of it: %v %v", r, err)
		}
		var uncertain *kv.UncertaintyError
		if _, err := read(k, 10, 140, nil); !errors.As(err, &uncertain) || uncertain.RetryAt != at(100).Next() {
			t.Errorf("a version in the interval: %v", err)
		}
		if r, err := read(k, 10, 140, func(b *kv.Batch) { b.CanForwardRead = true }); err != nil || value(r) != "within" || r.Txn.ReadTimestamp != at(100).Next() {
			t.Errorf("a version in the interval moves the read: %+v %v", r, err)
		}
		var behind *kv.NotClosedError
		if _, err := read(k, 10, 200, nil); !errors.As(err, &behind) || behind.Intent {
			t.Errorf("the end of the interval is not closed: %v", err)
		}
		if _, err := read(intent, 10, 140, nil); !errors.As(err, &behind) || !behind.Intent {
			t.Errorf("an intent in the interval: %v", err)
		}
		if r, err := read(intent, 10, 110, nil); err != nil || value(r) != "" {
			t.Errorf("an intent beyond the interval: %v", err)
		}
		for _, change := range []func(*kv.Batch){
			func(b *kv.Batch) { b.Requests = []kv.Request{&kv.GetRequest{Key: k, Lock: kv.Exclusive}} },
			func(b *kv.Batch) { b.Requests = []kv.Request{&kv.PutRequest{Key: k}} },
			func(b *kv.Batch) { b.Txn = nil },
		} {
			if _, err := read(k, 10, 90, change); !errors.As(err, new(*kv.InternalError)) {
				t.Errorf("served without the lease: %v", err)
			}
		}

		// It waits for what is on its way, and no longer than it may.
		start := time.Now()
		go func() {
			time.Sleep(30 * time.Millisecond)
			rep.Closer().Close(at(250))
		}()
		if r, err := read(k, 110, 200, func(b *kv.Batch) { b.MayWait = 60 * time.Millisecond }); err != nil || value(r) != "within" {
			t.Errorf("after a wait: %v", err)
		} else if d := time.Since(start); d < 30*time.Millisecond || d > 35*time.Millisecond {
			t.Errorf("waited %s", d)
		}
		for most, lag := range map[time.Duration]int{60 * time.Millisecond: 320, 40 * time.Millisecond: 600} {
			start = time.Now()
			_, err := read(k, 110, lag, func(b *kv.Batch) { b.MayWait = most })
			if d := time.Since(start); !errors.As(err, &behind) || lag == 320 && (d < most || d > most+5*time.Millisecond) || lag == 600 && d != 0 {
				t.Errorf("%d ms ahead: %v after %s", lag-250, err, d)
			}
		}
	})
}
