package rangeserver

import (
	"context"
	"time"

	"meridian/keys"
	"meridian/kv"
	"meridian/replica"
)

// Replicas that hear of no leader: their ranges may have moved away, or have been absorbed.

// descriptorAt reads the descriptor of the range that begins at a key, nil if none does.
func (s *Store) descriptorAt(ctx context.Context, start keys.Key) (d *kv.RangeDescriptor, err error) {
	db, err := s.database()
	if err != nil {
		return nil, err
	}
	err = db.RunInternal(ctx, "replica GC", func(ctx context.Context, tx Tx) error {
		d = nil
		v, err := tx.Get(ctx, keys.RangeDescriptorKey(start))
		if err != nil || v == nil {
			return err
		}
		now, err := kv.DecodeRangeDescriptor(v)
		d = &now
		return err
	})
	return d, err
}

// removedMeanwhile reads the range's descriptor from its present replicas, and destroys this replica if it is not in it any more.
func (s *Store) removedMeanwhile(ctx context.Context, e *entry) error {
	ctx, cancel := s.o.Host.Clock.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	d := e.r.Desc()
	now, err := s.descriptorAt(ctx, d.Start)
	if err != nil {
		return err
	}
	next := replica.NeverAgain
	switch {
	case now != nil && now.ID == d.ID:
		if member(now, e.r.ReplicaID()) {
			return nil
		}
		next = now.NextOn(s.o.NodeID)
	case s.o.Sender == nil:
		return nil
	default:
		if orphan, err := s.orphaned(ctx, d); err != nil || !orphan {
			return err
		}
	}
	s.Metrics.ReplicasGCed.Add(1)
	return e.r.Destroy(next)
}

// orphaned reports whether no log on this store will absorb the replica of a range that was absorbed elsewhere. A log absorbs the replica
// to its right, so only the left neighbour's could, if that is behind. (rangeserver.RS1: if the left neighbour is up to date, its log has
// passed the merge, or a raft snapshot from beyond it has replaced the log.) A raft snapshot does not need the replica.
func (s *Store) orphaned(ctx context.Context, d *kv.RangeDescriptor) (bool, error) {
	resp, err := s.o.Sender.Send(ctx, &kv.Batch{Requests: []kv.Request{&kv.RangeInfoRequest{Key: d.Start}}})
	if err != nil {
		return false, err
	}
	info, ok := resp.Responses[0].(*kv.RangeInfoResponse)
	if !ok {
		return false, kv.ErrMalformed
	}
	if info.Desc.ID == d.ID {
		return false, nil
	}
	var left *kv.RangeDescriptor
	known := true
	s.mu.Lock()
	s.byKey.DescendLessOrEqual(&entry{start: d.Start}, func(e *entry) bool {
		if e.r.RangeID() == d.ID {
			return true
		}
		left = e.r.Desc()
		known = left != nil // else a split is creating it
		return false
	})
	s.byKey.AscendGreaterOrEqual(&entry{start: d.Start}, func(e *entry) bool {
		known = known && (e.r.RangeID() == d.ID || !e.start.Less(d.End)) // else it splits
		return known && e.start.Less(d.End)
	})
	s.mu.Unlock()
	if !known || left != nil && d.Start.Less(left.End) {
		return false, nil // a replica is removed with its data, so never if another replica has some of it (rangeserver.RS1)
	}
	if left == nil || !left.End.Equal(d.Start) {
		return true, nil
	}
	now, err := s.descriptorAt(ctx, left.Start)
	return err == nil && now != nil && now.ID == left.ID && now.Generation <= left.Generation, err
}

// abandon drops an uninitialised replica that gets no messages: its range was absorbed, or moved away. Its promises stay on the disk, as
// when the node restarts.
func (s *Store) abandon(e *entry) {
	clk := s.o.Clock.Physical().Monotonic()
	if e.spoken.Swap(false) || e.load.lookedAt == 0 {
		e.load.lookedAt = clk
	}
	if clk-e.load.lookedAt < abandonAfter {
		return
	}
	e.r.Abandon(func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return !e.spoken.Load() && !e.wanted && s.ranges.CompareAndDelete(e.r.RangeID(), e)
	})
}
