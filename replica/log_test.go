package replica

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"pgregory.net/rapid"

	"meridian/host/machine"
	"meridian/storage/engine"
)

// TestLogModel checks the log against raft's own in-memory storage: appends that replace a tail, truncation, reads
// from the cache and from the engine, reopening.
func TestLogModel(t *testing.T) {
	h := machine.New(context.Background(), machine.Options{FS: vfs.NewMem(), Log: slog.New(slog.DiscardHandler)})
	defer h.Group.Stop()
	e, err := engine.Open(h, "store", engine.Options{ReserveBytes: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	id := uint64(0)
	rapid.Check(t, func(t *rapid.T) {
		id++
		open := func() *raftLog {
			return &raftLog{rangeID: 1000, engine: e, confState: func() *raftpb.ConfState { return &raftpb.ConfState{} }}
		}
		l := open()
		b := e.NewBatch()
		l.reset(b, position{initialIndex, initialTerm})
		must(t, b.Commit(false))
		model := raft.NewMemoryStorage()
		must(t, model.ApplySnapshot(&raftpb.Snapshot{Metadata: &raftpb.SnapshotMetadata{Index: new(uint64(initialIndex)),
			Term: new(uint64(initialTerm)), ConfState: &raftpb.ConfState{}}}))
		term := uint64(initialTerm)
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			first, _ := model.FirstIndex()
			last, _ := model.LastIndex()
			switch rapid.IntRange(0, 9).Draw(t, "what") {
			case 0, 1, 2, 3:
				at := rapid.Uint64Range(first, last+1).Draw(t, "at")
				if at <= last || rapid.IntRange(0, 5).Draw(t, "election") == 0 {
					term++
				}
				var ents []*raftpb.Entry
				for i := range rapid.Uint64Range(1, 5).Draw(t, "n") {
					ents = append(ents, newEntry(raftpb.EntryNormal, term, at+i, make([]byte, rapid.IntRange(0, 60_000).Draw(t, "size"))))
				}
				b := e.NewBatch()
				l.append(b, ents)
				must(t, b.Commit(false))
				must(t, model.Append(ents))
			case 4:
				if last >= first {
					at := rapid.Uint64Range(first, last).Draw(t, "truncate")
					tm, err := l.Term(at)
					must(t, err)
					b := e.NewBatch()
					l.truncate(b, position{at, tm})
					must(t, b.Commit(false))
					must(t, model.Compact(at))
				}
			case 5:
				l.trim(last)
			case 6:
				l = open()
				must(t, l.load())
			}
			first, _ = model.FirstIndex()
			last, _ = model.LastIndex()
			if f, _ := l.FirstIndex(); f != first {
				t.Fatalf("first %d, want %d", f, first)
			}
			if g, _ := l.LastIndex(); g != last {
				t.Fatalf("last %d, want %d", g, last)
			}
			for i := first - 1; i <= last; i++ {
				want, _ := model.Term(i)
				if got, err := l.Term(i); err != nil || got != want {
					t.Fatalf("term of %d: %d, %v; want %d", i, got, err, want)
				}
			}
			if last >= first {
				lo := rapid.Uint64Range(first, last).Draw(t, "lo")
				hi := rapid.Uint64Range(lo, last).Draw(t, "hi") + 1
				max := rapid.Uint64Range(0, 200_000).Draw(t, "max")
				got, err := l.Entries(lo, hi, max)
				must(t, err)
				size := uint64(0)
				for i, en := range got {
					if en.GetIndex() != lo+uint64(i) {
						t.Fatalf("entry %d has index %d", lo+uint64(i), en.GetIndex())
					}
					if size += uint64(entrySize(en)); size > max && i > 0 {
						t.Fatalf("%d bytes for at most %d", size, max)
					}
					if tm, _ := model.Term(en.GetIndex()); tm != en.GetTerm() {
						t.Fatalf("entry %d has term %d, want %d", en.GetIndex(), en.GetTerm(), tm)
					}
				}
				if len(got) == 0 || uint64(len(got)) < hi-lo && size+uint64(60_009) < max {
					t.Fatalf("%d entries of [%d, %d), %d bytes of %d", len(got), lo, hi, size, max)
				}
			}
			if _, err := l.Entries(first-1, first, 1); !errors.Is(err, raft.ErrCompacted) {
				t.Fatalf("below the log: %v", err)
			}
		}
	})
	_ = id
}

func must(t rapid.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestTrimLeavesEntriesThatAreInUse reads entries, as raft does to have them applied, and trims the cache, as applying does. Raft counts them
// afterwards: entries that were gone by then counted as uncommitted for good, until a leader accepted no proposals any more.
func TestTrimLeavesEntriesThatAreInUse(t *testing.T) {
	h := machine.New(context.Background(), machine.Options{FS: vfs.NewMem(), Log: slog.New(slog.DiscardHandler)})
	defer h.Group.Stop()
	e, err := engine.Open(h, "store", engine.Options{ReserveBytes: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	l := &raftLog{rangeID: 1000, engine: e, confState: func() *raftpb.ConfState { return &raftpb.ConfState{} }}
	b := e.NewBatch()
	l.reset(b, position{initialIndex, initialTerm})
	const n = 200
	var ents []*raftpb.Entry
	for i := range uint64(n) {
		ents = append(ents, newEntry(raftpb.EntryNormal, initialTerm, initialIndex+1+i, make([]byte, 2*logCacheBytes/n)))
	}
	l.append(b, ents)
	must(t, b.Commit(false))
	got, err := l.Entries(initialIndex+1, initialIndex+1+n, 1<<30)
	if err != nil || len(got) != n {
		t.Fatal(len(got), err)
	}
	l.trim(initialIndex + n)
	if l.cacheFirst == initialIndex+1 {
		t.Fatal("nothing was trimmed")
	}
	for i, e := range got {
		if e == nil || e.GetIndex() != initialIndex+1+uint64(i) {
			t.Fatalf("entry %d is %v", i, e)
		}
	}
}
