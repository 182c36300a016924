package simcluster_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"meridian/workload/anomalies"
)

// TestFastPaxosLevelRounds: the rounds of each level of isolation, from a gateway in each of five regions. The default level reads in none and commits in one; a snapshot reads in one round to the fourth-nearest replica; a
// serializable transaction commits in one if it has read nothing but the rows that it replaces, and in two else.
func TestFastPaxosLevelRounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, regions := fiveAcceptors(t)
		stocked(t, c, 100)
		time.Sleep(time.Second)
		for i, from := range regions.Names {
			far := fourth(regions, from)
			conn := connectTo(t, c, i, "d")
			exec(t, conn, "INSERT INTO stock VALUES ($1, 5, $2)", 100+i, "x")
			ask[int](t, conn, "SELECT n FROM stock WHERE id = 7") // the gateway knows the ranges
			time.Sleep(time.Second)
			within := func(what string, most time.Duration, do func()) {
				begun := time.Now()
				do()
				if took := time.Since(begun); took > most+3*time.Millisecond+most/20 {
					t.Errorf("region %d: %s took %v, want %v", i, what, took, most)
				}
			}
			within("a read at the default level", 0, func() { ask[int](t, conn, "SELECT n FROM stock WHERE id = 7") })
			within("a write at the default level", far, func() { exec(t, conn, "UPDATE stock SET n = 6 WHERE id = $1", 100+i) })
			exec(t, conn, "BEGIN ISOLATION LEVEL REPEATABLE READ")
			within("a read of a snapshot", far, func() { ask[int](t, conn, fmt.Sprint("SELECT n FROM stock WHERE id = ", 100+i)) })
			within("a scan of a snapshot", far, func() { ask[int](t, conn, "SELECT count(*) FROM stock") })
			exec(t, conn, "UPDATE stock SET n = 7 WHERE id = $1", 100+i)
			within("the commit of a snapshot's writes", far, func() { exec(t, conn, "COMMIT") })
			time.Sleep(time.Second)
			exec(t, conn, "BEGIN ISOLATION LEVEL SERIALIZABLE")
			exec(t, conn, "UPDATE stock SET n = 8 WHERE id = $1", 100+i)
			within("a serializable commit of what was read", far, func() { exec(t, conn, "COMMIT") })
			time.Sleep(time.Second)
			exec(t, conn, "BEGIN ISOLATION LEVEL SERIALIZABLE")
			ask[int](t, conn, "SELECT n FROM stock WHERE id = 7")
			exec(t, conn, "UPDATE stock SET n = 9 WHERE id = $1", 100+i)
			within("a serializable commit with further reads", 2*far, func() { exec(t, conn, "COMMIT") })
			time.Sleep(time.Second)
		}
	})
}

// TestFastPaxosAnomalies: the campaign of anomalies on tables of the protocol, and on some of it together with some of the leader's. Neither level may show what it forbids, and serializable transactions are in the order of
// time, too.
func TestFastPaxosAnomalies(t *testing.T) {
	t.Parallel()
	for _, seed := range seedsAsked(t, 0, 4) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			a := anomalies.New()
			a.Think = 10 * time.Millisecond
			a.Level = []string{"SERIALIZABLE", "REPEATABLE READ", "SERIALIZABLE"}[seed%3]
			a.Strict = a.Level == "SERIALIZABLE"
			a.FastPaxos = []string{"all", "lists1,values,skew,bank"}[seed%2]
			var out strings.Builder
			a.Out = &out
			var about string
			synctest.Test(t, func(t *testing.T) { about = anomalySeed(t, a, uint64(seed)) })
			if t.Failed() {
				return
			}
			err := a.Judged()
			t.Logf("%s at %s, fast_paxos: %s\n%s", about, a.Level, a.FastPaxos, out.String())
			if err != nil {
				t.Errorf("seed %d, %s: %v", seed, about, err)
			}
		})
	}
}
