package latency_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"meridian/keys"
	"meridian/kv"
	"meridian/sim/simcluster/simtest"
	"meridian/sql/catalog"
)

// TestPredictedRounds: EXPLAIN predicts as many wide-area rounds as take place, from gateways in two of five regions, and a latency that is near
// to what the statement takes. The leaseholders are in us-east1, and the other voters 63 and 87 ms away.
func TestPredictedRounds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := startFiveRegions(t)
		f.place(0, 3, 4)
		near, far := f.conn, simtest.Connect(t, f.c, 4)
		simtest.Exec(t, near, "CREATE TABLE p (id int PRIMARY KEY, v int)")
		simtest.Exec(t, near, "CREATE TABLE a (id int PRIMARY KEY, v int, w int REFERENCES p, INDEX a_v (v))")
		simtest.Exec(t, near, "INSERT INTO p SELECT g, 0 FROM generate_series(1, 10) g")
		simtest.Exec(t, near, "INSERT INTO a SELECT g, g % 10, 1 FROM generate_series(1, 1000) g")
		simtest.Exec(t, near, "ANALYZE a")
		simtest.Exec(t, near, "ANALYZE p")
		time.Sleep(10 * time.Second)
		for _, conn := range []*pgx.Conn{near, far} {
			// A schema that does not exist, as "$user", is looked up in the catalogue's ranges whenever a name is bound.
			simtest.Exec(t, conn, "SET search_path = public")
			simtest.Exec(t, conn, "SELECT count(*) FROM a JOIN p ON p.id = a.w") // the gateway has heard who the leaseholders are
		}
		for _, x := range []struct {
			sql       string
			near, far int // wide-area rounds from the leaseholders' region, and from another one
		}{
			{"SELECT v FROM a WHERE id = 1", 0, 1},
			{"SELECT v FROM a WHERE id IN (1, 5, 900)", 0, 1},
			{"SELECT count(*) FROM a", 0, 1},
			{"SELECT * FROM a WHERE v = 3 ORDER BY id LIMIT 3", 0, 1},
			{"SELECT * FROM a JOIN p ON p.id = a.w WHERE a.id = 7", 0, 2},
			{"SELECT (SELECT max(id) FROM p), v FROM a WHERE id = 3", 0, 2},
			{"SELECT 1 + 1", 0, 0},
			{"UPDATE p SET v = v + 1 WHERE id = 1", 1, 3},
			{"INSERT INTO p VALUES (%d, 1)", 1, 2},
			{"INSERT INTO a VALUES (1000 + %d, 1, 2)", 1, 3},
			{"DELETE FROM a WHERE id = %d", 1, 3},
		} {
			for i, conn := range []*pgx.Conn{near, far} {
				want := []int{x.near, x.far}[i]
				sql := x.sql
				if strings.Contains(sql, "%d") {
					sql = fmt.Sprintf(sql, 100*(i+1))
				}
				explained := simtest.Plain(t, conn, "EXPLAIN "+sql)
				time.Sleep(time.Second)
				begun := time.Now()
				lines := simtest.Plain(t, conn, "EXPLAIN ANALYZE "+sql)
				took := time.Since(begun)
				time.Sleep(time.Second)
				predicted, actual := simtest.Footer(t, explained, "wide-area rounds"), simtest.Footer(t, lines, "wide-area rounds that took place")
				ms, err := strconv.Atoi(strings.TrimSuffix(simtest.Footer(t, explained, "predicted latency"), " ms"))
				if err != nil {
					t.Fatal(err)
				}
				t.Logf("%-60s gateway %d: predicted %s, took %s; %d ms, %v; %s", sql, i, predicted, actual, ms, took, simtest.Footer(t, lines, "regions"))
				if predicted != strconv.Itoa(want) || actual != predicted {
					t.Errorf("%s from gateway %d: predicted %s rounds, %s took place, want %d\n%s", sql, i, predicted, actual, want, strings.Join(lines, "\n"))
				}
				if d := took.Milliseconds() - int64(ms); d < -3 || d > int64(ms)/4+5 {
					t.Errorf("%s from gateway %d: predicted %d ms, took %v", sql, i, ms, took)
				}
			}
		}
		// A session can refuse what takes too long, and says what else there is.
		simtest.Exec(t, far, "SET max_wide_area_rounds = 1")
		simtest.Exec(t, far, "SELECT v FROM a WHERE id = 1")
		_, err := far.Exec(context.Background(), "SELECT * FROM a JOIN p ON p.id = a.w WHERE a.id = 7")
		var refused *pgconn.PgError
		if !errors.As(err, &refused) || refused.Code != "54000" || !strings.Contains(refused.Hint, "follower_read_timestamp") || !strings.Contains(refused.Detail, "us-east1") {
			t.Errorf("%v %+v", err, refused)
		}
		simtest.Exec(t, far, "SET max_wide_area_rounds = 0")
		if _, err := far.Exec(context.Background(), "SELECT v FROM a WHERE id = 1"); err == nil {
			t.Error("one round was not refused")
		}
		simtest.Exec(t, far, "SELECT v FROM a AS OF SYSTEM TIME follower_read_timestamp() WHERE id = 1")
		simtest.Exec(t, near, "SET max_wide_area_rounds = 0")
		simtest.Exec(t, near, "SELECT * FROM a JOIN p ON p.id = a.w WHERE a.id = 7")
	})
}

