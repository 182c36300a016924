package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"meridian/server"
	"meridian/sim"
	"meridian/sim/simcluster"
	"meridian/workload"
	"meridian/workload/ycsb"
)

// variant is one way of keeping the table of figure 4.
type variant struct {
	name     string
	locality string
	read     string // of key $1
	stale    bool
	// maxOffset bounds the clocks; zero: 250 ms.
	maxOffset time.Duration
	// paper has the paper's words about this variant.
	paper string
}

const figure4Read = "SELECT field0 FROM usertable WHERE ycsb_key = $1"

func variants() []variant {
	return []variant{
		{name: "regional, latest", locality: "REGIONAL BY TABLE IN PRIMARY REGION", read: figure4Read,
			paper: "a step at each fifth: the round trip from each region to the leaseholder, for reads and writes"},
		{name: "regional, stale", stale: true, locality: "REGIONAL BY TABLE IN PRIMARY REGION", read: "SELECT field0 FROM usertable AS OF SYSTEM TIME follower_read_timestamp() WHERE ycsb_key = $1",
			paper: "reads of single-digit milliseconds everywhere, also in the tail"},
	}
}

func figure4() figure {
	return figure{name: "figure4", title: "Reads and writes of one table from five regions (CRDB'22, figure 4)", run: runFigure4, about: `
**Question.** What do reads and writes of a table cost that is used from all regions alike?

**Setup.** Five regions with the round trips of the paper's table 1, three nodes in us-east1, the primary region, and one in each other region. Ten clients in each
region do YCSB-A on keys from a Zipf distribution, half reads and half writes, one after the other. The survival goal is a zone's failure.

**Departures.** 10,000 keys instead of 100,000, and 300 operations of each client instead of 50,000. Rows have one field. Stale reads have a fixed staleness, the paper's a
bounded one. GLOBAL tables and duplicate indexes are missing.

**What it shows.** Reads of the latest rows have the paper's steps, stale reads take no round trip. A write takes two round trips to the leaseholder, because UPDATE first
reads and locks its row. The tail of writes is worse than the paper's: clients that are far away wait up to 40 s for the hottest keys, which is more than
the queue in front of them explains.`}
}

const (
	figure4Keys = 10_000
	unmeasured  = 8 // operations of each client at the beginning
)

func runFigure4(t *testing.T, c *config) *outcome {
	keys, perRegion := int64(figure4Keys), 10
	operations := 300
	if c.quick {
		keys, perRegion, operations = 1000, 2, 30
	}
	results := make(map[string][]sample)
	for _, v := range variants() {
		bubble(t, v.name, func(t *testing.T) {
			c.say("figure 4, %s: the cluster starts", v.name)
			results[v.name] = measureVariant(t, c, &v, keys, perRegion, operations)
		})
		if t.Failed() {
			return nil
		}
	}
	return figure4Outcome(results)
}

func measureVariant(t *testing.T, c *config, v *variant, keys int64, perRegion, operations int) []sample {
	ctx := context.Background()
	regions := sim.FiveRegions()
	offset := v.maxOffset
	if offset == 0 {
		offset = 250 * time.Millisecond
	}
	cl := simcluster.Start(t, simcluster.Options{Regions: regions, Nodes: []int{3, 1, 1, 1, 1}, MaxOffset: offset,
		Configure: func(_ int, o *server.Options) { o.NonVoters = 0 }})
	primary := regions.Names[0]
	root := open(t, cl, 0, "defaultdb")
	must(t, root, fmt.Sprintf("CREATE DATABASE ycsb PRIMARY REGION %q REGIONS %s", primary, quoteAll(regions.Names)))
	conn := open(t, cl, 0, "ycsb")
	must(t, conn, "CREATE TABLE usertable (ycsb_key int PRIMARY KEY, field0 text) LOCALITY "+v.locality)
	for first := int64(0); first < keys; first += 1000 {
		must(t, conn, "INSERT INTO usertable SELECT g, repeat('a', 100) FROM generate_series($1::int, $2::int) AS g", first, min(first+999, keys-1))
	}
	settle(t, cl, conn, []string{"usertable"}, place{voters: map[string]int{primary: 3}, lease: primary})
	time.Sleep(10 * time.Second) // stale reads find their rows, and closed timestamps flow

	c.say("figure 4, %s: %d clients, %d operations each", v.name, perRegion*len(regions.Names), operations)
	var all samples
	var clients sync.WaitGroup
	start := time.Now()
	for i, region := range regions.Names {
		for n := range perRegion {
			clients.Go(func() {
				dice := rand.New(rand.NewPCG(uint64(i), uint64(n)))
				zipf := ycsb.NewZipf(keys, dice)
				conn, err := cl.Connect(ctx, nodesOf(cl, region)[0], "ycsb")
				if err != nil {
					t.Error(err)
					return
				}
				defer conn.Close(ctx)
				// The first operations prepare statements.
				for op := range operations + unmeasured {
					kind, sql, args := "read", v.read, []any{zipf.Next()}
					if dice.IntN(2) == 0 {
						kind, sql, args = "write", "UPDATE usertable SET field0 = repeat($2, 100) WHERE ycsb_key = $1", append(args, string(rune('a'+op%26)))
					}
					begin := time.Now()
					for {
						if _, err = conn.Exec(ctx, sql, args...); err == nil || !workload.Retryable(err) {
							break
						}
					}
					if err != nil {
						t.Errorf("%s: %v", sql, err)
						return
					}
					if op >= unmeasured {
						all.add(sample{kind: kind, region: region, end: time.Since(start), latency: time.Since(begin)})
					}
				}
			})
		}
	}
	clients.Wait()
	return all.list
}

