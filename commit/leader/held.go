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

// held is the leaseholder's knowledge of which keys of a range may have entries in the storage's lock table. A row that many transactions
// have written has had many entries, and the storage steps over the tombstone of each until it is compacted away; so lookups are avoided
// where there is no entry.
//
// leader.P11 (I2): while complete, it has every key with an entry. A key is added before the command that writes its intent is proposed,
// under the key's latch, and removed after the command that removes the intent was applied, under that latch too, or one that excludes all
// requests that may use this entry (leader.P12). It becomes complete at a moment when there are no entries and no such command is in
// flight; it no longer is when the data changes in another way: by another leaseholder, a raft snapshot, a merge.
type held struct {
	known    *finished
	complete atomic.Bool

	mu         sync.Mutex // guards the fields below; nothing is taken after it
	keys       map[uint64][]entry
	flying     int    // commands in flight that write or remove entries
	generation uint64 // of the keys
}

// entry is one transaction's entry on a key, as it was written. It may have been moved since, or belong to a later attempt by now: then its
// timestamp differs from its transaction's commit timestamp.
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

// heldMax bounds the keys; a range with more entries is never complete.
const heldMax = 1 << 14

// MayHold reports whether there may be entries on a key that matter: those of transactions that are known to be committed do not
// (leader.P10). A lookup would have the same result, but only after stepping over tombstones.
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

// batchTable is mvcc.LockTable for a batch that reads its own writes: it adds the batch's own entries, which held does not get before the
// proposal.
type batchTable struct{ ev *evaluation }

// laidMax is the number of entries above which a batch reads each key instead of searching its list.
const laidMax = 16

func (t batchTable) laid(k keys.Key) bool {
	l := t.ev.entries.laid
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
func (t batchTable) Has(k keys.Key) bool { return t.laid(k) || t.ev.p.held.Has(k) }

// MayHold satisfies mvcc.LockTable.
func (t batchTable) MayHold(k keys.Key) bool { return t.laid(k) || t.ev.p.held.MayHold(k) }

// moved reports whether a transaction's entry on a key was written at another timestamp than that of its commit.
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

// begin makes it complete if none, called while no command is in flight, reports that the range has no entries.
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

// takeOff adds the entries that a command is about to write.
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

// land removes the entries that do not exist: those of a command that was never applied, or those that an applied command has removed. A
// command with an unknown outcome removes none.
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

// entryChanges are a command's changes of the storage's lock table, from its evaluation until held has noted them (leader.P11).
type entryChanges struct {
	laid, dropped []change
	inline        [2]change
	flies         bool   // held knows, at its generation
	generation    uint64 // of held
}

func (c *entryChanges) reset() {
	c.dropped = c.dropped[:0]
	if c.laid == nil {
		c.laid = c.inline[:0]
	}
	c.laid = c.laid[:0]
}

// Laid satisfies mvcc.LockLog.
func (c *entryChanges) Laid(k keys.Key, t *kv.TxnMeta) {
	c.laid = append(c.laid, change{latch.Hash(k), entry{t.ID, t.WriteTimestamp, t.Attempt}})
}

// Dropped satisfies mvcc.LockLog.
func (c *entryChanges) Dropped(k keys.Key, id kv.TxnID) {
	c.dropped = append(c.dropped, change{latch.Hash(k), entry{id: id}})
}

// takeOff precedes the proposal of the command.
func (c *entryChanges) takeOff(h *held) {
	if c.flies = len(c.laid)+len(c.dropped) > 0; c.flies {
		c.generation = h.takeOff(c.laid)
	}
}

// land follows the outcome of the command, if that is known.
func (c *entryChanges) land(h *held, known, applied bool) {
	if !c.flies {
		return
	}
	c.flies = false
	switch {
	case !known:
		h.land(c.generation, nil)
	case applied:
		h.land(c.generation, c.dropped)
	default:
		h.land(c.generation, c.laid)
	}
}

// noEntries reports whether the range has no entries, and begins held if so.
func (p *Participant) noEntries() bool {
	if p.r.Stats().IntentCount != 0 {
		return false
	}
	if !p.held.complete.Load() {
		p.held.begin(func() bool { return p.r.Stats().IntentCount == 0 })
	}
	return true
}
