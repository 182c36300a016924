package campaign_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"meridian/kv"
	"meridian/sim/simcluster"
	"meridian/sim/simcluster/simtest"
)

// TestTruncateBesideWriters: e counts how often tr was emptied, and u has what the writer of each row of tr saw of that. So the rows of tr are those of u with the present count, at all times, however
// many write, and wherever leases go.
//
// Queries of their own don't fail, whatever happens to the tables (session.S2).
func TestTruncateBesideWriters(t *testing.T) {
	t.Parallel()
	seconds := 30 // of virtual time
	if n, err := strconv.Atoi(os.Getenv("MERIDIAN_SECONDS")); err == nil {
		seconds = n
	}
	synctest.Test(t, func(t *testing.T) {
		c := simcluster.Start(t, simcluster.Options{NodesPerRegion: 3, Log: simtest.LogTo()})
		conn := simtest.Connect(t, c, 0)
		for _, q := range []string{"CREATE TABLE tr (id int PRIMARY KEY, v int)", "CREATE INDEX ON tr (v)", "CREATE TABLE e (n int)", "CREATE TABLE u (id int PRIMARY KEY, n int)", "INSERT INTO e VALUES (0)"} {
			simtest.Exec(t, conn, q)
		}
		anomalyReplicated(context.Background(), t, c)
		stop := make(chan struct{})
		stopped := func() bool {
			select {
			case <-stop:
				return true
			default:
				return false
			}
		}
		var wg sync.WaitGroup
		var mu sync.Mutex
		ids, emptied, written := 0, 0, 0
		failed := func(err error) bool {
			var pg *pgconn.PgError
			if errors.As(err, &pg) && (pg.Code == "40001" || pg.Code == "40P01") {
				return true
			}
			if err != nil {
				t.Error(err)
			}
			return err != nil
		}
		for w := range 6 {
			conn, dice := simtest.Connect(t, c, w%3), rand.New(rand.NewPCG(uint64(w), 1))
			wg.Go(func() {
				for !stopped() {
					mu.Lock()
					ids++
					id := ids
					mu.Unlock()
					texts := []string{fmt.Sprintf("INSERT INTO tr VALUES (%d, %d)", id, id%5), fmt.Sprintf("INSERT INTO u SELECT %d, n FROM e", id)}
					if dice.IntN(2) == 0 {
						texts[0], texts[1] = texts[1], texts[0]
					}
					err := inTxn(context.Background(), conn, func() error {
						for _, q := range texts {
							if _, err := conn.Exec(context.Background(), q); err != nil {
								return err
							}
						}
						return nil
					})
					if failed(err) {
						conn.Exec(context.Background(), "ROLLBACK")
					} else {
						mu.Lock()
						written++
						mu.Unlock()
					}
					time.Sleep(time.Duration(dice.IntN(100)) * time.Millisecond)
				}
			})
		}
		for w := range 2 {
			conn, dice := simtest.Connect(t, c, 2-w), rand.New(rand.NewPCG(uint64(w), 2))
			wg.Go(func() {
				for !stopped() {
					texts := []string{"UPDATE e SET n = n + 1", "TRUNCATE tr"}
					if dice.IntN(2) == 0 {
						texts[0], texts[1] = texts[1], texts[0]
					}
					err := inTxn(context.Background(), conn, func() error {
						for _, q := range texts {
							if _, err := conn.Exec(context.Background(), q); err != nil {
								return err
							}
						}
						return nil
					})
					if failed(err) {
						conn.Exec(context.Background(), "ROLLBACK")
					} else {
						mu.Lock()
						emptied++
						mu.Unlock()
					}
					time.Sleep(time.Duration(dice.IntN(600)) * time.Millisecond)
				}
			})
		}
		wg.Go(func() {
			dice := rand.New(rand.NewPCG(3, 3))
			for !stopped() {
				time.Sleep(time.Duration(dice.IntN(400)) * time.Millisecond)
				ranges, err := c.Ranges(context.Background(), 0)
				if err != nil || len(ranges) == 0 {
					continue
				}
				d := ranges[dice.IntN(len(ranges))]
				c.Node(0).Router().Send(context.Background(), &kv.Batch{Requests: []kv.Request{&kv.AdminTransferLeaseRequest{Key: d.Start, Target: d.Replicas[dice.IntN(len(d.Replicas))].Node}}})
			}
		})
		bad := 0
		for range seconds * 2 {
			time.Sleep(500 * time.Millisecond)
			rows, err := conn.Query(context.Background(), "SELECT id, u.n, tr.v, (SELECT n FROM e) FROM u FULL JOIN tr USING (id) WHERE (u.n = (SELECT n FROM e)) <> (tr.id IS NOT NULL)")
			if err == nil {
				var wrong [][4]*int
				wrong, err = pgx.CollectRows(rows, func(r pgx.CollectableRow) (w [4]*int, err error) { return w, r.Scan(&w[0], &w[1], &w[2], &w[3]) })
				for _, w := range wrong {
					bad++
					t.Errorf("row %v: written at count %v, in the table: %v, count %v", *w[0], w[1], w[2] != nil, *w[3])
				}
			}
			if err != nil {
				t.Errorf("a query has failed: %v", err)
			}
			if bad > 2 {
				break
			}
		}
		close(stop)
		wg.Wait()
		t.Logf("%d written, %d times emptied", written, emptied)
		if written < 5*seconds || emptied < seconds {
			t.Error("too little was done")
		}
	})
}
