package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"meridian/bench/plot"
	"meridian/sim"
)

// place7 is a topology, and the round trip to the quorum from its first region, where leaseholders and clients are.
type place7 struct {
	name    string
	regions *sim.Regions
	quorum  time.Duration
}

func places7() []place7 {
	return []place7{{"three zones", zones(3), zoneTrip}, {"five regions", sim.FiveRegions(), 87 * time.Millisecond}}
}

// epsilons7: the paper's range (1 to 7 ms), and what clouds' NTP and the reference's default give.
var epsilons7 = []time.Duration{time.Millisecond, 4 * time.Millisecond, 7 * time.Millisecond, 50 * time.Millisecond, 250 * time.Millisecond}

// loads7 are the operations.
var loads7 = []string{"write", "read and write, two ranges", "read", "read of two ranges", "longest read next to commits", "read of a row that is being written"}

// cost is what one mode's clients saw at one epsilon in one place.
type cost struct {
	place   place7
	epsilon time.Duration
	loads   map[string]stats
	// hot is how many updates of one row there were per second, by some clients.
	hot float64
}

func runPromise(t *testing.T, c *config) *outcome {
	var pairs [][2]*cost
	epsilons := epsilons7
	if c.quick {
		epsilons = epsilons[1:4:4]
	}
	for _, p := range places7() {
		for _, epsilon := range epsilons {
			pair := [2]*cost{{place: p, epsilon: epsilon, loads: map[string]stats{}}, {place: p, epsilon: epsilon, loads: map[string]stats{}}}
			began := time.Now()
			bubble(t, fmt.Sprintf("%s %v", p.name, epsilon), func(t *testing.T) { measure7(t, c, pair) })
			if t.Failed() {
				return nil
			}
			c.say("promise: %s, epsilon %v: write %s, default %s; hot row %.0f/s, default %.0f/s; %v", p.name, epsilon, pair[0].loads["write"].text(), pair[1].loads["write"].text(), pair[0].hot, pair[1].hot, time.Since(began).Round(100*time.Millisecond))
			pairs = append(pairs, pair)
		}
	}
	return promiseOutcome(pairs)
}

// measure7 runs the same loads in a database with the promise, and in one without.
func measure7(t *testing.T, c *config, pair [2]*cost) {
	times := 40
	if c.quick {
		times = 9
	}
	p := pair[0].place
	w := begin(t, p.regions, 1, pair[0].epsilon, true)
	root := w.open(0, "d")
	w.create(root, "plain", false)
	must(t, root, "ALTER RANGE default CONFIGURE ZONE USING lease_preferences = '[[+region="+p.regions.Names[0]+"]]'")
	for i, database := range []string{"d", "plain"} {
		conn := w.open(0, database)
		w.fill(conn, "t", 100, 100, 2)
		w.settle(len(p.regions.Names), p.regions.Names[0])
		time.Sleep(10 * time.Second)
		pair[i].measure(t, w, conn, database, times)
	}
}

