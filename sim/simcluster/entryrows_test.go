package simcluster_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"

	"meridian/sim/simcluster"
)

// TestRowsComeWithEntries: what a gateway reads by unique keys of rows that are homed everywhere, where rows come with their entries, is what a scan of the table finds in
// the same transaction: for primary keys of many types, rows of all sizes, lists of keys, and rows that the transaction itself has changed, moved or removed.
func TestRowsComeWithEntries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
		defer cancel()
		c := threeContinents(t)
		exec(t, connect(t, c, 0), `CREATE DATABASE movr PRIMARY REGION "us-east1" REGIONS "us-west1", "europe-west1"`)
		admin := connectTo(t, c, 0, "movr")
		regions := []string{"us-east1", "us-west1", "europe-west1"}
		shapes := []struct{ pk, key string }{
			{"a int PRIMARY KEY", "u"}, {"a int, b text, PRIMARY KEY (b, a DESC)", "u DESC"}, {"a int, b uuid, PRIMARY KEY (b)", "u"},
			{"a int, b date, c bool, PRIMARY KEY (a, b, c)", "u, c"}, {"a int, b numeric, PRIMARY KEY (b)", "u"}, {"a int, b text, PRIMARY KEY (a DESC, b)", "b, u"},
		}
		const rows = 60
		for i, s := range shapes {
			exec(t, admin, fmt.Sprintf("CREATE TABLE t%d (%s, u int, name text) LOCALITY REGIONAL BY ROW", i, s.pk))
			exec(t, admin, fmt.Sprintf("CREATE UNIQUE INDEX ON t%d (%s)", i, s.key))
			var cols, vals string
			for _, col := range []struct{ name, value string }{{"b text", "'k' || g"}, {"b uuid", "gen_random_uuid()"}, {"b date", "'2026-01-01'::date + g"}, {"b numeric", "g + 0.50"}} {
				if strings.Contains(s.pk, col.name) {
					cols, vals = cols+", b", vals+", "+col.value
				}
			}
			if strings.Contains(s.pk, "c bool") {
				cols, vals = cols+", c", vals+", g % 2 = 0"
			}
			exec(t, admin, fmt.Sprintf(`INSERT INTO t%d (a, u, name, crdb_region%s) SELECT g, g, repeat('x', (g * g * 37) %% 3000), (ARRAY['us-east1', 'us-west1', 'europe-west1'])[g %% 3 + 1]::crdb_internal_region%s
				FROM generate_series(1, %d) g`, i, cols, vals, rows))
		}
		// Rows that are too large together for one answer.
		exec(t, admin, "UPDATE t0 SET name = repeat('y', 700000) WHERE a <= 45 AND crdb_region = 'europe-west1'")
		for i := range shapes {
			homed(t, c, admin, fmt.Sprintf("t%d", i), 3, 2)
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
				got := query(tx, fmt.Sprintf("SELECT %s FROM %s WHERE %s ORDER BY x", what, table, where))
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
