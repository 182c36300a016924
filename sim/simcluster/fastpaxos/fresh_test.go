package fastpaxos_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"meridian/sim/simcluster/simtest"
)

// TestFreshTable: a table is under load from the moment that it is made.
func TestFreshTable(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, _ := simtest.FiveAcceptors(t)
		simtest.Stocked(t, c, 100)
		admin := simtest.ConnectTo(t, c, 0, "d")
		simtest.Exec(t, admin, "CREATE TABLE fresh (id int PRIMARY KEY, n int, s text) WITH (commit_protocol = 'fast_paxos')")
		begun := time.Now()
		type op struct {
			at, took time.Duration
			q        string
			err      error
		}
		var mu sync.Mutex
		var all []op
		var wg sync.WaitGroup
		for i := range 15 {
			conn := simtest.ConnectTo(t, c, i%5, "d")
			wg.Go(func() {
				for n := 0; time.Since(begun) < 10*time.Second; n++ {
					for _, q := range []string{
						fmt.Sprintf("INSERT INTO fresh VALUES (%d, 0, 'x')", 1000*i+n),
						fmt.Sprintf("UPDATE fresh SET s = s || 'y' WHERE id = %d", 1000*i+n),
						fmt.Sprintf("UPDATE fresh SET n = n + 1 WHERE id = %d", 1000*((i+1)%15)+n),
					} {
						at := time.Now()
						_, err := conn.Exec(context.Background(), q)
						mu.Lock()
						all = append(all, op{at.Sub(begun), time.Since(at), q, err})
						mu.Unlock()
					}
				}
			})
		}
		wg.Wait()
		slices.SortFunc(all, func(a, b op) int { return int(b.took - a.took) })
		t.Logf("%d: p50 %v p99 %v", len(all), all[len(all)/2].took, all[len(all)/100].took)
		for _, o := range all[:5] {
			t.Logf("at %v took %v: %s", o.at, o.took, o.q)
		}
		for _, o := range all {
			if o.err != nil || o.took > 2*time.Second {
				t.Errorf("at %v took %v: %s: %v", o.at, o.took, o.q, o.err)
			}
		}
	})
}

// TestHotRowIsFair: twelve clients at all gateways add to one row, by replacing it; each gets its share.
func TestHotRowIsFair(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, _ := simtest.FiveAcceptors(t)
		simtest.Stocked(t, c, 100)
		begun := time.Now()
		var mu sync.Mutex
		counts := make([]int, 12)
		longest := make([]time.Duration, 12)
		var wg sync.WaitGroup
		for i := range 12 {
			conn := simtest.ConnectTo(t, c, i%3, "d")
			wg.Go(func() {
				for time.Since(begun) < 20*time.Second {
					at := time.Now()
					_, err := conn.Exec(context.Background(), "UPDATE stock SET name = (n + 1)::text, n = n + 1 WHERE id = 7")
					mu.Lock()
					if err == nil {
						counts[i]++
					}
					longest[i] = max(longest[i], time.Since(at))
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		t.Log(counts, longest)
		if slices.Min(counts) < slices.Max(counts)/3 || slices.Max(longest) > 6*time.Second {
			t.Errorf("clients made %v updates, and waited for at most %v", counts, longest)
		}
	})
}

// TestSerializableShare: read-write transactions at SERIALIZABLE fail on a table without leaseholders at most 1.5 times as often as on one with, and one in a hundred. Both protocols' commit at their read timestamp if nothing is in the way (fastpaxos.FP89).
func TestSerializableShare(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, _ := simtest.FiveAcceptors(t)
		simtest.Stocked(t, c, 100)
		admin := simtest.ConnectTo(t, c, 0, "d")
		simtest.Exec(t, admin, "CREATE TABLE led (id int PRIMARY KEY, n int)")
		simtest.Exec(t, admin, "INSERT INTO led SELECT g, 5 FROM generate_series(100, 199) AS g")
		simtest.Exec(t, admin, "INSERT INTO stock SELECT g, 5, 'x' FROM generate_series(100, 199) AS g")
		time.Sleep(5 * time.Second)
		share := map[string]float64{}
		for _, table := range []string{"led", "stock"} {
			var mu sync.Mutex
			tries, failed := 0, 0
			var wg sync.WaitGroup
			for i := range 10 {
				conn := simtest.ConnectTo(t, c, i%5, "d")
				dice := rand.New(rand.NewPCG(uint64(i), 1))
				wg.Go(func() {
					for range 60 {
						a, b := 100+dice.IntN(100), 100+dice.IntN(100)
						err := pgx.BeginTxFunc(context.Background(), conn, pgx.TxOptions{IsoLevel: pgx.Serializable}, func(tx pgx.Tx) error {
							var n int
							if err := tx.QueryRow(context.Background(), fmt.Sprintf("SELECT n FROM %s WHERE id = %d", table, a)).Scan(&n); err != nil {
								return err
							}
							_, err := tx.Exec(context.Background(), fmt.Sprintf("UPDATE %s SET n = %d WHERE id = %d", table, n+1, b))
							return err
						})
						var e *pgconn.PgError
						if err != nil && (!errors.As(err, &e) || e.Code != "40001") {
							t.Error(err)
						}
						mu.Lock()
						if tries++; err != nil {
							failed++
						}
						mu.Unlock()
					}
				})
			}
			wg.Wait()
			share[table] = float64(failed) / float64(tries)
			t.Logf("%s: %d of %d failed", table, failed, tries)
		}
		if share["stock"] > 1.5*share["led"]+0.01 { // six of 600: both are few
			t.Errorf("%.3f of the transactions without leaseholders failed, %.3f of those with", share["stock"], share["led"])
		}
	})
}