func (m *cost) measure(t *testing.T, w *world, conn *pgx.Conn, database string, times int) {
	query := func(conn *pgx.Conn, sql string, args ...any) {
		if _, err := read(conn, sql, args...); err != nil {
			t.Errorf("%s: %v", sql, err)
		}
	}
	do := map[string]func(i int){
		"write": func(i int) { must(t, conn, "UPDATE t SET n = n + 1 WHERE k = $1", i%50) },
		"read and write, two ranges": func(i int) {
			must(t, conn, "BEGIN")
			query(conn, "SELECT n FROM t WHERE k = $1", 49-i%20)
			must(t, conn, "UPDATE t SET n = n + 1 WHERE k = $1", i%20)
			must(t, conn, "UPDATE t SET n = n + 1 WHERE k = $1", 50+i%20)
			must(t, conn, "COMMIT")
		},
		"read":               func(i int) { query(conn, "SELECT n FROM t WHERE k = $1", i) },
		"read of two ranges": func(i int) { query(conn, "SELECT n FROM t WHERE k IN ($1, $2)", i, 50+i) },
	}
	for _, load := range loads7 {
		f := do[load]
		if f == nil {
			continue
		}
		f(0)
		for i := range times {
			time.Sleep(time.Second + time.Duration(i)*137*time.Microsecond) // so that no read meets a version of the future
			m.loads[load] = append(m.loads[load], timed(func() { f(i) }))
		}
	}
	// Reads of rows that nobody writes, while a transaction commits in the same range all the time.
	limit, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for i := range 3 {
		other := w.open(0, database)
		wg.Go(func() {
			for limit.Err() == nil {
				if _, err := other.Exec(context.Background(), "UPDATE t SET n = n + 1 WHERE k IN ($1, $2)", i, 60+i); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	time.Sleep(time.Second)
	for i := range times * 5 {
		time.Sleep(time.Duration(i%7) * 311 * time.Microsecond)
		m.loads["longest read next to commits"] = append(m.loads["longest read next to commits"], timed(func() { query(conn, "SELECT n FROM t WHERE k = $1", 30+i%10) }))
	}
	for i := range times * 5 {
		time.Sleep(time.Duration(i%7) * 311 * time.Microsecond)
		m.loads["read of a row that is being written"] = append(m.loads["read of a row that is being written"], timed(func() { query(conn, "SELECT n FROM t WHERE k = $1", i%3) }))
	}
	cancel()
	wg.Wait()
	// One row that five clients update.
	const clients = 5
	span := 2 * time.Second
	var mu sync.Mutex
	n := 0
	begin := time.Now()
	for range clients {
		other := w.open(0, database)
		wg.Go(func() {
			for time.Since(begin) < span {
				_, err := other.Exec(context.Background(), "UPDATE t SET n = n + 1 WHERE k = 99")
				if err != nil && !retryable(err) {
					t.Error(err)
					return
				}
				if mu.Lock(); err == nil {
					n++
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	m.hot = float64(n) / time.Since(begin).Seconds()
}

func promiseOutcome(pairs [][2]*cost) *outcome {
	var b strings.Builder
	b.WriteString("Each cell: external, and the default mode.\n\n| | epsilon |")
	for _, load := range loads7 {
		b.WriteString(" " + load + " |")
	}
	b.WriteString(" updates of one hot row |\n|---|---:|" + strings.Repeat("---:|", len(loads7)+1) + "\n")
	for _, p := range pairs {
		fmt.Fprintf(&b, "| %s | %v |", p[0].place.name, p[0].epsilon)
		for _, load := range loads7 {
			value := stats.mean
			if strings.HasPrefix(load, "longest") {
				value = func(s stats) float64 { return s.quantile(1) }
			}
			fmt.Fprintf(&b, " %.1f, %.1f ms |", value(p[0].loads[load]), value(p[1].loads[load]))
		}
		fmt.Fprintf(&b, " %.0f, %.0f per s |\n", p[0].hot, p[1].hot)
	}
	b.WriteString("\n")
	var l limits
	for _, p := range pairs {
		name := fmt.Sprintf("%s, epsilon %v: ", p[0].place.name, p[0].epsilon)
		l.add(name+"write", p[1].loads["write"], p[0].loads["write"], p[1].loads["read"], p[0].epsilon)
		two := "read and write, two ranges"
		l.add(name+two, p[1].loads[two], p[0].loads[two], before7(p[1]), p[0].epsilon)
	}
	l.write(&b)
	b.WriteString("\nA read-only transaction does not wait for transactions that commit in the same range, if they write other rows:\n\n")
	for _, p := range pairs {
		next := "longest read next to commits"
		longest, alone := p[0].loads[next].quantile(1), p[0].loads["read"].quantile(1)
		verdict(&b, fmt.Sprintf("%s, epsilon %v: the longest of %d reads took %.2f ms, and %.2f ms in the default mode; without others, %.2f ms", p[0].place.name, p[0].epsilon, len(p[0].loads[next]), longest,
			p[1].loads[next].quantile(1), alone), longest < alone+milliseconds(tolerance))
	}
	var panels []plot.Panel
	for _, place := range places7() {
		panel := plot.Panel{Title: place.name, XLabel: "epsilon, ms", YLabel: "ms", LogX: true, XMin: 1, XMax: 250}
		for i, load := range loads7[:3] {
			for mode, name := range []string{"external", "default"} {
				s := plot.Series{Name: load + ", " + name, Color: plot.Color(i), Dashed: mode == 1}
				for _, p := range pairs {
					if p[0].place.name == place.name {
						s.X, s.Y = append(s.X, milliseconds(p[0].epsilon)), append(s.Y, p[mode].loads[load].mean())
					}
				}
				panel.Curves = append(panel.Curves, s)
			}
		}
		panels = append(panels, panel)
	}
	return &outcome{table: b.String(), svg: plot.Draw("What external consistency costs", 2, panels, nil)}
}

// before7 is what the statements of a transaction over two ranges take before its commit: four trips of the client, and three to leaseholders in its region.
func before7(m *cost) stats {
	reads := slices.Clone(m.loads["read"])
	for i := range reads {
		reads[i] *= 5
	}
	return reads
}
