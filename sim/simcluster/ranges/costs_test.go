package ranges_test

import (
	"context"
	"math/rand/v2"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"

	"meridian/sim"
	"meridian/sim/simcluster"
	"meridian/sim/simcluster/simtest"
)

// costs are what a transaction costs all nodes and its client together. The time is virtual, so it consists of messages and syncs.
type costs struct {
	allocations float64
	took        time.Duration
}

// cost is the least of three runs of a transaction, many times each: other work of the nodes falls into some of them.
func cost(f func()) costs {
	const times = 1000
	for range times / 2 {
		f() // plans, caches and pools are warm
	}
	best := costs{}
	for i := range 3 {
		var a, b runtime.MemStats
		runtime.ReadMemStats(&a)
		start := time.Now()
		for range times {
			f()
		}
		took := time.Since(start) / times
		runtime.ReadMemStats(&b)
		if n := float64(b.Mallocs-a.Mallocs) / times; i == 0 || n < best.allocations {
			best.allocations = n
		}
		if i == 0 || took < best.took {
			best.took = took
		}
	}
	return best
}

// pgbench makes the tables of pgbench, with few rows, and returns its transactions.
func pgbench(t *testing.T, conn *pgx.Conn) map[string]func() {
	t.Helper()
	for _, s := range []string{
		"CREATE TABLE pgbench_history(tid int,bid int,aid int,delta int,mtime timestamp,filler char(22))",
		"CREATE TABLE pgbench_tellers(tid int not null primary key,bid int,tbalance int,filler char(84))",
		"CREATE TABLE pgbench_accounts(aid int not null primary key,bid int,abalance int,filler char(84))",
		"CREATE TABLE pgbench_branches(bid int not null primary key,bbalance int,filler char(88))",
		"INSERT INTO pgbench_branches SELECT g, 0, '' FROM generate_series(1, 10) g",
		"INSERT INTO pgbench_tellers SELECT g, 1, 0, '' FROM generate_series(1, 100) g",
		"INSERT INTO pgbench_accounts SELECT g, 1, 0, '' FROM generate_series(1, 1000) g",
		"ANALYZE",
	} {
		simtest.Exec(t, conn, s)
	}
	for name, s := range map[string]string{
		"account": "UPDATE pgbench_accounts SET abalance = abalance + $1 WHERE aid = $2",
		"balance": "SELECT abalance FROM pgbench_accounts WHERE aid = $1",
		"teller":  "UPDATE pgbench_tellers SET tbalance = tbalance + $1 WHERE tid = $2",
		"branch":  "UPDATE pgbench_branches SET bbalance = bbalance + $1 WHERE bid = $2",
		"history": "INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES ($1, $2, $3, $4, CURRENT_TIMESTAMP)",
	} {
		if _, err := conn.Prepare(context.Background(), name, s); err != nil {
			t.Fatal(err)
		}
	}
	dice := rand.New(rand.NewPCG(1, 2))
	return map[string]func(){
		"select-only": func() { simtest.Exec(t, conn, "balance", 1+dice.IntN(1000)) },
		"simple-update": func() {
			aid := 1 + dice.IntN(1000)
			simtest.Exec(t, conn, "BEGIN")
			simtest.Exec(t, conn, "account", 1, aid)
			simtest.Exec(t, conn, "balance", aid)
			simtest.Exec(t, conn, "history", 1, 1, aid, 1)
			simtest.Exec(t, conn, "END")
		},
		"tpcb-like": func() {
			aid, tid, bid := 1+dice.IntN(1000), 1+dice.IntN(100), 1+dice.IntN(10)
			simtest.Exec(t, conn, "BEGIN")
			simtest.Exec(t, conn, "account", 1, aid)
			simtest.Exec(t, conn, "balance", aid)
			simtest.Exec(t, conn, "teller", 1, tid)
			simtest.Exec(t, conn, "branch", 1, bid)
			simtest.Exec(t, conn, "history", tid, bid, aid, 1)
			simtest.Exec(t, conn, "END")
		},
	}
}

// TestTransactionsCostNoMore pins the price of pgbench's transactions on the plain leader path, whose tables have neither regions nor another protocol:
// allocations, counted exactly, and the time of their messages and syncs. Nothing that other tables need may add to it.
func TestTransactionsCostNoMore(t *testing.T) { // not parallel: it counts the allocations of the process
	if raceDetector {
		t.Skip("the race detector allocates")
	}
	for _, l := range []struct {
		nodes  int
		script string
		costs
	}{
		{1, "select-only", costs{32.2, 500 * time.Microsecond}},
		{1, "simple-update", costs{225, 2500 * time.Microsecond}},
		{1, "tpcb-like", costs{304, 3500 * time.Microsecond}},
		{3, "select-only", costs{33, 500 * time.Microsecond}},
		{3, "simple-update", costs{430, 3000 * time.Microsecond}},
		{3, "tpcb-like", costs{520, 4000 * time.Microsecond}},
	} {
		synctest.Test(t, func(t *testing.T) {
			one, err := sim.NewRegions([]string{"us-east1"})
			if err != nil {
				t.Fatal(err)
			}
			c := simcluster.Start(t, simcluster.Options{Regions: one, NodesPerRegion: l.nodes, Log: simtest.LogTo()})
			simtest.Replicated(t, c, l.nodes)
			conn := simtest.Connect(t, c, 0)
			scripts := pgbench(t, conn)
			if err := c.TransferLeases(context.Background(), 0); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Second)
			got := cost(scripts[l.script])
			t.Logf("%d nodes, %s: %.2f allocations, %v", l.nodes, l.script, got.allocations, got.took)
			if got.allocations > l.allocations || got.took > l.took+l.took/20 {
				t.Errorf("%s costs %.2f allocations and %v on %d nodes, more than %v and %v", l.script, got.allocations, got.took, l.nodes, l.allocations, l.took)
			}
		})
	}
}
