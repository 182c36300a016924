package lease

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"meridian/kv"
	"meridian/sql/catalog"
	"meridian/sql/sqlstate"
	"meridian/wire"
)

// Some waits are not for locks. A transaction that locks a table waits until no other uses the earlier version (lease.L6), and until
// jobs that change the table have ended, which themselves wait for users of older versions:
//
//	A  has used t1,  wants to lock t2:  waits for B, which uses t2's earlier version
//	B  has used t2,  wants to lock t1:  waits for A
//
// The lock table knows nothing of this. So a transaction that has waited for a moment asks every node for the transactions in its
// way, and waits for each at its record, as for the holder of a lock (txn.Waiter): a cycle is then found as any other, and the
// transaction that gives way gets the error of a deadlock.

const (
	// askAfter is how long a wait lasts before the nodes are asked, askAgain the time until they are asked again: other
	// transactions may have taken their first lock since, and can be waited for only from then on.
	askAfter = 200 * time.Millisecond
	askAgain = time.Second
	// maxAsked bounds the transactions that one waits for at once.
	maxAsked = 100
)

var errJob = errors.New("lease: a job is changing the table")

// hasJob reports whether a job changes a table or a type, version by version.
func hasJob(d *Descriptor) bool {
	if d.Type != nil {
		return d.Type.Job != 0
	}
	return d.Table != nil && slices.ContainsFunc(d.Table.Mutations, func(m catalog.Mutation) bool { return m.Job != 0 })
}

// usersHere are the transactions of this node that use versions older than these, and have a record that others can
// wait for.
func (m *Manager) usersHere(deps []catalog.Dependency) (out []kv.TxnMeta) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for t := range m.open {
		if t.tx == nil || len(out) >= maxAsked || !slices.ContainsFunc(deps, func(d catalog.Dependency) bool { return t.olderThan(d.ID, d.Version) }) {
			continue
		}
		if meta, ok := t.tx.Known(); ok {
			out = append(out, meta)
		}
	}
	return out
}

// users are the transactions of all nodes that use versions older than these.
func (m *Manager) users(ctx context.Context, deps []catalog.Dependency) []kv.TxnMeta {
	out := m.usersHere(deps)
	if m.o.Notifier == nil {
		return out
	}
	payload := wire.Append(nil, &message{Ask: deps}, (*message).fields)
	ctx, cancel := m.o.Host.Clock.WithTimeout(ctx, askAgain)
	defer cancel()
	var mu sync.Mutex // guards out
	m.o.Notifier.Broadcast(ctx, payload, func(_ kv.NodeID, answer []byte) {
		some, err := wire.Decoded(answer, (*users).fields)
		if err != nil {
			return
		}
		mu.Lock()
		out = append(out, some.Txns...)
		mu.Unlock()
	})
	mu.Lock()
	defer mu.Unlock()
	return out[:min(len(out), maxAsked)]
}

// seenWaiting makes the wait visible to deadlock detection: the transaction waits for all that use older versions of tables than
// the present ones. The context that it returns ends if the transaction is to give way in a deadlock; the caller calls seen when
// the wait is over, and gets the error of such a deadlock.
func (t *Txn) seenWaiting(ctx context.Context, ids []catalog.ID) (_ context.Context, seen func() error) {
	w, ok := t.tx.Waiter()
	if !ok {
		return ctx, func() error { return nil }
	}
	m, self := t.m, t.tx.ID()
	ctx, cancel := context.WithCancelCause(ctx)
	asking, stop := context.WithCancel(ctx)
	m.o.Host.Group.Go(func(group context.Context) {
		defer context.AfterFunc(group, stop)()
		waits := map[kv.TxnID]func(){}
		defer func() {
			for _, done := range waits {
				done()
			}
		}()
		for pause := askAfter; m.o.Host.Clock.Sleep(asking, pause) == nil; pause = askAgain {
			s := m.snap.Load()
			var deps []catalog.Dependency
			for _, id := range ids {
				deps = append(deps, catalog.Dependency{ID: id, Version: s.version(id)})
			}
			there := map[kv.TxnID]bool{}
			for _, x := range m.users(asking, deps) {
				if there[x.ID] = true; waits[x.ID] == nil && x.ID != self {
					waits[x.ID] = w.For(asking, cancel, x, lockKey(ids[0]))
				}
			}
			for id, done := range waits {
				if !there[id] {
					done()
					delete(waits, id)
				}
			}
		}
	})
	return ctx, func() error {
		stop()
		var deadlock *kv.DeadlockError
		cause := context.Cause(ctx)
		cancel(nil)
		if errors.As(cause, &deadlock) {
			return deadlock
		}
		return nil
	}
}

