package rangeserver

import (
	"context"
	"errors"
	"fmt"
	"time"

	"meridian/cluster"
	"meridian/kv"
	"meridian/replica"
	"meridian/replica/lease"
)

// This file implements replica.Store, the interface through which replicas use the store, and the loops that tick them.

var _ replica.Store = (*Store)(nil)

// durable is a batch that the engine has and the disk not yet: SyncWait returns when it is synced, and Synced is called then.
type durable interface {
	SyncWait() error
	Synced()
}

// AwaitSync takes an append that no goroutine waits for yet.
func (s *Store) AwaitSync(a *replica.Append) { s.await(a) }

func (s *Store) await(d durable) {
	s.syncMu.Lock()
	s.syncs = append(s.syncs, d)
	s.syncMu.Unlock()
	select {
	case s.syncWake <- struct{}{}:
	default:
	}
}

// syncLoop waits for appends in the order of their commits. The engine syncs all pending batches together, so after the first of several
// the others are mostly done: one sync serves all ranges that are ready.
func (s *Store) syncLoop(ctx context.Context) {
	var lot []durable
	for {
		s.syncMu.Lock()
		lot, s.syncs = s.syncs, lot[:0]
		s.syncMu.Unlock()
		if len(lot) == 0 {
			select {
			case <-s.syncWake:
			case <-ctx.Done():
				s.drainSyncs()
				return
			}
			continue
		}
		for i, a := range lot {
			lot[i] = nil
			if err := a.SyncWait(); err != nil {
				s.Fatal(err)
				continue
			}
			a.Synced()
		}
	}
}

// drainSyncs releases the pending batches when the node stops, since every batch has to be waited for once.
func (s *Store) drainSyncs() {
	s.syncMu.Lock()
	lot := s.syncs
	s.syncs = nil
	s.syncMu.Unlock()
	for _, a := range lot {
		_ = a.SyncWait()
	}
}

// Awake adds a replica to those that are ticked.
func (s *Store) Awake(r *replica.Replica) {
	s.awakeMu.Lock()
	s.awake = append(s.awake, r)
	s.awakeMu.Unlock()
}

// deadLeaderTicks is how often quiescent replicas check whether their leader's node is live.
const deadLeaderTicks = 2

// tickLoop ticks the replicas that are awake. Quiescent ones cost a check of their leader's node. It begins at a random moment: voters that
// tick at the same moments campaign at the same moment whenever raft draws the same number of ticks for them, one time in ten, and each
// such election costs another one or two seconds.
func (s *Store) tickLoop(ctx context.Context) {
	clk := s.o.Clock.Physical()
	if clk.Sleep(ctx, time.Duration(s.o.Host.Dice.Int64N(int64(replica.TickInterval)))) != nil {
		return
	}
	for n := 0; ; n++ {
		due := clk.Monotonic() + replica.TickInterval
		if clk.Sleep(ctx, replica.TickInterval) != nil {
			return
		}
		s.Metrics.TickLate.Note(clk.Monotonic() - due)
		s.awakeMu.Lock()
		lot := s.awake
		s.awake = nil
		s.awakeMu.Unlock()
		kept := lot[:0]
		for _, r := range lot {
			if r.Tick() {
				kept = append(kept, r)
			}
		}
		clear(lot[len(kept):])
		s.awakeMu.Lock()
		s.awake = append(kept, s.awake...)
		s.awakeMu.Unlock()
		if n%deadLeaderTicks == 0 {
			s.wakeOrphans()
		}
	}
}

// wakeOrphans wakes sleeping replicas whose leader's node is not live any more, and leaders here that sleep without a
// replica whose node is live again.
func (s *Store) wakeOrphans() {
	now := s.o.Clock.Now()
	dead := make(map[kv.NodeID]bool)
	s.Replicas(func(r *replica.Replica) bool {
		if !r.Quiesced() {
			return true
		}
		_, node := r.Leader()
		if node == 0 {
			r.Wake()
			return true
		}
		if node == s.o.NodeID {
			r.WakeForLive()
			return true
		}
		if s.o.Support != nil && s.o.Support.Incarnation() != 0 {
			return true // watchSupport
		}
		d, ok := dead[node]
		if !ok {
			incarnation, _ := s.o.Liveness.Incarnation(node)
			d = incarnation != 0 && !s.o.Liveness.IsLive(node, incarnation, now)
			dead[node] = d
		}
		if d {
			r.LeaderDied(node)
		}
		return true
	})
}

