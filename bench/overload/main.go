package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"meridian/bench/postgres"
	"meridian/test/process"
)

// config has the command line's flags.
type config struct {
	bin, isolation, json, svg      string
	clients                        []int
	scripts                        []string
	binaries                       []string // name=path
	nodes, seconds, scale, threads int
	rows                           int
	settle                         int // seconds of a point before those that count
	postgres                       bool
}

// clientsPerThread is how many clients one of pgbench's threads serves: whenever a message arrives, the thread polls all of its
// clients.
const clientsPerThread = 32

func main() {
	var c config
	var clients, scripts, binaries string
	flag.StringVar(&c.bin, "pg-bin", postgres.DefaultBin, "directory of PostgreSQL's programs")
	flag.StringVar(&clients, "clients", "8,16,64,512,1500", "numbers of clients")
	flag.StringVar(&scripts, "scripts", "tpcb-like,simple-update,select-only,hot-row", "scripts; sysbench as well, if that program is installed")
	flag.StringVar(&binaries, "binary", "meridian=", "binaries to compare, as name=path; without a path: built from this tree")
	flag.StringVar(&c.isolation, "isolation", "", "isolation level, as SQL has it (default: the server's own)")
	flag.StringVar(&c.json, "json", "", "write the results to this file")
	flag.StringVar(&c.svg, "svg", "", "draw the curves into this file")
	flag.IntVar(&c.nodes, "nodes", 1, "nodes of a cluster")
	flag.IntVar(&c.seconds, "seconds", 5, "length of a point")
	flag.IntVar(&c.scale, "scale", 10, "pgbench's scale factor")
	flag.IntVar(&c.settle, "settle", 3, "seconds of a point before those that count, in which sessions prepare their statements")
	flag.IntVar(&c.rows, "rows", 100000, "rows of sysbench's table")
	flag.IntVar(&c.threads, "threads", 0, "pgbench's threads (default: one for each 32 clients, and at least 2)")
	flag.BoolVar(&c.postgres, "postgres", false, "measure PostgreSQL too")
	flag.Parse()
	for _, v := range strings.Split(clients, ",") {
		n, err := strconv.Atoi(v)
		if err != nil || n < 1 {
			fmt.Fprintf(os.Stderr, "ERROR: %q is no number of clients\n", v)
			os.Exit(2)
		}
		c.clients = append(c.clients, n)
	}
	c.scripts, c.binaries = strings.Split(scripts, ","), strings.Split(binaries, ",")
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, &c); err != nil {
		fmt.Fprintln(os.Stderr, "ERROR:", err)
		os.Exit(1)
	}
}

// target is a system that is measured.
type target struct {
	name, port, user string
	pids             []int
}

func run(ctx context.Context, c *config) error {
	for _, s := range c.scripts {
		if !slices.Contains([]string{"tpcb-like", "simple-update", "select-only", "hot-row", "sysbench"}, s) {
			return fmt.Errorf("no script %q", s)
		}
	}
	if err := raiseFiles(uint64(slices.Max(c.clients)) + 100); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "meridian-overload-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil { // PostgreSQL's unprivileged user has to pass through
		return err
	}
	targets, stop, err := c.start(ctx, dir)
	defer stop()
	if err != nil {
		return err
	}
	var points []Point
	for _, script := range c.scripts {
		for _, t := range targets {
			if err := c.load(ctx, t, script); err != nil {
				return err
			}
		}
		for _, clients := range c.clients {
			for _, t := range targets {
				p, err := c.measure(ctx, t, dir, script, clients)
				if err != nil {
					return fmt.Errorf("%s with %d clients on %s: %w", script, clients, t.name, err)
				}
				fmt.Fprintf(os.Stderr, "%-10s %-13s %5d clients  %8.0f tps  p50 %7.1f  p99 %7.1f  max %7.1f ms  %6.0f us CPU, %4.0f of clients  %d failed\n",
					t.name, script, clients, p.TPS, p.P50MS, p.P99MS, p.MaxMS, p.CPUMicros, p.ClientMicros, p.Failed)
				points = append(points, *p)
			}
		}
	}
	printTable(os.Stdout, points)
	if c.json != "" {
		raw, err := json.MarshalIndent(points, "", "  ")
		if err != nil {
			return err
		}
		if err := os.WriteFile(c.json, append(raw, '\n'), 0o644); err != nil {
			return err
		}
	}
	if c.svg != "" {
		return os.WriteFile(c.svg, plot(points), 0o644)
	}
	return nil
}

