package lease

import (
	"context"
	"errors"
	"hash/fnv"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"meridian/clock"
	"meridian/host"
	"meridian/keys"
	"meridian/kv"
	"meridian/sql/catalog"
	"meridian/sql/sqlstate"
	"meridian/txn"
	"meridian/version"
	"meridian/wire"
)

// Defaults of Options.
const (
	// DefaultDuration is how long a node may use the catalogue without renewing its tenure. A change of the schema may
	// have to wait that long after a node died.
	DefaultDuration = 12 * time.Second
	// renewals is how often a tenure is renewed in the time that it lasts, and renewPause how soon a renewal that
	// failed is tried again.
	renewals   = 5
	renewPause = 200 * time.Millisecond
	// DefaultPollInterval is the time after which a node finds a change that no notification told it of.
	DefaultPollInterval = time.Second
	// DefaultMaxDescriptors bounds the memory of the snapshot.
	DefaultMaxDescriptors = 200_000
	// completeAfter is how long a publication may stay unconfirmed before another node completes it.
	completeAfter = 15 * time.Second
)

// Relations are the computed relations, which have no stored descriptors: sql/virtual has them.
type Relations interface {
	// Lookup finds a computed relation; nil if there is none.
	Lookup(schema, name string) *catalog.Table
	ByID(id catalog.ID) *catalog.Table
	// Schemas names the schemas that they are in, with their identities.
	Schemas() map[string]catalog.ID
}

// Notifier tells other nodes of changes.
type Notifier interface {
	// Broadcast hands the payload to HandleChange of every other node that is alive and calls done, from any
	// goroutine, for each node as it answers without an error, with the answer. It returns when all have answered or
	// failed, or when the context ends.
	Broadcast(ctx context.Context, payload []byte, done func(kv.NodeID, []byte))
}

// Options are the options of a Manager.
type Options struct {
	DB     *txn.DB
	Clock  *clock.Clock
	Host   *host.Host
	NodeID func() kv.NodeID
	// Version is the version that the node acts by.
	Version *version.Handle
	// Relations and Notifier may be nil.
	Relations Relations
	Notifier  Notifier
	// Duration, PollInterval and MaxDescriptors: zero is the default.
	Duration       time.Duration
	PollInterval   time.Duration
	MaxDescriptors int
}

// Manager is a node's knowledge of the catalogue. All methods may be called concurrently.
type Manager struct {
	o    Options
	snap atomic.Pointer[Snapshot]
	// tenure is replaced when it is lost, not when it is renewed.
	tenure atomic.Pointer[tenure]
	// drains counts the waits for transactions that use old versions.
	drains atomic.Int64
	// renewing has one slot, which the goroutine that renews the tenure takes.
	renewing chan struct{}
	// resigned says that the tenure was given up: it is neither renewed nor replaced by another.
	resigned atomic.Bool
	rounds   rounds
	coming   coming

	mu      sync.Mutex // guards the fields below; nothing is taken after it but Txn.mu
	wake    chan struct{}
	open    map[*Txn]struct{}
	free    []*Txn
	applied map[catalog.ID]uint64 // pending versions that this node uses, for its tenure row
	written map[catalog.ID]uint64 // as in the tenure row
	// confirmed versions are used by all nodes; their pending rows may still exist.
	confirmed map[catalog.ID]uint64
	// thaws are versions that are marked as frozen but may be used, since their freezes have ended (lease.L6).
	thaws map[catalog.ID]uint64
	// news is closed when the snapshot or thaws have changed.
	news      chan struct{}
	seen      map[catalog.ID]seenPending
	orphans   map[catalog.ID]seenPending // freezes, by when they were seen first
	ids       struct{ next, end catalog.ID }
	listeners []func()
	// obsolete is from OnObsolete.
	obsolete func(context.Context, *catalog.Table)
	// awaiting are objects with a goroutine that waits for the time of their registered versions.
	awaiting map[catalog.ID]bool
	// unreadRows are hashes of rows that can't be read, and are in the log, by their keys.
	unreadRows map[string]uint64
}

// maxUnread bounds the rows of which is remembered that they are in the log.
const maxUnread = 1000

