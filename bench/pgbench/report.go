package main

import (
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
)

// Report is the JSON result.
type Report struct {
	When       string  `json:"when"`
	CPUs       int     `json:"cpus"`
	PostgreSQL string  `json:"postgresql"`
	Scale      int     `json:"scale"`
	Clients    int     `json:"clients"`
	Jobs       int     `json:"jobs"`
	Seconds    int     `json:"seconds"`
	Protocol   string  `json:"protocol"`
	Setups     []Setup `json:"setups"`
}

// Setup has the measurements of one arrangement of servers.
type Setup struct {
	Name string `json:"name"`
	// Load has the seconds of pgbench -i.
	Load    map[string]float64 `json:"load_seconds"`
	Scripts []Script           `json:"scripts"`
}

// Script has the measurements of one script.
type Script struct {
	Name string `json:"name"`
	Base string `json:"base"` // the system that Meridian is compared with; empty if there is none
	Runs []Run  `json:"runs"`
	// Medians by system, and the medians of the ratios, Meridian's to the base's, within rounds.
	TPS       map[string]float64 `json:"tps"`
	CPUMicros map[string]float64 `json:"cpu_us"`
	TPSRatio  float64            `json:"tps_ratio"`
	CPURatio  float64            `json:"cpu_ratio"`
	// Failed transactions ended with an error, after pgbench's tries; FailedRate and RetryRate are shares of all.
	Failed     map[string]int64   `json:"failed"`
	FailedRate map[string]float64 `json:"failed_rate"`
	RetryRate  map[string]float64 `json:"retry_rate"`
}

// Run is one run of pgbench.
type Run struct {
	System       string  `json:"system"`
	Transactions int64   `json:"transactions"`
	Failed       int64   `json:"failed"`
	Retries      int64   `json:"retries"` // by pgbench, if it may try more than once
	TPS          float64 `json:"tps"`
	LatencyMS    float64 `json:"latency_ms"`
	CPUMicros    float64 `json:"cpu_us"`
}

var (
	processedLine = regexp.MustCompile(`number of transactions actually processed: (\d+)`)
	failedLine    = regexp.MustCompile(`number of failed transactions: (\d+)`)
	retriesLine   = regexp.MustCompile(`total number of retries: (\d+)`)
	tpsLine       = regexp.MustCompile(`tps = ([0-9.]+)`)
	latencyLine   = regexp.MustCompile(`latency average = ([0-9.]+) ms`)
)

// parsePgbench reads pgbench's summary.
func parsePgbench(out string) (*Run, error) {
	number := func(r *regexp.Regexp) (float64, bool) {
		m := r.FindStringSubmatch(out)
		if m == nil {
			return 0, false
		}
		v, err := strconv.ParseFloat(m[1], 64)
		return v, err == nil
	}
	n, ok1 := number(processedLine)
	tps, ok2 := number(tpsLine)
	if !ok1 || !ok2 {
		return nil, fmt.Errorf("pgbench's summary lacks its figures:\n%s", out)
	}
	latency, _ := number(latencyLine)
	failed, _ := number(failedLine)
	retries, _ := number(retriesLine)
	return &Run{Transactions: int64(n), Failed: int64(failed), Retries: int64(retries), TPS: tps, LatencyMS: latency}, nil
}

func median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	v = slices.Sorted(slices.Values(v))
	if n := len(v); n%2 == 0 {
		return (v[n/2-1] + v[n/2]) / 2
	}
	return v[len(v)/2]
}

// summarize fills the medians and ratios from the runs; the runs of a round follow each other.
func (s *Script) summarize() {
	s.TPS, s.CPUMicros, s.Failed = make(map[string]float64), make(map[string]float64), make(map[string]int64)
	s.FailedRate, s.RetryRate = make(map[string]float64), make(map[string]float64)
	bySystem := make(map[string][]Run)
	all := make(map[string]float64)
	for _, r := range s.Runs {
		bySystem[r.System] = append(bySystem[r.System], r)
		s.Failed[r.System] += r.Failed
		s.RetryRate[r.System] += float64(r.Retries)
		all[r.System] += float64(r.Transactions + r.Failed)
	}
	for name, n := range all {
		if n > 0 {
			s.FailedRate[name] = float64(s.Failed[name]) / n
			s.RetryRate[name] /= n
		}
	}
	pick := func(runs []Run, f func(Run) float64) (out []float64) {
		for _, r := range runs {
			out = append(out, f(r))
		}
		return out
	}
	tps, cpu := func(r Run) float64 { return r.TPS }, func(r Run) float64 { return r.CPUMicros }
	for name, runs := range bySystem {
		s.TPS[name], s.CPUMicros[name] = median(pick(runs, tps)), median(pick(runs, cpu))
	}
	s.TPSRatio, s.CPURatio = ratio(bySystem[meridian], bySystem[s.Base], tps), ratio(bySystem[meridian], bySystem[s.Base], cpu)
}

