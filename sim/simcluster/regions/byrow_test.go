package regions_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"meridian/sim"
	"meridian/sim/simcluster"
	"meridian/sim/simcluster/simtest"
)

// fiveContinents is a cluster of three nodes, in three zones, in each of the paper's five regions.
func fiveContinents(t *testing.T) *simcluster.Cluster {
	t.Helper()
	return simcluster.Start(t, simcluster.Options{Regions: sim.FiveRegions(), NodesPerRegion: 3, Log: simtest.LogTo()})
}

// atAllLevels runs f for a session at each of nine nodes in three regions, in each region once at each level of isolation, and returns when all have ended.
func atAllLevels(ctx context.Context, t *testing.T, c *simcluster.Cluster, seed uint64, f func(i int, level string, conn *pgx.Conn, rng *rand.Rand)) {
	var clients sync.WaitGroup
	for i := range 9 {
		level := []string{"serializable", "repeatable read", "read committed"}[i%3]
		clients.Go(func() {
			conn, err := c.Connect(ctx, i, "movr")
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close(ctx)
			simtest.Exec(t, conn, "SET default_transaction_isolation TO '"+level+"'")
			f(i, level, conn, rand.New(rand.NewPCG(seed, uint64(i))))
		})
	}
	clients.Wait()
}

// TestRegionalByRow counts the wide-area rounds of statements on rows with a home.
func TestRegionalByRow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		c := fiveContinents(t)
		names := sim.FiveRegions().Names
		root := simtest.Connect(t, c, 0)
		simtest.Exec(t, root, fmt.Sprintf(`CREATE DATABASE movr PRIMARY REGION "%s" REGIONS "%s", "%s", "%s", "%s"`, names[0], names[1], names[2], names[3], names[4]))
		conn := simtest.ConnectTo(t, c, 0, "movr")
		simtest.Exec(t, conn, `CREATE TABLE users (id int PRIMARY KEY, email text UNIQUE, phone text UNIQUE, name text) LOCALITY REGIONAL BY ROW`)
		for i, r := range names {
			simtest.Exec(t, conn, fmt.Sprintf(`INSERT INTO users (id, email, phone, name, crdb_region) VALUES (%d, 'e%d', 'p%d', 'n', '%s')`, i, i, i, r))
		}
		simtest.Homed(t, c, conn, "users", 5, 3)
		simtest.Exec(t, conn, `CREATE TABLE rides (id int PRIMARY KEY, rider int REFERENCES users, guest int REFERENCES users) LOCALITY REGIONAL BY ROW`)
		simtest.Homed(t, c, conn, "rides", 5, 1)
		simtest.LeasesRest(t, c)
		for i, r := range names {
			local := simtest.ConnectTo(t, c, 3*i, "movr")
			farthest := time.Duration(0)
			for j := range names {
				farthest = max(farthest, sim.FiveRegions().RTT(names[i], names[j]))
			}
			simtest.RoundTrips(t, r+": a read at home by primary key", 0, func() { simtest.Exec(t, local, fmt.Sprintf("SELECT * FROM users WHERE id = %d", i)) })
			simtest.RoundTrips(t, r+": a read at home by a unique column", 0, func() { simtest.Exec(t, local, fmt.Sprintf("SELECT * FROM users WHERE email = 'e%d'", i)) })
			simtest.RoundTrips(t, r+": a write at home", 0, func() { simtest.Exec(t, local, fmt.Sprintf("UPDATE users SET name = 'x' WHERE id = %d", i)) })
			simtest.RoundTrips(t, r+": a write at home by a unique column", 0, func() { simtest.Exec(t, local, fmt.Sprintf("UPDATE users SET name = 'x' WHERE email = 'e%d'", i)) })
			// All regions are asked, and the answer of the one that has the row is enough (txn.TX9).
			away := sim.FiveRegions().RTT(r, names[(i+1)%5])
			simtest.RoundTrips(t, r+": a read elsewhere by primary key", away, func() { simtest.Exec(t, local, fmt.Sprintf("SELECT * FROM users WHERE id = %d", (i+1)%5)) })
			simtest.RoundTrips(t, r+": a read elsewhere by a unique column", away, func() { simtest.Exec(t, local, fmt.Sprintf("SELECT email FROM users WHERE email = 'e%d'", (i+1)%5)) })
			simtest.RoundTrips(t, r+": a list, of which all but one are at home", away, func() {
				simtest.Exec(t, local, fmt.Sprintf("SELECT * FROM users WHERE id IN (%d, %d)", i, (i+1)%5))
			})
			simtest.RoundTrips(t, r+": a lookup join", away, func() {
				simtest.Exec(t, local, fmt.Sprintf("SELECT u.* FROM (VALUES (%d), (%d)) v (id) JOIN users u ON u.id = v.id", i, (i+1)%5))
			})
			simtest.RoundTrips(t, r+": a read of a row that is not there", farthest, func() { simtest.Exec(t, local, "SELECT * FROM users WHERE id = 77") })
			n := 100 + 10*i
			simtest.RoundTrips(t, r+": an insert with three keys", farthest, func() {
				n++
				simtest.Exec(t, local, fmt.Sprintf("INSERT INTO users (id, email, phone, name) VALUES (%d, 'e%d', 'p%d', 'n')", n, n, n))
			})
			user := n
			simtest.RoundTrips(t, r+": an insert that refers to rows elsewhere", farthest, func() {
				n++
				simtest.Exec(t, local, fmt.Sprintf("INSERT INTO rides (id, rider, guest) VALUES (%d, %d, %d)", n, (i+1)%5, (i+2)%5))
			})
			if _, err := local.Exec(ctx, fmt.Sprintf("INSERT INTO rides (id, rider) VALUES (%d, 77)", n+1)); err == nil || !strings.Contains(err.Error(), "23503") {
				t.Errorf("a rider who does not exist: %v", err)
			}
			if _, err := conn.Exec(ctx, fmt.Sprintf("INSERT INTO rides (id, rider) VALUES (%d, %d)", n, (i+1)%5)); err == nil || !strings.Contains(err.Error(), "23505") {
				t.Errorf("a key that is taken: %v", err)
			}
			var home string
			if err := local.QueryRow(ctx, "SELECT crdb_region::text FROM users WHERE id = $1", user).Scan(&home); err != nil || home != r {
				t.Errorf("the new row is homed in %s, not in %s: %v", home, r, err)
			}
		}
	})
}

