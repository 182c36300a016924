package main

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"meridian/bench/plot"
	"meridian/server"
)

// kill is one of the paper's three experiments.
type kill struct {
	name, paper string
	zone        int
	soft        bool // the zone's nodes are drained before
	// notice is how long after the beginning of the drain a drained zone is killed, if the drain does not take longer.
	notice time.Duration
	stop   bool // processes end in an orderly way, as by SIGTERM
	power  bool // the zone's machines lose power; otherwise their processes are killed, and links are reset

	rate     int // reads per second that clients ask for
	duration time.Duration
	at       time.Duration // of the kill, since the beginning of the measurement
	list     []read5
	drained  time.Duration // how long the zone took to transfer its leases
}

// read5 is one read: when it was to begin, when it ended, and of which range it was.
type read5 struct {
	due, end time.Duration
	shard    int
	failed   bool
}

// step5 is the resolution of rates.
const step5 = 100 * time.Millisecond

func runFigure5(t *testing.T, c *config) *outcome {
	kills := []*kill{{name: "non-leader", paper: "no effect", zone: 1, power: true}, {name: "leader-soft", paper: "3 to 4 % less", soft: true, stop: true},
		{name: "leader-soft, killed 2 s after the notice", paper: "-", soft: true, notice: 2 * time.Second}, {name: "leader-soft, power lost when drained", paper: "-", soft: true, power: true},
		{name: "leader-hard", paper: "almost 0; about 10 s until all is back", power: true}}
	for _, k := range kills {
		began := time.Now()
		bubble(t, k.name, func(t *testing.T) { k.measure(t, c) })
		if t.Failed() {
			return nil
		}
		c.say("figure 5, %s: %d reads, %d errors; worst 100 ms %.1f %%, worst second %.1f %%; back after %v; %v", k.name, len(k.list), k.failed(), 100*k.worst(step5), 100*k.worst(time.Second), k.back(), time.Since(began).Round(100*time.Millisecond))
	}
	return figure5Outcome(kills)
}

