package replica

import (
	"context"
	"log/slog"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"meridian/clock"
	"meridian/host/machine"
	"meridian/keys"
	"meridian/kv"
	"meridian/storage/engine"
)

// splitStore is as much of a store as one split needs.
type splitStore struct {
	Store
	rightSide func() *Replica
	right     *Replica // that came to be
}

func (s *splitStore) RightSide(*Replica, *kv.RangeDescriptor) (*Replica, error) {
	return s.rightSide(), nil
}
func (s *splitStore) SplitApplied(_, right *Replica, _, _ *kv.RangeDescriptor) { s.right = right }
func (s *splitStore) Destroyed(*Replica)                                       {}
func (s *splitStore) Awake(*Replica)                                           {}

// TestRightSideIsRemoved: the right side's replica is removed, since its range has moved on, after the split that would make
// it real was begun. It does not come back, and leaves no data.
func TestRightSideIsRemoved(t *testing.T) {
	h := machine.New(context.Background(), machine.Options{FS: vfs.NewMem(), Log: slog.New(slog.DiscardHandler)})
	defer h.Group.Stop()
	e, err := engine.Open(h, "store", engine.Options{ReserveBytes: -1})
	must(t, err)
	defer e.Close()
	store := &splitStore{}
	o := &Options{Host: h, Clock: clock.New(h.Clock, clock.DefaultMaxOffset), Engine: e, Store: store, Metrics: &Metrics{}, Node: 1, StoreID: 1}
	whole := kv.RangeDescriptor{ID: 2, Start: keys.TablePrefix, End: keys.Max, Generation: 1, NextReplica: 2,
		Replicas: []kv.ReplicaDescriptor{{Node: 1, Store: 1, Replica: 1, Type: kv.Voter}}}
	b := e.NewBatch()
	Bootstrap(b.Put, &whole, Stats{})
	must(t, b.Commit(true))
	left, err := New(o, 2, 1)
	must(t, err)
	right, err := New(o, 3, 1)
	must(t, err)
	store.rightSide = func() *Replica {
		must(t, right.Destroy(5))
		return right
	}
	ld, rd := *whole.Clone(), *whole.Clone()
	ld.End, rd.ID, rd.Start = keys.TableKey(uint32(100)), 3, keys.TableKey(uint32(100))
	ld.Generation, rd.Generation = 2, 2
	data := append(keys.TableKey(uint32(100)), 'k')
	b = e.NewBatch()
	b.PutVersion(data, clock.Timestamp{Wall: 1}, nil, []byte("v"))
	first := appliedState{position: position{initialIndex, initialTerm}}
	b.Put(keys.AppliedStateKey(rd.ID), first.append(nil))
	b.Put(keys.DescriptorCopyKey(rd.ID), rd.Append(nil))
	left.hold()
	after, err := left.applySplit(b, &kv.SplitTrigger{Left: ld, Right: rd})
	must(t, err)
	must(t, b.Commit(true))
	must(t, after())
	left.release()
	if store.right != nil {
		t.Error("the right side came to be")
	}
	if v, err := e.Get(keys.DescriptorCopyKey(rd.ID)); err != nil || v != nil {
		t.Errorf("the engine has a descriptor: %x, %v", v, err)
	}
	if tomb, err := Tombstone(e, 3); err != nil || tomb != 5 {
		t.Errorf("the tombstone is %d, %v", tomb, err)
	}
	it, err := e.NewIter(engine.IterOptions{Lower: rd.Start, Upper: rd.End})
	must(t, err)
	if it.First() {
		t.Error("there is data")
	}
	must(t, it.Close())
}
