package leader

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"meridian/clock"
	"meridian/keys"
	"meridian/kv"
	"meridian/replica/lease"
)

// TestHeldInOnePhase: a commit of one range says in its own command that it relies on locks (leader.P16). It is refused if the lease was
// somebody else's in between, and if the locks lie elsewhere the gateway is told to ask there.
func TestHeldInOnePhase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, stop := newCluster(t, 1, 0, "m")
		defer stop()
		ctx := context.Background()
		commit := func(x *testTxn, from clock.Timestamp, at string) error {
			_, err := c.Send(ctx, &kv.Batch{Header: x.header(), Requests: []kv.Request{
				&kv.PutRequest{Key: keys.Key("b"), Value: []byte("1"), Seq: 1},
				&kv.EndTxnRequest{Anchor: keys.Key("b"), Commit: true, OnePhase: true,
					Held: []kv.HeldLocks{{Span: keys.Span{Start: keys.Key(at)}, From: from}}}}})
			return err
		}
		lock := func() (*testTxn, clock.Timestamp) {
			x := c.begin()
			h := x.header()
			h.Hold = true
			r, err := c.Send(ctx, &kv.Batch{Header: h, Requests: []kv.Request{&kv.GetRequest{Key: keys.Key("a"), Lock: kv.Exclusive}}})
			if err != nil || r.LockedAt.IsZero() {
				t.Fatal(err, r)
			}
			return x, r.LockedAt
		}
		x, at := lock()
		if err := commit(x, at, "x"); !errors.As(err, new(*kv.OnePhaseError)) {
			t.Errorf("with a lock in another range: %v", err)
		}
		if err := commit(x, at, "a"); err != nil {
			t.Errorf("with its lock: %v", err)
		}
		c.ps[0].locks.Release(keys.Key("a"), x.txn.ID)
		x, at = lock()
		c.ps[0].LeaseChanged(lease.Lease{Sequence: c.reps[0].Lease.Add(2), Start: c.clock.Now()}, true)
		if err := commit(x, at, "a"); !errors.As(err, new(*kv.LocksLostError)) {
			t.Errorf("the lease was somebody else's: %v", err)
		}
		// A lease that was taken from a leaseholder which had served ahead of its clock begins there (lease.RL5). Locks that are taken before that
		// are in this table nevertheless.
		start := c.clock.Now().Add(4 * time.Second)
		c.ps[0].locks.Release(keys.Key("a"), x.txn.ID)
		c.ps[0].LeaseChanged(lease.Lease{Sequence: c.reps[0].Lease.Add(2), Start: start}, true)
		x, at = lock()
		if !at.Less(start) {
			t.Fatalf("locked at %s, and the lease starts at %s", at, start)
		}
		if lost := c.ps[0].locks.Lost(); at.Less(lost) {
			t.Errorf("locked at %s, and all locks of before %s count as lost", at, lost)
		}
		if _, err := c.Send(ctx, &kv.Batch{Header: x.header(), Requests: []kv.Request{
			&kv.CheckLocksRequest{Start: keys.Key("a"), From: at}}}); err != nil {
			t.Errorf("with its lock: %v", err)
		}
	})
}

// TestManyIntentsArePassed: a reader of a large write that does not end pushes it once, and reads below all of its intents, which
// stay where they are; so do those that come after it, unless they read later (leader.P17). The writer commits above them.
func TestManyIntentsArePassed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, stop := newCluster(t, 1, 0)
		defer stop()
		ctx := context.Background()
		x := c.begin()
		const n = 5000
		for i := range n {
			x.put(fmt.Sprintf("k%05d", i), []byte("1"))
		}
		if err := x.lay(ctx); err != nil {
			t.Fatal(err)
		}
		scan := func(at clock.Timestamp) (int, time.Duration) {
			t.Helper()
			begun := time.Now()
			r, err := c.Send(ctx, &kv.Batch{Header: kv.Header{Timestamp: at}, Requests: []kv.Request{&kv.ScanRequest{Start: keys.Key("k"), End: keys.Key("l")}}})
			if err != nil {
				t.Fatal(err)
			}
			return len(r.Responses[0].(*kv.ScanResponse).Rows), time.Since(begun)
		}
		at := c.clock.Now()
		rows, took := scan(at)
		m := c.o.Metrics
		if rows != 0 || took > 50*time.Millisecond || m.Pushes.Load() != 1 || m.Resolved.Load() != 0 {
			t.Errorf("the first reader finds %d rows after %v, %d pushes and %d intents moved", rows, took, m.Pushes.Load(), m.Resolved.Load())
		}
		if rows, took := scan(at); rows != 0 || took > 0 || m.Pushes.Load() != 1 {
			t.Errorf("the next one finds %d rows after %v, %d pushes", rows, took, m.Pushes.Load())
		}
		if err := x.commit(ctx); err != nil {
			t.Fatal(err)
		}
		if rows, _ := scan(at); rows != 0 {
			t.Errorf("it committed below its readers: %d rows", rows)
		}
		if rows, _ := scan(c.clock.Now()); rows != n {
			t.Errorf("%d rows in the end", rows)
		}
	})
}
