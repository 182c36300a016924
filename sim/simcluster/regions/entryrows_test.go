package regions_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
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

// TestRowsComeWithEntries: what a gateway reads by unique keys of rows that are homed everywhere, where rows come with their entries, is what a scan of the table finds in
// the same transaction: for primary keys of many types, rows of all sizes, lists of keys, and rows that the transaction itself has changed, moved or removed.
func TestRowsComeWithEntries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
		defer cancel()
		c := simtest.ThreeContinents(t)
		simtest.Exec(t, simtest.Connect(t, c, 0), `CREATE DATABASE movr PRIMARY REGION "us-east1" REGIONS "us-west1", "europe-west1"`)
		admin := simtest.ConnectTo(t, c, 0, "movr")
		regions := []string{"us-east1", "us-west1", "europe-west1"}
		shapes := []struct{ pk, key string }{
			{"a int PRIMARY KEY", "u"}, {"a int, b text, PRIMARY KEY (b, a DESC)", "u DESC"}, {"a int, b uuid, PRIMARY KEY (b)", "u"},
			{"a int, b date, c bool, PRIMARY KEY (a, b, c)", "u, c"}, {"a int, b numeric, PRIMARY KEY (b)", "u"}, {"a int, b text, PRIMARY KEY (a DESC, b)", "b, u"},
		}
		const rows = 60
		for i, s := range shapes {
			simtest.Exec(t, admin, fmt.Sprintf("CREATE TABLE t%d (%s, u int, name text) LOCALITY REGIONAL BY ROW", i, s.pk))
			simtest.Exec(t, admin, fmt.Sprintf("CREATE UNIQUE INDEX ON t%d (%s)", i, s.key))
			var cols, vals string
			for _, col := range []struct{ name, value string }{{"b text", "'k' || g"}, {"b uuid", "gen_random_uuid()"}, {"b date", "'2026-01-01'::date + g"}, {"b numeric", "g + 0.50"}} {
				if strings.Contains(s.pk, col.name) {
					cols, vals = cols+", b", vals+", "+col.value
				}
			}
			if strings.Contains(s.pk, "c bool") {
				cols, vals = cols+", c", vals+", g % 2 = 0"
			}
			simtest.Exec(t, admin, fmt.Sprintf(`INSERT INTO t%d (a, u, name, crdb_region%s) SELECT g, g, repeat('x', (g * g * 37) %% 3000), (ARRAY['us-east1', 'us-west1', 'europe-west1'])[g %% 3 + 1]::crdb_internal_region%s
				FROM generate_series(1, %d) g`, i, cols, vals, rows))
		}
		// Rows that are too large together for one answer.
		simtest.Exec(t, admin, "UPDATE t0 SET name = repeat('y', 700000) WHERE a <= 45 AND crdb_region = 'europe-west1'")
		for i := range shapes {
			simtest.Homed(t, c, admin, fmt.Sprintf("t%d", i), 3, 2)
		}
		time.Sleep(10 * time.Second)
		conn, err := c.Connect(ctx, 0, "movr")
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(ctx)
		before := followed(c)
		rng := rand.New(rand.NewPCG(11, 0))
		query := func(tx pgx.Tx, sql string) string {
			list, err := tx.Query(ctx, sql)
			if err != nil {
				t.Fatalf("%s: %v", sql, err)
			}
			got, err := pgx.CollectRows(list, pgx.RowTo[string])
			if err != nil {
				t.Fatalf("%s: %v", sql, err)
			}
			return fmt.Sprint(got)
		}
		for k := range 60 {
			i := rng.IntN(len(shapes))
			table, more := fmt.Sprintf("t%d", i), ""
			switch shapes[i].key {
			case "u, c":
				more = " AND c IN (true, false)"
			case "b, u":
				more = fmt.Sprintf(" AND b IN ('k%d', 'k%d', 'k%d')", 1+rng.IntN(rows), 1+rng.IntN(rows), 1+rng.IntN(rows))
			}
			if _, err := conn.Exec(ctx, "SET default_transaction_isolation TO '"+[]string{"serializable", "repeatable read", "read committed"}[rng.IntN(3)]+"'"); err != nil {
				t.Fatal(err)
			}
			tx, err := conn.Begin(ctx)
			if err != nil {
				t.Fatal(err)
			}
			for range rng.IntN(3) {
				n := 1 + rng.IntN(rows)
				switch rng.IntN(4) {
				case 0:
					query(tx, fmt.Sprintf("UPDATE %s SET name = 'n%d' WHERE a = %d RETURNING a::text", table, k, n))
				case 1:
					query(tx, fmt.Sprintf("UPDATE %s SET crdb_region = '%s' WHERE a = %d RETURNING a::text", table, regions[rng.IntN(3)], n))
				case 2:
					query(tx, fmt.Sprintf("UPDATE %s SET u = u + 1000 WHERE a = %d RETURNING a::text", table, n))
				default:
					query(tx, fmt.Sprintf("DELETE FROM %s WHERE a = %d RETURNING a::text", table, n))
				}
			}
			for range 3 {
				var list []string
				for range 1 + rng.IntN(3)*rng.IntN(25) {
					list = append(list, fmt.Sprint(1+rng.IntN(rows+2)))
				}
				where := fmt.Sprintf("u IN (%s)%s", strings.Join(list, ", "), more)
				what := "a::text || ' ' || u || ' ' || md5(name) || ' ' || crdb_region::text AS x"
				lock := []string{"", "", " FOR UPDATE", " FOR SHARE"}[rng.IntN(4)]
				got := query(tx, fmt.Sprintf("SELECT %s FROM %s WHERE %s ORDER BY x%s", what, table, where, lock))
				want := query(tx, fmt.Sprintf("SELECT %s FROM %s@%s_pkey WHERE %s ORDER BY x", what, table, table, where))
				if got != want {
					t.Fatalf("%s WHERE %s:\n%s\nand not\n%s", table, where, got, want)
				}
			}
			end := tx.Commit
			if rng.IntN(3) > 0 {
				end = tx.Rollback
			}
			if err := end(ctx); err != nil {
				t.Fatal(err)
			}
		}
		n := followed(c) - before
		t.Logf("%d rows came with their entries", n)
		if n < 100 {
			t.Errorf("%d rows came with their entries", n)
		}
	})
}

