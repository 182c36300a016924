package route_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"meridian/kv"
	"meridian/route"
)

// TestSeek: a hundred batches wait for a range whose leaseholder is dead. They go on when the next one has the lease, at once, and cost the other replicas no more questions than one would.
func TestSeek(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, 1)
		defer h.Group.Stop()
		c := newCluster(h, 3)
		s := c.gateway(0)
		get := func() error {
			_, err := s.Send(context.Background(), &kv.Batch{Requests: []kv.Request{&kv.GetRequest{Key: key(1)}}})
			return err
		}
		if err := get(); err != nil {
			t.Fatal(err)
		}
		c.delay(time.Millisecond)
		const clients = 100
		c.change(func() { c.down[1] = true })
		var all sync.WaitGroup
		var mu sync.Mutex
		longest := time.Duration(0)
		start := time.Now()
		const away = 1700 * time.Millisecond
		for range clients {
			all.Go(func() {
				if err := get(); err != nil {
					t.Error(err)
				}
				mu.Lock()
				longest = max(longest, time.Since(start))
				mu.Unlock()
			})
		}
		time.Sleep(away)
		c.change(func() { c.ranges[0].lease = 3 })
		all.Wait()
		messages := c.messages[route.Method]
		t.Logf("the last one was served %v after the lease had moved; %d messages", longest-away, messages)
		// A question takes 1 ms, and so does the batch; the replicas are asked every 100 ms, and once more where the question left just before.
		if d := longest - away; d > 205*time.Millisecond {
			t.Errorf("the last one was served %v after the lease had moved", d)
		}
		if n := s.Metrics().OutOfPatience.Load(); n > 0 {
			t.Errorf("%d were given up", n)
		}
	})
}
