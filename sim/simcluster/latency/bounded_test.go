package latency_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"meridian/kv"
	"meridian/sim"
	"meridian/sim/simcluster/simtest"
	"meridian/sql/catalog/lease"
)

// Stale reads near the reader: every region has a replica of every range, the voters and the leases are all in us-east1.

// near gives every range voters in us-east1, its lease to the first of them, and a non-voter in each other region.
func (f *fiveRegions) near() {
	f.Helper()
	ctx := context.Background()
	f.place(0, 1, 2)
	ranges, err := f.c.Ranges(ctx, 0)
	if err != nil {
		f.Fatal(err)
	}
	var targets []kv.ReplicaTarget
	for i := range f.c.Len() {
		t := kv.ReplicaTarget{Node: f.c.Node(i).NodeID(), Store: kv.StoreID(f.c.Node(i).NodeID()), Type: kv.Voter}
		if i > 2 {
			t.Type = kv.NonVoter
		}
		targets = append(targets, t)
	}
	for _, d := range ranges {
		if _, err := f.c.Node(0).Router().Send(ctx, &kv.Batch{Requests: []kv.Request{&kv.AdminChangeReplicasRequest{Key: d.Start, Targets: targets}}}); err != nil {
			f.Fatalf("range %d: %v", d.ID, err)
		}
	}
	time.Sleep(5 * time.Second)
}

// local runs statements and checks that they take no wide-area round.
func (f *fiveRegions) local(conn *pgx.Conn, from int, list ...string) {
	f.Helper()
	for _, sql := range list {
		start := time.Now()
		if err := try(conn, sql); err != nil {
			f.Errorf("from %s: %s: %v", f.c.Machines[from].Region, sql, err)
			return
		}
		if got := time.Since(start); got > 3*time.Millisecond {
			f.Errorf("from %s: %s took %v", f.c.Machines[from].Region, sql, got)
		}
	}
}

// boundedReads are queries of all shapes; the bound is a number of seconds.
func boundedReads(seconds int) []string {
	var out []string
	for _, only := range []string{"", ", true"} {
		bound := fmt.Sprintf("AS OF SYSTEM TIME with_max_staleness('%ds'%s)", seconds, only)
		out = append(out,
			"SELECT v FROM a "+bound+" WHERE id = 1",
			"SELECT count(*) FROM a "+bound,
			"SELECT * FROM a JOIN b USING (id) "+bound+" WHERE b.v = 5",
			"SELECT (SELECT max(name) FROM parent WHERE parent.id = b.id), child.q FROM b, child "+bound+" WHERE child.p = b.id ORDER BY 1 LIMIT 3",
			"BEGIN "+bound+"; SELECT v FROM a WHERE id = 11; SELECT id FROM b WHERE v = 5; SELECT count(*) FROM child; COMMIT")
	}
	return out
}

// TestBoundedStaleness: reads with a bound of staleness take no wide-area round, from anywhere; also when the home region is gone, and for as long
// as the bound allows.
func TestBoundedStaleness(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := startFiveRegions(t)
		f.schema()
		f.near()
		conns := map[int]*pgx.Conn{}
		for _, i := range homes {
			conns[i] = simtest.Connect(t, f.c, i)
			for _, sql := range boundedReads(30) {
				simtest.Exec(t, conns[i], sql)
			}
			f.local(conns[i], i, boundedReads(30)...)
		}
		var at time.Time
		if err := conns[6].QueryRow(context.Background(), "SELECT v, now() FROM a WHERE id = 1").Scan(nil, &at); err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			f.c.Crash(i, 0, true)
		}
		for _, wait := range []time.Duration{time.Second, 20 * time.Second, 5 * time.Minute} {
			time.Sleep(wait)
			for _, i := range homes[1:] {
				f.local(conns[i], i, boundedReads(3600)...)
				fresh := simtest.Connect(t, f.c, i)
				f.local(fresh, i, boundedReads(3600)...)
				_ = fresh.Close(context.Background())
			}
		}
	})
}

// try runs a statement and returns the error with its detail.
func try(conn *pgx.Conn, sql string) error {
	rows, err := conn.Query(context.Background(), sql, pgx.QueryExecModeSimpleProtocol)
	if err == nil {
		for rows.Next() {
		}
		err = rows.Err()
	}
	if pg := (*pgconn.PgError)(nil); errors.As(err, &pg) {
		return fmt.Errorf("%w: %s", err, pg.Detail)
	}
	return err
}

