package lease

import (
	"context"
	"errors"
	"sync"
	"time"

	"meridian/clock"
	"meridian/keys"
	"meridian/kv"
	"meridian/sql/catalog"
	"meridian/sql/sqlstate"
	"meridian/txn"
	"meridian/wire"
)

// waitForOthers bounds how long a change that replaced nothing waits for the other nodes to learn of it: they find it
// by themselves when they need it.
const waitForOthers = 3 * time.Second

// publish tells all nodes of committed changes, and waits until no transaction but self uses the versions that they replaced.
func (m *Manager) publish(ctx context.Context, changes []change, self *Txn) error {
	m.apply(changes)
	deps := make([]catalog.Dependency, 0, len(changes))
	replaced := false
	for _, c := range changes {
		deps = append(deps, catalog.Dependency{ID: c.id, Version: c.version})
		replaced = replaced || c.version > 1
	}
	if replaced {
		return m.confirm(ctx, deps, changes, self)
	}
	limit, cancel := m.o.Host.Clock.WithTimeout(ctx, waitForOthers)
	defer cancel()
	if err := m.confirm(limit, deps, changes, self); err != nil && ctx.Err() != nil {
		return err
	}
	return nil
}

// confirm waits until every node uses at least these versions (lease.L1), and removes their pending rows. changes are the
// descriptors themselves, if the caller has them. self is not waited for: it goes on to the next version, and takes the
// rows along.
func (m *Manager) confirm(ctx context.Context, deps []catalog.Dependency, changes []change, self *Txn) error {
	if changes == nil {
		ids := make([]catalog.ID, len(deps))
		for i, d := range deps {
			ids[i] = d.ID
		}
		var err error
		if changes, err = m.learn(ctx, ids); err != nil {
			return err
		}
		for i := range changes {
			// There may be a later version by now, whose publisher waits for the transaction that waits here.
			changes[i].used = deps[i].Version
		}
	}
	payload, err := encodeMessage(changes, nil, clock.Timestamp{})
	if err != nil {
		return err
	}
	acked := &ackSet{nodes: map[kv.NodeID]bool{m.o.NodeID(): true}}
	for try := 0; ; try++ {
		others, err := m.tenants(ctx, deps, acked)
		if err != nil {
			return err
		}
		if others == 0 {
			break
		}
		if m.o.Notifier != nil && try%5 == 0 {
			limit, cancel := m.o.Host.Clock.WithTimeout(ctx, time.Second)
			m.o.Notifier.Broadcast(limit, payload, acked.add)
			cancel()
			if others = acked.missing(); others == 0 {
				break
			}
		}
		if err := m.o.Host.Clock.Sleep(ctx, min(20*time.Millisecond<<min(try, 4), 200*time.Millisecond)); err != nil {
			return err
		}
	}
	if err := m.drain(ctx, deps, self); err != nil {
		return err
	}
	m.mu.Lock()
	for _, d := range deps {
		if m.confirmed[d.ID] < d.Version {
			m.confirmed[d.ID] = d.Version
		}
	}
	m.mu.Unlock()
	if self == nil {
		m.o.Host.Group.Go(func(ctx context.Context) { m.unmark(ctx, deps) })
	}
	return nil
}

// Everywhere waits until every node uses at least this version of a descriptor, which this node knows. The publisher may have died while it
// waited for that.
func (m *Manager) Everywhere(ctx context.Context, d catalog.Dependency) error {
	m.mu.Lock()
	done := m.confirmed[d.ID] >= d.Version
	m.mu.Unlock()
	for _, x := range m.snap.Load().byID[d.ID].ends {
		done = done || x.version == d.Version // no transaction commits with an earlier one from its time on (lease.L15)
	}
	if done {
		return nil
	}
	// The row was written together with the version, and is removed when all nodes use that version.
	row, err := m.o.DB.Get(ctx, pendingKey(d.ID))
	if err != nil || row == nil {
		return err
	}
	return m.confirm(ctx, []catalog.Dependency{d}, nil, nil)
}

