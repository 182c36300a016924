package main

import (
	"os"
	"strings"
	"testing"
	"time"
)

func TestParsePgbench(t *testing.T) {
	r, err := parsePgbench(`transaction type: <builtin: simple update>
number of transactions actually processed: 12345
number of failed transactions: 7 (0.057%)
total number of retries: 9
latency average = 6.480 ms
initial connection time = 9.671 ms
tps = 1234.567890 (without initial connection time)
`)
	if err != nil || *r != (Run{Transactions: 12345, Failed: 7, Retries: 9, TPS: 1234.56789, LatencyMS: 6.48}) {
		t.Error(r, err)
	}
	if _, err := parsePgbench("pgbench: error: run was aborted"); err == nil {
		t.Error("a summary was read where there is none")
	}
}

func TestParseSysbench(t *testing.T) {
	r, err := parseSysbench(`SQL statistics:
    transactions:                        1530   (305.71 per sec.)
    ignored errors:                      4      (0.80 per sec.)
Latency (ms):
         min:                                    1.02
         avg:                                    3.27
`)
	if err != nil || *r != (Run{Transactions: 1530, Retries: 4, TPS: 305.71, LatencyMS: 3.27}) {
		t.Error(r, err)
	}
	if _, err := parseSysbench("FATAL: connection refused"); err == nil {
		t.Error("a summary was read where there is none")
	}
}

func TestSummarize(t *testing.T) {
	run := func(system string, tps, cpu float64, failed int64) Run {
		return Run{System: system, TPS: tps, CPUMicros: cpu, Failed: failed}
	}
	s := Script{Base: postgreSQL, Runs: []Run{
		run("postgres", 100, 10, 0), run("meridian", 50, 30, 1), // 0.5, 3
		run("postgres", 200, 20, 0), run("meridian", 40, 20, 2), // 0.2, 1
		run("postgres", 50, 40, 0), run("meridian", 45, 80, 0), // 0.9, 2
	}}
	s.summarize()
	if s.TPSRatio != 0.5 || s.CPURatio != 2 || s.TPS["postgres"] != 100 || s.TPS["meridian"] != 45 || s.CPUMicros["meridian"] != 30 || s.Failed["meridian"] != 3 {
		t.Errorf("%+v", s)
	}
	var b strings.Builder
	printSetup(&b, &Setup{Name: "one", Scripts: []Script{s}})
	if !strings.Contains(b.String(), "0.50") {
		t.Error(b.String())
	}
	alone := Script{Runs: []Run{run("meridian", 50, 30, 1)}}
	alone.summarize()
	if alone.TPSRatio != 0 || alone.TPS["meridian"] != 50 {
		t.Errorf("%+v", alone)
	}
}

func TestTreeTicks(t *testing.T) {
	line := "17 (a (b) c) S 4 17 17 0 -1 4194560 100 200 0 0 11 22 33 44 20 0 1 0 100 0 0"
	s, err := parseStat(line)
	if err != nil || s != (stat{pid: 17, parent: 4, ticks: 110}) {
		t.Error(s, err)
	}
	for _, bad := range []string{"", "17", "17 (a) S 4", "x (a) S 4 17 17 0 -1 4194560 100 200 0 0 11 22 33 44 20"} {
		if _, err := parseStat(bad); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
	all := []stat{{1, 0, 1000}, {4, 1, 1}, {17, 4, 10}, {18, 17, 100}, {19, 1, 5}}
	if n, err := treeTicks(all, []int{4, 19}); n != 116 || err != nil {
		t.Error(n, err)
	}
	if _, err := treeTicks(all, []int{5}); err == nil {
		t.Error("a process that has ended was counted")
	}
}

func TestCPUTimeOfThisProcess(t *testing.T) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("no /proc")
	}
	before, err := cpuTime([]int{os.Getpid()})
	if err != nil {
		t.Fatal(err)
	}
	for begin := time.Now(); time.Since(begin) < 300*time.Millisecond; {
	}
	after, err := cpuTime([]int{os.Getpid()})
	if err != nil || after-before < 20*time.Millisecond || after-before > 10*time.Second {
		t.Error(after-before, err)
	}
}
