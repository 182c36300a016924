package lease

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"meridian/clock"
	"meridian/keys"
	"meridian/kv"
	"meridian/setting"
	"meridian/sql/catalog"
	"meridian/sql/sqlstate"
	"meridian/txn"
	"meridian/version"
)

// A version that is valid from a registered time on, everywhere (Spanner §4.2.3). The transaction that changes the schema has a timestamp t in the future:
//
//	publisher    row in /Table/7/2: version v+1 from t      in a transaction of its own
//	             every node with a tenure: registers t      it promises nothing beyond t to users of v from here on, and its clocks have not come to t
//	             commit, at exactly t                       the row of the registration, read and locked, is a part of it
//	             every node: v+1 is decided                 before the commit wait, so long before t
//	             until after(t)                             the statement is answered
//	a node       a transaction that reads before t          uses v, also when t is past; it commits before t, or starts over
//	             one that reads at t or later               waits until t is past, at most as long as its clock's interval, and uses v+1
//
// No transaction is waited for, and none waits but those whose timestamps are later than t. The ranges of the table, however many, have no part in it.
//
//	lease.L15 (I7): A transaction that uses the version before a registered one commits before t, or not at all (Txn.Deadline). One whose snapshot is at t or
//	    later does not use it. So in the order of timestamps no write with one version lies between two with the other, and states that only keep such writes
//	    from harm are left out (schemachange.SC14).
//	lease.L16 (I7): The publisher commits at t only when each node with a tenure has said that it has registered t: from then on the node hands out no deadline
//	    at or after t to a transaction that uses an earlier version, has none left that was handed out before, and has begun no snapshot at or after t with an earlier version.
//	lease.L17: The row of the descriptor at t decides. A node that has not been told reads it when t is past, and that read keeps a late commit from
//	    the timestamp t (leader.P1): the change has happened, or it never will at t.
//	lease.L18: The commit removes the registration that it relies on, and fails without it. Another publisher replaces a registration only when its t is past.

// registration is a version that becomes valid at a time, if it is committed by then.
type registration struct {
	id      catalog.ID
	version uint64
	at      clock.Timestamp
	// exact says that the time counts as true time, so that every reader agrees (txn.TX13): else as the time of each node's clock.
	exact bool
	// d is the version, once it is known that it is committed.
	d *Descriptor
}

// end is when the versions before a registered one ended.
type end struct {
	version uint64
	at      clock.Timestamp
}

// maxEnds bounds what is remembered of a descriptor's ends. Transactions that use an even earlier version begin anew.
const maxEnds = 32

const (
	// registerTries bounds how often a publisher chooses a later time because a node was late.
	registerTries = 12
	// maxLead and minLead bound how far in the future a time is.
	maxLead = 10 * time.Second
	minLead = 5 * time.Millisecond
	// minRetry is the least time that a node gets after it was late.
	minRetry = 50 * time.Millisecond
	// spreadWithin bounds the message to all nodes that a version is decided: one that it does not reach looks for itself (lease.L17).
	spreadWithin = 10 * time.Second
)

// rounds is how long the two halves of the last registered change took, in nanoseconds: all nodes had registered it; all knew that it was decided. Zero: not known.
type rounds struct{ register, decide atomic.Int64 }

// expected is what the next one is expected to take. The first one measures how long the nodes take to answer.
func (m *Manager) expected(ctx context.Context) (register, decide time.Duration, err error) {
	register, decide = time.Duration(m.rounds.register.Load()), time.Duration(m.rounds.decide.Load())
	if register != 0 && decide != 0 {
		return register, decide, nil
	}
	start := m.o.Host.Clock.Monotonic()
	if _, err := m.tenants(ctx, nil, &ackSet{}); err != nil {
		return 0, 0, err
	}
	if m.o.Notifier != nil {
		limit, cancel := m.o.Host.Clock.WithTimeout(ctx, maxLead)
		m.o.Notifier.Broadcast(limit, nil, func(kv.NodeID, []byte) {})
		cancel()
	}
	both := 2 * (m.o.Host.Clock.Monotonic() - start)
	return both, both, nil
}

// errCome is the answer of a node whose clock has come to the time that it should register.
var errCome = errors.New("lease: the time of the registration has come")

// endOf is the time before which a transaction that uses a version has to commit (lease.L15); zero: there is none.
func (s *Snapshot) endOf(u use) clock.Timestamp {
	e := s.byID[u.id]
	for i, x := range e.ends {
		if u.version < x.version {
			if i == 0 && len(e.ends) == maxEnds && u.version+1 < x.version {
				return clock.Timestamp{Logical: 1} // it may have ended earlier
			}
			return x.at
		}
	}
	if r, ok := s.registered[u.id]; ok && u.version < r.version {
		return r.at
	}
	return clock.Timestamp{}
}

