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
	"meridian/replica/lease"
)

// TestNoClockIsPushed: whatever is written, loaded, resolved, prevented or made known at a time that has yet to come, the node's clock
// stays where it is (leader.P4).
func TestNoClockIsPushed(t *testing.T) {
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
				if now := c.clock.Now(); ahead.LessEq(now) {
					t.Errorf("the clock shows %s, and the data are of %s", now, ahead)
				}
			})
		})
	}
}

// TestFutureOverALease: what was read, prevented or closed at a time that has yet to come stays so under the next leaseholder, whose lease begins
// before that time (leader.P4).
func TestFutureOverALease(t *testing.T) {
	k := keys.Key("k")
	for name, ask := range map[string]func(ahead clock.Timestamp) *kv.Batch{
		"a read": func(ahead clock.Timestamp) *kv.Batch {
			return &kv.Batch{Header: kv.Header{Timestamp: ahead}, Requests: []kv.Request{&kv.GetRequest{Key: k}}}
		},
		"a scan": func(ahead clock.Timestamp) *kv.Batch {
			return &kv.Batch{Header: kv.Header{Timestamp: ahead}, Requests: []kv.Request{&kv.ScanRequest{Start: k, End: k.Next()}}}
		},
		"a question for an intent": func(ahead clock.Timestamp) *kv.Batch {
			return &kv.Batch{Requests: []kv.Request{&kv.QueryIntentRequest{Key: k, Txn: kv.TxnMeta{ID: kv.TxnID{7}, Anchor: k, Seq: 1,
				WriteTimestamp: ahead, MinTimestamp: ahead}}}}
		},
		"a promise": nil,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, stop := newCluster(t, 1, 0)
				defer stop()
				ctx := context.Background()
				ahead := c.clock.Now().Add(time.Second)
				if ask == nil {
					if closed := c.reps[0].Closer().Close(ahead); closed.Less(ahead) {
						t.Fatalf("closed up to %s", closed)
					}
				} else if _, err := c.ps[0].Send(ctx, ask(ahead)); err != nil {
					t.Fatal(err)
				}
				// The next leaseholder has a timestamp cache of its own.
				was := c.ps[0].o
				rep := &fakeReplica{c: c} // nor has its replica closed anything
				rep.Init(was.Engine, c.reps[0].Desc(), c.reps[0].Stats())
				next := New(&Options{Host: was.Host, Clock: was.Clock, Engine: was.Engine, Sender: was.Sender, Metrics: &Metrics{}}, rep, nil)
				defer next.Close(nil)
				next.LeaseChanged(lease.Lease{Sequence: rep.Lease.Add(1), Start: c.clock.Now()}, true)
				next.TakeOver(c.ps[0].HandOver())
				x := c.begin()
				resp, err := next.Send(ctx, &kv.Batch{Header: x.header(), Requests: []kv.Request{&kv.PutRequest{Key: k, Value: []byte("v"), Seq: 1}}})
				if err != nil {
					t.Fatal(err)
				}
				if at := resp.Txn.WriteTimestamp; at.LessEq(ahead) {
					t.Errorf("written at %s, and %s was promised", at, ahead)
				}
			})
		})
	}
}

