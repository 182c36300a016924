package lock

import (
	"bytes"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/btree"

	"meridian/clock"
	"meridian/keys"
	"meridian/kv"
)

// DefaultMaxLocks bounds the entries of a table.
const DefaultMaxLocks = 1 << 16

// maxKept is by how much more entries a table may have for the sake of locks that are kept.
const maxKept = 4

// finalizedMax is how many ended transactions a table remembers, so that what they left is recognised without a
// push. It covers the transactions that one scan is likely to meet.
const finalizedMax = 128

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
	lost      clock.Timestamp     // K6

	size     atomic.Int64  // of entries
	intents  atomic.Int64  // holds of intents
	releases atomic.Uint64 // counts ended holds and cleared tables
}

// holder is one transaction's hold of a key.
type holder struct {
	txn      kv.TxnMeta
	strength kv.LockStrength // of the unreplicated lock; NoLock if there is only an intent
	intent   bool
	kept     bool            // K6
	at       clock.Timestamp // of the intent
}

type entry struct {
	key     keys.Key
	holders []holder
	inline  [1]holder // most keys have one
	queue   []*waiter
	readers []*waiter
}

// waiter is a guard's place at one entry.
type waiter struct {
	g        *Guard
	e        *entry // nil when the table dropped the entry
	strength kv.LockStrength
	granted  bool
	front    bool     // it was told that it has to push holder (K5)
	holder   kv.TxnID // what it waits for, when that was last looked at
	since    time.Time
}

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

