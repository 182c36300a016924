package lease

import (
	"context"
	"slices"
	"time"

	"meridian/clock"
	"meridian/kv"
	"meridian/sql/catalog"
	"meridian/sql/sqlstate"
	"meridian/txn"
)

// A transaction that reads the past (AS OF SYSTEM TIME) sees the tables as they were defined then (lease.L5): a descriptor
// that may have changed since is read from the store at the transaction's own timestamp, as are names that lead to
// one. Descriptors that certainly have not changed come from the snapshot, without a read of the store.
//
// No change waits for such a transaction: later changes touch nothing that it reads, the definition included.

// maxPast bounds what a transaction keeps of descriptors of the past; more are read again when they are needed.
const maxPast = 1000

// pastOnly reports whether the transaction reads at a time since which something in the catalogue may have changed.
func (t *Txn) pastOnly(s *Snapshot) bool {
	if t.tx == nil {
		return false
	}
	at := t.tx.ReadTimestamp()
	return t.tx.Historical() && at.Less(s.modified) || at.Less(s.bounded)
}

// changedSince reports whether a descriptor may have changed since the historical transaction's timestamp.
func (t *Txn) changedSince(s *Snapshot, id catalog.ID) bool {
	if !t.pastOnly(s) {
		return false
	}
	at := t.tx.ReadTimestamp()
	if !t.tx.Historical() {
		e := s.byID[id]
		return e.endsAfter(at) // lease.L15; it waits for all other changes
	}
	return s.changedSince(at, id)
}

// changedSince reports whether a descriptor may have changed since a time.
func (s *Snapshot) changedSince(at clock.Timestamp, id catalog.ID) bool {
	if !at.Less(s.modified) {
		return false
	}
	e, ok := s.byID[id]
	return !ok || at.Less(e.modified)
}

// atThen is a descriptor as it was at the transaction's timestamp; nil if there was none, or it was dropped. Its owner and privileges are
// the present ones.
func (t *Txn) atThen(ctx context.Context, s *Snapshot, id catalog.ID) (*Descriptor, error) {
	if d, ok := t.kept(id); ok {
		return d, nil
	}
	v, err := t.tx.Get(ctx, descriptorKey(id), kv.NoLock, kv.Block)
	if err != nil {
		return nil, err
	}
	var d *Descriptor
	if v != nil {
		if d, err = t.m.decode(v); err != nil {
			return nil, err
		}
		if err := d.unusable(); err != nil {
			return nil, err
		}
		if d.Table != nil && !d.dropped() && !t.holds(id, d.Version()) {
			if err := t.checkData(ctx, d.Table); err != nil {
				return nil, err
			}
		}
		now := s.descriptor(id)
		switch {
		case now == nil:
		case now.Version() == d.Version() && !d.dropped():
			d = now // the snapshot knows only until when it changed at the latest
		case now.Table != nil && d.Table != nil:
			d.Table.Owner = now.Table.Owner
		case now.Schema != nil && d.Schema != nil:
			d.Schema.Owner = now.Schema.Owner
		case now.Database != nil && d.Database != nil:
			d.Database.Owner = now.Database.Owner
		}
		if d.dropped() {
			d = nil
		}
	}
	if d != nil && !t.tx.Historical() {
		t.mu.Lock()
		t.note(id, d.Version()) // it commits before the version ends (lease.L15)
		t.mu.Unlock()
	}
	if t.then == nil || len(t.then) >= maxPast {
		t.then, t.thenFrom = map[catalog.ID]*Descriptor{}, t.m.o.Clock.Now()
	}
	t.then[id] = d
	t.past = t.past || d == nil || d != s.descriptor(id)
	return d, nil
}

// KeepDropped is how long, at least, the data of tables and indexes stays after they were dropped or truncated. Then
// all of its versions are removed together, so reads of the past depend on it. A read begins only within the first two
// thirds of that time, so that it has five minutes to end.
const KeepDropped = 15 * time.Minute