type seenPending struct {
	version uint64
	since   time.Duration
}

// tenure is the node's permission to use its snapshot until expiration; in return it tells which versions it uses.
type tenure struct {
	expiration atomic.Int64 // wall nanoseconds
}

func (t *tenure) deadline() clock.Timestamp { return clock.Timestamp{Wall: t.expiration.Load()} }

// New makes a manager; Start makes it ready.
func New(o Options) *Manager {
	if o.Duration == 0 {
		o.Duration = DefaultDuration
	}
	if o.PollInterval == 0 {
		o.PollInterval = DefaultPollInterval
	}
	if o.MaxDescriptors == 0 {
		o.MaxDescriptors = DefaultMaxDescriptors
	}
	m := &Manager{o: o, renewing: make(chan struct{}, 1), wake: make(chan struct{}), open: map[*Txn]struct{}{}, applied: map[catalog.ID]uint64{},
		written: map[catalog.ID]uint64{}, confirmed: map[catalog.ID]uint64{}, thaws: map[catalog.ID]uint64{}, news: make(chan struct{}), seen: map[catalog.ID]seenPending{},
		unreadRows: map[string]uint64{}, awaiting: map[catalog.ID]bool{}}
	m.snap.Store(newSnapshot())
	return m
}

// Start takes up a tenure, reads the catalogue, and keeps both fresh until the host's group stops. It fails if the
// catalogue can't be read; see Bootstrap for how it comes to be.
func (m *Manager) Start(ctx context.Context) error {
	for {
		err := m.takeUp(ctx)
		if err == nil {
			break
		}
		if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			return err
		}
	}
	if m.o.Host.Group.Go(m.keepTenure) && m.o.Host.Group.Go(m.poll) {
		return nil
	}
	return context.Canceled
}

// takeUp begins a tenure and reads everything (lease.L3).
func (m *Manager) takeUp(ctx context.Context) error {
	fresh := &tenure{}
	m.mu.Lock()
	clear(m.applied)
	m.mu.Unlock()
	exp := m.o.Clock.Now().Wall + int64(m.o.Duration)
	// A node that is cut off tries until it is not. The attempt that succeeds must not have begun so long before that its tenure is over.
	limit, cancel := m.o.Host.Clock.WithTimeout(ctx, m.o.Duration/3)
	defer cancel()
	if err := m.o.DB.Run(limit, txn.TxnOptions{Name: "tenure"}, func(ctx context.Context, tx *txn.Txn) error {
		return m.putTenure(ctx, tx, exp, nil)
	}); err != nil {
		return err
	}
	fresh.expiration.Store(exp)
	// The tenure row is there before anything is read: a change that the reads do not see finds the row. A registration that a publisher made before it saw the tenure is
	// there by now; if it has been decided since, it was at a time that is past for this read, and the catalogue is read later than that (lease.L16).
	if _, _, err := m.readPending(ctx, true); err != nil {
		return err
	}
	s, at, err := m.readAll(ctx)
	if err != nil {
		return err
	}
	m.mu.Lock()
	s = s.after(m.snap.Load(), at)
	m.snap.Store(s)
	clear(m.written)
	m.mu.Unlock()
	m.tenure.Store(fresh)
	m.changed()
	return nil
}

func (m *Manager) putTenure(ctx context.Context, tx *txn.Txn, expiration int64, applied map[catalog.ID]uint64) error {
	node := uint32(m.o.NodeID())
	var b txn.WriteBatch
	b.Put(tenureKey(node), wire.Append(nil, &tenureRow{Node: node, Expiration: expiration, Applied: applied}, (*tenureRow).fields))
	return tx.Write(ctx, &b)
}

func scanAll(ctx context.Context, tx *txn.Txn, span keys.Span, f func(kv.KeyValue) error) error {
	for next := &span; next != nil; {
		rows, resume, err := tx.Scan(ctx, txn.ScanOptions{Span: *next, TargetBytes: 4 << 20})
		if err != nil {
			return err
		}
		for _, r := range rows {
			if err := f(r); err != nil {
				return err
			}
		}
		next = resume
	}
	return nil
}

