package replica

import (
	"fmt"
	"math"

	"meridian/keys"
	"meridian/kv"
	"meridian/storage/engine"
	"meridian/wire"
)

// NeverAgain is the tombstone of a range that was absorbed: no replica of it may come back.
const NeverAgain kv.ReplicaID = math.MaxInt64

// evaluateMerge checks that the right side's replica on this store has all of its last state, and gives its
// statistics. It is frozen, so neither changes any more.
//
// I4: the lease has to cover the right side's freeze. Every later lease begins after it, and so is above all reads that earlier
// leaseholders of either side could have served (leader.P3).
func (r *Replica) evaluateMerge(b *engine.Batch, t *kv.MergeTrigger) (delta Stats, err error) {
	cur := r.desc.Load()
	if !cur.Start.Equal(t.Left.Start) || !cur.End.Equal(t.Right.Start) || !t.Left.End.Equal(t.Right.End) ||
		t.Left.ID != r.rangeID || t.Left.ID == t.Right.ID || t.Left.Protocol != cur.Protocol || t.Right.Protocol != cur.Protocol || !t.Right.Start.Less(t.Right.End) || t.Left.Generation <= cur.Generation {
		return delta, fmt.Errorf("replica: r%d can't absorb %v and become %v", r.rangeID, &t.Right, &t.Left)
	}
	right := r.o.Store.Neighbour(t.Right.ID)
	if right == nil || right.Gone() || right.AppliedIndex() < t.Applied || !sameSpan(right.desc.Load(), &t.Right) {
		return delta, fmt.Errorf("replica: r%d can't absorb r%d, which is behind or gone here", r.rangeID, t.Right.ID)
	}
	if _, ok := r.CheckLease(t.Freeze); !ok {
		return delta, fmt.Errorf("replica: r%d can't absorb r%d: its lease may end before the freeze at %s",
			r.rangeID, t.Right.ID, t.Freeze)
	}
	if err := r.mayOpen(); err != nil {
		return delta, err
	}
	if err := right.mayOpen(); err != nil {
		return delta, err
	}
	for _, p := range t.Right.Replicas {
		if at, ok := cur.Replica(p.Node); ok && at.Witness != p.Witness {
			return delta, fmt.Errorf("replica: r%d can't absorb r%d, of which n%d has another kind of replica", r.rangeID, t.Right.ID, p.Node)
		}
	}
	if mine, theirs := r.Generation(), right.Generation(); mine.Floor.Less(theirs.Floor) {
		b.Put(keys.SealKey(r.rangeID), (&seal{generation: mine.Number, stage: mine.Stage, floor: theirs.Floor}).append(nil))
	}
	return right.Stats(), nil
}

// sameSpan reports whether two descriptors of a range are from before and after the same splits and merges.
func sameSpan(a, b *kv.RangeDescriptor) bool {
	return a != nil && a.Generation == b.Generation && a.Start.Equal(b.Start) && a.End.Equal(b.End)
}

// applyMerge takes over the right side's data in place, and removes its replica in the same engine batch. The
// replica has applied everything, because the merge's transaction waited for that (durably) on all stores before it
// committed; it was not removed since, because its range was frozen.
func (r *Replica) applyMerge(b *engine.Batch, t *kv.MergeTrigger) (after func() error, err error) {
	left := t.Left
	right := r.o.Store.Neighbour(t.Right.ID)
	if right == nil {
		return nil, fmt.Errorf("r%d absorbs r%d, which is not here", r.rangeID, t.Right.ID)
	}
	right.hold() // the order is from left to right, everywhere
	if self, ok := t.Right.Replica(r.o.Node); right.gone.Load() || !ok || self.Replica != right.replicaID ||
		right.applied.index < t.Applied || !sameSpan(right.desc.Load(), &t.Right) {
		defer right.release()
		return nil, fmt.Errorf("r%d absorbs r%d, which is at %d instead of %d here, as replica %d of %v", r.rangeID, t.Right.ID,
			right.applied.index, t.Applied, right.replicaID, right.desc.Load())
	}
	b.Put(keys.DescriptorCopyKey(r.rangeID), left.Append(nil))
	r.dropDeltas(b, &left)
	threshold := r.GCThreshold().Forward(right.GCThreshold())
	if r.GCThreshold().Less(threshold) {
		b.Put(keys.GCThresholdKey(r.rangeID), wire.Append(nil, &threshold, gcThreshold))
	}
	right.clearLocal(b, NeverAgain)
	return func() error {
		r.threshold.Store(&threshold)
		r.forgets() // what the right side remembered
		// In this order: the participant has to know the right side's reads before requests for its keys arrive.
		r.o.Store.MergeApplied(r, right, &left, t.Freeze)
		if err := r.loadSeal(); err != nil {
			return err
		}
		r.desc.Store(&left)
		r.o.Store.DescriptorChanged(r, &left)
		r.o.Metrics.Merges.Add(1)
		right.bury()
		right.release()
		return nil
	}, nil
}

// clearLocal adds the removal of the replica's range-ID local keys to the batch; its data stays.
func (r *Replica) clearLocal(b *engine.Batch, next kv.ReplicaID) {
	b.ClearSpan(keys.ReplicatedSpan(r.rangeID))
	b.ClearSpan(keys.UnreplicatedSpan(r.rangeID))
	b.Put(keys.TombstoneKey(r.rangeID), position{index: uint64(next)}.append(nil))
}

// bury ends a replica whose state was removed from the engine.
func (r *Replica) bury() {
	r.gone.Store(true)
	r.leader.Store(0)
	r.leaderAt.Store(0)
	for _, a := range r.appends {
		a.done = true
	}
	r.appends = nil
	for id, p := range r.proposals {
		delete(r.proposals, id)
		r.answer(p, &kv.AmbiguousError{Reason: "the replica was removed"})
	}
	r.o.Store.Destroyed(r)
}

// Subsumes reports whether a raft snapshot of a range replaces the replica of another one: the range has absorbed it.
//
// Generations grow along the history of each key, so a range that a later descriptor has in its middle is over.
func Subsumes(d, old *kv.RangeDescriptor) bool {
	return d.ID != old.ID && old.Generation < d.Generation && d.Contains(old.Start)
}
