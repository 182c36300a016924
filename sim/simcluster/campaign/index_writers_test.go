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

// TestIndexesBesideWriters: an index that is made while others write has an entry for each row, and no other, wherever leases go and ranges begin, in each way in which versions of a table are published.
func TestIndexesBesideWriters(t *testing.T) {
	t.Parallel()
	seconds := 20 // of virtual time
	if n, err := strconv.Atoi(os.Getenv("MERIDIAN_SECONDS")); err == nil {
		seconds = n
	}
	for _, how := range []string{"external", "always"} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { indexesBesideWriters(t, how, seconds) })
		})
	}
}

func indexesBesideWriters(t *testing.T, how string, seconds int) {
	c := simcluster.Start(t, simcluster.Options{NodesPerRegion: 3, Log: simtest.LogTo()})
	conn := simtest.Connect(t, c, 0)
	for _, q := range []string{"SET CLUSTER SETTING sql.schema_change.registered = '" + how + "'", "CREATE TABLE w (id int PRIMARY KEY, b int, s text)",
		"INSERT INTO w SELECT g, g, 's' FROM generate_series(0, 99) g", "ALTER TABLE w SPLIT AT VALUES (30), (60)"} {
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
	written, made := 0, 0
	for w := range 6 {
		conn, dice := simtest.Connect(t, c, w%3), rand.New(rand.NewPCG(uint64(w), 1))
		wg.Go(func() {
			for !stopped() {
				id, b := dice.IntN(120), dice.IntN(1000)
				var err error
				switch dice.IntN(4) {
				case 0:
					_, err = conn.Exec(context.Background(), fmt.Sprintf("DELETE FROM w WHERE id = %d", id))
				case 1:
					_, err = conn.Exec(context.Background(), fmt.Sprintf("INSERT INTO w VALUES (%d, %d, 's%d') ON CONFLICT (id) DO UPDATE SET b = excluded.b", id, b, b%5))
				case 2:
					_, err = conn.Exec(context.Background(), fmt.Sprintf("UPDATE w SET b = %d, s = 's%d' WHERE id = %d", b, b%5, id))
				default:
					err = inTxn(context.Background(), conn, func() error {
						if _, err := conn.Exec(context.Background(), fmt.Sprintf("UPDATE w SET b = %d WHERE id = %d", b, id)); err != nil {
							return err
						}
						time.Sleep(time.Duration(dice.IntN(60)) * time.Millisecond)
						_, err := conn.Exec(context.Background(), fmt.Sprintf("UPDATE w SET b = b + 1 WHERE id = %d", (id+50)%120))
						return err
					})
				}
				var pg *pgconn.PgError
				switch {
				case err == nil:
					mu.Lock()
					written++
					mu.Unlock()
				case errors.As(err, &pg) && (pg.Code == "40001" || pg.Code == "40P01"):
					conn.Exec(context.Background(), "ROLLBACK")
				default:
					t.Error(err)
					return
				}
				time.Sleep(time.Duration(dice.IntN(30)) * time.Millisecond)
			}
		})
	}
	wg.Go(func() {
		dice := rand.New(rand.NewPCG(3, 3))
		for !stopped() {
			time.Sleep(time.Duration(dice.IntN(200)) * time.Millisecond)
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			switch dice.IntN(4) {
			case 0:
				mergeRandomly(ctx, c, dice.IntN(3), dice)
			case 1:
				conn.Exec(ctx, fmt.Sprintf("ALTER TABLE w SPLIT AT VALUES (%d)", dice.IntN(120)))
			default:
				if ranges, err := c.Ranges(ctx, 0); err == nil && len(ranges) > 0 {
					d := ranges[dice.IntN(len(ranges))]
					c.Node(0).Router().Send(ctx, &kv.Batch{Requests: []kv.Request{&kv.AdminTransferLeaseRequest{Key: d.Start, Target: d.Replicas[dice.IntN(len(d.Replicas))].Node}}})
				}
			}
			cancel()
		}
	})
	check := simtest.Connect(t, c, 1)
	dice := rand.New(rand.NewPCG(4, 4))
	for until := time.Now().Add(time.Duration(seconds) * time.Second); time.Now().Before(until) && !t.Failed(); {
		ctx := context.Background()
		name, on := "i_b", "(b)"
		if dice.IntN(2) == 0 {
			name, on = "i_s", "(s, b DESC)"
		}
		if _, err := check.Exec(ctx, "CREATE INDEX "+name+" ON w "+on); err != nil {
			t.Errorf("CREATE INDEX: %v", err)
			break
		}
		made++
		rows, err := check.Query(ctx, "SELECT id, a.b, i.b FROM (SELECT id, b FROM w WHERE id + 0 >= 0) a FULL JOIN (SELECT id, b FROM w WHERE b >= -1 AND s >= '') i USING (id) WHERE a.b IS DISTINCT FROM i.b")
		if err == nil {
			var wrong [][3]*int
			wrong, err = pgx.CollectRows(rows, func(r pgx.CollectableRow) (w [3]*int, err error) { return w, r.Scan(&w[0], &w[1], &w[2]) })
			for _, w := range wrong {
				t.Errorf("index %d (%s): row %v has %v, the index %v", made, name, *w[0], show(w[1]), show(w[2]))
			}
		}
		if err != nil {
			t.Errorf("a query has failed: %v", err)
		}
		var n int
		if err := check.QueryRow(ctx, "SELECT count(*) FROM w@"+name+" FULL JOIN (SELECT id AS k, b AS c FROM w@w_pkey) p ON id = k AND b = c WHERE id IS NULL OR k IS NULL").Scan(&n); err != nil {
			t.Error(err)
		} else if n != 0 {
			t.Errorf("index %d (%s): %d entries differ", made, name, n)
		}
		simtest.Exec(t, check, "DROP INDEX "+name)
		time.Sleep(time.Duration(dice.IntN(100)) * time.Millisecond)
	}
	close(stop)
	wg.Wait()
	t.Logf("%d written, %d indexes made", written, made)
}

func show(p *int) string {
	if p == nil {
		return "none"
	}
	return strconv.Itoa(*p)
}
