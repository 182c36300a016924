package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"meridian/clock"
	"meridian/host"
	"meridian/keys"
)

type testClock struct{}

func (testClock) Now() time.Time                    { return time.Now() }
func (testClock) Monotonic() time.Duration          { return time.Duration(time.Now().UnixNano()) }
func (testClock) NewTimer(time.Duration) host.Timer { panic("not used") }
func (testClock) WithTimeout(context.Context, time.Duration) (context.Context, context.CancelFunc) {
	panic("not used")
}
func (testClock) Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func testHost(t testing.TB, fs vfs.FS) *host.Host {
	g := host.NewGroup(context.Background())
	t.Cleanup(g.Stop)
	return &host.Host{Clock: testClock{}, FS: fs, Group: g}
}

func open(t testing.TB, fs vfs.FS, o Options) *Engine {
	t.Helper()
	e, err := Open(testHost(t, fs), "store", o)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func openMem(t testing.TB) *Engine {
	e := open(t, vfs.NewMem(), Options{CacheBytes: 1 << 20, MemTableBytes: 1 << 20})
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

func commit(t testing.TB, e *Engine, f func(b *Batch)) {
	t.Helper()
	b := e.NewBatch()
	defer b.Close()
	f(b)
	if err := b.Commit(true); err != nil {
		t.Fatal(err)
	}
}

func ts(wall int64, logical ...uint32) clock.Timestamp {
	t := clock.Timestamp{Wall: wall}
	if len(logical) > 0 {
		t.Logical = logical[0]
	}
	return t
}

// dump shows all entries that an iterator sees.
func dump(t testing.TB, r Reader, o IterOptions) string {
	t.Helper()
	it, err := r.NewIter(o)
	if err != nil {
		t.Fatal(err)
	}
	defer it.Close()
	var out bytes.Buffer
	for ok := it.First(); ok; ok = it.Next() {
		k, v := it.Key()
		val, err := it.Value()
		if err != nil {
			t.Fatal(err)
		}
		if lk, err := keys.DecodeLockKey(k); err == nil {
			strength, txn, err := DecodeLock(v)
			fmt.Fprintf(&out, "lock(%s %d %x %v)=%s ", lk, strength, txn[:1], err, val)
			continue
		}
		at, err := DecodeTimestamp(v)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&out, "%s@%d.%d=%s ", []byte(k), at.Wall, at.Logical, val)
	}
	if err := it.Error(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestOrderAndBounds(t *testing.T) {
	e := openMem(t)
	commit(t, e, func(b *Batch) {
		b.Put(keys.Key("a"), []byte("plain"))
		b.PutVersion(keys.Key("b"), ts(1), nil, []byte("old"))
		b.PutVersion(keys.Key("b"), ts(2, 1), []byte("n"), []byte("ew"))
		b.PutVersion(keys.Key("b"), ts(2), nil, []byte("mid"))
		b.PutVersion(keys.Key("b\x00"), ts(9), nil, []byte("next"))
		b.PutLock(keys.Key("\x20"), 3, [16]byte{7}, []byte("intent"))
	})
	want := "a@0.0=plain b@2.1=new b@2.0=mid b@1.0=old b\x00@9.0=next "
	if got := dump(t, e, IterOptions{Lower: keys.LocalMax}); got != want {
		t.Fatalf("got  %s\nwant %s", got, want)
	}
	if got, want := dump(t, e, IterOptions{Lower: keys.Key("b"), Upper: keys.Key("b").Next()}), "b@2.1=new b@2.0=mid b@1.0=old "; got != want {
		t.Fatalf("got  %s\nwant %s", got, want)
	}
	if got, want := dump(t, e, IterOptions{Upper: keys.LocalMax}), "lock(/0x20 3 07 <nil>)=intent "; got != want {
		t.Fatalf("got  %s\nwant %s", got, want)
	}
	it, err := e.NewIter(IterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer it.Close()
	for _, c := range []struct {
		at   clock.Timestamp
		want string
	}{{clock.Timestamp{}, "new"}, {ts(5), "new"}, {ts(2, 1), "new"}, {ts(2), "mid"}, {ts(1, 7), "old"}, {ts(0, 1), ""}} {
		got := ""
		if it.SeekPrefixGE(keys.Key("b"), c.at) {
			v, _ := it.Value()
			got = string(v)
		}
		if got != c.want {
			t.Errorf("b at %s: %q, want %q", c.at, got, c.want)
		}
	}
	if !it.SeekLockPrefix(keys.Key("\x20")) || it.SeekLockPrefix(keys.Key("b")) {
		t.Error("locks are found under their key only")
	}
	if !it.SeekLT(keys.Key("b\x00")) || string(it.RawKey()[:1]) != "b" {
		t.Error("SeekLT finds the oldest version of the key before")
	}
	commit(t, e, func(b *Batch) { b.ClearSpan(keys.Span{Start: keys.Key("b")}) })
	if got, want := dump(t, e, IterOptions{Lower: keys.LocalMax}), "a@0.0=plain b\x00@9.0=next "; got != want {
		t.Fatalf("after clearing b: %s", got)
	}
}

func TestIndexedBatch(t *testing.T) {
	e := openMem(t)
	commit(t, e, func(b *Batch) { b.PutVersion(keys.Key("k"), ts(1), nil, []byte("1")) })
	b := e.NewIndexedBatch()
	defer b.Close()
	it, err := b.NewIter(IterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer it.Close()
	b.PutVersion(keys.Key("k"), ts(2), nil, []byte("2"))
	it.Refresh()
	if !it.SeekPrefixGE(keys.Key("k"), ts(3)) {
		t.Fatal("nothing")
	}
	if v, _ := it.Value(); string(v) != "2" {
		t.Fatalf("after Refresh: %s", v)
	}
	if got := dump(t, e, IterOptions{}); got != "k@1.0=1 " {
		t.Fatalf("the engine must not see the batch: %s", got)
	}
}

func TestSnapshotAndRepr(t *testing.T) {
	a, b := openMem(t), openMem(t)
	batch := a.NewBatch()
	batch.Put(keys.Key("x"), []byte("1"))
	batch.PutVersion(keys.Key("y"), ts(4), nil, []byte("2"))
	repr := append([]byte(nil), batch.Repr()...)
	batch.Close()
	snap := b.NewSnapshot()
	defer snap.Close()
	commit(t, b, func(w *Batch) {
		w.Put(keys.Key("before"), nil)
		if err := w.ApplyRepr(repr); err != nil {
			t.Fatal(err)
		}
		w.Delete(keys.Key("before"))
		empty := b.NewBatch()
		defer empty.Close()
		if err := w.ApplyRepr(empty.Repr()); err != nil {
			t.Fatal(err)
		}
	})
	if got := dump(t, b, IterOptions{}); got != "x@0.0=1 y@4.0=2 " {
		t.Fatal(got)
	}
	if got := dump(t, snap, IterOptions{}); got != "" {
		t.Fatalf("a snapshot does not move: %s", got)
	}
	if v, err := b.Get(keys.Key("x")); err != nil || string(v) != "1" {
		t.Fatal(v, err)
	}
	if v, err := b.Get(keys.Key("none")); err != nil || v != nil {
		t.Fatal(v, err)
	}
	w := b.NewBatch()
	defer w.Close()
	if err := w.ApplyRepr([]byte("short")); err == nil {
		t.Fatal("malformed bytes must be refused")
	}
}

func TestTimeBound(t *testing.T) {
	e := openMem(t)
	for i := int64(1); i <= 4; i++ {
		commit(t, e, func(b *Batch) { b.PutVersion(keys.Key("k"), ts(i*100), nil, []byte("v")) })
		if err := e.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	// Blocks may be shared by then; what is within the bounds must be seen.
	got := dump(t, e, IterOptions{MinTime: ts(300)})
	if !bytes.Contains([]byte(got), []byte("@400.0")) || !bytes.Contains([]byte(got), []byte("@300.0")) {
		t.Fatal(got)
	}
}

func TestLockAndIdent(t *testing.T) {
	fs := vfs.NewMem()
	e := open(t, fs, Options{})
	var locked *LockedError
	if _, err := Open(testHost(t, fs), "store", Options{}); !errors.As(err, &locked) {
		t.Fatalf("second open: %v", err)
	}
	if _, err := e.Ident(); err != ErrNoIdent {
		t.Fatal(err)
	}
	id := Ident{Cluster: [16]byte{1, 2}, Node: 3, Store: 4}
	if err := e.SetIdent(id); err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	e = open(t, fs, Options{MustExist: true})
	defer e.Close()
	if got, err := e.Ident(); err != nil || got != id {
		t.Fatal(got, err)
	}
	var other *IdentError
	if err := e.SetIdent(Ident{Cluster: [16]byte{9}}); !errors.As(err, &other) {
		t.Fatal(err)
	}
	if err := e.CheckIdent(Ident{Node: 5}); !errors.As(err, &other) {
		t.Fatal(err)
	}
	if err := e.CheckIdent(Ident{Cluster: id.Cluster}); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(testHost(t, fs), "nothing here", Options{MustExist: true}); err == nil {
		t.Fatal("MustExist must refuse")
	}
}

// TestCrash: after a crash at any moment, every acknowledged batch is there and no batch is half there (I1, I2).
func TestCrash(t *testing.T) {
	for seed := uint64(0); seed < 20; seed++ {
		fs := vfs.NewCrashableMem()
		e := open(t, fs, Options{MemTableBytes: 256 << 10})
		rng := rand.New(rand.NewPCG(seed, 1))
		acked := 0
		n := rng.IntN(40) + 1
		for i := 1; i <= n; i++ {
			b := e.NewBatch()
			b.Put(keys.Key(fmt.Sprintf("a%04d", i)), make([]byte, rng.IntN(20000)))
			b.Put(keys.Key(fmt.Sprintf("b%04d", i)), nil)
			sync := rng.IntN(3) == 0
			if err := b.Commit(sync); err != nil {
				t.Fatal(err)
			}
			if sync {
				acked = i
			}
			b.Close()
		}
		crashed := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(101), RNG: rng})
		e.Close()
		e = open(t, crashed, Options{MemTableBytes: 256 << 10})
		for i := 1; i <= n; i++ {
			a, err1 := e.Get(keys.Key(fmt.Sprintf("a%04d", i)))
			b, err2 := e.Get(keys.Key(fmt.Sprintf("b%04d", i)))
			if err1 != nil || err2 != nil || (a == nil) != (b == nil) || (i <= acked && a == nil) {
				t.Fatalf("seed %d: batch %d of %d, acknowledged up to %d: %v %v %v %v", seed, i, n, acked, a == nil, b == nil, err1, err2)
			}
		}
		e.Close()
	}
}

// TestDiskFull: once the log cannot be written, no commit is acknowledged, whichever way durability was asked for first, and
// the node hears of it once (engine.EN1).
func TestDiskFull(t *testing.T) {
	alone := way{"Sync of what was there before", func(e *Engine, _ *Batch) error { return e.Sync() }}
	for _, how := range append(ways(), alone) {
		t.Run(how.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var full errorfs.Toggle
				full.Injector = errorfs.InjectorFunc(func(op errorfs.Op) error {
					if op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
						return syscall.ENOSPC
					}
					return nil
				})
				var mu sync.Mutex
				var fatal []error
				disk := vfs.NewMem()
				e := open(t, errorfs.Wrap(disk, &full), Options{OnFatal: func(err error) {
					mu.Lock()
					fatal = append(fatal, err)
					mu.Unlock()
				}})
				commit(t, e, func(b *Batch) { b.Put(keys.Key("a"), nil) })
				full.On()
				for i := range 3 {
					b := e.NewBatch()
					b.Put(keys.Key("b"), nil)
					err := how.commit(e, b)
					var f *FatalError
					if !errors.As(err, &f) || !f.DiskFull {
						t.Fatalf("commit %d on a full disk: %v", i, err)
					}
					b.Close()
				}
				for _, w := range ways() {
					b := e.NewBatch()
					b.Put(keys.Key("b"), nil)
					if err := w.commit(e, b); err == nil {
						t.Errorf("%s succeeds on a full disk", w.name)
					}
					b.Close()
				}
				mu.Lock()
				defer mu.Unlock()
				if len(fatal) != 1 || e.Failure() == nil {
					t.Fatalf("OnFatal was called %d times: %v", len(fatal), fatal)
				}
				if s := fatal[0].Error(); !strings.Contains(s, `store "store": the disk is full`) || !strings.Contains(s, "free some space") {
					t.Error(s)
				}
				full.Off()
				_ = e.Close()
				e = open(t, disk, Options{})
				defer e.Close()
				if v, err := e.Get(keys.Key("a")); v == nil || err != nil {
					t.Errorf("after a restart with space: %v, %v", v, err)
				}
			})
		})
	}
}

