package engine

import (
	"strings"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"meridian/host"
)

// A disk may be full though the reserve is free: by somebody else's files, a quota, or blocks that only root may use (engine.EN5). A
// flush or a compaction that meets it has lost nothing, because its input is still there, in the log or in other tables: what it
// has written is removed, and Pebble tries again at once. So the store goes on, takes no new data, and each try waits a moment.
// The end of the log and of the manifest, in contrast, can't be written again (engine.EN1).

// refusedPause is how long a flush or compaction waits after one that found the disk full.
const refusedPause = time.Second

// refusal is why the last flush, or the last compaction, found the disk full; nil if it did not.
type refusal struct{ atomic.Pointer[error] }

// wrote notes how a flush or a compaction ended. Pebble's locks may be held.
func (e *Engine) wrote(what string, r *refusal, err error) {
	switch {
	case isDiskFull(err):
		e.space.pause.Store(true)
		if r.Swap(&err) == nil {
			e.log.Error("store: the disk is full: a "+what+" failed and is tried again every second; new data is refused until it ends well; free some space on the directory's disk",
				"dir", e.dir, "error", err)
		}
	case err == nil && r.Load() != nil && r.Swap(nil) != nil:
		e.log.Info("store: a "+what+" has ended well, the disk has space again", "dir", e.dir)
	}
}

// refused reports that the disk has refused a table, and that none of its kind was written since.
func (s *space) refused() bool { return s.flush.Load() != nil || s.compaction.Load() != nil }

// tableFS lets flushes and compactions wait after one that found the disk full.
type tableFS struct {
	vfs.FS
	s     *space
	clock host.Clock
	group *host.Group
}

// Create implements vfs.FS.
func (t *tableFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if strings.HasSuffix(name, ".sst") && t.s.pause.Swap(false) {
		_ = t.clock.Sleep(t.group.Context(), refusedPause)
	}
	return t.FS.Create(name, c)
}

// Unwrap gives Pebble the file system below.
func (t *tableFS) Unwrap() vfs.FS { return t.FS }
