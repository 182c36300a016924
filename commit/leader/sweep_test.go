package leader

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"meridian/commit"
	"meridian/keys"
	"meridian/kv"
)

// TestSweeper says that a range in which records were written sweeps them by itself, and stops when none is left.
func TestSweeper(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, stop := newCluster(t, 1, 0, "m")
		defer stop()
		x := c.begin()
		x.put("a", []byte("1"))
		x.put("x", []byte("1"))
		if err := x.lay(context.Background()); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Send(context.Background(), &kv.Batch{Header: x.header(), Requests: []kv.Request{
			&kv.EndTxnRequest{Anchor: keys.Key("a"), Commit: true, LockSpans: x.locks}}}); err != nil {
			t.Fatal(err)
		}
		if !c.ps[0].sweeping.Load() || c.ps[1].sweeping.Load() {
			t.Fatal("the range of the record, and it alone, should be about to sweep")
		}
		time.Sleep(15 * time.Minute)
		c.checkIdle()
		if n := countKeys(t, c.engine, keys.RangeLocalSpan(keys.Min, keys.Max)); n != 0 || c.ps[0].sweeping.Load() {
			t.Fatalf("%d records left", n)
		}
	})
}

// TestSweep says that nothing is left of transactions whose coordinators died at any point, once a record's range
// was swept, and that a live one is left alone.
func TestSweep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, stop := newCluster(t, 1, 0, "m")
		defer stop()
		ctx := context.Background()
		for _, p := range c.ps {
			p.sweeping.Store(true) // not by themselves
		}
		lay := func(k1, k2 string) *testTxn {
			x := c.begin()
			x.put(k1, []byte("1"))
			x.put(k2, []byte("1"))
			if err := x.lay(ctx); err != nil {
				t.Fatal(err)
			}
			return x
		}
		send := func(x *testTxn, r kv.Request) {
			if _, err := c.Send(ctx, &kv.Batch{Header: x.header(), Requests: []kv.Request{r}}); err != nil {
				t.Fatal(err)
			}
		}
		beating := lay("a", "x")
		send(beating, &kv.HeartbeatTxnRequest{Anchor: keys.Key("a")})
		committed := lay("b", "y")
		send(committed, &kv.EndTxnRequest{Anchor: keys.Key("b"), Commit: true, LockSpans: committed.locks})
		staged := lay("c", "z")
		send(staged, &kv.EndTxnRequest{Anchor: keys.Key("c"), Commit: true, LockSpans: staged.locks,
			InFlight: []kv.InFlightWrite{{Key: keys.Key("c"), Seq: 1}, {Key: keys.Key("z"), Seq: 2}}})

		sweep := func() (n int) {
			for _, p := range c.ps {
				m, _, err := commit.Sweep(ctx, c, commit.Finishers{kv.Leader: commit.Intents(c)}, c.engine, p.r.Desc().Start, p.r.Desc().End, c.clock.Now(), 100)
				if err != nil {
					t.Fatal(err)
				}
				n += m
			}
			return n
		}
		if n := sweep(); n != 0 {
			t.Fatalf("%d records of the living were removed", n)
		}
		for _, x := range []*testTxn{beating, staged} {
			record := keys.TxnKey(x.txn.Anchor, x.txn.ID)
			if _, err := c.Send(ctx, &kv.Batch{Requests: []kv.Request{&kv.GCRequest{Start: x.txn.Anchor, Records: []keys.Key{record}}}}); err != nil {
				t.Fatal(err)
			}
		}
		if n := countKeys(t, c.engine, keys.RangeLocalSpan(keys.Min, keys.Max)); n != 3 {
			t.Fatalf("%d records are left of 3: one is removed that has not ended", n)
		}
		time.Sleep(2 * time.Minute)
		send(beating, &kv.HeartbeatTxnRequest{Anchor: keys.Key("a")})
		if n := sweep(); n != 2 {
			t.Fatalf("%d records were removed, want those of the committed and the staged", n)
		}
		for _, k := range []string{"y", "z"} {
			resp, err := c.Send(ctx, &kv.Batch{Requests: []kv.Request{&kv.GetRequest{Key: keys.Key(k)}}})
			if err != nil || string(resp.Responses[0].(*kv.GetResponse).Value) != "1" {
				t.Fatalf("%s: %v, %v", k, resp, err)
			}
		}
		if err := beating.commit(ctx); err != nil {
			t.Fatalf("the living could not commit: %v", err)
		}
		time.Sleep(time.Second)
		c.checkIdle()
		if n := countKeys(t, c.engine, keys.RangeLocalSpan(keys.Min, keys.Max)); n != 0 {
			t.Fatalf("%d records left", n)
		}
	})
}

// TestSweepKeepsAborted: the record of a transaction that somebody else has aborted stays for an hour (commit.CR1). Its coordinator
// may come back until then, and would commit without its intents if nothing said that it is over.
func TestSweepKeepsAborted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, stop := newCluster(t, 1, 0, "m")
		defer stop()
		ctx := context.Background()
		x := c.begin()
		x.put("a", []byte("1"))
		x.put("x", []byte("1"))
		if err := x.lay(ctx); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * commit.Expiry)
		if _, err := c.Send(ctx, &kv.Batch{Requests: []kv.Request{&kv.PutRequest{Key: keys.Key("x"), Value: []byte("2")}}}); err != nil {
			t.Fatal(err)
		}
		records := func() int { return countKeys(t, c.engine, keys.RangeLocalSpan(keys.Min, keys.Max)) }
		if time.Sleep(commit.AbortedRetention - time.Minute); records() != 1 {
			t.Fatal("nothing says that it was aborted")
		}
		var aborted *kv.TxnAbortedError
		if err := x.end(ctx); !errors.As(err, &aborted) {
			t.Errorf("it commits: %v", err)
		}
		if time.Sleep(15 * time.Minute); records() != 0 {
			t.Error("the record is kept for ever")
		}
	})
}
