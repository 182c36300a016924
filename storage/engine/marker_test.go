package engine

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"meridian/keys"
)

var testIdent = Ident{Cluster: [16]byte{1, 2}, Node: 3, Store: 3}

// filled is a store with some tables, and something in its log that is nowhere else.
func filled(t *testing.T, fs vfs.FS) (names []string) {
	t.Helper()
	e, err := Open(testHost(t, fs), "store", Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.SetIdent(testIdent); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		commit(t, e, func(b *Batch) { b.Put(keys.Key(fmt.Sprintf("k%d", i)), []byte("v")) })
		if err := e.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	commit(t, e, func(b *Batch) { b.Put(keys.Key("last"), []byte("v")) })
	time.Sleep(3 * markEvery)
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	names, err = fs.List("store")
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	return names
}

// TestMissingFiles: a store that lacks any one file that it needs is refused with that file's name, as often as it is tried,
// and is as it was when the file is put back (engine.EN4).
func TestMissingFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		probe := vfs.NewMem()
		for _, name := range filled(t, probe) {
			if name == "LOCK" || strings.HasPrefix(name, "OPTIONS") || name == ingestDir {
				continue // nothing that was promised is in these
			}
			if strings.HasSuffix(name, ".log") {
				if last := lastLog(t, probe); name != last {
					continue // its contents are in tables
				}
			}
			fs := vfs.NewMem()
			filled(t, fs)
			path := fs.PathJoin("store", name)
			if err := fs.Rename(path, "elsewhere"); err != nil {
				t.Fatal(err)
			}
			for range 20 { // each attempt writes a little, which must not make up for what is lost
				e, err := Open(testHost(t, fs), "store", Options{})
				if err == nil {
					e.Close()
					t.Fatalf("opened without %s", name)
				}
				base, _, _ := strings.Cut(strings.TrimSuffix(name, ".sst"), "-")
				for _, kind := range []string{"marker.manifest", "marker.format-version"} {
					if strings.HasPrefix(name, kind) {
						base = kind
					}
				}
				if !strings.Contains(err.Error(), base) || !strings.Contains(err.Error(), "remove the directory") {
					t.Fatalf("without %s: the error does not name it: %v", name, err)
				}
			}
			if err := fs.Rename("elsewhere", path); err != nil {
				t.Fatal(err)
			}
			e, err := Open(testHost(t, fs), "store", Options{})
			if err != nil {
				t.Fatalf("%s is back: %v", name, err)
			}
			if v, err := e.Get(keys.Key("last")); err != nil || string(v) != "v" {
				t.Fatal(v, err)
			}
			if err := e.Close(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestDamagedManifest: a manifest that lost its end, or all, is noticed, and the way out is told. Pebble would open the store without
// the tables that the lost part names.
func TestDamagedManifest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, size := range []int64{0, 100} {
			fs := vfs.NewMem()
			path := ""
			for _, name := range filled(t, fs) {
				if strings.HasPrefix(name, "MANIFEST-") {
					path = fs.PathJoin("store", name)
				}
			}
			old, err := fs.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			buf := make([]byte, size)
			if _, err := old.ReadAt(buf, 0); err != nil {
				t.Fatal(err)
			}
			old.Close()
			f, err := fs.Create(path, vfs.WriteCategoryUnspecified)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.Write(buf); err != nil {
				t.Fatal(err)
			}
			f.Close()
			e, err := Open(testHost(t, fs), "store", Options{})
			if err == nil {
				e.Close()
				t.Fatalf("opened with %d bytes of the manifest", size)
			}
			if !strings.Contains(err.Error(), "remove the directory") {
				t.Errorf("%d bytes: %v", size, err)
			}
			t.Logf("%d bytes: %v", size, err)
		}
	})
}

func lastLog(t *testing.T, fs vfs.FS) (last string) {
	names, err := fs.List("store")
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		if strings.HasSuffix(n, ".log") && n > last {
			last = n
		}
	}
	return last
}

// TestShortLog: a log that lost its end is noticed as far as the marker had come.
func TestShortLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfs.NewMem()
		filled(t, fs)
		path := fs.PathJoin("store", lastLog(t, fs))
		f, err := fs.Create(path, vfs.WriteCategoryUnspecified)
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
		for range 20 {
			var missing *MissingError
			if e, err := Open(testHost(t, fs), "store", Options{}); !errors.As(err, &missing) {
				if err == nil {
					e.Close()
				}
				t.Fatalf("opened with an empty log: %v", err)
			}
		}
	})
}

// TestNotAStore: a directory that holds something else, or what is left of a store, is not made a new store.
func TestNotAStore(t *testing.T) {
	fs := vfs.NewMem()
	if err := fs.MkdirAll("store/lost+found", 0o755); err != nil {
		t.Fatal(err)
	}
	put := func(name string) {
		f, err := fs.Create("store/"+name, vfs.WriteCategoryUnspecified)
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	put("000012.sst")
	var no *NotAStoreError
	if _, err := Open(testHost(t, fs), "store", Options{}); !errors.As(err, &no) || no.File != "000012.sst" {
		t.Fatal(err)
	}
	if err := fs.Remove("store/000012.sst"); err != nil {
		t.Fatal(err)
	}
	e, err := Open(testHost(t, fs), "store", Options{}) // as a file system's root is
	if err != nil {
		t.Fatal(err)
	}
	e.Close()
}

// TestPosition: what was durable before a crash is not above where the store opens after it, and a copy is behind.
func TestPosition(t *testing.T) {
	fs := vfs.NewCrashableMem()
	e, err := Open(testHost(t, fs), "store", Options{})
	if err != nil {
		t.Fatal(err)
	}
	commit(t, e, func(b *Batch) { b.Put(keys.Key("a"), []byte("1")) })
	copied := e.Durable()
	old := fs.CrashClone(vfs.CrashCloneCfg{})
	for i := range 100 {
		commit(t, e, func(b *Batch) { b.Put(keys.Key(fmt.Sprint("k", i)), make([]byte, 100)) })
		b := e.NewBatch()
		b.Put(keys.Key("unsynced"), nil)
		if err := b.Commit(false); err != nil {
			t.Fatal(err)
		}
		b.Close()
	}
	if e.Durable() < copied+200-1 {
		t.Fatalf("position went from %d to %d only", copied, e.Durable())
	}
	now, durable := fs.CrashClone(vfs.CrashCloneCfg{}), e.Durable()
	e.Close()
	if e, err = Open(testHost(t, now), "store", Options{}); err != nil {
		t.Fatal(err)
	}
	if e.Opening() < durable {
		t.Fatalf("opened at %d, durable were %d", e.Opening(), durable)
	}
	e.Close()
	if e, err = Open(testHost(t, old), "store", Options{}); err != nil {
		t.Fatal(err)
	}
	if e.Opening() < copied || e.Opening() >= durable {
		t.Fatalf("the copy opened at %d, copied at %d, durable were %d", e.Opening(), copied, durable)
	}
	e.Close()
}
