package lock

import (
	"bytes"
	"sync"
	"sync/atomic"

	"github.com/google/btree"

	"meridian/clock"
	"meridian/keys"
	"meridian/kv"
)

// DefaultMaxLocks bounds the entries of a table.
const DefaultMaxLocks = 1 << 16

// maxKept is by how much more entries a table may have for the sake of locks that are kept.
const maxKept = 4

// Table is the lock table of one range. All methods may be called concurrently; none waits.
type Table struct {
	max int
	// Now is the clock by which locks are lost; set before the first use. Nil: only Clear tells.
	Now func() clock.Timestamp

	mu        sync.Mutex // guards all below; nothing is taken after it
	entries   *btree.BTreeG[*entry]
	finalized map[kv.TxnID]kv.Status
	finalRing [finalizedMax]kv.TxnID
	finalNext int
	seq       uint64
	places    map[kv.TxnID]uint64 // of transactions that waited at an earlier leaseholder
	probe     entry               // for lookups
	lost      clock.Timestamp     // lock.K6

	size     atomic.Int64  // of entries
	intents  atomic.Int64  // holds of intents
	releases atomic.Uint64 // counts ended holds and cleared tables
}

type entry struct {
	key     keys.Key
	holders []holder
	inline  [1]holder // most keys have one
	queue   []*waiter
	readers []*waiter
}

// NewTable makes an empty table; max zero means DefaultMaxLocks.
func NewTable(max int) *Table {
	if max == 0 {
		max = DefaultMaxLocks
	}
	return &Table{
		max:       max,
		entries:   btree.NewG(16, func(a, b *entry) bool { return bytes.Compare(a.key, b.key) < 0 }),
		finalized: make(map[kv.TxnID]kv.Status),
	}
}

// Len is the number of keys with an entry; it costs one load.
func (t *Table) Len() int { return int(t.size.Load()) }

// Intents is the number of intents in the table; while it is zero no plain read has anything to wait for.
func (t *Table) Intents() int { return int(t.intents.Load()) }

// Releases changes whenever a hold ends. A read that met an intent without holding latches compares it to the value
// from before its read: if it changed, the intent may be gone, and should not be put into the table.
func (t *Table) Releases() uint64 { return t.releases.Load() }

func (t *Table) get(k keys.Key) *entry {
	t.probe.key = k
	e, _ := t.entries.Get(&t.probe)
	t.probe.key = nil
	return e
}

func (t *Table) getOrAdd(k keys.Key) *entry {
	if e := t.get(k); e != nil {
		return e
	}
	if t.entries.Len() >= t.max {
		t.shrink()
	}
	e := &entry{key: append(keys.Key(nil), k...)}
	e.holders = e.inline[:0]
	t.entries.ReplaceOrInsert(e)
	t.size.Store(int64(t.entries.Len()))
	return e
}

// shrink forgets half of the entries that nobody waits for; those with locks that are kept only if there are too many of
// them, which is noted (lock.K6).
func (t *Table) shrink() {
	var gone []*entry
	full := t.entries.Len() >= maxKept*t.max
	t.entries.Ascend(func(e *entry) bool {
		if len(e.queue) == 0 && len(e.readers) == 0 && (full || !e.kept()) {
			gone = append(gone, e)
		}
		return len(gone) < t.max/2
	})
	if full {
		t.lose()
	}
	for _, e := range gone {
		for i := range e.holders {
			if e.holders[i].intent {
				t.intents.Add(-1)
			}
		}
		t.entries.Delete(e)
	}
	t.size.Store(int64(t.entries.Len()))
}

// kept reports whether one of the entry's locks is.
func (e *entry) kept() bool {
	for i := range e.holders {
		if e.holders[i].kept {
			return true
		}
	}
	return false
}

// lose notes that locks which are kept may be forgotten. The mark always moves: a lock that was given at it is forgotten with the
// others, and Import has to see that one was while it took them.
func (t *Table) lose() {
	if t.Now != nil {
		t.lost = t.lost.Next().Forward(t.Now())
	}
}

// Lost is when locks that are kept may have been forgotten last (lock.K6).
func (t *Table) Lost() clock.Timestamp {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.lost
}

// Lose says that locks of before may have been forgotten.
func (t *Table) Lose(at clock.Timestamp) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lost = t.lost.Forward(at)
}

func (t *Table) dropIfEmpty(e *entry) {
	if len(e.holders) == 0 && len(e.queue) == 0 && len(e.readers) == 0 {
		t.entries.Delete(e)
		t.size.Store(int64(t.entries.Len()))
	}
}

// ownAnchor copies an anchor, which may lie in a message's buffer. Most often it is the locked key itself.
func (e *entry) ownAnchor(a keys.Key) keys.Key {
	if a.Equal(e.key) {
		return e.key
	}
	return append(keys.Key(nil), a...)
}

// Clear forgets everything and signals everybody (lock.K3): the lease is gone, or the data was replaced.
func (t *Table) Clear() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.entries.Ascend(func(e *entry) bool {
		e.evict()
		return true
	})
	t.entries.Clear(false)
	t.size.Store(0)
	t.intents.Store(0)
	t.releases.Add(1)
	t.finalized = make(map[kv.TxnID]kv.Status)
	t.finalRing = [finalizedMax]kv.TxnID{}
	t.places = nil
}

// evict sends the entry's waiters away.
func (e *entry) evict() {
	for _, ws := range [][]*waiter{e.queue, e.readers} {
		for _, w := range ws {
			w.e = nil
			w.g.wake()
		}
	}
	e.queue, e.readers = nil, nil
}
