package regions_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"

	"meridian/sim/simcluster/simtest"
)

// TestRegionsApart: a scan of all rows of a REGIONAL BY ROW table, and the first rows of an order that each region has by itself, take one round trip to the farthest region from each gateway, and
// return what the table has: of few rows and of more than the first pages, forwards and backwards, with filters, limits and offsets, and with rows that the transaction has written.
func TestRegionsApart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		c := simtest.ThreeContinents(t)
		simtest.Exec(t, simtest.Connect(t, c, 0), `CREATE DATABASE movr PRIMARY REGION "us-east1" REGIONS "us-west1", "europe-west1"`)
		root := simtest.ConnectTo(t, c, 0, "movr")
		const few, many = 120, 3000 // many rows are 6 MB, and a region's first page has 1 MB at most
		for _, x := range []struct {
			name        string
			rows, bytes int
		}{{"few", few, 10}, {"many", many, 2000}} {
			simtest.Exec(t, root, "CREATE TABLE "+x.name+" (id int PRIMARY KEY, n int, pad text) LOCALITY REGIONAL BY ROW")
			simtest.Homed(t, c, root, x.name, 3, 1)
			for at := 0; at < x.rows; at += 500 {
				simtest.Exec(t, root, fmt.Sprintf(`INSERT INTO %s (id, n, pad, crdb_region) SELECT g, g %% 7, repeat('x', %d), (ARRAY['us-east1', 'us-west1', 'europe-west1'])[g %% 3 + 1]::crdb_internal_region
					FROM generate_series(%d, %d) g`, x.name, x.bytes, at, min(at+500, x.rows)-1))
			}
			simtest.Exec(t, root, "ANALYZE "+x.name)
		}
		simtest.Exec(t, root, "ALTER TABLE many SPLIT AT VALUES ('us-west1', 10), ('us-west1', 1000), ('europe-west1', 2000), ('europe-west1', 2990)") // a region's rows are in several ranges
		simtest.LeasesRest(t, c)
		dice := rand.New(rand.NewPCG(1, 2))
		ids := func(conn interface {
			Query(context.Context, string, ...any) (pgx.Rows, error)
		}, sql string) []int {
			t.Helper()
			rows, err := conn.Query(ctx, sql)
			if err != nil {
				t.Fatal(err)
			}
			got, err := pgx.CollectRows(rows, pgx.RowTo[int])
			if err != nil {
				t.Fatalf("%s: %v", sql, err)
			}
			return got
		}
		for i, most := range map[int]time.Duration{0: 90 * time.Millisecond, 3: 135 * time.Millisecond, 6: 135 * time.Millisecond} {
			conn := simtest.ConnectTo(t, c, i, "movr")
			simtest.Exec(t, conn, "SET search_path = public")
			for _, sql := range []string{"SELECT count(*) FROM few", "SELECT id FROM few ORDER BY id LIMIT 1", "SELECT id FROM few ORDER BY id DESC LIMIT 1",
				"SELECT id FROM many ORDER BY id LIMIT 3", "SELECT max(id) FROM few"} {
				simtest.Exec(t, conn, sql)
				time.Sleep(time.Second)
				begun := time.Now()
				simtest.Exec(t, conn, sql)
				took := time.Since(begun)
				t.Logf("n%d: %-45s %v", i+1, sql, took)
				if took > most {
					t.Errorf("n%d: %s took %v, and the farthest region is %v away", i+1, sql, took, most)
				}
			}
			check := func(conn interface {
				Query(context.Context, string, ...any) (pgx.Rows, error)
			}, table string, all []int) {
				t.Helper()
				where, keep := "", func(int) bool { return true }
				if dice.IntN(2) == 0 {
					m := dice.IntN(7)
					where, keep = fmt.Sprintf(" WHERE n = %d", m), func(id int) bool { return id%7 == m }
				}
				want := slices.DeleteFunc(slices.Clone(all), func(id int) bool { return !keep(id) })
				slices.Sort(want)
				sql := "SELECT id FROM " + table + where + " ORDER BY id"
				if dice.IntN(2) == 0 {
					sql += " DESC"
					slices.Reverse(want)
				}
				if dice.IntN(4) > 0 {
					limit, offset := dice.IntN(300), dice.IntN(20)
					sql += fmt.Sprintf(" LIMIT %d OFFSET %d", limit, offset)
					want = want[min(offset, len(want)):]
					want = want[:min(limit, len(want))]
				}
				if got := ids(conn, sql); !slices.Equal(got, want) {
					t.Errorf("n%d: %s: %d rows, want %d: %v, %v", i+1, sql, len(got), len(want), got[:min(10, len(got))], want[:min(10, len(want))])
				}
				if got := ids(conn, "SELECT count(*) FROM "+table); got[0] != len(all) {
					t.Errorf("n%d: %d rows of %d are counted", i+1, got[0], len(all))
				}
			}
			for table, rows := range map[string]int{"few": few, "many": many} {
				all := make([]int, rows)
				for id := range all {
					all[id] = id
				}
				for range 10 {
					check(conn, table, all)
				}
				tx, err := conn.Begin(ctx)
				if err != nil {
					t.Fatal(err)
				}
				for range 20 {
					id := dice.IntN(rows)
					if _, err := tx.Exec(ctx, fmt.Sprintf("DELETE FROM %s WHERE id = %d", table, id)); err != nil {
						t.Fatal(err)
					}
					all = slices.DeleteFunc(all, func(x int) bool { return x == id })
				}
				for n := range 5 {
					if _, err := tx.Exec(ctx, fmt.Sprintf("INSERT INTO %s (id, n) VALUES (%d, %d)", table, rows+n, (rows+n)%7)); err != nil {
						t.Fatal(err)
					}
					all = append(all, rows+n)
				}
				for range 5 {
					check(tx, table, all)
				}
				if err := tx.Rollback(ctx); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}
