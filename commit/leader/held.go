package leader

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"meridian/clock"
	"meridian/commit/leader/latch"
	"meridian/keys"
	"meridian/kv"
	"meridian/storage/mvcc"
)

// held is the leaseholder's knowledge of which keys of a range may have entries in the storage's lock table, and of which transactions. A row that many transactions
// have written has had many entries, and the storage steps over the tombstone of each until it is compacted away; so lookups are avoided
// where there is no entry, and where there is one they go to it alone.
//
// leader.P11 (I2): while complete, it has every entry. An entry is added before the command that writes its intent is proposed,
// under the key's latch, and removed after the command that removes the intent was applied, under that latch too, or one that excludes all
// requests that may use this entry (leader.P12). It becomes complete at a moment when there are no entries and no such command is in
// flight, or by a count (leader.P31); it no longer is when the data changes in another way: by another leaseholder, a raft snapshot, a merge.
//
//	leader.P31 (I2): a count notes the changes by commands that are proposed after its beginning. When all commands that were proposed before
//	    have landed, it reads the lock table. An entry that exists at its end was written by one of the earlier commands and was read, or by
//	    one of the later ones and was noted; an entry that was read, and whose removal was noted, is not there any more.
type held struct {
	known    *finished
	complete atomic.Bool
	dropped  atomic.Uint64 // grows when an entry is no longer listed, and when it becomes complete (mvcc.M9)

	mu         sync.Mutex // guards the fields below; nothing is taken after it
	keys       map[uint64][]entry
	flying     int    // commands in flight that write or remove entries
	generation uint64 // of the keys
	counting   *count // nil: none
	nextCount  time.Duration
}

// count is how held becomes complete while there are entries, at a leaseholder that is always busy.
type count struct {
	before  int // commands that were in flight at the beginning, and have not landed
	reads   bool
	removed map[removal]struct{} // since the beginning
}

// removal names an entry that was removed.
type removal struct {
	hash     uint64
	strength kv.LockStrength
	id       kv.TxnID
}

// entry is one transaction's entry on a key, as it was written. It may have been moved since, or belong to a later attempt by now: then its
// timestamp differs from its transaction's commit timestamp.
type entry struct {
	key      keys.Key
	strength kv.LockStrength
	id       kv.TxnID
	at       clock.Timestamp
	attempt  uint32
}

func (e *entry) lockID() mvcc.LockID {
	return mvcc.LockID{Key: e.key, Strength: e.strength, Txn: e.id, At: e.at, Attempt: e.attempt}
}

// change is an entry that a command adds or removes. Its key is that of the request.
type change struct {
	hash uint64 // of the key
	entry
}

const (
	// heldMax bounds the keys; with more entries it is not complete.
	heldMax = 1 << 14
	// countMax is how many entries a range has at most that are counted, and countEvery how often that is tried.
	countMax   = heldMax / 2
	countEvery = time.Second
	// listMax is how many keys are examined for the entries in a span.
	listMax = 256
)

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

// Entries satisfies mvcc.LockTable.
func (h *held) Entries(k keys.Key, to []mvcc.LockID) ([]mvcc.LockID, bool) {
	if !h.complete.Load() {
		return to, false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range h.keys[latch.Hash(k)] {
		if e.key.Equal(k) {
			to = append(to, e.lockID())
		}
	}
	return to, h.complete.Load()
}

// EntriesWithin satisfies mvcc.LockTable.
func (h *held) EntriesWithin(start, end keys.Key, to []mvcc.LockID) ([]mvcc.LockID, bool) {
	if !h.complete.Load() {
		return to, false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.keys) > listMax {
		return to, false
	}
	span, from := keys.Span{Start: start, End: end}, len(to)
	for _, es := range h.keys {
		for _, e := range es {
			if span.Contains(e.key) {
				to = append(to, e.lockID())
			}
		}
	}
	slices.SortFunc(to[from:], func(a, b mvcc.LockID) int { return a.Key.Compare(b.Key) })
	return to, h.complete.Load()
}

// Dropped satisfies mvcc.LockTable.
func (h *held) Dropped() uint64 { return h.dropped.Load() }

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
	return slices.ContainsFunc(l, func(c change) bool { return c.hash == hash })
}

// Has satisfies mvcc.LockTable.
func (t batchTable) Has(k keys.Key) bool { return t.laid(k) || t.ev.p.held.Has(k) }

// MayHold satisfies mvcc.LockTable.
func (t batchTable) MayHold(k keys.Key) bool { return t.laid(k) || t.ev.p.held.MayHold(k) }

// Entries satisfies mvcc.LockTable.
func (t batchTable) Entries(k keys.Key, to []mvcc.LockID) (_ []mvcc.LockID, ok bool) {
	if len(t.ev.entries.laid) > laidMax {
		return to, false
	}
	if to, ok = t.ev.p.held.Entries(k, to); ok {
		for i := range t.ev.entries.laid {
			if e := &t.ev.entries.laid[i].entry; e.key.Equal(k) {
				to = append(to, e.lockID())
			}
		}
	}
	return to, ok
}

// EntriesWithin satisfies mvcc.LockTable.
func (t batchTable) EntriesWithin(start, end keys.Key, to []mvcc.LockID) ([]mvcc.LockID, bool) {
	if len(t.ev.entries.laid) > 0 {
		return to, false
	}
	return t.ev.p.held.EntriesWithin(start, end, to)
}

