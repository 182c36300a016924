package rangeserver

import (
	"context"
	"time"

	"meridian/keys"
	"meridian/kv"
	"meridian/replica"
)

// What became of a replica that hears of no leader: its range may have moved away, or have been absorbed.

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
		now, _, err := kv.DecodeRangeDescriptor(v)
		d = &now
		return err
	})
	return d, err
}

// removedMeanwhile reads the range's descriptor from where the range is now, and destroys the replica if it is not in
// it any more.
func (s *Store) removedMeanwhile(ctx context.Context, e *entry) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
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
		next = now.NextReplica
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

// orphaned reports whether nobody on this store is going to absorb what is left here of a range that was absorbed
// elsewhere: not the range that has its keys now, by its log or by a raft snapshot, nor the left neighbour here, if that
// is behind and has a merge to apply.
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
	if _, here := info.Desc.Replica(s.o.NodeID); here || s.entry(info.Desc.ID) != nil {
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
		known = left != nil // else it is being born by a split
		return false
	})
	s.mu.Unlock()
	if !known {
		return false, nil
	}
	if left == nil || !left.End.Equal(d.Start) {
		return true, nil
	}
	now, err := s.descriptorAt(ctx, left.Start)
	return err == nil && now != nil && now.ID == left.ID && now.Generation <= left.Generation, err
}
