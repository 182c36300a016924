package rangeserver_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestCommitIndexTravelsWithEntries: while a range is written without a pause, a follower gets one message for each
// append, and no others to tell it what has been committed.
func TestCommitIndexTravelsWithEntries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := three(t)
		defer c.stop()
		time.Sleep(5 * time.Second)
		leader := c.leaseholder(2)
		for _, n := range c.nodes {
			n.machine.Disk.SetSyncDelay(2 * time.Millisecond)
		}
		counts := func() (entries, messages int64) {
			return leader.store.Metrics.LogAppends.Load(), leader.store.Metrics.RaftMessagesSent.Load()
		}
		entries, messages := counts()
		var wg sync.WaitGroup
		for w := range 8 {
			wg.Go(func() {
				for i := range 200 {
					check(t, c.put(fmt.Sprint("w", w, "-", i), "x"))
					time.Sleep(time.Duration(w+1) * 300 * time.Microsecond)
				}
			})
		}
		wg.Wait()
		e, m := counts()
		entries, messages = e-entries, m-messages
		t.Logf("%d appends, %d messages", entries, messages)
		if messages > 2*entries+entries/4 {
			t.Errorf("%d messages to two followers for %d appends", messages, entries)
		}
	})
}