// TestPredictedRoundsByRow: of rows with a home EXPLAIN predicts how many wide-area rounds there are at least and at most, those of uniqueness checks and
// foreign keys among them, and no other number takes place.
func TestPredictedRoundsByRow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := simtest.ThreeContinents(t)
		root := simtest.Connect(t, c, 0)
		simtest.Exec(t, root, `CREATE DATABASE movr PRIMARY REGION "us-east1" REGIONS "us-west1", "europe-west1"`)
		conn := simtest.ConnectTo(t, c, 0, "movr")
		simtest.Exec(t, conn, "SET search_path = public") // see TestPredictedRounds
		simtest.Exec(t, conn, `CREATE TABLE users (id int PRIMARY KEY, email text UNIQUE, name text) LOCALITY REGIONAL BY ROW`)
		simtest.Exec(t, conn, `CREATE TABLE rides (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), rider int REFERENCES users) LOCALITY REGIONAL BY ROW`)
		simtest.Exec(t, conn, `INSERT INTO users (id, email, crdb_region) VALUES (1, 'a', 'us-east1'), (2, 'b', 'us-west1'), (3, 'c', 'europe-west1')`)
		simtest.Exec(t, conn, `CREATE TABLE notes (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), tag text UNIQUE) LOCALITY REGIONAL BY ROW`)
		simtest.Homed(t, c, conn, "users", 3, 2)
		simtest.Homed(t, c, conn, "notes", 3, 2)
		simtest.Homed(t, c, conn, "rides", 3, 1)
		simtest.LeasesRest(t, c)
		for _, x := range []struct {
			sql, predicted, actual string
		}{
			{"SELECT * FROM users WHERE id = 1", "0 to 1", "0"},
			{"SELECT * FROM users WHERE id = 2", "0 to 1", "1"},
			{"SELECT email FROM users WHERE email = 'c'", "0 to 1", "1"},
			{"SELECT * FROM users WHERE email = 'a'", "0 to 1", "0"},
			{"SELECT * FROM users WHERE email = 'b'", "0 to 1", "1"},
			{"SELECT * FROM users WHERE email IN ('a', 'b', 'c')", "0 to 1", "1"},
			{"SELECT * FROM users WHERE email = 'b' AND crdb_region = 'us-west1'", "1", "1"},
			{"SELECT * FROM users WHERE email = 'nobody'", "0 to 1", "1"},
			{"SELECT u.* FROM (VALUES (1), (3)) v (id) JOIN users u ON u.id = v.id", "0 to 1", "1"},
			{"SELECT * FROM users WHERE crdb_region = 'us-east1' AND id = 1", "0", "0"},
			{"INSERT INTO users (id, email) VALUES (4, 'd')", "1", "1"},
			{"INSERT INTO users (id, email, crdb_region) VALUES (5, 'e', 'us-west1')", "2", "2"},
			{"INSERT INTO rides (rider) VALUES (1)", "0 to 1", "0"},
			{"INSERT INTO rides (rider) VALUES (3)", "0 to 1", "1"},
			{"INSERT INTO rides (id, rider) VALUES ('00000000-0000-0000-0000-000000000001', 3)", "1", "1"},
			{"INSERT INTO notes (tag) VALUES ('new')", "1", "1"},
			{"INSERT INTO notes (tag) VALUES (NULL)", "0", "0"},
			{"INSERT INTO notes DEFAULT VALUES", "0", "0"},
			{"INSERT INTO notes (tag) VALUES (NULL), ('newer')", "1", "1"},
			{"UPDATE users SET name = 'x' WHERE id = 1", "0 to 2", "0"},
			{"UPDATE users SET name = 'x' WHERE id = 2", "0 to 2", "2"},
			{"UPDATE users SET email = 'y' WHERE id = 1", "1 to 3", "1"},
			{"UPDATE users SET name = 'x' WHERE crdb_region = 'us-east1' AND id = 1", "0", "0"},
			{"DELETE FROM rides WHERE crdb_region = 'us-east1' AND id = '00000000-0000-0000-0000-000000000001'", "0", "0"},
		} {
			explained := simtest.Plain(t, conn, "EXPLAIN "+x.sql)
			time.Sleep(time.Second)
			lines := simtest.Plain(t, conn, "EXPLAIN ANALYZE "+x.sql)
			time.Sleep(time.Second)
			predicted, actual := simtest.Footer(t, explained, "wide-area rounds"), simtest.Footer(t, lines, "wide-area rounds that took place")
			t.Logf("%-60s predicted %s in %s, took %s", x.sql, predicted, simtest.Footer(t, explained, "predicted latency"), actual)
			if predicted != x.predicted || actual != x.actual {
				t.Errorf("%s: predicted %s rounds, %s took place; want %s, %s\n%s", x.sql, predicted, actual, x.predicted, x.actual, strings.Join(lines, "\n"))
			}
		}
		simtest.Exec(t, conn, "SET max_wide_area_rounds = 0")
		_, err := conn.Exec(context.Background(), "INSERT INTO users (id, email) VALUES (6, 'f')")
		var refused *pgconn.PgError
		if !errors.As(err, &refused) || refused.Code != "54000" || !strings.Contains(refused.Message, "would take 1 wide-area rounds") {
			t.Errorf("a round for uniqueness was not refused: %v", err)
		}
		simtest.Exec(t, conn, "UPDATE users SET name = 'x' WHERE crdb_region = 'us-east1' AND id = 1")
		var none *string
		simtest.Exec(t, conn, "INSERT INTO notes (tag) VALUES ($1)", none)
	})
}

