package session

import (
	"context"
	"errors"
	"time"

	"meridian/keys"
	"meridian/kv"
	"meridian/sql/scalar/system"
	"meridian/sql/session/advisory"
	"meridian/sql/sqlstate"
	"meridian/sql/virtual"
	"meridian/txn"
)

// lockOwner is the session as its advisory locks see it (advisory.Session).
type lockOwner struct{ s *Session }

// lockHolder is the transaction that holds the session's advisory locks; the open transaction is linked with it (txn.TX7).
type lockHolder struct {
	*txn.Holder
	s *Session
}

func (h lockHolder) Lock(ctx context.Context, l keys.AdvisoryLock, shared, try bool) error {
	wait := kv.Block
	if try {
		wait = kv.NoWait
	}
	return h.Holder.Lock(ctx, l, shared, wait, h.s.duration("lock_timeout"), h.s.tx)
}

// NewHolder implements advisory.Session. Another goroutine reports that the holder's locks are lost, which ends the session: other sessions may
// take them soon.
func (o lockOwner) NewHolder() advisory.Holder {
	return lockHolder{o.s.srv.DB.NewHolder(func(error) {
		o.s.endWith(sqlstate.New(sqlstate.AdminShutdown, "terminating connection because its advisory locks could not be kept").
			WithDetail("The range of the locks' keys could not be reached for some seconds, so other sessions may be given them."))
	}), o.s}
}

// Beside implements advisory.Session.
func (o lockOwner) Beside(h advisory.Holder) {
	if o.s.tx != nil {
		held, _ := h.(lockHolder)
		o.s.tx.SetHolder(held.Holder)
	}
}

// Waits implements advisory.Session.
func (o lockOwner) Waits() func() {
	o.s.setWaitEvent(virtual.WaitAdvisory)
	return func() { o.s.setWaitEvent("") }
}

// Deadlocked implements advisory.Session.
func (o lockOwner) Deadlocked(err *kv.DeadlockError) { o.s.tx.Lose(err) }

// Taken implements advisory.Session.
func (o lockOwner) Taken() { o.s.tx.LookAnew() }

// TurnOff implements advisory.Session.
func (o lockOwner) TurnOff(reason string) { o.s.replay.TurnOff(reason) }

// Now implements advisory.Session.
func (o lockOwner) Now() time.Time { return o.s.srv.Clock.Wall() }

// Context implements advisory.Session.
func (o lockOwner) Context() context.Context { return o.s.srv.Host.Group.Context() }

// AdvisoryLock implements system.Environment.
func (e *environment) AdvisoryLock(ctx context.Context, l system.AdvisoryLock) (bool, error) {
	e.s.ensureTxn()
	lock, err := e.advisoryKey(ctx, l)
	if err != nil {
		return false, err
	}
	return e.s.advisory.Lock(ctx, lock, advisoryMode(l), !l.Transaction, l.Try)
}

// AdvisoryUnlock implements system.Environment.
func (e *environment) AdvisoryUnlock(ctx context.Context, l system.AdvisoryLock) (bool, error) {
	e.s.ensureTxn()
	lock, err := e.advisoryKey(ctx, l)
	if err != nil {
		return false, err
	}
	mode := advisoryMode(l)
	if !e.s.advisory.Unlock(lock, mode) {
		e.s.out.Notice(&sqlstate.Error{Code: sqlstate.Warning, Message: "you don't own a lock of type " + mode.String()})
		return false, nil
	}
	return true, nil
}

// AdvisoryUnlockAll implements system.Environment.
func (e *environment) AdvisoryUnlockAll(context.Context) {
	e.s.ensureTxn()
	e.s.advisory.UnlockAll()
}

func advisoryMode(l system.AdvisoryLock) advisory.Mode {
	if l.Shared {
		return advisory.Shared
	}
	return advisory.Exclusive
}

// advisoryKey is a lock of the session's database.
func (e *environment) advisoryKey(ctx context.Context, l system.AdvisoryLock) (keys.AdvisoryLock, error) {
	k := keys.AdvisoryLock{Sub: 1, ID: uint64(l.ID)}
	if l.Two {
		k.Sub, k.ID = 2, uint64(uint32(l.Class))<<32|uint64(uint32(l.Object))
	}
	db, err := e.s.view().Database(ctx, e.s.client.Database)
	if err != nil {
		return k, err
	}
	if db == nil {
		return k, sqlstate.New(sqlstate.InvalidCatalogName, "database %q does not exist", e.s.client.Database)
	}
	k.Database = uint32(db.ID)
	return k, nil
}

// deadlockedLocks reports whether a transaction that was chosen to end a deadlock has taken advisory locks: it would keep them in its next attempt,
// and the same deadlock would form again.
func deadlockedLocks(a *advisory.Locks, conflict error) bool {
	var deadlock *kv.DeadlockError
	return a.Counted() && errors.As(conflict, &deadlock)
}
