package main

import (
	"testing"
	"time"

	"meridian/bench/plot"
)

func figure5() figure {
	return figure{name: "figure5", title: "Latencies of the micro benchmark (MDCC, figure 5)", run: runFigure5, about: aboutFigure5}
}

// microStock is between 100 and 1,000, as the paper chooses stocks at random without saying in which bounds.
func microStock(item int) int { return 100 + item*7919%901 }

func microLoad(c *config, warm, measured time.Duration) *load {
	l := &load{clients: 100, regionOf: spread, warm: warm, measured: measured, items: 10_000, stock: microStock, shards: 2}
	if c.quick {
		l.clients, l.items, l.warm, l.measured = 10, 1000, time.Second, 5*time.Second
	}
	l.source = func(_, region int) source { return &micro{items: l.items, region: region} }
	return l
}

func runFigure5(t *testing.T, c *config) *outcome {
	l := microLoad(c, 3*time.Second, 30*time.Second)
	var list []*results
	for _, e := range []*engine{mdcc(), fast(), policy("Classic", "classic")} {
		if list = append(list, e.measure(t, c, l)); t.Failed() {
			return nil
		}
	}
	list = append(list, compete(t, c, "Multi", l, multiPaxos), compete(t, c, "2PC", l, twoPC))
	paper := map[string]float64{"MDCC": 245, "Fast": 276, "Multi": 388, "2PC": 543}
	p := distributions(list, nil, paper, 0, 1000)
	return &outcome{table: table(list, paper), svg: plot.Draw("The micro benchmark's purchases (MDCC, figure 5)", 1, []plot.Panel{p}, nil)}
}
