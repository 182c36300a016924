package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"meridian/bench/cputime"
	"meridian/bench/postgres"
	"meridian/test/process"
)

// config has the command line's flags.
type config struct {
	bin, binary, before, json, profile, keep string
	setups, scripts, systems                 []string
	isolations                               []string // "" is the server's default
	rounds, seconds, scale                   int
	clients, jobs, tries, rate, buffers      int
	protocol                                 string
	maxOffset                                time.Duration
}

func main() {
	var c config
	var setups, scripts, systems, set, levels string
	flag.StringVar(&c.bin, "pg-bin", postgres.DefaultBin, "directory of PostgreSQL's programs")
	flag.StringVar(&c.binary, "binary", "", "the meridian binary (default: built from this tree)")
	flag.StringVar(&c.before, "before", "", "an earlier meridian binary to compare with, instead of PostgreSQL")
	flag.StringVar(&c.json, "json", "", "write the results to this file")
	flag.StringVar(&c.profile, "profile", "", "write CPU profiles of Meridian to this directory")
	flag.StringVar(&c.keep, "dir", "", "work in this directory and keep it (default: a temporary one)")
	flag.StringVar(&setups, "setups", "one,three", "setups to measure: one, three, five")
	flag.StringVar(&set, "mix", "pgbench", "set of scripts to run: pgbench, ycsb, oltp (tpcc, smallbank, tatp), all (of these), sysbench")
	flag.StringVar(&scripts, "scripts", "", "scripts to run instead: select-only, simple-update, tpcb-like, ycsb-a to ycsb-f, tpcc, smallbank, tatp, sysbench's")
	flag.StringVar(&levels, "isolation", "", "isolation levels, in alternation: serializable, repeatable-read, read-committed (default: each server's own)")
	flag.StringVar(&systems, "systems", "postgres,meridian", "systems to measure")
	flag.IntVar(&c.rounds, "rounds", 3, "rounds of each script")
	flag.IntVar(&c.seconds, "seconds", 10, "length of a run")
	flag.IntVar(&c.scale, "scale", 10, "pgbench's scale factor")
	flag.IntVar(&c.clients, "clients", 8, "clients")
	flag.IntVar(&c.buffers, "buffers", 256, "MB of Meridian's block cache, and of PostgreSQL's shared buffers")
	flag.IntVar(&c.jobs, "jobs", 2, "pgbench's threads")
	flag.IntVar(&c.rate, "rate", 0, "transactions per second that pgbench begins, with all clients together; zero: as many as it can")
	flag.IntVar(&c.tries, "max-tries", 1, "pgbench's tries of a transaction that must be retried")
	flag.StringVar(&c.protocol, "protocol", "prepared", "query protocol: simple, extended, prepared")
	flag.DurationVar(&c.maxOffset, "max-offset", 0, "Meridian's bound on clocks, which is the epsilon of the system external (default: Meridian's)")
	flag.Parse()
	if scripts == "" {
		scripts = mixSet(set)
	}
	c.isolations = strings.Split(levels, ",")
	c.setups, c.scripts, c.systems = strings.Split(setups, ","), strings.Split(scripts, ","), strings.Split(systems, ",")
	if c.before != "" {
		c.systems = []string{before, meridian}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, &c); err != nil {
		fmt.Fprintln(os.Stderr, "ERROR:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, c *config) error {
	for _, s := range c.scripts {
		if _, ok := mixNamed(s); !ok {
			return fmt.Errorf("no script %q", s)
		}
	}
	for _, s := range c.isolations {
		if _, ok := isolation(s); !ok {
			return fmt.Errorf("no isolation level %q", s)
		}
	}
	dir := c.keep
	if dir == "" {
		d, err := os.MkdirTemp("", "meridian-bench-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(d)
		dir = d
	}
	// The unprivileged user of PostgreSQL has to pass through.
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	if c.binary == "" {
		var err error
		if c.binary, err = process.Build(ctx, ".", dir); err != nil {
			return err
		}
	}
	if c.profile != "" {
		if err := os.MkdirAll(c.profile, 0o755); err != nil {
			return err
		}
	}
	report := &Report{
		When: time.Now().UTC().Format(time.RFC3339), CPUs: runtime.NumCPU(), Scale: c.scale, Clients: c.clients, Jobs: c.jobs,
		Seconds: c.seconds, Protocol: c.protocol,
	}
	for _, name := range c.setups {
		s, err := measure(ctx, c, report, name, filepath.Join(dir, name))
		if s != nil {
			report.Setups = append(report.Setups, *s)
			printSetup(os.Stdout, s)
		}
		if err != nil {
			return fmt.Errorf("setup %s: %w", name, err)
		}
	}
	if c.json != "" {
		raw, err := json.MarshalIndent(report, "", "  ")
		if err != nil {
			return err
		}
		return os.WriteFile(c.json, append(raw, '\n'), 0o644)
	}
	return nil
}

// The systems.
const (
	postgreSQL = "postgres"
	meridian   = "meridian"
	before     = "before" // Meridian too, of an earlier binary
	// fastPaxos is Meridian whose pgbench tables have that commit protocol.
	fastPaxos = "fast_paxos"
	// external is Meridian with a database that is externally consistent.
	external = "external"
)

// defaultReplicas is how many replicas a range has if nothing else was said.
const defaultReplicas = 3

// system is one of the two that are compared.
type system struct {
	name, port, user string
	pids             func() []int
	nodes            []*process.Node // of Meridian
}

// died returns the ends of the logs of nodes that have ended by themselves.
func (s *system) died() (out string) {
	for i, n := range s.nodes {
		if n.PID() == 0 {
			out += fmt.Sprintf("\nnode %d has ended (%v):\n%s", i+1, n.Status(), n.Log())
		}
	}
	return out
}

// measure runs one setup. The results before an error are returned with it.
func measure(ctx context.Context, c *config, report *Report, name, dir string) (*Setup, error) {
	nodes := map[string]int{"one": 1, "three": 3, "five": 5}[name]
	if nodes == 0 {
		return nil, fmt.Errorf("no such setup")
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	limit, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	var systems []*system
	if slices.Contains(c.systems, postgreSQL) {
		g, err := postgres.StartFor(limit, c.bin, dir, nodes-1, connections, fmt.Sprintf("shared_buffers=%dMB", c.buffers))
		if err != nil {
			return nil, err
		}
		defer g.Stop()
		report.PostgreSQL = g[0].Version(limit)
		systems = append(systems, &system{name: postgreSQL, port: g[0].Port, user: "postgres", pids: g.PIDs})
	}
	for _, of := range []struct{ name, binary string }{{before, c.before}, {meridian, c.binary}, {fastPaxos, c.binary}, {external, c.binary}} {
		if !slices.Contains(c.systems, of.name) {
			continue
		}
		store := filepath.Join(dir, of.name)
		if err := os.MkdirAll(store, 0o755); err != nil {
			return nil, err
		}
		args := []string{"--cache", fmt.Sprintf("%dMiB", c.buffers)}
		if c.maxOffset > 0 {
			args = append(args, "--max-offset", c.maxOffset.String())
		}
		m, err := process.Start(limit, process.Options{Binary: of.binary, Dir: store, Nodes: nodes, Args: args})
		if err != nil {
			return nil, err
		}
		defer m.Close()
		_, port, _ := strings.Cut(m.Nodes[0].SQL, ":")
		systems = append(systems, &system{name: of.name, port: port, user: "root", nodes: m.Nodes, pids: func() (out []int) {
			for _, n := range m.Nodes {
				out = append(out, n.PID())
			}
			return out
		}})
		if nodes > defaultReplicas {
			more := fmt.Sprintf("ALTER RANGE default CONFIGURE ZONE USING num_replicas = %d;\n", nodes)
			if err := c.loadScript(limit, systems[len(systems)-1], dir, of.name+"-zone", more); err != nil {
				return nil, err
			}
		}
		if err := m.WaitReplicated(limit, nodes); err != nil {
			return nil, err
		}
	}
	s := &Setup{Name: name, Load: make(map[string]float64)}
	for _, sys := range systems {
		took, err := c.load(ctx, sys, dir)
		if err != nil {
			return s, err
		}
		s.Load[sys.name] = took.Seconds()
		fmt.Printf("%s: %s loaded scale %d in %.1f s\n", name, sys.name, c.scale, took.Seconds())
	}
	for _, script := range c.scripts {
		outs := make([]Script, len(c.isolations))
		for round := range c.rounds {
			for i, level := range c.isolations {
				out := &outs[i]
				if out.Name = script; level != "" {
					out.Name = script + " " + level
				}
				if i := slices.IndexFunc(systems, func(y *system) bool { return y.name == postgreSQL || y.name == before }); i >= 0 {
					out.Base = systems[i].name
				}
				order := slices.Clone(systems)
				if round%2 == 1 {
					slices.Reverse(order) // so that work after a run, such as compactions, slows each system in turn
				}
				for _, sys := range order {
					r, err := c.once(ctx, sys, dir, name, script, level, round)
					if err != nil {
						return s, fmt.Errorf("%s on %s: %w%s", out.Name, sys.name, err, sys.died())
					}
					fmt.Printf("%s: %-13s round %d  %-8s  %9.0f tps  %7.1f us CPU  %6.2f ms  %d failed  %d retries\n",
						name, out.Name, round+1, sys.name, r.TPS, r.CPUMicros, r.LatencyMS, r.Failed, r.Retries)
					out.Runs = append(out.Runs, *r)
				}
			}
		}
		for i := range outs {
			outs[i].summarize()
			s.Scripts = append(s.Scripts, outs[i])
		}
	}
	return s, nil
}

// pgbench runs the program, at an isolation level if one is given.
func (c *config) pgbench(ctx context.Context, sys *system, level string, args ...string) (string, error) {
	args = append([]string{"-h", "127.0.0.1", "-p", sys.port, "-U", sys.user}, append(args, "postgres")...)
	cmd := exec.CommandContext(ctx, filepath.Join(c.bin, "pgbench"), args...)
	cmd.Env = append(os.Environ(), c.environment(level)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("pgbench %s: %w\n%s", strings.Join(args, " "), err, tail(out))
	}
	return string(out), nil
}

// environment are libpq's variables for a run.
func (c *config) environment(level string) []string {
	env := []string{"PGSSLMODE=disable"}
	if sql, _ := isolation(level); sql != "" {
		env = append(env, "PGOPTIONS=-c default_transaction_isolation="+strings.ReplaceAll(sql, " ", "\\ "))
	}
	return env
}

// connections bounds PostgreSQL's connections.
const connections = 200

// outputTail is how much of a failed program's output is shown.
const outputTail = 4 << 10

func tail(b []byte) []byte {
	if len(b) > outputTail {
		return b[len(b)-outputTail:]
	}
	return b
}

// load makes the tables that the scripts need; it tells how long pgbench -i took.
func (c *config) load(ctx context.Context, sys *system, dir string) (took time.Duration, err error) {
	custom := func(s string) bool { m, _ := mixNamed(s); return len(m.custom) > 0 || m.sysbench }
	if sys.name == external {
		if err := c.loadScript(ctx, sys, dir, external, "ALTER DATABASE postgres SET external_consistency = on;\n"); err != nil {
			return 0, err
		}
	}
	begin := time.Now()
	if slices.ContainsFunc(c.scripts, func(s string) bool { return !custom(s) }) {
		_, err = c.pgbench(ctx, sys, "", "-i", "-q", "-s", strconv.Itoa(c.scale))
	}
	took = time.Since(begin)
	if err == nil && sys.name == fastPaxos {
		change := ""
		for _, table := range []string{"accounts", "branches", "tellers", "history"} {
			change += "ALTER TABLE pgbench_" + table + " SET (commit_protocol = 'fast_paxos');\n"
		}
		err = c.loadScript(ctx, sys, dir, fastPaxos, change)
	}
	if err == nil && slices.ContainsFunc(c.scripts, func(s string) bool { return strings.HasPrefix(s, "ycsb-") }) {
		err = c.loadYCSB(ctx, sys, dir)
	}
	if i := slices.IndexFunc(c.scripts, func(s string) bool { m, _ := mixNamed(s); return m.sysbench }); err == nil && i >= 0 {
		_, err = c.sysbench(ctx, sys, "", c.scripts[i], "prepare")
	}
	for _, name := range c.scripts {
		m, _ := mixNamed(name)
		if err != nil || m.load == "" {
			continue
		}
		begin := time.Now()
		err = c.loadScript(ctx, sys, dir, name, m.load)
		fmt.Printf("%s loaded %s in %.1f s\n", sys.name, name, time.Since(begin).Seconds())
	}
	return took, err
}

// once runs one script for one time against one system.
func (c *config) once(ctx context.Context, sys *system, dir, setup, script, level string, round int) (*Run, error) {
	if c.profile != "" {
		defer c.profiles(ctx, sys, fmt.Sprintf("%s-%s-%s%s-%d", sys.name, setup, script, level, round+1))()
	}
	before, err := cputime.Of(sys.pids())
	if err != nil {
		return nil, err
	}
	m, _ := mixNamed(script)
	r, err := c.program(ctx, sys, &m, dir, script, level)
	if err != nil {
		return nil, err
	}
	after, err := cputime.Of(sys.pids())
	if err != nil {
		return nil, err
	}
	r.System = sys.name
	if r.Transactions > 0 {
		r.CPUMicros = float64((after - before).Microseconds()) / float64(r.Transactions)
	}
	return r, nil
}

// program runs a mix by pgbench or sysbench for the length of a run.
func (c *config) program(ctx context.Context, sys *system, m *mix, dir, script, level string) (*Run, error) {
	if m.sysbench {
		out, err := c.sysbench(ctx, sys, level, script, "run", "--threads="+strconv.Itoa(c.clients), "--time="+strconv.Itoa(c.seconds))
		if err != nil {
			return nil, err
		}
		return parseSysbench(out)
	}
	own, err := m.pgbenchArgs(dir, script, c.scale)
	if err != nil {
		return nil, err
	}
	args := append([]string{"-M", c.protocol, "-c", strconv.Itoa(c.clients), "-j", strconv.Itoa(c.jobs), "-T", strconv.Itoa(c.seconds),
		"--max-tries", strconv.Itoa(c.tries)}, own...)
	if c.rate > 0 {
		args = append(args, "--rate", strconv.Itoa(c.rate))
	}
	out, err := c.pgbench(ctx, sys, level, args...)
	if err != nil {
		return nil, err
	}
	return parsePgbench(out)
}

// profiles takes CPU profiles of a system's nodes; the function that it returns waits for them.
func (c *config) profiles(ctx context.Context, sys *system, name string) (wait func()) {
	done := make(chan struct{}, len(sys.nodes))
	for i, n := range sys.nodes {
		go func() {
			defer func() { done <- struct{}{} }()
			if err := c.profileNode(ctx, n, filepath.Join(c.profile, fmt.Sprintf("%s-node%d.pprof", name, i+1))); err != nil {
				fmt.Fprintln(os.Stderr, "profile:", err)
			}
		}()
	}
	return func() {
		for range sys.nodes {
			<-done
		}
	}
}

func (c *config) profileNode(ctx context.Context, n *process.Node, file string) error {
	url := fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", n.HTTP, max(c.seconds-1, 1))
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, resp.Status)
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(f, resp.Body)
	return err
}
