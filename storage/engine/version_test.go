package engine

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"meridian/keys"
	"meridian/version"
)

func parsed(text string) version.Version {
	v, _ := version.Parse(text)
	return v
}

// contents is every file of the directory of a closed store: an open one removes files that it no longer needs whenever it likes.
func contents(t *testing.T, fs vfs.FS, dir string) map[string]string {
	t.Helper()
	names, err := fs.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, name := range names {
		out[name] = content(t, fs, fs.PathJoin(dir, name))
	}
	return out
}

// content is that of one file.
func content(t *testing.T, fs vfs.FS, path string) string {
	t.Helper()
	f, err := fs.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if s, err := f.Stat(); err == nil && s.IsDir() {
		return "directory"
	}
	b, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestVersionOfStore: a store's version only grows and survives; a binary that is too old or too new for it is refused with a message that says
// what to do, and has written nothing (engine.EN6). Damage to either half of the marker takes no promise back.
func TestVersionOfStore(t *testing.T) {
	fs := vfs.NewMem()
	present, next := version.Binary{Own: parsed("0.1"), Oldest: parsed("0.1")}, version.Binary{Own: parsed("0.2"), Oldest: parsed("0.1")}
	later := version.Binary{Own: parsed("0.3"), Oldest: parsed("0.2")}
	with := func(b version.Binary, f func(e *Engine)) {
		t.Helper()
		e, err := Open(testHost(t, fs), "store", Options{Binary: b})
		if err != nil {
			t.Fatal(err)
		}
		f(e)
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
	}
	raise := func(e *Engine, acting, promised string) {
		t.Helper()
		if err := e.RaiseVersion(parsed(acting), parsed(promised)); err != nil {
			t.Fatal(err)
		}
	}
	want := func(e *Engine, acting, promised string) {
		t.Helper()
		if a, p := e.Version(); a != parsed(acting) || p != parsed(promised) {
			t.Errorf("acts by %s, has promised %s; want %s and %s", a, p, acting, promised)
		}
	}
	refused := func(b version.Binary, why string) {
		t.Helper()
		before := contents(t, fs, "store")
		e, err := Open(testHost(t, fs), "store", Options{Binary: b})
		if err == nil {
			e.Close()
			t.Fatalf("a binary of %s opened the store", b.Own)
		}
		if !strings.Contains(err.Error(), why) || !strings.HasPrefix(err.Error(), `store "store": `) {
			t.Errorf("a binary of %s: %v", b.Own, err)
		}
		after := contents(t, fs, "store")
		for name := range after {
			if before[name] != after[name] {
				t.Errorf("a binary of %s was refused, and has written %s", b.Own, name)
			}
		}
		for name := range before {
			if _, ok := after[name]; !ok {
				t.Errorf("a binary of %s was refused, and has removed %s", b.Own, name)
			}
		}
	}
	with(present, func(e *Engine) {
		want(e, "", "")
		raise(e, "0.1", "0.1")
		if err := e.SetIdent(testIdent); err != nil {
			t.Fatal(err)
		}
		commit(t, e, func(b *Batch) { b.Put(keys.Key("k"), []byte("v")) })
	})
	// Files that a kill in the middle of an ingestion leaves are removed by an open that succeeds only.
	if err := fs.MkdirAll("store/"+ingestDir, 0o755); err != nil {
		t.Fatal(err)
	}
	refused(later, "is too new: it has version 0.3 and works in clusters of version 0.2 or later, and the cluster acts by 0.1")
	with(next, func(e *Engine) { want(e, "0.1", "0.1") })
	with(present, func(e *Engine) { want(e, "0.1", "0.1") }) // back again
	with(next, func(e *Engine) {
		raise(e, "0.1", "0.2")
		raise(e, "0.1", "0.1")
		want(e, "0.1", "0.2")
		if marker := content(t, fs, "store/"+markerName); strings.Count(marker, " promised=0.2") != 2 {
			t.Errorf("not both halves of the marker have the promise: %q", strings.ReplaceAll(marker, "\x00", ""))
		}
		if err := e.Checkpoint("copy"); err != nil {
			t.Fatal(err)
		}
	})
	refused(present, "is too old: it has version 0.1, and the cluster is upgraded to 0.2; start it with a binary of version 0.2 or later")
	if _, err := Open(testHost(t, fs), "copy", Options{Binary: present}); !errors.As(err, new(*version.TooOldError)) {
		t.Errorf("a copy of the store, by a binary that is too old: %v", err)
	}
	refused(later, "is too new")
	with(next, func(e *Engine) { raise(e, "0.2", "0.2") })
	for slot := range int64(2) {
		f, err := fs.OpenReadWrite("store/"+markerName, vfs.WriteCategoryUnspecified)
		if err != nil {
			t.Fatal(err)
		}
		whole := make([]byte, 20)
		if _, err := f.ReadAt(whole, slot*markerSlot); err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt([]byte("damaged"), slot*markerSlot); err != nil {
			t.Fatal(err)
		}
		refused(present, "is too old")
		if _, err := f.WriteAt(whole, slot*markerSlot); err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	with(later, func(e *Engine) { want(e, "0.2", "0.2") })
	e := open(t, fs, Options{Binary: later})
	_ = e.Close()
	if err := e.RaiseVersion(parsed("0.3"), parsed("0.3")); err == nil {
		t.Error("a closed store has promised something")
	}
}

// TestStoreWithoutVersion: a store from before stores had versions is refused by name.
func TestStoreWithoutVersion(t *testing.T) {
	fs := vfs.NewMem()
	if err := fs.MkdirAll("store", 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := fs.Create("store/"+markerName, vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(f, "meridian store 1 turn=7 made=true cluster=00 node=1 store=1 position=5 log=4 lost=0 manifest=1 synced=2 sum=e4e4145e\n"); err != nil {
		t.Fatal(err)
	}
	f.Close()
	if _, err := Open(testHost(t, fs), "store", Options{}); err == nil || !strings.Contains(err.Error(), "before stores had versions") {
		t.Errorf("%v", err)
	}
}