// followed is how many rows nodes have read for others with their entries.
func followed(c *simcluster.Cluster) (n int64) {
	for i := range c.Len() {
		n += c.Node(i).Router().Metrics().Followed.Load()
	}
	return n
}

// TestRowsAreLockedWithEntries: a statement that locks a row by a unique key takes one round to find and lock it, at each level of isolation. Of clients in all regions that
// add to a few rows, by UPDATE alone or after they have locked and read the row, none loses what another one has added, while rows move.
func TestRowsAreLockedWithEntries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
		defer cancel()
		c, conn := simtest.UsersByRow(t, "SET search_path = public", // see TestPredictedRounds
			"CREATE TABLE users (id int PRIMARY KEY, email int UNIQUE, n int NOT NULL DEFAULT 0) LOCALITY REGIONAL BY ROW",
			"INSERT INTO users (id, email, crdb_region) VALUES (1, 101, 'us-east1'), (2, 102, 'us-west1'), (3, 103, 'europe-west1'), (4, 104, 'us-west1')")
		time.Sleep(10 * time.Second)
		names := sim.ThreeRegions().Names
		west, europe := sim.ThreeRegions().RTT(names[0], names[1]), sim.ThreeRegions().RTT(names[0], names[2])
		for _, level := range []string{"serializable", "repeatable read", "read committed"} {
			simtest.Exec(t, conn, "SET default_transaction_isolation TO '"+level+"'")
			for _, x := range []struct {
				sql               string
				predicted, actual string
				want              time.Duration
			}{
				{"UPDATE users SET n = 0 WHERE email = 101", "0 to 2", "0", 0},
				{"UPDATE users SET n = 0 WHERE email = 102", "0 to 2", "2", 2 * west},
				{"UPDATE users SET n = 0 WHERE email = 103", "0 to 2", "2", 2 * europe},
				{"DELETE FROM users WHERE email = 102 AND n > 0", "0 to 2", "1", west},
			} {
				for range 3 {
					simtest.Exec(t, conn, x.sql)
					time.Sleep(time.Second)
				}
				explained := simtest.Plain(t, conn, "EXPLAIN "+x.sql)
				lines := simtest.Plain(t, conn, "EXPLAIN ANALYZE "+x.sql)
				predicted, actual := simtest.Footer(t, explained, "wide-area rounds"), simtest.Footer(t, lines, "wide-area rounds that took place")
				if predicted != x.predicted || actual != x.actual {
					t.Errorf("%s at %s: predicted %s rounds, %s took place; want %s, %s\n%s", x.sql, level, predicted, actual, x.predicted, x.actual, strings.Join(lines, "\n"))
				}
				simtest.RoundTrips(t, level+": "+x.sql, x.want, func() { simtest.Exec(t, conn, x.sql) })
			}
			for _, x := range []struct {
				sql  string
				want time.Duration
			}{
				{"SELECT n FROM users WHERE email = 102 FOR UPDATE", west}, {"SELECT n FROM users WHERE email = 103 FOR SHARE", europe},
				{"SELECT n FROM users WHERE email IN (102, 104) FOR UPDATE", 2 * west}, // which row would be the anchor of the locks is not known
			} {
				tx, err := conn.Begin(ctx)
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Second)
				begun := time.Now()
				list, err := tx.Query(ctx, x.sql)
				if err == nil {
					_, err = pgx.CollectRows(list, pgx.RowTo[int64])
				}
				if took := time.Since(begun); err != nil || took < x.want-3*time.Millisecond || took > x.want+x.want/20+3*time.Millisecond {
					t.Errorf("%s at %s took %v, want %v: %v", x.sql, level, took, x.want, err)
				}
				if x.want == west { // the lock is there
					other := simtest.ConnectTo(t, c, 3, "movr")
					if _, err := other.Exec(ctx, "SELECT n FROM users WHERE id = 2 FOR UPDATE NOWAIT"); err == nil || !strings.Contains(err.Error(), "55P03") {
						t.Errorf("the row is not locked: %v", err)
					}
				}
				if err := tx.Commit(ctx); err != nil {
					t.Error(err)
				}
				time.Sleep(time.Second)
			}
		}
		before := followed(c)
		var added, moved atomic.Int64
		atAllLevels(ctx, t, c, 3, func(i int, level string, conn *pgx.Conn, rng *rand.Rand) {
			for range 25 {
				email := 101 + rng.IntN(4)
				var err error
				switch rng.IntN(6) {
				case 0:
					if _, err = conn.Exec(ctx, fmt.Sprintf("UPDATE users SET crdb_region = '%s' WHERE email = %d", names[rng.IntN(3)], email)); err == nil {
						moved.Add(1)
					}
				case 1, 2:
					if _, err = conn.Exec(ctx, fmt.Sprintf("UPDATE users SET n = n + 1 WHERE email = %d", email)); err == nil {
						added.Add(1)
					}
				default:
					lock := []string{"FOR UPDATE", "FOR NO KEY UPDATE", "FOR SHARE"}[rng.IntN(3)]
					err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
						var n int
						if err := tx.QueryRow(ctx, fmt.Sprintf("SELECT n FROM users WHERE email = %d %s", email, lock)).Scan(&n); err != nil {
							return err
						}
						time.Sleep(time.Duration(rng.IntN(100)) * time.Millisecond)
						_, err := tx.Exec(ctx, fmt.Sprintf("UPDATE users SET n = %d WHERE email = %d", n+1, email))
						return err
					})
					if err == nil {
						added.Add(1)
					}
				}
				if pg := (*pgconn.PgError)(nil); err != nil && !(errors.As(err, &pg) && (pg.Code == "40001" || pg.Code == "40P01")) {
					t.Errorf("at %s: %v", level, err)
				}
			}
		})
		var rows, sum int64
		if err := conn.QueryRow(ctx, "SELECT count(*), sum(n) FROM users").Scan(&rows, &sum); err != nil || rows != 4 || sum != added.Load() {
			t.Errorf("%d rows, %d of %d additions, %v", rows, sum, added.Load(), err)
		}
		came := followed(c) - before
		t.Logf("%d additions, %d moves, %d rows came with their entries", added.Load(), moved.Load(), came)
		if added.Load() < 50 || moved.Load() < 10 || came < 20 {
			t.Error("that is too few")
		}
	})
}
