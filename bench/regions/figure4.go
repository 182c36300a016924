package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"meridian/bench/plot"
	"meridian/server"
	"meridian/sim"
	"meridian/sim/simcluster"
	"meridian/workload/ycsb"
)

// variant is one way of keeping the table of figure 4.
type variant struct {
	name     string
	locality string // empty: duplicate indexes, in a database without regions
	read     string // of key $1
	stale    bool
	// maxOffset bounds the clocks.
	maxOffset time.Duration
	// paper has the paper's words about this variant.
	paper string
}

// global reports whether the table is GLOBAL.
func (v *variant) global() bool { return v.locality == "GLOBAL" }

const figure4Read = "SELECT field0 FROM usertable WHERE ycsb_key = $1"

func variants() []variant {
	const primary, bound = "REGIONAL BY TABLE IN PRIMARY REGION", 250 * time.Millisecond
	out := []variant{
		{name: "regional, latest", locality: primary, read: figure4Read, maxOffset: bound,
			paper: "a step at each fifth: the round trip from each region to the leaseholder, for reads and writes"},
		{name: "regional, stale", locality: primary, stale: true, maxOffset: bound,
			read:  "SELECT field0 FROM usertable AS OF SYSTEM TIME with_max_staleness('30s') WHERE ycsb_key = $1",
			paper: "reads of single-digit milliseconds everywhere, also in the tail"},
		{name: "duplicate indexes", read: figure4Read, maxOffset: bound,
			paper: "median reads are local; in the tail they wait for writes, some over a second; beyond the 95th percentile writes take more than 10 s"},
	}
	for _, ms := range []int{250, 50, 10} {
		v := variant{name: fmt.Sprintf("GLOBAL, %d ms", ms), locality: "GLOBAL", read: figure4Read, maxOffset: time.Duration(ms) * time.Millisecond,
			paper: fmt.Sprintf("reads are local, in the tail at most about %d ms; writes take 300 to 500 ms, less with a smaller bound, with a bounded tail", ms)}
		out = append(out, v)
	}
	return out
}

