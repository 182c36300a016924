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
	"meridian/wire"
)

// A transaction that changes a table while others use it either changes it step by step (sql/schemachange), or locks it until it
// ends. LOCK TABLE and a change of the schema inside a transaction do the second, and TRUNCATE and DROP TABLE always do, because a
// row that is written with the earlier version and committed after them would be lost:
//
//	Lock     the lock of the table, a key without a value, for the transaction itself    one after the other, with deadlock detection
//	         v+1  Frozen, and a row in /Table/7/3      in a transaction of its own       transactions that want the table now wait for the lock
//	         wait: no other transaction uses v
//	         the row, read and locked                  the transaction reads later than all who have used v
//	  ...
//	Flush    v+2  the changes; the row is deleted
//	commit
//
// The row is the freeze (lease.L6): the change commits only if the row exists, and once the row is deleted, v+1 may be used as if it
// were v. The lock only makes others wait for the transaction. They get it when the transaction has ended, or its node has died, or the
// leaseholder has lost the lock: then they delete the row, if it still exists, and the transaction, if it is still open, can't commit.

// frozen is a table that a transaction has frozen.
type frozen struct {
	id      catalog.ID
	version uint64
	by      kv.TxnID
	row     []byte
	out     catalog.Exclusion
}

const (
	// thawWait bounds the attempt to delete the row of a freeze: transactions that wait for the table delete it too.
	thawWait = 5 * time.Second
	// noWait is how long a transaction that does not want to wait gives the nodes to answer.
	noWait = 500 * time.Millisecond
	// relocks bounds how often a transaction publishes a frozen version anew because another version came between.
	relocks = 20
)

// lockKey stands for a whole table in lock tables, in addition to its rows. It never has a value.
func lockKey(id catalog.ID) keys.Key { return keys.IndexPrefix(id, catalog.IndexID(0)) }

// frozenKey is the key of a freeze's row. Each freeze has a key of its own, so that a transaction which has locked one can
// lock another.
func frozenKey(id catalog.ID, version uint64) keys.Key {
	k := encoding.AppendUint(keys.IndexPrefix(catalog.LeaseTableID, catalog.IndexID(3)), uint64(id), encoding.Ascending)
	return encoding.AppendUint(k, version, encoding.Ascending)
}

func frozenSpan() keys.Span { return keys.IndexSpan(catalog.LeaseTableID, catalog.IndexID(3)) }

// takesData reports whether an edit removes all rows of a table at once.
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

// LockDropped locks the tables whose data the transaction removes (lease.L6). Flush does so too.
func (t *Txn) LockDropped(ctx context.Context) error {
	var ids []catalog.ID
	for _, id := range t.order {
		if e := t.edits[id]; e.takesData() {
			if ids = append(ids, id); e.now.Table.Dropped && !slices.Contains(t.drops, id) {
				t.drops = append(t.drops, id)
			}
		}
	}
	return t.Lock(ctx, ids, catalog.ExcludeAll, kv.Block)
}

// endsRewrite reports whether the transaction is the last step of the rewrite that is under way.
func (t *Txn) endsRewrite(id catalog.ID, now *catalog.Table) bool {
	e, ok := t.edits[id]
	return ok && now.Rewrite != nil && e.now.Table != nil && e.now.Table.Rewrite == nil && e.takesData()
}

