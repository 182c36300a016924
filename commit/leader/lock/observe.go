package lock

import (
	"time"

	"meridian/keys"
	"meridian/kv"
)

// observeChunk is how many entries are looked at before the table is free for others again.
const observeChunk = 512

// Observe calls f for the locks and the waits of the table until f says no. The table goes on between any two chunks of
// entries, so the whole is no state of one moment; each entry is.
func (t *Table) Observe(f func(kv.LockState) bool) {
	var from keys.Key
	var out []kv.LockState
	for more := true; more; {
		out, more = out[:0], false
		t.mu.Lock()
		seen := 0
		t.entries.AscendGreaterOrEqual(&entry{key: from}, func(e *entry) bool {
			if seen++; seen > observeChunk {
				from, more = e.key, true
				return false
			}
			out = t.observe(out, e)
			return true
		})
		t.mu.Unlock()
		for _, s := range out {
			if !f(s) {
				return
			}
		}
	}
}

func (t *Table) observe(out []kv.LockState, e *entry) []kv.LockState {
	for i := range e.holders {
		h := &e.holders[i]
		strength := h.strength
		if h.intent {
			strength = kv.Exclusive // it is in every locker's way
		}
		if _, ended := t.finalized[h.txn.ID]; !ended {
			out = append(out, kv.LockState{Key: e.key, Txn: h.txn.ID, Gateway: h.txn.Gateway, Strength: strength, Granted: true})
		}
	}
	wait := func(w *waiter) {
		if w.g.at != w || w.granted {
			return
		}
		first, blocked := t.conflict(w.g, e, w.strength, w)
		if !blocked {
			return
		}
		s := kv.LockState{Key: e.key, Txn: w.g.id(), Strength: min(w.strength, kv.Exclusive), Since: w.since}
		if w.strength == Write {
			s.Strength = t.writing(w.g, e)
		}
		if w.g.Txn != nil {
			s.Gateway = w.g.Txn.Gateway
		}
		for i := range e.holders {
			h := &e.holders[i]
			if !w.g.owns(h) && (s.Strength == kv.NoLock && h.intent && !w.g.ReadAt.Less(h.at) ||
				s.Strength != kv.NoLock && (h.intent || !s.Strength.Compatible(h.strength))) {
				s.For = append(s.For, kv.LockHolder{Txn: h.txn.ID, Gateway: h.txn.Gateway})
			}
		}
		if len(s.For) == 0 { // the key is granted to one that came first and has not taken it yet
			s.For = append(s.For, kv.LockHolder{Txn: first.Holder.ID, Gateway: first.Holder.Gateway})
		}
		out = append(out, s)
	}
	for _, w := range e.queue {
		wait(w)
	}
	for _, w := range e.readers {
		wait(w)
	}
	return out
}

// now is what waits are dated by; zero if the table has no clock.
func (t *Table) now() time.Time {
	if t.Now == nil {
		return time.Time{}
	}
	return time.Unix(0, t.Now().Wall)
}
