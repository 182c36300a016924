package replica

import (
	"context"
	"errors"
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

// TestLeaderContradicts: a leader whose log has other entries than those committed here is that of stores that have lost what they
// acknowledged (replica.R6). Without the rule raft would answer that it has everything, and the leader count that as acknowledged.
func TestLeaderContradicts(t *testing.T) {
	// Committed here: entries 11 to 15 of term 6; 16 and 17, also of term 6, are in the log only.
	for _, c := range []struct {
		name           string
		term           uint64 // the message's
		index, logTerm uint64
		entries        []uint64 // their terms
		bad            uint64   // the index of the entry that differs
	}{
		{name: "the next entry", term: 6, index: 17, logTerm: 6, entries: []uint64{6}},
		{name: "entries again", term: 6, index: 11, logTerm: 6, entries: []uint64{6, 6, 6}},
		{name: "entries that begin before the log", term: 6, index: 8, logTerm: 5, entries: []uint64{5, initialTerm, 6}},
		{name: "a new leader replaces what is not committed", term: 7, index: 15, logTerm: 6, entries: []uint64{7}},
		{name: "a new leader's log has less", term: 7, index: 12, logTerm: 6, entries: []uint64{7}, bad: 13},
		{name: "it has as much, and others", term: 7, index: 11, logTerm: 6, entries: []uint64{6, 6, 7, 7}, bad: 14},
		{name: "its entry before differs", term: 7, index: 14, logTerm: 5, bad: 14},
		{name: "a leader of the past", term: 5, index: 12, logTerm: 5, entries: []uint64{5}},
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
			b := e.NewBatch()
			Bootstrap(b.Put, &d, Stats{})
			must(t, b.Commit(false))
			r, err := New(o, 7, 2)
			must(t, err)
			receive := func(term, index, logTerm uint64, entries []uint64, commit uint64) {
				m := &raftpb.Message{Type: raftpb.MsgApp.Enum(), From: new(uint64(1)), To: new(uint64(2)), Term: new(term), Index: new(index),
					LogTerm: new(logTerm), Commit: new(commit)}
				for i, tm := range entries {
					m.Entries = append(m.Entries, newEntry(raftpb.EntryNormal, tm, index+1+uint64(i), nil))
				}
				r.Receive(&Message{Range: d.ID, From: d.Replicas[0], To: d.Replicas[1], Raft: m}, &Frame{})
			}
			receive(6, initialIndex, initialTerm, []uint64{6, 6, 6, 6, 6, 6, 6}, 15)
			if st := r.raft.BasicStatus(); st.GetCommit() != 15 || r.raftLog.last.index != 17 || store.fatal != nil {
				t.Fatalf("begins with commit %d, last %d, %v", st.GetCommit(), r.raftLog.last.index, store.fatal)
			}
			receive(c.term, c.index, c.logTerm, c.entries, c.index)
			var bad *ContradictionError
			if errors.As(store.fatal, &bad) != (c.bad != 0) || bad != nil && (bad.Index != c.bad || bad.Leader != 1) {
				t.Errorf("the node stops: %v", store.fatal)
			}
		})
	}
}