// Lock waits until no transaction that out excludes uses the tables; none begins to until the caller's transaction has ended.
// Other transactions that lock the tables in such a mode wait, too. Tables that the transaction has made itself are passed
// over. With kv.NoWait, Lock fails if it had to wait.
func (t *Txn) Lock(ctx context.Context, ids []catalog.ID, out catalog.Exclusion, wait kv.WaitPolicy) error {
	var want []catalog.ID
	for _, id := range ids {
		if !t.IsNew(id) && (out == catalog.ExcludeNone || t.excludes(id) < out) && !slices.Contains(want, id) {
			want = append(want, id)
		}
	}
	if len(want) == 0 {
		return nil
	}
	t.letGo(want)
	if err := t.jobsFirst(ctx, want, wait); err != nil {
		return err
	}
	for _, id := range want {
		if _, err := t.tx.Get(ctx, lockKey(id), kv.Exclusive, wait); err != nil {
			return t.notLocked(id, err)
		}
	}
	if out == catalog.ExcludeNone {
		return nil
	}
	patience := t.m.patience(t)
	if wait == kv.NoWait {
		patience = noWait
	}
	want, err := t.lockKept(ctx, want, out)
	if err != nil || len(want) == 0 {
		return err
	}
	limit, cancel := t.m.o.Host.Clock.WithTimeout(ctx, patience)
	defer cancel()
	limit, seen := t.seenWaiting(limit, want)
	fs, err := t.publishFrozen(limit, want, out)
	late, deadlock := limit.Err() != nil, seen()
	if err == nil {
		if fs, err = t.aloneWith(ctx, fs); err == nil {
			return t.lockFrozen(ctx, fs)
		}
	}
	// The transaction may go on, from a savepoint: others need not wait for its end.
	t.m.thaw(context.WithoutCancel(ctx), fs)
	switch {
	case errors.Is(err, errMoved):
		return t.stepBack(want, false)
	case errors.Is(err, errJob):
		t.jobs = want
		return t.stepBack(want, true)
	case deadlock != nil:
		t.stepBack(want, true)
		t.tx.Lose(deadlock)
		return deadlock
	case ctx.Err() == nil && sqlstate.Is(err, sqlstate.SerializationFailure):
		return t.stepBack(want, true)
	case ctx.Err() != nil || !late:
		return err
	case wait == kv.NoWait:
		return t.notLocked(want[0], &kv.LockNotAvailableError{Key: lockKey(want[0])})
	case t.tx.LockTimeout() > 0 && patience == t.tx.LockTimeout():
		return errLate()
	}
	return t.stepBack(want, true)
}

// LockTable is Lock for a client that relies on the lock: the transaction commits only if it has held the lock without a
// break, whichever node dies (coordinator.CO10).
func (t *Txn) LockTable(ctx context.Context, id catalog.ID, out catalog.Exclusion, wait kv.WaitPolicy) error {
	if t.IsNew(id) {
		return nil
	}
	t.loose, t.wait = true, wait
	defer func() { t.loose, t.wait = false, kv.Block }()
	if err := t.Lock(ctx, []catalog.ID{id}, out, wait); err != nil {
		return err
	}
	t.tx.HoldLocks(true)
	defer t.tx.HoldLocks(false)
	_, err := t.tx.Get(ctx, lockKey(id), kv.Exclusive, kv.Block)
	return err
}

// notLocked names the table in the error of a statement that does not wait for it.
func (t *Txn) notLocked(id catalog.ID, err error) error {
	var locked *kv.LockNotAvailableError
	if !errors.As(err, &locked) || locked.Timeout {
		return err
	}
	d := t.Descriptor(id)
	if d == nil || d.Table == nil {
		return err
	}
	e := sqlstate.New(sqlstate.LockNotAvailable, "could not obtain lock on relation \"%s\"", d.Table.Name)
	e.Cause = err
	return e
}

// stepBack begins the transaction anew. If others use the table, it gives up its locks, because transactions may wait for
// each other through the descriptors' versions, where no deadlock is detected; Reset waits for the transactions that were in
// the way.
func (t *Txn) stepBack(ids []catalog.ID, inUse bool) error {
	for _, id := range ids {
		d := catalog.Dependency{ID: id}
		if now := t.m.snap.Load().descriptor(id); now != nil && inUse {
			d.Version = now.Version()
		}
		t.blocked = append(t.blocked, d)
	}
	if inUse {
		t.tx.GiveUp()
		return errStale("Other transactions use the object.")
	}
	return errStale("The object was changed.")
}

// publishFrozen publishes versions of the tables that no other transaction may begin to use, and waits until no other
// transaction uses the earlier ones. The transaction has the tables' locks.
func (t *Txn) publishFrozen(ctx context.Context, ids []catalog.ID, out catalog.Exclusion) (fs []frozen, err error) {
	m := t.m
	by := t.tx.ID()
	for try := 0; ; try++ {
		if _, err := m.learn(ctx, ids); err != nil {
			return nil, err
		}
		for _, id := range ids {
			if err := t.mayFreeze(ctx, id); err != nil {
				return nil, err
			}
		}
		s := m.snap.Load()
		err := m.change(ctx, t, func(ctx context.Context, tx *txn.Txn, c *Txn) error {
			var b txn.WriteBatch
			fs = fs[:0]
			for _, id := range ids {
				d := c.Descriptor(id)
				if d == nil || d.Version() != s.version(id) {
					return errMoved
				}
				c.Table(id).Frozen = out
				row := wire.Append(nil, &frozenRow{Version: d.Version() + 1, By: by[:]}, (*frozenRow).fields)
				b.Put(frozenKey(id, d.Version()+1), row)
				fs = append(fs, frozen{id, d.Version() + 1, by, row, out})
			}
			return tx.Write(ctx, &b)
		})
		if !errors.Is(err, errMoved) || try >= relocks {
			return fs, err
		}
	}
}

