package rangeserver

import (
	"context"
	"sync"
	"time"

	"meridian/clock"
	"meridian/kv"
	"meridian/replica/closedts"
	"meridian/transport"
)

// The side transport of closed timestamps (package closedts): twice a second all ranges whose leases are on the store, and which no write
// in flight holds back, are closed together, and the peers that have replicas are told.

// sideTransport is the store's part of it.
type sideTransport struct {
	group *closedts.Group
	heard *closedts.Heard
	last  clock.Timestamp // that the loop has closed

	mu    sync.Mutex // guards wakes; nothing is taken after it
	wakes map[kv.NodeID]chan struct{}
}

// sideEntry is a range's entry in the group.
type sideEntry struct {
	in         bool
	index      uint64
	generation uint64
}

func (t *sideTransport) init(o *Options) {
	if o.ClosedLag == 0 {
		o.ClosedLag = closedts.DefaultLag
	}
	if o.ClosedInterval == 0 {
		o.ClosedInterval = closedts.DefaultInterval
	}
	t.group, t.heard, t.wakes = closedts.NewGroup(uint64(o.Clock.Now().Wall)), closedts.NewHeard(), make(map[kv.NodeID]chan struct{})
}

// HeardClosed is the timestamp up to which a node has closed a range, as far as this one has heard.
func (s *Store) HeardClosed(by kv.NodeID, id kv.RangeID) (clock.Timestamp, uint64) {
	return s.side.heard.Closed(by, id)
}

// closeLoop closes what can be closed once in an interval.
func (s *Store) closeLoop(ctx context.Context) {
	clk := s.o.Clock.Physical()
	for clk.Sleep(ctx, s.o.ClosedInterval) == nil {
		s.closeAll(clock.Timestamp{Wall: clk.Now().UnixNano() - int64(s.o.ClosedLag)})
	}
}

// closeAll closes all ranges whose leases are here up to a timestamp, as far as they can be, and has the peers told.
func (s *Store) closeAll(to clock.Timestamp) {
	to = to.Forward(s.side.last) // the wall clock may have gone back
	s.side.last = to
	var changed []closedts.Member
	var left []kv.RangeID
	members, before, joined := 0, s.side.group.Len(), 0
	s.ranges.Range(func(_, v any) bool {
		e := v.(*entry)
		index, desc, ok := e.r.CloseIdle(to)
		c := &e.closing
		switch {
		case !ok:
			if c.in {
				left = append(left, e.r.RangeID())
				*c = sideEntry{}
			}
			return true
		case !c.in || c.index != index || c.generation != desc.Generation:
			changed = append(changed, closedts.Member{Position: closedts.Position{Range: desc.ID, Index: index}, Peers: e.r.Peers(desc)})
			if !c.in {
				joined++
			}
			*c = sideEntry{true, index, desc.Generation}
		}
		members++
		return true
	})
	if before+joined-len(left) != members {
		// A replica was removed with its range in the group: this store may promise nothing for it any more.
		left = append(left, s.strays()...)
	}
	fresh := s.side.group.Advance([closedts.Policies]clock.Timestamp{closedts.Lag: to}, changed, left)
	for _, n := range fresh {
		wake := make(chan struct{}, 1)
		s.side.mu.Lock()
		s.side.wakes[n] = wake
		s.side.mu.Unlock()
		s.group.Go(func(ctx context.Context) { s.tellClosed(ctx, n, wake) })
	}
	s.side.mu.Lock()
	defer s.side.mu.Unlock()
	for _, wake := range s.side.wakes {
		select {
		case wake <- struct{}{}:
		default:
		}
	}
}

// strays are the ranges of the group that have no replica here.
func (s *Store) strays() (out []kv.RangeID) {
	for _, id := range s.side.group.Ranges() {
		if e := s.entry(id); e == nil || !e.closing.in {
			out = append(out, id)
		}
	}
	return out
}

// tellClosed tells one peer, one message at a time.
func (s *Store) tellClosed(ctx context.Context, to kv.NodeID, wake chan struct{}) {
	for {
		select {
		case <-wake:
		case <-ctx.Done():
			return
		}
		u, ok := s.side.group.Next(to)
		if !ok {
			continue
		}
		s.Metrics.ClosedSent.Add(1)
		b := u.Append(make([]byte, 0, 64+16*len(u.Changed)+8*len(u.Removed)))
		if _, err := s.o.Network.CallClass(ctx, transport.ClassSystem, to, MethodClosed, b); err != nil {
			s.side.group.Restart(to)
		}
	}
}

// serveClosed receives one peer's closed timestamps.
func (s *Store) serveClosed(_ context.Context, from kv.NodeID, req []byte) ([]byte, error) {
	u, err := closedts.DecodeUpdate(req)
	if err != nil {
		return nil, err
	}
	s.Metrics.ClosedReceived.Add(1)
	old, err := s.side.heard.Receive(from, &u)
	if err != nil {
		return nil, err
	}
	for _, p := range old {
		if e := s.entry(p.Range); e != nil {
			e.r.HeardClosed(p)
		}
	}
	return nil, nil
}

// ClosedLag is how far behind the present this store closes timestamps.
func (s *Store) ClosedLag() time.Duration { return s.o.ClosedLag }