// Wait says what a request waits for.
type Wait struct {
	Key keys.Key
	// Holder is the transaction in the way; its ID is zero if that is a request outside of transactions.
	Holder kv.TxnMeta
	// Intent says that the holder has an intent there, IntentAt its timestamp.
	Intent   bool
	IntentAt clock.Timestamp
	// Claim says that the key is not held but granted to Holder's request, which came first.
	Claim bool
	// Read says that the waiting request only reads the key.
	Read bool
	// Front says that nobody before the request in the queue waits for the same transaction and could push it (K5).
	Front bool
	// Ended is set if the holder is known to have ended: what it left has to be resolved, not waited for.
	Ended  bool
	Status kv.Status
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
// them, which is noted (K6).
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

// Lost is when locks that are kept may have been forgotten last (K6).
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

// conflict finds what keeps a request from a key; w is its place in the queue, nil if it has none.
func (t *Table) conflict(g *Guard, e *entry, strength kv.LockStrength, w *waiter) (Wait, bool) {
	if strength == Write {
		strength = t.writing(g, e)
	}
	for i := range e.holders {
		h := &e.holders[i]
		if g.owns(h) {
			continue
		}
		if strength == kv.NoLock {
			if !h.intent || g.ReadAt.Less(h.at) {
				continue
			}
		} else if !h.intent && strength.Compatible(h.strength) {
			continue
		}
		status, ended := t.finalized[h.txn.ID]
		return Wait{
			Key: e.key, Holder: h.txn, Intent: h.intent, IntentAt: h.at, Read: strength == kv.NoLock,
			Front: strength == kv.NoLock || e.first(w, h.txn.ID), Ended: ended, Status: status,
		}, true
	}
	if strength == kv.NoLock || t.holds(g, e) {
		return Wait{}, false // an upgrade waits for other holders only (K1)
	}
	for _, o := range e.queue {
		if o == w || w == nil && g.seq != 0 && g.seq < o.g.seq && !t.holds(o.g, e) {
			break
		}
		if g.Txn != nil && o.g.id() == g.Txn.ID || strength.Compatible(o.strength) {
			continue
		}
		wait := Wait{Key: e.key, Claim: true}
		if o.g.Txn != nil {
			wait.Holder = *o.g.Txn
		} else if its, blocked := t.conflict(o.g, e, o.strength, o); blocked {
			wait.Holder = its.Holder // it waits nowhere else (K4)
		}
		wait.Front = e.first(w, wait.Holder.ID)
		return wait, true
	}
	return Wait{}, false
}

// first reports whether nobody before w in the queue waits for a transaction and pushes it (K5).
func (e *entry) first(w *waiter, holder kv.TxnID) bool {
	for _, o := range e.queue {
		if o == w {
			break
		}
		if o.g.at == o && o.g.Txn != nil && !o.granted && o.holder == holder {
			return false
		}
	}
	return true
}

// writing is the strength of a write: that of the lock which its transaction took for it, if it is enough.
func (t *Table) writing(g *Guard, e *entry) kv.LockStrength {
	for i := range e.holders {
		if h := &e.holders[i]; g.owns(h) && h.strength == kv.NoKeyExclusive {
			return kv.NoKeyExclusive
		}
	}
	return kv.Exclusive
}

func (t *Table) holds(g *Guard, e *entry) bool {
	for i := range e.holders {
		if g.owns(&e.holders[i]) {
			return true
		}
	}
	return false
}

func (g *Guard) waiterAt(e *entry, read bool) *waiter {
	for _, w := range g.waiters {
		if w.e == e && (w.strength == kv.NoLock) == read {
			return w
		}
	}
	return nil
}

// Scan looks for conflicts of all of the guard's spans, in order, and joins the queue of the first. Latches on the
// spans must be held, but for plain reads. It returns false if the request may be evaluated.
func (t *Table) Scan(g *Guard) (Wait, bool) { return t.scan(g, g.Spans, true) }

// ReadsAt says what g reads from now on. Whoever releases a lock may be looking at g's place in a queue.
func (t *Table) ReadsAt(g *Guard, at clock.Timestamp) {
	if g.ReadAt == at {
		return // only g's owner changes it
	}
	t.mu.Lock()
	g.ReadAt = at
	t.mu.Unlock()
}

// Check is Scan for other spans than the guard's: for keys that a limited scan turned out to return.
func (t *Table) Check(g *Guard, spans []Span) (Wait, bool) { return t.scan(g, spans, true) }

// Probe is Check without joining a queue: for requests that do not wait.
func (t *Table) Probe(g *Guard, spans []Span) (Wait, bool) { return t.scan(g, spans, false) }

func (t *Table) scan(g *Guard, spans []Span, join bool) (found Wait, waits bool) {
	if t.size.Load() == 0 {
		return Wait{}, false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	g.at = nil
	for i := range spans {
		s := &spans[i]
		if s.Strength == kv.NoLock && t.intents.Load() == 0 {
			continue
		}
		var at *entry
		if s.Point() {
			if e := t.get(s.Start); e != nil {
				if found, waits = t.conflict(g, e, s.Strength, g.waiterAt(e, s.Strength == kv.NoLock)); waits {
					at = e
				}
			}
		} else {
			t.entries.AscendRange(&entry{key: s.Start}, &entry{key: s.End}, func(e *entry) bool {
				if found, waits = t.conflict(g, e, s.Strength, g.waiterAt(e, s.Strength == kv.NoLock)); waits {
					at = e
				}
				return !waits
			})
		}
		if !waits {
			continue
		}
		if join {
			t.join(g, at, s.Strength)
			g.at.holder = found.Holder.ID
			if s.Strength != kv.NoLock {
				found.Front = at.first(g.at, found.Holder.ID)
			}
			g.at.front = found.Front
			if n := len(at.queue); g.at.strength != kv.NoLock && at.queue[n-1] != g.at {
				t.grant(at) // those behind it may have another to wait for
			}
		}
		return found, true
	}
	return Wait{}, false
}

// join puts the guard into the entry's queue, if it is not there yet.
func (t *Table) join(g *Guard, e *entry, strength kv.LockStrength) {
	if g.signal == nil {
		g.signal = make(chan struct{}, 1)
		g.seq = t.place(g.id())
	}
	if w := g.waiterAt(e, strength == kv.NoLock); w != nil {
		if w.strength < strength {
			w.strength = strength
		}
		w.granted = false // it waits again
		g.at = w
		return
	}
	if g.Txn == nil {
		for _, w := range g.waiters { // K4
			t.leave(w)
		}
		g.waiters = g.waiters[:0]
	}
	w := &waiter{g: g, e: e, strength: strength, since: t.now()}
	g.waiters = append(g.waiters, w)
	g.at = w
	if strength == kv.NoLock {
		e.readers = append(e.readers, w)
		return
	}
	i := len(e.queue)
	for i > 0 && t.before(w, e.queue[i-1]) {
		i--
	}
	e.queue = append(e.queue, nil)
	copy(e.queue[i+1:], e.queue[i:])
	e.queue[i] = w
}

// before orders a queue: upgrades first, because the others wait for their own transaction's lock; then by the
// order in which requests began to wait, at whichever key (K1).
func (t *Table) before(w, o *waiter) bool {
	if a, b := t.holds(w.g, w.e), t.holds(o.g, o.e); a != b {
		return a
	}
	return w.g.seq < o.g.seq
}

// State says what the guard waits for now; false if it should take latches and Scan again.
func (t *Table) State(g *Guard) (Wait, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := g.at
	if w == nil || w.e == nil {
		return Wait{}, false
	}
	wait, blocked := t.conflict(g, w.e, w.strength, w)
	if blocked {
		w.granted, w.front, w.holder = false, wait.Front, wait.Holder.ID
	}
	return wait, blocked
}

// Pushing notes whom the guard's owner is pushing, so that it is signalled when that is no longer in the way.
func (t *Table) Pushing(g *Guard, id kv.TxnID) {
	t.mu.Lock()
	g.pushing = id
	t.mu.Unlock()
}

// Finish ends the guard's part: it leaves all queues, and what it was granted goes to the next.
func (t *Table) Finish(g *Guard) {
	if len(g.waiters) == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, w := range g.waiters {
		t.leave(w)
	}
	g.waiters, g.at = nil, nil
}

// leave takes a place out of its entry and grants anew.
func (t *Table) leave(w *waiter) {
	e := w.e
	if e == nil {
		return
	}
	w.e = nil
	if w.strength == kv.NoLock {
		e.readers = without(e.readers, w)
	} else {
		e.queue = without(e.queue, w)
		t.grant(e)
	}
	t.dropIfEmpty(e)
}

func without(s []*waiter, w *waiter) []*waiter {
	for i, o := range s {
		if o == w {
			copy(s[i:], s[i+1:])
			s[len(s)-1] = nil
			return s[:len(s)-1]
		}
	}
	return s
}

// grant follows every change of an entry. It signals those whose turn it is (K3), those who push somebody that is no longer
// in their way (K2), and those who are the first from now on to wait for a transaction, and have to push it (K5).
func (t *Table) grant(e *entry) {
	var lead *waiter // has been told to push lead.holder, for which most of those behind it wait too
	for _, w := range e.queue {
		if lead != nil && w.g.pushing.IsZero() && t.follows(e, w, lead.holder) {
			w.granted, w.front, w.holder = false, false, lead.holder
			continue
		}
		if w.granted && w.g.pushing.IsZero() {
			continue
		}
		wait, blocked := t.conflict(w.g, e, w.strength, w)
		if !blocked {
			if !w.granted {
				w.granted = true
				w.g.wake()
			}
			continue
		}
		w.granted, w.holder = false, wait.Holder.ID
		if w.g.at != w {
			continue
		}
		if p := w.g.pushing; !p.IsZero() && wait.Holder.ID != p || wait.Front && !w.front {
			w.g.wake()
		}
		if w.front = wait.Front; lead == nil && wait.Front && w.g.Txn != nil && !w.holder.IsZero() {
			lead = w
		}
	}
	for _, w := range e.readers {
		wait, blocked := t.conflict(w.g, e, kv.NoLock, w)
		if p := w.g.pushing; !blocked || !p.IsZero() && wait.Holder.ID != p && w.g.at == w {
			w.g.wake()
		}
	}
}

// follows reports, at little cost, whether w surely waits for a transaction for which somebody before it waits: the only holder of
// the key, or the first in the queue if there is none.
func (t *Table) follows(e *entry, w *waiter, id kv.TxnID) bool {
	if w.g.id() == id {
		return false
	}
	switch len(e.holders) {
	case 0:
		o := e.queue[0]
		return o.g.Txn != nil && o.g.Txn.ID == id && !w.strength.Compatible(o.strength)
	case 1:
		h := &e.holders[0]
		return h.txn.ID == id && (h.intent || !min(w.strength, kv.Exclusive).Compatible(h.strength))
	}
	return false
}

// changed is grant, if somebody waits there.
func (t *Table) changed(e *entry) {
	if len(e.queue) > 0 || len(e.readers) > 0 {
		t.grant(e)
	}
}

// Acquire records that a transaction locked a key. Latches on the key must be held, and the last Scan must have let
// the request pass. g may be nil. A transaction that is known to have ended gets nothing: nobody would release it.
func (t *Table) Acquire(g *Guard, k keys.Key, txn *kv.TxnMeta, strength kv.LockStrength) {
	t.acquire(g, k, txn, strength, false)
}

// Keep is Acquire of a lock that is not forgotten without notice (K6). It returns the time from which on it is held, if it is
// not earlier than at.
func (t *Table) Keep(g *Guard, k keys.Key, txn *kv.TxnMeta, strength kv.LockStrength, at clock.Timestamp) clock.Timestamp {
	return at.Forward(t.acquire(g, k, txn, strength, true))
}

func (t *Table) acquire(g *Guard, k keys.Key, txn *kv.TxnMeta, strength kv.LockStrength, kept bool) (lost clock.Timestamp) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ended := t.finalized[txn.ID]; ended {
		return t.lost
	}
	e := t.getOrAdd(k)
	held := false
	for i := range e.holders {
		if h := &e.holders[i]; h.txn.ID == txn.ID {
			anchor := h.txn.Anchor
			h.txn, held = *txn, true
			if h.txn.Anchor = anchor; !anchor.Equal(txn.Anchor) {
				h.txn.Anchor = e.ownAnchor(txn.Anchor)
			}
			if h.strength < strength {
				h.strength = strength
			}
			h.kept = h.kept || kept
		}
	}
	if !held {
		h := holder{txn: *txn, strength: strength, kept: kept}
		h.txn.Anchor = e.ownAnchor(txn.Anchor)
		e.holders = append(e.holders, h)
	}
	if len(e.queue) > 0 {
		if g != nil {
			for i, w := range g.waiters {
				if w.e == e && w.strength != kv.NoLock {
					w.e = nil
					e.queue = without(e.queue, w)
					g.waiters = append(g.waiters[:i], g.waiters[i+1:]...)
					break
				}
			}
		}
		t.grant(e) // Shared waiters may share, pushers get a new holder
	}
	return t.lost
}

// Discover records an intent that a request met. It returns false, having done nothing, if a hold ended since
// Releases returned since: the intent may be gone by now. Requests with write latches on the key pass Releases().
func (t *Table) Discover(k keys.Key, txn *kv.TxnMeta, at clock.Timestamp, since uint64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.releases.Load() != since {
		return false
	}
	e := t.getOrAdd(k)
	for i := range e.holders {
		if h := &e.holders[i]; h.txn.ID == txn.ID {
			if !h.intent {
				t.intents.Add(1)
			}
			if h.txn.Attempt < txn.Attempt {
				// A later attempt wrote it again: what is pushed and resolved in the name of the old one no longer
				// touches it.
				anchor := h.txn.Anchor
				if h.txn = *txn; anchor.Equal(txn.Anchor) {
					h.txn.Anchor = anchor
				} else {
					h.txn.Anchor = e.ownAnchor(txn.Anchor)
				}
			}
			h.txn.WriteTimestamp = h.txn.WriteTimestamp.Forward(txn.WriteTimestamp)
			h.intent, h.at = true, at
			t.changed(e) // what its readers met may have moved past them
			return true
		}
	}
	// There is one intent for a key. Another one in the table is a remnant.
	for i := 0; i < len(e.holders); i++ {
		if h := &e.holders[i]; !h.intent {
			continue
		} else if h.strength != kv.NoLock {
			h.intent = false
			t.intents.Add(-1)
			t.releases.Add(1)
		} else {
			t.dropHolder(e, i)
			i--
		}
	}
	e.holders = append(e.holders, holder{txn: *txn, intent: true, at: at})
	h := &e.holders[len(e.holders)-1]
	h.txn.Anchor = e.ownAnchor(txn.Anchor)
	t.intents.Add(1)
	t.changed(e) // its own transaction may pass now, and those who wait have another to push
	return true
}

func (t *Table) dropHolder(e *entry, i int) {
	if e.holders[i].intent {
		t.intents.Add(-1)
	}
	t.releases.Add(1)
	last := len(e.holders) - 1
	copy(e.holders[i:], e.holders[i+1:])
	e.holders[last] = holder{}
	e.holders = e.holders[:last]
}

// release ends a transaction's hold of an entry's key.
func (t *Table) release(e *entry, id kv.TxnID) {
	for i := range e.holders {
		if e.holders[i].txn.ID == id {
			t.dropHolder(e, i)
			t.changed(e)
			break
		}
	}
}

// Release ends a transaction's hold of a key.
func (t *Table) Release(k keys.Key, id kv.TxnID) {
	t.releases.Add(1)
	if t.size.Load() == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := t.get(k); e != nil {
		t.release(e, id)
		t.dropIfEmpty(e)
	}
}

// ReleaseSpan ends a transaction's holds of all keys of a span.
func (t *Table) ReleaseSpan(s keys.Span, id kv.TxnID) {
	if s.Point() {
		t.Release(s.Start, id)
		return
	}
	t.releases.Add(1)
	if t.size.Load() == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	var met []*entry
	t.entries.AscendRange(&entry{key: s.Start}, &entry{key: s.End}, func(e *entry) bool {
		for i := range e.holders {
			if e.holders[i].txn.ID == id {
				met = append(met, e)
				break
			}
		}
		return true
	})
	for _, e := range met {
		t.release(e, id)
		t.dropIfEmpty(e)
	}
}

// Moved records that an intent was moved to a later timestamp, past some of its readers.
func (t *Table) Moved(k keys.Key, id kv.TxnID, at clock.Timestamp) {
	t.releases.Add(1)
	if t.intents.Load() == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.get(k)
	if e == nil {
		return
	}
	for i := range e.holders {
		if h := &e.holders[i]; h.txn.ID == id && h.intent {
			h.at = h.at.Forward(at)
		}
	}
	t.grant(e)
}

// MovedSpan is Moved for all of a transaction's intents in a span.
func (t *Table) MovedSpan(s keys.Span, id kv.TxnID, at clock.Timestamp) {
	if s.Point() {
		t.Moved(s.Start, id, at)
		return
	}
	t.releases.Add(1)
	if t.intents.Load() == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	var met []*entry
	t.entries.AscendRange(&entry{key: s.Start}, &entry{key: s.End}, func(e *entry) bool {
		for i := range e.holders {
			if h := &e.holders[i]; h.txn.ID == id && h.intent {
				h.at = h.at.Forward(at)
				met = append(met, e)
			}
		}
		return true
	})
	for _, e := range met {
		t.grant(e)
	}
}

// Finalized records that a transaction has ended: its unreplicated locks go, its intents are recognised, and if it
// was aborted its waiting requests lose their places (they may belong to a gateway that is gone).
func (t *Table) Finalized(id kv.TxnID, s kv.Status) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ok := t.finalized[id]; !ok {
		delete(t.finalized, t.finalRing[t.finalNext])
		t.finalRing[t.finalNext] = id
		t.finalNext = (t.finalNext + 1) % finalizedMax
		t.finalized[id] = s
	}
	var met []*entry
	t.entries.Ascend(func(e *entry) bool {
		for i := range e.holders {
			if e.holders[i].txn.ID == id {
				met = append(met, e)
				return true
			}
		}
		for _, w := range e.queue {
			if w.g.id() == id {
				met = append(met, e)
				return true
			}
		}
		return true
	})
	for _, e := range met {
		for i := range e.holders {
			if h := &e.holders[i]; h.txn.ID == id && !h.intent {
				t.dropHolder(e, i)
				break
			}
		}
		if s == kv.Aborted {
			for i := 0; i < len(e.queue); i++ {
				if w := e.queue[i]; w.g.id() == id {
					w.e, w.g.doomed = nil, true
					e.queue = without(e.queue, w)
					i--
					w.g.wake()
				}
			}
		}
		t.grant(e)
		t.dropIfEmpty(e)
	}
}

