package session

import (
	"context"
	"errors"
	"sync"
	"time"

	"meridian/keys"
	"meridian/kv"
	"meridian/sql/scalar"
	"meridian/sql/sqlstate"
	"meridian/sql/virtual"
	"meridian/txn"
)

// Advisory locks. All of a session's are held by one transaction that never commits (txn.Holder), and counted here: a lock can be
// taken several times, at the session's level and at the transaction's, exclusive and shared, and is given back when the last
// count is gone.
//
// A lock that is given back leaves the holder at the end of the statement. So a statement that is run again, at READ COMMITTED,
// finds what it had; and so does a transaction that is run again as a whole (replay.go): it begins with the counts that it began
// with, and with the locks that it has got since, which are kept until it ends. A call that can't be repeated turns the replay off: a
// lock that was given back, for others may have it.

// maxAdvisory bounds the advisory locks of a session.
const maxAdvisory = 10_000

// advisorySize is about what one costs.
const advisorySize = 400

// modes of advisory locks, as indexes.
const (
	advisoryExclusive = iota
	advisoryShared
)

type advisoryCount struct {
	session, xact [2]int
	laid          [2]bool // the holder has it
	since         time.Time
}

func (c *advisoryCount) free(mode int) bool { return c.session[mode]+c.xact[mode] == 0 }

// advisory is a session's advisory locks.
type advisory struct {
	s      *Session
	holder *txn.Holder
	// journal has what the open transaction did to counts, for savepoints and for running it again.
	journal []advisoryEntry
	// keep: locks stay laid until the transaction ends, because it runs again.
	keep bool
	// idle are locks without a count that may still be laid.
	idle []keys.AdvisoryLock

	mu      sync.Mutex // guards the fields below, which others read (virtual.Activity); may be taken after Session.mu
	locks   map[keys.AdvisoryLock]*advisoryCount
	waiting *virtual.AdvisoryLock
	id      kv.TxnID
}

type advisoryEntry struct {
	lock    keys.AdvisoryLock
	mode    int
	session bool
	n       int // 1 or -1
}

// advisoryLocks are the session's, made when they are first used.
func (s *Session) advisoryLocks() *advisory {
	a := s.advisory.Load()
	if a == nil {
		a = &advisory{s: s, locks: map[keys.AdvisoryLock]*advisoryCount{}}
		s.advisory.Store(a)
	}
	return a
}

// hold makes sure that there is a holder, and that the open transaction knows it.
func (a *advisory) hold() {
	if a.holder == nil {
		s := a.s
		a.holder = s.srv.DB.NewHolder(s.advisoryLost)
		a.mu.Lock()
		a.id = a.holder.ID()
		a.mu.Unlock()
	}
	if a.s.tx != nil {
		a.s.tx.SetHolder(a.holder)
	}
}

// advisoryLost ends the session: others may have its locks soon. Another goroutine calls it.
func (s *Session) advisoryLost(error) {
	s.endWith(sqlstate.New(sqlstate.AdminShutdown, "terminating connection because its advisory locks could not be kept").
		WithDetail("The range of the locks' keys could not be reached for some seconds, so other sessions may be given them."))
}

// AdvisoryLock implements scalar.Environment.
func (e *environment) AdvisoryLock(ctx context.Context, l scalar.AdvisoryLock) (bool, error) {
	s := e.s
	s.ensureTxn()
	lock, err := s.advisoryKey(ctx, l)
	if err != nil {
		return false, err
	}
	a, mode := s.advisoryLocks(), advisoryExclusive
	if l.Shared {
		mode = advisoryShared
	}
	a.mu.Lock()
	c := a.locks[lock]
	full := c == nil && len(a.locks) >= maxAdvisory
	a.mu.Unlock()
	if full {
		return false, sqlstate.New(sqlstate.OutOfMemory, "out of shared memory").
			WithHint("A session can hold %d advisory locks.", maxAdvisory)
	}
	if c == nil {
		if err := s.memory.Grow(advisorySize); err != nil {
			return false, err
		}
		c = &advisoryCount{}
		a.mu.Lock()
		a.locks[lock] = c
		a.mu.Unlock()
	}
	if !c.laid[mode] {
		got, err := a.lay(ctx, lock, c, mode, l.Try)
		if err != nil || !got {
			a.forgetUnused(lock, c)
			a.dismiss()
			return false, err
		}
	}
	a.count(advisoryEntry{lock, mode, !l.Transaction, 1})
	return true, nil
}

