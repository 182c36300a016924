package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"meridian/bench/plot"
)

func figure4() figure {
	return figure{name: "figure4", title: "Throughput of TPC-W over scales (MDCC, figure 4)", run: runFigure4, about: aboutFigure4}
}

func runFigure4(t *testing.T, c *config) *outcome {
	scales := []int{50, 100, 200}
	if c.quick {
		scales = []int{5, 10}
	}
	names, rows := []string(nil), map[string][]float64{}
	var b strings.Builder
	b.WriteString("| system |")
	for _, n := range scales {
		fmt.Fprintf(&b, " %d clients: writes per second, p50, retries |", n)
	}
	b.WriteString("\n|---|" + strings.Repeat("---:|", len(scales)) + "\n")
	cells := map[string]string{}
	for _, n := range scales {
		l := tpcwLoad(n)
		l.warm, l.measured = 2*time.Second, 5*time.Second
		e := tpcwEngine(n)
		e.name = "MDCC"
		list := []*results{e.measure(t, c, l)}
		if t.Failed() {
			return nil
		}
		list = append(list, tpcwRivals(t, c, l)...)
		for _, r := range list {
			if len(rows[r.name]) == 0 {
				names = append(names, r.name)
			}
			all := r.latencies()
			rate := float64(len(all)) / r.duration.Seconds()
			rows[r.name] = append(rows[r.name], rate)
			cells[r.name] += fmt.Sprintf(" %.0f, %.0f ms, %d |", rate, milliseconds(quantile(all, 0.5)), r.retries())
		}
	}
	if t.Failed() {
		return nil
	}
	var groups []plot.BarGroup
	for i, n := range scales {
		g := plot.BarGroup{Label: fmt.Sprintf("%d clients", n)}
		for _, name := range names {
			g.Values = append(g.Values, rows[name][i])
		}
		groups = append(groups, g)
	}
	for _, name := range names {
		fmt.Fprintf(&b, "| %s |%s\n", name, cells[name])
	}
	last := len(scales) - 1
	fmt.Fprintf(&b, "\nWith %d clients MDCC has %.0f %% of the throughput of QW-4; the paper says that it \"was within 10%%\". From %d to %d clients it grows %.2f-fold.\n",
		scales[last], 100*rows["MDCC"][last]/rows["QW-4"][last], scales[0], scales[last], rows["MDCC"][last]/rows["MDCC"][0])
	return &outcome{table: b.String(), svg: plot.Bars("TPC-W's writes per second (MDCC, figure 4)", "per second", names, groups)}
}
