package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/cockroachkvs"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"

	"meridian/host"
	"meridian/keys"
	"meridian/version"
)

// FormatVersion pins what is on disk. A release that raises it raises the format of an existing store only once the node acts by
// the version that brings it (version.CV3): until then the earlier binary has to be able to open the store.
const FormatVersion = pebble.FormatTableFormatV6

// rangeDeletionDelay is how long the space of a cleared span may wait for a flush. Raft logs are truncated by range
// deletions, so a store that is written to flushes at least that often, however little there is, and each flush is
// followed by a compaction that rewrites what it overlaps.
const rangeDeletionDelay = time.Minute

// Rows that are written at random are all over the table, so every flush overlaps all of the level below level 0, and
// moving it there rewrites that level: two hundred bytes for each of the flush's. So flushes gather in level 0 until
// some key has l0Depth of them, which then cost one rewrite. Reads look at as many tables more, most of which their filters
// spare them.
const (
	l0Depth = 6
	// tombstoneDense is the share of a table's blocks that are mostly deletions from which on it is rewritten for that
	// alone, across as much of the next level as it spans.
	tombstoneDense = 0.5
)

// Options of a store. The zero value suits a small node.
type Options struct {
	// Cache of blocks, which stores of one process may share; nil makes one of CacheBytes.
	Cache *Cache
	// CacheBytes is the size of the store's own cache if Cache is nil; default 64 MiB.
	CacheBytes int64
	// MemTableBytes bounds one memtable; up to four may exist. Default 16 MiB. It is less on a small disk (engine.EN2).
	MemTableBytes uint64
	// IngestBytes is from which size on a change that replaces spans goes through files (Ingestion); default 1 MiB.
	IngestBytes int64
	// MaxOpenFiles bounds the tables held open; default 1000.
	MaxOpenFiles int
	// MaxCompactions bounds concurrent compactions; default 2.
	MaxCompactions int
	// ReserveBytes is what DiskFull keeps free (engine.EN2); default 256 MiB. Negative: not watched.
	ReserveBytes int64
	// OnFatal is told once, when the store can no longer promise durability (engine.EN1).
	OnFatal func(error)
	// MustExist refuses to make a new store.
	MustExist bool
	// Binary is what the node's build can do; zero is this build. A store that it can't be used with is refused (engine.EN6).
	Binary version.Binary
}

// Cache holds blocks of one or more stores.
type Cache struct{ c *pebble.Cache }

// NewCache makes a cache. Close it after the last store that uses it was opened or closed, as convenient.
func NewCache(bytes int64) *Cache { return &Cache{c: pebble.NewCache(bytes)} }

// Close gives up the maker's reference; the memory lives until the last store closes.
func (c *Cache) Close() { c.c.Unref() }

// Engine is an open store. All methods may be called concurrently, Close last.
type Engine struct {
	db    *pebble.DB
	dir   string
	fs    vfs.FS
	slow  host.SlowDisk // nil for disks that are not simulated
	opts  Options
	log   *slog.Logger
	clock host.Clock
	lock  *pebble.Lock
	group *host.Group

	tables   sstable.WriterOptions // of files to be ingested
	ingested atomic.Int64          // names given to such files

	failure atomic.Pointer[FatalError]
	stuck   atomic.Bool // Pebble has panicked in a commit
	stalls  atomic.Int64
	stalled atomic.Bool // commits wait for flushes or compactions
	syncs   syncs
	at      positions
	marker  marker
	space   space

	steps   atomic.Int64 // of iterators that were closed
	iters   sync.Pool    // *Iterator
	batches sync.Pool    // *Batch
}

