package latency_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"meridian/sim/simcluster/simtest"
)

// TestGlobalChanges: an UPDATE or a DELETE of a GLOBAL row by its key takes as long as an INSERT from each region, one round trip and the wait for the timestamp. Increments of one row from all regions at the same time all count, and
// a DELETE meets each row once.
func TestGlobalChanges(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		c := fiveGlobal(t, reported, nil)
		home := simtest.ConnectTo(t, c, 0, "movr")
		simtest.Exec(t, home, `CREATE TABLE g (id int PRIMARY KEY, v int) LOCALITY GLOBAL`)
		simtest.Exec(t, home, `INSERT INTO g SELECT i, 0 FROM generate_series(1, 1000) i`)
		simtest.Settle(t, c, home, "g", globalPlace)
		for range 20 { // leads follow the rounds of commands, and shrink slowly
			simtest.Exec(t, home, `UPDATE g SET v = v + 1 WHERE id = 2`)
			time.Sleep(2 * time.Second)
		}
		for i := range c.Len() {
			conn := simtest.ConnectTo(t, c, i, "movr")
			var least [3]time.Duration
			for n := range 3 {
				for k, sql := range []string{fmt.Sprintf("INSERT INTO g VALUES (%d, 0)", 10_000*(i+1)+n), fmt.Sprintf("UPDATE g SET v = v + 1 WHERE id = %d", 10*(i+1)+n),
					fmt.Sprintf("DELETE FROM g WHERE id = %d", 100*(i+1)+n)} {
					begun := time.Now()
					simtest.Exec(t, conn, sql)
					took := time.Since(begun)
					if least[k] == 0 || took < least[k] {
						least[k] = took
					}
					time.Sleep(time.Second)
				}
			}
			t.Logf("n%d: INSERT %v, UPDATE %v, DELETE %v", i+1, least[0], least[1], least[2])
			for k, name := range []string{"UPDATE", "DELETE"} {
				if least[k+1] > least[0]+10*time.Millisecond {
					t.Errorf("n%d: %s takes %v, INSERT %v", i+1, name, least[k+1], least[0])
				}
			}
		}
		var clients sync.WaitGroup
		var mu sync.Mutex
		deleted := 0
		const each = 10
		for i := range c.Len() {
			for n := range 2 {
				clients.Go(func() {
					conn, err := c.Connect(ctx, i, "movr")
					if err != nil {
						t.Error(err)
						return
					}
					defer conn.Close(ctx)
					for at := range each {
						if _, err := conn.Exec(ctx, "UPDATE g SET v = v + 1 WHERE id = 1"); err != nil {
							t.Error(err)
						}
						tag, err := conn.Exec(ctx, fmt.Sprintf("DELETE FROM g WHERE id = %d", 900+at))
						if err != nil {
							t.Error(err)
						}
						mu.Lock()
						deleted += int(tag.RowsAffected())
						mu.Unlock()
						time.Sleep(time.Duration(n) * 50 * time.Millisecond)
					}
				})
			}
		}
		clients.Wait()
		var v int
		if err := home.QueryRow(ctx, "SELECT v FROM g WHERE id = 1").Scan(&v); err != nil || v != 2*each*c.Len() {
			t.Errorf("%d increments of %d count, %v", v, 2*each*c.Len(), err)
		}
		if deleted != each {
			t.Errorf("%d rows were deleted of %d", deleted, each)
		}
	})
}
