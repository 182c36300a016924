package engine

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"meridian/clock"
	"meridian/keys"
)

// heldFS is a disk that makes no table while it is held.
type heldFS struct {
	vfs.FS
	held atomic.Bool
}

func (f *heldFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	for strings.HasSuffix(name, ".sst") && f.held.Load() {
		time.Sleep(time.Second)
	}
	return f.FS.Create(name, c)
}

// TestBacklog: the backlog grows with the bytes that wait to be flushed, is nearly one when the engine is about to stall writes, and
// falls when they are flushed. A new store has none, though its memtables begin small and so are full soon.
func TestBacklog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := &heldFS{FS: vfs.NewMem()}
		const table = 1 << 20
		e := open(t, fs, Options{CacheBytes: 1 << 20, MemTableBytes: table, ReserveBytes: -1})
		defer e.Close()
		if b := e.Backlog(); b > 0.3 {
			t.Errorf("a new store has a backlog of %.2f", b)
		}
		fs.held.Store(true)
		value := make([]byte, table/16)
		last, written := 0.0, 0
		for e.Metrics().MemTableBytes < 3*table {
			b := e.NewBatch()
			b.Put(keys.Key(fmt.Sprintf("k%05d", written)), value)
			if err := b.Commit(false); err != nil {
				t.Fatal(err)
			}
			_ = b.Close()
			written++
			now, part := e.Backlog(), float64(written*len(value))/(memTablesMax*table)
			if now < last-0.01 || now < part {
				t.Fatalf("after %d writes, %.2f of what the memtables may have, the backlog is %.2f; it was %.2f", written, part, now, last)
			}
			last = now
		}
		if last < 0.7 || last > 1.01 {
			t.Errorf("with three of four memtables full the backlog is %.2f", last)
		}
		if n := e.Metrics().WriteStalls; n > 0 {
			t.Errorf("%d stalls", n)
		}
		fs.held.Store(false)
		time.Sleep(time.Minute)
		if err := e.Flush(); err != nil {
			t.Fatal(err)
		}
		if b := e.Backlog(); b > 0.3 {
			t.Errorf("after a flush the backlog is %.2f", b)
		}
	})
}

// TestBacklogOfTables: tables that are not compacted count too, by how many of them a read looks at.
func TestBacklogOfTables(t *testing.T) {
	e := open(t, vfs.NewMem(), Options{CacheBytes: 1 << 20, MemTableBytes: 16 << 20, ReserveBytes: -1})
	defer e.Close()
	for round := 1; round < l0Depth; round++ {
		b := e.NewBatch()
		for i := range 100 {
			b.PutVersion(keys.Key(fmt.Sprintf("row%02d", i)), clock.Timestamp{Wall: int64(round)}, nil, []byte("v"))
		}
		if err := b.Commit(false); err != nil {
			t.Fatal(err)
		}
		_ = b.Close()
		if err := e.Flush(); err != nil {
			t.Fatal(err)
		}
		if got, want := e.Backlog(), float64(round)/l0SublevelsMax; got < want || got > want+0.02 {
			t.Errorf("after %d flushes the backlog is %.3f, want %.3f", round, got, want)
		}
	}
}
