package main

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// wellFormed reads a plot as XML.
func wellFormed(t *testing.T, svg []byte) {
	t.Helper()
	for d := xml.NewDecoder(strings.NewReader(string(svg))); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// one is a world without clients, whose transactions a test begins.
func one(l *load, make func(w *world, l *load) rival) (*world, rival) {
	w := newWorld(ec2())
	return w, make(w, l)
}

func tenOfEach() *load { return &load{items: 10, stock: func(int) int { return 10 }} }

// took begins a transaction alone and returns how long it takes, and its verdict.
func took(w *world, p rival, region int, updates ...update) (d time.Duration, v verdict) {
	v = -1
	begin := w.now
	p.commit(region, updates, func(got verdict) { d, v = w.now-begin, got })
	w.run()
	return d, v
}

// TestRounds: each protocol of comparison takes the rounds that the paper says, from each region.
func TestRounds(t *testing.T) {
	regions := ec2()
	for from, name := range regions.Names {
		// The record of item 3 has its master in us-east.
		toMaster := max(regions.RTT(name, regions.Names[1]), localTrip)
		for _, x := range []struct {
			name string
			make func(w *world, l *load) rival
			want time.Duration
		}{
			{"QW-3", qw(3), nth(regions, name, 3)},
			{"QW-4", qw(4), nth(regions, name, 4)},
			{"2PC", twoPC, 2 * nth(regions, name, 5)},
			{"Multi", multiPaxos, toMaster + nth(regions, "us-east", 3)},
			{"Megastore*", megastoreStar, max(regions.RTT(name, "us-west"), localTrip) + nth(regions, "us-west", 3)},
		} {
			w, p := one(tenOfEach(), x.make)
			if d, v := took(w, p, from, buy(3, 3)); v != committed || d != x.want {
				t.Errorf("%s from %s: %v, %v; want %v", x.name, name, v, d, x.want)
			}
			if at, _ := p.stock(3); !slices.Equal(at, []int{7, 7, 7, 7, 7}) {
				t.Errorf("%s: %v are left", x.name, at)
			}
			if _, v := took(w, p, from, buy(3, 8)); v != refused {
				t.Errorf("%s: 8 of 7 were sold: %v", x.name, v)
			}
		}
	}
}

// TestRivals: of two purchases of one item at the same time, a transactional protocol aborts one at least; a quorum write loses one.
func TestRivals(t *testing.T) {
	for _, x := range []struct {
		name string
		make func(w *world, l *load) rival
		sold int // of two, when one begins in us-west and the other one in tokyo
		left int
	}{
		{"QW-3", qw(3), 2, 9},
		{"2PC", twoPC, 0, 10},
		{"Multi", multiPaxos, 1, 9},
		{"Megastore*", megastoreStar, 1, 9},
	} {
		w, p := one(tenOfEach(), x.make)
		sold := 0
		for _, region := range []int{usWest, tokyo} {
			p.commit(region, []update{buy(2, 1), buy(region, 1)}, func(v verdict) {
				if v == committed {
					sold++
				} else if v != aborted {
					t.Errorf("%s: %v", x.name, v)
				}
			})
		}
		w.run()
		if at, _ := p.stock(2); sold != x.sold || !slices.Equal(at, []int{x.left, x.left, x.left, x.left, x.left}) {
			t.Errorf("%s: %d sold, %v left; want %d and %d", x.name, sold, at, x.sold, x.left)
		}
		// Nothing is left locked.
		if _, v := took(w, p, europe, buy(2, 1), buy(usWest, 1), buy(tokyo, 1)); v != committed {
			t.Errorf("%s: afterwards: %v", x.name, v)
		}
	}
}

// TestOvertaken: a transaction that has read before another one's commit arrived, and asks after it, is aborted; and of two outcomes that come in the wrong order the later one stays.
func TestOvertaken(t *testing.T) {
	regions := ec2()
	w, p := one(tenOfEach(), twoPC)
	p.commit(tokyo, []update{buy(2, 1)}, func(verdict) {})
	arrives := nth(regions, "tokyo", 5) + regions.RTT("tokyo", "us-west")/2
	w.after(arrives-localTrip/4, func() {
		p.commit(usWest, []update{buy(2, 1)}, func(v verdict) {
			if v != aborted {
				t.Errorf("what was read before another commit was written after it: %v", v)
			}
		})
	})
	w.run()
	if at, _ := p.stock(2); !slices.Equal(at, []int{9, 9, 9, 9, 9}) {
		t.Errorf("%v are left", at)
	}
	r := replica{}
	for _, version := range []int{1, 0} {
		a := &attempt{updates: []update{buy(2, 1)}, seen: []cell{{version: version, value: 10 - version}}}
		a.write(r, 0)
	}
	if c := r.at(recordOf(2)); c.version != 2 || c.value != 8 {
		t.Errorf("version %d with %d", c.version, c.value)
	}
}

// TestMegastoreQueues: one transaction has the log at a time, whatever it writes.
func TestMegastoreQueues(t *testing.T) {
	w, p := one(tenOfEach(), megastoreStar)
	var ends []time.Duration
	for item := range 4 {
		p.commit(usWest, []update{buy(item, 1)}, func(verdict) { ends = append(ends, w.now) })
	}
	w.run()
	round := nth(ec2(), "us-west", 3)
	for i, end := range ends {
		if want := time.Duration(i+1)*round + localTrip; end != want {
			t.Errorf("transaction %d ended after %v, want %v", i, end, want)
		}
	}
}

// TestCompete: crowded protocols of comparison sell what is there and no more, at all replicas; quorum writes lose some, and that is counted.
func TestCompete(t *testing.T) {
	c := &config{progress: io.Discard}
	l := &load{clients: 20, regionOf: spread, warm: time.Second, measured: 20 * time.Second, items: 20, stock: func(int) int { return 200 }, retries: 3}
	l.source = func(_, region int) source { return &micro{items: l.items, region: region} }
	for name, make := range map[string]func(w *world, l *load) rival{"2PC": twoPC, "Multi": multiPaxos, "Megastore*": megastoreStar, "QW-4": qw(4)} {
		r := compete(t, c, name, l, make)
		if got := r.lost > 0; got != (name == "QW-4") {
			t.Errorf("%s: %d pieces were lost", name, r.lost)
		}
		if r.count(committed) == 0 || r.retries() == 0 && name != "QW-4" {
			t.Errorf("%s: %d commits, %d retries", name, r.count(committed), r.retries())
		}
		again := compete(t, c, name, l, make)
		if !slices.Equal(r.list, again.list) {
			t.Errorf("%s: the same seed is another run", name)
		}
	}
}

// TestLedger: what is not as it was sold is told.
func TestLedger(t *testing.T) {
	l := newLedger()
	l.note(&transaction{updates: []update{buy(1, 3)}}, committed)
	l.note(&transaction{updates: []update{buy(1, 2)}}, unknown)
	l.note(&transaction{updates: []update{buy(1, 1)}}, aborted)
	for stock, right := range map[int]bool{8: false, 7: true, 5: true, 4: false} {
		if got := l.wrong(1, 10, stock) == ""; got != right {
			t.Errorf("%d left of 10: %v", stock, got)
		}
	}
	if l.wrong(1, 2, -1) == "" {
		t.Error("a stock may be negative")
	}
}

// TestChoices: hot spots and local masters get their shares of the accesses.
func TestChoices(t *testing.T) {
	dice := rand.New(rand.NewPCG(1, 2))
	share := func(m *micro, f func(item int) bool) float64 {
		n := 0
		for range 2000 {
			for _, u := range m.next(dice).updates {
				if f(u.item) {
					n++
				}
			}
		}
		return float64(n) / 6000
	}
	for _, x := range []struct {
		name      string
		got, want float64
	}{
		{"hot", share(&micro{items: 1000, hot: 0.1}, func(i int) bool { return i%200 < 20 }), 0.9},
		{"local", share(&micro{items: 1000, region: 3, local: 0.6}, func(i int) bool { return masterOf(i, 1000) == 3 }), 0.6},
		{"all alike", share(&micro{items: 1000, region: 3}, func(i int) bool { return masterOf(i, 1000) == 3 }), 0.2},
	} {
		if x.got < x.want-0.03 || x.got > x.want+0.03 {
			t.Errorf("%s: %.3f, want %.2f", x.name, x.got, x.want)
		}
	}
	shares := 0
	for _, i := range interactions() {
		shares += i.share
	}
	if shares != 10_000 {
		t.Errorf("interactions come to %d", shares)
	}
}

// TestFigure5 repeats a small figure 5: a purchase by updates that commute takes one round trip to the fourth nearest data centre.
func TestFigure5(t *testing.T) {
	var progress strings.Builder
	c := &config{quick: true, progress: &progress}
	o := runFigure5(t, c)
	if o == nil {
		return
	}
	wellFormed(t, o.svg)
	if !strings.Contains(progress.String(), "MDCC: 10 clients") {
		t.Error(progress.String())
	}
	for _, name := range []string{"MDCC", "Fast", "Multi", "2PC"} {
		if !strings.Contains(o.table, "| "+name+" |") {
			t.Errorf("%s is missing in\n%s", name, o.table)
		}
	}
}

// TestFigure3 repeats a small figure 3: the writes of MDCC take as long as quorum writes of four, and orders leave what they should.
func TestFigure3(t *testing.T) {
	c := &config{quick: true, progress: io.Discard}
	l := tpcwLoad(10)
	l.warm, l.measured = time.Second, 4*time.Second
	r := tpcwEngine(10).measure(t, c, l)
	if t.Failed() {
		return
	}
	if n := r.count(committed); n < 100 || r.prompt() < 0.9 {
		t.Errorf("%d writes, %.2f of them in one round", n, r.prompt())
	}
	if r.of("buy confirm").count(committed) == 0 {
		t.Error("nobody has bought")
	}
}

// TestFigure8 repeats a small figure 8: the commits after the loss need the farthest data centre, and all but a few take no longer. One that meets another one's option waits for the lost replica's vote, which could
// still make a fast quorum, for a second.
func TestFigure8(t *testing.T) {
	c := &config{quick: true, progress: io.Discard}
	o := runFigure8(t, c)
	if o == nil {
		return
	}
	wellFormed(t, o.svg)
	for _, line := range strings.Split(o.table, "\n") {
		f := strings.Split(line, "|")
		if len(f) < 9 || !strings.Contains(line, "ms") {
			continue
		}
		for at, limit := range map[int]float64{5: 300, 7: 1500} { // nine of ten; the longest
			var took float64
			if _, err := fmt.Sscan(strings.Fields(f[at])[0], &took); err != nil {
				t.Fatal(err)
			}
			if took > limit {
				t.Errorf("a pause: %s", line)
			}
		}
	}
}

// TestOutcomes draws figure 6 and the table from made-up results.
func TestOutcomes(t *testing.T) {
	r := &results{name: "MDCC", duration: time.Minute, list: []sample{
		{region: "us-west", latency: 100 * time.Millisecond, verdict: committed}, {region: "us-west", latency: time.Second, verdict: committed, retries: 2},
		{region: "us-west", verdict: aborted}, {region: "us-west", verdict: refused}, {region: "us-west", verdict: unknown}}}
	if got, want := table([]*results{r}, map[string]float64{"MDCC": 17_810}), "| MDCC | 1000 ms | 17,810 ms | 1000 ms | 1000 ms | 1000 ms | 50.0 % | 2 | 1 | 1 | 1 | 2 | 0 |"; !strings.Contains(got, want) {
		t.Errorf("%s\nwant %s", got, want)
	}
	if p := r.prompt(); p != 0.5 {
		t.Errorf("%.2f in one round", p)
	}
	o := figure6Outcome([]float64{0.02}, []string{"MDCC"}, map[string][]*results{"MDCC": {r}})
	wellFormed(t, o.svg)
	if !strings.Contains(o.table, "| 2 % | MDCC | 2 | 2 | 1 | 1 | 40.0 % |") {
		t.Error(o.table)
	}
	if got := gap([]sample{{end: time.Second}, {end: 4 * time.Second}}, 0, 5*time.Second); got != 3*time.Second {
		t.Errorf("the longest pause is %v", got)
	}
	if about := aboutEC2(); !strings.Contains(about, "| tokyo | 143.7 | 202.4 | 278.3 | 90.6 | 0.0 | 143.7 | 202.4 | 278.3 |") {
		t.Error(about)
	}
}
