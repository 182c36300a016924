package lease

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"meridian/encoding"
	"meridian/keys"
	"meridian/kv"
	"meridian/sql/catalog"
	"meridian/sql/sqlstate"
	"meridian/txn"
)

// TRUNCATE and DROP TABLE take a table's data away at once, so two versions of the table do not get along: a row that
// is written with the version before, after the commit, would be lost. So there is a version in between, with which
// nobody does anything, and its commit is what PostgreSQL's exclusive lock is:
//
//	Flush    v+1  Frozen, and a row in /Table/7/3      in a transaction of its own
//	         wait: nobody uses v                       who wants the table now waits for v+2
//	         v+2  the change itself; the row is locked, seen to be there, and deleted
//	commit
//
// The row is the freeze (L6): the change commits only if it finds it, and whoever deletes it may use v+1 as if it were v.
// Its owner deletes it when the change comes to nothing, anybody when it is out of date.

// frozenRow is what is stored while a table is frozen.
type frozenRow struct {
	Version uint64 // the frozen one
	Until   int64  // wall nanoseconds after which anybody may delete the row
	By      []byte // the transaction
}

// frozen is a table that a transaction has frozen.
type frozen struct {
	id      catalog.ID
	version uint64
	row     []byte
}

const (
	// frozenPoll is how often those who wait for a frozen table look whether it still is; most are told before.
	frozenPoll = 500 * time.Millisecond
	// frozenSlack is what a change may take between the end of its wait and its commit.
	frozenSlack = 5 * time.Second
)

func frozenKey(id catalog.ID) keys.Key {
	return encoding.AppendUint(keys.IndexPrefix(catalog.LeaseTableID, catalog.IndexID(3)), uint64(id), encoding.Ascending)
}

// takesData reports whether an edit takes a table's rows away at once.
func (e *edit) takesData() bool {
	if e.base == nil || e.base.Table == nil || e.base.Table.Kind != catalog.KindTable {
		return false
	}
	base, now := e.base.Table, e.now.Table
	if now.Dropped != base.Dropped {
		return true
	}
	return now.Generation != base.Generation && len(base.Indexes) > 0 && now.Index(base.Indexes[0].ID) == nil
}

var errMoved = errors.New("lease: the descriptor was changed")

