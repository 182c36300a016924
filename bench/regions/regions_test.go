package main

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"meridian/sim"
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

// TestFigure3a repeats a small figure 3a: rows of other regions take a round trip, unless updates move them.
func TestFigure3a(t *testing.T) {
	var progress strings.Builder
	c := &config{quick: true, progress: &progress}
	o := runFigure3a(t, c)
	if o == nil {
		return
	}
	wellFormed(t, o.svg)
	for _, line := range strings.Split(o.table, "\n") {
		f := strings.Split(line, "|")
		if len(f) < 9 || strings.TrimSpace(f[2]) != "read" {
			continue
		}
		local, moves := strings.TrimSpace(f[8]) == "100 %", strings.Contains(f[1], "Rehoming")
		if local != moves {
			t.Errorf("reads below 10 ms: %s", line)
		}
	}
	if n := strings.Count(o.table, "| read |"); n != 3 || !strings.Contains(progress.String(), "figure 3a, Rehoming 50 %: 3 clients, 40 operations each") {
		t.Error(o.table, progress.String())
	}
}

// TestFigure3b repeats a small figure 3b: an insert takes one round trip to the farthest region, no more, unless the key says the region.
func TestFigure3b(t *testing.T) {
	c := &config{progress: io.Discard}
	var results []result
	bubble(t, "cluster", func(t *testing.T) { results = measure3b(t, c, 1, 40) })
	if t.Failed() {
		return
	}
	regions := threeOf(t)
	for _, r := range results {
		for _, region := range regions.Names {
			far := time.Duration(0)
			for _, other := range regions.Names {
				far = max(far, regions.RTT(region, other))
			}
			writes := latencies(r.list, func(s *sample) bool { return s.kind == "write" && s.region == region })
			if len(writes) == 0 {
				t.Fatalf("%s: no inserts from %s", r.name, region)
			}
			if r.name != unmoved.name {
				far = 0
			}
			if first, last := writes[0], writes[len(writes)-1]; first < far || last > far+3*time.Millisecond {
				t.Errorf("%s: inserts from %s take %v to %v, want %v", r.name, region, first, last, far)
			}
			if reads := latencies(r.list, func(s *sample) bool { return s.kind == "read" && s.region == region }); reads[len(reads)-1] > 3*time.Millisecond {
				t.Errorf("%s: a read from %s takes %v", r.name, region, reads[len(reads)-1])
			}
		}
	}
}

// TestFigure3c repeats a small figure 3c: a single client has all rows at home, three get some of them back from each other, and without rehoming the shared rows stay far.
func TestFigure3c(t *testing.T) {
	c := &config{progress: io.Discard}
	var results []result
	bubble(t, "cluster", func(t *testing.T) { results = measure3c(t, c, 40, 4) })
	if t.Failed() {
		return
	}
	local := func(r *result) float64 {
		near := 0
		for _, s := range r.list {
			if s.latency < 10*time.Millisecond {
				near++
			}
		}
		return float64(near) / float64(len(r.list))
	}
	if len(results) != 4 {
		t.Fatal(len(results))
	}
	alone, moved, stayed := local(&results[0]), local(&results[2]), local(&results[3])
	if alone != 1 {
		t.Errorf("%.0f %% of a single client's operations are local", 100*alone)
	}
	if moved <= stayed {
		t.Errorf("%.0f %% of the operations of three clients are local if updates move rows, %.0f %% otherwise", 100*moved, 100*stayed)
	}
}

// TestFigure5 repeats a small figure 5: terminals of two regions are as fast as their waits allow, and the median does not leave its region.
func TestFigure5(t *testing.T) {
	c := &config{progress: io.Discard}
	var s scaled
	bubble(t, "cluster", func(t *testing.T) { s = measure5(t, c, scale{2, 3, 1, 10 * time.Second, 40 * time.Second}) })
	if t.Failed() {
		return
	}
	for _, name := range s.names {
		l := latencies(s.list, func(v *sample) bool { return v.region == name })
		if len(l) < 8 || quantile(l, 0.5) > 10*time.Millisecond {
			t.Errorf("%s: %d transactions, half of them in more than %v", name, len(l), quantile(l, 0.5))
		}
	}
	wellFormed(t, figure5Outcome([]scaled{s}).svg)
}

// TestFigure6 repeats a small figure 6 with the policy that survives: while a region is down, its rows are written from other regions.
func TestFigure6(t *testing.T) {
	const phase = 14 * time.Second
	c := &config{progress: io.Discard}
	list := policies()
	p := list[len(list)-1]
	var all []sample
	bubble(t, p.name, func(t *testing.T) { all = measure6(t, c, &p, 1, phase) })
	if t.Failed() {
		return
	}
	for _, region := range []string{"us-east1", "us-west1"} {
		// Clients had ten seconds to reach another region, and leases to move.
		down := latencies(all, func(s *sample) bool { return s.region == region && s.end > 3*phase+10*time.Second && s.end < 4*phase })
		if len(down) == 0 {
			t.Errorf("%s: the rows of %s are not written while us-east1 is down", p.name, region)
		}
	}
}

