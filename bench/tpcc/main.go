// Command tpcc asks: how many new orders per minute does one Meridian node do, compared with one PostgreSQL server on the same machine, and
// at which CPU per transaction?
//
// Both systems are loaded with the same warehouses by package workload/tpcc, whose program and SQL are the same for both, and run without keying
// and think times. A round runs all systems and levels of isolation after each other, and the next round in the reverse order, so that other
// load of the machine and work after a run hit each in turn. CPU is that of the servers' processes alone, divided by all transactions.
// Ratios are medians over the rounds of the ratio to PostgreSQL at READ COMMITTED, its default, within a round.
//
//	go run ./bench/tpcc [-warehouses 10] [-clients 16] [-rounds 3] [-length 30s]
//
// At the end all twelve consistency conditions are checked on both. Results are in docs/performance.md.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"meridian/bench/cputime"
	"meridian/bench/postgres"
	"meridian/test/process"
	"meridian/workload"
	"meridian/workload/tpcc"
)

// config has the command line's flags.
type config struct {
	bin, binary              string
	warehouses, scaleDown    int
	clients, rounds, cacheMB int
	length, ramp             time.Duration
	// Servers that run and are loaded already, with their first processes.
	postgresURL, meridianURL string
	postgresPID, meridianPID int
	out                      io.Writer
}

func main() {
	c := config{out: os.Stdout}
	flag.StringVar(&c.bin, "pg-bin", postgres.DefaultBin, "directory of PostgreSQL's programs")
	flag.StringVar(&c.binary, "binary", "", "the meridian binary (default: built from this tree)")
	flag.IntVar(&c.warehouses, "warehouses", 10, "warehouses")
	flag.IntVar(&c.scaleDown, "scale-down", 1, "divide customers, orders and items by this; the figures are then not comparable with TPC-C's")
	flag.IntVar(&c.clients, "clients", 16, "clients")
	flag.IntVar(&c.rounds, "rounds", 3, "rounds")
	flag.IntVar(&c.cacheMB, "cache", 256, "MB of Meridian's block cache, and of PostgreSQL's shared buffers")
	flag.DurationVar(&c.length, "length", 30*time.Second, "length of a run")
	flag.DurationVar(&c.ramp, "ramp", 3*time.Second, "time before a run that does not count")
	flag.StringVar(&c.postgresURL, "postgres-url", "", "a PostgreSQL server that is loaded already; together with the next three")
	flag.IntVar(&c.postgresPID, "postgres-pid", 0, "its first process")
	flag.StringVar(&c.meridianURL, "meridian-url", "", "a Meridian node that is loaded already")
	flag.IntVar(&c.meridianPID, "meridian-pid", 0, "its process")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, &c); err != nil {
		fmt.Fprintln(os.Stderr, "ERROR:", err)
		os.Exit(1)
	}
}

// system is a server at a level of isolation.
type system struct {
	name, url string
	pids      func() []int
	points    []point
}

// point is one run.
type point struct {
	tpmC, cpuMicros   float64 // CPU per transaction of any kind
	p50, p99          float64 // of new-order, in ms
	retries, failures int64
}

// start starts both servers; stop ends them.
func start(ctx context.Context, c *config, dir string) (systems []*system, stop func(), err error) {
	limit, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	if c.binary == "" {
		if c.binary, err = process.Build(ctx, ".", dir); err != nil {
			return nil, nil, err
		}
	}
	g, err := postgres.StartFor(limit, c.bin, dir, 0, 200, fmt.Sprintf("shared_buffers=%dMB", c.cacheMB))
	if err != nil {
		return nil, nil, err
	}
	m, err := process.Start(limit, process.Options{Binary: c.binary, Dir: dir, Nodes: 1, Args: []string{"--cache", fmt.Sprintf("%dMiB", c.cacheMB)}})
	if err != nil {
		g.Stop()
		return nil, nil, err
	}
	node := func() []int { return []int{m.Nodes[0].PID()} }
	return levels(g[0].URL(), g.PIDs, m.Nodes[0].URL("postgres"), node), func() { m.Close(); g.Stop() }, nil
}

// levels are both servers at the levels of isolation that are compared, the base first.
func levels(postgresURL string, postgresPIDs func() []int, meridianURL string, meridianPIDs func() []int) []*system {
	serializable, committed := "&default_transaction_isolation=serializable", "&default_transaction_isolation=read%20committed"
	return []*system{
		{name: "PostgreSQL, read committed", url: postgresURL + committed, pids: postgresPIDs},
		{name: "PostgreSQL, serializable", url: postgresURL + serializable, pids: postgresPIDs},
		{name: "Meridian, serializable", url: meridianURL + serializable, pids: meridianPIDs},
		{name: "Meridian, read committed", url: meridianURL + committed, pids: meridianPIDs},
	}
}

func (c *config) workload() *tpcc.TPCC {
	w := tpcc.New()
	w.Warehouses, w.ScaleDown, w.Wait = c.warehouses, c.scaleDown, false
	return w
}