// watchSupport has replicas elect another leader as soon as theirs is known to be gone.
func (s *Store) watchSupport(ctx context.Context) {
	for {
		changed := s.o.Support.Changed()
		s.Replicas(func(r *replica.Replica) bool {
			if node, down := r.LeaderDown(); down {
				r.LeaderDied(node)
			}
			return ctx.Err() == nil
		})
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// Fatal stops the store: the node has to be told, once.
func (s *Store) Fatal(err error) {
	if !s.failed.CompareAndSwap(nil, &err) {
		return
	}
	if s.group.Context().Err() != nil && errors.Is(err, context.Canceled) {
		return
	}
	s.log.Error("store failed", "err", err)
	if s.o.OnFatal != nil {
		s.o.OnFatal(err)
	}
}

// RightSide gives the replica for the right side of a split.
//
// From here on it is registered under its key, but not yet with its descriptor: the left side's span is about to end there, and a raft
// snapshot that arrived in between would find the right side's keys without an owner (rangeserver.RS1).
func (s *Store) RightSide(left *replica.Replica, d *kv.RangeDescriptor) (*replica.Replica, error) {
	self, ok := d.Replica(s.o.NodeID)
	if !ok {
		return nil, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	place := func(e *entry) *replica.Replica {
		e.start, e.wanted = d.Start, true
		s.byKey.ReplaceOrInsert(e)
		return e.r
	}
	if e := s.entry(d.ID); e != nil && !e.r.Gone() {
		switch {
		case e.r.ReplicaID() == self.Replica:
			return place(e), nil
		case e.r.ReplicaID() > self.Replica:
			return nil, nil
		}
	}
	tomb, err := replica.Tombstone(s.o.Engine, d.ID)
	if err != nil || tomb > self.Replica {
		return nil, err
	}
	r, err := replica.New(&s.replica, d.ID, self.Replica)
	if err != nil {
		return nil, err
	}
	return place(s.add(r)), nil
}

// SplitApplied registers the right side.
func (s *Store) SplitApplied(left, right *replica.Replica, l, rd *kv.RangeDescriptor) {
	e := s.entry(left.RangeID())
	var handoff any
	if e != nil && e.ready.Load() {
		handoff = e.leader.SplitOff(l, rd)
		s.served(e, l)
	}
	if right == nil {
		return
	}
	if re := s.entry(right.RangeID()); re != nil && re.r == right {
		s.initialise(re, rd, handoff)
		s.checkApart(re, rd)
		s.LookAt(l.ID, rd.ID) // either may have another boundary within, or other places
	}
}

// LeaseChanged tells the participant.
func (s *Store) LeaseChanged(r *replica.Replica, l lease.Lease, held bool) {
	if e := s.entry(r.RangeID()); e != nil && e.r == r && e.ready.Load() {
		e.leader.LeaseChanged(l, held)
		if held {
			s.lookAgain()
		}
	}
}

// Unled tells the participant.
func (s *Store) Unled(r *replica.Replica) {
	if e := s.entry(r.RangeID()); e != nil && e.r == r && e.ready.Load() {
		e.leader.Unled()
	}
}

// HandOver asks the participant.
func (s *Store) HandOver(r *replica.Replica) []byte {
	if e := s.entry(r.RangeID()); e != nil && e.r == r && e.ready.Load() {
		return e.leader.HandOver()
	}
	return nil
}

// TakeOver tells the participant.
func (s *Store) TakeOver(r *replica.Replica, handed []byte) {
	if e := s.entry(r.RangeID()); e != nil && e.r == r && e.ready.Load() {
		e.leader.TakeOver(handed)
	}
}

// DescriptorChanged tells the participant.
func (s *Store) DescriptorChanged(r *replica.Replica, d *kv.RangeDescriptor) {
	if e := s.entry(r.RangeID()); e != nil && e.r == r && e.ready.Load() {
		e.leader.DescriptorChanged(d)
		s.served(e, d)
	}
}

// SnapshotApplied registers a new replica, or tells the participant that the data was replaced.
func (s *Store) SnapshotApplied(r *replica.Replica, d *kv.RangeDescriptor) {
	e := s.entry(r.RangeID())
	if e == nil || e.r != r {
		return
	}
	if e.ready.Load() {
		e.leader.SnapshotApplied()
		e.leader.DescriptorChanged(d)
		s.served(e, d)
	}
	s.initialise(e, d, nil)
	s.checkApart(e, d)
}

// checkApart stops the node if a replica that has just got its span has keys of another one (rangeserver.RS1): changes by either of them
// would be lost, or made twice.
func (s *Store) checkApart(e *entry, d *kv.RangeDescriptor) {
	var other *kv.RangeDescriptor
	look := func(o *entry) bool {
		if od := o.r.Desc(); o != e && od != nil && od.Start.Less(d.End) && d.Start.Less(od.End) {
			other = od
		}
		return o == e
	}
	s.mu.Lock()
	s.byKey.DescendLessOrEqual(e, look)
	if other == nil {
		s.byKey.AscendGreaterOrEqual(e, look)
	}
	s.mu.Unlock()
	if other != nil {
		s.Fatal(overlap(other, d))
	}
}

func overlap(a, b *kv.RangeDescriptor) error {
	return fmt.Errorf("rangeserver: %v and %v overlap on this store", a, b)
}

// Destroyed forgets a replica.
func (s *Store) Destroyed(r *replica.Replica) {
	e := s.entry(r.RangeID())
	if e == nil || e.r != r {
		return
	}
	s.ranges.CompareAndDelete(r.RangeID(), e)
	s.mu.Lock()
	if at, ok := s.byKey.Get(e); ok && at == e {
		s.byKey.Delete(e)
	}
	s.mu.Unlock()
	if e.ready.Load() {
		e.leader.Close(&kv.RangeNotFoundError{Range: r.RangeID()})
		if v := e.serving.Load(); v != nil && v.p != nil {
			v.p.Close(&kv.RangeNotFoundError{Range: r.RangeID()})
		}
	}
}

// Full returns a voter's node whose disk is nearly full: writes to the range go there too.
func (s *Store) Full(d *kv.RangeDescriptor) kv.NodeID {
	full := s.full.Load()
	if full == nil {
		return 0
	}
	for i := range d.Replicas {
		if n := d.Replicas[i].Node; n != s.o.NodeID && (*full)[n] {
			return n
		}
	}
	return 0
}

// noteFull notes which nodes report nearly full disks, and reports this one's.
func (s *Store) noteFull() {
	var full map[kv.NodeID]bool
	own := s.o.Engine.DiskFull()
	for _, e := range s.o.Cluster.Nodes() {
		switch {
		case e.Node == s.o.NodeID:
			if e.Full != own {
				s.o.Cluster.Update(func(e *cluster.Entry) { e.Full = own })
			}
		case e.Full:
			if l, ok := s.o.Cluster.Record(e.Node); !ok || !l.Live(s.o.Clock.Now()) {
				continue // it accepts no data
			}
			if full == nil {
				full = make(map[kv.NodeID]bool)
			}
			full[e.Node] = true
		}
	}
	if full == nil {
		s.full.Store(nil)
	} else {
		s.full.Store(&full)
	}
}

// Drain waits for the participant's requests in progress.
func (s *Store) Drain(ctx context.Context, r *replica.Replica) error {
	if e := s.entry(r.RangeID()); e != nil && e.ready.Load() {
		return e.leader.Drain(ctx)
	}
	return nil
}
