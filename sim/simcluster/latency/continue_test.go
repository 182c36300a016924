package latency_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"

	"meridian/server"
	"meridian/sim"
	"meridian/sim/simcluster"
	"meridian/sim/simcluster/simtest"
)

// Snapshot reads that go on at another replica (Spanner §4.2.2): a gateway reads a large table a page at a time, each page at the same timestamp, from the key that the page before has reached.
// The replica that serves the pages ends in the middle.

const (
	continueRows  = 3000
	continueBytes = 1600 // of each row, so that a page of a megabyte has about 650 rows
	gatewayNode   = 4    // in europe-west1, without a replica
	nearNode      = 2    // in europe-west1
	nextNode      = 3    // in europe-west1
)

// continueWorld has an externally consistent database, whose table has its leaseholder in us-east1 and two of five replicas in europe-west1. Two nodes of other regions have one each.
func continueWorld(t *testing.T, o simcluster.Options) *fiveRegions {
	t.Helper()
	o.Regions, o.Nodes, o.MaxOffset, o.Log = sim.FiveRegions(), []int{1, 1, 3, 1, 1}, 10*time.Millisecond, simtest.LogTo()
	c := simcluster.Start(t, o)
	f := &fiveRegions{T: t, c: c, conn: simtest.Connect(t, c, 0)}
	simtest.Exec(t, f.conn, "CREATE DATABASE d")
	simtest.Exec(t, f.conn, "ALTER DATABASE d SET external_consistency = on")
	near := simtest.ConnectTo(t, c, 0, "d")
	simtest.Exec(t, near, "CREATE TABLE t (id int PRIMARY KEY, v int, pad text)")
	for i := range 4 {
		simtest.Exec(t, near, fmt.Sprintf("INSERT INTO t SELECT g, 0, repeat('x', %d) FROM generate_series(%d, %d) g", continueBytes, i*continueRows/4+1, (i+1)*continueRows/4))
		simtest.Exec(t, near, fmt.Sprintf("ALTER TABLE t SPLIT AT VALUES (%d)", i*continueRows/4+1))
	}
	time.Sleep(10 * time.Second)
	for i := range c.Len() {
		c.Node(i).Store().PauseQueues(true)
	}
	f.place(0, 1, nearNode, nextNode, 5)
	f.slowNext()
	return f
}

// slowNext makes the second of the near replicas the farther one.
func (f *fiveRegions) slowNext() {
	a, b := f.c.Machines[gatewayNode].Name, f.c.Machines[nextNode].Name
	f.c.Network.Slow(a, b, time.Millisecond)
	f.c.Network.Slow(b, a, time.Millisecond)
}

// continuedScan is a way to read the table.
type continuedScan struct {
	name string
	// begin comes before the query; step is how many rows each FETCH asks for, zero: the query answers all.
	begin, bound string
	step         int
}

var continuedScans = []continuedScan{
	{"a given time", "", "AS OF SYSTEM TIME '-6s'", 0},
	{"bounded staleness", "", "AS OF SYSTEM TIME with_max_staleness('30s')", 0},
	{"bounded staleness, nearest only", "", "AS OF SYSTEM TIME with_max_staleness('30s', true)", 0},
	{"a least timestamp", "", "AS OF SYSTEM TIME with_min_timestamp(now() - '30s'::interval)", 0},
	{"read only", "BEGIN READ ONLY", "", 0},
	{"a cursor at a given time", "BEGIN AS OF SYSTEM TIME '-6s'", "", 500},
	{"a cursor with bounded staleness", "BEGIN AS OF SYSTEM TIME with_max_staleness('30s')", "", 500},
	{"a cursor, read only", "BEGIN READ ONLY", "", 500},
}

// scanned is what a scan has read, and how.
type scanned struct {
	took, longest time.Duration // longest is of a single FETCH
	bytes         int64         // that came to the gateway from other nodes
}

// arrived is what has come to the gateway from nodes.
func (f *fiveRegions) arrived() (n int64) {
	for _, m := range f.c.Machines {
		n += f.c.Network.Stats(m.Name, f.c.Machines[gatewayNode].Name).Bytes
	}
	return n
}