// Open opens or makes the store in dir.
func Open(h *host.Host, dir string, o Options) (*Engine, error) {
	if o.CacheBytes == 0 {
		o.CacheBytes = 64 << 20
	}
	if o.MemTableBytes == 0 {
		o.MemTableBytes = 16 << 20
	}
	if o.IngestBytes == 0 {
		o.IngestBytes = 1 << 20
	}
	if o.MaxOpenFiles == 0 {
		o.MaxOpenFiles = 1000
	}
	if o.MaxCompactions == 0 {
		o.MaxCompactions = 2
	}
	if o.ReserveBytes == 0 {
		o.ReserveBytes = 256 << 20
	}
	o.Binary = o.Binary.Or(version.Built())
	e := &Engine{dir: dir, fs: h.FS, opts: o, log: h.Log, group: h.Group.Child()}
	e.slow, _ = h.FS.(host.SlowDisk)
	if o.ReserveBytes > 0 {
		e.space.every, e.space.wake = o.ReserveBytes/looksPerReserve, make(chan struct{}, 1)
		e.space.freed.wanted = make(chan struct{}, 1)
		e.fs = &meteredFS{h.FS, &e.space}
	}
	e.clock = h.Clock
	e.fs = &tableFS{e.fs, &e.space, h.Clock, e.group}
	e.fs = &manifestFS{e.fs, &e.marker.manifest}
	if e.log == nil {
		e.log = slog.New(slog.DiscardHandler)
	}
	fail := func(err error) (*Engine, error) {
		e.group.Stop()
		e.closeMarker(false)
		if e.lock != nil {
			_ = e.lock.Close()
		}
		return nil, err
	}
	if !o.MustExist {
		if err := h.FS.MkdirAll(dir, 0o755); err != nil {
			return fail(&OpenError{Dir: dir, Err: err})
		}
	}
	lock, err := pebble.LockDirectory(dir, h.FS)
	switch {
	case errors.Is(err, os.ErrNotExist), errors.Is(err, os.ErrPermission), isDiskFull(err):
		return fail(&OpenError{Dir: dir, Err: err})
	case err != nil:
		return fail(&LockedError{Dir: dir, Err: err})
	}
	e.lock = lock

	e.fitDisk()
	po := e.pebbleOptions()
	if o.Cache != nil {
		po.Cache = o.Cache.c
	} else {
		c := pebble.NewCache(o.CacheBytes)
		defer c.Unref()
		po.Cache = c
	}
	m, fresh, mustExist, err := e.look() // before anything is written
	if err != nil {
		return fail(err)
	}
	if err := h.FS.RemoveAll(h.FS.PathJoin(dir, ingestDir)); err != nil {
		return fail(&OpenError{Dir: dir, Err: err})
	}
	po.ErrorIfNotExists = o.MustExist || mustExist
	if !fresh || !mustExist {
		if err := e.openMarker(m); err != nil {
			return fail(&OpenError{Dir: dir, Err: err})
		}
		if fresh { // so that what is left of a store that was never made is no mystery
			if err := e.mark(true, func(*marked) {}); err != nil {
				return fail(&OpenError{Dir: dir, Err: err})
			}
		}
	}
	if e.db, err = pebble.Open(dir, po); err != nil {
		return fail(e.missing(err, !fresh && m.Made))
	}
	if err := e.begin(m, fresh, mustExist); err != nil {
		_ = e.db.Close()
		return fail(err)
	}
	po.EnsureDefaults()
	e.tables = po.MakeWriterOptions(0, FormatVersion.MaxTableFormat())
	e.watchDisk(h.Clock)
	e.group.Go(func(ctx context.Context) { e.watchSyncs(ctx, h.Clock) })
	e.group.Go(func(ctx context.Context) { e.keepMark(ctx, h.Clock) })
	return e, nil
}

// begin finds where the store is, and compares that with its marker (engine.EN4).
func (e *Engine) begin(m marked, fresh, old bool) error {
	if err := e.findOpening(); err != nil {
		return &OpenError{Dir: e.dir, Err: err}
	}
	if fresh && old {
		if v, err := e.Get(keys.StoreMarkedKey()); err != nil || v != nil {
			return e.opened(m, fresh)
		}
		if err := e.openMarker(m); err != nil {
			return &OpenError{Dir: e.dir, Err: err}
		}
		fresh = false // a store of the first release
	}
	return e.opened(m, fresh)
}

