package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"meridian/bench/plot"
)

// paper3 has the latencies of the paper's table 3, by replicas.
var paper3 = map[string][3]string{"1D": {"9.4 ± .6", "-", "-"}, "1": {"14.4 ± 1.0", "1.4 ± .1", "1.3 ± .1"}, "3": {"13.9 ± .6", "1.3 ± .1", "1.2 ± .1"}, "5": {"14.4 ± .4", "1.4 ± .05", "1.3 ± .04"}}

// means3 are the paper's means of writes.
var means3 = map[string]float64{"1D": 9.4, "1": 14.4, "3": 13.9, "5": 14.4}

// paperSync is what a sync of a disk takes where the disk is as slow as the paper's consensus (section 5.1: about 9 ms).
const paperSync = 9 * time.Millisecond

// row3 is one row of table 3.
type row3 struct {
	replicas int
	external bool
	sync     time.Duration
	writes   runs
	reads    runs
	blocks   runs // BEGIN READ ONLY, two reads, COMMIT
	past     runs
}

// paper is the name of the paper's row.
func (r *row3) paper() string {
	switch {
	case r.external:
		return fmt.Sprint(r.replicas)
	case r.replicas == 1:
		return "1D"
	}
	return ""
}

func (r *row3) mode() string {
	if r.external {
		return "external"
	}
	return "default"
}

func runTable3(t *testing.T, c *config) *outcome {
	var rows []*row3
	for _, sync := range []time.Duration{0, paperSync} {
		for _, external := range []bool{false, true} {
			for _, replicas := range []int{1, 3, 5} {
				rows = append(rows, &row3{replicas: replicas, external: external, sync: sync})
			}
		}
	}
	for _, r := range rows {
		began := time.Now()
		bubble(t, fmt.Sprintf("%d %s %v", r.replicas, r.mode(), r.sync), func(t *testing.T) { r.measure(t, c) })
		if t.Failed() {
			return nil
		}
		c.say("table 3: %d replicas, %s, sync %v: write %s, read %s, past %s; %v", r.replicas, r.mode(), r.sync, r.writes.all().text(), r.reads.all().text(), r.past.all().text(),
			time.Since(began).Round(100*time.Millisecond))
	}
	return table3Outcome(rows)
}

// measure runs single operations, one after the other, from clients in all zones in turn.
func (r *row3) measure(t *testing.T, c *config) {
	rounds, each, rows, ranges := 10, 40, 500, 50
	if c.quick {
		rounds, each, rows, ranges = 2, 10, 60, 6
	}
	w := begin(t, zones(r.replicas), 1, paperEpsilon, r.external)
	conn := w.open(0, "d")
	w.fill(conn, "t", rows, 4000, ranges)
	w.settle(r.replicas, "")
	w.spread(conn, "t")
	time.Sleep(15 * time.Second) // for reads of the past
	for _, m := range w.Machines {
		m.Disk.SetSyncDelay(r.sync)
	}
	value := strings.Repeat("b", 4000)
	dice := rand.New(rand.NewPCG(3, 1))
	conns := make([]func(), 0, r.replicas)
	var into *row3
	for node := range r.replicas {
		conn := w.open(node, "d")
		must(t, conn, "SELECT count(*) FROM t") // the gateway learns where ranges are
		query := func(sql string) {
			if n, err := read(conn, sql, dice.IntN(rows)); err != nil || n != 1 {
				t.Fatalf("%s: %d rows, %v", sql, n, err)
			}
		}
		note := func(all runs, f func()) {
			time.Sleep(5*time.Millisecond + time.Duration(dice.IntN(int(5*time.Millisecond))))
			all[len(all)-1] = append(all[len(all)-1], timed(f))
		}
		conns = append(conns, func() {
			note(into.writes, func() { must(t, conn, "UPDATE t SET v = $2 WHERE k = $1", dice.IntN(rows), value) })
			time.Sleep(2 * paperEpsilon)
			note(into.reads, func() { query("SELECT v FROM t WHERE k = $1") })
			note(into.blocks, func() {
				must(t, conn, "BEGIN READ ONLY")
				query("SELECT v FROM t WHERE k = $1")
				query("SELECT v FROM t WHERE k = $1")
				must(t, conn, "COMMIT")
			})
			note(into.past, func() { query("SELECT v FROM t AS OF SYSTEM TIME '-10s' WHERE k = $1") })
		})
	}
	into = &row3{writes: runs{nil}, reads: runs{nil}, blocks: runs{nil}, past: runs{nil}} // one unmeasured round: statements are prepared
	for _, f := range conns {
		f()
	}
	into = r
	for range rounds {
		r.writes, r.reads, r.blocks, r.past = append(r.writes, nil), append(r.reads, nil), append(r.blocks, nil), append(r.past, nil)
		for i := range each {
			conns[i%len(conns)]()
		}
	}
}

func table3Outcome(rows []*row3) *outcome {
	var b strings.Builder
	b.WriteString("| sync of a disk | mode | replicas | write | paper's | read-only transaction | paper's | two reads in a block | snapshot read | paper's |\n|---|---|---:|---:|---:|---:|---:|---:|---:|---:|\n")
	mean := stats.mean
	var groups []plot.BarGroup
	for _, r := range rows {
		paper := paper3[r.paper()]
		if r.paper() == "" {
			paper = [3]string{"-", "-", "-"}
		}
		fmt.Fprintf(&b, "| %v | %s | %d | %s | %s | %s | %s | %s | %s | %s |\n", r.sync, r.mode(), r.replicas, r.writes.over(mean), paper[0], r.reads.over(mean), paper[1], r.blocks.over(mean), r.past.over(mean), paper[2])
		groups = append(groups, plot.BarGroup{Label: fmt.Sprintf("%d, %s, sync %v", r.replicas, r.mode(), r.sync),
			Values: []float64{r.writes.all().mean(), means3[r.paper()], r.reads.all().mean(), r.past.all().mean()}})
	}
	b.WriteString("\nMilliseconds: the mean over the runs of each run's mean, and its deviation.\n\n")
	var l limits
	for _, sync := range []time.Duration{0, paperSync} {
		for _, replicas := range []int{1, 3, 5} {
			var plain, ext *row3
			for _, r := range rows {
				if r.sync == sync && r.replicas == replicas {
					if r.external {
						ext = r
					} else {
						plain = r
					}
				}
			}
			l.add(fmt.Sprintf("write, %d replicas, sync %v", replicas, sync), plain.writes.all(), ext.writes.all(), plain.reads.all(), paperEpsilon)
		}
	}
	l.write(&b)
	return &outcome{table: b.String(), svg: plot.Bars("Latencies of single operations (Spanner, table 3)", "ms", []string{"write", "paper's write", "read-only transaction", "snapshot read"}, groups)}
}
