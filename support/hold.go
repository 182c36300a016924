package support

import (
	"context"
	"maps"

	"meridian/kv"
	"meridian/transport"
	"meridian/wire"
)

// This file has the node as one that is supported by others.

// peer is what is known of another node; nil for this one, and if there is no room. The caller has the lock.
func (s *Support) peer(node kv.NodeID) *peer {
	old := *s.held.Load()
	if p := old[node]; p != nil {
		return p
	}
	if node == 0 || node == kv.NodeID(s.self.Load()) || s.self.Load() == 0 || len(old) >= maxNodes {
		return nil
	}
	p := &peer{node: node, kick: make(chan struct{}, 1), told: make(map[kv.NodeID]withdrawal)}
	m := maps.Clone(old)
	m[node] = p
	s.held.Store(&m)
	return p
}

// meet has a node asked for support from now on; it does nothing for this one.
func (s *Support) meet(node kv.NodeID) {
	if p := (*s.held.Load())[node]; p != nil && p.asked.Load() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.peer(node)
	if p == nil || p.asked.Load() {
		return
	}
	if g := s.of(node); g != nil && g.expected == 0 {
		g.expected = max(s.attended(), 1)
	}
	p.absent = 0
	p.asked.Store(s.o.Host.Group.Go(func(ctx context.Context) { s.keep(ctx, p) }))
}

// meetPeers asks all nodes of the cluster for support. One that has been asked must not be left out while it is there: it would say that this one is gone.
func (s *Support) meetPeers(ctx context.Context) {
	for {
		if s.o.Active() {
			named := make(map[kv.NodeID]bool)
			for _, n := range s.peers() {
				named[n] = true
				s.meet(n)
			}
			s.mu.Lock()
			for n, p := range *s.held.Load() {
				if p.absent++; named[n] {
					p.absent = 0
				}
			}
			s.mu.Unlock()
		}
		if s.o.Host.Clock.Sleep(ctx, meetEvery) != nil {
			return
		}
	}
}

// keep asks one peer again and again.
func (s *Support) keep(ctx context.Context, p *peer) {
	for {
		s.mu.Lock()
		if p.absent >= forgetAfter {
			p.asked.Store(false)
			if g := s.given[p.node]; g != nil {
				g.expected = 0
			}
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
		if s.o.Active() && p.flies.Load() < inFlight {
			p.flies.Add(1)
			if !s.o.Host.Group.Go(func(ctx context.Context) {
				defer p.flies.Add(-1)
				s.ask(ctx, p)
			}) {
				return
			}
		}
		timer := s.o.Host.Clock.NewTimer(Every)
		select {
		case <-timer.C():
		case <-p.kick:
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return
		}
	}
}

// kick has a peer asked at once.
func (s *Support) kick(node kv.NodeID) {
	if p := (*s.held.Load())[node]; p != nil {
		select {
		case p.kick <- struct{}{}:
		default:
		}
	}
}

func (s *Support) kickAll() {
	for node := range *s.held.Load() {
		s.kick(node)
	}
}

// ask sends one heartbeat.
func (s *Support) ask(ctx context.Context, p *peer) {
	ctx, cancel := s.o.Host.Clock.WithTimeout(ctx, Duration)
	defer cancel()
	a := ask{incarnation: s.current.Load(), duration: Duration}
	if int64(s.o.Host.Clock.Monotonic()) < s.abstains.Load() {
		a.incarnation = 0
	}
	if s.o.Position != nil {
		a.position = s.o.Position()
	}
	s.mu.RLock()
	a.heard = p.version
	version := s.version
	if p.heard != version {
		a.news = s.news()
	}
	for w := range s.wants {
		a.wants = append(a.wants, w)
	}
	s.mu.RUnlock()
	sent := s.o.Host.Clock.Monotonic() // support.SU3
	a.end = s.o.Clock.Now().Add(Duration)
	s.Asks.Add(1)
	reply, err := s.o.Network.CallClass(ctx, transport.ClassSystem, p.node, Method, wire.Append(nil, &a, (*ask).fields))
	if err != nil {
		return
	}
	var re answer
	if err := wire.Decode(reply, &re, (*answer).fields); err != nil {
		return
	}
	if s.o.Heard != nil && !s.o.Heard(p.node, re.position) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p.heard = max(p.heard, version)
	s.listen(p, re.news)
	if a.incarnation == 0 {
		return
	}
	if re.supports {
		next := &support{least: re.least, until: sent + Duration - margin, end: a.end}
		if old := p.has.Load(); old == nil || old.until < next.until {
			p.has.Store(next)
		}
		return
	}
	s.Refused.Add(1)
	// An incarnation that the peer would support, of this process: an earlier one can't have named a larger one.
	if s.current.Load() < re.least {
		s.current.Store(re.least)
	}
	s.o.Host.Group.Go(func(ctx context.Context) {
		if s.o.Host.Clock.Sleep(ctx, refusedPause) == nil { // it may be withdrawing
			s.kick(p.node)
		}
	})
}

// listen takes in what a peer says of its support for others. The caller has the lock.
func (s *Support) listen(p *peer, news *withdrawals) {
	if news == nil || news.version <= p.version {
		return
	}
	changed := false
	told := make(map[kv.NodeID]withdrawal, len(news.of))
	for _, w := range news.of {
		old := p.told[w.node]
		changed = changed || w.lapsed && !old.lapsed || w.silent && !old.silent || w.least > old.least
		told[w.node] = w
	}
	p.told, p.version = told, news.version
	if changed {
		s.tell()
	}
}
