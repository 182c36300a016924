package regions_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"meridian/sim"
	"meridian/sim/simcluster/simtest"
)

// TestConstraintsInOneRound: at each level of isolation, the parents of a new row and its keys in other regions are looked for in one round, whatever the regions in which
// the parents are homed.
func TestConstraintsInOneRound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, conn := simtest.UsersByRow(t, "SET search_path = public", // see TestPredictedRounds
			"CREATE TABLE users (id int PRIMARY KEY, email text UNIQUE) LOCALITY REGIONAL BY ROW",
			`CREATE TABLE cities (id int PRIMARY KEY, name text) LOCALITY REGIONAL BY TABLE IN "us-west1"`,
			"CREATE TABLE rides (id int PRIMARY KEY, code text UNIQUE, rider int REFERENCES users, driver int REFERENCES users, city int REFERENCES cities) LOCALITY REGIONAL BY ROW",
			"CREATE TABLE trips (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), rider int REFERENCES users, city int REFERENCES cities) LOCALITY REGIONAL BY ROW",
			"INSERT INTO users (id, email, crdb_region) VALUES (1, 'a', 'us-east1'), (2, 'b', 'us-west1'), (3, 'c', 'europe-west1')",
			"INSERT INTO cities VALUES (1, 'here'), (2, 'there')")
		simtest.Homed(t, c, conn, "rides", 3, 2)
		simtest.Homed(t, c, conn, "trips", 3, 1)
		simtest.LeasesRest(t, c)
		names := sim.ThreeRegions().Names
		west, europe := sim.ThreeRegions().RTT(names[0], names[1]), sim.ThreeRegions().RTT(names[0], names[2])
		n := 0
		for _, level := range []string{"serializable", "repeatable read", "read committed"} {
			simtest.Exec(t, conn, "SET default_transaction_isolation TO '"+level+"'")
			for _, x := range []struct {
				sql               string
				want              time.Duration
				predicted, actual string
			}{
				{"INSERT INTO rides (id, code, rider) VALUES ($n, 'c$n', 1)", europe, "1", "1"},
				{"INSERT INTO rides (id, code, rider, driver) VALUES ($n, 'c$n', 2, 3)", europe, "1", "1"},
				{"INSERT INTO rides (id, code, rider, driver, city) VALUES ($n, 'c$n', 2, 3, 1)", europe, "1", "1"},
				{"INSERT INTO rides (id, code, rider, city, crdb_region) VALUES ($n, 'c$n', 1, 1, 'us-west1')", europe + west, "2", "2"},
				{"INSERT INTO trips (rider) VALUES (1)", 0, "0 to 1", "0"},
				{"INSERT INTO trips (rider) VALUES (2)", west, "0 to 1", "1"}, // Europe need not answer
				{"INSERT INTO trips (rider) VALUES (3)", europe, "0 to 1", "1"},
				{"INSERT INTO trips (rider, city) VALUES (2, 2)", west, "1", "1"},
				{"INSERT INTO trips (rider, crdb_region) VALUES (2, 'us-west1')", 2 * west, "1 to 2", "2"},
				{"INSERT INTO trips (rider, crdb_region) VALUES (1, 'us-west1')", west, "1 to 2", "1"},
			} {
				sql := func() string {
					n++
					return numbered(x.sql, n)
				}
				for range 3 { // finds out where ranges are
					simtest.Exec(t, conn, sql())
					time.Sleep(time.Second)
				}
				explained := simtest.Plain(t, conn, "EXPLAIN "+sql())
				time.Sleep(time.Second)
				lines := simtest.Plain(t, conn, "EXPLAIN ANALYZE "+sql())
				predicted, actual := simtest.Footer(t, explained, "wide-area rounds"), simtest.Footer(t, lines, "wide-area rounds that took place")
				if predicted != x.predicted || actual != x.actual {
					t.Errorf("%s at %s: predicted %s rounds, %s took place; want %s, %s\n%s", x.sql, level, predicted, actual, x.predicted, x.actual, strings.Join(lines, "\n"))
				}
				simtest.RoundTrips(t, level+": "+x.sql, x.want, func() { simtest.Exec(t, conn, sql()) })
			}
		}
	})
}

// numbered is a statement with a number for $n.
func numbered(sql string, n int) string { return strings.ReplaceAll(sql, "$n", strconv.Itoa(n)) }

// TestConstraintsHold: clients in all regions, at all levels of isolation, add children with a key of a few and parents of a few, change them, and remove and move
// parents. At no time is there a child without its parent, nor two with one key, and at the end all that was reported is there.
func TestConstraintsHold(t *testing.T) {
	t.Parallel()
	for seed := range uint64(2) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { constraintsHold(t, seed) })
		})
	}
}

