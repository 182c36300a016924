package replica

import (
	"fmt"

	"go.etcd.io/raft/v3/raftpb"

	"meridian/commit/protocol"
	"meridian/keys"
	"meridian/kv"
	"meridian/storage/engine"
	"meridian/wire"
)

// EvaluateTrigger adds the replicated effects of a commit trigger to the batch of the EndTxn that carries it, and
// returns what they do to the range's statistics (to be added to Command.Delta). It is called by the leaseholder's
// evaluation, when the batch is otherwise complete: the transaction's intents in the range are resolved in it, and
// the request holds latches on all of the range, so that no other command is in flight.
//
// rd has to show the batch's changes: the batch itself if it is indexed, else the engine (the descriptors that the
// transaction wrote are then counted on the wrong side of a split, which is harmless).
func (r *Replica) EvaluateTrigger(rd engine.Reader, b *engine.Batch, t *kv.CommitTrigger) (delta Stats, err error) {
	switch {
	case t.Split != nil:
		return r.evaluateSplit(rd, b, t.Split)
	case t.Merge != nil:
		return r.evaluateMerge(b, t.Merge)
	case t.Replicas != nil:
		return delta, r.evaluateReplicas(rd, &t.Replicas.Desc)
	default:
		return delta, nil
	}
}

// evaluateReplicas refuses to take the leaseholder out of its range, or to let it begin to leave. The replica that prepared the change had
// the lease when it began, but the lease may have moved since. A range whose lease belongs to a live node without a replica could not be
// served by anybody: the lease would be good for as long as that node is.
func (r *Replica) evaluateReplicas(rd engine.Reader, d *kv.RangeDescriptor) error {
	cur := r.desc.Load()
	if err := r.mayOpen(); err != nil {
		return err
	}
	if err := r.settled(rd, d); err != nil {
		return err
	}
	switch {
	case isJoint(cur) && isJoint(d):
		return fmt.Errorf("replica: r%d is between two configurations already", r.rangeID)
	case !isJoint(cur) && !isJoint(d) && len(confChange(cur, d).Changes) > 1:
		// Raft would take it for a joint configuration, unlike the descriptor.
		return fmt.Errorf("replica: r%d can't change several replicas at once without a joint configuration", r.rangeID)
	}
	if err := mayHaveWitnesses(cur, d); err != nil {
		return err
	}
	for _, p := range d.Replicas {
		if p.Node == r.o.Node && p.Replica == r.replicaID && mayHold(p) {
			return nil
		}
	}
	return fmt.Errorf("replica: r%d is leased to n%d, which is not one of the voters to be", r.rangeID, r.o.Node)
}

// mayHaveWitnesses checks that no replica becomes a witness or stops to be one, for it has the data of the one kind and not of the other, and that witnesses
// vote, by a log.
func mayHaveWitnesses(old, new *kv.RangeDescriptor) error {
	for _, p := range new.Replicas {
		for _, o := range old.Replicas {
			if o.Replica == p.Replica && o.Witness != p.Witness {
				return fmt.Errorf("replica: replica %d of r%d can't change between a full one and a witness", p.Replica, new.ID)
			}
		}
		if p.Witness && (p.Type == kv.NonVoter || p.Type == kv.VoterDemoting || !protocol.Of(new.Protocol).Witnesses.Can()) {
			return fmt.Errorf("replica: r%d can't have a witness on n%d that is no voter by a log", new.ID, p.Node)
		}
	}
	return nil
}

// evaluateSplit gives the right side its first state: an empty log after initialIndex, the left side's lease and
// garbage collection threshold, and its share of the statistics.
func (r *Replica) evaluateSplit(rd engine.Reader, b *engine.Batch, t *kv.SplitTrigger) (delta Stats, err error) {
	cur := r.desc.Load()
	if !cur.Start.Equal(t.Left.Start) || !cur.End.Equal(t.Right.End) || !t.Left.End.Equal(t.Right.Start) ||
		t.Left.ID != r.rangeID || !t.Left.Start.Less(t.Left.End) || !t.Right.Start.Less(t.Right.End) ||
		t.Left.Generation <= cur.Generation {
		return delta, fmt.Errorf("replica: r%d can't be split into %v and %v", r.rangeID, &t.Left, &t.Right)
	}
	if err := r.mayOpen(); err != nil {
		return delta, err
	}
	right, err := computeStats(rd, t.Right.Start, t.Right.End)
	if err != nil {
		return delta, err
	}
	l := r.leaseNow.Load().Lease
	if l.Holder, err = counterpart(&t.Right, l.Holder.Node); err != nil {
		return delta, err
	}
	first := appliedState{position: position{initialIndex, initialTerm}, stats: right, closed: r.ClosedTimestamp()}
	id := t.Right.ID
	b.Put(keys.AppliedStateKey(id), first.append(nil))
	b.Put(keys.LeaseKey(id), l.Append(nil))
	if g := r.GCThreshold(); !g.IsZero() {
		b.Put(keys.GCThresholdKey(id), wire.Append(nil, &g, gcThreshold))
	}
	b.Put(keys.DescriptorCopyKey(id), t.Right.Append(nil))
	if s := r.sealNow.Load(); s != nil {
		b.Put(keys.SealKey(id), (&seal{floor: s.floor}).append(nil))
	}
	delta.Subtract(right)
	return delta, nil
}

func counterpart(d *kv.RangeDescriptor, n kv.NodeID) (kv.ReplicaDescriptor, error) {
	if r, ok := d.Replica(n); ok {
		return r, nil
	}
	return kv.ReplicaDescriptor{}, fmt.Errorf("replica: r%d has no replica on node %d", d.ID, n)
}