// Dropped satisfies mvcc.LockTable.
func (t batchTable) Dropped() uint64 { return t.ev.p.held.Dropped() }

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
	h.keys, h.counting = nil, nil
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
	h.completed()
}

func (h *held) completed() {
	h.complete.Store(true)
	h.dropped.Add(1)
}

// count begins a count, if it is time for one. It reports whether the caller has to read the lock table now, and to call counted with the generation (leader.P31).
func (h *held) count(now time.Duration) (generation uint64, reads bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := h.counting
	if c == nil {
		if h.complete.Load() || now < h.nextCount {
			return 0, false
		}
		h.forget()
		h.nextCount = now + countEvery
		c = &count{before: h.flying, removed: make(map[removal]struct{})}
		h.keys, h.counting = make(map[uint64][]entry), c
	}
	if c.reads || c.before > 0 {
		return 0, false
	}
	c.reads = true
	return h.generation, true
}

// counted ends a count with the entries that were read; ok is false if that failed.
func (h *held) counted(generation uint64, found []change, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := h.counting
	if c == nil || generation != h.generation {
		return
	}
	if !ok {
		h.forget()
		return
	}
	for _, f := range found {
		if _, gone := c.removed[removal{f.hash, f.strength, f.id}]; !gone && find(h.keys[f.hash], &f.entry) < 0 {
			h.keys[f.hash] = append(h.keys[f.hash], f.entry)
		}
	}
	h.counting = nil
	h.completed()
}

// find is the index of an entry among those with a hash.
func find(es []entry, e *entry) int {
	return slices.IndexFunc(es, func(x entry) bool { return x.id == e.id && x.strength == e.strength && x.key.Equal(e.key) })
}

// takeOff adds the entries that a command is about to write.
func (h *held) takeOff(laid []change) (generation uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.flying++
	if h.keys != nil {
		for _, c := range laid {
			c.entry.key = slices.Clone(c.entry.key)
			h.keys[c.hash] = append(h.keys[c.hash], c.entry)
		}
		if len(h.keys) > heldMax {
			h.forget()
		}
	}
	return h.generation
}

// land removes the entries that do not exist: those of a command that was never applied, or those that an applied command has removed. A
// command with an unknown outcome removes none.
func (h *held) land(generation uint64, gone []change, applied bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.flying--
	if generation != h.generation {
		if h.counting == nil {
			return
		}
		// The command was proposed before the count, which reads its entries when it has landed.
		h.counting.before--
		return
	}
	for i := range gone {
		c := &gone[i]
		if h.counting != nil && applied {
			h.counting.removed[removal{c.hash, c.strength, c.id}] = struct{}{}
			if len(h.counting.removed) > heldMax {
				h.forget()
				return
			}
		}
		es := h.keys[c.hash]
		i := find(es, &c.entry)
		switch {
		case i < 0:
			continue
		case len(es) == 1:
			delete(h.keys, c.hash)
		default:
			h.keys[c.hash] = slices.Delete(es, i, i+1)
		}
		h.dropped.Add(1)
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
func (c *entryChanges) Laid(k keys.Key, strength kv.LockStrength, t *kv.TxnMeta) {
	c.laid = append(c.laid, change{latch.Hash(k), entry{k, strength, t.ID, t.WriteTimestamp, t.Attempt}})
}

// Dropped satisfies mvcc.LockLog.
func (c *entryChanges) Dropped(k keys.Key, strength kv.LockStrength, id kv.TxnID) {
	c.dropped = append(c.dropped, change{latch.Hash(k), entry{key: k, strength: strength, id: id}})
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
		h.land(c.generation, nil, false)
	case applied:
		h.land(c.generation, c.dropped, true)
	default:
		h.land(c.generation, c.laid, false)
	}
}

// noEntries reports whether the range has no entries. It begins held if so, and a count if there are a few.
func (p *Participant) noEntries() bool {
	n := p.r.Stats().IntentCount
	if !p.held.complete.Load() {
		if n == 0 {
			p.held.begin(func() bool { return p.r.Stats().IntentCount == 0 })
		} else if n <= countMax {
			p.countEntries()
		}
	}
	return n == 0
}

// countEntries goes on with a count of the range's entries (leader.P31). Requests call it, so a range that nobody uses is not counted.
func (p *Participant) countEntries() {
	generation, reads := p.held.count(p.o.Host.Clock.Monotonic())
	if !reads {
		return
	}
	started := p.o.Host.Group.Go(func(context.Context) {
		found, err := p.readEntries()
		p.held.counted(generation, found, err == nil && len(found) <= heldMax)
	})
	if !started {
		p.held.counted(generation, nil, false)
	}
}

// readEntries reads the range's lock table, up to more entries than are kept.
func (p *Participant) readEntries() (found []change, err error) {
	d := p.r.Desc()
	rd := mvcc.NewReader(p.o.Engine)
	defer rd.Close()
	for _, span := range []keys.Span{keys.RangeLocalSpan(d.Start, d.End), keys.UserSpan(d.Start, d.End)} {
		locks, err := rd.Locks(span.Start, span.End, heldMax+1)
		if err != nil {
			return nil, err
		}
		for i := range locks {
			l := &locks[i]
			found = append(found, change{latch.Hash(l.Key), entry{l.Key, l.Strength, l.Txn.ID, l.Txn.WriteTimestamp, l.Txn.Attempt}})
		}
	}
	return found, nil
}
