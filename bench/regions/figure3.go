package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"meridian/bench/plot"
	"meridian/server"
	"meridian/sim"
	"meridian/sim/simcluster"
	"meridian/workload/movr"
)

// home is one way of keeping rows near their readers.
type home struct {
	name  string
	table string
	// byHand: the rows are partitioned without regions, and statements name the partition.
	byHand bool
	// rehomes: an update moves the row to the gateway's region.
	rehomes bool
	// computed: the key determines the region.
	computed bool
}

var (
	baseline  = home{name: "Baseline", table: "by_hand.public.usertable", byHand: true}
	unmoved   = home{name: "Default", table: "ycsb.public.unmoved"}
	rehoming  = home{name: "Rehoming", table: "ycsb.public.rehoming", rehomes: true}
	computing = home{name: "Computed", table: "ycsb.public.computing", computed: true}
)

// threeOf are the paper's three regions: us-east1, europe-west (there europe-west2) and asia-northeast1.
func threeOf(t *testing.T) *sim.Regions {
	r, err := sim.NewRegions([]string{"us-east1", "europe-west1", "asia-northeast1"}, 87, 155, 222)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

const figure3Setup = `Nine nodes in us-east1, europe-west1 and asia-northeast1, 87, 155 and 222 ms apart, three in each. The survival goal is a zone's failure. Clients do one operation after the other.
Baseline is a table that is partitioned by hand, whose statements name the partition; Default is REGIONAL BY ROW with searches at home first; Rehoming moves a row to the region in which it is
updated; Computed has a region computed from the key. As in the paper, the left half of each violin has reads, the right half writes, and the dashed lines are the round trips.`

func figure3a() figure {
	return figure{name: "figure3a", title: "Searches at home first, and rehoming (CRDB'22, figure 3a)", run: runFigure3a, about: `
**Question.** What do reads and updates of rows of REGIONAL BY ROW tables cost, if a client uses rows of other regions too?

**Setup.** ` + figure3Setup + ` YCSB-B (95 % reads, 5 % updates), keys drawn evenly; a client uses rows that no other client does. 100 %, 95 % and 50 % of its operations are on rows that were
homed in its region at first.

**Departures.** Two clients in each region, and 300 operations of each. The paper runs for ten minutes, after which its clients have updated, and so moved, all of
their rows; here each client updates each of its remote rows once before the measurement. A row is moved by an update that sets its region to the gateway's: the statement says so, not
the table.`}
}

func figure3b() figure {
	return figure{name: "figure3b", title: "Uniqueness checks and computed regions (CRDB'22, figure 3b)", run: runFigure3b, about: `
**Question.** What does an insert cost whose primary key must be unique in all regions, and what if the key determines the region?

**Setup.** ` + figure3Setup + ` YCSB-D (95 % reads of recent rows, 5 % inserts), each client with keys of its own in its own region.

**Departures.** Two clients in each region, and 400 operations of each; one operation in five is an insert, so that there are enough of them.`}
}

func figure3c() figure {
	return figure{name: "figure3c", title: "Rehoming under contention (CRDB'22, figure 3c)", run: runFigure3c, about: `
**Question.** What is rehoming good for, if clients of several regions update the same rows?

**Setup.** ` + figure3Setup + ` YCSB-B with half of the operations on rows of the client's own and half on rows that all clients share; c clients, each in another region.

**Departures.** 400 operations of each client, 20 shared rows; the paper's number is not known. Each client updates each shared row once before the measurement. Writes are one in
five operations, so that there are enough of them. A row is moved by the statement, not by the table.`}
}

// startFigure3 makes the cluster and the tables of some ways.
func startFigure3(t *testing.T, ways ...home) (*simcluster.Cluster, []string) {
	regions := threeOf(t)
	cl := simcluster.Start(t, simcluster.Options{Regions: regions, NodesPerRegion: 3, MaxOffset: 250 * time.Millisecond,
		Configure: func(_ int, o *server.Options) { o.NonVoters = 0 }})
	root := open(t, cl, 0, "defaultdb")
	must(t, root, movr.CreateDatabase("ycsb", regions.Names))
	must(t, root, "CREATE DATABASE by_hand")
	for _, w := range ways {
		conn := open(t, cl, 0, w.database())
		switch {
		case w.byHand:
			must(t, conn, "CREATE TABLE usertable (region text NOT NULL, ycsb_key int NOT NULL, field0 text, PRIMARY KEY (region, ycsb_key))")
			must(t, conn, partitioned("TABLE usertable", "region", regions.Names, func(r string) string { return "'" + r + "'" }))
			for _, r := range regions.Names {
				must(t, conn, fmt.Sprintf("ALTER PARTITION %s OF TABLE usertable CONFIGURE ZONE USING constraints = '[+region=%s]', lease_preferences = '[[+region=%s]]'", partitionName(r), r, r))
			}
		case w.computed:
			must(t, conn, fmt.Sprintf("CREATE TABLE %s (ycsb_key int PRIMARY KEY, field0 text, crdb_region crdb_internal_region NOT NULL AS (CASE ycsb_key %% 3 WHEN 0 THEN '%s' WHEN 1 THEN '%s' ELSE '%s' END) STORED) LOCALITY REGIONAL BY ROW",
				w.table, regions.Names[0], regions.Names[1], regions.Names[2]))
		default:
			must(t, conn, "CREATE TABLE "+w.table+" (ycsb_key int PRIMARY KEY, field0 text) LOCALITY REGIONAL BY ROW")
		}
	}
	return cl, regions.Names
}

// fill inserts rows with these keys, at home in a region.
func (w *home) fill(t *testing.T, conn *pgx.Conn, region string, keys []int64) {
	t.Helper()
	switch {
	case w.byHand:
		must(t, conn, "INSERT INTO "+w.table+" (region, ycsb_key, field0) SELECT $1, k, repeat('a', 100) FROM unnest($2::int[]) AS k", region, keys)
	case w.computed:
		must(t, conn, "INSERT INTO "+w.table+" (ycsb_key, field0) SELECT k, repeat('a', 100) FROM unnest($1::int[]) AS k", keys)
	default:
		must(t, conn, "INSERT INTO "+w.table+" (crdb_region, ycsb_key, field0) SELECT $1::crdb_internal_region, k, repeat('a', 100) FROM unnest($2::int[]) AS k", region, keys)
	}
}

// read, update and insert are the statements for a row that was homed in a region.
func (w *home) read(region string, key int64) (string, string, []any) {
	if w.byHand {
		return "read", "SELECT field0 FROM " + w.table + " WHERE region = $1 AND ycsb_key = $2", []any{region, key}
	}
	return "read", "SELECT field0 FROM " + w.table + " WHERE ycsb_key = $1", []any{key}
}

func (w *home) update(region string, key int64) (string, string, []any) {
	switch {
	case w.byHand:
		return "write", "UPDATE " + w.table + " SET field0 = repeat('b', 100) WHERE region = $1 AND ycsb_key = $2", []any{region, key}
	case w.rehomes:
		return "write", "UPDATE " + w.table + " SET field0 = repeat('b', 100), crdb_region = gateway_region()::crdb_internal_region WHERE ycsb_key = $1", []any{key}
	}
	return "write", "UPDATE " + w.table + " SET field0 = repeat('b', 100) WHERE ycsb_key = $1", []any{key}
}

func (w *home) insert(region string, key int64) (string, string, []any) {
	if w.byHand {
		return "write", "INSERT INTO " + w.table + " (region, ycsb_key, field0) VALUES ($1, $2, repeat('a', 100))", []any{region, key}
	}
	return "write", "INSERT INTO " + w.table + " (ycsb_key, field0) VALUES ($1, repeat('a', 100))", []any{key}
}

// client does operations one after the other. The first of them, by index, are not measured.
type client struct {
	region string
	seed   uint64
	warm   func() []operation
	next   func(dice *rand.Rand) operation
}

// operation is a statement and its kind.
type operation struct {
	kind, sql string
	args      []any
}

func op(kind, sql string, args []any) operation { return operation{kind, sql, args} }

// drive runs clients side by side, each with some operations, and gathers them.
func drive(t *testing.T, cl *simcluster.Cluster, database string, clients []client, operations int) []sample {
	t.Helper()
	ctx := context.Background()
	var all samples
	start := time.Now()
	done := make(chan error)
	for i, k := range clients {
		go func() {
			done <- func() error {
				nodes := nodesOf(cl, k.region)
				conn, err := cl.Connect(ctx, nodes[i%len(nodes)], database)
				if err != nil {
					return err
				}
				defer conn.Close(ctx)
				for _, o := range k.warm() {
					if _, err := persist(ctx, conn, o.sql, o.args); err != nil {
						return err
					}
				}
				dice := rand.New(rand.NewPCG(k.seed, uint64(i)))
				for n := range operations + unmeasured { // the first ones prepare statements
					o := k.next(dice)
					begin := time.Now()
					if _, err := persist(ctx, conn, o.sql, o.args); err != nil {
						return err
					}
					if n >= unmeasured {
						all.add(sample{kind: o.kind, region: k.region, end: time.Since(start), latency: time.Since(begin)})
					}
				}
				return nil
			}()
		}()
	}
	for range clients {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	return all.list
}

// result is one violin.
type result struct {
	name string
	list []sample
}

// database is the one that has the table.
func (w *home) database() string { return strings.Split(w.table, ".")[0] }

// measure drives the clients of one violin, when replicas and leases have settled and distances are known.
func (w *home) measure(t *testing.T, c *config, cl *simcluster.Cluster, figure, name string, list []client, operations int) result {
	t.Helper()
	time.Sleep(30 * time.Second)
	c.say("figure %s, %s: %d clients, %d operations each", figure, name, len(list), operations)
	return result{name, drive(t, cl, w.database(), list, operations)}
}

// rowKeys are n keys from first on, in steps of three so that a computed region follows from them.
func rowKeys(first int64, n int) (out []int64) {
	for i := range n {
		out = append(out, first+3*int64(i))
	}
	return out
}

func runFigure3a(t *testing.T, c *config) *outcome {
	clients, operations, own, remote := 2, 300, 40, 8
	localities := []int{100, 95, 50}
	if c.quick {
		clients, operations, own, remote, localities = 1, 40, 5, 3, []int{50}
	}
	var results []result
	bubble(t, "cluster", func(t *testing.T) { results = measure3a(t, c, clients, operations, own, remote, localities) })
	if t.Failed() {
		return nil
	}
	return figure3Outcome("REGIONAL BY ROW, reads and updates (CRDB'22, figure 3a)", results, `
The paper's words: Baseline and Default keep local latencies for rows at home; Default is "only slightly slower than Baseline" for remote rows, since it looks at home first; "Rehoming [...] re-home[s] all remote
rows into the local region, effectively staying in the local latency regime". It leaves the table without searches at home out, with 150 to 200 ms for each operation.
`)
}

func measure3a(t *testing.T, c *config, clients, operations, own, remote int, localities []int) (results []result) {
	ways := []home{baseline, unmoved, rehoming}
	cl, regions := startFigure3(t, ways...)
	next := int64(0)
	for _, locality := range localities {
		for _, w := range ways {
			conn := open(t, cl, 0, w.database())
			var list []client
			for i, region := range regions {
				for n := range clients {
					mine := rowKeys(next, own)
					next += 3 * int64(own)
					w.fill(t, conn, region, mine)
					type far struct {
						region string
						key    int64
					}
					var others []far
					for j := 1; j < len(regions); j++ {
						r := regions[(i+j)%len(regions)]
						keys := rowKeys(next, remote/2)
						next += 3 * int64(remote)
						w.fill(t, conn, r, keys)
						for _, k := range keys {
							others = append(others, far{r, k})
						}
					}
					list = append(list, client{region: region, seed: uint64(100*locality + n),
						warm: func() (out []operation) {
							for _, o := range others {
								out = append(out, op(w.update(o.region, o.key)))
							}
							return out
						},
						next: func(dice *rand.Rand) operation {
							at, key := region, mine[dice.IntN(len(mine))]
							if dice.IntN(100) >= locality {
								o := others[dice.IntN(len(others))]
								at, key = o.region, o.key
							}
							if dice.IntN(100) < 5 {
								return op(w.update(at, key))
							}
							return op(w.read(at, key))
						}})
				}
			}
			results = append(results, w.measure(t, c, cl, "3a", fmt.Sprintf("%s %d %%", w.name, locality), list, operations))
		}
	}
	return results
}

func runFigure3b(t *testing.T, c *config) *outcome {
	clients, operations := 2, 400
	if c.quick {
		clients, operations = 1, 40
	}
	var results []result
	bubble(t, "cluster", func(t *testing.T) { results = measure3b(t, c, clients, operations) })
	if t.Failed() {
		return nil
	}
	return figure3Outcome("REGIONAL BY ROW, inserts (CRDB'22, figure 3b)", results, `
The paper's words: inserts are local with Computed, which is "identical to Baseline"; with Default they have "three spikes [that] correspond to the three pairwise inter-region RTTs".
An insert here asks all regions at once and waits for the farther of the two, so that there are two spikes: 155 ms from us-east1, and 222 ms from the others.
`)
}

func measure3b(t *testing.T, c *config, clients, operations int) (results []result) {
	ways := []home{baseline, unmoved, computing}
	cl, regions := startFigure3(t, ways...)
	for _, w := range ways {
		conn := open(t, cl, 0, w.database())
		var list []client
		for i, region := range regions {
			for n := range clients {
				first := int64(i) + 3_000_000*int64(n) // the remainder by three says which region
				const rows = 20
				w.fill(t, conn, region, rowKeys(first, rows))
				last := first + 3*rows
				// The first insert of a gateway also looks up the ranges of the other regions, two round trips more.
				first += 3 * rows
				list = append(list, client{region: region, seed: uint64(n), warm: func() []operation { return []operation{op(w.insert(region, first))} },
					next: func(dice *rand.Rand) operation {
						if dice.IntN(5) == 0 {
							last += 3
							return op(w.insert(region, last))
						}
						return op(w.read(region, last-3*dice.Int64N(10)))
					}})
			}
		}
		results = append(results, w.measure(t, c, cl, "3b", w.name, list, operations))
	}
	return results
}

func runFigure3c(t *testing.T, c *config) *outcome {
	operations, shared := 400, 20
	if c.quick {
		operations, shared = 40, 4
	}
	var results []result
	bubble(t, "cluster", func(t *testing.T) { results = measure3c(t, c, operations, shared) })
	if t.Failed() {
		return nil
	}
	return figure3Outcome("Rehoming under contention (CRDB'22, figure 3c)", results, `
The paper's words: with one client "a single local latency band for reads and writes"; with two and three "it is less likely for the remote data to be homed in the local region, resulting in
thrashing. At the limit we approach Default, where remote data accesses always cross a region boundary".
`)
}

func measure3c(t *testing.T, c *config, operations, shared int) (results []result) {
	cl, regions := startFigure3(t, unmoved, rehoming)
	next := int64(0)
	for _, x := range []struct {
		w       home
		clients int
	}{{rehoming, 1}, {rehoming, 2}, {rehoming, 3}, {unmoved, 3}} {
		w := x.w
		conn := open(t, cl, 0, "ycsb")
		// The shared rows are in the region of none of the first two clients.
		common := rowKeys(next, shared)
		next += 3 * int64(shared)
		w.fill(t, conn, regions[2], common)
		var list []client
		for i, region := range regions[:x.clients] {
			mine := rowKeys(next, 20)
			next += 60
			w.fill(t, conn, region, mine)
			list = append(list, client{region: region, seed: uint64(i),
				warm: func() (out []operation) {
					for _, k := range common {
						out = append(out, op(w.update(regions[2], k)))
					}
					return out
				},
				next: func(dice *rand.Rand) operation {
					at, key := region, mine[dice.IntN(len(mine))]
					if dice.IntN(2) == 0 {
						at, key = regions[2], common[dice.IntN(len(common))]
					}
					if dice.IntN(5) == 0 {
						return op(w.update(at, key))
					}
					return op(w.read(at, key))
				}})
		}
		results = append(results, w.measure(t, c, cl, "3c", fmt.Sprintf("%s c=%d", w.name, x.clients), list, operations))
	}
	return results
}

func figure3Outcome(title string, results []result, words string) *outcome {
	var b strings.Builder
	b.WriteString("| table | operation | p10 | p50 | p90 | p99 | longest | below 10 ms | operations |\n|---|---|---:|---:|---:|---:|---:|---:|---:|\n")
	var violins []plot.Violin
	for _, r := range results {
		v := plot.Violin{Label: r.name}
		for _, kind := range []string{"read", "write"} {
			l := latencies(r.list, func(s *sample) bool { return s.kind == kind })
			if kind == "read" {
				v.Left = l
			} else {
				v.Right = l
			}
			local := 0
			for local < len(l) && l[local] < 10*time.Millisecond {
				local++
			}
			fmt.Fprintf(&b, "| %s | %s |", r.name, kind)
			for _, q := range []float64{0.1, 0.5, 0.9, 0.99, 1} {
				fmt.Fprintf(&b, " %.1f ms |", milliseconds(quantile(l, q)))
			}
			fmt.Fprintf(&b, " %.0f %% | %d |\n", 100*float64(local)/float64(max(len(l), 1)), len(l))
		}
		violins = append(violins, v)
	}
	b.WriteString(words)
	return &outcome{table: b.String(), svg: plot.Violins(title, violins, []plot.Mark{{X: 87, Text: "87"}, {X: 155, Text: "155"}, {X: 222, Text: "222"}})}
}