// endsAfter reports whether the present version is valid from a registered time on that is after at.
func (e *entry) endsAfter(at clock.Timestamp) bool {
	return len(e.ends) > 0 && at.Less(e.ends[len(e.ends)-1].at)
}

// comes is the registration of a version that a transaction which reads at a timestamp has to use, and that is not known yet.
func (s *Snapshot) comes(id catalog.ID, at clock.Timestamp) (registration, bool) {
	r, ok := s.registered[id]
	return r, ok && r.at.LessEq(at)
}

// withRegistered is the snapshot with other registrations.
func (s *Snapshot) withRegistered(f func(map[catalog.ID]registration)) *Snapshot {
	n := *s
	if n.registered = maps.Clone(s.registered); n.registered == nil {
		n.registered = map[catalog.ID]registration{}
	}
	f(n.registered)
	for _, r := range n.registered {
		n.bounded = n.bounded.Forward(r.at)
	}
	return &n
}

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

// Registers reports whether the changes so far are to be valid from a registered time on (lease.L15), and whether that is exact: by true time, for transactions whose
// snapshots do not move.
func (t *Txn) Registers() (registers, exact bool) {
	m := t.m
	if !m.Active(version.RegisteredSchemas) || t.freezes != nil || len(t.frozen) > 0 {
		return false, false
	}
	how := setting.RegisteredSchemas.In(m.Settings())
	if how == setting.RegisterNever {
		return false, false
	}
	for _, id := range t.order {
		e := t.edits[id]
		if e.now.Table != nil && t.tx.HasLoaded(keys.TableSpan(id)) {
			return false, false
		}
		if !e.registrable() {
			continue
		}
		if base, now := e.base.Table, e.now.Table; base != nil {
			if base.Frozen != catalog.ExcludeNone || base.External != now.External || base.Leaderless() || now.Leaderless() {
				return false, false
			}
			exact = exact || base.External
		}
		registers = true
	}
	return registers && (exact || how == setting.RegisterAlways), exact
}

// registrable reports whether transactions rely on the earlier version of what was changed.
func (e *edit) registrable() bool {
	return e.base != nil && (e.base.Table != nil || e.base.Type != nil || e.base.Schema != nil || e.base.Database != nil)
}

// register has all nodes register the versions of the transaction, and has it commit at their time.
func (t *Txn) register(ctx context.Context) error {
	m := t.m
	var regs []registration
	var deps []catalog.Dependency
	var ks []keys.Key
	for _, id := range t.order {
		if e := t.edits[id]; e.registrable() {
			regs = append(regs, registration{id: id, version: e.now.Version(), exact: t.exact})
			deps = append(deps, catalog.Dependency{ID: id, Version: e.now.Version()})
			ks = append(ks, pendingKey(id))
		}
	}
	if t.everRegistered == nil {
		t.by = t.tx.ID()
	}
	for _, k := range ks {
		if !slices.ContainsFunc(t.everRegistered, k.Equal) {
			t.everRegistered = append(t.everRegistered, k)
		}
	}
	round, rest, err := m.expected(ctx)
	if err != nil {
		return err
	}
	for range registerTries {
		start := m.o.Host.Clock.Monotonic()
		at := clock.Timestamp{Wall: max(m.horizon(t.exact), t.tx.ReadTimestamp().Wall) + int64(min((round+rest)*5/4+minLead, maxLead))}
		for i := range regs {
			regs[i].at = at
		}
		t.lastRegistered = regs[0]
		rows, other, err := m.putRegistrations(ctx, regs, ks, t.by)
		if err != nil {
			return err
		}
		if other != nil {
			t.open, t.blocked = append(t.open, *other), append(t.blocked, catalog.Dependency{ID: other.id})
			return errStale("Another transaction changes the same object.")
		}
		t.registered = ks
		m.register(regs)
		told, err := m.tellRegistered(ctx, regs, deps, t, rest)
		if err != nil {
			return err
		}
		now := m.o.Host.Clock.Monotonic()
		if told {
			m.rounds.register.Store(int64(now - start))
			return t.commitAt(ctx, at, ks, rows, now)
		}
		round, rest = max(round*2, now-start, minRetry), rest*3/2
	}
	e := sqlstate.New(sqlstate.ObjectNotInPrerequisite, "a time for the change of the schema could not be agreed upon")
	e.Detail = "Some node did not answer in time that it knows of the change."
	e.Hint = "Try again. A node that has died is not asked for longer than " + m.o.Duration.String() + "."
	return e
}