// readAll reads the whole catalogue.
func (m *Manager) readAll(ctx context.Context) (s *Snapshot, at clock.Timestamp, err error) {
	err = m.o.DB.Run(ctx, txn.TxnOptions{Name: "catalogue", ReadOnly: true}, func(ctx context.Context, tx *txn.Txn) error {
		s = newSnapshot()
		err := scanAll(ctx, tx, descriptorSpan(), func(r kv.KeyValue) error {
			d, err := m.decode(r.Value)
			if err != nil {
				m.unread(r.Key, r.Value, err)
				return nil // a statement that names it gets the error (lookAgain); all others go on (lease.L10)
			}
			s.byID[d.ID()] = entry{d: d}
			s.frozen += isFrozen(d)
			for _, n := range d.names() {
				s.names[n] = d.ID()
			}
			return nil
		})
		if err != nil {
			return err
		}
		at = tx.ReadTimestamp()
		return scanAll(ctx, tx, statisticsSpan(), func(r kv.KeyValue) error {
			id, err := lastID(r.Key)
			if err != nil {
				return err
			}
			if st, err := decodeStatistics(r.Value); err == nil {
				s.stats[catalog.ID(id)] = st
			}
			return nil
		})
	})
	return s, at, err
}

// Active reports whether the node may write what a feature introduces.
func (m *Manager) Active(f version.Feature) bool { return m.o.Version.Active(f) }

// keepTenure renews the tenure, and takes up another when it was lost.
func (m *Manager) keepTenure(ctx context.Context) {
	pause := m.o.Duration / renewals
	for m.o.Host.Clock.Sleep(ctx, pause) == nil {
		pause = m.o.Duration / renewals
		if !m.renew(ctx) {
			pause = renewPause
		} else if left := m.tenure.Load().deadline().Time().Sub(m.o.Clock.Now().Time()); left < m.o.Duration/2 {
			pause = min(pause, max(left/renewals, renewPause)) // it took long
		}
	}
}

