package main

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Point is the measurement with a number of clients.
type Point struct {
	Target    string  `json:"target"`
	Script    string  `json:"script"`
	Clients   int     `json:"clients"`
	TPS       float64 `json:"tps"`
	P50MS     float64 `json:"p50_ms"`
	P99MS     float64 `json:"p99_ms"`
	MaxMS     float64 `json:"max_ms"`
	CPUMicros float64 `json:"cpu_us"`
	// ClientMicros is the CPU of the clients themselves, which share the processors with the servers.
	ClientMicros float64 `json:"client_cpu_us"`
	Failed       int64   `json:"failed"`
}

var (
	pgbenchTPS     = regexp.MustCompile(`tps = ([0-9.]+)`)
	pgbenchFailed  = regexp.MustCompile(`number of failed transactions: (\d+)`)
	sysbenchTPS    = regexp.MustCompile(`transactions:\s+\d+\s+\(([0-9.]+) per sec`)
	sysbenchErrors = regexp.MustCompile(`ignored errors:\s+(\d+)`)
	sysbenchAvg    = regexp.MustCompile(`avg:\s+([0-9.]+)`)
	sysbenchMax    = regexp.MustCompile(`max:\s+([0-9.]+)`)
	sysbenchP99    = regexp.MustCompile(`99th percentile:\s+([0-9.]+)`)
)

func number(r *regexp.Regexp, out string) (float64, bool) {
	m := r.FindStringSubmatch(out)
	if m == nil {
		return 0, false
	}
	v, err := strconv.ParseFloat(m[1], 64)
	return v, err == nil
}

// pgbench reads pgbench's summary.
func (p *Point) pgbench(out string) error {
	var ok bool
	if p.TPS, ok = number(pgbenchTPS, out); !ok {
		return fmt.Errorf("pgbench's summary lacks its figures:\n%s", out)
	}
	failed, _ := number(pgbenchFailed, out)
	p.Failed = int64(failed)
	return nil
}

// sysbench reads sysbench's summary. Its ignored errors are transactions that it has run again. It has no median:
// the mean is taken for it.
func (p *Point) sysbench(out string) error {
	var ok bool
	if p.TPS, ok = number(sysbenchTPS, out); !ok {
		return fmt.Errorf("sysbench's summary lacks its figures:\n%s", out)
	}
	failed, _ := number(sysbenchErrors, out)
	p.Failed = int64(failed)
	p.P50MS, _ = number(sysbenchAvg, out)
	p.P99MS, _ = number(sysbenchP99, out)
	p.MaxMS, _ = number(sysbenchMax, out)
	return nil
}

// finished is one transaction of pgbench's log: how long it took, and when it ended.
type finished struct{ ms, at float64 }

// appendFinished reads a log of pgbench: client, transaction, microseconds, script, and the seconds and microseconds at which it
// ended; a failed transaction has a word instead of the first microseconds.
func appendFinished(all []finished, r io.Reader) ([]finished, error) {
	s := bufio.NewScanner(r)
	for s.Scan() {
		f := strings.Fields(s.Text())
		if len(f) < 6 {
			return nil, fmt.Errorf("a short line in pgbench's log: %q", s.Text())
		}
		us, err := strconv.ParseFloat(f[2], 64)
		if err != nil {
			continue
		}
		sec, err := strconv.ParseFloat(f[4], 64)
		if err != nil {
			return nil, err
		}
		part, err := strconv.ParseFloat(f[5], 64)
		if err != nil {
			return nil, err
		}
		all = append(all, finished{us / 1000, sec + part/1e6})
	}
	return all, s.Err()
}

// count takes throughput and percentiles from the transactions that began after the first settle seconds. The run begins with the
// first transaction.
func (p *Point) count(all []finished, settle float64) {
	if len(all) == 0 {
		return
	}
	first, last := math.Inf(1), 0.0
	for _, f := range all {
		first, last = min(first, f.at-f.ms/1000), max(last, f.at)
	}
	var ms []float64
	ended := 0
	for _, f := range all {
		if f.at >= first+settle {
			ended++
		}
		if f.at-f.ms/1000 >= first+settle {
			ms = append(ms, f.ms)
		}
	}
	if last > first+settle {
		p.TPS = float64(ended) / (last - first - settle)
	}
	if len(ms) == 0 {
		return
	}
	slices.Sort(ms)
	p.P50MS, p.P99MS, p.MaxMS = ms[len(ms)/2], ms[len(ms)*99/100], ms[len(ms)-1]
}

// peak is the highest throughput of a target in a script, and bound what the 99th percentile should not exceed with so many
// clients: twice what each would wait if all took turns.
func peak(points []Point, target, script string) (top float64) {
	for _, p := range points {
		if p.Target == target && p.Script == script {
			top = max(top, p.TPS)
		}
	}
	return top
}

func bound(clients int, top float64) (ms float64) { return 2 * float64(clients) / top * 1000 }

// printTable prints all points, each with the peak of its curve.
func printTable(w io.Writer, points []Point) {
	fmt.Fprintln(w, "| script | clients | system | tps | of its peak | p50 ms | p99 ms | 2 x clients / peak, ms | CPU us per transaction | of clients | failed |")
	fmt.Fprintln(w, "|---|---:|---|---:|---:|---:|---:|---:|---:|---:|---:|")
	for _, p := range points {
		top := peak(points, p.Target, p.Script)
		if top == 0 {
			top = 1
		}
		fmt.Fprintf(w, "| %s | %d | %s | %.0f | %.2f | %.1f | %.1f | %.1f | %.0f | %.0f | %d |\n",
			p.Script, p.Clients, p.Target, p.TPS, p.TPS/top, p.P50MS, p.P99MS, bound(p.Clients, top), p.CPUMicros, p.ClientMicros, p.Failed)
	}
}
