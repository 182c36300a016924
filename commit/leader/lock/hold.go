package lock

import (
	"meridian/clock"
	"meridian/keys"
	"meridian/kv"
)

// holder is one transaction's hold of a key.
type holder struct {
	txn      kv.TxnMeta
	strength kv.LockStrength // of the unreplicated lock; NoLock if there is only an intent
	intent   bool
	kept     bool            // lock.K6
	at       clock.Timestamp // of the intent
}

// Acquire records that a transaction locked a key. Latches on the key must be held, and the last Scan must have let
// the request pass. g may be nil. A transaction that is known to have ended gets nothing: nobody would release it.
func (t *Table) Acquire(g *Guard, k keys.Key, txn *kv.TxnMeta, strength kv.LockStrength) {
	t.acquire(g, k, txn, strength, false)
}

// Keep is Acquire of a lock that is not forgotten without notice (lock.K6). It returns the time from which on it is held, if it is
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