// TestPredictedRoundsGlobal: rows of a GLOBAL table are read where the reader is, as rows and as parents, also by a gateway that never asked for them; those that are locked, or
// read by a transaction that has written, are not.
func TestPredictedRoundsGlobal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := simtest.ThreeContinents(t)
		simtest.Exec(t, simtest.Connect(t, c, 0), `CREATE DATABASE movr PRIMARY REGION "us-east1" REGIONS "us-west1", "europe-west1"`)
		home := simtest.ConnectTo(t, c, 0, "movr")
		simtest.Exec(t, home, `CREATE TABLE g (id int PRIMARY KEY, v int) LOCALITY GLOBAL`)
		simtest.Exec(t, home, `CREATE TABLE kid (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), g int REFERENCES g) LOCALITY REGIONAL BY ROW`)
		simtest.Exec(t, home, `INSERT INTO g SELECT i, 0 FROM generate_series(1, 10) i`)
		simtest.Homed(t, c, home, "kid", 3, 1)
		simtest.LeasesRest(t, c)
		time.Sleep(20 * time.Second)
		for i := range c.Len() {
			conn := simtest.ConnectTo(t, c, i, "movr")
			simtest.Exec(t, conn, "SET search_path = public") // see TestPredictedRounds
			far := "0"
			if c.Machines[i].Region != "us-east1" {
				far = "1"
			}
			for _, x := range []struct{ sql, want string }{
				{"SELECT v FROM g WHERE id = 1", "0"},
				{"SELECT count(*) FROM g", "0"},
				{"SELECT * FROM g WHERE id IN (1, 3)", "0"},
				{"SELECT * FROM (VALUES (1), (3)) v (id) JOIN g ON g.id = v.id", "0"},
				{"INSERT INTO kid (g) VALUES (3)", "0"},
				{"SELECT v FROM g WHERE id = 1 FOR UPDATE", far},
			} {
				explained := simtest.Footer(t, simtest.Plain(t, conn, "EXPLAIN "+x.sql), "wide-area rounds")
				simtest.Exec(t, conn, x.sql) // the gateway learns that the range closes the future
				time.Sleep(time.Second)
				actual := simtest.Footer(t, simtest.Plain(t, conn, "EXPLAIN ANALYZE "+x.sql), "wide-area rounds that took place")
				if explained != x.want || actual != x.want {
					t.Errorf("n%d: %s: predicted %s rounds, %s took place, want %s", i+1, x.sql, explained, actual, x.want)
				}
			}
			simtest.Exec(t, conn, "SET max_wide_area_rounds = 0")
			simtest.Exec(t, conn, "SELECT v FROM g WHERE id = 2")
		}
	})
}

