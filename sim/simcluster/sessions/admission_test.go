package sessions_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"

	"meridian/admission"
	"meridian/server"
	"meridian/sim/simcluster"
	"meridian/sim/simcluster/simtest"
)

// crowded are nodes that run two statements at once and have no processors left, so that limits hardly grow.
func crowded(_ int, o *server.Options) {
	o.Slots = 2
	o.Load = func() admission.Load { return admission.Load{} }
}

// TestAdmissionQueue: a statement that queues for admission is visible in pg_stat_activity, statement_timeout bounds
// its wait, a cancel ends it, and a transaction that holds locks does not wait at all.
func TestAdmissionQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := simcluster.Start(t, simcluster.Options{NodesPerRegion: 1, Configure: crowded})
		ctx := context.Background()
		holder := simtest.Connect(t, c, 0)
		simtest.Exec(t, holder, "CREATE TABLE t (id int PRIMARY KEY, v int)")
		simtest.Exec(t, holder, "INSERT INTO t VALUES (1, 0)")
		conns := make([]*pgx.Conn, 5)
		for i := range conns {
			conns[i] = simtest.Connect(t, c, 0)
			for range 10 { // they wait for no locks, and have shown it
				simtest.Exec(t, conns[i], "SELECT 1")
			}
		}
		simtest.Exec(t, conns[2], "SET statement_timeout = '100ms'")
		simtest.Exec(t, holder, "BEGIN")
		simtest.Exec(t, holder, "UPDATE t SET v = 1 WHERE id = 1")
		time.Sleep(time.Second) // another session has its place by now

		var all sync.WaitGroup
		for _, conn := range conns[:2] {
			all.Go(func() { simtest.Exec(t, conn, "SELECT pg_sleep(1)") })
		}
		time.Sleep(5 * time.Millisecond)
		start := time.Now()
		all.Go(func() {
			_, err := conns[2].Exec(ctx, "SELECT 2")
			simtest.WantCode(t, err, "57014")
			if d := time.Since(start); d < 100*time.Millisecond || d > 120*time.Millisecond {
				t.Errorf("statement_timeout of 100 ms ended the wait after %s", d)
			}
		})
		all.Go(func() {
			_, err := conns[3].Exec(ctx, "SELECT 3")
			simtest.WantCode(t, err, "57014")
			if d := time.Since(start); d < 50*time.Millisecond || d > 60*time.Millisecond {
				t.Errorf("a cancel after 50 ms ended the wait after %s", d)
			}
		})
		synctest.Wait()
		time.Sleep(20 * time.Millisecond)
		began := time.Now()
		var n int
		const queued = "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND wait_event_type = 'Extension' AND wait_event = 'Admission'"
		if err := holder.QueryRow(ctx, queued).Scan(&n); err != nil || n != 3 {
			t.Errorf("pg_stat_activity shows %d sessions that queue, want 3: the holder has a place (%v)", n, err)
		}
		if d := time.Since(began); d > 20*time.Millisecond {
			t.Errorf("a transaction that holds locks waited for %s", d)
		}
		time.Sleep(time.Until(start.Add(50 * time.Millisecond)))
		if err := conns[3].PgConn().CancelRequest(ctx); err != nil {
			t.Error(err)
		}
		all.Wait()
		simtest.Exec(t, conns[2], "RESET statement_timeout")
		simtest.Exec(t, conns[3], "SELECT 4") // the session goes on
		simtest.Exec(t, holder, "COMMIT")
	})
}

// TestAdmissionNoDeadlock: three nodes that admit two statements each, and clients at all of them whose transactions lock
// rows of ranges on all three. An admitted transaction never waits for a queued one: there are as many transactions as the rows
// allow, and no client waits for long.
func TestAdmissionNoDeadlock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := simcluster.Start(t, simcluster.Options{Configure: crowded})
		simtest.Replicated(t, c, 3)
		first := simtest.Connect(t, c, 0)
		simtest.Exec(t, first, "CREATE TABLE t (id int PRIMARY KEY, v int)")
		simtest.Exec(t, first, "INSERT INTO t SELECT g, 0 FROM generate_series(0, 5) AS g")
		simtest.Exec(t, first, "ALTER TABLE t SPLIT AT VALUES (2), (4)")
		const length = 6 * time.Second
		ctx, stop := context.WithTimeout(context.Background(), length)
		defer stop()
		var all sync.WaitGroup
		var done atomic.Int64
		var slowest atomic.Int64
		for i := range 30 {
			conn := simtest.Connect(t, c, i%3)
			all.Go(func() {
				for n := 0; ctx.Err() == nil; n++ {
					start := time.Now()
					err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
						for _, id := range []int{(i + n) % 3, 3 + (i+2*n)%3} {
							if _, err := tx.Exec(ctx, "UPDATE t SET v = v + 1 WHERE id = $1", id); err != nil {
								return err
							}
							time.Sleep(time.Millisecond) // the client thinks
						}
						return nil
					})
					if ctx.Err() != nil {
						return
					}
					if err != nil {
						t.Error(err)
						return
					}
					done.Add(1)
					slowest.Store(max(slowest.Load(), int64(time.Since(start))))
				}
			})
		}
		all.Wait()
		t.Logf("%d transactions, the slowest %s", done.Load(), time.Duration(slowest.Load()))
		if n := done.Load(); n < 75*int64(length/time.Second) {
			t.Errorf("%d transactions in %s", n, length)
		}
		if d := time.Duration(slowest.Load()); d > 3*time.Second {
			t.Errorf("one took %s", d)
		}
		var sum int64
		last := simtest.Connect(t, c, 1)
		if err := last.QueryRow(context.Background(), "SELECT sum(v) FROM t").Scan(&sum); err != nil || sum < 2*done.Load() || sum > 2*(done.Load()+30) {
			t.Errorf("the rows add up to %d after %d transactions of two updates (%v)", sum, done.Load(), err)
		}
		for i := range c.Len() {
			if g := fmt.Sprint(c.Node(i).Gate().Gauges().Fresh, c.Node(i).Gate().Gauges().Open); g != "0 0" {
				t.Errorf("node %d: %s still queue", i+1, g)
			}
		}
	})
}