// TestStaleCutOff: a region that is cut off from all others answers stale reads as it last knew the rows and the tables, for as long as the bound
// allows; what the others do meanwhile is seen when the cut has healed.
func TestStaleCutOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const far = 6
		f := startFiveRegions(t)
		f.schema()
		f.near()
		conn := simtest.Connect(t, f.c, far)
		simtest.Exec(t, f.conn, "UPDATE a SET v = 1 WHERE id <= 10")
		time.Sleep(10 * time.Second)
		read := func(sql string) (string, error) {
			rows, err := conn.Query(context.Background(), sql, pgx.QueryExecModeSimpleProtocol)
			if err != nil {
				return "", err
			}
			got, err := pgx.CollectOneRow(rows, func(r pgx.CollectableRow) (string, error) {
				vs, err := r.Values()
				return fmt.Sprint(vs...), err
			})
			return got, err
		}
		is := func(sql, want string) {
			t.Helper()
			start := time.Now()
			if got, err := read(sql); err != nil || got != want {
				t.Errorf("%s: %s, %v, want %s", sql, got, err, want)
			}
			if took := time.Since(start); took > 3*time.Millisecond {
				t.Errorf("%s took %v", sql, took)
			}
		}
		before := time.Now().Add(-5 * time.Second).UTC().Format("2006-01-02 15:04:05.000000+00")
		for _, m := range f.c.Machines[:far] {
			f.c.Network.Partition(f.c.Machines[far].Name, m.Name)
		}
		cut := time.Now()

		simtest.Exec(t, f.conn, "UPDATE a SET v = 2")
		simtest.Exec(t, f.conn, "ALTER TABLE b ADD COLUMN w int DEFAULT 7") // waits for the tenure of the node that is cut off
		simtest.Exec(t, f.conn, "DROP TABLE child")
		simtest.Exec(t, f.conn, "ALTER TABLE a ADD COLUMN w int DEFAULT 7")
		simtest.Exec(t, f.conn, "ALTER TABLE a DROP COLUMN v")
		time.Sleep(20 * time.Second)
		if time.Since(cut) < 30*time.Second {
			t.Fatal("the tenure lasts still")
		}
		for _, only := range []string{"", ", true"} {
			is("SELECT * FROM a AS OF SYSTEM TIME with_max_staleness('10m'"+only+") WHERE id = 3", "3 1")
			is("SELECT count(*), sum(a.v) FROM a JOIN b USING (id) AS OF SYSTEM TIME with_max_staleness('10m'"+only+")", "20 10")
			is("SELECT count(*) FROM child AS OF SYSTEM TIME with_min_timestamp('"+before+"'"+only+")", "31")
		}
		is("SELECT * FROM a AS OF SYSTEM TIME '"+before+"' WHERE id = 3", "3 1")
		is("SELECT cluster_logical_timestamp()::float8 / 1e9 > "+fmt.Sprint(cut.Add(-4*time.Second).Unix())+" FROM a AS OF SYSTEM TIME with_max_staleness('10m') WHERE id = 1", "true")
		var pg *pgconn.PgError
		if got, err := read("SELECT * FROM a AS OF SYSTEM TIME with_max_staleness('5s', true) WHERE id = 3"); !errors.As(err, &pg) || pg.Code != "XCUBS" {
			t.Errorf("within five seconds, after half a minute alone: %s, %v", got, err)
		}
		if got, err := read("SELECT * FROM a AS OF SYSTEM TIME with_max_staleness('5s') WHERE id = 3"); !errors.As(err, &pg) || pg.Code != "57P03" {
			t.Errorf("within five seconds, with leaseholders that are out of reach: %s, %v", got, err)
		}
		if simtest.All() { // an idle quarter of an hour takes twenty seconds
			// More than the time for which the data of dropped tables stays: here it is still there.
			time.Sleep(lease.KeepDropped + time.Minute)
			is("SELECT count(*) FROM child AS OF SYSTEM TIME with_max_staleness('1h')", "31")
			is("SELECT count(*) FROM child AS OF SYSTEM TIME with_max_staleness('1h', true)", "31")
			is("SELECT * FROM a AS OF SYSTEM TIME '"+before+"' WHERE id = 3", "3 1")
		}

		f.c.Network.HealAll()
		time.Sleep(30 * time.Second)
		is("SELECT * FROM a AS OF SYSTEM TIME with_max_staleness('10s', true) WHERE id = 3", "3 7")
		if got, err := read("SELECT count(*) FROM child AS OF SYSTEM TIME with_max_staleness('1h')"); !errors.As(err, &pg) || pg.Code != "42P01" {
			t.Errorf("a table that was dropped: %s, %v", got, err)
		}
		if got, err := read("SELECT count(*) FROM child AS OF SYSTEM TIME '" + before + "'"); simtest.All() && (!errors.As(err, &pg) || pg.Code != "72000") {
			t.Errorf("a table whose data is gone: %s, %v", got, err)
		}
	})
}