// TestLocksOfTheFuture: locks that a client has asked for are kept until the commit's time has come (leader.P16): the leaseholder does not say so
// sooner, and takes no commit of one range that would not wait.
func TestLocksOfTheFuture(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, stop := newCluster(t, 1, 0)
		defer stop()
		ctx := context.Background()
		x := c.begin()
		h := x.header()
		h.Hold = true
		r, err := c.Send(ctx, &kv.Batch{Header: h, Requests: []kv.Request{&kv.GetRequest{Key: keys.Key("a"), Lock: kv.Exclusive}}})
		if err != nil {
			t.Fatal(err)
		}
		ahead := c.clock.Now().Add(300 * time.Millisecond)
		x.txn.ReadTimestamp, x.txn.WriteTimestamp, x.txn.UncertaintyLimit = ahead, ahead, ahead
		_, err = c.Send(ctx, &kv.Batch{Header: x.header(), Requests: []kv.Request{
			&kv.PutRequest{Key: keys.Key("b"), Value: []byte("1"), Seq: 1},
			&kv.EndTxnRequest{Anchor: keys.Key("b"), Commit: true, OnePhase: true,
				Held: []kv.HeldLocks{{Span: keys.Span{Start: keys.Key("a")}, From: r.LockedAt}}}}})
		if !errors.As(err, new(*kv.OnePhaseError)) {
			t.Errorf("a commit in one phase: %v", err)
		}
		if _, err := c.Send(ctx, &kv.Batch{Header: x.header(), Requests: []kv.Request{
			&kv.CheckLocksRequest{Start: keys.Key("a"), From: r.LockedAt}}}); err != nil {
			t.Fatal(err)
		}
		if now := c.clock.Now(); now.LessEq(ahead) {
			t.Errorf("at %s the locks are said to be kept until %s", now, ahead)
		}
	})
}

// TestUncertainIntentAhead: an intent that was written ahead of the clock, before the reader had been here, may be of a transaction that has
// committed. The reader has it moved out of its interval, or finds the commit; it does not pass it, and waits for nobody for ever.
func TestUncertainIntentAhead(t *testing.T) {
	for _, committed := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			c, stop := newCluster(t, 1, 0)
			defer stop()
			ctx := context.Background()
			k := keys.Key("k")
			w := c.begin()
			ahead := c.clock.Now().Add(100 * time.Millisecond)
			w.txn.ReadTimestamp, w.txn.WriteTimestamp, w.txn.Anchor = ahead, ahead, k
			if _, err := c.Send(ctx, &kv.Batch{Header: w.header(), Requests: []kv.Request{&kv.PutRequest{Key: k, Value: []byte("v"), Seq: 1}}}); err != nil {
				t.Fatal(err)
			}
			if committed {
				if _, err := c.Send(ctx, &kv.Batch{Header: w.header(), Requests: []kv.Request{
					&kv.EndTxnRequest{Anchor: k, Commit: true, InFlight: []kv.InFlightWrite{{Key: k, Seq: 1}}}}}); err != nil {
					t.Fatal(err)
				}
			}
			r := c.begin()
			r.txn.Observe(1, r.txn.ReadTimestamp)
			short, cancel := context.WithTimeout(ctx, 30*time.Second)
			defer cancel()
			got, err := r.send(short, &kv.GetRequest{Key: k})
			if err != nil {
				t.Fatal(err)
			}
			if v := got[0].(*kv.GetResponse).Value; committed != (string(v) == "v") {
				t.Errorf("committed %v: read %q at %s, written at %s", committed, v, r.txn.ReadTimestamp, ahead)
			}
		})
	}
}

// TestPushedAhead: a transaction that a reader of the future has pushed may commit there soon after, by a gateway whose clock is as far. A
// transaction that begins then, and has seen this node's clock, does not pass its intent because it commits above what this node's clock
// showed: leader.P17 and mvcc.M8 are about pushes to times that have come.
func TestPushedAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, stop := newCluster(t, 1, 0)
		defer stop()
		ctx := context.Background()
		k := keys.Key("k")
		w := c.begin()
		w.txn.Anchor = k
		if _, err := c.Send(ctx, &kv.Batch{Header: w.header(), Requests: []kv.Request{&kv.PutRequest{Key: k, Value: []byte("v"), Seq: 1}}}); err != nil {
			t.Fatal(err)
		}
		ahead := c.clock.Now().Add(100 * time.Millisecond)
		first := c.begin()
		first.txn.ReadTimestamp, first.txn.WriteTimestamp, first.txn.UncertaintyLimit = ahead, ahead, ahead
		if got, err := first.send(ctx, &kv.GetRequest{Key: k}); err != nil || got[0].(*kv.GetResponse).Value != nil {
			t.Fatal(got, err)
		}
		w.txn.WriteTimestamp, w.txn.ReadTimestamp = ahead.Next().Next(), ahead.Next().Next()
		if _, err := c.Send(ctx, &kv.Batch{Header: w.header(), Requests: []kv.Request{
			&kv.EndTxnRequest{Anchor: k, Commit: true, InFlight: []kv.InFlightWrite{{Key: k, Seq: 1}}}}}); err != nil {
			t.Fatal(err)
		}
		second := c.begin()
		second.txn.Observe(1, second.txn.ReadTimestamp)
		if !second.txn.ReadTimestamp.Less(ahead) {
			t.Fatal("the second reader does not begin before the commit's time")
		}
		got, err := second.send(ctx, &kv.GetRequest{Key: k})
		if err != nil {
			t.Fatal(err)
		}
		if v := got[0].(*kv.GetResponse).Value; string(v) != "v" {
			t.Errorf("read %q at %s: the commit at %s is not seen, which was before it", v, second.txn.ReadTimestamp, w.txn.WriteTimestamp)
		}
	})
}

