package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"meridian/kv"
	"meridian/server"
	"meridian/sim"
	"meridian/sim/simcluster"
)

// config has the command line's flags.
type config struct {
	clients int
	length  time.Duration // of the measurement of one point
	real    bool
	indexes []int
	// progress gets a line for each beginning and each result: a measurement in real time takes minutes.
	progress io.Writer
}

// say writes to progress.
func (c *config) say(two bool, format string, args ...any) {
	name := "parallel commits"
	if two {
		name = "two phases"
	}
	fmt.Fprintf(c.progress, name+": "+format+"\n", args...)
}

// point is the measurement with one number of indexes.
type point struct {
	Indexes int
	Median  time.Duration
	PerSec  float64
}

// result is the whole experiment: with parallel commits, and in two phases.
type result struct {
	Parallel, TwoPhases []point
	Config              config
}

func main() {
	c := config{indexes: []int{0, 1, 2, 3, 4, 5, 6, 7, 8}, progress: os.Stderr}
	var svg string
	flag.IntVar(&c.clients, "clients", 16, "clients that write, one row after the other")
	flag.DurationVar(&c.length, "length", 10*time.Second, "length of the measurement of one point")
	flag.BoolVar(&c.real, "real", false, "in real time instead of virtual time")
	flag.StringVar(&svg, "svg", "docs/figure2.svg", "write the plot to this file; empty: nowhere")
	testing.Init()
	flag.Parse()
	// Virtual time exists within tests only, so the experiment is one.
	testing.Main(func(string, string) (bool, error) { return true, nil }, []testing.InternalTest{{Name: "figure2", F: func(t *testing.T) {
		r := run(t, c)
		if t.Failed() {
			return
		}
		r.print(os.Stdout)
		if svg == "" {
			return
		}
		if err := os.WriteFile(svg, r.plot(), 0o644); err != nil {
			t.Fatal(err)
		}
	}}}, nil, nil)
}

// run does the whole experiment.
func run(t *testing.T, c config) *result {
	r := &result{Config: c}
	for _, m := range []struct {
		two  bool
		into *[]point
	}{{false, &r.Parallel}, {true, &r.TwoPhases}} {
		t.Run(fmt.Sprintf("two-phases=%t", m.two), func(t *testing.T) {
			measure := func(t *testing.T) { *m.into = measureAll(t, c, m.two) }
			if c.real {
				measure(t)
			} else {
				synctest.Test(t, measure)
			}
		})
	}
	return r
}

