package sim

import (
	"errors"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// memFS is a file system in memory that remembers what was synced. Pebble's own (vfs.NewCrashableMem) copies a whole
// file at each sync, which is a tenth of the work of a simulated cluster; here a sync of a file that only grew takes
// note of its length.
//
// A directory's entries are data of the directory: they survive a crash if it was synced.
type memFS struct {
	mu     sync.Mutex // guards all nodes; nothing is taken after it
	root   *memNode
	locked map[string]bool
}

var _ vfs.FS = (*memFS)(nil)

// memNode is a file or a directory.
type memNode struct {
	children, syncedChildren map[string]*memNode // of a directory; children is nil for a file

	data    []byte
	synced  int    // so many bytes of data are synced, unless before is there
	before  []byte // what was synced, if bytes of it were overwritten since
	changed time.Time
}

func newMemFS() *memFS {
	return &memFS{root: &memNode{children: map[string]*memNode{}}, locked: map[string]bool{}}
}

// durable is what was synced of a file.
func (n *memNode) durable() []byte {
	if n.before != nil {
		return n.before
	}
	return n.data[:n.synced]
}

// write puts bytes at an offset, with zeros before them if the file is shorter.
func (n *memNode) write(p []byte, at int) {
	if at < n.synced && n.before == nil {
		n.before = append([]byte{}, n.data[:n.synced]...)
	}
	if grow := at - len(n.data); grow > 0 {
		n.data = append(n.data, make([]byte, grow)...)
	}
	k := copy(n.data[at:], p)
	n.data = append(n.data, p[k:]...)
	n.changed = time.Now()
}

func (n *memNode) sync() {
	if n.children != nil {
		n.syncedChildren = maps.Clone(n.children)
		return
	}
	n.synced, n.before = len(n.data), nil
}

// crashed copies what a crash leaves: all that was synced, and each other entry or block with the given probability.
func (n *memNode) crashed(percent int, dice *rand.Rand) *memNode {
	const block = 4096
	lucky := func() bool { return percent > 0 && dice.IntN(100) < percent }
	if n.children != nil {
		out := &memNode{children: map[string]*memNode{}}
		maps.Copy(out.children, n.syncedChildren)
		for _, name := range slices.Sorted(maps.Keys(n.children)) {
			if lucky() {
				out.children[name] = n.children[name]
			}
		}
		for _, name := range slices.Sorted(maps.Keys(out.children)) {
			out.children[name] = out.children[name].crashed(percent, dice)
		}
		out.sync()
		return out
	}
	out := &memNode{data: slices.Clone(n.durable()), changed: n.changed}
	for i := 0; i < len(n.data); i += block {
		if lucky() {
			out.write(n.data[i:min(i+block, len(n.data))], i)
		}
	}
	out.changed = n.changed
	out.sync()
	return out
}

// crash is the file system that a crash leaves.
func (y *memFS) crash(percent int, dice *rand.Rand) *memFS {
	y.mu.Lock()
	defer y.mu.Unlock()
	return &memFS{root: y.root.crashed(percent, dice), locked: map[string]bool{}}
}

// parent is the directory of a path, and the name in it, which is empty for the root. The mutex is held.
func (y *memFS) parent(op, name string) (*memNode, string, error) {
	dir, rest := y.root, strings.Trim(path.Clean("/"+name), "/")
	for {
		first, later, more := strings.Cut(rest, "/")
		if !more {
			return dir, first, nil
		}
		child := dir.children[first]
		switch {
		case child == nil:
			return nil, "", &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist}
		case child.children == nil:
			return nil, "", &fs.PathError{Op: op, Path: name, Err: syscall.ENOTDIR}
		}
		dir, rest = child, later
	}
}

// find is the node at a path. The mutex is held.
func (y *memFS) find(op, name string) (*memNode, error) {
	dir, base, err := y.parent(op, name)
	if err != nil || base == "" {
		return dir, err
	}
	if n := dir.children[base]; n != nil {
		return n, nil
	}
	return nil, &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist}
}

// Create implements vfs.FS.
func (y *memFS) Create(name string, _ vfs.DiskWriteCategory) (vfs.File, error) {
	y.mu.Lock()
	defer y.mu.Unlock()
	return y.create(name)
}

func (y *memFS) create(name string) (vfs.File, error) {
	dir, base, err := y.parent("create", name)
	if err != nil {
		return nil, err
	}
	if base == "" {
		return nil, &fs.PathError{Op: "create", Path: name, Err: syscall.EISDIR}
	}
	n := &memNode{changed: time.Now()}
	dir.children[base] = n
	return &memFile{y: y, n: n, name: base, reads: true, writes: true}, nil
}