// TestLogHasFailed: Pebble panics when a block of its log has been filled since it could not write one. That is a failure like any
// other (engine.EN1), and the store can still be given up, though not in order.
func TestLogHasFailed(t *testing.T) {
	for range 200 {
		if logHasFailed(t) || t.Failed() {
			return
		}
	}
	t.Error("the engine below never panicked")
}

// logHasFailed reports whether the engine below panicked. It may as well notice in time that its log has failed, and return the error.
func logHasFailed(t *testing.T) bool {
	fs := vfs.NewMem()
	var full errorfs.Toggle
	full.Injector = errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
			return syscall.ENOSPC
		}
		return nil
	})
	e := open(t, errorfs.Wrap(fs, &full), Options{ReserveBytes: -1})
	commit(t, e, func(b *Batch) { b.Put(keys.Key("a"), nil) })
	full.On()
	b := e.NewBatch()
	defer b.Close()
	b.Put(keys.Key("b"), nil)
	if err := b.CommitNoSyncWait(); err != nil {
		t.Fatal(err)
	}
	if err := b.b.SyncWait(); err == nil { // the engine does not hear of it
		t.Fatal("the log was written")
	}
	long := e.NewBatch()
	defer long.Close()
	long.Put(keys.Key("long"), make([]byte, 40<<10))
	err := long.Commit(false)
	if err == nil {
		err = e.Sync()
	}
	var f *FatalError
	stuck := e.stuck.Load()
	if !errors.As(err, &f) || !f.DiskFull {
		t.Errorf("%v, after a panic: %v", err, stuck)
	}
	if err := e.Close(); err != nil && (stuck || !errors.Is(err, syscall.ENOSPC)) {
		t.Error(err)
	}
	return stuck
}

