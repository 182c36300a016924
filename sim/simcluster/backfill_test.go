package simcluster_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestIndexOfHotRows: an index is filled from another region while some rows are written all the time, so that no transaction
// that reads them all, and commits a wide-area round trip later, finds them as they were.
func TestIndexOfHotRows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := wideArea(t)
		near, far := connect(t, c, 0), connect(t, c, 2)
		exec(t, near, "CREATE TABLE t (id int PRIMARY KEY, v int)")
		exec(t, near, "INSERT INTO t SELECT g, 0 FROM generate_series(1, 300) g")
		ctx, stop := context.WithCancel(context.Background())
		var writers sync.WaitGroup
		for w := range 6 {
			conn := connect(t, c, 0)
			writers.Go(func() {
				for i := 0; ctx.Err() == nil; i++ {
					// Values come back, so that there are entries of the index to meet.
					if _, err := conn.Exec(context.Background(), fmt.Sprintf("UPDATE t SET v = %d WHERE id = %d", i%3, w*50+1)); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		begun := time.Now()
		limit, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		if _, err := far.Exec(limit, "CREATE INDEX ON t (v)"); err != nil {
			t.Errorf("after %s: %v", time.Since(begun), err)
		}
		t.Logf("the index took %s", time.Since(begun))
		stop()
		writers.Wait()
	})
}