// TestMovingRowsAreFound: rows move from region to region, and whoever looks for them by a unique key finds each of them once: at all levels of isolation,
// in single statements and in transactions that write, where the answers of some regions are not waited for (txn.TX9).
func TestMovingRowsAreFound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
		defer cancel()
		c, _ := simtest.UsersByRow(t, `CREATE TABLE users (id int PRIMARY KEY, email int UNIQUE, n int NOT NULL DEFAULT 0) LOCALITY REGIONAL BY ROW`,
			`CREATE TABLE log (id int PRIMARY KEY, found int)`,
			`INSERT INTO users (id, email) SELECT g, g + 100 FROM generate_series(0, 4) g`)
		regions := sim.ThreeRegions().Names
		var reads, moves atomic.Int64
		atAllLevels(ctx, t, c, 7, func(i int, level string, conn *pgx.Conn, rng *rand.Rand) {
			for k := range 20 {
				if i%4 == 0 { // one in each region, at each level
					if _, err := conn.Exec(ctx, fmt.Sprintf("UPDATE users SET crdb_region = '%s' WHERE id = %d", regions[rng.IntN(3)], rng.IntN(5))); err == nil {
						moves.Add(1)
					}
					continue
				}
				id, other := rng.IntN(5), rng.IntN(5)
				query, want := fmt.Sprintf("SELECT id FROM users WHERE id = %d", id), 1
				switch rng.IntN(5) {
				case 3:
					query, want = fmt.Sprintf("SELECT id + n FROM users WHERE email IN (%d, %d, 99)", 100+id, 100+other), 2
					if id == other {
						want = 1
					}
				case 0:
					query = fmt.Sprintf("SELECT id + n FROM users WHERE email = %d", 100+id)
				case 1:
					query, want = fmt.Sprintf("SELECT id FROM users WHERE id IN (%d, %d, 99)", id, other), 2
					if id == other {
						want = 1
					}
				case 2:
					query, want = fmt.Sprintf("SELECT u.n FROM (VALUES (%d), (%d)) v (id) JOIN users u ON u.id = v.id", id, other), 2
				}
				found, wrote := 0, rng.IntN(2) == 0
				err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
					rows, err := tx.Query(ctx, query)
					if err != nil {
						return err
					}
					list, err := pgx.CollectRows(rows, pgx.RowTo[int64])
					if err != nil {
						return err
					}
					if found = len(list); wrote {
						time.Sleep(time.Duration(rng.IntN(200)) * time.Millisecond)
						_, err = tx.Exec(ctx, "INSERT INTO log VALUES ($1, $2)", 100*i+k, found)
					}
					return err
				})
				var pg *pgconn.PgError
				switch {
				case err == nil && found != want:
					t.Errorf("%s at %s: %d rows, not %d", query, level, found, want)
				case err == nil:
					reads.Add(1)
				case !errors.As(err, &pg) || pg.Code != "40001":
					t.Errorf("%s at %s: %v", query, level, err)
				}
			}
		})
		t.Logf("%d moves, %d reads", moves.Load(), reads.Load())
		if reads.Load() < 60 || moves.Load() < 30 {
			t.Errorf("%d moves, %d reads", moves.Load(), reads.Load())
		}
	})
}

