package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"meridian/bench/plot"
)

func figure6() figure {
	return figure{name: "figure6", title: "Commits and aborts over sizes of the hot spot (MDCC, figure 6)", run: runFigure6, about: aboutFigure6}
}

func runFigure6(t *testing.T, c *config) *outcome {
	hot := []float64{0.02, 0.05, 0.1, 0.2, 0.5, 0.9}
	names := []string{"MDCC", "Fast", "Gamma", "Learned", "Classic", "Multi", "2PC"}
	if c.quick {
		hot = []float64{0.05, 0.9}
	}
	found := map[string][]*results{}
	for _, share := range hot {
		l := microLoad(c, 2*time.Second, 10*time.Second)
		l.source = func(_, region int) source { return &micro{items: l.items, region: region, hot: share} }
		c.say("figure 6, a hot spot of %g %%", 100*share)
		for _, e := range []*engine{mdcc(), fast(), policy("Gamma", "gamma"), policy("Learned", "learned"), policy("Classic", "classic")} {
			found[e.name] = append(found[e.name], e.measure(t, c, l))
			if t.Failed() {
				return nil
			}
		}
		found["Multi"] = append(found["Multi"], compete(t, c, "Multi", l, multiPaxos))
		found["2PC"] = append(found["2PC"], compete(t, c, "2PC", l, twoPC))
	}
	if t.Failed() {
		return nil
	}
	o := figure6Outcome(hot, names, found)
	own := ownHotSpots(t, c)
	if t.Failed() {
		return nil
	}
	o.table += own
	return o
}

// ownHotSpots compares policies of ballots where each region has a hot spot of its own, with eight of ten accesses.
func ownHotSpots(t *testing.T, c *config) string {
	hot, names := []float64{0.02, 0.1, 0.5}, []string{"Fast", "Gamma", "Learned", "Classic"}
	if c.quick {
		hot = hot[:1]
	}
	found := map[string][]*results{}
	for _, share := range hot {
		l := microLoad(c, 5*time.Second, 10*time.Second)
		l.source = func(_, region int) source { return &micro{items: l.items, region: region, hot: share, local: 0.8} }
		c.say("figure 6, each region's hot spot of %g %%", 100*share)
		for _, name := range names {
			found[name] = append(found[name], policy(name, strings.ToLower(name)).measure(t, c, l))
			if t.Failed() {
				return ""
			}
		}
	}
	return "\n**Each region has a hot spot of its own**, the share below of a fifth of the items, and 80 % of its clients' accesses are to its own fifth. Beyond the paper: which policy of ballots is best?\n\n" +
		figure6Table(hot, names, found)
}

func figure6Outcome(hot []float64, names []string, found map[string][]*results) *outcome {
	table := figure6Table(hot, names, found) + `
The paper draws bars and gives no table. Its words: with large hot spots, "MDCC commits the most transactions because it does not abort any transactions. Fast commits slightly fewer [...] Multi commits far fewer
transactions because most updates have to be sent to a remote master". "When the hot-spot is at 5%, the Fast commits fewer transactions than Multi." "When the hot-spot is at 2%, the conflict rate is very high, so both
Fast and MDCC perform very poorly compared to Multi."
`
	panels := []plot.Panel{
		{Title: "commits per minute", XLabel: "size of the hot spot, % of the items", LogX: true, XMin: 1, XMax: 100},
		{Title: "aborts per minute", XLabel: "size of the hot spot, % of the items", LogX: true, XMin: 1, XMax: 100},
	}
	for k, name := range names {
		commits, aborts := plot.Series{Name: name, Color: plot.Color(k)}, plot.Series{Name: name, Color: plot.Color(k)}
		for i, share := range hot {
			r := found[name][i]
			per := 60 / r.duration.Seconds()
			commits.X, commits.Y = append(commits.X, 100*share), append(commits.Y, per*float64(r.count(committed)))
			aborts.X, aborts.Y = append(aborts.X, 100*share), append(aborts.Y, per*float64(r.count(aborted, refused)))
		}
		panels[0].Curves, panels[1].Curves = append(panels[0].Curves, commits), append(panels[1].Curves, aborts)
	}
	return &outcome{table: table, svg: plot.Draw("Hot spots (MDCC, figure 6)", 2, panels, nil)}
}

// figure6Table has a row for each size of the hot spot and system.
func figure6Table(hot []float64, names []string, found map[string][]*results) string {
	var b strings.Builder
	b.WriteString("| hot spot | system | commits per minute | aborts per minute | of these not enough | unknown | aborted | p50 | p90 | p99 | longest |\n|---:|---|" + strings.Repeat("---:|", 9) + "\n")
	for i, share := range hot {
		for _, name := range names {
			r := found[name][i]
			l := r.latencies()
			per := 60 / r.duration.Seconds()
			bad := r.count(aborted, refused)
			fmt.Fprintf(&b, "| %g %% | %s | %.0f | %.0f | %.0f | %d | %.1f %% | %.0f ms | %.0f ms | %.0f ms | %.0f ms |\n", 100*share, name, per*float64(len(l)), per*float64(bad), per*float64(r.count(refused)),
				r.count(unknown), 100*float64(bad)/float64(max(len(r.list), 1)), milliseconds(quantile(l, 0.5)), milliseconds(quantile(l, 0.9)), milliseconds(quantile(l, 0.99)), milliseconds(quantile(l, 1)))
		}
	}
	return b.String()
}
