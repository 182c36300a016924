package fastpaxos_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"meridian/sim/simcluster/simtest"
)

// TestReadersDoNotFail: read-only transactions above READ COMMITTED that scan a table without leaseholders three times, and another one, next to writers, do not fail, and read the same each time.
func TestReadersDoNotFail(t *testing.T) {
	t.Parallel()
	for _, level := range []string{"REPEATABLE READ", "SERIALIZABLE"} {
		t.Run(level, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c, _ := simtest.FiveAcceptors(t)
				simtest.Stocked(t, c, 100)
				admin := simtest.ConnectTo(t, c, 0, "d")
				simtest.Exec(t, admin, "CREATE TABLE other (id int PRIMARY KEY, n int) WITH (commit_protocol = 'fast_paxos')")
				simtest.Exec(t, admin, "INSERT INTO stock SELECT g, 5, 'x' FROM generate_series(100, 198) AS g")
				simtest.Exec(t, admin, "INSERT INTO other SELECT g, 5 FROM generate_series(100, 198) AS g")
				time.Sleep(5 * time.Second)
				done := make(chan struct{})
				var wg sync.WaitGroup
				var writes atomic.Int64
				for i := range c.Len() { // twenty writes a second, together
					conn := simtest.ConnectTo(t, c, i, "d")
					wg.Go(func() {
						for n := 0; ; n++ {
							select {
							case <-done:
								return
							case <-time.After(200 * time.Millisecond):
							}
							table := []string{"stock", "other"}[n%2]
							if _, err := conn.Exec(context.Background(), fmt.Sprintf("UPDATE %s SET n = n + 1 WHERE id = %d", table, 100+(37*n+11*i)%99)); err == nil {
								writes.Add(1)
							}
						}
					})
				}
				time.Sleep(2 * time.Second)
				var tries, failed atomic.Int64
				var readers sync.WaitGroup
				for i := range c.Len() {
					conn := simtest.ConnectTo(t, c, i, "d")
					readers.Go(func() {
						for range 30 {
							tries.Add(1)
							err := pgx.BeginTxFunc(context.Background(), conn, pgx.TxOptions{IsoLevel: map[string]pgx.TxIsoLevel{"REPEATABLE READ": pgx.RepeatableRead, "SERIALIZABLE": pgx.Serializable}[level], AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
								sums := make([]int64, 4)
								for n, table := range []string{"stock", "stock", "stock", "other"} {
									if err := tx.QueryRow(context.Background(), "SELECT sum(n) FROM "+table).Scan(&sums[n]); err != nil {
										return err
									}
									time.Sleep(100 * time.Millisecond)
								}
								if sums[0] != sums[1] || sums[0] != sums[2] {
									t.Errorf("node %d: three sums of one transaction are %v", i, sums[:3])
								}
								return nil
							})
							var e *pgconn.PgError
							switch {
							case errors.As(err, &e) && e.Code == "40001":
								if failed.Add(1) < 4 {
									t.Logf("node %d: %s: %s", i, e.Message, e.Detail)
								}
							case err != nil:
								t.Errorf("node %d: %v", i, err)
							}
							time.Sleep(300 * time.Millisecond)
						}
					})
				}
				readers.Wait()
				close(done)
				wg.Wait()
				t.Logf("%d of %d failed, %d writes", failed.Load(), tries.Load(), writes.Load())
				if failed.Load() > 0 {
					t.Errorf("%d of %d failed", failed.Load(), tries.Load())
				}
			})
		})
	}
}

// TestSnapshotIsProtected: a transaction that reads at one timestamp reads at it for as long as it takes, next to writers: longer than earlier states are kept for others.
func TestSnapshotIsProtected(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, _ := simtest.FiveAcceptors(t)
		simtest.Stocked(t, c, 100)
		admin := simtest.ConnectTo(t, c, 0, "d")
		simtest.Exec(t, admin, "INSERT INTO stock SELECT g, 5, 'x' FROM generate_series(100, 119) AS g")
		simtest.Exec(t, admin, "CREATE TABLE other (id int PRIMARY KEY, n int) WITH (commit_protocol = 'fast_paxos')")
		simtest.Exec(t, admin, "INSERT INTO other SELECT g, 5 FROM generate_series(100, 119) AS g")
		time.Sleep(5 * time.Second)
		done := make(chan struct{})
		var wg sync.WaitGroup
		for i := range 3 {
			conn := simtest.ConnectTo(t, c, i, "d")
			wg.Go(func() {
				for n := 0; ; n++ {
					select {
					case <-done:
						return
					case <-time.After(300 * time.Millisecond):
					}
					_, _ = conn.Exec(context.Background(), fmt.Sprintf("UPDATE stock SET n = n + 1, name = '%d' WHERE id = %d", n, 100+(7*n+i)%20))
					_, _ = conn.Exec(context.Background(), fmt.Sprintf("UPDATE other SET n = n + 1 WHERE id = %d", 100+(7*n+i)%20))
				}
			})
		}
		time.Sleep(2 * time.Second)
		dump := simtest.ConnectTo(t, c, 3, "d")
		simtest.Exec(t, dump, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
		sum := simtest.Ask[int64](t, dump, "SELECT sum(n) FROM stock")
		names := simtest.Ask[string](t, dump, "SELECT string_agg(name, ',' ORDER BY id) FROM stock")
		for n := range 4 {
			time.Sleep(30 * time.Second)
			var got int64
			if err := dump.QueryRow(context.Background(), "SELECT sum(n) FROM stock").Scan(&got); err != nil || got != sum {
				t.Fatalf("after %d s: %d, %v, want %d", 30*(n+1), got, err, sum)
			}
		}
		if got := simtest.Ask[string](t, dump, "SELECT string_agg(name, ',' ORDER BY id) FROM stock"); got != names {
			t.Errorf("%s, want %s", got, names)
		}
		simtest.Exec(t, dump, "SELECT sum(n) FROM other") // which it has not read before
		simtest.Exec(t, dump, "COMMIT")
		close(done)
		wg.Wait()
	})
}
