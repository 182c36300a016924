package lock

import (
	"time"

	"meridian/clock"
	"meridian/keys"
	"meridian/kv"
)

// Write is the strength of a span that is written: NoKeyExclusive for a key on which the transaction holds just that,
// else Exclusive.
const Write = kv.Exclusive + 1

// Span is what a request wants of some keys: NoLock to read them at Guard.ReadAt, Write to write them, another
// strength to lock them.
type Span struct {
	keys.Span
	Strength kv.LockStrength
}

// Guard is one request's part in the table. The exported fields are set by its owner before the first Scan.
type Guard struct {
	// Txn is nil outside of transactions.
	Txn    *kv.TxnMeta
	Spans  []Span
	ReadAt clock.Timestamp // changed by Table.ReadsAt once the guard may be in a queue

	seq     uint64 // order of first waits
	signal  chan struct{}
	waiters []*waiter
	at      *waiter // where it waits now
	pushing kv.TxnID
	doomed  bool // its transaction was found aborted
}

// Signal is readable when State or Scan should be called again.
func (g *Guard) Signal() <-chan struct{} {
	if g.signal == nil {
		return nil
	}
	return g.signal
}

func (g *Guard) wake() {
	select {
	case g.signal <- struct{}{}:
	default:
	}
}

func (g *Guard) id() kv.TxnID {
	if g.Txn == nil {
		return kv.TxnID{}
	}
	return g.Txn.ID
}

// owns reports whether a hold is the guard's own transaction's.
func (g *Guard) owns(h *holder) bool { return g.Txn != nil && g.Txn.ID == h.txn.ID }

func (g *Guard) waiterAt(e *entry, read bool) *waiter {
	for _, w := range g.waiters {
		if w.e == e && (w.strength == kv.NoLock) == read {
			return w
		}
	}
	return nil
}

// waiter is a guard's place at one entry.
type waiter struct {
	g        *Guard
	e        *entry // nil when the table dropped the entry
	strength kv.LockStrength
	granted  bool
	front    bool     // it was told that it has to push holder (lock.K5)
	holder   kv.TxnID // what it waits for, when that was last looked at
	since    time.Time
}