// Unused waits until no transaction on any node uses an earlier version of a descriptor than this one.
func (m *Manager) Unused(ctx context.Context, d catalog.Dependency) error {
	return m.confirm(ctx, []catalog.Dependency{d}, nil, nil)
}

// ackSet records which nodes have answered, and which are waited for.
type ackSet struct {
	mu    sync.Mutex // guards the fields below; nothing is taken after it
	nodes map[kv.NodeID]bool
	want  []kv.NodeID
}

func (a *ackSet) add(n kv.NodeID, _ []byte) {
	a.mu.Lock()
	a.nodes[n] = true
	a.mu.Unlock()
}

func (a *ackSet) missing() (n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, w := range a.want {
		if !a.nodes[w] {
			n++
		}
	}
	return n
}

// tenants counts the nodes that have a tenure and have not said that they use the versions.
func (m *Manager) tenants(ctx context.Context, deps []catalog.Dependency, acked *ackSet) (int, error) {
	var want []kv.NodeID
	err := m.o.DB.Run(ctx, txn.TxnOptions{Name: "tenures", ReadOnly: true}, func(ctx context.Context, tx *txn.Txn) error {
		want = want[:0]
		return scanAll(ctx, tx, tenureSpan(), func(r kv.KeyValue) error {
			row, err := wire.Decoded(r.Value, (*tenureRow).fields)
			if err != nil {
				m.unread(r.Key, r.Value, err)
				return unreadRow("which versions a node uses", r.Key, err)
			}
			// Commits of the node before its tenure ended have a smaller timestamp than this read, and later ones fail: the read keeps its
			// renewal from being earlier (lease.L3).
			if row.Expiration <= tx.ReadTimestamp().Wall {
				return nil
			}
			for _, d := range deps {
				if row.Applied[d.ID] < d.Version {
					want = append(want, kv.NodeID(row.Node))
					return nil
				}
			}
			return nil
		})
	})
	if err != nil {
		return 0, err
	}
	acked.mu.Lock()
	acked.want = want
	acked.mu.Unlock()
	return acked.missing(), nil
}

// unreadRow is the error of a change that depends on a row which can't be read. A node that is there writes its own tenure again soon, but
// nobody else ever does, so it is not waited for.
func unreadRow(what string, key keys.Key, err error) error {
	e := sqlstate.New(sqlstate.DataCorrupted, "%s can't be read", what)
	if errors.As(err, new(*wire.VersionError)) {
		e = sqlstate.New(sqlstate.FeatureNotSupported, "%s was written by a later version of Meridian", what)
		e.Hint = "Use a node of the later version, or upgrade this one."
	}
	e.Cause = err
	return e.WithDetail("%s: %v.", key, err)
}

// unmark removes pending rows, unless they are of younger versions.
func (m *Manager) unmark(ctx context.Context, deps []catalog.Dependency) {
	limit, cancel := m.o.Host.Clock.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	err := m.o.DB.Run(limit, txn.TxnOptions{Name: "publication"}, func(ctx context.Context, tx *txn.Txn) error {
		var b txn.WriteBatch
		for _, d := range deps {
			row, err := tx.Get(ctx, pendingKey(d.ID), kv.NoLock, kv.Block)
			if err != nil {
				return err
			}
			if row == nil {
				continue
			}
			if p, err := wire.Decoded(row, (*pendingRow).fields); err == nil && p.Version <= d.Version && !p.Open {
				b.Delete(pendingKey(d.ID))
			}
		}
		return tx.Write(ctx, &b)
	})
	if err != nil {
		return // a poll finds the rows later
	}
}

// inUse reports whether a transaction other than self uses an older version, or may begin to until the registered one is valid.
func (m *Manager) inUse(id catalog.ID, version uint64, self *Txn) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r, ok := m.snap.Load().registered[id]; ok && r.version <= version {
		return true
	}
	for t := range m.open {
		if t != self && t.olderThan(id, version) {
			return true
		}
	}
	return false
}