// TestPredictedWaits: EXPLAIN predicts the wait of a GLOBAL table's write, and of an externally consistent commit, within a fifth, from each of five regions.
func TestPredictedWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := fiveGlobal(t, 40*time.Millisecond, nil)
		home := simtest.ConnectTo(t, c, 0, "movr")
		simtest.Exec(t, home, `CREATE TABLE g (id int PRIMARY KEY, v int) LOCALITY GLOBAL`)
		simtest.Exec(t, home, `CREATE TABLE r (id int PRIMARY KEY, v int)`)
		simtest.Exec(t, home, `INSERT INTO g SELECT i, 0 FROM generate_series(1, 10) i`)
		simtest.Exec(t, home, `INSERT INTO r SELECT i, 0 FROM generate_series(1, 10) i`)
		simtest.Settle(t, c, home, "g", globalPlace)
		simtest.Exec(t, home, `CREATE DATABASE x PRIMARY REGION "us-east1"`)
		simtest.Exec(t, home, `ALTER DATABASE x SET external_consistency = on`)
		there := simtest.ConnectTo(t, c, 0, "x")
		simtest.Exec(t, there, `CREATE TABLE e (id int PRIMARY KEY, v int)`)
		simtest.Exec(t, there, `INSERT INTO e VALUES (1, 1)`)
		time.Sleep(60 * time.Second)
		check := func(conn *pgx.Conn, i int, sql string) {
			t.Helper()
			simtest.Exec(t, conn, fmt.Sprintf(sql, 1000*(i+1)))
			time.Sleep(time.Second)
			sql = fmt.Sprintf(sql, 1000*(i+1)+1)
			text := simtest.Footer(t, simtest.Plain(t, conn, "EXPLAIN "+sql), "predicted latency")
			ms, err := strconv.Atoi(strings.TrimSuffix(text, " ms"))
			if err != nil {
				t.Fatal(err)
			}
			begun := time.Now()
			simtest.Exec(t, conn, sql)
			took := time.Since(begun).Milliseconds()
			t.Logf("n%d: %-50s predicted %d ms, took %d", i+1, sql, ms, took)
			if d := took - int64(ms); d < -took/5-2 || d > took/5+2 {
				t.Errorf("n%d: %s: predicted %d ms, took %d", i+1, sql, ms, took)
			}
		}
		for i := range c.Len() {
			conn := simtest.ConnectTo(t, c, i, "movr")
			simtest.Exec(t, conn, "SET search_path = public") // see TestPredictedRounds
			check(conn, i, "INSERT INTO g VALUES (%d, 1)")
			simtest.Exec(t, conn, "SELECT v FROM r WHERE id = 1")
			simtest.Exec(t, conn, "SET external_consistency = on")
			check(conn, i, "INSERT INTO r VALUES (%d, 1)")
		}
		simtest.Exec(t, there, "SET search_path = public")
		check(there, 0, "INSERT INTO e VALUES (%d, 1)")
	})
}