// kept is a descriptor that was read not long ago.
func (t *Txn) kept(id catalog.ID) (d *Descriptor, ok bool) {
	if d, ok = t.then[id]; ok && t.m.o.Clock.Now().Wall-t.thenFrom.Wall > int64(KeepDropped)/6 {
		t.then = nil // whether the data still exists has to be checked again
		return nil, false
	}
	return d, ok
}

// holds reports whether the transaction is known to use a version, so that the data of it stays (Manager.Unused).
func (t *Txn) holds(id catalog.ID, version uint64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Contains(t.uses, use{id, version})
}

// checkData refuses a table of the past whose data may have been removed (KeepDropped). It takes secondary indexes
// whose data may be gone out of x.
func (t *Txn) checkData(ctx context.Context, x *catalog.Table) error {
	recent := t.m.o.Clock.Now().Add(-KeepDropped * 2 / 3)
	if x.Kind == catalog.KindView || recent.LessEq(t.tx.ReadTimestamp()) {
		return nil
	}
	tx := t.m.o.DB.Begin(txn.TxnOptions{Name: "catalogue", ReadOnly: true, AsOf: recent})
	defer tx.Rollback(ctx)
	v, err := tx.Get(ctx, descriptorKey(x.ID), kv.NoLock, kv.Block)
	if err != nil {
		return err
	}
	var there *catalog.Table
	if v != nil {
		d, err := t.m.decode(v)
		if err != nil {
			return err
		}
		there = d.Table
	}
	if there == nil || there.Dropped || len(x.Indexes) > 0 && there.Index(x.Indexes[0].ID) == nil {
		e := sqlstate.New(sqlstate.SnapshotTooOld, "snapshot too old: the data that relation \"%s\" had then is gone", x.Name)
		e.Detail = "It was dropped, truncated or rewritten after that time, and more than " + (KeepDropped * 2 / 3).String() + " ago."
		return e
	}
	x.Indexes = slices.DeleteFunc(x.Indexes, func(i catalog.Index) bool { return there.Index(i.ID) == nil })
	return nil
}

// namedThen finds the descriptor that had a name at the transaction's timestamp; nil if there was none.
func (t *Txn) namedThen(ctx context.Context, s *Snapshot, n nameKey) (*Descriptor, error) {
	if d := s.named(n); d != nil && !t.changedSince(s, d.ID()) {
		return d, nil
	}
	v, err := t.tx.Get(ctx, nameRowKey(n), kv.NoLock, kv.Block)
	if err != nil || v == nil {
		t.past = true
		return nil, err
	}
	id, err := decodeNameValue(v)
	if err != nil {
		return nil, err
	}
	d, err := t.atThen(ctx, s, id)
	if d == nil || err != nil || !slices.Contains(d.names(), n) {
		return nil, err
	}
	return d, nil
}

// ChangedSince reports whether anything in the catalogue may have changed since a time.
func (m *Manager) ChangedSince(at clock.Timestamp) bool { return at.Less(m.snap.Load().modified) }

// Past reports whether a descriptor that the transaction was given differs from the present one, or is dropped by now:
// a plan that is made from it is of no use to others.
func (t *Txn) Past() bool { return t.past }

// Load makes Use able to compare descriptors with those of the time at which a historical transaction reads. For others
// it does nothing.
func (t *Txn) Load(ctx context.Context, deps []catalog.Dependency) error {
	s := t.m.snap.Load()
	for _, d := range deps {
		if t.computed(d.ID) || !t.changedSince(s, d.ID) {
			continue
		}
		if _, err := t.atThen(ctx, s, d.ID); err != nil {
			return err
		}
	}
	return nil
}

func (t *Txn) computed(id catalog.ID) bool {
	return t.m.o.Relations != nil && t.m.o.Relations.ByID(id) != nil
}
