package replica

import (
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.etcd.io/raft/v3/raftpb"

	"meridian/clock"
	"meridian/host/machine"
	"meridian/keys"
	"meridian/kv"
	"meridian/storage/engine"
)

// TestSnapshotInBoundedMemory: a raft snapshot replaces what the receiver had, with what is older outside of the range left
// alone, and neither the sender nor the receiver has the range in memory.
func TestSnapshotInBoundedMemory(t *testing.T) {
	const valueBytes = 32 << 10
	for _, c := range []struct{ values, heap int }{{10, 0}, {40, 0}, {1500, 12 << 20}} {
		t.Run(fmt.Sprint(c.values), func(t *testing.T) {
			h := machine.New(context.Background(), machine.Options{FS: vfs.Default, Log: slog.New(slog.DiscardHandler)})
			defer h.Group.Stop()
			dir := t.TempDir()
			start := func(name string) *engine.Engine {
				e, err := engine.Open(h, filepath.Join(dir, name), engine.Options{ReserveBytes: -1, CacheBytes: 1 << 20, MemTableBytes: 1 << 20})
				must(t, err)
				t.Cleanup(func() { must(t, e.Close()) })
				return e
			}
			from, to := start("from"), start("to")
			d := kv.RangeDescriptor{ID: 7, Start: keys.TableKey(uint32(100)), End: keys.TableKey(uint32(200)), Generation: 1, NextReplica: 3,
				Replicas: []kv.ReplicaDescriptor{{Node: 1, Store: 1, Replica: 1, Type: kv.Voter}, {Node: 2, Store: 2, Replica: 2, Type: kv.Voter}}}
			key := func(table uint32, i int) keys.Key {
				return binary.BigEndian.AppendUint32(keys.TableKey(table), uint32(i))
			}
			const index = 20
			rng := rand.New(rand.NewPCG(1, 1))
			value := make([]byte, valueBytes)
			for i := range c.values {
				for j := 0; j < len(value); j += 8 {
					binary.LittleEndian.PutUint64(value[j:], rng.Uint64())
				}
				b := from.NewBatch()
				b.PutVersion(key(100, i), clock.Timestamp{Wall: 5}, nil, value)
				if i == 0 {
					b.Put(keys.AppliedStateKey(d.ID), (&appliedState{position: position{index, 6}}).append(nil))
					b.Put(keys.DescriptorCopyKey(d.ID), d.Append(nil))
					b.PutLock(key(100, 3), 1, [16]byte{1}, []byte("lock"))
					b.Put(keys.TxnKey(key(100, 4), [16]byte{2}), []byte("record"))
				}
				must(t, b.Commit(false))
				must(t, b.Close())
			}
			// The receiver's state: older and other versions, a lock, and neighbours.
			b := to.NewBatch()
			for _, table := range []uint32{99, 100, 150, 200} {
				for i := range 3 {
					b.PutVersion(key(table, i), clock.Timestamp{Wall: 4}, nil, []byte("old"))
					b.PutVersion(key(table, i), clock.Timestamp{Wall: 5}, nil, []byte("old"))
					b.PutLock(key(table, i), 1, [16]byte{3}, []byte("old"))
					b.Put(keys.TxnKey(key(table, i), [16]byte{4}), []byte("old"))
				}
			}
			must(t, b.Commit(false))
			must(t, b.Close())
			outside := []keys.Span{}
			for _, s := range [][2]uint32{{99, 100}, {200, 201}} {
				outside = append(outside, keys.RangeDataSpans(keys.TableKey(s[0]), keys.TableKey(s[1]))...)
			}
			untouched := digest(t, to, outside)

			store := &receivingStore{}
			o := &Options{Host: h, Clock: clock.New(h.Clock, clock.DefaultMaxOffset), Engine: to, Store: store, Metrics: &Metrics{}, Node: 2, StoreID: 2}
			r, err := New(o, d.ID, 2)
			must(t, err)
			out := &OutgoingSnapshot{desc: &d, at: from.NewSnapshot(), Message: Message{Range: d.ID, From: d.Replicas[0], To: d.Replicas[1],
				Raft: &raftpb.Message{Type: raftpb.MsgSnap.Enum(), From: new(uint64(1)), To: new(uint64(2)), Term: new(uint64(6)),
					Snapshot: &raftpb.Snapshot{Metadata: &raftpb.SnapshotMetadata{Index: new(uint64(index)), Term: new(uint64(6)), ConfState: confState(&d)}}}}}
			defer out.Close()
			base := heap()
			most, frames := base, 0
			var in *IncomingSnapshot
			must(t, out.Write(func(frame []byte) error {
				if frames++; frames%32 == 0 {
					most = max(most, heap())
				}
				if in == nil {
					in, err = NewIncomingSnapshot(to, frame)
					return err
				}
				return in.Add(frame)
			}))
			most = max(most, heap())
			must(t, r.ApplySnapshot(in))
			if most = max(most, heap()) - base; c.heap > 0 && most > uint64(c.heap) {
				t.Errorf("%d bytes of heap for a raft snapshot of %d", most, c.values*valueBytes)
			}
			if store.fatal != nil || store.applied == nil {
				t.Errorf("applied: %v, fatal: %v", store.applied, store.fatal)
			}
			spans := keys.RangeSpans(d.ID, d.Start, d.End)
			if got, want := digest(t, to, spans), digest(t, from, spans); got != want {
				t.Errorf("the receiver has %v, the sender %v", got, want)
			}
			if got := digest(t, to, outside); got != untouched {
				t.Errorf("outside of the range there is %v, there was %v", got, untouched)
			}
			if r.raftLog.last.index != index || r.AppliedIndex() != index {
				t.Errorf("the log ends at %d, applied is %d", r.raftLog.last.index, r.AppliedIndex())
			}
		})
	}
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// contents is what some spans have: how many entries, how long they are, and a sum of them.
type contents struct {
	entries, bytes int
	sum            uint64
}

func digest(t *testing.T, e *engine.Engine, spans []keys.Span) (c contents) {
	for _, s := range spans {
		it, err := e.NewIter(engine.IterOptions{Lower: s.Start, Upper: s.Stop()})
		must(t, err)
		for ok := it.First(); ok; ok = it.Next() {
			v, err := it.Value()
			must(t, err)
			c.entries++
			for _, b := range [][]byte{it.RawKey(), v} {
				c.bytes += len(b)
				for _, x := range b {
					c.sum = c.sum*31 + uint64(x)
				}
			}
		}
		must(t, it.Close())
	}
	return c
}