// mayFreeze makes sure that the present version of a table is the one that the transaction has seen and changed, and that
// it is no longer frozen.
func (t *Txn) mayFreeze(ctx context.Context, id catalog.ID) error {
	d := t.m.snap.Load().descriptor(id)
	if d == nil || d.Table == nil || d.Table.Dropped {
		return errMoved
	}
	if e, ok := t.edits[id]; ok {
		if !sameTable(e.base, d) {
			return errMoved
		}
	} else if v := max(t.used(id), t.found[id]); v != 0 && v != d.Version() {
		return errMoved
	}
	if hasJob(d) && !t.endsRewrite(id, d.Table) {
		return errJob
	}
	if d.Table.Frozen == catalog.ExcludeNone || t.isFrozen(id) {
		return nil
	}
	row, err := t.m.o.DB.Get(ctx, frozenKey(id, d.Version()))
	if err != nil {
		return err
	}
	if row == nil {
		return t.m.thawed(ctx, id, d.Version())
	}
	if i := slices.IndexFunc(t.froze, func(f frozen) bool { return f.id == id && f.version == d.Version() }); i >= 0 {
		return nil // by an earlier attempt, in a less strict mode
	}
	return t.m.breakFreeze(ctx, id, row)
}

// letGo forgets that the statement which is about to lock tables uses them: it has only looked them up, and two such
// statements would wait for each other.
func (t *Txn) letGo(ids []catalog.ID) {
	t.mu.Lock()
	if n := t.known; n < len(t.uses) {
		kept := t.uses[:n]
		for _, u := range t.uses[n:] {
			if slices.Contains(ids, u.id) {
				if t.found == nil {
					t.found = map[catalog.ID]uint64{}
				}
				if !t.loose {
					t.found[u.id] = u.version
				}
			} else {
				kept = append(kept, u)
			}
		}
		t.uses = kept
	}
	t.mu.Unlock()
	t.m.released()
}

// used is the newest version of a descriptor on which the transaction relies.
func (t *Txn) used(id catalog.ID) (v uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, u := range t.uses {
		if u.id == id {
			v = max(v, u.version)
		}
	}
	return v
}

// sameTable reports whether two versions differ only in the transactions that may use them.
func sameTable(a, b *Descriptor) bool {
	if a == nil || b == nil || a.Table == nil || b.Table == nil {
		return false
	}
	if a.Version() == b.Version() {
		return true
	}
	x, y := *a.Table, *b.Table
	x.Version, x.Frozen, y.Version, y.Frozen = 0, 0, 0, 0
	ex, err := json.Marshal(&x)
	if err != nil {
		return false
	}
	ey, err := json.Marshal(&y)
	return err == nil && bytes.Equal(ex, ey)
}

// patience is how long a transaction waits for the users of a table that it is going to change: long enough for a dead
// node's tenure to end. Transactions may wait for each other in this way, where no deadlock is detected: then the wait
// is given up, and the transactions that are in the way end first.
func (m *Manager) patience(t *Txn) time.Duration {
	d := m.o.Duration + 2*time.Second
	if limit := t.tx.LockTimeout(); limit > 0 {
		d = min(d, limit)
	}
	return d
}

// aloneWith notes that no other transaction uses the tables. The new versions of the rows are later than all commits that used
// the earlier ones: a node answers after its commits, and its answer has moved this node's clock.
func (t *Txn) aloneWith(ctx context.Context, fs []frozen) ([]frozen, error) {
	for i := range fs {
		f := &fs[i]
		row := wire.Append(nil, &frozenRow{Version: f.version, By: f.by[:], Alone: true}, (*frozenRow).fields)
		var gone *kv.ConditionFailedError
		if err := t.m.o.DB.CPut(ctx, frozenKey(f.id, f.version), row, f.row); errors.As(err, &gone) {
			return fs, errMoved
		} else if err != nil {
			return fs, err
		}
		f.row = row
	}
	return fs, nil
}