// TestAdmissionHotRow: a hundred clients update one row by prepared statements. They queue at the gate, in front of their
// transactions, and a few at the row: a transaction that waits at the row for seconds has to write a record for its
// heartbeats, and commits by it. With clients at all nodes, two of the gates learn of waits at the row's leaseholder late,
// from its answers: about half of the clients queue at the gates.
func TestAdmissionHotRow(t *testing.T) {
	t.Parallel()
	for nodes, most := range map[int]int{1: 8, 3: 70} {
		t.Run(fmt.Sprint("nodes=", nodes), func(t *testing.T) { testAdmissionHotRow(t, nodes, most) })
	}
}

func testAdmissionHotRow(t *testing.T, nodes, bound int) {
	const rounds = 5
	synctest.Test(t, func(t *testing.T) {
		c := simcluster.Start(t, simcluster.Options{LocalRTT: 40 * time.Millisecond, Configure: func(i int, o *server.Options) {
			crowded(i, o)
			o.Slots = 16
		}})
		simtest.Replicated(t, c, 3)
		first := simtest.Connect(t, c, 0)
		simtest.Exec(t, first, "CREATE TABLE hot (id int PRIMARY KEY, v int)")
		simtest.Exec(t, first, "INSERT INTO hot VALUES (1, 0)")
		conns := make([]*pgx.Conn, 100)
		for i := range conns {
			conns[i] = simtest.Connect(t, c, i%nodes)
			if _, err := conns[i].Prepare(context.Background(), "add", "UPDATE hot SET v = v + 1 WHERE id = $1"); err != nil {
				t.Fatal(err)
			}
		}
		ctx := context.Background()
		before := c.Node(0).LeaderMetrics().OnePhaseCommits.Load()
		var all sync.WaitGroup
		var running atomic.Int64
		for _, conn := range conns {
			running.Add(1)
			all.Go(func() {
				defer running.Add(-1)
				for range rounds {
					if _, err := conn.Exec(ctx, "add", 1); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		most, begin := 0, time.Now()
		for running.Load() > 0 {
			time.Sleep(100 * time.Millisecond)
			var n int
			if err := first.QueryRow(ctx, "SELECT count(*) FROM pg_locks WHERE NOT granted").Scan(&n); err != nil {
				t.Fatal(err)
			}
			most = max(most, n)
		}
		all.Wait()
		onePhase := c.Node(0).LeaderMetrics().OnePhaseCommits.Load() - before
		t.Logf("%s; at most %d waited at the row, %d commits of one phase", time.Since(begin), most, onePhase)
		if most > bound {
			t.Errorf("%d waited at the row at once", most)
		}
		if nodes == 1 && onePhase < int64(len(conns)*rounds) {
			t.Errorf("%d of %d committed in one phase", onePhase, len(conns)*rounds)
		}
	})
}

// TestAdmissionRivals: clients read a whole table and change a row of it, so that of any two transactions at once one loses. The
// gate finds out and lets them in one after the other: together they get as much done as one of them alone, and few of
// their transactions fail.
func TestAdmissionRivals(t *testing.T) {
	t.Parallel()
	const length = 10 * time.Second
	synctest.Test(t, func(t *testing.T) {
		c := simcluster.Start(t, simcluster.Options{NodesPerRegion: 1, Configure: func(i int, o *server.Options) {
			crowded(i, o)
			o.Slots = 64
		}})
		first := simtest.Connect(t, c, 0)
		simtest.Exec(t, first, "CREATE TABLE t (id int PRIMARY KEY, v int)")
		simtest.Exec(t, first, "INSERT INTO t SELECT g, 0 FROM generate_series(0, 31) AS g")
		run := func(clients int) (committed, failed int64) {
			ctx, stop := context.WithTimeout(context.Background(), length)
			defer stop()
			var all sync.WaitGroup
			var won, lost atomic.Int64
			for i := range clients {
				conn := simtest.Connect(t, c, 0)
				all.Go(func() {
					for ctx.Err() == nil {
						err := pgx.BeginFunc(context.Background(), conn, func(tx pgx.Tx) error {
							time.Sleep(time.Millisecond)
							var sum int64
							if err := tx.QueryRow(context.Background(), "SELECT sum(v) FROM t").Scan(&sum); err != nil {
								return err
							}
							time.Sleep(time.Millisecond)
							_, err := tx.Exec(context.Background(), "UPDATE t SET v = v + 1 WHERE id = $1", i%32)
							time.Sleep(time.Millisecond)
							return err
						})
						if err == nil {
							won.Add(1)
							continue
						}
						simtest.WantCode(t, err, "40001")
						lost.Add(1)
					}
				})
			}
			all.Wait()
			return won.Load(), lost.Load()
		}
		alone, none := run(1)
		together, lost := run(40)
		t.Logf("one client: %d committed, %d failed; forty: %d and %d", alone, none, together, lost)
		if none > 0 || together < alone*7/10 {
			t.Errorf("forty clients committed %d times, one alone %d", together, alone)
		}
		if lost > together/4 {
			t.Errorf("%d failed", lost)
		}
		var sum int64
		if err := first.QueryRow(context.Background(), "SELECT sum(v) FROM t").Scan(&sum); err != nil || sum != alone+together {
			t.Errorf("the rows add up to %d (%v)", sum, err)
		}
	})
}

// TestRivalsHaveLeaders: a transaction that has lost a conflict after its client had seen answers narrows the room of rivals if it has met leaders' ranges only. One that waits for the wide area of ranges without a leader costs
// the node little, and does not.
func TestRivalsHaveLeaders(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, _ := simtest.FiveAcceptors(t)
		simtest.Stocked(t, c, 100)
		a, b := simtest.ConnectTo(t, c, 0, "d"), simtest.ConnectTo(t, c, 0, "d")
		simtest.Exec(t, a, "CREATE TABLE led (id int PRIMARY KEY, n int)")
		simtest.Exec(t, a, "INSERT INTO led VALUES (7, 100)")
		time.Sleep(2 * time.Second)
		lost := &c.Node(0).Gate().Metrics.Lost
		for _, x := range []struct {
			name   string
			tables []string // of which all are read, and written
			want   int64
		}{
			{"a leader's range", []string{"led"}, 1},
			{"a range without a leader", []string{"stock"}, 0},
			{"both", []string{"led", "stock"}, 0},
		} {
			before := lost.Load()
			simtest.Exec(t, a, "BEGIN ISOLATION LEVEL SERIALIZABLE")
			var err error
			for _, table := range x.tables {
				simtest.Ask[int](t, a, "SELECT n FROM "+table+" WHERE id = 7")
			}
			for _, table := range x.tables {
				simtest.Exec(t, b, "UPDATE "+table+" SET n = n - 1 WHERE id = 7")
			}
			for _, table := range x.tables {
				if err == nil {
					_, err = a.Exec(context.Background(), "UPDATE "+table+" SET n = 5 WHERE id = 7")
				}
			}
			if err == nil {
				_, err = a.Exec(context.Background(), "COMMIT")
			} else {
				simtest.Exec(t, a, "ROLLBACK")
			}
			simtest.WantCode(t, err, "40001")
			if got := lost.Load() - before; got != x.want {
				t.Errorf("%s: %d losses were counted, want %d", x.name, got, x.want)
			}
			time.Sleep(2 * time.Second)
		}
	})
}

// TestFailedGivesItsPlace: a transaction that has lost and was rolled back has no place at the gate, though its client has not
// said ROLLBACK yet.
func TestFailedGivesItsPlace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := simcluster.Start(t, simcluster.Options{NodesPerRegion: 1})
		ctx := context.Background()
		a, b := simtest.Connect(t, c, 0), simtest.Connect(t, c, 0)
		simtest.Exec(t, a, "CREATE TABLE t (id int PRIMARY KEY, v int)")
		simtest.Exec(t, a, "INSERT INTO t VALUES (1, 0)")
		simtest.Exec(t, a, "BEGIN")
		var v int
		if err := a.QueryRow(ctx, "SELECT v FROM t").Scan(&v); err != nil {
			t.Fatal(err)
		}
		simtest.Exec(t, b, "UPDATE t SET v = 1")
		_, err := a.Exec(ctx, "UPDATE t SET v = v + 1")
		simtest.WantCode(t, err, "40001")
		synctest.Wait()
		if n := c.Node(0).Gate().Gauges().Running; n != 0 {
			t.Errorf("%d have a place", n)
		}
		simtest.Exec(t, a, "ROLLBACK")
	})
}
