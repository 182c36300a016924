package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"meridian/bench/plot"
)

// verdict is how a transaction ended.
type verdict int

const (
	committed verdict = iota
	aborted           // by a conflict with another one
	refused           // there was not enough
	unknown           // the client was not told
)

// sample is one transaction of a client, with all of its attempts.
type sample struct {
	kind    string
	region  string
	end     time.Duration // since the beginning of the measurement
	latency time.Duration
	verdict verdict
	retries int
}

// results are what the clients of one system saw.
type results struct {
	name     string
	list     []sample
	clients  int
	duration time.Duration
	// lost counts the pieces that were sold and are still in stock, in a system that does not prevent that.
	lost int
}

// count is the number of transactions that ended in one of some ways.
func (r *results) count(v ...verdict) (n int) {
	for i := range r.list {
		if slices.Contains(v, r.list[i].verdict) {
			n++
		}
	}
	return n
}

func (r *results) retries() (n int) {
	for i := range r.list {
		n += r.list[i].retries
	}
	return n
}

// of are the results of one kind of transactions.
func (r *results) of(kind string) *results {
	out := *r
	out.list = slices.DeleteFunc(slices.Clone(r.list), func(s sample) bool { return s.kind != kind })
	return &out
}

// latencies are those of the transactions that have committed, in order.
func (r *results) latencies() (out []time.Duration) {
	for i := range r.list {
		if r.list[i].verdict == committed {
			out = append(out, r.list[i].latency)
		}
	}
	slices.Sort(out)
	return out
}

// prompt is the share of the commits that took no more than a round trip to the fourth nearest data centre, 5 %, and what statements take within the region.
func (r *results) prompt() float64 {
	const local = 10 * time.Millisecond
	regions, n, all := ec2(), 0, 0
	for i := range r.list {
		s := &r.list[i]
		if s.verdict != committed {
			continue
		}
		all++
		if want := nth(regions, s.region, 4); s.latency <= want+want/20+local {
			n++
		}
	}
	return float64(n) / float64(max(all, 1))
}

// say writes a line of progress about a run that has ended.
func (r *results) say(c *config, began time.Time) {
	l := r.latencies()
	c.say("%s: %d commits, %d aborts, %d without enough, %d unknown, %d retries; p50 %.0f, p99 %.0f ms; %.0f %% in one round; %v", r.name, len(l), r.count(aborted), r.count(refused),
		r.count(unknown), r.retries(), milliseconds(quantile(l, 0.5)), milliseconds(quantile(l, 0.99)), 100*r.prompt(), time.Since(began).Round(100*time.Millisecond))
}

// quantile is the q-quantile of sorted latencies; zero if there are none.
func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// table lists systems, with the paper's medians in ms.
func table(list []*results, paper map[string]float64) string {
	var b strings.Builder
	b.WriteString("| system | p50 | paper's p50 | p90 | p99 | longest | in one round | commits | aborts | not enough | unknown | retries | commits per second |\n|---|" + strings.Repeat("---:|", 12) + "\n")
	for _, r := range list {
		l := r.latencies()
		fmt.Fprintf(&b, "| %s | %.0f ms | %s | %.0f ms | %.0f ms | %.0f ms | %.1f %% | %d | %d | %d | %d | %d | %.0f |\n", r.name, milliseconds(quantile(l, 0.5)), paperMedian(paper[r.name]),
			milliseconds(quantile(l, 0.9)), milliseconds(quantile(l, 0.99)), milliseconds(quantile(l, 1)), 100*r.prompt(), len(l), r.count(aborted), r.count(refused), r.count(unknown), r.retries(),
			float64(len(l))/r.duration.Seconds())
	}
	b.WriteString("\nIn one round: the commits that took no longer than a round trip to the fourth nearest data centre, 5 %, and 10 ms for statements within the region. Not enough: the stock would have become negative. Unknown: " +
		"the client was not told whether its transaction has committed. Retries are of transactions that were aborted by conflicts.\n")
	return b.String()
}

// paperMedian writes one of the paper's medians.
func paperMedian(ms float64) string {
	switch {
	case ms == 0:
		return "not given"
	case ms > 10_000:
		return fmt.Sprintf("%d,%03d ms", int(ms)/1000, int(ms)%1000)
	}
	return fmt.Sprintf("%.0f ms", ms)
}

// distributions draws the share of commits that took no longer, with the paper's medians as marks. A low bound of zero asks for a linear axis.
func distributions(list []*results, dashed []string, paper map[string]float64, low, high float64) plot.Panel {
	p := plot.Panel{Title: "commits", XLabel: "latency, ms (dashed: the paper's medians)", YLabel: "share", XMin: low, XMax: high, LogX: low > 0, YMax: 1}
	for i, r := range list {
		l := r.latencies()
		c := plot.Series{Name: r.name, Color: plot.Color(i), Dashed: slices.Contains(dashed, r.name)}
		for q := 0.0; q <= 1; q += 0.002 {
			if x := milliseconds(quantile(l, q)); x <= high {
				c.X, c.Y = append(c.X, x), append(c.Y, q)
			}
		}
		p.Curves = append(p.Curves, c)
		if ms := paper[r.name]; ms > 0 {
			p.Marks = append(p.Marks, plot.Mark{X: ms, Text: r.name, Color: plot.Color(i)})
		}
	}
	return p
}
