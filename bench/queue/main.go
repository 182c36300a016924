// Command queue asks: how many jobs per second do many workers take from one table, with ORDER BY ... LIMIT 1 FOR UPDATE SKIP LOCKED, on one Meridian node compared with
// one PostgreSQL server on the same machine?
//
// A table has jobs with priorities. Each worker takes the first one that no other worker has locked, marks it as done and writes down that it has done it, in a transaction, until there
// is none; at READ COMMITTED. Afterwards each job has to be done, and written down once. The order has an index in one half of the runs, and is sorted in the other
// (-plans). Rounds alternate between the systems, because other load of the machine would hit one alone.
//
//	go run ./bench/queue [-workers 100] [-jobs 10000] [-rounds 3] [-plans index,sort]
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"meridian/bench/cputime"
	"meridian/bench/postgres"
	"meridian/test/process"
)

// config has the command line's flags.
type config struct {
	bin, binary           string
	workers, jobs, rounds int
	plans                 []string
	out                   io.Writer
}

func main() {
	c := config{out: os.Stdout}
	var plans string
	flag.StringVar(&c.bin, "pg-bin", postgres.DefaultBin, "directory of PostgreSQL's programs")
	flag.StringVar(&c.binary, "binary", "", "the meridian binary (default: built from this tree)")
	flag.IntVar(&c.workers, "workers", 100, "workers")
	flag.IntVar(&c.jobs, "jobs", 10000, "jobs")
	flag.IntVar(&c.rounds, "rounds", 3, "rounds")
	flag.StringVar(&plans, "plans", "index,sort", "index: the order has an index; sort: it has none")
	flag.Parse()
	c.plans = strings.Split(plans, ",")
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, &c); err != nil {
		fmt.Fprintln(os.Stderr, "ERROR:", err)
		os.Exit(1)
	}
}

// system is one of the two servers.
type system struct {
	name, url string
	pids      func() []int
}

func run(ctx context.Context, c *config) error {
	dir, err := os.MkdirTemp("", "meridian-queue-")
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
	limit, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	if c.binary == "" {
		if c.binary, err = process.Build(ctx, ".", dir); err != nil {
			return err
		}
	}
	g, err := postgres.Start(limit, c.bin, dir, 0)
	if err != nil {
		return err
	}
	defer g.Stop()
	m, err := process.Start(limit, process.Options{Binary: c.binary, Dir: dir, Nodes: 1})
	if err != nil {
		return err
	}
	defer m.Close()
	systems := []system{
		{"PostgreSQL", g[0].URL(), g.PIDs},
		{"Meridian", m.Nodes[0].URL("postgres"), func() []int { return []int{m.Nodes[0].PID()} }},
	}
	for _, plan := range c.plans {
		rates := map[string][]float64{}
		for round := range c.rounds {
			order := slices.Clone(systems)
			if round%2 == 1 {
				slices.Reverse(order)
			}
			for _, s := range order {
				p, err := c.measure(ctx, &s, plan)
				if err != nil {
					return fmt.Errorf("%s, %s: %w", s.name, plan, err)
				}
				rates[s.name] = append(rates[s.name], p.rate)
				fmt.Fprintf(c.out, "%s, round %d  %-10s %7.0f jobs/s  %6.0f us CPU per job  %d asked in vain, %d began again\n", plan, round+1, s.name, p.rate, p.cpuMicros, p.empty, p.retries)
			}
		}
		var ratios []float64
		for i, r := range rates["Meridian"] {
			ratios = append(ratios, r/rates["PostgreSQL"][i])
		}
		slices.Sort(ratios)
		fmt.Fprintf(c.out, "%s: %d workers, %d jobs: Meridian / PostgreSQL %.2f, median of %d rounds\n", plan, c.workers, c.jobs, ratios[len(ratios)/2], c.rounds)
	}
	return nil
}

// point is one run.
type point struct {
	rate, cpuMicros float64
	empty, retries  int64
}

// measure fills the queue, has the workers empty it, and checks that each job was done once.
func (c *config) measure(ctx context.Context, s *system, plan string) (p point, err error) {
	conns := make([]*pgx.Conn, c.workers)
	for i := range conns {
		if conns[i], err = pgx.Connect(ctx, s.url+"&default_transaction_isolation=read%20committed"); err != nil {
			return p, err
		}
		defer conns[i].Close(context.WithoutCancel(ctx))
	}
	setup := []string{
		"DROP TABLE IF EXISTS jobs, done",
		"CREATE TABLE jobs (id int PRIMARY KEY, state int NOT NULL, priority int NOT NULL, payload text)",
		"CREATE TABLE done (job int NOT NULL, worker int NOT NULL)",
		fmt.Sprintf("INSERT INTO jobs SELECT i, 0, (i * 7919) %% 1000, 'job ' || i FROM generate_series(1, %d) i", c.jobs),
	}
	if plan == "index" {
		setup = append(setup, "CREATE INDEX jobs_order ON jobs (state, priority, id)")
	}
	for _, sql := range append(setup, "ANALYZE jobs") {
		if _, err := conns[0].Exec(ctx, sql); err != nil {
			return p, fmt.Errorf("%s: %w", sql, err)
		}
	}
	before, err := cputime.Of(s.pids())
	if err != nil {
		return p, err
	}
	begin := time.Now()
	var empty, retries atomic.Int64
	failed := make([]error, len(conns))
	var wg sync.WaitGroup
	for i, conn := range conns {
		wg.Go(func() { failed[i] = work(ctx, conn, i, &empty, &retries) })
	}
	wg.Wait()
	took := time.Since(begin)
	if err := errors.Join(failed...); err != nil {
		return p, err
	}
	after, err := cputime.Of(s.pids())
	if err != nil {
		return p, err
	}
	var left, times, jobs int
	if err := conns[0].QueryRow(ctx, "SELECT (SELECT count(*) FROM jobs WHERE state = 0), (SELECT count(*) FROM done), (SELECT count(DISTINCT job) FROM done)").Scan(&left, &times, &jobs); err != nil {
		return p, err
	}
	if left != 0 || times != c.jobs || jobs != c.jobs {
		return p, fmt.Errorf("%d jobs are left; %d were done, %d times", left, jobs, times)
	}
	return point{float64(c.jobs) / took.Seconds(), float64((after - before).Microseconds()) / float64(c.jobs), empty.Load(), retries.Load()}, nil
}

// work takes jobs until none is left.
func work(ctx context.Context, conn *pgx.Conn, worker int, empty, retries *atomic.Int64) error {
	for {
		took, err := take(ctx, conn, worker)
		var pe *pgconn.PgError
		if errors.As(err, &pe) && (pe.Code == "40001" || pe.Code == "40P01") {
			retries.Add(1)
			continue
		}
		if err != nil {
			return err
		}
		if took {
			continue
		}
		// Others may have the last jobs, and give them back.
		empty.Add(1)
		var left bool
		if err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT 1 FROM jobs WHERE state = 0)").Scan(&left); err != nil || !left {
			return err
		}
	}
}

// take does one job; false: all that are left are locked.
func take(ctx context.Context, conn *pgx.Conn, worker int) (took bool, err error) {
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		var id int
		err := tx.QueryRow(ctx, "SELECT id FROM jobs WHERE state = 0 ORDER BY priority, id LIMIT 1 FOR UPDATE SKIP LOCKED").Scan(&id)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "UPDATE jobs SET state = 1 WHERE id = $1", id); err != nil {
			return err
		}
		took = true
		_, err = tx.Exec(ctx, "INSERT INTO done VALUES ($1, $2)", id, worker)
		return err
	})
	return took && err == nil, err
}
