package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// mix is a workload that pgbench runs.
type mix struct {
	args []string // pgbench's options for a built-in script
	// custom is scripts of our own, with their weights in percent.
	custom []weighted
	// load makes the tables of custom scripts; empty: YCSB's.
	load string
	// sysbench says that this is one of sysbench's scripts, which that program runs.
	sysbench bool
}

type weighted struct {
	percent int
	script  string
}

// The YCSB core workloads (Cooper et al., SoCC'10, table 2), each operation a transaction of its own but for F's
// read-modify-write, on a table of ten fields of a hundred bytes. Keys are chosen by Zipf's law; pgbench allows no
// exponent below 1.001 where YCSB has 0.99.
const (
	ycsbRows   = 10_000 // for each of pgbench's scale
	ycsbKey    = "\\set k random_zipfian(1, :rows, 1.001)\n"
	ycsbRead   = ycsbKey + "SELECT * FROM usertable WHERE ycsb_key = :k;\n"
	ycsbValue  = "repeat(chr(97 + :v), 100)"
	ycsbUpdate = ycsbKey + "\\set v random(0, 25)\nUPDATE usertable SET field0 = " + ycsbValue + " WHERE ycsb_key = :k;\n"
	ycsbScan   = ycsbKey + "\\set n random(1, 100)\nSELECT * FROM usertable WHERE ycsb_key >= :k ORDER BY ycsb_key LIMIT :n;\n"
	// Inserted keys are not read again, where D reads the latest: pgbench's clients do not know of one another.
	ycsbInsert  = "\\set k random(100000000, 2000000000)\nINSERT INTO usertable (ycsb_key, field0) VALUES (:k, repeat('i', 1000)) ON CONFLICT DO NOTHING;\n"
	ycsbModify  = ycsbKey + "\\set v random(0, 25)\nBEGIN;\nSELECT * FROM usertable WHERE ycsb_key = :k;\nUPDATE usertable SET field0 = " + ycsbValue + " WHERE ycsb_key = :k;\nEND;\n"
	ycsbFields  = 10
	ycsbLoadMax = 500 // rows of one INSERT
)

// mixNamed is a mix; false if none has the name.
func mixNamed(name string) (m mix, ok bool) {
	switch name {
	case "select-only":
		m.args = []string{"-S"}
	case "simple-update":
		m.args = []string{"-N"}
	case "tpcb-like":
	case "ycsb-a":
		m.custom = []weighted{{50, ycsbRead}, {50, ycsbUpdate}}
	case "ycsb-b":
		m.custom = []weighted{{95, ycsbRead}, {5, ycsbUpdate}}
	case "ycsb-c":
		m.custom = []weighted{{100, ycsbRead}}
	case "ycsb-d":
		m.custom = []weighted{{95, ycsbRead}, {5, ycsbInsert}}
	case "ycsb-e":
		m.custom = []weighted{{95, ycsbScan}, {5, ycsbInsert}}
	case "smallbank":
		m = smallbank()
	case "tatp":
		m = tatp()
	case "tpcc":
		m = tpcc()
	case "ycsb-f":
		m.custom = []weighted{{50, ycsbRead}, {50, ycsbModify}}
	default:
		m.sysbench = slices.Contains(sysbenchScripts(), name)
		return m, m.sysbench
	}
	return m, true
}

// mixSet is a list of mixes that has a short name; else it is empty.
func mixSet(name string) string {
	const own, ycsb = "select-only,simple-update,tpcb-like", "ycsb-a,ycsb-b,ycsb-c,ycsb-d,ycsb-e,ycsb-f"
	const oltp = "tpcc,smallbank,tatp"
	switch name {
	case "pgbench":
		return own
	case "ycsb":
		return ycsb
	case "oltp":
		return oltp
	case "sysbench":
		return strings.Join(sysbenchScripts(), ",")
	case "all":
		return own + "," + ycsb + "," + oltp
	}
	return ""
}

// isolation is the level that the command line calls so, as SQL has it; empty is the server's default.
func isolation(name string) (sql string, ok bool) {
	switch name {
	case "", "serializable":
		return name, true
	case "repeatable-read", "read-committed":
		return strings.ReplaceAll(name, "-", " "), true
	}
	return "", false
}

// pgbenchArgs are the options for a mix; files of scripts go into dir.
func (m *mix) pgbenchArgs(dir, name string, scale int) ([]string, error) {
	args := append([]string(nil), m.args...)
	for i, w := range m.custom {
		file := filepath.Join(dir, fmt.Sprintf("%s-%d.sql", name, i))
		if err := os.WriteFile(file, []byte(w.script), 0o644); err != nil {
			return nil, err
		}
		args = append(args, "-f", fmt.Sprintf("%s@%d", file, w.percent))
	}
	if len(m.custom) > 0 {
		args = append(append(args, "-n"), sizes(scale)...)
	}
	return args, nil
}

// sizes are the variables of the scripts.
func sizes(scale int) []string {
	return []string{"-D", fmt.Sprintf("rows=%d", scale*ycsbRows), "-D", fmt.Sprintf("accounts=%d", scale*smallbankRows),
		"-D", fmt.Sprintf("subscribers=%d", scale*tatpRows), "-D", fmt.Sprintf("warehouses=%d", max(1, scale/10))}
}

// loadScript runs a mix's own script.
func (c *config) loadScript(ctx context.Context, sys *system, dir, name, script string) error {
	file := filepath.Join(dir, name+"-load.sql")
	if err := os.WriteFile(file, []byte(script), 0o644); err != nil {
		return err
	}
	_, err := c.pgbench(ctx, sys, "", append([]string{"-n", "-M", "simple", "-c", "1", "-t", "1", "-f", file}, sizes(c.scale)...)...)
	return err
}

// loadYCSB makes the table of the YCSB mixes.
func (c *config) loadYCSB(ctx context.Context, sys *system, dir string) error {
	var b strings.Builder
	b.WriteString("DROP TABLE IF EXISTS usertable;\nCREATE TABLE usertable (ycsb_key int PRIMARY KEY")
	values := "g"
	for i := range ycsbFields {
		fmt.Fprintf(&b, ", field%d text", i)
		values += ", repeat(chr(97 + g % 26), 100)"
	}
	b.WriteString(");\n")
	for i := 1; i <= c.scale*ycsbRows; i += ycsbLoadMax {
		fmt.Fprintf(&b, "INSERT INTO usertable SELECT %s FROM generate_series(%d, %d) AS g;\n", values, i, i+ycsbLoadMax-1)
	}
	return c.loadScript(ctx, sys, dir, "ycsb", b.String())
}
