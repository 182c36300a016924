package simcluster_test

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestFollowerReads pins the latency of a stale read: no message crosses the ocean, in any region, also for ranges that
// sleep; the leaseholder serves reads of the present.
func TestFollowerReads(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := wideArea(t)
		near, far := connect(t, c, 0), connect(t, c, 2)
		exec(t, near, "CREATE TABLE a (id int PRIMARY KEY, v int)")
		exec(t, near, "INSERT INTO a SELECT g, 0 FROM generate_series(1, 10) g")
		exec(t, near, "CREATE TABLE b (id int PRIMARY KEY, v int)")
		exec(t, near, "INSERT INTO b VALUES (1, 1)")
		exec(t, near, "ALTER TABLE b SPLIT AT VALUES (0)")
		time.Sleep(10 * time.Second)
		exec(t, far, "SELECT 1 FROM a")

		const ocean = 87 * time.Millisecond
		for i := range c.Len() {
			conn := connect(t, c, i)
			roundTrips(t, "stale read by key", 0, func() {
				exec(t, conn, "SELECT v FROM a AS OF SYSTEM TIME follower_read_timestamp() WHERE id = $1", 1)
			})
			roundTrips(t, "stale read of an interval ago, two ranges", 0, func() {
				exec(t, conn, "SELECT count(*) FROM a, b AS OF SYSTEM TIME '-5s' WHERE a.id = b.id")
			})
			roundTrips(t, "stale transaction", 0, func() {
				exec(t, conn, "BEGIN AS OF SYSTEM TIME follower_read_timestamp()")
				exec(t, conn, "SELECT v FROM a WHERE id = 2")
				exec(t, conn, "SELECT v FROM b")
				exec(t, conn, "COMMIT")
			})
			roundTrips(t, "stale read, the time as a parameter", 0, func() {
				exec(t, conn, "SELECT v FROM a AS OF SYSTEM TIME $2 WHERE id = $1", 1, "-5s")
			})
		}
		roundTrips(t, "read of the present in the leaseholder's region", 0, func() { exec(t, near, "SELECT v FROM a WHERE id = $1", 1) })
		roundTrips(t, "read of the present elsewhere", ocean, func() { exec(t, far, "SELECT v FROM a WHERE id = $1", 1) })
		roundTrips(t, "what is too young to be closed", ocean, func() {
			exec(t, far, "SELECT v FROM a AS OF SYSTEM TIME '-1s' WHERE id = $1", 1)
		})
	})
}