// raiseFiles raises the limit of open files, which the programs that are started inherit.
func raiseFiles(need uint64) error {
	var r syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r); err != nil {
		return err
	}
	if r.Max < need {
		return fmt.Errorf("%d files may be open, and %d are needed: raise the limit (ulimit -n), or ask for fewer clients", r.Max, need)
	}
	r.Cur = r.Max
	return syscall.Setrlimit(syscall.RLIMIT_NOFILE, &r)
}

// start starts all targets; stop ends those that run.
func (c *config) start(ctx context.Context, dir string) (targets []*target, stop func(), err error) {
	var ends []func()
	stop = func() {
		for _, f := range ends {
			f()
		}
	}
	limit, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	for i, b := range c.binaries {
		name, path, _ := strings.Cut(b, "=")
		own := filepath.Join(dir, fmt.Sprint("target", i))
		if err := os.MkdirAll(own, 0o755); err != nil {
			return nil, stop, err
		}
		if path == "" {
			if path, err = process.Build(limit, ".", own); err != nil {
				return nil, stop, err
			}
		}
		m, err := process.Start(limit, process.Options{Binary: path, Dir: own, Nodes: c.nodes})
		if err != nil {
			return nil, stop, err
		}
		ends = append(ends, m.Close)
		if err := m.WaitReplicated(limit, c.nodes); err != nil {
			return nil, stop, err
		}
		_, port, _ := strings.Cut(m.Nodes[0].SQL, ":")
		t := &target{name: name, port: port, user: "root"}
		for _, n := range m.Nodes {
			t.pids = append(t.pids, n.PID())
		}
		targets = append(targets, t)
	}
	if c.postgres {
		g, err := postgres.StartFor(limit, c.bin, dir, c.nodes-1, slices.Max(c.clients)+20)
		if err != nil {
			return nil, stop, err
		}
		ends = append(ends, g.Stop)
		targets = append(targets, &target{name: "postgres", port: g[0].Port, user: "postgres", pids: g.PIDs()})
	}
	return targets, stop, nil
}

// load makes the tables of a script, anew.
func (c *config) load(ctx context.Context, t *target, script string) error {
	switch script {
	case "sysbench":
		// A table that exists already is dropped first.
		_, _ = c.program(ctx, "sysbench", append(c.sysbench(t), "cleanup")...)
		_, err := c.program(ctx, "sysbench", append(c.sysbench(t), "prepare")...)
		return err
	case "hot-row":
		conn, err := pgx.Connect(ctx, fmt.Sprintf("postgres://%s@127.0.0.1:%s/postgres?sslmode=disable", t.user, t.port))
		if err != nil {
			return err
		}
		defer conn.Close(ctx)
		_, err = conn.Exec(ctx, "DROP TABLE IF EXISTS hot; CREATE TABLE hot (id int PRIMARY KEY, v bigint); INSERT INTO hot VALUES (1, 0)")
		return err
	}
	_, err := c.program(ctx, filepath.Join(c.bin, "pgbench"), "-h", "127.0.0.1", "-p", t.port, "-U", t.user, "-i", "-q", "-s", strconv.Itoa(c.scale), "postgres")
	return err
}

// program runs one of the clients' programs and returns its output.
func (c *config) program(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), "PGSSLMODE=disable")
	if c.isolation != "" {
		cmd.Env = append(cmd.Env, "PGOPTIONS=-c default_transaction_isolation="+strings.ReplaceAll(c.isolation, " ", "\\ "))
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", name, err, out[max(len(out)-2000, 0):])
	}
	return string(out), nil
}

func (c *config) sysbench(t *target) []string {
	return []string{"oltp_read_write", "--db-driver=pgsql", "--pgsql-host=127.0.0.1", "--pgsql-port=" + t.port, "--pgsql-user=" + t.user,
		"--pgsql-db=postgres", "--tables=1", "--table-size=" + strconv.Itoa(c.rows), "--rand-type=special"}
}

