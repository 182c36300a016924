package main

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"meridian/host"
)

// moreProcs is how many more goroutines may run at once than there are processors: a thread in fdatasync keeps one of Go's
// processors until the runtime notices, some ten microseconds to milliseconds later, and the log is being synced nearly
// always. Where there are many processors, two more do not matter.
const moreProcs = 2

// useProcessors sets GOMAXPROCS. Whoever has set it is left alone.
func useProcessors() {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + moreProcs)
	}
}

// A node's memory is mostly memtables and the block cache, which the garbage collector does not see; what it sees is
// some ten megabytes. Collecting whenever they have doubled means ten collections a second on a busy node, so the heap may
// grow by collectAfter first, and by as much as is live where that is more, as ever.
const (
	collectAfter = 64 << 20
	collectLook  = time.Second
)

// growth is the percentage of live bytes by which the heap may grow.
func growth(live uint64) int {
	return int(min(max(collectAfter*100/max(live, 1), 100), 1600))
}

// collectSeldom keeps the collector's percentage in line with the live heap. Whoever has set GOGC is left alone.
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
			if p := growth(live[0].Value.Uint64()); 8*p < 7*set || 8*p > 9*set { // setting it stops the world for a moment
				debug.SetGCPercent(p)
				set = p
			}
			if h.Clock.Sleep(ctx, collectLook) != nil {
				return
			}
		}
	})
}
