package regions_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"meridian/sim/simcluster/simtest"
)

// TestLocksOfRowsElsewhere: a read that locks a row of another region returns when that region has answered, and locks the row and nothing else: others can insert a key
// that was looked for and not found.
func TestLocksOfRowsElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		c := simtest.ThreeContinents(t)
		simtest.Exec(t, simtest.Connect(t, c, 0), `CREATE DATABASE movr PRIMARY REGION "us-east1" REGIONS "us-west1", "europe-west1"`)
		conn, other := simtest.ConnectTo(t, c, 0, "movr"), simtest.ConnectTo(t, c, 3, "movr")
		simtest.Exec(t, conn, `CREATE TABLE users (id int PRIMARY KEY, email int UNIQUE, n int DEFAULT 0) LOCALITY REGIONAL BY ROW`)
		simtest.Exec(t, conn, `INSERT INTO users (id, email, crdb_region) VALUES (1, 1, 'us-east1'), (2, 2, 'us-west1'), (3, 3, 'europe-west1')`)
		simtest.Exec(t, other, "SET lock_timeout = '2s'")
		simtest.Homed(t, c, conn, "users", 3, 2)
		time.Sleep(10 * time.Second)
		for _, level := range []string{"serializable", "repeatable read", "read committed"} {
			for _, conn := range []*pgx.Conn{conn, other} {
				simtest.Exec(t, conn, "SET default_transaction_isolation TO '"+level+"'")
			}
			for _, x := range []struct {
				sql         string
				least, most time.Duration
				locked      []int
			}{
				{"SELECT * FROM users WHERE id = 1 FOR UPDATE", 0, 3 * time.Millisecond, []int{1}},
				{"SELECT * FROM users WHERE id = 2 FOR UPDATE", 63 * time.Millisecond, 70 * time.Millisecond, []int{2}},
				{"SELECT * FROM users WHERE id = 3 FOR SHARE", 87 * time.Millisecond, 95 * time.Millisecond, []int{3}},
				{"SELECT * FROM users WHERE id IN (1, 2) FOR NO KEY UPDATE", 63 * time.Millisecond, 70 * time.Millisecond, []int{1, 2}},
				{"SELECT * FROM users WHERE id = 99 FOR UPDATE", 87 * time.Millisecond, 95 * time.Millisecond, nil},
			} {
				var took time.Duration
				for range 2 { // plans and caches are warm the second time
					tx, err := conn.Begin(ctx)
					if err != nil {
						t.Fatal(err)
					}
					begun := time.Now()
					if _, err := tx.Exec(ctx, x.sql); err != nil {
						t.Fatalf("%s: %v", x.sql, err)
					}
					took = time.Since(begun)
					for id := 1; id <= 3; id++ {
						_, err := other.Exec(ctx, fmt.Sprintf("SELECT 1 FROM users WHERE id = %d FOR UPDATE NOWAIT", id))
						var pg *pgconn.PgError
						locked := errors.As(err, &pg) && pg.Code == "55P03"
						if locked != slices.Contains(x.locked, id) || err != nil && !locked {
							t.Errorf("%s at %s: row %d is locked: %v (%v)", x.sql, level, id, locked, err)
						}
					}
					for _, r := range []string{"us-east1", "us-west1", "europe-west1"} { // nothing keeps others from a key that was not found
						begun := time.Now()
						simtest.Exec(t, other, fmt.Sprintf("INSERT INTO users (id, email, crdb_region) VALUES (99, 99, '%s')", r))
						simtest.Exec(t, other, "DELETE FROM users WHERE id = 99")
						if took := time.Since(begun); took > time.Second {
							t.Errorf("%s at %s: an insert in %s took %v", x.sql, level, r, took)
						}
					}
					if err := tx.Rollback(ctx); err != nil {
						t.Fatal(err)
					}
					time.Sleep(time.Second)
				}
				t.Logf("%-16s %-60s %v", level, x.sql, took)
				if took < x.least || took > x.most {
					t.Errorf("%s at %s took %v, want %v to %v", x.sql, level, took, x.least, x.most)
				}
			}
		}
	})
}