// measureAll starts a cluster and measures one point after the other.
func measureAll(t *testing.T, c config, two bool) (points []point) {
	ctx := context.Background()
	c.say(two, "three nodes start, and get %d tables", len(c.indexes))
	cl := simcluster.Start(t, simcluster.Options{Regions: sim.ThreeRegions(), NodesPerRegion: 1, LocalRTT: 100 * time.Microsecond,
		Configure: func(_ int, o *server.Options) { o.TwoPhases = two }})
	conn, err := cl.Connect(ctx, 0, "defaultdb")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	exec := func(sql string) {
		if _, err := conn.Exec(ctx, sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	for _, n := range c.indexes {
		sql := fmt.Sprintf("CREATE TABLE t%d (id int PRIMARY KEY", n)
		for i := 1; i <= 9; i++ {
			sql += fmt.Sprintf(", c%d int", i)
		}
		for i := 1; i <= n; i++ {
			sql += fmt.Sprintf(", INDEX (c%d)", i)
		}
		exec(sql + ")")
		exec(fmt.Sprintf("ALTER TABLE t%d SPLIT AT VALUES (0)", n))
		for i := 1; i <= n; i++ {
			exec(fmt.Sprintf("ALTER INDEX t%d@t%d_c%d_idx SPLIT AT VALUES (0)", n, n, i))
		}
	}
	c.say(two, "the ranges are being replicated")
	settle(t, cl)
	for _, n := range c.indexes {
		c.say(two, "%d indexes: %d clients write for %s", n, c.clients, warm+c.length)
		p := measureOne(t, cl, c, n)
		c.say(two, "%d indexes: p50 %.1f ms, %.0f per second", n, milliseconds(p.Median), p.PerSec)
		points = append(points, p)
	}
	return points
}

// settle waits until every range has three voters, and gives all leases to the clients' region.
func settle(t *testing.T, cl *simcluster.Cluster) {
	ctx := context.Background()
	for try := 0; ; try++ {
		ranges, err := cl.Ranges(ctx, 0)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(ranges, func(d kv.RangeDescriptor) bool { return len(d.Replicas) < 3 }) {
			break
		}
		if try == 600 {
			t.Fatal("the ranges are not replicated")
		}
		time.Sleep(100 * time.Millisecond)
	}
	for i := range cl.Len() {
		cl.Node(i).Store().PauseQueues(true)
	}
	time.Sleep(time.Second)
	if err := cl.TransferLeases(ctx, 0); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Second)
}

// warm is how long the clients write before they are measured.
const warm = time.Second

// measureOne has all clients write into the table with n indexes.
func measureOne(t *testing.T, cl *simcluster.Cluster, c config, n int) point {
	ctx := context.Background()
	var (
		wg        sync.WaitGroup
		mu        sync.Mutex // guards what follows
		latencies []time.Duration
		failure   error
	)
	start := time.Now()
	for client := range c.clients {
		wg.Add(1)
		go func() {
			defer wg.Done()
			conn, err := cl.Connect(ctx, 0, "defaultdb")
			var mine []time.Duration
			if err == nil {
				defer conn.Close(ctx)
				sql := fmt.Sprintf("INSERT INTO t%d VALUES ($1, $1, $1, $1, $1, $1, $1, $1, $1, $1)", n)
				for i := 0; time.Since(start) < warm+c.length; i++ {
					began := time.Now()
					if _, err = conn.Exec(ctx, sql, client*1_000_000+i); err != nil {
						break
					}
					if began.Sub(start) >= warm {
						mine = append(mine, time.Since(began))
					}
				}
			}
			mu.Lock()
			defer mu.Unlock()
			latencies = append(latencies, mine...)
			if err != nil {
				failure = err
			}
		}()
	}
	wg.Wait()
	if failure != nil || len(latencies) == 0 {
		t.Fatalf("with %d indexes: %d writes, %v", n, len(latencies), failure)
	}
	slices.Sort(latencies)
	return point{Indexes: n, Median: latencies[len(latencies)/2], PerSec: float64(len(latencies)) / c.length.Seconds()}
}

// cut is by how much parallel commits lower the median latency at point i, gain by how much they raise the throughput.
func (r *result) cut(i int) float64 {
	return 1 - float64(r.Parallel[i].Median)/float64(r.TwoPhases[i].Median)
}

func (r *result) gain(i int) float64 { return r.Parallel[i].PerSec/r.TwoPhases[i].PerSec - 1 }

// best are the largest cut and gain over all points.
func (r *result) best() (cut, gain float64) {
	for i := range r.Parallel {
		cut, gain = max(cut, r.cut(i)), max(gain, r.gain(i))
	}
	return cut, gain
}

func (r *result) print(w io.Writer) {
	fmt.Fprintln(w, "| secondary indexes | parallel commits, p50 | per second | two phases, p50 | per second | latency | throughput |")
	fmt.Fprintln(w, "|---|---|---|---|---|---|---|")
	for i, p := range r.Parallel {
		q := r.TwoPhases[i]
		fmt.Fprintf(w, "| %d | %.1f ms | %.0f | %.1f ms | %.0f | %+.0f %% | %+.0f %% |\n", p.Indexes, milliseconds(p.Median), p.PerSec,
			milliseconds(q.Median), q.PerSec, -100*r.cut(i), 100*r.gain(i))
	}
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
