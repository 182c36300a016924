package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"meridian/bench/plot"
)

func figure3() figure {
	return figure{name: "figure3", title: "Latencies of TPC-W's writes (MDCC, figure 3)", run: runFigure3, about: aboutFigure3}
}

// tpcwMedians are the paper's, in ms.
func tpcwMedians() map[string]float64 {
	return map[string]float64{"MDCC": 278, "QW-3": 188, "QW-4": 260, "2PC": 668, "Megastore*": 17_810}
}

// tpcwRivals are the protocols that figures 3 and 4 compare with.
func tpcwRivals(t *testing.T, c *config, l *load) (list []*results) {
	list = append(list, compete(t, c, "QW-3", l, qw(3)), compete(t, c, "QW-4", l, qw(4)), compete(t, c, "2PC", l, twoPC))
	// All clients are with the master. They queue for longer than the others' runs last.
	near := *l
	near.regionOf = func(int) int { return usWest }
	near.warm, near.measured = time.Minute, 2*time.Minute
	return append(list, compete(t, c, "Megastore*", &near, megastoreStar))
}

func runFigure3(t *testing.T, c *config) *outcome {
	l := tpcwLoad(100)
	l.warm, l.measured = 3*time.Second, 15*time.Second
	if c.quick {
		l = tpcwLoad(10)
		l.warm, l.measured = time.Second, 5*time.Second
	}
	r := tpcwEngine(l.clients).measure(t, c, l)
	if t.Failed() {
		return nil
	}
	list := append([]*results{r}, tpcwRivals(t, c, l)...)
	if t.Failed() {
		return nil
	}
	paper := tpcwMedians()
	p := distributions(list, []string{"QW-3", "QW-4"}, paper, 100, 100_000)
	var b strings.Builder
	b.WriteString(table(list, paper))
	fmt.Fprintf(&b, "\nQuorum writes lose updates: of what they had sold, QW-3 still had %d pieces in stock, and QW-4 %d.\n", list[1].lost, list[2].lost)
	b.WriteString("\nThe same by interaction, for MDCC:\n\n| interaction | p50 | p90 | p99 | in one round | commits | retries |\n|---|---:|---:|---:|---:|---:|---:|\n")
	for _, kind := range []string{"shopping cart", "buy request", "buy confirm", "admin confirm"} {
		of := r.of(kind)
		all := of.latencies()
		fmt.Fprintf(&b, "| %s | %.0f ms | %.0f ms | %.0f ms | %.1f %% | %d | %d |\n", kind, milliseconds(quantile(all, 0.5)), milliseconds(quantile(all, 0.9)), milliseconds(quantile(all, 0.99)), 100*of.prompt(), len(all), of.retries())
	}
	return &outcome{table: b.String(), svg: plot.Draw("TPC-W's writes (MDCC, figure 3)", 1, []plot.Panel{p}, nil)}
}
