package main

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"meridian/keys"
	"meridian/kv"
	"meridian/server"
	"meridian/sim"
	"meridian/sim/simcluster"
)

// The network of the paper's section 5.1, as far as it says: zones less than 1 ms apart. Jitter is what each write may take longer: chosen by us, so that latencies deviate.
const (
	zoneTrip  = 700 * time.Microsecond
	localTrip = 250 * time.Microsecond
	jitter    = 60 * time.Microsecond
)

// paperEpsilon is the half width of true time's interval: the paper's average (section 3).
const paperEpsilon = 4 * time.Millisecond

// zones are regions so near to each other that they are the paper's zones.
func zones(n int) *sim.Regions {
	var names []string
	var trips []float64
	for i := range n {
		names = append(names, "z"+strconv.Itoa(i+1))
	}
	for range n * (n - 1) / 2 {
		trips = append(trips, milliseconds(zoneTrip))
	}
	r, err := sim.NewRegions(names, trips...)
	if err != nil {
		panic(err)
	}
	return r
}

// world is a cluster with one database.
type world struct {
	*simcluster.Cluster
	t        *testing.T
	database string
}

// start starts a cluster whose clocks are off by up to a quarter of epsilon.
func start(t *testing.T, regions *sim.Regions, perRegion int, epsilon time.Duration) *world {
	t.Helper()
	c := simcluster.Start(t, simcluster.Options{Regions: regions, NodesPerRegion: perRegion, MaxOffset: epsilon, LocalRTT: localTrip, Jitter: jitter, Seed: 1,
		Configure: func(_ int, o *server.Options) { o.NonVoters = 0 }})
	for i, m := range c.Machines {
		m.Clock.SetOffset(epsilon / 4 * time.Duration(i%3-1))
	}
	return &world{Cluster: c, t: t}
}

// begin starts a cluster, and makes a database with one replica in each region.
func begin(t *testing.T, regions *sim.Regions, perRegion int, epsilon time.Duration, external bool) *world {
	t.Helper()
	w := start(t, regions, perRegion, epsilon)
	root := w.open(0, "defaultdb")
	must(t, root, fmt.Sprintf("ALTER RANGE default CONFIGURE ZONE USING num_replicas = %d", len(regions.Names)))
	w.create(root, "d", external)
	w.database = "d"
	return w
}

// create makes a database.
func (w *world) create(root *pgx.Conn, name string, external bool) {
	w.t.Helper()
	must(w.t, root, "CREATE DATABASE "+name)
	if external {
		must(w.t, root, "ALTER DATABASE "+name+" SET external_consistency = on")
	}
}

