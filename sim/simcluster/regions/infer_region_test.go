package regions_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"meridian/sim"
	"meridian/sim/simcluster"
	"meridian/sim/simcluster/simtest"
)

// inferring makes parents in three regions, ten for each, with the identities 0 to 9, 10 to 19 and 20 to 29, and a table of children that are homed where their parents are.
func inferring(t *testing.T) (*simcluster.Cluster, *pgx.Conn, []string) {
	c := simtest.ThreeContinents(t)
	names := sim.ThreeRegions().Names
	root := simtest.Connect(t, c, 0)
	simtest.Exec(t, root, fmt.Sprintf(`CREATE DATABASE movr PRIMARY REGION "%s" REGIONS "%s", "%s"`, names[0], names[1], names[2]))
	conn := simtest.ConnectTo(t, c, 0, "movr")
	simtest.Exec(t, conn, "SET search_path = public") // see TestPredictedRounds
	simtest.Exec(t, conn, `CREATE TABLE parents (id int PRIMARY KEY, name text) LOCALITY REGIONAL BY ROW`)
	simtest.Exec(t, conn, `CREATE TABLE children (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), n int, parent int, CONSTRAINT fk FOREIGN KEY (crdb_region, parent) REFERENCES parents (crdb_region, id) ON UPDATE CASCADE, INDEX (n), INDEX (parent))
		WITH (infer_rbr_region_col_using_constraint = fk) LOCALITY REGIONAL BY ROW`)
	for i, r := range names {
		simtest.Exec(t, conn, fmt.Sprintf(`INSERT INTO parents (id, crdb_region) SELECT %d + g, '%s' FROM generate_series(0, 9) g`, 10*i, r))
	}
	simtest.Homed(t, c, conn, "parents", 3, 1)
	simtest.Homed(t, c, conn, "children", 3, 3)
	simtest.LeasesRest(t, c)
	return c, conn, names
}

// TestInferRegion counts the wide-area rounds of statements that find the region of a row by a foreign key: none if the parent is at home, and else
// one to find it, which is the check of the key, and one to write the row, for all rows of the statement together, at each level of isolation.
func TestInferRegion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, conn, names := inferring(t)
		for _, x := range []struct{ sql, predicted, actual string }{
			{"INSERT INTO children (parent) VALUES (1)", "0 to 2", "0"},
			{"INSERT INTO children (parent) VALUES (11)", "0 to 2", "2"},
			{"INSERT INTO children (parent) VALUES (NULL)", "0 to 2", "0"},
			{"INSERT INTO children (parent) VALUES (1), (2), (3)", "0 to 2", "0"},
			{"INSERT INTO children (parent) VALUES (1), (12), (13), (22), (23)", "0 to 2", "2"},
			{"INSERT INTO children (parent) SELECT id FROM parents WHERE id IN (1, 2)", "0 to 3", "0"},
			{"INSERT INTO children (parent, crdb_region) VALUES (11, 'us-west1')", "2", "2"},
			{"INSERT INTO children (parent, crdb_region) VALUES (1, 'us-east1')", "0 to 1", "0"},
		} {
			simtest.Exec(t, conn, x.sql) // finds out where ranges are
			time.Sleep(time.Second)
			explained := simtest.Plain(t, conn, "EXPLAIN "+x.sql)
			lines := simtest.Plain(t, conn, "EXPLAIN ANALYZE "+x.sql)
			time.Sleep(time.Second)
			predicted, actual := simtest.Footer(t, explained, "wide-area rounds"), simtest.Footer(t, lines, "wide-area rounds that took place")
			t.Logf("%-70s predicted %s in %s, took %s", x.sql, predicted, simtest.Footer(t, explained, "predicted latency"), actual)
			if predicted != x.predicted || actual != x.actual {
				t.Errorf("%s: predicted %s rounds, %s took place; want %s, %s\n%s", x.sql, predicted, actual, x.predicted, x.actual, strings.Join(lines, "\n"))
			}
		}
		west, europe := sim.ThreeRegions().RTT(names[0], names[1]), sim.ThreeRegions().RTT(names[0], names[2])
		for _, level := range []string{"serializable", "repeatable read", "read committed"} {
			simtest.Exec(t, conn, "SET default_transaction_isolation TO '"+level+"'")
			insert := func(values string) func() {
				return func() { simtest.Exec(t, conn, "INSERT INTO children (parent) VALUES "+values) }
			}
			simtest.RoundTrips(t, level+": a child of a parent at home", 0, insert("(1)"))
			simtest.RoundTrips(t, level+": a child of a parent in us-west1", 2*west, insert("(11)"))
			simtest.RoundTrips(t, level+": a child of a parent in europe-west1", 2*europe, insert("(21)"))
			simtest.RoundTrips(t, level+": children of parents everywhere", 2*europe, insert("(1), (2), (12), (22), (23)"))
		}
		var wrong, all int
		if err := conn.QueryRow(context.Background(), "SELECT count(*) FILTER (WHERE c.crdb_region <> p.crdb_region), count(*) FROM children c JOIN parents p ON p.id = c.parent").Scan(&wrong, &all); err != nil || wrong != 0 || all < 20 {
			t.Errorf("%d of %d children are elsewhere than their parents: %v", wrong, all, err)
		}
	})
}