// trigger adds to the batch what a trigger does on this replica alone, and returns what follows in memory. After an error
// the batch must not be committed: the replica would go on as if the trigger had never been.
func (r *Replica) trigger(b *engine.Batch, t *kv.CommitTrigger, change *raftpb.ConfChangeV2) (after func() error, err error) {
	switch {
	case t.Split != nil:
		return r.applySplit(b, t.Split)
	case t.Merge != nil:
		return r.applyMerge(b, t.Merge)
	case t.Replicas != nil:
		return r.applyReplicas(b, &t.Replicas.Desc, change), nil
	case t.Seal != nil:
		return r.applySeal(t.Seal), nil
	default:
		return nil, fmt.Errorf("r%d: unknown trigger", r.rangeID)
	}
}

// applySplit makes the right side's replica real. An uninitialised replica of it may be here already, from messages
// of a store that was faster; it may have voted, and keeps that.
func (r *Replica) applySplit(b *engine.Batch, t *kv.SplitTrigger) (after func() error, err error) {
	left, rd := t.Left, t.Right
	right, err := r.o.Store.RightSide(r, &rd)
	if err != nil {
		return nil, err
	}
	if right != nil {
		right.hold()           // the order is from left to right, everywhere
		if right.gone.Load() { // it was removed just now, and leaves a tombstone
			right.release()
			right = nil
		}
	}
	b.Put(keys.DescriptorCopyKey(r.rangeID), left.Append(nil))
	r.dropDeltas(b, &left)
	removed := func() {}
	if right == nil {
		removed = r.removing()
		for _, s := range keys.RangeSpans(rd.ID, rd.Start, rd.End) {
			b.ClearSpan(s)
		}
	} else {
		hard := right.raftLog.hard
		if hard.term < initialTerm {
			hard = hardState{term: initialTerm}
		}
		hard.commit = initialIndex
		b.Put(keys.HardStateKey(rd.ID), hard.append(nil))
		b.Put(keys.TruncatedStateKey(rd.ID), position{initialIndex, initialTerm}.append(nil))
		b.Put(keys.ReplicaIDKey(rd.ID), replicaID(right.Self()))
	}
	leads := r.leader.Load() == uint64(r.replicaID)
	return func() error {
		r.desc.Store(&left)
		r.publish() // after the descriptor, see apply
		removed()
		r.o.Metrics.Splits.Add(1)
		if right != nil {
			// After the descriptor: who reads the right side's keys here by a later promise finds them gone.
			right.closer.Raise(r.closer.Closed())
			right.Lead(r.closer.Leads())
			for _, a := range right.appends {
				a.done = true // its answers are lost, as messages may be
			}
			right.appends = nil
			err := right.load()
			if err == nil {
				right.ticks, right.busyAt = 0, 0
				right.wake()
				if leads {
					_ = right.raft.Campaign()
				}
			}
			// Held until the store knows it, so that it does not split, or move on, before that.
			defer right.release()
			if err != nil {
				return err
			}
		}
		r.o.Store.SplitApplied(r, right, &left, &rd)
		if right != nil {
			right.process(false)
		}
		return nil
	}, nil
}

// applyReplicas takes over a new set of replicas.
func (r *Replica) applyReplicas(b *engine.Batch, d *kv.RangeDescriptor, change *raftpb.ConfChangeV2) func() error {
	b.Put(keys.DescriptorCopyKey(r.rangeID), d.Append(nil))
	r.dropDeltas(b, d)
	return func() error {
		if err := r.loadSeal(); err != nil {
			return err
		}
		r.desc.Store(d)
		r.o.Metrics.ConfChanges.Add(1)
		if change != nil {
			got := r.raft.ApplyConfChange(change)
			if err := got.Equivalent(confState(d)); err != nil {
				return fmt.Errorf("r%d: raft's configuration is not the descriptor's: %w", r.rangeID, err)
			}
		}
		self, ok := r.replicaOf(r.replicaID)
		if !ok || self.Node != r.o.Node {
			return r.destroy(d.NextOn(r.o.Node))
		}
		r.o.Store.DescriptorChanged(r, d)
		return nil
	}
}

// Destroy removes the replica, whose range has moved on: no replica with a number below next may come back here.
func (r *Replica) Destroy(next kv.ReplicaID) error {
	r.hold()
	defer r.release()
	if r.gone.Load() {
		return nil
	}
	return r.destroy(next)
}

func (r *Replica) destroy(next kv.ReplicaID) error {
	r.removing() // for good
	b := r.o.Engine.NewBatch()
	defer b.Close()
	if d := r.desc.Load(); d != nil {
		for _, s := range keys.RangeDataSpans(d.Start, d.End) {
			b.ClearSpan(s)
		}
	}
	r.clearLocal(b, max(next, r.replicaID+1))
	// No sync: a crash that loses this batch brings the whole replica back, to be removed again.
	if err := b.Commit(false); err != nil {
		return err
	}
	r.bury()
	return nil
}

// Abandon drops an uninitialised replica if nothing is going on with it and may allows it. All that it has promised is on
// the disk, where the next one with its number finds it.
func (r *Replica) Abandon(may func() bool) {
	r.hold()
	defer r.release()
	if r.gone.Load() || r.desc.Load() != nil || len(r.appends) > 0 || r.incoming != nil || !may() {
		return
	}
	r.gone.Store(true)
}

// Tombstone is the number below which no replica of a range may be made on this store.
func Tombstone(e *engine.Engine, id kv.RangeID) (kv.ReplicaID, error) {
	v, err := e.Get(keys.TombstoneKey(id))
	if err != nil || v == nil {
		return 0, err
	}
	p, err := wire.Decoded(v, (*position).fields)
	return kv.ReplicaID(p.index), err
}