// freeze waits until nobody else uses the tables whose data the transaction takes away, and nobody begins to (L6).
func (t *Txn) freeze(ctx context.Context) error {
	var ids []catalog.ID
	for _, id := range t.order {
		if t.edits[id].takesData() {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	m := t.m
	patience := m.patience(t)
	by := t.tx.ID()
	limit, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := m.change(limit, t, func(ctx context.Context, tx *txn.Txn, c *Txn) error {
		var b txn.WriteBatch
		t.frozen = t.frozen[:0]
		for _, id := range ids {
			v := t.edits[id].base.Version()
			if d := c.Descriptor(id); d == nil || d.Version() != v {
				return errMoved
			}
			c.Table(id).Frozen = true
			row, err := json.Marshal(frozenRow{v + 1, m.o.Clock.Now().Wall + int64(patience+frozenSlack), by[:]})
			if err != nil {
				return err
			}
			b.Put(frozenKey(id), row)
			t.frozen = append(t.frozen, frozen{id, v + 1, row})
		}
		return tx.Write(ctx, &b)
	})
	if err != nil {
		if errors.Is(err, errMoved) {
			t.frozen = t.frozen[:0]
		}
		return t.notAlone(ctx, limit, err, ids)
	}
	s, err := t.lockFrozen(ctx)
	if err != nil {
		return err
	}
	for _, f := range t.frozen {
		e := t.edits[f.id]
		e.base = s.descriptor(f.id)
		*e.now.version() = f.version + 1
	}
	return nil
}

// patience is how long a transaction waits for those who use what it is going to change: long enough for a dead node's
// tenure to end. Transactions may wait for each other by way of that, which nobody sees: then it is given up, and those
// that are in the way end first.
func (m *Manager) patience(t *Txn) time.Duration {
	d := m.o.Duration + 2*time.Second
	if limit := t.tx.LockTimeout(); limit > 0 {
		d = min(d, limit)
	}
	return d
}

// notAlone is what becomes of a transaction that could not publish what has to come before its own versions. Reset waits
// for those that were in the way. limit is the context that bounded the wait.
func (t *Txn) notAlone(ctx, limit context.Context, err error, ids []catalog.ID) error {
	moved := errors.Is(err, errMoved)
	switch {
	case moved:
	case ctx.Err() != nil || limit.Err() == nil:
		return err
	case t.tx.LockTimeout() > 0 && t.m.patience(t) == t.tx.LockTimeout():
		return sqlstate.New(sqlstate.LockNotAvailable, "canceling statement due to lock timeout")
	case t.tx.HasWritten():
		// It may be that those who are in the way wait for this transaction.
		return sqlstate.New(sqlstate.LockNotAvailable, "other transactions have used table \"%s\" for %s and go on",
			t.edits[ids[0]].base.Table.Name, t.m.patience(t)).
			WithHint("Change the table in a transaction of its own, which waits for as long as it takes.")
	}
	for _, id := range ids {
		d := catalog.Dependency{ID: id}
		if !moved {
			d.Version = t.edits[id].base.Version() + 1
		}
		t.blocked = append(t.blocked, d)
	}
	if moved {
		return errStale("The object was changed.")
	}
	return errStale("Other transactions use the object.")
}

// lockFrozen sees to it that the transaction commits later than all who have used the tables, and only if these are
// still frozen.
func (t *Txn) lockFrozen(ctx context.Context) (*Snapshot, error) {
	var ks []keys.Key
	var ids []catalog.ID
	for _, f := range t.frozen {
		ids, ks = append(ids, f.id), append(ks, frozenKey(f.id), descriptorKey(f.id))
	}
	// Who has used them said so after his commit, and this node's clock has heard it. A read at its present time keeps
	// the write of the descriptor from being earlier.
	if _, err := t.m.learn(ctx, ids); err != nil {
		return nil, err
	}
	vs, err := t.tx.GetMany(ctx, ks, kv.Exclusive, kv.Block)
	if err != nil {
		return nil, err
	}
	s := t.m.snap.Load()
	for i, f := range t.frozen {
		d := s.descriptor(f.id)
		moved := !bytes.Equal(vs[2*i], f.row) || vs[2*i+1] == nil || d == nil || d.Version() != f.version
		if !moved {
			stored, err := decodeDescriptor(vs[2*i+1])
			if err != nil {
				return nil, err
			}
			moved = stored.Version() != f.version
		}
		if moved {
			t.blocked = append(t.blocked, catalog.Dependency{ID: f.id})
			return nil, errStale("The object was changed.")
		}
	}
	return s, nil
}

// Prepare publishes a version of a relation that comes between the present one and the transaction's own, and waits until
// nobody else uses the present one. f changes it, or reports that it need not be changed. It stays if the transaction
// rolls back.
func (t *Txn) Prepare(ctx context.Context, id catalog.ID, f func(*catalog.Table) bool) error {
	e, ok := t.edits[id]
	if !ok || e.base == nil {
		return nil
	}
	before := e.base.clone().Table
	if !f(before) {
		return nil
	}
	version := e.base.Version()
	limit, cancel := context.WithTimeout(ctx, t.m.patience(t))
	defer cancel()
	err := t.m.change(limit, t, func(ctx context.Context, tx *txn.Txn, c *Txn) error {
		if d := c.Descriptor(id); d == nil || d.Version() != version {
			return errMoved
		}
		f(c.Table(id))
		return nil
	})
	if err == nil {
		if now := t.m.snap.Load().descriptor(id); now != nil && now.Version() == version+1 {
			e.base, *e.now.version() = now, version+2
			t.prepared = append(t.prepared, now)
			return nil
		}
		err = errMoved
	}
	return t.notAlone(ctx, limit, err, []catalog.ID{id})
}

// isFrozen reports whether the transaction itself has frozen a table.
func (t *Txn) isFrozen(id catalog.ID) bool {
	return slices.ContainsFunc(t.frozen, func(f frozen) bool { return f.id == id })
}

// thaw lets others use what was frozen for nothing.
func (m *Manager) thaw(ctx context.Context, fs []frozen) {
	limit, cancel := context.WithTimeout(ctx, frozenSlack)
	defer cancel()
	for _, f := range fs {
		if err := m.breakFreeze(limit, f.id, f.row); err != nil {
			return // it ends by itself
		}
	}
}

// breakFreeze deletes the row of a freeze, unless it is another one's by now, and finds out what that makes of the table.
func (m *Manager) breakFreeze(ctx context.Context, id catalog.ID, row []byte) error {
	err := m.o.DB.Run(ctx, txn.TxnOptions{Name: "thaw"}, func(ctx context.Context, tx *txn.Txn) error {
		v, err := tx.Get(ctx, frozenKey(id), kv.Exclusive, kv.Block)
		if err != nil || !bytes.Equal(v, row) {
			return err
		}
		var b txn.WriteBatch
		b.Delete(frozenKey(id))
		return tx.Write(ctx, &b)
	})
	if err != nil {
		return err
	}
	var r frozenRow
	if err := json.Unmarshal(row, &r); err != nil {
		return err
	}
	return m.thawed(ctx, id, r.Version)
}

// thawed is called when the row that froze a version is known to be gone: either a newer version is there, or the
// version may be used.
func (m *Manager) thawed(ctx context.Context, id catalog.ID, version uint64) error {
	if _, err := m.learn(ctx, []catalog.ID{id}); err != nil {
		return err
	}
	m.mu.Lock()
	if m.snap.Load().version(id) == version {
		m.thaws[id] = version
	} else {
		delete(m.thaws, id)
	}
	m.mu.Unlock()
	m.announce()
	return nil
}

// barred reports whether a descriptor is one with which the transaction may not begin anything (L6). Who uses the
// version before goes on.
func (t *Txn) barred(d *Descriptor) bool {
	x := d.Table
	if x == nil || !x.Frozen || t.tx == nil || t.tx.Historical() || t.olderThan(x.ID, x.Version) {
		return false
	}
	t.m.mu.Lock()
	defer t.m.mu.Unlock()
	return t.m.thaws[x.ID] != x.Version
}

// awaitThaw waits until a table that is frozen in the snapshot may be used, in this version or another.
func (t *Txn) awaitThaw(ctx context.Context, d *Descriptor) error {
	m, id, version := t.m, d.ID(), d.Version()
	clk := m.o.Host.Clock
	began := clk.Monotonic()
	for {
		m.mu.Lock()
		news := m.news
		m.mu.Unlock()
		now := m.snap.Load().descriptor(id)
		if now == nil || now.Version() != version || !t.barred(now) {
			return nil
		}
		pause := frozenPoll
		if limit := t.tx.LockTimeout(); limit > 0 {
			if pause = min(pause, limit-(clk.Monotonic()-began)); pause <= 0 {
				return sqlstate.New(sqlstate.LockNotAvailable, "canceling statement due to lock timeout")
			}
		}
		timer := clk.NewTimer(pause)
		select {
		case <-news:
			timer.Stop()
			continue
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-timer.C():
		}
		v, err := m.o.DB.Get(ctx, frozenKey(id))
		if err != nil {
			return err
		}
		var r frozenRow
		if v != nil {
			if err := json.Unmarshal(v, &r); err != nil {
				return err
			}
		}
		switch {
		case v == nil || r.Version != version:
			err = m.thawed(ctx, id, version)
		case r.Until < m.o.Clock.Now().Wall:
			err = m.breakFreeze(ctx, id, v)
		}
		if err != nil {
			return err
		}
	}
}