// TestReserve: the store notices that the disk runs full before it is (engine.EN2), and that there is space again.
func TestReserve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := &usageFS{FS: vfs.NewMem(), avail: 1_000_000}
		e := open(t, fs, Options{ReserveBytes: 100_000})
		for _, c := range []struct {
			avail uint64
			want  bool
		}{{1_000_000, false}, {99_999, true}, {110_000, false}} {
			fs.set(c.avail)
			time.Sleep(2 * diskCheckEvery)
			if e.DiskFull() != c.want {
				t.Errorf("%d bytes free: %v", c.avail, e.DiskFull())
			}
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestReserveInBetween: a store that is written to fast looks at the disk in between, as often as it has written a part of the reserve,
// by whichever way.
func TestReserveInBetween(t *testing.T) {
	for _, flush := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			fs := &usageFS{FS: vfs.NewMem(), avail: 100 << 20}
			e := open(t, fs, Options{ReserveBytes: 1 << 20})
			defer e.Close()
			time.Sleep(diskCheckEvery + time.Millisecond)
			if flush {
				commit(t, e, func(b *Batch) { b.Put(keys.Key("k"), bytes.Repeat([]byte("0123"), 10_000)) })
			}
			synctest.Wait()
			fs.set(1<<20 - 1)
			if flush {
				for range 8 { // tables of what was in the log before
					commit(t, e, func(b *Batch) { b.Put(keys.Key("k"), bytes.Repeat([]byte("0123"), 3000)) })
					if err := e.Flush(); err != nil {
						t.Fatal(err)
					}
				}
			} else {
				commit(t, e, func(b *Batch) { b.Put(keys.Key("k"), make([]byte, 1<<20/looksPerReserve)) })
			}
			synctest.Wait()
			if !e.DiskFull() || e.DiskScarce() {
				t.Fatalf("full %v, scarce %v", e.DiskFull(), e.DiskScarce())
			}
			fs.set(1 << 17)
			commit(t, e, func(b *Batch) { b.Put(keys.Key("k"), make([]byte, 1<<20/looksPerReserve)) })
			synctest.Wait()
			if !e.DiskScarce() {
				t.Fatal("not scarce")
			}
			var none *NoSpaceError
			if err := e.CheckSpace(); !errors.As(err, &none) {
				t.Fatal(err)
			}
		})
	}
}