func constraintsHold(t *testing.T, seed uint64) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	c, admin := simtest.UsersByRow(t, "CREATE TABLE users (id int PRIMARY KEY, email int UNIQUE) LOCALITY REGIONAL BY ROW",
		"CREATE TABLE rides (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), code int UNIQUE, rider int REFERENCES users, driver int REFERENCES users, INDEX (rider), INDEX (driver)) LOCALITY REGIONAL BY ROW",
		"INSERT INTO users (id, email) SELECT g, g FROM generate_series(0, 9) g")
	regions := sim.ThreeRegions().Names
	var mu sync.Mutex
	outcomes := map[string]int{}
	atAllLevels(ctx, t, c, seed, func(i int, level string, conn *pgx.Conn, rng *rand.Rand) {
		for range 40 {
			user, other, code, region := rng.IntN(10), rng.IntN(10), rng.IntN(60), regions[rng.IntN(3)]
			q := ""
			switch rng.IntN(8) {
			case 0:
				q = fmt.Sprintf("DELETE FROM users WHERE id = %d", user)
			case 1:
				q = fmt.Sprintf("INSERT INTO users (id, email, crdb_region) VALUES (%d, %d, '%s')", user, user, region)
			case 2:
				q = fmt.Sprintf("UPDATE users SET crdb_region = '%s' WHERE id = %d", region, user)
			case 3:
				q = fmt.Sprintf("DELETE FROM rides WHERE code IN (%d, %d)", code, code+1)
			case 4:
				q = fmt.Sprintf("UPDATE rides SET rider = %d, code = %d WHERE code = %d", user, code, rng.IntN(60))
			case 5:
				q = fmt.Sprintf("INSERT INTO rides (code, rider, driver, crdb_region) VALUES (%d, %d, %d, '%s')", code, user, other, region)
			default:
				q = fmt.Sprintf("INSERT INTO rides (code, rider, driver) VALUES (%d, %d, %d), (%d, %d, NULL)", code, user, other, code+60, other)
			}
			err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
				if rng.IntN(2) == 0 {
					if _, err := tx.Exec(ctx, "SELECT 1"); err != nil {
						return err
					}
				}
				_, err := tx.Exec(ctx, q)
				if rng.IntN(3) == 0 {
					time.Sleep(time.Duration(rng.IntN(200)) * time.Millisecond)
				}
				return err
			})
			outcome := "done"
			var pg *pgconn.PgError
			if errors.As(err, &pg) {
				outcome = pg.Code
			} else if err != nil {
				t.Errorf("at %s: %s: %v", level, q, err)
			}
			mu.Lock()
			outcomes[level+" "+outcome]++
			mu.Unlock()
			if i%3 == 0 && rng.IntN(4) == 0 { // serializable
				violations(ctx, t, conn)
			}
		}
	})
	violations(ctx, t, admin)
	t.Log(outcomes)
	for o := range outcomes {
		switch o[len(o)-5:] {
		case " done", "23503", "23505", "40001", "40P01":
		default:
			t.Errorf("outcome %s", o)
		}
	}
	for _, level := range []string{"serializable", "repeatable read", "read committed"} {
		if outcomes[level+" done"] < 30 {
			t.Errorf("few statements at %s succeeded", level)
		}
	}
}

// violations looks for children without parents and for keys that two rows have, in each index.
func violations(ctx context.Context, t *testing.T, conn *pgx.Conn) {
	t.Helper()
	for _, q := range []string{
		"SELECT count(*) FROM rides r LEFT JOIN users u ON u.id = r.rider WHERE r.rider IS NOT NULL AND u.id IS NULL",
		"SELECT count(*) FROM rides r LEFT JOIN users u ON u.id = r.driver WHERE r.driver IS NOT NULL AND u.id IS NULL",
		"SELECT count(*) - count(DISTINCT code) FROM rides", "SELECT count(*) - count(DISTINCT id) FROM users@users_email_key",
	} {
		var n int
		if err := conn.QueryRow(ctx, q).Scan(&n); err != nil {
			if pg := (*pgconn.PgError)(nil); errors.As(err, &pg) && pg.Code[:2] == "40" {
				continue
			}
			t.Errorf("%s: %v", q, err)
		} else if n != 0 {
			t.Errorf("%s: %d", q, n)
		}
	}
}

// TestUniqueInLargeStatement: a statement whose first rows have left the gateway's buffer does not take a key that one of these has in another region.
func TestUniqueInLargeStatement(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, conn := simtest.UsersByRow(t, "CREATE TABLE users (id int PRIMARY KEY, email int UNIQUE, name text) LOCALITY REGIONAL BY ROW")
		const rows = 400
		for _, level := range []string{"serializable", "read committed"} {
			simtest.Exec(t, conn, "SET default_transaction_isolation TO '"+level+"'")
			_, err := conn.Exec(context.Background(), fmt.Sprintf(`INSERT INTO users (id, email, name, crdb_region) SELECT g, g %% %d, repeat('x', 20000),
				CASE WHEN g = %d THEN 'europe-west1' ELSE 'us-east1' END::crdb_internal_region FROM generate_series(1, %d) g`, rows-1, rows, rows))
			var pg *pgconn.PgError
			if !errors.As(err, &pg) || pg.Code != "23505" {
				t.Errorf("at %s: %v", level, err)
			}
		}
	})
}