func (e *Engine) pebbleOptions() *pebble.Options {
	po := &pebble.Options{
		FS:                          e.fs,
		Lock:                        e.lock,
		Comparer:                    &cockroachkvs.Comparer,
		KeySchema:                   cockroachkvs.KeySchema.Name,
		KeySchemas:                  sstable.MakeKeySchemas(&cockroachkvs.KeySchema),
		BlockPropertyCollectors:     cockroachkvs.BlockPropertyCollectors,
		FormatMajorVersion:          FormatVersion,
		ErrorIfNotExists:            e.opts.MustExist,
		MemTableSize:                e.opts.MemTableBytes,
		MemTableStopWritesThreshold: memTablesMax,
		MaxOpenFiles:                e.opts.MaxOpenFiles,
		L0CompactionThreshold:       2 * l0Depth, // which Pebble compares with twice the depth
		L0StopWritesThreshold:       1000,
		LBaseMaxBytes:               64 << 20,
		BytesPerSync:                512 << 10,
		WALBytesPerSync:             0,
		WALMinSyncInterval:          nil,
		FlushDelayDeleteRange:       rangeDeletionDelay,
		FlushDelayRangeKey:          rangeDeletionDelay,
		TargetByteDeletionRate:      128 << 20,
		Logger:                      logger{e},
		EventListener:               e.listener(),
	}
	po.Experimental.TombstoneDenseCompactionThreshold = tombstoneDense
	upper := e.opts.MaxCompactions
	po.CompactionConcurrencyRange = func() (int, int) { return 1, upper }
	po.ApplyCompressionSettings(func() pebble.DBCompressionSettings { return pebble.DBCompressionFastest })
	for i := range po.Levels {
		l := &po.Levels[i]
		l.BlockSize = 32 << 10
		l.IndexBlockSize = 256 << 10
		l.FilterPolicy = bloom.FilterPolicy(10)
		l.FilterType = pebble.TableFilter
	}
	return po
}

func (e *Engine) listener() *pebble.EventListener {
	l := &pebble.EventListener{
		BackgroundError: func(err error) {
			if errors.Is(err, pebble.ErrCancelledCompaction) {
				return
			}
			if isDiskFull(err) {
				return // wrote has noted it, and Pebble tries again (engine.EN5)
			}
			e.fail(fmt.Errorf("in the background: %w", err))
		},
		DataCorruption: func(i pebble.DataCorruptionInfo) {
			e.fail(fmt.Errorf("corrupt file %s: %w", i.Path, i.Details))
		},
		FlushEnd: func(i pebble.FlushInfo) { e.wrote("flush", &e.space.flush, i.Err) },
		CompactionEnd: func(i pebble.CompactionInfo) {
			if i.Reason != "move" && i.Reason != "delete-only" { // these write no table
				e.wrote("compaction", &e.space.compaction, i.Err)
			}
		},
		WriteStallBegin: func(i pebble.WriteStallBeginInfo) {
			e.stalls.Add(1)
			e.stalled.Store(true)
			e.log.Warn("store: writes are stalled", "dir", e.dir, "reason", i.Reason)
		},
		WriteStallEnd: func() { e.stalled.Store(false) },
		WALCreated: func(i pebble.WALCreateInfo) {
			if i.Err == nil {
				raise(&e.marker.log, uint64(i.FileNum))
			}
		},
		DiskSlow: func(i pebble.DiskSlowInfo) {
			e.log.Warn("store: slow disk", "dir", e.dir, "path", i.Path, "duration", i.Duration)
		},
	}
	l.EnsureDefaults(nil)
	return l
}

// logger receives what Pebble says.
type logger struct{ e *Engine }

func (l logger) Infof(string, ...any) {}

func (l logger) Errorf(format string, args ...any) {
	l.e.log.Error("store: "+fmt.Sprintf(format, args...), "dir", l.e.dir)
}

// Fatalf is called when Pebble cannot go on. It returns, so that a simulated node can end in an orderly way; engine.EN1
// keeps Pebble's callers from believing what they are told afterwards.
func (l logger) Fatalf(format string, args ...any) {
	err := fmt.Errorf(format, args...)
	for _, a := range args {
		if cause, ok := a.(error); ok {
			err = fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), cause)
		}
	}
	l.e.fail(err)
}

