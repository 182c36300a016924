package leader

import (
	"slices"
	"sync"
	"sync/atomic"

	"meridian/clock"
	"meridian/commit/leader/latch"
	"meridian/keys"
	"meridian/kv"
)

// held is which keys of a range may have entries in the storage's lock table, as far as its leaseholder knows. A row that
// many transactions have written has had many entries, and the storage steps over what is left of each until it is
// compacted away; so it pays not to look where there is none.
//
// P11 (I2): while complete, it has every key with an entry. A key is added before the command that lays its intent
// is proposed, under the key's latch, and taken out after the command that removes it was applied, under that latch
// too, or one that keeps out whoever may touch this entry (P12). It becomes complete at a moment when there are no entries and no such command is on its way; it no longer is
// when something else changes the data: another leaseholder, a raft snapshot, a merge.
type held struct {
	known    *finished
	complete atomic.Bool

	mu         sync.Mutex // guards the fields below; nothing is taken after it
	keys       map[uint64][]entry
	flying     int    // commands under way that lay or remove entries
	generation uint64 // of the keys
}

// entry is one transaction's entry on a key, as it was laid. It may have been moved since, or belong to a later attempt by
// now: then it differs from what its transaction commits.
type entry struct {
	id      kv.TxnID
	at      clock.Timestamp
	attempt uint32
}

// change is an entry that a command adds or removes.
type change struct {
	key uint64 // its hash
	entry
}

// heldMax bounds the keys; a range with more entries does without.
const heldMax = 1 << 14

// MayHold reports whether there may be entries on a key that mean something: those of transactions that are known to be
// committed do not (P10). Looking would find just that, but after stepping over what is left of their predecessors.
func (h *held) MayHold(k keys.Key) bool {
	if !h.complete.Load() {
		return true
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range h.keys[latch.Hash(k)] {
		if at, attempt, ok := h.known.Committed(e.id); !ok || at != e.at || attempt != e.attempt {
			return true
		}
	}
	return !h.complete.Load()
}

// Has reports whether there may be entries on a key at all.
func (h *held) Has(k keys.Key) bool {
	if !h.complete.Load() {
		return true
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	_, ok := h.keys[latch.Hash(k)]
	return ok || !h.complete.Load()
}

// batchTable is mvcc.LockTable for a batch that reads what it has written itself: to what the range may have come the entries
// that the batch lays, which held hears of only when it is proposed.
type batchTable struct{ q *request }

// laidMax is from how many entries on a batch looks at each key rather than through its list.
const laidMax = 16

func (t batchTable) laid(k keys.Key) bool {
	l := t.q.laid
	if len(l) == 0 {
		return false
	}
	if len(l) > laidMax {
		return true
	}
	hash := latch.Hash(k)
	return slices.ContainsFunc(l, func(c change) bool { return c.key == hash })
}

// Has satisfies mvcc.LockTable.
func (t batchTable) Has(k keys.Key) bool { return t.laid(k) || t.q.p.held.Has(k) }

// MayHold satisfies mvcc.LockTable.
func (t batchTable) MayHold(k keys.Key) bool { return t.laid(k) || t.q.p.held.MayHold(k) }

// moved reports whether a transaction's entry on a key was laid elsewhere than where the transaction commits.
func (h *held) moved(k keys.Key, t *kv.TxnMeta) bool {
	if !h.complete.Load() {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range h.keys[latch.Hash(k)] {
		if e.id == t.ID && (e.at != t.WriteTimestamp || e.attempt != t.Attempt) {
			return true
		}
	}
	return false
}

// reset forgets everything.
func (h *held) reset() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.forget()
}

func (h *held) forget() {
	h.complete.Store(false)
	h.keys = nil
	h.generation++
}

// begin makes it complete if none, asked while no command is on its way, says that the range has no entries.
func (h *held) begin(none func() bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.complete.Load() || h.flying > 0 || !none() {
		return
	}
	h.forget()
	h.keys = make(map[uint64][]entry)
	h.complete.Store(true)
}

// takeOff adds what a command is about to lay.
func (h *held) takeOff(laid []change) (generation uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.flying++
	if h.keys != nil {
		for _, c := range laid {
			h.keys[c.key] = append(h.keys[c.key], c.entry)
		}
		if len(h.keys) > heldMax {
			h.forget()
		}
	}
	return h.generation
}

// land takes out what is gone: what was laid by a command that was never applied, or was removed by one that was. A
// command of which that is not known takes out nothing.
func (h *held) land(generation uint64, gone []change) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.flying--
	if generation != h.generation {
		return
	}
	for _, c := range gone {
		es := h.keys[c.key]
		i := slices.IndexFunc(es, func(e entry) bool { return e.id == c.id })
		switch {
		case i < 0:
		case len(es) == 1:
			delete(h.keys, c.key)
		default:
			h.keys[c.key] = slices.Delete(es, i, i+1)
		}
	}
}

// Laid and Dropped note what the evaluation does to the lock table (mvcc.LockLog).
func (q *request) Laid(k keys.Key, t *kv.TxnMeta) {
	q.laid = append(q.laid, change{latch.Hash(k), entry{t.ID, t.WriteTimestamp, t.Attempt}})
}

// Dropped is Laid's counterpart.
func (q *request) Dropped(k keys.Key, id kv.TxnID) {
	q.dropped = append(q.dropped, change{latch.Hash(k), entry{id: id}})
}

// noEntries reports whether the range has no entries, and lets held begin if so.
func (p *Participant) noEntries() bool {
	if p.r.Stats().IntentCount != 0 {
		return false
	}
	if !p.held.complete.Load() {
		p.held.begin(func() bool { return p.r.Stats().IntentCount == 0 })
	}
	return true
}
