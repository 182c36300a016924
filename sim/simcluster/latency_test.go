package simcluster_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"meridian/keys"
	"meridian/kv"
	"meridian/sim"
	"meridian/sim/simcluster"
)

// wideArea is a cluster of one node in each of three regions, replicated, with the leases of all ranges on node 0.
func wideArea(t *testing.T) *simcluster.Cluster {
	t.Helper()
	c := simcluster.Start(t, simcluster.Options{Regions: sim.ThreeRegions(), NodesPerRegion: 1, Log: logTo()})
	replicated(t, c, 3)
	for i := range c.Len() {
		c.Node(i).Store().PauseQueues(true) // no leases are moved to even out the load
	}
	if err := c.TransferLeases(context.Background(), 0); err != nil {
		t.Fatal(err)
	}
	return c
}

// replicated waits until every range has n replicas and its lease on node 0.
func replicated(t *testing.T, c *simcluster.Cluster, n int) {
	t.Helper()
	ctx := context.Background()
	for range 600 {
		ranges, err := c.Ranges(ctx, 0)
		if err != nil {
			t.Fatal(err)
		}
		good := true
		for _, d := range ranges {
			// The system's own range has five where there are so many nodes.
			good = good && (len(d.Replicas) == n || d.Start.Less(keys.TablePrefix) && len(d.Replicas) >= min(n, 5))
			for _, r := range d.Replicas {
				good = good && r.Type == kv.Voter
			}
		}
		if good {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatal("the ranges are not replicated after a minute")
}

func connect(t *testing.T, c *simcluster.Cluster, i int) *pgx.Conn {
	t.Helper()
	conn, err := c.Connect(context.Background(), i, "defaultdb")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

func exec(t *testing.T, conn *pgx.Conn, sql string, args ...any) {
	t.Helper()
	if _, err := conn.Exec(context.Background(), sql, args...); err != nil {
		var detail string
		if e := (*pgconn.PgError)(nil); errors.As(err, &e) {
			detail = e.Detail
		}
		t.Fatalf("%s: %v %s", sql, err, detail)
	}
}

// roundTrips measures an operation and compares it with a time, with a tolerance for messages inside a region.
func roundTrips(t *testing.T, what string, want time.Duration, f func()) {
	t.Helper()
	f() // plans, caches and leases are warm
	var got time.Duration
	for range 3 {
		time.Sleep(time.Second) // the intents of the last run are resolved in the background
		start := time.Now()
		f()
		got = time.Since(start)
		if slack := max(want/20, 3*time.Millisecond); got <= want+slack && got >= want-slack {
			t.Logf("%-60s %v", what, got)
			return
		}
		// A lease may just have moved, which costs a round trip to whoever had it.
		t.Logf("%-60s %v, want %v", what, got, want)
	}
	t.Errorf("%s took %v, want %v", what, got, want)
}

// TestRoundTrips pins the wide-area round trips of each operation: exactly, in virtual time. The leaseholders are in
// us-east1; the nearest quorum is us-east1 with us-west1, 63 ms away; europe-west1 is 87 ms away.
func TestRoundTrips(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := wideArea(t)
		near, far := connect(t, c, 0), connect(t, c, 2)
		exec(t, near, "CREATE TABLE a (id int PRIMARY KEY, v int)")
		exec(t, near, "CREATE TABLE b (id int PRIMARY KEY, v int)")
		exec(t, near, "INSERT INTO a SELECT g, 0 FROM generate_series(1, 10) g")
		exec(t, near, "INSERT INTO b SELECT g, 0 FROM generate_series(1, 10) g")
		exec(t, near, "ALTER TABLE b SPLIT AT VALUES (0)")
		time.Sleep(time.Second)
		exec(t, far, "SELECT 1 FROM a")

		const quorum, ocean = 63 * time.Millisecond, 87 * time.Millisecond
		read := func(conn *pgx.Conn) func() {
			return func() { exec(t, conn, "SELECT v FROM a WHERE id = $1", 1) }
		}
		roundTrips(t, "read in the leaseholder's region", 0, read(near))
		roundTrips(t, "read from another region", ocean, read(far))
		roundTrips(t, "one-range write in the leaseholder's region", quorum, func() { exec(t, near, "UPDATE a SET v = v + 1 WHERE id = $1", 1) })
		roundTrips(t, "insert in the leaseholder's region", quorum, func() {
			exec(t, near, "INSERT INTO a VALUES ((SELECT max(id) + 1 FROM a), 0)")
		})
		roundTrips(t, "one-range transaction of three statements", quorum, func() {
			exec(t, near, "BEGIN")
			exec(t, near, "UPDATE a SET v = v + 1 WHERE id = $1", 1)
			exec(t, near, "UPDATE a SET v = v - 1 WHERE id = $1", 2)
			exec(t, near, "SELECT sum(v) FROM a")
			exec(t, near, "COMMIT")
		})
		two := func() {
			exec(t, near, "BEGIN")
			exec(t, near, "UPDATE a SET v = v + 1 WHERE id = $1", 1)
			exec(t, near, "UPDATE b SET v = v - 1 WHERE id = $1", 2)
			exec(t, near, "COMMIT")
		}
		// Parallel commit (CRDB'20 §3.1): intents and the STAGING record travel in the same round.
		roundTrips(t, "two-range transaction in the leaseholders' region", quorum, two)
		// A transaction that wants the same rows at the same time waits for two more: the explicit record, then the resolution of the intents.
		// The wait is the price of answering the client before either.
		time.Sleep(time.Second)
		start := time.Now()
		two()
		two()
		t.Logf("%-60s %v", "two of them on the same rows, one after the other", time.Since(start))
		if d := time.Since(start); d > 4*quorum+5*time.Millisecond {
			t.Errorf("two conflicting transactions took %v, want four rounds", d)
		}
		time.Sleep(time.Second)
		roundTrips(t, "two-range transaction from another region", 3*ocean+quorum, func() {
			exec(t, far, "BEGIN")
			exec(t, far, "UPDATE a SET v = v + 1 WHERE id = $1", 1)
			exec(t, far, "UPDATE b SET v = v - 1 WHERE id = $1", 2)
			exec(t, far, "COMMIT")
		})
		roundTrips(t, "read-only transaction of three statements", 0, func() {
			exec(t, near, "BEGIN")
			exec(t, near, "SELECT v FROM a WHERE id = $1", 1)
			exec(t, near, "SELECT v FROM b WHERE id = $1", 1)
			exec(t, near, "SELECT count(*) FROM a, b WHERE a.id = b.id")
			exec(t, near, "COMMIT")
		})
		roundTrips(t, "one-range write from another region", ocean+quorum, func() {
			exec(t, far, "INSERT INTO a VALUES ((SELECT 1000 + (random() * 1e6)::int), 0)")
		})
		// Secondary indexes of a table are in its range as long as it is one range: they cost no round.
		for _, n := range []int{1, 2, 4} {
			name := fmt.Sprintf("i%d", n)
			exec(t, near, "CREATE TABLE "+name+" (id int PRIMARY KEY, c1 int, c2 int, c3 int, c4 int)")
			for i := 1; i <= n; i++ {
				exec(t, near, fmt.Sprintf("CREATE INDEX ON %s (c%d)", name, i))
			}
			id := 0
			insert := func() { id++; exec(t, near, "INSERT INTO "+name+" VALUES ($1, $1, $1, $1, $1)", id) }
			roundTrips(t, fmt.Sprintf("insert with %d secondary indexes, one range", n), quorum, insert)
			for i := 1; i <= n; i++ {
				exec(t, near, fmt.Sprintf("ALTER INDEX %s@%s_c%d_idx SPLIT AT VALUES (0)", name, name, i))
			}
			roundTrips(t, fmt.Sprintf("insert with %d secondary indexes, each in its own range", n), quorum, insert)
		}
	})
}