// horizon is the latest time at which a transaction that begins anywhere may read now.
func (m *Manager) horizon(exact bool) int64 {
	now := m.o.Clock.TrueTime()
	at := max(now.Latest.Wall, m.o.Clock.Now().Wall)
	if exact {
		at += now.Latest.Wall - now.Earliest.Wall // another node's clock is ahead by as much, at most, and it reads at the end of its own interval (txn.TX13)
	}
	return at
}

// commitAt has the transaction commit at the time of its registrations, whose rows it reads and locks (lease.L18).
func (t *Txn) commitAt(ctx context.Context, at clock.Timestamp, ks []keys.Key, rows [][]byte, begun time.Duration) error {
	vs, err := t.tx.GetMany(ctx, ks, kv.Exclusive, kv.Block)
	if err != nil {
		return err
	}
	for i := range vs {
		if !bytes.Equal(vs[i], rows[i]) {
			return errStale("Another transaction changes the same object.")
		}
	}
	t.until = at
	t.tx.CommitNotBefore(at)
	changes := t.changes(at)
	t.tx.OnCommit(func(clock.Timestamp) {
		t.m.apply(changes)
		t.m.o.Host.Group.Go(func(ctx context.Context) { t.m.spread(ctx, changes, begun) })
	})
	return nil
}

// changes are the transaction's changes, with the time at which they are made.
func (t *Txn) changes(at clock.Timestamp) (all []change) {
	for _, id := range t.order {
		e := t.edits[id]
		c := change{id: id, version: e.now.Version(), d: e.now, modified: at}
		if t.registers {
			c.from, c.exact = at, t.exact
		}
		all = append(all, c)
	}
	return all
}

// putRegistrations writes the rows of registrations, unless another publisher has registered the same version, or a later one.
func (m *Manager) putRegistrations(ctx context.Context, regs []registration, ks []keys.Key, by kv.TxnID) (rows [][]byte, other *openRegistration, err error) {
	err = m.o.DB.Run(ctx, txn.TxnOptions{Name: "registration"}, func(ctx context.Context, tx *txn.Txn) error {
		vs, err := tx.GetMany(ctx, ks, kv.NoLock, kv.Block)
		if err != nil {
			return err
		}
		rows, other = rows[:0], nil
		var b txn.WriteBatch
		for i, r := range regs {
			if vs[i] != nil {
				old, err := decodePending(vs[i])
				if err != nil {
					return unreadRow("an earlier change of the same object", ks[i], err)
				}
				if old.Version >= r.version && !(old.Open && bytes.Equal(old.By, by[:])) {
					other = &openRegistration{r.id, vs[i]}
					return nil
				}
			}
			rows = append(rows, appendPending(nil, &pendingRow{Version: r.version, At: r.at, Exact: r.exact, By: by[:], Open: true}))
			b.Put(ks[i], rows[i])
		}
		return tx.Write(ctx, &b)
	})
	return rows, other, err
}

// tellRegistered has every node with a tenure register, and reports whether all have done so in time: with so much left that the nodes can be told of the decision, or
// of a later time, before this one has come.
func (m *Manager) tellRegistered(ctx context.Context, regs []registration, deps []catalog.Dependency, self *Txn, rest time.Duration) (bool, error) {
	at := regs[0].at
	changes := make([]change, len(regs))
	for i, r := range regs {
		changes[i] = change{id: r.id, version: r.version, from: r.at, exact: r.exact}
	}
	payload, err := encodeMessage(changes, nil, clock.Timestamp{})
	if err != nil {
		return false, err
	}
	limit, cancel := m.o.Host.Clock.WithTimeout(ctx, time.Duration(at.Wall-m.horizon(regs[0].exact))-rest)
	defer cancel()
	acked := &ackSet{nodes: map[kv.NodeID]bool{m.o.NodeID(): true}}
	if err := m.settleRegistered(limit, regs, self); err != nil {
		return false, ctx.Err()
	}
	for {
		others, err := m.tenants(limit, deps, acked)
		switch {
		case limit.Err() != nil:
			return false, ctx.Err()
		case err != nil:
			return false, err
		case others == 0:
			return true, nil
		}
		if m.o.Notifier != nil {
			m.o.Notifier.Broadcast(limit, payload, acked.add)
			if acked.missing() == 0 {
				return true, nil
			}
		}
		if m.o.Host.Clock.Sleep(limit, 20*time.Millisecond) != nil {
			return false, ctx.Err()
		}
	}
}