// lockFrozen ensures that the transaction reads and commits later than all transactions that have used the tables, and commits
// only if they are still frozen.
func (t *Txn) lockFrozen(ctx context.Context, fs []frozen) error {
	ks := make([]keys.Key, len(fs))
	for i := range fs {
		ks[i] = frozenKey(fs[i].id, fs[i].version)
	}
	var vs [][]byte
	var err error
	if t.tx.Isolation() == kv.ReadCommitted {
		// Its next statement reads later anyway. It has changed no descriptor yet, or it would be serializable.
		err = t.m.o.DB.Run(ctx, txn.TxnOptions{Name: "freeze", ReadOnly: true}, func(ctx context.Context, tx *txn.Txn) error {
			vs, err = tx.GetMany(ctx, ks, kv.NoLock, kv.Block)
			return err
		})
	} else {
		vs, err = t.tx.GetMany(ctx, ks, kv.Exclusive, kv.Block)
	}
	t.froze = append(t.froze, fs...) // in any case they end with the transaction
	if err != nil {
		return err
	}
	s := t.m.snap.Load()
	for i, f := range fs {
		var row frozenRow
		if vs[i] != nil {
			if row, err = wire.Decoded(vs[i], (*frozenRow).fields); err != nil {
				return err
			}
		}
		if s.version(f.id) != f.version || row.Version != f.version || !bytes.Equal(row.By, f.by[:]) {
			t.froze = t.froze[:len(t.froze)-len(fs)]
			return t.stepBack([]catalog.ID{f.id}, false)
		}
	}
	t.mu.Lock()
	for _, f := range fs {
		// The versions that it uses now are those that it has frozen.
		for i := range t.uses {
			if t.uses[i].id == f.id {
				t.uses[i].version = f.version
			}
		}
		t.note(f.id, f.version)
	}
	t.mu.Unlock()
	t.last, t.lastSnap = nil, nil
	t.frozen = append(t.frozen, fs...)
	t.rebase()
	return nil
}

// lockKept locks again the tables that an earlier attempt of the transaction has frozen, and returns the others.
func (t *Txn) lockKept(ctx context.Context, ids []catalog.ID, out catalog.Exclusion) (rest []catalog.ID, err error) {
	var fs []frozen
	s := t.m.snap.Load()
	for _, id := range ids {
		i := slices.IndexFunc(t.froze, func(f frozen) bool {
			return f.id == id && f.version == s.version(id) && f.by == t.tx.ID() && f.out >= out
		})
		if i < 0 {
			rest = append(rest, id)
			continue
		}
		if e, ok := t.edits[id]; ok && e.base != nil && !sameTable(e.base, s.descriptor(id)) {
			return nil, t.stepBack(ids, false)
		}
		fs = append(fs, t.froze[i])
		t.froze = slices.Delete(t.froze, i, i+1)
	}
	if len(fs) == 0 {
		return rest, nil
	}
	return rest, t.lockFrozen(ctx, fs)
}

// rebase makes the frozen versions those that the transaction's changes are changes of.
func (t *Txn) rebase() {
	s := t.m.snap.Load()
	for _, f := range t.frozen {
		if e, ok := t.edits[f.id]; ok && e.base != nil && e.base.Version() < f.version {
			if d := s.descriptor(f.id); d != nil && d.Version() == f.version {
				e.base, *e.now.version() = d, f.version+1
			}
		}
	}
}

// Owns reports whether no other transaction can use a table until this one has ended, because this one has made or
// locked the table.
func (t *Txn) Owns(id catalog.ID) bool { return t.IsNew(id) || t.excludes(id) == catalog.ExcludeAll }

// excludes tells which transactions this one keeps from using a table.
func (t *Txn) excludes(id catalog.ID) (out catalog.Exclusion) {
	for _, f := range t.frozen {
		if f.id == id {
			out = max(out, f.out)
		}
	}
	return out
}

// LockAhead says whether the statement that is about to be bound will lock the tables that it finds. If others have locked
// them, it waits for the whole lock at once: two statements that waited for a weaker one would then wait for each other.
func (t *Txn) LockAhead(on bool, wait kv.WaitPolicy) {
	t.wait = wait
	if t.ahead = on; on {
		t.mu.Lock()
		t.known = len(t.uses)
		t.mu.Unlock()
		clear(t.found)
	}
}

