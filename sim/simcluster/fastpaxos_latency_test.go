package simcluster_test

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

// TestFirstWriteAfterTheChange: a gateway that has known a table's range as the leader's writes in one round from the first time on, after the table has got the protocol fast_paxos; so does
// one that knows the range before it was split for a new table.
func TestFirstWriteAfterTheChange(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, regions := fiveAcceptors(t)
		stocked(t, c, 100)
		admin := connectTo(t, c, 0, "d")
		exec(t, admin, "CREATE TABLE old (id int PRIMARY KEY, n int)")
		time.Sleep(5 * time.Second)
		for i := range regions.Names {
			conn := connectTo(t, c, i, "d")
			exec(t, conn, "INSERT INTO old VALUES ($1, 1)", 1000+i)
			exec(t, conn, "SELECT * FROM old")
		}
		exec(t, admin, "ALTER TABLE old SET (commit_protocol = 'fast_paxos')")
		exec(t, admin, "CREATE TABLE fresh (id int PRIMARY KEY, n int) WITH (commit_protocol = 'fast_paxos')")
		time.Sleep(10 * time.Second)
		for i, from := range regions.Names {
			for _, table := range []string{"old", "fresh"} {
				conn := connectTo(t, c, i, "d")
				for n := range 2 {
					begun := time.Now()
					exec(t, conn, "INSERT INTO "+table+" VALUES ("+strconv.Itoa(10*i+n)+", 1)")
					took, want := time.Since(begun), fourth(regions, from)
					t.Logf("%-20s %-6s %v of %v", from, table, took, want)
					if took > want+max(want/20, 3*time.Millisecond) {
						t.Errorf("INSERT INTO %s from %s took %v, want %v", table, from, took, want)
					}
					time.Sleep(time.Second)
				}
			}
		}
	})
}