type usageFS struct {
	vfs.FS
	mu    sync.Mutex
	avail uint64
}

func (f *usageFS) set(n uint64) {
	f.mu.Lock()
	f.avail = n
	f.mu.Unlock()
}

func (f *usageFS) GetDiskUsage(string) (vfs.DiskUsage, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return vfs.DiskUsage{AvailBytes: f.avail}, nil
}

// TestVirtualTime: a store works in a bubble, takes no virtual time for it, and its goroutines end with Close
// (else the bubble would never end).
func TestVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		cache := NewCache(1 << 20)
		defer cache.Close()
		var stores []*Engine
		for range 3 {
			stores = append(stores, open(t, vfs.NewCrashableMem(), Options{Cache: cache, MemTableBytes: 256 << 10}))
		}
		var wg sync.WaitGroup
		for _, e := range stores {
			wg.Go(func() {
				for i := range 300 {
					commit(t, e, func(b *Batch) {
						b.PutVersion(keys.Key(fmt.Sprintf("%04d", i)), ts(int64(i)+1), nil, make([]byte, 5000))
					})
				}
				if err := e.Flush(); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if d := time.Since(start); d != 0 {
			t.Errorf("writing took %s of virtual time", d)
		}
		time.Sleep(time.Hour)
		for _, e := range stores {
			if err := e.Compact(context.Background(), keys.Span{Start: keys.Key("0"), End: keys.Key("9")}); err != nil {
				t.Error(err)
			}
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestCheckpoint(t *testing.T) {
	fs := vfs.NewMem()
	e := open(t, fs, Options{})
	defer e.Close()
	commit(t, e, func(b *Batch) { b.Put(keys.Key("a"), []byte("1")) })
	if err := e.Checkpoint("copy"); err != nil {
		t.Fatal(err)
	}
	commit(t, e, func(b *Batch) { b.Put(keys.Key("a"), []byte("2")) })
	c, err := Open(testHost(t, fs), "copy", Options{MustExist: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if v, err := c.Get(keys.Key("a")); err != nil || string(v) != "1" {
		t.Fatal(v, err)
	}
}

func TestMetrics(t *testing.T) {
	e := openMem(t)
	commit(t, e, func(b *Batch) { b.Put(keys.Key("a"), make([]byte, 1000)) })
	if err := e.Flush(); err != nil {
		t.Fatal(err)
	}
	if m := e.Metrics(); m.Flushes == 0 || m.TableCount == 0 || m.DiskBytes == 0 {
		t.Fatalf("%+v", m)
	}
}

func FuzzSplitKey(f *testing.F) {
	f.Add(appendVersion(nil, keys.Key("k"), ts(1, 2)))
	f.Add(appendLock(nil, keys.Key("k"), 3, [16]byte{1}))
	f.Fuzz(func(t *testing.T, raw []byte) {
		k, version, ok := SplitKey(raw)
		if !ok {
			return
		}
		again := append(append([]byte(nil), k...), 0)
		if len(version) > 0 {
			again = append(append(again, version...), byte(len(version)+1))
		}
		if !bytes.Equal(again, raw) {
			t.Fatalf("%x splits into %x and %x", raw, k, version)
		}
		_, _ = DecodeTimestamp(version)
		_, _, _ = DecodeLock(version)
	})
}

func BenchmarkPointRead(b *testing.B) {
	e := openMem(b)
	commit(b, e, func(w *Batch) {
		for i := range 1000 {
			w.PutVersion(keys.Key(fmt.Sprintf("key%06d", i)), ts(5), nil, make([]byte, 100))
		}
	})
	k := keys.Key("key000500")
	b.ReportAllocs()
	b.ResetTimer()
	for i := 0; i < b.N; i++ {
		it, err := e.NewIter(IterOptions{})
		if err != nil {
			b.Fatal(err)
		}
		if !it.SeekPrefixGE(k, ts(9)) {
			b.Fatal("missing")
		}
		it.Close()
	}
}

func TestClosed(t *testing.T) {
	e := open(t, vfs.NewMem(), Options{CacheBytes: 1 << 20, MemTableBytes: 1 << 20})
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if r := recover(); !Closed(r) || Closed("pebble: closed") || Closed(nil) {
			t.Errorf("%v", r)
		}
	}()
	_, _ = e.NewIter(IterOptions{})
}