// jobsFirst waits until no job changes the tables any more, as others would wait for the lock that a change of the schema has in
// PostgreSQL. A transaction that uses such a table is in the job's way, and begins anew when the job has ended.
func (t *Txn) jobsFirst(ctx context.Context, ids []catalog.ID, wait kv.WaitPolicy) error {
	var busy []catalog.ID
	s := t.m.snap.Load()
	for _, id := range ids {
		if d := s.descriptor(id); d != nil && d.Table != nil && hasJob(d) && !t.endsRewrite(id, d.Table) {
			busy = append(busy, id)
		}
	}
	if len(busy) == 0 {
		t.late = false
		return nil
	}
	i := slices.IndexFunc(busy, func(id catalog.ID) bool { return t.used(id) != 0 })
	switch {
	case i < 0:
		return t.awaitJobs(ctx, busy, wait)
	case wait == kv.NoWait:
		return t.notLocked(busy[i], &kv.LockNotAvailableError{Key: lockKey(busy[i])})
	case t.late:
		t.late = false
		return errLate()
	}
	t.jobs = busy
	return t.stepBack(busy, true)
}

// JobFirst is the error of a statement that can't go on while a job changes a table or a type. The transaction begins anew when the job has
// ended.
func (t *Txn) JobFirst(id catalog.ID) error {
	if t.late {
		t.late = false
		return errLate()
	}
	t.jobs = append(t.jobs, id)
	return t.stepBack([]catalog.ID{id}, false)
}

func errLate() error {
	return sqlstate.New(sqlstate.LockNotAvailable, "canceling statement due to lock timeout")
}

// awaitJobs waits for the jobs of tables that the transaction does not use. It gives its locks up after a while if it has any: a
// job may wait for a transaction that waits for one of them.
func (t *Txn) awaitJobs(ctx context.Context, ids []catalog.ID, wait kv.WaitPolicy) error {
	if t.late {
		t.late = false
		return errLate()
	}
	m := t.m
	busy := func() catalog.ID {
		s := m.snap.Load()
		for _, id := range ids {
			if d := s.descriptor(id); d != nil && !d.dropped() && hasJob(d) {
				return id
			}
		}
		return 0
	}
	limit, cancel := context.WithCancel(ctx)
	if bound := t.tx.LockTimeout(); bound > 0 || t.tx.Locks() {
		limit, cancel = t.m.o.Host.Clock.WithTimeout(ctx, m.patience(t))
	}
	defer cancel()
	limit, seen := t.seenWaiting(limit, ids)
	t.callOff(limit, ids)
	for {
		m.mu.Lock()
		news := m.news
		m.mu.Unlock()
		id := busy()
		if id != 0 && wait == kv.NoWait {
			seen()
			return t.notLocked(id, &kv.LockNotAvailableError{Key: lockKey(id)})
		}
		if id == 0 {
			seen()
			return nil
		}
		select {
		case <-news:
			continue
		case <-limit.Done():
		}
		deadlock := seen()
		switch {
		case deadlock != nil:
			t.jobs = ids
			t.stepBack(ids, true)
			t.tx.Lose(deadlock)
			return deadlock
		case ctx.Err() != nil:
			return ctx.Err()
		case t.tx.LockTimeout() > 0 && m.patience(t) == t.tx.LockTimeout():
			return errLate()
		}
		t.jobs = ids
		return t.stepBack(ids, true)
	}
}

// obsoleteEach is how often a transaction looks at the jobs of tables that it drops, while it waits for them.
const obsoleteEach = 2 * time.Second

// callOff has the jobs that do not get on looked at of those tables that the transaction drops, until ctx ends.
func (t *Txn) callOff(ctx context.Context, ids []catalog.ID) {
	m := t.m
	m.mu.Lock()
	f := m.obsolete
	m.mu.Unlock()
	drops := slices.DeleteFunc(slices.Clone(ids), func(id catalog.ID) bool { return !slices.Contains(t.drops, id) })
	if f == nil || len(drops) == 0 {
		return
	}
	m.o.Host.Group.Go(func(group context.Context) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(group, cancel)()
		for m.o.Host.Clock.Sleep(ctx, obsoleteEach) == nil {
			for _, id := range drops {
				if d := m.snap.Load().descriptor(id); d != nil && d.Table != nil && !d.dropped() && hasJob(d) {
					f(ctx, d.Table)
				}
			}
		}
	})
}
