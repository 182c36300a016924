package lease

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"meridian/clock"
	"meridian/sql/catalog"
)

// A node's part in versions that are valid from a registered time on: register.go.

// register notes registrations. One of the same version with an earlier time is replaced (lease.L18); there must be none of an earlier version (awaitEarlier).
func (m *Manager) register(regs []registration) {
	m.mu.Lock()
	s := m.snap.Load()
	var begin []catalog.ID
	n := s.withRegistered(func(all map[catalog.ID]registration) {
		for _, r := range regs {
			if s.version(r.id) >= r.version {
				continue // it is there already
			}
			if old, ok := all[r.id]; ok && r.at.Less(old.at) {
				continue // a message that was late: a publisher chooses later times only
			}
			all[r.id] = r
			if !m.awaiting[r.id] {
				m.awaiting[r.id] = true
				begin = append(begin, r.id)
			}
		}
	})
	m.snap.Store(n)
	m.mu.Unlock()
	m.announce()
	for _, id := range begin {
		m.o.Host.Group.Go(func(ctx context.Context) { m.awaitRegistered(ctx, id) })
	}
}

// passed reports whether a registration's time is past, as far as this node's transactions are concerned.
func (m *Manager) passed(r registration) bool {
	if r.exact {
		return m.o.Clock.TrueTime().After(r.at)
	}
	return m.o.Clock.Passed(r.at)
}

func (m *Manager) awaitPassed(ctx context.Context, r registration) error {
	if r.exact {
		return m.o.Clock.AwaitAfter(ctx, r.at)
	}
	return m.o.Clock.AwaitPast(ctx, r.at)
}

// awaitRegistered has the node use a registered version when its time has come, or forgets the registration if it came to nothing (lease.L17).
func (m *Manager) awaitRegistered(ctx context.Context, id catalog.ID) {
	for {
		m.mu.Lock()
		r, ok := m.snap.Load().registered[id]
		if !ok {
			delete(m.awaiting, id)
			m.mu.Unlock()
			return
		}
		m.mu.Unlock()
		if m.awaitPassed(ctx, r) != nil {
			return
		}
		if now := m.snap.Load().registered[id]; now.at != r.at || now.version != r.version {
			continue
		} else if now.d != nil {
			m.apply([]change{{id: id, version: now.version, d: now.d, modified: now.at}})
			continue
		}
		if _, err := m.learn(ctx, []catalog.ID{id}); err != nil {
			if m.o.Host.Clock.Sleep(ctx, renewPause) != nil {
				return
			}
			continue
		}
		m.mu.Lock()
		if s := m.snap.Load(); s.registered[id].at == r.at && s.registered[id].version == r.version {
			m.snap.Store(s.withRegistered(func(all map[catalog.ID]registration) { delete(all, id) }))
		}
		m.mu.Unlock()
		m.announce()
		m.released()
	}
}

// holdBack takes out of changes those whose time has not come, and notes that they are decided. It is called with m.mu held.
func (m *Manager) holdBack(changes []change) []change {
	s := m.snap.Load()
	if len(s.registered) == 0 {
		return changes
	}
	var now []change
	for _, c := range changes {
		if r, ok := s.registered[c.id]; ok && c.d != nil && c.version == r.version && !m.passed(r) {
			r.d = c.d
			s = s.withRegistered(func(all map[catalog.ID]registration) { all[c.id] = r })
			continue
		}
		now = append(now, c)
	}
	m.snap.Store(s)
	return now
}

// coming counts waits for registered versions.
type coming struct{ count, nanos, longest atomic.Int64 }

func (c *coming) add(d time.Duration) {
	c.count.Add(1)
	c.nanos.Add(int64(d))
	for old := c.longest.Load(); int64(d) > old && !c.longest.CompareAndSwap(old, int64(d)); old = c.longest.Load() {
	}
}

// Coming tells how often transactions have waited for the time of a registered version (lease.L15), how long together, and how long at most.
func (m *Manager) Coming() (count int64, together, longest time.Duration) {
	return m.coming.count.Load(), time.Duration(m.coming.nanos.Load()), time.Duration(m.coming.longest.Load())
}

