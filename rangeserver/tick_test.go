package rangeserver_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"meridian/replica"
)

// TestTicksApart: stores that are started together do not tick together, so that two voters that raft lets wait for the same
// number of ticks do not campaign at the same moment, and both in vain.
func TestTicksApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := three(t)
		defer c.stop()
		var at []time.Duration // when in an interval each node's heartbeats leave
		for _, n := range c.nodes {
			check(t, c.leaseholder(1).store.TransferLease(context.Background(), 1, n.id))
			time.Sleep(3 * time.Second) // raft's leadership has followed
			sent := &n.store.Metrics.RaftMessagesSent
			seen := map[time.Duration]int{}
			most := time.Duration(0)
			for last := sent.Load(); seen[most] < 5; {
				time.Sleep(time.Millisecond)
				if now := sent.Load(); now != last {
					last = now
					phase := time.Duration(time.Now().UnixNano()) % replica.TickInterval / time.Millisecond * time.Millisecond
					if seen[phase]++; seen[phase] > seen[most] {
						most = phase
					}
				}
			}
			at = append(at, most)
		}
		if slices.Max(at)-slices.Min(at) < 10*time.Millisecond {
			t.Error("all tick at about the same moment")
		}
		t.Log(at)
	})
}
