package rangeserver_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"meridian/kv"
)

// TestTransferWaits: from the moment on that a lease is to be given away its holder serves nothing more, and it is not given
// before the requests in progress have ended (lease.RL1).
func TestTransferWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := three(t)
		defer c.stop()
		from := c.leaseholder(closedRange)
		to := c.nodes[0]
		if to == from {
			to = c.nodes[1]
		}
		x, _ := from.participants.Load(closedRange)
		p := x.(*participant)
		p.turn <- struct{}{} // a request is being served
		done := make(chan error, 1)
		go func() { done <- from.store.TransferLease(context.Background(), closedRange, to.id) }()
		time.Sleep(100 * time.Millisecond)
		if _, ok := p.r.CheckLease(from.clock.Now()); ok {
			t.Error("the holder goes on to serve")
		}
		if l, _ := to.store.Replica(closedRange).Lease(); l.Holder.Node != from.id {
			t.Error("the lease is given away while a request is in progress")
		}
		<-p.turn
		check(t, <-done)
		if now := c.leaseholder(closedRange); now != to {
			t.Errorf("n%d has the lease, not n%d", now.id, to.id)
		}
	})
}

// TestTransferIsNotUndone: requests that come while a lease is being given away wait for that, and do not have it taken back.
func TestTransferIsNotUndone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := three(t)
		defer c.stop()
		from := c.leaseholder(closedRange)
		to := c.nodes[0]
		if to == from {
			to = c.nodes[1]
		}
		x, _ := from.participants.Load(closedRange)
		p := x.(*participant)
		p.turn <- struct{}{} // a request is being served
		done, other := make(chan error, 1), make(chan error, 1)
		go func() { done <- from.store.TransferLease(context.Background(), closedRange, to.id) }()
		time.Sleep(50 * time.Millisecond)
		go func() {
			_, err := p.r.EnsureLease(context.Background(), from.clock.Now())
			other <- err
		}()
		time.Sleep(200 * time.Millisecond)
		<-p.turn
		check(t, <-done)
		if now := c.leaseholder(closedRange); now != to {
			t.Errorf("n%d has the lease, not n%d", now.id, to.id)
		}
		var elsewhere *kv.NotLeaseholderError
		if err := <-other; !errors.As(err, &elsewhere) || elsewhere.Leaseholder.Node != to.id {
			t.Errorf("the request: %v", err)
		}
	})
}