// awaitComing waits until a registered version that the transaction has to use is in use, or its registration has come to nothing.
func (t *Txn) awaitComing(ctx context.Context, id catalog.ID) error {
	m := t.m
	if _, wait := m.snap.Load().comes(id, t.tx.ReadTimestamp()); !wait {
		return nil
	}
	begin := m.o.Host.Clock.Monotonic()
	defer func() { m.coming.add(m.o.Host.Clock.Monotonic() - begin) }()
	for {
		m.mu.Lock()
		news := m.news
		m.mu.Unlock()
		if _, wait := m.snap.Load().comes(id, t.tx.ReadTimestamp()); !wait {
			return nil
		}
		select {
		case <-news:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// StillValid checks that the versions which the transaction uses are those of its timestamp, after that was chosen anew: 40001 if not.
func (t *Txn) StillValid() error {
	if t.Valid(t.tx.ReadTimestamp()) {
		return nil
	}
	return errStale("The relation is older than the transaction's snapshot.")
}

// Valid implements txn.Validity: no version that the transaction uses has ended before that time (lease.L15).
func (t *Txn) Valid(at clock.Timestamp) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.m.snap.Load()
	if !s.bounded.IsZero() && slices.ContainsFunc(t.uses, func(u use) bool {
		e := s.endOf(u)
		return !e.IsZero() && e.LessEq(at)
	}) {
		return false
	}
	t.promised = t.promised.Forward(at) // until it ends, no registration takes that back (lease.L16)
	return true
}

// promise bounds the timestamp at which the transaction may commit by the ends of the versions that it uses (lease.L15), and remembers what it has promised.
func (t *Txn) promise(d clock.Timestamp) clock.Timestamp {
	if t.tx == nil {
		return d // a Hold: it changes ranges, which have no part in this, and would begin anew with the same version
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	// The snapshot is loaded with the mutex held: a registration that finds no promise had been made before (lease.L16).
	if s := t.m.snap.Load(); !s.bounded.IsZero() {
		for _, u := range t.uses {
			if _, own := t.edits[u.id]; own {
				continue
			}
			if e := s.endOf(u); !e.IsZero() && e.LessEq(d) {
				d = e.Prev()
			}
		}
	}
	t.promised = d
	return d
}

// forgetEnded forgets versions that have ended: the next attempt uses others.
func (t *Txn) forgetEnded() {
	s := t.m.snap.Load()
	t.mu.Lock()
	t.uses = slices.DeleteFunc(t.uses, func(u use) bool { return !s.endOf(u).IsZero() })
	t.promised = clock.Timestamp{}
	t.mu.Unlock()
	t.m.released()
}

// hasPromise reports whether the transaction may still commit at or after the time of a registration with an earlier version.
func (t *Txn) hasPromise(r registration) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !t.promised.Less(r.at) && slices.ContainsFunc(t.uses, func(u use) bool { return u.id == r.id && u.version < r.version })
}

// settleRegistered waits until no transaction of this node but self has such a promise. Its commit is on its way, so that this is soon.
func (m *Manager) settleRegistered(ctx context.Context, regs []registration, self *Txn) error {
	m.drains.Add(1)
	defer m.drains.Add(-1)
	for {
		m.mu.Lock()
		wake, busy := m.wake, false
		for t := range m.open {
			busy = busy || t != self && slices.ContainsFunc(regs, t.hasPromise)
		}
		m.mu.Unlock()
		if !busy {
			return nil
		}
		select {
		case <-wake:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// awaitEarlier waits until the times of earlier versions than those to be registered have come: another node's clock may be ahead.
func (m *Manager) awaitEarlier(ctx context.Context, regs []registration) error {
	for {
		m.mu.Lock()
		news := m.news
		m.mu.Unlock()
		s := m.snap.Load()
		if !slices.ContainsFunc(regs, func(r registration) bool {
			old, ok := s.registered[r.id]
			return ok && old.version < r.version
		}) {
			return nil
		}
		select {
		case <-news:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// takeRegistration answers the publisher of a registration (lease.L16).
func (m *Manager) takeRegistration(ctx context.Context, regs []registration) error {
	if err := m.awaitEarlier(ctx, regs); err != nil {
		return err
	}
	m.register(regs)
	if err := m.settleRegistered(ctx, regs, nil); err != nil {
		return err
	}
	for _, r := range regs {
		if !m.o.Clock.Now().Less(r.at) || r.exact && !m.o.Clock.TrueTime().Before(r.at) {
			return errCome // a snapshot at that time may have been begun with an earlier version
		}
	}
	return nil
}
