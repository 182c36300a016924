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

// TestFigure4 repeats a small figure 4: reads of the latest rows take the round trip to the leaseholder's region, stale ones none.
func TestFigure4(t *testing.T) {
	var progress strings.Builder
	c := &config{quick: true, progress: &progress}
	results := make(map[string][]sample)
	for _, v := range variants() {
		bubble(t, v.name, func(t *testing.T) { results[v.name] = measureVariant(t, c, &v, 1000, 2, 20) })
	}
	if t.Failed() {
		return
	}
	regions := sim.FiveRegions()
	for _, v := range variants() {
		for _, region := range regions.Names {
			read := quantile(latencies(results[v.name], func(s *sample) bool { return s.kind == "read" && s.region == region }), 0.5)
			want := regions.RTT(regions.Names[0], region)
			if v.stale {
				want = 0
			}
			if read < want || read > want+3*time.Millisecond {
				t.Errorf("%s: a read from %s takes %v, want %v", v.name, region, read, want)
			}
			write := quantile(latencies(results[v.name], func(s *sample) bool { return s.kind == "write" && s.region == region }), 0.1)
			// An UPDATE reads and locks its row first, so it takes two round trips.
			if want = 2 * regions.RTT(regions.Names[0], region); write < want || write > want+4*time.Millisecond {
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
	if !strings.Contains(progress.String(), "10 clients, 20 operations each") {
		t.Error(progress.String())
	}
}

// TestTable2 counts the statements of the smallest schema, and gives the others' by the paper's rule.
func TestTable2(t *testing.T) {
	var progress strings.Builder
	c := &config{quick: true, progress: &progress}
	results := make(map[string]*counts)
	for _, s := range schemas() {
		if s.name == "YCSB" {
			bubble(t, s.name, func(t *testing.T) { results[s.name] = countStatements(t, c, &s) })
			continue
		}
		results[s.name] = &counts{}
	}
	if t.Failed() {
		return
	}
	n := results["YCSB"]
	if want := (counts{{{4, 4}, {2, 2}}, {{4, 4}, {4, 4}}, {{2, 2}, {1, 1}}, {{1, 1}, {1, 1}}}); *n != want {
		t.Errorf("%v, want %v", *n, want)
	}
	o := table2Outcome(results)
	wellFormed(t, o.svg)
	if !strings.Contains(o.table, "| Adding a region |") || !strings.Contains(progress.String(), "waits for leaseholders in 4 regions") {
		t.Error(o.table, progress.String())
	}
}
