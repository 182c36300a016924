package sessions_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"meridian/sim/simcluster/simtest"
)

// TestSerialWhileLeasesMove inserts rows with a serial column at three gateways while the leases move: no number comes
// twice, and a request made after another's answer gets a greater number.
func TestSerialWhileLeasesMove(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := simtest.WideArea(t)
		ctx := context.Background()
		simtest.Exec(t, simtest.Connect(t, c, 0), "CREATE TABLE t (id serial PRIMARY KEY, v int)")
		stop := make(chan struct{})
		var wg sync.WaitGroup
		var mu sync.Mutex
		var last, rows int
		for w := range 6 {
			conn := simtest.Connect(t, c, w%3)
			wg.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					mu.Lock()
					before := last
					mu.Unlock()
					var id int
					if err := conn.QueryRow(ctx, "INSERT INTO t (v) VALUES (1) RETURNING id").Scan(&id); err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					if id <= before {
						t.Errorf("%d was drawn after %d", id, before)
					}
					last = max(last, id)
					rows++
					mu.Unlock()
				}
			})
		}
		for i := range 4 {
			time.Sleep(2 * time.Second)
			if err := c.TransferLeases(ctx, (i+1)%3); err != nil {
				t.Log(err)
			}
		}
		time.Sleep(time.Second)
		close(stop)
		wg.Wait()
		if lost := last - rows; rows < 100 || lost > 5*32 {
			t.Errorf("%d rows up to %d", rows, last)
		}
		t.Logf("%d rows up to %d", rows, last)
	})
}