// scan reads the table and checks that it is a snapshot: each row once, in order, and the two whose sum never changes. between is called before each FETCH after the first.
func (f *fiveRegions) scan(conn *pgx.Conn, s continuedScan, between func()) (out scanned) {
	f.Helper()
	ctx := context.Background()
	from := f.arrived()
	begin := time.Now()
	next, sum, bad := 1, 0, 0
	take := func(query string) (n int) {
		at := time.Now()
		rows, err := conn.Query(ctx, query, pgx.QueryExecModeSimpleProtocol)
		if err != nil {
			f.Errorf("%s: %v", s.name, err)
			return 0
		}
		defer rows.Close()
		for ; rows.Next(); n++ {
			var id, v int
			var pad string
			if err := rows.Scan(&id, &v, &pad); err != nil {
				f.Fatal(err)
			}
			if id != next || len(pad) != continueBytes {
				bad++
			}
			next, sum = id+1, sum+v
		}
		if err := rows.Err(); err != nil {
			f.Errorf("%s: after %d rows: %v", s.name, next-1, err)
		}
		out.longest = max(out.longest, time.Since(at))
		return n
	}
	if s.begin != "" {
		simtest.Exec(f.T, conn, s.begin)
	}
	if query := "SELECT id, v, pad FROM t " + s.bound + " ORDER BY id"; s.step == 0 {
		take(query)
	} else {
		simtest.Exec(f.T, conn, "DECLARE c CURSOR FOR "+query)
		for {
			if take(fmt.Sprintf("FETCH %d FROM c", s.step)) == 0 {
				break
			}
			between()
		}
	}
	if s.begin != "" && conn.PgConn().TxStatus() != 'I' {
		simtest.Exec(f.T, conn, "COMMIT")
	}
	out.took, out.bytes = time.Since(begin), f.arrived()-from
	if next != continueRows+1 || sum != 0 || bad > 0 {
		f.Errorf("%s: the scan ends after row %d, with a sum of %d and %d gaps", s.name, next-1, sum, bad)
	}
	return out
}

// transfers changes two rows at the ends of the table at the same time, over and over, until stop is closed.
func (f *fiveRegions) transfers(stop chan struct{}) {
	conn, err := f.c.Connect(context.Background(), 0, "d")
	if err != nil {
		f.Error(err)
		return
	}
	defer conn.Close(context.Background())
	for {
		select {
		case <-stop:
			return
		case <-time.After(50 * time.Millisecond):
			_, _ = conn.Exec(context.Background(), fmt.Sprintf("UPDATE t SET v = v + CASE id WHEN 1 THEN 1 ELSE -1 END WHERE id IN (1, %d)", continueRows))
		}
	}
}

// end is a way in which the node that serves a scan ends.
type end struct {
	name string
	do   func(f *fiveRegions, node int)
	// most is how long the scan may stand still.
	most time.Duration
}

const (
	// detected is the longest time until a link is quiet (transport.T12), with what is local.
	detected = 800 * time.Millisecond
	// promised is what the promises for four ranges take, one after the other, that a replica in europe-west1 asks of us-east1.
	promised = 4 * (87 + 63) * time.Millisecond
)

var ends = []end{
	{"killed", func(f *fiveRegions, node int) { f.c.Crash(node, 0, false) }, 20 * time.Millisecond},
	{"without power", func(f *fiveRegions, node int) { f.c.Crash(node, 0, true) }, detected},
	{"cut off from the gateway", func(f *fiveRegions, node int) {
		f.c.Network.Partition(f.c.Machines[node].Name, f.c.Machines[gatewayNode].Name)
	}, detected},
	{"isolated", func(f *fiveRegions, node int) { f.c.Network.Isolate(f.c.Machines[node].Name) }, detected},
	{"drained", func(f *fiveRegions, node int) {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		f.c.Node(node).Drain(ctx, server.DrainOptions{})
		f.c.StopNode(node)
	}, 20 * time.Millisecond},
}

// served counts the batches that a node has served without the lease.
func (f *fiveRegions) served(node int) int64 {
	if n := f.c.Node(node); n != nil {
		return n.LeaderMetrics().FollowerReads.Load()
	}
	return 0
}

// TestScanContinues (route.RO8): a long scan of a snapshot, at a given time, with a bound of staleness or in a read-only transaction of the present, goes on at another replica when that which
// serves it ends in the middle: from the key that it has reached, at the same timestamp, with no error. At most the page that was on its way is read again. Each end meets two of
// the ways to read, and each way one end or two; MERIDIAN_ALL=1 combines all.
func TestScanContinues(t *testing.T) {
	t.Parallel()
	for i, e := range ends {
		t.Run(strings.ReplaceAll(e.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := continueWorld(t, simcluster.Options{})
				stop, ended := make(chan struct{}), make(chan struct{})
				go func() { defer close(ended); f.transfers(stop) }()
				for j, s := range continuedScans {
					if !simtest.All() && (i+j)%4 > 0 {
						continue
					}
					conn := simtest.ConnectTo(t, f.c, gatewayNode, "d")
					time.Sleep(10 * time.Second)
					f.scan(conn, s, func() {}) // knows where the ranges are
					before := f.served(nearNode)
					whole := f.scan(conn, s, func() {})
					pages := f.served(nearNode) - before
					if pages < 7 {
						t.Errorf("%s: only %d pages from the near replica", s.name, pages)
					}
					// In the middle, either while pages are read, or between two FETCHes.
					before = f.served(nearNode)
					var fetches int
					gone := make(chan struct{})
					if s.step == 0 {
						go func() {
							defer close(gone)
							for f.served(nearNode) < before+pages/2 {
								time.Sleep(100 * time.Microsecond)
							}
							e.do(f, nearNode)
						}()
					}
					broken := f.scan(conn, s, func() {
						if fetches++; fetches == continueRows/s.step/2 {
							e.do(f, nearNode)
							close(gone)
						}
					})
					<-gone
					again := broken.bytes - whole.bytes
					t.Logf("%s, %s: %d pages; %v, and %v longer; %d KiB, and %d KiB more", e.name, s.name, pages, whole.took, broken.took-whole.took, whole.bytes>>10, again>>10)
					if again > 1200<<10 {
						t.Errorf("%s, %s: %d KiB were read again", e.name, s.name, again>>10)
					}
					most := e.most
					if strings.Contains(s.name, "read only") {
						most += promised
					}
					if broken.longest-whole.longest > most {
						t.Errorf("%s, %s: stood still for %v", e.name, s.name, broken.longest-whole.longest)
					}
					f.c.Network.HealAll()
					f.slowNext()
					if f.c.Node(nearNode) == nil {
						f.c.Boot(nearNode)
						f.c.WaitReady(nearNode)
						f.c.Node(nearNode).Store().PauseQueues(true)
					}
					conn.Close(context.Background())
				}
				close(stop)
				<-ended
			})
		})
	}
}

