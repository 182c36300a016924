package main

import (
	"strings"
	"testing"
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
	externally := Script{Runs: []Run{run("meridian", 100, 10, 0), run("external", 50, 11, 0)}}
	externally.summarize()
	b.Reset()
	if printSetup(&b, &Setup{Name: "one", Scripts: []Script{externally}}); !strings.Contains(b.String(), "50 tps (0.50), 11.0 us of CPU for each transaction (1.10)") {
		t.Error(b.String())
	}
	alone := Script{Runs: []Run{run("meridian", 50, 30, 1)}}
	alone.summarize()
	if alone.TPSRatio != 0 || alone.TPS["meridian"] != 50 {
		t.Errorf("%+v", alone)
	}
	other := Script{Base: postgreSQL, Runs: []Run{run("postgres", 50, 30, 1)}}
	other.summarize()
	for _, one := range []Script{alone, other} {
		b.Reset()
		if printSetup(&b, &Setup{Name: "one", Scripts: []Script{one}}); strings.Contains(b.String(), "ratio") || !strings.Contains(b.String(), "| 50 | 30.0 | ") {
			t.Errorf("nothing was compared:\n%s", b.String())
		}
	}
}