// TestInferRegionConcurrently: clients in three regions add children, give them other parents, and move parents, at all levels of isolation. Each child is where its
// parent is, no child is lost or doubled, and no key is refused for a parent that is there all the time, unless below SERIALIZABLE, where the parent may move between
// the statement's lookup and its check.
func TestInferRegionConcurrently(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
		defer cancel()
		c, admin, names := inferring(t)
		var mu sync.Mutex
		added, refused, retried, adopted := map[int]bool{}, 0, 0, 0
		var there []int // children that exist
		var clients sync.WaitGroup
		for i := range 9 {
			level := []string{"serializable", "read committed", "read committed"}[i%3]
			clients.Go(func() {
				rng := rand.New(rand.NewPCG(7, uint64(i)))
				conn, err := c.Connect(ctx, i, "movr")
				if err != nil {
					t.Error(err)
					return
				}
				defer conn.Close(ctx)
				simtest.Exec(t, conn, "SET default_transaction_isolation TO '"+level+"'")
				for j := range 25 {
					parent, n, other := 10*rng.IntN(3)+rng.IntN(2), 100*i+j, 0
					mu.Lock()
					if len(there) > 0 {
						other = there[rng.IntN(len(there))]
					}
					mu.Unlock()
					q, insert := "", false
					switch rng.IntN(6) {
					case 0:
						q = fmt.Sprintf("UPDATE children SET parent = %d WHERE n = %d", parent, other)
					case 1:
						q = fmt.Sprintf("UPDATE parents SET crdb_region = '%s' WHERE id = %d", names[rng.IntN(3)], parent)
					case 2:
						q = fmt.Sprintf("UPDATE children SET parent = NULL WHERE n = %d", other)
					case 3:
						q, insert = fmt.Sprintf("UPSERT INTO children (id, n, parent) VALUES ('00000000-0000-0000-0000-%012d', %d, %d)", n, n, parent), true
					default:
						q, insert = fmt.Sprintf("INSERT INTO children (n, parent) VALUES (%d, %d)", n, parent), true
					}
					tag, err := conn.Exec(ctx, q)
					var pg *pgconn.PgError
					mu.Lock()
					switch {
					case err == nil && insert:
						added[n] = true
						there = append(there, n)
					case err == nil:
						if strings.HasPrefix(q, "UPDATE children SET parent = ") && !strings.Contains(q, "NULL") {
							adopted += int(tag.RowsAffected())
						}
					case errors.As(err, &pg) && (pg.Code == "40001" || pg.Code == "40P01"):
						retried++
					case errors.As(err, &pg) && pg.Code == "23503" && level != "serializable":
						refused++
					default:
						t.Errorf("at %s: %s: %v", level, q, err)
					}
					mu.Unlock()
				}
			})
		}
		clients.Wait()
		want := len(added)
		t.Logf("%d children, %d got another parent, %d statements refused, %d to be retried", want, adopted, refused, retried)
		for _, index := range []string{"children_pkey", "children_n_idx"} {
			var all, different int
			if err := admin.QueryRow(ctx, "SELECT count(*), count(DISTINCT n) FROM children@"+index).Scan(&all, &different); err != nil || all != want || different != want {
				t.Errorf("%s has %d entries of %d children, want %d: %v", index, all, different, want, err)
			}
		}
		var wrong int
		if err := admin.QueryRow(ctx, "SELECT count(*) FROM children c LEFT JOIN parents p ON p.id = c.parent WHERE c.parent IS NOT NULL AND (p.id IS NULL OR c.crdb_region <> p.crdb_region)").Scan(&wrong); err != nil || wrong != 0 {
			t.Errorf("%d children are elsewhere than their parents: %v", wrong, err)
		}
		if want < 60 || adopted < 10 {
			t.Error("too few children, or too few that got another parent")
		}
	})
}