// Doomed reports whether the guard's transaction turned out to be aborted while it waited: it has no place in any
// queue any more.
func (t *Table) Doomed(g *Guard) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return g.doomed
}

// Ended says how a transaction ended, if the table knows.
func (t *Table) Ended(id kv.TxnID) (kv.Status, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s, ok := t.finalized[id]
	return s, ok
}

// IntentsOf lists the known keys on which an ended transaction left intents, at most max.
func (t *Table) IntentsOf(id kv.TxnID, max int) []keys.Key {
	t.mu.Lock()
	defer t.mu.Unlock()
	var ks []keys.Key
	t.entries.Ascend(func(e *entry) bool {
		for i := range e.holders {
			if h := &e.holders[i]; h.intent && h.txn.ID == id {
				ks = append(ks, e.key)
			}
		}
		return len(ks) < max
	})
	return ks
}

// Clear forgets everything and signals everybody (K3): the lease is gone, or the data was replaced.
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

// Holds are the holds of a part of the keys, for the table of another range.
type Holds struct {
	entries []*entry
	lost    clock.Timestamp
}

// Split takes out all keys from k on. Their waiters are signalled, and ask anew.
func (t *Table) Split(k keys.Key) Holds {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := Holds{lost: t.lost}
	t.entries.AscendGreaterOrEqual(&entry{key: k}, func(e *entry) bool {
		h.entries = append(h.entries, e)
		return true
	})
	for _, e := range h.entries {
		t.entries.Delete(e)
		e.evict()
		for i := range e.holders {
			if e.holders[i].intent {
				t.intents.Add(-1)
			}
		}
	}
	t.size.Store(int64(t.entries.Len()))
	t.releases.Add(1)
	return h
}

// Join adds holds that another table gave up.
func (t *Table) Join(h Holds) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lost = t.lost.Forward(h.lost)
	for _, e := range h.entries {
		if len(e.holders) == 0 {
			continue
		}
		if kept := e.kept(); t.entries.Len() >= t.max && (!kept || t.entries.Len() >= maxKept*t.max) {
			if kept {
				t.lose()
			}
			continue
		}
		if old, ok := t.entries.ReplaceOrInsert(e); ok {
			// A request that has read before the range was split has put it here since. Who waits there would never hear
			// of a release.
			old.evict()
			if old.kept() {
				t.lose()
			}
			for i := range old.holders {
				if old.holders[i].intent {
					t.intents.Add(-1)
				}
			}
		}
		for i := range e.holders {
			if e.holders[i].intent {
				t.intents.Add(1)
			}
		}
	}
	t.size.Store(int64(t.entries.Len()))
}
