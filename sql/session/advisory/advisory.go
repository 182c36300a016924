// Package advisory has a session's advisory locks: which locks pg_advisory_lock and similar functions have taken, and how often.
//
// All of a session's locks are held by one transaction that never commits (Holder), and counted here: a lock can be
// taken several times, at the session's level and at the transaction's, exclusive and shared, and is released when its counts are all zero.
//
// The holder releases such a lock at the end of the statement (Settle). So a statement that is run again, at READ COMMITTED, finds the locks
// that it had (Mark, Undo). A transaction that is run again as a whole (Restart) has the counts with which it began, and keeps the locks that it
// has taken since, until it ends. A call that can't be repeated turns the replay off: after an unlock another session may have taken the lock.
package advisory

import (
	"context"
	"errors"
	"sync"
	"time"

	"meridian/keys"
	"meridian/kv"
	"meridian/sql/memory"
	"meridian/sql/sqlstate"
	"meridian/sql/virtual"
)

// Holder is the transaction that has a session's locks (txn.Holder).
type Holder interface {
	ID() kv.TxnID
	// Lock takes a lock, and waits for it. With try it does not wait: the error is kv.LockNotAvailableError if the lock is not free.
	Lock(ctx context.Context, l keys.AdvisoryLock, shared, try bool) error
	Unlock(ctx context.Context, l keys.AdvisoryLock, shared bool)
	Close()
}

// Session is what the locks need of the session that has them.
type Session interface {
	NewHolder() Holder
	// Beside links the open transaction, if there is one, with the session's holder; nil: there is none.
	Beside(h Holder)
	// Waits shows other sessions that this one waits for a lock, until done is called.
	Waits() (done func())
	// Deadlocked makes the open transaction lose a conflict, and Taken makes it read the present versions of rows.
	Deadlocked(err *kv.DeadlockError)
	Taken()
	// TurnOff notes that the open transaction can't be run again, and why.
	TurnOff(reason string)
	Now() time.Time
	// Context lasts as long as the node: locks are released even if the statement was cancelled.
	Context() context.Context
}

// Max bounds the advisory locks of a session.
const Max = 10_000

// lockBytes is roughly the memory of one lock.
const lockBytes = 400

// Mode is how a lock is taken.
type Mode int

const (
	Exclusive Mode = iota
	Shared
	modes
)

func (m Mode) String() string { return [modes]string{"ExclusiveLock", "ShareLock"}[m] }

// counts says how often a lock has been taken, by mode.
type counts struct {
	session, xact [modes]int
	held          [modes]bool // the holder has it
	since         time.Time
}

func (c *counts) free(m Mode) bool { return c.session[m]+c.xact[m] == 0 }

// Locks are a session's advisory locks. Only the session's goroutine calls its methods, but for List and Holds.
type Locks struct {
	s      Session
	memory *memory.Account
	holder Holder // nil without locks
	// journal has the open transaction's changes of counts, for savepoints and for running it again.
	journal []entry
	// keep: locks stay held until the transaction ends, because it runs again.
	keep bool
	// idle are locks without a count that may still be held.
	idle []keys.AdvisoryLock

	mu      sync.Mutex // guards the fields below, which others read (virtual.Activity); nothing is taken after it
	locks   map[keys.AdvisoryLock]*counts
	waiting *virtual.AdvisoryLock
	id      kv.TxnID
}

type entry struct {
	lock    keys.AdvisoryLock
	mode    Mode
	session bool
	n       int // 1 or -1
}

// New makes the locks of a session, which has none yet; their memory is reserved in its account.
func New(s Session, account *memory.Account) *Locks { return &Locks{s: s, memory: account} }

// Begin links a transaction that begins with the holder.
func (a *Locks) Begin() {
	if a.holder != nil {
		a.s.Beside(a.holder)
	}
}

// Lock takes a lock for the transaction or the session. With try it does not wait, and reports whether the lock was free.
func (a *Locks) Lock(ctx context.Context, lock keys.AdvisoryLock, mode Mode, session, try bool) (bool, error) {
	c := a.locks[lock]
	if c == nil {
		if len(a.locks) >= Max {
			return false, sqlstate.New(sqlstate.OutOfMemory, "out of shared memory").
				WithHint("A session can hold %d advisory locks.", Max)
		}
		if err := a.memory.Grow(lockBytes); err != nil {
			return false, err
		}
		c = &counts{}
		a.mu.Lock()
		if a.locks == nil {
			a.locks = map[keys.AdvisoryLock]*counts{}
		}
		a.locks[lock] = c
		a.mu.Unlock()
	}
	if !c.held[mode] {
		got, err := a.take(ctx, lock, c, mode, try)
		if err != nil || !got {
			a.forgetUnused(lock, c)
			a.dismiss()
			return false, err
		}
	}
	a.count(entry{lock, mode, session, 1})
	return true, nil
}

