package replica

import (
	"context"
	"log/slog"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.etcd.io/raft/v3/raftpb"

	"meridian/clock"
	"meridian/host/machine"
	"meridian/keys"
	"meridian/kv"
	"meridian/storage/engine"
)

// frameStore keeps what replicas hand to the store.
type frameStore struct {
	splitStore
	awaited []*Append
	sent    []Message
}

func (s *frameStore) AwaitSync(a *Append) { s.awaited = append(s.awaited, a) }
func (s *frameStore) SendRaft(m Message)  { s.sent = append(s.sent, m) }

// TestFrame: messages that arrived together lead to one sync; each promise that waits for it is given when it is over,
// none before, and what was promised survives a crash then (replica.R2).
func TestFrame(t *testing.T) {
	for _, c := range []struct {
		name     string
		ranges   []kv.RangeID // of the messages
		refused  int          // which of them is for a log that is not there; zero: none
		promises int
		syncs    int64 // that appends asked for
	}{
		{name: "one", ranges: []kv.RangeID{5}, promises: 1, syncs: 1},
		{name: "two ranges", ranges: []kv.RangeID{5, 6}, promises: 2, syncs: 1},
		{name: "three ranges", ranges: []kv.RangeID{5, 6, 7}, promises: 3, syncs: 1},
		{name: "one range twice", ranges: []kv.RangeID{5, 6, 5}, promises: 3, syncs: 1},
		{name: "the last is refused", ranges: []kv.RangeID{5, 6, 5}, refused: 3, promises: 2, syncs: 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			fs := vfs.NewCrashableMem()
			h := machine.New(context.Background(), machine.Options{FS: fs, Log: slog.New(slog.DiscardHandler)})
			defer h.Group.Stop()
			e, err := engine.Open(h, "store", engine.Options{ReserveBytes: -1})
			must(t, err)
			defer e.Close()
			store := &frameStore{}
			o := &Options{Host: h, Clock: clock.New(h.Clock, clock.DefaultMaxOffset), Engine: e, Store: store, Metrics: &Metrics{}, Node: 2, StoreID: 2}
			replicas, ends := make(map[kv.RangeID]*Replica), make(map[kv.RangeID]uint64)
			f := &Frame{}
			leader, self := kv.ReplicaDescriptor{Node: 1, Store: 1, Replica: 1}, kv.ReplicaDescriptor{Node: 2, Store: 2, Replica: 2}
			for i, id := range c.ranges {
				if replicas[id] == nil {
					replicas[id], err = New(o, id, self.Replica)
					must(t, err)
				}
				prev, term := ends[id], uint64(6)
				switch {
				case i+1 == c.refused:
					prev = 40
				case prev == 0:
					term = 0
				}
				f.More = i+1 < len(c.ranges)
				replicas[id].Receive(&Message{Range: id, From: leader, To: self, Raft: &raftpb.Message{Type: raftpb.MsgApp.Enum(),
					From: new(uint64(1)), To: new(uint64(2)), Term: new(uint64(6)), Index: new(prev), LogTerm: new(term), Commit: new(uint64(0)),
					Entries: []*raftpb.Entry{newEntry(raftpb.EntryNormal, 6, prev+1, []byte("x"))}}}, f)
				if i+1 != c.refused {
					ends[id]++
				}
			}
			f.End(store)
			promised := func() (n int) {
				for _, m := range store.sent {
					if m.Raft.GetType() == raftpb.MsgAppResp && !m.Raft.GetReject() {
						n++
					}
				}
				return n
			}
			if len(store.awaited) != 1 || promised() != 0 || o.Metrics.LogSyncs.Load() != c.syncs {
				t.Fatalf("%d appends to wait for, %d promises before, %d syncs asked for", len(store.awaited), promised(), o.Metrics.LogSyncs.Load())
			}
			must(t, store.awaited[0].SyncWait())
			store.awaited[0].Synced()
			if n := promised(); n != c.promises {
				t.Errorf("%d promises, not %d", n, c.promises)
			}

			after := machine.New(context.Background(), machine.Options{FS: fs.CrashClone(vfs.CrashCloneCfg{}), Log: slog.New(slog.DiscardHandler)})
			defer after.Group.Stop()
			kept, err := engine.Open(after, "store", engine.Options{ReserveBytes: -1})
			must(t, err)
			defer kept.Close()
			for id, last := range ends {
				for i := range last {
					if v, err := kept.Get(keys.RaftLogKey(id, i+1)); err != nil || v == nil {
						t.Errorf("r%d: entry %d is lost, %v", id, i+1, err)
					}
				}
			}
		})
	}
}
