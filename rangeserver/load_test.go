package rangeserver_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"meridian/kv"
)

// TestLeaseFollowsRequests: a lease goes to the node that sends nearly all of a range's requests, and stays there though
// evenness would have it elsewhere; not for a mixed load, and not to a node whose disk lets writes wait.
func TestLeaseFollowsRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		c.interval = time.Second
		c.zones = []string{"region=a,zone=1", "region=a,zone=2", "region=a,zone=3"}
		defer c.stop()
		for i, n := range c.nodes {
			n.start(i == 0)
		}
		check(t, c.put("k", "x"))
		time.Sleep(20 * time.Second)
		ask := func(from kv.NodeID, n int) {
			t.Helper()
			for n > 0 {
				_, err := c.leaseholder(2).store.Send(context.Background(), &kv.Batch{
					Header:   kv.Header{RangeID: 2, Gateway: from},
					Requests: []kv.Request{&kv.GetRequest{Key: tkey("k")}},
				})
				var moving *kv.NotLeaseholderError
				if errors.As(err, &moving) {
					time.Sleep(time.Millisecond)
					continue
				}
				check(t, err)
				n--
			}
		}
		// for d, requests come through nodes, so many in a tenth of a second. The lease moves once at most: it does not go back
		// and forth.
		load := func(d time.Duration, from map[kv.NodeID]int) kv.NodeID {
			t.Helper()
			at, moves := c.leaseholder(2).id, 0
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
				for id, n := range from {
					ask(id, n)
				}
				if now := c.leaseholder(2).id; now != at {
					at, moves = now, moves+1
				}
			}
			if moves > 1 {
				t.Errorf("the lease moved %d times", moves)
			}
			return at
		}
		if at := load(12*time.Second, map[kv.NodeID]int{3: 10, 2: 1}); at != 3 {
			t.Fatalf("the lease is on n%d, its requests come through n3", at)
		}
		if followed(c) == 0 {
			t.Error("no lease was moved for the sake of its requests")
		}
		if at := load(30*time.Second, map[kv.NodeID]int{3: 5, 2: 10}); at != 3 {
			t.Errorf("the lease went to n%d for two thirds of the requests", at)
		}
		if at := load(30*time.Second, map[kv.NodeID]int{2: 10}); at != 2 {
			t.Errorf("the lease is on n%d, its requests come through n2", at)
		}

		// A disk that needs a second for each write is not given what it would have to drop.
		c.nodes[2].machine.Disk.SetSyncDelay(time.Second)
		for i := range 10 {
			check(t, c.put(fmt.Sprint("s", i), "x"))
			time.Sleep(500 * time.Millisecond)
		}
		if at := load(20*time.Second, map[kv.NodeID]int{3: 10}); at != 2 {
			t.Errorf("the lease went to n%d, whose disk is slow", at)
		}
		c.nodes[2].machine.Disk.SetSyncDelay(0)
		if at := load(70*time.Second, map[kv.NodeID]int{3: 10}); at != 3 {
			t.Errorf("the lease is on n%d, and the disk of n3 is fast again", at)
		}
		c.checkLeases()
	})
}

func followed(c *cluster) (n int64) {
	for _, x := range c.nodes {
		n += x.store.Metrics.LeasesFollowed.Load()
	}
	return n
}

// TestWritesAreTold: every node that has a replica tells the others how many commands it applies in a second, and a replica leaves the nodes
// that have most of them.
func TestWritesAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 6)
		c.interval = time.Second
		c.zones = []string{"zone=1", "zone=2", "zone=3", "zone=1", "zone=2", "zone=3"}
		defer c.stop()
		for i, n := range c.nodes {
			n.start(i == 0)
		}
		check(t, c.put("a", "x"))
		time.Sleep(20 * time.Second)
		_, err := c.send(context.Background(), tkey("m"), &kv.AdminSplitRequest{Key: tkey("m"), Keep: c.nodes[0].clock.Now().Add(time.Hour)})
		check(t, err)
		nodesOf := func(k string) (at []kv.NodeID) {
			t.Helper()
			info, ok := c.leaseholder(2).store.Lookup(tkey(k))
			if !ok {
				for _, n := range c.nodes {
					if info, ok = n.store.Lookup(tkey(k)); ok {
						break
					}
				}
			}
			for _, r := range info.Desc.Replicas {
				at = append(at, r.Node)
			}
			return at
		}
		t.Log("at first", nodesOf("a"), nodesOf("n"))
		write := func(d time.Duration) {
			t.Helper()
			for end := time.Now().Add(d); time.Now().Before(end); {
				for i := range 13 {
					check(t, c.put(fmt.Sprint("a", i), "x"))
					check(t, c.put(fmt.Sprint("n", i), "x"))
				}
				time.Sleep(100 * time.Millisecond)
			}
		}
		write(10 * time.Second)
		told := 0
		for _, n := range c.nodes {
			c.mu.Lock()
			writes := n.entry.Capacity.WritesPerSecond
			c.mu.Unlock()
			t.Logf("n%d: %.0f writes per second", n.id, writes)
			if writes > 100 {
				told++
			}
		}
		if told < 3 {
			t.Errorf("%d nodes have writes", told)
		}
		common := 3
		for tries := 0; tries < 12 && common > 1; tries++ {
			write(5 * time.Second)
			common = 0
			for _, n := range nodesOf("a") {
				if slices.Contains(nodesOf("n"), n) {
					common++
				}
			}
		}
		if common > 1 {
			t.Errorf("%d nodes of six have all writes: %d and %d", common, nodesOf("a"), nodesOf("n"))
		}
	})
}
