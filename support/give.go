package support

import (
	"context"
	"time"

	"meridian/host"
	"meridian/keys"
	"meridian/kv"
	"meridian/wire"
)

// This file has the node as one that supports others.

// serve answers a heartbeat.
func (s *Support) serve(_ context.Context, from kv.NodeID, req []byte) ([]byte, error) {
	var a ask
	if err := wire.Decode(req, &a, (*ask).fields); err != nil {
		return nil, err
	}
	var re answer
	if from == 0 || s.self.Load() == 0 || s.o.Heard != nil && !s.o.Heard(from, a.position) {
		return wire.Append(nil, &re, (*answer).fields), nil // it promises nothing
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p, g := s.peer(from), s.of(from)
	if g == nil || p == nil {
		return wire.Append(nil, &re, (*answer).fields), nil
	}
	s.listen(p, a.news)
	if a.incarnation != 0 {
		re.supports = s.give(from, g, &a)
	}
	re.least = g.least
	for _, w := range a.wants {
		s.withdrawFor(w)
	}
	if a.heard != s.version {
		re.news = s.news()
	}
	if s.o.Position != nil {
		re.position = s.o.Position()
	}
	return wire.Append(nil, &re, (*answer).fields), nil
}

// give gives a node support, if it may have any under its incarnation.
func (s *Support) give(node kv.NodeID, g *given, a *ask) bool {
	base := a.incarnation >> 32 << 32
	switch {
	case a.incarnation < g.incarnation>>32<<32, a.duration > Duration:
		return false // of an earlier process
	case g.raising:
		return false
	case g.least < base: // support.SU4
		if !g.gives { // the time of what an earlier process may have been given is over
			g.incarnation = a.incarnation
			s.raise(node, g, base)
		}
		return false
	}
	g.incarnation = max(g.incarnation, a.incarnation)
	if a.incarnation < g.least {
		return false
	}
	if !g.gives {
		g.gives, g.had, g.silent = true, true, false
		s.version++
	}
	g.deadline = max(g.deadline, s.attended()+a.duration)
	g.end = g.end.Forward(a.end)
	return true
}

// watch withdraws from nodes that have not been heard of for as long as they were promised support.
func (s *Support) watch(ctx context.Context) {
	clk := s.o.Host.Clock
	for {
		s.mu.Lock()
		pause := watchEvery
		now := s.attended()
		for _, g := range s.given {
			if g.gives {
				pause = min(pause, max(g.deadline-now, time.Millisecond))
			}
		}
		for w, until := range s.wants {
			if until < clk.Monotonic() {
				delete(s.wants, w)
			}
		}
		s.mu.Unlock()
		due := clk.Monotonic() + pause
		if clk.Sleep(ctx, pause) != nil {
			return
		}
		s.mu.Lock()
		if late := clk.Monotonic() - due; late > lateness {
			s.missed += late
			s.Missed.Add(int64(late))
		}
		now = s.attended()
		lapsed := false
		for node, g := range s.given {
			if g.expected != 0 && !g.had && !g.gives && !g.silent && now >= g.expected+silentAfter {
				lapsed, g.silent = true, true
				s.version++
			}
			if g.gives && now >= g.deadline { // support.SU1
				lapsed = true
				g.gives = false
				s.Lapsed.Add(1)
				s.o.Host.Log.Info("a node has not been heard of, and loses this node's support", "peer", node, "incarnation", g.incarnation)
				s.version++
				if g.incarnation >= g.least && g.incarnation != 0 {
					s.raise(node, g, g.incarnation+1)
				}
			}
		}
		if lapsed {
			s.tell()
		}
		s.mu.Unlock()
		if lapsed {
			s.kickAll()
		}
	}
}

// withdrawFor withdraws from a node because somebody needs it, unless the node has support. The caller has the lock.
func (s *Support) withdrawFor(w want) {
	if w.node == kv.NodeID(s.self.Load()) {
		return
	}
	if g := s.of(w.node); g != nil && !g.gives && !g.raising && g.least <= w.incarnation {
		s.raise(w.node, g, max(w.incarnation, g.incarnation)+1)
	}
}

// raise withdraws from the incarnations of a node that are smaller than one, and says so when that is durable (support.SU2). The caller has the lock, and the node no
// support.
func (s *Support) raise(node kv.NodeID, g *given, to uint64) {
	g.raising = true
	w := withdrawal{node: node, least: max(to, g.least), end: g.end}
	s.o.Host.Group.Go(func(context.Context) {
		if err := s.write(&w); err != nil {
			if s.o.OnFatal != nil {
				s.o.OnFatal(err)
			}
			return // for good: what may be on the disk is not said
		}
		s.mu.Lock()
		g.least, g.said, g.raising = w.least, w.end, false
		g.incarnation = max(g.incarnation, w.least)
		s.version++
		s.tell()
		s.mu.Unlock()
		s.Withdrawals.Add(1)
		s.kickAll()
	})
}

func (s *Support) write(w *withdrawal) error {
	if d, ok := s.o.Host.FS.(host.SlowDisk); ok {
		if wait := d.BeginSync(); wait != nil {
			wait()
		}
	}
	b := s.o.Engine.NewBatch()
	defer b.Close()
	b.Put(keys.SupportKey(w.node), wire.Append(nil, w, (*withdrawal).fields))
	return b.Commit(true)
}

// news is all that this node says of others. The caller has the lock.
func (s *Support) news() *withdrawals {
	n := &withdrawals{version: s.version, of: make([]withdrawal, 0, len(s.given)+1)}
	for node, g := range s.given {
		n.of = append(n.of, withdrawal{node: node, least: g.least, end: g.said, lapsed: g.lapsed(), silent: g.silent})
	}
	// Leases of this node's earlier processes are over (support.SU4).
	n.of = append(n.of, withdrawal{node: kv.NodeID(s.self.Load()), least: s.base, end: s.ready})
	return n
}
