package main

import (
	"fmt"
	"testing"
	"time"

	"meridian/bench/plot"
)

func figure8() figure {
	return figure{name: "figure8", title: "The loss of a data centre (MDCC, figure 8)", run: runFigure8, about: aboutFigure8}
}

func runFigure8(t *testing.T, c *config) *outcome {
	l := microLoad(c, 2*time.Second, 40*time.Second)
	at := 20 * time.Second
	if c.quick {
		l.clients, l.measured, at = 5, 12*time.Second, 6*time.Second
	} else {
		l.clients = 25
	}
	l.regionOf = func(int) int { return usWest }
	e := mdcc()
	e.lost, e.lostAt = usEast, at
	r := e.measure(t, c, l)
	if t.Failed() {
		return nil
	}
	return figure8Outcome(r, at)
}

// gap is the longest time without a commit that ended between two moments.
func gap(list []sample, from, to time.Duration) (longest time.Duration) {
	last := from
	for _, s := range list { // in the order of their ends
		if s.verdict == committed && s.end >= from && s.end < to {
			longest, last = max(longest, s.end-last), s.end
		}
	}
	return max(longest, to-last)
}

func figure8Outcome(r *results, at time.Duration) *outcome {
	part := func(from, to time.Duration) *results {
		out := *r
		out.list = nil
		for _, s := range r.list {
			if s.end >= from && s.end < to {
				out.list = append(out.list, s)
			}
		}
		out.duration = to - from
		return &out
	}
	out := "| | mean | paper's mean | p50 | p90 | p99 | longest | longest time without a commit | commits | aborts | commits per second |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n"
	for _, x := range []struct {
		name, paper string
		from, to    time.Duration
	}{
		{"before", "173.5 ms", 0, at}, {"the second after the loss", "", at, at + time.Second}, {"after it", "211.7 ms", at + time.Second, r.duration},
	} {
		p := part(x.from, x.to)
		l := p.latencies()
		sum := time.Duration(0)
		for _, d := range l {
			sum += d
		}
		out += fmt.Sprintf("| %s | %.1f ms | %s | %.0f ms | %.0f ms | %.0f ms | %.0f ms | %.0f ms | %d | %d | %.0f |\n", x.name, milliseconds(sum)/float64(max(len(l), 1)), x.paper, milliseconds(quantile(l, 0.5)),
			milliseconds(quantile(l, 0.9)), milliseconds(quantile(l, 0.99)), milliseconds(quantile(l, 1)), milliseconds(gap(r.list, x.from, x.to)), len(l), p.count(aborted, refused, unknown), float64(len(l))/p.duration.Seconds())
	}
	mean, longest := plot.Series{Name: "mean of each half second", Color: plot.Color(0)}, plot.Series{Name: "longest of each half second", Color: plot.Color(1)}
	const step = 500 * time.Millisecond
	most := 0.0
	for from := time.Duration(0); from < r.duration; from += step {
		l := part(from, from+step).latencies()
		if len(l) == 0 {
			continue
		}
		sum := time.Duration(0)
		for _, d := range l {
			sum += d
		}
		x := (from + step/2).Seconds()
		mean.X, mean.Y = append(mean.X, x), append(mean.Y, milliseconds(sum)/float64(len(l)))
		longest.X, longest.Y = append(longest.X, x), append(longest.Y, milliseconds(quantile(l, 1)))
		most = max(most, milliseconds(quantile(l, 1)))
	}
	before, after := plot.Series{Name: "the paper's mean before: 173.5 ms", Color: plot.Color(2), Dashed: true, X: []float64{0, at.Seconds()}, Y: []float64{173.5, 173.5}},
		plot.Series{Name: "and after: 211.7 ms", Color: plot.Color(2), Dashed: true, X: []float64{at.Seconds(), r.duration.Seconds()}, Y: []float64{211.7, 211.7}}
	p := plot.Panel{Title: "commits from US-West", XLabel: "seconds", YLabel: "ms", XMax: r.duration.Seconds(), YMax: max(400, min(most*1.05, 2000)),
		Curves: []plot.Series{mean, longest, before, after}, Marks: []plot.Mark{{X: at.Seconds(), Text: "US-East is lost"}}}
	return &outcome{table: out, svg: plot.Draw("The loss of a data centre (MDCC, figure 8)", 1, []plot.Panel{p}, nil)}
}
