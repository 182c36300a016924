package latency_test

import (
	"testing"
	"testing/synctest"
	"time"

	"meridian/sim/simcluster/simtest"
)

// TestFollowerReads pins the latency of a stale read: no message crosses the ocean, in any region, also for ranges that
// sleep; the leaseholder serves reads of the present.
func TestFollowerReads(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := simtest.WideArea(t)
		near, far := simtest.Connect(t, c, 0), simtest.Connect(t, c, 2)
		simtest.Exec(t, near, "CREATE TABLE a (id int PRIMARY KEY, v int)")
		simtest.Exec(t, near, "INSERT INTO a SELECT g, 0 FROM generate_series(1, 10) g")
		simtest.Exec(t, near, "CREATE TABLE b (id int PRIMARY KEY, v int)")
		simtest.Exec(t, near, "INSERT INTO b VALUES (1, 1)")
		simtest.Exec(t, near, "ALTER TABLE b SPLIT AT VALUES (0)")
		time.Sleep(10 * time.Second)
		simtest.Exec(t, far, "SELECT 1 FROM a")

		const ocean = 87 * time.Millisecond
		for i := range c.Len() {
			conn := simtest.Connect(t, c, i)
			simtest.RoundTrips(t, "stale read by key", 0, func() {
				simtest.Exec(t, conn, "SELECT v FROM a AS OF SYSTEM TIME follower_read_timestamp() WHERE id = $1", 1)
			})
			simtest.RoundTrips(t, "stale read of an interval ago, two ranges", 0, func() {
				simtest.Exec(t, conn, "SELECT count(*) FROM a, b AS OF SYSTEM TIME '-5s' WHERE a.id = b.id")
			})
			simtest.RoundTrips(t, "stale transaction", 0, func() {
				simtest.Exec(t, conn, "BEGIN AS OF SYSTEM TIME follower_read_timestamp()")
				simtest.Exec(t, conn, "SELECT v FROM a WHERE id = 2")
				simtest.Exec(t, conn, "SELECT v FROM b")
				simtest.Exec(t, conn, "COMMIT")
			})
			simtest.RoundTrips(t, "stale read, the time as a parameter", 0, func() {
				simtest.Exec(t, conn, "SELECT v FROM a AS OF SYSTEM TIME $2 WHERE id = $1", 1, "-5s")
			})
		}
		simtest.RoundTrips(t, "read of the present in the leaseholder's region", 0, func() { simtest.Exec(t, near, "SELECT v FROM a WHERE id = $1", 1) })
		simtest.RoundTrips(t, "read of the present elsewhere", ocean, func() { simtest.Exec(t, far, "SELECT v FROM a WHERE id = $1", 1) })
		simtest.RoundTrips(t, "what is too young to be closed", ocean, func() {
			simtest.Exec(t, far, "SELECT v FROM a AS OF SYSTEM TIME '-1s' WHERE id = $1", 1)
		})
	})
}
