package engine

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"meridian/keys"
)

// refusingFS has no space for tables of some category while that is set.
type refusingFS struct {
	vfs.FS
	category vfs.DiskWriteCategory
	on       atomic.Bool
	tries    atomic.Int64
}

type refusingFile struct {
	vfs.File
	fs *refusingFS
}

func (f *refusingFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	file, err := f.FS.Create(name, c)
	if err != nil || c != f.category {
		return file, err
	}
	if f.on.Load() && f.tries.Add(1) == 1000 {
		f.on.Store(false) // or a store that never waits would never end
	}
	return &refusingFile{file, f}, nil
}

func (f *refusingFile) Write(p []byte) (int, error) {
	if f.fs.on.Load() {
		return 0, syscall.ENOSPC
	}
	return f.File.Write(p)
}

// TestTablesRefused: a disk that is full for a while fails flushes or compactions. They are tried again, about once a second; new
// data is refused meanwhile, though the reserve is free; the store goes on, and nothing is lost (engine.EN5).
func TestTablesRefused(t *testing.T) {
	for _, category := range []vfs.DiskWriteCategory{"pebble-memtable-flush", "pebble-compaction"} {
		t.Run(string(category), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fs := &refusingFS{FS: vfs.NewMem(), category: category}
				e := open(t, fs, Options{OnFatal: func(err error) { t.Error(err) }})
				fs.on.Store(true)
				n := 0
				put := func() {
					commit(t, e, func(b *Batch) {
						for i := range 100 {
							b.Put(keys.Key(fmt.Sprintf("%d-%d", i, n)), []byte("v"))
						}
					})
					n++
				}
				for range 3 * l0Depth {
					put()
					if category == "pebble-compaction" {
						if err := e.Flush(); err != nil {
							t.Fatal(err)
						}
					}
				}
				if _, err := e.db.AsyncFlush(); err != nil {
					t.Fatal(err)
				}
				time.Sleep(10 * time.Second)
				if !e.DiskFull() || !e.DiskScarce() {
					t.Errorf("full %v, scarce %v", e.DiskFull(), e.DiskScarce())
				}
				if tries := fs.tries.Load(); tries < 5 || tries > 20 {
					t.Errorf("%d tries in 10 s", tries)
				}
				put()
				tables := e.Metrics().L0Files
				if flushes := category == "pebble-memtable-flush"; flushes != (tables == 0) {
					t.Errorf("%d tables in level 0 on a full disk", tables)
				}
				fs.on.Store(false)
				time.Sleep(2 * time.Second)
				if e.DiskFull() || e.DiskScarce() || e.Failure() != nil {
					t.Errorf("with space: full %v, scarce %v, %v", e.DiskFull(), e.DiskScarce(), e.Failure())
				}
				if now := e.Metrics().L0Files; (tables == 0) != (now > tables) {
					t.Errorf("%d tables in level 0 on a full disk, %d with space", tables, now)
				}
				for range 2 {
					for i := range n {
						if v, err := e.Get(keys.Key(fmt.Sprintf("7-%d", i))); string(v) != "v" || err != nil {
							t.Errorf("%d: %q, %v", i, v, err)
						}
					}
					if err := e.Close(); err != nil {
						t.Fatal(err)
					}
					e = open(t, fs, Options{})
				}
				if err := e.Close(); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}

// TestFullOfMemtables: as long as no memtable can be written out, memory fills, and then no commit ends. The store fails after stallAfter, says
// that its disk is full and what to do, and has all that it acknowledged when it is opened with space (engine.EN3, engine.EN5).
func TestFullOfMemtables(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := &refusingFS{FS: vfs.NewMem(), category: "pebble-memtable-flush"}
		var failed atomic.Pointer[error]
		var stop atomic.Bool
		e := open(t, fs, Options{MemTableBytes: 256 << 10, OnFatal: func(err error) { failed.Store(&err) }})
		fs.on.Store(true)
		acked, over := 0, make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() {
			defer close(over)
			for !stop.Load() {
				b := e.NewBatch()
				b.Put(keys.Key(fmt.Sprint(acked)), make([]byte, 10_000))
				err := b.Commit(false)
				if err == nil {
					err = e.Sync()
				}
				b.Close()
				if err != nil {
					return
				}
				acked++
			}
		})
		begun := time.Now()
		for failed.Load() == nil && time.Since(begun) < time.Minute {
			time.Sleep(time.Second)
		}
		var f *FatalError
		if p := failed.Load(); p == nil || !errors.As(*p, &f) || !f.DiskFull {
			t.Errorf("the store has not failed: %v", f)
		} else if s := f.Error(); !strings.Contains(s, `store "store": the disk is full`) || !strings.Contains(s, "free some space") {
			t.Error(s)
		} else {
			t.Logf("after %s and %d commits: %s", time.Since(begun), acked, s)
		}
		fs.on.Store(false)
		stop.Store(true)
		<-over
		wg.Wait()
		_ = e.Close()
		e = open(t, fs, Options{})
		defer e.Close()
		for i := range acked {
			if v, err := e.Get(keys.Key(fmt.Sprint(i))); v == nil || err != nil {
				t.Fatalf("commit %d of %d: %v, %v", i, acked, v, err)
			}
		}
	})
}
