package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// mix is a workload that pgbench runs.
type mix struct {
	args []string // pgbench's options for a built-in script
	// custom is scripts of our own, with their weights in percent.
	custom []weighted
}

type weighted struct {
	percent int
	script  string
}

// The YCSB core workloads (Cooper et al., SoCC'10, table 2), each operation a transaction of its own but for F's
// read-modify-write, on a table of ten fields of a hundred bytes. Keys are chosen by Zipf's law; pgbench allows no
// exponent below 1.001 where YCSB has 0.99.
const (
	ycsbRows    = 10_000 // for each of pgbench's scale
	ycsbKey     = "\\set k random_zipfian(1, :rows, 1.001)\n"
	ycsbRead    = ycsbKey + "SELECT * FROM usertable WHERE ycsb_key = :k;\n"
	ycsbValue   = "repeat(chr(97 + :v), 100)"
	ycsbUpdate  = ycsbKey + "\\set v random(0, 25)\nUPDATE usertable SET field0 = " + ycsbValue + " WHERE ycsb_key = :k;\n"
	ycsbModify  = ycsbKey + "\\set v random(0, 25)\nBEGIN;\nSELECT * FROM usertable WHERE ycsb_key = :k;\nUPDATE usertable SET field0 = " + ycsbValue + " WHERE ycsb_key = :k;\nEND;\n"
	ycsbFields  = 10
	ycsbLoadMax = 500 // rows of one INSERT
)

var mixes = map[string]mix{
	"select-only":   {args: []string{"-S"}},
	"simple-update": {args: []string{"-N"}},
	"tpcb-like":     {},
	"ycsb-a":        {custom: []weighted{{50, ycsbRead}, {50, ycsbUpdate}}},
	"ycsb-b":        {custom: []weighted{{95, ycsbRead}, {5, ycsbUpdate}}},
	"ycsb-c":        {custom: []weighted{{100, ycsbRead}}},
	"ycsb-f":        {custom: []weighted{{50, ycsbRead}, {50, ycsbModify}}},
}

// mixSets are short names for lists of mixes.
var mixSets = map[string]string{
	"pgbench": "select-only,simple-update,tpcb-like",
	"ycsb":    "ycsb-a,ycsb-b,ycsb-c,ycsb-f",
	"all":     "select-only,simple-update,tpcb-like,ycsb-a,ycsb-b,ycsb-c,ycsb-f",
}

// isolations are the levels by what the command line calls them.
var isolations = map[string]string{
	"": "", "serializable": "serializable", "repeatable-read": "repeatable read", "read-committed": "read committed",
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
		args = append(args, "-n", "-D", fmt.Sprintf("rows=%d", scale*ycsbRows))
	}
	return args, nil
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
	file := filepath.Join(dir, "ycsb-load.sql")
	if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
		return err
	}
	_, err := c.pgbench(ctx, sys, "", "-n", "-M", "simple", "-c", "1", "-t", "1", "-f", file)
	return err
}
