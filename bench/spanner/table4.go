package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"meridian/bench/plot"
)

// participants4 are the rows of the paper's table 4, with its means and 99th percentiles.
var participants4 = []struct {
	n          int
	mean, p99  string
	meanMS     float64
	percentile float64
}{
	{1, "17.0 ± 1.4", "75.0 ± 34.9", 17.0, 75.0}, {2, "24.5 ± 2.5", "87.6 ± 35.9", 24.5, 87.6}, {5, "31.5 ± 6.2", "104.5 ± 52.2", 31.5, 104.5}, {10, "30.0 ± 3.7", "95.6 ± 25.4", 30.0, 95.6},
	{25, "35.5 ± 5.6", "100.4 ± 42.7", 35.5, 100.4}, {50, "42.7 ± 4.1", "93.7 ± 22.9", 42.7, 93.7}, {100, "71.4 ± 7.6", "131.2 ± 17.6", 71.4, 131.2}, {200, "150.5 ± 11.0", "320.3 ± 35.1", 150.5, 320.3},
}

func runTable4(t *testing.T, c *config) *outcome {
	modes := map[bool]map[int]runs{}
	for _, external := range []bool{true, false} {
		bubble(t, fmt.Sprintf("external %v", external), func(t *testing.T) { modes[external] = measure4(t, c, external) })
		if t.Failed() {
			return nil
		}
	}
	return table4Outcome(modes[true], modes[false])
}

// measure4 writes one row in each of some ranges, in one transaction, for each number of participants.
func measure4(t *testing.T, c *config, external bool) map[int]runs {
	ranges, rounds, each := 200, 10, 10
	if c.quick {
		ranges, rounds, each = 10, 2, 5
	}
	const rows = 10 // of each range
	w := begin(t, zones(3), 1, paperEpsilon, external)
	conn := w.open(0, "d")
	w.fill(conn, "t", ranges*rows, 10, ranges)
	w.settle(3, "")
	w.spread(conn, "t")
	must(t, conn, "SELECT count(*) FROM t")
	dice := rand.New(rand.NewPCG(4, 1))
	out := map[int]runs{}
	for _, p := range participants4 {
		if p.n > ranges {
			break
		}
		began := time.Now()
		once := func() time.Duration {
			var at []int64
			for _, r := range dice.Perm(ranges)[:p.n] {
				at = append(at, int64(r*rows+dice.IntN(rows)))
			}
			time.Sleep(20*time.Millisecond + time.Duration(dice.IntN(int(10*time.Millisecond))))
			return timed(func() {
				tag, err := conn.Exec(t.Context(), "UPDATE t SET n = n + 1 WHERE k = ANY($1)", at)
				if err != nil || tag.RowsAffected() != int64(p.n) {
					t.Fatalf("%d participants: %v, %v", p.n, tag, err)
				}
			})
		}
		once()
		for range rounds {
			var s stats
			for range each {
				s = append(s, once())
			}
			out[p.n] = append(out[p.n], s)
		}
		all := out[p.n].all()
		c.say("table 4: external %v, %d participants: %s ms, p99 %.1f; virtual %v", external, p.n, all.text(), all.quantile(0.99), time.Since(began).Round(time.Second))
	}
	return out
}

func table4Outcome(external, plain map[int]runs) *outcome {
	var b strings.Builder
	b.WriteString("| participants | mean | paper's | 99th percentile | paper's | default mode: mean | 99th percentile |\n|---:|---:|---:|---:|---:|---:|---:|\n")
	p99 := func(s stats) float64 { return s.quantile(0.99) }
	curve := func(i int, name string, dashed bool) plot.Series {
		return plot.Series{Name: name, Color: plot.Color(i), Dashed: dashed}
	}
	ours, ours99, off, paper, paper99 := curve(0, "mean", false), curve(1, "99th percentile", false), curve(2, "default mode's mean", false), curve(0, "paper's mean", true), curve(1, "paper's 99th percentile", true)
	add := func(c *plot.Series, x int, y float64) { c.X, c.Y = append(c.X, float64(x)), append(c.Y, y) }
	for _, p := range participants4 {
		add(&paper, p.n, p.meanMS)
		add(&paper99, p.n, p.percentile)
		e, d := external[p.n], plain[p.n]
		if e == nil {
			continue
		}
		fmt.Fprintf(&b, "| %d | %s | %s | %s | %s | %s | %s |\n", p.n, e.over(stats.mean), p.mean, e.over(p99), p.p99, d.over(stats.mean), d.over(p99))
		add(&ours, p.n, e.all().mean())
		add(&ours99, p.n, e.all().quantile(0.99))
		add(&off, p.n, d.all().mean())
	}
	b.WriteString("\nMilliseconds: the mean over the runs, and its deviation.\n")
	panel := plot.Panel{Title: "one row in each range", XLabel: "participants", YLabel: "ms", LogX: true, XMin: 1, XMax: 200, Curves: []plot.Series{ours, ours99, off, paper, paper99}}
	return &outcome{table: b.String(), svg: plot.Draw("Commits over many ranges (Spanner, table 4)", 1, []plot.Panel{panel}, nil)}
}