// TestLocksOfMovingRows: clients everywhere lock rows, look at them and write them, while the rows move from region to region: no change is lost, at any level of isolation.
func TestLocksOfMovingRows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
		defer cancel()
		c := simtest.ThreeContinents(t)
		simtest.Exec(t, simtest.Connect(t, c, 0), `CREATE DATABASE movr PRIMARY REGION "us-east1" REGIONS "us-west1", "europe-west1"`)
		admin := simtest.ConnectTo(t, c, 0, "movr")
		simtest.Exec(t, admin, `CREATE TABLE users (id int PRIMARY KEY, email int UNIQUE, n int NOT NULL DEFAULT 0) LOCALITY REGIONAL BY ROW`)
		simtest.Exec(t, admin, `INSERT INTO users (id, email) SELECT g, g + 100 FROM generate_series(0, 2) g`)
		simtest.Homed(t, c, admin, "users", 3, 2)
		regions := []string{"us-east1", "us-west1", "europe-west1"}
		var done, moves atomic.Int64
		var clients sync.WaitGroup
		for i := range 9 {
			level := []string{"serializable", "repeatable read", "read committed"}[i/3]
			clients.Go(func() {
				rng := rand.New(rand.NewPCG(13, uint64(i)))
				conn, err := c.Connect(ctx, i, "movr")
				if err != nil {
					t.Error(err)
					return
				}
				defer conn.Close(ctx)
				simtest.Exec(t, conn, "SET default_transaction_isolation TO '"+level+"'")
				for range 15 {
					id := rng.IntN(3)
					if i%3 == 0 {
						if _, err := conn.Exec(ctx, fmt.Sprintf("UPDATE users SET crdb_region = '%s' WHERE id = %d", regions[rng.IntN(3)], id)); err == nil {
							moves.Add(1)
						}
						continue
					}
					where := []string{fmt.Sprintf("id = %d", id), fmt.Sprintf("email = %d", id+100), fmt.Sprintf("id IN (%d, 77)", id)}[rng.IntN(3)]
					err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
						rows, err := tx.Query(ctx, "SELECT n FROM users WHERE "+where+" FOR UPDATE")
						if err != nil {
							return err
						}
						list, err := pgx.CollectRows(rows, pgx.RowTo[int64])
						if err != nil {
							return err
						}
						if len(list) != 1 {
							t.Errorf("%s at %s: %d rows", where, level, len(list))
							return errors.New("not found")
						}
						time.Sleep(time.Duration(rng.IntN(100)) * time.Millisecond)
						if rng.IntN(4) == 0 {
							_, err = tx.Exec(ctx, fmt.Sprintf("UPDATE users SET crdb_region = '%s' WHERE %s", regions[rng.IntN(3)], where))
						}
						if err == nil {
							_, err = tx.Exec(ctx, fmt.Sprintf("UPDATE users SET n = %d WHERE %s", list[0]+1, where))
						}
						return err
					})
					var pg *pgconn.PgError
					switch {
					case err == nil:
						done.Add(1)
					case !errors.As(err, &pg) || pg.Code != "40001" && pg.Code != "40P01":
						t.Errorf("%s at %s: %v", where, level, err)
					}
				}
			})
		}
		clients.Wait()
		var sum, rows int64
		if err := admin.QueryRow(ctx, "SELECT sum(n), count(*) FROM users").Scan(&sum, &rows); err != nil {
			t.Fatal(err)
		}
		t.Logf("%d changes, %d moves", done.Load(), moves.Load())
		if sum != done.Load() || rows != 3 {
			t.Errorf("%d changes in %d rows; %d were acknowledged", sum, rows, done.Load())
		}
		if done.Load() < 40 || moves.Load() < 20 {
			t.Errorf("%d changes, %d moves", done.Load(), moves.Load())
		}
	})
}
