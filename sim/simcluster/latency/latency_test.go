package latency_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"

	"meridian/sim/simcluster/simtest"
)

// TestRoundTrips pins the wide-area round trips of each operation: exactly, in virtual time. The leaseholders are in
// us-east1; the nearest quorum is us-east1 with us-west1, 63 ms away; europe-west1 is 87 ms away.
func TestRoundTrips(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := simtest.WideArea(t)
		near, far := simtest.Connect(t, c, 0), simtest.Connect(t, c, 2)
		simtest.Exec(t, near, "CREATE TABLE a (id int PRIMARY KEY, v int)")
		simtest.Exec(t, near, "CREATE TABLE b (id int PRIMARY KEY, v int)")
		simtest.Exec(t, near, "INSERT INTO a SELECT g, 0 FROM generate_series(1, 10) g")
		simtest.Exec(t, near, "INSERT INTO b SELECT g, 0 FROM generate_series(1, 10) g")
		simtest.Exec(t, near, "ALTER TABLE b SPLIT AT VALUES (0)")
		time.Sleep(time.Second)
		simtest.Exec(t, far, "SELECT 1 FROM a")

		const quorum, ocean = 63 * time.Millisecond, 87 * time.Millisecond
		read := func(conn *pgx.Conn) func() {
			return func() { simtest.Exec(t, conn, "SELECT v FROM a WHERE id = $1", 1) }
		}
		simtest.RoundTrips(t, "read in the leaseholder's region", 0, read(near))
		simtest.RoundTrips(t, "read from another region", ocean, read(far))
		simtest.RoundTrips(t, "one-range write in the leaseholder's region", quorum, func() { simtest.Exec(t, near, "UPDATE a SET v = v + 1 WHERE id = $1", 1) })
		simtest.RoundTrips(t, "insert in the leaseholder's region", quorum, func() {
			simtest.Exec(t, near, "INSERT INTO a VALUES ((SELECT max(id) + 1 FROM a), 0)")
		})
		simtest.RoundTrips(t, "one-range transaction of three statements", quorum, func() {
			simtest.Exec(t, near, "BEGIN")
			simtest.Exec(t, near, "UPDATE a SET v = v + 1 WHERE id = $1", 1)
			simtest.Exec(t, near, "UPDATE a SET v = v - 1 WHERE id = $1", 2)
			simtest.Exec(t, near, "SELECT sum(v) FROM a")
			simtest.Exec(t, near, "COMMIT")
		})
		two := func() {
			simtest.Exec(t, near, "BEGIN")
			simtest.Exec(t, near, "UPDATE a SET v = v + 1 WHERE id = $1", 1)
			simtest.Exec(t, near, "UPDATE b SET v = v - 1 WHERE id = $1", 2)
			simtest.Exec(t, near, "COMMIT")
		}
		// Parallel commit (CRDB'20 §3.1): intents and the STAGING record travel in the same round.
		simtest.RoundTrips(t, "two-range transaction in the leaseholders' region", quorum, two)
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
		simtest.RoundTrips(t, "two-range transaction from another region", 3*ocean+quorum, func() {
			simtest.Exec(t, far, "BEGIN")
			simtest.Exec(t, far, "UPDATE a SET v = v + 1 WHERE id = $1", 1)
			simtest.Exec(t, far, "UPDATE b SET v = v - 1 WHERE id = $1", 2)
			simtest.Exec(t, far, "COMMIT")
		})
		simtest.RoundTrips(t, "read-only transaction of three statements", 0, func() {
			simtest.Exec(t, near, "BEGIN")
			simtest.Exec(t, near, "SELECT v FROM a WHERE id = $1", 1)
			simtest.Exec(t, near, "SELECT v FROM b WHERE id = $1", 1)
			simtest.Exec(t, near, "SELECT count(*) FROM a, b WHERE a.id = b.id")
			simtest.Exec(t, near, "COMMIT")
		})
		simtest.RoundTrips(t, "one-range write from another region", ocean+quorum, func() {
			simtest.Exec(t, far, "INSERT INTO a VALUES ((SELECT 1000 + (random() * 1e6)::int), 0)")
		})
		// Secondary indexes of a table are in its range as long as it is one range: they cost no round.
		for _, n := range []int{1, 2, 4} {
			name := fmt.Sprintf("i%d", n)
			simtest.Exec(t, near, "CREATE TABLE "+name+" (id int PRIMARY KEY, c1 int, c2 int, c3 int, c4 int)")
			for i := 1; i <= n; i++ {
				simtest.Exec(t, near, fmt.Sprintf("CREATE INDEX ON %s (c%d)", name, i))
			}
			id := 0
			insert := func() { id++; simtest.Exec(t, near, "INSERT INTO "+name+" VALUES ($1, $1, $1, $1, $1)", id) }
			simtest.RoundTrips(t, fmt.Sprintf("insert with %d secondary indexes, one range", n), quorum, insert)
			for i := 1; i <= n; i++ {
				simtest.Exec(t, near, fmt.Sprintf("ALTER INDEX %s@%s_c%d_idx SPLIT AT VALUES (0)", name, name, i))
			}
			simtest.RoundTrips(t, fmt.Sprintf("insert with %d secondary indexes, each in its own range", n), quorum, insert)
		}
	})
}
