package simcluster_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
)

// TestWritersAreNotStarved: a row is read all the time next to its leaseholder, and somebody far away reads it and writes
// it. Each read moves his write up, and what he has read has to be looked at again, for which he needs a round trip
// during which there are further reads. He commits all the same, after a few rounds. So do many who do so at once.
func TestWritersAreNotStarved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := wideArea(t)
		near, far := connect(t, c, 0), connect(t, c, 2)
		exec(t, near, "CREATE TABLE hot (id int PRIMARY KEY, v int)")
		exec(t, near, "CREATE TABLE other (id int PRIMARY KEY, v int)")
		exec(t, near, "INSERT INTO hot VALUES (1, 0)")
		exec(t, near, "INSERT INTO other VALUES (1, 0)")
		exec(t, near, "ALTER TABLE other SPLIT AT VALUES (0)")
		exec(t, far, "SELECT v FROM hot")
		ctx := context.Background()
		stop := make(chan struct{})
		var wg sync.WaitGroup
		wg.Add(1)
		go func() {
			defer wg.Done()
			for {
				select {
				case <-stop:
					return
				case <-time.After(3 * time.Millisecond):
					if _, err := near.Exec(ctx, "SELECT v FROM hot WHERE id = $1", 1); err != nil {
						t.Error(err)
						return
					}
				}
			}
		}()
		write := func(conn *pgx.Conn, what string, read string, limit time.Duration) {
			start := time.Now()
			ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
			defer cancel()
			for try := 1; ; try++ {
				tx, err := conn.Begin(ctx)
				if err != nil {
					t.Error(err)
					return
				}
				var v int
				err = tx.QueryRow(ctx, read).Scan(&v)
				if err == nil {
					_, err = tx.Exec(ctx, "UPDATE hot SET v = v + 1 WHERE id = 1")
				}
				if err == nil {
					err = tx.Commit(ctx)
				}
				if err == nil {
					t.Logf("%s: %v, %d tries", what, time.Since(start), try)
					break
				}
				tx.Rollback(ctx)
				if try > 20 {
					t.Errorf("%s: %v after %d tries", what, err, try)
					return
				}
			}
			if d := time.Since(start); d > limit {
				t.Errorf("%s took %v", what, d)
			}
		}
		write(far, "a far writer, reads in the range", "SELECT v FROM hot WHERE id = 1", 2*time.Second)
		write(far, "a far writer, reads elsewhere too", "SELECT hot.v + other.v FROM hot, other", 2*time.Second)
		for i := range 8 {
			conn := connect(t, c, 2)
			wg.Add(1)
			go func() {
				defer wg.Done()
				write(conn, fmt.Sprintf("far writer %d", i), "SELECT v FROM hot WHERE id = 1", 16*time.Second)
			}()
		}
		time.Sleep(10 * time.Second)
		close(stop)
		wg.Wait()
	})
}