// TestBoundedLookupJoins: a lookup join with a bound of staleness reads at the nearest replicas, as of one time for all rows on both sides, wherever they are homed: it takes no
// wide-area round, also when the region in which the rows are homed is gone.
func TestBoundedLookupJoins(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, conn := simtest.UsersByRow(t, "CREATE TABLE users (id int PRIMARY KEY, email text UNIQUE, name text) LOCALITY REGIONAL BY ROW",
			"CREATE TABLE orders (id int PRIMARY KEY, buyer int, INDEX (buyer)) LOCALITY REGIONAL BY ROW")
		names := sim.ThreeRegions().Names
		for i, r := range names {
			simtest.Exec(t, conn, fmt.Sprintf("INSERT INTO users (id, email, name, crdb_region) SELECT g, 'e' || g, 'n', '%s' FROM generate_series(%d, %d) g", r, 100*i, 100*i+99))
			simtest.Exec(t, conn, fmt.Sprintf("INSERT INTO orders (id, buyer, crdb_region) SELECT g, 299 - g, '%s' FROM generate_series(%d, %d) g", r, 100*i, 100*i+99))
		}
		simtest.Exec(t, conn, "ANALYZE users")
		simtest.Exec(t, conn, "ANALYZE orders")
		simtest.Homed(t, c, conn, "orders", 3, 2)
		time.Sleep(30 * time.Second)
		joins := func(from string, conn *pgx.Conn) {
			for _, x := range []struct {
				sql  string
				rows int
			}{
				{"SELECT o.id, u.name FROM orders o JOIN users u ON u.id = o.buyer %s WHERE o.id IN (7, 107, 207)", 3},
				{"SELECT o.id, u.name FROM orders o LEFT JOIN users u ON u.id = o.buyer %s WHERE o.id = 20", 1},
				{"SELECT o.id, u.name FROM orders o JOIN users u ON u.email = 'e' || o.buyer %s WHERE o.id IN (150, 250)", 2},
				{"SELECT o.id, u.name FROM users u JOIN orders o ON o.buyer = u.id %s WHERE u.id IN (3, 130, 260)", 3},
			} {
				for _, bound := range []string{"with_max_staleness('3m')", "with_min_timestamp(now() - '3m'::interval)"} {
					sql := fmt.Sprintf(x.sql, "AS OF SYSTEM TIME "+bound)
					if lines := simtest.Plain(t, conn, "EXPLAIN "+sql); !strings.Contains(strings.Join(lines, "\n"), "lookup join") {
						t.Errorf("%s is not a lookup join:\n%s", sql, strings.Join(lines, "\n"))
					}
					simtest.RoundTrips(t, from+": "+sql, 0, func() {
						rows, err := conn.Query(context.Background(), sql)
						n := 0
						for err == nil && rows.Next() {
							n++
						}
						if err == nil {
							err = rows.Err()
						}
						if err != nil || n != x.rows {
							t.Errorf("%s: %s: %d rows, %v", from, sql, n, err)
						}
					})
				}
			}
		}
		var conns []*pgx.Conn
		for i := range names {
			conns = append(conns, simtest.ConnectTo(t, c, 3*i, "movr"))
			joins(names[i], conns[i])
		}
		for i := range 3 {
			c.Crash(3+i, 0, true) // us-west1
		}
		time.Sleep(5 * time.Second)
		joins(names[0]+" alone", conns[0])
		joins(names[2]+" alone", conns[2])
	})
}
