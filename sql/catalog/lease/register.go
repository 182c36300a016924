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
	"meridian/wire"
)

// A version that is valid from a registered time on, everywhere (Spanner §4.2.3). The transaction that changes the schema has a timestamp t in the future:
//
//	publisher    row in /Table/7/2: version v+1 from t      in a transaction of its own
//	             every node with a tenure: registers t      it promises nothing beyond t to users of v from here on, and its clocks have not come to t
//	             commit, at exactly t                       writes the row of the registration, too
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
//	lease.L18: The row of a registration is removed only when its t is past, by a transaction that reads the row later than t, and another publisher registers the same version only
//	    when the row is gone. The commit at t writes that row, too: so one that is late fails, or is found by the reader.

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
	// leadReach bounds how far in the future the time is when the publisher commits: ranges refuse what is more than 5 s ahead of their leaseholders' clocks, which may be behind this one's.
	leadReach = 4 * time.Second
	// minRetry is the least time that a node gets after it was late.
	minRetry = 50 * time.Millisecond
	// spreadWithin bounds the message to all nodes that a version is decided: one that it does not reach looks for itself (lease.L17).
	spreadWithin = 10 * time.Second
)

// rounds is how long the parts of the last registered change took, in nanoseconds: its row was written; all nodes had registered it; all knew that it was decided. Zero: not known.
type rounds struct{ put, tell, decide atomic.Int64 }

// parts are what the parts of the next one are expected to take.
type parts struct{ put, tell, decide time.Duration }

// rest is what has to be left when all nodes have registered a change, or have not in time: for the decision to reach them, or a later time, before the one that they know
// has come.
func (p parts) rest() time.Duration { return max(p.put+p.tell, p.decide) }

// expected measures how long the nodes take to answer before the first change.
func (m *Manager) expected(ctx context.Context) (parts, error) {
	p := parts{time.Duration(m.rounds.put.Load()), time.Duration(m.rounds.tell.Load()), time.Duration(m.rounds.decide.Load())}
	if p.put+p.tell != 0 && p.decide != 0 {
		return p, nil
	}
	start := m.o.Host.Clock.Monotonic()
	if _, err := m.tenants(ctx, nil, &ackSet{}); err != nil {
		return parts{}, err
	}
	if m.o.Notifier != nil {
		limit, cancel := m.o.Host.Clock.WithTimeout(ctx, maxLead)
		m.o.Notifier.Broadcast(limit, nil, func(kv.NodeID, []byte) {})
		cancel()
	}
	trip := m.o.Host.Clock.Monotonic() - start
	return parts{trip, trip, 3 * trip}, nil
}

// tooLate remembers that a change which has had so long did not commit at its time: the next one gets twice as long.
func (r *rounds) tooLate(had time.Duration) { r.decide.Store(int64(min(2*had, maxLead/3))) }

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
			if base.Frozen != catalog.ExcludeNone || base.External != now.External || !base.Traits().StableView.Can() || !now.Traits().StableView.Can() {
				return false, false
			}
			exact = exact || base.External
		}
		registers = true
	}
	return registers && (exact || how == setting.RegisterAlways), exact
}