// hasFrozen reports whether the transaction has the lock of a version's row, of this attempt or an earlier one.
func (t *Txn) hasFrozen(id catalog.ID, version uint64) bool {
	return slices.ContainsFunc(t.froze, func(f frozen) bool { return f.id == id && f.version == version && f.by == t.tx.ID() })
}

// isFrozen reports whether the transaction itself has frozen a table.
func (t *Txn) isFrozen(id catalog.ID) bool {
	return slices.ContainsFunc(t.frozen, func(f frozen) bool { return f.id == id })
}

// thaw lets others use tables that were frozen in vain.
func (m *Manager) thaw(ctx context.Context, fs []frozen) {
	limit, cancel := m.o.Host.Clock.WithTimeout(ctx, thawWait)
	defer cancel()
	for _, f := range fs {
		if err := m.breakFreeze(limit, f.id, f.row); err != nil {
			return // a transaction that wants the table deletes it
		}
	}
}

// breakFreeze deletes the row of a freeze, unless the row is another freeze's by now, and learns the table's state
// afterwards.
func (m *Manager) breakFreeze(ctx context.Context, id catalog.ID, row []byte) error {
	r, err := wire.Decoded(row, (*frozenRow).fields)
	if err != nil {
		return err
	}
	broken := false
	err = m.o.DB.Run(ctx, txn.TxnOptions{Name: "thaw"}, func(ctx context.Context, tx *txn.Txn) error {
		broken = false
		v, err := tx.Get(ctx, frozenKey(id, r.Version), kv.Exclusive, kv.Block)
		if err != nil || v == nil {
			return err
		}
		now, err := wire.Decoded(v, (*frozenRow).fields)
		if err != nil {
			return err
		}
		if now.Version != r.Version || !bytes.Equal(now.By, r.By) {
			return nil
		}
		broken = true
		var b txn.WriteBatch
		b.Delete(frozenKey(id, r.Version))
		return tx.Write(ctx, &b)
	})
	if err != nil {
		return err
	}
	if err := m.thawed(ctx, id, r.Version); err != nil {
		return err
	}
	if broken {
		m.o.Host.Group.Go(func(ctx context.Context) { m.unfreeze(ctx, id, r.Version) })
	}
	return nil
}

// Newest reads a relation as it is now, nil if it is gone, and reports whether a transaction has locked it.
func (m *Manager) Newest(ctx context.Context, id catalog.ID) (t *catalog.Table, locked bool, err error) {
	changes, err := m.learn(ctx, []catalog.ID{id})
	if err != nil || len(changes) == 0 || changes[0].d == nil || changes[0].d.Table == nil || changes[0].d.Table.Dropped {
		return nil, false, err
	}
	t = changes[0].d.Table
	if t.Frozen == catalog.ExcludeNone {
		return t, false, nil
	}
	row, err := m.o.DB.Get(ctx, frozenKey(id, t.Version))
	return t, row != nil, err
}

// orphaned is the age of a freeze at which a node checks whether its transaction lives: most freezes end by themselves.
const orphaned = 3 * time.Second

const (
	// orphanWait is long enough to find out that a transaction without heartbeats is dead, and orphanPause the time after which
	// one that lives is checked again.
	orphanWait  = time.Second
	orphanPause = 10 * time.Second
)

// breakOrphans deletes the rows of freezes whose transactions ended without deleting them.
func (m *Manager) breakOrphans(ctx context.Context, now time.Duration, rows []kv.KeyValue) error {
	there := map[catalog.ID]seenPending{}
	for _, r := range rows {
		id, err := lastID(r.Key)
		if err != nil {
			return err
		}
		row, err := wire.Decoded(r.Value, (*frozenRow).fields)
		if err != nil {
			return err
		}
		s, ok := m.orphans[catalog.ID(id)]
		if !ok || s.version != row.Version {
			s = seenPending{row.Version, now}
		}
		there[catalog.ID(id)] = s
		if now-s.since < orphaned {
			continue
		}
		// The transaction has had the lock of the table since before the row was written. A short wait for that lock shows
		// whether the transaction lives.
		err = m.o.DB.Run(ctx, txn.TxnOptions{Name: "orphan", LockTimeout: orphanWait}, func(ctx context.Context, tx *txn.Txn) error {
			_, err := tx.Get(ctx, lockKey(catalog.ID(id)), kv.KeyShared, kv.Block)
			return err
		})
		var held *kv.LockNotAvailableError
		if errors.As(err, &held) {
			there[catalog.ID(id)] = seenPending{row.Version, now + orphanPause - orphaned}
			continue
		}
		if err != nil {
			return err
		}
		m.o.Host.Log.Info("catalogue: a table was locked by a transaction that is gone", "table", id)
		if err := m.breakFreeze(ctx, catalog.ID(id), r.Value); err != nil {
			return err
		}
	}
	m.orphans = there // used by the poll's goroutine only
	return nil
}

