package rangeserver

import (
	"context"
	"slices"
	"time"

	"meridian/keys"
	"meridian/kv"
	"meridian/placement"
)

const (
	// mergeEvery is how often a range that is small enough checks its right neighbour. It is merged if two checks in a row find both small,
	// so a range that is about to be filled has some time.
	mergeEvery = 30 * time.Second
	// mergeLooks is how many checks in a row have to agree.
	mergeLooks = 2
)

// mergeState is a range's record of its right neighbour; only the queue loop and one background task use it.
type mergeState struct {
	next  time.Duration // of the next check, on the monotonic clock
	looks int
}

// allLive reports whether all replicas of a range are on nodes that are live.
func (s *Store) allLive(d *kv.RangeDescriptor) bool {
	now := s.o.Clock.Now()
	return !slices.ContainsFunc(d.Replicas, func(p kv.ReplicaDescriptor) bool {
		if p.Node == s.o.NodeID {
			return false
		}
		inc, _ := s.o.Liveness.Incarnation(p.Node)
		return inc != 0 && !s.o.Liveness.IsLive(p.Node, inc, now)
	})
}

// considerMerge checks a range's right neighbour, when that is due.
func (s *Store) considerMerge(ctx context.Context, e *entry) {
	d, clk := e.r.Desc(), s.o.Clock.Physical().Monotonic()
	m := &e.load.merge
	if s.o.Sender == nil || d.Start.Less(keys.TablePrefix) || d.End.Compare(keys.Max) >= 0 || clk < m.next || len(e.admin) > 0 || !s.o.Settings.Known() {
		return
	}
	z := s.zone(d.Start)
	if !placement.MayMerge(&z, e.r.Stats().TotalBytes, 0, s.o.Clock.Now(), s.o.Clock.Now()) || !sameZone(s, d.Start, d.End) || s.tooHot(e.load.rate()) {
		m.next, m.looks = clk+mergeEvery, 0 // too large for any neighbour
		return
	}
	first := m.next == 0
	m.next = clk + mergeEvery + time.Duration(d.ID%16)*mergeEvery/64 // spread them out
	if first {
		return
	}
	s.inBackground(ctx, e, func(ctx context.Context) error {
		resp, err := s.o.Sender.Send(ctx, &kv.Batch{Requests: []kv.Request{&kv.RangeInfoRequest{Key: d.End}}})
		if err != nil {
			return err
		}
		info, ok := resp.Responses[0].(*kv.RangeInfoResponse)
		if !ok {
			return kv.ErrMalformed
		}
		if !info.Desc.Start.Equal(d.End) || info.Desc.Protocol != d.Protocol || s.tooHot(e.load.rate()+float64(info.RequestsPerSecond)) ||
			!placement.MayMerge(&z, e.r.Stats().TotalBytes, info.TotalBytes, info.Desc.Keep, s.o.Clock.Now()) {
			m.looks = 0
			return nil
		}
		if !s.allLive(d) || !s.allLive(&info.Desc) {
			m.looks = 0
			return nil // all replicas have to take part, and those that are gone are to be replaced meanwhile
		}
		if m.looks++; m.looks < mergeLooks {
			return nil
		}
		m.looks = 0
		s.log.Info("range change", "range", uint64(d.ID), "kind", "merge", "with", uint64(info.Desc.ID),
			"bytes", e.r.Stats().TotalBytes, "more", info.TotalBytes)
		return s.mergeWithNext(ctx, d.ID, meant{of: d.Span()})
	})
}