// open connects to a node's database until the test ends.
func (w *world) open(node int, database string) *pgx.Conn {
	w.t.Helper()
	conn, err := w.Connect(context.Background(), node, database)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

// must runs a statement.
func must(t *testing.T, conn *pgx.Conn, sql string, args ...any) {
	t.Helper()
	if _, err := conn.Exec(context.Background(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// read runs a query, and reads all of its rows.
func read(conn *pgx.Conn, sql string, args ...any) (n int, err error) {
	rows, err := conn.Query(context.Background(), sql, args...)
	if err != nil {
		return 0, err
	}
	for rows.Next() {
		n++
	}
	return n, rows.Err()
}

// fill makes a table of rows with values of some size, keys from 0, and divides it into ranges.
func (w *world) fill(conn *pgx.Conn, table string, rows, bytes, ranges int) {
	w.t.Helper()
	must(w.t, conn, "CREATE TABLE "+table+" (k int PRIMARY KEY, v text, n int NOT NULL DEFAULT 0)")
	const batch = 100
	for first := 0; first < rows; first += batch {
		must(w.t, conn, fmt.Sprintf("INSERT INTO %s (k, v) SELECT i, repeat('a', %d) FROM generate_series(%d, %d) AS g(i)", table, bytes, first, min(first+batch, rows)-1))
	}
	if ranges == 1 {
		return
	}
	var at []string
	for i := 1; i < ranges; i++ {
		at = append(at, fmt.Sprintf("(%d)", i*rows/ranges))
	}
	must(w.t, conn, "ALTER TABLE "+table+" SPLIT AT VALUES "+strings.Join(at, ", "))
}

// ranges lists the ranges of a table.
func (w *world) ranges(conn *pgx.Conn, table string) (out []kv.RangeDescriptor) {
	w.t.Helper()
	all, err := w.Ranges(context.Background(), 0)
	if err != nil {
		w.t.Fatal(err)
	}
	var id uint32
	if err := conn.QueryRow(context.Background(), "SELECT $1::text::regclass::oid", table).Scan(&id); err != nil {
		w.t.Fatal(err)
	}
	span := keys.TableSpan(id)
	for _, d := range all {
		if d.Start.Less(span.End) && span.Start.Less(d.End) {
			out = append(out, d)
		}
	}
	return out
}

// settle waits until all ranges have a number of voters, and the leases of those with any are in a region; empty: anywhere.
func (w *world) settle(voters int, region string) {
	w.t.Helper()
	var wrong string
	for range 600 {
		wrong = ""
		all, err := w.Ranges(context.Background(), 0)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, d := range all {
			if n := len(d.Replicas); n != voters {
				wrong = fmt.Sprintf("range %d has %d replicas", d.ID, n)
			} else if at := w.leaseholder(d.ID); region != "" && (at < 0 || w.Machines[at].Region != region) {
				wrong = fmt.Sprintf("the leaseholder of range %d is node %d", d.ID, at)
			}
		}
		if wrong == "" {
			return
		}
		time.Sleep(500 * time.Millisecond)
	}
	w.t.Fatalf("%s, want %d, in %q", wrong, voters, region)
}

// leaseholder is the node with a range's lease; -1: none.
func (w *world) leaseholder(id kv.RangeID) int {
	for i := range w.Len() {
		if n := w.Node(i); n != nil {
			if r := n.Store().Replica(id); r != nil {
				if l, ok := r.Lease(); ok && l.Holder.Node == n.NodeID() {
					return i
				}
			}
		}
	}
	return -1
}

// spread moves the leases of a table's ranges to all nodes in turn, and has them stay there.
func (w *world) spread(conn *pgx.Conn, table string) {
	w.t.Helper()
	for i := range w.Len() {
		w.Node(i).Store().PauseQueues(true)
	}
	for i, d := range w.ranges(conn, table) {
		if err := w.TransferLease(context.Background(), d.Start, i%w.Len()); err != nil {
			w.t.Fatal(err)
		}
	}
	time.Sleep(2 * time.Second)
}

// stats are latencies.
type stats []time.Duration

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// mean and deviation are in ms.
func (s stats) mean() float64 {
	sum := time.Duration(0)
	for _, d := range s {
		sum += d
	}
	return milliseconds(sum) / float64(max(len(s), 1))
}

func (s stats) deviation() float64 {
	mean, sum := s.mean(), 0.0
	for _, d := range s {
		x := milliseconds(d) - mean
		sum += x * x
	}
	return math.Sqrt(sum / float64(max(len(s)-1, 1)))
}

// quantile is the q-quantile in ms.
func (s stats) quantile(q float64) float64 {
	if len(s) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s))
	return milliseconds(sorted[min(int(q*float64(len(sorted))), len(sorted)-1)])
}

// text is mean and deviation, as the paper writes them.
func (s stats) text() string {
	if len(s) == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f ± %.2f", s.mean(), s.deviation())
}

// timed is how long f takes.
func timed(f func()) time.Duration {
	begin := time.Now()
	f()
	return time.Since(begin)
}

// runs are latencies of several runs.
type runs []stats

// over is the mean over the runs of some value of each, and its deviation.
func (r runs) over(f func(stats) float64) string {
	var v stats
	for _, s := range r {
		v = append(v, time.Duration(f(s)*float64(time.Millisecond)))
	}
	return v.text()
}

func (r runs) all() (out stats) { return slices.Concat(r...) }
