package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"meridian/sim"
)

// The data centres of the paper's section 5.1, by number.
const (
	usWest = iota
	usEast
	europe
	singapore
	tokyo
	dataCentres
)

// ec2 is EC2's five regions of the paper with mean round trips of 2013.
func ec2() *sim.Regions {
	r, err := sim.NewRegions([]string{"us-west", "us-east", "eu", "singapore", "tokyo"},
		84.5, 169.8, 186.9, 143.7,
		107.9, 253.5, 202.4,
		234.1, 278.3,
		90.6)
	if err != nil {
		panic(err)
	}
	return r
}

// nth is the round trip from a region to the n-th nearest data centre; the first one is its own.
func nth(regions *sim.Regions, from string, n int) time.Duration {
	var all []time.Duration
	for _, r := range regions.Names {
		all = append(all, regions.RTT(from, r))
	}
	slices.Sort(all)
	return all[n-1]
}

// aboutEC2 is said on every page.
func aboutEC2() string {
	regions := ec2()
	var b strings.Builder
	b.WriteString(`**Round trips.** The paper does not list them. These are the means between EC2's regions that Bailis et al. published in 2013 (*Highly available transactions*, table 1), in ms; within a region it
is 0.5 ms. The last columns are what a quorum takes.

| | ` + strings.Join(regions.Names, " | ") + " | third nearest | fourth nearest | farthest |\n|---|" + strings.Repeat("---:|", dataCentres+3) + "\n")
	for _, from := range regions.Names {
		fmt.Fprintf(&b, "| %s |", from)
		for _, to := range regions.Names {
			fmt.Fprintf(&b, " %.1f |", milliseconds(regions.RTT(from, to)))
		}
		for n := 3; n <= dataCentres; n++ {
			fmt.Fprintf(&b, " %.1f |", milliseconds(nth(regions, from, n)))
		}
		b.WriteString("\n")
	}
	b.WriteString(`
They fit what the paper says: from US-West, its commits took 173.5 ms on average (the fourth nearest here: 169.8 ms) and 211.7 ms without US-East (the farthest: 186.9 ms), and US-East is the nearest to
US-West. Its medians over all regions are 10 to 30 % above what these round trips alone give, since they have jitter, queues and computation.
No copy of that table was at hand: the numbers are from memory. A table of 2017 (acomputerscientistlearnsaws.blogspot.com, AWS regions) has the same ten links at 71 to 93 % of these, and one, from the EU to Singapore, at 102 %.
`)
	return b.String()
}