// take takes a lock that the session does not hold yet.
func (a *Locks) take(ctx context.Context, lock keys.AdvisoryLock, c *counts, mode Mode, try bool) (bool, error) {
	if a.holder == nil {
		a.holder = a.s.NewHolder()
		a.mu.Lock()
		a.id = a.holder.ID()
		a.mu.Unlock()
	}
	a.s.Beside(a.holder)
	if !try {
		w := Shown(lock, mode)
		w.Since = a.s.Now()
		a.setWaiting(&w)
		done := a.s.Waits()
		defer func() {
			done()
			a.setWaiting(nil)
		}()
	}
	err := a.holder.Lock(ctx, lock, mode == Shared, try)
	var (
		unavailable *kv.LockNotAvailableError
		deadlock    *kv.DeadlockError
	)
	switch {
	case errors.As(err, &unavailable) && !unavailable.Timeout:
		return false, nil
	case errors.As(err, &deadlock):
		a.s.TurnOff("it waits for an advisory lock in a deadlock")
		a.s.Deadlocked(deadlock)
		return false, err
	case err != nil:
		return false, err
	}
	a.mu.Lock()
	c.held[mode], c.since = true, a.s.Now()
	a.mu.Unlock()
	a.s.Taken()
	return true, nil
}

func (a *Locks) setWaiting(w *virtual.AdvisoryLock) {
	a.mu.Lock()
	a.waiting = w
	a.mu.Unlock()
}

func (a *Locks) count(e entry) {
	a.journal = append(a.journal, e)
	a.apply(e)
}

func (a *Locks) apply(e entry) {
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

// Unlock takes back one count of the session's level, and reports whether there was one.
func (a *Locks) Unlock(lock keys.AdvisoryLock, mode Mode) bool {
	c := a.locks[lock]
	if c == nil || c.session[mode] == 0 {
		return false
	}
	a.count(entry{lock, mode, true, -1})
	if c.free(mode) {
		a.s.TurnOff("it gave an advisory lock back")
	}
	return true
}

// UnlockAll takes back all counts of the session's level.
func (a *Locks) UnlockAll() {
	var all []entry
	for lock, c := range a.locks {
		for mode, n := range c.session {
			for range n {
				all = append(all, entry{lock, Mode(mode), true, -1})
			}
		}
	}
	for _, e := range all {
		a.count(e)
	}
	if len(all) > 0 {
		a.s.TurnOff("it gave its advisory locks back")
	}
}

// Mark is a point of the transaction to which Undo goes back.
func (a *Locks) Mark() int { return len(a.journal) }

// Undo takes back the changes of counts since a mark. onlyXact leaves the session's level as it is.
func (a *Locks) Undo(mark int, onlyXact bool) {
	if mark >= len(a.journal) {
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

// Counted reports whether the open transaction has taken or released locks.
func (a *Locks) Counted() bool { return len(a.journal) > 0 }

// Restart restores the counts with which the open transaction began, before it is run again.
func (a *Locks) Restart() {
	if a.Counted() {
		a.keep = true
		a.Undo(0, false)
	}
}

// End ends the transaction's level.
func (a *Locks) End() {
	a.Undo(0, true)
	a.journal, a.keep = nil, false
	a.Settle()
}

// Settle releases the locks without a count, when a statement ends.
func (a *Locks) Settle() {
	if a.keep || len(a.idle) == 0 {
		return
	}
	idle := a.idle
	a.idle = nil
	ctx := a.s.Context()
	for _, lock := range idle {
		c := a.locks[lock]
		if c == nil {
			continue
		}
		for mode := range modes {
			if c.held[mode] && c.free(mode) {
				a.mu.Lock()
				c.held[mode] = false
				a.mu.Unlock()
				a.holder.Unlock(ctx, lock, mode == Shared)
			}
		}
		a.forgetUnused(lock, c)
	}
	a.dismiss()
}

// dismiss closes a holder without locks, so that it needs no heartbeat; the next lock gets another holder.
func (a *Locks) dismiss() {
	if len(a.locks) > 0 || a.holder == nil {
		return
	}
	a.holder.Close()
	a.holder = nil
	a.s.Beside(nil)
}

func (a *Locks) forgetUnused(lock keys.AdvisoryLock, c *counts) {
	if c.held != [modes]bool{} || !c.free(Exclusive) || !c.free(Shared) {
		return
	}
	a.mu.Lock()
	_, known := a.locks[lock]
	delete(a.locks, lock)
	a.mu.Unlock()
	if known {
		a.memory.Shrink(lockBytes)
	}
}

// Close releases all locks when the session ends.
func (a *Locks) Close() {
	a.mu.Lock()
	n := len(a.locks)
	clear(a.locks)
	a.mu.Unlock()
	a.memory.Shrink(int64(n) * lockBytes)
	if a.holder != nil {
		a.holder.Close()
	}
}

// Shown is a lock as pg_locks shows it.
func Shown(l keys.AdvisoryLock, mode Mode) virtual.AdvisoryLock {
	return virtual.AdvisoryLock{Database: l.Database, Class: uint32(l.ID >> 32), Object: uint32(l.ID), Sub: int16(l.Sub), Shared: mode == Shared}
}

// List returns the locks that the session has or waits for, and the holder's identity. Another goroutine may call it.
func (a *Locks) List() (list []virtual.AdvisoryLock, holder kv.TxnID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for lock, c := range a.locks {
		for mode := range modes {
			if c.held[mode] && !c.free(mode) {
				w := Shown(lock, mode)
				w.Granted = true
				list = append(list, w)
			}
		}
	}
	if a.waiting != nil {
		list = append(list, *a.waiting)
	}
	if len(list) > 0 {
		holder = a.id
	}
	return list, holder
}

// Holds reports whether a transaction is the session's holder. Another goroutine may call it.
func (a *Locks) Holds(id kv.TxnID) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.id == id && !id.IsZero()
}