// Registering is what Registers said when Flush began, for the functions that BeforeFlush was given: the cluster's upgrade may go on meanwhile.
func (t *Txn) Registering() (registers, exact bool) { return t.registers, t.exact }

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
	need, err := m.expected(ctx)
	if err != nil {
		return err
	}
	for range registerTries {
		start := m.o.Host.Clock.Monotonic()
		at := clock.Timestamp{Wall: max(m.horizon(t.exact), t.tx.ReadTimestamp().Wall) + int64(min((need.put+need.tell+need.rest())*5/4+minLead, maxLead))}
		for i := range regs {
			regs[i].at = at
		}
		t.lastRegistered = regs[0]
		other, err := m.putRegistrations(ctx, regs, ks, t.by)
		if err != nil {
			return err
		}
		if other != nil {
			t.open, t.blocked = append(t.open, *other), append(t.blocked, catalog.Dependency{ID: other.id})
			return errStale("Another transaction changes the same object.")
		}
		t.registered = ks
		put := m.o.Host.Clock.Monotonic()
		if late := put - start - need.put; late > 0 {
			// The lease of the rows' range has gone further away since the last change, or the range is slower. Each of the other parts reads or writes there, too. If too little
			// is left, the nodes are not told of this time: they would hear of the next one when statements wait for this one already.
			need.put, need.tell, need.decide = need.put+late, need.tell+late, need.decide+late
			if left := time.Duration(at.Wall - m.horizon(t.exact)); left < need.tell+need.rest() {
				continue
			}
		}
		m.register(regs)
		told, err := m.tellRegistered(ctx, regs, deps, t, need.rest())
		if err != nil {
			return err
		}
		now := m.o.Host.Clock.Monotonic()
		if told {
			m.rounds.put.Store(int64(put - start))
			m.rounds.tell.Store(int64(now - put))
			if early := time.Duration(at.Wall-m.horizon(t.exact)) - leadReach; early > 0 {
				if err := m.o.Host.Clock.Sleep(ctx, early); err != nil {
					return err
				}
			}
			t.commitAt(at, m.o.Host.Clock.Monotonic())
			return nil
		}
		need.tell, need.decide = max(need.tell*2, now-put, minRetry), need.decide*3/2
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

// commitAt has the transaction commit at the time of its registrations. Flush writes their rows (lease.L18).
func (t *Txn) commitAt(at clock.Timestamp, begun time.Duration) {
	t.until, t.had = at, time.Duration(at.Wall-t.m.horizon(t.exact))
	t.tx.CommitNotBefore(at)
	changes := t.changes(at)
	t.tx.OnCommit(func(clock.Timestamp) {
		t.m.apply(changes)
		t.m.o.Host.Group.Go(func(ctx context.Context) { t.m.spread(ctx, changes, begun) })
	})
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
func (m *Manager) putRegistrations(ctx context.Context, regs []registration, ks []keys.Key, by kv.TxnID) (other *openRegistration, err error) {
	err = m.o.DB.Run(ctx, txn.TxnOptions{Name: "registration"}, func(ctx context.Context, tx *txn.Txn) error {
		vs, err := tx.GetMany(ctx, ks, kv.NoLock, kv.Block)
		if err != nil {
			return err
		}
		other = nil
		var b txn.WriteBatch
		for i, r := range regs {
			if vs[i] != nil {
				old, err := wire.Decoded(vs[i], (*pendingRow).fields)
				if err != nil {
					return unreadRow("an earlier change of the same object", ks[i], err)
				}
				if old.Version >= r.version && !(old.Open && bytes.Equal(old.By, by[:])) {
					other = &openRegistration{r.id, vs[i]}
					return nil
				}
			}
			b.Put(ks[i], wire.Append(nil, &pendingRow{Version: r.version, At: r.at, Exact: r.exact, By: by[:], Open: true}, (*pendingRow).fields))
		}
		return tx.Write(ctx, &b)
	})
	return other, err
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
			if row, err := wire.Decoded(v, (*pendingRow).fields); v != nil && err == nil && row.Open && bytes.Equal(row.By, by[:]) {
				b.Delete(ks[i])
			}
		}
		return tx.Write(ctx, &b)
	}) // else a poll removes them
}

// foundRegistration notes a registration whose row was found, if it has to be, or removes one that has been abandoned.
func (m *Manager) foundRegistration(ctx context.Context, id catalog.ID, p *pendingRow, row []byte, register bool) error {
	if m.o.Clock.Now().Wall-p.At.Wall > int64(completeAfter) {
		return m.overdue(ctx, id, row)
	}
	if r := (registration{id: id, version: p.Version, at: p.At, exact: p.Exact}); register && !m.passed(r) && m.snap.Load().registered[id].at != p.At {
		if err := m.awaitEarlier(ctx, []registration{r}); err != nil {
			return err
		}
		m.register([]registration{r})
	}
	return nil
}

// overdue removes a registration of another publisher when its time is past (lease.L18). The row is there no longer if that has committed.
func (m *Manager) overdue(ctx context.Context, id catalog.ID, row []byte) error {
	p, err := wire.Decoded(row, (*pendingRow).fields)
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