// TestUniqueAcrossRegions: clients in all regions, at all levels of isolation, insert rows with keys of a few, upsert them, change them and move them to
// other regions, in statements and in transactions, while leases move. No two rows ever have one key (exec.X7).
func TestUniqueAcrossRegions(t *testing.T) {
	t.Parallel()
	for seed := range uint64(2) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { uniqueAcrossRegions(t, seed) })
		})
	}
}

func uniqueAcrossRegions(t *testing.T, seed uint64) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	c, admin := simtest.UsersByRow(t, `CREATE TABLE users (id int PRIMARY KEY, email int UNIQUE, n int NOT NULL DEFAULT 0) LOCALITY REGIONAL BY ROW`)
	regions := sim.ThreeRegions().Names
	var mu sync.Mutex
	outcomes := map[string]int{}
	// If clients stand still, these were their statements.
	running := map[int][]string{}
	time.AfterFunc(90*time.Second, func() {
		mu.Lock()
		defer mu.Unlock()
		for i, r := range running {
			t.Log(i, "is running", r)
		}
		t.Log(simtest.PlacesOf(t, c, admin, "users"))
	})
	atAllLevels(ctx, t, c, seed, func(i int, level string, conn *pgx.Conn, rng *rand.Rand) {
		statement := func() (q string) {
			defer func() { mu.Lock(); running[i] = append(running[i], q); mu.Unlock() }()
			id, email, region := rng.IntN(8), rng.IntN(8), regions[rng.IntN(3)]
			return []string{
				fmt.Sprintf("INSERT INTO users (id, email) VALUES (%d, %d)", id, email),
				fmt.Sprintf("INSERT INTO users (id, email, crdb_region) VALUES (%d, %d, '%s')", id, email, region),
				fmt.Sprintf("INSERT INTO users (id, email) VALUES (%d, %d) ON CONFLICT (id) DO UPDATE SET email = excluded.email", id, email),
				fmt.Sprintf("INSERT INTO users (id, email) VALUES (%d, %d) ON CONFLICT DO NOTHING", id, email),
				fmt.Sprintf("UPSERT INTO users (id, email) VALUES (%d, %d)", id, email),
				fmt.Sprintf("UPDATE users SET email = %d WHERE id = %d", email, id),
				fmt.Sprintf("UPDATE users SET id = %d WHERE email = %d", id, email),
				fmt.Sprintf("UPDATE users SET crdb_region = '%s', n = n + 1 WHERE id = %d", region, id),
				fmt.Sprintf("DELETE FROM users WHERE id = %d", id),
			}[rng.IntN(9)]
		}
		for range 12 {
			var err error
			mu.Lock()
			running[i] = []string{level}
			mu.Unlock()
			if rng.IntN(2) == 0 {
				_, err = conn.Exec(ctx, statement())
			} else {
				err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
					for range 2 {
						if _, err := tx.Exec(ctx, statement()); err != nil {
							return err
						}
					}
					return nil
				})
			}
			what := "ok"
			var pg *pgconn.PgError
			if errors.As(err, &pg) {
				what = pg.Code
				if pg.Code != "40001" && pg.Code != "40P01" && pg.Code != "23505" {
					t.Errorf("at %s: %v", level, err)
				}
			} else if err != nil {
				t.Errorf("at %s: %v", level, err)
			}
			mu.Lock()
			outcomes[level+" "+what]++
			mu.Unlock()
		}
	})
	for _, key := range []string{"id", "email"} {
		var twice int
		q := "SELECT count(*) FROM (SELECT " + key + " + 0 AS k FROM users) x GROUP BY k ORDER BY 1 DESC LIMIT 1"
		if err := admin.QueryRow(ctx, q).Scan(&twice); err != nil {
			t.Fatal(err)
		}
		if twice > 1 {
			t.Errorf("%d rows have one value of %s", twice, key)
		}
	}
	t.Log(outcomes)
}
