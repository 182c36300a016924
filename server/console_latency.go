package server

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"meridian/console"
	"meridian/kv"
	"meridian/sql/session"
)

const (
	// latencyWindow is the time over which the console's latencies are taken, latencyEvery the distance of the readings that it is measured with.
	latencyWindow, latencyEvery = 10 * time.Second, time.Second
)

// latencies are the readings of the histogram of statement times of the last window. They are made when somebody asks.
type latencies struct {
	mu    sync.Mutex // guards taken; nothing is taken after it
	taken []latencyReading
}

type latencyReading struct {
	at     time.Duration // on the monotonic clock
	counts []int64
}

// since takes a reading, and returns how many statements came into each step since the one that is about a window older; the first call returns none.
func (l *latencies) since(now time.Duration, counts []int64) map[int]int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.taken) > 1 && now-l.taken[1].at >= latencyWindow {
		l.taken = slices.Delete(l.taken, 0, 1)
	}
	out := map[int]int64{}
	if len(l.taken) > 0 {
		for step, n := range l.taken[0].counts {
			if counts[step] > n {
				out[step] = counts[step] - n
			}
		}
	}
	if n := len(l.taken); n == 0 || now-l.taken[n-1].at >= latencyEvery {
		l.taken = append(l.taken, latencyReading{now, counts})
	}
	return out
}

// recentLatencies are the times of the statements that ended on this node lately, by step of the histogram.
func (n *Node) recentLatencies() map[int]int64 {
	p := n.sql.parts.Load()
	if p == nil {
		return nil
	}
	counts := make([]int64, session.LatencySteps)
	for i := range counts {
		counts[i] = p.sessions.Metrics().Latency[i].Load()
	}
	return n.latencies.since(n.host.Clock.Monotonic(), counts)
}

// regionLatencies are those of the gateways of each region together.
func (n *Node) regionLatencies(parts map[kv.NodeID]consolePart) (out []console.Latency) {
	all := map[string]map[int]int64{}
	for id, p := range parts {
		e, _ := n.cluster.Get(id)
		in := all[e.Locality.Region()]
		if in == nil {
			in = map[int]int64{}
			all[e.Locality.Region()] = in
		}
		for step, count := range p.Latencies {
			if step >= 0 && step < session.LatencySteps && count > 0 {
				in[step] += count
			}
		}
	}
	for region, in := range all {
		l := console.Latency{Region: region, P50MS: quantile(in, 0.5), P99MS: quantile(in, 0.99)}
		for _, count := range in {
			l.Statements += count
		}
		out = append(out, l)
	}
	slices.SortFunc(out, func(a, b console.Latency) int { return cmp.Compare(a.Region, b.Region) })
	return out
}

// quantile of a histogram of times, in milliseconds; 0 if it is empty.
func quantile(in map[int]int64, q float64) float64 {
	total := int64(0)
	for _, count := range in {
		total += count
	}
	left := int64(q * float64(total-1))
	for _, step := range slices.Sorted(maps.Keys(in)) {
		if left -= in[step]; left < 0 {
			return float64(session.LatencyOf(step)) / float64(time.Millisecond)
		}
	}
	return 0
}
