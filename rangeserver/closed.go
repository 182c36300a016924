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
	// Of the loop alone: what it has closed, and how many ranges lead.
	last  [closedts.Policies]clock.Timestamp
	leads int
	look  chan struct{} // buffered: policies are to be looked at again

	mu    sync.Mutex // guards wakes; nothing is taken after it
	wakes map[kv.NodeID]chan struct{}
}

// sideEntry is a range's entry in the group.
type sideEntry struct {
	in         bool
	index      uint64
	generation uint64
	policy     closedts.Policy
	leading    leading
}

func (t *sideTransport) init(o *Options) {
	if o.ClosedLag == 0 {
		o.ClosedLag = closedts.DefaultLag
	}
	if o.ClosedInterval == 0 {
		o.ClosedInterval = closedts.DefaultInterval
	}
	t.look = make(chan struct{}, 1)
	t.group, t.heard, t.wakes = closedts.NewGroup(uint64(o.Clock.Now().Wall)), closedts.NewHeard(), make(map[kv.NodeID]chan struct{})
}

// HeardClosed is the timestamp up to which a node has closed a range, as far as this one has heard.
func (s *Store) HeardClosed(by kv.NodeID, id kv.RangeID) (clock.Timestamp, uint64) {
	return s.side.heard.Closed(by, id)
}

// closeLoop closes what can be closed once in an interval; ranges that lead, more often.
func (s *Store) closeLoop(ctx context.Context) {
	clk := s.o.Clock.Physical()
	due := clk.Monotonic() + s.o.ClosedInterval
	for {
		wait := due - clk.Monotonic()
		if s.side.leads > 0 {
			wait = min(wait, closedts.LeadInterval)
		}
		t := clk.NewTimer(max(wait, 0))
		select {
		case <-t.C():
		case <-s.side.look:
			s.tuneAll()
		case <-ctx.Done():
			t.Stop()
			return
		}
		t.Stop()
		if clk.Monotonic() < due {
			s.closeAhead()
			continue
		}
		due = clk.Monotonic() + s.o.ClosedInterval
		s.tuneAll()
		s.closeAll(clock.Timestamp{Wall: clk.Now().UnixNano() - int64(s.o.ClosedLag)})
	}
}

// lookAgain has the side loop look at the policies of all ranges soon: a lease has come, or a range has been divided.
func (s *Store) lookAgain() {
	select {
	case s.side.look <- struct{}{}:
	default:
	}
}

// tuneAll decides how each range closes.
func (s *Store) tuneAll() {
	var zone uint64
	if s.o.Zone != nil {
		zone = s.o.Zone.Generation()
	}
	s.side.leads = 0
	longest := closedts.Lag
	s.ranges.Range(func(_, v any) bool {
		e := v.(*entry)
		if e.ready.Load() {
			s.tune(e, zone)
			if e.closing.leading.policy != closedts.Lag {
				s.side.leads++
				longest = max(longest, e.closing.leading.policy)
			}
		}
		return true
	})
	s.Metrics.Leads.Store(int64(s.side.leads))
	s.Metrics.LongestLead.Store(int64(longest.Lead()))
}

// targets are the timestamps up to which the ranges of each policy are to be closed; those of policies that no range has are zero.
func (s *Store) targets(lag clock.Timestamp) (to [closedts.Policies]clock.Timestamp) {
	now := s.o.Clock.Now()
	for p := range to {
		switch {
		case closedts.Policy(p) == closedts.Lag:
			to[p] = lag
		case s.side.leads > 0:
			to[p] = clock.Timestamp{Wall: now.Wall + int64(closedts.Policy(p).Lead())}
		}
		to[p] = to[p].Forward(s.side.last[p]) // the wall clock may have gone back
	}
	return to
}

// closeAll closes all ranges whose leases are here, those that do not lead up to a timestamp, as far as they can be, and has the peers told.
func (s *Store) closeAll(lag clock.Timestamp) { s.closeSome(lag, false) }

// closeAhead closes those that lead.
func (s *Store) closeAhead() {
	if s.side.leads > 0 {
		s.closeSome(s.side.last[closedts.Lag], true)
	}
}

