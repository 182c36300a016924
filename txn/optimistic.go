package txn

import (
	"hash/fnv"
	"sync/atomic"
	"time"

	"meridian/keys"
)

// A transaction that changes one row may read it without a lock, and rely on the refresh that its commit carries (coordinator.CO12). That pays where the read is near and the leaseholder far, as long as few others change the row: an
// attempt that fails has taken a request to the leaseholder for nothing. So a gateway remembers the rows of attempts that have failed, and locks them for a while.

// contendedFor is how long a row counts as changed by others after an attempt has failed, and contendedSlots bounds the rows that are remembered, by their hashes; chosen by us.
const (
	contendedFor   = 10 * time.Second
	contendedSlots = 1024
)

// contended remembers rows that others change, each until a time of the monotonic clock. Rows with one hash count as one.
type contended [contendedSlots]atomic.Int64

func (c *contended) slot(k keys.Key) *atomic.Int64 {
	h := fnv.New64a()
	h.Write(k)
	return &c[h.Sum64()%contendedSlots]
}

// Optimistic reports whether the transaction, which is going to change a row and commit at once, should read it without a lock. Below SERIALIZABLE nothing but a lock protects what was read.
func (t *Txn) Optimistic(k keys.Key) bool {
	if t.Weak() || t.External() || t.external.reads || t.others != nil || t.anew || t.holder != nil || t.load.flight != nil || t.core.Sent() || t.keeper.Flying() {
		return false
	}
	if until := t.db.contended.slot(k).Load(); until > int64(t.db.o.Host.Clock.Monotonic()) {
		return false
	}
	row := k // not k itself, which would be an object for the others too
	t.guessed = &row
	return true
}

// guessedWrong notes that an attempt has failed.
func (t *Txn) guessedWrong() {
	if t.guessed != nil {
		t.db.contended.slot(*t.guessed).Store(int64(t.db.o.Host.Clock.Monotonic() + contendedFor))
		t.guessed = nil
	}
}