// quoteAll writes names as a list of identifiers.
func quoteAll(names []string) string {
	return `"` + strings.Join(names, `", "`) + `"`
}

var figure4Quantiles = []float64{0.1, 0.3, 0.5, 0.7, 0.9, 0.99, 0.999}

func figure4Outcome(results map[string][]sample) *outcome {
	var b strings.Builder
	b.WriteString("| variant | operation |")
	for _, q := range figure4Quantiles {
		fmt.Fprintf(&b, " p%g |", q*100)
	}
	b.WriteString(" operations |\n|---|---|" + strings.Repeat("---:|", len(figure4Quantiles)+1) + "\n")
	panels := []panel{
		{title: "reads", xLabel: "latency, ms", yLabel: "share", logX: true, xMin: 0.1, xMax: 10_000, yMax: 1},
		{title: "writes", xLabel: "latency, ms", yLabel: "share", logX: true, xMin: 0.1, xMax: 10_000, yMax: 1},
		{title: "reads, tail", xLabel: "latency, ms", yLabel: "share", logX: true, xMin: 0.1, xMax: 10_000, yMin: 0.9, yMax: 1},
		{title: "writes, tail", xLabel: "latency, ms", yLabel: "share", logX: true, xMin: 0.1, xMax: 10_000, yMin: 0.9, yMax: 1},
	}
	var notes []string
	for i, v := range variants() {
		for k, kind := range []string{"read", "write"} {
			l := latencies(results[v.name], func(s *sample) bool { return s.kind == kind })
			fmt.Fprintf(&b, "| %s | %s |", v.name, kind)
			for _, q := range figure4Quantiles {
				fmt.Fprintf(&b, " %.1f ms |", milliseconds(quantile(l, q)))
			}
			fmt.Fprintf(&b, " %d |\n", len(l))
			curve := series{name: v.name, color: colors[i%len(colors)], dashed: v.stale}
			for q := 0.0; q <= 1; q += 0.001 {
				curve.x, curve.y = append(curve.x, milliseconds(quantile(l, q))), append(curve.y, q)
			}
			panels[k].curves = append(panels[k].curves, curve)
			panels[k+2].curves = append(panels[k+2].curves, curve.from(0.9))
		}
		notes = append(notes, "The paper on "+v.name+": "+v.paper+".")
	}
	b.WriteString("\nThe paper draws curves and gives no table. Its words:\n\n")
	for _, n := range notes {
		b.WriteString("- " + n + "\n")
	}
	b.WriteString("\n")
	return &outcome{table: b.String(), svg: draw("YCSB-A from five regions, latencies (CRDB'22, figure 4)", 2, panels, notes)}
}

// from is the part of a curve at and above some y.
func (c series) from(y float64) series {
	n := 0
	for n < len(c.y) && c.y[n] < y {
		n++
	}
	c.x, c.y = c.x[n:], c.y[n:]
	return c
}