// spread tells all nodes that the registered versions are decided, and remembers how long that took since the commit began.
func (m *Manager) spread(ctx context.Context, changes []change, begun time.Duration) {
	payload, err := encodeMessage(changes, nil, clock.Timestamp{})
	if err != nil || m.o.Notifier == nil {
		return
	}
	limit, cancel := m.o.Host.Clock.WithTimeout(ctx, spreadWithin)
	defer cancel()
	m.o.Notifier.Broadcast(limit, payload, func(kv.NodeID, []byte) {})
	if limit.Err() == nil {
		m.rounds.decide.Store(int64(m.o.Host.Clock.Monotonic() - begun))
	}
}

// publishRegistered is publish for registered versions, when their time has come. Nobody is waited for but nodes whose clocks are behind.
func (m *Manager) publishRegistered(ctx context.Context, changes []change) error {
	at, exact := clock.Timestamp{}, false
	var deps []catalog.Dependency
	for _, c := range changes {
		deps = append(deps, catalog.Dependency{ID: c.id, Version: c.version})
		at, exact = at.Forward(c.from), exact || c.exact
	}
	err := m.awaitPassed(ctx, registration{at: at, exact: exact})
	m.apply(changes)
	if err == nil && !exact {
		err = m.reach(ctx, changes, deps)
	}
	if err == nil {
		m.o.Host.Group.Go(func(ctx context.Context) { _ = m.confirm(ctx, deps, nil, nil) }) // else a poll completes it
	}
	return err
}

// reach waits until the clocks of all nodes have passed the time of registered versions.
func (m *Manager) reach(ctx context.Context, changes []change, deps []catalog.Dependency) error {
	payload, err := encodeMessage(changes, nil, changes[0].modified)
	if err != nil {
		return err
	}
	acked := &ackSet{nodes: map[kv.NodeID]bool{m.o.NodeID(): true}}
	for {
		if others, err := m.tenants(ctx, deps, acked); others == 0 || err != nil {
			return err
		}
		if m.o.Notifier != nil {
			m.o.Notifier.Broadcast(ctx, payload, acked.add)
			if acked.missing() == 0 {
				return nil
			}
		}
		if err := m.o.Host.Clock.Sleep(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}

// withdraw removes registrations of a transaction that has not committed, the last of which was r, when that is past (lease.L18).
func (m *Manager) withdraw(ctx context.Context, ks []keys.Key, by kv.TxnID, r registration) {
	if m.awaitPassed(ctx, r) != nil {
		return
	}
	limit, cancel := m.o.Host.Clock.WithTimeout(ctx, thawWait)
	defer cancel()
	_ = m.o.DB.Run(limit, txn.TxnOptions{Name: "registration"}, func(ctx context.Context, tx *txn.Txn) error {
		vs, err := tx.GetMany(ctx, ks, kv.NoLock, kv.Block)
		if err != nil {
			return err
		}
		var b txn.WriteBatch
		for i, v := range vs {
			if row, err := decodePending(v); v != nil && err == nil && row.Open && bytes.Equal(row.By, by[:]) {
				b.Delete(ks[i])
			}
		}
		return tx.Write(ctx, &b)
	}) // else a poll removes them
}

// foundRegistration notes a registration whose row was found, or removes one that has been abandoned.
func (m *Manager) foundRegistration(ctx context.Context, id catalog.ID, p *pendingRow, row []byte) error {
	if m.o.Clock.Now().Wall-p.At.Wall > int64(completeAfter) {
		return m.overdue(ctx, id, row)
	}
	if r := (registration{id: id, version: p.Version, at: p.At, exact: p.Exact}); !m.passed(r) && m.snap.Load().registered[id].at != p.At {
		if err := m.awaitEarlier(ctx, []registration{r}); err != nil {
			return err
		}
		m.register([]registration{r})
	}
	return nil
}

// overdue removes a registration of another publisher when its time is past (lease.L18). The row is there no longer if that has committed.
func (m *Manager) overdue(ctx context.Context, id catalog.ID, row []byte) error {
	p, err := decodePending(row)
	if err != nil || !p.Open {
		return err
	}
	if err := m.awaitPassed(ctx, registration{at: p.At, exact: p.Exact}); err != nil {
		return err
	}
	return m.o.DB.Run(ctx, txn.TxnOptions{Name: "registration"}, func(ctx context.Context, tx *txn.Txn) error {
		v, err := tx.Get(ctx, pendingKey(id), kv.NoLock, kv.Block)
		if err != nil || !bytes.Equal(v, row) {
			return err
		}
		var b txn.WriteBatch
		b.Delete(pendingKey(id))
		return tx.Write(ctx, &b)
	})
}
