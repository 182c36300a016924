package rangeserver_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"meridian/clock"
	"meridian/rangeserver"
	"meridian/replica/closedts"
	"meridian/transport"
)

// TestPromiseAheadOfLog: a leaseholder promises by the side transport what a follower has not applied yet. The follower serves
// nothing of it before it has, neither while the promise stands nor when another one takes its place (closedts.CT3).
func TestPromiseAheadOfLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := three(t)
		defer c.stop()
		from := c.leaseholder(closedRange)
		to := c.nodes[0]
		if to == from {
			to = c.nodes[1]
		}
		r := to.store.Replica(closedRange)
		time.Sleep(5 * time.Second)
		ahead := from.store.Replica(closedRange).AppliedIndex() + 100
		// Numbered above the store's own stream, which is not heard any more.
		u := closedts.Update{Stream: 1 << 62, Changed: []closedts.Position{{Range: closedRange, Index: ahead}}}
		first := from.clock.Now().Add(-time.Second)
		at := first
		for range 3 {
			u.Seq++
			u.Closed = [closedts.Policies]clock.Timestamp{closedts.Lag: at}
			if _, err := from.net.CallClass(context.Background(), transport.ClassSystem, to.id, rangeserver.MethodClosed, u.Append(nil)); err != nil {
				t.Fatal(err)
			}
			if got := r.ClosedTimestamp(); !got.Less(first) {
				t.Errorf("message %d: closed %s, promised %s at index %d, applied %d", u.Seq, got, first, ahead, r.AppliedIndex())
			}
			at = at.Add(time.Millisecond)
			u.Changed[0].Index++
		}
		for r.AppliedIndex() < ahead+3 {
			check(t, c.put("a", "v"))
		}
		if got := r.ClosedTimestamp(); got.Less(at.Add(-time.Millisecond)) {
			t.Errorf("closed %s though %d is applied", got, r.AppliedIndex())
		}
	})
}

// TestPromiseFollowsLog: what has been promised of a range that slept names a later index once there was a write (closedts.CT3).
func TestPromiseFollowsLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := three(t)
		defer c.stop()
		from := c.leaseholder(closedRange)
		for _, to := range c.nodes {
			if to == from {
				continue
			}
			for range 3 {
				time.Sleep(10 * time.Second)
				check(t, c.put("a", "v"))
				written, index := from.clock.Now(), from.store.Replica(closedRange).AppliedIndex()
				time.Sleep(10 * time.Second)
				if closed, at := to.store.HeardClosed(from.id, closedRange); closed.Less(written) || at < index {
					t.Errorf("n%d heard of %s as of %d; written at %s, applied %d", to.id, closed, at, written, index)
				}
			}
		}
	})
}
