package leader

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"meridian/keys"
	"meridian/kv"
	"meridian/replica/lease"
)

// TestOwnIntentIsMoved: a transaction reads what it wrote while somebody moves its intent (leader.P2). The reads before that one are
// answered by the entries of the lock table, which takes a while in which the versions are not looked at yet.
func TestOwnIntentIsMoved(t *testing.T) {
	c, stop := newCluster(t, 1, 0)
	defer stop()
	ctx := context.Background()
	x := c.begin()
	const before = 1000
	z := keys.Key("z")
	x.anchor(z)
	var once, twice, reads []kv.Request
	for i := range before {
		k := keys.Key(fmt.Sprintf("k%04d", i))
		once = append(once, &kv.PutRequest{Key: k, Value: []byte("once"), Seq: 1})
		twice = append(twice, &kv.PutRequest{Key: k, Value: []byte("twice"), Seq: 2})
		reads = append(reads, &kv.GetRequest{Key: k})
	}
	once = append(once, &kv.PutRequest{Key: z, Value: []byte("once"), Seq: 1})
	reads = append(reads, &kv.GetRequest{Key: z})
	for _, reqs := range [][]kv.Request{once, twice} {
		if _, err := x.send(ctx, reqs...); err != nil {
			t.Fatal(err)
		}
	}
	stopped, done := make(chan struct{}), make(chan error, 1)
	go func() {
		meta := x.txn.TxnMeta
		for {
			select {
			case <-stopped:
				done <- nil
				return
			default:
			}
			meta.WriteTimestamp = meta.WriteTimestamp.Next()
			if _, err := c.Send(ctx, &kv.Batch{Requests: []kv.Request{&kv.ResolveIntentRequest{Key: z, Txn: meta, Status: kv.Pending}}}); err != nil {
				done <- err
				return
			}
		}
	}()
	defer func() {
		close(stopped)
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	for range 10 {
		b := &kv.Batch{Header: x.header(), Requests: reads}
		b.ReadSeq = 1
		resp, err := c.Send(ctx, b)
		if err != nil {
			t.Fatal(err)
		}
		for i, one := range resp.Responses {
			if v := one.(*kv.GetResponse).Value; string(v) != "once" {
				t.Fatalf("%s, which it wrote itself, is %q", reads[i].Span().Start, v)
			}
		}
	}
}

// TestEvaluatedUnderAnotherLease: the lease goes away and comes back while a write is evaluated. Another leaseholder may have
// served a read meanwhile that the write has not seen, so it must not be applied (leader.P7).
func TestEvaluatedUnderAnotherLease(t *testing.T) {
	c, stop := newCluster(t, 1, 0)
	defer stop()
	ctx := context.Background()
	k := keys.Key("k")
	away := func() {
		there := c.clock.Now().Next() // when the other leaseholder served the read
		c.reps[0].Lease.Store(3)
		c.ps[0].LeaseChanged(lease.Lease{Sequence: 3, Start: there.Next()}, true)
	}
	c.reps[0].meanwhile.Store(&away)
	var gone *kv.NotLeaseholderError
	if _, err := c.begin().send(ctx, &kv.PutRequest{Key: k, Value: []byte("v"), Seq: 1}); !errors.As(err, &gone) {
		t.Errorf("the write of then: %v", err)
	}
	if n := c.reps[0].Stats().IntentCount; n != 0 {
		t.Errorf("%d intents", n)
	}
}

// TestLeaseGoneBehindLatches: the lease goes away while a locking read waits for a latch. Commands are refused as they apply, but a
// locking read is no command: only the check under latches keeps it from serving a value, and a lock, that another leaseholder does not
// know of (I5).
func TestLeaseGoneBehindLatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, stop := newCluster(t, 1, 0)
		defer stop()
		ctx := context.Background()
		k := keys.Key("k")
		c.freed = make(chan struct{})
		c.holdNext.Store(true)
		wrote := make(chan error, 1)
		go func() {
			_, err := c.Send(ctx, &kv.Batch{Requests: []kv.Request{&kv.PutRequest{Key: k, Value: []byte("v")}}})
			wrote <- err
		}()
		synctest.Wait() // the write is proposed, and has its latch
		read := make(chan error, 1)
		go func() {
			_, err := c.begin().send(ctx, &kv.GetRequest{Key: k, Lock: kv.Exclusive})
			read <- err
		}()
		synctest.Wait() // the read waits for the latch
		c.reps[0].refuse.Store(true)
		close(c.freed)
		if err := <-wrote; err != nil {
			t.Errorf("the write, which was proposed under the lease: %v", err)
		}
		var gone *kv.NotLeaseholderError
		if err := <-read; !errors.As(err, &gone) {
			t.Errorf("the locking read without the lease: %v", err)
		}
	})
}
