package sim

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// ErrDisk is the I/O error that a broken disk returns.
var ErrDisk = errors.New("sim: input/output error")

// Disk is one machine's disk, in memory. What was synced survives Crash; what was not survives by chance.
type Disk struct {
	faults diskFaults

	mu  sync.Mutex // guards fs and rng; nothing is taken after it
	mem *vfs.MemFS
	rng *rand.Rand
}

// diskFaults are shared by every file of a disk, across crashes.
type diskFaults struct {
	full      atomic.Bool
	syncErr   atomic.Bool
	readErr   atomic.Bool
	syncDelay atomic.Int64 // nanoseconds
	syncs     atomic.Int64
	written   atomic.Int64
	trap      atomic.Pointer[syncTrap]
}

// syncTrap springs at the sync with a certain number.
type syncTrap struct {
	at   int64
	once sync.Once
	f    func()
}

// NewDisk makes an empty disk; the seed decides which unsynced blocks survive a crash.
func NewDisk(seed uint64) *Disk {
	return &Disk{mem: vfs.NewCrashableMem(), rng: rand.New(rand.NewPCG(seed, 0xd15c))}
}

// FS is the file system as the next incarnation of a node finds it.
func (d *Disk) FS() vfs.FS {
	d.mu.Lock()
	defer d.mu.Unlock()
	return &diskFS{FS: d.mem, f: &d.faults}
}

// Crash cuts the power: file systems lent before go on writing into the void, and the next FS holds what was synced
// plus each unsynced block with the given probability. Cut the machine's network first, or the node could still
// acknowledge what is now lost.
func (d *Disk) Crash(unsyncedPercent int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mem = d.mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: unsyncedPercent, RNG: d.rng})
}

// SetFull makes writes fail with ENOSPC.
func (d *Disk) SetFull(v bool) { d.faults.full.Store(v) }

// SetSyncError makes every sync fail with ErrDisk.
func (d *Disk) SetSyncError(v bool) { d.faults.syncErr.Store(v) }

// SetReadError makes every read fail with ErrDisk.
func (d *Disk) SetReadError(v bool) { d.faults.readErr.Store(v) }

// SetSyncDelay makes every sync of a write-ahead log take d longer. Other syncs are rare, and the engine makes some of
// them while it holds a mutex, which would stop virtual time (H3).
func (d *Disk) SetSyncDelay(delay time.Duration) { d.faults.syncDelay.Store(int64(delay)) }

// OnSync calls f once, in the middle of the sync that is n from now: what that sync was to save is not saved yet. Zero
// takes it back. f must not wait.
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

func (f *diskFaults) sync(mayWait bool) error {
	n := f.syncs.Add(1)
	if t := f.trap.Load(); t != nil && n >= t.at {
		t.once.Do(t.f)
	}
	if d := f.syncDelay.Load(); d > 0 && mayWait {
		time.Sleep(time.Duration(d))
	}
	if f.syncErr.Load() {
		return ErrDisk
	}
	return nil
}

func (f *diskFaults) space(op, name string) error {
	if f.full.Load() {
		return &fs.PathError{Op: op, Path: name, Err: syscall.ENOSPC}
	}
	return nil
}

// diskFS passes everything to the memory file system, past the faults.
type diskFS struct {
	vfs.FS
	f *diskFaults
}

func (d *diskFS) wrap(file vfs.File, err error) (vfs.File, error) { return d.wrapLog("", file, err) }

// wrapLog wraps a file that is written to; name tells a write-ahead log from others.
func (d *diskFS) wrapLog(name string, file vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return &diskFile{File: file, f: d.f, log: strings.HasSuffix(name, ".log")}, nil
}

func (d *diskFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if err := d.f.space("create", name); err != nil {
		return nil, err
	}
	f, err := d.FS.Create(name, c)
	return d.wrapLog(name, f, err)
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
	f, err := d.FS.ReuseForWrite(oldname, newname, c)
	return d.wrapLog(newname, f, err)
}

// capacity is the size that every simulated disk claims.
const capacity = 1 << 40

func (d *diskFS) GetDiskUsage(string) (vfs.DiskUsage, error) {
	if d.f.full.Load() {
		return vfs.DiskUsage{TotalBytes: capacity, UsedBytes: capacity}, nil
	}
	return vfs.DiskUsage{TotalBytes: capacity, AvailBytes: capacity}, nil
}

type diskFile struct {
	vfs.File
	f   *diskFaults
	log bool
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
	if err := f.f.sync(f.log); err != nil {
		return err
	}
	return f.File.Sync()
}

func (f *diskFile) SyncData() error {
	if err := f.f.sync(f.log); err != nil {
		return err
	}
	return f.File.SyncData()
}

func (f *diskFile) SyncTo(length int64) (bool, error) {
	if err := f.f.sync(f.log); err != nil {
		return false, err
	}
	return f.File.SyncTo(length)
}