// fail records the first fatal error and reports it (engine.EN1).
func (e *Engine) fail(err error) *FatalError {
	f := &FatalError{Dir: e.dir, DiskFull: isDiskFull(err), Err: err}
	if !e.failure.CompareAndSwap(nil, f) {
		return e.failure.Load()
	}
	e.log.Error("store: "+f.Error(), "dir", e.dir)
	if e.opts.OnFatal != nil {
		e.opts.OnFatal(f)
	}
	return f
}

// Failure is the error that ended the store, or nil.
func (e *Engine) Failure() error {
	if f := e.failure.Load(); f != nil {
		return f
	}
	return nil
}

// Steps is how many entries iterators that were closed have stepped over, dead ones included: earlier values of keys, and what was deleted and is not compacted away.
// A point read that finds its entry at once adds none.
func (e *Engine) Steps() int64 { return e.steps.Load() }

// Dir is where the store is.
func (e *Engine) Dir() string { return e.dir }

// FS is the file system that the store is on.
func (e *Engine) FS() vfs.FS { return e.fs }

// Close waits for Pebble's goroutines and gives the directory free. All iterators, snapshots and batches must
// have been closed. A store that failed in the middle of a commit is left as it is: Pebble could not close it.
func (e *Engine) Close() error {
	e.group.Stop()
	e.closeMarker(true)
	var err error
	if !e.stuck.Load() {
		err = e.db.Close()
	}
	if lerr := e.lock.Close(); err == nil {
		err = lerr
	}
	return err
}

// Get returns a copy of the unversioned value of a key, nil if there is none.
func (e *Engine) Get(k keys.Key) ([]byte, error) { return e.get(e.db, k) }

func (e *Engine) get(from pebble.Reader, k keys.Key) ([]byte, error) {
	var scratch [64]byte
	v, closer, err := from.Get(appendKey(scratch[:0], k))
	if err != nil {
		if errors.Is(err, pebble.ErrNotFound) {
			return nil, nil
		}
		return nil, e.readError(err)
	}
	out := make([]byte, len(v))
	copy(out, v)
	return out, closer.Close()
}

// readError turns an error of a read into the engine's: a failed read of a block is as fatal as a failed write,
// because nothing else on the disk can be trusted (engine.EN1).
func (e *Engine) readError(err error) error {
	if err == nil {
		return nil
	}
	return e.fail(fmt.Errorf("while reading: %w", err))
}

// Snapshot is the store as it was at one moment.
type Snapshot struct {
	e *Engine
	s *pebble.Snapshot
}

// NewSnapshot holds the present state; close it soon, because it keeps old data on disk.
func (e *Engine) NewSnapshot() *Snapshot { return &Snapshot{e: e, s: e.db.NewSnapshot()} }

// Get is Engine.Get at the snapshot.
func (s *Snapshot) Get(k keys.Key) ([]byte, error) { return s.e.get(s.s, k) }

// NewIter makes an iterator over the snapshot.
func (s *Snapshot) NewIter(o IterOptions) (*Iterator, error) { return s.e.newIter(s.s, o) }

// Close releases the snapshot.
func (s *Snapshot) Close() error { return s.s.Close() }

