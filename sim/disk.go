package sim

import (
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"meridian/host"
)

// ErrDisk is the I/O error that a broken disk returns.
var ErrDisk = errors.New("sim: input/output error")

// Disk is one machine's disk, in memory. Synced data survives Crash; other data survives by chance.
type Disk struct {
	faults diskFaults

	mu   sync.Mutex // guards what follows; nothing is taken after it
	mem  *memFS
	rng  *rand.Rand
	lost chan struct{} // closed when mem is replaced

	delay           time.Duration // of each sync
	running, queued time.Time     // when the sync in progress will end, and the one after it; zero: there is none
}

// diskFaults are shared by every file of a disk, across crashes.
type diskFaults struct {
	full    atomic.Bool
	syncErr atomic.Bool
	readErr atomic.Bool
	syncs   atomic.Int64
	written atomic.Int64
	size    atomic.Int64 // zero: without end
	used    atomic.Int64 // by all files, as of the last look; bytes written since are added
	looked  atomic.Int64 // value of written at that look
	trap    atomic.Pointer[syncTrap]
}

// syncTrap calls a function at the sync with a certain number.
type syncTrap struct {
	at   int64
	once sync.Once
	f    func()
}

// NewDisk makes an empty disk; the seed decides which unsynced blocks survive a crash.
func NewDisk(seed uint64) *Disk {
	return &Disk{mem: newMemFS(), rng: rand.New(rand.NewPCG(seed, 0xd15c)), lost: make(chan struct{})}
}

// FS is the file system as the next incarnation of a node finds it.
func (d *Disk) FS() vfs.FS {
	d.mu.Lock()
	defer d.mu.Unlock()
	return &diskFS{FS: d.mem, f: &d.faults, disk: d, lost: d.lost}
}

// Crash cuts the power: writes to file systems that were lent before have no effect any more, and the next FS has the
// synced data plus each unsynced block with the given probability. Cut the machine's network first, or the node could
// still acknowledge writes that are now lost.
func (d *Disk) Crash(unsyncedPercent int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mem = d.mem.crash(unsyncedPercent, d.rng)
	close(d.lost)
	d.lost = make(chan struct{})
	d.running, d.queued = time.Time{}, time.Time{}
}

// Image is a copy of a disk.
type Image struct{ mem *memFS }

// Image copies the durable data, also while a node runs.
func (d *Disk) Image() *Image {
	d.mu.Lock()
	defer d.mu.Unlock()
	return &Image{d.mem.crash(0, d.rng)}
}

// Files calls f with the name and the contents of each file.
func (i *Image) Files(f func(name string, data []byte)) error {
	var walk func(dir string) error
	walk = func(dir string) error {
		names, err := i.mem.List(dir)
		if err != nil {
			return err
		}
		for _, n := range names {
			path := i.mem.PathJoin(dir, n)
			info, err := i.mem.Stat(path)
			if err != nil {
				return err
			}
			if info.IsDir() {
				if err := walk(path); err != nil {
					return err
				}
				continue
			}
			file, err := i.mem.Open(path)
			if err != nil {
				return err
			}
			data, err := io.ReadAll(file)
			if err = errors.Join(err, file.Close()); err != nil {
				return err
			}
			f(path, data)
		}
		return nil
	}
	return walk("")
}

// Restore replaces the contents of the disk, whose machine must be down, by a copy of an image.
func (d *Disk) Restore(i *Image) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mem = i.mem.crash(100, d.rng)
	close(d.lost)
	d.lost = make(chan struct{})
	d.running, d.queued = time.Time{}, time.Time{}
}

// Wipe replaces the disk, whose machine must be down, by an empty one.
func (d *Disk) Wipe() { d.Restore(&Image{newMemFS()}) }

// SetFull makes writes fail with ENOSPC.
func (d *Disk) SetFull(v bool) { d.faults.full.Store(v) }

// SetSize bounds the disk: beyond it writes fail with ENOSPC. Zero takes the bound away.
func (d *Disk) SetSize(bytes int64) { d.faults.size.Store(bytes) }

// used sums up the files of a file system.
func used(f vfs.FS, dir string) (sum int64) {
	names, err := f.List(dir)
	if err != nil {
		return 0
	}
	for _, n := range names {
		path := f.PathJoin(dir, n)
		info, err := f.Stat(path)
		switch {
		case err != nil: // it has just been removed
		case info.IsDir():
			sum += used(f, path)
		default:
			sum += info.Size()
		}
	}
	return sum
}

// SetSyncError makes every sync fail with ErrDisk.
func (d *Disk) SetSyncError(v bool) { d.faults.syncErr.Store(v) }

// SetReadError makes every read fail with ErrDisk.
func (d *Disk) SetReadError(v bool) { d.faults.readErr.Store(v) }

// SetSyncDelay makes the syncs that begin from now on take that long. One takes place at a time, and serves all requests made
// before it began; later ones wait for the next. An awaited sync does not end before the delay is over: a crash loses it. Only
// the syncs that the engine makes for its callers are slow (host.SlowDisk), not those of its own, which it makes with a mutex
// held (host.H3).
func (d *Disk) SetSyncDelay(delay time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.delay = delay
}