// TestFigure4 repeats a small figure 4: reads of the latest rows take the round trip to the leaseholder's region, stale ones and those of GLOBAL tables none.
func TestFigure4(t *testing.T) {
	var progress strings.Builder
	c := &config{quick: true, progress: &progress}
	results := make(map[string][]sample)
	regions := sim.FiveRegions()
	for _, v := range variants() {
		if v.locality == "" || v.global() && v.maxOffset > 10*time.Millisecond {
			continue
		}
		bubble(t, v.name, func(t *testing.T) { results[v.name] = measureVariant(t, c, &v, 1000, 2, 15) })
		if t.Failed() {
			return
		}
		for _, region := range regions.Names {
			read := quantile(latencies(results[v.name], func(s *sample) bool { return s.kind == "read" && s.region == region }), 0.2)
			want := regions.RTT(regions.Names[0], region)
			if v.stale || v.global() {
				want = 0
			}
			most := 3 * time.Millisecond
			if read < want || read > want+most {
				t.Errorf("%s: a read from %s takes %v, want %v", v.name, region, read, want)
			}
			write := quantile(latencies(results[v.name], func(s *sample) bool { return s.kind == "write" && s.region == region }), 0.1)
			// An UPDATE reads and locks its row first, so it takes two round trips. A GLOBAL table's also waits for its timestamp, of 150 to 300 ms here.
			want, most = 2*regions.RTT(regions.Names[0], region), 4*time.Millisecond
			if v.global() {
				want, most = regions.RTT(regions.Names[0], region), 450*time.Millisecond
			}
			if write < want || write > want+most {
				t.Errorf("%s: a write from %s takes %v, want %v", v.name, region, write, want)
			}
		}
	}
	o := figure4Outcome(results)
	wellFormed(t, o.svg)
	for _, v := range variants() {
		if !strings.Contains(o.table, "| "+v.name+" | read |") || !strings.Contains(o.table, v.paper) {
			t.Errorf("%s is missing in\n%s", v.name, o.table)
		}
	}
	if !strings.Contains(progress.String(), "10 clients, 15 operations each") {
		t.Error(progress.String())
	}
}

// TestTable2 compares the numbers of statements with the paper's, where they are the same. The program runs them.
func TestTable2(t *testing.T) {
	regions := sim.FiveRegions().Names
	three, four := regions[:3], regions[:4]
	results := make(map[string]*counts)
	for _, s := range schemas() {
		got := [4]int{len(s.before(three)), len(s.convert("d", three)), len(s.beforeAdd(four, regions[3])), len(s.beforeDrop(three, regions[3]))}
		want := [4]int{s.paper[0][0], s.paper[1][1], s.paper[2][0], s.paper[3][0]}
		switch s.name {
		case "TPC-C":
			want[0] = 39
		case "YCSB":
			want = [4]int{4, 4, 2, 1}
		}
		if got != want {
			t.Errorf("%s: %v statements, want %v", s.name, got, want)
		}
		results[s.name] = &counts{}
	}
	wellFormed(t, table2Outcome(results).svg)
}

// TestOutcomes draws figures 5 and 6 from made-up measurements.
func TestOutcomes(t *testing.T) {
	regions := sim.World(26)
	if rtt := regions.RTT("us-east1", "us-west1"); rtt < 55*time.Millisecond || rtt > 70*time.Millisecond {
		t.Errorf("us-east1 and us-west1 are %v apart", rtt)
	}
	s := scaled{scale: scales()[0], names: regions.Names[:4]}
	s.figures.Efficiency = 0.985
	for i, name := range s.names {
		for n := range 10 {
			s.list = append(s.list, sample{region: name, latency: time.Duration(10*i+n) * time.Millisecond})
		}
	}
	o := figure5Outcome([]scaled{s})
	wellFormed(t, o.svg)
	if !strings.Contains(o.table, "| 98.5 % | above 97 % | 5.0 to 35.0 ms | 9.0 to 39.0 ms | 40 |") {
		t.Error(o.table)
	}
	list := policies()[:1]
	o = figure6Outcome(map[string][]sample{list[0].name: {
		{end: time.Second, latency: 7 * time.Millisecond}, {end: 61 * time.Second, latency: time.Second}, {end: 62 * time.Second, failed: true}}}, list, time.Minute)
	wellFormed(t, o.svg)
	if !strings.Contains(o.table, "| unpartitioned | 0.0, 7 ms, 0 | 0.0, 1000 ms, 1 | 0.0, 0 ms, 0 |") {
		t.Error(o.table)
	}
}
