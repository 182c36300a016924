package regions_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"

	"meridian/sim/simcluster/simtest"
)

// TestStatementsApart: a statement waits for the farthest region as often as its steps depend on each other, and never for one region after another. Each runs, from each region, in a transaction that is
// rolled back.
func TestStatementsApart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		c := simtest.ThreeContinents(t)
		simtest.Exec(t, simtest.Connect(t, c, 0), `CREATE DATABASE movr PRIMARY REGION "us-east1" REGIONS "us-west1", "europe-west1"`)
		root := simtest.ConnectTo(t, c, 0, "movr")
		for _, sql := range []string{
			"CREATE TABLE parents (id int PRIMARY KEY, n int) LOCALITY GLOBAL",
			"CREATE TABLE kin (id int PRIMARY KEY, n int) LOCALITY REGIONAL BY ROW",
			"CREATE TABLE plain (id int PRIMARY KEY, parent int REFERENCES parents, kin int REFERENCES kin, n int) LOCALITY REGIONAL BY ROW", // no index on either
			"CREATE TABLE cascading (id int PRIMARY KEY, kin int REFERENCES kin ON DELETE CASCADE ON UPDATE CASCADE) LOCALITY REGIONAL BY ROW",
			"CREATE TABLE emptying (id int PRIMARY KEY, kin int REFERENCES kin ON DELETE SET NULL ON UPDATE SET NULL) LOCALITY REGIONAL BY ROW",
			"CREATE TABLE later (id int PRIMARY KEY, kin int REFERENCES kin DEFERRABLE INITIALLY DEFERRED) LOCALITY REGIONAL BY ROW",
			"CREATE TABLE uniques (id int PRIMARY KEY, a int UNIQUE, b int UNIQUE, c int UNIQUE, n int, INDEX (n)) LOCALITY REGIONAL BY ROW",
			"CREATE TABLE loose (id int PRIMARY KEY, k int UNIQUE DEFERRABLE) LOCALITY REGIONAL BY ROW",
			"CREATE TABLE near (id int PRIMARY KEY, n int) LOCALITY GLOBAL",
			"INSERT INTO parents SELECT g, g FROM generate_series(1, 50) g",
			"INSERT INTO near SELECT g, g FROM generate_series(1, 50) g",
		} {
			simtest.Exec(t, root, sql)
		}
		tables := map[string]int{"kin": 1, "plain": 1, "cascading": 1, "emptying": 1, "later": 1, "uniques": 5, "loose": 2}
		for table, indexes := range tables {
			simtest.Homed(t, c, root, table, 3, indexes)
		}
		in := "(ARRAY['us-east1', 'us-west1', 'europe-west1'])[g % 3 + 1]::crdb_internal_region FROM generate_series(1, 30) g"
		for _, sql := range []string{
			"INSERT INTO kin (id, n, crdb_region) SELECT g, g % 7, " + in,
			"INSERT INTO plain (id, parent, kin, n, crdb_region) SELECT g, 1, 1, g % 7, " + in,
			"INSERT INTO cascading (id, kin, crdb_region) SELECT g, 2, " + in,
			"INSERT INTO emptying (id, kin, crdb_region) SELECT g, 3, " + in,
			"INSERT INTO later (id, kin, crdb_region) SELECT g, 4, " + in,
			"INSERT INTO loose (id, k, crdb_region) SELECT g, g, " + in,
			"INSERT INTO uniques (id, a, b, c, n, crdb_region) SELECT g, g, g, g, g % 7, " + in,
		} {
			simtest.Exec(t, root, sql)
		}
		for _, table := range []string{"parents", "near", "kin", "plain", "cascading", "emptying", "later", "uniques", "loose"} {
			simtest.Exec(t, root, "ANALYZE "+table)
		}
		simtest.LeasesRest(t, c)
		var conns []*pgx.Conn
		for i := range 3 {
			conn := simtest.ConnectTo(t, c, 3*i, "movr")
			simtest.Exec(t, conn, "SET search_path = public") // see TestPredictedRounds
			conns = append(conns, conn)
		}
		for _, x := range []struct {
			sql    string
			rounds int // to the farthest region
		}{
			{"DELETE FROM parents WHERE id = 9", 2},        // the row; those that refer to it
			{"UPDATE parents SET id = 99 WHERE id = 9", 3}, // the row, the new key, those that refer to it
			{"DELETE FROM kin WHERE id = 9", 2},
			{"DELETE FROM kin WHERE id = 2", 4}, // the row; which constraints have rows that refer to it; these, their locks, their removal
			{"DELETE FROM kin WHERE id = 3", 4},
			{"UPDATE kin SET id = 99 WHERE id = 2", 6}, // the new key elsewhere, and here
			{"UPDATE kin SET id = 99 WHERE id = 9", 4},
			{"DELETE FROM kin WHERE id IN (8, 9, 10)", 2},
			{"DELETE FROM plain", 1},
			{"DELETE FROM plain WHERE n = 3", 2}, // rows that match are read again and locked
			{"UPDATE plain SET n = n + 1", 1},
			{"UPDATE plain SET n = n + 1 WHERE n = 3", 2},
			{"UPDATE plain SET n = 1 WHERE id > 5 AND id < 20", 1},
			{"UPDATE uniques SET b = b + 100", 3}, // the rows, the keys elsewhere, the keys here
			{"UPDATE uniques SET a = a + 100, b = b + 100, c = c + 100 WHERE id IN (4, 5, 6)", 3},
			{"UPDATE uniques SET id = 100 WHERE n = 3 AND id = 3", 3},
			{"SELECT * FROM plain FOR UPDATE", 1},
			{"SELECT * FROM plain WHERE n = 3 FOR SHARE", 2},
			{"SELECT * FROM plain WHERE n = 3 ORDER BY id FOR UPDATE", 2},
			{"SELECT * FROM plain WHERE n = 3 ORDER BY id LIMIT 2 FOR UPDATE", 2},
			{"SELECT * FROM plain WHERE id IN (4, 5, 6) FOR UPDATE", 1},
			{"SELECT * FROM uniques WHERE n = 3 FOR UPDATE", 2},
			{"SELECT * FROM uniques WHERE n = 3", 1},
			{"SELECT * FROM uniques WHERE n BETWEEN 3 AND 4", 1},
			{"SELECT count(*) FROM uniques WHERE n = 3", 1},
			{"SELECT * FROM plain WHERE id BETWEEN 4 AND 9", 1},
			{"SELECT * FROM plain WHERE n = 100 LIMIT 1", 1}, // the gateway's region, then the others
			{"SELECT EXISTS (SELECT 1 FROM plain WHERE n = 100)", 1},
			{"SELECT EXISTS (SELECT 1 FROM uniques WHERE n = 100)", 1},
			{"SELECT * FROM near WHERE id = 3 AND EXISTS (SELECT 1 FROM plain WHERE n > 100)", 1},
			{"SELECT * FROM uniques ORDER BY n LIMIT 1", 1},
			{"SELECT max(n) FROM uniques", 1},
			{"SELECT min(n), max(n) FROM uniques", 1},
			{"SELECT n, count(*) FROM plain GROUP BY n", 1},
			{"SELECT DISTINCT n FROM uniques", 1},
			{"SELECT id, rank() OVER (ORDER BY n) FROM plain", 1},
			{"SELECT * FROM near WHERE NOT EXISTS (SELECT 1 FROM plain WHERE plain.id = near.id)", 1},
			{"SELECT * FROM near WHERE EXISTS (SELECT 1 FROM plain WHERE plain.n = near.id)", 1},
			{"SELECT * FROM near WHERE id NOT IN (SELECT n FROM plain)", 1},
			{"SELECT * FROM near WHERE id IN (SELECT n FROM uniques)", 1},
			{"SELECT * FROM near WHERE id = ANY (SELECT n FROM plain)", 1},
			{"SELECT * FROM near WHERE id = 3 AND NOT EXISTS (SELECT 1 FROM uniques WHERE uniques.n = near.id + 100)", 1},
			{"SELECT * FROM near JOIN plain ON plain.id = near.id WHERE near.id < 4", 1},
			{"SELECT * FROM near JOIN plain ON plain.n = near.id", 1},
			{"SELECT * FROM near LEFT JOIN uniques ON uniques.n = near.id", 1},
			{"SELECT * FROM near JOIN uniques ON uniques.n = near.id WHERE near.id < 4", 1},
			{"SELECT * FROM near, LATERAL (SELECT * FROM uniques WHERE uniques.n = near.id ORDER BY id LIMIT 1) u WHERE near.id < 4", 3}, // once for each row
			{"SELECT id, (SELECT count(*) FROM uniques WHERE uniques.n = near.id) FROM near WHERE id < 4", 1},
			{"SELECT id, (SELECT max(id) FROM plain WHERE plain.n = near.id) FROM near WHERE id < 4", 1},
			{"UPDATE plain SET n = near.n FROM near WHERE near.id = plain.id", 1},
			{"DELETE FROM plain USING near WHERE near.id = plain.n", 1},
			{"INSERT INTO near SELECT id + 1000, n FROM plain", 2},
			{"INSERT INTO uniques (id, a, b, c) VALUES (100, 100, 100, 100)", 1},
			{"INSERT INTO uniques (id, a, b, c) VALUES (100, 100, 100, 100), (101, 101, 101, 101)", 1},
			{"INSERT INTO uniques (id, a, b, c) VALUES (100, 100, 100, 100) ON CONFLICT DO NOTHING", 2},
			{"INSERT INTO uniques (id, a, b, c) VALUES (100, 100, 100, 100) ON CONFLICT (a) DO UPDATE SET n = 9", 2},
			{"INSERT INTO uniques (id, a, b, c) VALUES (101, 4, 101, 101), (100, 5, 100, 100), (102, 6, 102, 102) ON CONFLICT (a) DO UPDATE SET n = 9", 2},
			{"INSERT INTO uniques (id, a, b, c) VALUES (101, 4, 101, 101), (100, 5, 100, 100), (102, 6, 102, 102) ON CONFLICT DO NOTHING", 1},
			{"UPSERT INTO uniques (id, a, b, c) VALUES (4, 100, 100, 100), (5, 101, 101, 101)", 3},
			{"INSERT INTO plain (id, parent, kin) VALUES (100, 1, 1), (101, 2, 2), (102, 3, 3)", 1},
			{"WITH gone AS (DELETE FROM plain RETURNING id) SELECT count(*) FROM gone", 1},
			{"WITH gone AS (DELETE FROM plain WHERE n = 3 RETURNING id) INSERT INTO near SELECT id + 1000, 1 FROM gone", 3},
			{"DELETE FROM parents WHERE id IN (8, 9, 10)", 2},
			{"SET CONSTRAINTS ALL IMMEDIATE; DELETE FROM kin WHERE id = 9", 2},
			{"UPDATE loose SET k = k + 100", 2},
			{"INSERT INTO loose (id, k) VALUES (100, 100), (101, 101), (102, 102), (103, 103)", 2},
		} {
			for i, conn := range conns {
				farthest := []time.Duration{88 * time.Millisecond, 133 * time.Millisecond, 133 * time.Millisecond}[i]
				run := func() (took time.Duration) {
					tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.Serializable})
					if err != nil {
						t.Fatal(err)
					}
					begun := time.Now()
					if _, err := tx.Exec(ctx, x.sql); err != nil {
						t.Errorf("%s: %v", x.sql, err)
					}
					took = time.Since(begun)
					tx.Rollback(ctx)
					time.Sleep(200 * time.Millisecond)
					return took
				}
				run()
				took, most := run(), time.Duration(x.rounds)*farthest+4*time.Millisecond
				for tries := 0; took > most && tries < 3; tries++ {
					time.Sleep(10 * time.Second) // a lease may be on its way: what counts is how many rounds are needed
					took = min(took, run())
				}
				line := fmt.Sprintf("n%d: %v for %d rounds of %v (%.2f): %s", 3*i+1, took, x.rounds, farthest, float64(took)/float64(farthest), x.sql)
				if took > most {
					t.Errorf("%s\n%s", line, strings.Join(simtest.Plain(t, conn, "EXPLAIN "+x.sql), "\n"))
				} else {
					t.Log(line)
				}
			}
		}
	})
}