func (s *Store) closeSome(lag clock.Timestamp, ahead bool) {
	to := s.targets(lag)
	s.side.last = to
	var changed []closedts.Member
	var left []kv.RangeID
	members, before, joined := 0, s.side.group.Len(), 0
	var tell map[kv.NodeID]bool
	s.ranges.Range(func(_, v any) bool {
		e := v.(*entry)
		c := &e.closing
		policy := c.leading.policy
		if ahead && policy == closedts.Lag && (!c.in || c.policy == closedts.Lag) {
			if c.in {
				members++ // what it has closed stays
			}
			return true
		}
		index, desc, ok := e.r.CloseIdle(to[policy])
		switch {
		case !ok:
			if c.in {
				left = append(left, e.r.RangeID())
				c.in = false
			}
			return true
		case !c.in || c.index != index || c.generation != desc.Generation || c.policy != policy:
			changed = append(changed, closedts.Member{Position: closedts.Position{Range: desc.ID, Policy: policy, Index: index}, Peers: e.r.Peers(desc)})
			if !c.in {
				joined++
			}
			c.in, c.index, c.generation, c.policy = true, index, desc.Generation, policy
		}
		if ahead {
			if tell == nil {
				tell = make(map[kv.NodeID]bool)
			}
			for _, r := range desc.Replicas {
				tell[r.Node] = true
			}
		}
		members++
		return true
	})
	if before+joined-len(left) != members {
		// A replica was removed with its range in the group: this store may promise nothing for it any more.
		left = append(left, s.strays()...)
	}
	fresh := s.side.group.Advance(to, changed, left)
	for _, n := range fresh {
		wake := make(chan struct{}, 1)
		s.side.mu.Lock()
		s.side.wakes[n] = wake
		s.side.mu.Unlock()
		s.group.Go(func(ctx context.Context) { s.tellClosed(ctx, n, wake) })
	}
	s.side.mu.Lock()
	defer s.side.mu.Unlock()
	for n, wake := range s.side.wakes {
		if ahead && !tell[n] {
			continue
		}
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

const (
	// sideFlights bounds the messages to one peer of which the answers have not come. One would do for ranges that close the past; the timestamps of those
	// that lead must not wait for the round trip to a far peer.
	sideFlights = 16
	// sideTurn is how long a message waits at its receiver for one that was sent before it.
	sideTurn = time.Second
)

// tellClosed tells one peer, some messages at a time.
func (s *Store) tellClosed(ctx context.Context, to kv.NodeID, wake chan struct{}) {
	flying := make(chan struct{}, sideFlights)
	for {
		select {
		case <-wake:
		case <-ctx.Done():
			return
		}
		select {
		case flying <- struct{}{}:
		case <-ctx.Done():
			return
		}
		u, ok := s.side.group.Next(to)
		if !ok {
			<-flying
			continue
		}
		s.Metrics.ClosedSent.Add(1)
		b := u.Append(make([]byte, 0, 64+16*len(u.Changed)+8*len(u.Removed)))
		if !s.group.Go(func(ctx context.Context) {
			if _, err := s.o.Network.CallClass(ctx, transport.ClassSystem, to, MethodClosed, b); err != nil {
				s.side.group.Lost(to, u.Stream)
			}
			<-flying
		}) {
			return
		}
	}
}

// serveClosed receives one peer's closed timestamps.
func (s *Store) serveClosed(ctx context.Context, from kv.NodeID, req []byte) ([]byte, error) {
	u, err := closedts.DecodeUpdate(req)
	if err != nil {
		return nil, err
	}
	s.Metrics.ClosedReceived.Add(1)
	if turn := s.side.heard.Turn(from, &u); turn != nil {
		if err := s.awaitTurn(ctx, from, &u, turn); err != nil {
			return nil, err
		}
	}
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

// awaitTurn returns when the messages before an update have been taken.
func (s *Store) awaitTurn(ctx context.Context, from kv.NodeID, u *closedts.Update, turn <-chan struct{}) error {
	t := s.o.Host.Clock.NewTimer(sideTurn)
	defer t.Stop()
	for turn != nil {
		select {
		case <-turn:
			turn = s.side.heard.Turn(from, u)
		case <-t.C():
			return closedts.ErrBadUpdate
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// ClosedLag is how far behind the present this store closes timestamps.
func (s *Store) ClosedLag() time.Duration { return s.o.ClosedLag }
