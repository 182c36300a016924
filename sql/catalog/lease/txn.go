package lease

import (
	"bytes"
	"context"
	"errors"
	"slices"
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

// Info is the part of a session that the catalogue needs.
type Info struct {
	// User is the current role; Session is the role of the session, which may differ by SET ROLE.
	User, Session string
	Database      string
	SearchPath    []string // explicit schemas, "$user" resolved
}

// use is a descriptor version that a transaction relies on.
type use struct {
	id      catalog.ID
	version uint64
}

// Txn is the catalogue's part of one SQL transaction: the versions that it uses, so that no change skips ahead to the
// next but one (lease.L1), and its own changes. It is used by the transaction's goroutine.
type Txn struct {
	m      *Manager
	tx     *txn.Txn // set and cleared under Manager.mu, for goroutines that look at open transactions
	tenure *tenure
	// last is the list with which Use was called last, and lastSnap the snapshot then.
	last     *catalog.Dependency
	lastSnap *Snapshot

	mu   sync.Mutex // guards uses and promised, which drains read; nothing is taken after it
	uses []use
	// promised is the last deadline that was handed out in this attempt.
	promised clock.Timestamp

	// edits are the descriptors as changed by this transaction.
	edits map[catalog.ID]*edit
	order []catalog.ID
	after []func(ctx context.Context) error
	// before is called by Flush.
	before func(ctx context.Context) error
	// own are indexes, in tables that others use, with identities that no other transaction can come to use.
	own map[ownIndex]struct{}
	// until bounds the commit's timestamp, if it is not zero.
	until clock.Timestamp
	// then are descriptors as they were at the timestamp of a historical transaction, nil where there was none; past says
	// that some differ from the present ones.
	then map[catalog.ID]*Descriptor
	past bool
	// thenFrom is when the first one of then was read.
	thenFrom clock.Timestamp
	// blocked are descriptors whose last publication has to be completed before another attempt.
	blocked []catalog.Dependency
	flushed bool
	// frozen are tables that the transaction has locked; froze are those and the ones that its earlier attempts have frozen, whose
	// rows it has locked. freezes is the transaction on whose behalf this one freezes tables.
	frozen, froze []frozen
	freezes       *Txn
	// ahead: LockAhead. known is how many versions it used before the statement that locks tables, found the versions which that
	// statement was bound to.
	ahead bool
	wait  kv.WaitPolicy
	known int
	found map[catalog.ID]uint64
	// local is the session's own part of the catalogue; nil: it has none.
	local *Local
	loose bool // the statement may have been bound to any version
	// familiar: FamiliarOnly.
	familiar bool
	// jobs are tables whose jobs have to end before another attempt; late says that the last attempt has waited for them for too
	// long.
	jobs []catalog.ID
	late bool
	// drops are the tables that an attempt has dropped.
	drops []catalog.ID
	// registers says that the changes are valid from a registered time on, exact its kind; registered are the rows that say so.
	registers, exact bool
	registered       []keys.Key
	everRegistered   []keys.Key // in any attempt, by the identity that the transaction had in the first
	by               kv.TxnID
	lastRegistered   registration
	had              time.Duration // until the time of the registration, when the commit began; zero: it has not
	// open are registrations of other publishers that have to be past before another attempt.
	open []openRegistration
	// unread is why an earlier change of what it changes can't be confirmed, however long it waits.
	unread error
}

// openRegistration is the row of a registration.
type openRegistration struct {
	id  catalog.ID
	row []byte
}

type ownIndex struct {
	table catalog.ID
	index catalog.IndexID
}

type edit struct {
	base *Descriptor // as found; nil: new
	now  *Descriptor
	// reserved is the stored reservation that now replaces; nil: there is none (lease.L13).
	reserved []byte
}

// Begin makes the catalogue's part of a transaction. Finish must be called.
func (m *Manager) Begin(tx *txn.Txn) *Txn {
	m.mu.Lock()
	var t *Txn
	if n := len(m.free); n > 0 {
		t = m.free[n-1]
		m.free = m.free[:n-1]
	} else {
		t = &Txn{m: m}
	}
	m.open[t], t.tx, t.familiar = struct{}{}, tx, false
	m.mu.Unlock()
	t.tenure = m.tenure.Load()
	tx.SetDeadlineSource(t)
	tx.SetPrivateSpans(t)
	tx.SetValidity(t)
	return t
}

// Deadline implements txn.DeadlineSource: as long as the tenure in which the transaction began, renewals included.
func (t *Txn) Deadline() clock.Timestamp {
	if t.tenure == nil {
		return clock.Timestamp{}
	}
	if now := t.m.tenure.Load(); now != t.tenure && t.current() {
		t.tenure = now
	}
	d := t.tenure.deadline()
	if !t.until.IsZero() {
		d = d.Backward(t.until)
	}
	return t.promise(d)
}

// current reports whether everything that the transaction uses is still the present version. If so after the node got a
// new tenure, none of it was changed meanwhile, and the transaction may go on (lease.L3): versions only grow, and later
// publications wait for the transaction as for any other.
func (t *Txn) current() bool {
	s := t.m.snap.Load()
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, u := range t.uses {
		if s.version(u.id) != u.version {
			if e, ok := t.edits[u.id]; !ok || e.now.Version() != u.version {
				return false
			}
		}
	}
	for id, e := range t.edits {
		if e.base != nil && s.version(id) != e.base.Version() {
			return false
		}
	}
	return true
}

// awaitTries and awaitPause bound how long a commit waits for the tenure to be renewed.
const (
	awaitTries = 200
	awaitPause = 50 * time.Millisecond
)

// AwaitDeadline implements txn.DeadlineSource: the tenure is renewed regularly, but a renewal may be late.
func (t *Txn) AwaitDeadline(ctx context.Context, at clock.Timestamp) {
	for range awaitTries {
		d := t.Deadline()
		if d.IsZero() || at.LessEq(d) || t.tenure != t.m.tenure.Load() || at.LessEq(t.tenure.deadline()) || !t.until.IsZero() && t.until.Less(at) {
			return
		}
		if t.m.o.Host.Clock.Sleep(ctx, awaitPause) != nil {
			return
		}
	}
}

// Use says that the transaction runs a plan that was made from these descriptor versions. If one of them is not the present
// version any more, Use reports false: the plan has to be made again. An error means that the transaction has to start over
// (lease.L4). For a historical transaction these are the versions of its time, as far as Load or a View found them; otherwise
// Use reports false. deps must not change afterwards.
func (t *Txn) Use(deps []catalog.Dependency) (bool, error) {
	if len(deps) == 0 {
		return true, nil
	}
	s := t.m.snap.Load()
	if t.last == &deps[0] && t.lastSnap == s && len(s.registered) == 0 { // else a version may come while the transaction goes on
		return true, nil
	}
	t.mu.Lock()
	before := len(t.uses)
	for _, d := range deps {
		if !catalog.IsLocal(d.ID) && !t.changedSince(s, d.ID) {
			t.note(d.ID, d.Version)
		}
	}
	t.mu.Unlock()
	// The snapshot is loaded after the note: a drain that did not see the note had swapped the snapshot before.
	s = t.m.snap.Load()
	good, err := t.good(s, deps)
	if !good {
		t.unnote(before)
		return false, err
	}
	t.last, t.lastSnap = &deps[0], s
	return true, nil
}

// good reports whether these versions are those to be used.
func (t *Txn) good(s *Snapshot, deps []catalog.Dependency) (bool, error) {
	young := t.tx.ReadTimestamp().Less(s.modified) || t.tx.Historical()
	for _, d := range deps {
		if catalog.IsLocal(d.ID) {
			if t.local.versionOf(d.ID) != d.Version {
				return false, nil
			}
			continue
		}
		if e, ok := t.edits[d.ID]; ok {
			if e.now.Version() != d.Version {
				return false, nil
			}
			continue
		}
		if !t.computed(d.ID) && t.changedSince(s, d.ID) {
			if then, _ := t.kept(d.ID); then == nil || then.Version() != d.Version {
				return false, nil
			}
			continue
		}
		if _, wait := s.comes(d.ID, t.tx.ReadTimestamp()); wait {
			return false, nil // take waits for it
		}
		e, ok := s.byID[d.ID]
		if ok && (e.d.Version() != d.Version || e.d.later != nil || t.barred(e.d)) || !ok && d.Version != 0 {
			return false, nil
		}
		if young {
			if err := t.young(s, d.ID); err != nil {
				return false, err
			}
		}
	}
	return true, nil
}

// young refuses a descriptor that is younger than the transaction's snapshot of the data (lease.L4).
func (t *Txn) young(s *Snapshot, id catalog.ID) error {
	e, ok := s.byID[id]
	at := t.tx.ReadTimestamp()
	switch {
	case !ok:
	case t.tx.Historical():
		// The transaction would read with the present descriptor rows that may have been written under another.
		if x := e.d.Table; x != nil && at.Wall < x.HistoryFrom && (e.modified.IsZero() || at.Less(e.modified)) {
			return sqlstate.New(sqlstate.NotInPrerequisiteState, "relation \"%s\" cannot be read at a time before its rows were loaded or an index was filled", x.Name)
		}
	case at.Less(e.modified):
		if x := e.d.Table; x != nil && x.Frozen != catalog.ExcludeNone && (t.isFrozen(id) || t.olderThan(id, x.Version)) {
			return nil // else it equals the version that the transaction uses
		}
		return errStale("The relation is younger than the transaction's snapshot.")
	}
	return nil
}

// note is called with t.mu held.
func (t *Txn) note(id catalog.ID, version uint64) {
	for i := range t.uses {
		if t.uses[i] == (use{id, version}) {
			return
		}
	}
	t.uses = append(t.uses, use{id, version})
}

// unnote forgets all but the first n notes: the others are of versions that the transaction did not use in the end.
func (t *Txn) unnote(n int) {
	t.mu.Lock()
	t.uses = t.uses[:n]
	t.mu.Unlock()
	t.m.released()
}

// take finds the present descriptor by f and relies on it. It waits while that is frozen (lease.L6).
func (t *Txn) take(ctx context.Context, f func(*Snapshot) *Descriptor) (*Descriptor, error) {
	for {
		s := t.m.snap.Load()
		d := f(s)
		if d != nil {
			if _, wait := s.comes(d.ID(), t.tx.ReadTimestamp()); wait {
				if err := t.awaitComing(ctx, d.ID()); err != nil {
					return nil, err
				}
				continue
			}
		}
		if d != nil && t.barred(d) {
			if err := t.awaitThaw(ctx, d); err != nil {
				return nil, err
			}
			continue
		}
		if d, err := t.takeAsIs(f); d == nil || err != nil || !t.barred(d) {
			return d, err
		}
	}
}

// takeAsIs is take without waiting, for callers that do not use the object.
func (t *Txn) takeAsIs(f func(*Snapshot) *Descriptor) (*Descriptor, error) {
	for {
		s := t.m.snap.Load()
		d := f(s)
		if d == nil {
			return nil, nil
		}
		if err := d.unusable(); err != nil {
			return nil, err
		}
		t.mu.Lock()
		before := len(t.uses)
		t.note(d.ID(), d.Version())
		t.mu.Unlock()
		if now := t.m.snap.Load(); now == s || now.version(d.ID()) == d.Version() {
			return d, t.young(s, d.ID())
		}
		t.unnote(before)
	}
}

// Changed reports whether the transaction changed the catalogue.
func (t *Txn) Changed() bool { return len(t.edits) > 0 }

// Descriptor is a descriptor as the transaction sees it, for reading; nil if there is none.
func (t *Txn) Descriptor(id catalog.ID) *Descriptor {
	if catalog.IsLocal(id) {
		return t.local.descriptor(id)
	}
	if e, ok := t.edits[id]; ok {
		return e.now
	}
	return t.m.snap.Load().descriptor(id)
}

func (t *Txn) put(base, now *Descriptor) *Descriptor {
	if t.edits == nil {
		t.edits = map[catalog.ID]*edit{}
	}
	id := now.ID()
	if e, ok := t.edits[id]; ok {
		e.now = now
		return now
	}
	t.edits[id] = &edit{base: base, now: now}
	t.order = append(t.order, id)
	return now
}

// mutable is a descriptor that the transaction may change in place. Its version grows by one, however often it is
// changed.
func (t *Txn) mutable(id catalog.ID) *Descriptor {
	if catalog.IsLocal(id) {
		return t.local.mutable(id)
	}
	if e, ok := t.edits[id]; ok {
		return e.now
	}
	base := t.m.snap.Load().descriptor(id)
	if base == nil {
		return nil
	}
	now := base.clone()
	*now.version()++
	if now.Table != nil {
		now.Table.Frozen = catalog.ExcludeNone
	}
	return t.put(base, now)
}

// Table is a relation to be changed in place; nil if there is none.
func (t *Txn) Table(id catalog.ID) *catalog.Table {
	if d := t.mutable(id); d != nil {
		return d.Table
	}
	return nil
}

// Database is a database to be changed in place; nil if there is none.
func (t *Txn) Database(id catalog.ID) *catalog.Database {
	if d := t.mutable(id); d != nil {
		return d.Database
	}
	return nil
}

// Schema is a schema to be changed in place; nil if there is none.
func (t *Txn) Schema(id catalog.ID) *catalog.Schema {
	if d := t.mutable(id); d != nil {
		return d.Schema
	}
	return nil
}

// User is a role to be changed in place; nil if there is none.
func (t *Txn) User(id catalog.ID) *catalog.User {
	if d := t.mutable(id); d != nil {
		return d.User
	}
	return nil
}

// Settings are the cluster settings, to be changed in place.
func (t *Txn) Settings() map[string]string {
	d := t.mutable(catalog.SettingsTableID)
	if d == nil {
		d = t.put(nil, &Descriptor{Settings: &Settings{Version: 1}})
	}
	if d.Settings.Values == nil {
		d.Settings.Values = map[string]string{}
	}
	return d.Settings.Values
}

// Zones are the configurations of key spans that have names, to be changed in place; their values are replaced, not changed.
func (t *Txn) Zones() map[string]*catalog.ZoneConfig {
	t.Settings()
	s := t.mutable(catalog.SettingsTableID).Settings
	if s.Zones == nil {
		s.Zones = map[string]*catalog.ZoneConfig{}
	}
	return s.Zones
}

// Named are the configurations that have names, as the transaction sees them.
func (t *Txn) Named() (z catalog.NamedZones) {
	if d := t.Descriptor(catalog.SettingsTableID); d != nil && d.Settings != nil {
		z.Ranges, z.Placements = d.Settings.Zones, d.Settings.Placements
	}
	return z
}

// Placements is the placement menu, to be changed in place; its options are replaced, not changed.
func (t *Txn) Placements() map[string]*catalog.ZoneConfig {
	t.Settings()
	s := t.mutable(catalog.SettingsTableID).Settings
	if s.Placements == nil {
		s.Placements = map[string]*catalog.ZoneConfig{}
	}
	return s.Placements
}

// New adds a descriptor with an identity of NewID; its version is set to 1.
func (t *Txn) New(d Descriptor) {
	if catalog.IsLocal(d.ID()) {
		t.local.put(&d)
		return
	}
	*d.version() = 1
	t.put(nil, &d)
}

// IsNew reports whether no other session can have used the object: the transaction itself has made it, or it is the session's
// own.
func (t *Txn) IsNew(id catalog.ID) bool {
	if catalog.IsLocal(id) {
		return true
	}
	e, ok := t.edits[id]
	return ok && e.base == nil
}

// Base is the version of a relation before the transaction changed it; nil if it is new or unchanged.
func (t *Txn) Base(id catalog.ID) *catalog.Table {
	if e, ok := t.edits[id]; ok && e.base != nil {
		return e.base.Table
	}
	return nil
}

// RenewIndex gives an index of a table that Table returned an identity that no other transaction comes to use, whether
// this one commits or not. Its data is private until then.
func (t *Txn) RenewIndex(ctx context.Context, table *catalog.Table, x *catalog.Index) error {
	for {
		// Identities of objects are given out once in the cluster's life; those of indexes only have to be unique
		// within their table, and grow.
		id, err := t.m.NewID(ctx)
		if err != nil {
			return err
		}
		if catalog.IndexID(id) < table.NextIndex {
			continue // another node, with a later supply of identities, has changed the table
		}
		x.ID = catalog.IndexID(id)
		table.NextIndex = x.ID + 1
		if t.own == nil {
			t.own = map[ownIndex]struct{}{}
		}
		t.own[ownIndex{table.ID, x.ID}] = struct{}{}
		return nil
	}
}

// PrivateSpan implements txn.PrivateSpans: the data of tables and indexes that the transaction itself has made, under
// identities that are given out once. Only a leaseholder loads rows.
func (t *Txn) PrivateSpan(k keys.Key) (keys.Span, bool) {
	if len(t.edits) == 0 {
		return keys.Span{}, false
	}
	table, index, _, err := keys.DecodeIndexKey(k)
	if err != nil {
		return keys.Span{}, false
	}
	e, ok := t.edits[catalog.ID(table)]
	if !ok || e.now.Table == nil || e.now.Table.Dropped || !e.now.Table.Traits().Loads.Can() || e.now.Table.Index(catalog.IndexID(index)) == nil {
		return keys.Span{}, false
	}
	if _, own := t.own[ownIndex{catalog.ID(table), catalog.IndexID(index)}]; e.base != nil && !own {
		return keys.Span{}, false
	}
	return keys.IndexSpan(table, index), true
}

// NewID is Manager.NewID.
func (t *Txn) NewID(ctx context.Context) (catalog.ID, error) { return t.m.NewID(ctx) }

// AfterCommit registers f to be run by Finish, in order, once every node uses the new descriptors. Its error is
// Finish's.
func (t *Txn) AfterCommit(f func(ctx context.Context) error) { t.after = append(t.after, f) }

// BeforeFlush registers f to be run by Flush, before anything is written; a later call replaces f.
func (t *Txn) BeforeFlush(f func(ctx context.Context) error) { t.before = f }

// EachTable calls f for each relation that the transaction has made or changed; base is nil if it is new.
func (t *Txn) EachTable(f func(base, now *catalog.Table) error) error {
	for _, id := range slices.Clone(t.order) {
		e := t.edits[id]
		if e.now.Table == nil {
			continue
		}
		var base *catalog.Table
		if e.base != nil {
			base = e.base.Table
		}
		if err := f(base, e.now.Table); err != nil {
			return err
		}
	}
	return nil
}

// commitWithin is how long after Flush a transaction that has loaded rows may commit.
const commitWithin = 10 * time.Second

// bound notes in the descriptors of tables with loaded rows the time from which the rows may be read (txn.LD1): they
// carry timestamps from before the commit, and no reader at such a time may see them. The noted versions bound the
// commit's timestamp.
func (t *Txn) bound() {
	for _, id := range t.order {
		x := t.edits[id].now.Table
		if x == nil {
			continue
		}
		root := x.ID
		if x.Interleave != nil {
			root, _ = x.Root()
		}
		if !t.tx.HasLoaded(keys.TableSpan(x.ID)) && !t.tx.HasLoaded(keys.TableSpan(root)) {
			continue
		}
		if t.until.IsZero() {
			t.until = t.m.o.Clock.Now().Add(commitWithin)
		}
		x.HistoryFrom = max(x.HistoryFrom, t.until.Wall)
	}
}

// Flush writes the changes into the transaction; call it right before the commit. 40001 means that another
// transaction changed the same descriptors.
func (t *Txn) Flush(ctx context.Context) error {
	if len(t.edits) == 0 {
		return nil
	}
	if err := t.LockDropped(ctx); err != nil {
		return err
	}
	t.registers, t.exact = t.Registers()
	if t.before != nil {
		if err := t.before(ctx); err != nil {
			return err
		}
	}
	t.bound()
	t.orphans()
	if err := t.pinRoles(ctx); err != nil {
		return err
	}
	if err := t.pinPlacements(ctx); err != nil {
		return err
	}
	if len(t.edits)+len(t.m.snap.Load().byID) > t.m.o.MaxDescriptors {
		return sqlstate.New(sqlstate.ConfigurationLimitExceeded, "too many objects in the catalogue").
			WithDetail("The limit is %d.", t.m.o.MaxDescriptors)
	}
	for _, id := range t.order {
		if err := t.edits[id].base.unusable(); err != nil { // before any wait
			return err
		}
	}
	if err := t.checkBases(ctx); err != nil {
		return err
	}
	for _, id := range t.order {
		t.edits[id].now.publish(t.m)
	}
	if t.registers {
		if err := t.register(ctx); err != nil {
			return err
		}
	}
	var b txn.WriteBatch
	if err := t.names(&b); err != nil {
		return err
	}
	for _, id := range t.order {
		e := t.edits[id]
		v, err := e.now.encode()
		if err != nil {
			return err
		}
		if e.reserved != nil {
			b.CPut(descriptorKey(id), v, e.reserved)
		} else {
			b.Put(descriptorKey(id), v)
		}
		row := pendingRow{Version: e.now.Version()}
		if t.registers && e.registrable() {
			row.At, row.Exact = t.until, t.exact
		}
		b.Put(pendingKey(id), wire.Append(nil, &row, (*pendingRow).fields))
	}
	for _, f := range t.frozen {
		if _, changed := t.edits[f.id]; changed {
			b.Delete(frozenKey(f.id, f.version)) // lease.L6
		}
	}
	t.flushed = true
	err := t.tx.Write(ctx, &b)
	var cond *kv.ConditionFailedError
	if errors.As(err, &cond) {
		if v := cond.Actual; v != nil {
			if id, derr := decodeNameValue(v); derr == nil {
				t.blocked = append(t.blocked, catalog.Dependency{ID: id})
			}
		}
		return errStale("An object of the same name was created.")
	}
	return err
}

// checkBases makes sure that the transaction has changed the latest versions of its descriptors, and that all nodes use
// these (lease.L2).
func (t *Txn) checkBases(ctx context.Context) error {
	var ids, unsure []catalog.ID
	var ks, pending []keys.Key
	t.m.mu.Lock()
	for _, id := range t.order {
		if e := t.edits[id]; e.base != nil && !t.isFrozen(id) {
			ids, ks = append(ids, id), append(ks, descriptorKey(id))
			if t.m.confirmed[id] < e.base.Version() {
				unsure, pending = append(unsure, id), append(pending, pendingKey(id))
			}
		}
	}
	t.m.mu.Unlock()
	if len(ids) == 0 {
		return nil
	}
	vs, err := t.tx.GetMany(ctx, ks, kv.NoLock, kv.Block)
	if err != nil {
		return err
	}
	for i, id := range ids {
		stale := vs[i] == nil
		if !stale {
			d, err := t.m.decode(vs[i])
			if err != nil {
				return err
			}
			stale = d.Version() != t.edits[id].base.Version()
		}
		if !stale && t.barredFrom(t.edits[id].base, catalog.ExcludeWriters) {
			// Another transaction has locked the table.
			if err := t.awaitThaw(ctx, t.edits[id].base); err != nil {
				return err
			}
			stale = true
		}
		if stale {
			t.blocked = append(t.blocked, catalog.Dependency{ID: id})
		}
	}
	if len(t.blocked) > 0 {
		return errStale("The object was changed.")
	}
	if len(unsure) == 0 {
		return nil
	}
	// The row was written together with the base version, and is removed when all nodes use that version. So it may be
	// read now, outside of the transaction, whose own read would be in the way of the removal.
	err = t.m.o.DB.Run(ctx, txn.TxnOptions{Name: "publication", ReadOnly: true}, func(ctx context.Context, tx *txn.Txn) error {
		vs, err = tx.GetMany(ctx, pending, kv.NoLock, kv.Block)
		return err
	})
	if err != nil {
		return err
	}
	for i, id := range unsure {
		if vs[i] == nil {
			continue
		}
		p, err := wire.Decoded(vs[i], (*pendingRow).fields)
		if err != nil {
			return unreadRow("an earlier change of the same object", pendingKey(id), err)
		}
		switch by := t.by; {
		case p.Open && bytes.Equal(p.By, by[:]): // its own, in an earlier attempt
		case p.Open:
			t.blocked = append(t.blocked, catalog.Dependency{ID: id})
			t.open = append(t.open, openRegistration{id, vs[i]})
		case p.Exact && t.exact && !p.At.IsZero(): // its users do not commit at this one's time (lease.L15)
		default:
			t.blocked = append(t.blocked, catalog.Dependency{ID: id, Version: p.Version})
		}
	}
	unread := t.unread
	t.unread = nil
	if late := t.late; len(t.blocked) > 0 {
		if t.late = false; late {
			return errLate()
		}
		if unread != nil {
			return unread
		}
		return errStale("An earlier change of the same object is not in use everywhere yet.")
	}
	t.late = false
	return nil
}

// names writes the rows that map the names of the changed descriptors to identities.
func (t *Txn) names(b *txn.WriteBatch) error {
	before, after := map[nameKey]catalog.ID{}, map[nameKey]catalog.ID{}
	var all []nameKey
	for _, id := range t.order {
		e := t.edits[id]
		if e.base != nil {
			for _, n := range e.base.names() {
				before[n] = id
				all = append(all, n)
			}
		}
		for _, n := range e.now.names() {
			if other, taken := after[n]; taken && other != id {
				return sqlstate.New(sqlstate.DuplicateTable, "relation \"%s\" already exists", n.name)
			}
			after[n] = id
			all = append(all, n)
		}
	}
	slices.SortFunc(all, func(a, c nameKey) int { return nameRowKey(a).Compare(nameRowKey(c)) })
	for i, n := range slices.Compact(all) {
		_ = i
		old, had := before[n]
		id, has := after[n]
		switch {
		case had && has && old != id:
			b.CPut(nameRowKey(n), nameValue(id), nameValue(old))
		case has && !had:
			b.PutNew(nameRowKey(n), nameValue(id))
		case had && !has:
			b.Delete(nameRowKey(n))
		}
	}
	return nil
}

// Mark is a state of the transaction's changes, for savepoints.
type Mark struct {
	edits map[catalog.ID]*edit
	order []catalog.ID
	after int
}

// Mark remembers the present state.
func (t *Txn) Mark() Mark {
	k := Mark{order: slices.Clone(t.order), after: len(t.after)}
	if len(t.edits) > 0 {
		k.edits = make(map[catalog.ID]*edit, len(t.edits))
		for id, e := range t.edits {
			k.edits[id] = &edit{e.base, e.now.clone(), e.reserved}
		}
	}
	return k
}

// Emptied reports whether the transaction has made or truncated a table since a mark; nil: since its beginning.
func (t *Txn) Emptied(id catalog.ID, since *Mark) bool {
	e, ok := t.edits[id]
	if !ok || e.now.Table == nil {
		return false
	}
	was := e.base
	if since != nil {
		if m, ok := since.edits[id]; ok {
			was = m.now
		}
	}
	if was == nil || was.Table == nil {
		return true
	}
	return was.Table.Generation != e.now.Table.Generation
}

// RollbackTo undoes the changes since a mark, which stays usable.
func (t *Txn) RollbackTo(k Mark) {
	t.edits, t.order, t.after = nil, slices.Clone(k.order), t.after[:min(k.after, len(t.after))]
	if len(k.edits) > 0 {
		t.edits = make(map[catalog.ID]*edit, len(k.edits))
		for id, e := range k.edits {
			t.edits[id] = &edit{e.base, e.now.clone(), e.reserved}
		}
	}
	t.rebase() // locked tables stay locked
}

// Reset forgets the changes: the transaction begins a new attempt. If it failed because another change was under way,
// Reset waits for that one.
//
// Reset forgets which versions the transaction has used only if it changed something itself. The next attempt has the row locks
// of this one, and others that use a table may wait for these; if that attempt had to wait for TRUNCATE, which waits for the
// others, none would go on. So it counts as having begun (lease.L6).
func (t *Txn) Reset(ctx context.Context) {
	blocked, jobs, open := t.blocked, t.jobs, t.open
	t.open = nil
	t.tx.OnCommit(nil)
	if t.had > 0 {
		t.m.rounds.tooLate(t.had)
	}
	var lost []frozen
	if id := t.tx.ID(); len(t.froze) > 0 {
		// A transaction with another identity has lost its locks.
		t.froze = slices.DeleteFunc(t.froze, func(f frozen) bool {
			if f.by != id {
				lost = append(lost, f)
			}
			return f.by != id
		})
	}
	if len(blocked)+len(jobs) > 0 || len(t.edits) > 0 {
		t.clear()
	} else {
		t.forget()
	}
	t.forgetEnded()
	t.m.thaw(ctx, lost)
	for _, o := range open {
		if err := t.m.overdue(ctx, o.id, o.row); err != nil {
			break // the next attempt meets it again
		}
	}
	t.tenure = t.m.tenure.Load()
	if t.jobs = nil; len(jobs) > 0 {
		t.late = sqlstate.Is(t.awaitJobs(ctx, jobs, kv.Block), sqlstate.LockNotAvailable)
		t.tenure = t.m.tenure.Load()
	}
	if len(blocked)+len(jobs) == 0 {
		return
	}
	var ids []catalog.ID
	var wait []catalog.Dependency
	for _, d := range blocked {
		ids = append(ids, d.ID)
		// A change of a table that another transaction uses at the earlier version would wait for that one.
		if d.Version != 0 && (t.freezes == nil || !t.freezes.olderThan(d.ID, d.Version)) {
			wait = append(wait, d)
		}
	}
	if _, err := t.m.learn(ctx, ids); err == nil && len(wait) > 0 {
		limit, cancel := context.WithCancel(ctx)
		if bound := t.tx.LockTimeout(); bound > 0 {
			limit, cancel = t.m.o.Host.Clock.WithTimeout(ctx, bound)
		}
		defer cancel()
		err := t.m.confirm(limit, wait, nil, nil)
		t.late = err != nil && limit.Err() != nil || t.late
		if sqlstate.Is(err, sqlstate.DataCorrupted) || sqlstate.Is(err, sqlstate.FeatureNotSupported) {
			t.unread = err
		}
	}
	t.tx.LookAnew() // at the descriptors that were waited for, too
}

func (t *Txn) clear() {
	t.forget()
	t.mu.Lock()
	t.uses = t.uses[:0]
	t.mu.Unlock()
	t.m.released()
}

// forget is clear without the notes of versions used.
func (t *Txn) forget() {
	t.last, t.lastSnap = nil, nil
	t.edits, t.order, t.after, t.before, t.blocked, t.flushed = nil, nil, nil, nil, nil, false
	t.own, t.until, t.frozen, t.ahead, t.known, t.found = nil, clock.Timestamp{}, nil, false, 0, nil
	t.then, t.past = nil, false
	t.registers, t.exact, t.registered, t.had = false, false, nil, 0
	t.mu.Lock()
	t.promised = clock.Timestamp{}
	t.mu.Unlock()
}

// Finish ends the transaction's part. After a commit it returns when every node uses the new descriptors and the
// functions given to AfterCommit have run; their error is Finish's. t must not be used afterwards.
func (t *Txn) Finish(ctx context.Context, committed bool) error {
	m := t.m
	var changes []change
	if committed && t.flushed {
		at := t.tx.CommitTimestamp()
		changes = t.changes(at)
		// Transactions that begin from here on must not read before the change. Its commit has waited (txn.TX8), so the clock has
		// passed the commit timestamp already, unless the wait was cut short because the node stops.
		m.o.Clock.Forward(at)
		t.froze = slices.DeleteFunc(t.froze, func(f frozen) bool { return t.isFrozen(f.id) && t.edits[f.id] != nil })
	}
	after, frozen, freezes, registers, by := t.after, t.froze, t.freezes, t.registers, t.by
	if registered, last := t.everRegistered, t.lastRegistered; len(registered) > 0 && !committed {
		m.o.Host.Group.Go(func(ctx context.Context) { m.withdraw(ctx, registered, by, last) })
	}
	t.clear()
	t.freezes, t.froze, t.local, t.jobs, t.late, t.unread = nil, nil, nil, nil, false, nil
	t.by, t.everRegistered, t.open, t.drops = kv.TxnID{}, nil, nil, nil
	m.mu.Lock()
	delete(m.open, t)
	t.tx = nil
	if len(m.free) < 1024 {
		m.free = append(m.free, t)
	}
	m.mu.Unlock()
	if len(frozen) > 0 {
		m.o.Host.Group.Go(func(ctx context.Context) { m.thaw(ctx, frozen) })
	}
	if !committed {
		return nil
	}
	if len(changes) > 0 {
		var err error
		if registers {
			err = m.publishRegistered(ctx, changes)
		} else {
			err = m.publish(ctx, changes, freezes)
		}
		if err != nil {
			if ctx.Err() != nil {
				// The statement was cancelled after its commit. Its jobs begin, or are called off; they do not wait for a poll to be found.
				for _, f := range after {
					_ = f(ctx)
				}
			}
			return err
		}
	}
	for _, f := range after {
		if err := f(ctx); err != nil {
			return err
		}
	}
	return nil
}

// maxTries bounds how often Change starts over because others change the same descriptors.
const maxTries = 200

// Change runs f in a transaction of its own and publishes its changes.
func (m *Manager) Change(ctx context.Context, f func(ctx context.Context, tx *txn.Txn, t *Txn) error) error {
	return m.change(ctx, nil, f)
}

// change is Change, but does not wait for self to stop using the earlier versions.
func (m *Manager) change(ctx context.Context, self *Txn, f func(ctx context.Context, tx *txn.Txn, t *Txn) error) error {
	var t *Txn
	err := m.o.DB.Run(ctx, txn.TxnOptions{Name: "schema change"}, func(ctx context.Context, tx *txn.Txn) error {
		if t == nil {
			t = m.Begin(tx)
			t.freezes = self
		} else {
			t.Reset(ctx)
		}
		for try := 0; ; try++ {
			err := f(ctx, tx, t)
			if err == nil {
				err = t.Flush(ctx)
			}
			if !sqlstate.Is(err, sqlstate.SerializationFailure) || try >= maxTries {
				return err
			}
			if self != nil && slices.ContainsFunc(t.blocked, func(d catalog.Dependency) bool { return d.Version != 0 && self.olderThan(d.ID, d.Version) }) {
				return err // it is self that is in the way
			}
			if try > 2 {
				if err := m.o.Host.Clock.Sleep(ctx, time.Duration(m.o.Host.Dice.Int64N(int64(20*time.Millisecond)))); err != nil {
					return err
				}
			}
			if err := tx.Restart(ctx); err != nil {
				return err
			}
			t.Reset(ctx)
		}
	})
	if t == nil {
		return err
	}
	if err != nil {
		t.Finish(ctx, false)
		return err
	}
	return t.Finish(ctx, true)
}
