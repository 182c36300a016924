package engine

import (
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Pebble takes a manifest that lost its end for one that was being written in a crash: the store opens without the tables that
// the lost edits added, and removes their files. So the marker says how much of which manifest was durable (engine.EN4).

const manifestPrefix = "MANIFEST-"

// manifestAt is how far a manifest is durable.
type manifestAt struct {
	Number uint64
	Synced int64
}

func manifestNumber(name string) (n uint64, ok bool) {
	_, digits, ok := strings.Cut(name, manifestPrefix)
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 10, 64)
	return n, err == nil
}

// manifestFS notes what is synced of manifests.
type manifestFS struct {
	vfs.FS
	at *atomic.Pointer[manifestAt]
}

type manifestFile struct {
	vfs.File
	number  uint64
	written int64
	at      *atomic.Pointer[manifestAt]
}

// Create implements vfs.FS.
func (m *manifestFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := m.FS.Create(name, c)
	if n, ok := manifestNumber(m.FS.PathBase(name)); ok && err == nil {
		return &manifestFile{File: f, number: n, at: m.at}, nil
	}
	return f, err
}

// Unwrap gives Pebble the file system below.
func (m *manifestFS) Unwrap() vfs.FS { return m.FS }

// Write implements vfs.File.
func (f *manifestFile) Write(p []byte) (int, error) {
	n, err := f.File.Write(p)
	f.written += int64(n)
	return n, err
}

// Sync implements vfs.File.
func (f *manifestFile) Sync() error {
	err := f.File.Sync()
	if err == nil {
		f.at.Store(&manifestAt{f.number, f.written})
	}
	return err
}

// shortManifest reports that the present manifest, which the names of the directory's files tell, is shorter than it was.
func (e *Engine) shortManifest(names []string, was manifestAt) error {
	for _, name := range names {
		kind, _, _ := strings.Cut(name, "."+manifestPrefix)
		n, ok := manifestNumber(name)
		if !ok || n != was.Number || !strings.HasPrefix(kind, "marker.manifest.") {
			continue
		}
		file := fmt.Sprintf("%s%06d", manifestPrefix, n)
		s, err := e.fs.Stat(e.fs.PathJoin(e.dir, file))
		if err != nil {
			return nil // Pebble says so
		}
		if s.Size() < was.Synced {
			return &MissingError{e.dir, "the end of " + file, fmt.Sprintf("%d bytes were durable, and %d are there", was.Synced, s.Size())}
		}
	}
	return nil
}