// lay takes a lock that the session does not have.
func (a *advisory) lay(ctx context.Context, lock keys.AdvisoryLock, c *advisoryCount, mode int, try bool) (bool, error) {
	s := a.s
	a.hold()
	wait := kv.Block
	if try {
		wait = kv.NoWait
	} else {
		w := advisoryShown(lock, mode)
		w.Since = s.srv.Host.Clock.Now()
		a.mu.Lock()
		a.waiting = &w
		a.mu.Unlock()
		s.setWaitEvent(virtual.WaitAdvisory)
		defer func() {
			s.setWaitEvent("")
			a.mu.Lock()
			a.waiting = nil
			a.mu.Unlock()
		}()
	}
	err := a.holder.Lock(ctx, lock, mode == advisoryShared, wait, s.duration("lock_timeout"), s.tx)
	var (
		unavailable *kv.LockNotAvailableError
		deadlock    *kv.DeadlockError
	)
	switch {
	case errors.As(err, &unavailable) && !unavailable.Timeout:
		return false, nil
	case errors.As(err, &deadlock):
		s.replay.turnOff("it waits for an advisory lock in a deadlock")
		s.tx.Lose(deadlock)
		return false, err
	case err != nil:
		return false, err
	}
	a.mu.Lock()
	c.laid[mode], c.since = true, s.srv.Host.Clock.Now()
	a.mu.Unlock()
	s.tx.LookAnew()
	return true, nil
}

func (a *advisory) count(e advisoryEntry) {
	a.journal = append(a.journal, e)
	a.apply(e)
}

func (a *advisory) apply(e advisoryEntry) {
	a.mu.Lock()
	defer a.mu.Unlock()
	c := a.locks[e.lock]
	if c == nil {
		return
	}
	if e.session {
		c.session[e.mode] += e.n
	} else {
		c.xact[e.mode] += e.n
	}
	if c.free(e.mode) {
		a.idle = append(a.idle, e.lock)
	}
}

// AdvisoryUnlock implements scalar.Environment.
func (e *environment) AdvisoryUnlock(ctx context.Context, l scalar.AdvisoryLock) (bool, error) {
	s := e.s
	s.ensureTxn()
	lock, err := s.advisoryKey(ctx, l)
	if err != nil {
		return false, err
	}
	a, mode, name := s.advisoryLocks(), advisoryExclusive, "ExclusiveLock"
	if l.Shared {
		mode, name = advisoryShared, "ShareLock"
	}
	if c := a.locks[lock]; c == nil || c.session[mode] == 0 {
		s.out.Notice(&sqlstate.Error{Code: sqlstate.Warning, Message: "you don't own a lock of type " + name})
		return false, nil
	}
	a.count(advisoryEntry{lock, mode, true, -1})
	if a.locks[lock].free(mode) {
		s.replay.turnOff("it gave an advisory lock back")
	}
	return true, nil
}

// AdvisoryUnlockAll implements scalar.Environment.
func (e *environment) AdvisoryUnlockAll(context.Context) {
	if a := e.s.advisory.Load(); a != nil {
		e.s.ensureTxn()
		a.unlockAll()
	}
}

func (a *advisory) unlockAll() {
	var all []advisoryEntry
	a.mu.Lock()
	for lock, c := range a.locks {
		for mode, n := range c.session {
			for range n {
				all = append(all, advisoryEntry{lock, mode, true, -1})
			}
		}
	}
	a.mu.Unlock()
	for _, e := range all {
		a.count(e)
	}
	if len(all) > 0 {
		a.s.replay.turnOff("it gave its advisory locks back")
	}
}

// advisoryKey is a lock of the session's database.
func (s *Session) advisoryKey(ctx context.Context, l scalar.AdvisoryLock) (keys.AdvisoryLock, error) {
	k := keys.AdvisoryLock{Sub: 1, ID: uint64(l.ID)}
	if l.Two {
		k.Sub, k.ID = 2, uint64(uint32(l.Class))<<32|uint64(uint32(l.Object))
	}
	db, err := s.view().Database(ctx, s.client.Database)
	if err != nil {
		return k, err
	}
	if db == nil {
		return k, sqlstate.New(sqlstate.InvalidCatalogName, "database %q does not exist", s.client.Database)
	}
	k.Database = uint32(db.ID)
	return k, nil
}

// mark is a point of the journal to which undo goes back.
func (s *Session) markAdvisory() int {
	if a := s.advisory.Load(); a != nil {
		return len(a.journal)
	}
	return 0
}