func run(ctx context.Context, c *config) error {
	if c.postgresURL != "" && c.meridianURL != "" {
		pid := func(n int) func() []int { return func() []int { return []int{n} } }
		return c.rotate(ctx, levels(c.postgresURL, pid(c.postgresPID), c.meridianURL, pid(c.meridianPID)))
	}
	dir, err := os.MkdirTemp("", "meridian-tpcc-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil { // PostgreSQL's user has to pass through
		return err
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return err
	}
	systems, stop, err := start(ctx, c, dir)
	if err != nil {
		return err
	}
	defer stop()
	for _, i := range []int{0, 2} { // once per server
		begin := time.Now()
		if err := with(ctx, systems[i].url, c.workload().Init); err != nil {
			return fmt.Errorf("%s: %w", systems[i].name, err)
		}
		fmt.Fprintf(c.out, "%s: %d warehouses loaded in %.0f s\n", systems[i].name, c.warehouses, time.Since(begin).Seconds())
	}
	return c.rotate(ctx, systems)
}

// rotate measures all systems round after round, and checks both servers at the end.
func (c *config) rotate(ctx context.Context, systems []*system) error {
	for round := range c.rounds {
		order := slices.Clone(systems)
		if round%2 == 1 {
			slices.Reverse(order)
		}
		for _, s := range order {
			p, err := c.measure(ctx, s)
			if err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			s.points = append(s.points, *p)
			fmt.Fprintf(c.out, "round %d  %-28s %8.0f tpmC %8.0f us CPU  p50 %6.1f ms  p99 %7.1f ms  %d retries  %d failures\n",
				round+1, s.name, p.tpmC, p.cpuMicros, p.p50, p.p99, p.retries, p.failures)
		}
	}
	c.print(systems)
	for _, i := range []int{0, 2} {
		if err := with(ctx, systems[i].url, c.workload().Check); err != nil {
			return fmt.Errorf("%s: %w", systems[i].name, err)
		}
	}
	fmt.Fprintln(c.out, "both are consistent by all twelve conditions")
	return nil
}

func with(ctx context.Context, url string, f func(context.Context, *pgx.Conn) error) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	return f(ctx, conn)
}

// measure runs one system once. CPU is of the ramp too, per transaction of the ramp too.
func (c *config) measure(ctx context.Context, s *system) (*point, error) {
	w := &uncheckedTPCC{c.workload()}
	warm := workload.Options{URLs: []string{s.url}, Concurrency: c.clients, Duration: c.ramp, Seed: 1, Quiet: true}
	if _, err := workload.Run(ctx, w, warm); err != nil {
		return nil, err
	}
	before, err := cputime.Of(s.pids())
	if err != nil {
		return nil, err
	}
	o := warm
	o.Duration, o.Seed = c.length, uint64(time.Now().UnixNano())
	r, err := workload.Run(ctx, w, o)
	if err != nil {
		return nil, err
	}
	after, err := cputime.Of(s.pids())
	if err != nil {
		return nil, err
	}
	p := &point{tpmC: w.Figures(r).TpmC, retries: r.Retries, failures: r.Errors + r.Unknown}
	if r.Ops > 0 {
		p.cpuMicros = float64((after - before).Microseconds()) / float64(r.Ops)
	}
	if h := r.Kinds["new-order"]; h != nil {
		p.p50, p.p99 = float64(h.ValueAtQuantile(50))/1000, float64(h.ValueAtQuantile(99))/1000
	}
	return p, nil
}

// uncheckedTPCC leaves the check to the end of all rounds.
type uncheckedTPCC struct{ *tpcc.TPCC }

// Check does nothing.
func (uncheckedTPCC) Check(context.Context, *pgx.Conn) error { return nil }

func median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	v = slices.Sorted(slices.Values(v))
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// print writes the table of medians.
func (c *config) print(systems []*system) {
	fmt.Fprintf(c.out, "\n%d warehouses, %d clients without waits, medians of %d rounds of %s\n\n", c.warehouses, c.clients, c.rounds, c.length)
	if c.scaleDown > 1 {
		fmt.Fprintf(c.out, "The scale was divided by %d: not comparable with TPC-C.\n\n", c.scaleDown)
	}
	fmt.Fprintln(c.out, "| system | tpmC | ratio | CPU us/transaction | ratio | new-order p50, ms | p99, ms | retries |")
	fmt.Fprintln(c.out, "|---|---:|---:|---:|---:|---:|---:|---:|")
	base := systems[0]
	for _, s := range systems {
		pick := func(f func(p *point) float64) float64 {
			var v []float64
			for i := range s.points {
				v = append(v, f(&s.points[i]))
			}
			return median(v)
		}
		ratio := func(f func(p *point) float64) float64 {
			var v []float64
			for i := range s.points {
				v = append(v, f(&s.points[i])/max(f(&base.points[i]), 1e-9))
			}
			return median(v)
		}
		tpmC, cpu := func(p *point) float64 { return p.tpmC }, func(p *point) float64 { return p.cpuMicros }
		fmt.Fprintf(c.out, "| %s | %.0f | %.2f | %.0f | %.2f | %.1f | %.1f | %.0f |\n", s.name, pick(tpmC), ratio(tpmC), pick(cpu), ratio(cpu),
			pick(func(p *point) float64 { return p.p50 }), pick(func(p *point) float64 { return p.p99 }), pick(func(p *point) float64 { return float64(p.retries) }))
	}
}