// unfreeze publishes a version that is not frozen, once the freeze of the one before it has ended, so that no transaction has
// to look for the row. It may fail: then the next change of the table does it.
func (m *Manager) unfreeze(ctx context.Context, id catalog.ID, version uint64) {
	err := m.Change(ctx, func(_ context.Context, _ *txn.Txn, c *Txn) error {
		if d := c.Descriptor(id); d != nil && d.Version() == version && d.Table != nil && d.Table.Frozen != catalog.ExcludeNone {
			c.Table(id)
		}
		return nil
	})
	if err != nil && ctx.Err() == nil {
		m.o.Host.Log.Debug("catalogue: a table stays marked as frozen", "table", id, "err", err)
	}
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

// barred reports whether a descriptor is one that the transaction may not begin to use (lease.L6). Transactions that use the earlier
// version continue.
func (t *Txn) barred(d *Descriptor) bool {
	if t.ahead {
		return t.barredFrom(d, catalog.ExcludeWriters)
	}
	return t.barredFrom(d, catalog.ExcludeAll)
}

// barredFrom is barred for a use that a lock of mode out, or a stricter one, keeps out.
func (t *Txn) barredFrom(d *Descriptor, out catalog.Exclusion) bool {
	x := d.Table
	if x == nil || x.Frozen < out || t.tx == nil || t.tx.Historical() || t.hasFrozen(x.ID, x.Version) || t.olderThan(x.ID, x.Version) {
		return false
	}
	t.m.mu.Lock()
	defer t.m.mu.Unlock()
	return t.m.thaws[x.ID] != x.Version
}

// MayMeetLocks reports whether any table is frozen. It costs one atomic load.
func (t *Txn) MayMeetLocks() bool { return t.m.snap.Load().frozen > 0 }

// MayWrite waits until the transaction may change or lock rows of a table: out is the least strict lock that keeps it from that.
// It reports false if it has waited: then statements that use the table have to be planned again.
func (t *Txn) MayWrite(ctx context.Context, id catalog.ID, out catalog.Exclusion) (bool, error) {
	d := t.m.snap.Load().descriptor(id)
	if d == nil || t.edits[id] != nil || !t.barredFrom(d, out) {
		return true, nil
	}
	return false, t.awaitThaw(ctx, d)
}

// awaitThaw waits until a table that is frozen in the snapshot may be used, in this version or another. It waits as the
// transaction itself, for the lock of the transaction that has frozen the table, so that the wait is visible and a
// deadlock is found.
func (t *Txn) awaitThaw(ctx context.Context, d *Descriptor) error {
	m, id := t.m, d.ID()
	lock := kv.KeyShared
	if t.ahead {
		lock = kv.Exclusive
	}
	if _, err := t.tx.Get(ctx, lockKey(id), lock, t.wait); err != nil {
		return t.notLocked(id, err)
	}
	if _, err := m.learn(ctx, []catalog.ID{id}); err != nil {
		return err
	}
	now := m.snap.Load().descriptor(id)
	if now == nil || !t.barredFrom(now, catalog.ExcludeWriters) {
		return nil
	}
	row, err := m.o.DB.Get(ctx, frozenKey(id, now.Version()))
	if err != nil {
		return err
	}
	if row == nil {
		if err := m.thawed(ctx, id, now.Version()); err != nil {
			return err
		}
		m.o.Host.Group.Go(func(ctx context.Context) { m.unfreeze(ctx, id, now.Version()) })
		return nil
	}
	return m.breakFreeze(ctx, id, row)
}