func figure4() figure {
	return figure{name: "figure4", title: "Reads and writes of one table from five regions (CRDB'22, figure 4)", run: runFigure4, about: `
**Question.** What do reads and writes of a table cost that is used from all regions alike?

**Setup.** Five regions with the round trips of the paper's table 1, three nodes in us-east1, the primary region, and one in each other region. Ten clients in each
region do YCSB-A on keys from a Zipf distribution, half reads and half writes, one after the other. The survival goal is a zone's failure. The table is REGIONAL BY TABLE in the
primary region, read at the present or with a staleness of up to 30 s; or it has an index with all columns per region, whose leaseholder is there (duplicate indexes); or it is
GLOBAL, with three bounds of the clocks.

**Departures.** 10,000 keys instead of 100,000, and 300 operations of each client instead of 50,000; both make the hottest keys hotter. Rows have one field. Clocks differ by nothing.

**What it shows.** Reads of the latest rows have the paper's steps, stale reads take no round trip. A write of a REGIONAL table takes two round trips to the leaseholder, because UPDATE
first reads and locks its row; the paper's takes one. The paper's UPDATE reads without a lock and writes along with its commit, and pays for it by retries under contention. Writes of the
hottest keys wait in a queue, each turn of which takes the round trip of the client that has the lock. Closed loops of
fifty clients fill that queue: about one write in twenty is to the hottest of 10,000 keys, and the queue serves ten per second.

GLOBAL tables are read where the reader is; reads meet a write of the future only if its timestamp is within the clocks' bound, and wait no longer than that bound. An UPDATE reads its row there
too, without a lock, and takes one round trip and the wait for its timestamp. If the row has changed meanwhile it is run again with a lock, and for a while the gateway's updates of that row lock it first.

The writes' tail is the queue of one row. A tenth of all writes are to the hottest of 10,000 keys; each turn takes the round trip of the client that has the lock, 0.1 s in the mean of the five regions, and so
the row serves eight to ten writes a second, which is less than fifty closed loops ask for. The smaller the bound, the sooner a client is back with its next write, and the longer is the queue: so the tail grows while all else
becomes faster. The writes of all other rows have a line of their own: their p99 is 1.8, 2.5 and 2.7 times the p70, next to the paper's 2 for all writes. A row like the hottest has a shorter turn only if its
leaseholder computes the new row by itself, which UPDATE does not do.

Duplicate indexes read locally as well, and their readers wait for the commits of writers in other regions. Their writers' tail has the paper's size, and is a queue: a commit over five ranges
far apart takes 0.35 s at least, half of those of the hottest key more than 0.5 s, and forty clients wait for it.

Without readers a turn of that queue is one commit and nothing else: twenty clients of us-east1 that add one to a row by turns take 0.39 s each, of asia-northeast1 0.48 s, of all regions
0.50 s, as long as a commit takes a client that is alone. All five indexes are written at once, with the commit; the longest way is to the index in australia-southeast1 and from there to its
nearest other replica. Readers make turns longer: a range that was read meanwhile refuses the commit's timestamp, so that the transaction refreshes its reads with its locks
held, and tries again. With 15 clients that read the very row every 20 ms, from all regions, a turn took 5.7 s. This is more than it has to be, and is not mended; GLOBAL tables are made for such rows.

The tails of GLOBAL tables were 4 to 18 s: after a lease had begun anew, each transaction that had waited since before took eight round trips with its lock held
(commit/leader, leader.P13). Reads at a bounded staleness took the way to us-west1 for the length of the bound after the table was made, until a negotiation asked the catalogue's ranges only if
something that the statement uses had changed.`}
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
		if !strings.Contains(v.name, c.part) {
			continue
		}
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

// makeVariant makes the table, and returns when its replicas and leaseholders are where they should be.
func makeVariant(t *testing.T, cl *simcluster.Cluster, v *variant, regions []string, keys int64) {
	root := open(t, cl, 0, "defaultdb")
	primary := regions[0]
	create := "CREATE DATABASE ycsb"
	if v.locality != "" {
		create += fmt.Sprintf(" PRIMARY REGION %q REGIONS %s", primary, quoteAll(regions))
	}
	must(t, root, create)
	conn := open(t, cl, 0, "ycsb")
	table := "CREATE TABLE usertable (ycsb_key int PRIMARY KEY, field0 text)"
	if v.locality != "" {
		table += " LOCALITY " + v.locality
	}
	must(t, conn, table)
	if v.locality == "" {
		must(t, conn, pinned("TABLE usertable", primary))
		for _, r := range regions[1:] {
			index := "usertable_" + partitionName(r)
			must(t, conn, "CREATE INDEX "+index+" ON usertable (ycsb_key) STORING (field0)")
			must(t, conn, pinned("INDEX usertable@"+index, r))
		}
	}
	for first := int64(0); first < keys; first += 1000 {
		must(t, conn, "INSERT INTO usertable SELECT g, repeat('a', 100) FROM generate_series($1::int, $2::int) AS g", first, min(first+999, keys-1))
	}
	must(t, conn, "ANALYZE usertable")
	if v.locality == "" {
		awaitLeases(t, cl, conn, "usertable", regions)
	} else {
		settle(t, cl, conn, []string{"usertable"}, place{voters: map[string]int{primary: 3}, lease: primary, also: regions})
	}
	time.Sleep(10 * time.Second) // stale reads find their rows, and closed timestamps flow
	if v.global() {
		for range 20 { // leads follow the rounds of commands, and shrink slowly
			must(t, conn, "UPDATE usertable SET field0 = repeat('b', 100) WHERE ycsb_key = 0")
			time.Sleep(2 * time.Second)
		}
	}
}

func measureVariant(t *testing.T, c *config, v *variant, keys int64, perRegion, operations int) []sample {
	ctx := context.Background()
	regions := sim.FiveRegions()
	cl := simcluster.Start(t, simcluster.Options{Regions: regions, Nodes: []int{3, 1, 1, 1, 1}, MaxOffset: v.maxOffset,
		Configure: func(_ int, o *server.Options) { o.NonVoters = 0 }})
	makeVariant(t, cl, v, regions.Names, keys)

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
					key := zipf.Next()
					kind, sql, args := "read", v.read, []any{key}
					if dice.IntN(2) == 0 {
						kind, sql, args = "write", "UPDATE usertable SET field0 = repeat($2, 100) WHERE ycsb_key = $1", append(args, string(rune('a'+op%26)))
					}
					begin := time.Now()
					if _, err := persist(ctx, conn, sql, args); err != nil {
						t.Error(err)
						return
					}
					if op >= unmeasured {
						all.add(sample{kind: kind, region: region, end: time.Since(start), latency: time.Since(begin), hottest: key == 0})
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
	panels := []plot.Panel{
		{Title: "reads", XLabel: "latency, ms", YLabel: "share", LogX: true, XMin: 0.1, XMax: 10_000, YMax: 1},
		{Title: "writes", XLabel: "latency, ms", YLabel: "share", LogX: true, XMin: 0.1, XMax: 10_000, YMax: 1},
		{Title: "reads, tail", XLabel: "latency, ms", YLabel: "share", LogX: true, XMin: 0.1, XMax: 10_000, YMin: 0.9, YMax: 1},
		{Title: "writes, tail", XLabel: "latency, ms", YLabel: "share", LogX: true, XMin: 0.1, XMax: 10_000, YMin: 0.9, YMax: 1},
	}
	var notes []string
	for k := range panels {
		for _, ms := range []float64{300, 500} {
			if k%2 == 1 {
				panels[k].Marks = append(panels[k].Marks, plot.Mark{X: ms, Text: fmt.Sprintf("paper, GLOBAL: %g", ms)})
			}
		}
	}
	for i, v := range variants() {
		row := func(kind string, of func(s *sample) bool) []time.Duration {
			l := latencies(results[v.name], of)
			fmt.Fprintf(&b, "| %s | %s |", v.name, kind)
			for _, q := range figure4Quantiles {
				fmt.Fprintf(&b, " %.1f ms |", milliseconds(quantile(l, q)))
			}
			fmt.Fprintf(&b, " %d |\n", len(l))
			return l
		}
		for k, kind := range []string{"read", "write"} {
			l := row(kind, func(s *sample) bool { return s.kind == kind })
			if v.global() && kind == "write" {
				row("write, all rows but the hottest", func(s *sample) bool { return s.kind == kind && !s.hottest })
			}
			curve := plot.Series{Name: v.name, Color: plot.Color(i), Dashed: v.stale}
			for q := 0.0; q <= 1; q += 0.001 {
				curve.X, curve.Y = append(curve.X, milliseconds(quantile(l, q))), append(curve.Y, q)
			}
			panels[k].Curves = append(panels[k].Curves, curve)
			panels[k+2].Curves = append(panels[k+2].Curves, curve.From(0.9))
		}
		notes = append(notes, "The paper on "+v.name+": "+v.paper+".")
	}
	b.WriteString("\nThe paper draws curves and gives no table. Its words:\n\n")
	for _, n := range notes {
		b.WriteString("- " + n + "\n")
	}
	b.WriteString("\n")
	return &outcome{table: b.String(), svg: plot.Draw("YCSB-A from five regions, latencies (CRDB'22, figure 4)", 2, panels, notes)}
}
