package simcluster_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"

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
	return c
}

// replicated waits until every range has n replicas and its lease on node 0.
func replicated(t *testing.T, c *simcluster.Cluster, n int) {
	t.Helper()
	for range 600 {
		good := true
		for k := keys.Min; k.Less(keys.Max); {
			info, err := c.Node(0).Router().Range(context.Background(), k, true)
			if err != nil {
				t.Fatal(err)
			}
			good = good && len(info.Desc.Replicas) == n
			for _, r := range info.Desc.Replicas {
				good = good && r.Type == kv.Voter
			}
			k = info.Desc.End
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
		t.Fatalf("%s: %v", sql, err)
	}
}

// roundTrips measures an operation and compares it with a time, give or take what happens inside a region.
func roundTrips(t *testing.T, what string, want time.Duration, f func()) {
	t.Helper()
	f() // plans, caches and leases are warm
	start := time.Now()
	f()
	got := time.Since(start)
	t.Logf("%-60s %v", what, got)
	if slack := max(want/20, 3*time.Millisecond); got > want+slack || got < want-slack {
		t.Errorf("%s took %v, want %v", what, got, want)
	}
}

// TestRoundTrips pins what crosses the ocean: exact, in virtual time. The leaseholders are in us-east1; the nearest
// quorum is us-east1 with us-west1, 63 ms away; europe-west1 is 87 ms away.
func TestRoundTrips(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := wideArea(t)
		near, far := connect(t, c, 0), connect(t, c, 2)
		exec(t, near, "CREATE TABLE a (id int PRIMARY KEY, v int)")
		exec(t, near, "CREATE TABLE b (id int PRIMARY KEY, v int)")
		exec(t, near, "INSERT INTO a SELECT g, 0 FROM generate_series(1, 10) g")
		exec(t, near, "INSERT INTO b SELECT g, 0 FROM generate_series(1, 10) g")
		exec(t, near, "ALTER TABLE b SPLIT AT VALUES (0)")
		exec(t, near, "SELECT 1 FROM b")
		time.Sleep(10 * time.Second)
		replicated(t, c, 3)
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
		// Two rounds: intents, then the record. Parallel commits will make it one.
		roundTrips(t, "two-range transaction in the leaseholders' region", twoRangeRounds*quorum, func() {
			exec(t, near, "BEGIN")
			exec(t, near, "UPDATE a SET v = v + 1 WHERE id = $1", 1)
			exec(t, near, "UPDATE b SET v = v - 1 WHERE id = $1", 2)
			exec(t, near, "COMMIT")
		})
	})
}

// twoRangeRounds is how many rounds of consensus a client waits for when it writes two ranges.
const twoRangeRounds = 2
