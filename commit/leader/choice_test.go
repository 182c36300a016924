package leader

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"meridian/keys"
	"meridian/kv"
)

// queueOf is a batch that locks the first most free ones of n keys.
func queueOf(x *testTxn, n int, most int64) *kv.Batch {
	b := &kv.Batch{Header: kv.Header{Txn: x.txn.Clone(), WaitPolicy: kv.SkipLocked, MaxKeys: most}}
	b.Txn.Isolation = kv.ReadCommitted
	b.Txn.Anchor = queueKey(0)
	for i := range n {
		b.Requests = append(b.Requests, &kv.ScanRequest{Start: queueKey(i), End: queueKey(i).Next(), Lock: kv.Exclusive})
	}
	return b
}

func queueKey(i int) keys.Key { return keys.Key(fmt.Sprintf("k%02d", i)) }

// locked are the keys that a batch has locked, and rests those of which it has left a rest.
func locked(t *testing.T, c *cluster, b *kv.Batch) (found, rests []int) {
	t.Helper()
	resp, err := c.Send(context.Background(), b)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range resp.Responses {
		switch a := r.(*kv.ScanResponse); {
		case a.Resume != nil:
			rests = append(rests, i)
		case len(a.Rows) > 0:
			found = append(found, i)
		}
	}
	return found, rests
}

func TestChoice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, stop := newCluster(t, 1, 0)
		defer stop()
		ctx := context.Background()
		const n = 24
		put := func(i int) {
			t.Helper()
			if _, err := c.Send(ctx, &kv.Batch{Requests: []kv.Request{&kv.PutRequest{Key: queueKey(i), Value: []byte("new")}}}); err != nil {
				t.Fatal(err)
			}
		}
		for i := range n {
			put(i)
		}
		// Each worker gets the keys that those before have not locked.
		first := c.begin()
		for w := range 3 {
			x := first
			if w > 0 {
				x = c.begin()
			}
			if got, _ := locked(t, c, queueOf(x, n, 2)); !slices.Equal(got, []int{2 * w, 2*w + 1}) {
				t.Errorf("worker %d has locked %d", w, got)
			}
		}
		// Of what has changed since the snapshot nothing is locked, however much of it there is.
		x := c.begin()
		for i := 6; i < 20; i++ {
			put(i)
		}
		got, rests := locked(t, c, queueOf(x, n, 2))
		if !slices.Equal(got, []int{20, 21}) || len(rests) != 20-6+2 {
			t.Errorf("behind changed keys %d, with rests of %d", got, rests)
		}
		// A writer in progress is not waited for: neither a key that is locked is latched, nor one that is not needed.
		owner := first.header()
		owner.Txn.Anchor = queueKey(0)
		for _, b := range []*kv.Batch{
			{Header: owner, Requests: []kv.Request{&kv.PutRequest{Key: queueKey(0), Value: []byte("done"), Seq: 1}}},
			{Requests: []kv.Request{&kv.PutRequest{Key: queueKey(23), Value: []byte("new")}}},
		} {
			c.freed = make(chan struct{})
			c.holdNext.Store(true)
			wrote := make(chan error, 1)
			go func() {
				_, err := c.Send(ctx, b)
				wrote <- err
			}()
			synctest.Wait()
			answered := make(chan []int, 1)
			go func() {
				got, _ := locked(t, c, queueOf(c.begin(), n, 1))
				answered <- got
			}()
			synctest.Wait()
			if len(answered) == 0 {
				t.Errorf("a worker waits for the latch of %s", b.Requests[0].Span().Start)
			}
			close(c.freed)
			if err := <-wrote; err != nil {
				t.Error(err)
			}
			if got := <-answered; len(got) != 1 {
				t.Errorf("a worker has locked %d", got)
			}
		}
		if got, _ := locked(t, c, queueOf(c.begin(), n, 30)); len(got) != n-6-2-2 {
			t.Errorf("the rest is %d", got)
		}
		// Keys without a value are no answer, whatever is at work on the others.
		gone := &kv.Batch{Header: kv.Header{Txn: c.begin().txn.Clone(), WaitPolicy: kv.SkipLocked, MaxKeys: 2}}
		gone.Txn.Isolation, gone.Txn.Anchor = kv.ReadCommitted, queueKey(0)
		for i := range n {
			k := append(queueKey(i), 'x')
			gone.Requests = append(gone.Requests, &kv.ScanRequest{Start: k, End: k.Next(), Lock: kv.Exclusive})
		}
		if got, rests := locked(t, c, gone); len(got) > 0 || len(rests) > 0 {
			t.Errorf("of nothing %d are locked, with rests of %d", got, rests)
		}
	})
}

// Workers that come at the same time pass each other: each gets a row, and none waits for a latch, since there are more rows than all of them together can latch or have locked.
func TestChoiceOfMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, stop := newCluster(t, 1, 0)
		defer stop()
		ctx := context.Background()
		const n, rows = 24, 60
		for i := range rows {
			if _, err := c.Send(ctx, &kv.Batch{Requests: []kv.Request{&kv.PutRequest{Key: queueKey(i), Value: []byte("new")}}}); err != nil {
				t.Fatal(err)
			}
		}
		waits := c.o.Metrics.LatchWaits.Load()
		got := make([]int, n)
		var wg sync.WaitGroup
		for w := range n {
			x := c.begin()
			wg.Go(func() {
				if found, _ := locked(t, c, queueOf(x, rows, 1)); len(found) == 1 {
					got[w] = found[0]
				} else {
					t.Errorf("worker %d has %d", w, found)
				}
			})
		}
		wg.Wait()
		slices.Sort(got)
		if len(slices.Compact(got)) != n {
			t.Errorf("the workers have %d", got)
		}
		if d := c.o.Metrics.LatchWaits.Load() - waits; d > 0 {
			t.Errorf("workers have waited for latches %d times", d)
		}
	})
}
