package engine

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"meridian/host"
)

// Free space is looked at when it may have changed by much (engine.EN2): every diskCheckEvery, and whenever a sixteenth of the
// reserve was written, be it to the log, by a flush or by a compaction.

const (
	// memTableShare: a memtable has at most this part of the disk, so that nine logs have a twelfth of it or so.
	memTableShare = 128
	// memTableMin is the size below which a disk does not push a memtable.
	memTableMin = 4 << 20

	// diskCheckEvery is how often the free space is looked at, whatever is written here: others may use the disk too.
	diskCheckEvery = 5 * time.Second
	// looksPerReserve is how many looks there are while as much is written as the reserve has.
	looksPerReserve = 16
	// scarceShare is the part of the reserve that only settling, collecting garbage and dropping may use (DiskScarce).
	scarceShare = 4
)

// space is what the store knows of its disk.
type space struct {
	full, scarce atomic.Bool
	written      atomic.Int64 // since the last look
	every        int64
	wake         chan struct{}

	low       atomic.Bool  // engine.EN7
	fullAt    atomic.Int64 // when the disk was last seen nearly full, by the host's monotonic clock; zero: never
	freed     freed
	reclaimed atomic.Int64

	flush, compaction refusal     // engine.EN5
	pause             atomic.Bool // the next table waits
}

// wrote counts bytes on their way to the disk. It may be called with Pebble's locks held, so it only asks for a look.
func (s *space) wrote(n int) {
	if s.written.Add(int64(n)) < s.every {
		return
	}
	s.written.Store(0)
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// meteredFS counts what is written to its files.
type meteredFS struct {
	vfs.FS
	s *space
}

type meteredFile struct {
	vfs.File
	s *space
}

func (f *meteredFile) Write(p []byte) (int, error) {
	f.s.wrote(len(p))
	return f.File.Write(p)
}

func (f *meteredFile) WriteAt(p []byte, at int64) (int, error) {
	f.s.wrote(len(p))
	return f.File.WriteAt(p, at)
}

func (m *meteredFS) meter(f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return &meteredFile{f, m.s}, nil
}

// Create implements vfs.FS.
func (m *meteredFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return m.meter(m.FS.Create(name, c))
}

// OpenReadWrite implements vfs.FS.
func (m *meteredFS) OpenReadWrite(name string, c vfs.DiskWriteCategory, o ...vfs.OpenOption) (vfs.File, error) {
	return m.meter(m.FS.OpenReadWrite(name, c, o...))
}

// ReuseForWrite implements vfs.FS.
func (m *meteredFS) ReuseForWrite(old, name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return m.meter(m.FS.ReuseForWrite(old, name, c))
}

// Unwrap gives Pebble the file system below.
func (m *meteredFS) Unwrap() vfs.FS { return m.FS }

// watchDisk begins to look, if the disk can tell how much is free.
func (e *Engine) watchDisk(clk host.Clock) {
	if e.opts.ReserveBytes <= 0 {
		return
	}
	if _, err := e.fs.GetDiskUsage(e.dir); err != nil {
		return
	}
	e.checkDisk()
	e.watchFreed(clk)
	e.group.Go(func(ctx context.Context) {
		for clk.Sleep(ctx, diskCheckEvery) == nil {
			e.checkDisk()
			if e.DiskFull() {
				// The space of a cleared span is free once the deletion is in a table, and so is that of the log.
				if _, err := e.db.AsyncFlush(); err != nil {
					e.log.Warn("store: no flush", "dir", e.dir, "error", err)
				}
			}
		}
	})
	e.group.Go(func(ctx context.Context) {
		for {
			select {
			case <-e.space.wake:
				e.checkDisk()
			case <-ctx.Done():
				return
			}
		}
	})
}

// DiskFull reports that less than the reserve is free (engine.EN2), or that the disk has refused a table (engine.EN5): no new data.
func (e *Engine) DiskFull() bool { return e.space.full.Load() || e.space.refused() }

// pressedFor is how long a disk counts as one that runs full after it was nearly full: each compaction may free enough for a moment.
const pressedFor = 10 * time.Minute

// Pressed reports that the disk is nearly full, or was so in the last minutes: what is deleted should be gone soon.
func (e *Engine) Pressed() bool {
	at := e.space.fullAt.Load()
	return e.DiskFull() || at != 0 && e.clock.Monotonic()-time.Duration(at) < pressedFor
}

// DiskScarce reports that most of the reserve is gone too: deletions of rows, which need space before they free some, have to
// wait until something else has freed it.
func (e *Engine) DiskScarce() bool { return e.space.scarce.Load() || e.space.refused() }

// NoSpaceError says that a disk has no room for a new store.
type NoSpaceError struct {
	Dir           string
	Free, Reserve uint64
}

func (e *NoSpaceError) Error() string {
	return fmt.Sprintf("store %q: the disk has %d MiB free, less than the reserve of %d MiB that a store keeps free: no data could be written to it; free some space, or use a larger disk",
		e.Dir, e.Free>>20, e.Reserve>>20)
}

// fitDisk makes memtables smaller on a small disk. A log is as large as the memtable that it protects, and the engine keeps
// up to nine of them: those in use and those that it will write over instead of making new ones. They would take the space that SQL frees,
// and a disk of less than a few gigabytes would stay full (engine.EN2).
func (e *Engine) fitDisk() {
	u, err := e.fs.GetDiskUsage(e.dir)
	if err != nil || u.TotalBytes == 0 {
		return
	}
	e.opts.MemTableBytes = min(e.opts.MemTableBytes, max(u.TotalBytes/memTableShare, memTableMin))
}

// CheckSpace looks at the disk now; the error is a *NoSpaceError if new data would be refused.
func (e *Engine) CheckSpace() error {
	if e.opts.ReserveBytes <= 0 {
		return nil
	}
	u, err := e.fs.GetDiskUsage(e.dir)
	if err != nil {
		return nil
	}
	e.checkDisk()
	if e.DiskFull() {
		return &NoSpaceError{Dir: e.dir, Free: u.AvailBytes, Reserve: uint64(e.opts.ReserveBytes)}
	}
	return nil
}

// checkDisk compares what is free with the reserve. Data in memory needs space too: it goes to a table before its
// log goes away.
func (e *Engine) checkDisk() {
	u, err := e.fs.GetDiskUsage(e.dir)
	if err != nil {
		return
	}
	reserve := uint64(e.opts.ReserveBytes)
	unflushed := min(e.db.Metrics().WAL.Size, 4*e.opts.MemTableBytes)
	free := u.AvailBytes - min(u.AvailBytes, unflushed)
	full, scarce := free < reserve, free < reserve/scarceShare
	if full && !e.space.full.Load() && free >= reserve/4*3 && e.space.freed.first() {
		full = false
	}
	e.space.scarce.Store(scarce)
	e.space.low.Store(free < lowShare*reserve)
	if full {
		e.space.fullAt.Store(int64(max(e.clock.Monotonic(), 1)))
	}
	if e.space.full.Swap(full) != full {
		if full {
			e.log.Error("store: disk almost full, new data is refused; free space by TRUNCATE, DROP TABLE or DELETE, or add some", "dir", e.dir, "free_bytes", u.AvailBytes,
				"reserve_bytes", reserve)
		} else {
			e.log.Info("store: enough disk space again", "dir", e.dir, "free_bytes", u.AvailBytes)
		}
	}
}
