package txn

import (
	"errors"
	"time"

	"meridian/clock"
	"meridian/commit/transaction"
	"meridian/keys"
	"meridian/kv"
)

// RetryError says that the transaction must start over: Restart it, or roll it back.
type RetryError = transaction.RetryError

var (
	// ErrReadOnly is raised by a write in a read-only transaction.
	ErrReadOnly = errors.New("txn: transaction is read-only")
	// ErrFinished is raised by any use of a transaction that was committed or rolled back.
	ErrFinished = errors.New("txn: transaction is finished")
	// ErrNoSavepoint is raised by a rollback to a savepoint of an earlier attempt.
	ErrNoSavepoint = errors.New("txn: savepoint does not exist any more")
)

// Nearness says which replicas serve the reads of a historical transaction.
type Nearness = transaction.Nearness

// The values of Nearness.
const (
	NearestLikely = transaction.NearestLikely
	NearestFirst  = transaction.NearestFirst
	NearestOnly   = transaction.NearestOnly
)

// TxnOptions say what kind of transaction begins.
type TxnOptions struct {
	Isolation kv.Isolation
	// Declared says that the client has asked for the level by name. Commit protocols that give a weaker one refuse it then; they may give it to a
	// transaction whose level is a default.
	Declared bool
	ReadOnly bool
	// Near says which replicas serve the reads of a transaction with AsOf.
	Near     Nearness
	Priority int32
	// AsOf fixes the read timestamp; the transaction is then read-only and meets no uncertainty.
	AsOf clock.Timestamp
	// LockTimeout bounds each wait for a lock; zero waits for ever.
	LockTimeout time.Duration
	Name        string
}

type state uint8

const (
	open state = iota
	committed
	rolledBack
	// unknown: the answer to the commit was lost.
	unknown
)

// Txn is one transaction. It is used by one goroutine at a time.
type Txn struct {
	db *DB
	o  TxnOptions

	// core is what every transaction has; keeper is the leader protocol's half.
	core   transaction.Core
	keeper Keeper
	others *others // nil until it meets a range of another protocol than the leader's

	state    state
	trace    bool
	repeats  bool // ReadOptions.Repeats
	current  bool // the running statement decides by what it reads (ReadCurrent)
	hold     bool // locks are kept until the end, or it does not commit (HoldLocks)
	relied   bool // it has read or written
	anew     bool // it was begun anew
	external external
	reading  reading // until it ends

	served *[]kv.Served  // nil: nothing was recorded
	maxAge time.Duration // ReadOptions.MaxAge

	// guessed is the row that the running attempt has read without a lock in order to change it (Optimistic); nil: none.
	guessed *keys.Key

	beat beat
	load loads
	// holder has locks of the transaction's owner that outlive it; nil: there are none.
	holder *Holder
	// deadline is asked for the bound of the commit timestamp when the commit begins; nil: what SetDeadline said.
	deadline DeadlineSource
	onCommit func(clock.Timestamp)
	validity Validity
}

// usable reports why nothing more can be done.
func (t *Txn) usable() error {
	if t.state != open {
		return ErrFinished
	}
	if cause := t.beat.aborted.Load(); cause != nil && t.core.Broken() == nil {
		return t.fail(*cause)
	}
	return t.core.Broken()
}

// reliable is usable for a read or a write, which relies on the clock.
func (t *Txn) reliable() error {
	if err := t.usable(); err != nil {
		return err
	}
	t.relied = true
	return t.doubted()
}

// doubted is the error of a client's transaction while the clock must not be relied on (clock.C6). The node's own transactions, which have names, go on: they
// tell nobody.
func (t *Txn) doubted() error {
	if t.o.Name != "" || t.core.Historical() {
		return nil
	}
	return t.db.o.Clock.Doubted()
}

func (t *Txn) note(served []kv.Served) {
	if t.served == nil {
		t.served = new([]kv.Served)
	}
next:
	for _, s := range served {
		for _, have := range *t.served {
			if have == s {
				continue next
			}
		}
		*t.served = append(*t.served, s)
	}
}

// ID is the transaction's identity.
func (t *Txn) ID() kv.TxnID { return t.core.Txn().ID }

// ReadTimestamp is the snapshot that is read now; it may move forward.
func (t *Txn) ReadTimestamp() clock.Timestamp { return t.core.Txn().ReadTimestamp }

// CommitTimestamp is when the transaction committed; zero before.
func (t *Txn) CommitTimestamp() clock.Timestamp {
	at, _, ok := t.core.Committed()
	if !ok || t.state != committed {
		return clock.Timestamp{}
	}
	return at
}

// Declared reports whether the client has asked for the level of isolation by name (TxnOptions.Declared).
func (t *Txn) Declared() bool { return t.o.Declared }

// Attempt counts restarts.
func (t *Txn) Attempt() uint32 { return t.core.Txn().Attempt }

// HasWritten reports whether the transaction holds locks or writes.
func (t *Txn) HasWritten() bool { return t.core.Holds() || t.load.stamp > 0 }

// ReadOnly reports whether writes are refused.
func (t *Txn) ReadOnly() bool { return t.o.ReadOnly }

// Historical reports whether the read timestamp was fixed by the client.
func (t *Txn) Historical() bool { return !t.o.AsOf.IsZero() }

// Negotiated reports whether the nearest replicas have said that they can serve the read timestamp (DB.Negotiate).
func (t *Txn) Negotiated() bool { return t.o.Near != NearestLikely }

// SetReadOnly refuses writes from now on, or allows them again; a transaction at a fixed timestamp stays read-only.
func (t *Txn) SetReadOnly(on bool) { t.o.ReadOnly = on || !t.o.AsOf.IsZero() }

// SetTrace turns the recording of Served on or off; turning it on forgets what was recorded.
func (t *Txn) SetTrace(on bool) {
	if on {
		t.served = nil
	}
	t.trace = on
}

// Served lists the ranges and nodes that answered since SetTrace(true), each pair once, in order of appearance.
func (t *Txn) Served() []kv.Served {
	if t.served == nil {
		return nil
	}
	return *t.served
}

// LockTimeout is TxnOptions.LockTimeout.
func (t *Txn) LockTimeout() time.Duration { return t.o.LockTimeout }

// SetLockTimeout changes TxnOptions.LockTimeout from now on.
func (t *Txn) SetLockTimeout(d time.Duration) { t.o.LockTimeout = d }
