package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"meridian/bench/plot"
	"meridian/sim"
)

// coasts are five data centres: three on the east coast, of which two have the leaseholders, and two on the west coast. The paper does not list round trips; these are those of clouds' regions there.
func coasts() *sim.Regions {
	r, err := sim.NewRegions([]string{"east1", "east2", "east3", "west1", "west2"},
		12, 18, 63, 67,
		10, 60, 64,
		55, 59,
		20)
	if err != nil {
		panic(err)
	}
	return r
}

// epsilon6 is at the paper's larger end: 1 to 7 ms (section 3).
const epsilon6 = 7 * time.Millisecond

var paper6 = map[string][2]float64{"all reads": {8.7, 376.4}, "single-site commit": {72.3, 112.8}, "multi-site commit": {103.0, 52.2}}

var kinds6 = []string{"all reads", "single-site commit", "multi-site commit"}

// mix6 is what clients saw, in one mode.
type mix6 struct {
	commits map[string]stats // the statement that commits; reads: the statement
	whole   map[string]stats // with what comes before
	retries int
}

func runTable6(t *testing.T, c *config) *outcome {
	modes := map[bool]*mix6{}
	for _, external := range []bool{true, false} {
		began := time.Now()
		bubble(t, fmt.Sprintf("external %v", external), func(t *testing.T) { modes[external] = measure6(t, c, external) })
		if t.Failed() {
			return nil
		}
		m := modes[external]
		for _, kind := range kinds6 {
			c.say("table 6: external %v: %s: %s ms, %d of them", external, kind, m.commits[kind].text(), len(m.commits[kind]))
		}
		c.say("table 6: external %v: %d retries; %v", external, m.retries, time.Since(began).Round(100*time.Millisecond))
	}
	return table6Outcome(modes[true], modes[false])
}

func measure6(t *testing.T, c *config, external bool) *mix6 {
	clients, measured, customers, shards := 30, 30*time.Second, 2000, 20
	if c.quick {
		clients, measured, customers, shards = 6, 5*time.Second, 200, 4
	}
	w := begin(t, coasts(), 1, epsilon6, external)
	conn := w.open(0, "d")
	w.fill(conn, "t", customers, 1600, shards)
	w.settle(5, "")
	for i := range w.Len() {
		w.Node(i).Store().PauseQueues(true)
	}
	for i, d := range w.ranges(conn, "t") {
		if err := w.TransferLease(context.Background(), d.Start, i%2); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(5 * time.Second)
	m := &mix6{commits: map[string]stats{}, whole: map[string]stats{}}
	var mu sync.Mutex
	var wg sync.WaitGroup
	start := time.Now()
	for i := range clients {
		conn := w.open(i%2, "d")
		must(t, conn, "SELECT count(*) FROM t")
		wg.Go(func() {
			dice := rand.New(rand.NewPCG(6, uint64(i)))
			// Some customers have many more operations than others.
			zipf := rand.NewZipf(dice, 1.05, 20, uint64(customers-1))
			customer := func() int { return int(zipf.Uint64()) * 7919 % customers }
			for time.Since(start) < measured {
				kind, rows := "all reads", []int{customer()}
				switch n := dice.IntN(100); {
				case n >= 95:
					kind = "multi-site commit"
					rows = append(rows, customer(), customer())
				case n >= 90:
					kind = "single-site commit"
				}
				begin, retries := time.Now(), 0
				commit, err := once6(conn, kind, rows)
				for retryable(err) {
					retries++
					time.Sleep(time.Duration(dice.IntN(10)) * time.Millisecond)
					commit, err = once6(conn, kind, rows)
				}
				if err != nil {
					t.Errorf("%s: %v", kind, err)
					return
				}
				mu.Lock()
				m.commits[kind], m.whole[kind] = append(m.commits[kind], commit), append(m.whole[kind], time.Since(begin))
				m.retries += retries
				mu.Unlock()
				time.Sleep(time.Duration(dice.IntN(int(20 * time.Millisecond))))
			}
		})
	}
	wg.Wait()
	return m
}

// once6 runs one operation. It returns how long the read took, or the commit.
func once6(conn *pgx.Conn, kind string, rows []int) (commit time.Duration, err error) {
	if kind == "all reads" {
		return timed(func() { _, err = read(conn, "SELECT v FROM t WHERE k = $1", rows[0]) }), err
	}
	ctx := context.Background()
	if _, err := conn.Exec(ctx, "BEGIN"); err != nil {
		return 0, err
	}
	for _, row := range rows {
		if _, err = read(conn, "SELECT n FROM t WHERE k = $1", row); err == nil {
			_, err = conn.Exec(ctx, "UPDATE t SET n = n + 1 WHERE k = $1", row)
		}
		if err != nil {
			if _, undone := conn.Exec(ctx, "ROLLBACK"); undone != nil {
				return 0, undone
			}
			return 0, err
		}
	}
	return timed(func() { _, err = conn.Exec(ctx, "COMMIT") }), err
}

func retryable(err error) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && (e.Code == "40001" || e.Code == "40P01")
}

func table6Outcome(external, plain *mix6) *outcome {
	var b strings.Builder
	b.WriteString("| | mean | deviation | paper's mean | deviation | p99 | count | whole transaction: mean | deviation | default mode: mean | deviation | whole transaction: mean |\n|---|" + strings.Repeat("---:|", 11) + "\n")
	var groups []plot.BarGroup
	for _, kind := range kinds6 {
		e, d, p := external.commits[kind], plain.commits[kind], paper6[kind]
		fmt.Fprintf(&b, "| %s | %.1f | %.1f | %.1f | %.1f | %.1f | %d | %.1f | %.1f | %.1f | %.1f | %.1f |\n", kind, e.mean(), e.deviation(), p[0], p[1], e.quantile(0.99), len(e), external.whole[kind].mean(), external.whole[kind].deviation(),
			d.mean(), d.deviation(), plain.whole[kind].mean())
		groups = append(groups, plot.BarGroup{Label: kind, Values: []float64{math.Round(e.mean()*10) / 10, math.Round(d.mean()*10) / 10, p[0]}})
	}
	fmt.Fprintf(&b, "\nMilliseconds, from clients on the east coast. Commits are the statement COMMIT. Transactions were begun again %d times in external mode, %d times in the default mode.\n", external.retries, plain.retries)
	return &outcome{table: b.String(), svg: plot.Bars("A mix like F1's (Spanner, table 6)", "mean, ms", []string{"external", "default", "paper"}, groups)}
}