// TestDuplicateIndexes: of two indexes with the same columns, and leaseholders in two regions, a gateway reads the one that is near, and so takes no
// wide-area round (CRDB'20 2.3.1). When a lease moves, plans of before are made anew.
func TestDuplicateIndexes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := simtest.WideArea(t)
		near, far := simtest.Connect(t, c, 0), simtest.Connect(t, c, 2)
		simtest.Exec(t, near, "SET search_path = public") // see TestPredictedRounds
		simtest.Exec(t, far, "SET search_path = public")
		simtest.Exec(t, near, "CREATE TABLE codes (id int PRIMARY KEY, code text)")
		simtest.Exec(t, near, "CREATE INDEX codes_eu ON codes (id) STORING (code)")
		simtest.Exec(t, near, "INSERT INTO codes SELECT g, 'code ' || g FROM generate_series(1, 100) g")
		simtest.Exec(t, near, "ANALYZE codes")
		var at, primary keys.Key
		c.Node(0).Catalog().Snapshot().EachTable(func(x *catalog.Table) {
			if x.Name == "codes" {
				primary, at = keys.IndexPrefix(x.ID, x.Indexes[0].ID), keys.IndexPrefix(x.ID, x.Indexes[1].ID)
			}
		})
		for _, k := range []keys.Key{primary, at} {
			if _, err := c.Node(0).Router().Send(context.Background(), &kv.Batch{Requests: []kv.Request{&kv.AdminSplitRequest{Key: k}}}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Second)
		read := func(conn *pgx.Conn) func() {
			return func() {
				simtest.Exec(t, conn, "SELECT code FROM codes WHERE id = $1", 7)
				simtest.Exec(t, conn, "SELECT code FROM codes WHERE id = $1", 8)
			}
		}
		simtest.RoundTrips(t, "all leaseholders far", 2*87*time.Millisecond, read(far))
		if err := c.TransferLease(context.Background(), at, 2); err != nil {
			t.Fatal(err)
		}
		simtest.Exec(t, far, "SELECT count(*) FROM codes@codes_eu") // the gateway learns of the lease
		simtest.RoundTrips(t, "one of two indexes near", 0, read(far))
		simtest.RoundTrips(t, "the other one near", 0, read(near))
		if lines := simtest.Plain(t, far, "EXPLAIN SELECT code FROM codes WHERE id = 7"); !strings.Contains(strings.Join(lines, "\n"), "codes@codes_eu") {
			t.Error(strings.Join(lines, "\n"))
		}
		// The two leases change places. The statements were prepared, and their plans kept.
		for k, i := range map[string]int{string(primary): 2, string(at): 0} {
			if err := c.TransferLease(context.Background(), keys.Key(k), i); err != nil {
				t.Fatal(err)
			}
		}
		for _, conn := range []*pgx.Conn{near, far} {
			simtest.Exec(t, conn, "SELECT count(*) FROM codes@codes_eu")
			simtest.Exec(t, conn, "SELECT count(*) FROM codes@codes_pkey")
		}
		simtest.RoundTrips(t, "the first index after the exchange", 0, read(far))
		simtest.RoundTrips(t, "the second index after the exchange", 0, read(near))
	})
}