// ratio is the median over the rounds of what one system has divided by what another one has.
func ratio(m, b []Run, f func(Run) float64) float64 {
	var v []float64
	for i := range min(len(b), len(m)) {
		if f(b[i]) > 0 {
			v = append(v, f(m[i])/f(b[i]))
		}
	}
	return median(v)
}

// against is how another Meridian compares with the one that nothing was changed in, if both were measured.
func (s *Script) against(system string) (tps, cpu float64, ok bool) {
	var p, l []Run
	for _, r := range s.Runs {
		switch r.System {
		case system:
			p = append(p, r)
		case meridian:
			l = append(l, r)
		}
	}
	if len(p) == 0 || len(l) == 0 {
		return 0, 0, false
	}
	return ratio(p, l, func(r Run) float64 { return r.TPS }), ratio(p, l, func(r Run) float64 { return r.CPUMicros }), true
}

// printSetup prints the table of one setup: Meridian next to another system if both were measured, and what was measured otherwise.
func printSetup(w io.Writer, s *Setup) {
	if len(s.Scripts) == 0 {
		return
	}
	_, both := s.Scripts[0].TPS[meridian]
	if base := s.Scripts[0].Base; both && base != "" {
		printCompared(w, s, base)
	} else {
		printMeasured(w, s)
	}
	for _, r := range s.Scripts {
		if tps, cpu, ok := r.against(external); ok {
			fmt.Fprintf(w, "\n%s in an externally consistent database, against another one: %.0f tps (%.2f), %.1f us of CPU for each transaction (%.2f)\n", r.Name, r.TPS[external], tps, r.CPUMicros[external], cpu)
		}
		if tps, cpu, ok := r.against(fastPaxos); ok {
			fmt.Fprintf(w, "\n%s on tables with the protocol fast_paxos, against those with a leader: %.0f tps (%.2f), %.1f us of CPU for each transaction (%.2f)\n", r.Name, r.TPS[fastPaxos], tps, r.CPUMicros[fastPaxos], cpu)
		}
	}
	fmt.Fprintln(w)
}

// printCompared prints Meridian's figures next to those of the system that it is compared with.
func printCompared(w io.Writer, s *Setup, base string) {
	name := "PostgreSQL"
	against := map[string]string{"one": "one node against one PostgreSQL", "three": "three nodes against PostgreSQL with ANY 1 of two standbys", "five": "five nodes against PostgreSQL with ANY 1 of four standbys"}[s.Name]
	if base == before {
		name, against = "earlier", map[string]string{"one": "one node against one of the earlier binary", "three": "three nodes against three of the earlier binary", "five": "five nodes against five of the earlier binary"}[s.Name]
	}
	fmt.Fprintf(w, "\n%s (medians of the rounds)\n\n", against)
	fmt.Fprintf(w, "| script | %s tps | Meridian tps | ratio | %[1]s CPU us/txn | Meridian CPU us/txn | ratio | failed %% | retried %% |\n", name)
	fmt.Fprintln(w, "|---|---:|---:|---:|---:|---:|---:|---:|---:|")
	percent := func(m map[string]float64) string {
		return fmt.Sprintf("%.2f / %.2f", 100*m[base], 100*m[meridian])
	}
	for _, r := range s.Scripts {
		fmt.Fprintf(w, "| %s | %.0f | %.0f | %.2f | %.1f | %.1f | %.2f | %s | %s |\n", r.Name, r.TPS[base], r.TPS[meridian], r.TPSRatio,
			r.CPUMicros[base], r.CPUMicros[meridian], r.CPURatio, percent(r.FailedRate), percent(r.RetryRate))
	}
}

// printMeasured prints each system's figures.
func printMeasured(w io.Writer, s *Setup) {
	fmt.Fprintf(w, "\nsetup %s (medians of the rounds)\n\n", s.Name)
	fmt.Fprintln(w, "| script | system | tps | CPU us/txn | failed % | retried % |")
	fmt.Fprintln(w, "|---|---|---:|---:|---:|---:|")
	for _, r := range s.Scripts {
		for _, system := range slices.Sorted(maps.Keys(r.TPS)) {
			fmt.Fprintf(w, "| %s | %s | %.0f | %.1f | %.2f | %.2f |\n", r.Name, system, r.TPS[system], r.CPUMicros[system], 100*r.FailedRate[system], 100*r.RetryRate[system])
		}
	}
}