// TestMovedOverALease: a write of the future that a batch meets moves its reads there, and these stay so under the next leaseholder, too
// (leader.P4). Writes are in the log.
func TestMovedOverALease(t *testing.T) {
	a := keys.Key("a")
	for name, ask := range map[string]kv.Request{
		"a read":                    &kv.GetRequest{Key: a},
		"a read that locks":         &kv.GetRequest{Key: a, Lock: kv.Exclusive},
		"a condition that fails":    &kv.CPutRequest{Key: a, Value: []byte("w"), Expected: []byte("v"), Seq: 2},
		"a deletion of what is not": &kv.DeleteRangeRequest{Start: a, End: a.Next(), Seq: 2},
		"a write":                   &kv.PutRequest{Key: a, Value: []byte("w"), Seq: 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, stop := newCluster(t, 1, 0)
				defer stop()
				ctx := context.Background()
				ahead := c.clock.Now().Add(time.Second)
				w := c.begin()
				w.txn.WriteTimestamp, w.txn.Anchor = ahead, keys.Key("b")
				for _, r := range []kv.Request{&kv.PutRequest{Key: keys.Key("b"), Value: []byte("v"), Seq: 1},
					&kv.ResolveIntentRequest{Key: keys.Key("b"), Txn: w.txn.TxnMeta, Status: kv.Committed}} {
					b := &kv.Batch{Requests: []kv.Request{r}}
					if r.Method() == kv.MethodPut {
						b.Header = w.header()
					}
					if _, err := c.ps[0].Send(ctx, b); err != nil {
						t.Fatal(err)
					}
				}
				x := c.begin()
				got, err := c.ps[0].Send(ctx, &kv.Batch{Header: x.header(), Requests: []kv.Request{
					&kv.PutRequest{Key: keys.Key("b"), Value: []byte("w"), Seq: 1}, ask}})
				if ask.Method() == kv.MethodCPut {
					if !errors.As(err, new(*kv.ConditionFailedError)) {
						t.Fatal(got, err)
					}
				} else if err != nil || got.Txn.ReadTimestamp.LessEq(ahead) {
					t.Fatal(got, err)
				}
				was := c.ps[0].o
				next := New(&Options{Host: was.Host, Clock: was.Clock, Engine: was.Engine, Sender: was.Sender, Metrics: &Metrics{}}, c.reps[0], nil)
				defer next.Close(nil)
				next.LeaseChanged(lease.Lease{Sequence: c.reps[0].Lease.Add(1), Start: c.clock.Now()}, true)
				handed := c.ps[0].HandOver()
				next.TakeOver(handed)
				if low := *next.low.Load(); low.LessEq(ahead) != (ask.Method() == kv.MethodPut) {
					t.Errorf("the next leaseholder writes above %s, and %s was read: %v", low, ahead, ask.Method() != kv.MethodPut)
				}
			})
		})
	}
}
