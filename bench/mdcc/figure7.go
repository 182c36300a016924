package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"meridian/bench/plot"
)

func figure7() figure {
	return figure{name: "figure7", title: "Latencies by the locality of masters (MDCC, figure 7)", run: runFigure7, about: aboutFigure7}
}

func runFigure7(t *testing.T, c *config) *outcome {
	var b strings.Builder
	b.WriteString("| local masters | system | least | p25 | p50 | paper's p50 | p75 | p99 | longest | commits | aborts |\n|---:|---|" + strings.Repeat("---:|", 9) + "\n")
	var boxes []plot.Box
	shares := []float64{1, 0.8, 0.6, 0.4, 0.2}
	if c.quick {
		shares = []float64{1, 0.2}
	}
	for _, share := range shares {
		l := microLoad(c, 2*time.Second, 6*time.Second)
		l.source = func(_, region int) source { return &micro{items: l.items, region: region, local: share} }
		c.say("figure 7, %g %% of local masters", 100*share)
		list := []*results{compete(t, c, "Multi", l, multiPaxos)}
		for _, e := range []*engine{mdcc(), fast(), policy("Classic", "classic"), policy("Learned", "learned")} {
			list = append(list, e.measure(t, c, l))
		}
		if t.Failed() {
			return nil
		}
		for i, r := range list {
			all, paper := r.latencies(), "not given"
			if share == 0.8 && i < 2 {
				paper = []string{"242 ms", "231 ms"}[i]
			}
			var q []float64
			for _, at := range []float64{0, 0.25, 0.5, 0.75, 0.99, 1} {
				q = append(q, milliseconds(quantile(all, at)))
			}
			fmt.Fprintf(&b, "| %g %% | %s | %.0f ms | %.0f ms | %.0f ms | %s | %.0f ms | %.0f ms | %.0f ms | %d | %d |\n", 100*share, r.name, q[0], q[1], q[2], paper, q[3], q[4], q[5], len(all), r.count(aborted, refused))
			boxes = append(boxes, plot.Box{Label: fmt.Sprintf("%s %g %%", r.name, 100*share), Color: plot.Color(i), Values: [5]float64{q[0], q[1], q[2], q[3], q[4]}})
		}
	}
	b.WriteString(`
The paper draws boxes and gives two medians. Its words: "Multi only out-performs MDCC when the locality is near 100%", and "the max latency of the Multi configuration is higher than for full MDCC".
`)
	return &outcome{table: b.String(), svg: plot.Boxes("Multi and MDCC by the share of local masters (MDCC, figure 7)", "latency, ms: least, quartiles, 99th percentile", boxes)}
}