// measure runs one point.
func (c *config) measure(ctx context.Context, t *target, dir, script string, clients int) (*Point, error) {
	p := &Point{Target: t.name, Script: script, Clients: clients}
	before, err := cpuTime(t.pids)
	if err != nil {
		return nil, err
	}
	if script == "sysbench" {
		args := append(c.sysbench(t), "--threads="+strconv.Itoa(clients), "--time="+strconv.Itoa(c.seconds), "--percentile=99", "run")
		out, err := c.program(ctx, "sysbench", args...)
		if err != nil {
			return nil, err
		}
		if err := p.sysbench(out); err != nil {
			return nil, err
		}
	} else {
		threads := c.threads
		if threads == 0 {
			threads = max(2, clients/clientsPerThread)
		}
		args := []string{"-h", "127.0.0.1", "-p", t.port, "-U", t.user, "-n", "-M", "prepared", "-c", strconv.Itoa(clients),
			"-j", strconv.Itoa(min(threads, clients)), "-T", strconv.Itoa(c.settle + c.seconds), "-l", "--log-prefix=" + filepath.Join(dir, "log")}
		switch script {
		case "simple-update":
			args = append(args, "-N")
		case "select-only":
			args = append(args, "-S")
		case "hot-row":
			file := filepath.Join(dir, "hot.sql")
			if err := os.WriteFile(file, []byte("UPDATE hot SET v = v + 1 WHERE id = 1;\n"), 0o644); err != nil {
				return nil, err
			}
			args = append(args, "-f", file)
		}
		clientsBefore := childrenTime()
		out, err := c.program(ctx, filepath.Join(c.bin, "pgbench"), append(args, "postgres")...)
		if err != nil {
			return nil, err
		}
		clientsUsed := childrenTime() - clientsBefore
		if err := p.pgbench(out); err != nil {
			return nil, err
		}
		all, err := p.readLogs(dir, c.settle)
		if err != nil {
			return nil, err
		}
		after, err := cpuTime(t.pids)
		if err != nil {
			return nil, err
		}
		if all > 0 {
			p.CPUMicros = float64((after - before).Microseconds()) / float64(all)
			p.ClientMicros = float64(clientsUsed.Microseconds()) / float64(all)
		}
		return p, nil
	}
	after, err := cpuTime(t.pids)
	if err != nil {
		return nil, err
	}
	if n := p.TPS * float64(c.seconds); n > 0 {
		p.CPUMicros = float64((after - before).Microseconds()) / n
	}
	return p, nil
}

// readLogs takes throughput and percentiles from the logs that pgbench has left in a directory, and removes them. It returns how
// many transactions are in them, those of the first seconds, which do not count, among them.
func (p *Point) readLogs(dir string, settle int) (all int, err error) {
	files, err := filepath.Glob(filepath.Join(dir, "log.*"))
	if err != nil {
		return 0, err
	}
	var done []finished
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			return 0, err
		}
		done, err = appendFinished(done, f)
		f.Close()
		if err != nil {
			return 0, err
		}
		if err := os.Remove(name); err != nil {
			return 0, err
		}
	}
	p.count(done, float64(settle))
	return len(done), nil
}

// childrenTime is the CPU that programs which have ended have used.
func childrenTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_CHILDREN, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// cpuTime is the CPU that processes have used so far.
func cpuTime(pids []int) (sum time.Duration, err error) {
	const ticksPerSecond = 100 // of /proc/PID/stat, on every machine that Go runs on
	for _, pid := range pids {
		f, err := os.Open(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return 0, err
		}
		raw, err := io.ReadAll(f)
		f.Close()
		if err != nil {
			return 0, err
		}
		fields := strings.Fields(string(raw[strings.LastIndexByte(string(raw), ')')+1:]))
		for _, v := range fields[11:15] { // its own, and of children that ended
			n, err := strconv.ParseInt(v, 10, 64)
			if err != nil {
				return 0, err
			}
			sum += time.Duration(n) * time.Second / ticksPerSecond
		}
	}
	return sum, nil
}
