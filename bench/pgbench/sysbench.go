package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
)

// sysbenchRows is the size of sysbench's table for each of pgbench's scale.
const sysbenchRows = 10_000

// sysbenchScripts are the scripts that come with the program, by the names that it has for them. The one that deletes is last: it
// leaves fewer rows.
func sysbenchScripts() []string {
	return []string{"oltp_point_select", "oltp_read_only", "select_random_points", "select_random_ranges", "oltp_read_write",
		"oltp_write_only", "oltp_update_index", "oltp_update_non_index", "oltp_insert", "oltp_delete"}
}

var (
	sysbenchTransactions = regexp.MustCompile(`transactions:\s+(\d+)\s+\(([0-9.]+) per sec`)
	sysbenchErrors       = regexp.MustCompile(`ignored errors:\s+(\d+)`)
	sysbenchAverage      = regexp.MustCompile(`avg:\s+([0-9.]+)`)
)

// sysbench runs the program against a system, with prepared statements, which are its default.
func (c *config) sysbench(ctx context.Context, sys *system, level, script, command string, more ...string) (string, error) {
	args := []string{script, "--db-driver=pgsql", "--pgsql-host=127.0.0.1", "--pgsql-port=" + sys.port, "--pgsql-user=" + sys.user,
		"--pgsql-db=postgres", "--tables=1", "--table-size=" + strconv.Itoa(c.scale*sysbenchRows)}
	args = append(append(args, more...), command)
	cmd := exec.CommandContext(ctx, "sysbench", args...)
	cmd.Env = append(os.Environ(), c.environment(level)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("sysbench %s: %w\n%s", strings.Join(args, " "), err, tail(out))
	}
	return string(out), nil
}

// parseSysbench reads sysbench's summary. Its ignored errors are transactions that it has run again.
func parseSysbench(out string) (*Run, error) {
	m := sysbenchTransactions.FindStringSubmatch(out)
	if m == nil {
		return nil, fmt.Errorf("sysbench's summary lacks its figures:\n%s", out)
	}
	n, err := strconv.ParseInt(m[1], 10, 64)
	if err != nil {
		return nil, err
	}
	r := &Run{Transactions: n}
	for _, f := range []struct {
		text string
		to   *float64
	}{{m[2], &r.TPS}, {submatch(sysbenchAverage, out), &r.LatencyMS}} {
		if f.text != "" {
			if *f.to, err = strconv.ParseFloat(f.text, 64); err != nil {
				return nil, err
			}
		}
	}
	if s := submatch(sysbenchErrors, out); s != "" {
		if r.Retries, err = strconv.ParseInt(s, 10, 64); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// submatch is what a pattern's parentheses match; empty if the pattern matches nowhere.
func submatch(r *regexp.Regexp, text string) string {
	if m := r.FindStringSubmatch(text); m != nil {
		return m[1]
	}
	return ""
}
