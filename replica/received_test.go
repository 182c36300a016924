package replica

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.etcd.io/raft/v3/raftpb"

	"meridian/clock"
	"meridian/host/machine"
	"meridian/keys"
	"meridian/kv"
	"meridian/storage/engine"
	"meridian/wire"
)

// receivingStore is as much of a store as one raft snapshot needs.
type receivingStore struct {
	splitStore
	fatal    error
	applied  *kv.RangeDescriptor
	absorbed func() ([]*Replica, bool)
}

func (s *receivingStore) Absorbed(*kv.RangeDescriptor) ([]*Replica, bool) {
	if s.absorbed != nil {
		return s.absorbed()
	}
	return nil, true
}
func (s *receivingStore) SnapshotApplied(_ *Replica, d *kv.RangeDescriptor) { s.applied = d }
func (s *receivingStore) Fatal(err error)                                   { s.fatal = err }
func (s *receivingStore) AwaitSync(a *Append)                               { _ = a.SyncWait() }
func (s *receivingStore) SendRaft(Message)                                  {}

// TestSnapshotIsWhatItSays: a raft snapshot has the data of the index that raft was told of, and was received for that
// one; otherwise the node stops, because the log would go on from elsewhere than the data.
func TestSnapshotIsWhatItSays(t *testing.T) {
	for _, c := range []struct {
		name        string
		index, data uint64
		received    uint64 // the index of what is in the batch, if not index
		good        bool
	}{
		{name: "good", index: 20, data: 20, good: true},
		{name: "older data", index: 20, data: 19},
		{name: "newer data", index: 20, data: 21},
		{name: "another one's data", index: 20, data: 20, received: 30},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := machine.New(context.Background(), machine.Options{FS: vfs.NewMem(), Log: slog.New(slog.DiscardHandler)})
			defer h.Group.Stop()
			e, err := engine.Open(h, "store", engine.Options{ReserveBytes: -1})
			must(t, err)
			defer e.Close()
			store := &receivingStore{}
			o := &Options{Host: h, Clock: clock.New(h.Clock, clock.DefaultMaxOffset), Engine: e, Store: store, Metrics: &Metrics{}, Node: 2, StoreID: 2}
			d := kv.RangeDescriptor{ID: 7, Start: keys.TablePrefix, End: keys.Max, Generation: 1, NextReplica: 3,
				Replicas: []kv.ReplicaDescriptor{{Node: 1, Store: 1, Replica: 1, Type: kv.Voter}, {Node: 2, Store: 2, Replica: 2, Type: kv.Voter}}}
			r, err := New(o, 7, 2)
			must(t, err)
			message := func(index uint64) *Message {
				return &Message{Range: d.ID, From: d.Replicas[0], To: d.Replicas[1], Raft: &raftpb.Message{Type: raftpb.MsgSnap.Enum(),
					From: new(uint64(1)), To: new(uint64(2)), Term: new(uint64(6)), Snapshot: &raftpb.Snapshot{
						Metadata: &raftpb.SnapshotMetadata{Index: new(index), Term: new(uint64(6)), ConfState: confState(&d)}}}}
			}
			in, err := NewIncomingSnapshot(e, wire.Append(nil, &snapshotHead{d, *message(c.index)}, (*snapshotHead).fields))
			must(t, err)
			var chunk []byte
			for _, x := range []struct {
				k keys.Key
				v []byte
			}{
				{keys.AppliedStateKey(d.ID), (&appliedState{position: position{c.data, 6}}).append(nil)},
				{keys.DescriptorCopyKey(d.ID), d.Append(nil)},
			} {
				b := e.NewBatch()
				b.Put(x.k, x.v)
				must(t, b.Commit(false))
				it, err := e.NewIter(engine.IterOptions{Lower: x.k, Upper: x.k.Next()})
				must(t, err)
				if !it.First() {
					t.Fatal("not there")
				}
				raw := it.RawKey()
				chunk = wire.Element(wire.Element(chunk, chunkKey, raw), chunkValue, x.v)
				must(t, it.Close())
			}
			must(t, in.Add(chunk))
			if c.received != 0 {
				r.hold()
				r.incoming = in
				r.receive(message(c.received))
				r.process(false)
				r.release()
			} else {
				must(t, r.ApplySnapshot(in))
			}
			if c.good != (store.fatal == nil) || store.fatal != nil && !strings.Contains(store.fatal.Error(), "snapshot") {
				t.Errorf("the node stops: %v", store.fatal)
			}
			if c.good != (store.applied != nil) {
				t.Errorf("applied: %v", store.applied)
			}
			if v, err := e.Get(keys.ReplicaIDKey(d.ID)); err != nil || c.received != 0 && v != nil {
				t.Errorf("the engine has it: %x, %v", v, err)
			}
		})
	}
}
