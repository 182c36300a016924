package kill

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"meridian/bench/postgres"
	"meridian/test/process"
)

// pgbench is PostgreSQL's program of that name, run again and again with one client for each node, so that a client whose connection breaks connects
// again, to the next node.
type pgbench struct {
	t       *testing.T
	c       *process.Cluster
	program string
	all     sync.WaitGroup
	end     context.CancelFunc

	mu        sync.Mutex // guards the fields below
	done      int        // transactions that pgbench counts
	broken    int        // connections that broke, and attempts to connect that failed
	attempted int
}

// pgbenchSeconds is how long one run takes whose connection does not break.
const pgbenchSeconds = 3

var (
	processed = regexp.MustCompile(`number of transactions actually processed: (\d+)`)
	failures  = regexp.MustCompile(`number of failed transactions: (\d+)`)
	aborted   = regexp.MustCompile(`client \d+ (?:script \d+ )?aborted in command (\d+)`)
	// refused matches pgbench's message if it can't connect.
	refused = regexp.MustCompile(`error: connection to server at .* failed: `)
)

// beginCommand is the place of BEGIN in the script of TPC-B, after four of pgbench's own.
const beginCommand = "4"

// startPgbench makes pgbench's tables, in a database of their own, and begins.
func startPgbench(t *testing.T, c *process.Cluster) *pgbench {
	t.Helper()
	p := &pgbench{t: t, c: c, program: filepath.Join(postgres.DefaultBin, "pgbench")}
	if _, err := os.Stat(p.program); err != nil {
		if p.program, err = exec.LookPath("pgbench"); err != nil {
			t.Fatal("the test needs PostgreSQL's pgbench: ", err)
		}
	}
	prepare(t, c, nil, "create database pgbench")
	ctx, cancel := context.WithCancel(t.Context())
	if out, err := p.run(ctx, 0, "-i", "-q"); err != nil {
		t.Fatalf("pgbench -i: %v\n%s", err, out)
	}
	p.end = cancel
	for i := range c.Nodes {
		p.all.Go(func() {
			for node := i; ctx.Err() == nil; node++ {
				p.once(node)
			}
		})
	}
	return p
}

// run runs pgbench, which connects to a node or, if that is down, to one after it.
func (p *pgbench) run(ctx context.Context, node int, args ...string) (string, error) {
	var hosts []string
	for i := range p.c.Nodes {
		hosts = append(hosts, p.c.Nodes[(node+i)%len(p.c.Nodes)].SQL)
	}
	limit, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(limit, p.program, append(args, "postgresql://root@"+strings.Join(hosts, ",")+"/pgbench?sslmode=disable")...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// once runs pgbench for a while, or until its connection breaks.
func (p *pgbench) once(node int) {
	// A run is not cut short when the test ends, so that all that it has done is counted.
	out, err := p.run(p.t.Context(), node, "-n", "-M", "prepared", "--max-tries", "100", "-T", strconv.Itoa(pgbenchSeconds))
	if p.t.Context().Err() != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.attempted++
	if m := processed.FindStringSubmatch(out); m != nil {
		n, _ := strconv.Atoi(m[1])
		p.done += n
	}
	if m := failures.FindStringSubmatch(out); m != nil && m[1] != "0" {
		p.t.Errorf("pgbench: %s transactions failed:\n%s", m[1], out)
	}
	if err == nil {
		return
	}
	p.broken++
	if m := aborted.FindStringSubmatch(out); m != nil && m[1] != beginCommand || m == nil && !refused.MatchString(out) || !errors.As(err, new(*exec.ExitError)) {
		p.t.Errorf("pgbench: %v\n%s", err, out)
	}
}

// check ends the runs: pgbench's count of transactions is that of the tables, which agree with each other.
func (p *pgbench) check() {
	t := p.t
	t.Helper()
	p.end()
	p.all.Wait()
	t.Logf("pgbench: %d transactions in %d runs, of which %d ended with a broken connection", p.done, p.attempted, p.broken)
	if p.done == 0 {
		t.Error("pgbench has done nothing")
	}
	limit, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(limit, p.c.Nodes[0].URL("pgbench"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(limit)
	var rows int
	var sums [4]int64
	if err := conn.QueryRow(limit, `select (select count(*) from pgbench_history), (select coalesce(sum(delta), 0) from pgbench_history),
		(select sum(abalance) from pgbench_accounts), (select sum(tbalance) from pgbench_tellers), (select sum(bbalance) from pgbench_branches)`).
		Scan(&rows, &sums[0], &sums[1], &sums[2], &sums[3]); err != nil {
		t.Fatal(err)
	}
	if rows != p.done {
		t.Errorf("pgbench counts %d transactions, its history has %d", p.done, rows)
	}
	for i, table := range []string{"accounts", "tellers", "branches"} {
		if sums[i+1] != sums[0] {
			t.Errorf("the balances of %s add up to %d, the history to %d", table, sums[i+1], sums[0])
		}
	}
}