// Resign gives the tenure up, so that no change of the schema waits for this node: call it when the last session is
// closed. Nothing can be committed with this catalogue afterwards.
func (m *Manager) Resign(ctx context.Context) error {
	m.resigned.Store(true)
	select {
	case m.renewing <- struct{}{}: // a renewal in progress would write the row again
		defer func() { <-m.renewing }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if t := m.tenure.Load(); t != nil {
		t.expiration.Store(1)
	}
	return m.o.DB.Delete(ctx, tenureKey(uint32(m.o.NodeID())))
}

// renew renews the tenure, or takes up another, and reports whether it did.
func (m *Manager) renew(ctx context.Context) bool {
	// One renewal at a time, so that the stored expiration is the one in memory.
	select {
	case m.renewing <- struct{}{}:
		defer func() { <-m.renewing }()
	case <-ctx.Done():
		return false
	}
	if m.resigned.Load() {
		return true
	}
	now := m.o.Clock.Now()
	t := m.tenure.Load()
	old := t.deadline()
	if !now.Less(old) {
		m.o.Host.Log.Warn("catalogue: the tenure ran out; reading the catalogue again")
		if err := m.takeUp(ctx); err != nil {
			if ctx.Err() == nil {
				m.o.Host.Log.Warn("catalogue: can't be read", "err", err)
			}
			return false
		}
		return true
	}
	m.mu.Lock()
	applied := make(map[catalog.ID]uint64, len(m.applied))
	for id, v := range m.applied {
		applied[id] = v
	}
	m.mu.Unlock()
	exp := now.Wall + int64(m.o.Duration)
	limit, cancel := m.o.Host.Clock.WithTimeout(ctx, m.o.Duration/3)
	defer cancel()
	err := m.o.DB.Run(limit, txn.TxnOptions{Name: "tenure"}, func(ctx context.Context, tx *txn.Txn) error {
		// The renewal commits before the old tenure ends, or not at all (lease.L3).
		tx.SetDeadline(old)
		return m.putTenure(ctx, tx, exp, applied)
	})
	if err != nil {
		if ctx.Err() == nil {
			m.o.Host.Log.Warn("catalogue: the tenure was not renewed", "err", err)
		}
		return false
	}
	t.expiration.Store(exp)
	m.mu.Lock()
	m.written = applied
	m.mu.Unlock()
	return true
}

// poll finds changes that no notification told of, and completes publications whose publisher died.
func (m *Manager) poll(ctx context.Context) {
	for m.o.Host.Clock.Sleep(ctx, m.o.PollInterval) == nil {
		if err := m.pollOnce(ctx); err != nil && ctx.Err() == nil {
			m.o.Host.Log.Debug("catalogue: poll failed", "err", err)
		}
	}
}

func (m *Manager) pollOnce(ctx context.Context) error {
	limit, cancel := m.o.Host.Clock.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	pending, freezes, err := m.readPending(limit, false)
	if err != nil {
		return err
	}
	now := m.o.Host.Clock.Monotonic()
	snap := m.snap.Load()
	var stale []catalog.ID
	var old []catalog.Dependency
	m.mu.Lock()
	for id := range m.seen {
		if _, ok := pending[id]; !ok {
			delete(m.seen, id)
			delete(m.applied, id)
			delete(m.confirmed, id)
		}
	}
	for id, v := range pending {
		if snap.version(id) < v {
			stale = append(stale, id)
		}
		s, ok := m.seen[id]
		if !ok || s.version != v {
			m.seen[id] = seenPending{v, now}
			continue
		}
		if now-s.since > completeAfter {
			old = append(old, catalog.Dependency{ID: id, Version: v})
		}
	}
	m.mu.Unlock()
	if len(stale) > 0 {
		if _, _, err := m.learnSome(limit, stale); err != nil {
			return err
		}
	}
	snap = m.snap.Load()
	dirty := false
	for id, v := range pending {
		if snap.version(id) >= v && !m.inUse(id, v, nil) {
			m.mu.Lock()
			m.applied[id] = v
			dirty = dirty || m.written[id] < v
			m.mu.Unlock()
		}
	}
	if dirty {
		m.renew(ctx)
	}
	if err := m.breakOrphans(limit, now, freezes); err != nil {
		return err
	}
	if len(old) > 0 {
		return m.confirm(limit, old, nil, nil)
	}
	return nil
}

// readPending reads the versions that some node may not use yet, and the rows of frozen tables, which are next to them. register says that the node registers what it finds, because publishers may not have
// seen its tenure. Otherwise they ask it, if they mean to keep to the time: statements would wait for one that is given up.
func (m *Manager) readPending(ctx context.Context, register bool) (pending map[catalog.ID]uint64, freezes []kv.KeyValue, err error) {
	pending = map[catalog.ID]uint64{}
	rows, err := m.o.DB.Scan(ctx, keys.Span{Start: pendingSpan().Start, End: frozenSpan().End})
	if err != nil {
		return nil, nil, err
	}
	for _, r := range rows {
		if frozenSpan().Contains(r.Key) {
			freezes = append(freezes, r)
			continue
		}
		id, err := lastID(r.Key)
		if err != nil {
			return nil, nil, err
		}
		p, err := wire.Decoded(r.Value, (*pendingRow).fields)
		if err != nil {
			m.unread(r.Key, r.Value, err)
			continue // this node does not say that it has applied the change, whose publisher waits; other changes go on
		}
		if p.Open {
			if err := m.foundRegistration(ctx, catalog.ID(id), &p, r.Value, register); err != nil {
				return nil, nil, err
			}
			continue
		}
		pending[catalog.ID(id)] = p.Version
	}
	return pending, freezes, nil
}

// learn reads descriptors and uses them from now on.
func (m *Manager) learn(ctx context.Context, ids []catalog.ID) ([]change, error) {
	changes, unread, err := m.learnSome(ctx, ids)
	if err == nil && unread != nil && !errors.As(unread, new(*wire.VersionError)) {
		err = unread
	}
	return changes, err
}

// learnSome is learn, and says why it could not read some of them. The others are used.
func (m *Manager) learnSome(ctx context.Context, ids []catalog.ID) (changes []change, unread, err error) {
	err = m.o.DB.Run(ctx, txn.TxnOptions{Name: "catalogue", ReadOnly: true}, func(ctx context.Context, tx *txn.Txn) error {
		changes, unread = changes[:0], nil
		ks := make([]keys.Key, len(ids))
		for i, id := range ids {
			ks[i] = descriptorKey(id)
		}
		vs, err := tx.GetMany(ctx, ks, kv.NoLock, kv.Block)
		if err != nil {
			return err
		}
		for i, v := range vs {
			c := change{id: ids[i], modified: tx.ReadTimestamp()}
			if v != nil {
				if c.d, err = m.decode(v); err != nil {
					m.unread(ks[i], v, err)
					unread = unreadable(ids[i], err)
					continue
				}
				c.version = c.d.Version()
			}
			changes = append(changes, c)
		}
		return nil
	})
	if err == nil {
		m.apply(changes)
	}
	return changes, unread, err
}

// unread logs a row of the catalogue that can't be read here: once, until it is written again, for polls meet it again and again.
func (m *Manager) unread(key keys.Key, row []byte, err error) {
	h := fnv.New64a()
	_, _ = h.Write(row)
	m.mu.Lock()
	old, known := m.unreadRows[string(key)]
	if len(m.unreadRows) >= maxUnread {
		clear(m.unreadRows)
	}
	m.unreadRows[string(key)] = h.Sum64()
	m.mu.Unlock()
	if known && old == h.Sum64() {
		return
	}
	m.o.Host.Log.Warn("a row of the catalogue can't be read; statements that name its object are refused", "key", key, "error", err)
}

// unreadable is the error of a statement that names the object of a row that can't be read. Of an object of a kind that only a later version knows,
// this one knows no more than that it exists.
func unreadable(id catalog.ID, err error) error {
	if !errors.As(err, new(*wire.VersionError)) {
		return err
	}
	e := sqlstate.New(sqlstate.FeatureNotSupported, "object %d was made by a later version of Meridian, and this node's does not know its kind", id)
	e.Cause, e.Hint = err, "Use a node of the later version, or upgrade this one."
	return e
}

// apply swaps the snapshot.
func (m *Manager) apply(changes []change) {
	m.mu.Lock()
	changes = m.holdBack(changes)
	s := m.snap.Load()
	n := s.with(changes)
	m.snap.Store(n)
	m.mu.Unlock()
	for _, c := range changes {
		c.d.take(m)
	}
	if n != s {
		m.changed()
		m.released()
	}
}

// OnChange registers f to be called after each change of the snapshot, on a goroutine of the manager's. f must not
// wait.
func (m *Manager) OnChange(f func()) {
	m.mu.Lock()
	m.listeners = append(slices.Clip(m.listeners), f)
	m.mu.Unlock()
}

// OnObsolete registers f to be called now and then while a transaction that drops a table waits for the table's jobs: those that do not get on
// may be called off.
func (m *Manager) OnObsolete(f func(context.Context, *catalog.Table)) {
	m.mu.Lock()
	m.obsolete = f
	m.mu.Unlock()
}

func (m *Manager) changed() {
	m.announce()
	m.mu.Lock()
	all := m.listeners
	m.mu.Unlock()
	for _, f := range all {
		f()
	}
}

// announce wakes the goroutines that wait for news.
func (m *Manager) announce() {
	m.mu.Lock()
	close(m.news)
	m.news = make(chan struct{})
	m.mu.Unlock()
}

// Generation changes whenever a descriptor that this node uses does. Reading it is one atomic load.
func (m *Manager) Generation() uint64 { return m.snap.Load().generation }

// Snapshot is the catalogue as the node knows it now, for uses that need no protection by a transaction.
func (m *Manager) Snapshot() *Snapshot { return m.snap.Load() }

// Deadline is a timestamp until which this node may use its snapshot.
func (m *Manager) Deadline() clock.Timestamp {
	if t := m.tenure.Load(); t != nil {
		return t.deadline()
	}
	return clock.Timestamp{Wall: 1}
}

// User finds a role; nil if there is none.
func (m *Manager) User(ctx context.Context, name string) (*catalog.User, error) {
	if u := m.snap.Load().user(name); u != nil {
		return u, nil
	}
	// It may have been made on another node a moment ago.
	if _, err := m.lookAgain(ctx, nameKey{schema: roleNames, name: name}); err != nil {
		return nil, err
	}
	return m.snap.Load().user(name), nil
}

// KnownUser is a role as this node's snapshot has it; nil if it has none. It asks no other node, so that a client that has not
// authenticated can neither cause requests nor learn from the time of an answer. CREATE ROLE tells every node before it
// returns.
func (m *Manager) KnownUser(name string) *catalog.User { return m.snap.Load().user(name) }

// Secret is a secret that the cluster's nodes share; empty in clusters that were made before it was introduced.
func (m *Manager) Secret() []byte {
	if d := m.snap.Load().descriptor(catalog.SettingsTableID); d != nil && d.Settings != nil {
		return d.Settings.Secret
	}
	return nil
}

// Roles are all roles.
func (m *Manager) Roles() *catalog.Roles { return m.snap.Load().roles }

// Database finds a database as it is known now; nil if there is none.
func (m *Manager) Database(name string) *catalog.Database {
	if d := m.snap.Load().database(name); d != nil {
		return d
	}
	return catalog.Template(name)
}

// DatabaseExists is asked when a client connects.
func (m *Manager) DatabaseExists(ctx context.Context, name string) (bool, error) {
	if m.snap.Load().database(name) != nil {
		return true, nil
	}
	if _, err := m.lookAgain(ctx, nameKey{name: name}); err != nil {
		return false, err
	}
	return m.snap.Load().database(name) != nil, nil
}

// Setting is a cluster setting's value.
func (m *Manager) Setting(name string) (string, bool) { return m.snap.Load().Setting(name) }

// Settings are all cluster settings that were set. The map must not be changed.
func (m *Manager) Settings() map[string]string {
	if d := m.snap.Load().descriptor(catalog.SettingsTableID); d != nil && d.Settings != nil {
		return d.Settings.Values
	}
	return nil
}

// lookAgain asks the stored names, and reports whether the name is there; the snapshot has it then. Whether the snapshot had to
// change for that says nothing: another caller may have brought it up to date meanwhile.
func (m *Manager) lookAgain(ctx context.Context, n nameKey) (bool, error) {
	if m.tenure.Load() == nil {
		return false, nil
	}
	v, err := m.o.DB.Get(ctx, nameRowKey(n))
	if err != nil || v == nil {
		return false, err
	}
	id, err := decodeNameValue(v)
	if err != nil {
		return false, err
	}
	_, unread, err := m.learnSome(ctx, []catalog.ID{id})
	if err == nil {
		err = unread // else the caller would look for the name in the snapshot again and again
	}
	return err == nil, err
}

// NewID hands out the identity of a new descriptor. Some are lost when a node stops.
func (m *Manager) NewID(ctx context.Context) (catalog.ID, error) {
	const batch = 32
	m.mu.Lock()
	if m.ids.next < m.ids.end {
		id := m.ids.next
		m.ids.next++
		m.mu.Unlock()
		return id, nil
	}
	m.mu.Unlock()
	end, err := m.o.DB.Add(ctx, keys.DescriptorIDAllocatorKey(), batch)
	if err != nil {
		return 0, err
	}
	if end > int64(catalog.FirstLocalID-catalog.FirstUserID)-1 {
		return 0, sqlstate.New(sqlstate.ConfigurationLimitExceeded, "no identities are left for new objects")
	}
	first := catalog.FirstUserID + catalog.ID(end-batch)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ids.next, m.ids.end = first+1, first+batch
	return first, nil
}

// errStale is the error of a transaction that has to begin again to see the catalogue as it is now.
func errStale(what string) error {
	e := sqlstate.New(sqlstate.SerializationFailure, "the schema was changed by another transaction")
	e.Detail = what
	e.Hint = "The transaction might succeed if retried."
	return e
}

var errStopped = errors.New("lease: manager is stopped")
