package engine

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"meridian/host"
)

// A disk that hangs is worse than one that fails: the node goes on renewing what it holds in the cluster, and serves nothing
// (engine.EN3).

const (
	// stallAfter is how long no sync of the log may end while some are waited for. A disk of a cloud that is being moved, or a
	// device that is being reset, comes back before that; what has not come back by then seldom does.
	stallAfter      = 20 * time.Second
	stallCheckEvery = 2 * time.Second
)

// syncs counts the syncs of the log that somebody waits for.
type syncs struct{ begun, ended atomic.Int64 }

func (s *syncs) begin() { s.begun.Add(1) }
func (s *syncs) end()   { s.ended.Add(1) }

// watchSyncs fails the store when syncs were waited for and none ended for stallAfter (engine.EN3). It counts its looks, not the
// time: a process that was stopped, or a machine that slept, is no sign of a bad disk. It does so too when commits wait as long for
// memory that no flush can free on a full disk (engine.EN5).
func (e *Engine) watchSyncs(ctx context.Context, clk host.Clock) {
	ended, looks, full := int64(-1), 0, 0
	for clk.Sleep(ctx, stallCheckEvery) == nil {
		if why := e.space.flush.Load(); why == nil || !e.stalled.Load() {
			full = 0
		} else if full++; full > int(stallAfter/stallCheckEvery) {
			e.fail(fmt.Errorf("no commit has ended for %s, because no memtable can be written out: %w", stallAfter, *why))
			return
		}
		begun := e.syncs.begun.Load() // first: what begins and ends between the two loads is not waited for
		n := e.syncs.ended.Load()
		if n != ended || begun <= n {
			ended, looks = n, 0
			continue
		}
		if looks++; looks > int(stallAfter/stallCheckEvery) { // the first one came up to stallCheckEvery after the sync was asked for
			e.fail(fmt.Errorf("the disk hangs: no sync of the log has ended for %s, and %d are waited for", stallAfter, begun-n))
			return
		}
	}
}
