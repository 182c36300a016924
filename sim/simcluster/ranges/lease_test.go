package ranges_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"meridian/sim/simcluster"
	"meridian/sim/simcluster/simtest"
)

// TestLeasesMove gives the lease of a range from node to node, while it is written and while it sleeps. Raft's
// leadership follows, a transfer is over in milliseconds, and writes go on at one round trip to the quorum: none
// waits for a tick.
func TestLeasesMove(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := simcluster.Start(t, simcluster.Options{Log: simtest.LogTo()})
		simtest.Replicated(t, c, 3)
		for i := range c.Len() {
			c.Node(i).Store().PauseQueues(true) // no leases are moved to even out the load
		}
		ctx := context.Background()
		key := simtest.UserKey(1)
		id := func() (leader, holder int) {
			leader, holder = -1, -1
			info, err := c.Node(0).Router().Range(ctx, key, true)
			if err != nil {
				t.Fatal(err)
			}
			for i := range c.Len() {
				if s := c.Node(i).Store().Replica(info.Desc.ID).Status(); true {
					if s.Leader {
						leader = i
					}
					if s.LeaseHeld {
						holder = i
					}
				}
			}
			return leader, holder
		}
		const soon, rtt = 20 * time.Millisecond, 500 * time.Microsecond
		writes := 0
		write := func(gateway int, most time.Duration, what string) {
			t.Helper()
			writes++
			start := time.Now()
			limit, cancel := context.WithTimeout(ctx, 5*time.Second)
			defer cancel()
			if err := simtest.Put(limit, c.Node(gateway).DB(), simtest.UserKey(1000+writes), "v"); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			if d := time.Since(start); d > most {
				t.Errorf("%s took %s", what, d)
			}
		}
		for i := range 12 { // back to back
			limit, cancel := context.WithTimeout(ctx, time.Second)
			if err := c.TransferLease(limit, key, i%3); err != nil {
				t.Fatalf("transfer %d: %v", i, err)
			}
			cancel()
		}
		for _, idle := range []time.Duration{0, 50 * time.Millisecond, time.Second, 15 * time.Second} {
			for round := range 6 {
				to := round % 3
				time.Sleep(idle)
				what := fmt.Sprintf("idle for %s, round %d, to %d", idle, round, to)
				start := time.Now()
				limit, cancel := context.WithTimeout(ctx, time.Second)
				if err := c.TransferLease(limit, key, to); err != nil {
					t.Fatalf("%s: %v", what, err)
				}
				cancel()
				if d := time.Since(start); d > soon {
					t.Errorf("%s: the transfer took %s", what, d)
				}
				write(to, soon, what+": the first write")
				time.Sleep(150 * time.Millisecond * time.Duration(round%2))
				for i := range 3 {
					write(i, soon, what+": the first writes") // gateways learn of the leaseholder
				}
				for i := range 20 {
					// The write, the gateway's way to the leaseholder, and at times one more to a leader that is about to go.
					write((to+i)%3, 3*rtt+200*time.Microsecond, fmt.Sprintf("%s: write %d from node %d", what, i, (to+i)%3))
					time.Sleep(3 * time.Millisecond)
				}
				if leader, holder := id(); leader != to || holder != to {
					t.Errorf("%s: the lease is at %d, leadership at %d", what, holder, leader)
				}
			}
		}
	})
}
