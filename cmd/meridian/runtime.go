package main

import (
	"context"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
	"time"

	"meridian/admission"
	"meridian/host"
)

// moreProcs is how many more goroutines may run at once than there are processors: a thread in fdatasync keeps one of Go's
// processors until the runtime notices, some ten microseconds to milliseconds later, and the log is being synced nearly
// always. Where there are many processors, two more do not matter.
const moreProcs = 2

// useProcessors sets GOMAXPROCS. A value in the environment has precedence.
func useProcessors() {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + moreProcs)
	}
}

// A node's memory is mostly memtables and the block cache, which the garbage collector does not see; the rest is some ten
// megabytes. Collecting whenever they have doubled means ten collections a second on a busy node, so the heap may grow by
// collectAfter, or by as much as is live if that is more.
const (
	collectAfter = 64 << 20
	collectLook  = time.Second
)

// growth is the percentage of live bytes by which the heap may grow.
func growth(live uint64) int {
	return int(min(max(collectAfter*100/max(live, 1), 100), 1600))
}

// collectSeldom keeps the collector's percentage in line with the live heap. GOGC in the environment has precedence.
func collectSeldom(h *host.Host) {
	if os.Getenv("GOGC") != "" {
		return
	}
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	h.Group.Go(func(ctx context.Context) {
		for set := 0; ; {
			metrics.Read(live)
			if live[0].Value.Kind() != metrics.KindUint64 {
				return // another runtime
			}
			if p := growth(live[0].Value.Uint64()); 8*p < 7*set || 8*p > 9*set { // setting the percentage stops the world for a moment
				debug.SetGCPercent(p)
				set = p
			}
			if h.Clock.Sleep(ctx, collectLook) != nil {
				return
			}
		}
	})
}

// slotsPerProc is how many statements run at once for each of Go's processors before others queue: while one computes, others
// wait for the log's sync and share it. Measured: docs/performance.md.
const slotsPerProc = 16

// measureLoad is admission.Options.Load: from the runtime's histogram of how long runnable goroutines waited for a
// processor, and from the kernel's times of the machine's processors.
func measureLoad() func() admission.Load {
	sample := []metrics.Sample{{Name: "/sched/latencies:seconds"}}
	var before []uint64
	var idleBefore, allBefore uint64
	share := 1.0
	return func() (l admission.Load) {
		if idle, all, ok := processorTimes(); ok && all > allBefore {
			// A tick of the kernel is half as long as one of the gate: so the share is smoothed.
			share += (float64(idle-idleBefore)/float64(all-allBefore) - share) / 3
			idleBefore, allBefore = idle, all
		}
		l.Idle = share
		metrics.Read(sample)
		if sample[0].Value.Kind() != metrics.KindFloat64Histogram {
			return l // another runtime
		}
		h := sample[0].Value.Float64Histogram()
		if len(before) != len(h.Counts) {
			before = make([]uint64, len(h.Counts))
		}
		var sum, n float64
		for i, c := range h.Counts {
			d := float64(c - before[i])
			before[i] = c
			if d == 0 {
				continue
			}
			low, high := max(h.Buckets[i], 0), h.Buckets[i+1] // the first has no lower bound, the last no upper one
			if math.IsInf(high, 1) {
				high = low
			}
			sum, n = sum+d*(low+high)/2, n+d
		}
		if n > 0 {
			l.Late = time.Duration(sum / n * float64(time.Second))
		}
		return l
	}
}

// processorTimes are the idle time and the whole time of the machine's processors, in ticks of the kernel; ok is false on a
// system that does not tell.
func processorTimes() (idle, all uint64, ok bool) {
	raw, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, 0, false
	}
	line, _, _ := strings.Cut(string(raw[:min(len(raw), 256)]), "\n")
	f := strings.Fields(line)
	if len(f) < 9 || f[0] != "cpu" {
		return 0, 0, false
	}
	for i, v := range f[1:9] { // user, nice, system, idle, iowait, irq, softirq, steal
		n, err := strconv.ParseUint(v, 10, 64)
		if err != nil {
			return 0, 0, false
		}
		all += n
		if i == 3 || i == 4 {
			idle += n
		}
	}
	return idle, all, true
}