// beginSync is the time at which a sync that is requested now will be over; zero: at once.
func (d *Disk) beginSync(now time.Time) time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !now.Before(d.running) && !d.queued.IsZero() {
		d.running, d.queued = d.queued, time.Time{}
	}
	if !now.Before(d.running) {
		if d.delay == 0 {
			return time.Time{}
		}
		d.running = now.Add(d.delay)
		return d.running
	}
	if d.queued.IsZero() {
		d.queued = d.running.Add(d.delay)
	}
	return d.queued
}

// OnSync calls f once, in the middle of the n-th sync from now on: the data of that sync is not saved yet. Zero cancels
// the call. f must not wait.
func (d *Disk) OnSync(n int, f func()) {
	if n <= 0 {
		d.faults.trap.Store(nil)
		return
	}
	d.faults.trap.Store(&syncTrap{at: d.faults.syncs.Load() + int64(n), f: f})
}

// Syncs counts the syncs so far, failed ones included.
func (d *Disk) Syncs() int64 { return d.faults.syncs.Load() }

// Written counts the bytes written so far.
func (d *Disk) Written() int64 { return d.faults.written.Load() }

func (f *diskFaults) sync() error {
	n := f.syncs.Add(1)
	if t := f.trap.Load(); t != nil && n >= t.at {
		t.once.Do(t.f)
	}
	if f.syncErr.Load() {
		return ErrDisk
	}
	return nil
}

func (f *diskFaults) space(op, name string) error {
	size := f.size.Load()
	if f.full.Load() || size > 0 && f.used.Load()+f.written.Load()-f.looked.Load() >= size {
		return &fs.PathError{Op: op, Path: name, Err: syscall.ENOSPC}
	}
	return nil
}

// diskFS passes all calls to the memory file system, unless a fault applies.
type diskFS struct {
	vfs.FS
	f    *diskFaults
	disk *Disk
	lost <-chan struct{} // closed when this file system is that of a machine that crashed
}

var _ host.SlowDisk = (*diskFS)(nil)

// BeginSync implements host.SlowDisk. A crash ends the wait.
func (d *diskFS) BeginSync() func() {
	end := d.disk.beginSync(time.Now())
	if end.IsZero() {
		return nil
	}
	return func() {
		t := time.NewTimer(time.Until(end))
		defer t.Stop()
		select {
		case <-t.C:
		case <-d.lost:
		}
	}
}

func (d *diskFS) wrap(file vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return &diskFile{File: file, f: d.f}, nil
}

func (d *diskFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if err := d.f.space("create", name); err != nil {
		return nil, err
	}
	return d.wrap(d.FS.Create(name, c))
}

func (d *diskFS) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	return d.wrap(d.FS.Open(name, opts...))
}

func (d *diskFS) OpenReadWrite(name string, c vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	return d.wrap(d.FS.OpenReadWrite(name, c, opts...))
}

func (d *diskFS) OpenDir(name string) (vfs.File, error) { return d.wrap(d.FS.OpenDir(name)) }

func (d *diskFS) ReuseForWrite(oldname, newname string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if err := d.f.space("create", newname); err != nil {
		return nil, err
	}
	return d.wrap(d.FS.ReuseForWrite(oldname, newname, c))
}

// capacity is the size that every simulated disk claims.
const capacity = 1 << 40

func (d *diskFS) GetDiskUsage(string) (vfs.DiskUsage, error) {
	if d.f.full.Load() {
		return vfs.DiskUsage{TotalBytes: capacity, UsedBytes: capacity}, nil
	}
	size := d.f.size.Load()
	if size == 0 {
		return vfs.DiskUsage{TotalBytes: capacity, AvailBytes: capacity}, nil
	}
	n := d.look()
	return vfs.DiskUsage{TotalBytes: uint64(size), UsedBytes: uint64(n), AvailBytes: uint64(max(0, size-n))}, nil
}

// look counts the bytes of all files.
func (d *diskFS) look() int64 {
	n := used(d.FS, "")
	d.f.used.Store(n)
	d.f.looked.Store(d.f.written.Load())
	return n
}

type diskFile struct {
	vfs.File
	f *diskFaults
}

func (f *diskFile) Read(p []byte) (int, error) {
	if f.f.readErr.Load() {
		return 0, ErrDisk
	}
	return f.File.Read(p)
}

func (f *diskFile) ReadAt(p []byte, off int64) (int, error) {
	if f.f.readErr.Load() {
		return 0, ErrDisk
	}
	return f.File.ReadAt(p, off)
}

func (f *diskFile) Write(p []byte) (int, error) {
	if err := f.f.space("write", ""); err != nil {
		return 0, err
	}
	f.f.written.Add(int64(len(p)))
	return f.File.Write(p)
}

func (f *diskFile) WriteAt(p []byte, off int64) (int, error) {
	if err := f.f.space("write", ""); err != nil {
		return 0, err
	}
	f.f.written.Add(int64(len(p)))
	return f.File.WriteAt(p, off)
}

func (f *diskFile) Sync() error {
	if err := f.f.sync(); err != nil {
		return err
	}
	return f.File.Sync()
}

func (f *diskFile) SyncData() error {
	if err := f.f.sync(); err != nil {
		return err
	}
	return f.File.SyncData()
}

func (f *diskFile) SyncTo(length int64) (bool, error) {
	if err := f.f.sync(); err != nil {
		return false, err
	}
	return f.File.SyncTo(length)
}