// TestScanContinuesAtALaggingReplica: the timestamp on which a scan has agreed with the near replica is not closed yet at the replica that takes its place. That one asks the leaseholder, waits until it
// has what was written before, and serves the rest, with nearest_only, too. If it lags by more than it may wait, the next replica serves the rest.
func TestScanContinuesAtALaggingReplica(t *testing.T) {
	t.Parallel()
	for i, lag := range []time.Duration{500 * time.Millisecond, 1200 * time.Millisecond} {
		t.Run(lag.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := continueWorld(t, simcluster.Options{})
				stop, ended := make(chan struct{}), make(chan struct{})
				go func() { defer close(ended); f.transfers(stop) }()
				for _, s := range continuedScans[1+i : 3] { // the first one may go to the leaseholder as well
					f.c.Network.Slow(f.c.Machines[0].Name, f.c.Machines[nextNode].Name, lag)
					f.c.Network.Slow(f.c.Machines[1].Name, f.c.Machines[nextNode].Name, lag)
					conn := simtest.ConnectTo(t, f.c, gatewayNode, "d")
					time.Sleep(10 * time.Second)
					f.scan(conn, s, func() {})
					whole := f.scan(conn, s, func() {})
					near, next := f.served(nearNode), f.served(nextNode)
					gone := make(chan struct{})
					go func() {
						defer close(gone)
						for f.served(nearNode) < near+4 {
							time.Sleep(100 * time.Microsecond)
						}
						f.c.Crash(nearNode, 0, false)
					}()
					broken := f.scan(conn, s, func() {})
					<-gone
					t.Logf("%s, a lag of %v: %v longer, %d pages at the next replica", s.name, lag, broken.took-whole.took, f.served(nextNode)-next)
					if again := broken.bytes - whole.bytes; again > 1200<<10 {
						t.Errorf("%s: %d KiB were read again", s.name, again>>10)
					}
					f.c.Network.HealAll()
					f.slowNext()
					f.c.Boot(nearNode)
					f.c.WaitReady(nearNode)
					f.c.Node(nearNode).Store().PauseQueues(true)
					conn.Close(context.Background())
				}
				close(stop)
				<-ended
			})
		})
	}
}

// TestScanContinuesWithoutTheLeaseholder: the leaseholder of all ranges ends in the middle of a scan. Scans of the past that have agreed with the near replica do not notice. A read-only transaction of the present needs a promise
// for each range that it has not read yet, which the next leaseholder gives at the transaction's timestamp.
func TestScanContinuesWithoutTheLeaseholder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := continueWorld(t, simcluster.Options{})
		for _, s := range continuedScans {
			conn := simtest.ConnectTo(t, f.c, gatewayNode, "d")
			time.Sleep(10 * time.Second)
			f.scan(conn, s, func() {})
			whole := f.scan(conn, s, func() {})
			served := f.served(nearNode)
			gone := make(chan struct{})
			go func() {
				defer close(gone)
				for f.served(nearNode) < served+4 {
					time.Sleep(100 * time.Microsecond)
				}
				f.c.Crash(0, 0, true)
			}()
			broken := f.scan(conn, s, func() {})
			<-gone
			t.Logf("%s: %v longer, %d KiB more", s.name, broken.took-whole.took, (broken.bytes-whole.bytes)>>10)
			most := 20 * time.Millisecond
			if strings.Contains(s.name, "read only") {
				most = 8 * time.Second // the lease ends, and another one begins
			}
			if broken.longest-whole.longest > most || broken.bytes-whole.bytes > 1200<<10 {
				t.Errorf("%s: stood still for %v", s.name, broken.longest-whole.longest)
			}
			f.c.Boot(0)
			f.c.WaitReady(0)
			f.c.Node(0).Store().PauseQueues(true)
			if err := f.c.TransferLeases(context.Background(), 0); err != nil {
				t.Fatal(err)
			}
			conn.Close(context.Background())
		}
	})
}
