package rangeserver_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"meridian/clock"
	"meridian/kv"
	"meridian/replica/lease"
)

// TestDrainedBefore: a node keeps its leases while its record is still that of its earlier process, which drained, and gives them away when its own
// says so.
func TestDrainedBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		c.interval = time.Second
		defer c.stop()
		for i, n := range c.nodes {
			n.start(i == 0)
		}
		check(t, c.put("a", "a"))
		time.Sleep(20 * time.Second)
		n := c.leaseholder(2)
		c.liveness.before.Store(uint32(n.id))
		c.liveness.drained.Store(uint32(n.id))
		time.Sleep(5 * time.Second)
		if at := c.leaseholder(2); at != n {
			t.Errorf("n%d has given its lease to n%d, because its earlier process drained", n.id, at.id)
		}
		c.liveness.before.Store(0)
		time.Sleep(5 * time.Second)
		if at := c.leaseholder(2); at == n {
			t.Errorf("n%d drains and has the lease", n.id)
		}
	})
}

// TestLeaseForRestarted: a lease that is given to a node whose record is still that of its earlier process does not name that one's incarnation, which
// the node can't use.
func TestLeaseForRestarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := three(t)
		defer c.stop()
		from := c.leaseholder(closedRange)
		to := c.nodes[0]
		if to == from {
			to = c.nodes[1]
		}
		c.liveness.before.Store(uint32(to.id))
		check(t, from.store.TransferLease(t.Context(), closedRange, to.id))
		if l, _ := from.store.Replica(closedRange).Lease(); l.Holder.Node != to.id || l.Kind != lease.Expiration {
			t.Errorf("n%d is given %v", to.id, l)
		}
	})
}

// TestTakers: a node that has just started, whichever it is, gets a lease only if no other node can take it.
func TestTakers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := three(t)
		defer c.stop()
		n := c.leaseholder(closedRange)
		d := n.store.Replica(closedRange).Desc()
		for _, started := range c.nodes {
			if started == n {
				continue
			}
			c.liveness.before.Store(uint32(started.id))
			if got := n.store.Takers(d); len(got) != 2 || got[1] != started.id {
				t.Errorf("n%d has just started; the leases of n%d go to %v", started.id, n.id, got)
			}
		}
	})
}

// TestLeave: a store that leaves refuses batches before it has done anything, though it has the lease, and those that wait for a lease too.
func TestLeave(t *testing.T) {
	unavailable := func(err error) bool {
		var e *kv.UnavailableError
		return errors.As(err, &e)
	}
	synctest.Test(t, func(t *testing.T) {
		c := three(t)
		defer c.stop()
		n := c.leaseholder(closedRange)
		n.store.Leave()
		b := &kv.Batch{Header: kv.Header{RangeID: closedRange}, Requests: []kv.Request{&kv.GetRequest{Key: tkey("a")}}}
		if _, err := n.store.Send(t.Context(), b); !unavailable(err) {
			t.Errorf("a batch ended with %v", err)
		}
		if _, ok := n.store.Start(t.Context(), b, false); ok {
			t.Error("a batch was begun")
		}
	})
	synctest.Test(t, func(t *testing.T) {
		c := three(t)
		defer c.stop()
		n := c.leaseholder(closedRange)
		c.liveness.mu.Lock()
		c.liveness.stopped = true
		c.liveness.mu.Unlock()
		time.Sleep(10 * time.Second)
		waits := make(chan error, 1)
		begun := time.Now()
		go func() {
			_, err := n.store.Replica(closedRange).EnsureLease(context.Background(), clock.Timestamp{})
			waits <- err
		}()
		time.Sleep(100 * time.Millisecond)
		n.store.Leave()
		if err := <-waits; !unavailable(err) || time.Since(begun) > 150*time.Millisecond {
			t.Errorf("a request for a lease ended after %s with %v", time.Since(begun), err)
		}
	})
}