func (k *kill) measure(t *testing.T, c *config) {
	clients, shards, nodes := 100, 100, 2
	k.rate, k.duration, k.at = 2000, 20*time.Second, 5*time.Second
	if c.quick {
		clients, shards, nodes = 20, 10, 1
		k.rate, k.duration = 200, 12*time.Second
	}
	const each = 10 // rows of a range
	w := begin(t, zones(5), nodes, paperEpsilon, true)
	root := w.open(nodes*2, "d")
	w.fill(root, "t", shards*each, 100, shards)
	// All ranges, those of the system too, have their leaseholders in the first zone.
	must(t, root, "ALTER RANGE default CONFIGURE ZONE USING lease_preferences = '[[+region=z1]]'")
	w.settle(5, "z1")
	time.Sleep(20 * time.Second)
	var conns []*pgx.Conn
	for i := range clients { // of the zones that are not killed
		conns = append(conns, w.open(2*nodes+i%(3*nodes), "d"))
		must(t, conns[i], "SELECT count(*) FROM t")
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	pause := time.Second * time.Duration(clients) / time.Duration(k.rate)
	start := time.Now().Add(time.Second)
	for i, conn := range conns {
		wg.Go(func() {
			dice := rand.New(rand.NewPCG(5, uint64(i)))
			var mine []read5
			for due := time.Duration(i) * pause / time.Duration(clients); due < k.duration; due += pause {
				time.Sleep(time.Until(start.Add(due)))
				row := dice.IntN(shards * each)
				ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
				var v string
				err := conn.QueryRow(ctx, "SELECT v FROM t WHERE k = $1", row).Scan(&v)
				cancel()
				if err != nil {
					c.say("figure 5, %s: a read at %v: %v", k.name, due, err)
				}
				mine = append(mine, read5{due, time.Since(start), row / each, err != nil})
			}
			mu.Lock()
			k.list = append(k.list, mine...)
			mu.Unlock()
		})
	}
	time.Sleep(time.Until(start.Add(k.at)))
	k.strike(w, nodes)
	wg.Wait()
	slices.SortFunc(k.list, func(a, b read5) int { return cmp.Compare(a.end, b.end) })
}

// strike kills all nodes of a zone at the same moment, after their leases were transferred if the kill is soft. With power, nobody hears that they have gone.
func (k *kill) strike(w *world, nodes int) {
	var wg sync.WaitGroup
	if begin := time.Now(); k.soft {
		for i := range nodes {
			wg.Go(func() {
				w.Node(k.zone*nodes+i).Drain(context.Background(), server.DrainOptions{})
			})
		}
		wg.Wait()
		k.drained = time.Since(begin)
		time.Sleep(time.Until(begin.Add(k.notice)))
	}
	for i := range nodes {
		if k.stop {
			go w.StopNode(k.zone*nodes + i)
		} else {
			w.Crash(k.zone*nodes+i, 0, k.power)
		}
	}
}

func (k *kill) failed() (n int) {
	for _, r := range k.list {
		if r.failed {
			n++
		}
	}
	return n
}

// counts are the reads that have ended in each step.
func (k *kill) counts(step time.Duration) []int {
	out := make([]int, int(k.duration/step)+1)
	for _, r := range k.list {
		if at := int(r.end / step); !r.failed && at < len(out) {
			out[at]++
		}
	}
	return out
}

// worst is the least share of the reads asked for that were answered in a step after the kill, with the steps at all multiples of step5.
func (k *kill) worst(step time.Duration) float64 {
	counts, n := k.counts(step5), int(step/step5)
	least := 1.0
	for i := int(k.at / step5); i+n < len(counts); i++ {
		sum := 0
		for _, x := range counts[i : i+n] {
			sum += x
		}
		least = min(least, float64(sum)/(float64(k.rate)*step.Seconds()))
	}
	return least
}

// back is how long after the kill the last range has answered for the first time a read that was due after it.
func (k *kill) back() time.Duration {
	first := map[int]time.Duration{}
	last := time.Duration(0)
	for _, r := range k.list { // in the order of their ends
		if _, seen := first[r.shard]; !seen && !r.failed && r.due >= k.at {
			// A range that nobody reads for a while is not late: what counts is how long its reader has waited.
			first[r.shard] = r.end
			if r.end-r.due > 50*time.Millisecond {
				last = max(last, r.end-k.at)
			}
		}
	}
	return last.Round(time.Millisecond)
}

// longest is the longest latency of a read that was due after the kill.
func (k *kill) longest() (d time.Duration) {
	for _, r := range k.list {
		if r.due >= k.at {
			d = max(d, r.end-r.due)
		}
	}
	return d.Round(100 * time.Microsecond)
}

func figure5Outcome(kills []*kill) *outcome {
	var b strings.Builder
	b.WriteString("| | paper | errors | worst 100 ms after the kill | worst second | longest read | until all ranges serve reads | until the leases were transferred |\n|---|---|---:|---:|---:|---:|---:|---:|\n")
	total := plot.Panel{Title: "reads answered", XLabel: "seconds", YLabel: "cumulative reads", XMax: kills[0].duration.Seconds()}
	rate := plot.Panel{Title: "reads answered in each 100 ms", XLabel: "seconds", YLabel: "per second", XMax: kills[0].duration.Seconds()}
	for i, k := range kills {
		handed := "-"
		if k.soft {
			handed = k.drained.Round(10 * time.Millisecond).String()
		}
		fmt.Fprintf(&b, "| %s | %s | %d | %.1f %% | %.1f %% | %v | %v | %s |\n", k.name, k.paper, k.failed(), 100*k.worst(step5), 100*k.worst(time.Second), k.longest(), k.back(), handed)
		sum, all := 0, plot.Series{Name: k.name, Color: plot.Color(i)}
		each := all
		for at, n := range k.counts(step5) {
			x := (time.Duration(at+1) * step5).Seconds()
			if x > rate.XMax {
				break
			}
			sum += n
			all.X, all.Y = append(all.X, x), append(all.Y, float64(sum))
			each.X, each.Y = append(each.X, x), append(each.Y, float64(n)/step5.Seconds())
		}
		total.Curves, rate.Curves = append(total.Curves, all), append(rate.Curves, each)
	}
	total.Marks = []plot.Mark{{X: kills[0].at.Seconds(), Text: "the kill"}}
	rate.Marks = total.Marks
	fmt.Fprintf(&b, "\nShares are of the %d reads per second that clients ask for. All ranges serve reads when the last one has answered a read that was due after the kill and had to wait.\n\n", kills[0].rate)
	for _, k := range kills {
		switch {
		case k.soft:
			verdict(&b, fmt.Sprintf("Limit, "+k.name+": the dip of a soft kill is below 10 %% in each second, and no read fails: %.1f %%, %d errors", 100*(1-k.worst(time.Second)), k.failed()), k.worst(time.Second) > 0.9 && k.failed() == 0)
		case k.zone == 0:
			verdict(&b, fmt.Sprintf("Limit, leader-hard: reads are back within 3 s of a hard kill: %v", k.back()), k.back() < 3*time.Second)
		}
	}
	return &outcome{table: b.String(), svg: plot.Draw("The loss of a zone (Spanner, figure 5)", 2, []plot.Panel{total, rate}, nil)}
}
