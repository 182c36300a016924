package main

import (
	"fmt"
	"testing"
	"time"

	"meridian/bench/plot"
)

func figure5() figure {
	return figure{name: "figure5", title: "Latencies of the micro benchmark (MDCC, figure 5)", run: runFigure5, about: `
**Question.** How long does a purchase of three items take?
`}
}

// microStock is between 100 and 1,000, as the paper chooses stocks at random without saying in which bounds.
func microStock(item int) int { return 100 + item*7919%901 }

func microLoad(c *config, warm, measured time.Duration) *load {
	l := &load{clients: 100, regionOf: spread, warm: warm, measured: measured, items: 10_000, stock: microStock}
	if c.quick {
		l.clients, l.items, l.warm, l.measured = 10, 1000, time.Second, 5*time.Second
	}
	l.source = func(_, region int) source { return &micro{items: l.items, region: region} }
	return l
}

func runFigure5(t *testing.T, c *config) *outcome {
	l := microLoad(c, 5*time.Second, 20*time.Second)
	var list []*results
	for _, e := range []*engine{{name: "MDCC", without: -1}, {name: "Fast", reading: true, without: -1}} {
		r := e.measure(t, c, l)
		if t.Failed() {
			return nil
		}
		c.say("%s: %.1f %% in one round", e.name, 100*r.prompt(5*time.Millisecond))
		list = append(list, r)
	}
	p := plot.Panel{Title: "commits", XLabel: "latency, ms", YLabel: "share", XMin: 0, XMax: 1000, YMax: 1}
	for i, r := range list {
		p.Curves = append(p.Curves, distribution(r, i, false))
	}
	return &outcome{table: table(list, map[string]float64{"MDCC": 245, "Fast": 276, "Multi": 388, "2PC": 543}), svg: plot.Draw(fmt.Sprint("x"), 1, []plot.Panel{p}, nil)}
}