func (y *memFS) open(name string, writes bool) (vfs.File, error) {
	n, err := y.find("open", name)
	if err != nil {
		return nil, err
	}
	return &memFile{y: y, n: n, name: path.Base("/" + name), reads: true, writes: writes}, nil
}

// Open implements vfs.FS.
func (y *memFS) Open(name string, _ ...vfs.OpenOption) (vfs.File, error) {
	y.mu.Lock()
	defer y.mu.Unlock()
	return y.open(name, false)
}

// OpenReadWrite implements vfs.FS.
func (y *memFS) OpenReadWrite(name string, _ vfs.DiskWriteCategory, _ ...vfs.OpenOption) (vfs.File, error) {
	y.mu.Lock()
	defer y.mu.Unlock()
	f, err := y.open(name, true)
	if errors.Is(err, fs.ErrNotExist) {
		return y.create(name)
	}
	return f, err
}

// OpenDir implements vfs.FS.
func (y *memFS) OpenDir(name string) (vfs.File, error) { return y.Open(name) }

// Link implements vfs.FS.
func (y *memFS) Link(from, to string) error {
	y.mu.Lock()
	defer y.mu.Unlock()
	n, err := y.find("link", from)
	if err != nil {
		return err
	}
	dir, base, err := y.parent("link", to)
	if err != nil {
		return err
	}
	if dir.children[base] != nil {
		return &os.LinkError{Op: "link", Old: from, New: to, Err: fs.ErrExist}
	}
	dir.children[base] = n
	return nil
}

// Rename implements vfs.FS.
func (y *memFS) Rename(from, to string) error {
	y.mu.Lock()
	defer y.mu.Unlock()
	return y.rename(from, to)
}

func (y *memFS) rename(from, to string) error {
	n, err := y.find("rename", from)
	if err != nil {
		return err
	}
	dir, base, err := y.parent("rename", to)
	if err != nil {
		return err
	}
	old, oldBase, err := y.parent("rename", from)
	if err != nil {
		return err
	}
	delete(old.children, oldBase)
	dir.children[base] = n
	return nil
}

// ReuseForWrite implements vfs.FS.
func (y *memFS) ReuseForWrite(from, to string, _ vfs.DiskWriteCategory) (vfs.File, error) {
	y.mu.Lock()
	defer y.mu.Unlock()
	if err := y.rename(from, to); err != nil {
		return nil, err
	}
	n, err := y.find("open", to)
	if err != nil {
		return nil, err
	}
	return &memFile{y: y, n: n, name: path.Base(to), writes: true}, nil
}

// Remove implements vfs.FS.
func (y *memFS) Remove(name string) error {
	y.mu.Lock()
	defer y.mu.Unlock()
	n, err := y.find("remove", name)
	if err != nil {
		return err
	}
	if len(n.children) > 0 {
		return &fs.PathError{Op: "remove", Path: name, Err: syscall.ENOTEMPTY}
	}
	dir, base, err := y.parent("remove", name)
	if err == nil {
		delete(dir.children, base)
	}
	return err
}

// RemoveAll implements vfs.FS.
func (y *memFS) RemoveAll(name string) error {
	y.mu.Lock()
	defer y.mu.Unlock()
	dir, base, err := y.parent("remove", name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		delete(dir.children, base)
	}
	return err
}

// MkdirAll implements vfs.FS.
func (y *memFS) MkdirAll(name string, _ os.FileMode) error {
	y.mu.Lock()
	defer y.mu.Unlock()
	dir := y.root
	for base := range strings.SplitSeq(strings.Trim(path.Clean("/"+name), "/"), "/") {
		if base == "" {
			continue
		}
		child := dir.children[base]
		if child == nil {
			child = &memNode{children: map[string]*memNode{}}
			dir.children[base] = child
		}
		if child.children == nil {
			return &fs.PathError{Op: "mkdir", Path: name, Err: syscall.ENOTDIR}
		}
		dir = child
	}
	return nil
}

// Lock implements vfs.FS.
func (y *memFS) Lock(name string) (io.Closer, error) {
	y.mu.Lock()
	defer y.mu.Unlock()
	if y.locked[name] {
		return nil, syscall.EAGAIN
	}
	if _, err := y.create(name); err != nil {
		return nil, err
	}
	y.locked[name] = true
	return &memLock{y, name}, nil
}

// memLock is a lock that is held.
type memLock struct {
	y    *memFS
	name string
}

// Close implements io.Closer.
func (l *memLock) Close() error {
	l.y.mu.Lock()
	defer l.y.mu.Unlock()
	delete(l.y.locked, l.name)
	return nil
}

