package sessions_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"meridian/sim/simcluster/simtest"
)

// TestIndexOfHotRows: indexes are filled from another region while some rows are written all the time, so that a transaction that
// reads them all, and writes a wide-area round trip later, always finds some changed. Only these rows may take more than one try.
func TestIndexOfHotRows(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := simtest.WideArea(t)
		near, far := simtest.Connect(t, c, 0), simtest.Connect(t, c, 2)
		simtest.Exec(t, near, "CREATE TABLE t (id int PRIMARY KEY, v int, u int)")
		simtest.Exec(t, near, "INSERT INTO t SELECT g, 0, g FROM generate_series(1, 300) g")
		ctx, stop := context.WithCancel(context.Background())
		var writers sync.WaitGroup
		for w := range 6 {
			conn := simtest.Connect(t, c, 0)
			writers.Go(func() {
				for i := 0; ctx.Err() == nil; i++ {
					// Values come back, so that there are entries of the index to meet.
					id := w*50 + 1
					if _, err := conn.Exec(context.Background(), fmt.Sprintf("UPDATE t SET v = %d, u = %d WHERE id = %d", i%3, id+i%3*1000, id)); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		for _, q := range []string{"CREATE INDEX ON t (v)", "CREATE UNIQUE INDEX ON t (u)"} {
			begun := time.Now()
			limit, cancel := context.WithTimeout(context.Background(), 30*time.Second)
			_, err := far.Exec(limit, q)
			cancel()
			t.Logf("%s took %s", q, time.Since(begun))
			if err != nil {
				t.Errorf("%s: %v", q, err)
				break
			}
		}
		stop()
		writers.Wait()
	})
}
