package lock

import (
	"meridian/keys"
	"meridian/kv"
)

// finalizedMax is how many ended transactions a table remembers, so that what they left is recognised without a
// push. It covers the transactions that one scan is likely to meet.
const finalizedMax = 128

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