// List implements vfs.FS.
func (y *memFS) List(name string) ([]string, error) {
	y.mu.Lock()
	defer y.mu.Unlock()
	n, err := y.find("open", name)
	if err != nil {
		return nil, err
	}
	if n.children == nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.ENOTDIR}
	}
	return slices.Sorted(maps.Keys(n.children)), nil
}

// Stat implements vfs.FS.
func (y *memFS) Stat(name string) (vfs.FileInfo, error) {
	y.mu.Lock()
	defer y.mu.Unlock()
	n, err := y.find("stat", name)
	if err != nil {
		return nil, err
	}
	return n.info(path.Base("/" + name)), nil
}

// PathBase implements vfs.FS.
func (*memFS) PathBase(p string) string { return path.Base(p) }

// PathJoin implements vfs.FS.
func (*memFS) PathJoin(elem ...string) string { return path.Join(elem...) }

// PathDir implements vfs.FS.
func (*memFS) PathDir(p string) string { return path.Dir(p) }

// GetDiskUsage implements vfs.FS.
func (*memFS) GetDiskUsage(string) (vfs.DiskUsage, error) {
	return vfs.DiskUsage{}, vfs.ErrUnsupported
}

// Unwrap implements vfs.FS.
func (*memFS) Unwrap() vfs.FS { return nil }

// memInfo is what Stat says.
type memInfo struct {
	name    string
	size    int64
	changed time.Time
	dir     bool
}

var _ vfs.FileInfo = memInfo{}

func (n *memNode) info(name string) memInfo {
	return memInfo{name, int64(len(n.data)), n.changed, n.children != nil}
}

func (i memInfo) Name() string           { return i.name }
func (i memInfo) Size() int64            { return i.size }
func (i memInfo) ModTime() time.Time     { return i.changed }
func (i memInfo) IsDir() bool            { return i.dir }
func (i memInfo) Sys() any               { return nil }
func (i memInfo) DeviceID() vfs.DeviceID { return vfs.DeviceID{} }

// Mode implements fs.FileInfo.
func (i memInfo) Mode() fs.FileMode {
	if i.dir {
		return fs.ModeDir | 0o755
	}
	return 0o755
}

// memFile is an open file.
type memFile struct {
	y             *memFS
	n             *memNode
	name          string
	at            int // of the next Read or Write
	reads, writes bool
}

var (
	errNotForReading = errors.New("sim: the file was not opened for reading")
	errNotForWriting = errors.New("sim: the file was not opened for writing")
)

// Close implements vfs.File.
func (f *memFile) Close() error { return nil }

// Read implements vfs.File.
func (f *memFile) Read(p []byte) (int, error) {
	n, err := f.ReadAt(p, int64(f.at))
	f.at += n
	if n > 0 && errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

// ReadAt implements vfs.File.
func (f *memFile) ReadAt(p []byte, off int64) (int, error) {
	f.y.mu.Lock()
	defer f.y.mu.Unlock()
	if !f.reads || f.n.children != nil {
		return 0, errNotForReading
	}
	if off >= int64(len(f.n.data)) {
		return 0, io.EOF
	}
	n := copy(p, f.n.data[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// Write implements vfs.File.
func (f *memFile) Write(p []byte) (int, error) {
	n, err := f.WriteAt(p, int64(f.at))
	f.at += n
	return n, err
}

// WriteAt implements vfs.File.
func (f *memFile) WriteAt(p []byte, off int64) (int, error) {
	f.y.mu.Lock()
	defer f.y.mu.Unlock()
	if !f.writes || f.n.children != nil {
		return 0, errNotForWriting
	}
	f.n.write(p, int(off))
	return len(p), nil
}

// Prefetch implements vfs.File.
func (f *memFile) Prefetch(int64, int64) error { return nil }

// Preallocate implements vfs.File.
func (f *memFile) Preallocate(int64, int64) error { return nil }

// Stat implements vfs.File.
func (f *memFile) Stat() (vfs.FileInfo, error) {
	f.y.mu.Lock()
	defer f.y.mu.Unlock()
	return f.n.info(f.name), nil
}

// Sync implements vfs.File.
func (f *memFile) Sync() error {
	f.y.mu.Lock()
	defer f.y.mu.Unlock()
	f.n.sync()
	return nil
}

// SyncData implements vfs.File.
func (f *memFile) SyncData() error { return f.Sync() }

// SyncTo implements vfs.File. It promises nothing, so that nobody relies on it.
func (f *memFile) SyncTo(int64) (bool, error) { return false, nil }

// Fd implements vfs.File.
func (f *memFile) Fd() uintptr { return vfs.InvalidFd }