func (t *Txn) olderThan(id catalog.ID, version uint64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, u := range t.uses {
		if u.id == id && u.version < version {
			return true
		}
	}
	return false
}

// drain waits until no transaction of this node but self uses a version older than these.
func (m *Manager) drain(ctx context.Context, deps []catalog.Dependency, self *Txn) error {
	m.drains.Add(1)
	defer m.drains.Add(-1)
	for {
		m.mu.Lock()
		wake := m.wake
		m.mu.Unlock()
		busy := false
		for _, d := range deps {
			if d.Version > 1 && m.inUse(d.ID, d.Version, self) {
				busy = true
				break
			}
		}
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

// released wakes drains after a transaction stopped using its versions.
func (m *Manager) released() {
	if m.drains.Load() == 0 {
		return
	}
	m.mu.Lock()
	close(m.wake)
	m.wake = make(chan struct{})
	m.mu.Unlock()
}

// encodeMessage makes a message. at is a time that is past, zero if it is that of the changes.
func encodeMessage(changes []change, stats []catalog.ID, at clock.Timestamp) ([]byte, error) {
	msg := message{Statistics: stats, At: at}
	for _, c := range changes {
		if c.from.IsZero() {
			msg.At = msg.At.Forward(c.modified)
		}
		mc := messageChange{ID: c.id, Version: c.version, Used: c.used, From: c.from, Exact: c.exact}
		if c.d != nil {
			var err error
			if mc.Descriptor, err = c.d.encode(); err != nil {
				return nil, err
			}
		}
		msg.Changes = append(msg.Changes, mc)
	}
	return wire.Append(nil, &msg, (*message).fields), nil
}

// HandleChange handles a message of another node, a change or a question: see Notifier. It returns when no transaction of this
// node uses a replaced version, or when the context ends.
func (m *Manager) HandleChange(ctx context.Context, payload []byte) ([]byte, error) {
	msg, err := wire.Decoded(payload, (*message).fields)
	if err != nil {
		return nil, err
	}
	if m.tenure.Load() == nil {
		return nil, errStopped
	}
	if len(msg.Ask) > 0 {
		return wire.Append(nil, &users{m.usersHere(msg.Ask)}, (*users).fields), nil
	}
	at := msg.At
	// The change's commit has waited (txn.TX8), so the sender's clock was past it.
	if err := m.o.Clock.Update(at); err != nil {
		return nil, err
	}
	var changes []change
	var deps []catalog.Dependency
	var regs []registration
	for _, c := range msg.Changes {
		if !c.From.IsZero() {
			if r, known := m.snap.Load().registered[c.ID]; c.Descriptor == nil || !known || r.at != c.From {
				regs = append(regs, registration{id: c.ID, version: c.Version, at: c.From, exact: c.Exact})
			}
			if c.Descriptor == nil {
				continue
			}
		}
		one := change{id: c.ID, version: c.Version, modified: at}
		if c.Descriptor != nil {
			var err error
			one.d, err = m.decode(c.Descriptor)
			if errors.As(err, new(*wire.VersionError)) {
				continue // no transaction here uses a descriptor that this version can't read
			}
			if err != nil {
				return nil, err
			}
		}
		if !c.From.IsZero() {
			one.modified = c.From
			changes = append(changes, one)
			continue // nobody waits for those who use the version before
		}
		changes = append(changes, one)
		dep := catalog.Dependency{ID: c.ID, Version: c.Version}
		if c.Used != 0 {
			dep.Version = c.Used
		}
		deps = append(deps, dep)
	}
	if len(regs) > 0 && len(changes) == 0 {
		return nil, m.takeRegistration(ctx, regs)
	}
	if err := m.awaitEarlier(ctx, regs); err != nil {
		return nil, err
	}
	m.register(regs)
	m.apply(changes)
	if len(msg.Statistics) > 0 {
		if err := m.learnStatistics(ctx, msg.Statistics); err != nil {
			return nil, err
		}
	}
	return nil, m.drain(ctx, deps, nil)
}
