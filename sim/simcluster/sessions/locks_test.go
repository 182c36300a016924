package sessions_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"meridian/keys"
	"meridian/kv"
	"meridian/sim/simcluster"
	"meridian/sim/simcluster/simtest"
)

// TestLocksSurviveTransfers: a row that SELECT FOR UPDATE locked stays locked when the lease moves, when the range
// splits, and when it merges. The transactions that wait get the lock in the order in which they began to wait.
func TestLocksSurviveTransfers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := simcluster.Start(t, simcluster.Options{Log: simtest.LogTo()})
		simtest.Replicated(t, c, 3)
		for i := range c.Len() {
			c.Node(i).Store().PauseQueues(true)
		}
		ctx := context.Background()
		one, two := simtest.Connect(t, c, 0), simtest.Connect(t, c, 1)
		simtest.Exec(t, one, "CREATE TABLE l (id int PRIMARY KEY, v int)")
		simtest.Exec(t, one, "INSERT INTO l SELECT i, 0 FROM generate_series(1, 10) AS g(i)")
		at := simtest.TableKey(t, one, "l")
		move := func(k keys.Key, i int) {
			t.Helper()
			if err := c.TransferLease(ctx, k, i); err != nil {
				t.Fatal(err)
			}
		}
		move(at, 0)
		locked := func(what string, ids ...int) {
			t.Helper()
			for id := 1; id <= 10; id++ {
				_, err := two.Exec(ctx, "SELECT * FROM l WHERE id = $1 FOR UPDATE NOWAIT", id)
				want := "<nil>"
				if slices.Contains(ids, id) {
					want = "55P03"
				}
				if got := simtest.Code(err); got != want {
					t.Errorf("%s: row %d: %s, want %s", what, id, got, want)
				}
			}
			var free int
			rows, err := two.Query(ctx, "SELECT id FROM l ORDER BY id FOR UPDATE SKIP LOCKED")
			if err != nil {
				t.Fatal(err)
			}
			for rows.Next() {
				free++
			}
			if rows.Close(); rows.Err() != nil || free != 10-len(ids) {
				t.Errorf("%s: SKIP LOCKED finds %d rows, %v", what, free, rows.Err())
			}
		}
		simtest.Exec(t, one, "BEGIN")
		simtest.Exec(t, one, "SELECT * FROM l WHERE id IN (3, 7) FOR UPDATE")
		locked("before", 3, 7)
		for i := range 4 {
			move(at, (i+1)%3)
			locked(fmt.Sprint("after transfer ", i+1), 3, 7)
		}
		simtest.Exec(t, two, "ALTER TABLE l SPLIT AT VALUES (5)")
		locked("after the split", 3, 7)
		var split keys.Key
		for _, k := range simtest.MustRanges(t, c) {
			if at.Less(k.Start) && (split == nil || k.Start.Less(split)) {
				split = k.Start
			}
		}
		move(split, 2)
		move(at, 1)
		locked("after both moved", 3, 7)
		move(split, 1)
		if err := simtest.Admin(c, 0, &kv.AdminMergeRequest{Key: at}); err != nil {
			t.Fatal(err)
		}
		locked("after the merge", 3, 7)

		// Three transactions wait during a transfer: they keep their order, whichever is nearest to the new leaseholder.
		// Otherwise they would queue in the order in which they learn of it.
		for round, gateways := range [][]int{{0, 1, 2}, {2, 1, 0}, {1, 0, 2}, {0, 2, 1}} {
			if round > 0 {
				simtest.Exec(t, one, "BEGIN")
				simtest.Exec(t, one, "SELECT * FROM l WHERE id = 3 FOR UPDATE")
			}
			var mu sync.Mutex
			var order []int
			var wg sync.WaitGroup
			for _, gateway := range gateways {
				conn := simtest.Connect(t, c, gateway)
				wg.Go(func() {
					if _, err := conn.Exec(ctx, "BEGIN"); err != nil {
						t.Error(err)
					}
					if _, err := conn.Exec(ctx, "SELECT * FROM l WHERE id = 3 FOR UPDATE"); err != nil {
						t.Errorf("waiter at n%d: %v", gateway+1, err)
					}
					mu.Lock()
					order = append(order, gateway)
					mu.Unlock()
					time.Sleep(10 * time.Millisecond)
					if _, err := conn.Exec(ctx, "COMMIT"); err != nil {
						t.Errorf("waiter at n%d: %v", gateway+1, err)
					}
				})
				time.Sleep(30 * time.Millisecond)
			}
			move(at, (round+2)%3)
			time.Sleep(100 * time.Millisecond)
			simtest.Exec(t, one, "UPDATE l SET v = 1 WHERE id = 3")
			simtest.Exec(t, one, "COMMIT")
			wg.Wait()
			if !slices.Equal(order, gateways) {
				t.Errorf("the waiters at %v got the lock in the order %v", gateways, order)
			}
		}
		locked("in the end")
	})
}