// undoAdvisory takes back what was done to counts since a mark. onlyXact leaves the session's level as it is.
func (s *Session) undoAdvisory(mark int, onlyXact bool) {
	a := s.advisory.Load()
	if a == nil || mark >= len(a.journal) {
		return
	}
	kept := a.journal[:mark:mark]
	for i := len(a.journal) - 1; i >= mark; i-- {
		e := a.journal[i]
		if e.session && onlyXact {
			continue
		}
		e.n = -e.n
		a.apply(e)
	}
	if onlyXact {
		for _, e := range a.journal[mark:] {
			if e.session {
				kept = append(kept, e)
			}
		}
	}
	a.journal = kept
}

// restartAdvisory has a transaction that starts over begin with the counts with which it began.
func (s *Session) restartAdvisory() {
	if a := s.advisory.Load(); a != nil && len(a.journal) > 0 {
		a.keep = true
		s.undoAdvisory(0, false)
	}
}

// deadlockedAdvisory reports whether a transaction that was chosen to end a deadlock has taken advisory locks: it would keep them,
// and meet the others again.
func (s *Session) deadlockedAdvisory(conflict error) bool {
	var deadlock *kv.DeadlockError
	a := s.advisory.Load()
	return a != nil && len(a.journal) > 0 && errors.As(conflict, &deadlock)
}

// endAdvisory ends the transaction's level.
func (s *Session) endAdvisory() {
	a := s.advisory.Load()
	if a == nil {
		return
	}
	s.undoAdvisory(0, true)
	a.journal, a.keep = nil, false
	s.settleAdvisory()
}

// settleAdvisory gives back what nothing counts any more.
func (s *Session) settleAdvisory() {
	a := s.advisory.Load()
	if a == nil || a.keep || len(a.idle) == 0 {
		return
	}
	idle := a.idle
	a.idle = nil
	ctx := s.srv.Host.Group.Context()
	for _, lock := range idle {
		c := a.locks[lock]
		if c == nil {
			continue
		}
		for mode := range c.laid {
			if c.laid[mode] && c.free(mode) {
				a.mu.Lock()
				c.laid[mode] = false
				a.mu.Unlock()
				a.holder.Unlock(ctx, lock, mode == advisoryShared)
			}
		}
		a.forgetUnused(lock, c)
	}
	a.dismiss()
}

// dismiss closes a holder that has nothing, so that it needs no sign of life; the next lock has another one.
func (a *advisory) dismiss() {
	if len(a.locks) > 0 || a.holder == nil {
		return
	}
	a.holder.Close()
	a.holder = nil
	if a.s.tx != nil {
		a.s.tx.SetHolder(nil)
	}
}

func (a *advisory) forgetUnused(lock keys.AdvisoryLock, c *advisoryCount) {
	if c.laid != [2]bool{} || !c.free(advisoryExclusive) || !c.free(advisoryShared) {
		return
	}
	a.mu.Lock()
	_, known := a.locks[lock]
	delete(a.locks, lock)
	a.mu.Unlock()
	if known {
		a.s.memory.Shrink(advisorySize)
	}
}

// closeAdvisory gives everything back when the session ends.
func (s *Session) closeAdvisory() {
	a := s.advisory.Load()
	if a == nil {
		return
	}
	a.mu.Lock()
	n := len(a.locks)
	clear(a.locks)
	a.mu.Unlock()
	s.memory.Shrink(int64(n) * advisorySize)
	if a.holder != nil {
		a.holder.Close()
	}
}

// advisoryShown is a lock as pg_locks shows it.
func advisoryShown(l keys.AdvisoryLock, mode int) virtual.AdvisoryLock {
	return virtual.AdvisoryLock{Database: l.Database, Class: uint32(l.ID >> 32), Object: uint32(l.ID), Sub: int16(l.Sub), Shared: mode == advisoryShared}
}

// advisoryActivity adds the locks to what other sessions see. Another goroutine calls it.
func (s *Session) advisoryActivity(out *Activity) {
	a := s.advisory.Load()
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for lock, c := range a.locks {
		for mode, laid := range c.laid {
			if laid && !c.free(mode) {
				w := advisoryShown(lock, mode)
				w.Granted = true
				out.Advisory = append(out.Advisory, w)
			}
		}
	}
	if a.waiting != nil {
		out.Advisory = append(out.Advisory, *a.waiting)
	}
	if len(out.Advisory) > 0 {
		out.Holder = a.id
	}
}

// holds reports whether a transaction is the session's holder of advisory locks. Another goroutine may call it.
func (s *Session) holds(id kv.TxnID) bool {
	a := s.advisory.Load()
	if a == nil {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.id == id
}