// Checkpoint makes a copy of the store, as it is now and durable, in a new directory of the same file system.
func (e *Engine) Checkpoint(dir string) error {
	if err := e.db.Checkpoint(dir, pebble.WithFlushedWAL()); err != nil {
		return &OpenError{Dir: dir, Err: err}
	}
	id, err := e.Ident()
	if err != nil && err != ErrNoIdent {
		return err
	}
	f, err := e.fs.Create(e.fs.PathJoin(dir, markerName), vfs.WriteCategoryUnspecified)
	if err != nil {
		return &OpenError{Dir: dir, Err: err}
	}
	acting, promised := e.Version()
	_, err = f.Write([]byte((&marked{Made: true, Ident: id, Acting: acting, Promised: promised}).line()))
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

// Flush writes the memtable out.
func (e *Engine) Flush() error { return e.db.Flush() }

// Compact rewrites a span, so that what was deleted there gives its space back.
func (e *Engine) Compact(ctx context.Context, s keys.Span) error {
	return e.db.Compact(ctx, appendKey(nil, s.Start), appendKey(nil, s.Stop()), false)
}

// Sync makes everything that was committed durable.
func (e *Engine) Sync() error {
	if err := e.Failure(); err != nil {
		return err
	}
	e.syncs.begin()
	defer e.syncs.end()
	if wait := e.beginSync(); wait != nil {
		wait()
	}
	return e.syncLog()
}

func (e *Engine) syncLog() (err error) {
	defer e.recoverFailure(&err)
	committed := e.at.committed.Load()
	if err := e.db.LogData(nil, pebble.Sync); err != nil {
		return e.fail(err)
	}
	if err := e.Failure(); err != nil {
		return err
	}
	raise(&e.at.durable, committed)
	return nil
}

// beginSync is not nil if the disk is slow: the caller commits without a sync, waits, and syncs the log then.
func (e *Engine) beginSync() (wait func()) {
	if e.slow == nil {
		return nil
	}
	return e.slow.BeginSync()
}

// EstimateBytes is roughly what a span takes on disk, without what is still in memory.
func (e *Engine) EstimateBytes(s keys.Span) (uint64, error) {
	return e.db.EstimateDiskUsage(appendKey(nil, s.Start), appendKey(nil, s.Stop()))
}

// Metrics are numbers for the operator.
type Metrics struct {
	DiskBytes       uint64
	FreeBytes       uint64 // zero: unknown
	WALBytes        uint64
	WALBytesWritten uint64
	MemTableBytes   uint64
	TableCount      int64
	L0Files         int64
	ReadAmp         int
	Flushes         int64
	Compactions     int64
	FlushedBytes    uint64 // written by flushes
	CompactedBytes  uint64 // written by compactions
	CompactionDebt  uint64
	CacheBytes      int64
	CacheHits       int64
	CacheMisses     int64
	WriteStalls     int64
	IteratorSteps   int64 // see Steps
	OpenIterators   int64
}

// Metrics reads the store's counters; it takes some microseconds.
func (e *Engine) Metrics() Metrics {
	m := e.db.Metrics()
	t := m.Total()
	out := Metrics{
		DiskBytes:       m.DiskSpaceUsage(),
		WALBytes:        m.WAL.Size,
		WALBytesWritten: m.WAL.BytesWritten,
		MemTableBytes:   m.MemTable.Size,
		TableCount:      t.TablesCount,
		L0Files:         m.Levels[0].TablesCount,
		ReadAmp:         m.ReadAmp(),
		Flushes:         m.Flush.Count,
		Compactions:     m.Compact.Count,
		FlushedBytes:    t.TableBytesFlushed,
		CompactedBytes:  t.TableBytesCompacted,
		CompactionDebt:  m.Compact.EstimatedDebt,
		CacheBytes:      m.BlockCache.Size,
		CacheHits:       m.BlockCache.Hits,
		CacheMisses:     m.BlockCache.Misses,
		WriteStalls:     e.stalls.Load(),
		IteratorSteps:   e.steps.Load(),
		OpenIterators:   m.TableIters,
	}
	if u, err := e.fs.GetDiskUsage(e.dir); err == nil {
		out.FreeBytes = u.AvailBytes
	}
	return out
}

// Bounds of what the engine bears before it stalls writes, or before reads pay for what it has not compacted yet.
const (
	memTablesMax = 4
	// l0SublevelsMax is far below Pebble's own bound (pebbleOptions): from here on each read looks at too many tables.
	l0SublevelsMax = 10 * l0Depth
)

// Backlog is how far the engine is behind with what was written, as a part of what it bears.
func (e *Engine) Backlog() float64 {
	m := e.db.Metrics()
	// Pebble counts bytes: memtables begin small, so their number says nothing.
	tables := float64(m.MemTable.Size) / float64(memTablesMax*e.opts.MemTableBytes)
	return max(tables, float64(m.Levels[0].Sublevels)/l0SublevelsMax)
}

// Describe is Pebble's own table of metrics, for people.
func (e *Engine) Describe() string { return e.db.Metrics().String() }
